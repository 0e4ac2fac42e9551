"""Docstrings of the library run as doctests; those that need torch are left out where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(item, pytest.DoctestItem) and find_spec("torch") is None:
        sources = "".join(example.source for example in item.dtest.examples)  # type: ignore[union-attr]
        if "import torch" in sources:
            pytest.skip("torch is not installed")
