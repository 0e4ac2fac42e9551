"""One model whichever door: `condgrad fit` and the Python that it prints agree to the last digit, and scikit-learn's
pipelines judge what happens in the folds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condgrad import linear_model
from tests.cli.conftest import Command

GENES = [f"gene {k}" for k in range(6)]


def patients(rows: int = 48, seed: int = 0) -> Any:
    """Features in many units with holes, targets of each kind, weights (some 0) and an offset."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((rows, 6))
    X = Z * [10.0, 2e4, 3.0, 1e-3, 1.0, 0.1] + [50.0, 3e4, 0.1, 0.0, -2.0, 7.0]
    X[rng.random(X.shape) < 0.06] = np.nan
    X[:, 5] = Z[:, 5]  # a column without holes
    signal = Z[:, 0] - Z[:, 1] + 0.6 * rng.standard_normal(rows)
    frame = pandas.DataFrame(X, columns=GENES)
    frame.insert(0, "who", [f"p{k}" for k in range(rows)])
    return frame.assign(
        price=3.0 * signal + 100.0,
        kind=np.array(["low", "mid", "top"])[np.digitize(signal, [-0.7, 0.7])],
        ill=np.where(signal > 0.0, "yes", "no"),
        log_years=np.log(rng.uniform(0.5, 3.0, rows)),
        visits=rng.poisson(np.exp(0.5 * Z[:, 0] + 1.0)),
        w=rng.integers(0, 3, rows),
    )


def roles(target: str, *used: str) -> tuple[str, ...]:
    """Options that leave out all columns which are no features."""
    others = {"price", "kind", "ill", "log_years", "visits", "w"} - {target, *used}
    return (
        "--target",
        target,
        "--id",
        "who",
        *(part for name in sorted(others) for part in ("--drop", name)),
    )


CV = ("--folds", "3", "--grid", "5")
DOORS: dict[str, Sequence[str]] = {
    "labels": (*roles("ill"), "--impute", "median", *CV, "--selection", "1se", "--seed", "4"),
    "numbers": (*roles("price"), "--impute", "mean", *CV, "--ridge", "0.1,1", "--positive"),
    "one fit": (*roles("ill"), "--impute", "mean", "--radius", "1", "--ridge", "0.5", "--no-intercept"),
    "rows left out": (*roles("price", "w"), "--impute", "drop-rows", "--weights", "w", *CV),
    "columns left out": (*roles("ill"), "--impute", "drop-columns", "--radius", "1,2", "--ridge", "0.1"),
    "hinge": (*roles("ill"), "--impute", "median", "--loss", "squared-hinge", "--C", "0.1", "--tol", "1e-7"),
    "penalty of labels": (*roles("ill"), "--impute", "median", "--form", "penalty", *CV, "--l1-ratio", "0.5,1"),
    "penalty of numbers": (*roles("price"), "--impute", "median", "--form", "penalty", *CV),
    "softmax": (*roles("kind"), "--impute", "median", "--multi-class", "multinomial", *CV, "--ridge", "0.5"),
    "classes": (*roles("kind"), "--impute", "median", "--radius", "1", "--ridge", "0.5", "--no-standardize"),
    "counts": (
        *roles("visits", "log_years", "w"), "--loss", "poisson", "--impute", "median", "--offset", "log_years",
        "--weights", "w", *CV,
    ),
    "robust": (*roles("price"), "--loss", "huber", "--delta", "2", "--alpha", "0.3", "--impute", "mean"),
    "always in": (
        *roles("ill"), "--impute", "median", "--unpenalised", "gene 0", "--unpenalised", "gene 4", *CV, "--ridge", "0.5",
    ),
    "groups": (*roles("price"), "--impute", "median", "--groups", "groups.csv", "--radius", "3", "--ridge", "0.1"),
}  # fmt: skip


DRAWN = ("always in", "softmax", "penalty of numbers", "groups", "counts")


def in_python(lines: Sequence[str]) -> Any:
    """What the printed program fits."""
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    return names


@pytest.mark.parametrize("options", DOORS.values(), ids=DOORS)
def test_both_doors_lead_to_the_same_model(
    options: Sequence[str], tmp_path: Path, condgrad_here: Command
) -> None:
    patients().to_csv(tmp_path / "patients.csv", index=False)
    pandas.DataFrame({"feature": GENES, "group": list("aabbcc")}).to_csv("groups.csv", index=False)
    ended = condgrad_here("fit", "patients.csv", *options, "--json")
    assert ended.code == 0, ended.stderr
    facts = json.loads(ended.stdout)
    model = in_python(facts["python"])["model"]
    saved = linear_model.load(tmp_path / "condgrad-fit" / "model.json")
    np.testing.assert_array_equal(saved.coef_, model.coef_)
    np.testing.assert_array_equal(saved.intercept_, model.intercept_)
    np.testing.assert_array_equal(saved.dual_gap_, model.dual_gap_)
    report = (tmp_path / "condgrad-fit" / "report.txt").read_text()
    assert all(f"  {line}" in report for line in facts["python"])


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own; pictures are made where they differ from those of other tests."""
    monkeypatch.chdir(tmp_path)
    if not any(f"[{name}]" in request.node.name for name in DRAWN):
        monkeypatch.setattr("condgrad.cli.fit_report.draw_fits", lambda *_: None)


@pytest.mark.parametrize("kind", ["parquet", "npy", "tsv.gz", "bare", "index"])
def test_other_files(kind: str, tmp_path: Path, condgrad_here: Command) -> None:
    frame = patients()[[*GENES, "price"]]
    asked = "price"
    more: tuple[str, ...] = ()
    if kind == "parquet":
        patients()[["who", *GENES, "price"]].to_parquet(name := "table.parquet", index=False)
        more = ("--id", "who")
    elif kind == "npy":
        np.save(name := "table.npy", frame.to_numpy())
        asked = "-1"
    elif kind == "bare":
        frame.to_csv(name := "table.csv", index=False, header=False, sep=";", na_rep="?")
        asked = "6"
    elif kind == "index":
        frame.to_csv(name := "table.csv")
    else:
        frame.to_csv(name := "table.tsv.gz", index=False, sep="\t")
    options = ("--impute", "median", "--folds", 3, "--grid", 4, "--ridge", 0.3)
    ended = condgrad_here("fit", name, "--target", asked, *options, *more, "--json")
    assert ended.code == 0, ended.stderr
    model = in_python(json.loads(ended.stdout)["python"])["model"]
    saved = linear_model.load(tmp_path / "condgrad-fit" / "model.json")
    np.testing.assert_array_equal(saved.coef_, model.coef_)


def test_folds_are_those_of_scikit_learns_pipelines(tmp_path: Path, condgrad_here: Command) -> None:
    """Each score of the search is that of a pipeline which imputes and standardises in the fold."""
    frame = patients()
    frame.to_csv("patients.csv", index=False)
    options = ("--impute", "median", "--folds", 3, "--radius", "0.5,2", "--ridge", 0.5)
    ended = condgrad_here("fit", "patients.csv", *roles("ill"), *options, "--json")
    facts = json.loads(ended.stdout)
    X, y = frame[GENES].to_numpy(), frame["ill"].to_numpy()
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    table = pandas.read_csv(tmp_path / "condgrad-fit" / "cross_validation.csv")
    for row in table.itertuples():
        judge = make_pipeline(
            SimpleImputer(strategy="median"),
            StandardScaler(),
            linear_model.ConstrainedLogisticRegression(row.param_radius, 0.5, tol=1e-8),
        )
        scores = cross_val_score(judge, X, y, cv=splitter, scoring="neg_log_loss")
        found = [row.split0_test_score, row.split1_test_score, row.split2_test_score]
        np.testing.assert_allclose(found, scores, rtol=2e-3)  # the search stops at 1e-4
    best = judge.set_params(constrainedlogisticregression__radius=facts["radius"])
    answers = cross_val_predict(best, X, y, cv=splitter)
    assert facts["cross_validated_score"] == pytest.approx(np.mean(answers == y))


def test_a_fold_learns_from_its_own_rows() -> None:
    """Medians and deviations of all rows would give other scores."""
    frame = patients(seed=3)
    X, y = frame[GENES].to_numpy(), frame["price"].to_numpy()
    cv = KFold(3, shuffle=True, random_state=1)
    options: dict[str, Any] = {"radii": [4.0], "ridges": [0.5], "cv": cv, "standardize": True}
    model = linear_model.ConstrainedElasticNetCV(impute="mean", **options).fit(X, y)
    single = linear_model.ConstrainedElasticNet(4.0, 0.5, standardize=True)
    judge = make_pipeline(SimpleImputer(strategy="mean"), single)
    scores = cross_val_score(judge, X, y, cv=cv, scoring="neg_mean_squared_error")
    np.testing.assert_allclose(model.scores_[0, 0], scores, rtol=1e-3)
    filled = SimpleImputer(strategy="mean").fit_transform(X)
    other = linear_model.ConstrainedElasticNetCV(**options).fit(filled, y)
    assert np.abs(other.scores_ - model.scores_).max() > 1e-2 * np.abs(scores).max()
    np.testing.assert_array_equal(model.predict(X), judge.fit(X, y).predict(X))


def test_new_rows_with_holes(condgrad_here: Command) -> None:
    """What was learnt fills them; without it all are counted, and rows are left out where they were."""
    frame = patients()
    frame[:36].to_csv("patients.csv", index=False)
    frame[36:].to_csv("new.csv", index=False)
    fixed = (*roles("ill"), "--radius", 1, "--ridge", 0.5)
    assert condgrad_here("fit", "patients.csv", *fixed, "--impute", "median").code == 0
    said = condgrad_here("predict", "condgrad-fit/model.json", "new.csv")
    assert "filled with values from the fit" in said.stdout
    judge = make_pipeline(
        SimpleImputer(strategy="median"),
        StandardScaler(),
        linear_model.ConstrainedLogisticRegression(1.0, 0.5),
    ).fit(frame[GENES][:36], frame["ill"][:36])
    found = pandas.read_csv("predictions.csv")
    chances = judge.predict_proba(frame[GENES][36:])
    np.testing.assert_allclose(found["probability of yes"], chances[:, 1], atol=1e-4)
    assert found["who"].tolist() == frame["who"][36:].tolist()

    assert condgrad_here("fit", "patients.csv", *fixed, "--impute", "drop-rows").code == 0
    said = condgrad_here("predict", "condgrad-fit/model.json", "new.csv")
    found = pandas.read_csv("predictions.csv")
    used = linear_model.load("condgrad-fit/model.json").coef_[0] != 0.0
    whole = frame[GENES][36:].loc[:, used].notna().all(axis=1).to_numpy()
    assert not whole.all()
    np.testing.assert_array_equal(found["prediction"].notna(), whole)
    assert "with empty cells: no prediction" in said.stdout

    assert condgrad_here("fit", "patients.csv", *fixed, "--impute", "drop-columns").code == 0
    is_empty = np.arange(12) % 3 == 0  # in a column that was whole where the model was fitted
    later = frame[36:].assign(**{"gene 5": np.where(is_empty, np.nan, frame["gene 5"][36:])})
    later.to_csv("new.csv", index=False)
    said = condgrad_here("predict", "condgrad-fit/model.json", "new.csv")
    assert "4 rows with empty cells: no prediction" in said.stdout
    found = pandas.read_csv("predictions.csv")
    np.testing.assert_array_equal(found["prediction"].isna(), is_empty)


def test_without_a_rule_all_empty_cells_are_counted(condgrad_here: Command) -> None:
    frame = patients()
    frame.to_csv("patients.csv", index=False)
    holes = int(frame[GENES].isna().sum().sum())
    ended = condgrad_here("fit", "patients.csv", *roles("ill"))
    assert ended.code == 2
    assert f"patients.csv has {holes} empty cells in 5 of 6 columns, the first in" in ended.stderr
    for word in ("--impute median", "mean", "drop-rows", "drop-columns", "--drop"):
        assert word in ended.stderr
    assert condgrad_here("fit", "patients.csv", "--target", "ill").stderr.count("--id who") == 1


BAD: dict[str, tuple[Sequence[str], str]] = {
    "both forms": (("--alpha", "1", "--radius", "2"), "--radius does not go with this fit: --alpha and --l1-ratio"),
    "C of numbers": (("--C", "1"), "--C does not go with this fit"),
    "alpha of labels": (("--target", "ill", "--alpha", "1"), "--alpha does not go with this fit: --C and --l1-ratio"),
    "no radius": (("--loss", "poisson", "--form", "radius"), "--loss poisson has a penalty"),
    "words": (("--radius", "1,two"), "--radius must be"),
    "ratio": (("--l1-ratio", "2"), "--l1-ratio must be from 0 to 1, got 2"),
    "alpha 0": (("--alpha", "0"), "--alpha must be above 0, got 0"),
    "delta": (("--delta", "2"), "--delta is for --loss huber"),
    "multi-class": (("--multi-class", "ovr"), "--multi-class ovr is for --loss logistic"),
    "groups": (("--groups", "groups.csv"), "--groups groups.csv has no group for 'gene 1'"),
    "grouped penalty": (("--groups", "whole.csv", "--alpha", "1"), "--groups works with --form radius"),
    "rule": (("--impute", "mode"), "--impute must be one of median, mean, drop-rows, drop-columns, got 'mode'"),
    "offset": (("--offset", "kind"), "--offset kind: this column holds text"),
    "offset with holes": (("--offset", "gene 4"), "--offset gene 4: this column has"),
    "offset of classes": (("--target", "kind", "--offset", "log_years"), "--offset works for numbers or two classes only"),
    "counts below 0": (("--target", "log_years", "--loss", "poisson", "--alpha", "1"), "y must"),
    "two roles": (("--weights", "w", "--offset", "w"), "--offset w: this column is the target, or it has another role"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "said"), BAD.values(), ids=BAD)
def test_what_does_not_go_together(
    options: Sequence[str], said: str, condgrad_here: Command
) -> None:
    patients().to_csv("patients.csv", index=False)
    Path("groups.csv").write_text("feature,group\ngene 0,a\n")
    Path("whole.csv").write_text("feature,group\n" + "".join(f"{name},a\n" for name in GENES))
    target = options[1] if options[0] == "--target" else "price"
    rest = options[2:] if options[0] == "--target" else options
    free = [word for word in ("kind", "w", "log_years") if word in rest]
    filled = () if "--impute" in rest else ("--impute", "median")
    ended = condgrad_here("fit", "patients.csv", *roles(target, *free), *filled, *rest)
    assert ended.code == 2
    assert ended.stderr.count("\n") == 1
    assert said in ended.stderr, ended.stderr


def test_a_column_that_counts_the_rows_is_pointed_at(condgrad_here: Command) -> None:
    patients()[[*GENES, "price"]].assign(**{"patient_id": range(48)}).to_csv("p.csv", index=False)
    asked = ("--target", "price", "--impute", "mean", "--radius", 1, "--ridge", 1)
    said = " ".join(condgrad_here("fit", "p.csv", *asked).stdout.split())
    assert (
        "'patient_id' has a different whole number in each row. If it has the names of the rows, use --id"
        in said
    )
    said = condgrad_here("fit", "p.csv", *asked, "--id", "patient_id").stdout
    assert "--id" not in said
    assert "8 columns (patient_id, gene 0," in said
