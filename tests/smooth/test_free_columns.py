"""Columns minimised out of a loss: against SciPy's minimum, finite differences and closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.smooth.free_columns import endless_direction
from condgrad.smooth.intercept import weighted_basis
from tests.ball.penalised_problems import LOSSES

Array = np.ndarray
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)


def problem(loss: str, seed: int, **options: Any) -> tuple[Any, Array, Array, Array]:
    """A loss with two columns, what it is without them, and the columns."""
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((25, 4))
    U = rng.standard_normal((25, 2)) * [1e3, 1e-3] + [5e3, 0.0]
    y = LOSSES[loss].targets(rng, K[:, 0] + U[:, 0] / 1e4 + rng.standard_normal(25))
    weights = rng.uniform(0.2, 2.0, 25)
    make = LOSSES[loss].make
    f = make(K, y, sample_weight=weights, unpenalised=U, **options)
    whole = make(np.hstack([K, U]), y, sample_weight=weights, **options)
    return f, whole, U, rng.standard_normal(4)


@EVERY_LOSS
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_least_value_over_the_columns(loss: str, intercept: bool, seed: int) -> None:
    offset = np.random.default_rng(seed).standard_normal(25) if seed else None
    f, whole, _, x = problem(loss, seed, intercept=intercept, offset=offset)
    here = f.at(x)
    c = f.unpenalised_at(x)
    there = whole.at(np.concatenate([x, c]))
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert f.intercept_at(x) == pytest.approx(there.intercept, rel=1e-6, abs=1e-9)

    def beside(d: Array) -> float:
        return float(whole.at(np.concatenate([x, c + d / [1e3, 1e-3]])).value)

    found = scipy.optimize.minimize(beside, np.full(2, 0.1), method="Nelder-Mead")
    assert here.value <= found.fun * (1.0 + 1e-12)
    assert here.value == pytest.approx(found.fun, rel=1e-5)


@EVERY_LOSS
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), intercept=st.booleans())
def test_the_gradient_is_a_point_of_the_dual(loss: str, seed: int, intercept: bool) -> None:
    """U'theta = 0, sum theta = 0, and what f falls by along a line is its slope."""
    f, _, U, x = problem(loss, seed, intercept=intercept)
    here = f.at(x)
    theta = here.theta
    assert np.abs(U.T @ theta).max(initial=0.0) <= 1e-11 * float(
        (np.abs(U).T @ np.abs(theta)).max()
    )
    assert not intercept or abs(theta.sum()) <= 1e-11 * np.abs(theta).sum()
    d = np.random.default_rng(seed).standard_normal(4)
    step = 1e-5
    change = (f.at(x + step * d).value - f.at(x - step * d).value) / (2.0 * step)
    assert change == pytest.approx(float(here.gradient @ d), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("loss", ["squares", "logistic", "poisson", "gamma"])
def test_the_hessian(loss: str) -> None:
    f, _, _, x = problem(loss, 5, intercept=True)
    d = np.eye(4)
    here = f.at(x)
    found = f.h.hessian_gram(here.z, (f.K @ d).T, intercept=here.at_best.intercept)
    slopes = [(f.at(x + 1e-5 * e).gradient - f.at(x - 1e-5 * e).gradient) / 2e-5 for e in d]
    np.testing.assert_allclose(found, np.stack(slopes), rtol=1e-4, atol=1e-4)


@EVERY_LOSS
@pytest.mark.parametrize("method", ["spg", "cgs", "pqn", "auto"])
def test_every_method_takes_them(loss: str, method: str, tmp_path: Path) -> None:
    f, _, _, _ = problem(loss, 7, intercept=True)
    g = cg.simple.Ridge(0.5, on=cg.sets.L1Ball(0.5))
    run = cg.minimize(f, g, method=method, tol=1e-7, checkpoint=tmp_path / "run.npz")
    best = cg.minimize(f, g, method="newton", tol=1e-10)
    assert run.relative_gap <= 1e-4
    assert run.lower_bound <= best.value * (1.0 + 1e-12)
    assert best.lower_bound <= run.value * (1.0 + 1e-12)


def test_a_tilt_and_a_multiple() -> None:
    """2 f + <c, x> goes by the same engine."""
    f, _, _, _ = problem("logistic", 3, intercept=True)
    c = np.array([0.1, -0.2, 0.0, 0.3])
    g = cg.simple.Zero(on=cg.sets.L1Ball(0.5))
    found = cg.minimize(2.0 * f + cg.smooth.Linear(c), g, method="newton", tol=1e-9)
    judge = cg.minimize(2.0 * f + cg.smooth.Linear(c), g, method="cgs", memory=5, tol=1e-7)
    assert found.status is cg.Status.CONVERGED
    assert judge.lower_bound <= found.value <= judge.value + 1e-9


def test_huge_offsets() -> None:
    """Where scores leave the floats at first, a column brings them back."""
    rng = np.random.default_rng(0)
    K, ones = rng.standard_normal((20, 3)), np.ones((20, 1))
    counts = rng.poisson(2.0, 20).astype(float)
    for shift in (-2000.0, 2000.0):
        f = cg.smooth.Poisson(K, counts, offset=np.full(20, shift), unpenalised=ones)
        plain = cg.smooth.Poisson(K, counts, intercept=True)
        x = np.array([0.1, 0.2, -0.3])
        assert f.at(x).value == pytest.approx(plain.at(x).value, rel=1e-9)
        assert f.unpenalised_at(x)[0] + shift == pytest.approx(plain.intercept_at(x), abs=1e-6)


def test_steps_that_leave_the_floats_are_shortened() -> None:
    """Without a bound on x, the first oracle point of a small penalty is far beyond exp(700)."""
    rng = np.random.default_rng(0)
    K, U = rng.standard_normal((8, 1)), 1e4 * rng.standard_normal((8, 1))
    y = rng.uniform(0.1, 0.8, 8)
    g = cg.simple.ElasticNet(3e-4, 3e-7)
    run, judge = (
        cg.minimize(cg.smooth.Gamma(K, y, unpenalised=U), g, method=method, tol=1e-9)
        for method in ("cgs", "spg")
    )
    assert run.success
    assert run.lower_bound <= judge.value
    assert judge.lower_bound <= run.value


@pytest.mark.parametrize("loss", ["Poisson", "Gamma"])
def test_samples_without_weight_are_not_there(loss: str) -> None:
    """Not even where their scores leave the floats."""
    x, y, weights = np.array([1.0]), np.array([1.0, 2.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    K = np.array([[0.5], [0.2], [1e3], [-1e3]])
    make = getattr(cg.smooth, loss)
    there, gone = make(K, y, sample_weight=weights), make(K[:2], y[:2])
    assert there.at(x).value == gone.at(x).value
    np.testing.assert_array_equal(there.at(x).gradient, gone.at(x).gradient)
    assert np.isfinite(there.h.curvature(K[:, 0])).all()


def test_directions_without_end() -> None:
    C = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    up = np.array([False, False, True, True])
    found = endless_direction(C, up, ~up)
    assert found is not None
    assert ((C @ found > 0.0) == up).all()
    mixed = np.array([True, False, True, False])
    assert endless_direction(C, mixed, ~mixed) is None
    never = np.zeros(4, bool)
    only_first = np.array([True, False, False, False])
    assert endless_direction(C, only_first, never) is None
    assert endless_direction(np.eye(4)[:, :1], only_first, never) is not None


def test_orthonormal_columns() -> None:
    rng = np.random.default_rng(1)
    C, w = rng.standard_normal((9, 3)), rng.uniform(0.1, 1.0, 9)
    A = weighted_basis(C, w)
    np.testing.assert_allclose(A.T @ (w[:, None] * A), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(A @ (A.T @ (w[:, None] * C)), C, atol=1e-12)
    w[2:] = 0.0
    assert weighted_basis(C, w).shape == (9, 2)
    assert weighted_basis(C, 0.0 * w).shape == weighted_basis(None, w).shape == (9, 0)


def test_bad_input_gets_a_sentence() -> None:
    K, y = np.eye(3), [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="unpenalised must have one row for each of the 3 samples"):
        cg.smooth.LeastSquares(K, y, unpenalised=np.ones((2, 1)))
    with pytest.raises(ValueError, match="unpenalised"):
        cg.smooth.LeastSquares(K, y, unpenalised=np.full((3, 1), np.nan))
    with pytest.warns(UserWarning, match="combinations of earlier ones and the intercept"):
        f = cg.smooth.LeastSquares(K, y, unpenalised=np.ones((3, 1)), intercept=True)
    assert f.unpenalised_at(np.zeros(3)).tolist() == [0.0]
    assert f.intercept_at(np.zeros(3)) == pytest.approx(2.0)


@pytest.mark.torch
def test_tensors_get_a_sentence() -> None:
    import torch

    with pytest.raises(cg.MissingAbility, match="unpenalised columns need NumPy or SciPy data"):
        cg.smooth.LeastSquares(torch.eye(3), torch.ones(3), unpenalised=torch.ones(3, 1))
