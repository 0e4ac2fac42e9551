"""Penalised regression with Poisson, gamma and Huber losses, with scikit-learn's names and units."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import xlogy

from condgrad import _checks
from condgrad.linear_model.base import SingleFit
from condgrad.linear_model.parameters import with_parameters
from condgrad.linear_model.penalised import PenaltyOfMean
from condgrad.linear_model.penalty_search import SearchedAlphas
from condgrad.linear_model.regression import LinearRegressor
from condgrad.linear_model.solver import Size, Task
from condgrad.smooth import Gamma, Huber, Poisson


class LogRegressor(LinearRegressor):
    """The mean is exp(score), and the loss is a deviance."""

    def _half_deviances(self, scores: Any, y: Any) -> Any:
        """Half of the deviance of each sample."""
        raise NotImplementedError

    def _means(self, scores: Any) -> Any:
        return np.exp(scores)

    def _default_score(self, margins: Any, y: Any, weights: Any) -> float:
        """Minus the mean half-deviance."""
        with np.errstate(over="ignore"):  # of scores far off, which lose
            return -float(np.average(self._half_deviances(np.ravel(margins), y), weights=weights))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of the deviance that the model explains, as in scikit-learn.

        It is 1 - deviance / null deviance. The null model predicts the mean of y for all samples.
        """
        y = np.asarray(y, dtype=np.float64)
        mean = np.log(np.average(y, weights=sample_weight))
        null = self._default_score(np.full(len(y), mean), y, sample_weight)
        return 1.0 - self._default_score(self._scores(X, offset), y, sample_weight) / null

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class CountRegressor(LogRegressor):
    """Poisson's deviance."""

    smooth_part = Poisson

    def _half_deviances(self, scores: Any, y: Any) -> Any:
        return np.exp(scores) - y + xlogy(y, y) - y * scores


class AmountRegressor(LogRegressor):
    """The gamma deviance."""

    smooth_part = Gamma

    def _half_deviances(self, scores: Any, y: Any) -> Any:
        return np.expm1(np.log(y) - scores) - np.log(y) + scores


class RobustRegressor(LinearRegressor):
    """Huber's loss."""

    delta: float

    @property
    def smooth_part(self) -> Callable[..., Any]:  # type: ignore[override]
        """Huber's loss with the `delta` of the model."""
        return partial(Huber, delta=_checks.number("delta", self.delta, above=0.0))

    def _default_score(self, margins: Any, y: Any, weights: Any) -> float:
        """Minus the mean loss."""
        sizes = np.abs(np.ravel(margins) - y)
        cut = np.minimum(sizes, self.delta)
        return -float(np.average(cut * (sizes - 0.5 * cut), weights=weights))


@with_parameters
class SinglePenalty(SingleFit, PenaltyOfMean):
    """The parameters of a fit for one alpha and one l1_ratio."""

    alpha: float = 1.0
    l1_ratio: float = 0.0

    def _size(self, task: Task) -> Size:
        return self._penalised(self.alpha, self.l1_ratio, task)


@with_parameters
class PoissonRegressor(SinglePenalty, CountRegressor):
    """Poisson regression of counts with a penalty, with a proof.

    It minimises the mean half-deviance + alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2).
    The half-deviance of a sample is mu - y + y log(y / mu) with mu = exp(x.coef + intercept +
    offset). With l1_ratio=0 this is `sklearn.linear_model.PoissonRegressor`, with a certificate.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty, above 0.
    l1_ratio : float, default 0.0
        The share of |coef|_1 in the penalty, from 0 to 1.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.
    solver : object
        Accepted for programs that use scikit-learn. It has no effect.

    Attributes
    ----------
    coef_, sparse_coef_, intercept_, n_iter_
        As in `Lasso`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        As in `Lasso`.

    Notes
    -----
    Often each count has its own exposure, such as a number of years. Then call `fit(X, counts,
    offset=np.log(exposure))`. `predict(X, offset=np.log(exposure))` gives counts for these
    exposures. `predict(X)` gives counts per unit of exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import PoissonRegressor
    >>> X, counts, years = [[0.0], [1.0], [2.0], [3.0]], [2, 4, 16, 16], [1.0, 1.0, 2.0, 1.0]
    >>> model = PoissonRegressor(alpha=1e-3).fit(X, counts, offset=np.log(years))
    >>> model.predict([[1.0]]).round(1), model.predict([[1.0]], offset=np.log([2.0])).round(1)
    (array([4.]), array([8.]))
    """

    solver: str = "lbfgs"


@with_parameters
class GammaRegressor(SinglePenalty, AmountRegressor):
    """Gamma regression of positive amounts with a penalty, with a proof.

    It minimises the mean half-deviance + alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2).
    The half-deviance of a sample is y / mu - 1 - log(y / mu) with mu = exp(x.coef + intercept +
    offset). With l1_ratio=0 this is `sklearn.linear_model.GammaRegressor`, with a certificate.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty, above 0.
    l1_ratio : float, default 0.0
        The share of |coef|_1 in the penalty, from 0 to 1.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.
    solver : object
        Accepted for programs that use scikit-learn. It has no effect.

    Attributes
    ----------
    coef_, sparse_coef_, intercept_, n_iter_
        As in `Lasso`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        As in `Lasso`.

    Examples
    --------
    >>> from condgrad.linear_model import GammaRegressor
    >>> model = GammaRegressor(alpha=1e-3).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    >>> model.predict([[1.0]]).round(2)
    array([2.])
    """

    solver: str = "lbfgs"


@with_parameters
class HuberRegressor(SinglePenalty, RobustRegressor):
    """Robust regression with Huber's loss and a penalty, with a proof.

    It minimises the mean loss + alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2). The loss
    of a residual r is r^2/2 if |r| <= delta, and delta (|r| - delta/2) otherwise. So outliers have
    less influence than in least squares.

    Parameters
    ----------
    delta : float, default 1.35
        The loss of residuals above delta is linear, not quadratic. Above 0, in the unit of y.
    alpha : float, default 1e-4
        The strength of the penalty, above 0.
    l1_ratio : float, default 0.0
        The share of |coef|_1 in the penalty, from 0 to 1.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.

    Attributes
    ----------
    coef_, sparse_coef_, intercept_, n_iter_
        As in `Lasso`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        As in `Lasso`.

    Notes
    -----
    `sklearn.linear_model.HuberRegressor` also estimates a scale. To get the same solution here, set
    `delta` to its `epsilon * scale_`, and `alpha` to its `alpha * scale_ / n_samples`.

    Examples
    --------
    >>> from condgrad.linear_model import HuberRegressor
    >>> model = HuberRegressor(delta=0.5).fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.0, 2.0, 3.0, 40.0])
    >>> model.coef_.round(1)  # one sample is far off
    array([1.2])
    """

    alpha: float = 1e-4
    delta: float = 1.35


@with_parameters
class SearchedPenalty(SearchedAlphas):
    """A search over alphas and ratios."""

    l1_ratio: Any = 0.5


@with_parameters
class PoissonRegressorCV(SearchedPenalty, CountRegressor):
    """`PoissonRegressor` with alpha and l1_ratio chosen by cross-validation.

    Parameters
    ----------
    l1_ratio, eps, alphas, n_alphas, selection
        As in `ElasticNetCV`.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    scoring : str or callable, optional
        The score by which the fits are compared; greater is better. By default minus the mean
        half-deviance.
    cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`.

    Attributes
    ----------
    alpha_, l1_ratio_, alpha_best_, alpha_1se_, alphas_, scores_, cv_results_
        As in `ElasticNetCV`.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import PoissonRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 10))
    >>> model = PoissonRegressorCV(alphas=10, cv=3).fit(X, rng.poisson(np.exp(X[:, 0])))
    >>> int(np.argmax(np.abs(model.coef_)))
    0
    """

    default_scoring = "neg_mean_poisson_deviance"


@with_parameters
class GammaRegressorCV(SearchedPenalty, AmountRegressor):
    """`GammaRegressor` with alpha and l1_ratio chosen by cross-validation.

    Parameters
    ----------
    l1_ratio, eps, alphas, n_alphas, selection
        As in `ElasticNetCV`.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    scoring : str or callable, optional
        The score by which the fits are compared; greater is better. By default minus the mean
        half-deviance.
    cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`.

    Attributes
    ----------
    alpha_, l1_ratio_, alpha_best_, alpha_1se_, alphas_, scores_, cv_results_
        As in `ElasticNetCV`.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import GammaRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 10))
    >>> model = GammaRegressorCV(alphas=10, cv=3).fit(X, np.exp(X[:, 0]) * rng.gamma(2.0, 0.5, 60))
    >>> int(np.argmax(np.abs(model.coef_)))
    0
    """

    default_scoring = "neg_mean_gamma_deviance"


@with_parameters
class HuberRegressorCV(SearchedPenalty, RobustRegressor):
    """`HuberRegressor` with alpha and l1_ratio chosen by cross-validation.

    Parameters
    ----------
    delta : float, default 1.35
        As in `HuberRegressor`.
    l1_ratio, eps, alphas, n_alphas, selection
        As in `ElasticNetCV`.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    scoring : str or callable, optional
        The score by which the fits are compared; greater is better. By default minus the mean
        loss.
    cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`.

    Attributes
    ----------
    alpha_, l1_ratio_, alpha_best_, alpha_1se_, alphas_, scores_, cv_results_
        As in `ElasticNetCV`.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import HuberRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 10))
    >>> model = HuberRegressorCV(alphas=10, cv=3).fit(X, X[:, 0] + rng.standard_t(2, 60))
    >>> int(np.argmax(np.abs(model.coef_)))
    0
    """

    default_scoring = "neg_mean_absolute_error"

    delta: float = 1.35
