"""The penalised estimators: equal to scikit-learn's within the gaps, and to the constrained ones at `radius_`."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from sklearn import linear_model as theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as TheirLinearSVC

from condgrad import linear_model as ours

Array = np.ndarray
RNG = np.random.default_rng(7)
X = RNG.standard_normal((50, 20)) + RNG.standard_normal(20)
Y = 2.0 * X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(50)
LABELS = np.where(np.median(Y) < Y, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]
WEIGHTS = RNG.uniform(0.2, 3.0, 50)
TIGHT = 1e-11
"""The gap to which ours are solved: theirs may be no better than this, as a share of the objective."""

every_layout = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
every_weight = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
every_intercept = pytest.mark.parametrize(
    "fit_intercept", [False, True], ids=["plain", "intercept"]
)


def laid_out(data: Array, sparse: bool) -> Any:
    return scipy.sparse.csr_array(np.where(np.abs(data) > 0.5, data, 0.0)) if sparse else data


def fitted(model: Any, data: Any, target: Any, weights: Any) -> Any:
    """Theirs warn where they are asked for more than they reach."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(data, target, sample_weight=weights)


def losses(loss: str, scores: Array, target: Array) -> Array:
    """The loss of each sample, written anew."""
    if loss == "squares":
        return 0.5 * (target - scores) ** 2
    margin = np.where(target == "yes", 1.0, -1.0) * scores
    return np.logaddexp(0.0, -margin) if loss == "logistic" else np.maximum(0.0, 1.0 - margin) ** 2


def value(
    model: Any, loss: str, penalty: tuple[float, float], data: Any, target: Any, weights: Any
) -> float:
    """sum_i w_i loss_i + l1 |coef|_1 + ridge |coef|_2^2 at the coefficients of anybody's model."""
    coef = np.ravel(model.coef_)
    scores = data @ coef + float(np.ravel(model.intercept_)[0])
    weights = np.ones(len(target)) if weights is None else weights
    l1, ridge = penalty
    return float(
        weights @ losses(loss, scores, target) + l1 * np.abs(coef).sum() + ridge * coef @ coef
    )


def assert_equal_within_the_gap(
    mine: Any, other: Any, loss: str, data: Any, target: Any, weights: Any
) -> None:
    """The other value is in the certified interval, or above by what its own tolerance leaves."""
    penalty = float(np.ravel(mine.multiplier_)[0]), mine.ridge_
    here, there = (value(model, loss, penalty, data, target, weights) for model in (mine, other))
    assert here <= there * (1.0 + 1e-9)
    assert there <= here * (1.0 + 1e-6)
    np.testing.assert_allclose(
        np.ravel(mine.coef_), np.ravel(other.coef_), atol=2e-3 * np.abs(other.coef_).max()
    )


@every_layout
@every_weight
@every_intercept
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.1])
def test_the_elastic_net_is_theirs(
    sparse: bool, weights: Any, fit_intercept: bool, l1_ratio: float
) -> None:
    data = laid_out(X, sparse)
    options: dict[str, Any] = {"alpha": 0.1, "fit_intercept": fit_intercept}
    mine = fitted(ours.ElasticNet(l1_ratio=l1_ratio, tol=TIGHT, **options), data, Y, weights)
    other = fitted(
        theirs.ElasticNet(l1_ratio=l1_ratio, tol=1e-10, max_iter=100_000, **options),
        data,
        Y,
        weights,
    )
    assert_equal_within_the_gap(mine, other, "squares", data, Y, weights)
    mass = 50.0 if weights is None else weights.sum()
    own = value(mine, "squares", (mine.multiplier_, mine.ridge_), data, Y, weights) / mass
    assert mine.objective_ == pytest.approx(own, rel=1e-10)
    if l1_ratio == 1.0:
        lasso = fitted(ours.Lasso(tol=TIGHT, **options), data, Y, weights)
        np.testing.assert_array_equal(lasso.coef_, mine.coef_)
        assert lasso.sparse_coef_.nnz == np.count_nonzero(lasso.coef_)


@every_layout
@every_weight
@every_intercept
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_logistic_regression_is_theirs(
    sparse: bool, weights: Any, fit_intercept: bool, l1_ratio: float
) -> None:
    data = laid_out(X, sparse)
    options: dict[str, Any] = {"C": 0.5, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    mine = fitted(ours.LogisticRegression(tol=TIGHT, **options), data, LABELS, weights)
    other = theirs.LogisticRegression(
        solver="saga", tol=1e-7, max_iter=5000, random_state=0, **options
    )
    dense = data.toarray() if sparse else data  # SAGA is slow to find intercepts of sparse data
    assert_equal_within_the_gap(
        mine, fitted(other, dense, LABELS, weights), "logistic", data, LABELS, weights
    )
    if l1_ratio == 1.0:
        by_name = fitted(
            ours.LogisticRegression("l1", C=0.5, fit_intercept=fit_intercept, tol=TIGHT),
            data,
            LABELS,
            weights,
        )
        np.testing.assert_array_equal(by_name.coef_, mine.coef_)


@every_layout
@every_weight
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_the_linear_svc_without_intercept_is_theirs(
    sparse: bool, weights: Any, penalty: str
) -> None:
    data = laid_out(X, sparse)
    mine = fitted(
        ours.LinearSVC(penalty, C=0.5, fit_intercept=False, tol=TIGHT), data, LABELS, weights
    )
    other = TheirLinearSVC(
        penalty, C=0.5, dual=False, fit_intercept=False, tol=1e-8, max_iter=50_000, random_state=0
    )
    assert_equal_within_the_gap(
        mine, fitted(other, data, LABELS, weights), "squared hinge", data, LABELS, weights
    )


@every_weight
def test_several_classes_are_theirs(weights: Any) -> None:
    mine = fitted(ours.LogisticRegression(C=0.5, tol=TIGHT), X, THREE, weights)
    other = fitted(theirs.LogisticRegression(C=0.5, tol=1e-9, max_iter=5000), X, THREE, weights)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(mine.predict_proba(X), other.predict_proba(X), atol=1e-4)
    assert mine.score(X, THREE) == other.score(X, THREE)


@every_weight
def test_the_searches_choose_what_theirs_choose(weights: Any) -> None:
    mine = ours.ElasticNetCV(l1_ratio=[0.3, 1.0], alphas=15, cv=3).fit(X, Y, sample_weight=weights)
    other = fitted(
        theirs.ElasticNetCV(l1_ratio=[0.3, 1.0], alphas=15, cv=3, tol=1e-8, max_iter=50_000),
        X,
        Y,
        weights,
    )
    np.testing.assert_allclose(mine.alphas_, other.alphas_, rtol=1e-10)
    np.testing.assert_allclose(mine.mse_path_, other.mse_path_, rtol=2e-2)
    assert (mine.l1_ratio_, mine.alpha_) == (other.l1_ratio_, pytest.approx(other.alpha_))
    lasso = ours.LassoCV(n_alphas=15, cv=3, selection="cyclic").fit(X, Y, sample_weight=weights)
    their_lasso = fitted(theirs.LassoCV(alphas=15, cv=3, tol=1e-8, max_iter=50_000), X, Y, weights)
    assert lasso.alpha_ == pytest.approx(their_lasso.alpha_)
    assert lasso.mse_path_.shape == their_lasso.mse_path_.shape
    assert lasso.relative_gap_ <= 1e-6


def test_a_search_over_cs() -> None:
    search = ours.LogisticRegressionCV(
        Cs=[0.1, 1.0], l1_ratios=[0.0, 1.0], cv=3, selection="1se"
    ).fit(X, LABELS)
    assert search.C_ == search.C_1se_ <= search.C_best_
    assert search.cv_table()["selected"].sum() == 1
    single = ours.LogisticRegression(C=search.C_, l1_ratio=search.l1_ratio_, tol=1e-9).fit(
        X, LABELS
    )
    np.testing.assert_allclose(search.coef_, single.coef_, atol=1e-3)
    assert search.objective_ == pytest.approx(single.objective_, rel=1e-5)
    assert search.radius_ == pytest.approx(single.radius_, rel=1e-3)


KINDS: list[tuple[Any, Any, Any]] = [
    (ours.Lasso(0.05), ours.ConstrainedElasticNet, Y),
    (ours.ElasticNet(0.05), ours.ConstrainedElasticNet, Y),
    (ours.LogisticRegression(C=0.5, l1_ratio=0.7), ours.ConstrainedLogisticRegression, LABELS),
    (ours.LinearSVC("l1", C=0.1), ours.ConstrainedLinearSVC, LABELS),
]


@pytest.mark.parametrize(("penalised", "constrained", "target"), KINDS)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_one_goes_from_one_form_to_the_other(
    penalised: Any, constrained: Any, target: Any, positive: bool, standardize: bool
) -> None:
    """radius_ and ridge_ give the constrained problem of the same solution, whose multiplier_ is the penalty."""
    options = {"positive": positive, "standardize": standardize, "tol": 1e-10}
    model = type(penalised)(**(penalised.get_params() | options)).fit(X, target)
    radius = float(np.ravel(model.radius_)[0])
    other = constrained(radius, model.ridge_, **options).fit(X, target)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-4)
    np.testing.assert_allclose(other.multiplier_, model.multiplier_, rtol=1e-3)
    assert other.radius_ == radius


@pytest.mark.parametrize("l1_ratio", [None, 0.5])
def test_a_path_by_penalties_has_the_fits_of_its_alphas(l1_ratio: float | None) -> None:
    found = ours.path(X, Y, loss="least-squares", alphas=12, eps=1e-2, l1_ratio=l1_ratio, tol=1e-9)
    assert not found.coefs[0].any()
    assert found.coefs[1].any()
    assert (np.diff(found.radii) >= 0.0).all()
    assert found.alphas[-1] == pytest.approx(1e-2 * found.alphas[0])
    for k in (3, 7, 11):
        single = ours.ElasticNet(found.alphas[k], l1_ratio=l1_ratio or 1.0, tol=1e-9).fit(X, Y)
        np.testing.assert_allclose(found.coefs[k], single.coef_, atol=1e-4)
        assert found.multipliers[k] == pytest.approx(single.multiplier_)


def test_dask_data() -> None:
    blocks = da.from_array(X, chunks=(17, 20))
    here, there = (ours.ElasticNet(0.05, tol=1e-8).fit(data, Y) for data in (X, blocks))
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-4)
    assert there.multiplier_ == pytest.approx(here.multiplier_)


def test_bad_input_gets_a_sentence() -> None:
    for model, sentence in (
        (ours.Lasso(alpha=0.0), "alpha must be finite and > 0"),
        (ours.ElasticNet(l1_ratio=1.5), "l1_ratio must be from 0 to 1"),
        (ours.ElasticNetCV(l1_ratio=[]), "l1_ratio must hold"),
        (ours.LassoCV(alphas=[]), "alphas must hold"),
        (ours.LassoCV(selection="last"), "selection must be one of"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.fit(X, Y)
    for model, sentence in (
        (ours.LogisticRegression(C=-1.0), "C must be finite and > 0"),
        (ours.LogisticRegression("l3"), "penalty must be"),
        (ours.LogisticRegression(None), "got None: for next to no penalty, give a large C"),
        (ours.LinearSVC(loss="hinge"), "the hinge is not smooth"),
        (ours.LogisticRegressionCV(Cs=[]), "Cs and l1_ratios must hold"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.fit(X, LABELS)
    with pytest.raises(ValueError, match="a path is by radius or by penalty"):
        ours.path(X, Y, loss="least-squares", alphas=5, radii=[1.0])
    with pytest.raises(ValueError, match="l1_ratio needs alphas"):
        ours.path(X, Y, loss="least-squares", l1_ratio=0.5)
