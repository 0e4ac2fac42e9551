"""What an iteration costs beyond f and the oracle, on a problem of ten variables.

Run: python -m experiments bench overhead
The cost of f and the oracle alone is that of the same calls in a bare loop: f at a new point, its gradient,
the oracle, f at the oracle's point. The rest of an iteration is ours: certificate, step rule, trace, stop rule.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, show
from experiments.clock import time_of_call

N, ITERATIONS = 10, 2000


def bare(f: Any, g: Any, x: Any) -> None:
    for _ in range(ITERATIONS):
        here = f.at(x)
        answer = g.argmin(here.gradient)
        f.at(answer.point)


class Never:
    """A stop rule that measures the gap and is never met."""

    tolerance, name = -1.0, "gap"

    def measure(self, iterate: Any, certificate: Any, g: Any) -> float:
        return certificate.gap

    def answer(self, iterate: Any, certificate: Any, k: int) -> Any:
        return certificate


def main() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, N))
    y = np.sign(A @ rng.standard_normal(N) + rng.standard_normal(20))
    simplex = cg.sets.Simplex(N)
    problems: dict[str, tuple[Any, Any]] = {
        "least squares, ridge on l1 ball": (
            cg.smooth.LeastSquares(A, y),
            cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(1)),
        ),
        "logistic, entropy on simplex": (
            cg.smooth.Logistic(A, y),
            cg.simple.Entropy(1e-3, on=simplex),
        ),
        "least squares, simplex": (cg.smooth.LeastSquares(A, y), cg.simple.Zero(on=simplex)),
    }
    print(f"microseconds an iteration, n = {N}, best of several runs of {ITERATIONS} iterations")
    rows = []
    for name, (f, g) in problems.items():
        x0 = g.on.start(f.space)
        alone = 1e6 * time_of_call(bare, f, g, x0) / ITERATIONS
        for step in ("exact", "armijo", "open-loop", "short"):
            solve = partial(cg.minimize, f, g, x0, step=step, max_iter=ITERATIONS, stop=Never())
            whole = 1e6 * time_of_call(solve) / ITERATIONS
            rows.append(
                {
                    "problem": name,
                    "step": step,
                    "f + oracle": alone,
                    "whole": whole,
                    "beyond": whole - alone,
                }
            )
    show(rows)


if __name__ == "__main__":
    run(main)
