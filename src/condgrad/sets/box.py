"""The box."""

from __future__ import annotations

from typing import Any

from condgrad._arrays import Array, Space, dot, floating, like, log_or_least, namespace
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Set


class Box(Set):
    """{x : lower <= x <= upper}, with finite arrays (or numbers) lower <= upper."""

    def __init__(self, lower: Any, upper: Any) -> None:
        lower, upper = floating("lower", lower), floating("upper", upper)
        xp = namespace(lower)
        self.lower, self.upper = xp.broadcast_arrays(lower, upper)
        if bool(xp.any(self.lower > self.upper)):
            raise ValueError("lower must be <= upper in every coordinate")
        self.shape = tuple(self.lower.shape) or None
        self.space = Space.of(self.lower) if self.shape else None
        sizes = xp.maximum(xp.abs(self.lower), xp.abs(self.upper))
        self.scale = self.largest_entry = float(xp.max(sizes))
        self.solid = bool(xp.all((self.lower <= 0) & (self.upper >= 0)))

    def __repr__(self) -> str:
        return f"Box(shape {self.shape or 'any'})"

    def _bounds(self, x: Array) -> tuple[Array, Array]:
        """Both bounds, in the shape and kind of x."""
        broadcast = namespace(x).broadcast_to
        return broadcast(like(self.lower, x), x.shape), broadcast(like(self.upper, x), x.shape)

    def start(self, space: Space) -> Array:
        lower, upper = self._bounds(space.full(0.0))
        return lower + 0.5 * (upper - lower)

    def violation(self, x: Array) -> float:
        lower, upper = self._bounds(x)
        xp = namespace(x)
        return max(0.0, float(xp.max(lower - x)), float(xp.max(x - upper)))

    def project(self, x: Array) -> Array:
        lower, upper = self._bounds(x)
        xp = namespace(x)
        return xp.minimum(xp.maximum(x, lower), upper)

    def linear_argmin(self, c: Array) -> Answer:
        lower, upper = self._bounds(c)
        s = namespace(c).where(c > 0, lower, upper)
        return Answer(s, dot(c, s), value=0.0)

    def entropic_argmin(self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        """exp(-c/weight - 1), clipped coordinate by coordinate; the box must be nonnegative."""
        lower, upper = self._bounds(c)
        xp = namespace(c)
        if bool(xp.any(lower < 0)):
            raise MissingAbility(f"the entropy needs nonnegative points: {self!r} has lower < 0")
        # clipping the exponent first keeps exp from overflowing
        free = xp.exp(xp.minimum(-c / weight - 1.0, log_or_least(upper)))
        s = xp.minimum(xp.maximum(free, lower), upper)
        value = weight * dot(s, log_or_least(s))
        return Answer(s, dot(c, s) + value, value=value)
