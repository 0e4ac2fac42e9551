"""`condgrad predict`: the same rows give the same answers in any kind of file, or one sentence; scores; ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from tests.cli.conftest import Command
from tests.cli.test_fit import write_table

FIT = ("--target", "y", "--loss", "least-squares", "--radius", 2, "--ridge", 0.1, "--tol", 1e-10)


def rows() -> tuple[Any, Any]:
    """Each column has its own effect, so that a shift by one shows."""
    X = np.random.default_rng(3).standard_normal((40, 5)).round(3)
    return X, X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.1


def write_npz(folder: Path, X: Any, y: Any) -> str:
    np.savez(folder / "rows.npz", X=X, y=y)
    return "rows.npz"


def write_npy(folder: Path, X: Any, y: Any) -> str:
    np.save(folder / "rows.npy", X[: len(y)])
    return "rows.npy"


def write_svm(folder: Path, X: Any, y: Any) -> str:
    dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=False)
    return "rows.svm"


def write_svm_from_0(folder: Path, X: Any, y: Any) -> str:
    dump_svmlight_file(X, y, str(folder / "from0.svm"), zero_based=True)
    return "from0.svm"


def write_numbered_csv(folder: Path, X: Any, y: Any) -> str:
    write_table(folder / "rows.csv", [*map(str, range(X.shape[1])), "y"], [*X.T, y])
    return "rows.csv"


def target_of(file: str) -> tuple[object, ...]:
    return ("--target", "label", *FIT[2:]) if file.endswith(".svm") else FIT


Write = Callable[[Path, Any, Any], str]
PAIRS: list[tuple[Write, Write]] = [
    (write_npz, write_svm),
    (write_svm, write_npz),
    (write_svm, write_npy),
    (write_npz, write_svm_from_0),
    (write_svm_from_0, write_npz),
    (write_npz, write_numbered_csv),
    (write_svm_from_0, write_svm_from_0),
]


@pytest.mark.parametrize(("fitted", "asked"), PAIRS)
def test_the_same_rows_give_the_same_answers(
    fitted: Write, asked: Write, condgrad_here: Command, tmp_path: Path
) -> None:
    X, y = rows()
    source = fitted(tmp_path, X, y)
    assert condgrad_here("fit", source, *target_of(source), "--out", "m").code == 0
    for name, file in (("own.csv", source), ("other.csv", asked(tmp_path, X, y))):
        ended = condgrad_here("predict", "m/model.json", file, "--out", name)
        assert ended.code == 0, ended.stderr
    own, other = (
        pandas.read_csv(tmp_path / name, index_col=0)["prediction"].to_numpy()
        for name in ("own.csv", "other.csv")
    )
    np.testing.assert_allclose(other, own, rtol=1e-12, atol=1e-12)
    assert np.corrcoef(own, y)[0, 1] > 0.8


def refused(condgrad_here: Command, tmp_path: Path, file: str, sentence: str) -> None:
    ended = condgrad_here("predict", "m/model.json", file)
    assert (ended.code, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert sentence in ended.stderr
    assert not (tmp_path / "predictions.csv").exists()


def test_a_model_with_names_takes_no_numbered_columns(
    condgrad_here: Command, tmp_path: Path
) -> None:
    X, y = rows()
    write_table(tmp_path / "named.csv", [*"abcde", "y"], [*X.T, y])
    assert condgrad_here("fit", "named.csv", *FIT, "--out", "m").code == 0
    for write in (write_svm, write_npz):
        file = write(tmp_path, X, y)
        refused(
            condgrad_here,
            tmp_path,
            file,
            f"{file} numbers its columns, and the model knows its own by the names",
        )
    write_table(tmp_path / "other.csv", list("vwxyz"), X.T)
    refused(condgrad_here, tmp_path, "other.csv", "other.csv has no column of the model")


def test_numbers_that_may_mean_another_column_are_refused(
    condgrad_here: Command, tmp_path: Path
) -> None:
    X, y = rows()
    write_svm(tmp_path, X, y)
    assert condgrad_here("fit", "rows.svm", *target_of("rows.svm"), "--out", "m").code == 0
    refused(
        condgrad_here,
        tmp_path,
        write_svm_from_0(tmp_path, X, y),
        "from0.svm counts its columns from 0, and the model from 1",
    )
    np.save(tmp_path / "wide.npy", np.column_stack([y, X]))
    refused(
        condgrad_here, tmp_path, "wide.npy", "wide.npy has 6 columns, and the model was fitted to 5"
    )
    refused(
        condgrad_here,
        tmp_path,
        write_numbered_csv(tmp_path, X, y),
        "rows.csv counts its columns from 0, and the model from 1",
    )


def test_a_target_amid_the_matrix_is_missed(condgrad_here: Command, tmp_path: Path) -> None:
    X, y = rows()
    np.save(tmp_path / "whole.npy", np.column_stack([y, X]))
    assert condgrad_here("fit", "whole.npy", "--target", "0", *FIT[2:], "--out", "m").code == 0
    refused(
        condgrad_here,
        tmp_path,
        write_npy(tmp_path, X, y),
        "rows.npy has 5 columns, and the model was fitted to",
    )
    refused(condgrad_here, tmp_path, write_svm(tmp_path, X, y), "rows.svm keeps its label apart")
    write_table(tmp_path / "one.csv", list("12345"), X.T)  # without the target, by name
    assert condgrad_here("predict", "m/model.json", "one.csv", "--header").code == 0


def test_a_header_from_1_is_no_header_from_0(condgrad_here: Command, tmp_path: Path) -> None:
    X, y = rows()
    assert condgrad_here("fit", write_npz(tmp_path, X, y), *FIT, "--out", "m").code == 0
    write_table(tmp_path / "one.csv", list("12345"), X.T)
    ended = condgrad_here("predict", "m/model.json", "one.csv", "--header")
    assert ended.code == 2
    assert "one.csv counts its columns from 1, and the model from 0" in ended.stderr


# --- scores and ids


def people(folder: Path) -> pandas.DataFrame:
    """A table as pandas writes it, with its index, ids, labels and numbers to predict."""
    X, y = rows()
    frame = pandas.DataFrame(X, columns=list("abcde"))
    frame.insert(0, "patient", [f"{k:03}" for k in range(len(X))])
    frame["y"] = y + np.random.default_rng(0).normal(size=len(y))
    frame["sick"] = np.where(frame["y"] > 0, "yes", "no")
    frame.to_csv(folder / "people.csv")
    return frame


def test_numbers_are_scored_where_they_are_known(condgrad_here: Command, tmp_path: Path) -> None:
    frame = people(tmp_path)
    columns = ("--drop", "sick", "--drop", "patient")
    assert condgrad_here("fit", "people.csv", *FIT, *columns, "--out", "m").code == 0
    frame.loc[3, "y"] = np.nan
    frame.to_csv(tmp_path / "people.csv")
    ended = condgrad_here("predict", "m/model.json", "people.csv", "--json")
    assert ended.code == 0, ended.stderr
    answers = pandas.read_csv(tmp_path / "predictions.csv", index_col=0)
    assert list(answers.index) == list(range(40))
    known = frame["y"].notna()
    scores = json.loads(ended.stdout)["scores"]
    assert scores["rows with the target"] == 39
    assert scores["R2"] == pytest.approx(r2_score(frame["y"][known], answers["prediction"][known]))
    assert scores["mean squared error"] == pytest.approx(
        mean_squared_error(frame["y"][known], answers["prediction"][known])
    )
    frame.drop(columns="y").to_csv(tmp_path / "people.csv")
    assert (
        json.loads(condgrad_here("predict", "m/model.json", "people.csv", "--json").stdout)[
            "scores"
        ]
        == {}
    )


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_labels_are_scored_and_rows_keep_their_ids(
    loss: str, condgrad_here: Command, tmp_path: Path
) -> None:
    frame = people(tmp_path)
    asked = ("--target", "sick", "--drop", "y", "--id", "patient", "--loss", loss, *FIT[4:8])
    ended = condgrad_here("fit", "people.csv", *asked, "--out", "m")
    assert ended.code == 0, ended.stderr
    ended = condgrad_here("predict", "m/model.json", "people.csv", "--json")
    answers = pandas.read_csv(tmp_path / "predictions.csv", dtype={"patient": str}).set_index(
        "patient"
    )
    assert list(answers.index) == list(frame["patient"])
    scores = json.loads(ended.stdout)["scores"]
    assert scores["accuracy"] == accuracy_score(frame["sick"], answers["prediction"])
    assert ("log loss" in scores) == (loss == "logistic")
    if loss == "logistic":
        chances = answers[["probability of no", "probability of yes"]]
        assert scores["log loss"] == pytest.approx(log_loss(frame["sick"], chances.to_numpy()))
    words = " ".join(
        condgrad_here("predict", "m/model.json", "people.csv", "--id", "").stdout.split()
    )
    assert f"accuracy {scores['accuracy']:.6g}" in words
    assert pandas.read_csv(tmp_path / "predictions.csv").columns[0] == "Unnamed: 0"


def test_a_name_with_the_ending_of_a_result_is_a_file_and_any_other_a_folder(
    condgrad_here: Command, tmp_path: Path
) -> None:
    people(tmp_path)
    asked = ("fit", "people.csv", *FIT, "--drop", "sick", "--drop", "patient")
    ended = condgrad_here(*asked, "--out", "model.json")
    assert (ended.code, ended.stderr) == (
        2,
        "condgrad: --out model.json is the name of a file: give a folder\n",
    )
    assert condgrad_here(*asked, "--out", "m").code == 0
    written = {
        "a.csv": "a.csv",
        "a": "a/predictions.csv",
        "m": "m/predictions.csv",
        "new/b.csv": "new/b.csv",
    }
    for out, file in written.items():
        assert not (tmp_path / file).exists()
        assert condgrad_here("predict", "m/model.json", "people.csv", "--out", out).code == 0
        assert (tmp_path / file).is_file()


def test_a_gap_is_named_without_advice_that_predict_lacks(
    condgrad_here: Command, tmp_path: Path
) -> None:
    frame = people(tmp_path)
    assert (
        condgrad_here(
            "fit", "people.csv", *FIT, "--drop", "sick", "--drop", "patient", "--out", "m"
        ).code
        == 0
    )
    for value, said in ((np.nan, "the cell is empty"), ("oops", "'oops' is not a number")):
        frame["e"] = frame["e"].astype(object)
        frame.loc[2, "e"] = value
        frame.to_csv(tmp_path / "people.csv")
        ended = condgrad_here("predict", "m/model.json", "people.csv")
        assert ended.code == 2
        assert f"people.csv, line 4, column 'e': {said}" in ended.stderr
        assert "--drop" not in ended.stderr


def test_no_table_of_others_is_replaced(condgrad_here: Command, tmp_path: Path) -> None:
    """Earlier predictions are; any other file is the user's, unless --overwrite lets it go."""
    X, y = rows()
    write_table(tmp_path / "named.csv", [*"abcde", "y"], [*X.T, y])
    assert condgrad_here("fit", "named.csv", *FIT, "--out", "m").code == 0
    asked = ("predict", "m/model.json", "named.csv", "--out", "answers.csv")
    theirs = b"name,prediction of mine\nalice,1\n"
    for content in (theirs, b"\xff\xfe\x00", b""):
        (tmp_path / "answers.csv").write_bytes(content)
        ended = condgrad_here(*asked)
        assert (ended.code, ended.stderr.count("\n")) == (2, 1)
        assert "--out answers.csv exists already" in ended.stderr
        assert "add --overwrite" in ended.stderr
        assert (tmp_path / "answers.csv").read_bytes() == content
    assert condgrad_here(*asked, "--overwrite").code == 0
    written = (tmp_path / "answers.csv").read_bytes()
    assert len(pandas.read_csv(tmp_path / "answers.csv")) == len(y)
    assert condgrad_here(*asked).code == 0
    assert (tmp_path / "answers.csv").read_bytes() == written
    ended = condgrad_here(*asked[:-1], "named.csv", "--overwrite")
    assert "would overwrite named.csv" in ended.stderr
