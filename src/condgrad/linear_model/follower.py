"""From the solution for one radius to that for the next: the fast way along a path, certified like every other.

The solutions for neighbouring radii mostly have the same coordinates at 0. So the next one is guessed by a face of the
ball, on which a quadratic model of F is minimised by one linear system, and Lemma 2 judges the guess on the full
problem. This is the primal-dual active-set method (a semismooth Newton method) for

    x = P(x - t grad F(x)),

whose right-hand side names the face. Coordinates whose signs the system turns leave the face before it is solved again.
The method converges from nearby or not at all: where it does not, `condgrad.minimize` goes on from its best point.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from condgrad import deadline
from condgrad.arrays import Array, dot, double, is_dense, is_torch
from condgrad.certificate import Certificate, Terms
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.newton.face_models import LEAST_CURVATURE
from condgrad.problem import Set, Simple
from condgrad.search.backtracking import backtrack
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.composite import Composite

PATIENCE = 3
"""Steps along a path that may pass without halving the gap."""
SHRINK = 0.3
"""How a step towards the least point of a model shrinks where F is not lower."""
SHORTEST = 1e-2
"""The shortest step towards the least point of a model that is tried."""
MOST_COPIED = 1 << 24
"""Entries of the columns of a face that are worth a copy."""


class CertifiedGuess(NamedTuple):
    """The best point found for one radius, with its proof."""

    point: ObjectivePoint
    proof: Certificate
    steps: int


class PathFollower:
    """Guesses for one loss and one radius after the other, sharing what does not depend on the radius."""

    def __init__(self, f: Composite | BlockwiseLoss) -> None:
        self.f = f
        self._last_face: tuple[Array, Array] | None = None

    @staticmethod
    def can_follow(f: Any) -> bool:
        """Whether f is an h(Kx) whose columns are at hand, in NumPy arrays or SciPy matrices, and cheap to copy.

        Those of a sparse matrix of more rows than columns are cheaper left sparse, as `condgrad.minimize` does.
        """
        if isinstance(f, BlockwiseLoss):
            return True
        if not isinstance(f, Composite) or is_torch(f.K):
            return False
        return is_dense(f.K) or f.K.shape[0] <= f.K.shape[1]

    @property
    def starts_anywhere(self) -> bool:
        """Whether a solution without a constraint, in which no coordinate is 0, is cheap to find as well."""
        return isinstance(self.f, BlockwiseLoss) or is_dense(self.f.K)

    @cached_property
    def null_value(self) -> float:
        """f where all coefficients are 0."""
        return float(self.f.at(self.f.space.full(0.0)).value)

    @cached_property
    def _typical_curvature(self) -> float:
        """The curvature of f along a coordinate, at most and on average."""
        return float(self.f.h.curvature_bound * np.mean(self.f.column_norms**2))

    def _system(self, point: ObjectivePoint, active: Array, ridge: float) -> FaceSystem | None:
        """The Newton system in the coordinates of a face; None where they are too many."""
        if isinstance(self.f, BlockwiseLoss):
            if len(active) ** 2 > MOST_COPIED:
                return None
            gram, right = point.smooth.newton_system(active)
            return FaceSystem(None, right, 2.0 * ridge, gram)
        if len(active) * self.f.K.shape[0] > MOST_COPIED:
            return None
        return FaceSystem.of(self.f, point, self._columns(active), ridge)

    @cached_property
    def _by_column(self) -> Any:
        assert isinstance(self.f, Composite)
        return self.f.K if is_dense(self.f.K) else self.f.K.tocsc()

    def follow(self, g: Simple, ridge: float, x: Array, *, tol: float, patience: int = PATIENCE) -> CertifiedGuess:
        """The best point on the way from x, which lies in the set, until its gap is within tol or hardly falls.

        `patience` is how many steps may pass without halving the gap.
        """
        certifier = Certifier(self.f, g, Tally())
        best = point = ObjectivePoint(self.f, g, x, certifier.tally)
        proof, mark, left, steps = Certificate(null_size=self.null_value), np.inf, patience, 0
        while True:
            proof = proof.updated(certifier.iterate(point, 1.0), steps)
            if proof.x is point.x:
                best = point
            left -= 1
            if proof.gap <= 0.5 * mark:
                mark, left = proof.gap, patience
            if proof.relative_gap <= tol or left == 0 or deadline.passed():
                break
            end = self._least_on_face(point, g.on, ridge)
            if end is None:
                break
            point, steps = lower_on_the_way(point, point.at(end)), steps + 1
        if best.x.dtype != np.float64:  # as `condgrad.minimize` does: what is claimed of a point is computed in float64
            x = double(best.x)
            proof = proof.revalued(Terms(self.f.at(x).value, g.value(x)))
        return CertifiedGuess(best, proof, steps)

    def _least_on_face(self, point: ObjectivePoint, on: Set, ridge: float) -> Array | None:
        """The least point of the model of F at a point, on the face that the gradient names; None if it has none."""
        length = 1.0 / (2.0 * ridge + self._typical_curvature or 1.0)
        face = on.face(double(point.x) - length * double(point.gradient))
        active, normal = face.active, face.normal
        system = self._system(point, active, ridge)
        if system is None:
            return None
        end = np.zeros_like(point.x)
        while len(active):
            try:
                y = system.solution() if normal is None else system.solution_with_sum(normal, on.scale)
            except np.linalg.LinAlgError:
                return None
            if not np.isfinite(y).all():
                return None
            wrong = (y < 0.0) & on.nonnegative if normal is None else y * normal < 0.0
            if not wrong.any():
                end[active] = y
                return on.project(end)
            active = active[~wrong]
            normal = None if normal is None else normal[~wrong]
            system = system.without(wrong)
        return None

    def _columns(self, active: Array) -> Array:
        """The columns of a face, dense and in float64; those of the last face are kept."""
        if self._last_face is None or not np.array_equal(self._last_face[0], active):
            taken = self._by_column[:, active]
            self._last_face = active, double(taken) if is_dense(taken) else taken.toarray().astype(np.float64)
        return self._last_face[1]


def lower_on_the_way(point: ObjectivePoint, end: ObjectivePoint) -> ObjectivePoint:
    """The end, or the first point back from there at which F is lower than at the start, if one is near enough."""
    tried = end

    def attempt(step: float) -> ObjectivePoint | None:
        nonlocal tried
        tried = end if step == 1.0 else point.moved(end, step)
        return tried if tried.value < point.value else None

    backtrack(attempt, shrink=SHRINK, shortest=SHRINK * SHORTEST)
    return tried


class FaceSystem:
    """(B'B + 2 ridge) y = right: the Newton system of F in the coordinates of a face, B = W^(1/2) K there.

    It is solved from B'B or, by Woodbury's formula, from B B', whichever is smaller; without B, from B'B.
    """

    def __init__(self, B: Array | None, right: Array, curvature: float, gram: Array) -> None:
        self.B, self.right, self.curvature, self.gram = B, right, curvature, gram

    @classmethod
    def of(cls, f: Composite, point: ObjectivePoint, K: Array, ridge: float) -> FaceSystem:
        """The system at a point: right = K'(W K x - theta), so that y is where to go, not how far."""
        here = point.smooth
        w = f.h.curvature(here.z, intercept=here.intercept)
        unit = float(w.max()) or 1.0
        w = w / unit  # in units of the largest weight: then square roots do not depend on the unit of F
        pull = w * here.z
        mass = float(w.sum()) if f.h.has_intercept else 0.0
        if mass > 0.0:
            pull = pull - w * (float(pull.sum()) / mass)
            K = K - (w @ K) / mass
        B = np.sqrt(w)[:, None] * K
        m, k = B.shape
        curvature = 2.0 * ridge / unit
        right = K.T @ (pull - here.theta / unit)
        return cls(B, right, curvature, B.T @ B if k <= m or curvature == 0.0 else B @ B.T)

    def without(self, left_out: Array) -> FaceSystem:
        """The system of fewer coordinates."""
        kept = ~left_out
        if self.B is None:
            return FaceSystem(None, self.right[kept], self.curvature, self.gram[np.ix_(kept, kept)])
        B, (m, k) = self.B[:, kept], self.B.shape
        if self.gram.shape[0] == k and not (k == m and self.curvature > 0.0):
            gram = self.gram[np.ix_(kept, kept)]
        elif B.shape[1] <= m:
            gram = B.T @ B
        else:
            out = self.B[:, left_out]
            gram = self.gram - out @ out.T
        return FaceSystem(B, self.right[kept], self.curvature, gram)

    def solution(self) -> Array:
        return self._solved(self.right[:, None])[:, 0]

    def solution_with_sum(self, normal: Array, size: float) -> Array:
        """y with <normal, y> = size, which a multiplier of `normal` on the right-hand side brings about."""
        free, response = self._solved(np.stack([self.right, normal], axis=1)).T
        return free - ((dot(normal, free) - size) / dot(normal, response)) * response

    def _solved(self, sides: Array) -> Array:
        H = self.gram.copy()
        diagonal = np.einsum("jj->j", H)
        if self.B is None or H.shape[0] == sides.shape[0]:
            diagonal += self.curvature + LEAST_CURVATURE * diagonal
            return solved_positive(H, sides)
        diagonal += self.curvature
        return (sides - self.B.T @ solved_positive(H, self.B @ sides)) / self.curvature


def solved_positive(H: Array, sides: Array) -> Array:
    """H^-1 sides for a positive definite H, which is spoiled, by LAPACK itself: these systems are small and many."""
    _, solved, info = scipy.linalg.lapack.dposv(H, sides, overwrite_a=True)
    if info != 0:
        raise np.linalg.LinAlgError("the system of a face is not positive definite")
    return solved
