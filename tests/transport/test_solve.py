"""transport.solve against CVXPY, linear programming and other methods; and the laws of regularised transport."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.datasets import make_clusters
from condgrad.transport import GroupLasso, Laplacian, TransportResult, solve
from tests.transport import (
    Array,
    Cloud,
    cloud,
    marginal_error,
    mended,
    negentropy,
    squared_distances,
    within,
)

seeds = st.integers(0, 10_000)
sizes = st.integers(1, 6)
ENTROPY = 0.05
N, M = 7, 6
DATA = cloud(N, M, seed=1)
LABELS = np.arange(N) % 3


def ring(n: int) -> Array:
    """The normalised Laplacian of a ring."""
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[(i + 1) % n, i] = 1.0
    if n == 1:
        return np.zeros((1, 1))
    return np.eye(n) - W / np.sqrt(np.outer(W.sum(axis=1), W.sum(axis=1)))


LS, LT = ring(N), ring(M)
LAPLACIAN = Laplacian(DATA.Xs, DATA.Xt, 2.0, Ls=LS, Lt=LT, target=0.5)
GROUPS = GroupLasso(LABELS, 0.1)
PROBLEMS: dict[str, tuple[Any, ...]] = {
    "entropy": (),
    "laplacian": (LAPLACIAN,),
    "groups": (GROUPS,),
    "both": (LAPLACIAN, GROUPS),
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def objective(name: str, G: Array, entropy: float = ENTROPY) -> float:
    """F by its formula."""
    value = float(np.sum(DATA.C * G)) + entropy * negentropy(G)
    if name in ("laplacian", "both"):
        P, Q = G @ DATA.Xt, G.T @ DATA.Xs
        value += 2.0 * float(np.trace(P.T @ LS @ P)) + 1.0 * float(np.trace(Q.T @ LT @ Q))
    if name in ("groups", "both"):
        value += 0.1 * sum(np.linalg.norm(G[k == LABELS], axis=0).sum() for k in range(3))
    return value


def root(L: Array) -> Array:
    """R with R'R = L."""
    values, vectors = np.linalg.eigh(L)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))).T


@cache
def optimum(name: str, entropy: float = ENTROPY) -> tuple[float, float]:
    """F* by CVXPY, and F at its plan once that is mended: an upper bound without tolerance."""
    G = cp.Variable((N, M), nonneg=True)
    F = cp.sum(cp.multiply(DATA.C, G))
    if entropy > 0:
        F = F - entropy * cp.sum(cp.entr(G))
    if name in ("laplacian", "both"):
        F = (
            F
            + 2.0 * cp.sum_squares(root(LS) @ G @ DATA.Xt)
            + 1.0 * cp.sum_squares(root(LT) @ G.T @ DATA.Xs)
        )
    if name in ("groups", "both"):
        F = F + 0.1 * sum(
            cp.sum(cp.norm(G[np.flatnonzero(k == LABELS)], 2, axis=0)) for k in range(3)
        )
    problem = cp.Problem(cp.Minimize(F), [cp.sum(G, axis=1) == DATA.a, cp.sum(G, axis=0) == DATA.b])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return float(problem.value), objective(name, mended(G.value, DATA.a, DATA.b), entropy)


JUDGE = 2e-7
"""What CVXPY's optimum may be off by."""


class Witness:
    """A callback that checks every iterate to be a plan."""

    def __init__(self, a: Array, b: Array) -> None:
        self.a, self.b, self.seen = a, b, 0

    def __call__(self, now: Any) -> None:
        assert marginal_error(now.x, self.a, self.b) <= 1e-12
        self.seen += 1


def certified(result: TransportResult, name: str, entropy: float = ENTROPY) -> None:
    """A plan, F of it, and F* between the bounds, at the end and all the way."""
    assert marginal_error(result.plan, DATA.a, DATA.b) <= 1e-12
    assert result.value == pytest.approx(
        objective(name, result.plan, entropy), rel=1e-12, abs=1e-14
    )
    best, upper = optimum(name, entropy)
    assert result.lower_bound <= upper
    assert result.value >= best - JUDGE
    assert result.gap == result.value - result.lower_bound >= 0.0
    assert (result.trace["lower_bound"] <= upper).all()
    assert (result.trace["best_value"] >= best - JUDGE).all()
    assert (result.trace["value"] >= result.trace["best_value"] - 1e-15).all()


def solved(name: str, **options: Any) -> TransportResult:
    with within(20):
        return solve(
            DATA.C,
            DATA.a,
            DATA.b,
            **{"entropy": ENTROPY, "regularizers": PROBLEMS[name], **options},
        )


# --- the optimum ---


STEPS: list[tuple[str, int]] = [
    ("exact", 0),
    ("exact", 1),
    ("exact", 5),
    ("armijo", 0),
    ("open-loop", 0),
    ("short", 0),
]


@every_problem
@pytest.mark.parametrize(("step", "memory"), STEPS)
def test_every_step_rule_finds_the_optimum(name: str, step: str, memory: int) -> None:
    """CVXPY's value, F* between the bounds in every row, exact marginals all along, no rise where none is due."""
    witness = Witness(DATA.a, DATA.b)
    options: dict[str, Any] = {
        "method": "cgs",
        "step": step,
        "memory": memory,
        "tol": 1e-8,
        "max_iter": 400,
    }
    options["callback"] = witness
    if step == "short" and name in ("groups", "both"):
        with pytest.raises(cg.MissingAbility, match="smoothness"):
            solved(name, **options)
        return
    result = solved(name, **options)
    certified(result, name)
    assert witness.seen == len(result.trace) == result.iterations + 1
    assert result.success
    assert result.status is cg.Status.CONVERGED
    assert result.gap <= 1e-8 * result.scale
    assert result.value == pytest.approx(optimum(name)[0], rel=0, abs=JUDGE)
    if step in ("exact", "armijo"):
        assert (np.diff(result.trace["value"]) <= 1e-14).all()


@every_problem
@pytest.mark.parametrize("engine", ["emd", "highs"])
def test_conditional_gradient_brackets_the_same_optimum(name: str, engine: str) -> None:
    """Linearising the entropy as well converges slowly, with bounds as true."""
    cg_run = solved(
        name, method="cg", engine=engine, memory=0, max_iter=60, callback=Witness(DATA.a, DATA.b)
    )
    certified(cg_run, name)
    cgs_run = solved(name, tol=1e-9)
    assert cg_run.lower_bound <= cgs_run.value
    assert cgs_run.lower_bound <= cg_run.value
    assert cg_run.value == pytest.approx(cgs_run.value, abs=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplacian", "groups", "both"])
def test_open_loop_run_long_agrees(name: str) -> None:
    """2/(k+2) looks at nothing, and arrives at the same place."""
    long = solved(name, step="open-loop", memory=0, tol=0.0, max_iter=200)
    short = solved(name, tol=1e-9)
    certified(long, name)
    assert short.lower_bound <= long.value
    assert long.lower_bound <= short.value
    assert long.value == pytest.approx(short.value, abs=1e-6)


@pytest.mark.parametrize("name", ["laplacian", "groups", "both"])
@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-3])
def test_other_entropies(name: str, entropy: float) -> None:
    result = solved(name, entropy=entropy, tol=1e-6, max_iter=300)
    certified(result, name, entropy)
    assert result.success


@pytest.mark.parametrize("name", ["laplacian", pytest.param("both", marks=pytest.mark.slow)])
def test_regularisers_without_entropy(name: str) -> None:
    """The plain conditional gradient; slow, but its bounds hold."""
    result = solved(name, entropy=0.0, max_iter=100, engine="emd")
    certified(result, name, 0.0)
    assert result.value == pytest.approx(optimum(name, 0.0)[0], abs=1e-2)


def test_the_papers_problem() -> None:
    """n = 60, entropy 1.7e-2, weight 1e3, normalised 10-neighbour Laplacians: a relative gap of 1e-8 is reached.

    With a memory by fewer oracle calls than without.
    """
    Xs, Xt, *_ = make_clusters(60, seed=2)
    C, uniform = squared_distances(Xs, Xt), np.full(60, 1.0 / 60.0)
    part = Laplacian(Xs, Xt, 1e3)
    result, without = (
        solve(C, entropy=1.7e-2, regularizers=[part], method="cgs", memory=memory, tol=tol)
        for memory, tol in ((5, 1e-8), (0, 1e-6))
    )
    assert result.success
    assert np.argmax(result.trace["measure"] <= 1e-6) < 0.8 * without.iterations
    assert result.lower_bound <= without.value
    assert without.lower_bound <= result.value
    assert marginal_error(result.plan, uniform, uniform) <= 1e-12
    part = Laplacian(Xs, Xt, 1e3).smooth_part()
    P, Q = result.plan @ Xt, result.plan.T @ Xs
    smooth = 1e3 * float(np.sum(P * (part.Ls @ P)) + np.sum(Q * (part.Lt @ Q)))
    F = float(np.sum(C * result.plan)) + 1.7e-2 * negentropy(result.plan) + smooth
    assert result.value == pytest.approx(F, rel=1e-11)
    assert result.gap <= 1e-8
    assert (np.diff(result.trace["value"]) <= 1e-13).all()
    assert (np.diff(result.trace["lower_bound"]) >= 0.0).all()


# --- linear programs ---


@pytest.mark.parametrize("engine", ["emd", "highs", "cvxopt"])
@pytest.mark.parametrize("method", ["cgs", "cg"])
def test_no_entropy_is_the_linear_program(engine: str, method: str) -> None:
    result = solve(DATA.C, DATA.a, DATA.b, entropy=0.0, engine=engine, method=method, tol=1e-6)
    assert result.success
    assert result.value == pytest.approx(ot.emd2(DATA.a, DATA.b, DATA.C), rel=1e-6)
    assert result.lower_bound <= ot.emd2(DATA.a, DATA.b, DATA.C) + 1e-15
    assert marginal_error(result.plan, DATA.a, DATA.b) <= 1e-12


def test_weights_default_to_uniform() -> None:
    result = solve(DATA.C, entropy=0.0, tol=1e-9)
    uniform_s, uniform_t = np.full(N, 1 / N), np.full(M, 1 / M)
    assert result.value == pytest.approx(ot.emd2(uniform_s, uniform_t, DATA.C), rel=1e-9)
    assert marginal_error(result.plan, uniform_s, uniform_t) <= 1e-12


# --- what a result offers ---


@every_problem
def test_potentials_explain_the_plan(name: str) -> None:
    """plan = exp((u + v - gradient of the smooth part)/entropy), the gradient by differences of the formula."""
    result = solved(name, tol=1e-12, max_iter=2000)
    u, v = result.potentials
    step, linearised = 1e-6, np.empty((N, M))
    for i in range(N):
        for j in range(M):
            change = np.zeros((N, M))
            change[i, j] = step * result.plan[i, j]
            up, down = (objective(name, result.plan + sign * change, 0.0) for sign in (1.0, -1.0))
            linearised[i, j] = (up - down) / (2.0 * change[i, j])
    plan = np.exp((u[:, None] + v[None, :] - linearised) / ENTROPY)
    np.testing.assert_allclose(result.plan, plan, rtol=1e-3, atol=1e-6)


def test_potentials_prove_the_bound_of_an_entropic_plan() -> None:
    """With nothing but entropy <a, u> + <b, v> is the optimum."""
    result = solved("entropy", tol=1e-10)
    assert DATA.a @ result.potentials.u + DATA.b @ result.potentials.v == pytest.approx(
        result.value, abs=1e-9
    )


def test_apply() -> None:
    result = solved("laplacian")
    rng = np.random.default_rng(0)
    Y, Z = rng.standard_normal((M, 3)), rng.standard_normal((N, 2))
    np.testing.assert_allclose(result.apply(Y), result.plan @ Y)
    np.testing.assert_allclose(result.apply_transpose(Z), result.plan.T @ Z)
    np.testing.assert_allclose(result.apply(np.ones(M)), DATA.a, rtol=1e-12)


def test_it_speaks_for_itself() -> None:
    result = solved("both")
    assert "CONVERGED" in str(result)
    assert "gap" in result.message
    assert result.trace["oracle_calls"][-1] == len(result.trace)


def test_limits_are_kept() -> None:
    """Few iterations, no time, a callback that has enough: the certificate holds all the same."""
    few = solved("both", tol=0.0, max_iter=3)
    assert few.status is cg.Status.ITERATION_LIMIT
    assert few.iterations == 3
    none = solved("both", tol=0.0, time_limit=0.0)
    assert none.status is cg.Status.TIME_LIMIT
    enough = solved("both", tol=0.0, callback=lambda now: now.iteration == 2)
    assert enough.status is cg.Status.STOPPED_BY_CALLBACK
    for result in (few, none, enough):
        certified(result, "both")
        assert not result.success


@pytest.mark.parametrize("name", ["entropy", "both"])
def test_nothing_asked_beyond_rounding(name: str) -> None:
    """tol=0 ends, at a gap of rounding."""
    result = solved(name, tol=0.0, max_iter=500)
    certified(result, name)
    assert result.gap <= 1e-9


# --- where to start ---


@every_problem
@pytest.mark.parametrize("start", ["product", "vertex", "optimum"])
def test_any_plan_is_a_start(name: str, start: str) -> None:
    """From the product, a vertex full of zeros, or the answer itself, which is then the answer."""
    best = solved(name, tol=1e-9).plan
    plan = {
        "product": np.outer(DATA.a, DATA.b),
        "vertex": ot.emd(DATA.a, DATA.b, -DATA.C),
        "optimum": best,
    }[start]
    before = plan.copy()
    result = solved(name, start=plan, tol=1e-8)
    np.testing.assert_array_equal(plan, before)
    certified(result, name)
    assert result.success
    assert result.trace["value"][0] == pytest.approx(objective(name, plan), rel=1e-10)
    if start == "optimum":
        assert result.iterations <= 1


@pytest.mark.parametrize("step", ["armijo", "open-loop", "short"])
def test_another_step_rule_is_enough_to_ask_for(step: str) -> None:
    """The default memory must not stand in the way of step=..."""
    assert solved("laplacian", step=step, tol=1e-4).success


# --- torch and single precision ---


@every_problem
def test_tensors_in_tensors_out(name: str, torch: Any) -> None:
    """The same numbers, plan and potentials as tensors."""
    Xs, Xt, C, a, b = (torch.asarray(x) for x in (DATA.Xs, DATA.Xt, DATA.C, DATA.a, DATA.b))
    parts = {
        "entropy": (),
        "laplacian": (Laplacian(Xs, Xt, 2.0, Ls=LS, Lt=LT, target=0.5),),
        "groups": (GroupLasso(torch.asarray(LABELS), 0.1),),
    }
    parts["both"] = parts["laplacian"] + parts["groups"]
    result = solve(C, a, b, entropy=ENTROPY, regularizers=parts[name], tol=1e-9)
    expected = solved(name, tol=1e-9)
    assert isinstance(result.plan, torch.Tensor)
    assert result.plan.dtype == torch.float64
    assert result.value == pytest.approx(expected.value, abs=2e-9)
    np.testing.assert_allclose(result.plan.numpy(), expected.plan, rtol=0, atol=1e-4)
    assert marginal_error(result.plan.numpy(), DATA.a, DATA.b) <= 1e-12
    assert isinstance(result.potentials.u, torch.Tensor)
    assert isinstance(result.apply(Xt), torch.Tensor)


def test_tensors_with_neighbour_graphs_and_default_weights(torch: Any) -> None:
    Xs, Xt, C = (torch.asarray(x) for x in (DATA.Xs, DATA.Xt, DATA.C))
    tensor = solve(C, entropy=ENTROPY, regularizers=[Laplacian(Xs, Xt, 2.0, neighbors=3)], tol=1e-9)
    array = solve(
        DATA.C,
        entropy=ENTROPY,
        regularizers=[Laplacian(DATA.Xs, DATA.Xt, 2.0, neighbors=3)],
        tol=1e-9,
    )
    assert tensor.value == pytest.approx(array.value, abs=2e-9)
    np.testing.assert_allclose(tensor.plan.numpy(), array.plan, rtol=0, atol=1e-4)


@pytest.mark.parametrize("step", ["exact", "armijo", "open-loop", "short"])
def test_every_step_on_tensors_with_sparse_graphs(step: str, torch: Any) -> None:
    Xs, Xt, C = (torch.asarray(x) for x in (DATA.Xs, DATA.Xt, DATA.C))
    regularizers = [Laplacian(Xs, Xt, 2.0, neighbors=3)]
    result = solve(
        C, entropy=ENTROPY, regularizers=regularizers, step=step, memory=0, tol=1e-6, max_iter=300
    )
    assert result.success


@pytest.mark.parametrize("name", ["entropy", "laplacian", "groups"])
def test_single_precision(library: Any, name: str) -> None:
    """float32 in, float32 out, bounds true to float32."""

    def narrow(x: Array) -> Any:
        return library.asarray(x, dtype=library.float32)

    regularizers: dict[str, list[Any]] = {
        "entropy": [],
        "laplacian": [Laplacian(narrow(DATA.Xs), narrow(DATA.Xt), 2.0, Ls=LS, Lt=LT, target=0.5)],
        "groups": [GROUPS],
    }
    with within(20):
        result = solve(
            narrow(DATA.C),
            narrow(DATA.a),
            narrow(DATA.b),
            entropy=ENTROPY,
            regularizers=regularizers[name],
            tol=1e-5,
            max_iter=200,
        )
    assert str(result.plan.dtype).endswith("float32")
    best, _ = optimum(name)
    assert result.lower_bound <= best + 1e-6
    assert result.value >= best - 1e-6
    assert result.gap <= 2e-5
    assert marginal_error(np.asarray(result.plan), DATA.a, DATA.b) <= 1e-6


def test_integers_and_lists_are_numbers() -> None:
    result = solve([[0, 2], [1, 0]], [1, 1], [1, 1], entropy=0.5, tol=1e-9)
    array = solve(np.array([[0.0, 2.0], [1.0, 0.0]]), np.ones(2), np.ones(2), entropy=0.5, tol=1e-9)
    np.testing.assert_allclose(result.plan, array.plan)


# --- laws ---

LAW = settings(max_examples=10)
TOL = 1e-10


def on(
    data: Cloud, Ls: Array, Lt: Array, *, weight: float = 2.0, **options: Any
) -> TransportResult:
    """The Laplacian problem on any data."""
    regularizers = [Laplacian(data.Xs, data.Xt, weight, Ls=Ls, Lt=Lt, **options)]
    with within(20):
        result = solve(data.C, data.a, data.b, entropy=0.2, regularizers=regularizers, tol=TOL)
    assert marginal_error(result.plan, data.a, data.b) <= 1e-12
    assert result.lower_bound <= result.value
    return result


def same(result: TransportResult, plan: Array, value: float, mass: float = 1.0) -> None:
    tolerance = 3 * TOL * max(1.0, abs(value), mass)
    assert result.value == pytest.approx(value, rel=0, abs=tolerance)
    # the entropy is strongly convex in the l1 norm: |G - G*|_1^2 <= 2 mass (F - F*)/0.2
    assert abs(result.plan - plan).sum() <= 2.0 * math.sqrt(10.0 * mass * tolerance)


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_transposing_the_problem_transposes_the_plan(n: int, m: int, seed: int) -> None:
    data = cloud(n, m, seed=seed)
    result = on(data, ring(n), ring(m), source=1.0, target=0.3)
    turned = Cloud(data.Xt, data.Xs, data.b, data.a, data.C.T.copy())
    same(on(turned, ring(m), ring(n), source=0.3, target=1.0), result.plan.T, result.value)


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_the_order_of_points_is_of_no_consequence(n: int, m: int, seed: int) -> None:
    data, rng = cloud(n, m, seed=seed), np.random.default_rng(seed)
    i, j = rng.permutation(n), rng.permutation(m)
    result = on(data, ring(n), ring(m))
    moved = Cloud(data.Xs[i], data.Xt[j], data.a[i], data.b[j], data.C[np.ix_(i, j)])
    same(
        on(moved, ring(n)[np.ix_(i, i)], ring(m)[np.ix_(j, j)]),
        result.plan[np.ix_(i, j)],
        result.value,
    )


@LAW
@given(n=sizes, m=sizes, seed=seeds, t=st.sampled_from([0.1, 3.0, 100.0]))
def test_mass_scales_the_plan(n: int, m: int, seed: int, t: float) -> None:
    """A quadratic regulariser of weight w/t at tG is t times the one of weight w at G; the entropy adds t log t."""
    data = cloud(n, m, seed=seed)
    result = on(data, ring(n), ring(m))
    heavy = Cloud(data.Xs, data.Xt, t * data.a, t * data.b, data.C)
    scaled = on(heavy, ring(n), ring(m), weight=2.0 / t)
    same(scaled, t * result.plan, t * result.value + 0.2 * t * math.log(t), mass=max(1.0, t))


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_mass_scales_the_groups(n: int, m: int, seed: int) -> None:
    """Group norms are homogeneous: their weight stays."""
    data, t = cloud(n, m, seed=seed), 5.0
    groups = [GroupLasso(np.arange(n) % 2, 0.1)]
    with within(20):
        plain = solve(data.C, data.a, data.b, entropy=0.2, regularizers=groups, tol=TOL)
        heavy = solve(data.C, t * data.a, t * data.b, entropy=0.2, regularizers=groups, tol=TOL)
    same(heavy, t * plain.plan, t * plain.value + 0.2 * t * math.log(t), mass=t)


@LAW
@given(n=sizes, m=sizes, seed=seeds, height=st.sampled_from([0.1, 10.0]))
def test_costs_of_leaving_and_arriving_leave_the_plan_alone(
    n: int, m: int, seed: int, height: float
) -> None:
    data, rng = cloud(n, m, seed=seed), np.random.default_rng(seed)
    p, q = height * rng.standard_normal(n), height * rng.standard_normal(m)
    result = on(data, ring(n), ring(m))
    moved = on(
        Cloud(data.Xs, data.Xt, data.a, data.b, data.C + p[:, None] + q[None, :]), ring(n), ring(m)
    )
    same(moved, result.plan, result.value + p @ data.a + q @ data.b)


@LAW
@given(n=sizes, m=sizes, seed=seeds)
def test_a_duplicate_shares_the_mass(n: int, m: int, seed: int) -> None:
    """A source split in two halves that the Laplacian sees as one: its row splits, the entropy falls by a_i log 2."""
    data, i = cloud(n, m, seed=seed), seed % n
    result = on(data, ring(n), ring(m))
    twice = np.append(np.arange(n), i)
    share = np.ones(n)
    share[i] = 0.5
    split = Cloud(data.Xs[twice], data.Xt, (data.a * share)[twice], data.b, data.C[twice])
    answer = on(split, ring(n)[np.ix_(twice, twice)], ring(m))
    same(
        answer,
        (result.plan * share[:, None])[twice],
        result.value - 0.2 * data.a[i] * math.log(2.0),
    )


@LAW
@given(m=sizes, seed=seeds, turned=st.booleans())
def test_one_source_leaves_no_choice(m: int, seed: int, turned: bool) -> None:
    """1 x m or m x 1: the plan is the weights, whatever is asked."""
    data = cloud(1, m, seed=seed)
    C, a, b = (data.C.T.copy(), data.b, data.a) if turned else (data.C, data.a, data.b)
    labels = np.arange(len(a)) % 2
    with within(20):
        result = solve(C, a, b, entropy=0.3, regularizers=[GroupLasso(labels, 0.1)], tol=1e-9)
    np.testing.assert_allclose(result.plan, np.outer(a, b), rtol=1e-12)
    groups = 0.1 * sum(np.linalg.norm(np.outer(a, b)[labels == k], axis=0).sum() for k in (0, 1))
    value = float(np.sum(C * np.outer(a, b))) + 0.3 * negentropy(np.outer(a, b)) + groups
    assert result.value == pytest.approx(value, abs=1e-12)
    assert result.success


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("entropy", [0.02, 0.3, 2.0])
def test_tiny_problems_end(shape: tuple[int, int], entropy: float) -> None:
    """Down to rounding, in finite time."""
    for seed in range(6):
        data = cloud(*shape, seed=seed, uniform=True)
        with within(5):
            result = solve(data.C, entropy=entropy, tol=0.0, max_iter=100)
        assert result.gap <= 1e-12


def test_zero_weights_take_no_part() -> None:
    """The problem without those points."""
    keep = np.arange(N) != 2
    a = np.where(keep, DATA.a, 0.0)
    a = a / a.sum()
    result = solve(DATA.C, a, DATA.b, entropy=ENTROPY, regularizers=[LAPLACIAN, GROUPS], tol=1e-9)
    assert not result.plan[2].any()
    part = [
        Laplacian(DATA.Xs[keep], DATA.Xt, 2.0, Ls=LS[np.ix_(keep, keep)], Lt=LT, target=0.5),
        GroupLasso(LABELS[keep], 0.1),
    ]
    without = solve(DATA.C[keep], a[keep], DATA.b, entropy=ENTROPY, regularizers=part, tol=1e-9)
    assert result.value == pytest.approx(without.value, abs=2e-9)
    assert marginal_error(result.plan, a, DATA.b) <= 1e-12


def test_small_units_are_not_an_excuse() -> None:
    """tol measures a problem smaller than 1 by its own size: the plan is that of the same problem in other units."""
    large = solve(DATA.C, DATA.a, DATA.b, entropy=ENTROPY, tol=1e-8)
    small = solve(1e-6 * DATA.C, DATA.a, DATA.b, entropy=1e-6 * ENTROPY, tol=1e-8)
    assert small.success
    np.testing.assert_allclose(small.plan, large.plan, atol=1e-4)
    assert small.gap <= 1e-8 * 1e-6 * DATA.C.max()


def test_barycenters_and_cost() -> None:
    result = solve(DATA.C, DATA.a, DATA.b, entropy=ENTROPY)
    Y = np.arange(2.0 * M).reshape(M, 2)
    np.testing.assert_allclose(
        result.barycenters(Y), (result.plan @ Y) / DATA.a[:, None], rtol=1e-10
    )
    assert result.cost == pytest.approx(float(np.sum(DATA.C * result.plan)), rel=1e-12)
    assert len(repr(result)) < 120


def test_a_smooth_function_is_a_regularizer() -> None:
    def spread(G: Any) -> Any:
        return 0.5 * float(np.sum(G * G)), G

    result = solve(
        DATA.C, DATA.a, DATA.b, entropy=ENTROPY, regularizers=[cg.smooth.Function(spread)], tol=1e-7
    )
    plain = solve(DATA.C, DATA.a, DATA.b, entropy=ENTROPY, tol=1e-7)
    assert result.success
    assert result.lower_bound >= plain.lower_bound
    assert np.sum(result.plan**2) <= np.sum(plain.plan**2) + 1e-6


def test_a_plain_entropic_answer_speaks_of_sinkhorn() -> None:
    C = np.random.default_rng(0).random((20, 30))
    said = str(cg.transport.solve(C, entropy=0.1, method="cgs"))
    assert "iterations of Sinkhorn's algorithm in" in said
    assert "marginals exact to" in said
    assert "cgs" not in said
