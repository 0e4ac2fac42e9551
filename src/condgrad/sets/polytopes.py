"""Sets that come from Frank-Wolfe's world: sparse vectors, permutations, the spectraplex, the l-infinity ball."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import Array, Space, dot, host, like, namespace, signs, total
from condgrad.problem import Answer, Set
from condgrad.sets.balls import Ball
from condgrad.sets.threshold import keep_mass
from condgrad.sets.transport import Transport


@dataclass(frozen=True)
class LInfBall(Ball):
    """{x : |x_i| <= radius}.

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


@dataclass(frozen=True)
class KSparse(Ball):
    """{x : |x_i| <= radius, sum |x_i| <= k radius}: the hull of vectors with k entries of +-radius.

    Parameters
    ----------
    radius : float
        The largest entry.
    k : int
        How many entries of that size a vertex has.

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
        object.__setattr__(self, "k", _checks.whole("k", self.k, at_least=1))

    def norm(self, x: Array) -> float:
        """The gauge of the set: at most `radius` inside."""
        xp = namespace(x)
        return max(float(xp.max(xp.abs(x))), total(xp.abs(x)) / self.k)

    def project(self, x: Array) -> Array:
        """sign(x) min(max(|x| - theta, 0), radius), theta being 0 or such that the sum is k radius.

        Theta is found as the sum of two shifts. The first has the rounding of |x|, which may be
        far above the radius. The difference of two floats has only the rounding of itself, so that
        the second shift, that of |x| less the first, has the rounding of the radius.
        """
        xp = namespace(x)
        sizes = xp.abs(x)
        inside = xp.clip(sizes, 0.0, self.radius)
        if total(inside) <= self.k * self.radius:
            return signs(x) * inside
        near = sizes - self._threshold(sizes)
        shifted = near - self._threshold(near)
        # of a point just outside, theta may round to below 0
        return signs(x) * xp.minimum(xp.clip(shifted, 0.0, self.radius), sizes)

    def _threshold(self, v: Array) -> float:
        """The theta at which min(max(v - theta, 0), radius) sums to k radius."""
        mass = self.k * self.radius

        def kept(theta: float) -> float:
            return total(namespace(v).clip(v - theta, 0.0, self.radius))

        # the sum falls with theta and is linear between the points where an entry reaches 0 or leaves the radius
        flat = host(v).ravel()
        ends = np.unique(np.concatenate([flat, flat - self.radius]))
        first = bisect_left(ends, True, hi=len(ends) - 1, key=lambda end: kept(float(end)) <= mass)
        end = float(ends[first])
        between = int(np.count_nonzero((flat >= end) & (flat - self.radius < end)))
        # none is between where v - radius rounds to v: then the sum jumps at this end
        return end - (mass - kept(end)) / between if between > 0 else end

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        flat = xp.reshape(c, (-1,))
        steepest = xp.argsort(xp.abs(flat), descending=True)[: self.k]
        s = xp.zeros_like(flat)
        s[steepest] = -self.radius * signs(flat[steepest])
        return Answer(xp.reshape(s, c.shape), dot(flat, s), value=0.0)


class Birkhoff(Transport):
    """The n x n doubly stochastic matrices, whose vertices are the permutations.

    Parameters
    ----------
    n : int
        Rows and columns.

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
        """A permutation, by the assignment problem."""
        from scipy.optimize import linear_sum_assignment

        xp = namespace(c)
        rows, columns = linear_sum_assignment(host(c))
        permutation = np.zeros(c.shape)
        permutation[rows, columns] = 1.0
        s = like(permutation, c)
        return Answer(s, dot(c, s), value=0.0, magnitude=dot(xp.abs(c), s))


@dataclass(frozen=True)
class Spectraplex(Set):
    """{X in R^{n x n} : X symmetric, no negative eigenvalues, trace X = trace}.

    Parameters
    ----------
    n : int
        Rows and columns.
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
        object.__setattr__(self, "n", _checks.whole("n", self.n, at_least=1))
        object.__setattr__(self, "trace", _checks.number("trace", self.trace, at_least=0.0))

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
        kept = keep_mass(values, self.trace) if self.trace > 0.0 else xp.zeros_like(values)
        return (vectors * kept) @ vectors.T

    def linear_argmin(self, c: Array) -> Answer:
        """The eigenvector of the least eigenvalue, twice."""
        values, vectors = namespace(c).linalg.eigh(_symmetric(c))
        first = vectors[:, :1]
        bound = self.trace * float(values[0])
        size = self.trace * max(abs(float(values[0])), abs(float(values[-1])))
        return Answer(self.trace * (first @ first.T), bound, value=0.0, magnitude=self.n * size)


def _symmetric(x: Array) -> Any:
    return 0.5 * (x + x.T)
