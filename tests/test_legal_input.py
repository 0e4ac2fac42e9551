"""Legal input that is hard: every run ends with a certificate that holds, and without a warning.

Some of it users and random problems found, each as the case that showed a fault.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from scipy.optimize import linprog
from scipy.special import logsumexp

import condgrad as cg
from condgrad import Status
from tests.matrix.problems import PRECISIONS

RNG = np.random.default_rng(11)
A = RNG.standard_normal((20, 6))
Y = RNG.standard_normal(20)
LABELS = np.where(Y > 0, 1.0, -1.0)
RIDGE = 0.1
STEPS = ("exact", "armijo", "short", "open-loop")
LOSSES = ("LeastSquares", "Logistic", "SquaredHinge")


def loss(kind: str, data: Any, scale: float = 1.0) -> Any:
    """A loss by name, its data multiplied by a number."""
    target = Y if kind == "LeastSquares" else LABELS
    return getattr(cg.smooth, kind)(scale * data, target)


def simple(kind: str, n: int, radius: float = 1.0, weight: float = RIDGE) -> Any:
    """A simple part by name, on a set of size `radius`."""
    ball, simplex = cg.sets.L1Ball(radius), cg.sets.Simplex(n, radius)
    return {
        "ridge on the l1 ball": lambda: cg.simple.Ridge(weight, on=ball),
        "ridge on the l2 ball": lambda: cg.simple.Ridge(weight, on=cg.sets.L2Ball(radius)),
        "ridge on a box": lambda: cg.simple.Ridge(weight, on=cg.sets.Box(-radius, radius)),
        "zero on the l1 ball": lambda: cg.simple.Zero(on=ball),
        "zero on the simplex": lambda: cg.simple.Zero(on=simplex),
        "l1 norm": lambda: cg.simple.L1Norm(weight, on=ball),
        "entropy": lambda: cg.simple.Entropy(weight, on=simplex),
    }[kind]()


SIMPLE = (
    "ridge on the l1 ball",
    "ridge on the l2 ball",
    "ridge on a box",
    "zero on the l1 ball",
    "zero on the simplex",
    "l1 norm",
    "entropy",
)


def outside(on: Any, x: Any) -> float:
    """How far x is outside its set, relative to the set's size, computed here."""
    x = np.asarray(x, dtype=np.float64)
    if isinstance(on, cg.sets.L1Ball):
        return (np.abs(x).sum() - on.radius) / (on.radius or 1.0)
    if isinstance(on, cg.sets.L2Ball):
        return (math.sqrt(float(x @ x)) - on.radius) / (on.radius or 1.0)
    if isinstance(on, cg.sets.Simplex):
        return max(-x.min(), abs(x.sum() - on.mass)) / (on.mass or 1.0)
    return max((on.lower - x).max(), (x - on.upper).max()) / (np.abs(on.upper).max() or 1.0)


def assert_certified(r: cg.Result, f: Any, g: Any, *, tolerance: float = 1e-9) -> None:
    """The bound is below the value, both are finite, the value is F(x), and x is where it should be."""
    assert math.isfinite(r.value)
    assert math.isfinite(r.lower_bound)
    assert r.lower_bound <= r.value
    x = np.asarray(r.x, dtype=np.float64)
    assert np.isfinite(x).all()
    assert outside(g.on, x) <= tolerance
    assert r.value == pytest.approx(f.at(x).value + g.value(x), rel=1e-9)


def assert_bounds_hold(r: cg.Result, f: Any, g: Any, points: list[Any]) -> None:
    """The bound is below F at other points of the set too."""
    for point in points:
        value = f.at(point).value + g.value(point)
        assert r.lower_bound <= value + 1e-12 * abs(value)


class TestScales:
    """Data, radius and weights far from one."""

    @pytest.mark.parametrize("kind", LOSSES)
    @pytest.mark.parametrize("g", SIMPLE)
    @pytest.mark.parametrize("scale", [1e8, 1e-8])
    def test_data(self, kind: str, g: str, scale: float) -> None:
        f, part = loss(kind, A, scale), simple(g, 6)
        corner = np.eye(6)[2]
        for step in STEPS:
            r = cg.minimize(f, part, step=step, max_iter=20)
            assert_certified(r, f, part)
            assert_bounds_hold(r, f, part, [corner, part.on.project(np.zeros(6))])

    @pytest.mark.parametrize("g", SIMPLE)
    @pytest.mark.parametrize("radius", [1e-8, 1e8, 0.0])
    def test_radius(self, g: str, radius: float) -> None:
        f, part = loss("LeastSquares", A), simple(g, 6, radius=radius)
        for step in STEPS:
            r = cg.minimize(f, part, step=step, max_iter=60)
            assert_certified(r, f, part)
            assert_bounds_hold(r, f, part, [radius * np.eye(6)[2], part.on.project(np.zeros(6))])

    @pytest.mark.parametrize("radius", [1e-8, 1e-3])
    def test_a_small_set_is_no_obstacle(self, radius: float) -> None:
        f, part = loss("LeastSquares", A), simple("ridge on the l1 ball", 6, radius=radius)
        r = cg.minimize(f, part, tol=1e-12)
        # F is linear at this size: the best vertex is the answer
        slopes = A.T @ Y
        best = np.zeros(6)
        best[np.argmax(np.abs(slopes))] = radius * np.sign(slopes[np.argmax(np.abs(slopes))])
        assert r.status is Status.CONVERGED
        assert f.at(r.x).value <= f.at(best).value + 1e-12

    @pytest.mark.parametrize("weight", [1e-10, 1e10])
    @pytest.mark.parametrize("memory", [0, 3])
    def test_ridge(self, weight: float, memory: int) -> None:
        f, part = loss("LeastSquares", A), simple("ridge on the l1 ball", 6, weight=weight)
        steps = ("exact",) if memory else STEPS
        for step in steps:
            r = cg.minimize(f, part, step=step, memory=memory, max_iter=100)
            assert_certified(r, f, part)
            assert_bounds_hold(r, f, part, [np.zeros(6)])

    def test_a_huge_ridge_is_solved(self) -> None:
        weight = 1e10
        r = cg.minimize(
            loss("LeastSquares", A), simple("ridge on the l1 ball", 6, weight=weight), tol=1e-10
        )
        closed = np.linalg.solve(A.T @ A + 2.0 * weight * np.eye(6), A.T @ Y)
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, closed, rtol=1e-3)

    @pytest.mark.parametrize("weight", [1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6, 1e8])
    def test_entropy_against_a_linear_cost(self, weight: float) -> None:
        cost = RNG.standard_normal(6)
        f, part = cg.smooth.Linear(cost), simple("entropy", 6, weight=weight)
        r = cg.minimize(f, part)
        least = -weight * logsumexp(-cost / weight)
        assert r.status is Status.CONVERGED
        assert_certified(r, f, part)
        assert r.lower_bound <= least + 1e-12 * abs(least)
        assert r.value >= least - 1e-12 * abs(least)
        assert r.gap <= 1e-6 * r.scale

    @pytest.mark.parametrize("weight", [1e-6, 1e-2, 1e2, 1e6])
    @pytest.mark.parametrize(
        ("method", "step"),
        [
            *(("cgs", step) for step in STEPS),
            ("cg", "exact"),
            ("cg", "armijo"),
            ("cg", "open-loop"),
        ],
    )
    def test_entropy_against_least_squares(self, weight: float, step: str, method: str) -> None:
        f, part = loss("LeastSquares", A), simple("entropy", 6, weight=weight)
        r = cg.minimize(f, part, step=step, method=method, max_iter=100)
        assert_certified(r, f, part)
        assert_bounds_hold(r, f, part, [np.full(6, 1 / 6), *np.eye(6)])

    @pytest.mark.parametrize("mass", [1e-8, 1.0, 1e8])
    def test_transport_against_a_linear_program(self, mass: float) -> None:
        cost = np.abs(RNG.standard_normal((4, 3)))
        a, b = mass * np.full(4, 0.25), mass * np.array([0.5, 0.3, 0.2])
        r = cg.minimize(
            cg.smooth.Linear(cost), cg.simple.Zero(on=cg.sets.Transport(a, b)), tol=1e-8
        )
        rows = np.vstack([np.kron(np.eye(4), np.ones(3)), np.kron(np.ones(4), np.eye(3))])
        least = mass * linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([a, b]) / mass).fun
        assert r.status is Status.CONVERGED
        assert r.lower_bound <= least * (1 + 1e-9)
        assert least * (1 - 1e-9) <= r.value
        np.testing.assert_allclose(r.x.sum(axis=1), a, rtol=1e-9)
        np.testing.assert_allclose(r.x.sum(axis=0), b, rtol=1e-9)
        assert r.x.min() >= 0

    def test_transport_with_weights_of_zero(self) -> None:
        on = cg.sets.Transport([0.5, 0.0, 0.5], [0.0, 1.0])
        r = cg.minimize(
            cg.smooth.Linear(np.arange(6.0).reshape(3, 2)), cg.simple.Zero(on=on), tol=1e-9
        )
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, [[0.0, 0.5], [0.0, 0.0], [0.0, 0.5]], atol=1e-12)
        assert r.lower_bound <= 3.0 <= r.value + 1e-12


class BallAroundOnes(cg.sets.Set):
    """A set of a user's own, whose projection rounds in units of its centre."""

    def __init__(self, radius: float) -> None:
        self.radius, self.scale = radius, radius + 1.0

    def start(self, space: Any) -> Any:
        return space.full(1.0)

    def violation(self, x: Any) -> float:
        return max(0.0, float(((x - 1.0) ** 2).sum()) ** 0.5 - self.radius)

    def project(self, x: Any) -> Any:
        d = x - 1.0
        length = float((d * d).sum()) ** 0.5
        return x if length <= self.radius else 1.0 + (self.radius / length) * d


class TestRounding:
    """The bound is a bound in floating point too: judged in rational arithmetic, at an exactly feasible point."""

    @staticmethod
    def least(column: Any, target: Any, weight: float) -> Fraction:
        """min 1/2 |column x - target|^2 + weight x^2 over 0 <= x <= 1, without rounding."""
        d, t = [Fraction(float(v)) for v in column], [Fraction(float(v)) for v in target]
        bend = sum(v * v for v in d) + 2 * Fraction(weight)
        x = min(Fraction(1), max(Fraction(0), sum(v * w for v, w in zip(d, t, strict=True)) / bend))
        return (
            sum((v * x - w) ** 2 for v, w in zip(d, t, strict=True)) / 2 + Fraction(weight) * x * x
        )

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("mean", [0.0, 1e3])
    @pytest.mark.parametrize("noise", [1e-3, 1e-1])
    def test_data_with_a_large_mean(self, dtype: type, mean: float, noise: float) -> None:
        """A'(Ax - y) cancels: its rounding is far above that of F, and the bound must allow for it."""
        weight, excess = 1e-3, []
        part = cg.simple.Ridge(weight, on=cg.sets.Box(np.zeros(1), np.ones(1)))
        for seed in range(25):
            rng = np.random.default_rng(seed)
            data = (rng.standard_normal((60, 1)) + mean).astype(dtype)
            target = 0.3 * data[:, 0].astype(np.float64) + noise * rng.standard_normal(60)
            r = cg.minimize(cg.smooth.LeastSquares(data, target), part, tol=0.0, max_iter=20)
            least = self.least(data[:, 0], target, weight)
            excess.append(float((Fraction(r.lower_bound) - least) / least))
        # a few rounding units of F* itself are forgiven, in float64 whatever the data
        assert max(excess) <= 4 * np.finfo(np.float64).eps

    def test_a_perfect_fit_has_no_positive_bound(self) -> None:
        for seed in range(20):
            rng = np.random.default_rng(seed)
            data = rng.integers(-1000, 1000, (12, 4)).astype(float)
            inside = np.array([0.5, 0.25, 0.125, 0.125])
            part = cg.simple.Zero(on=cg.sets.Simplex(4))
            r = cg.minimize(
                cg.smooth.LeastSquares(data, data @ inside), part, tol=0.0, memory=4, max_iter=60
            )
            assert r.lower_bound <= 0.0 <= r.value

    def test_entropies_that_cancel_claim_nothing_in_float32(self) -> None:
        """Terms of size 1e5 log 4 cancel in the oracle's bound: F* is 4.499775, not the 4.5 that was once proved."""
        g = cg.simple.Entropy(1e5, on=cg.sets.Simplex(4, 4.0))
        A = np.array([[0, 1, 2, 3]], dtype=np.float32)
        assert cg.minimize(cg.smooth.LeastSquares(A, [3.0]), g).lower_bound <= 4.499775

    def test_an_entropy_far_above_the_cost_is_no_contradiction(self) -> None:
        cost = np.random.default_rng(0).random((2, 3))
        assert cg.transport.solve(
            cost, [3.0, 3.0], [2.0, 2.0, 2.0], entropy=1e6, method="cgs"
        ).success

    @pytest.mark.parametrize("method", ["cgs", "spg", "pqn", "newton", "auto"])
    def test_losses_below_the_numbers_of_float32(self, method: str) -> None:
        """A separable problem: theta is below what float32 can hold, and the bound must know that it was lost."""
        Z = np.array([[10, 3], [7, 10]], dtype=np.float32)
        result = cg.minimize(
            cg.smooth.Logistic(Z, [1, 1]), cg.simple.Zero(on=cg.sets.L1Ball(30.0)), method=method
        )
        assert result.success
        assert result.lower_bound <= 0.0 <= result.value

    @pytest.mark.parametrize("method", ["cgs", "spg", "auto"])
    def test_rounding_where_f_is_zero(self, method: str) -> None:
        """One sample and an intercept: F* = 0, and the residual is nothing but rounding."""
        f = cg.smooth.LeastSquares([[1.0, 2.0]], [3.3e7], intercept=True)
        for x0 in ([0.3, 0.7], [1.0, 0.1]):
            result = cg.minimize(f, cg.simple.Zero(on=cg.sets.Box(0.0, 1.0)), x0, method=method)
            assert result.lower_bound <= 0.0

    def test_a_projection_that_rounds_in_units_of_its_centre(self) -> None:
        """|x| is least in the ball at (1 - radius/sqrt(n)) 1, known to more digits than the projection has."""
        n, radius, weight = 13, 3.55, 5.58e6
        least = (
            weight
            * n
            * float(np.longdouble(1.0) - np.longdouble(radius) / np.sqrt(np.longdouble(n))) ** 2
        )
        result = cg.minimize(
            cg.smooth.Linear(np.zeros(n)),
            cg.simple.Ridge(weight, on=BallAroundOnes(radius)),
            tol=0.0,
            max_iter=20,
        )
        assert result.lower_bound <= least

    def test_a_steep_ball_in_float32(self) -> None:
        """A radius over a tiny gradient is beyond float32."""
        answer = cg.sets.L2Ball(30.0).linear_argmin(np.array([3e-39, 4e-39], dtype=np.float32))
        np.testing.assert_allclose(answer.point, [-18.0, -24.0], rtol=1e-5)

    def test_sparse_float32_data(self) -> None:
        Z = scipy.sparse.csr_array(np.array([[-1.3], [0.4]], dtype=np.float32))
        f = cg.smooth.Logistic(Z, [-1.0, 1.0])
        assert cg.minimize(
            f, cg.simple.Zero(on=cg.sets.L1Ball(5.7)), method="auto", tol=1e-4
        ).success


DEGENERATE = {
    "all zero": (np.zeros((5, 4)), np.arange(5.0) - 2.0),
    "zero target": (A[:5, :4], np.zeros(5)),
    "nothing at all": (np.zeros((5, 4)), np.zeros(5)),
    "constant": (np.ones((5, 4)), np.ones(5)),
    "a constant column": (np.hstack([np.ones((5, 1)), A[:5, :3]]), Y[:5]),
    "rank one": (np.outer(Y[:5], [1.0, -2.0, 0.0, 3.0]), Y[:5]),
    "every column twice": (np.hstack([A[:5, :2], A[:5, :2]]), Y[:5]),
    "opposite columns": (np.hstack([A[:5, :2], -A[:5, :2]]), Y[:5]),
    "every row twice": (np.vstack([A[:3, :4], A[:3, :4]]), np.tile(Y[:3], 2)),
    "one sample": (A[:1, :4], Y[:1]),
    "one feature": (A[:5, :1], Y[:5]),
    "one number": (np.array([[2.0]]), np.array([1.0])),
    "many features": (RNG.standard_normal((3, 800)), Y[:3]),
    "many samples": (RNG.standard_normal((800, 3)), RNG.standard_normal(800)),
    "denormal": (A[:5, :4] * 1e-310, Y[:5]),
}


@pytest.mark.parametrize(("data", "target"), DEGENERATE.values(), ids=DEGENERATE.keys())
class TestDegenerateData:
    """Rank-deficient, constant, tiny, lopsided."""

    @pytest.mark.parametrize("kind", ["LeastSquares", "Logistic"])
    @pytest.mark.parametrize(
        "g", ["ridge on the l1 ball", "zero on the simplex", "l1 norm", "entropy"]
    )
    def test_runs(self, data: Any, target: Any, kind: str, g: str) -> None:
        n = data.shape[1]
        labels = np.where(target > 0, 1.0, -1.0)
        f = getattr(cg.smooth, kind)(data, target if kind == "LeastSquares" else labels)
        part = simple(g, n)
        for step in STEPS:
            r = cg.minimize(f, part, step=step, max_iter=30)
            assert_certified(r, f, part)
            assert_bounds_hold(r, f, part, [np.eye(n)[0], np.full(n, 1.0 / n)])

    @pytest.mark.parametrize(
        "g", ["ridge on the l1 ball", "zero on the l1 ball", "l1 norm", "entropy"]
    )
    def test_memory(self, data: Any, target: Any, g: str) -> None:
        n = data.shape[1]
        f, part = cg.smooth.LeastSquares(data, target), simple(g, n)
        for memory in (1, 40):
            r = cg.minimize(f, part, memory=memory, max_iter=30)
            assert_certified(r, f, part)
            assert_bounds_hold(r, f, part, [np.eye(n)[0], np.full(n, 1.0 / n)])


REFERENCE = cg.minimize(cg.smooth.LeastSquares(A, Y), simple("ridge on the l1 ball", 6), tol=1e-8)


def read_only(x: Any) -> Any:
    """A copy that must not be written to."""
    x = np.array(x)
    x.flags.writeable = False
    return x


def strided(x: Any) -> Any:
    """The same numbers as a view into a larger array."""
    wide = np.full((2 * x.shape[0], *(3 * size for size in x.shape[1:])), np.nan)
    view = wide[tuple(slice(None, None, wide.shape[i] // x.shape[i]) for i in range(x.ndim))]
    view[...] = x
    return view


LAYOUTS = {
    "Fortran order": (np.asfortranarray(A), Y),
    "transposed": (np.ascontiguousarray(A.T).T, Y),
    "strided": (strided(A), strided(Y)),
    "negative strides": (A[::-1, ::-1].copy()[::-1, ::-1], Y[::-1].copy()[::-1]),
    "read-only": (read_only(A), read_only(Y)),
    "broadcast": (np.broadcast_to(A, (1, 20, 6))[0], np.broadcast_to(Y, (1, 20))[0]),
    "big-endian": (A.astype(">f8"), Y.astype(">f8")),
    "lists": (A.tolist(), Y.tolist()),
    "tuples": (tuple(map(tuple, A)), tuple(Y)),
    "numpy matrix": (A.view(np.matrix), Y),  # without the warning of `asmatrix`
    "objects": (A.astype(object), Y.astype(object)),
    "longdouble": (A.astype(np.longdouble), Y.astype(np.longdouble)),
    "pandas": (
        pandas.DataFrame(A, columns=list("abcdef")),
        pandas.Series(Y, index=np.arange(20)[::-1]),
    ),
    "pandas of mixed dtypes": (
        pandas.DataFrame(A, dtype=object),
        pandas.Series(Y, dtype="Float64"),
    ),
    "csr": (scipy.sparse.csr_array(A), Y),
    "csc": (scipy.sparse.csc_array(A), Y),
    "coo": (scipy.sparse.coo_array(A), Y),
    "lil": (scipy.sparse.lil_array(A), Y),
    "dok": (scipy.sparse.dok_array(A), Y),
    "csr matrix": (scipy.sparse.csr_matrix(A), Y),
    "lil matrix": (scipy.sparse.lil_matrix(A), Y),
}


class TestLayouts:
    """However the numbers are laid out, the answer is the same."""

    @pytest.mark.parametrize(("data", "target"), LAYOUTS.values(), ids=LAYOUTS.keys())
    @pytest.mark.parametrize("step", ["exact", "short"])
    def test_same_answer(self, data: Any, target: Any, step: str) -> None:
        r = cg.minimize(
            cg.smooth.LeastSquares(data, target),
            simple("ridge on the l1 ball", 6),
            step=step,
            tol=1e-8,
        )
        assert r.status is Status.CONVERGED
        assert type(r.x) is np.ndarray
        assert r.x.dtype == np.float64
        assert r.value == pytest.approx(REFERENCE.value, abs=2e-7)
        np.testing.assert_allclose(r.x, REFERENCE.x, atol=1e-3)

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_whole_numbers(self, dtype: type, sparse: bool) -> None:
        data, target = (np.abs(3 * A)).astype(dtype), (Y > 0).astype(dtype)
        wide = cg.minimize(
            cg.smooth.LeastSquares(data.astype(float), target.astype(float)),
            simple("ridge on the l1 ball", 6),
        )
        f = cg.smooth.LeastSquares(scipy.sparse.csr_array(data) if sparse else data, target)
        r = cg.minimize(f, simple("ridge on the l1 ball", 6), x0=np.zeros(6, dtype=dtype))
        assert r.x.dtype == np.float64
        assert r.value == pytest.approx(wide.value, abs=2e-6)

    @pytest.mark.parametrize(
        "labels", [LABELS > 0, (LABELS > 0).astype(int), LABELS.tolist(), 5.0 + LABELS]
    )
    def test_any_two_labels(self, labels: Any) -> None:
        plain = cg.minimize(cg.smooth.Logistic(A, LABELS), simple("ridge on the l1 ball", 6))
        r = cg.minimize(cg.smooth.Logistic(A, labels), simple("ridge on the l1 ball", 6))
        np.testing.assert_array_equal(r.x, plain.x)

    def test_pandas_labels(self) -> None:
        frame = pandas.DataFrame({"one": A[:, 0], "two": A[:, 1], "ill": LABELS > 0})
        r = cg.minimize(
            cg.smooth.Logistic(frame[["one", "two"]], frame["ill"]),
            simple("ridge on the l1 ball", 2),
        )
        plain = cg.minimize(cg.smooth.Logistic(A[:, :2], LABELS), simple("ridge on the l1 ball", 2))
        np.testing.assert_allclose(r.x, plain.x, atol=1e-6)

    def test_pandas_start_and_weights(self) -> None:
        f = cg.smooth.LeastSquares(A, Y, sample_weight=pandas.Series(np.ones(20)))
        r = cg.minimize(
            f, simple("ridge on the l1 ball", 6), x0=pandas.Series(np.zeros(6)), tol=1e-8
        )
        assert r.value == pytest.approx(REFERENCE.value, abs=2e-7)

    def test_float16_is_widened(self) -> None:
        r = cg.minimize(
            cg.smooth.LeastSquares(A.astype(np.float16), Y), simple("ridge on the l1 ball", 6)
        )
        assert r.x.dtype == np.float32
        assert r.value == pytest.approx(REFERENCE.value, rel=1e-2)


class TestUserFunctions:
    """A user's function returns legal things of unexpected kinds."""

    @staticmethod
    def value(x: Any) -> float:
        return float(np.sum((x - 0.3) ** 2))

    @pytest.mark.parametrize(
        "kind",
        ["list", "float32", "view", "read-only", "0-d value", "numpy value", "1-entry value"],
    )
    def test_kinds(self, kind: str) -> None:
        def call(x: Any) -> Any:
            value, slope = self.value(x), 2.0 * (x - 0.3)
            return {
                "list": lambda: (value, slope.tolist()),
                "float32": lambda: (np.float32(value), slope.astype(np.float32)),
                "view": lambda: (value, strided(slope)),
                "read-only": lambda: (value, read_only(slope)),
                "0-d value": lambda: (np.array(value), slope),
                "numpy value": lambda: (np.float64(value), slope),
                "1-entry value": lambda: (np.array([value]), slope),
            }[kind]()

        r = cg.minimize(cg.smooth.Function(call), simple("ridge on the l1 ball", 3), x0=np.zeros(3))
        exact = min(0.3 / (1.0 + RIDGE), 1.0 / 3.0)
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, exact, atol=1e-2)
        assert r.x.dtype == np.float64

    @pytest.mark.parametrize(
        "on",
        [cg.sets.Simplex(3, 0.5), cg.sets.L1Ball(0.5), cg.sets.Box(0.0, 0.5)],
        ids=["simplex", "ball", "box"],
    )
    def test_whole_numbers_in_the_gradient(self, on: Any) -> None:
        """An integer gradient must not make integer points: half a unit of mass is no integer."""
        cost = np.array([3, 1, 2])
        f = cg.smooth.Function(lambda x: (float(cost @ x), cost))
        start = np.full(3, 0.5 / 3)
        r = cg.minimize(f, cg.simple.Zero(on=on), x0=start)
        least = {"Simplex": 0.5, "L1Ball": -1.5, "Box": 0.0}[type(on).__name__]
        assert r.status is Status.CONVERGED
        assert outside(on, r.x) <= 1e-9
        assert r.value == pytest.approx(least, abs=1e-6)

    def test_whole_numbers_from_the_oracle(self) -> None:
        def argmin(c: Any) -> Any:
            return (np.arange(3) == np.argmin(c)).astype(int)

        g = cg.simple.Oracle(lambda x: 0.0 * x[0], argmin, on=cg.sets.Simplex(3))
        r = cg.minimize(cg.smooth.LeastSquares(np.eye(3), np.zeros(3)), g)
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, 1 / 3, atol=1e-3)

    def test_list_from_the_oracle(self) -> None:
        def argmin(c: Any) -> Any:
            return [float(i == np.argmin(c)) for i in range(3)]

        g = cg.simple.Oracle(lambda x: 0.0 * x[0], argmin, on=cg.sets.Simplex(3))
        r = cg.minimize(cg.smooth.LeastSquares(np.eye(3), np.zeros(3)), g)
        np.testing.assert_allclose(r.x, 1 / 3, atol=1e-3)

    @pytest.mark.parametrize("step", ["exact", "armijo", "open-loop"])
    @pytest.mark.parametrize("memory", [0, 2])
    def test_a_gradient_buffer_that_is_used_again(self, step: str, memory: int) -> None:
        """Reusing one output array is what careful users do; f + f then sees it twice."""
        buffer = np.zeros(6)

        def call(x: Any) -> Any:
            np.copyto(buffer, A.T @ (A @ x - Y))
            return 0.5 * float(np.sum((A @ x - Y) ** 2)), buffer

        memory = memory if step == "exact" else 0
        f, part = cg.smooth.Function(call), simple("ridge on the l1 ball", 6)
        r = cg.minimize(
            f + f, part, x0=np.zeros(6), step=step, memory=memory, max_iter=300, tol=1e-5
        )
        plain = cg.minimize(2.0 * cg.smooth.LeastSquares(A, Y), part, tol=1e-8)
        assert r.lower_bound <= plain.value + 1e-9
        assert r.value == pytest.approx(plain.value, rel=1e-3)


class TestMemory:
    """The corrective memory where it has nothing to correct, or too much."""

    @pytest.mark.parametrize(
        "g", ["ridge on the l1 ball", "zero on the l1 ball", "zero on the simplex", "entropy"]
    )
    def test_more_memory_than_iterations(self, g: str) -> None:
        f, part = loss("LeastSquares", A), simple(g, 6)
        r = cg.minimize(f, part, memory=1000, max_iter=40)
        assert_certified(r, f, part)
        assert r.status is Status.CONVERGED

    def test_the_same_vertex_again_and_again(self) -> None:
        """On a segment the oracle has two answers: the memory is full of duplicates."""
        f, part = cg.smooth.LeastSquares([[1.0, -1.0]], [0.3]), simple("zero on the simplex", 2)
        r = cg.minimize(f, part, x0=[1.0, 0.0], memory=8, tol=1e-12, max_iter=50)
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, [0.65, 0.35], atol=1e-5)

    @pytest.mark.parametrize("weight", [1e-4, 1e-2, 1.0, 1e2])
    @pytest.mark.parametrize("memory", [1, 3])
    @pytest.mark.parametrize("start", ["centre", "vertex"])
    def test_never_worse_than_none_with_the_entropy(
        self, weight: float, memory: int, start: str
    ) -> None:
        f, part = loss("LeastSquares", A), simple("entropy", 6, weight=weight)
        x0 = np.full(6, 1 / 6) if start == "centre" else np.eye(6)[0]
        plain = cg.minimize(f, part, x0=x0, max_iter=60, tol=1e-9)
        r = cg.minimize(f, part, x0=x0, max_iter=60, tol=1e-9, memory=memory)
        assert_certified(r, f, part)
        assert r.gap <= plain.gap + 1e-9 * r.scale

    @pytest.mark.parametrize("kind", LOSSES)
    def test_descends(self, kind: str) -> None:
        r = cg.minimize(
            loss(kind, A), simple("ridge on the l1 ball", 6), memory=10, tol=1e-10, max_iter=200
        )
        rises = np.diff(r.trace["value"])
        assert rises.max() <= 1e-12 * abs(r.value)
        assert r.gap <= 1e-6


class TestSteps:
    """Where a search for the step is hard."""

    def test_exact_steps_never_raise_f(self) -> None:
        f, g = cg.smooth.SquaredHinge([[1e6]], [1]), cg.simple.Ridge(1.0, on=cg.sets.L2Ball(30.0))
        assert (np.diff(cg.minimize(f, g, max_iter=3).trace["value"]) <= 0.0).all()

    def test_a_search_without_curvature_finds_its_step(self) -> None:
        """False position crept along one side of its bracket, and after a hundred trials the step was 0."""
        f, radius, weight = (
            cg.smooth.SquaredHinge([[-1.0, 1.2, -0.2, -1.0, -0.4]], [1]),
            9.76,
            0.0275,
        )
        box = cg.sets.Box(-radius, radius)
        own = cg.simple.Oracle(
            lambda x: weight * float(x @ x),
            lambda c: (-0.5 / weight * c).clip(-radius, radius),
            on=box,
            gradient=lambda x: 2.0 * weight * x,
        )
        best = cg.minimize(f, cg.simple.Ridge(weight, on=box), tol=1e-6)
        assert cg.minimize(f, own, tol=0.0, max_iter=20).value <= 1.1 * best.value


class TestStarts:
    """Where a run begins."""

    @pytest.mark.parametrize("weight", [1e-6, 1e-2, 1.0, 1e2, 1e4, 1e6])
    @pytest.mark.parametrize("method", ["cgs", "cg"])
    @pytest.mark.parametrize("step", ["exact", "armijo", "open-loop"])
    def test_a_vertex_with_the_entropy(self, weight: float, method: str, step: str) -> None:
        f, part = loss("LeastSquares", A), simple("entropy", 6, weight=weight)
        r = cg.minimize(f, part, x0=np.eye(6)[0], method=method, step=step, max_iter=60)
        assert_certified(r, f, part)
        assert_bounds_hold(r, f, part, [np.full(6, 1 / 6), *np.eye(6)])
        assert r.value < f.at(np.eye(6)[0]).value

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_vertex_with_the_entropy_is_left_behind(self, dtype: type) -> None:
        f, part = loss("LeastSquares", A.astype(dtype)), simple("entropy", 6, weight=1.0)
        r = cg.minimize(f, part, x0=np.eye(6)[0], tol=1e-5)
        assert r.status is Status.CONVERGED
        assert r.x.min() > 0

    @pytest.mark.parametrize("g", SIMPLE)
    def test_an_optimal_start(self, g: str) -> None:
        f, part = loss("LeastSquares", A), simple(g, 6)
        best = cg.minimize(f, part, tol=1e-7, max_iter=100_000, memory=0 if g == "l1 norm" else 3)
        assert best.status is Status.CONVERGED
        r = cg.minimize(f, part, x0=best.x, tol=1e-6)
        assert (r.status, r.iterations) == (Status.CONVERGED, 0)
        assert r.value <= best.value

    def test_on_the_boundary(self) -> None:
        f, part = loss("LeastSquares", A), simple("ridge on the l1 ball", 6)
        r = cg.minimize(f, part, x0=np.eye(6)[0], tol=1e-8)
        assert r.value == pytest.approx(REFERENCE.value, abs=2e-7)

    def test_a_set_of_one_point(self) -> None:
        f = loss("LeastSquares", A)
        for part in (
            cg.simple.Ridge(1.0, on=cg.sets.Box(np.ones(6), np.ones(6))),
            simple("entropy", 6, radius=0.0),
        ):
            r = cg.minimize(f, part)
            assert (r.status, r.iterations) == (Status.CONVERGED, 0)


class TestInputsUnmodified:
    """What the user passed is as it was."""

    @pytest.mark.parametrize("kind", LOSSES)
    @pytest.mark.parametrize("array", ["float64", "float32", "torch.float32"])
    @pytest.mark.parametrize(
        ("g", "method"),
        [*((g, "cgs") for g in SIMPLE), *((g, "cg") for g in SIMPLE if g != "l1 norm")],
    )
    def test_arrays(self, g: str, method: str, array: str, kind: str) -> None:
        """NumPy's are read-only; a tensor cannot be."""
        part, precision = simple(g, 6), PRECISIONS[array]
        target = Y if kind == "LeastSquares" else LABELS
        kept = A, target, np.linspace(0.5, 1.5, 20), np.full(6, 1 / 6)
        kept = tuple(precision.rounded(values) for values in kept)
        given = tuple(precision.array(values) for values in kept)
        if precision.library == "numpy":
            for values in given:
                values.flags.writeable = False
        data, targets, weights, start = given
        f = getattr(cg.smooth, kind)(data, targets, sample_weight=weights)
        for options in ({}, {"memory": 3}, {"step": "armijo"}, {"step": "open-loop"}):
            r = cg.minimize(f, part, x0=start, method=method, max_iter=20, **options)
            assert r.iterations > 0
        for values, before in zip(given, kept, strict=True):
            np.testing.assert_array_equal(np.asarray(values), before)

    def test_transport(self) -> None:
        a, b, cost = (
            read_only([0.5, 0.5]),
            read_only([0.25, 0.75]),
            read_only([[1.0, 2.0], [0.0, 1.0]]),
        )
        r = cg.minimize(cg.smooth.Linear(cost), cg.simple.Zero(on=cg.sets.Transport(a, b)))
        assert r.status is Status.CONVERGED
        np.testing.assert_array_equal(cost, [[1.0, 2.0], [0.0, 1.0]])

    def test_box_bounds(self) -> None:
        lower, upper = read_only(np.full(6, -0.1)), read_only(np.full(6, 0.2))
        r = cg.minimize(
            loss("LeastSquares", A), cg.simple.Ridge(RIDGE, on=cg.sets.Box(lower, upper))
        )
        assert r.status is Status.CONVERGED

    def test_the_answer_is_not_the_start_itself(self) -> None:
        """Who writes into r.x does not expect x0 to change."""
        start = cg.minimize(loss("LeastSquares", A), simple("ridge on the l1 ball", 6), tol=1e-9).x
        before = start.copy()
        r = cg.minimize(loss("LeastSquares", A), simple("ridge on the l1 ball", 6), x0=start)
        r.x[:] = 0.0
        np.testing.assert_array_equal(start, before)

    @pytest.mark.parametrize("g", ["ridge on the l1 ball", "entropy"])
    def test_the_answer_of_a_run_is_not_the_callers_array(self, g: str) -> None:
        start = read_only(np.full(6, 1 / 6, dtype=np.float32))
        f = loss("LeastSquares", read_only(A.astype(np.float32)))
        r = cg.minimize(f, simple(g, 6), start, max_iter=50)
        assert r.iterations > 0
        assert not np.shares_memory(r.x, start)

    def test_torch(self, torch: ModuleType) -> None:
        data, target = torch.tensor(A), torch.tensor(Y, requires_grad=True)
        r = cg.minimize(
            cg.smooth.LeastSquares(data, target), simple("ridge on the l1 ball", 6), tol=1e-8
        )
        assert isinstance(r.x, torch.Tensor)
        assert not r.x.requires_grad
        assert r.value == pytest.approx(REFERENCE.value, abs=2e-7)
        np.testing.assert_array_equal(data.numpy(), A)
