"""Your own g, from plain callables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condgrad._arrays import Array, Space, Vector, combine, dot
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Set, Simple
from condgrad.restriction import Local, Restriction


class Unknown(Set):
    """A set that only its oracle knows: every point is believed, and there is no start point."""

    def start(self, space: Space) -> Array:
        raise MissingAbility("Oracle does not know a point of its set: pass x0, or on= a set")

    def violation(self, x: Array) -> float:
        return 0.0

    def __repr__(self) -> str:
        return "the set of your Oracle"


class Oracle(Simple):
    """g from two callables.

    Parameters
    ----------
    value : callable
        x -> g(x).
    argmin : callable
        c -> a minimiser of <c, s> + g(s), which is then taken to be exact, or an `Answer(point, bound)`
        with a lower bound of its own.
    on : set, optional
        Where g lives, for a start point and a check of x0.
    gradient : callable, optional
        x -> grad g(x); exact steps are faster with it, and `method="cg"` needs it.
    """

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
        self.on = Unknown() if on is None else on
        self._value, self._argmin, self._gradient = value, argmin, gradient

    def __repr__(self) -> str:
        return f"Oracle({getattr(self._argmin, '__name__', 'callable')})"

    def value(self, x: Array) -> float:
        return float(self._value(x))

    @property
    def differentiable(self) -> bool:
        return self._gradient is not None

    def gradient(self, x: Array) -> Array:
        if self._gradient is None:
            raise MissingAbility("this Oracle has no gradient: pass gradient=")
        return self._gradient(x)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        answer = self._argmin(c)
        if not isinstance(answer, Answer):
            value = self.value(answer)
            answer = Answer(answer, dot(c, answer) + value, value)
        if tuple(answer.point.shape) != tuple(c.shape):
            raise ValueError(
                f"the oracle's point must have the shape of c, {tuple(c.shape)}, got {tuple(answer.point.shape)}"
            )
        return answer

    def along(self, x: Array, directions: Array) -> Restriction:
        return OracleRestriction(self, x, directions)


class OracleRestriction:
    """a -> g(x + sum_i a_i directions[i]), with slopes if the user gave a gradient."""

    def __init__(self, g: Oracle, x: Array, directions: Array) -> None:
        self.g, self.x, self.directions = g, x, directions

    def value(self, a: Vector) -> float:
        return self.g.value(self.x + combine(a, self.directions))

    def local(self, a: Vector) -> Local:
        x = self.x + combine(a, self.directions)
        if not self.g.differentiable:
            return Local(self.g.value(x), None, None)
        gradient = self.g.gradient(x)
        return Local(self.g.value(x), np.array([dot(gradient, d) for d in self.directions]), None)
