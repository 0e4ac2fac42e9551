"""The compiled best intercept against its plain reference and the equation that it solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from condgrad.kernels.best_intercept import logistic
from condgrad.smooth import intercept


@given(seed=st.integers(0, 10_000), decade=st.floats(-3.0, 2.5), near=st.sampled_from([None, 0.0, 30.0]))
def test_it_agrees_with_the_plain_reference(seed: int, decade: float, near: float | None) -> None:
    rng = np.random.default_rng(seed)
    z, weights = 10.0**decade * rng.standard_normal(30), rng.uniform(0.1, 3.0, 30)
    y = np.where(np.arange(30) < 1 + seed % 29, 1.0, -1.0)
    reference = intercept.LogisticIntercept(y, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intercept, "loaded", lambda: False)
        expected = reference(z, near)
    classes = -z[reference.positive], reference.positive_weights, z[reference.negative], reference.negative_weights
    b = logistic(*classes, reference.odds, np.nan if near is None else near)
    assert b == pytest.approx(expected, rel=1e-9, abs=1e-9)
    pulls = -weights * y * expit(-y * (z + b))
    assert abs(pulls.sum()) <= 1e-8 * np.abs(pulls).sum() + 1e-300
