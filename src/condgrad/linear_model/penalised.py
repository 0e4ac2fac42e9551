"""Linear models with a penalty: scikit-learn's names, parameters and units, and a proof for each
fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.linear_model.base import LinearEstimator, SingleFit
from condgrad.linear_model.classification import HingeClassifier, LogisticClassifier
from condgrad.linear_model.parameters import OfCoordinateDescent, OfLiblinear, with_parameters
from condgrad.linear_model.regression import LinearRegressor
from condgrad.linear_model.solver import Fit, Size, Task


class PenalisedEstimator(LinearEstimator):
    """A penalty of |coef|_1 and |coef|_2^2 in place of a radius."""

    groups = None

    multiplier_: Any
    radius_: Any

    def _tell_sizes(self, fits: Sequence[Fit]) -> None:
        """Set `radius_` and `ridge_`: the constrained model with these numbers has the same
        solution. The radius is the norm of the solution.
        """
        is_number = np.ndim(self.multiplier_) == 0
        self.radius_ = fits[0].radius if is_number else np.array([fit.radius for fit in fits])
        self.ridge_ = fits[0].ridge

    @property
    def sparse_coef_(self) -> Any:
        """`coef_` as a SciPy sparse matrix."""
        return scipy.sparse.csr_matrix(self.coef_)


class PenaltyOfMean(PenalisedEstimator):
    """mean loss + alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2)."""

    def _penalised(self, alpha: float, l1_ratio: float, task: Task) -> Size:
        return penalty_of_mean(alpha, l1_ratio, task)

    def _factor(self, task: Task) -> float:
        return 1.0 / task.loss.mass


class PenaltyOfSum(PenalisedEstimator):
    """C (sum of losses) + l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2."""

    def _penalised(self, C: float, l1_ratio: float, task: Task) -> Size:
        """The penalty after the objective is divided by C."""
        C = _checks.number("C", C, above=0.0)
        share = checked_ratio(l1_ratio)
        return Size(0.5 * (1.0 - share) / C, l1=share / C)

    def _factor(self, task: Task) -> float:
        return float(getattr(self, "C_", None) or self.C)


def penalty_of_mean(alpha: float, l1_ratio: float, task: Task) -> Size:
    """The penalty alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2) of a mean loss, times the
    total weight: so it belongs to the sum of the losses.
    """
    mass = _checks.number("alpha", alpha, above=0.0) * task.loss.mass
    share = checked_ratio(l1_ratio)
    return Size(0.5 * (1.0 - share) * mass, l1=share * mass)


def checked_ratio(l1_ratio: Any) -> float:
    """The share of |coef|_1 in a penalty. As in scikit-learn, None means 0."""
    share = _checks.number("l1_ratio", 0.0 if l1_ratio is None else l1_ratio, at_least=0.0)
    if share > 1.0:
        raise ValueError(f"l1_ratio must be from 0 to 1, got {l1_ratio!r}")
    return share


@with_parameters
class Lasso(OfCoordinateDescent, SingleFit, PenaltyOfMean, LinearRegressor):
    """The lasso: `sklearn.linear_model.Lasso`, with a proof.

    It minimises (1/(2n)) sum_i (y_i - x_i.coef - intercept)^2 + alpha |coef|_1. The objective is at
    most `dual_gap_` above its minimum. With sample weights, the mean is weighted, as in
    scikit-learn.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty, above 0. (`ConstrainedElasticNet` has a bound on |coef|_1
        instead.)
    fit_intercept : bool, default True
        Fit an intercept, which has no penalty.
    positive : bool, default False
        Allow no negative coefficients.
    standardize : bool, default False
        In the penalty, multiply each coefficient by the standard deviation of its feature. `coef_`
        is in the units of X.
    penalty_factors : array, shape (features,), optional
        One factor >= 0 for each feature; by default all are 1. In the penalty, each coefficient is
        multiplied by its factor. A feature with factor 0 has no penalty. `ConstrainedElasticNet`
        has the details.
    impute : {"median", "mean"}, optional
        Replace each missing entry (NaN) of X by the median or the mean of its feature. By default a
        missing entry is an error.
    tol : float, default 1e-6
        Stop at `relative_gap_ <= tol`. The default is more exact than scikit-learn's 1e-4.
    max_iter : int, default 10_000
        The largest number of iterations of one fit.
    warm_start : bool, default False
        Start from the coefficients of the previous `fit`.
    method : str, default "auto"
        The algorithm, by its name in `condgrad.minimize`. "auto" takes the fastest that fits.
    time_limit : float, optional
        Limit for `fit` in seconds. At the limit, `fit` keeps its best solution so far, and warns.
    verbose : bool, default False
        Show progress on the terminal, in one line.
    precompute, copy_X, random_state, selection
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    coef_ : array, shape (features,)
        The coefficients.
    sparse_coef_ : SciPy sparse matrix, shape (1, features)
        The coefficients, without zeros.
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
        |coef|_1 of the solution. `ConstrainedElasticNet(radius_, ridge_)` has the same solution.
    multiplier_, ridge_ : float
        The weights of the two penalties if the loss is a sum over the samples, not a mean: the same
        solution minimises loss + multiplier_ |coef|_1 + ridge_ |coef|_2^2.

    Examples
    --------
    >>> from condgrad.linear_model import Lasso
    >>> model = Lasso(alpha=0.1).fit([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [0.0, 1.0, 2.0])
    >>> round(float(model.coef_.sum()), 3), round(model.intercept_, 3), model.relative_gap_ <= 1e-6
    (0.85, 0.15, True)
    """

    alpha: float = field(default=1.0, kw_only=False)
    selection: str = "cyclic"

    def _size(self, task: Task) -> Size:
        return self._penalised(self.alpha, 1.0, task)


@with_parameters
class ElasticNet(OfCoordinateDescent, SingleFit, PenaltyOfMean, LinearRegressor):
    """The elastic net: `sklearn.linear_model.ElasticNet`, with a proof.

    It minimises (1/(2n)) sum_i (y_i - x_i.coef - intercept)^2 + alpha (l1_ratio |coef|_1 + (1 -
    l1_ratio)/2 |coef|_2^2). The objective is at most `dual_gap_` above its minimum.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty, above 0.
    l1_ratio : float, default 0.5
        The share of |coef|_1 in the penalty, from 0 (ridge regression) to 1 (the lasso).
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.
    precompute, copy_X, random_state, selection
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    coef_, sparse_coef_, intercept_, n_iter_
        As in `Lasso`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        As in `Lasso`.

    Examples
    --------
    >>> from condgrad.linear_model import ElasticNet
    >>> model = ElasticNet(alpha=0.1, l1_ratio=0.5).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.coef_.round(3), round(model.radius_, 3)
    (array([0.86]), 0.86)
    """

    alpha: float = field(default=1.0, kw_only=False)
    l1_ratio: float = 0.5
    selection: str = "cyclic"

    def _size(self, task: Task) -> Size:
        return self._penalised(self.alpha, self.l1_ratio, task)


@with_parameters
class LogisticRegression(OfLiblinear, SingleFit, PenaltyOfSum, LogisticClassifier):
    """Logistic regression: `sklearn.linear_model.LogisticRegression`, with a proof.

    It minimises C sum_i w_i log(1 + exp(-y_i (x_i.coef + intercept))) + l1_ratio |coef|_1 + (1 -
    l1_ratio)/2 |coef|_2^2. Here w_i are the sample weights, and y_i is -1 or +1 for the two
    classes. The intercept has no penalty. The objective is at most `dual_gap_` above its minimum.

    Parameters
    ----------
    penalty : {"deprecated", "l1", "l2", "elasticnet"}, default "deprecated"
        For programs that were written for scikit-learn before version 1.8. "l1" means `l1_ratio=1`,
        "l2" means `l1_ratio=0`, and the others leave `l1_ratio` as it is.
    C : float, default 1.0
        The weight of the loss, above 0. A smaller C is a stronger penalty.
    l1_ratio : float, default 0.0
        The share of |coef|_1 in the penalty, from 0 to 1.
    fit_intercept : bool, default True
        Fit an intercept, which has no penalty.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply `sample_weight`. "balanced" gives all classes the same
        total weight. By default all weights are 1.
    multi_class : {"multinomial", "ovr"}, default "multinomial"
        For three classes or more. "multinomial" is one softmax loss, as in scikit-learn. "ovr" fits
        each class against the rest.
    positive, standardize, penalty_factors, impute
        As in `Lasso`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.
    dual, intercept_scaling, random_state, solver, n_jobs
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    coef_ : array, shape (1, features) for two classes, otherwise (classes, features)
        The coefficients.
    intercept_ : array
        One intercept for each row of `coef_`.
    n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_ : array
        As in `Lasso`. "ovr" with three classes or more has one entry for each class; otherwise
        there is one entry.
    ridge_ : float
        As in `Lasso`.

    Examples
    --------
    >>> from condgrad.linear_model import LogisticRegression
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], ["no", "no", "yes", "yes"]
    >>> model = LogisticRegression(C=1.0, l1_ratio=1.0).fit(X, y)
    >>> model.predict([[2.5, 0.5]]), bool(model.relative_gap_[0] <= 1e-6)
    (array(['yes'], dtype='<U3'), True)
    """

    penalty: str = field(default="deprecated", kw_only=False)
    C: float = 1.0
    l1_ratio: float | None = 0.0
    multi_class: str = "multinomial"
    solver: str = "lbfgs"
    n_jobs: int | None = None

    def _size(self, task: Task) -> Size:
        return self._penalised(self.C, ratio_of(self.penalty, self.l1_ratio), task)


@with_parameters
class LinearSVC(OfLiblinear, SingleFit, PenaltyOfSum, HingeClassifier):
    """Linear support vector machine: `sklearn.svm.LinearSVC`, with a proof.

    It minimises C sum_i w_i max(0, 1 - y_i (x_i.coef + intercept))^2 + penalty. Here w_i are the
    sample weights, and y_i is -1 or +1 for the two classes. In contrast to scikit-learn, the
    intercept has no penalty. With three classes or more, each class is fitted against the rest.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default "l2"
        The penalty |coef|_2^2 / 2, or |coef|_1, or l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|_2^2.
    loss : {"squared_hinge"}
        Only the squared hinge, because the hinge is not smooth.
    C : float, default 1.0
        The weight of the loss, above 0. A smaller C is a stronger penalty.
    l1_ratio : float, default 0.5
        The share of |coef|_1 in the penalty "elasticnet".
    fit_intercept, class_weight, positive, standardize, penalty_factors, impute
        As in `LogisticRegression`.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `Lasso`.
    dual, multi_class, intercept_scaling, random_state
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_
        As in `LogisticRegression`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        As in `LogisticRegression`.

    Examples
    --------
    >>> from condgrad.linear_model import LinearSVC
    >>> LinearSVC().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]).predict([[2.0], [3.0]])
    array([0, 1])
    """

    penalty: str = field(default="l2", kw_only=False)
    loss: str = field(default="squared_hinge", kw_only=False)
    C: float = 1.0
    l1_ratio: float = 0.5
    dual: Any = "auto"
    multi_class: str = "ovr"

    def _check_flags(self) -> None:
        super()._check_flags()
        if self.loss != "squared_hinge":
            raise ValueError(
                f"loss must be 'squared_hinge', got {self.loss!r}: the hinge is not smooth"
            )

    def _size(self, task: Task) -> Size:
        return self._penalised(self.C, ratio_of(self.penalty, self.l1_ratio), task)


def ratio_of(penalty: Any, l1_ratio: Any) -> Any:
    """The share of |coef|_1 that a value of scikit-learn's old parameter `penalty` stands for."""
    ratios = {"l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio, "deprecated": l1_ratio}
    if not isinstance(penalty, str) or penalty not in ratios:
        advice = ": for next to no penalty, give a large C" if penalty is None else ""
        raise ValueError(f"penalty must be 'l1', 'l2' or 'elasticnet', got {penalty!r}{advice}")
    return ratios[penalty]
