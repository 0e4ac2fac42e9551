"""A primal-dual interior-point method with Mehrotra's corrector, for polytopes by constraints.

The iterates are strictly inside the set. At each iterate the multipliers, which we call *prices*,
prove a lower bound, as those of a linear program do. So no linear program is solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import Array, dot, double, host, is_dense, is_torch, like, precision
from condgrad.certificate import Candidate, Iterate
from condgrad.errors import MissingAbility
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.problem import Answer, Simple, Smooth
from condgrad.rounding import ROUNDING_UNITS
from condgrad.search.backtracking import ARMIJO_FRACTION, backtrack
from condgrad.sets.barrier import (
    MOST_ENTRIES,
    OUTSIDE,
    SAME_ROWS,
    SHORTEST_INSIDE,
    Equations,
    Inequalities,
    InnerPoint,
    SquaredRows,
    Step,
    System,
    dense_rows,
    has_few,
    inverse_of_matrix,
)
from condgrad.sets.constraints import Polytope, Prices
from condgrad.simple import Zero
from condgrad.smooth.folding import Folded
from condgrad.smooth.intercept import less_projection, weighted_basis
from condgrad.structure import LossOnPolytope

MOST_DENSE_ROWS = 2000
"""The method is not used if its dense factors would have more rows: each step would take a second.
"""
WHOLE_UP_TO = 200
"""Up to this many coordinates, one dense matrix of all coordinates is factored. A problem of 50
assets takes half of the time that way."""
MOST_ON_FACE = 300
"""No point is moved onto a face with more rows: that would take longer than a step."""
MISSED = 1e-12
"""A point may miss the equations by this, in the unit of the set. Steps are solved for a tenth of
it, which is out of reach if some equations nearly depend on each other.
"""


@dataclass(frozen=True)
class AtPrices(Zero):
    """g = 0 on a polytope. Its bound comes from given prices instead of a linear program."""

    prices: Prices = field(kw_only=True)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        answer: Answer = self.on.priced(c, self.prices)  # type: ignore[attr-defined]
        return answer


@dataclass(frozen=True)
class InteriorNewton:
    """Newton's method for h(Kx) and linear terms on a `Polytope` that has an inside."""

    f: Smooth
    g: Simple
    loss: Folded = field(repr=False)
    name: ClassVar[str] = "newton"
    affordable: ClassVar[bool] = True
    is_ready: ClassVar[bool] = True
    head_start: ClassVar[int] = 0

    @classmethod
    def of(cls, problem: LossOnPolytope) -> InteriorNewton:
        """The method; an error names what the problem lacks for it."""
        f = problem.f
        on: Any = problem.g.on
        if on.inside is None:
            raise MissingAbility(
                f"{on!r} has no inside: no point satisfies all inequalities strictly"
            )
        K = problem.loss.composite.K
        if is_torch(K):
            raise MissingAbility(f"{f!r} has torch data, and the method needs NumPy or SciPy data")
        m, n = K.shape
        long_rows = m - int(np.count_nonzero(has_few(K if is_dense(K) else K.tocsr())))
        rows = long_rows + on.inside.count_of_long_rows
        if min(n, rows) > MOST_DENSE_ROWS or rows * n > MOST_ENTRIES:
            raise MissingAbility(f"{f!r} on {on!r} would need dense factors that are too large")
        return cls(f, problem.g, problem.loss)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        on: Any = self.g.on
        path = InteriorPath(self, x)
        certifier = Certifier(self.f, self.g, path.tally)
        certifier.g = AtPrices(on, prices=on.prices_at(None, 1.0))
        yield certifier.iterate(path.point, 0.0)
        step = 0.0
        is_under_way = not deadline.passed() and path.begin()
        while is_under_way:
            certifier.g = AtPrices(on, prices=on.prices_at(path.at, path.divisor))
            iterate = certifier.iterate(path.point, step)
            yield iterate._replace(candidate=path.on_its_face())
            step = 0.0 if deadline.passed() else path.go_on()
            is_under_way = step > 0.0


class InteriorPath:
    """A run of the method: first the given start, then from the centre through the inside."""

    def __init__(self, method: InteriorNewton, x: Array) -> None:
        self.method = method
        on: Any = method.g.on
        self.on = on
        self.inside: Inequalities = on.inside
        self.kind = x
        """An array with the library, device and precision of the variable."""
        self.tally = Tally()
        self.hessian = HessianOfLoss(method.loss, on)
        self.system: System | None = None
        self.whole = self.hessian.is_whole(self.inside)
        """Whether `System` factors one matrix of all coordinates. Its faster way loses too many
        digits for some problems.
        """
        self.at: Any = None
        """The point with its slacks and prices, in the coordinates of the inside."""
        self.divisor = 1.0
        """F is divided by this: a power of 2, about the size of the first slopes. Then square
        roots are rounded alike, however large F is.
        """
        self.point = ObjectivePoint(method.f, method.g, x, self.tally)

    def begin(self) -> bool:
        """Go to the centre, with prices for which the sum of all s z is about the gap there.

        False if the gradient is 0 there.
        """
        inside = self.inside
        v = self.on.inner(self.on.centre)
        s = inside.slacks(v)
        self.point = self._objective(v)
        if not math.isfinite(self.point.value):
            return False
        gradient = self._gradient()
        self.divisor = 2.0 ** (math.frexp(float(np.abs(gradient).max()))[1] - 1)
        gradient = gradient / self.divisor
        goal = float(np.abs(gradient) @ np.minimum(v - inside.lower, inside.upper - v)) / len(s)
        self.at = InnerPoint(v, s, goal / s, np.zeros(len(inside.e)))
        return goal > 0.0

    def _objective(self, v: Array) -> ObjectivePoint:
        x = like(self.on.outer(v), self.kind)
        return ObjectivePoint(self.method.f, self.method.g, x, self.tally)

    def _gradient(self) -> Array:
        """The gradient in the coordinates of the inside, divided."""
        slope: Array = self.on.inner_slope(double(host(self.point.smooth_gradient)))
        return slope / self.divisor

    def go_on(self) -> float:
        """Take a step and return its length; 0 if no step helps."""
        at = self.at
        left = self.divisor * at.complementarity * len(at.s)
        if left <= precision(at.v) * self.point.terms.size:
            return 0.0  # what is left of the gap is below the rounding error of F
        residual = self._gradient() + self.inside.gradient_terms(at.z) + self.inside.E.T @ at.y
        equations = self._equations()
        ahead = None if equations is None else equations.step(residual, -at.s * at.z)
        if equations is None or ahead is None or not equations.has_digits:
            if not self.whole and len(at.v) <= MOST_DENSE_ROWS and not deadline.passed():
                self.whole = True
                self.system = None
                return self.go_on()
            if equations is None or ahead is None:
                return 0.0
        self.tally.inner_iterations += 1
        now = at.complementarity
        after = ahead.taken(at, ahead.longest(at)).complementarity
        goal = now * (after / now) ** 3
        short = goal - at.s * at.z
        length = self._taken(equations.step(residual, short - ahead.s * ahead.z), goal)
        if (
            length == 0.0 and not self.hessian.is_constant
        ):  # without the corrector the direction is one of descent
            length = self._taken(equations.step(residual, short), goal)
        return length

    def on_its_face(self) -> Candidate | None:
        """The point with the coordinates near a bound moved onto it; None if that leads out of P,
        or to a point where F is infinite.

        A constraint is near if slack / (largest slack) < price / (largest price). After the move
        the equations and the near rows no longer hold exactly. The other coordinates change a
        little, so that they hold again.
        """
        at = self.at
        inside = self.inside
        of_rows, of_lower, of_upper = inside.parts(at.s / at.s.max() < at.z / at.z.max())
        if np.count_nonzero(of_rows) + len(inside.e) > MOST_ON_FACE:
            return None
        v = np.where(of_lower, inside.lower, np.where(of_upper, inside.upper, at.v))
        room = np.minimum(v - inside.lower, inside.upper - v)
        rows = room * np.vstack([dense_rows(inside.A[of_rows]), dense_rows(inside.E)])
        squares = rows @ rows.T
        least = np.full(len(rows), SAME_ROWS * float(squares.diagonal().max(initial=0.0)))
        try:
            invert = inverse_of_matrix(squares, least)
        except np.linalg.LinAlgError:
            return None
        for _ in range(2):
            missed = np.concatenate([(inside.b - inside.A @ v)[of_rows], inside.e - inside.E @ v])
            v = v + room * (rows.T @ invert(missed))
        if not inside.violation(v) <= OUTSIDE:
            return None
        point = self._objective(np.clip(v, inside.lower, inside.upper))
        return Candidate(point.x, point.terms) if math.isfinite(point.value) else None

    def _equations(self) -> Equations | None:
        if self.system is None or not self.hessian.is_constant:
            self.system = System(
                self.inside, self.hessian.at(self.point, self.divisor), whole=self.whole
            )
        try:
            return Equations(self.system, self.at)
        except (np.linalg.LinAlgError, RuntimeError, deadline.OutOfTime):
            return None

    def _taken(self, step: Step, goal: float) -> float:
        """Halve the step until F plus the barrier falls, go there, and return how far that is."""
        longest = step.longest(self.at)
        if longest <= SHORTEST_INSIDE:
            return 0.0

        def attempt(share: float) -> tuple[InnerPoint, ObjectivePoint] | None:
            length = share * longest
            there = step.taken(self.at, length)
            there = replace(there, s=self.inside.slacks(there.v))
            if not (there.s.min() > 0.0 and self.inside.missed(there.v) <= MISSED):
                return None
            point = self._objective(there.v)
            falls = self.hessian.is_constant or self._falls(point, there, step, length, goal)
            return (there, point) if falls else None

        found = backtrack(attempt, shortest=SHORTEST_INSIDE / longest)
        if found is None:
            return 0.0
        share, (self.at, self.point) = found
        return share * longest

    def _falls(
        self, point: ObjectivePoint, there: InnerPoint, step: Step, length: float, goal: float
    ) -> bool:
        """Whether F plus `goal` times the barrier falls by `ARMIJO_FRACTION` times the prediction.

        What the equations were missed by counts at its price. If the equations have one solution
        only, a step is nothing else.
        """
        at = self.at
        met = dot(at.y + step.y, self.inside.E @ step.v)
        slope = dot(self._gradient(), step.v) + met - goal * float((step.s / at.s).sum())
        rise = (point.value - self.point.value) / self.divisor + length * met
        rise -= goal * float(np.log(there.s / at.s).sum())
        rounding = ROUNDING_UNITS * self.point.rounding / self.divisor
        return slope <= rounding and rise <= ARMIJO_FRACTION * length * slope + rounding


class HessianOfLoss:
    """The Hessian of h(Kx) in the coordinates of the inside, as the sum of squares of rows."""

    def __init__(self, loss: Folded, on: Polytope) -> None:
        self.loss = loss
        self.h = loss.on_host
        self.is_constant = bool(self.h.quadratic)
        K = loss.composite.K
        K = double(K) if is_dense(K) else scipy.sparse.csr_array(K, dtype=np.float64)
        K = on.inner_rows(K)
        self.free = loss.free
        """The columns that are minimised out, if any. Then no row counts as one with few entries,
        since the projection off these columns fills all of them.
        """
        is_few = has_few(K) & (self.free is None)
        self.is_few = is_few
        self.few = scipy.sparse.csr_array(K[is_few])
        self.many = dense_rows(K[~is_few])

    def is_whole(self, on: Inequalities) -> bool:
        """Whether to factor one matrix with a row for each coordinate: it is small, or smaller than
        the other.
        """
        n = len(on.lower)
        return n <= WHOLE_UP_TO or len(self.many) + on.count_of_long_rows >= n

    def at(self, point: ObjectivePoint, divisor: float) -> SquaredRows:
        """Of F over the divisor."""
        best = self.loss.at_best(point.smooth)
        z = host(self.loss.loss_at(point.smooth).z)
        w = self.h.curvature(z, intercept=best.intercept) / divisor
        few = scipy.sparse.diags_array(np.sqrt(w[self.is_few])) @ self.few
        w = w[~self.is_few]
        many = self.many
        if self.free is not None:
            many = less_projection(many, weighted_basis(self.free, w), w)
        return SquaredRows(few, np.sqrt(w)[:, None] * many)
