"""Norms as g: the composite conditional gradient of Harchaoui, Juditsky and Nemirovski (Math. Prog.
152, 2015).

Take a set whose points stay inside if their coordinates (or singular values) shrink. On it,
`min <c, s> + weight |s|` is the linear problem for the soft-thresholded c: moving one unit along a
coordinate gains |c_i| and costs `weight`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from condgrad import _checks
from condgrad.arrays import Array, at_least, namespace, total
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Set, Simple, checked_set, linear_answer
from condgrad.search.restriction import Restriction, RestrictionByCalls
from condgrad.sets.balls import matrix


@dataclass(frozen=True)
class Norm(Simple):
    """g(x) = weight |x| for a norm that is not differentiable where it matters."""

    weight: float
    on: Set
    need: ClassVar[str]

    def __post_init__(self) -> None:
        _checks.hold_number(self, "weight", above=0.0)
        checked_set(self.on).require("linear_argmin", by=type(self).__name__)
        if not self.shrinks_on(self.on):
            raise MissingAbility(
                f"{type(self).__name__} needs a set that {self.need}; {self.on!r} does not"
            )

    @abstractmethod
    def shrinks_on(self, on: Set) -> bool:
        """Whether the set allows shrinking."""

    @abstractmethod
    def norm(self, x: Array) -> float:
        """The norm of x."""

    @abstractmethod
    def subgradient(self, x: Array) -> Array:
        """A subgradient of the norm at x."""

    @abstractmethod
    def soft(self, c: Array) -> Array:
        """c, soft-thresholded by the weight."""

    @abstractmethod
    def masked(self, s: Array, soft: Array) -> Array:
        """s with 0 in all parts in which the thresholded direction is 0."""

    def value(self, x: Array) -> float:
        return self.weight * self.norm(x)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        soft = self.soft(c)
        linear = linear_answer(self.on.linear_argmin(soft), soft)
        point = self.masked(linear.point, soft)
        return Answer(point, linear.bound, self.value(point))

    def along(self, x: Array, directions: Array) -> Restriction:
        return RestrictionByCalls(
            self.value, lambda y: (self.value(y), self.weight * self.subgradient(y)), x, directions
        )


class L1Norm(Norm):
    """g(x) = weight sum |x_i|, on a set.

    Parameters
    ----------
    weight : float
        Above 0.
    on : Set
        A set that has `linear_argmin`. Its points must stay inside if coordinates shrink towards 0.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [3.0, 0.5])
    >>> r = cg.minimize(f, cg.simple.L1Norm(1.0, on=cg.sets.L1Ball(5.0)), tol=1e-9)
    >>> [round(float(x), 3) for x in r.x]
    [2.0, 0.0]
    """

    need = "contains a point whenever it contains a larger one, coordinate by coordinate"

    def shrinks_on(self, on: Set) -> bool:
        return on.solid

    def norm(self, x: Array) -> float:
        return total(namespace(x).abs(x))

    def subgradient(self, x: Array) -> Array:
        return namespace(x).sign(x)

    def soft(self, c: Array) -> Array:
        xp = namespace(c)
        return xp.sign(c) * at_least(0.0, xp.abs(c) - self.weight)

    def masked(self, s: Array, soft: Array) -> Array:
        xp = namespace(s)
        return xp.where(soft == 0, xp.zeros_like(s), s)


class NuclearNorm(Norm):
    """g(X) = weight (sum of the singular values of X), on a set of matrices.

    Parameters
    ----------
    weight : float
        Above 0.
    on : Set
        `NuclearBall` or `L2Ball`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> round(cg.simple.NuclearNorm(0.5, on=cg.sets.NuclearBall(9.0)).value(np.diag([3.0, 4.0])), 6)
    3.5
    """

    need = "contains a matrix whenever it contains one of larger singular values"

    def shrinks_on(self, on: Set) -> bool:
        return on.spectrally_solid

    def norm(self, x: Array) -> float:
        return total(namespace(x).linalg.svdvals(matrix(x)))

    def subgradient(self, x: Array) -> Array:
        xp = namespace(x)
        U, sigma, Vt = xp.linalg.svd(matrix(x), full_matrices=False)
        return (U * xp.astype(sigma > 1e-12 * sigma[0], x.dtype)) @ Vt

    def soft(self, c: Array) -> Array:
        xp = namespace(c)
        U, sigma, Vt = xp.linalg.svd(matrix(c), full_matrices=False)
        return (U * at_least(0.0, sigma - self.weight)) @ Vt

    def masked(self, s: Array, soft: Array) -> Array:
        xp = namespace(s)
        return s if bool(xp.any(soft != 0)) else xp.zeros_like(s)
