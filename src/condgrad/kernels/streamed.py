"""Products with a matrix exp(score) that is never formed: what a transport plan is asked for.

A score is a bilinear form of low rank plus a number for each row and each column. Row logsumexps
and products with thin matrices need it only tile by tile, in memory O((n + m) (r + k)). The
transposed matrix is `score.turned()`, and a plan with row sums a is `Score(left, right, row=log(a)
- log_row_sums(score), column)` of a score without rows.

All functions take NumPy arrays or torch tensors and answer in float64, in the library and on the
device of the score. Importing this module loads neither numba nor Triton nor torch: the arrays
choose at the call who computes.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from condgrad.arrays import Array, double, host, namespace, on_device

PRODUCT_PRECISIONS = ("float64", "mixed")
LOG2E = math.log2(math.e)
LN2 = math.log(2.0)
TILE, DEVICE_TILE = 1 << 17, 1 << 24
"""The number of entries of a tile. On a CPU it stays in the cache; on an accelerator it takes some
hundred megabytes.
"""
MIDDLE = 64
"""The number of columns of a block. In float32 their scores are relative to that of the middle of
the block.
"""
SAMPLED_FROM, SAMPLED_ONE_IN = 4096, 16
"""With at least the first number of rows and columns, one column out of the second number tells
roughly how large the sums of rows are.
"""
SMALLEST_SUM = 1e-100
"""If a sum of exponentials is below this, or above its inverse, it may have lost digits, and is
computed in another way.
"""


@dataclass(frozen=True, repr=False, eq=False)
class Score:
    """score_ij = <left_i, right_j> + row_i + column_j, in natural logarithms.

    A row or a column of -inf has no mass: its weight is 0.
    """

    left: Array
    right: Array
    row: Array
    column: Array

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, double(getattr(self, field.name)))
        shapes = {field.name: tuple(getattr(self, field.name).shape) for field in fields(self)}
        n = self.left.shape[0]
        m = self.right.shape[0]
        r = self.left.shape[-1]
        if shapes != {"left": (n, r), "right": (m, r), "row": (n,), "column": (m,)}:
            raise ValueError(
                f"a score is made of left (n, r), right (m, r), row (n,) and column (m,), got {shapes}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """n and m."""
        return self.left.shape[0], self.right.shape[0]

    def turned(self) -> Score:
        """The score of the transposed matrix."""
        return Score(self.right, self.left, self.column, self.row)

    @cached_property
    def prepared(self) -> dict[Any, Any]:
        """What a backend has made of it for its kernels, stored from product to product."""
        return {}


class CentredColumns(NamedTuple):
    """The columns of a score by blocks of 64, relative to the middle of each.

    score_ij = (row_i + <left_i, middles_J> + middle_columns_J) + <left_i, right_j> + column_j for j
    in block J. What is in brackets is a number for each row and block, cheap in float64; the rest
    is small where neighbouring columns are alike, so that in float32 it loses nothing that matters,
    however large the score is.
    """

    middles: Array
    middle_columns: Array
    right: Array
    column: Array

    @classmethod
    def of(cls, score: Score) -> CentredColumns:
        xp, (m, r) = namespace(score.right), score.right.shape
        blocks = -(-m // MIDDLE)
        missing = blocks * MIDDLE - m

        def in_blocks(x: Array) -> Array:
            """The last block filled up by its last column."""
            return xp.concat([x, *[x[-1:]] * missing], axis=0).reshape(blocks, MIDDLE, *x.shape[1:])

        right = in_blocks(score.right)
        column = in_blocks(score.column)
        finite = xp.isfinite(column)
        counts = xp.clip(xp.sum(xp.astype(finite, column.dtype), axis=1), min=1.0)
        middle_columns = xp.sum(xp.where(finite, column, 0.0), axis=1) / counts
        middles = xp.mean(right, axis=1)
        right = (right - middles[:, None, :]).reshape(blocks * MIDDLE, r)[:m]
        return cls(
            middles, middle_columns, right, (column - middle_columns[:, None]).reshape(-1)[:m]
        )


def compact_order(points: Array) -> Array:
    """An order in which neighbours in memory are neighbours in space, so that blocks of columns
    have a middle.
    """
    if 0 in points.shape:
        return namespace(points).arange(points.shape[0], device=points.device)
    from scipy.spatial import cKDTree

    order = cKDTree(host(points), leafsize=MIDDLE).indices
    return namespace(points).asarray(order, device=points.device)


def log_row_sums(score: Score, *, near: Array | None = None, precision: str = "float64") -> Array:
    """log sum_j exp(score_ij), shape (n,): nothing overflows, and a row without mass has -inf."""
    return row_means(score, score.right[:, :0], near=near, precision=precision)[0]


def row_means(
    score: Score, R: Array, *, near: Array | None = None, precision: str = "float64"
) -> tuple[Array, Array]:
    """log sum_j exp(score_ij), and the means sum_j exp(score_ij) R_j / sum_j exp(score_ij), in one
    sweep.

    Sums relative to numbers near the answer take half the time of those relative to the largest
    score, and serve the means too. `near` are such numbers, where they are known; between many
    points some columns tell them. Where they turn out to be far off, the answer is computed without
    them, the sums in float64. `precision` is that of `times`.
    """
    xp, (n, m) = namespace(score.left), score.shape
    if near is None and min(n, m) >= SAMPLED_FROM and _computer.get() is None:
        some = replace(
            score, right=score.right[::SAMPLED_ONE_IN], column=score.column[::SAMPLED_ONE_IN]
        )
        near = _backend(score).log_row_sums(some)
        near = xp.where(xp.isfinite(near), near, 0.0)
    if near is not None:
        with_ones = xp.concat([xp.ones_like(score.right[:, :1]), R], axis=1)
        sums = times(replace(score, row=score.row - near), with_ones, precision=precision)
        if (
            float(xp.min(sums[:, 0])) > SMALLEST_SUM
            and float(xp.max(sums[:, 0])) < 1.0 / SMALLEST_SUM
        ):
            return near + xp.log(sums[:, 0]), sums[:, 1:] / sums[:, :1]
    log_sums = _backend(score).log_row_sums(score)
    if R.shape[1] == 0:
        return log_sums, log_sums[:, None][:, :0]
    finite = xp.where(xp.isfinite(log_sums), log_sums, 0.0)
    return log_sums, times(replace(score, row=score.row - finite), R, precision=precision)


def times(score: Score, R: Array, *, precision: str = "float64") -> Array:
    """sum_j exp(score_ij) R_j, shape (n, k), for R of shape (m, k).

    `precision` matters on a GPU alone: "mixed" takes a third of the time of "float64", is good to
    about 1e-7 where neighbouring columns are alike, and may not enter a bound.
    """
    _check_precision(precision)
    return _backend(score).times(score, _columns("R", R, score.shape[1]), precision)


def weighted_times(
    score: Score, delta_left: Array, delta_right: Array, R: Array, *, precision: str = "float64"
) -> Array:
    """sum_j exp(score_ij) <delta_left_i, delta_right_j> R_j, shape (n, k), in O(n m (r + rank of
    delta + k)).
    """
    _check_precision(precision)
    n, m = score.shape
    delta_left = _columns("delta_left", delta_left, n)
    delta_right = _columns("delta_right", delta_right, m)
    if delta_left.shape[1] != delta_right.shape[1]:
        raise ValueError(
            f"delta_left has {delta_left.shape[1]} columns and must have as many as delta_right, {delta_right.shape[1]}"
        )
    return _backend(score).weighted_times(
        score, delta_left, delta_right, _columns("R", R, m), precision
    )


def entropy_row_sums(score: Score, kept: Array, row_rest: Array, column_rest: Array) -> Array:
    """sum_j p_ij log p_ij with p_ij = exp(score_ij) kept_j + row_rest_i column_rest_j, shape (n,).

    The entropy of a rounded plan: columns scaled down by `kept`, and a product measure that puts
    back what is missing.
    """
    n, m = score.shape
    kept = _vector("kept", kept, m)
    column_rest = _vector("column_rest", column_rest, m)
    return _backend(score).entropy_row_sums(
        score, kept, _vector("row_rest", row_rest, n), column_rest
    )


def rows(score: Score, indices: Array) -> Array:
    """exp(score) of some rows, dense, shape (len(indices), m), by this machine: they are few."""
    if on_device(score.left):
        return importlib.import_module("condgrad.kernels.streamed_tiles").rows(score, indices)
    return importlib.import_module("condgrad.kernels.streamed_numba").rows(score, indices)


_computer: ContextVar[Any] = ContextVar("computer", default=None)


@contextmanager
def computed_by(computer: Any) -> Iterator[None]:
    """Inside, another object computes the four products of this module; see
    `condgrad.transport.workers.Workers`.
    """
    token = _computer.set(computer)
    try:
        yield
    finally:
        _computer.reset(token)


def _backend(score: Score) -> Any:
    """Who computes: who was named, Triton's kernels for CUDA, numba's for a CPU, array code for
    other devices.
    """
    computer = _computer.get()
    if computer is not None:
        return computer
    if not on_device(score.left):
        return importlib.import_module("condgrad.kernels.streamed_numba")
    if score.left.device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        return importlib.import_module("condgrad.kernels.streamed_triton")
    return importlib.import_module("condgrad.kernels.streamed_tiles")


def _check_precision(precision: str) -> None:
    if precision not in PRODUCT_PRECISIONS:
        raise ValueError(
            f"precision must be one of {', '.join(PRODUCT_PRECISIONS)}, got {precision!r}"
        )


def _columns(name: str, matrix: Array, size: int) -> Array:
    """A matrix of `size` rows in float64."""
    if matrix.ndim != 2 or matrix.shape[0] != size:
        raise ValueError(f"{name} must be a matrix of {size} rows, got shape {tuple(matrix.shape)}")
    return double(matrix)


def _vector(name: str, vector: Array, size: int) -> Array:
    """A vector of `size` entries in float64."""
    if tuple(vector.shape) != (size,):
        raise ValueError(
            f"{name} must be a vector of {size} entries, got shape {tuple(vector.shape)}"
        )
    return double(vector)
