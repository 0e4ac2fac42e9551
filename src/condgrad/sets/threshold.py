"""max(v - theta, 0) with theta such that it sums to a given mass: the heart of simplex and l1-ball
projections.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array, at_least, namespace, sorted_threshold, total
from condgrad.kernels import readiness

SORTED_UP_TO = 400
"""Up to this many entries are sorted, which is faster than pruning them."""
COMPILED_TYPES = (np.dtype(np.float64), np.dtype(np.float32))
"""The types of entries that compiled code takes. They are dtypes, because comparing with a type
takes ten times as long.
"""
COMPILED_FROM = 100_000
"""Compiled code is used for at least this many entries. Then the few hundred projections of one
solve save more than the half second that loading numba takes.
"""


def worth_compiling(v: Array) -> bool:
    """Whether v is a vector for compiled code: a long one, where there is some."""
    if type(v) is not np.ndarray or v.shape[0] < COMPILED_FROM or not readiness.available():
        return False
    return v.ndim == 1 and v.flags.c_contiguous and v.dtype in COMPILED_TYPES


def keep_mass(v: Array, mass: float) -> Array:
    """max(v - theta, 0) summing to `mass` > 0, for theta found in O(n)."""
    if worth_compiling(v):
        from condgrad.kernels.keep_mass import keep_finite_mass

        answer, finite = keep_finite_mass(v, float(mass))
        if finite:
            return answer
    return keep_mass_by_arrays(v, mass)


def keep_mass_by_arrays(v: Array, mass: float) -> Array:
    """`keep_mass` by operations on whole arrays.

    Entries are shifted by their maximum first, which is exact for the ones that survive, so that a
    mass far below the size of v has full relative precision. Two lower bounds on theta prune
    most of a sparse answer at once; Michelot's passes finish on what is left (Michelot, JOTA
    50:195, 1986).
    """
    xp = namespace(v)
    v = v - v.max()
    if v.shape[0] <= SORTED_UP_TO:
        return at_least(0.0, v - sorted_threshold(v, mass))
    theta = max(-mass, (total(v) - mass) / v.shape[0])
    left = v[v > theta]
    while left.shape[0] > 0:
        theta = (total(left) - mass) / left.shape[0]
        above = left[left > theta]
        if above.shape[0] == left.shape[0]:
            return at_least(0.0, v - theta)
        left = above
    heaviest = v == 0.0  # theta rounds to 0 (or v holds NaN, which is reported where the value is)
    return xp.where(heaviest, mass / max(1, int(xp.count_nonzero(heaviest))), at_least(0.0, v))
