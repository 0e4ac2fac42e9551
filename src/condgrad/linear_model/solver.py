"""One constrained problem, or a path of them: what every estimator here asks of `condgrad.minimize`."""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from condgrad import _checks, deadline, kernels
from condgrad.arrays import Array, double, host, is_dense, like, namespace, product, smallest, total
from condgrad.ball.compiled import L1_BALL, SOLID_SIMPLEX
from condgrad.kernels import readiness
from condgrad.linear_model.follower import CertifiedGuess, PathFollower
from condgrad.linear_model.path_models import INSIDE
from condgrad.linear_model.progress import FitsLine
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.minimize import minimize
from condgrad.problem import Set, Simple, Smooth
from condgrad.result import ADVICE, Status
from condgrad.sets import GroupBall, L1Ball, SolidSimplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.blockwise_multinomial import BlockwiseMultinomial
from condgrad.smooth.row_blocks import CONSTANT, squares_about

FeatureSet = L1Ball | SolidSimplex | GroupBall
"""Where the coefficients may be."""

SMALLEST_SHARE = 1e-3
"""The first radius of a default grid, as a share of the last."""

RIDGE_SHARES = (1e-3, 1e-2, 1e-1)
"""The ridges that are tried by default, as shares of the typical curvature of a least-squares loss."""

ROUGH = 0.03
"""The gap of the solution without a constraint, as a share of what it gains over x = 0, at which its norm is known."""

ROUGHLY = 1000
"""Iterations for the norm of the solution without a constraint: a grid needs no more digits than these bring."""

FROM_AFAR = 30
"""Steps that a follower may take without halving the gap where it starts far from the solution."""

PROVABLE = 100.0
"""The smallest tolerance in rounding units of the data: a proof is no better than they are."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The solution of one problem, with its proof."""

    coef: Array
    intercept: Any
    """A number, or one for each class where one problem has several."""
    value: float
    gap: float
    multiplier: float
    iterations: int
    status: Status
    message: str
    tol: float
    """The gap / scale that was asked for."""
    relative_gap: float
    """The gap / scale that was reached."""

    @property
    def unproved(self) -> Fit:
        """The same point for a problem that there was no time for."""
        status, nothing = Status.TIME_LIMIT, math.inf
        message = message_of(status, self.tol, nothing)
        return replace(self, gap=nothing, iterations=0, status=status, message=message, relative_gap=nothing)


@dataclass(frozen=True, eq=False)
class Task:
    """A loss, and the units of its variable: x = units * coef, a row of x being a feature."""

    loss: Smooth
    units: Any = None
    """One for each feature; None where all are 1."""

    def variable(self, coef: Array) -> Array:
        """x for given coefficients."""
        return coef if self.units is None else (self.units * coef.T).T

    def coefficients(self, x: Array) -> Array:
        """The coefficients for a given x, in its precision."""
        return x if self.units is None else (x.T / self.units).T.astype(x.dtype, copy=False)


@dataclass(frozen=True)
class Solver:
    """How to minimise f(x) + ridge |x|_2^2 over a ball of a radius, and when all such fits together must end."""

    method: str
    tol: float
    max_iter: int
    positive: bool = False
    """Whether x >= 0 as well."""
    groups: Any = None
    """A label for each feature where the bound is on the sum of the norms of groups, not on |x|_1."""
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
        if positive and groups is not None:
            raise ValueError("groups goes with positive=False: the ball of groups has no version without signs")
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

    def solve(self, task: Task, *, radius: float, ridge: float, start: Array = None) -> Fit:
        """The solution for one radius, from the projection of the coefficients of a start onto the ball."""
        x, fit = self._solved(task.loss, radius, ridge, None if start is None else task.variable(start))
        return replace(fit, coef=task.coefficients(x))

    def path(self, task: Task, *, radii: Sequence[float], ridge: float, line: FitsLine) -> list[Fit]:
        """The solutions for increasing radii, each from where the two before point to, counted on a line."""
        follower: PathFollower | None = None
        points: list[Array] = []
        fits: list[Fit] = []
        ahead_of_turn: deque[Fit] = deque()
        for k, radius in enumerate(radii):
            if fits and not ahead_of_turn and self.time_left == 0.0:  # radii increase: the last point is in the ball
                fits.append(fits[-1].unproved)
                line.fitted(radius=radius, ridge=ridge, relative_gap=math.inf)
                continue
            if follower is None:  # until its kernels are compiled
                follower = self._follower(task.loss)
            if follower is not None and not ahead_of_turn:
                ahead_of_turn.extend(self._next_fits(task.loss, np.array(radii[k:], np.float64), ridge, follower))
            if ahead_of_turn:
                fit = ahead_of_turn.popleft()
                x = fit.coef
            else:
                start = points[-1] if points else None
                if follower is None and k > 1:
                    ahead = (radius - radii[k - 1]) / (radii[k - 1] - radii[k - 2])
                    start = start + float(ahead) * (start - points[-2])
                x, fit = self._solved(task.loss, radius, ridge, start, follower)
            points.append(x)
            fits.append(fit if task.units is None else replace(fit, coef=task.coefficients(x)))
            line.fitted(radius=radius, ridge=ridge, relative_gap=fit.relative_gap)
        return fits

    def idle_radius(self, f: Smooth, ridge: float) -> float:
        """The norm of the x without a constraint, roughly; 1 where that is 0.

        Features that are small in their unit, or a large ridge, leave little to gain over x = 0. So the gap is held
        against that gain, not against F; where no gain is to be seen at all, a gradient step from 0 is what the ridge
        leaves of the solution. A ridge of 0 may leave no solution without a constraint: the smallest ridge that
        is tried by default stands for it.
        """
        ridge = checked_ridge(ridge) or RIDGE_SHARES[0] * typical_square(f)
        here = f.at(f.space.full(0.0))  # type: ignore[union-attr]
        if here.value == 0.0:
            return 1.0
        # no better than the origin is no solution: ridge |x|_2^2 <= f(0), and no norm here exceeds sqrt(n) |x|_2
        entries = math.prod(f.space.shape)  # type: ignore[union-attr]
        on = self._set((entries * here.value / ridge) ** 0.5)
        g = Ridge(ridge, on=on)
        follower = self._follower(f)
        x0 = None
        for tol in (1e-3, 1e-6, 1e-9):
            x, value, gap = self._roughly(f, g, x0, tol, follower)
            if gap <= ROUGH * (here.value - value):
                return size_in(on, x)
            x0 = x
        return size_in(on, x) or size_in(on, g.argmin(here.gradient).point) or 1.0

    def _roughly(
        self, f: Smooth, g: Ridge, x0: Array, tol: float, follower: PathFollower | None
    ) -> tuple[Array, float, float]:
        """A point, F there and its gap."""
        if follower is not None and follower.starts_anywhere:
            with deadline.within(self.time_left), kernels.within_run(used=True):
                start = g.on.start(f.space) if x0 is None else x0  # type: ignore[arg-type]
                found = follower.follow(g, g.weight, start, tol=tol, most_steps=ROUGHLY, patience=FROM_AFAR)
            if found is not None and found.proof.relative_gap <= tol:
                return found.proof.x, found.proof.value, found.proof.gap
        result = minimize(f, g, x0, method=self.method, tol=tol, max_iter=ROUGHLY, time_limit=self.time_left)
        result.uninterrupted()
        return result.x, result.value, result.gap

    def _set(self, radius: float) -> FeatureSet:
        radius = _checks.number("radius", radius, at_least=0.0)
        if self.groups is not None:
            return GroupBall(radius, self.groups)
        return SolidSimplex(radius) if self.positive else L1Ball(radius)

    def _follower(self, f: Smooth) -> PathFollower | None:
        """What goes from one radius to the next, unless the user asks for a method."""
        asked = self.method != "auto" or self.progress or self.groups is not None
        if asked or not PathFollower.can_follow(f) or not readiness.available():
            return None
        return PathFollower(f)  # type: ignore[arg-type]

    def _tol(self, f: Smooth) -> float:
        """The tolerance, or what a proof can be held to."""
        return max(_checks.number("tol", self.tol, at_least=0.0), PROVABLE * f.unit)

    def _next_fits(self, f: Smooth, radii: Array, ridge: float, follower: PathFollower) -> list[Fit]:
        """The solutions for the first of the next radii, as far as the follower finds them at once."""
        ridge, tol = checked_ridge(ridge), self._tol(f)
        g = simple_part(ridge, self._set(float(radii[0])))
        with deadline.within(self.time_left), kernels.within_run(used=True):
            solutions = follower.solve_radii(g, radii, ridge, tol=tol, most_models=self.max_iter)
        return [
            Fit(
                coef=end.x,
                intercept=end.intercept,
                value=end.value,
                gap=end.gap,
                multiplier=end.multiplier,
                iterations=end.models,
                status=Status.CONVERGED,
                message=message_of(Status.CONVERGED, tol, end.relative_gap),
                tol=tol,
                relative_gap=end.relative_gap,
            )
            for end in solutions
        ]

    def _solved(
        self,
        f: Smooth,
        radius: float,
        ridge: float,
        start: Array,
        follower: PathFollower | None = None,
    ) -> tuple[Array, Fit]:
        """The solution, as a point and as a fit of its coefficients.

        It is looked for from the projection of the start onto the set, first by a follower. Where that fails, its point
        has many coordinates that are not those of the solution, and the start is the better one for `minimize`. The
        models of a follower count as iterations: both together take `max_iter` of them at most.
        """
        on, ridge = self._set(radius), checked_ridge(ridge)
        g = simple_part(ridge, on)
        tol = self._tol(f)
        x0 = None if start is None else on.project(start)
        models = 0
        if follower is not None:
            with deadline.within(self.time_left), kernels.within_run(used=True):
                first = on.start(f.space) if x0 is None else x0  # type: ignore[arg-type]
                found = follower.follow(g, ridge, first, tol=tol, most_steps=self.max_iter)
                fit = None if found is None else fit_of_guess(found, on, ridge, tol, max_iter=self.max_iter)
            if found is not None and fit is not None:
                follower.note(radius, found.point, fit.multiplier)
                return found.point.x, fit
            models = 0 if found is None else found.steps
        result = minimize(
            f,
            g,
            x0,
            method=self.method,
            tol=tol,
            max_iter=self.max_iter - models,
            time_limit=self.time_left,
            progress=self.progress,
        ).uninterrupted()
        point = ObjectivePoint(f, g, result.x, Tally())
        mu = multiplier_at(point, ridge, on)
        if follower is not None:
            follower.note(radius, point, mu)
        return result.x, Fit(
            result.x,
            point.smooth.intercept,
            result.value,
            result.gap,
            mu,
            models + result.iterations,
            result.status,
            result.message,
            tol,
            result.relative_gap,
        )


def simple_part(ridge: float, on: Set) -> Simple:
    """ridge |x|_2^2 on a set."""
    return Ridge(ridge, on=on) if ridge > 0.0 else Zero(on=on)


def fit_of_guess(guess: CertifiedGuess, on: FeatureSet, ridge: float, tol: float, *, max_iter: int) -> Fit | None:
    """A guess as a fit, if it is good enough, or has a proof and no iteration or time is left for a better one."""
    point, proof = guess.point, guess.proof
    if proof.relative_gap <= tol:
        status = Status.CONVERGED
    elif math.isfinite(proof.gap) and guess.steps == max_iter:
        status = Status.ITERATION_LIMIT
    elif math.isfinite(proof.gap) and deadline.passed():
        status = Status.TIME_LIMIT
    else:
        return None
    return Fit(
        point.x,
        point.smooth.intercept,
        proof.value,
        proof.gap,
        multiplier_at(point, ridge, on),
        guess.steps,
        status,
        message_of(status, tol, proof.relative_gap),
        tol,
        proof.relative_gap,
    )


def message_of(status: Status, tol: float, relative_gap: float) -> str:
    """Why a follower ended, and with which gap."""
    verdict = f"within the tolerance {tol:.3g}" if status is Status.CONVERGED else str(status.value)
    return f"{verdict}; gap / scale is {relative_gap:.3g}"


def checked_ridge(ridge: Any) -> float:
    """The ridge; 0 is the lasso."""
    return _checks.number("ridge", ridge, at_least=0.0)


def size_in(on: FeatureSet, x: Array) -> float:
    """The norm of x that the set bounds."""
    return on.norm(x) if isinstance(on, GroupBall) else total(namespace(x).abs(x))


def multiplier_at(point: ObjectivePoint, ridge: float, on: FeatureSet) -> float:
    """The multiplier of the constraint, at a solution that is certified."""
    solved = point.linearised
    if solved is None or solved.threshold is None:
        return multiplier(point.x, double(point.smooth_gradient), ridge, on)
    return solved.threshold if size_in(on, point.x) >= (1.0 - INSIDE) * on.scale else 0.0


def multiplier(x: Array, gradient: Array, ridge: float, on: FeatureSet) -> float:
    """mu >= 0 for which x minimises f + ridge |x|_2^2 + mu |x| too, in the norm of the set, from x and grad f(x).

    At the solution the oracle's point is x itself: v = -grad f(x) / (2 ridge), soft-thresholded at mu / (2 ridge). That
    threshold is what the projection takes off the largest entries, and exactly 0 where v lies in the set. A small
    ridge magnifies what is left of the gradient in v; there a point inside the set, for which
    mu <= gap / (radius - |x|_1), is the better witness. With no ridge, mu is the steepest slope towards the boundary.
    """
    if size_in(on, x) < (1.0 - INSIDE) * on.scale:
        return 0.0
    xp = namespace(gradient)
    sizes: Any = on.group_norms if isinstance(on, GroupBall) else (lambda v: v) if on.nonnegative else xp.abs
    if ridge <= smallest(gradient):  # none, or less than floats of this kind can tell
        return max(0.0, float(xp.max(sizes(-gradient))))
    if type(gradient) is np.ndarray and not isinstance(on, GroupBall) and kernels.in_use():
        from condgrad.kernels.working_set import least_by_threshold

        kind = SOLID_SIMPLEX if on.nonnegative else L1_BALL
        pulls = np.ravel(sizes(-gradient))
        return least_by_threshold(pulls, float(pulls.max()), ridge, kind, on.scale)[1]
    v = (-0.5 / ridge) * gradient
    # the largest entries have the same threshold taken off
    return 2.0 * ridge * max(0.0, float(xp.max(sizes(v))) - float(xp.max(sizes(on.project(v)))))


def default_radii(tasks: Sequence[Task], *, ridge: float, n_radii: int, solver: Solver) -> Any:
    """A geometric grid up to the radius from which on the constraint is idle."""
    _checks.whole("n_radii", n_radii, at_least=1)
    top = max(solver.idle_radius(task.loss, ridge) for task in tasks)
    return top * np.geomspace(SMALLEST_SHARE, 1.0, n_radii) if n_radii > 1 else np.array([top])


def default_ridges(tasks: Sequence[Task]) -> Any:
    """A few shares of the typical square of a feature: the ridges that are tried where nobody asks for others."""
    return np.array(RIDGE_SHARES) * typical_square(tasks[0].loss)


def typical_square(loss: Any) -> float:
    """The median of sum_i w_i K_ij^2 over the columns j that vary; about the column's mean where there is an intercept.

    It follows the units of the features, the weights and the number of samples as a ridge should. A mean would follow a
    single feature in a unit of its own, and so would the ridges for all others.
    """
    squares, sums, mass = moments(loss)
    spread = squares
    if loss.h.has_intercept:
        spread = squares_about_means(loss, sums / mass)
        spread = np.where(spread > CONSTANT**2 * squares, spread, 0.0)
    for each in (spread, squares):  # where no column varies, x is 0, and any ridge of the right unit will do
        if each.any():
            return float(np.median(each[each > 0.0]))
    return mass


def moments(loss: Any) -> tuple[Any, Any, float]:
    """sum_i w_i K_ij^2 and sum_i w_i K_ij for each column j, and sum_i w_i, on the host."""
    if isinstance(loss, BlockwiseLoss | BlockwiseMultinomial):
        return loss.moments
    K, w = loss.K, loss.h.weights
    sums, mass = host(product(K.T, w)), total(w)
    if not is_dense(K):
        return K.multiply(K).T @ w, sums, mass
    xp = namespace(K)
    squares = xp.einsum("ij,ij,i->j", K, K, xp.astype(w, K.dtype))
    return host(double(squares)), sums, mass


def squares_about_means(loss: Any, means: Any) -> Any:
    """sum_i w_i (K_ij - mean_j)^2 for each column j, on the host.

    It is a pass of its own: sum w K^2 - (sum w K)^2 / sum w has no digits where a mean is large beside the spread.
    """
    if isinstance(loss, BlockwiseLoss | BlockwiseMultinomial):
        return loss.squares_about_means
    K, w = loss.K, loss.h.weights
    (squares,) = squares_about(K if is_dense(K) else K.tocsr(), w, like(means, w))
    return host(squares)


def checked_radii(radii: Any) -> Any:
    """A user's radii, each once, in increasing order."""
    checked = np.unique([_checks.number("radii", radius, at_least=0.0) for radius in np.ravel(radii)])
    if len(checked) == 0:
        raise ValueError("radii must hold at least one radius, got none; leave it None for a default grid")
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
        f"{which}{worst.message}, where {worst.tol:.3g} was asked; {proof}. {ADVICE[worst.status]}, "
        "take a larger ridge or scale the features.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
