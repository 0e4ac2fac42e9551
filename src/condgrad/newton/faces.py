"""Newton's method for F(x) = h(Kx) + <tilt, x> + ridge |x|^2 on the l1 ball, the simplex and the box.

One mechanism for all data, wide or tall, dense or sparse:

1. A working set W: the coordinates that are not 0, and those with the steepest gradients among the rest.
2. A quadratic model of F in these coordinates, with the Hessian K_W' diag(h'') K_W + 2 ridge.
3. The least point of the model over the set, in one compiled call: `kernels.face_qp`, from the Gram matrix or, where W
   has many more coordinates than there are samples, from the rows. Where these are too many, or sparse, to be copied
   for it, `by_rows` does the same by array operations.
4. A line search on F towards it; models and searches go on until W has little left to gain.
5. A look at the full problem: F from a fresh product K x, and its lower bound.

All thresholds are ratios of numbers of one unit: F, x or the data in other units take the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    Space,
    at_least,
    dot,
    double,
    host,
    is_dense,
    like,
    namespace,
    precision,
    steepest_indices,
    total,
)
from condgrad.certificate import Iterate, Terms
from condgrad.errors import MissingAbility
from condgrad.kernels import BOX, L1_BALL, SIMPLEX
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.newton.by_rows import RowModel
from condgrad.newton.folding import FoldedLoss
from condgrad.problem import Set, Simple, Smooth
from condgrad.sets import Box, L1Ball, Simplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import AtBestIntercept

FIRST_SIZE = 50
"""Coordinates of the first working set."""
SMALL = 200
"""Coordinates up to which the working set is all of them."""
WIDE_BOX = 500
"""Coordinates up to which models of all of them pay on sets whose points are not sparse, with fewer samples."""
SETTLED = 0.1
"""A working set has done its work when its own gap is this share of the full one."""
MODEL_SHARE = 1e-4
"""The gap of a model's least point, as a share of what the model promises to fall by."""
NEWTON_STEPS = 50
"""Newton steps after which a working set gives way to a look at the full problem."""
ROUNDS, LONG_ROUND = 50, 20_000
"""Rounds of the compiled active-set method between two looks at the clock, and coordinates of all of them together."""
CALLS = 20
"""How often it is called on one model."""
WIDE, WIDE_FROM = 4, 200
"""Coordinates a sample, and coordinates, from which on a model is kept by its rows."""
ROWS_AT_MOST = 1 << 23
"""Entries of a model by rows that are worth a copy."""
SUFFICIENT = 1e-4
"""The share of the fall promised by the slope that a step must keep (Armijo's rule)."""
FLAT = 0.3
"""The rise of F where a search ends, as a share of its fall where it began."""
NARROW = 1e-6
"""The width of a bracket, as a share of the step, at which a search ends on a kink."""
SHORTEST = 1e-10
"""The shortest step that is tried."""
LEAST_CURVATURE = 1e-13
"""What is added to the curvature of each coordinate, as a share of it, so that no model is singular."""
LEAST_CURVATURE_BY_ROWS = 1e-10
"""The same for a model by rows, whose solutions have fewer digits."""
LEAST_BEND = 1e-12
"""The same, as a share of the steepest slope over the size of the set, for coordinates along which nothing bends."""


@dataclass(frozen=True)
class FaceNewton:
    """Newton's method for a smooth loss of Kx, linear terms and a ridge on the l1 ball, the simplex or the box."""

    f: Smooth
    g: Ridge | Zero
    loss: FoldedLoss = field(repr=False)
    name: ClassVar[str] = "newton"

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> FaceNewton:
        """The method, or a sentence that names the missing piece."""
        loss = FoldedLoss.of(f)
        if not isinstance(g, Ridge | Zero):
            raise MissingAbility(f"{g!r} is no quadratic: Ridge and Zero are")
        if not isinstance(g.on, L1Ball | Simplex | Box):
            raise MissingAbility(f"{g.on!r} has no faces: L1Ball, Simplex and Box do")
        return cls(f, g, loss)

    @property
    def affordable(self) -> bool:
        """Where projected gradients are not ahead: where few coordinates matter, or samples are many."""
        m, n = self.loss.composite.K.shape
        return isinstance(self.g.on, L1Ball) or n <= max(m, WIDE_BOX)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, n = self.f, self.g, x.shape[0]
        columns, space, tally = Columns(self.loss), Space.of(x), Tally()
        certifier = Certifier(f, g, tally)
        may_be_sparse = g.on.solid and g.on.shape is None
        start = point = ObjectivePoint(f, g, x, tally)
        part: WorkingSet | None = None
        size, gap = FIRST_SIZE, math.inf
        while True:
            step = 1.0 if part is not None and part.fell else 0.0
            iterate = certifier.iterate(point, step)
            yield iterate
            if deadline.passed():
                return
            before, gap = gap, iterate.value - iterate.lower_bound
            if g.on.scale == 0.0 or (part is not None and part.is_whole and not part.fell and not gap <= 0.5 * before):
                return
            size = max(2 * size if gap > 0.1 * before else size, 2 * int(namespace(x).count_nonzero(point.x)))
            whole = not may_be_sparse or n <= max(size, SMALL)
            if part is not None and part.idle and not whole and part.likely_idle(n):
                # from the start: what fits the samples in a few coordinates hides their curvature from the others
                whole, point = True, start
            if part is None or not (whole and part.is_whole):
                chosen = None if whole else steepest_indices(point.gradient, point.x, size)
                multiplier = None if part is None else part.multiplier
                part = WorkingSet(self.loss, g, columns.taken(chosen), chosen, multiplier)
            part.begin(point)
            part.solve(SETTLED * gap)
            tally.inner_iterations += part.steps
            if deadline.passed():
                yield part.uncertified(iterate, tally, space)
                return
            if part.moved:
                point = part.point(f, space, tally)
            elif whole:
                return


class Geometry(NamedTuple):
    """A set, in the terms of `kernels.face_qp`."""

    kind: int
    size: float
    lower: Array
    upper: Array

    @classmethod
    def of(cls, on: L1Ball | Simplex | Box, x: Array) -> Geometry:
        none = np.empty(0)
        if isinstance(on, L1Ball):
            return cls(L1_BALL, on.radius, none, none)
        if isinstance(on, Simplex):
            return cls(SIMPLEX, on.mass, none, none)
        lower, upper = (
            np.ascontiguousarray(np.broadcast_to(host(double(like(bound, x))), x.shape))
            for bound in (on.lower, on.upper)
        )
        return cls(BOX, on.scale, lower, upper)


class Columns:
    """The columns of K, in float64 and about their means where an intercept makes that the same problem."""

    def __init__(self, loss: FoldedLoss) -> None:
        self.K = loss.composite.by_row
        self.centred = loss.h.has_intercept and is_dense(self.K)

    def taken(self, chosen: Array | None) -> Matrix:
        """Some of the columns, or all."""
        K = self.K
        if not is_dense(K):
            return K.astype(np.float64, copy=False) if chosen is None else sparse_columns(K, chosen)
        if chosen is not None:
            K = np.take(K.T, chosen, axis=0).T if type(K) is np.ndarray and K.flags.f_contiguous else K[:, chosen]
        K = double(K)
        return K - namespace(K).mean(K, axis=0)[None, :] if self.centred else K


def sparse_columns(K: Matrix, chosen: Array) -> Matrix:
    """K[:, chosen] in float64."""
    from condgrad.kernels import sparse_gram

    place = np.full(K.shape[1], -1, K.indices.dtype)
    place[chosen] = np.arange(len(chosen), dtype=K.indices.dtype)
    indptr, indices, data = sparse_gram.columns(K.indptr, K.indices, K.data, place)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(K.shape[0], len(chosen)))


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
    for unit in (0.0, 1.0, 2.0):
        inside = (on.scale / norm * (1.0 - unit * precision(x))) * x
        if on.violation(inside) == 0.0:
            return inside
    return on.project(x)


class WorkingSet:
    """The problem in some of the coordinates, the others being 0, and its best point so far."""

    def __init__(
        self,
        loss: FoldedLoss,
        g: Ridge | Zero,
        K: Matrix,
        chosen: Array | None,
        multiplier: float | None,
    ) -> None:
        self.loss, self.g, self.K, self.Kt, self.chosen = loss, g, K, K.T, chosen
        self.on: Any = g.on
        self.ridge = g.weight if isinstance(g, Ridge) else 0.0
        self.tilt = loss.tilt if loss.tilt is None or chosen is None else loss.tilt[chosen]
        self.about_means = loss.h.has_intercept and is_dense(K)
        self.multiplier = multiplier
        """Of the sum or the norm, in the last model; None where there was none."""
        self.idle = False
        """Whether the last model had its least point inside the l1 ball."""

    def begin(self, point: ObjectivePoint) -> None:
        """Be at a point of the full problem."""
        here = self.loss.loss_at(point.smooth)
        self.x = double(point.x if self.chosen is None else point.x[self.chosen])
        self.u = self.K @ self.x if self.about_means else here.z
        self.profile = self.loss.h.at_best_intercept(self.u, near=here.intercept)
        self.start = self.value = self._total(self.x, self.profile)
        self.steps, self.moved = 0, False

    @property
    def is_whole(self) -> bool:
        return self.chosen is None

    @property
    def fell(self) -> bool:
        return self.value < self.start

    def _total(self, x: Array, profile: AtBestIntercept) -> float:
        value = profile.value + self.ridge * dot(x, x)
        return value if self.tilt is None else value + dot(self.tilt, x)

    def solve(self, enough: float) -> None:
        """Newton steps until the gap in these coordinates is small, nothing is gained any more, or time is up."""
        gap = math.inf
        while self.steps < NEWTON_STEPS and not deadline.passed():
            before = gap
            slope, gap = self._slope_and_gap()
            if gap <= enough or deadline.passed():
                return
            value = self.value
            self.steps += 1
            if not (self._newton_step(slope) or self._gradient_step(slope)):
                return
            # where F has no digits left, the gap may still have some
            if not self.value < value and gap > 0.5 * before:
                return

    def _slope_and_gap(self) -> tuple[Array, float]:
        """The gradient of F, up to a constant on a simplex, and its gap in these coordinates."""
        c = self.Kt @ self.profile.theta
        if self.tilt is not None:
            c = c + self.tilt
        lower = self.profile.value - dot(self.profile.theta, self.u) + self.g.argmin(c).bound
        slope = c + (2.0 * self.ridge) * self.x
        if isinstance(self.on, Simplex):  # what all coordinates share moves nothing, and would hide what they do not
            slope = slope - dot(slope, self.x) / self.on.mass
        return slope, self.value - lower

    def _newton_step(self, slope: Array) -> bool:
        """A step towards the least point of the model of F at x; whether F fell, up to rounding."""
        steepest = float(namespace(slope).max(namespace(slope).abs(slope)))
        if steepest == 0.0 or not math.isfinite(steepest):
            return False
        least_bend = 2.0 * self.ridge + LEAST_BEND * steepest / self.on.scale
        m, k = self.K.shape
        if k <= max(WIDE * m, WIDE_FROM):
            end = self._least(slope, *self._by_gram(least_bend))
        elif is_dense(self.K) and k * m <= ROWS_AT_MOST:
            end = self._least(slope, *self._by_rows(least_bend))
        else:
            model = RowModel(self.K, self._curvature(), least_bend, centred=self.loss.h.has_intercept)
            end = model.least(self.on, self.x, slope, MODEL_SHARE)
            self.idle = isinstance(self.on, L1Ball) and self.on.norm(end) < self.on.radius * (1.0 - 1e-9)
        return not deadline.passed() and self._search(end, slope)

    def _curvature(self) -> Array:
        return self.loss.h.curvature(self.u, intercept=self.profile.intercept)

    def _least(self, slope: Array, H: Array, B: Array, c: Array, unit: float) -> Array:
        """The least point of the model unit (H or B B' + diag(c)) over the set."""
        from condgrad.kernels import face_qp

        x, q = host(self.x), host(slope) / unit
        mu = -1.0 if self.multiplier is None else self.multiplier / unit
        rounds = min(ROUNDS, max(4, LONG_ROUND // x.shape[0]))
        for _ in range(CALLS):  # a point that is not the least yet leads down too
            if deadline.passed():
                break
            end, mu, idle, done = face_qp.minimise(H, B, c, q, x, *self._geometry, mu, MODEL_SHARE, rounds)
            self.idle = idle and isinstance(self.on, L1Ball)
            move, x = end - x, end
            if done or not move.any():
                break
            q = q + (H @ move if H.shape[0] else B @ (move @ B) + c * move)
        self.multiplier = mu * unit
        return like(x, self.x)

    @cached_property
    def _geometry(self) -> Geometry:
        return Geometry.of(self.on, self.x)

    def _by_gram(self, least_bend: float) -> tuple[Array, Array, Array, float]:
        """K' W K + 2 ridge and a little more, on the host."""
        H = self._constant_gram.copy() if self.loss.h.quadratic else self._gram()
        diagonal = np.einsum("jj->j", H)
        # where means cancel, rounding may leave less than 0
        diagonal[:] = (1.0 + LEAST_CURVATURE) * np.maximum(diagonal, 0.0) + least_bend
        return H, np.empty((0, 0)), np.empty(0), 1.0

    def _by_rows(self, least_bend: float) -> tuple[Array, Array, Array, float]:
        """B with B B' = K' W K in units of the largest weight, a row a coordinate, and what is added to it."""
        w = host(self._curvature())
        unit = float(w.max()) or 1.0
        shares = w / unit  # so that their square roots do not depend on the unit of F
        mass = shares.sum() if self.loss.h.has_intercept else 0.0
        rows, root = self._rows, np.sqrt(shares)
        B = (rows - (rows @ (shares / mass))[:, None]) * root if mass > 0.0 else rows * root
        c = least_bend / unit + LEAST_CURVATURE_BY_ROWS * np.einsum("ji,ji->j", B, B)
        return np.empty((0, 0)), B, c, unit

    @cached_property
    def _rows(self) -> Array:
        """K', a row a coordinate, on the host."""
        return np.ascontiguousarray(host(self.Kt))

    @cached_property
    def _constant_gram(self) -> Array:
        return self._gram()

    def _gram(self) -> Array:
        """K' W K, W being the Hessian of the loss: diag(w), or diag(w) - w w'/sum(w) with an intercept."""
        K, w = self.K, self._curvature()
        if is_dense(K):
            H = host(self.Kt @ (w[:, None] * K))
        else:
            from condgrad.kernels import sparse_gram

            H = sparse_gram.weighted_gram(K.indptr, K.indices, K.data, w, K.shape[1])
        mass = total(w) if self.loss.h.has_intercept else 0.0
        if mass > 0.0:
            pull = host(self.Kt @ w)
            H -= np.outer(pull / mass, pull)
        return H

    def _search(self, end: Array, slope: Array) -> bool:
        """Step towards a point of the set, to where F is about least on the way; whether it fell, up to rounding.

        A step is taken if F falls by a share of what the slope promised and the slope there is flat against it; else
        the secant of the slopes, or half of their bracket where that closes it too slowly, gives the next.
        """
        d = end - self.x
        promise = self._promise(end, d, slope)
        if not promise > 0.0:
            return False
        noise, step, low, high, low_slope, high_slope = self._noise, 1.0, 0.0, 1.0, -promise, math.inf
        width = math.inf
        x, u = end, self.K @ end
        move = u - self.u
        straight = 0.0 if self.tilt is None else dot(self.tilt, d)
        while True:
            profile = self.loss.h.at_best_intercept(u, near=self.profile.intercept)
            value = self._total(x, profile)
            there = dot(profile.theta, move) + straight + 2.0 * self.ridge * dot(x, d)
            falls = value <= self.value - SUFFICIENT * step * promise + noise
            flat = there <= FLAT * promise and (step == 1.0 or there >= -FLAT * promise)
            if falls and (flat or promise <= noise or step - low <= NARROW * step):
                break
            if falls and there < 0.0:
                low, low_slope = step, there
            else:
                high, high_slope = step, there
            if high < SHORTEST or deadline.passed():
                return False
            share = low_slope / (low_slope - high_slope) if high_slope > 0.0 else 0.5
            if high - low > 0.5 * width:
                share = 0.5
            width = high - low
            # where the bracket has closed on a kink, its lower end is as good as any point
            step = low + min(max(share, 0.1), 0.9) * width if width > NARROW * high or low == 0.0 else low
            x, u = self.x + step * d, self.u + step * move
        if step < 1.0:  # what the search added up is not K x to the last digit
            u = self.K @ x
            profile = self.loss.h.at_best_intercept(u, near=profile.intercept)
            value = self._total(x, profile)
            if not value < self.value + noise:
                return False
        self.x, self.u, self.profile, self.value, self.moved = x, u, profile, value, True
        return True

    def _promise(self, end: Array, d: Array, slope: Array) -> float:
        """What F falls by along d, to first order."""
        promise, on, level = -dot(slope, d), self.on, -dot(slope, self.x)
        if not isinstance(on, L1Ball) or promise > 1e-9 * level:
            return promise
        if min(on.norm(end), on.norm(self.x)) < on.radius * (1.0 - 1e-12):
            return promise
        # as in `face_qp.model_at`: what moves along the boundary is hidden by the multiplier times rounding
        xp = namespace(d)
        growth = xp.where(end * self.x >= 0.0, xp.sign(end + self.x) * d, xp.abs(end) - xp.abs(self.x))
        return -total(slope * d + (level / on.radius) * growth)

    @property
    def _noise(self) -> float:
        """What rounding does to F."""
        size = namespace(self.u).abs
        return 4e-16 * (abs(self.value) + dot(size(self.profile.theta), size(self.u)))

    def _gradient_step(self, slope: Array) -> bool:
        """A projected gradient step, which leads on from everywhere but the solution."""
        steepest = float(namespace(slope).max(namespace(slope).abs(slope)))
        if steepest == 0.0 or not math.isfinite(steepest):
            return False
        length = self.on.scale / steepest
        for _ in range(40):
            if deadline.passed():
                return False
            end = self.on.project(self.x - length * slope)
            value = self.value
            if self._search(end, slope) and self.value < value:
                return True
            length *= 0.0625
        return False

    def likely_idle(self, n: int) -> bool:
        """Whether the ball would hold the least point of all n coordinates too, and that is cheap to find out.

        A least point in k of many coordinates has a norm of about sqrt(k) times its length, which falls as k grows.
        """
        m, k = self.K.shape
        by_rows = is_dense(self.K) and n > max(WIDE * m, WIDE_FROM) and n * m <= ROWS_AT_MOST
        return by_rows and self.on.norm(self.x) * math.sqrt(n / k) < self.on.scale

    def point(self, f: Smooth, space: Space, tally: Tally) -> ObjectivePoint:
        """The full problem at the point so far."""
        x = self._embedded(space)
        if self.on.violation(x) > 0.0:
            x = pulled_in(self.on, x)
        elif not self.about_means and x.dtype == self.x.dtype:
            here = self.loss.evaluation(f, x, self.u, self.profile.intercept)
            return ObjectivePoint(f, self.g, x, tally, here)
        return ObjectivePoint(f, self.g, x, tally)

    def _embedded(self, space: Space) -> Array:
        """The point in all coordinates, in the precision of the variable."""
        x = namespace(self.x).astype(self.x, space.dtype, copy=False)
        if self.chosen is None:
            return x
        whole = space.full(0.0)
        whole[self.chosen] = x
        return whole

    def uncertified(self, iterate: Iterate, tally: Tally, space: Space) -> Iterate:
        """The point so far, when there is no time for a bound of its own."""
        x = self._embedded(space)
        if self.on.violation(x) > 0.0:
            x = pulled_in(self.on, x)
        value = self.value + self._noise * (precision(x) / precision(self.x))
        if not value < iterate.value:
            return iterate
        simple = self.ridge * dot(self.x, self.x)
        terms = Terms(value - simple, simple)
        return Iterate(x, terms, -math.inf, None, 1.0, tally.effort, iterate.noise)
