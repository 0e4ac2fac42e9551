"""The statements of the paper, sections 1 and 2, one by one.

C_f is the curvature of f alone. For f = h(Ax) with h'' <= b it is at most b max |A(u - v)|^2 over pairs of vertices.
The judge of F* is the proximal gradient of `tests.matrix.judge`, with its bracket; no solver starts it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from tests.matrix.judge import (
    Array,
    ValueGradient,
    Verdict,
    entropy,
    logistic,
    polished,
    project_l1,
    project_simplex,
    ridge,
    squares,
    total,
)
from tests.matrix.problems import data, labelled

N = 6
SCALES = np.linspace(
    0.5, 2.0, N
)  # so that neither the simplex nor the ball makes a problem too easy
RADIUS = 2.0
RIDGE = 0.3
ENTROPY = 1.0


# Problems whose curvature is known ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """f + g on a polytope, the same in NumPy, and C_f computed from the vertices."""

    f: Any
    g: Any
    smooth: ValueGradient
    """f, written again."""
    penalty: ValueGradient
    """g, written again."""
    project: Callable[[Array], Array]
    vertices: Array
    curvature: float

    def F(self, x: Array) -> float:
        return self.smooth(x)[0] + self.penalty(x)[0]

    @property
    def strictly_convex(self) -> bool:
        return not isinstance(self.g, cg.simple.Zero)


def curvature(A: Array, vertices: Array, bend: float) -> float:
    """bend * max |A(u - v)|^2 over pairs of vertices: the largest second derivative between points of the hull."""
    images = vertices @ A.T
    return bend * max(float(np.sum((p - q) ** 2)) for p in images for q in images)


SIMPLEX = np.eye(N)
L1BALL = RADIUS * np.vstack([np.eye(N), -np.eye(N)])


def zero(x: Array) -> tuple[float, Array]:
    return 0.0, np.zeros_like(x)


def least_squares_case(penalty: str, on: str) -> Case:
    A, y = data(24)
    A = A * SCALES
    return build(cg.smooth.LeastSquares(A, y), squares(A, y), A, 1.0, penalty, on)


def logistic_case(penalty: str, on: str) -> Case:
    Z, y = labelled(22)
    Z = Z * SCALES
    return build(cg.smooth.Logistic(Z, y), logistic(Z, y), Z, 0.25, penalty, on)


def build(f: Any, smooth: ValueGradient, A: Array, bend: float, penalty: str, on: str) -> Case:
    """A case from f and the names of g and P."""
    vertices = SIMPLEX if on == "simplex" else L1BALL
    P = cg.sets.Simplex(N) if on == "simplex" else cg.sets.L1Ball(RADIUS)
    g, written = {
        "ridge": (lambda: cg.simple.Ridge(RIDGE, on=P), ridge(RIDGE)),
        "entropy": (lambda: cg.simple.Entropy(ENTROPY, on=P), entropy(ENTROPY)),
        "zero": (lambda: cg.simple.Zero(on=P), zero),
    }[penalty]
    project = project_simplex if on == "simplex" else lambda v: project_l1(v, RADIUS)
    return Case(f, g(), smooth, written, project, vertices, curvature(A, vertices, bend))


CASES: dict[str, tuple[Callable[[str, str], Case], str, str]] = {
    f"{loss}-{penalty}-{on}": (make, penalty, on)
    for loss, make in (("squares", least_squares_case), ("logistic", logistic_case))
    for penalty, on in (
        ("ridge", "simplex"),
        ("ridge", "l1ball"),
        ("entropy", "simplex"),
        ("zero", "simplex"),
        ("zero", "l1ball"),
    )
}
STRICT = [name for name in CASES if "zero" not in name]
RIDGES = [name for name in CASES if "ridge" in name]


@cache
def case(name: str) -> Case:
    make, penalty, on = CASES[name]
    return make(penalty, on)


@cache
def optimum(name: str) -> Verdict:
    """The judge's F* and x*."""
    c = case(name)
    start = c.vertices.mean(axis=0) + 0.1 * c.vertices[0]
    judged = polished(
        total(c.smooth, c.penalty), lambda v, _: c.project(v), start, diameter=2.0 * RADIUS
    )
    assert judged.value - judged.lower <= 1e-11 * judged.scale
    return judged


def feasible_points() -> st.SearchStrategy[Array]:
    """Weights of the vertices, some of them zero: points inside, on faces and at corners."""
    weight = st.one_of(st.just(0.0), st.floats(0.01, 1.0))
    return (
        st.lists(weight, min_size=2 * N, max_size=2 * N)
        .filter(lambda w: sum(w[:N]) > 0.0)
        .map(np.array)
    )


def point_of(c: Case, weights: Array) -> Array:
    """The point with these barycentric weights."""
    w = weights[: len(c.vertices)]
    return (w / w.sum()) @ c.vertices


class Oracle(NamedTuple):
    """The partially linearised oracle at x, and what the paper says about it."""

    s: Array
    c: Array
    bound: float
    model_gap: float
    """<grad f(x), x - s> + g(x) - g(s)."""


def oracle(c: Case, x: Array) -> Oracle:
    """Line 3 of Algorithm 1 at x: the library's oracle at a gradient written here."""
    slope = c.smooth(x)[1]
    answer = c.g.argmin(slope)
    gap = float(slope @ (x - answer.point)) + c.penalty(x)[0] - c.penalty(answer.point)[0]
    return Oracle(answer.point, slope, answer.bound, gap)


def first_row(name: str, x: Array, method: str = "cgs") -> tuple[float, float]:
    """F(x) and the lower bound that a run proves at its start x."""
    trace = cg.minimize(case(name).f, case(name).g, x, method=method, max_iter=0).trace
    return float(trace["value"][0]), float(trace["lower_bound"][0])


@dataclass(frozen=True)
class Run:
    """A run with its iterates."""

    points: list[Array]
    h: Array
    """F(x_k) - F*, with F written here."""
    steps: Array
    """a_k, which leads from x_k to x_{k+1}."""
    result: cg.Result


def run(name: str, step: Any, iterations: int, x0: Array | None = None, tol: float = 0.0) -> Run:
    points: list[Array] = []
    c = case(name)
    r = cg.minimize(
        c.f,
        c.g,
        x0,
        step=step,
        tol=tol,
        max_iter=iterations,
        callback=lambda now: points.append(np.array(now.x)),
    )
    h = np.array([c.F(x) for x in points]) - optimum(name).value
    # a converged run does not show its last iterate to the callback
    return Run(points, h, r.trace["step"][1 : len(points)], r)


# Proposition 1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_proposition_1_a_minimiser_is_a_fixed_point(name: str) -> None:
    """At the judge's minimiser x* no point does better than x* in the partially linearised problem."""
    c, judged = case(name), optimum(name)
    here = oracle(c, judged.point)
    assert here.model_gap == pytest.approx(0.0, abs=1e-10)
    if c.strictly_convex:  # then the argmin is one point
        assert np.abs(here.s - judged.point).max() <= 1e-6


@pytest.mark.parametrize("name", STRICT)
def test_proposition_1_a_fixed_point_is_a_minimiser(name: str) -> None:
    """Iterate x <- x + (s - x)/30 until s = x; the judge agrees that F(x) = F*."""
    c, x = case(name), point_of(case(name), np.ones(2 * N))
    for _ in range(5000):
        s = oracle(c, x).s
        if np.abs(s - x).max() <= 1e-14:
            break
        x = x + (s - x) / 30.0
    assert np.abs(oracle(c, x).s - x).max() <= 1e-13
    assert c.F(x) == pytest.approx(optimum(name).value, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points())
def test_proposition_1_anything_else_moves(name: str, weights: Array) -> None:
    """Away from the optimum s differs from x, and a run leaves x for a better point."""
    c = case(name)
    x = point_of(c, weights)
    h = c.F(x) - optimum(name).value
    if h < 1e-6:
        return
    assert np.abs(oracle(c, x).s - x).max() > 1e-6
    r = cg.minimize(c.f, c.g, x, tol=0.0, max_iter=1)
    assert r.trace["value"][1] < c.F(x)
    assert c.F(r.x) < c.F(x)


# The descent lemma ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points())
def test_descent_lemma(name: str, weights: Array) -> None:
    """s is in P and <grad F(x), s - x> <= -(model gap) <= 0."""
    c = case(name)
    x = point_of(c, weights)
    here = oracle(c, x)
    assert np.abs(c.project(here.s) - here.s).max() <= 1e-14
    assert here.model_gap >= -1e-14
    slope = float((here.c + c.g.gradient(x)) @ (here.s - x))
    # the entropy's slope at a zero entry is -inf; the library's stand-in must still be a slope of g
    assert slope <= -here.model_gap + 1e-12 * max(1.0, abs(slope))


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points())
def test_descent_lemma_short_steps_go_down(name: str, weights: Array) -> None:
    """By the curvature of f, F(x + a(s - x)) <= F(x) - a gap + C_f a^2 / 2; so a small a goes down."""
    c = case(name)
    x = point_of(c, weights)
    here = oracle(c, x)
    for a in (1.0, 0.5, 0.1, min(1.0, here.model_gap / c.curvature)):
        top = c.F(x) - a * here.model_gap + 0.5 * c.curvature * a * a
        assert c.F(x + a * (here.s - x)) <= top + 1e-13 * max(1.0, abs(top))


# Lemma 2 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points())
def test_lemma_2_bounds_the_optimum(name: str, weights: Array) -> None:
    """lower <= F* <= F(x), the second strict away from the optimum, as the first row of a run states them."""
    c, judged = case(name), optimum(name)
    x = point_of(c, weights)
    value, lower = first_row(name, x)
    assert value == pytest.approx(c.F(x), rel=1e-13)
    assert lower <= judged.value + judged.tolerance
    # the bound is the paper's number, up to the rounding it gives away
    assert value - lower == pytest.approx(oracle(c, x).model_gap, abs=1e-13 * judged.scale)
    if np.abs(x - judged.point).max() > 1e-4 and c.strictly_convex:
        assert value > judged.value


@pytest.mark.parametrize("name", CASES)
def test_lemma_2_is_tight_at_the_optimum(name: str) -> None:
    """At x* the bound is F* itself."""
    judged = optimum(name)
    value, lower = first_row(name, judged.point)
    assert value - lower <= 1e-10 * judged.scale
    assert lower == pytest.approx(judged.value, rel=1e-10)


# The rate theorem -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["exact", "open-loop"])
@pytest.mark.parametrize("name", CASES)
def test_rate_theorem(name: str, step: str) -> None:
    """F(x_k) - F* <= 2 C_f / (k + 2) from the worst vertex, although the entropy has infinite curvature there."""
    c = case(name)
    worst = max(c.vertices, key=c.F)
    h = run(name, step, 200, x0=worst).h
    k = np.arange(len(h))
    assert len(h) > 1
    assert (h[1:] <= 2.0 * c.curvature / (k[1:] + 2.0) + optimum(name).tolerance).all()


def test_rate_theorem_is_not_linear_without_strong_convexity() -> None:
    """F = |x|^2/2 on the simplex: after k steps at most k + 1 entries are positive, so 1/(2k + 2) <= F(x_k)."""
    n = 300
    f = cg.smooth.LeastSquares(np.eye(n), np.zeros(n))
    for step in ("exact", "open-loop", "short"):
        r = cg.minimize(
            f, cg.simple.Zero(on=cg.sets.Simplex(n)), np.eye(n)[0], step=step, tol=0.0, max_iter=100
        )
        k = np.arange(len(r.trace))
        h = r.trace["value"] - 0.5 / n
        assert len(h) == 101
        assert (h >= 0.5 / (k + 1.0) - 0.5 / n - 1e-12).all()
        assert (h[1:] <= 2.0 * 2.0 / (k[1:] + 2.0)).all()


@pytest.mark.parametrize("step", ["exact", "open-loop", "armijo", "short"])
@pytest.mark.parametrize("name", CASES)
def test_the_recursion_of_the_rate_theorem(name: str, step: str) -> None:
    """h_{k+1} <= (1 - a) h_k + C_f a^2 / 2 for the step taken; an exact step does as well as the best a."""
    c = case(name)
    worst = max(c.vertices, key=c.F)
    seen = run(name, step, 60, x0=worst)
    h, a = seen.h, seen.steps
    slack = optimum(name).tolerance
    assert len(h) > 1
    assert (h[1:] <= (1.0 - a) * h[:-1] + 0.5 * c.curvature * a**2 + slack).all()
    if step == "exact":
        best = np.clip(h[:-1] / c.curvature, 0.0, 1.0)
        assert (h[1:] <= (1.0 - best) * h[:-1] + 0.5 * c.curvature * best**2 + slack).all()


ARMIJO = [(1e-4, 0.5), (0.25, 0.5), (0.5, 0.5), (0.3, 0.8)]


@pytest.mark.parametrize(("fraction", "shrink"), ARMIJO)
@pytest.mark.parametrize("name", CASES)
def test_armijo_steps_are_never_too_short(name: str, fraction: float, shrink: float) -> None:
    """a_k >= min(1, 2 (1 - s) b gap_k / C_f), with fraction s and shrink b.

    F(x + a d) <= F(x) - a gap + C_f a^2 / 2, so that every a <= 2 (1 - s) gap / C_f passes the test
    F(x + a d) <= F(x) - s a gap. Backtracking stops at 1, or after a trial a / b that failed.
    """
    c = case(name)
    seen = run(name, cg.steps.Armijo(fraction, shrink), 60, x0=max(c.vertices, key=c.F))
    gaps = np.array([oracle(c, x).model_gap for x in seen.points[:-1]])
    # near the optimum F is flat to rounding, and the test is one of noise
    clear = gaps > 1e-9
    assert clear.any()
    floor = np.minimum(1.0, 2.0 * (1.0 - fraction) * shrink * gaps / c.curvature)
    assert (seen.steps[clear] >= (1.0 - 1e-9) * floor[clear]).all()
    drop = -np.diff(seen.h)
    assert (drop >= fraction * seen.steps * gaps - 1e-13 * optimum(name).scale).all()


@pytest.mark.parametrize(("fraction", "shrink"), ARMIJO)
@pytest.mark.parametrize("name", CASES)
def test_rate_theorem_for_armijo(name: str, fraction: float, shrink: float) -> None:
    """h_k is below the recursion that its steps imply, which is O(1/k) with the constant C_f / (2 s (1 - s) b).

    With the steps of the previous test and gap >= h,
        h_{k+1} <= h_k - s a gap <= u(h_k),   u(h) = h - s min(h, q h^2),   q = 2 (1 - s) b / C_f.
    u increases for s <= 1/2, so h_k <= u^k(h_0). Once q h <= 1, 1/h grows by at least s q a step, and before
    that h shrinks by 1 - s: h_{j+k} <= 1 / (s q k) from the first j on with q h_j <= 1.
    """
    c = case(name)
    h = run(name, cg.steps.Armijo(fraction, shrink), 100, x0=max(c.vertices, key=c.F)).h
    q = 2.0 * (1.0 - fraction) * shrink / c.curvature
    bounds = [h[0]]
    for _ in h[1:]:
        u = bounds[-1]
        bounds.append(u - fraction * min(u, q * u * u))
    assert len(h) > 1
    assert (h <= np.array(bounds) + optimum(name).tolerance).all()
    first = int(np.argmax(q * h <= 1.0))
    k = np.arange(1, len(h) - first)
    assert (h[first + 1 :] <= 1.0 / (fraction * q * k) + optimum(name).tolerance).all()


# Comparison with the classical gap ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points())
def test_our_gap_is_never_worse_than_the_classical_one(name: str, weights: Array) -> None:
    """classical gap >= ours + D_g(s, x), and D_g > 0 for a strictly convex g unless s = x."""
    c = case(name)
    x = point_of(c, weights)
    value, ours = first_row(name, x)
    same_value, classical = first_row(name, x, method="cg")
    rounding = 1e-12 * max(1.0, abs(classical))
    assert same_value == pytest.approx(value, rel=1e-14)
    assert classical <= ours + rounding
    if not c.strictly_convex:
        assert classical == pytest.approx(ours, abs=rounding)
        return
    s = oracle(c, x).s
    bend = (
        2.0 * RIDGE if isinstance(c.g, cg.simple.Ridge) else ENTROPY
    )  # both strong convexities hold on the set
    distance = float((s - x) @ (s - x))
    assert classical <= ours - 0.5 * bend * distance + rounding
    if distance > 1e-8:
        assert classical < ours


# The linear rate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["short", "exact"])
@pytest.mark.parametrize("name", RIDGES)
def test_linear_rate_under_strong_convexity(name: str, step: str) -> None:
    """h_{k+1} <= L/(L + mu) h_k at every iteration until rounding, mu = 2 weight."""
    c, judged = case(name), optimum(name)
    seen = run(name, step, 500, x0=max(c.vertices, key=c.F), tol=1e-14)
    above = seen.h[seen.h > 1e-10 * judged.scale]
    L, mu = c.f.smoothness, 2.0 * RIDGE
    assert c.g.strong_convexity == mu
    assert len(above) >= 3
    assert c.F(seen.result.x) - judged.value <= 1e-10 * judged.scale
    assert (above[1:] <= L / (L + mu) * above[:-1] + judged.tolerance).all()


def test_linear_rate_is_of_the_right_order() -> None:
    """Short steps can be as slow as the square of the bound: h shrinks by (L/(L + mu))^2 exactly.

    f = L/2 (x_1 - 1)^2 and g = mu/2 |x|^2, far from the boundary. The start is optimal in x_1, and the oracle sends
    x_2, where f is flat, to 0: gap = mu D/2, so that a = mu/(L + mu) and x_2 shrinks by 1 - a.
    """
    L, mu = 4.0, 1.0
    f = cg.smooth.LeastSquares(np.array([[np.sqrt(L), 0.0]]), np.array([np.sqrt(L)]))
    g = cg.simple.Ridge(0.5 * mu, on=cg.sets.L2Ball(10.0))
    r = cg.minimize(f, g, np.array([L / (L + mu), 1.0]), step="short", tol=0.0, max_iter=30)
    h = r.trace["value"] - 0.5 * L * mu / (L + mu)
    ratios = h[1:20] / h[:19]
    assert (ratios <= L / (L + mu)).all()
    assert ratios == pytest.approx(np.full(19, (1.0 - mu / (L + mu)) ** 2), rel=1e-6)


# The oracle's point and the distance to the optimum -------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(weights=feasible_points(), loose=st.floats(0.0, 1.0))
def test_bregman_identity(name: str, weights: Array, loose: float) -> None:
    """F(s) - lower = D_f(s, x) + (<c, s> + g(s) - bound), for exact oracles and for ones with a loose bound."""
    c = case(name)
    x = point_of(c, weights)
    here = oracle(c, x)
    bound = here.bound - loose
    evaluated = c.f.at(x)
    lower = evaluated.offset + bound
    at_s = c.f.at(here.s).value + c.g.value(here.s)
    bregman = c.smooth(here.s)[0] - c.smooth(x)[0] - float(here.c @ (here.s - x))
    inexactness = float(here.c @ here.s) + c.penalty(here.s)[0] - bound
    assert at_s - lower == pytest.approx(bregman + inexactness, abs=1e-12 * max(1.0, abs(at_s)))
    assert bregman <= 0.5 * c.curvature + 1e-12
    assert inexactness == pytest.approx(loose, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_better_of_x_and_s_is_returned(name: str) -> None:
    """The certificate takes the oracle's point where its value is lower."""
    c = case(name)
    worst = max(c.vertices, key=c.F)
    r = cg.minimize(c.f, c.g, worst, max_iter=0)
    s = oracle(c, worst).s
    assert r.value == pytest.approx(min(c.F(worst), c.F(s)), rel=1e-13)
    assert c.F(r.x) == pytest.approx(r.value, rel=1e-13)


@pytest.mark.parametrize("step", ["exact", "open-loop", "armijo", "short"])
@pytest.mark.parametrize("name", RIDGES)
def test_the_gap_bounds_the_distance_to_the_optimum(name: str, step: str) -> None:
    """|x - x*| <= sqrt(gap / weight) at every iterate and for the answer."""
    c, judged = case(name), optimum(name)
    seen = run(name, step, 60, x0=max(c.vertices, key=c.F), tol=1e-12)
    # the judge's own x* is known to sqrt(bracket / weight)
    slack = (judged.tolerance / RIDGE) ** 0.5
    distances = np.array([np.linalg.norm(x - judged.point) for x in seen.points])
    gaps = seen.result.trace["gap"][: len(distances)]
    assert len(distances) >= 3
    assert (distances <= np.sqrt(gaps / RIDGE) + slack).all()
    assert np.linalg.norm(seen.result.x - judged.point) <= (seen.result.gap / RIDGE) ** 0.5 + slack
