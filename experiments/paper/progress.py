"""What a person sees while the tasks run: bars on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from experiments.paper.curves import Curve, Task
from experiments.paper.wording import ending

QUIET_SECONDS = 5.0
"""A log has no line sooner than this after the last one, unless a task failed or was skipped."""
DOUBT_SECONDS = 5.0
"""How many seconds of work it takes to believe the observed ratio as much as the expected one."""


class RunProgress:
    """Is told what happens: `begin`, then `start` and `finish` of each task in turn, then `end`."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn())
        self._lines = console.is_dumb_terminal or not console.is_terminal
        # two refreshes a second: runs are timed, and the bars should not be seen in it
        self._bars = Progress(*columns, console=console, expand=True, refresh_per_second=2, disable=self._lines)
        self._endings: Counter[str] = Counter()

    def begin(self, todo: Mapping[str, Sequence[Task]], kept: Mapping[str, int]) -> None:
        """The tasks to do of each experiment, beside those that are kept from an earlier run."""
        self._count = sum(map(len, todo.values()))
        self._left = sum(task.seconds for tasks in todo.values() for task in tasks)
        self._expected = 0.0
        self._bar = {
            name: self._bars.add_task(name, total=len(tasks) + kept[name], completed=kept[name])
            for name, tasks in todo.items()
        }
        self._begin = self._began = self._last_line = time.perf_counter()
        self._bars.start()

    def start(self, experiment: str, task: Task) -> None:
        self._began = time.perf_counter()
        line = f"{experiment}, about {self._time_left()} left: {task.label}"
        self._bars.update(self._bar[experiment], description=line)

    def finish(self, experiment: str, task: Task, curve: Curve) -> None:
        now = time.perf_counter()
        self._left -= task.seconds
        self._expected += task.seconds
        self._endings[ending(curve.status)] += 1
        self._bars.update(self._bar[experiment], advance=1, description=experiment)
        took = f"{ending(curve.status)}, {now - self._began:.1f} s"
        if curve.status == "FAILED":
            self.say(f"{task.label}: failed: {curve.note}")
        elif self._lines and (curve.status == "SKIPPED" or now - self._last_line >= QUIET_SECONDS):
            done = f"[{self._endings.total()}/{self._count}] {experiment}"
            self.say(f"{done}: {task.label}: {took}, about {self._time_left()} left")
            self._last_line = now

    def end(self) -> None:
        """No task follows, be it that all are done or that the run was interrupted."""
        self._bars.stop()
        how = ", ".join(f"{count} {word}" for word, count in self._endings.most_common())
        took = _clock(time.perf_counter() - self._begin)
        if how:
            self.say(f"{self._endings.total()} of {self._count} tasks done in {took}: {how}")

    def say(self, sentence: str) -> None:
        self._bars.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def _time_left(self) -> str:
        """What the missing tasks expect, corrected by how long the done ones took against theirs."""
        took = time.perf_counter() - self._begin
        return _clock(max(0.0, self._left) * (took + DOUBT_SECONDS) / (self._expected + DOUBT_SECONDS))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
