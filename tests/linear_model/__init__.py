"""Data, and the constrained problem as CVXPY states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy
import numpy as np

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedLinearSVC,
    ConstrainedLogisticRegression,
)

Array = Any
SINGLE = [ConstrainedElasticNet, ConstrainedLogisticRegression, ConstrainedLinearSVC]


def drawn(seed: int, samples: int = 20, features: int = 6) -> tuple[Array, Array]:
    """Features with a signal in the first two, and labels -1 and +1 that it does not separate."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, features)) + rng.standard_normal(features)
    y = np.where(
        X[:, 0] - X[:, 1] + 0.7 * rng.standard_normal(samples) > np.median(X[:, 0] - X[:, 1]),
        1.0,
        -1.0,
    )
    y[:2] = 1.0, -1.0
    return X, y


@dataclass(frozen=True)
class Judged:
    """The optimum of the constrained problem, as an interior-point method finds it."""

    value: float
    coef: Array
    intercept: float
    multiplier: float


def loss_of(kind: type, scores: Any, y: Array) -> Any:
    """The loss of each sample, as a CVXPY expression."""
    if issubclass(kind, ConstrainedElasticNet):
        return 0.5 * cvxpy.square(scores - y)
    margin = cvxpy.multiply(y, scores)
    return (
        cvxpy.logistic(-margin)
        if issubclass(kind, ConstrainedLogisticRegression)
        else cvxpy.square(cvxpy.pos(1 - margin))
    )


def judge(
    kind: type,
    X: Array,
    y: Array,
    *,
    radius: float,
    ridge: float,
    weights: Array = None,
    intercept: bool = True,
) -> Judged:
    coef, b = cvxpy.Variable(X.shape[1]), cvxpy.Variable()
    scores = X @ coef + b if intercept else X @ coef
    weights = np.ones(len(y)) if weights is None else weights
    ball = cvxpy.norm1(coef) <= radius
    objective = weights @ loss_of(kind, scores, y) + ridge * cvxpy.sum_squares(coef)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [ball])
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return Judged(
        problem.value, coef.value, float(b.value) if intercept else 0.0, float(ball.dual_value)
    )


def objective(kind: type, model: Any, X: Array, y: Array, weights: Array = None) -> float:
    """The objective at a model's coefficients, with its own intercept, written anew."""
    scores = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
    weights = np.ones(len(y)) if weights is None else weights
    if issubclass(kind, ConstrainedElasticNet):
        losses = 0.5 * (scores - y) ** 2
    elif issubclass(kind, ConstrainedLogisticRegression):
        losses = np.logaddexp(0.0, -y * scores)
    else:
        losses = np.maximum(0.0, 1.0 - y * scores) ** 2
    return float(weights @ losses + model.ridge * (model.coef_**2).sum())
