"""A live line on the terminal while a run goes on: a callback like any other."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from condgrad.loop import Progress


class ProgressLine:
    """Shows iteration, value, gap and time; at most ten times a second."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(Text(""), console=console or Console(stderr=True), auto_refresh=False, transient=False)
        self._next = 0.0
        self._last: Progress | None = None

    def __enter__(self) -> ProgressLine:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._last is not None:
            self._show(self._last)
        self._live.__exit__(kind, error, where)
        if not self._live.console.is_terminal:
            self._live.console.print()

    def __call__(self, now: Progress) -> None:
        self._last = now
        if now.seconds >= self._next:
            self._next = now.seconds + 0.1
            self._show(now)

    def _show(self, now: Progress) -> None:
        line = f"iteration {now.iteration:>6}  value {now.value:.8g}  gap {now.gap:.2e}  {now.seconds:.1f} s"
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
