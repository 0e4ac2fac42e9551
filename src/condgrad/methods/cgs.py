"""CGS, the paper's Algorithm 1: linearise f alone, keep g as it is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from condgrad._arrays import Array, differences, dot, mixed, precision
from condgrad.certificate import Candidate, Iterate, rounding_noise, tangent_bound
from condgrad.problem import Simple, Smooth
from condgrad.steps import Move, StepRule, checked_fractions


@dataclass(frozen=True)
class CGS:
    """Generalised conditional gradient, with a memory of oracle points if asked."""

    f: Smooth
    g: Simple
    step: StepRule
    memory: int = 0

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, unit = self.f, self.g, max(precision(x), self.f.unit)
        here, g_here, a, warm, inner = f.at(x), g.value(x), 0.0, None, 0
        share, accuracy = 0.1, 0.1 * max(1.0, abs(here.value + g_here))
        remembered: deque[tuple[Array, Any]] = deque(maxlen=self.memory)
        for k in count():
            c = here.gradient
            answer = g.argmin(c, warm=warm, accuracy=accuracy)  # line 3
            s, warm, inner = answer.point, answer.warm, inner + answer.inner_iterations
            there, g_there = f.at(s), g.value(s) if answer.value is None else answer.value
            value = here.value + g_here
            sizes = (here.value, here.magnitude(here), here.magnitude(there), g_there, answer.bound)
            noise = rounding_noise(unit, *sizes)
            bound = tangent_bound(here.offset, answer.bound, noise)
            yield Iterate(
                x,
                value,
                bound,
                gradient=c,
                step=a,
                oracle_calls=k + 1,
                inner_iterations=inner,
                noise=noise,
                candidate=Candidate(s, there.value + g_there) if f.mixes else None,
            )
            points, ends = [s, *(p for p, _ in remembered)], [there, *(e for _, e in remembered)]
            directions = differences(points, x)
            slope = dot(c, directions[0])
            model_gap = g_here - g_there - slope
            move = Move(f, g, k, x, here, ends, directions, value, model_gap)
            fractions = checked_fractions(self.step(move), len(points))  # line 4
            a = float(fractions.sum())
            # an oracle far more exact than f is flat between x and s would be effort without effect
            flatness = max(there.value - here.value - slope, 1e-3 * (value - bound)) if f.mixes else math.inf
            accuracy = share * min(value - bound, flatness)
            if a == 0.0:  # either x is optimal up to rounding, or the oracle must try harder
                if value - bound - model_gap <= 16.0 * unit * abs(value) or share < 1e-6:
                    return
                share *= 0.1
                continue
            x = mixed(x, points, fractions)  # line 5
            here, g_here = here.moved(x, ends, fractions), g.value(x)
            remembered.append((s, there))
            del c, directions, move  # as large as x, each: not to be held while the oracle works
