"""What a person sees while a run goes on: bars on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from condgrad.paper.pieces import Curve, Piece
from condgrad.paper.words import ending

DOUBT_SECONDS = 5.0
"""How many seconds of work it takes to believe the observed ratio as much as the expected one."""

QUIET_SECONDS = 5.0
"""A log has no line sooner than this after the last one, unless a piece failed or was skipped."""


class Estimate:
    """The time left: what the missing pieces expect, corrected by how long the done ones took against theirs."""

    def __init__(self, expected: float) -> None:
        self._left = expected
        self._expected_done = 0.0
        self._took = 0.0
        self._now = 0.0
        self._began = 0.0

    @property
    def ratio(self) -> float:
        return (self._took + DOUBT_SECONDS) / (self._expected_done + DOUBT_SECONDS)

    def start(self, expected: float, at: float) -> None:
        self._left -= expected
        self._now, self._began = expected, at

    def finish(self, at: float) -> None:
        self._took += at - self._began
        self._expected_done += self._now
        self._now = 0.0

    def seconds_left(self, at: float) -> float:
        rest_of_this = max(0.0, self._now * self.ratio - (at - self._began)) if self._now else 0.0
        return max(0.0, self._left) * self.ratio + rest_of_this


class Display(Protocol):
    """Is told what happens in a run, in this order: begin; start and finish of each piece in turn; end."""

    def begin(self, expected: float, todo: Mapping[str, int], total: Mapping[str, int]) -> None:
        """`expected` seconds of work in `todo` pieces of each experiment, of which there are `total`."""
        ...

    def start(self, experiment: str, piece: Piece) -> None: ...

    def finish(self, experiment: str, piece: Piece, curve: Curve) -> None: ...

    def end(self) -> None:
        """No piece follows, be it that all are done or that the run was interrupted."""
        ...

    def say(self, sentence: str) -> None: ...


class PlainDisplay:
    """A line every few seconds, for logs and pipes; what failed or was skipped has its own, and a count ends it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._estimate = Estimate(0.0)
        self._began = self._last_line = time.perf_counter()
        self._first = self._began
        self._endings: Counter[str] = Counter()
        self._count = 0

    def begin(self, expected: float, todo: Mapping[str, int], total: Mapping[str, int]) -> None:
        self._estimate = Estimate(expected)
        self._count = sum(todo.values())
        self._first = self._last_line = time.perf_counter()

    def start(self, experiment: str, piece: Piece) -> None:
        self._began = time.perf_counter()
        self._estimate.start(piece.seconds, self._began)

    def finish(self, experiment: str, piece: Piece, curve: Curve) -> None:
        now = time.perf_counter()
        self._estimate.finish(now)
        self._endings[ending(curve.status)] += 1
        if curve.status not in ("FAILED", "SKIPPED") and now - self._last_line < QUIET_SECONDS:
            return
        self._last_line = now
        left = clock(self._estimate.seconds_left(now))
        self.say(
            f"[{self._endings.total()}/{self._count}] {experiment}: {piece.label}: {ending(curve.status)}, "
            f"{now - self._began:.1f} s, about {left} left"
        )

    def end(self) -> None:
        if not self._count:
            return
        how = ", ".join(f"{count} {word}" for word, count in self._endings.most_common())
        took = clock(time.perf_counter() - self._first)
        self.say(f"{self._endings.total()} of {self._count} pieces done in {took}{f': {how}' if how else ''}")

    def say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay:
    """A bar for each experiment, what runs now, the time it took and about how much is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), expand=True
        )
        self._tasks: dict[str, TaskID] = {}
        self._estimate = Estimate(0.0)
        self._began = time.perf_counter()
        self._label = ""
        # two refreshes a second: a run is timed, and the display should not be seen in it
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._render)

    def begin(self, expected: float, todo: Mapping[str, int], total: Mapping[str, int]) -> None:
        self._estimate = Estimate(expected)
        for name, count in total.items():
            self._tasks[name] = self._bars.add_task(name, total=count, completed=count - todo[name])
        self._began = time.perf_counter()
        self._live.start()

    def start(self, experiment: str, piece: Piece) -> None:
        self._estimate.start(piece.seconds, time.perf_counter())
        self._label = piece.label
        self._live.refresh()

    def finish(self, experiment: str, piece: Piece, curve: Curve) -> None:
        self._estimate.finish(time.perf_counter())
        self._bars.advance(self._tasks[experiment])
        if curve.status == "FAILED":
            self.say(f"{piece.label}: failed: {curve.note}")

    def end(self) -> None:
        self._label = ""
        self._live.stop()

    def say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False)

    def _render(self) -> RenderableType:
        now = time.perf_counter()
        times = f"{clock(now - self._began)} gone"
        if not self._label:
            return Group(self._bars, Text(times))
        left = clock(self._estimate.seconds_left(now))
        line = Text(f"{times}, about {left} left: {self._label}", no_wrap=True, overflow="ellipsis")
        return Group(self._bars, line)


def display_for(console: Console) -> Display:
    """Bars where they can be redrawn, lines elsewhere."""
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay(console)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
