"""`keep_mass` in one compiled function, for long vectors where numba is installed.

The functions below are plain Python until `compiled_keep_mass` hands them to numba: importing them costs nothing.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from condgrad._arrays import Array

BLOCK = 128
"""Entries looked at a time: most blocks of a sparse answer hold no candidate and are passed over."""
GROWTH = 6
"""How many times more candidates there are before their bound is worth raising again."""


def keep_finite_mass(v: Array, mass: float) -> tuple[Array, bool]:
    """max(v - theta, 0) summing to `mass`, and whether there is such a thing: not where v holds NaN or infinity.

    One pass over v collects candidates: those above a lower bound on theta, which the candidates themselves raise,
    since theta >= (sum of S - mass) / |S| for every subset S. Michelot's passes finish on the candidates.
    They are held in the place of the answer. All is relative to the largest entry so far: see `keep_mass_by_arrays`.
    """
    out = np.empty_like(v)
    top, bound, count, enough = float(v[0]), -mass, 0, BLOCK
    for begin in range(0, v.shape[0], BLOCK):
        block = v[begin : begin + BLOCK]
        if above(block, top, bound) == 0:
            continue
        if above(block, top, 0.0) > 0:
            high = highest(block, top)
            bound, top = max(-mass, bound + (top - high)), high
        count += moved(block, top, bound, out[count:])
        if count > enough:
            count = moved(out[:count], top, bound, out)
            bound = max(bound, (shifted_total(out[:count], top) - mass) / max(1, count))
            count = moved(out[:count], top, bound, out)
            enough = GROWTH * count + BLOCK
    theta = michelot(out, moved(out[:count], top, bound, out), top, mass)
    if not abs(theta) < np.inf:
        return out, False
    write_answer(v, mass, top, theta, out)
    return out, True


def above(x: Array, top: float, bound: float) -> int:
    """How many entries exceed the bound once top is taken off; NaN is never dropped, so that it reaches theta."""
    count = 0
    for i in range(x.shape[0]):
        count += 0 if float(x[i]) - top <= bound else 1
    return count


def moved(x: Array, top: float, bound: float, to: Array) -> int:
    """As `above`, and those entries are written to the front of `to`, which may begin where x does."""
    count = 0
    for i in range(x.shape[0]):
        entry = x[i]
        to[count] = entry
        count += 0 if float(entry) - top <= bound else 1
    return count


def highest(x: Array, top: float) -> float:
    """The largest entry, or top."""
    for i in range(x.shape[0]):
        top = max(top, float(x[i]))
    return top


def shifted_total(x: Array, top: float) -> float:
    """The sum of x - top in float64; four sums side by side in each block are fast and keep it precise."""
    whole = 0.0
    for begin in range(0, x.shape[0], BLOCK):
        block = x[begin : begin + BLOCK]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        fours = block.shape[0] // 4
        for i in range(fours):
            a += float(block[4 * i]) - top
            b += float(block[4 * i + 1]) - top
            c += float(block[4 * i + 2]) - top
            d += float(block[4 * i + 3]) - top
        for i in range(4 * fours, block.shape[0]):
            a += float(block[i]) - top
        whole += (a + b) + (c + d)
    return whole


def michelot(candidates: Array, count: int, top: float, mass: float) -> float:
    """Theta less top; 0 where it rounds to 0."""
    while count > 0:
        left = candidates[:count]
        theta = (shifted_total(left, top) - mass) / count
        if above(left, top, theta) == count:
            return theta
        count = moved(left, top, theta, candidates)
    return 0.0


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


@functools.cache
def compiled_keep_mass() -> Callable[[Array, float], tuple[Array, bool]] | None:
    """`keep_finite_mass` compiled, or None where numba is not installed or does not fit this NumPy."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        import numba
        import numba.extending
    except ImportError:
        return None
    for part in (above, moved, highest, shifted_total, michelot, write_answer):
        numba.extending.register_jitable(part)
    try:
        return cached(numba)
    except (OSError, RuntimeError):  # no folder for the compiled code can be written: compile again in each process
        return numba.njit(nogil=True)(keep_finite_mass)


def cached(numba: Any) -> Callable[[Array, float], tuple[Array, bool]]:
    """Compiled and called once, so that a cache that cannot be written shows here."""
    function = numba.njit(cache=True, nogil=True)(keep_finite_mass)
    function(np.ones(1), 1.0)
    return function
