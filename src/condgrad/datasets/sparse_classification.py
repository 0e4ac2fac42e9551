"""The toy problem of the paper's section 3.2: two Gaussian classes that differ in a few variables
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.datasets.scaling import standardize

REGIMES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "very sparse": MappingProxyType({"n_samples": 100, "n_features": 2000, "n_relevant": 5}),
        "sparse": MappingProxyType({"n_samples": 250, "n_features": 1000, "n_relevant": 20}),
        "easy": MappingProxyType({"n_samples": 1250, "n_features": 500, "n_relevant": 50}),
    }
)
"""Sizes for the three regimes of the paper's figure. The paper does not give the numbers.

The training parts are 80 x 2000 (highly sparse, very few examples), 200 x 1000 (sparse, few
examples) and 1000 x 500 (sparse, a reasonable ratio of examples to variables).
"""


@dataclass(frozen=True, eq=False)
class SparseClassification:
    """A random toy problem, and the parameters of its distribution.

    Attributes
    ----------
    X_train, X_test : arrays, shape (samples, n_features)
        The data, scaled with the means and standard deviations of the training part.
    y_train, y_test : arrays of -1.0 and +1.0
        The classes.
    relevant : array, shape (n_relevant,)
        The positions of the relevant variables, in increasing order.
    mean : array, shape (n_relevant,)
        The mean of class +1 before scaling, with entries -1 and +1. The mean of class -1 is its
        negative.
    covariances : array, shape (2, n_relevant, n_relevant)
        The covariances of the classes -1 and +1, in this order, before scaling.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=50, n_features=100, n_relevant=5)
    >>> d.X_train.shape, d.y_test.shape, d.relevant.shape, d.covariances.shape
    ((40, 100), (10,), (5,), (2, 5, 5))
    """

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    relevant: Any
    mean: Any
    covariances: Any


def make_sparse_classification(
    *,
    n_samples: int = 250,
    n_features: int = 1000,
    n_relevant: int = 20,
    test_size: float = 0.2,
    degrees_of_freedom: int | None = None,
    seed: int = 0,
) -> SparseClassification:
    """Draw the random classification problem of the paper's section 3.2.

    The classes differ in the relevant variables only. In these variables, class +1 is N(mu, S+) and
    class -1 is N(-mu, S-). The entries of mu are drawn from {-1, +1}, and S+ and S- from a Wishart
    distribution. The other variables are N(0, 1) in both classes. Both classes are equally frequent
    in the training part and in the test part. The default sizes are the regime "sparse" of
    `datasets.REGIMES`.

    Parameters
    ----------
    n_samples : int
        The number of training and test samples together. At least 2 must remain for training and 1
        for the test.
    n_features, n_relevant : int
        The number of all variables, and of the relevant ones. Which ones are relevant is random.
    test_size : float
        The share of samples for the test, between 0 and 1.
    degrees_of_freedom : int, optional
        Degrees of freedom of the Wishart distribution: at least `n_relevant`, which is the default.
        Its scale is the identity, so the expected covariance is `degrees_of_freedom` times the
        identity. The paper does not state the degrees of freedom or the scale.
    seed : int
        The seed of the random numbers. The same seed gives the same problem.

    Returns
    -------
    SparseClassification

    Examples
    --------
    >>> data = make_sparse_classification(**REGIMES["very sparse"], seed=3)
    >>> data.X_train.shape, data.X_test.shape, len(data.relevant)
    ((80, 2000), (20, 2000), 5)
    """
    n_test = _test_samples(_checks.whole("n_samples", n_samples, at_least=3), test_size)
    _checks.whole("n_features", n_features, at_least=1)
    if _checks.whole("n_relevant", n_relevant, at_least=1) > n_features:
        raise ValueError(f"n_relevant must be <= n_features = {n_features}, got {n_relevant!r}")
    freedom = n_relevant if degrees_of_freedom is None else degrees_of_freedom
    _checks.whole("degrees_of_freedom", freedom, at_least=n_relevant)
    _checks.whole("seed", seed, at_least=0)

    rng = np.random.default_rng(seed)
    relevant = np.sort(rng.choice(n_features, n_relevant, replace=False))
    mean = rng.choice([-1.0, 1.0], n_relevant)
    # R'R is a Wishart draw where R has standard normal entries, and zR with z standard normal has
    # that covariance
    roots = rng.standard_normal((2, freedom, n_relevant))
    y = np.where(np.arange(n_samples) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((n_samples, n_features))
    for label, root in zip((-1.0, 1.0), roots, strict=True):
        rows = np.flatnonzero(y == label)
        X[np.ix_(rows, relevant)] = label * mean + rng.standard_normal((len(rows), freedom)) @ root
    train = X[n_test:]
    test = X[:n_test]
    return SparseClassification(
        X_train=standardize(train),
        y_train=y[n_test:],
        X_test=standardize(test, reference=train),
        y_test=y[:n_test],
        relevant=relevant,
        mean=mean,
        covariances=roots.transpose(0, 2, 1) @ roots,
    )


def _test_samples(n_samples: int, test_size: Any) -> int:
    """How many samples the share is, where both parts keep enough."""
    count = round(_checks.number("test_size", test_size, above=0.0) * n_samples)
    if not 1 <= count <= n_samples - 2:
        raise ValueError(
            f"test_size must leave at least 1 test and 2 training samples of n_samples = {n_samples}, got {test_size!r}"
        )
    return count
