"""Solutions for one radius or penalty after another, predicted in one compiled call.

F(x) = h(Kx + b) + ridge |x|^2 with the best b, over |x|_1 <= size or with size |x|_1 added; or the
same over x >= 0. The solution for the next size is where

    grad F(x)_j = -mu e_j on a face A with signs e,   |grad F(x)_j| <= mu elsewhere,   <e, x> = size

(mu = size, and no equation, under a penalty). A round takes F for its quadratic model at a point
and solves this on a face A: one system of linear equations. Coordinates whose sign that turns leave
A, those with a steeper slope than mu enter, and the next model is that at the new point. This is a
semismooth Newton method, called predictor-corrector along a path: its first point and face are
those to which the last two solutions lead. From nearby it takes one or two rounds; from farther
away it may never end. So it stops after a few, and who asked goes on in another way.

Nothing here is certified, nor computed to the last digit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.ldl import add_multiple, factor, inner, solve_factored
from condgrad.kernels.compiling import compiled, compiled_in_place, entry_point

SQUARES, LOGISTIC, SQUARED_HINGE, POISSON, GAMMA, HUBER = range(6)
"""Losses of one sample."""
MOST_ROUNDS = 8
"""The largest number of rounds for one size. Most sizes take one or two."""
MOST_FALL = 0.9
"""The multiplier is not expected to fall by more than this share from one size to the next."""


class Loss(NamedTuple):
    """h(z) = sum_i w_i h_i(z_i), as numbers for compiled code."""

    kind: int
    y: Array
    weights: Array
    delta: float
    """Of Huber's loss."""
    has_intercept: bool
    at_zero: float
    """h(0): what compiled code adds up differs from h by a constant."""


class PathProblem(NamedTuple):
    """What all sizes share."""

    rows: Array
    """K', a coordinate a row."""
    loss: Loss
    is_penalised: bool
    nonnegative: bool
    accuracy: float
    """A prediction is good if its gap is within this share of F."""
    least_scale: float
    """F counts as at least this."""
    most_rounds: int


class PathPoint(NamedTuple):
    """A solution, or a point that two of them lead to."""

    size: float
    ridge: float
    x: Array
    z: Array
    """K x."""
    intercept: float
    slope: Array
    """The gradient of h(Kx + b) in x."""
    multiplier: float


@compiled
def slopes_and_curvatures(loss: Loss, z: Array, b: float, theta: Array, w: Array) -> float:
    """h at z + b; h' and h'' are written to theta and w."""
    value = 0.0
    for i in range(z.shape[0]):
        at = z[i] + b
        y = loss.y[i]
        height = 0.0
        if loss.kind == LOGISTIC:
            short = -y * at
            fall = math.exp(-abs(short))
            rest = 1.0 / (1.0 + fall)
            height = max(0.0, short) + math.log1p(fall)
            theta[i] = -y * rest
            if short < 0.0:
                theta[i] *= fall
            w[i] = fall * rest * rest
        elif loss.kind == SQUARED_HINGE:
            short = max(0.0, 1.0 - y * at)
            height = short * short
            theta[i] = -2.0 * y * short
            w[i] = 0.0
            if short > 0.0:
                w[i] = 2.0
        elif loss.kind == POISSON:
            mean = math.exp(at)
            height = mean - y * at
            theta[i] = mean - y
            w[i] = mean
        elif loss.kind == GAMMA:
            ratio = y * math.exp(-at)
            height = ratio + at
            theta[i] = 1.0 - ratio
            w[i] = ratio
        else:
            theta[i] = at - y
            w[i] = 1.0
            if loss.kind == HUBER and abs(theta[i]) > loss.delta:
                theta[i] = math.copysign(loss.delta, theta[i])
                w[i] = 0.0
            height = theta[i] * (at - y - 0.5 * theta[i])
        theta[i] *= loss.weights[i]
        w[i] *= loss.weights[i]
        value += loss.weights[i] * height
    return value


@entry_point
def predict_path(
    problem: PathProblem, before: PathPoint, last: PathPoint, sizes: Array, ridges: Array
) -> tuple[Any, ...]:
    """Solutions for the first of the sizes, as far as each takes few rounds.

    How many there are; whether a later call may find more; x, the intercept and the rounds of each;
    and the last two of them.
    """
    n = problem.rows.shape[0]
    m = problem.rows.shape[1]
    x = np.zeros((sizes.shape[0], n))
    intercepts = np.zeros(sizes.shape[0])
    rounds = np.zeros(sizes.shape[0], np.int64)
    theta = np.empty(m)
    w = np.empty(m)
    raw = slopes_and_curvatures(problem.loss, np.zeros(m), 0.0, theta, w)
    constant = problem.loss.at_zero - raw
    for k in range(sizes.shape[0]):
        here, signs = guess(problem, before, last, sizes[k], ridges[k])
        is_good = False
        is_solved = False
        slopes_and_curvatures(problem.loss, here.z, here.intercept, theta, w)
        while rounds[k] < problem.most_rounds and not is_good:
            rounds[k] += 1
            here, is_solved = least_on_face(problem, here, signs, theta, w)
            if not is_solved:
                break
            value = slopes_and_curvatures(problem.loss, here.z, here.intercept, theta, w)
            value += constant
            set_slope(problem.rows, theta, here.slope)
            is_right = change_face(problem, here, signs)
            is_good = is_right and is_near(problem, here, value)
        if not is_good:
            return k, is_solved, x, intercepts, rounds, before[:], last[:]
        x[k] = here.x
        intercepts[k] = here.intercept
        if problem.loss.has_intercept:  # a Newton step more, after which it is settled
            intercepts[k] -= theta.sum() / w.sum()
        before = last
        last = here
    return sizes.shape[0], True, x, intercepts, rounds, before[:], last[:]


@compiled
def guess(
    problem: PathProblem, before: PathPoint, last: PathPoint, size: float, ridge: float
) -> tuple[PathPoint, Array]:
    """Where two solutions lead to for the next size, and the signs on its face, 0 elsewhere."""
    ahead = 0.0
    if last.size != before.size:
        ahead = (size - last.size) / (last.size - before.size)
    fall = ahead * (before.multiplier - last.multiplier)
    if fall > MOST_FALL * last.multiplier:
        ahead *= MOST_FALL * last.multiplier / fall
    x = further(last.x, before.x, ahead)
    slope = further(last.slope, before.slope, ahead)
    mu = last.multiplier + ahead * (last.multiplier - before.multiplier)
    if problem.is_penalised:
        mu = size
    signs = np.zeros(x.shape[0])
    steepest = 0
    for j in range(x.shape[0]):
        pull = -slope[j]
        if not (problem.nonnegative and pull < 0.0) and abs(pull) > abs(slope[steepest]):
            steepest = j
        if last.x[j] * x[j] > 0.0:
            signs[j] = np.sign(x[j])
        elif last.x[j] == 0.0 and (pull > mu or (-pull > mu and not problem.nonnegative)):
            signs[j] = np.sign(pull)
    if not signs.any() and not problem.is_penalised:
        signs[steepest] = -np.sign(slope[steepest])
    b = last.intercept + ahead * (last.intercept - before.intercept)
    z = further(last.z, before.z, ahead)
    return PathPoint(size, ridge, x, z, b, slope, mu), signs


@compiled
def further(last: Array, before: Array, ahead: float) -> Array:
    """last + ahead (last - before)."""
    end = last.copy()
    for i in range(end.shape[0]):
        end[i] += ahead * (last[i] - before[i])
    return end


@compiled
def set_slope(rows: Array, theta: Array, slope: Array) -> None:
    """K'theta."""
    for j in range(rows.shape[0]):
        slope[j] = inner(rows[j], theta)


@compiled
def least_on_face(
    problem: PathProblem, at: PathPoint, signs: Array, theta: Array, w: Array
) -> tuple[PathPoint, bool]:
    """The least point of the model at a point on a face; False where there is none."""
    face = np.flatnonzero(signs)
    k = face.shape[0]
    m = w.shape[0]
    c = 2.0 * at.ridge
    there = PathPoint(
        at.size, at.ridge, np.zeros(signs.shape[0]), np.zeros(m), 0.0, at.slope, at.size
    )
    mass = w.sum()
    if not mass > 0.0 or (k > m and not c > 0.0):
        return there, False
    # H = BB' + c, a coordinate a row of B
    B = np.empty((k, m))
    roots = np.sqrt(w)
    end = np.empty(k)
    normal = np.empty(k)
    for p in range(k):
        row = problem.rows[face[p]]
        mean = 0.0
        if problem.loss.has_intercept:
            mean = inner(row, w) / mass
        end[p] = 0.0
        normal[p] = signs[face[p]]
        for i in range(m):
            entry = row[i] - mean
            B[p, i] = roots[i] * entry
            end[p] += entry * (w[i] * at.z[i] - theta[i])
    solve_both(B, c, end, normal)
    mu = at.size
    if not problem.is_penalised:
        towards = 0.0
        along = 0.0
        for p in range(k):
            towards += signs[face[p]] * end[p]
            along += signs[face[p]] * normal[p]
        mu = (towards - at.size) / along
    for p in range(k):
        there.x[face[p]] = end[p] - mu * normal[p]
        add_multiple(there.z, there.x[face[p]], problem.rows[face[p]])
    b = 0.0
    if problem.loss.has_intercept:
        excess = 0.0
        for i in range(m):
            excess += theta[i] + w[i] * (there.z[i] - at.z[i])
        b = at.intercept - excess / mass
    # a multiplier below 0 leads to the inside of the set, where all coordinates are free
    is_found = math.isfinite(mu) and (mu > 0.0 or problem.is_penalised) and math.isfinite(b)
    return PathPoint(at.size, at.ridge, there.x, there.z, b, at.slope, mu), is_found


@compiled_in_place
def solve_both(B: Array, c: float, first: Array, second: Array) -> None:
    """The solutions of (BB' + c) x = b for two b, in their places.

    With more coordinates than samples, by (B'B + c): x = (b - B (B'B + c)^-1 B'b) / c.
    """
    k = B.shape[0]
    m = B.shape[1]
    is_wide = k > m
    width = min(k, m)
    H = np.dot(B.T, B) if is_wide else np.dot(B, B.T)
    for i in range(width):
        H[i, i] += c
    L = np.zeros((width, width))
    D = np.empty(width)
    factor(L, D, width, H, np.arange(width), np.zeros(1, np.bool_))
    for b in (first, second):
        if is_wide:
            solved = np.dot(b, B)
            solve_factored(L, D, width, solved)
            shift = np.dot(B, solved)
            for p in range(k):
                b[p] = (b[p] - shift[p]) / c
        else:
            solve_factored(L, D, width, b)


@compiled_in_place
def change_face(problem: PathProblem, here: PathPoint, signs: Array) -> bool:
    """The face that slopes and signs at a point name; whether all signs were right."""
    is_right = True
    for j in range(signs.shape[0]):
        pull = -here.slope[j]
        if signs[j] != 0.0:
            if signs[j] * here.x[j] < 0.0:
                signs[j] = 0.0
                is_right = False
        elif pull > here.multiplier or (-pull > here.multiplier and not problem.nonnegative):
            signs[j] = np.sign(pull)
    return is_right


@compiled_in_place
def is_near(problem: PathProblem, here: PathPoint, value: float) -> bool:
    """Whether the gap is small, by Lemma 2: with any mu >= 0,

    min <c, s> + ridge |s|^2 over |s|_1 <= size is at least
    -mu size - sum_j max(|c_j| - mu, 0)^2 / (4 ridge), and at least -max |c| size.
    """
    mu = here.multiplier
    tilted = 0.0
    square = 0.0
    norm = 0.0
    beyond = 0.0
    steepest = 0.0
    for j in range(here.x.shape[0]):
        pull = -here.slope[j]
        if not problem.nonnegative:
            pull = abs(pull)
        tilted += here.slope[j] * here.x[j]
        square += here.x[j] * here.x[j]
        norm += abs(here.x[j])
        beyond += max(0.0, pull - mu) ** 2
        steepest = max(steepest, pull)
    tilted += here.ridge * square
    value += here.ridge * square
    reach = here.size
    if problem.is_penalised:
        value += mu * norm
        tilted += mu * norm
        reach = value / mu
    else:
        tilted += mu * here.size
    gap = tilted + reach * max(0.0, steepest - mu)
    if here.ridge > 0.0:
        gap = min(gap, tilted + beyond / (4.0 * here.ridge))
    return gap <= problem.accuracy * max(value, problem.least_scale)
