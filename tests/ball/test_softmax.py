"""Newton's method for a softmax loss on the l1 ball: against CVXPY, finite differences and projected gradients."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy
import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad import MissingAbility
from condgrad.ball.compiled import face_qp

RNG = np.random.default_rng(0)
Z, Y = RNG.standard_normal((40, 7)), RNG.integers(0, 3, 40)
WEIGHTS = RNG.random(40)


def simple(ridge: float, radius: float) -> Any:
    on = cg.sets.L1Ball(radius)
    return cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)


def judged(Z: Any, y: Any, weights: Any, *, ridge: float, radius: float, intercept: bool) -> float:
    """The optimum, as an interior-point method finds it; NaN where it does not."""
    classes = int(y.max()) + 1
    X, b = cvxpy.Variable((Z.shape[1], classes)), cvxpy.Variable((1, classes))
    scores = Z @ X + np.ones((len(y), 1)) @ b if intercept else Z @ X
    losses = cvxpy.log_sum_exp(scores, axis=1) - cvxpy.sum(
        cvxpy.multiply(np.eye(classes)[y], scores), axis=1
    )
    objective = weights @ losses + ridge * cvxpy.sum_squares(X)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.sum(cvxpy.abs(X)) <= radius])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cvxpy.CLARABEL)
    return float(problem.value) if problem.status == cvxpy.OPTIMAL else np.nan


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1),
    ridge=st.sampled_from([0.0, 1e-3, 0.5]),
    radius=st.sampled_from([0.3, 2.0, 20.0]),
    intercept=st.booleans(),
)
def test_it_finds_what_cvxpy_finds(seed: int, ridge: float, radius: float, intercept: bool) -> None:
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(8, 25)), int(rng.integers(1, 12))
    X, y, weights = rng.standard_normal((m, n)), rng.integers(0, 3, m), rng.random(m) + 0.1
    y[:3] = 0, 1, 2
    f = cg.smooth.Multinomial(X, y, sample_weight=weights, intercept=intercept)
    found = cg.minimize(f, simple(ridge, radius), method="auto", tol=1e-8)
    best = judged(X, y, weights, ridge=ridge, radius=radius, intercept=intercept)
    assume(np.isfinite(best))
    assert found.lower_bound <= best + 1e-6 * max(1.0, best)
    assert best <= found.value + 1e-6 * max(1.0, best)
    assert found.success
    assert found.gap <= 1e-5


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("shape", [(60, 8), (40, 60)])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("offset", [1e5, 1e7])
def test_intercepts_take_offsets_up(
    layout: Any, shape: tuple[int, int], ridge: float, offset: float
) -> None:
    """Columns far from 0 are the problem that CVXPY solves about their means, and are proved as well."""
    rng = np.random.default_rng(2)
    far, radius = rng.standard_normal(shape) + offset, 2.0
    near = far - offset
    y, weights = rng.integers(0, 3, shape[0]), rng.random(shape[0]) + 0.1
    f = cg.smooth.Multinomial(layout(far), y, sample_weight=weights, intercept=True)
    found = cg.minimize(f, simple(ridge, radius), method="auto")
    best = judged(near, y, weights, ridge=ridge, radius=radius, intercept=True)
    assert found.success
    assert found.lower_bound <= best * (1.0 + 1e-6)
    assert best <= found.value * (1.0 + 1e-6)
    np.testing.assert_allclose(f.at(found.x).theta.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_the_hessian_by_differences(intercept: bool, layout: Any) -> None:
    f = cg.smooth.Multinomial(layout(Z), Y, sample_weight=WEIGHTS, intercept=intercept)
    x, step, chosen = RNG.standard_normal((7, 3)), 1e-5, np.array([0, 1, 5, 9, 20])
    H = f.at(x).hessian_in(chosen)
    for p, entry in enumerate(chosen):
        move = np.zeros(21)
        move[entry] = step
        ends = [
            f.at(x + sign * move.reshape(7, 3)).gradient.ravel()[chosen] for sign in (1.0, -1.0)
        ]
        np.testing.assert_allclose(H[p], (ends[0] - ends[1]) / (2.0 * step), atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_products_with_the_hessian(intercept: bool, layout: Any) -> None:
    f = cg.smooth.Multinomial(layout(Z), Y, sample_weight=WEIGHTS, intercept=intercept)
    here = f.at(RNG.standard_normal((7, 3)))
    D = RNG.standard_normal((7, 3))
    product = here.hessian_in(np.arange(21)) @ D.ravel()
    np.testing.assert_allclose(here.hessian_times(D).ravel(), product, atol=1e-13)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    ridge=st.sampled_from([1e-4, 1e-2, 3.0]),
    stretched=st.booleans(),
    intercept=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_a_ridge_alone(
    seed: int, ridge: float, stretched: bool, intercept: bool, dtype: Any
) -> None:
    """As CVXPY, also where features in far units let conjugate gradients take long."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((30, 5)) * (10.0 ** rng.uniform(-2.0, 2.0, 5) if stretched else 1.0)
    y = np.concatenate([[0, 1, 2], rng.integers(0, 3, 27)])
    weights = rng.random(30) + 0.1
    f = cg.smooth.Multinomial(Z.astype(dtype), y, sample_weight=weights, intercept=intercept)
    tol = 1e-7 if dtype is np.float64 else 1e-4
    r = cg.minimize(f, cg.simple.ElasticNet(0.0, ridge), method="newton", tol=tol)
    best = judged(Z.astype(dtype), y, weights, ridge=ridge, radius=1e6, intercept=intercept)
    assume(np.isfinite(best))
    assert r.success
    slack = 1e-6 * abs(best)
    assert r.lower_bound <= best + slack
    assert best <= r.value + slack


@pytest.mark.parametrize(
    "layout", [np.asarray, scipy.sparse.csr_array, lambda Z: Z.astype(np.float32)]
)
def test_it_agrees_with_projected_gradients(layout: Any) -> None:
    """With entries left out of the first working sets."""
    rng = np.random.default_rng(1)
    wide, y = rng.standard_normal((60, 200)), rng.integers(0, 4, 60)
    f, g = cg.smooth.Multinomial(layout(wide), y, intercept=True), simple(0.5, 3.0)
    tol = 1e-4 if f.space.dtype == np.float32 else 1e-9
    found, other = (
        cg.minimize(f, g, method="newton", tol=tol),
        cg.minimize(f, g, method="spg", tol=max(tol, 1e-7)),
    )
    assert found.success
    assert found.lower_bound <= other.value
    assert other.lower_bound <= found.value
    assert found.iterations < other.iterations
    assert cg.sets.L1Ball(3.0).contains(found.x)


def test_what_it_is_not_for() -> None:
    f = cg.smooth.Multinomial(Z, Y)
    with pytest.raises(MissingAbility, match="has no faces"):
        cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0)), method="newton")
    assert (
        cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0)), method="auto").method == "spg"
    )


SEPARABLE = np.array(
    [[-1.0, 1.6, 0.2], [1.1, 2.1, -1.1], [-0.1, 0.5, 0.6], [-0.6, -1.3, -0.7], [0.9, 0.8, -0.5]]
)
SEPARABLE_LABELS = np.array([0, 1, 2, 1, 2])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("method", ["newton", "auto"])
@pytest.mark.parametrize("radius", [1e3, 5e4])
def test_classes_that_can_be_separated(method: str, radius: float) -> None:
    f = cg.smooth.Multinomial(SEPARABLE, SEPARABLE_LABELS, intercept=True)
    found = cg.minimize(f, simple(0.0, radius), method=method, tol=1e-13, max_iter=100)
    scores = SEPARABLE @ found.x + f.at(found.x).intercept
    own = scores[np.arange(5), SEPARABLE_LABELS]
    assert (own > np.sort(scores, axis=1)[:, -2]).all()  # they are separated
    loss = float(np.sum(scipy.special.logsumexp(scores - own[:, None], axis=1)))
    assert found.value == pytest.approx(loss, rel=1e-6, abs=1e-12)
    assert found.value <= 1e-3  # the infimum without a ball is 0
    assert found.lower_bound <= found.value


def test_the_curvature_in_intercepts_near_certainty() -> None:
    """Probabilities p and 1 - p of two classes, and weights of 2: the curvature is 2p(1 - p) [[1, -1], [-1, 1]].

    The pseudo-inverse of c [[1, -1], [-1, 1]] is [[1, -1], [-1, 1]] / (4c).
    """
    f = cg.smooth.Multinomial(
        [[1.0], [2.0], [3.0]], [0, 1, 1], sample_weight=[1.0, 0.3, 0.7], intercept=True
    )
    for exponent in (-6, -10, -14, -20, -60):
        small = 10.0**exponent
        shares = np.array([[1.0 - small, small], [small, 1.0 - small], [small, 1.0 - small]])
        expected = np.array([[1.0, -1.0], [-1.0, 1.0]]) / (4.0 * 2.0 * small * (1.0 - small))
        np.testing.assert_allclose(f.h._inverse_curvature(shares), expected, rtol=1e-12)


def test_a_step_that_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*arguments: Any) -> Any:
        _, _, x, *_ = arguments
        return np.full_like(x, np.nan), 0.0, True, True

    monkeypatch.setattr(face_qp, "minimise", nowhere)
    f = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS, intercept=True)
    ended = cg.minimize(f, simple(0.1, 2.0), method="newton")
    assert not ended.x.any()
    assert not ended.success
    went_on = cg.minimize(f, simple(0.1, 2.0), method="auto", tol=1e-7)
    assert went_on.success
    assert went_on.value == pytest.approx(
        judged(Z, Y, WEIGHTS, ridge=0.1, radius=2.0, intercept=True), rel=1e-6
    )


def test_a_time_limit_and_no_room() -> None:
    f = cg.smooth.Multinomial(Z, Y, intercept=True)
    short = cg.minimize(f, simple(0.1, 5.0), method="newton", tol=0.0, time_limit=0.0)
    assert short.lower_bound <= short.value
    nothing = cg.minimize(f, simple(0.1, 0.0), method="newton")
    assert not nothing.x.any()
    assert nothing.gap <= 1e-9 * nothing.value
