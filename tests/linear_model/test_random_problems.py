"""The three estimators on random problems, with all their options, against CVXPY.

Some problems at each run; all 500 by

    CONDGRAD_PROBLEMS=500 pytest tests/linear_model/test_random_problems.py
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy
import numpy as np
import pytest

from tests.linear_model import SINGLE, loss_of

PROBLEMS = int(os.environ.get("CONDGRAD_PROBLEMS", "100"))
JUDGED, JUDGED_ROUGHLY = 1e-6, 1e-3
"""How far CVXPY's own optimum may be off, as a share of the loss of the null model, and where it is not sure of it."""


@dataclass(frozen=True)
class RandomProblem:
    """Data and options, drawn by a number."""

    number: int

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.number)

    @cached_property
    def kind(self) -> Any:
        return SINGLE[self.number % 3]

    @cached_property
    def options(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "radius": float(10.0 ** rng.uniform(-2.0, 1.5)),
            "ridge": float(rng.choice([0.0, 1e-4, 0.1, 1.0])),
            "fit_intercept": bool(rng.random() < 0.6),
            "positive": bool(rng.random() < 0.25),
            "penalty_factors": rng.uniform(0.3, 3.0, self.shape[1]) if rng.random() < 0.3 else None,
        }

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(self.rng.integers(4, 30)), int(self.rng.integers(1, 40))

    @cached_property
    def data(self) -> tuple[Any, Any, Any]:
        """X, y and the weights, which are None for half of the problems."""
        rng, (m, n) = self.rng, self.shape
        X = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n) + rng.choice(
            [0.0, 1.0]
        ) * rng.standard_normal(n)
        signal = X @ (rng.standard_normal(n) * (rng.random(n) < 0.4)) + 0.5 * rng.standard_normal(m)
        y = signal if self.kind is SINGLE[0] else np.where(signal > np.median(signal), 1.0, -1.0)
        weights = None
        if rng.random() < 0.5:
            weights = rng.uniform(0.1, 2.0, m)
            weights[2 * (m // 3) :: 2] = 0.0
            y[:2], weights[:2] = (y[:2] if self.kind is SINGLE[0] else (1.0, -1.0)), 1.0
        if rng.random() < 0.2:
            X = X.astype(np.float32)
        return X, y, weights

    def judged(self) -> tuple[float, float]:
        """The optimum by an interior-point method, and how far it may be off."""
        X, y, weights = self.data
        X, options = X.astype(np.float64), self.options
        factors = (
            np.ones(X.shape[1])
            if options["penalty_factors"] is None
            else options["penalty_factors"]
        )
        scaled, b = cvxpy.Variable(X.shape[1], nonneg=options["positive"]), cvxpy.Variable()
        scores = (X / factors) @ scaled + (b if options["fit_intercept"] else 0.0)
        goal = (np.ones(len(y)) if weights is None else weights) @ loss_of(self.kind, scores, y)
        goal = goal + options["ridge"] * cvxpy.sum_squares(scaled)
        problem = cvxpy.Problem(cvxpy.Minimize(goal), [cvxpy.norm1(scaled) <= options["radius"]])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            problem.solve(solver=cvxpy.CLARABEL)
        return float(problem.value), JUDGED if problem.status == cvxpy.OPTIMAL else JUDGED_ROUGHLY


@pytest.mark.parametrize(
    "number",
    [
        *range(PROBLEMS // 3),
        *(pytest.param(k, marks=pytest.mark.slow) for k in range(PROBLEMS // 3, PROBLEMS)),
    ],
)
def test_the_certificate_brackets_what_cvxpy_finds(number: int) -> None:
    """lower_bound <= F* <= value, a feasible point, and a gap within the tolerance."""
    problem = RandomProblem(number)
    best, accuracy = problem.judged()
    X, y, weights = problem.data
    options = problem.options
    single = X.dtype == np.float32
    model = problem.kind(**options, tol=1e-3 if single else 1e-7).fit(X, y, sample_weight=weights)
    value, gap = float(np.ravel(model.objective_)[0]), float(np.ravel(model.dual_gap_)[0])
    null = float(
        np.ravel(
            problem.kind(**(options | {"radius": 0.0})).fit(X, y, sample_weight=weights).objective_
        )[0]
    )
    off = accuracy * (null + 1e-12)
    assert value - gap <= best + off
    assert best <= value + off
    assert gap <= (1e-3 if single else 1e-7) * max(value, null) * (1.0 + 1e-9)
    factors = 1.0 if options["penalty_factors"] is None else options["penalty_factors"]
    norm = float((factors * np.abs(np.ravel(model.coef_).astype(np.float64))).sum())
    assert norm <= options["radius"] * (1.0 + (1e-6 if single else 1e-12))
    assert not (options["positive"] and np.ravel(model.coef_).min() < 0.0)
