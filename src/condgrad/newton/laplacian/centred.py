"""The Laplacian regulariser of points around their means, in many dimensions along their principal
axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from condgrad.arrays import Array, dot, namespace, total, zeros
from condgrad.newton.laplacian.hessian import FEW_DIMENSIONS
from condgrad.smooth import TransportLaplacian
from condgrad.smooth.transport_laplacian import MomentEvaluation, times_marginal


@dataclass(frozen=True, eq=False)
class CentredLaplacian:
    """The regulariser of coordinates around their means: a quadratic in the moments, linear terms
    and a constant.

    With Xt = Yt + 1 m' and plans of row sums a, P = G Yt + a m'. So tr(P' L P) is that of G Yt,
    plus the linear 2 <L a m', G Yt>, plus |m|^2 a'La; for Q likewise. The means would only lengthen
    the moments, cost digits, and couple them with the potentials. In many dimensions the
    coordinates are rotated to their principal axes as well, sources and targets each to their own,
    of which there are no more than points. That changes no term, for P sees targets and Q sees
    sources alone, and lets variances stand for covariances.
    """

    quadratic: TransportLaplacian
    U: Array
    """The gradient in P of what is linear."""
    V: Array
    """The gradient in Q of what is linear."""
    constant: float
    mean_s: Array
    mean_t: Array
    axes_s: Array | None
    axes_t: Array | None

    @classmethod
    def of(cls, laplacian: TransportLaplacian, a: Array, b: Array) -> CentredLaplacian:
        Xs = laplacian.Xs
        Xt = laplacian.Xt
        mass = total(a)
        mean_s = (a @ Xs) / mass
        mean_t = (b @ Xt) / mass
        Ys = Xs - mean_s[None, :]
        Yt = Xt - mean_t[None, :]
        from_a = (2.0 * laplacian.source_weight) * times_marginal(laplacian.Ls, a)[:, None]
        from_b = (2.0 * laplacian.target_weight) * times_marginal(laplacian.Lt, b)[:, None]
        constant = 0.5 * (
            dot(mean_t, mean_t) * dot(a[:, None], from_a)
            + dot(mean_s, mean_s) * dot(b[:, None], from_b)
        )
        U = from_a * mean_t[None, :]
        V = from_b * mean_s[None, :]
        axes_s, axes_t = axes_of(Ys, Yt)
        quadratic = laplacian.with_points(rotated(Ys, axes_s), rotated(Yt, axes_t))
        U = rotated(U, axes_t)
        V = rotated(V, axes_s)
        return cls(quadratic, U, V, constant, mean_s, mean_t, axes_s, axes_t)

    def evaluation(
        self, laplacian: TransportLaplacian, P: Array, Q: Array, a: Array, b: Array
    ) -> MomentEvaluation:
        """The regulariser as it was given, at a plan from a to b with these moments of the centred
        coordinates.
        """
        P = rotated_back(P, self.axes_t)
        Q = rotated_back(Q, self.axes_s)
        points = laplacian.centred
        P = P + a[:, None] * (self.mean_t - points.mean_t)[None, :]
        Q = Q + b[:, None] * (self.mean_s - points.mean_s)[None, :]
        return MomentEvaluation(laplacian, P, Q, a, b)

    def shifts(self, P: Array, Q: Array) -> tuple[Array, Array]:
        """What the means add to rows and columns of the cost linearised at moments of the centred
        coordinates.
        """
        U = self.quadratic.gradient_in_P(P) + self.U
        V = self.quadratic.gradient_in_Q(Q) + self.V
        return U @ rotated(self.mean_t, self.axes_t), V @ rotated(self.mean_s, self.axes_s)

    def inside(self, P: Array, Q: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Moments of the given coordinates as those of the centred ones."""
        P = P - a[:, None] * self.mean_t[None, :]
        Q = Q - b[:, None] * self.mean_s[None, :]
        return rotated(P, self.axes_t), rotated(Q, self.axes_s)

    def outside(self, P: Array, Q: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """And back."""
        P = rotated_back(P, self.axes_t)
        Q = rotated_back(Q, self.axes_s)
        return P + a[:, None] * self.mean_t[None, :], Q + b[:, None] * self.mean_s[None, :]


def axes_of(Xs: Array, Xt: Array) -> tuple[Array | None, Array | None]:
    """The axes of sources and of targets as columns, as many of both; None where they are those
    that were given.

    In many dimensions they are principal axes, and remain more than few, whose products with the
    Hessian are others. Zeros stand in place of axes that one of the clouds does not have.
    """
    d = max(Xs.shape[1], Xt.shape[1])
    if d <= FEW_DIMENSIONS and Xs.shape[1] == Xt.shape[1]:
        return None, None
    xp = namespace(Xs)
    many = d > FEW_DIMENSIONS
    both = [
        principal_axes(X) if many else xp.eye(X.shape[1], dtype=X.dtype, device=X.device)
        for X in (Xs, Xt)
    ]
    count = max(FEW_DIMENSIONS + 1 if many else d, *(axes.shape[1] for axes in both))
    axes_s, axes_t = (
        xp.concat([axes, zeros(axes, axes.shape[0], count - axes.shape[1])], axis=1)
        for axes in both
    )
    return axes_s, axes_t


def principal_axes(X: Array) -> Array:
    """Those of centred points: as many as dimensions, or as points where these are fewer."""
    xp = namespace(X)
    if X.shape[1] <= X.shape[0]:
        return xp.linalg.eigh(X.T @ X)[1]
    return xp.linalg.svd(X, full_matrices=False)[2].T


def rotated(X: Array, axes: Array | None) -> Array:
    """Coordinates along axes."""
    return X if axes is None else X @ axes


def rotated_back(X: Array, axes: Array | None) -> Array:
    return X if axes is None else X @ axes.T
