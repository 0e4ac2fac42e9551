"""Time to a given accuracy on the paper's transport problem: ours, POT's, and the conditional gradient over each LP.

Run: python -m experiments bench transport [-- --sizes 100 500 2000 --cap 60 --threads 2 --raw --skip-lp]

The problem is that of section 3.1 of the paper: noisy clusters, squared Euclidean cost, entropy 1.7e-2, Laplacian
weight 1e3 on symmetric 10-nearest-neighbour graphs. F* comes from a certified run. A solver's error at a moment is
(F - F*)/|F*|, F being taken at its plan rounded to exact marginals (outside the clock), best so far. Seconds to each
level are followed by their ratios to those of POT's gcg with its longest settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import show
from experiments.clock import Clock, one_thread
from experiments.paper.curves import first_at
from experiments.problems import TransportProblem
from experiments.transport_rivals import POT_LONG, pot_cg, pot_gcg

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
Moments = tuple[Any, Any]
"""Seconds, and the best F so far, at each moment of a run."""


def ours(problem: TransportProblem, cap: float, engine: str = "auto", **options: Any) -> Moments:
    """The trace knows it all."""
    weights = problem.polytope.a
    g = cg.simple.Entropy(problem.g.weight, on=cg.sets.Transport(weights, weights, engine=engine))
    trace = cg.minimize(problem.f, g, time_limit=cap, tol=1e-10, **options).trace
    return trace["seconds"], trace["best_value"]


def watched(run: Callable[..., tuple[Clock, bool]], problem: TransportProblem, cap: float, **options: Any) -> Moments:
    clock, _ = run(problem, cap, **options)
    return clock.seconds, np.minimum.accumulate(clock.values)


SOLVERS: dict[str, Callable[[TransportProblem, float], Moments]] = {
    "POT gcg, long": partial(watched, pot_gcg, **POT_LONG),
    "POT gcg, defaults": partial(watched, pot_gcg),
    "POT cg": partial(watched, pot_cg),
    "Newton": partial(ours, method="newton"),
    "CGS exact, memory 5": partial(ours, memory=5),
    "CGS exact": ours,
    "CGS Armijo": partial(ours, step="armijo"),
    "CGS 2/(k+2)": partial(ours, step="open-loop"),
    "CGS short": partial(ours, step="short"),
    **{f"CG, {engine}": partial(ours, method="cg", engine=engine) for engine in ("emd", "highs", "cvxopt", "mosek")},
}


def report(problem: TransportProblem, cap: float, *, skip_lp: bool) -> None:
    reference = cg.minimize(problem.f, problem.g, method="newton", tol=1e-11)
    optimum = reference.value
    print(f"n = {len(problem.cost)}; F* = {optimum:.10f}, certified to {reference.gap:.1e}")
    rows: list[dict[str, Any]] = []
    for name, solver in SOLVERS.items():
        if skip_lp and name.startswith("CG,"):
            continue
        try:
            seconds, values = solver(problem, cap)
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        errors = (np.asarray(values) - optimum) / abs(optimum)
        times = {f"to {level:.0e}": first_at(errors, level, of=seconds) for level in LEVELS}
        base = next((row for row in rows if row["solver"] == "POT gcg, long"), {})
        ratios = {f"/ POT {key}": times[key] / base[key] for key in times if base.get(key, np.inf) < np.inf}
        rows.append({"solver": name, **times, "best": errors[-1], **ratios})
    show(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a solver may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--raw", action="store_true", help="raw Laplacians D - W instead of normalised ones")
    parser.add_argument("--skip-lp", action="store_true", help="leave out the conditional gradients over LPs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with one_thread(options.threads):
        for n in options.sizes:
            problem = TransportProblem.of(n, options.seed, normalized=not options.raw)
            report(problem, options.cap, skip_lp=options.skip_lp)


if __name__ == "__main__":
    main()
