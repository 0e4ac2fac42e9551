"""g(x) = weight |x|^2 on any set with a projection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, dot, dots, gram, largest_size, namespace, smallest, total
from condgrad.problem import Answer, Set, Simple, checked_set, linear_answer
from condgrad.search.restriction import Quadratic, Restriction


@dataclass(frozen=True)
class Ridge(Simple):
    """g(x) = weight |x|_2^2.

    The point that minimises <c, s> + g(s) is the projection of -c / (2 weight) onto the set.

    Parameters
    ----------
    weight : float
        Above 0. Use `Zero` for a weight of 0.
    on : Set
        A set that has `project`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> g = cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1.0))
    >>> g.value(np.array([0.6, -0.4])), g.argmin(np.array([-2.0, 0.5])).point.tolist()
    (0.26, [1.0, -0.0])
    """

    weight: float
    on: Set

    def __post_init__(self) -> None:
        _checks.hold_number(self, "weight", above=0.0)
        checked_set(self.on).require("project", by="Ridge")

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """2 weight."""
        return 2.0 * self.weight

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return 2.0 * self.weight

    def value(self, x: Array) -> float:
        return self.weight * dot(x, x)

    def magnitude(self, x: Array, value: float) -> float:
        return 2.0 * value  # a rounding unit in x is two in |x|^2

    def gradient(self, x: Array) -> Array:
        return (2.0 * self.weight) * x

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        if self._is_negligible_beside(c):
            linear = linear_answer(
                self.on.linear_argmin(c), c
            )  # whose bound holds for <c, s> + weight |s|^2 as well
            return linear._replace(value=self.weight * dot(linear.point, linear.point))
        s = self.on.project(self._least_anywhere(c))
        value = self.weight * dot(s, s)
        rounding = self.on.projection_rounding
        magnitude = 2.0 * self.weight * rounding * total(namespace(s).abs(s)) if rounding else 0.0
        return Answer(s, dot(c, s) + value, value, magnitude=magnitude)

    def _least_anywhere(self, c: Array) -> Array:
        """-c/(2 weight), where <c, s> + weight |s|^2 is least without a set."""
        if self.weight > smallest(c):
            return (-0.5 / self.weight) * c
        size = largest_size(c)  # 1/weight itself is too large for a float of the kind of c
        return c if size == 0.0 else (-0.5 * size / self.weight) * (c / size)

    def _is_negligible_beside(self, c: Array) -> bool:
        """Whether c/weight, or its square, is too large for a float of its kind: no digit of F
        knows of the ridge then.

        The projection is that of a point at infinity, which is where <c, s> is least.
        """
        if not self.weight * self.on.scale < math.sqrt(smallest(c)) * largest_size(c):
            return False
        return "linear_argmin" in self.on.abilities

    def along(self, x: Array, directions: Array) -> Restriction:
        slope = 2.0 * self.weight * dots(directions, x)
        return Quadratic(self.value(x), slope, 2.0 * self.weight * gram(directions))
