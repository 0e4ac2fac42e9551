"""The linearised problem min <c, s> + ridge |s|^2 on the l1 ball, c = K'theta, in one compiled pass over the data.

For data that are dense and not large, operations on arrays take less time than the calls of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import loaded
from condgrad.newton.face_models import Geometry
from condgrad.problem import Answer, Simple, Smooth
from condgrad.sets import L1Ball
from condgrad.simple import Ridge, Zero
from condgrad.smooth.composite import Composite, CompositeEvaluation

NOTHING = np.empty(0)
"""What is not there or not known yet, for compiled code."""


def linearised_in_one_pass(f: Smooth, g: Simple, here: Any, x: Array) -> tuple[Array, Answer, Any] | None:
    """c, the answer of the oracle and f at its point; None for other problems, and before kernels are in use.

    What |K_j| says of rounding at x is left with `here`, the evaluation of f at x.
    """
    if not (isinstance(f, Composite) and isinstance(g, Ridge | Zero) and isinstance(g.on, L1Ball) and loaded()):
        return None
    columns, loss = f.columns, getattr(f.h, "compiled", None)
    if columns is None or loss is None or g.on.radius == 0.0:
        return None
    from condgrad.kernels.working_set import linearise

    ridge = g.weight if isinstance(g, Ridge) else 0.0
    found = linearise(compiled_problem(columns, loss, None, ridge, g.on), here.theta, x)
    if not found.is_right:
        return None
    here.image_size = found.image_size
    there = CompositeEvaluation(f, found.point, image_size=found.image_size_there)
    return found.c, Answer(found.point, found.bound, g.value(found.point)), there


def compiled_problem(columns: Array, loss: Any, tilt: Array | None, ridge: float, on: Any) -> Any:
    """F for compiled code, from K'."""
    from condgrad.kernels.face_qp import Polytope
    from condgrad.kernels.working_set import Problem

    polytope = Polytope(*Geometry.of(on, np.empty(columns.shape[0])))
    return Problem(columns, loss, NOTHING if tilt is None else np.ascontiguousarray(tilt), ridge, polytope)
