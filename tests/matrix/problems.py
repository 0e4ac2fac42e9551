"""The problems of the matrix: each is a sum of parts on a set, in any unit and precision, and once more for the judge.

A part knows three things: what the library makes of it, what it is as a formula, and what it is for CVXPY. In a `Unit`
the library gets F times `of_f` as a function of x times `of_x`, from targets times `of_y`; the judge stays in unit 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy.special import logsumexp

import condgrad as cg
from tests.matrix import judge
from tests.matrix.judge import Array, ValueGradient, Verdict

STEPS = ("exact", "memory", "armijo", "open-loop", "short", "adaptive")
LINEARISING = tuple(f"{method} {step}" for method in ("cgs", "cg") for step in STEPS)
METHODS = (*LINEARISING, "away", "pairwise", "spg", "pqn", "newton", "auto")
"""Those of `minimize`, with every step rule where there is a choice."""


def options_of(method: str) -> dict[str, Any]:
    """What `minimize` is asked for."""
    name, _, step = method.partition(" ")
    if step == "memory":
        return {"method": name, "memory": 3}
    return {"method": name, "step": step} if step else {"method": name}


class Unit(NamedTuple):
    """F in another unit, x in another unit, and the targets of least squares in another unit."""

    of_f: float = 1.0
    of_x: float = 1.0
    of_y: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Whether nothing is rounded: all are powers of two."""
        return all(float(np.frexp(c)[0]) == 0.5 for c in self)


class Precision(NamedTuple):
    """The arrays of a run."""

    library: str
    single: bool

    def array(self, values: Any) -> Any:
        values = np.array(values, dtype=np.float32 if self.single else np.float64)
        if self.library == "numpy":
            return values
        import torch

        return torch.tensor(values)

    def rounded(self, values: Any) -> Array:
        """What the judge sees: rounding the data is no part of the library's error."""
        return np.asarray(values, np.float32).astype(float) if self.single else np.asarray(values)


PRECISIONS = {
    f"{prefix}{kind}": Precision("torch" if prefix else "numpy", kind == "float32")
    for prefix in ("", "torch.")
    for kind in ("float64", "float32")
}


# Sets -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class On:
    """A set P: how the library, the judge and CVXPY say it."""

    make: Callable[[Unit, Precision], Any]
    violation: Callable[[Array], float]
    drawn: Callable[[cp.Variable], list[Any]]
    diameter: float = np.inf
    project: Callable[[Array], Array] | None = None
    faces: bool = False
    """Whether Newton's method for losses knows it."""
    mass: float = 0.0
    """Of a simplex."""
    marginals: tuple[Array, Array] | None = None
    """Of plans."""


def l1ball(radius: float) -> On:
    return On(
        lambda unit, _: cg.sets.L1Ball(radius * unit.of_x),
        lambda x: float(np.abs(x).sum()) - radius,
        lambda x: [cp.norm1(x) <= radius],
        2.0 * radius,
        lambda v: judge.project_l1(v, radius),
        faces=True,
    )


def l2ball(radius: float) -> On:
    return On(
        lambda unit, _: cg.sets.L2Ball(radius * unit.of_x),
        lambda x: float(np.linalg.norm(x)) - radius,
        lambda x: [cp.norm2(x) <= radius],
        2.0 * radius,
        lambda v: judge.project_l2(v, radius),
    )


def simplex(n: int, mass: float = 1.0) -> On:
    return On(
        lambda unit, _: cg.sets.Simplex(n, mass * unit.of_x),
        lambda x: max(-float(x.min()), abs(float(x.sum()) - mass)),
        lambda x: [x >= 0, cp.sum(x) == mass],
        2.0 * mass,
        lambda v: judge.project_simplex(v, mass),
        faces=True,
        mass=mass,
    )


def solid_simplex(radius: float) -> On:
    return On(
        lambda unit, _: cg.sets.SolidSimplex(radius * unit.of_x),
        lambda x: max(-float(x.min()), float(x.sum()) - radius),
        lambda x: [x >= 0, cp.sum(x) <= radius],
        2.0 * radius,
        lambda v: judge.project_solid_simplex(v, radius),
        faces=True,
    )


def box(lower: float, upper: float, n: int, *, arrays: bool = False) -> On:
    def make(unit: Unit, precision: Precision) -> Any:
        ends = lower * unit.of_x, upper * unit.of_x
        return cg.sets.Box(*(precision.array(np.full(n, end)) if arrays else end for end in ends))

    return On(
        make,
        lambda x: max(lower - float(x.min()), float(x.max()) - upper),
        lambda x: [x >= lower, x <= upper],
        (upper - lower) * np.sqrt(n),
        lambda v: np.clip(v, lower, upper),
        faces=True,
    )


def nuclear_ball(radius: float) -> On:
    return On(
        lambda unit, _: cg.sets.NuclearBall(radius * unit.of_x),
        lambda X: float(np.linalg.svd(X, compute_uv=False).sum()) - radius,
        lambda X: [cp.normNuc(X) <= radius],
        2.0 * radius,
        lambda V: judge.on_singular_values(lambda sigma: judge.project_l1(sigma, radius), V),
    )


def weights(rng: np.random.Generator, n: int) -> Array:
    """Positive weights of mass 1, which float32 holds without rounding."""
    return (1.0 + rng.multinomial(64 - n, np.full(n, 1.0 / n))) / 64.0


def plans(a: Array, b: Array) -> On:
    def outside(X: Array) -> float:
        rows, columns = np.abs(X.sum(axis=1) - a).max(), np.abs(X.sum(axis=0) - b).max()
        return max(-float(X.min()), float(rows), float(columns))

    return On(
        lambda _, precision: cg.sets.Transport(precision.array(a), precision.array(b)),
        outside,
        lambda X: [X >= 0, cp.sum(X, axis=1) == a, cp.sum(X, axis=0) == b],
        marginals=(a, b),
    )


# Parts ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of F."""

    make: Callable[[Unit, Precision], Any]
    both: Callable[[Precision], ValueGradient]
    drawn: Callable[[cp.Variable, Precision], cp.Expression]
    wide: bool = False
    """Whether float32 data are multiplied by in float64."""


class Loss(NamedTuple):
    """A loss of the library, of the judge and of CVXPY."""

    kind: Any
    both: Callable[[Array, Array], ValueGradient]
    drawn: Callable[[Any, Array], cp.Expression]


LOSSES = {
    "squares": Loss(
        cg.smooth.LeastSquares, judge.squares, lambda z, y: 0.5 * cp.sum_squares(z - y)
    ),
    "logistic": Loss(
        cg.smooth.Logistic,
        judge.logistic,
        lambda z, y: cp.sum(cp.logistic(-cp.multiply(y, z))),
    ),
    "squared hinge": Loss(
        cg.smooth.SquaredHinge,
        judge.squared_hinge,
        lambda z, y: cp.sum_squares(cp.pos(1.0 - cp.multiply(y, z))),
    ),
}


def times(c: float, f: Any) -> Any:
    """c f, and f itself for 1."""
    return f if c == 1.0 else c * f


def loss(
    name: str, A: Array, y: Array, *, intercept: bool = False, by_weights: bool = False
) -> Part:
    """A loss of Ax; its unit is a factor or, `by_weights`, that of the sample weights."""
    kind, formula, draw = LOSSES[name]

    def make(unit: Unit, precision: Precision) -> Any:
        K, target = precision.array(A * (unit.of_y / unit.of_x)), precision.array(y * unit.of_y)
        c = unit.of_f / unit.of_y**2
        if by_weights:
            weights = np.full(len(y), c)
            return kind(K, target, sample_weight=weights, intercept=intercept)
        return times(c, kind(K, target, intercept=intercept))

    def both(precision: Precision) -> ValueGradient:
        K, target = precision.rounded(A), precision.rounded(y)
        return judge.with_intercept(formula, K, target) if intercept else formula(K, target)

    def drawn(x: cp.Variable, precision: Precision) -> cp.Expression:
        z = precision.rounded(A) @ x
        return draw(z + cp.Variable() if intercept else z, precision.rounded(y))

    return Part(make, both, drawn, wide=True)


def cost(c: Array, *, by_entries: bool = False) -> Part:
    """<c, x>; its unit is a factor or, `by_entries`, that of the costs."""

    def make(unit: Unit, precision: Precision) -> Any:
        factor = unit.of_f / unit.of_x
        if by_entries:
            return cg.smooth.Linear(precision.array(c * factor))
        return times(factor, cg.smooth.Linear(precision.array(c)))

    return Part(
        make,
        lambda precision: judge.linear(precision.rounded(c)),
        lambda x, precision: cp.sum(cp.multiply(precision.rounded(c), x)),
    )


def own_fit(W: Array, M: Array) -> Part:
    """A user's f with a smoothness constant: 1/2 sum W (X - M)^2."""

    def make(unit: Unit, precision: Precision) -> Any:
        bend = unit.of_f / unit.of_x**2
        weights, target = precision.array(bend * W), precision.array(M * unit.of_x)
        if precision.library == "torch":  # which differentiates
            return cg.smooth.Function(
                lambda X: 0.5 * (weights * (X - target) ** 2).sum(),
                smoothness=bend * float(W.max()),
            )
        both = judge.matrix_fit(weights, target)
        return cg.smooth.Function(both, smoothness=bend * float(W.max()))

    return Part(
        make,
        lambda precision: judge.matrix_fit(precision.rounded(W), precision.rounded(M)),
        lambda X, precision: (
            0.5 * cp.sum(cp.multiply(precision.rounded(W), cp.square(X - precision.rounded(M))))
        ),
    )


def own_squares(A: Array, y: Array) -> Part:
    """A user's f with nothing but a value and a gradient: 1/2 |Ax - y|^2."""

    def make(unit: Unit, precision: Precision) -> Any:
        K, target = precision.array(A / unit.of_x), precision.array(y)
        if precision.library == "torch":  # which differentiates
            return cg.smooth.Function(lambda x: 0.5 * unit.of_f * ((K @ x - target) ** 2).sum())

        def both(x: Any) -> tuple[float, Any]:
            r = K @ x - target
            return 0.5 * unit.of_f * float(r @ r), unit.of_f * (K.T @ r)

        return cg.smooth.Function(both)

    usual = loss("squares", A, y)
    return Part(make, usual.both, usual.drawn)


def moves(Xs: Array, Xt: Array, Ls: Array, Lt: Array, weight: float) -> Part:
    """The Laplacian regulariser of plans."""

    def make(unit: Unit, precision: Precision) -> Any:
        points = precision.array(Xs), precision.array(Xt)
        regulariser = cg.transport.Laplacian(*points, weight, Ls=Ls, Lt=Lt)
        return times(unit.of_f, regulariser.smooth_part())

    def both(precision: Precision) -> ValueGradient:
        return judge.laplacian(precision.rounded(Xs), precision.rounded(Xt), Ls, Lt, weight)

    def drawn(G: cp.Variable, precision: Precision) -> cp.Expression:
        roots = (np.linalg.cholesky(L + 1e-12 * np.eye(len(L))) for L in (Ls, Lt))
        root_s, root_t = roots
        here, there = precision.rounded(Xs), precision.rounded(Xt)
        return weight * (cp.sum_squares(root_s.T @ G @ there) + cp.sum_squares(here.T @ G @ root_t))

    return Part(make, both, drawn)


def classes(labels: Array, weight: float) -> Part:
    """The class regulariser of plans."""
    rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return Part(
        lambda unit, _: times(unit.of_f, cg.smooth.GroupLasso(labels, weight=weight)),
        lambda _: judge.class_norms(rows, weight),
        lambda G, _: weight * sum(cp.sum(cp.norm(G[each], 2, axis=0)) for each in rows),
    )


# Simple parts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Simple:
    """g on its set."""

    make: Callable[[Unit, Precision], Any]
    on: On
    drawn: Callable[[cp.Variable], Any] = lambda _: 0.0
    both: ValueGradient | None = None
    """Where g is smooth."""
    entropy: float = 0.0
    prox: Callable[[Array, float], Array] | None = None
    """Where it is not: the proximal map, and the value."""
    value: Callable[[Array], float] = judge.nothing
    strongly_convex: bool = False
    """So that the theory promises a linear rate."""
    smooth: bool = True
    """Whether it has a smoothness constant."""
    gradient: bool = True
    """Whether g has a finite one, which the conditional gradient and SPG need."""
    units_of_x: bool = True
    zero: bool = False
    own: bool = False
    """Whether it is a user's."""


def with_ridge(weight: float, on: On) -> Simple:
    return Simple(
        lambda unit, precision: cg.simple.Ridge(
            weight * unit.of_f / unit.of_x**2, on=on.make(unit, precision)
        ),
        on,
        lambda x: weight * cp.sum_squares(x),
        judge.ridge(weight),
        strongly_convex=True,
    )


def with_entropy(weight: float, on: On, *, smooth: bool = False) -> Simple:
    """Its slopes are bounded where the set keeps away from 0."""
    return Simple(
        lambda unit, precision: cg.simple.Entropy(weight * unit.of_f, on=on.make(unit, precision)),
        on,
        lambda x: -weight * cp.sum(cp.entr(x)),
        judge.entropy(weight),
        entropy=weight,
        strongly_convex=True,
        smooth=smooth,
        units_of_x=False,
    )


def with_nothing(on: On) -> Simple:
    return Simple(
        lambda unit, precision: cg.simple.Zero(on=on.make(unit, precision)), on, zero=True
    )


def with_l1norm(weight: float, on: On) -> Simple:
    """On an l1 or l2 ball, whose projection keeps signs and zeros."""
    assert on.project is not None
    project = on.project
    return Simple(
        lambda unit, precision: cg.simple.L1Norm(
            weight * unit.of_f / unit.of_x, on=on.make(unit, precision)
        ),
        on,
        lambda x: weight * cp.norm1(x),
        prox=lambda v, t: project(judge.soft(v, weight * t)),
        value=lambda v: weight * float(np.abs(v).sum()),
        gradient=False,
    )


def with_nuclear_norm(weight: float, radius: float) -> Simple:
    on = nuclear_ball(radius)
    return Simple(
        lambda unit, precision: cg.simple.NuclearNorm(
            weight * unit.of_f / unit.of_x, on=on.make(unit, precision)
        ),
        on,
        lambda X: weight * cp.normNuc(X),
        prox=lambda V, t: judge.on_singular_values(
            lambda sigma: judge.project_l1(judge.soft(sigma, weight * t), radius), V
        ),
        value=lambda V: weight * float(np.linalg.svd(V, compute_uv=False).sum()),
        gradient=False,
    )


def own_ridge(weights: Array, lower: float, upper: float) -> Simple:
    """A user's g with everything: weighted squares on a box."""
    on = box(lower, upper, len(weights))

    def make(unit: Unit, precision: Precision) -> Any:
        w = precision.array(weights * (unit.of_f / unit.of_x**2))
        low, high = lower * unit.of_x, upper * unit.of_x
        return cg.simple.Oracle(
            lambda x: float((w * x * x).sum()),
            lambda c: (-0.5 * c / w).clip(low, high),
            on=on.make(unit, precision),
            gradient=lambda x: 2.0 * w * x,
        )

    return Simple(
        make,
        on,
        lambda x: cp.sum(cp.multiply(weights, cp.square(x))),
        judge.ridge(weights),
        strongly_convex=True,
        smooth=False,
        own=True,
    )


def bare_ridge(radius: float) -> Simple:
    """A user's g with two callables and nothing else: half of the squares on an l2 ball."""

    def make(unit: Unit, _: Precision) -> Any:
        weight = 0.5 * unit.of_f / unit.of_x**2

        def argmin(c: Any) -> Any:
            x = -0.5 * c / weight
            return x * min(1.0, radius * unit.of_x / max(float((x * x).sum()) ** 0.5, 1e-300))

        return cg.simple.Oracle(lambda x: weight * float((x * x).sum()), argmin)

    usual = with_ridge(0.5, l2ball(radius))
    return Simple(
        make,
        usual.on,
        usual.drawn,
        usual.both,
        strongly_convex=True,
        smooth=False,
        gradient=False,
        own=True,
    )


# Problems -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """F, what it can do, and its judge."""

    f: tuple[Part, ...]
    g: Simple
    shape: tuple[int, ...] = (6,)
    start: float | None = None
    """The entries of x0, where a run needs to be told its precision or its shape."""
    smoothness: bool = True
    """Whether f has a constant of it."""
    newton: bool = False
    targets: bool = False
    """Whether f is least squares, with targets in a unit of their own."""
    closed: Callable[[], Verdict] | None = None
    """The answer, where it is known without a solver; rounding the data changes it."""
    iterations: int = 120
    """For methods without the promise of a linear rate."""
    width: float = 1e-11
    """How wide the bracket of the judge may be."""

    def made(self, unit: Unit, precision: Precision) -> tuple[Any, Any, Any]:
        """f, g and x0 of the library."""
        parts = [part.make(unit, precision) for part in self.f]
        f = parts[0]
        for part in parts[1:]:
            f = f + part
        x0 = None if self.start is None else precision.array(np.full(self.shape, self.start))
        return f, self.g.make(unit, precision), x0

    def runs(self, method: str) -> bool:
        """Whether the method can work at all."""
        name, _, step = method.partition(" ")
        if name == "newton":
            return self.newton
        if name in ("away", "pairwise"):
            return self.g.zero
        if name in ("spg", "pqn"):
            finite = self.g.smooth or not self.g.entropy
            return self.g.gradient and finite and self.g.on.project is not None
        if name == "cg" and not self.g.gradient:
            return False
        # a linearised g needs a smoothness constant as well
        return step != "short" or (self.smoothness and (name != "cg" or self.g.smooth))

    @property
    def wide(self) -> bool:
        """Whether F of a float32 point is computed in float64."""
        return all(part.wide for part in self.f) and not self.g.own

    def has_unit(self, unit: str) -> bool:
        """Whether x or the targets may be in another unit: mass has one unit, and an entropy knows it."""
        if unit == "targets":
            return self.targets and self.g.both is not None and not self.g.entropy
        return not unit.startswith("x") or (self.g.units_of_x and self.g.on.marginals is None)

    def promises(self, method: str) -> bool:
        """Whether CGS has a linear rate."""
        return (
            self.g.strongly_convex and method.startswith("cgs") and not method.endswith("open-loop")
        )

    def judged(self, precision: Precision) -> Verdict:
        if self.closed is not None and not precision.single:
            return self.closed()
        g, x = self.g, cp.Variable(self.shape)
        objective = sum(part.drawn(x, precision) for part in self.f) + g.drawn(x)
        start = judge.by_clarabel(objective, g.on.drawn(x), x)
        smooth = judge.total(*(part.both(precision) for part in self.f))
        if g.on.marginals is not None:
            return judge.bracketed_plan(smooth, g.entropy, start, *g.on.marginals)
        if g.entropy and g.on.mass:
            return judge.mirrored(smooth, g.entropy, g.on.mass, start)
        project = g.on.project
        assert project is not None
        return judge.polished(
            smooth if g.both is None else judge.total(smooth, g.both),
            g.prox or (lambda v, _: project(v)),
            start,
            diameter=g.on.diameter,
            rest=g.value,
            most=5_000,
        )


def data(seed: int, m: int = 20, n: int = 6) -> tuple[Array, Array]:
    """A well-conditioned matrix and a target."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)) / np.sqrt(m), rng.standard_normal(m)


def labelled(seed: int) -> tuple[Array, Array]:
    """A matrix and labels."""
    Z, y = data(seed)
    return 2.0 * Z, np.where(y > 0, 1.0, -1.0)


def matrix_data(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2.0, (5, 4)), rng.standard_normal((5, 4))


def fit(loss_name: str, seed: int, g: Simple, **options: Any) -> Problem:
    """One loss on small data, which Newton's method solves on sets with faces."""
    of = data if loss_name == "squares" else labelled
    newton = g.on.faces and not g.entropy and g.gradient and g.smooth
    part = loss(loss_name, *of(seed))
    return Problem((part,), g, newton=newton, targets=loss_name == "squares", **options)


def wide_data(loss_name: str) -> tuple[Array, Array]:
    """More coordinates than samples, of which four decide."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 40))
    labels = np.where(Z[:, :4].sum(axis=1) + rng.standard_normal(30) > 0.0, 1.0, -1.0)
    target = Z[:, :4].sum(axis=1) + 0.3 * rng.standard_normal(30)
    return Z, target if loss_name == "squares" else labels


def wide(loss_name: str, g: Simple, **options: Any) -> Problem:
    """One loss on such data."""
    newton = g.on.faces and not g.entropy and g.gradient
    part = loss(loss_name, *wide_data(loss_name), **options)
    return Problem((part,), g, (40,), newton=newton, targets=loss_name == "squares")


def nearest(X: Array, neighbors: int) -> Array:
    """The normalised Laplacian of the symmetric graph of nearest neighbours."""
    apart = ((X[:, None] - X[None]) ** 2).sum(axis=2) + np.diag(np.full(len(X), np.inf))
    W = np.zeros((len(X), len(X)))
    np.put_along_axis(W, np.argsort(apart, axis=1)[:, :neighbors], 1.0, axis=1)
    W = np.maximum(W, W.T)
    root = 1.0 / np.sqrt(W.sum(axis=1))
    return np.eye(len(X)) - root[:, None] * W * root


def a_plan(regulariser: str, entropy: float) -> Problem:
    """Plans of 9 x 7 with a cost and a regulariser."""
    rng = np.random.default_rng(1)
    C = rng.random((9, 7))
    Xs, Xt = rng.standard_normal((9, 2)), rng.standard_normal((7, 2))
    on = plans(weights(rng, 9), weights(rng, 7))
    beside = {
        "laplacian": lambda: (moves(Xs, Xt, nearest(Xs, 3), nearest(Xt, 3), 3.0),),
        "groups": lambda: (classes(rng.integers(0, 2, 9), 0.1),),
        "alone": lambda: (),
    }[regulariser]()
    g = with_entropy(entropy, on) if entropy else with_nothing(on)
    f = (cost(C, by_entries=regulariser == "groups"), *beside)
    return Problem(
        f,
        g,
        (9, 7),
        smoothness=regulariser != "groups",
        newton=bool(entropy),
        iterations=120 if entropy else 400,
        width=1e-9 if entropy else 1e-8,
    )


def zero_transport() -> Problem:
    """1/2 |X - M|^2 with M = plan + u 1' + 1 v': the plan is positive, so it is the projection of M."""
    rng = np.random.default_rng(13)
    plan = weights(rng, 12).reshape(4, 3)
    shift = 0.1 * (rng.standard_normal(4)[:, None] + rng.standard_normal(3)[None, :])
    least = 0.5 * float(np.sum(shift**2))
    return Problem(
        (own_fit(np.ones((4, 3)), plan + shift),),
        with_nothing(plans(plan.sum(axis=1), plan.sum(axis=0))),
        (4, 3),
        closed=lambda: Verdict(plan, least, least),
        iterations=40,
        width=1e-8,
    )


def linear_entropy_simplex() -> Problem:
    """Closed form: the minimum is -weight log sum exp(-c / weight)."""
    c = np.random.default_rng(19).standard_normal(6)
    least = -0.5 * float(logsumexp(-2.0 * c))
    point = np.exp(-2.0 * c + 2.0 * least)
    return Problem(
        (cost(c),), with_entropy(0.5, simplex(6)), closed=lambda: Verdict(point, least, least)
    )


def tall_ridge_l1ball() -> Problem:
    """Large residuals that cancel in the gradient: float32 loses most of it here."""
    part = loss("squares", *data(45, m=2000))
    return Problem((part,), with_ridge(0.01, l1ball(20.0)), newton=True, targets=True)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "ridge_l1ball": lambda: fit("squares", 1, with_ridge(0.3, l1ball(0.8))),
    "logistic_ridge_l1ball": lambda: fit("logistic", 2, with_ridge(0.3, l1ball(1.0))),
    "logistic_ridge_l2ball": lambda: fit("logistic", 42, with_ridge(0.5, l2ball(0.5))),
    "hinge_ridge_box": lambda: fit("squared hinge", 3, with_ridge(2.0, box(-0.3, 0.2, 6))),
    "ridge_l2ball": lambda: fit("squares", 4, with_ridge(0.3, l2ball(0.4))),
    "ridge_solid_simplex": lambda: fit("squares", 21, with_ridge(0.3, solid_simplex(0.5))),
    "sum_ridge_simplex": lambda: Problem(
        (loss("logistic", *labelled(6)), *2 * (loss("squares", *data(5)),)),
        with_ridge(1.0, simplex(6)),
    ),
    "function_ridge_nuclear": lambda: Problem(
        (own_fit(*matrix_data(7)),), with_ridge(0.5, nuclear_ball(1.5)), (5, 4), start=0.0
    ),
    "entropy_simplex": lambda: fit("squares", 8, with_entropy(0.4, simplex(6))),
    "entropy_box": lambda: fit(
        "logistic", 9, with_entropy(1.0, box(0.1, 0.5, 6, arrays=True), smooth=True)
    ),
    "function_entropy_simplex": lambda: Problem(
        (own_squares(*data(10)),), with_entropy(0.3, simplex(6)), start=1.0 / 6.0, smoothness=False
    ),
    "zero_simplex": lambda: fit("squares", 11, with_nothing(simplex(6))),
    "zero_l2ball": lambda: fit("squares", 12, with_nothing(l2ball(0.5))),
    "zero_transport": zero_transport,
    "l1norm_l2ball": lambda: fit("squares", 14, with_l1norm(0.1, l2ball(0.5))),
    "nuclearnorm_nuclearball": lambda: Problem(
        (own_fit(*matrix_data(15)),), with_nuclear_norm(0.5, 2.0), (5, 4), start=0.0
    ),
    "oracle_box": lambda: fit("squares", 16, own_ridge(np.linspace(0.5, 1.5, 6), -0.1, 0.2)),
    "oracle_bare": lambda: fit("squares", 17, bare_ridge(0.3), start=0.0),
    "linear_sum_ridge_simplex": lambda: Problem(
        (loss("squares", *data(18)), cost(np.linspace(-1.0, 1.0, 6))),
        with_ridge(0.5, simplex(6)),
        newton=True,
    ),
    "linear_entropy_simplex": linear_entropy_simplex,
    "tall_ridge_l1ball": tall_ridge_l1ball,
    "wide_ridge_l1ball": lambda: wide("squares", with_ridge(0.5, l1ball(2.0))),
    "intercept_ridge_l2ball": lambda: wide(
        "logistic", with_ridge(0.5, l2ball(2.0)), intercept=True
    ),
    "weighted_hinge_zero_box": lambda: wide(
        "squared hinge", with_nothing(box(-0.04, 0.05, 40)), by_weights=True
    ),
    "wide_entropy_simplex": lambda: wide("squares", with_entropy(3.0, simplex(40, 2.0))),
    "wide_l1norm_l1ball": lambda: wide("squares", with_l1norm(0.3, l1ball(2.0))),
    "own_ridge_l1ball": lambda: Problem(
        (own_squares(*data(22, 30, 40)),),
        with_ridge(0.5, l1ball(2.0)),
        (40,),
        start=0.0,
        smoothness=False,
    ),
    "entropic_plan": lambda: a_plan("alone", 0.05),
    "laplacian_plan": lambda: a_plan("laplacian", 0.05),
    "groups_plan": lambda: a_plan("groups", 0.05),
    "laplacian_plan_without_entropy": lambda: a_plan("laplacian", 0.0),
}


SHAPES = {"square": (30, 12), "tall": (300, 10), "wide": (15, 400)}
FACES: dict[str, Callable[[float, int], On]] = {
    "l1": lambda size, _: l1ball(size),
    "simplex": lambda _, n: simplex(n),
    "solid simplex": lambda size, _: solid_simplex(size),
    "box": lambda _, n: box(-0.1, 0.2, n),
}


def for_newton(
    name: str, shape: str, on: str, ridge: float, intercept: bool, size: float = 1.5
) -> Problem:
    """A loss with a ridge, where Newton's method has a square, a tall or a wide system."""
    rng = np.random.default_rng(list(LOSSES).index(name) + 10 * list(SHAPES).index(shape))
    m, n = SHAPES[shape]
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    y[:2] = 1.0, -1.0
    part = loss(name, A, y if name == "squares" else np.sign(y), intercept=intercept)
    where = FACES[on](size, n)
    g = with_ridge(ridge, where) if ridge else with_nothing(where)
    return Problem((part,), g, (n,), newton=True, targets=name == "squares")


FOR_NEWTON = {
    f"{name}, {shape}, {on}, {ridge:g}{', intercept' if intercept else ''}": (
        name, shape, on, ridge, intercept,
    )
    for name, shape, on, ridge, intercept in product(
        LOSSES, SHAPES, FACES, (1e-1, 1e-5), (False, True)
    )
}  # fmt: skip
"""More problems, for Newton's method alone."""


@cache
def problem(name: str) -> Problem:
    return PROBLEMS[name]() if name in PROBLEMS else for_newton(*FOR_NEWTON[name])


@cache
def verdict(name: str, single: bool = False) -> Verdict:
    """The judge's word, asked once for each problem and for its data in float32."""
    return problem(name).judged(Precision("numpy", single))
