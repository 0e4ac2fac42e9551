"""Time to a given accuracy on the paper's transport problem: ours, POT's, and the conditional gradient over each LP.

Run: python -m experiments bench transport [-- --sizes 100 500 2000 --cap 60 --threads 2 --raw --skip-lp]

The problem is that of section 3.1 of the paper: noisy clusters, squared Euclidean cost, entropy 1.7e-2, Laplacian
weight 1e3 on symmetric 10-nearest-neighbour graphs. F* is the best value of all solvers, Newton's among them, and the
best bound says how well it is known. A solver's error at a moment is (F - F*)/|F*|, F being taken at its plan rounded
to exact marginals (outside the clock), best so far. Seconds to each level are followed by their ratios to those of
POT's gcg with its longest settings.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
import pandas as pd

from experiments.benchmarks import run, show
from experiments.clock import one_thread
from experiments.paper.tasks import first_at
from experiments.problems import TransportProblem
from experiments.transport_solvers import ENGINES, OURS, POT
from experiments.transport_solvers import run as run_solver

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)


def main(
    *,
    sizes: tuple[int, ...] = (100, 500, 2000),
    cap: Annotated[float, "seconds a solver may take"] = 60.0,
    threads: int = 2,
    raw: Annotated[bool, "raw Laplacians D - W instead of normalised ones"] = False,
    skip_lp: Annotated[bool, "leave out the conditional gradients over LPs"] = False,
    seed: int = 0,
) -> None:
    for n in sizes:
        make = partial(TransportProblem.of, n, seed, normalized=not raw)
        with one_thread(threads):
            solvers = [*POT, *OURS, *(() if skip_lp else ENGINES)]
            runs = {solver: run_solver(solver, make, cap) for solver in solvers}
        for solver, found in runs.items():
            if found.note:
                print(f"{solver}: {found.note}")
        done = {
            solver: found.columns
            for solver, found in runs.items()
            if len(found.columns["best_value"])
        }
        best = min(min(columns["best_value"]) for columns in done.values())
        bound = max(
            max(columns["lower_bound"]) for columns in done.values() if "lower_bound" in columns
        )
        print(f"n = {n}; F* = {best:.10f}, certified to {best - bound:.1e}")
        rows = {}
        for solver, columns in done.items():
            errors = (np.asarray(columns["best_value"]) - best) / abs(best)
            times = {
                f"to {level:.0e}": first_at(errors, level, of=columns["seconds"])
                for level in LEVELS
            }
            rows[solver] = {**times, "best": errors[-1]}
        table = pd.DataFrame.from_dict(rows, orient="index")
        if "pot-gcg" in table.index:
            ratios = table.filter(like="to ") / table.loc["pot-gcg"].filter(like="to ").replace(
                np.inf, np.nan
            )
            table = table.join(ratios.add_prefix("/ POT "))
        show(table.rename_axis("solver").reset_index())


if __name__ == "__main__":
    run(main)
