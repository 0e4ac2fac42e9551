"""The problem in some of the coordinates, for data at hand: models of F there and line searches.

All of it is on the host and in float64, whatever the data are: the columns are few.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    at_least,
    dot,
    for_kernels,
    host,
    is_dense,
    is_torch,
    like,
    precision,
    some_columns,
    total,
)
from condgrad.ball.models import (
    Curvature,
    Model,
    NormBall,
    curvature_added,
    curvature_of,
    in_entries,
    reach_at,
)
from condgrad.ball.options import OPTIONS
from condgrad.certificate import Iterate, Terms, rounding_noise
from condgrad.methods.certified_point import ObjectivePoint
from condgrad.problem import Set
from condgrad.rounding import ON_BOUNDARY
from condgrad.search.backtracking import ARMIJO_FRACTION
from condgrad.sets import Box, GroupBall, Simplex
from condgrad.sets.penalised import Penalised
from condgrad.smooth.composite import AtBestIntercept, with_shift
from condgrad.smooth.folding import Folded


def pulls_at(point: ObjectivePoint) -> Array:
    """How fast F falls as a coordinate leaves 0, to the side that it may, on the host; or as its
    group does.

    A pull below 0 holds it there.
    """
    gradient = host(point.gradient)
    if isinstance(point.g.on, GroupBall):
        by_row = point.g.on.pulls(gradient)[point.g.on.codes]
        return np.broadcast_to(by_row.reshape((-1,) + (1,) * (gradient.ndim - 1)), gradient.shape)
    return -gradient if point.g.on.nonnegative else np.abs(gradient)


def back_inside(on: Set, x: Array) -> Array:
    """A point that rounding took out of the set, inside again.

    By a factor where there is a sum to keep: a projection would move all coordinates by the same
    length, which may be much for a small one.
    """
    if isinstance(on, Box | Penalised):
        return on.project(x)
    if isinstance(on, GroupBall) and on.positive:
        x = at_least(0.0, x)
    if isinstance(on, Simplex):
        x = at_least(0.0, x)
        return (on.mass / total(x)) * x
    norm = on.norm(x)  # type: ignore[attr-defined]
    for count in (0.0, 1.0, 2.0):
        inside = (on.scale / norm * (1.0 - count * precision(x))) * x
        if on.violation(inside) == 0.0:
            return inside
    return on.project(x)


def chosen_columns(loss: Folded, chosen: Array | None) -> tuple[Matrix, Array | None]:
    """Some columns of K, or all; about their means, which are told, where there is an intercept.

    Those of a sparse K stay so unless most of their entries are stored; of them, those are centred
    that are nearly full.
    """
    K: Any = loss.composite.K
    if is_dense(K):
        if chosen is not None:
            K = some_columns(K, chosen)
        return centred(host(K)) if loss.h.has_intercept else (host(K), None)
    if chosen is None:
        K = loss.composite.by_row
    elif K.shape[1] > K.shape[0]:  # few of many columns
        K = loss.composite.by_column[:, chosen]
    else:
        K = K[:, chosen]
    if K.nnz > OPTIONS.mostly_stored * K.shape[0] * K.shape[1]:
        return centred(host(K.toarray())) if loss.h.has_intercept else (host(K.toarray()), None)
    K = for_compiled_code(K)
    return centred_where_stored(K) if loss.h.has_intercept else (K, None)


def for_compiled_code(K: Matrix) -> Matrix:
    """A sparse K by rows, in float64 and with short indices: compiled code is made for these."""
    K = scipy.sparse.csr_array(K)
    entries = for_kernels(host(K.data))
    indices = for_kernels(K.indices.astype(np.int32, copy=False))
    starts = for_kernels(K.indptr.astype(np.int32, copy=False))
    return scipy.sparse.csr_array((entries, indices, starts), shape=K.shape)


def centred(K: Array) -> tuple[Array, Array]:
    """Dense columns less their means, and these."""
    means = K.mean(axis=0)
    return K - means, means


def centred_where_stored(K: Matrix) -> tuple[Matrix, Array | None]:
    """A sparse K, its columns that are nearly full less their means; these, unless all are 0."""
    m, k = K.shape
    is_centred = np.bincount(K.indices, minlength=k) > OPTIONS.nearly_full * m
    if not is_centred.any():
        return K, None
    sums = np.bincount(K.indices, weights=K.data, minlength=k)
    means = np.where(is_centred, sums / m, 0.0)
    row = scipy.sparse.csr_array(means[None, :])
    return for_compiled_code(K - scipy.sparse.csr_array(np.ones((m, 1))) @ row), means


def growth_of_sizes(on: Set, x: Array, end: Array) -> Array:
    """|end_j| - |x_j|, from the difference itself where the sign stays: it has more digits.

    On a ball of groups, what each entry has of |end_g| - |x_g| = <end_g + x_g, end_g - x_g> / sum.
    """
    if isinstance(on, GroupBall):
        sums = on.group_norms(x) + on.group_norms(end)
        return (end + x) * (end - x) / np.where(sums > 0.0, sums, 1.0)[on.codes]
    return np.where(end * x >= 0.0, np.sign(end + x) * (end - x), np.abs(end) - np.abs(x))


class At(NamedTuple):
    """F at a point of the working set."""

    x: Array
    u: Array
    """K x."""
    loss: AtBestIntercept
    value: float
    """F(x)."""


class Plane(NamedTuple):
    """A tangent plane of f, by its height at 0."""

    offset: float


class Columns:
    """The problem in some of the coordinates, the others being 0, and its best point so far."""

    def __init__(
        self,
        loss: Folded,
        chosen: Array | None,
        *,
        curvature: Curvature | None = None,
        has_groups: bool = False,
    ) -> None:
        self.loss = loss
        self.h = loss.on_host
        self.chosen = chosen
        self.tilt = None if loss.tilt is None else host(loss.tilt)
        if self.tilt is not None and chosen is not None:
            self.tilt = self.tilt[chosen]
        self.K, self.means = chosen_columns(loss, chosen)
        self.Kt = self.K.T
        self.curvature = curvature or curvature_of(
            self.K, free=loss.free, is_constant=self.h.quadratic, has_groups=has_groups
        )
        self.multiplier: float | None = None
        """Of the sum or the norm, in the last model."""
        self.is_slack = False
        """Whether the norm of the last model's least point is below the size of a ball."""
        self.here: Any = None
        """F at the best point so far: an `At`."""
        self.start: Any = None
        """The full problem where this one began: an `ObjectivePoint`."""
        self.made: Array = None
        """The point of the full problem that this one has led to."""

    @property
    def size(self) -> int:
        return int(self.K.shape[1])

    def begin(self, point: ObjectivePoint) -> None:
        """Be at a point of the full problem."""
        self.on: Any = in_entries(point.g.on, self.chosen, point.x.shape)
        self.ridge: float = point.g.weight  # type: ignore[attr-defined]
        self.l1 = self.on.l1 if isinstance(self.on, Penalised) else 0.0
        self.reach = reach_at(point)
        self.steps = 0
        self.has_moved = False
        if point.x is self.made:
            if self.start.g is not point.g:  # on a path by penalties F is another one
                self.here = self._with_value(self.here.x, self.here.u, self.here.loss)
            self.start = point
            self.start_value = self.here.value
            return
        self.start = point
        x = host(point.x if self.chosen is None else point.x[self.chosen])
        best = self.loss.at_best(point.smooth)
        shift = self._shift(x)
        if shift == 0.0:
            best = best._replace(theta=host(best.theta))
            self.here = self._with_value(x, host(self.loss.loss_at(point.smooth).z), best)
        else:  # K x of large columns has fewer digits than centred ones give: no step would fall
            self.here = self._at(x, self.K @ x, near=with_shift(best.intercept, shift))
        self.start_value = self.here.value

    def advance(self, ahead: Array) -> None:
        """Move by what the solutions for smaller sets let expect, if F is lower there."""
        move = host(ahead if self.chosen is None else ahead[self.chosen])
        x = self.here.x + move
        if self.on.violation(x) > 0.0:
            x = back_inside(self.on, np.maximum(x, 0.0) if self.on.nonnegative else x)
        there = self._at(x, self.K @ x, near=self.here.loss.intercept)
        if there.value < self.here.value:
            self.here = there
            self.has_moved = True

    def _shift(self, x: Array) -> float:
        """What centred columns take off every entry of K x, which the intercept adds again."""
        return 0.0 if self.means is None else dot(self.means, x)

    def _at(self, x: Array, u: Array, *, near: Any) -> At:
        return self._with_value(x, u, self.h.at_best_intercept(u, near=near))

    def _with_value(self, x: Array, u: Array, loss: AtBestIntercept) -> At:
        value = loss.value + self.ridge * dot(x, x)
        if self.l1 > 0.0:
            value += self.l1 * total(np.abs(x))
        return At(x, u, loss, value if self.tilt is None else value + dot(self.tilt, x))

    @property
    def has_fallen(self) -> bool:
        return self.here.value < self.start_value

    def solve(self, enough: float) -> None:
        """Newton steps until the gap in these coordinates is small, or nothing is gained.

        One step, where any gap will do.
        """
        gap = math.inf
        while self.steps < OPTIONS.newton_steps and not deadline.passed():
            before = gap
            if self.steps > 0 and enough == math.inf:
                return
            c = self._slope_of_loss()
            if self.steps > 0:
                gap = self._gap(c)
                if gap <= enough:
                    return
            value = self.here.value
            self.steps += 1
            if not self._newton_step(self._slope(c)):
                return
            # where F has no digits left, the gap may still have some
            if not self.here.value < value and gap > 0.5 * before:
                return

    def _slope_of_loss(self) -> Array:
        c = self.Kt @ self.here.loss.theta
        return c if self.tilt is None else c + self.tilt

    def _gap(self, c: Array) -> float:
        """What F may be above its least value in these coordinates."""
        here = self.here
        plane = Plane(here.loss.value - dot(here.loss.theta, here.u))
        g = self.start.g
        g = g if self.on is g.on else replace(g, on=self.on)
        bound = g.beside(self.start.f, plane, here.value).argmin(c).bound
        return here.value - (plane.offset + bound)

    def _slope(self, c: Array) -> Array:
        """The gradient of F, up to a constant on a simplex, from that of f."""
        slope = c + (2.0 * self.ridge) * self.here.x
        if isinstance(self.on, Simplex):  # what all share moves nothing, and would hide the rest
            slope = slope - dot(slope, self.here.x) / self.on.mass
        return slope

    def _newton_step(self, slope: Array) -> bool:
        """A step towards the least point of the model at x; whether F fell, up to rounding."""
        here = self.here
        added = curvature_added(self.ridge, slope, self.reach)
        if added is None or self.curvature is None:
            return False
        w = self.h.curvature(here.u, intercept=here.loss.intercept)
        model = Model(here.x, slope, w, self.ridge, added, self.on, self.multiplier, self.reach)
        least = self.curvature.least(model)
        self.is_slack = least is not None and least.is_slack
        if least is None or deadline.passed() or not np.isfinite(least.x).all():
            return False
        self.multiplier = least.multiplier
        return self._search(least.x, slope)

    def _search(self, end: Array, slope: Array) -> bool:
        """Step towards a point of the set, to where F is about least on the way; whether it fell.

        A step is taken if F falls by a share of what the slope promises and the slope there is
        small; else the secant of the slopes at the ends of a bracket, or its middle where that
        closes it too slowly, gives the next.
        """
        here = self.here
        d = end - here.x
        fall = self._first_order_fall(end, d, slope)
        if not fall > 0.0:
            return False
        noise = self._noise
        image = self.K @ end
        move = image - here.u
        trial = self._at(end, image, near=here.loss.intercept)
        bracket = Bracket(fall)
        while not self._is_good(trial, d, move, bracket, noise):
            if bracket.high < OPTIONS.shortest_step or deadline.passed():
                return False
            step = bracket.next_step()
            trial = self._at(here.x + step * d, here.u + step * move, near=here.loss.intercept)
        if bracket.step < 1.0:  # what the search added up is not K x to the last digit
            trial = self._at(trial.x, self.K @ trial.x, near=trial.loss.intercept)
            if not trial.value < here.value + noise:
                return False
        self.here = trial
        self.has_moved = True
        return True

    def _is_good(self, trial: At, d: Array, move: Array, bracket: Bracket, noise: float) -> bool:
        """Whether a line search may end at a trial; if not, the bracket is narrowed."""
        slope = dot(trial.loss.theta, move) + 2.0 * self.ridge * dot(trial.x, d)
        if self.tilt is not None:
            slope += dot(self.tilt, d)
        if self.l1 > 0.0:  # the slope from the side of the start, where an entry has come to 0
            sides = np.where(trial.x == 0.0, self.here.x, trial.x)
            slope += self.l1 * dot(np.sign(sides), d)
        promised = ARMIJO_FRACTION * bracket.step * bracket.fall
        falls = trial.value <= self.here.value - promised + noise
        if falls and (bracket.is_flat(slope) or bracket.fall <= noise or bracket.is_narrow):
            return True
        bracket.narrow(slope, falls=falls)
        return False

    def _first_order_fall(self, end: Array, d: Array, slope: Array) -> float:
        """What F falls by along d, to first order.

        A penalty counts with its change over the whole of d, which is no less.

        Between two points of one norm, the largest, the multiplier times the change of the norm,
        which is 0, is taken out term by term: its rounding would hide a small fall.
        """
        x = self.here.x
        if self.l1 > 0.0:
            return -total(slope * d + self.l1 * growth_of_sizes(self.on, x, end))
        fall = -dot(slope, d)
        level = -dot(slope, x)
        if not isinstance(self.on, NormBall | GroupBall) or fall > OPTIONS.hidden_fall * level:
            return fall
        smaller = min(self.on.norm(end), self.on.norm(x))
        if smaller < self.on.scale * (1.0 - ON_BOUNDARY):
            return fall
        return -total(slope * d + (level / self.on.scale) * growth_of_sizes(self.on, x, end))

    @property
    def _noise(self) -> float:
        """What rounding does to F."""
        here = self.here
        sizes = np.abs(here.loss.theta)
        size = dot(sizes, np.abs(here.u))
        shift = self.loss.composite.shift_size
        if shift > 0.0:
            size += shift * total(sizes)
        return rounding_noise(0.5 * precision(here.u), here.value, size)

    def point(self) -> ObjectivePoint:
        """The full problem at the point so far."""
        start = self.start
        x = self._embedded()
        on = start.g.on
        if on.violation(x) > 0.0:
            return start.at(back_inside(on, x))
        here = self.here
        if is_torch(x) or x.dtype != here.x.dtype:
            return start.at(x)
        self.made = x
        shift = self._shift(here.x)
        loss = here.loss._replace(intercept=with_shift(here.loss.intercept, -shift))
        u = here.u if shift == 0.0 else here.u + shift
        smooth = self.loss.evaluation(x, u, loss)
        # centred columns give K x by way of their means, which costs it digits where these are
        # large
        lost = 0.0 if self.means is None else dot(np.abs(self.means), np.abs(here.x))
        afresh = lost <= float(np.abs(u).max())
        return ObjectivePoint(start.f, start.g, x, start.tally, smooth, afresh=afresh)

    def _embedded(self) -> Array:
        """The point in all coordinates, as an array of the kind of the variable."""
        whole = self.here.x
        if self.chosen is not None:
            whole = np.zeros(self.start.x.shape[0])
            whole[self.chosen] = self.here.x
        return like(whole, self.start.x)

    def uncertified(self, iterate: Iterate) -> Iterate:
        """The point so far, when there is no time for a bound of its own."""
        x = self._embedded()
        on = self.start.g.on
        if on.violation(x) > 0.0:
            x = back_inside(on, x)
        here = self.here
        value = here.value + self._noise * (precision(x) / precision(here.x))
        if not value < iterate.value:
            return iterate
        simple = self.start.g.value(here.x)
        terms = Terms(value - simple, simple)
        return Iterate(x, terms, -math.inf, None, 1.0, self.start.tally.effort, iterate.noise)


class Bracket:
    """Where a line search looks: between a step from which F falls on, and one that is too long."""

    def __init__(self, fall: float) -> None:
        self.fall = fall
        """What F falls by to first order, at a whole step."""
        self.step = 1.0
        self.low = 0.0
        self.low_slope = -fall
        self.high = 1.0
        self.high_slope = math.inf
        self.width = math.inf

    def is_flat(self, slope: float) -> bool:
        """Whether F is about least here; beyond a whole step nobody looks."""
        enough = OPTIONS.flat * self.fall
        return slope <= enough and (self.step == 1.0 or slope >= -enough)

    @property
    def is_narrow(self) -> bool:
        """Whether the step is as good as the lower end."""
        return self.step - self.low <= OPTIONS.narrow * self.step

    def narrow(self, slope: float, *, falls: bool) -> None:
        """Make the step one of the ends."""
        if falls and slope < 0.0:
            self.low = self.step
            self.low_slope = slope
        else:
            self.high = self.step
            self.high_slope = slope

    def next_step(self) -> float:
        """By the secant, or from the middle where it closed the bracket too slowly."""
        fraction = 0.5
        width = self.high - self.low
        if self.high_slope > 0.0 and width <= 0.5 * self.width:
            fraction = self.low_slope / (self.low_slope - self.high_slope)
        self.width = width
        if width <= OPTIONS.narrow * self.high and self.low > 0.0:  # closed on a kink
            self.step = self.low
        else:
            self.step = self.low + min(max(fraction, OPTIONS.slow), 1.0 - OPTIONS.slow) * width
        return self.step
