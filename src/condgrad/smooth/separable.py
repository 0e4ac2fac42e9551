"""Losses h(z) of the scores z = Kx, one score for each sample. Here h knows no data K."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from condgrad.arrays import Array, at_least, dot, gram, host, largest_size, namespace
from condgrad.smooth.composite import AtBestIntercept

CURVATURE_BEYOND = 1e-3
"""Where Huber's loss is linear, it is given this share of delta/|r| as curvature. A Newton step
leaves about this share of its error for the next one. Without it, one problem in five was not
solved.
"""


class SeparableLoss(ABC):
    """Targets and weights of a separable loss, both in float64."""

    quadratic = False
    has_labels = False
    """Whether targets are -1 and +1, not numbers."""
    has_kinks = False
    has_intercept = False
    steepest_curvature = 1.0
    shift_size = 0.0
    """The size of what is added to z before anything else, for the rounding of that."""
    width = 1.0
    """Over which distance of z the loss changes its shape."""
    extra: tuple[float, ...] = ()
    """What it is made of beside targets and weights."""
    classes = "samples"
    """What is told apart where a loss falls forever."""

    def __init__(self, y: Array, weights: Array) -> None:
        self.y = y
        self.weights = weights
        self.curvature_bound = self.steepest_curvature * float(namespace(weights).max(weights))
        self.weighs_all = float(namespace(weights).min(weights)) > 0.0

    @abstractmethod
    def evaluate(self, z: Array) -> tuple[float, Array]:
        """h(z) and its gradient."""

    @abstractmethod
    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        """The diagonal of the Hessian."""

    @property
    def falls_forever(self) -> tuple[Array, Array]:
        """At which samples the loss has no minimum: it falls as z rises, or as z falls."""
        never = self.y != self.y
        return never, never

    def where_seen(self, z: Array) -> Array:
        """z, but 0 at samples of weight 0.

        No loss keeps z finite there, and 0 times infinity would be NaN.
        """
        if self.weighs_all:
            return z
        xp = namespace(z)
        return xp.where(self.weights > 0.0, z, xp.zeros_like(z))

    def on_host(self) -> SeparableLoss:
        """The same loss with its arrays on the host."""
        return type(self)(host(self.y), host(self.weights), *self.extra)

    def at_best_intercept(self, z: Array, *, near: float | None = None) -> AtBestIntercept:
        return AtBestIntercept(*self.evaluate(z), 0.0)

    def intercept_at(self, z: Array, *, near: float | None = None) -> float:
        return 0.0

    def hessian_gram(self, z: Array, directions: Array, *, intercept: float | None = None) -> Any:
        return gram(directions, self.curvature(z))


class Squares(SeparableLoss):
    quadratic = True

    def evaluate(self, z: Array) -> tuple[float, Array]:
        residual = z - self.y
        theta = self.weights * residual
        return 0.5 * dot(theta, residual), theta

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        return self.weights


class LogisticOfScores(SeparableLoss):
    has_labels = True
    steepest_curvature = 0.25
    classes = "the classes"

    @property
    def falls_forever(self) -> tuple[Array, Array]:
        return self.y > 0.0, self.y < 0.0

    @cached_property
    def _opposite(self) -> Array:
        return -self.y

    @cached_property
    def _signed_weights(self) -> Array:
        return self.weights * self._opposite

    def evaluate(self, z: Array) -> tuple[float, Array]:
        xp = namespace(z)
        shortfall = self._opposite * z  # the margin with the other sign
        losses = at_least(0.0, shortfall) + xp.log1p(
            xp.exp(-xp.abs(shortfall))
        )  # faster than logaddexp
        # sigma(-margin) = exp(-margin) / (1 + exp(-margin)), with the logarithm already at hand
        return dot(self.weights, losses), self._signed_weights * xp.exp(shortfall - losses)

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        xp = namespace(z)
        fall = xp.exp(-xp.abs(z))
        return self.weights * fall / (1.0 + fall) ** 2


class SquaredHingeOfScores(SeparableLoss):
    has_labels = True
    has_kinks = True
    steepest_curvature = 2.0

    def evaluate(self, z: Array) -> tuple[float, Array]:
        short = at_least(0.0, 1.0 - self.y * z)
        theta = self.weights * short
        return dot(theta, short), -2.0 * self.y * theta

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        xp = namespace(z)
        return 2.0 * self.weights * xp.astype(self.y * z < 1.0, xp.float64)


class PoissonOfScores(SeparableLoss):
    """Computed from d = z - log y, so that small deviances keep their digits.

    Where y = 0, the loss is exp(z).
    """

    steepest_curvature = math.inf
    classes = "counts of 0 from the others"

    @property
    def falls_forever(self) -> tuple[Array, Array]:
        return self.y < 0.0, self.y == 0.0

    def __init__(self, y: Array, weights: Array) -> None:
        super().__init__(y, weights)
        xp = namespace(y)
        self.is_count = y > 0.0
        self.base = xp.where(self.is_count, y, xp.ones_like(y))
        self.logs = xp.log(self.base)
        self.shift_size = largest_size(self.logs)

    def evaluate(self, z: Array) -> tuple[float, Array]:
        xp = namespace(z)
        d = self.where_seen(z) - self.logs
        growth = xp.expm1(d)
        # of a count of 0 it is the exponential itself: growth + 1 has no digits of a small one
        slopes = xp.where(self.is_count, self.base * growth, xp.exp(d))
        losses = xp.where(self.is_count, slopes - self.base * d, slopes)
        return dot(self.weights, losses), self.weights * slopes

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        return self.weights * namespace(z).exp(self.where_seen(z))


class GammaOfScores(SeparableLoss):
    """Computed from d = log y - z, so that small deviances keep their digits."""

    steepest_curvature = math.inf

    def __init__(self, y: Array, weights: Array) -> None:
        super().__init__(y, weights)
        self.logs = namespace(y).log(y)
        self.shift_size = largest_size(self.logs)

    def evaluate(self, z: Array) -> tuple[float, Array]:
        d = self.logs - self.where_seen(z)
        growth = namespace(z).expm1(d)
        return dot(self.weights, growth - d), -(self.weights * growth)

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        return self.weights * namespace(z).exp(self.logs - self.where_seen(z))


class HuberOfScores(SeparableLoss):
    has_kinks = True

    def __init__(self, y: Array, weights: Array, delta: float) -> None:
        super().__init__(y, weights)
        self.delta = delta
        self.width = delta
        self.extra = (delta,)

    def evaluate(self, z: Array) -> tuple[float, Array]:
        residual = z - self.y
        cut = namespace(z).clip(residual, min=-self.delta, max=self.delta)
        theta = self.weights * cut
        return dot(theta, residual - 0.5 * cut), theta

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        """The weight times 1 if the residual r has |r| <= delta, and else a part of delta/|r|.

        A parabola that touches the loss at r and lies above it has the curvature delta/|r|. The
        true curvature is 0 there. If it were used and all residuals were beyond delta, a quadratic
        model of the loss would be flat.
        """
        xp = namespace(z)
        sizes = at_least(self.delta, xp.abs(z - self.y))
        is_beyond = xp.astype(sizes > self.delta, xp.float64)
        return self.weights * (1.0 - is_beyond * (1.0 - CURVATURE_BEYOND * (self.delta / sizes)))


def positive_label(seen: Any) -> float:
    """Which of the labels that y holds, in increasing order, counts as +1."""
    if not (len(seen) == 2 or np.isin(seen, (-1.0, 1.0)).all()):
        raise ValueError(
            f"y must hold two classes (-1 and +1, or any two numbers), got {len(seen)}: "
            f"{', '.join(f'{label:g}' for label in seen[:5])}{', ...' if len(seen) > 5 else ''}"
        )
    return float(seen[-1]) if len(seen) == 2 else 1.0
