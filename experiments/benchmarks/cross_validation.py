"""Time of a whole cross-validation on the lasso and the logistic lasso: ours, glmnet, adelie and scikit-learn.

Run: CONDGRAD_DATA=folder python -m experiments bench cross_validation [-- --data colon prostate --points 50 --folds 5]

All get the same numbers of folds and of points on the path, an intercept, and the same features, which none
standardises. Ours take radii and the others penalties of |x|_1: the penalties fall geometrically from that of x = 0, to
a hundredth for more features than samples and else to a thousandth, and the radii are the norms of their solutions, so
that on all samples both have the same solutions. The clock has what a user calls: `fit` of our `...CV`, of glmnet's
estimators, of scikit-learn's `LassoCV` and `LogisticRegressionCV` (saga), and adelie's `cv_grpnet`, which makes no fit
to all samples. Times are CPU milliseconds on one thread, the best of several runs; a ratio above 1 says how many times
longer than ours.

All have their own default tolerances. "Error" is what these lead to: how far the worst point of the path on all samples
is above the minimum of its own problem, as a share of the loss of the null model; minima come from certified runs. What
ours prove of themselves is beside it, the largest gap of the fits of the search in the same unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LassoCV, LogisticRegression, LogisticRegressionCV, lasso_path
from sklearn.model_selection import StratifiedKFold

import condgrad as cg
from condgrad.linear_model.cross_validation import CHOOSING_TOL
from experiments.benchmarks import run, show
from experiments.benchmarks.elastic_net import load
from experiments.clock import OutOfTime, best_time, capped, clocked, one_thread, quiet

DATA = ("colon", "lymphoma62", "lymphoma96", "prostate", "breast_cancer", "digits")
LOSSES = ("logistic", "least-squares")
ESTIMATORS: dict[str, Any] = {
    "logistic": cg.linear_model.ConstrainedLogisticRegressionCV,
    "least-squares": cg.linear_model.ConstrainedElasticNetCV,
}
SMOOTH: dict[str, Any] = {"logistic": cg.smooth.Logistic, "least-squares": cg.smooth.LeastSquares}
WIDE_RATIO, TALL_RATIO = 0.01, 0.001
"""The last penalty, as a share of the first."""
FINE = 400
"""Radii among which those of the wanted penalties are found by interpolation."""


def labelled(name: str) -> tuple[Any, Any]:
    """Features and labels of +1 and -1."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return cg.datasets.standardize(X), np.where(y > 0, 1.0, -1.0)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, np.where(y >= 5, 1.0, -1.0)
    problem = load(name)
    return np.asfortranarray(problem.X), problem.y


@dataclass(frozen=True, eq=False)
class Study:
    """Data, folds, and the points of the path with their certified minima."""

    X: Any
    y: Any
    loss: str
    folds: Sequence[Any]
    radii: Any
    multipliers: Any
    minima: Any
    """Of loss + multiplier |x|_1."""

    @classmethod
    def of(cls, name: str, loss: str, points: int, folds: int) -> Study:
        X, y = labelled(name)
        ratio = WIDE_RATIO if X.shape[0] < X.shape[1] else TALL_RATIO
        f = SMOOTH[loss](X, y, intercept=True)
        steepest = float(np.abs(f.at(np.zeros(X.shape[1])).gradient).max())
        wanted = steepest * np.geomspace(1.0, ratio, points)
        first = cg.linear_model.path(X, y, loss=loss, ridge=0.0, n_radii=FINE, tol=1e-6)
        reached = np.maximum.accumulate(first.multipliers[::-1])
        radii = np.interp(wanted[::-1], [*reached, steepest], [*first.radii[::-1], 0.0])[::-1]
        exact = cg.linear_model.path(X, y, loss=loss, ridge=0.0, radii=radii, tol=1e-8)
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y))
        minima = exact.values + exact.multipliers * np.abs(exact.coefs).sum(axis=1)
        return cls(X, y, loss, splits, exact.radii, exact.multipliers, minima)

    @property
    def null_loss(self) -> float:
        """That of the best intercept alone."""
        return float(
            SMOOTH[self.loss](self.X, self.y, intercept=True).at(np.zeros(self.X.shape[1])).value
        )

    def error(self, coefs: Any, *, penalised: bool) -> float:
        """Of the worst of some coefficients, a row for each point; the intercepts are at their best for all."""
        f = SMOOTH[self.loss](self.X, self.y, intercept=True)
        values = np.array([f.at(np.ascontiguousarray(x)).value for x in coefs])
        norms = np.abs(coefs).sum(axis=1) if penalised else self.radii
        return float((values + self.multipliers * norms - self.minima).max() / self.null_loss)


class Contestant:
    """A cross-validation that can be timed, and the path that it makes on all samples."""

    name: str
    package: str
    losses: Sequence[str] = LOSSES

    def __init__(self, study: Study) -> None:
        self.study = study
        self.penalties = study.multipliers / len(study.y)
        """Of the mean loss."""

    def cross_validate(self) -> Any:
        raise NotImplementedError

    def coefs(self) -> Any:
        """A row for each point."""
        raise NotImplementedError

    def proved(self) -> float | None:
        """The largest gap, as a share of the loss of the null model, where there is one."""
        return None

    def error(self) -> float:
        return self.study.error(self.coefs(), penalised=True)


class Ours(Contestant):
    """Certified, and constrained."""

    name, package = "condgrad", "condgrad"

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.cross_validate()  # compiles, on a machine where that was not done yet

    def cross_validate(self) -> Any:
        study = self.study
        return ESTIMATORS[study.loss](radii=study.radii, ridges=[0.0], cv=study.folds).fit(
            study.X, study.y
        )

    def _path(self) -> Any:
        study = self.study
        options: dict[str, Any] = {
            "loss": study.loss,
            "radii": study.radii,
            "ridge": 0.0,
            "tol": CHOOSING_TOL,
        }
        return cg.linear_model.path(study.X, study.y, **options)

    def error(self) -> float:
        return self.study.error(self._path().coefs, penalised=False)

    def proved(self) -> float | None:
        return float(self._path().gaps.max() / self.study.null_loss)


class Glmnet(Contestant):
    """python-glmnet, which makes a path on all samples first."""

    name, package = "python-glmnet", "glmnet"

    def _estimator(self, folds: int) -> Any:
        import glmnet

        kind = glmnet.LogitNet if self.study.loss == "logistic" else glmnet.ElasticNet
        return kind(lambda_path=self.penalties, standardize=False, n_splits=folds)

    def cross_validate(self) -> Any:
        return self._estimator(len(self.study.folds)).fit(self.study.X, self.study.y)

    def coefs(self) -> Any:
        found = self._estimator(0).fit(self.study.X, self.study.y).coef_path_
        return found.reshape(-1, found.shape[-1]).T


class Adelie(Contestant):
    """adelie, which takes the ratio of the last penalty to the first."""

    name, package = "adelie", "adelie"

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        import adelie

        self.adelie = adelie
        self.X = adelie.matrix.dense(np.asfortranarray(study.X), method="naive", n_threads=1)
        if study.loss == "logistic":
            self.glm = adelie.glm.binomial((study.y > 0).astype(float), dtype=np.float64)
        else:
            self.glm = adelie.glm.gaussian(study.y, dtype=np.float64)

    def cross_validate(self) -> Any:
        return self.adelie.cv_grpnet(
            self.X,
            self.glm,
            n_folds=len(self.study.folds),
            lmda_path_size=len(self.penalties),
            min_ratio=float(self.penalties[-1] / self.penalties[0]),
            seed=0,
            progress_bar=False,
        )

    def coefs(self) -> Any:
        options: dict[str, Any] = {"early_exit": False, "progress_bar": False}
        return self.adelie.grpnet(
            self.X, self.glm, lmda_path=self.penalties, **options
        ).betas.toarray()


class Sklearn(Contestant):
    """LassoCV, and LogisticRegressionCV with saga."""

    name, package = "scikit-learn", "sklearn"

    def cross_validate(self) -> Any:
        study = self.study
        if study.loss == "least-squares":
            return LassoCV(alphas=self.penalties, cv=study.folds).fit(study.X, study.y)
        options: dict[str, Any] = {
            "Cs": 1.0 / study.multipliers,
            "l1_ratios": (1.0,),
            "solver": "saga",
        }
        return LogisticRegressionCV(cv=study.folds, scoring="neg_log_loss", **options).fit(
            study.X, study.y
        )

    def coefs(self) -> Any:
        study = self.study
        if study.loss == "least-squares":
            X, y = study.X - study.X.mean(axis=0), study.y - study.y.mean()
            return lasso_path(X, y, alphas=self.penalties)[1].T
        model = LogisticRegression(l1_ratio=1.0, solver="saga", warm_start=True)
        fitted = (model.set_params(C=1.0 / mu).fit(study.X, study.y) for mu in study.multipliers)
        return np.array([each.coef_[0] for each in fitted])


CONTESTANTS = (Ours, Glmnet, Adelie, Sklearn)


def rows_of(study: Study, cap: float) -> Iterator[dict[str, Any]]:
    """What each package that is there takes, and how good it is."""
    ours: float | None = None
    for kind in CONTESTANTS:
        if not find_spec(kind.package):
            continue
        with quiet():
            contestant = kind(study)
            seconds = seconds_of(contestant.cross_validate, cap)
            error, proved = (
                (None, None) if seconds is None else (contestant.error(), contestant.proved())
            )
        if kind is Ours:
            ours = seconds
        yield {
            "package": kind.name,
            "ms": None if seconds is None else 1e3 * seconds,
            "ratio": None if seconds is None or ours is None else seconds / ours,
            "error": error,
            "proved": proved,
        }


def seconds_of(work: Callable[[], Any], cap: float) -> float | None:
    """The best of several runs after a first one, which may compile; None where that takes longer than the cap.

    A first run that takes so much CPU time, in less time on the clock, is the only one.
    """
    try:
        with capped(cap):
            first, _ = clocked(work)
    except OutOfTime:
        return None
    return best_time(lambda: work, budget=min(3.0, cap)) if first < cap else first


def main(
    *,
    data: tuple[str, ...] = DATA,
    losses: tuple[str, ...] = LOSSES,
    points: Annotated[int, "penalties, or radii"] = 50,
    folds: int = 5,
    cap: Annotated[float, "seconds that a first run of a package may take"] = 30.0,
) -> None:
    with one_thread():
        for name in data:
            for loss in losses:
                try:
                    study = Study.of(name, loss, points, folds)
                except OSError as error:
                    print(f"\n{name} is left out: {error}")
                    break
                print(f"\n{name}, {loss}: {study.X.shape[0]} samples, {study.X.shape[1]} features")
                show(list(rows_of(study, cap)))


if __name__ == "__main__":
    run(main)
