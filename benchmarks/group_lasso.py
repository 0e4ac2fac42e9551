"""Group-lasso transport against POT's `sinkhorn_l1l2_gl`: time an outer iteration, memory, certificate.

Run: python benchmarks/group_lasso.py [--n 2000] [--classes 10] [--threads 1]
Both run the same few outer iterations on the same problem. Memory is the peak that Python allocates beyond the cost.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import condgrad as cg

try:
    import ot
except ModuleNotFoundError:
    sys.exit("this benchmark compares with POT: pip install 'condgrad[pot]'")

ENTROPY, WEIGHT = 0.05, 0.1


def measured(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What run returns, seconds, and peak megabytes (from a second run, for tracing slows)."""
    begin = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - begin
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return result, seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    data = cg.datasets.make_clusters(options.n, clusters=options.classes)
    C = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
    regularizers = [cg.transport.GroupLasso(data.ys, weight=WEIGHT)]

    def ours(tol: float, max_iter: int, step: str) -> Any:
        return cg.transport.solve(
            C, entropy=ENTROPY, regularizers=regularizers, method="cgs", memory=0, step=step, tol=tol, max_iter=max_iter
        )

    def pot() -> Any:
        a = np.full(options.n, 1.0 / options.n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ot.da.sinkhorn_l1l2_gl(
                a, data.ys, a, C, ENTROPY, eta=WEIGHT, numItermax=options.iterations, log=True
            )

    with threadpool_limits(options.threads):
        best = ours(1e-9, 1000, "exact")
        print(f"n = {options.n}, {options.classes} classes; F* = {best.value:.10f}, certified to {best.gap:.1e}")
        f, g = best.problem
        print(f"{'solver':28}{'iterations':>11}{'s/iteration':>13}{'peak MB':>9}{'(F-F*)/|F*|':>13}")
        table = {}
        for step in ("exact", "armijo", "open-loop"):
            result, seconds, peak = measured(lambda: ours(1e-12, options.iterations, step))  # noqa: B023
            table[f"ours, {step}"] = (result.iterations, seconds, peak, result.value)
        (plan, log), seconds, peak = measured(pot)
        plan = g.on.rounded(plan)
        value = f.at(plan).value + g.value(plan)
        table["POT sinkhorn_l1l2_gl"] = (len(log["loss"]) - 1, seconds, peak, value)
        for name, (iterations, seconds, peak, value) in table.items():
            error = (value - best.value) / abs(best.value)
            print(f"{name:28}{iterations:11}{seconds / iterations:13.3f}{peak:9.0f}{error:13.1e}")


if __name__ == "__main__":
    main()
