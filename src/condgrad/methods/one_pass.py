"""The linearised problem min <c, s> + ridge |s|^2 on the l1 ball, c = K'theta, in one compiled pass over the data.

For data that are dense and not large, operations on arrays take less time than the calls of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import in_use
from condgrad.problem import Answer, Simple, Smooth, Sum, SumEvaluation
from condgrad.sets import L1Ball
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import Composite, CompositeEvaluation

NOTHING = np.empty(0)
"""What is not there or not known yet, for compiled code."""


def linearised_in_one_pass(f: Smooth, g: Simple, here: Any, x: Array) -> tuple[Array, Answer, Any] | None:
    """c, the answer of the oracle and f at its point; None for other problems, and before kernels are in use.

    f is an h(Kx) or a multiple of one. What |K_j| says of rounding at x is left with `here`, the evaluation of f at x.
    """
    if not (isinstance(g, Ridge | Zero) and isinstance(g.on, L1Ball) and g.on.radius > 0.0 and in_use()):
        return None
    weights = f.weights if isinstance(f, Sum) and len(f.terms) == 1 else None
    composite: Any = f if weights is None else f.terms[0]  # type: ignore[attr-defined]
    weight, of_loss = (1.0, here) if weights is None else (weights[0], here.terms[0])
    columns, loss = getattr(composite, "columns", None), getattr(getattr(composite, "h", None), "compiled", None)
    if not isinstance(composite, Composite) or columns is None or loss is None:
        return None
    from condgrad.kernels.working_set import linearise

    ridge = g.weight if isinstance(g, Ridge) else 0.0
    theta = of_loss.theta if weight == 1.0 else weight * of_loss.theta
    found = linearise(compiled_problem(columns, loss, None, ridge, g.on), theta, x)
    if not found.is_right:
        return None
    of_loss.image_size = found.image_size
    there = CompositeEvaluation(composite, found.point, image_size=found.image_size_there)
    answer = Answer(found.point, found.bound, g.value(found.point))
    return found.c, answer, there if weights is None else SumEvaluation(weights, [there])


def compiled_problem(columns: Array, loss: Any, tilt: Array | None, ridge: float, on: Any) -> Any:
    """F for compiled code, from K'."""
    from condgrad.kernels.face_qp import Polytope
    from condgrad.kernels.working_set import WorkingSetProblem
    from condgrad.newton.face_models import Geometry

    polytope = Polytope(*Geometry.of(on, np.empty(columns.shape[0])))
    return WorkingSetProblem(columns, loss, NOTHING if tilt is None else np.ascontiguousarray(tilt), ridge, polytope)
