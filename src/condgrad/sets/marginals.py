"""Plans of exact marginals near nonnegative matrices: the rounding of Altschuler, Weed and
Rigollet (NIPS 2017).

Rows and columns that are too heavy are scaled down, and what is missing then is spread by a
rank-one term.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from condgrad.arrays import Array, at_least, namespace, row_blocks, smallest, total


def kept_share(have: Array, most: Array) -> Array:
    """The part of each sum that may stay where it must not be above `most`."""
    return most / at_least(smallest(have), namespace(have).maximum(have, most))


class Rescaled(NamedTuple):
    """by_row_i X_ij by_column_j + row_rest_i column_rest_j, of exact marginals."""

    by_row: Array
    by_column: Array
    row_rest: Array
    column_rest: Array
    """Of mass 1, or 0 where nothing is missing."""

    @classmethod
    def of(
        cls, X: Array, a: Array, b: Array, *, by_row: Array, by_column: Array, columns: Array
    ) -> Rescaled:
        """The plan near by_row X by_column, whose rows are within a, and whose column sums are
        `columns`.
        """
        shrink = kept_share(columns, b)
        by_column = by_column * shrink
        short_a = at_least(0.0, a - by_row * (X @ by_column))
        short_b = at_least(0.0, b - columns * shrink)
        return cls(by_row, by_column, short_a, short_b / (total(short_b) or 1.0))

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """The plan, some rows at a time."""
        for rows in row_blocks(X):
            part = X[rows] * self.by_column[None, :]
            part *= self.by_row[rows][:, None]
            part += self.row_rest[rows][:, None] * self.column_rest[None, :]
            yield rows, part
