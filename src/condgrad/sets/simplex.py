"""The simplex, and with its inside: the part of the l1 ball without negative coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, Space, at_least, dot, log_or_least, namespace, total
from condgrad.problem import Answer, Face, Set
from condgrad.sets.threshold import keep_mass


class OfMass(Set):
    """Points >= 0 whose coordinates sum to a mass at most."""

    projection_rounding = 0.0
    nonnegative = True
    mass: float

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.mass

    @property
    def largest_entry(self) -> float:  # type: ignore[override]
        """The mass."""
        return self.mass


@dataclass(frozen=True)
class Simplex(OfMass):
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

    n: int
    mass: float = 1.0

    def __post_init__(self) -> None:
        _checks.hold_whole(self, "n", at_least=1)
        _checks.hold_number(self, "mass", at_least=0.0)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(n,)."""
        return (self.n,)

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


@dataclass(frozen=True)
class SolidSimplex(OfMass):
    """The solid simplex {x : x >= 0, sum x <= mass}, for arrays of any shape.

    Parameters
    ----------
    mass : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.SolidSimplex(1.0).project(np.array([2.0, 1.5, -1.0])).tolist()
    [0.75, 0.25, 0.0]
    """

    smallest_entry = 0.0
    solid = True

    mass: float = 1.0

    def __post_init__(self) -> None:
        _checks.hold_number(self, "mass", at_least=0.0)

    def norm(self, x: Array) -> float:
        """The sum of |x_i|. In the set this is the sum of the entries."""
        return total(namespace(x).abs(x))

    def pulls(self, c: Array) -> Array:
        """For each coordinate, the rate at which <c, x> falls when the coordinate grows from 0. If
        it is negative, the coordinate stays at 0.
        """
        return -c

    def start(self, space: Space) -> Array:
        return space.full(0.0)

    def violation(self, x: Array) -> float:
        return max(0.0, -float(namespace(x).min(x)), total(x) - self.mass)

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        positive = at_least(0.0, x)
        if total(positive) <= self.mass:
            return positive
        if self.mass == 0.0:
            return xp.zeros_like(x)
        projected = xp.reshape(keep_mass(xp.reshape(positive, (-1,)), self.mass), x.shape)
        # relative to the largest entry, the threshold of a point just outside may round to below 0
        return xp.minimum(projected, positive)

    def face(self, v: Array) -> Face:
        xp = namespace(v)
        point = self.project(v)
        active = xp.nonzero(point)[0]
        inside = total(at_least(0.0, v)) <= self.mass
        return Face(point, active, None if inside else xp.ones_like(point[active]))

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        flat = xp.reshape(c, (-1,))
        i = int(xp.argmin(flat))
        lowest = min(0.0, float(flat[i]))
        s = xp.zeros_like(flat)
        if lowest < 0.0:
            s[i] = self.mass
        return Answer(xp.reshape(s, c.shape), self.mass * lowest, value=0.0)
