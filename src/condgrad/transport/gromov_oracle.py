"""The entropic oracle for plans that are never formed, by Newton's method on its dual.

Near a stationary plan the oracle must be accurate. At an entropy of a hundredth of the costs and
2000 points Sinkhorn's iteration then took 2000 passes over all pairs and was not there; Newton's
method took 90 to 180.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad.certificate import Certificate, Iterate
from condgrad.minimize import minimize
from condgrad.problem import Answer, Simple
from condgrad.simple import Entropy
from condgrad.smooth import TransportCost


@dataclass(frozen=True)
class AbsoluteGap:
    """gap <= tolerance: what an oracle is asked for."""

    tolerance: float
    name = "gap"

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        return certificate.gap

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        return certificate


@dataclass(frozen=True)
class EntropyByNewton(Entropy):
    """weight sum G log G on streamed plans, whose oracle goes on from the plan of the last answer."""

    def argmin(self, c: Any, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        linear = minimize(
            TransportCost(c),
            Entropy(self.weight, on=self.on),
            warm,
            method="newton",
            stop=AbsoluteGap(accuracy),
        ).uninterrupted()
        inner = int(linear.trace["inner_iterations"][-1])
        value = self.value(linear.x)
        return Answer(
            linear.x, linear.lower_bound, value, inner, linear.x, linear.certificate.scale
        )
