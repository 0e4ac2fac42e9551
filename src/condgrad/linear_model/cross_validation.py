"""The radius and the ridge by cross-validation, along warm-started paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from condgrad.linear_model.base import LinearEstimator
from condgrad.linear_model.classification import HingeClassifier, LogisticClassifier
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.regression import LinearRegressor
from condgrad.linear_model.solver import (
    Fit,
    Solver,
    checked_radii,
    checked_ridge,
    default_radii,
    warn_unless_converged,
)
from condgrad.result import Status
from condgrad.smooth.composite import Composite

SHARE_OF_SEARCH = 0.9
"""What the search may take of a time limit; the rest is for the fit to all samples."""

Scorer = Callable[..., float]


class CrossValidated(LinearEstimator):
    """A fit for the radius and the ridge that score best on held-out samples."""

    default_scoring: str

    radii: Any
    n_radii: int
    ridges: Any
    cv: Any
    scoring: Any
    n_jobs: int | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the radius and the ridge, then fit all samples with them.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix, shape (samples, features)
        y : array, shape (samples,)
        sample_weight : array, shape (samples,), optional
            Used in the fits, and in the scores where the scorer takes it.
        """
        X, y, weights = self._data(X, y, sample_weight)
        tasks, solver = self._tasks(X, y, weights), self._solver()
        search = solver.with_share_of_time(SHARE_OF_SEARCH)
        folds = list(check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y))
        self.ridges_ = checked_ridges(self.ridges)
        with FitsLine(shown=bool(self.verbose)) as line:
            self.radii_ = self._tried_radii(tasks, search, line)
            line.total = len(tasks) * (len(folds) * len(self.ridges_) * len(self.radii_) + 1)
            self.scores_, tried = self._cross_validate(X, y, weights, folds, search, line)
            self.radius_, self.ridge_ = best_pair(self.scores_.mean(axis=2), self.radii_, self.ridges_)
            fits = [solver.path(f, radii=[self.radius_], ridge=self.ridge_, line=line)[0] for f in tasks]
        self._absorb(fits)
        cut = [fit for fit in tried if fit.status is Status.TIME_LIMIT]
        if cut:
            warnings.warn(
                f"the time limit of {self.time_limit:g} s cut {len(cut)} of the {len(tried)} fits short by whose "
                f"scores radius_ and ridge_ were chosen: the choice may be another with more time. Raise time_limit, "
                "or try fewer radii, ridges or folds.",
                ConvergenceWarning,
                stacklevel=2,
            )
        warn_unless_converged([*fits, *(fit for fit in tried if fit.status is not Status.TIME_LIMIT)], stacklevel=2)
        return self

    def _tried_radii(self, tasks: Sequence[Composite], solver: Solver, line: FitsLine) -> Any:
        if self.radii is not None:
            return checked_radii(self.radii)
        line.say("looking for the largest radius")
        return default_radii(tasks, ridge=float(self.ridges_.min()), n_radii=self.n_radii, solver=solver)

    def _cross_validate(
        self, X: Any, y: Any, weights: Any, folds: Sequence[Any], solver: Solver, line: FitsLine
    ) -> tuple[Any, list[Fit]]:
        """Scores by ridge, radius and fold, and all the fits."""
        scorer = check_scoring(self, scoring=self.default_scoring if self.scoring is None else self.scoring)
        shell = copy(self)
        # the data no longer carry names, and a generator of folds or a scorer need not travel
        if hasattr(shell, "feature_names_in_"):
            del shell.feature_names_in_
        shell.cv = shell.scoring = None
        jobs = (
            delayed(score_fold)(shell, solver, scorer, X, y, weights, train, test, k, line)
            for k, (train, test) in enumerate(folds)
        )
        line.say("the folds")
        scores: list[Any] = []
        tried: list[Fit] = []
        for fold_scores, fits in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
            scores.append(fold_scores)
            tried += fits
            line.reached(len(tried))
        return np.stack(scores, axis=2), tried


def score_fold(
    shell: CrossValidated,
    solver: Solver,
    scorer: Scorer,
    X: Any,
    y: Any,
    weights: Any,
    train: Any,
    test: Any,
    number: int,
    line: FitsLine,
) -> tuple[Any, list[Fit]]:
    """Scores on one fold, by ridge and radius, and the fits."""
    shell = copy(shell)
    try:
        tasks = shell._tasks(X[train], y[train], None if weights is None else weights[train])
    except ValueError as error:
        raise ValueError(f"in fold {number}: {error}; take fewer or other folds") from error
    held_out = None if weights is None else weights[test]
    scores = np.empty((len(shell.ridges_), len(shell.radii_)))
    tried: list[Fit] = []
    for i, ridge in enumerate(shell.ridges_):
        paths = [solver.path(f, radii=shell.radii_, ridge=ridge, line=line) for f in tasks]
        for j, fits in enumerate(zip(*paths, strict=True)):
            shell._absorb(fits)
            scores[i, j] = score(scorer, shell, X[test], y[test], held_out)
            tried += fits
    return scores, tried


def score(scorer: Scorer, model: Any, X: Any, y: Any, weights: Any) -> float:
    """The score of a model, with the weights of the samples where the scorer can use them.

    A scorer of scikit-learn takes weights whether or not the metric behind it does (`max_error` does not), and no
    public attribute tells: the refusal of the metric itself does.
    """
    if weights is None:
        return scorer(model, X, y)
    try:
        return scorer(model, X, y, sample_weight=weights)
    except TypeError as error:
        if "unexpected keyword argument 'sample_weight'" not in str(error):
            raise
    return scorer(model, X, y)


def checked_ridges(ridges: Any) -> Any:
    """A user's ridges, in their order."""
    checked = [checked_ridge(ridge) for ridge in np.ravel(ridges)]
    if not checked:
        raise ValueError("ridges must hold at least one ridge, got none")
    return np.array(checked)


def best_pair(means: Any, radii: Any, ridges: Any) -> tuple[float, float]:
    """The radius and the ridge of the highest mean score; among equals the smallest radius, then the largest ridge."""
    if not np.isfinite(means).any():
        raise ValueError("no score is finite: choose another scoring, or folds that it can score")
    best = np.nanmax(means)
    radius, minus_ridge = min(
        (float(radii[j]), -float(ridges[i])) for i, j in zip(*np.nonzero(means == best), strict=True)
    )
    return radius, -minus_ridge


class ConstrainedElasticNetCV(CrossValidated, LinearRegressor):
    """`ConstrainedElasticNet` with the radius and the ridge chosen by cross-validation.

    Parameters
    ----------
    radii : array, optional
        The radii to try. By default a geometric grid of `n_radii`, whose last is about the |coef|_1 of the solution
        without a constraint (on all samples, for the smallest ridge) and whose first is a thousandth of it.
    n_radii : int
    ridges : array
        The ridges to try; each is one warm-started path over the radii in each fold.
    fit_intercept : bool
    cv : int, splitter or iterable, optional
        As everywhere in scikit-learn; None stands for 5 folds.
    scoring : str or callable, optional
        Greater is better; by default the negative mean squared error.
    n_jobs : int, optional
        Folds at a time, through joblib.
    tol, max_iter, method
        As in `ConstrainedElasticNet`.
    time_limit : float, optional
        Seconds that the whole `fit` may take. Each fit of the search gets what is left, and none at all makes no more
        than a first look at its problem; a tenth of the limit is kept for the last fit, to all samples. A choice among
        fits that the limit cut short comes with a warning.
    verbose : bool
        Show a live line on the terminal, one for the whole search. Folds in other processes are counted when they end.

    Attributes
    ----------
    radius_, ridge_ : float
        The best pair by the mean score over the folds; among equals the smallest radius, then the largest ridge.
    radii_, ridges_ : array
        What was tried; radii increase.
    scores_ : array, shape (ridges, radii, folds)
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, multiplier_
        Of the last fit, to all samples, as in `ConstrainedElasticNet`.
    """

    default_scoring = "neg_mean_squared_error"

    def __init__(
        self,
        *,
        radii: Any = None,
        n_radii: int = 20,
        ridges: Any = (0.5,),
        fit_intercept: bool = True,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.ridges = ridges
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose


class CrossValidatedClassifier(CrossValidated):
    """The parameters of a classifier that chooses its radius and its ridge."""

    default_scoring = "accuracy"

    def __init__(
        self,
        *,
        radii: Any = None,
        n_radii: int = 20,
        ridges: Any = (0.5,),
        fit_intercept: bool = True,
        class_weight: Any = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        method: str = "auto",
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.ridges = ridges
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.time_limit = time_limit
        self.verbose = verbose


class ConstrainedLogisticRegressionCV(CrossValidatedClassifier, LogisticClassifier):
    """`ConstrainedLogisticRegression` with the radius and the ridge chosen by cross-validation.

    Parameters and attributes are those of `ConstrainedElasticNetCV`, and `class_weight` and `classes_` those of
    `ConstrainedLogisticRegression`. The folds are stratified, all classes share the radius, and by default the score is
    the accuracy; `scoring="neg_log_loss"` tells more models apart.
    """


class ConstrainedLinearSVCCV(CrossValidatedClassifier, HingeClassifier):
    """`ConstrainedLinearSVC` with the radius and the ridge chosen by cross-validation.

    Parameters and attributes are those of `ConstrainedLogisticRegressionCV`.
    """
