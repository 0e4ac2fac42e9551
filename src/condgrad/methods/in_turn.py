"""Methods in turn: what "auto" runs, so that one method's dead end is not the run's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, precision
from condgrad.certificate import Effort, Iterate
from condgrad.errors import NotFiniteError
from condgrad.loop import Method, StallWatch
from condgrad.problem import Simple, Smooth
from condgrad.rounding import EXHAUSTED

PATIENCE = 20
"""Iterations of a window of `StallWatch`; fewer than the loop grants, so that the next method gets its turn."""


@dataclass(frozen=True)
class InTurn:
    """The first method, until it has no step left or stands still; then the next, from the best point so far.

    The best bound so far is kept by the loop, as for a single method.
    """

    methods: Sequence[Method]
    used: list[str] = field(default_factory=list)

    @property
    def f(self) -> Smooth:
        return self.methods[0].f

    @property
    def g(self) -> Simple:
        return self.methods[0].g

    @property
    def name(self) -> str:
        return ", then ".join(self.used or [self.methods[0].name])

    def iterates(self, x: Array) -> Iterator[Iterate]:
        self.used.clear()
        before, value, lower, noise = Effort(0, 0, 0), math.inf, -math.inf, 0.0
        for method in self.methods:
            self.used.append(method.name)
            stalled, effort, iterates = StallWatch(precision(x), PATIENCE), before, method.iterates(x)
            while True:
                try:
                    iterate = next(iterates, None)
                except (NotFiniteError, np.linalg.LinAlgError):
                    # equations without a solution are one method's dead end, unless nothing is known yet
                    if lower == -math.inf or method is self.methods[-1]:
                        raise
                    break
                if iterate is None:
                    break
                effort = Effort(*(old + new for old, new in zip(before, iterate.effort, strict=True)))
                if iterate.value <= value:
                    x, value = iterate.x, iterate.value
                lower, noise = max(lower, iterate.lower_bound), max(noise, iterate.noise)
                still = stalled.by(iterate, lower)
                shown = iterate._replace(effort=effort)
                del iterate  # as large as several x: not to be held while the method works
                yield shown
                del shown
                if still:
                    break
            before = effort
            if deadline.passed() or value - lower <= EXHAUSTED * noise:
                return
