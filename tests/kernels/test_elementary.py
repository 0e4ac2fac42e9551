"""Powers and logarithms by polynomials, against numbers with more digits."""

from __future__ import annotations

import numpy as np
import pytest

from condgrad.kernels.elementary import power_of_2, times_its_log

pytestmark = pytest.mark.slow  # functions inside kernels are compiled for these tests alone


def test_powers_of_2_are_precise() -> None:
    x = np.concatenate([np.linspace(-1021.9, 1023.4, 20_001), np.linspace(-1.5, 1.5, 20_001)])
    found = np.array([power_of_2(t) for t in x])
    assert float(abs(found / np.exp2(x.astype(np.longdouble)) - 1.0).max()) < 4e-16
    assert [power_of_2(t) for t in (-np.inf, -1e300, -1022.5)] == [0.0] * 3
    assert [power_of_2(t) for t in (1025.0, np.inf)] == [np.inf] * 2


def test_numbers_times_their_logarithms_are_precise() -> None:
    p = np.concatenate(
        [np.exp2(np.linspace(-1020.0, 60.0, 20_001)), 1.0 + np.linspace(-0.5, 0.5, 20_001)]
    )
    exact = np.log(p.astype(np.longdouble)) * p
    found = np.array([times_its_log(t) for t in p])
    assert float((abs(found - exact) / abs(exact + (exact == 0.0))).max()) < 1e-15
    assert [times_its_log(t) for t in (0.0, -1e-20, 1.0, 5e-324)] == [0.0, 0.0, 0.0, 0.0]
