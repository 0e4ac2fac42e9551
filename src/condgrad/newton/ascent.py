"""Newton on the certificate: maximise the lower bound itself, by Newton's method along a path.

For f = h(Kx) and any z, `D(z) = h(z) - <grad h(z), z> + min_s [<K' grad h(z), s> + g(s)]` is a
lower bound on F*, concave, with maximum F*. CGS is gradient ascent on it; where f is stiff against
g that crawls, and Newton's method does not. A far start needs a path: t*g in place of g, t falling
to 1, each stage solved loosely and handed on.
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
"""Steps of a stage before t = 1 after which its point is certified, again and again."""
STAGE_RATIOS = (0.5, 0.7)
"""The t of a stage over that of the stage before; the second where strain says that the first leads
too far.

With 0.25 the clouds of `python -m experiments bench geometry` take a quarter more passes, for steps
that overshoot.
"""
SHORTEST_CLIMB = 1e-10
"""The shortest fraction of a Newton step that is tried."""
FRUITLESS = 5
"""Iterations in a row whose gains drown in rounding, after which no other will bring more."""
ENTRY = 10.0
"""A stage begins where its gap is below this many times its tolerance, and the strain below this
many times what a quadratic allows.

With 30 for the gap, starts from coarse levels enter too late: on a GPU 100 000 points take 1.5 to
2.6 times as long. Without the strain features of 10 dimensions take twice the passes, and digits of
64 nearly three times, for steps that overshoot.
"""
FAR = 100.0
"""Times a tolerance from which on a point is taken to be far from the path."""
SETTLED = 1.5
"""Times the tolerance of a stage that a whole step may have promised to bring, after which the
stage has done its work.

A Newton step leaves about the square of what it promised, in units of the entropy.
"""
NEARLY = 2.0
"""Times the gap wanted that a bound on it may be, which is seldom attained, for a plan to be made.
"""
SMALL_GAP = 1e-3
"""The part of |f| + |g| that a gap at t = 1 may be, or the tolerance of the stage, for a plan to be
worth its price.
"""
STEEP = 0.2
"""The part of the slope before a whole step that may be left after it: a quadratic leaves nothing,
and an exponential, of which Newton takes off a factor of e at a time, 1/e. Beyond this the step is
stretched while the dual rises.
"""


class Proof(NamedTuple):
    """A lower bound on F*, and the size of its terms before they cancel."""

    dual: float
    magnitude: float

    @classmethod
    def of(cls, point: DualPoint) -> Proof:
        return cls(point.dual, point.magnitude)


class DualPoint(Protocol):
    """The dual function of f + t g at some z."""

    @property
    def z(self) -> Any:
        """Where it is, with whatever an evaluation near it may start from."""

    @property
    def dual(self) -> float:
        """D_t(z)."""

    @property
    def magnitude(self) -> float:
        """The size of its terms before they cancel."""


class Primal(NamedTuple):
    """A feasible point from a dual one."""

    x: Array
    terms: Terms
    """f and g at x."""
    magnitude: float
    """The size of the terms of f(x) before they cancel."""


class Progress(NamedTuple):
    """What the ascent knows when it asks for a direction."""

    gap: float
    """About the gap of the stage."""
    step: float = 0.0
    """How far the direction before was followed; 0 where a stage begins."""
    learnt: Any = None
    """What the direction before left for this one; None for the first of a run."""
    wanted: float = 0.0
    """The gap at which the run is to end."""


class Ascent(NamedTuple):
    """A direction of the dual, the slope along it, and the products it took to find."""

    direction: Any
    slope: float
    inner_iterations: int
    is_newton: bool = True
    """Whether the slope tells how far the maximum is, as that of a Newton direction does."""
    learnt: Any = None
    """What the next direction of the run may start from."""


class DualModel(Protocol):
    """What an application supplies: the dual function, its Newton direction, a feasible point.

    A model holds the problem and nothing of a run: what a run learns goes from each direction to
    the next by `Ascent.learnt`. What comes after `primal` has defaults, which a model inherits that
    is declared a `DualModel`.
    """

    @property
    def affordable(self) -> bool:
        """Whether `auto` should prefer Newton to CGS here."""

    def start(self, x: Array) -> Any:
        """A z for the primal point x."""

    def farthest_stage(self, z: Any) -> float:
        """The t at which all starts are near the path, seen from z."""

    def stage_gap(self, point: Any) -> float:
        """About the gap of the point's own stage, as far as the model can tell it cheaply."""

    def stage_tolerance(self, t: float) -> float:
        """The gap at which stage t has done its work."""

    def evaluate(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z."""

    def moved(self, z: Any, direction: Any, step: float) -> Any:
        """z + step * direction."""

    def ascent(self, point: Any, progress: Progress) -> Ascent:
        """A Newton direction, as exact as the gap deserves."""

    def primal(self, point: Any) -> Primal:
        """A feasible point."""

    def is_carried(self, x: Any) -> bool:
        """Whether a start comes with a dual point of its own, from another problem."""
        return False

    def strain(self, point: Any) -> float:
        """How far the worst part of a point is from the path, over how far a quadratic holds there.

        A stage is left where this is 1 at most. The gap of the whole may be small where that of a
        part is not.
        """
        return 0.0

    def entry_gap(self, point: Any) -> float:
        """How far from the path a point is that was carried from another problem; infinite where
        that is not known.
        """
        return math.inf

    def rough_point(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z of fewer digits, if that takes less time."""
        return self.evaluate(z, t)

    @property
    def rough_points_are_exact(self) -> bool:
        """Whether `rough_point` has all digits, so that a bound may be taken from it."""
        return True

    @property
    def proofs_are_dear(self) -> bool:
        """Whether a feasible point costs several products: few are made then, where the run may
        end.
        """
        return False

    def rounded_gap(self, point: Any) -> float:
        """A bound on the gap at the feasible point that the point would give; `stage_gap` may be an
        estimate.
        """
        return self.stage_gap(point)

    def slope_along(self, point: Any, direction: Any) -> float:
        """The slope of the dual at the point along a direction; 0 where that is not known."""
        return 0.0

    def tempered(self, point: Any, direction: Any) -> Any | None:
        """The direction with coordinates shortened along which a quadratic overrates how far to go;
        None where the model knows of none.
        """
        return None

    def stretched(self, point: Any, direction: Any, factor: float) -> Any:
        """The direction with coordinates lengthened, up to so many times, along which a quadratic
        underrates how far to go.
        """
        return self.moved(direction, direction, factor - 1.0)


@dataclass(frozen=True)
class Newton:
    """Path-following Newton ascent on the certificate."""

    f: Smooth
    g: Simple
    model: DualModel
    wanted: float = 0.0
    """The gap at which the run is to end, over |f| + |g|, as far as that is known."""
    wanted_absolutely: float = 0.0
    """The same, not over anything."""
    name: ClassVar[str] = "newton"

    def wanted_gap(self, size: float) -> float:
        """The gap at which the run is to end where |f| + |g| is `size`; 0 where nobody has said."""
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
    """A run of Newton on its way along the path: where it is, what it has proved, what it has
    learnt.
    """

    newton: Newton
    x: Array = field(repr=False)
    t: float = 1.0
    point: Any = None
    """The dual point; None while another one is made, as it may be as large as the plan."""
    z: Any = None
    proof: Proof | None = None
    gap: float | None = None
    """About that of the stage, where it is known."""
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
        """Find the stage to begin with; False if the time is up before."""
        if deadline.passed():
            return False
        model = self.model
        carried = self.model.is_carried(self.x)
        self.z = model.start(self.x)
        del self.x
        # a start from elsewhere proves nothing worth having, and only its distance from the path is
        # asked for
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

        From afar the gap of f + t g at the start falls like 1/t, while what counts as near grows
        like t. So one point at the farthest stage, where all starts are near, tells about where to
        enter.
        """
        model = self.model
        terms = self.primal.terms
        farthest = math.inf

        def excess_here() -> float:
            """The gap in units of what is near; at most 1 for a start that is."""
            near = ENTRY * model.stage_tolerance(self.t)
            gap = terms.f + self.t * terms.g - self.point.dual
            if not carried:
                excess = gap / near
                return excess if excess > 1.0 else max(excess, model.strain(self.point) / ENTRY)
            # a start that is carried from elsewhere may have a better plan at z than the one it
            # comes with
            return (min(gap, model.entry_gap(self.point)) if gap > near else gap) / near

        while (ratio := excess_here()) > 1.0 and self.t < farthest and not deadline.passed():
            if farthest == math.inf:
                farthest = self._farthest_stage()
                if ratio > FAR and farthest > 1.0 and not carried:
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
        """The point of stage t at z."""
        self.t = t
        self.point = None
        self.point = self.evaluate(self.z, t)

    def unproved(self) -> Iterate:
        """The start, where there was no time for more."""
        effort = Effort(1, self.evaluate.calls, 0)
        return Iterate(self.primal.x, self.primal.terms, -math.inf, None, 0.0, effort, 0.0)

    def iterate(self) -> Iterate:
        """The best plan there is, with what is proved of it; counts iterations that brought
        nothing.
        """
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
        # the end of a path may begin below what its start has proved, and rises all the same
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
        # after a whole Newton step the gain that it promised tells more of the way left than the
        # gap does
        settled = (
            self.step == 1.0
            and self.promised <= SETTLED * tolerance
            and self.gap <= FAR * tolerance
        )
        return (settled or self.gap <= tolerance) and self.model.strain(self.point) <= 1.0

    def enter_next_stage(self) -> None:
        """Begin where the stage before ended, or farther along the line through the last two ends."""
        self.z = self.point.z
        before = self.last_end
        end = StageEnd(self.t, self.z)
        self.last_end = end
        self.step = 0.0
        self.steps_in_stage = 0
        for ratio in STAGE_RATIOS:
            self.point = None
            self.t = max(1.0, ratio * end.t)
            self.point = self._first_point(before, end)
            if self.model.strain(self.point) <= ENTRY or deadline.passed():
                return

    def _first_point(self, before: StageEnd | None, end: StageEnd) -> Any:
        """Where a stage begins, from the ends of the two stages before."""
        ahead: Any = None
        if before is not None and before.t != end.t:
            share = (end.t - self.t) / (before.t - end.t)
            moved = self.model.moved
            ahead = self.evaluate(moved(moved(end.z, end.z, share), before.z, -share), self.t)
            if self.model.stage_gap(ahead) <= FAR * self.model.stage_tolerance(self.t):
                return ahead
        point = self.evaluate(end.z, self.t)
        return ahead if ahead is not None and ahead.dual > point.dual else point

    def climb(self) -> bool:
        """A direction, and as far along it as the dual rises; False where there is nothing left to
        gain.
        """
        assert self.gap is not None
        wanted = self.newton.wanted_gap(self.primal.terms.size)
        progress = Progress(self.gap, self.step, self.learnt, wanted)
        ascent = self.model.ascent(self.point, progress)
        self.inner_iterations += ascent.inner_iterations
        self.learnt = ascent.learnt
        self.promised = ascent.slope if ascent.is_newton else math.inf
        self.z = self.point.z
        before = self.point.dual
        self.point = None
        self.step, self.point = self._search(before, ascent)
        self.steps_in_stage += ascent.is_newton
        if self.point is None:
            at_the_end = self.t == 1.0
            self.t = 1.0
            return not at_the_end
        return True

    def _search(self, before: float, ascent: Ascent) -> tuple[float, Any]:
        """The whole step, or a tempered one, or half of it, or a quarter, until the dual rises as
        the slope promises.
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
        """A step that is stretched twofold, fourfold, as long as the dual goes on rising steeply."""
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
        """Look where the step has led: a proof at t = 1, and a feasible point where it is worth its
        price.
        """
        if self.point is None:
            self.point = self.evaluate(self.z, self.t)
        # the dual function of F itself is that at t = 1 alone
        self.proof = Proof.of(self.point) if self.t == 1.0 else None
        self.gap = None
        if not self._is_worth_a_plan():
            return
        self.proof = self.proof or Proof.of(self.evaluate(self.point.z, 1.0))
        del self.primal  # as large as the plan, like a point: not to be held where another is made
        self.primal = self.model.primal(self.point)
        self.proofs += 1
        self.gap = self.primal.terms.value - self.point.dual if self.t == 1.0 else None

    def _is_worth_a_plan(self) -> bool:
        """Now and then on the way; at t = 1 where the gap is small, as far as that is known without
        a plan.
        """
        model = self.model
        dear = self.model.proofs_are_dear
        now_and_then = self.steps_in_stage > 0 and self.steps_in_stage % STEPS_TO_CERTIFY == 0
        if self.t > 1.0 or (now_and_then and not dear):
            return now_and_then
        size = self.primal.terms.size
        small = max(model.stage_tolerance(self.t), SMALL_GAP * size)
        wanted = self.newton.wanted_gap(size)
        if dear and self.proofs > 1 and wanted > 0.0:  # the second is the last, if all goes well
            small = min(small, NEARLY * wanted)
        self.gap = model.stage_gap(self.point)
        if dear and self.gap <= small:  # the run ends by the gap of a plan, which may be larger
            self.gap = model.rounded_gap(self.point)
        # where the dual has no digits left, a plan may still be better than the last
        return self.gap <= small or self.fruitless == FRUITLESS - 1


class DualEvaluator:
    """The dual function of a model, counting its evaluations: each is a call of the oracle."""

    def __init__(self, model: DualModel) -> None:
        self.model = model
        self.calls = 0

    def __call__(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.evaluate(z, t)

    def roughly(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.rough_point(z, t)
