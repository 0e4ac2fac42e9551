"""No bound but a penalty: all x, or all x >= 0, under a multiple of |x|_1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from condgrad.arrays import Array, Space, at_least, largest_size, namespace, signs, total
from condgrad.problem import Face, Set
from condgrad.sets.balls import L1Ball
from condgrad.sets.simplex import SolidSimplex


@dataclass(frozen=True)
class Penalised(Set):
    """All x, or all x >= 0, where F has l1 |x|_1: the set of `simple.ElasticNet`.

    This set is not compact. But F grows without bound on it, so all solutions lie in a ball.
    `ElasticNet` knows the radius of this ball.
    """

    projection_rounding = 0.0
    solid = True
    scale = math.inf

    l1: float
    positive: bool = False

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.positive

    @property
    def smallest_entry(self) -> float:  # type: ignore[override]
        """0 if x >= 0, else minus infinity."""
        return 0.0 if self.positive else -math.inf

    def norm(self, x: Array) -> float:
        """|x|_1."""
        return total(namespace(x).abs(x))

    def pulls(self, c: Array) -> Array:
        """As on a ball: how fast <c, x> falls as a coordinate leaves 0."""
        return -c if self.positive else namespace(c).abs(c)

    def start(self, space: Space) -> Array:
        return space.full(0.0)

    def null_point(self, space: Space) -> Array:
        return self.start(space)

    def violation(self, x: Array) -> float:
        return max(0.0, -float(namespace(x).min(x))) if self.positive else 0.0

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return self.violation(x) <= tolerance * largest_size(x)

    def project(self, x: Array) -> Array:
        return at_least(0.0, x) if self.positive else x

    def soft(self, c: Array, threshold: float) -> Array:
        """The part of c beyond the threshold; if x >= 0, only of its positive entries."""
        if self.positive:
            return at_least(0.0, c - threshold)
        return signs(c) * at_least(0.0, namespace(c).abs(c) - threshold)

    def near(self, v: Array, threshold: float) -> Face:
        """Where |y - v|^2/2 + threshold |y|_1 is least, and the coordinates that may move there."""
        point = self.soft(v, threshold)
        return Face(point, namespace(v).nonzero(point)[0], None)

    def steepest(self, c: Array) -> float:
        """The largest pull of a slope c: what l1 has to be for x = 0 to stay."""
        return max(float(namespace(c).max(self.pulls(c))), 0.0)

    def ball(self, radius: float) -> L1Ball | SolidSimplex:
        """Its points of |x|_1 <= radius."""
        return SolidSimplex(radius) if self.positive else L1Ball(radius)
