"""`condgrad paper` and `condgrad bench`, for people with a clone: both live in its `experiments` folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from condgrad.cli.report import BadInput

PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Options, --help among them, are those of the experiments."""

REPOSITORY = Path(__file__).resolve().parents[3]
"""The root of the clone, where this package lies in one."""


def paper() -> None:
    """Run the paper's experiments: figures, tables, and what became of each claim. Needs a clone."""
    _hand_over("paper")


def bench() -> None:
    """List the benchmarks, or run one of them. Needs a clone."""
    _hand_over("bench")


def _hand_over(command: str) -> None:
    """Runs a command of the experiments with the arguments as they were typed, `--` too."""
    if not (REPOSITORY / "experiments" / "__main__.py").is_file():
        raise BadInput(
            f"`condgrad {command}` is part of condgrad's repository, not of the installed package: "
            f"clone it and run `python -m experiments {command}` there"
        )
    sys.path.insert(0, str(REPOSITORY))
    importlib.import_module("experiments.__main__").app([command, *sys.argv[2:]], prog_name="condgrad")
