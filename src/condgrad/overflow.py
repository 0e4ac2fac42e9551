"""What leaves the floats in a run: infinite, and no more than that, in our code; reported as ever
in the user's.

The certificate proves nothing with an infinite number, or ends the run with an error, so that
NumPy's warning would add nothing. But in an f, g or callback of the user's own it may be the only
word of a mistake.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LIBRARIES = ("numpy", "scipy", "array_api_compat")
"""What both our code and the user's compute with: who called them overflows."""


@contextmanager
def silent_in_our_code() -> Iterator[None]:
    """Let overflows of this package pass, and treat those of others as NumPy was told to before."""
    mode = np.geterr()["over"]
    handler: Any = np.geterrcall()

    def report(kind: str, flag: int) -> None:
        """What NumPy calls where something overflows."""
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
