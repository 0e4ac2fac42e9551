"""Gromov-Wasserstein beside POT, in one run: random problems, and the time to POT's own final loss.

    python -m experiments bench gromov                        # all of it
    python -m experiments bench gromov -- --problems 20 --no-speeds

Random problems: sizes 10 to 80, dimensions 1 to 5, distances, squared distances, graphs and numbers without symmetry,
both losses, fused or not, entropies 0 and 1e-3 to 1e-1 of the loss of the product plan. Both run to 1e-9 in their own
measure, POT's entropic solver for 100 iterations at most, which take seconds where its Sinkhorn does not converge.
Each plan of ours is judged by its gradient in long double, and by another engine for the linearised problem.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot
from scipy.spatial.distance import cdist

import condgrad as cg

TOL = 1e-9
POT_ITERATIONS = 100


@dataclass(frozen=True)
class Problem:
    """Two spaces and what is asked of their plan."""

    C1: Any
    C2: Any
    a: Any
    b: Any
    loss: str
    entropy: float
    M: Any

    @property
    def options(self) -> dict[str, Any]:
        return {
            "entropy": self.entropy,
            "fused": None if self.M is None else (self.M, 1.0),
            "loss": self.loss,
        }

    def by_pot(self, max_iter: int) -> Any:
        """POT's plan; its objective is half of ours where it is fused with alpha = 1/2."""
        chosen = {"loss_fun": f"{self.loss}_loss"}
        spaces = (self.C1, self.C2, self.a, self.b)
        if self.entropy == 0.0 and self.M is None:
            return ot.gromov.gromov_wasserstein(*spaces, **chosen)
        if self.entropy == 0.0:
            return ot.gromov.fused_gromov_wasserstein(self.M, *spaces, alpha=0.5, **chosen)
        if self.M is None:
            return ot.gromov.entropic_gromov_wasserstein(
                *spaces, epsilon=self.entropy, max_iter=max_iter, **chosen
            )
        return ot.gromov.entropic_fused_gromov_wasserstein(
            self.M, *spaces, alpha=0.5, epsilon=0.5 * self.entropy, max_iter=max_iter, **chosen
        )


def random_problem(rng: Any) -> Problem:
    n, m = (int(size) for size in rng.integers(10, 81, 2))
    X, Y = (rng.standard_normal((size, rng.integers(1, 6))) for size in (n, m))
    loss = str(rng.choice(["square", "kl"]))
    kind = rng.choice(["distances", "squared", "graph", "asymmetric"])
    if kind == "graph":
        edges = [rng.random((size, size)) < 0.2 for size in (n, m)]
        C1, C2 = (0.1 + np.maximum(each, each.T) for each in edges)
    elif kind == "asymmetric":
        C1, C2 = rng.random((n, n)), rng.random((m, m))
    else:
        power = 2 if kind == "squared" else 1
        C1, C2 = cdist(X, X) ** power, cdist(Y, Y) ** power
    a, b = np.full(n, 1.0 / n), np.full(m, 1.0 / m)
    if rng.random() < 0.5:
        a, b = rng.dirichlet(np.full(n, 3.0)), rng.dirichlet(np.full(m, 3.0))
    level = cg.smooth.GromovWasserstein(C1, C2, a, b, loss=loss).at(np.outer(a, b)).value
    entropy = 0.0 if rng.random() < 0.5 else level * 10.0 ** rng.uniform(-3.0, -1.0)
    M = level * rng.random((n, m)) if rng.random() < 0.5 else None
    return Problem(C1, C2, a, b, loss, entropy, M)


def false_stationarity(problem: Problem, q: cg.transport.GromovResult) -> float:
    """How far the true gap exceeds the claimed one, over the scale: the gradient in long double, another oracle."""
    wide = [each.astype(np.longdouble) for each in (problem.C1, problem.C2, q.plan)]
    C1, C2, G = wide
    h2 = 2.0 * C2 if problem.loss == "square" else np.log(C2 + 1e-18)
    c = -(C1 @ G @ h2.T + C1.T @ G @ h2)
    if problem.M is not None:
        c = c + problem.M
    c = (c - c.min()).astype(np.float64)
    if problem.entropy == 0.0:
        best = cg.sets.Transport(problem.a, problem.b, engine="highs").linear_argmin(c)
        true = np.sum(c * q.plan) - np.sum(c * best.point)
    else:
        linear = cg.transport.solve(
            c, problem.a, problem.b, entropy=problem.entropy, method="newton", tol=1e-12
        )
        true = np.sum(c * q.plan) + q.parts.entropy - linear.value
    return float(true - q.stationarity) / q.scale


def timed(call: Any) -> tuple[Any, float]:
    begin = time.process_time()
    answer = call()
    return answer, time.process_time() - begin


def random_problems(count: int, seed: int) -> None:
    """A row for each problem where something is worse than POT or not stationary; then the counts."""
    rng = np.random.default_rng(seed)
    stationary, no_worse, better, failed, largest_excess = 0, 0, 0, 0, -np.inf
    seconds = dict.fromkeys(("POT", "one start", "default starts"), 0.0)
    gaps = []
    for k in range(count):
        problem = random_problem(rng)
        spaces = (problem.C1, problem.C2, problem.a, problem.b)
        plan, taken = timed(lambda p=problem: p.by_pot(POT_ITERATIONS))
        seconds["POT"] += taken
        one, taken = timed(
            lambda p=problem, s=spaces: cg.transport.gromov(*s, **p.options, starts=1, tol=TOL)
        )
        seconds["one start"] += taken
        q, taken = timed(lambda p=problem, s=spaces: cg.transport.gromov(*s, **p.options, tol=TOL))
        seconds["default starts"] += taken
        usable = bool(np.isfinite(plan).all()) and abs(plan.sum() - 1.0) <= 1e-2
        value, gap = np.inf, np.inf
        if usable:
            theirs = cg.transport.gromov_gap(plan, *spaces, **problem.options)
            value, gap = theirs.value, theirs.relative_stationarity
        gaps.append(gap)
        failed += not usable
        excess = max(false_stationarity(problem, each) for each in (one, q))
        largest_excess = max(largest_excess, excess)
        fine = q.value <= value + 1e-9 * q.scale
        no_worse += fine
        better += q.value < value - 1e-6 * q.scale
        stationary += one.success
        if not (fine and one.success and excess <= 1e-12):
            n, m = q.shape
            print(
                f"  {k:3d}  {n} x {m} {problem.loss:6s} entropy {problem.entropy:.2e}  one start {one.status} "
                f"{one.stationarity / one.scale:.1e}  value - POT's {(q.value - value) / q.scale:+.1e} of the scale  "
                f"POT's gap {gap:.1e}  excess {excess:.1e}",
                flush=True,
            )
    print(f"problems                                   {count}")
    print(f"one start stationary to {TOL:g}               {stationary}")
    print(
        f"default starts at most POT's + 1e-9        {no_worse}, of these better by 1e-6: {better}"
    )
    print(f"plans of POT that are none                 {failed}")
    finite = np.array(gaps)[np.isfinite(gaps)]
    quantiles = np.quantile(finite, [0.5, 0.9, 1.0]) if len(finite) else [np.nan] * 3
    print(
        "POT's gap / scale: median, 90 %, largest   "
        + ", ".join(f"{each:.1e}" for each in quantiles)
    )
    print(f"largest true gap less claimed gap          {largest_excess:.1e} of the scale")
    print(
        "CPU seconds                                "
        + ", ".join(f"{k} {v:.1f}" for k, v in seconds.items())
    )


def time_to_pots_loss(problem: Problem, name: str) -> None:
    plan, pots = timed(lambda: problem.by_pot(POT_ITERATIONS))
    theirs = cg.transport.gromov_gap(
        plan, problem.C1, problem.C2, problem.a, problem.b, **problem.options
    )
    begin = time.process_time()
    reached: list[float] = []

    def note(now: cg.loop.Progress) -> bool:
        if not reached and now.value <= theirs.value + 1e-9 * theirs.scale:
            reached.append(time.process_time() - begin)
        return False

    q = cg.transport.gromov(
        problem.C1,
        problem.C2,
        problem.a,
        problem.b,
        **problem.options,
        starts=1,
        lower_bound=False,
        tol=TOL,
        callback=note,
    )
    whole = time.process_time() - begin
    to_loss = f"{reached[0]:.2f} s" if reached else "never"
    print(
        f"{name:34s} POT {pots:7.2f} s, gap {theirs.relative_stationarity:.1e}, marginals off by "
        f"{theirs.marginal_error:.0e} | ours to POT's loss {to_loss}, to a gap of {q.stationarity / q.scale:.0e} "
        f"{whole:.2f} s in {q.iterations} iterations, value - POT's {(q.value - theirs.value) / q.scale:+.1e}",
        flush=True,
    )


def speeds(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def clouds(n: int, share: float) -> Problem:
        X, Y = rng.standard_normal((n, 3)), rng.standard_normal((n, 3)) * [1.0, 2.0, 0.5]
        C1, C2, a = cdist(X, X), cdist(Y, Y), np.full(n, 1.0 / n)
        level = cg.smooth.GromovWasserstein(C1, C2, a, a).at(np.outer(a, a)).value
        return Problem(C1, C2, a, a, "square", share * level, None)

    def graphs(n: int) -> Problem:
        edges = [rng.random((n, n)) < 0.1 for _ in range(2)]
        C1, C2 = (np.maximum(each, each.T).astype(float) for each in edges)
        a = np.full(n, 1.0 / n)
        return Problem(C1, C2, a, a, "square", 0.0, None)

    time_to_pots_loss(clouds(500, 0.0), "n = 500, distances, entropy 0")
    time_to_pots_loss(graphs(500), "n = 500, random graphs, entropy 0")
    for share in (1e-1, 1e-2):
        time_to_pots_loss(clouds(1000, share), f"n = 1000, distances, entropy {share:g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speeds", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # POT says where its Sinkhorn did not converge
    random_problems(arguments.problems, arguments.seed)
    if arguments.speeds:
        speeds(arguments.seed)


if __name__ == "__main__":
    main()
