"""The elastic net's robustness: three losses, wide and tall data, radii from sparse to idle, ridges down to 1e-6.

Run: CONDGRAD_DATA=folder python benchmarks/elastic_net_grid.py [--time-limit 2]

Every row is one problem: iterations, Newton steps, seconds, status and certified relative gap. All should be certified
to 1e-6 within the limit.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import condgrad as cg

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=2.0)
    options = parser.parse_args()
    print(
        f"{'data':18}{'loss':15}{'radius':>7}{'ridge':>8} intercept"
        f"{'iterations':>11}{'steps':>7}{'seconds':>9}{'gap':>10}"
    )
    count, short = 0, 0
    with threadpool_limits(1):
        for (name, (X, y)), loss, radius, ridge, intercept in product(
            tables().items(), LOSSES, RADII, RIDGES, (False, True)
        ):
            f = LOSSES[loss](X, y, intercept=intercept)
            g = cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))
            begin = time.perf_counter()
            result = cg.minimize(f, g, method="newton", tol=1e-6, time_limit=options.time_limit)
            seconds = time.perf_counter() - begin
            steps, gap = int(result.trace["inner_iterations"][-1]), result.gap / max(1.0, abs(result.value))
            count, short = count + 1, short + (not result.success)
            print(
                f"{name:18}{loss:15}{radius:7g}{ridge:8.0e}{'yes' if intercept else 'no':>10}{result.iterations:11}"
                f"{steps:7}{seconds:9.3f}{gap:10.1e}  {result.status}",
                flush=True,
            )
    print(f"{count - short} of {count} certified to 1e-6")


if __name__ == "__main__":
    main()
