"""The dual variables of transport with a Laplacian: a column potential and the two moments of a plan."""

from __future__ import annotations

from typing import NamedTuple

from condgrad.arrays import Array


class Moments(NamedTuple):
    """A point (v, P, Q) of the dual, or a direction."""

    v: Array
    P: Array
    Q: Array

    def moved(self, step: float, direction: Moments) -> Moments:
        """self + step * direction."""
        v, P, Q = (old + step * new for old, new in zip(self, direction, strict=True))
        return Moments(v, P, Q)


def pairs(left: Array, right: Array) -> Array:
    """All products left[:, k] * right[:, l], as columns."""
    return (left[:, :, None] * right[:, None, :]).reshape(left.shape[0], -1)
