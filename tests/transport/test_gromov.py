"""Gromov-Wasserstein: values of POT, gaps in long double, bounds by enumeration, marginals, starts, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

import condgrad as cg
from condgrad.transport.gromov_bound import line_transports

KINDS = ("distances", "squared", "graph", "asymmetric")


def spaces(kind: str, n: int, m: int, rng: Any) -> tuple[Any, Any]:
    X, Y = rng.standard_normal((n, 2)), rng.standard_normal((m, 3))
    if kind == "distances":
        return cdist(X, X), cdist(Y, Y)
    if kind == "squared":
        return cdist(X, X) ** 2, cdist(Y, Y) ** 2
    if kind == "graph":
        graphs = [np.triu(rng.random((k, k)) < 0.4, 1) for k in (n, m)]
        return tuple(0.1 + (each | each.T) for each in graphs)
    return rng.random((n, n)), rng.random((m, m))


def weights(n: int, uniform: bool, rng: Any) -> Any:
    return np.full(n, 1.0 / n) if uniform else rng.dirichlet(np.full(n, 3.0))


def losses(C1: Any, C2: Any, loss: str) -> Any:
    """L(C1_ik, C2_jl), an array of i, k, j, l, in long double."""
    x, y = C1.astype(np.longdouble)[:, :, None, None], C2.astype(np.longdouble)[None, None]
    if loss == "square":
        return (x - y) ** 2
    return x * np.log(x + 1e-18) - x + y - x * np.log(y + 1e-18)


def value_in_long_double(G: Any, L: Any, M: Any, entropy: float) -> Any:
    G = G.astype(np.longdouble)
    logarithms = np.where(G > 0.0, np.log(np.where(G > 0.0, G, 1.0)), 0.0)
    return np.einsum("ikjl,ij,kl->", L, G, G) + np.sum(M * G) + entropy * np.sum(G * logarithms)


def gradient_in_long_double(G: Any, L: Any, M: Any) -> Any:
    G = G.astype(np.longdouble)
    return np.einsum("ikjl,kl->ij", L, G) + np.einsum("kilj,kl->ij", L, G) + M


def linear_minimum(c: Any, a: Any, b: Any) -> float:
    """min <c, G> over plans, by HiGHS."""
    n, m = c.shape
    rows = np.kron(np.eye(n), np.ones((1, m)))
    columns = np.kron(np.ones((1, n)), np.eye(m))
    found = linprog(
        c.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), bounds=(0, None)
    )
    return float(found.fun)


problems = given(
    st.integers(0, 2**31),
    st.sampled_from(KINDS),
    st.sampled_from(["square", "kl"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 1e-2, 0.3]),
)


@settings(max_examples=10, deadline=None)
@problems
def test_stationarity_is_an_upper_bound_on_the_gap_in_long_double(
    seed, kind, loss, uniform, fused, entropy
):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 8, 2)
    C1, C2 = spaces(kind, n, m, rng)
    a, b = weights(n, uniform, rng), weights(m, uniform, rng)
    M = rng.random((n, m)) if fused else np.zeros((n, m))
    q = cg.transport.gromov(
        C1,
        C2,
        a,
        b,
        entropy=entropy,
        fused=(M, 1.0) if fused else None,
        loss=loss,
        starts=2,
        tol=1e-7,
    )
    L = losses(C1, C2, loss)
    value = value_in_long_double(q.plan, L, M, entropy)
    assert abs(float(value) - q.value) <= 1e-12 * (abs(L).max() + entropy * 10.0 + 1.0)
    assert q.value == pytest.approx(sum(q.parts), rel=1e-9, abs=1e-12)
    assert abs(q.plan.sum(1) - a).max() <= 1e-14
    assert abs(q.plan.sum(0) - b).max() <= 1e-14
    assert q.lower_bound <= q.value
    if q.success:
        assert q.stationarity <= 1e-7 * q.scale
    c = gradient_in_long_double(q.plan, L, M)
    if entropy == 0.0:
        true = float(np.sum(c * q.plan)) - linear_minimum(c.astype(float), a, b)
    else:
        # the value of another engine is above the minimum, so that the difference is below the true gap
        linear = cg.transport.solve(
            c.astype(float), a, b, entropy=entropy, method="newton", tol=1e-12
        )
        true = float(np.sum(c * q.plan)) + q.parts.entropy - linear.value
    assert true <= q.stationarity + 1e-9 * abs(L).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["square", "kl"])
def test_one_start_is_no_worse_than_pot_and_pots_loss_is_our_structure(kind, loss):
    rng = np.random.default_rng(5)
    C1, C2 = spaces(kind, 15, 18, rng)
    a, b = weights(15, False, rng), weights(18, False, rng)
    plan, log = ot.gromov_wasserstein(C1, C2, a, b, loss_fun=f"{loss}_loss", log=True)
    theirs = cg.transport.gromov_gap(plan, C1, C2, a, b, loss=loss)
    assert theirs.value == pytest.approx(log["gw_dist"], rel=1e-9, abs=1e-9)
    q = cg.transport.gromov(C1, C2, a, b, loss=loss, tol=1e-9)
    assert q.status is cg.Status.STATIONARY
    assert q.value <= theirs.value + 1e-9 * q.scale


def test_points_are_the_arrays_of_their_squared_distances():
    rng = np.random.default_rng(1)
    X, Y = 100.0 + rng.standard_normal((12, 2)), rng.standard_normal((9, 4)) - 50.0
    a, b = 3.0 * weights(12, False, rng), 3.0 * weights(9, False, rng)
    points = cg.smooth.GromovPoints(X, Y, a, b)
    arrays = cg.smooth.GromovWasserstein(cdist(X, X) ** 2, cdist(Y, Y) ** 2, a, b)
    G = cg.sets.Transport(a, b).rounded(rng.random((12, 9)))
    H = cg.sets.Transport(a, b).rounded(rng.random((12, 9)))
    assert points.at(G).value == pytest.approx(arrays.at(G).value, rel=1e-10)
    by_points, by_arrays = (np.sum(f.at(G).gradient * (H - G)) for f in (points, arrays))
    assert by_points == pytest.approx(by_arrays, rel=1e-9)
    for f in (points, arrays):
        here, there = f.at(G), f.at(H)
        line = here.along([there], (H - G)[None])
        assert line.value(np.array([0.3])) == pytest.approx(
            f.at(0.7 * G + 0.3 * H).value, rel=1e-10
        )
        assert here.moved(0.7 * G + 0.3 * H, [there], np.array([0.3])).value == pytest.approx(
            line.value(np.array([0.3])), rel=1e-10
        )
        assert here.offset == pytest.approx(here.value - np.sum(here.gradient * G), rel=1e-9)
    assert float(points.at(G).along([points.at(H)], None).curvature[0, 0]) <= 0.0


def test_bounds_lie_below_all_permutations_of_points():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 3 + seed % 4
        X, Y = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
        C1, C2 = cdist(X, X) ** 2, cdist(Y, Y) ** 2
        q = cg.transport.gromov(
            cg.transport.SquaredEuclidean(X, X), cg.transport.SquaredEuclidean(Y, Y)
        )
        # f is concave, so that a permutation is best among all plans
        best = min(
            np.mean((C1 - C2[np.ix_(p, p)]) ** 2)
            for p in map(list, itertools.permutations(range(n)))
        )
        assert q.lower_bound <= best + 1e-12 * abs(best)
        assert q.value >= best * (1.0 - 1e-12)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@problems
def test_no_random_plan_is_below_the_bound(seed, kind, loss, uniform, fused, entropy):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 8, 2)
    C1, C2 = spaces(kind, n, m, rng)
    a, b = weights(n, uniform, rng), weights(m, uniform, rng)
    M = rng.random((n, m)) if fused else np.zeros((n, m))
    q = cg.transport.gromov(
        C1, C2, a, b, entropy=entropy, fused=(M, 1.0), loss=loss, starts=6, seed=seed % 7
    )
    assert q.lower_bound <= min(record.value for record in q.starts)
    P = cg.sets.Transport(a, b)
    L = losses(C1, C2, loss)
    for _ in range(20):
        G = P.linear_argmin(rng.standard_normal((n, m))).point
        assert q.lower_bound <= float(value_in_long_double(G, L, M, entropy)) + 1e-12 * abs(q.scale)


def test_transports_on_a_line_are_those_of_a_linear_program():
    rng = np.random.default_rng(0)
    for n, m, uniform in ((5, 5, True), (4, 6, True), (5, 4, False)):
        a, b = weights(n, uniform, rng), weights(m, uniform, rng)
        for loss in ("square", "kl"):
            C1, C2 = rng.random((n, n)), rng.random((m, m))
            L = losses(C1, C2, loss).astype(float)
            exact = [[linear_minimum(L[i, :, j, :], a, b) for j in range(m)] for i in range(n)]
            found = line_transports(C1, C2, a, b, loss)
            assert (found.costs <= np.array(exact) + 1e-12).all()
            if uniform:
                assert found.costs == pytest.approx(np.array(exact), abs=1e-12)


def test_identical_clouds_need_the_entropy_in_their_bound():
    """The linear bound is 0 there, and F at the stationary plan is far below 0."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    C = cdist(X, X)
    q = cg.transport.gromov(C, C, entropy=0.1)
    assert q.value < -0.1
    assert q.lower_bound <= q.value
    exact = cg.transport.gromov(C, C)
    assert abs(exact.value) <= 1e-12
    assert exact.lower_bound == pytest.approx(0.0, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
def test_streamed_plans_are_the_dense_ones(fused):
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((25, 3))
    first, second = cg.transport.SquaredEuclidean(X, X), cg.transport.SquaredEuclidean(Y, Y)
    pair = (cg.transport.SquaredEuclidean(X, Y[:, :2]), 0.5) if fused else None
    answers = [
        cg.transport.gromov(first, second, entropy=1.0, fused=pair, plan=plan, starts=3, tol=1e-8)
        for plan in ("dense", "streamed")
    ]
    dense, streamed = answers
    assert [q.streamed for q in answers] == [False, True]
    assert all(q.status is cg.Status.STATIONARY for q in answers)
    assert streamed.value == pytest.approx(dense.value, abs=1e-6 * dense.scale)
    assert streamed.lower_bound == pytest.approx(dense.lower_bound, abs=1e-5 * dense.scale)
    judged = cg.transport.gromov_gap(streamed.dense(), first, second, entropy=1.0, fused=pair)
    assert judged.value == pytest.approx(streamed.value, rel=1e-9)
    assert judged.stationarity <= 2e-8 * streamed.scale
    assert abs(streamed.dense().sum(0) - 1 / 25).max() <= 1e-15
    assert streamed.barycenters(Y).shape == (30, 3)


def test_more_starts_find_what_the_product_misses():
    """A symmetric cross has a stationary product plan; matched axes match it."""
    X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    C = cdist(X, X)
    q = cg.transport.gromov(C, C[::-1, ::-1], starts=6)
    assert q.value == min(record.value for record in q.starts)
    assert abs(q.value) <= 1e-12
    assert len(q.starts) == 6


def test_a_start_of_ones_own_comes_first():
    C = cdist(*2 * [np.random.default_rng(3).standard_normal((8, 2))])
    perfect = np.eye(8) / 8.0
    q = cg.transport.gromov(C, C, start=perfect, starts=1)
    assert [record.start for record in q.starts] == ["yours"]
    assert q.iterations == 0
    again = cg.transport.gromov(C, C, start=q, starts=2)
    assert [record.start for record in again.starts] == ["yours", "product of the weights"]


def test_gap_of_somebody_elses_plan():
    rng = np.random.default_rng(4)
    C1, C2 = spaces("distances", 12, 12, rng)
    entropic = ot.gromov.entropic_gromov_wasserstein(C1, C2, epsilon=0.5, max_iter=50)
    gap = cg.transport.gromov_gap(1.001 * entropic, C1, C2, entropy=0.5)
    assert gap.marginal_error == pytest.approx(1e-3 / 12, rel=1e-3)
    assert abs(gap.plan.sum(1) - 1 / 12).max() <= 1e-15
    assert gap.relative_stationarity > 0.0
    product = cg.transport.gromov_gap(np.full((12, 12), 1 / 144), C1, C2, entropy=0.5)
    assert product.stationarity > gap.stationarity


def test_units_change_no_decision():
    rng = np.random.default_rng(6)
    C1, C2 = spaces("distances", 10, 9, rng)
    M = rng.random((10, 9))
    answers = [
        cg.transport.gromov(t * C1, t * C2, fused=(M, t**2), entropy=0.01 * t**2, starts=2)
        for t in (2.0**-17, 1.0, 2.0**17)
    ]
    for t, q in zip((2.0**-17, 1.0, 2.0**17), answers, strict=True):
        assert q.iterations == answers[1].iterations
        assert q.value == pytest.approx(t**2 * answers[1].value, rel=1e-9)


def test_limits_and_callbacks():
    rng = np.random.default_rng(7)
    C1, C2 = spaces("asymmetric", 20, 20, rng)
    assert cg.transport.gromov(C1, C2, time_limit=0.0).status is cg.Status.TIME_LIMIT
    short = cg.transport.gromov(C1, C2, max_iter=2, starts=1)
    assert short.status is cg.Status.ITERATION_LIMIT
    assert short.lower_bound <= short.value
    stopped = cg.transport.gromov(C1, C2, callback=lambda _: True)
    assert stopped.status is cg.Status.STOPPED_BY_CALLBACK
    assert len(stopped.starts) == 1


C = np.ones((3, 3)) - np.eye(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: cg.transport.gromov(np.ones((3, 4)), C),
            ValueError,
            r"C1 must be a square array.*\(3, 4\)",
        ),
        (lambda: cg.transport.gromov(C, np.full((2, 2), np.nan)), ValueError, "C2 must be finite"),
        (lambda: cg.transport.gromov(C, C, [0.5, 0.5]), ValueError, "a must have 3 weights"),
        (
            lambda: cg.transport.gromov(C, C, [1.0, -0.5, 0.5]),
            ValueError,
            "a must hold weights >= 0",
        ),
        (lambda: cg.transport.gromov(C, C, None, [1.0, 1.0, 1.0]), ValueError, "same mass"),
        (
            lambda: cg.transport.gromov(C, C, fused=(np.ones((2, 3)), 1.0)),
            ValueError,
            r"M of fused.*\(3, 3\)",
        ),
        (
            lambda: cg.transport.gromov(C, C, fused=np.ones((3, 3))),
            TypeError,
            "fused must be a pair",
        ),
        (lambda: cg.transport.gromov(C, C, fused=(C, -1.0)), ValueError, "weight of fused"),
        (
            lambda: cg.transport.gromov(C, C, loss="cube"),
            ValueError,
            "loss must be one of 'square', 'kl'",
        ),
        (lambda: cg.transport.gromov(-C, C, loss="kl"), ValueError, "C1 has -1"),
        (lambda: cg.transport.gromov(C, C, entropy=-1.0), ValueError, "entropy"),
        (lambda: cg.transport.gromov(C, C, starts=0), ValueError, "starts"),
        (
            lambda: cg.transport.gromov(C, C, start=np.ones((3, 3))),
            ValueError,
            "start must have the marginals",
        ),
        (
            lambda: cg.transport.gromov(C, C, start=np.ones((2, 3))),
            ValueError,
            "start must be a plan of shape",
        ),
        (
            lambda: cg.transport.gromov(C, C, plan="streamed", entropy=1.0),
            ValueError,
            "needs points",
        ),
        (lambda: cg.transport.gromov_gap(-C, C, C), ValueError, "plan must have entries >= 0"),
        (
            lambda: cg.transport.gromov(cg.transport.SquaredEuclidean(C, C + 1.0), C),
            ValueError,
            "C1 must be a cost between the points of one space",
        ),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.torch
def test_torch_arrays_give_torch_plans():
    import torch

    rng = np.random.default_rng(8)
    C1, C2 = spaces("distances", 9, 11, rng)
    ours = cg.transport.gromov(C1, C2, entropy=0.05, starts=2)
    q = cg.transport.gromov(torch.as_tensor(C1), torch.as_tensor(C2), entropy=0.05, starts=2)
    assert isinstance(q.plan, torch.Tensor)
    assert q.value == pytest.approx(ours.value, rel=1e-9)
    X = torch.as_tensor(rng.standard_normal((20, 3)))
    cost = cg.transport.SquaredEuclidean(X, X)
    streamed = cg.transport.gromov(cost, cost, entropy=0.5, plan="streamed", starts=2)
    assert streamed.status is cg.Status.STATIONARY
