"""Every threshold of rounding, each relative to the numbers it is compared with.

A rounding unit is the relative spacing of floating-point numbers of the precision at hand, 2.2e-16
in float64.
"""

from __future__ import annotations

from condgrad.arrays import Array, precision

ROUNDING_UNITS = 4.0
"""How many rounding units of its terms, taken before they cancel, a computed sum may be off."""
CONTRADICTION = 1e4
"""How many times its rounding a bound must exceed a value of F before rounding is no explanation.
"""
SAME_MASS = 1e-6
"""Masses that differ by no more than this part of them are equal: weights may have been float32."""
NO_GAIN = 0.1
"""A gain below this part of the rounding is none: values that go up and down by so little stand
still.
"""
EXHAUSTED = 100.0
"""A gap within so many times the rounding of its bound is the end for every method."""
LIFT = 1e-14
"""What is added to the diagonal of a matrix that has no negative eigenvalue up to rounding, in its
largest entry.
"""
SAME_POINTS = 1e-13
"""What is added to the diagonal of a Gram matrix of points that may coincide, relative to its
trace.
"""

LEAST_CURVATURE = 1e-13
"""What is added to the curvature of each coordinate of a model, as a share of it, so that none is
singular.
"""
ON_BOUNDARY = 1e-12
"""How far below the radius, as a share of it, the norm of a point may be that is on the boundary up
to rounding.
"""


def membership_tolerance(x: Array) -> float:
    """How far outside a set, relative to its size, a point may be that its owner computed to be
    inside.
    """
    return max(1e-9, 100.0 * precision(x))
