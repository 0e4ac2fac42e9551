"""The dual of h(Kx) + ridge |x|^2 - <tilt, x> on a polyhedral set, and Newton steps on it.

With s the oracle's point at z and u = K s, a step leads to z = K (s - d), where d is the constrained minimum

    (K_A' W K_A + 2 ridge) d + mu e = K_A' W (u - z),   <e, d> = 0,   W = hess h(z),

on the face of s, with free coordinates A and normal e.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from condgrad._arrays import Array, Matrix, dot, double, namespace, principal_block, product, total
from condgrad.methods.face_system import least_by_gram, least_on_face
from condgrad.problem import Set
from condgrad.smooth.composite import Profile, Separable


class DualState:
    """The dual function at z."""

    def __init__(self, problem: ProximalDual, z: Array, profile: Profile) -> None:
        self.z, self.profile, self.problem = z, profile, problem
        c = double(problem.K.T @ profile.theta) - problem.tilt
        self.face = problem.on.face((-0.5 / problem.ridge) * c)
        self.s = self.face.point
        quadratic = problem.ridge * dot(self.s, self.s)
        self.simple = quadratic - dot(problem.tilt, self.s)
        self.dual = profile.value - dot(profile.theta, z) + dot(c, self.s) + quadratic

    @cached_property
    def image(self) -> Array:
        """K s."""
        return double(product(self.problem.K, self.s))


@dataclass(frozen=True)
class ProximalDual:
    """The dual of h(Kx) + ridge |x|^2 - <tilt, x> on a set."""

    K: Matrix
    h: Separable
    on: Set
    ridge: float
    tilt: Array
    bent: Array | None
    """K' W K where it is the same everywhere and at hand."""

    def at(self, z: Array, profile: Profile) -> DualState:
        return DualState(self, z, profile)

    def climbed(self, here: DualState) -> DualState | None:
        """Where a Newton step leads, halved until the dual rises."""
        r, w = here.image - here.z, self.h.plain.curvature(here.z + here.profile.intercept)
        mass = total(w) if self.h.has_intercept else 0.0
        bent = w * (r - dot(w, r) / mass) if mass > 0.0 else w * r
        dz = r - self._image_of_step(here, w, double(self.K.T @ bent))
        slope, step = dot(bent, dz), 1.0
        noise = 4e-16 * (abs(here.profile.value) + abs(here.simple) + dot(abs(here.profile.theta), abs(here.z)))
        while step > 1e-6:
            z = here.z + step * dz
            there = self.at(z, self.h.profile(z, near=here.profile.intercept))
            if there.dual >= here.dual + 1e-4 * step * slope - noise:
                return there
            step *= 0.5
        return None

    def _image_of_step(self, here: DualState, w: Array, g: Array) -> Array:
        """K d."""
        A, e, ridge = here.face.active, here.face.normal, 2.0 * self.ridge
        if self.bent is None:
            K = self.K if A.shape[0] == g.shape[0] else self.K[:, A]
            return double(K @ least_on_face(K, w, ridge, g[A], e, centred=self.h.has_intercept))
        d = namespace(g).zeros_like(g)
        d[A] = least_by_gram(principal_block(self.bent, A), ridge, g[A], e)
        return double(self.K @ d)
