"""Memory that a solve takes beyond its data: dense and streamed transport, elastic nets, each in a process of its own.

Run: python -m experiments bench memory [-- --dense 1000 2000 4000 --streamed 5000 20000 --nets 200x10000 200x100000]

Every row is the peak of the resident memory of a process during a solve, less what it held just before: points or data
and the libraries, whose kernels a small problem of the same kind has compiled. The peak is reset through
/proc/self/clear_refs, so this is for Linux.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, shown
from experiments.clock import one_thread
from experiments.problems import ENTROPY

MEBI = 2**20


def resident(field: str) -> float:
    """MiB that the process holds (VmRSS), or held at most since the last reset (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1]) / 1024.0
    raise OSError(f"/proc/self/status has no {field}")


def peak_of(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What work returns, its seconds, and the MiB that it took beyond what was there."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, begin = resident("VmRSS"), time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - begin, resident("VmHWM") - before


def transport(kind: str, n: int, d: int, tol: float) -> Callable[[], Any]:
    """A problem of n by n points: clusters in the plane, and noise in all other dimensions."""
    data, rng = cg.datasets.make_clusters(n), np.random.default_rng(0)
    Xs, Xt = (np.hstack([X, 0.02 * rng.standard_normal((n, d - 2))]) for X in (data.Xs, data.Xt))
    cost, plan = cg.transport.SquaredEuclidean(Xs, Xt), kind.partition(",")[0]
    terms = [cg.transport.Laplacian(Xs, Xt, weight=2.0 * n)] if "Laplacian" in kind else []
    return lambda: cg.transport.solve(cost, entropy=ENTROPY, regularizers=terms, plan=plan, tol=tol)


def net(shape: str, tol: float) -> Callable[[], Any]:
    """A logistic model of drawn data, whose labels follow ten features."""
    samples, features = map(int, shape.split("x"))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((features, samples)).T
    y = np.sign(X[:, :10].sum(axis=1) + rng.standard_normal(samples))
    g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(4.0))
    return lambda: cg.minimize(cg.smooth.Logistic(X, y), g, method="newton", tol=tol)


def in_units(kind: str, size: str, taken: float) -> str:
    """MiB in units that grow with nothing: plans for dense runs, numbers a point or a feature for others."""
    numbers = taken * MEBI / 8.0
    if kind == "elastic net":
        return f"{numbers / int(size.partition('x')[2]):.0f} numbers for each feature"
    n = int(size)
    if kind.startswith("dense"):
        return f"{numbers / n**2:.1f} arrays of n x n"
    return f"{numbers / (2 * n):.0f} numbers for each point"


def one(kind: str, size: str, dimension: int, tol: float) -> dict[str, Any]:
    """A row, measured in this process."""

    def problem(of_size: str) -> Callable[[], Any]:
        return (
            net(of_size, tol)
            if kind == "elastic net"
            else transport(kind, int(of_size), dimension, tol)
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem("200x2000" if kind == "elastic net" else "300")()
        result, seconds, taken = peak_of(problem(size))
    return {
        "kind": kind,
        "size": size,
        "MiB": taken,
        "in units": in_units(kind, size, taken),
        "seconds": seconds,
        "gap / scale": result.relative_gap,
    }


def rows_of(
    dense: tuple[int, ...],
    streamed: tuple[int, ...],
    nets: tuple[str, ...],
    dimension: int,
    tol: float,
) -> Iterator[dict[str, Any]]:
    """All rows, each measured by a process of its own."""
    wanted = [
        (kind, str(n)) for kind in ("dense, entropy alone", "dense, Laplacian") for n in dense
    ]
    wanted += [
        (kind, str(n))
        for kind in ("streamed, entropy alone", "streamed, Laplacian")
        for n in streamed
    ]
    wanted += [("elastic net", shape) for shape in nets]
    for kind, size in wanted:
        command = [
            sys.executable,
            "-m",
            "experiments.benchmarks.memory",
            "--kind",
            kind,
            "--size",
            size,
        ]
        command += ["--dimension", str(dimension), "--tol", str(tol)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        yield json.loads(done.stdout)


def main(
    *,
    dense: Annotated[tuple[int, ...], "points of a side, for dense plans"] = (1000, 2000, 4000),
    streamed: Annotated[tuple[int, ...], "points of a side, for streamed plans"] = (
        5_000,
        10_000,
        20_000,
    ),
    nets: Annotated[tuple[str, ...], "samples x features"] = ("200x10000", "200x100000"),
    dimension: Annotated[int, "of the points"] = 2,
    tol: float = 1e-4,
    kind: Annotated[str, "measure this kind alone, in this process"] = "",
    size: Annotated[str, "the size that goes with it"] = "",
) -> None:
    with one_thread():
        if kind:
            print(json.dumps(one(kind, size, dimension, tol)))
        else:
            shown(rows_of(dense, streamed, nets, dimension, tol))


if __name__ == "__main__":
    run(main)
