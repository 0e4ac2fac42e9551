"""condgrad in benchopt's suite `lasso_path`: that of `lasso` for each of many lambdas."""

from __future__ import annotations

from typing import Any

import numpy as np

import condgrad as cg

try:
    from benchopt import BaseSolver  # type: ignore[import-not-found]
except ModuleNotFoundError:  # off-line
    BaseSolver = object


class Solver(BaseSolver):  # type: ignore[misc]
    """Each penalty from where those before point to, and each with its own proof."""

    name = "condgrad"
    sampling_strategy = "tolerance"
    requirements = ["pip::condgrad"]  # noqa: RUF012

    def set_objective(self, X: Any, y: Any, lambdas: Any, fit_intercept: bool = False) -> None:
        self.data = X, y
        self.lambdas = np.asarray(lambdas)
        self.fit_intercept = fit_intercept

    def run(self, tol: float) -> None:
        found = cg.linear_model.path(
            *self.data,
            loss="least-squares",
            alphas=self.lambdas / len(self.data[1]),
            fit_intercept=bool(self.fit_intercept),
            tol=min(tol, 1.0),
        )
        order = np.argsort(np.argsort(-self.lambdas))  # the path falls, whatever was asked for
        self.coefs = found.coefs.T[:, order]
        if self.fit_intercept:
            self.coefs = np.vstack([self.coefs, found.intercepts[order]])

    def get_result(self) -> dict[str, Any]:
        return {"coefs": self.coefs}
