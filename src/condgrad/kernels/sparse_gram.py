"""The weighted Gram matrix of the columns of a sparse matrix, row by row."""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import entry_point

TILE_SIDE = 32
"""The number of rows, and of columns, of a tile when a matrix is made symmetric."""


@entry_point
def weighted_gram(
    indptr: Array, indices: Array, data: Array, w: Array, width: int
) -> tuple[Array, Array]:
    """K' diag(w) K and K' w in float64, from the arrays of K in rows."""
    G = np.zeros((width, width))
    sums = np.zeros(width)
    for i in range(indptr.shape[0] - 1):
        weight = w[i]
        if weight == 0.0:
            continue
        # slices and unsigned numbers, so that no loop asks whether an index counts from the end
        places = indices[indptr[i] : indptr[i + 1]]
        entries = data[indptr[i] : indptr[i + 1]]
        for s in range(places.shape[0]):
            scaled = weight * entries[s]
            sums[np.uint64(places[s])] += scaled
            row = G[places[s]]
            for t in range(s + 1):
                row[np.uint64(places[t])] += scaled * entries[t]
    # each pair was met once, in one of its two orders; by tiles, so that both of them stay in the
    # cache
    for top in range(0, width, TILE_SIDE):
        for left in range(0, top + 1, TILE_SIDE):
            for i in range(top, min(top + TILE_SIDE, width)):
                for j in range(left, min(left + TILE_SIDE, i)):
                    both = G[i, j] + G[j, i]
                    G[i, j] = both
                    G[j, i] = both
    return G, sums
