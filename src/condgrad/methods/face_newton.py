"""Newton's method for h(Kx) + weight |x|^2 on a polyhedral set: a quadratic model minimised over its faces.

At x the model q(y) = <grad F(x), y - x> + <y - x, (K' hess h K + 2 weight) (y - x)>/2 is minimised over the set by
semismooth Newton steps of its own: the projection of y - alpha grad q(y) names a face, and the minimum of q on the
affine hull of that face is the next y. A face has few free coordinates, and its equations are solved in them or in the
samples, whichever are fewer. The minimiser gives a direction, along which F itself must fall.

Where points may be sparse, only a working set of coordinates is looked at between two full gradients: the support of x
and the steepest of the rest. The lower bound is always that of the full problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from condgrad._arrays import Array, dot, double, namespace, selected_columns, steepest_indices
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.methods.quadratic_model import QuadraticModel
from condgrad.methods.spg import Total, Witness
from condgrad.problem import Set, Simple, Smooth
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import Composite, CompositeEvaluation

SMALLEST_SET = 64
"""Coordinates of the first working set."""
SETTLED = 1e-3
"""A working set has done its work when what it still promises is this share of the full gap."""


@dataclass(frozen=True)
class FaceNewton:
    """Newton's method on the faces of a polyhedral set."""

    f: Composite
    g: Ridge | Zero

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> FaceNewton:
        """The method, or a sentence that names the missing piece."""
        if not isinstance(f, Composite):
            raise MissingAbility(f"{f!r} is no h(Kx): LeastSquares, Logistic and SquaredHinge are")
        if not isinstance(g, Ridge | Zero):
            raise MissingAbility(f"{g!r} is no quadratic: Ridge and Zero are")
        if type(g.on).face is Set.face:
            raise MissingAbility(f"{g.on!r} has no faces: L1Ball, Simplex and Box do")
        return cls(f, g)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, witness, n = self.f, self.g, Witness(self.f, self.g), x.shape[0]
        point, step, inner, size = Total(f, g, x), 0.0, 0, SMALLEST_SET
        sparse = g.on.solid and g.on.shape is None
        while True:
            iterate = witness.iterate(point, step, inner_iterations=inner)
            yield iterate
            size = min(n, max(size, 2 * int(namespace(x).count_nonzero(x))))
            if sparse and 2 * size < n:
                chosen = steepest_indices(point.gradient, point.x, size)
                part = FacePart(f, g, chosen, point)
                step = part.descend(SETTLED * (iterate.value - iterate.lower_bound))
                x = part.embedded(point.x)
            else:
                part = FacePart(f, g, None, point)
                step = part.descend(None)
                x = part.x
            inner += part.steps
            if step == 0.0 and size == n:
                return
            size = min(n, 2 * size) if step == 0.0 else size
            point = Total(f, g, x, CompositeEvaluation(f.K, f.h, part.z, near=part.intercept))


class FacePart:
    """The problem in some of the coordinates, the others being 0."""

    def __init__(self, f: Composite, g: Ridge | Zero, chosen: Array | None, point: Total) -> None:
        self.h, self.on, self.chosen = f.h, g.on, chosen
        self.K = f.K if chosen is None else selected_columns(f.K, chosen)
        self.x = point.x if chosen is None else point.x[chosen]
        self.weight = g.weight if isinstance(g, Ridge) else 0.0
        self.z, self.smooth = point.smooth.z, point.smooth.value
        self.theta, self.intercept = point.smooth.theta, point.smooth.intercept
        self.steps = 0

    def embedded(self, x: Array) -> Array:
        """The point in all coordinates."""
        whole = namespace(x).zeros_like(x)
        whole[self.chosen] = self.x
        return whole

    def descend(self, enough: float | None) -> float:
        """Newton steps until they promise less than `enough`, or one of them; the length of the last."""
        step = 0.0
        while self.steps < 50:
            gradient = double(self.K.T @ self.theta) + (2.0 * self.weight) * self.x
            w = self.h.plain.curvature(self.z + self.intercept)
            model = QuadraticModel(self.K, w, 2.0 * self.weight, centred=self.h.has_intercept)
            end = self.on.project(model.argmin(self.x, gradient, self.on))
            d = end - self.x
            promise = -dot(gradient, d)
            taken = self._search(d, promise) if promise > 0.0 else 0.0
            step = taken or step
            self.steps += 1
            if enough is None or taken == 0.0 or promise <= enough:
                return step
        return step

    def _search(self, d: Array, promise: float) -> float:
        """Halve the step until F falls by a fraction of what was promised."""
        dz = double(self.K @ d)
        value = self.smooth + self.weight * dot(self.x, self.x)
        cross, square = 2.0 * self.weight * dot(self.x, d), self.weight * dot(d, d)
        noise = 4e-16 * abs(value)
        step = 1.0
        while step > 1e-12:
            profile = self.h.profile(self.z + step * dz, near=self.intercept)
            fall = self.smooth - profile.value - step * (cross + step * square)
            if fall >= 1e-4 * step * promise - noise:
                self.x, self.z = self.x + step * d, self.z + step * dz
                self.smooth, self.theta, self.intercept = profile
                return step
            step *= 0.5
        return 0.0
