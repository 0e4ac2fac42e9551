"""Point clouds with cluster structure, as in the paper's transport experiments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad import _checks


class Clusters(NamedTuple):
    """Two clouds with the same clusters, and the cluster of each point. The second cloud is moved.

    Attributes
    ----------
    Xs, Xt : arrays, shape (n, 2)
        The points of the two clouds.
    ys, yt : arrays, shape (n,)
        The clusters, counted from 0.

    Examples
    --------
    >>> import condgrad as cg
    >>> Xs, Xt, ys, yt = cg.datasets.make_clusters(100)
    >>> Xs.shape, Xt.shape, sorted(set(yt.tolist()))
    ((100, 2), (100, 2), [0, 1, 2, 3])
    """

    Xs: Any
    Xt: Any
    ys: Any
    yt: Any


def make_clusters(n: int, *, clusters: int = 4, noise: float = 0.05, seed: int = 0) -> Clusters:
    """Noisy clusters with centres in the unit square, and the same clusters rotated and shifted.

    They are like the clouds in section 3.1 of the paper: the coordinates are of order 1, and both
    clouds have noisy clusters.

    Parameters
    ----------
    n : int
        The number of points of each cloud.
    clusters : int
        The number of clusters.
    noise : float
        The standard deviation of the points around their centre.
    seed : int
        The seed of the random numbers. The same seed gives the same clouds.

    Returns
    -------
    Clusters

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_clusters(6, clusters=2)
    >>> d.Xs.shape, d.ys.tolist()
    ((6, 2), [0, 1, 0, 1, 0, 1])
    """
    _checks.whole("n", n, at_least=1)
    _checks.whole("clusters", clusters, at_least=1)
    _checks.number("noise", noise, at_least=0.0)
    _checks.whole("seed", seed, at_least=0)
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.0, 1.0, (clusters, 2))
    angle = 0.5
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    ys = np.arange(n) % clusters
    yt = rng.permutation(np.arange(n) % clusters)
    Xs = centres[ys] + noise * rng.standard_normal((n, 2))
    Xt = centres[yt] @ rotation.T + np.array([0.3, 0.1]) + noise * rng.standard_normal((n, 2))
    return Clusters(Xs, Xt, ys, yt)
