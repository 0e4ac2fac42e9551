"""f as h(Kx) + <tilt, x>: what is left of a sum once multiples and linear terms are folded in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condgrad.arrays import Array, double, is_torch
from condgrad.errors import MissingAbility
from condgrad.problem import Smooth, Sum, SumEvaluation
from condgrad.smooth.composite import (
    AtBestIntercept,
    Composite,
    CompositeEvaluation,
    Separable,
    is_at_hand,
)
from condgrad.smooth.linear import Linear


@dataclass(frozen=True)
class ScaledLoss:
    """weight h(z)."""

    weight: float
    h: Separable

    @property
    def quadratic(self) -> bool:
        return self.h.quadratic

    @property
    def has_intercept(self) -> bool:
        return self.h.has_intercept

    def at_best_intercept(self, z: Array, *, near: Any = None) -> AtBestIntercept:
        return self.scaled(self.h.at_best_intercept(z, near=near))

    def scaled(self, best: AtBestIntercept) -> AtBestIntercept:
        """What h is at some point, multiplied."""
        return AtBestIntercept(self.weight * best.value, self.weight * best.theta, best.intercept)

    def unscaled(self, best: AtBestIntercept) -> AtBestIntercept:
        """What h itself is where weight h is this."""
        return AtBestIntercept(best.value / self.weight, best.theta / self.weight, best.intercept)

    def curvature(self, z: Array, *, intercept: Any = None) -> Array:
        return self.weight * self.h.curvature(z, intercept=intercept)


@dataclass(frozen=True)
class FoldedLoss:
    """h(Kx) + <tilt, x>."""

    composite: Composite
    """The h(Kx), not multiplied."""
    h: Separable | ScaledLoss
    tilt: Array | None
    place: int | None
    """Which term of the sum has the h; None where f is no sum."""

    @classmethod
    def of(cls, f: Smooth) -> FoldedLoss:
        """What f is made of, or a sentence that says what is not to be folded."""
        if is_at_hand(f):
            return cls(f, f.h, None, None)
        if not isinstance(f, Sum):
            raise MissingAbility(
                f"{f!r} is not a loss h(Kx) on data, such as LeastSquares or Logistic"
            )
        composites = [i for i, term in enumerate(f.terms) if is_at_hand(term)]
        others = [term for term in f.terms if not (is_at_hand(term) or isinstance(term, Linear))]
        if len(composites) != 1 or others:
            raise MissingAbility(
                f"{f!r} is not a multiple of one loss h(Kx) on data, such as LeastSquares or Logistic, plus "
                "multiples of Linear"
            )
        place = composites[0]
        loss: Any = f.terms[place]
        weight = f.weights[place]
        tilt = None
        for w, term in zip(f.weights, f.terms, strict=True):
            if isinstance(term, Linear):
                tilt = w * double(term.C) if tilt is None else tilt + w * double(term.C)
        return cls(loss, loss.h if weight == 1.0 else ScaledLoss(weight, loss.h), tilt, place)

    @cached_property
    def on_host(self) -> Any:
        """h of margins on the host."""
        if not is_torch(self.composite.K):
            return self.h
        plain = self.composite.h.on_host()  # type: ignore[attr-defined]
        return ScaledLoss(self.h.weight, plain) if isinstance(self.h, ScaledLoss) else plain

    @property
    def free(self) -> Array | None:
        """The columns that are minimised out; that of an intercept alone is one row."""
        if self.composite.unpenalised is not None:
            return self.composite.h.free  # type: ignore[attr-defined]
        return np.ones((1, 1)) if self.h.has_intercept else None

    @property
    def weight(self) -> float:
        """What h(Kx) is multiplied by."""
        return self.h.weight if isinstance(self.h, ScaledLoss) else 1.0

    def loss_at(self, evaluation: Any) -> CompositeEvaluation:
        """The part of an evaluation of f that is h(Kx), not multiplied."""
        return evaluation if self.place is None else evaluation.terms[self.place]

    def at_best(self, evaluation: Any) -> AtBestIntercept:
        """h at its best intercept, from an evaluation of f."""
        best = self.loss_at(evaluation).at_best
        return self.h.scaled(best) if isinstance(self.h, ScaledLoss) else best

    def evaluation(self, f: Smooth, x: Array, u: Array, best: AtBestIntercept) -> Any:
        """f at x from u = K x and h there."""
        best = self.h.unscaled(best) if isinstance(self.h, ScaledLoss) else best
        here = CompositeEvaluation.known(self.composite, x, u, best)
        if not isinstance(f, Sum):
            return here
        return SumEvaluation(
            f.weights, [here if i == self.place else term.at(x) for i, term in enumerate(f.terms)]
        )
