"""Neighbour graphs of point clouds and their Laplacians."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import laplacian
from sklearn.neighbors import kneighbors_graph

from condgrad import _checks
from condgrad.arrays import Array, host
from condgrad.arrays.inputs import data_matrix


def neighbor_graph(X: Array, neighbors: int) -> Any:
    """The symmetric 0/1 graph in which two points are joined if either is among the other's nearest neighbours."""
    points = host(X)
    _checks.whole("neighbors", neighbors, at_least=1)
    if len(points) < 2:
        return scipy.sparse.csr_array((len(points), len(points)))
    graph = kneighbors_graph(points, min(neighbors, len(points) - 1), mode="connectivity")
    return scipy.sparse.csr_array(graph.maximum(graph.T))


def graph_laplacian(similarity: Any, *, normalized: bool) -> Any:
    """D - W, or I - D^-1/2 W D^-1/2, of a symmetric matrix of similarities >= 0."""
    W = scipy.sparse.csr_array(data_matrix("similarity", similarity))
    if W.shape[0] != W.shape[1] or abs(W - W.T).max() > 1e-10 * abs(W).max():
        raise ValueError(f"a similarity matrix must be square and symmetric, got shape {W.shape}")
    if W.nnz and W.data.min() < 0:
        raise ValueError(f"similarities must be >= 0, got {W.data.min():g} among them")
    return scipy.sparse.csr_array(laplacian(W.astype(np.float64), normed=normalized))
