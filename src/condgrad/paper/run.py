"""Runs experiments piece by piece, one after another so that timings do not disturb each other, and writes the page."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from condgrad.paper.chapters import Chapter
from condgrad.paper.display import Display
from condgrad.paper.machine import this_machine, versions
from condgrad.paper.page import render
from condgrad.paper.pieces import Curve, Experiment, Piece, Scale
from condgrad.paper.results import Part, curves_csv, summary
from condgrad.paper.static import draw
from condgrad.paper.store import Found, Lookup, Store, curve_of, record_of
from condgrad.paper.whole_files import json_text, plain, write_whole
from condgrad.paper.words import told

FAILED = "FAILED"
TITLE = "Generalized conditional gradient: the paper's experiments, measured again"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What a run gave: its parts, the same as facts for a program, the files, and what went wrong in sentences."""

    parts: Sequence[Part]
    results: Mapping[str, Any]
    page: Path
    figures: Sequence[Path]
    failures: Sequence[str]


@dataclass(frozen=True)
class _Plan:
    """The pieces of an experiment and what the store has of them."""

    experiment: Experiment
    pieces: Sequence[Piece]
    lookups: Sequence[Lookup]

    @property
    def todo(self) -> list[Piece]:
        return [piece for piece, known in zip(self.pieces, self.lookups, strict=True) if known.found is not Found.KEPT]


def run_paper(
    experiments: Sequence[Experiment],
    scale: Scale,
    out: Path,
    *,
    progress: Display,
    fresh: bool = False,
    command: str = "condgrad paper",
) -> Outcome:
    """Do the pieces that are missing in `out`, then write figures, numbers and the page there.

    Parameters
    ----------
    experiments : sequence of Experiment
    scale : Scale
    out : Path
        A folder, made where it is missing, for `pieces/`, `curves.csv`, `results.json`, figures and `report.html`.
    progress : Display
        Is told what happens.
    fresh : bool
        Do all pieces again.
    command : str
        What to type to repeat the run, for the page.

    Raises
    ------
    KeyboardInterrupt
        The run was interrupted: finished pieces are kept, and the same call continues with those that are missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    store = Store(out / "pieces")
    machine = this_machine().fingerprint()
    # data may have to be found first, which can take seconds
    progress.say("preparing the experiments")
    plans = [_planned(experiment, scale, store, fresh=fresh) for experiment in experiments]
    _check_names(plans)
    _tell_what_is_known(plans, machine, progress)
    curves = _worked(plans, store, machine, progress)
    parts = [_part(plan.experiment, kept, plan.pieces) for plan, kept in zip(plans, curves, strict=True)]
    progress.say("drawing the figures")
    return _written(parts, out, quick=scale.quick, command=command)


def _planned(experiment: Experiment, scale: Scale, store: Store, *, fresh: bool) -> _Plan:
    pieces = experiment.pieces(scale)
    return _Plan(experiment, pieces, [Lookup(Found.MISSING) if fresh else store.look(piece) for piece in pieces])


def _check_names(plans: Sequence[_Plan]) -> None:
    """Two pieces of one name would share a file."""
    counts = Counter(piece.name for plan in plans for piece in plan.pieces)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"the names of pieces must be unique, got these more than once: {', '.join(twice)}")


def _tell_what_is_known(plans: Sequence[_Plan], machine: Mapping[str, Any], progress: Display) -> None:
    for plan in plans:
        counts = Counter(known.found for known in plan.lookups)
        again = [f"{counts[why]} again ({why.value})" for why in (Found.CHANGED, Found.DAMAGED) if counts[why]]
        kept = [f"{counts[Found.KEPT]} kept from an earlier run"] if counts[Found.KEPT] else []
        if kept or again:
            progress.say(f"{plan.experiment.name}: {', '.join([*kept, *again, f'{counts[Found.MISSING]} new'])}")
    moved = sum(known.machine not in (None, machine) for plan in plans for known in plan.lookups)
    if moved:
        progress.say(
            f"{moved} of the kept pieces were timed on another machine or with other threads: "
            "use --fresh to time all of them here"
        )


def _worked(plans: Sequence[_Plan], store: Store, machine: Mapping[str, Any], progress: Display) -> list[list[Curve]]:
    """The curves of all pieces, in their order."""
    progress.begin(
        sum(piece.seconds for plan in plans for piece in plan.todo),
        {plan.experiment.name: len(plan.todo) for plan in plans},
        {plan.experiment.name: len(plan.pieces) for plan in plans},
    )
    try:
        with _interruption() as interrupted:
            return [_curves(plan, store, machine, progress, interrupted) for plan in plans]
    finally:
        progress.end()


def _curves(
    plan: _Plan,
    store: Store,
    machine: Mapping[str, Any],
    progress: Display,
    interrupted: Callable[[], bool],
) -> list[Curve]:
    curves = []
    for piece, known in zip(plan.pieces, plan.lookups, strict=True):
        if known.curve is not None:
            curves.append(known.curve)
            continue
        progress.start(plan.experiment.name, piece)
        curve = _done(plan.experiment, piece)
        # a solver answers an interrupt with the best it has so far, which is not what the piece asked for
        if interrupted() or curve.status == "INTERRUPTED":
            raise KeyboardInterrupt
        if _lasting(curve):
            store.keep(piece, curve, machine)
        progress.finish(plan.experiment.name, piece, curve)
        curves.append(curve)
    return curves


def _lasting(curve: Curve) -> bool:
    """Whether to keep a curve: what failed or lacked a package or licence may do better next time."""
    return curve.status != FAILED and not (curve.status == "SKIPPED" and curve.facts.get("reason") == "missing")


def _done(experiment: Experiment, piece: Piece) -> Curve:
    """The curve of a piece as the store would give it back; where the work raises, one that says so."""
    try:
        # standard output belongs to the command's own answer
        with contextlib.redirect_stdout(sys.stderr):
            return curve_of(record_of(piece.work()))
    except Exception as error:
        seed = piece.settings.get("seed")
        _LOG.info("the piece %s failed", piece.name, exc_info=True)
        return Curve(
            problem=str(piece.settings.get("problem", experiment.name)),
            solver=str(piece.settings.get("solver", piece.name)),
            seed=seed if isinstance(seed, int) else 0,
            columns={},
            status=FAILED,
            note=told(error),
        )


@contextlib.contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed, even where the code that ran then caught the exception."""
    asked = threading.Event()
    # only the main thread may set handlers, and only it gets the exception
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(_number: int, _frame: FrameType | None) -> None:
        asked.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _part(experiment: Experiment, curves: Sequence[Curve], pieces: Sequence[Piece]) -> Part:
    """The chapter of an experiment, with a note for each piece that failed."""
    labels = [piece.label for piece in pieces]
    notes = [
        f"{label}: failed: {curve.note}" for label, curve in zip(labels, curves, strict=True) if curve.status == FAILED
    ]
    good = [curve for curve in curves if curve.status != FAILED]
    try:
        chapter = experiment.chapter(good)
    # the other chapters, hours of work perhaps, should not be lost with this one
    except Exception as error:
        _LOG.info("the chapter of %s failed", experiment.name, exc_info=True)
        sentence = f"This chapter could not be written: {told(error)}"
        chapter = Chapter(name=experiment.name, title=experiment.name, summary=sentence)
        notes.append(
            f"{experiment.name}: the chapter failed: {told(error)}; where older code left pieces, --fresh may help"
        )
    chapter = dataclasses.replace(chapter, notes=[*chapter.notes, *notes])
    return Part(experiment.name, chapter, curves, failures=tuple(notes))


def _written(parts: Sequence[Part], out: Path, *, quick: bool, command: str) -> Outcome:
    """The files of a run; the page comes last, so that where it is new, all is."""
    chapters = [part.chapter for part in parts]
    figures = [path for chapter in chapters for figure in chapter.figures for path in draw(figure, out)]
    machine = this_machine()
    facts = {
        "command": command,
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "quick": quick,
        "seeds": sorted({curve.seed for part in parts for curve in part.curves}),
        "versions": versions(),
        "machine": dataclasses.asdict(machine),
        "failures": [sentence for part in parts for sentence in part.failures],
    }
    results = plain(summary(parts, facts))
    write_whole(out / "curves.csv", curves_csv(parts))
    write_whole(out / "results.json", json_text(results))
    page = out / "report.html"
    write_whole(page, render(chapters, title=TITLE, facts=_words(results), machine=machine.described() | versions()))
    return Outcome(parts, results, page, figures, results["failures"])


def _words(results: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a run for a reader."""
    seeds = ", ".join(map(str, results["seeds"]))
    scale = "quick" if results["quick"] else "full"
    return {"command": results["command"], "date": results["date"], "scale": scale, "seeds": seeds}
