"""A penalty in the place of a ball: against CVXPY, closed forms, the ball itself and other methods.

Some random problems at each run; all 300 of each loss by

    CONDGRAD_PROBLEMS=300 pytest tests/ball/test_penalised.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad import NotFiniteError
from tests.ball.penalised_problems import LOSSES, PenalisedProblem
from tests.methods import data, microarray

Array = np.ndarray
PROBLEMS = int(os.environ.get("CONDGRAD_PROBLEMS", "16"))
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
seeds = st.integers(0, 2**32 - 1)


def newton(f: Any, g: Any, x0: Any = None, *, tol: float = 1e-9, **options: Any) -> cg.Result:
    return cg.minimize(f, g, x0, method="newton", tol=tol, **options)


@EVERY_LOSS
@pytest.mark.parametrize("number", range(PROBLEMS))
def test_the_certificate_brackets_what_cvxpy_finds(loss: str, number: int) -> None:
    """In all units, for weights, sparse data, twins, constants and separable classes; by the engine."""
    problem = PenalisedProblem(loss, number)
    result = newton(problem.f, problem.g, tol=1e-7)
    assert result.status is cg.Status.CONVERGED, result.message
    problem.assert_proved(result)


@EVERY_LOSS
@pytest.mark.parametrize("number", range(PROBLEMS // 2))
@pytest.mark.filterwarnings("ignore:unpenalised columns that are combinations")
def test_columns_without_a_penalty(loss: str, number: int) -> None:
    """As above; where the columns separate classes, a linear program of the judge says so too."""
    problem = PenalisedProblem(loss, number, has_columns=True)
    if problem.is_separated:
        with pytest.raises(ValueError, match="separates"):
            _ = problem.f
        return
    result = newton(problem.f, problem.g, tol=1e-7)
    assert result.status is cg.Status.CONVERGED, result.message
    problem.assert_proved(result)


@EVERY_LOSS
@pytest.mark.parametrize("number", range(6))
def test_other_methods_prove_the_same(loss: str, number: int) -> None:
    """Proximal gradients and CGS have no compiled code, and bounds that hold all the same."""
    problem = PenalisedProblem(loss, 1000 + number)
    for method in ("spg", "cgs"):
        problem.assert_proved(
            cg.minimize(problem.f, problem.g, method=method, tol=1e-6, max_iter=100)
        )


@settings(max_examples=30)
@given(
    number=st.integers(0, 19),
    seed=seeds,
    decade=st.floats(-3.0, 2.0),
    loss=st.sampled_from(sorted(LOSSES)),
)
def test_the_bound_holds_from_every_point(number: int, seed: int, decade: float, loss: str) -> None:
    """Not only near solutions: the ball of all solutions and the scaled dual point are proofs anywhere."""
    problem = PenalisedProblem(loss, number)
    f, g = problem.f, problem.g
    rng = np.random.default_rng(seed)
    x = 10.0**decade / problem.facts["unit"] * rng.standard_normal(f.space.shape[0])
    x = g.on.project(x * (rng.random(x.shape) < 0.5))
    with np.errstate(over="ignore"):  # exp of far scores
        here = f.at(x)
        assume(np.isfinite(here.value))
    answer = g.beside(f, here, here.value + g.value(x)).argmin(here.gradient)
    least, off = problem.judged
    rounding = 1e-12 * (here.value + g.value(x))
    assert here.offset + answer.bound <= least + off + rounding


@EVERY_LOSS
@settings(max_examples=10)
@given(
    seed=seeds,
    ridge=st.sampled_from([0.0, 1e-3, 1.0]),
    intercept=st.booleans(),
    positive=st.booleans(),
)
def test_a_ball_of_the_norm_of_its_solution_has_the_same_solution(
    loss: str, seed: int, ridge: float, intercept: bool, positive: bool
) -> None:
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((20, 30))
    y = LOSSES[loss].targets(rng, K[:, 0] + 0.3 * rng.standard_normal(20))
    f = LOSSES[loss].make(K, y, intercept=intercept)
    l1 = 0.1 * float(np.abs(f.at(np.zeros(30)).gradient).max())
    penalised = newton(f, cg.simple.ElasticNet(l1, ridge, positive=positive))
    radius = float(np.abs(penalised.x).sum())
    on = cg.sets.SolidSimplex(radius) if positive else cg.sets.L1Ball(radius)
    bounded = newton(f, cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on))
    scale = 1e-8 * penalised.value
    assert abs(bounded.value + l1 * radius - penalised.value) <= scale


@EVERY_LOSS
def test_a_large_penalty_leaves_nothing(loss: str) -> None:
    """From max |grad f(0)| on, x = 0 is the answer, and the first look proves it."""
    K, y, _ = data(3)
    f = LOSSES[loss].make(K, LOSSES[loss].targets(np.random.default_rng(3), y), intercept=True)
    l1 = float(np.abs(f.at(np.zeros(12)).gradient).max())
    result = newton(f, cg.simple.ElasticNet(1.000001 * l1))
    assert (result.status, result.iterations) == (cg.Status.CONVERGED, 0)
    assert not result.x.any()
    assert newton(f, cg.simple.ElasticNet(0.99 * l1)).x.any()


def test_orthogonal_columns_are_soft_thresholded() -> None:
    y = np.array([3.0, -2.0, 0.5, 0.0])
    for l1, ridge in ((1.0, 0.0), (1.0, 0.5), (0.0, 0.5)):
        result = newton(
            cg.smooth.LeastSquares(np.eye(4), y), cg.simple.ElasticNet(l1, ridge), tol=1e-12
        )
        expected = np.sign(y) * np.maximum(0.0, np.abs(y) - l1) / (1.0 + 2.0 * ridge)
        np.testing.assert_allclose(result.x, expected, atol=1e-9)


@EVERY_LOSS
def test_many_features_few_samples_dense_and_sparse(loss: str) -> None:
    Z, labels = microarray(8, m=40, n=2000)
    y = LOSSES[loss].targets(np.random.default_rng(8), 0.5 * labels)
    thin = np.where(np.abs(Z) > 1.5, Z, 0.0)
    for ridge in (0.0, 1e-2, 1.0):
        for K in (Z, thin):
            f = LOSSES[loss].make(K, y, intercept=True)
            l1 = 0.2 * float(np.abs(f.at(np.zeros(2000)).gradient).max())
            g = cg.simple.ElasticNet(l1, ridge)
            result = newton(f, g, tol=1e-8)
            assert result.status is cg.Status.CONVERGED
            sparse = newton(
                LOSSES[loss].make(scipy.sparse.csr_array(K), y, intercept=True), g, tol=1e-8
            )
            assert abs(sparse.value - result.value) <= 2e-8 * result.value


@EVERY_LOSS
def test_a_ridge_alone_has_no_zeros(loss: str) -> None:
    """grad F = 0, for more features than samples too, where equations in the samples solve it."""
    for m, n in ((60, 10), (20, 400)):
        K = np.random.default_rng(4).standard_normal((m, n))
        y = LOSSES[loss].targets(np.random.default_rng(5), K[:, 0])
        for form in (K, scipy.sparse.csr_array(np.where(np.abs(K) > 1.0, K, 0.0))):
            f = LOSSES[loss].make(form, y, intercept=True)
            result = newton(f, cg.simple.ElasticNet(0.0, 0.3), tol=1e-12)
            slope = f.at(result.x).gradient + 0.6 * result.x
            assert np.abs(slope).max() <= 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precisions(dtype: str) -> None:
    problem = PenalisedProblem("logistic", 2)
    X, y, weights = problem.data
    l1, ridge = problem.penalties
    f = cg.smooth.Logistic(X.astype(dtype), y, sample_weight=weights)
    result = newton(f, cg.simple.ElasticNet(l1, ridge), tol=1e-4)
    assert (result.status, str(result.x.dtype)) == (cg.Status.CONVERGED, dtype)


@pytest.mark.torch
@EVERY_LOSS
def test_torch_is_numpy(torch: Any, loss: str) -> None:
    problem = PenalisedProblem(loss, 3)
    X, y, _ = problem.data
    for method in ("newton", "spg"):
        options: dict[str, Any] = {"method": method, "tol": 1e-8}
        tensors = LOSSES[loss].make(torch.tensor(X), torch.tensor(y))
        g = cg.simple.ElasticNet(*problem.penalties)
        there = cg.minimize(tensors, g, **options)
        here = cg.minimize(LOSSES[loss].make(X, y), g, **options)
        assert abs(there.value - here.value) <= 2e-8 * max(here.value, 1e-300)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_several_classes(ridge: float) -> None:
    rng = np.random.default_rng(6)
    Z, y = rng.standard_normal((30, 8)), rng.integers(0, 3, 30)
    f = cg.smooth.Multinomial(Z, y)
    result = newton(f, cg.simple.ElasticNet(1.5, ridge), tol=1e-8)
    X = cp.Variable((8, 3))
    scores = Z @ X
    loss = cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(np.eye(3)[y], scores))
    goal = loss + 1.5 * cp.sum(cp.abs(X)) + ridge * cp.sum_squares(X)
    least = cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL")
    assert result.status is cg.Status.CONVERGED
    assert result.lower_bound <= least + 1e-6 * least
    assert abs(result.value - least) <= 1e-6 * least


def test_a_linear_term_may_pull_less_than_the_penalty() -> None:
    K, y, _ = data(7)
    tilt = np.linspace(-0.5, 0.5, 12)
    f = cg.smooth.LeastSquares(K, y) + cg.smooth.Linear(tilt)
    x = cp.Variable(12)
    for l1, ridge in ((0.8, 0.0), (0.3, 0.2)):
        goal = (
            0.5 * cp.sum_squares(K @ x - y)
            + tilt @ x
            + l1 * cp.norm1(x)
            + ridge * cp.sum_squares(x)
        )
        least = cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL")
        result = newton(f, cg.simple.ElasticNet(l1, ridge))
        assert result.lower_bound <= least + 1e-7
        assert abs(result.value - least) <= 1e-7
    with pytest.raises(
        cg.MissingAbility, match=r"needs a ridge > 0: .* has a Linear term that is as steep as l1"
    ):
        newton(f, cg.simple.ElasticNet(0.5))


def test_a_start_may_be_anywhere() -> None:
    problem = PenalisedProblem("squares", 5)
    wild = np.full(problem.f.space.shape, 1e3 / problem.facts["unit"])
    for method in ("newton", "spg"):
        problem.assert_proved(cg.minimize(problem.f, problem.g, wild, method=method, tol=1e-7))


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    problem = PenalisedProblem("squares", 4)
    options: dict[str, Any] = {"method": "spg", "checkpoint": tmp_path / "run.npz"}
    first = cg.minimize(problem.f, problem.g, tol=0.0, max_iter=3, **options)
    again = cg.minimize(problem.f, problem.g, tol=1e-7, **options)
    assert (first.iterations, again.status) == (3, cg.Status.CONVERGED)
    assert again.iterations > 3
    problem.assert_proved(again)
    with pytest.raises(ValueError, match="another problem"):
        cg.minimize(problem.f, cg.simple.ElasticNet(2.0 * problem.g.l1, problem.g.ridge), **options)


def test_bad_input_gets_a_sentence() -> None:
    K, y, _ = data(9)
    with pytest.raises(NotFiniteError, match="at iteration 0: F became inf"):
        newton(
            cg.smooth.Poisson(K, np.abs(y), offset=np.full(len(y), 1e3)), cg.simple.ElasticNet(1.0)
        )
    with pytest.raises(ValueError, match="l1 or ridge must be > 0, got 0 for both"):
        cg.simple.ElasticNet(0.0)
    with pytest.raises(ValueError, match="l1 must be"):
        cg.simple.ElasticNet(-1.0)
    with pytest.raises(ValueError, match="ridge must be"):
        cg.simple.ElasticNet(1.0, -1.0)
    f, g = cg.smooth.LeastSquares(K, y), cg.simple.ElasticNet(1.0)
    own = cg.smooth.Function(lambda x: (float(x @ x), 2.0 * x))
    with pytest.raises(
        cg.MissingAbility, match=r"needs a ridge > 0: .* is not known to be bounded below"
    ):
        cg.minimize(own, g, np.zeros(12))
    assert cg.minimize(own, cg.simple.ElasticNet(1.0, 0.1), np.ones(12), method="auto").success
    with pytest.raises(ValueError, match="x0 must lie in"):
        cg.minimize(f, cg.simple.ElasticNet(1.0, positive=True), -np.ones(12))
    for method, sentence in (
        ("cg", "method='cg' linearises g, and ElasticNet.* has no gradient"),
        ("pqn", "method='pqn' needs a g with a finite gradient"),
        ("away", "Zero"),
        ("pairwise", "Zero"),
    ):
        with pytest.raises(cg.MissingAbility, match=sentence):
            cg.minimize(f, g, method=method)
