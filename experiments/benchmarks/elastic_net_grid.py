"""The elastic net's robustness: three losses, wide and tall data, radii from sparse to idle, ridges down to 1e-6.

Run: CONDGRAD_DATA=folder python -m experiments bench elastic_net_grid [-- --time-limit 2]

Every row is one problem: iterations, Newton steps, seconds, status and certified relative gap. All should be certified
to 1e-6 within the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, shown
from experiments.clock import one_thread

LOSSES = {
    "least squares": cg.smooth.LeastSquares,
    "logistic": cg.smooth.Logistic,
    "squared hinge": cg.smooth.SquaredHinge,
}
RADII, RIDGES = (0.5, 5.0, 50.0), (1e-2, 1e-4, 1e-6)


def tables() -> dict[str, tuple[Any, Any]]:
    """A wide table and a tall one with correlated columns."""
    colon, rng = cg.datasets.load_colon(), np.random.default_rng(0)
    X = rng.standard_normal((400, 60)) @ (np.eye(60) + 0.5 * rng.standard_normal((60, 60)))
    y = np.sign(X[:, :5].sum(axis=1) + 3.0 * rng.standard_normal(400))
    return {"colon 62 x 2000": (colon.X, colon.y), "tall 400 x 60": (X, y)}


def rows_of(time_limit: float) -> Iterator[dict[str, Any]]:
    for (name, data), loss, radius, ridge, intercept in product(
        tables().items(), LOSSES, RADII, RIDGES, (False, True)
    ):
        f = LOSSES[loss](*data, intercept=intercept)
        g = cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))
        result = cg.minimize(f, g, method="newton", tol=1e-6, time_limit=time_limit)
        row = {"data": name, "loss": loss, "radius": radius, "ridge": ridge, "intercept": intercept}
        row |= {"iterations": result.iterations, "steps": int(result.trace["inner_iterations"][-1])}
        row |= {"seconds": result.seconds, "gap": result.gap / max(1.0, abs(result.value))}
        yield {**row, "status": str(result.status)}


def main(*, time_limit: float = 2.0) -> None:
    with one_thread():
        rows = shown(rows_of(time_limit))
    certified = sum(row["status"] == str(cg.Status.CONVERGED) for row in rows)
    print(f"{certified} of {len(rows)} certified to 1e-6")


if __name__ == "__main__":
    run(main)
