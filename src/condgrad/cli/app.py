"""The commands in one place."""

from __future__ import annotations

import sys

import typer

from condgrad.cli.bench import bench
from condgrad.cli.doctor import doctor
from condgrad.cli.fit import fit, predict
from condgrad.cli.outcome import BadInput, ExitCode, errors
from condgrad.cli.paper import paper
from condgrad.cli.recolor import recolor
from condgrad.cli.transport import transport
from condgrad.errors import ContradictionError, MissingAbility, MissingExtra, NotFiniteError

app = typer.Typer(
    name="condgrad",
    help="Minimise f + g over a convex set, with a proof of optimality in every answer.",
    epilog="Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for command in (transport, recolor, fit, predict, paper, bench, doctor):
    app.command()(command)


def run() -> None:
    """Runs the command of the command line; a user's mistake ends in one sentence."""
    try:
        app()
    except (BadInput, ContradictionError, MissingAbility, MissingExtra, NotFiniteError) as mistake:
        errors.print(f"condgrad: {mistake}", markup=False)
        sys.exit(ExitCode.BAD_INPUT)
    except KeyboardInterrupt:
        errors.print("condgrad: interrupted")
        sys.exit(130)
