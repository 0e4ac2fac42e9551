"""Microseconds to project on the simplex: by sorting, by pruning and Michelot's passes in NumPy, and compiled.

Run: python -m experiments bench projection
Entries are absolute values of normal numbers. A mass of 1 keeps a handful, which one bound
finds, a mass of 10 keeps tens, which takes NumPy several passes; half of their sum keeps most.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from condgrad.kernels.keep_mass import keep_finite_mass
from condgrad.sets.threshold import keep_mass_by_arrays
from experiments.benchmarks import run, show
from experiments.clock import time_of_call


def by_sorting(v: Any, mass: float) -> Any:
    falling = np.sort(v)[::-1]
    thresholds = (np.cumsum(falling) - mass) / np.arange(1, len(v) + 1)
    return np.maximum(v - thresholds[np.count_nonzero(falling > thresholds) - 1], 0.0)


WAYS = {"sorting": by_sorting, "NumPy": keep_mass_by_arrays, "compiled": keep_finite_mass}


def main(*, sizes: tuple[int, ...] = (2_000, 100_000, 1_000_000)) -> None:
    begin = time.perf_counter()
    keep_finite_mass(np.ones(1), 1.0)
    print(f"compiled code ready in {time.perf_counter() - begin:.2f} s; microseconds a call:")
    rng = np.random.default_rng(0)
    rows = []
    for n in sizes:
        v = abs(rng.standard_normal(n))
        for answer, mass in (("few", 1.0), ("sparse", 10.0), ("dense", 0.5 * float(v.sum()))):
            kept = np.count_nonzero(keep_mass_by_arrays(v, mass))
            times = {name: 1e6 * time_of_call(project, v, mass) for name, project in WAYS.items()}
            rows.append({"n": n, "answer": answer, "kept": kept, **times})
    show(rows)


if __name__ == "__main__":
    run(main)
