"""Norms of columns in one compiled pass, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import condgrad as cg
from condgrad.kernels import column_norms


@pytest.mark.parametrize("unit", [1.0, 1e150, 1e-150, 0.0])
def test_norms_are_right_or_said_not_to_be(unit: float) -> None:
    K = np.random.default_rng(0).standard_normal((7, 30))
    K[:, 3] *= unit
    norms, is_right = column_norms.norms_of_rows(np.ascontiguousarray(K.T))
    assert is_right == (unit in (0.0, 1.0))
    f = cg.smooth.LeastSquares(np.asfortranarray(K), np.ones(7))
    expected = [np.abs(column).max() * np.linalg.norm(column / (np.abs(column).max() or 1.0)) for column in K.T]
    np.testing.assert_allclose(f.column_norms, expected, rtol=1e-14)
    if is_right:
        np.testing.assert_allclose(norms, expected, rtol=1e-14)
