"""The chapter of the theory: measured errors under the bounds of section 2, and what became of its claims."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from condgrad.paper.chapters import Chapter, Claim, Figure, Line, Panel, Table, Verdict
from condgrad.paper.pieces import Curve
from condgrad.paper.reading import thinned
from condgrad.paper.theory_problems import KINDS
from condgrad.paper.theory_reading import Rate, rates
from condgrad.paper.words import span

TITLE = "Theory: rates of convergence"
LEAST_LABEL = "the least that k + 1 entries allow"
PROBLEMS_WITH_RATE = ("least squares", "logistic")
LINEAR_STEPS = ("exact", "short")
SUBLINEAR = 4.0
"""A measured power below this is no geometric decay, which would be steeper than any power."""


def theory_chapter(curves: Sequence[Curve]) -> Chapter:
    """The page from whatever curves there are."""
    runs = rates(curves)
    return Chapter(
        name="theory",
        title=TITLE,
        summary=_summary(runs),
        figures=[theory_figure(runs)] if runs else [],
        tables=[_bound_table(runs), _linear_table(runs)] if runs else [],
        claims=[theorem_claim(runs), open_loop_claim(runs), linear_claim(runs), strong_claim(runs), certified(runs)],
        settings=_settings(runs),
    )


def theory_figure(runs: Sequence[Rate]) -> Figure:
    """O(1/k) on doubly logarithmic axes, the linear rate on a semilogarithmic one; the first draw of each problem."""
    first = [run for run in runs if run.curve.seed == min(r.curve.seed for r in runs if r.problem == run.problem)]
    panels = [_power_panel(name, [r for r in first if r.problem == name and r.step != "short"]) for name in KINDS]
    linear = [_linear_panel(name, [r for r in first if r.problem == name]) for name in PROBLEMS_WITH_RATE]
    return Figure(
        name="theory",
        title="F(x_k) - F* under its bounds",
        caption=(
            "Above: under 2 C_f/(k + 2), with the curvature of f alone. In the fourth panel no method that adds one "
            "vertex a step can be below the dash-dotted curve, so O(1/k) is all there is. Below: under "
            "h_0 (L/(L + mu))^k, where g is strongly convex."
        ),
        alt=f"All measured errors against iterations, with their bounds in grey. {_summary(runs)}",
        rows=[panels[:2], panels[2:], linear],
    )


def _power_panel(name: str, runs: Sequence[Rate]) -> Panel:
    lines = [_line(run) for run in runs]
    longest = max(runs, key=lambda run: len(run.k), default=None)
    if longest is not None:
        lines.append(_curve("bound", longest.k + 1.0, longest.bound))
        if name == "corner":
            least = 0.5 / (longest.k + 1.0) - 0.5 / float(longest.curve.facts["n"])
            lines.append(_curve("least", longest.k + 1.0, least, LEAST_LABEL))
    return Panel(KINDS[name].title, "iteration k + 1", "F(x_k) - F*", lines, log_x=True)


def _linear_panel(name: str, runs: Sequence[Rate]) -> Panel:
    shown = [run for run in runs if run.step in LINEAR_STEPS]
    lines = [_line(run, shift=0.0) for run in shown]
    longest = max(shown, key=lambda run: int((run.h > run.floor).sum()), default=None)
    if longest is not None:
        above = longest.linear_bound > longest.floor
        lines.append(_curve("linear-bound", longest.k[above], longest.linear_bound[above]))
    return Panel(f"{name}: the linear rate", "iteration k", "F(x_k) - F*", lines)


def _line(run: Rate, shift: float = 1.0) -> Line:
    clear = run.h > run.floor
    return _curve(run.curve.solver, run.k[clear] + shift, run.h[clear])


def _curve(style: str, x: np.ndarray, y: np.ndarray, label: str = "") -> Line:
    shown = thinned(len(x)) if len(x) else slice(0)
    return Line(style, x[shown].tolist(), y[shown].tolist(), label=label)


def theorem_claim(runs: Sequence[Rate]) -> Claim:
    claim = "F(x_k) - F* <= 2 C/(k + 2) for each k >= 1 (theorem of 2.3)."
    tested = [run for run in runs if run.step in ("exact", "armijo")]
    why = (
        "The paper's C is the curvature of F, infinite for the entropy; the proof needs that of f alone, which is what "
        "is drawn. For Armijo's rule the constant depends on its parameters; it was under this one too."
    )
    return _bound_claim(claim, tested, why)


def open_loop_claim(runs: Sequence[Rate]) -> Claim:
    claim = "The bound also holds for the step 2/(k + 2) (2.3)."
    tested = [run for run in runs if run.step == "open-loop"]
    return _bound_claim(claim, tested, "The induction takes just this step; exact steps do at least as well.")


def _bound_claim(claim: str, runs: Sequence[Rate], why: str) -> Claim:
    if not runs:
        return _untested(claim)
    worst = {name: max(run.share for run in runs if run.problem == name) for name in _names(runs)}
    under = sum(run.share <= 1.0 for run in runs)
    shares = ", ".join(f"{share:.2g} for {name}" for name, share in worst.items())
    measured = f"{under} of {len(runs)} runs stay below. The largest share of the bound: {shares}."
    over = ", ".join(sorted({f"{run.problem} ({run.step})" for run in runs if run.share > 1.0}))
    return Claim(claim, measured, Verdict.of(under, len(runs)), f"Above the bound: {over}." if over else why)


def linear_claim(runs: Sequence[Rate]) -> Claim:
    """'Linear' needs h_{k+1} <= q h_k with q < 1: asked of the corner, where nothing is strongly convex but F."""
    claim = "The algorithm has a linear convergence rate (abstract and 2.3)."
    corner = _corner_runs(runs)
    strong = _strong_runs(runs)
    if not corner or not strong:
        return _untested(claim)
    geometric = sum(_contracts(run) for run in strong)
    measured = (
        f"|x|^2/2 on the simplex with g = 0: the error falls like {_powers(corner)}, and at the end a step takes off "
        f"{1.0 - min(run.contractions[-1] for run in corner):.1%} of it at most. With a strongly convex g: "
        f"{geometric} of {len(strong)} runs shrink geometrically, by L/(L + mu) or better at every step."
    )
    why = (
        "What the theorem proves, 2 C/(k + 2), is O(1/k), which is called sublinear. A linear rate needs a strongly "
        "convex g (not F: in the corner F is strongly convex and it does not help)."
    )
    steep = sum(run.power >= SUBLINEAR for run in corner)
    return Claim(claim, measured, Verdict.of(steep + geometric, len(corner) + len(strong)), why)


def strong_claim(runs: Sequence[Rate]) -> Claim:
    claim = "Beyond the paper: with a mu-strongly convex g and an L-smooth f, h_(k+1) <= L/(L + mu) h_k."
    strong = _strong_runs(runs)
    if not strong:
        return _untested(claim)
    good = sum(_contracts(run) for run in strong)
    parts = [
        f"{name}, {step}: {max(r.worst_contraction for r in group):.3f} under {max(r.contraction for r in group):.3f}"
        for name in PROBLEMS_WITH_RATE
        for step in LINEAR_STEPS
        if (group := [run for run in strong if run.problem == name and run.step == step])
    ]
    measured = f"{good} of {len(strong)} runs do. The largest h_(k+1)/h_k: {'; '.join(parts)}."
    over = ", ".join(sorted({f"{run.problem} ({run.step})" for run in strong if not _contracts(run)}))
    why = "The step mu/(L + mu) already contracts so; exact and short steps are at least as good along the same line."
    if over:
        why = f"Slower than that: {over}."
    return Claim(claim, measured, Verdict.of(good, len(strong)), why)


def certified(runs: Sequence[Rate]) -> Claim:
    claim = "At every iterate the gap is at least F(x_k) - F* (Lemma 2)."
    if not runs:
        return _untested(claim)
    excess = max(max(run.curve.columns["lower_bound"]) - run.optimum for run in runs)
    rows = sum(len(run.k) for run in runs)
    why = "The bound gives away what rounding may have added, so it holds in floating-point arithmetic too."
    return Claim.of_bounds(claim, bounds=rows, excess=excess, why=why)


def _corner_runs(runs: Sequence[Rate]) -> list[Rate]:
    return [run for run in runs if run.problem == "corner" and math.isfinite(run.power)]


def _powers(runs: Sequence[Rate]) -> str:
    return f"1/k^p with p = {span(run.power for run in runs)}"


def _strong_runs(runs: Sequence[Rate]) -> list[Rate]:
    return [run for run in runs if run.step in LINEAR_STEPS and run.contraction < 1.0 and run.clear.any()]


def _contracts(run: Rate) -> bool:
    # h is known to slack / floor = 1/100 at worst, where it is compared
    return run.worst_contraction <= run.contraction + 0.02 * (1.0 - run.contraction)


def _untested(claim: str) -> Claim:
    return Claim.untested(claim, "Run all of the theory's pieces.")


def _names(runs: Sequence[Rate]) -> list[str]:
    return [name for name in KINDS if any(run.problem == name for run in runs)]


def _bound_table(runs: Sequence[Rate]) -> Table:
    rows = []
    for name in _names(runs):
        same = [run for run in runs if run.problem == name]
        cells = [
            max((r.share for r in same if r.step == step), default=None) for step in ("exact", "armijo", "open-loop")
        ]
        constants = sorted({float(run.curve.facts["curvature"]) for run in same})
        rows.append([name, _span(constants), *("-" if cell is None else f"{cell:.2g}" for cell in cells)])
    return Table(
        title="The largest share of 2 C_f/(k + 2) that was reached",
        columns=["problem", "C_f", "exact", "Armijo", "2/(k+2)"],
        rows=rows,
        note=(
            "C_f is exact for least squares (max |A(u - v)|^2 over vertices) and the corner (2), from above for "
            "logistic (h'' <= 1/4) and transport (2 w (lmax(Ls) |a|^2 diam(Xt)^2 + lmax(Lt) |b|^2 diam(Xs)^2))."
        ),
    )


def _linear_table(runs: Sequence[Rate]) -> Table:
    rows = [
        [
            run.problem,
            str(run.curve.seed),
            run.step,
            f"{float(run.curve.facts['smoothness']):.3g}",
            f"{float(run.curve.facts['strong_convexity']):.3g}",
            f"{run.contraction:.4f}",
            f"{run.worst_contraction:.4f}",
        ]
        for run in _strong_runs(runs)
    ]
    columns = ["problem", "seed", "step", "L", "mu", "L/(L + mu)", "largest h_(k+1)/h_k"]
    return Table("The linear rate under strong convexity", columns, rows)


def _span(values: Sequence[float]) -> str:
    return f"{values[0]:.3g}" if len(values) == 1 else f"{values[0]:.3g} to {values[-1]:.3g}"


def _summary(runs: Sequence[Rate]) -> str:
    if not runs:
        return "Nothing has been measured yet."
    tested = [run for run in runs if run.step != "short"]
    sentences = []
    if tested:
        under = sum(run.share <= 1.0 for run in tested)
        sentences.append(f"{under} of {len(tested)} runs stay below 2 C_f/(k + 2).")
    corner = _corner_runs(runs)
    if corner:
        sentences.append(f"On the simplex without g the error falls like {_powers(corner)}.")
    strong = _strong_runs(runs)
    if strong:
        good = sum(_contracts(run) for run in strong)
        sentences.append(f"With a strongly convex g {good} of {len(strong)} runs contract by L/(L + mu) at every step.")
    return " ".join(sentences)


def _settings(runs: Sequence[Rate]) -> dict[str, str]:
    sizes = {name: next(int(run.curve.facts["n"]) for run in runs if run.problem == name) for name in _names(runs)}
    seeds = sorted({run.curve.seed for run in runs})
    return {
        "sizes": ", ".join(f"{name} {size}" for name, size in sizes.items()),
        "corner": "|x|^2/2 on the simplex from a vertex, g = 0: every step adds one entry",
        "seeds": ", ".join(map(str, seeds)),
        "F*": "the best value of all runs of a problem, Newton's among them, with the best bound beside it",
    }
