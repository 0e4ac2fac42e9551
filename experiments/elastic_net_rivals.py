"""Packages that solve the penalised form of the elastic net, F + multiplier |x|_1.

Divided by the number of samples, and with

    strength = (multiplier + 2 ridge) / samples,    share = multiplier / (multiplier + 2 ridge),

this is the mean loss + strength (share |x|_1 + (1 - share)/2 |x|_2^2), which all of them write in the same way. What
can be built before a solve is built when a rival is made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from experiments.clock import OutOfTime
from experiments.problems import ElasticNetProblem

# for the libraries that are loaded later, with a rival; threadpoolctl minds those that are here already
os.environ["OMP_NUM_THREADS"] = "1"
if (
    "numba" not in sys.modules
):  # which refuses to compile once its threads run and the number is another
    os.environ["NUMBA_NUM_THREADS"] = "1"


class Rival:
    """A solver of the penalised form on one problem; its efforts are tolerances, the loosest first."""

    name: str
    package: str
    efforts: Sequence[float] = tuple(10.0 ** (-0.5 * k) for k in range(25))

    def __init__(self, problem: ElasticNetProblem) -> None:
        self.problem = problem
        self.samples, self.features = problem.X.shape
        self.forget()

    def fit(self, multiplier: float, effort: float) -> Any:
        """The coefficients, from those of the fit before where the package allows it."""
        ridge = 2.0 * self.problem.ridge
        return self.solved(
            (multiplier + ridge) / self.samples, multiplier / (multiplier + ridge), effort
        )

    def solved(self, strength: float, share: float, effort: float) -> Any:
        raise NotImplementedError

    def forget(self) -> None:
        """Let the next fit start from nothing."""


class ProxNewton(Rival):
    """skglm with its proximal Newton method; Xw is kept with w for warm starts."""

    name, package, solver = "skglm ProxNewton", "skglm", "ProxNewton"

    def __init__(self, problem: ElasticNetProblem) -> None:
        super().__init__(problem)
        from skglm import datafits, penalties, solvers
        from skglm.utils.jit_compilation import compiled_clone

        self.make_solver = getattr(solvers, self.solver)
        self.datafit = compiled_clone(datafits.Logistic())
        self.penalty = compiled_clone(penalties.L1_plus_L2(1.0, 0.5))

    def forget(self) -> None:
        self.w, self.Xw = np.zeros(self.features), np.zeros(self.samples)

    def solved(self, strength: float, share: float, effort: float) -> Any:
        self.penalty.alpha, self.penalty.l1_ratio = strength, share
        # its tolerance is on the subgradient of the mean loss
        solver = self.make_solver(tol=effort, max_iter=100, fit_intercept=False, warm_start=True)
        # both arrays are worked on in place: they end at the solution, where a warm start begins
        parts = self.problem.by_columns, self.problem.y, self.datafit, self.penalty, self.w, self.Xw
        self.w, *_ = solver.solve(*parts, run_checks=False)
        return self.w.copy()


class AndersonCD(ProxNewton):
    """skglm with Anderson-accelerated coordinate descent."""

    name, solver = "skglm AndersonCD", "AndersonCD"


class Glmnet(Rival):
    """The compiled routine itself: its class checks and copies the data at each fit, which would count against it."""

    name, package = "python-glmnet", "glmnet"

    def __init__(self, problem: ElasticNetProblem) -> None:
        super().__init__(problem)
        from glmnet import _glmnet

        self.routines, X = _glmnet, problem.by_columns
        self.labels = np.asfortranarray(
            np.column_stack([problem.y > 0, problem.y <= 0]), dtype=float
        )
        self.bounds = np.asfortranarray(np.tile([[-np.inf], [np.inf]], self.features))
        self.parts = (X.data, X.indptr + 1, X.indices + 1) if problem.sparse else (X,)

    def solved(self, strength: float, share: float, effort: float) -> Any:
        n, path, last = self.features, np.array([strength]), (0, 0, 100_000, 0)
        # the routine works on these in place, though not on data that it need not standardise
        labels, offset = self.labels.copy(order="F"), np.zeros((self.samples, 2), order="F")
        given = (*self.parts, labels, offset, 0, np.ones(n), self.bounds.copy(order="F"))
        if self.problem.sparse:
            start = (share, self.samples, n, 1, *given)
            found = self.routines.splognet(*start, n, n + 1, 1.0, path, effort, 1, *last)
        else:
            found = self.routines.lognet(share, 1, *given, n + 1, 1.0, path, effort, n, 1, *last)
        _, _, entries, places, counts, *_ = found
        return self.routines.lsolns(n, entries, places, counts)[:, 0, 0]


class Adelie(Rival):
    """Always from zero: its warm start fails under the NumPy 2 that we need."""

    name, package = "adelie", "adelie"

    def __init__(self, problem: ElasticNetProblem) -> None:
        super().__init__(problem)
        import adelie

        self.solve = adelie.grpnet
        matrix = adelie.matrix.sparse if problem.sparse else adelie.matrix.dense
        self.X = matrix(problem.by_columns, method="naive", n_threads=1)
        self.glm = adelie.glm.binomial((problem.y > 0).astype(float), dtype=np.float64)

    def solved(self, strength: float, share: float, effort: float) -> Any:
        options: dict[str, Any] = {
            "tol": effort,
            "irls_tol": effort,
            "intercept": False,
            "early_exit": False,
            "progress_bar": False,
        }
        state = self.solve(self.X, self.glm, alpha=share, lmda_path=np.array([strength]), **options)
        if state.betas.shape[0] == 0:  # it takes an alarm for the end of its path
            raise OutOfTime
        return state.betas[-1].toarray().ravel()


class Saga(Rival):
    """The one solver of scikit-learn's LogisticRegression that takes both penalties.

    Its tolerance says little of the objective: its efforts are passes over the data.
    """

    name, package = "scikit-learn saga", "sklearn"
    efforts = tuple(dict.fromkeys(round(1.5**k) for k in range(2, 36)))

    def forget(self) -> None:
        from sklearn.linear_model import LogisticRegression

        options: dict[str, Any] = {
            "fit_intercept": False,
            "tol": 0.0,
            "warm_start": True,
            "random_state": 0,
        }
        self.model = LogisticRegression(solver="saga", l1_ratio=0.5, **options)

    def solved(self, strength: float, share: float, effort: float) -> Any:
        self.model.set_params(
            C=1.0 / (strength * self.samples), l1_ratio=share, max_iter=int(effort)
        )
        return self.model.fit(self.problem.by_rows, self.problem.y).coef_.ravel()


def installed_rivals() -> list[type[Rival]]:
    """Those whose package is there."""
    return [
        rival
        for rival in (ProxNewton, AndersonCD, Glmnet, Adelie, Saga)
        if find_spec(rival.package)
    ]
