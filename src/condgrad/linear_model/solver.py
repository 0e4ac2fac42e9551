"""One constrained or penalised problem, or a path of them: what every estimator here asks of
`condgrad.minimize`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from condgrad import _checks
from condgrad.arrays import Array, double, namespace, smallest
from condgrad.ball import Follower, Warm, follow
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.triangle import Triangle
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.minimize import minimize, minimize_next
from condgrad.problem import Set, Simple
from condgrad.result import ADVICE, Result, Status
from condgrad.sets import GroupBall, L1Ball, SolidSimplex
from condgrad.sets.penalised import Penalised
from condgrad.simple import ElasticNet, Ridge, Zero
from condgrad.smooth.composite import LossOfMatrix, is_at_hand
from condgrad.smooth.row_blocks import CONSTANT
from condgrad.structure import LossOnSet

FeatureSet = L1Ball | SolidSimplex | GroupBall
"""Where the coefficients may be."""

SizeKeeper = Ridge | Zero | ElasticNet
"""What keeps them small there."""

SMALLEST_SHARE = 1e-3
"""The first radius of a default grid is this share of the last."""

RIDGE_SHARES = (1e-3, 1e-2, 1e-1)
"""The ridges that are tried by default are these shares of the typical curvature of a least-squares
loss.
"""

ROUGH = 0.03
"""The norm of the solution without a constraint is known well enough once its gap is at most this
share of what it gains over x = 0.
"""

ROUGH_ITERATIONS = 1000
"""The largest number of iterations for the norm of the solution without a constraint. A grid needs
no more digits.
"""

NEXT_TOL = 1e-3
"""Each tolerance that is tried is this times the last one, until the norm is known."""

INSIDE = 1e-3
"""If a solution is inside the ball by more than this share of the radius, the constraint is not
active, and no more needs to be computed.
"""

PROVABLE = 100.0
"""The smallest tolerance, in rounding units of the data. No proof is better than that."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The solution of one problem, with its proof."""

    coef: Array
    intercept: Any
    """A number, or one for each class where one problem has several."""
    value: float
    gap: float
    radius: float
    """The bound on the norm of x, or the norm itself where a penalty is in its place."""
    ridge: float
    multiplier: float
    iterations: int
    status: Status
    message: str
    tol: float
    """The gap / scale that was asked for."""
    relative_gap: float
    """The gap / scale that was reached."""
    unpenalised: Array = None
    """The coefficients of features without a penalty."""

    @property
    def unproved(self) -> Fit:
        """The same point for a problem that there was no time for."""
        status = Status.TIME_LIMIT
        nothing = math.inf
        message = f"{status.value}; gap / scale is inf"
        return replace(
            self, gap=nothing, iterations=0, status=status, message=message, relative_gap=nothing
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A loss, and the units of its variable: x = units * coef, a row of x being a feature."""

    loss: LossOfMatrix
    units: Any = None
    """One for each feature; None where all are 1."""
    is_free: Any = None
    """Which features have no penalty, and no part in x; None for none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the coefficients."""
        own: tuple[int, ...] = self.loss.space.shape
        return own if self.is_free is None else self.is_free.shape

    @cached_property
    def triangle(self) -> Triangle | None:
        """The same loss with fewer rows, if it has one."""
        return Triangle.of(self.loss)

    def variable(self, coef: Array) -> Array:
        """x for given coefficients."""
        x = coef if self.is_free is None else coef[~self.is_free]
        return x if self.units is None else (self.units * x.T).T

    def told(self, x: Array, fit: Fit) -> Fit:
        """The fit by the coefficients, in the precision of x."""
        coef = x if self.units is None else (x.T / self.units).T.astype(x.dtype, copy=False)
        if self.is_free is not None:
            penalised = coef
            coef = np.empty(self.shape, dtype=x.dtype)
            coef[~self.is_free] = penalised
            coef[self.is_free] = fit.unpenalised
        return replace(fit, coef=coef)


@dataclass(frozen=True)
class Size:
    """What keeps x small in one fit: a ridge, and a bound on the norm of x or a penalty of it."""

    ridge: float
    _: KW_ONLY
    radius: float | None = None
    l1: float | None = None

    @property
    def numbers(self) -> dict[str, float]:
        """What a line on the terminal shows."""
        if self.radius is None:
            return {"l1": float(self.l1 or 0.0), "ridge": self.ridge}
        return {"radius": self.radius, "ridge": self.ridge}

    @property
    def room(self) -> float:
        """What grows along a path: the radius, or less the penalties."""
        return -(float(self.l1 or 0.0) + self.ridge) if self.radius is None else self.radius


@dataclass
class Runs:
    """Runs of one f, each with what the last one left."""

    f: LossOfMatrix
    warm: Warm = field(default_factory=Warm)

    def problem(self, g: SizeKeeper) -> LossOnSet:
        """f + g: whatever the estimator, it is a loss of data on a set."""
        return LossOnSet(self.f, g, self.f if is_at_hand(self.f) else None)

    @cached_property
    def null(self) -> Any:
        """f at 0."""
        return self.f.at(self.f.space.full(0.0))

    @cached_property
    def null_size(self) -> float:
        """|F| at 0, against which gaps are held; 0 where it is no number."""
        size = abs(self.null.value)
        return size if math.isfinite(size) else 0.0


@dataclass(frozen=True)
class Solver:
    """How to minimise f(x) + ridge |x|_2^2 over a ball or under a penalty, and when all such fits
    together must end.
    """

    method: str
    tol: float
    max_iter: int
    positive: bool = False
    """Whether x >= 0 as well."""
    groups: Any = None
    """A label for each feature where the bound is on the sum of the norms of groups, not on |x|_1.
    """
    ends: float = math.inf
    """The moment of `time.perf_counter`, which is the same clock in all processes of a machine."""
    progress: bool = False
    """Whether each fit shows a line of its own."""

    @classmethod
    def starting_now(
        cls,
        method: str,
        tol: float,
        max_iter: int,
        time_limit: float | None,
        *,
        positive: bool = False,
        groups: Any = None,
    ) -> Solver:
        """A solver whose fits share a time limit that begins to run now."""
        max_iter = _checks.whole("max_iter", max_iter, at_least=0)
        if time_limit is None:
            return cls(method, tol, max_iter, positive, groups)
        seconds = _checks.number("time_limit", time_limit, at_least=0.0)
        return cls(method, tol, max_iter, positive, groups, ends=time.perf_counter() + seconds)

    @property
    def time_left(self) -> float | None:
        """What a fit that begins now may take."""
        return None if self.ends == math.inf else max(0.0, self.ends - time.perf_counter())

    def with_share_of_time(self, share: float) -> Solver:
        """A solver that ends when this share of the time left is spent."""
        left = self.time_left
        return self if left is None else replace(self, ends=self.ends - (1.0 - share) * left)

    def with_at_least(self, seconds: float) -> Solver:
        """A solver that has so many seconds from now on, or more."""
        return replace(self, ends=max(self.ends, time.perf_counter() + seconds))

    def solve(self, task: Task, size: Size, *, start: Array = None) -> Fit:
        """The solution for one size, from the coefficients of a start or their projection onto the
        ball.
        """
        x0 = None if start is None else task.variable(start)
        point, fit = self._solved(Runs(task.loss), size, self._simple(size), x0)
        return task.told(point.x, fit)

    def path(self, task: Task, sizes: Sequence[Size], line: FitsLine) -> list[Fit]:
        """The solutions for sizes with more and more room, each from where the two before point to.

        They are counted on a line.
        """
        triangle = self._triangle(task)
        runs = Runs(task.loss if triangle is None else triangle.loss)
        parts = [self._simple(size) for size in sizes]
        ahead = self._follower(runs, parts)
        x: Array = None
        before: Array = None
        fits: list[Fit] = []
        for k, size in enumerate(sizes):
            if fits and self.time_left == 0.0:  # radii increase: the last point is in the ball
                fits.append(fits[-1].unproved)
                line.fitted(relative_gap=math.inf, **size.numbers)
                continue
            start = x
            models = 0
            predicted = None if ahead is None else ahead.point(k)
            runs.warm.is_predicted = False
            if ahead is not None and predicted is not None:
                runs.warm = Warm(predicted, is_predicted=True)
                start = predicted.x
                models = ahead.models(k)
            elif (
                k > 1 and runs.warm.part is None
            ):  # Newton's models know where to go from the last point
                more = (size.room - sizes[k - 1].room) / (sizes[k - 1].room - sizes[k - 2].room)
                start = x + float(more) * (x - before)
            before = x
            point, fit = self._solved(runs, size, parts[k], start, models=models)
            x = point.x
            if ahead is not None and predicted is None:
                ahead.note(point, fit.multiplier)
            if triangle is not None:
                fit = triangle.told(x, fit)
            fits.append(task.told(x, fit))
            line.fitted(relative_gap=fit.relative_gap, **size.numbers)
        return fits

    def _triangle(self, task: Task) -> Triangle | None:
        """The same loss with fewer rows, unless its rounding would hide the tolerance."""
        triangle = task.triangle
        return None if triangle is None or self.tol < PROVABLE * triangle.unit else triangle

    def _follower(self, runs: Runs, parts: Sequence[Simple]) -> Follower | None:
        """What predicts the solutions of a path; None where nobody does."""
        if self.method != "auto" or self.progress or not parts:
            return None
        return follow(runs.f, parts, null=runs.null, tol=self._tol(runs.f), max_iter=self.max_iter)

    def idle_radius(self, f: LossOfMatrix, ridge: float) -> float:
        """The norm of the x without a constraint, roughly; 1 where that is 0.

        Features that are small in their unit, or a large ridge, leave little to gain over x = 0. So
        the gap is held against that gain, not against F; where no gain is to be seen at all, a
        gradient step from 0 is what the ridge leaves of the solution. A ridge of 0 may leave no
        solution without a constraint: the smallest ridge that is tried by default stands for it.
        """
        ridge = checked_ridge(ridge) or RIDGE_SHARES[0] * typical_square(f)
        here = f.at(f.space.full(0.0))
        if here.value == 0.0:
            return 1.0
        # no better than the origin is no solution: ridge |x|_2^2 <= f(0), and no norm here exceeds
        # sqrt(n) |x|_2
        entries = math.prod(f.space.shape)
        on = self._set((entries * here.value / ridge) ** 0.5)
        g = Ridge(ridge, on=on)
        runs = Runs(f)
        x = None
        tol = 1.0
        for _ in range(3):
            tol *= NEXT_TOL
            result = self._minimized(runs, g, x, tol, ROUGH_ITERATIONS)
            x = result.x
            if result.gap <= ROUGH * (here.value - result.value):
                return on.norm(x)
        return on.norm(x) or on.norm(g.argmin(here.gradient).point) or 1.0

    def _minimized(self, runs: Runs, g: SizeKeeper, x0: Array, tol: float, max_iter: int) -> Result:
        """The solution from a point of the set; by "auto" with what the last run left."""
        if self.method != "auto" or self.progress:
            return minimize(
                runs.f,
                g,
                x0,
                method=self.method,
                tol=tol,
                max_iter=max_iter,
                time_limit=self.time_left,
                progress=self.progress,
            ).uninterrupted()
        return minimize_next(
            runs.problem(g),
            g.on.start(runs.f.space) if x0 is None else x0,
            warm=runs.warm,
            null_size=runs.null_size,
            tol=tol,
            max_iter=max_iter,
            time_limit=self.time_left,
        )

    def _simple(self, size: Size) -> SizeKeeper:
        """The part of F that keeps x small."""
        ridge = checked_ridge(size.ridge)
        if size.radius is not None:
            return simple_part(ridge, self._set(size.radius))
        if self.groups is not None:
            raise ValueError("groups needs a radius, because the penalty is always of |coef|_1")
        return ElasticNet(size.l1 or 0.0, ridge, positive=self.positive)

    def _set(self, radius: float) -> FeatureSet:
        radius = _checks.number("radius", radius, at_least=0.0)
        if self.groups is not None:
            return GroupBall(radius, self.groups, positive=self.positive)
        return SolidSimplex(radius) if self.positive else L1Ball(radius)

    def _tol(self, f: LossOfMatrix) -> float:
        """The tolerance, or what a proof can be held to."""
        return max(_checks.number("tol", self.tol, at_least=0.0), PROVABLE * f.space.unit)

    def _solved(
        self, runs: Runs, size: Size, g: SizeKeeper, start: Array, *, models: int = 0
    ) -> tuple[ObjectivePoint, Fit]:
        """The solution, as a point and as a fit of its coefficients, from a start or its
        projection, which some models have led to.
        """
        on: Any = g.on
        tol = self._tol(runs.f)
        x0 = start
        if start is not None and on.violation(start) > 0.0:
            x0 = on.project(start)
        result = self._minimized(runs, g, x0, tol, self.max_iter - models)
        point = runs.warm.point
        if point is None or point.x is not result.x:
            point = ObjectivePoint(runs.f, g, result.x, Tally())
        return point, Fit(
            coef=result.x,
            intercept=point.smooth.intercept,
            value=result.value,
            gap=result.gap,
            radius=on.norm(result.x) if size.radius is None else size.radius,
            ridge=size.ridge,
            multiplier=multiplier_at(point, size.ridge, on) if size.l1 is None else size.l1,
            iterations=models + result.iterations,
            status=result.status,
            message=result.message,
            tol=tol,
            relative_gap=result.relative_gap,
            unpenalised=getattr(point.smooth, "unpenalised", None),
        )


def simple_part(ridge: float, on: Set) -> Ridge | Zero:
    """ridge |x|_2^2 on a set."""
    return Ridge(ridge, on=on) if ridge > 0.0 else Zero(on=on)


def checked_ridge(ridge: Any) -> float:
    """The ridge; 0 is the lasso."""
    return _checks.number("ridge", ridge, at_least=0.0)


def multiplier_at(point: ObjectivePoint, ridge: float, on: FeatureSet) -> float:
    """mu >= 0 for which a solution x minimises f + ridge |x|_2^2 + mu |x| too, in the norm of the
    set.

    At the solution the oracle's point is x itself: v = -grad f(x) / (2 ridge), soft-thresholded at
    mu / (2 ridge). That threshold is what the projection takes off the largest entries, and exactly
    0 where v lies in the set. A small ridge magnifies what is left of the gradient in v; there a
    point inside the set, for which mu <= gap / (radius - |x|_1), is the better witness. With no
    ridge, mu is the steepest slope towards the boundary.
    """
    if on.norm(point.x) < (1.0 - INSIDE) * on.scale:
        return 0.0
    c = double(point.smooth_gradient)
    xp = namespace(c)
    steepest = float(xp.max(on.pulls(c)))
    if ridge <= smallest(c):  # none, or less than floats of this kind can tell
        return max(0.0, steepest)
    answer = point.answer or point.g.argmin(c)
    return max(0.0, steepest - 2.0 * ridge * float(xp.max(on.pulls(-double(answer.point)))))


def default_radii(tasks: Sequence[Task], *, ridge: float, n_radii: int, solver: Solver) -> Any:
    """A geometric grid up to the radius from which on the constraint is idle."""
    _checks.whole("n_radii", n_radii, at_least=1)
    top = max(solver.idle_radius(task.loss, ridge) for task in tasks)
    return top * np.geomspace(SMALLEST_SHARE, 1.0, n_radii) if n_radii > 1 else np.array([top])


def largest_penalty(loss: LossOfMatrix, *, positive: bool) -> float:
    """The l1 from which on x = 0: the steepest slope there."""
    slope = loss.at(loss.space.full(0.0)).gradient
    return Penalised(0.0, positive).steepest(slope)


def default_ridges(tasks: Sequence[Task]) -> Any:
    """A few shares of the typical square of a feature: the ridges that are tried where nobody asks
    for others.
    """
    return np.array(RIDGE_SHARES) * typical_square(tasks[0].loss)


def typical_square(loss: LossOfMatrix) -> float:
    """The median of sum_i w_i K_ij^2 over the columns j that vary; about the column's mean where
    there is an intercept.

    It follows the units of the features, the weights and the number of samples as a ridge should. A
    mean would follow a single feature in a unit of its own, and so would the ridges for all others.
    """
    squares = loss.squares
    spread = squares
    if loss.h.has_intercept:
        spread = loss.squares_about_means
        spread = np.where(spread > CONSTANT**2 * squares, spread, 0.0)
    for each in (
        spread,
        squares,
    ):  # where no column varies, x is 0, and any ridge of the right unit will do
        if each.any():
            return float(np.median(each[each > 0.0]))
    return loss.mass


def checked_radii(radii: Any) -> Any:
    """A user's radii, each once, in increasing order."""
    checked = np.unique(
        [_checks.number("radii", radius, at_least=0.0) for radius in np.ravel(radii)]
    )
    if len(checked) == 0:
        raise ValueError(
            "radii must hold at least one radius, got none; leave it None for a default grid"
        )
    return checked


def warn_unless_converged(fits: Sequence[Fit], *, stacklevel: int) -> None:
    """One warning for all fits that fell short, with the gap that the worst is certified to."""
    short = [fit for fit in fits if fit.status is not Status.CONVERGED]
    if not short:
        return
    worst = max(short, key=lambda fit: fit.relative_gap)
    which = "" if len(fits) == 1 else f"{len(short)} of {len(fits)} fits fell short; the worst: "
    proof = f"the objective is within {worst.gap:.3g} of its minimum"
    if worst.gap == math.inf:
        proof = "nothing was proved about how far the objective is from its minimum"
    warnings.warn(
        f"{which}{worst.message}, but tol is {worst.tol:.3g}; {proof}. {ADVICE[worst.status]}, "
        "take a larger ridge or scale the features.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
