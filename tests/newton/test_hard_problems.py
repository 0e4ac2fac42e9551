"""Newton models where they are hard: nearly singular, without curvature, extreme columns, small numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import condgrad as cg
from condgrad.ball import OPTIONS, inside, models
from tests.methods import SMOOTH, microarray

Array = np.ndarray
EVERY_LOSS = pytest.mark.parametrize("loss", SMOOTH)


def quadratic(weight: float, on: Any) -> Any:
    return cg.simple.Ridge(weight, on=on) if weight else cg.simple.Zero(on=on)


def smooth(loss: str, A: Any, y: Any, **options: Any) -> Any:
    return SMOOTH[loss][0](
        A, y if loss == "squares" else np.where(np.asarray(y) > 0, 1.0, -1.0), **options
    )


def correlated(seed: int, m: int, n: int) -> tuple[Array, Array]:
    """Columns that are nearly combinations of a few, as the genes of a microarray are."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((m, 8))
    A = factors @ rng.standard_normal((8, n)) + 0.1 * rng.standard_normal((m, n))
    y = factors[:, 0] + 0.5 * rng.standard_normal(m)
    return (A - A.mean(0)) / A.std(0), y


@EVERY_LOSS
@pytest.mark.parametrize("shape", [(40, 600), (300, 40)], ids=["wide", "tall"])
@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6])
def test_a_grid_of_ill_conditioned_problems(
    loss: str, shape: tuple[int, int], ridge: float
) -> None:
    """From nearly empty models to interpolation, with an intercept and without: all are certified."""
    A, y = correlated(7, *shape)
    for radius, intercept in product((0.3, 3.0, 100.0), (False, True)):
        f, g = smooth(loss, A, y, intercept=intercept), quadratic(ridge, cg.sets.L1Ball(radius))
        result = cg.minimize(f, g, method="newton", tol=1e-6)
        assert result.status is cg.Status.CONVERGED, (radius, intercept, result)
        assert result.gap <= 1e-6 * max(1.0, result.value)
        assert g.on.violation(result.x) <= 1e-15 * radius
        assert np.sum(result.trace["inner_iterations"][-1]) <= 300


@EVERY_LOSS
@pytest.mark.parametrize("ridge", [1e-8, 0.0])
@pytest.mark.parametrize("on", ["l1", "simplex", "solid simplex", "box"])
def test_collinear_columns_without_a_ridge(loss: str, ridge: float, on: str) -> None:
    rng = np.random.default_rng(8)
    base = rng.standard_normal((25, 6))
    A = np.hstack([base, base, 2.0 * base[:, :3], np.zeros((25, 2)), np.ones((25, 1))])
    y = base[:, 0] - base[:, 1] + rng.standard_normal(25)
    n = A.shape[1]
    sets = {"l1": cg.sets.L1Ball(1.0), "simplex": cg.sets.Simplex(n), "box": cg.sets.Box(-0.2, 0.3)}
    P = {**sets, "solid simplex": cg.sets.SolidSimplex(1.0)}[on]
    for intercept in (False, True):
        f, g = smooth(loss, A, y, intercept=intercept), quadratic(ridge, P)
        result = cg.minimize(f, g, method="newton", tol=1e-8)
        assert result.status is cg.Status.CONVERGED
        judge = cg.minimize(f, g, method="spg", tol=1e-6, max_iter=3000)
        assert judge.lower_bound <= result.value + 1e-12
        assert result.lower_bound <= judge.value


@EVERY_LOSS
@pytest.mark.parametrize("on", ["l1", "simplex", "solid simplex", "box"])
@pytest.mark.parametrize("ridge", [1e-3, 0.0])
def test_columns_of_size_ten_million(loss: str, on: str, ridge: float) -> None:
    """The value is that of a fresh K x at a point of the set, and certified where others get nowhere."""
    rng = np.random.default_rng(9)
    A = rng.standard_normal((30, 4)) * np.array([1e7, 1.0, 1e-3, 1e7])
    y = A[:, 1] + rng.standard_normal(30)
    y[:2] = 1.0, -1.0
    sets = {"l1": cg.sets.L1Ball(1.0), "simplex": cg.sets.Simplex(4), "box": cg.sets.Box(-1.0, 1.0)}
    P = {**sets, "solid simplex": cg.sets.SolidSimplex(1.0)}[on]
    for intercept in (False, True):
        f, g = smooth(loss, A, y, intercept=intercept), quadratic(ridge, P)
        result = cg.minimize(f, g, method="newton", tol=1e-5)
        assert result.status is cg.Status.CONVERGED
        assert result.value == pytest.approx(f.at(result.x).value + g.value(result.x), rel=1e-14)
        assert P.violation(result.x) <= 3e-16
        small = cg.sets.Box(-1e-6, 1e-6)
        for x in (
            small.project(rng.standard_normal(4)) for _ in range(20)
        ):  # no point is below the bound
            x = P.project(x)
            assert f.at(x).value + g.value(x) >= result.lower_bound


def with_offsets(seed: int, m: int, n: int, *, full: int, zeros: float) -> tuple[Array, Array]:
    """Columns about 1000, as prices or years are, but for some zeros; all but the first ones hold a few numbers."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    y = A[:, :5] @ rng.standard_normal(5) + rng.standard_normal(m)
    A += 1e3
    A[:, full:] = np.where(rng.random((m, n - full)) < 0.05, A[:, full:] - 1e3, 0.0)
    A[rng.random((m, n)) < zeros] = 0.0
    return A, y


@EVERY_LOSS
@pytest.mark.parametrize("on", [cg.sets.L1Ball, cg.sets.SolidSimplex])
@pytest.mark.parametrize("zeros", [0.0, 0.02])
@pytest.mark.parametrize("full", [190, 40], ids=["offsets in all columns", "in some"])
def test_columns_with_large_offsets(loss: str, on: Any, zeros: float, full: int) -> None:
    """However they are stored, an intercept takes the offsets: all are certified, and no bound contradicts another."""
    A, y = with_offsets(0, 90, 190, full=full, zeros=zeros)
    for radius in (0.1, 1.0, 10.0):
        g = cg.simple.Zero(on=on(radius))
        results = [
            cg.minimize(
                smooth(loss, K, y, intercept=True), g, method="newton", tol=1e-7, max_iter=50
            )
            for K in (A, scipy.sparse.csr_array(A), scipy.sparse.csc_array(A))
        ]
        assert all(result.status is cg.Status.CONVERGED for result in results), (radius, results)
        assert max(result.lower_bound for result in results) <= min(
            result.value for result in results
        )


def test_a_drifted_image_reports_no_value_below_the_least() -> None:
    """Every value of the trace is F at a point of the set, so none is below what SciPy finds."""
    rng = np.random.default_rng(10)
    Z = rng.standard_normal((12, 3)) * np.array([1e7, 1e7, 1.0])
    y = np.where(rng.standard_normal(12) > 0, 1.0, -1.0)
    f, P = cg.smooth.SquaredHinge(Z, y), cg.sets.Box(-1.0, 1.0)
    walk: list[tuple[Array, float]] = []
    cg.minimize(
        f,
        cg.simple.Zero(on=P),
        np.full(3, 0.9),
        method="newton",
        tol=1e-10,
        callback=lambda p: walk.append((p.x, p.value)),
    )
    for x, value in walk:
        assert value == pytest.approx(f.at(x).value, rel=1e-14)


@pytest.mark.parametrize(
    "on",
    [
        cg.sets.Box(-1.0, 1.0),
        cg.sets.L1Ball(1.0),
        cg.sets.Simplex(2),
        cg.sets.SolidSimplex(1.0),
        cg.sets.L1Ball(0.0),
    ],
)
@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("tol", [0.0, 1e-6])
def test_a_sample_of_zeros(on: Any, ridge: float, tol: float) -> None:
    """No gradient and no curvature at all: there is nothing to do, and nothing breaks."""
    result = cg.minimize(
        cg.smooth.SquaredHinge([[0.0, 0.0]], [1]), quadratic(ridge, on), method="newton", tol=tol
    )
    assert result.status in (cg.Status.CONVERGED, cg.Status.STALLED)
    assert result.gap <= 1e-14


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_met_margins_leave_a_linear_function(ridge: float) -> None:
    """A squared hinge with no active sample does not bend; the tilt alone decides, at a vertex."""
    Z, y = np.array([[100.0, 0.0], [100.0, 1.0]]), np.ones(2)
    f = cg.smooth.SquaredHinge(Z, y) + cg.smooth.Linear(np.array([0.0, 1.0]))
    on = cg.sets.Box(np.array([0.5, -1.0]), np.array([1.0, 1.0]))
    result = cg.minimize(f, quadratic(ridge, on), method="newton", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    assert result.x[1] == -1.0


@EVERY_LOSS
def test_weights_of_zero(loss: str) -> None:
    """Samples of no weight are none."""
    A, y = correlated(11, 30, 10)
    weights = np.where(np.arange(30) % 3 == 0, 0.0, 1.5)
    g = cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(1.0))
    with_zeros = cg.minimize(
        smooth(loss, A, y, sample_weight=weights, intercept=True), g, method="newton", tol=1e-9
    )
    kept = weights > 0
    without = cg.minimize(
        smooth(loss, A[kept], y[kept], sample_weight=weights[kept], intercept=True),
        g,
        method="newton",
        tol=1e-9,
    )
    np.testing.assert_allclose(with_zeros.x, without.x, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_an_idle_squared_hinge_takes_a_few_steps(intercept: bool) -> None:
    """As a linear SVM's primal Newton method does; the minimum is SciPy's."""
    Z, y = microarray(12, m=40, n=600)
    f, g = (
        cg.smooth.SquaredHinge(Z, y, intercept=intercept),
        cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1e4)),
    )
    result = cg.minimize(f, g, method="newton", tol=1e-8)
    assert result.status is cg.Status.CONVERGED
    assert result.trace["inner_iterations"][-1] <= 12

    def objective(x: Array) -> tuple[float, Array]:
        value, gradient = f.value_and_gradient(x)
        return value + g.value(x), gradient + g.gradient(x)

    judge = scipy.optimize.minimize(
        objective, np.zeros(600), jac=True, method="L-BFGS-B", options={"gtol": 1e-9}
    )
    assert result.lower_bound <= judge.fun
    assert result.value <= judge.fun + 1e-8


@EVERY_LOSS
@pytest.mark.parametrize("ridge", [1.0, 1e-3])
@pytest.mark.parametrize("stored", [scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_entries_given_twice_add_up(stored: Any, ridge: float, loss: str) -> None:
    """A sparse matrix may hold an entry in parts; the parts stay as they are."""
    rng = np.random.default_rng(0)
    once = stored(rng.standard_normal((15, 60)) * (rng.random((15, 60)) < 0.3))
    shares = rng.random(once.nnz)
    parts = np.stack([shares * once.data, (1.0 - shares) * once.data], axis=1).reshape(-1)
    twice = stored((parts.copy(), np.repeat(once.indices, 2), 2 * once.indptr), shape=once.shape)
    y, g = (
        np.where(rng.random(15) < 0.5, 1.0, -1.0),
        cg.simple.Ridge(ridge, on=cg.sets.L1Ball(20.0)),
    )
    f = smooth(loss, twice, y, intercept=True)
    np.testing.assert_allclose(f.column_norms, np.linalg.norm(once.toarray(), axis=0), rtol=1e-12)
    ends = [
        cg.minimize(h, g, method="newton", tol=1e-10)
        for h in (f, smooth(loss, once.toarray(), y, intercept=True))
    ]
    assert max(end.lower_bound for end in ends) <= min(end.value for end in ends) + 1e-12
    np.testing.assert_allclose(ends[0].x, ends[1].x, atol=1e-4)
    np.testing.assert_array_equal(twice.data, parts)


@EVERY_LOSS
def test_models_too_large_for_a_copy_are_left_to_projected_gradients(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, y = correlated(13, 20, 500)
    for radius, intercept in product((0.5, 100.0), (False, True)):
        g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(radius))
        copied = cg.minimize(smooth(loss, A, y, intercept=intercept), g, method="auto", tol=1e-5)
        with monkeypatch.context() as patched:
            patched.setattr(models, "OPTIONS", replace(OPTIONS, most_copied=0))
            result = cg.minimize(
                smooth(loss, A, y, intercept=intercept), g, method="auto", tol=1e-5
            )
        assert "spg" in result.method
        assert result.status is cg.Status.CONVERGED
        assert result.lower_bound <= copied.value
        assert copied.lower_bound <= result.value


@pytest.mark.parametrize("seed", range(5))
def test_separable_classes_with_hardly_any_ridge(seed: int) -> None:
    """Steps inside the ball lose their digits, or leave it: models over the ball go on from there."""
    rng = np.random.default_rng(seed)
    A = scipy.sparse.csr_array(
        10.0 * rng.standard_normal((20, 400)) * (rng.random((20, 400)) < 0.2)
    )
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    f, g = cg.smooth.Logistic(A, y, intercept=True), cg.simple.Ridge(1e-15, on=cg.sets.L1Ball(10.0))
    result = cg.minimize(f, g, method="newton")
    judge = cg.minimize(f, g, method="spg")
    assert result.success
    assert result.lower_bound <= judge.value
    assert judge.lower_bound <= result.value


def test_a_start_of_many_coordinates_keeps_them_all() -> None:
    """The first working set holds a support of hundreds: without some of them its first steps led nowhere."""
    A, y = correlated(7, 120, 1500)
    f, g = smooth("logistic", A, y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(30.0))
    solution = cg.minimize(f, g, method="newton", tol=1e-9).x
    assert np.count_nonzero(solution) > 200
    values = cg.minimize(f, g, x0=0.99 * solution, method="newton", tol=1e-9).trace["value"]
    assert values[1] < values[0]


def test_an_inside_that_leads_no_further_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it is found again after each working set, and the run goes back to it each time."""
    tried = []

    def no_further(*arguments: Any) -> None:
        tried.append(arguments)

    A, y = microarray(3, m=20, n=300)
    f, g = (
        cg.smooth.Logistic(scipy.sparse.csr_array(A), y),
        cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1e3)),
    )
    monkeypatch.setattr(inside.InsideRoad, "leads_to", no_further)
    assert cg.minimize(f, g, method="newton", tol=1e-8).success
    assert len(tried) == 1
