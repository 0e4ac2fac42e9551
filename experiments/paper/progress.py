"""What a person sees while the tasks run: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.paper.figures import SOLVERS
from experiments.paper.tasks import Curve, Task
from experiments.paper.wording import ending

QUIET_SECONDS = 5.0
"""A log has no line sooner than this after the last one, unless a task failed or was skipped."""


class RunProgress:
    """Is told what happens: `begin`, then `start` and `finish` of each task in turn, then `end`.

    The bar counts the seconds that the tasks expect, from which rich estimates the time that is left.
    """

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._lines = console.is_dumb_terminal or not console.is_terminal
        # two refreshes a second: runs are timed, and the bar should not be seen in it
        self._bar = Progress(*columns, console=console, refresh_per_second=2, disable=self._lines)
        self._endings: Counter[str] = Counter()

    def begin(self, todo: Sequence[Task]) -> None:
        self._count, self._begin = len(todo), time.perf_counter()
        self._began = self._last_line = self._begin
        self._shown = self._bar.add_task("", total=sum(task.seconds for task in todo))
        self._bar.start()

    def start(self, task: Task) -> None:
        self._began = time.perf_counter()
        place = f"[{self._endings.total() + 1}/{self._count}]"
        self._bar.update(self._shown, description=f"{place} {label_of(task)}")

    def finish(self, task: Task, curve: Curve) -> None:
        now, status = time.perf_counter(), ending(curve.status)
        self._endings[status] += 1
        self._bar.update(self._shown, advance=task.seconds)
        if curve.status == "FAILED":
            self.say(f"{label_of(task)}: failed: {curve.note}")
        elif self._lines and (curve.status == "SKIPPED" or now - self._last_line >= QUIET_SECONDS):
            place = f"[{self._endings.total()}/{self._count}]"
            left = self._bar.tasks[self._shown].time_remaining
            about = "" if left is None else f", about {_clock(left)} left"
            self.say(f"{place} {label_of(task)}: {status}, {now - self._began:.1f} s{about}")
            self._last_line = now

    def end(self) -> None:
        """No task follows, be it that all are done or that the run was interrupted."""
        self._bar.stop()
        how = ", ".join(f"{count} {word}" for word, count in self._endings.most_common())
        took = _clock(time.perf_counter() - self._begin)
        if how:
            self.say(f"{self._endings.total()} of {self._count} tasks done in {took}: {how}")

    def say(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def label_of(task: Task) -> str:
    """A task as a person knows it."""
    return f"{task.experiment}, {task.problem}, draw {task.seed}: {SOLVERS[task.solver].label}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
