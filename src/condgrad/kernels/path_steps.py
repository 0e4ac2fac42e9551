"""From the solutions for two radii of the l1 ball, or the solid simplex, to those for the next, in one compiled call.

`linear_model.follower.PathFollower` goes the same way in Python, one radius after the other, for data and sets of every
kind, and goes on where this ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled import SOLID_SIMPLEX, Polytope
from condgrad.ball.compiled.ldl import add_multiple, inner
from condgrad.kernels.ball_model import BallShape, Step, step
from condgrad.kernels.chosen_columns import Columns, FaceGram, RowGram, ScreenRules, columns_for, other_columns
from condgrad.kernels.compiling import compiled, compiled_in_place, entry_point
from condgrad.kernels.matrix import dense_columns
from condgrad.kernels.working_set import (
    CompiledProblem,
    LinearisedOnBall,
    SearchPoint,
    gap_between,
    linearise,
    point_at,
)


class PathSolution(NamedTuple):
    """The solution for one radius."""

    radius: float
    x: Array
    u: Array
    """K x."""
    theta: Array
    c: Array
    """K' theta."""
    loss: float
    intercept: float
    multiplier: float


class FollowRules(NamedTuple):
    """How to follow a path: lengths of steps and a share as in `ball_model.step`, and when a radius is solved."""

    first_t: float
    first_t_of_many: float
    """The same where more coordinates than samples are not 0."""
    t: float
    screen: ScreenRules
    most_copied: int
    """Entries of columns that are worth a copy."""
    rounds: int
    models: int
    """How many one try at a radius may take."""
    most_models: int
    """How many one radius may take altogether, with those of radii in between."""
    bridges: int
    """How many radii in between one radius may take, where it is too far from the last."""
    most_fall: float
    """What the multiplier is taken to fall by from one radius to the next, at most, as a share of it."""
    inside: float
    """How far inside the ball, as a share of its radius, a solution shows by itself that the constraint is idle."""
    accuracy: float
    """The gap that is small enough, as a share of F, or of `least_scale` where F is less."""
    least_scale: float


class BoundTerms(NamedTuple):
    """What the lower bound of Lemma 2 at a solution is made of, and its rounding."""

    loss: float
    intercept: float
    square: float
    """|x|^2."""
    theta_image: float
    """<theta, K x>."""
    theta_length: float
    """|theta|_2."""
    theta_sum: float
    """|theta|_1."""
    image_size: float
    """This and what follows is as in `LinearisedOnBall`."""
    bound: float
    multiplier: float
    """That of the constraint, 0 where it is slack."""
    square_there: float
    """|s|^2 at the least point s of the linearised problem."""
    image_size_there: float


class SolvedRadii(NamedTuple):
    """The solutions for the first of the radii that were asked for, an entry or a row each."""

    filled: int
    """How many there are."""
    x: Array
    bound_terms: Array
    """Those of `BoundTerms`."""
    models: Array
    """How many it took."""
    older: PathSolution
    newer: PathSolution
    """The last two solutions, to go on from."""


TERMS = len(BoundTerms._fields)


@entry_point
def follow_radii(
    problem: CompiledProblem,
    chosen: Columns,
    older: PathSolution,
    newer: PathSolution,
    radii: Array,
    rules: FollowRules,
) -> tuple[Any, ...]:
    """The solutions for the radii, from the last two on, as long as a few models lead to one with a small gap.

    Where they do not, the radius half-way is solved first. Columns for the models are chosen as they are needed. What
    is returned makes a `SolvedRadii` and, behind it, the `Columns` for the next models.
    """
    r, none = radii.shape[0], np.empty(0)
    x, bound_terms, models = np.empty((r, problem.K.width)), np.empty((r, TERMS)), np.zeros(r, np.int64)
    k, radius, bridges = 0, radii[0], 0
    while k < r and newer.multiplier > 0.0 and models[k] < rules.most_models:
        start, slope = predicted(problem, older, newer, radius, rules.most_fall)
        lowest = newer.loss + problem.ridge * inner(newer.x, newer.x)
        polytope = Polytope(problem.polytope.kind, radius, none, none)
        at_radius = CompiledProblem(problem.K, problem.loss, problem.ridge, polytope)
        most = min(rules.models, rules.most_models - models[k])
        is_solved, last, linearised, chosen, taken = solve_radius(at_radius, chosen, start, slope, lowest, most, rules)
        models[k] += taken
        if not is_solved and (not last.suffice or bridges == rules.bridges):
            break
        if not is_solved:
            radius = newer.radius + 0.5 * (radius - newer.radius)
            bridges += 1
            continue
        older, newer = newer, solution_of(radius, last, linearised, rules.inside)
        if radius == radii[k]:
            x[k] = newer.x
            set_bound_terms(bound_terms[k], newer, linearised)
            k, bridges = k + 1, 0
        if k < r:
            radius = radii[k]
    features, is_chosen, columns, face_gram, row_gram = chosen
    return k, x, bound_terms, models, older[:], newer[:], (features, is_chosen, columns, face_gram[:], row_gram[:])


@compiled_in_place
def set_bound_terms(row: Array, at: PathSolution, linearised: LinearisedOnBall) -> None:
    """What the bound at a solution is made of."""
    s = linearised.point
    terms = BoundTerms(
        at.loss,
        at.intercept,
        inner(at.x, at.x),
        inner(at.theta, at.u),
        linearised.theta_length,
        np.abs(at.theta).sum(),
        linearised.image_size,
        linearised.bound,
        at.multiplier,
        inner(s, s),
        linearised.image_size_there,
    )
    for i in range(TERMS):
        row[i] = terms[i]


@compiled_in_place
def solve_radius(
    problem: CompiledProblem,
    chosen: Columns,
    start: SearchPoint,
    slope: Array,
    lowest: float,
    most_models: int,
    rules: FollowRules,
) -> tuple[bool, Step, LinearisedOnBall, Columns, int]:
    """Whether models, the first of them at a start with some slope, lead to a small gap, each to a lower F than before.

    Behind it the last step, the linearised problem at its end, the columns of the last model, and how many there were.
    """
    m, none, ridge, loss = problem.K.samples, np.empty(0), problem.ridge, problem.loss
    ball = BallShape(problem.polytope.size, problem.polytope.kind == SOLID_SIMPLEX)
    linearised = LinearisedOnBall(none, none, 0.0, 0.0, 0.0, 0.0, 0.0, False)
    has_many = np.count_nonzero(start.x) > m
    # on a face of more coordinates than samples, most directions have no curvature but that of the ridge
    t = rules.first_t_of_many if has_many and ridge > 0.0 else rules.first_t
    x, u, theta, b = start.x, start.u, start.theta, start.intercept
    last, models = Step(False, True, True, none, none, none, 0.0, 0.0), 0
    while models < most_models:
        is_new = False
        while True:
            lengths = t, rules.t, rules.screen.needed, rules.rounds
            last = Step(*step(chosen, ball, loss, ridge, x, u, b, theta, slope, *lengths))
            if last.suffice or is_new:
                break
            grows = problem.K.columns.shape[0] > 0
            is_chosen = columns_for(last.x, slope, last.on_boundary, m, rules.most_copied, grows, rules.screen)
            features, is_new = np.flatnonzero(is_chosen), True
            if features.shape[0] == 0:
                break
            others = other_columns(chosen, features, dense_columns(problem.K, features), is_chosen)
            chosen = Columns(others[0], others[1], others[2], FaceGram(*others[3]), RowGram(*others[4]))
        models += 1
        value = last.loss + ridge * inner(last.x, last.x)
        if not (last.found and value <= lowest):
            break
        linearised = LinearisedOnBall(*linearise(problem, last.theta, last.x))
        gap = gap_between(value, last.loss, last.theta, last.image, linearised.bound)
        if gap <= rules.accuracy * max(value, rules.least_scale):
            return linearised.is_right, last, linearised, chosen, models
        x, u, theta, b, lowest, t = last.x, last.image, last.theta, last.intercept, value, rules.first_t
        slope = linearised.c.copy()
        add_multiple(slope, 2.0 * ridge, x)
    return False, last, linearised, chosen, models


@compiled_in_place
def predicted(
    problem: CompiledProblem, older: PathSolution, newer: PathSolution, radius: float, most_fall: float
) -> tuple[SearchPoint, Array]:
    """F where the last two solutions point to, which need not be in the ball, and its gradient, mixed from theirs.

    The multiplier falls more and more slowly, as coordinates enter: it is taken to fall by a share of it at most.
    Where both are the same solution, it is the prediction.
    """
    ahead = 0.0
    if newer.radius > older.radius:
        ahead = (radius - newer.radius) / (newer.radius - older.radius)
    fall = older.multiplier - newer.multiplier
    if ahead * fall > most_fall * newer.multiplier:
        ahead = most_fall * newer.multiplier / fall
    near = newer.intercept + ahead * (newer.intercept - older.intercept)
    start = point_at(problem, further(newer.x, older.x, ahead), further(newer.u, older.u, ahead), near)
    slope = further(newer.c, older.c, ahead)
    add_multiple(slope, 2.0 * problem.ridge, start.x)
    return start, slope


@compiled_in_place
def solution_of(radius: float, end: Step, linearised: LinearisedOnBall, inside: float) -> PathSolution:
    """The end of a step as a solution; its multiplier is 0 where it is inside the ball by a share of the radius."""
    multiplier = linearised.threshold if np.abs(end.x).sum() >= (1.0 - inside) * radius else 0.0
    return PathSolution(radius, end.x, end.image, end.theta, linearised.c, end.loss, end.intercept, multiplier)


@compiled
def further(newer: Array, older: Array, ahead: float) -> Array:
    """newer + ahead (newer - older)."""
    found = newer.copy()
    for i in range(found.shape[0]):
        found[i] += ahead * (newer[i] - older[i])
    return found
