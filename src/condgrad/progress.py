"""Live lines on the terminal: while a run goes on, a callback like any other; and for other work."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from condgrad.errors import require_extra
from condgrad.loop import Progress

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN = 0.1
"""A line is drawn anew at most ten times a second."""
SOME_SHARE = 0.05
"""The remaining time is estimated once this share of the work is done."""


class LiveLine:
    """One line of standard error that is drawn over itself, by rich, which an extra brings."""

    def __init__(self, console: Console | None = None) -> None:
        require_extra("rich", extra="cli", purpose="a live line of progress")
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            "", console=console or Console(stderr=True), auto_refresh=False, transient=False
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, where)
        if not self._live.console.is_terminal:
            self._live.console.print()

    def show(self, line: str) -> None:
        from rich.text import Text

        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


class TimedLine:
    """A line about work that no iterations count, and its time; nothing at all unless `shown`."""

    def __init__(self, *, shown: bool, console: Console | None = None) -> None:
        self._begin = time.perf_counter()
        self._next = 0.0
        self._live = LiveLine(console) if shown else None

    @property
    def seconds(self) -> float:
        """The time so far."""
        return time.perf_counter() - self._begin

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.show(self._line())
            self._live.__exit__(kind, error, where)

    def _line(self) -> str:
        """What to show now."""
        raise NotImplementedError

    def _show(self) -> None:
        """Draw the line, if it is time to."""
        seconds = self.seconds
        if self._live is not None and seconds >= self._next:
            self._next = seconds + SECONDS_BETWEEN
            self._live.show(self._line())


class ShareLine(TimedLine):
    """What is done, and the share of it that is done where this is known."""

    def __init__(self, what: str, *, shown: bool, console: Console | None = None) -> None:
        super().__init__(shown=shown, console=console)
        self._what = what
        self._share = 0.0

    def __enter__(self) -> Self:
        super().__enter__()
        self._show()
        return self

    def reached(self, share: float) -> None:
        """So much is done, from 0 to 1."""
        self._share = share
        self._show()

    def _line(self) -> str:
        seconds = self.seconds
        if not SOME_SHARE <= self._share < 1.0:
            return f"{self._what}  {seconds:.1f} s"
        left = seconds / self._share * (1.0 - self._share)
        return f"{self._what}  {self._share:.0%}  {seconds:.0f} s, {left:.0f} s left"


class ProgressLine(LiveLine):
    """Shows iteration, value, gap and time of a run."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._next = 0.0
        self._last: Progress | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._last is not None:
            self._show_iteration(self._last)
        super().__exit__(kind, error, where)

    def __call__(self, now: Progress) -> None:
        self._last = now
        if now.seconds >= self._next:
            self._next = now.seconds + SECONDS_BETWEEN
            self._show_iteration(now)

    def _show_iteration(self, now: Progress) -> None:
        proved = f"gap {now.gap:.2e}"
        if now.stationarity is not None:
            proved = f"stationarity {now.stationarity:.2e}"
        self.show(
            f"iteration {now.iteration:>6}  value {now.value:.8g}  {proved}  {now.seconds:.1f} s"
        )
