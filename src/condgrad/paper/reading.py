"""What the curves of any experiment are read for: who got where first, and what is known of F*."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from condgrad.paper.pieces import Curve

Numbers = NDArray[np.float64]


def thinned(count: int, most: int = 250) -> NDArray[np.int_]:
    """At most so many of the indices 0 .. count - 1, even on a logarithmic axis, both ends among them."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def first_at(values: ArrayLike, level: float) -> int | None:
    """Where the values first are at a level or below; None where they never are."""
    there = np.flatnonzero(np.asarray(values, dtype=float) <= level)
    return int(there[0]) if there.size else None


def best_known(curves: Sequence[Curve]) -> tuple[float, float]:
    """The best value that anybody reached and the best bound that anybody proved: F* lies between them."""
    bounds = [max(curve.columns["lower_bound"]) for curve in curves if curve.columns.get("lower_bound")]
    return min(min(curve.columns["best_value"]) for curve in curves), max(bounds, default=-math.inf)
