"""Which runs take kernels where plain code would do: it depends on the run alone."""

from __future__ import annotations

import numpy as np
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
def test_a_run_is_the_same_to_the_last_digit_whatever_ran_before(method: str) -> None:
    before = trace_of(method)
    trace_of("newton")
    cg.linear_model.path(*microarray(5), ridge=0.1)
    assert trace_of(method) == before


def test_kernels_are_in_use_to_the_end_of_the_run_that_asked_for_them() -> None:
    seen = []
    Z, y = microarray(5)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    for method in ("spg", "newton", "spg"):
        cg.minimize(f, g, method=method, callback=lambda _: seen.append(kernels.in_use()))
        seen.append(kernels.in_use())
    first, last = seen.index(True), len(seen) - 1 - seen[::-1].index(True)
    assert all(seen[first : last + 1])
    assert not any(seen[:first] + seen[last + 1 :])
    assert np.count_nonzero(seen) < len(seen)
