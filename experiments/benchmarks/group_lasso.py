"""Class-group transport against POT's `sinkhorn_l1l2_gl`: time to certified gaps, time an iteration, memory.

Run: python -m experiments bench group_lasso [-- --sizes 100 500 2000 --entropies 1e-1 1e-2 1e-3 --cap 60]

Noisy clusters as classes, squared Euclidean cost with largest entry 1, uniform weights. First table: a time is that of
the first iterate whose proof, best value minus best bound, is within the level times |F*|. POT's solver proves nothing:
its row has the seconds of one run and the true (F - F*)/|F*| of its plan, rounded to exact marginals. Second table, at
the last size and first entropy: the same few outer iterations for all; memory is the peak that Python allocates.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import condgrad as cg
from condgrad.errors import require_extra
from experiments.benchmarks import run, show
from experiments.clock import one_thread, quiet
from experiments.paper.tasks import first_at
from experiments.problems import TransportProblem

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
NAME = "POT sinkhorn_l1l2_gl"
WAYS: dict[str, dict[str, Any]] = {
    "Newton": {"method": "newton"},
    "CGS, exact, memory 5": {"memory": 5},
}


def pot(problem: TransportProblem, labels: Any, weight: float, iterations: int) -> tuple[Any, int]:
    """The plan of POT's `sinkhorn_l1l2_gl`, and how many outer iterations it made."""
    da, a = require_extra("ot", extra="pot", purpose="this benchmark").da, problem.polytope.a
    options: dict[str, Any] = {"eta": weight, "numItermax": iterations, "log": True}
    with quiet():
        plan, log = da.sinkhorn_l1l2_gl(a, labels, a, problem.cost, problem.g.weight, **options)
    return plan, len(log["loss"]) - 1


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def peak_megabytes(work: Callable[[], Any]) -> float:
    """Of a run of its own, for tracing slows."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


def gap_rows(
    problem: TransportProblem, theirs: Callable[[], Any], cap: float
) -> tuple[list[dict[str, Any]], float]:
    """Newton, CGS with memory and POT on one problem; and the best value."""
    tol = 0.01 * LEVELS[-1]
    results = {
        name: cg.minimize(problem.f, problem.g, tol=tol, time_limit=cap, **way)
        for name, way in WAYS.items()
    }
    best = min(result.value for result in results.values())
    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        trace = result.trace
        proofs = (trace["best_value"] - trace["lower_bound"]) / abs(best)
        times = {
            f"to {level:.0e}": first_at(proofs, level, of=trace["seconds"]) for level in LEVELS
        }
        rows.append(
            {
                "solver": name,
                **times,
                "in all": result.seconds,
                "error or proof": result.gap / abs(best),
            }
        )
    (plan, _), seconds = measured(theirs)
    error = (problem.value(plan) - best) / abs(best)
    return [*rows, {"solver": NAME, "in all": seconds, "error or proof": error}], best


def iteration_rows(
    problem: TransportProblem, theirs: Callable[[], Any], steps: int, best: float
) -> None:
    runs: dict[str, Callable[[], Any]] = {
        f"ours, {step}": partial(
            cg.minimize, problem.f, problem.g, step=step, tol=1e-12, max_iter=steps
        )
        for step in ("exact", "armijo", "open-loop")
    }
    rows = []
    for name, work in {**runs, NAME: theirs}.items():
        found, seconds = measured(work)
        plan, iterations = found if name == NAME else (found.x, found.iterations)
        row = {"solver": name, "iterations": iterations, "s/iteration": seconds / iterations}
        row |= {"peak MB": peak_megabytes(work), "error": (problem.value(plan) - best) / abs(best)}
        rows.append(row)
    show(rows)


def main(
    *,
    sizes: tuple[int, ...] = (100, 500, 2000),
    entropies: tuple[float, ...] = (1e-1, 1e-2, 1e-3),
    weight: float = 0.1,
    classes: int = 10,
    cap: float = 60.0,
    iterations: int = 5,
    pot_iterations: int = 20,
) -> None:
    with one_thread():
        for n in sizes:
            labels = cg.datasets.make_clusters(n, clusters=classes).ys
            for entropy in entropies:
                problem = TransportProblem.with_groups(n, classes, entropy, weight)
                rows, best = gap_rows(
                    problem, partial(pot, problem, labels, weight, pot_iterations), cap
                )
                print(f"n = {n}, entropy {entropy:g}")
                show(rows)
                if n == sizes[-1] and entropy == entropies[0]:
                    iteration_rows(
                        problem, partial(pot, problem, labels, weight, iterations), iterations, best
                    )


if __name__ == "__main__":
    run(main)
