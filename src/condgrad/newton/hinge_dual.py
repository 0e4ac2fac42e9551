"""Newton's method on the dual of a squared hinge over the l1 ball, in as many variables as there are samples.

    min sum_i w_i max(0, 1 - y_i (k_i.x + b))^2 + ridge |x|^2   over   |x|_1 <= radius

has the dual

    max D(a) = sum_i a_i - a_i^2/(4 w_i) + min <c, x> + ridge |x|^2   over   a >= 0,   c = -K' (y a),

with sum_i y_i a_i = 0 where there is an intercept b. The inner minimum is at x(a), the projection of -c/(2 ridge). D is
piecewise quadratic: with A the coordinates of x(a) that are not 0, or all of them where a = 0, and where y = 1, its
second derivative is

    -(K_A K_A'/(2 ridge) + diag(1/(2 w))),   with K_A (1 - e e'/|A|) K_A' on the boundary, e the signs of x_A.

A step goes to where the quadratic function of this piece is largest among the a >= 0.

Where many coordinates are not 0, more than there are samples, this takes a few steps. Newton's method in x takes
hundreds: the samples whose hinge is flat have no part in its models, and end its steps soon.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, double, product, row_gram, some_columns
from condgrad.kernels import BOX
from condgrad.newton.folding import FoldedLoss, ScaledLoss
from condgrad.sets import L1Ball

STEPS = 30
"""Newton steps at most; five are usual."""
GAP = 1e-9
"""The gap between F and its dual, as a share of F, at which it ends."""
ACCURACY, ROUNDS = 1e-12, 1000
"""The gap of a quadratic program, as a share of what it falls by, and the rounds of its active-set method."""
BALANCE, INTERCEPT_STEPS = 1e-13, 60
"""How far sum y_i a_i may be from 0, as a share of sum a_i, and the intercepts that are tried for that."""
SHORTEST_STEP = 1e-6
"""The shortest step that a line search tries."""
ON_BOUNDARY = 1e-12
"""How far below the radius, as a share of it, the norm of a point may be that is on the boundary up to rounding."""


class DualPoint(NamedTuple):
    """A point of the dual problem."""

    a: Array
    x: Array
    """Where the linearised problem is least."""
    value: float
    """D(a)."""


class HingeDual:
    """The dual of a squared hinge of dense data on the l1 ball."""

    def __init__(self, loss: FoldedLoss, ridge: float, on: L1Ball) -> None:
        self.h, self.ridge, self.on = loss.h, ridge, on
        hinge: Any = loss.composite.h
        weights = hinge.weights * (loss.h.weight if isinstance(loss.h, ScaledLoss) else 1.0)
        self.all_rows, self.has_weight = double(loss.composite.K), weights > 0.0
        self.K = self.all_rows if self.has_weight.all() else self.all_rows[self.has_weight]
        self.y, self.w = hinge.y[self.has_weight], weights[self.has_weight]
        self.steps = 0
        """Newton steps so far."""

    def least(self, theta: Array) -> Array:
        """The x at which F is least, up to a small gap, or the best one when time is up or nothing is gained.

        It starts from the gradient theta of the loss at some point, or from 0 where D is larger.
        """
        here, intercept = self._at(np.zeros(self.y.shape[0])), 0.0
        start = self._at(np.maximum(0.0, -self.y * theta[self.has_weight]))
        if start.value > here.value:
            here = start
        best, least = here.x, np.inf
        while True:
            value = self.h.at_best_intercept(product(self.all_rows, here.x)).value + self.ridge * float(here.x @ here.x)
            if value < least:
                best, least = here.x, value
            if least - here.value <= GAP * least or self.steps == STEPS or deadline.passed():
                return best
            self.steps += 1
            end, intercept = self._model_end(here, intercept)
            there = self._search(here, end)
            if not there.value > here.value:
                return best
            here = there

    def _at(self, a: Array) -> DualPoint:
        c = -(self.K.T @ (self.y * a))
        x = self.on.project(c / (-2.0 * self.ridge))
        value = float(np.sum(a - 0.25 * a * a / self.w) + c @ x + self.ridge * (x @ x))
        return DualPoint(a, x, value)

    def _search(self, here: DualPoint, end: Array) -> DualPoint:
        """The first of some points on the way to an end where D is larger, or the last of them."""
        step, there = 1.0, self._at(end)
        while there.value < here.value and step > SHORTEST_STEP and not deadline.passed():
            step *= 0.5
            there = self._at(here.a + step * (end - here.a))
        return there

    def _model_end(self, here: DualPoint, intercept: float) -> tuple[Array, float]:
        """Where the quadratic function that D is near a point is largest, and the intercept there."""
        H = self.y[:, None] * self._gram(here.x) * self.y[None, :] / (2.0 * self.ridge)
        H[np.diag_indices_from(H)] += 0.5 / self.w
        rise = 1.0 - self.y * (self.K @ here.x) - 0.5 * here.a / self.w + H @ here.a
        if not self.h.has_intercept:
            return self._largest(H, rise, here.a), 0.0
        return self._balanced(H, rise, here.a, intercept)

    def _gram(self, x: Array) -> Array:
        """K_A K_A' or, on the boundary of the ball, K_A (1 - e e'/|A|) K_A'."""
        support = np.flatnonzero(x)
        if support.shape[0] == 0:  # the inside, where all coordinates are free
            return row_gram(self.K)
        K = some_columns(self.K, support)
        gram = K @ K.T
        if self.on.norm(x) >= self.on.radius * (1.0 - ON_BOUNDARY):
            along = K @ np.sign(x[support])
            gram -= np.outer(along, along / support.shape[0])
        return gram

    def _largest(self, H: Array, rise: Array, start: Array) -> Array:
        """The a >= 0 at which <rise, a> - <a, H a>/2 is largest."""
        from condgrad.kernels.face_qp import minimise
        from condgrad.kernels.free_block import of_matrix

        # <a, H a>/2 <= <rise, a> there, and H is at least its diagonal part 1/(2 w)
        upper = np.sqrt(16.0 * self.w * np.sum(self.w * rise * rise))
        size, stop = float(upper.max()), np.zeros(1, np.bool_)
        start = np.minimum(start, upper)
        q = H @ start - rise
        return minimise(of_matrix(H), q, start, BOX, size, np.zeros_like(upper), upper, 0.0, ACCURACY, ROUNDS, stop)[0]

    def _balanced(self, H: Array, rise: Array, a: Array, b: float) -> tuple[Array, float]:
        """The same with sum y_i a_i = 0, and the intercept b that is its multiplier.

        The sum falls as b grows, by a piecewise linear function: Newton's method, with bisection where it leaves the
        bracket.
        """
        low, high = -np.inf, np.inf
        for _ in range(INTERCEPT_STEPS):
            a = self._largest(H, rise - b * self.y, a)
            excess, free = float(self.y @ a), np.flatnonzero(a)
            if abs(excess) <= BALANCE * float(a.sum()) or deadline.passed():
                break
            if excess > 0.0:
                low = b
            else:
                high = b
            y = self.y[free]
            b += excess / float(y @ np.linalg.solve(H[np.ix_(free, free)], y))
            if not low < b < high:
                b = 0.5 * (low + high)
        return a, b
