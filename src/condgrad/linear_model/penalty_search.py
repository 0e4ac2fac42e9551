"""Choose the strength of a penalty by cross-validation, along paths that begin at coef = 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.linear_model.classification import HingeClassifier, LogisticClassifier
from condgrad.linear_model.cross_validation import SELECTIONS, Searched
from condgrad.linear_model.parameters import (
    GridOfAlphas,
    GridOfCs,
    OfCoordinateDescent,
    OfLiblinear,
    with_parameters,
)
from condgrad.linear_model.penalised import PenaltyOfMean, PenaltyOfSum, checked_ratio
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.regression import LinearRegressor
from condgrad.linear_model.solver import Size, Solver, Task, largest_penalty

LEAST_RATIO = 1e-3
"""A smaller l1_ratio uses the grid of alphas for this one, as in glmnet. With l1_ratio = 0 no
penalty makes all coefficients 0, so the grid would have no largest alpha.
"""


def penalty_grid(
    tasks: Sequence[Task],
    *,
    l1_ratio: float,
    eps: float,
    n_alphas: int,
    positive: bool,
) -> Any:
    """glmnet's grid: geometric, from the strength at which the first coefficient leaves 0 down to
    eps times it.

    If no coefficient ever leaves 0, the grid begins at 1.
    """
    eps = _checks.number("eps", eps, above=0.0)
    n_alphas = _checks.whole("n_alphas", n_alphas, at_least=1)
    # of the loss that paths take: rounding would let a coefficient leave 0 at the first strength
    tops = [
        largest_penalty(task.triangle.loss if task.triangle else task.loss, positive=positive)
        / task.loss.mass
        for task in tasks
    ]
    top = max(tops) / max(checked_ratio(l1_ratio), LEAST_RATIO) or 1.0
    return top * np.geomspace(1.0, eps, n_alphas) if n_alphas > 1 else np.array([top])


class PenaltySearched(Searched):
    """A fit whose penalty strength and `l1_ratio` are chosen by scores on held-out samples."""

    strength: str
    """The name of the parameter that changes along a path."""

    def _ratios(self) -> Any:
        """The values of l1_ratio to try, one for each path."""
        raise NotImplementedError

    def _strengths(self) -> Any:
        """The strengths to try: a row for each l1_ratio, from the largest penalty down."""
        raise NotImplementedError

    def _sizes(self, task: Task) -> list[list[Size]]:
        pairs = zip(self._strengths(), self._ratios(), strict=True)
        return [[self._penalised(each, ratio, task) for each in row] for row, ratio in pairs]

    def _tell_choice(self, row: int, best: int, simplest: int) -> dict[str, float]:
        strengths = self._strengths()[row]
        by_rule = {"best": float(strengths[best]), "1se": float(strengths[simplest])}
        for rule, number in by_rule.items():
            setattr(self, f"{self.strength}_{rule}_", number)
        self.l1_ratio_ = float(self._ratios()[row])
        chosen = by_rule["1se" if self.selection == "1se" else "best"]
        setattr(self, f"{self.strength}_", chosen)
        return {"param_l1_ratio": self.l1_ratio_, f"param_{self.strength}": chosen}

    def _parameters(self) -> dict[str, Any]:
        strengths = self._strengths()
        ratios = np.broadcast_to(self._ratios()[:, None], strengths.shape)
        return {"param_l1_ratio": ratios, f"param_{self.strength}": strengths}

    def _chosen(self, task: Task) -> Size:
        return self._penalised(getattr(self, f"{self.strength}_"), self.l1_ratio_, task)


class SearchedAlphas(GridOfAlphas, PenaltyOfMean, PenaltySearched):
    """A search over alpha, the weight of the penalty beside the mean loss."""

    strength = "alpha"
    selections = (
        *SELECTIONS,
        "cyclic",
        "random",
    )  # the last two are scikit-learn's orders of coordinates
    chosen_names = "alpha_ and l1_ratio_"
    tried_names = "alphas, ratios"

    l1_ratio: Any = 1.0

    def _ratios(self) -> Any:
        return np.array([checked_ratio(ratio) for ratio in np.ravel(self.l1_ratio)])

    def _set_grid(self, tasks: Sequence[Task], solver: Solver, line: FitsLine) -> None:
        ratios = self._ratios()
        if len(ratios) == 0:
            raise ValueError("l1_ratio must hold at least one number, got none")
        count = self.alphas if self.n_alphas is None else self.n_alphas
        if self.alphas is None or np.ndim(self.alphas) == 0:
            rows = [
                penalty_grid(
                    tasks, l1_ratio=ratio, eps=self.eps, n_alphas=count, positive=self.positive
                )
                for ratio in ratios
            ]
        else:
            rows = [checked_alphas(self.alphas)] * len(ratios)
        self.alphas_ = rows[0] if np.ndim(self.l1_ratio) == 0 else np.stack(rows)

    def _strengths(self) -> Any:
        return np.atleast_2d(self.alphas_)


class SearchedCs(GridOfCs, PenaltyOfSum, PenaltySearched):
    """A search over C, the weight of the loss beside the penalty."""

    strength = "C"
    chosen_names = "C_ and l1_ratio_"
    tried_names = "Cs, ratios"

    def _ratios(self) -> Any:
        ratios = (0.0,) if self.l1_ratios is None else np.ravel(self.l1_ratios)
        return np.array([checked_ratio(ratio) for ratio in ratios])

    def _set_grid(self, tasks: Sequence[Task], solver: Solver, line: FitsLine) -> None:
        if np.ndim(self.Cs) == 0:
            self.Cs_ = np.logspace(-4.0, 4.0, _checks.whole("Cs", self.Cs, at_least=1))
        else:
            self.Cs_ = np.unique([_checks.number("Cs", C, above=0.0) for C in np.ravel(self.Cs)])
        if len(self.Cs_) == 0 or len(self._ratios()) == 0:
            raise ValueError("Cs and l1_ratios must hold at least one number each")

    def _strengths(self) -> Any:
        return np.tile(self.Cs_, (len(self._ratios()), 1))


def checked_alphas(alphas: Any) -> Any:
    """The alphas that the user gave, each once, in decreasing order."""
    checked = np.unique([_checks.number("alphas", alpha, above=0.0) for alpha in np.ravel(alphas)])[
        ::-1
    ]
    if len(checked) == 0:
        raise ValueError(
            "alphas must hold at least one number, got none; leave it 100 for a default grid"
        )
    return checked


@with_parameters
class ElasticNetCV(OfCoordinateDescent, SearchedAlphas, LinearRegressor):
    """`ElasticNet` with alpha and l1_ratio chosen by cross-validation:
    `sklearn.linear_model.ElasticNetCV`, with proofs.

    Parameters
    ----------
    l1_ratio : float or list of floats, default 0.5
        The values to try.
    eps : float, default 1e-3
        The smallest alpha of the default grid divided by the largest. The largest alpha is just
        large enough to make all coefficients 0.
    alphas : int or array, default 100
        The alphas to try, or the number of alphas in the default geometric grid.
    n_alphas : int, optional
        The number of alphas, by its name in scikit-learn before version 1.9.
    selection : {"best", "1se"}, default "best"
        How to choose alpha. "best" takes the alpha with the best mean score. "1se" takes the
        largest alpha whose mean score is within one standard error of the best. In both cases the
        l1_ratio is the one with the best mean score. (scikit-learn's values "cyclic" and "random"
        mean "best".)
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    cv, scoring, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`.
    precompute, copy_X, random_state
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        The chosen values.
    alpha_best_, alpha_1se_ : float
        The alphas that "best" and "1se" choose.
    alphas_ : array, shape (alphas,) or (ratios, alphas)
        The alphas that were tried, in decreasing order.
    mse_path_ : array, shape (alphas, folds) or (ratios, alphas, folds)
        The mean squared errors on the held-out samples, if `scoring` is None.
    scores_ : array, shape (ratios, alphas, folds)
        The scores on the held-out samples.
    cv_results_ : dict of arrays
        The scores as a table with a row for each l1_ratio and alpha. `cv_table()` returns it as a
        DataFrame.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import ElasticNetCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 30))
    >>> y = 3.0 * X[:, 0] + 0.1 * rng.standard_normal(40)  # one of 30 features matters
    >>> model = ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=10, cv=3).fit(X, y)
    >>> int(np.argmax(np.abs(model.coef_))), model.l1_ratio_, model.mse_path_.shape
    (0, 1.0, (2, 10, 3))
    """

    default_scoring = "neg_mean_squared_error"

    l1_ratio: Any = 0.5
    precompute: Any = "auto"

    @property
    def mse_path_(self) -> Any:
        """The mean squared errors on the held-out samples, in scikit-learn's order of axes."""
        return -self.scores_[0] if np.ndim(self.l1_ratio) == 0 else -self.scores_


@with_parameters
class LassoCV(OfCoordinateDescent, SearchedAlphas, LinearRegressor):
    """`Lasso` with alpha chosen by cross-validation: `sklearn.linear_model.LassoCV`, with proofs.

    Parameters
    ----------
    eps, alphas, n_alphas, selection
        As in `ElasticNetCV`.
    fit_intercept, positive, standardize, penalty_factors, impute
        As in `Lasso`.
    cv, scoring, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`.
    precompute, copy_X, random_state
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    alpha_, alpha_best_, alpha_1se_, alphas_, mse_path_, scores_, cv_results_
        As in `ElasticNetCV`.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 30))
    >>> model = LassoCV(alphas=10, cv=3, selection="1se").fit(X, X[:, 0] + 0.1 * rng.standard_normal(40))
    >>> model.alpha_ == model.alpha_1se_ >= model.alpha_best_, int(np.argmax(np.abs(model.coef_)))
    (True, 0)
    """

    default_scoring = "neg_mean_squared_error"

    precompute: Any = "auto"

    @property
    def mse_path_(self) -> Any:
        """The mean squared errors on the held-out samples, in scikit-learn's order of axes."""
        return -self.scores_[0]


@with_parameters
class LogisticRegressionCV(OfLiblinear, SearchedCs, LogisticClassifier):
    """`LogisticRegression` with C and l1_ratio chosen by cross-validation, with proofs.

    Parameters
    ----------
    Cs : int or array, default 10
        The values of C to try, or the number of values in a geometric grid from 1e-4 to 1e4.
    l1_ratios : list of floats, optional
        The values of l1_ratio to try. By default only 0.
    selection : {"best", "1se"}, default "best"
        How to choose C. "best" takes the C with the best mean score. "1se" takes the smallest C
        whose mean score is within one standard error of the best. In both cases the l1_ratio is the
        one with the best mean score.
    scoring : str or callable, optional
        The score by which the fits are compared; greater is better. By default minus the log loss.
    fit_intercept, class_weight, multi_class, positive, standardize, penalty_factors, impute
        As in `LogisticRegression`.
    cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`; the folds are stratified.
    dual, solver, intercept_scaling, random_state
        Accepted for programs that use scikit-learn. They have no effect.

    Attributes
    ----------
    C_, l1_ratio_ : float
        The chosen values, for all classes.
    C_best_, C_1se_ : float
        The values of C that "best" and "1se" choose.
    Cs_ : array
        The values that were tried, in increasing order.
    scores_ : array, shape (ratios, Cs, folds)
        The scores on the held-out samples.
    cv_results_ : dict of arrays
        The scores as a table with a row for each l1_ratio and C. `cv_table()` returns it as a
        DataFrame.
    classes_, coef_, intercept_, n_iter_
        From the last fit, to all samples, as in `LogisticRegression`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `LogisticRegression`.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=100, n_features=50, n_relevant=5)
    >>> model = cg.linear_model.LogisticRegressionCV(Cs=5, l1_ratios=[1.0], cv=3).fit(d.X_train, d.y_train)
    >>> model.C_ in model.Cs_, model.scores_.shape  # ratios, Cs, folds
    (True, (1, 5, 3))
    """

    default_scoring = "neg_log_loss"

    multi_class: str = "multinomial"
    solver: str = "lbfgs"


@with_parameters
class LinearSVCCV(SearchedCs, HingeClassifier):
    """`LinearSVC` with C and l1_ratio chosen by cross-validation, with proofs.

    Parameters
    ----------
    Cs, l1_ratios, selection
        As in `LogisticRegressionCV`.
    fit_intercept, class_weight, positive, standardize, penalty_factors, impute
        As in `LogisticRegression`.
    scoring : str or callable, optional
        The score by which the fits are compared; greater is better. By default the accuracy.
    cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`; the folds are stratified.

    Attributes
    ----------
    C_, l1_ratio_, C_best_, C_1se_, Cs_, scores_, cv_results_
        As in `LogisticRegressionCV`.
    classes_, coef_, intercept_, n_iter_
        From the last fit, to all samples, as in `LogisticRegression`.
    objective_, dual_gap_, relative_gap_, radius_, multiplier_, ridge_
        From the last fit, to all samples, as in `LogisticRegression`.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=100, n_features=50, n_relevant=5)
    >>> model = cg.linear_model.LinearSVCCV(Cs=[0.01, 0.1], l1_ratios=[1.0], cv=3).fit(d.X_train, d.y_train)
    >>> model.C_ in model.Cs_
    True
    """

    default_scoring = "accuracy"
