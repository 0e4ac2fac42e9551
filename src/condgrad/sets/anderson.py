"""Anderson's extrapolation of a fixed-point iteration x -> T(x), and the scalings of kernels that
it speeds up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, combine, dots, gram, namespace, smallest, stack


class Anderson:
    """Proposes the point whose residual T(x) - x is smallest over the affine hull of the last few."""

    def __init__(self, depth: int) -> None:
        self.differences: deque[tuple[Array, Array]] = deque(maxlen=depth)
        self.last: tuple[Array, Array] | None = None

    def forget(self) -> None:
        self.differences.clear()
        self.last = None

    def propose(self, x: Array, image: Array) -> Array:
        """The next point, given T(x); the image itself when nothing is remembered."""
        residual = image - x
        if self.last is not None:
            self.differences.append((image - self.last[0], residual - self.last[1]))
        self.last = (image, residual)
        if not self.differences:
            return image
        images, residuals = (stack(list(column)) for column in zip(*self.differences, strict=True))
        G = gram(residuals)
        # the Gram matrix of nearly parallel differences is singular up to rounding
        G += 1e-10 * (np.trace(G) or 1.0) * np.eye(len(G))
        return image - combine(np.linalg.solve(G, dots(residuals, residual)), images)


def largest_log_scaling(x: Array) -> float:
    """Beyond exp of this (59 in float64, 7 in float32) a scaling is absorbed, far from the limits
    of a float.
    """
    return -math.log(smallest(x)) / 12.0


class AcceleratedScaling(ABC):
    """Alternating scalings of a kernel exp((potentials - c)/weight), as a fixed-point map for
    log-scalings x.

    A state has x, its image under the map, the dual value and the error of the marginals. Scalings
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

    def proposed(self) -> Array:
        """Where to look next: by Anderson's rule."""
        return self.anderson.propose(self.state.x, self.state.image)

    def refused(self) -> None:
        """The dual fell at the proposed point."""
        self.anderson.forget()

    def allowed(self, x: Array) -> Array:
        """An extrapolation, moved back to where the dual is finite."""
        return x

    def iterate(self, aim: float, max_passes: int) -> None:
        """Iterate until the error is within `aim`, the passes or the time are used up, or rounding
        stops all progress.
        """
        xp = namespace(self.absorbed)
        limit = largest_log_scaling(self.absorbed)
        while (
            self.state.error > aim
            and self.passes < max_passes
            and not (self.stuck or deadline.passed())
        ):
            before = self.state
            if float(xp.max(xp.abs(before.image))) > limit:
                self.restart(self.absorbed + self.weight * before.image)
                continue
            trial = self.allowed(self.proposed())
            far = not float(xp.max(xp.abs(trial))) <= limit
            if not far:
                self.state = self.evaluate(trial)
            if far or not self.state.dual >= before.dual:
                # the extrapolation went too far; the map's own step cannot
                self.refused()
                self.state = self.evaluate(before.image)
                self.stuck = self.state.dual <= before.dual and self.state.error >= before.error
