"""The simplex with its inside: the part of the l1 ball without negative coefficients."""

from __future__ import annotations

from dataclasses import dataclass

from condgrad import _checks
from condgrad.arrays import Array, Space, at_least, namespace, total
from condgrad.problem import Answer, Face, Set
from condgrad.sets.threshold import keep_mass


@dataclass(frozen=True)
class SolidSimplex(Set):
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

    projection_rounding = 0.0
    nonnegative = True
    smallest_entry = 0.0
    solid = True

    mass: float = 1.0

    def __post_init__(self) -> None:
        _checks.hold_number(self, "mass", at_least=0.0)

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.mass

    @property
    def largest_entry(self) -> float:  # type: ignore[override]
        """The mass."""
        return self.mass

    def norm(self, x: Array) -> float:
        """The sum of the entries, without their signs where a point is outside."""
        return total(namespace(x).abs(x))

    def pulls(self, c: Array) -> Array:
        """How fast <c, x> falls as a coordinate leaves 0; one below 0 is held there."""
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
        kept = xp.reshape(keep_mass(xp.reshape(positive, (-1,)), self.mass), x.shape)
        # relative to the largest entry, the threshold of a point just outside may round to below 0
        return xp.minimum(kept, positive)

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
