"""Barycentres against POT, CVXPY, linear programs and closed forms; the laws of both kinds."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condgrad.transport import GroupLasso, Laplacian, barycenter, free_barycenter, solve
from tests.transport import entropic_value, marginal_error, squared_distances

seeds = st.integers(0, 10_000)
GRID = np.linspace(0.0, 1.0, 40)[:, None]
COST = squared_distances(GRID, GRID)


def bump(centre: float, width: float) -> Any:
    density = np.exp(-0.5 * ((GRID[:, 0] - centre) / width) ** 2) + 1e-4
    return density / density.sum()


def ring(n: int) -> Any:
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[(i + 1) % n, i] = 1.0
    return np.eye(n) - 0.5 * W


def root(L: Any) -> Any:
    values, vectors = np.linalg.eigh(L)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))).T


def clouds(seed: int) -> tuple[Any, list[Any], list[Any], list[Any], Any]:
    """A support, two clouds of different sizes with weights, their costs, and weights of the measures."""
    rng = np.random.default_rng(seed)
    S, points = rng.random((6, 2)), [rng.random((4, 2)), rng.random((5, 2)) + 0.5]
    measures = [rng.dirichlet(np.full(len(X), 2.0)) for X in points]
    return S, points, measures, [squared_distances(S, X) for X in points], np.array([0.3, 0.7])


@pytest.mark.parametrize("entropy", [1e-2, pytest.param(1e-3, marks=pytest.mark.slow)])
def test_pot_has_the_same_barycentre(entropy: float) -> None:
    measures, weights = (
        [bump(0.25, 0.05), bump(0.7, 0.1), bump(0.5, 0.02)],
        np.array([0.2, 0.5, 0.3]),
    )
    theirs = ot.bregman.barycenter(
        np.stack(measures, axis=1),
        COST,
        entropy,
        weights=weights,
        method="sinkhorn_log",
        numItermax=20_000,
        stopThr=1e-13,
    )
    ours = barycenter(COST, measures, weights, entropy=entropy, tol=1e-10)
    assert ours.success
    assert abs(ours.weights - theirs).sum() <= 1e-5
    for plan, b in zip(ours.plans, measures, strict=True):
        assert marginal_error(plan, ours.weights, b) <= 1e-14
    value = sum(
        w * entropic_value(plan, COST, entropy) for w, plan in zip(weights, ours.plans, strict=True)
    )
    assert ours.value == pytest.approx(value, abs=1e-12)
    assert ours.lower_bound <= ours.value


def test_without_entropy_it_is_the_linear_program_of_pot() -> None:
    measures, weights = [bump(0.25, 0.05), bump(0.7, 0.1)], np.array([0.4, 0.6])
    theirs = ot.lp.barycenter(np.stack(measures, axis=1), COST, weights=weights)
    ours = barycenter(COST, measures, weights, entropy=0.0)
    assert ours.success
    assert ours.gap <= 1e-9
    value = sum(
        w * ot.emd2(theirs / theirs.sum(), b, COST) for w, b in zip(weights, measures, strict=True)
    )
    assert ours.value == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("entropy", [0.0, 1e-4])
def test_two_points_meet_at_their_weighted_mean(entropy: float) -> None:
    """Of unit masses at 0 and 1 with weights 1 - t and t the barycentre is the unit mass at t."""
    measures = [np.eye(40)[0], np.eye(40)[39]]
    for t in (0.0 + 10 / 39, 30 / 39):
        ours = barycenter(COST, measures, [1.0 - t, t], entropy=entropy)
        assert float(ours.weights @ GRID[:, 0]) == pytest.approx(t, abs=1e-3)
        assert ours.weights.max() >= 0.9
        if entropy == 0.0:
            assert ours.value == pytest.approx(t * (1.0 - t), abs=1e-12)


def test_the_entropic_barycentre_of_points_is_a_softmax() -> None:
    entropy, weights = 0.05, np.array([0.25, 0.75])
    ours = barycenter(
        [COST[:, :1], COST[:, 39:]], [np.ones(1), np.ones(1)], weights, entropy=entropy, tol=1e-12
    )
    mixed = (weights[0] * COST[:, 0] + weights[1] * COST[:, 39]) / entropy
    np.testing.assert_allclose(ours.weights, np.exp(-mixed) / np.exp(-mixed).sum(), atol=1e-7)
    assert ours.value == pytest.approx(-entropy * np.log(np.exp(-mixed).sum()), abs=1e-10)


def test_the_barycentre_of_one_measure_pays_no_more_than_any_plan() -> None:
    b = bump(0.3, 0.1)
    ours = barycenter(COST, [b], entropy=0.0)
    np.testing.assert_allclose(ours.weights, b, atol=1e-12)
    assert ours.value == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("name", ["entropy", "laplacian", "groups", "each its own"])
def test_cvxpy_has_the_same_optimum(name: str) -> None:
    S, points, measures, costs, weights = clouds(0)
    laplacian = Laplacian(S, points[0], 3.0, Ls=ring(6), Lt=ring(4), target=0.5)
    groups = GroupLasso(np.arange(6) % 2, 0.2)
    regularizers: dict[str, Any] = {
        "entropy": None,
        "laplacian": [[laplacian], []],
        "groups": [[groups], [groups]],
        "each its own": [[laplacian], [groups]],
    }
    plans = [cp.Variable(C.shape, nonneg=True) for C in costs]
    F = 0.0
    for k, (w, C, G) in enumerate(zip(weights, costs, plans, strict=True)):
        term = cp.sum(cp.multiply(C, G)) - 0.05 * cp.sum(cp.entr(G))
        for regularizer in (regularizers[name] or [[], []])[k]:
            if regularizer is laplacian:
                term += 3.0 * cp.sum_squares(root(ring(6)) @ G @ points[0])
                term += 1.5 * cp.sum_squares(root(ring(4)) @ G.T @ S)
            else:
                term += 0.2 * sum(
                    cp.sum(cp.norm(G[np.arange(6) % 2 == c], 2, axis=0)) for c in range(2)
                )
        F = F + w * term
    p = cp.Variable(6)
    constraints = [cp.sum(G, axis=1) == p for G in plans]
    constraints += [cp.sum(G, axis=0) == b for G, b in zip(plans, measures, strict=True)]
    judge = cp.Problem(cp.Minimize(F), constraints)
    judge.solve(solver=cp.CLARABEL)
    ours = barycenter(
        costs, measures, weights, entropy=0.05, regularizers=regularizers[name], tol=1e-8
    )
    assert ours.success
    assert ours.lower_bound <= judge.value + 1e-6
    assert ours.value == pytest.approx(judge.value, abs=2e-6)
    np.testing.assert_allclose(ours.weights, p.value, atol=2e-3)


@given(seed=seeds, tol=st.sampled_from([1e-1, 1e-3, 1e-6]), time_limit=st.sampled_from([None, 0.0]))
@settings(max_examples=10)
def test_the_bound_holds_however_early_it_ends(
    seed: int, tol: float, time_limit: float | None
) -> None:
    _, _, measures, costs, weights = clouds(seed)
    rough = barycenter(costs, measures, weights, entropy=0.02, tol=tol, time_limit=time_limit)
    exact = barycenter(costs, measures, weights, entropy=0.02, tol=1e-10)
    assert rough.lower_bound <= exact.value
    assert rough.value >= exact.lower_bound
    assert rough.gap >= exact.value - exact.lower_bound - 1e-9


@given(
    seed=seeds,
    unit=st.sampled_from([1e-5, 1e4]),
    mass=st.sampled_from([1e-3, 20.0]),
    scale=st.floats(0.1, 9.0),
)
@settings(max_examples=10)
def test_units(seed: int, unit: float, mass: float, scale: float) -> None:
    """Costs and entropy times c, masses times m, weights of the measures times anything."""
    _, _, measures, costs, weights = clouds(seed)
    here = barycenter(costs, measures, weights, entropy=0.05, tol=1e-9)
    there = barycenter(
        [unit * C for C in costs],
        [mass * b for b in measures],
        scale * weights,
        entropy=unit * 0.05,
        tol=1e-9,
    )
    np.testing.assert_allclose(there.weights / mass, here.weights, atol=1e-3)
    entropy_of_mass = 0.05 * np.log(mass)  # m G log (m G) has m log m in it
    assert there.value / (unit * mass) == pytest.approx(here.value + entropy_of_mass, abs=1e-7)


@given(seed=seeds, entropy=st.sampled_from([0.3, 0.02, 1e-3]))
@settings(max_examples=10)
def test_newton_and_projections_agree(seed: int, entropy: float) -> None:
    _, _, measures, costs, weights = clouds(seed)
    measures = [
        np.array([0.0, *measures[0][1:]]) / measures[0][1:].sum(),
        measures[1],
    ]  # a point without weight
    by_newton, by_cgs = (
        barycenter(costs, measures, weights, entropy=entropy, method=method, tol=1e-9)
        for method in ("newton", "cgs")
    )
    assert by_newton.success
    assert by_newton.lower_bound <= by_cgs.value
    assert by_cgs.lower_bound <= by_newton.value
    assert by_newton.value == pytest.approx(by_cgs.value, abs=1e-8)
    for plan, b in zip(by_newton.plans, measures, strict=True):
        assert marginal_error(plan, by_newton.weights, b) <= 1e-14


@pytest.mark.slow
def test_newton_solves_what_projections_cannot() -> None:
    """At entropies of a millionth of the cost, where projections crawl; auto knows, and the linear program judges."""
    measures, weights = (
        [bump(0.25, 0.05), bump(0.7, 0.1), bump(0.5, 0.02)],
        np.array([0.2, 0.5, 0.3]),
    )
    ours = barycenter(COST, measures, weights, entropy=1e-6, tol=1e-7)
    assert ours.result.method == "newton"
    assert ours.success
    linear = barycenter(COST, measures, weights, entropy=0.0)
    cost = sum(w * float((COST * plan).sum()) for w, plan in zip(weights, ours.plans, strict=True))
    assert linear.lower_bound - 1e-12 <= cost <= linear.value + 1e-5
    crawling = barycenter(COST, measures, weights, entropy=1e-6, tol=1e-7, method="cgs", max_iter=1)
    assert crawling.lower_bound <= ours.value
    assert not crawling.success


def test_torch_and_numpy_agree(torch: ModuleType) -> None:
    S, points, measures, costs, weights = clouds(2)
    regularizers = [[Laplacian(S, points[0], 3.0, neighbors=2)], []]
    here = barycenter(costs, measures, weights, entropy=0.05, regularizers=regularizers, tol=1e-9)
    there = barycenter(
        [torch.tensor(C) for C in costs],
        measures,
        weights,
        entropy=0.05,
        regularizers=regularizers,
        tol=1e-9,
    )
    by_newton = barycenter(
        [torch.tensor(C) for C in costs], measures, weights, entropy=1e-4, method="newton"
    )
    assert by_newton.success
    assert by_newton.value == pytest.approx(
        barycenter(costs, measures, weights, entropy=1e-4).value, abs=1e-5
    )
    assert isinstance(there.weights, torch.Tensor)
    np.testing.assert_allclose(there.weights.numpy(), here.weights, atol=1e-4)


class TestFreeSupport:
    def test_one_target_point_is_where_all_go(self) -> None:
        start = np.random.default_rng(0).random((5, 2))
        ours = free_barycenter(
            start, [np.array([[1.0, 2.0]]), np.array([[3.0, 0.0]])], weights=[1.0, 3.0], entropy=0.1
        )
        np.testing.assert_allclose(ours.points, np.tile([2.5, 0.5], (5, 1)), atol=1e-12)

    def test_a_cloud_is_its_own_barycentre(self) -> None:
        X = np.random.default_rng(1).random((6, 2))
        ours = free_barycenter(X + 0.01, [X, X], entropy=0.0)
        np.testing.assert_allclose(ours.points, X, atol=1e-9)
        assert ours.value == pytest.approx(0.0, abs=1e-12)

    def test_shifts_average(self) -> None:
        """The barycentre of a cloud and its translate is the cloud moved by part of the way."""
        X = np.random.default_rng(2).random((6, 2))
        shift = np.array([10.0, -4.0])
        ours = free_barycenter(X + 0.5, [X, X + shift], weights=[0.75, 0.25], entropy=0.0)
        np.testing.assert_allclose(ours.points, X + 0.25 * shift, atol=1e-9)

    @pytest.mark.slow
    @given(seed=seeds, entropy=st.sampled_from([0.0, 0.01, 0.3]))
    @settings(max_examples=10)
    def test_pot_ends_no_lower_and_the_plans_are_certified(self, seed: int, entropy: float) -> None:
        _, points, measures, _, weights = clouds(seed)
        start = np.random.default_rng(seed).random((6, 2))
        ours = free_barycenter(start, points, measures, weights, entropy=entropy, tol=1e-9)
        value = 0.0
        for w, X, b, t in zip(weights, points, measures, ours.plans, strict=True):
            C = squared_distances(ours.points, X)
            assert marginal_error(t.plan, ours.weights, b) <= 1e-14
            assert t.value == pytest.approx(entropic_value(t.plan, C, entropy), abs=1e-12)
            again = solve(C, ours.weights, b, entropy=entropy, tol=1e-9)
            assert t.lower_bound <= again.value + 1e-12
            value += w * t.value
        assert ours.value == pytest.approx(value)
        if entropy == 0.0:
            theirs = ot.lp.free_support_barycenter(
                points, measures, start, weights=weights, numItermax=200, stopThr=1e-12
            )
            judged = sum(
                w * ot.emd2(np.full(6, 1 / 6), b, squared_distances(theirs, X))
                for w, X, b in zip(weights, points, measures, strict=True)
            )
            assert ours.value == pytest.approx(judged, abs=1e-6)

    def test_rounds_never_raise_the_value(self) -> None:
        _, points, measures, _, weights = clouds(7)
        start = np.random.default_rng(7).random((9, 2))
        values = [
            free_barycenter(
                start, points, measures, weights, entropy=0.02, tol=1e-12, max_rounds=r
            ).value
            for r in range(1, 6)
        ]
        assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))
        assert values[-1] < values[0]

    def test_limits_and_what_it_says(self) -> None:
        _, points, _, _, _ = clouds(7)
        start = np.random.default_rng(7).random((9, 2))
        assert "1 rounds" in free_barycenter(start, points, entropy=0.02, max_rounds=1).message
        assert "local search" in free_barycenter(start, points, entropy=0.02).message
        assert "time limit" in free_barycenter(start, points, entropy=0.02, time_limit=0.0).message
