"""`condgrad paper`: the experiments of the paper, measured again, as one page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from condgrad.cli.outcome import BadInput, ExitCode, errors, output, print_json
from condgrad.cli.staging import check_folder
from condgrad.paper.chapters import Chapter, Verdict
from condgrad.paper.display import display_for
from condgrad.paper.pieces import Experiment, Scale

# they bring the drawing libraries, which other commands should neither wait for nor need
if TYPE_CHECKING:
    from condgrad.paper.run import Outcome

DRAWS, QUICK_DRAWS = 3, 1
COLORS = {Verdict.HOLDS: "green", Verdict.IN_PART: "yellow", Verdict.FAILS: "red", Verdict.UNTESTED: "dim"}


class Asked(StrEnum):
    """The parts of the paper."""

    TRANSPORT = "1"
    TOY = "2"
    MICROARRAYS = "3"
    THEORY = "theory"


def paper(
    figure: Annotated[
        list[Asked] | None,
        typer.Option(metavar="PART", help=f"One of {', '.join(Asked)}; may be repeated.", show_default="all"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A look within a minute: smaller problems, one draw.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many draws of the random problems.",
            show_default=f"{DRAWS}, or {QUICK_DRAWS} with --quick",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write, and to continue from.")] = Path("out"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Do all again, whatever earlier runs finished.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run the paper's experiments: figures, tables, and what became of each claim.

    Writes report.html (one file, opens from disk), the figures as PNG and PDF,
    curves.csv and results.json. Takes three to five minutes on two cores. What is
    finished is kept: after an interruption run it again.

    [bold]Examples[/bold]
      condgrad paper --quick
      condgrad paper --figure 1 --figure theory --out transport
      condgrad paper --seeds 10 --json > results.json

    Exit codes: 0 all done, 2 bad input, 3 a piece failed, 130 interrupted.
    """
    check_folder(out)
    asked = list(dict.fromkeys(figure)) if figure else list(Asked)
    draws = seeds if seeds is not None else QUICK_DRAWS if quick else DRAWS
    try:
        outcome = _run(asked, Scale(quick=quick, seeds=draws), out, fresh=fresh)
    except KeyboardInterrupt:
        same = "the same command without --fresh" if fresh else "the same command"
        errors.print(f"condgrad: interrupted, finished pieces kept; run {same} to continue", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        print_json(outcome.results)
    else:
        _report(outcome)
    for sentence in outcome.failures:
        errors.print(f"condgrad: {sentence}", markup=False)
    raise typer.Exit(ExitCode.NOT_CONVERGED if outcome.failures else ExitCode.CERTIFIED)


def _run(asked: Sequence[Asked], scale: Scale, out: Path, *, fresh: bool) -> Outcome:
    from condgrad.datasets import DataMismatch, DataUnavailable
    from condgrad.paper.run import run_paper

    try:
        return run_paper(
            experiments(asked),
            scale,
            out,
            progress=display_for(errors),
            fresh=fresh,
            command=shlex.join(["condgrad", *sys.argv[1:]]),
        )
    except (DataMismatch, DataUnavailable) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        where = error.filename or out
        raise BadInput(f"--out {out} cannot be written: {error.strerror or error} ({where})") from error


def experiments(asked: Sequence[Asked]) -> list[Experiment]:
    """The experiments asked for, in the order of the paper."""
    from condgrad.paper.elastic_net import MICROARRAYS, TOY
    from condgrad.paper.theory import THEORY
    from condgrad.paper.transport import TRANSPORT

    every: dict[Asked, Experiment] = {
        Asked.TRANSPORT: TRANSPORT,
        Asked.TOY: TOY,
        Asked.MICROARRAYS: MICROARRAYS,
        Asked.THEORY: THEORY,
    }
    return [experiment for name, experiment in every.items() if name in asked]


def _report(outcome: Outcome) -> None:
    claims = _claims([part.chapter for part in outcome.parts])
    if claims.row_count:
        output.print(claims, soft_wrap=False)
    output.print(f"page     {outcome.page}", markup=False)
    for figure in dict.fromkeys(path.with_suffix("") for path in outcome.figures):
        kinds = ", ".join(path.suffix for path in outcome.figures if path.with_suffix("") == figure)
        output.print(f"figure   {figure} ({kinds})", markup=False)
    for name in ("curves.csv", "results.json"):
        output.print(f"numbers  {outcome.page.with_name(name)}", markup=False)


def _claims(chapters: Sequence[Chapter]) -> Table:
    table = Table(box=None, show_header=True, pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim of the paper")
    for chapter in chapters:
        for claim in chapter.claims:
            color = COLORS[claim.verdict]
            table.add_row(f"[{color}]{claim.verdict.value}[/{color}]", Text(claim.claim))
    return table
