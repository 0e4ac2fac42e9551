"""The reference on the site is complete: every public name is in it and has a docstring."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

REFERENCE = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
MODULES = (
    "condgrad",
    "condgrad.smooth",
    "condgrad.simple",
    "condgrad.sets",
    "condgrad.steps",
    "condgrad.stopping",
    "condgrad.transport",
    "condgrad.linear_model",
    "condgrad.datasets",
    "condgrad.compat.pot",
)


def public_names() -> list[tuple[str, object]]:
    """Names as the reference writes them, after `condgrad.`, and what they stand for; modules have their own names."""
    found = []
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None)
        if names is None:
            names = [
                name
                for name, value in vars(module).items()
                if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
            ]
        for name in names:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                found.append((f"{module.__name__}.{name}".removeprefix("condgrad."), value))
    return found


@pytest.mark.parametrize(("name", "value"), public_names(), ids=[name for name, _ in public_names()])
def test_public_name_is_in_the_reference(name: str, value: object) -> None:
    entries = {line.strip() for line in REFERENCE.splitlines()}
    assert name in entries or f"`{name}`" in REFERENCE, f"docs/api.md does not list {name}"
    if callable(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_reference_names_nothing_that_is_gone() -> None:
    known = {name for name, _ in public_names()}
    entries = {
        line.strip() for line in REFERENCE.splitlines() if line.startswith("   ") and not line.startswith("   :")
    }
    assert entries - known == set()
