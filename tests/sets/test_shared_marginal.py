"""Plans that share a marginal: the set's laws, and both of its oracles against CVXPY and closed forms."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import condgrad as cg
from condgrad.sets import SharedMarginal, Transport
from tests.transport import negentropy

seeds = st.integers(0, 10_000)
SIZES = (4, 1, 6)
N = 5


def problem(seed: int, mass: float = 1.0) -> tuple[SharedMarginal, Any, list[Any], Any]:
    """Three measures of different sizes, with a cost; weights that do not sum to 1."""
    rng = np.random.default_rng(seed)
    measures = [mass * rng.dirichlet(np.full(m, 2.0)) for m in SIZES]
    weights = rng.uniform(0.2, 2.0, len(SIZES))
    return (
        SharedMarginal(N, measures, weights=weights),
        rng.random((N, sum(SIZES))),
        measures,
        weights,
    )


def optimum(c: Any, measures: list[Any], weights: Any, entropy: float) -> float:
    """min <c, X> + entropy sum X log X by CVXPY, p being a variable of its own."""
    p = cp.Variable(N, nonneg=True)
    F, constraints, begin = 0.0, [], 0
    for w, b in zip(weights, measures, strict=True):
        X = cp.Variable((N, len(b)), nonneg=True)
        F = F + cp.sum(cp.multiply(c[:, begin : begin + len(b)], X))
        if entropy > 0.0:
            F = F - entropy * cp.sum(cp.entr(X))
        constraints += [cp.sum(X, axis=0) == w * b, cp.sum(X, axis=1) == w * p]
        begin += len(b)
    judge = cp.Problem(cp.Minimize(F), constraints)
    judge.solve(solver=cp.CLARABEL)
    assert judge.status == "optimal"
    return float(judge.value)


def off(x: Any, measures: list[Any], weights: Any) -> float:
    """How far x is from the set, by its definition."""
    worst, begin, shared = max(0.0, -float(x.min())), 0, []
    for w, b in zip(weights, measures, strict=True):
        block = x[:, begin : begin + len(b)]
        worst = max(worst, abs(block.sum(axis=0) - w * b).max())
        shared.append(block.sum(axis=1) / w)
        begin += len(b)
    return max(worst, float(np.ptp(shared, axis=0).max()))


@given(
    seed=seeds,
    entropy=st.sampled_from([1.0, 0.1, 0.01]),
    accuracy=st.sampled_from([1e-1, 1e-4, 1e-10]),
)
@settings(max_examples=10)
def test_entropic_argmin_is_feasible_and_its_bound_holds(
    seed: int, entropy: float, accuracy: float
) -> None:
    P, c, measures, weights = problem(seed)
    best = optimum(c, measures, weights, entropy)
    answer = P.entropic_argmin(c, entropy, accuracy=accuracy)
    value = float((c * answer.point).sum()) + entropy * negentropy(answer.point)
    assert off(answer.point, measures, weights) <= 1e-14
    assert answer.value == pytest.approx(entropy * negentropy(answer.point))
    assert answer.bound <= best + 1e-6
    assert value >= best - 1e-6
    assert -1e-13 <= value - answer.bound <= accuracy
    # a warm start at the solution has little left to do
    again = P.entropic_argmin(c, entropy, accuracy=accuracy, warm=answer.warm)
    assert again.inner_iterations <= answer.inner_iterations


@given(seed=seeds, mass=st.sampled_from([1.0, 1e-3, 50.0]))
@settings(max_examples=10)
def test_linear_argmin_is_that_of_cvxpy(seed: int, mass: float) -> None:
    P, c, measures, weights = problem(seed, mass)
    best = mass * optimum(
        c, [b / mass for b in measures], weights, 0.0
    )  # a judge with tolerances of its own
    answer = P.linear_argmin(c)
    assert off(answer.point, measures, weights) <= 1e-14 * max(1.0, mass)
    assert float((c * answer.point).sum()) == pytest.approx(best, abs=1e-7 * mass)
    assert answer.bound == pytest.approx(float((c * answer.point).sum()), abs=1e-9 * mass)
    assert answer.bound <= float((c * answer.point).sum()) + 1e-14 * mass


def test_measures_of_one_point_have_a_closed_form() -> None:
    """The plans are p itself: sum_k w_k <c_k, p> + e W sum p log p + constant, whose minimiser is a softmax."""
    rng = np.random.default_rng(0)
    weights, c = np.array([0.5, 2.0, 1.0]), rng.random((7, 3))
    P = SharedMarginal(7, [np.ones(1)] * 3, weights=weights)
    point = P.entropic_argmin(c, 0.1, accuracy=1e-14).point
    np.testing.assert_allclose(
        P.shared(point), softmax(-(c @ weights) / (0.1 * weights.sum())), atol=1e-7
    )


def test_one_measure_needs_no_compromise() -> None:
    """With one block p is free, so that each column is a softmax of its own."""
    rng = np.random.default_rng(1)
    b, c = rng.dirichlet(np.ones(6)), rng.random((4, 6))
    answer = SharedMarginal(4, [b]).entropic_argmin(c, 0.05, accuracy=1e-14)
    np.testing.assert_allclose(answer.point, b[None, :] * softmax(-c / 0.05, axis=0), atol=1e-9)


@given(seed=seeds, unit=st.sampled_from([1e-6, 1e5]), mass=st.sampled_from([1e-4, 1e3]))
@settings(max_examples=10)
def test_units(seed: int, unit: float, mass: float) -> None:
    """Costs and entropy times c, weights of the measures times m: the points are m times as large, F c m times."""
    P, c, _, _ = problem(seed)
    Q, _, _, _ = problem(seed, mass)
    here = P.entropic_argmin(c, 0.05, accuracy=1e-11)
    there = Q.entropic_argmin(unit * c, unit * 0.05, accuracy=1e-11 * unit * mass)
    np.testing.assert_allclose(there.point / mass, here.point, atol=1e-5)


def test_small_entropies_approach_the_linear_program() -> None:
    P, c, _, _ = problem(3)
    exact = P.linear_argmin(c)
    nearly = P.entropic_argmin(c, 1e-5, accuracy=1e-6)
    assert float((c * nearly.point).sum()) == pytest.approx(exact.bound, abs=1e-3)
    assert float((c * nearly.point).sum()) >= exact.bound - 1e-12


def test_minimize_runs_on_it() -> None:
    """A smooth f beyond the linear one, in the one loop, against CVXPY's optimum of the same."""
    P, c, measures, weights = problem(5)
    target = np.random.default_rng(5).random(P.shape) / 20.0
    f = cg.smooth.Linear(c) + cg.smooth.Function(
        lambda X: (4.0 * float(((X - target) ** 2).sum()), 8.0 * (X - target))
    )
    result = cg.minimize(f, cg.simple.Entropy(0.1, on=P), tol=1e-8, memory=5)
    X, p = cp.Variable(P.shape, nonneg=True), cp.Variable(N)
    F = cp.sum(cp.multiply(c, X)) + 4.0 * cp.sum_squares(X - target) - 0.1 * cp.sum(cp.entr(X))
    ends = np.cumsum(SIZES)
    constraints = [
        cp.sum(X, axis=0) == np.concatenate([w * b for w, b in zip(weights, measures, strict=True)])
    ]
    for w, m, end in zip(weights, SIZES, ends, strict=True):
        constraints.append(cp.sum(X[:, end - m : end], axis=1) == w * p)
    judge = cp.Problem(cp.Minimize(F), constraints)
    judge.solve(solver=cp.CLARABEL)
    assert result.success
    assert result.lower_bound <= judge.value + 1e-6
    assert result.value == pytest.approx(judge.value, abs=1e-6)
    assert off(result.x, measures, weights) <= 1e-13


def test_start_violation_and_rounding() -> None:
    P, _, measures, weights = problem(2)
    start = P.start(cg.smooth.Linear(np.zeros(P.shape)).space)
    assert off(start, measures, weights) <= 1e-15
    assert P.violation(start) <= 1e-15
    assert P.violation(start + 0.1) > 0.05
    moved = start.copy()
    moved[0, 0] += 0.01
    moved[1, 0] -= 0.01  # columns stay as they are, the blocks no longer share their marginal
    assert P.violation(moved) > 1e-3
    rough = np.random.default_rng(0).random(P.shape)
    assert off(P.rounded(rough, np.full(N, 0.2)), measures, weights) <= 1e-15


def test_points_without_weight() -> None:
    c = np.random.default_rng(0).random((3, 5))
    full = SharedMarginal(3, [np.array([0.5, 0.0, 0.5]), np.array([1.0, 0.0])])
    part = SharedMarginal(3, [np.array([0.5, 0.5]), np.array([1.0])])
    kept = [0, 2, 3]
    here, there = (
        full.entropic_argmin(c, 0.1, accuracy=1e-12),
        part.entropic_argmin(c[:, kept], 0.1, accuracy=1e-12),
    )
    np.testing.assert_allclose(here.point[:, kept], there.point, atol=1e-6)
    assert here.point[:, [1, 4]].max() == 0.0
    assert here.bound == pytest.approx(there.bound, abs=1e-11)


def test_torch(torch: ModuleType) -> None:
    P, c, measures, weights = problem(4)
    Q = SharedMarginal(N, [torch.tensor(b) for b in measures], weights=weights)
    here, there = (
        P.entropic_argmin(c, 0.05, accuracy=1e-12),
        Q.entropic_argmin(torch.tensor(c), 0.05, accuracy=1e-12),
    )
    np.testing.assert_allclose(there.point.numpy(), here.point, atol=1e-7)
    np.testing.assert_allclose(
        Q.linear_argmin(torch.tensor(c)).point.numpy(), P.linear_argmin(c).point, atol=1e-12
    )


def test_a_fixed_marginal_of_two_blocks_is_a_transport_problem() -> None:
    """A block whose cost forbids all but the identity pins p to its measure."""
    rng = np.random.default_rng(6)
    a, b, C = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3)), rng.random((4, 3))
    pinned = SharedMarginal(4, [a, b]).linear_argmin(np.hstack([1e3 * (1.0 - np.eye(4)), C]))
    assert pinned.bound == pytest.approx(Transport(a, b).linear_argmin(C).bound, abs=1e-8)


@pytest.mark.parametrize("n", [1, 4])
def test_linear_argmin_under_weights_of_different_sizes(n: int) -> None:
    rng = np.random.default_rng(n)
    measures, weights = (
        [rng.dirichlet(np.full(m, 0.2)) for m in (5, 2, 3)],
        np.array([1e-4, 1.0, 30.0]),
    )
    P, c = SharedMarginal(n, measures, weights=weights), rng.random((n, 10))
    answer = P.linear_argmin(c)
    assert off(answer.point, measures, weights) <= 1e-13
    assert answer.bound == pytest.approx(float((c * answer.point).sum()), rel=1e-9)


def test_masses_that_differ_by_rounding() -> None:
    """Single weights sum to 1 but for a rounding unit, which HiGHS may take for a contradiction."""
    first = np.array([0.6691930294036865, 0.33080700039863586], dtype=np.float32)
    P = SharedMarginal(2, [first, np.ones(1, dtype=np.float32)], weights=[0.263, 0.174])
    answer = P.linear_argmin(np.zeros((2, 3), dtype=np.float32))
    assert P.violation(answer.point) <= 1e-7
