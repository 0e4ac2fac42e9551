"""Faces of polyhedral sets: the derivative of a projection, and how far a face goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.problem import Face, Set
from condgrad.sets import Box, L1Ball, L2Ball, NuclearBall, Simplex, SolidSimplex

Array = np.ndarray
N = 7
SIZES = (1e-6, 1.0, 1e6)
LAW = settings(max_examples=30)
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from(SIZES)
names = st.sampled_from(["l1", "simplex", "solid simplex", "box", "numbers", "flat box"])


def made(name: str, size: float) -> Set:
    """A set of the family, `size` times as large as the first."""
    rng = np.random.default_rng(0)
    lower, upper = size * rng.uniform(-1.0, 0.2, N), size * rng.uniform(0.4, 1.0, N)
    if name == "l1":
        return L1Ball(size)
    if name == "simplex":
        return Simplex(N, mass=size)
    if name == "solid simplex":
        return SolidSimplex(size)
    if name == "numbers":
        return Box(-0.3 * size, 0.5 * size)
    if name == "flat box":  # some coordinates have no room at all
        upper[::3] = lower[::3]
    return Box(lower, upper)


def drawn(rng: np.random.Generator, size: float) -> Array:
    """A point anywhere from deep inside to far outside."""
    return size * 10.0 ** rng.uniform(-2.0, 1.0) * rng.standard_normal(N)


def derivative(face: Face, dv: Array) -> Array:
    """I_A - e e'/|e|^2 on the free coordinates."""
    moved, e = np.zeros_like(dv), face.normal
    free = dv[face.active]
    if e is not None and len(e):
        free = free - e * (e @ free) / (e @ e)
    moved[face.active] = free
    return moved


def excess(P: Set, x: Array) -> float:
    """How far x is outside, by definition and not by the library."""
    if isinstance(P, L1Ball):
        return math.fsum(np.abs(x)) - P.radius
    if isinstance(P, SolidSimplex):
        return max(float(-x.min()), math.fsum(x) - P.mass)
    if isinstance(P, Simplex):
        return max(-float(x.min()), abs(math.fsum(x) - P.mass))
    return float(np.maximum(np.asarray(P.lower) - x, x - np.asarray(P.upper)).max())  # type: ignore[attr-defined]


@LAW
@given(name=names, size=scales, seed=seeds)
def test_the_point_of_a_face_is_the_projection(name: str, size: float, seed: int) -> None:
    P, v = made(name, size), drawn(np.random.default_rng(seed), size)
    face = P.face(v)
    np.testing.assert_array_equal(face.point, P.project(v))
    assert len(set(face.active.tolist())) == face.active.shape[0]
    assert face.normal is None or face.normal.shape == face.active.shape
    # and the projection it is: no feasible point is closer
    others = [P.project(drawn(np.random.default_rng(seed + k), size)) for k in range(1, 6)]
    rounding = 1e-13 * size * (size + float(np.abs(v).max()))
    assert all((v - face.point) @ (y - face.point) <= rounding for y in others)


@settings(max_examples=75)
@given(name=names, size=scales, seed=seeds)
def test_a_projection_moves_along_its_face(name: str, size: float, seed: int) -> None:
    """P(v + dv) - P(v) = (I_A - e e'/|e|^2) dv as long as the face is the same: a projection is linear there."""
    rng = np.random.default_rng(seed)
    P, v = made(name, size), drawn(rng, size)
    dv = 1e-3 * size * rng.standard_normal(N)
    face, there = P.face(v), P.face(v + dv)
    assume(same(face, there))
    rounding = 1e-13 * (size + float(np.abs(v).max()))
    np.testing.assert_allclose(
        there.point - face.point, derivative(face, dv), rtol=0, atol=rounding
    )


@LAW
@given(name=names, size=scales, seed=seeds)
def test_a_face_has_its_point_inside(name: str, size: float, seed: int) -> None:
    """A short way along the face, forth and back, stays in the set and on the face."""
    rng = np.random.default_rng(seed)
    P = made(name, size)
    face = P.face(drawn(rng, size))
    d = derivative(face, rng.standard_normal(N))
    for side in (d, -d):
        step = room(P, face.point, side, 1e-3 * size)
        assert step > 0.0
        assert excess(P, face.point + step * side) <= 1e-13 * size
        if face.normal is not None:
            assert same(P.face(face.point + step * side + 1e-3 * size * outward(face)), face)


def same(one: Face, other: Face) -> bool:
    """Whether both are the same face, wherever their points are."""
    if (one.normal is None) != (
        other.normal is None
    ) or one.active.tolist() != other.active.tolist():
        return False
    return one.normal is None or one.normal.tolist() == other.normal.tolist()


def room(P: Set, x: Array, d: Array, length: float) -> float:
    """A step of at most `length` along d that stays in the set, by halving; 0 where there is none."""
    for power in range(60):
        if excess(P, x + 0.5**power * length * d) <= 1e-13 * P.scale:
            return 0.5 ** (power + 1) * length
    return 0.0


def outward(face: Face) -> Array:
    """The normal in all coordinates."""
    e = np.zeros(N)
    e[face.active] = face.normal
    return e


@pytest.mark.parametrize(
    "P", [L1Ball(0.0), Simplex(3, mass=0.0), Box(np.full(3, 0.7), np.full(3, 0.7)), Box(0.0, 0.0)]
)
def test_a_set_of_one_point_has_no_way_to_go(P: Set) -> None:
    v = np.array([2.0, -1.0, 0.0])
    face = P.face(v)
    np.testing.assert_array_equal(face.point, P.project(v))
    assert face.active.shape == (0,)
    assert same(face, P.face(-2.0 * v))


def test_one_coordinate() -> None:
    face = L1Ball(2.0).face(np.array([-5.0]))
    assert (face.point.tolist(), face.active.tolist()) == ([-2.0], [0])
    assert face.normal is not None
    assert face.normal.tolist() == [-1.0]
    assert Simplex(1).face(np.array([7.0])).active.tolist() == [0]
    assert Box(0.0, 1.0).face(np.array([7.0])).active.shape == (0,)


def test_the_centre_of_the_ball_is_on_no_face() -> None:
    face = L1Ball(1.0).face(np.zeros(3))
    assert face.normal is None
    assert face.active.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["l1", "simplex", "box", "numbers", "flat box"])
@pytest.mark.parametrize("seed", range(3))
def test_torch_has_the_same_faces(torch: Any, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    P, v = made(name, 1.0), drawn(rng, 1.0)
    face, other = P.face(v), P.face(torch.tensor(v))
    np.testing.assert_allclose(other.point.numpy(), face.point, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(other.active.numpy(), face.active)
    assert (face.normal is None) == (other.normal is None)
    if face.normal is not None:
        np.testing.assert_array_equal(other.normal.numpy(), face.normal)
    assert same(other, P.face(torch.tensor(v)))


@pytest.mark.parametrize("P", [L2Ball(1.0), NuclearBall(1.0)])
def test_round_sets_say_that_they_have_no_faces(P: Set) -> None:
    with pytest.raises(
        cg.MissingAbility,
        match=r"Ball.*has no faces; L1Ball, Simplex, SolidSimplex and Box have them",
    ):
        P.face(np.ones(2))
