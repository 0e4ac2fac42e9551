"""An unpenalised intercept, minimised out of a separable loss: H(z) = min_b h(z + b).

H is convex and smooth. By the envelope theorem its gradient is theta = h'(z + b) at the best b,
which sums to 0, and its Hessian is diag(w) - w w'/sum(w) with w = h''(z + b).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from condgrad.arrays import Array, Matrix, at_least, dot, gram, namespace, total
from condgrad.rounding import UNIT
from condgrad.smooth.composite import AtBestIntercept

NEAR_STEPS = 4
"""The largest number of Newton steps from a known intercept nearby. If they do not settle, the best
intercept is found within a bracket.
"""
LAST_STEP = 1e-9
"""A Newton step is the last one if it is at most this many widths of the loss: its square is
rounding.
"""
SETTLED_AT_KINKS = 8.0
"""If the second derivative jumps, the last step must also be at most this many rounding units of
the margins.
"""
PASSES = 200
"""The largest number of steps within a bracket. Bisection needs fewer from any bracket of float64
numbers that a loss can tell apart.
"""


class LossWithoutIntercept(Protocol):
    """A separable loss without an intercept."""

    quadratic: bool
    has_kinks: bool
    """Whether the second derivative jumps."""
    curvature_bound: float
    y: Array
    weights: Array
    width: float
    """Over which distance of z the loss changes its shape."""
    extra: tuple[float, ...]
    """What it is made of beside targets and weights."""

    def evaluate(self, z: Array) -> tuple[float, Array]: ...

    def curvature(self, z: Array) -> Array: ...

    def on_host(self) -> LossWithoutIntercept: ...


class BestIntercept(Protocol):
    """argmin_b h(z + b) for one loss, to rounding; `near` may say where to look first."""

    is_closed: bool
    """Whether it is a formula, for which an intercept nearby saves nothing."""

    def __init__(self, y: Array, weights: Array, *extra: float) -> None: ...

    def __call__(self, z: Array, near: float | None) -> float: ...


class WithIntercept:
    """H(z) = min_b h(z + b)."""

    has_intercept = True

    def __init__(self, loss: LossWithoutIntercept, best: BestIntercept) -> None:
        self.loss = loss
        self.best = best
        self.quadratic = loss.quadratic
        self.curvature_bound = loss.curvature_bound
        self.y = loss.y
        self.weights = loss.weights

    def on_host(self) -> WithIntercept:
        """The same loss of margins on the host."""
        loss = self.loss.on_host()
        return WithIntercept(loss, type(self.best)(loss.y, loss.weights, *loss.extra))

    def intercept_at(self, z: Array, *, near: float | None = None) -> float:
        return self.at_best_intercept(z, near=near).intercept

    def evaluate(self, z: Array) -> tuple[float, Array]:
        value, theta, _ = self.at_best_intercept(z)
        return value, theta

    def at_best_intercept(self, z: Array, *, near: float | None = None) -> AtBestIntercept:
        if near is not None and not self.best.is_closed:
            found = self._from_near(z, near)
            if found is not None:
                return found
        b = self.best(z, near)
        shifted = z + b
        value, theta = self.loss.evaluate(shifted)
        return AtBestIntercept(value, self._balanced(theta, shifted), b)

    def _from_near(self, z: Array, b: float) -> AtBestIntercept | None:
        """By Newton's method on b from nearby, which mostly ends in two steps; None where it does
        not.

        The third derivative of a loss is no larger than the second. So a step below `LAST_STEP`
        leaves an error of its square, which is rounding; and theta is balanced by that step. Where
        the second derivative jumps, a step may lead past the margin of a sample, whose theta would
        get a sign that it cannot have: there Newton's method is exact once it knows which samples
        are short, and the last step must be rounding itself.
        """
        for _ in range(NEAR_STEPS):
            shifted = z + b
            value, theta = self.loss.evaluate(shifted)
            excess = total(theta)
            weights = self.loss.curvature(shifted)
            mass = total(weights)
            if not mass * self.loss.width > abs(
                excess
            ):  # far from its margins a loss has hardly any curvature
                return None
            step = excess / mass
            settled = LAST_STEP * self.loss.width
            if self.loss.has_kinks:
                settled = min(
                    settled, SETTLED_AT_KINKS * UNIT * float(namespace(shifted).abs(shifted).max())
                )
            if abs(step) <= settled:
                return AtBestIntercept(
                    value - 0.5 * step * excess, theta - step * weights, b - step
                )
            b -= step
        return None

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        b = self.intercept_at(z) if intercept is None else intercept
        return self.loss.curvature(z + b)

    def hessian_gram(self, z: Array, directions: Array, *, intercept: float | None = None) -> Any:
        weights = self.curvature(z, intercept=intercept)
        mass = total(weights)
        if mass == 0.0:
            return gram(directions, weights)
        # means are taken off the directions: taken off their products they might leave nothing but
        # rounding
        return gram(directions - (directions @ (weights / mass))[:, None], weights)

    def _balanced(self, theta: Array, z: Array) -> Array:
        """theta with the rounding of b taken out: only a theta that sums to 0 is a point of the
        dual.

        In proportion to the curvature, as a last Newton step on b would do it. A theta of classes
        is bounded, and a step of b by 1 or more may take it beyond its bounds: then it stays as it
        is. A theta of squares may be anything.
        """
        excess = total(theta)
        if abs(excess) <= UNIT * total(namespace(theta).abs(theta)):
            return theta
        weights = self.loss.curvature(z)
        mass = total(weights)
        is_near = mass * self.loss.width > abs(excess)
        return theta - (excess / mass) * weights if is_near or self.quadratic else theta


class SquaresIntercept:
    """The weighted mean of the residuals."""

    is_closed = True

    def __init__(self, y: Array, weights: Array) -> None:
        self.y = y
        self.shares = weights / total(weights)

    def __call__(self, z: Array, near: float | None) -> float:
        return dot(self.shares, self.y - z)


class TwoClasses:
    """The samples of positive weight by class."""

    is_closed = False

    def __init__(self, y: Array, weights: Array) -> None:
        xp = namespace(y)
        # in units of a power of two near their sum: logarithms of sums must not depend on the unit
        # of F
        shares = weights / 2.0 ** math.frexp(total(weights))[1]
        least = sys.float_info.min  # half of anything smaller may be 0
        used = (weights >= least) & (shares >= least)
        self.positive, self.negative = (xp.nonzero(used & (y == sign))[0] for sign in (1.0, -1.0))
        require_both_classes(self.positive.shape[0], self.negative.shape[0])
        self.positive_shares = shares[self.positive]
        self.negative_shares = shares[self.negative]
        self.odds = math.log(total(self.positive_shares)) - math.log(total(self.negative_shares))


def require_both_classes(positive: float, negative: float) -> None:
    """A sentence where one of the classes has no samples, or none with a weight."""
    if 0 in (positive, negative):
        raise ValueError(
            "with an intercept, y must have two classes, each with a positive sample_weight; "
            f"got only {'+1' if negative == 0 else '-1'}: the intercept alone would fit it perfectly"
        )


class LogisticIntercept(TwoClasses):
    """The b at which the slopes of both classes cancel.

    sum over the negative class of w sigma(z + b) = sum over the positive class of w sigma(-z - b).
    The difference of their logarithms increases with b at a rate between 0 and 2, tends to 1 far
    out, and never underflows.
    """

    def __call__(self, z: Array, near: float | None) -> float:
        positive = -z[self.positive]
        negative = z[self.negative]
        top_positive = float(positive.max())
        top_negative = float(negative.max())

        def newton(b: float) -> tuple[float, bool]:
            rise, rise_rate = _log_slope(self.negative_shares, negative + b, top_negative + b)
            fall, fall_rate = _log_slope(self.positive_shares, positive - b, top_positive - b)
            excess = rise - fall
            rate = rise_rate + fall_rate
            # the second derivative is no larger than the first: a step below 1e-8 leaves an error
            # below 1e-16
            settled = abs(excess) <= max(UNIT * (1.0 + abs(rise) + abs(fall)), 1e-8 * rate)
            if rate < sys.float_info.min:
                return math.copysign(math.inf, -excess) if excess else b, settled
            return b - excess / rate, settled

        lowest = min(-top_positive, float(negative.min()))
        highest = max(top_negative, -float(positive.min()))
        start = self.odds - 0.5 * (lowest + highest) if near is None else near
        return _bracketed(newton, start, self.odds - highest, self.odds - lowest)


def _log_slope(weights: Array, margin: Array, top: float) -> tuple[float, float]:
    """log sum_i w_i sigma(margin_i), and its derivative by a shift of the margins; `top` is the
    largest of them.
    """
    xp = namespace(margin)
    fall = xp.exp(-xp.abs(margin))
    rest = 1.0 / (1.0 + fall)
    scale = min(0.0, top)  # the largest term is of order 1, however small they all are
    parts = rest * xp.exp(-at_least(0.0, -margin) - scale)
    mass = dot(weights, parts)
    opposite = rest * xp.exp(-at_least(0.0, margin))
    return scale + math.log(mass), dot(weights * opposite, parts) / mass


class HingeIntercept(TwoClasses):
    """The weighted mean of the breakpoints y - z of the samples that it leaves short of their
    margin.

    Where some b satisfies every margin, the middle of all that do.
    """

    def __call__(self, z: Array, near: float | None) -> float:
        xp = namespace(z)
        positive = 1.0 - z[self.positive]
        negative = -1.0 - z[self.negative]
        high = float(positive.max())
        low = float(negative.min())
        if high <= low:
            return 0.5 * (low + high)

        def newton(b: float) -> tuple[float, bool]:
            short_positive = self.positive_shares * xp.astype(positive > b, xp.float64)
            short_negative = self.negative_shares * xp.astype(negative < b, xp.float64)
            mass = total(short_positive) + total(short_negative)
            if mass == 0.0:
                return b, True
            trial = (dot(short_positive, positive) + dot(short_negative, negative)) / mass
            return trial, trial == b

        return _bracketed(newton, 0.5 * (low + high) if near is None else near, low, high)


class PoissonIntercept:
    """The b at which the means exp(z + b) add up to the counts."""

    is_closed = True

    def __init__(self, y: Array, weights: Array) -> None:
        self.used = namespace(y).nonzero(weights > 0.0)[0]
        # weights and counts as shares: logarithms of sums must not depend on the unit of F
        self.shares = weights[self.used] / total(weights)
        counts = dot(self.shares, y[self.used])
        if not counts > 0.0:
            raise ValueError(
                "with an intercept, y must have a count above 0 with a positive sample_weight; got only "
                "zeros: the intercept alone would fit them perfectly"
            )
        self.log_counts = math.log(counts)

    def __call__(self, z: Array, near: float | None) -> float:
        return self.log_counts - _log_mean(self.shares, z[self.used])


class GammaIntercept:
    """The b at which the mean of y exp(-z - b) is 1."""

    is_closed = True

    def __init__(self, y: Array, weights: Array) -> None:
        xp = namespace(y)
        self.used = xp.nonzero(weights > 0.0)[0]
        self.shares = weights[self.used] / total(weights)
        self.logs = xp.log(y[self.used])

    def __call__(self, z: Array, near: float | None) -> float:
        return _log_mean(self.shares, self.logs - z[self.used])


def _log_mean(shares: Array, exponents: Array) -> float:
    """log sum_i share_i exp(exponent_i), which never leaves the floats."""
    top = float(exponents.max())
    return top + math.log(dot(shares, namespace(exponents).exp(exponents - top)))


class HuberIntercept:
    """The b at which the residuals, cut at the width, have mean 0; all in units of the width."""

    is_closed = (
        True  # a theta beyond the width would be no point of the dual: no step but those in here
    )

    def __init__(self, y: Array, weights: Array, delta: float) -> None:
        self.used = namespace(y).nonzero(weights > 0.0)[0]
        self.y = y[self.used]
        self.shares = weights[self.used] / total(weights)
        self.delta = delta

    def __call__(self, z: Array, near: float | None) -> float:
        xp = namespace(z)
        places = (self.y - z[self.used]) / self.delta

        def newton(b: float) -> tuple[float, bool]:
            residuals = b - places
            excess = dot(self.shares, xp.clip(residuals, min=-1.0, max=1.0))
            if abs(excess) <= UNIT:
                return b, True
            mass = dot(self.shares, xp.astype(xp.abs(residuals) < 1.0, xp.float64))
            if mass == 0.0:
                return math.copysign(math.inf, -excess), False
            trial = b - excess / mass
            return trial, trial == b

        low = float(places.min())
        high = float(places.max())
        start = 0.5 * (low + high) if near is None else near / self.delta
        return self.delta * _bracketed(newton, start, low, high)


def _bracketed(
    newton: Callable[[float], tuple[float, bool]], b: float, low: float, high: float
) -> float:
    """The root of an increasing function between low and high, from its Newton steps and bisection.

    `newton(b)` is where Newton's method goes from b, and whether b is the root to rounding already.
    """
    b = min(max(b, low), high)
    last_step = math.inf
    for _ in range(PASSES):
        trial, settled = newton(b)
        if settled:
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


# --- what models of the loss know of an intercept, and of other columns without a penalty


def weighted_basis(C: Array | None, w: Array) -> Array:
    """Columns that span those of C, orthonormal where samples weigh w; fewer where too few have a
    weight. That of an intercept is a single row, which stands for all.
    """
    if C is None or C.shape[1] == 0:
        return np.empty((w.shape[0], 0))
    if len(C) == 1:
        mass = float(w.sum())
        return C / math.sqrt(mass) if mass > 0.0 else C[:, :0]
    values, axes = np.linalg.eigh(C.T @ (w[:, None] * C))
    seen = values > len(values) * UNIT * max(values[-1], 0.0)
    return C @ (axes[:, seen] / np.sqrt(values[seen]))


def less_projection(K: Matrix, A: Array, w: Array) -> Array:
    """Columns less what orthonormal columns A have of them, where samples weigh w."""
    return less_part(K, A, (w[:, None] * A).T @ K)


def less_part(K: Array, A: Array, along: Array) -> Array:
    """K - A along."""
    if A.shape[1] == 0:
        return K
    if len(A) == 1:
        return K - A * along
    part = A @ along
    return np.subtract(K, part, out=part)
