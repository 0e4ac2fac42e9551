"""Coordinate ascent on the dual of the squared hinge: its steps, and where they lead."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import LinearSVC

import condgrad as cg
from condgrad.kernels.hinge_ascent import ascend, ascend_by_arrays


def drawn(seed: int, samples: int = 40, features: int = 60) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Sparse data whose labels follow a few features, with noise."""
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((samples, features), density=0.2, rng=rng, format="csr")
    y = np.sign(X[:, :5].sum(axis=1) - X[:, 5:10].sum(axis=1) + 0.3 * rng.standard_normal(samples))
    return X, np.where(y == 0.0, 1.0, y)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_the_plain_reference(seed: int) -> None:
    X, y = drawn(seed)
    rng = np.random.default_rng(seed)
    weights, order = rng.uniform(0.5, 2.0, len(y)), rng.permutation(len(y))
    theta, x = np.zeros(len(y)), np.zeros(X.shape[1])
    squares = (X.toarray() ** 2).sum(axis=1)
    ascend(X.indptr, X.indices, X.data, squares, y, weights, 0.2, 0.1, order, theta, x)
    assert theta == pytest.approx(ascend_by_arrays(X.toarray(), y, weights, 0.2, 0.1, order, np.zeros(len(y))))
    assert x == pytest.approx(-X.T @ theta / 0.2)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [1.0, 1e-2])
def test_a_slack_radius_on_text_is_solved_like_a_support_vector_machine(ridge: float, intercept: bool) -> None:
    rng = np.random.default_rng(3)
    X = scipy.sparse.csr_array(rng.poisson(0.05, (400, 900)).astype(float))
    y = np.where(X[:, :30].sum(axis=1) > X[:, 30:60].sum(axis=1), 1.0, -1.0)
    f = cg.smooth.SquaredHinge(X, y, intercept=intercept)
    free = cg.minimize(f, cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1e3)), method="newton", tol=1e-8)
    assert free.success
    assert np.abs(free.x).sum() < 500.0
    # Newton's method alone takes 5 to 58 steps here; from where the ascent ends it needs a few
    assert free.trace["inner_iterations"][-1] <= 4
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
