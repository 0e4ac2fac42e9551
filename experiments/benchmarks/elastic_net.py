"""Time to a given accuracy on the l1-constrained elastic net: ours, and packages that solve its penalised form.

Run: CONDGRAD_DATA=folder python -m experiments bench elastic_net [-- --data colon a9a --levels 1e-3 1e-6 --quick]

The problem is sum log(1 + exp(-y z.x)) + ridge |x|_2^2 subject to |x|_1 <= radius, without an intercept. Errors are
relative, (F - F*)/|F*|, and F* comes from a certified run. Times are CPU milliseconds on one thread, the best of
several runs; data conversion, objects and compilation stay outside the clock.

Table 1. For ours, "proved" is the time of a whole call that stops by its own certificate at the level, and "reached"
that of one that is told by an outsider, who knows F*, when it is there. The rivals prove nothing and do not take a
radius: they are given the multiplier of the constraint and, for each level, the tolerance that reaches it fastest.
Their points are judged by the kinder of two errors, that of F at the projection onto the ball and that of their own
penalised objective. The ratio is to skglm's ProxNewton: "proved" for ours, "reached" for the others.

Table 2. Nobody is given the multiplier. The rivals look for it: they halve it from where x = 0 until |x|_1 exceeds the
radius, then SciPy's brentq closes in on |x|_1 = radius. Fits start from the one before where the package allows it. The
search ends when |x|_1 is as close as the level asks for, which they are told; their tolerance is again the fastest
that does it. Errors are those of F at the projection. Ours solve this problem as it is: their time is "proved" above.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.optimize import brentq

import condgrad as cg
from condgrad.errors import MissingAbility
from experiments.clock import OutOfTime, best_time, capped, clocked, one_thread, quiet
from experiments.elastic_net_rivals import RIVALS, ProxNewton, Rival, installed
from experiments.problems import ElasticNetProblem

SETTINGS: dict[str, tuple[float, float]] = {
    "colon": (1.0, 4.0),
    "lymphoma62": (1.0, 4.0),
    "lymphoma96": (1.0, 4.0),
    "prostate": (1.0, 4.0),
    "basehock": (0.1, 60.0),
    "a9a": (1.0, 10.0),
}
"""Ridge and radius."""
METHODS: dict[str, tuple[str, str]] = {
    "auto": ("auto", "exact"),
    "newton": ("newton", "exact"),
    "cgs, Armijo": ("cgs", "armijo"),
    "cgs, 2/(k+2)": ("cgs", "open-loop"),
    "spg": ("spg", "exact"),
    "pqn": ("pqn", "exact"),
    "cg": ("cg", "exact"),
}
"""Ours: the method and the step."""
WARM_UP = 8
"""The place in either list of an effort that calls, and so compiles, every part of a solver."""
MORE = 6
"""How many efforts beyond the first that reaches a level are tried for being faster."""
SOON = 1.0
"""Seconds beyond which one run is measurement enough."""


@dataclass
class Row:
    """What a solver took to one level, in seconds; None where it did not get there."""

    data: str
    solver: str
    level: float
    best_error: float
    proved: float | None = None
    reached: float | None = None
    constrained: float | None = None
    fits: int | None = None
    tolerance: float | None = None


class Fastest(NamedTuple):
    """The effort that reached a level fastest, its seconds and fits; None where none did."""

    effort: float | None = None
    seconds: float | None = None
    fits: int | None = None


def load(name: str) -> ElasticNetProblem:
    """The data as the settings want them: dense ones standardised, sparse ones as they are."""
    if name == "colon":
        found = cg.datasets.load_colon()
        return ElasticNetProblem(name, found.X, found.y, *SETTINGS[name])
    with np.load(Path(os.environ.get("CONDGRAD_DATA", ".")) / f"{name}.npz") as file:
        y = file["y"].astype(float)
        if "X" in file:
            X = cg.datasets.standardize(file["X"])
        else:
            parts = file["data"].astype(float), file["indices"].astype(np.int32), file["indptr"].astype(np.int32)
            X = scipy.sparse.csr_matrix(parts, shape=tuple(file["shape"]))
    return ElasticNetProblem(name, X, y, *SETTINGS[name])


def ours(problem: ElasticNetProblem, name: str, levels: Sequence[float], cap: float) -> list[Row]:
    """A scouting run finds the moments; those that come soon are measured again, each by calls of its own."""
    (method, step), best = METHODS[name], problem.optimum.value
    moments: list[tuple[float, float, float]] = []
    begin = time.process_time()

    def solve(f: Any, enough: Callable[[Any], bool]) -> Any:
        # the end is judged against |F*| here, whatever the library's own tolerance is relative to
        limits = {"tol": 0.0, "max_iter": 10**7, "time_limit": cap}
        return cg.minimize(f, problem.g, method=method, step=step, callback=enough, **limits)

    def note(now: Any) -> bool:
        moments.append((time.process_time() - begin, now.lower_bound + now.gap, now.gap))
        return bool(now.gap <= min(levels) * abs(best))

    def measured(scouted: float | None, there: Callable[[Any], bool]) -> float | None:
        def prepare() -> Callable[[], Any]:
            f = problem.new_f()
            return lambda: solve(f, there)

        return scouted if scouted is None or scouted > SOON else best_time(prepare)

    solve(problem.new_f(), note)
    error = (min(value for _, value, _ in moments) - best) / abs(best)
    rows = []
    for level in levels:
        target = level * abs(best)
        proved = next((seconds for seconds, _, gap in moments if gap <= target), None)
        reached = next((seconds for seconds, value, _ in moments if value <= best + target), None)
        proved = measured(proved, lambda now, target=target: now.gap <= target)
        reached = measured(reached, lambda now, target=target: now.lower_bound + now.gap <= best + target)
        rows.append(Row(problem.name, name, level, error, proved, reached, proved))
    return rows


def fastest_efforts(
    rival: Rival,
    run: Callable[[float], tuple[Any, int]],
    error: Callable[[Any], float],
    levels: Sequence[float],
    cap: float,
) -> tuple[list[Fastest], float]:
    """For each level, the time of `run` at the effort that reaches it fastest; and the best error seen.

    That is mostly the least one that does. A search among loose fits may take many of them, though, so a few more
    efforts are tried.
    """
    tried: list[tuple[Fastest, float]] = []

    def fresh(effort: float) -> Callable[[], tuple[Any, int]]:
        rival.forget()
        return lambda: run(effort)

    def exact(trial: Fastest, budget: float) -> float:
        assert trial.effort is not None
        assert trial.seconds is not None
        effort = trial.effort
        return trial.seconds if trial.seconds > SOON else best_time(lambda: fresh(effort), budget=budget)

    with quiet(), contextlib.suppress(OutOfTime):
        fresh(rival.efforts[WARM_UP])()
        for effort in rival.efforts:
            with capped(cap):
                seconds, (x, fits) = clocked(fresh(effort))
            tried.append((Fastest(effort, seconds, fits), error(x)))
            enough = sum(reached <= min(levels) for _, reached in tried)
            if enough > MORE or (enough and seconds > SOON) or seconds > cap:
                break
    found = []
    with quiet():
        for level in levels:
            there = [trial for trial, reached in tried if reached <= level][: MORE + 1]
            best = min(there, key=lambda trial: exact(trial, 0.1), default=None)
            found.append(Fastest() if best is None else best._replace(seconds=exact(best, 0.6)))
    return found, min((reached for _, reached in tried), default=math.inf)


def theirs(problem: ElasticNetProblem, kind: type[Rival], levels: Sequence[float], cap: float) -> list[Row]:
    rival, multiplier = kind(problem), problem.optimum.multiplier
    given = lambda effort: (rival.fit(multiplier, effort), 1)  # noqa: E731
    found, error = fastest_efforts(rival, given, problem.kinder_error, levels, cap)
    rows = []
    for level, one in zip(levels, found, strict=True):
        searched = Fastest()
        if one.seconds is not None:
            search = lambda effort, level=level: multiplier_search(rival, effort, level)  # noqa: E731
            (searched,), _ = fastest_efforts(rival, search, problem.constrained_error, [level], cap)
        times = {"reached": one.seconds, "constrained": searched.seconds}
        rows.append(Row(problem.name, kind.name, level, error, **times, fits=searched.fits, tolerance=one.effort))
    return rows


class CloseEnough(Exception):
    pass


def multiplier_search(rival: Rival, effort: float, level: float) -> tuple[Any, int]:
    """The solution of the constrained problem by a solver of the penalised one, and how many fits it took."""
    problem, best = rival.problem, rival.problem.optimum
    # F changes by the multiplier for each unit of the norm; half of the level is left to the fits themselves
    close = 0.5 * level * abs(best.value) / best.multiplier
    fits: list[Any] = []
    known: dict[float, float] = {}

    def excess(log_multiplier: float) -> float:
        if log_multiplier not in known:
            fits.append(rival.fit(math.exp(log_multiplier), effort))
            known[log_multiplier] = float(np.abs(fits[-1]).sum()) - problem.radius
            if abs(known[log_multiplier]) <= close:
                raise CloseEnough
        return known[log_multiplier]

    low = math.log(np.abs(problem.by_columns.T @ problem.y).max() / 2.0)
    known[low] = -problem.radius
    with contextlib.suppress(CloseEnough):
        while excess(low) < 0.0 and len(fits) < 30:
            high, low = low, low - math.log(2.0)
        if excess(low) > 0.0:
            brentq(excess, low, high, xtol=1e-15, rtol=1e-14, maxiter=60, disp=False)
    return fits[-1], len(fits)


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"


def print_table(rows: list[Row], levels: Sequence[float], *, given: bool) -> None:
    """One line a solver, a group of columns a level."""

    def compared(row: Row) -> float | None:
        if not given:
            return row.constrained
        return row.proved if row.solver in METHODS else row.reached

    at = {(row.solver, row.level): row for row in rows}
    heads = ("proved", "reached", "ratio") if given else ("ms", "fits", "ratio")
    print("  " + f"{'':20}" + "".join(f"{f'to {level:.0e}':>30}" for level in levels))
    print("  " + f"{'solver':20}" + "".join(f"{head:>10}" for _ in levels for head in heads) + f"{'best':>10}" * given)
    for name in dict.fromkeys(row.solver for row in rows):
        cells = []
        for level in levels:
            row, base = at[name, level], at.get((ProxNewton.name, level))
            times = (row.proved, row.reached) if given else (row.constrained,)
            cells += [milliseconds(seconds) for seconds in times]
            cells += [] if given else ["-" if row.fits is None else str(row.fits)]
            mine, its = compared(row), base and compared(base)
            cells.append("-" if mine is None or its is None else f"{mine / its:.2f}")
        print("  " + f"{name:20}" + "".join(f"{cell:>10}" for cell in cells) + f"{row.best_error:10.0e}" * given)


def report(problem: ElasticNetProblem, rivals: Sequence[type[Rival]], levels: Sequence[float], cap: float) -> list[Row]:
    best, (m, n) = problem.optimum, problem.X.shape
    print(
        f"\n{problem.name}: {m} samples, {n} features{', sparse' if problem.sparse else ''}; ridge {problem.ridge:g}, "
        f"radius {problem.radius:g}\nF* = {best.value:.10g}, certified to {best.gap / abs(best.value):.0e}; "
        f"multiplier {best.multiplier:.4g}; {np.count_nonzero(best.x)} coefficients are not 0"
    )
    rows: list[Row] = []
    for name in METHODS:
        try:
            rows += ours(problem, name, levels, cap)
        except MissingAbility as error:
            print(f"  {name} is left out: {str(error).split(';')[0][:90]}")
    for kind in rivals:
        try:
            rows += theirs(problem, kind, levels, cap)
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"  {kind.name} is left out: {str(error)[:90]}")
    print("\n  Table 1: the rivals are given the multiplier")
    print_table(rows, levels, given=True)
    print("\n  Table 2: the constrained problem")
    print_table(rows, levels, given=False)
    return rows


def path_report(problem: ElasticNetProblem) -> dict[str, float]:
    """A path of 50 radii against ten single fits at every fifth of them."""
    X, y = problem.by_columns, problem.y
    options = {"ridge": problem.ridge, "fit_intercept": False}
    with quiet():
        radii = cg.linear_model.path(X, y, **options).radii

        def single(radius: float) -> Callable[[], Any]:
            f, g = problem.new_f(), cg.simple.Ridge(problem.ridge, on=cg.sets.L1Ball(radius))
            return lambda: cg.minimize(f, g, method="auto", tol=1e-6)

        whole = best_time(lambda: lambda: cg.linear_model.path(X, y, radii=radii, tol=1e-6, **options))
        singles = sum(best_time(lambda radius=radius: single(radius)) for radius in radii[4::5])
    print(
        f"\n{problem.name}, path: {len(radii)} radii from {radii[0]:.3g} to {radii[-1]:.3g}, each proved to 1e-6, in "
        f"{milliseconds(whole)} ms; ten single fits among them {milliseconds(singles)} ms: ratio {whole / singles:.2f}"
    )
    return {"path": whole, "ten_single_fits": singles}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--levels", type=float, nargs="+", default=[1e-3, 1e-6])
    parser.add_argument("--cap", type=float, default=20.0, help="CPU seconds that a run of a solver may take")
    parser.add_argument("--quick", action="store_true", help="colon alone, with a cap of 2 seconds")
    parser.add_argument("--out", type=Path, help="a JSON file for the results, in seconds")
    options = parser.parse_args()
    if options.quick:
        options.data, options.cap = ["colon"], 2.0
    rivals = [rival for rival in RIVALS if installed(rival)]
    saved: dict[str, Any] = {"cap": options.cap, "rows": []}
    with one_thread():
        for name in options.data:
            try:
                problem = load(name)
            except OSError as error:
                print(f"\n{name} is left out: {error}")
                continue
            saved["rows"] += [asdict(row) for row in report(problem, rivals, options.levels, options.cap)]
            if name == "colon":
                saved[f"{name} path"] = path_report(problem)
            if options.out is not None:
                options.out.write_text(json.dumps(saved, indent=1))


if __name__ == "__main__":
    main()
