"""SPG against CVXPY, closed forms and CGS; the laws of its two searches; what it costs and what it refuses."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.loop import run
from condgrad.methods import CGS, SPG
from condgrad.steps import Armijo
from condgrad.stopping import FixedPoint, RelativeGap
from tests.methods import PROBLEMS, SEEDS, SETS, assert_lawful, data, judged, microarray

Array = np.ndarray
BOTH = pytest.mark.parametrize("method", ["spg", "pqn"])


def nothing(_: Array) -> float:
    """g = 0."""
    return 0.0


def limited(method: Any, x0: Array, stop: Any) -> cg.Result:
    return run(method, x0, stop=stop, max_iter=10_000, null_size=0.0, callback=None)


@pytest.mark.parametrize("step", ["exact", "armijo"])
@pytest.mark.parametrize(("smooth", "on", "ridge"), PROBLEMS)
def test_it_agrees_with_clarabel_and_proves_it(
    smooth: str, on: str, ridge: float, step: str
) -> None:
    problem = judged(smooth, on, ridge)
    result = cg.minimize(problem.f, problem.g, method="spg", step=step, tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    assert_lawful(result, problem)


@BOTH
@settings(max_examples=12)
@given(
    y=st.lists(st.floats(-10, 10), min_size=2, max_size=8).map(np.array),
    weight=st.floats(1e-3, 10.0),
    size=st.floats(1e-3, 20.0),
    ball=st.booleans(),
)
def test_a_projection_in_disguise_has_a_closed_form(
    method: str, y: Array, weight: float, size: float, ball: bool
) -> None:
    """|x - y|^2/2 + w |x|^2 over P is least at P(y / (1 + 2w))."""
    inner = y / (1.0 + 2.0 * weight)
    if ball:
        P, best = (
            cg.sets.L2Ball(size),
            inner * min(1.0, size / max(float(np.linalg.norm(inner)), 1e-300)),
        )
    else:
        P, best = cg.sets.Box(-0.5 * size, size), np.clip(inner, -0.5 * size, size)
    f, g = cg.smooth.LeastSquares(np.eye(len(y)), y), cg.simple.Ridge(weight, on=P)
    least = 0.5 * float(np.sum((best - y) ** 2)) + weight * float(best @ best)
    result = cg.minimize(f, g, method=method, tol=1e-12)
    rounding = 1e-14 * max(1.0, least)
    assert result.status is cg.Status.CONVERGED
    assert (result.trace["lower_bound"] <= least + rounding).all()
    assert (result.trace["value"] >= least - rounding).all()
    np.testing.assert_allclose(result.x, best, atol=1e-5)


@BOTH
def test_matrices_on_the_nuclear_ball(method: str) -> None:
    rng = np.random.default_rng(0)
    W, M = rng.uniform(0.5, 2.0, (6, 4)), rng.standard_normal((6, 4))
    X = cp.Variable((6, 4))
    fit = 0.5 * cp.sum(cp.multiply(W, cp.square(X - M))) + 0.3 * cp.sum_squares(X)
    least = cp.Problem(cp.Minimize(fit), [cp.normNuc(X) <= 1.5]).solve(solver="CLARABEL")
    f = cg.smooth.Function(lambda X: (0.5 * float(np.sum(W * (X - M) ** 2)), W * (X - M)))
    g = cg.simple.Ridge(0.3, on=cg.sets.NuclearBall(1.5))
    result = cg.minimize(f, g, np.zeros((6, 4)), method=method, tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    assert result.x.shape == (6, 4)
    assert abs(result.value - least) <= 1e-6
    assert (result.trace["lower_bound"] <= least + 1e-6).all()


@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("seed", range(4))
def test_f_stays_under_the_highest_of_its_window(seed: int, window: int) -> None:
    Z, y = microarray(seed)
    f, g = cg.smooth.Logistic(30.0 * Z, y), cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(5.0))
    values = limited(SPG(f, g, window=window), np.zeros(300), RelativeGap(1e-8)).trace["value"]
    highest = np.array([values[max(0, k - window) : k].max() for k in range(1, len(values))])
    assert len(values) > window
    assert (values[1:] <= highest + 1e-13 * np.abs(highest)).all()


def test_the_window_lets_f_rise_for_a_while() -> None:
    Z, y = microarray(0)
    f, g = cg.smooth.Logistic(30.0 * Z, y), cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(5.0))
    values = limited(SPG(f, g, window=10), np.zeros(300), RelativeGap(1e-8)).trace["value"]
    assert (np.diff(values) > 1e-6 * np.abs(values[1:])).any()


def test_the_names_of_minimize_are_these_rules() -> None:
    Z, y = microarray(1)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    for step, method in (
        ("exact", SPG(f, g)),
        ("armijo", SPG(f, g, window=1)),
        (Armijo(shrink=0.25), SPG(f, g, window=1, armijo=Armijo(shrink=0.25))),
    ):
        asked = cg.minimize(f, g, method="spg", step=step, tol=1e-8)
        direct = limited(method, np.zeros(300), RelativeGap(1e-8))
        np.testing.assert_array_equal(asked.trace["value"], direct.trace["value"])
    powers = np.log(asked.trace["step"][1:]) / np.log(0.25)
    np.testing.assert_allclose(powers, np.round(powers), atol=1e-12)
    assert powers.max() >= 1.0


@BOTH
def test_the_paper_s_stop_is_reached_long_before_cgs_reaches_it(method: str) -> None:
    Z, y = microarray(2)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    result = cg.minimize(f, g, method=method, step="armijo", stop=FixedPoint(1e-5))
    slow = limited(CGS(f, g, Armijo()), np.zeros(300), FixedPoint(1e-5))
    assert result.status is slow.status is cg.Status.CONVERGED
    assert 5 * result.iterations < slow.iterations
    gradient = -Z.T @ (y / (1.0 + np.exp(y * (Z @ result.x)))) + 0.2 * result.x
    assert np.abs(g.on.project(result.x - gradient) - result.x).max() <= 1.1e-5
    assert result.lower_bound <= slow.value
    assert slow.lower_bound <= result.value
    assert np.abs(result.x - slow.x).max() <= 1e-3


class Counted(cg.smooth.Logistic):
    """Counts K x and K' theta."""

    def __init__(self, Z: Array, y: Array) -> None:
        super().__init__(Z, y)
        self.points = self.gradients = 0

    def image(self, x: Array) -> Array:
        self.points += 1
        return super().image(x)

    def gradient_from(self, theta: Array) -> Array:
        self.gradients += 1
        return super().gradient_from(theta)


class CountedBall(cg.sets.L1Ball):
    """Counts projections."""

    def project(self, x: Array) -> Array:
        object.__setattr__(self, "projections", getattr(self, "projections", 0) + 1)
        return super().project(x)


def test_an_iteration_costs_two_products_and_two_projections() -> None:
    Z, y = microarray(3)
    f, ball = Counted(20.0 * Z, y), CountedBall(4.0)
    result = cg.minimize(f, cg.simple.Ridge(0.1, on=ball), method="spg", tol=1e-8)
    k = result.iterations
    assert (result.trace["step"][1:] < 1.0).any()
    assert f.gradients == k + 1
    assert result.certificate.terms.afresh  # so that F is not computed again for the answer
    assert f.points == k + 1
    assert ball.projections == 2 * k + 1  # type: ignore[attr-defined]


@BOTH
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_in_torch_out(torch: Any, method: str, dtype: str) -> None:
    problem, (A, y, _) = judged("squares", "l1", 0.5), data(SEEDS["squares", "l1"])
    kind = getattr(torch, dtype)
    f = cg.smooth.LeastSquares(torch.tensor(A, dtype=kind), torch.tensor(y, dtype=kind))
    tol = 1e-9 if dtype == "float64" else 1e-5
    result = cg.minimize(f, problem.g, method=method, tol=tol)
    assert result.status is cg.Status.CONVERGED
    assert result.x.dtype == kind
    assert abs(result.value - problem.least) <= 10.0 * tol * problem.scale
    assert (result.trace["lower_bound"] <= problem.least + tol * problem.scale).all()


@BOTH
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("on", ["l1", "l2", "box", "simplex"])
def test_units_do_not_matter(method: str, dtype: Any, size: float, on: str) -> None:
    """Data in other units, with the ridge scaled along, is the same problem."""
    A, _, labels = data(7)
    P, _ = SETS[on]
    f = cg.smooth.SquaredHinge((size * A).astype(dtype), labels.astype(dtype))
    result = cg.minimize(
        f, cg.simple.Ridge(size**2, on=P), method=method, tol=1e-9 if dtype is np.float64 else 3e-5
    )
    other = cg.minimize(f, cg.simple.Ridge(size**2, on=P), tol=1e-5, max_iter=5000)
    assert result.status is cg.Status.CONVERGED
    assert result.iterations <= 200
    assert result.lower_bound <= other.value
    assert other.lower_bound <= result.value


@BOTH
def test_a_linear_f_ends_at_a_vertex(method: str) -> None:
    f, g = cg.smooth.Linear([3.0, -1.0, 2.0]), cg.simple.Zero(on=cg.sets.Simplex(3))
    result = cg.minimize(f, g, method=method, tol=1e-12)
    assert result.status is cg.Status.CONVERGED
    np.testing.assert_array_equal(result.x, [0.0, 1.0, 0.0])


@BOTH
@pytest.mark.parametrize("radius", [0.0, 1e-12, 1e8])
def test_sets_of_any_size(method: str, radius: float) -> None:
    A, y, _ = data(8)
    f, g = cg.smooth.LeastSquares(A, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(radius))
    result = cg.minimize(f, g, method=method, tol=1e-10)
    assert result.status is cg.Status.CONVERGED
    assert np.abs(result.x).sum() <= radius * (1.0 + 1e-12)
    if radius == 1e8:
        free = np.linalg.solve(A.T @ A + 0.2 * np.eye(12), A.T @ y)
        np.testing.assert_allclose(result.x, free, atol=1e-5)


@BOTH
def test_a_tolerance_below_rounding_ends_stalled(method: str) -> None:
    problem = judged("logistic", "l1", 0.5)
    result = cg.minimize(problem.f, problem.g, method=method, tol=0.0)
    assert result.status is cg.Status.STALLED
    assert result.iterations < 1000
    assert 0.0 <= result.gap <= 1e-12 * problem.scale


@BOTH
def test_a_wrong_gradient_ends(method: str) -> None:
    """Where no step helps the method says so, however long it may look for one."""
    f = cg.smooth.Function(lambda x: (1.0 + float(x @ x) ** 0.5, -np.ones(3)))
    g = cg.simple.Oracle(
        nothing, lambda c: cg.Answer(0.0 * c, -1e9), on=cg.sets.L2Ball(1.0), gradient=np.zeros_like
    )
    result = cg.minimize(f, g, np.zeros(3), method=method)
    assert result.status is cg.Status.STALLED
    assert result.value == 1.0


@BOTH
def test_what_is_missing_is_said_in_a_sentence(method: str) -> None:
    A, y, _ = data(9)
    f, ball, simplex = cg.smooth.LeastSquares(A, y), cg.sets.L1Ball(1.0), cg.sets.Simplex(12)
    plan, name = cg.sets.Transport([0.5, 0.5], [0.5, 0.5]), f"method='{method}'"
    with pytest.raises(
        cg.MissingAbility, match=rf"{name} needs a g with a finite gradient.*L1Norm.*none"
    ):
        cg.minimize(f, cg.simple.L1Norm(0.1, on=ball), method=method)
    with pytest.raises(
        cg.MissingAbility, match=rf"{name} needs a g with a finite gradient.*Entropy.*an entry is 0"
    ):
        cg.minimize(f, cg.simple.Entropy(0.1, on=simplex), method=method)
    with pytest.raises(
        cg.MissingAbility, match=rf"{name} needs a set with project.*Transport.*has no project"
    ):
        cg.minimize(cg.smooth.Linear(np.eye(2)), cg.simple.Zero(on=plan), method=method)
    with pytest.raises(
        cg.MissingAbility, match=rf"{name} needs a g with a finite gradient.*Oracle.*none"
    ):
        cg.minimize(
            f,
            cg.simple.Oracle(nothing, lambda c: -np.sign(c), on=cg.sets.Box(-1, 1)),
            method=method,
        )


@BOTH
def test_steps_and_memory_are_those_of_the_method(method: str) -> None:
    problem = judged("squares", "l1", 0.5)
    for options in (
        {"step": "short"},
        {"step": "open-loop"},
        {"memory": 2},
        {"step": cg.steps.Exact(0.1)},
    ):
        with pytest.raises(ValueError, match=rf"method='{method}'.*step must be 'exact'.*memory"):
            cg.minimize(problem.f, problem.g, method=method, **options)


def test_a_window_is_a_whole_number() -> None:
    problem = judged("squares", "l1", 0.5)
    with pytest.raises(ValueError, match="window must be >= 1, got 0"):
        SPG(problem.f, problem.g, window=0)
