"""Choose the radius and the ridge by cross-validation, along warm-started paths."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn import config_context
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from condgrad import _checks
from condgrad.errors import require_extra
from condgrad.linear_model.base import LinearEstimator, checked_offset
from condgrad.linear_model.blocks import held_out_margins, weights_of_part
from condgrad.linear_model.classification import HingeClassifier, LogisticClassifier
from condgrad.linear_model.parameters import GridOfRadii, SearchParameters, with_parameters
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.regression import LinearRegressor
from condgrad.linear_model.solver import (
    Fit,
    Size,
    Solver,
    Task,
    checked_radii,
    checked_ridge,
    default_radii,
    default_ridges,
    warn_unless_converged,
)
from condgrad.result import Status
from condgrad.smooth.row_blocks import RowBlocks

SHARE_OF_SEARCH = 0.9
"""The share of a time limit that the search may take. The rest is for the fit to all samples."""

CHOOSING_TOL = 1e-4
"""The smallest tolerance of the fits of a search. With a smaller one the scores on held-out samples
would change by less than chance changes them.
"""

MOST_COEFFICIENTS = 1 << 22
"""The largest number of coefficients that are multiplied with held-out samples at once."""

SELECTIONS = ("best", "1se")

Scorer = Callable[..., float]


class Searched(SearchParameters, LinearEstimator):
    """A fit whose radius or penalty is chosen by scores on held-out samples."""

    default_scoring: str
    """The default score, by its name in scikit-learn."""

    scores_: Any

    selections: tuple[str, ...] = SELECTIONS
    """The allowed values of `selection`."""

    @abstractmethod
    def _set_grid(self, tasks: Sequence[Task], solver: Solver, line: FitsLine) -> None:
        """Set the attributes that hold the radii or penalties to try."""

    @abstractmethod
    def _sizes(self, task: Task) -> list[list[Size]]:
        """The radii or penalties to try for one problem: a row for each path, from the smallest
        radius to the largest, or from the largest penalty to the smallest.
        """

    @abstractmethod
    def _tell_choice(self, row: int, best: int, simplest: int) -> dict[str, float]:
        """Set the attributes of the choice, and return the chosen values by their columns in the
        table.

        `row` is the path with the best mean score, and `best` is the place of this score on it.
        `simplest` is the first place on the path whose score is within a standard error of the
        best.
        """

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """The columns of the table that hold what was tried: arrays with a row for each path."""

    @abstractmethod
    def _chosen(self, task: Task) -> Size:
        """The chosen radius and ridge, or penalty, for one problem."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Score all fits by cross-validation, choose by the scores, then fit to all samples.

        Parameters
        ----------
        X : array, DataFrame, SciPy sparse matrix, Dask array or Dask dataframe, shape (samples, features)
            The data. Data of Dask stay on its workers, which share each fit, so `n_jobs` has no
            effect. Only sums, and one number for each row and class, come back.
        y : array, shape (samples,)
            The targets, or the labels of the classes.
        sample_weight : array, shape (samples,), optional
            Weights >= 0; by default all are 1. The fits use them, and so do the scores if the
            scorer takes them.
        offset : array, shape (samples,), optional
            Known numbers that are added to X coef + intercept, in fits and on held-out samples.
            Only with the default `scoring`.
        """
        from sklearn.model_selection import check_cv  # a fit without folds should not wait for it

        if self.selection not in self.selections:
            raise ValueError(
                f"selection must be one of {', '.join(map(repr, SELECTIONS))}, got {self.selection!r}"
            )
        if offset is not None and self.scoring is not None:
            raise ValueError(
                f"offset needs scoring=None, got {self.scoring!r}: a scorer does not know the offset"
            )
        X, y, weights = self._data(X, y, sample_weight)
        offset = checked_offset(offset, X)
        is_matrix = not (isinstance(X, RowBlocks) or scipy.sparse.issparse(X))
        if is_matrix and X.shape[0] < X.shape[1]:
            X = np.asfortranarray(X)  # paths copy columns of the folds
        tasks = self._tasks(X, y, weights, offset)
        solver = self._solver()
        reserved = 0.0 if solver.time_left is None else (1.0 - SHARE_OF_SEARCH) * solver.time_left
        search = replace(
            solver.with_share_of_time(SHARE_OF_SEARCH), tol=max(self.tol, CHOOSING_TOL)
        )
        folds = list(
            check_cv(self.cv, y, classifier=is_classifier(self)).split(np.zeros(X.shape[0]), y)
        )
        with FitsLine(shown=_checks.loudness("verbose", self.verbose)) as line:
            self._set_grid(tasks, search, line)
            tried_sizes = sum(len(row) for row in self._sizes(tasks[0]))
            line.total = len(tasks) * (len(folds) * tried_sizes + 1)
            self.scores_, tried = self._cross_validate(X, y, weights, offset, folds, search, line)
            self._choose()
            solver = solver.with_at_least(reserved)  # however long the last fit of the search took
            fits = []
            for task in tasks:
                size = self._chosen(task)
                fits.append(self._times_factor(solver.solve(task, size), task))
                line.fitted(relative_gap=fits[-1].relative_gap, **size.numbers)
        self._absorb(fits)
        self._tell_sizes(fits)
        self._warn(fits, tried)
        return self

    def _choose(self) -> None:
        """Apply the rule to the scores, and set the choice and the table."""
        means = self.scores_.mean(axis=2)
        errors = standard_errors(self.scores_)
        row, best = self._best(means)
        # the penalty falls along a row: the first score that is good enough is the simplest model
        enough = means[row] >= means[row, best] - errors[row, best]
        self._selected = self._tell_choice(row, best, int(np.flatnonzero(enough)[0]))
        ranks = 1 + np.searchsorted(
            np.sort(-means.ravel()), -means.ravel()
        )  # equal scores share the first rank
        self.cv_results_ = {
            **{name: np.ravel(tried) for name, tried in self._parameters().items()},
            "mean_test_score": means.ravel(),
            "standard_error": errors.ravel(),
            "rank_test_score": ranks,
            **{
                f"split{k}_test_score": self.scores_[:, :, k].ravel()
                for k in range(self.scores_.shape[2])
            },
        }

    def _best(self, means: Any) -> tuple[int, int]:
        return best_cell(means)

    def cv_table(self) -> Any:
        """`cv_results_` as a pandas DataFrame, with a column that marks the chosen pair."""
        check_is_fitted(self)
        pandas = require_extra("pandas", extra="pandas", purpose="cv_table")
        table = pandas.DataFrame(self.cv_results_)
        table["selected"] = np.logical_and.reduce(
            [table[name] == value for name, value in self._selected.items()]
        )
        return table

    def _warn(self, fits: Sequence[Fit], tried: Sequence[Fit]) -> None:
        """Warn if the time limit or the end of the grid may have decided the choice, and of fits
        that did not converge.
        """
        cut = [fit for fit in tried if fit.status is Status.TIME_LIMIT]
        if cut:
            unproved = sum(fit.gap == math.inf for fit in cut)
            nothing = f" ({unproved} of them without any proof)" if unproved else ""
            warnings.warn(
                f"the time limit of {self.time_limit:g} s cut {len(cut)} of the {len(tried)} fits short{nothing}. "
                f"Their scores chose {self.chosen_names}, so more time may change the choice. Raise "
                f"time_limit, or try fewer {self.tried_names} or folds.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elsewhere = self._advice(fits)
        if elsewhere and not cut:
            warnings.warn(elsewhere, UserWarning, stacklevel=3)
        warn_unless_converged(
            [*fits, *(fit for fit in tried if fit.status is not Status.TIME_LIMIT)], stacklevel=3
        )

    chosen_names: str
    """The names of the attributes with the chosen values, for messages."""
    tried_names: str
    """The names of the parameters with the values to try, for messages."""

    def _advice(self, fits: Sequence[Fit]) -> str:
        """A sentence if the best value may lie outside the grid; otherwise the empty string."""
        return ""

    def _cross_validate(
        self,
        X: Any,
        y: Any,
        weights: Any,
        offset: Any,
        folds: Sequence[Any],
        solver: Solver,
        line: FitsLine,
    ) -> tuple[Any, list[Fit]]:
        """Scores by ridge, radius and fold, and all the fits."""
        scorer = None
        if self.scoring is not None:
            from sklearn.metrics import check_scoring

            scorer = check_scoring(self, scoring=self.scoring)
        shell = copy(self)
        # The data have no names any more. Other processes need no generator of folds and no scorer.
        if hasattr(shell, "feature_names_in_"):
            del shell.feature_names_in_
        shell.cv = shell.scoring = None
        jobs = (
            delayed(score_fold)(shell, solver, scorer, X, y, weights, offset, train, test, k, line)
            for k, (train, test) in enumerate(folds)
        )
        line.say("the folds")
        scores: list[Any] = []
        tried: list[Fit] = []
        n_jobs = None if isinstance(X, RowBlocks) else self.n_jobs
        for fold_scores, fits in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            scores.append(fold_scores)
            tried += fits
            line.reached(len(tried))
        return np.stack(scores, axis=2), tried


def score_fold(
    shell: Searched,
    solver: Solver,
    scorer: Scorer | None,
    X: Any,
    y: Any,
    weights: Any,
    offset: Any,
    train: Any,
    test: Any,
    number: int,
    line: FitsLine,
) -> tuple[Any, list[Fit]]:
    """Scores on one fold, by ridge and radius, and the fits."""
    shell = copy(shell)
    try:
        if isinstance(X, RowBlocks):
            tasks = shell._tasks(X, y, weights_of_part(train, X.shape[0], weights))
        else:
            some = [None if each is None else each[train] for each in (weights, offset)]
            tasks = shell._tasks(some_rows(X, train), y[train], *some)
    except ValueError as error:
        raise ValueError(f"in fold {number}: {error}; take fewer or other folds") from error
    held_out = None if isinstance(X, RowBlocks) else shell._filled(some_rows(X, test))
    y_out = y[test]
    weights_out = None if weights is None else weights[test]
    sizes = [shell._sizes(task) for task in tasks]
    scores = np.empty((len(sizes[0]), len(sizes[0][0])))
    tried: list[Fit] = []
    for i in range(len(scores)):
        paths = [
            solver.path(task, of_task[i], line) for task, of_task in zip(tasks, sizes, strict=True)
        ]
        together = list(zip(*paths, strict=True))
        tried += [fit for fits in together for fit in fits]
        if scorer is None and held_out is not None:
            shift = 0.0 if offset is None else offset[test][:, None]
            margins = margins_along(paths, held_out)
            scores[i] = [
                default_score(shell, of_size + shift, y_out, weights_out) for of_size in margins
            ]
            continue
        models = [copy(shell) for _ in together]
        for model, fits in zip(models, together, strict=True):
            model._absorb(fits)
        judged = (
            held_out_margins(models, X, test)
            if held_out is None
            else ((model, held_out) for model in models)
        )
        for j, (model, X_out) in enumerate(judged):
            scores[i, j] = score(scorer, model, X_out, y_out, weights_out)
    # from here on only warnings use the fits: do not send coefficients between processes
    return scores, [replace(fit, coef=None) for fit in tried]


def some_rows(X: Any, rows: Any) -> Any:
    """Some rows of the data. An array stored by columns stays so, as paths copy columns."""
    if scipy.sparse.issparse(X) or not X.flags.f_contiguous:
        return X[rows]
    return np.take(
        np.asarray(X).T, rows, axis=1
    ).T  # a plain array, also of a file that processes share


def margins_along(paths: Sequence[Sequence[Fit]], X: Any) -> Iterator[Any]:
    """X coef + intercept, for one radius after another. `paths` has a path for each task, and the
    result has a column for each class.

    The coefficients of many radii are multiplied at once.
    """
    at_once = max(1, MOST_COEFFICIENTS // paths[0][0].coef.size)
    for begin in range(0, len(paths[0]), at_once):
        parts = []
        for path in paths:
            some = path[begin : begin + at_once]
            coefs = np.stack([np.reshape(fit.coef, (X.shape[1], -1)) for fit in some], axis=1)
            margins = safe_sparse_dot(X, coefs.reshape(X.shape[1], -1)).reshape(
                X.shape[0], len(some), -1
            )
            parts.append(margins + np.stack([np.ravel(fit.intercept) for fit in some]))
        yield from np.moveaxis(np.concatenate(parts, axis=2), 1, 0)


def default_score(model: Any, margins: Any, y: Any, weights: Any) -> float:
    """The default score of a model; NaN if all samples have weight 0."""
    if weights is not None and not weights.any():
        return math.nan
    return float(model._default_score(margins, y, weights))


def score(scorer: Scorer | None, model: Any, X: Any, y: Any, weights: Any) -> float:
    """The score of a model on checked data, with the weights of the samples if the scorer can use
    them.

    A scorer of scikit-learn takes weights even if its metric does not (such as `max_error`). No
    public attribute tells this, so the error of the metric has to.
    """
    if scorer is None:
        return default_score(model, model._scores_of_checked(X), y, weights)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        if weights is None:
            return scorer(model, X, y)
        try:
            return scorer(model, X, y, sample_weight=weights)
        except TypeError as error:
            if "unexpected keyword argument 'sample_weight'" not in str(error):
                raise
        return scorer(model, X, y)


def standard_errors(scores: Any) -> Any:
    """The standard errors of the means over the folds, the last axis; 0 for a single fold."""
    folds = scores.shape[2]
    if folds == 1:
        return np.zeros(scores.shape[:2])
    with np.errstate(invalid="ignore"):  # a score of -inf has no deviation
        return scores.std(axis=2, ddof=1) / math.sqrt(folds)


def checked_ridges(ridges: Any) -> Any:
    """The ridges that the user gave, checked, in their order."""
    checked = [checked_ridge(ridge) for ridge in np.ravel(ridges)]
    if not checked:
        raise ValueError("ridges must hold at least one ridge, got none")
    return np.array(checked)


def best_cell(means: Any) -> tuple[int, int]:
    """The row and the column of the highest mean score. Of equal scores: the first column, and in
    it the last row.
    """
    if not np.isfinite(means).any():
        raise ValueError("no score is finite: choose another scoring, or folds that it can score")
    rows, columns = np.nonzero(means == np.nanmax(means))
    column, minus_row = min(zip(columns.tolist(), (-rows).tolist(), strict=True))
    return -minus_row, column


class CrossValidated(GridOfRadii, Searched):
    """A fit whose radius and ridge are chosen by scores on held-out samples."""

    chosen_names = "radius_ and ridge_"
    tried_names = "radii, ridges"

    def _set_grid(self, tasks: Sequence[Task], solver: Solver, line: FitsLine) -> None:
        self.ridges_ = default_ridges(tasks) if self.ridges is None else checked_ridges(self.ridges)
        if self.radii is not None:
            self.radii_ = checked_radii(self.radii)
            return
        line.say("looking for the largest radius")
        self.radii_ = default_radii(
            tasks, ridge=float(self.ridges_.min()), n_radii=self.n_radii, solver=solver
        )

    def _sizes(self, task: Task) -> list[list[Size]]:
        return [[Size(ridge, radius=radius) for radius in self.radii_] for ridge in self.ridges_]

    def _best(self, means: Any) -> tuple[int, int]:
        """The highest mean score. Of equal ones: the smallest radius, then the largest ridge."""
        by_ridge = np.argsort(self.ridges_, kind="stable")
        row, column = best_cell(means[by_ridge])
        return int(by_ridge[row]), column

    def _tell_choice(self, row: int, best: int, simplest: int) -> dict[str, float]:
        self.ridge_ = float(self.ridges_[row])
        self.radius_best_ = float(self.radii_[best])
        self.radius_1se_ = float(self.radii_[simplest])
        self.radius_ = self.radius_best_ if self.selection == "best" else self.radius_1se_
        return {"param_ridge": self.ridge_, "param_radius": self.radius_}

    def _parameters(self) -> dict[str, Any]:
        ridges, radii = np.meshgrid(self.ridges_, self.radii_, indexing="ij")
        return {"param_ridge": ridges, "param_radius": radii}

    def _chosen(self, task: Task) -> Size:
        return Size(self.ridge_, radius=self.radius_)

    def _advice(self, fits: Sequence[Fit]) -> str:
        # at the last radius of a default grid the constraint is not active, if there is a ridge
        ends_early = self.radii is not None or self.ridge_ == 0.0
        at_the_end = len(self.radii_) > 1 and self.radius_best_ == self.radii_[-1]
        if not (ends_early and at_the_end and any(fit.multiplier > 0.0 for fit in fits)):
            return ""
        return (
            f"the best of the radii is the last, {self.radius_best_:g}: a larger one may score better. Try larger "
            "radii as well."
        )


@with_parameters
class ConstrainedElasticNetCV(CrossValidated, LinearRegressor):
    """`ConstrainedElasticNet` with the radius and the ridge chosen by cross-validation.

    Parameters
    ----------
    radii : array, optional
        The radii to try. By default a geometric grid of `n_radii` radii. The last radius is about
        |coef|_1 of the solution without a constraint (on all samples, for the smallest ridge). The
        first is a thousandth of the last.
    n_radii : int, default 50
        The number of radii in the default grid.
    ridges : array, optional
        The ridges to try. The default is 0.001, 0.01 and 0.1 times the sum of squares of a typical
        feature: the median of these sums over all features. The features are centred first if there
        is an intercept. So the default follows the units of X.
    selection : {"best", "1se"}, default "best"
        How to choose the radius. "best" takes the radius with the best mean score, as scikit-learn
        does. "1se" takes the smallest radius whose mean score is within one standard error of the
        best. Choose "1se" if you want to interpret the selected features: the model is smaller, and
        its score is hardly worse. In both cases the ridge is the one with the best mean score.
    fit_intercept, standardize, penalty_factors, impute, positive, groups
        As in `ConstrainedElasticNet`. Each fit of a fold uses the standard deviations of its own
        training samples.
    cv : int, splitter or iterable, optional
        The folds, as everywhere in scikit-learn. By default 5 folds.
    scoring : str or callable, optional
        The score by which the fits are compared: a name that scikit-learn knows, or a callable
        `scoring(model, X, y)`. Greater is better. By default minus the mean squared error. The
        method `score` does not use it.
    n_jobs : int, optional
        The number of folds that run at the same time, each in a process of its own. By default one
        fold runs after another. Processes take seconds to start, so they only help longer searches.
    tol : float, default 1e-6
        The last fit stops at `relative_gap_ <= tol`. Fits of the search stop at 1e-4, or at `tol`
        if that is larger: more exact fits would not make the scores more exact.
    max_iter : int, default 10_000
        The largest number of iterations of one fit.
    method : str, default "auto"
        The algorithm, by its name in `condgrad.minimize`.
    time_limit : float, optional
        Limit for the whole `fit` in seconds. A tenth of it is for the last fit, to all
        samples. If no time is left for a radius, the solution of the previous radius is used again,
        with an infinite gap. A warning says how many fits the limit cut short, and how many have no
        proof.
    verbose : bool, default False
        Show progress on the terminal, in one line. Folds in other processes are counted when they
        end.

    Attributes
    ----------
    radius_, ridge_ : float
        The chosen pair. If scores are equal, the smallest radius is taken, then the largest ridge.
    radius_best_, radius_1se_ : float
        The radii that "best" and "1se" choose. If the best radius is the largest one that was
        tried, and the constraint is active there, a warning says so.
    cv_results_ : dict of arrays
        A table with a row for each ridge and radius: `param_ridge`, `param_radius`,
        `mean_test_score`, `standard_error` (of the mean score over the folds), `rank_test_score`,
        `split0_test_score`, ... `cv_table()` returns it as a DataFrame.
    radii_, ridges_ : array
        The values that were tried. The radii increase.
    scores_ : array, shape (ridges, radii, folds)
        The scores on the held-out samples.
    coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, multiplier_
        From the last fit, to all samples, as in `ConstrainedElasticNet`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.linear_model import ConstrainedElasticNetCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 30))
    >>> y = 3.0 * X[:, 0] + 0.1 * rng.standard_normal(40)  # one of 30 features matters
    >>> model = ConstrainedElasticNetCV(n_radii=5, ridges=[0.01], cv=3).fit(X, y)
    >>> int(np.argmax(np.abs(model.coef_))), len(model.cv_results_["mean_test_score"]), model.relative_gap_ <= 1e-6
    (0, 5, True)
    """

    default_scoring = "neg_mean_squared_error"


@with_parameters
class ConstrainedLogisticRegressionCV(CrossValidated, LogisticClassifier):
    """`ConstrainedLogisticRegression` with the radius and the ridge chosen by cross-validation.

    The chosen radius and ridge are used for all classes.

    Parameters
    ----------
    radii, n_radii, ridges, selection, fit_intercept, standardize, penalty_factors, positive, groups
        As in `ConstrainedElasticNetCV`.
    impute, cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`; the folds are stratified.
    multi_class, class_weight
        As in `ConstrainedLogisticRegression`.
    scoring : str or callable, optional
        As in `ConstrainedElasticNetCV`. By default minus the log loss, which the model also
        minimises. (With few held-out samples, accuracies have few values, so many would be equal.)

    Attributes
    ----------
    radius_, ridge_, radius_best_, radius_1se_, cv_results_, radii_, ridges_, scores_
        As in `ConstrainedElasticNetCV`.
    classes_, coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, multiplier_
        From the last fit, to all samples, as in `ConstrainedLogisticRegression`.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=100, n_features=50, n_relevant=5)
    >>> model = cg.linear_model.ConstrainedLogisticRegressionCV(n_radii=5, ridges=[0.5], cv=3, selection="1se")
    >>> model = model.fit(d.X_train, d.y_train)
    >>> model.radius_ == model.radius_1se_ <= model.radius_best_, model.coef_.shape
    (True, (1, 50))
    """

    default_scoring = "neg_log_loss"

    multi_class: str = "ovr"


@with_parameters
class ConstrainedLinearSVCCV(CrossValidated, HingeClassifier):
    """`ConstrainedLinearSVC` with the radius and the ridge chosen by cross-validation.

    Parameters
    ----------
    radii, n_radii, ridges, selection, fit_intercept, standardize, penalty_factors, positive, groups
        As in `ConstrainedElasticNetCV`.
    impute, cv, n_jobs, tol, max_iter, method, time_limit, verbose
        As in `ConstrainedElasticNetCV`; the folds are stratified.
    class_weight
        As in `ConstrainedLogisticRegression`.
    scoring : str or callable, optional
        As in `ConstrainedElasticNetCV`. By default the accuracy.

    Attributes
    ----------
    radius_, ridge_, radius_best_, radius_1se_, cv_results_, radii_, ridges_, scores_
        As in `ConstrainedElasticNetCV`.
    classes_, coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, multiplier_
        From the last fit, to all samples, as in `ConstrainedLogisticRegression`.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=100, n_features=50, n_relevant=5)
    >>> model = cg.linear_model.ConstrainedLinearSVCCV(n_radii=5, ridges=[0.5], cv=3).fit(d.X_train, d.y_train)
    >>> model.radius_ in model.radii_, model.scores_.shape  # ridges, radii, folds
    (True, (1, 5, 3))
    """

    default_scoring = "accuracy"
