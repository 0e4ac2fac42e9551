"""f: differentiable, convex unless it says otherwise, with sums and positive multiples."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from condgrad import _checks
from condgrad.arrays import Array, Space, Vector, precision
from condgrad.search.restriction import Restriction, combined

LARGEST_MULTIPLE = 1e30
"""The largest multiple of a function of float32 data; its inverse is the smallest. Beyond these
limits the slopes have no correct digits.
"""


class Evaluation(Protocol):
    """f at a point x. Each number or array is computed when a method asks for it first."""

    @property
    def value(self) -> float:
        """f(x)."""

    @property
    def gradient(self) -> Array:
        """grad f(x). It may be as large as x, and it may be computed anew at each use: use it once."""

    @property
    def offset(self) -> float:
        """f(x) - <grad f(x), x>, the height of the tangent plane at the origin."""

    def magnitude(self, other: Any) -> float:
        """The size of the terms of <grad f(x), y> before they cancel, where y is the point of
        `other`.

        If y is x itself, it is at least the size of the terms of f(x). So the rounding error of
        f(x) is about a rounding unit times this size, or less.
        """

    def along(self, others: Sequence[Any], directions: Array) -> Restriction:
        """f at x + sum_i a_i directions[i], as a function of the numbers a. directions[i] leads
        from x to the point of others[i].
        """

    def moved(self, x: Array, others: Sequence[Any], a: Vector) -> Any:
        """The evaluation at x. x is the point of this evaluation, moved towards the points of the
        others by the fractions a.
        """


class Floor(NamedTuple):
    """What f is never below: f(x) >= height - slope |x|_1."""

    height: float
    slope: float


class Smooth(ABC):
    """A differentiable f. It is convex unless `convex` is False.

    You can add smooth parts, and multiply them by positive numbers. An f of your own implements
    `at`. It returns an `Evaluation`: the value, the gradient, and f along directions from x. Often
    `smooth.Function` is enough: it builds this from a plain function.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.LeastSquares(np.eye(2), [1.0, 2.0]) + 0.5 * cg.smooth.Linear([1.0, 1.0])
    >>> f.value_and_gradient(np.zeros(2))[0]
    2.5
    """

    space: Space | None = None
    """Shape, library and precision of the variable, if f knows them."""
    mixes: bool = True
    """Whether f at a mixture of known points takes less time than f at a new point."""
    widens: bool = True
    """Whether f may be evaluated at a float64 point if its data are float32."""
    may_overflow: bool = False
    """Whether f may overflow at points far from the origin, as exp does."""
    floor: Floor | None = None
    """A lower bound on f, if known."""
    convex: bool = True
    """Whether f is convex. If f is not convex, a run proves no lower bound. It proves how far the
    answer is from a stationary point.
    """
    has_rounded_data: bool = False
    """Whether the data of f were computed from the user's data. Then they were rounded to the
    precision of the user's data.
    """

    @abstractmethod
    def at(self, x: Array) -> Any:
        """The `Evaluation` of f at x."""

    @property
    def unit(self) -> float:
        """The rounding unit of f's data."""
        return 0.0 if self.space is None else self.space.unit

    def unit_at(self, x: Array) -> float:
        """The rounding unit of f and its gradient at x: the coarser one of x and the data.

        If f has float32 data but computes in float64 whenever x is in float64, only the rounding
        unit of x counts.
        """
        return max(precision(x), self.unit)

    @property
    def smoothness(self) -> float | None:
        """The number L with |grad f(x) - grad f(y)|_2 <= L |x - y|_2; None if not known."""
        return None

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """f(x) and grad f(x)."""
        here = self.at(x)
        return here.value, here.gradient

    @property
    def weighted_terms(self) -> tuple[tuple[float, Smooth], ...]:
        """Pairs of weights and terms that add up to f. If f is not a sum: f with the weight 1."""
        return ((1.0, self),)

    def __add__(self, other: Smooth) -> Smooth:
        if not isinstance(other, Smooth):
            return NotImplemented
        return Sum.of((1.0, self), (1.0, other))

    def __radd__(self, other: object) -> Smooth:
        return self if other == 0 else NotImplemented

    def __rmul__(self, weight: float) -> Smooth:
        return Sum.of(
            (_checks.number("the multiple of a smooth function", weight, above=0.0), self)
        )

    __mul__ = __rmul__


@dataclass(frozen=True, repr=False)
class Sum(Smooth):
    """sum_i weights[i] terms[i]."""

    weights: tuple[float, ...]
    terms: tuple[Smooth, ...]

    @classmethod
    def of(cls, *weighted: tuple[float, Smooth]) -> Sum:
        flat: list[tuple[float, Smooth]] = []
        for weight, term in weighted:
            flat += [(weight * w, t) for w, t in term.weighted_terms]
        spaces = [term.space for _, term in flat if term.space is not None]
        if len({space.shape for space in spaces}) > 1:
            shapes = ", ".join(str(space.shape) for space in spaces)
            raise ValueError(
                f"only functions of the same variable can be added, got variables of shapes {shapes}"
            )
        if len({space.library for space in spaces}) > 1:
            raise TypeError(
                "only functions with data of one library can be added, got NumPy and torch data"
            )
        for weight, term in flat:
            if (
                term.unit > sys.float_info.epsilon
                and not 1.0 / LARGEST_MULTIPLE <= weight <= LARGEST_MULTIPLE
            ):
                raise ValueError(
                    f"a multiple of a function of float32 data must be between {1.0 / LARGEST_MULTIPLE:g} and "
                    f"{LARGEST_MULTIPLE:g}, got {weight:g} * {term!r}: give float64 data for others"
                )
        return cls(tuple(w for w, _ in flat), tuple(t for _, t in flat))

    @property
    def weighted_terms(self) -> tuple[tuple[float, Smooth], ...]:
        return tuple(zip(self.weights, self.terms, strict=True))

    def __repr__(self) -> str:
        pairs = self.weighted_terms
        return " + ".join(repr(t) if w == 1.0 else f"{w:g} * {t!r}" for w, t in pairs)

    @property
    def space(self) -> Space | None:  # type: ignore[override]
        spaces = [term.space for term in self.terms if term.space is not None]
        return min(spaces, key=lambda space: space.unit, default=None)

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return all(term.mixes for term in self.terms)

    @property
    def unit(self) -> float:
        return max(term.unit for term in self.terms)

    def unit_at(self, x: Array) -> float:
        return max(term.unit_at(x) for term in self.terms)

    @property
    def widens(self) -> bool:  # type: ignore[override]
        return all(term.widens for term in self.terms)

    @property
    def may_overflow(self) -> bool:  # type: ignore[override]
        return any(term.may_overflow for term in self.terms)

    @property
    def floor(self) -> Floor | None:  # type: ignore[override]
        height = 0.0
        slope = 0.0
        for weight, term in zip(self.weights, self.terms, strict=True):
            if term.floor is None:
                return None
            height += weight * term.floor.height
            slope += weight * term.floor.slope
        return Floor(height, slope)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return all(term.convex for term in self.terms)

    @property
    def has_rounded_data(self) -> bool:  # type: ignore[override]
        return any(term.has_rounded_data for term in self.terms)

    @property
    def smoothness(self) -> float | None:
        total = 0.0
        for weight, term in zip(self.weights, self.terms, strict=True):
            if term.smoothness is None:
                return None
            total += weight * term.smoothness
        return total

    def at(self, x: Array) -> SumEvaluation:
        return SumEvaluation(self.weights, [term.at(x) for term in self.terms])


class SumEvaluation:
    """A sum at a point, from its terms there."""

    def __init__(self, weights: tuple[float, ...], terms: list[Any]) -> None:
        self.weights = weights
        self.terms = terms

    @cached_property
    def value(self) -> float:
        return sum(w * term.value for w, term in zip(self.weights, self.terms, strict=True))

    @property
    def gradient(self) -> Array:
        scaled = (
            term.gradient if w == 1.0 else w * term.gradient
            for w, term in zip(self.weights, self.terms, strict=True)
        )
        return sum(scaled, start=next(scaled))

    @cached_property
    def offset(self) -> float:
        return sum(w * term.offset for w, term in zip(self.weights, self.terms, strict=True))

    def magnitude(self, other: SumEvaluation) -> float:
        pairs = zip(self.terms, other.terms, strict=True)
        return sum(
            w * mine.magnitude(its) for w, (mine, its) in zip(self.weights, pairs, strict=True)
        )

    def sensitivity(self, a: Array, b: Array, error: float) -> float:
        """As in `TransportCostEvaluation`, of functions of a streamed plan."""
        return sum(
            w * term.sensitivity(a, b, error)
            for w, term in zip(self.weights, self.terms, strict=True)
        )

    def along(self, others: Sequence[SumEvaluation], directions: Array) -> Restriction:
        terms = [
            term.along([other.terms[i] for other in others], directions)
            for i, term in enumerate(self.terms)
        ]
        return combined(self.weights, terms)

    def moved(self, x: Array, others: Sequence[SumEvaluation], a: Vector) -> SumEvaluation:
        terms = [
            term.moved(x, [other.terms[i] for other in others], a)
            for i, term in enumerate(self.terms)
        ]
        return SumEvaluation(self.weights, terms)
