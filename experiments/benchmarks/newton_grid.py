"""Newton's robustness: entropies over six decades, stiff Laplacians, coordinates in any unit, uneven weights.

Run: python -m experiments bench newton_grid [-- --n 300 --time-limit 60]

Every row is one problem: iterations, seconds, status, the certified gap in units of the largest cost, and relative to
the scale of F, which a tolerance of 1e-8 is asked of. Rows that differ in the unit of their coordinates alone should
need the same iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import condgrad as cg
from experiments.benchmarks import run, shown
from experiments.clock import one_thread


def clouds(n: int) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """A name, two clouds and their weights."""
    data, rng = cg.datasets.make_clusters(n), np.random.default_rng(0)
    even = np.full(n, 1.0 / n)
    for scale in (1.0, 1e-3, 1e3):
        yield f"clusters x {scale:g}", scale * data.Xs, scale * data.Xt, even, even
    apart = 50.0 * rng.standard_normal((4, 2))[np.arange(n) % 4]
    noise = rng.standard_normal((2, n, 2))
    yield "far clusters", apart + noise[0], apart + 1.0 + noise[1], even, even
    yield "duplicate points", np.repeat(data.Xs[: n // 2], 2, axis=0), data.Xt, even, even
    wide = n // 3
    yield "n = 3 m", data.Xs, data.Xt[:wide], even, np.full(wide, 1.0 / wide)
    a, b = (10.0 ** rng.uniform(-6, 0, n) for _ in range(2))
    yield "weights over 6 decades", data.Xs, data.Xt, a / a.sum(), b / b.sum()


def rows_of(n: int, time_limit: float) -> Iterator[dict[str, Any]]:
    for name, Xs, Xt, a, b in clouds(n - n % 2):
        C = cdist(Xs, Xt, "sqeuclidean")
        unit = C.max()
        laplacians: dict[str, list[Any]] = {"none": []}
        for kind, weight in (("normalised", 1e3), ("raw", 1e3), ("raw", 1e6)):
            term = cg.transport.Laplacian(Xs, Xt, weight / unit, normalized=kind == "normalised")
            laplacians[f"{kind} {weight:g}"] = [term]
        for kind, terms in laplacians.items():
            for entropy in (1.0, 1e-2, 1e-4, 1e-6):
                limits: dict[str, Any] = {"method": "newton", "tol": 1e-8, "time_limit": time_limit}
                result = cg.transport.solve(
                    C / unit, a, b, entropy=entropy, regularizers=terms, **limits
                )
                row = {
                    "points": name,
                    "Laplacian": kind,
                    "entropy": entropy,
                    "iterations": result.iterations,
                }
                yield {
                    **row,
                    "seconds": result.seconds,
                    "gap": result.gap,
                    "relative": result.gap / result.result.scale,
                    "status": str(result.status),
                }


def main(*, n: int = 300, time_limit: float = 60.0, threads: int = 2) -> None:
    with one_thread(threads):
        rows = shown(rows_of(n, time_limit))
    certified = sum(row["status"] == str(cg.Status.CONVERGED) for row in rows)
    within = sum(row["gap"] <= 1e-8 or row["status"] == str(cg.Status.CONVERGED) for row in rows)
    late = sum(row["status"] == str(cg.Status.TIME_LIMIT) for row in rows)
    print(
        f"{certified} of {len(rows)} certified to 1e-8 of their scale, {within} to that or 1e-8 of the largest cost"
    )
    print(f"{late} at the time limit")


if __name__ == "__main__":
    run(main)
