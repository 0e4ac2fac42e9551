"""All commands. `paper` and `bench` call the experiments, which only a clone has."""

from __future__ import annotations

import importlib
import io
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from condgrad.cli.doctor import doctor
from condgrad.cli.fit import fit
from condgrad.cli.predict import predict
from condgrad.cli.recolor import recolor
from condgrad.cli.report import BadInput, ExitCode, errors, output, require
from condgrad.cli.transport import transport
from condgrad.errors import ContradictionError, MissingAbility, MissingExtra, NotFiniteError

AS_TYPED = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
REPOSITORY = (
    Path(__file__).resolve().parents[3]
)  # the root of the clone, where this package lies in one

app = typer.Typer(
    name="condgrad",
    epilog="Exit codes: 0 certified, 2 bad input, 3 not converged within its limits, 130 stopped by Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(asked: bool) -> None:
    if asked:
        output.out(version("condgrad"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Minimise f + g over a convex set, with a proof of optimality in every answer."""


def paper() -> None:
    """Run the paper's experiments: figures, tables, and a verdict on each claim. Needs a clone of the repository."""
    _hand_over("paper")


def bench() -> None:
    """List the benchmarks, or run one of them. Needs a clone of the repository."""
    _hand_over("bench")


def _hand_over(command: str) -> None:
    """Runs a command of the experiments with the arguments as they were typed, `--` too."""
    there = (REPOSITORY / "experiments" / "__main__.py").is_file()
    where = f"clone it and run `python -m experiments {command}` there"
    require(
        there,
        f"`condgrad {command}` is part of condgrad's repository, not of the installed package: {where}",
    )
    sys.path.insert(0, str(REPOSITORY))
    importlib.import_module("experiments.__main__").app(
        [command, *sys.argv[2:]], prog_name="condgrad"
    )


COMMANDS: Sequence[Callable[..., None]] = (transport, recolor, fit, predict, doctor)
for command in COMMANDS:
    app.command()(command)
for command in (paper, bench):  # options, --help among them, are those of the experiments
    app.command(context_settings=AS_TYPED)(command)


def run_command() -> None:
    """Runs the command of the command line; a user's mistake ends in one sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name of a file may hold what no text can
    if threading.current_thread() is threading.main_thread():  # no other may set handlers
        signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except (BadInput, ContradictionError, MissingAbility, MissingExtra, NotFiniteError) as mistake:
        errors.print(f"condgrad: {mistake}", markup=False)
        sys.exit(ExitCode.BAD_INPUT)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _end(number: int, _frame: Any) -> None:
    """A signal ends the command at once, and what it has begun to write is taken back."""
    errors.print("condgrad: interrupted")
    sys.exit(128 + number)
