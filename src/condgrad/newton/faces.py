"""Newton's method for F(x) = h(Kx) + <tilt, x> + ridge |x|^2 on the l1 ball, the simplex, solid or not, and the box.

A working set is solved in the same way for all data, wide or tall, dense or sparse:

1. A working set W: the coordinates that are not 0 and, of the rest, those with the largest pulls (`pulls`).
2. A quadratic model of F in these coordinates, and its least point over the set (`face_models`).
3. A line search on F towards it; models and searches go on until W has little left to gain.
4. The full problem again: F from a fresh product K x, and its lower bound.

Where K in W is small, steps 2 and 3 are one compiled call (`kernels.working_set`); where all of K is, most runs are one
(`kernels.working_sets`), and the turns here take over what that leaves. Two points to go on from come from duals: those
of `SampleDual` for least squares and squared hinges once more coordinates than samples matter, and of coordinate ascent
for a squared hinge of sparse data whose constraint is likely slack.

The ridge may be 0: then the bound is that of the linear oracle, and the models are kept from being singular by a
curvature that is too small to move their least points. All thresholds are ratios of numbers of one unit: F, x or the
data in other units take the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from condgrad import deadline, kernels
from condgrad.arrays import (
    Array,
    Space,
    dot,
    double,
    is_dense,
    is_torch,
    namespace,
    norms_of_columns,
    total,
)
from condgrad.certificate import NULL_SHARE, Iterate
from condgrad.errors import MissingAbility
from condgrad.kernels.thresholds import FIRST_SIZE, SETTLED, SLOW
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.one_pass import OnePass
from condgrad.newton.face_models import NormBall, SetWithFaces, polytope_of
from condgrad.newton.working_set import MOST_OF_ALL, WorkingSet, not_zero_or_steep, pulled_in
from condgrad.problem import Simple, Smooth
from condgrad.sets import L1Ball
from condgrad.simple import Ridge, Zero
from condgrad.smooth import SquaredHinge
from condgrad.smooth.composite import AtBestIntercept
from condgrad.smooth.folding import FoldedLoss

LEAST_SIZE = 10
"""Coordinates of the first working set at least, where its size is chosen with care."""
SMALL, TALL = 200, 50_000
"""Coordinates up to which the first working set is all of them, or, from so many entries of K on, of a size that is
chosen with care: there its Gram matrix takes longer than all else."""
WIDE_BOX = 500
"""Coordinates up to which models of all of them pay on sets whose points are not sparse, with fewer samples."""
DUAL_PASSES, DUAL_GAP, DUAL_PATIENCE = 20, 1e-7, 3
"""Passes of coordinate ascent between two looks at its gap, the gap as a share of F at which it ends, and the looks
that may pass without halving it."""


@dataclass(frozen=True)
class FaceNewton:
    """Newton's method for a smooth loss of Kx, linear terms and a ridge on a set with faces."""

    f: Smooth
    g: Ridge | Zero
    loss: FoldedLoss = field(repr=False)
    wanted: float = 0.0
    """The gap that ends the run, as a share of the scale of F; 0 where that is not known."""
    name: ClassVar[str] = "newton"

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> FaceNewton:
        """The method, or a sentence that names the missing piece."""
        loss = FoldedLoss.of(f)
        if not isinstance(g, Ridge | Zero):
            raise MissingAbility(f"{g!r} is no quadratic: Ridge and Zero are")
        if not isinstance(g.on, SetWithFaces):
            raise MissingAbility(f"{g.on!r} has no faces: L1Ball, Simplex, SolidSimplex and Box do")
        return cls(f, g, loss)

    @property
    def needs_kernels(self) -> bool:
        """Whether its steps are compiled: those of tensors are not."""
        return not is_torch(self.loss.composite.K)

    @property
    def affordable(self) -> bool:
        """Where projected gradients are not ahead: where few coordinates matter, or samples are many."""
        m, n = self.loss.composite.K.shape
        return isinstance(self.g.on, NormBall) or n <= max(m, WIDE_BOX)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, n = self.f, self.g, x.shape[0]
        if not is_torch(x):
            kernels.use()
        space, tally = Space.of(x), Tally()
        certifier = Certifier(f, g, tally)
        may_be_sparse = g.on.solid and g.on.shape is None
        start = point = ObjectivePoint(f, g, x, tally)
        working_set: WorkingSet | None = None
        gap, may_try_inside, dual_due = math.inf, isinstance(g.on, L1Ball), self._has_dual_of_few_samples
        most_support = self.loss.composite.K.shape[0] if dual_due else n
        in_one_call = certifier.one_pass if self.wanted > 0.0 else None
        ends_slack = is_idle = False
        while True:
            has_fallen = point is not start if working_set is None else working_set.has_fallen
            step = 1.0 if has_fallen else 0.0
            iterate = certifier.iterate(point, step)
            yield iterate
            if deadline.passed() or g.on.scale == 0.0:
                return
            before, gap = gap, iterate.value - iterate.lower_bound
            if in_one_call is not None:
                (ahead, ends_slack), in_one_call = self._ahead(point, in_one_call, most_support), None
                if ahead is not None:
                    point = ahead
                    continue
            multiplier, size, suffices = None, FIRST_SIZE, False
            if working_set is None:
                # a start of the user's, or a point of a dual, may have many coordinates that are not 0
                size = max(self._first_size(point), 2 * int(namespace(x).count_nonzero(point.x)))
            else:
                was_idle, is_idle = is_idle, not working_set.has_fallen and not gap <= 0.5 * before
                spent = is_idle and (working_set.is_whole or was_idle)
                if spent and not working_set.inside:
                    return
                if spent:  # the boundary, or a ridge too small for the digits of steps inside: models of the set go on
                    working_set = None
            if working_set is not None:
                slow = gap > SLOW * before
                multiplier = working_set.multiplier
                size = n if working_set.stays_whole else working_set.next_size(point, slow=slow)
                if is_idle:  # what rounding hides in these coordinates, more of them may show, once
                    size = max(size, 2 * working_set.K.shape[1])
                suffices = working_set.is_whole or (not slow and working_set.suffices_at(point))
            if dual_due and self._outgrows_samples(point, working_set, size):
                dual_due, found = False, self._dual_point(point)
                if found.value < point.value:
                    working_set, point = None, found
                    continue
            whole = not may_be_sparse or n <= MOST_OF_ALL * size or (working_set is not None and working_set.inside)
            tries_inside = may_try_inside and not whole
            if tries_inside and (ends_slack if working_set is None else working_set.is_likely_slack(n)):
                ends_slack = False
                inside = self._solved_inside(start, gap)
                # one that leads no further would be found again
                may_try_inside = inside is not None and inside.here.value < point.value
                if inside is not None and may_try_inside and not deadline.passed():
                    working_set, point = inside, inside.point(f, space, tally)
                    continue
            if working_set is None or not suffices or whole != working_set.is_whole:
                chosen = None if whole else not_zero_or_steep(point, size)
                if chosen is not None and chosen.shape[0] == 0:  # the gradient is no number
                    return
                working_set = WorkingSet(self.loss, g, chosen, multiplier)
            working_set.begin(point)
            working_set.solve(SETTLED * gap)
            tally.inner_iterations += working_set.steps
            if deadline.passed():
                yield working_set.uncertified(iterate, tally, space)
                return
            if working_set.has_moved:
                point = working_set.point(f, space, tally)
            elif whole and not working_set.inside:
                return

    def _solved_inside(self, start: ObjectivePoint, gap: float) -> WorkingSet | None:
        """All coordinates inside the l1 ball; None where the constraint is not slack after all.

        From the start: what fits the samples in a few coordinates hides their curvature from the others.
        """
        found = WorkingSet(self.loss, self.g, None, 0.0, inside=True)
        found.begin(self._dual_start(start))
        found.solve(SETTLED * gap)
        start.tally.inner_iterations += found.steps
        return found if found.constraint_is_slack and self.g.on.violation(found.here.x) == 0.0 else None

    def _ahead(self, point: ObjectivePoint, oracle: OnePass, most_support: int) -> tuple[ObjectivePoint | None, bool]:
        """Where working sets lead to in one compiled call, if they lead on: mostly to the solution.

        It ends early where more than `most_support` coordinates are not 0. Behind it, whether the constraint is likely
        slack.
        """
        from condgrad.kernels.working_set import LinearisedOnBall, SearchPoint
        from condgrad.kernels.working_sets import SolvedByWorkingSets, solve_by_working_sets

        support = int(np.count_nonzero(point.x))
        solved, best, on_its_own = point.linearised, self.loss.at_best(point.smooth), self.loss.loss_at(point.smooth)
        if solved is None or support > most_support:
            return None, False
        size = max(self._first_size(point), 2 * support)
        start = SearchPoint(point.x, on_its_own.z, best.theta, best.value, best.intercept, point.value)
        ends = 0.5 * self.wanted, NULL_SHARE * point.value, most_support
        arguments = oracle.compiled, start, solved.c, solved.answer.bound, size, *ends
        found = SolvedByWorkingSets(*solve_by_working_sets(*arguments))
        point.tally.inner_iterations += found.steps
        if not found.has_moved:
            return None, False
        x, u, theta, loss, intercept, _ = found.point
        smooth = self.loss.evaluation(self.f, x, u, AtBestIntercept(loss, theta, intercept))
        linearised = oracle.solved(LinearisedOnBall(*found.linearised), smooth)
        there = ObjectivePoint(self.f, self.g, x, point.tally, smooth, afresh=True, linearised=linearised)
        return there, found.is_likely_slack

    def _first_size(self, point: ObjectivePoint) -> int:
        """How many coordinates the first working set should have.

        Of few coordinates, twice as many as would not be 0 at the least point of a model whose Hessian is diagonal:
        that is about as many as are not 0 at the solution.
        """
        on: Any = self.g.on
        m, n = self.loss.composite.K.shape
        if not isinstance(on, NormBall) or type(point.x) is not np.ndarray or n > SMALL:
            return FIRST_SIZE
        if m * n < TALL:
            return n
        from condgrad.ball.compiled.face_qp import separable_multiplier

        kind, size, _, _ = polytope_of(on, point.x)
        here = self.loss.loss_at(point.smooth)
        w = self.loss.h.curvature(here.z, intercept=here.at_best.intercept)
        # if all weights were their mean
        curvatures = (total(w) / w.shape[0]) * self.loss.composite.column_norms**2 + 2.0 * self.g.weight
        curvatures[curvatures == 0.0] = 1.0
        x, slope = double(point.x), double(point.gradient)
        multiplier = separable_multiplier(curvatures, slope, x, kind, size)
        ends = curvatures * x - slope
        likely = int(np.count_nonzero((ends if on.nonnegative else np.abs(ends)) > multiplier))
        return max(LEAST_SIZE, 2 * likely)

    @property
    def _has_dual_of_few_samples(self) -> bool:
        """Whether a `SampleDual` may be faster."""
        from condgrad.newton import sample_dual

        loss, g = self.loss, self.g
        if not isinstance(g, Ridge) or not isinstance(g.on, NormBall) or loss.tilt is not None:
            return False
        return sample_dual.is_worth_it(loss.composite, g.weight / loss.weight)

    def _outgrows_samples(self, point: ObjectivePoint, working_set: WorkingSet | None, size: int) -> bool:
        """Whether more coordinates than samples are not 0, or will be in a next working set of some size."""
        m = self.loss.composite.K.shape[0]
        is_slack = working_set is not None and working_set.constraint_is_slack
        return (is_slack and size > m) or int(namespace(point.x).count_nonzero(point.x)) > m

    def _dual_point(self, point: ObjectivePoint) -> ObjectivePoint:
        """The least point of all, about, by way of the dual."""
        from condgrad.newton.sample_dual import SampleDual

        g: Any = self.g
        dual = SampleDual(self.loss, g.weight, g.on)
        x = dual.least(self.loss.at_best(point.smooth).theta)
        point.tally.inner_iterations += dual.steps
        x = namespace(x).astype(x, point.x.dtype)
        return point.at(x if g.on.violation(x) == 0.0 else pulled_in(g.on, x))

    def _dual_start(self, start: ObjectivePoint) -> ObjectivePoint:
        """A point near the least one without a constraint, for a squared hinge of sparse data; for others the start.

        Newton's method is slow to see which samples fall short of their margins; coordinate ascent on the dual is fast.
        A pass over all samples is followed by some over those that fall short, until the gap between F and the dual is
        small or falls slowly, or the ball is left.
        """
        composite, on_its_own = self.loss.composite, self.loss.place is None
        if not (isinstance(composite, SquaredHinge) and on_its_own and isinstance(self.g, Ridge)):
            return start
        if is_dense(composite.K):
            return start
        from condgrad.kernels.hinge_ascent import ascend

        h: Any = composite.h
        K, ridge = composite.by_row, self.g.weight
        rows = K.indptr, K.indices, double(K.data), norms_of_columns(K.T) ** 2
        rng, theta, x = np.random.default_rng(0), np.zeros(K.shape[0]), np.zeros(K.shape[1])
        point, used, gaps = start, h.weights > 0.0, [math.inf] * DUAL_PATIENCE
        while not deadline.passed():
            intercept = point.smooth.at_best.intercept
            for turn in range(DUAL_PASSES):
                order = rng.permutation(np.flatnonzero(used if turn == 0 else theta))
                ascend(*rows, h.y, h.weights, 2.0 * ridge, intercept, order, theta, x)
                if deadline.passed():
                    break
            point = start.at(namespace(x).astype(x, start.x.dtype))
            dual_losses = np.abs(theta) + intercept * theta
            dual_losses[used] -= 0.25 * theta[used] * (theta[used] / h.weights[used])
            gaps.append(point.value - (total(dual_losses) - ridge * dot(x, x)))
            is_slow = not gaps[-1] < 0.5 * gaps[-1 - DUAL_PATIENCE]
            if is_slow or gaps[-1] <= DUAL_GAP * point.value or self.g.on.violation(x) > 0.0:
                break
        return point
