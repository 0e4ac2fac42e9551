"""The estimators as scikit-learn's users meet them: attributes, data formats, warnings, errors."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import condgrad as cg
from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedLinearSVC,
    ConstrainedLogisticRegression,
)
from tests.linear_model import SINGLE, drawn

every_kind = pytest.mark.parametrize("kind", SINGLE)
classifiers = pytest.mark.parametrize("kind", [ConstrainedLogisticRegression, ConstrainedLinearSVC])
X, Y = drawn(0, samples=40, features=8)
THREE = np.array(["ape", "bee", "cow"])[np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))]


# --- what fit leaves behind ---


@every_kind
def test_attributes(kind: type) -> None:
    model = kind(0.7, ridge=0.4).fit(X, Y)
    tasks = () if kind is ConstrainedElasticNet else (1,)
    assert model.coef_.shape == (*tasks, 8)
    for name in (
        "intercept_",
        "n_iter_",
        "objective_",
        "dual_gap_",
        "relative_gap_",
        "multiplier_",
    ):
        assert np.shape(getattr(model, name)) == tasks, name
    assert np.all(model.n_iter_ >= 1)
    assert np.all(model.dual_gap_ >= 0.0)
    # no less than a hundredth of the null model is left
    np.testing.assert_allclose(model.relative_gap_, model.dual_gap_ / model.objective_)
    assert np.all(model.relative_gap_ <= 1e-6)
    assert model.n_features_in_ == 8
    public = {name for name in vars(model) if name not in model.get_params()}
    assert all(name.endswith("_") for name in public)


@every_kind
def test_attributes_are_those_of_minimize(kind: type) -> None:
    model = kind(0.7, ridge=0.4).fit(X, Y)
    loss = {
        ConstrainedElasticNet: cg.smooth.LeastSquares,
        ConstrainedLogisticRegression: cg.smooth.Logistic,
    }
    f = loss.get(kind, cg.smooth.SquaredHinge)(X, Y, intercept=True)
    result = cg.minimize(f, cg.simple.Ridge(0.4, on=cg.sets.L1Ball(0.7)), method="auto")
    np.testing.assert_array_equal(np.ravel(model.coef_), result.x)
    assert np.ravel(model.intercept_)[0] == pytest.approx(f.intercept_at(result.x), rel=1e-13)
    assert (np.ravel(model.objective_)[0], np.ravel(model.dual_gap_)[0]) == (
        result.value,
        result.gap,
    )


@every_kind
def test_pickling_and_clone(kind: type) -> None:
    model = kind(
        0.7, ridge=0.4, tol=1e-5, max_iter=500, warm_start=True, fit_intercept=False, method="cgs"
    ).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


@every_kind
@pytest.mark.parametrize("method", ["cgs", "cg", "auto"])
def test_methods(kind: type, method: str) -> None:
    """All of them prove the same optimum."""
    model, judge = kind(0.5, tol=1e-3, method=method).fit(X, Y), kind(0.5, tol=1e-9).fit(X, Y)
    assert np.all(model.objective_ - model.dual_gap_ <= judge.objective_)
    assert np.all(judge.objective_ - judge.dual_gap_ <= model.objective_)


@every_kind
def test_warm_start(kind: type) -> None:
    model = kind(0.7, warm_start=True, tol=1e-8).fit(X, Y)
    first = np.copy(model.n_iter_)
    again = model.fit(X, Y).n_iter_
    assert np.all(again <= 1)
    assert np.all(again < first)
    model.set_params(radius=0.2).fit(X, Y)  # the last coefficients lie outside the new ball
    np.testing.assert_allclose(
        model.objective_, kind(0.2, tol=1e-8).fit(X, Y).objective_, rtol=1e-7
    )
    model.fit(X[:, :5], Y)  # nothing to start from
    assert model.coef_.shape[-1] == 5


# --- data formats ---


@every_kind
@pytest.mark.parametrize(
    "form", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array]
)
def test_sparse_data(kind: type, form: Any) -> None:
    counts = np.random.default_rng(1).poisson(0.5, (40, 8))
    dense, sparse = kind(0.7).fit(counts.astype(float), Y), kind(0.7).fit(form(counts), Y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-3)
    np.testing.assert_allclose(sparse.predict(form(counts)), sparse.predict(counts))


def only_gram_matrices(toarray: Any) -> Any:
    """Small square matrices may be dense, data may not."""

    def checked(matrix: Any) -> Any:
        assert matrix.shape[0] == matrix.shape[1]
        return toarray(matrix)

    return checked


@every_kind
def test_sparse_data_stay_sparse(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    data = scipy.sparse.random_array((40, 30), density=0.1, rng=2, format="csr")
    for form in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        monkeypatch.setattr(form, "todense", None)
        monkeypatch.setattr(form, "toarray", only_gram_matrices(form.toarray))
    kind(0.7).fit(data, Y).predict(data)


@every_kind
def test_single_precision(kind: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(0.7).fit(X.astype(np.float32), Y)
    assert model.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, kind(0.7).fit(X, Y).coef_, atol=2e-2)
    assert kind(0.7).fit((10 * X).astype(int), Y).coef_.dtype == np.float64


@every_kind
def test_frames(kind: type) -> None:
    names = [f"gene {i}" for i in range(8)]
    frame = pd.DataFrame(X, columns=names)
    model = kind(0.7).fit(frame, pd.Series(Y), sample_weight=pd.Series(np.ones(40)))
    assert list(model.feature_names_in_) == names
    np.testing.assert_allclose(model.predict(frame), kind(0.7).fit(X, Y).predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_labels_of_any_kind() -> None:
    for labels in (np.array(["no", "yes"]), np.array([False, True]), np.array([3, 7])):
        model = ConstrainedLogisticRegression().fit(X, labels[(Y > 0).astype(int)])
        np.testing.assert_array_equal(model.classes_, labels)
        np.testing.assert_array_equal(
            model.predict(X) == labels[1], model.decision_function(X) > 0.0
        )


# --- classification ---


def test_probabilities() -> None:
    model = ConstrainedLogisticRegression(2.0).fit(X, Y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], expit(model.decision_function(X)), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    three = ConstrainedLogisticRegression(2.0).fit(X, THREE)
    each = expit(three.decision_function(X))
    np.testing.assert_allclose(
        three.predict_proba(X), each / each.sum(axis=1, keepdims=True), rtol=1e-10
    )
    np.testing.assert_allclose(
        np.exp(three.predict_log_proba(X)), three.predict_proba(X), rtol=1e-12
    )


@pytest.mark.parametrize("labels", [Y, THREE])
def test_probabilities_far_out(labels: Any) -> None:
    """Where every class but one underflows, and where all do."""
    far = 1e5 * np.vstack([np.eye(8), -np.eye(8)])
    model = ConstrainedLogisticRegression(2.0).fit(X, labels)
    logs = model.predict_log_proba(far)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0, rtol=1e-12)
    chosen = np.searchsorted(model.classes_, model.predict(far))
    np.testing.assert_array_equal(logs[np.arange(16), chosen], logs.max(axis=1))


@classifiers
def test_class_weights(kind: type) -> None:
    weights = np.where(Y > 0, 2.0, 0.5)
    by_class, by_sample = (
        kind(class_weight={1.0: 2.0, -1.0: 0.5}).fit(X, Y),
        kind().fit(X, Y, sample_weight=weights),
    )
    np.testing.assert_array_equal(by_class.coef_, by_sample.coef_)
    twice = kind(class_weight={1.0: 2.0, -1.0: 0.5}).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(twice.coef_, kind().fit(X, Y, sample_weight=weights**2).coef_)


@classifiers
def test_balanced_classes(kind: type) -> None:
    """As scikit-learn weighs them; a copy of a sample still counts as a weight of 2."""
    model = kind(class_weight="balanced").fit(X, THREE)
    counts = {name: (name == THREE).sum() for name in np.unique(THREE)}
    by_hand = kind(class_weight={name: 40 / (3 * count) for name, count in counts.items()}).fit(
        X, THREE
    )
    np.testing.assert_allclose(model.coef_, by_hand.coef_, atol=1e-12)
    copies = np.where(np.arange(40) < 7, 2, 1)
    weighted = kind(class_weight="balanced", tol=1e-9).fit(X, THREE, sample_weight=copies)
    repeated = kind(class_weight="balanced", tol=1e-9).fit(
        X.repeat(copies, axis=0), THREE.repeat(copies)
    )
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)


def test_balanced_logistic_regression_is_scikit_learns() -> None:
    model = ConstrainedLogisticRegression(1e3, class_weight="balanced", tol=1e-11).fit(X, Y)
    judged = LogisticRegression(class_weight="balanced", tol=1e-12, solver="newton-cholesky").fit(
        X, Y
    )
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-5)


# --- among scikit-learn's tools ---


@every_kind
def test_grid_search_in_a_pipeline(kind: type) -> None:
    step = kind.__name__.lower()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), kind()), {f"{step}__radius": [0.01, 1.0]}, cv=3
    ).fit(X, Y)
    assert search.best_params_ == {f"{step}__radius": 1.0}
    assert search.score(X, Y) > 0.3


# --- warnings and errors ---


@every_kind
def test_a_fit_that_falls_short_says_so(kind: type) -> None:
    with pytest.warns(
        ConvergenceWarning, match=r"iteration limit.*but tol is 1e-12.*Raise max_iter or tol"
    ) as seen:
        model = kind(0.7, max_iter=2, tol=1e-12, method="cgs").fit(X, Y)
    assert f"within {np.ravel(model.dual_gap_)[0]:.3g} of its minimum" in str(seen[0].message)
    assert seen[0].filename == __file__
    assert np.all(model.objective_ - model.dual_gap_ <= kind(0.7, tol=1e-9).fit(X, Y).objective_)


def test_several_fits_warn_once() -> None:
    with pytest.warns(ConvergenceWarning, match="of 3 fits fell short; the worst: ") as seen:
        ConstrainedLogisticRegression(0.7, max_iter=2, tol=1e-12, method="cgs").fit(X, THREE)
    assert len(seen) == 1


def test_a_stalled_fit_does_not_ask_for_more_iterations() -> None:
    """Rounding of features near 1e6 leaves no proof to nine digits of residuals near 1."""
    with pytest.warns(ConvergenceWarning, match=r"no step.*Raise tol, take a larger ridge"):
        ConstrainedElasticNet(0.7, tol=1e-9, method="cgs").fit(1e6 + X, Y)


def test_large_targets_in_single_precision() -> None:
    """Only the product with the features is rounded to single precision, not the intercept."""
    model = ConstrainedElasticNet(0.7).fit(X.astype(np.float32), 1e5 + Y)
    judged = ConstrainedElasticNet(0.7, tol=1e-9).fit(X, Y)
    assert model.dual_gap_ <= 2e-5 * model.objective_
    assert model.objective_ == pytest.approx(judged.objective_, rel=1e-4)
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=2e-2)


@every_kind
def test_one_weight_is_the_weight_of_all(kind: type) -> None:
    whole, single = (
        kind().fit(X, Y, sample_weight=np.full(40, 2.0)),
        kind().fit(X, Y, sample_weight=2.0),
    )
    np.testing.assert_array_equal(single.coef_, whole.coef_)
