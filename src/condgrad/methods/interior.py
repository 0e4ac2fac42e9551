"""Newton's method inside a polytope by constraints: a primal-dual method with Mehrotra's corrector.

The iterates are inside the set, and their prices prove a lower bound each, as those of a linear
program do. So no linear program is solved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import Array, dot, double, host, is_dense, is_torch, like
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.problem import Answer, Simple, Smooth
from condgrad.rounding import ROUNDING_UNITS
from condgrad.sets.barrier import (
    SHORTEST,
    Equations,
    Inequalities,
    InnerPoint,
    SquaredRows,
    Step,
    System,
    has_few,
)
from condgrad.sets.constraints import Polytope, Prices
from condgrad.simple import Zero
from condgrad.smooth.folding import FoldedLoss
from condgrad.smooth.free_columns import less_projection, orthonormal

LARGEST = 3000
"""Rows of the equations beyond which the method is not taken: their factors would take seconds each."""
FALLING = 1e-4
"""The share of what the slope promises that F and the barrier must fall by."""


@dataclass(frozen=True)
class AtPrices(Zero):
    """g = 0 on a polytope, whose bound is that of prices at hand in place of a linear program's."""

    prices: Prices = field(kw_only=True)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        answer: Answer = self.on.priced(c, self.prices)  # type: ignore[attr-defined]
        return answer


@dataclass(frozen=True)
class InteriorNewton:
    """Newton's method for h(Kx) and linear terms on a `Polytope` that has an inside."""

    f: Smooth
    g: Simple
    loss: FoldedLoss = field(repr=False)
    name: ClassVar[str] = "newton"

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> InteriorNewton:
        """The method, or a sentence that names the missing piece."""
        if not (isinstance(g, Zero) and isinstance(g.on, Polytope)):
            raise MissingAbility(f"{g!r} is not Zero on a Polytope")
        if g.on.inside is None:
            raise MissingAbility(f"{g.on!r} has no inside: it is thin")
        loss = FoldedLoss.of(f)
        if is_torch(loss.composite.K):
            raise MissingAbility(f"{f!r} has data of torch: NumPy's and SciPy's are taken")
        m, n = loss.composite.K.shape
        if min(n, m + g.on.inside.A.shape[0]) > LARGEST:
            raise MissingAbility(f"{f!r} on {g.on!r} is too large for factors")
        return cls(f, g, loss)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        on: Any = self.g.on
        path = InteriorPath(self, x)
        certifier = Certifier(self.f, self.g, path.tally)
        start = ObjectivePoint(self.f, self.g, x, path.tally)
        certifier.g = AtPrices(on, prices=on.prices_at(None))
        yield certifier.iterate(start, 0.0)
        step = 0.0
        if deadline.passed() or not path.begin():
            return
        while True:
            certifier.g = AtPrices(on, prices=on.prices_at(path.at))
            yield certifier.iterate(path.point, step)
            if deadline.passed():
                return
            step = path.go_on()
            if step == 0.0:
                return


class InteriorPath:
    """The way of the method through the inside, from its centre."""

    def __init__(self, method: InteriorNewton, x: Array) -> None:
        self.method = method
        self.on: Any = method.g.on
        self.inside: Inequalities = self.on.inside
        self.kind = x
        """An array of the kind of the variable."""
        self.tally = Tally()
        self.hessian = HessianOfLoss(method.loss, self.on)
        self.system: System | None = None
        self.whole = self.hessian.is_tall(self.inside)
        self.at: Any = None
        self.point: Any = None

    def begin(self) -> bool:
        """Be at the centre, with prices at which the sum of all s z is about the gap there."""
        inside = self.inside
        v = self.on.inner(self.on.centre)
        s = inside.slacks(v)
        self.point = self._objective(v)
        gradient = self._gradient()
        goal = float(np.abs(gradient) @ np.minimum(v - inside.lower, inside.upper - v)) / len(s)
        self.at = InnerPoint(v, s, goal / s, np.zeros(len(inside.e)))
        return goal > 0.0

    def _objective(self, v: Array) -> ObjectivePoint:
        x = like(self.on.outer(v), self.kind)
        return ObjectivePoint(self.method.f, self.method.g, x, self.tally)

    def _gradient(self) -> Array:
        """In the coordinates of the inside."""
        return self.on.inner_slope(double(host(self.point.smooth_gradient)))

    def go_on(self) -> float:
        """A step, which is returned; 0 where none helps."""
        at = self.at
        residual = self._gradient() + self.inside.pulls(at.z) + self.inside.E.T @ at.y
        equations = self._equations()
        if equations is None:
            return 0.0
        ahead = equations.step(residual, -at.s * at.z)
        if not equations.has_digits and not self.whole:
            self.whole = True
            self.system = None
            return self.go_on()
        length = ahead.longest(at)
        goal = at.complementarity * (ahead.taken(at, length).complementarity / at.complementarity) ** 3
        short = goal - at.s * at.z
        self.tally.inner_iterations += 1
        return self._taken(equations.step(residual, short - ahead.s * ahead.z), goal) or (
            0.0 if self.hessian.is_constant else self._taken(equations.step(residual, short), goal)
        )

    def _equations(self) -> Equations | None:
        if self.system is None or not self.hessian.is_constant:
            self.system = System(self.inside, self.hessian.at(self.point), whole=self.whole)
        try:
            return Equations(self.system, self.at)
        except (np.linalg.LinAlgError, RuntimeError):
            return None

    def _taken(self, step: Step, goal: float) -> float:
        """Go along a step as far as F and the barrier fall; how far that is."""
        at = self.at
        length = step.longest(at)
        while length > SHORTEST and not deadline.passed():
            there = step.taken(at, length)
            there = replace(there, s=self.inside.slacks(there.v))
            if there.s.min() > 0.0:
                point = self._objective(there.v)
                if self.hessian.is_constant or self._falls(point, there, step, length, goal):
                    self.at = there
                    self.point = point
                    return length
            length *= 0.5
        return 0.0

    def _falls(
        self, point: ObjectivePoint, there: InnerPoint, step: Step, length: float, goal: float
    ) -> bool:
        """Whether F and the barrier at some goal of s z fall by a share of what the slope promises."""
        at = self.at
        slope = dot(self._gradient(), step.v) - goal * float((step.s / at.s).sum())
        rise = point.value - self.point.value - goal * float(np.log(there.s / at.s).sum())
        return rise <= FALLING * length * slope + ROUNDING_UNITS * point.rounding if slope < 0.0 else False


class HessianOfLoss:
    """The Hessian of h(Kx) in the coordinates of the inside, as rows whose squares it sums."""

    def __init__(self, loss: FoldedLoss, on: Polytope) -> None:
        self.loss = loss
        self.h = loss.on_host
        self.is_constant = bool(self.h.quadratic)
        K = loss.composite.K
        K = double(K) if is_dense(K) else scipy.sparse.csr_array(K, dtype=np.float64)
        K = on.inner_rows(K)
        self.free = loss.free
        """The columns that are minimised out: taken off, they leave no entry at 0."""
        is_few = has_few(K) & (self.free is None)
        self.is_few = is_few
        self.few = scipy.sparse.csr_array(K[is_few])
        many = K[~is_few]
        self.many = many if is_dense(many) else many.toarray()

    def is_tall(self, on: Inequalities) -> bool:
        """Whether rows are more than coordinates."""
        return len(self.many) + on.many.shape[0] + on.E.shape[0] >= len(on.lower)

    def at(self, point: ObjectivePoint) -> SquaredRows:
        best = self.loss.at_best(point.smooth)
        z = host(self.loss.loss_at(point.smooth).z)
        w = self.h.curvature(z, intercept=best.intercept)
        few = scipy.sparse.diags_array(np.sqrt(w[self.is_few])) @ self.few
        w = w[~self.is_few]
        many = self.many
        if self.free is not None:
            many = less_projection(many, orthonormal(self.free, w), w)
        return SquaredRows(few, np.sqrt(w)[:, None] * many)
