"""When a run must end: after that no product, oracle call or search step starts.

Loops inside oracles and searches ask here as well; what they answer is certified however early they
stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

clock = time.perf_counter
"""What tells the time; tests put a clock of their own here."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """What runs inside has this much time, or what is left of a limit around it."""
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
    """The time is up inside a loop of another library."""


def check() -> None:
    """Raise `OutOfTime` once it is time to end."""
    if passed():
        raise OutOfTime
