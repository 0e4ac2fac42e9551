"""A quadratic model of dense data with many more coordinates than samples, minimised without a matrix of all pairs.

    min <q, y - x> + <y - x, H (y - x)>/2,   H = K' W K + curvature,   W = diag(w) or diag(w) - w w'/sum(w)

On a face Newton's equations are solved in as many unknowns as there are samples, by the identity
(B'B + c)^-1 = (1 - B' (B B' + c)^-1 B)/c, or in the free coordinates where these are fewer.
"""

from __future__ import annotations

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    copied,
    dot,
    double,
    namespace,
    product,
    solve_positive,
    total,
)
from condgrad.problem import Face, Set

LEAST_MEAN_CURVATURE = 1e-10
"""The least curvature added, as a share of the mean one of a coordinate: less leaves the identity too few digits."""
ROUNDS = 100
"""Rounds of `RowModel.least` at most: a point that is not the least yet leads down too."""
VISIBLE_FALL = 1e-13
"""A fall of the model, as a share of its fall so far, that is more than the rounding of its value."""


class RowModel:
    """The model of h(Kx) at one point."""

    def __init__(self, K: Matrix, w: Array, curvature: float, *, centred: bool) -> None:
        xp = namespace(w)
        self.K, self.w = K, w
        mass = total(w)
        self.mean = K.T @ (w / mass) if centred and mass > 0.0 else None
        # in units of the largest weight: then a square root does not depend on the unit of F
        self.unit = float(xp.max(w)) or 1.0
        self.root = xp.sqrt(w / self.unit)
        self.curvature = max(curvature, LEAST_MEAN_CURVATURE * self.unit * self._mean_square())

    def _mean_square(self) -> float:
        """The mean over the coordinates of sum_i w_i K_ij^2, in units of the largest weight."""
        K, weights = self.K, self.root * self.root
        return dot(weights, double(namespace(K).vecdot(K, K))) / K.shape[1]

    def image(self, d: Array) -> Array:
        """B d, with B'B = K' W K in units of the largest weight."""
        u = product(self.K, d)
        if self.mean is not None:
            u = u - dot(self.mean, d)
        return self.root * u

    def preimage(self, u: Array) -> Array:
        """B' u."""
        u = self.root * u
        d = self.K.T @ u
        return d if self.mean is None else d - total(u) * self.mean

    def hessian(self, d: Array) -> Array:
        """H d."""
        return self.unit * self.preimage(self.image(d)) + self.curvature * d

    def least(self, on: Set, start: Array, q: Array, accuracy: float) -> Array:
        """The least point over the set, to a gap of `accuracy` times the fall.

        Each round takes the better of two points: where a projected gradient leads, which alone would bring it to the
        solution, and the least point of the face that a longer gradient step leads to, projected.
        """
        x, value, length = start, 0.0, 1.0 / self.curvature
        for _ in range(ROUNDS):
            if deadline.passed() or dot(q, x) - on.linear_argmin(q).bound <= -accuracy * value:
                break
            cauchy_length = dot(q, q) / dot(q, self.hessian(q))
            move = on.project(x - cauchy_length * q) - x
            image = self.hessian(move)
            slope, curvature = dot(q, move), dot(move, image)
            step = min(1.0, -slope / curvature) if curvature > 0.0 else 1.0
            change = step * slope + 0.5 * step * step * curvature
            move, image = step * move, step * image
            face_move = on.project(self._face_point(on.face(x - length * q), x, q)) - x
            face_image = self.hessian(face_move)
            face_change = dot(q, face_move) + 0.5 * dot(face_move, face_image)
            if face_change < change:
                move, image, change = face_move, face_image, face_change
            else:
                length = max(0.1 * length, cauchy_length)
            if not change < VISIBLE_FALL * value:
                break
            x, q, value = x + move, q + image, value + change
        return x if on.violation(x) == 0.0 else on.project(x)

    def _face_point(self, face: Face, x: Array, q: Array) -> Array:
        """The least point of the affine hull of a face."""
        A, e, y = face.active, face.normal, face.point
        if A.shape[0] == 0:
            return y
        r = (q + self.hessian(y - x))[A]
        if e is not None:  # the part along e moves nothing, and may hide the rest
            r = r - (dot(e, r) / dot(e, e)) * e
        columns = r[:, None] if e is None else namespace(r).stack([r, e], axis=1)
        solved = self._solved(A, columns)
        d = solved[:, 0]
        if e is not None:
            d = d - (dot(e, d) / dot(e, solved[:, 1])) * solved[:, 1]
            d = d - (dot(e, d) / dot(e, e)) * e
        y = copied(y)
        y[A] -= d
        return y

    def _solved(self, A: Array, r: Array) -> Array:
        """H_AA^-1 r for a few columns r, up to the unit of the weights."""
        K = self.K if A.shape[0] == self.K.shape[1] else self.K[:, A]
        ridge = self.curvature / self.unit
        B = self.root[:, None] * (K if self.mean is None else K - self.mean[A][None, :])
        if A.shape[0] <= K.shape[0]:
            return solve_positive(B.T @ B, r, ridge=ridge) / self.unit
        return (r - B.T @ solve_positive(B @ B.T, B @ r, ridge=ridge)) / self.curvature
