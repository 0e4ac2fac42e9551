"""Products with exp(score) on a CUDA device by fused kernels (Triton).

A program has a block of rows and walks over the columns: score, power of 2, and a dot with the
block of R, so that nothing of size n x m exists. Logarithms are to the base 2 inside. Block sizes
are fixed, none is tuned at run time, and no sum is made of atomic additions: the same arrays give
the same answer, bit by bit.

What is asked for in "float64" is computed in it throughout. For "mixed" the score relative to that
of the middle of its block of columns and its power are in float32, the score of the middle (see
`streamed.CentredColumns`), R and all sums in float64: three times as fast, and good to 1e-7 where
neighbouring columns have similar scores, however large these are. Single products of TF32 numbers
would be no faster and lose ten to ten thousand times as much; in a metric that magnifies noise, as
that of a Laplacian does, they would spoil a preconditioner.

Its plain reference is `streamed_tiles`. With TRITON_INTERPRET=1 set before Python starts, all of it
runs on a CPU.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl

from condgrad.arrays import Array
from condgrad.kernels.streamed import LN2, LOG2E, MIDDLE, CentredColumns

if TYPE_CHECKING:
    from condgrad.kernels.streamed import Score

LOG2E_64 = tl.constexpr(LOG2E)
TINY = tl.constexpr(1e-290)
ROUNDER_64 = tl.constexpr(1.5 * 2.0**52)
"""A number of this size has no fraction: adding it rounds to a whole number, which is then in the
lowest bits.
"""
LOG_OF_NOTHING = -1e6
"""In place of -inf, where a difference of two of them must be a number."""
PADDING = 128
"""Rows and columns are filled up to multiples of this, which all blocks divide."""
UNROLLED, DOT = 8, 16
"""Inner products of at most 8 terms are fused multiply-adds; longer ones are dots of blocks of 16
terms.
"""


@triton.jit
def power_of_2(x):  # type: ignore[no-untyped-def]
    """2^x in float64 as in `elementary.power_of_2`; 0 below -1021, and 2^1022 above 1022.

    That of CUDA takes half as long again, as each number may branch to where numbers are no longer
    normal.
    """
    s = tl.where(x > 1022.0, 1022.0, x)
    shifted = s + ROUNDER_64
    f = s - (shifted - ROUNDER_64)
    p = f * 4.435282706957277e-10 + 7.074105613508143e-09
    p = p * f + 1.0178198021671931e-07
    p = p * f + 1.32154330896764e-06
    p = p * f + 1.5252733489988525e-05
    p = p * f + 0.00015403530462514432
    p = p * f + 0.0013333558146789923
    p = p * f + 0.009618129107588335
    p = p * f + 0.055504108664819925
    p = p * f + 0.24022650695910155
    p = p * f + 0.6931471805599453
    p = p * f + 1.0
    bits = p.to(tl.int64, bitcast=True) + (shifted.to(tl.int64, bitcast=True) << 52)
    return tl.where(x < -1021.0, 0.0, bits.to(tl.float64, bitcast=True))


@triton.jit  # type: ignore[untyped-decorator]
def add_inner_products(  # type: ignore[no-untyped-def]
    s, left, right, i, j, m,
    RANK: tl.constexpr, DOT: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """s_ij + <left_i, right_j>, left (n, RANK), right (RANK, m), by dots of length DOT or, if that
    is 0, unrolled.
    """
    if DOT == 0:
        for c in tl.static_range(RANK):
            a = tl.load(left + i * RANK + c)
            b = tl.load(right + tl.full((1,), c, tl.int64) * m + j)
            s += a[:, None] * b[None, :]
    else:
        for begin in range(0, RANK, DOT):
            c = begin + tl.arange(0, DOT).to(tl.int64)
            a = tl.load(left + i[:, None] * RANK + c[None, :], mask=(c < RANK)[None, :], other=0.0)
            b = tl.load(right + c[:, None] * m + j[None, :], mask=(c < RANK)[:, None], other=0.0)
            # one product of TF32 numbers would be off by 1e-3; three are as good as float32
            s += tl.dot(
                a, b, input_precision="ieee" if tl.float64 == TYPE else "tf32x3", out_dtype=TYPE
            )
    return s


@triton.jit  # type: ignore[untyped-decorator]
def log2_row_sums_kernel(  # type: ignore[no-untyped-def]
    left, right, column, out, m,
    RANK: tl.constexpr, DOT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """log2 sum_j 2^score_ij without the score's row, relative to the largest score so far."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    top = tl.full((ROWS,), float("-inf"), tl.float64)
    total = tl.zeros((ROWS,), tl.float64)
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        s = tl.zeros((ROWS, COLUMNS), tl.float64)
        s += tl.load(column + j)[None, :]
        s = add_inner_products(s, left, right, i, j, m, RANK, DOT, tl.float64)
        raised = tl.maximum(top, tl.max(s, axis=1))
        # a row whose scores are all -inf so far has nothing to be relative to
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp2(top - shift) + tl.sum(power_of_2(s - shift[:, None]), axis=1)
        top = raised
    log_total = tl.log2(tl.where(total == 0.0, 1.0, total))
    tl.store(out + i, top + log_total)


@triton.jit  # type: ignore[untyped-decorator]
def add_inner_products_with_one(  # type: ignore[no-untyped-def]
    s, left, one, i, RANK: tl.constexpr, DOT: tl.constexpr
):  # fmt: skip
    """s_i + <left_i, one>, for one vector of length RANK."""
    if DOT == 0:
        for c in tl.static_range(RANK):
            s += tl.load(left + i * RANK + c) * tl.load(one + c)
    else:
        for begin in range(0, RANK, DOT):
            c = begin + tl.arange(0, DOT).to(tl.int64)
            a = tl.load(left + i[:, None] * RANK + c[None, :], mask=(c < RANK)[None, :], other=0.0)
            s += tl.sum(a * tl.load(one + c, mask=c < RANK, other=0.0)[None, :], axis=1)
    return s


@triton.jit  # type: ignore[untyped-decorator]
def times_kernel(  # type: ignore[no-untyped-def]
    left, right, row, column, left_64, middles, middle_columns, delta_left, delta_right, R, out,
    m, stride, first,
    RANK: tl.constexpr, DOT: tl.constexpr, DELTA_RANK: tl.constexpr, DELTA_DOT: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TYPE: tl.constexpr,
):  # fmt: skip
    """sum_j 2^score_ij R_jc for columns c from `first` on; times <delta_left_i, delta_right_j> if
    DELTA_RANK >= 0.

    If TYPE is float32, right and column are relative to the middle of their block of columns, whose
    score is in float64.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = first + tl.arange(0, WIDTH).to(tl.int64)
    row_block = tl.load(row + i)
    answer = tl.zeros((ROWS, WIDTH), tl.float64)
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        s = tl.zeros((ROWS, COLUMNS), TYPE)
        s += tl.load(column + j)[None, :]
        s = add_inner_products(s, left, right, i, j, m, RANK, DOT, TYPE)
        if tl.float32 == TYPE:
            block = begin // COLUMNS
            middle = row_block + tl.load(middle_columns + block)
            middle = add_inner_products_with_one(
                middle, left_64, middles + block * RANK, i, RANK, DOT
            )
            p = tl.exp2(s + middle.to(TYPE)[:, None])
        else:
            p = power_of_2(s + row_block[:, None])
        if DELTA_RANK >= 0:
            d = tl.zeros((ROWS, COLUMNS), TYPE)
            d = add_inner_products(d, delta_left, delta_right, i, j, m, DELTA_RANK, DELTA_DOT, TYPE)
            p = p * d
        r = tl.load(R + j[:, None] * stride + c[None, :])
        answer += tl.dot(p.to(tl.float64), r, input_precision="ieee", out_dtype=tl.float64)
    tl.store(out + i[:, None] * stride + c[None, :], answer)


@triton.jit  # type: ignore[untyped-decorator]
def entropy_kernel(  # type: ignore[no-untyped-def]
    left, right, row, column, row_rest, column_rest, log_row_rest, log_column_rest, out, m,
    RANK: tl.constexpr, DOT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """sum_j p log2 p, p_ij = 2^x_ij + rest_i rest_j, x being the score with what is kept in its
    columns.

    A logarithm in float64 takes as long as two powers. One in float32 of 1 + w, w the smaller part
    of p over the larger, makes a guess that is off by 1e-6 at most, and a power tells by how much.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row_block = tl.load(row + i)[:, None]
    rest = tl.load(row_rest + i)[:, None]
    log_rest = tl.load(log_row_rest + i)[:, None]
    answer = tl.zeros(
        (ROWS, COLUMNS), tl.float64
    )  # summed up at the end: a sum over threads each time takes longer
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        x = tl.zeros((ROWS, COLUMNS), tl.float64)
        x += tl.load(column + j)[None, :]
        x = add_inner_products(x, left, right, i, j, m, RANK, DOT, tl.float64) + row_block
        y = log_rest + tl.load(log_column_rest + j)[None, :]
        p = power_of_2(x) + rest * tl.load(column_rest + j)[None, :]
        w = tl.exp2(-tl.abs(x - y).to(tl.float32))
        # what is too small for a float is nothing, and nothing has no logarithm
        guess = tl.where(p > TINY, tl.maximum(x, y) + tl.log2(1.0 + w).to(tl.float64), 0.0)
        off = p * power_of_2(-guess) - 1.0
        exact = guess + off * (LOG2E_64 - (0.5 * LOG2E_64) * off)
        answer += p * exact
    tl.store(out + i, tl.sum(answer, axis=1))


@dataclass(frozen=True)
class BlockSizes:
    """What one program of a kernel has of the matrix, and the columns of R of a pass, at most.

    The largest that keep all numbers in registers (as the compiler says for an H200), and of those
    the fastest where measured: a block that spills is several times slower. In float64 without dots
    a pass of 64 columns would compute each power twice.
    """

    rows: int
    columns: int
    warps: int = 4
    widest: int = 32

    @classmethod
    def of_sums(cls, rank: int) -> BlockSizes:
        """For sums over rows."""
        return cls(16, 64 if rank <= UNROLLED else 128)

    @classmethod
    def of_products(cls, ranks: list[int], width: int, precision: str) -> BlockSizes:
        """For products with `width` columns; `ranks` are those of the score and of what it is
        weighted by.
        """
        dots = max(ranks) > UNROLLED
        if precision == "mixed":
            return (
                cls(32, MIDDLE, warps=2)
                if dots
                else cls(128, MIDDLE)
                if width <= 16
                else cls(64, MIDDLE, warps=2)
            )
        if len(ranks) > 1:
            return cls(64, 32, widest=32 if dots else 16)
        if dots:
            return cls(64, 32, widest=64)
        if max(ranks) <= 4:
            return cls(128, 32)
        return cls(64, 32) if width <= 16 else cls(128, 16)


def _dot_length(rank: int) -> int:
    return 0 if rank <= UNROLLED else DOT


class Arguments(NamedTuple):
    """What a kernel has of a score, to the base 2; `right` is transposed."""

    left: Array
    right: Array
    row: Array
    column: Array
    left_64: Array
    middles: Array
    """Those of blocks of columns, for scores in float32; see `streamed.CentredColumns`."""
    middle_columns: Array


def _padded(x: Array, size: int, axis: int = 0, value: float = 0.0) -> Array:
    """A contiguous array, filled up along an axis: kernels need not ask where it ends."""
    missing = size - x.shape[axis]
    if missing == 0:
        return x.contiguous()
    after = [0, 0] * (x.ndim - 1 - axis) + [0, missing]
    return torch.nn.functional.pad(x, after, value=value).contiguous()


def _padded_shape(score: Score) -> tuple[int, int]:
    n, m = score.shape
    return PADDING * triton.cdiv(n, PADDING), PADDING * triton.cdiv(m, PADDING)


def _arguments(score: Score, kind: Any) -> Arguments:
    """Made once for all products with a score."""
    if kind not in score.prepared:
        n, m = _padded_shape(score)
        left = _padded(LOG2E * score.left, n)
        row = _padded(LOG2E * score.row, n, value=-math.inf)
        if kind == torch.float64:
            column = _padded(LOG2E * score.column, m, value=-math.inf)
            score.prepared[kind] = Arguments(
                left, _padded(score.right.T, m, 1), row, column, left, left, column
            )
        else:
            parts = CentredColumns.of(score)
            right = parts.right.T.to(kind)
            column = (LOG2E * parts.column).to(kind)
            right = _padded(right, m, 1)
            column = _padded(column, m, value=-math.inf)
            blocks = m // MIDDLE
            middles = _padded(parts.middles, blocks)
            middle_columns = _padded(LOG2E * parts.middle_columns, blocks)
            score.prepared[kind] = Arguments(
                left.to(kind), right, row, column, left, middles, middle_columns
            )
    return score.prepared[kind]


def _on(score: Score) -> AbstractContextManager[Any]:
    """Launch on the device of the score, whichever is the current one."""
    return torch.cuda.device(score.left.device) if score.left.is_cuda else nullcontext()


def _empty(score: Score, *shape: int) -> Array:
    return torch.empty(shape, dtype=torch.float64, device=score.left.device)


def log_row_sums(score: Score) -> Array:
    rank, (n, m) = score.left.shape[1], _padded_shape(score)
    left, right, _, column, *_ = _arguments(score, torch.float64)
    out = _empty(score, n)
    if n > 0:
        with _on(score):
            blocks = BlockSizes.of_sums(rank)
            log2_row_sums_kernel[(n // blocks.rows,)](
                left, right, column, out, m,
                rank, _dot_length(rank), blocks.rows, blocks.columns, num_warps=blocks.warps,
            )  # fmt: skip
    return LN2 * out[: score.shape[0]] + score.row


def times(score: Score, R: Array, precision: str = "float64") -> Array:
    return _times(score, None, R, precision)


def weighted_times(
    score: Score, delta_left: Array, delta_right: Array, R: Array, precision: str = "float64"
) -> Array:
    return _times(score, (delta_left, delta_right), R, precision)


def _times(score: Score, delta: tuple[Array, Array] | None, R: Array, precision: str) -> Array:
    (n, m), rank, k = _padded_shape(score), score.left.shape[1], R.shape[1]
    if n == 0 or k == 0:
        return _empty(score, score.shape[0], k)
    kind = torch.float32 if precision == "mixed" else torch.float64
    arguments = _arguments(score, kind)
    delta_left = arguments.left
    delta_right = arguments.right
    delta_rank = -1
    if delta is not None:
        delta_left = _padded(delta[0].to(kind), n)
        delta_right = _padded(delta[1].T.to(kind), m, 1)
        delta_rank = delta_left.shape[1]
    ranks = [rank] if delta is None else [rank, delta_rank]
    widest = BlockSizes.of_products(ranks, k, precision).widest
    widths = [
        max(16, triton.next_power_of_2(min(widest, k - first))) for first in range(0, k, widest)
    ]
    stride = sum(widths)
    R = _padded(_padded(R, stride, 1), m)
    out = _empty(score, n, stride)
    for part, width in enumerate(widths):
        blocks = BlockSizes.of_products(ranks, width, precision)
        with _on(score):
            times_kernel[(n // blocks.rows,)](
                *arguments, delta_left, delta_right, R, out, m, stride, part * widest,
                rank, _dot_length(rank), delta_rank, _dot_length(delta_rank),
                width, blocks.rows, blocks.columns, tl.float32 if precision == "mixed" else tl.float64,
                num_warps=blocks.warps,
            )  # fmt: skip
    return out[: score.shape[0], :k]


def entropy_row_sums(score: Score, kept: Array, row_rest: Array, column_rest: Array) -> Array:
    rank, (n, m) = score.left.shape[1], _padded_shape(score)
    left, right, row, column, *_ = _arguments(score, torch.float64)
    column = column + _padded(torch.log2(kept), m)
    rests = _padded(row_rest, n), _padded(column_rest, m)
    logarithms = [torch.log2(rest).clamp(min=LOG_OF_NOTHING) for rest in rests]
    out = _empty(score, n)
    if n > 0:
        with _on(score):
            blocks = BlockSizes.of_sums(rank)
            entropy_kernel[(n // blocks.rows,)](
                left, right, row, column, *rests, *logarithms, out, m,
                rank, _dot_length(rank), blocks.rows, blocks.columns, num_warps=blocks.warps,
            )  # fmt: skip
    return LN2 * out[: score.shape[0]]
