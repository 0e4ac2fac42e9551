"""How many times a plan was swept: the unit in which solvers of one problem are compared, whatever
the machine.

A pass goes once over all pairs of points and multiplies at most 32 columns; a wider product counts
as several.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

COLUMNS_A_PASS = 32
OTHER = "other"
"""The name of passes whose purpose nobody has named."""


@dataclass
class PassCount:
    """The passes since `counting` was entered."""

    passes: int = 0
    by_purpose: Counter[str] = field(default_factory=Counter)
    """The same, by what they were `spent_on`."""


_current: ContextVar[PassCount | None] = ContextVar("condgrad_passes", default=None)
_purpose: ContextVar[str] = ContextVar("condgrad_purpose", default=OTHER)


@contextmanager
def counting() -> Iterator[PassCount]:
    """Counts the passes made inside; a count around it has them too."""
    count = PassCount()
    around = _current.get()
    token = _current.set(count)
    try:
        yield count
    finally:
        _current.reset(token)
        if around is not None:
            around.passes += count.passes
            around.by_purpose.update(count.by_purpose)


@contextmanager
def spent_on(purpose: str) -> Iterator[None]:
    """Names what the passes inside are for, unless something inside has a name of its own."""
    token = _purpose.set(purpose)
    try:
        yield
    finally:
        _purpose.reset(token)


def note(columns: int = 1) -> None:
    """A product with so many columns was made."""
    count = _current.get()
    if count is not None:
        made = max(1, math.ceil(columns / COLUMNS_A_PASS))
        count.passes += made
        count.by_purpose[_purpose.get()] += made
