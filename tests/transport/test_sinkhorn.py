"""The entropic oracle of the transport polytope against plain Sinkhorn, POT, CVXPY and linear programming."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.problem import Answer
from condgrad.sets import Transport
from condgrad.sets.sinkhorn import Potentials
from tests.transport import (
    Array,
    Cloud,
    cloud,
    entropic_value,
    judge,
    marginal_error,
    mended,
    negentropy,
    within,
)

seeds = st.integers(0, 10_000)
LAW = settings(max_examples=12)
ROUNDING = 1e-13


def size(C: Array, a: Array, weight: float) -> float:
    """The size of the terms of the objective, against which rounding is judged."""
    mass = float(np.sum(a))
    return mass * (float(abs(C).max()) + weight * (math.log(C.size) + abs(math.log(mass)) + 1.0))


def asked(
    C: Array, a: Array, b: Array, weight: float, *, accuracy: float, warm: Any = None
) -> Answer:
    """An answer that is a plan, is what it says it is, and does not contradict itself."""
    with within(5):
        answer = Transport(a, b).entropic_argmin(C, weight, warm=warm, accuracy=accuracy)
    noise = ROUNDING * size(C, a, weight)
    assert np.isfinite(answer.point).all()
    assert marginal_error(answer.point, a, b) <= 1e-12
    assert answer.value == pytest.approx(weight * negentropy(answer.point), rel=1e-12, abs=noise)
    assert answer.bound <= entropic_value(answer.point, C, weight) + noise
    return answer


def gap(answer: Answer, C: Array, weight: float) -> float:
    return entropic_value(answer.point, C, weight) - answer.bound


def bracketed(
    answer: Answer, C: Array, a: Array, b: Array, weight: float, passes: int = 2000
) -> None:
    """bound <= optimum <= value, the optimum by the judge."""
    judged, noise = judge(C, a, b, weight, passes), ROUNDING * size(C, a, weight)
    assert answer.bound <= judged.upper + noise
    assert entropic_value(answer.point, C, weight) >= judged.lower - noise


WEIGHTS: dict[str, Cloud] = {
    "uniform": cloud(8, 8, uniform=True),
    "uneven": cloud(8, 8, seed=1),
    "wide": cloud(4, 17, seed=2),
    "tall": cloud(17, 4, seed=3),
    "row": cloud(1, 6, seed=4),
    "column": cloud(6, 1, seed=5),
    "one": cloud(1, 1, seed=6),
}
every_cloud = pytest.mark.parametrize("name", WEIGHTS)


# --- the judges agree ---


@every_cloud
@pytest.mark.parametrize("entropy", [10.0, 1.0, 0.1, 0.02])
def test_plan_is_the_one_of_plain_sinkhorn(name: str, entropy: float) -> None:
    """Bound and value within the accuracy of the judge's optimum, and the same plan."""
    data = WEIGHTS[name]
    weight = entropy * data.C.max()
    answer, judged = (
        asked(data.C, data.a, data.b, weight, accuracy=1e-12),
        judge(data.C, data.a, data.b, weight),
    )
    assert judged.upper - judged.lower <= 1e-13 * max(1.0, weight)
    tolerance = 1e-12 + ROUNDING * size(data.C, data.a, weight)
    assert answer.bound == pytest.approx(judged.lower, rel=0, abs=tolerance)
    # Pinsker: the objective is strongly convex in the l1 norm
    assert abs(answer.point - judged.plan).sum() <= 2.0 * math.sqrt(2.0 * tolerance / weight)


@pytest.mark.parametrize("entropy", [1.0, 0.05, 0.01])
def test_plan_is_the_one_of_pot(entropy: float) -> None:
    """POT's log-domain Sinkhorn, run to the end."""
    data = cloud(15, 12, seed=7)
    weight = entropy * data.C.max()
    theirs = ot.sinkhorn(
        data.a,
        data.b,
        data.C,
        weight,
        method="sinkhorn_log",
        numItermax=20_000,
        stopThr=1e-14,
        warn=False,
    )
    answer = asked(data.C, data.a, data.b, weight, accuracy=1e-12)
    np.testing.assert_allclose(answer.point, theirs, rtol=0, atol=1e-8)
    assert answer.bound <= entropic_value(mended(theirs, data.a, data.b), data.C, weight) + 1e-14


@pytest.mark.parametrize("entropy", [0.5, 0.05])
def test_value_is_the_one_of_cvxpy(entropy: float) -> None:
    data = cloud(4, 5, seed=8)
    G = cp.Variable((4, 5), nonneg=True)
    objective = cp.sum(cp.multiply(data.C, G)) - entropy * cp.sum(cp.entr(G))
    problem = cp.Problem(
        cp.Minimize(objective), [cp.sum(G, axis=1) == data.a, cp.sum(G, axis=0) == data.b]
    )
    problem.solve(solver=cp.CLARABEL)
    answer = asked(data.C, data.a, data.b, entropy, accuracy=1e-11)
    assert answer.bound == pytest.approx(problem.value, rel=0, abs=1e-7)
    assert answer.bound <= entropic_value(mended(G.value, data.a, data.b), data.C, entropy) + 1e-14


@pytest.mark.parametrize("entropy", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_small_entropy_tends_to_the_linear_program(entropy: float) -> None:
    """The LP's plan is a plan too, and no plan costs less; the entropy moves the value by weight log(nm) at most."""
    data = cloud(20, 14, seed=9)
    weight = entropy * data.C.max()
    plan = ot.emd(data.a, data.b, data.C)
    best = float(np.vdot(data.C, plan))
    answer = asked(data.C, data.a, data.b, weight, accuracy=1e-9)
    assert answer.bound <= entropic_value(plan, data.C, weight) + 1e-13
    assert np.vdot(data.C, answer.point) >= best - 1e-13
    # at the smallest entropies the passes run out, and the bound says by how much
    assert np.vdot(data.C, answer.point) <= best + weight * math.log(data.C.size) + gap(
        answer, data.C, weight
    )
    assert gap(answer, data.C, weight) <= (1e-9 if entropy >= 1e-3 else 0.02 * best)


# --- what may be asked of it ---


@every_cloud
@pytest.mark.parametrize("entropy", [10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_every_entropy_gives_a_certified_plan(name: str, entropy: float) -> None:
    """No NaN, no lost mass, no warning from 10 to 1e-6 of the largest cost."""
    data = WEIGHTS[name]
    weight = entropy * data.C.max()
    answer = asked(data.C, data.a, data.b, weight, accuracy=1e-8)
    bracketed(answer, data.C, data.a, data.b, weight, passes=500)


@pytest.mark.parametrize("accuracy", [1e-1, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("entropy", [1.0, 0.03])
def test_accuracy_is_honoured(entropy: float, accuracy: float) -> None:
    data = cloud(25, 30, seed=10)
    answer = asked(data.C, data.a, data.b, entropy, accuracy=accuracy)
    assert gap(answer, data.C, entropy) <= accuracy + ROUNDING * size(data.C, data.a, entropy)
    bracketed(answer, data.C, data.a, data.b, entropy, passes=300)


def test_less_accuracy_takes_fewer_passes() -> None:
    data = cloud(25, 30, seed=10)
    passes = [
        asked(data.C, data.a, data.b, 0.01, accuracy=accuracy).inner_iterations
        for accuracy in (1e-2, 1e-5, 1e-10)
    ]
    assert passes[0] < passes[1] < passes[2]


def test_a_warm_start_saves_passes() -> None:
    data = cloud(25, 30, seed=10)
    cold = asked(data.C, data.a, data.b, 0.01, accuracy=1e-10)
    assert asked(data.C, data.a, data.b, 0.01, accuracy=1e-10, warm=cold.warm).inner_iterations <= 3
    near = asked(
        data.C + 1e-6 * np.sin(data.C), data.a, data.b, 0.01, accuracy=1e-10, warm=cold.warm
    )
    assert near.inner_iterations < cold.inner_iterations


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (3, 2), (2, 2), (5, 5)])
@pytest.mark.parametrize("cost", ["zero", "random"])
def test_no_accuracy_is_as_good_as_it_gets(shape: tuple[int, int], cost: str) -> None:
    """accuracy=0, the default, ends at rounding."""
    rng = np.random.default_rng(11)
    for weight in (0.05, 0.5, 5.0):
        C = np.zeros(shape) if cost == "zero" else rng.random(shape)
        a, b = rng.dirichlet(np.ones(shape[0])), rng.dirichlet(np.ones(shape[1]))
        answer = asked(C, a, b, weight, accuracy=0.0)
        assert gap(answer, C, weight) <= ROUNDING * size(C, a, weight)


@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_garbage_to_start_from(entropy: float, scale: float) -> None:
    """Weak duality holds from any potentials: a bad start costs passes, never truth."""
    data, rng = cloud(12, 9, seed=12), np.random.default_rng(13)
    height = scale * data.C.max()
    for _ in range(2):
        warm = Potentials(height * rng.standard_normal(12), height * rng.standard_normal(9))
        answer = asked(data.C, data.a, data.b, entropy, accuracy=1e-9, warm=warm)
        bracketed(answer, data.C, data.a, data.b, entropy, passes=1000)
        if entropy >= 1e-2:
            assert gap(answer, data.C, entropy) <= 2e-9


@pytest.mark.parametrize("height", [1e9, 1e12])
@pytest.mark.parametrize("entropy", [1.0, 1e-2])
def test_a_constant_in_the_potentials_does_not_drown_the_bound(
    entropy: float, height: float
) -> None:
    """u + t and v - t are the same potentials; a large t must not round the bound above the optimum."""
    data = cloud(12, 9, seed=12)
    best = asked(data.C, data.a, data.b, entropy, accuracy=1e-12)
    warm = Potentials(best.warm.u - height, best.warm.v + height)
    answer = asked(data.C, data.a, data.b, entropy, accuracy=1e-9, warm=warm)
    bracketed(answer, data.C, data.a, data.b, entropy)


@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4])
def test_points_without_weight_take_no_part(entropy: float) -> None:
    """The answer without them, and rows and columns of zeros."""
    data, keep_a, keep_b = cloud(8, 7, seed=14), np.arange(8) % 3 != 1, np.arange(7) % 2 == 0
    a, b = np.where(keep_a, data.a, 0.0), np.where(keep_b, data.b, 0.0)
    a, b = a / a.sum(), b / b.sum()
    answer = asked(data.C, a, b, entropy, accuracy=1e-10)
    assert not answer.point[~keep_a].any()
    assert not answer.point[:, ~keep_b].any()
    part = data.C[np.ix_(keep_a, keep_b)]
    bracketed(
        Answer(answer.point[np.ix_(keep_a, keep_b)], answer.bound),
        part,
        a[keep_a],
        b[keep_b],
        entropy,
    )
    again = asked(data.C, a, b, entropy, accuracy=1e-10, warm=answer.warm)
    bracketed(
        Answer(again.point[np.ix_(keep_a, keep_b)], again.bound),
        part,
        a[keep_a],
        b[keep_b],
        entropy,
    )


@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4, 1e-6])
def test_weights_over_six_decades(entropy: float) -> None:
    rng = np.random.default_rng(15)
    data = cloud(20, 15, seed=15)
    a, b = 10.0 ** rng.uniform(-6.0, 0.0, 20), 10.0 ** rng.uniform(-6.0, 0.0, 15)
    a, b = a / a.sum(), b / b.sum()
    answer = asked(data.C, a, b, entropy, accuracy=1e-9)
    bracketed(answer, data.C, a, b, entropy, passes=500)
    # relative to each weight, not to the largest
    assert abs(answer.point.sum(axis=1) / a - 1.0).max() <= 1e-8
    assert abs(answer.point.sum(axis=0) / b - 1.0).max() <= 1e-8


@pytest.mark.parametrize("mass", [1e-9, 1e-3, 7.0, 1e6])
@pytest.mark.parametrize("entropy", [1.0, 1e-2])
def test_other_masses(entropy: float, mass: float) -> None:
    data = cloud(8, 7, seed=16)
    a, b = mass * data.a, mass * data.b
    answer = asked(data.C, a, b, entropy, accuracy=1e-9 * mass)
    bracketed(answer, data.C, a, b, entropy)
    assert gap(answer, data.C, entropy) <= 1e-9 * mass + ROUNDING * size(data.C, a, entropy)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4])
def test_huge_and_tiny_costs(entropy: float, scale: float) -> None:
    """Cost and entropy in other units: the same plan."""
    data = cloud(12, 9, seed=17)
    C, weight = scale * data.C, scale * entropy
    answer = asked(C, data.a, data.b, weight, accuracy=1e-10 * scale)
    bracketed(answer, C, data.a, data.b, weight)
    if entropy >= 1e-2:
        plain = asked(data.C, data.a, data.b, entropy, accuracy=1e-10)
        assert abs(answer.point - plain.point).sum() <= 4.0 * math.sqrt(2e-10 / entropy)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_entropy_out_of_proportion(scale: float) -> None:
    """Entropy 1 beside costs of 1e8 is a linear program, beside 1e-8 the product of the marginals."""
    data = cloud(12, 9, seed=17)
    answer = asked(scale * data.C, data.a, data.b, 1.0, accuracy=1e-9)
    bracketed(answer, scale * data.C, data.a, data.b, 1.0, passes=500)
    if scale < 1.0:
        np.testing.assert_allclose(answer.point, np.outer(data.a, data.b), rtol=1e-6)


@pytest.mark.parametrize("constant", [-5.0, 0.0, 3.0, 1e8])
@pytest.mark.parametrize("entropy", [1.0, 1e-3])
def test_a_constant_cost_gives_the_product(constant: float, entropy: float) -> None:
    data = cloud(6, 5, seed=18)
    C = np.full((6, 5), constant)
    answer = asked(C, data.a, data.b, entropy, accuracy=1e-9)
    np.testing.assert_allclose(answer.point, np.outer(data.a, data.b), rtol=1e-4)
    exact = constant + entropy * negentropy(np.outer(data.a, data.b))
    assert answer.bound == pytest.approx(exact, rel=1e-13, abs=1e-9)


def test_costs_may_be_negative() -> None:
    data = cloud(9, 8, seed=19)
    C = data.C - 2.0 * data.C.mean()
    bracketed(asked(C, data.a, data.b, 0.05, accuracy=1e-10), C, data.a, data.b, 0.05)


# --- precision and libraries ---


@pytest.mark.parametrize("entropy", [1.0, 1e-1, 1e-2, 1e-3, 1e-4])
def test_single_precision(entropy: float) -> None:
    """float32 in, float32 out: a plan and a bound, to float32."""
    data = cloud(12, 9, seed=20)
    with within(5):
        answer = Transport(data.a.astype(np.float32), data.b.astype(np.float32)).entropic_argmin(
            data.C.astype(np.float32), entropy, accuracy=1e-5
        )
    assert answer.point.dtype == np.float32
    assert marginal_error(answer.point, data.a, data.b) <= 1e-6
    judged = judge(data.C, data.a, data.b, entropy)
    assert answer.bound <= judged.upper + 1e-5 * max(1.0, entropy)
    assert entropic_value(answer.point, data.C, entropy) >= judged.lower - 1e-5 * max(1.0, entropy)
    if entropy >= 1e-2:
        assert answer.bound == pytest.approx(judged.lower, abs=3e-5 * max(1.0, entropy))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("zeros", [False, True])
def test_torch(dtype: str, zeros: bool, torch: Any) -> None:
    """Tensors in, tensors out, the same numbers."""
    data = cloud(12, 9, seed=21)
    a = np.where(np.arange(12) < 3, 0.0, data.a) if zeros else data.a
    a = a / a.sum()
    kind = getattr(torch, dtype)
    C, ta, tb = (torch.asarray(x).to(kind) for x in (data.C, a, data.b))
    accuracy = 1e-5 if dtype == "float32" else 1e-11
    answer = Transport(ta, tb).entropic_argmin(C, 0.05, accuracy=accuracy)
    expected = asked(data.C, a, data.b, 0.05, accuracy=1e-11)
    assert isinstance(answer.point, torch.Tensor)
    assert answer.point.dtype == kind
    assert isinstance(answer.warm.u, torch.Tensor)
    assert marginal_error(answer.point.numpy(), a, data.b) <= (
        1e-6 if dtype == "float32" else 1e-12
    )
    assert answer.bound == pytest.approx(expected.bound, abs=2 * accuracy)
    np.testing.assert_allclose(
        answer.point.numpy(), expected.point, rtol=0, atol=20 * math.sqrt(accuracy) / 12
    )


def test_entropy_on_transport_asks_its_set() -> None:
    """simple.Entropy's oracle is this one."""
    data = cloud(7, 6, seed=22)
    g = cg.simple.Entropy(0.05, on=Transport(data.a, data.b))
    bracketed(g.argmin(data.C, accuracy=1e-10), data.C, data.a, data.b, 0.05)
    assert g.value(np.outer(data.a, data.b)) == pytest.approx(
        0.05 * negentropy(np.outer(data.a, data.b)), rel=1e-13
    )


def test_the_plan_follows_from_the_potentials() -> None:
    """plan = exp((u + v - C)/weight)."""
    data = cloud(7, 6, seed=22)
    answer = asked(data.C, data.a, data.b, 0.05, accuracy=1e-13)
    plan = np.exp((answer.warm.u[:, None] + answer.warm.v[None, :] - data.C) / 0.05)
    np.testing.assert_allclose(answer.point, plan, rtol=1e-5)


# --- laws ---

LAW_ENTROPY = 0.1
LAW_ACCURACY = 1e-12


def of(data: Cloud) -> Answer:
    return asked(data.C, data.a, data.b, LAW_ENTROPY, accuracy=LAW_ACCURACY)


def same(answer: Answer, plan: Array, bound: float, mass: float = 1.0) -> None:
    """The plan and the bound expected, up to the accuracy asked."""
    assert answer.bound == pytest.approx(bound, rel=1e-12, abs=3e-12 * mass)
    assert abs(answer.point - plan).sum() <= 1e-4 * math.sqrt(mass) * max(1.0, math.sqrt(mass))


sizes = st.integers(1, 7)


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_transposing_the_cost_transposes_the_plan(n: int, m: int, seed: int) -> None:
    data = cloud(n, m, seed=seed)
    answer = of(data)
    same(of(Cloud(data.Xt, data.Xs, data.b, data.a, data.C.T.copy())), answer.point.T, answer.bound)


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_the_order_of_points_is_of_no_consequence(n: int, m: int, seed: int) -> None:
    data, rng = cloud(n, m, seed=seed), np.random.default_rng(seed)
    i, j = rng.permutation(n), rng.permutation(m)
    answer = of(data)
    moved = Cloud(data.Xs[i], data.Xt[j], data.a[i], data.b[j], data.C[np.ix_(i, j)])
    same(of(moved), answer.point[np.ix_(i, j)], answer.bound)


@LAW
@given(n=sizes, m=sizes, seed=seeds, t=st.sampled_from([1e-3, 0.5, 2.0, 1e3]))
def test_mass_scales_the_plan(n: int, m: int, seed: int, t: float) -> None:
    """F(tG) = t F(G) + weight t log t on plans of mass 1, so the plan scales and the optimum follows."""
    data = cloud(n, m, seed=seed)
    answer = of(data)
    a, b = t * data.a, t * data.b
    scaled = asked(data.C, a, b, LAW_ENTROPY, accuracy=LAW_ACCURACY * t)
    same(scaled, t * answer.point, t * answer.bound + LAW_ENTROPY * t * math.log(t), mass=t)


@LAW
@given(n=sizes, m=sizes, seed=seeds, height=st.sampled_from([0.1, 1.0, 100.0]))
def test_costs_of_leaving_and_arriving_leave_the_plan_alone(
    n: int, m: int, seed: int, height: float
) -> None:
    """C + p_i + q_j: every plan pays <p, a> + <q, b> more."""
    data, rng = cloud(n, m, seed=seed), np.random.default_rng(seed)
    p, q = height * rng.standard_normal(n), height * rng.standard_normal(m)
    answer = of(data)
    moved = of(Cloud(data.Xs, data.Xt, data.a, data.b, data.C + p[:, None] + q[None, :]))
    same(moved, answer.point, answer.bound + p @ data.a + q @ data.b, mass=max(1.0, height / 10.0))


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_a_duplicate_shares_the_mass(n: int, m: int, seed: int) -> None:
    """A point split in two equal halves: its row splits, and the entropy falls by weight a_i log 2."""
    data, i = cloud(n, m, seed=seed), seed % n
    answer = of(data)
    twice = np.append(np.arange(n), i)
    share = np.ones(n)
    share[i] = 0.5
    split = asked(
        data.C[twice], (data.a * share)[twice], data.b, LAW_ENTROPY, accuracy=LAW_ACCURACY
    )
    same(
        split,
        (answer.point * share[:, None])[twice],
        answer.bound - LAW_ENTROPY * data.a[i] * math.log(2.0),
    )


@settings(max_examples=20)
@given(
    n=sizes,
    m=sizes,
    seed=seeds,
    exponent=st.floats(-6.0, 1.0),
    accuracy=st.sampled_from([0.0, 1e-12, 1e-6, 0.1]),
)
def test_any_problem_gets_a_certified_plan(
    n: int, m: int, seed: int, exponent: float, accuracy: float
) -> None:
    data = cloud(n, m, seed=seed)
    weight = 10.0**exponent
    answer = asked(data.C, data.a, data.b, weight, accuracy=accuracy)
    bracketed(answer, data.C, data.a, data.b, weight, passes=200)
