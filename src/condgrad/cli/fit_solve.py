"""The fit itself: radius and ridge chosen by cross-validation where they are not given, and the proof."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from condgrad.cli.fit_design import Design
from condgrad.cli.model_file import HINGE, KINDS, LOGISTIC, SQUARES, Model
from condgrad.cli.outcome import BadInput
from condgrad.linear_model import ConstrainedElasticNetCV, ConstrainedLinearSVCCV, ConstrainedLogisticRegressionCV
from condgrad.linear_model.solver import PROVABLE

CHOOSERS = {LOGISTIC: ConstrainedLogisticRegressionCV, SQUARES: ConstrainedElasticNetCV, HINGE: ConstrainedLinearSVCCV}
CRITERIA = {
    LOGISTIC: ("neg_log_loss", "log loss"),
    SQUARES: ("neg_mean_squared_error", "squared error"),
    HINGE: ("accuracy", "accuracy"),
}
MEASURES = {LOGISTIC: "accuracy", SQUARES: "R2", HINGE: "accuracy"}

RIDGES = (1e-3, 1e-2, 1e-1)
"""The ridges to try, as shares of the typical sum of squares of a column."""

FOLDS = 5
CHOOSING_TOL = 1e-4
"""Scores on held-out rows are no finer than this."""

ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Options:
    """What the user asks of the fit; None stands for: choose it."""

    radius: float | None
    ridge: float | None
    folds: int | None
    tol: float
    max_iter: int
    standardize: bool
    intercept: bool
    seed: int


@dataclass(frozen=True)
class Proof:
    """The certificate of one problem, in the units of the data; `label` is the class it sets against the rest."""

    label: Any
    value: float
    gap: float
    relative_gap: float
    multiplier: float
    iterations: int

    @property
    def lower_bound(self) -> float:
        return self.value - self.gap


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, its proofs, and how well it does."""

    model: Model
    proofs: tuple[Proof, ...]
    tol: float
    measure: str
    training_score: float
    held_out_score: float | None
    """Of models for the same radius and ridge on the rows that they did not see."""
    folds: int
    chosen_by: str | None
    """The criterion of the choice; None where the user gave radius and ridge."""
    unfinished_trials: bool

    @property
    def certified(self) -> bool:
        return all(proof.relative_gap <= self.tol for proof in self.proofs)


def solve(problem: Design, options: Options) -> Fitted:
    """Choose what is not given, fit all rows, and score."""
    folds = _folds(problem, options)
    with _sentences() as short:
        radius, ridge, chosen_by = _chosen(problem, options, folds)
    unfinished = any(issubclass(warning.category, ConvergenceWarning) for warning in short)
    with _sentences():
        estimator = _estimator(problem, options, radius, ridge, tol=options.tol)
        estimator.fit(problem.X, problem.y, sample_weight=problem.weights)
        held_out = _held_out_score(problem, options, radius, ridge, folds) if folds else None
    return Fitted(
        _model(problem, estimator),
        _proofs(problem, estimator),
        max(options.tol, PROVABLE * ROUNDING),
        MEASURES[problem.kind],
        _score(problem, problem.y, estimator.predict(problem.X), problem.weights),
        held_out,
        len(folds),
        chosen_by,
        unfinished,
    )


@contextmanager
def _sentences() -> Iterator[list[Any]]:
    """Unfinished fits are listed instead of warned of; what an estimator refuses is the user's to mend."""
    with warnings.catch_warnings(record=True) as short:
        warnings.simplefilter("ignore", UserWarning)  # many classes in few rows are the user's choice
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield short
        except np.linalg.LinAlgError as error:
            raise BadInput("columns of such different sizes cannot be solved: standardise, or raise --ridge") from error
        except ValueError as error:
            raise BadInput(str(error).strip().splitlines()[0]) from error


def _folds(problem: Design, options: Options) -> list[tuple[Any, Any]]:
    """Rows to fit and rows to score; none where there are too few rows and none are needed."""
    labels, counts = np.unique(problem.y, return_counts=True)
    smallest = problem.rows if problem.kind == SQUARES else int(counts.min())
    rare = labels[counts.argmin()].item()
    if smallest < 2:
        if options.folds is None and None not in (options.radius, options.ridge):
            return []
        raise BadInput(
            f"class {rare!r} has one row, and cross-validation needs two of each; leave the row out, "
            "or give --radius and --ridge and no --folds"
        )
    number = min(FOLDS, smallest) if options.folds is None else options.folds
    if number > smallest:
        whose = "the data have" if problem.kind == SQUARES else f"class {rare!r} has"
        raise BadInput(f"--folds {number}: {whose} {smallest} rows; take at most {smallest} folds")
    splitter = KFold if problem.kind == SQUARES else StratifiedKFold
    return list(splitter(number, shuffle=True, random_state=options.seed).split(problem.X, problem.y))


def _chosen(problem: Design, options: Options, folds: Sequence[Any]) -> tuple[float, float, str | None]:
    """Radius and ridge, in the units of the scaled target and weights, and by what they were chosen."""
    radius = None if options.radius is None else options.radius / problem.target_scale
    ridge = None if options.ridge is None else options.ridge / problem.weight_unit
    if radius is not None and ridge is not None:
        return radius, ridge, None
    scoring, name = CRITERIA[problem.kind]
    chooser = CHOOSERS[problem.kind](
        radii=None if radius is None else [radius],
        ridges=[share * problem.typical_square for share in RIDGES] if ridge is None else [ridge],
        fit_intercept=options.intercept,
        cv=folds,
        scoring=scoring,
        tol=max(options.tol, CHOOSING_TOL),
        max_iter=options.max_iter,
    )
    chooser.fit(problem.X, problem.y, sample_weight=problem.weights)
    return chooser.radius_, chooser.ridge_, name


def _estimator(problem: Design, options: Options, radius: float, ridge: float, *, tol: float) -> Any:
    return KINDS[problem.kind](
        radius, ridge, fit_intercept=options.intercept, tol=tol, max_iter=options.max_iter
    )  # fmt: skip


def _held_out_score(problem: Design, options: Options, radius: float, ridge: float, folds: Sequence[Any]) -> float:
    """The score of all rows, each predicted by a model that did not see it."""
    predicted = np.empty_like(problem.y)
    for train, test in folds:
        estimator = _estimator(problem, options, radius, ridge, tol=max(options.tol, CHOOSING_TOL))
        weights = None if problem.weights is None else problem.weights[train]
        predicted[test] = estimator.fit(problem.X[train], problem.y[train], sample_weight=weights).predict(
            problem.X[test]
        )
    return _score(problem, problem.y, predicted, problem.weights)


def _score(problem: Design, y: Any, predicted: Any, weights: Any) -> float:
    score = r2_score if problem.kind == SQUARES else accuracy_score
    return float(score(y, predicted, sample_weight=weights))


def _model(problem: Design, estimator: Any) -> Model:
    """The estimator in the units of the target and the weights."""
    scale = problem.target_scale
    coef = scale * np.atleast_2d(estimator.coef_)
    intercept = scale * np.atleast_1d(estimator.intercept_) + problem.target_center
    return Model(
        kind=problem.kind,
        target=problem.target,
        classes=problem.classes,
        naming=problem.naming,
        features=problem.features,
        center=tuple(problem.center.tolist()),
        scale=tuple(problem.scale.tolist()),
        coef=tuple(map(tuple, coef.tolist())),
        intercept=tuple(intercept.tolist()),
        radius=scale * float(estimator.radius),
        ridge=problem.weight_unit * float(estimator.ridge),
    )


def _proofs(problem: Design, estimator: Any) -> tuple[Proof, ...]:
    """Loss and ridge term grow with the weights' unit and the square of the target's, the multiplier with both."""
    unit, weight = problem.target_scale, problem.weight_unit
    labels = problem.classes if len(problem.classes) > 2 else problem.classes[1:] or (None,)
    columns = (estimator.objective_, estimator.dual_gap_, estimator.multiplier_, estimator.n_iter_)
    return tuple(
        Proof(
            label=label,
            value=weight * unit**2 * float(value),
            gap=weight * unit**2 * float(gap),
            relative_gap=float(gap) / max(1.0, abs(float(value))),
            multiplier=weight * unit * float(multiplier),
            iterations=int(iterations),
        )
        for label, value, gap, multiplier, iterations in zip(labels, *map(np.atleast_1d, columns), strict=True)
    )


def coefficients_within(proof: Proof, ridge: float) -> float:
    """How far, in the 2-norm of standardised coefficients, the best ones can be: sqrt(gap / ridge)."""
    return math.sqrt(max(proof.gap, 0.0) / ridge)
