"""Figures 2 and 3: the elastic net of section 3.2, on toy draws and on microarrays.

    min sum_i log(1 + exp(-y_i z_i.x)) + ridge |x|^2   subject to   |x|_1 <= radius

from x = 0 until |P(x - grad F(x)) - x|_inf <= 1e-5, with a monotone Armijo rule for all, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import condgrad as cg
from condgrad.datasets import REGIMES
from experiments.clock import one_thread
from experiments.paper.chapter import CaseCount, Claim, Experiment, TextTable
from experiments.paper.figures import SOLVERS, Figure, Line, Panel, band_around
from experiments.paper.microarrays import TEST_SHARE, Split, microarrays, stratified, toy
from experiments.paper.tasks import Curve, Scale, Task, first_at, thinned
from experiments.paper.wording import count, duration, of_samples, prose
from experiments.problems import ElasticNetProblem

METHODS: Mapping[str, tuple[str, str]] = {
    "cgs-armijo": ("cgs", "armijo"),
    "cgs-open-loop": ("cgs", "open-loop"),
    "newton": ("newton", "exact"),
    "cg": ("cg", "armijo"),
    "spg": ("spg", "armijo"),
    "pqn": ("pqn", "armijo"),
}
"""The method and the step of each solver."""
SWEPT = ("cgs-armijo", "spg")
"""Who takes part in the sweep over the ridge."""
MAX_ITER = 10_000
WARM_UP = 3
"""Iterations before the clock runs, so that nobody pays for compiling and cold memory."""
ROUGH, TOLERANCE = 1e-2, 1e-5
LEVELS = (1e-1, ROUGH, 1e-3, 1e-4, TOLERANCE)
TEMPLATE = "elastic_net.jinja"
text = partial(prose, TEMPLATE)


# The runs -------------------------------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """The pairs that are tried."""

    ridges: tuple[float, ...] = (0.1, 1.0, 10.0)
    radii: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)


GRID = Grid()


class Choice(NamedTuple):
    """A pair of the grid, the share of the test samples that it gets right, and how many pairs do as well."""

    ridge: float
    radius: float
    accuracy: float
    nonzeros: int
    equals: int


def choose(data: Split, grid: Grid) -> Choice:
    """The pair with the most test samples right, by Newton's method from one radius to the next.

    The paper: "roughly set so as to maximize the performance on the test set".
    """
    f = cg.smooth.Logistic(data.X_train, data.y_train)
    tried: list[tuple[float, float, float, int]] = []
    for ridge in grid.ridges:
        x = np.zeros(data.X_train.shape[1])
        for radius in sorted(grid.radii):
            x = cg.minimize(
                f, cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius)), x, method="newton", tol=1e-6
            ).x
            right = np.mean((data.X_test @ x > 0.0) == (data.y_test > 0.0))
            tried.append((float(right), ridge, -radius, int(np.count_nonzero(x))))
    accuracy, ridge, minus_radius, nonzeros = max(tried)
    return Choice(
        ridge, -minus_radius, accuracy, nonzeros, sum(entry[0] == accuracy for entry in tried)
    )


@dataclass(frozen=True, eq=False)
class ProblemDraw:
    """A draw of a problem; data and hyper-parameters are computed when a task first asks, once for all solvers."""

    name: str
    seed: int
    draw: Callable[[], Split]
    source: Mapping[str, Any]
    """What the data depend on."""
    grid: Grid
    part: str = "race"
    """"race" for the figure of the paper, "sweep" for ours over the ridge."""
    note: str = ""
    stand_in: bool = False

    @cached_property
    def data(self) -> Split:
        return self.draw()

    @cached_property
    def choice(self) -> Choice:
        return choose(self.data, self.grid)

    @cached_property
    def problem(self) -> ElasticNetProblem:
        data, choice = self.data, self.choice
        return ElasticNetProblem(self.name, data.X_train, data.y_train, choice.ridge, choice.radius)

    @property
    def facts(self) -> dict[str, Any]:
        samples, features = self.data.X_train.shape
        own: dict[str, Any] = {
            "part": self.part,
            "stand_in": self.stand_in,
            "samples": samples,
            "features": features,
        }
        return (
            own
            | self.choice._asdict()
            | {"ridges": list(self.grid.ridges), "radii": list(self.grid.radii)}
        )

    def solve(self, solver: str, cap: float) -> Any:
        """One run of a solver on one thread, after a short one that is not timed."""
        method, step = METHODS[solver]
        f, g = self.problem.judge, self.problem.g
        run = partial(
            cg.minimize, f, g, np.zeros(self.data.X_train.shape[1]), method=method, step=step
        )
        run = partial(run, stop=cg.stopping.FixedPoint(TOLERANCE), time_limit=cap)
        with one_thread():
            run(max_iter=WARM_UP)
            return run(max_iter=MAX_ITER)

    def measure(self, solver: str, cap: float) -> Curve:
        """The curve of a run; one that converges is run again, and each iteration has the better of its two times."""
        result = self.solve(solver, cap)
        trace = result.trace
        columns = {name: trace[name] for name in ("iteration", "seconds", "value", "lower_bound")}
        columns["residual"] = trace["measure"]
        if result.success:
            again = self.solve(solver, cap).trace["seconds"]
            # threads may sum in another order, and a last step more or less is no reason to fail
            if len(again) == len(trace):
                columns["seconds"] = np.minimum(columns["seconds"], again)
        shown = kept(columns["residual"])
        columns = {name: column[shown].tolist() for name, column in columns.items()}
        ends = {"time_limit": cap, "final_value": result.value, "final_bound": result.lower_bound}
        return Curve(
            self.name, solver, self.seed, columns, result.status.name, self.note, self.facts | ends
        )

    def task(self, experiment: str, solver: str, cap: float) -> Task:
        settings: dict[str, Any] = {
            "source": self.source,
            "grid": self.grid._asdict(),
            "method": METHODS[solver],
        }
        settings |= {"tolerance": TOLERANCE, "max_iter": MAX_ITER, "time_limit": cap}
        work = partial(self.measure, solver, cap)
        return Task(experiment, self.name, solver, self.seed, settings, cap, work)


def kept(residuals: Any) -> Any:
    """Which points of a long run to keep: evenly spread on a log axis, and where a level is first met."""
    if len(residuals) == 0:
        return np.zeros(0, dtype=np.int64)
    places = np.arange(len(residuals))
    firsts = [
        first for level in LEVELS if (first := first_at(residuals, level, of=places)) < np.inf
    ]
    kept = np.concatenate([thinned(len(residuals), 400), [np.argmin(residuals), *firsts]])
    return np.unique(kept).astype(int)


def tasks(
    scale: Scale,
    experiment: str,
    draws: Callable[[int], list[ProblemDraw]],
    cap: float,
    quick_cap: float,
) -> list[Task]:
    """A task for each draw of a problem and each solver."""
    seconds = quick_cap if scale.quick else cap
    pairs = [
        (draw, s)
        for draw in draws(scale.seeds)
        for s in (SWEPT if draw.part == "sweep" else METHODS)
    ]
    return [draw.task(experiment, solver, seconds) for draw, solver in pairs]


def toy_draws(
    seeds: int,
    regimes: Mapping[str, Mapping[str, int]] = REGIMES,
    grid: Grid = GRID,
    swept_regime: str = "very sparse",
    swept_ratios: Sequence[float] = (0.0005, 0.002, 0.005, 0.02, 0.1, 0.5),
    swept_radius: float = 4.0,
) -> list[ProblemDraw]:
    """Three regimes; and one of them over ridges, in units of the training samples, with a fixed radius."""
    draws = []
    for regime, sizes in regimes.items():
        source = dict(sizes)
        draws += [
            ProblemDraw(regime, s, partial(toy, source, s), source, grid) for s in range(seeds)
        ]
    source = dict(regimes[swept_regime])
    samples = source["n_samples"] - round(TEST_SHARE * source["n_samples"])
    for ratio in swept_ratios:
        only, name = (
            Grid((ratio * samples,), (swept_radius,)),
            f"{swept_regime}, ridge {ratio * samples:g}",
        )
        draws += [
            ProblemDraw(name, s, partial(toy, source, s), source, only, "sweep")
            for s in range(seeds)
        ]
    return draws


def microarray_draws(seeds: int, grid: Grid = GRID, patience: float = 8.0) -> list[ProblemDraw]:
    """Splits of colon and lymphoma, or of a stand-in where they do not arrive within `patience` seconds."""
    draws = []
    for found in microarrays(patience):
        source = {"shape": list(found.X.shape), "note": found.note}
        own: dict[str, Any] = {"grid": grid, "note": found.note, "stand_in": found.stand_in}
        draws += [
            ProblemDraw(found.name, s, partial(stratified, found, s), source, **own)
            for s in range(seeds)
        ]
    return draws


# What the curves say --------------------------------------------------------------------------------------------------

FIRST_ITERATIONS = 10
"""What "the first iterations" are, in our reading."""


class Evidence(NamedTuple):
    """The runs of the race and of the sweep, a row each; claims are judged without the runs on stand-ins."""

    race: pd.DataFrame
    sweep: pd.DataFrame

    @property
    def judged(self) -> pd.DataFrame:
        return self.race[~self.race["stand_in"]]

    def ratios(self, first: str, second: str, column: str = "fine seconds") -> pd.Series:
        """How many times more the first took, by draw: infinite where it never came, 0 where the second did not."""
        found = by_draw(self.judged, column)
        return (found[first] / found[second]).dropna()


def evidence(curves: Sequence[Curve]) -> Evidence:
    """A row for each run that has points: its facts, and when its residual first met each of the two levels."""
    rows = []
    order = [*dict.fromkeys(curve.problem for curve in curves), *SOLVERS]
    for curve in sorted(
        curves, key=lambda curve: (order.index(curve.problem), order.index(curve.solver))
    ):
        residual = curve["residual"]
        if not residual.size:
            continue
        row = {
            "problem": curve.problem,
            "seed": curve.seed,
            "solver": curve.solver,
            "curve": curve,
            **curve.facts,
        }
        row |= {"label": SOLVERS[curve.solver].label, "status": curve.status, "note": curve.note}
        for name, level in (("rough", ROUGH), ("fine", TOLERANCE)):
            row[f"{name} iterations"] = first_at(residual, level, of=curve["iteration"])
            row[f"{name} seconds"] = first_at(residual, level, of=curve["seconds"])
        row["best residual"] = residual.min()
        first = (
            (curve["iteration"] >= 1) & (curve["iteration"] <= FIRST_ITERATIONS) & (residual > 0.0)
        )
        row["first residuals"] = np.exp(np.log(residual[first]).mean()) if first.any() else np.nan
        rows.append(row)
    columns = [
        "problem",
        "seed",
        "solver",
        "curve",
        "label",
        "part",
        "stand_in",
        "status",
        "note",
        "time_limit",
    ]
    runs = pd.DataFrame(rows, columns=None if rows else columns).astype({"stand_in": bool})
    return Evidence(runs[runs["part"] == "race"], runs[runs["part"] == "sweep"])


def by_draw(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row for each draw, a column for each solver; NaN where one did not run."""
    if runs.empty:
        return pd.DataFrame(columns=list(METHODS), dtype=float)
    return runs.pivot(index=["problem", "seed"], columns="solver", values=column).reindex(
        columns=list(METHODS)
    )


def median_line(solver: str, curves: Sequence[Curve], axis: str) -> Line:
    """When a residual was first met, level by level: the median of the draws, as in the table, and their spread.

    The line ends where no more than half of the draws get; the spread reaches no further than the longest run.
    """
    reached = np.unique(
        [residual for curve in curves for residual in np.minimum.accumulate(curve["residual"])]
    )
    shown = reached[np.unique(np.linspace(0, len(reached) - 1, 200).astype(int))]
    levels = np.unique(
        [*shown, *(level for level in LEVELS if reached[0] <= level <= reached[-1])]
    )[::-1]
    met = np.array(
        [
            [first_at(curve["residual"], level, of=curve[axis]) for level in levels]
            for curve in curves
        ]
    )
    last = max(curve[axis][-1] for curve in curves)
    across = band_around(levels, met.min(axis=0), np.minimum(met.max(axis=0), last))
    return Line(
        solver, np.median(met, axis=0), levels, band=across[::-1] if len(curves) > 1 else None
    )


# The numbers that the claims read -------------------------------------------------------------------------------------

FAR, PAR = 2.0, 1.5
"""How many times faster is "far more efficient", and up to how many times slower is "on par"."""


def places(race: pd.DataFrame) -> pd.DataFrame:
    """When each solver was at the tolerance; who never was comes later than all, by its best residual."""
    seconds = by_draw(race, "fine seconds")
    return seconds.where(~np.isposinf(seconds), 1e9 + by_draw(race, "best residual"))


def cg_numbers(evidence: Evidence) -> dict[str, Any] | None:
    runs = evidence.judged[evidence.judged["solver"] == "cg"]
    place = places(evidence.judged)
    rivals = place[["cgs-armijo", "cgs-open-loop", "spg", "pqn"]].max(axis=1)
    compared = rivals.notna() & place["cg"].notna()
    if not compared.any():
        return None
    return {
        "last": CaseCount.of((rivals < place["cg"])[compared]),
        "rough": CaseCount.of(runs["rough seconds"] < np.inf),
        "fine": CaseCount.of(runs["fine seconds"] < np.inf),
        "best": runs["best residual"].median(),
    }


def pqn_numbers(evidence: Evidence) -> dict[str, Any] | None:
    slower = evidence.ratios("pqn", "cgs-armijo")
    far, faster = CaseCount.of(slower >= FAR), CaseCount.of(slower > 1.0)
    return (
        {"far": far, "faster": faster, "slower": slower.median(), "steps": _steps(evidence)}
        if len(slower)
        else None
    )


def _steps(evidence: Evidence) -> dict[str, float] | None:
    """Median iterations of PQN and CGS where both get there."""
    found = (
        by_draw(evidence.judged, "fine iterations")[["pqn", "cgs-armijo"]]
        .replace(np.inf, np.nan)
        .dropna()
    )
    return found.median().to_dict() if len(found) else None


def spg_numbers(evidence: Evidence) -> dict[str, Any] | None:
    slower = evidence.ratios("cgs-armijo", "spg")
    par, faster = CaseCount.of(slower <= PAR), CaseCount.of(slower < 1.0)
    where = parity(evidence.sweep)
    return (
        {"par": par, "faster": faster, "slower": slower.median(), "where": where}
        if len(slower)
        else None
    )


def parity(sweep: pd.DataFrame) -> str:
    """A sentence on where in the sweep CGS keeps up with SPG."""
    if sweep.empty:
        return ""
    units = sweep.assign(unit=sweep["ridge"] / sweep["samples"])
    found = units.pivot(index=["unit", "seed"], columns="solver", values="fine iterations").reindex(
        columns=SWEPT
    )
    found = found[np.isfinite(found["spg"])]
    points = (found["cgs-armijo"] / found["spg"].clip(lower=1.0)).groupby("unit").median().dropna()
    there = points[points < np.inf]
    level = [ridge for ridge in points.index if (points[ridge:] <= PAR).all()]
    late = [of_samples(ridge) for ridge in points.index[np.isposinf(points)]]
    return (
        text("parity", there=list(there.items()), late=late, level=level, PAR=PAR)
        if len(there)
        else ""
    )


def open_loop_numbers(evidence: Evidence) -> dict[str, Any] | None:
    place = places(evidence.judged)[["cgs-open-loop", *SWEPT]].dropna()
    early = {rival: evidence.ratios("cgs-open-loop", rival, "first residuals") for rival in SWEPT}
    if place.empty:
        return None
    return {
        "later": CaseCount.of(place["cgs-open-loop"] > place[list(SWEPT)].max(axis=1)),
        "below_armijo": CaseCount.of(early["cgs-armijo"] < 1.0),
        "below_spg": CaseCount.of(early["spg"] < 1.0),
        "ratios": [early[rival].median() for rival in SWEPT],
        "rough": CaseCount.of(
            evidence.ratios("cgs-open-loop", "cgs-armijo", "rough seconds") < 1.0
        ),
        "first": FIRST_ITERATIONS,
    }


def real_rivals_numbers(evidence: Evidence) -> dict[str, Any] | None:
    spg, pqn = (evidence.ratios("cgs-armijo", rival) for rival in ("spg", "pqn"))
    if spg.empty or pqn.empty:
        return None
    medians = {"to_spg": spg.median(), "to_pqn": pqn.median()}
    return {
        "spg": CaseCount.of(spg < 1.0),
        "pqn": CaseCount.of(pqn < 1.0),
        "steps": _steps(evidence),
        **medians,
    }


def rough_numbers(evidence: Evidence) -> dict[str, Any] | None:
    if evidence.judged.empty:
        return None
    seconds = by_draw(evidence.judged, "rough seconds")
    rivals = seconds[["cgs-armijo", "cg", "spg", "pqn"]].min(axis=1)
    compared = rivals.notna() & seconds["cgs-open-loop"].notna()
    order = seconds[compared].median().dropna().sort_values()
    there = evidence.judged[evidence.judged["rough iterations"].between(1, 1e9)]
    prices = pd.DataFrame({"steps": there["rough iterations"], "each": there["rough seconds"]})
    prices["each"] /= prices["steps"]
    first = CaseCount.of((seconds["cgs-open-loop"] < rivals)[compared])
    shown = {SOLVERS[solver].label: median for solver, median in order.items()}
    each = list(prices.groupby(there["label"]).median().itertuples())
    return {"first": first, "order": shown, "prices": each} if first.total else None


TOY_CLAIMS = (
    Claim("cg", cg_numbers, ["last"], "figure-2"),
    Claim("pqn", pqn_numbers, ["far", "faster"], "figure-2"),
    Claim("spg", spg_numbers, ["par"], "figure-2"),
    Claim("open_loop", open_loop_numbers, ["later", "below_armijo", "below_spg"], "figure-2"),
)
MICROARRAY_CLAIMS = (
    Claim("real_rivals", real_rivals_numbers, ["spg", "pqn"], "figure-3"),
    Claim("rough", rough_numbers, ["first"], "figure-3"),
)


# What is shown --------------------------------------------------------------------------------------------------------


def medians(race: pd.DataFrame) -> dict[str, float]:
    """Median seconds to the tolerance over all draws, by the solver's label, the fastest first."""
    return (
        race.groupby("label")["fine seconds"].median().sort_values().to_dict() if len(race) else {}
    )


def words_of(evidence: Evidence, name: str) -> dict[str, Any]:
    race = evidence.race
    cut = race[race["status"] == "TIME_LIMIT"]
    replaced = race[race["stand_in"]]
    return {
        "data": race["problem"].unique(),
        "microarrays": name == "figure-3",
        "replaced": replaced["problem"].unique(),
        "all_replaced": len(race) == len(replaced) > 0,
        "absent": dict.fromkeys(replaced["note"]),
        "data_notes": [note for note in dict.fromkeys(race["note"][~race["stand_in"]]) if note],
        "medians": medians(race),
        "times": {problem: medians(runs) for problem, runs in race.groupby("problem", sort=False)},
        "caps": sorted(race["time_limit"].unique()),
        "cut_short": cut["label"].unique(),
        "seeds": sorted(race["seed"].unique()),
        "grid": {tried: race[tried].iloc[0] for tried in ("ridges", "radii")} if len(race) else {},
    }


def figures_of(evidence: Evidence, name: str) -> list[Figure]:
    """Two panels a problem, the residual against time and against iterations; and the sweep, where there is one."""
    rows = []
    for problem, runs in evidence.race.groupby("problem", sort=False):
        heading = rf"{problem}, {runs['samples'].iloc[0]} \(\times\) {runs['features'].iloc[0]}"
        row = []
        for axis, label in (("seconds", "time (seconds)"), ("iteration", "iterations")):
            lines = [
                median_line(solver, list(own["curve"]), axis)
                for solver, own in runs.groupby("solver", sort=False)
            ]
            row.append(Panel(heading, label, text("residual"), lines, log_x=True, level=TOLERANCE))
        rows.append(row)
    title, caption, alt = (
        text(f"race_{part}", **words_of(evidence, name)) for part in ("title", "caption", "alt")
    )
    return [
        Figure(name, title, caption, alt, rows),
        *sweep_figures(evidence.sweep, f"{name}-ridge"),
    ]


def sweep_figures(sweep: pd.DataFrame, name: str) -> list[Figure]:
    """Iterations to the tolerance against the ridge, where it was swept."""
    if sweep.empty:
        return []
    lines = []
    for solver, runs in sweep.groupby("solver", sort=False):
        found = runs.groupby(runs["ridge"] / runs["samples"])["fine iterations"].agg(
            ["median", "min", "max"]
        )
        band = (
            band_around(found.index, found["min"], found["max"])
            if runs["seed"].nunique() > 1
            else None
        )
        lines.append(Line(solver, found.index, found["median"], band=band))
    regime = sweep["problem"].iloc[0].split(",")[0]
    panel = Panel(
        f"{regime}: the effect of the ridge", "ridge / m", text("iterations_to"), lines, log_x=True
    )
    title, caption, alt = (
        text("sweep_title"),
        text("sweep_caption", regime=regime),
        text("sweep_alt", where=parity(sweep)),
    )
    return [Figure(name, title, caption, alt, [[panel]])]


def tables_of(evidence: Evidence) -> list[TextTable]:
    return [speed_table(evidence.race), choice_table(evidence.race)]


def speed_table(race: pd.DataFrame) -> TextTable:
    """Median times and iterations to the two levels."""
    rows = []
    for (problem, label), runs in race.groupby(["problem", "label"], sort=False):
        limits = runs["time_limit"][runs["status"] == "TIME_LIMIT"]
        late = f"> {duration(limits.min())}" if len(limits) else "never"
        cells = []
        for level in ("rough", "fine"):
            seconds, steps = runs[f"{level} seconds"].median(), runs[f"{level} iterations"].median()
            cells += [duration(seconds, late), count(steps)]
        rows.append([problem, label, *cells, str(CaseCount.of(runs["fine seconds"] < np.inf))])
    columns = [
        "problem",
        "solver",
        "time to 10⁻²",
        "iterations",
        "time to 10⁻⁵",
        "iterations",
        "reached 10⁻⁵",
    ]
    return TextTable(text("speed_title"), columns, rows, text("speed_note"))


def choice_table(race: pd.DataFrame) -> TextTable:
    """What the test set chose for each draw."""
    rows = []
    for (problem, seed), runs in race.groupby(["problem", "seed"], sort=False):
        one = runs.iloc[0]
        pair = [f"{one['ridge']:g}", f"{one['radius']:g}", f"{one['accuracy']:.1%}"]
        rows.append(
            [
                problem,
                str(seed),
                *pair,
                f"{one['nonzeros']:,} of {one['features']:,}",
                str(one["equals"]),
            ]
        )
    columns = ["problem", "draw", "ridge", "radius", "test accuracy", "non-zeros", "pairs as good"]
    return TextTable(text("choice_title"), columns, rows, text("choice_note"))


def _experiment(name: str, claims: Sequence[Claim], **runs: Any) -> Experiment:
    return Experiment(
        name=name,
        template=TEMPLATE,
        tasks=partial(tasks, experiment=name, **runs),
        evidence=evidence,
        figures=partial(figures_of, name=name),
        tables=tables_of,
        claims=claims,
        words=partial(words_of, name=name),
    )


TOY = _experiment("figure-2", TOY_CLAIMS, draws=toy_draws, cap=2.0, quick_cap=0.5)
MICROARRAYS = _experiment(
    "figure-3", MICROARRAY_CLAIMS, draws=microarray_draws, cap=2.2, quick_cap=0.7
)
