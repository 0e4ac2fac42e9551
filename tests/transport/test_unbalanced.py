"""Relaxed and partial transport against CVXPY, POT and their limits; the laws of both."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.sets.sinkhorn import Potentials
from condgrad.transport import GroupLasso, Laplacian, partial, solve, unbalanced
from condgrad.transport.unbalanced import RelaxedProblem
from tests.transport import Cloud, cloud, entropic_value, negentropy

seeds = st.integers(0, 10_000)
penalties = st.sampled_from([0.02, 0.5, 20.0, (0.1, 3.0), (math.inf, 0.3), (0.3, math.inf)])


def uneven(seed: int) -> Cloud:
    """Masses 1 and 1.5."""
    data = cloud(7, 5, seed=seed)
    return Cloud(data.Xs, data.Xt, data.a, 1.5 * data.b, data.C)


def divergence(x: Any, y: Any) -> float:
    """KL(x | y) by its formula."""
    return negentropy(x) - float((x * np.log(y)).sum()) - float(x.sum()) + float(y.sum())


def objective(G: Any, data: Cloud, entropy: float, penalty: Any) -> float:
    """F by its formula; an exact marginal costs nothing."""
    for_a, for_b = penalty if isinstance(penalty, tuple) else (penalty, penalty)
    R = np.outer(data.a, data.b) / math.sqrt(data.a.sum() * data.b.sum())
    value = float((data.C * G).sum()) + entropy * divergence(G, R)
    if for_a < math.inf:
        value += for_a * divergence(G.sum(axis=1), data.a)
    if for_b < math.inf:
        value += for_b * divergence(G.sum(axis=0), data.b)
    return value


def optimum(data: Cloud, entropy: float, penalty: Any) -> float:
    for_a, for_b = penalty if isinstance(penalty, tuple) else (penalty, penalty)
    R = np.outer(data.a, data.b) / math.sqrt(data.a.sum() * data.b.sum())
    G = cp.Variable(data.C.shape, nonneg=True)
    F, constraints = cp.sum(cp.multiply(data.C, G)) + entropy * cp.sum(cp.kl_div(G, R)), []
    for p, sums, weights in [
        (for_a, cp.sum(G, axis=1), data.a),
        (for_b, cp.sum(G, axis=0), data.b),
    ]:
        if p < math.inf:
            F = F + p * cp.sum(cp.kl_div(sums, weights))
        else:
            constraints.append(sums == weights)
    judge = cp.Problem(cp.Minimize(F), constraints)
    judge.solve(solver=cp.CLARABEL)
    assert judge.status == "optimal"
    return float(judge.value)


@given(seed=seeds, entropy=st.sampled_from([0.02, 0.1, 1.0]), penalty=penalties)
@settings(max_examples=10)
def test_cvxpy_has_the_same_optimum(seed: int, entropy: float, penalty: Any) -> None:
    data = uneven(seed)
    best = optimum(data, entropy, penalty)
    ours = unbalanced(data.C, data.a, data.b, entropy=entropy, penalty=penalty, tol=1e-9)
    assert ours.success
    assert ours.lower_bound <= best + 1e-6
    assert ours.value == pytest.approx(best, abs=1e-6)
    assert ours.value == pytest.approx(objective(ours.plan, data, entropy, penalty), abs=1e-11)
    if isinstance(penalty, tuple) and penalty[0] == math.inf:
        np.testing.assert_allclose(ours.sources, data.a, atol=1e-14)
    if isinstance(penalty, tuple) and penalty[1] == math.inf:
        np.testing.assert_allclose(ours.targets, data.b, atol=1e-14)


@pytest.mark.parametrize("penalty", [0.05, 1.0, (0.3, 2.0)])
def test_pot_has_the_same_plan(penalty: Any) -> None:
    data = uneven(1)
    R = np.outer(data.a, data.b) / math.sqrt(1.5)
    theirs = ot.unbalanced.sinkhorn_unbalanced(
        data.a, data.b, data.C, 0.1, penalty, c=R, numItermax=100_000, stopThr=1e-14
    )
    ours = unbalanced(data.C, data.a, data.b, entropy=0.1, penalty=penalty, tol=1e-12)
    np.testing.assert_allclose(ours.plan, theirs, atol=1e-7)
    even = cloud(7, 5, seed=1)  # for masses 1 their own default is ours
    theirs = ot.unbalanced.sinkhorn_unbalanced(
        even.a, even.b, even.C, 0.1, penalty, numItermax=100_000, stopThr=1e-14
    )
    ours = unbalanced(even.C, even.a, even.b, entropy=0.1, penalty=penalty, tol=1e-12)
    np.testing.assert_allclose(ours.plan, theirs, atol=1e-7)


@given(
    seed=seeds,
    penalty=penalties,
    tol=st.sampled_from([1e-1, 1e-4]),
    max_iter=st.sampled_from([0, 1, 3, 1000]),
)
@settings(max_examples=10)
def test_the_bound_holds_however_early_it_ends(
    seed: int, penalty: Any, tol: float, max_iter: int
) -> None:
    data = uneven(seed)
    exact = unbalanced(data.C, data.a, data.b, entropy=0.01, penalty=penalty, tol=1e-11)
    rough = unbalanced(
        data.C, data.a, data.b, entropy=0.01, penalty=penalty, tol=tol, max_iter=max_iter
    )
    assert rough.lower_bound <= exact.value + 1e-13
    assert rough.value >= exact.lower_bound - 1e-13
    assert rough.gap >= 0.0


@given(seed=seeds)
@settings(max_examples=10)
def test_a_strong_penalty_is_transport(seed: int) -> None:
    data = cloud(7, 5, seed=seed)
    strict = solve(data.C, data.a, data.b, entropy=0.05, tol=1e-11)
    ours = unbalanced(data.C, data.a, data.b, entropy=0.05, penalty=1e8, tol=1e-11)
    balanced = strict.value - 0.05 * (negentropy(data.a) + negentropy(data.b))
    assert ours.success
    assert ours.value == pytest.approx(balanced, abs=1e-6)
    assert ours.value <= balanced + 1e-9  # it has more plans to choose from
    np.testing.assert_allclose(ours.plan, strict.plan, atol=1e-5)


def test_one_source_and_one_target_have_a_closed_form() -> None:
    """min c g + (e + 2 p) KL(g | 1): g = exp(-c/(e + 2 p))."""
    c, e, p = 0.7, 0.2, 0.5
    ours = unbalanced([[c]], [1.0], [1.0], entropy=e, penalty=p, tol=1e-12)
    assert ours.mass == pytest.approx(math.exp(-c / (e + 2.0 * p)), rel=1e-6)
    assert ours.value == pytest.approx(
        (e + 2.0 * p) * (1.0 - math.exp(-c / (e + 2.0 * p))), abs=1e-11
    )


def test_cgs_on_the_same_f_and_g_agrees() -> None:
    """The penalty and the relative entropy are an f and a g like others: the paper's algorithm proves the same."""
    data = uneven(3)
    for for_a in (0.3, math.inf):
        problem = RelaxedProblem(data.C, data.a, data.b, 0.1, for_a, 0.4)
        by_cgs = cg.minimize(
            problem.smooth, problem.simple, problem.product_plan(), tol=1e-7, memory=5
        )
        ours = unbalanced(data.C, data.a, data.b, entropy=0.1, penalty=(for_a, 0.4), tol=1e-10)
        assert by_cgs.success
        assert by_cgs.lower_bound <= ours.value
        assert ours.lower_bound <= by_cgs.value
        assert by_cgs.value == pytest.approx(ours.value, abs=1e-6)


@given(
    seed=seeds,
    unit=st.sampled_from([1e-6, 1e5]),
    mass=st.sampled_from([1e-4, 1e3]),
    penalty=penalties,
)
@settings(max_examples=10)
def test_units(seed: int, unit: float, mass: float, penalty: Any) -> None:
    """Costs, entropy and penalties times c change the value by c; weights times m change plan and value by m."""
    data = uneven(seed)
    scaled = tuple(unit * p for p in penalty) if isinstance(penalty, tuple) else unit * penalty
    here = unbalanced(data.C, data.a, data.b, entropy=0.05, penalty=penalty, tol=1e-10)
    there = unbalanced(
        unit * data.C, mass * data.a, mass * data.b, entropy=unit * 0.05, penalty=scaled, tol=1e-10
    )
    assert there.iterations == pytest.approx(here.iterations, abs=1)
    assert there.value / (unit * mass) == pytest.approx(here.value, abs=1e-8)
    np.testing.assert_allclose(there.plan / mass, here.plan, atol=1e-5)


@pytest.mark.parametrize("entropy", [1e-3, 1e-5])
@pytest.mark.parametrize("penalty", [1e-2, 1.0, 100.0])
def test_small_entropies(entropy: float, penalty: float) -> None:
    data = uneven(5)
    ours = unbalanced(data.C, data.a, data.b, entropy=entropy, penalty=penalty, tol=1e-9)
    assert ours.success
    assert np.isfinite(ours.plan).all()
    assert ours.value == pytest.approx(objective(ours.plan, data, entropy, penalty), abs=1e-9)


def test_turning_the_problem_turns_the_plan() -> None:
    data = uneven(2)
    here = unbalanced(data.C, data.a, data.b, entropy=0.05, penalty=(0.2, 2.0), tol=1e-12)
    there = unbalanced(data.C.T, data.b, data.a, entropy=0.05, penalty=(2.0, 0.2), tol=1e-12)
    np.testing.assert_allclose(there.plan.T, here.plan, atol=1e-6)
    np.testing.assert_allclose(here.apply(data.Xt), here.plan @ data.Xt)
    np.testing.assert_allclose(here.apply_transpose(data.Xs), here.plan.T @ data.Xs)
    np.testing.assert_allclose(here.barycenters(np.ones((5, 1))), 1.0)


def test_points_without_weight() -> None:
    data = uneven(4)
    a = np.array([0.0, *data.a[1:]])
    full = unbalanced(data.C, a, data.b, entropy=0.05, penalty=0.5, tol=1e-11)
    part = unbalanced(data.C[1:], a[1:], data.b, entropy=0.05, penalty=0.5, tol=1e-11)
    np.testing.assert_allclose(full.plan[1:], part.plan, atol=1e-12)
    assert full.plan[0].max() == 0.0
    assert np.isnan(full.barycenters(data.Xt)[0]).all()


@given(seed=seeds, share=st.sampled_from([0.2, 0.7, 1.0]), entropy=st.sampled_from([0.02, 0.2]))
@settings(max_examples=12)
def test_pot_has_the_same_partial_plan(seed: int, share: float, entropy: float) -> None:
    data = uneven(seed)
    theirs = ot.partial.entropic_partial_wasserstein(
        data.a,
        data.b,
        data.C,
        entropy,
        m=min(share, data.a.sum()),
        numItermax=100_000,
        stopThr=1e-15,
    )
    ours = partial(data.C, data.a, data.b, mass=share, entropy=entropy, tol=1e-10)
    assert ours.success
    assert ours.mass == pytest.approx(share, abs=1e-12)
    np.testing.assert_allclose(ours.plan, theirs, atol=1e-4)
    assert ours.lower_bound <= entropic_value(theirs, data.C, entropy) + 1e-8
    assert ours.value == pytest.approx(entropic_value(ours.plan, data.C, entropy), abs=1e-12)


@pytest.mark.parametrize("name", ["laplacian", "groups"])
def test_cvxpy_has_the_same_regularised_partial_plan(name: str) -> None:
    data, W = uneven(6), np.ones((7, 7)) - np.eye(7)
    L = np.diag(W.sum(axis=1)) - W
    laplacian = Laplacian(data.Xs, data.Xt, 0.5, Ws=W, normalized=False, target=0.0)
    regularizer = laplacian if name == "laplacian" else GroupLasso(np.arange(7) % 2, 0.2)
    G = cp.Variable(data.C.shape, nonneg=True)
    F = cp.sum(cp.multiply(data.C, G)) - 0.05 * cp.sum(cp.entr(G))
    if name == "laplacian":
        values, vectors = np.linalg.eigh(L)
        F = F + 0.5 * cp.sum_squares(
            (vectors * np.sqrt(np.clip(values, 0.0, None))).T @ G @ data.Xt
        )
    else:
        F = F + 0.2 * sum(cp.sum(cp.norm(G[np.arange(7) % 2 == c], 2, axis=0)) for c in range(2))
    judge = cp.Problem(
        cp.Minimize(F), [cp.sum(G, axis=1) <= data.a, cp.sum(G, axis=0) <= data.b, cp.sum(G) == 0.6]
    )
    judge.solve(solver=cp.CLARABEL)
    ours = partial(
        data.C, data.a, data.b, mass=0.6, entropy=0.05, regularizers=[regularizer], tol=1e-8
    )
    assert ours.success
    assert ours.lower_bound <= judge.value + 1e-6
    assert ours.value == pytest.approx(judge.value, abs=2e-6)


def test_partial_without_entropy_is_the_linear_program() -> None:
    data = uneven(7)
    theirs = ot.partial.partial_wasserstein(data.a, data.b, data.C, m=0.5)
    ours = partial(data.C, data.a, data.b, mass=0.5, entropy=0.0)
    assert ours.success
    assert ours.value == pytest.approx(float((data.C * theirs).sum()), abs=1e-9)


def test_carrying_all_is_transport() -> None:
    data = cloud(7, 5, seed=3)
    here = solve(data.C, data.a, data.b, entropy=0.05, tol=1e-10)
    there = partial(data.C, data.a, data.b, mass=1.0, entropy=0.05, tol=1e-10)
    assert there.value == pytest.approx(here.value, abs=1e-8)


def test_torch_and_numpy_agree(torch: ModuleType) -> None:
    data = uneven(8)
    C = torch.tensor(data.C)
    here = unbalanced(data.C, data.a, data.b, entropy=0.05, penalty=(0.4, math.inf), tol=1e-11)
    there = unbalanced(C, data.a, data.b, entropy=0.05, penalty=(0.4, math.inf), tol=1e-11)
    assert isinstance(there.plan, torch.Tensor)
    np.testing.assert_allclose(there.plan.numpy(), here.plan, atol=1e-8)
    assert there.mass == pytest.approx(1.5)
    carried = partial(C, data.a, data.b, mass=0.5, entropy=0.05)
    assert isinstance(carried.plan, torch.Tensor)
    assert carried.mass == pytest.approx(0.5)


def test_limits() -> None:
    data = uneven(9)
    arguments: dict[str, Any] = {"entropy": 1e-4, "penalty": 10.0, "tol": 1e-12}
    cut = unbalanced(data.C, data.a, data.b, time_limit=0.0, **arguments)
    assert cut.status is cg.Status.TIME_LIMIT
    assert np.isfinite(cut.value)
    seen: list[float] = []

    def third(now: Any) -> bool:
        seen.append(now.gap)
        return len(seen) > 2

    stopped = unbalanced(data.C, data.a, data.b, callback=third, **arguments)
    assert stopped.status is cg.Status.STOPPED_BY_CALLBACK


def test_costs_of_nothing_leave_the_product() -> None:
    data = cloud(4, 3, seed=1)
    ours = unbalanced(np.zeros((4, 3)), data.a, data.b, entropy=0.1, penalty=1.0)
    assert ours.success
    np.testing.assert_allclose(ours.plan, np.outer(data.a, data.b), atol=1e-12)
    assert ours.value == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("penalty", [(0.4, 3000.0), (27.0, math.inf), (math.inf, 27.0)])
def test_a_constant_far_above_the_other_costs(penalty: tuple[float, float]) -> None:
    """Plans that lose nearly all of their mass, and exact marginals under potentials of a million entropies."""
    data = uneven(4)
    costs = data.C + 1000.0
    exact, rough = (
        unbalanced(costs, data.a, data.b, entropy=1e-3, penalty=penalty, tol=tol)
        for tol in (1e-8, 1e-2)
    )
    assert exact.success
    assert rough.lower_bound <= exact.value
    assert exact.lower_bound <= rough.value
    if penalty[0] == math.inf:
        np.testing.assert_allclose(exact.sources, data.a, rtol=1e-13)


@pytest.mark.parametrize("share", [0.1, 0.7, 1.0])
def test_partial_plans_at_small_entropies(share: float) -> None:
    """Rows that carry less than a float can hold."""
    data = uneven(3)
    linear = partial(data.C, data.a, data.b, mass=share, entropy=0.0)
    ours = partial(data.C, data.a, data.b, mass=share, entropy=1e-5, tol=1e-4, max_iter=5)
    cost = float((data.C * ours.plan).sum())
    assert np.isfinite(ours.plan).all()
    assert linear.lower_bound - 1e-12 <= cost <= linear.value + 1e-3


@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("entropy", [1e-4, 1e-6, 1e-8])
def test_partial_plans_are_solved_at_every_entropy(entropy: float, share: float) -> None:
    """The linear program bounds it from both sides: its value less all that an entropy can be, and F at its plan."""
    rng = np.random.default_rng(5)
    Xs, Xt = rng.standard_normal((30, 2)), rng.standard_normal((20, 2)) + 0.5
    C = ((Xs[:, None] - Xt[None]) ** 2).sum(axis=-1)
    a, b = rng.random(30), rng.random(20)
    a, b = a / a.sum(), 1.2 * b / b.sum()
    e = entropy * float(np.ptp(C))
    t = partial(C, a, b, mass=share, entropy=e)
    assert t.success
    assert t.mass == pytest.approx(share, rel=1e-12)
    assert (t.sources <= a * (1.0 + 1e-12)).all()
    assert (t.targets <= b * (1.0 + 1e-12)).all()
    linear = partial(C, a, b, mass=share, entropy=0.0)
    assert linear.success
    least = share * math.log(
        share / C.size
    )  # of sum G log G, by a plan that is the same everywhere
    assert linear.lower_bound + e * least <= t.value
    assert t.lower_bound <= linear.value + e * negentropy(linear.plan)


def test_partial_plans_with_a_laplacian_at_a_small_entropy() -> None:
    """The oracle of CGS is the same: it must not end where projections crawl."""
    data = uneven(2)
    options = {"mass": 0.8, "entropy": 1e-5 * float(np.ptp(data.C)), "tol": 1e-4}
    t = partial(
        data.C,
        data.a,
        data.b,
        regularizers=[Laplacian(data.Xs, data.Xt, weight=0.01, neighbors=3)],
        **options,
    )
    assert t.success


@pytest.mark.parametrize("shape", [(7, 5), (5, 7)])
def test_newton_and_projections_agree(shape: tuple[int, int]) -> None:
    """One engine for each size of problem, and one answer."""
    rng = np.random.default_rng(6)
    C, a, b = rng.random(shape), rng.random(shape[0]), rng.random(shape[1])
    P = cg.sets.PartialTransport(a, b, 0.6 * min(a.sum(), b.sum()))
    projected = P.entropic_argmin(C, 0.05, accuracy=1e-13)
    zero = np.zeros(shape[0]), np.zeros(shape[1])
    (answer, gap), _ = P.by_newton(C, 0.05, Potentials(*zero), 1e-13)
    assert gap <= 1e-12
    np.testing.assert_allclose(answer.point, projected.point, atol=1e-9)
    assert answer.bound == pytest.approx(projected.bound, abs=1e-12)


@pytest.mark.parametrize("penalty", [0.26, (math.inf, 0.26), 3.0])
def test_costs_far_above_the_penalty_at_a_small_entropy(penalty: Any) -> None:
    """Almost nothing is carried: columns are starved, and Sinkhorn's steps alone crawl by e/penalty each."""
    C = np.array([[18.785, 21.397], [15.060, 17.457]]) / 2.6
    a, b = np.array([0.666, 0.334]), np.array([0.466, 0.534])
    t = unbalanced(C, a, b, entropy=3.4e-6, penalty=penalty, max_iter=100)
    assert t.success


def test_prices_that_nothing_holds() -> None:
    """The plan falls into two parts: prices between them are loose, and far from where larger entropies have them."""
    C = np.array(
        [[0.734, 0.193], [1.006, 0.344], [0.880, 0.272], [0.114, 0.00631], [0.0183, 0.0793]]
    )
    a, b = np.array([0.0752, 0.2593, 0.2026, 0.1989, 0.2639]), np.array([0.9627, 0.0373])
    t = partial(C, a, b, mass=0.3, entropy=2.5e-7)
    assert t.success
    # the cheapest pair takes all it can, and the next one the rest
    np.testing.assert_allclose(t.plan[3:], [[0.0, 0.0373], [0.2627, 0.0]], atol=1e-6)


def test_rows_without_mass_do_not_overflow() -> None:
    """One source whose costs are far above its penalty, in a small unit."""
    C = 1e-12 * np.array([[4.0, 3.0, 5.0, 9.0, 2.5]])
    t = unbalanced(C, entropy=3e-16, penalty=(6e-9, 8e-15))
    assert t.success


@pytest.mark.parametrize("least", [-1.0, 0.0, 0.5])
@pytest.mark.parametrize("penalty", [(1e-6, 0.5), (0.5, 1e-6), (1e-6, math.inf)])
def test_the_first_bound_is_finite_however_small_a_penalty_is(least: float, penalty: Any) -> None:
    """No plan gains more than the best one would if all costs were the least one.

    That is known in closed form: (sum of entropy and penalties) (1 - exp(-least/sum)) for masses 1,
    or the least cost where a marginal is exact.
    """
    data, entropy = cloud(5, 3, seed=1), 1e-3
    data = Cloud(data.Xs, data.Xt, data.a, data.b, data.C - data.C.min() + least)
    weights = entropy + sum(penalty)
    known = least if weights == math.inf else -weights * math.expm1(-least / weights)
    first = unbalanced(data.C, data.a, data.b, entropy=entropy, penalty=penalty, max_iter=0)
    assert first.lower_bound >= known - 1e-12
    best = unbalanced(data.C, data.a, data.b, entropy=entropy, penalty=penalty)
    assert best.success
    assert first.lower_bound <= objective(best.plan, data, entropy, penalty)


def test_a_plan_of_less_mass_than_floats_hold() -> None:
    """The best plan has a mass of about exp(-832): F* is the price of no plan to all digits."""
    cost, entropy, penalty = 888_000.7067057886, 1038.9608268457728, 13.852811024610302
    t = unbalanced([[cost]], [1.0], [3.0], entropy=entropy, penalty=penalty, tol=0.0, max_iter=200)
    assert t.lower_bound <= t.value
    nothing = penalty * (1.0 + 3.0) + entropy * math.sqrt(3.0)
    assert t.lower_bound <= nothing * (1.0 + 1e-12)
    assert t.value == pytest.approx(nothing, rel=1e-10)


@pytest.mark.parametrize("logarithm", [40.0, 600.0])
def test_the_bound_holds_where_costs_are_gains_and_the_best_plan_is_huge(logarithm: float) -> None:
    """Of one source and one target of mass 1 the best plan carries exp(-cost/(entropy + both penalties)).

    From e^500 on the prices of the potentials are cut off: nothing is proved then, least of all something false.
    """
    entropy, penalties = 0.1, (0.2, 0.3)
    weights = entropy + sum(penalties)
    lowest = weights * (1.0 - math.exp(logarithm))
    t = unbalanced([[-weights * logarithm]], entropy=entropy, penalty=penalties, max_iter=100)
    assert t.lower_bound <= lowest
    assert t.value >= lowest * (1.0 + 1e-9)
    assert t.success is (logarithm < 500.0)
