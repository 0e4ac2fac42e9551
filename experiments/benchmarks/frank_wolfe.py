"""Frank-Wolfe's family on problems that its packages show: plain, away and pairwise steps, lazy or not, and ours.

Run: python -m experiments bench frank_wolfe
For each problem and method: iterations, oracle calls and seconds until the certified gap is within the tolerance of the
scale, or the gap that was reached within the cap. One BLAS thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, shown
from experiments.clock import one_thread

METHODS: dict[str, dict[str, Any]] = {
    "cg": {"method": "cg"},
    "cg, memory 5": {"method": "cg", "memory": 5},
    "away": {"method": "away"},
    "pairwise": {"method": "pairwise"},
    "pairwise, lazy": {"method": "pairwise", "lazy": True},
    "auto": {"method": "auto"},
}


def problems(n: int) -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((n, 2 * n)), rng.standard_normal(n)
    yield "least squares, simplex", cg.smooth.LeastSquares(A, y), cg.sets.Simplex(2 * n)
    yield (
        "least squares, k-sparse",
        cg.smooth.LeastSquares(A, y),
        cg.sets.KSparse(2.0 / n, k=n // 10),
    )
    labels = np.sign(A[:, :5].sum(axis=1))
    yield "logistic, l1 ball", cg.smooth.Logistic(A, labels), cg.sets.L1Ball(2.0)
    side = int(np.sqrt(n))
    target = rng.random((side, side))
    nearest = cg.smooth.Function(
        lambda x: (0.5 * float(((x - target) ** 2).sum()), x - target), smoothness=1.0
    )
    yield "nearest doubly stochastic", nearest, cg.sets.Birkhoff(side)


def rows(n: int, tol: float, cap: float) -> Iterator[dict[str, Any]]:
    for name, f, P in problems(n):
        g = cg.simple.Zero(on=P)
        x0 = None if f.space is not None else g.argmin(np.ones(P.shape)).point
        for label, options in METHODS.items():
            r = cg.minimize(f, g, x0, tol=tol, max_iter=10**6, time_limit=cap, **options)
            calls = int(r.trace["oracle_calls"][-1])
            yield {
                "problem": name,
                "method": label,
                "status": str(r.status),
                "gap / scale": r.relative_gap,
                "iterations": r.iterations,
                "oracle calls": calls,
                "seconds": r.seconds,
            }


def main(*, n: int = 400, tol: float = 1e-6, cap: float = 10.0) -> None:
    with one_thread():
        for _, f, P in list(problems(20))[:3]:  # the first call of Newton compiles its kernels
            cg.minimize(f, cg.simple.Zero(on=P), method="auto")
        shown(rows(n, tol, cap))


if __name__ == "__main__":
    run(main)
