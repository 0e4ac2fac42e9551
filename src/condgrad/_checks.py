"""Checks of single numbers a user passes; each error names the argument, its value and what is allowed."""

from __future__ import annotations

import math
import operator
from typing import Any


def number(name: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> float:
    """A finite number in the allowed range."""
    allowed = "finite"
    if above is not None:
        allowed = f"finite and > {above:g}"
    elif at_least is not None:
        allowed = f"finite and >= {at_least:g}"
    try:
        if isinstance(value, str):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    inside = (above is None or result > above) and (at_least is None or result >= at_least)
    if not math.isfinite(result) or not inside:
        shown = value.item() if hasattr(value, "item") else value  # not np.float64(...)
        raise ValueError(f"{name} must be {allowed}, got {shown!r}")
    return result


def whole(name: str, value: Any, *, at_least: int) -> int:
    """A whole number in the allowed range."""
    try:
        result = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from error
    if result < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {value!r}")
    return result
