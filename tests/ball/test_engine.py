"""Newton on the faces of polyhedral sets, against CVXPY, closed forms and SPG."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.linear_model import path
from condgrad.loop import Progress
from condgrad.stopping import RelativeGap
from tests.methods import SMOOTH, Judged, assert_lawful, data, microarray

Array = np.ndarray
N = 12
SETS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "l1": (cg.sets.L1Ball(0.9), lambda x: [cp.norm1(x) <= 0.9]),
    "simplex": (cg.sets.Simplex(N), lambda x: [x >= 0, cp.sum(x) == 1]),
    "box": (cg.sets.Box(-0.05, 0.2), lambda x: [x >= -0.05, x <= 0.2]),
    "solid simplex": (cg.sets.SolidSimplex(0.4), lambda x: [x >= 0, cp.sum(x) <= 0.4]),
    "wide solid simplex": (cg.sets.SolidSimplex(4.0), lambda x: [x >= 0, cp.sum(x) <= 4.0]),
}
EVERY_LOSS = pytest.mark.parametrize("loss", SMOOTH)
EVERY_SET = pytest.mark.parametrize("on", SETS)
seeds = st.integers(0, 2**32 - 1)


def newton(f: Any, g: Any, x0: Any = None, *, tol: float = 1e-9, **options: Any) -> cg.Result:
    return cg.minimize(f, g, x0, method="newton", tol=tol, **options)


def quadratic(weight: float, on: Any) -> Any:
    return cg.simple.Ridge(weight, on=on) if weight else cg.simple.Zero(on=on)


def smooth(loss: str, A: Any, y: Any, **options: Any) -> Any:
    """A loss with targets or their signs, whichever it needs."""
    return SMOOTH[loss][0](A, y if loss == "squares" else (y > 0) * 2.0 - 1.0, **options)


def assert_solved(result: cg.Result, g: Any) -> None:
    """Converged, inside the set, and every row between the best bound and the best value."""
    assert result.status is cg.Status.CONVERGED, result.message
    assert g.on.contains(result.x, 1e-12)
    noise = 1e-12 * max(1.0, abs(result.value))
    assert (result.trace["lower_bound"] <= result.value + noise).all()
    assert (result.trace["value"] >= result.lower_bound - noise).all()


def assert_same_answer(result: cg.Result, other: cg.Result, *, slack: float = 0.0) -> None:
    """Two certificates of one problem overlap."""
    assert result.lower_bound <= other.value + slack
    assert other.lower_bound <= result.value + slack


class Walk(list[Array]):
    """A callback that keeps the iterates."""

    def __call__(self, now: Progress) -> None:
        self.append(now.x.copy())


@cache
def with_judge(loss: str, on: str, ridge: float, intercept: bool, weighted: bool) -> Judged:
    """A problem solved by Clarabel."""
    A, target, labels = data(300 + 10 * list(SMOOTH).index(loss) + list(SETS).index(on), n=N)
    y = target + 0.5 if loss == "squares" else labels
    weights = np.random.default_rng(5).uniform(0.0, 3.0, len(y)) if weighted else np.ones(len(y))
    x, b = cp.Variable(N), cp.Variable()
    z = A @ x + (b if intercept else 0.0)
    each = {
        "squares": 0.5 * cp.square(z - y),
        "logistic": cp.logistic(-cp.multiply(y, z)),
        "squared hinge": cp.square(cp.pos(1.0 - cp.multiply(y, z))),
    }
    fit = cp.sum(cp.multiply(weights, each[loss]))
    P, constraints = SETS[on]
    least = cp.Problem(cp.Minimize(fit + ridge * cp.sum_squares(x)), constraints(x)).solve(
        solver="CLARABEL"
    )
    f = SMOOTH[loss][0](A, y, sample_weight=weights, intercept=intercept)
    return Judged(f, quadratic(ridge, P), float(least))


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("ridge", [5.0, 1e-6, 0.0])
def test_it_agrees_with_clarabel_and_proves_it(loss: str, on: str, ridge: float) -> None:
    for intercept, weighted in product((False, True), repeat=2):
        problem, walk = with_judge(loss, on, ridge, intercept, weighted), Walk()
        result = newton(problem.f, problem.g, callback=walk)
        assert result.status is cg.Status.CONVERGED
        assert_lawful(result, problem)
        assert all(problem.g.on.contains(x, 1e-12) for x in walk)
        assert result.iterations <= 15


@EVERY_LOSS
@pytest.mark.parametrize("on", ["l1", "simplex", "solid simplex", "box"])
@settings(max_examples=10)
@given(
    seed=seeds,
    ridge=st.sampled_from([1e-6, 1e-3, 1.0]),
    tall=st.booleans(),
    intercept=st.booleans(),
)
def test_it_agrees_with_spg(
    loss: str, on: str, seed: int, ridge: float, tall: bool, intercept: bool
) -> None:
    """Relative ridges down to 1e-6, more samples than features and fewer, tiny sets to idle ones."""
    rng = np.random.default_rng(seed)
    m, n = (200, 6) if tall else (8, 30)
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    y[:2] = 1.0, -1.0
    size = 10.0 ** rng.uniform(-3.0, 1.5)
    sets = {
        "l1": cg.sets.L1Ball(size),
        "simplex": cg.sets.Simplex(n, size),
        "box": cg.sets.Box(-size / n, size / n),
    }
    P = {**sets, "solid simplex": cg.sets.SolidSimplex(size)}[on]
    f, g = smooth(loss, A, y, intercept=intercept), cg.simple.Ridge(ridge * m, on=P)
    result = newton(f, g)
    assert_solved(result, g)
    assert_same_answer(result, cg.minimize(f, g, method="spg", tol=1e-9, max_iter=150))


@settings(max_examples=20)
@given(
    seed=seeds,
    loss=st.sampled_from(sorted(SMOOTH)),
    on=st.sampled_from(["l1", "box", "half", "simplex", "solid"]),
)
def test_two_features_take_it_to_every_corner(seed: int, loss: str, on: str) -> None:
    """In the plane x walks from the inside to edges and vertices and back; stiff columns, small ridge, any start."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2, 2)) * rng.choice([1.0, 10.0], 2)
    P = {"l1": cg.sets.L1Ball(1.0), "box": cg.sets.Box(-1.0, 1.0), "half": cg.sets.Box(0.0, 1.0)}
    P |= {"simplex": cg.sets.Simplex(2), "solid": cg.sets.SolidSimplex(1.0)}
    g = cg.simple.Ridge(1e-4, on=P[on])
    f = smooth(loss, A, rng.standard_normal(2) if loss == "squares" else np.array([1.0, -1.0]))
    for x0 in (None, g.on.project(3.0 * rng.standard_normal(2))):
        assert_solved(newton(f, g, x0), g)


@pytest.mark.parametrize(
    ("loss", "A", "y", "P"),
    [
        # x on the boundary, the gradient leads inside and Newton's direction outside
        ("squares", [[-0.5, 12.2], [-0.3, 7.3]], [-1.4, 0.0], cg.sets.L1Ball(1.0)),
        # the last steps along a face are small against the numbers they are differences of
        ("squared hinge", [[0.2, -5.2], [-0.4, -24.4]], [1.0, -1.0], cg.sets.L1Ball(1.0)),
        ("logistic", [[-0.8, -10.1], [9.1, -4.5]], [1.0, -1.0], cg.sets.L1Ball(1.0)),
        # a coordinate leaves its bound by the gradient and is pressed against it by Newton
        ("logistic", [[7.2, 5.4], [-11.1, -0.3]], [1.0, -1.0], cg.sets.Box(-1.0, 1.0)),
    ],
)
def test_corners_that_once_were_traps(loss: str, A: Any, y: Any, P: Any) -> None:
    g = cg.simple.Ridge(1e-4, on=P)
    assert_solved(newton(smooth(loss, A, np.array(y)), g, max_iter=10), g)


def test_a_last_step_of_1e_11_is_one() -> None:
    """Deep inside the box, where x + 1e-6 d is x to rounding."""
    f = smooth(
        "squared hinge",
        [[1.1], [-0.9], [0.5]],
        np.array([-1.0, 1.0, 1.0]),
        sample_weight=[0.2, 0.02, 1e3],
    )
    g = cg.simple.Zero(on=cg.sets.Box(-16.0, 33.0))
    assert_solved(newton(f, g), g)


@pytest.mark.parametrize(("m", "n", "seed"), [(20, 120, 4), (40, 400, 2), (40, 400, 3)])
def test_every_iterate_is_feasible_however_often_coordinates_turn_back(
    m: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A, y, walk = rng.standard_normal((m, n)), rng.standard_normal(m), Walk()
    y[:2] = 1.0, -1.0
    f = smooth(
        "squared hinge", A, y, sample_weight=10.0 ** rng.uniform(-3.0, 3.0, m), intercept=True
    )
    for P in (cg.sets.Simplex(n, 3.0), cg.sets.L1Ball(3.0), cg.sets.SolidSimplex(3.0)):
        walk.clear()
        newton(f, cg.simple.Zero(on=P), callback=walk, tol=1e-6, max_iter=10)
        assert all(P.contains(x, 1e-12) for x in walk)


@settings(max_examples=12)
@given(
    seed=seeds, weight=st.sampled_from([1e-6, 0.1, 10.0]), size=st.sampled_from([1e-3, 1.0, 1e3])
)
def test_a_projection_in_disguise_has_a_closed_form(seed: int, weight: float, size: float) -> None:
    """|x - y|^2/2 + w |x|^2 over P is least at P(y / (1 + 2w))."""
    y = np.random.default_rng(seed).standard_normal(9)
    for P in (
        cg.sets.L1Ball(size),
        cg.sets.Simplex(9, size),
        cg.sets.SolidSimplex(size),
        cg.sets.Box(-size, 0.5 * size),
    ):
        result = newton(
            cg.smooth.LeastSquares(np.eye(9), y), cg.simple.Ridge(weight, on=P), tol=1e-12
        )
        assert result.status is cg.Status.CONVERGED
        np.testing.assert_allclose(
            result.x, P.project(y / (1.0 + 2.0 * weight)), atol=2e-6 * max(1.0, size)
        )


@settings(max_examples=20)
@given(
    seed=seeds,
    loss=st.sampled_from(sorted(SMOOTH)),
    ridge=st.sampled_from([0.0, 1e-4, 1.0]),
    decade=st.floats(-2.0, 1.5),
    wide=st.booleans(),
    intercept=st.booleans(),
)
def test_the_l1_ball_is_a_solid_simplex_of_twice_as_many_features(
    seed: int, loss: str, ridge: float, decade: float, wide: bool, intercept: bool
) -> None:
    """With features [K, -K] and x = u - v both have the same least value.

    Where u and v overlap, what they have in common can be taken off both: Kx stays, the sum and the ridge fall.
    """
    rng = np.random.default_rng(seed)
    m, n = (8, 60) if wide else (40, 10)
    K, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    y[:2] = 1.0, -1.0
    ball, simplex = cg.sets.L1Ball(10.0**decade), cg.sets.SolidSimplex(10.0**decade)
    f, twice = (smooth(loss, A, y, intercept=intercept) for A in (K, np.hstack([K, -K])))
    on_ball, on_simplex = (
        newton(f, quadratic(ridge, ball)),
        newton(twice, quadratic(ridge, simplex)),
    )
    assert_solved(on_simplex, quadratic(ridge, simplex))
    assert_same_answer(on_ball, on_simplex, slack=1e-12 * max(1.0, on_ball.value))


@EVERY_LOSS
def test_where_F_rises_along_every_feature_the_origin_is_the_answer(loss: str) -> None:
    K = np.abs(data(26)[0])
    f = smooth(loss, K, -np.ones(len(K)))
    result = newton(f, cg.simple.Zero(on=cg.sets.SolidSimplex(1.0)))
    assert (result.status, result.iterations) == (cg.Status.CONVERGED, 0)
    assert result.gap <= 1e-13 * result.value
    assert not result.x.any()


@EVERY_LOSS
@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_an_idle_set_is_none(loss: str, ridge: float) -> None:
    """Far from the boundary x solves grad F = 0."""
    A, y, _ = data(17)
    f, g = smooth(loss, A, y), cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1e8))
    result = newton(f, g, tol=1e-12)
    assert_solved(result, g)
    _, slope = f.value_and_gradient(result.x)
    assert np.abs(slope + 2.0 * ridge * result.x).max() <= 1e-4


@EVERY_LOSS
@EVERY_SET
def test_one_sample(loss: str, on: str) -> None:
    f, g = smooth(loss, data(20)[0][:1], np.array([1.0])), quadratic(1e-6, SETS[on][0])
    assert_solved(newton(f, g), g)


@EVERY_LOSS
@pytest.mark.parametrize(
    "P",
    [
        cg.sets.L1Ball(0.0),
        cg.sets.Box(0.3, 0.3),
        cg.sets.Simplex(N, mass=0.0),
        cg.sets.SolidSimplex(0.0),
    ],
)
def test_a_set_of_one_point(loss: str, P: Any) -> None:
    A, y, _ = data(18)
    result = newton(smooth(loss, A, y), cg.simple.Ridge(1e-3, on=P))
    assert result.status is cg.Status.CONVERGED
    np.testing.assert_array_equal(result.x, P.project(np.zeros(N)))


SHAPES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "all zeros": lambda A, y: (0.0 * A, y),
    "constant features": lambda A, y: (np.hstack([A, np.ones((len(A), 3))]), y),
    "duplicated features": lambda A, y: (np.hstack([A, A, A]), y),
    "dead features": lambda A, y: (np.hstack([0.0 * A, A]), y),
    "separable": lambda A, _: (A, np.sign(A[:, 0] + 0.3 * A[:, 1])),
    "met margins": lambda A, y: (np.hstack([100.0 * np.sign(y)[:, None], A]), np.sign(y)),
    "two samples": lambda A, _: (A[:2], np.array([1.0, -1.0])),
    "one feature": lambda A, y: (A[:, :1], y),
    "repeated samples": lambda A, y: (np.vstack([A, A]), np.concatenate([y, -y])),
}


@EVERY_LOSS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ridge", [1e-1, 1e-6, 0.0])
def test_degenerate_data(loss: str, shape: str, ridge: float) -> None:
    A, y, _ = data(19, m=20)
    A, y = SHAPES[shape](A, y)
    n = A.shape[1]
    sets = (
        cg.sets.L1Ball(2.0),
        cg.sets.Simplex(n),
        cg.sets.SolidSimplex(2.0),
        cg.sets.Box(-0.2, 0.4),
    )
    for intercept, on in product((False, True), sets):
        f, g = smooth(loss, A, y, intercept=intercept), quadratic(ridge, on)
        result = newton(f, g)
        assert_solved(result, g)
        assert_same_answer(
            result,
            cg.minimize(f, g, method="spg", max_iter=60),
            slack=1e-12 * max(1.0, result.value),
        )


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_over_six_decades(loss: str, on: str, intercept: bool) -> None:
    """Weights and ridge scaled together scale F."""
    A, y, _ = data(21)
    weights = 10.0 ** np.linspace(-3.0, 3.0, len(y))
    f = smooth(loss, A, y, sample_weight=weights, intercept=intercept)
    scaled = smooth(loss, A, y, sample_weight=8.0 * weights, intercept=intercept)
    for ridge in (1e-6, 1.0):
        g = cg.simple.Ridge(ridge, on=SETS[on][0])
        result, again = newton(f, g), newton(scaled, cg.simple.Ridge(8.0 * ridge, on=g.on))
        assert_solved(result, g)
        assert math.isclose(again.value, 8.0 * result.value, rel_tol=1e-8, abs_tol=1e-7)


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("size", [1e-5, 1e5])
def test_units_do_not_matter(loss: str, on: str, size: float) -> None:
    A, y, _ = data(22)
    g = cg.simple.Ridge(1e-4 * size**2, on=SETS[on][0])
    assert_solved(newton(smooth(loss, size * A, y), g, max_iter=15), g)


@EVERY_LOSS
@EVERY_SET
def test_single_precision_data(loss: str, on: str) -> None:
    for ridge, intercept in product((5.0, 1e-6, 0.0), (False, True)):
        problem = with_judge(loss, on, ridge, intercept, False)
        A, y = problem.f.K.astype(np.float32), problem.f.h.y
        f = smooth(loss, A, y.astype(np.float32), intercept=intercept)
        result = newton(f, problem.g, tol=1e-5)
        assert (result.status, result.x.dtype) == (cg.Status.CONVERGED, np.float32)
        assert abs(result.value - problem.least) <= 1e-4 * problem.scale
        assert (result.trace["lower_bound"] <= problem.least + 1e-4 * problem.scale).all()


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("intercept", [False, True])
def test_torch_walks_as_numpy_does(torch: Any, loss: str, on: str, intercept: bool) -> None:
    for ridge in (5.0, 1e-6, 0.0):
        problem = with_judge(loss, on, ridge, intercept, False)
        A, y = torch.tensor(problem.f.K), torch.tensor(problem.f.h.y)
        result = newton(SMOOTH[loss][0](A, y, intercept=intercept), problem.g)
        numpy_result = newton(problem.f, problem.g)
        assert result.x.dtype == torch.float64
        steps, numpy_steps = (
            int(each.trace["inner_iterations"][-1]) for each in (result, numpy_result)
        )
        assert abs(steps - numpy_steps) <= 2  # models end where their gap is small enough
        assert abs(result.value - problem.least) <= 1e-7 * problem.scale
        np.testing.assert_allclose(result.x.numpy(), numpy_result.x, atol=1e-3)


@EVERY_LOSS
@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_data_is_the_same_problem(loss: str, intercept: bool) -> None:
    K = scipy.sparse.random(40, 300, density=0.03, random_state=1, format="csr")
    y = np.sign(K @ np.random.default_rng(23).standard_normal(300) + 1e-3)
    sets = (
        cg.sets.L1Ball(3.0),
        cg.sets.Simplex(300),
        cg.sets.SolidSimplex(3.0),
        cg.sets.Box(-0.1, 0.1),
    )
    for ridge, on in product((1e-1, 1e-5), sets):
        g = cg.simple.Ridge(ridge, on=on)
        full = newton(smooth(loss, K.toarray(), y, intercept=intercept), g)
        for form in (K, scipy.sparse.csc_array(K)):
            result = newton(smooth(loss, form, y, intercept=intercept), g)
            assert_solved(result, g)
            assert abs(result.value - full.value) <= 2e-9 * max(1.0, full.value)


@EVERY_LOSS
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_data_stays_sparse(loss: str, form: str) -> None:
    """The dense matrix would take 48 MB."""
    K = scipy.sparse.random(300, 20_000, density=1e-3, random_state=2, format=form)
    y = np.sign(K @ np.random.default_rng(24).standard_normal(20_000) + 1e-3)
    f, g = smooth(loss, K, y, intercept=True), cg.simple.Ridge(1e-2, on=cg.sets.L1Ball(5.0))
    tracemalloc.start()
    result = newton(f, g, tol=1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_solved(result, g)
    assert peak <= 12e6


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("ridge", [5.0, 1e-6, 0.0])
def test_from_the_solution_there_is_little_to_do(loss: str, on: str, ridge: float) -> None:
    problem = with_judge(loss, on, ridge, True, True)
    first = newton(problem.f, problem.g, tol=1e-10)
    again = newton(problem.f, problem.g, first.x, tol=1e-9)
    assert again.status is cg.Status.CONVERGED
    assert again.iterations <= 1


@EVERY_LOSS
@pytest.mark.parametrize("ridge", [1.0, 1e-4, 0.0])
@pytest.mark.parametrize("on", [cg.sets.L1Ball(1.0), cg.sets.SolidSimplex(1.0)])
def test_working_sets_give_the_answer_of_all_features(loss: str, ridge: float, on: Any) -> None:
    Z, y = microarray(4, m=40, n=5000)
    f, g = smooth(loss, Z, y, intercept=loss == "logistic"), quadratic(ridge, on)
    result = newton(f, g, tol=1e-8)
    assert_solved(result, g)
    assert_same_answer(result, cg.minimize(f, g, method="spg", tol=1e-8, max_iter=100))


@pytest.mark.parametrize("ridge", [1.0, 1e-2])
def test_a_box_of_numbers_has_working_sets_and_one_of_arrays_has_none(ridge: float) -> None:
    Z, y = microarray(6, m=40, n=1000)
    few, all_features = (
        newton(cg.smooth.Logistic(Z, y), cg.simple.Ridge(ridge, on=on))
        for on in (cg.sets.Box(-0.02, 0.02), cg.sets.Box(np.full(1000, -0.02), np.full(1000, 0.02)))
    )
    assert few.status is all_features.status is cg.Status.CONVERGED
    # the first of its sets does not hold what the whole does
    assert few.trace["value"][1] > all_features.trace["value"][1] + 1e-6
    assert_same_answer(few, all_features)


def test_limits_are_looked_at_between_looks_at_the_whole() -> None:
    Z, y = microarray(5, n=3000)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(4.0))
    stop = RelativeGap(1e-10)  # of which the method does not know: it ends each turn early
    whole = newton(f, g, stop=stop)
    assert whole.iterations >= 2
    one = newton(f, g, stop=stop, max_iter=1)
    assert (one.status, one.iterations) == (cg.Status.ITERATION_LIMIT, 1)
    np.testing.assert_array_equal(one.trace["value"], whole.trace["value"][:2])
    none = newton(f, g, max_iter=0)
    assert (none.status, none.iterations, np.count_nonzero(none.x)) == (
        cg.Status.ITERATION_LIMIT,
        0,
        0,
    )
    assert newton(f, g, stop=stop, time_limit=0.0).status is cg.Status.TIME_LIMIT
    asked = newton(f, g, stop=stop, callback=lambda now: now.iteration == 1)
    assert (asked.status, asked.iterations) == (cg.Status.STOPPED_BY_CALLBACK, 1)
    assert one.lower_bound <= whole.value <= one.value


@EVERY_LOSS
@EVERY_SET
def test_a_tolerance_below_rounding_ends_stalled(loss: str, on: str) -> None:
    problem = with_judge(loss, on, 1e-6, True, True)
    result = newton(problem.f, problem.g, tol=0.0)
    assert result.status is cg.Status.STALLED
    assert 0.0 <= result.gap <= 1e-11 * problem.scale


@pytest.mark.parametrize("on", ["l1", "solid simplex"])
def test_auto_takes_it(on: str) -> None:
    problem = with_judge("logistic", on, 5.0, False, False)
    auto, asked = (
        cg.minimize(problem.f, problem.g, method=name, tol=1e-9) for name in ("auto", "newton")
    )
    np.testing.assert_array_equal(auto.trace["value"], asked.trace["value"])


def test_what_is_missing_is_said_in_a_sentence() -> None:
    A, y, _ = data(25)
    f, ball = cg.smooth.LeastSquares(A, y), cg.sets.L1Ball(1.0)
    ridge = cg.simple.Ridge(1.0, on=ball)
    for pair, sentence in (
        (
            (cg.smooth.Linear(np.ones(N)), ridge),
            r"Linear.* is not a loss h\(Kx\) on data",
        ),
        ((f + f, ridge), r"is not a multiple of one loss h\(Kx\)"),
        ((f, cg.simple.L1Norm(0.1, on=ball)), r"L1Norm.* is not quadratic: Ridge and Zero are"),
        (
            (f, cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0))),
            r"L2Ball.* has no faces: L1Ball, GroupBall, Simplex, SolidSimplex and Box do",
        ),
    ):
        with pytest.raises(
            cg.MissingAbility,
            match=rf"method='newton' does not solve.*{sentence}.*method='cgs' works",
        ):
            newton(*pair)
    for options in ({"step": "armijo"}, {"memory": 2}):
        with pytest.raises(ValueError, match="method='newton' chooses its own steps"):
            newton(f, ridge, **options)


@EVERY_LOSS
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("features", [12, 300])
def test_products_with_the_data(
    loss: str, intercept: bool, features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole K is multiplied at the start alone, but once more for an intercept; the value is that of the answer."""
    rng = np.random.default_rng(5)
    A, y = rng.standard_normal((40, features)), rng.standard_normal(40)
    f, g = smooth(loss, A, y, intercept=intercept), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(0.5))
    images = []
    of_data = f.image
    monkeypatch.setattr(f, "image", lambda x: images.append(x) or of_data(x))
    result = newton(f, g, tol=1e-8)
    assert_solved(result, g)
    pulled_in = result.trace["evaluations"][-1] - 1
    assert len(images) <= 1 + pulled_in + intercept
    x = result.x
    assert result.value == pytest.approx(
        smooth(loss, A, y, intercept=intercept).at(x).value + 0.1 * (x @ x), rel=1e-13
    )


def test_no_kind_of_input_is_compiled_for_again() -> None:
    """A compilation takes half a minute, which no time limit cuts short."""
    from condgrad.ball.compiled.along_path import predict_path
    from condgrad.ball.compiled.face_qp import minimise
    from condgrad.kernels.sparse_gram import weighted_gram

    entry_points = minimise, weighted_gram, predict_path
    K = np.asfortranarray(np.random.default_rng(0).standard_normal((30, 8)))
    y, ones = K[:, 0].copy(), np.ones(8)
    boxes = cg.sets.Box(-ones, ones), cg.sets.Box(-ones, 1.0), cg.sets.Box(-1.0, 1.0)
    counts = set()
    for on in (cg.sets.L1Ball(1.0), cg.sets.Simplex(8), cg.sets.SolidSimplex(1.0), *boxes):
        for A in (K, K.copy(), np.ascontiguousarray(K), K.astype(np.float32)):
            for may_write in (True, False):
                A.flags.writeable = may_write
                cg.minimize(
                    cg.smooth.LeastSquares(A, y),
                    cg.simple.Ridge(0.1, on=on),
                    method="newton",
                    tol=1e-3,
                )
                path(A, y, loss="least-squares", radii=[0.5, 50.0, 80.0])
                counts.add(tuple(len(each.signatures) for each in entry_points))
        thin = np.where(np.abs(K) > 1.2, K, 0.0)
        for S in (
            scipy.sparse.csr_array(thin),
            scipy.sparse.csc_array(thin),
            scipy.sparse.csc_matrix(thin.astype(np.float32)),
        ):
            for part in (S.data, S.indices, S.indptr):
                part.flags.writeable = False
            cg.minimize(
                cg.smooth.LeastSquares(S, y), cg.simple.Ridge(0.1, on=on), method="newton", tol=1e-3
            )
            counts.add(tuple(len(each.signatures) for each in entry_points))
    assert max(counts) == (1, 1, 1)
