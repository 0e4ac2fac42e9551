"""What the fits take beside a radius and a ridge, against CVXPY and scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.preprocessing import StandardScaler

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    path,
)
from tests.linear_model import SINGLE, Array, drawn, loss_of

every_kind = pytest.mark.parametrize("kind", SINGLE)
TOL = 1e-9


def least_value(
    kind: type,
    X: Array,
    y: Array,
    *,
    radius: float,
    ridge: float = 0.0,
    units: Array = 1.0,
    positive: bool = False,
) -> float:
    """The least objective, as an interior-point method finds it."""
    coef, b = cvxpy.Variable(X.shape[1], nonneg=positive), cvxpy.Variable()
    counted = cvxpy.multiply(np.broadcast_to(units, X.shape[1]), coef)
    objective = cvxpy.sum(loss_of(kind, X @ coef + b, y)) + ridge * cvxpy.sum_squares(counted)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.norm1(counted) <= radius])
    return float(
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    )


def certified(model: Any, least: float) -> None:
    """lower bound <= F* <= value, and both near."""
    value, gap = float(np.ravel(model.objective_)[0]), float(np.ravel(model.dual_gap_)[0])
    slack = 1e-7 * max(1.0, least)
    assert value - gap - slack <= least <= value + slack
    assert gap <= 1e-6 * max(1.0, value)


# --- no ridge ---


@every_kind
@pytest.mark.parametrize("radius", [0.0, 0.1, 0.8])
@pytest.mark.parametrize("features", [6, 40])
def test_without_a_ridge(kind: type, radius: float, features: int) -> None:
    X, y = drawn(3, features=features)
    model = kind(radius, ridge=0.0, tol=1e-7).fit(X, y)
    assert np.abs(model.coef_).sum() <= radius * (1.0 + 1e-9)
    certified(model, least_value(kind, X, y, radius=radius))


def test_without_a_ridge_is_the_lasso() -> None:
    X, y = drawn(5, features=15)
    model = ConstrainedElasticNet(0.4, ridge=0.0, tol=TOL).fit(X, y)
    lasso = Lasso(model.multiplier_ / len(y), tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, lasso.coef_, atol=1e-4)


@every_kind
def test_a_path_without_a_ridge(kind: type) -> None:
    X, y = drawn(7, samples=25, features=8)
    loss = {"ConstrainedElasticNet": "least-squares", "ConstrainedLogisticRegression": "logistic"}
    found = path(X, y, loss=loss.get(kind.__name__, "squared-hinge"), ridge=0.0, n_radii=6)
    for k in (1, 3, 5):
        least = least_value(kind, X, y, radius=found.radii[k])
        assert found.values[k] - found.gaps[k] - 1e-6 <= least <= found.values[k] + 1e-6
    assert (found.gaps <= 1e-5 * found.values[0]).all()


# --- signs ---


@every_kind
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("radius", [0.0, 0.3, 100.0])
def test_no_negative_coefficients(kind: type, ridge: float, radius: float) -> None:
    if ridge == 0.0 and radius == 100.0:
        ridge = 1e-3  # classes that can be separated leave no least point within sight
    X, y = drawn(2, samples=40)
    model = kind(radius, ridge=ridge, positive=True, tol=1e-7).fit(X, y)
    assert (model.coef_ >= 0.0).all()
    assert model.coef_.sum() <= radius * (1.0 + 1e-9)
    certified(model, least_value(kind, X, y, radius=radius, ridge=ridge, positive=True))
    assert (np.ravel(model.multiplier_)[0] == 0.0) == (radius == 100.0)


@every_kind
@pytest.mark.parametrize("ridge", [1e-6, 0.0])
@pytest.mark.parametrize("radius", [2.0, 1000.0])
def test_many_features_of_one_sign_and_hardly_a_ridge(
    kind: type, ridge: float, radius: float
) -> None:
    """Where projected gradients take thousands of steps, on the boundary and where the bound on the sum is idle."""
    X, y = drawn(10, samples=60, features=2000)
    model = kind(radius, ridge=ridge, positive=True, max_iter=50).fit(
        X, y
    )  # a fit that falls short would warn
    assert (model.coef_ >= 0.0).all()
    assert model.coef_.sum() <= radius * (1.0 + 1e-9)


def test_many_features_of_one_sign() -> None:
    X, y = drawn(9, samples=30, features=300)
    model = ConstrainedElasticNet(0.5, ridge=0.1, positive=True).fit(X, y)
    certified(model, least_value(ConstrainedElasticNet, X, y, radius=0.5, ridge=0.1, positive=True))
    found = path(X, y, loss="least-squares", ridge=0.1, positive=True, n_radii=8)
    assert (found.coefs >= 0.0).all()
    assert (found.gaps <= 1e-6 * found.values[0]).all()


# --- units ---


@every_kind
@pytest.mark.parametrize(
    "layout", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array, pd.DataFrame]
)
def test_standardized_is_a_fit_of_standardized_features(kind: type, layout: Any) -> None:
    X, y = drawn(1)
    X = X * 10.0 ** np.arange(-2.0, 4.0)
    X[:, 3] = 7.0  # constant: no deviation to divide by
    weights = np.linspace(0.5, 2.0, len(y))
    scaler = StandardScaler().fit(X, sample_weight=weights)
    judged = kind(0.7, ridge=0.2, tol=TOL).fit(scaler.transform(X), y, sample_weight=weights)
    columns = {"columns": list("abcdef")} if layout is pd.DataFrame else {}
    model = kind(0.7, ridge=0.2, standardize=True, tol=TOL).fit(
        layout(X, **columns), y, sample_weight=weights
    )
    np.testing.assert_allclose(model.coef_ * scaler.scale_, judged.coef_, atol=2e-4)
    np.testing.assert_allclose(model.objective_, judged.objective_, rtol=1e-7)
    np.testing.assert_allclose(
        model.predict(layout(X, **columns)), judged.predict(scaler.transform(X)), atol=2e-3
    )


def test_entries_of_the_same_place_are_standardized_as_their_sum() -> None:
    X, y = drawn(4, samples=30, features=6)
    once = scipy.sparse.csr_array(X)
    starts = 2 * once.indptr
    twice = scipy.sparse.csr_array(
        (
            np.repeat(once.data, 2) * np.tile([0.75, 0.25], once.nnz),
            np.repeat(once.indices, 2),
            starts,
        ),
        once.shape,
    )
    assert twice.nnz == 2 * once.nnz
    found, expected = (
        ConstrainedElasticNet(1.0, standardize=True, tol=TOL).fit(each, y) for each in (twice, once)
    )
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_a_constant_feature_is_constant_in_every_unit_of_the_weights(unit: float) -> None:
    X, y = drawn(5, samples=40, features=6)
    X[:, 2] = 0.1 + 1e3
    weights = np.linspace(0.1, 2.0, 40)
    found = ConstrainedElasticNet(1.0, ridge=unit, standardize=True, tol=TOL).fit(
        X, y, sample_weight=unit * weights
    )
    expected = ConstrainedElasticNet(1.0, ridge=1.0, standardize=True, tol=TOL).fit(
        X, y, sample_weight=weights
    )
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)


@every_kind
def test_penalty_factors(kind: type) -> None:
    X, y = drawn(4)
    factors = np.array([0.1, 1.0, 3.0, 1.0, 0.5, 10.0])
    model = kind(0.3, ridge=0.2, penalty_factors=factors, tol=TOL).fit(X, y)
    assert factors @ np.abs(np.ravel(model.coef_)) <= 0.3 * (1.0 + 1e-9)
    certified(model, least_value(kind, X, y, radius=0.3, ridge=0.2, units=factors))
    plain = kind(0.3, ridge=0.2, tol=TOL).fit(X, y)
    same = kind(0.6, ridge=0.05, penalty_factors=np.full(6, 2.0), tol=TOL).fit(X, y)
    np.testing.assert_allclose(same.coef_, plain.coef_, atol=1e-5)


def test_units_do_not_change_the_precision() -> None:
    X, y = drawn(4)
    model = ConstrainedElasticNet(0.3, standardize=True).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32


def test_units_enter_paths_and_searches() -> None:
    X, y = drawn(6, samples=40)
    X = X * [1.0, 100.0, 1.0, 0.01, 1.0, 1.0]
    scaled = StandardScaler().fit(X)
    found = path(X, y, loss="least-squares", standardize=True, radii=[0.2, 0.5], tol=TOL)
    plain = path(scaled.transform(X), y, loss="least-squares", radii=[0.2, 0.5], tol=TOL)
    np.testing.assert_allclose(found.coefs * scaled.scale_, plain.coefs, atol=1e-4)
    options: dict[str, Any] = {
        "standardize": True,
        "penalty_factors": [1.0, 1.0, 1.0, 1.0, 1.0, 1e6],
    }
    search = ConstrainedElasticNetCV(cv=3, n_radii=4, **options).fit(X, y)
    single = ConstrainedElasticNet(search.radius_, search.ridge_, **options).fit(X, y)
    np.testing.assert_allclose(search.coef_, single.coef_, atol=1e-6)
    assert abs(search.coef_[5]) <= 1e-5


# --- many classes in one problem ---


def classes(seed: int, samples: int = 60, features: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, features))
    scores = X @ rng.standard_normal((features, 3)) + rng.gumbel(size=(samples, 3))
    return X + rng.standard_normal(features), np.array(["ape", "bee", "cow"])[scores.argmax(axis=1)]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_multinomial_against_cvxpy(radius: float, intercept: bool) -> None:
    X, y = classes(0)
    weights = np.linspace(0.5, 2.0, len(y))
    model = ConstrainedLogisticRegression(
        radius, ridge=0.3, multi_class="multinomial", fit_intercept=intercept, tol=1e-8
    ).fit(X, y, sample_weight=weights)
    coef, b = cvxpy.Variable((3, 5)), cvxpy.Variable(3)
    scores = X @ coef.T + (
        np.ones((len(y), 1)) @ cvxpy.reshape(b, (1, 3), order="C") if intercept else 0.0
    )
    chosen = np.eye(3)[np.searchsorted(model.classes_, y)]
    losses = cvxpy.log_sum_exp(scores, axis=1) - cvxpy.sum(cvxpy.multiply(chosen, scores), axis=1)
    objective = weights @ losses + 0.3 * cvxpy.sum_squares(coef)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.sum(cvxpy.abs(coef)) <= radius])
    least = problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    certified(model, float(least))
    assert model.coef_.shape == (3, 5)
    assert model.intercept_.shape == (3,)
    assert np.abs(model.coef_).sum() <= radius * (1.0 + 1e-9)
    np.testing.assert_allclose(model.coef_, coef.value, atol=2e-3)
    if intercept:
        np.testing.assert_allclose(model.intercept_, b.value - b.value.mean(), atol=2e-3)


def test_multinomial_is_scikit_learns_where_the_constraint_is_idle() -> None:
    X, y = classes(1)
    model = ConstrainedLogisticRegression(1e3, ridge=0.5, multi_class="multinomial", tol=1e-10).fit(
        X, y
    )
    judged = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), judged.predict_proba(X), atol=1e-4)
    assert list(model.predict(X)) == list(judged.predict(X))
    assert model.multiplier_[0] == 0.0


def test_two_classes_are_one_problem_either_way() -> None:
    X, y = drawn(0)
    one, other = (
        ConstrainedLogisticRegression(multi_class=kind).fit(X, y) for kind in ("ovr", "multinomial")
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_multinomial_search_and_warm_start() -> None:
    X, y = classes(2)
    search = ConstrainedLogisticRegressionCV(
        multi_class="multinomial", n_radii=4, ridges=[0.5], cv=3
    ).fit(X, y)
    assert search.coef_.shape == (3, 5)
    assert search.scores_.mean(axis=2).max() > -np.log(3.0)
    model = ConstrainedLogisticRegression(
        2.0, multi_class="multinomial", warm_start=True, standardize=True
    ).fit(X, y)
    again = clone(model)
    again.coef_ = model.coef_
    again.fit(X, y)
    assert again.n_iter_[0] < model.n_iter_[0]
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-3)


# --- what is kept of a model ---


@every_kind
@pytest.mark.parametrize("three", [False, True])
def test_sparse_coefficients_predict_alike(kind: type, three: bool) -> None:
    X, y = drawn(8, samples=30)
    if three and kind is not ConstrainedElasticNet:
        y = np.arange(30) % 3
    model = kind(0.5, ridge=0.1).fit(X, y)
    coef, predicted = model.coef_.copy(), model.predict(X)
    assert model.sparsify() is model
    assert scipy.sparse.issparse(model.coef_)
    np.testing.assert_array_equal(model.predict(X), predicted)
    np.testing.assert_array_equal(model.predict(scipy.sparse.csr_array(X)), predicted)
    again = pickle.loads(pickle.dumps(model)).densify()
    np.testing.assert_array_equal(again.coef_, coef)
    assert again.coef_.shape == coef.shape
    model.set_params(warm_start=True).fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
