"""A campaign: `python -m tests.fuzz --seconds 60 --seed 0 --jobs 2 --out out/fuzz`."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy reads it: a job has one core

import argparse
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from tests.fuzz.checks import COUNTS, SLOW_AT_ALL, Failure, Report, check_problem

CHUNK = 25
"""Problems a job takes at a time."""
KEPT = 3
"""Reproducers of a group: the shortest ones."""


def check_chunk(seed: int, first: int, size: int) -> Report:
    """Some problems in a row."""
    report = Report()
    for index in range(first, first + size):
        report.merge(check_problem(seed, index))
    return report


def campaign(
    seed: int, jobs: int, *, seconds: float, problems: int | None, first: int = 0
) -> Report:
    """Problems from the first on, until the time is over or all are done."""
    report, begin, following = Report(), time.monotonic(), first
    end = None if problems is None else first + problems
    with ProcessPoolExecutor(jobs) as pool:
        pending: set[Future[Report]] = set()
        while True:
            over = time.monotonic() - begin >= seconds if end is None else following >= end
            while not over and len(pending) < 2 * jobs and (end is None or following < end):
                size = CHUNK if end is None else min(CHUNK, end - following)
                pending.add(pool.submit(check_chunk, seed, following, size))
                following += size
            if not pending:
                return report
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for chunk in done:
                report.merge(chunk.result())


def relatively_slow(report: Report) -> list[Failure]:
    """Runs of 100 times the median of their kind."""
    by_kind = defaultdict(list)
    for timing in report.timings:
        by_kind[timing.kinds[0], timing.kinds[4]].append(timing.wall)
    medians = {kind: statistics.median(seconds) for kind, seconds in by_kind.items()}
    slow = []
    for kinds, _, seconds, text in report.timings:
        median = medians[kinds[0], kinds[4]]
        if text and seconds > max(SLOW_AT_ALL, 100.0 * median):
            detail = f"{seconds:.2f} s against a median of {median:.4f} s"
            slow.append(
                Failure("slow", ("relative", kinds[0], kinds[4].split()[0]), kinds, detail, text)
            )
    return slow


def grouped(failures: Iterable[Failure]) -> list[list[Failure]]:
    """Failures that are the same, in the order of the counts and then by number; the shortest of a group first."""
    groups = defaultdict(list)
    for failure in failures:
        groups[failure.kind, failure.group].append(failure)
    order = list(COUNTS)
    ranked = sorted(groups.values(), key=lambda group: (order.index(group[0].kind), -len(group)))
    return [sorted(group, key=lambda failure: len(failure.reproducer)) for group in ranked]


def write(report: Report, folder: Path) -> str:
    """The reproducers, and the findings as text."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for number, group in enumerate(grouped(report.failures), start=1):
        first = group[0]
        combinations = len({failure.case for failure in group})
        lines.append(
            f"{number:3d}. {first.kind} x {len(group)} ({combinations} kinds): {' | '.join(first.group)}"
        )
        lines.append(f"     {' | '.join(first.case)}: {first.detail.splitlines()[0][:300]}")
        for k, failure in enumerate(group[:KEPT]):
            (folder / f"{number:03d}{'abc'[k]}-{first.kind.replace(' ', '-')}.py").write_text(
                failure.reproducer
            )
    text = "\n".join(lines)
    (folder / "findings.txt").write_text(text + "\n")
    return text


def by_family(report: Report) -> list[str]:
    """How many problems of each family there were, were judged, and are done in a second."""
    lines = []
    for family, tally in sorted(report.families.items(), key=lambda entry: -entry[1].problems):
        rate = tally.problems / tally.seconds
        name = family + ","
        lines.append(f"{tally.problems:8d}  {name:18} {tally.judged} judged, {rate:.1f} problems/s")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to go on (default 60)"
    )
    parser.add_argument("--problems", type=int, help="how many problems, however long they take")
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz"), help="where reproducers go; emptied first"
    )
    given = parser.parse_args()
    begin = time.monotonic()
    report = campaign(
        given.seed, given.jobs, seconds=given.seconds, problems=given.problems, first=given.first
    )
    elapsed = time.monotonic() - begin
    report.failures += relatively_slow(report)
    findings = write(report, given.out)
    rate = report.problems / elapsed
    lines = [
        findings,
        "",
        f"{report.problems} problems, {report.runs} runs in {elapsed:.0f} s: {rate:.1f} problems/s",
    ]
    lines += by_family(report)
    lines += [
        f"{count:8d}  {kind + ',':18} {COUNTS[kind]}" for kind, count in report.counted().items()
    ]
    lines.append(f"reproducers are in {given.out}")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(report.counted(noted=False).values()))


if __name__ == "__main__":
    sys.exit(main())
