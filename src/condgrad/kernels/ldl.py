"""The factors of a positive definite matrix that gains and loses rows: H_AA = L D L', L unit lower triangular.

No square roots: then a matrix multiplied by a power of 2 has the same L, and D multiplied by it, to the last bit.
"""

from __future__ import annotations

import numpy as np

from condgrad._arrays import Array
from condgrad.kernels.compiling import compiled

LEAST_PIVOT = 1e-14
"""The least pivot, as a share of the diagonal entry: what rounding leaves of a dependent column."""


@compiled
def append(L: Array, D: Array, a: int, H: Array, A: Array) -> None:
    """Factor one more row, A[a], of H."""
    row, new = H[A[a]], L[a]
    left = 0.0
    for i in range(a):
        dot = 0.0
        for j in range(i):
            dot += L[i, j] * new[j]
        new[i] = row[A[i]] - dot
    for i in range(a):
        ratio = new[i] / D[i]
        left += ratio * new[i]
        new[i] = ratio
    new[a] = 1.0
    D[a] = max(row[A[a]] - left, LEAST_PIVOT * row[A[a]])


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
def solve(L: Array, D: Array, a: int, b: Array) -> None:
    """The solution of L D L' x = b, in the place of b."""
    for i in range(a):
        dot = 0.0
        row = L[i]
        for j in range(i):
            dot += row[j] * b[j]
        b[i] -= dot
    for i in range(a):
        b[i] /= D[i]
    for i in range(a - 1, -1, -1):
        row, entry = L[i], b[i]
        for j in range(i):
            b[j] -= row[j] * entry


def solve_by_arrays(H: Array, A: Array, b: Array) -> Array:
    """H_AA^-1 b, by NumPy."""
    return np.linalg.solve(H[np.ix_(A, A)], b)
