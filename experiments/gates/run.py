"""Measures rows on both sides in turns, judges them, and measures those that fail once more."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.clock import one_thread, quiet
from experiments.gates import rules
from experiments.gates.rows import Row
from experiments.gates.rules import Measured
from experiments.gates.sides import ROOT, Side, Worker, WorkerLost, interpreter_for, tree_of

BEFORE_THE_ENGINE = "85f0913"
"""The commit before the engine of the l1 ball was replaced."""
BURST = 0.05
"""CPU seconds of a turn: a short fit runs several times, as the other side emptied its caches."""
LEAST_TURNS = 3
MOST_TURNS = 10
ENOUGH = 3.0
"""CPU seconds of both sides together, after which there are no more turns than the least."""
LONG = 8.0
"""CPU seconds of both sides for one turn, beyond which one turn is measurement enough."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A row, what both sides did with it, and what is wrong with that."""

    name: str
    group: str
    old: Measured
    new: Measured
    rival: float | None = None
    failure: str = ""

    @property
    def ratio(self) -> float | None:
        return rules.ratio(self.old, self.new)


@dataclass(frozen=True)
class Summary:
    """Of the rows of a group."""

    group: str
    rows: int
    compared: int
    """Rows that both sides certified."""
    mean: float
    worst: Judged | None


@dataclass(frozen=True)
class Outcome:
    """All rows, and what they say together."""

    against: str
    seed: int
    rows: Sequence[Judged]

    @property
    def failures(self) -> list[Judged]:
        return [row for row in self.rows if row.failure]

    @property
    def mean(self) -> float:
        return self.summary("all", self.rows).mean

    @property
    def passed(self) -> bool:
        return bool(self.rows) and not self.failures and not self.mean > rules.MEAN_RATIO

    @property
    def summaries(self) -> list[Summary]:
        """One for each group, in the order of the rows, and one for all."""
        groups = dict.fromkeys(row.group for row in self.rows)
        summaries = []
        for group in groups:
            rows = [row for row in self.rows if row.group == group]
            summaries.append(self.summary(group, rows))
        return [*summaries, self.summary("all", self.rows)]

    @staticmethod
    def summary(group: str, rows: Sequence[Judged]) -> Summary:
        ratios = {row: row.ratio for row in rows}
        compared = {row: each for row, each in ratios.items() if each is not None}
        worst = max(compared, key=lambda row: compared[row], default=None)
        mean = rules.geometric_mean(compared.values())
        return Summary(group, len(rows), len(compared), mean, worst)

    def as_json(self) -> dict[str, Any]:
        return {
            "against": self.against,
            "seed": self.seed,
            "passed": self.passed,
            "geometric_mean": self.mean,
            "rows": [{**asdict(row), "ratio": row.ratio} for row in self.rows],
        }


@contextmanager
def two_workers(commit: str, kept: Path | None) -> Iterator[Gauge]:
    """The processes of both sides; they and the tree of the old one are gone at the end.

    Its machine code goes too, unless there is a folder to keep it in.
    """
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="condgrad-gates-"))
        folder = Path(temporary) if kept is None else kept.resolve() / commit
        folder.mkdir(parents=True, exist_ok=True)
        tree = stack.enter_context(tree_of(commit, folder))
        old = Side("old", tree, interpreter_for(tree, folder), folder / "kernels")
        new = Side("new", ROOT)
        yield Gauge(
            old=stack.enter_context(Worker(old, Path(temporary) / "old.log")),
            new=stack.enter_context(Worker(new, Path(temporary) / "new.log")),
            file=Path(temporary) / "job",
        )


@dataclass(frozen=True, eq=False)
class Gauge:
    """Both workers, and the file by which they get their jobs."""

    old: Worker
    new: Worker
    file: Path

    def judged(self, row: Row, *, rivals: bool) -> Judged:
        """Measure a row and apply the rules to it."""
        try:
            self.file.write_bytes(pickle.dumps(row.make()))
        except OSError as error:  # data that this machine does not have
            raise LeftOut(f"{row.name} is left out: {error}") from error
        except Exception as error:  # some data are made by fits, which new may not be able to do
            broken = Measured(error=f"its data cannot be made: {type(error).__name__}: {error}")
            failure = rules.failure(row.kind, Measured(), broken)
            return Judged(row.name, row.group, Measured(), broken, failure=failure)
        old, new = self.measured()
        rival = None
        if rivals and row.rival is not None:
            with one_thread(), quiet():
                rival = row.rival()
        failure = rules.failure(row.kind, old, new, precision=row.precision, rival=rival)
        return Judged(row.name, row.group, old, new, rival, failure)

    def measured(self) -> tuple[Measured, Measured]:
        """The best of several turns of each side."""
        sides = (self.old, self.new)
        found = [asked(side, {"load": str(self.file)}) for side in sides]
        if any(each.error for each in found):
            return found[0], found[1]
        turns: list[list[Measured]] = [[], []]
        spent = 0.0
        while len(turns[0]) < MOST_TURNS:
            for side, its_turns in zip(sides, turns, strict=True):
                its_turns.append(asked(side, {"run": BURST}))
            latest = [its_turns[-1] for its_turns in turns]
            if any(each.error for each in latest):
                return latest[0], latest[1]
            seconds = sum(max(BURST, each.seconds or 0.0) for each in latest)
            spent += seconds
            if seconds > LONG or (spent > ENOUGH and len(turns[0]) >= LEAST_TURNS):
                break
        old, new = (min(its_turns, key=lambda each: each.seconds or 0.0) for its_turns in turns)
        return old, new

    def restart(self) -> None:
        """Let new processes measure what comes."""
        self.old.stop()
        self.new.stop()


class LeftOut(Exception):
    """A row that cannot be made on this machine."""


def asked(worker: Worker, request: dict[str, Any]) -> Measured:
    try:
        return rules.as_measured(worker.ask(request))
    except WorkerLost as lost:
        return Measured(error=str(lost))


def run_gates(
    rows: Iterable[Row],
    commit: str,
    seed: int,
    *,
    rivals: bool,
    kept: Path | None,
    say: Callable[[str], None],
    shown: Callable[[Judged], None],
) -> Outcome:
    """Measure all rows, and in new processes again those that fail: a failure happens twice.

    The folder that is kept has the machine code of the old side.
    """
    judged: dict[Row, Judged] = {}
    with two_workers(commit, kept) as gauge:
        for row in rows:
            try:
                judged[row] = gauge.judged(row, rivals=rivals)
            except LeftOut as absent:
                say(str(absent))
                continue
            shown(judged[row])
        suspects = [row for row, result in judged.items() if result.failure]
        if suspects:
            say(f"{len(suspects)} rows failed and are measured once more")
            gauge.restart()
        for row in suspects:
            judged[row] = gauge.judged(row, rivals=rivals)
            shown(judged[row])
    return Outcome(commit, seed, list(judged.values()))
