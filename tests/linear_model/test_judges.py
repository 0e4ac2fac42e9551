"""The constrained problem against CVXPY, and against scikit-learn's penalised solvers at the multiplier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge

from condgrad.linear_model import ConstrainedElasticNet, ConstrainedLogisticRegression
from tests.linear_model import SINGLE, drawn, judge, objective

every_kind = pytest.mark.parametrize("kind", SINGLE)
RADII = [0.05, 0.5, 2.0, 50.0]


def first(value: Any) -> float:
    return float(np.ravel(value)[0])


@every_kind
@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_against_cvxpy(kind: type, radius: float, weighted: bool, intercept: bool) -> None:
    """lower bound <= F* <= value, and the coefficients as near as the gap says."""
    X, y = drawn(int(10 * radius))
    weights = (
        np.random.default_rng(1).random(len(y)) * (np.arange(len(y)) % 5 > 0) if weighted else None
    )
    model = kind(radius, ridge=0.3, fit_intercept=intercept, tol=1e-9).fit(
        X, y, sample_weight=weights
    )
    judged = judge(kind, X, y, radius=radius, ridge=0.3, weights=weights, intercept=intercept)
    value, gap = first(model.objective_), first(model.dual_gap_)
    slack = 1e-7 * max(1.0, judged.value)
    assert value - gap <= judged.value + slack
    assert judged.value <= value + slack
    assert value == pytest.approx(objective(kind, model, X, y, weights), rel=1e-10)
    assert np.abs(model.coef_).sum() <= radius * (1.0 + 1e-9)
    distance = np.sqrt((gap + slack) / 0.3)
    assert np.linalg.norm(model.coef_ - judged.coef) <= 2.0 * distance
    assert first(model.multiplier_) == pytest.approx(judged.multiplier, rel=1e-3, abs=1e-3)
    if intercept:
        assert first(model.intercept_) == pytest.approx(judged.intercept, abs=1e-3)
    else:
        assert first(model.intercept_) == 0.0


@pytest.mark.parametrize("radius", [0.3, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_elastic_net_at_the_multiplier(radius: float, intercept: bool) -> None:
    X, y = drawn(4)
    model = ConstrainedElasticNet(radius, ridge=0.2, fit_intercept=intercept, tol=1e-11).fit(X, y)
    l1, l2 = model.multiplier_ / len(y), 2.0 * model.ridge / len(y)
    penalised = ElasticNet(
        l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=intercept, tol=1e-12, max_iter=100_000
    )
    penalised.fit(X, y)
    assert model.multiplier_ > 0.1
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=2e-5)
    assert model.intercept_ == pytest.approx(penalised.intercept_, abs=2e-5)


@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_logistic_regression_at_the_multiplier(radius: float) -> None:
    X, y = drawn(5, samples=15, features=3)
    model = ConstrainedLogisticRegression(radius, ridge=0.2, tol=1e-11).fit(X, y)
    strength = first(model.multiplier_) + 2.0 * model.ridge
    ratio = first(model.multiplier_) / strength
    penalised = LogisticRegression(
        C=1.0 / strength, l1_ratio=ratio, solver="saga", tol=1e-9, max_iter=100_000, random_state=0
    ).fit(X, y)
    assert first(model.multiplier_) > 0.1
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, penalised.intercept_, atol=2e-4)
    np.testing.assert_allclose(model.predict_proba(X), penalised.predict_proba(X), atol=1e-4)


def test_lasso_in_its_constrained_form() -> None:
    X, y = drawn(6, samples=15, features=4)
    model = ConstrainedElasticNet(0.4, ridge=1e-8, tol=1e-6).fit(X, y)
    penalised = Lasso(model.multiplier_ / len(y), tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=5e-3)
    assert np.abs(penalised.coef_).sum() == pytest.approx(0.4, abs=5e-3)


def test_an_idle_constraint_leaves_ridge_regression() -> None:
    X, y = drawn(7)
    model = ConstrainedElasticNet(1e3, ridge=0.5, tol=1e-11).fit(X, y)
    judged = Ridge(alpha=1.0, tol=1e-12).fit(X, y)
    assert model.multiplier_ == 0.0
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(judged.intercept_, abs=1e-5)


def test_an_idle_constraint_leaves_logistic_regression() -> None:
    X, y = drawn(8)
    model = ConstrainedLogisticRegression(1e3, ridge=0.5, tol=1e-11).fit(X, y)
    judged = LogisticRegression(C=1.0, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_array_equal(model.multiplier_, [0.0])
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, judged.intercept_, atol=1e-5)


def test_an_idle_constraint_and_hardly_a_ridge_leave_least_squares() -> None:
    """A tiny ridge magnifies every error of the gradient; the multiplier is 0 all the same."""
    X, y = drawn(9, samples=30, features=3)
    model = ConstrainedElasticNet(10.0, ridge=1e-9, tol=1e-7, method="spg").fit(X, y)
    judged = LinearRegression().fit(X, y)
    assert model.multiplier_ == 0.0
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-3)
