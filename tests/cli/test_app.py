"""The command line as a whole: help, and what every command has in common."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from condgrad.cli.app import app
from condgrad.errors import install_command
from tests.cli.conftest import Command

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback is not None]
IN_A_CLONE = ["paper", "bench"]


def test_all_commands_are_there() -> None:
    assert ["transport", "recolor", "fit", "predict", "doctor", *IN_A_CLONE] == COMMANDS


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in IN_A_CLONE])
def test_help_shows_examples_and_fits(
    command: str, width: str, condgrad_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    ended = condgrad_here(command, "--help")
    assert ended.code == 0
    # an example is a line of its own, that can be copied
    assert len(re.findall(rf"^   condgrad {command}\b", ended.stdout, re.MULTILINE)) >= 2
    assert "Exit codes: " in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= int(width)
    assert "Traceback" not in ended.stderr


def test_help_of_the_whole_names_the_commands_and_exit_codes(condgrad: Command) -> None:
    ended = condgrad("--help")
    assert ended.code == 0
    for command in COMMANDS:
        assert re.search(rf"^\W*{command} ", ended.stdout, re.MULTILINE)
    assert "Exit codes: 0 certified, 2 bad input, 3 not converged" in ended.stdout


@pytest.mark.parametrize("command", [*(name for name in COMMANDS if name not in IN_A_CLONE), ""])
def test_an_unknown_option_is_bad_input(command: str, condgrad_here: Command) -> None:
    ended = condgrad_here(*filter(None, [command]), "--no-such-option")
    assert ended.code == 2
    assert "--no-such-option" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unknown_command_is_bad_input(condgrad_here: Command) -> None:
    ended = condgrad_here("transprot")
    assert ended.code == 2
    assert "transprot" in ended.stderr


def test_the_command_line_starts_without_drawing_libraries() -> None:
    """So that `condgrad doctor` can say what is wrong with them, and nobody waits for them."""
    heavy = ("matplotlib", "plotly", "torch", "ot", "cvxopt", "mosek", "numba")
    program = f"import sys, condgrad.cli.app; sys.exit(', '.join(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_without_typer_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys; sys.modules['typer'] = None; from condgrad.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"condgrad: the command line needs typer: {install_command('cli')}\n"
