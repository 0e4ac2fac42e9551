"""Plans that carry a part of the mass: the set's laws, and both of its oracles against CVXPY and POT."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.sets import PartialTransport, Transport
from condgrad.sets.partial_transport import capped_sums
from tests.transport import negentropy

seeds = st.integers(0, 10_000)
shares = st.sampled_from([0.01, 0.3, 0.8, 1.0])


def problem(seed: int, share: float, unit: float = 1.0) -> tuple[PartialTransport, Any, Any, Any]:
    """Weights of masses 1 and 1.4 times the unit, of which a share of the smaller is carried."""
    rng = np.random.default_rng(seed)
    a, b = unit * rng.dirichlet(np.full(6, 2.0)), 1.4 * unit * rng.dirichlet(np.full(5, 2.0))
    return PartialTransport(a, b, share * unit), a, b, rng.random((6, 5))


def optimum(c: Any, a: Any, b: Any, mass: float, entropy: float) -> float:
    G = cp.Variable(c.shape, nonneg=True)
    F = cp.sum(cp.multiply(c, G)) - (entropy * cp.sum(cp.entr(G)) if entropy > 0.0 else 0.0)
    judge = cp.Problem(
        cp.Minimize(F), [cp.sum(G, axis=1) <= a, cp.sum(G, axis=0) <= b, cp.sum(G) == mass]
    )
    judge.solve(solver=cp.CLARABEL)
    assert judge.status == "optimal"
    return float(judge.value)


def off(G: Any, a: Any, b: Any, mass: float) -> float:
    """How far G is from the set, by its definition."""
    return float(
        max(-G.min(), (G.sum(axis=1) - a).max(), (G.sum(axis=0) - b).max(), abs(G.sum() - mass))
    )


@given(
    seed=seeds,
    share=shares,
    entropy=st.sampled_from([1.0, 0.1, 0.01]),
    accuracy=st.sampled_from([0.1, 1e-4, 1e-10]),
)
@settings(max_examples=12)
def test_entropic_argmin_is_feasible_and_its_bound_holds(
    seed: int, share: float, entropy: float, accuracy: float
) -> None:
    P, a, b, c = problem(seed, share)
    best = optimum(c, a, b, share, entropy)
    answer = P.entropic_argmin(c, entropy, accuracy=accuracy)
    value = float((c * answer.point).sum()) + entropy * negentropy(answer.point)
    assert off(answer.point, a, b, share) <= 1e-14
    assert answer.value == pytest.approx(entropy * negentropy(answer.point))
    assert answer.bound <= best + 1e-6
    assert value >= best - 1e-6
    assert -1e-13 <= value - answer.bound <= accuracy
    again = P.entropic_argmin(c, entropy, accuracy=accuracy, warm=answer.warm)
    assert again.inner_iterations <= answer.inner_iterations


@given(seed=seeds, share=shares, unit=st.sampled_from([1.0, 1e-4, 300.0]))
@settings(max_examples=10)
def test_linear_argmin_is_that_of_pot(seed: int, share: float, unit: float) -> None:
    P, a, b, c = problem(seed, share, unit)
    theirs = ot.partial.partial_wasserstein(a / unit, b / unit, c, m=min(share, (a / unit).sum()))
    answer = P.linear_argmin(c)
    value = float((c * answer.point).sum())
    assert off(answer.point, a, b, share * unit) <= 1e-14 * max(1.0, unit)
    assert value == pytest.approx(unit * float((c * theirs).sum()), abs=1e-9 * unit)
    assert answer.bound == pytest.approx(value, abs=1e-9 * unit)
    assert answer.bound <= value + 1e-14 * unit


@pytest.mark.parametrize("engine", ["highs", "emd"])
def test_engines_agree(engine: str) -> None:
    P, a, b, c = problem(1, 0.6)
    answer = PartialTransport(a, b, 0.6, engine=engine).linear_argmin(c - 3.0)
    assert answer.bound == pytest.approx(optimum(c, a, b, 0.6, 0.0) - 3.0 * 0.6, abs=1e-7)
    assert P.violation(answer.point) <= 1e-14


@given(seed=seeds)
@settings(max_examples=10)
def test_all_of_both_masses_is_transport(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.dirichlet(np.full(5, 2.0)), rng.dirichlet(np.full(4, 2.0)), rng.random((5, 4))
    whole, partial = Transport(a, b), PartialTransport(a, b, 1.0)
    here, there = (P.entropic_argmin(c, 0.05, accuracy=1e-12) for P in (whole, partial))
    assert there.bound == pytest.approx(here.bound, abs=1e-10)
    np.testing.assert_allclose(there.point, here.point, atol=1e-5)
    assert partial.linear_argmin(c).bound == pytest.approx(whole.linear_argmin(c).bound, abs=1e-9)


def test_little_mass_has_a_closed_form() -> None:
    """Where no cap is met the plan is mass times a softmax of the whole cost."""
    c = np.random.default_rng(0).random((4, 5))
    P = PartialTransport(np.ones(4), np.ones(5), 0.1)
    K = np.exp(-c / 0.5)
    np.testing.assert_allclose(
        P.entropic_argmin(c, 0.5, accuracy=1e-13).point, 0.1 * K / K.sum(), atol=1e-12
    )


@given(
    seed=seeds, share=shares, unit=st.sampled_from([1e-6, 1e5]), mass=st.sampled_from([1e-4, 1e3])
)
@settings(max_examples=10)
def test_units(seed: int, share: float, unit: float, mass: float) -> None:
    P, _, _, c = problem(seed, share)
    Q, _, _, _ = problem(seed, share, mass)
    here = P.entropic_argmin(c, 0.05, accuracy=1e-11)
    there = Q.entropic_argmin(unit * c, unit * 0.05, accuracy=1e-11 * unit * mass)
    np.testing.assert_allclose(there.point / mass, here.point, atol=1e-5)


@given(seed=seeds, share=st.floats(0.05, 1.0))
def test_capped_sums(seed: int, share: float) -> None:
    """min(caps, t R) adds up to the mass, for numbers of any size."""
    rng = np.random.default_rng(seed)
    caps, logs = rng.dirichlet(np.ones(6)), rng.uniform(-400.0, 400.0, 6)
    found, log_t = capped_sums(logs, caps, share)
    assert np.exp(found).sum() == pytest.approx(min(share, caps.sum()), rel=1e-12)
    np.testing.assert_allclose(found, np.minimum(np.log(caps), log_t + logs), atol=1e-12)


def test_start_violation_and_rounding() -> None:
    P, a, b, _ = problem(3, 0.7)
    assert off(P.start(cg.smooth.Linear(np.zeros((6, 5))).space), a, b, 0.7) <= 1e-15
    assert P.violation(np.outer(a, b)) > 0.5
    rng = np.random.default_rng(0)
    for plan in (rng.random((6, 5)), 1e-3 * rng.random((6, 5)), np.zeros((6, 5))):
        assert off(P.rounded(plan), a, b, 0.7) <= 1e-15


def test_points_without_weight() -> None:
    rng = np.random.default_rng(0)
    a, b, c = np.array([0.5, 0.0, 0.5]), np.array([0.0, 0.6, 0.5]), rng.random((3, 3))
    full = PartialTransport(a, b, 0.7).entropic_argmin(c, 0.1, accuracy=1e-12)
    part = PartialTransport(a[[0, 2]], b[1:], 0.7).entropic_argmin(
        c[[0, 2]][:, 1:], 0.1, accuracy=1e-12
    )
    np.testing.assert_allclose(full.point[[0, 2]][:, 1:], part.point, atol=1e-6)
    assert full.point.sum() == pytest.approx(0.7)
    assert PartialTransport(a, b, 0.7).linear_argmin(c).point[1].max() == 0.0


def test_torch(torch: ModuleType) -> None:
    P, a, b, c = problem(4, 0.5)
    Q = PartialTransport(torch.tensor(a), torch.tensor(b), 0.5)
    here, there = (
        P.entropic_argmin(c, 0.05, accuracy=1e-12),
        Q.entropic_argmin(torch.tensor(c), 0.05, accuracy=1e-12),
    )
    np.testing.assert_allclose(there.point.numpy(), here.point, atol=1e-7)
    np.testing.assert_allclose(
        Q.linear_argmin(torch.tensor(c)).point.numpy(), P.linear_argmin(c).point, atol=1e-12
    )
