"""The clusters of the examples."""

from __future__ import annotations

import numpy as np

from condgrad.datasets import make_clusters


def test_more_clusters_than_points() -> None:
    data = make_clusters(3, clusters=9)
    assert data.Xs.shape == data.Xt.shape == (3, 2)
    np.testing.assert_array_equal(data.ys, [0, 1, 2])
