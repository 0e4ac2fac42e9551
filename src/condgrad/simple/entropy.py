"""g(x) = weight sum x log x on any set with an entropic argmin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Vector,
    at_least,
    combine,
    dot,
    dots,
    gram,
    is_formed,
    log_or_least,
    namespace,
    row_blocks,
    smallest,
    total,
)
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Set, Simple, checked_set
from condgrad.search.restriction import LocalModel, Restriction


@dataclass(frozen=True)
class Entropy(Simple):
    """g(x) = weight sum_i x_i log x_i, with 0 log 0 = 0.

    On `Simplex`, the point that minimises <c, s> + g(s) is a softmax. On `Transport`, Sinkhorn's
    algorithm finds it.

    Parameters
    ----------
    weight : float
        Above 0.
    on : Set
        A set of nonnegative points that has `entropic_argmin`, such as `Simplex`, `Box` or
        `Transport`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> g = cg.simple.Entropy(0.5, on=cg.sets.Simplex(2))
    >>> np.round(g.argmin(np.array([0.0, 1.0])).point, 3).tolist()
    [0.881, 0.119]
    """

    weight: float
    on: Set

    def __post_init__(self) -> None:
        _checks.hold_number(self, "weight", above=0.0)
        checked_set(self.on).require("entropic_argmin", by="Entropy")
        if not self.on.nonnegative:
            raise MissingAbility(
                f"Entropy needs a set of nonnegative points; {self.on!r} has others"
            )

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        # the second derivative weight / x is smallest at the largest entry
        largest = self.on.largest_entry
        return self.weight / largest if largest else 0.0

    @property
    def smoothness(self) -> float | None:  # type: ignore[override]
        """weight / (the smallest entry of the set), if this entry is above 0."""
        # and largest at the smallest
        least = self.on.smallest_entry
        return self.weight / least if least > 0.0 else None

    def value(self, x: Array) -> float:
        return self.weight * negentropy(x)

    def magnitude(self, x: Array, value: float) -> float:
        # sum x (|log x| + 1) is what one rounding unit in x does. Where no entry is above 1, sum x
        # |log x| is -sum x log x; else entries above 1 are counted twice, by no more than the log
        # of the largest.
        above = max(0.0, math.log(self.on.largest_entry)) if self.on.largest_entry else math.inf
        if above == math.inf:
            xp = namespace(x)
            return self.weight * total(x * (xp.abs(log_or_least(x)) + 1.0))
        return abs(value) + self.weight * total(x) * (1.0 + 2.0 * above)

    @property
    def has_gradient(self) -> bool:
        return self.on.smallest_entry > 0.0

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
        self.weight = weight
        self.x = x
        self.directions = directions

    def value(self, a: Vector) -> float:
        return self.weight * sum(negentropy(x) for x, _ in self._blocks(a))

    def local(self, a: Vector) -> LocalModel:
        k = len(a)
        value = 0.0
        slope = np.zeros(k)
        curvature = np.zeros((k, k))
        # far above the smallest number, so that neither a quotient nor its sum overflows
        least = smallest(self.x) ** 0.75
        for x, directions in self._blocks(a):
            safe = at_least(least, x)
            log = namespace(x).log(safe)
            value += dot(x, log)
            slope += dots(directions, log + 1.0)
            curvature += gram(directions, 1.0 / safe)
        return LocalModel(self.weight * value, self.weight * slope, self.weight * curvature)

    def _blocks(self, a: Vector) -> Iterator[tuple[Array, Array]]:
        """The point at a and the directions, a few rows at a time."""
        for rows in row_blocks(self.x):
            directions = self.directions[:, rows]
            yield self.x[rows] + combine(a, directions), directions


def negentropy(x: Array) -> float:
    """sum x log x."""
    if not is_formed(x):
        return x.negentropy
    return sum(dot(x[rows], log_or_least(x[rows])) for rows in row_blocks(x))
