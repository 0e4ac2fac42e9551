"""The softmax loss h(z) of scores z, with a column for each class. `Multinomial` is h(K X)."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array, Vector, dot, double_like, host, like, namespace, total
from condgrad.rounding import UNIT
from condgrad.smooth.intercept import PASSES, LogisticIntercept

SETTLED_EXCESS = 8.0
"""The intercepts are the best ones once the excess of each class is at most this many rounding
units of the gradient's terms.
"""
NEARLY_SETTLED = 1e-8
"""A step that gains nothing is only taken for the last one if the excess is at most this part of
the gradient's terms. If some intercepts have hardly any curvature, one Newton step may gain nothing
although the next does.
"""
NO_CURVATURE = 1e-100
"""If all curvature is below this part of the sum of weights, it is taken for 0: the probabilities
have rounded to 0 and 1.
"""


class AtBestIntercepts(NamedTuple):
    """A softmax loss at z with its intercepts at their best."""

    value: float
    theta: Array
    """The gradient; with intercepts each of its columns sums to 0."""
    intercept: Vector
    """One for each class."""
    slip: float
    """How much more than the dual function at theta, at most, value - <theta, z> may be."""


class Softmax:
    """h(z) = sum_i w_i (log sum_k exp(z_ik + b_k) - z_iy - b_y), b = 0 or at its best; z has a row
    for each sample.
    """

    quadratic = False
    curvature_bound: float

    def __init__(self, codes: Any, classes: int, weights: Array, intercept: bool) -> None:
        self.weights = weights
        self.has_intercept = intercept
        self.one_hot = double_like(np.eye(classes)[codes], weights)
        self.mass = host(self.weights @ self.one_hot)
        # the Hessian of log-sum-exp is diag(p) - p p', whose norm is 1/2 at most
        self.curvature_bound = 0.5 * float(namespace(weights).max(weights))
        if intercept and self.mass.min() < sys.float_info.min:
            raise ValueError(
                "with an intercept, each class of y must have a positive sample_weight; class number "
                f"{int(self.mass.argmin())} has none: leave it out"
            )

    def at_best_intercept(self, z: Array, *, near: Vector | None = None) -> AtBestIntercepts:
        """h(z), its gradient and the intercepts.

        Large ones are known to fewer digits than theta needs to sum to 0: what is left of its sums
        is taken out.
        """
        if not self.has_intercept:
            b = np.zeros(z.shape[1])
            value, shares = self.value_and_shares(z, b)
            return AtBestIntercepts(value, self.theta(shares), b, 0.0)
        mass = self.mass.sum()
        start = first_intercepts(self.mass, host(self.weights @ z)) if near is None else near
        here, b = self._at_best(z, start)
        step = last_step(inverse_of_curvature(here.curvature, mass), here.excess)
        theta = self.theta(here.shares, step)
        return AtBestIntercepts(here.value, theta, b, float(step @ here.excess))

    def _at_best(self, z: Array, b: Vector) -> tuple[SoftmaxAt, Vector]:
        """The b of sum 0 at which each class gets its weight, sum_i w_i p_i, and the loss there.

        Newton's method on a convex function of few variables, as long as each step halves the
        gradient, as a part of its terms before they cancel: where all losses are near 0, the best
        intercepts still decide by how much. Where the step does not, as Newton's method is slow on
        exponentials and blind where probabilities round to 0 and 1, each class is set against the
        rest, one after the other.
        """
        mass = self.mass.sum()
        b = b - b.mean()
        here = SoftmaxAt(self, z, b)
        for _ in range(PASSES):
            left = _part_left(here)
            if left <= SETTLED_EXCESS * UNIT:
                break
            step = inverse_of_curvature(here.curvature, mass) @ here.excess
            trial = b - step
            there = SoftmaxAt(self, z, trial)
            if not _part_left(there) < 0.5 * left:
                gains_nothing = 0.0 < step @ here.excess <= UNIT * here.value
                if (
                    gains_nothing and left <= NEARLY_SETTLED
                ):  # no more digits: the last step is for theta alone
                    break
                trial = b.copy()
                for k in range(len(b)):
                    trial[k] += self._searches[k](margin_over_the_rest(z, trial, k), 0.0)
                trial -= trial.mean()  # they may all have risen alike, which costs digits
                there = SoftmaxAt(self, z, trial)
                if not (there.value < here.value or _part_left(there) < left):
                    break
            b = trial
            here = there
        return here, b - b.mean()

    def value_and_shares(self, z: Array, b: Vector) -> tuple[float, Array]:
        """h with given intercepts, and the probabilities of the classes.

        Entries are relative to that of the label, whose power is 1: a loss near 0 is the small sum
        of the other powers, and would be lost in the rounding of z.
        """
        xp = namespace(z)
        z = z + like(b, z)
        z = z - xp.sum(self.one_hot * z, axis=1, keepdims=True)
        top = xp.max(z, axis=1, keepdims=True)
        powers = xp.exp(z - top)
        rest = xp.sum(powers * (1.0 - self.one_hot), axis=1, keepdims=True)
        sums = rest + xp.exp(-top)
        losses = xp.where(top > 0.0, top + xp.log(sums), xp.log1p(rest))
        return dot(self.weights, losses[:, 0]), powers / sums

    def theta(self, shares: Array, step: Vector | None = None) -> Array:
        """The gradient for given probabilities; with a step, that behind it, to first order in the
        step.
        """
        if step is not None and step.any():
            move = like(step, shares)
            shares = shares - shares * (move - (shares @ move)[:, None])
        others = shares * (1.0 - self.one_hot)
        # the label's is its share less 1: of a share near 1 the others' know more digits
        total_of_others = namespace(shares).sum(others, axis=1, keepdims=True)
        return self.weights[:, None] * (others - self.one_hot * total_of_others)

    @cached_property
    def _searches(self) -> list[LogisticIntercept]:
        return [
            LogisticIntercept(2.0 * self.one_hot[:, k] - 1.0, self.weights)
            for k in range(self.one_hot.shape[1])
        ]

    def curvature(self, shares: Array) -> Any:
        """The second derivatives in the intercepts at given probabilities, on the host."""
        weighted = self.weights[:, None] * shares
        return np.diag(host(namespace(shares).sum(weighted, axis=0))) - host(weighted.T @ shares)

    def _inverse_curvature(self, shares: Array) -> Any:
        return inverse_of_curvature(self.curvature(shares), self.mass.sum())

    def hessian_gram(self, z: Array, directions: Array, *, intercept: Vector) -> Any:
        """The matrix <d_i, hess h(z) d_j> of a few directions, on the host."""
        xp = namespace(z)
        _, shares = self.value_and_shares(z, intercept)
        means = xp.sum(directions * shares, axis=2, keepdims=True)
        centred = directions - means
        weighted = (self.weights[:, None] * shares) * centred
        count = directions.shape[0]
        gram = host(weighted.reshape(count, -1) @ directions.reshape(count, -1).T)
        if not self.has_intercept:
            return gram
        coupling = host(xp.sum(weighted, axis=1))
        return gram - coupling @ self._inverse_curvature(shares) @ coupling.T


class SoftmaxAt:
    """A softmax loss of margins z at given intercepts."""

    def __init__(self, h: Softmax, z: Array, b: Vector) -> None:
        self.h = h
        self.value, self.shares = h.value_and_shares(z, b)
        theta = h.theta(self.shares)
        xp = namespace(theta)
        # less the weights of the classes, the sums of shares near 0 and 1 would have no digits
        self.excess: Vector = host(xp.sum(theta, axis=0))
        """What each class gets beyond its weight: the gradient in the intercepts."""
        self.size = total(xp.abs(theta))
        """The sum of |theta|: of the terms of the excess before they cancel."""

    @cached_property
    def curvature(self) -> Any:
        """The second derivatives in the intercepts."""
        return self.h.curvature(self.shares)


def first_intercepts(masses: Vector, sums_of_margins: Vector) -> Vector:
    """Those of the classes alone, less the mean margins.

    Large mean margins would leave a search no curvature.
    """
    mass = masses.sum()
    return np.log(masses / mass) - sums_of_margins / mass


def _part_left(here: SoftmaxAt) -> float:
    """The excess of a class, at most, as a part of the terms that cancel in it."""
    return float(np.abs(here.excess).max()) / here.size if here.size > 0.0 else 0.0


def margin_over_the_rest(z: Array, b: Vector, k: int) -> Array:
    """The margins z + b of class k, less the log-sum-exp of those of the other classes."""
    xp = namespace(z)
    shifted = z + like(b, z)
    others = xp.concat([shifted[:, :k], shifted[:, k + 1 :]], axis=1)
    top = xp.max(others, axis=1, keepdims=True)
    rest = (top + xp.log(xp.sum(xp.exp(others - top), axis=1, keepdims=True)))[:, 0]
    return shifted[:, k] - rest


def inverse_of_curvature(curvature: Any, mass: float) -> Any:
    """The pseudo-inverse of the curvature in the intercepts of all weights; 0 where next to none is
    left to invert.

    Its rows sum to 0: intercepts that all rise alike change nothing. The diagonal is a difference
    of sums of the size of the weights. Where probabilities are near 0 and 1 little more than its
    rounding is left, which would count as curvature along intercepts that all rise alike. So it is
    taken from the other entries, which are products.
    """
    curvature = curvature - np.diag(np.diag(curvature))
    curvature -= np.diag(curvature.sum(axis=1))
    if not np.abs(curvature).max() > NO_CURVATURE * mass:  # or where it is not finite
        return np.zeros_like(curvature)
    return np.linalg.pinv(curvature, hermitian=True)


def last_step(inverse_curvature: Any, excess: Vector) -> Vector:
    """Newton's step from intercepts that have no more digits, to be taken by theta alone: b - step
    is the best.

    A step by more than 1 might lead to probabilities below 0, and is none. For others value -
    <theta, z> exceeds the dual function by less than <step, excess>: along the step the curvature
    changes by a factor e at most.
    """
    step: Vector = inverse_curvature @ excess
    return step if float(np.ptp(step)) <= 1.0 else np.zeros_like(step)
