"""The Sinkhorn divergence against closed forms of gaussians, and its laws."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.transport import SquaredEuclidean, divergence, divergence_loss, solve
from tests.transport import cloud, entropic_value, judge, squared_distances

seeds = st.integers(0, 10_000)


def entropic_value_of_gaussians(s: float, t: float, shift: float, entropy: float) -> float:
    """OT between N(0, s^2) and N(shift, t^2), entropy relative to the product, by Janati et al. (NeurIPS 2020), d = 1.

    Their sigma^2 is entropy/2 for the cost |x - y|^2.
    """
    sigma2 = 0.5 * entropy
    D = math.sqrt(4.0 * s * s * t * t + sigma2 * sigma2)
    bures = (
        s * s + t * t - D + sigma2 * (1.0 - math.log(2.0 * sigma2)) + sigma2 * math.log(D + sigma2)
    )
    return shift**2 + bures


def gaussian_on_a_grid(mean: float, deviation: float, points: int) -> tuple[Any, Any]:
    """Quadrature nodes and weights: the trapezoid rule, whose error falls exponentially for gaussians."""
    x = np.linspace(mean - 8.0 * deviation, mean + 8.0 * deviation, points)
    density = np.exp(-0.5 * ((x - mean) / deviation) ** 2)
    return x[:, None], density / density.sum()


@pytest.mark.parametrize(
    ("s", "t", "shift", "entropy"),
    [(1.0, 1.0, 0.7, 1.0), (0.5, 1.2, 0.0, 0.3), (1.0, 0.4, 2.0, 4.0), (1.0, 1.0, 0.0, 2.0)],
)
def test_gaussians_have_a_closed_form(s: float, t: float, shift: float, entropy: float) -> None:
    Xs, a = gaussian_on_a_grid(0.0, s, 140)
    Xt, b = gaussian_on_a_grid(shift, t, 150)
    result = divergence(Xs, Xt, a, b, entropy=entropy, tol=1e-11)
    value = entropic_value_of_gaussians
    exact = (
        value(s, t, shift, entropy)
        - 0.5 * value(s, s, 0.0, entropy)
        - 0.5 * value(t, t, 0.0, entropy)
    )
    assert result.success
    assert result.value == pytest.approx(exact, abs=1e-8)
    assert result.lower_bound - 1e-8 <= exact <= result.upper_bound + 1e-8
    assert result.gap <= 1e-8 * (1.0 + exact)


@pytest.mark.slow
@given(
    seed=seeds, entropy=st.sampled_from([0.05, 0.5, 10.0]), tol=st.sampled_from([1e-2, 1e-5, 1e-9])
)
@settings(max_examples=6)
def test_the_interval_holds_the_divergence_however_loose_the_runs(
    seed: int, entropy: float, tol: float
) -> None:
    data = cloud(6, 5, seed=seed)
    parts = [
        judge(squared_distances(X, Y), a, b, entropy, passes=3000)
        for X, Y, a, b in [
            (data.Xs, data.Xt, data.a, data.b),
            (data.Xs, data.Xs, data.a, data.a),
            (data.Xt, data.Xt, data.b, data.b),
        ]
    ]
    lower = parts[0].lower - 0.5 * parts[1].upper - 0.5 * parts[2].upper
    upper = parts[0].upper - 0.5 * parts[1].lower - 0.5 * parts[2].lower
    result = divergence(data.Xs, data.Xt, data.a, data.b, entropy=entropy, tol=tol, method="cgs")
    assert result.lower_bound <= upper + 1e-13
    assert result.upper_bound >= lower - 1e-13
    assert 0.0 <= result.lower_bound <= result.value <= result.upper_bound
    assert result.gap >= 0.0


@given(seed=seeds)
@settings(max_examples=10)
def test_zero_on_equal_measures_symmetric_and_positive_elsewhere(seed: int) -> None:
    data = cloud(7, 5, seed=seed)
    order = np.random.default_rng(seed).permutation(7)
    same = divergence(data.Xs, data.Xs[order], data.a, data.a[order], entropy=0.1, tol=1e-10)
    assert same.lower_bound == 0.0
    assert same.upper_bound <= 1e-9
    there = divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.1, tol=1e-10)
    back = divergence(data.Xt, data.Xs, data.b, data.a, entropy=0.1, tol=1e-10)
    assert there.value == pytest.approx(back.value, abs=1e-9)
    assert there.lower_bound > 0.0


@given(
    seed=seeds, unit=st.sampled_from([1e-3, 40.0, 1e4]), mass=st.sampled_from([1.0, 0.01, 500.0])
)
@settings(max_examples=10)
def test_units(seed: int, unit: float, mass: float) -> None:
    """Points times c, entropy times c^2, weights times w: the divergence is c^2 w times as large."""
    data = cloud(6, 5, seed=seed)
    here = divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.1, tol=1e-10)
    there = divergence(
        unit * data.Xs,
        unit * data.Xt,
        mass * data.a,
        mass * data.b,
        entropy=0.1 * unit**2,
        tol=1e-10,
    )
    assert there.value / (unit**2 * mass) == pytest.approx(here.value, abs=1e-8)


def test_plans_of_pot_have_the_same_divergence() -> None:
    data = cloud(20, 15, seed=4)

    def value(X: Any, Y: Any, a: Any, b: Any) -> float:
        C = squared_distances(X, Y)
        return entropic_value(ot.sinkhorn(a, b, C, 0.2, stopThr=1e-13), C, 0.2)

    theirs = value(data.Xs, data.Xt, data.a, data.b)
    theirs -= 0.5 * value(data.Xs, data.Xs, data.a, data.a) + 0.5 * value(
        data.Xt, data.Xt, data.b, data.b
    )
    ours = divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.2, tol=1e-11)
    assert ours.value == pytest.approx(theirs, abs=1e-9)


def test_the_loss_is_the_value_and_its_gradient_that_of_differences(torch: ModuleType) -> None:
    data = cloud(4, 3, seed=2)
    Xs, Xt, a, b = (torch.tensor(x) for x in (data.Xs, data.Xt, data.a, data.b))
    Xs.requires_grad_()
    ours = divergence_loss(Xs, Xt, a, b, entropy=0.1, tol=1e-13)
    assert ours.item() == pytest.approx(
        divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.1).value, abs=1e-7
    )
    logits = torch.randn(
        4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )

    def value(Xs: Any, logits: Any) -> Any:
        return divergence_loss(Xs, Xt, logits.softmax(0), b, entropy=0.1, tol=1e-13)

    assert torch.autograd.gradcheck(value, (Xs, logits), eps=1e-4, atol=1e-6, rtol=1e-4)


def test_gradient_vanishes_between_equal_measures(torch: ModuleType) -> None:
    X = torch.tensor(cloud(8, 3, seed=0).Xs, requires_grad=True)
    value = divergence_loss(X, X.detach(), entropy=0.05, tol=1e-12)
    (gradient,) = torch.autograd.grad(value, X)
    assert gradient.abs().max().item() <= 1e-6
    assert abs(value.item()) <= 1e-12


def test_torch_points_give_the_same_interval(torch: ModuleType) -> None:
    data = cloud(6, 5, seed=3)
    here = divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.1)
    there = divergence(*(torch.tensor(x) for x in (data.Xs, data.Xt, data.a, data.b)), entropy=0.1)
    assert there.value == pytest.approx(here.value, abs=1e-9)
    assert there.between.plan.dtype == torch.float64


@pytest.mark.parametrize("plan", ["dense", "streamed"])
@pytest.mark.parametrize(("d", "entropy"), [(2, 0.05), (2, 1e-3), (30, 1.0)])
def test_a_measure_to_itself_takes_one_potential(d: int, entropy: float, plan: str) -> None:
    """Averaged iterations halve the error whatever the entropy, and Newton has next to nothing to add."""
    rng = np.random.default_rng(d)
    X, a = rng.standard_normal((120, d)), rng.dirichlet(np.ones(120))
    a[:5] = 0.0
    a /= a.sum()
    t = solve(SquaredEuclidean(X, X.copy()), a, a.copy(), entropy=entropy, plan=plan, tol=1e-8)
    assert t.success
    assert t.iterations <= 3
    judged = solve(squared_distances(X, X), a, a, entropy=entropy, method="newton", tol=1e-7)
    assert judged.success
    assert t.lower_bound <= judged.value
    assert judged.lower_bound <= t.value
    plan_itself = t.dense()
    np.testing.assert_allclose(plan_itself, plan_itself.T, atol=1e-6)


def test_streamed_plans_have_the_same_divergence() -> None:
    data = cloud(12, 10, seed=6)
    here, there = (
        divergence(data.Xs, data.Xt, data.a, data.b, entropy=0.1, tol=1e-9, plan=plan)
        for plan in ("dense", "streamed")
    )
    assert there.between.streamed
    assert there.value == pytest.approx(here.value, abs=1e-7)


def test_a_flow_that_remembers_its_potentials_ends_where_one_that_does_not(
    torch: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    Y = torch.tensor(rng.normal(size=(30, 2)) + 1.0)
    remembering = cg.transport.DivergenceLoss(0.1)
    ends = []
    for of_points in (
        remembering,
        lambda X, Y: cg.transport.divergence_loss(X, Y, entropy=0.1, method="newton"),
    ):
        X = torch.tensor(np.random.default_rng(1).normal(size=(30, 2)))
        for _ in range(5):
            X = X.detach().requires_grad_()
            value = of_points(X, Y)
            (gradient,) = torch.autograd.grad(value, X)
            X = X - 5.0 * gradient
        ends.append((value.item(), X.detach().numpy()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-6)
    np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-4)
    # other points, of another number and in another unit, are solved all the same
    few = 10.0 * torch.tensor(rng.normal(size=(7, 2)))
    expected = cg.transport.divergence(few, Y, entropy=0.1)
    assert expected.lower_bound <= remembering(few, Y).item() + 1e-6
    assert remembering(few, Y).item() <= expected.upper_bound + 1e-6


@pytest.mark.parametrize("entropy", [1e-3, 0.05, 5.0])
def test_the_loss_by_sinkhorn_is_certified_and_has_newtons_value(
    torch: ModuleType, entropy: float
) -> None:
    rng = np.random.default_rng(0)
    X, Y = (torch.tensor(rng.normal(size=(40, 2))) for _ in range(2))
    found = cg.transport.certified_loss(X, Y, entropy=entropy)
    newton = cg.transport.solve(
        cg.transport.SquaredEuclidean(X, Y), entropy=entropy, method="newton", tol=1e-10
    )
    assert found.result.success
    assert found.result.lower_bound <= newton.value
    assert newton.lower_bound <= found.result.value
    np.testing.assert_allclose(found.result.plan.sum(0).numpy(), 1 / 40, rtol=1e-12)
