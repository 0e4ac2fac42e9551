"""A simple part of your own: g(x) = weight |x - centre|^2 on any set with a projection.

A `Simple` has three tasks. It computes g(x). It solves `min <c, s> + g(s)` on its set, with a
lower bound on the minimum. And it gives g along a few directions, for line searches. If you have
plain functions, use `condgrad.simple.Oracle(value, argmin)`.
"""

from typing import Any

import numpy as np

import condgrad as cg
from condgrad.problem import Answer
from condgrad.search.restriction import Quadratic


class Proximity(cg.simple.Simple):
    """weight |x - centre|^2; its oracle projects centre - c / (2 weight)."""

    def __init__(self, weight: float, centre: Any, *, on: cg.sets.Set) -> None:
        on.require("project", by="Proximity")
        self.weight, self.centre, self.on = weight, np.asarray(centre), on
        self.strong_convexity = self.smoothness = 2.0 * weight

    def value(self, x: Any) -> float:
        d = x - self.centre
        return self.weight * float(d @ d)

    def gradient(self, x: Any) -> Any:
        return 2.0 * self.weight * (x - self.centre)

    def argmin(self, c: Any, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        s = self.on.project(self.centre - c / (2.0 * self.weight))
        value = self.value(s)
        return Answer(s, float(c @ s) + value, value)

    def along(self, x: Any, directions: Any) -> Quadratic:
        return Quadratic(
            self.value(x),
            directions @ self.gradient(x),
            2.0 * self.weight * directions @ directions.T,
        )


rng = np.random.default_rng(0)
A, y, centre = rng.standard_normal((30, 10)), rng.standard_normal(30), np.full(10, 0.1)
f, ball = cg.smooth.LeastSquares(A, y), cg.sets.L2Ball(0.5)
result = cg.minimize(f, Proximity(1.0, centre, on=ball), method="auto")
assert result.success

# the same problem with a ridge around the origin: f gets a linear term
same = cg.minimize(f + cg.smooth.Linear(-2.0 * centre), cg.simple.Ridge(1.0, on=ball), tol=1e-9)
np.testing.assert_allclose(result.x, same.x, atol=1e-3)
