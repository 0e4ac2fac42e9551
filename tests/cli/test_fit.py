"""`condgrad fit` and `condgrad predict` as a user runs them; CVXPY and scikit-learn judge the coefficients."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pandas
import pytest
from PIL import Image
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import ElasticNet
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condgrad.cli.files import read_table
from condgrad.cli.predict import predictor, read_model
from condgrad.cli.training import NUMBERS as SQUARES
from condgrad.linear_model.model_file import FittedModel
from condgrad.linear_model.path import ESTIMATORS
from tests.cli.conftest import Command
from tests.linear_model import judge, loss_of

NAMES = ("age", "income, EUR", "flat", "rate", "size")
FILES = ("certificate.json", "coefficients.csv", "model.json", "path.png", "report.txt")
SMALL = ("--radius", 1.2, "--ridge", 0.7)


def data(seed: int = 0, rows: int = 36) -> tuple[Any, Any, Any]:
    """Columns in many units, one of them constant; a target of numbers; and labels of three classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 5)) * [10.0, 2e4, 0.0, 1e-3, 1.0] + [50.0, 3e4, 0.1, 0.0, -2.0]
    signal = (X[:, 0] - 50.0) / 10.0 - (X[:, 1] - 3e4) / 2e4 + 0.6 * rng.standard_normal(rows)
    return (
        X,
        3.0 * signal + 100.0,
        np.array(["low", "mid", "top"])[np.digitize(signal, [-0.7, 0.7])],
    )


def write_table(file: Path, names: Sequence[str], columns: Sequence[Any]) -> Path:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(zip(*[np.asarray(column).tolist() for column in columns], strict=True))
    return file


def write_data(folder: Path, target: Any, X: Any, **more: Any) -> Path:
    return write_table(folder / "data.csv", [*NAMES, "y", *more], [*X.T, target, *more.values()])


def coefficients(folder: Path) -> list[dict[str, str]]:
    with (folder / "coefficients.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def plain(rows: Sequence[Mapping[str, str]], column: str = "coefficient") -> Any:
    found = {row["feature"]: float(row[column]) for row in rows if row[column]}
    return np.array([found[name] for name in NAMES])


def certificate(folder: Path) -> Any:
    return json.loads((folder / "certificate.json").read_text())


def model_in(folder: Path) -> FittedModel:
    return read_model((folder / "model.json").read_bytes(), source="model.json")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_coefficients_in_the_units_of_the_data(
    kind: str, intercept: bool, tmp_path: Path, condgrad_here: Command
) -> None:
    """CVXPY solves the problem in the units of the data, where standardisation is a weighting of the two norms."""
    X, numbers, labels = data()
    y = numbers if kind == SQUARES else np.where(labels == "low", "no", "yes")
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    ended = condgrad_here(
        "fit", write_data(tmp_path, y, X, w=weights), "--target", "y", "--loss", kind, "--weights", "w", *SMALL,
        "--tol", 1e-9, *([] if intercept else ["--no-intercept"]),
    )  # fmt: skip
    assert ended.code == 0, ended.stderr
    share = weights / weights.sum()
    scale = np.sqrt(share @ (X - share @ X) ** 2)
    scale[2] = 1.0
    coef, b = cvxpy.Variable(5), cvxpy.Variable()
    # the judge's own columns, so that its numbers are of one size; coefficients are compared in the data's units
    scores = (X / scale) @ coef + (b if intercept else 0.0)
    signs = numbers if kind == SQUARES else np.where(y == "yes", 1.0, -1.0)
    objective = weights @ loss_of(ESTIMATORS[kind], scores, signs) + 0.7 * cvxpy.sum_squares(coef)
    best = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.norm1(coef) <= 1.2])
    best.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    out = tmp_path / "condgrad-fit"
    found = plain(coefficients(out))
    np.testing.assert_allclose(found * scale, coef.value, atol=2e-5)
    (proof,) = certificate(out)["problems"]
    slack = 1e-7 * abs(best.value)
    assert proof["lower_bound"] - slack <= best.value <= proof["value"] + slack
    if intercept:
        assert found[2] == 0.0
        lead = coefficients(out)[0]
        assert lead["feature"] == "(intercept)"
        assert float(lead["coefficient"]) == pytest.approx(float(b.value), rel=1e-3, abs=1e-3)


def test_least_squares_is_scikit_learns_at_the_multiplier(
    tmp_path: Path, condgrad_here: Command
) -> None:
    X, y, _ = data()
    file, out = write_data(tmp_path, y, X), tmp_path / "out"
    assert (
        condgrad_here("fit", file, "--target", "y", *SMALL, "--tol", 1e-10, "--out", out).code == 0
    )
    (proof,) = certificate(out)["problems"]
    penalty = proof["multiplier"] + 2 * 0.7
    peer = ElasticNet(
        penalty / len(y), l1_ratio=proof["multiplier"] / penalty, tol=1e-12, max_iter=100_000
    )
    spread = np.where(np.arange(5) == 2, 1.0, X.std(axis=0))
    peer.fit((X - X.mean(axis=0)) / spread, y)
    np.testing.assert_allclose(
        plain(coefficients(out), "standardised_coefficient"), peer.coef_, atol=1e-6
    )
    np.testing.assert_allclose(plain(coefficients(out)), peer.coef_ / spread, rtol=1e-5, atol=1e-9)
    plain_intercept = peer.intercept_ - peer.coef_ @ (X.mean(axis=0) / spread)
    np.testing.assert_allclose(model_in(out).intercept[0], plain_intercept, rtol=1e-5)


def test_columns_as_they_are(tmp_path: Path, condgrad_here: Command) -> None:
    X, y, _ = data()
    X = X / [10.0, 2e4, 1.0, 1e-3, 1.0]
    assert (
        condgrad_here(
            "fit", write_data(tmp_path, y, X), "--target", "y", *SMALL, "--no-standardize"
        ).code
        == 0
    )
    best = judge(ESTIMATORS[SQUARES], X, y, radius=1.2, ridge=0.7)
    np.testing.assert_allclose(plain(coefficients(tmp_path / "condgrad-fit")), best.coef, atol=1e-3)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_the_target_does_not_matter(
    unit: float, tmp_path: Path, condgrad_here: Command
) -> None:
    X, y, _ = data()
    for name, factor in (("one", 1.0), ("other", unit)):
        file, out = write_data(tmp_path, factor * y, X), tmp_path / name
        ended = condgrad_here(
            "fit", file, "--target", "y", "--radius", 2 * factor, "--ridge", 0.7, "--out", out
        )
        assert ended.code == 0
    np.testing.assert_allclose(
        model_in(tmp_path / "other").coef, unit * np.array(model_in(tmp_path / "one").coef)
    )


def test_a_weight_is_a_number_of_rows(tmp_path: Path, condgrad_here: Command) -> None:
    X, y, _ = data(2)
    counts = np.arange(len(y)) % 3
    y[0] = np.nan  # a row of weight 0 counts as none
    weighted = write_data(tmp_path, y, X, w=counts)
    assert (
        condgrad_here("fit", weighted, "--target", "y", "--weights", "w", *SMALL, "--out", "a").code
        == 0
    )
    repeated = write_data(tmp_path, np.repeat(y, counts), np.repeat(X, counts, axis=0))
    assert condgrad_here("fit", repeated, "--target", "y", *SMALL, "--out", "b").code == 0
    np.testing.assert_allclose(
        model_in(tmp_path / "a").coef, model_in(tmp_path / "b").coef, rtol=1e-3, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_three_classes_chosen_and_predicted(tmp_path: Path, condgrad_here: Command) -> None:
    """Radius and ridge by cross-validation, one block for each class, and the round trip of the model."""
    X, _, labels = data()
    file, out = (
        write_data(tmp_path, labels, X, name=[f"id{k}" for k in range(len(labels))]),
        tmp_path / "out",
    )
    ended = condgrad_here(
        "fit", file, "--target", "y", "--drop", "name", "--ridge", 0.5, "--folds", 3, "--out", out
    )
    assert ended.code == 0, ended.stderr
    assert sorted(file.name for file in out.iterdir()) == sorted([*FILES, "cross_validation.csv"])
    assert (out / "report.txt").read_text() in ended.stdout
    words, program = (out / "report.txt").read_text().split("The same model in Python")
    assert all(len(line) <= 80 for line in words.splitlines())
    assert str(file) in program
    assert "chosen by cross-validated log loss, 3 folds" in ended.stdout
    assert (
        "on held-out rows (the same 3 folds chose radius, so the score on new rows may be worse)"
        in " ".join(ended.stdout.split())
    )
    rows = coefficients(out)
    assert [row["class"] for row in rows] == ["low"] * 6 + ["mid"] * 6 + ["top"] * 6
    for k in range(3):
        sizes = [abs(float(row["standardised_coefficient"])) for row in rows[6 * k + 1 : 6 * k + 6]]
        assert sizes == sorted(sizes, reverse=True)
    facts = certificate(out)
    assert [proof["class"] for proof in facts["problems"]] == ["low", "mid", "top"]
    assert facts["certified"]
    assert all(proof["relative_gap"] <= 1e-6 for proof in facts["problems"])
    assert facts["data"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts["training_score"] >= facts["cross_validated_score"] > 0.5
    with Image.open(out / "path.png") as picture:
        assert len(picture.convert("L").getcolors()) > 20

    said = condgrad_here("predict", out / "model.json", file, "--out", "new/answers.csv", "--json")
    assert said.code == 0
    estimator, seen = predictor(model_in(out), read_table(file))
    with (tmp_path / "new" / "answers.csv").open(newline="") as stream:
        answers = list(csv.DictReader(stream))
    assert [row["prediction"] for row in answers] == estimator.predict(seen).tolist()
    chances = [
        [float(row[f"probability of {label}"]) for label in ("low", "mid", "top")]
        for row in answers
    ]
    np.testing.assert_allclose(chances, estimator.predict_proba(seen), rtol=1e-12)
    assert sum(json.loads(said.stdout)["predictions"].values()) == len(labels)
    assert facts["training_score"] == pytest.approx(np.mean(estimator.predict(seen) == labels))


def test_the_auc_of_three_classes_is_that_of_the_probabilities(
    tmp_path: Path, condgrad_here: Command
) -> None:
    X, _, y = data(3, rows=90)
    ended = condgrad_here("fit", write_data(tmp_path, y, X), "--target", "y", *SMALL, "--folds", 5)
    assert ended.code == 0, ended.stderr
    splits = StratifiedKFold(5, shuffle=True, random_state=0)
    judge = make_pipeline(StandardScaler(), ESTIMATORS["logistic"](1.2, 0.7))
    shares, values = (
        cross_val_predict(judge, X, y, cv=splits, method=method)
        for method in ("predict_proba", "decision_function")
    )
    expected, other = (
        np.mean([roc_auc_score(y == label, found[:, k]) for k, label in enumerate(np.unique(y))])
        for found in (shares, values)
    )
    assert abs(expected - other) > 2e-3
    assert certificate(tmp_path / "condgrad-fit")["cross_validated_auc"] == pytest.approx(
        expected, abs=1e-4
    )


def test_the_scores_are_scikit_learns(tmp_path: Path, condgrad_here: Command) -> None:
    """Held-out AUC and the majority's share, and the curve of the cross-validation as a table."""
    X, _, labels = data(3, rows=60)
    y = np.where(labels == "low", "no", "yes")
    file, out = write_data(tmp_path, y, X), tmp_path / "out"
    ended = condgrad_here("fit", file, "--target", "y", "--selection", "1se", "--out", out)
    assert ended.code == 0, ended.stderr
    facts = certificate(out)
    table = pandas.read_csv(out / "cross_validation.csv")
    folds = table.filter(like="split")
    np.testing.assert_allclose(table["mean_test_score"], folds.mean(axis=1))
    np.testing.assert_allclose(table["standard_error"], folds.sem(axis=1))
    ridge = table[table["param_ridge"] == facts["ridge"]]
    best = ridge.loc[ridge["mean_test_score"].idxmax()]
    enough = ridge[ridge["mean_test_score"] >= best["mean_test_score"] - best["standard_error"]]
    assert facts["radius"] == enough["param_radius"].min()
    assert facts["radius"] < best["param_radius"]
    judge = make_pipeline(StandardScaler(), ESTIMATORS["logistic"](facts["radius"], facts["ridge"]))
    splits = StratifiedKFold(5, shuffle=True, random_state=0)
    values = cross_val_predict(judge, X, y, cv=splits, method="decision_function")
    assert facts["cross_validated_auc"] == pytest.approx(roc_auc_score(y, values), abs=0.03)
    assert facts["majority_share"] == max(np.mean(y == "no"), np.mean(y == "yes"))
    words = " ".join(ended.stdout.split())
    assert (
        f"baseline {facts['majority_share']:.4f} of the rows have the most frequent class; AUC"
        in words
    )
    assert "the simplest within a standard error of the best" in words


def test_a_proof_goes_as_far_as_rounding_lets_it(tmp_path: Path, condgrad_here: Command) -> None:
    """A gap of 0 is asked for: whatever is said, it is not that it was reached."""
    X, y, _ = data()
    ended = condgrad_here("fit", write_data(tmp_path, y, X), "--target", "y", *SMALL, "--tol", 0)
    assert "within --tol 0" not in " ".join(ended.stdout.split())
    assert "--tol is 0" in " ".join(ended.stdout.split())


def test_the_same_seed_gives_the_same_files(tmp_path: Path, condgrad_here: Command) -> None:
    X, y, _ = data(4)
    file = write_data(tmp_path, y, X)
    for out in ("a", "b"):
        ended = condgrad_here(
            "fit", file, "--target", "y", "--radius", 2, "--folds", 3, "--seed", 5, "--out", out
        )
        assert ended.code == 0
    assert "ridge      3.6 (chosen by cross-validated squared error, 3 folds)" in ended.stdout
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_files_of_arrays_give_the_same_model(tmp_path: Path, condgrad_here: Command) -> None:
    """A sparse matrix is not centred: the intercept takes the difference, and nothing else changes."""
    X, y, _ = data(6)
    X = np.where(np.abs(X) < np.median(np.abs(X), axis=0), 0.0, X)[:, [0, 1, 3, 4]]
    np.save(tmp_path / "matrix.npy", np.column_stack([X, y]))
    np.savez(tmp_path / "pair.npz", X=X, y=y, other=y)
    dump_svmlight_file(X, y, str(tmp_path / "lines.svm"), zero_based=False)
    options = {"matrix.npy": ["--target", "-1"], "pair.npz": ["--target", "y"], "lines.svm": []}
    found = []
    for name, target in options.items():
        ended = condgrad_here("fit", name, *target, *SMALL, "--tol", 1e-10, "--out", f"{name}.out")
        assert ended.code == 0, ended.stderr
        assert (
            condgrad_here("predict", f"{name}.out/model.json", name, "--out", f"{name}.csv").code
            == 0
        )
        model = model_in(tmp_path / f"{name}.out")
        answers = np.loadtxt(tmp_path / f"{name}.csv", skiprows=1, delimiter=",", usecols=1)
        found.append(
            np.concatenate([np.array(model.coef[0]) * X.std(axis=0), model.intercept, answers])
        )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-6)


def test_a_radius_that_is_hardly_felt_is_called_so(tmp_path: Path, condgrad_here: Command) -> None:
    """A radius a hundred-millionth below the norm of the free solution costs nothing, one of half of it does."""
    X, y, _ = data()
    file = write_data(tmp_path, y, X)
    wide = condgrad_here("fit", file, "--target", "y", "--radius", 1e4, "--ridge", 0.7)
    rows = coefficients(tmp_path / "condgrad-fit")
    norm = float(np.abs(plain(rows, "standardised_coefficient")).sum())
    assert "The constraint has no effect" in " ".join(wide.stdout.split())
    for share, felt in ((1.0 - 1e-8, False), (0.5, True)):
        said = condgrad_here(
            "fit", file, "--target", "y", "--radius", share * norm, "--ridge", 0.7
        ).stdout
        assert ("without the radius, has the same solution" in " ".join(said.split())) is felt
        assert ("The constraint has no effect" in " ".join(said.split())) is not felt


def test_an_unfinished_fit_says_so_and_ends_with_3(tmp_path: Path, condgrad_here: Command) -> None:
    X, _, labels = data()
    file = write_data(tmp_path, np.where(labels == "low", 0, 1), X)
    ended = condgrad_here(
        "fit", file, "--target", "y", "--radius", 50, "--ridge", 1e-6, "--max-iter", 1, "--json"
    )
    assert ended.code == 3
    facts = certificate(tmp_path / "condgrad-fit")
    assert json.loads(ended.stdout) == {**facts, "out": "condgrad-fit"}
    assert not facts["certified"]
    (proof,) = facts["problems"]
    assert proof["class"] == 1
    words = f"Not converged: the certified gap / scale of F is {proof['relative_gap']:.2g}, and --tol is 1e-06"
    assert ended.stderr == f"condgrad: {words}\n"
    report = (tmp_path / "condgrad-fit" / "report.txt").read_text()
    assert words in " ".join(report.split())
    assert "has the same solution" not in report  # only a proof may say so


TABLE = "a,b,y\n1,2,no\n2,1,yes\n3,5,no\n4,4,yes\n5,3,no\n6,6,yes\n"
BAD: dict[str, tuple[bytes | str, Sequence[object], str]] = {
    "empty": ("", (), "is empty"),
    "blank": (" \n\n", (), "is empty"),
    "garbage": (bytes(range(256)), (), "holds binary data"),
    "ragged": ("a,b,y\n1,2,no\n1,2\n", (), "line 3: the target 'y' is missing"),
    "one row": ("a,b,y\n1,2,no\n", (), "has too few rows, 1: a fit needs two"),
    "missing cell": (
        TABLE.replace("3,5", "3,"),
        (),
        "line 4, column 'b': the cell is empty; fill in with --impute median",
    ),
    "missing target": (TABLE.replace("1,yes", "1,"), (), "line 3: the target 'y' is missing"),
    "text": (
        TABLE.replace("a,b", "a,c").replace("1,2", "x,2"),
        (),
        "line 2, column 'a': 'x' is not a number",
    ),
    "text column": (
        "a,who,y\n1,x,0\n2,y,1\n3,z,0\n4,w,1\n",
        (),
        "line 2, column 'who': 'x' is not a number.*--drop who",
    ),
    "infinite": (
        TABLE.replace("3,5", "inf,5"),
        (),
        "line 4, column 'a': inf is not a finite number",
    ),
    "huge": (TABLE.replace("3,5", "1e308,5"), (), "column 'a' reaches 1e\\+308"),
    "huge target": ("a,y\n1,1e308\n2,5.5\n3,7.1\n", (), "column 'y' reaches 1e\\+308"),
    "one class": (TABLE.replace("yes", "no"), (), "the target 'y' is no in all rows"),
    "one number": ("a,y\n1,0.5\n2,0.5\n3,0.5\n", (), "the target 'y' is 0.5 in all rows"),
    "all distinct": ("a,y\n1,p\n2,q\n3,r\n", (), "class 'p' has 1 row, too few for 2 folds"),
    "a rare class": (
        TABLE + "7,7,maybe\n",
        (),
        "class 'maybe' has 1 row, too few for 2 folds: leave its rows out",
    ),
    "amounts": (
        "a,n\n" + "".join(f"{i},{i % 4}\n" for i in range(40)) + "41,6\n",
        ("--target", "n"),
        "class 6 has 1 row, too few for 2 folds: leave its rows out, or give --radius and --ridge; if 'n' holds "
        "amounts rather than labels, say --loss least-squares",
    ),
    "folds": (TABLE, ("--folds", 4), "class 'no' has 3 rows, too few for 4 folds: take at most 3"),
    "no such target": (TABLE.replace("b,y", "b,why"), ("--target", "wyh"), "did you mean 'why'"),
    "no such drop": (
        TABLE,
        ("--drop", "zz"),
        "--drop zz: .* has no column 'zz'; it has 'a', 'b', 'y'",
    ),
    "dropped target": (TABLE, ("--drop", "y"), "--drop y: this column is the target"),
    "nothing left": (TABLE, ("--drop", "a", "--drop", "b"), "no column other than the target"),
    "weights are the target": (TABLE, ("--weights", "y"), "--weights y: this column is the target"),
    "negative weight": (TABLE.replace("3,5", "-3,5"), ("--weights", "a"), "line 4 holds -3.0"),
    "text for numbers": (
        TABLE,
        ("--loss", "least-squares"),
        "the target 'y' holds text, such as 'no'",
    ),
    "radius": (TABLE, ("--radius", -1), "--radius must be finite and >= 0, got -1"),
    "ridge": (TABLE, ("--ridge", -1), "--ridge must be finite and >= 0, got -1"),
    "selection": (
        TABLE,
        ("--selection", "first"),
        "--selection must be one of best, 1se, got 'first'",
    ),
    "tol": (TABLE, ("--tol", "nan"), "--tol must be finite"),
    "loss": (
        TABLE,
        ("--loss", "hinge"),
        "--loss must be one of logistic, least-squares, squared-hinge, poisson, gamma, huber, got 'hinge'",
    ),
}


@pytest.mark.parametrize(("content", "options", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(
    content: bytes | str,
    options: Sequence[object],
    sentence: str,
    tmp_path: Path,
    condgrad_here: Command,
) -> None:
    (tmp_path / "data.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    target = [] if "--target" in options else ["--target", "y"]
    ended = condgrad_here("fit", "data.csv", *target, *options)
    assert ended.code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("condgrad: ")
    assert ended.stderr.count("\n") == 1
    assert re.search(sentence, ended.stderr), ended.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_files_that_are_not_there(tmp_path: Path, condgrad_here: Command) -> None:
    assert (
        "nowhere.csv does not exist" in condgrad_here("fit", "nowhere.csv", "--target", "y").stderr
    )
    assert "is a folder" in condgrad_here("fit", tmp_path, "--target", "y").stderr
    assert "is not a file or a pipe" in condgrad_here("fit", "/dev/zero", "--target", "y").stderr
    (tmp_path / "data.csv").write_text(TABLE)
    assert (
        "give --target COLUMN; data.csv has 'a', 'b', 'y'"
        in condgrad_here("fit", "data.csv").stderr
    )
    ended = condgrad_here("fit", "data.csv", "--target", "y", *SMALL, "--out", "data.csv")
    assert (ended.code, ended.stderr.count("\n")) == (2, 1)
    assert "is a file: give a folder" in ended.stderr
    assert (tmp_path / "data.csv").read_text() == TABLE


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, condgrad_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "data.csv").write_text(TABLE)
    monkeypatch.setattr("condgrad.cli.fit_report.draw_fits", full)
    ended = condgrad_here("fit", "data.csv", "--target", "y", *SMALL)
    assert (ended.code, ended.stderr) == (
        2,
        "condgrad: --out condgrad-fit cannot be written: No space left on device\n",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_predict_refuses_in_one_sentence(tmp_path: Path, condgrad_here: Command) -> None:
    (tmp_path / "data.csv").write_bytes(
        b"\xef\xbb\xbf" + TABLE.replace(",", ";").replace("\n", "\r\n").encode()
    )
    assert (
        condgrad_here("fit", "data.csv", "--target", "y", "--loss", "squared-hinge", *SMALL).code
        == 0
    )
    model = "condgrad-fit/model.json"
    (tmp_path / "lacks.csv").write_text("a\n1\n")
    (tmp_path / "huge.csv").write_text("a,b\n1e308,-1e308\n1,2\n")
    fields = json.loads((tmp_path / model).read_text()) | {"coef": [[1e5, 1e5]]}
    (tmp_path / "fine.json").write_text(json.dumps(fields))
    (tmp_path / "garbage.json").write_text("{}")
    cases = {
        (model, "lacks.csv"): "lacks.csv lacks 'b', which the model needs",
        ("fine.json", "huge.csv"): "huge.csv holds numbers too large for the model",
        (model, "nowhere.csv"): "nowhere.csv does not exist",
        ("garbage.json", "data.csv"): "format: the field is missing",
        ("data.csv", "data.csv"): "Invalid JSON",
        (model, "data.csv", "--out", "data.csv"): "--out data.csv would overwrite data.csv",
        (
            model,
            "data.csv",
            "--out",
            "answers.txt",
        ): "--out answers.txt ends in '.txt': choose one of .csv, or give",
    }
    before = sorted(tmp_path.rglob("*"))
    for arguments, sentence in cases.items():
        ended = condgrad_here("predict", *arguments)
        assert (ended.code, ended.stderr.count("\n")) == (2, 1)
        assert sentence in ended.stderr
        assert sorted(tmp_path.rglob("*")) == before
    assert condgrad_here("predict", model, "data.csv").code == 0
    assert (
        (tmp_path / "predictions.csv").read_text().startswith(",prediction,decision value of yes\n")
    )


@pytest.mark.parametrize("options", [(), ("--no-intercept",), ("--no-standardize",)])
def test_columns_of_zeros_and_of_ones(
    options: tuple[str, ...], tmp_path: Path, condgrad_here: Command
) -> None:
    """Neither divides by 0; a column of ones is a constant where there is none."""
    X, y, _ = data()
    columns = [X[:, 0], np.zeros(len(y)), np.ones(len(y))]
    write_table(tmp_path / "data.csv", ["a", "zeros", "ones", "y"], [*columns, y])
    ended = condgrad_here(
        "fit", "data.csv", "--target", "y", "--radius", 50, "--ridge", 0.1, *options
    )
    assert (ended.code, ended.stderr) == (0, "")
    found = {
        row["feature"]: float(row["coefficient"]) for row in coefficients(tmp_path / "condgrad-fit")
    }
    assert found["zeros"] == 0.0
    assert (found["ones"] == 0.0) is ("--no-intercept" not in options)


def test_all_coefficients_are_shown_where_one_would_be_left(
    tmp_path: Path, condgrad_here: Command
) -> None:
    """Ten are shown, eleven too, and of twelve ten and a note on two."""
    rng = np.random.default_rng(7)
    for features, left in ((11, None), (12, 2)):
        X = rng.standard_normal((60, features))
        write_table(
            tmp_path / "data.csv", [*(f"x{k}" for k in range(features)), "y"], [*X.T, X.sum(axis=1)]
        )
        said = condgrad_here(
            "fit", "data.csv", "--target", "y", "--radius", 50, "--ridge", 0.1
        ).stdout
        assert len(re.findall(r"^  x\d+ ", said, re.MULTILINE)) == (11 if left is None else 10)
        assert ("more in coefficients.csv" in said) is (left is not None)
        assert left is None or f"and {left} more" in said


def test_what_was_taken_for_what_is_said(tmp_path: Path, condgrad_here: Command) -> None:
    """A file of pandas with its index, and the same numbers without any header."""
    X, y, _ = data()
    frame = pandas.DataFrame(np.column_stack([X, y]))
    frame.to_csv(tmp_path / "index.csv")
    frame.to_csv(tmp_path / "bare.csv", index=False, header=False)
    said = [
        condgrad_here("fit", name, "--target", 5, *SMALL, "--out", name[0])
        for name in ("index.csv", "bare.csv")
    ]
    assert [ended.code for ended in said] == [0, 0]
    words = [" ".join(ended.stdout.split()) for ended in said]
    assert (
        "6 columns (0, 1, 2, 3, 4, 5), 36 rows, first line taken as the header, the first column"
        in words[0]
    )
    assert (
        "6 columns (0, 1, 2, 3, 4, 5), 36 rows, no header, so columns are counted from 0"
        in words[1]
    )
    assert model_in(tmp_path / "i").coef == model_in(tmp_path / "b").coef
    assert condgrad_here("fit", "index.csv", "--target", 5, "--drop", "", *SMALL).code == 0
    assert "columns are counted from 0" in " ".join(
        condgrad_here("fit", "bare.csv", "--target", 5, "--no-header", *SMALL).stdout.split()
    )


@pytest.mark.slow  # processes of their own
def test_the_installed_script(tmp_path: Path, condgrad: Command) -> None:
    """On a file whose name is no text, which only a process of its own has to print."""
    name = os.fsdecode(b"\xff.csv")
    (tmp_path / name).write_text(TABLE)
    ended = condgrad("fit", name, "--target", "y", *SMALL)
    assert ended.code == 0
    assert re.search(r"Certified: gap / scale of F is \S+, within --tol 1e-06\.", ended.stdout)
    assert "report.txt" in ended.stdout.splitlines()[-1]
    assert ended.stderr == ""
    assert sorted(file.name for file in (tmp_path / "condgrad-fit").iterdir()) == sorted(FILES)
    certificate = json.loads((tmp_path / "condgrad-fit" / "certificate.json").read_bytes())
    assert certificate["data"]["file"] == name


def test_the_report_names_a_model_with_a_penalty_in_plain_words(
    tmp_path: Path, condgrad_here: Command
) -> None:
    X, y, _ = data()
    file = write_data(tmp_path, y, X)
    ended = condgrad_here("fit", file, "--target", "y", "--alpha", 0.5)
    model = re.search(r"^model +(.*)$", ended.stdout, re.MULTILINE)
    assert model is not None
    assert model[1] == "The elastic net, with the penalty of scikit-learn's ElasticNet"
