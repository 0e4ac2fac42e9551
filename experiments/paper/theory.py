"""The rates of the paper's section 2 on problems with known constants: measured F(x_k) - F* under the bounds.

C_f is the curvature of f alone, the least C with f((1 - a) x + a y) <= f(x) + a <grad f(x), y - x> + C a^2 / 2 for all
x, y in P and a in [0, 1]. The paper states its theorem with that of F; its proof goes through with that of f, and the
entropy has no finite one. Where g is mu-strongly convex and f L-smooth, h_k = F(x_k) - F* shrinks by L/(L + mu) a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import eye_array
from scipy.spatial.distance import pdist

import condgrad as cg
from experiments.clock import one_thread
from experiments.paper.chapter import Chapter, Figure, Line, Panel, Table
from experiments.paper.claims import Cases, Claim, certificate_claim
from experiments.paper.curves import Curve, Scale, Task, best_known
from experiments.paper.wording import prose, span
from experiments.problems import TransportProblem
from experiments.transport_rivals import COLUMNS

ROWS, RADIUS, RIDGE = 40, 3.0, 0.05
SPARSE = 6
"""Entries that matter: more than the radius has room for, so that the constraint binds."""
LAPLACIAN_WEIGHT = 1e2
"""A tenth of the paper's, so that a small problem ends within the run."""
TOLERANCE, NEWTON_TOLERANCE = 1e-14, 1e-13
SUBLINEAR = 4.0
"""A measured power below this is no geometric decay, which would be steeper than any power."""
STEPS, LINEAR_STEPS = ("exact", "armijo", "open-loop"), ("exact", "short")
text = partial(prose, "theory.jinja")


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
    return TheoryProblem(f, g, worst, curvature, second_derivative * float(np.linalg.norm(A, 2)) ** 2, 2.0 * RIDGE)


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
    return TheoryProblem(f, cg.simple.Zero(on=cg.sets.Simplex(size)), start, curvature=2.0, optimum=0.5 / size)


class ProblemKind(NamedTuple):
    """A problem by name: how to make it, its size, whether seeds matter, and the steps of CGS (or Newton, for F*)."""

    title: str
    make: Callable[[int, int], TheoryProblem]
    size: int
    random: bool
    steps: tuple[str, ...]


EVERY = ("newton", *STEPS, "short")
KINDS: Mapping[str, ProblemKind] = {
    "least squares": ProblemKind("least squares + ridge, l1 ball", least_squares, 60, True, EVERY),
    "logistic": ProblemKind("logistic + ridge, l1 ball", logistic, 60, True, EVERY),
    "transport": ProblemKind("transport, entropy + Laplacian", transport, 20, False, ("newton", *STEPS)),
    "corner": ProblemKind("|x|^2/2 on the simplex, g = 0", corner, 5000, False, STEPS),
}


# The runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoryRun:
    """CGS with a step rule from a bad start, or Newton, whose answer is the reference."""

    problem: str
    size: int
    seed: int
    step: str
    iterations: int
    cap: float

    @property
    def solver(self) -> str:
        return "newton" if self.step == "newton" else f"cgs-{self.step}"

    def work(self) -> Curve:
        problem = KINDS[self.problem].make(self.size, self.seed)
        options: dict[str, Any] = {"method": "newton", "tol": NEWTON_TOLERANCE}
        if self.step != "newton":
            options = {"method": "cgs", "step": self.step, "tol": TOLERANCE}
        with one_thread():
            limits: dict[str, Any] = {"max_iter": self.iterations, "time_limit": self.cap}
            result = cg.minimize(problem.f, problem.g, problem.x0, **options, **limits)
        constants = ("curvature", "contraction", "smoothness", "strong_convexity", "optimum")
        facts = {"n": self.size, "step": self.step, **{name: getattr(problem, name) for name in constants}}
        columns = {name: result.trace[name].tolist() for name in COLUMNS}
        return Curve(self.problem, self.solver, self.seed, columns, result.status.name, facts=facts)

    def task(self) -> Task:
        name = f"theory-{self.problem.replace(' ', '-')}-{self.step}-{self.seed}"
        label = f"theory, {self.problem}, seed {self.seed}: {self.step}"
        settings = {**asdict(self), "solver": self.solver}
        return Task(name, label, settings, 0.1 if KINDS[self.problem].random else self.cap, self.work)


@dataclass(frozen=True)
class TheoryExperiment:
    """A task for each problem, draw and step rule."""

    sizes: Mapping[str, int]
    iterations: int = 500
    cap: float = 2.0
    name = "theory"

    def tasks(self, scale: Scale) -> list[Task]:
        iterations, cap = (200, 0.5) if scale.quick else (self.iterations, self.cap)
        return [
            TheoryRun(name, size, seed, step, iterations, cap).task()
            for name, size in self.sizes.items()
            for seed in range(scale.seeds if KINDS[name].random else 1)
            for step in KINDS[name].steps
        ]

    def chapter(self, curves: Sequence[Curve], *, quick: bool = False) -> Chapter:
        runs = rates(curves)
        missing = "Run all of the theory's tasks."
        return Chapter(
            name="theory",
            title="Theory: rates of convergence",
            summary=summary_of(runs),
            figures=[theory_figure(runs)] if len(runs) else [],
            tables=[bound_table(runs), linear_table(runs)] if len(runs) else [],
            claims=[claim.judged(runs, quick=quick, missing=missing) for claim in CLAIMS],
            settings=settings_of(runs),
        )


THEORY = TheoryExperiment({name: kind.size for name, kind in KINDS.items()})


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
    columns = ["problem", "seed", "step", "share", "power", "contraction", "largest", "contracts", "above"]
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
        "power": -np.polyfit(np.log(k[tail]), np.log(h[tail]), 1)[0] if tail.sum() > 1 else math.nan,
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
    return runs[runs["step"].isin(LINEAR_STEPS) & (runs["contraction"] < 1.0) & (runs["largest"] > -math.inf)]


def names_of(runs: pd.DataFrame) -> list[str]:
    return sorted({f"{run.problem} ({run.step})" for run in runs.itertuples()})


# The claims -----------------------------------------------------------------------------------------------------------


def share_numbers(*steps: str) -> Callable[[pd.DataFrame], dict[str, Any] | None]:
    """How the runs with these steps stand to 2 C_f/(k + 2)."""

    def numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
        tested = runs[runs["step"].isin(steps)]
        worst = tested.groupby("problem", sort=False)["share"].max()
        shares = [f"{share:.2g} for {name}" for name, share in worst.items()]
        under = int((tested["share"] <= 1.0).sum())
        above = names_of(tested[tested["share"] > 1.0])
        return {"under": under, "runs": len(tested), "shares": shares, "above": above} if len(tested) else None

    return numbers


def linear_numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
    """'Linear' needs h_{k+1} <= q h_k with q < 1: asked of the corner, where nothing is strongly convex but F."""
    corner, strong = corner_runs(runs), strong_runs(runs)
    if corner.empty or strong.empty:
        return None
    last_step, steep = 1.0 - corner["last"].min(), int((corner["power"] >= SUBLINEAR).sum())
    numbers = {"powers": span(corner["power"]), "last_step": last_step, "steep": steep, "corners": len(corner)}
    return {**numbers, "geometric": int(strong["contracts"].sum()), "strong": len(strong)}


def strong_numbers(runs: pd.DataFrame) -> dict[str, Any] | None:
    strong = strong_runs(runs)
    worst = strong.groupby(["problem", "step"], sort=False)[["largest", "contraction"]].max()
    parts = [f"{name}, {step}: {pair.iloc[0]:.3f} under {pair.iloc[1]:.3f}" for (name, step), pair in worst.iterrows()]
    good, slower = int(strong["contracts"].sum()), names_of(strong[~strong["contracts"]])
    return {"good": good, "runs": len(strong), "parts": parts, "slower": slower} if len(strong) else None


UNDER = "{{ under }} of {{ runs }} runs stay below. The largest share of the bound: {{ shares | join(', ') }}."
ABOVE = "{% if above %}Above the bound: {{ above | join(', ') }}. {% endif %}"
CLAIMS = (
    Claim(
        "F(x_k) - F* <= 2 C/(k + 2) for each k >= 1 (theorem of 2.3).",
        share_numbers("exact", "armijo"),
        lambda numbers: Cases(numbers["under"], numbers["runs"]),
        UNDER,
        ABOVE + "The paper's C is the curvature of F, infinite for the entropy; the proof needs that of f alone, which "
        "is what is drawn. For Armijo's rule the constant depends on its parameters.",
    ),
    Claim(
        "The bound also holds for the step 2/(k + 2) (2.3).",
        share_numbers("open-loop"),
        lambda numbers: Cases(numbers["under"], numbers["runs"]),
        UNDER,
        ABOVE + "The induction takes just this step; exact steps do at least as well.",
    ),
    Claim(
        "The algorithm has a linear convergence rate (abstract and 2.3).",
        linear_numbers,
        lambda n: Cases(n["steep"] + n["geometric"], n["corners"] + n["strong"]),
        "|x|^2/2 on the simplex with g = 0: the error falls like 1/k^p with p = {{ powers }}, and at the end a step "
        "takes off {{ '%.1f' | format(100 * last_step) }}% of it at most. With a strongly convex g: {{ geometric }} of "
        "{{ strong }} runs shrink geometrically, by L/(L + mu) or better at every step.",
        "What the theorem proves, 2 C/(k + 2), is O(1/k), which is called sublinear. A linear rate needs a strongly "
        "convex g (not F: in the corner F is strongly convex and it does not help).",
        draws=False,
    ),
    Claim(
        "Beyond the paper: with a mu-strongly convex g and an L-smooth f, h_(k+1) <= L/(L + mu) h_k.",
        strong_numbers,
        lambda numbers: Cases(numbers["good"], numbers["runs"]),
        "{{ good }} of {{ runs }} runs do. The largest h_(k+1)/h_k: {{ parts | join('; ') }}.",
        "{% if slower %}Slower than that: {{ slower | join(', ') }}. {% endif %}The step mu/(L + mu) already contracts "
        "so; exact and short steps are at least as good along the same line.",
    ),
    certificate_claim(
        "At every iterate the gap is at least F(x_k) - F* (Lemma 2).",
        lambda runs: [excess for above in runs["above"] for excess in above],
        "The bound gives away what rounding may have added, so it holds in floating-point arithmetic too.",
    ),
)


# What is shown --------------------------------------------------------------------------------------------------------


def theory_figure(runs: pd.DataFrame) -> Figure:
    """O(1/k) on doubly logarithmic axes, the linear rate on a semilogarithmic one; the first draw of each problem."""
    first = runs[runs["seed"] == runs.groupby("problem")["seed"].transform("min")]
    panels = [_power_panel(name, first[(first["problem"] == name) & (first["step"] != "short")]) for name in KINDS]
    linear = [_linear_panel(name, first[first["problem"] == name]) for name in ("least squares", "logistic")]
    caption, alt = text("caption"), text("alt", summary=summary_of(runs))
    return Figure("theory", "F(x_k) - F* under its bounds", caption, alt, [panels[:2], panels[2:], linear])


def _power_panel(name: str, runs: pd.DataFrame) -> Panel:
    lines = [Line(run.solver, run.k[run.known] + 1.0, run.h[run.known]) for run in runs.itertuples()]
    longest = max(runs.itertuples(), key=lambda run: len(run.k), default=None)
    if longest is not None:
        k = longest.k + 1.0
        lines.append(Line("bound", k, longest.bound))
        if name == "corner":
            lines.append(Line("least", k, 0.5 / k - 0.5 / longest.n, label="the least that k + 1 entries allow"))
    return Panel(KINDS[name].title, "iteration k + 1", "F(x_k) - F*", lines, log_x=True)


def _linear_panel(name: str, runs: pd.DataFrame) -> Panel:
    shown = list(runs[runs["step"].isin(LINEAR_STEPS)].itertuples())
    lines = [Line(run.solver, run.k[run.known], run.h[run.known]) for run in shown]
    longest = max(shown, key=lambda run: run.known.sum(), default=None)
    if longest is not None:
        bound = longest.h[0] * longest.contraction**longest.k
        above = bound > longest.h[longest.known].min(initial=math.inf)
        lines.append(Line("linear-bound", longest.k[above], bound[above]))
    return Panel(f"{name}: the linear rate", "iteration k", "F(x_k) - F*", lines)


def bound_table(runs: pd.DataFrame) -> Table:
    rows = []
    for name, same in runs.groupby("problem", sort=False):
        largest = same.groupby("step")["share"].max()
        ends = dict.fromkeys(f"{end:.3g}" for end in (same["curvature"].min(), same["curvature"].max()))
        shares = [f"{largest[step]:.2g}" if step in largest else "-" for step in STEPS]
        rows.append([name, " to ".join(ends), *shares])
    title = "The largest share of 2 C_f/(k + 2) that was reached"
    return Table(title, ["problem", "C_f", "exact", "Armijo", "2/(k+2)"], rows, text("bound_note"))


def linear_table(runs: pd.DataFrame) -> Table:
    rows = []
    for run in strong_runs(runs).itertuples():
        constants = [f"{run.smoothness:.3g}", f"{run.strong_convexity:.3g}"]
        measured = [f"{run.contraction:.4f}", f"{run.largest:.4f}"]
        rows.append([run.problem, str(run.seed), run.step, *constants, *measured])
    columns = ["problem", "seed", "step", "L", "mu", "L/(L + mu)", "largest h_(k+1)/h_k"]
    return Table("The linear rate under strong convexity", columns, rows)


def summary_of(runs: pd.DataFrame) -> str:
    tested, corner, strong = runs[runs["step"] != "short"], corner_runs(runs), strong_runs(runs)
    below = {"under": int((tested["share"] <= 1.0).sum()), "tested": len(tested)}
    contracting = {"good": int(strong["contracts"].sum()), "strong": len(strong)}
    return text("summary", **below, **contracting, powers=span(corner["power"]) if len(corner) else "")


def settings_of(runs: pd.DataFrame) -> dict[str, str]:
    sizes = {run.problem: run.n for run in runs.itertuples()}
    return {
        "sizes": ", ".join(f"{name} {size}" for name, size in sizes.items()),
        "corner": "|x|^2/2 on the simplex from a vertex, g = 0: every step adds one entry",
        "seeds": ", ".join(map(str, sorted(runs["seed"].unique()))),
        "F*": "the best value of all runs of a problem, Newton's among them, with the best bound beside it",
    }
