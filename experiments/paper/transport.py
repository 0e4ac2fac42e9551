"""Figure 1 of the paper: regularised optimal transport (section 3.1), CGS against CG, POT and ours beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import condgrad as cg
from condgrad.errors import MissingExtra, require_extra
from experiments.clock import one_thread
from experiments.paper.chapter import SOLVERS, Chapter, Figure, Line, Panel, Table
from experiments.paper.claims import Cases, Claim, Verdict, certificate_claim
from experiments.paper.curves import Curve, Numbers, Scale, Task, best_known, first_at
from experiments.paper.wording import count, duration, ending, factor, power, prose, span
from experiments.problems import ENTROPY, NEIGHBORS, WEIGHT, TransportProblem
from experiments.transport_rivals import (
    COLUMNS,
    POT_LONG,
    conditional_gradient_in_child,
    engine_refusal,
    pot_gcg,
)

SEED, TOLERANCE, NEWTON_TOLERANCE = 0, 1e-10, 1e-12
"""Newton also gives the reference F*, so it is asked for more."""
TOO_SLOW, MISSING = "too slow", "missing"
"""Why a solver was skipped, as `facts["reason"]`."""
OURS: Mapping[str, Mapping[str, Any]] = {
    "newton": {"method": "newton", "tol": NEWTON_TOLERANCE},
    "cgs-memory": {"memory": 5},
    "cgs-exact": {},
    "cgs-armijo": {"step": "armijo"},
    "cgs-open-loop": {"step": "open-loop"},
}
"""The library's methods, as `minimize` is asked for them; Newton first, for it is the reference."""
ENGINES: Mapping[str, str] = {"cg-emd": "emd", "cg-highs": "highs", "cg-cvxopt": "cvxopt", "cg-mosek": "mosek"}
RUNS = (*OURS, *ENGINES, "pot-gcg")
PAPER_CGS = ("cgs-exact", "cgs-armijo", "cgs-open-loop")
PAPER_SIZE = 500
TABLE_LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
LEVELS = tuple(10.0 ** (-0.5 * np.arange(1, 17)))
ABOUT_TEN = 10.0**0.5
"""Half an order of magnitude: from here on a factor is nearer to ten than to one."""
SHOWN_GAPS = frozenset(np.unique(np.round(1.15 ** np.arange(70)).astype(int)).tolist()) | {0}
"""Iterations at which the two gaps are compared, evenly spaced on a logarithmic axis."""
text = partial(prose, "transport.jinja")


# The runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caps:
    """Seconds that a solver may take.

    CGS never has more than CG, so that whoever reaches a better value had no more time for it. Newton gives the
    reference F*, and ends long before its cap.
    """

    cgs: float
    cg: float
    pot: float
    newton: float

    def of(self, solver: str) -> float:
        named = {"newton": self.newton, "pot-gcg": self.pot}
        return named.get(solver, self.cgs if solver in OURS else self.cg)


@dataclass(frozen=True)
class SolverRun:
    """A solver on the problem of n points, with the seconds that it may take."""

    solver: str
    n: int
    cap: float

    def problem(self, engine: str = "auto") -> TransportProblem:
        return TransportProblem.of(self.n, SEED, engine=engine)

    def curve(self, columns: Mapping[str, Sequence[float]], status: str, note: str = "", **facts: Any) -> Curve:
        known = {"n": self.n, "cap": self.cap, "start_value": self.problem().start_value}
        return Curve(f"n = {self.n}", self.solver, SEED, columns, status, note, {**known, **facts})

    def skipped(self, note: str, reason: str) -> Curve:
        return self.curve({name: [] for name in COLUMNS}, "SKIPPED", note, reason=reason)

    def work(self) -> Curve:
        """The run as it is timed."""
        try:
            with one_thread():
                if self.solver in OURS:
                    return self._minimized(self.problem(), **OURS[self.solver])
                return self._pot() if self.solver == "pot-gcg" else self._conditional_gradient()
        except MissingExtra as missing:
            return self.skipped(str(missing), MISSING)

    def _minimized(self, problem: TransportProblem, **options: Any) -> Curve:
        limits: dict[str, Any] = {"tol": TOLERANCE, "max_iter": 10**6, "time_limit": self.cap}
        result = cg.minimize(problem.f, problem.g, **{**limits, **options})
        return self.curve({name: result.trace[name].tolist() for name in COLUMNS}, result.status.name)

    def _conditional_gradient(self) -> Curve:
        """CG over an engine; one whose linear programs may take minutes runs in a process of its own."""
        engine = ENGINES[self.solver]
        if engine == "emd":
            require_extra("ot", extra="pot", purpose="CG with network simplex")  # loaded before the clock runs
            return self._minimized(self.problem(engine), method="cg")
        refusal = engine_refusal(engine)
        if refusal:
            return self.skipped(refusal, MISSING)
        run = conditional_gradient_in_child(self.n, SEED, engine, self.cap, TOLERANCE)
        if run.status == "TIME_LIMIT" and not run.rows:
            return self.skipped(f"The first linear program was not finished after {self.cap:g} s.", TOO_SLOW)
        if run.status == "TIME_LIMIT" and len(run.rows) == 1:
            first = f"One linear program took {run.rows[0][1]:.1f} s"
            return self.skipped(f"{first}: no step was finished within {self.cap:g} s.", TOO_SLOW)
        columns = {name: [row[place] for row in run.rows] for place, name in enumerate(COLUMNS)}
        return self.curve(columns, run.status, run.note)

    def _pot(self) -> Curve:
        clock, ended = pot_gcg(self.problem(), self.cap, **POT_LONG)
        columns = {
            "iteration": list(range(len(clock.values))),
            "seconds": clock.seconds,
            "value": clock.values,
            "best_value": np.minimum.accumulate(clock.values).tolist(),
        }
        note = "POT ended by its own rule, which proves nothing." if ended else ""
        return self.curve(columns, "FINISHED" if ended else "TIME_LIMIT", note)

    def compare_gaps(self) -> Curve:
        """A run of CGS with, at some iterates, the bound of the classical gap there: one linear program each."""
        problem = self.problem()
        shown: list[Any] = []

        def keep(now: Any) -> None:
            if now.iteration in SHOWN_GAPS:
                shown.append(now._replace(x=np.array(now.x)))

        with one_thread():
            limits: dict[str, Any] = {"tol": TOLERANCE, "max_iter": 10**6, "time_limit": self.cap}
            cg.minimize(problem.f, problem.g, callback=keep, **limits)
        columns = {name: [getattr(now, name) for now in shown] for name in COLUMNS if name != "best_value"}
        columns["classical_lower_bound"] = [
            # CG at the iterate, without a step: its bound is F(x) minus the surrogate gap
            float(cg.minimize(problem.f, problem.g, now.x, method="cg", max_iter=0).trace["lower_bound"][0])
            for now in shown
        ]
        return replace(self.curve(columns, "FINISHED"), problem=f"gaps, n = {self.n}")


@dataclass(frozen=True)
class TransportExperiment:
    """A task for each size and solver, and one for the two gaps at the first size."""

    full: Mapping[int, Caps]
    quick: Mapping[int, Caps]
    name = "figure-1"

    def tasks(self, scale: Scale) -> list[Task]:
        caps = self.quick if scale.quick else self.full
        runs = [SolverRun(solver, n, caps[n].of(solver)) for n in caps for solver in RUNS]
        n = next(iter(caps))
        gaps = SolverRun("cgs-exact", n, caps[n].cgs)
        return [*(_task(run, run.solver, run.work) for run in runs), _task(gaps, "gaps", gaps.compare_gaps)]

    def chapter(self, curves: Sequence[Curve], *, quick: bool = False) -> Chapter:
        sizes = sizes_of(curves)
        skipped = [f"{SOLVERS[s].label}, n = {z.n}, was skipped: {c.note}" for z in sizes for s, c in z.skipped.items()]
        ended = [
            f"{SOLVERS[s].label}, n = {z.n}: {m.curve.note}" for z in sizes for s, m in z.runs.items() if m.curve.note
        ]
        return Chapter(
            name=self.name,
            title="Figure 1: regularised optimal transport",
            summary=in_words(sizes[-1:]) or "Nothing has been measured yet.",
            figures=figures_of(sizes) if sizes else [],
            tables=[table_of(size) for size in sizes],
            claims=[claim.judged(sizes, quick=quick, missing="Run all of figure 1.") for claim in CLAIMS],
            notes=[*skipped, *ended],
            settings=settings_of(sizes),
        )


def _task(run: SolverRun, what: str, work: Callable[[], Curve]) -> Task:
    problem = {"problem": f"n = {run.n}", "entropy": ENTROPY, "weight": WEIGHT, "neighbors": NEIGHBORS}
    label = "the two gaps" if what == "gaps" else SOLVERS[what].label
    return Task(
        name=f"figure-1-n{run.n}-{what}",
        label=f"transport, n = {run.n}: {label}",
        settings={"solver": run.solver, "n": run.n, "seed": SEED, "cap": run.cap, "what": what, **problem},
        seconds=0.1 * run.cap if run.solver == "newton" else run.cap + (2.0 if run.solver in ENGINES else 0.0),
        work=work,
    )


TRANSPORT = TransportExperiment(
    full={100: Caps(6.0, 7.0, 5.0, newton=6.0), 500: Caps(10.0, 12.0, 6.0, newton=20.0)},
    quick={100: Caps(0.8, 0.8, 0.8, newton=3.0), 200: Caps(0.8, 0.8, 0.8, newton=3.0)},
)


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
        gaps = next((curve for curve in same if curve.problem.startswith("gaps") and curve["value"].size), None)
        ran = {curve.solver: curve for curve in same if curve["best_value"].size}
        if not ran:
            continue
        best, bound = best_known(list(ran.values()))
        start, slack = float(next(iter(ran.values())).facts["start_value"]), max(best - bound, 1e-15)
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
    bounds = (np.maximum.accumulate(curve[name]) for name in ("lower_bound", "classical_lower_bound"))
    ours, classical = (np.maximum(curve["value"] - bound, 1e-16) for bound in bounds)
    return ours, classical


# The claims -----------------------------------------------------------------------------------------------------------


def gain(cgs: Measured, its: Measured, level: float) -> float:
    """How many times faster CGS is than CG to a level of the iterates; 0 where CGS never comes there."""
    return its.time_to(level, iterates=True) / cgs.time_to(level, iterates=True)


def duels(sizes: Sequence[Size], cgs: Sequence[str] = PAPER_CGS, engines: Sequence[str] = (*ENGINES,)) -> pd.DataFrame:
    """CGS against CG on each problem: the gain to the best that CG reached, and the least gain on the way there."""
    rows = []
    for size in sizes:
        for its in size.among(engines):
            for mine in size.among(cgs):
                deepest = float(its.iterate_levels[-1])
                gains = {level: gain(mine, its, level) for level in (*LEVELS, deepest) if level >= deepest}
                worst = min(gains, key=gains.__getitem__)
                better = mine.curve["value"].min() < its.curve["value"].min()
                rows.append((size.n, mine.label, its.label, gains[deepest], gains[worst], worst, better))
    return pd.DataFrame(rows, columns=["n", "cgs", "cg", "gain", "least", "at", "better"])


def speed(ratio: float) -> str:
    return f"{factor(ratio)} times as fast" if ratio > 0.0 else "CGS never gets there"


def speeds(fights: pd.DataFrame) -> str:
    return "; ".join(f"{duel.cg}, n = {duel.n}: {speed(duel.gain)}" for duel in fights.itertuples())


def time_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    fights = duels(sizes)
    behind = fights[fights["least"] <= 1.0]
    shown = [
        f"{duel.cgs} against {duel.cg}, n = {duel.n} ({speed(duel.least)} to {power(duel.at)})"
        for duel in behind.itertuples()
    ]
    skipped = [(engine, curve) for size in sizes for engine, curve in size.skipped.items() if engine in ENGINES]
    missing = [f"{SOLVERS[e].label}: {c.note.rstrip('.')}." for e, c in skipped if c.facts["reason"] == MISSING]
    came = fights["gain"][fights["gain"] > 0.0]
    if fights.empty:
        return None
    return {
        "pairs": len(fights),
        "came": len(came),
        "gains": span(came) if len(came) else "",
        "won": int((fights["gain"] > 1.0).sum()),
        "ahead": len(fights) - len(behind),
        "behind": "; ".join(shown[:3]) + (" and others" if len(shown) > 3 else ""),
        "missing": " ".join(dict.fromkeys(missing)),
    }


def time_predicate(numbers: Mapping[str, Any]) -> Cases:
    # where an engine is missing, not all cases were tested: one case more, that bears nothing out
    untested = bool(numbers["missing"] and numbers["ahead"] == numbers["pairs"])
    return Cases(numbers["ahead"], numbers["pairs"] + untested, in_part=numbers["won"])


def objective_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    fights = duels(sizes)
    ends = []
    for size in sizes:
        cgs, cg_runs = size.among(PAPER_CGS), size.among((*ENGINES,))
        if cgs and cg_runs:
            mine, its = (power(min(float(m.iterate_levels[-1]) for m in runs)) for runs in (cgs, cg_runs))
            ends.append(f"CGS {mine} and CG {its} at n = {size.n}")
    return (
        {"better": int(fights["better"].sum()), "pairs": len(fights), "ends": ", ".join(ends)} if len(fights) else None
    )


def growth_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    """The gain at the smallest and at the largest size, to an accuracy that CG reached at both."""
    words, grown = [], 0
    small, large = (sizes[0], sizes[-1]) if len(sizes) > 1 else (None, None)
    for engine in ENGINES:
        if small is None or large is None or not {engine, "cgs-exact"} <= set(small.runs):
            continue
        before, label = (small.runs["cgs-exact"], small.runs[engine]), SOLVERS[engine].label
        late = large.skipped.get(engine)
        if late is not None and late.facts["reason"] == TOO_SLOW:
            first = gain(*before, float(before[1].iterate_levels[-1]))
            words.append(f"{label}: {speed(first)} at n = {small.n}, and CG takes no step at n = {large.n}")
            grown += 1
        elif {engine, "cgs-exact"} <= set(large.runs):
            after = (large.runs["cgs-exact"], large.runs[engine])
            level = max(float(pair[1].iterate_levels[-1]) for pair in (before, after))
            first, second = gain(*before, level), gain(*after, level)
            gains = f"{speed(first)} at n = {small.n}, {speed(second)} at n = {large.n}"
            words.append(f"{label}: {gains} (to {power(level)})")
            grown += second > first
    return {"grown": grown, "engines": len(words), "words": words} if words else None


def mosek_numbers(sizes: Sequence[Size]) -> dict[str, Any]:
    fights = duels(sizes, ("cgs-exact",), ("cg-mosek",))
    others = duels(sizes, ("cgs-exact",), [engine for engine in ENGINES if engine != "cg-mosek"])
    skipped = next((size.skipped["cg-mosek"].note for size in sizes if "cg-mosek" in size.skipped), "")
    words = {"speeds": speeds(fights), "others": speeds(others), "skipped": skipped}
    strong, faster = int((fights["gain"] >= ABOUT_TEN).sum()), int((fights["gain"] > 1.0).sum())
    return {"strong": strong, "faster": faster, "sizes": len(fights), **words}


def cvxopt_numbers(sizes: Sequence[Size]) -> dict[str, Any] | str | None:
    size = next((size for size in sizes if size.n >= PAPER_SIZE), None)
    if size is None:
        return f"n = {PAPER_SIZE} is not among the sizes of this run."
    skipped, ran = size.skipped.get("cg-cvxopt"), size.runs.get("cg-cvxopt")
    if ran is not None:
        last = {name: ran.curve[name][-1] for name in ("seconds", "iteration")}
        return {"note": "", "level": ran.iterate_levels[-1], **last}
    if skipped is not None and skipped.facts["reason"] == TOO_SLOW:
        return {"note": skipped.note, "level": math.inf}
    return skipped.note if skipped else None


def classical_numbers(sizes: Sequence[Size]) -> dict[str, Any] | None:
    pairs = [gaps_of(size.gaps) for size in sizes if size.gaps is not None]
    if not pairs:
        return None
    ratios = np.concatenate([classical / ours for ours, classical in pairs])
    return {"better": int((ratios > 1.0).sum()), "iterates": len(ratios), "range": span(ratios), "last": ratios[-1]}


def bounds_above(sizes: Sequence[Size]) -> list[float]:
    """On every row of every certified curve, by how much the bound is above the best value that anybody reached."""
    return [bound - size.best for size in sizes for run in size.runs.values() for bound in run.curve["lower_bound"]]


SMALLER = "A quick run has smaller problems than the paper and a second for each solver: run without --quick."
CLAIMS: Sequence[Claim] = (
    certificate_claim(
        "The gap is a certificate: F(x) - F* is never above it (Lemma 2).",
        bounds_above,
        "Our bound takes what the oracle proves of its own minimum (the dual value of Sinkhorn's potentials). The "
        "lemma as it stands needs an exact oracle, which Sinkhorn is not.",
    ),
    Claim(
        "The gap is at least as good as the classical surrogate gap, and strictly better for a strictly convex g "
        "(2.4).",
        classical_numbers,
        lambda numbers: Cases(numbers["better"], numbers["iterates"]),
        "Better at {{ better }} of {{ iterates }} iterates. The classical gap is {{ range }} times ours, "
        "{{ last | factor }} times at the last one.",
        "Far from the optimum the two differ little. Near it ours shrinks like the error, the classical one like its "
        "square root: it pays for the curvature of g as well.",
        unless={
            Verdict.FAILS: "Far from the optimum the two differ little, and rounding decides: these runs end there."
        },
    ),
    Claim(
        "CGS outperforms CG in all cases in computation time (3.1).",
        time_numbers,
        time_predicate,
        "To the best value that CG reached, CGS {% if came == pairs %}is {{ gains }} times as fast over{% else %}gets "
        "there in {{ came }} of{% endif %} {{ pairs }} pairs (step rule, LP engine, size); it wins {{ won }} of them "
        "there, and {{ ahead }} of them at every accuracy on the way.{% if behind %} Not always ahead: {{ behind }}."
        "{% endif %}{% if missing %} Not all cases were tested: {{ missing }}{% endif %}",
        "A linear program answers with a vertex, a plan without entropy, so CG needs a vertex for each entry that "
        "should not be zero; Sinkhorn answers with a full plan. The first steps of CG are cheap: it may lead there.",
        unless={Verdict.FAILS: "The steps of CG are cheap here: to the accuracy that it reached it is the faster one."},
        when_quick=SMALLER,
    ),
    Claim(
        "CGS reaches better objective values than CG (3.1).",
        objective_numbers,
        lambda numbers: Cases(numbers["better"], numbers["pairs"]),
        "CGS ends lower in {{ better }} of {{ pairs }} pairs, with no more time than CG had. "
        "Best (F - F*)/(F_0 - F*) of the iterates: {{ ends }}.",
        "CG is O(1/k) with a large constant here: the entropy bends without bound where an entry is zero.",
        unless={Verdict.FAILS: "Both had time enough here; where CG ends lower, its steps were the cheaper ones."},
    ),
    Claim(
        "The difference between CGS and CG is amplified when the problem grows (3.1).",
        growth_numbers,
        lambda numbers: Cases(numbers["grown"], numbers["engines"]),
        "The gain grows with {{ grown }} of {{ engines }} engines. CGS with exact steps against "
        "{{ words | join('; against ') }}.",
        "A linear program over n x n plans grows faster than n^2, a pass of Sinkhorn like n^2; how many steps CGS "
        "needs depends on the graphs rather than on n.",
        unless={Verdict.FAILS: "Between these sizes CGS needs more steps, or longer ones, and grows more than CG."},
        when_quick=SMALLER,
    ),
    Claim(
        "The gain in time is about an order of magnitude over CG with MOSEK (3.1).",
        mosek_numbers,
        lambda numbers: Cases(numbers["strong"], numbers["sizes"], in_part=numbers["faster"]),
        "{% if sizes %}From 3.2 times on in {{ strong }} of {{ sizes }} sizes. {{ speeds }}. {% endif %}"
        "{% if others %}Against other engines: {{ others }}.{% else %}No other engine was measured.{% endif %}",
        "The factor is to the best value that CG reached in its time; it grows with the accuracy that is asked for.",
        unless={Verdict.UNTESTED: "{{ skipped or 'CG with MOSEK was not run.' }}"},
        when_quick=SMALLER,
    ),
    Claim(
        f"CG with CVXOPT takes too long at n = {PAPER_SIZE} (3.1).",
        cvxopt_numbers,
        lambda n: Verdict.HOLDS if n["note"] else Verdict.FAILS if n["level"] <= 1e-2 else Verdict.IN_PART,
        "{% if note %}{{ note }}{% else %}It came to {{ level | power }} of F_0 - F* in {{ seconds | duration }} and "
        "{{ iteration | count }} steps.{% endif %}",
        "Linear programs of this size are within its reach on this machine.",
        unless={Verdict.HOLDS: "Its interior-point method factors matrices over all n^2 variables."},
        when_quick=SMALLER,
    ),
)


# What is shown --------------------------------------------------------------------------------------------------------


def figures_of(sizes: Sequence[Size]) -> list[Figure]:
    def below_start(size: Size, m: Measured) -> Numbers:
        # an open-loop step may shoot up far beyond the start and would press all others into a corner: a gap instead
        return np.where(m.curve["value"] <= size.start + 1e-9 * abs(size.start), m.curve["value"], np.nan)

    highest = [(size, m, m.curve["value"].max()) for size in sizes for m in size.runs.values()]
    overshoot = [
        f"{m.label} rises to {top:.3g} at n = {size.n}"
        for size, m, top in highest
        if top > size.start + 0.5 * (size.start - size.best)
    ]
    known = {"sizes": sizes, "words": in_words(sizes), "overshoot": overshoot}
    drawn: list[tuple[str, str, str, Callable[[Size, Measured], Numbers], str]] = [
        ("figure-1", "Objective value along iterations and time", "objective", below_start, "objective F(x)"),
        ("figure-1-suboptimality", "Distance to the certified optimum", "errors", lambda _, m: m.errors, "F - F*"),
    ]
    figures = []
    for name, title, block, y, y_label in drawn:
        rows = [_row(size, y, y_label, log_y=block == "errors") for size in sizes]
        figures.append(Figure(name, title, text(f"{block}_caption", **known), text(f"{block}_alt", **known), rows))
    return figures + [_gaps_figure(size, size.gaps) for size in sizes if size.gaps is not None]


def _row(size: Size, y: Callable[[Size, Measured], Numbers], y_label: str, *, log_y: bool) -> list[Panel]:
    """The panel against iterations and the one against time."""
    level = float(f"{size.slack:.0e}") if log_y else size.best
    panels = []
    for against, label in (("iterations", "iteration k + 1"), ("time", "seconds")):
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
    lines = [Line(style, k, y) for style, y in (("classical-gap", classical), ("gap", ours), ("true-error", error))]
    panel = Panel(f"n = {size.n}", "iteration k + 1", "distance to F*", lines, log_x=True)
    known = error[np.isfinite(error)]
    numbers = {"k": k[-1] - 1, "ours": ours[-1], "classical": classical[-1], "error": known[-1] if known.size else None}
    caption, alt = text("gaps_caption", n=size.n), text("gaps_alt", **numbers)
    return Figure("figure-1-gaps", "Two gaps and the error they bound", caption, alt, [[panel]])


def table_of(size: Size) -> Table:
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
    return Table(f"Time to a relative accuracy, n = {size.n}", columns, rows, text("table_note", size=size))


def in_words(sizes: Sequence[Size]) -> str:
    """For each size the tightest level that CGS, memory, Newton and the best CG reached, and when."""
    groups = {"Newton": ("newton",), "CGS": PAPER_CGS, "CGS with memory": ("cgs-memory",), "the best CG": (*ENGINES,)}
    sentences = []
    for size in sizes:
        parts = []
        for name, runs in ((name, size.among(solvers)) for name, solvers in groups.items()):
            times = {level: min((m.time_to(level) for m in runs), default=math.inf) for level in TABLE_LEVELS}
            there = [level for level in TABLE_LEVELS if times[level] < math.inf]
            if there:
                parts.append(f"{name} is below {power(there[-1])} after {duration(times[there[-1]])}")
            elif runs:
                best = min(runs, key=lambda m: m.levels[-1])
                parts.append(f"{name} is at {power(best.levels[-1])} after {duration(best.curve['seconds'][-1])}")
        sentences.append(f"n = {size.n}, errors as shares of F_0 - F*: {'; '.join(parts)}.")
    return " ".join(sentences)


def settings_of(sizes: Sequence[Size]) -> dict[str, str]:
    caps = {size.n: sorted(m.curve.facts["cap"] for m in size.runs.values()) for size in sizes}
    return {
        "sizes": ", ".join(f"{size.n} x {size.n}" for size in sizes),
        "clouds": "4 noisy clusters in the unit square, the same clusters rotated and shifted; seed 0; weights 1/n",
        "cost": "squared Euclidean distance",
        "entropy (lambda_1)": f"{ENTROPY:g}",
        "Laplacian weight (lambda_2)": f"{WEIGHT:g}, symmetric-normalised, {NEIGHBORS} nearest neighbours, both sides",
        "threads": "one for BLAS",
        **{
            f"limits at n = {n}": f"{each[0]:g} to {each[-1]:g} s, for CGS no more than for CG"
            for n, each in caps.items()
        },
    }
