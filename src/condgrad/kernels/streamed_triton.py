"""Products with exp(score) on a CUDA device by fused kernels (Triton).

A program has a block of rows and walks over the columns: score, power of 2, and a dot with the block of R, so that
nothing of size n x m exists. Logarithms are to the base 2 inside. Block sizes are fixed, none is tuned at run time, and
no sum is made of atomic additions: the same arrays give the same answer, bit by bit.

What is asked for in "float64" is computed in it throughout. For "mixed" the score relative to that of the middle of its
block of columns and its power are in float32, the score of the middle (see `streamed.CentredColumns`), R and all sums
in float64: three times as fast, and good to 1e-7 where neighbouring columns have similar scores, however large these
are. Single products of TF32 numbers would be no faster and lose ten to ten thousand times as much; in a metric that
magnifies noise, as that of a Laplacian does, they would spoil a preconditioner.

Its plain reference is `streamed_tiles`. With TRITON_INTERPRET=1 set before Python starts, all of it runs on a CPU.
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
from condgrad.kernels.streamed import MIDDLE, CentredColumns

if TYPE_CHECKING:
    from condgrad.kernels.streamed import Score

LOG2E, LN2 = math.log2(math.e), math.log(2.0)
UNROLLED, DOT = 8, 16
"""Inner products of at most 8 terms are fused multiply-adds; longer ones are dots of blocks of 16 terms."""


@triton.jit  # type: ignore[untyped-decorator]
def add_inner_products(  # type: ignore[no-untyped-def]
    s, left, right, i, j, n, m,
    RANK: tl.constexpr, DOT: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """s_ij + <left_i, right_j>, left (n, RANK), right (RANK, m), by dots of length DOT or, if that is 0, unrolled."""
    rows, columns = i < n, j < m
    if DOT == 0:
        for c in tl.static_range(RANK):
            a = tl.load(left + i * RANK + c, mask=rows, other=0.0)
            b = tl.load(right + tl.full((1,), c, tl.int64) * m + j, mask=columns, other=0.0)
            s += a[:, None] * b[None, :]
    else:
        for begin in range(0, RANK, DOT):
            c = begin + tl.arange(0, DOT).to(tl.int64)
            a = tl.load(left + i[:, None] * RANK + c[None, :], mask=rows[:, None] & (c < RANK)[None, :], other=0.0)
            b = tl.load(right + c[:, None] * m + j[None, :], mask=(c < RANK)[:, None] & columns[None, :], other=0.0)
            # one product of TF32 numbers would be off by 1e-3; three are as good as float32
            s += tl.dot(a, b, input_precision="ieee" if tl.float64 == TYPE else "tf32x3", out_dtype=TYPE)
    return s


@triton.jit  # type: ignore[untyped-decorator]
def log2_row_sums_kernel(  # type: ignore[no-untyped-def]
    left, right, column, out, n, m,
    RANK: tl.constexpr, DOT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """log2 sum_j 2^score_ij without the score's row, relative to the largest score so far."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    top = tl.full((ROWS,), float("-inf"), tl.float64)
    total = tl.zeros((ROWS,), tl.float64)
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        s = tl.zeros((ROWS, COLUMNS), tl.float64)
        s += tl.load(column + j, mask=j < m, other=float("-inf"))[None, :]
        s = add_inner_products(s, left, right, i, j, n, m, RANK, DOT, tl.float64)
        raised = tl.maximum(top, tl.max(s, axis=1))
        # a row whose scores are all -inf so far has nothing to be relative to
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp2(top - shift) + tl.sum(tl.exp2(s - shift[:, None]), axis=1)
        top = raised
    log_total = tl.log2(tl.where(total == 0.0, 1.0, total))
    tl.store(out + i, top + log_total, mask=i < n)


@triton.jit  # type: ignore[untyped-decorator]
def add_inner_products_with_one(  # type: ignore[no-untyped-def]
    s, left, one, i, n, RANK: tl.constexpr, DOT: tl.constexpr
):  # fmt: skip
    """s_i + <left_i, one>, for one vector of length RANK."""
    if DOT == 0:
        for c in tl.static_range(RANK):
            s += tl.load(left + i * RANK + c, mask=i < n, other=0.0) * tl.load(one + c)
    else:
        for begin in range(0, RANK, DOT):
            c = begin + tl.arange(0, DOT).to(tl.int64)
            a = tl.load(left + i[:, None] * RANK + c[None, :], mask=(i < n)[:, None] & (c < RANK)[None, :], other=0.0)
            s += tl.sum(a * tl.load(one + c, mask=c < RANK, other=0.0)[None, :], axis=1)
    return s


@triton.jit  # type: ignore[untyped-decorator]
def times_kernel(  # type: ignore[no-untyped-def]
    left, right, row, column, left_64, middles, middle_columns, delta_left, delta_right, R, out,
    n, m, stride, first, width,
    RANK: tl.constexpr, DOT: tl.constexpr, DELTA_RANK: tl.constexpr, DELTA_DOT: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TYPE: tl.constexpr,
):  # fmt: skip
    """sum_j 2^score_ij R_jc for columns c from `first` on; times <delta_left_i, delta_right_j> if DELTA_RANK >= 0.

    If TYPE is float32, right and column are relative to the middle of their block of columns, whose score is in
    float64.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = first + tl.arange(0, WIDTH).to(tl.int64)
    inside = (tl.arange(0, WIDTH) < width)[None, :]
    row_block = tl.load(row + i, mask=i < n, other=float("-inf"))
    answer = tl.zeros((ROWS, WIDTH), tl.float64)
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        s = tl.zeros((ROWS, COLUMNS), TYPE)
        s += tl.load(column + j, mask=j < m, other=float("-inf"))[None, :]
        s = add_inner_products(s, left, right, i, j, n, m, RANK, DOT, TYPE)
        if tl.float32 == TYPE:
            block = begin // COLUMNS
            middle = row_block + tl.load(middle_columns + block)
            middle = add_inner_products_with_one(middle, left_64, middles + block * RANK, i, n, RANK, DOT)
            p = tl.exp2(s + middle.to(TYPE)[:, None])
        else:
            p = tl.exp2(s + row_block[:, None])
        if DELTA_RANK >= 0:
            d = tl.zeros((ROWS, COLUMNS), TYPE)
            d = add_inner_products(d, delta_left, delta_right, i, j, n, m, DELTA_RANK, DELTA_DOT, TYPE)
            p = p * d
        r = tl.load(R + j[:, None] * stride + c[None, :], mask=(j < m)[:, None] & inside, other=0.0)
        answer += tl.dot(p.to(tl.float64), r, input_precision="ieee", out_dtype=tl.float64)
    tl.store(out + i[:, None] * stride + c[None, :], answer, mask=(i < n)[:, None] & inside)


@triton.jit  # type: ignore[untyped-decorator]
def entropy_kernel(  # type: ignore[no-untyped-def]
    left, right, row, column, kept, row_rest, column_rest, out, n, m,
    RANK: tl.constexpr, DOT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """sum_j p log2 p, p_ij = 2^score_ij kept_j + row_rest_i column_rest_j."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row_block = tl.load(row + i, mask=i < n, other=float("-inf"))[:, None]
    rest = tl.load(row_rest + i, mask=i < n, other=0.0)[:, None]
    answer = tl.zeros((ROWS,), tl.float64)
    for begin in range(0, m, COLUMNS):
        j = begin + tl.arange(0, COLUMNS).to(tl.int64)
        s = tl.zeros((ROWS, COLUMNS), tl.float64)
        s += tl.load(column + j, mask=j < m, other=float("-inf"))[None, :]
        s = add_inner_products(s, left, right, i, j, n, m, RANK, DOT, tl.float64)
        p = tl.exp2(s + row_block) * tl.load(kept + j, mask=j < m, other=0.0)[None, :]
        p += rest * tl.load(column_rest + j, mask=j < m, other=0.0)[None, :]
        answer += tl.sum(p * tl.log2(tl.where(p > 0.0, p, 1.0)), axis=1)
    tl.store(out + i, answer, mask=i < n)


@dataclass(frozen=True)
class BlockSizes:
    """What one program of a kernel has of the matrix, and the columns of R of a pass, at most.

    The largest that keep all numbers in registers (as the compiler says for an H200), and of those the fastest where
    measured: a block that spills is several times slower. In float64 without dots a pass of 64 columns would compute
    each power twice.
    """

    rows: int
    columns: int
    warps: int = 4
    widest: int = 32

    @classmethod
    def of_sums(cls, rank: int, *, wide_up_to: int) -> BlockSizes:
        """For sums over rows; up to rank `wide_up_to` unrolled products leave room for 128 columns."""
        return cls(16, 64 if wide_up_to < rank <= UNROLLED else 128)

    @classmethod
    def of_products(cls, ranks: list[int], width: int, precision: str) -> BlockSizes:
        """For products with `width` columns; `ranks` are those of the score and of what it is weighted by."""
        dots = max(ranks) > UNROLLED
        if precision == "mixed":
            return cls(32 if dots else 64, MIDDLE, warps=2)
        if len(ranks) > 1:
            return cls(64, 32, widest=32 if dots else 16)
        if dots:
            return cls(64, 32, widest=64)
        return cls(64, 32) if width <= 16 else cls(128, 32 if max(ranks) <= 4 else 16)


def _dot_length(rank: int) -> int:
    return 0 if rank <= UNROLLED else DOT


class Arguments(NamedTuple):
    """What a kernel has of a score, to the base 2; `right` is turned."""

    left: Array
    right: Array
    row: Array
    column: Array
    left_64: Array
    middles: Array
    """Those of blocks of columns, for scores in float32; see `streamed.CentredColumns`."""
    middle_columns: Array


def _arguments(score: Score, kind: Any) -> Arguments:
    """Made once for all products with a score."""
    if kind not in score.prepared:
        left, row = LOG2E * score.left, LOG2E * score.row
        left, row = left.contiguous(), row.contiguous()
        if kind == torch.float64:
            column = (LOG2E * score.column).contiguous()
            score.prepared[kind] = Arguments(left, score.right.T.contiguous(), row, column, left, left, column)
        else:
            parts = CentredColumns.of(score)
            right, column = parts.right.T.to(kind).contiguous(), (LOG2E * parts.column).to(kind)
            middles, middle_columns = parts.middles.contiguous(), LOG2E * parts.middle_columns
            score.prepared[kind] = Arguments(left.to(kind), right, row, column, left, middles, middle_columns)
    return score.prepared[kind]


def _on(score: Score) -> AbstractContextManager[Any]:
    """Launch on the device of the score, whichever is the current one."""
    return torch.cuda.device(score.left.device) if score.left.is_cuda else nullcontext()


def _empty(score: Score, *shape: int) -> Array:
    return torch.empty(shape, dtype=torch.float64, device=score.left.device)


def log_row_sums(score: Score) -> Array:
    (n, m), rank, out = score.shape, score.left.shape[1], _empty(score, score.shape[0])
    left, right, _, column, *_ = _arguments(score, torch.float64)
    if n > 0:
        with _on(score):
            blocks = BlockSizes.of_sums(rank, wide_up_to=4)
            log2_row_sums_kernel[(triton.cdiv(n, blocks.rows),)](
                left, right, column, out, n, m,
                rank, _dot_length(rank), blocks.rows, blocks.columns, num_warps=blocks.warps,
            )  # fmt: skip
    return LN2 * out + score.row


def times(score: Score, R: Array, precision: str = "float64") -> Array:
    return _times(score, None, R, precision)


def weighted_times(score: Score, delta_left: Array, delta_right: Array, R: Array, precision: str = "float64") -> Array:
    return _times(score, (delta_left, delta_right), R, precision)


def _times(score: Score, delta: tuple[Array, Array] | None, R: Array, precision: str) -> Array:
    n, k = score.shape[0], R.shape[1]
    out = _empty(score, n, k)
    if n == 0 or k == 0:
        return out
    R = R.contiguous()
    kind = torch.float32 if precision == "mixed" else torch.float64
    arguments = _arguments(score, kind)
    (n, m), rank = score.shape, score.left.shape[1]
    delta_left, delta_right, delta_rank = arguments.left, arguments.right, -1
    if delta is not None:
        delta_left, delta_right = delta[0].to(kind).contiguous(), delta[1].T.to(kind).contiguous()
        delta_rank = delta_left.shape[1]
    ranks = [rank] if delta is None else [rank, delta_rank]
    widest = BlockSizes.of_products(ranks, k, precision).widest
    for first in range(0, k, widest):
        width = min(widest, k - first)
        padded = max(16, triton.next_power_of_2(width))
        blocks = BlockSizes.of_products(ranks, padded, precision)
        with _on(score):
            times_kernel[(triton.cdiv(n, blocks.rows),)](
                *arguments, delta_left, delta_right, R, out, n, m, k, first, width,
                rank, _dot_length(rank), delta_rank, _dot_length(delta_rank),
                padded, blocks.rows, blocks.columns, tl.float32 if precision == "mixed" else tl.float64,
                num_warps=blocks.warps,
            )  # fmt: skip
    return out


def entropy_row_sums(score: Score, kept: Array, row_rest: Array, column_rest: Array) -> Array:
    (n, m), rank, out = score.shape, score.left.shape[1], _empty(score, score.shape[0])
    left, right, row, column, *_ = _arguments(score, torch.float64)
    kept, row_rest, column_rest = kept.contiguous(), row_rest.contiguous(), column_rest.contiguous()
    if n > 0:
        with _on(score):
            blocks = BlockSizes.of_sums(rank, wide_up_to=2)
            entropy_kernel[(triton.cdiv(n, blocks.rows),)](
                left, right, row, column, kept, row_rest, column_rest, out, n, m,
                rank, _dot_length(rank), blocks.rows, blocks.columns, num_warps=blocks.warps,
            )  # fmt: skip
    return LN2 * out
