"""g = 0: the plain conditional gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad.arrays import Array, namespace
from condgrad.problem import Answer, Set, Simple, checked_set, linear_answer
from condgrad.search.restriction import Quadratic, Restriction


@dataclass(frozen=True)
class Zero(Simple):
    """g(x) = 0: minimise f alone over a set.

    Parameters
    ----------
    on : Set
        A set that has `linear_argmin`.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> cg.minimize(f, cg.simple.Zero(on=cg.sets.Box(0.0, 0.5)), method="auto").x.tolist()
    [0.5, 0.5]
    """

    on: Set
    smoothness = 0.0
    weight = 0.0
    """0: code for a `Ridge` can then be used for `Zero` too."""

    def __post_init__(self) -> None:
        checked_set(self.on).require("linear_argmin", by="Zero")

    def value(self, x: Array) -> float:
        return 0.0

    def gradient(self, x: Array) -> Array:
        return namespace(x).zeros_like(x)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        return linear_answer(self.on.linear_argmin(c), c)

    def along(self, x: Array, directions: Array) -> Restriction:
        k = directions.shape[0]
        return Quadratic(0.0, np.zeros(k), np.zeros((k, k)))
