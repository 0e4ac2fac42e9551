"""Features without a penalty: against CVXPY, their own equations, and other ways to the same model."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
from condgrad.linear_model import (
    ConstrainedElasticNet,
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    path,
)
from tests.linear_model import SINGLE, drawn, loss_of

Array = Any
TOL = 1e-9
FREE = [1, 4]
FACTORS = np.array([1.0, 0.0, 2.0, 1.0, 0.0, 0.5])


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_radius_against_cvxpy(kind: type, intercept: bool, sparse: bool) -> None:
    X, y = drawn(4, samples=30)
    if sparse:
        X = np.where(np.abs(X) > 0.5, X, 0.0)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, 30)
    options = {"penalty_factors": FACTORS, "fit_intercept": intercept, "tol": TOL}
    data = scipy.sparse.csr_array(X) if sparse else X
    model = kind(0.4, 0.2, **options).fit(data, y, sample_weight=weights)
    coef, b = cp.Variable(6), cp.Variable()
    scores = X @ coef + (b if intercept else 0.0)
    penalty = 0.2 * cp.sum_squares(cp.multiply(FACTORS, coef))
    goal = cp.Minimize(weights @ loss_of(kind, scores, y) + penalty)
    problem = cp.Problem(goal, [cp.norm1(cp.multiply(FACTORS, coef)) <= 0.4])
    least = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    value, gap = float(np.ravel(model.objective_)[0]), float(np.ravel(model.dual_gap_)[0])
    assert value - gap <= least * (1.0 + 1e-8)
    assert least * (1.0 - 1e-8) <= value
    assert gap <= 1e-8 * value
    np.testing.assert_allclose(np.ravel(model.coef_), coef.value, atol=1e-4)
    assert float(np.ravel(model.radius_)[0]) == 0.4


def residual_slopes(model: Any, y: Array, scores: Array) -> Array:
    """The derivatives of the losses of the samples by their scores."""
    if isinstance(model, PoissonRegressor):
        return np.exp(scores) - y
    if isinstance(model, GammaRegressor):
        return 1.0 - y * np.exp(-scores)
    if isinstance(model, HuberRegressor):
        return np.clip(scores - y, -model.delta, model.delta)
    if isinstance(model, LogisticRegression):
        return -y / (1.0 + np.exp(y * scores))
    if isinstance(model, LinearSVC):
        return -2.0 * y * np.maximum(0.0, 1.0 - y * scores)
    return scores - y


PENALISED = [
    (Lasso(0.1), "real"),
    (ElasticNet(0.1), "real"),
    (HuberRegressor(alpha=0.1, l1_ratio=0.5), "real"),
    (LogisticRegression(C=0.5, l1_ratio=1.0), "signs"),
    (LinearSVC("l1", C=0.05), "signs"),
    (PoissonRegressor(alpha=0.1, l1_ratio=1.0), "counts"),
    (GammaRegressor(alpha=0.1, l1_ratio=0.5), "amounts"),
]


@pytest.mark.parametrize(("model", "targets"), PENALISED, ids=lambda each: str(each))
def test_equations_of_a_penalised_fit(model: Any, targets: str) -> None:
    """U'theta = 0, and |X'theta| is at most the penalty elsewhere: with an offset and standardised."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 6)) * [1.0, 1e3, 1.0, 1.0, 1e-3, 1.0] + 3.0
    signal = X[:, 0] - 3.0 + (X[:, 1] - 3.0) / 1e3
    y = {
        "real": signal + 0.3 * rng.standard_normal(40),
        "signs": np.where(signal + rng.standard_normal(40) > 0.0, 1.0, -1.0),
        "counts": rng.poisson(np.exp(0.5 * signal)).astype(float),
        "amounts": np.exp(0.5 * signal) * rng.gamma(3.0, 0.3, 40),
    }[targets]
    offset = 0.2 * rng.standard_normal(40)
    factors = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    model.set_params(penalty_factors=factors, standardize=True, tol=1e-12)
    model.fit(X, y, offset=offset)
    scores = X @ np.ravel(model.coef_) + np.ravel(model.intercept_) + offset
    slopes = residual_slopes(model, y, scores)
    size = np.abs(slopes).sum()
    assert abs(slopes.sum()) <= 1e-6 * size
    along = (X / X.std(axis=0)).T @ slopes
    assert np.abs(along[FREE]).max() <= 1e-6 * size * 3.0
    units = factors * X.std(axis=0)
    ridge = 2.0 * model.ridge_ * units**2 * np.ravel(model.coef_) / X.std(axis=0)
    l1 = float(np.ravel(model.multiplier_)[0])
    assert np.abs(along + ridge)[factors > 0.0].max() <= l1 + 1e-5 * size
    assert (np.ravel(model.coef_)[FREE] != 0.0).all()


def test_a_radius_and_a_penalty_have_the_same_solution() -> None:
    X, y = drawn(5, samples=40)
    options = {"penalty_factors": FACTORS, "tol": 1e-10}
    lasso = Lasso(0.05, **options).fit(X, y)
    ball = ConstrainedElasticNet(lasso.radius_, 0.0, **options).fit(X, y)
    np.testing.assert_allclose(ball.coef_, lasso.coef_, atol=1e-5)
    assert ball.multiplier_ == pytest.approx(lasso.multiplier_, rel=1e-3)
    assert lasso.radius_ == pytest.approx(float(FACTORS @ np.abs(lasso.coef_)))


def test_paths_searches_groups_and_warm_starts() -> None:
    X, y = drawn(6, samples=40)
    found = path(X, y, loss="least-squares", alphas=[0.1, 0.02], penalty_factors=FACTORS, tol=1e-10)
    for alpha, coef, intercept in zip(found.alphas, found.coefs, found.intercepts, strict=True):
        single = Lasso(alpha, penalty_factors=FACTORS, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(coef, single.coef_, atol=1e-5)
        assert intercept == pytest.approx(single.intercept_, abs=1e-5)
    search = LassoCV(alphas=5, cv=3, penalty_factors=FACTORS).fit(X, y)
    single = Lasso(search.alpha_, penalty_factors=FACTORS, warm_start=True).fit(X, y)
    np.testing.assert_allclose(search.coef_, single.coef_, atol=1e-4)
    first = single.n_iter_
    assert single.fit(X, y).n_iter_ <= first
    groups = ["a", "b", "a", "c", "c", "c"]
    grouped = ConstrainedElasticNet(0.3, groups=groups, penalty_factors=FACTORS).fit(X, y)
    free = np.delete(FACTORS * grouped.coef_, FREE)
    norms = [np.linalg.norm(free[[0, 1]]), np.linalg.norm(free[[2, 3]])]
    assert sum(norms) <= 0.3 * (1.0 + 1e-9)
    assert grouped.relative_gap_ <= 1e-6
    assert (
        ConstrainedElasticNet(0.3, penalty_factors=FACTORS).fit(X.astype(np.float32), y).coef_.dtype
        == np.float32
    )


def test_combinations_are_dropped_by_name() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 5))
    X[:, 2] = 2.0 * X[:, 0] - X[:, 1]
    X[:, 3] = 7.0
    y = X[:, 0] + X[:, 4] + 0.1 * rng.standard_normal(30)
    factors = [0.0, 0.0, 0.0, 0.0, 1.0]
    dropped = "combinations of earlier ones and the intercept are dropped, .*: number 2, number 3"
    with pytest.warns(UserWarning, match=dropped):
        model = Lasso(0.1, penalty_factors=factors, tol=TOL).fit(X, y)
    assert (model.coef_[2], model.coef_[3]) == (0.0, 0.0)
    plain = Lasso(0.1, penalty_factors=[0.0, 0.0, 1.0], tol=TOL).fit(X[:, [0, 1, 4]], y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X[:, [0, 1, 4]]), atol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # without an intercept a constant is a column like others
        Lasso(0.1, penalty_factors=[0.0, 1.0], fit_intercept=False).fit(X[:, [3, 4]], y)


def test_separated_classes_are_proved_and_named() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((40, 5))
    y = np.where(X[:, 1] + 2.0 * X[:, 3] > 0.1, 1, 0)
    factors = [1.0, 0.0, 1.0, 0.0, 1.0]
    named = (
        r"unpenalised columns number 1, number 3 separates the classes: its coefficients would grow"
    )
    with pytest.raises(ValueError, match=named):
        LogisticRegression(penalty_factors=factors).fit(X, y)
    y[np.argmax(X[:, 1] + 2.0 * X[:, 3])] = 0  # one sample on the other side
    model = LogisticRegression(C=1.0, l1_ratio=1.0, penalty_factors=factors).fit(X, y)
    assert model.relative_gap_[0] <= 1e-6
    svc = LinearSVC("l1", penalty_factors=factors, C=1e-3).fit(X, X[:, 1] > 0.0)
    assert svc.objective_[0] <= 1e-12  # its loss has a minimum all the same
    counts = np.where(X[:, 1] > 0.5, 0.0, 2.0)
    counts[:3] = 1.0
    switch = np.where(counts > 0.0, 0.0, -1.0)
    with pytest.raises(ValueError, match="separates counts of 0 from the others"):
        PoissonRegressor(penalty_factors=[0.0, 1.0]).fit(np.column_stack([switch, X[:, 0]]), counts)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Lasso(positive=True), "penalty_factors of 0 need positive=False"),
        (LogisticRegression(), "penalty_factors of 0 need two classes or multi_class='ovr'"),
    ],
)
def test_what_cannot_be_gets_a_sentence(model: Any, message: str) -> None:
    X, _ = drawn(7)
    with pytest.raises(ValueError, match=message):
        model.set_params(penalty_factors=FACTORS).fit(X, np.arange(20) % 3)


def test_blocks_of_dask_get_a_sentence() -> None:
    import dask.array

    X, y = drawn(7)
    blocks = dask.array.from_array(X, chunks=(10, -1))
    with pytest.raises(ValueError, match="penalty_factors of 0 need data in memory"):
        Lasso(penalty_factors=FACTORS).fit(blocks, y)
    with pytest.raises(cg.MissingAbility, match="unpenalised needs data in memory"):
        cg.smooth.LeastSquares(blocks, y, unpenalised=X[:, :1])


def test_one_class_against_the_rest() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, 4))
    y = np.argmax(X[:, :3] + rng.gumbel(size=(60, 3)), axis=1)
    options = {"C": 0.3, "l1_ratio": 1.0, "penalty_factors": [0.0, 1.0, 1.0, 1.0]}
    model = LogisticRegression(multi_class="ovr", tol=1e-10, **options).fit(X, y)
    for k in range(3):
        single = LogisticRegression(tol=1e-10, **options).fit(X, y == k)
        np.testing.assert_allclose(model.coef_[k], single.coef_[0], atol=1e-5)
