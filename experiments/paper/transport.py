"""Figure 1 of the paper: regularised optimal transport (section 3.1), CGS against CG, POT and ours beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import condgrad as cg
from experiments.clock import one_thread
from experiments.paper.chapter import CaseCount, Claim, Experiment, TextTable, bound_numbers
from experiments.paper.figures import SOLVERS, Figure, Line, Panel
from experiments.paper.tasks import Curve, Numbers, Scale, Task, best_known, first_at
from experiments.paper.wording import count, duration, ending, factor, power, prose, span
from experiments.problems import ENTROPY, NEIGHBORS, WEIGHT, TransportProblem
from experiments.transport_solvers import COLUMNS, ENGINES, MISSING, TOLERANCE, TOO_SLOW, run

SEED = 0
PAPER_CGS = ("cgs-exact", "cgs-armijo", "cgs-open-loop")
# Newton first, for it is the reference
RUNS = ("newton", "cgs-memory", *PAPER_CGS, *ENGINES, "pot-gcg")
PAPER_SIZE = 500
TABLE_LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
LEVELS = tuple(10.0 ** (-0.5 * np.arange(1, 17)))
ABOUT_TEN = 10.0**0.5
"""Half an order of magnitude: from here on a factor is nearer to ten than to one."""
SHOWN_GAPS = frozenset(np.unique(np.round(1.15 ** np.arange(70)).astype(int)).tolist()) | {0}
"""Iterations at which the two gaps are compared, evenly spaced on a logarithmic axis."""
TEMPLATE = "transport.jinja"
text = partial(prose, TEMPLATE)


# The runs -------------------------------------------------------------------------------------------------------------


class Caps(NamedTuple):
    """Seconds that a solver may take.

    CGS never has more than CG, so that whoever reaches a better value had no more time for it. Newton gives the
    reference F*, and ends long before its cap.
    """

    cgs: float
    cg: float
    pot: float
    newton: float

    def of(self, solver: str) -> float:
        return float(getattr(self, solver.split("-")[0]))


FULL = {100: Caps(6.0, 7.0, 5.0, newton=6.0), 500: Caps(10.0, 12.0, 6.0, newton=20.0)}
QUICK = {100: Caps(0.8, 0.8, 0.8, newton=3.0), 200: Caps(0.8, 0.8, 0.8, newton=3.0)}


def tasks(
    scale: Scale, full: Mapping[int, Caps] = FULL, quick: Mapping[int, Caps] = QUICK
) -> list[Task]:
    """A task for each size and solver, and one for the two gaps at the first size."""
    sizes = quick if scale.quick else full
    every = [
        _task(n, solver, caps.of(solver), solved) for n, caps in sizes.items() for solver in RUNS
    ]
    n, caps = next(iter(sizes.items()))
    return [*every, _task(n, "cgs-exact", caps.cgs, with_two_gaps)]


def _task(n: int, solver: str, cap: float, work: Callable[[int, str, float], Curve]) -> Task:
    gaps = "the two gaps, " if work is with_two_gaps else ""
    settings = {"n": n, "cap": cap, "entropy": ENTROPY, "weight": WEIGHT, "neighbors": NEIGHBORS}
    # Newton ends early, and another process has to start first
    seconds = 0.1 * cap if solver == "newton" else cap + (2.0 if solver in ENGINES else 0.0)
    return Task(
        "figure-1", f"{gaps}n = {n}", solver, SEED, settings, seconds, partial(work, n, solver, cap)
    )


def solved(n: int, solver: str, cap: float) -> Curve:
    """A solver on the problem of n points, as it is timed."""
    make = partial(TransportProblem.of, n, SEED)
    with one_thread():
        done = run(solver, make, cap)
    facts = {"n": n, "cap": cap, "start_value": make().start_value} | (
        {"reason": done.reason} if done.reason else {}
    )
    return Curve(f"n = {n}", solver, SEED, done.columns, done.status, done.note, facts)


def with_two_gaps(n: int, solver: str, cap: float) -> Curve:
    """A run of CGS with, at some iterates, the bound of the classical gap there: one linear program each."""
    problem = TransportProblem.of(n, SEED)
    shown: list[Any] = []

    def keep(now: Any) -> None:
        if now.iteration in SHOWN_GAPS:
            shown.append(now._replace(x=np.array(now.x)))

    with one_thread():
        cg.minimize(
            problem.f, problem.g, callback=keep, tol=TOLERANCE, max_iter=10**6, time_limit=cap
        )
    columns = {
        name: [getattr(now, name) for now in shown] for name in COLUMNS if name != "best_value"
    }
    columns["classical_lower_bound"] = [
        # CG at the iterate, without a step: its bound is F(x) minus the surrogate gap
        float(
            cg.minimize(problem.f, problem.g, now.x, method="cg", max_iter=0).trace["lower_bound"][
                0
            ]
        )
        for now in shown
    ]
    facts = {"n": n, "cap": cap, "start_value": problem.start_value}
    return Curve(f"gaps, n = {n}", solver, SEED, columns, "FINISHED", facts=facts)


# What the curves say --------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A curve held against what is known of F*."""

    curve: Curve
    errors: Numbers
    """F - F* at the best point so far, the oracle's points among them; not below what is certified."""
    iterate_levels: Numbers
    """(F - F*) / (F_0 - F*) at the best iterate so far, which is what the paper draws."""
    levels: Numbers
    """The same at the best point so far."""

    @property
    def label(self) -> str:
        return SOLVERS[self.curve.solver].label

    def time_to(self, level: float, *, iterates: bool = False) -> float:
        """Seconds until the best point, or the best iterate, is within `level` of the way; or inf."""
        # the last value of a curve is itself a level, which it reaches up to rounding
        levels = self.iterate_levels if iterates else self.levels
        return first_at(levels, level * (1.0 + 1e-9), of=self.curve["seconds"])


class Size(NamedTuple):
    """All curves of one size: F* is at most `slack` below `best`, the best F that anybody reached."""

    n: int
    best: float
    slack: float
    start: float
    """F where all start."""
    runs: Mapping[str, Measured]
    skipped: Mapping[str, Curve]
    gaps: Curve | None

    def among(self, solvers: Sequence[str]) -> list[Measured]:
        return [self.runs[solver] for solver in solvers if solver in self.runs]


def sizes_of(curves: Sequence[Curve]) -> list[Size]:
    """The curves by size, smallest first; a size without a single value is left out."""
    sizes = []
    for n in sorted({int(curve.facts["n"]) for curve in curves}):
        same = [curve for curve in curves if curve.facts["n"] == n]
        gaps = next(
            (curve for curve in same if curve.problem.startswith("gaps") and curve["value"].size),
            None,
        )
        ran = {curve.solver: curve for curve in same if curve["best_value"].size}
        if not ran:
            continue
        best, bound = best_known(list(ran.values()))
        start, slack = (
            float(next(iter(ran.values())).facts["start_value"]),
            max(best - bound, 1e-15),
        )
        slack = slack if math.isfinite(slack) else 1e-15
        runs = {}
        for solver in (solver for solver in SOLVERS if solver in ran):
            curve, scale = ran[solver], max(start - best, 1e-300)
            errors = np.maximum(curve["best_value"] - best, slack)
            iterates = np.maximum(np.minimum.accumulate(curve["value"]) - best, slack)
            runs[solver] = Measured(curve, errors, iterates / scale, errors / scale)
        skipped = {curve.solver: curve for curve in same if curve.status == "SKIPPED"}
        sizes.append(Size(n, best, slack, start, runs, skipped, gaps))
    return sizes


def gaps_of(curve: Curve) -> tuple[Numbers, Numbers]:
    """Ours and the classical gap, each with the best of its bounds so far."""
    bounds = (
        np.maximum.accumulate(curve[name]) for name in ("lower_bound", "classical_lower_bound")
    )
    ours, classical = (np.maximum(curve["value"] - bound, 1e-16) for bound in bounds)
    return ours, classical


# The numbers that the claims read -------------------------------------------------------------------------------------


def gain(cgs: Measured, its: Measured, level: float) -> float:
    """How many times faster CGS is than CG to a level of the iterates; 0 where CGS never comes there."""
    return its.time_to(level, iterates=True) / cgs.time_to(level, iterates=True)


def duels(
    sizes: Sequence[Size], cgs: Sequence[str] = PAPER_CGS, engines: Sequence[str] = (*ENGINES,)
) -> pd.DataFrame:
    """CGS against CG on each problem: the gain to the best that CG reached, and the least gain on the way there."""
    rows = []
    for size in sizes:
        for its in size.among(engines):
            for mine in size.among(cgs):
                deepest = float(its.iterate_levels[-1])
                gains = {
                    level: gain(mine, its, level)
                    for level in (*LEVELS, deepest)
                    if level >= deepest
                }
                worst = min(gains, key=gains.__getitem__)
                better = mine.curve["value"].min() < its.curve["value"].min()
                rows.append(
                    (size.n, mine.label, its.label, gains[deepest], gains[worst], worst, better)
                )
    return pd.DataFrame(rows, columns=["n", "cgs", "cg", "gain", "least", "at", "better"])


def speed(ratio: float) -> str:
    return f"{factor(ratio)} times as fast" if ratio > 0.0 else "CGS never gets there"


def speeds(fights: pd.DataFrame) -> str:
    return "; ".join(f"{duel.cg}, n = {duel.n}: {speed(duel.gain)}" for duel in fights.itertuples())


def time_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    fights = duels(sizes)
    if fights.empty:
        return None
    behind = fights[fights["least"] <= 1.0]
    shown = [
        f"{duel.cgs} against {duel.cg}, n = {duel.n} ({speed(duel.least)} to an accuracy of {power(duel.at)})"
        for duel in behind.itertuples()
    ]
    skipped = [
        (engine, curve)
        for size in sizes
        for engine, curve in size.skipped.items()
        if engine in ENGINES
    ]
    missing = [
        f"{SOLVERS[e].label}: {c.note.rstrip('.')}."
        for e, c in skipped
        if c.facts["reason"] == MISSING
    ]
    ahead = CaseCount.of(fights["least"] > 1.0)
    return {
        "ahead": ahead,
        # where an engine is missing, not all cases were tested: one case more, that bears nothing out
        "cases": CaseCount(ahead.seen, ahead.total + bool(missing and behind.empty)),
        "came": CaseCount.of(fights["gain"] > 0.0),
        "gains": span(fights["gain"]),
        "won": CaseCount.of(fights["gain"] > 1.0),
        "behind": "; ".join(shown[:3]) + (" and others" if len(shown) > 3 else ""),
        "missing": " ".join(dict.fromkeys(missing)),
    }


def objective_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    fights, ends = duels(sizes), []
    for size in sizes:
        both = size.among(PAPER_CGS), size.among((*ENGINES,))
        if all(both):
            mine, its = (power(min(float(m.iterate_levels[-1]) for m in runs)) for runs in both)
            ends.append(f"CGS {mine} and CG {its} at n = {size.n}")
    return (
        {"better": CaseCount.of(fights["better"]), "ends": ", ".join(ends)} if len(fights) else None
    )


def growth_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    """The gain at the smallest and at the largest size, to an accuracy that CG reached at both."""
    if len(sizes) < 2:
        return None
    small, large = sizes[0], sizes[-1]
    words, grown = [], []
    for engine in ENGINES:
        if not {engine, "cgs-exact"} <= set(small.runs):
            continue
        before, label = (small.runs["cgs-exact"], small.runs[engine]), SOLVERS[engine].label
        late = large.skipped.get(engine)
        if late is not None and late.facts["reason"] == TOO_SLOW:
            first = gain(*before, float(before[1].iterate_levels[-1]))
            words.append(
                f"{label}: {speed(first)} at n = {small.n}, and CG takes no step at n = {large.n}"
            )
            grown.append(True)
        elif {engine, "cgs-exact"} <= set(large.runs):
            after = (large.runs["cgs-exact"], large.runs[engine])
            level = max(float(pair[1].iterate_levels[-1]) for pair in (before, after))
            first, second = gain(*before, level), gain(*after, level)
            gains = f"{speed(first)} at n = {small.n}, {speed(second)} at n = {large.n}"
            words.append(f"{label}: {gains} (to an accuracy of {power(level)})")
            grown.append(second > first)
    return {"grown": CaseCount.of(grown), "words": words} if words else None


def mosek_numbers(sizes: Sequence[Size]) -> dict[str, Any]:
    fights = duels(sizes, ("cgs-exact",), ("cg-mosek",))
    others = duels(sizes, ("cgs-exact",), [engine for engine in ENGINES if engine != "cg-mosek"])
    return {
        "strong": CaseCount.of(fights["gain"] >= ABOUT_TEN),
        "faster": CaseCount.of(fights["gain"] > 1.0),
        "speeds": speeds(fights),
        "others": speeds(others),
        "skipped": next(
            (size.skipped["cg-mosek"].note for size in sizes if "cg-mosek" in size.skipped), ""
        ),
    }


def cvxopt_numbers(sizes: Sequence[Size]) -> dict[str, Any] | str | None:
    size = next((size for size in sizes if size.n >= PAPER_SIZE), None)
    if size is None:
        return f"n = {PAPER_SIZE} is not among the sizes of this run."
    skipped, ran = size.skipped.get("cg-cvxopt"), size.runs.get("cg-cvxopt")
    if ran is not None:
        level, last = (
            ran.iterate_levels[-1],
            {name: ran.curve[name][-1] for name in ("seconds", "iteration")},
        )
        return {
            "no_step": CaseCount(0, 1),
            "far": CaseCount(int(level > 1e-2), 1),
            "note": "",
            "level": level,
            **last,
        }
    if skipped is not None and skipped.facts["reason"] == TOO_SLOW:
        return {"no_step": CaseCount(1, 1), "far": CaseCount(1, 1), "note": skipped.note}
    return skipped.note if skipped else None


def classical_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    pairs = [gaps_of(size.gaps) for size in sizes if size.gaps is not None]
    if not pairs:
        return None
    ratios = np.concatenate([classical / ours for ours, classical in pairs])
    return {"better": CaseCount.of(ratios > 1.0), "range": span(ratios), "last": ratios[-1]}


def certificate_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    """On every row of every certified curve, by how much the bound is above the best value that anybody reached."""
    runs = [(size.best, run) for size in sizes for run in size.runs.values()]
    return bound_numbers([bound - best for best, run in runs for bound in run.curve["lower_bound"]])


CLAIMS = (
    Claim("certificate", certificate_numbers, ["proved"], "figure-1-gaps"),
    Claim("classical", classical_numbers, ["better"], "figure-1-gaps"),
    Claim("time", time_numbers, ["cases"], "figure-1", weaker="won", needs_full_run=True),
    Claim("objective", objective_numbers, ["better"], "figure-1"),
    Claim("growth", growth_numbers, ["grown"], "figure-1", needs_full_run=True),
    Claim("mosek", mosek_numbers, ["strong"], "figure-1", weaker="faster", needs_full_run=True),
    Claim("cvxopt", cvxopt_numbers, ["no_step"], "figure-1", weaker="far", needs_full_run=True),
)


# What is shown --------------------------------------------------------------------------------------------------------


def figures_of(sizes: Sequence[Size]) -> list[Figure]:
    def below_start(size: Size, m: Measured) -> Numbers:
        # an open-loop step may shoot up far beyond the start and would press all others into a corner: a gap instead
        return np.where(
            m.curve["value"] <= size.start + 1e-9 * abs(size.start), m.curve["value"], np.nan
        )

    if not sizes:
        return []
    highest = [(size, m, m.curve["value"].max()) for size in sizes for m in size.runs.values()]
    overshoot = [
        f"{m.label} rises to {top:.3g} at n = {size.n}"
        for size, m, top in highest
        if top > size.start + 0.5 * (size.start - size.best)
    ]
    known = {"sizes": sizes, "words": in_words(sizes), "overshoot": overshoot}
    values = [_row(size, below_start, r"objective \(F(x)\)", log_y=False) for size in sizes]
    errors = [_row(size, lambda _, m: m.errors, r"\(F - F^*\)", log_y=True) for size in sizes]
    # logarithms first: on a linear axis all solvers look alike after a few steps
    drawn = {"figure-1-suboptimality": ("errors", errors), "figure-1": ("objective", values)}
    figures = []
    for name, (block, rows) in drawn.items():
        title, caption, alt = (
            text(f"{block}_{part}", **known) for part in ("title", "caption", "alt")
        )
        figures.append(Figure(name, title, caption, alt, rows))
    return figures + [_gaps_figure(size, size.gaps) for size in sizes if size.gaps is not None]


def _row(
    size: Size, y: Callable[[Size, Measured], Numbers], y_label: str, *, log_y: bool
) -> list[Panel]:
    """The panel against iterations and the one against time."""
    level = float(f"{size.slack:.0e}") if log_y else size.best
    panels = []
    for against, label in (("iterations", r"iteration \(k + 1\)"), ("time", "seconds")):
        lines = []
        for solver, m in size.runs.items():
            x = m.curve["seconds"] if against == "time" else m.curve["iteration"] + 1.0
            lines.append(Line(solver, x, y(size, m)))
        title = f"n = {size.n}, against {against}"
        panels.append(Panel(title, label, y_label, lines, log_x=True, log_y=log_y, level=level))
    return panels


def _gaps_figure(size: Size, curve: Curve) -> Figure:
    """Our gap, the classical one and the error that both bound."""
    ours, classical = gaps_of(curve)
    error = curve["value"] - size.best
    error = np.where(error > size.slack, error, np.nan)  # closer nobody knows
    k = curve["iteration"] + 1.0
    lines = [
        Line(style, k, y)
        for style, y in (("classical-gap", classical), ("gap", ours), ("true-error", error))
    ]
    panel = Panel(
        f"n = {size.n}", r"iteration \(k + 1\)", r"distance to \(F^*\)", lines, log_x=True
    )
    known = error[np.isfinite(error)]
    numbers = {
        "k": k[-1] - 1,
        "ours": ours[-1],
        "classical": classical[-1],
        "error": known[-1] if known.size else None,
    }
    title, caption, alt = (
        text("gaps_title"),
        text("gaps_caption", n=size.n),
        text("gaps_alt", **numbers),
    )
    return Figure("figure-1-gaps", title, caption, alt, [[panel]])


def table_of(size: Size) -> TextTable:
    rows = []
    for m in size.runs.values():
        bounds = m.curve["lower_bound"]
        gap = power(m.curve["best_value"][-1] - bounds[-1]) if bounds.size else "none"
        times = [duration(m.time_to(level), "-") for level in TABLE_LEVELS]
        steps = count(m.curve["iteration"][-1])
        rows.append([m.label, *times, power(m.levels[-1]), gap, steps, ending(m.curve.status)])
    rows += [[SOLVERS[s].label, *["-"] * 7, ending(c.status)] for s, c in size.skipped.items()]
    columns = ["solver", *(f"to {power(level)}" for level in TABLE_LEVELS)]
    columns += ["best reached", "proved gap", "iterations", "status"]
    return TextTable(
        f"Time to a relative accuracy, n = {size.n}", columns, rows, text("table_note", size=size)
    )


def in_words(sizes: Sequence[Size]) -> str:
    """For each size the tightest level that CGS, memory, Newton and the best CG reached, and when."""
    groups = {
        "Newton": ("newton",),
        "CGS": PAPER_CGS,
        "CGS with memory": ("cgs-memory",),
        "the best CG": (*ENGINES,),
    }
    sentences = []
    for size in sizes:
        parts = []
        for name, runs in ((name, size.among(solvers)) for name, solvers in groups.items()):
            times = {
                level: min((m.time_to(level) for m in runs), default=math.inf)
                for level in TABLE_LEVELS
            }
            there = [level for level in TABLE_LEVELS if times[level] < math.inf]
            if there:
                parts.append(
                    f"{name} is below {power(there[-1])} after {duration(times[there[-1]])}"
                )
            elif runs:
                best = min(runs, key=lambda m: m.levels[-1])
                parts.append(
                    f"{name} is at {power(best.levels[-1])} after {duration(best.curve['seconds'][-1])}"
                )
        sentences.append(text("size_in_words", n=size.n, parts=parts))
    return " ".join(sentences)


def words_of(sizes: Sequence[Size]) -> dict[str, Any]:
    caps = {size.n: [m.curve.facts["cap"] for m in size.runs.values()] for size in sizes}
    problem = {"entropy": ENTROPY, "weight": WEIGHT, "neighbors": NEIGHBORS}
    return {
        "sizes": sizes,
        "summary": in_words(sizes[-1:]),
        "solvers": SOLVERS,
        "caps": caps,
        **problem,
    }


TRANSPORT = Experiment(
    name="figure-1",
    template=TEMPLATE,
    tasks=tasks,
    evidence=sizes_of,
    figures=figures_of,
    tables=lambda sizes: [table_of(size) for size in sizes],
    claims=CLAIMS,
    words=words_of,
)
