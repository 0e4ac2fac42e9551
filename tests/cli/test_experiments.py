"""`condgrad paper` and `condgrad bench`: handed over to a clone's experiments, or one sentence on where they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

STUB = """
import typer

app = typer.Typer()


@app.command()
def paper(quick: bool = False, out: str = "out") -> None:
    '''The paper's experiments.'''
    print("paper", quick, out)


@app.command()
def bench(name: str, arguments: list[str]) -> None:
    print("bench", name, arguments)
    raise typer.Exit(7)
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository whose experiments are a stub."""
    (tmp_path / "clone" / "experiments").mkdir(parents=True)
    (tmp_path / "clone" / "experiments" / "__init__.py").touch()
    (tmp_path / "clone" / "experiments" / "__main__.py").write_text(STUB)
    monkeypatch.setattr("condgrad.cli.app.REPOSITORY", tmp_path / "clone")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("experiments", "experiments.__main__"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("clone")
def test_arguments_and_exit_codes_are_passed_on(condgrad_here: Command) -> None:
    done = condgrad_here("paper", "--quick", "--out", "here")
    assert (done.code, done.stdout) == (0, "paper True here\n")
    done = condgrad_here("bench", "transport", "--", "--sizes", 100, "a b")
    assert (done.code, done.stdout) == (7, "bench transport ['--sizes', '100', 'a b']\n")
    assert "The paper's experiments." in condgrad_here("paper", "--help").stdout
    assert condgrad_here("paper", "--no-such-option").code == 2


@pytest.mark.parametrize("command", ["paper", "bench"])
def test_an_installation_says_where_they_are(
    command: str, condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condgrad.cli.app.REPOSITORY", tmp_path)
    done = condgrad_here(command, "--quick")
    assert done.code == 2
    assert done.stderr.count("\n") == 1
    assert f"run `python -m experiments {command}` there" in done.stderr
