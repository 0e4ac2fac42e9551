"""Which runs take kernels where plain code would do: it depends on the run alone."""

from __future__ import annotations

import pytest

import condgrad as cg
from condgrad import kernels
from tests.methods import microarray


def trace_of(method: str) -> tuple[list[float], list[float]]:
    Z, y = microarray(5)
    f = cg.smooth.Logistic(Z, y, intercept=True)
    result = cg.minimize(f, cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0)), method=method, max_iter=20)
    return result.trace["value"].tolist(), result.trace["lower_bound"].tolist()


@pytest.mark.parametrize("method", ["cgs", "cg", "spg", "pqn"])
def test_a_run_is_the_same_to_the_last_digit_whatever_is_in_use_around_it(method: str) -> None:
    with kernels.within_run(used=False):
        plain = trace_of(method)
    with kernels.within_run(used=True):
        assert trace_of(method) == plain


def test_kernels_are_in_use_in_the_run_that_asks_for_them_and_no_longer() -> None:
    Z, y = microarray(5)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    for method, expected in (("spg", False), ("newton", True), ("spg", False)):
        seen: list[bool] = []
        cg.minimize(f, g, method=method, callback=lambda _, seen=seen: seen.append(kernels.in_use()))
        assert set(seen) == {expected}
        assert not kernels.in_use()
