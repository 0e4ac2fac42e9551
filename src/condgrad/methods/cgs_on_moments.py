"""CGS for plans that are never formed: the iterate is known by its moments, and the answer is the
oracle's point.

A mixture of streamed plans is none itself, and its entropy is not known. But all that f asks of it
are its cost and its moments, which mix. And the oracle's point s is certified by f alone: F(s) -
lower = D_f(s, x) + the oracle's own gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.certificate import (
    Effort,
    Iterate,
    Terms,
    noise_of_bound,
    subnormal_size,
    tangent_bound,
)
from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth
from condgrad.rounding import ROUNDING_UNITS
from condgrad.search.restriction import Quadratic
from condgrad.search.steps import Exact, OpenLoop, StepRule

OWN_SHARE = 0.1
"""The oracle's own gap, as a share of the gap so far: F falls by what is left of it."""


@dataclass(frozen=True)
class CGSOnMoments:
    """Generalised conditional gradient with steps 2/(k+2), or the closed form for a quadratic f.

    The closed form takes g to be linear between x and s, which by convexity is not below it.
    """

    f: Smooth
    g: Simple
    step: StepRule
    memory: int = 0
    name: str = "cgs"

    def __post_init__(self) -> None:
        if self.memory or not isinstance(self.step, Exact | OpenLoop):
            raise ValueError(
                "a plan that is never formed goes with step='exact' (in closed form) or 'open-loop' and memory 0, got "
                f"{self.step!r} and memory={self.memory}: take plan='dense' for others"
            )

    def iterates(self, x: Any) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        unit = self.f.unit_at(x)
        here = f.at(x)
        g_here = g.value(x)
        a = 0.0
        warm = None
        inner = 0
        terms = Terms.at(x, here, g, g_here)
        g_size = g.magnitude(x, g_here)
        share = 0.1
        accuracy = 0.1 * terms.size
        for k in count():
            if deadline.passed():
                if k == 0:
                    yield Iterate(x, terms, -math.inf, None, a, Effort(1, 0, 0), 0.0)
                return
            answer = g.argmin(here.gradient, warm=warm, accuracy=accuracy)
            s = answer.point
            warm = answer.warm
            inner = inner + answer.inner_iterations
            there = f.at(s)
            g_there = g.value(s) if answer.value is None else answer.value
            noise = noise_of_bound(
                unit,
                f=here.value,
                slopes=(here.magnitude(here), here.magnitude(there)),
                g=(g_size, g.magnitude(s, g_there)),
                oracle=(answer.bound, answer.magnitude),
                subnormal=subnormal_size(s),
            )
            bound = tangent_bound(here.offset, answer.bound, noise)
            terms = Terms.at(s, there, g, g_there)
            yield Iterate(s, terms, bound, None, a, Effort(k + 2, k + 1, inner), noise)
            line = here.along([there], None)
            bregman = max(0.0, there.value - here.value - float(line.slope[0]))
            gap = terms.value - bound
            accuracy = max(share * min(gap, bregman) if bregman > 0.0 else share * gap, noise)
            a = self._fraction(k, line, g_there - g_here)
            if a == 0.0:  # either x is optimal up to rounding, or the oracle must try harder
                if gap <= ROUNDING_UNITS * noise or share < 1e-6:
                    return
                share *= 0.1
                continue
            fraction = np.array([a])
            here = here.moved(None, [there], fraction)
            g_here = (1.0 - a) * g_here + a * g_there

    def _fraction(self, k: int, line: Quadratic, rise: float) -> float:
        if isinstance(self.step, OpenLoop):
            return self.step.length(k)
        slope = float(line.slope[0]) + rise
        curvature = float(line.curvature[0, 0])
        if slope >= 0.0:
            return 0.0
        return 1.0 if curvature <= -slope else -slope / curvature


@dataclass(frozen=True)
class WholeStepCGS:
    """Generalised conditional gradient with whole steps, for an f that is concave: the iterates are
    oracle points.

    f is below its tangents, so that a whole step lowers F by the model gap or more, and no mixture
    of plans is needed.
    """

    f: Smooth
    g: Simple
    step: StepRule
    memory: int = 0
    name: str = "cgs"

    def __post_init__(self) -> None:
        if self.memory or not isinstance(self.step, Exact):
            raise ValueError(
                "a plan that is never formed, and an f that is concave, go with step='exact' and memory 0, got "
                f"{self.step!r} and memory={self.memory}"
            )

    def iterates(self, x: Any) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        unit = self.f.unit_at(x)
        here = f.at(x)
        terms = Terms.at(x, here, g)
        warm = None
        inner = 0
        step = 0.0
        accuracy = 0.1 * terms.size
        share = OWN_SHARE
        for k in count():
            if deadline.passed():
                if k == 0:
                    yield Iterate(x, terms, -math.inf, None, step, Effort(1, 0, 0), 0.0)
                return
            answer = g.argmin(here.gradient, warm=warm, accuracy=accuracy)
            s = answer.point
            warm = answer.warm
            inner = inner + answer.inner_iterations
            there = f.at(s)
            g_there = g.value(s) if answer.value is None else answer.value
            noise = noise_of_bound(
                unit,
                f=here.value,
                slopes=(here.magnitude(here), here.magnitude(there)),
                g=(g.magnitude(x, terms.g), g.magnitude(s, g_there)),
                oracle=(answer.bound, answer.magnitude),
                subnormal=subnormal_size(s),
            )
            bound = tangent_bound(here.offset, answer.bound, noise)
            yield Iterate(x, terms, bound, None, step, Effort(k + 1, k + 1, inner), noise)
            line = here.along([there], None)
            if float(line.curvature[0, 0]) > unit * abs(float(line.slope[0])):
                raise MissingAbility(
                    f"plans that are never formed need an f that is convex or concave, not {f!r}"
                )
            gap = terms.value - bound
            accuracy = max(share * gap, noise)
            if (
                terms.g - g_there - float(line.slope[0]) <= 0.0
            ):  # stationary, or the oracle must try harder
                if gap <= ROUNDING_UNITS * noise or share < 1e-6:
                    return
                share *= 0.1
                continue
            x = s
            here = there
            step = 1.0
            terms = Terms.at(s, there, g, g_there)
