"""A Newton engine of your own: least squares with an entropy on the simplex.

Let f = |Kx - y|^2/2. Let g be weight times sum x log x, on the simplex: all x >= 0 whose entries
add up to mass. For any z, with theta = z - y and phi(c) = min_s <c, s> + g(s),

    D(z) = |y|^2/2 - |z|^2/2 + phi(K'theta)

is a lower bound on F*. It is concave, with gradient K s - z and Hessian -(I + K J K'). Here s is
the oracle's point (a softmax) and J = (diag(s) - s s'/mass)/weight. A `DualModel` supplies D, a
Newton direction and a feasible point. `Newton` does the rest. It solves a path of problems: first
with t g in place of g for a large t, then with smaller t, down to 1. In each step it finds how
far to go along the direction. It also computes the certificate.

A `DualModel` has defaults for all methods that this program does not write. An engine of the
library also needs a row in `condgrad/newton/engines.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import condgrad as cg
from condgrad.certificate import Terms
from condgrad.loop import run
from condgrad.newton.ascent import Ascent, AscentProgress, DualModel, Newton, Primal
from condgrad.stopping import RelativeGap


@dataclass
class PointOfDual:
    z: Any
    t: float
    s: Any
    dual: float
    magnitude: float


class SquaresWithEntropy(DualModel):
    """The dual of least squares with t * entropy on a simplex."""

    affordable = True

    def __init__(self, K: Any, y: Any, weight: float, simplex: cg.sets.Simplex) -> None:
        self.K, self.y, self.weight, self.simplex = K, y, weight, simplex

    def start(self, x: Any) -> Any:
        return self.K @ x

    def evaluate(self, z: Any, t: float) -> PointOfDual:
        answer = self.simplex.entropic_argmin(self.K.T @ (z - self.y), t * self.weight)
        dual = 0.5 * float(self.y @ self.y - z @ z) + answer.bound
        size = 0.5 * float(self.y @ self.y + z @ z) + abs(answer.bound) + answer.magnitude
        return PointOfDual(z, t, answer.point, dual, size)

    def moved(self, z: Any, direction: Any, step: float) -> Any:
        return z + step * direction

    def farthest_stage(self, z: Any) -> float:
        return float(np.ptp(self.K.T @ (z - self.y))) / self.weight

    def stage_tolerance(self, t: float) -> float:
        return 0.1 * t * self.weight * self.simplex.mass

    def stage_gap(self, point: PointOfDual) -> float:
        terms = self.primal(point).terms
        return terms.f + point.t * terms.g - point.dual

    def ascent(self, point: PointOfDual, progress: AscentProgress) -> Ascent:
        K, s = self.K, point.s
        gradient, image = K @ s - point.z, K @ s
        J = ((K * s) @ K.T - np.outer(image, image) / self.simplex.mass) / (point.t * self.weight)
        direction = np.linalg.solve(np.eye(len(image)) + J, gradient)
        return Ascent(direction, float(gradient @ direction), 1)

    def primal(self, point: PointOfDual) -> Primal:
        s, r = point.s, self.K @ point.s - self.y
        terms = Terms(0.5 * float(r @ r), self.weight * float(s @ np.log(np.maximum(s, 1e-300))))
        return Primal(s, terms, terms.f)


rng = np.random.default_rng(0)
K, y, simplex = rng.standard_normal((20, 50)), rng.standard_normal(20), cg.sets.Simplex(50)
f, g = cg.smooth.LeastSquares(K, y), cg.simple.Entropy(0.01, on=simplex)
newton = Newton(f, g, SquaresWithEntropy(K, y, 0.01, simplex))
result = run(
    newton, np.full(50, 0.02), null_size=0.0, stop=RelativeGap(1e-9), max_iter=100, callback=None
)
assert result.success

judge = cg.minimize(f, g, memory=5, tol=1e-4)
assert result.lower_bound <= judge.value
assert judge.lower_bound <= result.value
assert result.iterations < judge.iterations
