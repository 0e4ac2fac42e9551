"""The Laplacian regulariser of transport plans: neighbours should move alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Matrix,
    Space,
    Vector,
    dot,
    double_like,
    is_formed,
    is_sparse_tensor,
    largest_row_sum,
    like,
    matrix_like,
    mixed,
    namespace,
    precision,
    principal_block,
    product,
    stack,
    zeros,
)
from condgrad.arrays.inputs import data_matrix, floating
from condgrad.problem import Smooth
from condgrad.search.restriction import Quadratic, Restriction
from condgrad.streamed_plan import StreamedPlan, UnformedCost, mean_norm

MOST_PARTS = 32
"""The largest number of connected parts of a graph whose constants are used."""


class TransportLaplacian(Smooth):
    """f(G) = source_weight tr(Xt' G' Ls G Xt) + target_weight tr(Xs' G Lt G' Xs).

    It is small if neighbours go to nearby places. f only needs two thin matrices, the moments
    P = G Xt and Q = G' Xs of the plan G. So value and gradient cost O(n m d).

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
        self,
        Xs: Any,
        Xt: Any,
        Ls: Any,
        Lt: Any,
        *,
        source_weight: float = 1.0,
        target_weight: float = 1.0,
    ) -> None:
        self.Xs = floating("Xs", Xs, ndim=2)
        self.Xt = floating("Xt", Xt, ndim=2)
        n = self.Xs.shape[0]
        m = self.Xt.shape[0]
        self.Ls = _laplacian("Ls", Ls, n, self.Xs)
        self.Lt = _laplacian("Lt", Lt, m, self.Xt)
        self.source_weight = _checks.number("source_weight", source_weight, at_least=0.0)
        self.target_weight = _checks.number("target_weight", target_weight, at_least=0.0)
        self.space = Space.of(self.Xs, shape=(n, m))

    def scaled(self, factor: float, like_this: Array) -> TransportLaplacian:
        """This regulariser with both weights multiplied, in the precision of another array."""
        source = factor * self.source_weight
        target = factor * self.target_weight
        Xs = like(self.Xs, like_this)
        Xt = like(self.Xt, like_this)
        return TransportLaplacian(
            Xs, Xt, self.Ls, self.Lt, source_weight=source, target_weight=target
        )

    def restricted(self, rows: Array, columns: Array) -> TransportLaplacian:
        """This regulariser for plans that are 0 outside some rows and columns, as a function of
        these rows and columns.
        """
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

        return 2.0 * (
            self.source_weight * of(self.Ls, self.Xt) + self.target_weight * of(self.Lt, self.Xs)
        )

    def gradient_in_P(self, P: Array) -> Array:
        """2 source_weight Ls P."""
        return (2.0 * self.source_weight) * product(self.Ls, P)

    def gradient_in_Q(self, Q: Array) -> Array:
        """2 target_weight Lt Q."""
        return (2.0 * self.target_weight) * product(self.Lt, Q)

    def quadratic_size(self, P: Array, Q: Array, other_P: Array, other_Q: Array) -> float:
        """The size of the terms of <gradient_in_P(P), other_P> + <gradient_in_Q(Q), other_Q>, taken
        before they cancel.
        """
        size = namespace(P).abs  # the product with a Laplacian cancels within itself
        result = 2.0 * self.source_weight * dot(product(abs(self.Ls), size(P)), size(other_P))
        return result + 2.0 * self.target_weight * dot(
            product(abs(self.Lt), size(Q)), size(other_Q)
        )

    @cached_property
    def kernels(self) -> tuple[Array, Array]:
        """Orthonormal vectors on which Ls and Lt are 0. If Ls and Lt are unnormalised graph
        Laplacians, each vector is constant on one connected part of the graph, and 0 elsewhere.
        """
        return constants_of(self.Ls, self.Xs), constants_of(self.Lt, self.Xt)

    @cached_property
    def exact_kernels(self) -> tuple[Array, Array]:
        """The vectors of `kernels` on which Ls and Lt are exactly 0, without rounding."""
        in_P, in_Q = self.kernels
        whole_s, whole_t = self.has_whole_entries
        return in_P if whole_s else in_P[:, :0], in_Q if whole_t else in_Q[:, :0]

    @cached_property
    def has_whole_entries(self) -> tuple[bool, bool]:
        """Whether Ls and Lt have whole numbers as entries, so that L 1 = 0 has no rounding."""
        return has_whole_entries(self.Ls), has_whole_entries(self.Lt)

    @cached_property
    def centred(self) -> CentredPoints:
        """The points around their means."""
        xp = namespace(self.Xs)
        mean_s = xp.mean(self.Xs, axis=0)
        mean_t = xp.mean(self.Xt, axis=0)
        return CentredPoints(self.Xs - mean_s[None, :], self.Xt - mean_t[None, :], mean_s, mean_t)

    def at(self, x: Array | StreamedPlan) -> MomentEvaluation:
        xp = namespace(x)
        points = self.centred
        P = x @ like(points.Xt, x)
        Q = x.T @ like(points.Xs, x)
        if not is_formed(x):
            return MomentEvaluation(self, P, Q, x.a, x.b, forms_gradient=False)
        sizes = self._sizes(xp.abs(x)) if float(xp.min(x)) < 0.0 else None
        return MomentEvaluation(self, P, Q, xp.sum(x, axis=1), xp.sum(x, axis=0), sizes=sizes)

    def _sizes(self, x: Array) -> Moments:
        """The sizes of the moments of a point before its entries cancel in them, from the sizes of
        these.
        """
        xp = namespace(x)
        points = CentredPoints(*(xp.abs(like(part, x)) for part in self.centred))
        P = x @ (points.Xt + points.mean_t[None, :])
        Q = x.T @ (points.Xs + points.mean_s[None, :])
        return Moments(P, Q, xp.sum(x, axis=1), xp.sum(x, axis=0))


class CentredPoints(NamedTuple):
    """Points around their means, and the means."""

    Xs: Array
    Xt: Array
    mean_s: Array
    mean_t: Array


class Moments(NamedTuple):
    """G Yt, G' Ys, G 1 and G' 1 for points Ys and Yt around their means."""

    P: Array
    Q: Array
    rows: Array
    columns: Array


class MomentEvaluation:
    """The quadratic at a plan, from the plan's moments alone.

    With Xt = Yt + 1 m' the moment of a plan G of row sums r is P = G Yt + r m', and L P = L G Yt +
    (L r) m'. Points far from the origin cost no digits in this form: where L r vanishes, as for a
    raw Laplacian and rows of equal mass, m is in no term. Nor do clusters that are far apart: what
    is constant on a connected part of a raw graph is taken off the moments before L is applied.
    """

    def __init__(
        self,
        f: TransportLaplacian,
        P: Array,
        Q: Array,
        rows: Array,
        columns: Array,
        *,
        forms_gradient: bool = True,
        sizes: Moments | None = None,
    ) -> None:
        self.f = f
        self.P = P
        self.Q = Q
        self.rows = rows
        self.columns = columns
        self.forms_gradient = forms_gradient
        # of a plan nothing cancels in its sums; in those of a point of a ball anything may
        self.cancels = sizes is not None
        size = namespace(P).abs
        self.sizes = sizes or Moments(size(P), size(Q), rows, columns)
        self._mean_s = like(f.centred.mean_s, P)
        self._mean_t = like(f.centred.mean_t, P)

    @cached_property
    def _seen(self) -> tuple[Array, Array]:
        """The moments less what no Laplacian sees of them."""
        in_P, in_Q = (like(kernel, self.P) for kernel in self.f.exact_kernels)
        return self.P - in_P @ (in_P.T @ self.P), self.Q - in_Q @ (in_Q.T @ self.Q)

    @cached_property
    def _from_rows(self) -> Array:
        """The gradient in P per unit of the mean of the targets."""
        return (2.0 * self.f.source_weight) * times_marginal(self.f.Ls, self.rows)

    @cached_property
    def _from_columns(self) -> Array:
        return (2.0 * self.f.target_weight) * times_marginal(self.f.Lt, self.columns)

    @cached_property
    def U(self) -> Array:
        """The gradient in P."""
        return (
            self.f.gradient_in_P(self._seen[0]) + self._from_rows[:, None] * self._mean_t[None, :]
        )

    @cached_property
    def V(self) -> Array:
        """The gradient in Q."""
        return (
            self.f.gradient_in_Q(self._seen[1])
            + self._from_columns[:, None] * self._mean_s[None, :]
        )

    @cached_property
    def by_rows(self) -> Array:
        """What the means of the targets add to the gradient, a number for each row."""
        return self.U @ self._mean_t

    @cached_property
    def by_columns(self) -> Array:
        return self.V @ self._mean_s

    @cached_property
    def value(self) -> float:
        result = dot(self.U, self.P) + dot(self.V, self.Q)
        # <U, rows m'>, by the symmetry of L
        result += dot(
            self._from_rows, self.P @ self._mean_t + dot(self._mean_t, self._mean_t) * self.rows
        )
        result += dot(
            self._from_columns,
            self.Q @ self._mean_s + dot(self._mean_s, self._mean_s) * self.columns,
        )
        return 0.5 * result

    @property
    def gradient(self) -> Array | UnformedCost:
        """U Xt' + Xs V', as an array at a plan that is one, else by its factors."""
        xp = namespace(self.P)
        points = self.f.centred
        left = xp.concat([self.U, like(points.Xs, self.P)], axis=1)
        right = xp.concat([like(points.Xt, self.P), self.V], axis=1)
        if not self.forms_gradient:
            return UnformedCost(left, right, self.by_rows, self.by_columns)
        result = left @ right.T
        result += self.by_rows[:, None]
        result += self.by_columns[None, :]
        return result

    @property
    def offset(self) -> float:
        return -self.value  # a quadratic form: <gradient, G> is twice the value

    def value_size(self, other: MomentEvaluation) -> float:
        """The size of the terms of the value before they cancel, or of those between this point and
        another.
        """
        size = namespace(self.P).abs
        f = self.f
        mine = self.sizes
        its = other.sizes
        cancels = self.cancels or other.cancels
        result = f.quadratic_size(*self._seen, *other._seen)
        if cancels or any(kernel.shape[1] for kernel in f.exact_kernels):
            # the moments are rounded themselves: what that does to a quadratic is of first and of
            # second order
            result += dot(size(self.U), its.P) + dot(size(other.U), mine.P)
            result += dot(size(self.V), its.Q) + dot(size(other.V), mine.Q)
            result += precision(self.P) * f.quadratic_size(mine.P, mine.Q, its.P, its.Q)
        for weight, L, whole, mean, mass, masses, its_moments, its_masses in (
            (
                f.source_weight,
                f.Ls,
                f.has_whole_entries[0],
                self._mean_t,
                self.rows,
                mine.rows,
                its.P,
                its.rows,
            ),
            (
                f.target_weight,
                f.Lt,
                f.has_whole_entries[1],
                self._mean_s,
                self.columns,
                mine.columns,
                its.Q,
                its.columns,
            ),
        ):
            exact = whole and not cancels
            gradient = times_marginal(L, mass) if exact else product(abs(L), masses[:, None])[:, 0]
            result += (
                2.0
                * weight
                * dot(size(gradient), its_moments @ size(mean) + dot(mean, mean) * its_masses)
            )
        return result

    def magnitude(self, other: MomentEvaluation) -> float:
        size = namespace(self.P).abs
        its = other.sizes
        result = dot(size(self.U) @ size(self._mean_t), its.rows)
        result += dot(size(self.V) @ size(self._mean_s), its.columns)
        return result + self.value_size(other)

    def sensitivity(self, a: Array, b: Array, error: float) -> float:
        """As in `TransportCostEvaluation`, of U Yt' + Ys V'; and what the quadratic itself may add."""
        f = self.f
        xp = namespace(a)
        Xs = like(f.centred.Xs, a)
        Xt = like(f.centred.Xt, a)
        first = mean_norm(self.U, Xt, a, b) + mean_norm(Xs, self.V, a, b)
        moved_P = a[:, None] * xp.max(xp.abs(Xt), axis=0)[None, :]
        moved_Q = b[:, None] * xp.max(xp.abs(Xs), axis=0)[None, :]
        second = f.source_weight * dot(product(abs(f.Ls), moved_P), moved_P)
        second += f.target_weight * dot(product(abs(f.Lt), moved_Q), moved_Q)
        return first + error * second

    def along(self, others: Sequence[MomentEvaluation], directions: Array) -> Restriction:
        mean_t = self._mean_t[None, :]
        mean_s = self._mean_s[None, :]
        dP = stack(
            [other.P - self.P + (other.rows - self.rows)[:, None] * mean_t for other in others]
        )
        dQ = stack(
            [
                other.Q - self.Q + (other.columns - self.columns)[:, None] * mean_s
                for other in others
            ]
        )
        dU = stack([other.U - self.U for other in others])
        dV = stack([other.V - self.V for other in others])
        slope = np.array([dot(self.U, p) + dot(self.V, q) for p, q in zip(dP, dQ, strict=True)])
        return Quadratic(self.value, slope, _inner(dP, dU) + _inner(dQ, dV))

    def moved(self, x: Array, others: Sequence[MomentEvaluation], a: Vector) -> MomentEvaluation:
        def mixture(of: Callable[[MomentEvaluation], Array]) -> Array:
            return mixed(of(self), [of(other) for other in others], a)

        moments = [mixture(attrgetter(name)) for name in Moments._fields]
        sizes = None
        if self.cancels or any(other.cancels for other in others):
            sizes = Moments(*(mixture(attrgetter(f"sizes.{name}")) for name in Moments._fields))
        return MomentEvaluation(self.f, *moments, forms_gradient=self.forms_gradient, sizes=sizes)


def times_marginal(L: Matrix, x: Array) -> Array:
    """L x, by L (x - mean) + mean L 1: without rounding where x is constant and L has whole numbers
    for entries.
    """
    xp = namespace(x)
    mean = xp.mean(x)
    columns = xp.stack([x - mean, xp.ones_like(x)], axis=1)
    differences, sums = product(L, columns).T
    return differences + mean * sums


def constants_of(L: Matrix, X: Array) -> Array:
    """The constants on connected parts of the graph of X, scaled to length 1, if its Laplacian
    vanishes on them.
    """
    size = X.shape[0]
    if not is_raw(L, X):
        return zeros(X, size, 0)
    labels = np.zeros(size, dtype=np.int64)
    if scipy.sparse.issparse(L) or type(L) is np.ndarray:
        from scipy.sparse.csgraph import (
            connected_components,
        )  # it loads all solvers of scipy.sparse

        labels = connected_components(L, directed=False)[1]
    indicators = labels[:, None] == np.arange(min(labels.max() + 1, MOST_PARTS))[None, :]
    return double_like(indicators / np.sqrt(np.maximum(1.0, indicators.sum(0)))[None, :], X)


def is_raw(L: Matrix, X: Array) -> bool:
    """Whether the Laplacian of the graph of X vanishes on constants."""
    xp = namespace(X)
    sums = product(L, 1.0 + zeros(X, X.shape[0]))
    return float(xp.max(xp.abs(sums))) <= 1e-9 * largest_row_sum(L)


def has_whole_entries(L: Matrix) -> bool:
    """Whether all entries are whole numbers, as those of a raw Laplacian of a graph without
    weights.
    """
    entries = L
    if is_sparse_tensor(L):
        entries = L.values()
    elif scipy.sparse.issparse(L):
        entries = scipy.sparse.csr_array(L).data
    xp = namespace(entries)
    return bool(xp.all(entries == xp.round(entries)))


def _inner(left: Array, right: Array) -> Any:
    """<left[i], right[j]>, symmetric up to rounding."""
    k = left.shape[0]
    return np.array([[dot(left[i], right[j]) for j in range(k)] for i in range(k)])


def _laplacian(name: str, L: Any, n: int, X: Array) -> Matrix:
    if not is_sparse_tensor(L):
        L = data_matrix(name, L)
    if tuple(L.shape) != (n, n):
        raise ValueError(f"{name} must have shape {(n, n)}, got {tuple(L.shape)}")
    if not is_sparse_tensor(L):
        _check_semidefinite(name, L)
    return matrix_like(L, X)


def _check_semidefinite(name: str, L: Matrix) -> None:
    """Refuse a matrix that is not symmetric, or with two rows that show a negative eigenvalue.

    Every 2 x 2 block of a positive semidefinite L has L_ij^2 <= L_ii L_jj and L_ii >= 0. All
    eigenvalues would cost more than many a solve; a Laplacian of the wrong sign is seen here.
    """
    diagonal = L.diagonal()
    rounding = max(1e-8, 8.0 * precision(diagonal)) * float(abs(L).max())
    if float(abs(L - L.T).max()) > rounding:
        raise ValueError(f"{name} must be symmetric")
    lowest = float(diagonal.min())
    if lowest < -rounding:
        raise ValueError(
            f"{name} must be positive semidefinite, as D - W is; its diagonal has {lowest:g}"
        )
    roots = diagonal.clip(0.0) ** 0.5
    entries = scipy.sparse.coo_array(L) if scipy.sparse.issparse(L) else None
    if entries is None:
        excess = float((abs(L) - roots[:, None] * roots[None, :]).max())
    else:
        excess = float(
            (abs(entries.data) - roots[entries.row] * roots[entries.col]).max(initial=0.0)
        )
    if excess > rounding:
        raise ValueError(
            f"{name} must be positive semidefinite, as D - W is; got an off-diagonal entry that is too large "
            "for the two diagonal entries in its row and column"
        )
