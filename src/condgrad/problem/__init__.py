"""The three parts of a problem: minimise F(x) = f(x) + g(x) over a compact convex set P.

- `Smooth` is f. At a point it gives an `Evaluation`: the value, the gradient, and f along
  directions from there.
- `Set` is P. It says what it can do, for example project.
- `Simple` is g together with its set P. It minimises <c, s> + g(s) over P, with a lower bound.

For an f, g or P of your own, write a subclass. Often `smooth.Function` and `simple.Oracle` are
enough: they wrap plain functions.
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
