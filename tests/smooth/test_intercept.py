"""An intercept minimised out of a loss: against scalar minimisation, differences and the explicit problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_expit

import condgrad as cg
from condgrad.smooth import LeastSquares, Logistic, SquaredHinge
from tests import host
from tests.fuzz.judges import Loss, squared_hinge, wide

Array = Any
LAW = settings(max_examples=30)
LOSSES: dict[type, Callable[[Array, Array], Array]] = {
    LeastSquares: lambda z, y: 0.5 * (z - y) ** 2,
    Logistic: lambda z, y: -log_expit(y * z),
    SquaredHinge: lambda z, y: np.maximum(0.0, 1.0 - y * z) ** 2,
}
every_loss = pytest.mark.parametrize("kind", LOSSES)
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 10.0, 1e2, 1e4])


def drawn(seed: int, size: int = 12) -> tuple[Array, Array, Array]:
    """Positions of order 1, labels of both classes but often unbalanced, weights with zeros among them."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(size) < rng.choice([0.1, 0.5, 0.9]), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = rng.random(size) * 10.0 ** rng.uniform(-3, 3) * (rng.random(size) < 0.8)
    weights[:2] = 0.5, 2.0
    return rng.standard_normal(size), y, weights


def loss(kind: type, y: Array, weights: Array) -> Any:
    """The separable loss of z itself, intercept minimised out."""
    return kind(np.eye(len(y)), y, sample_weight=weights, intercept=True).h


def direct(kind: type, z: Array, y: Array, weights: Array) -> Callable[[float], float]:
    return lambda b: math.fsum(weights * LOSSES[kind](z + b, y))


def judged(kind: type, z: Array, y: Array, weights: Array) -> float:
    """min_b by bounded scalar minimisation, on an interval that holds the root of each loss."""
    reach = np.abs(z).max() + 2.0 + abs(math.log(weights[y > 0].sum() / weights[y < 0].sum()))
    found = minimize_scalar(
        direct(kind, z, y, weights),
        bounds=(-reach, reach),
        method="bounded",
        options={"xatol": 1e-12 * reach},
    )
    return float(found.fun)


# --- the best intercept ---


@every_loss
@LAW
@given(seed=seeds, scale=scales)
def test_value_is_the_least_over_all_intercepts(kind: type, seed: int, scale: float) -> None:
    z, y, weights = drawn(seed)
    z *= scale
    h = loss(kind, y, weights)
    value, theta = h.evaluate(z)
    best = judged(kind, z, y, weights)
    rounding = 1e-13 * (1.0 + scale) * weights.sum()
    assert value <= best * (1.0 + 1e-14) + rounding
    # the judge stops at its own resolution, to which the value is of second order
    assert value >= best - 1e-9 * (abs(best) + rounding) - rounding
    told = kind(np.eye(len(y)), y, sample_weight=weights, intercept=True).intercept_at(z)
    assert value == pytest.approx(direct(kind, z, y, weights)(told), rel=1e-12, abs=rounding)
    assert abs(theta.sum()) <= 4e-16 * len(z) * np.abs(theta).sum()


@every_loss
@LAW
@given(seed=seeds, scale=scales, shift=st.floats(-1e3, 1e3))
def test_a_shift_moves_the_intercept_and_nothing_else(
    kind: type, seed: int, scale: float, shift: float
) -> None:
    z, y, weights = drawn(seed)
    z *= scale
    h = loss(kind, y, weights)
    (value, theta), (shifted, theta_shifted) = h.evaluate(z), h.evaluate(z + shift)
    rounding = 1e-12 * (1.0 + scale + abs(shift))
    assert shifted == pytest.approx(value, rel=rounding, abs=rounding * weights.sum())
    np.testing.assert_allclose(theta_shifted, theta, rtol=0, atol=rounding * weights.sum() * 10.0)


@every_loss
@LAW
@given(seed=seeds, scale=scales, near=st.floats(-1e5, 1e5))
def test_a_hint_changes_nothing(kind: type, seed: int, scale: float, near: float) -> None:
    z, y, weights = drawn(seed)
    z *= scale
    h = loss(kind, y, weights)
    cold, warm = h.at_best_intercept(z), h.at_best_intercept(z, near=near)
    rounding = 1e-12 * (1.0 + scale) * weights.sum()
    assert warm.value == pytest.approx(cold.value, rel=1e-12, abs=rounding)
    np.testing.assert_allclose(warm.theta, cold.theta, rtol=0, atol=rounding)
    again = h.at_best_intercept(z)
    assert again.intercept == cold.intercept
    np.testing.assert_array_equal(again.theta, cold.theta)


@given(seed=seeds, scale=scales, distance=st.floats(-6.0, 1.0))
def test_steps_from_nearby_end_at_the_best(seed: int, scale: float, distance: float) -> None:
    """The loss and its gradient at the root that a scalar solver finds, and a theta that sums to 0."""
    z, y, weights = drawn(seed)
    z *= scale
    h: Any = loss(cg.smooth.Logistic, y, weights)
    reach = float(np.abs(z).max()) + 50.0
    root = brentq(
        lambda b: float(h.weights @ (expit(z + b) - (h.y > 0.0))),
        -reach,
        reach,
        xtol=1e-14,
        rtol=1e-15,
    )
    found = h._from_near(z, root + 10.0**distance)
    if found is None:  # it is left to a bracket
        return
    expected, gradient = h.loss.evaluate(z + root)
    size = float(np.abs(gradient).sum())
    assert found.value == pytest.approx(expected, rel=1e-13)
    # rounding of the sum, which the judge has too, moves the root by this share of the curvature
    slack = 1e-13 * size / float(h.loss.curvature(z + root).sum())
    assert found.intercept == pytest.approx(root, rel=1e-13, abs=slack)
    np.testing.assert_allclose(found.theta, gradient, rtol=1e-10, atol=slack * size)
    assert abs(math.fsum(found.theta)) <= 4e-16 * len(z) * size


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("width", [1e-13, 1e-11, 1e-9])
def test_margins_that_nearly_coincide(seed: int, width: float) -> None:
    """Extended precision as judge: from nearby no step leads past a margin, and no theta has the wrong sign."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(8) % 2, 1.0, -1.0)
    z = y * (1.0 + width * rng.standard_normal(8)) - 3.0 * rng.standard_normal()
    z += y * np.where(rng.random(8) < 0.4, 2.0 * rng.random(8), 0.0)
    h = SquaredHinge(np.eye(8), y, intercept=True).h
    found = h.at_best_intercept(z, near=h.best(z, None) + 0.3 * width * rng.standard_normal())
    judged = Loss(squared_hinge, np.eye(8), y, np.ones(8), intercept=True).at(wide(z))
    assert abs(found.value - judged.value) <= judged.rounding(np.finfo(float).eps)
    assert (y * found.theta).max() <= 1e-14 * np.abs(z).max()


def test_margins_beyond_all_exponentials() -> None:
    z, y = np.array([-4000.0, -4500.0, 6000.0, 7000.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    h: Any = cg.smooth.Logistic(np.eye(4), y, intercept=True).h
    for near in (None, -1000.0, 0.0, 1e5):
        found = h.at_best_intercept(z, near=near)
        assert found.intercept == pytest.approx(-1000.0, rel=1e-12)
        assert found.value == 0.0
    found = h.at_best_intercept(-z)  # all of them far on the wrong side
    assert found.value == pytest.approx(np.abs(z).sum(), rel=1e-15)
    np.testing.assert_array_equal(found.theta, -y)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shift", [0.0, 1000.0, -1e5])
def test_the_best_where_the_loss_has_hardly_any_curvature(seed: int, shift: float) -> None:
    """An intercept that is not the best one would make the bound a false one."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(10) < 4, 1.0, -1.0)
    z = 300.0 * rng.standard_normal(10) + shift
    found = loss(Logistic, y, np.ones(10)).at_best_intercept(z)
    value = direct(Logistic, z, y, np.ones(10))
    assert found.value == pytest.approx(value(found.intercept), rel=1e-9, abs=1e-300)
    for step in (-10.0, -0.1, -1e-3, 1e-3, 0.1, 10.0):
        assert found.value <= value(found.intercept + step) * (1.0 + 1e-9)


@pytest.mark.parametrize("kind", [cg.smooth.Logistic, cg.smooth.SquaredHinge])
def test_a_class_without_a_weight_beside_the_other_is_none(kind: type) -> None:
    with pytest.raises(
        ValueError, match=r"two classes, each with a positive sample_weight.*got only -1"
    ):
        kind(np.eye(3), [1, -1, 1], sample_weight=[1e-300, 1e300, 1e-300], intercept=True)


def test_intercept_of_constant_positions_is_the_log_odds() -> None:
    h = loss(Logistic, np.array([1.0, 1.0, 1.0, -1.0]), np.array([1.0, 2.0, 0.0, 1.5]))
    assert h.intercept_at(np.full(4, 7.0)) == pytest.approx(math.log(2.0) - 7.0, rel=1e-15)


@pytest.mark.parametrize("odds", [1e-12, 1e-6, 1e6, 1e12])
def test_intercept_of_very_unbalanced_classes(odds: float) -> None:
    h = loss(Logistic, np.array([1.0, -1.0]), np.array([odds, 1.0]))
    assert h.intercept_at(np.zeros(2)) == pytest.approx(math.log(odds), rel=1e-14)


def test_weights_that_hardly_exist_count_as_none() -> None:
    weights = np.array([1.0, 1.0, 5e-324, 1e-320])
    h = loss(Logistic, np.array([1.0, -1.0, 1.0, -1.0]), weights)
    assert h.intercept_at(np.array([1.0, 2.0, 3.0, -4.0])) == pytest.approx(-1.5, rel=1e-12)


def test_separated_classes_keep_their_intercept() -> None:
    """e^-5000 is nowhere near a float, yet the root is at the middle."""
    z, y = np.array([-4000.0, -4500.0, 6000.0, 7000.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    h = loss(Logistic, y, np.ones(4))
    value, theta, b = h.at_best_intercept(z)
    assert b == pytest.approx(-1000.0, rel=1e-12)
    assert value == 0.0
    np.testing.assert_array_equal(theta, np.zeros(4))
    hinge = loss(SquaredHinge, y, np.ones(4))
    assert hinge.intercept_at(z) == pytest.approx(-1000.0, rel=1e-12)
    assert hinge.evaluate(z)[0] == 0.0


# --- derivatives ---


@every_loss
@LAW
@given(seed=seeds)
def test_gradient_and_hessian_are_differences(kind: type, seed: int) -> None:
    z, y, weights = drawn(seed)
    h = loss(kind, y, weights)
    step = 1e-5
    directions = np.random.default_rng(seed).standard_normal((3, len(z)))
    slopes, bends = [], []
    for d in directions:
        (up, theta_up), (down, theta_down) = h.evaluate(z + step * d), h.evaluate(z - step * d)
        slopes.append((up - down) / (2.0 * step))
        bends.append(directions @ (theta_up - theta_down) / (2.0 * step))
    size = weights.sum()
    np.testing.assert_allclose(directions @ h.evaluate(z)[1], slopes, atol=1e-5 * size)
    if kind is not SquaredHinge or _away_from_kinks(h, z, y, step * np.abs(directions).max()):
        np.testing.assert_allclose(h.hessian_gram(z, directions), bends, atol=1e-4 * size)


def _away_from_kinks(h: Any, z: Array, y: Array, distance: float) -> bool:
    return bool(np.abs(1.0 - y * (z + h.intercept_at(z))).min() > 4.0 * distance)


@every_loss
def test_hessian_is_the_curvature_less_its_mean(kind: type) -> None:
    z, y, weights = drawn(3)
    h = loss(kind, y, weights)
    w = h.curvature(z)
    np.testing.assert_allclose(
        h.hessian_gram(z, np.eye(len(z))),
        np.diag(w) - np.outer(w, w) / w.sum(),
        atol=1e-14 * weights.sum(),
    )
    np.testing.assert_allclose(w, h.loss.curvature(z + h.intercept_at(z)), rtol=1e-12)


def test_no_curvature_no_hessian() -> None:
    h = loss(SquaredHinge, np.array([1.0, -1.0]), np.ones(2))
    np.testing.assert_array_equal(
        h.hessian_gram(np.array([5.0, -5.0]), np.eye(2)), np.zeros((2, 2))
    )


@every_loss
def test_plain_losses_have_no_intercept(kind: type) -> None:
    z, y, weights = drawn(5)
    f = kind(np.eye(len(y)), y, sample_weight=weights)
    assert not f.h.has_intercept
    assert f.h.intercept_at(z) == f.intercept_at(z) == f.at(z).intercept == 0.0
    np.testing.assert_allclose(f.h.hessian_gram(z, np.eye(len(z))), np.diag(f.h.curvature(z)))
    with_one = kind(np.eye(len(y)), y, sample_weight=weights, intercept=True)
    assert with_one.h.has_intercept
    assert "intercept" in repr(with_one)
    assert "intercept" not in repr(f)


# --- in f(x) = h(Kx) ---


def problem(kind: type, seed: int, form: Callable[[Array], Any] = lambda Z: Z) -> tuple[Any, Array]:
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((12, 5)) + 3.0
    _, y, weights = drawn(seed)
    return kind(form(Z), y, sample_weight=weights, intercept=True), rng.standard_normal(5)


@every_loss
@LAW
@given(seed=seeds)
def test_restrictions_and_moves_agree_with_fresh_evaluations(kind: type, seed: int) -> None:
    f, x = problem(kind, seed)
    rng = np.random.default_rng(seed)
    ends = rng.standard_normal((2, 5))
    a = rng.dirichlet(np.ones(3))[:2]
    here, there = f.at(x), [f.at(s) for s in ends]
    mixed = x + a @ (ends - x)
    line = here.along(there, ends - x)
    fresh = f.at(mixed)
    assert line.value(a) == pytest.approx(fresh.value, rel=1e-10, abs=1e-12)
    local = line.local(a)
    np.testing.assert_allclose(
        local.slope, (ends - x) @ fresh.gradient, rtol=1e-8, atol=1e-8 * abs(fresh.value)
    )
    moved = here.moved(mixed, there, a)
    assert moved.value == pytest.approx(fresh.value, rel=1e-10, abs=1e-12)
    if (
        kind is not SquaredHinge or fresh.value > 1e-3
    ):  # where the margin is slack any b in an interval is best
        assert moved.intercept == pytest.approx(f.intercept_at(mixed), rel=1e-8, abs=1e-8)


@every_loss
@LAW
@given(seed=seeds)
def test_tangents_lie_below(kind: type, seed: int) -> None:
    """Convexity, by the gradient that the certificate uses."""
    f, x = problem(kind, seed)
    y = 3.0 * np.random.default_rng(seed).standard_normal(5)
    here, there = f.at(x), f.at(y)
    slack = 1e-15 * (here.magnitude(here) + here.magnitude(there) + here.value)
    assert there.value >= here.offset + here.gradient @ y - 4.0 * slack


@every_loss
@pytest.mark.parametrize("step", ["exact", "armijo", "open-loop", "short"])
def test_every_step_rule_brackets_the_optimum(kind: type, step: str) -> None:
    """The same problem with the intercept as one more variable, by SciPy, between the bounds."""
    f, _ = problem(kind, 8)
    _, y, weights = drawn(8)
    h = kind(f.K, y, sample_weight=weights).h
    K, g = (
        f.K,
        cg.simple.Ridge(0.5, on=cg.sets.L1Ball(100.0)),
    )  # so large that the constraint is idle

    def explicit(v: Array) -> tuple[float, Array]:
        value, theta = h.evaluate(K @ v[:-1] + v[-1])
        return value + 0.5 * v[:-1] @ v[:-1], np.append(K.T @ theta + v[:-1], theta.sum())

    options = {"gtol": 1e-10, "ftol": 1e-15, "maxiter": 10_000}
    judge = minimize(explicit, np.zeros(6), jac=True, method="L-BFGS-B", options=options)
    found = cg.minimize(f, g, method="cgs", step=step, max_iter=200)
    slack = 1e-8 * judge.fun
    assert found.lower_bound <= judge.fun + slack
    assert judge.fun <= found.value + slack
    if step == "exact":
        assert found.success
        assert f.intercept_at(found.x) == pytest.approx(judge.x[-1], abs=0.05)


# --- targets far from 0 ---


@pytest.mark.parametrize("method", ["newton", "spg"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_constant_added_to_the_targets_is_added_to_the_intercept(
    method: str, ridge: float
) -> None:
    """Targets whose differences are 1e-10 of their mean: F, its proof and x are those of the differences."""
    rng = np.random.default_rng(3)
    A, constant, unit = rng.standard_normal((30, 80)) + 2.0, 128.0, 2.0**-40
    y = unit * rng.integers(
        -(2**12), 2**12, 30
    )  # so that nothing is lost where the constant is added
    weights = rng.uniform(0.5, 2.0, 30)
    g = (
        cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1e-9))
        if ridge
        else cg.simple.Zero(on=cg.sets.L1Ball(1e-9))
    )
    fits = []
    for targets in (y, y + constant):
        f = LeastSquares(A, targets, sample_weight=weights, intercept=True)
        result = cg.minimize(f, g, method=method, tol=1e-8)
        assert result.status is cg.Status.CONVERGED
        fits.append((result, f.intercept_at(result.x)))
    (plain, b), (moved, b_moved) = fits
    assert moved.value == pytest.approx(plain.value, rel=1e-8)
    assert moved.gap <= 1e-8 * moved.value
    if ridge:  # |x - x*|^2 <= gap/ridge for both
        apart = math.sqrt(plain.gap / ridge) + math.sqrt(moved.gap / ridge)
        assert np.linalg.norm(moved.x - plain.x) <= apart + 1e-9 * np.linalg.norm(plain.x)
    assert b_moved == pytest.approx(constant + b, rel=4e-16)


@pytest.mark.parametrize("center", [0.0, 100.0, -1e12])
@pytest.mark.parametrize("method", ["newton", "cgs"])
def test_the_proof_holds_of_targets_far_from_zero(center: float, method: str) -> None:
    """The least value without a constraint in exact arithmetic, between both bounds."""
    rng = np.random.default_rng(int(abs(center)) % 7)
    spread = 1e-4 * max(1.0, abs(center))
    A, y = rng.standard_normal((6, 2)), center + spread * rng.standard_normal(6)
    ridge = Fraction(0.25)
    exact, targets = [[Fraction(a) for a in row] for row in A], [Fraction(each) for each in y]
    mean = sum(targets, Fraction(0)) / 6
    means = [sum((row[j] for row in exact), Fraction(0)) / 6 for j in range(2)]
    columns = [[row[j] - means[j] for row in exact] for j in range(2)]
    differences = [each - mean for each in targets]

    def inner(u: list[Fraction], v: list[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))

    (a, b), d = (inner(columns[0], column) for column in columns), inner(columns[1], columns[1])
    right = [inner(column, differences) for column in columns]
    a, d = a + 2 * ridge, d + 2 * ridge
    x = [
        (d * right[0] - b * right[1]) / (a * d - b * b),
        (a * right[1] - b * right[0]) / (a * d - b * b),
    ]
    least = (inner(differences, differences) - inner(right, x)) / 2
    radius = 10.0 * float(sum(map(abs, x)))
    f = LeastSquares(A, y, intercept=True)
    result = cg.minimize(
        f, cg.simple.Ridge(float(ridge), on=cg.sets.L1Ball(radius)), method=method, tol=1e-9
    )
    assert result.status is cg.Status.CONVERGED
    assert Fraction(result.lower_bound) <= least <= Fraction(result.value) * (1 + Fraction(1e-15))
    assert result.gap <= 1e-8 * result.value
    intercept = mean - inner(means, x)
    assert f.intercept_at(result.x) == pytest.approx(float(intercept), rel=4e-16, abs=1e-3 * spread)


FORMS: dict[str, Callable[[Array], Any]] = {
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
    "float32": lambda Z: Z.astype(np.float32),
    "fortran": np.asfortranarray,
}


@every_loss
@pytest.mark.parametrize("form", FORMS)
def test_data_formats(kind: type, form: str) -> None:
    (dense, x), (other, _) = problem(kind, 2), problem(kind, 2, FORMS[form])
    rel = 1e-5 if form == "float32" else 1e-12
    assert other.at(x).value == pytest.approx(dense.at(x).value, rel=rel)
    assert other.intercept_at(x) == pytest.approx(dense.intercept_at(x), rel=rel)
    np.testing.assert_allclose(other.at(x).gradient, dense.at(x).gradient, rtol=rel, atol=1e2 * rel)
    found = cg.minimize(
        other, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(2.0)), method="cgs", memory=3, tol=1e-4
    )
    judge = cg.minimize(
        dense, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(2.0)), method="cgs", memory=3, tol=1e-8
    )
    assert found.success
    assert found.lower_bound <= judge.value
    assert judge.lower_bound <= found.value * (1.0 + rel)


@every_loss
def test_torch_agrees_with_numpy(kind: type, torch: ModuleType) -> None:
    (f, x), (same, _) = problem(kind, 4), problem(kind, 4, lambda Z: torch.as_tensor(Z))
    here, there = f.at(x), same.at(torch.as_tensor(x))
    assert there.value == pytest.approx(here.value, rel=1e-12)
    assert there.intercept == pytest.approx(here.intercept, rel=1e-10)
    np.testing.assert_allclose(host(there.gradient), here.gradient, rtol=1e-9, atol=1e-9)
    g = cg.simple.Ridge(0.5, on=cg.sets.L1Ball(2.0))
    found, judge = (
        cg.minimize(same, g, method="cgs", memory=3),
        cg.minimize(f, g, method="cgs", memory=3),
    )
    assert isinstance(found.x, torch.Tensor)
    assert found.value == pytest.approx(judge.value, rel=2e-6)


@pytest.mark.parametrize("kind", [Logistic, SquaredHinge])
def test_one_class_is_refused(kind: type) -> None:
    Z = np.eye(3)
    with pytest.raises(ValueError, match=r"y must have two classes.*got only \+1"):
        kind(Z, np.ones(3), intercept=True)
    with pytest.raises(
        ValueError, match=r"y must have two classes.*positive sample_weight.*got only -1"
    ):
        kind(Z, [1.0, -1.0, -1.0], sample_weight=[0.0, 1.0, 1.0], intercept=True)
