"""Newton's robustness: entropies over six decades, stiff Laplacians, coordinates in any unit, uneven weights.

Run: python -m experiments bench newton_grid [-- --n 300 --time-limit 60]

Every row is one problem: iterations, seconds, status and certified relative gap, in units of the largest cost. Rows
that differ in the unit of their coordinates alone should need the same iterations.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import condgrad as cg
from experiments.clock import one_thread


def clouds(n: int) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """A name, two clouds and their weights."""
    data, rng = cg.datasets.make_clusters(n), np.random.default_rng(0)
    even = np.full(n, 1.0 / n)
    for scale in (1.0, 1e-3, 1e3):
        yield f"clusters x {scale:g}", scale * data.Xs, scale * data.Xt, even, even
    centres = 50.0 * rng.standard_normal((4, 2))
    apart = centres[np.arange(n) % 4]
    noise = rng.standard_normal((2, n, 2))
    yield "far clusters", apart + noise[0], apart + 1.0 + noise[1], even, even
    yield "duplicate points", np.repeat(data.Xs[: n // 2], 2, axis=0), data.Xt[: 2 * (n // 2)], even, even
    wide = n // 3
    yield "n = 3 m", data.Xs, data.Xt[:wide], even, np.full(wide, 1.0 / wide)
    a, b = (10.0 ** rng.uniform(-6, 0, n) for _ in range(2))
    yield "weights over 6 decades", data.Xs, data.Xt, a / a.sum(), b / b.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    limits: dict[str, Any] = {"method": "newton", "tol": 1e-8, "time_limit": options.time_limit}
    print(f"{'points':24}{'Laplacian':>18}{'entropy':>9}{'iterations':>12}{'seconds':>9}{'gap':>10}  status")
    certified = []
    with one_thread(options.threads):
        for name, Xs, Xt, a, b in clouds(options.n - options.n % 2):
            C = cdist(Xs, Xt, "sqeuclidean")
            unit = C.max()
            for weight, normalized in ((0.0, True), (1e3, True), (1e3, False), (1e6, False)):
                kind = "none" if weight == 0.0 else f"{'normalised' if normalized else 'raw'} {weight:g}"
                terms = [cg.transport.Laplacian(Xs, Xt, weight / unit, normalized=normalized)] if weight else []
                for entropy in (1.0, 1e-2, 1e-4, 1e-6):
                    result = cg.transport.solve(C / unit, a, b, entropy=entropy, regularizers=terms, **limits)
                    certified.append(result.success)
                    numbers = f"{result.iterations:12}{result.seconds:9.2f}{result.gap:10.1e}"
                    print(f"{name:24}{kind:>18}{entropy:9.0e}{numbers}  {result.status}", flush=True)
    print(f"{sum(certified)} of {len(certified)} certified to 1e-8")


if __name__ == "__main__":
    main()
