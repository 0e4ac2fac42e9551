"""A smooth part of your own: Huber's loss of the residuals Kx - y. Newton's method can use it.

A `Composite` is f(x) = h(Kx), where h is a sum over the samples. You write the class of h. It has
the methods of the protocol `Separable`: the value, the gradient and the second derivatives of h.
Two more methods are for an intercept. This loss has no intercept, so they are short. (The library
has this loss as `condgrad.smooth.Huber`.)

For any other smooth function, use `condgrad.smooth.Function`, or write a subclass of
`condgrad.smooth.Smooth`.
"""

from typing import Any

import numpy as np

import condgrad as cg
from condgrad.smooth.composite import AtBestIntercept, Composite


class Huber:
    """h(z) = sum_i r_i^2/2 where |r_i| <= width, else width (|r_i| - width/2), with r = z - y."""

    quadratic = False
    has_intercept = False
    curvature_bound = 1.0

    def __init__(self, y: Any, width: float) -> None:
        self.y, self.width = np.asarray(y, dtype=np.float64), width

    def evaluate(self, z: Any) -> tuple[float, Any]:
        r = z - self.y
        theta = np.clip(r, -self.width, self.width)
        return float(theta @ (r - 0.5 * theta)), theta

    def at_best_intercept(self, z: Any, *, near: float | None = None) -> AtBestIntercept:
        return AtBestIntercept(*self.evaluate(z), 0.0)

    def intercept_at(self, z: Any, *, near: float | None = None) -> float:
        return 0.0

    def curvature(self, z: Any, *, intercept: float | None = None) -> Any:
        return (np.abs(z - self.y) <= self.width).astype(np.float64)

    def hessian_gram(self, z: Any, directions: Any, *, intercept: float | None = None) -> Any:
        return (directions * self.curvature(z)) @ directions.T


rng = np.random.default_rng(0)
A = rng.standard_normal((60, 200))
y = A[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(60)
y[:5] += 30.0  # outliers: least squares would follow them

result = cg.minimize(
    Composite(A, Huber(y, 0.5)), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0)), method="auto"
)
assert result.success
assert result.method == "newton"
assert set(np.argsort(-np.abs(result.x))[:4]) == {0, 1, 2, 3}
