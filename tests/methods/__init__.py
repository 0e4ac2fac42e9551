"""Small problems for the methods that project, with CVXPY as the judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import condgrad as cg

Array = np.ndarray


class Judged(NamedTuple):
    """f, g, and what Clarabel says F* is."""

    f: Any
    g: Any
    least: float

    @property
    def scale(self) -> float:
        return max(1.0, abs(self.least))


def data(seed: int, m: int = 30, n: int = 12) -> tuple[Array, Array, Array]:
    """A matrix, a target, labels."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    return A, y, np.where(y + A[:, 0] > 0, 1.0, -1.0)


SMOOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "squares": (cg.smooth.LeastSquares, lambda z, y: 0.5 * cp.sum_squares(z - y)),
    "logistic": (cg.smooth.Logistic, lambda z, y: cp.sum(cp.logistic(-cp.multiply(y, z)))),
    "squared hinge": (
        cg.smooth.SquaredHinge,
        lambda z, y: cp.sum_squares(cp.pos(1.0 - cp.multiply(y, z))),
    ),
}
SETS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "l1": (cg.sets.L1Ball(0.9), lambda x: [cp.norm1(x) <= 0.9]),
    "l2": (cg.sets.L2Ball(0.4), lambda x: [cp.norm2(x) <= 0.4]),
    "box": (cg.sets.Box(-0.05, 0.2), lambda x: [x >= -0.05, x <= 0.2]),
    "simplex": (cg.sets.Simplex(12), lambda x: [x >= 0, cp.sum(x) == 1]),
}
SEEDS = {pair: 100 + i for i, pair in enumerate(product(SMOOTH, SETS))}
PROBLEMS = list(product(SMOOTH, SETS, (0.0, 1e-6, 0.5)))
"""Names of f and P, and the weight of the ridge."""


@cache
def judged(smooth: str, on: str, ridge: float) -> Judged:
    """A pair of f and g (none where the ridge is 0), solved by Clarabel."""
    A, target, labels = data(SEEDS[smooth, on])
    y = target if smooth == "squares" else labels
    loss, expression = SMOOTH[smooth]
    P, constraints = SETS[on]
    x = cp.Variable(12)
    problem = cp.Problem(
        cp.Minimize(expression(A @ x, y) + ridge * cp.sum_squares(x)), constraints(x)
    )
    problem.solve(solver="CLARABEL")
    g = cg.simple.Ridge(ridge, on=P) if ridge else cg.simple.Zero(on=P)
    return Judged(loss(A, y), g, float(problem.value))


def microarray(seed: int, m: int = 60, n: int = 300) -> tuple[Array, Array]:
    """Few standardised samples of many features, ten of which tell the classes apart."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1.0, 1.0], m)
    Z = rng.standard_normal((m, n))
    Z[:, :10] += 0.5 * np.outer(labels, rng.choice([-1.0, 1.0], 10))
    return (Z - Z.mean(0)) / Z.std(0), labels


def assert_lawful(result: Any, problem: Judged) -> None:
    """lower_bound <= F* <= value in every row and in the answer, up to what Clarabel knows of F*."""
    slack = 1e-7 * problem.scale
    assert (result.trace["lower_bound"] <= problem.least + slack).all()
    assert (result.trace["value"] >= problem.least - slack).all()
    assert result.lower_bound <= problem.least + slack
    assert problem.least - slack <= result.value <= problem.least + slack
    assert problem.g.on.contains(result.x, 1e-12)
