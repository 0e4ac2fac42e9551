"""Sets that are often used with Frank-Wolfe methods: sparse vectors, permutations, the spectraplex
and the l-infinity ball.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import Array, Space, at_least, dot, host, like, namespace, signs, total
from condgrad.arrays.inputs import floating
from condgrad.problem import Answer, Set
from condgrad.sets.balls import Ball
from condgrad.sets.threshold import keep_mass
from condgrad.sets.transport import Transport


@dataclass(frozen=True)
class LInfBall(Ball):
    """The l-infinity ball {x : |x_i| <= radius}.

    Parameters
    ----------
    radius : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.LInfBall(1.0).linear_argmin(np.array([2.0, -3.0])).point.tolist()
    [-1.0, 1.0]
    """

    solid = True

    def norm(self, x: Array) -> float:
        xp = namespace(x)
        return float(xp.max(xp.abs(x)))

    def project(self, x: Array) -> Array:
        return namespace(x).clip(x, -self.radius, self.radius)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        return Answer(-self.radius * signs(c), -self.radius * total(xp.abs(c)), value=0.0)


def clipping_shift(v: Array, highest: float, mass: float) -> float:
    """The theta at which min(max(v - theta, 0), highest) sums to a mass."""

    def clipped_mass(theta: float) -> float:
        return total(namespace(v).clip(v - theta, 0.0, highest))

    # the sum falls with theta and is linear between the points where an entry reaches 0 or leaves
    # the highest
    flat = host(v).ravel()
    ends = np.unique(np.concatenate([flat, flat - highest]))
    first = bisect_left(
        ends, True, hi=len(ends) - 1, key=lambda end: clipped_mass(float(end)) <= mass
    )
    end = float(ends[first])
    between = int(np.count_nonzero((flat >= end) & (flat - highest < end)))
    # none is between where v - highest rounds to v: then the sum jumps at this end
    return end - (mass - clipped_mass(end)) / between if between > 0 else end


@dataclass(frozen=True)
class KSparse(Ball):
    """The k-sparse polytope {x : |x_i| <= radius, sum |x_i| <= k radius}.

    It is the convex hull of the vectors with k entries of +radius or -radius and zeros elsewhere.

    Parameters
    ----------
    radius : float
        The largest size of an entry; at least 0.
    k : int
        The number of nonzero entries of a vertex; at least 1.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.KSparse(1.0, k=2).linear_argmin(np.array([3.0, -1.0, 2.0])).point.tolist()
    [-1.0, 0.0, -1.0]
    """

    k: int = 1
    solid = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.hold_whole(self, "k", at_least=1)

    def norm(self, x: Array) -> float:
        """The norm whose ball is this set: x is in the set if its norm is at most `radius`."""
        xp = namespace(x)
        return max(float(xp.max(xp.abs(x))), total(xp.abs(x)) / self.k)

    def project(self, x: Array) -> Array:
        """sign(x) min(max(|x| - theta, 0), radius).

        theta is 0 if the point for theta = 0 is in the set. Otherwise theta is such that the sum of
        sizes is k radius. It is computed as the sum of two shifts. The first has the rounding error
        of |x|, which may be far above the radius. The second is computed from |x| minus the first,
        so it only has the rounding error of the radius.
        """
        xp = namespace(x)
        sizes = xp.abs(x)
        inside = xp.clip(sizes, 0.0, self.radius)
        if total(inside) <= self.k * self.radius:
            return signs(x) * inside
        near = sizes - clipping_shift(sizes, self.radius, self.k * self.radius)
        shifted = near - clipping_shift(near, self.radius, self.k * self.radius)
        # of a point just outside, theta may round to below 0
        return signs(x) * xp.minimum(xp.clip(shifted, 0.0, self.radius), sizes)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        flat = xp.reshape(c, (-1,))
        steepest = xp.argsort(xp.abs(flat), descending=True)[: self.k]
        s = xp.zeros_like(flat)
        s[steepest] = -self.radius * signs(flat[steepest])
        return Answer(xp.reshape(s, c.shape), dot(flat, s), value=0.0)


@dataclass(frozen=True)
class HyperSimplex(Set):
    """The hypersimplex {x in R^n : 0 <= x_i <= 1, sum x = k}.

    It is the convex hull of the vectors with k ones and n - k zeros.

    Parameters
    ----------
    n : int
        The number of coordinates.
    k : int
        The number of ones in a vertex; at least 1 and at most n.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.HyperSimplex(4, k=2).linear_argmin(np.array([3.0, -1.0, 2.0, 0.0])).point.tolist()
    [0.0, 1.0, 0.0, 1.0]
    """

    n: int
    k: int
    nonnegative = True
    smallest_entry = 0.0
    largest_entry = 1.0

    def __post_init__(self) -> None:
        _checks.hold_whole(self, "n", "k", at_least=1)
        if self.k > self.n:
            raise ValueError(f"k must be at most n = {self.n}, got {self.k}")

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(n,)."""
        return (self.n,)

    def start(self, space: Space) -> Array:
        return space.full(self.k / self.n)

    def violation(self, x: Array) -> float:
        xp = namespace(x)
        return max(0.0, -float(xp.min(x)), float(xp.max(x)) - 1.0, abs(total(x) - self.k) / self.n)

    def project(self, x: Array) -> Array:
        """min(max(x - theta, 0), 1) with theta such that the sum is k.

        theta is computed as the sum of two shifts, as for `KSparse`.
        """
        near = x - clipping_shift(x, 1.0, float(self.k))
        return namespace(x).clip(near - clipping_shift(near, 1.0, float(self.k)), 0.0, 1.0)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        s = xp.zeros_like(c)
        s[xp.argsort(c)[: self.k]] = 1.0
        return Answer(s, dot(c, s), value=0.0, magnitude=dot(xp.abs(c), s))


class WeightedL1Ball(Set):
    """The weighted l1 ball {x : sum_i weights_i |x_i| <= radius}.

    Parameters
    ----------
    weights : array of positive numbers, shape (n,)
    radius : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.WeightedL1Ball([1.0, 4.0], radius=2.0)
    >>> P.linear_argmin(np.array([-1.0, 6.0])).point.tolist(), P.project(np.array([3.0, 0.1])).tolist()
    ([0.0, -0.5], [2.0, 0.0])
    """

    solid = True
    projection_rounding = 0.0

    def __init__(self, weights: Any, radius: float) -> None:
        self.weights = floating("weights", weights, ndim=1)
        lowest = float(namespace(self.weights).min(self.weights)) if self.weights.shape[0] else 0.0
        if not lowest > 0.0:
            raise ValueError(f"weights must be > 0, got {lowest:g} among its entries")
        self.radius = _checks.number("radius", radius, at_least=0.0)
        self.shape = tuple(self.weights.shape)
        self.largest_entry = self.radius / lowest
        self.scale = self.largest_entry

    def __repr__(self) -> str:
        return f"WeightedL1Ball({self.weights.shape[0]} weights, radius={self.radius:g})"

    def norm(self, x: Array) -> float:
        """sum_i weights_i |x_i|."""
        return dot(like(self.weights, x), namespace(x).abs(x))

    def start(self, space: Space) -> Array:
        return space.full(0.0)

    def violation(self, x: Array) -> float:
        """The norm minus the radius, divided by the largest weight; 0 inside the set."""
        excess = self.norm(x) - self.radius
        return max(0.0, excess / float(namespace(self.weights).max(self.weights)))

    def project(self, x: Array) -> Array:
        """sign(x) max(|x| - theta weights, 0).

        theta is 0 if x is in the set. Otherwise theta is such that the norm is the radius. The
        coordinates that do not become 0 are those with the largest |x_i| / weights_i.
        """
        xp = namespace(x)
        sizes = xp.abs(x)
        weights = like(self.weights, x)
        if dot(weights, sizes) <= self.radius:
            return x
        if self.radius == 0.0:
            return xp.zeros_like(x)
        order = xp.argsort(sizes / weights, descending=True)
        w = weights[order]
        sums = xp.cumulative_sum(w * sizes[order]) - self.radius
        squares = xp.cumulative_sum(w * w)
        # theta by the first coordinates, as long as the last of them is above it
        is_kept = sizes[order] * squares > w * sums
        last = max(1, int(xp.count_nonzero(is_kept)))
        theta = float(sums[last - 1]) / float(squares[last - 1])
        return signs(x) * xp.minimum(at_least(0.0, sizes - theta * weights), sizes)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        weights = like(self.weights, c)
        i = int(xp.argmax(xp.abs(c) / weights))
        s = xp.zeros_like(c)
        s[i] = -self.radius / float(weights[i]) * (1.0 if float(c[i]) > 0.0 else -1.0)
        return Answer(s, dot(c, s), value=0.0)


class Birkhoff(Transport):
    """The doubly stochastic n x n matrices. The vertices are the permutation matrices.

    Parameters
    ----------
    n : int
        The number of rows, and of columns.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.Birkhoff(2).linear_argmin(np.array([[1.0, 0.0], [0.0, 1.0]])).point.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, n: int) -> None:
        self.n = _checks.whole("n", n, at_least=1)
        super().__init__(np.ones(self.n), np.ones(self.n))
        self.space = None  # any library's matrices

    def __repr__(self) -> str:
        return f"Birkhoff({self.n})"

    def start(self, space: Space) -> Array:
        return space.full(1.0 / self.n)

    def linear_argmin(self, c: Array) -> Answer:
        """A permutation matrix, found by solving the assignment problem."""
        from scipy.optimize import linear_sum_assignment

        xp = namespace(c)
        rows, columns = linear_sum_assignment(host(c))
        permutation = np.zeros(c.shape)
        permutation[rows, columns] = 1.0
        s = like(permutation, c)
        return Answer(s, dot(c, s), value=0.0, magnitude=dot(xp.abs(c), s))


@dataclass(frozen=True)
class Spectraplex(Set):
    """The spectraplex {X in R^{n x n} : X symmetric and positive semidefinite, trace X = trace}.

    Parameters
    ----------
    n : int
        The number of rows, and of columns.
    trace : float
        The sum of the eigenvalues.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> abs(cg.sets.Spectraplex(2).linear_argmin(np.diag([2.0, 1.0])).point).tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """

    n: int
    trace: float = 1.0

    def __post_init__(self) -> None:
        _checks.hold_whole(self, "n", at_least=1)
        _checks.hold_number(self, "trace", at_least=0.0)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(n, n)."""
        return (self.n, self.n)

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.trace

    @property
    def largest_entry(self) -> float:  # type: ignore[override]
        """The trace."""
        return self.trace

    def start(self, space: Space) -> Array:
        return (self.trace / self.n) * space.xp.eye(self.n, dtype=space.dtype, device=space.device)

    def violation(self, x: Array) -> float:
        xp = namespace(x)
        values = xp.linalg.eigvalsh(_symmetric(x))
        skew = float(xp.max(xp.abs(x - x.T)))
        return max(0.0, skew, -float(xp.min(values)), abs(total(values) - self.trace))

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        values, vectors = xp.linalg.eigh(_symmetric(x))
        projected = keep_mass(values, self.trace) if self.trace > 0.0 else xp.zeros_like(values)
        return (vectors * projected) @ vectors.T

    def linear_argmin(self, c: Array) -> Answer:
        """trace v v', where v is the eigenvector of the smallest eigenvalue of c."""
        values, vectors = namespace(c).linalg.eigh(_symmetric(c))
        first = vectors[:, :1]
        bound = self.trace * float(values[0])
        size = self.trace * max(abs(float(values[0])), abs(float(values[-1])))
        return Answer(self.trace * (first @ first.T), bound, value=0.0, magnitude=self.n * size)


def _symmetric(x: Array) -> Any:
    return 0.5 * (x + x.T)
