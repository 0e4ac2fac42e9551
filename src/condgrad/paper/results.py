"""The numbers of a run as files: `curves.csv` for a spreadsheet, `results.json` for a program."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from condgrad.paper.chapters import Chapter
from condgrad.paper.pieces import Curve

KEYS = ("experiment", "problem", "solver", "seed")
FIRST = ("iteration", "seconds")


@dataclass(frozen=True)
class Part:
    """What came of an experiment: its chapter, and all curves, those that failed included."""

    experiment: str
    chapter: Chapter
    curves: Sequence[Curve]
    failures: Sequence[str] = ()
    """A sentence for each piece that failed, or for the chapter where it could not be written."""


def curves_csv(parts: Sequence[Part]) -> str:
    """A row for each iteration of each curve; a cell is empty where nothing was measured."""
    names = {name for part in parts for curve in part.curves for name in curve.columns}
    measured = [*FIRST, *sorted(names.difference(FIRST))]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*KEYS, *measured])
    for part in parts:
        for curve in part.curves:
            keys = [part.experiment, curve.problem, curve.solver, curve.seed]
            length = max(map(len, curve.columns.values()), default=0)
            columns = [curve.columns.get(name, [math.nan] * length) for name in measured]
            writer.writerows([*keys, *map(_cell, row)] for row in zip(*columns, strict=True))
    return text.getvalue()


def _cell(entry: float) -> str:
    if not math.isfinite(entry):
        return ""
    return str(int(entry)) if entry == int(entry) and abs(entry) < 2**53 else repr(float(entry))


def summary(parts: Sequence[Part], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the curves themselves: where and how it was measured, how each solver ended, the claims."""
    return {**facts, "experiments": [_experiment(part) for part in parts]}


def _experiment(part: Part) -> dict[str, Any]:
    chapter = part.chapter
    return {
        "name": part.experiment,
        "title": chapter.title,
        "summary": chapter.summary,
        "claims": [asdict(claim) | {"verdict": claim.verdict.value} for claim in chapter.claims],
        "tables": [asdict(table) for table in chapter.tables],
        "notes": list(chapter.notes),
        "settings": dict(chapter.settings),
        "curves": [_curve(curve) for curve in part.curves],
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "problem": curve.problem,
        "solver": curve.solver,
        "seed": curve.seed,
        "status": curve.status,
        "iterations": _last(curve, "iteration"),
        "seconds": _last(curve, "seconds"),
        "value": _last(curve, "value"),
        "lower_bound": _last(curve, "lower_bound"),
        "note": curve.note,
        "facts": dict(curve.facts),
    }


def _last(curve: Curve, column: str) -> float | None:
    entries = curve.columns.get(column, ())
    return entries[-1] if len(entries) else None
