"""Shared by all tests: threads, hypothesis settings, and which tests `make test` leaves to `make test-rest`."""

from __future__ import annotations

import os
from types import ModuleType

# Tests run side by side, one process a core: with more threads of BLAS than that, small solves wait for each other and
# take up to fifty times as long. BLAS reads it when NumPy is loaded, which nothing has done before this file.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a test compares must not depend on whether another process has compiled the kernels yet.
os.environ["CONDGRAD_KERNELS"] = "wait"

import matplotlib
import numpy
import pytest
import sklearn
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, print_blob=True, max_examples=12
)
settings.load_profile("repeatable")


MARK_OF_FIXTURE = {"torch": "torch", "browser": "browser", "client": "slow"}
"""What a test is marked with that uses a fixture: `client` is a cluster of processes."""
LEFT_TO_THE_REST = ("torch", "browser", "tools", "slow")
MARK_OF_EXAMPLE = {"import torch": "torch", "compat.skada": "tools"}
"""What an example in a docstring is marked with that says this."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they use, so that none can be forgotten: by fixtures, or by torch among its parameters or in
    the examples of a docstring.

    Nothing is skipped where a library is missing: a marked test is selected or it is not.
    """
    # skada turns this on for everybody when it is loaded, which collecting its tests does
    sklearn.set_config(enable_metadata_routing=False)
    for item in items:
        for fixture, mark in MARK_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        examples = (
            item.dtest.examples
            if isinstance(item, pytest.DoctestItem) and item.dtest is not None
            else ()
        )
        if any(map(is_of_torch, parameters)):
            item.add_marker("torch")
        for words, mark in MARK_OF_EXAMPLE.items():
            if any(words in example.source for example in examples):
                item.add_marker(mark)
    leave_the_rest(items)


def leave_the_rest(items: list[pytest.Item]) -> None:
    """Mark with `rest` what `make test` leaves to `make test-rest`.

    That is what needs more than Python or is slow by nature, and combinations: `make test` tries each value of each
    parameter of a test, `make test-rest` the products of these values.
    """
    tried: dict[object, set[object]] = {}
    for item in items:
        if any(item.get_closest_marker(mark) for mark in LEFT_TO_THE_REST):
            item.add_marker("rest")
        elif hasattr(item, "callspec"):
            values = parameter_values(item)
            before = tried.setdefault((item.path, item.function.__qualname__), set())
            if values <= before:
                item.add_marker("rest")
            before |= values


def parameter_values(item: pytest.Function) -> set[object]:
    """What each parametrisation and each fixture with parameters gives to a test; values are told by identity."""
    params = item.callspec.params
    together = [mark.args[0] for mark in item.iter_markers("parametrize")]
    axes = [
        tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
        for names in together
    ]
    named = {name for axis in axes for name in axis}
    axes += [(name,) for name in params if name not in named]
    return {(axis, *(id(params[name]) for name in axis)) for axis in axes}


def is_of_torch(value: object) -> bool:
    """Whether a parameter is the name of something of torch, or such a thing; arrays are not turned to text for it."""
    return (
        value.startswith("torch")
        if isinstance(value, str)
        else type(value).__module__.startswith("torch")
    )


@pytest.fixture
def coarse_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table of new colours, where nothing asks how precise it is: most of a recolouring is to fill it."""
    monkeypatch.setattr("condgrad.transport.color.CUBE", 17)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    import torch

    return torch


@pytest.fixture(params=["numpy", "torch"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """NumPy, and in tests of their own torch."""
    return numpy if request.param == "numpy" else request.getfixturevalue("torch")
