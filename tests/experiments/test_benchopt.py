"""The solver files for benchopt, and its suites off-line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from experiments.benchmarks import benchopt
from experiments.benchopt import lasso, lasso_path, logreg_l1


@pytest.mark.parametrize("suite", ["lasso", "logreg_l1", "lasso_path"])
def test_solvers_reach_the_same_objective(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn is the judge; the last tolerance of each leaves next to nothing."""
    two = {name: benchopt.SOLVERS[name] for name in ("condgrad", "scikit-learn")}
    monkeypatch.setattr(benchopt, "SOLVERS", two)
    monkeypatch.setattr(benchopt, "TOLERANCES", (1e-1, 1e-8))
    rows = [row for row in benchopt.rows_of(["30x40"], [0.1]) if row["suite"] == suite]
    assert [row["solver"] for row in rows] == list(two)
    for row in rows:
        assert row["gaps"][-1] <= 1e-6
        assert 0.0 < benchopt.milliseconds_to(1e-5, row) < np.inf
    (times,) = benchopt.times_of(rows, 1e-5)
    assert times["condgrad ms"] == benchopt.milliseconds_to(1e-5, rows[0])


def test_objectives_are_those_of_the_suites() -> None:
    for suite in ("lasso", "logreg_l1"):
        problem = benchopt.instance(suite, "20x5", 0.5)
        beta = np.random.default_rng(0).standard_normal(5)
        scores = problem.X @ beta
        losses: Any = 0.5 * (problem.y - scores) ** 2
        if suite == "logreg_l1":
            losses = np.log(1.0 + np.exp(-problem.y * scores))
        expected = losses.sum() + problem.lambdas[0] * np.abs(beta).sum()
        assert problem.values(beta[:, None])[0] == pytest.approx(expected)
        # at the largest penalty nothing is left
        top = benchopt.instance(suite, "20x5", 1.0)
        assert not benchopt.condgrad_solver(top)(1e-9).any()


def test_intercepts_are_the_last_entries() -> None:
    problem = benchopt.instance("lasso", "40x6", 0.1)
    X, y = problem.X, problem.y + 3.0
    lambdas = float(np.abs(X.T @ (y - y.mean())).max()) * np.array([0.1, 0.5, 0.2])
    judges = [Lasso(lmbd / 40.0, tol=1e-12).fit(X, y) for lmbd in lambdas]
    expected = [np.append(judge.coef_, judge.intercept_) for judge in judges]
    single = lasso.Solver()
    single.set_objective(X, y, float(lambdas[0]), fit_intercept=True)
    single.run(1e-10)
    np.testing.assert_allclose(single.get_result()["beta"], expected[0], atol=1e-5)
    path = lasso_path.Solver()
    path.set_objective(X, y, lambdas, fit_intercept=True)
    path.run(1e-10)
    np.testing.assert_allclose(path.get_result()["coefs"], np.stack(expected, axis=1), atol=1e-5)


def test_any_tolerance_will_do() -> None:
    """benchopt begins with an infinite one."""
    problem = benchopt.instance("logreg_l1", "20x5", 0.1)
    solver = logreg_l1.Solver()
    solver.set_objective(problem.X, problem.y, float(problem.lambdas[0]))
    solver.run(np.inf)
    assert solver.get_result()["beta"].shape == (5,)
