"""max(v - theta, 0) with theta such that it sums to a given mass: the heart of simplex and l1-ball projections."""

from __future__ import annotations

from condgrad._arrays import Array, at_least, namespace, sorted_threshold, total

FEW = 400
"""Entries that are sorted faster than they are pruned."""


def keep_mass(v: Array, mass: float) -> Array:
    """max(v - theta, 0) summing to `mass` > 0, for theta found in O(n).

    Entries are shifted by their maximum first, which is exact for the ones that survive, so that a mass
    far below the size of v is kept to full relative precision. Two lower bounds on theta prune most of
    a sparse answer at once; Michelot's passes finish on what is left (Michelot, JOTA 50:195, 1986).
    """
    xp = namespace(v)
    v = v - xp.max(v)
    if v.shape[0] <= FEW:
        return at_least(0.0, v - sorted_threshold(v, mass))
    theta = max(-mass, (total(v) - mass) / v.shape[0])
    left = v[v > theta]
    if left.shape[0] == 0:  # theta rounds to 0 (or v holds NaN, which is reported where the value is)
        heaviest = v == 0.0
        return xp.where(heaviest, mass / max(1, int(xp.count_nonzero(heaviest))), at_least(0.0, v))
    while True:
        theta = (total(left) - mass) / left.shape[0]
        kept = left[left > theta]
        if kept.shape[0] == left.shape[0]:
            return at_least(0.0, v - theta)
        left = kept
