"""Neighbour graphs of point clouds and their Laplacians."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import laplacian
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from condgrad import _checks
from condgrad.arrays import Array, host
from condgrad.arrays.inputs import data_matrix

logger = logging.getLogger(__name__)


TREE_DIMENSION, MANY_POINTS = 8, 20_000
"""In more dimensions than the first number, and for more points than the second, all pairs are
compared: a tree would look at almost all of them, and be slower.
"""
TOO_MANY_PAIRS = 1e12
"""If n^2 d is larger, comparing all pairs would take minutes. Then an approximate index is used, if
it is installed.
"""


def neighbor_graph(X: Array, neighbors: int) -> Any:
    """The symmetric 0/1 graph in which two points are joined if either is among the other's nearest
    neighbours.

    Up to 8 dimensions by a k-d tree on all cores: a million points of 2 or 3 dimensions take
    seconds. Beyond, exactly, by comparing blocks of points, which takes n^2 d operations. Where
    that would take minutes (n^2 d > 1e12) and pynndescent is installed (the extra `neighbors`) its
    index is used, and the graph is **approximate**: a few per cent of the neighbours may be other
    near points. A message of the logger `condgrad` says so.
    """
    points = host(X)
    _checks.whole("neighbors", neighbors, at_least=1)
    n = len(points)
    if n < 2:
        return scipy.sparse.csr_array((n, n))
    near = np.sort(_nearest(points, min(neighbors, n - 1)), axis=1)
    kind = "int32" if 2 * near.size < 2**31 else "int64"
    ends = np.arange(0, near.size + 1, near.shape[1]).astype(kind)
    graph = scipy.sparse.csr_array(
        (np.ones(near.size), near.astype(kind).ravel(), ends), shape=(n, n)
    )
    return graph.maximum(graph.T)


def _nearest(points: Array, count: int) -> Array:
    """The indices of the `count` nearest others of each point."""
    n, d = points.shape
    if (
        d > TREE_DIMENSION
        and float(n) ** 2 * d > TOO_MANY_PAIRS
        and importlib.util.find_spec("pynndescent")
    ):
        return _without_self(_approximately_nearest(points, count + 1), np.arange(n))
    if n <= MANY_POINTS:
        return NearestNeighbors(n_neighbors=count).fit(points).kneighbors(return_distance=False)
    if d > TREE_DIMENSION:
        search = NearestNeighbors(n_neighbors=count, algorithm="brute", n_jobs=-1).fit(points)
        return search.kneighbors(return_distance=False)
    # its order of points that are equally near is that of few points, which SciPy's, twice as fast,
    # has not
    search = NearestNeighbors(algorithm="kd_tree", n_jobs=-1).fit(points)
    # near points one after the other walk the same branches of the tree, which are then still in
    # the cache
    order = cKDTree(points).indices
    near = np.empty((n, count), dtype=np.int64)
    near[order] = _without_self(
        search.kneighbors(points[order], count + 1, return_distance=False), order
    )
    return near


def _without_self(near: Array, points: Array) -> Array:
    """Each point's neighbours without itself; where duplicates have crowded it out, without the
    first.
    """
    others = near != points[:, None]
    others[others.all(axis=1), 0] = False
    return near[others].reshape(len(near), -1)


def _approximately_nearest(points: Array, count: int) -> Array:
    from pynndescent import NNDescent

    logger.info(
        "the neighbour graph of %d points in %d dimensions is approximate (pynndescent)",
        *points.shape,
    )
    index = NNDescent(
        points.astype(np.float32), n_neighbors=max(count, 15), random_state=0, n_jobs=-1
    )
    return index.neighbor_graph[0][:, :count]


def graph_laplacian(similarity: Any, *, normalized: bool) -> Any:
    """D - W, or I - D^-1/2 W D^-1/2, of a symmetric matrix of similarities >= 0."""
    W = scipy.sparse.csr_array(data_matrix("similarity", similarity))
    if W.shape[0] != W.shape[1] or abs(W - W.T).max() > 1e-10 * abs(W).max():
        raise ValueError(f"a similarity matrix must be square and symmetric, got shape {W.shape}")
    if W.nnz and W.data.min() < 0:
        raise ValueError(f"similarities must be >= 0, got {W.data.min():g} among them")
    return _laplacian_of(W.astype(np.float64), normalized)


def neighbor_laplacian(X: Array, neighbors: int, *, normalized: bool) -> Any:
    """The Laplacian of a neighbour graph, which is symmetric as it is made."""
    return _laplacian_of(neighbor_graph(X, neighbors), normalized)


def _laplacian_of(W: Any, normalized: bool) -> Any:
    return scipy.sparse.csr_array(laplacian(W, normed=_checks.flag("normalized", normalized)))
