"""Bad input of the core: problems, their parts, options, and what a user's own parts return."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse

import condgrad as cg
from condgrad.problem import Set

Row = tuple[Callable[[], Any], type[Exception] | tuple[type[Exception], ...], str]
"""A call, the class of its error, and what the message says, as a regular expression."""

RNG = np.random.default_rng(3)
A = RNG.standard_normal((6, 3))
Y = RNG.standard_normal(6)
LABELS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
BALL = cg.sets.L1Ball(1.0)
G = cg.simple.Ridge(0.1, on=BALL)
F = cg.smooth.LeastSquares(A, Y)
CENTRE = np.array([0.3, 0.2, -0.4])


def spoiled(values: Any, bad: float) -> Any:
    """A copy with one bad entry."""
    values = np.array(values, dtype=float)
    values.flat[-1] = bad
    return values


class Wedge(Set):
    """A set of one's own with nothing but a projection."""

    def start(self, space: Any) -> Any:
        return space.full(0.0)

    def violation(self, x: Any) -> float:
        return max(0.0, -float(x.min()))

    def project(self, x: Any) -> Any:
        return np.maximum(x, 0.0)

    def __repr__(self) -> str:
        return "Wedge()"


def quadratic(x: Any) -> tuple[float, Any]:
    """A smooth function a user would write."""
    return 0.5 * float((x - CENTRE) @ (x - CENTRE)), x - CENTRE


def vertex(c: Any) -> Any:
    """The linear oracle of the unit simplex."""
    s = np.zeros_like(c)
    s[np.argmin(c)] = 1.0
    return s


def nothing(_: Any) -> None:
    """A user's callable that forgot its return."""


def solve(call: Callable[[Any], Any], g: Any = G, **options: Any) -> cg.Result:
    """A run on a user's function of three variables."""
    return cg.minimize(
        cg.smooth.Function(call), g, **{"x0": np.full(3, 0.1), "step": "open-loop", **options}
    )


def solve_with(
    argmin: Callable[[Any], Any], value: Callable[[Any], Any] = lambda x: 0.0 * x[0], **options: Any
) -> Any:
    """A run with a user's oracle on the simplex."""
    g = cg.simple.Oracle(value, argmin, on=cg.sets.Simplex(3))
    return cg.minimize(F, g, **{"max_iter": 20, **options})


def turning(
    k: int, *, value: float | None = None, slope: float | None = None
) -> Callable[[Any], Any]:
    """A quadratic that spoils its value or gradient from the call for iteration k on (open loop: a call each).

    The first call of all is for the null point, which gaps are measured by.
    """
    calls = iter(range(-1, 10**9))

    def call(x: Any) -> tuple[float, Any]:
        good, gradient = quadratic(x)
        if next(calls) < k:
            return good, gradient
        return (good if value is None else value), (gradient if slope is None else gradient * slope)

    return call


ROWS: dict[str, Row] = {}

# Data ---------------------------------------------------------------------------------------------------------------------

ROWS |= {
    "A and y differ in rows": (
        lambda: cg.smooth.LeastSquares(A, Y[:4]),
        ValueError,
        r"y must .*6 rows, got 4",
    ),
    "Z and y differ in rows": (
        lambda: cg.smooth.Logistic(A, LABELS[:4]),
        ValueError,
        r"y must .*6 rows, got 4",
    ),
    "A is a vector": (
        lambda: cg.smooth.LeastSquares(Y, Y),
        ValueError,
        r"A must have 2 dim.*\(6,\)",
    ),
    "A has three dimensions": (
        lambda: cg.smooth.LeastSquares(A[None], Y),
        ValueError,
        r"A must have 2 dim.*\(1, 6, 3\)",
    ),
    "y is a column": (
        lambda: cg.smooth.LeastSquares(A, Y[:, None]),
        ValueError,
        r"y must have 1 dim.*\(6, 1\)",
    ),
    "A has a NaN": (
        lambda: cg.smooth.LeastSquares(spoiled(A, math.nan), Y),
        ValueError,
        r"A must be finite.*NaN",
    ),
    "A has an inf": (
        lambda: cg.smooth.LeastSquares(spoiled(A, math.inf), Y),
        ValueError,
        r"A must be finite.*inf",
    ),
    "y has a NaN": (
        lambda: cg.smooth.LeastSquares(A, spoiled(Y, math.nan)),
        ValueError,
        r"y must be finite.*NaN",
    ),
    "labels have a NaN": (
        lambda: cg.smooth.Logistic(A, spoiled(Y, math.nan)),
        ValueError,
        r"y must be finite.*NaN",
    ),
    "Z has an inf": (
        lambda: cg.smooth.SquaredHinge(spoiled(A, math.inf), LABELS),
        ValueError,
        r"Z must be finite",
    ),
    "sparse A has a NaN": (
        lambda: cg.smooth.LeastSquares(scipy.sparse.csr_array(spoiled(A, math.nan)), Y),
        ValueError,
        r"A must be finite.*NaN",
    ),
    "A is empty": (
        lambda: cg.smooth.LeastSquares([], []),
        ValueError,
        r"A must have 2 dim.*\(0,\)",
    ),
    "A has no rows": (
        lambda: cg.smooth.LeastSquares(np.zeros((0, 3)), []),
        ValueError,
        r"rows and columns.*\(0, 3\)",
    ),
    "A has no columns": (
        lambda: cg.smooth.LeastSquares(np.zeros((6, 0)), Y),
        ValueError,
        r"rows and columns.*\(6, 0\)",
    ),
    "sparse A has no rows": (
        lambda: cg.smooth.LeastSquares(scipy.sparse.csr_array((0, 3)), []),
        ValueError,
        r"rows and columns.*\(0, 3\)",
    ),
    "A is a string": (
        lambda: cg.smooth.LeastSquares("data", Y),
        TypeError,
        r"A must be an array of numbers, got str",
    ),
    "A holds strings": (
        lambda: cg.smooth.LeastSquares(np.full((6, 3), "a"), Y),
        TypeError,
        r"A must be an array of numbers, got dtype <U1",
    ),
    "A is ragged": (
        lambda: cg.smooth.LeastSquares([[1.0, 2.0], [3.0]], [1.0, 2.0]),
        TypeError,
        r"A must be an array",
    ),
    "A is None": (lambda: cg.smooth.LeastSquares(None, Y), (TypeError, ValueError), r"A must"),
    "A is complex": (
        lambda: cg.smooth.LeastSquares(A + 1j, Y),
        TypeError,
        r"A must be real, got dtype complex128",
    ),
    "A is a complex list": (
        lambda: cg.smooth.LeastSquares([[1j, 2.0]], [1.0]),
        TypeError,
        r"A must be",
    ),
    "sparse A is complex": (
        lambda: cg.smooth.LeastSquares(scipy.sparse.csr_array(A + 1j), Y),
        TypeError,
        r"A must be real, got dtype complex128",
    ),
    "A holds dates": (
        lambda: cg.smooth.LeastSquares(np.zeros((6, 3)).astype("datetime64[s]"), Y),
        TypeError,
        r"A must be an array of numbers, got dtype datetime64",
    ),
    "A is masked": (
        lambda: cg.smooth.LeastSquares(np.ma.masked_array(A, mask=A > 1.0), Y),
        (TypeError, ValueError),
        r"A must .*mask",
    ),
    "y is complex": (lambda: cg.smooth.LeastSquares(A, Y + 1j), TypeError, r"y must be real"),
    "C is complex": (lambda: cg.smooth.Linear(A + 1j), TypeError, r"C must be real"),
    "C has a NaN": (
        lambda: cg.smooth.Linear(spoiled(A, math.nan)),
        ValueError,
        r"C must be finite",
    ),
    "C is a string": (
        lambda: cg.smooth.Linear("cost"),
        TypeError,
        r"C must be an array of numbers, got str",
    ),
    "C is empty": (lambda: cg.smooth.Linear([]), ValueError, r"C must .*\(0,\)"),
    "labels of one class": (
        lambda: cg.smooth.Logistic(A, np.zeros(6)),
        ValueError,
        r"y must hold two classes.*got 1: 0",
    ),
    "labels of three classes": (
        lambda: cg.smooth.Logistic(A, [0, 1, 2, 0, 1, 2]),
        ValueError,
        r"y must hold two classes.*got 3: 0, 1, 2",
    ),
    "labels that are targets": (
        lambda: cg.smooth.SquaredHinge(A, Y),
        ValueError,
        r"y must hold two.*got 6: .*\.\.\.",
    ),
    "labels in words": (
        lambda: cg.smooth.Logistic(A, ["ill", "well"] * 3),
        TypeError,
        r"y must be an array of numbers",
    ),
    "labels in words, as an array": (
        lambda: cg.smooth.Logistic(A, np.array(["ill", "well"] * 3)),
        TypeError,
        r"y must be an array of numbers, got dtype <U4",
    ),
    "negative sample weight": (
        lambda: cg.smooth.LeastSquares(A, Y, sample_weight=[1, 1, 1, 1, 1, -2]),
        ValueError,
        r"sample_weight must be >= 0, got -2",
    ),
    "NaN sample weight": (
        lambda: cg.smooth.LeastSquares(A, Y, sample_weight=spoiled(np.ones(6), math.nan)),
        ValueError,
        r"sample_weight must be finite.*NaN",
    ),
    "sample weights all zero": (
        lambda: cg.smooth.Logistic(A, LABELS, sample_weight=np.zeros(6)),
        ValueError,
        r"sample_weight must have a positive entry",
    ),
    "too few sample weights": (
        lambda: cg.smooth.Logistic(A, LABELS, sample_weight=[1.0]),
        ValueError,
        r"sample_weight must .*6 rows, got 1",
    ),
    "a number as sample weight": (
        lambda: cg.smooth.Logistic(A, LABELS, sample_weight=2.0),
        ValueError,
        r"sample_weight must have 1 dim",
    ),
}

LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge, cg.smooth.Multinomial)
for loss, intercept in product(LOSSES, ("no", 1, None, np.array([True]))):
    ROWS[f"intercept {intercept!r} of {loss.__name__}"] = (
        lambda loss=loss, intercept=intercept: loss(np.eye(2), [1.0, -1.0], intercept=intercept),
        TypeError,
        r"intercept must be True or False, got",
    )

# Sets and simple parts ------------------------------------------------------------------------------------------------

ROWS |= {
    "simplex of nothing": (lambda: cg.sets.Simplex(0), ValueError, r"n must be >= 1, got 0"),
    "simplex of a fraction": (
        lambda: cg.sets.Simplex(2.5),
        TypeError,
        r"n must be a whole number, got 2.5",
    ),
    "simplex of negative mass": (
        lambda: cg.sets.Simplex(3, -1.0),
        ValueError,
        r"mass must be .*>= 0, got -1",
    ),
    "simplex of infinite mass": (
        lambda: cg.sets.Simplex(3, math.inf),
        ValueError,
        r"mass must be finite.*got inf",
    ),
    "box upside down": (
        lambda: cg.sets.Box([0.0, 2.0], [1.0, 1.5]),
        ValueError,
        r"lower must be <= upper.*2(\.0)?.*1\.5",
    ),
    "box with a NaN": (
        lambda: cg.sets.Box([0.0, math.nan], [1.0, 1.0]),
        ValueError,
        r"lower must be finite",
    ),
    "box without end": (lambda: cg.sets.Box(0.0, math.inf), ValueError, r"upper must be finite"),
    "box of two shapes": (
        lambda: cg.sets.Box([0.0, 0.0], [1.0, 1.0, 1.0]),
        ValueError,
        r"lower and upper.*\(2,\) and \(3,\)",
    ),
    "box of nothing": (lambda: cg.sets.Box([], []), ValueError, r"lower.*\(0,\)"),
    "masses differ": (
        lambda: cg.sets.Transport([1.0, 1.0], [1.0, 2.5]),
        ValueError,
        r"same mass: a sums to 2, b to 3\.5",
    ),
    "negative weight in a": (
        lambda: cg.sets.Transport([-1.0, 2.0], [1.0]),
        ValueError,
        r"a must .*>= 0.*-1",
    ),
    "NaN weight in b": (
        lambda: cg.sets.Transport([1.0], [math.nan]),
        ValueError,
        r"b must be finite",
    ),
    "no weights": (
        lambda: cg.sets.Transport([], []),
        ValueError,
        r"a must hold one or more weights",
    ),
    "weights in a matrix": (
        lambda: cg.sets.Transport([[1.0]], [1.0]),
        ValueError,
        r"a must have 1 dim.*\(1, 1\)",
    ),
    "softmax of no labels": (
        lambda: cg.smooth.Multinomial(np.ones((3, 2)), []),
        ValueError,
        "y must hold at least two classes, got no labels",
    ),
    "sparse hull of nothing": (lambda: cg.sets.KSparse(1.0, k=0), ValueError, "k must be >= 1"),
    "l-infinity ball of negative radius": (
        lambda: cg.sets.LInfBall(-1.0),
        ValueError,
        "radius must be",
    ),
    "permutations of nothing": (lambda: cg.sets.Birkhoff(0), ValueError, "n must be >= 1"),
    "spectraplex of negative trace": (
        lambda: cg.sets.Spectraplex(2, trace=-1.0),
        ValueError,
        "trace must be",
    ),
    "points in place of the cost and weights": (
        lambda: cg.transport.solve(np.ones((4, 2)), np.ones((5, 2)), entropy=1.0),
        ValueError,
        r"a must have 1 dim.*\(5, 2\); for points.*SquaredEuclidean",
    ),
}
BALLS = (cg.sets.L1Ball, cg.sets.L2Ball, cg.sets.NuclearBall)
for ball in BALLS:
    for radius in (-1, -1e-300, math.nan, math.inf, -math.inf):
        ROWS[f"{ball.__name__} of radius {radius}"] = (
            lambda ball=ball, radius=radius: ball(radius),
            ValueError,
            rf"radius must be finite and >= 0, got {radius!r}",
        )
    for k, radius in enumerate(
        ("big", "1", None, [1.0], 1j, np.array([1.0, 2.0]), True, np.True_, np.array(True))
    ):
        ROWS[f"{ball.__name__} of a radius that is no number, {k}"] = (
            lambda ball=ball, radius=radius: ball(radius),
            TypeError,
            r"radius must be a number, got ",
        )
for kind, weight in product(
    (cg.simple.Ridge, cg.simple.L1Norm), (0, 0.0, -2.5, math.nan, math.inf)
):
    ROWS[f"{kind.__name__} of weight {weight!r}"] = (
        lambda kind=kind, weight=weight: kind(weight, on=BALL),
        ValueError,
        rf"weight must be finite and > 0, got {weight!r}",
    )
ROWS["NuclearNorm of weight 0"] = (
    lambda: cg.simple.NuclearNorm(0.0, on=cg.sets.NuclearBall(1.0)),
    ValueError,
    "weight must be finite and > 0",
)
for weight in (0, -1.0, math.nan, "1e-3", None):
    ROWS[f"Entropy of weight {weight!r}"] = (
        lambda weight=weight: cg.simple.Entropy(weight, on=cg.sets.Simplex(3)),
        (TypeError, ValueError),
        rf"weight must be .*got {weight!r}",
    )
ON: dict[str, Callable[[Any], Any]] = {
    **{
        kind.__name__: lambda on, kind=kind: kind(1.0, on=on)
        for kind in (cg.simple.Ridge, cg.simple.L1Norm, cg.simple.Entropy, cg.simple.NuclearNorm)
    },
    "Zero": lambda on: cg.simple.Zero(on=on),
    "Oracle": lambda on: cg.simple.Oracle(lambda x: 0.0 * x, vertex, on=on or 3.0),
}
for name, on in product(ON, (None, 3.0, cg.sets.L1Ball, "simplex")):
    ROWS[f"{name} on {on!r}"] = (
        lambda name=name, on=on: ON[name](on),
        TypeError,
        r"on must be a set",
    )

# What cannot work together --------------------------------------------------------------------------------------------

PAIRS = {
    "ridge on transport": (
        lambda: cg.simple.Ridge(1.0, on=cg.sets.Transport([1.0], [1.0])),
        r"Ridge needs a set with project.*Transport.*it has linear_argmin",
    ),
    "entropy on the l1 ball": (
        lambda: cg.simple.Entropy(1.0, on=BALL),
        r"Entropy needs a set with entropic_argmin.*L1Ball.*it has project, linear_argmin",
    ),
    "entropy on a box below zero": (
        lambda: cg.simple.Entropy(1.0, on=cg.sets.Box([-1.0], [1.0])),
        r"nonnegative.*Box",
    ),
    "zero without a linear argmin": (
        lambda: cg.simple.Zero(on=Wedge()),
        r"Zero needs a set with linear_argmin: Wedge\(\).*it has project",
    ),
    "l1 norm on the simplex": (
        lambda: cg.simple.L1Norm(1.0, on=cg.sets.Simplex(3)),
        r"L1Norm needs.*Simplex",
    ),
    "l1 norm on a box away from zero": (
        lambda: cg.simple.L1Norm(1.0, on=cg.sets.Box([1.0], [2.0])),
        r"L1Norm needs.*Box",
    ),
    "nuclear norm on the l1 ball": (
        lambda: cg.simple.NuclearNorm(1.0, on=BALL),
        r"NuclearNorm needs.*L1Ball",
    ),
    "cg without a gradient of g": (
        lambda: cg.minimize(F, cg.simple.L1Norm(1.0, on=BALL), method="cg"),
        r"L1Norm.* has no gradient",
    ),
    "short step without smoothness": (
        lambda: solve(quadratic, step="short"),
        r"step='short' needs the smoothness.*Function\(quadratic\)",
    ),
    "oracle that knows no point": (
        lambda: cg.minimize(F, cg.simple.Oracle(lambda x: 0.0 * x[0], vertex)),
        r"pass x0, or give the set by on=",
    ),
}
ROWS |= {name: (make, cg.MissingAbility, match) for name, (make, match) in PAIRS.items()}
ROWS["fixed point with newton"] = (
    lambda: cg.minimize(
        cg.smooth.Linear(np.ones((2, 2))),
        cg.simple.Entropy(1.0, on=cg.sets.Transport([0.5, 0.5], [0.5, 0.5])),
        method="newton",
        stop=cg.stopping.FixedPoint(1e-5),
    ),
    cg.MissingAbility,
    r"FixedPoint.*gradient",
)
ROWS |= {
    "f and set differ in shape": (
        lambda: cg.minimize(F, cg.simple.Zero(on=cg.sets.Simplex(5))),
        ValueError,
        r"f has.*\(3,\).*Simplex\(n=5.*\(5,\)",
    ),
    "cost and plans differ in shape": (
        lambda: cg.minimize(
            cg.smooth.Linear(np.ones((3, 2))),
            cg.simple.Zero(on=cg.sets.Transport([0.5, 0.5], [0.5, 0.25, 0.25])),
        ),
        ValueError,
        r"\(3, 2\).*Transport\(2 x 3\).*\(2, 3\)",
    ),
    "sum of two shapes": (
        lambda: F + cg.smooth.LeastSquares(A[:, :2], Y),
        ValueError,
        r"the same variable.*\(3,\), \(2,\)",
    ),
    "vectors in the nuclear ball": (
        lambda: cg.minimize(F, cg.simple.Ridge(1.0, on=cg.sets.NuclearBall(1.0))),
        ValueError,
        r"nuclear norm needs a matrix.*\(3,\)",
    ),
    "vectors under the nuclear norm": (
        lambda: cg.minimize(F, cg.simple.NuclearNorm(1.0, on=cg.sets.L2Ball(1.0))),
        ValueError,
        r"nuclear norm.*matri.*\(3,\)",
    ),
    "x0 of the wrong shape": (
        lambda: cg.minimize(F, G, x0=np.zeros(4)),
        ValueError,
        r"x0.*\(4,\).*\(3,\)",
    ),
    "x0 a number": (lambda: cg.minimize(F, G, x0=0.0), ValueError, r"x0.*\(\).*\(3,\)"),
    "x0 of the wrong shape for the set": (
        lambda: solve(quadratic, cg.simple.Zero(on=cg.sets.Simplex(2)), x0=np.full(3, 1 / 3)),
        ValueError,
        r"x0 must have the shape \(2,\).*got \(3,\)",
    ),
    "x0 with a NaN": (
        lambda: cg.minimize(F, G, x0=[0.0, 0.0, math.nan]),
        ValueError,
        r"x0 must be finite",
    ),
    "x0 with an inf": (
        lambda: cg.minimize(F, G, x0=[0.0, 0.0, math.inf]),
        ValueError,
        r"x0 must be finite",
    ),
    "x0 a string": (
        lambda: cg.minimize(F, G, x0="zero"),
        TypeError,
        r"x0 must be an array of numbers, got str",
    ),
    "x0 outside a ball": (
        lambda: cg.minimize(F, G, x0=[1.0, 1.0, 0.5]),
        ValueError,
        r"x0 must lie in L1Ball\(radius=1.0\).*outside by 1\.5",
    ),
    "x0 outside the simplex": (
        lambda: cg.minimize(F, cg.simple.Zero(on=cg.sets.Simplex(3)), x0=[1.5, -0.5, 0.0]),
        ValueError,
        r"x0 must lie in Simplex.*0\.5",
    ),
    "x0 outside transport": (
        lambda: cg.minimize(
            cg.smooth.Linear(np.ones((2, 2))),
            cg.simple.Zero(on=cg.sets.Transport([0.5, 0.5], [0.5, 0.5])),
            x0=[[0.5, 0.5], [0.0, 0.0]],
        ),
        ValueError,
        r"x0 must lie in Transport\(2 x 2\).*0\.5",
    ),
    # ten times the radius: nearness is relative to the set, else F(x0) < F* would count as an answer
    "x0 outside a tiny ball": (
        lambda: cg.minimize(F, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1e-10)), x0=[1e-9, 0.0, 0.0]),
        ValueError,
        r"x0 must lie in L1Ball\(radius=1e-10\)",
    ),
    "x0 missing": (
        lambda: solve(quadratic, x0=None),
        ValueError,
        r"x0 is needed.*Function\(quadratic\).*L1Ball",
    ),
    "x0 empty": (lambda: solve(lambda x: (0.0, x), x0=[]), ValueError, r"x0 .*\(0,\)"),
    "g is a set": (
        lambda: cg.minimize(F, BALL),
        TypeError,
        r"g must be.*L1Ball\(radius=1.0\).*Zero\(on=",
    ),
    "g is None": (
        lambda: cg.minimize(F, None),
        TypeError,
        r"g must be a simple part.*got NoneType",
    ),
    "f is a callable": (
        lambda: cg.minimize(quadratic, G),
        TypeError,
        r"f must be a smooth part.*got function: give condgrad.smooth.Function",
    ),
    "f is data": (lambda: cg.minimize(A, G), TypeError, r"f must be a smooth part.*got ndarray"),
    "f and g swapped": (
        lambda: cg.minimize(G, F),
        TypeError,
        r"f must be a smooth part.*got Ridge",
    ),
    "f plus a number": (lambda: F + 1, TypeError, r"\+.*LeastSquares.*int"),
    "f plus g": (lambda: F + G, TypeError, r"\+.*LeastSquares.*Ridge"),
    "negative multiple": (lambda: -2.0 * F, ValueError, r"multiple.*> 0, got -2\.0"),
    "negative multiple from the right": (lambda: F * -2, ValueError, r"multiple.*> 0, got -2"),
    "zero multiple": (lambda: 0.0 * F, ValueError, r"multiple.*> 0, got 0\.0"),
    "NaN multiple": (lambda: math.nan * F, ValueError, r"multiple.*finite.*got nan"),
    "a word times f": (lambda: "two" * F, TypeError, r"multiple.*number, got 'two'"),
    "function not callable": (
        lambda: cg.smooth.Function(3.0),
        TypeError,
        r"value_and_gradient must be callable, got 3",
    ),
    "negative smoothness": (
        lambda: cg.smooth.Function(quadratic, smoothness=-1.0),
        ValueError,
        r"smoothness must be .*got -1\.0",
    ),
    "oracle value not callable": (
        lambda: cg.simple.Oracle(0.0, vertex),
        TypeError,
        r"value must be callable, got 0\.0",
    ),
    "oracle argmin not callable": (
        lambda: cg.simple.Oracle(lambda x: 0.0 * x, None),
        TypeError,
        r"argmin must be callable, got None",
    ),
}

# Options --------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "unknown method": (
        {"method": "newtonn"},
        ValueError,
        r"method must be one of .*'cgs', .*'cg'.* got 'newtonn'",
    ),
    "method of another type": (
        {"method": ["cgs"]},
        (TypeError, ValueError),
        r"method must be one of .*got \['cgs'\]",
    ),
    "unknown step": (
        {"step": "wolfe"},
        ValueError,
        r"step must be one of 'exact', 'armijo', 'open-loop', 'log-open-loop', 'short', 'adaptive'.*got 'wolfe'",
    ),
    "a number as step": ({"step": 0.5}, TypeError, r"step must be a name or a step rule.*got 0\.5"),
    "a class as step": ({"step": cg.steps.Armijo}, TypeError, r"step must be .*Armijo"),
    "memory with armijo": (
        {"memory": 2, "step": "armijo"},
        ValueError,
        r"memory=2.*step='exact', got 'armijo'",
    ),
    "memory with the open loop": (
        {"memory": 2, "step": "open-loop"},
        ValueError,
        r"memory=2.*'open-loop'",
    ),
    "memory with a short step": (
        {"memory": 1, "step": cg.steps.Short()},
        ValueError,
        r"memory=1.*Short\(\)",
    ),
    "negative memory": ({"memory": -1}, ValueError, r"memory must be >= 0, got -1"),
    "half a memory": ({"memory": 1.5}, TypeError, r"memory must be a whole number, got 1\.5"),
    "negative max_iter": ({"max_iter": -1}, ValueError, r"max_iter must be >= 0, got -1"),
    "half a max_iter": ({"max_iter": 2.5}, TypeError, r"max_iter must be a whole number, got 2\.5"),
    "no max_iter": ({"max_iter": None}, TypeError, r"max_iter must be a whole number, got None"),
    "negative time": ({"time_limit": -0.1}, ValueError, r"time_limit must be .*>= 0, got -0\.1"),
    "NaN time": ({"time_limit": math.nan}, ValueError, r"time_limit must be finite.*got nan"),
    "time in words": (
        {"time_limit": "a minute"},
        TypeError,
        r"time_limit must be a number, got 'a minute'",
    ),
    "negative tol": ({"tol": -1e-6}, ValueError, r"tol must be .*>= 0, got -1e-06"),
    "NaN tol": ({"tol": math.nan}, ValueError, r"tol must be finite.*got nan"),
    "no tol": ({"tol": None}, TypeError, r"tol must be a number, got None"),
    "a flag as memory": ({"memory": True}, TypeError, r"memory must be a whole number, got True"),
    "a flag as max_iter": (
        {"max_iter": np.True_},
        TypeError,
        r"max_iter must be a whole number, got .*True",
    ),
    "a flag as tol": ({"tol": True}, TypeError, r"tol must be a number, got True"),
    "lazy in words": ({"lazy": "no"}, TypeError, r"lazy must be True or False, got 'no'"),
    "progress in words": (
        {"progress": "no"},
        TypeError,
        r"progress must be True or False, got 'no'",
    ),
    "a callback that returns an array": (
        {"callback": lambda now: now.x > 0.0},
        TypeError,
        r"callback must return True to end the run, or None to continue, got ndarray of shape \(3,\): return",
    ),
    "callback not callable": ({"callback": 5}, TypeError, r"callback must be callable.*got 5"),
    "stop a number": ({"stop": 1e-5}, TypeError, r"stop must be a stop.* rule.*got 1e-05"),
    "stop a class": (
        {"stop": cg.stopping.FixedPoint},
        TypeError,
        r"stop must be a stop.* rule.*FixedPoint",
    ),
}
ROWS |= {
    name: (lambda options=options: cg.minimize(F, G, **options), error, match)
    for name, (options, error, match) in OPTIONS.items()
}
RULES = {
    "shrink of one": (lambda: cg.steps.Armijo(shrink=1.0), r"shrink must be < 1, got 1\.0"),
    "negative fraction": (
        lambda: cg.steps.Armijo(fraction=-0.1),
        r"fraction must be .*> 0, got -0\.1",
    ),
    "negative slope tolerance": (
        lambda: cg.steps.Exact(slope_tolerance=-1.0),
        r"slope_tolerance must be .*got -1\.0",
    ),
    "NaN slope tolerance": (
        lambda: cg.steps.Exact(slope_tolerance=math.nan),
        r"slope_tolerance must be .*got nan",
    ),
    "negative residual": (
        lambda: cg.stopping.FixedPoint(-1.0),
        r"tolerance must be .*>= 0, got -1\.0",
    ),
    "NaN residual": (
        lambda: cg.stopping.FixedPoint(math.nan),
        r"tolerance must be finite.*got nan",
    ),
}
ROWS |= {name: (make, ValueError, match) for name, (make, match) in RULES.items()}

# What a user's own parts return ---------------------------------------------------------------------------------------

STEPS = {
    "a number beyond 1": lambda state: 1.5 + state.k,
    "nothing": nothing,
    "two for one direction": lambda state: np.full(2, 0.1) * (state.k + 1),
    "out of the set": lambda state: np.array([5.0 + state.k]),
    "backwards": lambda state: np.array([-0.5 - state.k]),
    "NaN": lambda state: np.array([math.nan * state.k]),
}
ROWS |= {
    f"a step rule that returns {name}": (
        lambda step=step: cg.minimize(F, G, step=step, max_iter=3),
        (TypeError, ValueError),
        r"step rule",
    )
    for name, step in STEPS.items()
}
FUNCTIONS = {
    "one number": (lambda x: float(x @ x), TypeError, r"\(value, gradient\).*got float"),
    "nothing": (nothing, TypeError, r"\(value, gradient\).*got NoneType"),
    "a short gradient": (lambda x: (0.0, x[:2]), ValueError, r"gradient.*\(3,\).*got \(2,\)"),
    "a column gradient": (
        lambda x: (0.0, x[:, None]),
        ValueError,
        r"gradient.*\(3,\).*got \(3, 1\)",
    ),
    "value and gradient swapped": (
        lambda x: (x, 0.5 * float(x @ x)),
        ValueError,
        r"value.*one number.*\(3,\)",
    ),
    "a value for each coordinate": (
        lambda x: (x * x, 2 * x),
        ValueError,
        r"value.*(scalar|one number).*\(3,\)",
    ),
    "a word as value": (lambda x: ("low", x), TypeError, r"value.*number.*(str|'low')"),
    "a complex value": (lambda x: (1j, x), TypeError, r"value.*real.*(complex|1j)"),
    "a complex gradient": (lambda x: (0.0, 1j * x), TypeError, r"gradient.*real.*complex"),
    "a gradient of words": (
        lambda x: (0.0, np.full(x.shape, "a")),
        TypeError,
        r"gradient.*numbers",
    ),
}
ROWS |= {
    f"a function that returns {name}": (lambda call=call: solve(call), error, match)
    for name, (call, error, match) in FUNCTIONS.items()
}
ROWS["a function that fails in its own way"] = (
    lambda: solve(lambda x: (1 / 0, x)),
    ZeroDivisionError,
    "division by zero",
)
for k in (0, 1, 7):
    for bad in (math.nan, math.inf, -math.inf):
        ROWS[f"a value that is {bad} in iteration {k}"] = (
            lambda k=k, bad=bad: solve(turning(k, value=bad), tol=0.0),
            cg.NotFiniteError,
            rf"iteration {k}\b.*value {bad}\b",
        )
    ROWS[f"a gradient that is NaN in iteration {k}"] = (
        lambda k=k: solve(turning(k, slope=math.nan), tol=0.0),
        cg.NotFiniteError,
        rf"iteration {k}\b.*gradient.*NaN",
    )
ORACLES = {
    "a short point": (
        lambda c: np.zeros(len(c) - 1),
        ValueError,
        r"oracle.*shape.*\(3,\).*got \(2,\)",
    ),
    "a short point in an Answer": (
        lambda c: cg.Answer(np.zeros(len(c) - 1), 0.0),
        ValueError,
        r"oracle.*shape.*\(3,\).*got \(2,\)",
    ),
    "nothing": (nothing, TypeError, r"oracle.*(None|NoneType)"),
    "a pair": (lambda c: (vertex(c), float(c.min())), TypeError, r"oracle.*Answer.*tuple"),
    "a NaN point": (lambda c: c * math.nan, cg.NotFiniteError, r"iteration 0.*oracle"),
    "a NaN point in an Answer": (
        lambda c: cg.Answer(vertex(c) * math.nan, float(c.min())),
        cg.NotFiniteError,
        r"oracle.*point|point.*oracle",
    ),
    "a NaN bound": (
        lambda c: cg.Answer(vertex(c), math.nan),
        cg.NotFiniteError,
        r"iteration 0.*oracle.*bound nan",
    ),
    "an infinite bound": (
        lambda c: cg.Answer(vertex(c), math.inf),
        cg.NotFiniteError,
        r"oracle.*bound inf",
    ),
    "no bound": (lambda c: cg.Answer(vertex(c), None), TypeError, r"bound.*oracle.*None"),
}
ROWS |= {
    f"an oracle that returns {name}": (lambda argmin=argmin: solve_with(argmin), error, match)
    for name, (argmin, error, match) in ORACLES.items()
}
ROWS |= {
    # a bound far above F(x) proves that the oracle is wrong; it must not pass for a gap of zero
    "an oracle that returns a bound above the value": (
        lambda: solve_with(lambda c: cg.Answer(vertex(c), 100.0)),
        (ValueError, ArithmeticError),
        r"bound",
    ),
    "an oracle whose value is NaN": (
        lambda: solve_with(vertex, lambda x: math.nan * x[0]),
        cg.NotFiniteError,
        r"iteration 0",
    ),
    "an oracle whose value is nothing": (
        lambda: solve_with(vertex, nothing),
        TypeError,
        r"value.*None",
    ),
    "an oracle whose value is an array": (
        lambda: solve_with(vertex, lambda x: x),
        ValueError,
        r"value.*(scalar|one number).*\(3,\)",
    ),
    "an oracle whose gradient is short": (
        lambda: cg.minimize(
            F,
            cg.simple.Oracle(
                lambda x: 0.0 * x[0],
                vertex,
                on=cg.sets.Simplex(3),
                gradient=lambda x: np.zeros(len(x) - 1),
            ),
            method="cg",
        ),
        ValueError,
        r"gradient.*\(3,\).*\(2,\)",
    ),
    # a point outside would be certified as better than every point inside
    "an oracle that leaves its set": (
        lambda: cg.minimize(
            cg.smooth.Function(lambda x: (0.5 * float(np.sum((x - 3.0) ** 2)), x - 3.0)),
            cg.simple.Oracle(
                lambda x: 0.0 * x[0],
                lambda c: -3.0 * np.sign(c),
                on=cg.sets.Box(-np.ones(5), np.ones(5)),
            ),
        ),
        cg.ContradictionError,
        r"Oracle.*outside Box.*by 2",
    ),
}

# Two libraries, which do not mix by accident --------------------------------------------------------------------------


def tensor(values: Any) -> Any:
    import torch

    return torch.tensor(values)


def of_tensors() -> Any:
    return cg.smooth.LeastSquares(tensor(A), tensor(Y))


ROWS |= {
    "torch: x0": (
        lambda: cg.minimize(F, G, x0=tensor([0.0] * 3)),
        TypeError,
        r"x0.*torch.*numpy",
    ),
    "torch: x0 of numpy": (
        lambda: cg.minimize(of_tensors(), G, x0=np.zeros(3)),
        TypeError,
        r"x0.*numpy.*torch",
    ),
    "torch: sparse A": (
        lambda: cg.smooth.LeastSquares(tensor(A).to_sparse(), tensor(Y)),
        TypeError,
        r"A must be a dense tensor",
    ),
    "torch: sparse A, coalesced": (
        lambda: cg.smooth.LeastSquares(tensor(A).to_sparse().coalesce(), tensor(Y)),
        TypeError,
        r"A must be a dense tensor",
    ),
    "torch: targets": (
        lambda: cg.smooth.LeastSquares(A, tensor(Y)),
        TypeError,
        r"y must be of the same library.*torch tensor",
    ),
    "torch: cost and plans": (
        lambda: cg.minimize(
            cg.smooth.Linear(tensor(np.ones((2, 2)))),
            cg.simple.Zero(on=cg.sets.Transport([0.5, 0.5], [0.5, 0.5])),
        ),
        TypeError,
        r"numpy.*torch|torch.*numpy",
    ),
    "torch: a sum": (
        lambda: cg.minimize(F + of_tensors(), G),
        TypeError,
        r"numpy.*torch|torch.*numpy",
    ),
    "torch: a gradient": (
        lambda: solve(lambda x: (0.5 * float(x @ x), tensor(x))),
        TypeError,
        r"gradient.*torch",
    ),
    "torch: a point of an oracle": (
        lambda: solve_with(lambda c: tensor(vertex(c))),
        TypeError,
        r"oracle.*torch",
    ),
    "torch: a function without a scalar": (
        lambda: solve(lambda x: x * x, x0=tensor([0.0] * 3)),
        TypeError,
        r"one scalar.*\(3,\)",
    ),
}
