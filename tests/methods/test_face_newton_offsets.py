"""Newton along faces where equations are nearly singular: columns far from 0, losses that do not bend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import condgrad as cg

SETS = {
    "large ball": cg.sets.L1Ball(1e6),
    "ball": cg.sets.L1Ball(1.0),
    "simplex": cg.sets.Simplex(12),
}


@pytest.mark.parametrize("on", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_an_intercept_takes_offsets_up(on: cg.sets.Set, seed: int, offset: float) -> None:
    """With an intercept, a column and the column less its mean are the same problem."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 12)) + offset * rng.standard_normal(12)
    y, g = rng.standard_normal(5), cg.simple.Ridge(0.01, on=on)
    far, near = (
        cg.minimize(
            cg.smooth.LeastSquares(columns, y, intercept=True),
            g,
            method="newton",
            tol=1e-8,
            max_iter=300,
        )
        for columns in (A, A - A.mean(axis=0))
    )
    assert far.status is near.status is cg.Status.CONVERGED
    noise = 1e-12 * offset**2
    assert far.lower_bound <= near.value + noise
    assert near.lower_bound <= far.value + noise


def least_shortfall(Z: Any, y: Any) -> float:
    """min sum_i max(0, -y_i z_i.x) over the unit simplex, by SciPy: the logistic minimum is at most 8 log 2 above."""
    m, n = Z.shape
    answer = scipy.optimize.linprog(
        np.r_[np.zeros(n), np.ones(m)],
        A_ub=np.c_[-y[:, None] * Z, -np.eye(m)],
        b_ub=np.zeros(m),
        A_eq=np.r_[np.ones(n), np.zeros(m)][None],
        b_eq=[1.0],
    )
    assert answer.status == 0
    return float(answer.fun)


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize(
    "g", [cg.simple.Zero, lambda on: cg.simple.Ridge(1e-8, on=on)], ids=["no ridge", "ridge"]
)
@pytest.mark.parametrize("seed", range(6))
def test_a_loss_whose_curvature_underflows(layout: Any, g: Any, seed: int) -> None:
    """Margins so large that the logistic loss is linear to the last digit, and bends nowhere."""
    rng = np.random.default_rng(seed)
    Z = 1e6 * rng.standard_normal((8, 5))
    y = np.where(rng.standard_normal(8) > 0.0, 1.0, -1.0)
    result = cg.minimize(
        cg.smooth.Logistic(layout(Z), y), g(cg.sets.Simplex(5)), method="newton", tol=1e-8
    )
    assert result.relative_gap <= 1e-6  # CONVERGED, or STALLED where rounding ends it first
    least = least_shortfall(Z, y)
    slack = 1e-7 * (1.0 + abs(least))
    assert result.value >= least - slack
    assert result.lower_bound <= least + 8.0 * np.log(2.0) + slack
