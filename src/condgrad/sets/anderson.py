"""Anderson's extrapolation of a fixed-point iteration x -> T(x), and the scalings of kernels that
it speeds up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, combine, dots, gram, namespace, smallest, stack
from condgrad.problem import Answer

MAX_PASSES = 2000
"""Passes of one call; what it has by then is certified as far as it came, and the next call starts
from there.
"""


class Anderson:
    """Proposes the point whose residual T(x) - x is smallest over the affine hull of the last few."""

    def __init__(self, depth: int) -> None:
        self.differences: deque[tuple[Array, Array]] = deque(maxlen=depth)
        self.last: tuple[Array, Array] | None = None

    def forget(self) -> None:
        self.differences.clear()
        self.last = None

    def propose(self, x: Array, mapped: Array) -> Array:
        """The next point, given T(x); that itself when nothing is remembered."""
        residual = mapped - x
        if self.last is not None:
            self.differences.append((mapped - self.last[0], residual - self.last[1]))
        self.last = (mapped, residual)
        if not self.differences:
            return mapped
        moves, residuals = (stack(list(column)) for column in zip(*self.differences, strict=True))
        G = gram(residuals)
        # the Gram matrix of nearly parallel differences is singular up to rounding
        G += 1e-10 * (np.trace(G) or 1.0) * np.eye(len(G))
        return mapped - combine(np.linalg.solve(G, dots(residuals, residual)), moves)


def largest_log_scaling(x: Array) -> float:
    """Beyond exp of this (59 in float64, 7 in float32) a scaling is absorbed, far from the limits
    of a float.
    """
    return -math.log(smallest(x)) / 12.0


class Certified(NamedTuple):
    """An answer, and how far its objective is above its bound."""

    answer: Answer
    gap: float


class AcceleratedScaling(ABC):
    """Alternating scalings of a kernel exp((potentials - c)/weight), as a fixed-point map for
    log-scalings x.

    A state has x, what the map makes of it, the dual value and the error of the marginals. Scalings
    that grow too far are absorbed into the potentials, and the kernel is formed again from these.
    An extrapolation is accepted only if the dual does not fall.
    """

    weight: float
    state: Any

    def __init__(self) -> None:
        self.anderson = Anderson(depth=8)
        self.passes = 0
        self.stuck = False

    @property
    @abstractmethod
    def absorbed(self) -> Array:
        """The potential in the kernel that x scales."""

    @abstractmethod
    def restart(self, potential: Array) -> None:
        """Put a potential into the kernel; scalings start from 1."""

    @abstractmethod
    def evaluate(self, x: Array) -> Any:
        """The state at x."""

    @abstractmethod
    def certified(self) -> Certified:
        """A point of the set near the scaled kernel, with the dual value as its bound."""

    @property
    def farthest(self) -> float:
        """The logarithm of a scaling beyond which it is absorbed."""
        return largest_log_scaling(self.absorbed)

    @property
    def potential(self) -> Array:
        """That of the scaled kernel."""
        return self.absorbed + self.weight * self.state.x

    def proposed(self) -> Array:
        """Where to look next: by Anderson's rule."""
        return self.anderson.propose(self.state.x, self.state.mapped)

    def refused(self) -> None:
        """The dual fell at the proposed point."""
        self.anderson.forget()

    def allowed(self, x: Array) -> Array:
        """An extrapolation, moved back to where the dual is finite."""
        return x

    def solve(self, accuracy: float, max_passes: int) -> Certified:
        """Iterate until the gap is within `accuracy`, or nothing more can be done."""
        # the error at which to look; what a look shows sets the next one
        xp = namespace(self.absorbed)
        spread = float(xp.max(self.potential) - xp.min(self.potential))
        aim = accuracy / (spread + 10.0 * self.weight)
        while True:
            self.iterate(aim, max_passes)
            found = self.certified()
            if (
                found.gap <= accuracy
                or self.passes >= max_passes
                or self.stuck
                or deadline.passed()
                or not self.state.error > 0.0
            ):
                return found
            aim = 0.5 * self.state.error * min(1.0, accuracy / found.gap)

    def iterate(self, aim: float, max_passes: int) -> None:
        """Iterate until the error is within `aim`, the passes or the time are used up, or rounding
        stops all progress.
        """
        xp = namespace(self.absorbed)
        limit = self.farthest
        while (
            self.state.error > aim
            and self.passes < max_passes
            and not (self.stuck or deadline.passed())
        ):
            before = self.state
            if float(xp.max(xp.abs(before.mapped))) > limit:
                self.restart(self.absorbed + self.weight * before.mapped)
                continue
            trial = self.allowed(self.proposed())
            far = not float(xp.max(xp.abs(trial))) <= limit
            if not far:
                self.state = self.evaluate(trial)
            if far or not self.state.dual >= before.dual:
                # the extrapolation went too far; the map's own step cannot
                self.refused()
                self.state = self.evaluate(before.mapped)
                self.stuck = self.state.dual <= before.dual and self.state.error >= before.error


def scaled_start(
    scaling_at: Callable[[float, Array], AcceleratedScaling],
    potential: Array,
    *,
    height: float,
    mass: float,
    weight: float,
) -> tuple[Array, int]:
    """A potential from larger entropies, halved each time, for costs of a height: a cold start at a
    small one crawls. And the passes that it took.
    """
    passes = 0
    t = height / 20.0
    while t > 2.0 * weight and not deadline.passed():
        scaling = scaling_at(t, potential)
        scaling.iterate(0.01 * mass, MAX_PASSES)
        potential = scaling.potential
        passes = passes + scaling.passes
        t *= 0.5
    return potential, passes
