"""Methods in turn: what "auto" runs, so that one method's dead end is not the run's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, precision
from condgrad.certificate import NO_EFFORT, Iterate
from condgrad.errors import NotFiniteError
from condgrad.kernels import readiness
from condgrad.loop import Method, StallWatch
from condgrad.problem import Simple, Smooth
from condgrad.rounding import EXHAUSTED

WINDOW_IN_TURN = 20
"""The window of `StallWatch`, in iterations. It is shorter than that of the loop, so that the next
method gets its turn.
"""
MOST_BEFORE_COMPILED = 5000
"""While the next method has no compiled code, the method before it makes at most this many
iterations. Then the run waits for the code. By default a run has twice as many. On colon, a squared
hinge at radius 50 used up all 10 000 in four seconds and was not proved.
"""


class Engine(Method, Protocol):
    """Newton's method for problems of some structure."""

    @property
    def affordable(self) -> bool:
        """Whether it is likely faster than methods of first order."""

    @property
    def is_ready(self) -> bool:
        """Whether it can begin now: its code is compiled, if it is to be compiled."""

    @property
    def head_start(self) -> int:
        """How many projected gradients should go first."""


@dataclass(frozen=True)
class Beginning:
    """A method that another one goes on from."""

    method: Method

    @property
    def f(self) -> Smooth:
        return self.method.f

    @property
    def g(self) -> Simple:
        return self.method.g

    @property
    def name(self) -> str:
        return self.method.name


class UntilCompiled(Beginning):
    """A method that needs no compiled code, until there is some for the next one."""

    def iterates(self, x: Array) -> Iterator[Iterate]:
        for iterate in islice(self.method.iterates(x), MOST_BEFORE_COMPILED):
            yield iterate
            if readiness.available():
                return


@dataclass(frozen=True)
class UntilNear(Beginning):
    """A method until its gap is within a share of the size of F."""

    share: float

    def iterates(self, x: Array) -> Iterator[Iterate]:
        for iterate in self.method.iterates(x):
            near = iterate.value - iterate.lower_bound <= self.share * iterate.terms.size
            yield iterate
            if near:
                return


@dataclass(frozen=True)
class HeadStart:
    """A method for a few iterates, and then an engine from the point where that began.

    From the point where the first one ended the other may be slow: what it knows of the way from
    the start does not help there.
    """

    first: Method
    other: Engine
    used: list[str] = field(default_factory=list)

    @property
    def f(self) -> Smooth:
        return self.other.f

    @property
    def g(self) -> Simple:
        return self.other.g

    @property
    def name(self) -> str:
        return ", then ".join(self.used or [self.first.name])

    def iterates(self, x: Array) -> Iterator[Iterate]:
        effort = NO_EFFORT
        self.used[:] = [self.first.name]
        for iterate in islice(self.first.iterates(x), self.other.head_start):
            effort = iterate.effort
            yield iterate
        if deadline.passed():
            return
        self.used.append(self.other.name)
        for iterate in self.other.iterates(x):
            yield iterate._replace(effort=iterate.effort.after(effort))


@dataclass(frozen=True)
class InTurn:
    """The first method, until it has no step left or stands still; then the next, from the best
    point so far.

    The loop has the best bound so far, as for a single method.
    """

    first: Method
    others: Iterator[Method]
    """Each is made when its turn comes, since most runs need the first alone; one run uses them up.
    """
    used: list[Method] = field(default_factory=list)

    @property
    def f(self) -> Smooth:
        return self.first.f

    @property
    def g(self) -> Simple:
        return self.first.g

    @property
    def name(self) -> str:
        return ", then ".join(method.name for method in self.used or [self.first])

    def iterates(self, x: Array) -> Iterator[Iterate]:
        self.used.clear()
        before = NO_EFFORT
        value = math.inf
        lower = -math.inf
        noise = 0.0
        method: Method | None = self.first
        while method is not None:
            failure: Exception | None = None
            self.used.append(method)
            stalled = StallWatch(precision(x), WINDOW_IN_TURN)
            effort = before
            iterates = method.iterates(x)
            while True:
                try:
                    iterate = next(iterates, None)
                except (NotFiniteError, np.linalg.LinAlgError) as error:
                    # equations without a solution are one method's dead end, unless nothing is
                    # known yet
                    if value == math.inf:
                        raise
                    failure = error
                    break
                if iterate is None:
                    break
                effort = iterate.effort.after(before)
                if iterate.value <= value:
                    x = iterate.x
                    value = iterate.value
                lower = max(lower, iterate.lower_bound)
                noise = max(noise, iterate.noise)
                if (
                    not method.f.convex
                ):  # a tangent bounds nothing: the gap is that of the point itself
                    lower = value + iterate.lower_bound - iterate.value
                still = stalled.by(iterate, lower if method.f.convex else lower - value)
                shown = iterate if effort is iterate.effort else iterate._replace(effort=effort)
                del iterate  # as large as several x: not to be held while the method works
                yield shown
                del shown
                if still:
                    break
            before = effort
            if deadline.passed() or value - lower <= EXHAUSTED * noise:
                return
            method = next(self.others, None)
            if method is None and failure is not None:
                raise failure
