"""The sets of Frank-Wolfe's world against CVXPY and by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg

seeds = st.integers(0, 2**32 - 1)
SETS = {
    "linf": cg.sets.LInfBall(0.7),
    "sparse": cg.sets.KSparse(0.5, k=2),
    "birkhoff": cg.sets.Birkhoff(4),
    "spectraplex": cg.sets.Spectraplex(4, trace=2.0),
}


def constraints(name: str, x: Any) -> list[Any]:
    return {
        "linf": lambda: [cp.abs(x) <= 0.7],
        "sparse": lambda: [cp.abs(x) <= 0.5, cp.norm1(x) <= 1.0],
        "birkhoff": lambda: [x >= 0, cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1],
        "spectraplex": lambda: [x >> 0, cp.trace(x) == 2.0],
    }[name]()


def variable(name: str) -> Any:
    if name == "spectraplex":
        return cp.Variable((4, 4), symmetric=True)
    return cp.Variable((4, 4) if name == "birkhoff" else 5)


def drawn(name: str, seed: int, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    c = scale * rng.standard_normal((4, 4) if name in ("birkhoff", "spectraplex") else 5)
    return c + c.T if name == "spectraplex" else c


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_linear_oracles_are_minimal(name: str, seed: int) -> None:
    c, x = drawn(name, seed), variable(name)
    expected = cp.Problem(cp.Minimize(cp.sum(cp.multiply(c, x))), constraints(name, x)).solve(
        solver="CLARABEL"
    )
    answer = SETS[name].linear_argmin(c)
    assert SETS[name].contains(answer.point)
    assert (c * answer.point).sum() == pytest.approx(expected, abs=1e-6)
    assert answer.bound == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["linf", "sparse", "spectraplex"])
@settings(max_examples=10, deadline=None)
@given(seed=seeds, scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_projections_are_nearest(name: str, seed: int, scale: float) -> None:
    v, x = drawn(name, seed, scale), variable(name)
    cp.Problem(cp.Minimize(cp.sum_squares(x - v)), constraints(name, x)).solve(solver="CLARABEL")
    point = SETS[name].project(v)
    assert SETS[name].contains(point)
    np.testing.assert_allclose(point, x.value, atol=2e-4 * scale)
    assert ((point - v) ** 2).sum() <= ((x.value - v) ** 2).sum() + 1e-6 * scale**2


@settings(max_examples=25, deadline=None)
@given(seed=seeds, k=st.integers(1, 6), decade=st.integers(-6, 6))
def test_the_projection_on_sparse_hulls_is_optimal_in_any_unit(
    seed: int, k: int, decade: int
) -> None:
    """<v - p, y - p> <= 0 for all vertices y."""
    unit = 10.0**decade
    v = unit * 3.0 * np.random.default_rng(seed).standard_normal(6)
    P = cg.sets.KSparse(unit, k=k)
    p = P.project(v)
    farthest = P.linear_argmin(p - v)
    assert P.contains(p)
    assert (v - p) @ (farthest.point - p) <= 1e-12 * unit**2


def exact_sparse_projection(v: Any, radius: float, k: int) -> Any:
    """The projection of v on KSparse(radius, k), in rational numbers."""
    sizes = [abs(Fraction(float(entry))) for entry in v]
    top = Fraction(radius)

    def cut(theta: Fraction) -> list[Fraction]:
        return [min(max(size - theta, Fraction(0)), top) for size in sizes]

    theta = Fraction(0)
    if sum(cut(theta)) > k * top:
        ends = sorted({*sizes, *(size - top for size in sizes)})
        first = next(i for i, end in enumerate(ends) if sum(cut(end)) <= k * top)
        left, right = sum(cut(ends[first - 1])), sum(cut(ends[first]))
        theta = ends[first] - (k * top - right) * (ends[first] - ends[first - 1]) / (left - right)
    return np.sign(v) * np.array([float(size) for size in cut(theta)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [1e-2, 1e3, 1e9, 1e18])
@pytest.mark.parametrize("k", [1, 3])
def test_projections_on_sparse_hulls_keep_their_digits(dtype: Any, offset: float, k: int) -> None:
    """Large entries that are nearly equal, alone and beside others, against rational numbers."""
    rng = np.random.default_rng(1)
    few_larger = rng.choice([1.0, 1e3], 40, p=[0.95, 0.05])
    levels = [np.ones(40), few_larger, rng.choice([0.0, 1.0, 2.0], 40)]
    P = cg.sets.KSparse(0.125, k=k)
    few = 10.0 * float(np.finfo(dtype).eps) * P.radius
    for level in levels:
        sizes = offset * level + 0.2 * rng.standard_normal(40)
        v = (rng.choice([-1.0, 1.0], 40) * sizes).astype(dtype)
        p = P.project(v)
        assert p.dtype == dtype
        assert P.violation(p) <= few
        np.testing.assert_allclose(p, exact_sparse_projection(v, P.radius, k), rtol=0.0, atol=few)


def test_spg_reaches_the_vertex_of_a_sparse_hull_under_large_costs() -> None:
    """Its long steps are projected from afar: a projection outside the set leaves it no step."""
    c = [2, 2, 2, -3, -2, 5, 2, 1, 0, 0, 3, -4, 0, 4, 2, 1, 0, 0, 3, -2, 3, 2, 3, 1]
    P = cg.sets.KSparse(0.0498, k=2)
    f = 21500.0 * cg.smooth.Linear(np.array(c, dtype=np.float64))
    r = cg.minimize(f, cg.simple.Zero(on=P), method="spg", tol=1e-13)
    assert r.status is cg.Status.CONVERGED
    assert P.violation(r.x) <= 1e-15
    assert r.value == pytest.approx(-21500.0 * 0.0498 * (5.0 + 4.0), rel=1e-13)


def test_permutations_by_hand() -> None:
    c = np.random.default_rng(0).standard_normal((4, 4))
    costs = [sum(c[i, p[i]] for i in range(4)) for p in itertools.permutations(range(4))]
    answer = cg.sets.Birkhoff(4).linear_argmin(c)
    assert answer.bound == pytest.approx(min(costs))
    assert sorted(np.unique(answer.point)) == [0.0, 1.0]


@pytest.mark.parametrize("name", SETS)
def test_starts_are_inside(name: str) -> None:
    f = cg.smooth.Linear(drawn(name, 0))
    assert (
        cg.minimize(f, cg.simple.Zero(on=SETS[name]), method="cg", max_iter=1).x.shape
        == drawn(name, 0).shape
    )


@pytest.mark.parametrize("name", SETS)
def test_torch_has_the_same_oracles(torch: Any, name: str) -> None:
    c = drawn(name, 3)
    ours, theirs = SETS[name].linear_argmin(c), SETS[name].linear_argmin(torch.tensor(c))
    np.testing.assert_allclose(theirs.point.numpy(), ours.point, atol=1e-12)
    assert theirs.bound == pytest.approx(ours.bound)
