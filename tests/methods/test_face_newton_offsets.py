"""Newton along faces where equations are nearly singular: columns far from 0, losses that do not bend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import condgrad as cg

SETS = {"large ball": cg.sets.L1Ball(1e6), "ball": cg.sets.L1Ball(1.0), "simplex": cg.sets.Simplex(12)}


@pytest.mark.parametrize("on", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_an_intercept_takes_offsets_up(on: cg.sets.Set, seed: int, offset: float) -> None:
    """With an intercept, a column and the column less its mean are the same problem."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 12)) + offset * rng.standard_normal(12)
    y, g = rng.standard_normal(5), cg.simple.Ridge(0.01, on=on)
    far, near = (
        cg.minimize(cg.smooth.LeastSquares(columns, y, intercept=True), g, method="newton", tol=1e-8, max_iter=300)
        for columns in (A, A - A.mean(axis=0))
    )
    assert far.status is near.status is cg.Status.CONVERGED
    noise = 1e-12 * offset**2
    assert far.lower_bound <= near.value + noise
    assert near.lower_bound <= far.value + noise


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("loss", [cg.smooth.SquaredHinge, cg.smooth.Logistic])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_loss_that_no_longer_bends(layout: Any, loss: Any, intercept: bool) -> None:
    """Labels that a far point satisfies with ease: curvatures vanish or underflow there, and F* is 0."""
    rng = np.random.default_rng(1)
    Z = 1e3 * rng.standard_normal((40, 3))
    y = np.sign(Z[:, 0])
    Z[:, 0] += 1e3 * y
    f, g = loss(layout(Z), y, intercept=intercept), cg.simple.Zero(on=cg.sets.Box(-1e3, 1e3))
    result = cg.minimize(f, g, np.array([1e3, 0.0, 0.0]), method="newton", tol=1e-8)
    assert result.status is cg.Status.CONVERGED
    assert 0.0 <= result.value <= 1e-8
    assert result.lower_bound <= 0.0
