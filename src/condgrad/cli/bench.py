"""`condgrad bench`: our benchmarks, listed or run."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import condgrad
from condgrad.cli.outcome import BadInput, output

MAIN_GUARD = 'if __name__ == "__main__":'


def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; without a name they are listed.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENTS", help="What follows -- goes to the benchmark; try -- --help."),
    ] = None,
) -> None:
    """List the benchmarks, or run one of them.

    [bold]Examples[/bold]
      condgrad bench
      condgrad bench transport -- --sizes 100 500 --cap 20
      condgrad bench elastic_net -- --help

    Exit codes: that of the benchmark, 2 where there is none of that name.
    """
    scripts = benchmarks()
    if not scripts:
        raise BadInput("no benchmarks are installed: they come with the repository and with the wheel of condgrad")
    if name is None:
        _list(scripts)
        return
    script = scripts.get(name.removesuffix(".py").replace("-", "_"))
    if script is None:
        raise BadInput(f"no benchmark {name!r}: there are {', '.join(scripts)}")
    code = subprocess.run([sys.executable, script, *(arguments or [])], check=False).returncode
    # a script ended by a signal: the number a shell gives
    raise typer.Exit(code if code >= 0 else 128 - code)


def benchmarks() -> dict[str, Path]:
    """The scripts by name: those of the wheel, or else those of the repository this package lies in."""
    package = Path(str(files(condgrad)))
    for folder in (package / "benchmarks", package.parents[1] / "benchmarks"):
        found = {path.stem: path for path in sorted(folder.glob("*.py")) if MAIN_GUARD in path.read_text("utf-8")}
        if found:
            return found
    return {}


def purpose(script: Path) -> str:
    """The first line of a script's docstring."""
    docstring = ast.get_docstring(ast.parse(script.read_text("utf-8"))) or ""
    return next(iter(docstring.splitlines()), "")


def _list(scripts: dict[str, Path]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, script in scripts.items():
        table.add_row(name, Text(purpose(script)))
    output.print(table, soft_wrap=False)
    output.print("\nRun one: condgrad bench NAME [-- ARGUMENTS]", markup=False)
