"""The unit of F decides nothing: multiplying f and g by c gives the same run, for every method.

For a power of two no rounding differs, so the same x comes back bit for bit; for any other c the same status and, up to
one, the same iterations. What a gap is measured against is stated in `condgrad.certificate`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import condgrad as cg

Array = NDArray[Any]
RNG = np.random.default_rng(0)
Z = RNG.standard_normal((30, 40))
LABELS = np.where(Z[:, :4].sum(axis=1) + RNG.standard_normal(30) > 0.0, 1.0, -1.0)
TARGET = Z[:, :4].sum(axis=1) + 0.3 * RNG.standard_normal(30)
COST = RNG.random((9, 7))
POINTS = RNG.standard_normal((9, 2)), RNG.standard_normal((7, 2))
SUBSETS = RNG.integers(0, 2, 9)

Problem = Callable[[float, Any], tuple[cg.smooth.Smooth, cg.simple.Simple]]


def squares(c: float, dtype: Any) -> Any:
    return c * cg.smooth.LeastSquares(Z.astype(dtype), TARGET)


def logistic(c: float, dtype: Any) -> Any:
    return c * cg.smooth.Logistic(Z.astype(dtype), LABELS, intercept=True)


def hinge(c: float, dtype: Any) -> Any:
    return cg.smooth.SquaredHinge(Z.astype(dtype), LABELS, sample_weight=np.full(30, c))


def own(c: float, dtype: Any) -> Any:
    A, y = Z.astype(dtype), TARGET.astype(dtype)

    def both(x: Array) -> tuple[float, Array]:
        r = A @ x - y
        return 0.5 * c * float(r @ r), (dtype(c) * (A.T @ r)).astype(dtype)

    return cg.smooth.Function(both)


def transport(dtype: Any) -> Any:
    return cg.sets.Transport(np.full(9, 1 / 9, dtype=dtype), np.full(7, 1 / 7, dtype=dtype))


def with_laplacian(c: float, dtype: Any) -> Any:
    Xs, Xt = (X.astype(dtype) for X in POINTS)
    laplacian = cg.transport.Laplacian(Xs, Xt, weight=3.0, neighbors=3).smooth_part()
    return c * (cg.smooth.Linear(COST.astype(dtype)) + laplacian)


def with_groups(c: float, dtype: Any) -> Any:
    return cg.smooth.Linear((c * COST).astype(dtype)) + c * cg.smooth.GroupLasso(
        SUBSETS, weight=0.1
    )


def start(n: int, dtype: Any) -> Array:
    return np.full(n, 1.0 / n, dtype=dtype)


def ridge(weight: float, on: Any) -> Any:
    return lambda c, _: cg.simple.Ridge(c * weight, on=on)


PROBLEMS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "squares, ridge, l1": (
        squares,
        ridge(0.5, cg.sets.L1Ball(2.0)),
        ("cgs", "cg", "spg", "pqn", "auto"),
    ),
    "logistic, ridge, l2": (
        logistic,
        ridge(0.5, cg.sets.L2Ball(2.0)),
        ("cgs", "cg", "spg", "pqn", "auto"),
    ),
    "hinge, nothing, box": (
        hinge,
        lambda _, __: cg.simple.Zero(on=cg.sets.Box(-0.04, 0.05)),
        ("cgs", "spg", "pqn", "auto"),
    ),
    "squares, entropy, simplex": (
        squares,
        lambda c, _: cg.simple.Entropy(c * 3.0, on=cg.sets.Simplex(40, 2.0)),
        ("cgs", "cg", "auto"),
    ),
    "squares, l1 norm, l1": (
        squares,
        lambda c, _: cg.simple.L1Norm(c * 0.3, on=cg.sets.L1Ball(2.0)),
        ("cgs", "auto"),
    ),
    "own, ridge, l1": (own, ridge(0.5, cg.sets.L1Ball(2.0)), ("cgs", "cg", "spg", "pqn", "auto")),
    "laplacian, entropy": (
        with_laplacian,
        lambda c, dtype: cg.simple.Entropy(c * 0.05, on=transport(dtype)),
        ("cgs", "newton", "auto"),
    ),
    "groups, entropy": (
        with_groups,
        lambda c, dtype: cg.simple.Entropy(c * 0.05, on=transport(dtype)),
        ("cgs", "newton", "auto"),
    ),
    "laplacian, nothing": (
        with_laplacian,
        lambda _, dtype: cg.simple.Zero(on=transport(dtype)),
        ("cg",),
    ),
}
CASES = [(name, method) for name, (_, _, methods) in PROBLEMS.items() for method in methods]
MEMORY = [
    (name, "memory")
    for name in ("squares, ridge, l1", "squares, entropy, simplex", "own, ridge, l1")
]


@functools.cache
def in_unit_one(name: str, method: str, dtype: Any, tol: float) -> cg.Result:
    """What all other units are compared with."""
    return solved(name, method, 1.0, dtype, tol)


def solved(name: str, method: str, c: float, dtype: Any, tol: float) -> cg.Result:
    f, g, _ = PROBLEMS[name]
    options: dict[str, Any] = (
        {"method": "cgs", "memory": 3} if method == "memory" else {"method": method}
    )
    x0 = np.zeros(40, dtype=dtype) if name.startswith("own") else None
    return cg.minimize(f(c, dtype), g(c, dtype), x0, tol=tol, max_iter=50, **options)


@pytest.mark.parametrize("power", [-39, 38])
@pytest.mark.parametrize(("name", "method"), CASES + MEMORY)
def test_a_power_of_two_changes_not_a_bit(name: str, method: str, power: int) -> None:
    one, other = (
        in_unit_one(name, method, np.float64, 1e-6),
        solved(name, method, 2.0**power, np.float64, 1e-6),
    )
    assert (one.status, one.iterations) == (other.status, other.iterations)
    np.testing.assert_array_equal(one.x, other.x)
    assert 2.0**power * one.value == other.value
    assert one.relative_gap == other.relative_gap


@pytest.mark.parametrize(("name", "method"), CASES + MEMORY)
@pytest.mark.parametrize(
    ("dtype", "decades", "tol"), [(np.float64, 12.0, 1e-6), (np.float32, 6.0, 1e-2)]
)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_no_unit_changes_a_decision(
    name: str, method: str, dtype: Any, decades: float, tol: float, data: st.DataObject
) -> None:
    c = 10.0 ** data.draw(st.floats(-decades, decades))
    one, other = in_unit_one(name, method, dtype, tol), solved(name, method, c, dtype, tol)
    assert one.status is other.status
    assert abs(one.iterations - other.iterations) <= 1
    assert other.lower_bound <= c * one.value * (1.0 + 1e-5 * np.sign(one.value))


def test_small_is_not_solved() -> None:
    """The null model of a tiny problem is as far from its optimum as that of a large one."""
    f = 1e-8 * cg.smooth.LeastSquares(Z, TARGET)
    r = cg.minimize(f, cg.simple.Ridge(1e-9, on=cg.sets.L1Ball(3.0)))
    assert r.success
    assert r.iterations > 0
    assert r.gap <= 1e-4 * r.value


def test_interpolation_is_measured_by_the_null_model() -> None:
    """F* = 0: no gap is small beside it, but it is beside what x = 0 loses."""
    x = np.zeros(40)
    x[:3] = 0.5
    f, g = cg.smooth.LeastSquares(Z, Z @ x), cg.simple.Zero(on=cg.sets.L1Ball(3.0))
    null = 0.5 * float((Z @ x) @ (Z @ x))
    for x0 in (None, 0.999 * x):
        r = cg.minimize(f, g, x0, method="spg", tol=1e-8)
        assert r.success
        assert r.scale == pytest.approx(0.01 * null)
        assert r.gap <= 1e-10 * null


def test_terms_that_cancel_keep_their_size() -> None:
    """A cost and an entropy may add up to 0 at the optimum; the scale is theirs."""
    cost = COST - COST.min()
    P = cg.sets.Transport(np.full(9, 1 / 9), np.full(7, 1 / 7))
    entropy = cg.simple.Entropy(0.1, on=P)
    value = cg.minimize(cg.smooth.Linear(cost), entropy, tol=1e-12).value
    r = cg.minimize(cg.smooth.Linear(cost - value), entropy, tol=1e-9)
    assert r.success
    assert abs(r.value) <= 1e-8
    assert r.scale >= 0.1


def test_a_start_near_the_solution_is_measured_as_any_other() -> None:
    f, g = squares(1.0, np.float64), cg.simple.Ridge(0.5, on=cg.sets.L1Ball(2.0))
    best = cg.minimize(f, g, tol=1e-9)
    again = cg.minimize(f, g, best.x, tol=1e-8)
    assert again.iterations == 0
    assert again.scale == pytest.approx(best.scale)


def test_the_scale_is_where_f_is_known() -> None:
    """An f that is not finite at the null point is measured by its start."""

    def barrier(x: Array) -> tuple[float, Array]:
        return (
            (-float(np.log(x).sum()), -1.0 / x) if (x > 0.0).all() else (np.inf, np.zeros_like(x))
        )

    x0 = np.full(3, 0.5)
    r = cg.minimize(
        cg.smooth.Function(barrier),
        cg.simple.Ridge(1.0, on=cg.sets.Box(0.0, 2.0)),
        x0,
        method="spg",
    )
    assert r.success
    np.testing.assert_allclose(r.x, np.sqrt(0.5), rtol=1e-3)


@pytest.mark.parametrize("power", [-460, -252, 300, 460])
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize(
    ("plan", "method"), [("dense", "newton"), ("streamed", "newton"), ("streamed", "cgs")]
)
def test_the_unit_of_length_changes_not_a_bit(
    plan: str, method: str, weight: float, power: int
) -> None:
    """Points in units of 1e-139 to 1e138, and costs in their squares: nothing but the unit changes.

    POT's Sinkhorn judges the plan of unit 1, where there is no Laplacian.
    """
    Xs, Xt = POINTS[0][:3], POINTS[1][:3]

    def solved_in(unit: float) -> cg.transport.TransportResult:
        laplacian = cg.transport.Laplacian(unit * Xs, unit * Xt, weight, neighbors=1)
        return cg.transport.solve(
            cg.transport.SquaredEuclidean(unit * Xs, unit * Xt),
            entropy=0.5 * unit**2,
            regularizers=[laplacian] if weight else [],
            plan=plan,
            method=method,
            max_iter=200,
            tol=1e-8,
        )

    one, other = solved_in(1.0), solved_in(2.0**power)
    assert one.success
    assert (other.status, other.iterations) == (one.status, one.iterations)
    assert other.value * 4.0**-power == one.value
    assert other.lower_bound * 4.0**-power == one.lower_bound
    np.testing.assert_array_equal(other.dense(), one.dense())
    if not weight:
        uniform = np.full(3, 1.0 / 3.0)
        judged = ot.sinkhorn(uniform, uniform, cdist(Xs, Xt, "sqeuclidean"), 0.5, stopThr=1e-9)
        np.testing.assert_allclose(one.dense(), judged, atol=1e-4)
