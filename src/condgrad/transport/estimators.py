"""Transport between samples, in the manner of scikit-learn."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from condgrad.result import ADVICE
from condgrad.transport.regularizers import GroupLasso, Laplacian, Regularizer
from condgrad.transport.solve import TransportResult, solve

UNLABELLED = -1
"""The label of target samples whose class is not known."""


class _PlanTransformer(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fits a plan between two samples and moves points by the barycentres it prescribes."""

    # what every subclass declares in its __init__, as scikit-learn wants
    entropy: float
    metric: str
    tol: float
    max_iter: int
    method: str
    time_limit: float | None
    verbose: bool

    plan_: Any
    result_: TransportResult

    @abstractmethod
    def _regularizers(self, Xs: Any, ys: Any, Xt: Any) -> Sequence[Regularizer]:
        """What this estimator asks of a plan beyond its cost and entropy."""

    def fit(self, Xs: Any, ys: Any = None, Xt: Any = None, yt: Any = None) -> Self:
        """Find the plan from the sources Xs to the targets Xt.

        Parameters
        ----------
        Xs : array, shape (n, d)
        ys : array, shape (n,), optional
            Classes of the sources.
        Xt : array, shape (m, d)
        yt : array, shape (m,), optional
            Classes of the targets, -1 where unknown. Together with `ys` they make it costly (ten times the largest
            cost) to move mass between samples of different known classes.
        """
        if Xt is None:
            raise ValueError("Xt is needed: fit(Xs, ys, Xt) finds a plan from the samples Xs to the samples Xt")
        Xs = validate_data(self, Xs, dtype=np.float64)
        Xt = check_array(Xt, dtype=np.float64, input_name="Xt")
        if Xt.shape[1] != Xs.shape[1]:
            raise ValueError(f"Xs has {Xs.shape[1]} features, Xt has {Xt.shape[1]}: they must agree")
        ys, yt = _labels("ys", ys, len(Xs)), _labels("yt", yt, len(Xt))
        cost = cdist(Xs, Xt, metric=self.metric)
        if ys is not None and yt is not None:
            differ = (ys[:, None] != yt[None, :]) & (yt != UNLABELLED)[None, :]
            cost = np.where(differ, 10.0 * cost.max(), cost)
        answer = solve(
            cost,
            entropy=self.entropy,
            regularizers=self._regularizers(Xs, ys, Xt),
            method=self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            progress=bool(self.verbose),
        )
        answer.result.uninterrupted()
        self.result_ = answer
        self.plan_, self.Xs_, self.Xt_ = self.result_.plan, Xs, Xt
        self.n_iter_, self.dual_gap_ = self.result_.iterations, self.result_.gap
        if not self.result_.success:
            proof = f"the plan is certified to {self.dual_gap_:.3g} of the optimum"
            if self.dual_gap_ == math.inf:
                proof = "nothing was proved about how far the plan is from the optimum"
            warnings.warn(
                f"{self.result_.message}; {proof}. {ADVICE[self.result_.status]}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_transform(self, Xs: Any, ys: Any = None, Xt: Any = None, yt: Any = None) -> Any:
        """Fit, then move the sources."""
        return self.fit(Xs, ys, Xt, yt).transform(Xs)

    def transform(self, X: Any) -> Any:
        """Move points of the source domain: each by the displacement of its nearest fitted source."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return _displaced(X, self.Xs_, self.result_.apply(self.Xt_), self.plan_.sum(axis=1))

    def inverse_transform(self, X: Any) -> Any:
        """Move points of the target domain back to the sources."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return _displaced(X, self.Xt_, self.result_.apply_transpose(self.Xs_), self.plan_.sum(axis=0))


def _displaced(X: Any, origin: Any, moments: Any, mass: Any) -> Any:
    """X plus the displacement, from point to barycentre, of the nearest origin that carries mass."""
    loaded = mass > 0
    displacement = moments[loaded] / mass[loaded, None] - origin[loaded]
    nearest = NearestNeighbors(n_neighbors=1).fit(origin[loaded]).kneighbors(X, return_distance=False)[:, 0]
    return X + displacement[nearest]


def _labels(name: str, labels: Any, size: int) -> Any:
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape != (size,):
        raise ValueError(f"{name} must have one label for each of the {size} samples, got shape {labels.shape}")
    return labels


class EntropicTransport(_PlanTransformer):
    """Transport with entropy alone.

    Parameters
    ----------
    entropy : float
        Weight of sum G log G, in the units of the cost.
    metric : str
        The cost, as `scipy.spatial.distance.cdist` names it.
    tol : float
        The certified gap to reach, over the scale of the objective; as in `transport.solve`.
    max_iter : int
    method : str
        As in `transport.solve`.
    time_limit : float, optional
        Seconds that the solver may take; at the limit `fit` ends with the plan it has, and warns.
    verbose : bool
        Show a live line on the terminal.

    Attributes
    ----------
    plan_ : array, shape (n, m)
    dual_gap_ : float
        The certified distance to the optimum.
    n_iter_ : int
    result_ : TransportResult
    """

    def __init__(
        self,
        entropy: float = 0.05,
        *,
        metric: str = "sqeuclidean",
        tol: float = 1e-6,
        max_iter: int = 1000,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.entropy = entropy
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose

    def _regularizers(self, Xs: Any, ys: Any, Xt: Any) -> Sequence[Regularizer]:
        return []


class LaplaceTransport(_PlanTransformer):
    """Transport with entropy and Laplacian: neighbours move alike.

    Parameters
    ----------
    entropy, metric, tol, max_iter, method, time_limit, verbose
        As in `EntropicTransport`.
    weight : float
        Weight of the Laplacian regulariser.
    neighbors : int
    normalized : bool
    source, target : float
        As in `transport.Laplacian`.
    """

    def __init__(
        self,
        entropy: float = 0.05,
        weight: float = 1.0,
        *,
        neighbors: int = 10,
        normalized: bool = True,
        source: float = 1.0,
        target: float = 1.0,
        metric: str = "sqeuclidean",
        tol: float = 1e-6,
        max_iter: int = 1000,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.entropy = entropy
        self.weight = weight
        self.neighbors = neighbors
        self.normalized = normalized
        self.source = source
        self.target = target
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose

    def _regularizers(self, Xs: Any, ys: Any, Xt: Any) -> Sequence[Regularizer]:
        return [
            Laplacian(
                Xs,
                Xt,
                weight=self.weight,
                neighbors=self.neighbors,
                normalized=self.normalized,
                source=self.source,
                target=self.target,
            )
        ]


class GroupTransport(_PlanTransformer):
    """Transport with entropy and class groups: a target should receive mass from one class of sources.

    Parameters
    ----------
    entropy, metric, tol, max_iter, method, time_limit, verbose
        As in `EntropicTransport`.
    weight : float
        Weight of the group regulariser; `fit` needs the classes `ys`.
    """

    def __init__(
        self,
        entropy: float = 0.05,
        weight: float = 0.1,
        *,
        metric: str = "sqeuclidean",
        tol: float = 1e-6,
        max_iter: int = 1000,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.entropy = entropy
        self.weight = weight
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose

    def _regularizers(self, Xs: Any, ys: Any, Xt: Any) -> Sequence[Regularizer]:
        if ys is None:
            raise ValueError("ys is needed: GroupTransport.fit(Xs, ys, Xt) groups the sources by their classes")
        return [GroupLasso(ys, weight=self.weight)]
