"""A function seen from a point along a few directions: a -> F(x + sum_i a_i d_i).

One direction is a line search; several are the corrective memory. Each part of F knows how to
restrict itself cheaply, and restrictions add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from condgrad.arrays import Array, Vector, combine, dot


class LocalModel(NamedTuple):
    """Value, slope and curvature at one a; None stands for what nobody knows."""

    value: float
    slope: Vector | None
    curvature: Any | None


class Restriction(Protocol):
    def value(self, a: Vector) -> float: ...

    def local(self, a: Vector) -> LocalModel: ...


@dataclass(frozen=True, slots=True)
class Quadratic:
    """A restriction known once and for all: constant + <slope, a> + <a, curvature a>/2."""

    constant: float
    slope: Vector
    curvature: Any

    def value(self, a: Vector) -> float:
        return float(self.constant + a @ (self.slope + 0.5 * (self.curvature @ a)))

    def local(self, a: Vector) -> LocalModel:
        product = self.curvature @ a
        return LocalModel(
            float(self.constant + a @ (self.slope + 0.5 * product)),
            self.slope + product,
            self.curvature,
        )


@dataclass(slots=True)
class RestrictionByCalls:
    """A restriction known by calls alone, whose curvature nobody knows."""

    value_at: Callable[[Array], float]
    both_at: Callable[[Array], tuple[float, Array | None]]
    """Value and gradient; None for a gradient that nobody knows."""
    x: Array
    directions: Array
    calls: int = 0

    def value(self, a: Vector) -> float:
        self.calls += 1
        return self.value_at(self.x + combine(a, self.directions))

    def local(self, a: Vector) -> LocalModel:
        self.calls += 1
        value, gradient = self.both_at(self.x + combine(a, self.directions))
        slope = None if gradient is None else np.array([dot(gradient, d) for d in self.directions])
        return LocalModel(value, slope, None)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A positive combination of restrictions that are not all quadratic."""

    weights: Sequence[float]
    terms: Sequence[Restriction]

    def value(self, a: Vector) -> float:
        return sum(w * term.value(a) for w, term in zip(self.weights, self.terms, strict=True))

    def local(self, a: Vector) -> LocalModel:
        here = [term.local(a) for term in self.terms]
        return LocalModel(
            self._sum([term.value for term in here]),
            self._sum([term.slope for term in here]),
            self._sum([term.curvature for term in here]),
        )

    def _sum(self, parts: Sequence[Any]) -> Any:
        if any(part is None for part in parts):
            return None
        return sum(w * part for w, part in zip(self.weights, parts, strict=True))


def calls_made(restriction: Restriction) -> int:
    """How often a restriction had to compute its function afresh; 0 for one that is known in closed
    form.
    """
    if isinstance(restriction, Weighted):
        return max(map(calls_made, restriction.terms), default=0)
    return restriction.calls if isinstance(restriction, RestrictionByCalls) else 0


def combined(weights: Sequence[float], terms: Sequence[Restriction]) -> Restriction:
    """sum_i weights[i] terms[i], quadratic if all terms are."""
    quadratics = [term for term in terms if isinstance(term, Quadratic)]
    if len(quadratics) < len(terms):
        return Weighted(weights, terms)
    pairs = list(zip(weights, quadratics, strict=True))
    return Quadratic(
        sum(w * q.constant for w, q in pairs),
        sum((w * q.slope for w, q in pairs), start=np.zeros(1)),
        sum(w * q.curvature for w, q in pairs),
    )
