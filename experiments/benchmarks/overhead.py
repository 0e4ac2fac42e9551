"""What an iteration costs beyond f and the oracle, on a problem of ten variables.

Run: python -m experiments bench overhead
The cost of f and the oracle alone is that of the same calls in a bare loop: f at a new point, its gradient,
the oracle, f at the oracle's point. The rest of an iteration is ours: certificate, step rule, trace, stop rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import condgrad as cg

N, ITERATIONS, REPEATS = 10, 2000, 7


def best(run: Callable[[], int]) -> float:
    """Microseconds an iteration, best of several; `run` returns how many it made."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        iterations = run()
        times.append((time.process_time() - begin) / iterations)
    return 1e6 * min(times)


def bare(f: Any, g: Any, x: Any) -> int:
    for _ in range(ITERATIONS):
        here = f.at(x)
        answer = g.argmin(here.gradient)
        f.at(answer.point)
    return ITERATIONS


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
    problems = {
        "least squares, ridge on l1 ball": (
            cg.smooth.LeastSquares(A, y),
            cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(1.0)),
        ),
        "logistic, entropy on simplex": (cg.smooth.Logistic(A, y), cg.simple.Entropy(1e-3, on=cg.sets.Simplex(N))),
        "least squares, simplex": (cg.smooth.LeastSquares(A, y), cg.simple.Zero(on=cg.sets.Simplex(N))),
    }
    print(f"microseconds an iteration, n = {N}, best of {REPEATS} runs of {ITERATIONS} iterations")
    print(f"{'problem':34} {'step':10} {'f + oracle':>10} {'whole':>8} {'beyond':>8}")
    for name, (f, g) in problems.items():
        x0 = g.on.start(f.space)
        alone = best(lambda: bare(f, g, x0))  # noqa: B023
        for step in ("exact", "armijo", "open-loop", "short"):
            options: dict[str, Any] = {"step": step, "max_iter": ITERATIONS, "stop": Never()}
            whole = best(lambda: cg.minimize(f, g, x0, **options).iterations)  # noqa: B023
            print(f"{name:34} {step:10} {alone:10.1f} {whole:8.1f} {whole - alone:8.1f}")


if __name__ == "__main__":
    main()
