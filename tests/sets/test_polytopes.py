"""The sets of Frank-Wolfe's world against CVXPY and by hand."""

from __future__ import annotations

import itertools
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
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_linear_oracles_are_minimal(name: str, seed: int) -> None:
    c, x = drawn(name, seed), variable(name)
    expected = cp.Problem(cp.Minimize(cp.sum(cp.multiply(c, x))), constraints(name, x)).solve(solver="CLARABEL")
    answer = SETS[name].linear_argmin(c)
    assert SETS[name].contains(answer.point)
    assert (c * answer.point).sum() == pytest.approx(expected, abs=1e-6)
    assert answer.bound == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["linf", "sparse", "spectraplex"])
@settings(max_examples=15, deadline=None)
@given(seed=seeds, scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_projections_are_nearest(name: str, seed: int, scale: float) -> None:
    v, x = drawn(name, seed, scale), variable(name)
    cp.Problem(cp.Minimize(cp.sum_squares(x - v)), constraints(name, x)).solve(solver="CLARABEL")
    point = SETS[name].project(v)
    assert SETS[name].contains(point)
    np.testing.assert_allclose(point, x.value, atol=2e-4 * scale)
    assert ((point - v) ** 2).sum() <= ((x.value - v) ** 2).sum() + 1e-6 * scale**2


@settings(max_examples=50, deadline=None)
@given(seed=seeds, k=st.integers(1, 6), decade=st.integers(-6, 6))
def test_the_projection_on_sparse_hulls_is_optimal_in_any_unit(seed: int, k: int, decade: int) -> None:
    """<v - p, y - p> <= 0 for all vertices y."""
    unit = 10.0**decade
    v = unit * 3.0 * np.random.default_rng(seed).standard_normal(6)
    P = cg.sets.KSparse(unit, k=k)
    p = P.project(v)
    farthest = P.linear_argmin(p - v)
    assert P.contains(p)
    assert (v - p) @ (farthest.point - p) <= 1e-12 * unit**2


def test_permutations_by_hand() -> None:
    c = np.random.default_rng(0).standard_normal((4, 4))
    costs = [sum(c[i, p[i]] for i in range(4)) for p in itertools.permutations(range(4))]
    answer = cg.sets.Birkhoff(4).linear_argmin(c)
    assert answer.bound == pytest.approx(min(costs))
    assert sorted(np.unique(answer.point)) == [0.0, 1.0]


@pytest.mark.parametrize("name", SETS)
def test_starts_are_inside(name: str) -> None:
    f = cg.smooth.Linear(drawn(name, 0))
    assert cg.minimize(f, cg.simple.Zero(on=SETS[name]), method="cg", max_iter=1).x.shape == drawn(name, 0).shape


@pytest.mark.parametrize("name", SETS)
def test_torch_has_the_same_oracles(torch: Any, name: str) -> None:
    c = drawn(name, 3)
    ours, theirs = SETS[name].linear_argmin(c), SETS[name].linear_argmin(torch.tensor(c))
    np.testing.assert_allclose(theirs.point.numpy(), ours.point, atol=1e-12)
    assert theirs.bound == pytest.approx(ours.bound)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cg.sets.KSparse(1.0, k=0), "k must be >= 1"),
        (lambda: cg.sets.LInfBall(-1.0), "radius must be"),
        (lambda: cg.sets.Birkhoff(0), "n must be >= 1"),
        (lambda: cg.sets.Spectraplex(2, trace=-1.0), "trace must be"),
    ],
)
def test_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
