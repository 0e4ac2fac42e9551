"""Neighbour graphs: the same whichever way they are found, also where points are equally near."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from condgrad.transport import graphs


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


@pytest.mark.parametrize("cloud", clouds())
@pytest.mark.parametrize("many", [graphs.MANY_POINTS, 100])
def test_the_graph_joins_nearest_neighbours_of_either(
    cloud: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MANY_POINTS", many)
    X = clouds()[cloud]
    directed = kneighbors_graph(X, 10, mode="connectivity")
    expected = directed.maximum(directed.T).toarray()
    found = graphs.neighbor_graph(X, 10)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.nnz == np.count_nonzero(expected)
    assert found.has_sorted_indices
    assert found.indices.dtype == np.int32


def test_few_points_are_all_neighbours() -> None:
    assert graphs.neighbor_graph(np.ones((1, 2)), 5).shape == (1, 1)
    np.testing.assert_array_equal(
        graphs.neighbor_graph(np.arange(3.0)[:, None], 5).toarray(), 1.0 - np.eye(3)
    )


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
    exact = graphs.neighbor_graph(X, 10)
    monkeypatch.setattr(graphs, "TOO_MANY_PAIRS", 1e5)
    monkeypatch.setattr(graphs.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=ExactIndex))
    with caplog.at_level(logging.INFO, logger="condgrad"):
        found = graphs.neighbor_graph(X, 10)
    assert "400 points in 12 dimensions is approximate" in caplog.text
    assert abs(found - exact).max() == 0.0


def test_without_an_index_large_graphs_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((200, 12))
    exact = graphs.neighbor_graph(X, 10)
    monkeypatch.setattr(graphs, "TOO_MANY_PAIRS", 1e5)
    monkeypatch.setattr(graphs.importlib.util, "find_spec", lambda _: None)
    assert abs(graphs.neighbor_graph(X, 10) - exact).max() == 0.0
