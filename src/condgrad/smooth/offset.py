"""A known part of the scores: h(z + offset)."""

from __future__ import annotations

from typing import Any

from condgrad.arrays import Array, host
from condgrad.smooth.composite import AtBestIntercept


class WithOffset:
    """A separable loss of z + offset, with an intercept or without."""

    def __init__(self, h: Any, offset: Array) -> None:
        self.h = h
        self.offset = offset
        self.quadratic = h.quadratic
        self.curvature_bound = h.curvature_bound
        self.has_intercept = h.has_intercept
        self.y = h.y
        self.weights = h.weights

    @property
    def free(self) -> Any:
        """The column of an intercept."""
        return self.h.free

    def on_host(self) -> WithOffset:
        """The same loss of margins on the host."""
        return WithOffset(self.h.on_host(), host(self.offset))

    def evaluate(self, z: Array) -> tuple[float, Array]:
        return self.h.evaluate(z + self.offset)

    def at_best_intercept(self, z: Array, *, near: float | None = None) -> AtBestIntercept:
        return self.h.at_best_intercept(z + self.offset, near=near)

    def intercept_at(self, z: Array, *, near: float | None = None) -> float:
        return self.h.intercept_at(z + self.offset, near=near)

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        return self.h.curvature(z + self.offset, intercept=intercept)

    def hessian_gram(self, z: Array, directions: Array, *, intercept: float | None = None) -> Any:
        return self.h.hessian_gram(z + self.offset, directions, intercept=intercept)
