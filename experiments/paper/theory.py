"""The rates of the paper's section 2 on problems with known constants: measured F(x_k) - F* under the bounds.

C_f is the curvature of f alone, the least C with f((1 - a) x + a y) <= f(x) + a <grad f(x), y - x> + C a^2 / 2 for all
x, y in P and a in [0, 1]. The paper states its theorem with that of F; its proof goes through with that of f, and the
entropy has no finite one. Where g is mu-strongly convex and f L-smooth, h_k = F(x_k) - F* shrinks by L/(L + mu) a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import eye_array
from scipy.spatial.distance import pdist

import condgrad as cg
from experiments.clock import one_thread
from experiments.paper.chapter import CaseCount, Claim, Experiment, Source, TextTable, bound_numbers
from experiments.paper.figures import Figure, Line, Panel
from experiments.paper.tasks import Curve, Scale, Task, best_known
from experiments.paper.wording import prose, span
from experiments.problems import TransportProblem
from experiments.transport_solvers import COLUMNS

ROWS, RADIUS, RIDGE = 40, 3.0, 0.05
SPARSE = 6
"""Entries that matter: more than the radius has room for, so that the constraint binds."""
LAPLACIAN_WEIGHT = 1e2
"""A tenth of the paper's, so that a small problem ends within the run."""
TOLERANCE, NEWTON_TOLERANCE = 1e-14, 1e-13
SUBLINEAR = 4.0
"""A measured power below this is no geometric decay, which would be steeper than any power."""
STEPS, LINEAR_STEPS = ("exact", "armijo", "open-loop"), ("exact", "short")
TEMPLATE = "theory.jinja"
text = partial(prose, TEMPLATE)


# The problems ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoryProblem:
    """f, g, a bad start, and the constants that the rates are stated with."""

    f: Any
    g: Any
    x0: Any
    curvature: float
    """C_f, or a bound on it."""
    smoothness: float = 0.0
    """L in the Euclidean norm, where the linear rate is looked at."""
    strong_convexity: float = 0.0
    """mu of g in the same norm."""
    optimum: float | None = None
    """F*, where there is a closed form."""

    @property
    def contraction(self) -> float:
        """L/(L + mu): h_{k+1} is at most so many times h_k."""
        total = self.smoothness + self.strong_convexity
        return self.smoothness / total if total else 1.0


def least_squares(size: int, seed: int) -> TheoryProblem:
    """1/2 |Ax - y|^2 + ridge |x|^2 on an l1 ball; C_f = max |A(u - v)|^2 over vertices, exactly."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((ROWS, size)) / np.sqrt(ROWS)
    y = A[:, :SPARSE] @ rng.choice([-1.0, 1.0], SPARSE) + 0.1 * rng.standard_normal(ROWS)
    return _on_l1_ball(cg.smooth.LeastSquares(A, y), A, second_derivative=1.0)


def logistic(size: int, seed: int) -> TheoryProblem:
    """sum log(1 + exp(-y z.x)) + ridge |x|^2 on an l1 ball; C_f <= max |Z(u - v)|^2 / 4, for h'' <= 1/4."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((ROWS, size)) / np.sqrt(0.25 * ROWS)
    y = np.where(Z[:, :SPARSE].sum(axis=1) + 0.1 * rng.standard_normal(ROWS) > 0.0, 1.0, -1.0)
    return _on_l1_ball(cg.smooth.Logistic(Z, y), Z, second_derivative=0.25)


def _on_l1_ball(f: Any, A: Any, *, second_derivative: float) -> TheoryProblem:
    """f = h(Ax) with h'' at most that: C_f and L from the matrix; the start is the worst vertex."""
    g = cg.simple.Ridge(RIDGE, on=cg.sets.L1Ball(RADIUS))
    vertices = RADIUS * np.vstack([np.eye(A.shape[1]), -np.eye(A.shape[1])])
    worst = max(vertices, key=lambda v: f.at(v).value + g.value(v))
    curvature = second_derivative * float(pdist(vertices @ A.T, "sqeuclidean").max())
    return TheoryProblem(
        f, g, worst, curvature, second_derivative * float(np.linalg.norm(A, 2)) ** 2, 2.0 * RIDGE
    )


def transport(size: int, seed: int) -> TheoryProblem:
    """The problem of figure 1, small; f is quadratic, so that C_f = 2 max Omega(G - G') over plans, here from above.

    Row i of G Xt is a_i times a mean of target points, so two plans differ there by at most a_i diam(Xt):
    Omega(G - G') <= w (lmax(Ls) |a|^2 diam(Xt)^2 + lmax(Lt) |b|^2 diam(Xs)^2).
    """
    problem = TransportProblem.of(size, seed, weight=LAPLACIAN_WEIGHT)
    omega, polytope = problem.omega, problem.polytope

    def side(weight: float, L: Any, weights: Any, other: Any) -> float:
        top = float(np.linalg.eigvalsh(L.toarray() if hasattr(L, "toarray") else L)[-1])
        return weight * top * float(weights @ weights) * float(pdist(other, "sqeuclidean").max())

    source = side(omega.source_weight, omega.Ls, polytope.a, omega.Xt)
    target = side(omega.target_weight, omega.Lt, polytope.b, omega.Xs)
    return TheoryProblem(problem.f, problem.g, None, 2.0 * (source + target))


def corner(size: int, seed: int) -> TheoryProblem:
    """|x|^2 / 2 on the simplex from a corner, g = 0: each step adds one entry, so F(x_k) - F* >= 1/(2k+2) - 1/(2n)."""
    f = cg.smooth.LeastSquares(eye_array(size, format="csr"), np.zeros(size))
    start = np.zeros(size)
    start[seed % size] = 1.0
    return TheoryProblem(
        f, cg.simple.Zero(on=cg.sets.Simplex(size)), start, curvature=2.0, optimum=0.5 / size
    )


class ProblemKind(NamedTuple):
    """A problem by name: how to make it, its size, whether seeds matter, and the steps of CGS (or Newton, for F*)."""

    title: str
    make: Callable[[int, int], TheoryProblem]
    size: int
    random: bool
    steps: tuple[str, ...]


EVERY = ("newton", *STEPS, "short")
KINDS: Mapping[str, ProblemKind] = {
    "least squares": ProblemKind(
        r"least squares + ridge, \(\ell_1\) ball", least_squares, 60, True, EVERY
    ),
    "logistic": ProblemKind(r"logistic + ridge, \(\ell_1\) ball", logistic, 60, True, EVERY),
    "transport": ProblemKind(
        "transport, entropy + Laplacian", transport, 20, False, ("newton", *STEPS)
    ),
    "corner": ProblemKind(r"\(\|x\|^2/2\) on the simplex, \(g = 0\)", corner, 5000, False, STEPS),
}


# The runs -------------------------------------------------------------------------------------------------------------


def tasks(
    scale: Scale,
    sizes: Mapping[str, int] = MappingProxyType({}),
    iterations: int = 500,
    cap: float = 2.0,
) -> list[Task]:
    """A task for each problem, draw and step rule; problems have their own sizes unless others are given."""
    if scale.quick:
        iterations, cap = 200, 0.5
    every = []
    for name, kind in KINDS.items():
        size = sizes.get(name, kind.size)
        limits: dict[str, Any] = {"max_iter": iterations, "time_limit": cap}
        for seed in range(scale.seeds if kind.random else 1):
            for step in kind.steps:
                settings = {"size": size, "step": step, **limits}
                work = partial(measure, name, size, seed, step, **limits)
                seconds = 0.1 if kind.random else cap
                every.append(Task("theory", name, solver_of(step), seed, settings, seconds, work))
    return every


def solver_of(step: str) -> str:
    return "newton" if step == "newton" else f"cgs-{step}"


def measure(name: str, size: int, seed: int, step: str, **limits: Any) -> Curve:
    """CGS with a step rule from a bad start, or Newton, whose answer is the reference."""
    problem = KINDS[name].make(size, seed)
    options: dict[str, Any] = {"method": "newton", "tol": NEWTON_TOLERANCE}
    if step != "newton":
        options = {"method": "cgs", "step": step, "tol": TOLERANCE}
    with one_thread():
        result = cg.minimize(problem.f, problem.g, problem.x0, **options, **limits)
    constants = ("curvature", "contraction", "smoothness", "strong_convexity", "optimum")
    facts = {
        "n": size,
        "step": step,
        **{constant: getattr(problem, constant) for constant in constants},
    }
    columns = {column: result.trace[column].tolist() for column in COLUMNS}
    return Curve(name, solver_of(step), seed, columns, result.status.name, facts=facts)


# What the curves say --------------------------------------------------------------------------------------------------


def rates(curves: Sequence[Curve]) -> pd.DataFrame:
    """A row for each run of CGS, held against the best that all runs of its problem know of F*."""
    rows = []
    for problem in KINDS:
        drawn = [curve for curve in curves if curve.problem == problem and curve["value"].size]
        for seed in sorted({curve.seed for curve in drawn}):
            same = [curve for curve in drawn if curve.seed == seed]
            optimum, slack = _optimum(same)
            rows += [_rate(curve, optimum, slack) for curve in same if curve.solver != "newton"]
    columns = [
        "problem",
        "seed",
        "step",
        "share",
        "power",
        "contraction",
        "largest",
        "contracts",
        "above",
    ]
    found = pd.DataFrame(rows, columns=None if rows else columns)
    return found.astype({"contracts": bool})


def _optimum(curves: Sequence[Curve]) -> tuple[float, float]:
    """F* and how far it may be below: the closed form, or the best value and the best bound of all runs."""
    exact = curves[0].facts.get("optimum")
    if exact is not None:
        return float(exact), 1e-16
    value, bound = best_known(curves)
    return value, max(value - bound, 1e-16)


def _rate(curve: Curve, optimum: float, slack: float) -> dict[str, Any]:
    """What a run says of the rates; h is F(x_k) - F*, and below `floor` it is rounding."""
    k, h = curve["iteration"], curve["value"] - optimum
    floor = max(1e2 * slack, 1e-11 * max(1.0, abs(optimum)))
    bound = 2.0 * float(curve.facts["curvature"]) / (k + 2.0)
    clear = h[:-1] > floor
    shrinks = h[1:][clear] / h[:-1][clear]
    tail = (k >= max(2.0, 0.5 * k[-1])) & (h > floor)
    rate = float(curve.facts["contraction"])
    largest = shrinks.max(initial=-math.inf)
    return {
        **curve.facts,
        "problem": curve.problem,
        "seed": curve.seed,
        "solver": curve.solver,
        "optimum": optimum,
        "k": k,
        "h": h,
        "known": h > floor,
        "bound": bound,
        # the largest h_k / (2 C_f/(k + 2)) over k >= 1: at most 1 where the theorem holds
        "share": ((h + slack) / bound)[1:].max(initial=-math.inf),
        # p of h_k ~ k^-p over the second half of the run
        "power": -np.polyfit(np.log(k[tail]), np.log(h[tail]), 1)[0]
        if tail.sum() > 1
        else math.nan,
        "last": shrinks[-1] if shrinks.size else math.nan,
        "largest": largest,
        # h is known to slack / floor = 1/100 at worst
        "contracts": bool(largest <= rate + 0.02 * (1.0 - rate)),
        "above": curve["lower_bound"] - optimum,
    }


def corner_runs(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["problem"] == "corner") & runs["power"].notna()]


def strong_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Those whose g is strongly convex, with a step that makes use of it."""
    return runs[
        runs["step"].isin(LINEAR_STEPS)
        & (runs["contraction"] < 1.0)
        & (runs["largest"] > -math.inf)
    ]


def names_of(runs: pd.DataFrame) -> list[str]:
    return sorted({f"{run.problem} ({run.step})" for run in runs.itertuples()})


# The numbers that the claims read -------------------------------------------------------------------------------------


def share_numbers(*steps: str) -> Callable[[pd.DataFrame], dict[str, Any] | None]:
    """How the runs with these steps stand to 2 C_f/(k + 2)."""

    def numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
        tested = runs[runs["step"].isin(steps)]
        if tested.empty:
            return None
        under = CaseCount.of(tested["share"] <= 1.0)
        shares = tested.groupby("problem", sort=False)["share"].max().to_dict()
        return {"under": under, "shares": shares, "above": names_of(tested[tested["share"] > 1.0])}

    return numbers


def linear_numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
    """'Linear' needs h_{k+1} <= q h_k with q < 1: asked of the corner, where nothing is strongly convex but F."""
    corner, strong = corner_runs(runs), strong_runs(runs)
    if corner.empty or strong.empty:
        return None
    return {
        "steep": CaseCount.of(corner["power"] >= SUBLINEAR),
        "geometric": CaseCount.of(strong["contracts"]),
        "powers": span(corner["power"]),
        "last_step": 1.0 - corner["last"].min(),
    }


def strong_numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
    strong = strong_runs(runs)
    if strong.empty:
        return None
    worst = strong.groupby(["problem", "step"], sort=False)[["largest", "contraction"]].max()
    slower = names_of(strong[~strong["contracts"]])
    return {
        "good": CaseCount.of(strong["contracts"]),
        "worst": list(worst.itertuples()),
        "slower": slower,
    }


def certificate_numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
    return bound_numbers([excess for above in runs["above"] for excess in above])


CLAIMS = (
    Claim("theorem", share_numbers("exact", "armijo"), ["under"], "theory"),
    Claim("open_loop", share_numbers("open-loop"), ["under"], "theory"),
    Claim("linear", linear_numbers, ["steep", "geometric"], "theory", draws=False),
    Claim("strong", strong_numbers, ["good"], "theory", source=Source.OURS),
    Claim("certificate", certificate_numbers, ["proved"], "theory", source=Source.REPEATED),
)


# What is shown --------------------------------------------------------------------------------------------------------


def figures_of(runs: pd.DataFrame) -> list[Figure]:
    """O(1/k) on doubly logarithmic axes, the linear rate on a semilogarithmic one; the first draw of each problem."""
    if runs.empty:
        return []
    first = runs[runs["seed"] == runs.groupby("problem")["seed"].transform("min")]
    panels = [
        _power_panel(name, first[(first["problem"] == name) & (first["step"] != "short")])
        for name in KINDS
    ]
    linear = [
        _linear_panel(name, first[first["problem"] == name])
        for name in ("least squares", "logistic")
    ]
    title, caption, alt = (
        text(block, **words_of(runs)) for block in ("figure_title", "caption", "alt")
    )
    return [Figure("theory", title, caption, alt, [panels[:2], panels[2:], linear])]


def _power_panel(name: str, runs: pd.DataFrame) -> Panel:
    lines = [
        Line(run.solver, run.k[run.known] + 1.0, run.h[run.known]) for run in runs.itertuples()
    ]
    longest = max(runs.itertuples(), key=lambda run: len(run.k), default=None)
    if longest is not None:
        k = longest.k + 1.0
        lines.append(Line("bound", k, longest.bound))
        if name == "corner":
            lines.append(
                Line(
                    "least",
                    k,
                    0.5 / k - 0.5 / longest.n,
                    label=r"the least that \(k + 1\) entries allow",
                )
            )
    return Panel(KINDS[name].title, r"iteration \(k + 1\)", r"\(F(x_k) - F^*\)", lines, log_x=True)


def _linear_panel(name: str, runs: pd.DataFrame) -> Panel:
    shown = list(runs[runs["step"].isin(LINEAR_STEPS)].itertuples())
    lines = [Line(run.solver, run.k[run.known], run.h[run.known]) for run in shown]
    longest = max(shown, key=lambda run: run.known.sum(), default=None)
    if longest is not None:
        bound = longest.h[0] * longest.contraction**longest.k
        above = bound > longest.h[longest.known].min(initial=math.inf)
        lines.append(Line("linear-bound", longest.k[above], bound[above]))
    return Panel(f"{name}: the linear rate", r"iteration \(k\)", r"\(F(x_k) - F^*\)", lines)


def tables_of(runs: pd.DataFrame) -> list[TextTable]:
    return [bound_table(runs), linear_table(runs)] if len(runs) else []


def bound_table(runs: pd.DataFrame) -> TextTable:
    rows = []
    for name, same in runs.groupby("problem", sort=False):
        largest = same.groupby("step")["share"].max()
        ends = dict.fromkeys(
            f"{end:.3g}" for end in (same["curvature"].min(), same["curvature"].max())
        )
        shares = [f"{largest[step]:.2g}" if step in largest else "-" for step in STEPS]
        rows.append([name, " to ".join(ends), *shares])
    columns = ["problem", r"\(C_f\)", "exact", "Armijo", r"\(2/(k+2)\)"]
    return TextTable(text("bound_title"), columns, rows, text("bound_note"))


def linear_table(runs: pd.DataFrame) -> TextTable:
    rows = []
    for run in strong_runs(runs).itertuples():
        constants = [f"{run.smoothness:.3g}", f"{run.strong_convexity:.3g}"]
        measured = [f"{run.contraction:.4f}", f"{run.largest:.4f}"]
        rows.append([run.problem, str(run.seed), run.step, *constants, *measured])
    columns = [
        "problem",
        "seed",
        "step",
        r"\(L\)",
        r"\(\mu\)",
        r"\(L/(L + \mu)\)",
        r"largest \(h_{k+1}/h_k\)",
    ]
    return TextTable("The linear rate under strong convexity", columns, rows)


def words_of(runs: pd.DataFrame) -> dict[str, Any]:
    corner, strong = corner_runs(runs), strong_runs(runs)
    return {
        "under": CaseCount.of(runs["share"][runs["step"] != "short"] <= 1.0),
        "good": CaseCount.of(strong["contracts"]),
        "powers": span(corner["power"]) if len(corner) else "",
        "sizes": {run.problem: run.n for run in runs.itertuples()},
        "seeds": sorted(runs["seed"].unique()),
    }


THEORY = Experiment(
    name="theory",
    template=TEMPLATE,
    tasks=tasks,
    evidence=rates,
    figures=figures_of,
    tables=tables_of,
    claims=CLAIMS,
    words=words_of,
)
