"""Bad input gets a sentence: the argument's name, its value, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
from condgrad.problem import Set

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


def check(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=f"(?is){match}"):
        make()


DATA = {
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


@pytest.mark.parametrize(("make", "error", "match"), DATA.values(), ids=DATA.keys())
def test_data(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    check(make, error, match)


BALLS = (cg.sets.L1Ball, cg.sets.L2Ball, cg.sets.NuclearBall)
WEIGHTED = (cg.simple.Ridge, cg.simple.L1Norm)


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("radius", [-1, -1e-300, math.nan, math.inf, -math.inf])
def test_radius_out_of_range(ball: Any, radius: float) -> None:
    check(lambda: ball(radius), ValueError, rf"radius must be finite and >= 0, got {radius!r}")


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize(
    "radius", ["big", "1", None, [1.0], 1j, np.array([1.0, 2.0]), True, np.True_, np.array(True)]
)
def test_radius_not_a_number(ball: Any, radius: Any) -> None:
    check(lambda: ball(radius), TypeError, r"radius must be a number, got ")


@pytest.mark.parametrize("kind", WEIGHTED)
@pytest.mark.parametrize("weight", [0, 0.0, -2.5, math.nan, math.inf])
def test_weight_out_of_range(kind: Any, weight: float) -> None:
    check(
        lambda: kind(weight, on=BALL), ValueError, rf"weight must be finite and > 0, got {weight!r}"
    )


@pytest.mark.parametrize("weight", [0, -1.0, math.nan, "1e-3", None])
def test_entropy_weight(weight: Any) -> None:
    check(
        lambda: cg.simple.Entropy(weight, on=cg.sets.Simplex(3)),
        (TypeError, ValueError),
        rf"weight must be .*got {weight!r}",
    )


@pytest.mark.parametrize("kind", [*WEIGHTED, cg.simple.Entropy, cg.simple.NuclearNorm])
@pytest.mark.parametrize("on", [None, 3.0, cg.sets.L1Ball, "simplex"])
def test_on_must_be_a_set(kind: Any, on: Any) -> None:
    check(lambda: kind(1.0, on=on), TypeError, r"on must be a set")


@pytest.mark.parametrize("on", [None, 3.0, cg.sets.L1Ball])
def test_zero_on_must_be_a_set(on: Any) -> None:
    check(lambda: cg.simple.Zero(on=on), TypeError, r"on must be a set")


def test_oracle_on_must_be_a_set() -> None:
    check(
        lambda: cg.simple.Oracle(lambda x: 0.0 * x, vertex, on=3.0), TypeError, r"on must be a set"
    )


SETS = {
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
    "points in place of the cost and weights": (
        lambda: cg.transport.solve(np.ones((4, 2)), np.ones((5, 2)), entropy=1.0),
        ValueError,
        r"a must have 1 dim.*\(5, 2\); for points.*SquaredEuclidean",
    ),
}


@pytest.mark.parametrize(("make", "error", "match"), SETS.values(), ids=SETS.keys())
def test_sets(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    check(make, error, match)


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


@pytest.mark.parametrize(("make", "match"), PAIRS.values(), ids=PAIRS.keys())
def test_what_cannot_work_together(make: Callable[[], Any], match: str) -> None:
    check(make, cg.MissingAbility, match)


PROBLEMS = {
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


@pytest.mark.parametrize(("make", "error", "match"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    check(make, error, match)


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


@pytest.mark.parametrize(("options", "error", "match"), OPTIONS.values(), ids=OPTIONS.keys())
def test_options(options: dict[str, Any], error: type[Exception], match: str) -> None:
    check(lambda: cg.minimize(F, G, **options), error, match)


LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge, cg.smooth.Multinomial)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", ["no", 1, None, np.array([True])])
def test_intercept_is_a_flag(loss: Any, intercept: Any) -> None:
    check(
        lambda: loss(np.eye(2), [1.0, -1.0], intercept=intercept),
        TypeError,
        r"intercept must be True or False, got",
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_flags_of_numpy_are_flags(loss: Any) -> None:
    assert loss(np.eye(2), [1.0, -1.0], intercept=np.True_).h.has_intercept


@pytest.mark.parametrize("norm", [cg.simple.L1Norm, cg.simple.NuclearNorm])
def test_what_a_norm_takes_is_what_it_says(norm: Any) -> None:
    """A weight of 0 is an error, and the documentation says so."""
    with pytest.raises(ValueError, match="weight must be finite and > 0"):
        norm(0.0, on=cg.sets.NuclearBall(1.0) if norm is cg.simple.NuclearNorm else BALL)
    assert "Above 0." in norm.__doc__


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


@pytest.mark.parametrize(("make", "match"), RULES.values(), ids=RULES.keys())
def test_rules(make: Callable[[], Any], match: str) -> None:
    check(make, ValueError, match)


STEPS = {
    "a number beyond 1": lambda state: 1.5 + state.k,
    "nothing": nothing,
    "two for one direction": lambda state: np.full(2, 0.1) * (state.k + 1),
    "out of the set": lambda state: np.array([5.0 + state.k]),
    "backwards": lambda state: np.array([-0.5 - state.k]),
    "NaN": lambda state: np.array([math.nan * state.k]),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_step_rule_of_ones_own_that_leaves_the_segment(step: Callable[[Any], Any]) -> None:
    check(
        lambda: cg.minimize(F, G, step=step, max_iter=3), (TypeError, ValueError), r"(?i)step rule"
    )


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


@pytest.mark.parametrize(("call", "error", "match"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_what_a_function_of_ones_own_returns(
    call: Callable[[Any], Any], error: type[Exception], match: str
) -> None:
    check(lambda: solve(call), error, match)


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


@pytest.mark.parametrize("k", [0, 1, 7])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_turns_bad_names_the_iteration(k: int, bad: float) -> None:
    check(
        lambda: solve(turning(k, value=bad), tol=0.0),
        cg.NotFiniteError,
        rf"iteration {k}\b.*value {bad}\b",
    )


def test_a_bad_value_does_not_accuse_the_gradient() -> None:
    with pytest.raises(cg.NotFiniteError, match="value nan") as caught:
        solve(turning(0, value=math.nan))
    assert "gradient" not in str(caught.value)


@pytest.mark.parametrize("k", [0, 1, 7])
def test_a_gradient_that_turns_bad_names_the_iteration(k: int) -> None:
    check(
        lambda: solve(turning(k, slope=math.nan), tol=0.0),
        cg.NotFiniteError,
        rf"iteration {k}\b.*gradient.*NaN",
    )


def test_a_function_of_ones_own_may_fail_in_its_own_way() -> None:
    check(lambda: solve(lambda x: (1 / 0, x)), ZeroDivisionError, "division by zero")


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


@pytest.mark.parametrize(("argmin", "error", "match"), ORACLES.values(), ids=ORACLES.keys())
def test_what_an_oracle_of_ones_own_returns(
    argmin: Callable[[Any], Any], error: type[Exception], match: str
) -> None:
    check(lambda: solve_with(argmin), error, match)


def test_a_bound_above_the_value_is_no_proof() -> None:
    """A bound far above F(x) proves that the oracle is wrong; it must not pass for a gap of zero."""
    check(
        lambda: solve_with(lambda c: cg.Answer(vertex(c), 100.0)),
        (ValueError, ArithmeticError),
        r"bound",
    )


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (lambda x: math.nan * x[0], cg.NotFiniteError, r"iteration 0"),
        (nothing, TypeError, r"value.*None"),
        (lambda x: x, ValueError, r"value.*(scalar|one number).*\(3,\)"),
    ],
    ids=["NaN", "nothing", "an array"],
)
def test_what_the_value_of_an_oracle_returns(
    value: Callable[[Any], Any], error: type[Exception], match: str
) -> None:
    check(lambda: solve_with(vertex, value), error, match)


def test_gradient_of_an_oracle_has_a_shape() -> None:
    g = cg.simple.Oracle(
        lambda x: 0.0 * x[0], vertex, on=cg.sets.Simplex(3), gradient=lambda x: np.zeros(len(x) - 1)
    )
    check(lambda: cg.minimize(F, g, method="cg"), ValueError, r"gradient.*\(3,\).*\(2,\)")


class TestTwoLibraries:
    """NumPy and torch do not mix by accident."""

    def test_x0(self, torch: ModuleType) -> None:
        check(lambda: cg.minimize(F, G, x0=torch.zeros(3)), TypeError, r"x0.*torch.*numpy")

    def test_x0_of_numpy(self, torch: ModuleType) -> None:
        f = cg.smooth.LeastSquares(torch.tensor(A), torch.tensor(Y))
        check(lambda: cg.minimize(f, G, x0=np.zeros(3)), TypeError, r"x0.*numpy.*torch")

    def test_sparse_tensors(self, torch: ModuleType) -> None:
        for sparse in (torch.tensor(A).to_sparse(), torch.tensor(A).to_sparse().coalesce()):
            check(
                lambda A=sparse: cg.smooth.LeastSquares(A, torch.tensor(Y)),
                TypeError,
                r"A must be a dense tensor",
            )

    def test_targets(self, torch: ModuleType) -> None:
        check(
            lambda: cg.smooth.LeastSquares(A, torch.tensor(Y)),
            TypeError,
            r"y must be of the same library.*torch tensor",
        )

    def test_cost_and_plans(self, torch: ModuleType) -> None:
        plans = cg.simple.Zero(on=cg.sets.Transport([0.5, 0.5], [0.5, 0.5]))
        check(
            lambda: cg.minimize(cg.smooth.Linear(torch.ones(2, 2)), plans),
            TypeError,
            r"numpy.*torch|torch.*numpy",
        )

    def test_sum(self, torch: ModuleType) -> None:
        other = cg.smooth.LeastSquares(torch.tensor(A), torch.tensor(Y))
        check(lambda: cg.minimize(F + other, G), TypeError, r"numpy.*torch|torch.*numpy")

    def test_gradient_of_ones_own(self, torch: ModuleType) -> None:
        check(
            lambda: solve(lambda x: (0.5 * float(x @ x), torch.tensor(x))),
            TypeError,
            r"gradient.*torch",
        )

    def test_point_of_an_oracle(self, torch: ModuleType) -> None:
        check(lambda: solve_with(lambda c: torch.tensor(vertex(c))), TypeError, r"oracle.*torch")

    def test_torch_function_without_a_scalar(self, torch: ModuleType) -> None:
        check(lambda: solve(lambda x: x * x, x0=torch.zeros(3)), TypeError, r"one scalar.*\(3,\)")


def test_an_oracle_that_leaves_its_set() -> None:
    """A point outside would be certified as better than every point inside."""
    f = cg.smooth.Function(lambda x: (0.5 * float(np.sum((x - 3.0) ** 2)), x - 3.0))
    g = cg.simple.Oracle(
        lambda x: 0.0 * x[0], lambda c: -3.0 * np.sign(c), on=cg.sets.Box(-np.ones(5), np.ones(5))
    )
    check(lambda: cg.minimize(f, g), cg.ContradictionError, r"Oracle.*outside Box.*by 2")


def test_fixed_point_with_newton() -> None:
    f = cg.smooth.Linear(np.ones((2, 2)))
    g = cg.simple.Entropy(1.0, on=cg.sets.Transport([0.5, 0.5], [0.5, 0.5]))
    stop = cg.stopping.FixedPoint(1e-5)
    check(
        lambda: cg.minimize(f, g, method="newton", stop=stop),
        cg.MissingAbility,
        r"FixedPoint.*gradient",
    )
