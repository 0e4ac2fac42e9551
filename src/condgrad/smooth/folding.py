"""A sum of one loss and of linear terms, written as weight h(Kx) + <tilt, x>.

The tilt is the sum of all linear terms. A loss alone does not need this form: `Composite` has the
same methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from condgrad.arrays import Array, double
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
    """weight h(Kx) + <tilt, x>."""

    f: Sum
    place: int
    """Which of its terms has the h."""
    composite: Composite
    """That term, not multiplied."""
    h: ScaledLoss
    tilt: Array | None

    @classmethod
    def of(cls, f: Smooth) -> FoldedLoss:
        """What f is made of, or a sentence that says what is not to be folded."""
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
        tilt = None
        for w, term in zip(f.weights, f.terms, strict=True):
            if isinstance(term, Linear):
                tilt = w * double(term.C) if tilt is None else tilt + w * double(term.C)
        return cls(f, place, loss, ScaledLoss(f.weights[place], loss.h), tilt)

    @cached_property
    def on_host(self) -> ScaledLoss:
        """h of margins on the host."""
        return ScaledLoss(self.weight, self.composite.on_host)

    @property
    def free(self) -> Array | None:
        """As in `Composite`."""
        return self.composite.free

    @property
    def weight(self) -> float:
        """What h(Kx) is multiplied by."""
        return self.h.weight

    def loss_at(self, evaluation: Any) -> CompositeEvaluation:
        """The part of an evaluation of f that is h(Kx), not multiplied."""
        here: CompositeEvaluation = evaluation.terms[self.place]
        return here

    def at_best(self, evaluation: Any) -> AtBestIntercept:
        """h at its best intercept, from an evaluation of f."""
        return self.h.scaled(self.loss_at(evaluation).at_best)

    def evaluation(self, x: Array, u: Array, best: AtBestIntercept) -> SumEvaluation:
        """f at x from u = K x and h there."""
        here = self.composite.evaluation(x, u, self.h.unscaled(best))
        terms = enumerate(self.f.terms)
        return SumEvaluation(
            self.f.weights, [here if i == self.place else term.at(x) for i, term in terms]
        )


Folded: TypeAlias = Composite | FoldedLoss
"""A loss h(Kx), alone or in a sum."""
