"""What compiled Newton steps need of K, dense or sparse: products, some of the columns, a weighted Gram matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array, Matrix, for_kernels
from condgrad.ball.compiled.ldl import add_multiple, combination, inner
from condgrad.kernels import Compressed
from condgrad.kernels.compiling import compiled, compiled_in_place
from condgrad.kernels.sparse_gram import columns_by_row
from condgrad.kernels.sparse_gram import weighted_gram as sparse_weighted_gram

GRAM_WIDTH = 32
"""Rows of a Gram matrix that are computed together, at least."""
MOSTLY_STORED = 0.4
"""The share of their entries that is stored, from which on columns of a sparse K are taken as dense ones: their Gram
matrix takes less time then."""
NEARLY_FULL = 0.9
"""The share of a column of a sparse K that is stored, from which on it is centred. Of one with more zeros, whatever its
offset, centring leaves a tenth of the sum of squares or more: it would save one digit at most."""
ALL_MEAN = 0.9
"""The share of a weighted sum of squares that is the square of the mean, from which on that is taken off the column
rather than off the Gram matrix, which would lose more than a digit."""


class CompiledMatrix(NamedTuple):
    """K, dense or sparse; the arrays of the forms that it does not have are of size 0.

    One type for all of them: for each other type, all that takes a matrix would be compiled again.
    """

    samples: int
    width: int
    """Columns."""
    columns: Array
    """K', so that columns of K lie one after the other."""
    by_column: Compressed
    """A sparse K, a line a column."""
    by_row: Compressed
    """The same a line a row, of some columns alone: their Gram matrix adds up row by row."""


@compiled
def no_lines() -> Compressed:
    return Compressed(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))


NO_LINES = Compressed(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
"""The same for Python: to call a compiled function takes longer than to name a constant."""
NO_COLUMNS = np.empty((0, 0))


def of_dense(columns: Array) -> CompiledMatrix:
    """K from K'."""
    n, m = columns.shape
    return CompiledMatrix(m, n, columns, NO_LINES, NO_LINES)


def of_sparse(K: Matrix) -> CompiledMatrix | None:
    """K from SciPy's arrays of columns or of rows, each entry once and in float64.

    None unless all indices have 32 bits: for others all would be compiled again.
    """
    if not K.indices.dtype == K.indptr.dtype == np.int32:
        return None
    lines = Compressed(for_kernels(K.indptr), for_kernels(K.indices), for_kernels(K.data))
    by_column, by_row = (lines, NO_LINES) if K.format == "csc" else (NO_LINES, lines)
    return CompiledMatrix(K.shape[0], K.shape[1], NO_COLUMNS, by_column, by_row)


@compiled
def gathered(stored: Compressed, v: Array) -> Array:
    """The product of a vector with each compressed line."""
    found = np.empty(stored.starts.shape[0] - 1)
    for line in range(found.shape[0]):
        places = stored.places[stored.starts[line] : stored.starts[line + 1]]
        entries = stored.entries[stored.starts[line] : stored.starts[line + 1]]
        sum_of_line = 0.0
        for t in range(places.shape[0]):
            sum_of_line += entries[t] * v[np.uint64(places[t])]
        found[line] = sum_of_line
    return found


@compiled
def scattered(stored: Compressed, v: Array, size: int) -> Array:
    """The sum of the compressed lines, each multiplied by an entry of a vector of which many are 0."""
    found = np.zeros(size)
    for line in range(v.shape[0]):
        if v[line] != 0.0:
            places = stored.places[stored.starts[line] : stored.starts[line + 1]]
            entries = stored.entries[stored.starts[line] : stored.starts[line + 1]]
            for t in range(places.shape[0]):
                found[np.uint64(places[t])] += v[line] * entries[t]
    return found


@compiled_in_place
def some_lines(stored: Compressed, chosen: Array) -> Compressed:
    """Some of the compressed lines."""
    starts = np.zeros(chosen.shape[0] + 1, np.int32)
    for p in range(chosen.shape[0]):
        starts[p + 1] = starts[p] + stored.starts[chosen[p] + 1] - stored.starts[chosen[p]]
    places, entries = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for p in range(chosen.shape[0]):
        begin, end = stored.starts[chosen[p]], stored.starts[chosen[p] + 1]
        places[starts[p] : starts[p + 1]] = stored.places[begin:end]
        entries[starts[p] : starts[p + 1]] = stored.entries[begin:end]
    return Compressed(starts, places, entries)


@compiled
def image(K: CompiledMatrix, x: Array) -> Array:
    """K x."""
    if K.by_row.starts.shape[0] > 0:
        return gathered(K.by_row, x)
    if K.by_column.starts.shape[0] > 0:
        return scattered(K.by_column, x, K.samples)
    return combination(K.columns, x)


@compiled
def pulled_back(K: CompiledMatrix, theta: Array) -> Array:
    """K'theta."""
    if K.by_column.starts.shape[0] > 0:
        return gathered(K.by_column, theta)
    if K.by_row.starts.shape[0] > 0:
        return scattered(K.by_row, theta, K.width)
    found = np.empty(K.width)
    for j in range(K.width):
        found[j] = inner(K.columns[j], theta)
    return found


@compiled_in_place
def square_of_column(K: CompiledMatrix, j: int) -> float:
    """|K_j|^2, of a dense K or one stored by columns."""
    if K.by_column.starts.shape[0] > 0:
        column = K.by_column.entries[K.by_column.starts[j] : K.by_column.starts[j + 1]]
        return inner(column, column)
    return inner(K.columns[j], K.columns[j])


@compiled_in_place
def some_columns(K: CompiledMatrix, chosen: Array, centred: bool) -> tuple[CompiledMatrix, Array]:
    """Some columns of a K that is dense or stored by columns, and what was taken off each entry of them.

    They are centred if asked, so that large offsets do not hide all else in them; of sparse ones those alone that are
    `NEARLY_FULL`.
    """
    k, m, means = chosen.shape[0], K.samples, np.zeros(chosen.shape[0])
    none = no_lines()
    if K.by_column.starts.shape[0] > 0 and count_stored(K, chosen) <= MOSTLY_STORED * k * m:
        lines = some_lines(K.by_column, chosen)
        if centred:
            lines = centred_where_stored(lines, m, means)
        rows = Compressed(*columns_by_row(lines.starts, lines.places, lines.entries, np.arange(k), m))
        return CompiledMatrix(m, k, np.empty((0, 0)), lines, rows), means
    columns = dense_columns(K, chosen)
    if not centred:
        return CompiledMatrix(m, k, columns, none, none), means
    deviations = np.empty((k, m))
    for p in range(k):
        means[p] = columns[p].sum() / m
        for i in range(m):
            deviations[p, i] = columns[p, i] - means[p]
    return CompiledMatrix(m, k, deviations, none, none), means


@compiled_in_place
def centred_where_stored(stored: Compressed, size: int, means: Array) -> Compressed:
    """Compressed lines of some size, those that are `NEARLY_FULL` less their means, which are set; others as is."""
    lengths = np.diff(stored.starts)
    is_centred = lengths > NEARLY_FULL * size
    if not is_centred.any():
        return stored
    starts = np.zeros_like(stored.starts)
    starts[1:] = np.cumsum(np.where(is_centred, size, lengths))
    places, entries = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for line in range(lengths.shape[0]):
        line_places = stored.places[stored.starts[line] : stored.starts[line + 1]]
        line_entries = stored.entries[stored.starts[line] : stored.starts[line + 1]]
        found = entries[starts[line] : starts[line + 1]]
        if is_centred[line]:
            means[line] = line_entries.sum() / size
            places[starts[line] : starts[line + 1]] = np.arange(size)
            found[:] = -means[line]
            for t in range(line_places.shape[0]):
                found[line_places[t]] = line_entries[t] - means[line]
        else:
            places[starts[line] : starts[line + 1]] = line_places
            found[:] = line_entries
    return Compressed(starts, places, entries)


@compiled_in_place
def count_stored(K: CompiledMatrix, chosen: Array) -> int:
    """The entries of some columns of a K that is stored by columns."""
    found = 0
    for j in chosen:
        found += K.by_column.starts[j + 1] - K.by_column.starts[j]
    return found


@compiled
def dense_columns(K: CompiledMatrix, chosen: Array) -> Array:
    """Some columns of a K that is dense or stored by columns, a row each; of a dense K all are K' itself."""
    is_sparse = K.by_column.starts.shape[0] > 0
    if chosen.shape[0] == K.width and not is_sparse:
        return K.columns
    found = np.zeros((chosen.shape[0], K.samples))
    for p in range(chosen.shape[0]):
        if is_sparse:
            begin, end = K.by_column.starts[chosen[p]], K.by_column.starts[chosen[p] + 1]
            for t in range(begin, end):
                found[p, K.by_column.places[t]] = K.by_column.entries[t]
        else:
            found[p] = K.columns[chosen[p]]
    return found


@compiled_in_place
def operations_of_gram(K: CompiledMatrix) -> int:
    """Multiplications of a Gram matrix of a K that is dense or stored by rows."""
    if K.by_row.starts.shape[0] == 0:
        return K.samples * K.width * K.width
    found = 0
    for i in range(K.samples):
        found += (K.by_row.starts[i + 1] - K.by_row.starts[i]) ** 2
    return found


@compiled
def set_weighted_gram(K: CompiledMatrix, w: Array, gram: Array) -> Array:
    """Set `gram` to K' diag(w) K and return K'w, for a K that is dense or stored by rows."""
    if K.by_row.starts.shape[0] > 0:
        starts, places, entries = K.by_row
        found, pull = sparse_weighted_gram(starts, places, entries, w, K.width)
        gram[:] = found
        return pull
    columns, k, m = K.columns, K.width, K.samples
    scaled, pull = np.empty((k, m)), np.empty(k)
    for j in range(k):
        for i in range(m):
            scaled[j, i] = w[i] * columns[j, i]
        pull[j] = scaled[j].sum()
    width = max(GRAM_WIDTH, k // 8)
    for begin in range(0, k, width):  # what is below the blocks on the diagonal is known from above them
        end = min(begin + width, k)
        gram[begin:end, begin:] = np.dot(scaled[begin:end], columns[begin:].T)
        for j in range(end, k):
            for i in range(begin, end):
                gram[j, i] = gram[i, j]
    return pull


@compiled_in_place
def set_centred_gram(K: CompiledMatrix, w: Array, gram: Array) -> None:
    """Set `gram` to K' W K, W = diag(w) - w w'/sum(w), for a K that is dense or stored by rows."""
    pull, mass = set_weighted_gram(K, w, gram), w.sum()
    if mass == 0.0:
        return
    is_dense, is_all_mean = K.columns.shape[0] > 0, False
    for j in range(K.width):
        is_all_mean = is_all_mean or pull[j] * (pull[j] / mass) > ALL_MEAN * gram[j, j]
    if is_dense and is_all_mean:
        deviations = np.empty_like(K.columns)
        for j in range(K.width):
            mean = pull[j] / mass
            for i in range(K.samples):
                deviations[j, i] = K.columns[j, i] - mean
        none = no_lines()
        set_weighted_gram(CompiledMatrix(K.samples, K.width, deviations, none, none), w, gram)
        return
    for j in range(K.width):
        add_multiple(gram[j], -pull[j] / mass, pull)
