"""P: compact and convex, and what its oracles answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from condgrad.arrays import Array, Space, dot
from condgrad.errors import MissingAbility


class Answer(NamedTuple):
    """An oracle's answer to `min <c, s> + g(s), s in P`: a point of P and a lower bound.

    Attributes
    ----------
    point : array
        A point of the set.
    bound : float
        A lower bound on the minimum. For an exact oracle it equals the objective at the point.
    value : float, optional
        g(point), if the oracle knows it.
    inner_iterations : int
        The number of iterations of an iterative oracle.
    warm : optional
        Anything that helps the next call of this oracle to start, for example potentials.
    magnitude : float
        The size of the terms of the bound before they cancel, apart from those of <c, point>. The
        rounding error is proportional to it.
    witness : array, optional
        The point y for which the rounding error of <c, y> is largest, if that is not `point`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> answer = cg.simple.Zero(on=cg.sets.Simplex(2)).argmin(np.array([3.0, 1.0]))
    >>> answer.point.tolist(), answer.bound
    ([0.0, 1.0], 1.0)
    """

    point: Array
    bound: float
    value: float | None = None
    inner_iterations: int = 0
    warm: Any = None
    magnitude: float = 0.0
    witness: Array = None


def linear_answer(answer: Any, c: Array) -> Answer:
    """What a set's `linear_argmin` returned; a point alone is taken to be exact."""
    return answer if isinstance(answer, Answer) else Answer(answer, dot(c, answer), value=0.0)


class Face(NamedTuple):
    """A point of a polyhedral set, and the face that has this point in its interior.

    Near the point, the face is {point + d : d = 0 except at `active`, <normal, d[active]> = 0}. On
    the coordinates `active`, a projection onto the set has the derivative
    I - normal normal'/|normal|^2.
    """

    point: Array
    active: Array
    """The indices of the coordinates that are free to move."""
    normal: Array | None
    """The free coordinates can only move orthogonally to this vector, unless it is None."""


class Set(ABC):
    '''A compact convex set P.

    A set has some of the methods `project`, `linear_argmin` and `entropic_argmin`. They decide
    which g can live on it: `Ridge` needs `project`, `Zero` needs `linear_argmin`, and `Entropy`
    needs `entropic_argmin`. A set of your own implements `start`, `violation` and at least one of
    these three. The attributes below say more about its points; all have defaults.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> class Hull(cg.sets.Set):
    ...     """The convex hull of the rows of a matrix."""
    ...     def __init__(self, corners):
    ...         self.corners, self.shape = corners, corners.shape[1:]
    ...     def start(self, space):
    ...         return self.corners.mean(axis=0)
    ...     def violation(self, x):
    ...         return 0.0  # all points are believed to be inside
    ...     def linear_argmin(self, c):
    ...         return self.corners[np.argmin(self.corners @ c)]
    >>> triangle = Hull(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> f = cg.smooth.LeastSquares(np.eye(2), [1.0, 1.0])
    >>> np.round(cg.minimize(f, cg.simple.Zero(on=triangle)).x, 3).tolist()
    [0.5, 0.5]
    '''

    space: Space | None = None
    """Shape, library and precision of its points, if the set knows."""
    shape: tuple[int, ...] | None = None
    """Shape of its points, if the set knows."""
    scale: float = 1.0
    """The size of the set. Violations are compared with it."""
    largest_entry: float | None = None
    """A bound on every entry of every point, if known."""
    smallest_entry: float = -math.inf
    """A lower bound on every entry of every point, if known."""
    nonnegative: bool = False
    """Whether all entries of all points are nonnegative."""
    forms_points: bool = True
    """Whether its points are arrays. Streamed plans are no arrays: only products with them are
    computed.
    """
    solid: bool = False
    """Whether a point stays inside if some of its coordinates shrink towards zero."""
    spectrally_solid: bool = False
    """Whether a matrix stays inside if some of its singular values shrink towards zero."""

    @property
    def projection_rounding(self) -> float:
        """The size of the numbers on which the rounding error of a projection depends; 0 if there
        are none.

        For example, a projection onto a ball with a centre far from 0 has the rounding error of the
        centre in every entry.
        """
        return self.scale

    @abstractmethod
    def start(self, space: Space) -> Array:
        """A start point in the set, in its relative interior if there is one."""

    def null_point(self, space: Space) -> Array:
        """The point of the set nearest to the origin, or the start point if there is no projection.

        Gaps are divided by a scale, which depends on |f| + |g| at this point.
        """
        return self.project(space.full(0.0)) if "project" in self.abilities else self.start(space)

    @abstractmethod
    def violation(self, x: Array) -> float:
        """How far x is outside the set: 0 for points of the set."""

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Whether x is in the set, up to `tolerance` times the size of the set."""
        return self.violation(x) <= tolerance * self.scale

    def project(self, x: Array) -> Array:
        """The Euclidean projection of x."""
        raise self.lacks("project")

    def face(self, v: Array) -> Face:
        """The projection of v, and the face of the set around it. The derivative of the projection
        follows from them.
        """
        raise MissingAbility(
            f"{self!r} has no faces; L1Ball, Simplex, SolidSimplex and Box have them"
        )

    def linear_argmin(self, c: Array) -> Answer:
        """argmin <c, s> over the set. A set of your own may return only the point; it is then
        taken to be exact.
        """
        raise self.lacks("linear_argmin")

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """argmin <c, s> + weight * sum s log s over the set."""
        raise self.lacks("entropic_argmin")

    @property
    def abilities(self) -> tuple[str, ...]:
        """Which of `project`, `linear_argmin` and `entropic_argmin` this set has."""
        names = ("project", "linear_argmin", "entropic_argmin")
        return tuple(name for name in names if getattr(type(self), name) is not getattr(Set, name))

    def lacks(self, ability: str) -> MissingAbility:
        """The error that names the missing method of this set, and the methods that it has."""
        return MissingAbility(
            f"{self!r} has no {ability}; it has {', '.join(self.abilities) or 'none of them'}"
        )

    def require(self, ability: str, *, by: str) -> None:
        """Raise an error early if the set lacks this method."""
        if ability not in self.abilities:
            raise MissingAbility(f"{by} needs a set with {ability}: {self.lacks(ability)}")


def checked_set(on: Any) -> Set:
    """`on`, if it is a set."""
    if not isinstance(on, Set):
        raise TypeError(f"on must be a set such as condgrad.sets.L1Ball(1.0), got {on!r}")
    return on
