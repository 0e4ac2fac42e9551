"""PQN against CVXPY and closed forms; its matrix against dense BFGS; how few iterations it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.loop import run
from condgrad.methods import PQN
from condgrad.methods.pqn import Change, QuasiHessian
from condgrad.steps import Armijo
from condgrad.stopping import FixedPoint, RelativeGap
from tests.methods import PROBLEMS, assert_lawful, judged, microarray

Array = np.ndarray


@pytest.mark.parametrize(("smooth", "on", "ridge"), PROBLEMS)
def test_it_agrees_with_clarabel_and_proves_it(smooth: str, on: str, ridge: float) -> None:
    problem = judged(smooth, on, ridge)
    result = cg.minimize(problem.f, problem.g, method="pqn", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    assert_lawful(result, problem)


def dense_bfgs(changes: list[Change], sigma: float) -> Array:
    """The same matrix by one rank-two update after the other."""
    B = sigma * np.eye(changes[0].s.size)
    for s, y in changes:
        Bs = B @ s
        B = B - np.outer(Bs, Bs) / (s @ Bs) + np.outer(y, y) / (s @ y)
    return B


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 8),
    count=st.integers(1, 6),
    scale=st.floats(1e-6, 1e6),
)
def test_the_compact_matrix_is_that_of_bfgs(seed: int, n: int, count: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    H = scale * (root @ root.T + np.eye(n))
    changes = []
    for s in rng.standard_normal((count, n)):
        y = H @ s
        changes.append(Change(s * (s @ y) ** -0.5, y * (s @ y) ** -0.5))
    compact, latest = QuasiHessian(changes), changes[-1]
    B = np.column_stack([compact @ e for e in np.eye(n)])
    np.testing.assert_allclose(
        B, dense_bfgs(changes, compact.sigma), rtol=1e-6, atol=1e-6 * np.abs(B).max()
    )
    np.testing.assert_allclose(B @ latest.s, latest.y, atol=1e-6 * np.abs(latest.y).max())


class Still:
    """A point of a function, as far as a change sees it."""

    def __init__(self, x: Array, gradient: Array) -> None:
        self.x, self.gradient = x, gradient


@given(
    s=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3).map(np.array),
    y=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3).map(np.array),
)
def test_only_changes_of_clear_curvature_are_kept(s: Array, y: Array) -> None:
    base = np.ones(3)
    change: Any = Change.between(Still(base, base), Still(base + s, base + y))  # type: ignore[arg-type]
    s, y = (base + s) - base, (base + y) - base
    if change is None:
        assert s @ y <= 1e-13 * np.linalg.norm(s) * max(np.linalg.norm(y), np.linalg.norm(base + y))
    else:
        assert change.s @ change.y > 0.0


def test_inside_the_set_it_is_quasi_newton() -> None:
    """A quadratic whose optimum is free: a few n iterations, where SPG takes far more."""
    rng = np.random.default_rng(0)
    n = 15
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A, y = np.diag(np.logspace(0, 1, n)) @ Q, rng.standard_normal(n)
    f, g = cg.smooth.LeastSquares(A, y), cg.simple.Ridge(0.05, on=cg.sets.L2Ball(50.0))
    best = np.linalg.solve(A.T @ A + 0.1 * np.eye(n), A.T @ y)
    result = run(
        PQN(f, g, pairs=20),
        np.zeros(n),
        stop=FixedPoint(1e-8),
        max_iter=1000,
        null_size=0.0,
        callback=None,
    )
    slow = cg.minimize(f, g, method="spg", stop=FixedPoint(1e-8))
    assert result.status is slow.status is cg.Status.CONVERGED
    np.testing.assert_allclose(result.x, best, atol=1e-7)
    assert result.iterations <= 4 * n
    assert 2 * result.iterations < slow.iterations


@pytest.mark.parametrize("seed", range(3))
def test_on_microarrays_it_takes_fewer_iterations_than_spg(seed: int) -> None:
    Z, y = microarray(seed)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    quick, slow = (cg.minimize(f, g, method=m, stop=FixedPoint(1e-7)) for m in ("pqn", "spg"))
    assert quick.status is slow.status is cg.Status.CONVERGED
    assert quick.iterations < slow.iterations
    assert quick.lower_bound <= slow.value
    assert slow.lower_bound <= quick.value


def test_f_never_rises_and_the_inner_work_is_counted() -> None:
    Z, y = microarray(4)
    f, g = cg.smooth.Logistic(30.0 * Z, y), cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(5.0))
    result = cg.minimize(f, g, method="pqn", tol=1e-8)
    values, inner = result.trace["value"], result.trace["inner_iterations"]
    assert result.status is cg.Status.CONVERGED
    assert (np.diff(values) <= 1e-13 * values[:-1]).all()
    assert inner[0] == 0
    assert (np.diff(inner) >= 1).all()
    assert (np.diff(inner) <= 101).all()
    assert inner[-1] > result.iterations


def test_the_names_of_minimize_are_this_rule() -> None:
    problem = judged("logistic", "l1", 0.5)
    for step, method in (
        ("exact", PQN(problem.f, problem.g)),
        ("armijo", PQN(problem.f, problem.g)),
        (Armijo(shrink=0.1), PQN(problem.f, problem.g, armijo=Armijo(shrink=0.1))),
    ):
        asked = cg.minimize(problem.f, problem.g, method="pqn", step=step, tol=1e-8)
        stop = RelativeGap(1e-8)
        direct = run(method, np.zeros(12), stop=stop, max_iter=100, null_size=0.0, callback=None)
        np.testing.assert_array_equal(asked.trace["value"], direct.trace["value"])


@pytest.mark.parametrize(
    "options", [{"pairs": 0}, {"inner_iterations": 0}, {"inner_tolerance": -1.0}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    problem = judged("squares", "l1", 0.5)
    (name, value), *_ = options.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*>=.*, got {value}"):
        PQN(problem.f, problem.g, **options)
