"""The theory's constants against their definitions, its F* against another solver, its verdicts on doctored curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.paper.chapter import Verdict
from experiments.paper.figures import STYLES
from experiments.paper.tasks import Curve, Scale
from experiments.paper.theory import KINDS, RADIUS, RIDGE, THEORY, TheoryProblem, rates, tasks

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

SIZES = {"least squares": 15, "logistic": 15, "transport": 12, "corner": 400}
CLAIMS = ("theorem", "open-loop", "linear", "strong", "certificate")


@pytest.fixture(scope="module")
def curves() -> list[Curve]:
    return [task.work() for task in tasks(Scale(seeds=2), SIZES, iterations=60, cap=20.0)]


@pytest.fixture(scope="module")
def problems() -> dict[str, TheoryProblem]:
    return {name: KINDS[name].make(size, 0) for name, size in SIZES.items()}


def verdicts(curves: Sequence[Curve]) -> dict[str, Verdict]:
    return dict(
        zip(CLAIMS, (claim.verdict for claim in THEORY.chapter(curves).claims), strict=True)
    )


def doctored(
    curves: Sequence[Curve],
    column: str,
    change: Callable[[Any, Curve], Any],
    *,
    when: Callable[[Curve], bool],
) -> list[Curve]:
    """The curves with one column of some of them changed."""
    return [
        replace(c, columns={**c.columns, column: list(change(np.array(c.columns[column]), c))})
        if when(c)
        else c
        for c in curves
    ]


# The constants --------------------------------------------------------------------------------------------------------


def point(name: str, size: int, rng: np.random.Generator) -> Any:
    """A vertex of the set or a point of it."""
    if name == "transport":
        plans = [np.eye(size)[rng.permutation(size)] / size for _ in range(3)]
        return sum(w * plan for w, plan in zip(rng.dirichlet(np.full(3, 0.2)), plans, strict=True))
    weights = rng.dirichlet(np.full(size, 0.05))
    return weights if name == "corner" else RADIUS * weights * rng.choice([-1.0, 1.0], size)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), a=st.floats(0.0, 1.0))
def test_the_curvature_is_one(
    name: str, seed: int, a: float, problems: dict[str, TheoryProblem]
) -> None:
    """f((1 - a) x + a y) <= f(x) + a <grad f(x), y - x> + C_f a^2 / 2."""
    problem, rng = problems[name], np.random.default_rng(seed)
    x, y = (point(name, SIZES[name], rng) for _ in range(2))
    value, gradient = problem.f.value_and_gradient(x)
    top = value + a * float((gradient * (y - x)).sum()) + 0.5 * problem.curvature * a * a
    assert problem.f.at((1.0 - a) * x + a * y).value <= top + 1e-12 * max(1.0, abs(top))


@pytest.mark.parametrize("name", ["least squares", "corner"])
def test_the_curvature_of_a_quadratic_is_attained(
    name: str, problems: dict[str, TheoryProblem]
) -> None:
    """At a pair of vertices f bends by C_f, so the constant that is called exact is."""
    problem, n = problems[name], 15
    signs = (1.0,) if name == "corner" else (1.0, -1.0)
    scale = 1.0 if name == "corner" else RADIUS
    vertices = [scale * sign * np.eye(SIZES[name])[i] for i in range(n) for sign in signs]
    bends = []
    for u in vertices:
        value, gradient = problem.f.value_and_gradient(u)
        bends += [
            2.0 * (problem.f.at(v).value - value - float(gradient @ (v - u))) for v in vertices
        ]
    assert max(bends) == pytest.approx(problem.curvature, rel=1e-10)


@pytest.mark.parametrize("name", ["least squares", "logistic"])
def test_smoothness_and_strong_convexity(name: str, problems: dict[str, TheoryProblem]) -> None:
    """L is not below what the library knows of f, nor far above it; mu is that of the ridge."""
    problem = problems[name]
    assert problem.strong_convexity == 2.0 * RIDGE
    assert problem.f.smoothness is not None
    assert problem.smoothness == pytest.approx(problem.f.smoothness, rel=1e-6)
    assert 0.0 < problem.contraction < 1.0


# F* -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["least squares", "logistic"])
def test_the_reference_agrees_with_another_solver(
    name: str, problems: dict[str, TheoryProblem], curves: list[Curve]
) -> None:
    f: Any = problems[name].f
    x = cvxpy.Variable(SIZES[name])
    loss = 0.5 * cvxpy.sum_squares(f.K @ x - f.h.y) if name == "least squares" else _logistic(f, x)
    task = cvxpy.Problem(
        cvxpy.Minimize(loss + RIDGE * cvxpy.sum_squares(x)), [cvxpy.norm1(x) <= RADIUS]
    )
    judged = task.solve(solver=cvxpy.CLARABEL)
    known = next(run for run in rates(curves).itertuples() if run.problem == name and run.seed == 0)
    assert known.optimum == pytest.approx(judged, abs=1e-6)


def _logistic(f: Any, x: Any) -> Any:
    return cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(f.h.y, f.K @ x)))


def test_the_corner_has_a_closed_form(curves: list[Curve]) -> None:
    """F* = 1/(2n), and no run is below what k + 1 entries allow."""
    runs = rates(curves)
    corner = list(runs[runs["problem"] == "corner"].itertuples())
    assert len(corner) == 3
    for run in corner:
        assert run.optimum == 0.5 / SIZES["corner"]
        assert (run.h >= 0.5 / (run.k + 1.0) - run.optimum - 1e-12).all()
        assert run.above.max() <= 1e-12


# The chapter ----------------------------------------------------------------------------------------------------------


def test_tasks_and_curves(curves: list[Curve]) -> None:
    every = THEORY.tasks(Scale(seeds=3))
    assert len({task.name for task in every}) == len(every) == 3 * 10 + 4 + 3
    assert all(
        {"iteration", "seconds", "value", "best_value", "lower_bound"} == set(curve.columns)
        for curve in curves
    )


def test_the_verdicts_of_a_true_run(curves: list[Curve]) -> None:
    found = verdicts(curves)
    quick = [claim.verdict for claim in THEORY.chapter(curves, quick=True).claims]
    assert list(found.values()) == quick
    assert found.pop("linear") is Verdict.IN_PART
    assert set(found.values()) == {Verdict.HOLDS}


@settings(max_examples=12)
@given(data=st.data())
def test_any_part_of_the_curves_makes_a_chapter(curves: list[Curve], data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.integers(0, len(curves) - 1)))
    chapter = THEORY.chapter([curve for i, curve in enumerate(curves) if i in kept])
    assert len(chapter.claims) == len(CLAIMS)
    assert all(line.solver in STYLES for figure in chapter.figures for line in figure.legend)
    if not kept:
        assert all(claim.verdict is Verdict.UNTESTED for claim in chapter.claims)


# Verdicts are functions of the numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "claim"), [("exact", "theorem"), ("open-loop", "open-loop")])
def test_an_error_above_the_bound_turns_the_theorem(
    step: str, claim: str, curves: list[Curve]
) -> None:
    def lifted(value: Any, curve: Curve) -> Any:
        value[-1] += 2.0 * curve.facts["curvature"]
        return value

    told = doctored(
        curves, "value", lifted, when=lambda c: c.facts["step"] == step and c.problem == "corner"
    )
    assert verdicts(told)[claim] is Verdict.IN_PART


def test_a_geometric_corner_would_make_the_rate_linear(curves: list[Curve]) -> None:
    def geometric(value: Any, curve: Curve) -> Any:
        return curve.facts["optimum"] + 0.5 * 0.9 ** np.arange(len(value))

    told = doctored(curves, "value", geometric, when=lambda c: c.problem == "corner")
    assert verdicts(told)["linear"] is Verdict.HOLDS


def test_a_slow_step_turns_the_linear_rate(curves: list[Curve]) -> None:
    def halted(value: Any, _: Curve) -> Any:
        value[1] = value[0]
        return value

    one = doctored(
        curves,
        "value",
        halted,
        when=lambda c: c.problem == "logistic" and c.facts["step"] == "short",
    )
    assert verdicts(one)["strong"] is Verdict.IN_PART
    every = doctored(curves, "value", halted, when=lambda c: c.facts["step"] in ("exact", "short"))
    assert verdicts(every)["strong"] is Verdict.FAILS
    assert verdicts(every)["linear"] is Verdict.FAILS


def test_a_bound_above_the_optimum_fails_the_certificate(curves: list[Curve]) -> None:
    told = doctored(
        curves,
        "lower_bound",
        lambda bound, _: bound + 1.0,
        when=lambda c: c.problem == "corner" and c.seed == 0,
    )
    assert verdicts(told)["certificate"] is Verdict.FAILS
