"""Powers and logarithms of one number by polynomials, so that a loop over them becomes vector code.

The compiler knows no vector code for those of the mathematical library, which take several times as
long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from condgrad.kernels.compiling import compiled_exactly
from condgrad.kernels.streamed import LN2


@intrinsic  # type: ignore[untyped-decorator]
def bits(_: Any, __: Any) -> Any:
    """The bits of a float64 as an integer."""
    return types.int64(types.float64), lambda _, builder, _signature, args: builder.bitcast(
        args[0], ir.IntType(64)
    )


@intrinsic  # type: ignore[untyped-decorator]
def from_bits(_: Any, __: Any) -> Any:
    """The float64 that an integer is the bits of."""
    return types.float64(types.int64), lambda _, builder, _signature, args: builder.bitcast(
        args[0], ir.DoubleType()
    )


ROUNDER = 1.5 * 2.0**52
"""A number of this size has no fraction: adding it rounds to a whole number, which is then in the
lowest bits.
"""


@compiled_exactly
def power_of_2_near_0(f: float) -> float:
    """2^f for |f| <= 1/2, with a relative error of 3e-18 before rounding."""
    p = 4.435282706957277e-10
    p = p * f + 7.074105613508143e-09
    p = p * f + 1.0178198021671931e-07
    p = p * f + 1.32154330896764e-06
    p = p * f + 1.5252733489988525e-05
    p = p * f + 0.00015403530462514432
    p = p * f + 0.0013333558146789923
    p = p * f + 0.009618129107588335
    p = p * f + 0.055504108664819925
    p = p * f + 0.24022650695910155
    p = p * f + 0.6931471805599453
    return p * f + 1.0


@compiled_exactly
def power_of_2(x: float) -> float:
    """2^x to 1 ulp or so; 0 below -1022, where numbers are no longer normal, infinite from 1023.5
    on.

    x = k + f with k whole and |f| <= 1/2; a polynomial for 2^f, and k into the exponent.
    """
    s = 1024.0 if x > 1024.0 else x
    shifted = s + ROUNDER
    f = s - (shifted - ROUNDER)
    power = power_of_2_near_0(f) * from_bits((bits(shifted) + 1023) << 52)
    return 0.0 if x < -1022.0 else power


@compiled_exactly
def twice_artanh(t: float) -> float:
    """log((1 + t)/(1 - t)) for |t| <= 0.172."""
    y = t * t
    q = 0.14811055661396855
    q = q * y + 0.1531238986385806
    q = q * y + 0.18183637264205665
    q = q * y + 0.22222196944922426
    q = q * y + 0.28571428761790724
    q = q * y + 0.39999999999296715
    q = q * y + 0.6666666666666765
    q = q * y + 2.0
    return t * q


SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""


@compiled_exactly
def times_its_log(p: float) -> float:
    """p log p to 1 ulp or so of log p; 0 where p <= 0.

    p = 2^k m with m from sqrt(1/2) to sqrt(2); log m = 2 artanh t, t = (m - 1)/(m + 1).
    """
    positive = p if p > 2.3e-308 else 1.0
    exponent = (bits(positive) - SQRT_HALF) >> 52
    m = from_bits(bits(positive) - (exponent << 52))
    t = (m - 1.0) / (m + 1.0)
    return positive * (np.int32(exponent) * LN2 + twice_artanh(t)) if p > 2.3e-308 else 0.0
