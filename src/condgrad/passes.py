"""How many times a plan was swept: the unit in which solvers of one problem are compared, whatever the machine.

A pass goes once over all pairs of points and multiplies at most 32 columns; a wider product counts as several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

COLUMNS = 32


@dataclass
class PassCount:
    """The passes since `counted` was entered."""

    passes: int = 0


_current: ContextVar[PassCount | None] = ContextVar("condgrad_passes", default=None)


@contextmanager
def counted() -> Iterator[PassCount]:
    """Counts the passes made inside."""
    count = PassCount()
    token = _current.set(count)
    try:
        yield count
    finally:
        _current.reset(token)


def note(columns: int = 1) -> None:
    """A product with so many columns was made."""
    count = _current.get()
    if count is not None:
        count.passes += max(1, math.ceil(columns / COLUMNS))
