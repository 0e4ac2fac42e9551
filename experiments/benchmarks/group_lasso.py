"""Class-group transport against POT's `sinkhorn_l1l2_gl`: time to certified gaps, time an iteration, memory.

Run: python -m experiments bench group_lasso [-- --sizes 100 500 2000 --entropies 1e-1 1e-2 1e-3 --cap 60]

Noisy clusters as classes, squared Euclidean cost with largest entry 1, uniform weights. Table 1: a time is that of the
first iterate whose proof, best value minus best bound, is within the level times |F*|. POT's solver proves nothing: its
row shows the seconds of one run and the true (F - F*)/|F*| of its plan, rounded to exact marginals. Table 2: all run
the same few outer iterations at the last size and first entropy; memory is the peak that Python allocates.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import condgrad as cg
from condgrad.errors import MissingExtra
from experiments.clock import one_thread
from experiments.problems import TransportProblem
from experiments.transport_rivals import pot_groups

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
POT = "POT sinkhorn_l1l2_gl"


def gaps_table(problem: TransportProblem, labels: Any, options: argparse.Namespace, head: str) -> float:
    """Newton, CGS with memory and POT on one problem; returns the best value."""
    stop = cg.stopping.RelativeGap(0.5 * LEVELS[-1], scale=1e-9)
    ways: dict[str, dict[str, Any]] = {"Newton": {"method": "newton"}, "CGS, exact, memory 5": {"memory": 5}}
    results = {
        name: cg.minimize(problem.f, problem.g, stop=stop, time_limit=options.cap, **way) for name, way in ways.items()
    }
    best = min(result.value for result in results.values())
    for name, result in results.items():
        proofs = result.trace["best_value"] - result.trace["lower_bound"]
        firsts = [np.flatnonzero(proofs <= level * abs(best)) for level in LEVELS]
        cells = [f"{result.trace['seconds'][k[0]]:9.2f}" if len(k) else f"{'-':>9}" for k in firsts]
        print(f"{head}  {name:26}{''.join(cells)}{result.gap / abs(best):9.0e}", flush=True)
    seconds, plan, _ = pot_groups(problem, labels, options.weight, options.pot_iterations)
    error = (problem.value(plan) - best) / abs(best)
    print(f"{head}  {POT:26}{f'{seconds:.2f} s in all':>{9 * len(LEVELS)}}{error:9.0e}", flush=True)
    return best


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


def iterations_table(problem: TransportProblem, labels: Any, options: argparse.Namespace, best: float) -> None:
    print(f"\n{'solver':28}{'iterations':>11}{'s/iteration':>13}{'peak MB':>9}{'(F-F*)/|F*|':>13}")
    steps = options.iterations

    def row(name: str, iterations: int, seconds: float, peak: float, value: float) -> None:
        print(f"{name:28}{iterations:11}{seconds / iterations:13.3f}{peak:9.0f}{(value - best) / abs(best):13.1e}")

    for step in ("exact", "armijo", "open-loop"):
        solve = lambda step=step: cg.minimize(problem.f, problem.g, step=step, tol=1e-12, max_iter=steps)  # noqa: E731
        result, seconds, peak = measured(solve)
        row(f"ours, {step}", result.iterations, seconds, peak, result.value)
    (_, plan, count), seconds, peak = measured(lambda: pot_groups(problem, labels, options.weight, steps))
    row(POT, count, seconds, peak, problem.value(plan))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--entropies", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3])
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--pot-iterations", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{'n':>5}{'entropy':>9}  {'solver':26}" + "".join(f"{level:9.0e}" for level in LEVELS) + f"{'at end':>9}")
    with one_thread(options.threads):
        for n in options.sizes:
            labels = cg.datasets.make_clusters(n, clusters=options.classes).ys
            for entropy in options.entropies:
                problem = TransportProblem.with_groups(n, options.classes, entropy, options.weight)
                best = gaps_table(problem, labels, options, f"{n:5}{entropy:9.0e}")
                if entropy == options.entropies[0]:
                    first = problem, labels, best
        iterations_table(*first[:2], options, first[2])


if __name__ == "__main__":
    try:
        main()
    except MissingExtra as missing:
        raise SystemExit(str(missing)) from None
