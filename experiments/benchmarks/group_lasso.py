"""Class-group transport against POT's `sinkhorn_l1l2_gl`: time to certified gaps, time an iteration, memory.

Run: python -m experiments bench group_lasso [-- --sizes 100 500 2000 --entropies 1e-1 1e-2 1e-3 --cap 60]

Noisy clusters as classes, squared Euclidean cost with largest entry 1, uniform weights. First table: a time is that of
the first iterate whose proof, best value minus best bound, is within the level times |F*|. POT's solver proves nothing:
its row has the seconds of one run and the true (F - F*)/|F*| of its plan, rounded to exact marginals. Second table, at
the last size and first entropy: the same few outer iterations for all; memory is the peak that Python allocates.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import condgrad as cg
from experiments.benchmarks import show
from experiments.clock import one_thread
from experiments.paper.curves import first_at
from experiments.problems import TransportProblem
from experiments.transport_rivals import pot_groups

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
POT = "POT sinkhorn_l1l2_gl"
WAYS: dict[str, dict[str, Any]] = {"Newton": {"method": "newton"}, "CGS, exact, memory 5": {"memory": 5}}


def gap_rows(problem: TransportProblem, pot: Callable[[], Any], cap: float) -> tuple[list[dict[str, Any]], float]:
    """Newton, CGS with memory and POT on one problem; and the best value."""
    tol = 0.01 * LEVELS[-1]
    results = {name: cg.minimize(problem.f, problem.g, tol=tol, time_limit=cap, **way) for name, way in WAYS.items()}
    best = min(result.value for result in results.values())
    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        trace = result.trace
        proofs = (trace["best_value"] - trace["lower_bound"]) / abs(best)
        times = {f"to {level:.0e}": first_at(proofs, level, of=trace["seconds"]) for level in LEVELS}
        rows.append({"solver": name, **times, "in all": result.seconds, "error or proof": result.gap / abs(best)})
    seconds, plan, _ = pot()
    error = (problem.value(plan) - best) / abs(best)
    return [*rows, {"solver": POT, "in all": seconds, "error or proof": error}], best


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


def iteration_rows(problem: TransportProblem, pot: Callable[[], Any], steps: int, best: float) -> list[dict[str, Any]]:
    found = {}
    for step in ("exact", "armijo", "open-loop"):
        run = partial(cg.minimize, problem.f, problem.g, step=step, tol=1e-12, max_iter=steps)
        result, seconds, peak = measured(run)
        found[f"ours, {step}"] = result.iterations, seconds, peak, result.value
    (_, plan, count), seconds, peak = measured(pot)
    found[POT] = count, seconds, peak, problem.value(plan)
    return [
        {"solver": name, "iterations": k, "s/iteration": s / k, "peak MB": mb, "error": (value - best) / abs(best)}
        for name, (k, s, mb, value) in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--entropies", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3])
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--pot-iterations", type=int, default=20)
    options = parser.parse_args()
    with one_thread():
        for n in options.sizes:
            labels = cg.datasets.make_clusters(n, clusters=options.classes).ys
            for entropy in options.entropies:
                problem = TransportProblem.with_groups(n, options.classes, entropy, options.weight)
                pot = partial(pot_groups, problem, labels, options.weight)
                rows, best = gap_rows(problem, partial(pot, options.pot_iterations), options.cap)
                print(f"n = {n}, entropy {entropy:g}")
                show(rows)
                if n == options.sizes[-1] and entropy == options.entropies[0]:
                    show(iteration_rows(problem, partial(pot, options.iterations), options.iterations, best))


if __name__ == "__main__":
    main()
