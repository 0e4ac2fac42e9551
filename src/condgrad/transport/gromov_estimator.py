"""Gromov-Wasserstein between samples of two spaces, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from condgrad.result import ADVICE, Status
from condgrad.transport.costs import SquaredEuclidean
from condgrad.transport.gromov import gromov


@dataclass(kw_only=True, eq=False, repr=False)
class GromovTransport(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Match samples of two spaces by the distances within each space. The spaces may have different
    features.

    This is Gromov-Wasserstein transport. The plan is proved to be stationary; see
    `transport.gromov`.

    Parameters
    ----------
    entropy : float
        Weight of sum G log G; 0 for none.
    metric : str
        The distance within each space, by its name in `scipy.spatial.distance.cdist`.
    loss : {"square", "kl"}
        How a distance x in one space is compared with a distance y in the other: (x - y)^2, or
        x log(x/y) - x + y.
    starts : int
        The number of starts; the best result counts.
    tol, max_iter, time_limit
        As in `transport.gromov`.
    seed : int
        The seed of the random starts.

    Attributes
    ----------
    coupling_, plan_ : array, shape (n, m)
        The plan.
    stationarity_, lower_bound_ : float
        The two proofs about the plan, as in `transport.GromovResult`.
    n_iter_ : int
        The number of iterations of the best start.
    result_ : GromovResult
        The answer of `transport.gromov`.
    Xs_, Xt_ : arrays
        The points of the fit.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> Xs = cg.datasets.make_clusters(30).Xs
    >>> # rotated, with one more feature
    >>> Xt = np.column_stack([Xs @ [[0.6, -0.8], [0.8, 0.6]], np.zeros(30)])
    >>> mover = cg.transport.GromovTransport().fit(Xs, Xt=Xt)
    >>> mover.transform(Xs).shape, bool(np.allclose(mover.transform(Xs), Xt))
    ((30, 3), True)
    """

    entropy: float = field(default=0.0, kw_only=False)
    metric: str = "sqeuclidean"
    loss: str = "square"
    starts: int = 4
    tol: float = 1e-6
    max_iter: int = 10_000
    time_limit: float | None = None
    seed: int = 0

    def fit(self, Xs: Any, ys: Any = None, Xt: Any = None, *, a: Any = None, b: Any = None) -> Self:
        """Find the plan between two samples. `a` and `b` are weights; `ys` is ignored."""
        if Xt is None:
            raise ValueError("Xt must hold the target points")
        Xs = validate_data(self, Xs, dtype=np.float64)
        Xt = check_array(Xt, dtype=np.float64, input_name="Xt")
        first, second = (
            SquaredEuclidean(X, X) if self.metric == "sqeuclidean" else cdist(X, X, self.metric)
            for X in (Xs, Xt)
        )
        result = gromov(
            first,
            second,
            a,
            b,
            entropy=self.entropy,
            loss=self.loss,
            starts=self.starts,
            seed=self.seed,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
        )
        result.result.uninterrupted()
        if not result.success:
            advice = ADVICE.get(result.status, ADVICE[Status.STALLED])
            warnings.warn(f"{result.message}. {advice}.", ConvergenceWarning, stacklevel=2)
        self.result_ = result
        self.Xs_ = Xs
        self.Xt_ = Xt
        self.stationarity_ = result.stationarity
        self.lower_bound_ = result.lower_bound
        self.n_iter_ = result.iterations
        return self

    def fit_transform(self, Xs: Any, ys: Any = None, Xt: Any = None, **weights: Any) -> Any:
        """Fit, then return where the sources go."""
        return self.fit(Xs, ys, Xt, **weights).transform(Xs)

    @property
    def coupling_(self) -> Any:
        """The plan."""
        check_is_fitted(self)
        return self.result_.dense()

    @property
    def plan_(self) -> Any:
        """The plan."""
        return self.coupling_

    def transform(self, X: Any) -> Any:
        """Where points go in the target space.

        A source goes to the mean of its targets. A new point goes to the same place as its nearest
        source. It cannot keep its displacement from this source, because the two spaces share no
        coordinates.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        _, nearest = cKDTree(self.Xs_).query(X)
        return self.result_.barycenters(self.Xt_)[nearest]
