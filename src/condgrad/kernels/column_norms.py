"""The norms of columns that lie one after the other; the plain reference is `arrays.norms_of_columns`."""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.ldl import inner
from condgrad.kernels.compiling import entry_point

LEAST_SQUARE, LARGEST_SQUARE = 1e-200, 1e200
"""Squares that are out of this range may have lost digits."""


@entry_point
def norms_of_rows(columns: Array) -> tuple[Array, bool]:
    """|K_j|_2 for each column of K, a row of this array, and whether all of them are right to rounding."""
    norms, is_right = np.empty(columns.shape[0]), True
    for j in range(columns.shape[0]):
        square = inner(columns[j], columns[j])
        norms[j] = np.sqrt(square)
        is_zero = square == 0.0 and np.abs(columns[j]).max() == 0.0
        is_right = is_right and (is_zero or LEAST_SQUARE < square < LARGEST_SQUARE)
    return norms, is_right
