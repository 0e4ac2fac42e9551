"""Every threshold of rounding, each relative to the numbers it is compared with.

A rounding unit is the relative spacing of floating-point numbers of the precision at hand, 2.2e-16
in float64.
"""

from __future__ import annotations

import sys

from condgrad.arrays import Array, precision

UNIT = sys.float_info.epsilon
"""The rounding unit of float64."""
ROUNDING_UNITS = 4.0
"""A computed sum may be off by this many rounding units of its terms, taken before they cancel."""
CONTRADICTION = 1e4
"""If a bound exceeds a value of F by more than this many times its rounding, rounding does not
explain it, and there is an error.
"""
SAME_MASS = 1e-6
"""Masses that differ by no more than this part of them are equal: weights may have been float32."""
NO_GAIN = 0.1
"""A gain below this part of the rounding counts as none: values that only go up and down by so
little stand still.
"""
EXHAUSTED = 100.0
"""Once a gap is within this many times the rounding of its bound, no other method is tried."""
LIFT = 1e-14
"""This share of the largest diagonal entry is added to the diagonal of a matrix whose eigenvalues
may only be negative by rounding.
"""
SAME_POINTS = 1e-13
"""This share of the trace is added to the diagonal of a Gram matrix of points that may coincide."""

LEAST_CURVATURE = 1e-13
"""This share of the curvature of each coordinate of a model is added to it, so that the model is
not singular.
"""
ON_BOUNDARY = 1e-12
"""A point counts as on the boundary if its norm is below the radius by at most this share of it."""


def membership_tolerance(x: Array) -> float:
    """How far outside a set, relative to its size, a point may be that its owner computed to be
    inside.
    """
    return max(1e-9, 100.0 * precision(x))
