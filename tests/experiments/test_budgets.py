"""The counts of the budgets, on sources small enough to count by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments import budgets

REPOSITORY = Path(__file__).parents[2]
SOURCE = '''"""A docstring."""

LIMIT = 0.5
"""Another one."""


def sign(x):
    # a comment
    if x > 3.5:
        return 1
    for _ in range(2):
        try:
            return -2
        except ValueError:
            pass
    return x[-1]
'''


def test_tokens_are_those_of_code() -> None:
    assert budgets.code_tokens('"""Told."""\n\nx = 1  # why\n"""Of x."""\n') == 3
    assert budgets.code_tokens('x = "kept"\n') == 3


def test_branches_are_those_of_ruff() -> None:
    [(node, count)] = budgets.functions_of(SOURCE)
    assert (node.name, count) == ("sign", 4)


def test_numbers_that_are_not_plain_are_found_with_their_lines() -> None:
    assert list(budgets.numbers_of(SOURCE)) == [(9, 3.5), (13, -2)]
    assert list(budgets.numbers_of("x = (True, 0.0, 1, 2.0, 0.5, -1)")) == []


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A package with a folder that some reach into, and two modules that need each other."""
    files = {
        "house/__init__.py": "from house.first import a\n",
        "house/first.py": "def a():\n    from house.second import b\n",
        "house/second.py": "import house.first\nfrom house.room import door\n",
        "house/third.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from house import first\n"
            "from house.room import bed\n"
        ),
        "house/room/__init__.py": "from house.room.bed import door\n",
        "house/room/bed.py": "from . import chair\ndoor = 1\n",
        "house/room/chair.py": "",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return tmp_path


def test_lazy_imports_make_cycles_too(sources: Path) -> None:
    imports = budgets.imports_in(sources)
    assert budgets.cycles(imports) == [["house.first", "house.second"]]
    pairs = {(each.importer, each.imported) for each in imports}
    assert ("house.room.bed", "house.room.chair") in pairs
    assert not any(
        importer == "house.third" and imported != "house.room.bed" for importer, imported in pairs
    )


def test_imports_from_inside_a_folder_are_those_of_its_modules(sources: Path) -> None:
    [place] = budgets.imports_from_inside(budgets.imports_in(sources), "house.room")
    assert place.line == 4
    assert place.what == "imports house.room.bed"
    assert place.file.endswith("third.py")


def test_counts_of_the_house() -> None:
    assert budgets.lines_of_code(SOURCE) == 10
    assert list(budgets.kinds_of_assignments("a, b = 1, 2\nc = 3\nd, e = f()")) == [
        True,
        False,
        False,
    ]
    assert budgets.shared_class_names(["class _A: ...", "class A: ...\nclass B: ..."]) == ["A"]


def test_names_of_several_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "kernels" / "b.py", tmp_path / "kernels" / "c.py"]
    files[1].parent.mkdir()
    for file in files:
        file.write_text("FEW, MANY = 1, 2\n__all__ = []\n\n\ndef times(): ...\n", "utf-8")
    assert budgets.shared_names(files, budgets.constants_of) == ["FEW", "MANY"]
    assert budgets.shared_names(files, budgets.names_of_functions) == ["times"]
    assert budgets.shared_names(files[1:], budgets.names_of_functions) == []


def test_needs_go_through_other_modules(sources: Path) -> None:
    needed = budgets.needed_by("house.third", budgets.imports_in(sources))
    assert needed == {"house.third", "house.room.bed", "house.room.chair"}


@pytest.mark.slow
def test_the_house_keeps_its_budgets() -> None:
    found = budgets.house()
    assert found.keys() == budgets.HOUSE.keys()
    table = [f"{name}: {found[name]:.4g}, at most {most:g}" for name, most in budgets.HOUSE.items()]
    assert all(found[name] <= most for name, most in budgets.HOUSE.items()), "\n".join(table)


@pytest.mark.slow
def test_the_command_lists_the_files_of_a_fit(tmp_path: Path) -> None:
    out = tmp_path / "budgets.json"
    words = ["budgets", "--files", "--out", str(out), "src/condgrad/linear_model/path.py"]
    command = [sys.executable, "-m", "experiments", *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
    assert "files that ConstrainedLogisticRegression.fit runs through" in done.stdout
    assert "linear_model/base.py" in done.stdout
    assert '"running"' in out.read_text("utf-8")
