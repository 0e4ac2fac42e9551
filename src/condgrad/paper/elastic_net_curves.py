"""Curves of residuals: thinned for keeping, read off at levels, averaged over draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from condgrad.paper.chapters import Line
from condgrad.paper.pieces import Curve
from condgrad.paper.reading import first_at, thinned

ROUGH, TOLERANCE = 1e-2, 1e-5
LEVELS = (1e-1, ROUGH, 1e-3, 1e-4, TOLERANCE)
MOST_POINTS = 400
GRID_POINTS = 120
LEAST_RESIDUAL = 1e-16
"""Drawn in place of anything smaller, 0 included: a logarithm is taken."""

Axis = Literal["iteration", "seconds"]
Draw = Mapping[str, Curve]
"""The curves on one draw of a problem, by solver."""


class Point(NamedTuple):
    """A moment of a run; infinite in both where it never came."""

    iteration: float
    seconds: float


NEVER = Point(math.inf, math.inf)


def kept(residuals: Any) -> Any:
    """Which points of a long run to keep: evenly spread on a log axis, and where a level is first met."""
    size = len(residuals)
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    firsts = [first for level in LEVELS if (first := first_at(residuals, level)) is not None]
    return np.unique(np.concatenate([thinned(size, MOST_POINTS), [np.argmin(residuals), *firsts]]))


def measured(curves: Iterable[Curve]) -> list[Curve]:
    """Those that have points."""
    return [curve for curve in curves if len(curve.columns.get("residual", ()))]


def draws(curves: Iterable[Curve]) -> dict[tuple[str, int], dict[str, Curve]]:
    """The measured curves by problem and seed, then by solver."""
    grouped: dict[tuple[str, int], dict[str, Curve]] = {}
    for curve in measured(curves):
        grouped.setdefault((curve.problem, curve.seed), {})[curve.solver] = curve
    return grouped


def by_problem(curves: Iterable[Curve]) -> dict[str, dict[str, list[Curve]]]:
    """The measured curves by problem, then by solver."""
    grouped: dict[str, dict[str, list[Curve]]] = {}
    for curve in measured(curves):
        grouped.setdefault(curve.problem, {}).setdefault(curve.solver, []).append(curve)
    return grouped


def reached(curve: Curve, level: float) -> Point:
    """When the residual first met a level."""
    first = first_at(curve.columns["residual"], level)
    return NEVER if first is None else Point(curve.columns["iteration"][first], curve.columns["seconds"][first])


def best_residual(curve: Curve) -> float:
    return float(np.nanmin(np.asarray(curve.columns["residual"], dtype=float), initial=math.inf))


def median_reached(curves: Sequence[Curve], level: float) -> Point:
    """Medians over draws, of iterations and of seconds."""
    points = [reached(curve, level) for curve in curves]
    return Point(median(point.iteration for point in points), median(point.seconds for point in points))


def average(solver: str, curves: Sequence[Curve], axis: Axis) -> Line:
    """The geometric mean of residuals over draws, with the least and the largest.

    At each abscissa a draw counts with the last residual that was known by then; a finished one keeps its last.
    """
    grid = _grid(curves, axis)
    rows = [_known_by(grid, curve, axis) for curve in curves]
    logs = np.log(np.maximum(rows, LEAST_RESIDUAL))
    mean = np.exp(logs.mean(axis=0)).tolist()
    if len(curves) == 1:
        return Line(solver, grid.tolist(), mean)
    low, high = np.exp(logs.min(axis=0)), np.exp(logs.max(axis=0))
    return Line(solver, grid.tolist(), mean, low.tolist(), high.tolist())


def _grid(curves: Sequence[Curve], axis: Axis) -> Any:
    """Abscissas on a log axis, from where all draws have begun to where the last one ended."""
    ends = max(curve.columns[axis][-1] for curve in curves)
    if axis == "iteration":
        return np.unique(np.round(np.geomspace(1.0, max(1.0, ends), GRID_POINTS)))
    begins = max(max(curve.columns[axis][0] for curve in curves), 1e-9)
    return np.geomspace(begins, max(ends, begins), GRID_POINTS)


def _known_by(grid: Any, curve: Curve, axis: Axis) -> Any:
    places = np.asarray(curve.columns[axis], dtype=float)
    # the ends of the grid are rounded
    index = np.searchsorted(places, grid * (1.0 + 1e-12), side="right") - 1
    return np.asarray(curve.columns["residual"], dtype=float)[np.maximum(index, 0)]
