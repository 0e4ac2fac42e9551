"""How the kernels are compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

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


class Announcement(event.Listener):  # type: ignore[misc]
    """One line for a person who waits, at a terminal or a notebook, while kernels are compiled rather than loaded."""

    def __init__(self) -> None:
        self.is_due = True

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if not (self.is_due and str(dispatcher.py_func.__module__).startswith("condgrad.")):
            return
        self.is_due = False
        if sys.stderr is None or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
            return
        folder = dispatcher.stats.cache_path
        kept = "again in each process, as no folder can be written" if folder is None else f"once: kept in {folder}"
        sys.stderr.write(f"condgrad compiles its kernels, for up to a minute and a half, {kept}\n")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", Announcement())
