"""`condgrad paper` through its entry point, with experiments that take no time and with a real one."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from condgrad.cli.outcome import output
from condgrad.cli.paper import Asked, experiments
from condgrad.datasets import DataMismatch
from condgrad.paper.chapters import Claim, Verdict
from condgrad.paper.pieces import Piece, Scale
from tests.cli.conftest import Command
from tests.paper.fakes import Fake
from tests.paper.test_run import fail, swallowed

LONG = "In [all] regimes CGS needs fewer iterations than CG, whatever the engine of its linear programs, and less time."
CLAIMS = [Claim(LONG, "x", verdict, "y") for verdict in Verdict]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """The experiments that the command runs: a list to fill."""
    fakes: list[Fake] = []
    monkeypatch.setattr(importlib.import_module("condgrad.cli.paper"), "experiments", lambda _: fakes)
    return fakes


@pytest.mark.parametrize("width", [80, 120])
def test_a_good_run_ends_with_the_claims_and_the_files(
    width: int, use: list[Fake], condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "width", width)
    use.append(Fake(claims=CLAIMS, drawn=True))
    ended = condgrad_here("paper", "--seeds", 1)
    assert ended.code == 0
    lines = ended.stdout.splitlines()
    assert max(map(len, lines)) <= width
    for verdict in Verdict:
        assert any(line.startswith(f"{verdict.value} ") for line in lines)
    assert "In [all] regimes" in ended.stdout
    for name in ("report.html", "figure-1 (.png, .pdf)", "curves.csv", "results.json"):
        assert any(line.endswith(str(Path("out") / name)) for line in lines)
    for name in ("report.html", "figure-1.png", "figure-1.pdf", "curves.csv", "results.json"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert "3 of 3 pieces done" in ended.stderr
    assert "condgrad paper --seeds 1" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_json_is_alone_on_standard_output(use: list[Fake], condgrad_here: Command, tmp_path: Path) -> None:
    use.append(Fake())
    ended = condgrad_here("paper", "--json", "--quick", "--out", "there")
    assert ended.code == 0
    assert json.loads(ended.stdout) == json.loads((tmp_path / "there" / "results.json").read_text("utf-8"))
    assert "3 of 3 pieces done" in ended.stderr
    assert json.loads(ended.stdout)["seeds"] == [0]
    more = condgrad_here("paper", "--json", "--quick", "--seeds", 2, "--out", "there")
    assert json.loads(more.stdout)["seeds"] == [0, 1]


def test_a_piece_that_fails_ends_with_3_and_one_sentence(use: list[Fake], condgrad_here: Command) -> None:
    use.append(Fake(works={"cg": fail}))
    ended = condgrad_here("paper", "--seeds", 1)
    assert ended.code == 3
    assert "condgrad: cg on draw 0: failed: ArithmeticError: the matrix is singular\n" in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "report.html" in ended.stdout


def test_a_solver_at_its_time_limit_is_no_failure(use: list[Fake], condgrad_here: Command) -> None:
    use.append(Fake(status="TIME_LIMIT"))
    assert condgrad_here("paper").code == 0


@pytest.mark.parametrize(
    ("options", "advice"), [((), "the same command to"), (("--fresh",), "the same command without --fresh to")]
)
def test_an_interrupt_says_how_to_continue(
    options: Sequence[str], advice: str, use: list[Fake], condgrad_here: Command, tmp_path: Path
) -> None:
    use.append(Fake(works={"cg": swallowed}))
    ended = condgrad_here("paper", "--seeds", 1, *options)
    assert ended.code == 130
    assert f"interrupted, finished pieces kept; run {advice} continue" in ended.stderr
    assert ended.stdout == ""
    assert len(list((tmp_path / "out" / "pieces").iterdir())) == 1
    use[:] = [Fake()]
    again = condgrad_here("paper", "--seeds", 1)
    assert again.code == 0
    assert "1 kept from an earlier run" in again.stderr
    assert use[0].done == ["figure-1-cg-0", "figure-1-newton-0"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--figure", "7"), "'7' is not one of '1', '2', '3', 'theory'"),
        (("--seeds", "0"), "greater than or equal to 1"),
        (("--seeds", "few"), "--seeds"),
        (("--out", "taken"), "--out taken is a file: give a folder"),
        (("--out", "taken/deep"), "--out taken/deep cannot be written: Not a directory"),
        (("--out", "blocked"), "--out blocked cannot be written: "),
        (("surplus",), "surplus"),
    ],
)
def test_bad_input_ends_with_2_and_one_sentence(
    options: Sequence[str], sentence: str, use: list[Fake], condgrad_here: Command, tmp_path: Path
) -> None:
    use.append(Fake())
    (tmp_path / "taken").write_text("mine", "utf-8")
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "pieces").write_text("mine", "utf-8")
    ended = condgrad_here("paper", *options)
    assert ended.code == 2
    # the box around a usage error folds its sentence
    assert sentence in " ".join(ended.stderr.replace("│", " ").split())
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert (tmp_path / "taken").read_text("utf-8") == "mine"


def test_a_data_file_that_is_another_one_is_bad_input(use: list[Fake], condgrad_here: Command) -> None:
    class Misled(Fake):
        def pieces(self, scale: Scale) -> list[Piece]:
            raise DataMismatch("colon.npz has another sha256: delete it")

    use.append(Misled())
    ended = condgrad_here("paper")
    assert ended.code == 2
    assert ended.stderr.endswith("condgrad: colon.npz has another sha256: delete it\n")


def test_the_parts_are_those_of_the_paper_in_its_order() -> None:
    assert [each.name for each in experiments(list(Asked))] == ["figure-1", "figure-2", "figure-3", "theory"]
    assert [each.name for each in experiments([Asked.THEORY, Asked.TOY])] == ["figure-2", "theory"]


def test_a_part_asked_twice_is_run_once(condgrad_here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[Asked]] = []

    def noted(names: Sequence[Asked]) -> list[Fake]:
        asked.append(names)
        return []

    monkeypatch.setattr(importlib.import_module("condgrad.cli.paper"), "experiments", noted)
    assert condgrad_here("paper", "--figure", "2", "--figure", "theory", "--figure", "2").code == 0
    assert condgrad_here("paper").code == 0
    assert asked == [[Asked.TOY, Asked.THEORY], list(Asked)]


def test_a_real_part_runs_and_is_kept(condgrad: Command, condgrad_here: Command, tmp_path: Path) -> None:
    ended = condgrad("paper", "--quick", "--figure", "theory", "--json")
    assert ended.code == 0, ended.stderr
    [experiment] = json.loads(ended.stdout)["experiments"]
    assert experiment["name"] == "theory"
    assert experiment["claims"]
    assert all(claim["verdict"] != "not tested" for claim in experiment["claims"])
    assert (tmp_path / "out" / "report.html").stat().st_size > 1_000_000
    assert "\x1b" not in ended.stderr
    again = condgrad_here("paper", "--quick", "--figure", "theory")
    assert again.code == 0
    assert "kept from an earlier run, 0 new" in again.stderr
    assert max(map(len, again.stdout.splitlines())) <= 80
