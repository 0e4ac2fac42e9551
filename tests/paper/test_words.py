"""Numbers in sentences: rounded as a person would, and read back as what they were."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condgrad.paper.words import duration, factor, listed, power, span, takes

UNITS = {"ms": 1e-3, "s": 1.0}
POSITIVE = st.floats(1e-6, 1e6)


@given(POSITIVE)
def test_two_digits_remain(value: float) -> None:
    assert float(factor(value).replace(",", "")) == pytest.approx(value, rel=0.051)
    number, unit = duration(value).split()
    assert float(number.replace(",", "")) * UNITS[unit] == pytest.approx(value, rel=0.051)


@given(st.floats(1e-300, 1e300), st.integers(0, 3))
def test_powers_of_ten_read_back(value: float, digits: int) -> None:
    assert float(power(value, digits)) == pytest.approx(value, rel=0.5 * 10.0**-digits * (1 + 1e-9))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (power(1e-8), "1e-8"),
        (power(1.0), "1"),
        (power(0.3), "0.3"),
        (span([25.2, 1.34, 7.0]), "1.3 to 25"),
        (span([3.0]), "3.0"),
        (duration(0.0386), "39 ms"),
        (duration(0.5), "0.50 s"),
        (duration(math.inf, never="-"), "-"),
        (factor(1.02), "1.0"),
        (factor(1234.0), "1,234"),
        (takes(0.0), "is the only one to get there"),
        (takes(math.inf), "does not get there within its limits"),
        (takes(7.41), "takes 7.4 times as long"),
        (listed(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_as_a_person_would_write(said: str, expected: str) -> None:
    assert said == expected
