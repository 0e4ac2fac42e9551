"""When to stop: the rules that may call a run converged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from condgrad import _checks
from condgrad.arrays import namespace
from condgrad.certificate import Certificate, Iterate
from condgrad.errors import MissingAbility
from condgrad.problem import Simple


class StopRule(Protocol):
    """Converged once the measure is within the tolerance."""

    @property
    def tolerance(self) -> float: ...

    @property
    def name(self) -> str: ...

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float: ...

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        """What the rule proved, once met at iteration k."""


@dataclass(frozen=True)
class RelativeGap:
    """gap / scale <= tolerance, by the best value and the best bound so far; `certificate` says what the scale is."""

    tolerance: float
    name = "gap / scale of F"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.number("tol", self.tolerance, at_least=0.0))

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        return certificate.relative_gap

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        return certificate


@dataclass(frozen=True)
class FixedPoint:
    """|P(x - grad F(x)) - x|_inf <= tolerance at the iterate x, as in the paper's elastic-net experiments.

    It asks for one extra projection an iteration, so the set needs `project` and g a gradient. When it is met,
    the answer is the iterate that met it.
    """

    tolerance: float
    name = "fixed-point residual"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.number("tolerance", self.tolerance, at_least=0.0))

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        if iterate.gradient is None and iterate.lower_bound == -math.inf:
            return math.inf  # there was no time left for a gradient
        if iterate.gradient is None:
            raise MissingAbility("stopping.FixedPoint needs a method that computes gradients of f, such as 'cgs'")
        x, xp = iterate.x, namespace(iterate.x)
        gradient = iterate.gradient + g.gradient(x)
        return float(xp.max(xp.abs(g.on.project(x - gradient) - x)))

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        return replace(certificate, x=iterate.x, terms=iterate.terms, value_from=f"iterate {k}")
