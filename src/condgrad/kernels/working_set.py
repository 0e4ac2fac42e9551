"""Newton's method in a working set: the steps of `working_sets`.

`newton.working_set.WorkingSet` takes the same steps in Python, for data and sets of every kind.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled import L1_BALL, Polytope
from condgrad.ball.compiled.face_qp import bounds_norm, minimise, on_boundary
from condgrad.ball.compiled.free_block import Hessian
from condgrad.ball.compiled.ldl import add_multiple, inner
from condgrad.kernels.column_norms import LARGEST_SQUARE, LEAST_SQUARE
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place, entry_point
from condgrad.kernels.losses import UNIT, CompiledLoss, set_curvature, set_loss
from condgrad.kernels.matrix import (
    CompiledMatrix,
    image,
    operations_of_gram,
    pulled_back,
    set_centred_gram,
    set_weighted_gram,
    square_of_column,
)
from condgrad.kernels.thresholds import (
    ACCURACY,
    COMPILED_OPERATIONS,
    FIRST_SIZE,
    FLAT,
    HIDDEN_FALL,
    LEAST_SLOPE_CURVATURE,
    LONG_MODEL,
    NARROW,
    NEWTON_STEPS,
    PASSES,
    ROUNDS,
    SHORTEST_STEP,
    WEIGHT_CHANGE,
    WIDE,
    WIDE_FROM,
)
from condgrad.rounding import LEAST_CURVATURE, LEAST_CURVATURE_BY_ROWS, ROUNDING_UNITS
from condgrad.search.backtracking import ARMIJO_FRACTION

OPERATIONS_OF_LOSS = 32
"""What a loss and its derivatives cost a sample, in multiplications."""
MOST_BISECTIONS = 60
"""Halvings after which two levels are the same number but for rounding."""
NEGLIGIBLE = float(np.finfo(np.float64).tiny) ** 0.5
"""The curvature of a ridge across the set, as a share of the slope, of which no digit of F knows."""


class CompiledProblem(NamedTuple):
    """F(x) = h(K x) + ridge |x|^2 on the l1 ball or the solid simplex."""

    K: CompiledMatrix
    loss: CompiledLoss
    ridge: float
    polytope: Polytope


class SearchPoint(NamedTuple):
    """F at a point; see `newton.working_set.LinePoint`."""

    x: Array
    u: Array
    theta: Array
    loss: float
    intercept: float
    value: float


class LastGram(NamedTuple):
    """The last weighted Gram matrix, which may do for other weights too."""

    matrix: Array
    """With what is added to its diagonal."""
    diagonal: Array
    weights: Array
    """NaN where there is no matrix yet."""


class SolvedWorkingSet(NamedTuple):
    """Where Newton's steps in a working set end."""

    point: SearchPoint
    multiplier: float
    is_slack: bool
    """Whether the norm of the last model's least point is below the size."""
    steps: int
    has_moved: bool
    is_done: bool
    """Whether the gap is small, nothing is gained any more, or the steps are spent; else a Newton step has failed."""


@compiled_in_place
def solve(
    problem: CompiledProblem,
    here: SearchPoint,
    slope: Array,
    multiplier: float,
    gram: LastGram,
    enough: float,
) -> SolvedWorkingSet:
    """Newton steps until the gap in these coordinates is at most `enough`, or no step helps.

    `slope` is the gradient of F at the start, or of size 0 where it is not known; a multiplier that is not known is
    below 0.
    """
    gap = np.inf
    stop = np.zeros(1, np.bool_)  # which nobody sets
    rounds = np.int64(ROUNDS)  # a constant is of a type of its own, for which all would be compiled once more
    steps, has_moved, is_slack, is_done = 0, False, False, False
    while not is_done:
        before = gap
        if slope.shape[0] == 0:
            slope = pulled_back(problem.K, here.theta)
            gap = gap_between(here.value, here.loss, here.theta, here.u, least_linearised(problem, slope))
            is_done = gap <= enough or steps >= NEWTON_STEPS
            if is_done:
                break
            add_multiple(slope, 2.0 * problem.ridge, here.x)
        steepest = np.abs(slope).max()
        if steepest == 0.0 or not math.isfinite(steepest):
            break
        steps += 1
        hessian, unit = model_at(problem, here, steepest, gram)
        end, multiplier, is_slack, _ = minimise(
            hessian, slope / unit, here.x, problem.polytope, multiplier / unit, ACCURACY, rounds, stop
        )
        multiplier *= unit
        falls, there = search(problem, here, end, slope)
        if not falls:
            break
        # where F has no digits left, the gap may still have some
        is_done = not there.value < here.value and gap > 0.5 * before
        here, has_moved, slope = there, True, np.empty(0)
    return SolvedWorkingSet(here, multiplier, is_slack, steps, has_moved, is_done)


@compiled
def gap_between(value: float, loss: float, theta: Array, u: Array, bound: float) -> float:
    """F less its lower bound, up to rounding, from the bound of the linearised problem."""
    return value - loss + inner(theta, u) - bound


@compiled
def ridge_that_counts(problem: CompiledProblem, steepest: float) -> float:
    """The ridge, or 0 where no digit of <c, s> + ridge |s|^2 would know of it, by the largest |c_j| that pulls."""
    return problem.ridge if problem.ridge * problem.polytope.size >= NEGLIGIBLE * steepest else 0.0


@compiled_in_place
def least_linearised(problem: CompiledProblem, c: Array) -> float:
    """min <c, s> + ridge |s|^2 over the set, or less by rounding."""
    kind = problem.polytope.kind
    ridge = ridge_that_counts(problem, np.abs(c).max())
    pulls = pulls_of(c, kind)
    return least_by_threshold(pulls, pulls.max(), ridge, kind, problem.polytope.size)[0]


@compiled
def pulls_of(slope: Array, kind: int) -> Array:
    """How fast a function of some slope falls as a coordinate leaves 0, to the side that it may."""
    return np.abs(slope) if kind == L1_BALL else -slope


@entry_point
def least_by_threshold(pulls: Array, steepest: float, ridge: float, kind: int, size: float) -> tuple[float, float]:
    """min -<pulls, s> + ridge |s|^2 over s >= 0 whose sum is at most the size; a threshold t.

    `steepest` is the largest of the pulls.

    With s = max(pulls - t, 0)/(2 ridge) the dual function at t: below the minimum for each t, or for each t >= 0 where
    the sum may be less.
    Newton's method from the left finds the t that leaves the size, on a convex function.
    """
    threshold = steepest - 2.0 * ridge * size
    if bounds_norm(kind):
        steepest, threshold = max(0.0, steepest), max(0.0, threshold)
    if ridge == 0.0:
        return -size * steepest, threshold
    for _ in range(ROUNDS):
        excess, rate = -2.0 * ridge * size, 0.0
        for j in range(pulls.shape[0]):
            left = max(0.0, pulls[j] - threshold)
            excess += left
            rate += 1.0 if left > 0.0 else 0.0
        if not excess > 0.0 or not threshold + excess / rate > threshold:
            break
        threshold += excess / rate
    return -fall_above(pulls, threshold, ridge) - threshold * size, threshold


@compiled_exactly
def fall_above(pulls: Array, threshold: float, ridge: float) -> float:
    """sum_j max(pulls_j - t, 0)^2/(4 ridge), without the squares: in the unit of F they may leave the floats."""
    fall = 0.0
    for j in range(pulls.shape[0]):
        if pulls[j] > threshold:
            left = pulls[j] - threshold
            fall += 0.5 * left * (left / (2.0 * ridge))
    return fall


class LinearisedOnBall(NamedTuple):
    """min <c, s> + ridge |s|^2 over the l1 ball or the solid simplex, c = K'theta, and what rounding may do to it."""

    c: Array
    point: Array
    bound: float
    image_size: float
    """sum_j |K_j| |x_j| at the point where it is linearised."""
    image_size_there: float
    """The same at the least point."""
    theta_length: float
    """|theta|_2."""
    threshold: float
    """What is taken off the pulls: where x is the solution on the boundary, the multiplier of the norm."""
    is_right: bool
    """Whether c is finite, and squares of all columns in question are neither too large nor too small."""


@entry_point
def linearise(problem: CompiledProblem, theta: Array, x: Array) -> tuple[Any, ...]:
    """The linearised problem at x, solved in one pass over the data: a `LinearisedOnBall`."""
    c, kind = pulled_back(problem.K, theta), problem.polytope.kind
    pulls = pulls_of(c, kind)
    steepest = pulls.max()
    ridge = ridge_that_counts(problem, max(0.0, steepest))
    bound, threshold = least_by_threshold(pulls, steepest, ridge, kind, problem.polytope.size)
    s, image_size, image_size_there, is_right = np.zeros(c.shape[0]), 0.0, 0.0, math.isfinite(steepest)
    if ridge == 0.0 and steepest > 0.0:
        place = np.argmax(pulls)
        s[place] = -math.copysign(problem.polytope.size, c[place])
    for j in range(c.shape[0]):
        if ridge > 0.0 and pulls[j] > threshold:
            s[j] = -math.copysign(0.5 * (pulls[j] - threshold) / ridge, c[j])
        if s[j] != 0.0 or x[j] != 0.0:
            square = square_of_column(problem.K, j)
            is_right = is_right and LEAST_SQUARE < square < LARGEST_SQUARE
            image_size += math.sqrt(square) * abs(x[j])
            image_size_there += math.sqrt(square) * abs(s[j])
    return c, s, bound, image_size, image_size_there, length_of(theta), threshold, is_right


@compiled_in_place
def length_of(theta: Array) -> float:
    """|theta|_2, also where squares leave the floats in the unit of F."""
    largest = np.abs(theta).max()
    if largest == 0.0:
        return 0.0
    square = 0.0
    for i in range(theta.shape[0]):
        square += (theta[i] / largest) ** 2
    return largest * math.sqrt(square)


@entry_point
def support_and_steep(x: Array, pulls: Array, level: float) -> tuple[int, int]:
    """How many coordinates are not 0, and how many are not 0 or have pulls at least as large as a level."""
    support, steep = 0, 0
    for j in range(x.shape[0]):
        support += x[j] != 0.0
        steep += x[j] != 0.0 or pulls[j] >= level
    return support, steep


@compiled_in_place
def next_size(width: int, support: int, near: int, is_slow: bool) -> int:
    """How many coordinates the working set after one of some width should have; see `WorkingSet.next_size`."""
    return min(max(2 * width if is_slow else width, 2 * support), max(near, support + FIRST_SIZE // 2, FIRST_SIZE))


@compiled_in_place
def is_left_to_python(K: CompiledMatrix) -> bool:
    """Whether Newton steps may take longer than what nothing interrupts should, or are faster without a matrix."""
    k, m = K.width, K.samples
    if operations_of_model(K) + OPERATIONS_OF_LOSS * m > COMPILED_OPERATIONS:
        return True
    if is_kept_by_rows(K):
        return k * m >= LONG_MODEL * WIDE_FROM
    is_sparse = K.by_row.starts.shape[0] > 0
    return k >= LONG_MODEL or (is_sparse and (is_wide(k, m) or k**3 > PASSES * K.by_row.entries.shape[0]))


@compiled
def operations_of_model(K: CompiledMatrix) -> int:
    """Multiplications of the matrix to be factored: the Gram matrix of the columns or, by rows, one of the samples."""
    return K.width * K.samples**2 if is_kept_by_rows(K) else operations_of_gram(K)


@compiled
def is_kept_by_rows(K: CompiledMatrix) -> bool:
    """Whether models are: where K is dense and wide."""
    return K.columns.shape[0] > 0 and is_wide(K.width, K.samples)


@compiled
def is_wide(coordinates: int, samples: int) -> bool:
    """Whether a model is kept by its rows."""
    return coordinates > max(WIDE * samples, WIDE_FROM)


@entry_point
def not_zero_or_steep(x: Array, pulls: Array, size: int) -> Array:
    """Where x is not 0 or its pull is largest, in increasing order: about so many, a tenth more at most.

    Bisection finds the level from which on pulls are large: a few passes, where sorting would take many.
    """
    support, low, high = 0, 0.0, 0.0
    for j in range(x.shape[0]):
        support += x[j] != 0.0
        if x[j] == 0.0:
            low, high = min(low, pulls[j]), max(high, pulls[j])
    high = 2.0 * high if high > 0.0 else -low  # larger than all
    if high == 0.0:
        high = 1.0
    wanted = max(0, size - support)
    steep_from_low = x.shape[0] - support
    for _ in range(MOST_BISECTIONS):
        if steep_from_low <= wanted + wanted // 10:
            break
        level, steep = 0.5 * (low + high), 0
        for j in range(x.shape[0]):
            steep += x[j] == 0.0 and pulls[j] >= level
        if steep >= wanted:
            low, steep_from_low = level, steep
        else:
            high = level
    found, count, spare = np.empty(x.shape[0], np.int64), 0, wanted
    if steep_from_low <= wanted + wanted // 10:
        high, spare = low, 0
    for j in range(x.shape[0]):  # of equal pulls, which no level tells apart, the first ones
        spare -= x[j] == 0.0 and pulls[j] >= high
    for j in range(x.shape[0]):
        is_equal = x[j] == 0.0 and low <= pulls[j] < high
        if x[j] != 0.0 or pulls[j] >= high or (is_equal and spare > 0):
            spare -= is_equal
            found[count] = j
            count += 1
    return found[:count].copy()


@entry_point
def steepest_of_others(pulls: Array, chosen: Array) -> float:
    """The largest pull of the coordinates that are not in `chosen`, which is sorted; 0 where none is above that."""
    found, next_chosen = 0.0, 0
    for j in range(pulls.shape[0]):
        if next_chosen < chosen.shape[0] and chosen[next_chosen] == j:
            next_chosen += 1
        elif pulls[j] > found:
            found = pulls[j]
    return found


@compiled_in_place
def model_at(problem: CompiledProblem, here: SearchPoint, steepest: float, gram: LastGram) -> tuple[Hessian, float]:
    """The Hessian of the model of F, in some unit, and that; see `FaceModels`."""
    curvature = 2.0 * problem.ridge + LEAST_SLOPE_CURVATURE * steepest / problem.polytope.size
    w = np.empty(problem.K.samples)
    set_curvature(problem.loss, here.u, here.intercept, w)
    if is_kept_by_rows(problem.K):
        return by_rows(problem, w, curvature)
    return by_matrix(problem, w, curvature, gram), 1.0


@compiled_in_place
def by_matrix(problem: CompiledProblem, w: Array, curvature: float, gram: LastGram) -> Hessian:
    """K' W K + 2 ridge and a little more; W less its mean where there is an intercept."""
    k, is_new = problem.K.width, False
    for i in range(w.shape[0]):
        if not abs(w[i] - gram.weights[i]) <= WEIGHT_CHANGE * gram.weights[i]:
            is_new = True
            break
    if is_new:
        if problem.loss.has_intercept:
            set_centred_gram(problem.K, w, gram.matrix)
        else:
            set_weighted_gram(problem.K, w, gram.matrix)
        gram.weights[:] = w
        for j in range(k):  # where means cancel, rounding may leave less than 0
            gram.diagonal[j] = (1.0 + LEAST_CURVATURE) * max(0.0, gram.matrix[j, j])
    for j in range(k):
        gram.matrix[j, j] = gram.diagonal[j] + curvature
    none = np.empty(0)
    nowhere = np.empty(0, np.uint32)
    return Hessian(gram.matrix, np.empty((0, 0)), none, nowhere, nowhere, none, none, 0, none)


@compiled_in_place
def by_rows(problem: CompiledProblem, w: Array, curvature: float) -> tuple[Hessian, float]:
    """B B' + c, with B B' = K' W K and a row of B a coordinate, in units of the largest weight; this unit."""
    columns, k, m = problem.K.columns, problem.K.width, problem.K.samples
    unit = w.max()
    if unit == 0.0:
        unit = 1.0
    relative = w / unit  # so that their square roots do not depend on the unit of F
    root, B, c = np.sqrt(relative), np.empty((k, m)), np.empty(k)
    mass = relative.sum() if problem.loss.has_intercept else 0.0
    for j in range(k):
        mean = inner(columns[j], relative) / mass if mass > 0.0 else 0.0
        for i in range(m):
            B[j, i] = (columns[j, i] - mean) * root[i]
        c[j] = curvature / unit + LEAST_CURVATURE_BY_ROWS * inner(B[j], B[j])
    none = np.empty(0)
    nowhere = np.empty(0, np.uint32)
    return Hessian(np.empty((0, 0)), B, c, nowhere, nowhere, none, none, m, none), unit


@compiled_in_place
def search(problem: CompiledProblem, here: SearchPoint, end: Array, slope: Array) -> tuple[bool, SearchPoint]:
    """Step towards a point of the set, to where F is about least on the way; whether it fell, up to rounding."""
    d = end - here.x
    fall = first_order_fall(here.x, end, d, slope, problem.polytope)
    if not fall > 0.0:
        return False, here
    noise = noise_of(here)
    step, width, low, low_slope, high, high_slope = 1.0, np.inf, 0.0, -fall, 1.0, np.inf
    there = image(problem.K, end)
    move = there - here.u
    trial = point_at(problem, end, there, here.intercept)
    while True:
        trial_slope = inner(trial.theta, move) + 2.0 * problem.ridge * inner(trial.x, d)
        falls = trial.value <= here.value - ARMIJO_FRACTION * step * fall + noise
        is_flat = trial_slope <= FLAT * fall and (step == 1.0 or trial_slope >= -FLAT * fall)
        if falls and (is_flat or fall <= noise or step - low <= NARROW * step):
            break
        if falls and trial_slope < 0.0:
            low, low_slope = step, trial_slope
        else:
            high, high_slope = step, trial_slope
        if high < SHORTEST_STEP:
            return False, here
        fraction = low_slope / (low_slope - high_slope) if high_slope > 0.0 else 0.5
        if high - low > 0.5 * width:
            fraction = 0.5
        width = high - low
        # where the bracket has closed on a kink, its lower end is as good as any point
        step = low + min(max(fraction, 0.1), 0.9) * width if width > NARROW * high or low == 0.0 else low
        trial = point_at(problem, here.x + step * d, here.u + step * move, here.intercept)
    if step < 1.0:  # what the search added up is not K x to the last digit
        trial = point_at(problem, trial.x, image(problem.K, trial.x), trial.intercept)
        if not trial.value < here.value + noise:
            return False, here
    return True, trial


@compiled
def point_at(problem: CompiledProblem, x: Array, u: Array, near: float) -> SearchPoint:
    """F at x, where u = K x."""
    theta = np.empty(u.shape[0])
    loss, intercept = set_loss(problem.loss, u, near, theta)
    return SearchPoint(x, u, theta, loss, intercept, loss + problem.ridge * inner(x, x))


@compiled_in_place
def noise_of(here: SearchPoint) -> float:
    """What rounding does to F."""
    size = abs(here.value)
    for i in range(here.u.shape[0]):
        size += abs(here.theta[i] * here.u[i])
    return 0.5 * ROUNDING_UNITS * UNIT * size


@compiled_in_place
def first_order_fall(x: Array, end: Array, d: Array, slope: Array, polytope: Polytope) -> float:
    """What F falls by along d, to first order; see `WorkingSet`."""
    fall, level = -inner(slope, d), -inner(slope, x)
    if not bounds_norm(polytope.kind) or fall > HIDDEN_FALL * level:
        return fall
    if not (on_boundary(x, polytope.size) and on_boundary(end, polytope.size)):
        return fall
    fall = 0.0
    for j in range(x.shape[0]):
        growth = abs(end[j]) - abs(x[j])
        if end[j] * x[j] >= 0.0:
            growth = d[j] if end[j] + x[j] > 0.0 else -d[j]
        fall -= slope[j] * d[j] + level / polytope.size * growth
    return fall
