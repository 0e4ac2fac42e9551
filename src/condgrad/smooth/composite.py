"""f(x) = h(Kx) with a separable h: one product K s an iteration serves the step, the value and the next point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from condgrad._arrays import (
    Array,
    Matrix,
    Space,
    Vector,
    combine,
    dot,
    dots,
    double,
    gram,
    mixed,
    namespace,
    product,
    spectral_norm,
    stack,
)
from condgrad.problem import Smooth
from condgrad.restriction import Local, Quadratic, Restriction


class Separable(Protocol):
    """h(z) = sum_i h_i(z_i), evaluated in float64."""

    quadratic: bool
    curvature_bound: float

    def evaluate(self, z: Array) -> tuple[float, Array]:
        """h(z) and its gradient."""

    def curvature(self, z: Array) -> Array:
        """The diagonal of the Hessian."""


class Composite(Smooth):
    """f(x) = h(Kx)."""

    def __init__(self, K: Matrix, h: Separable) -> None:
        self.K, self.h = K, h
        self.space = Space.of(K, shape=(K.shape[1],))

    @cached_property
    def smoothness(self) -> float | None:
        return self.h.curvature_bound * spectral_norm(self.K) ** 2

    def at(self, x: Array) -> CompositeEvaluation:
        return CompositeEvaluation(self.K, self.h, double(product(self.K, x)))

    def __repr__(self) -> str:
        m, n = self.K.shape
        return f"{type(self).__name__}({m} samples, {n} features)"


class CompositeEvaluation:
    """h(Kx) from z = Kx; moves on by mixing z's.

    The bound `offset + min <K'theta, s> + g(s)` holds for *any* z with theta = grad h(z) (it is the dual
    function at theta), so rounding that builds up in z never spoils the certificate.
    """

    def __init__(self, K: Matrix, h: Separable, z: Array) -> None:
        self.K, self.h, self.z = K, h, z
        self.value, self.theta = h.evaluate(z)

    @property
    def gradient(self) -> Array:
        theta = self.theta
        if theta.dtype != self.K.dtype:
            theta = namespace(theta).astype(theta, self.K.dtype)
        return self.K.T @ theta

    @property
    def offset(self) -> float:
        return self.value - dot(self.theta, self.z)

    def magnitude(self, other: CompositeEvaluation) -> float:
        return dot(self._theta_size, namespace(self.z).abs(other.z))

    @cached_property
    def _theta_size(self) -> Array:
        return namespace(self.theta).abs(self.theta)

    def along(self, others: Sequence[CompositeEvaluation], directions: Array) -> Restriction:
        line = CompositeRestriction(self.h, self.z, stack([other.z - self.z for other in others]))
        if not self.h.quadratic:
            return line
        return Quadratic(self.value, dots(line.directions, self.theta), gram(line.directions, self.h.curvature(self.z)))

    def moved(self, x: Array, others: Sequence[CompositeEvaluation], a: Vector) -> CompositeEvaluation:
        return CompositeEvaluation(self.K, self.h, mixed(self.z, [other.z for other in others], a))


class CompositeRestriction:
    """a -> h(z + sum_i a_i directions[i])."""

    def __init__(self, h: Separable, z: Array, directions: Array) -> None:
        self.h, self.z, self.directions = h, z, directions

    def value(self, a: Vector) -> float:
        return self.h.evaluate(self.z + combine(a, self.directions))[0]

    def local(self, a: Vector) -> Local:
        z = self.z + combine(a, self.directions)
        value, theta = self.h.evaluate(z)
        return Local(value, dots(self.directions, theta), gram(self.directions, self.h.curvature(z)))
