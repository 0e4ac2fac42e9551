"""Time to certified relative gaps on group-lasso transport: Newton, CGS with memory, and where POT ends.

Run: python benchmarks/group_newton.py [--sizes 100 500 2000] [--entropies 1e-1 1e-2 1e-3] [--weight 0.1] [--cap 60]

Noisy clusters as classes, squared Euclidean cost with largest entry 1, uniform weights. A time is that of the first
iterate whose proof, best value minus best bound, is within the level times |F*|. POT's solver proves nothing: its row
shows the seconds of one run and the true (F - F*)/|F*| of its plan, rounded to exact marginals.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import condgrad as cg

try:
    import ot
except ModuleNotFoundError:
    sys.exit("this benchmark compares with POT: pip install 'condgrad[pot]'")

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)


class Problem:
    """One instance."""

    def __init__(self, n: int, classes: int, entropy: float, weight: float) -> None:
        data = cg.datasets.make_clusters(n, clusters=classes)
        C = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
        self.C, self.labels, self.entropy, self.weight = C / C.max(), data.ys, entropy, weight
        self.a = np.full(n, 1.0 / n)
        self.f = cg.smooth.Linear(self.C) + cg.smooth.GroupLasso(data.ys, weight=weight)
        self.g = cg.simple.Entropy(entropy, on=cg.sets.Transport(self.a, self.a))

    def solved(self, method: str, memory: int, cap: float) -> Any:
        stop = cg.stopping.RelativeGap(0.5 * LEVELS[-1], scale=1e-9)
        return cg.minimize(self.f, self.g, method=method, memory=memory, stop=stop, time_limit=cap)

    def pot(self, iterations: int) -> tuple[float, float]:
        """Seconds of `sinkhorn_l1l2_gl`, and F at its plan."""
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = ot.da.sinkhorn_l1l2_gl(
                self.a, self.labels, self.a, self.C, self.entropy, eta=self.weight, numItermax=iterations
            )
        seconds = time.perf_counter() - begin
        plan = self.g.on.rounded(np.nan_to_num(plan))
        return seconds, self.f.at(plan).value + self.g.value(plan)


def times(trace: Any, best: float) -> str:
    """Seconds to each level, a dash where it was not reached."""
    reached = [np.flatnonzero(trace["best_value"] - trace["lower_bound"] <= level * abs(best)) for level in LEVELS]
    return "".join(f"{trace['seconds'][k[0]]:9.2f}" if len(k) else f"{'-':>9}" for k in reached)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--entropies", type=float, nargs="+", default=[1e-1, 1e-2, 1e-3])
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--pot-iterations", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{'n':>5}{'entropy':>9}  {'solver':26}" + "".join(f"{level:9.0e}" for level in LEVELS) + f"{'at end':>9}")
    with threadpool_limits(options.threads):
        for n in options.sizes:
            for entropy in options.entropies:
                problem = Problem(n, options.classes, entropy, options.weight)
                newton, cgs = (problem.solved(*way, options.cap) for way in (("newton", 0), ("cgs", 5)))
                best = min(newton.value, cgs.value)
                for name, result in (("Newton", newton), ("CGS, exact, memory 5", cgs)):
                    end = f"{result.gap / abs(best):9.0e}"
                    print(f"{n:5}{entropy:9.0e}  {name:26}{times(result.trace, best)}{end}", flush=True)
                if options.pot_iterations:
                    seconds, value = problem.pot(options.pot_iterations)
                    run = f"{f'{seconds:.2f} s in all':>{9 * len(LEVELS)}}"
                    print(f"{n:5}{entropy:9.0e}  {'POT sinkhorn_l1l2_gl':26}{run}{(value - best) / abs(best):9.0e}")


if __name__ == "__main__":
    main()
