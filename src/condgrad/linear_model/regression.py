"""Least squares under an l1 constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from condgrad.linear_model.base import LinearEstimator, RadiusFit
from condgrad.linear_model.blocks import block_by_block, require_in_memory
from condgrad.linear_model.parameters import with_parameters
from condgrad.linear_model.solver import Fit
from condgrad.smooth import LeastSquares
from condgrad.smooth.composite import LossOfMatrix


class LinearRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """One least-squares problem."""

    smooth_part: Callable[..., Any] = LeastSquares

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = self._validated(X, y, y_numeric=True)
        return X, y

    def _losses(
        self, X: Any, y: Any, weights: Any, offset: Any = None, unpenalised: Any = None
    ) -> Sequence[LossOfMatrix]:
        if self.smooth_part is not LeastSquares:
            require_in_memory(X, f"{type(self).__name__} needs")
        options = {"sample_weight": weights, "intercept": self.fit_intercept}
        return [self.smooth_part(X, y, offset=offset, unpenalised=unpenalised, **options)]

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
        """The predicted mean of each sample.

        It is X coef + intercept, plus the offset if there is one. For Poisson's and the gamma loss,
        it is exp of this sum.
        """
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
    """Least squares with a bound on |coef|_1 and a ridge, with a proof.

    It minimises 1/2 sum_i w_i (y_i - x_i.coef - intercept)^2 + ridge |coef|_2^2 subject to |coef|_1
    <= radius. Here w_i are the sample weights.

    Every fit has a proof: the objective is at most `dual_gap_` above its minimum. With ridge > 0,
    the coefficients are within sqrt(dual_gap_ / ridge) of the best ones. The intercept has no
    penalty. On a new machine, fast code is compiled in the background for about half a minute.
    Until then, fits use projected gradients, which are slower.

    Parameters
    ----------
    radius : float, default 1.0
        The bound on |coef|_1; at least 0.
    ridge : float, default 0.5
        The weight of |coef|_2^2; at least 0. `sklearn.linear_model.Ridge(alpha=1)` has the same
        penalty as `ridge=0.5`. `ridge=0` gives the lasso, with a constraint instead of a penalty.
    fit_intercept : bool, default True
        Fit an intercept. Without it, the intercept is 0.
    standardize : bool, default False
        In |coef|_1 and |coef|_2, multiply coef_j by the (weighted) standard deviation of feature j,
        or by 1 if this is 0. Then the units of the features do not matter. glmnet does so by
        default. `coef_` is in the units of X.
    penalty_factors : array, shape (features,), optional
        One factor >= 0 for each feature; by default all are 1. The constraint is sum_j factor_j
        |coef_j| <= radius, and the penalty is ridge sum_j (factor_j coef_j)^2. With `standardize`,
        the factors are multiplied by the deviations. A larger factor makes it harder for a feature
        to enter the model. A feature with factor 0 has no penalty, so it is always in the model. If
        such a feature is a combination of other such features, its coefficient is 0, and a warning
        says so. A factor of 0 does not work with data of Dask or with `positive`.
    impute : {"median", "mean"}, optional
        Replace each missing entry (NaN) of X by the median or the mean of its feature. This number
        is computed from the samples of the fit, and `predict` uses it too. In a search, each fold
        uses its own training samples. By default a missing entry is an error. Not for data of Dask.
    positive : bool, default False
        Allow no negative coefficients.
    groups : sequence, optional
        One label for each feature, such as the name of its gene. Features with the same label form
        a group. Then `radius` bounds the sum of the Euclidean norms of the groups, instead of
        |coef|_1. So whole groups enter and leave the model together.
    tol : float, default 1e-6
        Stop at `relative_gap_ <= tol`. For float32 data a smaller tol than 1.2e-5 counts as 1.2e-5,
        because rounding allows no better proof.
    max_iter : int, default 10_000
        The largest number of iterations of one fit. A step of Newton's method is one iteration.
    warm_start : bool, default False
        Start from the coefficients of the previous `fit`.
    method : str, default "auto"
        The algorithm, by its name in `condgrad.minimize`. "auto" takes the fastest that fits.
    time_limit : float, optional
        Limit for `fit` in seconds. At the limit, `fit` keeps its best solution so far, and warns.
    verbose : bool, default False
        Show progress on the terminal, in one line.

    Attributes
    ----------
    coef_ : array, shape (features,)
        The coefficients.
    intercept_ : float
        The intercept.
    n_iter_ : int
        The number of iterations.
    objective_ : float
        The value of the objective at the solution.
    dual_gap_ : float
        The objective is at most this far above its minimum.
    relative_gap_ : float
        `dual_gap_ / max(objective_, null / 100)`. Here null is the objective if all coefficients
        are 0.
    radius_ : float
        The bound `radius`.
    multiplier_ : float
        The penalty mu that has the same effect as the constraint: the same coefficients minimise
        1/2 sum_i w_i (..)^2 + ridge |coef|_2^2 + mu |coef|_1 without a constraint. Both norms are
        those that `standardize` and `penalty_factors` define. mu is exactly 0 if the constraint is
        not active.
    fill_values_ : array, shape (features,)
        The number that replaces a missing entry of each feature. Only with `impute`.
    n_features_in_, feature_names_in_
        The number of features, and their names if X is a DataFrame.

    Notes
    -----
    How to get the same solution elsewhere, with n samples and no weights:

    - `sklearn.linear_model.ElasticNet(alpha, l1_ratio)` with `alpha * l1_ratio = multiplier_ / n`
      and `alpha * (1 - l1_ratio) = 2 * ridge / n`.
    - glmnet with `lambda * alpha = multiplier_ / n` and `lambda * (1 - alpha) = 2 * ridge * s / n`.
      Here s is the standard deviation of y (computed with 1/n), because glmnet divides y by s.
      `standardize` means the same in both. glmnet scales its penalty factors to a mean of 1, and
      does not square them in the ridge.

    Examples
    --------
    >>> from condgrad.linear_model import ConstrainedElasticNet
    >>> model = ConstrainedElasticNet(radius=1.0, ridge=0.5).fit([[0.0], [1.0], [2.0]], [1.0, 4.0, 7.0])
    >>> model.coef_.round(3), round(model.intercept_, 3), round(model.multiplier_, 3)
    (array([1.]), 3.0, 3.0)
    """
