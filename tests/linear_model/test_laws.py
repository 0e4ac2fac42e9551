"""Laws of the constrained estimators: symmetries, weights, scalings, limits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedLinearSVC,
    ConstrainedLogisticRegression,
)
from tests.linear_model import SINGLE, Array, drawn, objective

every_kind = pytest.mark.parametrize("kind", SINGLE)
classifiers = pytest.mark.parametrize("kind", [ConstrainedLogisticRegression, ConstrainedLinearSVC])
LAW = settings(max_examples=8)
seeds = st.integers(0, 2**32 - 1)
radii = st.sampled_from([0.0, 0.1, 1.0, 5.0, 100.0])
TOL = 1e-9


def fitted(
    kind: type, X: Array, y: Array, radius: float, ridge: float = 0.5, weights: Array = None
) -> Any:
    return kind(radius, ridge=ridge, tol=TOL).fit(X, y, sample_weight=weights)


def close(model: Any, coef: Array, other: Any) -> None:
    """Coefficients as near as both gaps say: |x - x*|_2 <= sqrt(gap / ridge)."""
    reach = np.sqrt(np.max(model.dual_gap_) / model.ridge) + np.sqrt(
        np.max(other.dual_gap_) / other.ridge
    )
    assert np.linalg.norm(np.ravel(model.coef_) - np.ravel(coef)) <= 1.1 * reach + 1e-9


@every_kind
@LAW
@given(seed=seeds, radius=radii)
def test_order_and_signs_of_features(kind: type, seed: int, radius: float) -> None:
    X, y = drawn(seed)
    rng = np.random.default_rng(seed)
    order, signs = rng.permutation(X.shape[1]), rng.choice([-1.0, 1.0], X.shape[1])
    model, turned = fitted(kind, X, y, radius), fitted(kind, (X * signs)[:, order], y, radius)
    close(turned, (np.ravel(model.coef_) * signs)[order], model)
    np.testing.assert_allclose(turned.objective_, model.objective_, rtol=4 * TOL, atol=4 * TOL)


@every_kind
@LAW
@given(seed=seeds, radius=radii)
def test_a_weight_is_a_number_of_copies(kind: type, seed: int, radius: float) -> None:
    X, y = drawn(seed)
    copies = np.random.default_rng(seed).integers(0, 4, len(y))
    copies[:2] = 1
    model = fitted(kind, X, y, radius, weights=copies.astype(float))
    repeated = fitted(kind, X.repeat(copies, axis=0), y.repeat(copies), radius)
    close(model, repeated.coef_, repeated)
    np.testing.assert_allclose(model.objective_, repeated.objective_, rtol=4 * TOL, atol=4 * TOL)
    np.testing.assert_allclose(model.intercept_, repeated.intercept_, atol=2e-3)


@every_kind
@LAW
@given(seed=seeds, radius=radii, scale=st.sampled_from([0.1, 3.0, 20.0]))
def test_scaled_features(kind: type, seed: int, radius: float, scale: float) -> None:
    """X / s with radius * s and ridge / s^2 is the same problem in other units."""
    X, y = drawn(seed)
    model, scaled = (
        fitted(kind, X, y, radius),
        fitted(kind, X / scale, y, radius * scale, 0.5 / scale**2),
    )
    if scale < 1.0:
        close(scaled, scale * model.coef_, model)
    else:
        close(model, scaled.coef_ / scale, scaled)
    np.testing.assert_allclose(scaled.objective_, model.objective_, rtol=4 * TOL, atol=4 * TOL)
    np.testing.assert_allclose(scale * scaled.multiplier_, model.multiplier_, rtol=1e-3, atol=2e-3)


@every_kind
@LAW
@given(seed=seeds, radius=radii, scale=st.sampled_from([0.25, 8.0]))
def test_scaled_objective(kind: type, seed: int, radius: float, scale: float) -> None:
    """Weights and ridge scaled alike change the value and the multiplier, not the solution."""
    X, y = drawn(seed)
    model = fitted(kind, X, y, radius)
    scaled = fitted(kind, X, y, radius, 0.5 * scale, weights=np.full(len(y), scale))
    close(scaled, model.coef_, model)
    np.testing.assert_allclose(
        scaled.multiplier_, scale * model.multiplier_, rtol=1e-3, atol=2e-3 * scale
    )


@every_kind
@LAW
@given(seed=seeds, shift=st.floats(-50.0, 50.0))
def test_an_intercept_absorbs_shifts_of_the_features(kind: type, seed: int, shift: float) -> None:
    X, y = drawn(seed)
    model, shifted = fitted(kind, X, y, 1.0), fitted(kind, X + shift, y, 1.0)
    close(shifted, model.coef_, model)
    np.testing.assert_allclose(model.objective_, shifted.objective_, rtol=4 * TOL, atol=4 * TOL)


@every_kind
@pytest.mark.parametrize("constant", [0.0, 1.0, -1e3])
def test_a_constant_feature_is_left_out(kind: type, constant: float) -> None:
    X, y = drawn(1)
    X[:, 2] = constant
    model = fitted(kind, X, y, 1.0)
    assert abs(np.ravel(model.coef_)[2]) <= 1e-7
    without = fitted(kind, np.delete(X, 2, axis=1), y, 1.0)
    close(without, np.delete(np.ravel(model.coef_), 2), model)


@every_kind
@LAW
@given(seed=seeds)
def test_the_multiplier_falls_as_the_radius_grows(kind: type, seed: int) -> None:
    """And tells how fast the optimum falls: F*(r) is convex with slope -multiplier."""
    X, y = drawn(seed)
    grid = [0.1, 0.3, 0.9, 2.7, 8.1]
    models = [fitted(kind, X, y, radius) for radius in grid]
    mu = [float(np.ravel(model.multiplier_)[0]) for model in models]
    value = [float(np.ravel(model.objective_)[0]) for model in models]
    assert all(later <= earlier + 2e-3 for earlier, later in pairwise(mu))
    for i in range(len(grid) - 1):
        fall = (value[i] - value[i + 1]) / (grid[i + 1] - grid[i])
        assert mu[i + 1] - 2e-3 <= fall <= mu[i] + 2e-3


@every_kind
def test_radius_zero_leaves_the_intercept(kind: type) -> None:
    X, y = drawn(2)
    y[:15] = 1.0
    model = fitted(kind, X, y, 0.0)
    np.testing.assert_array_equal(model.coef_, np.zeros_like(model.coef_))
    share = (y > 0).mean()
    best = {
        ConstrainedElasticNet: y.mean(),
        ConstrainedLogisticRegression: np.log(share / (1.0 - share)),
    }
    assert float(np.ravel(model.intercept_)[0]) == pytest.approx(
        best.get(kind, 2.0 * share - 1.0), rel=1e-9
    )
    assert float(np.ravel(model.dual_gap_)[0]) <= TOL * 100.0
    assert float(np.ravel(model.multiplier_)[0]) > 0.0


@every_kind
def test_data_of_zeros(kind: type) -> None:
    y = np.array([1.0, -1.0, 1.0, 1.0])
    model = fitted(kind, np.zeros((4, 3)), y, 1.0)
    np.testing.assert_array_equal(model.coef_, np.zeros_like(model.coef_))
    np.testing.assert_array_equal(model.multiplier_, np.zeros_like(model.multiplier_))


@classifiers
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_separable_data(kind: type, size: float) -> None:
    X = size * np.array([[1.0, 0.1], [2.0, -0.1], [-1.0, 0.2], [-2.0, 0.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    model = fitted(kind, X, y, 1e3, 1e-3)
    np.testing.assert_array_equal(model.predict(X), y)
    assert 0.0 <= model.dual_gap_[0] <= TOL
    assert model.objective_[0] == pytest.approx(objective(kind, model, X, y), rel=1e-6, abs=1e-12)


@classifiers
def test_a_very_rare_class(kind: type) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), np.full(400, -1.0)
    y[0], X[0] = 1.0, 3.0
    model = fitted(kind, X, y, 1.0)
    assert model.dual_gap_[0] <= TOL * model.objective_[0] + 1e-12
    assert model.intercept_[0] < 0.0


@classifiers
@LAW
@given(seed=seeds)
def test_swapping_two_classes_turns_the_signs(kind: type, seed: int) -> None:
    X, y = drawn(seed)
    model, swapped = fitted(kind, X, y, 1.0), fitted(kind, X, -y, 1.0)
    close(swapped, -model.coef_, model)
    np.testing.assert_allclose(swapped.intercept_, -model.intercept_, atol=2e-3)


@classifiers
def test_one_against_the_rest(kind: type) -> None:
    """Each row is the problem of its class."""
    X, _ = drawn(3, samples=30)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = fitted(kind, X, y, 1.0)
    assert list(model.classes_) == sorted(set(y))
    for k, name in enumerate(model.classes_):
        alone = fitted(kind, X, np.where(y == name, 1, 0), 1.0)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-12)
        assert model.intercept_[k] == alone.intercept_[0]
        assert model.dual_gap_[k] == alone.dual_gap_[0]
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)]
    )


@every_kind
def test_many_more_features_than_samples_give_sparse_answers(kind: type) -> None:
    X, y = drawn(11, samples=15, features=200)
    model = kind(0.5, ridge=0.05).fit(X, y)
    assert 0 < np.count_nonzero(np.abs(model.coef_) > 1e-6) < 30
    assert np.abs(model.coef_).sum() == pytest.approx(0.5)


@pytest.mark.parametrize(
    "model", [ConstrainedLogisticRegression, ConstrainedLinearSVC, ConstrainedElasticNet]
)
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("offset", [1e2, 1e5])
def test_columns_far_from_zero(model: Any, layout: Any, offset: float) -> None:
    """An intercept takes the offset of a column up: the fit is that of the centred columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((13, 3)) * [0.0, 10.0, 1e-2]
    y = np.where(rng.standard_normal(13) > 0.0, 1.0, -1.0)
    near, far = (
        model(radius=100.0, ridge=0.03, tol=1e-4).fit(layout(X + shift), y)
        for shift in (0.0, offset)
    )
    distance = sum(np.sqrt(np.max(fit.dual_gap_) / 0.03) for fit in (near, far))
    assert np.abs(near.coef_ - far.coef_).max() <= distance + 1e-6
