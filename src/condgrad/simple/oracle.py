"""Your own g, from plain functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from condgrad.arrays import Array, Space, all_finite, dot, precision
from condgrad.arrays.inputs import returned, scalar
from condgrad.errors import ContradictionError, MissingAbility, NotFiniteError
from condgrad.problem import Answer, Set, Simple, checked_set
from condgrad.search.restriction import Restriction, RestrictionByCalls


class Unknown(Set):
    """A set that only its oracle knows: every point counts as inside, and there is no start point."""

    def start(self, space: Space) -> Array:
        raise MissingAbility(
            "Oracle does not know a point of its set: pass x0, or give the set by on="
        )

    def violation(self, x: Array) -> float:
        return 0.0

    def __repr__(self) -> str:
        return "the set of your Oracle"


class Oracle(Simple):
    """A simple part g from functions of your own.

    Parameters
    ----------
    value : callable
        It takes x and returns g(x).
    argmin : callable
        It takes c and returns a point s that minimises <c, s> + g(s) over the set. This point is
        taken to be exact. If it is not, return `Answer(point, bound)` with a lower bound on the
        minimum.
    on : set, optional
        The set of g. It gives a start point, and checks x0 and the points that argmin returns.
    gradient : callable, optional
        It takes x and returns grad g(x). Exact steps are faster with it, and `method="cg"` needs
        it.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> g = cg.simple.Oracle(lambda x: 0.0, lambda c: -np.sign(c))  # the box of -1 and 1
    >>> f = cg.smooth.LeastSquares(np.eye(2), [3.0, 0.5])
    >>> [round(float(x), 3) for x in cg.minimize(f, g, x0=np.zeros(2)).x]
    [1.0, 0.5]
    """

    widens = False

    def __init__(
        self,
        value: Callable[[Array], float],
        argmin: Callable[[Array], Any],
        *,
        on: Set | None = None,
        gradient: Callable[[Array], Array] | None = None,
    ) -> None:
        for name, given in (("value", value), ("argmin", argmin), ("gradient", gradient)):
            if not (callable(given) or (name == "gradient" and given is None)):
                raise TypeError(f"{name} must be callable, got {given!r}")
        self.on = Unknown() if on is None else checked_set(on)
        self._value = value
        self._argmin = argmin
        self._gradient = gradient

    def __repr__(self) -> str:
        return f"Oracle({getattr(self._argmin, '__name__', 'callable')})"

    def value(self, x: Array) -> float:
        return scalar("the value of your Oracle", self._value(x))

    @property
    def has_gradient(self) -> bool:
        return self._gradient is not None

    def gradient(self, x: Array) -> Array:
        if self._gradient is None:
            raise MissingAbility("this Oracle has no gradient: pass gradient=")
        return returned("the gradient of your Oracle", self._gradient(x), x)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        answer = self._argmin(c)
        if isinstance(answer, Answer):
            bound = scalar("the bound of your Oracle's answer", answer.bound)
            if math.isnan(bound) or bound == math.inf:
                raise NotFiniteError(f"your Oracle returned the bound {bound}")
            return answer._replace(point=self._point(answer.point, c), bound=bound)
        point = self._point(answer, c)
        value = self.value(point)
        return Answer(point, dot(c, point) + value, value)

    def _point(self, point: Any, c: Array) -> Array:
        point = returned("the point of your Oracle (alone, or in an Answer)", point, c)
        if not all_finite(point):
            raise NotFiniteError("your Oracle returned a point with NaN or infinite entries")
        if not self.on.contains(point, max(1e-6, 100.0 * precision(point))):
            raise ContradictionError(
                f"your Oracle returned a point outside {self.on!r}, by {self.on.violation(point):.3g}"
            )
        return point

    def along(self, x: Array, directions: Array) -> Restriction:
        def both(y: Array) -> tuple[float, Array | None]:
            return self.value(y), None if self._gradient is None else self.gradient(y)

        return RestrictionByCalls(self.value, both, x, directions)
