"""Runs the tasks of the experiments, one after another as they are timed, and writes figures, numbers and the page."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import platform
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from threadpoolctl import threadpool_info

from condgrad.cli.report import json_text, versions
from experiments.paper.chapter import Chapter, Experiment
from experiments.paper.figures import draw
from experiments.paper.page import render
from experiments.paper.progress import RunProgress, label_of
from experiments.paper.tasks import (
    CHANGED,
    DAMAGED,
    KEPT,
    NEW,
    Curve,
    Scale,
    Store,
    Task,
    code_digest,
    write_whole,
)
from experiments.paper.wording import error_sentence, plain

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PaperOutcome:
    """What a run gave: its chapters, the facts for a program, the files, and what went wrong in sentences."""

    chapters: Sequence[Chapter]
    results: Mapping[str, Any]
    page: Path
    pictures: Sequence[Path]
    failures: Sequence[str]


def run_paper(
    experiments: Sequence[Experiment],
    scale: Scale,
    out: Path,
    *,
    progress: RunProgress,
    fresh: bool = False,
    command: str = "python -m experiments paper",
) -> PaperOutcome:
    """Do the tasks that are missing in `out`, or all if `fresh`; then write figures, numbers and the page there.

    `command` is what the page says to type to repeat the run.

    Raises
    ------
    KeyboardInterrupt
        The run was interrupted: finished tasks are kept, and the same call continues with those that are missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    store = Store(out / "runs", code_digest(), this_machine())
    # data may have to be found first, which can take seconds
    progress.say("preparing the experiments")
    tasks = {experiment.name: experiment.tasks(scale) for experiment in experiments}
    curves = _curves(tasks, store, progress, fresh=fresh)
    progress.say("drawing the figures")
    chapters, failures = [], []
    for experiment in experiments:
        chapter, failed = _chapter(
            experiment, tasks[experiment.name], curves[experiment.name], quick=scale.quick
        )
        chapters.append(chapter)
        failures += failed
    pictures = [
        path for chapter in chapters for figure in chapter.figures for path in draw(figure, out)
    ]
    facts: dict[str, Any] = {
        "command": command,
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "quick": scale.quick,
        "seeds": sorted({curve.seed for several in curves.values() for curve in several}),
    }
    results = {**facts, "versions": versions(), "machine": store.machine, "failures": failures}
    results["experiments"] = [_summary(chapter, curves[chapter.name]) for chapter in chapters]
    write_whole(out / "curves.csv", curves_csv(curves))
    write_whole(out / "results.json", json_text(results))
    page = out / "report.html"
    # the page comes last, so that where it is new, all is
    write_whole(
        page, render(chapters, facts=facts, machine={**store.machine, **results["versions"]})
    )
    return PaperOutcome(chapters, json.loads(json_text(results)), page, pictures, failures)


def this_machine() -> dict[str, Any]:
    """The computer: what timings depend on; of threads BLAS's alone, for it is always loaded."""
    process, cpu = psutil.Process(), platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "cpu": cpu,
        "cores": len(process.cpu_affinity())
        if hasattr(process, "cpu_affinity")
        else psutil.cpu_count() or 1,
        "blas_threads": max(threads, default=0),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }


def _curves(
    tasks: Mapping[str, Sequence[Task]], store: Store, progress: RunProgress, *, fresh: bool
) -> dict[str, list[Curve]]:
    """The curves of all tasks, in their order; a new one is kept as soon as it is there."""
    every = [task for several in tasks.values() for task in several]
    twice = [name for name, count in Counter(task.name for task in every).items() if count > 1]
    if twice:  # they would share a file
        raise ValueError(
            f"the names of tasks must be unique, got these more than once: {', '.join(twice)}"
        )
    known = {task.name: (NEW, None, True) if fresh else store.find(task) for task in every}
    for name, several in tasks.items():
        states = Counter(known[task.name][0] for task in several)
        words = [
            f"{states[KEPT]} {KEPT}",
            *(f"{states[why]} again ({why})" for why in (CHANGED, DAMAGED)),
        ]
        told = [word for word in words if not word.startswith("0")]
        if told:
            progress.say(f"{name}: {', '.join([*told, f'{states[NEW]} new'])}")
    elsewhere = sum(not here for _, _, here in known.values())
    if elsewhere:
        progress.say(
            f"{elsewhere} of the kept runs were timed elsewhere: use --fresh to time all of them here"
        )
    curves: dict[str, list[Curve]] = {name: [] for name in tasks}
    progress.begin([task for task in every if known[task.name][1] is None])
    try:
        with _interruption() as interrupted:
            for task in every:
                curve = known[task.name][1]
                if curve is None:
                    progress.start(task)
                    curve = _worked(task)
                    # a solver answers an interrupt with the best it has so far, which is not what was asked for
                    if interrupted() or curve.status == "INTERRUPTED":
                        raise KeyboardInterrupt
                    # what failed or lacked a package or licence may do better next time
                    if curve.status != "FAILED" and curve.facts.get("reason") != "missing":
                        store.keep(task, curve)
                    progress.finish(task, curve)
                curves[task.experiment].append(curve)
    finally:
        progress.end()
    return curves


def _worked(task: Task) -> Curve:
    """The curve of a task; where the work raises, one that says so."""
    try:
        # standard output belongs to the command's own answer
        with contextlib.redirect_stdout(sys.stderr):
            return task.work()
    except Exception as error:
        _LOG.info("the task %s failed", task.name, exc_info=True)
        return Curve(task.problem, task.solver, task.seed, {}, "FAILED", error_sentence(error))


@contextlib.contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed, even where the code that ran then caught the exception."""
    asked = threading.Event()

    def note(*_: object) -> None:
        asked.set()
        raise KeyboardInterrupt

    # only the main thread may set handlers, and only it gets the exception
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield asked.is_set
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def _chapter(
    experiment: Experiment, tasks: Sequence[Task], curves: Sequence[Curve], *, quick: bool
) -> tuple[Chapter, list[str]]:
    """The chapter of an experiment with a note for each task that failed, and these notes."""
    pairs = zip(tasks, curves, strict=True)
    failures = [
        f"{label_of(task)}: failed: {curve.note}"
        for task, curve in pairs
        if curve.status == "FAILED"
    ]
    try:
        chapter = experiment.chapter(
            [curve for curve in curves if curve.status != "FAILED"], quick=quick
        )
    # the other chapters should not be lost with this one
    except Exception as error:
        _LOG.info("the chapter of %s failed", experiment.name, exc_info=True)
        why = error_sentence(error)
        chapter = Chapter(
            experiment.name, experiment.name, f"This chapter could not be written: {why}"
        )
        failures.append(f"{experiment.name}: the chapter failed: {why}")
    return replace(chapter, notes=[*chapter.notes, *failures]), failures


def _summary(chapter: Chapter, curves: Sequence[Curve]) -> dict[str, Any]:
    """Everything but the curves themselves: the tables, the claims, how each solver ended; formulas as plain text."""
    shown: dict[str, Any] = {
        name: value for name, value in vars(chapter).items() if name not in ("figures", "formula")
    }
    shown["claims"] = [
        asdict(claim) | {"verdict": claim.verdict.value, "source": claim.source.value}
        for claim in chapter.claims
    ]
    shown["tables"] = [table._asdict() for table in chapter.tables]
    shown = _plainly(shown)
    ended = []
    for curve in curves:
        last = {name: curve[name][-1] for name in curve.columns if len(curve[name])}
        ended.append(
            {name: value for name, value in vars(curve).items() if name != "columns"}
            | {"last": last}
        )
    return {**shown, "curves": ended}


def _plainly(value: Any) -> Any:
    """The value with plain text for every formula in it."""
    if isinstance(value, Mapping):
        return {plain(str(key)): _plainly(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plainly(entry) for entry in value]
    return plain(value) if isinstance(value, str) else value


def curves_csv(curves: Mapping[str, Sequence[Curve]]) -> str:
    """A row for each iteration of each curve; a cell is empty where nothing was measured."""
    keys, first = ["experiment", "problem", "solver", "seed"], ["iteration", "seconds"]
    frames = [pd.DataFrame(columns=[*keys, *first])]
    for name, several in curves.items():
        for curve in several:
            own: dict[str, Any] = {
                "experiment": name,
                **{key: getattr(curve, key) for key in keys[1:]},
            }
            frames.append(pd.DataFrame(dict(curve.columns)).assign(**own))
    table = pd.concat([frame for frame in frames if len(frame)] or frames)
    measured = sorted(set(table.columns).difference(keys, first))
    return str(
        table[[*keys, *first, *measured]].replace([np.inf, -np.inf], np.nan).to_csv(index=False)
    )
