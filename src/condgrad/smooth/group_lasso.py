"""The class regulariser of transport plans: a target point should receive mass from one class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Vector,
    at_least,
    combine,
    host,
    is_torch,
    namespace,
    smallest,
    total,
)
from condgrad.problem import Smooth
from condgrad.search.restriction import LocalModel, Restriction


class TransportGroupLasso(Smooth):
    """f(G) = weight * sum over columns j and classes c of |G[labels == c, j]|_2.

    It is small if each target point (column) receives its mass from one class of sources. A group
    is the entries of one class in one column. f is differentiable if no group is 0, for example if
    g is an entropy. If a group is 0, its part of the gradient is taken to be 0.

    Parameters
    ----------
    labels : sequence
        A class for each row of the plan: numbers or strings.
    weight : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.TransportGroupLasso(["a", "a", "b"], weight=2.0)
    >>> f.value_and_gradient(np.array([[3.0], [4.0], [1.0]]))[0]
    12.0
    """

    def __init__(self, labels: Any, *, weight: float = 1.0) -> None:
        labels = np.asarray(host(labels) if is_torch(labels) else labels)
        if labels.ndim != 1 or len(labels) == 0:
            raise ValueError(f"labels must have one class for each row, got shape {labels.shape}")
        self.classes, codes = np.unique(labels, return_inverse=True)
        self.rows = [np.flatnonzero(codes == k) for k in range(len(self.classes))]
        self.size = len(labels)
        self.weight = _checks.number("weight", weight, at_least=0.0)

    def __repr__(self) -> str:
        return f"TransportGroupLasso({self.size} rows in {len(self.classes)} classes)"

    def at(self, x: Array) -> GroupEvaluation:
        if x.shape[0] != self.size:
            raise ValueError(
                f"labels must have one entry for each of the {x.shape[0]} rows of the plan, got {self.size}"
            )
        return GroupEvaluation(self, x)

    def products(self, x: Array, y: Array) -> Array:
        """The sums of x * y over the rows of each class, in an array of classes by columns."""
        xp = namespace(x)
        return xp.stack([xp.sum(x[rows] * y[rows], axis=0) for rows in self.rows])


class GroupEvaluation:
    """The regulariser at a plan, from the squared norms of its groups."""

    def __init__(self, f: TransportGroupLasso, x: Array) -> None:
        self.f = f
        self.x = x

    @cached_property
    def norms(self) -> Array:
        return namespace(self.x).sqrt(self.f.products(self.x, self.x))

    @cached_property
    def value(self) -> float:
        return self.f.weight * total(self.norms)

    @property
    def gradient(self) -> Array:
        xp = namespace(self.x)
        inverse = self.f.weight / xp.where(self.norms > 0, self.norms, xp.ones_like(self.norms))
        gradient = xp.empty_like(self.x)
        for k, rows in enumerate(self.f.rows):
            gradient[rows] = self.x[rows] * inverse[k]
        return gradient

    @property
    def offset(self) -> float:
        return 0.0  # homogeneous of degree one: <gradient, G> is the value

    def magnitude(self, other: GroupEvaluation) -> float:
        return (
            other.value
        )  # the gradient in a group is a unit vector: <gradient, y> is no more than this

    def along(self, others: Sequence[GroupEvaluation], directions: Array) -> Restriction:
        linear = namespace(self.x).stack([self.f.products(self.x, d) for d in directions])
        k = directions.shape[0]
        quadratic = [
            [self.f.products(directions[i], directions[j]) for j in range(i + 1)] for i in range(k)
        ]
        return GroupRestriction(self.f.weight, self.norms**2, linear, quadratic)

    def moved(self, x: Array, others: Sequence[GroupEvaluation], a: Vector) -> GroupEvaluation:
        return GroupEvaluation(self.f, x)


class GroupRestriction:
    """a -> weight * sum of square roots of quadratics in a, one a group."""

    def __init__(
        self, weight: float, constant: Array, linear: Array, quadratic: list[list[Array]]
    ) -> None:
        xp = namespace(constant)
        k = len(quadratic)
        self.weight = weight
        self.constant = constant
        self.linear = linear
        self.quadratic = xp.stack(
            [xp.stack([quadratic[max(i, j)][min(i, j)] for j in range(k)]) for i in range(k)]
        )

    def _roots(self, a: Vector) -> tuple[Array, Array]:
        """Norms of the groups at a, and half the derivatives of their squares."""
        product = combine(a, self.quadratic)
        squares = self.constant + 2.0 * combine(a, self.linear) + combine(a, product)
        xp = namespace(squares)
        # groups far below the rest are curved sharply and weigh nothing: their norms are held off
        # zero
        return xp.sqrt(
            at_least(1e-30 * float(xp.max(squares)) + smallest(squares), squares)
        ), self.linear + product

    def value(self, a: Vector) -> float:
        return self.weight * total(self._roots(a)[0])

    def local(self, a: Vector) -> LocalModel:
        roots, half = self._roots(a)
        xp = namespace(roots)
        quotients = half / roots
        slope = xp.sum(quotients, axis=(1, 2))
        curvature = xp.sum(
            (self.quadratic - quotients[:, None] * quotients[None, :]) / roots, axis=(2, 3)
        )
        return LocalModel(
            self.weight * total(roots), self.weight * host(slope), self.weight * host(curvature)
        )
