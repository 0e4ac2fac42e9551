"""The quadratic model of h(Kx) + weight |x|^2 at a point, and its minimum over a polyhedral set."""

from __future__ import annotations

from condgrad._arrays import Array, Matrix, cholesky, dense, dot, double, namespace, solve_cholesky, total, weighted_gram
from condgrad.problem import Face, Set

PASSES = 25
"""Faces to try before the last one is taken for the best."""


class QuadraticModel:
    """q(d) = <gradient, d> + <d, H d>/2 with H = K' W K + ridge, W the Hessian of h.

    Without an intercept W is diag(w); with one it is diag(w) - w w'/sum(w), which takes the weighted mean off each
    column of K. The matrix H is formed where it has no more rows than K; otherwise a face solves its equations by
    itself, in its coordinates or in the samples.
    """

    def __init__(self, K: Matrix, w: Array, ridge: float, *, centred: bool) -> None:
        self.K, self.w, self.ridge = K, w, ridge
        mass = total(w) if centred else 0.0
        self.mass, self.mean = mass, double(K.T @ w) / mass if mass > 0.0 else None
        self.H = self._whole() if K.shape[1] <= max(100, K.shape[0]) else None

    def _whole(self) -> Array:
        H = weighted_gram(self.K, self.w)
        if self.mean is not None:
            H -= (self.mass * self.mean)[:, None] * self.mean[None, :]
        diagonal = namespace(H).arange(H.shape[0])
        H[diagonal, diagonal] += self.ridge
        return H

    def times(self, d: Array) -> Array:
        """H d."""
        if self.H is not None:
            return self.H @ d
        bent = double(self.K.T @ (self.w * double(self.K @ d))) + self.ridge * d
        return bent if self.mean is None else bent - (self.mass * dot(self.mean, d)) * self.mean

    @property
    def steepest(self) -> float:
        """The mean of the diagonal of H: what a step across it is measured by."""
        if self.H is not None:
            return float(namespace(self.H).linalg.trace(self.H)) / self.H.shape[0]
        square = self.K.multiply(self.K) if hasattr(self.K, "multiply") and not hasattr(self.K, "device") else self.K**2
        return total(square.T @ self.w) / self.K.shape[1] + self.ridge

    def argmin(self, x: Array, gradient: Array, on: Set) -> Array:
        """The y of least <gradient, y - x> + <y - x, H (y - x)>/2 on the set, nearly always.

        Each pass projects a gradient step, which names a face, and goes to the minimum on that face's affine hull. It
        ends when a face is found again; it may leave the set if it ends for another reason.
        """
        length = 1.0 / (self.steepest or 1.0)
        y, slope, seen = x, gradient, None
        for _ in range(PASSES):
            face = on.face(y - length * slope)
            if seen is not None and face.same_as(seen):
                break
            seen, y = face, face.point
            slope = gradient + self.times(y - x)
            y = self._least_on(face, slope)
            slope = gradient + self.times(y - x)
        return y

    def _least_on(self, face: Face, slope: Array) -> Array:
        """The minimum on a face's affine hull: H_AA d + mu e = -slope_A, <e, d> = 0."""
        A, e = face.active, face.normal
        if A.shape[0] == 0:
            return face.point
        xp = namespace(slope)
        y = xp.asarray(face.point, copy=True)
        if e is None:
            y[A] += self._solved(A, -slope[A][:, None])[:, 0]
            return y
        both = self._solved(A, xp.stack([-slope[A], e], axis=1))
        y[A] += both[:, 0] - (dot(e, both[:, 0]) / dot(e, both[:, 1])) * both[:, 1]
        return y

    def _solved(self, A: Array, r: Array) -> Array:
        """H_AA^-1 r."""
        xp, m = namespace(r), self.K.shape[0]
        if self.H is not None:
            H = self.H
            part = H[A[:, None], A[None, :]]
            return solve_cholesky(cholesky(lambda: xp.asarray(part, copy=True), ridge=1e-14 * float(part[0, 0])), r)
        B = double(dense(self.K[:, A]))
        if self.mean is not None:
            B = B - self.mean[A][None, :]
        B = B * xp.sqrt(self.w)[:, None]
        ridge = self.ridge or 1e-12 * dot(B, B) / B.shape[1]
        if A.shape[0] <= m:
            return solve_cholesky(cholesky(lambda: B.T @ B, ridge=ridge), r)
        inner = solve_cholesky(cholesky(lambda: B @ B.T, ridge=ridge), B @ r)
        return (r - B.T @ inner) / ridge
