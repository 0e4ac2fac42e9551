"""When a run must end. After that no product, oracle call or search step starts.

Loops inside oracles and searches ask here as well. Their answers are certified, however early they
stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

clock = time.perf_counter
"""The clock; tests replace it."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Code inside has this much time, or less if an outer limit ends earlier."""
    moment = math.inf if seconds is None else clock() + seconds
    token = _deadline.set(min(moment, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


def passed() -> bool:
    """Whether it is time to end."""
    return clock() >= _deadline.get()


class OutOfTime(Exception):
    """Raised if the time is up inside a loop of another library."""


def check() -> None:
    """Raise `OutOfTime` once it is time to end."""
    if passed():
        raise OutOfTime
