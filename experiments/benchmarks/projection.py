"""Microseconds to project on the simplex: by sorting, by pruning and Michelot's passes in NumPy, and compiled.

Run: python -m experiments bench projection
Entries are absolute values of normal numbers. A mass of 1 keeps a handful, which one bound
finds, a mass of 10 keeps tens, which takes NumPy several passes; half of their sum keeps most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from condgrad.kernels.keep_mass import keep_finite_mass
from condgrad.sets.threshold import keep_mass_by_arrays

SIZES, REPEATS, SECONDS = (2_000, 100_000, 1_000_000), 7, 0.05


def by_sorting(v: Any, mass: float) -> Any:
    falling = np.sort(v)[::-1]
    thresholds = (np.cumsum(falling) - mass) / np.arange(1, len(v) + 1)
    return np.maximum(v - thresholds[np.count_nonzero(falling > thresholds) - 1], 0.0)


def best(project: Callable[[Any, float], object], v: Any, mass: float) -> float:
    """Microseconds a call, best of several rounds."""
    begin = time.perf_counter()
    project(v, mass)
    calls = max(1, int(SECONDS / (time.perf_counter() - begin)))
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(calls):
            project(v, mass)
        times.append((time.perf_counter() - begin) / calls)
    return 1e6 * min(times)


def main() -> None:
    begin = time.perf_counter()
    keep_finite_mass(np.ones(1), 1.0)
    print(f"compiled code ready in {time.perf_counter() - begin:.2f} s")
    print(f"{'n':>8} {'answer':>7} {'kept':>8} {'sorting':>9} {'NumPy':>8} {'compiled':>9}   microseconds")
    rng = np.random.default_rng(0)
    for n in SIZES:
        v = abs(rng.standard_normal(n))
        for answer, mass in (("few", 1.0), ("sparse", 10.0), ("dense", 0.5 * float(v.sum()))):
            kept = np.count_nonzero(keep_mass_by_arrays(v, mass))
            sorting, arrays = best(by_sorting, v, mass), best(keep_mass_by_arrays, v, mass)
            fast = best(keep_finite_mass, v, mass)
            print(f"{n:8} {answer:>7} {kept:8} {sorting:9.0f} {arrays:8.0f} {fast:9.0f}")


if __name__ == "__main__":
    main()
