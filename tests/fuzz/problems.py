"""Random problems. Each is source code and the numbers it speaks of, so that a problem is its own reproducer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from conftest import is_installed
from tests.fuzz import judges
from tests.fuzz.judges import Array, Total

HAS_TORCH = is_installed("torch")

# What a problem is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Target:
    """min f + g over a set: as formulas for the judge, and as source (`f = ...`, `g = ...`) for a reference run."""

    objective: Any
    region: Any
    shape: tuple[int, ...]
    values: Mapping[str, Any]
    source: Callable[[float], str]
    """With f and g multiplied by a number."""
    kinds: tuple[str, str, str]
    """f, g and the set."""
    solver: str = 'method="auto", max_iter=100'
    """What solves it well, and quickly."""
    start: str = "None"
    """The name of a start point, where the library cannot know one."""
    reference: Callable[[Target], Case] | None = None
    """Another call for the reference run, where `minimize` does not know the problem."""
    rival: Callable[[], Array] | None = None
    """A point of the judge's own, near the optimum or not."""


class Claim(NamedTuple):
    """What an answer says of a target."""

    target: Target
    x: Any
    value: float
    lower_bound: float
    status: str
    """The name of a status, or "" where the front end has none to tell."""
    iterations: int
    relative_gap: float = 0.0
    """What the answer itself holds against its tolerance."""
    start_value: float = 0.0
    """F at the start of the run."""
    value_slack: float = 0.0
    """What the value may differ from F(x) by beyond rounding, where a plan is known by factors."""


class Finding(NamedTuple):
    """Something wrong with an answer."""

    kind: str
    """One of `checks.COUNTS`."""
    detail: str


@dataclass(frozen=True, eq=False)
class Case:
    """A call of the library that ought to work."""

    kinds: tuple[str, ...]
    """Front end, f, g, set, method: what failures are grouped by."""
    values: Mapping[str, Any]
    code: Callable[[float], str]
    """Source that ends with `answer = ...`, for f and g multiplied by a number."""
    claims: Callable[[Any, float, bool], list[Claim]]
    """What the answer claims, given the multiple and whether a UserWarning came with it."""
    tol: float = 1e-6
    max_iter: int = 10_000
    time_limit: float | None = None
    may_refuse: bool = False
    """Whether the pair cannot work, or need not, so that MissingAbility is an answer."""
    follows_units: bool = True
    """Whether multiplying f and g may change no decision."""
    hostile: bool = False
    """Whether the input is wrong on purpose: then a ValueError or TypeError is the answer."""
    findings: Callable[[Any], list[Finding]] = lambda _answer: []
    """What is wrong with the rest of an answer: all that is no claim about a target."""


OWN_PARTS = """
class OwnBox(cg.sets.Set):
    solid = True

    def __init__(self, radius):
        self.radius = self.scale = radius

    def start(self, space):
        return space.full(0.0)

    def violation(self, x):
        return max(0.0, float(abs(x).max()) - self.radius)

    def project(self, x):
        return x.clip(-self.radius, self.radius)

    def linear_argmin(self, c):
        s = 0.0 * c
        s[c > 0], s[c < 0] = -self.radius, self.radius
        return s


class OwnBall(cg.sets.Set):
    def __init__(self, radius):
        self.radius, self.scale = radius, radius + 1.0

    def start(self, space):
        return space.full(1.0)

    def violation(self, x):
        return max(0.0, float(((x - 1.0) ** 2).sum()) ** 0.5 - self.radius)

    def project(self, x):
        d = x - 1.0
        length = float((d * d).sum()) ** 0.5
        return x if length <= self.radius else 1.0 + (self.radius / length) * d


def own_ridge(weight, radius, on, gradient):
    return cg.simple.Oracle(
        lambda x: weight * float((x * x).sum()),
        lambda c: (-0.5 / weight * c).clip(-radius, radius),
        on=on,
        gradient=(lambda x: 2.0 * weight * x) if gradient else None,
    )


def own_squares(A, y):
    def value_and_gradient(x):
        r = A @ x - y
        return 0.5 * float(r @ r), A.T @ r

    return value_and_gradient


def own_autograd(A, y):
    def value_and_gradient(x):
        r = A @ x - y
        value = 0.5 * (r * r).sum()
        return value if hasattr(x, "requires_grad") else (float(value), A.T @ r)

    return value_and_gradient


def own_distance(W, M):
    return lambda X: (0.5 * float((W * (X - M) ** 2).sum()), W * (X - M))
"""


class Part(NamedTuple):
    """f or a term of it."""

    kind: str
    source: str
    formula: Any
    smoothness: bool = True
    """Whether the library knows the smoothness constant."""
    shaped: bool = True
    """Whether the library knows the shape of the variable."""


class Ground(NamedTuple):
    """A set."""

    kind: str
    source: str
    region: Any
    shaped: bool = False
    abilities: str = "project linear"
    solid: bool = False


class Weighted(NamedTuple):
    """g, by its weight."""

    kind: str
    source: Callable[[float], str]
    formula: Any
    weight: float
    gradient: bool = True


@dataclass
class Draft:
    """Draws numbers and remembers them under the names that the source uses."""

    rng: np.random.Generator
    single: bool = False
    torch: bool = False
    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, rng: np.random.Generator) -> Draft:
        return cls(rng, single=rng.random() < 0.3, torch=rng.random() < 0.15 and HAS_TORCH)

    @property
    def dtype(self) -> Any:
        return np.float32 if self.single else np.float64

    @property
    def precision(self) -> str:
        return f"{'torch ' if self.torch else ''}{np.dtype(self.dtype).name}"

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def among(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def power(self, low: float, high: float) -> float:
        """A number whose logarithm is uniform, rounded to be readable."""
        return float(f"{10.0 ** self.rng.uniform(low, high):.3g}")

    def size(self, high: int) -> int:
        """Mostly small numbers from 1."""
        return int(self.rng.integers(1, (high if self.chance(0.2) else max(2, high // 3)) + 1))

    def keep(self, name: str, array: Any, *, sparse: bool = False) -> tuple[str, Array]:
        """The name an array goes by in the source, and the array as the judge sees it, in float64."""
        name = name if name not in self.values else f"{name}{len(self.values)}"
        array = np.asarray(array, dtype=self.dtype)
        exact = array.astype(np.float64)
        if sparse and not self.torch:
            array = scipy.sparse.csr_array(array)
        elif self.torch:
            import torch

            array = torch.from_numpy(array)
        self.values[name] = array
        return name, exact

    def numbers(self, *shape: int) -> Array:
        """Data of many kinds: integers, repeated or empty columns, offsets, scales."""
        reach = 3.0 if self.single else 6.0
        A = self.rng.standard_normal(shape)
        kind = self.rng.random()
        if kind < 0.1:
            A = np.round(2.0 * A)
        elif kind < 0.2:
            A[..., -1] = A[..., 0]
        elif kind < 0.25:
            A[..., 0] = 0.0
        elif kind < 0.35:
            A = A + self.power(0.0, reach)
        elif kind < 0.45:
            A = A * 10.0 ** self.rng.uniform(-reach / 2, reach / 2, shape[-1])
        return A * self.power(-reach, reach) if self.chance(0.25) else A


def doubled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same numbers as NumPy arrays in float64."""

    def double(value: Any) -> Any:
        if scipy.sparse.issparse(value):
            return value.astype(np.float64)
        value = np.asarray(value)
        return value.astype(np.float64) if value.dtype.kind == "f" else value

    return {name: double(value) for name, value in values.items()}


# f --------------------------------------------------------------------------------------------------------------------


def labels_of(draft: Draft, m: int) -> Array:
    """-1 and +1, both where there is room."""
    y = np.where(draft.rng.random(m) < 0.5, -1.0, 1.0)
    if m > 1:
        y[0], y[-1] = -1.0, 1.0
    return y


def loss(draft: Draft, n: int) -> Part:
    m = draft.size(30)
    kind = draft.among("LeastSquares", "Logistic", "SquaredHinge")
    A = draft.numbers(m, n)
    if kind == "LeastSquares":
        # interpolation, where F* is 0 or nearly so, is a case of its own
        y = A @ draft.rng.standard_normal(n) if draft.chance(0.2) else draft.numbers(m)
    else:
        y = labels_of(draft, m)
    intercept = draft.chance(0.3) and (kind == "LeastSquares" or m > 1)
    K, exact_A = draft.keep("A", A, sparse=draft.chance(0.2))
    target, exact_y = draft.keep("y", y)
    weights, options = np.ones(m), ""
    if draft.chance(0.25):
        w = draft.rng.uniform(0.1, 2.0, m) * (draft.power(-6, 6) if draft.chance(0.2) else 1.0)
        if m > 2 and draft.chance(0.3):
            w[1] = 0.0
        name, weights = draft.keep("w", w)
        options += f", sample_weight={name}"
    if intercept:
        options += ", intercept=True"
    rows = {
        "LeastSquares": judges.squares,
        "Logistic": judges.logistic,
        "SquaredHinge": judges.squared_hinge,
    }[kind]
    formula = judges.Loss(rows, exact_A, exact_y, weights, intercept)
    return Part(
        f"{kind}{' intercept' if intercept else ''}",
        f"cg.smooth.{kind}({K}, {target}{options})",
        formula,
    )


def own_loss(draft: Draft, n: int) -> Part:
    m = draft.size(20)
    K, A = draft.keep("A", draft.numbers(m, n))
    target, y = draft.keep("y", draft.numbers(m))
    maker = "own_autograd" if draft.torch and draft.chance(0.5) else "own_squares"
    known = draft.chance(0.5)
    smoothness = (
        f", smoothness={float(1.01 * np.linalg.norm(A, 2) ** 2 + 1e-30)!r}" if known else ""
    )
    formula = judges.Loss(judges.squares, A, y, np.ones(m))
    return Part(
        "Function",
        f"cg.smooth.Function({maker}({K}, {target}){smoothness})",
        formula,
        known,
        shaped=False,
    )


def own_distance(draft: Draft, *shape: int) -> Part:
    first, W = draft.keep("W", draft.rng.uniform(0.1, 2.0, shape))
    second, M = draft.keep("M", draft.numbers(*shape))
    source = f"cg.smooth.Function(own_distance({first}, {second}))"
    return Part("Function", source, judges.Distance(W, M), smoothness=False, shaped=False)


def linear(draft: Draft, *shape: int) -> Part:
    name, C = draft.keep("C", draft.numbers(*shape))
    return Part("Linear", f"cg.smooth.Linear({name})", judges.LinearCost(C))


def graph(draft: Draft, n: int) -> Array:
    """A graph Laplacian."""
    W = np.triu(draft.rng.random((n, n)) < 0.5, 1).astype(np.float64)
    W = W + W.T
    return np.diag(W.sum(axis=1)) - W


def laplacian(draft: Draft, n: int, m: int) -> Part:
    d = draft.size(4)
    Xs, exact_Xs = draft.keep("Xs", draft.numbers(n, d))
    Xt, exact_Xt = draft.keep("Xt", draft.numbers(m, d))
    Ls, exact_Ls = draft.keep("Ls", graph(draft, n))
    Lt, exact_Lt = draft.keep("Lt", graph(draft, m))
    source, target = draft.power(-3, 3), draft.among(0.0, draft.power(-3, 3))
    text = f"cg.smooth.TransportLaplacian({Xs}, {Xt}, {Ls}, {Lt}, source_weight={source!r}, target_weight={target!r})"
    formula = judges.LaplacianForm(exact_Xs, exact_Xt, exact_Ls, exact_Lt, source, target)
    return Part("TransportLaplacian", text, formula)


def groups(draft: Draft, n: int) -> Part:
    labels = draft.rng.integers(0, 3, n)
    name = "labels"
    draft.values[name] = labels
    weight = draft.power(-3, 3)
    source = f"cg.smooth.GroupLasso({name}, weight={weight!r})"
    return Part("GroupLasso", source, judges.Groups(labels, weight), smoothness=False, shaped=False)


def added(draft: Draft, *parts: Part) -> Part:
    """A sum of multiples."""
    weights = tuple(draft.among(1.0, 2.0, draft.power(-2, 2)) for _ in parts)
    source = " + ".join(
        p.source if w == 1.0 else f"{w!r} * {p.source}" for w, p in zip(weights, parts, strict=True)
    )
    kind = "+".join(
        sorted(p.kind if w == 1.0 else f"c*{p.kind}" for w, p in zip(weights, parts, strict=True))
    )
    formula = Total(weights, tuple(p.formula for p in parts))
    return Part(
        kind, source, formula, all(p.smoothness for p in parts), any(p.shaped for p in parts)
    )


def vector_f(draft: Draft, n: int) -> Part:
    kind = draft.rng.random()
    if kind < 0.6:
        return loss(draft, n)
    if kind < 0.7:
        return linear(draft, n)
    if kind < 0.82:
        return own_loss(draft, n)
    if kind < 0.88:
        return added(draft, loss(draft, n))
    return added(draft, loss(draft, n), draft.among(loss, linear)(draft, n))


def matrix_f(draft: Draft, n: int, m: int) -> Part:
    kind = draft.rng.random()
    if kind < 0.25:
        return linear(draft, n, m)
    if kind < 0.5:
        return own_distance(draft, n, m)
    if kind < 0.75:
        return added(draft, linear(draft, n, m), laplacian(draft, n, m))
    return laplacian(draft, n, m)


# Sets and g -----------------------------------------------------------------------------------------------------------


def radius_of(draft: Draft) -> float:
    kind = draft.rng.random()
    if kind < 0.02:
        return 0.0
    return draft.power(-5, 5) if kind < 0.1 else draft.power(-1.5, 1.5)


def ball(draft: Draft, kind: str) -> Ground:
    radius = radius_of(draft)
    norm = {"L1Ball": "l1", "L2Ball": "l2", "NuclearBall": "nuclear"}[kind]
    return Ground(
        kind,
        f"cg.sets.{kind}({radius!r})",
        judges.NormBall(norm, radius),
        solid=kind != "NuclearBall",
    )


def group_ball(draft: Draft, n: int) -> Ground:
    """Over the rows of a variable: a few groups, one, or as many as rows."""
    radius, count = radius_of(draft), draft.among(1, 2, 3, n)
    labels = draft.rng.integers(0, count, n)
    name = f"groups{len(draft.values)}"
    draft.values[name] = labels
    region = judges.GroupedBall(radius, labels)
    return Ground("GroupBall", f"cg.sets.GroupBall({radius!r}, {name})", region, solid=True)


def cube(draft: Draft) -> Ground:
    radius = radius_of(draft)
    region = judges.Interval(-radius, radius)
    return Ground("LInfBall", f"cg.sets.LInfBall({radius!r})", region, solid=True)


def sparse_hull(draft: Draft) -> Ground:
    radius, k = radius_of(draft), draft.among(1, 2, 5)
    region = judges.SparseHull(radius, k)
    return Ground("KSparse", f"cg.sets.KSparse({radius!r}, k={k})", region, solid=True)


def spectraplex(draft: Draft, n: int) -> Ground:
    trace = draft.power(-1.5, 1.5)
    region = judges.Spectrum(trace)
    return Ground("Spectraplex", f"cg.sets.Spectraplex({n}, {trace!r})", region, True)


def simplex(draft: Draft, n: int) -> Ground:
    mass = radius_of(draft)
    source = f"cg.sets.Simplex({n}, {mass!r})"
    return Ground("Simplex", source, judges.ScaledSimplex(mass), True, "project linear entropic")


def solid_simplex(draft: Draft) -> Ground:
    mass = radius_of(draft)
    return Ground(
        "SolidSimplex",
        f"cg.sets.SolidSimplex({mass!r})",
        judges.ScaledSolidSimplex(mass),
        solid=True,
    )


def box(draft: Draft, shape: tuple[int, ...], *, nonnegative: bool = False) -> Ground:
    abilities = "project linear entropic" if nonnegative else "project linear"
    if draft.chance(0.5):
        high = draft.power(-2, 2)
        low = (
            draft.among(0.0, 0.1 * high, high)
            if nonnegative
            else draft.among(-high, 0.0, -0.1 * high)
        )
        region = judges.Interval(low, high)
        return Ground(
            "Box", f"cg.sets.Box({low!r}, {high!r})", region, False, abilities, low <= 0.0
        )
    lower = draft.rng.uniform(0.0, 1.0, shape) if nonnegative else draft.rng.standard_normal(shape)
    upper = lower + draft.rng.uniform(0.0, 2.0, shape) * (draft.rng.random(shape) < 0.9)
    lower, upper = (a.astype(draft.dtype) for a in (lower, upper))
    (first, lower), (second, upper) = (
        draft.keep("lower", lower),
        draft.keep("upper", np.maximum(lower, upper)),
    )
    solid = bool((lower <= 0).all() and (upper >= 0).all())
    return Ground(
        "Box",
        f"cg.sets.Box({first}, {second})",
        judges.Interval(lower, upper),
        True,
        abilities,
        solid,
    )


def own_box(draft: Draft) -> Ground:
    radius = draft.power(-1, 1)
    return Ground("OwnBox", f"OwnBox({radius!r})", judges.Interval(-radius, radius), solid=True)


def own_ball(draft: Draft) -> Ground:
    radius = draft.power(-1, 1)
    return Ground(
        "OwnBall",
        f"OwnBall({radius!r})",
        judges.NormBall("l2", radius, center=1.0),
        abilities="project",
    )


def marginals(draft: Draft, n: int, m: int) -> tuple[Array, Array]:
    """Weights of one mass, some of them 0."""
    a, b = draft.rng.uniform(0.1, 1.0, n), draft.rng.uniform(0.1, 1.0, m)
    if draft.chance(0.15) and n > 1 and m > 1:
        a[0] = b[-1] = 0.0
    if draft.chance(0.3):
        a, b = np.ones(n), np.ones(m)
    mass = draft.power(-3, 3) if draft.chance(0.3) else 1.0
    return a * (mass / a.sum()), b * (mass / b.sum())


def polytope(draft: Draft, n: int, m: int) -> Ground:
    a, b = marginals(draft, n, m)
    (first, a), (second, b) = draft.keep("a", a), draft.keep("b", b)
    engine = ', engine="highs"' if draft.chance(0.1) else ""
    source = f"cg.sets.Transport({first}, {second}{engine})"
    return Ground("Transport", source, judges.Plans(a, b), True, "linear entropic")


def partial_polytope(draft: Draft, n: int, m: int) -> Ground:
    """Plans of a part of the mass, sometimes all of the smaller one."""
    a, b = marginals(draft, n, m)
    (first, a), (second, b) = draft.keep("a", a), draft.keep("b", b * draft.among(1.0, 1.5, 0.2))
    mass = float(draft.among(1.0, 0.9, 0.5, 0.01)) * float(min(a.sum(), b.sum())) * (1.0 - 1e-12)
    source = f"cg.sets.PartialTransport({first}, {second}, {mass!r})"
    region = judges.PartialPlans(a, b, mass)
    return Ground("PartialTransport", source, region, True, "linear entropic")


def measures_of(draft: Draft, widths: list[int]) -> tuple[list[str], list[Array]]:
    """Measures of one mass, by name and by number; some points have no weight."""
    mass = draft.power(-3, 3) if draft.chance(0.3) else 1.0
    names, measures = [], []
    for k, width in enumerate(widths):
        b = draft.rng.uniform(0.1, 1.0, width)
        if width > 1 and draft.chance(0.15):
            b[0] = 0.0
        name, b = draft.keep(f"measure{k}", b * (mass / b.sum()))
        names.append(name)
        measures.append(b)
    return names, measures


def shared_polytope(draft: Draft, n: int, m: int) -> Ground:
    """The m columns are one block or two."""
    first = int(draft.rng.integers(1, m + 1))
    names, measures = measures_of(draft, [width for width in (first, m - first) if width])
    weights = tuple(draft.among(1.0, draft.power(-1, 1)) for _ in measures)
    source = f"cg.sets.SharedMarginal({n}, [{', '.join(names)}], weights={list(weights)!r})"
    region = judges.SharedPlans(tuple(measures), weights)
    return Ground("SharedMarginal", source, region, True, "linear entropic")


def birkhoff(n: int) -> Ground:
    region = judges.Plans(np.ones(n), np.ones(n))
    return Ground("Birkhoff", f"cg.sets.Birkhoff({n})", region, True, "linear entropic")


def any_polytope(draft: Draft, n: int, m: int) -> Ground:
    kind = draft.rng.random()
    if kind < 0.2:
        return partial_polytope(draft, n, m)
    if kind < 0.4:
        return shared_polytope(draft, n, m)
    return birkhoff(n) if n == m and kind < 0.7 else polytope(draft, n, m)


def weighted(kind: str, weight: float, on: Ground) -> Weighted:
    """g of a kind on a set."""
    if kind == "Zero":
        return Weighted(kind, lambda _c: f"cg.simple.Zero(on={on.source})", judges.Nothing(), 0.0)
    norms = {"Ridge": "squared", "L1Norm": "l1", "NuclearNorm": "nuclear"}
    formula = (
        judges.NegativeEntropy(weight) if kind == "Entropy" else judges.Norm(norms[kind], weight)
    )
    gradient = kind in ("Ridge", "Entropy")
    return Weighted(
        kind,
        lambda c: f"cg.simple.{kind}({c * weight!r}, on={on.source})",
        formula,
        weight,
        gradient,
    )


def vector_g(draft: Draft, n: int, weight: float) -> tuple[Weighted, Ground]:
    kind = draft.among("Ridge", "Ridge", "Zero", "Zero", "Entropy", "L1Norm", "Oracle")
    if kind == "Oracle":
        radius, gradient = draft.power(-1, 1), draft.chance(0.5)
        known = draft.chance(0.7)
        region = judges.Interval(-radius, radius)
        on = Ground("Box", f"cg.sets.Box(-{radius!r}, {radius!r})", region)
        if not known:
            on = Ground("unknown", "None", region, abilities="")

        def source(c: float) -> str:
            return f"own_ridge({c * weight!r}, {radius!r}, {on.source}, {gradient})"

        return Weighted(kind, source, judges.Norm("squared", weight), weight, gradient), on
    if kind == "Entropy":
        on = simplex(draft, n) if draft.chance(0.6) else box(draft, (n,), nonnegative=True)
        return weighted(kind, weight, on), on
    grounds: list[Callable[[], Ground]] = [
        lambda: ball(draft, "L1Ball"),
        lambda: ball(draft, "L2Ball"),
        lambda: own_box(draft),
        lambda: box(draft, (n,)),
        lambda: solid_simplex(draft),
        lambda: group_ball(draft, n),
        lambda: cube(draft),
        lambda: sparse_hull(draft),
    ]
    if kind != "L1Norm":
        grounds += [
            lambda: simplex(draft, n),
            lambda: ball(draft, "L1Ball"),
            lambda: box(draft, (n,)),
        ]
    if kind == "Ridge":
        grounds.append(lambda: own_ball(draft))
    on = draft.among(*grounds)()
    if kind == "L1Norm" and not on.solid:
        on = ball(draft, "L1Ball")
    return weighted(kind, weight, on), on


def matrix_g(draft: Draft, n: int, m: int, weight: float) -> tuple[Weighted, Ground]:
    kind = draft.among("Ridge", "Zero", "Entropy", "Entropy", "NuclearNorm", "L1Norm")
    if kind == "Entropy" or (kind == "Zero" and draft.chance(0.5)):
        on = any_polytope(draft, n, m)
    elif kind in ("Ridge", "Zero") and n == m and draft.chance(0.3):
        on = spectraplex(draft, n)
    elif kind == "NuclearNorm":
        on = ball(draft, draft.among("NuclearBall", "L2Ball"))
    elif kind == "L1Norm":
        on = ball(draft, draft.among("L1Ball", "L2Ball"))
    else:
        on = draft.among(
            lambda: ball(draft, draft.among("NuclearBall", "L2Ball", "L1Ball")),
            lambda: ball(draft, draft.among("NuclearBall", "L2Ball", "L1Ball")),
            lambda: box(draft, (n, m)),
            lambda: group_ball(draft, n),
            lambda: draft.among(cube, sparse_hull)(draft),
        )()
    return weighted(kind, weight, on), on


# Calls of minimize ----------------------------------------------------------------------------------------------------

COMPOSITES = {
    f"{loss}{end}"
    for loss in ("LeastSquares", "Logistic", "SquaredHinge")
    for end in ("", " intercept")
}


POLYTOPES = (
    "L1Ball",
    "Simplex",
    "SolidSimplex",
    "Box",
    "LInfBall",
    "KSparse",
    "Birkhoff",
    "Transport",
)
"""Sets with vertices."""


def newton_knows(f: str, g: str, on: str) -> bool:
    """The pairs that the documentation promises to method="newton"."""
    if g == "Entropy" and on == "SharedMarginal":
        return f == "Linear"
    if f in ("Multinomial", "Multinomial intercept"):
        return g in ("Ridge", "Zero") and on == "L1Ball"
    if g == "Entropy":
        return on == "Transport" and f in (
            "Linear",
            "Linear+TransportLaplacian",
            "GroupLasso+Linear",
        )
    return (
        f in COMPOSITES
        and g in ("Ridge", "Zero")
        and on in ("L1Ball", "Simplex", "SolidSimplex", "Box")
    )


def may_refuse(method: str, step: str, f: Part, g: Weighted, on: Ground) -> bool:
    """Whether the documentation leaves the method a reason to refuse."""
    if step == "short" and not (f.smoothness and (method == "cgs" or g.kind in ("Ridge", "Zero"))):
        return True
    if method in ("away", "pairwise"):
        return not (g.kind == "Zero" and on.kind in POLYTOPES)
    if method == "cg":
        return not (g.gradient and "linear" in on.abilities)
    if method in ("spg", "pqn"):
        return not (g.gradient and g.kind != "Entropy" and "project" in on.abilities)
    return method == "newton" and not newton_knows(f.kind, g.kind, on.kind)


def result_claim(target: Target, result: Any) -> Claim:
    """The claim of a `Result`."""
    status, gap, values = (
        result.status.name,
        float(result.certificate.relative_gap),
        result.trace["value"],
    )
    start = float(values[0]) if len(values) else 0.0
    return Claim(
        target, result.x, result.value, result.lower_bound, status, result.iterations, gap, start
    )


def minimized(target: Target) -> Callable[[Any, float, bool], list[Claim]]:
    """Claims of an answer of `minimize`."""

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        return [result_claim(target, answer)]

    return claims


def minimize_case(
    draft: Draft,
    target: Target,
    f: Part,
    g: Weighted,
    on: Ground,
    max_iters: Sequence[int] = (0, 5, 30, 100),
) -> Case:
    """A call of `minimize` with options at random."""
    method = draft.among(
        "cgs", "cgs", "cgs", "cg", "spg", "spg", "pqn", "newton", "newton", "auto", "auto", "auto"
    )
    step, memory = "exact", 0
    if g.kind == "Zero" and draft.chance(0.2):
        method = draft.among("away", "pairwise")
    if method in ("cgs", "cg"):
        step = draft.among("exact", "exact", "exact", "armijo", "open-loop", "short")
        memory = draft.among(0, 1, 3, 5) if step == "exact" and draft.chance(0.25) else 0
    elif method in ("spg", "pqn"):
        step = draft.among("exact", "exact", "armijo")
    tol = draft.among(1e-6, 1e-6, 1e-3, 1e-9, 0.0)
    max_iter = draft.among(*max_iters)
    limit = draft.among(0.0, 1e-9, 1e-4, 1e-3, 0.02) if draft.chance(0.08) else None
    refuses, options = may_refuse(method, step, f, g, on), ""
    start = target.start
    if draft.chance(0.25):
        point = target.region.feasible(judges.wide(draft.rng.standard_normal(target.shape)))
        start = draft.keep("x0", point)[0]
    if start != "None":
        options += f", {start}"
    options += f', method="{method}", step="{step}", tol={tol!r}, max_iter={max_iter}'
    if memory:
        options += f", memory={memory}"
    if method in ("away", "pairwise") and draft.chance(0.3):
        options += ", lazy=True"
    if limit is not None:
        options += f", time_limit={limit!r}"
    stop = ""
    if draft.chance(0.04):
        stop = " FixedPoint"
        refuses = (
            refuses
            or method in ("newton", "auto")
            or not (g.gradient and "project" in on.abilities)
        )
        options += ", stop=cg.stopping.FixedPoint(1e-5)"
    return Case(
        (
            "minimize",
            *target.kinds,
            f"{method} {step}{' memory' if memory else ''}{stop}",
            draft.precision,
        ),
        dict(draft.values),
        lambda c: f"{target.source(c)}answer = cg.minimize(f, g{options})",
        minimized(target),
        tol=np.inf if stop else tol,
        max_iter=max_iter,
        time_limit=limit,
        may_refuse=refuses,
        follows_units=limit is None and not stop,
    )


def reference_case(target: Target) -> Case:
    """The same problem in float64, solved as well as may be: what other answers are judged by is judged as well."""
    if target.reference is not None:
        return target.reference(target)
    values, start = doubled(target.values), ""
    if target.start != "None":
        start = f", {target.start}"
        values[target.start] = target.region.feasible(judges.wide(values[target.start])).astype(
            np.float64
        )
    return Case(
        ("reference", *target.kinds, target.solver, "float64"),
        values,
        lambda c: (
            f"{target.source(c)}answer = cg.minimize(f, g{start}, tol=1e-13, {target.solver})"
        ),
        minimized(target),
        tol=1e-13,
        max_iter=0,
        follows_units=False,
    )


def good_solver(f: Part, g: Weighted, on: Ground) -> str:
    """A method that ends quickly near the optimum."""
    if newton_knows(f.kind, g.kind, on.kind):
        return 'method="newton", max_iter=100'
    # the best intercepts of several classes are a search of their own
    if f.kind == "Multinomial intercept":
        return 'method="spg", max_iter=60'
    if not may_refuse("spg", "exact", f, g, on):
        return 'method="spg", max_iter=300'
    return 'method="cgs", memory=3, max_iter=40'


def minimize_cases(draft: Draft) -> list[Case]:
    """A problem and some ways to solve it."""
    reach = 6.0 if draft.single else 12.0
    scale = draft.power(-reach, reach) if draft.chance(0.3) else 1.0
    weight = draft.power(-7, 7) if draft.chance(0.3) else draft.power(-2, 2)
    if draft.chance(0.7):
        n = draft.size(30)
        shape: tuple[int, ...] = (n,)
        f, (g, on) = vector_f(draft, n), vector_g(draft, n, weight)
    else:
        shape = (draft.size(9), draft.size(9))
        f, (g, on) = matrix_f(draft, *shape), matrix_g(draft, *shape, weight)
        if g.kind == "Entropy" and draft.chance(0.3):
            f = added(draft, linear(draft, *shape), groups(draft, shape[0]))
    objective = Total((scale, scale), (f.formula, g.formula))
    start = "None"
    # a function of one's own knows neither the shape of x nor its precision and library
    foreign = draft.single or draft.torch
    if on.kind == "unknown" or not (f.shaped or (on.shaped and not foreign)):
        inside = on.region.feasible(judges.wide(np.zeros(shape)))
        start = draft.keep("start", inside)[0]

    def source(c: float) -> str:
        multiple = "" if c * scale == 1.0 else f"{c * scale!r} * "
        return f"f = {multiple}({f.source})\ng = {g.source(c * scale)}\n"

    kinds = (f.kind if scale == 1.0 else f"c*({f.kind})", g.kind, on.kind)
    solver = good_solver(f._replace(kind=kinds[0]), g, on)
    target = Target(objective, on.region, shape, dict(draft.values), source, kinds, solver, start)
    return [minimize_case(draft, target, f, g, on) for _ in range(2)]
