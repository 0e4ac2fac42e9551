"""Products with the Hessian of the dual of transport with entropy and Laplacian.

With the plan S of a dual point, its row sums a and an entropy e, and delta_ij = dv_j - dU_i.Xt_j -
Xs_i.dV_j, the matrix W = S * (delta - its row means) gives the Hessian (with the sign that makes it
positive)

    (dv, dP, dQ)  ->  (W'1, e dP - W Xt, e dQ - W'Xs) / e,        dU = gradient_in_P(dP), dV = gradient_in_Q(dQ),

which is self-adjoint in the metric <v, v'> + <P, gradient_in_P(P')> + <Q, gradient_in_Q(Q')>.
Nothing of W is needed but these three sums. In few dimensions they come from two thin products with
S, since all that multiplies S_ij is a sum of (something of i) times (something of j): d^2 such
terms. In more dimensions the plan sums W up from the factors of delta, in O(n m d).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from condgrad import passes
from condgrad.arrays import Array, at_least, dot, namespace, smallest
from condgrad.newton.laplacian.moments import DualVector, pairs

if TYPE_CHECKING:
    from condgrad.newton.laplacian.dual import EntropicLaplacian, PlanPoint

FEW_DIMENSIONS = 4
"""Up to this many dimensions, all d^2 products of two coordinates are used, which costs less than
forming W. In more dimensions only the d squares are used.
"""


class Hessian:
    """The Hessian of the dual at a plan, and minus its gradient there (`residual`)."""

    def __init__(self, model: EntropicLaplacian, point: PlanPoint) -> None:
        self.model = model
        self.plan = point.plan
        self.entropy = point.entropy
        self.precision = "float64"
        self.point = point
        self.columns = point.columns
        self.S_Xt = point.S_Xt
        self.S_Xs = point.S_Xs
        self.few_dimensions = model.Xt.shape[1] <= FEW_DIMENSIONS
        self.residual = DualVector(
            model.b - self.columns, self.S_Xt - point.z.P, self.S_Xs - point.z.Q
        )

    @property
    def residual_size(self) -> float:
        """The square of the residual, couplings and covariances left out, which takes no product."""
        v, P, Q = self.residual
        columns = at_least(smallest(self.columns), self.columns)
        return self.entropy * dot(v, v / columns) + 2.0 * self.model.quadratic(P, Q)

    def inner(self, x: DualVector, y: DualVector) -> float:
        """<x, y> in the metric in which the Hessian is self-adjoint."""
        model = self.model
        return (
            dot(x.v, y.v) + dot(x.P, model.gradient_in_P(y.P)) + dot(x.Q, model.gradient_in_Q(y.Q))
        )

    def product(self, x: DualVector) -> DualVector:
        """The Hessian times x, its constant mode (a shift of v, which changes nothing) lifted off
        zero.
        """
        model = self.model
        # in entropies first: a cost times a coordinate is the third power of the unit of length
        dv = x.v / self.entropy
        dU = model.gradient_in_P(x.P) / self.entropy
        dV = model.gradient_in_Q(x.Q) / self.entropy
        with passes.spent_on("steps"):
            v, P, Q = (
                self._thin_sums(dv, dU, dV)
                if self.few_dimensions
                else self._centred_sums(dv, dU, dV)
            )
        lift = self.columns * (dot(self.columns, dv) / model.polytope.mass)
        return DualVector(v + lift, x.P - P, x.Q - Q)

    def _centred_sums(self, dv: Array, dU: Array, dV: Array) -> tuple[Array, Array, Array]:
        """W'1, W Xt and W'Xs from the factors of delta."""
        model = self.model
        xp = namespace(dv)
        left = xp.concat([xp.ones_like(dU[:, :1]), -dU, -model.Xs], axis=1)
        right = xp.concat([dv[:, None], model.Xt, dV], axis=1)
        return self.plan.centred_sums(
            left, right, model.Xs, model.Xt, self.S_Xt, precision=self.precision
        )

    def _thin_sums(self, dv: Array, dU: Array, dV: Array) -> tuple[Array, Array, Array]:
        """The same from one product with S and one with S'."""
        model = self.model
        d = self.S_Xt.shape[1]
        Xs = model.Xs
        Xt = model.Xt
        xp = namespace(dv)
        columns = xp.concat([dv[:, None], dV, dv[:, None] * Xt, pairs(dV, Xt)], axis=1)
        there = self.plan.times(columns, precision=self.precision)
        S_dv, S_dV, S_dv_Xt, S_dV_Xt = in_parts(there, d)
        mean = (S_dv - xp.sum(dU * self.S_Xt, axis=1) - xp.sum(Xs * S_dV, axis=1)) / model.a
        columns = xp.concat([mean[:, None], dU, mean[:, None] * Xs, pairs(dU, Xs)], axis=1)
        back = self.plan.transposed_times(columns, precision=self.precision)
        S_mean, S_dU, S_mean_Xs, S_dU_Xs = in_parts(back, d)
        v = self.columns * dv - xp.sum(Xt * S_dU, axis=1) - xp.sum(self.S_Xs * dV, axis=1) - S_mean
        P = (
            S_dv_Xt
            - contracted(self.point.S_Xt_second, dU)
            - contracted(S_dV_Xt, Xs)
            - mean[:, None] * self.S_Xt
        )
        Q = (
            dv[:, None] * self.S_Xs
            - contracted(S_dU_Xs, Xt)
            - contracted(self.point.S_Xs_second, dV)
            - S_mean_Xs
        )
        return v, P, Q


def second_moments(X: Array) -> Array:
    """All products of two coordinates, or in many dimensions their squares alone: covariances, or
    variances.
    """
    return pairs(X, X) if X.shape[1] <= FEW_DIMENSIONS else X * X


def in_parts(columns: Array, d: int) -> tuple[Array, Array, Array, Array]:
    """A first column, two blocks of d columns, and the rest."""
    return (
        columns[:, 0],
        columns[:, 1 : 1 + d],
        columns[:, 1 + d : 1 + 2 * d],
        columns[:, 1 + 2 * d :],
    )


def contracted(products: Array, x: Array) -> Array:
    """sum_k products[:, (k, l)] x[:, k], for each l."""
    d = x.shape[1]
    return namespace(x).sum(products.reshape(x.shape[0], d, d) * x[:, :, None], axis=1)
