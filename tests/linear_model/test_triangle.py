"""Paths of tall least-squares problems, whose data are a triangle: the same function, proved for the data themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LassoCV, lasso_path

import condgrad as cg
from condgrad.linear_model import path

Numbers = np.ndarray


def problem(seed: int, intercept: bool, weighted: bool) -> tuple[Numbers, Numbers, Numbers]:
    """More samples than features, of different sizes, far from 0, and nearly copies of each other."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    m = int(rng.integers(n + 2, 40 * n))
    K = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-2.0, 2.0, n)
    K += 10.0 ** rng.uniform(-2.0, 3.0) * np.abs(K).mean(axis=0) * rng.integers(0, 2)
    K[:, n // 2 + 1 :] = (1.0 + 1e-9) * K[:, : n - n // 2 - 1]
    noise = 10.0 ** rng.uniform(-4.0, 1.0)
    y = K @ (rng.standard_normal(n) / np.linalg.norm(K, axis=0)) + noise * rng.standard_normal(m)
    weights = rng.random(m) * rng.integers(0, 2, m) + 1e-3 if weighted else np.ones(m)
    return K, y + 100.0 * intercept, weights


def exactly(K: Numbers, y: Numbers, weights: Numbers, x: Numbers, intercept: bool) -> np.longdouble:
    """min_b 1/2 sum_i w_i (K_i x + b - y_i)^2 in extended precision."""
    K, y, weights, x = (each.astype(np.longdouble) for each in (K, y, weights, x))
    if intercept:  # about a row: means far from 0 would cost even these numbers their digits
        K = K - K[0]
        y = y - y[0]
    short = K @ x - y
    if intercept:
        short = short - weights @ short / weights.sum()
    return np.longdouble(0.5) * (weights @ short**2)


@given(seed=st.integers(0, 10**6), intercept=st.booleans(), weighted=st.booleans())
def test_proofs_hold_for_the_data(seed: int, intercept: bool, weighted: bool) -> None:
    """The judge is F in extended precision, at the best point of a path and a single fit of all samples."""
    K, y, weights = problem(seed, intercept, weighted)
    f = cg.smooth.LeastSquares(K, y, sample_weight=weights, intercept=intercept)
    ridge = 1e-3 * float(np.median(np.sum(K**2, axis=0)))
    options: dict[str, Any] = {"ridge": ridge, "fit_intercept": intercept, "tol": 1e-10}
    found = path(K, y, loss="least-squares", n_radii=6, sample_weight=weights, **options)
    for k, radius in enumerate(found.radii):
        x = found.coefs[k]
        value = exactly(K, y, weights, x, intercept) + ridge * np.sum(x.astype(np.longdouble) ** 2)
        assert np.abs(x).sum() <= radius * (1.0 + 1e-12)
        assert found.values[k] - found.gaps[k] <= value
        assert value - found.gaps[k] <= found.values[k] * (1.0 + 1e-9)
        g = cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))
        single = cg.minimize(f, g, method="auto", tol=1e-10)
        assert found.values[k] - found.gaps[k] <= single.certificate.upper_bound
        assert single.lower_bound <= value
        # at the best intercept the mean of the residuals is 0
        rest = y - K @ x - found.intercepts[k]
        if intercept:
            size = float(weights @ np.abs(rest)) + 1e-12 * float(weights @ np.abs(y))
            assert abs(float(weights @ rest)) <= 1e-6 * size
        else:
            assert found.intercepts[k] == 0.0


def test_values_of_scikit_learn() -> None:
    """Its coordinate descent, as far as it goes."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 30))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(400)
    alphas, theirs, _ = lasso_path(X, y, alphas=20, tol=1e-10)
    found = path(
        X, y, loss="least-squares", alphas=alphas, fit_intercept=False, ridge=None, tol=1e-10
    )
    np.testing.assert_allclose(found.coefs, theirs.T, atol=1e-5)


def test_a_search_chooses_what_scikit_learn_does() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((300, 20)) + 5.0
    y = X[:, :4].sum(axis=1) + rng.standard_normal(300)
    ours = cg.linear_model.LassoCV(alphas=30, tol=1e-8).fit(X, y)
    theirs = LassoCV(alphas=30, tol=1e-8).fit(X, y)
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)


@pytest.mark.parametrize("tol", [1e-6, 1e-12])
def test_no_tolerance_is_lost(tol: float) -> None:
    """One that rounding in a triangle would hide is asked of the data themselves."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((3000, 4))
    y = X.sum(axis=1) + rng.standard_normal(3000)
    found = path(X, y, loss="least-squares", radii=[0.5, 2.0], ridge=1.0, tol=tol)
    assert (found.gaps <= tol * found.values).all()
    assert math.isfinite(found.gaps.sum())
