"""Cross-validation: the scores are those of single fits, fold by fold, and the best pair is fitted to all samples."""

from __future__ import annotations

import pickle
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import condgrad as cg
from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    cross_validation,
)
from condgrad.linear_model.cross_validation import best_cell
from condgrad.linear_model.solver import typical_square
from tests.linear_model import drawn

PAIRS = {
    ConstrainedElasticNetCV: ConstrainedElasticNet,
    ConstrainedLogisticRegressionCV: ConstrainedLogisticRegression,
    ConstrainedLinearSVCCV: ConstrainedLinearSVC,
}
every_kind = pytest.mark.parametrize("kind", PAIRS)
X, Y = drawn(0, samples=45, features=6)
THREE = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))


def _size(estimator: Any, X: Any, y: Any) -> float:  # noqa: ARG001  (a scorer's signature)
    """A score that takes no weights and is blind to the model."""
    return float(len(y))


RADII, RIDGES = [0.05, 0.5, 2.0], [0.1, 5.0]
at_the_end = pytest.mark.filterwarnings("ignore:the best of the radii is the last")


@pytest.fixture
def fine_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search whose fits are as fine as the last one."""
    monkeypatch.setattr(cross_validation, "CHOOSING_TOL", 0.0)


@every_kind
@at_the_end
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.usefixtures("fine_search")
def test_scores_are_those_of_single_fits(kind: Any, named: bool) -> None:
    """By default and by name: what we compute by default is what scikit-learn computes by that name."""
    folds = list(StratifiedKFold(3).split(X, Y))
    scoring = kind.default_scoring if named else None
    model = kind(radii=RADII, ridges=RIDGES, cv=folds, tol=1e-8, scoring=scoring).fit(X, Y)
    scorer = get_scorer(kind.default_scoring)
    assert model.scores_.shape == (2, 3, 3)
    for i, ridge in enumerate(RIDGES):
        for j, radius in enumerate(RADII):
            for k, (train, test) in enumerate(folds):
                single = PAIRS[kind](radius, ridge=ridge, tol=1e-8).fit(X[train], Y[train])
                assert model.scores_[i, j, k] == pytest.approx(
                    scorer(single, X[test], Y[test]), rel=1e-3
                )
    i, j = RIDGES.index(model.ridge_), RADII.index(model.radius_)
    assert model.scores_.mean(axis=2)[i, j] == model.scores_.mean(axis=2).max()
    single = PAIRS[kind](model.radius_, ridge=model.ridge_, tol=1e-8).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, single.coef_)
    for name in ("intercept_", "objective_", "dual_gap_", "multiplier_", "n_iter_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(single, name))


@at_the_end
@pytest.mark.usefixtures("fine_search")
def test_the_choice_is_grid_searchs() -> None:
    cv = KFold(4, shuffle=True, random_state=0)
    model = ConstrainedElasticNetCV(radii=RADII, ridges=RIDGES, cv=cv, tol=1e-8).fit(X, Y)
    grid = {"radius": RADII, "ridge": RIDGES}
    search = GridSearchCV(
        ConstrainedElasticNet(tol=1e-8), grid, cv=cv, scoring="neg_mean_squared_error"
    ).fit(X, Y)
    assert search.best_params_ == {"radius": model.radius_, "ridge": model.ridge_}


@every_kind
def test_default_radii(kind: type) -> None:
    model = kind(n_radii=6, ridges=(0.2, 1.0), cv=3, tol=1e-4).fit(X, Y)
    assert model.radii_.shape == (6,)
    np.testing.assert_allclose(model.radii_[-1] / model.radii_[0], 1e3)
    free = PAIRS[kind](1e3, ridge=0.2).fit(X, Y)
    assert model.radii_[-1] == pytest.approx(np.abs(free.coef_).sum(), rel=0.05)
    assert model.radius_ in model.radii_
    assert model.ridge_ in (0.2, 1.0)
    assert model.score(X, Y) > 0.3


@at_the_end
def test_several_classes_share_their_radius() -> None:
    model = ConstrainedLogisticRegressionCV(radii=RADII, cv=3).fit(X, THREE)
    assert model.coef_.shape == (3, 6)
    assert model.dual_gap_.shape == (3,)
    assert (model.scores_ < 0.0).all()
    assert (np.abs(model.coef_).sum(axis=1) <= model.radius_ * (1.0 + 1e-9)).all()


@at_the_end
@pytest.mark.parametrize(
    "layout", [np.ascontiguousarray, np.asfortranarray, scipy.sparse.csr_array]
)
@pytest.mark.parametrize("multi_class", ["ovr", "multinomial"])
def test_several_classes_are_scored_as_by_name(multi_class: str, layout: Any) -> None:
    """Whole paths are scored at once by default, and model by model by name."""
    options: dict[str, Any] = {
        "radii": RADII,
        "ridges": RIDGES,
        "cv": 3,
        "multi_class": multi_class,
    }
    default = ConstrainedLogisticRegressionCV(**options).fit(layout(X), THREE)
    named = ConstrainedLogisticRegressionCV(**options, scoring="neg_log_loss").fit(layout(X), THREE)
    np.testing.assert_allclose(default.scores_, named.scores_, rtol=1e-9)


@at_the_end
def test_wide_data_are_scored_alike_in_any_order() -> None:
    wide = np.random.default_rng(0).standard_normal((45, 80)) + X[:, :1]
    options: dict[str, Any] = {"radii": RADII, "ridges": RIDGES, "cv": 3}
    by_rows = ConstrainedElasticNetCV(**options).fit(np.ascontiguousarray(wide), Y)
    by_columns = ConstrainedElasticNetCV(**options, scoring="neg_mean_squared_error").fit(
        np.asfortranarray(wide), Y
    )
    np.testing.assert_allclose(by_rows.scores_, by_columns.scores_, rtol=1e-6)


@every_kind
def test_equal_scores_prefer_the_simplest(kind: type) -> None:
    model = kind(radii=[3.0, 1.0, 2.0], ridges=[0.1, 0.4], cv=2, scoring=_size).fit(X, Y)
    assert (model.radius_, model.ridge_) == (1.0, 0.4)
    np.testing.assert_array_equal(model.radii_, [1.0, 2.0, 3.0])


def test_scores_that_are_not_numbers() -> None:
    means = np.array([[np.nan, 1.0, 2.0]])
    assert best_cell(means) == (0, 2)
    with pytest.raises(ValueError, match="no score is finite"):
        best_cell(means[:, :1])


@pytest.mark.usefixtures("fine_search")
def test_weights_enter_fits_and_scores() -> None:
    weights = np.random.default_rng(0).integers(0, 3, 45).astype(float)
    folds = list(KFold(3).split(X))
    model = ConstrainedElasticNetCV(radii=[0.5], ridges=[0.5], cv=folds, tol=1e-8).fit(
        X, Y, sample_weight=weights
    )
    for k, (train, test) in enumerate(folds):
        single = ConstrainedElasticNet(0.5, tol=1e-8).fit(
            X[train], Y[train], sample_weight=weights[train]
        )
        error = mean_squared_error(Y[test], single.predict(X[test]), sample_weight=weights[test])
        assert model.scores_[0, 0, k] == pytest.approx(-error, rel=1e-3)
    plain = ConstrainedElasticNetCV(radii=[0.5], ridges=[0.5], cv=folds, scoring=_size)
    np.testing.assert_array_equal(
        plain.fit(X, Y, sample_weight=weights).scores_, np.full((1, 1, 3), 15.0)
    )


@pytest.mark.usefixtures("fine_search")
def test_scorers_that_take_no_weights() -> None:
    """scikit-learn's scorer of `max_error` takes weights and its metric refuses them: the fits are weighted alone."""
    weights = np.random.default_rng(0).integers(1, 3, 45).astype(float)
    folds = list(KFold(3).split(X))
    options: dict[str, Any] = {
        "radii": [0.5],
        "ridges": [0.5],
        "cv": folds,
        "scoring": "neg_max_error",
        "tol": 1e-8,
    }
    model = ConstrainedElasticNetCV(**options).fit(X, Y, sample_weight=weights)
    for k, (train, test) in enumerate(folds):
        single = ConstrainedElasticNet(0.5, tol=1e-8).fit(
            X[train], Y[train], sample_weight=weights[train]
        )
        assert model.scores_[0, 0, k] == pytest.approx(
            -abs(Y[test] - single.predict(X[test])).max(), rel=1e-6
        )


def test_the_errors_of_a_scorer_are_its_own() -> None:
    def broken(*_: Any, **options: Any) -> float:
        assert list(options) == ["sample_weight"]
        raise TypeError("no such thing")

    with pytest.raises(TypeError, match="no such thing"):
        ConstrainedElasticNetCV(radii=[0.5], scoring=broken).fit(X, Y, sample_weight=np.ones(45))


@every_kind
@at_the_end
def test_formats(kind: type) -> None:
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = kind(radii=RADII, cv=3).fit(frame, Y)
    assert list(model.feature_names_in_) == list("abcdef")
    sparse = kind(radii=RADII, cv=3).fit(scipy.sparse.csc_array(X), Y)
    assert sparse.radius_ == model.radius_
    np.testing.assert_allclose(sparse.coef_, model.coef_, atol=1e-3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert clone(model).get_params() == model.get_params()


@at_the_end
@pytest.mark.slow
def test_folds_from_a_generator_in_several_processes() -> None:
    alone = ConstrainedElasticNetCV(radii=RADII, cv=3).fit(X, Y)
    model = ConstrainedElasticNetCV(radii=RADII, cv=KFold(3).split(X), n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(model.scores_, alone.scores_, rtol=1e-9)


@pytest.mark.parametrize("kind", [ConstrainedLogisticRegressionCV, ConstrainedLinearSVCCV])
def test_a_fold_of_one_class_is_named(kind: type) -> None:
    positive, negative = np.flatnonzero(Y > 0), np.flatnonzero(Y < 0)
    folds: list[Any] = [(np.arange(45), np.arange(5)), (positive, negative)]
    with pytest.raises(
        ValueError, match=r"in fold 1: y must hold at least two classes.*take fewer or other folds"
    ):
        kind(radii=[1.0], cv=folds).fit(X, Y)


def test_warnings_and_errors() -> None:
    with pytest.warns(ConvergenceWarning, match="of 10 fits fell short") as seen:
        ConstrainedLogisticRegressionCV(
            radii=[0.05, 0.5, 2.0], ridges=[5.0], cv=3, max_iter=1, method="cgs"
        ).fit(X, Y)
    assert len(seen) == 1
    for options, message in (
        ({"ridges": [-1.0]}, "ridge must be finite and >= 0"),
        ({"selection": "worst"}, "selection must be one of 'best', '1se', got 'worst'"),
        ({"ridges": []}, "ridges must hold at least one"),
        ({"radii": [-1.0]}, "radii must be finite and >= 0"),
        ({"radii": []}, "radii must hold at least one"),
        ({"n_radii": 0}, "n_radii must be >= 1"),
        ({"scoring": "fame"}, "scoring"),
    ):
        with pytest.raises(ValueError, match=message):
            ConstrainedElasticNetCV(**options).fit(X, Y)


# --- the choice, as statisticians make it ---


def _falling(estimator: Any, X: Any, y: Any) -> float:  # noqa: ARG001  (a scorer's signature)
    """1, .9, .8, ... as |coef|_1 falls short of 2, and a little noise by fold."""
    return -abs(float(np.abs(estimator.coef_).sum()) - 2.0) + float(np.sin(X.sum()))


@pytest.mark.parametrize("selection", ["best", "1se"])
def test_one_standard_error(selection: str) -> None:
    radii = np.arange(1.0, 13.0) / 4.0
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    Z = 100.0 * X
    model = ConstrainedElasticNetCV(
        radii=radii, ridges=[1e-6], cv=folds, scoring=_falling, selection=selection
    )
    model.fit(Z, 1e4 * Y)
    means = model.scores_.mean(axis=2)[0]
    error = model.scores_.std(axis=2, ddof=1)[0] / np.sqrt(5.0)
    best = int(means.argmax())
    assert model.radius_best_ == radii[best] == 2.0
    smallest = min(
        r for r, mean in zip(radii, means, strict=True) if mean >= means[best] - error[best]
    )
    assert model.radius_1se_ == smallest < 2.0
    assert model.radius_ == (smallest if selection == "1se" else 2.0)
    assert np.abs(model.coef_).sum() == pytest.approx(model.radius_)


@at_the_end
def test_the_curve_as_a_table() -> None:
    model = ConstrainedLogisticRegressionCV(radii=RADII, ridges=RIDGES, cv=3).fit(X, Y)
    table = model.cv_table()
    assert len(table) == 6
    for _, row in table.iterrows():
        i, j = RIDGES.index(row["param_ridge"]), RADII.index(row["param_radius"])
        assert row["mean_test_score"] == pytest.approx(model.scores_[i, j].mean())
        assert row["standard_error"] == pytest.approx(
            model.scores_[i, j].std(ddof=1) / np.sqrt(3.0)
        )
        assert [row[f"split{k}_test_score"] for k in range(3)] == list(model.scores_[i, j])
    assert table["selected"].sum() == 1
    assert table.loc[table["selected"], "rank_test_score"].item() == 1
    assert set(model.cv_results_) < set(table)


def test_a_best_radius_at_the_end_of_the_grid_warns() -> None:
    with pytest.warns(
        UserWarning, match="the best of the radii is the last, 0.1: a larger one may score better"
    ):
        ConstrainedElasticNetCV(radii=[0.01, 0.1], cv=3).fit(X, Y)
    # idle at the end: no larger radius is another model
    ConstrainedElasticNetCV(radii=[0.01, 1e3], ridges=[0.5], cv=3).fit(X, Y)


def test_default_ridges_follow_the_units() -> None:
    once = ConstrainedElasticNetCV(n_radii=3, cv=3).fit(X, Y)
    weights = np.full(45, 4.0)
    scaled = ConstrainedElasticNetCV(n_radii=3, cv=3).fit(10.0 * X + 5.0, Y, sample_weight=weights)
    np.testing.assert_allclose(scaled.ridges_, 400.0 * once.ridges_)
    np.testing.assert_allclose(
        once.ridges_, np.array([1e-3, 1e-2, 1e-1]) * 45 * np.median(X.var(axis=0))
    )
    np.testing.assert_allclose(scaled.radii_, once.radii_ / 10.0, rtol=0.05)
    sparse = ConstrainedElasticNetCV(n_radii=3, cv=3).fit(scipy.sparse.csr_array(X), Y)
    np.testing.assert_allclose(sparse.ridges_, once.ridges_)


@pytest.mark.parametrize("layout", ["dense", "sparse", "dask"])
@pytest.mark.parametrize(
    ("dtype", "offset"), [(np.float64, 5e5), (np.float64, 1e9), (np.float32, 4096.0)]
)
def test_default_ridges_do_not_see_an_offset(layout: str, dtype: Any, offset: float) -> None:
    """NumPy's variance of the same numbers, in float64, is the judge."""
    data = (np.round(X, 3) + offset).astype(dtype)
    spread = 45 * np.median(data.astype(np.float64).var(axis=0))
    assert typical_square(loss_of(data, layout)) == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize("layout", ["dense", "sparse", "dask"])
@pytest.mark.parametrize("entry", [0.0, 0.1, 4.7e5])
def test_where_no_feature_varies_the_ridge_follows_the_weights(layout: str, entry: float) -> None:
    weights = np.random.default_rng(0).random(45)
    data = np.full((45, 2), entry)
    once = typical_square(loss_of(data, layout, weights))
    assert typical_square(loss_of(data, layout, 2.0**-20 * weights)) == 2.0**-20 * once
    assert once == pytest.approx(weights.sum() * (entry**2 or 1.0))


def loss_of(data: Any, layout: str, weights: Any = None) -> Any:
    """A least-squares loss with an intercept."""
    if layout == "sparse":
        data = scipy.sparse.csc_array(data)
    if layout == "dask":
        data = dask.array.from_array(data, chunks=(20, -1))
    return cg.smooth.LeastSquares(data, Y, sample_weight=weights, intercept=True)


def test_one_feature_in_a_unit_of_its_own_leaves_the_ridges_of_the_others() -> None:
    other = np.column_stack([X[:, :-1], 1e3 * X[:, -1]])
    once, mixed = (
        ConstrainedElasticNetCV(n_radii=3, cv=3).fit(data, Y).ridges_ for data in (X, other)
    )
    assert mixed.max() < 3.0 * once.max()


def test_equal_scores_have_equal_ranks() -> None:
    model = ConstrainedElasticNetCV(radii=[0.1, 1e3, 2e3], ridges=[0.5], cv=3).fit(X, Y)
    scores, ranks = model.cv_results_["mean_test_score"], model.cv_results_["rank_test_score"]
    assert scores[1] == scores[2]  # the constraint is slack
    assert ranks.tolist() == scipy.stats.rankdata(-scores, method="min").tolist()
    assert model.cv_table()["rank_test_score"][model.cv_table()["selected"]].tolist() == [1]


def test_a_class_that_a_fold_did_not_see_scores_nothing() -> None:
    y = np.where(np.arange(45) < 15, 2, (Y > 0).astype(int))
    folds = [(np.arange(15, 45), np.arange(15)), (np.arange(40), np.arange(40, 45))]
    with pytest.raises(ValueError, match="no score is finite"):
        ConstrainedLogisticRegressionCV(radii=[0.5], ridges=[0.5], cv=folds).fit(X, y)


@pytest.mark.parametrize(("columns", "target"), [(1e-4, 1e6), (1.0, 1.0), (1e-6, 1e-6)])
def test_default_radii_follow_the_units(columns: float, target: float) -> None:
    """Up to the norm of the solution without a constraint, however little the ridge leaves of it."""
    rng = np.random.default_rng(0)
    X = columns * rng.standard_normal((60, 5))
    y = target * (rng.standard_normal(60) + X[:, 0] / columns)
    centred = X - X.mean(axis=0)
    free = np.linalg.solve(centred.T @ centred + np.eye(5), centred.T @ (y - y.mean()))
    assert ConstrainedElasticNetCV(n_radii=3, ridges=[0.5]).fit(X, y).radii_[-1] == pytest.approx(
        np.abs(free).sum(), rel=0.1
    )
