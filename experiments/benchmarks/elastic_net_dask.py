"""Logistic elastic nets of Dask data: passes over the data, seconds and memory against the number of rows.

Run: python -m experiments bench elastic_net_dask [-- --rows 100000 800000 6400000 --workers 2]

Rows of 200 features in float32 are made on the workers, in blocks. Beside Newton's method on blocks: the same loss in
one process with all rows in memory, where they are few enough, and what people do today, scikit-learn's
`SGDClassifier.partial_fit` block after block, given the multiplier that replaces the constraint. Each contender runs
in a process of its own, on one thread a worker; the data are there, or made outside the clock. A gap is certified and
over the scale of F; that of SGD is its penalised objective above ours, over ours. GB are peaks of resident memory, of
the driver and of the largest worker.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Any

import numpy as np
from sklearn.linear_model import SGDClassifier

import condgrad as cg
from condgrad.linear_model.solver import multiplier_at
from condgrad.methods.certified_point import ObjectivePoint, Tally
from experiments.benchmarks import run, shown

FEATURES, USED = 200, 20
BLOCK = 50_000
RADIUS, RIDGE = 2.0, 1.0
TOL = 1.2e-5
"""What float32 can prove."""
EPOCHS = 5
MOST_IN_MEMORY = 1_000_000
"""Rows that one process holds, as float32 and as the float64 that the engine makes of them, in some GB."""


def block(number: int, rows: int) -> tuple[Any, Any]:
    """Some rows and their labels, the same ones whenever they are asked for."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    X[:, 1:] += 0.5 * X[:, :-1]  # neighbours are correlated
    scores = X[:, :USED] @ np.linspace(0.5, -0.3, USED, dtype=np.float32)
    return X, np.where(scores + rng.logistic(size=rows) > 0.3, 1.0, -1.0)


def sizes_of(rows: int) -> list[int]:
    return [min(BLOCK, rows - begin) for begin in range(0, rows, BLOCK)]


def peak() -> float:
    """GB of this process, at its largest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def problem(X: Any, y: Any) -> tuple[Any, Any]:
    f = cg.smooth.Logistic(X, y, intercept=True)
    return f, cg.simple.Ridge(RIDGE, on=cg.sets.L1Ball(RADIUS))


def on_workers(rows: int, workers: int, memory: str) -> dict[str, Any]:
    import dask.array as da
    import distributed
    from dask import delayed

    solved_in_memory(1000)  # loads what is compiled
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        begin = time.perf_counter()
        pairs = [delayed(block)(k, size) for k, size in enumerate(sizes_of(rows))]
        shapes = list(zip(pairs, sizes_of(rows), strict=True))
        X = da.concatenate(
            [da.from_delayed(p[0], (size, FEATURES), np.float32) for p, size in shapes]
        )
        y = da.concatenate([da.from_delayed(p[1], (size,), np.float64) for p, size in shapes])
        f, g = problem(X, y)
        distributed.wait(f.data.matrices)
        made = time.perf_counter() - begin

        def spent() -> float:
            """CPU seconds of the driver and the workers."""
            return time.process_time() + sum(client.run(time.process_time).values())

        begin, before = time.perf_counter(), spent()
        result = cg.minimize(f, g, method="newton", tol=TOL)
        seconds, cpu, passes = time.perf_counter() - begin, spent() - before, f.data.passes[0]
        return {
            "rows": rows,
            "contender": f"{workers} workers",
            "seconds": seconds,
            "CPU": cpu,
            "passes": passes,
            "CPU a pass": cpu / passes,
            "driver GB": peak(),
            "worker GB": max(client.run(peak).values()),
            "gap": result.relative_gap,
            "status": str(result.status),
            "made in": made,
            "x": result.x,
            "b": f.intercept_at(result.x),
            "multiplier": multiplier_at(ObjectivePoint(f, g, result.x, Tally()), RIDGE, g.on),
        }


def in_memory(rows: int) -> dict[str, Any]:
    solved_in_memory(1000)
    return solved_in_memory(rows)


def solved_in_memory(rows: int) -> dict[str, Any]:
    begin = time.perf_counter()
    X, y = np.empty((rows, FEATURES), np.float32), np.empty(rows)
    for k, size in enumerate(sizes_of(rows)):
        some = slice(k * BLOCK, k * BLOCK + size)
        X[some], y[some] = block(k, size)
    f, g = problem(X, y)
    made = time.perf_counter() - begin
    begin, before = time.perf_counter(), time.process_time()
    result = cg.minimize(f, g, method="newton", tol=TOL)
    return {
        "rows": rows,
        "contender": "one process",
        "seconds": time.perf_counter() - begin,
        "CPU": time.process_time() - before,
        "passes": "-",
        "CPU a pass": "-",
        "driver GB": peak(),
        "worker GB": "-",
        "gap": result.relative_gap,
        "status": str(result.status),
        "made in": made,
    }


def by_partial_fit(rows: int, ours: dict[str, Any]) -> dict[str, Any]:
    penalty = ours["multiplier"] + 2.0 * RIDGE
    model = SGDClassifier(
        loss="log_loss",
        penalty="elasticnet",
        alpha=penalty / rows,
        l1_ratio=ours["multiplier"] / penalty,
        random_state=0,
    )
    seconds = made = cpu = 0.0
    for _ in range(EPOCHS):
        for k, size in enumerate(sizes_of(rows)):
            begin = time.perf_counter()
            X, y = block(k, size)
            made += time.perf_counter() - begin
            begin, before = time.perf_counter(), time.process_time()
            model.partial_fit(X, y, classes=[-1.0, 1.0])
            seconds, cpu = seconds + time.perf_counter() - begin, cpu + time.process_time() - before
    pairs = [
        (np.ravel(model.coef_), float(model.intercept_[0])),
        (ours["x"].astype(float), ours["b"]),
    ]
    theirs, best = (
        RIDGE * float(x @ x)
        + ours["multiplier"] * float(np.abs(x).sum())
        + sum(losses(x, b, *block(k, size)) for k, size in enumerate(sizes_of(rows)))
        for x, b in pairs
    )
    return {
        "rows": rows,
        "contender": f"SGD, {EPOCHS} epochs",
        "seconds": seconds,
        "CPU": cpu,
        "passes": EPOCHS,
        "CPU a pass": cpu / EPOCHS,
        "driver GB": peak(),
        "worker GB": "-",
        "gap": theirs / best - 1.0,
        "status": "no proof",
        "made in": made,
    }


def losses(x: Any, b: float, X: Any, y: Any) -> float:
    return float(np.logaddexp(0.0, -y * (X @ x + b)).sum())


def alone(call: Any, *arguments: Any) -> dict[str, Any]:
    """What a call returns in a process of its own, so that its memory is its own too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(call, *arguments).result()


def rows_of(rows: tuple[int, ...], workers: int, memory: str) -> Iterator[dict[str, Any]]:
    for count in rows:
        ours = alone(on_workers, count, workers, memory)
        yield {name: cell for name, cell in ours.items() if name not in ("x", "b", "multiplier")}
        if count <= MOST_IN_MEMORY:
            yield alone(in_memory, count)
        yield alone(by_partial_fit, count, ours)


def main(
    *,
    rows: Annotated[tuple[int, ...], "how many rows the data have"] = (100_000, 800_000, 6_400_000),
    workers: Annotated[int, "processes"] = 2,
    memory: Annotated[str, "of a worker, beyond which Dask spills to disk"] = "5GiB",
) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes to come
    shown(rows_of(rows, workers, memory))


if __name__ == "__main__":
    run(main)
