"""Gromov-Wasserstein: f(G) = sum_ijkl L(C1_ik, C2_jl) G_ij G_kl, for plans G from a to b.

f is quadratic in G and not convex.

With L(x, y) = f1(x) + f2(y) - h1(x) h2(y) and marginals that are exactly a and b,

    f(G) = a' f1(C1) a + b' f2(C2) b - <h1(C1) G h2(C2)', G>.

First both matrices are centred: h1(C1) = A + u 1' + 1 w' + m1 and h2(C2) = B + x 1' + 1 y' + m2
with numbers m1 and m2. The weighted row and column means of A and B are 0, and so are the weighted
means of u, w, x and y. Let the mass be the sum of a. Then

    <h1(C1) G h2(C2)', G> = <A G B', G> + mass <u x' + w y', G> + mass^2 m1 m2.

The last term is the same for all plans. It may be large, and without centring the other terms would
lose digits to it.

Now let the costs be squared Euclidean distances between points. The rows of X and Y are the points,
shifted such that their means, weighted by a and b, are 0. Let p and q be the squared norms of these
rows, and Z = X' G Y. Then

    f(G) = constant - 4 mass <p q', G> - 8 |Z|^2,    grad f(G) = -4 mass p q' - 16 X Z Y'.

So f is concave on plans, and its gradient has low rank. If the plan is streamed, no array of its
size is formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad.arrays import (
    Array,
    Space,
    Vector,
    dot,
    double,
    is_formed,
    is_torch,
    mixed,
    namespace,
    total,
)
from condgrad.arrays.inputs import floating
from condgrad.problem import Smooth
from condgrad.search.restriction import Quadratic, Restriction
from condgrad.streamed_plan import StreamedPlan, UnformedCost, mean_norm

GROMOV_LOSSES = ("square", "kl")
MIXED_AT_MOST = 20
"""After this many steps, products with a mixture of plans are computed afresh: their rounding
errors add up step by step.
"""
SPARSE_PLAN_ENTRIES = 4
"""A plan with at most this many times n + m nonzero entries, such as a vertex, is multiplied as a
sparse matrix.
"""
LEAST_DISTANCE = 1e-18
"""The loss "kl" adds this to a number before it takes the logarithm, as POT does: the distance of a
point to itself is 0.
"""


class LossParts(NamedTuple):
    """f1(C1), f2(C2), h1(C1) and h2(C2) of a loss f1(x) + f2(y) - h1(x) h2(y)."""

    f1: Array
    f2: Array
    h1: Array
    h2: Array


def loss_parts(C1: Array, C2: Array, loss: str) -> LossParts:
    """The parts of (x - y)^2, or of x log(x/y) - x + y."""
    if loss == "square":
        return LossParts(C1 * C1, C2 * C2, C1, 2.0 * C2)
    xp = namespace(C1)
    return LossParts(C1 * xp.log(C1 + LEAST_DISTANCE) - C1, C2, C1, xp.log(C2 + LEAST_DISTANCE))


class CentredMatrix(NamedTuple):
    """A matrix, written as core + row 1' + 1 column' + mean.

    The weighted means of `row`, of `column`, and of each row and column of `core` are 0.
    """

    core: Array
    row: Array
    column: Array
    mean: float
    symmetric: bool

    @classmethod
    def of(cls, H: Array, weights: Array) -> CentredMatrix:
        share = weights / (total(weights) or 1.0)
        row = H @ share
        column = share @ H
        mean = dot(share, row)
        core = H - row[:, None]
        core -= (column - mean)[None, :]
        return cls(core, row - mean, column - mean, mean, bool(namespace(H).all(H == H.T)))

    def norm(self, weights: Array) -> float:
        """The root of sum_ik weights_i weights_k core_ik^2."""
        return math.sqrt(max(0.0, dot(weights, (self.core * self.core) @ weights)))


def weighted_norm(x: Array, weights: Array) -> float:
    """The root of sum_i weights_i x_i^2, for the rows of a matrix too."""
    squares = x * x if x.ndim == 1 else namespace(x).sum(x * x, axis=1)
    return math.sqrt(dot(weights, squares))


class GromovWasserstein(Smooth):
    """The objective of Gromov-Wasserstein: f(G) = sum_ijkl L(C1_ik, C2_jl) G_ij G_kl.

    It is defined for plans G with the marginals a and b. `transport.gromov` makes one.

    Parameters
    ----------
    C1, C2 : arrays, shapes (n, n) and (m, m)
        A number for each pair of points of the same space, such as a distance, a similarity or an
        edge. The matrices may be asymmetric.
    a, b : arrays
        The marginals of all plans.
    loss : {"square", "kl"}
        L(x, y) is (x - y)^2 for "square", and x log(x/y) - x + y for "kl".

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> f = cg.smooth.GromovWasserstein(C, 3.0 * C, [0.5, 0.5], [0.5, 0.5])
    >>> f.convex, f.at(0.5 * np.eye(2)).value
    (False, 2.0)
    """

    convex = False

    def __init__(self, C1: Any, C2: Any, a: Any, b: Any, *, loss: str = "square") -> None:
        C1 = double(floating("C1", C1, ndim=2))
        C2 = double(floating("C2", C2, ndim=2))
        self.a = double(floating("a", a, ndim=1))
        self.b = double(floating("b", b, ndim=1))
        parts = loss_parts(C1, C2, loss)
        self.space = Space.of(C1, shape=(C1.shape[0], C2.shape[0]))
        self.A, self.B = CentredMatrix.of(parts.h1, self.a), CentredMatrix.of(parts.h2, self.b)
        self.symmetric = self.A.symmetric and self.B.symmetric
        mass = total(self.a)
        of_losses = dot(self.a, parts.f1 @ self.a), dot(self.b, parts.f2 @ self.b)
        of_means = mass**2 * self.A.mean * self.B.mean
        self.constant = of_losses[0] + of_losses[1] - of_means
        xp = namespace(C1)
        left = mass * xp.stack([self.A.row, self.A.column], axis=1)
        self.linear = left @ xp.stack([self.B.row, self.B.column], axis=1).T
        by_rows = weighted_norm(self.A.row, self.a) * weighted_norm(self.B.row, self.b)
        by_columns = weighted_norm(self.A.column, self.a) * weighted_norm(self.B.column, self.b)
        # By Cauchy's inequality sum_ijkl |A_ik| |B_jl| G_kl H_ij <= |A| |B| for all plans G and H,
        # so that the size of the terms is the same for all of them, and known.
        self.size = (
            abs(of_losses[0]) + abs(of_losses[1]) + abs(of_means) + mass * (by_rows + by_columns)
        )
        self.size += 2.0 * self.A.norm(self.a) * self.B.norm(self.b)

    def times(self, G: Array) -> Array:
        """A G B' + A' G B, where A and B are h1(C1) and h2(C2) after centring: their weighted row
        and column means are 0. The loss is L(x, y) = f1(x) + f2(y) - h1(x) h2(y). The inner product
        of the result with G is twice the quadratic part of -f.
        """
        A = self.A.core
        B = self.B.core
        n, m = G.shape
        if not is_torch(G) and np.count_nonzero(G) <= SPARSE_PLAN_ENTRIES * (n + m):
            G = scipy.sparse.csr_array(G)
            if self.symmetric:
                return (2.0 * (G.T @ A)).T @ B  # A is symmetric
            return (G.T @ A.T).T @ B.T + (G.T @ A).T @ B
        if self.symmetric:
            return 2.0 * (A @ G) @ B
        return (A @ G) @ B.T + (A.T @ G) @ B

    def at(self, x: Array) -> GromovEvaluation:
        return GromovEvaluation(self, double(x))

    def __repr__(self) -> str:
        n, m = self.space.shape  # type: ignore[union-attr]
        return f"GromovWasserstein({n} x {m})"


class GromovEvaluation:
    """f at a plan, from the plan and its product with both spaces."""

    def __init__(
        self, f: GromovWasserstein, x: Array, product: Array = None, mixtures: int = 0
    ) -> None:
        self.f = f
        self.x = x
        self.mixtures = mixtures
        if product is not None:
            self.product = product

    @cached_property
    def product(self) -> Array:
        """A x B' + A' x B."""
        return self.f.times(self.x)

    @cached_property
    def quadratic(self) -> float:
        """<A x B', x>."""
        return 0.5 * dot(self.product, self.x)

    @cached_property
    def value(self) -> float:
        return self.f.constant - dot(self.f.linear, self.x) - self.quadratic

    @property
    def gradient(self) -> Array:
        return -(self.f.linear + self.product)

    @property
    def offset(self) -> float:
        return self.f.constant + self.quadratic

    def magnitude(self, other: GromovEvaluation) -> float:
        return self.f.size

    def along(self, others: Sequence[GromovEvaluation], directions: Array) -> Restriction:
        gradient = self.gradient
        k = len(others)
        slope = np.array([dot(gradient, directions[i]) for i in range(k)])
        curvature = [
            [-dot(other.product - self.product, directions[j]) for j in range(k)]
            for other in others
        ]
        return Quadratic(self.value, slope, np.array(curvature))

    def moved(self, x: Array, others: Sequence[GromovEvaluation], a: Vector) -> GromovEvaluation:
        mixtures = 1 + max(self.mixtures, *(other.mixtures for other in others))
        if mixtures > MIXED_AT_MOST:
            return GromovEvaluation(self.f, x)
        product = mixed(self.product, [other.product for other in others], a)
        return GromovEvaluation(self.f, x, product, mixtures)


class GromovPoints(Smooth):
    """The objective of Gromov-Wasserstein between points, for dense or streamed plans.

    f(G) = sum_ijkl (|x_i - x_k|^2 - |y_j - y_l|^2)^2 G_ij G_kl: the loss is "square", and the
    numbers within each space are squared Euclidean distances.

    Parameters
    ----------
    X, Y : arrays, shapes (n, d) and (m, d')
        The points. The dimensions d and d' may differ.
    a, b : arrays
        The marginals of all plans.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.GromovPoints([[0.0], [1.0]], [[0.0], [3.0]], [0.5, 0.5], [0.5, 0.5])
    >>> f.at(0.5 * np.eye(2)).value  # mean of (1 - 9)^2 and 0
    32.0
    """

    convex = False

    def __init__(self, X: Any, Y: Any, a: Any, b: Any) -> None:
        X = double(floating("X", X, ndim=2))
        Y = double(floating("Y", Y, ndim=2))
        self.a = double(floating("a", a, ndim=1))
        self.b = double(floating("b", b, ndim=1))
        self.space = Space.of(X, shape=(X.shape[0], Y.shape[0]))
        self.X, self.p, own_x = _centred_points(X, self.a)
        self.Y, self.q, own_y = _centred_points(Y, self.b)
        self.mass = total(self.a)
        moments = dot(self.a, self.p), dot(self.b, self.q)
        of_means = 8.0 * moments[0] * moments[1]
        self.constant = own_x + own_y - of_means
        # squared norms around their means: the means are in the constant
        self.p = self.p - moments[0] / (self.mass or 1.0)
        self.q = self.q - moments[1] / (self.mass or 1.0)
        xp = namespace(X)
        self.columns = xp.concat([self.Y, self.q[:, None]], axis=1)
        self.size = own_x + own_y + of_means + 16.0 * moments[0] * moments[1]
        self.size += 4.0 * self.mass * weighted_norm(self.p, self.a) * weighted_norm(self.q, self.b)

    def at(self, x: Array | StreamedPlan) -> PointsEvaluation:
        carried = x @ self.columns
        return PointsEvaluation(
            self,
            self.X.T @ carried[:, :-1],
            dot(self.p, carried[:, -1]),
            forms_gradient=is_formed(x),
        )

    def __repr__(self) -> str:
        n, m = self.space.shape  # type: ignore[union-attr]
        return f"GromovPoints({n} x {m})"


def _centred_points(X: Array, weights: Array) -> tuple[Array, Array, float]:
    """Points around their mean, squared norms, and sum_ik w_i w_k |X_i - X_k|^4."""
    xp = namespace(X)
    X = X - (weights @ X / (total(weights) or 1.0))[None, :]
    squares = xp.sum(X * X, axis=1)
    gram = X.T @ (weights[:, None] * X)
    own = 2.0 * total(weights) * dot(weights, squares * squares)
    own += 2.0 * dot(weights, squares) ** 2 + 4.0 * dot(gram, gram)
    return X, squares, own


class PointsEvaluation:
    """f at a plan, from its moments Z = X' G Y and <p q', G>."""

    def __init__(
        self, f: GromovPoints, Z: Array, of_norms: float, *, forms_gradient: bool, mixtures: int = 0
    ) -> None:
        self.f = f
        self.Z = Z
        self.of_norms = of_norms
        self.forms_gradient = forms_gradient
        self.mixtures = mixtures

    @cached_property
    def quadratic(self) -> float:
        """8 |Z|^2."""
        return 8.0 * dot(self.Z, self.Z)

    @property
    def value(self) -> float:
        return self.f.constant - 4.0 * self.f.mass * self.of_norms - self.quadratic

    @property
    def gradient(self) -> Array | UnformedCost:
        """-4 mass p q' - 16 X Z Y': an array if the plan is an array, and else its factors."""
        f = self.f
        xp = namespace(self.Z)
        left = xp.concat([-16.0 * (f.X @ self.Z), (-4.0 * f.mass) * f.p[:, None]], axis=1)
        if self.forms_gradient:
            return left @ f.columns.T
        return UnformedCost.of(left, f.columns)

    @property
    def offset(self) -> float:
        return self.f.constant + self.quadratic

    def magnitude(self, other: PointsEvaluation) -> float:
        return self.f.size

    def sensitivity(self, a: Array, b: Array, error: float) -> float:
        """The `sensitivity` of `TransportCostEvaluation`, plus a bound on the quadratic change."""
        f = self.f
        first = mean_norm(-16.0 * (f.X @ self.Z), f.Y, a, b)
        first += mean_norm((4.0 * f.mass) * f.p[:, None], f.q[:, None], a, b)
        return first + 8.0 * error * (weighted_norm(f.X, a) * weighted_norm(f.Y, b)) ** 2

    def along(self, others: Sequence[PointsEvaluation], directions: Array) -> Restriction:
        moves = [other.Z - self.Z for other in others]
        norms = [other.of_norms - self.of_norms for other in others]
        slope = [
            -4.0 * self.f.mass * p - 16.0 * dot(self.Z, dZ)
            for p, dZ in zip(norms, moves, strict=True)
        ]
        curvature = [[-16.0 * dot(one, other) for other in moves] for one in moves]
        return Quadratic(self.value, np.array(slope), np.array(curvature))

    def moved(self, x: Array, others: Sequence[PointsEvaluation], a: Vector) -> PointsEvaluation:
        mixtures = 1 + max(self.mixtures, *(other.mixtures for other in others))
        if mixtures > MIXED_AT_MOST:
            return self.f.at(x)
        of_norms = (1.0 - float(a.sum())) * self.of_norms
        of_norms += sum(float(w) * other.of_norms for w, other in zip(a, others, strict=True))
        Z = mixed(self.Z, [other.Z for other in others], a)
        return PointsEvaluation(
            self.f, Z, of_norms, forms_gradient=self.forms_gradient, mixtures=mixtures
        )
