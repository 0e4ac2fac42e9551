"""The linearised problem min <c, s> + ridge |s|^2, c = K'theta, in one compiled pass over the data.

That is on the l1 ball and the solid simplex, for small data, where NumPy spends more time on its calls than on
arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import in_use
from condgrad.problem import Answer, Simple, Smooth, Sum, SumEvaluation
from condgrad.sets import L1Ball, SolidSimplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import CompositeEvaluation, is_at_hand
from condgrad.smooth.folding import FoldedLoss

if TYPE_CHECKING:
    from condgrad.kernels.matrix import CompiledMatrix
    from condgrad.kernels.working_set import CompiledProblem, LinearisedOnBall


class SolvedLinearisation(NamedTuple):
    """The partially linearised problem at a point, solved: min <c, s> + g(s)."""

    c: Array
    """grad f there."""
    answer: Answer
    there: Any = None
    """f at the answer's point, where that is known."""
    threshold: float | None = None
    """What is taken off |c_j|, or off -c_j, where that is known: at a solution on the boundary the multiplier."""


class OnePass:
    """The oracle for an h(Kx), or a multiple of one, and a ridge on the l1 ball or the solid simplex."""

    def __init__(self, f: Smooth, g: Any, loss: FoldedLoss, problem: CompiledProblem) -> None:
        self.f, self.g, self.loss = f, g, loss
        self.compiled = problem
        """F for compiled code."""

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> OnePass | None:
        """None for other problems, and where kernels are not in use."""
        if not (in_use() and isinstance(g, (Ridge, Zero)) and isinstance(g.on, (L1Ball, SolidSimplex))):
            return None
        composite: Any = f.terms[0] if isinstance(f, Sum) and len(f.terms) == 1 else f
        if g.on.scale == 0.0 or not is_at_hand(composite):
            return None
        loss = FoldedLoss.of(f)
        compiled_loss = getattr(loss.h, "compiled", None)
        if compiled_loss is None or composite.compiled_matrix is None:
            return None
        return cls(f, g, loss, compiled_problem(composite.compiled_matrix, compiled_loss, g.weight, g.on))

    def __call__(self, here: Any, x: Array) -> SolvedLinearisation | None:
        """The linearised problem at x, where f has an evaluation; None where squares of columns leave the floats."""
        from condgrad.kernels.working_set import LinearisedOnBall, linearise

        return self.solved(LinearisedOnBall(*linearise(self.compiled, self.loss.at_best(here).theta, x)), here)

    def solved(self, found: LinearisedOnBall, here: Any) -> SolvedLinearisation | None:
        """What compiled code has found; what it knows of rounding at x is left with the evaluation of f."""
        if not found.is_right:
            return None
        loss = self.loss.loss_at(here)
        loss.image_size, loss.theta_length = found.image_size, found.theta_length / self.loss.weight
        there: Any = CompositeEvaluation(self.loss.composite, found.point, image_size=found.image_size_there)
        if isinstance(self.f, Sum):
            there = SumEvaluation(self.f.weights, [there])
        answer = Answer(found.point, found.bound, self.g.value(found.point))
        return SolvedLinearisation(found.c, answer, there, found.threshold)


def compiled_problem(K: CompiledMatrix, loss: Any, ridge: float, on: Any) -> Any:
    """F for compiled code."""
    from condgrad.kernels.working_set import CompiledProblem
    from condgrad.newton.face_models import polytope_of

    return CompiledProblem(K, loss, ridge, polytope_of(on, np.empty(K.width)))
