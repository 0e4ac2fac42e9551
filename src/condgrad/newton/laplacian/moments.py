"""The dual variables of transport with a Laplacian: a column potential and the two moments of a
plan.
"""

from __future__ import annotations

from typing import NamedTuple

from condgrad.arrays import Array, dot


class DualVector(NamedTuple):
    """A point (v, P, Q) of the dual, or a direction."""

    v: Array
    P: Array
    Q: Array

    def moved(self, step: float, direction: DualVector) -> DualVector:
        """self + step * direction."""
        v, P, Q = (old + step * new for old, new in zip(self, direction, strict=True))
        return DualVector(v, P, Q)


class DualVariables(NamedTuple):
    """A point (v, P, Q) of the dual, or a direction, with the gradients U and V of the Laplacian
    there.

    The plan sees U and V alone. They are moved along with P and Q: computed afresh from P, a stiff
    Laplacian magnifies a rounding of P to one of U that a small entropy magnifies once more, to one
    of the plan's entries.
    """

    v: Array
    P: Array
    Q: Array
    U: Array
    """gradient_in_P(P)."""
    V: Array
    """gradient_in_Q(Q)."""
    u: Array | None = None
    """The row potentials of a plan near, which those of the plan here may be found from; no part of
    the point.
    """

    def moved(self, step: float, direction: DualVariables) -> DualVariables:
        """self + step * direction."""
        v, P, Q, U, V = (old + step * new for old, new in zip(self[:5], direction[:5], strict=True))
        return DualVariables(v, P, Q, U, V, self.u)

    @property
    def quadratic(self) -> float:
        """The Laplacian at a plan with these moments."""
        return 0.5 * (dot(self.P, self.U) + dot(self.Q, self.V))


def pairs(left: Array, right: Array) -> Array:
    """All products left[:, k] * right[:, l], as columns."""
    return (left[:, :, None] * right[:, None, :]).reshape(left.shape[0], -1)
