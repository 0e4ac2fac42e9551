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

__all__ = ["FixedPoint", "RelativeGap", "RelativeStationarity", "StopRule"]


class StopRule(Protocol):
    """A rule that ends a run as converged, as soon as its measure is at most its tolerance.

    `name` says what it measures; messages use it. The measure is computed at every iterate, from
    the iterate and the certificate so far.

    Examples
    --------
    A rule of your own, which asks for an absolute gap:

    >>> from dataclasses import dataclass
    >>> import condgrad as cg
    >>> @dataclass(frozen=True)
    ... class AbsoluteGap:
    ...     tolerance: float
    ...     name = "gap"
    ...     def measure(self, iterate, certificate, g):
    ...         return certificate.gap
    ...     def answer(self, iterate, certificate, k):
    ...         return certificate
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), stop=AbsoluteGap(0.1))
    >>> r.success, r.gap <= 0.1
    (True, True)
    """

    @property
    def tolerance(self) -> float:
        """The number that the measure is compared with."""

    @property
    def name(self) -> str:
        """The measure in words."""

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        """The number that must fall to the tolerance."""

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        """The answer, with its proof, when the rule is met at iteration k."""


@dataclass(frozen=True)
class RelativeGap:
    """Stop when gap / scale <= tolerance, for the best value and the best bound so far.

    `tol` of `minimize` means this rule.

    Parameters
    ----------
    tolerance : float
        At least 0. For the scale see `Result.scale`.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> cg.minimize(f, g, stop=cg.stopping.RelativeGap(1e-4)).relative_gap <= 1e-4
    True
    """

    tolerance: float
    name = "gap / scale of F"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.number("tol", self.tolerance, at_least=0.0))

    def of(self, certificate: Certificate) -> float:
        """gap / scale."""
        return certificate.relative_gap

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        """gap / scale. It does not depend on the iterate."""
        return self.of(certificate)

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        """The best point and the best bound."""
        return certificate


@dataclass(frozen=True)
class RelativeStationarity(RelativeGap):
    """Stop when stationarity gap / scale <= tolerance, for the best point so far.

    `tol` of `minimize` means this rule if f is not convex.

    Parameters
    ----------
    tolerance : float
        At least 0. For the scale see `Result.scale`.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.Function(lambda x: (-x @ x, -2.0 * x), convex=False)
    >>> r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(2)), stop=cg.stopping.RelativeStationarity(1e-4))
    >>> r.success, r.stationarity <= 1e-4 * r.scale
    (True, True)
    """

    name = "stationarity gap / scale of F"

    def of(self, certificate: Certificate) -> float:
        """stationarity / scale."""
        return certificate.relative_stationarity


@dataclass(frozen=True)
class FixedPoint:
    """Stop when |P(x - grad F(x)) - x|_inf <= tolerance at the iterate x.

    P is the projection onto the set. The paper's elastic-net experiments use this rule. The rule
    takes one extra projection in each iteration. The set needs `project`, and g needs a gradient.
    The answer is the iterate that met the rule.

    Parameters
    ----------
    tolerance : float
        At least 0, in the units of x.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> cg.minimize(f, g, stop=cg.stopping.FixedPoint(1e-5)).success
    True
    """

    tolerance: float
    name = "fixed-point residual"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "tolerance", _checks.number("tolerance", self.tolerance, at_least=0.0)
        )

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        """|P(x - grad F(x)) - x|_inf."""
        if iterate.gradient is None and iterate.lower_bound == -math.inf:
            return math.inf  # there was no time left for a gradient
        if iterate.gradient is None:
            raise MissingAbility(
                "stopping.FixedPoint needs a method that computes gradients of f, such as 'cgs'"
            )
        x = iterate.x
        xp = namespace(iterate.x)
        gradient = iterate.gradient + g.gradient(x)
        return float(xp.max(xp.abs(g.on.project(x - gradient) - x)))

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        """The iterate that met the rule. It comes with the best bound, or if f is not convex, with
        its own stationarity gap.
        """
        met = replace(certificate, x=iterate.x, terms=iterate.terms, value_from=f"iterate {k}")
        if certificate.stationarity is None:
            return met
        return replace(met, stationarity=iterate.value - iterate.lower_bound)
