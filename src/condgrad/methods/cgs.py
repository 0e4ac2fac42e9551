"""CGS, the paper's Algorithm 1: linearise f alone, keep g as it is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from condgrad import deadline
from condgrad.arrays import Array, differences, dot, mixed
from condgrad.certificate import (
    Candidate,
    Effort,
    Iterate,
    Terms,
    check_tangent,
    noise_of_bound,
    rounding_noise,
    subnormal_size,
    tangent_bound,
)
from condgrad.problem import Simple, Smooth
from condgrad.rounding import CONTRADICTION, ROUNDING_UNITS
from condgrad.search.steps import SearchState, StepRule, checked_fractions


@dataclass(frozen=True)
class CGS:
    """Generalised conditional gradient, with a memory of oracle points if asked."""

    f: Smooth
    g: Simple
    step: StepRule
    memory: int = 0
    name: str = "cgs"
    first: int = 0
    """The number of the first iteration: not 0 for a run that goes on from an earlier one."""
    past: deque[Array] = field(default_factory=deque, compare=False, repr=False)
    """The remembered oracle points, kept up to date for a run that will go on from this one."""

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        unit = self.f.unit_at(x)
        here = f.at(x)
        g_here = g.value(x)
        a = 0.0
        warm = None
        evaluations = 1
        inner = 0
        share = 0.1
        accuracy = 0.1 * Terms(here.value, g_here).size
        remembered = deque([(s, f.at(s)) for s in self.past], maxlen=self.memory)
        evaluations += len(remembered)
        notes: dict[str, float] = {}
        for k in count(self.first):
            c = None if deadline.passed() else here.gradient
            if deadline.passed():
                if k == self.first:
                    yield Iterate(
                        x, Terms(here.value, g_here), -math.inf, c, a, Effort(1, 0, 0), 0.0
                    )
                return
            value = here.value + g_here
            answer = g.beside(f, here, value).argmin(c, warm=warm, accuracy=accuracy)  # line 3
            s = answer.point
            warm = answer.warm
            inner += answer.inner_iterations
            there = f.at(s)
            g_there = g.value(s) if answer.value is None else answer.value
            spoiled = there if answer.witness is None else f.at(answer.witness)
            noise = noise_of_bound(
                unit,
                f=here.value,
                slopes=(here.magnitude(here), here.magnitude(spoiled)),
                g=(g.magnitude(x, g_here), g.magnitude(s, g_there)),
                oracle=(answer.bound, answer.magnitude),
                subnormal=subnormal_size(x),
            )
            bound = tangent_bound(here.offset, answer.bound, noise)
            # whether f at s is worth its price, and a number where it may be none
            known = f.mixes and not deadline.passed()
            known = known and (not f.may_overflow or math.isfinite(there.value))
            evaluations += known
            candidate = Candidate(s, Terms(there.value, g_there)) if known else None
            if candidate is not None and candidate.terms.value < value:
                sizes = (there.magnitude(there), g.magnitude(s, g_there))
                candidate = candidate._replace(noise=rounding_noise(unit, there.value, *sizes))
            yield Iterate(
                x,
                Terms(here.value, g_here),
                bound,
                gradient=c,
                step=a,
                effort=Effort(evaluations, k + 1 - self.first, inner),
                noise=noise,
                candidate=candidate,
            )
            points = [s, *(p for p, _ in remembered)]
            ends = [there, *(e for _, e in remembered)]
            directions = differences(points, x)
            slope = dot(c, directions[0])
            if known and f.convex:
                check_tangent(there, here.value + slope, noise, unit)
            model_gap = g_here - g_there - slope
            state = SearchState(f, g, k, x, here, ends, directions, value, model_gap, notes)
            fractions = checked_fractions(self.step(state), len(points))  # line 4
            evaluations += state.evaluations
            a = float(fractions.sum())
            # more accuracy of the oracle than f is curved between x and s would not shorten the way
            flatness = math.inf
            if f.mixes and f.convex:
                flatness = max(there.value - here.value - slope, 1e-3 * (value - bound))
            # below rounding there is nothing to gain
            accuracy = max(share * min(value - bound, flatness), noise)
            if a == 0.0:  # either x is optimal up to rounding, or the oracle must try harder
                if value - bound - model_gap <= ROUNDING_UNITS * noise or share < 1e-6:
                    return
                share *= 0.1
                continue
            if deadline.passed():
                return
            x = mixed(x, points, fractions)  # line 5
            tangent = here.value + a * slope
            here = here.moved(x, ends, fractions)
            g_here = g.value(x)
            evaluations += not f.mixes
            slack = noise + rounding_noise(unit, here.value)
            if f.convex and len(points) == 1:
                check_tangent(here, tangent, slack, unit)
            elif not f.convex and here.value + g_here > value + CONTRADICTION * slack:
                raise ValueError(
                    f"step = {self.step!r} let F rise from {value:.12g} to {here.value + g_here:.12g}: an f that is "
                    "not convex needs a step rule that does not, such as 'exact' or 'armijo'"
                )
            remembered.append((s, there))
            self.remember(remembered)
            del c, directions, state  # as large as x, each: not to be held while the oracle works

    def remember(self, remembered: Iterable[tuple[Array, Any]]) -> None:
        self.past.clear()
        self.past.extend(point for point, _ in remembered)
