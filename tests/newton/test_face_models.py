"""Models of F in working sets: least points inside the ball, and compiled work that a deadline or Ctrl-C ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import LinearSVC

import condgrad as cg
from condgrad import deadline
from condgrad.newton import face_models
from condgrad.newton.face_models import FaceModels, interruptible, weighted_gram

Array = np.ndarray


def wait_for(stop: Array) -> Callable[[], str]:
    """Work that goes on until it is stopped, as compiled code does."""

    def work() -> str:
        while not stop[0]:
            time.sleep(1e-3)
        return "stopped"

    return work


def test_the_deadline_ends_compiled_work() -> None:
    stop = np.zeros(1, np.bool_)
    with deadline.within(0.05):
        assert interruptible(wait_for(stop), stop) == "stopped"


def test_an_interrupt_ends_compiled_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = np.zeros(1, np.bool_)

    def interrupt() -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(deadline, "passed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        interruptible(wait_for(stop), stop)
    assert stop[0]


@pytest.mark.parametrize("error", [MemoryError("no room"), TypeError("no such type"), KeyboardInterrupt()])
def test_an_error_of_compiled_work_reaches_the_caller(error: BaseException) -> None:
    stop = np.zeros(1, np.bool_)

    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        interruptible(work, stop)
    assert caught.value is error


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(30, 500), (300, 500)])
def test_the_step_inside_solves_newtons_equations(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], intercept: bool, sparse: bool
) -> None:
    """In the samples, where these are few, or by conjugate gradients."""
    monkeypatch.setattr(face_models, "INSIDE_ACCURACY", 1e-10)
    rng = np.random.default_rng(1)
    dense = rng.standard_normal(shape) * (rng.random(shape) < 0.3)
    K: Any = scipy.sparse.csr_array(dense) if sparse else dense
    f = cg.smooth.Logistic(K, np.sign(rng.standard_normal(shape[0])), intercept=intercept)
    x, u, slope = np.zeros(500), rng.standard_normal(shape[0]), rng.standard_normal(500)
    models = FaceModels(f.h, K, cg.sets.L1Ball(1e6), 0.5)
    found = models.least_inside(x, u, 0.3, slope)
    assert found is not None
    w = f.h.curvature(u, intercept=0.3)
    W = np.diag(w) - (np.outer(w, w) / w.sum() if intercept else 0.0)
    np.testing.assert_allclose(found.x, np.linalg.solve(dense.T @ W @ dense + np.eye(500), -slope), atol=1e-7)
    assert found.constraint_is_slack
    outside = FaceModels(f.h, K, cg.sets.L1Ball(0.5 * np.abs(found.x).sum()), 0.5)
    assert outside.least_inside(x, u, 0.3, slope) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_a_slack_squared_hinge_agrees_with_scikit_learn(sparse: bool) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 900)) * (rng.random((60, 900)) < 0.2)
    y = np.sign(X[:, 0] + 0.1 * rng.standard_normal(60))
    f = cg.smooth.SquaredHinge(scipy.sparse.csc_array(X) if sparse else X, y)
    result = cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1e4)), method="newton", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    theirs = LinearSVC(C=1.0, fit_intercept=False, dual=True, tol=1e-10, max_iter=100_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(result.x, theirs.coef_.ravel(), atol=1e-4)
    assert result.trace["inner_iterations"][-1] <= 30


@pytest.mark.parametrize("intercept", [False, True])
def test_factors_step_in_where_conjugate_gradients_take_longer(
    monkeypatch: pytest.MonkeyPatch, intercept: bool
) -> None:
    """Of data whose singular values are from 1 to 1e-3, the squares of which are what conjugate gradients see."""
    monkeypatch.setattr(face_models, "PASSES", 0)
    rng = np.random.default_rng(5)
    m, k, radius = 300, 200, 100.0
    turned = np.linalg.qr(rng.standard_normal((m, k)))[0]
    dense = turned * np.logspace(0.0, -3.0, k) @ rng.standard_normal((k, k))
    K = scipy.sparse.csr_array(dense)
    f = cg.smooth.LeastSquares(K, rng.standard_normal(m), intercept=intercept)
    models = FaceModels(f.h, K, cg.sets.L1Ball(radius), 0.0)
    x = np.zeros(k)
    slope = f.at(x).gradient
    found = models.least(x, np.zeros(m), 0.0, slope, None)
    assert found is not None
    assert models._gram is not None
    centred = dense - dense.mean(axis=0) if intercept else dense
    least = cg.minimize(f, cg.simple.Zero(on=cg.sets.L1Ball(radius)), method="newton", tol=1e-8)
    fall = -(slope @ found.x) - 0.5 * float(np.sum((centred @ found.x) ** 2))
    assert fall >= 0.9 * (f.at(x).value - least.value)


def test_a_gram_matrix_of_many_rows_is_added_up_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    K, w = rng.standard_normal((50, 7)), rng.random(50)
    monkeypatch.setattr(face_models, "GRAM_OPERATIONS", 7 * 7 * 8)
    found: Any = weighted_gram(K, w)
    np.testing.assert_allclose(found, K.T @ (w[:, None] * K), atol=1e-12)
    with deadline.within(0.0):
        assert weighted_gram(K, w) is None


@pytest.mark.parametrize("change", [0.01, 0.5])
def test_a_gram_matrix_is_used_again_while_weights_hardly_change(change: float) -> None:
    rng = np.random.default_rng(4)
    f = cg.smooth.Logistic(rng.standard_normal((40, 6)), np.sign(rng.standard_normal(40)))
    models = FaceModels(f.h, f.K, cg.sets.L1Ball(1.0), 0.1)
    w = rng.uniform(0.1, 0.2, 40)
    first, second = (models._by_matrix(weights, 0.2).matrix for weights in (w, (1.0 + change) * w))  # type: ignore[union-attr]
    assert (first is second) == (change < face_models.WEIGHT_CHANGE)
    if first is not second:
        expected = f.K.T @ ((1.0 + change) * w[:, None] * f.K) + 0.2 * np.eye(6)
        np.testing.assert_allclose(second, expected, atol=1e-10)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("radius", [2.0, 1e3])
def test_a_large_sparse_model_is_solved_by_products(
    monkeypatch: pytest.MonkeyPatch, radius: float, intercept: bool
) -> None:
    """To the least point that the matrix of the same model leads to, and without that matrix."""
    monkeypatch.setattr(face_models, "ACCURACY_BY_PRODUCTS", 1e-13)
    rng = np.random.default_rng(6)
    shape = 60, 40
    K = scipy.sparse.csr_array(rng.standard_normal(shape) * (rng.random(shape) < 0.2))
    f = cg.smooth.Logistic(K, np.sign(rng.standard_normal(60)), intercept=intercept)
    point = np.zeros(40), rng.standard_normal(60), 0.3, rng.standard_normal(40), None
    found = []
    for passes in (np.inf, 0.0):
        monkeypatch.setattr(face_models, "PASSES", passes)
        models = FaceModels(f.h, K, cg.sets.L1Ball(radius), 0.05)
        found.append(models.least(*point))
        assert (models._gram is None) == (passes == 0.0)
    by_matrix, by_products = found
    assert by_matrix is not None
    assert by_products is not None
    np.testing.assert_allclose(by_products.x, by_matrix.x, atol=1e-6)
    assert by_products.multiplier == pytest.approx(by_matrix.multiplier, abs=1e-6)
    assert by_products.constraint_is_slack == by_matrix.constraint_is_slack == (radius == 1e3)
