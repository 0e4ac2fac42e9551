"""The factors of a positive definite matrix that gains and loses rows: H_AA = L D L', L unit lower triangular.

No square roots: then a matrix multiplied by a power of 2 has the same L, and D multiplied by it, to the last bit.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled

LEAST_PIVOT = 1e-14
"""The least pivot, as a share of the diagonal entry: what rounding leaves of a dependent column."""

MANY = 64
"""Rows from which LAPACK factors faster than one row after the other."""


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


@compiled
def append(L: Array, D: Array, a: int, H: Array, A: Array) -> None:
    """Factor one more row, A[a], of H."""
    row, new = H[A[a]], L[a]
    left = 0.0
    for i in range(a):
        new[i] = row[A[i]] - inner(L[i, :i], new[:i])
    for i in range(a):
        ratio = new[i] / D[i]
        left += ratio * new[i]
        new[i] = ratio
    new[a] = 1.0
    D[a] = max(row[A[a]] - left, LEAST_PIVOT * row[A[a]])


@compiled
def factor(L: Array, D: Array, a: int, H: Array, A: Array) -> None:
    """Factor the rows A[:a] of H: by LAPACK where they are many.

    LAPACK's factors have square roots; dividing by a power of 2 first, that of a diagonal entry, keeps them the same in
    all units that differ by powers of 2.
    """
    if a >= MANY:
        block, unit = np.empty((a, a)), 2.0 ** np.floor(np.log2(H[A[0], A[0]]))
        for i in range(a):
            row = H[A[i]]
            for j in range(a):
                block[i, j] = row[A[j]] / unit
        root: Array = block
        done = True
        try:
            root = np.linalg.cholesky(block)
        except Exception:  # nearly singular: row by row, with a least pivot
            done = False
        if done:
            for i in range(a):
                D[i] = root[i, i] * root[i, i] * unit
                for j in range(i):
                    L[i, j] = root[i, j] / root[j, j]
                L[i, i] = 1.0
            return
    for i in range(a):
        append(L, D, i, H, A)


@compiled
def remove(L: Array, D: Array, a: int, A: Array, p: int) -> None:
    """Forget row p of the a rows: what is below gains D_p l l', l being column p."""
    gains, column = np.empty(a), np.empty(a)
    alpha = D[p]
    for i in range(p + 1, a):
        row, to = L[i], L[i - 1]
        along = row[p]
        for j in range(p):
            to[j] = row[j]
        for j in range(p + 1, i):
            along -= column[j] * row[j]
            to[j - 1] = row[j] + gains[j] * along
        to[i - 1] = 1.0
        column[i] = along
        pivot = D[i] + alpha * along * along
        gains[i] = alpha * along / pivot
        alpha = alpha * D[i] / pivot
        D[i - 1] = pivot
        A[i - 1] = A[i]


@compiled
def add_square(L: Array, D: Array, scale: float, vector: Array) -> bool:
    """Add scale v v' to the matrix; False, with the factors spoiled, where it would no longer be positive definite."""
    size = vector.shape[0]
    gains, column = np.empty(size), np.empty(size)
    for i in range(size):
        row, along = L[i], vector[i]
        for j in range(i):
            along -= column[j] * row[j]
            row[j] += gains[j] * along
        column[i] = along
        pivot = D[i] + scale * along * along
        if not pivot > 1e-4 * D[i]:
            return False
        gains[i] = scale * along / pivot
        scale = scale * D[i] / pivot
        D[i] = pivot
    return True


@compiled
def solve(L: Array, D: Array, a: int, b: Array) -> None:
    """The solution of L D L' x = b, in the place of b."""
    for i in range(a):
        b[i] -= inner(L[i, :i], b[:i])
    for i in range(a):
        b[i] /= D[i]
    for i in range(a - 1, -1, -1):
        add_multiple(b[:i], -b[i], L[i, :i])


def solve_by_arrays(H: Array, A: Array, b: Array) -> Array:
    """H_AA^-1 b, by NumPy."""
    return np.linalg.solve(H[np.ix_(A, A)], b)
