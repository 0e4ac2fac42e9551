"""Least squares under an l1 constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from condgrad.linear_model.base import LinearEstimator, RadiusFit
from condgrad.linear_model.blocks import block_by_block
from condgrad.linear_model.parameters import with_parameters
from condgrad.linear_model.solver import Fit
from condgrad.problem import Smooth
from condgrad.smooth import LeastSquares
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.row_blocks import RowBlocks


class LinearRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """One least-squares problem."""

    smooth_part: Callable[..., Any] = LeastSquares

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, y_numeric=True, **self._allowed())
        return X, y

    def _losses(
        self, X: Any, y: Any, weights: Any, offset: Any = None, unpenalised: Any = None
    ) -> Sequence[Smooth]:
        options = {"sample_weight": weights, "intercept": self.fit_intercept}
        if not isinstance(X, RowBlocks):
            return [self.smooth_part(X, y, offset=offset, unpenalised=unpenalised, **options)]
        if self.smooth_part is not LeastSquares:
            raise ValueError(f"{type(self).__name__} needs data in memory, not blocks of Dask")
        return [BlockwiseLoss(self.smooth_part, X, y, **options)]

    def _absorb(self, fits: Sequence[Fit]) -> None:
        (fit,) = fits
        self.coef_ = fit.coef
        self.intercept_ = fit.intercept
        self.n_iter_ = fit.iterations
        self.objective_ = fit.value
        self.dual_gap_ = fit.gap
        self.relative_gap_ = fit.relative_gap
        self.multiplier_ = fit.multiplier

    @block_by_block
    def predict(self, X: Any, offset: Any = None) -> Any:
        """X coef + intercept, plus the offset if there is one."""
        return self._means(np.ravel(self._scores(X, offset)))

    def _means(self, scores: Any) -> Any:
        """What is predicted from scores: for least squares, these."""
        return scores

    def _dense_coef(self) -> Any:
        return np.ravel(super()._dense_coef())

    def _default_score(self, margins: Any, y: Any, weights: Any) -> float:
        """Minus the mean squared error."""
        return -float(np.average((y - np.ravel(margins)) ** 2, weights=weights))


@with_parameters
class ConstrainedElasticNet(RadiusFit, LinearRegressor):
    """Minimise 1/2 sum_i w_i (y_i - x_i.coef - intercept)^2 + ridge |coef|_2^2 subject to |coef|_1
    <= radius.

    Every fit has a proof: the objective is at most `dual_gap_` above its minimum. With a ridge, the
    coefficients are within sqrt(dual_gap_ / ridge) of the best ones. The intercept has no penalty.
    The first fits on a machine use projected gradients, while kernels are compiled in the
    background for about half a minute.

    Parameters
    ----------
    radius : float
        The bound on |coef|_1; at least 0.
    ridge : float
        The weight of |coef|_2^2; at least 0. The penalty of `sklearn.linear_model.Ridge(alpha=1)`
        is 0.5. With 0 this is the lasso in its constrained form.
    fit_intercept : bool
    standardize : bool
        Measure each coefficient in units of its feature, as glmnet does by default: both norms are
        of coef * deviation. The deviation is the (weighted) standard deviation of the feature, or 1
        if this is 0. `coef_` is in the units of X.
    penalty_factors : array, shape (features,), optional
        A factor >= 0 for each coefficient in both norms, in addition to `standardize`: sum_j
        factor_j |coef_j| <= radius, and ridge sum_j (factor_j coef_j)^2. A feature with factor 2
        enters the model only if the loss falls twice as steeply along it. A feature with factor 0
        has no penalty and is always in the model. If it is a combination of other features with
        factor 0, its coefficient is 0, with a warning. A factor of 0 does not work with Dask's data
        or `positive`.
    impute : {"median", "mean"}, optional
        Replace a missing entry (NaN) of X by the median or the mean of its feature in the samples
        of the fit. In a search, each fold uses its own training samples. `predict` uses the same
        numbers as the fit. By default a missing entry is an error. Not for Dask's data.
    positive : bool
        Allow no negative coefficients.
    groups : sequence, optional
        A label for each feature, such as its gene, or the variable that it encodes. Features with
        the same label are a group. Then the sum of the Euclidean norms of the groups replaces
        |coef|_1, and whole groups are 0.
    tol : float
        Stop at `relative_gap_ <= tol`. In float32 the smallest tolerance is 1.2e-5, because
        rounding allows no better proof.
    max_iter : int
        The largest number of iterations of one fit, for every method. A step of Newton's method is
        one iteration.
    warm_start : bool
        Start from the last coefficients.
    method : str
        As in `condgrad.minimize`.
    time_limit : float, optional
        Limit for `fit` in seconds. At the limit, `fit` keeps its best solution so far, and warns.
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
        An upper bound on the distance of the objective from its minimum.
    relative_gap_ : float
        `dual_gap_` divided by `objective_`, or by a hundredth of the objective of the null model
        (all coefficients 0), whichever is larger.
    radius_ : float
        The radius.
    multiplier_ : float
        The equivalent penalty mu: the same coefficients minimise 1/2 sum_i w_i (..)^2 + ridge
        |coef|_2^2 + mu |coef|_1 without a constraint (in the norm of `standardize` and
        `penalty_factors`). It is exactly 0 if the constraint is not active.
    fill_values_ : array, shape (features,)
        What replaces missing entries, if `impute` is given.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    With n samples and no weights, `sklearn.linear_model.ElasticNet(alpha, l1_ratio)` has the same
    solution if `alpha * l1_ratio = multiplier_ / n` and `alpha * (1 - l1_ratio) = 2 * ridge / n`.
    glmnet has the same solution if `lambda * alpha = multiplier_ / n` and `lambda * (1 - alpha) = 2
    * ridge * s / n`, because it divides y by its standard deviation s (computed with 1/n).
    `standardize` means the same in both. (glmnet scales its penalty factors to a mean of 1. In its
    ridge a factor is not squared; here it is.)

    Examples
    --------
    >>> from condgrad.linear_model import ConstrainedElasticNet
    >>> model = ConstrainedElasticNet(radius=1.0, ridge=0.5).fit([[0.0], [1.0], [2.0]], [1.0, 4.0, 7.0])
    >>> model.coef_.round(3), round(model.intercept_, 3), round(model.multiplier_, 3)
    (array([1.]), 3.0, 3.0)
    """
