"""The losses of `smooth.losses` and their best intercepts; the plain references are there and in `smooth.intercept`.

One pass over the samples gives all that a loss has to say of them: each exponential is taken once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import LOGISTIC, SQUARES
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place, entry_point
from condgrad.kernels.elementary import exponential, log_1_plus

UNIT = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).tiny)
BLOCK = 512
"""Samples whose losses are kept until they are summed."""
PASSES = 200
"""More than bisection needs from any bracket of float64 numbers that a loss can tell apart."""
NEAR_PASSES = 5
"""Passes of `logistic_nearby`, which a start that is near ends after one to three."""
CLOSE = 2e-4
"""A step of an intercept over which a cubic tells all digits of a logistic loss: its fourth derivative is no larger
than the second, and CLOSE^4/24 is below a rounding unit."""
LEAST_MASS = 1e-6
"""The second derivative of a loss by its intercept, as a share of the sizes of all terms of the first, from which on
rounding of these leaves a step enough digits."""


class CompiledLoss(NamedTuple):
    """sum_i w_i h(z_i, y_i), or the least over b of sum_i w_i h(z_i + b, y_i)."""

    kind: int
    y: Array
    weights: Array
    has_intercept: bool
    shares: Array
    """The weights over their sum, or over a power of two near it; 0 for one so small that half of it underflows."""
    odds: float
    """The logarithm of what the shares of the positive class are to those of the negative one; 0 for squares."""


@entry_point
def loss_at(loss: CompiledLoss, z: Array, b: float, theta: Array) -> float:
    """The loss at z + b; theta becomes its gradient.

    No loop both writes and sums: the compiler would order the terms by where the arrays lie in memory.
    """
    y, weights, value = loss.y, loss.weights, 0.0
    if loss.kind == SQUARES:
        for i in range(z.shape[0]):
            theta[i] = weights[i] * (z[i] + b - y[i])
        for i in range(z.shape[0]):
            value += 0.5 * theta[i] * (z[i] + b - y[i])
    elif loss.kind == LOGISTIC:
        losses = np.empty(min(z.shape[0], BLOCK))
        for begin in range(0, z.shape[0], BLOCK):
            some = slice(begin, begin + BLOCK)
            value += set_logistic(y[some], weights[some], z[some], b, theta[some], losses)
    else:
        for i in range(z.shape[0]):
            theta[i] = -2.0 * y[i] * weights[i] * max(0.0, 1.0 - y[i] * (z[i] + b))
        for i in range(z.shape[0]):
            short = max(0.0, 1.0 - y[i] * (z[i] + b))
            value += weights[i] * short * short
    return value


@compiled
def set_logistic(y: Array, weights: Array, z: Array, b: float, theta: Array, losses: Array) -> float:
    """A logistic loss at z + b; theta becomes its gradient, and `losses` those of the samples."""
    value = 0.0
    for i in range(z.shape[0]):
        shortfall = -y[i] * (z[i] + b)  # the margin with the other sign
        fall = exponential(-abs(shortfall))
        share = 1.0 if shortfall > 0.0 else fall
        losses[i] = weights[i] * ((shortfall if shortfall > 0.0 else 0.0) + log_1_plus(fall))
        theta[i] = -y[i] * weights[i] * (share / (1.0 + fall))
    for i in range(z.shape[0]):
        value += losses[i]
    return value


@entry_point
def set_curvature(loss: CompiledLoss, z: Array, b: float, curvature: Array) -> None:
    """The second derivatives at z + b."""
    y, weights = loss.y, loss.weights
    if loss.kind == SQUARES:
        curvature[:] = weights
    elif loss.kind == LOGISTIC:
        for i in range(z.shape[0]):
            fall = exponential(-abs(z[i] + b))
            curvature[i] = weights[i] * fall / ((1.0 + fall) * (1.0 + fall))
    else:
        for i in range(z.shape[0]):
            curvature[i] = 2.0 * weights[i] if y[i] * (z[i] + b) < 1.0 else 0.0


@entry_point
def set_loss(loss: CompiledLoss, z: Array, near: float, theta: Array) -> tuple[float, float]:
    """The loss at its best intercept, and that; theta becomes its gradient. `near` may be NaN for nothing known."""
    if not loss.has_intercept:
        return loss_at(loss, z, 0.0, theta), 0.0
    if loss.kind == LOGISTIC:
        near = likely_intercept(loss, z) if math.isnan(near) else near
        value, b, is_best = logistic_nearby(loss, z, near, theta)
        if is_best:
            return value, b
        near = b
    b = best_intercept(loss, z, near)
    value = loss_at(loss, z, b, theta)
    balance(loss, z, b, theta)
    return value, b


@compiled_in_place
def likely_intercept(loss: CompiledLoss, z: Array) -> float:
    """The best intercept of a logistic loss if z were its weighted mean at all samples."""
    mean, mass = 0.0, 0.0
    for i in range(z.shape[0]):
        mean += loss.shares[i] * z[i]
        mass += loss.shares[i]
    return loss.odds - mean / mass


@compiled_in_place
def logistic_nearby(loss: CompiledLoss, z: Array, near: float, theta: Array) -> tuple[float, float, bool]:
    """A logistic loss at its best intercept, that, and whether steps from a near one led there; theta as in `set_loss`.

    A pass gives the loss with three derivatives by b. A step goes to the root of the second-order model of the first
    one. The last step is taken by the model alone, sample by sample, so that theta sums to 0 up to rounding.
    """
    y, weights, b, last_step = loss.y, loss.weights, near, np.inf
    losses = np.empty(min(z.shape[0], BLOCK))
    for _ in range(NEAR_PASSES):
        value, first, size, second, third = 0.0, 0.0, 0.0, 0.0, 0.0
        for begin in range(0, z.shape[0], BLOCK):
            some = slice(begin, begin + BLOCK)
            value += set_logistic(y[some], weights[some], z[some], b, theta[some], losses)
            part, sizes = theta[some], weights[some]
            for k in range(part.shape[0]):
                rate = 1.0 - abs(part[k]) / sizes[k] if sizes[k] > 0.0 else 0.0
                first += part[k]
                size += abs(part[k])
                second += abs(part[k]) * rate
                third += part[k] * rate * (2.0 * rate - 1.0)
        # terms that are no normal numbers, or whose rounding hides the sum, are for a search by logarithms
        if not (second >= LEAST_MASS * size and second >= SMALLEST / UNIT):
            break
        step = step_to_root(first, second, third)
        if abs(step) <= CLOSE:
            for i in range(z.shape[0]):
                share = abs(theta[i]) / weights[i] if weights[i] > 0.0 else 0.0
                rate = 1.0 - share
                theta[i] += step * rate * (abs(theta[i]) + 0.5 * step * theta[i] * (rate - share))
            return value + step * (first + step * (0.5 * second + step * third / 6.0)), b + step, True
        if not abs(step) <= min(1.0, 0.5 * last_step):
            break
        b, last_step = b + step, abs(step)
    return 0.0, b, False


@compiled_exactly
def step_to_root(first: float, second: float, third: float) -> float:
    """To where first + second s + third s^2/2 is 0, by ratios: products of two of them may leave the floats."""
    ratio = first / second
    return -2.0 * ratio / (1.0 + math.sqrt(max(0.0, 1.0 - 2.0 * ratio * (third / second))))


@compiled_in_place
def balance(loss: CompiledLoss, z: Array, b: float, theta: Array) -> None:
    """Take the rounding of b out of theta: only one that sums to 0 is a point of the dual.

    In proportion to the curvature, as a last Newton step on b would do it. A theta of classes is bounded, and a step of
    b by 1 or more may take it beyond its bounds: then it stays as it is. A theta of squares may be anything.
    """
    excess, size, mass = 0.0, 0.0, 0.0
    for i in range(theta.shape[0]):
        excess += theta[i]
        size += abs(theta[i])
    if abs(excess) <= UNIT * size:
        return
    curvature = np.empty(theta.shape[0])
    set_curvature(loss, z, b, curvature)
    for i in range(theta.shape[0]):
        mass += curvature[i]
    if mass > abs(excess) or loss.kind == SQUARES:
        subtract_share(theta, excess, mass, curvature)


@compiled_exactly
def subtract_share(theta: Array, excess: float, mass: float, curvature: Array) -> None:
    """theta -= excess curvature/mass, by a ratio: products of two may leave the floats in the unit of F."""
    for i in range(theta.shape[0]):
        theta[i] -= (excess / mass) * curvature[i]


@compiled_in_place
def best_intercept(loss: CompiledLoss, z: Array, near: float) -> float:
    """The b at which the loss is least, to rounding."""
    if loss.kind == SQUARES:
        found = 0.0
        for i in range(z.shape[0]):
            found += loss.shares[i] * (loss.y[i] - z[i])
        return found
    if loss.kind == LOGISTIC:
        return logistic_intercept(loss, z, near)
    return hinge_intercept(loss, z, near)


@compiled_in_place
def log_pulls(
    loss: CompiledLoss, z: Array, b: float, top_rise: float, top_fall: float
) -> tuple[float, float, float, float]:
    """log sum_i w_i sigma(-y_i (z_i + b)) over the negative class and its derivative by b; over the positive by -b.

    The tops are the largest z + b of the negative class, and -z - b of the positive one.
    """
    rise, rise_rate, fall, fall_rate = 0.0, 0.0, 0.0, 0.0
    # the largest term of each class is of order 1, however small they all are
    rise_scale, fall_scale = min(0.0, top_rise), min(0.0, top_fall)
    for i in range(z.shape[0]):
        is_rise = loss.y[i] < 0.0
        margin = -loss.y[i] * (z[i] + b)
        tail = exponential(-abs(margin))
        rest = 1.0 / (1.0 + tail)
        # at most 0 but for samples without a share, which the scale does not know of
        power = min(0.0, min(0.0, margin) - (rise_scale if is_rise else fall_scale))
        part = loss.shares[i] * rest * exponential(power)
        rate = part * rest * (tail if margin > 0.0 else 1.0)
        rise += part if is_rise else 0.0
        rise_rate += rate if is_rise else 0.0
        fall += 0.0 if is_rise else part
        fall_rate += 0.0 if is_rise else rate
    return rise_scale + math.log(rise), rise_rate / rise, fall_scale + math.log(fall), fall_rate / fall


@compiled_in_place
def logistic_intercept(loss: CompiledLoss, z: Array, near: float) -> float:
    """The b at which both classes pull alike; see `LogisticIntercept`."""
    lowest, highest, top_negative, top_positive = np.inf, -np.inf, -np.inf, -np.inf
    for i in range(z.shape[0]):
        if loss.shares[i] > 0.0:
            lowest, highest = min(lowest, z[i]), max(highest, z[i])
            if loss.y[i] < 0.0:
                top_negative = max(top_negative, z[i])
            else:
                top_positive = max(top_positive, -z[i])
    low, high = loss.odds - highest, loss.odds - lowest
    b, last_step = min(max(near, low), high), np.inf
    for _ in range(PASSES):
        rise, rise_rate, fall, fall_rate = log_pulls(loss, z, b, top_negative + b, top_positive - b)
        excess, rate = rise - fall, rise_rate + fall_rate
        trial = b - excess / rate if rate >= SMALLEST else (b if excess == 0.0 else math.copysign(np.inf, -excess))
        # the second derivative is no larger than the first: a step below 1e-8 leaves an error below 1e-16
        if abs(excess) <= max(UNIT * (1.0 + abs(rise) + abs(fall)), 1e-8 * rate):
            return min(max(trial, low), high)
        low, high, trial = bracketed(b, trial, low, high, last_step)
        last_step = abs(trial - b)
        b = trial
        if last_step <= UNIT * max(1.0, abs(b)):  # a loss changes over distances of order 1
            break
    return b


@compiled_in_place
def hinge_intercept(loss: CompiledLoss, z: Array, near: float) -> float:
    """The weighted mean of the y - z of the samples that it leaves short of their margin; see `HingeIntercept`."""
    low, high = np.inf, -np.inf
    for i in range(z.shape[0]):
        if loss.shares[i] > 0.0:
            if loss.y[i] > 0.0:
                high = max(high, 1.0 - z[i])
            else:
                low = min(low, -1.0 - z[i])
    if high <= low:
        return 0.5 * (low + high)
    b, last_step = min(max(0.5 * (low + high) if math.isnan(near) else near, low), high), np.inf
    for _ in range(PASSES):
        mass, pull = 0.0, 0.0
        for i in range(z.shape[0]):
            end = loss.y[i] - z[i]
            if loss.y[i] * (end - b) > 0.0:
                mass += loss.shares[i]
                pull += loss.shares[i] * end
        trial = pull / mass if mass > 0.0 else b
        if trial == b:
            break
        low, high, trial = bracketed(b, trial, low, high, last_step)
        last_step = abs(trial - b)
        b = trial
        if last_step <= UNIT * max(1.0, abs(b)):
            break
    return min(max(b, low), high)


@compiled
def bracketed(b: float, trial: float, low: float, high: float, last_step: float) -> tuple[float, float, float]:
    """The bracket of a root after a step from b to a trial, and the trial, or the middle where it gains too little."""
    if trial < b:
        high = b
    else:
        low = b
    if not low <= trial <= high or abs(trial - b) > 0.5 * last_step:
        trial = 0.5 * (low + high)
    return low, high, trial
