"""The chapter of figure 1: what the transport curves look like, and how they are put into words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from condgrad.paper.chapters import Chapter, Figure, Line, Panel, Table
from condgrad.paper.pieces import Curve
from condgrad.paper.reading import Numbers, thinned
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.transport_claims import CG, PAPER_CGS, gaps_of, transport_claims
from condgrad.paper.transport_problem import ENTROPY, NEIGHBORS, WEIGHT
from condgrad.paper.transport_reading import Measured, Size, sizes_of
from condgrad.paper.words import count, duration, ending, power

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
TITLE = "Figure 1: regularised optimal transport"
ITERATION, SECONDS = "iteration k + 1", "seconds"


def transport_chapter(curves: Sequence[Curve]) -> Chapter:
    """The page of figure 1 from whatever curves there are."""
    sizes = sizes_of(curves)
    gaps = [figure for size in sizes if (figure := gaps_figure(size)) is not None]
    return Chapter(
        name="figure-1",
        title=TITLE,
        summary=_summary(sizes),
        figures=[objective_figure(sizes), suboptimality_figure(sizes), *gaps] if sizes else [],
        tables=[_table(size) for size in sizes],
        claims=transport_claims(sizes),
        notes=[_skipped_note(size, solver) for size in sizes for solver in size.skipped] + _failed_notes(sizes),
        settings=_settings(sizes),
    )


def objective_figure(sizes: Sequence[Size]) -> Figure:
    """The paper's figure 1: F at the iterates against iterations and time."""
    rows = [_row(size, _objective_line, "objective F(x)", log_y=False) for size in sizes]
    overshoot = [
        f"{m.label} rises to {m.values.max():.3g} at n = {size.n}"
        for size in sizes
        for m in size.measured.values()
        if m.values.max() > size.reference.start + 0.5 * size.reference.scale
    ]
    left_out = f" Values above the start's are left out: {'; '.join(overshoot)}." if overshoot else ""
    return Figure(
        name="figure-1",
        title="Objective value along iterations and time",
        caption=f"As in the paper: F at the iterates, left against iterations, right against time.{left_out}",
        alt=f"Objective values of {_solvers(sizes)}. {_in_words(sizes)}",
        rows=rows,
    )


def suboptimality_figure(sizes: Sequence[Size]) -> Figure:
    """F - F* on a logarithmic axis, F* being certified."""
    floors = ", ".join(f"{power(size.reference.slack)} at n = {size.n}" for size in sizes)
    return Figure(
        name="figure-1-suboptimality",
        title="Distance to the certified optimum",
        caption=(
            "F - F* at the best point so far, for the library's methods the oracle's points among them. F* is the best "
            f"value of all solvers; it is proved to {floors}, the dashed level, below which nobody knows more."
        ),
        alt=f"Suboptimality of {_solvers(sizes)} on logarithmic axes. {_in_words(sizes)}",
        rows=[_row(size, _error_line, "F - F*", log_y=True) for size in sizes],
    )


def gaps_figure(size: Size) -> Figure | None:
    """Our gap, the classical one and the error that both bound."""
    if size.gaps is None or not size.gaps.columns["value"]:
        return None
    ours, classical = gaps_of(size.gaps)
    error = np.asarray(size.gaps.columns["value"]) - size.reference.value
    error = np.where(error > size.reference.slack, error, np.nan)  # closer nobody knows
    k = (np.asarray(size.gaps.columns["iteration"]) + 1.0).tolist()
    lines = [
        Line("classical-gap", k, classical.tolist()),
        Line("gap", k, ours.tolist()),
        Line("true-error", k, error.tolist()),
    ]
    last = (
        f"at iteration {k[-1] - 1:.0f} our gap is {power(ours[-1], 1)} and the classical one {power(classical[-1], 1)}"
    )
    known = error[np.isfinite(error)]
    error_words = power(known[-1], 1) if known.size else "too small to be known"
    return Figure(
        name="figure-1-gaps",
        title="Two gaps and the error they bound",
        caption=(
            f"Along a run of CGS with exact steps at n = {size.n}. Each gap is F(x) minus the best bound so far; the "
            "classical one (<grad F(x), x - s>, g linearised as well) took an extra linear program at each shown point."
        ),
        alt=f"Three falling curves, the classical gap, ours and the true error: {last}, the error {error_words}.",
        rows=[[Panel(f"n = {size.n}", ITERATION, "distance to F*", lines, log_x=True)]],
    )


def _row(size: Size, line: Callable[[Measured, bool], Line], y_label: str, *, log_y: bool) -> list[Panel]:
    level = float(f"{size.reference.slack:.0e}") if log_y else size.reference.value
    return [
        Panel(
            title=f"n = {size.n}, against {'time' if timed else 'iterations'}",
            x_label=SECONDS if timed else ITERATION,
            y_label=y_label,
            lines=[line(measured, timed) for measured in _ordered(size)],
            log_x=True,
            log_y=log_y,
            level=level,
        )
        for timed in (False, True)
    ]


def _objective_line(m: Measured, timed: bool) -> Line:
    # an open-loop step may shoot up far beyond the start and would press all others into a corner: a gap instead
    top = m.reference.start + 1e-9 * abs(m.reference.start)
    return _line(m, timed, np.where(m.values <= top, m.values, np.nan))


def _error_line(m: Measured, timed: bool) -> Line:
    return _line(m, timed, m.errors)


def _line(m: Measured, timed: bool, y: Numbers) -> Line:
    shown = thinned(len(y))
    x = m.seconds if timed else m.iterations + 1.0
    return Line(m.curve.solver, x[shown].tolist(), y[shown].tolist())


def _ordered(size: Size) -> list[Measured]:
    return [size.measured[solver] for solver in SOLVERS if solver in size.measured]


def _table(size: Size) -> Table:
    columns = [
        "solver",
        *(f"to {power(level)}" for level in LEVELS),
        "best reached",
        "proved gap",
        "iterations",
        "status",
    ]
    rows = [_measured_cells(m) for m in _ordered(size)]
    rows += [[SOLVERS[s].label, *["-"] * 7, ending(c.status)] for s, c in size.skipped.items()]
    return Table(
        title=f"Time to a relative accuracy, n = {size.n}",
        columns=columns,
        rows=rows,
        note=(
            "Accuracy is (F - F*)/(F_0 - F*) at the best point so far, F_0 at the product of the weights, where all "
            f"start. F* = {size.reference.value:.10g}, proved to {power(size.reference.slack)}."
        ),
    )


def _measured_cells(m: Measured) -> list[str]:
    bounds = m.curve.columns.get("lower_bound")
    gap = power(m.curve.columns["best_value"][-1] - bounds[-1]) if bounds else "none"
    times = [duration(m.time_to(level), never="-") for level in LEVELS]
    return [m.label, *times, power(m.best), gap, count(m.iterations[-1]), ending(m.curve.status)]


def _summary(sizes: Sequence[Size]) -> str:
    return _in_words(sizes[::-1][:1]) if sizes else "Nothing has been measured yet."


def _in_words(sizes: Sequence[Size]) -> str:
    """For each size the best of CGS, ours and CG."""
    sentences = []
    for size in sizes:
        parts = _times_by_level(size)
        cg = min(size.among(CG), key=lambda m: m.best, default=None)
        if cg is not None:
            parts.append(f"the best CG ({cg.label}) is at {power(cg.best)} after {duration(cg.seconds[-1])}")
        sentences.append(f"n = {size.n}, errors as shares of F_0 - F*: {'; '.join(parts)}.")
    return " ".join(sentences)


def _times_by_level(size: Size) -> list[str]:
    """The tightest level that each group reached and when, such as "below 1e-8 after 0.2 s (Newton), 3 s (CGS)"."""
    groups = (("CGS", PAPER_CGS), ("CGS with memory", ("cgs-memory",)), ("Newton", ("newton",)))
    times: dict[float, list[tuple[float, str]]] = {}
    late = []
    for name, solvers in groups:
        runs = size.among(solvers)
        reached = [(level, min(m.time_to(level) for m in runs)) for level in reversed(LEVELS)] if runs else []
        first = next(((level, seconds) for level, seconds in reached if math.isfinite(seconds)), None)
        if first is not None:
            times.setdefault(first[0], []).append((first[1], name))
        elif runs:
            last = min(runs, key=lambda m: m.best)
            late.append(f"{name} is at {power(last.best)} after {duration(last.seconds[-1])}")
    told = [
        f"below {power(level)} after {', '.join(f'{duration(seconds)} ({name})' for seconds, name in sorted(several))}"
        for level, several in sorted(times.items())
    ]
    return told + late


def _solvers(sizes: Sequence[Size]) -> str:
    return f"{max(len(size.measured) for size in sizes)} solvers at n = {' and '.join(str(size.n) for size in sizes)}"


def _skipped_note(size: Size, solver: str) -> str:
    return f"{SOLVERS[solver].label}, n = {size.n}, was skipped: {size.skipped[solver].note}"


def _failed_notes(sizes: Sequence[Size]) -> list[str]:
    return [f"{m.label}, n = {size.n}: {m.curve.note}" for size in sizes for m in _ordered(size) if m.curve.note]


def _settings(sizes: Sequence[Size]) -> dict[str, str]:
    caps = {
        f"seconds at n = {size.n}": ", ".join(
            f"{group} {max(m.curve.facts['cap'] for m in runs):g}"
            for group, runs in (
                ("CGS", size.among((*PAPER_CGS, "cgs-memory"))),
                ("CG", size.among(CG)),
                ("POT", size.among(("pot-gcg",))),
            )
            if runs
        )
        for size in sizes
    }
    return {
        "sizes": ", ".join(f"{size.n} x {size.n}" for size in sizes),
        "clouds": "4 noisy clusters in the unit square, the same clusters rotated and shifted; seed 0; weights 1/n",
        "cost": "squared Euclidean distance",
        "entropy (lambda_1)": f"{ENTROPY:g}",
        "Laplacian weight (lambda_2)": f"{WEIGHT:g}, symmetric-normalised, {NEIGHBORS} nearest neighbours, both sides",
        "threads": "one for BLAS",
        **caps,
    }
