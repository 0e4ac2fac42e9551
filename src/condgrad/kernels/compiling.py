"""How the kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

REORDERED = {"reassoc", "contract"}
"""What sums may gain speed from: another order of their terms, and fused products. Never another rounding of a ratio,
nor any assumption on what is finite."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in machine code, kept on disk where some folder can be written."""
    return _machine_code(function, REORDERED)


def compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled`, for functions that rely on rounding: no order is changed, products alone may be fused."""
    return _machine_code(function, {"contract"})


def compiled_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled`, in the place of each call: for a few operations, or a function with one caller."""
    return _machine_code(function, REORDERED, inline="always")


def _machine_code(function: Callable[..., Any], fastmath: set[str], **more: Any) -> Callable[..., Any]:
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, **more}
    try:
        return numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # no folder for the compiled code can be written: compile again in each process
        return numba.njit(**options)(function)
