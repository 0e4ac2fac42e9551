"""keep_mass: compiled, by NumPy, and by sorting in exact arithmetic."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condgrad.kernels.keep_mass import ENTRIES_TOGETHER, keep_finite_mass
from condgrad.sets import L1Ball, SolidSimplex
from condgrad.sets.threshold import keep_mass, keep_mass_by_arrays

Array = np.ndarray
LAW = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(
    ["normal", "positive", "ties", "equal", "rising", "falling", "spike last", "far from 0"]
)
precisions = st.sampled_from([np.float64, np.float32])
decades = st.integers(-12, 12)


def drawn(kind: str, n: int, decade: int, dtype: Any, seed: int) -> Array:
    """n entries of a kind."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(n)
    if kind == "positive":
        v = abs(v)
    elif kind == "ties":
        v = rng.integers(-2, 3, n).astype(float)
    elif kind == "equal":
        v = np.full(n, v[0])
    elif kind in ("rising", "falling"):
        v = np.sort(v)[:: 1 if kind == "rising" else -1]
    elif kind == "spike last":
        v[-1] = 100.0
    elif kind == "far from 0":
        v = v - 1e3
    return np.ascontiguousarray(10.0**decade * v, dtype=dtype)


def compiled_answer(v: Array, mass: float) -> Array:
    answer, finite = keep_finite_mass(v, mass)
    assert finite
    return answer


def by_sorting(v: Array, mass: float) -> Array:
    """Exact in rational numbers (Held, Wolfe, Crowder 1974)."""
    exact, left = [Fraction(float(entry)) for entry in v], Fraction(mass)
    running, theta = Fraction(0), Fraction(0)
    for k, entry in enumerate(sorted(exact, reverse=True), start=1):
        running += entry
        if entry * k <= running - left:
            break
        theta = (running - left) / k
    return np.array([float(max(entry - theta, Fraction(0))) for entry in exact])


@LAW
@given(
    kind=kinds,
    n=st.integers(1, 3 * ENTRIES_TOGETHER),
    decade=decades,
    size=decades,
    dtype=precisions,
    seed=seeds,
)
def test_compiled_equals_exact_sorting(
    kind: str, n: int, decade: int, size: int, dtype: Any, seed: int
) -> None:
    """To rounding of the mass, however far it is from the size of v."""
    v, mass = drawn(kind, n, decade, dtype, seed), 10.0**size
    answer = compiled_answer(v, mass)
    assert answer.dtype == v.dtype
    np.testing.assert_allclose(
        answer, by_sorting(v, mass), rtol=0, atol=20 * float(np.finfo(dtype).eps) * mass
    )


@LAW
@given(
    kind=kinds,
    n=st.integers(1, 50 * ENTRIES_TOGETHER),
    decade=decades,
    per=decades,
    dtype=precisions,
    seed=seeds,
)
def test_compiled_equals_numpy(
    kind: str, n: int, decade: int, per: int, dtype: Any, seed: int
) -> None:
    """Also where candidates are pruned several times: masses are given per entry, so that many are kept."""
    v, mass = drawn(kind, n, decade, dtype, seed), n * 10.0**per
    expected = keep_mass_by_arrays(v, mass)
    np.testing.assert_allclose(
        compiled_answer(v, mass), expected, rtol=0, atol=40 * float(np.finfo(dtype).eps) * mass
    )


@LAW
@given(kind=kinds, n=st.integers(1, 50 * ENTRIES_TOGETHER), share=st.floats(1e-3, 1e3), seed=seeds)
def test_compiled_meets_the_optimality_conditions(
    kind: str, n: int, share: float, seed: int
) -> None:
    """The mass is kept, one number is taken off what is kept, and nothing beyond that number is dropped."""
    v = drawn(kind, n, 0, np.float64, seed)
    mass = share * float(abs(v).sum()) / 10 + 1e-3
    x = compiled_answer(v, mass)
    taken, rounding = (v - x)[x > 0], 1e-13 * max(mass, abs(v).max())
    assert x.min() >= 0.0
    np.testing.assert_allclose(x.sum(), mass, rtol=1e-12)
    assert np.ptp(taken) <= rounding
    assert np.all(v[x == 0] <= taken.max() + rounding)


@given(
    n=st.integers(1, 4 * ENTRIES_TOGETHER), dropped=st.integers(0, 4 * ENTRIES_TOGETHER), seed=seeds
)
def test_tied_largest_entries_share_a_tiny_mass_equally(n: int, dropped: int, seed: int) -> None:
    """Even one that no longer has halves."""
    v = np.random.default_rng(seed).permutation(np.repeat([3.0, 1.0], [n, dropped]))
    for mass in (1e-20, 1e-300, 5e-324):
        for answer in (compiled_answer(v, mass), keep_mass_by_arrays(v, mass)):
            np.testing.assert_allclose(
                answer, np.where(v == 3.0, mass / n, 0.0), rtol=1e-13, atol=0
            )


LONG = 800 * ENTRIES_TOGETHER
"""So many entries are left to compiled code."""


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1, ENTRIES_TOGETHER, 5 * ENTRIES_TOGETHER + 3, -1])
@pytest.mark.parametrize("mass", [1e-3, 1.0, 1e6])
def test_entries_that_are_no_numbers_pass_as_in_numpy(odd: float, where: int, mass: float) -> None:
    for v in (
        drawn("normal", LONG, 0, np.float64, 0),
        drawn("falling", LONG, 0, np.float32, 0),
    ):
        v[where] = odd
        with np.errstate(invalid="ignore"):
            expected, answer = keep_mass_by_arrays(v, mass), keep_mass(v, mass)
        np.testing.assert_allclose(
            answer, expected, rtol=0, atol=40 * float(np.finfo(v.dtype).eps) * mass
        )
        assert np.isnan(answer).any() == (odd != -np.inf)


@pytest.mark.slow
def test_arrays_of_other_kinds_are_projected() -> None:
    """Read-only or a matrix; strided or of half precision, which NumPy takes."""
    v = drawn("normal", LONG, 0, np.float64, 0)
    frozen = v.copy()
    frozen.flags.writeable = False
    np.testing.assert_allclose(keep_mass(frozen, 2.0), keep_mass_by_arrays(v, 2.0), atol=1e-14)
    np.testing.assert_array_equal(keep_mass(v[::2], 2.0), keep_mass_by_arrays(v[::2], 2.0))
    np.testing.assert_array_equal(
        keep_mass(v.astype(np.float16), 2.0), keep_mass_by_arrays(v.astype(np.float16), 2.0)
    )
    np.testing.assert_allclose(abs(L1Ball(2.0).project(v.reshape(8, -1))).sum(), 2.0, rtol=1e-14)
    np.testing.assert_array_equal(frozen, v)


@pytest.mark.slow
def test_numba_is_imported_for_long_vectors_only() -> None:
    script = """
import sys, numpy as np, condgrad as cg
cg.sets.Simplex(5000).project(np.arange(5000.0))
assert "numba" not in sys.modules
n = cg.sets.threshold.COMPILED_FROM
cg.sets.Simplex(n).project(np.arange(float(n)))
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


@pytest.mark.parametrize("kind", [L1Ball, SolidSimplex])
def test_zeros_stay_zeros_just_outside(kind: Any) -> None:
    """Where a threshold is less than rounding of the largest entry, many small numbers would add up to a violation."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        x = np.zeros(12_600)
        x[[7, 11]] = rng.random(2)
        on = kind(x.sum() * (1.0 - rng.integers(1, 9) * 2.0**-52))
        for project in (on.project, getattr(on, "project_by_arrays", on.project)):
            assert set(np.flatnonzero(project(x))) <= {7, 11}
            assert on.violation(project(x)) <= 1e-14 * on.scale
