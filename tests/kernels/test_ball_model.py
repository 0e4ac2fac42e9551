"""Models over the l1 ball and the solid simplex from guesses of a face: against CVXPY, and their own conditions."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.kernels import ball_model, chosen_columns

pytestmark = pytest.mark.slow  # functions inside kernels are compiled for these tests alone

Array = np.ndarray
seeds = st.integers(0, 2**32 - 1)


class Model:
    """A random model with more coordinates than samples, or fewer."""

    def __init__(self, seed: int, *, centred: bool, nonnegative: bool, share: float) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.m = int(rng.integers(1, 40)), int(rng.integers(2, 12))
        self.columns = rng.standard_normal((self.n, self.m))
        self.w = rng.random(self.m) * (rng.random(self.m) < 0.8)
        self.w[0] = 1.0
        self.centred, self.nonnegative = centred, nonnegative
        self.W = np.diag(self.w) - (np.outer(self.w, self.w) / self.w.sum() if centred else 0.0)
        self.pull = self.W @ (5.0 * rng.standard_normal(self.m))
        self.c = float(10.0 ** rng.uniform(-2, 1))
        self.H = self.columns @ self.W @ self.columns.T + self.c * np.eye(self.n)
        free = np.linalg.solve(self.H, self.columns @ self.pull)
        free = np.maximum(free, 0.0) if nonnegative else free
        self.size = share * float(np.abs(free).sum()) + 1e-3
        self.guess = rng.standard_normal(self.n) * (rng.random(self.n) < 0.5)
        if nonnegative:
            self.guess = np.abs(self.guess)
        everything = np.arange(self.n), self.columns, np.ones(self.n, bool)
        self.chosen = chosen_columns.named(
            chosen_columns.other_columns(chosen_columns.no_columns(self.m, self.n, 10**6), *everything)
        )
        self.kinks = ball_model.Kinks(np.empty(0), np.empty(0))

    def solve(self, size: float) -> tuple[Array, Array, bool]:
        rest = self.guess, True, self.c, 1.0 / np.diag(self.H).mean(), 100
        ball = ball_model.BallShape(size, self.nonnegative)
        found: tuple[Array, Array, bool] = ball_model.minimise(
            self.chosen, ball, self.kinks, self.w, self.centred, self.pull, *rest
        )
        return found

    def gap(self, y: Array, size: float) -> float:
        """max <gradient, y - s> over the points s of the set."""
        gradient = self.H @ y - self.columns @ self.pull
        steepest = max(0.0, float((-gradient).max()) if self.nonnegative else float(np.abs(gradient).max()))
        return float(gradient @ y + size * steepest)


@settings(max_examples=150)
@given(seed=seeds, centred=st.booleans(), nonnegative=st.booleans(), share=st.sampled_from([0.1, 0.5, 0.9, 2.0]))
def test_least_points_satisfy_the_optimality_conditions(
    seed: int, centred: bool, nonnegative: bool, share: float
) -> None:
    """What it calls least is least, one size after the other, with the row Gram matrix of the face before."""
    model = Model(seed, centred=centred, nonnegative=nonnegative, share=share)
    for size in (0.3 * model.size, model.size, 1.1 * model.size):
        y, image, is_least = model.solve(size)
        np.testing.assert_allclose(image, y @ model.columns, atol=1e-9 * max(1.0, np.abs(y).sum()))
        if is_least:
            assert np.abs(y).sum() <= size * (1.0 + 1e-9)
            assert not (nonnegative and y.min() < 0.0)
            assert model.gap(y, size) <= 1e-8 * max(1.0, float(np.abs(model.columns @ model.pull).max()) * size)
        row_gram, face_gram = model.chosen.row_gram, model.chosen.face_gram
        summed = model.columns[row_gram.is_summed]
        if model.n > model.m:
            np.testing.assert_allclose(row_gram.matrix, summed.T @ summed, atol=1e-9)
            np.testing.assert_allclose(row_gram.normal, row_gram.signs @ model.columns, atol=1e-9)
        known = np.flatnonzero(face_gram.place >= 0)
        places = np.ix_(face_gram.place[known], face_gram.place[known])
        np.testing.assert_allclose(face_gram.matrix[places], model.H[np.ix_(known, known)], atol=1e-9)
        model.guess = y if y.any() else model.guess


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_it_finds_what_cvxpy_finds(centred: bool, nonnegative: bool) -> None:
    found = 0
    for seed in range(12):
        model = Model(seed, centred=centred, nonnegative=nonnegative, share=0.5)
        y, _, is_least = model.solve(model.size)
        found += is_least
        if not is_least:
            continue
        x: Any = cp.Variable(model.n)
        limits = [cp.norm1(x) <= model.size] + ([x >= 0] if nonnegative else [])
        objective = 0.5 * cp.quad_form(x, cp.psd_wrap(model.H)) - (model.columns @ model.pull) @ x
        cp.Problem(cp.Minimize(objective), limits).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(y, x.value, atol=1e-3 * max(1.0, model.size))
    assert found >= 10


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_one_step_crosses_the_kinks_of_a_squared_hinge(intercept: bool, nonnegative: bool) -> None:
    """From 0, where all samples fall short, to the solution, where some do not; each is proved by the full problem."""
    found = crossed = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        m, n, ridge, size = 20, int(rng.integers(2, 60)), 0.3, 3.0
        X = rng.standard_normal((m, n))
        y = np.where(X[:, 0] + rng.standard_normal(m) > 0.0, 1.0, -1.0)
        f: Any = cg.smooth.SquaredHinge(X, y, sample_weight=rng.random(m) + 0.5, intercept=intercept)
        everything = np.arange(n), np.ascontiguousarray(X.T), np.ones(n, bool)
        chosen = chosen_columns.named(chosen_columns.other_columns(chosen_columns.no_columns(m, n, 10**6), *everything))
        x, here, ball = np.zeros(n), f.at(np.zeros(n)), ball_model.BallShape(size, nonnegative)
        model = f.h.compiled, ridge, x, here.z, here.intercept, here.theta, here.gradient
        end = ball_model.Step(*ball_model.step(chosen, ball, *model, 0.01, 1e-4, 0.9, 24))
        if not end.found:
            continue
        there = f.at(end.x)
        g = cg.simple.Ridge(ridge, on=cg.sets.SolidSimplex(size) if nonnegative else cg.sets.L1Ball(size))
        gap = there.gradient @ end.x + g.value(end.x) - g.argmin(there.gradient).bound
        assert end.loss == pytest.approx(there.value)
        found += gap <= 1e-9 * here.value
        crossed += bool((y * (there.z + there.intercept) > 1.0).any())
    assert found >= 25
    assert crossed >= 25


def test_columns_for_a_model() -> None:
    """Those of the point ahead and those with large slopes; fewer where they would be too many, or all of few."""
    rules = chosen_columns.ScreenRules(0.9, 0.5)
    ahead, slope = np.array([0.0, 1.0, 0.0, 0.0]), np.array([1.9, -2.0, 1.2, 0.0])
    for most, wanted in ((100, [True, True, True, False]), (4, [True, True, False, False]), (2, [False] * 4)):
        found = chosen_columns.columns_for(ahead, slope, True, 2, most, False, rules)
        np.testing.assert_array_equal(found, wanted)
    assert chosen_columns.columns_for(ahead, slope, False, 2, 100, False, rules).all()
    assert not chosen_columns.columns_for(ahead, slope, False, 2, 4, False, rules).any()
    assert chosen_columns.columns_for(np.ones(4), slope, True, 2, 100, True, rules).all()


def test_columns_that_suffice() -> None:
    """All that are not 0 at the point ahead, and those with slopes near the multiplier."""
    x, slope = np.array([1.0, 0.0, 0.0, 0.0]), np.array([-2.0, 1.9, 1.0, 0.0])
    chosen = np.array([True, True, False, False])
    ahead, on_boundary, suffice = ball_model.face_ahead(x, slope, 0.1, 1.0, False, chosen, 0.9)
    np.testing.assert_allclose(ahead, [1.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert on_boundary
    assert suffice
    assert not ball_model.face_ahead(x, slope, 0.1, 1.0, False, np.array([True, False, True, True]), 0.9)[2]
    assert not ball_model.face_ahead(x, slope, 0.1, 9.0, False, chosen, 0.9)[2]  # inside, all are needed


@given(seed=st.integers(0, 10_000))
def test_samples_that_fall_short_as_before_cross_no_kink(seed: int) -> None:
    """Whatever the rounding of their weights, which are multiplied and divided in another order."""
    rng = np.random.default_rng(seed)
    weights, y = rng.uniform(0.1, 2.0, 30), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    w = 2.0 * weights * (rng.random(30) < 0.5)
    w[0] = 2.0 * weights[0]
    unit = w.max()
    w, kinks = w / unit, ball_model.Kinks(y, 2.0 / unit * weights)
    image, before, pull = np.where(w > 0.0, 0.5, 1.5) * y, w.copy(), np.full(30, np.nan)
    assert not ball_model.cross_kinks(kinks, image, False, w, pull)
    np.testing.assert_array_equal(w, before)
    image[0] = 2.0 * y[0]  # it fell short before
    assert ball_model.cross_kinks(kinks, image, False, w, pull)
    assert np.count_nonzero(w) == np.count_nonzero(before) - 1
    np.testing.assert_allclose(pull, w * y, rtol=1e-15)
