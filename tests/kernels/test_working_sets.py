"""Working set after working set in one compiled call: what it says of its end, and the turns of Python as a judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad import kernels
from condgrad.kernels.working_set import LinearisedOnBall, linearise
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.one_pass import OnePass
from condgrad.newton.faces import FaceNewton
from condgrad.stopping import RelativeGap

LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge)
WANTED = 1e-7


def drawn(
    loss: type,
    seed: int,
    ridge: float,
    radius: float,
    *,
    has_intercept: bool,
    multiple: bool,
    positive: bool,
    sparse: bool,
) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X: Any = rng.standard_normal((30, 400)) * 10.0 ** rng.uniform(-0.5, 0.5, 400) + rng.uniform(-1.0, 1.0, 400)
    y = np.where(X[:, 0] + rng.standard_normal(30) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if sparse:
        X = (scipy.sparse.csc_array, scipy.sparse.csr_array)[seed % 2](X * (rng.random(X.shape) < 0.3))
    f = loss(X, y, sample_weight=rng.uniform(0.5, 2.0, 30), intercept=has_intercept)
    ball = cg.sets.SolidSimplex(radius) if positive else cg.sets.L1Ball(radius)
    return 0.3 * f if multiple else f, cg.simple.Ridge(ridge, on=ball) if ridge else cg.simple.Zero(on=ball)


problems = given(
    seed=st.integers(0, 10_000),
    ridge=st.sampled_from([0.0, 1e-2, 1.0]),
    radius=st.sampled_from([0.01, 0.3, 2.0]),
    has_intercept=st.booleans(),
    multiple=st.booleans(),
    positive=st.booleans(),
    sparse=st.booleans(),
)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15)
@problems
def test_what_it_says_of_its_end_is_so(loss: type, **drawing: Any) -> None:
    f, g = drawn(loss, **drawing)
    with kernels.within_run(used=True):
        certifier = Certifier(f, g, Tally())
        start = ObjectivePoint(f, g, np.zeros(400), certifier.tally)
        certifier.iterate(start, 0.0)
        end, _ = replace(FaceNewton.of(f, g), wanted=WANTED)._ahead(start, certifier.one_pass, 400)
        assert end is not None
        assert end.linearised is not None
        iterate = certifier.iterate(end, 1.0)
    value, gradient = f.value_and_gradient(end.x)
    assert g.on.violation(end.x) <= 1e-15 * g.on.scale
    assert end.smooth.value == pytest.approx(value, abs=1e-11 * start.value)
    assert end.value < start.value
    np.testing.assert_allclose(end.linearised.c, gradient, rtol=0, atol=1e-11 * np.abs(start.gradient).max())
    # the bound of Lemma 2, by the oracle of the simple part
    oracle = g.argmin(gradient)
    bound = value - gradient @ end.x + oracle.bound
    assert iterate.lower_bound <= bound + 1e-11 * start.value
    assert iterate.lower_bound == pytest.approx(bound, abs=1e-9 * start.value)
    # what it gives away for rounding, by the certificate of points that no kernel has seen
    plain = Certifier(f, g, Tally()).iterate(ObjectivePoint(f, g, end.x, Tally()), 1.0)
    assert iterate.noise == pytest.approx(plain.noise, rel=1e-3, abs=1e-17 * start.value)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15)
@problems
def test_it_ends_where_the_turns_of_python_end(loss: type, **drawing: Any) -> None:
    f, g = drawn(loss, **drawing)
    in_one_call = cg.minimize(f, g, method="newton", tol=WANTED)
    # a rule of its own says nothing of a tolerance, without which the first gap is all that is known
    by_turns = cg.minimize(f, g, method="newton", stop=RelativeGap(WANTED))
    assert in_one_call.success
    assert by_turns.success
    assert max(in_one_call.lower_bound, by_turns.lower_bound) <= min(in_one_call.value, by_turns.value)
    if loss is cg.smooth.Logistic:  # others may be handed on, to the dual or to models of the inside
        assert in_one_call.iterations < max(2, by_turns.iterations)


def test_a_wide_model_of_many_coordinates_is_solved_in_one_call() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3000))
    f, g = cg.smooth.Logistic(X, np.sign(X[:, 0])), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(13.0))
    in_one_call = cg.minimize(f, g, method="newton", tol=WANTED)
    judge = cg.minimize(f, g, method="spg", tol=WANTED)
    assert np.count_nonzero(in_one_call.x) > 1000
    assert in_one_call.success
    assert in_one_call.iterations == 1
    assert max(in_one_call.lower_bound, judge.lower_bound) <= min(in_one_call.value, judge.value)


def test_slopes_that_are_not_finite_prove_nothing() -> None:
    f, g = drawn(LOSSES[1], 0, 1.0, 0.3, has_intercept=False, multiple=False, positive=True, sparse=False)
    with kernels.within_run(used=True):
        oracle: Any = OnePass.of(f, g)
    x, theta = np.zeros(400), f.at(np.zeros(400)).theta
    assert LinearisedOnBall(*linearise(oracle.compiled, theta, x)).is_right
    for entry in (np.nan, np.inf):
        theta[3] = entry
        assert not LinearisedOnBall(*linearise(oracle.compiled, theta, x)).is_right
