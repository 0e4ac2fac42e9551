"""A set of your own: {x : |x|_inf <= 1, |x|_1 <= k}. At its corners k entries are -1 or 1, and the
others are 0.

A `Set` has a start point and a measure of how far a point is outside. It also has one or more of
three methods. If g is `Zero` or a norm, it needs `linear_argmin`. `Ridge` needs `project`, and
`Entropy` needs `entropic_argmin`.
"""

from typing import Any

import numpy as np

import condgrad as cg


class SparsePolytope(cg.sets.Set):
    solid = True  # if coordinates of a point shrink, it stays inside; `L1Norm` needs this
    largest_entry = 1.0

    def __init__(self, k: int) -> None:
        self.k, self.scale = k, float(k)

    def start(self, space: Any) -> Any:
        return space.full(0.0)

    def violation(self, x: Any) -> float:
        return max(0.0, float(np.abs(x).max()) - 1.0, float(np.abs(x).sum()) - self.k)

    def linear_argmin(self, c: Any) -> Any:
        s = np.zeros_like(c)
        largest = np.argsort(-np.abs(c))[: self.k]
        s[largest] = -np.sign(c[largest])
        return s  # the point alone, because it is exact; otherwise cg.Answer(point, bound)


rng = np.random.default_rng(0)
A, truth = rng.standard_normal((80, 30)), np.zeros(30)
truth[[3, 7, 11]] = 1.0, -1.0, 1.0
f = cg.smooth.LeastSquares(A, A @ truth + 0.1 * rng.standard_normal(80))
result = cg.minimize(f, cg.simple.Zero(on=SparsePolytope(3)), tol=1e-3)
assert result.success
np.testing.assert_allclose(result.x, truth, atol=0.1)
