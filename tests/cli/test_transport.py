"""`condgrad transport` through its entry point: plans judged by others, mistakes answered in one sentence."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pandas
import pytest
from PIL import Image
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import condgrad
from tests.cli.conftest import Command

rng = np.random.default_rng(0)
XS, XT = rng.normal(size=(12, 2)), rng.normal(loc=(2.0, 1.0), size=(9, 2))


@pytest.fixture
def clouds(tmp_path: Path) -> tuple[Path, Path]:
    """Two small clouds, one with a header and one with tabs."""
    np.savetxt(tmp_path / "source.csv", XS, delimiter=",", header="x,y", comments="", fmt="%.17g")
    np.savetxt(tmp_path / "target.tsv", XT, delimiter="\t", fmt="%.17g")
    return tmp_path / "source.csv", tmp_path / "target.tsv"


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def negative_entropy(plan: Any) -> float:
    return float(np.sum(np.where(plan > 0, plan * np.log(np.maximum(plan, 1e-300)), 0.0)))


@pytest.mark.usefixtures("drawn")
def test_two_clouds(condgrad_here: Command, clouds: tuple[Path, Path], tmp_path: Path) -> None:
    """Marginals, value and certificate against POT's Sinkhorn; every file as promised."""
    done = condgrad_here("transport", "source.csv", "target.tsv", "--entropy", "0.1")
    assert done.code == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("Certified: this plan is within ")
    out = tmp_path / "condgrad-transport"
    assert {file.name for file in out.iterdir()} == {
        "plan.npy",
        "plan.csv",
        "mapped.csv",
        "certificate.json",
        "trace.csv",
        "picture.png",
    }
    plan = np.load(out / "plan.npy")
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 12, rtol=1e-9)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 9, rtol=1e-9)
    np.testing.assert_array_equal(np.array(table(out / "plan.csv"), dtype=float), plan)
    cost = cdist(XS, XT, "sqeuclidean")
    judge = ot.sinkhorn(
        np.full(12, 1 / 12), np.full(9, 1 / 9), cost, 0.1, method="sinkhorn_log", stopThr=1e-13
    )
    optimum = (cost * judge).sum() + 0.1 * negative_entropy(judge)
    facts = json.loads((out / "certificate.json").read_text())
    assert facts["lower_bound"] <= optimum + 1e-9
    assert optimum - 1e-9 <= facts["value"]
    assert facts["gap"] <= 1e-6 * max(1.0, abs(facts["value"]))
    assert facts["value"] == pytest.approx(
        (cost * plan).sum() + 0.1 * negative_entropy(plan), rel=1e-9
    )
    assert facts["status"] == "CONVERGED"
    assert facts["inputs"]["source"] == {"file": "source.csv", "bytes": clouds[0].stat().st_size}
    assert (
        facts["read_as"]["source.csv"]
        == "2 columns (x, y), 12 rows, first line taken as the header"
    )
    assert set(facts["versions"]) >= {"condgrad", "numpy", "python"}
    mapped = table(out / "mapped.csv")
    assert mapped[0] == ["", "0", "1"]
    assert [row[0] for row in mapped[1:]] == list(map(str, range(12)))
    np.testing.assert_allclose(np.array(mapped[1:], dtype=float)[:, 1:], 12 * plan @ XT, rtol=1e-9)
    trace = table(out / "trace.csv")
    assert float(trace[-1][trace[0].index("lower_bound")]) == facts["lower_bound"]
    assert pixels(out / "picture.png").shape == (780, 1800, 3)


def test_no_entropy_is_an_assignment(condgrad_here: Command, tmp_path: Path) -> None:
    """Equal weights, a square cost, no entropy: SciPy's assignment is the judge."""
    cost = np.random.default_rng(1).uniform(size=(15, 15))
    np.save(tmp_path / "cost.npy", cost)
    done = condgrad_here(
        "transport",
        "--cost",
        "cost.npy",
        "--entropy",
        0,
        "--json",
        "--no-picture",
        "--out",
        "deep/er",
    )
    assert done.code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["transport_cost"] == pytest.approx(
        cost[linear_sum_assignment(cost)].mean(), rel=1e-9
    )
    assert facts["files"] == ["certificate.json", "plan.csv", "plan.npy", "trace.csv"]
    assert (tmp_path / "deep" / "er" / "plan.npy").exists()


@pytest.mark.usefixtures("clouds")
def test_the_default_entropy_is_stated(condgrad_here: Command) -> None:
    done = condgrad_here(
        "transport", "source.csv", "target.tsv", "--json", "--no-picture", "--metric", "cityblock"
    )
    settings = json.loads(done.stdout)["settings"]
    cost = cdist(XS, XT, "cityblock")
    assert settings["entropy"] == pytest.approx(0.02 * np.median(cost - cost.min()))
    assert settings["entropy_from"] == "0.02 x the median cost"
    assert settings["metric"] == "cityblock"


def test_equal_points(condgrad_here: Command, tmp_path: Path) -> None:
    """No cost at all: nothing to divide by, and still a plan and a picture."""
    (tmp_path / "same.csv").write_text("1,2\n1,2\n1,2\n")
    done = condgrad_here("transport", "same.csv", "same.csv", "--json")
    assert done.code == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "condgrad-transport/plan.npy"), 1 / 9)


@pytest.mark.usefixtures("clouds")
def test_sources_without_weight_stay_blank(condgrad_here: Command, tmp_path: Path) -> None:
    weights = np.array([0.0, *np.ones(11)])
    np.savetxt(tmp_path / "weights.csv", weights)
    done = condgrad_here(
        "transport", "source.csv", "target.tsv", "--source-weights", "weights.csv", "--no-picture"
    )
    assert done.code == 0, done.stderr
    plan = np.load(tmp_path / "condgrad-transport/plan.npy")
    np.testing.assert_allclose(plan.sum(axis=1), weights, atol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), 11 / 9)
    mapped = table(tmp_path / "condgrad-transport/mapped.csv")
    assert mapped[1] == ["0", "", ""]
    np.testing.assert_allclose(np.array(mapped[2:], dtype=float)[:, 1:], (plan @ XT)[1:], rtol=1e-9)


@pytest.mark.usefixtures("clouds")
def test_a_column_that_is_no_coordinate_is_left_out(condgrad_here: Command, tmp_path: Path) -> None:
    """By name or by number, in one cloud or in both; the plan is that of the coordinates alone."""
    rows = [["id", "x", "y"], *([f"p{k}", *map(repr, row)] for k, row in enumerate(XS.tolist()))]
    (tmp_path / "named.csv").write_text("\n".join(map(",".join, rows)))
    (tmp_path / "bare.csv").write_text("\n".join(map(",".join, rows[1:])))
    np.save(tmp_path / "wide.npy", np.column_stack([np.arange(9), XT]))
    refused = condgrad_here("transport", "named.csv", "target.tsv")
    assert refused.code == 2
    assert "named.csv, line 2, column 'id': 'p0' is not a number" in refused.stderr
    assert "--drop id\n" in refused.stderr
    plans = []
    cases = (
        ("source.csv", "target.tsv"),
        ("named.csv", "target.tsv", "--drop", "id"),
        ("bare.csv", "wide.npy", "--drop", 0),
    )
    for case in cases:
        done = condgrad_here("transport", *case, "--no-picture")
        assert done.code == 0, done.stderr
        plans.append(np.load(tmp_path / "condgrad-transport/plan.npy"))
    np.testing.assert_array_equal(plans[1], plans[0])
    np.testing.assert_array_equal(plans[2], plans[0])
    assert "neither source.csv nor target.tsv has such" in condgrad_here(
        "transport", "source.csv", "target.tsv", "--drop", "z"
    ).stderr  # fmt: skip
    assert (
        "no column left"
        in condgrad_here(
            "transport", "source.csv", "target.tsv", *2 * ("--drop", "x"), "--drop", 1
        ).stderr
    )


def test_what_pandas_writes_is_read_as_it_is_meant(condgrad_here: Command, tmp_path: Path) -> None:
    """Its numbers for columns, and its index: none of them is a point or a coordinate; ids come back."""
    frames = [
        pandas.DataFrame(XS, index=[f"p{k}" for k in range(12)]),
        pandas.DataFrame(XT, columns=["left", "right"]),
    ]
    frames[0].to_csv(tmp_path / "a.csv")
    frames[1].to_csv(tmp_path / "b.csv", index=False)
    frames[0].to_parquet(tmp_path / "a.parquet")
    frames[1].to_csv(tmp_path / "b.csv.gz", index=False)
    for case in (("a.csv", "b.csv"), ("a.parquet", "b.csv.gz"), ("a.csv", "b.csv", "--id", "")):
        done = condgrad_here("transport", *case, "--no-picture")
        assert done.code == 0, done.stderr
        assert np.load(tmp_path / "condgrad-transport/plan.npy").shape == (12, 9)
        mapped = pandas.read_csv(tmp_path / "condgrad-transport/mapped.csv", index_col=0)
        assert list(mapped.index) == list(frames[0].index)
        assert list(mapped.columns) == ["left", "right"]
    words = " ".join(done.stdout.split())
    assert "2 columns (left, right), 9 rows, first line taken as the header" in words
    assert "the first column, which has no name, taken as names of the rows" in words
    assert condgrad_here("transport", "a.csv", "b.csv", "--drop", "", "--no-picture").code == 0
    pandas.DataFrame(XT, columns=[2020, 2021]).to_csv(tmp_path / "years.csv", index=False)
    forced = condgrad_here("transport", "years.csv", "years.csv", "--no-header", "--no-picture")
    assert "2 columns (0, 1), 10 rows, no header, so columns are counted from 0" in " ".join(
        forced.stdout.split()
    )


@pytest.mark.usefixtures("clouds")
def test_a_mass_other_than_1_is_named(condgrad_here: Command, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "weights.csv", np.full(12, 63.3 / 12))
    asked = ("transport", "source.csv", "target.tsv", "--no-picture")
    assert "mass" not in condgrad_here(*asked).stdout
    assert ", mass 63.3," in condgrad_here(*asked, "--source-weights", "weights.csv").stdout
    facts = json.loads((tmp_path / "condgrad-transport/certificate.json").read_text())
    assert facts["mass"] == pytest.approx(63.3)


@pytest.mark.parametrize("method", ["newton", "cgs"])
@pytest.mark.usefixtures("clouds")
def test_regularisers_and_cost_with_clouds(
    condgrad_here: Command, tmp_path: Path, method: str
) -> None:
    """Two methods that share no step prove bounds on the same optimum."""
    np.savetxt(tmp_path / "cost.csv", cdist(XS, XT, "sqeuclidean"), delimiter=";", fmt="%.17g")
    asked = (
        "--cost",
        "cost.csv",
        "--entropy",
        0.1,
        "--laplacian",
        1,
        "--neighbors",
        3,
        "--json",
        "--no-picture",
    )
    here = json.loads(
        condgrad_here("transport", "source.csv", "target.tsv", *asked, "--method", method).stdout
    )
    other = json.loads(
        condgrad_here("transport", "source.csv", "target.tsv", *asked[2:], "--tol", 1e-9).stdout
    )
    assert here["lower_bound"] <= other["value"] + 1e-12
    assert other["lower_bound"] <= here["value"] + 1e-12
    assert here["status"] == other["status"] == "CONVERGED"
    assert here["settings"]["neighbors"] == 3


@pytest.mark.usefixtures("clouds")
def test_class_groups_keep_classes_apart(condgrad_here: Command, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(
        "class\n" + "\n".join(["left side"] * 6 + ["right side"] * 6)
    )

    def mixed(weight: float) -> float:
        done = condgrad_here(
            "transport", "source.csv", "target.tsv", "--labels", "labels.csv", "--groups", weight, "--entropy", 0.05,
            "--no-picture",
        )  # fmt: skip
        assert done.code == 0, done.stderr
        plan = np.load(tmp_path / "condgrad-transport/plan.npy")
        return float(np.minimum(plan[:6].sum(axis=0), plan[6:].sum(axis=0)).sum())

    assert mixed(2.0) < 0.8 * mixed(0.0)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("dimension", [1, 5])
def test_pictures_of_other_dimensions(
    condgrad_here: Command, tmp_path: Path, dimension: int
) -> None:
    np.savez(
        tmp_path / "c.npz", s=rng.normal(size=(20, dimension)), t=rng.normal(size=(30, dimension))
    )
    assert condgrad_here("transport", "c.npz:s", "c.npz:t").code == 0
    drawn = pixels(tmp_path / "condgrad-transport/picture.png")
    for color in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):
        assert (abs(drawn - color).sum(axis=2) < 60).sum() > 200


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_a_large_plan_as_an_image(condgrad_here: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "cost.npy", np.random.default_rng(2).uniform(size=(3, 2500)))
    assert condgrad_here("transport", "--cost", "cost.npy", "--tol", 1e-3).code == 0
    assert not (tmp_path / "condgrad-transport/mapped.csv").exists()
    assert pixels(tmp_path / "condgrad-transport/picture.png").shape == (780, 1800, 3)


@pytest.mark.usefixtures("clouds")
def test_not_converged(condgrad_here: Command, tmp_path: Path) -> None:
    """What there is at the limit is written, certified as far as it goes, and the exit code says so."""
    done = condgrad_here(
        "transport",
        "source.csv",
        "target.tsv",
        "--tol",
        0,
        "--method",
        "cgs",
        "--time-limit",
        0.05,
        "--no-picture",
    )
    assert done.code == 3
    assert re.match(
        r"Not converged: the certified gap / scale of F is \S+, and --tol is 0\s\([a-z\s]+\): ",
        done.stdout,
    )
    assert done.stdout.count("scale of F") == 1
    facts = json.loads((tmp_path / "condgrad-transport/certificate.json").read_text())
    assert facts["status"] in ("TIME_LIMIT", "STALLED")
    assert facts["lower_bound"] <= facts["value"]


@pytest.mark.usefixtures("clouds")
def test_results_of_an_earlier_run_do_not_linger(condgrad_here: Command, tmp_path: Path) -> None:
    out = tmp_path / "condgrad-transport"
    condgrad_here("transport", "source.csv", "target.tsv")
    (out / "notes.txt").write_text("mine")
    np.save(tmp_path / "cost.npy", np.eye(300))
    assert condgrad_here("transport", "--cost", "cost.npy", "--no-picture").code == 0
    assert {file.name for file in out.iterdir()} == {
        "plan.npy",
        "certificate.json",
        "trace.csv",
        "notes.txt",
    }


# --- mistakes ---

BAD = {
    "short.csv": "1,2,3\n4,5,6\n",
    "nan.csv": "1,2\n3,nan\n",
    "ragged.csv": "1,2\n3\n",
    "negative.csv": "1\n" * 11 + "-1\n",
    "light.csv": "1\n" * 12,
    "heavy.csv": "2\n" * 9,
    "zero.csv": "0\n" * 12,
    "few.csv": "1\n1\n",
    "far.csv": "1e200,1\n" * 3,
    "origin.csv": "0,0\n" * 3,
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "nothing to transport"),
        ("source.csv", "TARGET is missing"),
        ("none.csv target.tsv", "none.csv does not exist"),
        ("source.csv nan.csv", "nan.csv, line 2, column '1': the cell is empty"),
        ("ragged.csv target.tsv", "ragged.csv, line 2, column '1': the cell is empty"),
        ("short.csv target.tsv", "same coordinates: short.csv has 3 columns (0, 1, 2), 2 rows"),
        (
            "far.csv target.tsv",
            "cost from line 1 of far.csv to line 1 of target.tsv is inf: rescale",
        ),
        ("origin.csv target.tsv --metric cosine", "is nan"),
        ("source.csv target.tsv --cost nan.csv", "nan.csv"),
        (
            "source.csv target.tsv --cost short.csv",
            "short.csv has 2 rows and source.csv has 12 points",
        ),
        (
            "source.csv target.tsv --source-weights negative.csv",
            "negative.csv: weights must be finite numbers >= 0",
        ),
        (
            "source.csv target.tsv --source-weights few.csv",
            "few.csv has 2 rows and 1 column: give one column, with an entry for each of 12 sources",
        ),
        ("source.csv target.tsv --source-weights zero.csv", "zero.csv sums to 0"),
        (
            "source.csv target.tsv --source-weights light.csv --target-weights heavy.csv",
            "light.csv sums to 12 and heavy.csv to 18",
        ),
        ("source.csv target.tsv --entropy -1", "--entropy must be finite and >= 0, got -1.0"),
        ("source.csv target.tsv --entropy nan", "--entropy must be finite and >= 0, got nan"),
        ("source.csv target.tsv --laplacian inf", "--laplacian must be finite and >= 0"),
        ("source.csv target.tsv --tol -1", "--tol must be finite and >= 0"),
        ("source.csv target.tsv --time-limit nan", "--time-limit must be finite and >= 0"),
        ("source.csv target.tsv --labels few.csv", "--labels FILE and --groups WEIGHT go together"),
        (
            "source.csv target.tsv --labels few.csv --groups 1",
            "few.csv has 2 rows and 1 column: give one column, with an entry for each of 12 sources",
        ),
        ("--cost short.csv --laplacian 1", "give SOURCE and TARGET beside --cost"),
        ("source.csv target.tsv --out few.csv", "few.csv is a file: give a folder"),
        ("source.csv target.tsv --metric nonsense", "nonsense"),
        ("source.csv target.tsv --neighbors 0", "--neighbors"),
    ],
)
@pytest.mark.usefixtures("clouds")
def test_mistakes(condgrad_here: Command, tmp_path: Path, arguments: str, said: str) -> None:
    for name, content in BAD.items():
        (tmp_path / name).write_text(content)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    done = condgrad_here("transport", *arguments.split())
    assert done.code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("clouds")
def test_binary_data_are_one_line(condgrad_here: Command, tmp_path: Path) -> None:
    (tmp_path / "garbage.csv").write_bytes(bytes(range(256)))
    done = condgrad_here("transport", "source.csv", "garbage.csv", "--json")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("condgrad: garbage.csv holds binary data")
    assert not (tmp_path / "condgrad-transport").exists()


def test_clouds_whose_plan_is_larger_than_memory(condgrad_here: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", np.zeros((2_000_000, 1), dtype=np.float32))
    done = condgrad_here("transport", "many.npy", "many.npy")
    assert done.code == 2
    assert "a plan of 2,000,000 x 2,000,000 would need about 192.0 TB of memory" in done.stderr
    assert "random sample" in done.stderr


@pytest.mark.usefixtures("clouds")
def test_a_failure_while_writing_leaves_the_last_results(
    condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert condgrad_here("transport", "source.csv", "target.tsv", "--no-picture").code == 0
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("condgrad.cli.transport.draw_transport", full)
    done = condgrad_here("transport", "source.csv", "target.tsv", "--entropy", 1)
    assert done.code == 2
    assert "condgrad-transport cannot be written: No space left on device" in done.stderr
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("clouds")
def test_ctrl_c_during_the_solve_writes_nothing(
    condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver answers an interrupt with the best it has, which nobody asked for."""
    solve = condgrad.transport.solve

    def interrupted(*arguments: Any, **options: Any) -> Any:
        def press(_: Any) -> None:
            raise KeyboardInterrupt

        return solve(*arguments, **options | {"callback": press})

    monkeypatch.setattr("condgrad.cli.transport.solve", interrupted)
    before = sorted(tmp_path.iterdir())
    ended = condgrad_here("transport", "source.csv", "target.tsv")
    assert (ended.code, ended.stdout) == (130, "")
    assert ended.stderr == "condgrad: interrupted, nothing was written\n"
    assert sorted(tmp_path.iterdir()) == before
