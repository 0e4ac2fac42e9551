"""`python -m experiments` as a user runs it: the paper with experiments that take no time, and the benchmarks."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from condgrad.datasets import DataMismatch
from experiments import __main__ as command
from experiments.benchmarks import run
from experiments.paper.tasks import Scale, Task
from tests.experiments import FakeExperiment
from tests.experiments.test_run import fail, swallowed

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The experiments that the command runs: a list to fill."""
    fakes: list[Any] = []
    monkeypatch.setattr(command, "experiments", lambda _: fakes)
    monkeypatch.chdir(tmp_path)
    return fakes


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    words = [str(argument) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["experiments", *words])
    # consoles hold the streams that were there when they were made
    for name in ("output", "errors"):
        monkeypatch.setattr(getattr(command, name), "_file", None)
    return CliRunner().invoke(command.app, words, env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_a_good_run_ends_with_the_claims_and_the_files(
    use: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    use.append(FakeExperiment(drawn=True))
    ended = invoke(monkeypatch, "paper", "--seeds", 1)
    assert ended.exit_code == 0, ended.output
    assert "holds    CGS is fast" in ended.stdout
    for name in ("report.html", "figure-1 (.png, .pdf)", "curves.csv", "results.json"):
        assert str(Path("out") / name) in ended.stdout
    assert "3 of 3 tasks done" in ended.stderr
    assert "python -m experiments paper --seeds 1" in Path("out", "report.html").read_text("utf-8")


def test_json_is_alone_on_standard_output(use: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    use.append(FakeExperiment())
    ended = invoke(monkeypatch, "paper", "--json", "--quick", "--out", "there")
    assert json.loads(ended.stdout) == json.loads(Path("there", "results.json").read_text("utf-8"))
    assert json.loads(ended.stdout)["seeds"] == [0]


def test_a_task_that_fails_ends_with_3_and_one_sentence(
    use: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    use.append(FakeExperiment(works={"cg": fail}))
    ended = invoke(monkeypatch, "paper", "--seeds", 1)
    assert ended.exit_code == 3
    assert "small, draw 0: CG: failed: ArithmeticError: the matrix is singular\n" in ended.stderr
    assert "report.html" in ended.stdout
    use[:] = [FakeExperiment(status="TIME_LIMIT")]
    assert invoke(monkeypatch, "paper", "--out", "other").exit_code == 0


@pytest.mark.parametrize(
    ("options", "advice"),
    [((), "the same command to"), (("--fresh",), "the same command without --fresh to")],
)
def test_an_interrupt_says_how_to_continue(
    options: Sequence[str], advice: str, use: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    use.append(FakeExperiment(works={"cg": swallowed}))
    ended = invoke(monkeypatch, "paper", "--seeds", 1, *options)
    assert ended.exit_code == 130
    assert f"interrupted, finished runs kept; run {advice} continue" in ended.stderr
    assert ended.stdout == ""
    use[:] = [FakeExperiment()]
    assert "1 kept from an earlier run" in invoke(monkeypatch, "paper", "--seeds", 1).stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--figure", "7"), "'7' is not one of '1', '2', '3', 'theory'"),
        (("--seeds", "0"), "--seeds"),
        (("--out", "taken"), "--out taken is a file: give a folder"),
        (("--out", "taken/deep"), "--out taken/deep cannot be written: Not a directory"),
    ],
)
def test_bad_input_ends_with_2_and_one_sentence(
    options: Sequence[str], sentence: str, use: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    use.append(FakeExperiment())
    Path("taken").write_text("mine", "utf-8")
    ended = invoke(monkeypatch, "paper", *options)
    assert ended.exit_code == 2
    assert sentence in " ".join(ended.stderr.replace("│", " ").split())
    assert Path("taken").read_text("utf-8") == "mine"


def test_a_data_file_that_is_another_one_is_bad_input(
    use: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Misled(FakeExperiment):
        def tasks(self, scale: Scale) -> list[Task]:
            raise DataMismatch("colon.npz has another sha256: delete it")

    use.append(Misled())
    ended = invoke(monkeypatch, "paper")
    assert (ended.exit_code, "colon.npz has another sha256: delete it" in ended.stderr) == (2, True)


def test_the_parts_are_those_of_the_paper_in_its_order() -> None:
    parts = list(command.PaperPart)
    assert [each.name for each in command.experiments(parts)] == [
        "figure-1",
        "figure-2",
        "figure-3",
        "theory",
    ]
    assert [each.name for each in command.experiments([parts[3], parts[1]])] == [
        "figure-2",
        "theory",
    ]


def test_a_real_part_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    words = ["paper", "--quick", "--figure", "theory", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *words],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    [experiment] = json.loads(done.stdout)["experiments"]
    verdicts = [claim["verdict"] for claim in experiment["claims"]]
    assert "not tested" not in verdicts
    assert (tmp_path / "report.html").stat().st_size > 1_000_000


def test_the_list_has_every_benchmark_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(invoke(monkeypatch, "bench").stdout.split())
    found = command.benchmarks()
    assert {"auto", "elastic_net", "group_lasso", "overhead", "transport"} <= found.keys()
    for name, purpose in found.items():
        assert f"{name} {purpose}" in words
        assert callable(importlib.import_module(f"experiments.benchmarks.{name}").main)


def test_arguments_reach_a_benchmark_whose_exit_code_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: list[list[str]] = []
    results = iter([7, -15])

    def noted(words: list[str], **_: object) -> Any:
        run.append(words)
        return subprocess.CompletedProcess(words, next(results))

    monkeypatch.setattr(subprocess, "run", noted)
    assert (
        invoke(monkeypatch, "bench", "newton-grid", "--", "--n", 5, "a b", "--", "-x").exit_code
        == 7
    )
    assert run[0][1:] == ["-m", "experiments.benchmarks.newton_grid", "--n", "5", "a b", "--", "-x"]
    assert invoke(monkeypatch, "bench", "transport").exit_code == 143


@pytest.mark.parametrize("name", ["nothing", "__init__", "../conftest", ""])
def test_an_unknown_benchmark_is_bad_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = invoke(monkeypatch, "bench", name)
    assert ended.exit_code == 2
    assert ended.stderr.startswith(f"no benchmark {name!r}: there are auto, ")


def test_auto_lists_the_worst_ratio_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small part of the grid, for real: every method is run to the same tolerance."""
    auto = importlib.import_module("experiments.benchmarks.auto")
    monkeypatch.setattr(sys, "argv", ["auto", "--only", "20 x 20", "--cap", "0.5"])
    run(auto.main)
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "nobody solved" in last
    common = {"solved": True, "took": "auto", "method": "spg"}
    ratios = ((3.0, 1.0), (0.09, 0.01), (2.0, 1.0))
    auto.show(
        [
            {"problem": f"p{ratio}", "ratio": ratio, "auto": ratio, "best": best, **common}
            for ratio, best in ratios
        ]
    )
    lines = capsys.readouterr().out.strip().splitlines()[1:]
    assert [line.split()[-1] for line in lines[:3]] == ["p0.09", "p2.0", "p3.0"]
    assert [line.split()[-2] for line in lines[:3]] == ["False", "True", "True"]
    assert lines[-1].startswith("2 of 2 ratios that count are above 1.5")
