"""A live line on the terminal for a search of many fits."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

SECONDS_BETWEEN = 0.1


class FitsLine:
    """Counts fits and shows the last of them; at most ten times a second, and not at all unless `shown`.

    A copy that travels to another process is silent: the terminal belongs to the process that made the line.
    """

    def __init__(self, *, shown: bool, console: Console | None = None) -> None:
        self._begin, self._next, self._text = time.perf_counter(), 0.0, ""
        self.done, self.total = 0, 0
        self._live = None
        if shown:
            self._live = Live(Text(""), console=console or Console(stderr=True), auto_refresh=False, transient=False)

    def __reduce__(self) -> Any:
        return _silent_line, ()

    def __enter__(self) -> FitsLine:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live is None:
            return
        self._refresh()
        self._live.__exit__(kind, error, where)
        if not self._live.console.is_terminal:
            self._live.console.print()

    def say(self, text: str) -> None:
        """Show a text of its own in the place of a fit."""
        self._text = text
        self._show()

    def fitted(self, *, radius: float, ridge: float, relative_gap: float) -> None:
        """One fit more."""
        self.done += 1
        self._text = f"radius {radius:.4g}  ridge {ridge:.4g}  gap / scale {relative_gap:.1e}"
        self._show()

    def reached(self, done: int) -> None:
        """So many fits in all, as another process reports them."""
        self.done = max(self.done, done)
        self._show()

    def _show(self) -> None:
        seconds = time.perf_counter() - self._begin
        if self._live is not None and seconds >= self._next:
            self._next = seconds + SECONDS_BETWEEN
            self._refresh()

    def _refresh(self) -> None:
        counted = f"fit {self.done} of {self.total}  " if self.total else ""
        line = f"{counted}{self._text}  {time.perf_counter() - self._begin:.1f} s"
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)  # type: ignore[union-attr]


def _silent_line() -> FitsLine:
    return FitsLine(shown=False)
