"""Shared by all tests: hypothesis settings, and optional libraries that CI must have."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable")


def optional(module: str) -> ModuleType:
    """An optional library, or a skip; where CI is set a missing one is a failure."""
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{module} is not installed")


@pytest.fixture
def torch() -> ModuleType:
    return optional("torch")
