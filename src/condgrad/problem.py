"""What f, g and P are: minimise F(x) = f(x) + g(x) over a compact convex set P.

- `Smooth` is f. Asked for a point it gives an `Evaluation`: value, gradient, and how f goes on from there.
- `Set` is P. It owns its geometry and says what it can do.
- `Simple` is g, which lives *on* a set and solves the partially linearised problem there, with a proof.

Writing your own f, g or P means writing one of these; `smooth.Function` and `simple.Oracle` wrap plain callables.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from condgrad import _checks
from condgrad._arrays import Array, Space, Vector, dot, namespace
from condgrad.errors import MissingAbility
from condgrad.restriction import Restriction, combined


class Answer(NamedTuple):
    """An oracle's answer to `min <c, s> + g(s), s in P`: a feasible point and a proof of how good it is."""

    point: Array
    bound: float
    """A lower bound on the minimum; equal to the point's own value when the oracle is exact."""
    value: float | None = None
    """g(point), if the oracle knows it."""
    inner_iterations: int = 0
    warm: Any = None
    """What the next call may start from."""
    magnitude: float = 0.0
    """The size of the bound's own terms before they cancel, beyond those of <c, point>; what rounding may spoil."""


def linear_answer(answer: Any, c: Array) -> Answer:
    """What a set's `linear_argmin` returned; a point alone is taken to be exact."""
    return answer if isinstance(answer, Answer) else Answer(answer, dot(c, answer), value=0.0)


class Face(NamedTuple):
    """A point of a polyhedral set and the face that has it in its inside.

    Near the point the face is {point + d : d = 0 but at `active`, <normal, d[active]> = 0}; a projection onto the set
    has the derivative I - normal normal'/|normal|^2 on these coordinates.
    """

    point: Array
    active: Array
    """Indices of the coordinates that are free to move."""
    normal: Array | None
    """What the free coordinates must stay orthogonal to, if to anything."""

    def same_as(self, other: Face) -> bool:
        """Whether both are the same face, wherever their points are."""
        xp = namespace(self.active)
        if (self.normal is None) != (other.normal is None) or self.active.shape != other.active.shape:
            return False
        alike = bool(xp.all(self.active == other.active))
        return alike and (self.normal is None or bool(xp.all(self.normal == other.normal)))


class Evaluation(Protocol):
    """f at a point x: everything the methods ask, each computed when first asked for."""

    @property
    def value(self) -> float:
        """f(x)."""

    @property
    def gradient(self) -> Array:
        """grad f(x), which may be as large as x and computed anew each time: ask once."""

    @property
    def offset(self) -> float:
        """f(x) - <grad f(x), x>, the height of the tangent plane at the origin."""

    def magnitude(self, other: Any) -> float:
        """The size of the terms of <grad f(x), y> before they cancel, for y the point of `other`.

        It covers those of f(x) as well, for `other` at x itself: a rounding unit in them is one of f(x).
        """

    def along(self, others: Sequence[Any], directions: Array) -> Restriction:
        """f restricted to x + sum_i a_i directions[i], directions[i] leading to others[i]."""

    def moved(self, x: Array, others: Sequence[Any], a: Vector) -> Any:
        """The evaluation at x, which is this point moved by the fractions a towards the others."""


class Smooth(ABC):
    """f: convex and differentiable."""

    space: Space | None = None
    """Shape and kind of the variable, if f knows it."""
    mixes: bool = True
    """Whether f between known points costs less than f at a new point."""
    widens: bool = True
    """Whether f may be asked at a float64 point where its data is float32."""

    @abstractmethod
    def at(self, x: Array) -> Any:
        """The `Evaluation` of f at x."""

    @property
    def unit(self) -> float:
        """The rounding unit of f's data."""
        return 0.0 if self.space is None else self.space.unit

    @property
    def smoothness(self) -> float | None:
        """L with |grad f(x) - grad f(y)|_2 <= L |x - y|_2, if known."""
        return None

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        here = self.at(x)
        return here.value, here.gradient

    def __add__(self, other: Smooth) -> Smooth:
        if not isinstance(other, Smooth):
            return NotImplemented
        return Sum.of((1.0, self), (1.0, other))

    def __radd__(self, other: object) -> Smooth:
        return self if other == 0 else NotImplemented

    def __rmul__(self, weight: float) -> Smooth:
        return Sum.of((_checks.number("the multiple of a smooth function", weight, above=0.0), self))

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
            if isinstance(term, Sum):
                flat += [(weight * w, t) for w, t in zip(term.weights, term.terms, strict=True)]
            else:
                flat.append((weight, term))
        spaces = [term.space for _, term in flat if term.space is not None]
        if len({space.shape for space in spaces}) > 1:
            shapes = ", ".join(str(space.shape) for space in spaces)
            raise ValueError(f"only functions of one variable add up, got variables of shapes {shapes}")
        if len({space.library for space in spaces}) > 1:
            raise TypeError("only functions of one library add up, got NumPy and torch data")
        return cls(tuple(w for w, _ in flat), tuple(t for _, t in flat))

    def __repr__(self) -> str:
        pairs = zip(self.weights, self.terms, strict=True)
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

    @property
    def widens(self) -> bool:  # type: ignore[override]
        return all(term.widens for term in self.terms)

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
        self.weights, self.terms = weights, terms

    @cached_property
    def value(self) -> float:
        return sum(w * term.value for w, term in zip(self.weights, self.terms, strict=True))

    @property
    def gradient(self) -> Array:
        scaled = (
            term.gradient if w == 1.0 else w * term.gradient for w, term in zip(self.weights, self.terms, strict=True)
        )
        return sum(scaled, start=next(scaled))

    @cached_property
    def offset(self) -> float:
        return sum(w * term.offset for w, term in zip(self.weights, self.terms, strict=True))

    def magnitude(self, other: SumEvaluation) -> float:
        pairs = zip(self.terms, other.terms, strict=True)
        return sum(w * mine.magnitude(its) for w, (mine, its) in zip(self.weights, pairs, strict=True))

    def along(self, others: Sequence[SumEvaluation], directions: Array) -> Restriction:
        terms = [term.along([other.terms[i] for other in others], directions) for i, term in enumerate(self.terms)]
        return combined(self.weights, terms)

    def moved(self, x: Array, others: Sequence[SumEvaluation], a: Vector) -> SumEvaluation:
        terms = [term.moved(x, [other.terms[i] for other in others], a) for i, term in enumerate(self.terms)]
        return SumEvaluation(self.weights, terms)


class Set(ABC):
    """P: compact and convex. It can do some of `project`, `linear_argmin`, `entropic_argmin`."""

    space: Space | None = None
    """Shape and kind of its points, if the set knows."""
    shape: tuple[int, ...] | None = None
    """Shape of its points, if the set knows."""
    scale: float = 1.0
    """The size of the set, against which a violation is judged."""
    largest_entry: float | None = None
    """A bound on every entry of every point, if known."""
    smallest_entry: float = -math.inf
    """A number that no entry of any point is below, if known."""
    nonnegative: bool = False
    """Whether all its points are."""
    solid: bool = False
    """Whether shrinking some coordinates of a point towards zero stays inside."""
    spectrally_solid: bool = False
    """Whether shrinking some singular values of a point stays inside."""

    @property
    def projection_rounding(self) -> float:
        """How large the numbers are whose rounding a projection leaves in every entry; 0 for one that leaves none.

        A projection about a centre far from 0 rounds in units of the centre, not of the entries that come out.
        """
        return self.scale

    @abstractmethod
    def start(self, space: Space) -> Array:
        """A point of the set, in its relative interior where there is one."""

    def null_point(self, space: Space) -> Array:
        """The point nearest to the origin, or the start where there is no projection: what gaps are measured by."""
        return self.project(space.full(0.0)) if "project" in self.abilities else self.start(space)

    @abstractmethod
    def violation(self, x: Array) -> float:
        """0 for points of the set, positive and growing outside."""

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Membership, up to `tolerance` times the size of the set."""
        return self.violation(x) <= tolerance * self.scale

    def project(self, x: Array) -> Array:
        """The Euclidean projection of x."""
        raise self.lacks("project")

    def face(self, v: Array) -> Face:
        """The projection of v, and the face of the set that has it inside: the derivative of a projection."""
        raise MissingAbility(f"{self!r} has no faces; L1Ball, Simplex and Box do")

    def reach(self, x: Array, d: Array) -> float:
        """The largest a with x + a d in the set, for x in the set and d along a face that `face` named."""
        raise MissingAbility(f"{self!r} has no faces; L1Ball, Simplex and Box do")

    def linear_argmin(self, c: Array) -> Answer:
        """argmin <c, s> over the set; a set of your own may return the point alone, which is then taken to be exact."""
        raise self.lacks("linear_argmin")

    def entropic_argmin(self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        """argmin <c, s> + weight * sum s log s over the set."""
        raise self.lacks("entropic_argmin")

    @property
    def abilities(self) -> tuple[str, ...]:
        """Which of the three argmins this set has."""
        names = ("project", "linear_argmin", "entropic_argmin")
        return tuple(name for name in names if getattr(type(self), name) is not getattr(Set, name))

    def lacks(self, ability: str) -> MissingAbility:
        return MissingAbility(f"{self!r} has no {ability}; it has {', '.join(self.abilities) or 'none of them'}")

    def require(self, ability: str, *, by: str) -> None:
        """Refuse the role early if the ability is missing."""
        if ability not in self.abilities:
            raise MissingAbility(f"{by} needs a set with {ability}: {self.lacks(ability)}")


def checked_set(on: Any) -> Set:
    """`on`, if it is a set."""
    if not isinstance(on, Set):
        raise TypeError(f"on must be a set such as condgrad.sets.L1Ball(1.0), got {on!r}")
    return on


class Simple(ABC):
    """g: convex, and simple together with the set it lives on."""

    on: Set
    widens: bool = True
    """Whether g may be asked at a float64 point in a float32 run."""
    strong_convexity: float = 0.0
    """mu with g(y) >= g(x) + <g'(x), y - x> + mu/2 |y - x|_2^2 on the set."""
    smoothness: float | None = None
    """The Lipschitz constant of its gradient, if it has one."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """g(x)."""

    def magnitude(self, x: Array, value: float) -> float:
        """The size of the terms of g(x) = value before they cancel, and of what rounding in x does to them."""
        return abs(value)

    @abstractmethod
    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        """The partially linearised oracle: a point of `on` and a lower bound for min <c, s> + g(s).

        `warm` is the `warm` of an earlier answer; `accuracy` is how far the point may be from the bound.
        Exact oracles ignore both.
        """

    @abstractmethod
    def along(self, x: Array, directions: Array) -> Restriction:
        """g restricted to x + sum_i a_i directions[i]."""

    @property
    def has_gradient(self) -> bool:
        """Whether g has a gradient that is finite on the set."""
        return type(self).gradient is not Simple.gradient

    def gradient(self, x: Array) -> Array:
        """grad g(x), for methods that linearise g."""
        raise MissingAbility(f"{self!r} has no gradient; method='cgs' does not need one")
