"""Time to 1e-6 of fits with an l1 penalty, beside skglm and celer.

Run: CONDGRAD_DATA=folder python -m experiments bench penalised [-- --data colon a9a --shares 5 20 100]

The problems are least squares of the labels and logistic regression, without an intercept, with l1 the penalty at
which the first coefficient leaves 0 over a share. Times are CPU milliseconds on one thread, the best of several runs.
Ours is a call of `minimize`, checks and a proof of 1e-6 included; theirs is the solver alone with the loosest
tolerance at which F is within 1e-6 of its least value, which they are not asked to prove. Compilation stays outside
the clock. Ratios are ours to theirs. A package that is not installed is left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import scipy.sparse

import condgrad as cg
from experiments.benchmarks import run, shown
from experiments.benchmarks.elastic_net import load
from experiments.clock import best_time, clocked, one_thread

LEVEL = 1e-6
TOLERANCES = tuple(10.0 ** (-0.5 * k) for k in range(3, 24))
MOST_SECONDS = 30.0
"""A rival that takes longer is given up."""

Solve = Callable[[float], Any]
"""Coefficients, from a tolerance."""


class Problem:
    """A loss of the labels and an l1 penalty."""

    def __init__(self, name: str, loss: str, share: float) -> None:
        data = load(name)
        X = data.by_columns
        self.X = scipy.sparse.csc_matrix(X) if data.sparse else np.asfortranarray(X)
        self.y = np.asarray(data.y, dtype=np.float64)
        self.loss = loss
        self.make = cg.smooth.LeastSquares if loss == "squares" else cg.smooth.Logistic
        slope = self.f.at(np.zeros(self.X.shape[1])).gradient
        self.l1 = float(np.abs(slope).max()) / share

    @property
    def f(self) -> Any:
        return self.make(self.X, self.y)

    def solved(self, tol: float) -> cg.Result:
        return cg.minimize(self.f, cg.simple.ElasticNet(self.l1), method="auto", tol=tol)

    def value(self, x: Any) -> float:
        return float(self.f.at(x).value + self.l1 * np.abs(x).sum())


def skglm_solver(problem: Problem) -> Solve:
    """Coordinate descent for least squares, a proximal Newton method for the logistic loss, as skglm advises."""
    from skglm import datafits, penalties, solvers
    from skglm.utils.jit_compilation import compiled_clone

    squares = problem.loss == "squares"
    datafit = compiled_clone(datafits.Quadratic() if squares else datafits.Logistic())
    penalty = compiled_clone(penalties.L1(problem.l1 / len(problem.y)))
    make = solvers.AndersonCD if squares else solvers.ProxNewton

    def solve(tol: float) -> Any:
        return make(tol=tol, fit_intercept=False, max_iter=200).solve(
            problem.X, problem.y, datafit, penalty
        )[0]

    return solve


def celer_solver(problem: Problem) -> Solve:
    import celer

    samples = len(problem.y)
    name, alpha = (
        ("lasso", problem.l1 / samples) if problem.loss == "squares" else ("logreg", problem.l1)
    )

    def solve(tol: float) -> Any:
        return celer.celer_path(problem.X, problem.y, name, alphas=np.array([alpha]), tol=tol)[1][
            :, 0
        ]

    return solve


RIVALS: dict[str, Callable[[Problem], Solve]] = {"skglm": skglm_solver, "celer": celer_solver}


def time_to_level(problem: Problem, solve: Solve, least: float) -> float:
    """CPU seconds with the loosest tolerance that reaches the level; infinite where none does."""
    solve(TOLERANCES[0])  # what is compiled is compiled now
    for tol in TOLERANCES:
        call = partial(solve, tol)
        seconds, x = clocked(call)
        if problem.value(x) <= least * (1.0 + LEVEL):
            return best_time(lambda call=call: call)  # type: ignore[misc]
        if seconds > MOST_SECONDS:
            break
    return math.inf


def row(name: str, loss: str, share: float, rivals: Sequence[str]) -> dict[str, Any]:
    problem = Problem(name, loss, share)
    exact = problem.solved(1e-10)
    ours = best_time(lambda: lambda: problem.solved(LEVEL))
    found: dict[str, Any] = {
        "data": name,
        "loss": loss,
        "share": share,
        "not 0": int(np.count_nonzero(exact.x)),
    }
    found["condgrad ms"] = 1e3 * ours
    for rival in rivals:
        theirs = time_to_level(problem, RIVALS[rival](problem), exact.value)
        found[f"{rival} ms"] = 1e3 * theirs
        found[f"ratio to {rival}"] = ours / theirs
    return found


def main(
    *,
    data: Annotated[tuple[str, ...], "sets of the folder, or shapes such as 200x10000"] = (
        "colon",
        "lymphoma62",
        "prostate",
        "basehock",
        "a9a",
    ),
    shares: Annotated[tuple[float, ...], "l1 is the largest useful penalty over these"] = (
        5.0,
        20.0,
        100.0,
    ),
) -> None:
    warnings.simplefilter("ignore")  # of loose tolerances
    rivals = [name for name in RIVALS if find_spec(name)]
    with one_thread():
        cases = [
            (name, loss, share)
            for name in data
            for loss in ("squares", "logistic")
            for share in shares
        ]
        rows = shown(row(*case, rivals) for case in cases)
    for rival in rivals:
        ratios = np.array([each[f"ratio to {rival}"] for each in rows])
        ratios = ratios[ratios > 0.0]
        mean = math.exp(np.log(ratios).mean())
        print(
            f"ratios to {rival}: geometric mean {mean:.2f}, {(ratios > 1.0).sum()} of {len(ratios)} above 1"
        )


if __name__ == "__main__":
    run(main)
