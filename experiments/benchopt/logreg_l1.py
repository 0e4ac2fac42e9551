"""condgrad in benchopt's suite `logreg_l1`: sum_i log(1 + exp(-y_i x_i.beta)) + lmbd |beta|_1."""

from __future__ import annotations

from typing import Any

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

    def set_objective(self, X: Any, y: Any, lmbd: float) -> None:
        self.f = cg.smooth.Logistic(X, y)
        self.g = cg.simple.ElasticNet(lmbd)

    def run(self, tol: float) -> None:
        self.beta = cg.minimize(self.f, self.g, method="auto", tol=min(tol, 1.0)).x

    def get_result(self) -> dict[str, Any]:
        return {"beta": self.beta}
