"""Columns of a sparse matrix, and their weighted Gram matrix, row by row."""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import entry_point

TILE = 32
"""Rows and columns of a tile of a matrix that is made symmetric."""


@entry_point
def columns(indptr: Array, indices: Array, data: Array, place: Array) -> tuple[Array, Array, Array]:
    """The arrays of K[:, W] in float64, from those of K in rows; place[j] is where column j is in W, or -1."""
    starts = np.zeros(indptr.shape[0], indptr.dtype)
    # room for all entries, of which memory that is never written takes none
    total = indptr[-1] - indptr[0]
    where, entries = np.empty(total, indices.dtype), np.empty(total, np.float64)
    count = np.uint64(0)
    for i in range(indptr.shape[0] - 1):
        for t in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            # written in any case, and kept by counting it: a branch that nobody can foresee takes longer
            column = place[np.uint64(indices[t])]
            where[count], entries[count] = column, data[t]
            count += np.uint64(column >= 0)
        starts[i + 1] = count
    return starts, where[:count], entries[:count]


@entry_point
def columns_by_row(indptr: Array, indices: Array, data: Array, chosen: Array, rows: int) -> tuple[Array, Array, Array]:
    """The arrays of K[:, W] in rows and in float64, from those of K in columns, with W = chosen."""
    starts = np.zeros(rows + 1, indptr.dtype)
    for j in chosen:
        for i in indices[indptr[j] : indptr[j + 1]]:
            starts[np.uint64(i) + np.uint64(1)] += 1
    for i in range(rows):
        starts[i + 1] += starts[i]
    where, entries = np.empty(starts[-1], indices.dtype), np.empty(starts[-1], np.float64)
    free = starts[:-1].copy()
    for place in range(chosen.shape[0]):
        begin, end = indptr[chosen[place]], indptr[chosen[place] + 1]
        samples, column = indices[begin:end], data[begin:end]
        for t in range(samples.shape[0]):
            i = np.uint64(samples[t])
            to = np.uint64(free[i])
            where[to], entries[to] = place, column[t]
            free[i] += 1
    return starts, where, entries


@entry_point
def weighted_gram(indptr: Array, indices: Array, data: Array, w: Array, width: int) -> tuple[Array, Array]:
    """K' diag(w) K and K' w in float64, from the arrays of K in rows."""
    G, pull = np.zeros((width, width)), np.zeros(width)
    for i in range(indptr.shape[0] - 1):
        weight = w[i]
        if weight == 0.0:
            continue
        # slices and unsigned numbers, so that no loop asks whether an index counts from the end
        places, entries = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        for s in range(places.shape[0]):
            scaled = weight * entries[s]
            pull[np.uint64(places[s])] += scaled
            row = G[places[s]]
            for t in range(s + 1):
                row[np.uint64(places[t])] += scaled * entries[t]
    # each pair was met once, in one of its two orders; by tiles, so that both of them stay in the cache
    for top in range(0, width, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, width)):
                for j in range(left, min(left + TILE, i)):
                    both = G[i, j] + G[j, i]
                    G[i, j] = both
                    G[j, i] = both
    return G, pull


def weighted_gram_by_arrays(K: Array, w: Array) -> tuple[Array, Array]:
    """The same from a dense K, by NumPy."""
    return K.T @ (w[:, None] * K), K.T @ w
