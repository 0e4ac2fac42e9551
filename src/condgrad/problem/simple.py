"""g: simple together with the set it lives on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from condgrad.arrays import Array
from condgrad.errors import MissingAbility
from condgrad.problem.set import Answer, Set
from condgrad.problem.smooth import Smooth
from condgrad.search.restriction import Restriction


class Simple(ABC):
    """A convex g together with its set, such that <c, s> + g(s) is easy to minimise over the set.

    A g of your own implements `value`, `argmin` and `along`, and `gradient` if it has one. `argmin`
    returns an `Answer`: a point of the set and a lower bound on min <c, s> + g(s). Exact steps call
    `along`. Often `simple.Oracle` is enough: it builds all of this from plain functions.

    Examples
    --------
    Every g answers the same questions:

    >>> import numpy as np, condgrad as cg
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> isinstance(g, cg.simple.Simple), g.value(np.array([0.5, -0.5]))
    (True, 0.5)
    >>> answer = g.argmin(np.array([-3.0, 1.0]))  # min <c, s> + |s|^2 over the ball
    >>> answer.point.tolist(), answer.bound
    ([1.0, -0.0], -2.0)
    """

    on: Set
    widens: bool = True
    """Whether g may be evaluated at a float64 point in a float32 run."""
    strong_convexity: float = 0.0
    """mu with g(y) >= g(x) + <g'(x), y - x> + mu/2 |y - x|_2^2 on the set."""
    smoothness: float | None = None
    """The Lipschitz constant of its gradient, if it has one."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """g(x)."""

    def magnitude(self, x: Array, value: float) -> float:
        """The size of the terms of g(x) before they cancel, for the rounding error of g(x).

        `value` is g(x), if it is known.
        """
        return abs(value)

    @abstractmethod
    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        """The partially linearised oracle: a point of `on` and a lower bound for min <c, s> + g(s).

        `warm` is the `warm` of an earlier answer. `accuracy` is the allowed difference between the
        objective at the point and the bound. Exact oracles ignore both.
        """

    def beside(self, f: Smooth, here: Any, value: float) -> Simple:
        """The g that the oracle uses at a point. `here` is the evaluation of f at this point, and
        `value` is f + g there.

        By default it is g itself. A g that knows more about the minimisers of f + g may return
        another one with a better bound.
        """
        return self

    @abstractmethod
    def along(self, x: Array, directions: Array) -> Restriction:
        """g at x + sum_i a_i directions[i], as a function of the numbers a."""

    @property
    def has_gradient(self) -> bool:
        """Whether g has a gradient that is finite on the set."""
        return type(self).gradient is not Simple.gradient

    def gradient(self, x: Array) -> Array:
        """grad g(x), for methods that linearise g."""
        raise MissingAbility(f"{self!r} has no gradient; method='cgs' does not need one")

    def slope(self, x: Array) -> Array:
        """The gradient of the differentiable part of g. By default that is all of g."""
        return self.gradient(x)

    def kinked(self, x: Array) -> float:
        """The part of g that is not differentiable: g minus the part whose gradient is `slope`."""
        return 0.0

    def prox(self, v: Array, length: float) -> Array:
        """The y in the set that minimises |y - v|^2 / (2 length) + `kinked(y)`."""
        return self.on.project(v)
