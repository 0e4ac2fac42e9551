"""benchopt's suites lasso, lasso_path and logreg_l1 off-line: the gap against time, beside what is installed.

Run: CONDGRAD_DATA=folder python -m experiments bench benchopt [-- --data 200x2000 colon --regs 0.1]

The objectives are those of the suites, written down anew: without an intercept, with a penalty that is a share (`reg`)
of the smallest at which all coefficients are 0, and for the path 100 penalties down to a hundredth of it. Each solver is
asked for one tolerance after the other; its time is the CPU milliseconds of a call from scratch on one thread, with what
it compiles outside the clock, and its gap is F above the lowest that anybody reached, as a share of F at 0: for a path
the largest of all penalties. Data are `SAMPLESxFEATURES` of correlated normal features with a tenth of them in the
signal, as the suites simulate them, or sets of the folder.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse

from experiments.benchmarks import run, shown
from experiments.benchmarks.elastic_net import load
from experiments.benchopt import lasso, lasso_path, logreg_l1
from experiments.clock import clocked, one_thread

DATA = ("200x2000", "colon", "basehock")
REGS = (0.1, 0.02)
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
LEVEL = 1e-6
"""The gap whose time the table has."""
LEAST_GAP = 1e-12
"""Gaps below this are rounding."""
MOST_SECONDS = 1.0
"""A solver that has taken longer is not asked for more digits."""

Solve = Callable[[float], Any]
"""Coefficients, a column a penalty, from a tolerance."""


class Instance(NamedTuple):
    """A problem of a suite."""

    suite: str
    X: Any
    y: Any
    lambdas: Any

    def values(self, coefs: Any) -> Any:
        """The objective for each penalty."""
        scores = self.X @ coefs
        if self.suite == "logreg_l1":
            losses = np.logaddexp(0.0, -self.y[:, None] * scores).sum(axis=0)
        else:
            losses = 0.5 * ((self.y[:, None] - scores) ** 2).sum(axis=0)
        return losses + self.lambdas * np.abs(coefs).sum(axis=0)


def data_of(name: str, *, has_labels: bool) -> tuple[Any, Any]:
    """Simulated data of a shape, or those of the folder."""
    samples, is_shape, features = name.partition("x")
    if not (is_shape and samples.isdigit()):
        data = load(name)
        X = data.by_columns
        X = scipy.sparse.csc_matrix(X) if data.sparse else np.asfortranarray(X)
        return X, np.asarray(data.y, dtype=np.float64)
    m, n = int(samples), int(features)
    rng = np.random.default_rng(0)
    X = np.empty((m, n), order="F")
    X[:, 0] = rng.standard_normal(m)
    for j in range(1, n):  # neighbours have a correlation of .6
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * rng.standard_normal(m)
    in_signal = rng.random(n) < 0.1
    in_signal[n // 2] = True
    signal = X @ np.where(in_signal, rng.standard_normal(n), 0.0)
    noise = rng.standard_normal(m)
    y = signal + noise * float(np.linalg.norm(signal)) / (3.0 * float(np.linalg.norm(noise)))
    return X, np.where(y > 0.0, 1.0, -1.0) if has_labels else y


def instance(suite: str, name: str, reg: float) -> Instance:
    X, y = data_of(name, has_labels=suite == "logreg_l1")
    top = float(np.abs(X.T @ y).max()) / (2.0 if suite == "logreg_l1" else 1.0)
    lambdas = top * np.geomspace(1.0, 1e-2, 100) if suite == "lasso_path" else np.array([reg * top])
    return Instance(suite, X, y, lambdas)


def condgrad_solver(problem: Instance) -> Solve:
    """By the files for benchopt."""
    solver: Any
    if problem.suite == "lasso_path":
        solver = lasso_path.Solver()
        solver.set_objective(problem.X, problem.y, problem.lambdas)
    else:
        solver = lasso.Solver() if problem.suite == "lasso" else logreg_l1.Solver()
        solver.set_objective(problem.X, problem.y, float(problem.lambdas[0]))

    def solve(tol: float) -> Any:
        solver.run(tol)
        result = solver.get_result()
        return result["coefs"] if "coefs" in result else result["beta"][:, None]

    return solve


def sklearn_solver(problem: Instance) -> Solve:
    from sklearn.linear_model import LogisticRegression
    from sklearn.linear_model import lasso_path as path

    X, y, lambdas = problem.X, problem.y, problem.lambdas

    def solve(tol: float) -> Any:
        if problem.suite == "logreg_l1":
            options: dict[str, Any] = {"fit_intercept": False, "max_iter": 10_000}
            penalty = {"l1_ratio": 1.0, "C": 1.0 / lambdas[0], "solver": "liblinear"}
            return LogisticRegression(tol=tol, **penalty, **options).fit(X, y).coef_.T
        return path(X, y, alphas=lambdas / len(y), tol=tol, max_iter=100_000)[1]

    return solve


def celer_solver(problem: Instance) -> Solve:
    import celer

    name = "logreg" if problem.suite == "logreg_l1" else "lasso"
    alphas = problem.lambdas / (1.0 if name == "logreg" else len(problem.y))
    return lambda tol: celer.celer_path(problem.X, problem.y, name, alphas=alphas, tol=tol)[1]


@cache
def skglm_parts(is_logistic: bool) -> tuple[Any, Any]:
    """Its loss and its penalty, which are compiled once."""
    from skglm import datafits, penalties
    from skglm.utils.jit_compilation import compiled_clone

    loss = datafits.Logistic() if is_logistic else datafits.Quadratic()
    return compiled_clone(loss), compiled_clone(penalties.L1(1.0))


def skglm_solver(problem: Instance) -> Solve:
    from skglm import solvers

    is_logistic = problem.suite == "logreg_l1"
    make = solvers.ProxNewton if is_logistic else solvers.AndersonCD
    datafit, penalty = skglm_parts(is_logistic)

    def solve(tol: float) -> Any:
        solver = make(tol=tol, fit_intercept=False, max_iter=200, warm_start=True)
        found = np.zeros((problem.X.shape[1], len(problem.lambdas)))
        w = np.zeros(problem.X.shape[1])
        scores = np.zeros(len(problem.y))
        for k, lmbd in enumerate(problem.lambdas):
            penalty.alpha = lmbd / len(problem.y)
            w = solver.solve(problem.X, problem.y, datafit, penalty, w.copy(), scores)[0]
            scores = np.asarray(problem.X @ w)
            found[:, k] = w
        return found

    return solve


def cyanure_solver(problem: Instance) -> Solve:
    """Its own choice of a solver, one penalty after the other."""
    from cyanure import estimators

    is_logistic = problem.suite == "logreg_l1"
    make = estimators.L1Logistic if is_logistic else estimators.Lasso
    options = {"fit_intercept": False, "verbose": False, "n_threads": 1, "max_iter": 10_000}
    X = problem.X.tocsr() if scipy.sparse.issparse(problem.X) else problem.X

    def solve(tol: float) -> Any:
        found = np.zeros((problem.X.shape[1], len(problem.lambdas)))
        for k, lmbd in enumerate(problem.lambdas):
            model = make(lambda_1=lmbd / len(problem.y), tol=tol, **options)
            found[:, k] = np.ravel(model.fit(X, problem.y).coef_)
        return found

    return solve


def adelie_solver(problem: Instance) -> Solve:
    """With every penalty asked for, as it would end a path early."""
    import adelie

    is_logistic = problem.suite == "logreg_l1"
    glm = adelie.glm.binomial if is_logistic else adelie.glm.gaussian
    y = (problem.y > 0.0).astype(np.float64) if is_logistic else problem.y
    is_sparse = scipy.sparse.issparse(problem.X)
    matrix = adelie.matrix.sparse if is_sparse else adelie.matrix.dense

    def solve(tol: float) -> Any:
        exact = {"tol": tol * 1e-3, **({"irls_tol": tol} if is_logistic else {})}
        found = adelie.grpnet(
            matrix(problem.X, method="naive", n_threads=1),
            glm(y, dtype=np.float64),
            lmda_path=problem.lambdas / len(y),
            intercept=False,
            early_exit=False,
            progress_bar=False,
            **exact,
        )
        return found.betas.toarray().T

    return solve


SOLVERS: dict[str, tuple[str, Callable[[Instance], Solve]]] = {
    "condgrad": ("condgrad", condgrad_solver),
    "scikit-learn": ("sklearn", sklearn_solver),
    "skglm": ("skglm", skglm_solver),
    "celer": ("celer", celer_solver),
    "adelie": ("adelie", adelie_solver),
    "cyanure": ("cyanure", cyanure_solver),
}
"""By name: the package that it needs, and what makes it. blitzl1 0.0.2 fails under NumPy 2."""


def curve(problem: Instance, solve: Solve) -> list[tuple[float, Any]]:
    """Seconds and values for one tolerance after the other."""
    solve(TOLERANCES[0])  # what is compiled is compiled now
    found: list[tuple[float, Any]] = []
    for tol in TOLERANCES:
        call = partial(solve, tol)
        seconds, coefs = min((clocked(call) for _ in range(2)), key=lambda one: one[0])
        found.append((seconds, problem.values(coefs)))
        if seconds > MOST_SECONDS:
            break
    return found


def curves_of(problem: Instance) -> dict[str, list[tuple[float, float]]]:
    """By solver: seconds and gaps."""
    found = {
        name: curve(problem, make(problem))
        for name, (package, make) in SOLVERS.items()
        if find_spec(package)
    }
    least = np.min([values for each in found.values() for _, values in each], axis=0)
    null = problem.values(np.zeros((problem.X.shape[1], len(problem.lambdas))))
    return {
        name: [(seconds, float(((values - least) / null).max())) for seconds, values in each]
        for name, each in found.items()
    }


def rows_of(data: Sequence[str], regs: Sequence[float]) -> Iterator[dict[str, Any]]:
    """A row for each problem and solver, with its milliseconds and gaps: all of the lasso, of logreg_l1, of the path."""
    problems = [
        (suite, name, reg) for suite in ("lasso", "logreg_l1") for name in data for reg in regs
    ]
    problems += [("lasso_path", name, 0.0) for name in data]
    for suite, name, reg in problems:
        for solver, each in curves_of(instance(suite, name, reg)).items():
            times = [1e3 * seconds for seconds, _ in each]
            gaps = [max(gap, LEAST_GAP) for _, gap in each]
            row = {"suite": suite, "data": name, "reg": reg, "solver": solver}
            yield {**row, "ms": times, "gaps": gaps}


def milliseconds_to(level: float, row: Mapping[str, Any]) -> float:
    pairs = zip(row["ms"], row["gaps"], strict=True)
    return min((spent for spent, gap in pairs if gap <= level), default=math.inf)


def times_of(rows: Iterable[Mapping[str, Any]], level: float) -> Iterator[dict[str, Any]]:
    """A row for each problem: the milliseconds of its solvers."""
    for (suite, name, reg), own in groupby(rows, itemgetter("suite", "data", "reg")):
        times = {f"{row['solver']} ms": milliseconds_to(level, row) for row in own}
        yield {"suite": suite, "data": name, "reg": reg, **times}


def main(
    *,
    data: Annotated[tuple[str, ...], "shapes such as 500x5000, or sets of the folder"] = DATA,
    regs: Annotated[tuple[float, ...], "shares of the largest useful penalty"] = REGS,
) -> None:
    warnings.simplefilter("ignore")  # of loose tolerances
    with one_thread():
        shown(times_of(rows_of(data, regs), LEVEL))


if __name__ == "__main__":
    run(main)
