"""f(x) = <C, x>."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from condgrad.arrays import Array, Space, Vector, dot, largest_size, namespace
from condgrad.arrays.inputs import floating
from condgrad.problem import Floor, Smooth
from condgrad.search.restriction import Quadratic, Restriction


class Linear(Smooth):
    """f(x) = <C, x>, for an array C of any shape.

    Parameters
    ----------
    C : array
        The cost. x has the same shape, library and precision.

    Examples
    --------
    >>> import condgrad as cg
    >>> r = cg.minimize(cg.smooth.Linear([3.0, 1.0, 2.0]), cg.simple.Zero(on=cg.sets.Simplex(3)))
    >>> r.x.tolist(), r.value
    ([0.0, 1.0, 0.0], 1.0)
    """

    def __init__(self, C: Any) -> None:
        self.C = floating("C", C)
        if 0 in self.C.shape:
            raise ValueError(f"C must not be empty, got shape {tuple(self.C.shape)}")
        self.one_signed = float(namespace(self.C).min(self.C)) >= 0.0
        self.space = Space.of(self.C)

    @cached_property
    def floor(self) -> Floor:  # type: ignore[override]
        """f(x) >= -|C|_inf |x|_1."""
        return Floor(0.0, largest_size(self.C))

    @property
    def smoothness(self) -> float | None:
        return 0.0

    def at(self, x: Array) -> LinearEvaluation:
        return LinearEvaluation(self.C, x, self.one_signed)

    def __repr__(self) -> str:
        return f"Linear(shape {tuple(self.C.shape)})"


class LinearEvaluation:
    """<C, x>: the tangent plane is the function."""

    offset = 0.0

    def __init__(self, C: Array, x: Array, one_signed: bool) -> None:
        self.gradient = C
        self._x = x
        self._one_signed = one_signed

    @cached_property
    def value(self) -> float:
        return dot(self.gradient, self._x)

    def magnitude(self, other: LinearEvaluation) -> float:
        xp = namespace(self.gradient)
        if self._one_signed and float(xp.min(other._x)) >= 0.0:
            return abs(other.value)  # nothing cancels
        size = xp.abs
        return dot(size(self.gradient), size(other._x))

    def along(self, others: Sequence[LinearEvaluation], directions: Array) -> Restriction:
        slope = np.array([other.value - self.value for other in others])
        return Quadratic(self.value, slope, np.zeros((len(others), len(others))))

    def moved(self, x: Array, others: Sequence[LinearEvaluation], a: Vector) -> LinearEvaluation:
        return LinearEvaluation(self.gradient, x, self._one_signed)
