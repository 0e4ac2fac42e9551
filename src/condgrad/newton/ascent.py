"""Newton on the certificate: maximise the lower bound itself, by Newton's method along a path.

For f = h(Kx) and any z, `D(z) = h(z) - <grad h(z), z> + min_s [<K' grad h(z), s> + g(s)]` is a lower bound on F*,
concave, with maximum F*. CGS is gradient ascent on it; where f is stiff against g that crawls, and Newton's method does
not. A far start needs a path: t*g in place of g, t falling to 1, each stage solved loosely and handed on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
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
from condgrad.streamed_plan import StreamedPlan

STEPS_TO_CERTIFY = 3
"""Steps of a stage before t = 1 after which its point is certified, again and again."""
STAGE_RATIO = 0.25
"""Of the t of a stage to that of the stage before."""
SHORT_STAGE_RATIO = 0.5
"""The least such ratio after a stage that had to shorten its steps."""
SHORTEST_CLIMB = 1e-10
"""The shortest fraction of a Newton step that is tried."""
RELIEFS = 2
"""How often a whole step that went too far is mended before it is halved."""
FRUITLESS = 5
"""Iterations in a row whose gains drown in rounding, after which no other will bring more."""


ENTRY = 10.0
"""Times the tolerance of a stage that the gap of a start may be at which the path is entered."""
FAR = 100.0
"""Times a tolerance from which on a point is taken to be far from the path."""


SETTLED = 1.5
"""Times the tolerance of a stage that a whole step may have promised to bring, after which the stage has done its work.

A Newton step leaves about the square of what it promised, in units of the entropy.
"""


NEARLY = 2.0
"""Times the gap wanted that a bound on it may be, which is seldom attained, for a plan to be made."""
SMALL_GAP = 1e-3
"""The part of |f| + |g| that a gap at t = 1 may be, or the tolerance of the stage, for a plan to be worth its price."""


class Proof(NamedTuple):
    """A lower bound on F*, and the size of its terms before they cancel."""

    dual: float
    magnitude: float

    @classmethod
    def of(cls, point: DualPoint) -> Proof:
        return cls(point.dual, point.magnitude)


def is_carried(x: Any) -> bool:
    """Whether a start comes with a dual point of its own."""
    return isinstance(x, StreamedPlan) and x.origin is not None


class DualPoint(Protocol):
    """The dual function of f + t g at some z."""

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


class Ascent(NamedTuple):
    """A direction of the dual, the slope along it, and the products it took to find."""

    direction: Any
    slope: float
    inner_iterations: int
    is_newton: bool = True
    """Whether the slope tells how far the maximum is, as that of a Newton direction does."""


class DualModel(Protocol):
    """What an application supplies: the dual function, its Newton direction, a feasible point.

    What comes after `primal` has defaults, which a model inherits that is declared a `DualModel`.
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

    def ascent(self, point: Any, gap: float, last_step: float) -> Ascent:
        """A Newton direction, as exact as the gap deserves; `last_step` is how far the one before was followed."""

    def primal(self, point: Any) -> Primal:
        """A feasible point."""

    @property
    def shrink(self) -> float:
        """The t of a stage over that of the stage before, unless the steps there had to be shortened."""
        return STAGE_RATIO

    def entry_gap(self, point: Any) -> float:
        """How far from the path a point is that was carried from another problem; infinite where that is not known."""
        return math.inf

    def rough_point(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z of fewer digits, if that takes less time."""
        return self.evaluate(z, t)

    @property
    def rough_points_are_exact(self) -> bool:
        """Whether `rough_point` has all digits, so that a bound may be taken from it."""
        return True

    def rounded_gap(self, point: Any) -> float:
        """A bound on the gap at the feasible point that the point would give; `stage_gap` may be an estimate."""
        return self.stage_gap(point)

    def relieved(self, point: Any, tried: Any | None) -> Any | None:
        """A z of a higher dual, if a step has overshot to this point in a way that the model can mend.

        `tried` is the point at the last such z, which was no better either.
        """
        return None


@dataclass(frozen=True)
class Newton:
    """Path-following Newton ascent on the certificate."""

    f: Smooth
    g: Simple
    model: DualModel
    wanted: float = math.inf
    """The gap at which the run is to end, over |f| + |g|; few streamed plans are certified whose gap is above it."""
    name: ClassVar[str] = "newton"

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, model, space = self.f, self.g, self.model, Space.of(x)
        evaluate, unit = DualEvaluator(model), f.unit_at(x)
        here = f.at(x)
        primal = Primal(x, Terms.at(x, here, g), here.magnitude(here))
        if deadline.passed():
            yield Iterate(x, primal.terms, -math.inf, None, 0.0, Effort(1, 0, 0), 0.0)
            return
        z, carried = model.start(x), is_carried(x)
        # a start from elsewhere proves nothing worth having, and only its distance from the path is asked for
        point = evaluate.roughly(z, 1.0) if carried else evaluate(z, 1.0)
        exact = not carried or model.rough_points_are_exact
        proof: Proof | None = Proof.of(point) if exact else None
        t, point = self._first_stage(evaluate, z, point, primal.terms, carried)
        if t == 1.0 and not exact:
            point = evaluate(z, 1.0)
            proof = Proof.of(point)
        if deadline.passed():
            yield Iterate(x, primal.terms, -math.inf, None, 0.0, Effort(1, evaluate.calls, 0), 0.0)
            return
        evaluations, inner, step = 1, 0, 0.0
        highest, lowest, fruitless, noise, steps_in_stage = -math.inf, math.inf, 0, 0.0, 0
        gap: Any = None
        certify, promised, shortest = True, math.inf, 1.0
        ends: tuple[float, Any] | None = None
        del x
        while True:
            lower = -math.inf
            if proof is not None:
                terms = primal.terms
                sizes = (primal.magnitude, g.magnitude(primal.x, terms.g), proof.magnitude)
                noise = rounding_noise(unit, terms.f, *sizes, subnormal_size(primal.x))
                lower = tangent_bound(proof.dual, 0.0, noise)
            value = primal.terms.value
            gained = lower > highest + NO_GAIN * noise or value < lowest - NO_GAIN * noise
            fruitless = 0 if t > 1.0 or gained else fruitless + (proof is not None)
            highest, lowest = max(highest, lower), min(lowest, value)
            effort = Effort(evaluations, evaluate.calls, inner)
            yield Iterate(space.hold(primal.x), primal.terms, lower, None, step, effort, noise)
            if fruitless == FRUITLESS:
                return
            if gap is None:
                gap = value - point.dual if t == 1.0 and certify else model.stage_gap(point)
            tolerance = model.stage_tolerance(t)
            # after a whole Newton step the gain that it promised tells more of the way left than the gap does
            settled = step == 1.0 and promised <= SETTLED * tolerance and gap <= FAR * tolerance
            if t > 1.0 and (settled or gap <= tolerance):
                del point
                last, ends = ends, (t, z)
                shrink = model.shrink if shortest >= 0.5 else max(model.shrink, SHORT_STAGE_RATIO)
                t, step, steps_in_stage, shortest = max(1.0, shrink * t), 0.0, 0, 1.0
                z, point = self._next_stage(evaluate, last, ends, t)
            else:
                ascent = model.ascent(point, gap, step)
                inner += ascent.inner_iterations
                promised = ascent.slope if ascent.is_newton else math.inf
                dual, point = point.dual, None
                step, z, point = self._climb(evaluate, z, dual, t, ascent, noise)
                steps_in_stage, shortest = steps_in_stage + ascent.is_newton, min(shortest, step)
                if step == 0.0 and t == 1.0:
                    return
                if step == 0.0:
                    t = 1.0
            if deadline.passed():
                return
            if point is None:
                point = evaluate(z, t)
            # the dual function of F itself is that at t = 1 alone
            proof = Proof.of(point) if t == 1.0 else None
            # a plan costs as much as a step: it is made now and then on the way, and at t = 1 from where the gap is
            # small, as far as that is known without it
            certify, gap = steps_in_stage > 0 and steps_in_stage % STEPS_TO_CERTIFY == 0, None
            streamed = isinstance(primal.x, StreamedPlan)
            if t == 1.0 and (streamed or not certify):
                gap, size = model.stage_gap(point), primal.terms.size
                small = max(model.stage_tolerance(t), SMALL_GAP * size)
                if streamed and evaluations > 1:  # its second proof is the last, if all goes well
                    small = min(small, NEARLY * self.wanted * size)
                certify = gap <= small and (not streamed or model.rounded_gap(point) <= small)
            if certify:
                proof = proof or Proof.of(evaluate(z, 1.0))
                gap = None
                del primal  # as large as the plan, like a point: not to be held where another is made
                primal = model.primal(point)
                evaluations += 1

    def _first_stage(
        self, evaluate: DualEvaluator, z: Any, point: Any, terms: Terms, carried: bool
    ) -> tuple[float, Any]:
        """The smallest t at which the start is near the path, and the dual point there.

        From afar the gap of f + t g at the start falls like 1/t, while what counts as near grows like t. So one point
        at the farthest stage, where all starts are near, tells about where to enter.
        """
        t, farthest = 1.0, math.inf

        def excess(t: float, point: Any) -> float:
            """The gap in units of what is near; at most 1 for a start that is."""
            near = ENTRY * self.model.stage_tolerance(t)
            gap = terms.f + t * terms.g - point.dual
            # a start that is carried from elsewhere may have a better plan at z than the one it comes with
            return (min(gap, self.model.entry_gap(point)) if carried and gap > near else gap) / near

        while (ratio := excess(t, point)) > 1.0 and t < farthest and not deadline.passed():
            del point
            if farthest == math.inf:
                farthest = max(1.0, self.model.farthest_stage(z))
                if farthest == math.inf:
                    infinite = "the ratio of costs to the entropy is infinite"
                    raise NotFiniteError(f"{infinite}: take a larger entropy")
                if ratio > FAR and farthest > 1.0 and not carried:
                    point = evaluate(z, farthest)
                    t = min(farthest, max(4.0, farthest * math.sqrt(max(0.0, excess(farthest, point)))))
                    point = point if t == farthest else evaluate(z, t)
                    continue
            t = min((2.0 if carried else 4.0) * t, farthest)
            point = evaluate(z, t)
        return t, point

    def _next_stage(
        self, evaluate: DualEvaluator, last: tuple[float, Any] | None, ends: tuple[float, Any], t: float
    ) -> tuple[Any, Any]:
        """Where stage t starts: where the stage before ended, or farther along the line through the last two ends."""
        (t_end, z), moved = ends, self.model.moved
        point = evaluate(z, t)
        if last is None or last[0] == t_end:
            return z, point
        share = (t_end - t) / (last[0] - t_end)
        ahead = moved(moved(z, z, share), last[1], -share)
        there = evaluate(ahead, t)
        return (ahead, there) if there.dual > point.dual else (z, point)

    def _climb(
        self, evaluate: DualEvaluator, z: Any, dual: float, t: float, ascent: Ascent, noise: float
    ) -> tuple[float, Any, Any]:
        """Halve the step until the dual rises as the slope promises."""

        def attempt(step: float) -> tuple[Any, Any] | None:
            trial = self.model.moved(z, ascent.direction, step)
            there, needed = evaluate(trial, t), dual + ARMIJO_FRACTION * step * ascent.slope - noise
            if there.dual >= needed:
                return trial, there
            relief: Any = None
            for _ in range(RELIEFS if step == 1.0 else 0):
                better = self.model.relieved(there, relief)
                if better is None:
                    break
                relief = evaluate(better, t)
                if relief.dual >= needed:
                    return better, relief
            return None

        found = backtrack(attempt, shortest=SHORTEST_CLIMB)
        return (0.0, z, None) if found is None else (found[0], *found[1])


class DualEvaluator:
    """The dual function of a model, counting its evaluations: each is a call of the oracle."""

    def __init__(self, model: DualModel) -> None:
        self.model, self.calls = model, 0

    def __call__(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.evaluate(z, t)

    def roughly(self, z: Any, t: float) -> Any:
        self.calls += 1
        return self.model.rough_point(z, t)
