"""Models of F in working sets: least points inside the ball, and compiled work that a deadline or Ctrl-C ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import LinearSVC

import condgrad as cg
from condgrad import deadline
from condgrad.ball import OPTIONS, models
from condgrad.ball.inside import Inside
from condgrad.ball.models import (
    ByMatrix,
    ByProducts,
    BySamples,
    Model,
    curvature_of,
    gram_by_blocks,
    interruptible,
)

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


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), TypeError("no such type"), KeyboardInterrupt()]
)
def test_an_error_of_compiled_work_reaches_the_caller(error: BaseException) -> None:
    stop = np.zeros(1, np.bool_)

    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        interruptible(work, stop)
    assert caught.value is error


def free_of(centred: bool) -> Array | None:
    """The column of an intercept."""
    return np.ones((1, 1)) if centred else None


CURVATURES: dict[str, Callable[..., Any]] = {
    "matrix": lambda K, centred: ByMatrix(K, free=free_of(centred), is_constant=False),
    "sparse matrix": lambda K, centred: ByMatrix(
        scipy.sparse.csr_array(K), free=free_of(centred), is_constant=False
    ),
    "samples": lambda K, centred: BySamples(K, free=free_of(centred), is_constant=False),
    "products": lambda K, centred: ByProducts(
        scipy.sparse.csr_array(K), free=free_of(centred), is_constant=False
    ),
    "inside": lambda K, centred: Inside(K, centred=centred),
    "sparse inside": lambda K, centred: Inside(scipy.sparse.csr_array(K), centred=centred),
}


def model_of(seed: int, m: int, k: int, on: Any) -> tuple[Array, Model]:
    """Columns and a model of them, at a point of the set."""
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((m, k)) * (rng.random((m, k)) < 0.3)
    x = on.project(0.1 * rng.standard_normal(k))
    return K, Model(x, rng.standard_normal(k), rng.random(m), 0.025, 0.05, on, None)


def hessian_of(K: Array, model: Model, *, centred: bool) -> Array:
    w = model.w
    W = np.diag(w) - (np.outer(w, w) / w.sum() if centred else 0.0)
    return K.T @ W @ K + model.curvature * np.eye(K.shape[1])


@pytest.mark.parametrize("kind", CURVATURES)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("m", "k"), [(60, 20), (20, 60)])
@pytest.mark.parametrize(
    "on",
    [
        cg.sets.L1Ball(0.5),
        cg.sets.L1Ball(1e4),
        cg.sets.SolidSimplex(0.5),
        cg.sets.Simplex(60),
        cg.sets.Box(-0.1, 0.2),
    ],
    ids=str,
)
def test_all_ways_lead_to_the_least_point(
    kind: str, centred: bool, m: int, k: int, on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the optimality conditions: a projected gradient step from the least point leads nowhere."""
    if isinstance(on, cg.sets.Simplex):
        on = cg.sets.Simplex(k)
    if "inside" in kind and not (isinstance(on, cg.sets.L1Ball) and on.radius == 1e4):
        on = cg.sets.L1Ball(1e4)
    monkeypatch.setattr(
        models, "OPTIONS", replace(OPTIONS, accuracy=1e-13, accuracy_by_products=1e-13)
    )
    K, model = model_of(4, m, k, on)
    H = hessian_of(K, model, centred=centred)
    least = CURVATURES[kind](K, centred).least(model)
    assert on.violation(least.x) <= 1e-14
    gradient = model.slope + H @ (least.x - model.x)
    step = 1.0 / np.linalg.norm(H, 2)
    np.testing.assert_allclose(on.project(least.x - step * gradient), least.x, atol=1e-5)
    if isinstance(on, cg.sets.L1Ball):
        assert least.is_slack == (on.radius == 1e4)
        steepest = float(np.abs(gradient).max())
        assert least.multiplier == pytest.approx(0.0 if least.is_slack else steepest, abs=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_inside_that_leaves_the_ball_is_none(sparse: bool) -> None:
    K, model = model_of(5, 30, 50, cg.sets.L1Ball(1e4))
    H = hessian_of(K, model, centred=False)
    way = Inside(scipy.sparse.csr_array(K) if sparse else K, centred=False)
    free = way.least(model)
    assert free is not None
    np.testing.assert_allclose(free.x, model.x - np.linalg.solve(H, model.slope), atol=1e-6)
    smaller = cg.sets.L1Ball(0.5 * float(np.abs(free.x).sum()))
    assert way.least(model._replace(on=smaller, x=smaller.project(model.x))) is None


def test_conjugate_gradients_inside_find_what_factors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from condgrad.ball import inside

    K, model = model_of(6, 40, 200, cg.sets.L1Ball(1e5))
    exact = Inside(K, centred=True).least(model)
    monkeypatch.setattr(
        inside, "OPTIONS", replace(OPTIONS, factor_passes=0, accuracy_by_products=1e-12)
    )
    found = Inside(K, centred=True).least(model)
    assert exact is not None
    assert found is not None
    np.testing.assert_allclose(found.x, exact.x, atol=1e-7)


@pytest.mark.parametrize("ridge", [1e-15, 0.0])
def test_a_wide_model_with_hardly_any_curvature_is_solved_by_its_matrix(ridge: float) -> None:
    """Its dual has hardly a smooth piece: Newton's method on it ends, and the model is minimised all the same."""
    on = cg.sets.L1Ball(2.0)
    K, model = model_of(7, 20, 300, on)
    model = model._replace(ridge=ridge, curvature=2.0 * ridge + 1e-13)
    way = BySamples(K, free=None, is_constant=False)
    least = way.least(model)
    H = hessian_of(K, model, centred=False)
    gradient = model.slope + H @ (least.x - model.x)
    gap = float(gradient @ least.x) + on.radius * float(np.abs(gradient).max())
    fall = -float(model.slope @ (least.x - model.x)) - 0.5 * float(
        (least.x - model.x) @ H @ (least.x - model.x)
    )
    assert gap <= 1e-3 * fall


@pytest.mark.parametrize("sparse", [False, True])
def test_a_slack_squared_hinge_agrees_with_scikit_learn(sparse: bool) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 900)) * (rng.random((60, 900)) < 0.2)
    y = np.sign(X[:, 0] + 0.1 * rng.standard_normal(60))
    f = cg.smooth.SquaredHinge(scipy.sparse.csc_array(X) if sparse else X, y)
    result = cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1e4)), method="newton", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    theirs = LinearSVC(
        C=1.0, fit_intercept=False, dual=True, tol=1e-10, max_iter=100_000, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(result.x, theirs.coef_.ravel(), atol=1e-4)
    assert result.trace["inner_iterations"][-1] <= 30


def test_factors_step_in_where_conjugate_gradients_take_longer() -> None:
    """Of data whose singular values are from 1 to 1e-3, the squares of which are what conjugate gradients see."""
    rng = np.random.default_rng(5)
    m, k = 300, 200
    turned = np.linalg.qr(rng.standard_normal((m, k)))[0]
    K = turned * np.logspace(0.0, -3.0, k) @ rng.standard_normal((k, k))
    on = cg.sets.L1Ball(100.0)
    model = Model(np.zeros(k), K.T @ rng.standard_normal(m), np.ones(m), 0.0, 1e-12, on, None)
    way = ByProducts(scipy.sparse.csr_array(K), free=None, is_constant=True)
    least = way.least(model)
    assert way.is_hard
    assert least is not None
    exact = ByMatrix(K, free=None, is_constant=True).least(model)
    assert exact is not None
    H = hessian_of(K, model, centred=False)
    falls = [-(model.slope @ y) - 0.5 * y @ H @ y for y in (least.x, exact.x)]
    assert falls[0] >= 0.9 * falls[1]


def test_a_gram_matrix_of_many_rows_is_added_up_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    K, w = rng.standard_normal((50, 7)), rng.random(50)
    monkeypatch.setattr(models, "OPTIONS", replace(OPTIONS, block=7 * 7 * 8))
    found: Any = gram_by_blocks(K, w, np.empty((len(w), 0)), np.empty((0, K.shape[1])))
    np.testing.assert_allclose(found, K.T @ (w[:, None] * K), atol=1e-12)
    with deadline.within(0.0):
        assert gram_by_blocks(K, w, np.empty((len(w), 0)), np.empty((0, K.shape[1]))) is None


@pytest.mark.parametrize("kind", ["dense", "sparse", "samples"])
def test_columns_that_are_minimised_out(kind: str) -> None:
    """H = K'(W - WC(C'WC)^-1C'W)K + c: the least point of a box that is wide has H d = -slope."""
    m, k = (20, 30) if kind == "samples" else (40, 8)
    K, model = model_of(4, m, k, cg.sets.Box(-1e3, 1e3))
    C = np.column_stack([np.ones(m), np.random.default_rng(4).standard_normal((m, 2))])
    W = np.diag(model.w)
    W = W - W @ C @ np.linalg.solve(C.T @ W @ C, C.T @ W)
    H = K.T @ W @ K + model.curvature * np.eye(k)
    data = scipy.sparse.csr_array(K) if kind == "sparse" else K
    way = BySamples if kind == "samples" else ByMatrix
    least = way(data, free=C, is_constant=False).least(model)
    assert least is not None
    d = least.x - model.x
    best = -np.linalg.solve(H, model.slope)
    assert model.slope @ d + 0.5 * d @ H @ d <= 0.999 * (model.slope @ best + 0.5 * best @ H @ best)
    assert isinstance(curvature_of(scipy.sparse.csr_array(K), free=C, is_constant=False), ByMatrix)


def test_the_shape_of_the_data_chooses_the_way() -> None:
    options: dict[str, Any] = {"free": None, "is_constant": False}
    thin = scipy.sparse.random_array(
        (50, 300), density=0.02, rng=np.random.default_rng(0), format="csr"
    )
    assert isinstance(curvature_of(np.ones((50, 100)), **options), ByMatrix)
    assert isinstance(curvature_of(np.ones((50, 300)), **options), BySamples)
    assert isinstance(curvature_of(thin, **options), ByProducts)
    assert isinstance(curvature_of(thin[:, :20], **options), ByMatrix)
    assert curvature_of(np.broadcast_to(1.0, (5000, 9000)), **options) is None


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [1.0, 1e-2])
def test_a_slack_radius_on_text_is_solved_like_a_support_vector_machine(
    ridge: float, intercept: bool
) -> None:
    rng = np.random.default_rng(3)
    X = scipy.sparse.csr_array(rng.poisson(0.05, (400, 900)).astype(float))
    y = np.where(X[:, :30].sum(axis=1) > X[:, 30:60].sum(axis=1), 1.0, -1.0)
    f = cg.smooth.SquaredHinge(X, y, intercept=intercept)
    free = cg.minimize(f, cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1e3)), method="newton", tol=1e-8)
    assert free.success
    assert np.abs(free.x).sum() < 500.0
    # Newton's method alone takes 5 to 58 steps here; from where liblinear ends it needs a few
    assert free.trace["inner_iterations"][-1] <= 8
    # a radius that is slack by little has the same solution, one that binds a larger value
    for share, binds in ((1.05, False), (0.9, True)):
        ball = cg.sets.L1Ball(share * float(np.abs(free.x).sum()))
        result = cg.minimize(f, cg.simple.Ridge(ridge, on=ball), method="auto", tol=1e-7)
        assert result.success
        assert (result.lower_bound > free.value) == binds
        assert binds or result.value == pytest.approx(free.value, rel=2e-7)
    if not intercept:  # theirs is penalised
        judge = LinearSVC(C=0.5 / ridge, fit_intercept=False, tol=1e-9, max_iter=100_000).fit(X, y)
        assert free.x == pytest.approx(judge.coef_.ravel(), abs=1e-4 * np.abs(free.x).max())


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("case", ["usual", "one class", "hardly a ridge", "a large ridge"])
def test_a_slack_hinge_that_liblinear_would_refuse_is_solved_all_the_same(
    index: Any, case: str
) -> None:
    rng = np.random.default_rng(5)
    X = scipy.sparse.csr_array(rng.standard_normal((40, 300)) * (rng.random((40, 300)) < 0.1))
    X = type(X)((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)
    y = np.ones(40) if case == "one class" else np.where(rng.random(40) < 0.5, 1.0, -1.0)
    ridge = {"hardly a ridge": 1e-310, "a large ridge": 1e300}.get(case, 1e-2)
    f = cg.smooth.SquaredHinge(X, y)
    result = cg.minimize(f, cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1e4)), method="auto", tol=1e-6)
    assert result.lower_bound <= result.value
    assert result.success or case == "hardly a ridge"
