"""Every method and step on a score of small problems, against a judge who shares no code with the library.

The judge starts from CVXPY's point (Clarabel) and polishes it by proximal gradient steps written here. Each step
brackets F*: with x+ = prox(x - grad/L) and G = L (x - x+), every y of the set has F(y) >= F(x+) - |G| |y - x|,
whenever L satisfies the descent inequality between x and x+. So F(x+) - |G| diameter <= F* <= F(x+).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from scipy.special import logsumexp

import condgrad as cg

Array = np.ndarray
ValueGradient = Callable[[Array], tuple[float, Array]]
STEPS = ("exact", "memory", "armijo", "open-loop", "short", "adaptive")


# The judge ------------------------------------------------------------------------------------------------------------


def project_simplex(v: Array, mass: float = 1.0) -> Array:
    """The projection onto {x >= 0, sum x = mass}, by sorting."""
    falling = np.sort(v)[::-1]
    thresholds = (np.cumsum(falling) - mass) / np.arange(1, len(v) + 1)
    last = np.flatnonzero(falling > thresholds)[-1]
    return np.maximum(v - thresholds[last], 0.0)


def project_l1(v: Array, radius: float) -> Array:
    """The projection onto the l1 ball."""
    return v if np.abs(v).sum() <= radius else np.sign(v) * project_simplex(np.abs(v), radius)


def project_l2(v: Array, radius: float) -> Array:
    """The projection onto the l2 ball."""
    return v * min(1.0, radius / max(float(np.linalg.norm(v)), 1e-300))


def soft(v: Array, threshold: float) -> Array:
    """Soft thresholding."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def on_singular_values(move: Callable[[Array], Array], X: Array) -> Array:
    """A map of vectors applied to the singular values of X."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    return (U * move(sigma)) @ Vt


def squares(A: Array, y: Array) -> ValueGradient:
    """1/2 |Ax - y|^2."""
    return lambda x: (0.5 * float(np.sum((A @ x - y) ** 2)), A.T @ (A @ x - y))


def logistic(Z: Array, y: Array) -> ValueGradient:
    """sum log(1 + exp(-y z.x))."""
    return lambda x: (
        float(np.logaddexp(0.0, -y * (Z @ x)).sum()),
        -Z.T @ (y / (1.0 + np.exp(y * (Z @ x)))),
    )


def squared_hinge(Z: Array, y: Array) -> ValueGradient:
    """sum max(0, 1 - y z.x)^2."""

    def both(x: Array) -> tuple[float, Array]:
        short = np.maximum(0.0, 1.0 - y * (Z @ x))
        return float(short @ short), -2.0 * Z.T @ (y * short)

    return both


def ridge(weight: float | Array) -> ValueGradient:
    """sum weight_i x_i^2."""
    return lambda x: (float(np.sum(weight * x * x)), 2.0 * weight * x)


def entropy(weight: float) -> ValueGradient:
    """weight sum x log x."""

    def both(x: Array) -> tuple[float, Array]:
        log = np.log(np.maximum(x, 1e-300))
        return weight * float(x @ log), weight * (log + 1.0)

    return both


def linear(c: Array) -> ValueGradient:
    """<c, x>."""
    return lambda x: (float(np.sum(c * x)), c)


def total(*parts: ValueGradient) -> ValueGradient:
    """A sum of functions."""

    def both(x: Array) -> tuple[float, Array]:
        pairs = [part(x) for part in parts]
        return sum(value for value, _ in pairs), sum(
            (gradient for _, gradient in pairs), start=np.zeros_like(x)
        )

    return both


def nothing(_: Array) -> float:
    """No part of F is left to the proximal map but the set."""
    return 0.0


@dataclass(frozen=True)
class Verdict:
    """F* lies in [lower, value], and point attains value."""

    point: Array
    value: float
    lower: float

    @property
    def scale(self) -> float:
        return max(1.0, abs(self.value))

    @property
    def tolerance(self) -> float:
        """The width of the bracket and some rounding."""
        return self.value - self.lower + 1e-13 * self.scale


def polished(
    smooth: ValueGradient,
    prox: Callable[[Array, float], Array],
    x: Array,
    *,
    diameter: float,
    rest: Callable[[Array], float] = nothing,
) -> Verdict:
    """Proximal gradient with backtracking on smooth + rest from x, until the bracket closes to rounding."""
    x, L, best, last = prox(x, 1e-12), 1.0, Verdict(x, np.inf, -np.inf), 0
    for k in range(20_000):
        value, gradient = smooth(x)
        while True:
            new = prox(x - gradient / L, 1.0 / L)
            d = new - x
            bend = smooth(new)[0] - value - float(np.sum(gradient * d))
            if bend <= 0.5 * L * float(np.sum(d * d)) + 1e-15 * max(1.0, abs(value)):
                break
            L *= 2.0
        width = L * float(np.linalg.norm(d)) * diameter
        top = smooth(new)[0] + rest(new)
        if width < best.value - best.lower:
            best, last = Verdict(new, top, top - width), k
        # rounding has the last word: no better bracket for a while means there is none
        if width <= 1e-13 * max(1.0, abs(top)) or k > last + 1000:
            break
        # close by, the descent inequality is one of rounding and L must not fall with it
        x, L = new, 0.9 * L if width > 1e-5 * max(1.0, abs(top)) else L
    return best


def by_clarabel(objective: cp.Expression, constraints: list[Any], x: cp.Variable) -> Array:
    """Clarabel's point."""
    cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")
    return np.asarray(x.value)


# The problems ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """f, g and P, their independent description, and what they cannot do."""

    f: Any
    g: Any
    judge: Callable[[], Verdict]
    violation: Callable[[Array], float]
    x0: Array | None = None
    strongly_convex: bool = False
    """Whether g is, so that the theory promises a linear rate."""
    smoothness: bool = True
    gradient: bool = True
    """Whether g has one, which the conditional gradient needs."""
    iterations: int = 120
    """For pairs without the promise of a linear rate."""

    def possible(self, method: str, step: str) -> bool:
        """Whether the pair can work at all."""
        if method == "cg" and not self.gradient:
            return False
        # a linearised g needs a smoothness constant as well
        return step != "short" or (
            self.smoothness and (method == "cgs" or self.g.smoothness is not None)
        )

    def promises(self, step: str) -> bool:
        """Whether CGS has a linear rate."""
        return self.strongly_convex and step != "open-loop"


def data(seed: int, m: int = 20, n: int = 6) -> tuple[Array, Array]:
    """A well-conditioned matrix and a target."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)) / np.sqrt(m), rng.standard_normal(m)


def labelled(seed: int) -> tuple[Array, Array]:
    """A matrix and labels."""
    Z, y = data(seed)
    return 2.0 * Z, np.where(y > 0, 1.0, -1.0)


def simplex_violation(x: Array) -> float:
    return max(-float(x.min()), abs(float(x.sum()) - 1.0))


def box_violation(lower: float, upper: float) -> Callable[[Array], float]:
    return lambda x: max(lower - float(x.min()), float(x.max()) - upper)


def l2_violation(radius: float) -> Callable[[Array], float]:
    return lambda x: float(np.linalg.norm(x)) - radius


def ridge_l1ball() -> Problem:
    A, y = data(1)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(
            0.5 * cp.sum_squares(A @ x - y) + 0.3 * cp.sum_squares(x), [cp.norm1(x) <= 0.8], x
        )
        return polished(
            total(squares(A, y), ridge(0.3)), lambda v, _: project_l1(v, 0.8), start, diameter=1.6
        )

    g = cg.simple.Ridge(0.3, on=cg.sets.L1Ball(0.8))
    return Problem(
        cg.smooth.LeastSquares(A, y),
        g,
        judge,
        lambda x: float(np.abs(x).sum()) - 0.8,
        strongly_convex=True,
    )


def logistic_ridge_l1ball() -> Problem:
    Z, y = labelled(2)

    def judge() -> Verdict:
        x = cp.Variable(6)
        loss = cp.sum(cp.logistic(-cp.multiply(y, Z @ x)))
        start = by_clarabel(loss + 0.3 * cp.sum_squares(x), [cp.norm1(x) <= 1.0], x)
        return polished(
            total(logistic(Z, y), ridge(0.3)), lambda v, _: project_l1(v, 1.0), start, diameter=2.0
        )

    g = cg.simple.Ridge(0.3, on=cg.sets.L1Ball(1.0))
    return Problem(
        cg.smooth.Logistic(Z, y),
        g,
        judge,
        lambda x: float(np.abs(x).sum()) - 1.0,
        strongly_convex=True,
    )


def hinge_ridge_box() -> Problem:
    Z, y = labelled(3)

    def judge() -> Verdict:
        x = cp.Variable(6)
        loss = cp.sum_squares(cp.pos(1.0 - cp.multiply(y, Z @ x)))
        start = by_clarabel(loss + 2.0 * cp.sum_squares(x), [x >= -0.3, x <= 0.2], x)
        both = total(squared_hinge(Z, y), ridge(2.0))
        return polished(both, lambda v, _: np.clip(v, -0.3, 0.2), start, diameter=2.0)

    g = cg.simple.Ridge(2.0, on=cg.sets.Box(-0.3, 0.2))
    outside = box_violation(-0.3, 0.2)
    return Problem(cg.smooth.SquaredHinge(Z, y), g, judge, outside, strongly_convex=True)


def ridge_l2ball() -> Problem:
    A, y = data(4)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(
            0.5 * cp.sum_squares(A @ x - y) + 0.3 * cp.sum_squares(x), [cp.norm2(x) <= 0.4], x
        )
        return polished(
            total(squares(A, y), ridge(0.3)), lambda v, _: project_l2(v, 0.4), start, diameter=0.8
        )

    g = cg.simple.Ridge(0.3, on=cg.sets.L2Ball(0.4))
    return Problem(cg.smooth.LeastSquares(A, y), g, judge, l2_violation(0.4), strongly_convex=True)


def sum_ridge_simplex() -> Problem:
    (A, b), (Z, y) = data(5), labelled(6)

    def judge() -> Verdict:
        x = cp.Variable(6)
        loss = cp.sum(cp.logistic(-cp.multiply(y, Z @ x))) + cp.sum_squares(A @ x - b)
        start = by_clarabel(loss + 1.0 * cp.sum_squares(x), [x >= 0, cp.sum(x) == 1], x)
        both = total(logistic(Z, y), squares(A, b), squares(A, b), ridge(1.0))
        return polished(both, lambda v, _: project_simplex(v), start, diameter=2.0)

    f = cg.smooth.Logistic(Z, y) + 2.0 * cg.smooth.LeastSquares(A, b)
    return Problem(
        f,
        cg.simple.Ridge(1.0, on=cg.sets.Simplex(6)),
        judge,
        simplex_violation,
        strongly_convex=True,
    )


def matrix_fit(W: Array, M: Array) -> ValueGradient:
    """1/2 sum W (X - M)^2."""
    return lambda X: (0.5 * float(np.sum(W * (X - M) ** 2)), W * (X - M))


def matrix_data(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2.0, (5, 4)), rng.standard_normal((5, 4))


def nuclear_violation(radius: float) -> Callable[[Array], float]:
    return lambda X: float(np.linalg.svd(X, compute_uv=False).sum()) - radius


def function_ridge_nuclear() -> Problem:
    W, M = matrix_data(7)

    def judge() -> Verdict:
        X = cp.Variable((5, 4))
        fit = 0.5 * cp.sum(cp.multiply(W, cp.square(X - M)))
        start = by_clarabel(fit + 0.5 * cp.sum_squares(X), [cp.normNuc(X) <= 1.5], X)

        def ball(V: Array, _: float) -> Array:
            return on_singular_values(lambda sigma: project_l1(sigma, 1.5), V)

        return polished(total(matrix_fit(W, M), ridge(0.5)), ball, start, diameter=3.0)

    f = cg.smooth.Function(matrix_fit(W, M), smoothness=float(W.max()))
    g = cg.simple.Ridge(0.5, on=cg.sets.NuclearBall(1.5))
    return Problem(f, g, judge, nuclear_violation(1.5), x0=np.zeros((5, 4)), strongly_convex=True)


def entropy_simplex() -> Problem:
    A, y = data(8)

    def judge() -> Verdict:
        x = cp.Variable(6)
        objective = 0.5 * cp.sum_squares(A @ x - y) - 0.4 * cp.sum(cp.entr(x))
        start = by_clarabel(objective, [cp.sum(x) == 1], x)
        return polished(
            total(squares(A, y), entropy(0.4)), lambda v, _: project_simplex(v), start, diameter=2.0
        )

    g = cg.simple.Entropy(0.4, on=cg.sets.Simplex(6))
    return Problem(cg.smooth.LeastSquares(A, y), g, judge, simplex_violation, strongly_convex=True)


def entropy_box() -> Problem:
    Z, y = labelled(9)

    def judge() -> Verdict:
        x = cp.Variable(6)
        loss = cp.sum(cp.logistic(-cp.multiply(y, Z @ x)))
        start = by_clarabel(loss - 1.0 * cp.sum(cp.entr(x)), [x >= 0.1, x <= 0.5], x)
        both = total(logistic(Z, y), entropy(1.0))
        return polished(both, lambda v, _: np.clip(v, 0.1, 0.5), start, diameter=1.0)

    g = cg.simple.Entropy(1.0, on=cg.sets.Box(np.full(6, 0.1), np.full(6, 0.5)))
    outside = box_violation(0.1, 0.5)
    return Problem(cg.smooth.Logistic(Z, y), g, judge, outside, strongly_convex=True)


def function_entropy_simplex() -> Problem:
    A, y = data(10)

    def judge() -> Verdict:
        x = cp.Variable(6)
        objective = 0.5 * cp.sum_squares(A @ x - y) - 0.3 * cp.sum(cp.entr(x))
        start = by_clarabel(objective, [cp.sum(x) == 1], x)
        return polished(
            total(squares(A, y), entropy(0.3)), lambda v, _: project_simplex(v), start, diameter=2.0
        )

    g = cg.simple.Entropy(0.3, on=cg.sets.Simplex(6))
    f = cg.smooth.Function(squares(A, y))
    return Problem(f, g, judge, simplex_violation, strongly_convex=True, smoothness=False)


def zero_simplex() -> Problem:
    A, y = data(11)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(0.5 * cp.sum_squares(A @ x - y), [x >= 0, cp.sum(x) == 1], x)
        return polished(squares(A, y), lambda v, _: project_simplex(v), start, diameter=2.0)

    return Problem(
        cg.smooth.LeastSquares(A, y),
        cg.simple.Zero(on=cg.sets.Simplex(6)),
        judge,
        simplex_violation,
    )


def zero_l2ball() -> Problem:
    A, y = data(12)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(0.5 * cp.sum_squares(A @ x - y), [cp.norm2(x) <= 0.5], x)
        return polished(squares(A, y), lambda v, _: project_l2(v, 0.5), start, diameter=1.0)

    outside = l2_violation(0.5)
    return Problem(
        cg.smooth.LeastSquares(A, y), cg.simple.Zero(on=cg.sets.L2Ball(0.5)), judge, outside
    )


def zero_transport() -> Problem:
    """1/2 |X - M|^2 with M = plan + u 1' + 1 v': the plan is positive, so it is the projection of M."""
    rng = np.random.default_rng(13)
    plan = rng.uniform(0.5, 1.5, (4, 3))
    plan /= plan.sum()
    shift = 0.1 * (rng.standard_normal(4)[:, None] + rng.standard_normal(3)[None, :])
    a, b = plan.sum(axis=1), plan.sum(axis=0)
    least = 0.5 * float(np.sum(shift**2))

    def outside(X: Array) -> float:
        return max(
            -float(X.min()),
            float(np.abs(X.sum(axis=1) - a).max()),
            float(np.abs(X.sum(axis=0) - b).max()),
        )

    f = cg.smooth.Function(matrix_fit(np.ones((4, 3)), plan + shift), smoothness=1.0)
    g = cg.simple.Zero(on=cg.sets.Transport(a, b))
    return Problem(f, g, lambda: Verdict(plan, least, least), outside, iterations=40)


def l1norm_l2ball() -> Problem:
    A, y = data(14)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(
            0.5 * cp.sum_squares(A @ x - y) + 0.1 * cp.norm1(x), [cp.norm2(x) <= 0.5], x
        )

        def prox(v: Array, t: float) -> Array:
            return project_l2(soft(v, 0.1 * t), 0.5)

        return polished(
            squares(A, y), prox, start, diameter=1.0, rest=lambda v: 0.1 * float(np.abs(v).sum())
        )

    g = cg.simple.L1Norm(0.1, on=cg.sets.L2Ball(0.5))
    outside = l2_violation(0.5)
    return Problem(cg.smooth.LeastSquares(A, y), g, judge, outside, gradient=False)


def nuclearnorm_nuclearball() -> Problem:
    W, M = matrix_data(15)

    def judge() -> Verdict:
        X = cp.Variable((5, 4))
        fit = 0.5 * cp.sum(cp.multiply(W, cp.square(X - M)))
        start = by_clarabel(fit + 0.5 * cp.normNuc(X), [cp.normNuc(X) <= 2.0], X)

        def penalty(V: Array) -> float:
            return 0.5 * float(np.linalg.svd(V, compute_uv=False).sum())

        def prox(V: Array, t: float) -> Array:
            return on_singular_values(lambda sigma: project_l1(soft(sigma, 0.5 * t), 2.0), V)

        return polished(matrix_fit(W, M), prox, start, diameter=4.0, rest=penalty)

    f = cg.smooth.Function(matrix_fit(W, M), smoothness=float(W.max()))
    g = cg.simple.NuclearNorm(0.5, on=cg.sets.NuclearBall(2.0))
    return Problem(f, g, judge, nuclear_violation(2.0), x0=np.zeros((5, 4)), gradient=False)


def oracle_box() -> Problem:
    """A user's g with everything: weighted squares on a box."""
    A, y = data(16)
    weight = np.linspace(0.5, 1.5, 6)

    def judge() -> Verdict:
        x = cp.Variable(6)
        objective = 0.5 * cp.sum_squares(A @ x - y) + cp.sum(cp.multiply(weight, cp.square(x)))
        start = by_clarabel(objective, [x >= -0.1, x <= 0.2], x)
        return polished(
            total(squares(A, y), ridge(weight)),
            lambda v, _: np.clip(v, -0.1, 0.2),
            start,
            diameter=1.0,
        )

    g = cg.simple.Oracle(
        lambda x: ridge(weight)(x)[0],
        lambda c: np.clip(-0.5 * c / weight, -0.1, 0.2),
        on=cg.sets.Box(-0.1, 0.2),
        gradient=lambda x: ridge(weight)(x)[1],
    )
    outside = box_violation(-0.1, 0.2)
    return Problem(cg.smooth.LeastSquares(A, y), g, judge, outside, strongly_convex=True)


def oracle_bare() -> Problem:
    """A user's g with two callables and nothing else: squares on an l2 ball."""
    A, y = data(17)

    def judge() -> Verdict:
        x = cp.Variable(6)
        start = by_clarabel(
            0.5 * cp.sum_squares(A @ x - y) + 0.5 * cp.sum_squares(x), [cp.norm2(x) <= 0.3], x
        )
        return polished(
            total(squares(A, y), ridge(0.5)), lambda v, _: project_l2(v, 0.3), start, diameter=0.6
        )

    g = cg.simple.Oracle(lambda x: ridge(0.5)(x)[0], lambda c: project_l2(-c, 0.3))
    outside = l2_violation(0.3)
    f = cg.smooth.LeastSquares(A, y)
    return Problem(f, g, judge, outside, x0=np.zeros(6), strongly_convex=True, gradient=False)


def linear_sum_ridge_simplex() -> Problem:
    A, y = data(18)
    c = np.linspace(-1.0, 1.0, 6)

    def judge() -> Verdict:
        x = cp.Variable(6)
        objective = 0.5 * cp.sum_squares(A @ x - y) + c @ x + 0.5 * cp.sum_squares(x)
        start = by_clarabel(objective, [x >= 0, cp.sum(x) == 1], x)
        both = total(squares(A, y), linear(c), ridge(0.5))
        return polished(both, lambda v, _: project_simplex(v), start, diameter=2.0)

    f = cg.smooth.LeastSquares(A, y) + cg.smooth.Linear(c)
    g = cg.simple.Ridge(0.5, on=cg.sets.Simplex(6))
    return Problem(f, g, judge, simplex_violation, strongly_convex=True)


def linear_entropy_simplex() -> Problem:
    """Closed form: the minimum is -weight log sum exp(-c / weight)."""
    c = np.random.default_rng(19).standard_normal(6)
    least = -0.5 * float(logsumexp(-2.0 * c))
    point = np.exp(-2.0 * c + 2.0 * least)
    g = cg.simple.Entropy(0.5, on=cg.sets.Simplex(6))
    return Problem(
        cg.smooth.Linear(c),
        g,
        lambda: Verdict(point, least, least),
        simplex_violation,
        strongly_convex=True,
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    build.__name__: build
    for build in (
        ridge_l1ball,
        logistic_ridge_l1ball,
        hinge_ridge_box,
        ridge_l2ball,
        sum_ridge_simplex,
        function_ridge_nuclear,
        entropy_simplex,
        entropy_box,
        function_entropy_simplex,
        zero_simplex,
        zero_l2ball,
        zero_transport,
        l1norm_l2ball,
        nuclearnorm_nuclearball,
        oracle_box,
        oracle_bare,
        linear_sum_ridge_simplex,
        linear_entropy_simplex,
    )
}


@cache
def problem(name: str) -> Problem:
    return PROBLEMS[name]()


@cache
def verdict(name: str) -> Verdict:
    """The judge's word, asked once for each problem."""
    return problem(name).judge()


@cache
def solved(name: str, method: str, step: str) -> cg.Result:
    """The run under test, done once for the tests that look at it."""
    p = problem(name)
    return cg.minimize(
        p.f,
        p.g,
        p.x0,
        method=method,
        step="exact" if step == "memory" else step,
        memory=3 if step == "memory" else 0,
        tol=1e-9,
        max_iter=3000 if method == "cgs" and p.promises(step) else p.iterations,
    )


def pairs(possible: bool) -> list[tuple[str, str, str]]:
    """The (problem, method, step) that can work, or those that cannot."""
    return [
        (name, method, step)
        for name, method, step in product(PROBLEMS, ("cgs", "cg"), STEPS)
        if problem(name).possible(method, step) is possible
    ]


def some_pairs() -> list[ParameterSet]:
    """Those that can work; `make test` tries each problem with one step, and each step of each method on one problem."""
    tried: set[object] = set()
    cases = []
    for name, method, step in pairs(possible=True):
        is_new = not {name, (method, step)} <= tried
        tried |= {name, (method, step)}
        cases.append(pytest.param(name, method, step, marks=() if is_new else (pytest.mark.slow,)))
    return cases


def promised_pairs() -> list[tuple[str, str]]:
    """The (problem, step) on which CGS has a linear rate."""
    return [
        (name, step)
        for name, method, step in pairs(possible=True)
        if method == "cgs" and problem(name).promises(step)
    ]


# The tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_judge_is_sure_and_the_problem_is_not_trivial(name: str) -> None:
    """The bracket is closed to rounding, and the library's start is not the answer."""
    p, judged = problem(name), verdict(name)
    assert judged.value - judged.lower <= 1e-11 * judged.scale
    assert p.violation(judged.point) <= 1e-12
    first = cg.minimize(p.f, p.g, p.x0, max_iter=0).trace["value"][0]
    assert first > judged.value + 1e-4 * judged.scale


@pytest.mark.parametrize(("name", "method", "step"), some_pairs())
def test_certificate_holds_at_every_row(name: str, method: str, step: str) -> None:
    """lower_bound <= F* <= value, and the gap covers the truth, at each iteration and in the answer."""
    r, judged = solved(name, method, step), verdict(name)
    slack = judged.tolerance
    trace = r.trace
    assert r.lower_bound <= judged.value + slack
    assert r.value >= judged.lower - slack
    assert (trace["lower_bound"] <= judged.value + slack).all()
    assert (trace["value"] >= judged.lower - slack).all()
    assert (trace["gap"] >= trace["value"] - judged.value - slack).all()
    assert (trace["best_value"] >= judged.lower - slack).all()


@pytest.mark.parametrize(("name", "method", "step"), some_pairs())
def test_trace_is_a_sound_record(name: str, method: str, step: str) -> None:
    """Bounds only rise, the best value only falls, and exact and Armijo steps never climb."""
    r, p = solved(name, method, step), problem(name)
    rounding = 1e-14 * verdict(name).scale
    trace = r.trace
    assert len(trace) == r.iterations + 1
    assert (np.diff(trace["lower_bound"]) >= -rounding).all()
    assert (np.diff(trace["best_value"]) <= 0.0).all()
    assert (trace["best_value"] <= trace["value"]).all()
    assert (np.diff(trace["oracle_calls"]) == 1).all()
    assert ((trace["step"] >= 0.0) & (trace["step"] <= 1.0 + 1e-12)).all()
    if step in ("exact", "memory", "armijo"):
        assert (np.diff(trace["value"]) <= rounding).all()
    assert p.violation(r.x) <= 1e-12
    assert r.gap == pytest.approx(
        trace["best_value"][-1] - trace["lower_bound"][-1], abs=10 * rounding
    )


@pytest.mark.parametrize(("name", "method", "step"), some_pairs())
def test_progress_and_honest_status(name: str, method: str, step: str) -> None:
    """CONVERGED exactly when the certified gap is within the tolerance; no run ends where it began."""
    r, judged = solved(name, method, step), verdict(name)
    assert r.success == (r.gap <= 1e-9 * r.scale)
    assert r.success or r.status in (cg.Status.ITERATION_LIMIT, cg.Status.STALLED)
    start = r.trace["value"][0] - judged.value
    assert r.value - judged.value <= 0.1 * start


@pytest.mark.parametrize(("name", "step"), promised_pairs())
def test_linear_rate_reaches_eight_digits(name: str, step: str) -> None:
    """A strongly convex g promises a linear rate to CGS with exact, Armijo, short and adaptive steps."""
    r, judged = solved(name, "cgs", step), verdict(name)
    assert r.status is cg.Status.CONVERGED
    assert r.value - judged.lower <= 1e-8 * judged.scale
    assert judged.value - r.lower_bound <= 1e-8 * judged.scale


@pytest.mark.parametrize(("name", "method", "step"), pairs(possible=False))
def test_impossible_pairs_are_refused(name: str, method: str, step: str) -> None:
    """What cannot work says so, with the sentence of MissingAbility."""
    with pytest.raises(cg.MissingAbility, match=r"gradient|smoothness|linear_argmin"):
        solved(name, method, step)


@pytest.mark.parametrize("step", STEPS)
def test_entropy_from_a_corner_of_a_large_simplex(step: str) -> None:
    """Where entries are zero the entropy bends infinitely: no overflow, and the linear rate all the same."""
    A, y = data(20)
    A, mass = 0.02 * A, 100.0
    both = total(squares(A, y), entropy(0.1))
    judged = polished(
        both, lambda v, _: project_simplex(v, mass), np.full(6, mass / 6.0), diameter=2.0 * mass
    )
    r = cg.minimize(
        cg.smooth.LeastSquares(A, y),
        cg.simple.Entropy(0.1, on=cg.sets.Simplex(6, mass=mass)),
        mass * np.eye(6)[0],
        step="exact" if step == "memory" else step,
        memory=3 if step == "memory" else 0,
        max_iter=2000,
    )
    assert judged.value - judged.lower <= 1e-9 * judged.scale
    assert (r.trace["lower_bound"] <= judged.value + judged.tolerance).all()
    assert r.value >= judged.lower - judged.tolerance
    assert r.status is cg.Status.CONVERGED or step == "open-loop"
    assert r.value - judged.value <= 1e-4 * judged.scale
