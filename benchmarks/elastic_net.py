"""Time to a given accuracy on the l1-constrained elastic net: ours, and packages that solve its penalised form.

Run: CONDGRAD_DATA=folder python benchmarks/elastic_net.py [--data colon a9a] [--levels 1e-3 1e-6] [--cap 20] [--quick]

The problem is sum log(1 + exp(-y z.x)) + ridge |x|_2^2 subject to |x|_1 <= radius, without an intercept. Errors are
relative, (F - F*)/|F*|, and F* comes from a certified run. Times are CPU milliseconds on one thread, the best of
several runs; data conversion, objects and compilation stay outside the clock.

Table 1. For ours, "proved" is the time of a whole call that stops by its own certificate at the level, and "reached"
that of one that is told by an outsider, who knows F*, when it is there. The peers prove nothing and do not take a
radius: they are given the multiplier of the constraint and, for each level, the tolerance that reaches it fastest.
Their points are judged by the kinder of two errors, that of F at the projection onto the ball and that of their own
penalised objective. The ratio is to skglm's ProxNewton: "proved" for ours, "reached" for the others.

Table 2. Nobody is given the multiplier. The peers look for it: they halve it from where x = 0 until |x|_1 exceeds the
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
from typing import Any

import numpy as np
import scipy.sparse
from elastic_net_peers import (
    PEERS,
    OutOfTime,
    Peer,
    Problem,
    ProxNewton,
    best_time,
    capped,
    clocked,
    installed,
    quiet,
)
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

import condgrad as cg
from condgrad.errors import MissingAbility

LAYOUT = "columns"
"""The order of the data that ours like best: "columns" (Fortran order, CSC) or "rows" (C order, CSR)."""

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

BASELINE = ProxNewton.name

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
    proved: float | None = None
    reached: float | None = None
    constrained: float | None = None
    fits: int | None = None
    tolerance: float | None = None
    best_error: float | None = None

    @property
    def given_multiplier(self) -> float | None:
        """The time that is compared in table 1."""
        return self.reached if self.solver not in METHODS else self.proved


def load(name: str) -> Problem:
    """The data as the settings want them: dense ones standardised, sparse ones as they are."""
    if name == "colon":
        found = cg.datasets.load_colon()
        X, y = found.X, found.y
    elif name in ("lymphoma62", "lymphoma96"):
        found = cg.datasets.load_lymphoma(version="dlbcl" if name == "lymphoma62" else "malignant")
        X, y = found.X, found.y
    else:
        with np.load(Path(os.environ.get("CONDGRAD_DATA", ".")) / f"{name}.npz") as file:
            y = file["y"].astype(float)
            if "X" in file:
                X = cg.datasets.standardize(file["X"])
            else:
                parts = file["data"].astype(float), file["indices"].astype(np.int32), file["indptr"].astype(np.int32)
                X = scipy.sparse.csr_matrix(parts, shape=tuple(file["shape"]))
    return Problem(name, X, y, *SETTINGS[name])


def solved(problem: Problem, name: str, f: Any, tol: float, callback: Any, cap: float) -> Any:
    method, step = METHODS[name]
    return cg.minimize(
        f, problem.simple, method=method, step=step, tol=tol, max_iter=10**7, time_limit=cap, callback=callback
    )


def ours(problem: Problem, name: str, levels: Sequence[float], cap: float) -> list[Row]:
    """A scouting run finds the moments; those that come soon are measured again, each by calls of its own."""
    optimum = problem.optimum.value
    # the library's tolerance is relative to max(1, |F|)
    tolerances = {level: level * min(1.0, abs(optimum)) for level in levels}
    moments = scouted(problem, name, min(tolerances.values()), cap)

    def first(there: Callable[[float, float], bool]) -> float | None:
        return next((seconds for seconds, best, gap in moments if there(best, gap)), None)

    def measured(scouted: float | None, tol: float, stop: Callable[[Any], bool] | None) -> float | None:
        def prepare() -> Callable[[], Any]:
            f = problem.smooth(LAYOUT)
            return lambda: solved(problem, name, f, tol, stop, cap)

        return scouted if scouted is None or scouted > SOON else best_time(prepare)

    rows = []
    for level, tol in tolerances.items():
        target = optimum + level * abs(optimum)
        proved = first(lambda _, gap, tol=tol: gap <= tol)
        reached = first(lambda best, _, target=target: best <= target)
        proved = measured(proved, tol, None)
        reached = measured(reached, 0.0, lambda now, target=target: now.lower_bound + now.gap <= target)
        best_error = (min(best for _, best, _ in moments) - optimum) / abs(optimum)
        rows.append(Row(problem.name, name, level, proved, reached, proved, best_error=best_error))
    return rows


def scouted(problem: Problem, name: str, tol: float, cap: float) -> list[tuple[float, float, float]]:
    """CPU seconds, best value and relative gap after each iteration of one run."""
    f, moments = problem.smooth(LAYOUT), []
    begin = time.process_time()

    def note(now: Any) -> None:
        best = now.lower_bound + now.gap
        moments.append((time.process_time() - begin, best, now.gap / max(1.0, abs(best))))

    solved(problem, name, f, tol, note, cap)
    return moments


@dataclass(frozen=True)
class Trial:
    """One run at some effort."""

    effort: float
    seconds: float
    error: float
    fits: int


@dataclass(frozen=True)
class Found:
    """The effort that reached a level fastest, and what it took; None where none did."""

    effort: float | None = None
    seconds: float | None = None
    fits: int | None = None


def fastest_efforts(
    peer: Peer,
    run: Callable[[float], tuple[Any, int]],
    error: Callable[[Any], float],
    levels: Sequence[float],
    cap: float,
) -> tuple[list[Found], float]:
    """For each level, the time of `run` at the effort that reaches it fastest; and the best error seen.

    That is mostly the least one that does. A search among loose fits may take many of them, though, so a few more
    efforts are tried.
    """
    tried: list[Trial] = []

    def fresh(effort: float) -> Callable[[], tuple[Any, int]]:
        peer.forget()
        return lambda: run(effort)

    def exact(trial: Trial, budget: float) -> float:
        return trial.seconds if trial.seconds > SOON else best_time(lambda: fresh(trial.effort), budget=budget)

    with quiet(), contextlib.suppress(OutOfTime):
        fresh(peer.efforts[WARM_UP])()
        for effort in peer.efforts:
            with capped(cap):
                seconds, (x, fits) = clocked(fresh(effort))
            tried.append(Trial(effort, seconds, error(x), fits))
            enough = sum(trial.error <= min(levels) for trial in tried)
            if enough > MORE or (enough and seconds > SOON) or seconds > cap:
                break
    found = []
    with quiet():
        for level in levels:
            there = [trial for trial in tried if trial.error <= level][: MORE + 1]
            best = min(there, key=lambda trial: exact(trial, 0.1), default=None)
            found.append(Found() if best is None else Found(best.effort, exact(best, 0.6), best.fits))
    return found, min((trial.error for trial in tried), default=math.inf)


def theirs(problem: Problem, kind: type[Peer], levels: Sequence[float], cap: float) -> list[Row]:
    peer, multiplier = kind(problem), problem.optimum.multiplier
    rows = [Row(problem.name, kind.name, level) for level in levels]
    found, best = fastest_efforts(
        peer, lambda effort: (peer.fit(multiplier, effort), 1), problem.kinder_error, levels, cap
    )
    for row, one in zip(rows, found, strict=True):
        row.reached, row.tolerance, row.best_error = one.seconds, one.effort, best
        searched = Found()
        if one.seconds is not None:
            (searched,), _ = fastest_efforts(
                peer,
                lambda effort, level=row.level: multiplier_search(peer, effort, level),
                problem.constrained_error,
                [row.level],
                cap,
            )
        row.constrained, row.fits = searched.seconds, searched.fits
    return rows


class CloseEnough(Exception):
    pass


def multiplier_search(peer: Peer, effort: float, level: float) -> tuple[Any, int]:
    """The solution of the constrained problem by a solver of the penalised one, and how many fits it took."""
    problem, best = peer.problem, peer.problem.optimum
    # F changes by the multiplier for each unit of the norm; half of the level is left to the fits themselves
    close = 0.5 * level * abs(best.value) / best.multiplier
    fits: list[Any] = []

    def excess(log_multiplier: float) -> float:
        fits.append(peer.fit(math.exp(log_multiplier), effort))
        over = float(np.abs(fits[-1]).sum()) - problem.radius
        if abs(over) <= close:
            raise CloseEnough
        return over

    low = math.log(np.abs(problem.by_columns.T @ problem.y).max() / 2.0)
    values = {low: -problem.radius}
    with contextlib.suppress(CloseEnough):
        while values[low] < 0.0 and len(fits) < 30:
            high, low = low, low - math.log(2.0)
            values[low] = excess(low)
        if values[low] > 0.0:
            brentq(memory(values, excess), low, high, xtol=1e-15, rtol=1e-14, maxiter=60, disp=False)
    return fits[-1], len(fits)


def memory(known: dict[float, float], function: Callable[[float], float]) -> Callable[[float], float]:
    """The function, not asked again where its value is known."""
    return lambda at: known[at] if at in known else function(at)


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"


def ratio(seconds: float | None, base: float | None) -> str:
    return "-" if seconds is None or base is None else f"{seconds / base:.2f}"


def table(rows: list[Row], levels: Sequence[float], first: bool) -> None:
    """One line a solver, a group of columns a level."""
    heads = ("proved", "reached", "ratio") if first else ("ms", "fits", "ratio")
    print("  " + f"{'':20}" + "".join(f"{f'to {level:.0e}':>30}" for level in levels))
    print("  " + f"{'solver':20}" + "".join(f"{head:>10}" for _ in levels for head in heads) + f"{'best':>10}" * first)
    for name in dict.fromkeys(row.solver for row in rows):
        cells = ""
        for level in levels:
            row, base = pick(rows, name, level), pick(rows, BASELINE, level)
            if first:
                shown = milliseconds(row.proved), milliseconds(row.reached)
                shown += (ratio(row.given_multiplier, base and base.reached),)
            else:
                shown = milliseconds(row.constrained), "-" if row.fits is None else str(row.fits)
                shown += (ratio(row.constrained, base and base.constrained),)
            cells += "".join(f"{cell:>10}" for cell in shown)
        print("  " + f"{name:20}{cells}" + (f"{row.best_error:10.0e}" if first else ""))


def pick(rows: list[Row], solver: str, level: float) -> Any:
    return next((row for row in rows if row.solver == solver and row.level == level), None)


def report(problem: Problem, peers: Sequence[type[Peer]], levels: Sequence[float], cap: float) -> list[Row]:
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
    for kind in peers:
        try:
            rows += theirs(problem, kind, levels, cap)
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"  {kind.name} is left out: {str(error)[:90]}")
    print("\n  Table 1: the peers are given the multiplier")
    table(rows, levels, first=True)
    print("\n  Table 2: the constrained problem")
    table(rows, levels, first=False)
    return rows


def path_report(problem: Problem) -> dict[str, float]:
    """A path of 50 radii against ten single fits at every fifth of them."""
    X, y, ridge = problem.by_columns, problem.y, problem.ridge
    with quiet():
        radii = cg.linear_model.path(X, y, ridge=ridge, fit_intercept=False).radii

        def single(radius: float) -> Callable[[], Any]:
            f, g = problem.smooth(LAYOUT), cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))
            return lambda: cg.minimize(f, g, method="auto", tol=1e-6)

        whole = best_time(
            lambda: lambda: cg.linear_model.path(X, y, radii=radii, ridge=ridge, fit_intercept=False, tol=1e-6)
        )
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
    peers = [peer for peer in PEERS if installed(peer)]
    saved: dict[str, Any] = {"cap": options.cap, "rows": []}
    with threadpool_limits(1):
        for name in options.data:
            try:
                problem = load(name)
            except OSError as error:
                print(f"\n{name} is left out: {error}")
                continue
            saved["rows"] += [asdict(row) for row in report(problem, peers, options.levels, options.cap)]
            if name == "colon":
                saved[f"{name} path"] = path_report(problem)
            if options.out is not None:
                options.out.write_text(json.dumps(saved, indent=1))


if __name__ == "__main__":
    main()
