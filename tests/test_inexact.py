"""Oracles that cut corners: a feasible point that is not the best, and a bound that is valid but loose.

The textbook gap <c, x - s> + g(x) - g(s) is no bound there; the certificate must hold all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad.problem import Simple
from condgrad.search.restriction import Restriction
from tests.matrix.judge import Array, Verdict, polished, project_simplex, ridge, squares, total
from tests.matrix.problems import data

N = 6
WEIGHT = 0.2
STEPS = ("exact", "memory", "armijo", "open-loop", "short")
A, Y = data(31)
A = A * np.linspace(0.5, 2.0, N)


def F(x: Array) -> float:
    return squares(A, Y)(x)[0] + WEIGHT * float(x @ x)


@cache
def optimum() -> Verdict:
    """The judge's F*."""
    both = total(squares(A, Y), ridge(WEIGHT))
    judged = polished(both, lambda v, _: project_simplex(v), np.full(N, 1.0 / N), diameter=2.0)
    assert judged.value - judged.lower <= 1e-11
    return judged


# How an oracle may be inexact -----------------------------------------------------------------------------------------

Manner = Callable[[float, np.random.Generator], tuple[float, float]]
"""From the accuracy asked for to (how much the point may lose, how much the bound gives away)."""


def even(accuracy: float, _rng: np.random.Generator) -> tuple[float, float]:
    """Half of the allowance in the point, half in the bound."""
    return 0.5 * accuracy, 0.5 * accuracy


def bad_point(accuracy: float, _rng: np.random.Generator) -> tuple[float, float]:
    """The bound is the minimum itself, the point as bad as allowed."""
    return accuracy, 0.0


def loose_bound(accuracy: float, _rng: np.random.Generator) -> tuple[float, float]:
    """The point is the minimiser, the bound as loose as allowed."""
    return 0.0, accuracy


def at_random(accuracy: float, rng: np.random.Generator) -> tuple[float, float]:
    """A random share of the allowance, split at random."""
    spent, part = accuracy * rng.uniform(), rng.uniform()
    return spent * part, spent * (1.0 - part)


def deaf(_accuracy: float, _rng: np.random.Generator) -> tuple[float, float]:
    """Ignores what was asked."""
    return 0.02, 0.03


def erratic(_accuracy: float, rng: np.random.Generator) -> tuple[float, float]:
    """Ignores what was asked, a different way each time."""
    return 10.0 ** rng.uniform(-8.0, 0.0), 10.0 ** rng.uniform(-8.0, 0.0)


def hopeless(_accuracy: float, _rng: np.random.Generator) -> tuple[float, float]:
    """Always the worst vertex: a point worse than x, so that the model gap is negative."""
    return np.inf, 0.01


HONOURING: tuple[Manner, ...] = (even, bad_point, loose_bound, at_random)
MANNERS: tuple[Manner, ...] = (*HONOURING, deaf, erratic, hopeless)


@dataclass
class Blurred(Simple):
    """weight |x|^2 on the simplex with an oracle that is inexact in some manner."""

    manner: Manner
    on: Any = field(default_factory=lambda: cg.sets.Simplex(N))
    strong_convexity: float = 2.0 * WEIGHT
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    seen: list[tuple[Array, Array]] = field(default_factory=list)
    """What was asked, c, and what was answered, s."""

    def value(self, x: Array) -> float:
        return WEIGHT * float(x @ x)

    def gradient(self, x: Array) -> Array:
        return 2.0 * WEIGHT * x

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> cg.Answer:
        loss, slack = self.manner(accuracy, self.rng)
        best = project_simplex(-0.5 * c / WEIGHT)

        def model(s: Array) -> float:
            return float(c @ s) + self.value(s)

        point = spoiled(model, best, loss)
        self.seen.append((c.copy(), point.copy()))
        return cg.Answer(point, model(best) - slack)

    def along(self, x: Array, directions: Array) -> Restriction:
        return cg.simple.Ridge(WEIGHT, on=self.on).along(x, directions)


def spoiled(model: Callable[[Array], float], best: Array, loss: float) -> Array:
    """A point between the best one and the worst vertex that loses `loss` of the model's value, or all it can."""
    worst = max(np.eye(len(best)), key=model)
    if model(worst) - model(best) <= loss:
        return worst
    low, high = 0.0, 1.0
    for _ in range(60):
        t = 0.5 * (low + high)
        if model(best + t * (worst - best)) - model(best) <= loss:
            low = t
        else:
            high = t
    return best + low * (worst - best)


def solve(
    g: Any, step: str, *, tol: float = 1e-6, max_iter: int = 400, callback: Any = None
) -> cg.Result:
    return cg.minimize(
        cg.smooth.LeastSquares(A, Y),
        g,
        step="exact" if step == "memory" else step,
        memory=3 if step == "memory" else 0,
        tol=tol,
        max_iter=max_iter,
        callback=callback,
    )


def assert_certified(r: cg.Result) -> None:
    """lower_bound <= F* <= value in the answer and at every row, and the answer's value is its point's."""
    judged = optimum()
    slack = judged.tolerance
    assert r.lower_bound <= judged.value + slack
    assert r.value >= judged.lower - slack
    assert (r.trace["lower_bound"] <= judged.value + slack).all()
    assert (r.trace["value"] >= judged.lower - slack).all()
    assert (r.trace["gap"] >= r.trace["value"] - judged.value - slack).all()
    assert (np.diff(r.trace["lower_bound"]) >= 0.0).all()
    assert r.value == pytest.approx(F(r.x), rel=1e-13)
    assert np.abs(project_simplex(r.x) - r.x).max() <= 1e-12


# The tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("manner", MANNERS)
def test_the_certificate_survives(manner: Manner, step: str) -> None:
    """Whatever the oracle does, the bounds hold and the status is honest."""
    r = solve(Blurred(manner), step)
    assert_certified(r)
    assert r.success == (r.gap <= 1e-6 * r.scale)


@pytest.mark.parametrize("step", ["exact", "memory", "armijo", "short"])
@pytest.mark.parametrize("manner", HONOURING)
def test_oracles_that_honour_the_accuracy_converge(manner: Manner, step: str) -> None:
    """The accuracy asked for falls with the gap, so that the run converges as with an exact oracle."""
    r = solve(Blurred(manner), step)
    assert r.status is cg.Status.CONVERGED
    assert F(r.x) - optimum().value <= 1e-6 * optimum().scale
    assert_certified(r)


@pytest.mark.parametrize("manner", HONOURING)
def test_high_accuracy_is_within_reach_too(manner: Manner) -> None:
    """Asking for 1e-11 asks the oracle for ever more, and gets there."""
    r = solve(Blurred(manner), "exact", tol=1e-11, max_iter=2000)
    assert r.status is cg.Status.CONVERGED
    assert_certified(r)


@pytest.mark.parametrize("step", ["exact", "armijo", "short"])
def test_the_textbook_gap_fails_where_ours_holds(step: str) -> None:
    """For some iterate <c, x - s> + g(x) - g(s) < F(x) - F*, and our gap covers it at all of them."""
    g = Blurred(bad_point)
    points: list[Array] = []
    r = solve(g, step, callback=lambda now: points.append(now.x.copy()))
    textbook = np.array(
        [c @ (x - s) + g.value(x) - g.value(s) for x, (c, s) in zip(points, g.seen, strict=False)]
    )
    truth = np.array([F(x) for x in points]) - optimum().value
    ours = r.trace["gap"][: len(points)]
    slack = optimum().tolerance
    assert (textbook < truth - 1e-9).any()
    assert (ours >= truth - slack).all()


def test_a_negative_model_gap_ends_honestly() -> None:
    """A point worse than x gives no direction: the run stops without claiming anything it cannot prove."""
    g = Blurred(hopeless)
    points: list[Array] = []
    r = solve(g, "exact", callback=lambda now: points.append(now.x.copy()))
    gaps = [
        c @ (x - s) + g.value(x) - g.value(s) for x, (c, s) in zip(points, g.seen, strict=False)
    ]
    assert min(gaps) < 0.0
    assert r.status is not cg.Status.CONVERGED
    assert_certified(r)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", range(5))
def test_a_user_oracle_with_a_random_bound(seed: int, step: str) -> None:
    """`Oracle` hears nothing of the accuracy; a random Answer is still a valid one."""
    g = Blurred(erratic, rng=np.random.default_rng(seed))
    r = solve(
        cg.simple.Oracle(
            g.value, lambda c: g.argmin(c), on=cg.sets.Simplex(N), gradient=g.gradient
        ),
        step,
    )
    assert_certified(r)


@dataclass(frozen=True)
class SloppySimplex(cg.sets.Simplex):
    """A simplex whose linear argmin stops short of the vertex and proves a little less."""

    share: float = 0.1
    slack: float = 1e-3

    def linear_argmin(self, c: Array) -> cg.Answer:
        vertex = np.eye(self.n)[int(np.argmin(c))]
        point = (1.0 - self.share) * vertex + self.share / self.n
        return cg.Answer(point, float(c.min()) - self.slack)


@pytest.mark.parametrize("method", ["cgs", "cg"])
@pytest.mark.parametrize("step", ["exact", "armijo", "open-loop", "short"])
def test_a_sloppy_set_under_both_methods(method: str, step: str) -> None:
    """The conditional gradient keeps its promise with an inexact linear oracle as well."""
    f = cg.smooth.LeastSquares(A, Y)
    judged = polished(
        squares(A, Y), lambda v, _: project_simplex(v), np.full(N, 1.0 / N), diameter=2.0
    )
    r = cg.minimize(f, cg.simple.Zero(on=SloppySimplex(N)), method=method, step=step, max_iter=200)
    assert (r.trace["lower_bound"] <= judged.value + judged.tolerance).all()
    assert r.lower_bound <= judged.value <= r.value + judged.tolerance
    assert r.gap >= 1e-3 - 1e-9  # no more can be proved with this oracle
    assert r.status is not cg.Status.CONVERGED
