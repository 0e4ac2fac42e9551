"""Products with exp(score) by compiled tiles on all cores of a CPU, in float64.

A block of rows walks over the columns. For four rows and some hundred columns the score is formed
by fused products, raised to a power of 2 by a polynomial, and multiplied with those columns of R,
all in the cache. Inside, logarithms are to the base 2, right and R are transposed (columns of the
matrix lie side by side in memory), and rows, ranks and columns of R are padded with zeros to
multiples of four. What a row gives does not depend on the number of threads.

An entry is the same number to the last digit in every product, in those with the transposed matrix
and as one of `rows`: where the terms of a score are large and cancel, each order of theirs would
give another entry.

Its plain reference is `streamed_tiles`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numba
import numpy as np

from condgrad.arrays import Array, host, is_torch
from condgrad.kernels.compiling import compiled, compiled_in_place, entry_point
from condgrad.kernels.elementary import power_of_2, times_its_log
from condgrad.kernels.streamed import LN2, LOG2E

if TYPE_CHECKING:
    from condgrad.kernels.streamed import Score

ROOT_LOG2E = LOG2E**0.5
"""Exponentials are computed as powers of 2. Both factors of an inner product are multiplied by
this, because they change places in a transposed score.
"""
GROUP = 4
"""The score, power and product of this many rows are computed together: what is loaded for a column
serves all of them.
"""
ROWS, COLUMNS, RANKS = 64, 256, 64
"""A tile of the score, and how much of a long inner product is added to it at a time: each fits in
a core's cache.
"""
PAIRS_OF_ONE_THREAD = 1 << 19
"""Up to this many pairs take about a millisecond. They are not worth a second thread."""
TASKS = 8
"""The number of pieces of work for each thread. With several pieces, a slow one does not keep the
others waiting.
"""


@compiled_in_place
def set_bases(S: Array, row: Array, column: Array) -> None:
    """S_ij = row_i + column_j for four rows."""
    for i in range(GROUP):
        base = row[i]
        to = S[i]
        for j in range(column.shape[0]):
            to[j] = base + column[j]


@compiled_in_place
def add_inner_products(
    S: Array, left: Array, right: Array, begin: int, end: int, first: int, width: int
) -> None:
    """S_ij += <left_i, right_j> over the coordinates begin .. end, for four rows and the columns
    from `first` on.
    """
    s0 = S[0]
    s1 = S[1]
    s2 = S[2]
    s3 = S[3]
    for c in range(begin, end, 4):
        r0 = right[c, first:]
        r1 = right[c + 1, first:]
        r2 = right[c + 2, first:]
        r3 = right[c + 3, first:]
        a00 = left[0, c]
        a01 = left[0, c + 1]
        a02 = left[0, c + 2]
        a03 = left[0, c + 3]
        a10 = left[1, c]
        a11 = left[1, c + 1]
        a12 = left[1, c + 2]
        a13 = left[1, c + 3]
        a20 = left[2, c]
        a21 = left[2, c + 1]
        a22 = left[2, c + 2]
        a23 = left[2, c + 3]
        a30 = left[3, c]
        a31 = left[3, c + 1]
        a32 = left[3, c + 2]
        a33 = left[3, c + 3]
        for j in range(width):
            x0 = r0[j]
            x1 = r1[j]
            x2 = r2[j]
            x3 = r3[j]
            s0[j] += a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
            s1[j] += a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
            s2[j] += a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
            s3[j] += a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3


@compiled
def add_products(S: Array, R: Array, first: int, width: int, out: Array) -> None:
    """out_ic += sum_j S_ij R_cj for four rows and the columns from `first` on."""
    s0 = S[0]
    s1 = S[1]
    s2 = S[2]
    s3 = S[3]
    for c in range(0, R.shape[0], 4):
        r0 = R[c, first:]
        r1 = R[c + 1, first:]
        r2 = R[c + 2, first:]
        r3 = R[c + 3, first:]
        a00 = a01 = a02 = a03 = a10 = a11 = a12 = a13 = 0.0
        a20 = a21 = a22 = a23 = a30 = a31 = a32 = a33 = 0.0
        for j in range(width):
            x0 = r0[j]
            x1 = r1[j]
            x2 = r2[j]
            x3 = r3[j]
            p0 = s0[j]
            p1 = s1[j]
            p2 = s2[j]
            p3 = s3[j]
            a00 += p0 * x0
            a01 += p0 * x1
            a02 += p0 * x2
            a03 += p0 * x3
            a10 += p1 * x0
            a11 += p1 * x1
            a12 += p1 * x2
            a13 += p1 * x3
            a20 += p2 * x0
            a21 += p2 * x1
            a22 += p2 * x2
            a23 += p2 * x3
            a30 += p3 * x0
            a31 += p3 * x1
            a32 += p3 * x2
            a33 += p3 * x3
        out[0, c] += a00
        out[0, c + 1] += a01
        out[0, c + 2] += a02
        out[0, c + 3] += a03
        out[1, c] += a10
        out[1, c + 1] += a11
        out[1, c + 2] += a12
        out[1, c + 3] += a13
        out[2, c] += a20
        out[2, c + 1] += a21
        out[2, c + 2] += a22
        out[2, c + 3] += a23
        out[3, c] += a30
        out[3, c + 1] += a31
        out[3, c + 2] += a32
        out[3, c + 3] += a33


@compiled
def fill_scores(S: Array, left: Array, right: Array, row: Array, column: Array, first: int) -> None:
    """A tile of the score, from column `first` on.

    Long inner products are added in pieces, so that a piece of right stays in the cache for all
    rows. (A piece of right is named by where it begins: of a slice the compiler would not know that
    its entries lie side by side.)
    """
    width = column.shape[0]
    for i in range(0, left.shape[0], GROUP):
        set_bases(S[i : i + GROUP], row[i : i + GROUP], column)
    for c in range(0, right.shape[0], RANKS):
        end = min(c + RANKS, right.shape[0])
        for i in range(0, left.shape[0], GROUP):
            add_inner_products(S[i : i + GROUP], left[i : i + GROUP], right, c, end, first, width)


@entry_point
def log2_row_sums(left: Array, right: Array, column: Array, out: Array) -> None:
    """log2 sum_j 2^score_ij for all rows of left, without `row`; -inf where there is no mass."""
    S = np.empty((ROWS, COLUMNS))
    peaks = np.empty(COLUMNS // 2)
    nothing = np.zeros(ROWS)
    for i in range(0, left.shape[0], ROWS):
        rows = min(ROWS, left.shape[0] - i)
        top = np.full(rows, -np.inf)
        total = np.zeros(rows)
        for j in range(0, right.shape[1], COLUMNS):
            columns = slice(j, min(j + COLUMNS, right.shape[1]))
            fill_scores(S, left[i : i + rows], right, nothing, column[columns], j)
            S[:, columns.stop - j :] = -np.inf
            for t in range(rows):
                highest = highest_of(S[t], peaks)
                if highest > top[t]:
                    total[t] *= power_of_2(top[t] - highest)
                    top[t] = highest
                # a row whose scores are all -inf so far has nothing to be relative to
                shift = top[t] if top[t] > -np.inf else 0.0
                total[t] += sum_of_powers(S[t, : columns.stop - j], shift)
        for t in range(rows):
            out[i + t] = top[t] + np.log2(total[t]) if total[t] != 0.0 else -np.inf


@compiled_in_place
def highest_of(s: Array, peaks: Array) -> float:
    """The largest entry: by halves, since a loop over one number at a time is not made into
    vector code.
    """
    half = peaks.shape[0]
    for j in range(half):
        peaks[j] = s[j] if s[j] > s[j + half] else s[j + half]
    while half > 1:
        half //= 2
        for j in range(half):
            peaks[j] = peaks[j] if peaks[j] > peaks[j + half] else peaks[j + half]
    return peaks[0]


@compiled_in_place
def sum_of_powers(s: Array, top: float) -> float:
    """sum_j 2^(s_j - top)."""
    total = 0.0
    for j in range(s.shape[0]):
        total += power_of_2(s[j] - top)
    return total


@compiled
def raise_to_powers(S: Array, width: int) -> None:
    """2^S in the place of S, for four rows."""
    for i in range(GROUP):
        s = S[i, :width]
        for j in range(width):
            s[j] = power_of_2(s[j])


@entry_point
def add_row_products(
    left: Array, right: Array, row: Array, column: Array, R: Array, out: Array
) -> None:
    """out_ic += sum_j 2^score_ij R_cj for all rows of left."""
    S = np.empty((ROWS, COLUMNS))
    for i in range(0, left.shape[0], ROWS):
        last = min(i + ROWS, left.shape[0])
        for j in range(0, right.shape[1], COLUMNS):
            columns = slice(j, min(j + COLUMNS, right.shape[1]))
            fill_scores(S, left[i:last], right, row[i:last], column[columns], j)
            for t in range(0, last - i, GROUP):
                group = S[t : t + GROUP]
                raise_to_powers(group, columns.stop - j)
                add_products(group, R, j, columns.stop - j, out[i + t : i + t + GROUP])


@entry_point
def write_rows(left: Array, right: Array, row: Array, column: Array, out: Array) -> None:
    """out_ij = 2^score_ij for all rows of left."""
    S = np.empty((ROWS, COLUMNS))
    for i in range(0, left.shape[0], ROWS):
        last = min(i + ROWS, left.shape[0])
        for j in range(0, right.shape[1], COLUMNS):
            columns = slice(j, min(j + COLUMNS, right.shape[1]))
            fill_scores(S, left[i:last], right, row[i:last], column[columns], j)
            for t in range(0, last - i, GROUP):
                raise_to_powers(S[t : t + GROUP], columns.stop - j)
            # entry by entry: an assignment of slices takes five seconds more to compile
            for t in range(last - i):
                to = out[i + t]
                for u in range(columns.stop - j):
                    to[j + u] = S[t, u]


@entry_point
def add_weighted_row_products(
    left: Array,
    right: Array,
    row: Array,
    column: Array,
    delta_left: Array,
    delta_right: Array,
    R: Array,
    out: Array,
) -> None:
    """out_ic += sum_j 2^score_ij <delta_left_i, delta_right_j> R_cj for all rows of left."""
    S = np.empty((ROWS, COLUMNS))
    D = np.empty((ROWS, COLUMNS))
    nothing = np.zeros(max(ROWS, COLUMNS))
    for i in range(0, left.shape[0], ROWS):
        last = min(i + ROWS, left.shape[0])
        for j in range(0, right.shape[1], COLUMNS):
            columns = slice(j, min(j + COLUMNS, right.shape[1]))
            width = columns.stop - j
            fill_scores(S, left[i:last], right, row[i:last], column[columns], j)
            fill_scores(D, delta_left[i:last], delta_right, nothing, nothing[:width], j)
            for t in range(0, last - i, GROUP):
                group = S[t : t + GROUP]
                raise_to_powers(group, width)
                for u in range(GROUP):
                    s = group[u, :width]
                    d = D[t + u, :width]
                    for v in range(width):
                        s[v] *= d[v]
                add_products(group, R, j, columns.stop - j, out[i + t : i + t + GROUP])


@entry_point
def add_row_entropies(
    left: Array,
    right: Array,
    row: Array,
    column: Array,
    kept: Array,
    row_rest: Array,
    column_rest: Array,
    out: Array,
) -> None:
    """out_i += sum_j p log p, p_ij = 2^score_ij kept_j + row_rest_i column_rest_j, for all rows of
    left.
    """
    S = np.empty((ROWS, COLUMNS))
    for i in range(0, left.shape[0], ROWS):
        last = min(i + ROWS, left.shape[0])
        for j in range(0, right.shape[1], COLUMNS):
            columns = slice(j, min(j + COLUMNS, right.shape[1]))
            width = columns.stop - j
            fill_scores(S, left[i:last], right, row[i:last], column[columns], j)
            for t in range(last - i):
                out[i + t] += sum_of_entropies(
                    S[t, :width], kept[columns], row_rest[i + t], column_rest[columns]
                )


@compiled_in_place
def sum_of_entropies(s: Array, kept: Array, row_rest: float, column_rest: Array) -> float:
    """sum_j p log p, p_j = 2^s_j kept_j + row_rest column_rest_j."""
    total = 0.0
    for j in range(s.shape[0]):
        total += times_its_log(power_of_2(s[j]) * kept[j] + row_rest * column_rest[j])
    return total


def threads() -> int:
    """How many threads to use: as numba is told, and no more than OMP_NUM_THREADS says."""
    count = int(numba.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(count, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else count


def over_rows(work: Callable[[slice], None], n: int, pairs: int) -> None:
    """Do all rows, in blocks over threads where there is enough to do.

    Python's threads, since compiled code lets go of the interpreter: a call from several threads or
    after a fork is safe, which is not true of all of numba's own threading layers.
    """
    count = threads() if pairs > PAIRS_OF_ONE_THREAD else 1
    if count == 1:
        work(slice(0, n))
        return
    step = ROWS * max(1, -(-n // (ROWS * TASKS * count)))
    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(work, [slice(i, min(i + step, n)) for i in range(0, n, step)]):
            pass


def padded_rows(matrix: Array) -> Array:
    """A copy with rows and columns of zeros up to multiples of four."""
    n, k = matrix.shape
    copy = np.zeros((_up(n), _up(k)))
    copy[:n, :k] = matrix
    return copy


def padded_transpose(matrix: Array) -> Array:
    """The transposed matrix, with rows of zeros up to a multiple of four."""
    m, k = matrix.shape
    copy = np.zeros((_up(k), m))
    copy[:k] = matrix.T
    return copy


def padded(vector: Array) -> Array:
    copy = np.zeros(_up(vector.shape[0]))
    copy[: vector.shape[0]] = vector
    return copy


def _up(size: int) -> int:
    """The next multiple of four."""
    return -(-size // 4) * 4


def _arguments(score: Score) -> tuple[Array, Array, Array, Array]:
    """left, right, row and column to the base 2, as the kernels want them."""
    left = padded_rows(host(score.left))
    right = padded_transpose(host(score.right))
    left *= ROOT_LOG2E
    right *= ROOT_LOG2E
    return left, right, padded(LOG2E * host(score.row)), LOG2E * host(score.column)


def _answer(array: Array, score: Score) -> Array:
    """A NumPy array in the library of the score."""
    if not is_torch(score.left):
        return array
    import torch

    return torch.from_numpy(array)


def log_row_sums(score: Score) -> Array:
    left, right, _, column = _arguments(score)
    (n, m), out = score.shape, np.empty(left.shape[0])
    over_rows(lambda i: log2_row_sums(left[i], right, column, out[i]), len(left), n * m)
    return _answer(LN2 * out[:n] + host(score.row), score)


def times(score: Score, R: Array, precision: str = "float64") -> Array:  # noqa: ARG001 - always float64
    left, right, row, column = _arguments(score)
    (n, m), columns, k = score.shape, padded_transpose(host(R)), R.shape[1]
    out = np.zeros((left.shape[0], columns.shape[0]))
    over_rows(
        lambda i: add_row_products(left[i], right, row[i], column, columns, out[i]),
        len(left),
        n * m,
    )
    return _answer(np.ascontiguousarray(out[:n, :k]), score)


def rows(score: Score, indices: Array) -> Array:
    some = replace(score, left=score.left[indices], row=score.row[indices])
    left, right, row, column = _arguments(some)
    (n, m), out = some.shape, np.empty((left.shape[0], right.shape[1]))
    over_rows(lambda i: write_rows(left[i], right, row[i], column, out[i]), len(left), n * m)
    return _answer(out[:n], score)


def weighted_times(
    score: Score,
    delta_left: Array,
    delta_right: Array,
    R: Array,
    precision: str = "float64",  # noqa: ARG001 - always float64
) -> Array:
    left, right, row, column = _arguments(score)
    from_left = padded_rows(host(delta_left))
    from_right = padded_transpose(host(delta_right))
    (n, m), columns, k = score.shape, padded_transpose(host(R)), R.shape[1]
    out = np.zeros((left.shape[0], columns.shape[0]))

    def work(i: slice) -> None:
        add_weighted_row_products(
            left[i], right, row[i], column, from_left[i], from_right, columns, out[i]
        )

    over_rows(work, len(left), n * m)
    return _answer(np.ascontiguousarray(out[:n, :k]), score)


def entropy_row_sums(score: Score, kept: Array, row_rest: Array, column_rest: Array) -> Array:
    left, right, row, column = _arguments(score)
    (n, m), out = score.shape, np.zeros(left.shape[0])
    # copies: arrays that lie apart in memory, or may not be written to, would be compiled for once
    # more
    by_column = np.array(host(kept))
    rest = padded(host(row_rest))
    rest_by_column = np.array(host(column_rest))

    def work(i: slice) -> None:
        add_row_entropies(
            left[i], right, row[i], column, by_column, rest[i], rest_by_column, out[i]
        )

    over_rows(work, len(left), n * m)
    return _answer(out[:n], score)
