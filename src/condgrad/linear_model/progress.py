"""A live line on the terminal for a search of many fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from condgrad.progress import TimedLine

if TYPE_CHECKING:
    from rich.console import Console

SOME_FITS = 5
"""The remaining time is estimated after this many fits."""


class FitsLine(TimedLine):
    """Counts fits, shows the last of them and the time that is left.

    A copy that travels to another process is silent: the terminal belongs to the process that made
    the line.
    """

    def __init__(self, *, shown: bool, console: Console | None = None) -> None:
        super().__init__(shown=shown, console=console)
        self._text = ""
        self.done = 0
        self.total = 0

    def __reduce__(self) -> Any:
        return _silent_line, ()

    def say(self, text: str) -> None:
        """Show a text of its own in the place of a fit."""
        self._text = text
        self._show()

    def fitted(self, *, relative_gap: float, **numbers: float) -> None:
        """One fit more, with the numbers that it was given."""
        self.done += 1
        if self._live is not None:
            given = "".join(f"{name} {number:.3g}  " for name, number in numbers.items())
            self._text = f"{given}gap / scale {relative_gap:.0e}"
            self._show()

    def reached(self, done: int) -> None:
        """So many fits in all, as another process reports them."""
        self.done = max(self.done, done)
        self._show()

    def _line(self) -> str:
        seconds = self.seconds
        took = f"{seconds:.1f} s"
        if SOME_FITS <= self.done < self.total:
            took = f"{seconds:.0f} s, {seconds / self.done * (self.total - self.done):.0f} s left"
        counted = f"fit {self.done} of {self.total}  " if self.total else ""
        return f"{counted}{self._text}  {took}"


def _silent_line() -> FitsLine:
    return FitsLine(shown=False)
