"""The duals of least squares and a squared hinge: against Clarabel, and as a part of Newton's method."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
from condgrad import deadline
from condgrad.ball.sample_dual import SampleDual

Array = np.ndarray


def data(seed: int, *, shape: tuple[int, int] = (30, 80)) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    K = rng.standard_normal(shape)
    return K, np.where(K[:, :5].sum(axis=1) + rng.standard_normal(shape[0]) > 0.5, 1.0, -1.0)


def least_by_clarabel(f: Any, K: Array, y: Array, w: Array, ridge: float, on: Any) -> float:
    x, b = cp.Variable(K.shape[1], nonneg=on.nonnegative), cp.Variable()
    z = K @ x + (b if f.h.has_intercept else 0.0)
    is_hinge = isinstance(f, cg.smooth.SquaredHinge)
    short, weights = (cp.pos(1.0 - cp.multiply(y, z)), w) if is_hinge else (z - y, 0.5 * w)
    objective = cp.sum(cp.multiply(weights, cp.square(short))) + ridge * cp.sum_squares(x)
    return float(
        cp.Problem(cp.Minimize(objective), [cp.norm1(x) <= on.scale]).solve(solver="CLARABEL")
    )


@pytest.mark.parametrize("loss", [cg.smooth.LeastSquares, cg.smooth.SquaredHinge])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("ridge", "radius"), [(1.0, 0.3), (1.0, 1.5), (0.1, 3.0), (1e-2, 4.0), (1e-2, 50.0)]
)
@pytest.mark.parametrize(("weighted", "sparse"), [(False, True), (True, False)])
@pytest.mark.parametrize("kind", [cg.sets.L1Ball, cg.sets.SolidSimplex])
def test_it_agrees_with_clarabel(
    loss: Any, intercept: bool, ridge: float, radius: float, weighted: bool, sparse: bool, kind: Any
) -> None:
    """On the boundary and inside, and with samples that have no weight."""
    K, y = data(1)
    if kind is cg.sets.SolidSimplex:  # so that as many features matter
        K = np.hstack([K, -K])
    w = np.random.default_rng(2).choice([0.0, 0.5, 3.0], len(y)) if weighted else np.ones(len(y))
    f = loss(scipy.sparse.csr_array(K) if sparse else K, y, sample_weight=w, intercept=intercept)
    on = kind(radius)
    x = SampleDual(f, cg.simple.Ridge(ridge, on=on)).least(np.zeros(len(y)))
    assert on.violation(x) <= 1e-15 * radius
    least = least_by_clarabel(f, K, y, w, ridge, on)
    assert f.at(x).value + ridge * x @ x == pytest.approx(least, rel=1e-5)


def test_a_good_start_saves_steps() -> None:
    K, y = data(3)
    f, on = cg.smooth.SquaredHinge(K, y, intercept=True), cg.sets.L1Ball(1.0)
    g = cg.simple.Ridge(0.1, on=on)
    cold, warm = SampleDual(f, g), SampleDual(f, g)
    x = cold.least(np.zeros(len(y)))
    again = warm.least(f.at(x).theta)
    assert warm.steps <= 1 < cold.steps
    np.testing.assert_allclose(again, x, atol=1e-6)


def test_where_few_coordinates_matter_it_ends_at_a_point_of_the_set() -> None:
    """There it takes too many steps: Newton's method in x goes on from the best of its points."""
    K, y = data(4)
    f, on = cg.smooth.SquaredHinge(K, y, intercept=True), cg.sets.L1Ball(1.5)
    dual = SampleDual(f, cg.simple.Ridge(1e-4, on=on))
    x = dual.least(np.zeros(len(y)))
    assert dual.steps <= 30
    assert on.violation(x) <= 1e-15
    assert f.at(x).value + 1e-4 * x @ x < f.at(0.0 * x).value


def test_it_ends_when_time_is_up() -> None:
    K, y = data(5)
    dual = SampleDual(cg.smooth.SquaredHinge(K, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)))
    with deadline.within(0.0):
        x = dual.least(np.zeros(len(y)))
    assert dual.steps == 0
    assert not x.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.8, 1.2])
@pytest.mark.parametrize("kind", [cg.sets.L1Ball, cg.sets.SolidSimplex])
def test_newton_near_the_idle_radius_takes_few_steps(share: float, dtype: type, kind: Any) -> None:
    """In x it takes 60 steps and more: samples whose hinge is flat end them soon."""
    K, y = data(6, shape=(100, 3000))
    f = cg.smooth.SquaredHinge(K.astype(dtype), y, intercept=True)
    free = cg.minimize(f, cg.simple.Ridge(1e-2, on=kind(100.0)), method="newton")
    on = kind(share * float(np.abs(free.x).sum()))
    result = cg.minimize(
        f, cg.simple.Ridge(1e-2, on=on), method="newton", tol=1e-4 if dtype == np.float32 else 1e-6
    )
    assert result.success
    assert result.trace["inner_iterations"][-1] <= 40
    assert on.violation(result.x) == 0.0


def test_newton_takes_it_for_nearly_interpolated_squares_of_sparse_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More coordinates than samples; not so where few coordinates matter."""
    rng = np.random.default_rng(8)
    K = scipy.sparse.random_array((400, 1500), density=0.05, rng=rng, format="csc")
    f = cg.smooth.LeastSquares(K, np.sign(rng.standard_normal(400)), intercept=True)
    found: list[Array] = []
    least = SampleDual.least
    monkeypatch.setattr(
        SampleDual, "least", lambda self, theta: found.append(least(self, theta)) or found[-1]
    )
    for ridge, radius, taken in ((1e-3, 140.0, 1), (1e-3, 10.0, 0)):
        found.clear()
        result = cg.minimize(f, cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius)), method="newton")
        assert result.success
        assert len(found) == taken
        if taken:
            np.testing.assert_allclose(result.x, found[0], atol=1e-6)


def test_a_dual_that_is_singular_to_rounding_ends_in_a_proof() -> None:
    rng = np.random.default_rng(3)
    K = 1e4 * rng.standard_normal((6, 300))
    K[:, 0] *= 1e9
    f = cg.smooth.SquaredHinge(
        K, [1, -1, 1, -1, 1, -1], sample_weight=10.0 ** rng.uniform(-12, 0, 6), intercept=True
    )
    result = cg.minimize(
        f, cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1000.0)), method="newton", tol=1e-8
    )
    assert result.status is cg.Status.CONVERGED
