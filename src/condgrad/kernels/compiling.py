"""How the kernels are compiled.

What Python calls is an `entry_point`, and the only code that is stored on disk. Each function that
another one calls is optimised again with it. So a function with one caller is `compiled_in_place`,
and others are `compiled` once in the process that compiles an entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba
from numba.core import caching, event

from condgrad.kernels import readiness

REORDERED = {"reassoc", "contract"}
"""What sums may gain speed from: another order of their terms, and fused products. Never another
rounding of a ratio, nor any assumption on what is finite.
"""


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Python calls, in machine code that is stored on disk where some folder can be
    written.
    """
    dispatcher = _machine_code(function, REORDERED)
    if readiness.folder() is not None:
        dispatcher._cache = KernelCache(function)
    return dispatcher


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that several compiled ones call."""
    return _machine_code(function, REORDERED)


def compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled`, for functions that rely on rounding: no order is changed, products alone may
    be fused.
    """
    return _machine_code(function, {"contract"})


def compiled_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled`, in the place of each call: for a few operations, or a function with one
    caller.
    """
    return _machine_code(function, REORDERED, inline="always")


def _machine_code(function: Callable[..., Any], fastmath: set[str], **more: Any) -> Any:
    # nobody takes the address of a kernel: the wrapper for that would be compiled with each of them
    options = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
        "no_cfunc_wrapper": True,
        **more,
    }
    return numba.njit(**options)(function)


class KernelLocator(caching._CacheLocator):  # type: ignore[misc]
    """Where the machine code of a kernel is stored, and of which sources it is."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._py_file = file

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelLocator:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(readiness.folder())

    def get_source_stamp(self) -> str:
        """That of all kernels: numba's own looks at one file, and a kernel is made of functions in
        several.
        """
        return readiness.sources()

    def get_disambiguator(self) -> str:
        return str(self._line)


class KernelCacheFiles(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (KernelLocator,)


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, in our place and with our stamp."""

    _impl_class = KernelCacheFiles


class Announcement(event.Listener):  # type: ignore[misc]
    """One line for a person who waits, at a terminal or a notebook, while kernels are compiled
    rather than loaded.
    """

    def __init__(self) -> None:
        self.is_due = True

    def on_start(self, event: Any) -> None:
        if not (
            self.is_due and str(event.data["dispatcher"].py_func.__module__).startswith("condgrad.")
        ):
            return
        self.is_due = False
        if not readiness.is_watched():
            return
        folder = readiness.folder()
        how_often = (
            "again in each process, as no folder can be written"
            if folder is None
            else f"once: kept in {folder}"
        )
        sys.stderr.write(f"condgrad compiles its kernels, for half a minute or so, {how_often}\n")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", Announcement())
