"""The Laplacian regulariser of transport plans: neighbours should move alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Matrix,
    Space,
    Vector,
    dot,
    is_sparse_tensor,
    largest_row_sum,
    like,
    matrix_like,
    mixed,
    namespace,
    principal_block,
    product,
    stack,
)
from condgrad.arrays.inputs import data_matrix, floating
from condgrad.problem import Smooth
from condgrad.search.restriction import Quadratic, Restriction
from condgrad.streamed_plan import StreamedPlan, UnformedCost


class TransportLaplacian(Smooth):
    """f(G) = source_weight tr(Xt' G' Ls G Xt) + target_weight tr(Xs' G Lt G' Xs).

    All that f sees of a plan are two thin moments, P = G Xt and Q = G' Xs, so value and gradient cost O(n m d).

    Parameters
    ----------
    Xs, Xt : arrays, shapes (n, d) and (m, d)
        Source and target points.
    Ls, Lt : symmetric positive semidefinite matrices, dense or SciPy sparse, shapes (n, n) and (m, m)
        Graph Laplacians of the two clouds.
    source_weight, target_weight : float
        Weights >= 0 of the two terms.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> X, L = np.array([[0.0], [1.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> f = cg.smooth.TransportLaplacian(X, X, L, L)
    >>> f.value_and_gradient(0.5 * np.eye(2))[0]
    0.5
    """

    def __init__(
        self, Xs: Any, Xt: Any, Ls: Any, Lt: Any, *, source_weight: float = 1.0, target_weight: float = 1.0
    ) -> None:
        self.Xs, self.Xt = floating("Xs", Xs, ndim=2), floating("Xt", Xt, ndim=2)
        n, m = self.Xs.shape[0], self.Xt.shape[0]
        self.Ls = _laplacian("Ls", Ls, n, self.Xs)
        self.Lt = _laplacian("Lt", Lt, m, self.Xt)
        self.source_weight = _checks.number("source_weight", source_weight, at_least=0.0)
        self.target_weight = _checks.number("target_weight", target_weight, at_least=0.0)
        self.space = Space.of(self.Xs, shape=(n, m))

    def scaled(self, factor: float, like_this: Array) -> TransportLaplacian:
        """This regulariser with both weights multiplied, in the precision of another array."""
        source, target = factor * self.source_weight, factor * self.target_weight
        Xs, Xt = like(self.Xs, like_this), like(self.Xt, like_this)
        return TransportLaplacian(Xs, Xt, self.Ls, self.Lt, source_weight=source, target_weight=target)

    def restricted(self, rows: Array, columns: Array) -> TransportLaplacian:
        """This regulariser for plans that vanish outside some rows and columns, as a function of the rest."""
        return TransportLaplacian(
            self.Xs[rows],
            self.Xt[columns],
            principal_block(self.Ls, rows),
            principal_block(self.Lt, columns),
            source_weight=self.source_weight,
            target_weight=self.target_weight,
        )

    def with_points(self, Xs: Array, Xt: Array) -> TransportLaplacian:
        """This regulariser for other points, with the same Laplacians and weights."""
        weights = {"source_weight": self.source_weight, "target_weight": self.target_weight}
        return TransportLaplacian(Xs, Xt, self.Ls, self.Lt, **weights)

    def turned(self) -> TransportLaplacian:
        """This regulariser as a function of the transposed plan."""
        weights = {"source_weight": self.target_weight, "target_weight": self.source_weight}
        return TransportLaplacian(self.Xt, self.Xs, self.Lt, self.Ls, **weights)

    def __repr__(self) -> str:
        n, m = self.space.shape  # type: ignore[union-attr]
        return f"TransportLaplacian({n} x {m})"

    @cached_property
    def smoothness(self) -> float | None:
        """A Lipschitz constant of the gradient."""

        def of(L: Matrix, X: Array) -> float:
            xp = namespace(X)
            return largest_row_sum(L) * float(xp.max(xp.linalg.eigvalsh(X.T @ X)))

        return 2.0 * (self.source_weight * of(self.Ls, self.Xt) + self.target_weight * of(self.Lt, self.Xs))

    def gradient_in_P(self, P: Array) -> Array:
        """2 source_weight Ls P."""
        return (2.0 * self.source_weight) * product(self.Ls, P)

    def gradient_in_Q(self, Q: Array) -> Array:
        """2 target_weight Lt Q."""
        return (2.0 * self.target_weight) * product(self.Lt, Q)

    def at(self, x: Array | StreamedPlan) -> MomentEvaluation:
        P, Q = x @ like(self.Xt, x), x.T @ like(self.Xs, x)
        return MomentEvaluation(self, P, Q, forms_gradient=not isinstance(x, StreamedPlan))


class MomentEvaluation:
    """The quadratic at a plan, from the plan's moments alone."""

    def __init__(self, f: TransportLaplacian, P: Array, Q: Array, *, forms_gradient: bool = True) -> None:
        self.f, self.P, self.Q, self.forms_gradient = f, P, Q, forms_gradient

    @cached_property
    def U(self) -> Array:
        """The gradient in P."""
        return self.f.gradient_in_P(self.P)

    @cached_property
    def V(self) -> Array:
        """The gradient in Q."""
        return self.f.gradient_in_Q(self.Q)

    @cached_property
    def value(self) -> float:
        return 0.5 * (dot(self.U, self.P) + dot(self.V, self.Q))

    @property
    def gradient(self) -> Array | UnformedCost:
        """U Xt' + Xs V', as an array at a plan that is one, else by its factors."""
        xp, f = namespace(self.P), self.f
        left = xp.concat([self.U, like(f.Xs, self.P)], axis=1)
        right = xp.concat([like(f.Xt, self.P), self.V], axis=1)
        return left @ right.T if self.forms_gradient else UnformedCost.of(left, right)

    @property
    def offset(self) -> float:
        return -self.value  # a quadratic form: <gradient, G> is twice the value

    def magnitude(self, other: MomentEvaluation) -> float:
        # Laplacians of far-off coordinates cancel already within the product with L
        size, f = namespace(self.P).abs, self.f
        source = 2.0 * f.source_weight * dot(product(abs(f.Ls), size(self.P)), size(other.P))
        return source + 2.0 * f.target_weight * dot(product(abs(f.Lt), size(self.Q)), size(other.Q))

    def along(self, others: Sequence[MomentEvaluation], directions: Array) -> Restriction:
        dP = stack([other.P - self.P for other in others])
        dQ = stack([other.Q - self.Q for other in others])
        dU = stack([other.U - self.U for other in others])
        dV = stack([other.V - self.V for other in others])
        slope = np.array([dot(self.U, p) + dot(self.V, q) for p, q in zip(dP, dQ, strict=True)])
        return Quadratic(self.value, slope, _inner(dP, dU) + _inner(dQ, dV))

    def moved(self, x: Array, others: Sequence[MomentEvaluation], a: Vector) -> MomentEvaluation:
        P, Q = ([other.P for other in others], [other.Q for other in others])
        moments = mixed(self.P, P, a), mixed(self.Q, Q, a)
        return MomentEvaluation(self.f, *moments, forms_gradient=self.forms_gradient)


def _inner(left: Array, right: Array) -> Any:
    """<left[i], right[j]>, symmetric up to rounding."""
    k = left.shape[0]
    return np.array([[dot(left[i], right[j]) for j in range(k)] for i in range(k)])


def _laplacian(name: str, L: Any, n: int, X: Array) -> Matrix:
    if not is_sparse_tensor(L):
        L = data_matrix(name, L)
    if tuple(L.shape) != (n, n):
        raise ValueError(f"{name} must have shape {(n, n)}, got {tuple(L.shape)}")
    if not is_sparse_tensor(L) and float(abs(L - L.T).max()) > 1e-8 * float(abs(L).max()):
        raise ValueError(f"{name} must be symmetric")
    return matrix_like(L, X)
