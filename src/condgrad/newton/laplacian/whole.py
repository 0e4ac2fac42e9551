"""The Newton system by a factor of the whole of it, for small plans whose equations conjugate
gradients hardly solve.

With the metric of a Laplacian as F F', and with dU = F_s y and dV = F_t z, the Hessian is symmetric
and positive,

    (v, y, z)  ->  (0, y, z) + T' K T (v, y, z) / e,        T = diag(1, F_s, F_t),

where K is the covariance, row by row of the plan S, of what delta_ij = dv_j - dU_i.Xt_j - Xs_i.dV_j
is a sum of. It has m + (n + m) d rows, and its factor tells the direction to all digits that there
are, however stiff the Laplacian is.

Of 80 problems of `python -m experiments bench newton_grid` with 200 points (five of its clouds, 10
seconds each on a busy machine) 79 are solved with it, in 55 seconds of the processor, and 55 without
it, in 131.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from condgrad.arrays import Array, at_least, cholesky, copied, namespace, smallest, solve_cholesky
from condgrad.newton.ascent import Ascent
from condgrad.newton.laplacian.hessian import FEW_DIMENSIONS, Hessian
from condgrad.newton.laplacian.moments import DualVector
from condgrad.rounding import LIFT

LARGEST_WHOLE = 2000
"""With more rows, the whole system is never factored. Up to here this is worth its price if nothing
else helps.
"""
MOST_PROMISED = 1.0
"""If a direction promises a gain of more entropies than this, per unit of mass, the next ridge is
tried: Newton's model does not hold that far.
"""
RIDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
"""These numbers are added to the unit diagonal, one after the other, until a direction promises no
more than `MOST_PROMISED`. If a plan falls apart into pieces, moving the potential of a piece has no
curvature, and the quadratic model promises any gain along it.
"""


class MetricRoot(NamedTuple):
    """F with F F' = metric, and its pseudo-inverse, transposed: P = inverse y has the gradient U =
    F y.
    """

    root: Array
    inverse: Array

    @classmethod
    def of(cls, metric: Callable[[Array], Array], like: Array) -> MetricRoot:
        """From the eigenvectors of a metric on vectors as long as `like`."""
        xp = namespace(like)
        values, vectors = xp.linalg.eigh(
            metric(xp.eye(like.shape[0], dtype=like.dtype, device=like.device))
        )
        regular = values > LIFT * values.shape[0] * float(xp.max(values))
        scales = xp.sqrt(values[regular])[None, :]
        return cls(vectors[:, regular] * scales, vectors[:, regular] / scales)


def fits_whole(n: int, m: int, d: int) -> bool:
    """Whether the whole system may be formed and factored: in few dimensions, whose covariances are
    at hand.
    """
    return 0 < d <= FEW_DIMENSIONS and m + (n + m) * d <= LARGEST_WHOLE


def whole_direction(hessian: Hessian) -> Ascent:
    """The direction by a factor of the whole system."""
    whole = WholeHessian(hessian, *hessian.model.metric_roots)
    residual = hessian.residual
    for ridge in RIDGES:
        x = whole.solve(residual, ridge)
        slope = hessian.inner(x, residual)
        if slope <= MOST_PROMISED * hessian.entropy * hessian.model.polytope.mass:
            break
    return Ascent(x, slope, 1)


class WholeHessian:
    """The Hessian as an array in (v, y, z), scaled to a unit diagonal: potentials and moments have
    different units.
    """

    def __init__(self, hessian: Hessian, source: MetricRoot, target: MetricRoot) -> None:
        self.source = source
        self.target = target
        self.A = SystemBlocks(hessian, source.root, target.root).assembled()
        xp = namespace(self.A)
        diagonal = xp.linalg.diagonal(self.A)
        self.scales = 1.0 / xp.sqrt(at_least(smallest(diagonal), diagonal))
        self.A *= self.scales[:, None]
        self.A *= self.scales[None, :]

    def solve(self, r: DualVector, ridge: float) -> DualVector:
        """The direction whose product with the Hessian, `ridge` added to its diagonal, is r."""
        xp = namespace(r.v)
        m = r.v.shape[0]
        parts = [
            r.v,
            _by_coordinate(self.source.root.T @ r.P),
            _by_coordinate(self.target.root.T @ r.Q),
        ]
        factor = cholesky(lambda: copied(self.A), ridge=ridge)
        x = self.scales * solve_cholesky(factor, self.scales * xp.concat(parts))
        end = m + parts[1].shape[0]
        y, z = (part.reshape(r.P.shape[1], -1).T for part in (x[m:end], x[end:]))
        return DualVector(x[:m], self.source.inverse @ y, self.target.inverse @ z)


def _by_coordinate(y: Array) -> Array:
    """A block of columns as one vector, column after column."""
    return y.T.reshape(-1)


class SystemBlocks:
    """The blocks of T' K T / e, one for v, and one for each coordinate of y and z."""

    def __init__(self, hessian: Hessian, F_s: Array, F_t: Array) -> None:
        self.hessian = hessian
        self.F_s = F_s
        self.F_t = F_t
        model = hessian.model
        xp = namespace(F_t)
        self.Xs = model.Xs
        self.Xt = model.Xt
        self.d = model.Xs.shape[1]
        self.S = hessian.plan.times(
            xp.eye(model.b.shape[0], dtype=model.b.dtype, device=model.b.device)
        )
        self.shares = self.S / model.a[:, None]
        self.means = hessian.S_Xt / model.a[:, None]

    def assembled(self) -> Array:
        """The symmetric matrix, of which the blocks above the diagonal are left out below it."""
        hessian = self.hessian
        coordinates = range(self.d)
        xp = namespace(self.F_t)
        m = self.F_t.shape[0]
        r = self.F_s.shape[1]
        s = self.F_t.shape[1]
        size = m + self.d * (r + s)
        A = xp.zeros((size, size), dtype=self.F_t.dtype, device=self.F_t.device)
        potential = slice(0, m)
        in_y = [slice(m + k * r, m + (k + 1) * r) for k in coordinates]
        in_z = [slice(m + self.d * r + k * s, m + self.d * r + (k + 1) * s) for k in coordinates]
        A[potential, potential] = self._of_potential()
        covariances = self._covariances()
        for k in coordinates:
            about_mean = self._about_mean(k)
            A[potential, in_y[k]] = -(about_mean.T @ self.F_s)
            A[potential, in_z[k]] = -(
                self._between_columns(hessian.S_Xs[:, k], self.Xs[:, k]) @ self.F_t
            )
            for j in coordinates:
                A[in_y[k], in_z[j]] = (
                    self.F_s.T @ (self.Xs[:, j][:, None] * about_mean)
                ) @ self.F_t
            for j in range(k, self.d):
                A[in_y[k], in_y[j]] = self.F_s.T @ (covariances[:, k, j][:, None] * self.F_s)
                second = hessian.point.S_Xs_second[:, k * self.d + j]
                between = self._between_columns(second, self.Xs[:, k] * self.Xs[:, j])
                A[in_z[k], in_z[j]] = self.F_t.T @ (between @ self.F_t)
        A /= hessian.entropy
        moments = xp.arange(m, size)
        A[moments, moments] += 1.0
        return A

    def _of_potential(self) -> Array:
        """Between v and v, the constant mode lifted off zero."""
        columns = self.hessian.columns
        mass = self.hessian.model.polytope.mass
        result = self._between_columns(columns, namespace(columns).ones_like(self.hessian.model.a))
        return result + columns[:, None] * (columns / mass)[None, :]

    def _between_columns(self, diagonal: Array, weights: Array) -> Array:
        """diag(diagonal) - S' diag(weights/a) S."""
        result = -(self.S.T @ (weights[:, None] * self.shares))
        places = namespace(diagonal).arange(diagonal.shape[0])
        result[places, places] += diagonal
        return result

    def _about_mean(self, k: int) -> Array:
        """S_ij (Xt_jk - the mean of row i)."""
        return self.S * (self.Xt[:, k][None, :] - self.means[:, k][:, None])

    def _covariances(self) -> Array:
        """Of the targets of each row, n x d x d."""
        second = self.hessian.point.S_Xt_second.reshape(-1, self.d, self.d)
        return second - self.means[:, :, None] * self.hessian.S_Xt[:, None, :]
