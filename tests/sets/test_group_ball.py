"""The ball of groups: against CVXPY, the l1 and l2 balls it is made of, and its own optimality conditions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.linear_model import ConstrainedElasticNetCV, ConstrainedLogisticRegression, path
from condgrad.sets import GroupBall, L1Ball, L2Ball
from tests.linear_model import SINGLE, drawn, loss_of, objective

seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([1e-200, 1e-6, 1.0, 1e12, 1e200])


def labelled(rng: np.random.Generator) -> Any:
    return rng.integers(0, 4, int(rng.integers(1, 12)))


@settings(max_examples=30)
@given(seed=seeds, size=sizes, dtype=st.sampled_from([np.float64, np.float32]))
def test_projections_are_in_the_ball_and_nearest(seed: int, size: float, dtype: Any) -> None:
    """<v - P(v), s - P(v)> <= 0 for every point s: at most 0 at the corner that the linear argmin finds."""
    rng = np.random.default_rng(seed)
    groups = labelled(rng)
    size = min(max(size, 1e-30), 1e30) if dtype == np.float32 else size
    on, v = GroupBall(size, groups), (3.0 * size * rng.standard_normal(len(groups))).astype(dtype)
    p, eps = on.project(v), float(np.finfo(dtype).eps)
    assert p.dtype == dtype
    assert on.violation(p) <= 20 * eps * size
    pull = v.astype(float) - p
    reach = -on.linear_argmin(-pull / size).bound
    assert reach <= pull @ (p / size) + 100 * eps * (np.abs(v).sum() + size)
    np.testing.assert_allclose(on.project(p), p, atol=20 * eps * size)


@settings(max_examples=20)
@given(seed=seeds, size=sizes)
def test_the_linear_argmin(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    groups = labelled(rng)
    on, c = GroupBall(size, groups), rng.standard_normal(len(groups))
    answer = on.linear_argmin(c)
    dual_norm = max(float(np.linalg.norm(c[groups == label])) for label in set(groups))
    assert answer.bound == pytest.approx(-size * dual_norm, rel=1e-12)
    assert float(c @ answer.point) == pytest.approx(answer.bound, rel=1e-12)
    assert on.violation(answer.point) <= 1e-12 * size


def test_its_two_ends() -> None:
    """A group for each coordinate, and one for all; for matrices the groups are rows."""
    rng = np.random.default_rng(0)
    v = 3.0 * rng.standard_normal(9)
    np.testing.assert_allclose(
        GroupBall(2.0, np.arange(9)).project(v), L1Ball(2.0).project(v), atol=1e-14
    )
    np.testing.assert_allclose(
        GroupBall(2.0, np.zeros(9)).project(v), L2Ball(2.0).project(v), atol=1e-14
    )
    X = rng.standard_normal((4, 3))
    on, flat = (
        GroupBall(1.0, ["a", "b", "a", "c"]),
        GroupBall(1.0, np.repeat(["a", "b", "a", "c"], 3)),
    )
    np.testing.assert_array_equal(on.project(X).ravel(), flat.project(X.ravel()))
    assert not GroupBall(0.0, [1, 2]).project(np.ones(2)).any()


def test_tensors(torch: ModuleType) -> None:
    rng = np.random.default_rng(0)
    on, v = GroupBall(1.0, [0, 1, 0, 2, 1]), rng.standard_normal(5)
    np.testing.assert_allclose(on.project(torch.as_tensor(v)).numpy(), on.project(v), atol=1e-15)
    np.testing.assert_allclose(
        on.linear_argmin(torch.as_tensor(v)).point.numpy(), on.linear_argmin(v).point
    )


@pytest.mark.parametrize("method", ["auto", "newton", "spg", "pqn", "cgs", "cg"])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_every_method_brackets_what_cvxpy_finds(method: str, ridge: float) -> None:
    rng = np.random.default_rng(1)
    A, y, groups = (
        rng.standard_normal((30, 8)),
        rng.standard_normal(30),
        np.array([0, 0, 0, 1, 1, 2, 2, 2]),
    )
    on = GroupBall(0.4, groups)
    g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
    found = cg.minimize(cg.smooth.LeastSquares(A, y), g, method=method, tol=1e-4)
    x = cvxpy.Variable(8)
    norms = sum(cvxpy.norm(x[np.flatnonzero(groups == label)]) for label in range(3))
    goal = 0.5 * cvxpy.sum_squares(A @ x - y) + ridge * cvxpy.sum_squares(x)
    best = cvxpy.Problem(cvxpy.Minimize(goal), [norms <= 0.4]).solve(solver=cvxpy.CLARABEL)
    assert found.lower_bound <= best * (1.0 + 1e-7)
    assert best <= found.value * (1.0 + 1e-7)
    assert found.success


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_estimators_with_groups_find_what_cvxpy_finds(kind: Any, ridge: float) -> None:
    X, y = drawn(2, samples=25, features=9)
    groups = np.array(["a", "b", "c"] * 3)
    model = kind(0.7, ridge, groups=groups, tol=1e-8).fit(X, y)
    coef, b = cvxpy.Variable(9), cvxpy.Variable()
    ball = sum(cvxpy.norm(coef[np.flatnonzero(groups == label)]) for label in "abc") <= 0.7
    goal = cvxpy.sum(loss_of(kind, X @ coef + b, y)) + ridge * cvxpy.sum_squares(coef)
    best = cvxpy.Problem(cvxpy.Minimize(goal), [ball]).solve(solver=cvxpy.CLARABEL)
    value = float(np.ravel(model.objective_)[0])
    assert value == pytest.approx(objective(kind, model, X, y), rel=1e-9)
    assert value - float(np.ravel(model.dual_gap_)[0]) <= best + 1e-6
    assert best <= value + 1e-6
    assert float(np.ravel(model.multiplier_)[0]) == pytest.approx(float(ball.dual_value), rel=1e-2)


LOSSES: dict[str, tuple[Any, Any]] = {
    "squares": (cg.smooth.LeastSquares, lambda z, y: 0.5 * cvxpy.square(z - y)),
    "logistic": (cg.smooth.Logistic, lambda z, y: cvxpy.logistic(-cvxpy.multiply(y, z))),
    "squared hinge": (
        cg.smooth.SquaredHinge,
        lambda z, y: cvxpy.square(cvxpy.pos(1 - cvxpy.multiply(y, z))),
    ),
    "poisson": (
        cg.smooth.Poisson,
        lambda z, y: cvxpy.exp(z) - cvxpy.multiply(y, z) + (y * np.log(y) - y),
    ),
    "gamma": (cg.smooth.Gamma, lambda z, y: cvxpy.multiply(y, cvxpy.exp(-z)) + z - np.log(y) - 1),
    "huber": (cg.smooth.Huber, lambda z, y: 0.5 * cvxpy.huber(z - y, 1.35)),
}


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_newton_brackets_what_cvxpy_finds(loss: str, is_sparse: bool, positive: bool) -> None:
    """With weights, an intercept, and a ridge for sparse data.

    The value is F at a point of the set as CVXPY computes it, so at least the optimum; Clarabel
    finds that up to 1e-6.
    """
    rng = np.random.default_rng(5)
    K = rng.standard_normal((30, 16))
    if is_sparse:
        K *= rng.random(K.shape) < 0.3
    y = K[:, :4].sum(axis=1) / 3.0 + 0.5 * rng.standard_normal(30)
    if loss in ("logistic", "squared hinge"):
        y = np.where(y > np.median(y), 1.0, -1.0)
    elif loss in ("poisson", "gamma"):
        y = np.round(np.exp(np.clip(y, -1.0, 2.0))) + 1.0
    weights = rng.uniform(0.5, 2.0, 30)
    groups = np.arange(16) % 5
    ridge = 0.1 if is_sparse else 0.0
    smooth, judged = LOSSES[loss]
    data = scipy.sparse.csr_array(K) if is_sparse else K
    f = smooth(data, y, sample_weight=weights, intercept=True)
    on = GroupBall(0.8, groups, positive=positive)
    g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
    found = cg.minimize(f, g, method="newton", tol=1e-8)
    x, b = cvxpy.Variable(16), cvxpy.Variable()
    norms = sum(cvxpy.norm(x[np.flatnonzero(groups == label)]) for label in range(5))
    goal = weights @ judged(K @ x + b, y) + ridge * cvxpy.sum_squares(x)
    within = [norms <= 0.8, *([x >= 0] if positive else [])]
    best = cvxpy.Problem(cvxpy.Minimize(goal), within).solve(solver=cvxpy.CLARABEL)
    assert found.success
    assert on.contains(found.x, 1e-12)
    assert found.lower_bound <= best * (1.0 + 1e-6)
    assert found.value <= best * (1.0 + 1e-5)
    x.value = found.x
    b.value = f.at(found.x).intercept
    assert float(goal.value) == pytest.approx(found.value, rel=1e-10)


@settings(max_examples=20)
@given(seed=seeds, size=sizes)
def test_projections_without_entries_below_0(seed: int, size: float) -> None:
    """They are in the set, and no point of it is nearer; the face has the entries that are not 0."""
    rng = np.random.default_rng(seed)
    groups = labelled(rng)
    on = GroupBall(size, groups, positive=True)
    v = 3.0 * size * rng.standard_normal(len(groups))
    p = on.project(v)
    assert on.violation(p) <= 1e-14 * size
    assert (p >= 0.0).all()
    pull = v - p
    reach = -on.linear_argmin(-pull / size).bound
    assert reach <= pull @ (p / size) + 1e-13 * (np.abs(v).sum() + size)
    np.testing.assert_array_equal(on.face(v).active, np.flatnonzero(p))


@pytest.mark.parametrize("positive", [False, True])
def test_the_derivative_of_a_projection(positive: bool) -> None:
    """It is what differences of projections show, its part along the normal taken out."""
    rng = np.random.default_rng(3)
    on = GroupBall(1.5, rng.integers(0, 4, 10), positive=positive)
    v = rng.standard_normal(10)
    face = on.face(v)
    rows = rng.standard_normal((len(face.active), 2))
    moved = on.derivative(v, face, rows)
    moved -= np.outer(face.normal, face.normal @ rows) / (face.normal @ face.normal)
    whole = np.zeros((10, 2))
    whole[face.active] = rows
    shifts = [on.project(v + 1e-6 * d) - on.project(v - 1e-6 * d) for d in whole.T]
    np.testing.assert_allclose(np.stack(shifts, axis=1)[face.active] / 2e-6, moved, atol=1e-8)


def test_estimators_with_groups_and_no_coefficients_below_0() -> None:
    X, y = drawn(2, samples=25, features=9)
    groups = np.array(["a", "b", "c"] * 3)
    model = ConstrainedLogisticRegression(0.7, 0.1, groups=groups, positive=True, tol=1e-8)
    model.fit(X, y)
    coef, b = cvxpy.Variable(9), cvxpy.Variable()
    ball = sum(cvxpy.norm(coef[np.flatnonzero(groups == label)]) for label in "abc") <= 0.7
    losses = loss_of(ConstrainedLogisticRegression, X @ coef + b, y)
    goal = cvxpy.sum(losses) + 0.1 * cvxpy.sum_squares(coef)
    best = cvxpy.Problem(cvxpy.Minimize(goal), [ball, coef >= 0]).solve(solver=cvxpy.CLARABEL)
    value = float(np.ravel(model.objective_)[0])
    assert (model.coef_ >= 0.0).all()
    assert value - float(np.ravel(model.dual_gap_)[0]) <= best + 1e-6
    assert best <= value + 1e-6
    assert float(np.ravel(model.multiplier_)[0]) == pytest.approx(float(ball.dual_value), rel=1e-2)


def test_paths_and_choices_with_groups() -> None:
    X, y = drawn(2, samples=30, features=9)
    groups = np.arange(9) // 3
    found = path(X, y, groups=groups, n_radii=5, ridge=0.1)
    norms = np.sqrt((found.coefs.reshape(5, 3, 3) ** 2).sum(axis=2)).sum(axis=1)
    assert (norms <= found.radii * (1.0 + 1e-9)).all()
    assert norms[-1] == pytest.approx(found.radii[-1], rel=0.05)
    model = ConstrainedElasticNetCV(groups=groups, n_radii=4, ridges=[0.1], cv=3).fit(X, y)
    assert model.radius_ in model.radii_
    three = np.array(["ape", "bee", "cow"])[np.arange(30) % 3]
    joint = ConstrainedLogisticRegression(0.3, groups=groups, multi_class="multinomial").fit(
        X, three
    )
    blocks = np.sqrt((joint.coef_.reshape(3, 3, 3) ** 2).sum(axis=(0, 2)))
    assert blocks.sum() <= 0.3 * (1.0 + 1e-6)


def test_plain_sentences_for_bad_groups() -> None:
    X, y = drawn(2, samples=30, features=9)
    with pytest.raises(
        ValueError, match="groups must have one label for each of the 9 features, got 3"
    ):
        ConstrainedLogisticRegression(groups=[0, 1, 2]).fit(X, y)
    with pytest.raises(
        ValueError, match="groups must have one label for each of the 9 features, got 3"
    ):
        path(X, y, groups=[0, 1, 2])
    with pytest.raises(
        ValueError,
        match=r"groups must hold one label for each coordinate, got an array of shape \(2, 2\)",
    ):
        GroupBall(1.0, [[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="groups must not have NaN or infinity"):
        GroupBall(1.0, [0.0, np.nan])
    with pytest.raises(
        ValueError, match="groups must have one entry for each of the 3 rows, got 2"
    ):
        GroupBall(1.0, [0, 1]).project(np.ones(3))
    with pytest.raises(ValueError, match="radius must be finite and >= 0"):
        GroupBall(-1.0, [0, 1])


@pytest.mark.parametrize("unit", [1e-150, 1e-8, 1e150])
def test_no_unit_of_the_data_is_too_far_for_newton(unit: float) -> None:
    """Models are solved in units of the radius and of the slope; a column of zeros is one more."""
    rng = np.random.default_rng(0)
    K = rng.standard_normal((20, 6)) * [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    y = np.sign(K[:, 0])
    plain, far = (
        cg.minimize(
            cg.smooth.Logistic(c * K, y),
            cg.simple.Zero(on=cg.sets.GroupBall(2.0 / c, [0, 0, 1, 1, 2, 2])),
            method="newton",
        )
        for c in (1.0, unit)
    )
    assert far.success
    assert far.value == pytest.approx(plain.value, rel=1e-6)


def test_nothing_to_fit_is_solved_at_once() -> None:
    g = cg.simple.Zero(on=cg.sets.GroupBall(1.0, [0, 0, 1]))
    found = cg.minimize(cg.smooth.LeastSquares(np.eye(3), np.zeros(3)), g, method="newton")
    assert found.success
    assert found.value == 0.0


@pytest.mark.parametrize("positive", [False, True])
def test_auto_gives_way_to_newton_where_projected_gradients_are_slow(positive: bool) -> None:
    """Correlated features, a large ball and heavy tails; the judge is a long run of the latter."""
    rng = np.random.default_rng(3)
    K = rng.standard_normal((120, 6)) @ rng.standard_normal((6, 60))
    K += 0.1 * rng.standard_normal(K.shape)
    y = K[:, :20].sum(axis=1) + rng.standard_t(2, 120)
    f = cg.smooth.Huber(K, y, delta=0.5)
    g = cg.simple.Zero(on=GroupBall(20.0, np.arange(60) // 6, positive=positive))
    auto = cg.minimize(f, g, method="auto")
    slow = cg.minimize(f, g, method="spg", max_iter=2000)
    assert auto.success
    assert auto.method == "spg, then newton"
    assert auto.iterations < 150
    assert auto.lower_bound <= slow.value
    assert slow.lower_bound <= auto.value
    efforts = auto.trace["evaluations"] + auto.trace["oracle_calls"]
    assert (np.diff(efforts) >= 0).all()


def test_auto_stays_with_projected_gradients_where_they_are_fast() -> None:
    rng = np.random.default_rng(0)
    f = cg.smooth.Logistic(rng.standard_normal((80, 30)), np.where(rng.random(80) < 0.5, 1.0, -1.0))
    g = cg.simple.Ridge(0.1, on=GroupBall(0.5, np.arange(30) // 5))
    assert cg.minimize(f, g, method="auto").method == "spg"
