"""The factors of a positive definite matrix that gains and loses rows: H_AA = L D L'.

L is unit lower triangular. There are no square roots: then a matrix multiplied by a power of 2 has
the same L, and D multiplied by it, to the last bit.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place

LEAST_PIVOT = 1e-14
"""A pivot below this share of the diagonal entry is raised to it: rounding leaves as much of a
dependent column.
"""
PANEL = 48
"""The number of columns that are factored together. With more, less of the work is products of
matrices.
"""


@compiled
def inner(x: Array, y: Array) -> float:
    """<x, y>."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled
def add_multiple(y: Array, a: float, x: Array) -> None:
    """y += a x."""
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@compiled
def norm(x: Array) -> float:
    """|x|_1."""
    total = 0.0
    for j in range(x.shape[0]):
        total += abs(x[j])
    return total


@compiled_exactly
def product_over(a: float, b: float, c: float) -> float:
    """a b/c, where b/c is about 1: the product of two pivots may leave the floats."""
    return a * (b / c)


@compiled_in_place
def append(L: Array, D: Array, count: int, H: Array, A: Array) -> None:
    """Factor one more row, A[count], of H."""
    row = H[A[count]]
    new = L[count]
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
    """Factor the rows A[:count] of H, some columns at a time; half done once stop[0] is set."""
    for begin in range(0, count, PANEL):
        if stop[0]:
            return
        width = min(PANEL, count - begin)
        height = count - begin
        # a row of `columns` is a column of L D: first of H, less what the columns before explain
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
            explained = np.dot(scaled, before.T)
            for j in range(width):
                add_multiple(columns[j], -1.0, explained[j])
        for j in range(width):
            column = columns[j]
            p = begin + j
            for i in range(j):
                add_multiple(column[j:], -L[p, begin + i], columns[i, j:])
            D[p] = max(column[j], LEAST_PIVOT * H[A[p], A[p]])
            L[p, p] = 1.0
            for i in range(j + 1, height):
                L[begin + i, p] = column[i] / D[p]


@compiled_in_place
def remove(L: Array, D: Array, count: int, A: Array, p: int) -> None:
    """Forget row p: the block of L and D below it gains D_p l l', l being column p."""
    gains = np.empty(count)
    reduced = np.empty(count)
    scale = D[p]
    for i in range(p + 1, count):
        row = L[i]
        to = L[i - 1]
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
def solve_factored(L: Array, D: Array, count: int, b: Array) -> None:
    """The solution of L D L' x = b, in the place of b."""
    for i in range(count):
        b[i] -= inner(L[i, :i], b[:i])
    for i in range(count):
        b[i] /= D[i]
    for i in range(count - 1, -1, -1):
        add_multiple(b[:i], -b[i], L[i, :i])
