"""`python -m experiments`: the experiments of the paper, the benchmarks, and the numbers of the site."""

from __future__ import annotations

import ast
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

DONE, BELOW, BAD_INPUT, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes that a script can rely on."""
DRAWS, QUICK_DRAWS = 3, 1
QUICK_RANDOM = 10
COLORS = {"holds": "green", "holds in part": "yellow", "fails": "red"}
ROOT = Path(__file__).parents[1]

output = Console(soft_wrap=True, highlight=False, emoji=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
app = typer.Typer(
    name="experiments",
    help="The experiments of the paper, and the benchmarks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class PaperPart(StrEnum):
    """The parts of the paper."""

    TRANSPORT = "1"
    TOY = "2"
    MICROARRAYS = "3"
    THEORY = "theory"


PART_HELP = f"One of {', '.join(PaperPart)}; may be repeated."
DRAWS_DEFAULT = f"{DRAWS}, or {QUICK_DRAWS} with --quick"


@app.command()
def paper(
    figure: Annotated[
        list[PaperPart] | None, typer.Option(metavar="PART", help=PART_HELP, show_default="all")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller problems and one draw, within a minute.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of draws of the random problems.",
            show_default=DRAWS_DEFAULT,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="The folder for the results. A run that is there is continued."
        ),
    ] = Path("out"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do everything again, without earlier results.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run the paper's experiments: figures, tables, and a verdict on each claim.

    Writes report.html (one file, opens from disk), the figures as PNG and PDF,
    curves.csv and results.json. Takes three to five minutes on two cores. Finished
    parts are kept: after an interruption, run it again. A quick run is too short
    to judge some claims, and says so.

    [bold]Examples[/bold]
      python -m experiments paper --quick
      python -m experiments paper --figure 1 --figure theory --out transport
      python -m experiments paper --seeds 10 --json > results.json

    Exit codes: 0 all done, 2 bad input, 3 a task failed, 130 interrupted.
    """
    from condgrad.cli.report import json_text
    from condgrad.datasets import DataMismatch, DataUnavailable
    from experiments.paper.progress import RunProgress
    from experiments.paper.run import run_paper
    from experiments.paper.tasks import Scale

    if os.path.exists(out) and not out.is_dir():
        _bad_input(f"--out {out} is a file: give a folder")
    scale = Scale(quick=quick, seeds=seeds or (QUICK_DRAWS if quick else DRAWS))
    command = f"python -m experiments {shlex.join(sys.argv[1:])}"
    try:
        chosen = experiments(figure or list(PaperPart))
        outcome = run_paper(
            chosen, scale, out, progress=RunProgress(errors), fresh=fresh, command=command
        )
    except KeyboardInterrupt:
        same = "the same command without --fresh" if fresh else "the same command"
        errors.print(f"interrupted, finished runs kept; run {same} to continue", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    except (DataMismatch, DataUnavailable) as error:
        _bad_input(str(error))
    except OSError as error:
        _bad_input(
            f"--out {out} cannot be written: {error.strerror or error} ({error.filename or out})"
        )
    if as_json:
        output.out(json_text(outcome.results), end="")
    else:
        _report(outcome)
    absent = [sentence for chapter in outcome.chapters for sentence in chapter.absent]
    for sentence in (*absent, *outcome.failures):
        errors.print(sentence, markup=False)
    raise typer.Exit(FAILED if outcome.failures else DONE)


def experiments(parts: list[PaperPart]) -> list[Any]:
    """The experiments asked for, in the order of the paper."""
    from experiments.paper.elastic_net import MICROARRAYS, TOY
    from experiments.paper.theory import THEORY
    from experiments.paper.transport import TRANSPORT

    every = {
        PaperPart.TRANSPORT: TRANSPORT,
        PaperPart.TOY: TOY,
        PaperPart.MICROARRAYS: MICROARRAYS,
        PaperPart.THEORY: THEORY,
    }
    return [experiment for part, experiment in every.items() if part in parts]


def _report(outcome: Any) -> None:
    from experiments.paper.wording import plain

    table = Table("verdict", "claim of the paper", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for claim in (claim for chapter in outcome.chapters for claim in chapter.claims):
        verdict, said = (
            claim.verdict.value,
            "" if claim.source.name == "PAPER" else f" ({claim.source.value})",
        )
        table.add_row(
            Text(verdict, style=COLORS.get(verdict, "dim")), Text(plain(claim.claim) + said)
        )
    if table.row_count:
        output.print(table, soft_wrap=False)
    output.print(f"page     {outcome.page}", markup=False)
    for picture in outcome.pictures[::2]:
        output.print(f"figure   {picture.with_suffix('')} (.png, .pdf)", markup=False)
    for name in ("curves.csv", "results.json"):
        output.print(f"numbers  {outcome.page.with_name(name)}", markup=False)


@app.command()
def bench(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The benchmark to run. Without it, all are listed."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENTS", help="Arguments after -- go to the benchmark; try -- --help."
        ),
    ] = None,
) -> None:
    """List the benchmarks, or run one of them.

    [bold]Examples[/bold]
      python -m experiments bench
      python -m experiments bench transport -- --sizes 100 500 --cap 20
      python -m experiments bench elastic_net -- --help

    Exit codes: that of the benchmark; 2 if no benchmark has this name.
    """
    found = benchmarks()
    if name is None:
        table = Table(box=None, show_header=False, pad_edge=False)
        for each, purpose in found.items():
            table.add_row(Text(each, style="bold", no_wrap=True), Text(purpose))
        output.print(table, soft_wrap=False)
        output.print("\nRun one: python -m experiments bench NAME [-- ARGUMENTS]", markup=False)
        return
    module = name.removesuffix(".py").replace("-", "_")
    if module not in found:
        _bad_input(f"no benchmark {name!r}: there are {', '.join(found)}")
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", f"experiments.benchmarks.{module}", *(arguments or [])]
    code = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, check=False).returncode
    # a benchmark ended by a signal: the number a shell gives
    raise typer.Exit(code if code >= 0 else 128 - code)


@app.command()
def site(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Measure only this. Can be repeated.")
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Measure nothing: use the stored numbers.")
    ] = False,
) -> None:
    """Measure the numbers and pictures of the README and the site.

    Stores the numbers in docs/numbers.json, draws the pictures in docs/measured, and
    writes the parts of the pages that are marked as measured. Takes about ten
    minutes on one thread.

    [bold]Examples[/bold]
      python -m experiments site
      python -m experiments site --only memory --only elastic_net
      python -m experiments site --draw

    Exit codes: 0 all done, 2 bad input.
    """
    from experiments.site import MEASURED, main

    unknown = [name for name in only or [] if name not in MEASURED]
    if unknown:
        _bad_input(f"--only {unknown[0]} is not measured: there are {', '.join(MEASURED)}")
    main(only or [], measured=not draw, say=lambda line: output.print(line, markup=False))


@app.command()
def gates(
    against: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT", help="The old commit.", show_default="before the engine was replaced"
        ),
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            metavar="PATTERN", help="Only rows with names that match this regular expression."
        ),
    ] = "",
    random: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of random problems.")
    ] = 300,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Seed of the random problems.", show_default="a new one, which is printed"
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few rows of each benchmark and ten random ones.")
    ] = False,
    rivals: Annotated[
        bool,
        typer.Option(
            "--rivals",
            help="The new side must also be faster than skglm, which gets the right penalty.",
        ),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep the compiled code of the old side here for later runs."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file for all rows, as JSON.")
    ] = None,
) -> None:
    """Compare the speed of these files with an old commit, and show which fits are slower.

    The old and the new side run in turns, in two processes on one thread. A time
    is the best CPU time of several turns. These are the limits for the new side: a
    fit of 5 ms or more may take 1.3 times as long, a shorter fit 3 ms more, and a
    path or a search 1.6 times as long. On geometric average, fits may take 1.25
    times as long. The new side must certify all that the old side certifies. A row
    that fails is measured once more.

    [bold]Examples[/bold]
      python -m experiments gates --quick
      python -m experiments gates --rows 'path|cross_validation' --random 0
      python -m experiments gates --rivals --seed 7 --out gates.json

    Exit codes: 0 all passed, 1 a limit is exceeded, 2 bad input, 130 interrupted.
    """
    from condgrad.cli.report import json_text
    from experiments.gates.random_rows import random_rows
    from experiments.gates.report import RowLines, show_outcome
    from experiments.gates.rows import Row, rows_of_benchmarks
    from experiments.gates.run import BEFORE_THE_ENGINE, run_gates
    from experiments.gates.sides import UnknownCommit, commit_of

    if rivals and not find_spec("skglm"):
        _bad_input(
            "--rivals compares with skglm, which is not installed: pip install skglm, or leave it out"
        )
    try:
        pattern = re.compile(rows)
        commit = commit_of(against or BEFORE_THE_ENGINE)
    except re.error as error:
        _bad_input(f"--rows {rows} is no regular expression: {error}")
    except UnknownCommit as error:
        _bad_input(str(error))
    if seed is None:
        seed = secrets.randbelow(10**6)
    count = min(random, QUICK_RANDOM) if quick else random
    every: list[Row] = [*rows_of_benchmarks(quick=quick), *random_rows(count, seed)]
    chosen = [row for row in every if pattern.search(row.name)]
    if not chosen:
        _bad_input(f"--rows {rows} matches none of {len(every)} rows")
    output.print(f"{len(chosen)} rows against {commit[:7]}, seed {seed}", markup=False)

    # a run that is ended by its process id leaves no worktree either
    signal.signal(signal.SIGTERM, _end)
    try:
        outcome = run_gates(
            chosen, commit, seed, rivals=rivals, kept=keep, say=_say, shown=RowLines(output).show
        )
    except KeyboardInterrupt:
        _say("interrupted; the worktree of the old side is removed")
        raise typer.Exit(INTERRUPTED) from None
    show_outcome(output, outcome)
    if out is not None:
        out.write_text(json_text(outcome.as_json()), "utf-8")
    raise typer.Exit(DONE if outcome.passed else BELOW)


@app.command()
def budgets(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATHS", help="Files or folders.", show_default="the engine of the l1 ball"
        ),
    ] = None,
    compile_too: Annotated[
        bool,
        typer.Option(
            "--compile", help="Compile all kernels from an empty folder, and measure the time."
        ),
    ] = False,
    files_too: Annotated[
        bool, typer.Option("--files", help="List the files that small fits run through.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file for the counts, as JSON.")
    ] = None,
) -> None:
    """Count the size and the complexity of a part of the package.

    Counts lines, tokens of code, branches, numbers other than 0, 1, 2, 0.5 and -1,
    and imports that are circular or reach into another folder. On request it also
    shows the time to compile, and the files that a fit runs through.

    [bold]Examples[/bold]
      python -m experiments budgets
      python -m experiments budgets src/condgrad/newton src/condgrad/kernels
      python -m experiments budgets --compile --files --out budgets.json

    Exit codes: 0 counted, 2 bad input.
    """
    from condgrad.cli.report import json_text
    from experiments.budgets import DEFAULTS, budgets_of, show_budgets

    asked = paths or [path for path in DEFAULTS if (ROOT / path).exists()]
    absent = [path for path in asked if not (ROOT / path).exists()]
    if absent:
        _bad_input(f"{absent[0]} is no file or folder of {ROOT}")
    found = budgets_of(asked, compiling=compile_too, running=files_too)
    show_budgets(output, found)
    if out is not None:
        out.write_text(json_text(found.as_json()), "utf-8")


def benchmarks() -> dict[str, str]:
    """The benchmarks by name, each with the first line of its docstring."""
    found = {}
    for path in sorted((ROOT / "experiments" / "benchmarks").glob("[!_]*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        found[path.stem] = docstring.partition("\n")[0]
    return found


def _say(line: str) -> None:
    errors.print(line, markup=False)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _bad_input(sentence: str) -> NoReturn:
    errors.print(sentence, markup=False)
    raise typer.Exit(BAD_INPUT)


if __name__ == "__main__":
    app()
