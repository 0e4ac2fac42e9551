"""The box."""

from __future__ import annotations

from typing import Any

from condgrad.arrays import Array, Space, dot, is_torch, like, log_or_least, namespace
from condgrad.arrays.inputs import floating
from condgrad.problem import Answer, Face, Set


class Box(Set):
    """The box {x : lower <= x <= upper}.

    Parameters
    ----------
    lower, upper : arrays or numbers
        Finite, with lower <= upper. If both are numbers, x may have any shape.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.Box(0.0, [1.0, 2.0]).project(np.array([-1.0, 5.0])).tolist()
    [0.0, 2.0]
    """

    projection_rounding = 0.0

    def __init__(self, lower: Any, upper: Any) -> None:
        lower = floating("lower", lower)
        upper = floating("upper", upper)
        if is_torch(lower) != is_torch(upper):
            lower, upper = (
                (lower, like(upper, lower)) if is_torch(lower) else (like(lower, upper), upper)
            )
        xp = namespace(lower)
        try:
            self.lower, self.upper = xp.broadcast_arrays(lower, upper)
        except (ValueError, RuntimeError) as error:
            raise ValueError(
                f"lower and upper must have shapes that fit together, got {tuple(lower.shape)} and {tuple(upper.shape)}"
            ) from error
        if 0 in self.lower.shape:
            raise ValueError(
                f"lower and upper must not be empty, got shape {tuple(self.lower.shape)}"
            )
        excess = xp.reshape(self.lower - self.upper, (-1,))
        worst = int(xp.argmax(excess))
        if float(excess[worst]) > 0:
            pair = [float(xp.reshape(bound, (-1,))[worst]) for bound in (self.lower, self.upper)]
            raise ValueError(
                f"lower must be <= upper in every coordinate, got {pair[0]:g} above {pair[1]:g}"
            )
        self.shape = tuple(self.lower.shape) or None
        self.space = Space.of(self.lower) if self.shape else None
        sizes = xp.maximum(xp.abs(self.lower), xp.abs(self.upper))
        self.scale = self.largest_entry = float(xp.max(sizes))
        self.smallest_entry = float(xp.min(self.lower))
        self.nonnegative = bool(xp.all(self.lower >= 0))
        self.solid = bool(xp.all((self.lower <= 0) & (self.upper >= 0)))

    def __repr__(self) -> str:
        if self.shape is None:
            return f"Box({float(self.lower):g}, {float(self.upper):g})"
        return f"Box(shape {self.shape})"

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

    def face(self, v: Array) -> Face:
        lower, upper = self._bounds(v)
        return Face(self.project(v), namespace(v).nonzero((v > lower) & (v < upper))[0], None)

    def linear_argmin(self, c: Array) -> Answer:
        lower, upper = self._bounds(c)
        s = namespace(c).where(c > 0, lower, upper)
        return Answer(s, dot(c, s), value=0.0)

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """exp(-c/weight - 1), clipped to the box in each coordinate. Needs lower >= 0."""
        lower, upper = self._bounds(c)
        xp = namespace(c)
        # clipping the exponent first keeps exp from overflowing
        free = xp.exp(xp.minimum(-c / weight - 1.0, log_or_least(upper)))
        s = xp.minimum(xp.maximum(free, lower), upper)
        value = weight * dot(s, log_or_least(s))
        return Answer(
            s,
            dot(c, s) + value,
            value=value,
            magnitude=weight * dot(s, xp.abs(log_or_least(s)) + 1.0),
        )
