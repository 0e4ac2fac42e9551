"""The factors of a positive definite matrix that gains and loses rows: H_AA = L D L', L unit lower triangular.

No square roots: then a matrix multiplied by a power of 2 has the same L, and D multiplied by it, to the last bit.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place

LEAST_PIVOT = 1e-14
"""The least pivot, as a share of the diagonal entry: what rounding leaves of a dependent column."""
LEAST_SHRUNK_PIVOT = 1e-4
"""The share of a pivot that subtracting a square must leave; where it leaves less, too many digits are lost."""
BLOCK = 48
"""Columns that are factored together, so that most of the work is products of matrices."""


@compiled
def inner(x: Array, y: Array) -> float:
    """<x, y>."""
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i] * y[i]
    return found


@compiled
def add_multiple(y: Array, a: float, x: Array) -> None:
    """y += a x."""
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@compiled_exactly
def product_over(a: float, b: float, c: float) -> float:
    """a b/c, where b/c is about 1: the product of two pivots may leave the floats in the unit of F."""
    return a * (b / c)


@compiled
def combination(rows: Array, weights: Array) -> Array:
    """sum_j weights_j rows_j, for weights of which many are 0."""
    found = np.zeros(rows.shape[1])
    for j in range(rows.shape[0]):
        if weights[j] != 0.0:
            add_multiple(found, weights[j], rows[j])
    return found


@compiled_in_place
def append(L: Array, D: Array, count: int, H: Array, A: Array) -> None:
    """Factor one more row, A[count], of H."""
    row, new = H[A[count]], L[count]
    explained = 0.0
    for i in range(count):
        new[i] = row[A[i]] - inner(L[i, :i], new[:i])
    for i in range(count):
        ratio = new[i] / D[i]
        explained += ratio * new[i]
        new[i] = ratio
    new[count] = 1.0
    D[count] = max(row[A[count]] - explained, LEAST_PIVOT * row[A[count]])


@compiled
def factor(L: Array, D: Array, count: int, H: Array, A: Array, stop: Array) -> None:
    """Factor the rows A[:count] of H, a block of columns after the other; left half done once stop[0] is set."""
    for begin in range(0, count, BLOCK):
        if stop[0]:
            return
        width, height = min(BLOCK, count - begin), count - begin
        # a row of `columns` is a column of L D: first of H, less what the columns before explain of it
        columns = np.empty((width, height))
        for j in range(width):
            row = H[A[begin + j]]
            for i in range(height):
                columns[j, i] = row[A[begin + i]]
        if begin > 0:
            before = L[begin:count, :begin].copy()
            scaled = np.empty((width, begin))
            for j in range(width):
                for i in range(begin):
                    scaled[j, i] = before[j, i] * D[i]
            columns -= np.dot(scaled, before.T)
        for j in range(width):
            column, p = columns[j], begin + j
            for i in range(j):
                add_multiple(column[j:], -L[p, begin + i], columns[i, j:])
            D[p] = max(column[j], LEAST_PIVOT * H[A[p], A[p]])
            L[p, p] = 1.0
            for i in range(j + 1, height):
                L[begin + i, p] = column[i] / D[p]


@compiled_in_place
def remove(L: Array, D: Array, count: int, A: Array, p: int) -> None:
    """Forget row p: the block of L and D below it gains D_p l l', l being column p."""
    gains, reduced = np.empty(count), np.empty(count)
    scale = D[p]
    for i in range(p + 1, count):
        row, to = L[i], L[i - 1]
        entry = row[p]
        for j in range(p):
            to[j] = row[j]
        for j in range(p + 1, i):
            entry -= reduced[j] * row[j]
            to[j - 1] = row[j] + gains[j] * entry
        to[i - 1] = 1.0
        reduced[i] = entry
        pivot = D[i] + scale * entry * entry
        gains[i] = scale * entry / pivot
        scale = product_over(scale, D[i], pivot)
        D[i - 1] = pivot
        A[i - 1] = A[i]


@compiled
def add_square(L: Array, D: Array, scale: float, vector: Array) -> bool:
    """Add scale v v' to the matrix; False, with the factors spoiled, where a pivot shrinks too much for its digits."""
    size = vector.shape[0]
    gains, reduced = np.empty(size), np.empty(size)
    for i in range(size):
        row, entry = L[i], vector[i]
        for j in range(i):
            entry -= reduced[j] * row[j]
            row[j] += gains[j] * entry
        reduced[i] = entry
        pivot = D[i] + scale * entry * entry
        if not pivot > LEAST_SHRUNK_PIVOT * D[i]:
            return False
        gains[i] = scale * entry / pivot
        scale = product_over(scale, D[i], pivot)
        D[i] = pivot
    return True


@compiled
def solve(L: Array, D: Array, count: int, b: Array) -> None:
    """The solution of L D L' x = b, in the place of b."""
    for i in range(count):
        b[i] -= inner(L[i, :i], b[:i])
    for i in range(count):
        b[i] /= D[i]
    for i in range(count - 1, -1, -1):
        add_multiple(b[:i], -b[i], L[i, :i])


@compiled_in_place
def multiply(L: Array, D: Array, count: int, x: Array) -> Array:
    """L D L' x."""
    b = np.zeros(count)
    for i in range(count):
        add_multiple(b[: i + 1], x[i], L[i, : i + 1])
    for i in range(count):
        b[i] *= D[i]
    for i in range(count - 1, -1, -1):
        b[i] = inner(L[i, : i + 1], b[: i + 1])
    return b


def solve_by_arrays(H: Array, A: Array, b: Array) -> Array:
    """H_AA^-1 b, by NumPy."""
    return np.linalg.solve(H[np.ix_(A, A)], b)
