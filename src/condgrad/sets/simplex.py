"""The simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, Space, dot, log_or_least, namespace, total
from condgrad.problem import Answer, Face, Set
from condgrad.sets.threshold import keep_mass


@dataclass(frozen=True)
class Simplex(Set):
    """The simplex {x in R^n : x >= 0, sum x = mass}.

    Parameters
    ----------
    n : int
        The number of coordinates.
    mass : float
        The sum of the coordinates.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.Simplex(3).project(np.array([1.0, 0.8, -2.0])).tolist()
    [0.6, 0.4, 0.0]
    """

    projection_rounding = 0.0

    n: int
    mass: float = 1.0
    nonnegative = True

    def __post_init__(self) -> None:
        _checks.hold_whole(self, "n", at_least=1)
        _checks.hold_number(self, "mass", at_least=0.0)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(n,)."""
        return (self.n,)

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.mass

    @property
    def largest_entry(self) -> float:  # type: ignore[override]
        """The mass."""
        return self.mass

    def start(self, space: Space) -> Array:
        return space.full(self.mass / self.n)

    def violation(self, x: Array) -> float:
        return max(0.0, -float(namespace(x).min(x)), abs(total(x) - self.mass))

    def project(self, x: Array) -> Array:
        return namespace(x).zeros_like(x) if self.mass == 0.0 else keep_mass(x, self.mass)

    def face(self, v: Array) -> Face:
        xp = namespace(v)
        point = self.project(v)
        active = xp.nonzero(point)[0]
        return Face(point, active, xp.ones_like(point[active]))

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        i = int(xp.argmin(c))
        s = xp.zeros_like(c)
        s[i] = self.mass
        return Answer(s, self.mass * float(c[i]), value=0.0)

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """mass * softmax(-c / weight). The minimum has a closed form too."""
        xp = namespace(c)
        if self.mass == 0.0:
            return Answer(xp.zeros_like(c), 0.0, value=0.0)
        lowest = float(xp.min(c))
        fall = (lowest - c) / weight
        s = xp.exp(fall)
        norm = total(s)
        s = s * (self.mass / norm)
        log_mass = math.log(self.mass)
        log_norm = math.log(norm)
        least = self.mass * (lowest + weight * (log_mass - log_norm))
        # the exponents, whose mean is at most log n, and both logarithms
        terms = abs(lowest) + weight * (1.0 + math.log(self.n) + abs(log_mass) + log_norm)
        return Answer(s, least, value=weight * dot(s, log_or_least(s)), magnitude=self.mass * terms)
