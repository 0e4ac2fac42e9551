"""Newton steps in one compiled call against the same steps in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.methods.one_pass import compiled_problem
from condgrad.newton import working_set as newton
from condgrad.smooth.folding import FoldedLoss

SETS = ("ball", "wide ball", "simplex", "solid simplex", "wide solid simplex", "box")
LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge)


def region_of(name: str, n: int) -> Any:
    if name == "simplex":
        return cg.sets.Simplex(n, mass=2.0)
    if name.endswith("solid simplex"):
        return cg.sets.SolidSimplex(1e3 if name.startswith("wide") else 1.5)
    return cg.sets.Box(-0.3, 0.2) if name == "box" else cg.sets.L1Ball(1e3 if name == "wide ball" else 1.5)


def drawn(
    loss: type, on: str, seed: int, ridge: float, *, has_intercept: bool, wide: bool, sparse: bool = False
) -> tuple[Any, Any]:
    """A multiple of a loss and a linear term, and the simple part."""
    rng = np.random.default_rng(seed)
    m, n = (12, 260) if wide else (40, 15)
    X: Any = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
    y = np.where(X[:, 0] + rng.standard_normal(m) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if sparse:
        X = scipy.sparse.csr_array(X * (rng.random((m, n)) < 0.25))
    f = 0.7 * loss(X, y, sample_weight=rng.uniform(0.5, 2.0, m), intercept=has_intercept)
    f = f + cg.smooth.Linear(0.1 * rng.standard_normal(n)) if seed % 2 else f
    region = region_of(on, n)
    return f, cg.simple.Ridge(ridge, on=region) if ridge else cg.simple.Zero(on=region)


def solved(f: Any, g: Any, steps: int, *, compiled: bool) -> newton.WorkingSet:
    """Some Newton steps in the working set of all coordinates."""
    working_set = newton.WorkingSet(FoldedLoss.of(f), g, None, None)
    assert working_set.compiled is not None
    if not compiled:
        working_set.compiled = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "NEWTON_STEPS", steps)
        working_set.begin(ObjectivePoint(f, g, g.on.start(f.space), Tally()))
        working_set.solve(0.0)
    return working_set


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("on", SETS)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    ridge=st.sampled_from([0.0, 1e-3, 1.0]),
    has_intercept=st.booleans(),
    kind=st.sampled_from(["tall", "wide", "sparse"]),
    steps=st.sampled_from([1, 2, 20]),
)
def test_compiled_steps_are_those_in_python(
    loss: type, on: str, seed: int, ridge: float, has_intercept: bool, kind: str, steps: int
) -> None:
    wide = kind == "wide"
    if wide:  # without a ridge the models are singular but for rounding, which decides where they lead
        ridge = max(ridge, 1e-3)
    f, g = drawn(loss, on, seed, ridge, has_intercept=has_intercept, wide=wide, sparse=kind == "sparse")
    compiled, plain = (solved(f, g, steps, compiled=each) for each in (True, False))
    # models by rows end at a small gap, wherever that is
    fall = plain.start_value - plain.here.value
    assert compiled.here.value == pytest.approx(plain.here.value, abs=1e-2 * fall if wide else 1e-6 * plain.start_value)
    assert compiled.steps >= 1
    assert compiled.has_moved == plain.has_moved
    there = compiled.here
    np.testing.assert_allclose(there.u, compiled.K @ there.x, rtol=0, atol=1e-10 * (1.0 + np.abs(there.u).max()))
    again = compiled._at(there.x, there.u, near=there.loss.intercept)
    assert there.value == pytest.approx(again.value, rel=1e-11)
    # where all margins are met, theta is nothing but the rounding of u
    rounding = 1e-9 * np.abs(again.loss.theta).max() + 1e-15 * (1.0 + np.abs(there.u).max())
    np.testing.assert_allclose(there.loss.theta, again.loss.theta, rtol=0, atol=rounding)
    assert g.on.violation(there.x) <= 1e-9 * g.on.scale


@pytest.mark.parametrize("on", SETS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([0.0, 1e-300, 1e-3, 1.0]))
def test_the_linearised_problem_is_solved(on: str, seed: int, ridge: float) -> None:
    """Its least value is what the oracle of the simple part says."""
    from condgrad.kernels.working_set import least_linearised

    f, g = drawn(cg.smooth.Logistic, on, seed, ridge, has_intercept=False, wide=False)
    problem, _ = newton.WorkingSet(FoldedLoss.of(f), g, None, None).compiled  # type: ignore[misc]
    c = np.random.default_rng(seed).standard_normal(15) * 10.0 ** (seed % 7 - 3)
    assert least_linearised(problem, c) == pytest.approx(g.argmin(c).bound, rel=1e-9, abs=1e-12 * np.abs(c).max())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    ridge=st.sampled_from([0.0, 1e-300, 1e-3, 1.0]),
    decade=st.sampled_from([-3.0, 0.0, 3.0]),
    on=st.sampled_from(["ball", "solid simplex"]),
)
def test_one_pass_gives_what_the_oracle_and_the_norms_of_columns_do(
    seed: int, ridge: float, decade: float, on: str
) -> None:
    from condgrad.kernels.working_set import LinearisedOnBall, linearise

    f, g = drawn(cg.smooth.SquaredHinge, on, 2 * seed, ridge, has_intercept=bool(seed % 2), wide=bool(seed % 3))
    f = f.terms[0]
    rng = np.random.default_rng(seed)
    x = 10.0**decade * rng.standard_normal(f.K.shape[1]) * (rng.random(f.K.shape[1]) < 0.1)
    problem = compiled_problem(f.compiled_matrix, f.h.compiled, None, ridge, g.on)
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
    from condgrad.kernels import working_set

    K = np.asfortranarray(np.random.default_rng(0).standard_normal((30, 8)))
    y, ones = K[:, 0].copy(), np.ones(8)
    boxes = cg.sets.Box(-ones, ones), cg.sets.Box(-ones, 1.0), cg.sets.Box(-1.0, 1.0)
    counts = set()
    for on in (cg.sets.L1Ball(1.0), cg.sets.Simplex(8), cg.sets.SolidSimplex(1.0), *boxes):
        for A in (K, K.copy(), np.ascontiguousarray(K), K.astype(np.float32)):
            for may_write in (True, False):
                A.flags.writeable = may_write
                cg.minimize(cg.smooth.LeastSquares(A, y), cg.simple.Ridge(0.1, on=on), method="newton", tol=1e-3)
                counts.add(len(working_set.solve.signatures))
        for S in (scipy.sparse.csr_array(K), scipy.sparse.csc_array(K), scipy.sparse.csc_matrix(K.astype(np.float32))):
            for part in (S.data, S.indices, S.indptr):
                part.flags.writeable = False
            cg.minimize(cg.smooth.LeastSquares(S, y), cg.simple.Ridge(0.1, on=on), method="newton", tol=1e-3)
            counts.add(len(working_set.solve.signatures))
    assert counts == {1}
