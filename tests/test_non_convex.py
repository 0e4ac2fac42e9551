"""f that is not convex: stationary points, each with its own gap, judged by enumeration and in long double."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import condgrad as cg

METHODS = ("cgs", "cg", "away", "pairwise", "spg", "auto")
EXACT_ON_FACES = ("away", "pairwise", "spg", "auto")
"""Methods that reach small gaps where a solution lies inside a face; plain conditional gradients zigzag there."""


def quadratic(Q, q, *, convex=False):
    Q, q = np.asarray(Q, dtype=float), np.asarray(q, dtype=float)
    return cg.smooth.Function(lambda x: (0.5 * x @ Q @ x + q @ x, Q @ x + q), convex=convex)


def random_quadratic(seed, n):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, n))
    return Q + Q.T, rng.standard_normal(n)


def kkt_points_on_simplex(Q, q):
    """All isolated KKT points of a quadratic on the simplex: on each face the stationary point of its affine hull."""
    n = len(q)
    for size in range(1, n + 1):
        for face in map(list, itertools.combinations(range(n), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = Q[np.ix_(face, face)]
            system[size, size] = 0.0
            solution = np.linalg.solve(system, np.append(-q[face], 1.0))
            x = np.zeros(n)
            x[face] = solution[:size]
            slopes = Q @ x + q
            if (x >= 0.0).all() and (slopes >= slopes[face].min() - 1e-9).all():
                yield x


def kkt_points_on_box(Q, q):
    """All isolated KKT points of a quadratic on [-1, 1]^n."""
    n = len(q)
    for state in itertools.product((-1.0, 0.0, 1.0), repeat=n):
        x = np.array(state)
        free = np.flatnonzero(x == 0.0)
        if len(free):
            x[free] = np.linalg.solve(Q[np.ix_(free, free)], -(q[free] + Q[free] @ x))
        slopes = Q @ x + q
        fixed = np.setdiff1d(np.arange(n), free)
        if (abs(x) <= 1.0).all() and (slopes[fixed] * x[fixed] <= 1e-9).all():
            yield x


SETS = {
    "simplex": (lambda n: cg.sets.Simplex(n), kkt_points_on_simplex),
    "box": (lambda n: cg.sets.Box(-np.ones(n), np.ones(n)), kkt_points_on_box),
}


def start_in(name, n, rng):
    return rng.dirichlet(np.ones(n)) if name == "simplex" else rng.uniform(-1.0, 1.0, n)


def gap_in_long_double(Q, q, x, name):
    """<c, x> - min <c, s>, with more digits than the run had."""
    Q, q, x = (np.asarray(each, dtype=np.longdouble) for each in (Q, q, x))
    c = Q @ x + q
    return c @ x - (c.min() if name == "simplex" else -abs(c).sum())


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("method", METHODS)
def test_answers_are_KKT_points_with_a_gap_of_their_own(method, name):
    make, enumerate_kkt = SETS[name]
    for seed in range(8):
        n = 2 + seed % 5
        Q, q = random_quadratic(seed, n)
        x0 = start_in(name, n, np.random.default_rng(100 + seed))
        tol = 1e-9 if method in EXACT_ON_FACES else 1e-2
        r = cg.minimize(quadratic(Q, q), cg.simple.Zero(on=make(n)), x0, method=method, tol=tol)
        assert r.status is cg.Status.STATIONARY
        assert r.success
        assert r.lower_bound == -math.inf
        true = gap_in_long_double(Q, q, r.x, name)
        assert (
            -1e-15 * r.scale <= true <= r.stationarity <= tol * r.scale
        )  # x may be outside by rounding
        values = r.trace["value"]
        assert (np.diff(values) <= 1e-12 * r.scale).all()
        if method in EXACT_ON_FACES:
            nearest = min(abs(point - r.x).max() for point in enumerate_kkt(Q, q))
            assert nearest <= 1e-3


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(2, 6),
    st.sampled_from(METHODS),
    st.sampled_from(sorted(SETS)),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.integers(0, 20),
)
def test_gap_of_every_point_is_an_upper_bound_on_its_true_gap(
    seed, n, method, name, unit, max_iter
):
    Q, q = (unit * each for each in random_quadratic(seed, n))
    on = SETS[name][0](n)
    seen = []
    r = cg.minimize(
        quadratic(Q, q),
        cg.simple.Zero(on=on),
        start_in(name, n, np.random.default_rng(seed)),
        method=method,
        max_iter=max_iter,
        callback=lambda now: seen.append((now.x, now.stationarity)) and False,
    )
    for x, stationarity in [*seen, (r.x, r.stationarity)]:
        true = gap_in_long_double(Q, q, x, name)
        assert true <= stationarity <= true + 1e-12 * unit * n**2 + 1e-9 * abs(true)
    assert r.value <= min(r.trace["value"]) + 1e-12 * r.scale


def test_gap_on_birkhoffs_polytope_is_that_of_an_assignment_in_long_double():
    n, rng = 6, np.random.default_rng(0)
    A, B = rng.integers(0, 9, (n, n)).astype(float), rng.integers(0, 9, (n, n)).astype(float)

    def assignment(x):
        return float(np.sum((A @ x @ B) * x)), A @ x @ B + A.T @ x @ B.T

    f = cg.smooth.Function(assignment, convex=False)
    r = cg.minimize(
        f, cg.simple.Zero(on=cg.sets.Transport(np.ones(n), np.ones(n))), method="pairwise"
    )
    x = r.x.astype(np.longdouble)
    c = A @ x @ B + A.T @ x @ B.T
    rows, columns = linear_sum_assignment(c.astype(float))
    true = np.sum(c * x) - c[rows, columns].sum()
    assert r.status is cg.Status.STATIONARY
    assert -1e-15 <= true <= r.stationarity <= 1e-6 * r.scale


@pytest.mark.parametrize("on", [cg.sets.L1Ball(2.0), cg.sets.L2Ball(2.0)], ids=["l1", "l2"])
def test_gap_on_balls_is_that_of_the_dual_norm(on):
    Q, q = random_quadratic(3, 8)
    r = cg.minimize(quadratic(Q, q), cg.simple.Zero(on=on), np.full(8, 0.1), method="auto")
    c = Q.astype(np.longdouble) @ r.x + q
    dual_norm = abs(c).max() if isinstance(on, cg.sets.L1Ball) else np.sqrt(c @ c)
    true = c @ r.x + 2.0 * dual_norm
    assert -1e-15 <= true <= r.stationarity <= 1e-6 * r.scale


def test_least_gap_of_a_concave_f_falls_like_one_over_the_steps():
    n, gaps = 30, []
    B = np.random.default_rng(1).standard_normal((n, n))
    Q = -B @ B.T
    q = np.random.default_rng(2).standard_normal(n)
    r = cg.minimize(
        quadratic(Q, q),
        cg.simple.Entropy(3.0, on=cg.sets.Simplex(n)),
        tol=1e-12,
        callback=lambda now: gaps.append(now.stationarity) and False,
    )
    values = r.trace["value"]
    for k in range(1, len(gaps)):
        assert min(gaps[:k]) <= (values[0] - values[-1]) / k + 1e-10


def test_least_gap_falls_like_one_over_the_root_of_the_steps():
    """Lacoste-Julien (2016): least gap <= max(2 h, L D^2) / sqrt(k + 1), h the whole fall of F."""
    n, gaps = 20, []
    Q, q = random_quadratic(5, n)
    f = cg.smooth.Function(
        lambda x: (0.5 * x @ Q @ x + q @ x, Q @ x + q), smoothness=abs(Q).sum(), convex=False
    )
    box = cg.sets.Box(-np.ones(n), np.ones(n))
    for step in ("short", "armijo", "exact"):
        gaps.clear()
        r = cg.minimize(
            f,
            cg.simple.Zero(on=box),
            np.zeros(n),
            step=step,
            tol=1e-9,
            max_iter=200,
            callback=lambda now: gaps.append(now.stationarity) and False,
        )
        fall = r.trace["value"][0] - r.value
        constant = max(2.0 * fall, np.linalg.norm(Q, 2) * 4.0 * n)
        for k in range(len(gaps)):
            assert min(gaps[: k + 1]) <= constant / math.sqrt(k + 1.0)


@pytest.mark.parametrize("weight", [0.05, 1.0])
@pytest.mark.parametrize("step", ["exact", "armijo"])
def test_simple_parts_keep_their_place(step, weight):
    n = 6
    Q, q = random_quadratic(11, n)
    for g in (
        cg.simple.Entropy(weight, on=cg.sets.Simplex(n)),
        cg.simple.Ridge(weight, on=cg.sets.Simplex(n)),
    ):
        r = cg.minimize(quadratic(Q, q), g, step=step, tol=1e-7)
        c = Q @ r.x + q
        true = c @ r.x + g.value(r.x) - (g.argmin(c).bound)
        assert r.status is cg.Status.STATIONARY
        assert -1e-12 <= true <= r.stationarity + 1e-12
        assert (np.diff(r.trace["value"]) <= 1e-12).all()


def test_sums_and_multiples_follow_their_terms():
    bent, convex = quadratic(-np.eye(2), np.zeros(2)), cg.smooth.LeastSquares(np.eye(2), [1.0, 2.0])
    assert convex.convex
    assert (2.0 * convex + convex).convex
    assert not (convex + 0.5 * bent).convex


def test_a_wrong_flag_is_caught_with_the_best_point():
    caught = []
    for seed in range(20):
        Q, q = random_quadratic(seed, 10)
        try:
            cg.minimize(
                quadratic(Q, q, convex=True), cg.simple.Zero(on=cg.sets.Simplex(10)), max_iter=100
            )
        except cg.ContradictionError as error:
            caught.append((error, 0.5 * error.x @ Q @ error.x + q @ error.x))
    assert len(caught) >= 10
    for error, value in caught:
        assert "convex=False" in str(error)
        assert error.value == pytest.approx(value)


def test_a_tangent_alone_shows_a_wrong_flag():
    """-x^2 on [0, 1] from 0.1: the step to 1 is the best one, and no bound is above a value seen before it."""
    f = quadratic([[-2.0]], [0.0], convex=True)
    for method in ("cgs", "spg"):
        with pytest.raises(cg.ContradictionError, match="convex=False"):
            cg.minimize(f, cg.simple.Zero(on=cg.sets.Box([0.0], [1.0])), [0.1], method=method)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "newton"}, cg.MissingAbility, "method='newton' needs a convex f"),
        ({"method": "pqn"}, cg.MissingAbility, "method='pqn' needs a convex f"),
        ({"memory": 3}, ValueError, "memory=3 .* not convex, take memory=0"),
        ({"step": "open-loop"}, ValueError, "OpenLoop.* F may rise"),
        ({"step": lambda _: 1.0, "tol": 1e-12}, ValueError, "let F rise"),
    ],
)
def test_what_cannot_promise_descent_says_so(options, error, words):
    f = quadratic([[2.0, 0.0], [0.0, -1.0]], [-1.0, 0.0])
    with pytest.raises(error, match=words):
        cg.minimize(
            f, cg.simple.Zero(on=cg.sets.Box([-1.0, -1.0], [1.0, 1.0])), [0.1, 0.3], **options
        )


def test_printed_result_says_what_is_proved_and_what_is_not():
    r = cg.minimize(
        quadratic(-np.eye(3), np.zeros(3)), cg.simple.Zero(on=cg.sets.Simplex(3)), [0.5, 0.3, 0.2]
    )
    words = str(r)
    assert "proved: x is stationary up to this; not proved: that no other point is better" in words
    assert max(map(len, words.splitlines())) <= 120
    assert "lower bound" not in words
    assert "stationarity" in repr(r)


def test_limits_callbacks_and_saved_results_keep_the_point_with_its_gap(tmp_path):
    Q, q = random_quadratic(7, 12)
    f, g = quadratic(Q, q), cg.simple.Zero(on=cg.sets.Box(-np.ones(12), np.ones(12)))
    short = cg.minimize(f, g, np.zeros(12), max_iter=1)
    assert short.status is cg.Status.ITERATION_LIMIT
    assert gap_in_long_double(Q, q, short.x, "box") <= short.stationarity
    assert cg.minimize(f, g, np.zeros(12), time_limit=0.0).status is cg.Status.TIME_LIMIT
    short.save(tmp_path / "short.npz")
    read = cg.load(tmp_path / "short.npz")
    assert read.stationarity == short.stationarity
    on = cg.minimize(f, g, start=read, method="spg")
    assert on.status is cg.Status.STATIONARY
    assert on.value <= short.value


def test_float32_points_get_a_proof_for_their_precision():
    Q, q = (each.astype(np.float32) for each in random_quadratic(9, 6))
    f = cg.smooth.Function(lambda x: (0.5 * x @ Q @ x + q @ x, Q @ x + q), convex=False)
    r = cg.minimize(
        f,
        cg.simple.Zero(on=cg.sets.Simplex(6)),
        np.full(6, 1 / 6, np.float32),
        method="auto",
        tol=1e-4,
    )
    assert r.x.dtype == np.float32
    assert r.status is cg.Status.STATIONARY
    assert gap_in_long_double(Q, q, r.x, "simplex") <= r.stationarity


@pytest.mark.torch
def test_torch_functions_give_torch_answers():
    import torch

    Q, q = (torch.as_tensor(each) for each in random_quadratic(4, 6))
    f = cg.smooth.Function(lambda x: 0.5 * x @ Q @ x + q @ x, convex=False)
    x0 = torch.full((6,), 1.0 / 6.0, dtype=torch.float64)
    r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(6)), x0, method="auto")
    assert isinstance(r.x, torch.Tensor)
    assert r.status is cg.Status.STATIONARY
    assert gap_in_long_double(Q.numpy(), q.numpy(), r.x.numpy(), "simplex") <= r.stationarity
