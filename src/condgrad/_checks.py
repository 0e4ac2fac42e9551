"""Checks of single numbers and flags a user passes; each error names the argument, its value and
what is allowed.
"""

from __future__ import annotations

import math
import operator
from typing import Any


def is_flag(value: Any) -> bool:
    """Whether it is True or False, which Python and NumPy would take for 1 and 0."""
    return (
        isinstance(value, bool) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"
    )


def flag(name: str, value: Any) -> bool:
    """True or False; any word, also "no", would count as true."""
    if not is_flag(value) or getattr(value, "shape", ()) != ():
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def loudness(name: str, value: Any) -> bool:
    """Whether to say something: True, False, or a number of scikit-learn's, which is 0 for no."""
    if isinstance(value, int) and value >= 0:
        return bool(value)
    return flag(name, value)


def number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None
) -> float:
    """A finite number in the allowed range."""
    try:
        if isinstance(value, str) or (not isinstance(value, float) and is_flag(value)):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    inside = (above is None or result > above) and (at_least is None or result >= at_least)
    if not math.isfinite(result) or not inside:
        allowed = "finite"
        if above is not None:
            allowed = f"finite and > {above:g}"
        elif at_least is not None:
            allowed = f"finite and >= {at_least:g}"
        shown = value.item() if hasattr(value, "item") else value  # not np.float64(...)
        raise ValueError(f"{name} must be {allowed}, got {shown!r}")
    return result


def whole(name: str, value: Any, *, at_least: int) -> int:
    """A whole number in the allowed range."""
    try:
        if is_flag(value):
            raise TypeError
        result = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from error
    if result < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {value!r}")
    return result


def hold_number(
    thing: Any, *names: str, above: float | None = None, at_least: float | None = None
) -> None:
    """Let fields of a frozen dataclass be finite numbers in the allowed range."""
    for name in names:
        checked = number(name, getattr(thing, name), above=above, at_least=at_least)
        object.__setattr__(thing, name, checked)


def hold_whole(thing: Any, *names: str, at_least: int) -> None:
    """Let fields of a frozen dataclass be whole numbers in the allowed range."""
    for name in names:
        checked = whole(name, getattr(thing, name), at_least=at_least)
        object.__setattr__(thing, name, checked)
