"""g(x) = weight |x|^2 on any set with a projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, dot, dots, gram, namespace, total
from condgrad.problem import Answer, Set, Simple, checked_set
from condgrad.search.restriction import Quadratic, Restriction


@dataclass(frozen=True)
class Ridge(Simple):
    """g(x) = weight |x|_2^2; its oracle is the projection of -c / (2 weight).

    Parameters
    ----------
    weight : float
        Above 0; for a weight of 0 take `Zero`.
    on : Set
        A set with a projection.

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
        object.__setattr__(self, "weight", _checks.number("weight", self.weight, above=0.0))
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
        s = self.on.project((-0.5 / self.weight) * c)
        value = self.weight * dot(s, s)
        rounding = self.on.projection_rounding
        magnitude = 2.0 * self.weight * rounding * total(namespace(s).abs(s)) if rounding else 0.0
        return Answer(s, dot(c, s) + value, value, magnitude=magnitude)

    def along(self, x: Array, directions: Array) -> Restriction:
        slope = 2.0 * self.weight * dots(directions, x)
        return Quadratic(self.value(x), slope, 2.0 * self.weight * gram(directions))
