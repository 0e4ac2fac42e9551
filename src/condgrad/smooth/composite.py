"""f(x) = h(Kx) with a separable h: one product K s an iteration serves the step, the value and the next point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse

from condgrad._arrays import (
    Array,
    Matrix,
    Space,
    Vector,
    combine,
    dot,
    dots,
    double,
    is_dense,
    mixed,
    namespace,
    product,
    spectral_norm,
    stack,
    total,
)
from condgrad.problem import Smooth
from condgrad.restriction import Local, Quadratic, Restriction

FINER = 2.0**-29
"""The rounding unit of float64 in those of float32."""


class Profile(NamedTuple):
    """A loss at z with its intercept at its best."""

    value: float
    theta: Array
    """The gradient; with an intercept it sums to 0."""
    intercept: float


class Separable(Protocol):
    """h(z) = sum_i h_i(z_i), or min_b sum_i h_i(z_i + b) with an intercept; evaluated in float64.

    `near` is an intercept close to the best one, where one is known: it saves time and changes nothing else.
    """

    quadratic: bool
    curvature_bound: float
    has_intercept: bool

    def evaluate(self, z: Array) -> tuple[float, Array]:
        """h(z) and its gradient."""

    def profile(self, z: Array, *, near: float | None = None) -> Profile:
        """h(z), its gradient and the best intercept."""

    def intercept_at(self, z: Array, *, near: float | None = None) -> float:
        """The best intercept; 0 where there is none."""

    def curvature(self, z: Array, *, intercept: float | None = None) -> Array:
        """The second derivatives h_i'' at z_i, or at z_i + b; with no intercept, the diagonal of the Hessian.

        `intercept` is the best one if known.
        """

    def hessian_gram(self, z: Array, directions: Array, *, intercept: float | None = None) -> Any:
        """The matrix <d_i, hess h(z) d_j> of a few directions, on the host; `intercept` is the best one if known."""


class Composite(Smooth):
    """f(x) = h(Kx)."""

    def __init__(self, K: Matrix, h: Separable) -> None:
        self.K, self.h = K, h
        self.space = Space.of(K, shape=(K.shape[1],))

    @cached_property
    def smoothness(self) -> float | None:
        return self.h.curvature_bound * spectral_norm(self.K) ** 2

    @cached_property
    def by_row(self) -> Matrix:
        """K, where it is sparse in a form that has one row after the other and each entry once."""
        if is_dense(self.K):
            return self.K
        K = scipy.sparse.csr_array(self.K)
        if not K.has_canonical_format:
            K = K.copy()
            K.sum_duplicates()
        return K

    def at(self, x: Array) -> CompositeEvaluation:
        return CompositeEvaluation(self.K, self.h, double(product(self.K, x)))

    def intercept_at(self, x: Array) -> float:
        """The intercept that was minimised out at x; 0 where there is none."""
        return self.h.intercept_at(double(product(self.K, x)))

    def __repr__(self) -> str:
        m, n = self.K.shape
        return f"{type(self).__name__}({m} samples, {n} features{', intercept' if self.h.has_intercept else ''})"


class CompositeEvaluation:
    """h(Kx) from z = Kx; moves on by mixing z's.

    The bound `offset + min <K'theta, s> + g(s)` holds for *any* z with theta = grad h(z) (it is the dual
    function at theta), so rounding that builds up in z never spoils the certificate.
    """

    def __init__(self, K: Matrix, h: Separable, z: Array, *, near: float | None = None) -> None:
        self.K, self.h, self.z = K, h, z
        self.value, self.theta, self.intercept = h.profile(z, near=near)

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
        size = dot(self._theta_size, namespace(self.z).abs(other.z))
        if other.intercept == 0.0:
            return size
        # theta sums to 0 up to the rounding of float64, which an intercept multiplies
        share = 1.0 if self.K.dtype == self.theta.dtype else FINER
        return size + share * abs(other.intercept) * total(self._theta_size)

    @cached_property
    def _theta_size(self) -> Array:
        return namespace(self.theta).abs(self.theta)

    def along(self, others: Sequence[CompositeEvaluation], directions: Array) -> Restriction:
        moves = stack([other.z - self.z for other in others])
        if not self.h.quadratic:
            shifts = np.array([other.intercept - self.intercept for other in others])
            return CompositeRestriction(self.h, self.z, moves, self.intercept, shifts)
        bend = self.h.hessian_gram(self.z, moves, intercept=self.intercept)
        return Quadratic(self.value, dots(moves, self.theta), bend)

    def moved(self, x: Array, others: Sequence[CompositeEvaluation], a: Vector) -> CompositeEvaluation:
        z = mixed(self.z, [other.z for other in others], a)
        near = self.intercept + sum(a[i] * (other.intercept - self.intercept) for i, other in enumerate(others))
        return CompositeEvaluation(self.K, self.h, z, near=float(near))


class CompositeRestriction:
    """a -> h(z + sum_i a_i directions[i]), whose intercept is about that at z plus <a, shifts>."""

    def __init__(self, h: Separable, z: Array, directions: Array, intercept: float, shifts: Vector) -> None:
        self.h, self.z, self.directions = h, z, directions
        self.intercept, self.shifts = intercept, shifts

    def value(self, a: Vector) -> float:
        return self._profile(a)[1].value

    def local(self, a: Vector) -> Local:
        z, (value, theta, intercept) = self._profile(a)
        bend = self.h.hessian_gram(z, self.directions, intercept=intercept)
        return Local(value, dots(self.directions, theta), bend)

    def _profile(self, a: Vector) -> tuple[Array, Profile]:
        z = self.z + combine(a, self.directions)
        return z, self.h.profile(z, near=self.intercept + float(a @ self.shifts))
