"""The command as a user runs it: the installed script in its own process, or its entry point in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from condgrad.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def condgrad(tmp_path: Path) -> Command:
    """Runs the installed `condgrad` script in `tmp_path`, 80 columns wide."""
    script = Path(sys.executable).with_name("condgrad")

    def command(*arguments: object) -> Ended:
        done = subprocess.run(
            [script, *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return command


@pytest.fixture
def drawn() -> None:
    """For tests that look at a picture."""


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are files without content, where nothing looks at them: to draw one takes longer than a fit."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("condgrad.pictures.save_figure", lambda _, file: file.touch())


@pytest.fixture
def condgrad_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs the same entry point in this process, in `tmp_path`: what starts in a second there starts at once here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["condgrad", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        if isinstance(end.value.code, str):
            return Ended(1, said.out, said.err + end.value.code)
        return Ended(int(end.value.code or 0), said.out, said.err)

    return command
