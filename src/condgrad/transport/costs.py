"""Costs between points that are not stored as arrays. `transport.solve` takes them in place of an
array.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from condgrad.arrays import Array, at_least, double, double_like, is_torch, namespace
from condgrad.arrays.inputs import floating
from condgrad.memory import NUMBER
from condgrad.streamed_plan import Blocks, UnformedCost


class PointCost(ABC):
    """A cost of n x m numbers, given by O(n + m) numbers."""

    @abstractmethod
    def unformed(self) -> UnformedCost:
        """The same cost in float64, in the form that streamed plans need: factors, or a function."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[Array, Array]:
        """The points, or the factors, of sources and targets."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of sources and targets."""
        sources, targets = self.arrays
        return sources.shape[0], targets.shape[0]

    @property
    def bytes(self) -> int:
        """The size in bytes of the array of costs."""
        n, m = self.shape
        return NUMBER * n * m

    def dense(self) -> Array:
        """The array of costs."""
        return self.unformed().dense()

    def __repr__(self) -> str:
        return f"transport.{type(self).__name__}({' x '.join(map(str, self.shape))})"


@dataclass(frozen=True, repr=False, eq=False)
class SquaredEuclidean(PointCost):
    """cost_ij = |Xs_i - Xt_j|^2.

    Coordinates may be far from the origin: they are centred before distances are computed.

    Parameters
    ----------
    Xs, Xt : arrays, shapes (n, d) and (m, d)
        Source and target points.

    Examples
    --------
    >>> import condgrad as cg
    >>> cost = cg.transport.SquaredEuclidean([[0.0], [1.0]], [[1.0], [3.0]])
    >>> cost, cost.dense().tolist()
    (transport.SquaredEuclidean(2 x 2), [[1.0, 9.0], [0.0, 4.0]])
    """

    Xs: Any
    Xt: Any

    def __post_init__(self) -> None:
        _keep_pair(self, "Xs", "Xt", what="dimension")

    @property
    def arrays(self) -> tuple[Array, Array]:
        return self.Xs, self.Xt

    def unformed(self) -> UnformedCost:
        xp = namespace(self.Xs)
        Xs = double(self.Xs)
        Xt = double(self.Xt)
        # |x - y|^2 of coordinates around a common centre, exact to the digits of the differences
        center = 0.5 * (xp.mean(Xs, axis=0) + xp.mean(Xt, axis=0))[None, :]
        Xs = Xs - center
        Xt = Xt - center
        return UnformedCost(-2.0 * Xs, Xt, xp.sum(Xs * Xs, axis=1), xp.sum(Xt * Xt, axis=1))

    def dense(self) -> Array:
        return at_least(
            0.0, super().dense()
        )  # rounding may leave a little less than 0 between equal points


@dataclass(frozen=True, repr=False, eq=False)
class LowRank(PointCost):
    """cost_ij = <A_i, B_j>.

    Parameters
    ----------
    A, B : arrays, shapes (n, r) and (m, r)
        Factors of the cost.

    Examples
    --------
    >>> import condgrad as cg
    >>> cg.transport.LowRank([[1.0], [2.0]], [[3.0], [4.0], [5.0]]).dense().tolist()
    [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """

    A: Any
    B: Any

    def __post_init__(self) -> None:
        _keep_pair(self, "A", "B", what="rank")

    @property
    def arrays(self) -> tuple[Array, Array]:
        return self.A, self.B

    def unformed(self) -> UnformedCost:
        return UnformedCost.of(self.A, self.B)


class Cosine(SquaredEuclidean):
    """cost_ij = |x_i - y_j|^2 / 2 for unit vectors.

    This equals 1 - <x_i, y_j>, but it is also exact if it is small.
    """

    def unformed(self) -> UnformedCost:
        return 0.5 * super().unformed()


def cosine(Xs: Any, Xt: Any) -> Cosine:
    """The cosine cost: cost_ij = 1 - <x_i, y_j>/(|x_i| |y_j|) for points x_i of Xs and y_j of Xt.

    It is computed as half the squared distance of unit vectors. So it is also exact for nearly
    parallel points.

    Parameters
    ----------
    Xs, Xt : arrays, shapes (n, d) and (m, d)
        Source and target points. No point may be the origin, because it has no direction.

    Returns
    -------
    Cosine
        A cost between points, for `transport.solve`.

    Examples
    --------
    >>> import condgrad as cg
    >>> cg.transport.cosine([[1.0, 0.0]], [[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]]).dense().tolist()
    [[0.0, 1.0, 2.0]]
    """

    def directions(name: str, X: Any) -> Array:
        X = double(floating(name, X, ndim=2))
        xp = namespace(X)
        if 0 in X.shape or not bool(xp.all(xp.any(X != 0.0, axis=1))):
            raise ValueError(
                f"{name} must not be empty, and must not have the origin, because it has no direction"
            )
        X = X / xp.max(xp.abs(X), axis=1, keepdims=True)  # squares neither overflow nor vanish
        return X / xp.sqrt(xp.sum(X * X, axis=1))[:, None]

    return Cosine(directions("Xs", Xs), directions("Xt", Xt))


@dataclass(frozen=True, repr=False, eq=False)
class BlockCost(PointCost):
    """cost_ij = function(Xs, Xt)_ij, computed for blocks of points whenever they are needed.

    Parameters
    ----------
    function : callable
        It takes k sources and l targets, as arrays of the same library as `Xs`. It returns the k x
        l costs. Examples are `scipy.spatial.distance.cdist` for Euclidean distances, or torch code
        for tensors.
    Xs, Xt : arrays, shapes (n, d) and (m, d')
        Source and target points.

    Examples
    --------
    >>> from scipy.spatial.distance import cdist
    >>> import condgrad as cg
    >>> cost = cg.transport.BlockCost(cdist, [[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]])
    >>> cost.dense().tolist()
    [[5.0, 1.0]]
    """

    function: Callable[[Array, Array], Array]
    Xs: Any
    Xt: Any

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"function must be callable with two blocks of points, got {self.function!r}"
            )
        _keep_pair(self, "Xs", "Xt", what=None)

    @property
    def arrays(self) -> tuple[Array, Array]:
        return self.Xs, self.Xt

    def unformed(self) -> UnformedCost:
        Xs = double(self.Xs)
        Xt = double(self.Xt)
        return UnformedCost.of(Xs[:, :0], Xt[:, :0], Blocks(1.0, self.function, Xs, Xt))


def _keep_pair(cost: Any, left: str, right: str, *, what: str | None) -> None:
    """Checks two matrices of points and keeps them as arrays of one library, on one device."""
    first = floating(left, getattr(cost, left), ndim=2)
    second = floating(right, getattr(cost, right), ndim=2)
    if is_torch(first) or is_torch(second):
        leader = first if is_torch(first) else second
        first = double_like(first, leader)
        second = double_like(second, leader)
    for name, X in ((left, first), (right, second)):
        if X.shape[0] == 0:
            raise ValueError(f"{name} must hold one or more points, got shape {tuple(X.shape)}")
    if what is not None and first.shape[1] != second.shape[1]:
        raise ValueError(
            f"{left} and {right} must have the same {what}, got {first.shape[1]} and {second.shape[1]}"
        )
    object.__setattr__(cost, left, first)
    object.__setattr__(cost, right, second)
