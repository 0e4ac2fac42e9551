"""Which step rule: iterations of CGS to a certified gap, for each rule on each kind of problem.

Run: python -m experiments bench steps
The median over several draws of each problem. Iterations do not depend on the machine; an
iteration costs about the same with every rule, where f is of data, since f along a segment follows
from f at its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, show

RULES: dict[str, dict[str, Any]] = {
    "exact": {"step": "exact"},
    "exact, memory 5": {"step": "exact", "memory": 5},
    "armijo": {"step": "armijo"},
    "short": {"step": "short"},
    "adaptive": {"step": "adaptive"},
    "2/(k+2)": {"step": "open-loop"},
    "4/(k+4)": {"step": cg.steps.OpenLoop(4)},
    "log-open-loop": {"step": "log-open-loop"},
}


def ridge_on_ball(rng: np.random.Generator) -> tuple[Any, Any]:
    A = rng.standard_normal((100, 300))
    f = cg.smooth.LeastSquares(A, A[:, :5].sum(axis=1) + rng.standard_normal(100))
    return f, cg.simple.Ridge(5.0, on=cg.sets.L1Ball(3.0))


def logistic_on_ball(rng: np.random.Generator) -> tuple[Any, Any]:
    A = rng.standard_normal((100, 300))
    f = cg.smooth.Logistic(A, np.sign(A[:, :5].sum(axis=1) + rng.standard_normal(100)))
    return f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(3.0))


def vertices_of_simplex(rng: np.random.Generator) -> tuple[Any, Any]:
    A = rng.standard_normal((100, 50))
    f = cg.smooth.LeastSquares(A, A @ rng.dirichlet(np.ones(50)) + rng.standard_normal(100))
    return f, cg.simple.Zero(on=cg.sets.Simplex(50))


PROBLEMS: dict[str, tuple[Callable[[np.random.Generator], tuple[Any, Any]], float]] = {
    "least squares, ridge, l1 ball": (ridge_on_ball, 1e-6),
    "logistic, ridge, l1 ball": (logistic_on_ball, 1e-6),
    "least squares, vertices of the simplex": (vertices_of_simplex, 1e-3),
}
"""Each with the gap that is asked for, as a share of the scale: without a strongly convex g the rate
is 1/k."""


def rows_of(draws: int, most: int) -> Iterator[dict[str, Any]]:
    """A row for each problem; the columns are rules, and None stands for more than `most`."""
    for name, (make, tol) in PROBLEMS.items():
        row: dict[str, Any] = {"problem": name, "to": tol}
        for label, options in RULES.items():
            taken = []
            for seed in range(draws):
                f, g = make(np.random.default_rng(seed))
                r = cg.minimize(f, g, tol=tol, max_iter=most, **options)
                taken.append(r.iterations if r.success else np.inf)
            median = float(np.median(taken))
            row[label] = int(median) if np.isfinite(median) else None
        yield row


def main(*, draws: int = 5, most: int = 2000) -> None:
    print(f"iterations of CGS to a certified gap, median of {draws} draws")
    show(list(rows_of(draws, most)))


if __name__ == "__main__":
    run(main)
