"""A run of experiments: what is done, kept, done again, and written; and what is seen meanwhile."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from condgrad.paper.chapters import Chapter
from condgrad.paper.display import Estimate, LiveDisplay, PlainDisplay, display_for
from condgrad.paper.machine import Machine, this_machine, thread_pools, versions
from condgrad.paper.pieces import Curve, Scale
from condgrad.paper.run import Outcome, run_paper
from tests.paper.fakes import Fake, curve, no_constants, slow_run

ONE = Scale(seeds=1)
REPOSITORY = Path(__file__).parents[2]


def run(out: Path, *experiments: Fake, scale: Scale = ONE, fresh: bool = False) -> tuple[Outcome, str]:
    """A run, and what was said in it."""
    said = io.StringIO()
    outcome = run_paper(experiments, scale, out, progress=PlainDisplay(Console(file=said, width=80)), fresh=fresh)
    return outcome, said.getvalue()


def fail() -> None:
    raise ArithmeticError("the matrix is singular\nand more lines")


def test_all_files_are_there_and_nothing_else(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path / "deep" / "out", Fake(drawn=True))
    out = tmp_path / "deep" / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "curves.csv",
        "figure-1.pdf",
        "figure-1.png",
        "pieces",
        "report.html",
        "results.json",
    ]
    assert outcome.page == out / "report.html"
    assert sorted(outcome.figures) == [out / "figure-1.pdf", out / "figure-1.png"]
    assert not outcome.failures
    assert all(path.stat().st_mtime_ns <= outcome.page.stat().st_mtime_ns for path in out.iterdir())


def test_the_results_say_where_how_and_what(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, Fake(), scale=Scale(quick=True, seeds=2))
    results = json.loads((tmp_path / "results.json").read_text("utf-8"), parse_constant=no_constants)
    assert results == outcome.results
    assert results["quick"] is True
    assert results["command"] == "condgrad paper"
    assert results["seeds"] == [0, 1]
    assert {"python", "condgrad", "numpy", "scipy"} <= results["versions"].keys()
    assert {"cpu", "cores", "threads", "memory_gb", "system"} == results["machine"].keys()
    [experiment] = results["experiments"]
    assert experiment["claims"] == [{"claim": "CGS is fast", "measured": "0.2 s", "verdict": "holds", "why": "it is"}]
    assert experiment["tables"][0]["rows"][0] == ["cgs-exact", "1.5"]
    assert len(experiment["curves"]) == 6
    last = experiment["curves"][-1]
    assert (last["solver"], last["seed"], last["status"]) == ("newton", 1, "CONVERGED")
    assert (last["value"], last["lower_bound"], last["facts"]) == (1.5, 1.4, {"ridge": 0.1})


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    first, _ = run(tmp_path, Fake())
    again = Fake()
    second, said = run(tmp_path, again)
    assert again.done == []
    assert "figure-1: 3 kept from an earlier run, 0 new" in said
    assert second.results["experiments"] == first.results["experiments"]


def test_more_seeds_add_pieces_and_fresh_does_all(tmp_path: Path) -> None:
    run(tmp_path, Fake())
    more, fresh = Fake(), Fake()
    run(tmp_path, more, scale=Scale(seeds=2))
    assert more.done == ["figure-1-cgs-exact-1", "figure-1-cg-1", "figure-1-newton-1"]
    run(tmp_path, fresh, fresh=True)
    assert len(fresh.done) == 3


def test_changed_settings_and_damaged_files_are_done_again_and_told(tmp_path: Path) -> None:
    run(tmp_path, Fake())
    changed = Fake(settings={"tolerance": 1e-9})
    _, said = run(tmp_path, changed)
    assert len(changed.done) == 3
    assert "figure-1: 3 again (settings or version changed), 0 new" in said
    (tmp_path / "pieces" / "figure-1-cg-0.json").write_text("{", "utf-8")
    damaged = Fake(settings={"tolerance": 1e-9})
    _, said = run(tmp_path, damaged)
    assert damaged.done == ["figure-1-cg-0"]
    assert "2 kept from an earlier run, 1 again (file damaged), 0 new" in said


def test_pieces_timed_on_another_machine_are_told(tmp_path: Path) -> None:
    run(tmp_path, Fake())
    path = tmp_path / "pieces" / "figure-1-cg-0.json"
    record = json.loads(path.read_text("utf-8"))
    assert record["machine"] == this_machine().fingerprint()
    record["machine"]["cpu"] = "abacus"
    path.write_text(json.dumps(record), "utf-8")
    _, said = run(tmp_path, Fake())
    assert "1 of the kept pieces were timed on another machine" in said


def test_a_piece_that_raises_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    outcome, said = run(tmp_path, Fake(works={"cg": fail}), Fake(name="theory"))
    assert outcome.failures == ["cg on draw 0: failed: ArithmeticError: the matrix is singular"]
    assert "cg on draw 0: failed" in said
    curves = outcome.results["experiments"][0]["curves"]
    assert [each["status"] for each in curves] == ["CONVERGED", "FAILED", "CONVERGED"]
    assert (curves[1]["problem"], curves[1]["solver"]) == ("small", "cg")
    assert curves[1]["note"] == "ArithmeticError: the matrix is singular"
    assert outcome.failures[0] in outcome.parts[0].chapter.notes
    assert outcome.parts[0].chapter.summary == "2 curves."
    assert len(outcome.results["experiments"][1]["curves"]) == 3
    mended = Fake()
    second, _ = run(tmp_path, mended)
    assert mended.done == ["figure-1-cg-0"]
    assert not second.failures


@pytest.mark.parametrize(("reason", "kept"), [("missing", 0), ("too slow", 3)])
def test_a_solver_that_was_missing_is_asked_again(reason: str, kept: int, tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, Fake(status="SKIPPED", facts={"reason": reason}))
    assert not outcome.failures
    again = Fake()
    run(tmp_path, again)
    assert len(again.done) == 3 - kept


def test_a_chapter_that_raises_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    class Mute(Fake):
        def chapter(self, curves: Sequence[Curve]) -> Chapter:
            raise KeyError("words")

    outcome, _ = run(tmp_path, Mute(), Fake(name="theory", drawn=True))
    [sentence] = outcome.failures
    assert sentence.startswith("figure-1: the chapter failed: KeyError: 'words'; ")
    assert sentence.endswith("--fresh may help")
    assert outcome.parts[0].chapter.summary.startswith("This chapter could not be written")
    assert (tmp_path / "theory.png").exists()


def test_what_a_piece_prints_does_not_reach_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def noisy() -> None:
        sys.stdout.write("noise")

    run(tmp_path, Fake(works={"cg": noisy}))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "noise")


def test_names_must_be_unique(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unique, got these more than once: figure-1-cgs-exact-0, figure-1-cg-0"):
        run(tmp_path, Fake(), Fake())


def swallowed() -> None:
    """As our loop does: an interrupt ends the solver, not the program."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5.0)
    except KeyboardInterrupt:
        return
    raise AssertionError("no interrupt came")


def test_an_interrupt_keeps_what_is_finished_even_where_a_solver_caught_it(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    fake = Fake(works={"cg": swallowed})
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, fake)
    assert signal.getsignal(signal.SIGINT) is before
    assert fake.done == ["figure-1-cgs-exact-0", "figure-1-cg-0"]
    assert [path.name for path in (tmp_path / "pieces").iterdir()] == ["figure-1-cgs-exact-0.json"]
    assert not (tmp_path / "report.html").exists()
    rest = Fake()
    run(tmp_path, rest)
    assert rest.done == ["figure-1-cg-0", "figure-1-newton-0"]


def test_an_interrupted_curve_is_not_a_finished_piece(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Fake(status="INTERRUPTED"))
    assert not (tmp_path / "pieces").exists()


def test_a_killed_run_continues_with_the_missing_pieces(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    command = [sys.executable, "-m", "tests.paper.fakes", str(out), str(log)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE)
    # the third piece has begun, so two are kept
    while process.poll() is None and not (log.exists() and len(log.read_text().split()) >= 3):
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode != 0
    finished = {path.stem.split("-", 2)[2].removesuffix("-0") for path in (out / "pieces").glob("*.json")}
    assert 2 <= len(finished) < 5
    assert not (out / "report.html").exists()
    log.unlink()
    slow_run(out, log)
    assert set(log.read_text().split()) == {"cgs-exact", "cgs-armijo", "cg", "newton", "spg"} - finished
    assert (out / "report.html").exists()


@given(
    expected=st.lists(st.floats(0.1, 100.0), min_size=1, max_size=20),
    ratio=st.floats(0.01, 100.0),
)
def test_the_estimate_learns_how_long_pieces_really_take(expected: list[float], ratio: float) -> None:
    estimate = Estimate(sum(expected))
    now, left = 0.0, sum(expected)
    assert estimate.seconds_left(now) == pytest.approx(left)
    for seconds in expected:
        estimate.start(seconds, now)
        now += ratio * seconds
        assert estimate.seconds_left(now) >= 0.0
        estimate.finish(now)
        left -= seconds
        # between what the pieces said and what was seen
        low, high = sorted((left, ratio * left))
        assert low - 1e-6 * (1 + low) <= estimate.seconds_left(now) <= high + 1e-6 * (1 + high)
    assert estimate.seconds_left(now) == pytest.approx(0.0, abs=1e-6)


def test_a_log_is_short_and_counts_what_it_left_out(tmp_path: Path) -> None:
    """Pieces that are done at once have no lines of their own; one that failed has."""
    _, said = run(tmp_path, Fake(works={"cg": fail}), scale=Scale(seeds=20))
    lines = [line for line in said.splitlines() if line.startswith("[")]
    assert len(lines) == 20
    assert all(": failed, " in line for line in lines)
    assert re.search(r"^60 of 60 pieces done in 0:0\d: 40 converged, 20 failed$", said, re.MULTILINE)
    again, kept = run(tmp_path, Fake(), scale=Scale(seeds=20))
    assert not again.failures
    assert re.search(r"^20 of 20 pieces done in 0:0\d: 20 converged$", kept, re.MULTILINE)


def test_a_log_of_long_pieces_has_a_line_for_each_and_no_escape_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condgrad.paper.display.QUIET_SECONDS", 0.0)
    _, said = run(tmp_path, Fake(works={"cg": fail}))
    lines = [line for line in said.splitlines() if line.startswith("[")]
    assert [line.split(":")[0] for line in lines] == ["[1/3] figure-1", "[2/3] figure-1", "[3/3] figure-1"]
    assert re.fullmatch(r"\[1/3\] figure-1: cgs-exact on draw 0: converged, \d+\.\d s, about 0:0\d left", lines[0])
    assert "\x1b" not in said


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_bars_fit_the_terminal(width: int, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=width, height=20, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    run_paper([Fake(), Fake(name="theory")], ONE, tmp_path, progress=display)
    # what a terminal would show: escape codes and returns are no letters
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= width
    assert any("figure-1" in line and "3/3" in line for line in lines)
    assert any("theory" in line and "3/3" in line for line in lines)


def test_while_a_piece_runs_its_label_and_the_time_left_are_shown() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=80, height=20, force_terminal=True, color_system=None)
    display, [piece] = LiveDisplay(console), Fake(solvers=["cg"]).pieces(ONE)
    display.begin(90.0, {"figure-1": 1}, {"figure-1": 4})
    display.start("figure-1", piece)
    display.finish("figure-1", piece, curve("cg"))
    display.end()
    assert re.search(r"0:\d\d gone, about 1:\d\d left: cg on draw 0", screen.getvalue())
    assert "3/4" in screen.getvalue()


def test_bars_are_for_terminals_alone() -> None:
    assert isinstance(display_for(Console(file=io.StringIO())), PlainDisplay)
    assert isinstance(display_for(Console(file=io.StringIO(), force_terminal=True)), LiveDisplay)


def test_the_machine_is_described_whatever_it_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_machine()
    assert here.cores >= 1
    assert here.fingerprint()["blas_threads"] >= 1
    unknown = Machine("", 1, {}, None, "")
    assert unknown.described()["memory"] == unknown.described()["threads"] == "unknown"
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert thread_pools() == {}
    assert versions()["python"] == sys.version.split()[0]
