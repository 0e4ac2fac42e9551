"""Step rules that follow f or an order: what each promises, judged by constants that are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condgrad as cg
from condgrad.search.steps import SMOOTHNESS


def least_squares(seed: int, n: int = 8, m: int = 12) -> tuple[Any, float]:
    """f, and its smoothness constant by the largest eigenvalue of A'A."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    return cg.smooth.LeastSquares(A, rng.standard_normal(m)), float(np.linalg.norm(A, 2) ** 2)


class Noted:
    """A rule that keeps the L of every step of `Adaptive`."""

    def __init__(self) -> None:
        self.rule = cg.steps.Adaptive()
        self.found: list[float] = []

    def __call__(self, state: Any) -> Any:
        step = self.rule(state)
        if SMOOTHNESS in state.notes:
            self.found.append(state.notes[SMOOTHNESS])
        return step


SETS = {
    "ball": cg.simple.Ridge(0.3, on=cg.sets.L1Ball(1.0)),
    "simplex": cg.simple.Zero(on=cg.sets.Simplex(8)),
}


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(SETS)))
def test_the_adaptive_constant_stays_below_growth_times_that_of_f(seed: int, name: str) -> None:
    """An L that is at least that of f passes the test, so none is ever doubled beyond it."""
    f, L = least_squares(seed)
    rule = Noted()
    r = cg.minimize(f, SETS[name], step=rule, tol=1e-6, max_iter=300)
    assert all(found <= 2.0 * L * (1.0 + 1e-9) for found in rule.found)
    values = r.trace["value"]
    assert (np.diff(values) <= 1e-12 * np.abs(values[:-1])).all()
    judge = cg.minimize(f, SETS[name], method="newton", tol=1e-10)
    assert r.lower_bound <= judge.value
    assert judge.lower_bound <= r.value


def test_adaptive_needs_no_constant_of_f() -> None:
    """The gradient of a fourth power has no Lipschitz constant; the minimum is known in closed form."""
    target = np.array([0.5, 0.3, 0.2])
    f = cg.smooth.Function(lambda x: (float(((x - target) ** 4).sum()), 4.0 * (x - target) ** 3))
    g = cg.simple.Zero(on=cg.sets.Simplex(3))
    with pytest.raises(cg.MissingAbility, match="step='adaptive' finds one during the run"):
        cg.minimize(f, g, step="short")
    r = cg.minimize(f, g, step="adaptive", tol=1e-4)
    assert r.success
    assert r.lower_bound <= 0.0 <= r.value <= r.gap


@pytest.mark.parametrize("method", ["away", "pairwise"])
def test_active_sets_take_adaptive_steps(method: str) -> None:
    f, _ = least_squares(3)
    r = cg.minimize(f, SETS["simplex"], method=method, step="adaptive", tol=1e-8)
    judge = cg.minimize(f, SETS["simplex"], method="newton", tol=1e-10)
    assert r.success
    assert abs(r.value - judge.value) <= 1e-7 * judge.scale


@pytest.mark.parametrize("order", [2, 4.5, "log"])
def test_open_loops_take_the_steps_of_their_order(order: Any) -> None:
    f, _ = least_squares(1)
    r = cg.minimize(f, SETS["simplex"], step=cg.steps.OpenLoop(order), tol=0.0, max_iter=6)
    orders = [2.0 + math.log(k + 1.0) if order == "log" else order for k in range(6)]
    wanted = [length / (k + length) for k, length in enumerate(orders)]
    assert np.allclose(r.trace["step"][1:], wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cg.steps.OpenLoop(1.5), "order must be finite and >= 2, got 1.5"),
        (lambda: cg.steps.OpenLoop("fast"), "order must be a number, got 'fast'"),
        (lambda: cg.steps.Adaptive(growth=1.0), "growth must be finite and > 1, got 1"),
        (lambda: cg.steps.Adaptive(decay=1.5), "decay must be <= 1, got 1.5"),
    ],
)
def test_bad_parameters_get_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


def test_exact_steps_do_not_believe_a_slope_where_f_is_above_its_start() -> None:
    """Far out a loss may be too large for its slope to be right; a step there would raise F."""

    def value_and_gradient(x: Any) -> tuple[float, Any]:
        value = np.exp(x[0])
        return value - 10.0 * x[0], np.array([value - 10.0 if x[0] < 50.0 else -value])

    g = cg.simple.Zero(on=cg.sets.Box(np.zeros(1), np.full(1, 700.0)))
    r = cg.minimize(cg.smooth.Function(value_and_gradient), g, method="cgs", x0=np.zeros(1))
    assert (np.diff(r.trace["value"]) <= 0.0).all()
    least = 10.0 - 10.0 * math.log(10.0)
    assert r.lower_bound <= least <= r.value
    assert r.value == pytest.approx(least, rel=1e-5)
