"""g(x) = weight sum x log x on any set with an entropic argmin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad import _checks
from condgrad._arrays import Array, Vector, at_least, combine, dot, dots, gram, log_or_least, smallest
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Set, Simple, checked_set
from condgrad.restriction import Local, Restriction


@dataclass(frozen=True)
class Entropy(Simple):
    """g(x) = weight sum_i x_i log x_i (0 log 0 = 0); its oracle is a softmax or Sinkhorn's algorithm."""

    weight: float
    on: Set

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight", self.weight, above=0.0))
        checked_set(self.on).require("entropic_argmin", by="Entropy")
        if not self.on.nonnegative:
            raise MissingAbility(f"Entropy needs a set of nonnegative points; {self.on!r} has others")

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        # the second derivative weight / x is smallest at the largest entry
        largest = self.on.largest_entry
        return self.weight / largest if largest else 0.0

    def value(self, x: Array) -> float:
        return self.weight * dot(x, log_or_least(x))

    def gradient(self, x: Array) -> Array:
        # At x_i = 0 the true slope is -inf; log of the smallest number is still a slope
        # of weight x log x at 0 for every increase that a float can represent.
        return self.weight * (log_or_least(x) + 1.0)

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        return self.on.entropic_argmin(c, self.weight, warm=warm, accuracy=accuracy)

    def along(self, x: Array, directions: Array) -> Restriction:
        return EntropyRestriction(self.weight, x, directions)


class EntropyRestriction:
    """a -> weight * sum of x log x at x + sum_i a_i directions[i]."""

    def __init__(self, weight: float, x: Array, directions: Array) -> None:
        self.weight, self.x, self.directions = weight, x, directions

    def value(self, a: Vector) -> float:
        x = self.x + combine(a, self.directions)
        return self.weight * dot(x, log_or_least(x))

    def local(self, a: Vector) -> Local:
        x = self.x + combine(a, self.directions)
        log = log_or_least(x)
        # far above the smallest number, so that neither the quotient nor its sum overflows
        curvature = gram(self.directions, 1.0 / at_least(smallest(x) ** 0.75, x))
        return Local(
            self.weight * dot(x, log),
            self.weight * dots(self.directions, log + 1.0),
            self.weight * curvature,
        )
