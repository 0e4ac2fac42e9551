"""Newton for the class group lasso: its law, its derivatives, its answers against other methods, hard cases."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import wrightomega

import condgrad as cg
from condgrad.newton import groups
from condgrad.newton.ascent import AscentProgress
from condgrad.newton.engines import dual_model
from condgrad.newton.groups import EntropicGroups, group_duals
from condgrad.structure import structure


def problem(
    n: int, m: int, *, seed: int = 0, entropy: float = 0.05, weight: float = 0.1, classes: int = 3
) -> tuple[Any, Any]:
    """Costs up to 1, uneven weights, classes in no order."""
    rng = np.random.default_rng(seed)
    C = rng.random((n, m))
    a, b = rng.dirichlet(np.full(n, 5.0)), rng.dirichlet(np.full(m, 5.0))
    f = cg.smooth.Linear(C / C.max()) + cg.smooth.GroupLasso(
        rng.integers(0, classes, n), weight=weight
    )
    return f, cg.simple.Entropy(entropy, on=cg.sets.Transport(a, b))


def model_of(f: Any, g: Any) -> EntropicGroups:
    model = groups.model_of(structure(f, g))
    assert isinstance(model, EntropicGroups)
    return model


F, G = problem(12, 9)
BEST = cg.minimize(F, G, memory=5, tol=1e-11)
"""The judge: another method, certified by its own bound."""


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 20),
    ratio=st.sampled_from([0.0, 1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e9]),
    spread=st.sampled_from([0.0, 1e-2, 1.0, 30.0, 1e3, 1e6]),
)
def test_shares_solve_their_equation(seed: int, n: int, ratio: float, spread: float) -> None:
    """Against SciPy's Wright omega function, p + log p = z, at the s that was found."""
    x = spread * np.random.default_rng(seed).standard_normal((n, 4)) - spread
    y, s = group_duals(x, ratio)
    noise = 1e-8 + 1e-13 * (spread + ratio)
    np.testing.assert_allclose(np.linalg.norm(y, axis=0), 1.0, atol=noise)
    z = x - s
    exact = wrightomega(z + np.log(ratio)) / ratio if ratio else np.exp(z)
    np.testing.assert_allclose(y, exact, rtol=noise, atol=1e-20)


@given(seed=st.integers(0, 10**6), size=st.floats(1e-3, 10.0), t=st.sampled_from([1.0, 4.0]))
def test_every_dual_point_is_a_lower_bound(seed: int, size: float, t: float) -> None:
    """Below F* at t = 1, and below the value of every plan at any t."""
    model = model_of(F, G)
    u = size * np.random.default_rng(seed).standard_normal(12)
    point = model.evaluate(u, t)
    rival = BEST.x if seed % 2 else model.primal(point).x
    assert point.dual <= F.at(rival).value + t * G.value(rival) + 1e-12
    np.testing.assert_allclose(point.S.sum(0), G.on.b, rtol=1e-12)


@given(
    seed=st.integers(0, 10**6),
    weight=st.sampled_from([0.0, 0.1, 10.0]),
    t=st.sampled_from([1.0, 3.0, 20.0]),
    classes=st.sampled_from([1, 3, 100]),
)
def test_gradient_and_hessian_against_differences(
    seed: int, weight: float, t: float, classes: int
) -> None:
    model = model_of(*problem(9, 7, seed=seed, weight=weight, classes=classes))
    rng = np.random.default_rng(seed)
    u, d = 0.1 * rng.standard_normal((2, 9))
    d -= d.mean()
    h = 1e-5
    here, there, back = (model.evaluate(u + s * d, t) for s in (0.0, h, -h))
    residual = model.a - here.S.sum(1)
    assert residual @ d == pytest.approx((there.dual - back.dual) / (2 * h), rel=1e-5, abs=1e-8)
    # the direction undoes the change of the residual that the differences show, in every direction but the constant
    ascent = model.ascent(here, AscentProgress(1.0))
    assert ascent.slope == pytest.approx(residual @ ascent.direction)
    length = np.abs(ascent.direction).max()
    there, back = (model.evaluate(u + s * ascent.direction * h / length, t) for s in (1.0, -1.0))
    change = (there.S.sum(1) - back.S.sum(1)) * length / (2 * h)
    np.testing.assert_allclose(change, residual, rtol=1e-4, atol=1e-7 * length)


@pytest.mark.parametrize("weight", [1e-3, 0.1, 1.0])
def test_the_minimum_of_cvxpy(weight: float) -> None:
    f, g = problem(8, 6, weight=weight)
    linear, lasso = f.terms
    plan = cp.Variable((8, 6), nonneg=True)
    norms = sum(cp.norm(plan[rows, j]) for rows in lasso.rows for j in range(6))
    value = cp.sum(cp.multiply(linear.C, plan)) - 0.05 * cp.sum(cp.entr(plan)) + weight * norms
    judge = cp.Problem(
        cp.Minimize(value), [cp.sum(plan, axis=1) == g.on.a, cp.sum(plan, axis=0) == g.on.b]
    )
    judge.solve(solver="CLARABEL")
    newton = cg.minimize(f, g, method="newton", tol=1e-11)
    assert newton.success
    assert newton.value == pytest.approx(judge.value, abs=1e-7)
    np.testing.assert_allclose(newton.x, plan.value, atol=1e-4)


@pytest.mark.parametrize("weight", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("shape", [(12, 9), (9, 12), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("classes", [1, 3, 100])
def test_the_same_answer_as_cgs(shape: tuple[int, int], weight: float, classes: int) -> None:
    """One class, a few, and nearly one for each row."""
    f, g = problem(*shape, weight=weight, classes=classes)
    newton = cg.minimize(f, g, method="newton", tol=1e-11)
    other = cg.minimize(f, g, memory=5, tol=1e-8, max_iter=200)
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value
    assert g.on.violation(newton.x) <= 1e-12
    assert newton.value == pytest.approx(f.at(newton.x).value + g.value(newton.x), abs=1e-13)
    # the bound holds in every row, not only at the end of the path
    assert (newton.trace["lower_bound"] <= other.value + 1e-12).all()


def test_the_plan_is_the_same_too() -> None:
    newton = cg.minimize(F, G, method="newton", tol=1e-11)
    np.testing.assert_allclose(newton.x, BEST.x, atol=1e-5)
    assert newton.value == pytest.approx(BEST.value, abs=2e-11)


def test_points_without_weight_take_no_part() -> None:
    """A whole class among them."""
    f, g = problem(12, 9)
    a, b = g.on.a.copy(), g.on.b.copy()
    silent = f.terms[1].rows[1]
    a[silent], b[4] = 0.0, 0.0
    g = cg.simple.Entropy(0.05, on=cg.sets.Transport(a / a.sum(), b / b.sum()))
    newton, other = (cg.minimize(f, g, method=m, tol=1e-9) for m in ("newton", "cgs"))
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value
    assert (newton.x[silent] == 0).all()
    assert (newton.x[:, 4] == 0).all()


@pytest.mark.parametrize("decades", [0, 6])
@pytest.mark.parametrize("weight", [1e3, 1, 1e-2])
@pytest.mark.parametrize("entropy", [1e-6, 1e-4, 1e-2])
def test_a_grid_of_hard_cases(entropy: float, weight: float, decades: int) -> None:
    """Entropy from the largest cost down to a millionth of it, any lasso, weights over decades."""
    n = 20 if decades else 30
    data, rng = cg.datasets.make_clusters(n), np.random.default_rng(1)
    C = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
    a, b = (10.0 ** rng.uniform(-decades, 0, n) for _ in range(2))
    result = cg.transport.solve(
        C / C.max(),
        a / a.sum(),
        b / b.sum(),
        entropy=entropy,
        regularizers=[cg.transport.GroupLasso(data.ys, weight=weight)],
        method="newton",
        tol=1e-8,
        max_iter=500,
    )
    assert result.lower_bound <= result.value
    assert result.success, str(result)
    assert cg.sets.Transport(a / a.sum(), b / b.sum()).violation(result.plan) <= 1e-12


def test_costs_beyond_all_digits_of_the_entropy() -> None:
    """A rounding unit of the cost is hundreds of entropies: the bound says little, and is true."""
    rng = np.random.default_rng(0)
    far, near = 4.86e7 + 1e4 * rng.standard_normal((2, 2)), 0.01 * rng.standard_normal((4, 2))
    C = ((far[:, None] - near[None]) ** 2).sum(axis=2)
    lasso = cg.transport.GroupLasso([2, 2], 187.0)
    found = cg.transport.solve(C, entropy=1.25e-3, regularizers=[lasso], max_iter=100)
    assert found.lower_bound <= found.value
    assert found.value == pytest.approx(C.mean(), rel=1e-4)


def test_a_unit_of_cost_changes_nothing() -> None:
    """Cost, entropy and lasso in another unit: the same plan."""
    f, g = problem(12, 9)
    plans = []
    for unit in (1e-6, 1.0, 1e6):
        h = cg.simple.Entropy(unit * g.weight, on=g.on)
        plans.append(cg.minimize(unit * f, h, method="newton", tol=1e-10).x)
    np.testing.assert_allclose(plans[0], plans[1], atol=1e-6)
    np.testing.assert_allclose(plans[2], plans[1], atol=1e-6)


def test_a_good_start_enters_the_path_late() -> None:
    f, g = problem(12, 9, entropy=1e-3, weight=1.0)
    cold = cg.minimize(f, g, method="newton", tol=1e-6)
    warm = cg.minimize(f, g, cold.x, method="newton", tol=1e-6)
    assert warm.iterations < cold.iterations
    assert warm.iterations <= 1


def test_what_is_recognised() -> None:
    f, g = problem(12, 9)
    assert isinstance(dual_model(structure(2.0 * f, g)), EntropicGroups)
    assert model_of(2.0 * f, g).weight == pytest.approx(0.2)
    auto, newton = (cg.minimize(f, g, method=m, tol=1e-10) for m in ("auto", "newton"))
    assert auto.iterations == newton.iterations
    rng = np.random.default_rng(0)
    laplacian = cg.transport.Laplacian(
        rng.random((12, 2)), rng.random((9, 2)), weight=1.0, neighbors=3
    )
    for other in (f + f.terms[1], f + laplacian.smooth_part(), f.terms[0], f.terms[1]):
        assert groups.model_of(structure(other, g)) is None
    assert groups.model_of(structure(f, cg.simple.Zero(on=g.on))) is None


def test_float32(torch: Any) -> None:
    """Data in float32 is solved in float64, and the answer is float32."""
    f, g = problem(12, 9)
    linear, lasso = f.terms
    kinds: list[Any] = [np.asarray, torch.as_tensor]
    for kind in kinds:
        C, a, b = (kind(values.astype(np.float32)) for values in (linear.C, g.on.a, g.on.b))
        result = cg.transport.solve(
            C, a, b, entropy=0.05, regularizers=[lasso], method="newton", tol=1e-5
        )
        assert result.success
        assert result.plan.dtype == C.dtype
        assert result.value == pytest.approx(BEST.value, abs=1e-5)


def test_tensors(torch: Any) -> None:
    data = cg.datasets.make_clusters(25)
    C = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
    a = np.r_[0.0, np.full(24, 1 / 24)]
    kinds: list[Any] = [np.asarray, torch.as_tensor]
    results = [
        cg.transport.solve(
            kind(C),
            kind(a),
            entropy=0.02,
            regularizers=[cg.transport.GroupLasso(kind(data.ys), weight=0.1)],
            method="newton",
            tol=1e-10,
        )
        for kind in kinds
    ]
    assert all(result.success for result in results)
    assert isinstance(results[1].plan, torch.Tensor)
    np.testing.assert_allclose(results[0].plan, results[1].plan.numpy(), atol=1e-8)
