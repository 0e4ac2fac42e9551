"""What compiled working sets are chosen by, and the linearised problem that they are certified with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.methods.one_pass import compiled_problem


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    ridge=st.sampled_from([0.0, 1e-300, 1e-3, 1.0]),
    decade=st.sampled_from([-3.0, 0.0, 3.0]),
    on=st.sampled_from([cg.sets.L1Ball(1.5), cg.sets.SolidSimplex(1.5)]),
)
def test_one_pass_gives_what_the_oracle_and_the_norms_of_columns_do(
    seed: int, ridge: float, decade: float, on: Any
) -> None:
    from condgrad.kernels.working_set import LinearisedOnBall, linearise

    rng = np.random.default_rng(seed)
    m, n = (12, 260) if seed % 3 else (40, 15)
    X = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
    y = np.where(X[:, 0] + rng.standard_normal(m) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    f: Any = cg.smooth.SquaredHinge(X, y, sample_weight=rng.uniform(0.5, 2.0, m), intercept=bool(seed % 2))
    g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
    x = 10.0**decade * rng.standard_normal(f.K.shape[1]) * (rng.random(f.K.shape[1]) < 0.1)
    problem = compiled_problem(f.compiled_matrix, f.h.compiled, ridge, g.on)
    here = f.at(x)
    found, expected = LinearisedOnBall(*linearise(problem, here.theta, x)), g.argmin(here.gradient)
    scale = np.abs(here.gradient).max()
    assert found.is_right
    np.testing.assert_allclose(found.c, here.gradient, rtol=0, atol=1e-13 * scale * f.K.shape[0])
    assert found.bound == pytest.approx(expected.bound, rel=1e-9, abs=1e-12 * scale)
    there = found.c @ found.point + g.value(found.point)
    assert there == pytest.approx(found.bound, rel=1e-7, abs=1e-12 * scale)
    assert found.image_size == pytest.approx(here.image_size, rel=1e-12)
    assert found.image_size_there == pytest.approx(f.image_size(found.point), rel=1e-12)
    assert g.on.contains(found.point, 1e-7)


@given(seed=st.integers(0, 10_000))
def test_coordinates_are_counted(seed: int) -> None:
    from condgrad.kernels.working_set import steepest_of_others, support_and_steep

    rng = np.random.default_rng(seed)
    x, pulls = rng.standard_normal(30) * (rng.random(30) < 0.3), rng.standard_normal(30)
    chosen = np.flatnonzero(rng.random(30) < 0.5)
    assert support_and_steep(x, pulls, 0.8) == (np.count_nonzero(x), np.count_nonzero((x != 0.0) | (pulls >= 0.8)))
    assert steepest_of_others(pulls, chosen) == np.delete(pulls, chosen).max(initial=0.0)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 60),
    digits=st.sampled_from([0, 1, 12]),
    middle=st.sampled_from([-5.0, 0.0, 5.0]),
)
def test_a_working_set_has_all_that_are_not_zero_and_the_steepest(
    seed: int, size: int, digits: int, middle: float
) -> None:
    """With pulls of few digits there are equal ones; all may be below 0."""
    from condgrad.kernels.working_set import not_zero_or_steep

    rng = np.random.default_rng(seed)
    x, pulls = rng.standard_normal(60) * (rng.random(60) < 0.1), np.round(middle + rng.standard_normal(60), digits)
    chosen = not_zero_or_steep(x, pulls, size)
    others = np.setdiff1d(np.arange(60), chosen)
    support = np.count_nonzero(x)
    assert np.all(np.diff(chosen) > 0)
    assert not x[others].any()
    assert max(support, size) <= len(chosen) <= max(support, 1.1 * size)
    steep = chosen[x[chosen] == 0.0]
    if len(steep) and len(others):
        assert pulls[steep].min() >= pulls[others].max()
    np.testing.assert_array_equal(not_zero_or_steep(x, 2.0**60 * pulls, size), chosen)


def test_no_kind_of_input_is_compiled_for_again() -> None:
    """A compilation takes half a minute, which no time limit cuts short."""
    from condgrad.ball.compiled.face_qp import minimise
    from condgrad.kernels.working_sets import solve_by_working_sets

    entry_points = minimise, solve_by_working_sets
    K = np.asfortranarray(np.random.default_rng(0).standard_normal((30, 8)))
    y, ones = K[:, 0].copy(), np.ones(8)
    boxes = cg.sets.Box(-ones, ones), cg.sets.Box(-ones, 1.0), cg.sets.Box(-1.0, 1.0)
    counts = set()
    for on in (cg.sets.L1Ball(1.0), cg.sets.Simplex(8), cg.sets.SolidSimplex(1.0), *boxes):
        for A in (K, K.copy(), np.ascontiguousarray(K), K.astype(np.float32)):
            for may_write in (True, False):
                A.flags.writeable = may_write
                cg.minimize(cg.smooth.LeastSquares(A, y), cg.simple.Ridge(0.1, on=on), method="newton", tol=1e-3)
                counts.add(tuple(len(each.signatures) for each in entry_points))
        for S in (scipy.sparse.csr_array(K), scipy.sparse.csc_array(K), scipy.sparse.csc_matrix(K.astype(np.float32))):
            for part in (S.data, S.indices, S.indptr):
                part.flags.writeable = False
            cg.minimize(cg.smooth.LeastSquares(S, y), cg.simple.Ridge(0.1, on=on), method="newton", tol=1e-3)
            counts.add(tuple(len(each.signatures) for each in entry_points))
    assert max(counts) == (1, 1)
