"""The problem in some of the coordinates: models of F there, line searches, and what the next coordinates should be.

`FaceNewton` goes from one working set to the next; here is what it does in one of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    Space,
    all_finite,
    at_least,
    copied,
    dot,
    double,
    is_dense,
    largest_size,
    namespace,
    precision,
    some_columns,
    steepest_indices,
    total,
)
from condgrad.certificate import Iterate, Terms, rounding_noise
from condgrad.kernels.thresholds import (
    FIRST_SIZE,
    FLAT,
    HIDDEN_FALL,
    NARROW,
    NEAR_MULTIPLIER,
    NEWTON_STEPS,
    SHORTEST_STEP,
)
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.methods.one_pass import SolvedLinearisation
from condgrad.newton.face_models import FaceModels, NormBall
from condgrad.problem import Set, Smooth
from condgrad.rounding import ON_BOUNDARY
from condgrad.search.backtracking import ARMIJO_FRACTION, backtrack
from condgrad.sets import Box, Simplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import AtBestIntercept
from condgrad.smooth.folding import FoldedLoss

MOST_OF_ALL = 1.5
"""The share of a working set in all coordinates, as its inverse, from which on it is all of them."""
GRADIENT_SHRINK, SHORTEST_GRADIENT_STEP = 0.0625, 1e-48
"""The factor between the lengths of gradient steps that are tried, and the shortest of them."""


def pulls(point: ObjectivePoint) -> Array:
    """How fast F falls as a coordinate leaves 0, to the side that it may: a pull below 0 holds it there."""
    gradient = point.gradient
    return -gradient if point.g.on.nonnegative else namespace(gradient).abs(gradient)


def not_zero_or_steep(point: ObjectivePoint, size: int) -> Array:
    """Where x is not 0 or its pull is largest, in increasing order: about so many."""
    if type(point.x) is np.ndarray:
        from condgrad.kernels import working_set

        return working_set.not_zero_or_steep(point.x, pulls(point), size)
    return namespace(point.x).sort(steepest_indices(pulls(point), point.x, size))


def chosen_columns(loss: FoldedLoss, chosen: Array | None) -> tuple[Matrix, Array | None]:
    """Some columns of K, or all, in float64; about their means, which are told, where an intercept allows it.

    Those of a sparse K stay so unless most of their entries are stored, and are centred where most of a column's are.
    """
    K = loss.composite.K
    if not is_dense(K):
        from condgrad.kernels.matrix import MOSTLY_STORED

        K = sparse_columns(loss, chosen)
        if K.nnz <= MOSTLY_STORED * K.shape[0] * K.shape[1]:
            return centred_where_stored(K) if loss.h.has_intercept else (K, None)
        K = K.toarray()
    elif chosen is not None:
        columns = loss.composite.columns
        K = some_columns(K if columns is None else columns.T, chosen)
    K = double(K)
    if not loss.h.has_intercept:
        return K, None
    means = namespace(K).mean(K, axis=0)
    return K - means[None, :], means


def sparse_columns(loss: FoldedLoss, chosen: Array | None) -> Matrix:
    """Some columns of a sparse K, or all, in float64 and stored by rows."""
    K = loss.composite.K
    if chosen is None:
        return loss.composite.by_row.astype(np.float64, copy=False)
    from condgrad.kernels import sparse_gram

    if K.format == "csc":
        arrays = sparse_gram.columns_by_row(K.indptr, K.indices, K.data, chosen, K.shape[0])
    else:
        K = loss.composite.by_row
        place = np.full(K.shape[1], -1, K.indices.dtype)
        place[chosen] = np.arange(len(chosen), dtype=K.indices.dtype)
        arrays = sparse_gram.columns(K.indptr, K.indices, K.data, place)
    indptr, indices, data = arrays
    return scipy.sparse.csr_array((data, indices, indptr), shape=(K.shape[0], len(chosen)))


def centred_where_stored(K: Matrix) -> tuple[Matrix, Array | None]:
    """A sparse K stored by rows, its columns that are `NEARLY_FULL` less their means; these, unless all are 0."""
    from condgrad.kernels.matrix import NEARLY_FULL

    m, k = K.shape
    is_centred = np.bincount(K.indices, minlength=k) > NEARLY_FULL * m
    if not is_centred.any():
        return K, None
    means = np.where(is_centred, np.bincount(K.indices, weights=K.data, minlength=k) / m, 0.0)
    row = scipy.sparse.csr_array(means[None, :])
    return K - scipy.sparse.csr_array(np.ones((m, 1))) @ row, means


def pulled_in(on: Set, x: Array) -> Array:
    """A point that rounding took out of the set, inside again.

    By a factor where there is a sum to keep: a projection would move all coordinates by the same length, which may be
    much for a small one.
    """
    if isinstance(on, Box):
        return on.project(x)
    if isinstance(on, Simplex):
        x = at_least(0.0, x)
        return (on.mass / total(x)) * x
    norm = total(namespace(x).abs(x))
    for units in (0.0, 1.0, 2.0):
        inside = (on.scale / norm * (1.0 - units * precision(x))) * x
        if on.violation(inside) == 0.0:
            return inside
    return on.project(x)


def shifted(loss: AtBestIntercept, shift: float) -> AtBestIntercept:
    """The same loss where the shift is taken off every entry of K x, and added to the intercept."""
    return loss if shift == 0.0 else loss._replace(intercept=loss.intercept + shift)


class LinePoint(NamedTuple):
    """F at a point of a line search."""

    x: Array
    u: Array
    """K x."""
    loss: AtBestIntercept
    value: float
    """F(x)."""


class WorkingSet:
    """The problem in some of the coordinates, the others being 0, and its best point so far."""

    def __init__(
        self,
        loss: FoldedLoss,
        g: Ridge | Zero,
        chosen: Array | None,
        multiplier: float | None,
        *,
        inside: bool = False,
    ) -> None:
        self.h, self.loss, self.g, self.chosen = loss.h, loss, g, chosen
        self.on: Any = g.on
        self.ridge = g.weight
        self.tilt = loss.tilt if loss.tilt is None or chosen is None else loss.tilt[chosen]
        self.K, self.means = chosen_columns(loss, chosen)
        self.models = FaceModels(loss.h, self.K, self.on, self.ridge)
        self.multiplier = multiplier
        """Of the sum or the norm, in the last model; None where there was none."""
        self.inside = inside
        """Whether the least points of the models are looked for inside the l1 ball alone."""
        self.constraint_is_slack = inside
        """Whether the norm of the last model's least point is below the size of a `NormBall`."""
        self.start_slope: Array | None = None
        """The gradient of F where it began, if the full problem knows it to as many digits as these columns give."""
        self.linearised: SolvedLinearisation | None = None
        """The linearised problem in these coordinates, at the point so far, once it is solved."""

    def begin(self, point: ObjectivePoint) -> None:
        """Be at a point of the full problem."""
        x, best = double(point.x if self.chosen is None else point.x[self.chosen]), self.loss.at_best(point.smooth)
        shift = self._shift(x)
        if shift == 0.0:
            self.here = self._with_value(x, self.loss.loss_at(point.smooth).z, best)
        else:  # K x of large columns has fewer digits than centred ones give, and no step from it would seem to fall
            self.here = self._at(x, self.K @ x, near=best.intercept + shift)
        self.start_value = self.here.value
        self.start_slope = None
        if self.has_columns_of_data:
            c = point.smooth_gradient
            self.start_slope = self._slope(c if self.chosen is None else c[self.chosen])
        self.steps, self.has_moved, self.linearised = 0, False, None

    def _shift(self, x: Array) -> float:
        """What centred columns take off every entry of K x, which the intercept adds again."""
        return 0.0 if self.means is None else dot(self.means, x)

    def _at(self, x: Array, u: Array, *, near: float) -> LinePoint:
        return self._with_value(x, u, self.h.at_best_intercept(u, near=near))

    def _with_value(self, x: Array, u: Array, loss: AtBestIntercept) -> LinePoint:
        value = loss.value + self.ridge * dot(x, x)
        return LinePoint(x, u, loss, value if self.tilt is None else value + dot(self.tilt, x))

    @property
    def is_whole(self) -> bool:
        return self.chosen is None

    @property
    def stays_whole(self) -> bool:
        """Whether the next working set is all coordinates again, whatever `next_size` would say."""
        return self.chosen is None and self.K.shape[1] <= MOST_OF_ALL * FIRST_SIZE

    @property
    def has_columns_of_data(self) -> bool:
        """Whether its columns are those of the data as they are: not centred, nor in another precision."""
        return self.means is None and bool(self.K.dtype == self.loss.composite.K.dtype)

    @property
    def has_fallen(self) -> bool:
        return self.here.value < self.start_value

    def solve(self, enough: float) -> None:
        """Newton steps until the gap in these coordinates is small, nothing is gained any more, or time is up."""
        slope, gap = self.start_slope, math.inf
        while self.steps < NEWTON_STEPS and not deadline.passed():
            before = gap
            if slope is None:
                slope, gap = self._slope_and_gap()
                if gap <= enough or deadline.passed():
                    return
            value = self.here.value
            self.steps += 1
            if not (self._newton_step(slope) or (not self.inside and self._gradient_step(slope))):
                return
            # where F has no digits left, the gap may still have some
            if not self.here.value < value and gap > 0.5 * before:
                return
            slope = None

    def _slope_and_gap(self) -> tuple[Array, float]:
        """The gradient of F, up to a constant on a simplex, and the gap in these coordinates."""
        here = self.here
        c = self.models.Kt @ here.loss.theta
        if self.tilt is not None:
            c = c + self.tilt
        self.linearised = SolvedLinearisation(c, self.g.argmin(c))
        lower = here.loss.value - dot(here.loss.theta, here.u) + self.linearised.answer.bound
        return self._slope(c), here.value - lower

    def _slope(self, c: Array) -> Array:
        """The gradient of F, up to a constant on a simplex, from that of f."""
        slope = c + (2.0 * self.ridge) * self.here.x
        if isinstance(self.on, Simplex):  # what all coordinates share moves nothing, and would hide what they do not
            slope = slope - dot(slope, self.here.x) / self.on.mass
        return slope

    def _newton_step(self, slope: Array) -> bool:
        """A step towards the least point of the model of F at x; whether F fell, up to rounding."""
        here = self.here
        if self.inside:
            least = self.models.least_inside(here.x, here.u, here.loss.intercept, slope)
        else:
            least = self.models.least(here.x, here.u, here.loss.intercept, slope, self.multiplier)
        self.constraint_is_slack = least is not None and least.constraint_is_slack
        if least is None or deadline.passed() or not all_finite(least.x):
            return False
        if least.multiplier is not None:
            self.multiplier = least.multiplier
        return self._search(least.x, slope)

    def _search(self, end: Array, slope: Array) -> bool:
        """Step towards a point of the set, to where F is about least on the way; whether it fell, up to rounding.

        A step is taken if F falls by a share of what the slope promises and the slope there is small; else the secant
        of the slopes at the ends of a bracket, or its middle where that closes it too slowly, gives the next.
        """
        here, d = self.here, end - self.here.x
        fall = self._first_order_fall(end, d, slope)
        if not fall > 0.0:
            return False
        noise, step, width = self._noise, 1.0, math.inf
        low, low_slope, high, high_slope = 0.0, -fall, 1.0, math.inf
        image = self.K @ end
        move = image - here.u
        tilt = 0.0 if self.tilt is None else dot(self.tilt, d)
        trial = self._at(end, image, near=here.loss.intercept)
        while True:
            trial_slope = dot(trial.loss.theta, move) + tilt + 2.0 * self.ridge * dot(trial.x, d)
            falls = trial.value <= here.value - ARMIJO_FRACTION * step * fall + noise
            is_flat = trial_slope <= FLAT * fall and (step == 1.0 or trial_slope >= -FLAT * fall)
            if falls and (is_flat or fall <= noise or step - low <= NARROW * step):
                break
            if falls and trial_slope < 0.0:
                low, low_slope = step, trial_slope
            else:
                high, high_slope = step, trial_slope
            if high < SHORTEST_STEP or deadline.passed():
                return False
            fraction = low_slope / (low_slope - high_slope) if high_slope > 0.0 else 0.5
            if high - low > 0.5 * width:
                fraction = 0.5
            width = high - low
            # where the bracket has closed on a kink, its lower end is as good as any point
            step = low + min(max(fraction, 0.1), 0.9) * width if width > NARROW * high or low == 0.0 else low
            trial = self._at(here.x + step * d, here.u + step * move, near=here.loss.intercept)
        if step < 1.0:  # what the search added up is not K x to the last digit
            trial = self._at(trial.x, self.K @ trial.x, near=trial.loss.intercept)
            if not trial.value < here.value + noise:
                return False
        self.here, self.has_moved, self.linearised = trial, True, None
        return True

    def _first_order_fall(self, end: Array, d: Array, slope: Array) -> float:
        """What F falls by along d, to first order.

        Between two points of one norm, the largest, the multiplier times the change of the norm, which is 0, is
        taken out term by term: its rounding would hide a small fall.
        """
        x, on = self.here.x, self.on
        fall, level = -dot(slope, d), -dot(slope, x)
        if not isinstance(on, NormBall) or fall > HIDDEN_FALL * level:
            return fall
        xp = namespace(d)
        if min(total(xp.abs(end)), total(xp.abs(x))) < on.scale * (1.0 - ON_BOUNDARY):
            return fall
        growth = xp.where(end * x >= 0.0, xp.sign(end + x) * d, xp.abs(end) - xp.abs(x))
        return -total(slope * d + (level / on.scale) * growth)

    @property
    def _noise(self) -> float:
        """What rounding does to F."""
        here, size = self.here, namespace(self.here.u).abs
        return rounding_noise(0.5 * precision(here.u), here.value, dot(size(here.loss.theta), size(here.u)))

    def _gradient_step(self, slope: Array) -> bool:
        """A projected gradient step, which leads on from everywhere but the solution."""
        steepest = largest_size(slope)
        if steepest == 0.0 or not math.isfinite(steepest):
            return False
        direction = slope / steepest  # first: the size of the set over a slope may be no float

        def attempt(length: float) -> bool | None:
            value = self.here.value
            end = self.on.project(self.here.x - (length * self.on.scale) * direction)
            return True if self._search(end, slope) and self.here.value < value else None

        return backtrack(attempt, shrink=GRADIENT_SHRINK, shortest=SHORTEST_GRADIENT_STEP) is not None

    def next_size(self, point: ObjectivePoint, *, slow: bool) -> int:
        """How many coordinates the next working set should have.

        Twice as many as are not 0, and twice as many as here where these brought little; but no more than are not 0 or
        have pulls near the multiplier.
        """
        size, xp = self.K.shape[1], namespace(point.x)
        level = math.inf if self.multiplier is None else NEAR_MULTIPLIER * self.multiplier
        if type(point.x) is np.ndarray:
            from condgrad.kernels.working_set import support_and_steep

            support, near = support_and_steep(point.x, pulls(point), level)
        else:
            support = int(xp.count_nonzero(point.x))
            near = int(xp.count_nonzero((point.x != 0.0) | (pulls(point) >= level)))
        most = max(2 * size if slow else size, 2 * support)
        if self.multiplier is None or not isinstance(self.on, NormBall):
            return most
        return min(most, max(near, support + FIRST_SIZE // 2, FIRST_SIZE))

    def suffices_at(self, point: ObjectivePoint) -> bool:
        """Whether no other coordinate violates the optimality conditions of a `NormBall`, by the last multiplier."""
        if self.multiplier is None or not isinstance(self.on, NormBall):
            return False
        if type(point.x) is np.ndarray:
            from condgrad.kernels.working_set import steepest_of_others

            return steepest_of_others(pulls(point), self.chosen) <= self.multiplier
        others = copied(pulls(point))
        others[self.chosen] = 0.0
        return float(namespace(others).max(others)) <= self.multiplier

    def is_likely_slack(self, n: int) -> bool:
        """Whether the ball would hold the least point of all n coordinates too.

        A least point in k of many coordinates has a norm of about sqrt(k) times its length, which falls as k grows.
        """
        expected_norm = self.on.norm(self.here.x) * math.sqrt(n / self.K.shape[1])
        return bool(self.constraint_is_slack and expected_norm < self.on.scale)

    def point(self, f: Smooth, space: Space, tally: Tally) -> ObjectivePoint:
        """The full problem at the point so far."""
        x, here = self._embedded(space), self.here
        if self.on.violation(x) > 0.0:
            x = pulled_in(self.on, x)
        elif x.dtype == here.x.dtype:
            shift = self._shift(here.x)
            u = here.u if shift == 0.0 else here.u + shift
            evaluation = self.loss.evaluation(f, x, u, shifted(here.loss, -shift))
            linearised = self.linearised if self.is_whole and self.has_columns_of_data else None
            # centred columns give K x by way of their means, which costs it digits
            afresh = self.means is None
            return ObjectivePoint(f, self.g, x, tally, evaluation, afresh=afresh, linearised=linearised)
        return ObjectivePoint(f, self.g, x, tally)

    def _embedded(self, space: Space) -> Array:
        """The point in all coordinates, in the precision of the variable."""
        x = self.here.x
        if x.dtype != space.dtype:
            x = namespace(x).astype(x, space.dtype)
        if self.chosen is None:
            return x
        whole = space.full(0.0)
        whole[self.chosen] = x
        return whole

    def uncertified(self, iterate: Iterate, tally: Tally, space: Space) -> Iterate:
        """The point so far, when there is no time for a bound of its own."""
        x, here = self._embedded(space), self.here
        if self.on.violation(x) > 0.0:
            x = pulled_in(self.on, x)
        value = here.value + self._noise * (precision(x) / precision(here.x))
        if not value < iterate.value:
            return iterate
        simple = self.ridge * dot(here.x, here.x)
        return Iterate(x, Terms(value - simple, simple), -math.inf, None, 1.0, tally.effort, iterate.noise)
