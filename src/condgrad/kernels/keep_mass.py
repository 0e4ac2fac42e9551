"""max(v - theta, 0) with theta such that it sums to a given mass, and the projection onto the l1
ball that it makes.

Their plain references are `sets.threshold.keep_mass_by_arrays` and `L1Ball.project_by_arrays`.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled, compiled_in_place, entry_point

ENTRIES_TOGETHER = 128
"""The number of entries looked at together. Most blocks of a sparse answer have no candidate and
are passed over.
"""
MORE_CANDIDATES = 6
"""The bound of the candidates is raised again once there are this many times more of them."""


@compiled
def above(x: Array, top: float, bound: float) -> int:
    """How many entries exceed the bound once top is taken off; NaN is never dropped, so that it
    reaches theta.
    """
    count = 0
    for i in range(x.shape[0]):
        count += 0 if float(x[i]) - top <= bound else 1
    return count


@compiled
def gather_above(x: Array, top: float, bound: float, to: Array) -> int:
    """As `above`, and those entries are written to the front of `to`, which may begin where x does."""
    count = 0
    for i in range(x.shape[0]):
        entry = x[i]
        to[count] = entry
        count += 0 if float(entry) - top <= bound else 1
    return count


@compiled_in_place
def highest(x: Array, top: float) -> float:
    """The largest entry, or top."""
    for i in range(x.shape[0]):
        top = max(top, float(x[i]))
    return top


@compiled
def shifted_total(x: Array, top: float) -> float:
    """The sum of x - top in float64, block by block to keep it precise."""
    whole = 0.0
    for begin in range(0, x.shape[0], ENTRIES_TOGETHER):
        block = x[begin : begin + ENTRIES_TOGETHER]
        part = 0.0
        for i in range(block.shape[0]):
            part += float(block[i]) - top
        whole += part
    return whole


@compiled_in_place
def michelot(candidates: Array, count: int, top: float, mass: float) -> float:
    """Theta less top; 0 where it rounds to 0."""
    while count > 0:
        left = candidates[:count]
        theta = (shifted_total(left, top) - mass) / count
        if above(left, top, theta) == count:
            return theta
        count = gather_above(left, top, theta, candidates)
    return 0.0


@compiled_in_place
def write_answer(v: Array, mass: float, top: float, theta: float, out: Array) -> None:
    """max(v - top - theta, 0), or the mass shared by the largest entries where theta is 0."""
    for i in range(v.shape[0]):
        entry = float(v[i]) - top - theta
        out[i] = entry if entry > 0.0 else 0.0
    if theta == 0.0:
        heaviest = 0
        for i in range(v.shape[0]):
            heaviest += v[i] == top
        for i in range(v.shape[0]):
            if v[i] == top:
                out[i] = mass / heaviest


@entry_point
def keep_finite_mass(v: Array, mass: float) -> tuple[Array, bool]:
    """max(v - theta, 0) summing to `mass`, and whether there is such a thing: not where v holds NaN
    or infinity.

    One pass over v collects candidates: those above a lower bound on theta, which the candidates
    themselves raise, since theta >= (sum of S - mass) / |S| for every subset S. Michelot's passes
    finish on the candidates. They are held in the place of the answer. All is relative to the
    largest entry so far: see `keep_mass_by_arrays`.
    """
    out = np.empty_like(v)
    top = float(v[0])
    bound = -mass
    count = 0
    enough = ENTRIES_TOGETHER
    for begin in range(0, v.shape[0], ENTRIES_TOGETHER):
        block = v[begin : begin + ENTRIES_TOGETHER]
        if above(block, top, bound) == 0:
            continue
        if above(block, top, 0.0) > 0:
            high = highest(block, top)
            bound = max(-mass, bound + (top - high))
            top = high
        count += gather_above(block, top, bound, out[count:])
        if count > enough:
            count = gather_above(out[:count], top, bound, out)
            bound = max(bound, (shifted_total(out[:count], top) - mass) / max(1, count))
            count = gather_above(out[:count], top, bound, out)
            enough = MORE_CANDIDATES * count + ENTRIES_TOGETHER
    theta = michelot(out, gather_above(out[:count], top, bound, out), top, mass)
    if not abs(theta) < np.inf:
        return out, False
    write_answer(v, mass, top, theta, out)
    return out, True


@entry_point
def onto_l1_ball(x: Array, radius: float) -> tuple[Array, bool, bool]:
    """The projection of x, whether x is in the ball already, and whether all is finite; radius > 0."""
    sizes = np.abs(x)
    if shifted_total(sizes, 0.0) <= radius:
        return sizes, True, True
    point, finite = keep_finite_mass(sizes, radius)
    for i in range(x.shape[0]):
        # relative to the largest entry, the threshold of a point just outside may round to below 0
        point[i] = min(point[i], sizes[i])
        if x[i] < 0.0:
            point[i] = -point[i]
    return point, False, finite
