"""The way from the solutions for some radii or penalties to the next ones, for dense data at hand.

A prediction is a point, and no more: the run that begins there proves that it is a solution, or
goes on from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad.arrays import Array, for_kernels
from condgrad.ball.columns import back_inside
from condgrad.certificate import NULL_SHARE
from condgrad.kernels import readiness, with_signals_as_raised
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.problem import Simple, Smooth
from condgrad.sets import L1Ball, SolidSimplex
from condgrad.sets.penalised import Penalised
from condgrad.smooth.composite import Composite, CompositeEvaluation, is_at_hand
from condgrad.smooth.intercept import WithIntercept
from condgrad.smooth.separable import (
    GammaOfScores,
    HuberOfScores,
    LogisticOfScores,
    PoissonOfScores,
    SquaredHingeOfScores,
    Squares,
)

KINDS = (
    Squares,
    LogisticOfScores,
    SquaredHingeOfScores,
    PoissonOfScores,
    GammaOfScores,
    HuberOfScores,
)
"""The losses in the order of `compiled.along_path`."""
SHARE_OF_TOLERANCE = 0.1
"""A prediction is good if its gap is at most this share of the gap that is asked for."""
AT_ONCE = 1 << 23
"""The time limit is checked again after about this many entries of data."""


def follow(
    f: Smooth, parts: Sequence[Simple], *, null: CompositeEvaluation, tol: float, max_iter: int
) -> Follower | None:
    """What predicts the solutions of f + g for one g after another, each with more room; None
    where nobody does.

    `null` is f at 0.
    """
    if not readiness.available() or not is_at_hand(f) or not has_known_loss(f):
        return None
    if not all(isinstance(g.on, L1Ball | SolidSimplex | Penalised) for g in parts):
        return None
    return Follower(f, parts, null, tol, max_iter)


def has_known_loss(f: Composite) -> bool:
    """Whether f is one of the losses above, of dense data in float64."""
    h = f.h.loss if isinstance(f.h, WithIntercept) else f.h
    is_dense = type(f.K) is np.ndarray and f.K.dtype == np.float64
    return is_dense and f.unpenalised is None and type(h) in KINDS


@dataclass
class Predicted:
    """Points for some parts in a row."""

    first: int
    x: Array
    intercepts: Array
    rounds: Array

    def has(self, k: int) -> bool:
        return self.first <= k < self.first + len(self.x)


class Follower:
    """Solutions of f + g for one g after another, each predicted from the two before."""

    def __init__(
        self,
        f: Composite,
        parts: Sequence[Simple],
        null: CompositeEvaluation,
        tol: float,
        max_iter: int,
    ) -> None:
        from condgrad.ball.compiled import along_path

        self.f = f
        self.parts = parts
        self.kernels = along_path
        on: Any = parts[0].on
        is_penalised = isinstance(on, Penalised)
        self.sizes = np.array([size_of(g) for g in parts])
        self.ridges = np.array([g.weight for g in parts])  # type: ignore[attr-defined]
        has_intercept = isinstance(f.h, WithIntercept)
        h: Any = f.h.loss if isinstance(f.h, WithIntercept) else f.h
        loss = along_path.Loss(
            KINDS.index(type(h)),
            for_kernels(h.y),
            for_kernels(h.weights),
            float(getattr(h, "delta", 0.0)),
            has_intercept,
            float(h.evaluate(np.zeros_like(h.y))[0]),
        )
        self.problem = along_path.PathProblem(
            for_kernels(f.K.T),
            loss,
            is_penalised,
            bool(on.nonnegative),
            SHARE_OF_TOLERANCE * tol,
            NULL_SHARE * abs(null.value),
            min(along_path.MOST_ROUNDS, max_iter),
        )
        self.at_once = max(1, AT_ONCE // f.K.size)
        slope = null.gradient
        steepest = max(0.0, float(on.pulls(slope).max()))
        size = steepest if is_penalised else 0.0
        self.last = along_path.PathPoint(
            float(size),
            0.0,
            np.zeros_like(slope),
            np.zeros_like(h.y),
            float(null.at_best.intercept),
            slope,
            float(steepest),
        )
        self.before = self.last
        self.has_ended = False
        """Whether the solutions that follow are inside the ball, or no model has one least point."""
        self.predicted = Predicted(0, np.empty((0, 0)), np.empty(0), np.empty(0))

    def point(self, k: int) -> ObjectivePoint | None:
        """A prediction for part k; None where the engine must look for the solution."""
        if not self.predicted.has(k):
            if self.has_ended:
                return None
            ahead = slice(k, k + self.at_once)
            path = self.problem, self.before, self.last
            with with_signals_as_raised():
                found = self.kernels.predict_path(*path, self.sizes[ahead], self.ridges[ahead])
            count, goes_on, x, intercepts, rounds, before, last = found
            self.has_ended = not goes_on
            self.before = self.kernels.PathPoint(*before)
            self.last = self.kernels.PathPoint(*last)
            self.predicted = Predicted(k, x[:count], intercepts, rounds)
        if not self.predicted.has(k):
            return None
        place = k - self.predicted.first
        g = self.parts[k]
        on: Any = g.on
        x = self.predicted.x[place]
        if on.violation(x) > 0.0:
            x = back_inside(on, x)
        smooth = CompositeEvaluation(self.f, x, near=self.predicted.intercepts[place])
        return ObjectivePoint(self.f, g, x, Tally(), smooth, afresh=True)

    def models(self, k: int) -> int:
        """How many models have led to the prediction for part k."""
        if not self.predicted.has(k):
            return 0
        return int(self.predicted.rounds[k - self.predicted.first])

    def note(self, point: ObjectivePoint, multiplier: float) -> None:
        """A solution that the engine has found."""
        here: Any = point.smooth
        self.has_ended = self.has_ended and multiplier == 0.0
        self.before = self.last
        self.last = self.kernels.PathPoint(
            float(size_of(point.g)),
            float(point.g.weight),  # type: ignore[attr-defined]
            for_kernels(point.x),
            for_kernels(here.z),
            float(here.at_best.intercept),
            for_kernels(point.smooth_gradient),
            float(multiplier),
        )


def size_of(g: Simple) -> float:
    """The radius, or the penalty in its place."""
    on: Any = g.on
    return float(on.l1 if isinstance(on, Penalised) else on.scale)
