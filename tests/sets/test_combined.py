"""Products, hulls, hypersimplices and weighted balls: oracles and projections against other routes."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg

SEEDS = st.integers(0, 10_000)


def assert_projection(P: Any, v: Any, point: Any) -> None:
    """The projection of v is the one point p with <v - p, s - p> <= 0 for all s of the set."""
    away = v - point
    farthest = P.linear_argmin(-away).point
    size = float(np.abs(away).max() * (np.abs(point).sum() + np.abs(farthest).sum()))
    assert away @ (farthest - point) <= 1e-13 * size


@settings(max_examples=12)
@given(seed=SEEDS, power=st.sampled_from([-6, 0, 6]))
def test_weighted_balls_are_l1_balls_in_other_units(seed: int, power: int) -> None:
    """The oracle is that of the l1 ball for y = weights x."""
    rng = np.random.default_rng(seed)
    unit = 10.0**power
    weights = np.exp(rng.standard_normal(6))
    P = cg.sets.WeightedL1Ball(weights, unit)
    c = rng.standard_normal(6)
    plain = cg.sets.L1Ball(unit).linear_argmin(c / weights)
    assert np.isclose(P.linear_argmin(c).bound, plain.bound, rtol=1e-14)
    assert np.isclose(P.norm(P.linear_argmin(c).point), unit)
    v = 3.0 * unit * rng.standard_normal(6)
    point = P.project(v)
    assert P.violation(point) <= 1e-14 * unit
    assert_projection(P, v, point)
    assert np.array_equal(P.project(0.01 * point), 0.01 * point)


@settings(max_examples=12)
@given(seed=SEEDS, k=st.integers(1, 6), far=st.sampled_from([0.1, 1.0, 1e6]))
def test_hypersimplices_take_the_least_entries_and_project(seed: int, k: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    P = cg.sets.HyperSimplex(6, k)
    c = rng.standard_normal(6)
    assert np.isclose(P.linear_argmin(c).bound, np.sort(c)[:k].sum())
    v = far * rng.standard_normal(6)
    point = P.project(v)
    assert P.violation(point) <= 1e-14
    assert_projection(P, v, point)


@settings(max_examples=12)
@given(seed=SEEDS)
def test_products_answer_block_by_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [cg.sets.Simplex(3), cg.sets.L1Ball(2.0), cg.sets.Box(-1.0, [1.0, 2.0])]
    P = cg.sets.Product(*parts, shapes=[None, (2, 2), None])
    assert P.shape == (9,)
    c = rng.standard_normal(9)
    blocks = [c[:3], c[3:7].reshape(2, 2), c[7:]]
    answers = [part.linear_argmin(block) for part, block in zip(parts, blocks, strict=True)]
    assert np.isclose(P.linear_argmin(c).bound, sum(answer.bound for answer in answers))
    assert P.contains(P.linear_argmin(c).point)
    wanted = [part.project(block).ravel() for part, block in zip(parts, blocks, strict=True)]
    assert np.array_equal(P.project(c), np.concatenate(wanted))
    assert P.contains(P.start(cg.smooth.Linear(c).space))


def test_a_product_solves_as_its_parts_do() -> None:
    """Two problems side by side have the sum of both minima; entropies too."""
    rng = np.random.default_rng(0)
    target = rng.standard_normal(5)
    P = cg.sets.Product(cg.sets.Simplex(2), cg.sets.Simplex(3))
    for g, one, other in (
        (
            cg.simple.Ridge(0.5, on=P),
            cg.simple.Ridge(0.5, on=cg.sets.Simplex(2)),
            cg.simple.Ridge(0.5, on=cg.sets.Simplex(3)),
        ),
        (
            cg.simple.Entropy(0.5, on=P),
            cg.simple.Entropy(0.5, on=cg.sets.Simplex(2)),
            cg.simple.Entropy(0.5, on=cg.sets.Simplex(3)),
        ),
    ):
        whole = cg.minimize(cg.smooth.LeastSquares(np.eye(5), target), g, tol=1e-9)
        first = cg.minimize(cg.smooth.LeastSquares(np.eye(2), target[:2]), one, tol=1e-9)
        last = cg.minimize(cg.smooth.LeastSquares(np.eye(3), target[2:]), other, tol=1e-9)
        assert whole.success
        assert abs(whole.value - first.value - last.value) <= 1e-8 * whole.scale
    with pytest.raises(cg.MissingAbility, match="entropic_argmin"):
        cg.simple.Entropy(0.5, on=cg.sets.Product(cg.sets.L1Ball(1.0), shapes=[2]))


@settings(max_examples=12)
@given(seed=SEEDS, power=st.sampled_from([-6, 0, 6]))
def test_hulls_know_their_points(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    unit = 10.0**power
    vertices = unit * rng.standard_normal((5, 3))
    P = cg.sets.Hull(vertices)
    c = rng.standard_normal(3)
    assert P.linear_argmin(c).bound == pytest.approx((vertices @ c).min(), rel=1e-13)
    inside = rng.dirichlet(np.ones(5)) @ vertices
    assert P.violation(inside) == 0.0
    beyond = vertices[0] + 2.0 * (vertices[0] - vertices.mean(axis=0))
    weights = cvxpy.Variable(5, nonneg=True)
    distance = cvxpy.norm(vertices.T / unit @ weights - beyond / unit)
    best = cvxpy.Problem(cvxpy.Minimize(distance), [cvxpy.sum(weights) == 1]).solve(
        solver="CLARABEL"
    )
    assert np.isclose(P.violation(beyond) / unit, best, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cg.sets.WeightedL1Ball([1.0, 0.0], 1.0), "weights must be > 0, got 0"),
        (lambda: cg.sets.HyperSimplex(3, 4), "k must be at most n = 3, got 4"),
        (lambda: cg.sets.Product(), "at least one set"),
        (
            lambda: cg.sets.Product(cg.sets.L1Ball(1.0)),
            r"L1Ball\(radius=1.0\) does not know the shape",
        ),
        (
            lambda: cg.sets.Product(cg.sets.Simplex(2), shapes=[3]),
            r"points of shape \(2,\), got \(3,\)",
        ),
        (
            lambda: cg.sets.Product(cg.sets.Simplex(2), shapes=[None, 2]),
            "one entry for each of the 1 sets",
        ),
        (
            lambda: cg.sets.Hull([1.0, 2.0]),
            r"shape \(points, ...\) with at least one point, got \(2,\)",
        ),
    ],
)
def test_bad_input_gets_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
