"""`condgrad transport`: a certified plan between two point clouds, or for a matrix of costs."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condgrad.cli.files import counted
from condgrad.cli.outcome import exit_code, print_json
from condgrad.cli.report import certificate_facts, print_report, verdict
from condgrad.cli.staging import check_new_file, staged
from condgrad.cli.transport_picture import draw
from condgrad.cli.transport_problem import Files, Metric, Problem, Wishes, checked, read_problem
from condgrad.paper.machine import versions
from condgrad.paper.whole_files import json_text
from condgrad.transport import TransportResult, solve

PRODUCTS = ("plan.npy", "plan.csv", "mapped.csv", "certificate.json", "trace.csv", "picture.png")
ENTRIES_IN_CSV = 50_000
"""A plan up to this size is written as a table too, for spreadsheets."""


class Method(StrEnum):
    """The methods that know plans."""

    AUTO = "auto"
    NEWTON = "newton"
    CGS = "cgs"
    CG = "cg"


def transport(
    source: Annotated[Path | None, typer.Argument(metavar="SOURCE", help="Source points, a row each.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="Target points, a row each.")] = None,
    cost: Annotated[Path | None, typer.Option(metavar="FILE", help="A matrix of costs instead of distances.")] = None,
    entropy: Annotated[
        float | None,
        typer.Option(metavar="W", help="Weight of the entropy, 0 for none.", show_default="0.02 x median cost"),
    ] = None,
    laplacian: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of the Laplacian: neighbours move alike.")
    ] = None,
    neighbors: Annotated[int, typer.Option(metavar="K", min=1, help="Neighbours of a point, for --laplacian.")] = 10,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Leave out of both clouds, by name or number from 1; may be repeated."),
    ] = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="Class of each source, for --groups.")] = None,
    groups: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of class groups: a target receives one class.")
    ] = None,
    source_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of the sources.", show_default="equal")
    ] = None,
    target_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of the targets.", show_default="equal")
    ] = None,
    metric: Annotated[
        Metric, typer.Option(metavar="NAME", help=f"Cost between points: {', '.join(Metric)}.")
    ] = Metric.SQEUCLIDEAN,
    tol: Annotated[float, typer.Option(metavar="GAP", help="Relative certified gap to reach.")] = 1e-6,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop after this time.")] = None,
    method: Annotated[Method, typer.Option(metavar="NAME", help=f"One of {', '.join(Method)}.")] = Method.AUTO,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("condgrad-transport"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Move one point cloud onto another by optimal transport, with a proof of optimality.

    Files are CSV, TSV, NPY or NPZ (file.npz:name for one array of several).
    The folder of results gets plan.npy, plan.csv (plans of up to 50,000 entries),
    mapped.csv (where each source goes), certificate.json, trace.csv, picture.png.

    [bold]Examples[/bold]
      condgrad transport before.csv after.csv --drop id
      condgrad transport cells.npz:day1 cells.npz:day2 --laplacian 100
      condgrad transport --cost distances.npy --entropy 0 --json

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    files = Files(source, target, cost, source_weights, target_weights, labels)
    wishes = Wishes(metric, entropy, laplacian, neighbors, groups, tuple(drop or ()))
    checked("tol", tol)
    if time_limit is not None:
        checked("time-limit", time_limit)
    problem = read_problem(files, wishes)
    settings = _settings(problem, files, wishes) | {"tol": tol, "time_limit": time_limit, "method": str(method)}
    for name in PRODUCTS:
        check_new_file(out / name, *files.on_disk())
    again = os.path.exists(out / "certificate.json")
    with staged(out) as folder:
        answer = solve(
            problem.cost,
            problem.a,
            problem.b,
            entropy=problem.entropy,
            regularizers=problem.regularizers,
            method=method,
            tol=tol,
            time_limit=time_limit,
            progress=sys.stderr.isatty() and not as_json,
        )
        facts = _facts(problem, answer, files, settings)
        mapped = None if problem.target is None else answer.barycenters(problem.target.values)
        _write(folder, problem, answer, mapped, facts)
        if not no_picture:
            draw(folder / "picture.png", problem, answer.plan, mapped, answer.trace, tol)
        written = sorted(file.name for file in folder.iterdir())
    for name in set(PRODUCTS) - set(written) if again else ():
        (out / name).unlink(missing_ok=True)  # of an earlier run: it would pass for a part of this one
    if as_json:
        print_json(facts | {"out": str(out), "files": written})
    else:
        _print(problem, answer, facts, [out / name for name in written])
    raise typer.Exit(exit_code(answer.status))


def _settings(problem: Problem, files: Files, wishes: Wishes) -> dict[str, Any]:
    return {
        "metric": str(wishes.metric) if files.cost is None else None,
        "entropy": problem.entropy,
        "entropy_from": problem.entropy_from,
        "laplacian": wishes.laplacian,
        "neighbors": wishes.neighbors if wishes.laplacian else None,
        "groups": wishes.groups,
        "drop": list(wishes.drop),
    }


def _facts(problem: Problem, answer: TransportResult, files: Files, settings: Mapping[str, Any]) -> dict[str, Any]:
    n, m = problem.cost.shape
    return certificate_facts(answer.result) | {
        "transport_cost": float(answer.cost),
        "sources": n,
        "targets": m,
        "mass": float(problem.a.sum()),
        "settings": settings,
        "inputs": files.facts(),
        "versions": versions(),
    }


def _write(folder: Path, problem: Problem, answer: TransportResult, mapped: Any, facts: Mapping[str, Any]) -> None:
    np.save(folder / "plan.npy", answer.plan)
    if answer.plan.size <= ENTRIES_IN_CSV:
        _write_table(folder / "plan.csv", None, answer.plan)
    if mapped is not None and problem.target is not None:
        names = problem.target.names or [f"x{axis}" for axis in range(1, mapped.shape[1] + 1)]
        _write_table(folder / "mapped.csv", names, mapped)
    answer.trace.to_csv(folder / "trace.csv")
    (folder / "certificate.json").write_text(json_text(facts), encoding="utf-8")


def _write_table(path: Path, names: Sequence[str] | None, values: Any) -> None:
    """Numbers that read back as they are; a blank for what is not known."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if names is not None:
            writer.writerow(names)
        writer.writerows(["" if np.isnan(entry) else repr(float(entry)) for entry in row] for row in values)


def _print(problem: Problem, answer: TransportResult, facts: Mapping[str, Any], written: Sequence[Path]) -> None:
    n, m = problem.cost.shape
    print_report(
        verdict(answer.result, "this plan", facts["settings"]["tol"]),
        {
            "plan": f"{n} sources to {m} targets{_mass(facts['mass'])}, transport cost {answer.cost:.6g}",
            "entropy": f"{problem.entropy:.4g} ({problem.entropy_from})",
            "value": f"{answer.value:.10g}, cost with entropy and regularisers",
            "lower bound": f"{answer.lower_bound:.10g}, no plan is below",
            "effort": f"{counted(answer.iterations, 'iteration')} in {facts['seconds']:.2g} s",
            "written": ", ".join(path.name for path in written) + f" in {written[0].parent}",
        },
    )


def _mass(mass: float) -> str:
    """What a plan moves in all, where it is not 1: costs and gaps grow with it."""
    return "" if abs(mass - 1.0) <= 1e-9 else f", mass {mass:.6g}"
