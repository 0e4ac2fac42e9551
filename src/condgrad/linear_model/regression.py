"""Least squares under an l1 constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from condgrad.linear_model.base import FORMATS, PRECISIONS, LinearEstimator, SingleFit
from condgrad.linear_model.solver import Fit
from condgrad.smooth import LeastSquares
from condgrad.smooth.composite import Composite


class LinearRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """One least-squares problem."""

    loss = LeastSquares

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, accept_sparse=FORMATS, dtype=PRECISIONS, y_numeric=True)
        return X, y

    def _tasks(self, X: Any, y: Any, weights: Any) -> list[Composite]:
        return [self.loss(X, y, sample_weight=weights, intercept=self.fit_intercept)]

    def _absorb(self, fits: Sequence[Fit]) -> None:
        (fit,) = fits
        self.coef_, self.intercept_ = fit.coef, fit.intercept
        self.n_iter_, self.objective_ = fit.iterations, fit.value
        self.dual_gap_, self.relative_gap_ = fit.gap, fit.relative_gap
        self.multiplier_ = fit.multiplier

    def predict(self, X: Any) -> Any:
        """X coef + intercept."""
        return self._scores(X)


class ConstrainedElasticNet(SingleFit, LinearRegressor):
    """Minimise 1/2 sum_i w_i (y_i - x_i.coef - intercept)^2 + ridge |coef|_2^2 subject to |coef|_1 <= radius.

    Every fit carries a proof: `dual_gap_` bounds its distance to the optimum, and the coefficients are within
    sqrt(dual_gap_ / ridge) of the best ones. The intercept is not penalised.

    Parameters
    ----------
    radius : float
        The bound on |coef|_1; at least 0.
    ridge : float
        The weight of |coef|_2^2; above 0. 0.5 is `sklearn.linear_model.Ridge(alpha=1)`; the lasso in its constrained
        form is a small ridge such as 1e-8.
    fit_intercept : bool
    tol : float
        Stop at `relative_gap_ <= tol`. In float32 nothing below 1.2e-5 is asked for: rounding leaves no better proof.
    max_iter : int
    warm_start : bool
        Start from the last coefficients.
    method : str
        As in `condgrad.minimize`.
    time_limit : float, optional
        Seconds that `fit` may take; at the limit it ends with what it has, and warns.
    verbose : bool
        Show a live line on the terminal.

    Attributes
    ----------
    coef_ : array, shape (features,)
    intercept_ : float
    n_iter_ : int
    objective_ : float
        The value of the objective at the solution.
    dual_gap_ : float
        What the objective may be above its minimum, at most.
    relative_gap_ : float
        `dual_gap_` over the objective of the null model, in which all coefficients are 0, or over `objective_` where
        that is larger.
    multiplier_ : float
        The penalty mu for which the same coefficients minimise 1/2 sum_i w_i (..)^2 + ridge |coef|_2^2 + mu |coef|_1
        without a constraint; exactly 0 where the constraint is idle.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    With n samples and no weights, `sklearn.linear_model.ElasticNet(alpha, l1_ratio)` has the same solution where
    `alpha * l1_ratio = multiplier_ / n` and `alpha * (1 - l1_ratio) = 2 * ridge / n`. So has glmnet with
    `standardize=FALSE`, whose `lambda` is that alpha and whose `alpha` is that l1_ratio.

    Examples
    --------
    >>> from condgrad.linear_model import ConstrainedElasticNet
    >>> model = ConstrainedElasticNet(radius=1.0, ridge=0.5).fit([[0.0], [1.0], [2.0]], [1.0, 4.0, 7.0])
    >>> model.coef_.round(3), round(model.intercept_, 3), round(model.multiplier_, 3)
    (array([1.]), 3.0, 3.0)
    """

    def __init__(
        self,
        radius: float = 1.0,
        ridge: float = 0.5,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        warm_start: bool = False,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.radius = radius
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose
