"""The command line as a whole: help, and what every command has in common."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import condgrad as cg
from condgrad.cli.app import app
from condgrad.errors import install_command
from tests.cli.conftest import Command

COMMANDS = [
    command.callback.__name__ for command in app.registered_commands if command.callback is not None
]
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


def test_help_of_the_whole_names_the_commands_and_exit_codes(condgrad_here: Command) -> None:
    ended = condgrad_here("--help")
    assert ended.code == 0
    for command in COMMANDS:
        assert re.search(rf"^\W*{command} ", ended.stdout, re.MULTILINE)
    assert "Exit codes: 0 certified, 2 bad input, 3 not converged" in ended.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_has_no_broken_lines(command: str) -> None:
    """typer keeps the line breaks of a first paragraph, so it must be one line."""
    (function,) = (
        each.callback
        for each in app.registered_commands
        if each.callback is not None and each.callback.__name__ == command
    )
    assert "\n" not in inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0]


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


def test_without_typer_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys; sys.modules['typer'] = None; from condgrad.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"condgrad: the command line needs typer: {install_command('cli')}\n"


@pytest.mark.slow  # processes of their own
def test_what_the_command_line_loads_and_what_it_says_where_that_is_missing(tmp_path: Path) -> None:
    """No drawing library: `condgrad doctor` can say what is wrong with them, and nobody waits for them."""
    heavy = ("matplotlib", "plotly", "torch", "ot", "cvxopt", "mosek", "numba")
    packages = ["pandas", "jinja2", "psutil", "PIL", "rich"]
    # one process: what other packages take to load is paid once
    program = f"""
import sys
from condgrad.cli import main
for missing in {packages}:
    for name in [name for name in sys.modules if name.startswith("condgrad.cli.") or name.split(".")[0] == missing]:
        del sys.modules[name]
    sys.modules[missing] = None
    try:
        main()
    except SystemExit as end:
        print(end.code)
    del sys.modules[missing]
import condgrad.cli.app
print(*(name for name in {heavy} if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    *sentences, loaded = done.stdout.splitlines()
    assert loaded == ""
    for missing, said in zip(packages, sentences, strict=True):
        sentence = re.fullmatch(rf"condgrad: the command line needs {missing}\S*: (.*)", said)
        assert sentence is not None, said
        assert sentence[1] == install_command("cli")


def test_a_live_line_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    f, g = cg.smooth.LeastSquares([[1.0, 2.0]], [3.0]), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(cg.errors.MissingExtra) as missing:
        cg.minimize(f, g, progress=True)
    sentence = (
        f"a live line of progress needs rich, which is not installed: {install_command('cli')}"
    )
    assert str(missing.value) == sentence


class Installed:
    """What pip or uv left behind of an installation."""

    def __init__(self, origin: dict[str, Any] | None, installer: str = "pip") -> None:
        self.files = {
            "direct_url.json": None if origin is None else json.dumps(origin),
            "INSTALLER": installer + "\n",
        }

    def read_text(self, name: str) -> str | None:
        return self.files[name]


def test_the_advice_installs_from_where_the_package_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = {"url": tmp_path.as_uri(), "dir_info": {}}
    origins: list[tuple[dict[str, Any] | None, str]] = [
        (None, "'condgrad[plot]'"),
        (folder, f"'{tmp_path}[plot]'"),
        (folder | {"dir_info": {"editable": True}}, f"-e '{tmp_path}[plot]'"),
        (folder | {"url": "file:///gone"}, "'.[plot]' in the folder of condgrad's sources"),
        (
            {
                "url": "https://example.org/condgrad.git",
                "vcs_info": {"vcs": "git", "commit_id": "0"},
            },
            "'condgrad[plot] @ git+https://example.org/condgrad.git'",
        ),
        (
            {"url": "https://example.org/condgrad.whl", "archive_info": {}},
            "'condgrad[plot] @ https://example.org/condgrad.whl'",
        ),
    ]
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    for origin, requirement in origins:
        monkeypatch.setattr(
            "importlib.metadata.distribution", lambda _, origin=origin: Installed(origin)
        )
        assert install_command("plot") == f"pip install {requirement}"
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(None, "uv"))
    assert install_command("plot") == f"uv pip install --python {sys.executable} 'condgrad[plot]'"
    # the pip of another Python would install where nobody looks
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(None))
    assert install_command("plot") == f"{sys.executable} -m pip install 'condgrad[plot]'"


@pytest.mark.slow  # processes of their own
def test_long_commands_show_their_progress_on_a_terminal(
    condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing where standard error is no terminal."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "x.npy", X)
    Image.fromarray((50 * np.abs(X)).astype(np.uint8)[..., None].repeat(3, axis=2)).save(
        tmp_path / "i.png"
    )
    commands = {
        "fit": ("fit", "x.npy", "--target", 0, "--radius", 1, "--folds", 2),
        "iteration": ("transport", "x.npy", "x.npy", "--laplacian", 1),
        "gap": ("recolor", "i.png", "i.png", "--samples", 20, "--out", "a.png"),
    }
    assert [condgrad_here(*command).stderr for command in commands.values()] == ["", "", ""]
    monkeypatch.setattr("condgrad.cli.report.errors", Console(stderr=True, force_terminal=True))
    said = {word: condgrad_here(*command).stderr for word, command in commands.items()}
    assert all(word in text for word, text in said.items())
    assert "the picture is drawn" in said["iteration"]
    assert "the image is painted" in said["gap"]
    assert "a.png is written" in said["gap"]
