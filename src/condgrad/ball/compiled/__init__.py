"""Compiled code of the engine: the quadratic program, its Hessian and the factors of that.

Importing this package loads nothing; a module of it loads numba.
"""

from typing import Any, NamedTuple

BOX, SIMPLEX, L1_BALL, SOLID_SIMPLEX = 0, 1, 2, 3
"""Kinds of sets."""


class Polytope(NamedTuple):
    """The l1 ball, the simplex, solid or not, or the box; the bounds are those of a box, and of size 0 otherwise."""

    kind: int
    size: float
    lower: Any
    upper: Any
