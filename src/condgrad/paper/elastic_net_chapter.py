"""Figures 2 and 3 as chapters: what to draw, to tabulate and to say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from condgrad.paper.chapters import Chapter, Figure, Line, Panel, Table
from condgrad.paper.elastic_net_claims import RULE, microarray_claims, parity, toy_claims
from condgrad.paper.elastic_net_curves import (
    ROUGH,
    TOLERANCE,
    Axis,
    average,
    by_problem,
    draws,
    measured,
    median_reached,
    reached,
)
from condgrad.paper.hyper_parameters import TIE_RULE
from condgrad.paper.pieces import Curve
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.words import count, duration, listed

RESIDUAL = "|P(x - ∇F(x)) - x|∞"
READING = (
    "The optimality condition of the paper against time (left) and iterations (right), both axes logarithmic; lower "
    "and further left is better, and the dashed level is the tolerance 1e-5. "
)
NOTES = (
    RULE,
    "An iteration of any solver pays for one projection that measures the residual; SPG and PQN pay for another that "
    "proves a lower bound, which CGS and CG have for free. An iteration of Newton is a look at the full problem, after "
    "several Newton steps on a working set.",
    "All run on one thread. Runs that converge are run twice, and each iteration has the better of its two times. On a "
    "busy machine read differences under 1.5 times as ties.",
    f"Ridge and radius have the most test samples right, as the paper says; {TIE_RULE}. The choice is made by Newton's "
    "method and not timed.",
)


def toy_chapter(name: str, curves: Sequence[Curve]) -> Chapter:
    """Figure 2 and the sweep over the ridge."""
    usable = measured(curves)
    race = [curve for curve in usable if curve.facts["part"] == "race"]
    sweep = [curve for curve in usable if curve.facts["part"] == "sweep"]
    figure = Figure(
        name,
        "Elastic net, three toy regimes",
        READING + _spread(race),
        _alt(race),
        [_row(problem, solvers) for problem, solvers in by_problem(race).items()],
    )
    return Chapter(
        name=name,
        title="Figure 2: elastic net on toy problems",
        summary=_summary(race, "the toy draws"),
        figures=[figure, _sweep_figure(f"{name}-ridge", sweep)],
        tables=[_speed_table(race), _choice_table(race)],
        claims=toy_claims(race, sweep),
        notes=[
            *NOTES,
            "The paper gives neither the sizes of its regimes nor the Wishart's parameters: those drawn here are in "
            "condgrad.datasets.REGIMES.",
            *_limits(race),
        ],
        settings=_settings(race),
    )


def microarray_chapter(name: str, curves: Sequence[Curve]) -> Chapter:
    """Figure 3."""
    race = measured(curves)
    said = list(dict.fromkeys(curve.note for curve in race if curve.note))
    replaced = list(dict.fromkeys(curve.problem for curve in race if curve.facts["stand_in"]))
    warning = f"Not the paper's data: {listed(replaced)}; see the notes. " if replaced else ""
    figure = Figure(
        name,
        "Elastic net, microarrays",
        READING + _spread(race) + (" " + warning.strip() if warning else ""),
        warning + _alt(race),
        [_row(problem, solvers) for problem, solvers in by_problem(race).items()],
    )
    return Chapter(
        name=name,
        title="Figure 3: elastic net on colon and lymphoma",
        summary=warning + _summary(race, "the splits"),
        figures=[figure],
        tables=[_speed_table(race), _choice_table(race)],
        claims=microarray_claims(race),
        notes=[*said, *NOTES, *_limits(race)],
        settings=_settings(race),
    )


def _row(problem: str, solvers: Mapping[str, list[Curve]]) -> list[Panel]:
    """The two panels of a problem."""
    facts = next(iter(solvers.values()))[0].facts
    labels: dict[Axis, str] = {"seconds": "time (seconds)", "iteration": "iterations"}
    return [
        Panel(
            f"{problem}, {facts['samples']} x {facts['features']}",
            label,
            RESIDUAL,
            [average(solver, solvers[solver], axis) for solver in SOLVERS if solver in solvers],
            log_x=True,
            level=TOLERANCE,
        )
        for axis, label in labels.items()
    ]


def _sweep_figure(name: str, sweep: Sequence[Curve]) -> Figure:
    """Iterations to the tolerance against the ridge."""
    found: dict[str, dict[float, list[float]]] = {}
    for curve in sweep:
        at = curve.facts["ridge"] / curve.facts["samples"]
        found.setdefault(curve.solver, {}).setdefault(at, []).append(reached(curve, TOLERANCE).iteration)
    lines = [_sweep_line(solver, found[solver]) for solver in SOLVERS if solver in found]
    regime = sweep[0].problem.split(",")[0] if sweep else "no regime"
    return Figure(
        name,
        "Where CGS keeps up with SPG",
        f"Iterations to 1e-5 in the regime “{regime}”, radius fixed, against the ridge in units of the training "
        "samples m: the median of the draws with the least and the largest. A missing point was not reached within "
        "the limits.",
        f"Two curves over the ridge. {parity(sweep) or 'Nothing was measured.'}",
        [[Panel(f"{regime}: the effect of the ridge", "ridge / m", "iterations to 1e-5", lines, log_x=True)]],
    )


def _sweep_line(solver: str, found: Mapping[float, list[float]]) -> Line:
    ridges = sorted(found)
    several = any(len(found[ridge]) > 1 for ridge in ridges)
    return Line(
        solver,
        ridges,
        [median(found[ridge]) for ridge in ridges],
        [min(found[ridge]) for ridge in ridges] if several else (),
        [max(found[ridge]) for ridge in ridges] if several else (),
    )


def _speed_table(race: Sequence[Curve]) -> Table:
    """Median times and iterations to the two levels."""
    rows = []
    for problem, solvers in by_problem(race).items():
        for solver in (solver for solver in SOLVERS if solver in solvers):
            curves = solvers[solver]
            late = _later_than(curves)
            rough, fine = (median_reached(curves, level) for level in (ROUGH, TOLERANCE))
            there = sum(reached(curve, TOLERANCE).seconds < math.inf for curve in curves)
            rows.append(
                [
                    problem,
                    SOLVERS[solver].label,
                    duration(rough.seconds, never=late),
                    count(rough.iteration),
                    duration(fine.seconds, never=late),
                    count(fine.iteration),
                    f"{there} of {len(curves)}",
                ]
            )
    return Table(
        "Time and iterations to a residual of 1e-2 and of 1e-5",
        ["problem", "solver", "time to 1e-2", "iterations", "time to 1e-5", "iterations", "reached 1e-5"],
        rows,
        note="Medians over draws. A draw that does not get there within its limits counts as infinitely long.",
    )


def _choice_table(race: Sequence[Curve]) -> Table:
    """What the test set chose for each draw."""
    rows = []
    for (problem, seed), draw in draws(race).items():
        facts = next(iter(draw.values())).facts
        rows.append(
            [
                problem,
                str(seed),
                f"{facts['ridge']:g}",
                f"{facts['radius']:g}",
                f"{facts['accuracy']:.1%}",
                f"{facts['nonzeros']:,} of {facts['features']:,}",
                f"{facts['equals']}",
            ]
        )
    return Table(
        "Hyper-parameters chosen on the test set, and the model they give",
        ["problem", "draw", "ridge", "radius", "test accuracy", "non-zeros", "pairs as good"],
        rows,
        note=f"Most test samples right; {TIE_RULE}.",
    )


def _later_than(curves: Sequence[Curve]) -> str:
    """What is known of a time that never came: the least time limit of those that met it."""
    limits = [curve.facts["time_limit"] for curve in curves if curve.status == "TIME_LIMIT"]
    return f"> {duration(min(limits))}" if limits else "never"


def _spread(race: Sequence[Curve]) -> str:
    """What a line and its band are."""
    several = len({curve.seed for curve in race})
    if several < 2:
        return "One draw of each problem."
    return (
        f"Lines are geometric means over {several} draws, bands reach from the least to the largest; a draw that is "
        "done keeps its last residual."
    )


def _medians(race: Sequence[Curve]) -> dict[str, float]:
    """Median seconds to the tolerance over all draws, by solver, the fastest first."""
    found: dict[str, list[Curve]] = {}
    for curve in race:
        found.setdefault(curve.solver, []).append(curve)
    seconds = {solver: median_reached(curves, TOLERANCE).seconds for solver, curves in found.items()}
    return dict(sorted(seconds.items(), key=lambda entry: entry[1]))


def _alt(race: Sequence[Curve]) -> str:
    """The picture in words."""
    sentences = []
    for problem in by_problem(race):
        medians = _medians([curve for curve in race if curve.problem == problem])
        told = [f"{SOLVERS[solver].label} {duration(seconds)}" for solver, seconds in medians.items()]
        sentences.append(f"{problem}: {'; '.join(told)}.")
    if not sentences:
        return "Nothing was measured."
    return "Falling curves of residuals, two panels a problem. Median times to 1e-5: " + " ".join(sentences)


def _summary(race: Sequence[Curve], where: str) -> str:
    """The main numbers."""
    medians = _medians(race)
    if not medians:
        return "Not measured yet."
    told = [f"{SOLVERS[s].label} {duration(seconds)}" for s, seconds in medians.items() if seconds < math.inf]
    never = [SOLVERS[s].label for s, seconds in medians.items() if seconds == math.inf]
    late = f" In the median not there within the limits: {'; '.join(never)}." if never else ""
    order = "; ".join(told) or "none got there"
    return f"Over all {where} the median time to an optimality condition of 1e-5: {order}.{late}"


def _limits(race: Sequence[Curve]) -> list[str]:
    """A sentence on runs that were cut short."""
    cut = {curve.solver for curve in race if curve.status == "TIME_LIMIT"}
    caps = sorted({curve.facts["time_limit"] for curve in race})
    if not cut:
        return []
    names = "; ".join(SOLVERS[solver].label for solver in SOLVERS if solver in cut)
    return [f"Each run has {listed([duration(cap) for cap in caps])} at most; that cut short runs of: {names}."]


def _settings(race: Sequence[Curve]) -> dict[str, str]:
    grid = {name: race[0].facts[name] for name in ("ridges", "radii")} if race else {}
    own = {f"{name} tried": ", ".join(f"{value:g}" for value in values) for name, values in grid.items()}
    return {
        "loss": "logistic, as a sum, no intercept",
        "start": "x = 0",
        "stop": "residual 1e-5 or 10,000 iterations",
        "line search": "monotone Armijo: fraction 1e-4, halving from 1; Newton has its own",
        "draws": ", ".join(str(seed) for seed in sorted({curve.seed for curve in race})),
        **own,
    }
