"""Products with exp(score) by tiles of plain array code: the reference of the compiled kernels, for
NumPy and torch.

A tile of rows and columns of the score is formed, used and forgotten, so that memory is a few
tiles, whatever n and m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from condgrad.arrays import Array, namespace, on_device, zeros
from condgrad.kernels.streamed import DEVICE_TILE, TILE

if TYPE_CHECKING:
    from condgrad.kernels.streamed import Score

TILE_COLUMNS = 1 << 12
"""The largest number of columns of a tile."""


def tiles(score: Score) -> tuple[list[slice], list[slice]]:
    """Blocks of rows and blocks of columns."""
    n, m = score.shape
    columns = min(m, TILE_COLUMNS)
    rows = max(1, (DEVICE_TILE if on_device(score.left) else TILE) // max(1, columns))
    return blocks(n, rows), blocks(m, columns)


def blocks(size: int, step: int) -> list[slice]:
    return [slice(begin, min(begin + step, size)) for begin in range(0, size, max(1, step))]


def score_without_row(score: Score, i: slice, j: slice) -> Array:
    return score.left[i] @ score.right[j].T + score.column[j][None, :]


def tile(score: Score, i: slice, j: slice) -> Array:
    """exp(score) of rows i and columns j."""
    return namespace(score.left).exp(score_without_row(score, i, j) + score.row[i][:, None])


def log_row_sums(score: Score) -> Array:
    """log sum_j exp(score_ij), relative to the largest score of the row so far."""
    xp = namespace(score.left)
    row_blocks, column_blocks = tiles(score)
    result = zeros(score.left, score.shape[0])
    for i in row_blocks:
        top = xp.full_like(score.row[i], -xp.inf)
        total = xp.zeros_like(top)
        for j in column_blocks:
            s = score_without_row(score, i, j)
            raised = xp.maximum(top, xp.max(s, axis=1))
            # a row whose scores are all -inf so far has nothing to be relative to
            shift = xp.where(raised == -xp.inf, 0.0, raised)
            total = total * xp.exp(top - shift) + xp.sum(xp.exp(s - shift[:, None]), axis=1)
            top = raised
        nothing = top == -xp.inf
        result[i] = score.row[i] + (top + xp.log(xp.where(nothing, 1.0, total)))
    return result


def times(score: Score, R: Array, precision: str = "float64") -> Array:  # noqa: ARG001 - always float64
    """sum_j exp(score_ij) R_j."""
    row_blocks, column_blocks = tiles(score)
    result = zeros(score.left, score.shape[0], R.shape[1])
    for i in row_blocks:
        for j in column_blocks:
            result[i] += tile(score, i, j) @ R[j]
    return result


def rows(score: Score, indices: Array) -> Array:
    """exp(score) of some rows."""
    xp = namespace(score.left)
    left = score.left[indices]
    row = score.row[indices]
    return xp.exp(left @ score.right.T + score.column[None, :] + row[:, None])


def weighted_times(
    score: Score,
    delta_left: Array,
    delta_right: Array,
    R: Array,
    precision: str = "float64",  # noqa: ARG001 - always float64
) -> Array:
    """sum_j exp(score_ij) <delta_left_i, delta_right_j> R_j."""
    row_blocks, column_blocks = tiles(score)
    result = zeros(score.left, score.shape[0], R.shape[1])
    for i in row_blocks:
        for j in column_blocks:
            result[i] += (tile(score, i, j) * (delta_left[i] @ delta_right[j].T)) @ R[j]
    return result


def entropy_row_sums(score: Score, kept: Array, row_rest: Array, column_rest: Array) -> Array:
    """sum_j p_ij log p_ij, p_ij = exp(score_ij) kept_j + row_rest_i column_rest_j; 0 log 0 = 0."""
    xp = namespace(score.left)
    row_blocks, column_blocks = tiles(score)
    result = zeros(score.left, score.shape[0])
    for i in row_blocks:
        for j in column_blocks:
            p = (
                tile(score, i, j) * kept[j][None, :]
                + row_rest[i][:, None] * column_rest[j][None, :]
            )
            result[i] += xp.sum(p * xp.log(xp.where(p > 0.0, p, 1.0)), axis=1)
    return result
