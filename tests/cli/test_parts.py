"""Patterns of files: the same models and predictions as of one file that has all rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Command

GIVEN = ("--radius", 1, "--ridge", 0.5, "--tol", 1e-12)


def frame(rows: int = 120) -> Any:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.standard_normal((rows, 3)) * [1.0, 5.0, 30.0] + [3.0, 0.0, -7.0],
        columns=["age", "dose", "size"],
    )
    noise = rng.standard_normal(rows)
    outcome = np.where(X["age"] - 3.0 - 0.2 * X["dose"] + noise > 0.0, "well", "ill")
    weight = rng.integers(0, 3, rows)
    return X.assign(
        same=2.0, outcome=outcome, weight=weight, price=2.0 * X["age"] + X["dose"] + noise
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    whole = frame()
    for k, part in enumerate((whole[:50], whole[50:60], whole[60:])):
        part.reset_index(drop=True).to_parquet(tmp_path / f"part-{k}.parquet")
        part.to_csv(tmp_path / f"part-{k}.csv", index=False)
    whole.to_parquet(tmp_path / "whole.parquet")
    return tmp_path


def coefficients(folder: Path) -> Any:
    return pd.read_csv(folder / "coefficients.csv").set_index("feature")["coefficient"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_pattern_is_fitted_as_one_file(files: Path, condgrad_here: Command, ending: str) -> None:
    asked = ("--target", "outcome", "--drop", "price", "--weights", "weight", *GIVEN)
    done = condgrad_here("fit", f"part-*.{ending}", *asked, "--out", "parts", "--json")
    assert done.code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["data"]["rows"] == 120
    assert [Path(file["file"]).name for file in facts["data"]["files"]] == [
        f"part-{k}.{ending}" for k in range(3)
    ]
    assert facts["cross_validated_score"] is None
    assert condgrad_here("fit", "whole.parquet", *asked, "--out", "whole").code == 0
    pd.testing.assert_series_equal(
        coefficients(files / "parts"), coefficients(files / "whole"), atol=1e-8
    )
    assert not (files / "parts" / "path.png").exists()
    report = (files / "parts" / "report.txt").read_text()
    words = " ".join(report.split())
    assert "3 files" in words
    assert "4 features (1 constant)" in words
    assert max(map(len, report.splitlines())) <= 80
    for data in ("part-*.csv", "whole.parquet"):
        assert (
            condgrad_here("predict", "parts/model.json", data, "--out", f"{data[:4]}.csv").code == 0
        )
    pd.testing.assert_frame_equal(pd.read_csv(files / "part.csv"), pd.read_csv(files / "whol.csv"))


@pytest.mark.slow
def test_what_is_left_open_is_chosen_as_for_one_file(files: Path, condgrad_here: Command) -> None:
    asked = (
        "--target",
        "price",
        "--drop",
        "outcome",
        "--drop",
        "weight",
        "--radius",
        1,
        "--folds",
        2,
        "--json",
    )
    parts, whole = (
        json.loads(condgrad_here("fit", data, *asked, "--out", data[:4]).stdout)
        for data in ("part-*.parquet", "whole.parquet")
    )
    assert parts["ridge"] == pytest.approx(whole["ridge"])
    for score in ("training_score", "cross_validated_score"):
        assert parts[score] == pytest.approx(whole[score], abs=1e-4)
    chosen = [pd.read_csv(files / folder / "cross_validation.csv") for folder in ("part", "whol")]
    np.testing.assert_allclose(
        chosen[0]["mean_test_score"], chosen[1]["mean_test_score"], rtol=1e-3
    )


def test_predictions_of_a_pattern_keep_ids_and_scores(files: Path, condgrad_here: Command) -> None:
    whole = frame().assign(who=[f"p{k}" for k in range(120)])
    for k in range(2):
        whole[60 * k : 60 * (k + 1)].to_csv(files / f"named-{k}.csv", index=False)
    asked = ("--target", "price", "--drop", "outcome", "--drop", "weight", "--id", "who", *GIVEN)
    assert condgrad_here("fit", "named-0.csv", *asked, "--out", "model").code == 0
    done = condgrad_here("predict", "model/model.json", "named-*.csv", "--json", "--out", "all.csv")
    facts = json.loads(done.stdout)
    assert facts["rows"] == facts["scores"]["rows with the target"] == 120
    predicted = pd.read_csv(files / "all.csv")
    assert list(predicted["who"]) == list(whole["who"])
    error = ((predicted["prediction"] - whole["price"]) ** 2).mean()
    assert facts["scores"]["mean squared error"] == pytest.approx(error)


def test_what_is_refused(files: Path, condgrad_here: Command) -> None:
    target = ("--target", "price", "--drop", "outcome")
    pd.read_csv(files / "part-1.csv").assign(more=1.0).to_csv(files / "part-3.csv", index=False)
    text = (files / "part-2.csv").read_text().splitlines()
    (files / "hole-0.csv").write_text("\n".join(text[:6]) + "\n")
    (files / "hole-1.csv").write_text(
        "\n".join([text[0], text[1], "," + text[2].split(",", 1)[1]]) + "\n"
    )
    for arguments, sentence in (
        (("none-*.csv", *target), "none-*.csv matches no file: check the pattern"),
        (
            ("part-*.csv", *target),
            "part-3.csv has 'more', which part-0.csv has not: give files of the same columns",
        ),
        (("hole-*.csv", *target), "hole-1.csv, line 3, column 'age': the cell is empty"),
        (
            ("whole.parquet", *target, "--scheduler", "tcp://127.0.0.1:1"),
            "--scheduler is for patterns",
        ),
    ):
        done = condgrad_here("fit", *arguments, *GIVEN)
        assert done.code == 2
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    done = condgrad_here("predict", "missing.json", "none-*.csv")
    assert "missing.json does not exist" in done.stderr


def test_labels_that_are_numbers_in_one_file_and_text_in_another(
    files: Path, condgrad_here: Command
) -> None:
    whole = frame(60).drop(columns=["outcome", "weight", "price"])
    whole.assign(code=np.where(whole["age"] > 3.0, "12345678", "other")).to_csv(
        files / "code-0.csv", index=False
    )
    whole.assign(code=12345678).to_csv(files / "code-1.csv", index=False)
    assert (
        condgrad_here("fit", "code-*.csv", "--target", "code", *GIVEN, "--out", "codes").code == 0
    )
    model = json.loads((files / "codes" / "model.json").read_text())
    assert model["classes"] == ["12345678", "other"]
