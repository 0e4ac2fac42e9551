"""The commands in one place."""

from __future__ import annotations

import io
import signal
import sys
import threading
from importlib.metadata import version
from typing import Annotated, Any

import typer

from condgrad.cli.doctor import doctor
from condgrad.cli.experiments import PASSED_ON, bench, paper
from condgrad.cli.fit import fit
from condgrad.cli.predict import predict
from condgrad.cli.recolor import recolor
from condgrad.cli.report import BadInput, ExitCode, errors, output
from condgrad.cli.transport import transport
from condgrad.errors import ContradictionError, MissingAbility, MissingExtra, NotFiniteError


def _show_version(asked: bool) -> None:
    if asked:
        output.out(version("condgrad"))
        raise typer.Exit


app = typer.Typer(
    name="condgrad",
    epilog="Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Minimise f + g over a convex set, with a proof of optimality in every answer."""


for command in (transport, recolor, fit, predict, doctor):
    app.command()(command)
for passed_on in (paper, bench):
    app.command(context_settings=PASSED_ON)(passed_on)


def run() -> None:
    """Runs the command of the command line; a user's mistake ends in one sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name of a file may hold what no text can
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
