"""`condgrad paper` and `condgrad bench`, for people with a clone: both live in its `experiments` folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import typer

from condgrad.cli.report import BadInput

PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Options, --help among them, are those of the experiments."""

REPOSITORY = Path(__file__).resolve().parents[3]
"""The root of the clone, where this package lies in one."""


def paper(context: typer.Context) -> None:
    """Run the paper's experiments: figures, tables, and what became of each claim. Needs a clone."""
    _hand_over("paper", context.args)


def bench(context: typer.Context) -> None:
    """List the benchmarks, or run one of them. Needs a clone."""
    _hand_over("bench", context.args)


def _hand_over(command: str, arguments: list[str]) -> None:
    """Runs a command of the experiments with the same arguments; its exit code is theirs."""
    if not (REPOSITORY / "experiments" / "__main__.py").is_file():
        raise BadInput(
            f"`condgrad {command}` is part of condgrad's repository, not of the installed package: "
            f"clone it and run `python -m experiments {command}` there"
        )
    sys.path.insert(0, str(REPOSITORY))
    importlib.import_module("experiments.__main__").app([command, *arguments], prog_name="condgrad")
