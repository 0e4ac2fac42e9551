"""CGS for plans that are never formed. The iterate is known by its moments, and the answer is the
oracle's point.

A mixture of streamed plans is not a streamed plan, and its entropy is not known. But f needs only
its cost and its moments, and these are mixtures too. The oracle's point s is certified by f alone:
F(s) - lower = D_f(s, x) + the oracle's own gap.
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
    linearised,
)
from condgrad.errors import MissingAbility
from condgrad.methods.certified_point import Tally
from condgrad.methods.cgs import AskedAccuracy
from condgrad.problem import Simple, Smooth
from condgrad.search.restriction import Quadratic
from condgrad.search.steps import Exact, OpenLoop, StepRule


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
                "a streamed plan needs step='exact' (in closed form) or 'open-loop', and memory 0, got "
                f"{self.step!r} and memory={self.memory}: use plan='dense' for others"
            )

    def iterates(self, x: Any) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        here = f.at(x)
        g_here = g.value(x)
        terms = Terms.at(x, here, g, g_here)
        g_size = g.magnitude(x, g_here)
        tally = Tally(evaluations=1)
        accuracy = AskedAccuracy(0.0)
        accuracy.follow(terms.size, 0.0)
        warm = None
        a = 0.0
        for k in count():
            if deadline.passed():
                if k == 0:
                    yield Iterate(x, terms, -math.inf, None, a, tally.effort, 0.0)
                return
            plane = linearised(
                f,
                g,
                here,
                here.gradient,
                x=None,
                g_size=g_size,
                value=terms.value,
                warm=warm,
                accuracy=accuracy.wanted,
            )
            warm = plane.answer.warm
            tally.add(plane.answer, evaluations=1)
            terms = Terms.at(plane.point, plane.there, g, plane.g_there)
            yield Iterate(plane.point, terms, plane.bound, None, a, tally.effort, plane.noise)
            line = here.along([plane.there], None)
            bregman = max(0.0, plane.there.value - here.value - float(line.slope[0]))
            gap = terms.value - plane.bound
            accuracy.follow(min(gap, bregman or gap), plane.noise)
            a = self._fraction(k, line, plane.g_there - g_here)
            if a == 0.0:
                if accuracy.must_end(gap, plane.noise):
                    return
                continue
            here = here.moved(None, [plane.there], np.array([a]))
            g_here = (1.0 - a) * g_here + a * plane.g_there

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
                "a streamed plan with a concave f needs step='exact' and memory 0, got "
                f"{self.step!r} and memory={self.memory}"
            )

    def iterates(self, x: Any) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        here = f.at(x)
        terms = Terms.at(x, here, g)
        tally = Tally()
        accuracy = AskedAccuracy(0.0)
        accuracy.follow(terms.size, 0.0)
        warm = None
        step = 0.0
        for k in count():
            if deadline.passed():
                if k == 0:
                    yield Iterate(x, terms, -math.inf, None, step, Effort(1, 0, 0), 0.0)
                return
            plane = linearised(
                f,
                g,
                here,
                here.gradient,
                x=x,
                g_size=g.magnitude(x, terms.g),
                value=terms.value,
                warm=warm,
                accuracy=accuracy.wanted,
            )
            warm = plane.answer.warm
            tally.add(plane.answer, evaluations=1)
            yield Iterate(x, terms, plane.bound, None, step, tally.effort, plane.noise)
            line = here.along([plane.there], None)
            slope = float(line.slope[0])
            if float(line.curvature[0, 0]) > f.unit_at(x) * abs(slope):
                raise MissingAbility(
                    f"streamed plans need an f that is convex or concave, not {f!r}"
                )
            gap = terms.value - plane.bound
            accuracy.follow(gap, plane.noise)
            if terms.g - plane.g_there - slope <= 0.0:  # x is stationary, but for the oracle's gap
                if accuracy.must_end(gap, plane.noise):
                    return
                continue
            x = plane.point
            here = plane.there
            step = 1.0
            terms = Terms.at(x, here, g, plane.g_there)
