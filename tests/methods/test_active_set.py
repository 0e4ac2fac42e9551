"""Away and pairwise steps: right against CVXPY, linear where plain Frank-Wolfe is not, lazy where asked."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg

VARIANTS = [(method, lazy) for method in ("away", "pairwise") for lazy in (False, True)]
RNG = np.random.default_rng(2)
A, Y = RNG.standard_normal((30, 12)), RNG.standard_normal(30)
SETS: dict[str, tuple[Any, Any]] = {
    "simplex": (cg.sets.Simplex(12), lambda x: [x >= 0, cp.sum(x) == 1]),
    "l1": (cg.sets.L1Ball(0.4), lambda x: [cp.norm1(x) <= 0.4]),
    "box": (cg.sets.Box(-0.05, 0.1), lambda x: [x >= -0.05, x <= 0.1]),
    "sparse": (cg.sets.KSparse(0.1, k=3), lambda x: [cp.norm1(x) <= 0.3, cp.abs(x) <= 0.1]),
}


@pytest.mark.parametrize(("method", "lazy"), VARIANTS)
@pytest.mark.parametrize("name", SETS)
def test_solutions_are_those_of_cvxpy(method: str, lazy: bool, name: str) -> None:
    P, constraints = SETS[name]
    x = cp.Variable(12)
    expected = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - Y)), constraints(x)).solve(
        solver="CLARABEL"
    )
    r = cg.minimize(
        cg.smooth.LeastSquares(A, Y), cg.simple.Zero(on=P), method=method, lazy=lazy, tol=1e-8
    )
    assert r.success
    assert r.method == method
    assert r.lower_bound <= expected * (1.0 + 1e-7)
    assert r.value == pytest.approx(expected, rel=1e-6)
    assert P.contains(r.x)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    variant=st.sampled_from(VARIANTS),
    step=st.sampled_from(["exact", "armijo", "short"]),
    decade=st.integers(-8, 8),
)
def test_bounds_hold_for_every_step_and_unit(
    seed: int, variant: tuple[str, bool], step: str, decade: int
) -> None:
    rng = np.random.default_rng(seed)
    unit = 10.0**decade
    f = unit * cg.smooth.LeastSquares(rng.standard_normal((8, 5)), rng.standard_normal(8))
    g = cg.simple.Zero(on=cg.sets.L1Ball(0.5))
    r = cg.minimize(f, g, method=variant[0], lazy=variant[1], step=step, max_iter=60)
    best = cg.minimize(f, g, method="newton", tol=1e-9)
    assert r.lower_bound <= best.value
    assert best.lower_bound <= r.value
    assert g.on.contains(r.x)


@pytest.mark.parametrize(("method", "lazy"), VARIANTS)
def test_convergence_is_linear_where_plain_steps_crawl(method: str, lazy: bool) -> None:
    """The optimum lies inside a face: plain Frank-Wolfe zigzags between its vertices."""
    f, g = cg.smooth.LeastSquares(A, Y), cg.simple.Zero(on=cg.sets.L1Ball(0.4))
    plain = cg.minimize(f, g, method="cg", tol=1e-10, max_iter=300)
    assert not plain.success
    assert cg.minimize(f, g, method=method, lazy=lazy, tol=1e-10, max_iter=300).success


def test_lazy_methods_ask_the_oracle_less() -> None:
    rng = np.random.default_rng(0)
    f = cg.smooth.LeastSquares(rng.standard_normal((400, 400)), rng.standard_normal(400))
    g = cg.simple.Zero(on=cg.sets.KSparse(0.05, k=20))
    runs = {
        lazy: cg.minimize(f, g, method="pairwise", lazy=lazy, tol=1e-4) for lazy in (False, True)
    }
    assert all(r.success for r in runs.values())
    assert runs[True].trace["oracle_calls"][-1] < 0.5 * runs[False].trace["oracle_calls"][-1]


@pytest.mark.parametrize("method", ["away", "pairwise"])
def test_doubly_stochastic_matrices(method: str) -> None:
    """The nearest doubly stochastic matrix is a mixture of permutations."""
    target = np.random.default_rng(1).random((5, 5))
    x = cp.Variable((5, 5))
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(x - target)),
        [x >= 0, cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1],
    )
    expected = problem.solve(solver="CLARABEL")
    f = cg.smooth.Function(lambda x: (0.5 * float(((x - target) ** 2).sum()), x - target))
    r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Birkhoff(5)), np.eye(5), method=method, tol=1e-6)
    assert r.success
    assert r.value == pytest.approx(expected, rel=1e-5)


def test_torch(torch: Any) -> None:
    f = cg.smooth.LeastSquares(torch.tensor(A), torch.tensor(Y))
    r = cg.minimize(f, cg.simple.Zero(on=cg.sets.L1Ball(0.4)), method="pairwise", lazy=True)
    assert r.success
    assert isinstance(r.x, torch.Tensor)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"method": "pairwise", "memory": 2}, ValueError, "leave memory=0"),
        ({"method": "away", "step": "open-loop"}, ValueError, "needs a step that depends on F"),
        ({"method": "cgs", "lazy": True}, ValueError, "lazy=True works only with"),
    ],
)
def test_options_that_do_not_go_together(
    options: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        cg.minimize(cg.smooth.LeastSquares(A, Y), cg.simple.Zero(on=cg.sets.Simplex(12)), **options)


def test_a_g_that_is_not_zero_is_refused() -> None:
    with pytest.raises(cg.MissingAbility, match="needs g = Zero"):
        cg.minimize(
            cg.smooth.LeastSquares(A, Y),
            cg.simple.Ridge(0.1, on=cg.sets.Simplex(12)),
            method="away",
        )
