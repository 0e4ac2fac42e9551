"""Neighbour graphs: the same whichever way they are found, also where points are equally near."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from condgrad.transport import Laplacian, graphs


def lattice() -> Any:
    x = np.arange(12.0)
    return np.random.default_rng(0).permutation(np.stack(np.meshgrid(x, x), -1).reshape(-1, 2))


def clouds() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "plane": rng.random((300, 2)),
        "space": rng.standard_normal((300, 3)),
        "lattice": lattice(),
        "duplicates": np.repeat(rng.random((20, 2)), 15, axis=0),
        "many dimensions": rng.random((200, 30)),
    }


def graph_of(X: Any, neighbors: int) -> Any:
    """The graph that a regulariser builds: its Laplacian is D - W."""
    L = Laplacian(X, X[:2], 1.0, neighbors=neighbors, normalized=False).graphs[0]
    return scipy.sparse.csr_array(scipy.sparse.diags_array(L.diagonal()) - L)


@pytest.mark.parametrize("cloud", clouds())
def test_the_graph_joins_nearest_neighbours_of_either(cloud: str) -> None:
    X = clouds()[cloud]
    directed = kneighbors_graph(X, 10, mode="connectivity")
    expected = directed.maximum(directed.T).toarray()
    np.testing.assert_array_equal(graph_of(X, 10).toarray(), expected)


def test_the_graph_of_many_points_joins_the_same() -> None:
    """Another way finds it."""
    X = np.random.default_rng(0).random((20_500, 2))
    directed = kneighbors_graph(X, 5, mode="connectivity")
    found = graph_of(X, 5)
    assert abs(found - directed.maximum(directed.T)).max() == 0.0


def test_few_points_are_all_neighbours() -> None:
    assert graph_of(np.ones((1, 2)), 5).nnz == 0
    np.testing.assert_array_equal(graph_of(np.arange(3.0)[:, None], 5).toarray(), 1.0 - np.eye(3))


class ExactIndex:
    """Stands for pynndescent's index, which takes a minute to compile: the first neighbour of a point is itself."""

    def __init__(self, points: Any, *, n_neighbors: int, random_state: int, n_jobs: int) -> None:
        assert (random_state, n_jobs) == (0, -1)
        search = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
        distances, near = search.kneighbors(points)
        self.neighbor_graph = near, distances


def test_an_approximate_graph_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    X = np.random.default_rng(0).random((400, 12))
    exact = graph_of(X, 10)
    monkeypatch.setattr(graphs, "TOO_MANY_PAIRS", 1e5)
    monkeypatch.setattr(graphs.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=ExactIndex))
    with caplog.at_level(logging.INFO, logger="condgrad"):
        found = graph_of(X, 10)
    assert "400 points in 12 dimensions is approximate" in caplog.text
    assert abs(found - exact).max() == 0.0


def test_without_an_index_large_graphs_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((200, 12))
    exact = graph_of(X, 10)
    monkeypatch.setattr(graphs, "TOO_MANY_PAIRS", 1e5)
    monkeypatch.setattr(graphs.importlib.util, "find_spec", lambda _: None)
    assert abs(graph_of(X, 10) - exact).max() == 0.0
