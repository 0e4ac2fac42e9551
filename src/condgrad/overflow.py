"""Overflows in a run: silent in our code, and reported as usual in the user's code.

If a number becomes infinite, the certificate proves nothing with it, or ends the run with an error.
So NumPy's warning would add nothing. But in an f, g or callback of the user's own, the warning may
be the only sign of a mistake.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LIBRARIES = ("numpy", "scipy", "array_api_compat")
"""Libraries that both our code and the user's code call. An overflow in them belongs to the caller.
"""


@contextmanager
def silent_in_our_code() -> Iterator[None]:
    """Ignore overflows in this package. All others are treated as NumPy's settings say."""
    mode = np.geterr()["over"]
    handler: Any = np.geterrcall()

    def report(kind: str, flag: int) -> None:
        """NumPy calls this function if a number overflows."""
        depth = 1
        frame: Any = sys._getframe(depth)
        while frame is not None and _package(frame) in LIBRARIES:
            depth = depth + 1
            frame = frame.f_back
        if frame is None or _package(frame) == __package__:
            return
        sentence = f"{kind} encountered"
        if mode == "warn":
            warnings.warn(sentence, RuntimeWarning, stacklevel=depth + 1)
        elif mode == "raise":
            raise FloatingPointError(sentence)
        elif mode == "print":
            sys.stdout.write(f"Warning: {sentence}\n")
        elif mode == "call" and handler is not None:
            handler(kind, flag)
        elif mode == "log" and handler is not None:
            handler.write(f"Warning: {sentence}\n")

    with np.errstate(over="call", call=report):
        yield


def _package(frame: Any) -> str:
    """The package whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
