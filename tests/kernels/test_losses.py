"""Compiled losses and their best intercepts, against operations on whole arrays and the equations that they solve."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

import condgrad as cg
from condgrad import kernels
from condgrad.kernels import losses

pytestmark = pytest.mark.slow  # functions inside kernels are compiled for these tests alone

LOSSES = (cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge)
seeds, decades = st.integers(0, 10_000), st.floats(-3.0, 2.9)


def drawn(kind: type, seed: int, decade: float, *, has_intercept: bool = False) -> tuple[Any, np.ndarray]:
    """A loss with weights, some of them 0, and a point."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 3.0, 40) * (rng.random(40) < 0.9)
    y = np.where(rng.permutation(40) < 2 + seed % 37, 1.0, -1.0)
    weights[[np.argmax(y), np.argmin(y)]] = 1.0  # both classes count
    z = 10.0**decade * rng.standard_normal(40)
    return kind(rng.standard_normal((40, 2)), y, sample_weight=weights, intercept=has_intercept).h, z


@pytest.mark.parametrize("kind", LOSSES)
@given(seed=seeds, decade=decades)
def test_values_and_derivatives_are_those_of_whole_arrays(kind: type, seed: int, decade: float) -> None:
    h, z = drawn(kind, seed, decade)
    theta, w = np.empty(40), np.empty(40)
    value, gradient = h.evaluate_by_arrays(z)
    assert losses.loss_at(h.compiled, z, 0.0, theta) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(theta, gradient, rtol=1e-13, atol=1e-300)
    losses.set_curvature(h.compiled, z, 0.0, w)
    np.testing.assert_allclose(w, h.curvature_by_arrays(z), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("kind", LOSSES)
@given(seed=seeds, decade=decades, near=st.sampled_from([None, 0.0, 30.0]))
def test_the_best_intercept_is_that_of_the_plain_reference(
    kind: type, seed: int, decade: float, near: float | None
) -> None:
    h, z = drawn(kind, seed, decade, has_intercept=True)
    theta = np.empty(40)
    value, b = losses.set_loss(h.compiled, z, np.nan if near is None else near, theta)
    with kernels.within_run(used=False):
        expected = h.at_best_intercept(z, near=near)
    scale = np.abs(z).max()
    assert value == pytest.approx(expected.value, rel=1e-9, abs=1e-12 * scale)
    if kind is not cg.smooth.Logistic or decade < 1.0:  # far out the loss of separated classes hardly knows its b
        assert b == pytest.approx(expected.intercept, rel=1e-9, abs=1e-9 * scale)
    assert abs(theta.sum()) <= 1e-8 * np.abs(theta).sum() + 1e-300


@pytest.mark.parametrize("kind", LOSSES)
@given(seed=seeds, decade=decades, power=st.sampled_from([-300, -40, 40, 300]))
def test_the_unit_of_the_weights_changes_nothing_else(kind: type, seed: int, decade: float, power: int) -> None:
    h, z = drawn(kind, seed, decade, has_intercept=True)
    unit = 2.0**power
    h, other = (kind(np.ones((40, 1)), h.y, sample_weight=s * h.weights, intercept=True).h for s in (1.0, unit))
    theta, scaled = np.empty(40), np.empty(40)
    value, b = losses.set_loss(h.compiled, z, np.nan, theta)
    assert losses.set_loss(other.compiled, z, np.nan, scaled) == (unit * value, b)
    np.testing.assert_allclose(scaled, unit * theta, rtol=0.0, atol=1e-323)  # the last two digits below normal numbers


@pytest.mark.parametrize("compiled", [True, False])
@given(seed=seeds, power=st.sampled_from([-80, -20, 20, 80]))
def test_the_unit_of_the_targets_changes_nothing_else(compiled: bool, seed: int, power: int) -> None:
    """A theta that did not sum to 0 where residuals are large would be no point of the dual."""
    rng = np.random.default_rng(seed)
    y, z, unit = rng.standard_normal(40), 1e3 + rng.standard_normal(40), 2.0**power
    h, other = (cg.smooth.LeastSquares(np.ones((40, 1)), s * y, intercept=True).h for s in (1.0, unit))
    with kernels.within_run(used=compiled):
        value, theta, b = h.at_best_intercept(z)
        scaled = other.at_best_intercept(unit * z)
    assert (scaled.value, scaled.intercept) == (unit * unit * value, unit * b)
    np.testing.assert_array_equal(scaled.theta, unit * theta)


@given(seed=seeds, decade=st.floats(-3.0, 2.0), distance=st.floats(-6.0, 1.0))
def test_steps_from_a_near_intercept_end_at_the_best(seed: int, decade: float, distance: float) -> None:
    """The loss and its gradient at the root that a scalar solver finds, and a theta that sums to 0."""
    h, z = drawn(cg.smooth.Logistic, seed, decade, has_intercept=True)
    pull = lambda b: float(h.weights @ (expit(z + b) - (h.y > 0.0)))  # noqa: E731
    reach = np.abs(z).max() + 50.0
    root = brentq(pull, -reach, reach, xtol=1e-14, rtol=1e-15)
    theta = np.empty(40)
    value, b, is_best = losses.logistic_nearby(h.compiled, z, root + 10.0**distance, theta)
    if distance < -1.0:  # farther away it may leave the search to logarithms
        assert is_best or np.abs(theta).sum() > 1e5 * h.loss.curvature_by_arrays(z + root).sum()
    if is_best:
        expected, gradient = h.loss.evaluate_by_arrays(z + root)
        size = np.abs(gradient).sum()
        assert value == pytest.approx(expected, rel=1e-13)
        # rounding of the sum, which the judge has too, moves the root by this share of the curvature
        slack = 1e-13 * size / h.loss.curvature_by_arrays(z + root).sum()
        assert b == pytest.approx(root, rel=1e-13, abs=slack)
        np.testing.assert_allclose(theta, gradient, rtol=1e-10, atol=slack * size)
        assert abs(math.fsum(theta)) <= 4e-16 * 40 * size


def test_margins_beyond_all_exponentials_are_left_to_logarithms() -> None:
    z, y = np.array([-4000.0, -4500.0, 6000.0, 7000.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    h: Any = cg.smooth.Logistic(np.eye(4), y, intercept=True).h
    loss, theta = h.compiled, np.empty(4)
    for near in (np.nan, -1000.0, 0.0, 1e5):
        value, b = losses.set_loss(loss, z, near, theta)
        assert b == pytest.approx(-1000.0, rel=1e-12)
        assert value == 0.0
    value, _ = losses.set_loss(loss, -z, np.nan, theta)  # all of them far on the wrong side
    assert value == pytest.approx(np.abs(z).sum(), rel=1e-15)
    np.testing.assert_array_equal(theta, -y)


def test_arrays_that_cannot_be_written_are_copied() -> None:
    """Code compiled for them once more would take a minute at a user's first fit."""
    y, weights = np.array([1.0, -1.0]), np.ones(2)
    for each in (y, weights):
        each.flags.writeable = False
    loss = cg.smooth.LeastSquares(np.eye(2), y, sample_weight=weights).h.compiled
    assert loss.y.flags.writeable
    assert loss.weights.flags.writeable


@pytest.mark.parametrize("kind", LOSSES[1:])
def test_a_class_without_a_weight_beside_the_other_is_none(kind: type) -> None:
    with pytest.raises(ValueError, match=r"two classes, each with a positive sample_weight.*got only -1"):
        kind(np.eye(3), [1, -1, 1], sample_weight=[1e-300, 1e300, 1e-300], intercept=True)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("power", [-700, 600, 800])
def test_what_an_intercept_leaves_is_balanced_in_every_unit(kind: type, power: int) -> None:
    """To the last bit as in the usual unit, though products of two gradients are no floats."""
    h, z = drawn(kind, 3, 0.0, has_intercept=True)
    usual, other = np.empty(40), np.empty(40)
    b = losses.best_intercept(h.compiled, z, 0.0) + 1e-3
    losses.loss_at(h.compiled, z, b, usual)
    loss = h.compiled._replace(weights=2.0**power * h.compiled.weights)
    losses.loss_at(loss, z, b, other)
    assert abs(usual.sum()) > 1e-6 * np.abs(usual).sum()
    losses.balance(h.compiled, z, b, usual)
    losses.balance(loss, z, b, other)
    assert abs(usual.sum()) <= 1e-14 * np.abs(usual).sum()
    np.testing.assert_array_equal(other, 2.0**power * usual)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("samples", [24, 26, 30])
def test_no_digit_depends_on_where_arrays_lie(kind: type, has_intercept: bool, samples: int) -> None:
    """Neighbours in memory, within a few vectors, take other code where a loop writes one and sums another."""
    rng = np.random.default_rng(samples)
    for _ in range(10):
        y = np.where(rng.permutation(samples) < 9, 1.0, -1.0)
        h: Any = kind(np.ones((samples, 1)), y, intercept=has_intercept).h
        z, weights, room = rng.standard_normal(samples), rng.uniform(0.5, 2.0, samples), np.empty(8 * samples)
        seen = set()
        for gap, order in itertools.product((0, 2, 8), itertools.permutations(range(4))):
            places = [room[k * (samples + gap) :][:samples] for k in order]
            for place, array in zip(places, (z, y, weights), strict=False):
                place[:] = array
            loss = h.compiled._replace(y=places[1], weights=places[2])
            seen.add(losses.set_loss(loss, places[0], 0.1, places[3]))
        assert len(seen) == 1
