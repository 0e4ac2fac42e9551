"""CGS, the paper's Algorithm 1: linearise only f, and keep g as it is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from condgrad import deadline
from condgrad.arrays import Array, differences, dot, mixed
from condgrad.certificate import (
    Candidate,
    Effort,
    Iterate,
    TangentPlane,
    Terms,
    check_tangent,
    linearised,
    rounding_noise,
)
from condgrad.methods.certified_point import Tally
from condgrad.problem import Simple, Smooth
from condgrad.rounding import CONTRADICTION, ROUNDING_UNITS
from condgrad.search.steps import SearchState, StepRule, checked_fractions


@dataclass
class AskedAccuracy:
    """How far the oracle's point may be from its bound: a share of what the run can still gain."""

    wanted: float
    share: float = 0.1

    def follow(self, left: float, noise: float) -> None:
        """Ask for a share of what is left to gain, but not for less than rounding."""
        self.wanted = max(self.share * left, noise)

    def must_end(self, own_gap: float, noise: float) -> bool:
        """If no step helps: whether x is optimal up to rounding. If not, the oracle must be more
        exact.

        `own_gap` is the part of the gap that a more exact oracle could close.
        """
        if own_gap <= ROUNDING_UNITS * noise or self.share < 1e-6:
            return True
        self.share *= 0.1
        return False


@dataclass(frozen=True)
class CGS:
    """Generalised conditional gradient, with a memory of oracle points if asked."""

    f: Smooth
    g: Simple
    step: StepRule
    memory: int = 0
    name: str = "cgs"
    first: int = 0
    """The number of the first iteration. It is not 0 if the run continues an earlier one."""
    past: deque[Array] = field(default_factory=deque, compare=False, repr=False)
    """The remembered oracle points. A run that continues this one starts with them."""

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        here = f.at(x)
        terms = Terms(here.value, g.value(x))
        remembered = deque([(s, f.at(s)) for s in self.past], maxlen=self.memory)
        tally = Tally(evaluations=1 + len(remembered))
        accuracy = AskedAccuracy(0.1 * terms.size)
        warm = None
        a = 0.0
        notes: dict[str, float] = {}
        for k in count(self.first):
            c = None if deadline.passed() else here.gradient
            if deadline.passed():
                if k == self.first:
                    yield Iterate(x, terms, -math.inf, c, a, Effort(1, 0, 0), 0.0)
                return
            plane = linearised(  # line 3 of the paper, and Lemma 2
                f,
                g,
                here,
                c,
                x=x,
                g_size=g.magnitude(x, terms.g),
                value=terms.value,
                warm=warm,
                accuracy=accuracy.wanted,
            )
            warm = plane.answer.warm
            candidate = self._candidate(plane, terms.value)
            tally.add(plane.answer, evaluations=candidate is not None)
            yield Iterate(x, terms, plane.bound, c, a, tally.effort, plane.noise, candidate)

            points = [plane.point, *(point for point, _ in remembered)]
            ends = [plane.there, *(end for _, end in remembered)]
            directions = differences(points, x)
            slope = dot(c, directions[0])
            model_gap = terms.g - plane.g_there - slope
            if candidate is not None and f.convex:
                check_tangent(plane.there, here.value + slope, plane.noise, f.unit_at(x))
            state = SearchState(f, g, k, x, here, ends, directions, terms.value, model_gap, notes)
            fractions = checked_fractions(self.step(state), len(points), x)  # line 4
            tally.evaluations += state.evaluations
            a = float(fractions.sum())
            gap = terms.value - plane.bound
            # more accuracy of the oracle than f is curved between x and s would not shorten the way
            left = gap
            if f.mixes and f.convex:
                left = min(gap, max(plane.there.value - here.value - slope, 1e-3 * gap))
            accuracy.follow(left, plane.noise)
            if a == 0.0:
                if accuracy.must_end(gap - model_gap, plane.noise):
                    return
                continue
            if deadline.passed():
                return
            x = mixed(x, points, fractions)  # line 5
            tangent = here.value + a * slope if len(points) == 1 else -math.inf
            here = here.moved(x, ends, fractions)
            before = terms
            terms = Terms(here.value, g.value(x))
            tally.evaluations += not f.mixes
            self._check_move(here, before, terms, tangent, plane.noise, f.unit_at(x))
            remembered.append((plane.point, plane.there))
            self.past.clear()
            self.past.extend(point for point, _ in remembered)
            del c, directions, state  # as large as x, each: not to be held while the oracle works

    def _candidate(self, plane: TangentPlane, value: float) -> Candidate | None:
        """The oracle's point, where f is known there or worth its price, and is a number."""
        f = self.f
        there = plane.there
        if not f.mixes or deadline.passed():
            return None
        if f.may_overflow and not math.isfinite(there.value):
            return None
        candidate = Candidate(plane.point, Terms(there.value, plane.g_there))
        if not candidate.terms.value < value:
            return candidate
        sizes = (there.magnitude(there), self.g.magnitude(plane.point, plane.g_there))
        noise = rounding_noise(f.unit_at(plane.point), there.value, *sizes)
        return candidate._replace(noise=noise)

    def _check_move(
        self, here: Any, before: Terms, after: Terms, tangent: float, noise: float, unit: float
    ) -> None:
        """A convex f is not below its tangent, and F does not rise where f is not convex."""
        slack = noise + rounding_noise(unit, after.f)
        if self.f.convex:
            check_tangent(here, tangent, slack, unit)
        elif after.value > before.value + CONTRADICTION * slack:
            raise ValueError(
                f"step = {self.step!r} let F rise from {before.value:.12g} to {after.value:.12g}: an f that is "
                "not convex needs a step rule that never does this, such as 'exact' or 'armijo'"
            )
