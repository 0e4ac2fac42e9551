"""Sums, products and choices over whole arrays, in float64 where rounding adds up."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np
import scipy  # loads its linalg when that is first asked for
import scipy.sparse

from condgrad.arrays.backend import (
    FLOAT64,
    Array,
    Matrix,
    Vector,
    double,
    host,
    is_formed,
    is_torch,
    namespace,
    on_device,
    smallest,
)

LEAST_SUM_OF_SQUARES = sys.float_info.min / sys.float_info.epsilon
"""If a sum of squares is smaller, squares of entries that matter may have underflowed. Then x is
scaled first.
"""


def dot(x: Array, y: Array) -> float:
    """<x, y> over all entries, accumulated in float64."""
    if type(x) is np.ndarray and x.dtype == FLOAT64 and x.dtype == y.dtype:
        return float(x.dot(y) if x.ndim == y.ndim == 1 else np.vdot(x, y))
    x = double(x)
    y = double(y)
    if is_torch(x):
        return x.reshape(-1).dot(y.reshape(-1)).item()
    return float(namespace(x).vecdot(x.reshape(-1), y.reshape(-1)))


def length_of(x: Array) -> float:
    """|x|_2, also where the squares of its entries overflow or underflow."""
    # the root rounds alike in every unit, which the power 0.5 does not
    with np.errstate(over="ignore"):
        square = dot(x, x)
    if LEAST_SUM_OF_SQUARES < square < math.inf:
        return math.sqrt(square)
    size = largest_size(x)
    return (
        size
        if size == 0.0 or not math.isfinite(size)
        else size * math.sqrt(dot(x / size, x / size))
    )


def total(x: Array) -> float:
    """The sum of all entries, accumulated in float64."""
    if type(x) is np.ndarray:
        return float(np.add.reduce(x, axis=None, dtype=np.float64))  # faster than x.sum
    if not is_formed(x):
        return x.mass
    xp = namespace(x)
    return float(xp.sum(x, dtype=xp.float64))


def largest_size(x: Array) -> float:
    """max |x_i|; NaN where x holds it."""
    if type(x) is np.ndarray:
        return max(float(x.max()), -float(x.min()))  # |x| would be a copy
    xp = namespace(x)
    return max(float(xp.max(x)), -float(xp.min(x)))


def at_least(low: float, x: Array) -> Array:
    """max(x, low), entry by entry."""
    if type(x) is np.ndarray:
        return np.maximum(x, low)
    return namespace(x).clip(x, min=low)


def log_sum_exp(x: Array, *, axis: int) -> Array:
    """log sum exp, relative to the largest."""
    xp = namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    sums = xp.sum(xp.exp(x - top), axis=axis, keepdims=True)
    return xp.squeeze(top + xp.log(sums), axis=axis)


def signs(x: Array) -> Array:
    """-1, 0 or 1 for each entry."""
    return np.sign(x) if type(x) is np.ndarray else namespace(x).sign(x)


def sorted_threshold(v: Array, mass: float) -> float:
    """theta with sum max(v - theta, 0) = mass > 0, from the sorted entries of v."""
    xp = namespace(v)
    falling = np.sort(v)[::-1] if type(v) is np.ndarray else xp.sort(v, descending=True)
    excess = falling.cumsum(0) - mass
    ranks = xp.arange(1, v.shape[0] + 1, dtype=v.dtype, device=v.device)
    last = max(1, int(xp.count_nonzero(falling * ranks > excess)))
    return float(excess[last - 1]) / last


def log_or_least(x: Array) -> Array:
    """log x, with the log of the smallest positive number where x is 0."""
    return namespace(x).log(at_least(smallest(x), x))


def dots(rows: Array, x: Array) -> Vector:
    """<rows[i], x> for each i, on the host."""
    return host(double(rows).reshape(rows.shape[0], -1) @ double(x).reshape(-1))


def gram(rows: Array, weights: Array | None = None) -> Any:
    """The matrix <rows[i] * weights, rows[j]>, on the host."""
    flat = double(rows).reshape(rows.shape[0], -1)
    weighted = flat if weights is None else flat * weights.reshape(-1)
    return host(weighted @ flat.T)


def combine(a: Vector, rows: Array) -> Array:
    """sum_i a[i] rows[i]."""
    if len(a) == 1:
        return float(a[0]) * rows[0]
    xp = namespace(rows)
    weights = xp.asarray(a, dtype=rows.dtype, device=array_api_compat.device(rows))
    return xp.tensordot(weights, rows, axes=1)


def differences(points: list[Array], x: Array) -> Array:
    """points[i] - x, stacked."""
    if len(points) == 1:
        return (points[0] - x)[None]
    result = namespace(x).empty(
        (len(points), *x.shape), dtype=x.dtype, device=array_api_compat.device(x)
    )
    for i, point in enumerate(points):
        result[i] = point
        result[i] -= x
    return result


ENTRIES_A_PASS = 1 << 15
DEVICE_ENTRIES_A_PASS = 1 << 26
"""Entries a pass takes at a time: what lies between stays in the cache, or on a GPU takes little
memory.
"""
ENOUGH_ROWS = 256
"""With more rows in the left factor, a product takes no less time for each of them."""


def mixed(x: Array, points: Sequence[Array], fractions: Vector) -> Array:
    """(1 - sum a) x + sum_i a_i points[i]: a convex combination, so that signs survive rounding."""
    result = (1.0 - float(fractions.sum())) * x
    for fraction, point in zip(fractions.tolist(), points, strict=True):
        result += fraction * point
    return result


def row_blocks(x: Array, *, width: int = 1) -> list[slice]:
    """Slices of rows for passes of several operations.

    Where a slice is filled by a product of two factors, `width` is the number of their columns: a
    slice of fewer rows than that takes longer to arrange the right factor than to multiply with it.
    """
    rows = x.shape[0]
    size = math.prod(x.shape)
    block = DEVICE_ENTRIES_A_PASS if on_device(x) else ENTRIES_A_PASS
    if size <= block:
        return [slice(0, rows)]
    step = max(1, block * rows // size, min(width, ENOUGH_ROWS))
    return [slice(begin, begin + step) for begin in range(0, rows, step)]


def stack(arrays: list[Array]) -> Array:
    return arrays[0][None] if len(arrays) == 1 else namespace(arrays[0]).stack(arrays)


def all_finite(x: Matrix) -> bool:
    if scipy.sparse.issparse(x):
        x = x.data
    xp = namespace(x)
    return bool(xp.all(xp.isfinite(x)))


def steepest_indices(pulls: Array, x: Array, size: int) -> Array:
    """Where x is not 0 and where its pull is largest, `size` of them in all."""
    if type(pulls) is np.ndarray:
        score = np.where(x == 0, pulls, np.inf)
        return score.argpartition(-size)[-size:]
    xp = namespace(pulls)
    return xp.where(x == 0, pulls, xp.inf).topk(size).indices
