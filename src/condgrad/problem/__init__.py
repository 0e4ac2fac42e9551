"""What f, g and P are: minimise F(x) = f(x) + g(x) over a compact convex set P.

- `Smooth` is f. Asked for a point it gives an `Evaluation`: value, gradient, and how f goes on from
  there.
- `Set` is P. It owns its geometry and says what it can do.
- `Simple` is g, which lives *on* a set and solves the partially linearised problem there, with a
  proof.

Writing your own f, g or P means writing one of these; `smooth.Function` and `simple.Oracle` wrap
plain callables.
"""

from condgrad.problem.set import Answer, Face, Set, checked_set, linear_answer
from condgrad.problem.simple import Simple
from condgrad.problem.smooth import Evaluation, Floor, Smooth, Sum, SumEvaluation

__all__ = [
    "Answer",
    "Evaluation",
    "Face",
    "Floor",
    "Set",
    "Simple",
    "Smooth",
    "Sum",
    "SumEvaluation",
    "checked_set",
    "linear_answer",
]
