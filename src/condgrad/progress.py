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


class ShareLine:
    """Work that no iterations count: what it is, its time, and the share that is done where this is
    known. Nothing at all unless `shown`.
    """

    def __init__(self, what: str, *, shown: bool, console: Console | None = None) -> None:
        self._what = what
        self._begin = time.perf_counter()
        self._next = 0.0
        self._live = LiveLine(console) if shown else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
            self._live.show(self._what)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.show(f"{self._what}  {time.perf_counter() - self._begin:.1f} s")
            self._live.__exit__(kind, error, where)

    def reached(self, share: float) -> None:
        """So much is done, from 0 to 1."""
        seconds = time.perf_counter() - self._begin
        if self._live is None or seconds < self._next or share <= 0.0:
            return
        self._next = seconds + SECONDS_BETWEEN
        took = f"{seconds:.0f} s"
        if share >= SOME_SHARE:
            took += f", {seconds / share * (1.0 - share):.0f} s left"
        self._live.show(f"{self._what}  {share:.0%}  {took}")


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
