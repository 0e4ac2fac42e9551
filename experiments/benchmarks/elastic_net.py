"""Time to a given accuracy on the l1-constrained elastic net: ours, and packages that solve its penalised form.

Run: CONDGRAD_DATA=folder python -m experiments bench elastic_net [-- --data colon a9a 200x100000 --levels 1e-3 1e-6]
     python -m experiments bench elastic_net -- --models         (from nearly empty to nearly dense models)
     python -m experiments bench elastic_net -- --scaling        (features and samples grow, as a picture)

The problem is sum log(1 + exp(-y z.x)) + ridge |x|_2^2 subject to |x|_1 <= radius, without an intercept. Data are sets
of the folder or drawn ones by their shape, whose labels follow ten features and noise. Errors are relative,
(F - F*)/|F*|, and F* comes from a certified run. Times are CPU milliseconds on one thread, the best of several runs;
data conversion, objects and compilation stay outside the clock.

For ours, "proved" is the time of a call whose tolerance is the level, on its own certificate, and "reached" that of one
that an outsider, who knows F*, ends when it is there. The rivals prove nothing and do not take a radius. "Reached" is
their time when they are given the multiplier of the constraint and the loosest tolerance that reaches the level; they
are judged by the kinder of two errors, that of F at the projection onto the ball and that of their penalised objective.
"Searched" is their time when they look for the multiplier: they halve it from where x = 0 until |x|_1 exceeds the
radius, then SciPy's brentq closes in, until |x|_1 is as close as the level asks for, which they are told. Ours solve
that problem as it is. Ratios are to skglm's ProxNewton: of "proved" to its "reached", and to its "searched".
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import scipy.sparse
from scipy.optimize import brentq

import condgrad as cg
from condgrad.certificate import NULL_SHARE
from experiments.benchmarks import run, show
from experiments.clock import OutOfTime, best_time, capped, clocked, one_thread, quiet
from experiments.elastic_net_rivals import AndersonCD, ProxNewton, Rival, Saga, installed_rivals
from experiments.paper.figures import Figure, Line, Panel, draw
from experiments.problems import ElasticNetProblem

SETTINGS = {
    "colon": (1.0, 4.0),
    "lymphoma62": (1.0, 4.0),
    "lymphoma96": (1.0, 4.0),
    "prostate": (1.0, 4.0),
}
SETTINGS |= {"basehock": (0.1, 60.0), "a9a": (1.0, 10.0)}
"""Ridge and radius; drawn data have those of colon."""
RADII: dict[str, tuple[float, ...]] = {
    "basehock": (10.0, 60.0, 200.0, 400.0),
    "a9a": (2.0, 10.0, 40.0),
}
OTHER_RADII = 1.0, 4.0, 12.0
"""From nearly empty to nearly dense models; the last are those of all other data."""
LOADERS: dict[str, Callable[[], Any]] = {
    "colon": cg.datasets.load_colon,
    "lymphoma62": partial(cg.datasets.load_lymphoma, version="dlbcl"),
    "lymphoma96": partial(cg.datasets.load_lymphoma, version="malignant"),
}
METHODS = {
    "auto": ("auto", "exact"),
    "newton": ("newton", "exact"),
    "cgs, Armijo": ("cgs", "armijo"),
    "cgs, 2/(k+2)": ("cgs", "open-loop"),
    "spg": ("spg", "exact"),
    "pqn": ("pqn", "exact"),
    "cg": ("cg", "exact"),
}
"""Ours: the method and the step."""
SOON = 1.0
"""Seconds beyond which one run is measurement enough."""
SCALING = (
    "200x1000",
    "200x3000",
    "200x10000",
    "200x30000",
    "200x100000",
    "100x1000",
    "1000x1000",
    "10000x1000",
)
STYLES = {
    "auto": "newton",
    "spg": "spg",
    f"{ProxNewton.name}, reached": "pot-gcg",
    f"{ProxNewton.name}, searched": "cg",
}

Row = dict[str, Any]
"""What a solver took to one level: "proved", "reached", "searched" in seconds, as far as it got there."""


def load(name: str) -> ElasticNetProblem:
    """The data as the settings want them: dense ones standardised, sparse ones as they are."""
    if name not in SETTINGS:
        samples, features = map(int, name.split("x"))
        rng = np.random.default_rng(samples + features)
        X = rng.standard_normal((features, samples)).T
        relevant = rng.choice(features, 10, replace=False)
        signal = X[:, relevant] @ rng.choice([-1.0, 1.0], 10)
        return ElasticNetProblem(
            name, X, np.where(signal + rng.standard_normal(samples) > 0.0, 1.0, -1.0), 1.0, 4.0
        )
    if name in LOADERS:
        found = LOADERS[name]()
        return ElasticNetProblem(name, found.X, found.y, *SETTINGS[name])
    with np.load(Path(os.environ.get("CONDGRAD_DATA", ".")) / f"{name}.npz") as file:
        y = file["y"].astype(float)
        if "X" in file:
            return ElasticNetProblem(name, cg.datasets.standardize(file["X"]), y, *SETTINGS[name])
        parts = (
            file["data"].astype(float),
            file["indices"].astype(np.int32),
            file["indptr"].astype(np.int32),
        )
        X = scipy.sparse.csr_matrix(parts, shape=tuple(file["shape"]))
        return ElasticNetProblem(name, X, y, *SETTINGS[name])


def ours(problem: ElasticNetProblem, name: str, level: float, cap: float) -> Row:
    (method, step), best = METHODS[name], problem.optimum.value
    target = level * abs(best)

    def time_until(enough: Callable[[Any], bool], **end: Any) -> float | None:
        def prepare() -> Callable[[], Any]:
            f = problem.new_f()
            limits: dict[str, Any] = {"max_iter": 10**7, "time_limit": cap, **end}
            return lambda: cg.minimize(f, problem.g, method=method, step=step, **limits)

        seconds, result = clocked(prepare())
        if not enough(result):
            return None
        return seconds if seconds > SOON else min(seconds, best_time(prepare))

    # the tolerance is on the gap over F, or over a share of F at x = 0 where that is more
    tol = target / max(abs(best), NULL_SHARE * problem.value(np.zeros(problem.X.shape[1])))
    proved = time_until(lambda result: bool(result.success), tol=tol)
    is_there: Callable[[Any], bool] = lambda now: bool(now.lower_bound + now.gap <= best + target)  # noqa: E731
    reached = time_until(is_there, tol=0.0, callback=is_there)
    return {"proved": proved, "reached": reached, "searched": proved}


def theirs(problem: ElasticNetProblem, kind: type[Rival], level: float, cap: float) -> Row:
    rival, multiplier = kind(problem), problem.optimum.multiplier

    def time_of(run: Callable[[float], Any], error: Callable[[Any], float]) -> float | None:
        def fresh(effort: float) -> Callable[[], Any]:
            rival.forget()
            return lambda: run(effort)

        with quiet(), contextlib.suppress(OutOfTime):
            fresh(rival.efforts[8])()  # calls, and so compiles, every part of the solver
            for effort in rival.efforts:
                with capped(cap):
                    seconds, x = clocked(fresh(effort))
                if error(x) <= level:
                    return seconds if seconds > SOON else best_time(partial(fresh, effort))
                if seconds > cap:
                    break
        return None

    reached = time_of(lambda effort: rival.fit(multiplier, effort), problem.kinder_error)
    search = lambda effort: multiplier_search(rival, effort, level)  # noqa: E731
    searched = time_of(search, problem.constrained_error) if reached else None
    return {"proved": None, "reached": reached, "searched": searched}


class CloseEnough(Exception):
    pass


def multiplier_search(rival: Rival, effort: float, level: float) -> Any:
    """The solution of the constrained problem by a solver of the penalised one."""
    problem, best = rival.problem, rival.problem.optimum
    # F changes by the multiplier for each unit of the norm; half of the level is left to the fits themselves
    close = 0.5 * level * abs(best.value) / best.multiplier
    low = math.log(np.abs(problem.by_columns.T @ problem.y).max() / 2.0)
    known, x = {low: -problem.radius}, np.zeros(rival.features)

    def excess(log_multiplier: float) -> float:
        nonlocal x
        if log_multiplier not in known:
            x = rival.fit(math.exp(log_multiplier), effort)
            known[log_multiplier] = float(np.abs(x).sum()) - problem.radius
            if abs(known[log_multiplier]) <= close:
                raise CloseEnough
        return known[log_multiplier]

    with contextlib.suppress(CloseEnough):
        while excess(low) < 0.0 and len(known) < 30:
            high, low = low, low - math.log(2.0)
        if excess(low) > 0.0:
            brentq(excess, low, high, xtol=1e-15, rtol=1e-14, maxiter=60, disp=False)
    return x


def report(
    problem: ElasticNetProblem, methods: Sequence[str], levels: Sequence[float], cap: float
) -> list[Row]:
    """All solvers on one problem, printed; rows for a file."""
    best, (m, n) = problem.optimum, problem.X.shape
    print(
        f"\n{problem.name}: {m} samples, {n} features{', sparse' if problem.sparse else ''}; ridge {problem.ridge:g}, "
        f"radius {problem.radius:g}\nF* = {best.value:.10g}, certified to {best.gap / abs(best.value):.0e}; "
        f"multiplier {best.multiplier:.4g}; {np.count_nonzero(best.x)} coefficients are not 0"
    )
    solvers: dict[str, Callable[..., Row]] = {
        kind.name: partial(theirs, problem, kind) for kind in installed_rivals()
    }
    solvers |= {name: partial(ours, problem, name) for name in methods}
    rows: list[Row] = []
    for level in levels:
        times: list[Row] = []
        for name, solve in solvers.items():
            try:
                times.append({"solver": name, **solve(level, cap)})
            except (ImportError, TypeError, ValueError, RuntimeError) as error:
                print(f"{name} is left out: {str(error)[:90]}")
        table = (
            pd.DataFrame(times)
            .astype(dict.fromkeys(("proved", "reached", "searched"), float))
            .set_index("solver")
        )
        if ProxNewton.name in table.index:
            table["ratio"] = (
                table["proved"].fillna(table["reached"]) / table.loc[ProxNewton.name, "reached"]
            )
            table["ratio, searched"] = table["searched"] / table.loc[ProxNewton.name, "searched"]
        print(f"milliseconds to {level:.0e}")
        show((table * [1e3, 1e3, 1e3, 1.0, 1.0][: table.shape[1]]).reset_index().to_dict("records"))
        rows += [
            {"data": problem.name, "samples": m, "features": n, "level": level, **row}
            for row in times
        ]
    return rows


def models_report(problem: ElasticNetProblem, levels: Sequence[float], cap: float) -> list[Row]:
    """Ours against the faster rivals, for several radii: ratios of "proved" to their "reached" and "searched"."""
    rows: list[Row] = []
    rivals = [kind for kind in installed_rivals() if kind not in (AndersonCD, Saga)]
    for radius in RADII.get(problem.name, OTHER_RADII):
        one = replace(problem, radius=radius)
        for level in levels:
            proved = ours(one, "auto", level, cap)["proved"] or math.nan
            row: Row = {
                "data": one.name,
                "radius": radius,
                "coefficients": int(np.count_nonzero(one.optimum.x)),
            }
            row |= {"level": level, "proved, ms": 1e3 * proved}
            for kind in rivals:
                times = theirs(one, kind, level, cap)
                ratios = (proved / (times[name] or math.nan) for name in ("reached", "searched"))
                row[kind.name] = "{:.2f}, {:.3f}".format(*ratios)
            rows.append(row)
    show(rows)
    return rows


def path_report(problem: ElasticNetProblem) -> None:
    """A path of 50 radii against ten single fits at every fifth of them."""
    X, y = problem.by_columns, problem.y
    options: dict[str, Any] = {"ridge": problem.ridge, "fit_intercept": False}
    radii = cg.linear_model.path(X, y, **options).radii

    def single(radius: float) -> Callable[[], Any]:
        f, g = problem.new_f(), cg.simple.Ridge(problem.ridge, on=cg.sets.L1Ball(radius))
        return lambda: cg.minimize(f, g, method="auto", tol=1e-6)

    whole = best_time(lambda: lambda: cg.linear_model.path(X, y, radii=radii, tol=1e-6, **options))
    singles = sum(best_time(partial(single, radius)) for radius in radii[4::5])
    print(
        f"path of {len(radii)} radii over ten single fits among them: {1e3 * whole:.3g}/{1e3 * singles:.3g} ms"
    )


def draw_scaling(rows: pd.DataFrame, folder: Path) -> None:
    """Times against features and against samples."""
    panels = []
    for key, other, fixed in (("features", "samples", 200), ("samples", "features", 1000)):
        lines = []
        for label, style in STYLES.items():
            solver, _, time = label.partition(", ")
            own = rows[(rows["solver"] == solver) & (rows[other] == fixed)]
            lines.append(Line(style, own[key], own[time or "proved"], label=label))
        panels.append(Panel(f"{fixed} {other}", key, "CPU seconds", lines, log_x=True))
    draw(Figure("elastic_net_scaling", "Ours prove it, skglm reaches it", "", "", [panels]), folder)


def main(
    *,
    data: Annotated[tuple[str, ...], "names, or shapes such as 200x1000"] = tuple(SETTINGS),
    levels: tuple[float, ...] = (1e-3, 1e-6),
    cap: Annotated[float, "CPU seconds that a run of a solver may take"] = 20.0,
    quick: Annotated[bool, "colon alone, with a cap of 2 seconds"] = False,
    models: Annotated[bool, "several radii for each data set, against the faster rivals"] = False,
    scaling: Annotated[bool, "drawn data of growing shapes, to 1e-6, and a picture"] = False,
    out: Annotated[str, "a folder for the rows and the picture"] = "out",
) -> None:
    methods, folder = tuple(METHODS), Path(out)
    levels, file = (
        tuple(sorted(levels, reverse=True)),
        "elastic_net_models.json" if models else "elastic_net.json",
    )
    if quick:
        data, cap = ("colon",), 2.0
    if scaling:
        data, levels, methods = SCALING, (1e-6,), ("auto", "spg")
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with one_thread():
        for name in data:
            try:
                problem = load(name)
            except OSError as error:
                print(f"\n{name} is left out: {error}")
                continue
            rows += (
                models_report(problem, levels, cap)
                if models
                else report(problem, methods, levels, cap)
            )
            if name == "colon" and not models:
                path_report(problem)
            (folder / file).write_text(json.dumps(rows, indent=1))
    if scaling:
        draw_scaling(pd.DataFrame(rows), folder)


if __name__ == "__main__":
    run(main)
