"""Time to a given accuracy on the paper's transport problem: ours, POT's, and the conditional gradient over each LP.

Run: python benchmarks/transport.py [--sizes 100 500 2000] [--cap 60] [--threads 2] [--raw] [--skip-lp]

The problem is that of section 3.1 of the paper: noisy clusters, squared Euclidean cost, entropy 1.7e-2, Laplacian
weight 1e3 on symmetric 10-nearest-neighbour graphs. F* comes from a certified run. A solver's error at a moment is
(F - F*)/|F*|, F being taken at its plan rounded to exact marginals (outside the clock), best so far.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import condgrad as cg

ENTROPY, WEIGHT = 1.7e-2, 1e3
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
BASELINE = "POT gcg, long"
"""Times are given as multiples of this one's, where POT is installed."""


@dataclass
class Problem:
    """One instance, and how to judge a plan."""

    n: int
    normalized: bool
    seed: int = 0

    def __post_init__(self) -> None:
        data = cg.datasets.make_clusters(self.n, seed=self.seed)
        self.C = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
        self.laplacian = cg.transport.Laplacian(data.Xs, data.Xt, weight=WEIGHT, normalized=self.normalized)
        self.omega = self.laplacian.smooth_part()
        self.weights = np.full(self.n, 1.0 / self.n)
        self.P = cg.sets.Transport(self.weights, self.weights)
        self.f = cg.smooth.Linear(self.C) + self.omega
        self.g = cg.simple.Entropy(ENTROPY, on=self.P)

    def value(self, plan: Any) -> float:
        plan = self.P.rounded(plan)
        return self.f.at(plan).value + self.g.value(plan)


class OutOfTime(Exception):
    pass


@dataclass
class Clock:
    """Elapsed time with the judging taken out, and the best error at each moment."""

    problem: Problem
    cap: float
    spent_judging: float = 0.0
    begin: float = field(default_factory=time.perf_counter)
    moments: list[tuple[float, float]] = field(default_factory=list)

    def judge(self, plan: Any) -> None:
        now = time.perf_counter()
        elapsed = now - self.begin - self.spent_judging
        self.moments.append((elapsed, self.problem.value(np.asarray(plan))))
        self.spent_judging += time.perf_counter() - now
        if elapsed > self.cap:
            raise OutOfTime


def ours(problem: Problem, cap: float, **options: Any) -> list[tuple[float, float]]:
    """The trace knows it all: best F at each moment."""
    options.setdefault("tol", 1e-10)
    result = cg.minimize(problem.f, problem.g, time_limit=cap, **options)
    return list(zip(result.trace["seconds"].tolist(), result.trace["best_value"].tolist(), strict=True))


def plain_cg(problem: Problem, cap: float, engine: str) -> list[tuple[float, float]]:
    g = cg.simple.Entropy(ENTROPY, on=cg.sets.Transport(problem.weights, problem.weights, engine=engine))
    result = cg.minimize(problem.f, g, method="cg", time_limit=cap, tol=1e-9)
    return list(zip(result.trace["seconds"].tolist(), result.trace["best_value"].tolist(), strict=True))


def pot_gcg(problem: Problem, cap: float, **options: Any) -> list[tuple[float, float]]:
    import ot

    clock = Clock(problem, cap)

    def df(G: Any) -> Any:
        clock.judge(G)
        return problem.omega.at(G).gradient

    def run() -> Any:
        return ot.optim.gcg(
            problem.weights,
            problem.weights,
            problem.C,
            ENTROPY,
            1.0,
            lambda G: problem.omega.at(G).value,
            df,
            **options,
        )

    return _capped(clock, run)


def pot_cg(problem: Problem, cap: float) -> list[tuple[float, float]]:
    import ot

    clock = Clock(problem, cap)

    def df(G: Any) -> Any:
        clock.judge(G)
        return problem.omega.at(G).gradient + problem.g.gradient(G)

    def run() -> Any:
        return ot.optim.cg(
            problem.weights,
            problem.weights,
            problem.C,
            1.0,
            lambda G: problem.omega.at(G).value + problem.g.value(G),
            df,
            G0=problem.P.start(problem.f.space),
            numItermax=10**6,
            stopThr=1e-13,
            stopThr2=1e-13,
        )

    return _capped(clock, run)


def _capped(clock: Clock, run: Callable[[], Any]) -> list[tuple[float, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(OutOfTime):
            clock.judge(run())
    return clock.moments


def solvers(skip_lp: bool) -> dict[str, Callable[[Problem, float], list[tuple[float, float]]]]:
    table: dict[str, Callable[[Problem, float], list[tuple[float, float]]]] = {
        BASELINE: lambda p, cap: pot_gcg(
            p, cap, numItermax=10**6, numInnerItermax=10**4, stopThr=1e-13, stopThr2=1e-13
        ),
        "POT gcg, defaults": pot_gcg,
        "POT cg": pot_cg,
        "Newton": lambda p, cap: ours(p, cap, method="newton"),
        "CGS exact, memory 5": lambda p, cap: ours(p, cap, memory=5),
        "CGS exact": lambda p, cap: ours(p, cap),
        "CGS Armijo": lambda p, cap: ours(p, cap, step="armijo"),
        "CGS 2/(k+2)": lambda p, cap: ours(p, cap, step="open-loop"),
        "CGS short": lambda p, cap: ours(p, cap, step="short"),
    }
    if not skip_lp:
        for engine in ("emd", "highs", "cvxopt", "mosek"):
            table[f"CG exact, {engine}"] = lambda p, cap, engine=engine: plain_cg(p, cap, engine)  # type: ignore[misc]
    return table


def first_times(moments: list[tuple[float, float]], optimum: float) -> tuple[list[float | None], float]:
    """Seconds to each level, and the best error reached."""
    error = np.minimum.accumulate([(value - optimum) / abs(optimum) for _, value in moments])
    times = [moments[int(np.argmax(error <= level))][0] if error[-1] <= level else None for level in LEVELS]
    return times, float(error[-1])


def report(problem: Problem, cap: float, skip_lp: bool) -> None:
    reference = cg.minimize(problem.f, problem.g, method="newton", tol=1e-11)
    optimum = reference.value
    kind = "normalised" if problem.normalized else "raw"
    print(f"\nn = {problem.n}, {kind} Laplacians; F* = {optimum:.10f}, certified to {reference.gap:.1e}")
    print(
        f"{'solver':22}" + "".join(f"{f'to {level:.0e}':>10}" for level in LEVELS) + f"{'best':>10}   time / POT long"
    )
    baseline: list[float | None] = [None] * len(LEVELS)
    for name, solver in solvers(skip_lp).items():
        try:
            times, best = first_times(solver(problem, cap), optimum)
        except ImportError as error:
            print(f"{name:22} {error}")
            continue
        if name == BASELINE:
            baseline = times
        cells = "".join(f"{'-' if t is None else f'{t:.2f}':>10}" for t in times)
        pairs = zip(times, baseline, strict=True)
        ratios = " ".join("   -" if t is None or b is None else f"{t / b:4.2f}" for t, b in pairs)
        print(f"{name:22}{cells}{best:10.0e}   {ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a solver may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--raw", action="store_true", help="raw Laplacians D - W instead of normalised ones")
    parser.add_argument("--skip-lp", action="store_true", help="leave out the conditional gradients over LPs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with threadpool_limits(options.threads):
        for n in options.sizes:
            report(Problem(n, not options.raw, options.seed), options.cap, options.skip_lp)


if __name__ == "__main__":
    main()
