"""Signals that end a command at once, with all that it has begun to write taken back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Ended(BaseException):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def ended_by(asked: signal.Signals) -> Iterator[None]:
    """Raises `Ended` where a signal comes, which no solver takes for a wish to see its best answer so far."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise Ended(number)

    before = signal.signal(asked, end)
    try:
        yield
    finally:
        signal.signal(asked, before)
