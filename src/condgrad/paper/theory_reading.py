"""What the curves of the theory say: F(x_k) - F* against a certified F*, and how it stands to the bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from condgrad.paper.pieces import Curve
from condgrad.paper.reading import Numbers, best_known
from condgrad.paper.theory_problems import KINDS


@dataclass(frozen=True)
class Rate:
    """A run of CGS and the F* that is known of its problem."""

    curve: Curve
    problem: str
    optimum: float
    slack: float
    """F* is at most so much below `optimum`."""

    @property
    def step(self) -> str:
        return str(self.curve.facts["step"])

    @cached_property
    def k(self) -> Numbers:
        return np.asarray(self.curve.columns["iteration"], dtype=float)

    @cached_property
    def h(self) -> Numbers:
        """F(x_k) - F*."""
        return np.asarray(self.curve.columns["value"], dtype=float) - self.optimum

    @property
    def floor(self) -> float:
        """Below this h is rounding."""
        return max(1e2 * self.slack, 1e-11 * max(1.0, abs(self.optimum)))

    @cached_property
    def bound(self) -> Numbers:
        """2 C_f / (k + 2)."""
        return 2.0 * float(self.curve.facts["curvature"]) / (self.k + 2.0)

    @property
    def contraction(self) -> float:
        """The L/(L + mu) of the problem, 1 where there is none."""
        return float(self.curve.facts["contraction"])

    @cached_property
    def linear_bound(self) -> Numbers:
        """h_0 (L/(L + mu))^k."""
        return self.h[0] * self.contraction**self.k

    @property
    def share(self) -> float:
        """The largest h_k / (2 C_f/(k + 2)) over k >= 1: at most 1 where the theorem holds."""
        return float(((self.h + self.slack) / self.bound)[1:].max(initial=-math.inf))

    @cached_property
    def clear(self) -> NDArray[np.bool_]:
        """Where h_k and so its successor's share of it is known."""
        return self.h[:-1] > self.floor

    @cached_property
    def contractions(self) -> Numbers:
        """h_{k+1} / h_k above rounding."""
        return np.asarray(self.h[1:][self.clear] / self.h[:-1][self.clear])

    @property
    def worst_contraction(self) -> float:
        return float(self.contractions.max(initial=0.0))

    @property
    def power(self) -> float:
        """p of h_k ~ k^-p over the second half of the run; NaN where too little of it is known."""
        tail = (self.k >= max(2.0, 0.5 * self.k[-1])) & (self.h > self.floor)
        if tail.sum() < 2:
            return math.nan
        return -float(np.polyfit(np.log(self.k[tail]), np.log(self.h[tail]), 1)[0])


def rates(curves: Sequence[Curve]) -> list[Rate]:
    """The runs of CGS, each with the best that all runs of its problem know of F*."""
    found: list[Rate] = []
    for problem in KINDS:
        drawn = [curve for curve in curves if curve.problem == problem and curve.columns.get("value")]
        for seed in sorted({curve.seed for curve in drawn}):
            same = [curve for curve in drawn if curve.seed == seed]
            optimum, slack = _optimum(same)
            found += [Rate(curve, problem, optimum, slack) for curve in same if curve.solver != "newton"]
    return found


def _optimum(curves: Sequence[Curve]) -> tuple[float, float]:
    """F* and how far it may be below: the closed form, or the best value and the best bound of all runs."""
    exact = curves[0].facts.get("optimum")
    if exact is not None:
        return float(exact), 1e-16
    value, bound = best_known(curves)
    return value, max(value - bound, 1e-16)
