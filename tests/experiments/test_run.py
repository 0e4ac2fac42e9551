"""A run of experiments: what is done, kept, done again, written, and seen meanwhile."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from experiments.paper import run as run_module
from experiments.paper.chapter import Chapter
from experiments.paper.progress import RunProgress
from experiments.paper.run import PaperOutcome, run_paper
from experiments.paper.tasks import DAMAGED, Curve, Scale, Store, code_digest, write_whole
from tests.experiments import FakeExperiment, slow_run

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

ONE = Scale(seeds=1)
REPOSITORY = Path(__file__).parents[2]


def run(
    out: Path, *experiments: FakeExperiment, scale: Scale = ONE, fresh: bool = False
) -> tuple[PaperOutcome, str]:
    """A run, and what was said in it."""
    said = io.StringIO()
    outcome = run_paper(
        experiments, scale, out, progress=RunProgress(Console(file=said, width=80)), fresh=fresh
    )
    return outcome, said.getvalue()


def fail() -> None:
    raise ArithmeticError("the matrix is singular\nand more lines")


def swallowed() -> None:
    """As our loop does: an interrupt ends the solver, not the program."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5.0)
    except KeyboardInterrupt:
        return
    raise AssertionError("no interrupt came")


def test_all_files_are_there_and_say_what_was_measured(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    outcome, _ = run(out, FakeExperiment(drawn=True), scale=Scale(quick=True, seeds=2))
    names = ["curves.csv", "figure-1.pdf", "figure-1.png", "report.html", "results.json", "runs"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert all(path.stat().st_mtime_ns <= outcome.page.stat().st_mtime_ns for path in out.iterdir())

    def no_constants(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    results = json.loads((out / "results.json").read_text("utf-8"), parse_constant=no_constants)
    assert results == outcome.results
    assert (results["quick"], results["seeds"]) == (True, [0, 1])
    assert {"python", "condgrad", "numpy"} <= results["versions"].keys()
    assert {"cpu", "cores", "memory_gb", "system"} <= results["machine"].keys()
    [experiment] = results["experiments"]
    assert experiment["claims"][0]["verdict"] == "too short to judge"
    assert experiment["curves"][-1]["last"] == {"iteration": 2.0, "seconds": 0.2, "value": 1.5}
    rows = list(csv.DictReader(io.StringIO((out / "curves.csv").read_text("utf-8"))))
    assert len(rows) == 6 * 3
    assert [row["value"] for row in rows[:3]] == ["3.0", "", "1.5"]
    assert (rows[-1]["experiment"], rows[-1]["solver"], rows[-1]["seed"]) == (
        "figure-1",
        "newton",
        "1",
    )


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    first, _ = run(tmp_path, FakeExperiment())
    again, more, fresh = FakeExperiment(), FakeExperiment(), FakeExperiment()
    second, said = run(tmp_path, again)
    assert again.done == []
    assert "figure-1: 3 kept from an earlier run, 0 new" in said
    assert second.results["experiments"] == first.results["experiments"]
    run(tmp_path, more, scale=Scale(seeds=2))
    assert len(more.done) == 3
    run(tmp_path, fresh, fresh=True)
    assert len(fresh.done) == 3


def test_changed_settings_and_damaged_files_are_done_again_and_told(tmp_path: Path) -> None:
    run(tmp_path, FakeExperiment())
    changed = FakeExperiment(settings={"tolerance": 1e-9})
    _, said = run(tmp_path, changed)
    assert len(changed.done) == 3
    assert "figure-1: 3 again (settings or code changed), 0 new" in said
    (tmp_path / "runs" / "figure-1-small-0-cg.json").write_text("{", "utf-8")
    damaged = FakeExperiment(settings={"tolerance": 1e-9})
    _, said = run(tmp_path, damaged)
    assert damaged.done == ["figure-1-small-0-cg"]
    assert "2 kept from an earlier run, 1 again (file damaged), 0 new" in said


def test_an_edit_to_the_code_makes_kept_runs_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, FakeExperiment())
    monkeypatch.setattr(run_module, "code_digest", lambda: "other")
    edited = FakeExperiment()
    _, said = run(tmp_path, edited)
    assert len(edited.done) == 3
    assert "settings or code changed" in said


def test_the_digest_is_of_names_and_contents_but_for_benchmarks(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    solver = tmp_path / "solver.py"
    solver.write_text("a = 1")
    before = code_digest(tmp_path)
    (tmp_path / "benchmarks" / "one.py").write_text("b = 1")
    (tmp_path / "note.txt").write_text("text")
    assert code_digest(tmp_path) == before
    solver.write_text("a = 2")
    edited = code_digest(tmp_path)
    solver.rename(tmp_path / "other.py")
    assert len({before, edited, code_digest(tmp_path)}) == 3
    assert code_digest() == code_digest()


@pytest.mark.parametrize(
    "content", ["[]", "null", "{}", "[" * 100_000, '{"key": 1, "machine": 1, "curve": {}}']
)
def test_a_record_of_another_shape_is_damaged(content: str, tmp_path: Path) -> None:
    store, [task, *_] = Store(tmp_path, "code", {}), FakeExperiment().tasks(ONE)
    (tmp_path / f"{task.name}.json").write_text(content)
    assert store.find(task)[:2] == (DAMAGED, None)


def test_a_curve_comes_back_as_it_was(tmp_path: Path) -> None:
    store, [task, *_] = Store(tmp_path, "code", {"cpu": "abacus"}), FakeExperiment().tasks(ONE)
    curve = task.work()
    store.keep(task, curve)
    _, again, here = store.find(task)
    assert again is not None
    assert here
    assert again.facts == curve.facts
    assert math.isnan(again["value"][1])
    assert not Store(tmp_path, "code", {"cpu": "another"}).find(task)[2]


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_task_that_raises_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    outcome, said = run(tmp_path, FakeExperiment(works={"cg": fail}), FakeExperiment(name="theory"))
    assert outcome.failures == [
        "figure-1, small, draw 0: CG: failed: ArithmeticError: the matrix is singular"
    ]
    assert "small, draw 0: CG: failed" in said
    assert outcome.failures[0] in outcome.chapters[0].notes
    assert outcome.chapters[0].summary == "2 curves."
    mended = FakeExperiment()
    second, _ = run(tmp_path, mended)
    assert mended.done == ["figure-1-small-0-cg"]
    assert not second.failures


@pytest.mark.parametrize(("reason", "kept"), [("missing", 0), ("too slow", 3)])
def test_a_solver_that_was_missing_is_asked_again(reason: str, kept: int, tmp_path: Path) -> None:
    run(tmp_path, FakeExperiment(status="SKIPPED", facts={"reason": reason}))
    again = FakeExperiment()
    run(tmp_path, again)
    assert len(again.done) == 3 - kept


def test_a_chapter_that_raises_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    class Mute(FakeExperiment):
        def chapter(self, curves: Sequence[Curve], *, quick: bool = False) -> Chapter:
            raise KeyError("words")

    outcome, _ = run(tmp_path, Mute(), FakeExperiment(name="theory", drawn=True))
    assert outcome.failures == ["figure-1: the chapter failed: KeyError: 'words'"]
    assert (tmp_path / "theory.png").exists()


def test_what_a_task_prints_does_not_reach_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, FakeExperiment(works={"cg": lambda: sys.stdout.write("noise") and None}))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "noise")


def test_names_must_be_unique(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unique, got these more than once: figure-1-small-0-cg"):
        run(tmp_path, FakeExperiment(solvers=["cg", "newton", "cg"]))


def test_an_interrupt_keeps_what_is_finished_even_where_a_solver_caught_it(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    fake = FakeExperiment(works={"cg": swallowed})
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, fake)
    assert signal.getsignal(signal.SIGINT) is before
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [
        "figure-1-small-0-cgs-exact.json"
    ]
    rest = FakeExperiment()
    run(tmp_path, rest)
    assert rest.done == ["figure-1-small-0-cg", "figure-1-small-0-newton"]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "other", FakeExperiment(status="INTERRUPTED"))
    assert not (tmp_path / "other" / "runs").exists()


def test_a_killed_run_continues_with_the_missing_tasks(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    command = [sys.executable, "-m", "tests.experiments", str(out), str(log)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE)
    # the third task has begun, so two are kept
    while process.poll() is None and not (log.exists() and len(log.read_text().split()) >= 3):
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    finished = {
        path.stem.removeprefix("figure-1-small-0-") for path in (out / "runs").glob("*.json")
    }
    assert 2 <= len(finished) < 5
    assert not (out / "report.html").exists()
    log.unlink()
    slow_run(out, log)
    assert (
        set(log.read_text().split())
        == {"cgs-exact", "cgs-armijo", "cg", "newton", "spg"} - finished
    )
    assert (out / "report.html").exists()


def test_a_log_is_short_and_counts_what_it_left_out(tmp_path: Path) -> None:
    _, said = run(tmp_path, FakeExperiment(works={"cg": fail}), scale=Scale(seeds=20))
    assert sum(": failed: " in line for line in said.splitlines()) == 20
    assert re.search(r"^60 of 60 tasks done in 0:0\d: 40 converged, 20 failed$", said, re.MULTILINE)
    assert "\x1b" not in said


@pytest.mark.parametrize("width", [40, 120])
def test_the_bar_fits_the_terminal(width: int, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=width, height=20, force_terminal=True, color_system=None)
    run_paper(
        [FakeExperiment(), FakeExperiment(name="theory")],
        ONE,
        tmp_path,
        progress=RunProgress(console),
    )
    # what a terminal would show: escape codes and returns are no letters
    lines = (
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
    )
    bars = [line for line in lines if "[6/6] theory" in line]
    assert bars
    assert max(len(line) for line in bars) <= width
