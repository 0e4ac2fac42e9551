"""The proof in every answer: F* lies between `lower_bound` and `value`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from condgrad._arrays import Array
from condgrad.errors import ContradictionError, NotFiniteError

ROUNDING_UNITS = 4.0


def tangent_bound(offset: float, oracle_bound: float, noise: float) -> float:
    """Lemma 2 of the paper: F* >= f(x) - <c, x> + min_s [<c, s> + g(s)], c = grad f(x).

    The minimum may be replaced by any lower bound on it, which is what keeps the inequality true under
    inexact oracles. What rounding may have added is given away, so that it survives floating-point arithmetic.
    """
    return offset + oracle_bound - noise


def rounding_noise(unit: float, *terms: float) -> float:
    """A few rounding units of the terms of a bound, taken before they cancel."""
    return ROUNDING_UNITS * unit * sum(map(abs, terms))


class Candidate(NamedTuple):
    """A feasible point and F there."""

    point: Array
    value: float


class Iterate(NamedTuple):
    """What a method shows of an iteration."""

    x: Array
    value: float
    """F(x)."""
    lower_bound: float
    """A lower bound on F* proved at x."""
    gradient: Array
    """grad f(x), or None from a method that has none."""
    step: float
    """How far the last step went to reach x."""
    oracle_calls: int
    inner_iterations: int
    noise: float
    """What rounding may have done to the bound; given away there already."""
    candidate: Candidate | None = None
    """The oracle's point, where its value comes for free: the gap there is a Bregman divergence of f."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The best point and the best lower bound seen so far, and who proved each."""

    x: Array = None
    value: float = math.inf
    lower_bound: float = -math.inf
    value_from: str = "nothing yet"
    bound_from: str = "nothing yet"

    @property
    def gap(self) -> float:
        """At least F(x) - F*, always."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> float:
        return self.gap / max(1.0, abs(self.value))

    def updated(self, iterate: Iterate, k: int) -> Certificate:
        """The certificate after iteration k."""
        candidate = iterate.candidate
        if not math.isfinite(iterate.value):
            raise NotFiniteError(f"F turned {iterate.value}")
        if math.isnan(iterate.lower_bound) or iterate.lower_bound == math.inf:
            raise NotFiniteError(f"the lower bound turned {iterate.lower_bound}")
        if candidate is not None and not math.isfinite(candidate.value):
            raise NotFiniteError(f"F turned {candidate.value} at the oracle's point")
        x, value, value_from = self.x, self.value, self.value_from
        if iterate.value < value:
            x, value, value_from = iterate.x, iterate.value, f"iterate {k}"
        if candidate is not None and candidate.value < value:
            x, value, value_from = candidate.point, candidate.value, f"oracle point {k}"
        lower, bound_from = self.lower_bound, self.bound_from
        if iterate.lower_bound > lower:
            lower, bound_from = iterate.lower_bound, f"iterate {k}"
        if lower - value > 1e4 * iterate.noise:
            raise ContradictionError(
                f"at iteration {k} the lower bound {lower:.12g} exceeds a value of F, {value:.12g}: "
                "the oracle's bound or the gradient of f is wrong, or f is not convex"
            )
        # two numbers that agree to rounding may cross; the bound gives way
        return Certificate(x, value, min(lower, value), value_from, bound_from)

    def revalued(self, value: float) -> Certificate:
        """The same proof with F(x) computed afresh."""
        return replace(self, value=value, lower_bound=min(self.lower_bound, value))
