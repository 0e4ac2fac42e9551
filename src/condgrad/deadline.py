"""When a run must end, told to the loops inside an oracle or a step too: their answers are certified however early."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """What runs inside has this much time, or what is left of a limit around it."""
    moment = math.inf if seconds is None else time.perf_counter() + seconds
    token = _deadline.set(min(moment, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


def passed() -> bool:
    """Whether it is time to end."""
    return time.perf_counter() >= _deadline.get()
