"""CG, the conditional gradient (Frank-Wolfe): linearise both f and g.

It is CGS on the split (f + g) + 0. For this split, Lemma 2 is the classical Frank-Wolfe gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from condgrad.arrays import Array, Vector, dot, namespace
from condgrad.certificate import Iterate, Terms
from condgrad.errors import MissingAbility
from condgrad.methods.cgs import CGS
from condgrad.problem import Simple, Smooth
from condgrad.search.restriction import Restriction
from condgrad.search.steps import StepRule
from condgrad.simple import Zero


def CG(f: Smooth, g: Simple, step: StepRule, memory: int = 0) -> CGS:
    """The conditional gradient for f + g."""
    if type(g).gradient is Simple.gradient:
        raise MissingAbility(
            f"method='cg' linearises g, and {g!r} has no gradient: use method='cgs'"
        )
    if isinstance(g, Zero):
        return CGS(f, g, step, memory, name="cg")
    return LinearisedCGS(f + Linearised(g), Zero(on=g.on), step, memory, name="cg", linearised=g)


@dataclass(frozen=True)
class LinearisedCGS(CGS):
    """CGS on the split (f + g) + 0. It still knows f and g apart, because the scale of F needs
    both.
    """

    linearised: Simple = field(kw_only=True)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        for iterate in super().iterates(x):
            candidate = iterate.candidate
            if candidate is not None:
                candidate = candidate._replace(terms=self._apart(candidate.terms, candidate.point))
            yield iterate._replace(terms=self._apart(iterate.terms, iterate.x), candidate=candidate)

    def _apart(self, terms: Terms, x: Array) -> Terms:
        simple = self.linearised.value(x)
        return Terms(terms.value - simple, simple)


class Linearised(Smooth):
    """g in the role of a smooth part."""

    def __init__(self, g: Simple) -> None:
        self.g = g
        self.widens = g.widens

    @property
    def smoothness(self) -> float | None:
        return self.g.smoothness

    def at(self, x: Array) -> LinearisedEvaluation:
        return LinearisedEvaluation(self.g, x)

    def __repr__(self) -> str:
        return f"Linearised({self.g!r})"


class LinearisedEvaluation:
    def __init__(self, g: Simple, x: Array) -> None:
        self.g = g
        self.x = x

    @cached_property
    def value(self) -> float:
        return self.g.value(self.x)

    @cached_property
    def gradient(self) -> Array:
        return self.g.gradient(self.x)

    @property
    def offset(self) -> float:
        return self.value - dot(self.gradient, self.x)

    def magnitude(self, other: LinearisedEvaluation) -> float:
        size = namespace(self.x).abs
        return dot(size(self.gradient), size(other.x))

    def along(self, others: Sequence[Any], directions: Array) -> Restriction:
        return self.g.along(self.x, directions)

    def moved(self, x: Array, others: Sequence[Any], a: Vector) -> LinearisedEvaluation:
        return LinearisedEvaluation(self.g, x)
