"""One working set after the other in one compiled call: Newton's method for small dense data, on balls of the l1 norm.

These are the l1 ball and the solid simplex, whose points have no negative coordinate.

`newton.faces.FaceNewton` takes the same turns in Python, for data and sets of every kind, and goes on where this ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled
from condgrad.kernels.face_qp import norm
from condgrad.kernels.ldl import add_multiple, inner
from condgrad.kernels.losses import UNIT
from condgrad.kernels.working_set import (
    LastGram,
    LinearisedOnBall,
    SearchPoint,
    WorkingSetProblem,
    linearise,
    not_zero_or_steep,
    point_at,
    pulls_of,
    solve,
    steepest_of_others,
    support_and_steep,
)
from condgrad.newton.face_models import LONG_MODEL
from condgrad.newton.faces import COMPILED_OPERATIONS, FIRST_SIZE, NEAR_MULTIPLIER, NEWTON_STEPS, SETTLED, SLOW

MOST_OPERATIONS = 1 << 27
"""Multiplications of all Gram matrices after which compiled code, which nothing interrupts, ends in any case."""


class SolvedByWorkingSets(NamedTuple):
    """Where Newton's steps in working sets end."""

    point: SearchPoint
    linearised: LinearisedOnBall
    """The linearised problem there."""
    steps: int
    has_moved: bool
    is_done: bool
    """Whether the gap is small; else something came up that this code does not know."""


@compiled
def solve_by_working_sets(
    problem: WorkingSetProblem,
    here: SearchPoint,
    c: Array,
    bound: float,
    size: int,
    accuracy: float,
    least_scale: float,
    most_support: int,
) -> SolvedByWorkingSets:
    """Newton steps until the gap is at most a share of F, or of a least scale where F is less.

    c and the bound are those of the linearised problem at the start. The first working set has about so many
    coordinates. It ends early where more than `most_support` are not 0, the constraint is likely slack, a working
    set is large or a Newton step fails: that is the caller's business.
    """
    (n, m), has_intercept, kind = problem.columns.shape, problem.loss.has_intercept, problem.polytope.kind
    most_steps = np.int64(NEWTON_STEPS)  # a constant is of a type of its own, for which all would be compiled once more
    linearised = LinearisedOnBall(c, here.x, bound, 0.0, 0.0, 0.0, True)
    gap = gap_at(here, linearised)
    steps, operations, multiplier, has_moved, suffices = 0, 0, -1.0, False, False
    stop, unknown = np.zeros(1, np.bool_), np.empty(0)
    chosen, means = np.empty(0, np.int64), np.empty(0)
    part, gram = problem, LastGram(np.empty((0, 0)), np.empty(0), np.empty(0))
    while True:
        enough = accuracy * max(here.value, least_scale)
        if gap <= enough:
            return SolvedByWorkingSets(here, linearised, steps, has_moved, True)
        slope = linearised.c.copy()
        add_multiple(slope, 2.0 * problem.ridge, here.x)
        if not suffices:
            chosen = not_zero_or_steep(here.x, pulls_of(slope, kind), size)
            k = chosen.shape[0]
            if k == 0 or k >= LONG_MODEL or m * k * k > COMPILED_OPERATIONS:
                break
            part, means = chosen_part(problem, chosen)
            gram = LastGram(np.empty((k, k)), np.empty(k), np.full(m, np.nan))
        k = chosen.shape[0]
        x = here.x[chosen]
        shift = inner(means, x) if has_intercept else 0.0
        start = SearchPoint(x, here.u - shift, here.theta, here.loss, here.intercept + shift, here.value)
        known = unknown if has_intercept else slope[chosen]
        found = solve(part, start, known, multiplier, gram, SETTLED * gap, most_steps, stop)
        steps += found.steps
        operations += found.steps * m * k * k
        if not found.has_moved:
            break
        there = embedded(problem, chosen, means, found.point)
        if not there.value < here.value:
            break
        before, has_moved, multiplier = gap, True, found.multiplier
        here, linearised = there, linearise(problem, there.theta, there.x)
        gap = gap_at(here, linearised)
        pulls = pulls_of(linearised.c, kind)  # but for the ridge, which tells nothing of coordinates that are 0
        support, near = support_and_steep(here.x, pulls, NEAR_MULTIPLIER * multiplier)
        is_slow = gap > SLOW * before
        suffices = not is_slow and steepest_of_others(pulls, chosen) <= multiplier
        size = min(max(2 * k if is_slow else k, 2 * support), max(near, support + FIRST_SIZE // 2, FIRST_SIZE))
        # as in `WorkingSet.is_likely_slack`
        is_slack = found.is_slack and norm(here.x) * math.sqrt(n / k) < problem.polytope.size
        outgrows = support > most_support or (found.is_slack and size > most_support)
        is_strange = not found.is_done or is_slack or outgrows or not linearised.is_right
        if gap > enough and (is_strange or operations > MOST_OPERATIONS):
            break
    return SolvedByWorkingSets(here, linearised, steps, has_moved, False)


@compiled
def gap_at(here: SearchPoint, linearised: LinearisedOnBall) -> float:
    """F less its lower bound, up to rounding."""
    return here.value - here.loss + inner(here.theta, here.u) - linearised.bound


@compiled
def chosen_part(problem: WorkingSetProblem, chosen: Array) -> tuple[WorkingSetProblem, Array]:
    """The problem in some of the coordinates, and the means of its columns, which are taken off for an intercept."""
    k, m = chosen.shape[0], problem.columns.shape[1]
    columns, means = np.empty((k, m)), np.zeros(k)
    for p in range(k):
        column = problem.columns[chosen[p]]
        if problem.loss.has_intercept:
            means[p] = column.sum() / m
        for i in range(m):
            columns[p, i] = column[i] - means[p]
    return WorkingSetProblem(columns, problem.loss, problem.tilt, problem.ridge, problem.polytope), means


@compiled
def embedded(problem: WorkingSetProblem, chosen: Array, means: Array, found: SearchPoint) -> SearchPoint:
    """A point of a working set among all coordinates, in the ball, with F from the data as they are."""
    x, u, size = np.zeros(problem.columns.shape[0]), np.zeros(problem.columns.shape[1]), norm(found.x)
    inside = 1.0 if size <= problem.polytope.size else problem.polytope.size / size * (1.0 - 2.0 * UNIT)
    for p in range(chosen.shape[0]):
        x[chosen[p]] = inside * found.x[p]
        add_multiple(u, x[chosen[p]], problem.columns[chosen[p]])
    return point_at(problem, x, u, found.intercept - inner(means, found.x))
