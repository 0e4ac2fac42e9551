"""From the solutions for two radii of the l1 ball to those for the next ones, in one compiled call.

`linear_model.follower.PathFollower` goes the same way in Python, one radius after the other, for data and sets of every
kind, and goes on where this ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import L1_BALL
from condgrad.kernels.ball_model import BallShape, Columns, Step, step
from condgrad.kernels.compiling import compiled
from condgrad.kernels.face_qp import Polytope
from condgrad.kernels.ldl import add_multiple, inner
from condgrad.kernels.losses import set_loss
from condgrad.kernels.working_set import LinearisedOnBall, WorkingSetProblem, linearise


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
    """How to follow a path; the names are those of `linear_model.follower`."""

    t: float
    """The length of the step that names the first face of a model."""
    many_t: float
    """The same where more coordinates than samples are not 0."""
    short: float
    needed: float
    rounds: int
    most_fall: float
    accuracy: float
    """The gap that is small enough, as a share of F, or of `least_scale` where F is less."""
    least_scale: float


class SolvedRadii(NamedTuple):
    """The solutions for the first of the radii that were asked for, a row each."""

    solved: int
    x: Array
    u: Array
    theta: Array
    c: Array
    oracle_point: Array
    """Where the linearised problem is least."""
    numbers: Array
    """The loss and the intercept, and the numbers of `LinearisedOnBall` in their order."""
    last: Step
    """The step that led to none, if that is why there are no more."""
    slope: Array
    """The gradient of F where it began."""


@compiled
def follow(
    problem: WorkingSetProblem,
    chosen: Columns,
    older: PathSolution,
    newer: PathSolution,
    radii: Array,
    rules: FollowRules,
) -> SolvedRadii:
    """One model for each radius, where the last two solutions point to, as long as its least point has a small gap."""
    (n, m), r, loss, ridge = problem.columns.shape, radii.shape[0], problem.loss, problem.ridge
    x, u, theta, c, points = np.empty((r, n)), np.empty((r, m)), np.empty((r, m)), np.empty((r, n)), np.empty((r, n))
    numbers, none, slope = np.empty((r, 6)), np.empty(0), np.empty(0)
    k, last = 0, Step(True, True, True, none, none, none, 0.0, 0.0)
    while k < r and newer.multiplier > 0.0:
        radius = radii[k]
        ahead = share_ahead(older, newer, radius, rules.most_fall)
        start, image = further(newer.x, older.x, ahead), further(newer.u, older.u, ahead)
        slope = further(newer.c, older.c, ahead)
        add_multiple(slope, 2.0 * ridge, start)
        there = np.empty(m)
        _, b = set_loss(loss, image, newer.intercept + ahead * (newer.intercept - older.intercept), there)
        # on a face of more coordinates than samples, most directions have no curvature but that of the ridge
        first_t = rules.many_t if ridge > 0.0 and np.count_nonzero(start) > m else rules.t
        ball = BallShape(radius, False)
        last = step(
            chosen, ball, loss, ridge, start, image, b, there, slope, first_t, rules.short, rules.needed, rules.rounds
        )
        if not last.found:
            break
        polytope = Polytope(L1_BALL, radius, none, none)
        at_radius = WorkingSetProblem(problem.columns, loss, problem.tilt, ridge, polytope)
        linearised = linearise(at_radius, last.theta, last.x)
        value = last.loss + ridge * inner(last.x, last.x)
        gap = value - last.loss + inner(last.theta, last.image) - linearised.bound
        is_lower = value <= newer.loss + ridge * inner(newer.x, newer.x)
        if not (linearised.is_right and is_lower and gap <= rules.accuracy * max(value, rules.least_scale)):
            break
        x[k], u[k], theta[k] = last.x, last.image, last.theta
        c[k], points[k] = linearised.c, linearised.point
        numbers[k, 0], numbers[k, 1], numbers[k, 2] = last.loss, last.intercept, linearised.bound
        numbers[k, 3], numbers[k, 4] = linearised.image_size, linearised.image_size_there
        numbers[k, 5] = linearised.threshold
        older, newer = newer, solution_of(radius, last, linearised)
        k += 1
    return SolvedRadii(k, x, u, theta, c, points, numbers, last, slope)


@compiled
def solution_of(radius: float, end: Step, linearised: LinearisedOnBall) -> PathSolution:
    """The end of a step as a solution; its multiplier is 0 inside the ball."""
    multiplier = linearised.threshold if end.on_boundary else 0.0
    return PathSolution(radius, end.x, end.image, end.theta, linearised.c, end.loss, end.intercept, multiplier)


@compiled
def share_ahead(older: PathSolution, newer: PathSolution, radius: float, most_fall: float) -> float:
    """How far ahead the solution is, as a share of the way between the last two.

    The multiplier falls more and more slowly, as coordinates enter: it is taken to fall by a share of it at most.
    """
    ahead = (radius - newer.radius) / (newer.radius - older.radius)
    fall = older.multiplier - newer.multiplier
    if ahead * fall > most_fall * newer.multiplier:
        ahead = most_fall * newer.multiplier / fall
    return ahead


@compiled
def further(newer: Array, older: Array, ahead: float) -> Array:
    """The point that is ahead on the way from one to another."""
    found = newer.copy()
    for i in range(found.shape[0]):
        found[i] += ahead * (newer[i] - older[i])
    return found
