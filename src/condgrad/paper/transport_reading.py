"""What the curves of figure 1 say: a certified F*, errors against it, and who got where first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from condgrad.paper.pieces import Curve
from condgrad.paper.reading import Numbers, best_known, first_at
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.transport_runs import gaps_problem


@dataclass(frozen=True)
class Reference:
    """F* as far as all curves of a size together know it."""

    value: float
    """The best F that anybody reached."""
    lower_bound: float
    """The best bound that anybody proved."""
    start: float
    """F where all start."""

    @property
    def slack(self) -> float:
        """How far F* may still be below the best value; errors below it mean nothing."""
        gap = self.value - self.lower_bound
        return max(gap, 1e-15) if math.isfinite(gap) else 1e-15

    @property
    def scale(self) -> float:
        """F at the start minus F*, which does not change where a constant is added to F."""
        return max(self.start - self.value, 1e-300)


@dataclass(frozen=True)
class Measured:
    """A curve and the reference it is held against."""

    curve: Curve
    reference: Reference

    @property
    def label(self) -> str:
        return SOLVERS[self.curve.solver].label

    @cached_property
    def seconds(self) -> Numbers:
        return np.asarray(self.curve.columns["seconds"], dtype=float)

    @cached_property
    def iterations(self) -> Numbers:
        return np.asarray(self.curve.columns["iteration"], dtype=float)

    @cached_property
    def values(self) -> Numbers:
        """F at the iterates."""
        return np.asarray(self.curve.columns["value"], dtype=float)

    @cached_property
    def errors(self) -> Numbers:
        """F - F* at the best point so far, the oracle's points among them; not below what is certified."""
        return np.maximum(np.asarray(self.curve.columns["best_value"]) - self.reference.value, self.reference.slack)

    @cached_property
    def levels(self) -> Numbers:
        """(F - F*) / (F_0 - F*) at the best iterate so far, which is what the paper draws."""
        error = np.minimum.accumulate(self.values) - self.reference.value
        return np.maximum(error, self.reference.slack) / self.reference.scale

    @property
    def best(self) -> float:
        """The relative error at the end."""
        return float(self.errors[-1]) / self.reference.scale

    def time_to(self, level: float) -> float:
        """Seconds until the best point is within `level` of the way, or inf."""
        return _first(self.seconds, self.errors / self.reference.scale, level)

    def iterate_time_to(self, level: float) -> float:
        """The same for the iterates alone."""
        return _first(self.seconds, self.levels, level)


def _first(seconds: Numbers, levels: Numbers, level: float) -> float:
    # the last value of a curve is itself a level, which it reaches up to rounding
    first = first_at(levels, level * (1.0 + 1e-9))
    return math.inf if first is None else float(seconds[first])


@dataclass(frozen=True)
class Size:
    """All curves of one size, in the order of the solvers."""

    n: int
    reference: Reference
    measured: dict[str, Measured]
    skipped: dict[str, Curve]
    gaps: Curve | None

    def among(self, solvers: Sequence[str]) -> list[Measured]:
        return [self.measured[solver] for solver in solvers if solver in self.measured]


def sizes_of(curves: Sequence[Curve]) -> list[Size]:
    """The curves by size, smallest first; a size without a single value is left out."""
    numbers = sorted({int(curve.facts["n"]) for curve in curves if "n" in curve.facts})
    sizes = (_size(n, [curve for curve in curves if curve.facts.get("n") == n]) for n in numbers)
    return [size for size in sizes if size is not None]


def _size(n: int, curves: Sequence[Curve]) -> Size | None:
    gaps = next((curve for curve in curves if curve.problem == gaps_problem(n)), None)
    runs = [curve for curve in curves if curve is not gaps]
    ran = [curve for curve in runs if len(curve.columns.get("best_value", ()))]
    if not ran:
        return None
    reference = Reference(*best_known(ran), start=float(ran[0].facts["start_value"]))
    measured = {curve.solver: Measured(curve, reference) for curve in ran}
    skipped = {curve.solver: curve for curve in runs if curve.solver not in measured}
    return Size(n, reference, measured, skipped, gaps)
