"""Quadratic models over polyhedral sets: against CVXPY, exhaustive search over faces, and the optimality conditions."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from condgrad.ball.compiled import (
    BOX,
    L1_BALL,
    PENALISED,
    PENALISED_POSITIVE,
    SIMPLEX,
    SOLID_SIMPLEX,
    Region,
    face_qp,
    ldl,
)
from condgrad.ball.compiled.free_block import ModelHessian, of_rows
from condgrad.sets import Box, L1Ball, Simplex, SolidSimplex
from tests.ball import reference

pytestmark = pytest.mark.slow  # functions inside kernels are compiled for these tests alone

Array = np.ndarray
KINDS = {"box": BOX, "simplex": SIMPLEX, "l1": L1_BALL, "solid simplex": SOLID_SIMPLEX}
FORMS = ["matrix", "rows"]
NONE = np.empty(0)
GO_ON = np.zeros(1, np.bool_)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(sorted(KINDS))
forms = st.sampled_from(FORMS)


def l1_ball(size: float) -> Region:
    return Region(L1_BALL, size, NONE, NONE)


class Model:
    """A random model, from well conditioned to nearly singular, and a start anywhere in its set."""

    def __init__(self, seed: int, kind: str, *, k: int, decade: float, scale: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.kind = KINDS[kind]
        m = int(rng.integers(1, 2 * k + 1))
        self.B = rng.standard_normal((k, m)) * 10.0 ** rng.uniform(-1.0, 1.0, (k, 1))
        if rng.random() < 0.3:
            self.B[k // 2 :] = self.B[: k - k // 2]  # duplicated coordinates
        self.c = np.full(k, 10.0**decade)
        self.H = self.B @ self.B.T + np.diag(self.c)
        self.q0 = 10.0 * self.B @ rng.standard_normal(m)
        self.size = scale * 10.0 ** rng.uniform(-2.0, 2.0)
        self.lower, self.upper = -self.size * rng.random(k), self.size * rng.random(k)
        self.x0 = self._start(rng, k)
        self.guess = float(rng.choice([-1.0, 0.0, 1.0]))

    def _start(self, rng: np.random.Generator, k: int) -> Array:
        if self.kind == BOX:
            return self.lower + (self.upper - self.lower) * rng.choice([0.0, 0.3, 1.0], k)
        x = rng.dirichlet(np.full(k, 0.3)) * (rng.random(k) < 0.7)
        x = x * self.size / x.sum() if x.any() else np.eye(k)[0] * self.size
        if self.kind == SIMPLEX:
            return x
        signs = rng.choice([-1.0, 1.0], k) if self.kind == L1_BALL else 1.0
        return x * signs * rng.choice([0.0, 0.5, 1.0])

    @property
    def region(self) -> Region:
        return Region(self.kind, self.size, self.lower, self.upper)

    def hessian(self, form: str) -> ModelHessian:
        """The Hessian in one of the forms that it may have."""
        if form == "matrix":
            return ModelHessian(self.H)
        means = self.B.sum(axis=1)
        more = scipy.sparse.csr_array(
            np.column_stack([self.B, means])
        )  # what the means take off again
        return of_rows(
            more.indptr, more.indices, more.data, more.shape[1], means=means, ridge=self.c
        )

    def solve(
        self, *, form: str = "matrix", rounds: int = 1000, accuracy: float = 1e-8
    ) -> tuple[Array, float, bool, bool]:
        rest = (self.q0, self.x0, self.region, self.guess, accuracy, rounds, GO_ON)
        return face_qp.minimise(self.hessian(form), *rest)

    def value(self, x: Array) -> float:
        d = x - self.x0
        return float(self.q0 @ d + 0.5 * d @ self.H @ d)

    def gap(self, x: Array) -> float:
        """max <q, x - s> over the set, by its vertices."""
        q = self.q0 + self.H @ (x - self.x0)
        if self.kind == BOX:
            return float(q @ x - np.minimum(q * self.lower, q * self.upper).sum())
        least = {SIMPLEX: q.min(), L1_BALL: -np.abs(q).max(), SOLID_SIMPLEX: min(0.0, q.min())}[
            self.kind
        ]
        return float(q @ x - self.size * least)

    def gap_with_ridge(self, x: Array) -> float:
        """max <q, x - s> - c |x - s|^2/2 over the set, at the projection of x - q/c: what is left to fall, at most."""
        q = self.q0 + self.H @ (x - self.x0)
        sets = {
            BOX: Box(self.lower, self.upper),
            SIMPLEX: Simplex(len(x), mass=self.size),
            L1_BALL: L1Ball(self.size),
            SOLID_SIMPLEX: SolidSimplex(self.size),
        }
        move = x - sets[self.kind].project(x - q / self.c)
        return float(q @ move - 0.5 * move @ (self.c * move))

    def excess(self, x: Array) -> float:
        """How far x is outside."""
        if self.kind == BOX:
            return float(max(0.0, (self.lower - x).max(), (x - self.upper).max()))
        if self.kind == SIMPLEX:
            return float(max(abs(x.sum() - self.size), -x.min()))
        below = 0.0 if self.kind == L1_BALL else -x.min()
        return float(max(0.0, below, np.abs(x).sum() - self.size))


@settings(max_examples=150)
@given(seed=seeds, kind=kinds, k=st.integers(1, 40), decade=st.floats(-8.0, 1.0), form=forms)
# a step that is short against the way to the least point of all ends on the boundary, not just before it
@example(seed=881510446, kind="l1", k=51, decade=-6.505494624533848, form="rows")
# on a face whose mu is 0 but for rounding, no way leads inside
@example(seed=146304143, kind="l1", k=33, decade=-6.632622559505766, form="rows")
# steps through the inside that the boundary cuts short, and proposals that lead inside again
@example(seed=2814683130, kind="solid simplex", k=37, decade=-5.202848343057306, form="matrix")
# a wrong guess of mu, inside, and no coordinate at its bound
@example(seed=1_935_651_347, kind="solid simplex", k=8, decade=-2.0, form="matrix")
def test_the_optimality_conditions_hold(
    seed: int, kind: str, k: int, decade: float, form: str
) -> None:
    model = Model(seed, kind, k=k, decade=decade)
    x, _, _, done = model.solve(form=form)
    assert done
    assert model.excess(x) <= 1e-12 * model.size
    scale = float(np.abs(model.q0) @ (np.abs(model.x0) + np.abs(x)))  # what rounding is a share of
    gap = model.gap(x) if form == "matrix" else model.gap_with_ridge(x)
    # a curvature of 1e-8 of the largest leaves half of the digits
    assert gap <= 1e-5 * max(-model.value(x), 1e-6 * scale)


@settings(max_examples=100)
@given(
    seed=seeds,
    kind=kinds,
    k=st.integers(1, 40),
    decade=st.floats(-2.0, 1.0),
    form=st.sampled_from(FORMS[1:]),
)
def test_a_model_by_rows_is_as_accurate_as_asked_for(
    seed: int, kind: str, k: int, decade: float, form: str
) -> None:
    """By the bound that keeps the ridge: no more than a tenth of the fall is left; max <q, x - s> may be more."""
    model = Model(seed, kind, k=k, decade=decade)
    x, _, _, done = model.solve(form=form, accuracy=0.1)
    assert done
    scale = float(np.abs(model.q0) @ (np.abs(model.x0) + np.abs(x)))
    assert model.gap_with_ridge(x) <= -0.1 * model.value(x) + 1e-12 * scale


@pytest.mark.parametrize("seed", [0, 1])
def test_a_nearly_singular_model_takes_fewer_rounds_than_coordinates(seed: int) -> None:
    """Coordinate descent proposes nothing there; one coordinate a round would be a hundred rounds."""
    rng = np.random.default_rng(seed)
    k, m, size = 300, 200, 100.0
    turned = np.linalg.qr(rng.standard_normal((m, m)))[0]
    B = rng.standard_normal((k, m)) * np.logspace(0.0, -3.0, m) @ turned
    H = B @ B.T
    H[np.diag_indices(k)] *= 1.0 + 1e-10
    x0 = np.zeros(k)
    x0[0] = size
    q0 = H @ x0 - B @ rng.standard_normal(m)
    x, _, _, done = face_qp.minimise(ModelHessian(H), q0, x0, l1_ball(size), -1.0, 1e-6, 50, GO_ON)
    assert done
    assert np.count_nonzero(x) > 90
    q, d = q0 + H @ (x - x0), x - x0
    assert q @ x + size * np.abs(q).max() <= -1e-5 * (q0 @ d + 0.5 * d @ H @ d)


def test_conjugate_gradients_end_where_the_ridge_allows() -> None:
    """Well conditioned and large, from a start near the solution: a pass or two leave little of a small fall."""
    rng = np.random.default_rng(0)
    k, m = 400, 600
    B = scipy.sparse.csr_array(rng.standard_normal((k, m)) * (rng.random((k, m)) < 0.05))
    hessian = of_rows(B.indptr, B.indices, B.data, m, means=np.zeros(k), ridge=np.ones(k))
    q0 = rng.standard_normal(k)
    solution, mu, _, _ = face_qp.minimise(
        hessian, q0, np.zeros(k), l1_ball(5.0), -1.0, 1e-12, 1000, GO_ON
    )
    x0 = solution * (1.0 + 1e-3 * rng.standard_normal(k))
    x0 *= 5.0 / np.abs(x0).sum()
    H = B @ B.T + scipy.sparse.eye_array(k)
    q = q0 + H @ x0
    x, _, _, done = face_qp.minimise(hessian, q, x0, l1_ball(5.0), mu, 0.1, 1, GO_ON)
    assert done
    fall, most = (-(q @ d + 0.5 * d @ (H @ d)) for d in (x - x0, solution - x0))
    assert 0.9 * most <= fall <= most * (1.0 + 1e-6)
    there = q + H @ (x - x0)
    assert (
        there @ x + 5.0 * np.abs(there).max() > 0.1 * fall
    )  # which the bound without the ridge would not have ended


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_clarabel(kind: str, seed: int) -> None:
    model = Model(seed, kind, k=12, decade=-1.0)
    x = cp.Variable(12)
    sets = {
        "box": [x >= model.lower, x <= model.upper],
        "simplex": [x >= 0, cp.sum(x) == model.size],
        "l1": [cp.norm1(x) <= model.size],
        "solid simplex": [x >= 0, cp.sum(x) <= model.size],
    }
    move = x - model.x0
    objective = model.q0 @ move + 0.5 * (
        cp.sum_squares(model.B.T @ move) + 0.1 * cp.sum_squares(move)
    )
    least = cp.Problem(cp.Minimize(objective), sets[kind]).solve(solver="CLARABEL")
    for form in FORMS:
        found = model.value(model.solve(form=form)[0])
        assert found == pytest.approx(least, rel=1e-6, abs=1e-6 * abs(least) + 1e-9)


@settings(max_examples=30)
@given(seed=seeds, kind=kinds, k=st.integers(1, 60), decade=st.floats(-8.0, 1.0), form=forms)
def test_it_agrees_with_the_plain_reference(
    seed: int, kind: str, k: int, decade: float, form: str
) -> None:
    """Random, ill-conditioned and degenerate models: duplicated coordinates, curvatures down to 1e-8."""
    model = Model(seed, kind, k=k, decade=decade)
    region = model.region
    plain = reference.minimise(model.H, model.q0, model.x0, region)
    assert model.excess(plain) <= 1e-9 * model.size
    found, least = model.value(model.solve(form=form)[0]), model.value(plain)
    scale = float(np.abs(model.q0) @ (np.abs(model.x0) + np.abs(plain)))
    assert found <= least + 1e-6 * abs(least) + 1e-11 * scale
    assert least <= found + 1e-6 * abs(found) + 1e-7 * scale


def least_of_all_faces(model: Model) -> float:
    """The least value over the set, by the equations of each of its faces."""
    k, least = len(model.x0), np.inf
    ends = {BOX: (0.0, 1.0, np.nan), L1_BALL: (0.0, 1.0, -1.0)}
    for signs in product(ends.get(model.kind, (0.0, np.nan)), repeat=k):
        pattern = np.array(signs)
        if model.kind == BOX:
            free = np.isnan(pattern)
            x = np.where(free, 0.0, np.where(pattern == 1.0, model.upper, model.lower))
        else:
            free, x = np.isnan(pattern) | (pattern != 0.0), np.zeros(k)
        for binding in {BOX: (False,), SIMPLEX: (True,)}.get(model.kind, (False, True)):
            A = np.flatnonzero(free)
            e = np.nan_to_num(pattern[A], nan=1.0)
            r = -(model.q0 + model.H @ (x - model.x0))[A]
            if binding:
                if len(A) == 0:
                    continue
                system = np.block(
                    [[model.H[np.ix_(A, A)], e[:, None]], [e[None, :], np.zeros((1, 1))]]
                )
                d = np.linalg.solve(system, np.r_[r, model.size])[:-1]
            else:
                d = np.linalg.solve(model.H[np.ix_(A, A)], r)
            y = x.copy()
            y[A] += d
            if model.excess(y) <= 1e-9 * model.size:
                least = min(least, model.value(y))
    return least


@settings(max_examples=30)
@given(seed=seeds, kind=kinds, k=st.integers(1, 4), form=forms)
def test_no_face_is_better(seed: int, kind: str, k: int, form: str) -> None:
    model = Model(seed, kind, k=k, decade=-1.0)
    least, found = least_of_all_faces(model), model.value(model.solve(form=form)[0])
    assert abs(found - least) <= 1e-6 * abs(least) + 1e-12


@settings(max_examples=20)
@given(seed=seeds, kind=kinds, form=forms)
def test_each_round_lowers_the_model_and_none_leaves_the_set(
    seed: int, kind: str, form: str
) -> None:
    """Stopped after any number of rounds it is feasible and no worse than before: the proof needs it."""
    model, before = Model(seed, kind, k=25, decade=-4.0), 0.0
    for rounds in range(1, 15):
        x, _, _, done = model.solve(form=form, rounds=rounds)
        assert model.excess(x) <= 1e-12 * model.size
        value = model.value(x)
        assert value <= before + 1e-9 * abs(before)
        before = value
        if done:
            break


@settings(max_examples=20)
@given(seed=seeds, kind=kinds, power=st.sampled_from([-41, 7, 40]), form=forms)
def test_a_power_of_two_changes_no_bit(seed: int, kind: str, power: int, form: str) -> None:
    model = Model(seed, kind, k=15, decade=-3.0)
    model.guess = -1.0
    x, mu, inside, done = model.solve(form=form)
    unit = 2.0**power
    model.q0, model.H = unit * model.q0, unit * model.H
    if form != "matrix":  # the square root of the unit goes into B
        unit = 2.0 ** (2 * (power // 2))
        model.q0, model.B, model.c = (
            model.q0 * 2.0 ** (-power) * unit,
            unit**0.5 * model.B,
            unit * model.c,
        )
    again = model.solve(form=form)
    np.testing.assert_array_equal(again[0], x)
    assert (again[1], again[2], again[3]) == (unit * mu, inside, done)


@pytest.mark.parametrize("power", [-700, 600])
def test_a_cut_at_the_boundary_knows_no_unit(power: int) -> None:
    unit, usual = 2.0**power, np.array([0.4, 1.2])
    other = unit * usual
    face_qp.cut_at_boundary(np.array([0.1, 0.2]), usual, 1.0)
    face_qp.cut_at_boundary(unit * np.array([0.1, 0.2]), other, unit)
    assert usual.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(other, unit * usual)


@pytest.mark.parametrize("power", [-700, 600])
def test_factors_that_lose_a_row_know_no_unit(power: int) -> None:
    H, k = Model(1, "l1", k=6, decade=0.0).H, 6
    found = []
    for unit in (1.0, 2.0**power):
        L, D, A = np.zeros((k, k)), np.zeros(k), np.arange(k)
        ldl.factor(L, D, k, unit * H, A, np.zeros(1, np.bool_))
        ldl.remove(L, D, k, A, 1)
        found.append((np.tril(L[: k - 1, : k - 1]), D[: k - 1] / unit))
    (L, D), (L_there, D_there) = found
    kept = np.delete(np.arange(k), 1)
    np.testing.assert_allclose(L @ np.diag(D) @ L.T, H[np.ix_(kept, kept)], rtol=1e-9)
    np.testing.assert_array_equal(L_there, L)
    np.testing.assert_array_equal(D_there, D)


def test_the_multiplier_is_that_of_the_norm() -> None:
    """A diagonal model: x_j = soft(-q_j, mu) with mu such that |x|_1 = size, and 0 where the ball is idle."""
    q0, k = np.array([3.0, -2.0, 0.5, 0.1]), 4
    eye, start, ending = ModelHessian(np.eye(k)), np.zeros(k), (-1.0, 1e-10, 50, GO_ON)
    x, mu, inside, _ = face_qp.minimise(eye, q0, start, l1_ball(2.0), *ending)
    np.testing.assert_allclose(x, [-1.5, 0.5, 0.0, 0.0], atol=1e-12)
    assert mu == pytest.approx(1.5)
    assert not inside
    x, mu, inside, _ = face_qp.minimise(eye, q0, start, l1_ball(9.0), *ending)
    np.testing.assert_allclose(x, -q0, atol=1e-12)
    assert (mu, inside) == (0.0, True)
    x, mu, inside, _ = face_qp.minimise(
        eye, -q0, start, Region(SOLID_SIMPLEX, 2.0, NONE, NONE), *ending
    )
    np.testing.assert_allclose(x, [2.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert mu == pytest.approx(1.0)
    assert not inside
    x, mu, inside, _ = face_qp.minimise(
        eye, -q0, start, Region(SOLID_SIMPLEX, 9.0, NONE, NONE), *ending
    )
    np.testing.assert_allclose(x, np.maximum(0.0, q0), atol=1e-12)
    assert (mu, inside) == (0.0, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_flag_that_is_set_stops_it_where_it_is(kind: str, form: str) -> None:
    """It returns a point of the set that is no worse than the start, and does not call it the least."""
    model = Model(3, kind, k=200, decade=-4.0)
    rest = (model.q0, model.x0, model.region, -1.0, 1e-8, 1000)
    x, _, _, done = face_qp.minimise(model.hessian(form), *rest, np.ones(1, np.bool_))
    assert not done
    assert model.excess(x) <= 1e-12 * model.size
    assert model.value(x) <= 0.0


@settings(max_examples=50)
@given(
    seed=seeds, kind=st.sampled_from(["l1", "simplex", "solid simplex"]), share=st.floats(0.0, 1.0)
)
@example(seed=0, kind="simplex", share=0.9)
def test_conjugate_gradients_that_give_up_leave_a_point_of_the_set(
    seed: int, kind: str, share: float
) -> None:
    """They stop it in the middle of a walk, where coordinates may be fixed and the sum is another."""
    model, k = Model(seed, kind, k=40, decade=-6.0), 40
    spent, stop = np.array([share * k**3]), np.zeros(1, np.bool_)
    rest = (model.q0, model.x0, model.region, -1.0, 1e-8, 1000, stop)
    x, _, _, done = face_qp.minimise(model.hessian("rows")._replace(spent=spent), *rest)
    assert model.excess(x) <= 1e-12 * model.size
    assert model.value(x) <= 1e-12 * float(np.abs(model.q0) @ np.abs(model.x0))
    assert not (done and stop[0])


def test_a_proposal_of_two_thousand_coordinates_is_not_walked_one_by_one() -> None:
    """From the inside of the ball, few rounds lead to a face of a few hundred out of 2000 coordinates."""
    rng = np.random.default_rng(0)
    k, m = 2000, 40
    B = rng.standard_normal((k, m))
    x0 = np.where(np.arange(k) < 100, 0.04, 0.0)
    q0 = B @ rng.standard_normal(m)
    x, mu, inside, done = face_qp.minimise(
        ModelHessian(B @ B.T + 1e-2 * np.eye(k)), q0, x0, l1_ball(0.2 * 40.0), 0.0, 1e-8, 30, GO_ON
    )
    assert done
    q = q0 + B @ (B.T @ (x - x0)) + 1e-2 * (x - x0)
    assert q @ x + 8.0 * np.abs(q).max() <= 1e-7 * abs(q0 @ (x - x0))
    assert inside == (mu == 0.0)


class PenalisedModel(Model):
    """A random model plus mu |x|_1, over all x or x >= 0."""

    def __init__(self, seed: int, kind: int, *, k: int, decade: float) -> None:
        super().__init__(seed, "l1", k=k, decade=decade)
        rng = np.random.default_rng(seed)
        if kind == PENALISED_POSITIVE:
            self.x0 = np.abs(self.x0)
        largest = np.abs(self.q0 - self.H @ self.x0).max()
        self.kind, self.size = kind, float(largest * rng.choice([1e-3, 0.1, 0.5, 1.1]))
        self.lower = self.upper = NONE
        if k <= 10 and rng.random() < 0.5:  # what the norm of the least point does not exceed
            least = reference.minimise(self.H, self.q0, self.x0, self.region)
            self.lower = np.array([2.0 * np.abs(least).sum()])

    def value(self, x: Array) -> float:
        return super().value(x) + self.size * float(np.abs(x).sum() - np.abs(self.x0).sum())

    def violation(self, x: Array) -> float:
        """How far the optimality conditions are from holding, as a share of the multiplier."""
        q = self.q0 + self.H @ (x - self.x0)
        at_zero = np.abs(q) if self.kind == PENALISED else -q
        return float(
            np.where(x != 0.0, np.abs(q + self.size * np.sign(x)), at_zero - self.size).max()
            / self.size
        )


penalties = st.sampled_from([PENALISED, PENALISED_POSITIVE])


@settings(max_examples=20)
@given(seed=seeds, kind=penalties, k=st.integers(1, 10), decade=st.floats(-1.0, 1.0), form=forms)
def test_a_penalised_model_agrees_with_the_plain_reference(
    seed: int, kind: int, k: int, decade: float, form: str
) -> None:
    model = PenalisedModel(seed, kind, k=k, decade=decade)
    x, mu, inside, done = model.solve(form=form, accuracy=1e-10)
    assert done
    assert (mu, inside) == (model.size, False)
    assert kind == PENALISED or x.min() >= 0.0
    least = model.value(reference.minimise(model.H, model.q0, model.x0, model.region))
    scale = float(np.abs(model.q0) @ (np.abs(model.x0) + np.abs(x)))
    assert abs(model.value(x) - least) <= 1e-8 * abs(least) + 1e-12 * scale


@settings(max_examples=50)
@given(seed=seeds, kind=penalties, k=st.integers(1, 40), decade=st.floats(-4.0, 1.0))
def test_the_conditions_of_a_penalised_model_hold(
    seed: int, kind: int, k: int, decade: float
) -> None:
    model = PenalisedModel(seed, kind, k=k, decade=decade)
    x, _, _, done = model.solve()
    assert done
    scale = float(np.abs(model.H @ np.abs(x)).max() + np.abs(model.q0).max()) / model.size
    assert model.violation(x) <= 1e-6 + 1e-10 * scale  # from a gap of 1e-8


@settings(max_examples=15)
@given(seed=seeds, kind=penalties, power=st.sampled_from([-40, 8]))
def test_a_power_of_two_changes_no_bit_of_a_penalised_model(
    seed: int, kind: int, power: int
) -> None:
    model = PenalisedModel(seed, kind, k=15, decade=-3.0)
    x, unit = model.solve()[0], 2.0**power
    model.q0, model.H, model.size = unit * model.q0, unit * model.H, unit * model.size
    np.testing.assert_array_equal(model.solve()[0], x)


@settings(max_examples=20)
@given(seed=seeds)
def test_the_multiplier_of_a_ball_gives_its_least_point_back(seed: int) -> None:
    """The ball of the norm of a penalised solution, and the penalty of a ball's multiplier, agree."""
    model = Model(seed, "l1", k=20, decade=-1.0)
    x, mu, inside, _ = model.solve(accuracy=1e-12)
    if inside or mu <= 1e-6 * np.abs(model.q0).max():
        return
    penalised = Region(PENALISED, mu, NONE, NONE)
    again, _, _, done = face_qp.minimise(
        ModelHessian(model.H), model.q0, model.x0, penalised, -1.0, 1e-12, 1000, GO_ON
    )
    assert done
    np.testing.assert_allclose(again, x, atol=1e-6 * model.size)


def test_a_cut_from_a_point_that_rounding_took_outside_ends_there() -> None:
    x = np.array([0.05, -0.05 * (1.0 + 1e-12)])
    y = np.array([0.3, -0.2])
    face_qp.cut_at_boundary(x, y, 0.1)
    np.testing.assert_array_equal(y, x)
