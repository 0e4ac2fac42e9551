"""Models travel: what is saved predicts, tells its proof and refits as the model did; missing entries are filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer

import condgrad as cg
from condgrad import linear_model

NAMES = [name for name in linear_model.__all__ if name[0].isupper() and name != "Path"]
PROOF = ("objective_", "dual_gap_", "relative_gap_", "multiplier_", "radius_", "n_iter_")


def rows(seed: int = 0, samples: int = 40) -> tuple[Any, Any]:
    """Features with some missing entries, and amounts."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, 6))
    y = np.exp(X[:, 0] + 0.1 * rng.standard_normal(samples))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def target_of(estimator: Any, y: Any) -> Any:
    if not is_classifier(estimator):
        return y
    return np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_loaded(name: str, tmp_path: Path) -> None:
    estimator = getattr(linear_model, name)(impute="median", standardize=True)
    if name.endswith("CV"):
        few = {"n_radii": 4, "alphas": 4, "Cs": 4}
        known = estimator.get_params()
        estimator.set_params(cv=3, **{key: few[key] for key in few if key in known})
    X, y = rows()
    y = target_of(estimator, y)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    estimator.fit(frame, y)
    estimator.save(tmp_path / "model.json")
    again = linear_model.load(tmp_path / "model.json")
    assert type(again).__name__ == name.removesuffix("CV")
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(estimator, method):
            expected = getattr(estimator, method)(frame)
            np.testing.assert_array_equal(getattr(again, method)(frame), expected)
    for attribute in PROOF:
        told, expected = getattr(again, attribute), getattr(estimator, attribute)
        np.testing.assert_array_equal(told, expected)
        assert np.ndim(told) == np.ndim(expected)
    np.testing.assert_array_equal(clone(again).fit(frame, y).coef_, estimator.coef_)
    assert list(again.feature_names_in_) == list("abcdef")


def test_what_else_a_model_is(tmp_path: Path) -> None:
    """Softmax, groups, factors, weights of classes, single precision, sparse coefficients, infinite gaps."""
    X, y = rows(1)
    X = np.nan_to_num(X).astype(np.float32)
    labels = target_of(linear_model.LogisticRegression(), y)
    several = linear_model.ConstrainedLogisticRegression(
        2.0,
        multi_class="multinomial",
        groups=["a", "a", "b", "b", "c", "c"],
        class_weight={"low": 1.0, "mid": 2.0, "top": 0.5},
    )
    factors = linear_model.Lasso(0.1, penalty_factors=np.arange(1.0, 7.0), positive=True)
    free = linear_model.Lasso(0.1, penalty_factors=[0.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    for estimator, target in ((several, labels), (free, y), (factors, y)):
        estimator.fit(X, target).sparsify().save(tmp_path / "m.json")
        again = linear_model.load(tmp_path / "m.json")
        assert again.coef_.dtype == np.float32
        np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
        np.testing.assert_array_equal(clone(again).fit(X, target).coef_, again.coef_)
    assert again.get_params()["penalty_factors"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    fields = json.loads((tmp_path / "m.json").read_text())
    fields["proof"]["dual_gap_"] = None
    (tmp_path / "m.json").write_text(json.dumps(fields))
    assert linear_model.load(tmp_path / "m.json").dual_gap_ == np.inf


class Own(linear_model.Lasso):
    """A class of somebody else."""


def test_the_wrong_door_names_the_right_one(tmp_path: Path) -> None:
    linear_model.Lasso(0.1).fit([[0.0], [1.0]], [0.0, 1.0]).save(tmp_path / "model.json")
    f, g = cg.smooth.LeastSquares([[1.0, 2.0]], [3.0]), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0))
    cg.minimize(f, g).save(tmp_path / "result.npz")
    with pytest.raises(
        ValueError, match=r"is a linear model: load it with condgrad\.linear_model\.load\("
    ):
        cg.load(tmp_path / "model.json")
    with pytest.raises(
        ValueError, match=r"is not a linear model: load results with condgrad\.load\("
    ):
        linear_model.load(tmp_path / "result.npz")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"not a model that condgrad saved: format: the field is missing"
    ):
        linear_model.load(tmp_path / "other.json")
    with pytest.raises(FileNotFoundError):
        linear_model.load(tmp_path / "none.json")
    with pytest.raises(NotFittedError):
        linear_model.Lasso().save(tmp_path / "new.json")
    with pytest.raises(
        ValueError, match=r"save is for the estimators of condgrad\.linear_model, not for Own"
    ):
        Own().fit([[0.0], [1.0]], [0.0, 1.0]).save(tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("rule", ["median", "mean"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_missing_entries_are_filled_as_by_scikit_learn(rule: str, form: Any) -> None:
    X, y = rows(2)
    X[:, 3] = np.nan  # nothing to learn from
    imputer = SimpleImputer(strategy=rule, keep_empty_features=True)
    filled = imputer.fit_transform(form(X))
    model = linear_model.Lasso(0.05, impute=rule).fit(form(X), y)
    judge = linear_model.Lasso(0.05).fit(filled, y)
    np.testing.assert_allclose(model.coef_, judge.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.fill_values_, imputer.statistics_)
    np.testing.assert_allclose(model.predict(form(X)), judge.predict(filled), rtol=1e-9)


def test_a_sample_of_weight_0_does_not_say_what_fills() -> None:
    X, y = rows(3)
    X[0] = 1e3
    weights = np.ones(len(y))
    weights[0] = 0.0
    model = linear_model.Lasso(0.05, impute="mean").fit(X, y, sample_weight=weights)
    judge = linear_model.Lasso(0.05, impute="mean").fit(X[1:], y[1:])
    np.testing.assert_array_equal(model.fill_values_, judge.fill_values_)
    np.testing.assert_allclose(model.coef_, judge.coef_, rtol=1e-6, atol=1e-9)


def test_missing_entries_that_nobody_fills() -> None:
    X, y = rows()
    with pytest.raises(ValueError, match="NaN"):
        linear_model.Lasso().fit(X, y)
    with pytest.raises(
        ValueError, match="impute must be None or one of 'median', 'mean', got 'mode'"
    ):
        linear_model.Lasso(impute="mode").fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        linear_model.Lasso(impute="mean").fit(np.where(np.isnan(X), np.inf, X), y)
    model = linear_model.Lasso().fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X)


def test_a_path_prints_as_a_table_and_draws_itself() -> None:
    X, y = rows()
    found = linear_model.path(np.nan_to_num(X), y, loss="least-squares", radii=[0.0, 0.5, 1.0])
    lines = str(found).splitlines()
    assert lines[0].split() == ["radius", "non-zeros", "value", "gap", "multiplier", "iterations"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "0.5", "1"]
    assert repr(found) == str(found)
    frame = found.to_frame()
    assert frame["non_zeros"].tolist() == np.count_nonzero(found.coefs, axis=1).tolist()
    axes = found.plot(names=list("abcdef"))
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    best = "abcdef"[int(np.argmax(np.abs(found.coefs[-1])))]
    np.testing.assert_array_equal(drawn[best], found.coefs[:, "abcdef".index(best)])
    assert axes.get_xlabel() == r"radius, the bound on $|\mathrm{coef}|_1$"
    with pytest.raises(
        ValueError, match="names must have one name for each of the 6 features, got 2"
    ):
        found.plot(names=["a", "b"])
    long = linear_model.path(np.nan_to_num(X), y, loss="least-squares", alphas=100)
    lines = str(long).splitlines()
    assert lines[0].split()[:2] == ["alpha", "radius"]
    assert len(lines) == 22
    assert "(80 more rows)" in lines


def test_an_error_for_missing_values_says_what_fills_them() -> None:
    X, y = np.array([[1.0], [2.0], [np.nan]]), [0.0, 1.0, 2.0]
    whole = linear_model.Lasso().fit(X[:2], y[:2])
    for call in (lambda: linear_model.Lasso().fit(X, y), lambda: whole.predict(X)):
        with pytest.raises(ValueError, match="Input X contains NaN") as caught:
            call()
        assert "impute='median'" in caught.value.__notes__[0]
