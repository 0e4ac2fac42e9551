"""Whether method="auto" is ever a trap: its time over that of the best method, problem by problem, the worst last.

Run: python -m experiments bench auto [-- --cap 2.5 --only transport --list]
     python -m experiments bench auto -- --clouds 60 --seed 1 --cap 20

Every problem is solved to the same certified tolerance by "auto" and by each method that can. A time is the least
processor time of a few whole calls on one thread. A method that is far slower than the best so far is cut short, and
so is anything at the cap: where "auto" is, its ratio is a lower bound. Problems whose best method takes less than 20 ms
are listed, but do not count.

With `--clouds` it is a random sample of all transport problems between clouds that combine a shape, a dimension, a
number of points, an entropy, a Laplacian and something uncommon; the seed says which.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

import condgrad as cg
from condgrad.errors import MissingAbility
from experiments.benchmarks import run
from experiments.benchmarks import show as show_table
from experiments.clock import one_thread, quiet

COUNTS_FROM = 0.02
"""Seconds of the best method from which on a ratio counts."""
BAR = 1.5
CUT = 4.0
"""A method is cut short at so many times the best seconds before it: the limit is one of wall time, which on a busy
machine passes faster than the processor's.
"""
METHODS: dict[str, dict[str, Any]] = {
    "newton": {"method": "newton"},
    "spg": {"method": "spg"},
    "pqn": {"method": "pqn"},
    "cgs, memory 5": {"method": "cgs", "memory": 5},
    "cgs": {"method": "cgs"},
    "cg": {"method": "cg"},
}
"""The likely best ones first: each is cut short at the time of the best before it."""
REPEATS, ENOUGH_SECONDS = 5, 0.5

Solve = Callable[..., Any]
"""Takes `method`, `memory`, `tol`, `time_limit`; returns a result."""


def minimizations() -> Iterator[tuple[str, Solve]]:
    """f of five kinds, g of four kinds on the sets that they can be on, in three shapes; and matrix completion."""
    l1, l2, box = cg.sets.L1Ball(5.0), cg.sets.L2Ball(2.0), cg.sets.Box(-0.5, 0.5)
    for m, n in ((80, 200), (300, 1000), (2000, 60)):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
        y = A[:, :10] @ rng.choice([-1.0, 1.0], 10) + rng.standard_normal(m)
        labels = np.where(y > 0.0, 1.0, -1.0)
        smooth = {
            "LeastSquares": cg.smooth.LeastSquares(A, y),
            "Logistic": cg.smooth.Logistic(A, labels),
            "SquaredHinge": cg.smooth.SquaredHinge(A, labels),
            "Function": cg.smooth.Function(partial(squares, A, y)),
            "2 Logistic": 2.0 * cg.smooth.Logistic(A, labels),
        }
        simplex = cg.sets.Simplex(n, 5.0)
        simple: list[Any] = [cg.simple.Zero(on=P) for P in (l1, l2, box, simplex)]
        simple += [cg.simple.Ridge(1e-3 * m, on=P) for P in (l1, l2, box)]
        simple += [cg.simple.Ridge(1.0 * m, on=l1), cg.simple.L1Norm(0.1 * m, on=box)]
        simple += [cg.simple.Entropy(weight * m, on=simplex) for weight in (1e-2, 1.0)]
        for f_name, f in smooth.items():
            for g in simple:
                if isinstance(g, cg.simple.L1Norm) and f_name != "LeastSquares":
                    continue  # alike for every f
                # nothing but a start knows the shape of an own f on a ball
                start = None if g.on is simplex else np.zeros(n)
                yield f"{m} x {n}: {f_name} + {g!r}", partial(cg.minimize, f, g, start)
    for size in (20, 60):
        rng = np.random.default_rng(size)
        M = rng.standard_normal((size, 3)) @ rng.standard_normal((3, size))
        f = cg.smooth.Function(partial(squares_of_seen, M, rng.random((size, size)) < 0.5))
        ball = cg.sets.NuclearBall(round(0.8 * float(np.linalg.norm(M, "nuc"))))
        for g in (cg.simple.Zero(on=ball), cg.simple.Ridge(0.01, on=ball)):
            yield (
                f"{size} x {size}: completion + {g!r}",
                partial(cg.minimize, f, g, np.zeros((size, size))),
            )


def squares(A: Any, y: Any, x: Any) -> tuple[float, Any]:
    return 0.5 * float((A @ x - y) @ (A @ x - y)), A.T @ (A @ x - y)


def squares_of_seen(M: Any, seen: Any, X: Any) -> tuple[float, Any]:
    return 0.5 * float(((X - M)[seen] ** 2).sum()), (X - M) * seen


def transports() -> Iterator[tuple[str, Solve]]:
    """Clusters in d dimensions: no regulariser, Laplacians soft and stiff, class groups; entropies of the cost."""
    for n, d in ((100, 2), (100, 16), (100, 128), (100, 512), (400, 2), (400, 64)):
        rng = np.random.default_rng(d)
        classes = np.arange(n) % 5
        centres = rng.uniform(0.0, 1.0, (5, d))
        Xs = centres[classes] + 0.05 * rng.standard_normal((n, d))
        Xt = centres[classes] + 0.2 + 0.05 * rng.standard_normal((n, d))
        C = cdist(Xs, Xt, "sqeuclidean")
        unit = float(C.max())
        kinds: dict[str, list[Any]] = {
            "entropy alone": [],
            "Laplacian 1": [cg.transport.Laplacian(Xs, Xt, weight=1.0)],
            "Laplacian 1e3": [cg.transport.Laplacian(Xs, Xt, weight=1e3)],
            "raw Laplacian 1e3": [cg.transport.Laplacian(Xs, Xt, weight=1e3, normalized=False)],
            "groups": [cg.transport.GroupLasso(classes, weight=0.1 * unit)],
        }
        for kind, terms in kinds.items():
            for entropy in (1e-1, 1e-2, 1e-3):
                solve = partial(cg.transport.solve, C, entropy=entropy * unit, regularizers=terms)
                yield f"transport, n = {n}, d = {d}: {kind}, entropy {entropy:g}", solve


SHAPES = ("clusters", "Gaussians", "heavy tails", "itself")
DIMENSIONS = (2, 3, 10, 32, 64, 256)
SIZES = (100, 250, 700, 2000)
ENTROPIES = (1e-3, 1e-2, 1e-1)
LAPLACIANS = ("no Laplacian", "soft", "normalised", "raw")
ODDITIES = ("even", "uneven weights", "duplicates", "far points", "n = 3 m", "zero weights")


def between(sample: int, seed: int) -> Iterator[tuple[str, Solve]]:
    """Some of all combinations."""
    every = list(itertools.product(SHAPES, DIMENSIONS, SIZES, ENTROPIES, LAPLACIANS, ODDITIES))
    rng = np.random.default_rng(seed)
    for k in rng.permutation(len(every))[:sample]:
        shape, d, n, entropy, laplacian, oddity = every[k]
        name = f"transport, {shape}, n = {n}, d = {d}: {laplacian}, entropy {entropy:g}, {oddity}"
        yield name, between_clouds(*every[k], seed=int(k))


def between_clouds(
    shape: str,
    d: int,
    n: int,
    entropy: float,
    laplacian: str,
    oddity: str,
    *,
    seed: int,
) -> Solve:
    """One of these problems. Entropies are in mean costs, the weights of Laplacians 2 n, of soft ones n/50."""
    rng = np.random.default_rng(seed)
    m = n // 3 if oddity == "n = 3 m" else n
    centres = 2.0 * rng.standard_normal((7, d))

    def drawn(size: int) -> Any:
        if shape == "clusters":
            return centres[rng.integers(7, size=size)] + 0.3 * rng.standard_normal((size, d))
        return (
            rng.standard_t(4, (size, d))
            if shape == "heavy tails"
            else rng.standard_normal((size, d))
        )

    Xs = drawn(n)
    Xt = 0.8 * drawn(m) + 0.3
    if oddity == "duplicates":
        Xs[n // 2 :] = Xs[: n - n // 2]
    if oddity == "far points":
        Xs[:3] += 20.0
    a, b = (np.full(size, 1.0 / size) for size in (n, m))
    if oddity == "uneven weights":
        a, b = (10.0 ** rng.uniform(-4, 0, size) for size in (n, m))
    if oddity == "zero weights":
        a[: n // 10] = 0.0
    if shape == "itself":
        Xt, b = Xs, a
    mean = float((Xs.var(0) + Xt.var(0) + (Xs.mean(0) - Xt.mean(0)) ** 2).sum())
    terms = []
    if laplacian != "no Laplacian":
        weight = (0.02 if laplacian == "soft" else 2.0) * n
        terms.append(cg.transport.Laplacian(Xs, Xt, weight=weight, normalized=laplacian != "raw"))
        terms[0].graphs  # noqa: B018 - they are made when first asked for, and are no part of a solve
    return partial(
        cg.transport.solve,
        cg.transport.SquaredEuclidean(Xs, Xt),
        a / a.sum(),
        b / b.sum(),
        entropy=entropy * mean,
        regularizers=terms,
    )


def seconds_of(solve: Solve, cap: float, tol: float, **options: Any) -> tuple[float, Any]:
    """The least seconds of a few calls, infinite where the tolerance is not proved; and the last result."""
    least, spent, calls, result = math.inf, 0.0, 0, None
    while calls < REPEATS and (calls < 2 or spent < ENOUGH_SECONDS):
        begin = time.process_time()
        result = solve(tol=tol, time_limit=cap, max_iter=10**7, **options)
        seconds = time.process_time() - begin
        if not result.success:
            break
        least, spent, calls = min(least, seconds), spent + seconds, calls + 1
        if seconds > 2.0 * ENOUGH_SECONDS:
            break
    return least, result


def measured(name: str, solve: Solve, cap: float, tol: float) -> dict[str, Any]:
    """The seconds of "auto", the method that it took, and the best method with its seconds."""
    auto, result = seconds_of(solve, cap, tol, method="auto")
    if not math.isfinite(auto):  # the first call of all may have waited for a compiler
        auto, result = seconds_of(solve, cap, tol, method="auto")
    best, method = auto, "auto"
    for other, options in METHODS.items():
        if name.startswith("transport") and other == "cg":
            continue  # a linear program a step: never the best under an entropy
        try:
            seconds, _ = seconds_of(solve, min(cap, CUT * max(best, COUNTS_FROM)), tol, **options)
        except (MissingAbility, ValueError):
            continue
        if seconds < best:
            best, method = seconds, other
    solved = math.isfinite(auto)
    auto, best = min(auto, cap), min(best, cap)
    row = {
        "problem": name,
        "ratio": auto / best,
        "auto": auto,
        "best": best,
        "method": method,
        "solved": solved,
    }
    return {**row, "took": str(getattr(result, "method", "auto"))}


def show(rows: list[dict[str, Any]]) -> None:
    """Those that count last, the worst ratio at the end."""
    table = pd.DataFrame(rows)
    table["counts"] = table["best"] >= COUNTS_FROM
    table = table.sort_values(["counts", "ratio"])
    show_table(table[["ratio", "auto", "best", "method", "took", "solved", "counts", "problem"]])
    counted = table[table["counts"]]
    unsolved = ((table["method"] == "auto") & ~table["solved"]).sum()
    above = (counted["ratio"] > BAR).sum()
    print(
        f"{above} of {len(counted)} ratios that count are above {BAR:g}; nobody solved {unsolved} of {len(table)}"
    )


def main(
    *,
    cap: Annotated[float, "seconds that a call may take"] = 2.5,
    tol: float = 1e-6,
    only: Annotated[str, "a part of the names of the problems to run"] = "",
    clouds: Annotated[int, "so many random problems between clouds, in place of all others"] = 0,
    seed: Annotated[int, "which ones"] = 1,
    list: Annotated[bool, "name the problems and run none"] = False,
    out: Annotated[Path | None, "a JSON file for the rows"] = None,
) -> None:
    rows = []
    problems = between(clouds, seed) if clouds else itertools.chain(minimizations(), transports())
    if clouds:
        print(f"{clouds} problems of seed {seed}")
    with one_thread(), quiet():
        for name, solve in problems:
            if only not in name:
                continue
            if list:
                print(name)
                continue
            rows.append(measured(name, solve, cap, tol))
            last = rows[-1]
            unsolved = "" if last["solved"] else ", unsolved"
            print(f"{last['ratio']:7.2f}  {name} (best: {last['method']}{unsolved})", flush=True)
    if rows:
        show(rows)
    if out is not None:
        pd.DataFrame(rows).to_json(out, orient="records", indent=1)


if __name__ == "__main__":
    run(main)
