"""Newton's method for small data on the l1 ball or the solid simplex: all working sets in one compiled call.

`newton.faces.FaceNewton` takes the same turns in Python, for data and sets of every kind, and goes on where this ends.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.face_qp import norm
from condgrad.ball.compiled.ldl import add_multiple, inner
from condgrad.kernels.compiling import compiled_in_place, entry_point
from condgrad.kernels.losses import UNIT
from condgrad.kernels.matrix import image, some_columns
from condgrad.kernels.thresholds import NEAR_MULTIPLIER, SETTLED, SLOW
from condgrad.kernels.working_set import (
    CompiledProblem,
    LastGram,
    LinearisedOnBall,
    SearchPoint,
    gap_between,
    is_left_to_python,
    linearise,
    next_size,
    not_zero_or_steep,
    operations_of_model,
    point_at,
    pulls_of,
    solve,
    steepest_of_others,
    support_and_steep,
)

MOST_OPERATIONS = 1 << 27
"""Multiplications of Newton steps, as if each had a Gram matrix of its own, after which compiled code, which nothing
interrupts, ends in any case."""


class SolvedByWorkingSets(NamedTuple):
    """Where Newton's steps in working sets end."""

    point: SearchPoint
    linearised: LinearisedOnBall
    """The linearised problem there."""
    steps: int
    has_moved: bool
    is_likely_slack: bool
    """Whether the constraint is, as in `WorkingSet.is_likely_slack`."""


@entry_point
def solve_by_working_sets(
    problem: CompiledProblem,
    here: SearchPoint,
    c: Array,
    bound: float,
    size: int,
    accuracy: float,
    least_scale: float,
    most_support: int,
) -> tuple[Any, ...]:
    """Newton steps until the gap is at most a share of F, or of a least scale: a `SolvedByWorkingSets`.

    c and the bound are those of the linearised problem at the start. The first working set has about so many
    coordinates. It ends early where more than `most_support` are not 0, the constraint is likely slack, a working
    set is large or a Newton step fails: that is the caller's business.
    """
    n, m = problem.K.width, problem.K.samples
    has_intercept, kind = problem.loss.has_intercept, problem.polytope.kind
    # its c and bound alone are read: a point that has not moved is not handed on
    linearised = LinearisedOnBall(c, here.x, bound, 0.0, 0.0, 0.0, 0.0, True)
    gap = gap_between(here.value, here.loss, here.theta, here.u, bound)
    steps, operations, multiplier, has_moved, suffices, is_likely_slack = 0, 0, -1.0, False, False, False
    chosen, means = np.empty(0, np.int64), np.empty(0)
    part, gram = problem, LastGram(np.empty((0, 0)), np.empty(0), np.empty(0))
    pulls = pulls_of(c, kind)  # without the slope of the ridge, which is 0 where x is 0
    while gap > accuracy * max(here.value, least_scale):
        if not suffices:
            chosen = not_zero_or_steep(here.x, pulls, size)
            k = chosen.shape[0]
            if k == 0:
                break
            part, means = chosen_part(problem, chosen)
            if is_left_to_python(part.K):
                break
            gram = LastGram(np.empty((k, k)), np.empty(k), np.full(m, np.nan))
        k = chosen.shape[0]
        x = here.x[chosen]
        start = SearchPoint(x, here.u, here.theta, here.loss, here.intercept, here.value)
        shift = inner(means, x)
        if shift != 0.0:  # K x of large columns has fewer digits than centred ones give, and no step would seem to fall
            start = point_at(part, x, image(part.K, x), here.intercept + shift)
        slope = np.empty(0)
        if not has_intercept:  # else that of centred columns has more digits
            slope = linearised.c[chosen]
            add_multiple(slope, 2.0 * problem.ridge, x)
        # a set that suffices is likely the last one: it is solved to the gap that is asked for
        asked = accuracy * max(here.value, least_scale)
        enough = min(SETTLED * gap, asked) if suffices else SETTLED * gap
        found = solve(part, start, slope, multiplier, gram, enough)
        steps += found.steps
        operations += found.steps * operations_of_model(part.K)
        if not found.has_moved:
            break
        there = embedded(problem, chosen, means, found.point)
        if not there.value < here.value:
            break
        before, has_moved, multiplier = gap, True, found.multiplier
        here, linearised = there, LinearisedOnBall(*linearise(problem, there.theta, there.x))
        gap = gap_between(here.value, here.loss, here.theta, here.u, linearised.bound)
        pulls = pulls_of(linearised.c, kind)
        support, near = support_and_steep(here.x, pulls, NEAR_MULTIPLIER * multiplier)
        is_slow = gap > SLOW * before
        suffices = not is_slow and steepest_of_others(pulls, chosen) <= multiplier
        size = next_size(k, support, near, is_slow)
        # then the caller tries the inside of the ball, or all coordinates
        is_likely_slack = found.is_slack and norm(here.x) * math.sqrt(n / k) < problem.polytope.size
        outgrows = support > most_support or (found.is_slack and size > most_support)
        if not found.is_done or is_likely_slack or outgrows or not linearised.is_right or operations > MOST_OPERATIONS:
            break
    return here[:], linearised[:], steps, has_moved, is_likely_slack


@compiled_in_place
def chosen_part(problem: CompiledProblem, chosen: Array) -> tuple[CompiledProblem, Array]:
    """The problem in some of the coordinates, and the means of its columns, which are taken off for an intercept."""
    K, means = some_columns(problem.K, chosen, problem.loss.has_intercept)
    return CompiledProblem(K, problem.loss, problem.ridge, problem.polytope), means


@compiled_in_place
def embedded(problem: CompiledProblem, chosen: Array, means: Array, found: SearchPoint) -> SearchPoint:
    """A point of a working set among all coordinates, in the ball, with F from the data as they are."""
    x, length = np.zeros(problem.K.width), norm(found.x)
    inside = 1.0 if length <= problem.polytope.size else problem.polytope.size / length * (1.0 - 2.0 * UNIT)
    for p in range(chosen.shape[0]):
        x[chosen[p]] = inside * found.x[p]
    return point_at(problem, x, image(problem.K, x), found.intercept - inner(means, found.x))
