"""Regression with the losses of Poisson, gamma and Huber, and offsets: against scikit-learn, skglm and formulas."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from sklearn import linear_model as theirs

import condgrad as cg
from condgrad import linear_model as ours

Array = np.ndarray
RNG = np.random.default_rng(11)
X = RNG.standard_normal((60, 12))
SCORES = 0.7 * X[:, 0] - 0.5 * X[:, 1] + 0.3
COUNTS = RNG.poisson(np.exp(SCORES)).astype(float)
AMOUNTS = np.exp(SCORES) * RNG.gamma(2.0, 0.5, 60)
NUMBERS = SCORES + 0.3 * RNG.standard_t(1.5, 60)
WEIGHTS = RNG.uniform(0.2, 3.0, 60)
OFFSET = RNG.standard_normal(60)
TIGHT = 1e-11

every_layout = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
every_weight = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
every_intercept = pytest.mark.parametrize(
    "fit_intercept", [False, True], ids=["plain", "intercept"]
)
GENERALIZED = [("PoissonRegressor", COUNTS), ("GammaRegressor", AMOUNTS)]
ALL = [*GENERALIZED, ("HuberRegressor", NUMBERS)]


def laid_out(data: Array, sparse: bool) -> Any:
    return scipy.sparse.csr_array(np.where(np.abs(data) > 0.5, data, 0.0)) if sparse else data


@every_layout
@every_weight
@every_intercept
@pytest.mark.parametrize(("name", "target"), GENERALIZED)
def test_a_ridge_is_theirs(
    name: str, target: Array, sparse: bool, weights: Any, fit_intercept: bool
) -> None:
    data = laid_out(X, sparse)
    options = {"alpha": 0.1, "fit_intercept": fit_intercept}
    mine = getattr(ours, name)(tol=TIGHT, **options).fit(data, target, sample_weight=weights)
    other = getattr(theirs, name)(solver="newton-cholesky", tol=1e-10, max_iter=1000, **options)
    other.fit(data.toarray() if sparse else data, target, sample_weight=weights)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(
        mine.predict(data), other.predict(X if not sparse else data.toarray()), rtol=1e-4
    )
    dense = data.toarray() if sparse else data
    assert mine.score(data, target, weights) == pytest.approx(
        other.score(dense, target, weights), abs=1e-5
    )


@every_weight
def test_huber_is_theirs_at_the_scale_that_they_find(weights: Any) -> None:
    other = theirs.HuberRegressor(epsilon=1.5, alpha=0.5, tol=1e-10, max_iter=10_000).fit(
        X, NUMBERS, weights
    )
    mass = 60.0 if weights is None else weights.sum()
    mine = ours.HuberRegressor(delta=1.5 * other.scale_, alpha=0.5 * other.scale_ / mass, tol=TIGHT)
    np.testing.assert_allclose(mine.fit(X, NUMBERS, weights).coef_, other.coef_, atol=1e-4)


@pytest.mark.parametrize(("name", "target"), ALL)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_the_conditions_of_a_solution(name: str, target: Array, l1_ratio: float) -> None:
    """|slope_j| <= l1 where coef_j = 0, and slope_j = -l1 sign(coef_j) - 2 ridge coef_j elsewhere."""
    model = getattr(ours, name)(alpha=0.2, l1_ratio=l1_ratio, tol=1e-12).fit(
        X, target, WEIGHTS, OFFSET
    )
    options: dict[str, Any] = {"sample_weight": WEIGHTS, "intercept": True, "offset": OFFSET}
    slope = (
        model.smooth_part(X, target, **options).at(model.coef_).gradient
        + 2.0 * model.ridge_ * model.coef_
    )
    used = model.coef_ != 0.0
    assert 0 < used.sum() < 12 or l1_ratio < 1.0
    np.testing.assert_allclose(
        slope[used], -model.multiplier_ * np.sign(model.coef_[used]), rtol=1e-4
    )
    assert np.abs(slope[~used]).max(initial=0.0) <= model.multiplier_ * (1.0 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), ALL)
def test_an_l1_penalty_is_that_of_skglm(name: str, target: Array) -> None:
    import skglm  # which loads its compiler

    datafit = {
        "PoissonRegressor": skglm.datafits.Poisson,
        "GammaRegressor": skglm.datafits.Gamma,
        "HuberRegressor": lambda: skglm.datafits.Huber(1.35),
    }[name]()
    solver = skglm.solvers.ProxNewton(fit_intercept=False, tol=1e-9)
    if name == "HuberRegressor":
        solver = skglm.solvers.AndersonCD(fit_intercept=False, tol=1e-9, max_iter=1000)
    other = skglm.GeneralizedLinearEstimator(datafit, skglm.penalties.L1(0.05), solver).fit(
        X, target
    )
    mine = getattr(ours, name)(alpha=0.05, l1_ratio=1.0, fit_intercept=False, tol=TIGHT).fit(
        X, target
    )
    np.testing.assert_allclose(mine.coef_, np.ravel(other.coef_), atol=1e-4)


@pytest.mark.parametrize(("name", "target"), ALL)
def test_a_search_along_alphas(name: str, target: Array) -> None:
    search = getattr(ours, f"{name}CV")(alphas=8, cv=3, l1_ratio=1.0).fit(X, target, offset=OFFSET)
    single = getattr(ours, name)(alpha=search.alpha_, l1_ratio=1.0).fit(X, target, offset=OFFSET)
    np.testing.assert_allclose(search.coef_, single.coef_, atol=2e-3)
    null = getattr(ours, name)(alpha=1.01 * search.alphas_[0], l1_ratio=1.0).fit(
        X, target, offset=OFFSET
    )
    assert not null.coef_.any()
    found = ours.path(
        X, target, loss=name.removesuffix("Regressor").lower(), alphas=search.alphas_, offset=OFFSET
    )
    single.set_params(alpha=search.alphas_[3]).fit(X, target, offset=OFFSET)
    np.testing.assert_allclose(found.coefs[3], single.coef_, atol=2e-3)


# --- offsets


@pytest.mark.parametrize(
    "kind", [ours.Lasso(0.01), ours.ConstrainedElasticNet(0.8), ours.HuberRegressor(alpha=0.01)]
)
def test_an_offset_of_numbers_is_taken_off_them(kind: Any) -> None:
    with_offset = kind.fit(X, NUMBERS, offset=OFFSET).coef_.copy()
    np.testing.assert_allclose(with_offset, kind.fit(X, NUMBERS - OFFSET).coef_, atol=1e-10)
    np.testing.assert_allclose(kind.predict(X, offset=OFFSET), kind.predict(X) + OFFSET)


@pytest.mark.parametrize(
    "kind", [ours.PoissonRegressor(alpha=0.01), ours.PoissonRegressor(alpha=0.01, l1_ratio=1.0)]
)
def test_exposure_is_an_offset_or_a_weight_of_rates(kind: Any) -> None:
    """Counts over exposures are rates, weighted by the exposures."""
    exposure = np.exp(OFFSET)
    kind = kind.set_params(tol=1e-10, alpha=0.01)
    by_offset = kind.fit(X, COUNTS, offset=OFFSET).coef_.copy()
    kind.set_params(alpha=0.01 * 60.0 / exposure.sum())
    np.testing.assert_allclose(
        by_offset, kind.fit(X, COUNTS / exposure, sample_weight=exposure).coef_, atol=1e-4
    )


@pytest.mark.parametrize(
    "kind",
    [
        ours.LogisticRegression(l1_ratio=0.5),
        ours.LinearSVC("l1"),
        ours.ConstrainedLogisticRegression(1.0),
        ours.ConstrainedLinearSVC(1.0),
    ],
)
def test_a_constant_offset_moves_the_intercept(kind: Any) -> None:
    labels = COUNTS > 1.0
    plain = kind.fit(X, labels)
    coef, intercept = plain.coef_.copy(), plain.intercept_.copy()
    moved = kind.fit(X, labels, offset=np.full(60, 1e3))
    np.testing.assert_allclose(moved.coef_, coef, atol=1e-3)
    np.testing.assert_allclose(moved.intercept_ + 1e3, intercept, atol=1e-2)
    assert (moved.predict(X, offset=np.full(60, 1e3)) == kind.fit(X, labels).predict(X)).all()


def test_an_offset_that_separates_leaves_nothing_to_fit() -> None:
    labels = X[:, 0] > 0.0
    model = ours.LogisticRegression(l1_ratio=1.0, fit_intercept=False).fit(
        X, labels, offset=40.0 * np.sign(X[:, 0])
    )
    assert not model.coef_.any()
    assert model.relative_gap_ <= 1e-6


# --- what is refused


def test_bad_input_gets_a_sentence() -> None:
    for model, target, sentence in (
        (ours.PoissonRegressor(), COUNTS - 1.0, "counts of at least 0 for Poisson, got -1"),
        (ours.PoissonRegressor(), 0.0 * COUNTS, "y must have a count above 0"),
        (ours.GammaRegressor(), COUNTS, "amounts above 0 for Gamma, got 0"),
        (ours.HuberRegressor(delta=0.0), NUMBERS, "delta must be finite and > 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.fit(X, target)
    with pytest.raises(ValueError, match="offset must have one entry for each of the 60 samples"):
        ours.PoissonRegressor().fit(X, COUNTS, offset=[1.0, 2.0])
    with pytest.raises(ValueError, match="offset must have one entry"):
        ours.PoissonRegressor().fit(X, COUNTS).predict(X, offset=[1.0])
    with pytest.raises(ValueError, match="offset needs two classes, got 3"):
        ours.LogisticRegression().fit(X, np.arange(60) % 3, offset=OFFSET)
    with pytest.raises(ValueError, match="offset needs scoring=None"):
        ours.LassoCV(scoring="r2").fit(X, NUMBERS, offset=OFFSET)
    with pytest.raises(ValueError, match="PoissonRegressor needs data in memory"):
        ours.PoissonRegressor().fit(da.from_array(X), COUNTS)
    with pytest.raises(ValueError, match="offset needs data in memory"):
        ours.Lasso().fit(da.from_array(X), NUMBERS, offset=OFFSET)
    with pytest.raises(cg.MissingAbility, match="Poisson needs data in memory"):
        cg.smooth.Poisson(da.from_array(X), COUNTS)
    for loss in (cg.smooth.Poisson(X, COUNTS), cg.smooth.Gamma(X, AMOUNTS)):
        assert loss.smoothness is None
        with pytest.raises(cg.MissingAbility, match="step='short' needs the smoothness constant"):
            cg.minimize(loss, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), step="short")
    assert cg.smooth.Huber(X, NUMBERS).smoothness > 0.0


@pytest.mark.parametrize("method", ["cgs", "spg", "pqn", "newton"])
@pytest.mark.parametrize(
    "loss", [cg.smooth.Poisson(X, COUNTS), cg.smooth.Gamma(X, AMOUNTS), cg.smooth.Huber(X, NUMBERS)]
)
def test_the_losses_live_on_balls_too(loss: Any, method: str) -> None:
    results = [
        cg.minimize(
            loss, cg.simple.Ridge(0.1, on=cg.sets.L1Ball(0.8)), method=name, tol=1e-5, max_iter=500
        )
        for name in (method, "newton")
    ]
    assert all(result.success for result in results)
    assert results[0].lower_bound <= results[1].value
    assert results[1].lower_bound <= results[0].value
