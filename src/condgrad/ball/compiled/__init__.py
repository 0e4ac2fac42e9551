"""Compiled code of the engine: the quadratic program, its Hessian and the factors of that.

Importing this package loads nothing; a module of it loads numba.
"""

from typing import Any, NamedTuple

BOX, SIMPLEX, L1_BALL, SOLID_SIMPLEX, PENALISED, PENALISED_POSITIVE = range(6)
"""Kinds of sets. The last two are all x, and all x >= 0, with a multiple of |x|_1 in the model."""


class Region(NamedTuple):
    """The set of a quadratic program; see `face_qp`."""

    kind: int
    size: float
    """The radius or the sum; the multiple of |x|_1 where the model is penalised; the scale of a
    box."""
    lower: Any
    """The bounds of a box, and of size 0 otherwise; where the model is penalised, lower[0] may be a
    number that the norm of its least point does not exceed."""
    upper: Any
