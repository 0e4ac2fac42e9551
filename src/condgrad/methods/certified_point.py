"""F at a point, and the lower bound that Lemma 2 proves there. For methods that do not step towards
the oracle's point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, dot, mixed, namespace, precision
from condgrad.certificate import (
    Effort,
    Iterate,
    Terms,
    check_tangent,
    linearised,
)
from condgrad.errors import NotFiniteError
from condgrad.problem import Answer, Simple, Smooth


@dataclass
class Tally:
    """What a method has spent so far; see `Effort`."""

    evaluations: int = 0
    oracle_calls: int = 0
    inner_iterations: int = 0

    @property
    def effort(self) -> Effort:
        return Effort(self.evaluations, self.oracle_calls, self.inner_iterations)

    def add(self, answer: Answer, *, evaluations: int = 0) -> None:
        """Count one more call of the oracle."""
        self.oracle_calls += 1
        self.inner_iterations += answer.inner_iterations
        self.evaluations += evaluations


class ObjectivePoint:
    """F = f + g at x, each part computed when first asked for.

    `smooth` is f at x, if it is known. `afresh` says whether it was computed from the data, not
    from other points.
    """

    def __init__(
        self,
        f: Smooth,
        g: Simple,
        x: Array,
        tally: Tally,
        smooth: Any = None,
        *,
        afresh: bool = False,
    ) -> None:
        self.f = f
        self.g = g
        self.x = x
        self.tally = tally
        if smooth is None:
            tally.evaluations += 1
        self.smooth = f.at(x) if smooth is None else smooth
        self.afresh = smooth is None or afresh
        self.answer: Answer | None = None
        """The answer of the oracle at this point, after the first call."""

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.smooth.value, self.g.value(self.x), afresh=self.afresh)

    @property
    def value(self) -> float:
        return self.terms.value

    @cached_property
    def smooth_gradient(self) -> Array:
        """grad f(x)."""
        return self.smooth.gradient

    @cached_property
    def gradient(self) -> Array:
        """grad F(x), without the `kinked` part of g."""
        return self.smooth_gradient + self.g.slope(self.x)

    @cached_property
    def slope_rounding(self) -> float:
        """What one rounding unit in x does to the value."""
        size = namespace(self.x).abs
        return precision(self.x) * dot(size(self.gradient), size(self.x))

    @property
    def rounding(self) -> float:
        """What one rounding unit, in x or in the terms of F, does to the value."""
        return precision(self.x) * self.terms.size + self.slope_rounding

    def at(self, x: Array) -> ObjectivePoint:
        """F at another point."""
        return ObjectivePoint(self.f, self.g, x, self.tally)

    def moved(self, end: ObjectivePoint, a: float) -> ObjectivePoint:
        """F at x + a (end.x - x). If f can do it, this costs less than `at`."""
        fractions = np.array([a])
        x = mixed(self.x, [end.x], fractions)
        self.tally.evaluations += not self.f.mixes
        return ObjectivePoint(
            self.f, self.g, x, self.tally, self.smooth.moved(x, [end.smooth], fractions)
        )


class Certifier:
    """Applies Lemma 2 at one point after the other. Each oracle call starts from the last."""

    def __init__(self, f: Smooth, g: Simple, tally: Tally) -> None:
        self.f = f
        self.g = g
        self.tally = tally
        self.accuracy = 0.0
        self.warm = None
        self.before: ObjectivePoint | None = None
        """The last point. A convex f is nowhere below its tangent there."""
        self.noise_before = 0.0

    def iterate(self, point: ObjectivePoint, step: float) -> Iterate:
        """The point with its lower bound; without one if no time is left for the oracle."""
        f = self.f
        g = self.g
        here = point.smooth
        if not math.isfinite(point.value):  # its gradient would be no number either
            raise NotFiniteError(f"F became {point.value}")
        c = None if deadline.passed() else point.smooth_gradient
        if deadline.passed():
            return Iterate(point.x, point.terms, -math.inf, c, step, self.tally.effort, 0.0)
        plane = linearised(
            f,
            g,
            here,
            c,
            x=point.x,
            g_size=g.magnitude(point.x, point.terms.g),
            value=point.value,
            warm=self.warm,
            accuracy=self.accuracy,
        )
        point.answer = plane.answer
        self.warm = plane.answer.warm
        self.tally.add(plane.answer)
        noise = plane.noise
        if f.convex and self.before is not None:
            height = self.before.smooth.value + dot(
                self.before.smooth_gradient, point.x - self.before.x
            )
            check_tangent(here, height, noise + self.noise_before, f.unit_at(point.x))
        self.before = point
        self.noise_before = noise
        self.accuracy = max(0.1 * (point.value - plane.bound), noise)
        return Iterate(point.x, point.terms, plane.bound, c, step, self.tally.effort, noise)
