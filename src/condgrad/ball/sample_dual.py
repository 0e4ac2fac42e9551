"""Newton's method on the dual of least squares or a squared hinge over a `NormBall`, in as many
variables as samples.

    min h(Kx + b) + ridge |x|^2   over   |x|_1 <= radius, and x >= 0 on the solid simplex,

or with l1 |x|_1 in F instead of the radius, has the dual

    max D(theta) = min <c, x> + ridge |x|^2 - sum_i y_i theta_i + theta_i^2/(2 v_i),   c = K' theta,

with sum theta_i = 0 where there is an intercept b. For least squares v are the weights of the
samples; for the squared hinge v are twice the weights, and y_i theta_i <= 0. The minimum is at
x(theta), the projection of -c/(2 ridge), or that less l1/(2 ridge). D is piecewise quadratic: with
A the coordinates of x(theta) that are not 0, or all of them where x = 0, its second derivative is

    -(K_A K_A'/(2 ridge) + diag(1/v)),   with K_A (1 - e e'/|A|) K_A' on the boundary of the ball, e the signs of x_A.

On a ball of groups it is K J K', J the derivative of its projection.

A step goes to where the quadratic function of this piece is largest.

Where many coordinates are not 0, more than there are samples, this takes about five steps. Newton's
method in x takes hundreds for a hinge: the samples whose hinge is flat have no part in its models,
and end its steps soon. For least squares it takes one, but of a nearly singular model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    all_finite,
    dot,
    double,
    is_dense,
    like,
    product,
    row_gram,
    solve_positive,
    some_columns,
    total,
)
from condgrad.ball.columns import back_inside, for_compiled_code
from condgrad.ball.compiled import BOX, Region
from condgrad.ball.models import sparse_gram
from condgrad.ball.options import OPTIONS
from condgrad.methods.certified_point import ObjectivePoint
from condgrad.rounding import ON_BOUNDARY
from condgrad.sets import GroupBall
from condgrad.smooth import SquaredHinge
from condgrad.smooth.folding import Folded


def least_by_dual(loss: Folded, point: ObjectivePoint) -> ObjectivePoint:
    """The least point of all, about."""
    on: Any = point.g.on
    dual = SampleDual(loss, point.g)
    x = like(dual.least(loss.at_best(point.smooth).theta), point.x)
    point.tally.inner_iterations += dual.steps
    return point.at(x if on.violation(x) == 0.0 else back_inside(on, x))


class SampleDualPoint(NamedTuple):
    """A point of the dual problem."""

    theta: Array
    x: Array
    """Where the linearised problem is least."""
    value: float
    """D(theta)."""


class SampleDual:
    """The dual of a loss that is quadratic where it is not flat."""

    def __init__(self, loss: Folded, g: Any) -> None:
        self.h = loss.h
        self.g = g
        self.ridge = g.weight
        self.is_hinge = isinstance(loss.composite, SquaredHinge)
        h: Any = loss.composite.h
        v = h.weights * loss.weight * (2.0 if self.is_hinge else 1.0)
        self.all_rows: Matrix = loss.composite.K
        self.has_weight = v > 0.0
        self.K = double_rows(self.all_rows, None if self.has_weight.all() else self.has_weight)
        self.y = h.y[self.has_weight]
        self.v = v[self.has_weight]
        self.steps = 0
        """Newton steps so far."""

    def least(self, theta: Array) -> Array:
        """The x at which F is least, up to a small gap, or the best one when time is up or nothing
        is gained.

        It starts from the gradient theta of the loss at some point, or from 0 where D is larger.
        Where K K' or x(theta) leave the floats, what is found so far has to do.
        """
        here = self._at(np.zeros(self.y.shape[0]))
        start = self._at(theta[self.has_weight])
        if start.value > here.value:
            here = start
        best = here.x
        least = np.inf
        intercept = 0.0
        short = 0
        while True:
            value = self.h.at_best_intercept(product(self.all_rows, here.x)).value + self.g.value(
                here.x
            )
            if value < least:
                best = here.x
                least = value
            if (
                least - here.value <= OPTIONS.dual_gap * least
                or self.steps == OPTIONS.dual_steps
                or deadline.passed()
            ):
                return best
            H = self._hessian(here)
            if not all_finite(H):
                return best
            self.steps += 1
            end, intercept = self._model_end(here, H, intercept)
            there, step = self._search(here, end)
            short += step < OPTIONS.short_step
            if not there.value > here.value or short > 2:
                return best
            here = there

    def _at(self, theta: Array) -> SampleDualPoint:
        c = self.K.T @ theta
        if not all_finite(c / (2.0 * self.ridge)):
            return SampleDualPoint(theta, np.zeros_like(c), -np.inf)
        least = self.g.argmin(c)
        loss = total(theta * (self.y + 0.5 * theta / self.v))
        return SampleDualPoint(theta, least.point, least.bound - loss)

    def _search(self, here: SampleDualPoint, end: Array) -> tuple[SampleDualPoint, float]:
        """The first of some points on the way to an end where D is larger, or the last of them, and
        the step there.
        """
        step = 1.0
        there = self._at(end)
        while there.value < here.value and step > OPTIONS.narrow and not deadline.passed():
            step *= 0.5
            there = self._at(here.theta + step * (end - here.theta))
        return there, step

    def _hessian(self, here: SampleDualPoint) -> Array:
        """Less the second derivative of D on the piece of x = x(theta)."""
        has_groups = isinstance(self.g.on, GroupBall)
        gram = self._gram_of_groups(here) if has_groups else self._gram(here.x)
        H = gram / (2.0 * self.ridge)
        H[np.diag_indices_from(H)] += 1.0 / self.v
        return H

    def _model_end(self, here: SampleDualPoint, H: Array, intercept: float) -> tuple[Array, float]:
        """Where the quadratic function <rise, theta> - <theta, H theta>/2 of this piece is largest,
        and the intercept.

        The intercept is the multiplier of sum theta_i = 0.
        """
        rise = self.K @ here.x - self.y - here.theta / self.v + H @ here.theta
        if self.is_hinge:
            return self._hinge_end(H, rise, here.theta, intercept)
        largest = float(self.v.max())  # then square roots do not depend on the unit of F
        solved = largest * solve_positive(
            largest * H, np.column_stack([rise, np.ones_like(rise)]), ridge=0.0
        )
        if self.h.has_intercept:
            intercept = float(solved[:, 0].sum() / solved[:, 1].sum())
        return solved[:, 0] - intercept * solved[:, 1], intercept

    def _gram(self, x: Array) -> Array:
        """K_A K_A' or, on the boundary of the ball, K_A (1 - e e'/|A|) K_A'."""
        support = np.flatnonzero(x)
        is_null = support.shape[0] == 0
        if is_dense(self.K):
            K = self.K if is_null else some_columns(self.K, support)
            gram = row_gram(K)
        else:
            K = self.K if is_null else self.K[:, support]
            gram, _ = sparse_gram(for_compiled_code(K.T), np.ones(K.shape[1]))
        if (
            not is_null
            and all_finite(gram)
            and float(np.abs(x).sum()) >= self.g.on.scale * (1.0 - ON_BOUNDARY)
        ):
            along = K @ np.sign(x[support])
            gram -= np.outer(along, along / support.shape[0])
        return gram

    def _gram_of_groups(self, here: SampleDualPoint) -> Array:
        """K J K', J the derivative of the projection onto a ball of groups."""
        on: Any = self.g.on
        v = self.K.T @ here.theta / (-2.0 * self.ridge)
        face = on.face(v)
        rows = self.K.T[face.active]
        gram: Array = rows.T @ on.derivative(v, face, rows)
        if face.normal is not None:
            along = face.normal @ rows
            gram -= np.outer(along, along / dot(face.normal, face.normal))
        return gram

    def _hinge_end(self, H: Array, rise: Array, theta: Array, b: float) -> tuple[Array, float]:
        """The same with y_i theta_i <= 0, in a = -y theta >= 0.

        With an intercept, sum theta_i falls as b grows, by a piecewise linear function: Newton's
        method, with bisection where it leaves the bracket.
        """
        H = self.y[:, None] * H * self.y[None, :]
        a = np.maximum(0.0, -self.y * theta)
        low = -np.inf
        high = np.inf
        for _ in range(OPTIONS.newton_steps):
            a = self._largest(H, -self.y * (rise - b), a)
            excess = -float(self.y @ a)
            free = np.flatnonzero(a)
            if (
                not self.h.has_intercept
                or abs(excess) <= OPTIONS.exact * float(a.sum())
                or deadline.passed()
            ):
                break
            if excess > 0.0:
                low = b
            else:
                high = b
            y = self.y[free]
            try:
                b += excess / float(y @ np.linalg.solve(H[np.ix_(free, free)], y))
            except (
                np.linalg.LinAlgError
            ):  # but for rounding it is not: what is found so far has to do
                break
            if not low < b < high:
                b = 0.5 * (low + high)
        return -self.y * a, b

    def _largest(self, H: Array, rise: Array, start: Array) -> Array:
        """The a >= 0 at which <rise, a> - <a, H a>/2 is largest."""
        from condgrad.ball.compiled.face_qp import minimise
        from condgrad.ball.compiled.free_block import ModelHessian

        # <a, H a>/2 <= <rise, a> there, and H is at least its diagonal part 1/v
        largest = self.v.max()  # the square of which may be no float
        relative = self.v / largest
        upper = 2.0 * largest * np.sqrt(relative * np.sum(relative * rise * rise))
        size = float(upper.max())
        stop = np.zeros(1, np.bool_)
        start = np.minimum(start, upper)
        q = H @ start - rise
        box = Region(BOX, size, np.zeros_like(upper), upper)
        return minimise(ModelHessian(H), q, start, box, 0.0, OPTIONS.exact, OPTIONS.rounds, stop)[0]


def double_rows(K: Matrix, rows: Array | None) -> Matrix:
    """Some rows of K, or all, in float64; where it is sparse, stored by columns."""
    if is_dense(K):
        return double(K if rows is None else K[rows])
    K = K if rows is None else K.tocsr()[rows]
    return K.tocsc().astype(np.float64, copy=False)
