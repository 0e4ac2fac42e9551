"""The best intercept of a logistic loss; its plain reference is `smooth.intercept.LogisticIntercept`."""

from __future__ import annotations

import math

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled

UNIT = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).tiny)
PASSES = 200
"""More than bisection needs from any bracket of float64 numbers that a loss can tell apart."""


@compiled
def log_pull(weights: Array, margins: Array, shift: float, top: float) -> tuple[float, float]:
    """log sum_i w_i sigma(margin_i + shift), and its derivative by the shift; `top` is the largest shifted margin."""
    scale = min(0.0, top)  # the largest term is of order 1, however small they all are
    mass, rate = 0.0, 0.0
    for i in range(margins.shape[0]):
        margin = margins[i] + shift
        rest = 1.0 / (1.0 + np.exp(-abs(margin)))
        part = weights[i] * rest * np.exp(min(0.0, margin) - scale)
        mass += part
        rate += part * rest * np.exp(-max(0.0, margin))
    return scale + math.log(mass), rate / mass


@compiled
def logistic(
    positive: Array, positive_weights: Array, negative: Array, negative_weights: Array, odds: float, near: float
) -> float:
    """The b at which both classes pull alike, from near `near` unless that is NaN; see `LogisticIntercept`.

    `positive` holds -z of one class and `negative` z of the other.
    """
    top_positive, top_negative = positive.max(), negative.max()
    lowest, highest = min(-top_positive, negative.min()), max(top_negative, -positive.min())
    low, high = odds - highest, odds - lowest
    b = odds - 0.5 * (lowest + highest) if math.isnan(near) else near
    b, last_step = min(max(b, low), high), np.inf
    for _ in range(PASSES):
        rise, rise_rate = log_pull(negative_weights, negative, b, top_negative + b)
        fall, fall_rate = log_pull(positive_weights, positive, -b, top_positive - b)
        excess, rate = rise - fall, rise_rate + fall_rate
        trial = b - excess / rate if rate >= SMALLEST else (b if excess == 0.0 else math.copysign(np.inf, -excess))
        # the second derivative is no larger than the first: a step below 1e-8 leaves an error below 1e-16
        if abs(excess) <= max(UNIT * (1.0 + abs(rise) + abs(fall)), 1e-8 * rate):
            return min(max(trial, low), high)
        if trial < b:
            high = b
        else:
            low = b
        if not low <= trial <= high or abs(trial - b) > 0.5 * last_step:
            trial = 0.5 * (low + high)
        last_step = abs(trial - b)
        if last_step <= UNIT * max(1.0, abs(b)):  # a loss changes over distances of order 1
            return trial
        b = trial
    return b
