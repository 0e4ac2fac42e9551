"""Anderson's extrapolation of a fixed-point iteration x -> T(x)."""

from __future__ import annotations

from collections import deque

import numpy as np

from condgrad.arrays import Array, combine, dots, gram, stack


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
