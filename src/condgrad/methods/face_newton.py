"""Newton on the certificate of h(Kx) + weight |x|^2 on a polyhedral set.

The dual function of z is D(z) = h(z) - <theta, z> + min_s [<K'theta, s> + weight |s|^2], theta = grad h(z). Its oracle
projects, and a projection onto a polyhedral set is linear on faces: near a point with free coordinates A and normal e
it moves by dv_A - e <e, dv_A>/|e|^2. So a Newton step on D solves equations on one face; see `proximal_dual`.

A small weight lets the face change with every breath of z. Then a proximal term c |x - x_k|^2 steadies it, which leads
near the solution, and Newton steps of F itself do the rest, on one face after the other as far as each goes. Where
points may be sparse, all this looks at a working set of coordinates alone: the support of x and the steepest of the
rest. Values and lower bounds are always those of the full problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import ClassVar

from condgrad import deadline
from condgrad._arrays import (
    Array,
    Space,
    dot,
    double,
    namespace,
    principal_block,
    selected_columns,
    squared_rows,
    steepest_indices,
)
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.face_system import bent_gram, least_by_gram, least_on_face, square_root_model
from condgrad.methods.proximal_dual import DualState, ProximalDual
from condgrad.methods.spg import first_length, spectral_moves
from condgrad.problem import Set, Simple, Smooth
from condgrad.simple import Ridge, Zero
from condgrad.smooth import LeastSquares
from condgrad.smooth.composite import Composite, CompositeEvaluation, Profile
from condgrad.steps import Armijo

SMALLEST_SET = 50
"""Coordinates of the first working set."""
SETTLED = 0.05
"""A working set has done its work when its own gap is this share of the full one."""
STEADY = 0.03
"""The strong convexity of a proximal problem, in units of the mean curvature of a coordinate."""
SPECTRAL_MOVES = 10
"""Spectral projected gradients that lead towards the solution of a quadratic problem, before Newton's method."""
PATIENCE = 10
"""Steps of a walk that does not end, after which a proximal problem with a tenth of the term leads it on."""
TALL = 4
"""Samples a coordinate from which on it pays to forget the samples between two Newton steps."""
WIDEST = 4000
"""Coordinates up to which a matrix of all pairs of them is worth its memory."""
SHORT = 1e-6
"""A step of this share of the set's size shows which coordinates a gradient sets free."""
LONGEST = 100
"""Newton steps after which a working set gives way to a look at the full problem."""


@dataclass(frozen=True)
class FaceNewton:
    """Newton's method for a smooth loss of Kx and a quadratic on a polyhedral set."""

    f: Composite
    g: Ridge | Zero
    name: ClassVar[str] = "newton"

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> FaceNewton:
        """The method, or a sentence that names the missing piece."""
        if not isinstance(f, Composite):
            raise MissingAbility(f"{f!r} is no h(Kx): LeastSquares, Logistic and SquaredHinge are")
        if not isinstance(g, Ridge | Zero):
            raise MissingAbility(f"{g!r} is no quadratic: Ridge and Zero are")
        if type(g.on).face is Set.face:
            raise MissingAbility(f"{g.on!r} has no faces: L1Ball, Simplex and Box do")
        return cls(f, g)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, tally, n = self.f, self.g, Tally(), x.shape[0]
        certifier = Certifier(f, g, tally)
        sparse, space = g.on.solid and g.on.shape is None, Space.of(x)
        point, size, gap, fell, whole = ObjectivePoint(f, g, x, tally), SMALLEST_SET, math.inf, True, False
        while True:
            iterate = certifier.iterate(point, float(fell))
            yield iterate
            before, gap = gap, iterate.value - iterate.lower_bound
            if whole and not fell and gap > 0.5 * before:
                return
            size = max(size, 2 * int(namespace(x).count_nonzero(point.x)))
            if gap > 0.1 * before:
                size *= 2
            whole = not sparse or 2 * size >= n
            chosen = None if whole else steepest_indices(point.gradient, point.x, size)
            part = WorkingSet(f, g, chosen, point)
            part.solve(SETTLED * gap)
            fell = part.value < point.value
            tally.inner_iterations += part.steps
            if part.moved:
                x = part.embedded(space)
                exact = x.dtype == part.x.dtype and g.on.contains(x, 1e-13)
                point = ObjectivePoint(f, g, x if exact else g.on.project(x), tally)
            elif whole and not deadline.passed():
                return


class WorkingSet:
    """The problem in some of the coordinates, the others being 0, and its best point so far."""

    def __init__(self, f: Composite, g: Ridge | Zero, chosen: Array | None, point: ObjectivePoint) -> None:
        self.h, self.g, self.chosen = f.h, g, chosen
        self.weight = g.weight if isinstance(g, Ridge) else 0.0
        self.K = f.K if chosen is None else selected_columns(f.by_column, chosen)
        self.x = double(point.x if chosen is None else point.x[chosen])
        self.u = point.smooth.z
        self.profile = Profile(point.smooth.value, point.smooth.theta, point.smooth.intercept)
        self.start = self.value = point.value
        self.steps, self.moved = 0, False

    def embedded(self, space: Space) -> Array:
        """The point in all coordinates."""
        if self.chosen is None:
            return namespace(self.x).astype(self.x, space.dtype, copy=False)
        whole = space.full(0.0)
        whole[self.chosen] = namespace(whole).astype(self.x, space.dtype)
        return whole

    @cached_property
    def bent(self) -> Array | None:
        """K' W K where it is the same everywhere, so that every face takes its block of it."""
        if not self.h.quadratic or self.K.shape[1] > min(self.K.shape[0], WIDEST):
            return None
        return bent_gram(self.K, self.h.plain.curvature(self.u), centred=self.h.has_intercept)

    def solve(self, enough: float) -> None:
        """Newton on the dual, with a proximal term where the weight is small; the rest is a walk along the faces.

        Where there are many more samples than coordinates, quadratic models take the samples' place.
        """
        if self.K.shape[0] >= TALL * self.K.shape[1]:
            self._solve_by_models(enough)
            return
        if self.bent is not None:
            self._approach()
        # twice the ridge against the mean curvature of a coordinate, at its largest
        steady = 0.5 * STEADY * dot(self.h.plain.steepest, squared_rows(self.K)) / self.K.shape[1]
        extra = max(0.0, steady - self.weight)
        solved = self._proximal_step(extra, enough)
        if solved and extra == 0.0:
            return
        # a walk through pieces of different curvature is long by nature, and no shorter from elsewhere
        patience = LONGEST if self.h.plain.has_pieces else PATIENCE
        while True:
            if extra > 0.0:
                self._proximal_step(extra, enough)
            # a proximal problem that took all the steps there are may have led nowhere: the walk has its own
            if self._walk(enough, patience) or self.steps >= LONGEST:
                return
            extra *= 0.1

    def _approach(self) -> None:
        """A few spectral projected gradients, cheaper than a climb where the curvature is the same everywhere."""
        part = Composite(self.K, self.h)
        here = CompositeEvaluation(part, self.x, self.u, near=self.profile.intercept)
        start = ObjectivePoint(part, self.g, self.x, Tally(), here)
        length = first_length(start, self.g.on.scale)
        moves = spectral_moves(start, self.g.on.project, length, window=SPECTRAL_MOVES, armijo=Armijo())
        for move in islice(moves, 1, 1 + SPECTRAL_MOVES):
            there = move.point.smooth
            self._try(move.point.x, there.z, Profile(there.value, there.theta, there.intercept))

    def _solve_by_models(self, enough: float) -> None:
        """Newton steps whose quadratic model |R y - t|^2/2 + weight |y|^2, R square, is minimised over the set."""
        for _ in range(LONGEST):
            self.steps += 1
            slope, gap = self._slope_and_gap()
            if self._may_stop(gap, enough):
                return
            w = self.h.plain.curvature(self.u + self.profile.intercept)
            R, t = square_root_model(
                self.K, w, self.x, slope - (2.0 * self.weight) * self.x, centred=self.h.has_intercept
            )
            model = LeastSquares(R, t)
            part = WorkingSet(model, self.g, None, ObjectivePoint(model, self.g, self.x, Tally()))
            part.solve(0.03 * gap)
            d = part.x - self.x
            promise = -dot(slope, d)
            fell = promise > 0.0 and self._search(d, double(self.K @ d), promise, 1.0)
            if not (fell or self._gradient_step(slope)):
                return

    def _may_stop(self, gap: float, enough: float) -> bool:
        """Whether time is up, or the gap small, beside what F fell by too: a dual may be close before its point is."""
        small = gap <= enough and (gap <= self.start - self.value or gap <= 1e-3 * enough)
        return small or deadline.passed()

    def _slope_and_gap(self) -> tuple[Array, float]:
        """The gradient of F and the gap of the working set, at the point so far."""
        c = double(self.K.T @ self.profile.theta)
        lower = self.profile.value - dot(self.profile.theta, self.u) + self.g.argmin(c).bound
        return c + (2.0 * self.weight) * self.x, self.value - lower

    def _proximal_step(self, extra: float, enough: float) -> bool:
        """Newton on the dual of F + extra |x - x_k|^2, x_k being the point so far; whether it was solved."""
        start = self.value
        dual = ProximalDual(self.K, self.h, self.g.on, self.weight + extra, (2.0 * extra) * self.x, self.bent)
        here: DualState | None = dual.at(self.u, self.profile)
        while here is not None and self.steps < LONGEST:
            self.steps += 1
            profile = self.h.profile(here.image, near=here.profile.intercept)
            gap = profile.value + here.simple - here.dual
            self._try(here.s, here.image, profile)
            if self._may_stop(gap, 0.1 * (enough if extra == 0.0 else max(enough, start - self.value))):
                return True
            here = dual.climbed(here)
        return False

    def _try(self, x: Array, u: Array, profile: Profile, noise: float = 0.0) -> bool:
        """Take a point if F is less there, up to what rounding may have added."""
        value = profile.value + self.weight * dot(x, x)
        if not value < self.value + noise:
            return False
        self.x, self.u, self.profile, self.value, self.moved = x, u, profile, value, True
        return True

    @property
    def noise(self) -> float:
        """What rounding does to F."""
        size = namespace(self.u).abs
        return 4e-16 * (abs(self.value) + dot(size(self.profile.theta), size(self.u)))

    def _walk(self, enough: float, patience: int) -> bool:
        """Newton steps of F on one face after the other, each as far as the set goes; whether it came to its end."""
        gap = math.inf
        for _ in range(patience):
            self.steps += 1
            value, before, (slope, gap) = self.value, gap, self._slope_and_gap()
            if self._may_stop(gap, enough) or not (self._newton_step(slope) or self._gradient_step(slope)):
                return True
            # where F has no digits left, the gap may still have some
            if not self.value < value and gap > 0.5 * before:
                return True
        return False

    def _newton_step(self, slope: Array) -> bool:
        """A step on the face that a short gradient step leads to, as far as it goes; whether F fell."""
        xp, on, x = namespace(slope), self.g.on, self.x
        w = self.h.plain.curvature(self.u + self.profile.intercept)
        # this keeps the equations of a face with more coordinates than samples from being singular
        ridge = max(2.0 * self.weight, 1e-10 * dot(w, squared_rows(self.K)) / self.K.shape[1])
        if not ridge > 0.0:  # a loss that does not bend here has no Newton step
            return False
        face = on.face(x - SHORT * (on.scale or 1.0) / (float(xp.max(xp.abs(slope))) or 1.0) * slope)
        A, e = face.active, face.normal
        d = xp.zeros_like(x)
        while True:
            d[A] = -self._least(A, w, ridge, slope[A], e)
            # a coordinate that has just come off its bound, and turns back at once, was none of this face
            back = (on.project(x + d) == x) if e is None else (x == 0) & (d * (face.point - x) < 0)
            back = back[A] & (d[A] != 0)
            d[A[back]] = 0.0
            if not bool(xp.any(back)):
                break
            A, e = A[~back], None if e is None else e[~back]
        promise, reach = -dot(slope, d), on.reach(x, d)
        if not promise > 0.0:
            return False
        if reach < 1.0 and self._bent_step(d, slope):
            return True
        return reach >= SHORT and self._search(d, double(self.K[:, A] @ d[A]), promise, min(1.0, reach))

    def _least(self, A: Array, w: Array, ridge: float, g: Array, e: Array | None) -> Array:
        """The solution of Newton's equations on a face."""
        if self.bent is not None:
            return least_by_gram(principal_block(self.bent, A), ridge, g, e)
        return least_on_face(self.K[:, A], w, ridge, g, e, centred=self.h.has_intercept)

    def _bent_step(self, d: Array, slope: Array) -> bool:
        """A step projected back onto the set, which may bring many coordinates to their bounds at once."""
        return any(self._try_projected(self.x + step * d, slope, 0.1) for step in (1.0, 0.25, 0.0625, 0.015625))

    def _try_projected(self, target: Array, slope: Array, fraction: float) -> bool:
        """Take the projection of a point if F falls by a fraction of what the slope promises."""
        y = self.g.on.project(target)
        u = double(self.K @ y)
        profile = self.h.profile(u, near=self.profile.intercept)
        fall = self.value - profile.value - self.weight * dot(y, y)
        return fall > fraction * dot(slope, self.x - y) > 0.0 and self._try(y, u, profile)

    def _search(self, d: Array, du: Array, promise: float, step: float) -> bool:
        """Halve the step until F falls by a fraction of what was promised."""
        xp, noise = namespace(d), self.noise
        while step > 1e-10:
            y = self.x + step * d
            y = xp.where((y * self.x < 0) & (xp.abs(y) <= 1e-14 * xp.abs(self.x)), 0.0, y)  # what was to become 0 is 0
            u = self.u + step * du
            profile = self.h.profile(u, near=self.profile.intercept)
            fall = self.value - profile.value - self.weight * dot(y, y)
            if fall >= 1e-4 * step * promise - noise:
                return self._try(y, u, profile, noise)
            step *= 0.5
        return False

    def _gradient_step(self, slope: Array) -> bool:
        """A projected gradient step, which leads on from everywhere but the solution."""
        length = (self.g.on.scale or 1.0) / (float(namespace(slope).max(namespace(slope).abs(slope))) or 1.0)
        for _ in range(60):
            if self._try_projected(self.x - length * slope, slope, 1e-4):
                return True
            length *= 0.25
        return False
