"""Shared by all tests: threads, hypothesis settings, and optional libraries that CI must have."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from types import ModuleType

# Tests run side by side, one process a core: with more threads of BLAS than that, small solves wait for each other and
# take up to fifty times as long. BLAS reads it when NumPy is loaded, which nothing has done before this file.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True, max_examples=40)
settings.load_profile("repeatable")


def optional(module: str) -> ModuleType:
    """An optional library, or a skip; where CI is set a missing one is a failure."""
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{module} is not installed")


@pytest.fixture(autouse=True)
def kernels_of_its_own() -> Iterator[None]:
    """What a method takes into use outside a run, when a test calls it by hand, is not in use in the next test."""
    from condgrad import kernels

    with kernels.within_run():
        yield


@pytest.fixture
def coarse_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table of new colours, where nothing asks how precise it is: most of a recolouring is to fill it."""
    monkeypatch.setattr("condgrad.transport.color.CUBE", 17)


@pytest.fixture
def torch() -> ModuleType:
    return optional("torch")
