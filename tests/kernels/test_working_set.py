"""Newton steps in one compiled call against the same steps in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.newton import faces
from condgrad.newton.folding import FoldedLoss

SETS = ("ball", "wide ball", "simplex", "box")
LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge)


def region_of(name: str, n: int) -> Any:
    if name == "simplex":
        return cg.sets.Simplex(n, mass=2.0)
    return cg.sets.Box(-0.3, 0.2) if name == "box" else cg.sets.L1Ball(1e3 if name == "wide ball" else 1.5)


def drawn(loss: type, on: str, seed: int, ridge: float, *, has_intercept: bool, wide: bool) -> tuple[Any, Any]:
    """A multiple of a loss and a linear term, and the simple part."""
    rng = np.random.default_rng(seed)
    m, n = (12, 260) if wide else (40, 15)
    X = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
    y = np.where(X[:, 0] + rng.standard_normal(m) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    f = 0.7 * loss(X, y, sample_weight=rng.uniform(0.5, 2.0, m), intercept=has_intercept)
    f = f + cg.smooth.Linear(0.1 * rng.standard_normal(n)) if seed % 2 else f
    region = region_of(on, n)
    return f, cg.simple.Ridge(ridge, on=region) if ridge else cg.simple.Zero(on=region)


def solved(f: Any, g: Any, steps: int, *, compiled: bool) -> faces.WorkingSet:
    """Some Newton steps in the working set of all coordinates."""
    working_set = faces.WorkingSet(FoldedLoss.of(f), g, None, None)
    assert working_set.compiled is not None
    if not compiled:
        working_set.compiled = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faces, "NEWTON_STEPS", steps)
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
    wide=st.booleans(),
    steps=st.sampled_from([1, 2, 20]),
)
def test_compiled_steps_are_those_in_python(
    loss: type, on: str, seed: int, ridge: float, has_intercept: bool, wide: bool, steps: int
) -> None:
    if wide:  # without a ridge the models are singular but for rounding, which decides where they lead
        ridge = max(ridge, 1e-3)
    f, g = drawn(loss, on, seed, ridge, has_intercept=has_intercept, wide=wide)
    compiled, plain = (solved(f, g, steps, compiled=each) for each in (True, False))
    start = plain.start_value
    assert compiled.here.value == pytest.approx(plain.here.value, abs=1e-6 * start)
    assert compiled.steps >= 1
    assert compiled.has_moved == plain.has_moved
    there = compiled.here
    np.testing.assert_allclose(there.u, compiled.K @ there.x, rtol=0, atol=1e-10 * (1.0 + np.abs(there.u).max()))
    again = compiled._at(there.x, there.u, near=there.loss.intercept)
    assert there.value == pytest.approx(again.value, rel=1e-11)
    np.testing.assert_allclose(there.loss.theta, again.loss.theta, rtol=0, atol=1e-9 * np.abs(again.loss.theta).max())
    assert g.on.violation(there.x) <= 1e-9 * g.on.scale


@pytest.mark.parametrize("on", SETS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([0.0, 1e-300, 1e-3, 1.0]))
def test_the_linearised_problem_is_solved(on: str, seed: int, ridge: float) -> None:
    """Its least value is what the oracle of the simple part says."""
    from condgrad.kernels.working_set import least_linearised

    f, g = drawn(cg.smooth.Logistic, on, seed, ridge, has_intercept=False, wide=False)
    problem, _ = faces.WorkingSet(FoldedLoss.of(f), g, None, None).compiled  # type: ignore[misc]
    c = np.random.default_rng(seed).standard_normal(15) * 10.0 ** (seed % 7 - 3)
    assert least_linearised(problem, c) == pytest.approx(g.argmin(c).bound, rel=1e-9, abs=1e-12 * np.abs(c).max())
