"""The reference is complete: every public name is in it, and its docstring says what it is, takes, returns and does."""

from __future__ import annotations

import enum
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString

pytestmark = pytest.mark.tools
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
    "condgrad.compat.skada",
)
NOT_RUN = {
    "datasets.load_colon": "its data are not shipped",
    "datasets.load_lymphoma": "its data are not shipped",
}
"""Examples that only show a call, and why they do not run."""


def public_names() -> list[tuple[str, Any]]:
    """Names as the reference writes them, after `condgrad.`, and what they stand for; modules have their own names."""
    found = []
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                found.append((f"{module.__name__}.{name}".removeprefix("condgrad."), value))
    return found


PUBLIC = public_names()
DOCUMENTED = [(name, value) for name, value in PUBLIC if callable(value)]


def parameters(value: Any) -> list[str]:
    """What a docstring must say a word on: parameters, the fields of a record, the members of an enumeration."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return list(value.__members__)
    if inspect.isclass(value) and issubclass(value, Exception):
        return []
    named = inspect.signature(value).parameters.values()
    if inspect.isclass(value):  # a protocol has *args and **kwargs, which nobody gives
        named = [
            parameter
            for parameter in named
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
    return [parameter.name for parameter in named]


def described(doc: NumpyDocString) -> set[str]:
    entries = doc["Parameters"] + doc["Attributes"]
    return {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}


def own_members(value: type) -> list[tuple[str, Any]]:
    """Public methods and properties that this package has written for a class."""
    found = []
    for name, member in inspect.getmembers(value):
        code = member.fget if isinstance(member, property) else getattr(member, "func", member)
        if (
            not name.startswith("_")
            and inspect.isroutine(code)
            and str(getattr(code, "__module__", "")).startswith("condgrad")
        ):
            found.append((name, member))
    return found


@pytest.mark.parametrize("name", [name for name, _ in PUBLIC])
def test_public_name_is_in_the_reference(name: str) -> None:
    entries = {line.strip() for line in REFERENCE.splitlines()}
    assert name in entries or f"`{name}`" in REFERENCE, f"docs/api.md does not list {name}"


def test_reference_names_nothing_that_is_gone() -> None:
    known = {name for name, _ in PUBLIC}
    entries = {
        line.strip()
        for line in REFERENCE.splitlines()
        if line.startswith("   ") and not line.startswith("   :")
    }
    assert entries - known == set()


@pytest.mark.parametrize(("name", "value"), DOCUMENTED, ids=[name for name, _ in DOCUMENTED])
def test_docstring_is_complete(name: str, value: Any) -> None:
    doc = NumpyDocString(inspect.getdoc(value) or "")
    assert "".join(doc["Summary"]).strip(), f"{name} has no summary"
    assert [p for p in parameters(value) if p not in described(doc)] == [], (
        f"{name} does not describe these"
    )
    if inspect.isfunction(value) and value.__annotations__.get("return") != "None":
        assert doc["Returns"], f"{name} does not say what it returns"
    lines = [line for line in doc["Examples"] if line.lstrip().startswith(">>>")]
    assert lines, f"{name} has no example"
    assert any("+SKIP" in line for line in lines) == (name in NOT_RUN), (
        f"the example of {name} does not run"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [pair for pair in DOCUMENTED if inspect.isclass(pair[1])],
    ids=[name for name, value in DOCUMENTED if inspect.isclass(value)],
)
def test_members_of_a_class_have_docstrings(name: str, value: type) -> None:
    silent = [member for member, code in own_members(value) if not inspect.getdoc(code)]
    assert silent == [], f"{name} has members without a word"
