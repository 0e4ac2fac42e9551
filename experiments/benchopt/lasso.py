"""condgrad in benchopt's suite `lasso`: 1/2 |y - X beta - b|^2 + lmbd |beta|_1."""

from __future__ import annotations

from typing import Any

import numpy as np

import condgrad as cg

try:
    from benchopt import BaseSolver  # type: ignore[import-not-found]
except ModuleNotFoundError:  # off-line
    BaseSolver = object


class Solver(BaseSolver):  # type: ignore[misc]
    """Newton's method on working sets of features; the gap that it stops at is proved."""

    name = "condgrad"
    sampling_strategy = "tolerance"
    requirements = ["pip::condgrad"]  # noqa: RUF012

    def set_objective(self, X: Any, y: Any, lmbd: float, fit_intercept: bool = False) -> None:
        self.f = cg.smooth.LeastSquares(X, y, intercept=bool(fit_intercept))
        self.g = cg.simple.ElasticNet(lmbd)
        self.fit_intercept = fit_intercept

    def run(self, tol: float) -> None:
        result = cg.minimize(self.f, self.g, method="auto", tol=min(tol, 1.0))
        self.beta = result.x
        if self.fit_intercept:
            self.beta = np.append(result.x, self.f.intercept_at(result.x))

    def get_result(self) -> dict[str, Any]:
        return {"beta": self.beta}
