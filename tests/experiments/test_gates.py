"""The gates: which row fails when, and one real run of an old commit against these files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.gates import rules
from experiments.gates.jobs import Minimization, Proof
from experiments.gates.random_rows import drawn_settings, job_of, random_rows
from experiments.gates.rows import rows_of_benchmarks
from experiments.gates.rules import Kind, Measured, failure
from experiments.gates.run import Judged, Outcome
from experiments.gates.sides import ROOT, UnknownCommit, commit_of, dependencies_of

FIT = Kind.FIT
SERIES = Kind.SERIES


def took(
    milliseconds: float, *, converged: bool = True, value: float = 1.0, gap: float = 1e-6
) -> Measured:
    return Measured(1e-3 * milliseconds, Proof(converged, [0.0], [value], [gap]))


@pytest.mark.parametrize(
    ("kind", "old", "new", "passes"),
    [
        (FIT, 10.0, 12.9, True),
        (FIT, 10.0, 13.1, False),
        (FIT, 4.9, 7.8, True),
        (FIT, 4.9, 8.0, False),
        (FIT, 0.1, 3.0, True),
        (FIT, 0.1, 3.2, False),
        (SERIES, 10.0, 15.9, True),
        (SERIES, 10.0, 16.1, False),
        (SERIES, 1.0, 1.7, False),
    ],
)
def test_times_have_limits(kind: Kind, old: float, new: float, passes: bool) -> None:
    assert (failure(kind, took(old), took(new)) == "") is passes


def test_what_old_certifies_new_must_certify() -> None:
    loose = took(1.0, converged=False)
    assert failure(FIT, took(1.0), loose) == "old is certified and new is not"
    assert failure(FIT, loose, loose) == ""
    # old stopped short, so that its time says nothing of the whole work
    assert failure(FIT, loose, took(100.0)) == ""


def test_an_error_of_new_fails_whatever_old_does() -> None:
    broken = Measured(error="ValueError: no")
    assert failure(FIT, took(1.0), broken) == "new fails: ValueError: no"
    assert failure(FIT, broken, broken) == "both fail: ValueError: no"
    assert failure(FIT, broken, took(1.0)) == ""


def test_proofs_that_exclude_each_other_fail() -> None:
    low = took(1.0, value=0.9)
    high = took(1.0, value=1.0)
    for old, new in ((low, high), (high, low)):
        assert failure(FIT, old, new) == "the proofs of old and new contradict each other"
    assert failure(FIT, took(1.0, value=0.9), took(1.0, value=1.0, gap=0.2)) == ""
    # in float32 both are right as far as rounding goes
    assert failure(FIT, took(1.0), took(1.0, value=1.00005), precision="float32") == ""
    # searches that chose other radii solved other problems
    other = Measured(1e-3, Proof(True, [7.0], [5.0], [0.0]))
    assert failure(SERIES, took(1.0), other) == ""


def test_new_must_be_ahead_of_the_rival() -> None:
    assert failure(FIT, took(1.0), took(1.0), rival=0.9e-3).startswith("behind skglm")
    assert failure(FIT, took(1.0), took(1.0), rival=1.1e-3) == ""


def test_the_mean_fails_where_no_row_does() -> None:
    rows = [Judged(f"row {k}", "fits", took(10.0), took(12.8)) for k in range(3)]
    outcome = Outcome("old", 0, rows)
    assert not outcome.failures
    assert math.isclose(outcome.mean, 1.28)
    assert not outcome.passed
    assert Outcome("old", 0, [*rows, Judged("fast", "paths", took(10.0), took(5.0))]).passed
    assert not Outcome("old", 0, []).passed


def test_summaries_leave_out_what_is_not_compared() -> None:
    rows = [
        Judged("one", "fits", took(10.0), took(20.0)),
        Judged("two", "fits", took(10.0), took(5.0)),
        Judged("three", "fits", took(10.0, converged=False), took(1.0)),
    ]
    fits, everything = Outcome("old", 0, rows).summaries
    assert (fits.group, fits.rows, fits.compared) == ("fits", 3, 2)
    assert math.isclose(fits.mean, 1.0)
    assert fits.worst is rows[0]
    assert everything.group == "all"
    assert math.isnan(rules.geometric_mean([]))


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in [*rows_of_benchmarks(), *random_rows(300, 0)]]
    assert len(set(names)) == len(names) > 450
    groups = {row.group for row in rows_of_benchmarks(quick=True)}
    assert groups == {row.group for row in rows_of_benchmarks()}


def test_a_seed_and_a_number_make_the_same_problem_again() -> None:
    settings = [drawn_settings(3, number) for number in range(100)]
    assert {each.call for each in settings} == {"minimize", "fit", "path"}
    assert {each.region for each in settings} == {"l1", "positive", "box", "simplex"}
    assert any(each.ridge == 0.0 for each in settings)
    one = next(each for each in settings if each.call == "minimize")
    jobs = [job_of(one), job_of(drawn_settings(3, one.number))]
    first, second = (job for job in jobs if isinstance(job, Minimization))
    np.testing.assert_array_equal(first.y, second.y)


def test_an_unknown_commit_is_a_sentence() -> None:
    with pytest.raises(UnknownCommit, match="--against nothing is no commit"):
        commit_of("nothing")
    assert "numpy>=2.0" in dependencies_of(ROOT)


@pytest.mark.slow
def test_these_files_pass_against_their_own_commit(tmp_path: Path) -> None:
    """For real: a worktree, two processes, a table, and nothing left behind."""
    out = tmp_path / "gates.json"
    words = [
        "--against",
        "HEAD",
        "--quick",
        "--random",
        "0",
        "--rows",
        "200x1000",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "gates", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all gates are passed" in done.stdout
    written = json.loads(out.read_text("utf-8"))
    assert all(row["old"]["proof"]["converged"] for row in written["rows"])
    assert "condgrad-gates" not in subprocess.check_output(
        ["git", "worktree", "list"], cwd=ROOT, text=True
    )


@pytest.mark.slow
def test_rows_that_match_nothing_are_bad_input() -> None:
    command = [sys.executable, "-m", "experiments", "gates", "--rows", "no such row"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--rows no such row matches none of" in done.stderr
