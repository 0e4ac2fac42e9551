"""Newton on the certificate: maximise the lower bound itself, by Newton's method along a path.

For f = h(Kx) and any z, `D(z) = h(z) - <grad h(z), z> + min_s [<K' grad h(z), s> + g(s)]` is a
lower bound on F*. It is a concave function, and its maximum is F*. CGS is gradient ascent on it, in
the metric of the Hessian of h. If the curvature of f is much larger than that of g, this is slow,
and Newton's method is not.

From a start far from the solution, Newton's method follows a path: t*g replaces g, and t falls to
1. Each t is a stage. It is solved to a low accuracy, and the next stage starts from its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from condgrad import deadline
from condgrad.arrays import Array, Space
from condgrad.certificate import (
    Effort,
    Iterate,
    Terms,
    rounding_noise,
    subnormal_size,
    tangent_bound,
)
from condgrad.errors import NotFiniteError
from condgrad.problem import Simple, Smooth
from condgrad.rounding import NO_GAIN
from condgrad.search.backtracking import ARMIJO_FRACTION, backtrack

STEPS_TO_CERTIFY = 3
"""A feasible point is made and certified after each so many steps of a stage."""
STAGE_RATIOS = (0.5, 0.7)
"""Each stage multiplies t by the first ratio, or by the second if the strain is too large after the
first.

With 0.25, `python -m experiments bench geometry` takes a quarter more passes, because steps go too
far.
"""
SHORTEST_CLIMB = 1e-10
"""The shortest fraction of a Newton step that is tried."""
FRUITLESS = 5
"""The run ends after so many iterations in a row that gain no more than the rounding error."""
ENTRY = 10.0
"""A stage begins at a point whose gap is at most this many times the tolerance of the stage, and
whose strain is at most this number.

With 30 for the gap, starts from coarse levels enter at a t that is too small: on a GPU 100 000
points take 1.5 to 2.6 times as long. Without the strain, 1000 points of 10 dimensions with heavy
tails take twice the passes, and digits of 64 dimensions nearly three times, because steps go too
far.
"""
FAR_FROM_PATH = 100.0
"""A point is far from the path if its gap is more than this many times the tolerance of the stage.
"""
SETTLED_STAGE = 1.5
"""A stage is finished after a whole Newton step whose slope was at most this many times its
tolerance, unless the gap is still more than `FAR_FROM_PATH` times the
tolerance.

A Newton step leaves a gap of about the square of its slope, in units of the entropy.
"""
WORTH_A_PLAN = 2.0
"""If plans are expensive, make one once the bound on its gap is below this many times the requested
gap: the gap itself is usually smaller than the bound.
"""
SMALL_GAP = 1e-3
"""At t = 1, make a plan once the gap is at most this share of |f| + |g|, or at most the tolerance
of the stage.
"""
STEEP = 0.2
"""If more than this share of the slope is left after a whole step, the step is made longer while
the dual rises. After a Newton step a quadratic has no slope left. An exponential has 1/e left,
because each step divides it by e.
"""


class Proof(NamedTuple):
    """A lower bound on F*, and the sum of the sizes of its terms."""

    dual: float
    magnitude: float

    @classmethod
    def of(cls, point: DualPoint) -> Proof:
        return cls(point.dual, point.magnitude)


class DualPoint(Protocol):
    """The dual function of f + t g at some z."""

    @property
    def z(self) -> Any:
        """The dual variables, with what an evaluation at a point nearby may start from."""

    @property
    def dual(self) -> float:
        """D_t(z)."""

    @property
    def magnitude(self) -> float:
        """The sum of the sizes of the terms of D_t(z)."""


class Primal(NamedTuple):
    """A feasible point from a dual one."""

    x: Array
    terms: Terms
    """f and g at x."""
    magnitude: float
    """The sum of the sizes of the terms of f(x)."""


class AscentProgress(NamedTuple):
    """What the ascent knows when it asks for a direction."""

    gap: float
    """About the gap of the stage."""
    step: float = 0.0
    """The length of the last step; 0 at the beginning of a stage."""
    learnt: Any = None
    """What the last direction has learnt for this one; None at the first direction of a run."""
    wanted: float = 0.0
    """The gap at which the run shall end."""


class Ascent(NamedTuple):
    """A direction of ascent of the dual, the slope along it, and the number of products that it
    took.
    """

    direction: Any
    slope: float
    inner_iterations: int
    is_newton: bool = True
    """Whether this is a Newton direction. Then half of the slope is about the distance of the dual
    from its maximum.
    """
    learnt: Any = None
    """What the next direction of the run may start from."""


class DualModel(Protocol):
    """What an application supplies: the dual function, its Newton direction, a feasible point.

    A model holds the problem and nothing of a run: what a run learns goes from each direction to
    the next by `Ascent.learnt`. The methods after `primal` have defaults. A subclass of `DualModel`
    inherits them.
    """

    @property
    def affordable(self) -> bool:
        """Whether `auto` should prefer Newton to CGS here."""

    def start(self, x: Array) -> Any:
        """A z for the primal point x."""

    def farthest_stage(self, z: Any) -> float:
        """A t so large that the start z, like any other, is near the path at this stage."""

    def stage_gap(self, point: Any) -> float:
        """A cheap estimate of the gap of the point in its own stage."""

    def stage_tolerance(self, t: float) -> float:
        """The gap at which stage t is finished."""

    def evaluate(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z."""

    def moved(self, z: Any, direction: Any, step: float) -> Any:
        """z + step * direction."""

    def ascent(self, point: Any, progress: AscentProgress) -> Ascent:
        """A Newton direction. It is less exact if the gap is large."""

    def primal(self, point: Any) -> Primal:
        """A feasible point."""

    def is_carried(self, x: Any) -> bool:
        """Whether a start comes with a dual point of its own, from another problem."""
        return False

    def strain(self, point: Any) -> float:
        """How far the worst part of a point is from the path, divided by how far a quadratic holds.

        A stage ends only if this is at most 1. The gap may be small as a sum, and a part of the
        point still far from the path.
        """
        return 0.0

    def entry_gap(self, point: Any) -> float:
        """About the gap of a point that comes from another problem; infinite if not known."""
        return math.inf

    def rough_point(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z, with fewer digits if that takes less time."""
        return self.evaluate(z, t)

    @property
    def rough_points_are_exact(self) -> bool:
        """Whether `rough_point` has all digits, so that it proves a bound."""
        return True

    @property
    def proofs_are_dear(self) -> bool:
        """Whether a feasible point costs several products. Then few are made: only if the run may
        end there.
        """
        return False

    def rounded_gap(self, point: Any) -> float:
        """A bound on the gap of the feasible point that `primal` would make; `stage_gap` is only an
        estimate.
        """
        return self.stage_gap(point)

    def slope_along(self, point: Any, direction: Any) -> float:
        """The slope of the dual at the point along a direction; 0 if not known."""
        return 0.0

    def tempered(self, point: Any, direction: Any) -> Any | None:
        """The direction, shorter in coordinates in which the quadratic model goes too far; None if
        the dual model cannot tell.
        """
        return None

    def stretched(self, point: Any, direction: Any, factor: float) -> Any:
        """The direction, longer by up to this factor in coordinates in which the quadratic model
        does not go far enough.
        """
        return self.moved(direction, direction, factor - 1.0)


@dataclass(frozen=True)
class Newton:
    """Path-following Newton ascent on the certificate."""

    f: Smooth
    g: Simple
    model: DualModel
    wanted: float = 0.0
    """The gap at which the run shall end, divided by |f| + |g|; 0 if not known."""
    wanted_absolutely: float = 0.0
    """The gap at which the run shall end, as it is; 0 if not known."""
    name: ClassVar[str] = "newton"
    is_ready: ClassVar[bool] = True
    head_start: ClassVar[int] = 0

    @property
    def affordable(self) -> bool:
        return self.model.affordable

    def wanted_gap(self, size: float) -> float:
        """The gap at which the run shall end if |f| + |g| is `size`; 0 if not known."""
        return max(self.wanted * size, self.wanted_absolutely)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        walk = Walk(self, x)
        del x
        if not walk.enters_path():
            yield walk.unproved()
            return
        while True:
            yield walk.iterate()
            if walk.fruitless == FRUITLESS:
                return
            if walk.stage_is_done:
                walk.enter_next_stage()
            elif not walk.climb():
                return
            if deadline.passed():
                return
            walk.arrive()


class StageEnd(NamedTuple):
    """Where a stage ended."""

    t: float
    z: Any


@dataclass
class Walk:
    """A run of Newton's method along the path: its point, what it has proved, what it has learnt."""

    newton: Newton
    x: Array = field(repr=False)
    t: float = 1.0
    point: Any = None
    """The dual point. It may be as large as the plan, so it is None while the next one is made."""
    is_exact: bool = True
    """Whether the point has all digits, so that it proves a bound."""
    z: Any = None
    proof: Proof | None = None
    gap: float | None = None
    """About the gap of the stage, if it is known."""
    step: float = 0.0
    promised: float = math.inf
    learnt: Any = None
    steps_in_stage: int = 0
    last_end: StageEnd | None = None
    proofs: int = 1
    inner_iterations: int = 0
    fruitless: int = 0
    noise: float = 0.0
    highest: float = -math.inf
    lowest: float = math.inf

    def __post_init__(self) -> None:
        f = self.newton.f
        x = self.x
        self.model = self.newton.model
        self.space = Space.of(x)
        self.unit = f.unit_at(x)
        self.evaluate = DualEvaluator(self.model)
        here = f.at(x)
        self.primal = Primal(x, Terms.at(x, here, self.newton.g), here.magnitude(here))

    def enters_path(self) -> bool:
        """Find the first stage; False if the time is up before that."""
        if deadline.passed():
            return False
        model = self.model
        carried = self.model.is_carried(self.x)
        self.z = model.start(self.x)
        del self.x
        # A start from another problem proves no useful bound. Only its gap is needed, so a rough
        # point is enough.
        self.point = self.evaluate.roughly(self.z, 1.0) if carried else self.evaluate(self.z, 1.0)
        exact = not carried or model.rough_points_are_exact
        self.proof = Proof.of(self.point) if exact else None
        self._find_first_stage(carried)
        if self.t == 1.0 and not exact:
            self.point = self.evaluate(self.z, 1.0)
            self.proof = Proof.of(self.point)
        self.gap = self.primal.terms.value - self.point.dual if self.t == 1.0 else None
        return not deadline.passed()

    def _find_first_stage(self, carried: bool) -> None:
        """Go to the smallest t at which the start is near the path.

        Far from the path the gap of f + t g at the start falls like 1/t, and the tolerance of a
        stage grows like t. So their ratio at the farthest stage, at which all starts are near,
        tells about at which t it is 1.
        """
        model = self.model
        terms = self.primal.terms
        farthest = math.inf

        def excess_here() -> float:
            """The gap divided by `ENTRY` tolerances; at most 1 if the start is near the path."""
            near = ENTRY * model.stage_tolerance(self.t)
            gap = terms.f + self.t * terms.g - self.point.dual
            if not carried:
                excess = gap / near
                return excess if excess > 1.0 else max(excess, model.strain(self.point) / ENTRY)
            # a start that comes from another problem may have a better plan at z than the one given
            # with it
            return (min(gap, model.entry_gap(self.point)) if gap > near else gap) / near

        while (ratio := excess_here()) > 1.0 and self.t < farthest and not deadline.passed():
            if farthest == math.inf:
                farthest = self._farthest_stage()
                if ratio > FAR_FROM_PATH and farthest > 1.0 and not carried:
                    self._look_from(farthest)
                    nearest = farthest * math.sqrt(max(0.0, excess_here()))
                    if max(4.0, nearest) < farthest:
                        self._look_from(max(4.0, nearest))
                    continue
            self._look_from(min((2.0 if carried else 4.0) * self.t, farthest))

    def _farthest_stage(self) -> float:
        farthest = max(1.0, self.model.farthest_stage(self.z))
        if farthest == math.inf:
            infinite = "the ratio of costs to the entropy is infinite"
            raise NotFiniteError(f"{infinite}: take a larger entropy")
        return farthest

    def _look_from(self, t: float) -> None:
        """Make t the stage, and evaluate its dual at z."""
        self.t = t
        self.point = None
        self.point = self.evaluate(self.z, t)

    def unproved(self) -> Iterate:
        """The start without a bound, if there is no time for more."""
        effort = Effort(1, self.evaluate.calls, 0)
        return Iterate(self.primal.x, self.primal.terms, -math.inf, None, 0.0, effort, 0.0)

    def iterate(self) -> Iterate:
        """The last plan with its bound. It also counts the iterations that gained nothing."""
        lower = -math.inf
        value = self.primal.terms.value
        primal = self.primal
        if self.proof is not None:
            sizes = (
                primal.magnitude,
                self.newton.g.magnitude(primal.x, primal.terms.g),
                self.proof.magnitude,
            )
            self.noise = rounding_noise(self.unit, primal.terms.f, *sizes, subnormal_size(primal.x))
            lower = tangent_bound(self.proof.dual, 0.0, self.noise)
        slack = NO_GAIN * self.noise
        if self.t > 1.0 or lower > self.highest + slack or value < self.lowest - slack:
            self.fruitless = 0
        elif self.proof is not None:
            self.fruitless += 1
        # the first bound at t = 1 may be lower than that of the start: the run still makes progress
        self.highest = lower if self.t > 1.0 else max(self.highest, lower)
        self.lowest = min(self.lowest, value)
        effort = Effort(self.proofs, self.evaluate.calls, self.inner_iterations)
        return Iterate(
            self.space.hold(primal.x), primal.terms, lower, None, self.step, effort, self.noise
        )

    @property
    def stage_is_done(self) -> bool:
        if self.gap is None:
            self.gap = self.model.stage_gap(self.point)
        if self.t == 1.0:
            return False
        tolerance = self.model.stage_tolerance(self.t)
        # after a whole Newton step its slope tells better than the gap how far the maximum is
        settled = (
            self.step == 1.0
            and self.promised <= SETTLED_STAGE * tolerance
            and self.gap <= FAR_FROM_PATH * tolerance
        )
        return (settled or self.gap <= tolerance) and self.model.strain(self.point) <= 1.0

    def enter_next_stage(self) -> None:
        """Begin at the end of the last stage, or farther on the line through the last two ends.

        No stage ends where it begins, so a rough point is enough.
        """
        self.z = self.point.z
        self.is_exact = self.model.rough_points_are_exact
        before = self.last_end
        end = StageEnd(self.t, self.z)
        self.last_end = end
        self.step = 0.0
        self.steps_in_stage = 0
        for t in dict.fromkeys(max(1.0, ratio * end.t) for ratio in STAGE_RATIOS):
            self.point = None
            self.t = t
            self.point = self._first_point(before, end)
            if self.model.strain(self.point) <= ENTRY or deadline.passed():
                return

    def _first_point(self, before: StageEnd | None, end: StageEnd) -> Any:
        """Where a stage begins, from the ends of the two stages before."""
        ahead: Any = None
        if before is not None and before.t != end.t:
            ahead_by = (end.t - self.t) / (before.t - end.t)
            moved = self.model.moved
            ahead = self.evaluate.roughly(
                moved(moved(end.z, end.z, ahead_by), before.z, -ahead_by), self.t
            )
            if self.model.stage_gap(ahead) <= FAR_FROM_PATH * self.model.stage_tolerance(self.t):
                return ahead
        point = self.evaluate.roughly(end.z, self.t)
        return ahead if ahead is not None and ahead.dual > point.dual else point

    def climb(self) -> bool:
        """Take a step along a new direction; False if no step raises the dual and t = 1."""
        assert self.gap is not None
        wanted = self.newton.wanted_gap(self.primal.terms.size)
        progress = AscentProgress(self.gap, self.step, self.learnt, wanted)
        ascent = self.model.ascent(self.point, progress)
        self.inner_iterations += ascent.inner_iterations
        self.learnt = ascent.learnt
        self.promised = ascent.slope if ascent.is_newton else math.inf
        self.z = self.point.z
        before = self.point.dual
        self.point = None
        self.step, self.point = self._search(before, ascent)
        self.is_exact = True
        self.steps_in_stage += ascent.is_newton
        if self.point is None:
            at_the_end = self.t == 1.0
            self.t = 1.0
            return not at_the_end
        return True

    def _search(self, before: float, ascent: Ascent) -> tuple[float, Any]:
        """Try the whole step, a tempered one, half of it, a quarter and so on, until the dual rises
        by Armijo's rule.
        """

        def attempt(step: float) -> Any | None:
            there = self._at(ascent.direction, step)
            needed = before + ARMIJO_FRACTION * step * ascent.slope - self.noise
            if there.dual >= needed:
                stays_steep = step == 1.0 and self.t == 1.0 and ascent.is_newton
                return self._farther(ascent, there) if stays_steep else there
            shorter = self.model.tempered(there, ascent.direction) if step == 1.0 else None
            if shorter is None:
                return None
            there = self._at(shorter, step)
            return there if there.dual >= needed else None

        return backtrack(attempt, shortest=SHORTEST_CLIMB) or (0.0, None)

    def _farther(self, ascent: Ascent, there: Any) -> Any:
        """Stretch the step twofold, fourfold and so on, while the dual still rises steeply."""
        factor = 1.0
        while (
            self.model.slope_along(there, ascent.direction) > STEEP * ascent.slope
            and not deadline.passed()
        ):
            factor *= 2.0
            ahead = self._at(self.model.stretched(there, ascent.direction, factor), 1.0)
            if ahead.dual <= there.dual:
                break
            there = ahead
        return there

    def _at(self, direction: Any, step: float) -> Any:
        return self.evaluate(self.model.moved(self.z, direction, step), self.t)

    def arrive(self) -> None:
        """After a step: take the bound of the new point if t = 1, and make a feasible point if that
        is worth its cost.
        """
        if self.point is None:
            self.point = self.evaluate(self.z, self.t)
        # only D_1 is the dual function of F, so only there the value is a bound on F*
        self.proof = Proof.of(self.point) if self.t == 1.0 and self.is_exact else None
        self.gap = None
        if not self._is_worth_a_plan():
            return
        self.proof = self.proof or Proof.of(self.evaluate(self.point.z, 1.0))
        del self.primal  # it is as large as the plan: do not hold two of them
        self.primal = self.model.primal(self.point)
        self.proofs += 1
        self.gap = self.primal.terms.value - self.point.dual if self.t == 1.0 else None

    def _is_worth_a_plan(self) -> bool:
        """Whether to make a plan: after each `STEPS_TO_CERTIFY` steps of a stage (at t = 1 only if
        plans are cheap), and at t = 1 if the gap is small by an estimate that needs no plan.
        """
        model = self.model
        dear = self.model.proofs_are_dear
        now_and_then = self.steps_in_stage > 0 and self.steps_in_stage % STEPS_TO_CERTIFY == 0
        if self.t > 1.0 or (now_and_then and not dear):
            return now_and_then
        size = self.primal.terms.size
        small = max(model.stage_tolerance(self.t), SMALL_GAP * size)
        wanted = self.newton.wanted_gap(size)
        if dear and self.proofs > 1 and wanted > 0.0:  # the second plan should be the last
            small = min(small, WORTH_A_PLAN * wanted)
        self.gap = model.stage_gap(self.point)
        if dear and self.gap <= small:  # the gap of the plan may be larger than the estimate
            self.gap = model.rounded_gap(self.point)
        # if the dual gains no more than rounding errors, a new plan may still be better
        return self.gap <= small or self.fruitless == FRUITLESS - 1


class DualEvaluator:
    """The dual function of a model. It counts its evaluations: each is a call of the oracle."""

    def __init__(self, model: DualModel) -> None:
        self.model = model
        self.calls = 0

    def __call__(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.evaluate(z, t)

    def roughly(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.rough_point(z, t)
