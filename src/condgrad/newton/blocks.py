"""Newton's method for F(x) = f(x) + ridge |x|^2 where the data of f are in blocks on the workers of Dask.

The same as `faces`, with one model for each working set. A step takes three passes over the data, each a tree of sums:

1. the gradient of f, which proves a bound and chooses the working set W;
2. the Hessian of f in W, by which the driver has a quadratic model of F, minimised over the set by `face_qp`;
3. the margins K y of its least point y, which stay on the workers. F between x and y follows from the margins alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, dot, double, steepest_indices
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.kernels import readiness
from condgrad.kernels.thresholds import ACCURACY, LEAST_SLOPE_CURVATURE, ROUNDS
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.spg import armijo_step
from condgrad.newton.face_models import NormBall, SetWithFaces, interruptible, polytope_of
from condgrad.newton.working_set import pulled_in, pulls
from condgrad.problem import Simple
from condgrad.rounding import LEAST_CURVATURE
from condgrad.search.steps import Armijo
from condgrad.sets import Simplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth.blockwise import BlockwiseLoss

SMALL = 500
"""Coordinates up to which the working set is all of them."""
LARGEST = 4096
"""Coordinates of the largest working set, whose matrix the driver holds."""


class LeastOfModel(NamedTuple):
    """The least point of a model over the set, and its multiplier."""

    x: Array
    multiplier: float
    fall: float
    """What the slope promises on the way there, at least."""


@dataclass(frozen=True)
class BlockNewton:
    """Newton's method for a `BlockwiseLoss` and a ridge on a set with faces."""

    f: BlockwiseLoss
    g: Ridge | Zero
    name: ClassVar[str] = "newton"
    needs_kernels: ClassVar[bool] = True

    @classmethod
    def of(cls, f: BlockwiseLoss, g: Simple) -> BlockNewton:
        """The method, or a sentence that names the missing piece."""
        if not isinstance(g, Ridge | Zero):
            raise MissingAbility(f"{g!r} is no quadratic: Ridge and Zero are")
        if not isinstance(g.on, SetWithFaces):
            raise MissingAbility(f"{g.on!r} has no faces: L1Ball, Simplex, SolidSimplex and Box do")
        return cls(f, g)

    @property
    def affordable(self) -> bool:
        """Whether a working set may be all of the coordinates that are not 0."""
        return isinstance(self.g.on, NormBall) or self.f.space.shape[0] <= LARGEST

    def iterates(self, x: Array) -> Iterator[Iterate]:
        tally = Tally()
        certifier, here = Certifier(self.f, self.g, tally), ObjectivePoint(self.f, self.g, x, tally)
        step, gap, multiplier = 0.0, math.inf, -1.0
        while True:
            iterate = certifier.iterate(here, step)
            yield iterate
            if not readiness.wait():
                return
            before, gap = gap, iterate.value - iterate.lower_bound
            chosen = self._working_set(here)
            if deadline.passed() or self.g.on.scale == 0.0 or len(chosen) > LARGEST:
                return
            least = self._least_point(here, chosen, multiplier)
            if least is None or deadline.passed():
                return
            multiplier = least.multiplier
            step, there = armijo_step(here, here.at(least.x), least.fall, here.value, armijo=Armijo())
            tally.inner_iterations += 1
            # where F has no digits left, the gap may still have some
            if step == 0.0 or (not there.value < here.value and gap > 0.5 * before):
                return
            here = there

    def _working_set(self, here: ObjectivePoint) -> Array:
        """All coordinates, or in a `NormBall` those that are not 0 and as many again with the largest pulls."""
        n, used = here.x.shape[0], int(np.count_nonzero(here.x))
        size = max(SMALL, 2 * used)
        if n <= size or not isinstance(self.g.on, NormBall):
            return np.arange(n)
        return np.sort(steepest_indices(pulls(here), here.x, size))

    def _least_point(self, here: ObjectivePoint, chosen: Array, multiplier: float) -> LeastOfModel | None:
        """The least point of the model of F in some coordinates, the others staying 0."""
        from condgrad.ball.compiled import face_qp
        from condgrad.ball.compiled.free_block import of_matrix

        on: Any = self.g.on
        x, slope = double(here.x[chosen]), double(here.gradient[chosen])
        steepest = float(np.abs(slope).max())
        if steepest == 0.0:
            return None
        if isinstance(on, Simplex):  # what all coordinates share moves nothing, and would hide what they do not
            slope = slope - dot(slope, x) / on.mass
        H = np.ascontiguousarray(here.smooth.newton_system(chosen).gram)
        diagonal = np.einsum("jj->j", H)
        ridge = self.g.weight
        # where means cancel, rounding may leave less than 0
        diagonal[:] = (1.0 + LEAST_CURVATURE) * np.maximum(diagonal, 0.0)
        diagonal += 2.0 * ridge + LEAST_SLOPE_CURVATURE * steepest / on.scale
        stop = np.zeros(1, np.bool_)
        arguments = (of_matrix(H), slope, x, polytope_of(on, x))
        y, multiplier, _, _ = interruptible(
            lambda: face_qp.minimise(*arguments, multiplier, ACCURACY, ROUNDS, stop), stop
        )
        d = y - x
        # at a least point -<slope, d> >= <d, H d>, which rounding may hide
        fall = max(-dot(slope, d), dot(d, H @ d))
        end = np.zeros_like(here.x)
        end[chosen] = y
        return LeastOfModel(end if on.violation(end) == 0.0 else pulled_in(on, end), multiplier, fall)
