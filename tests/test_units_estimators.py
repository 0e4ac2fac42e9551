"""No unit of measure decides anything: estimators, searches and paths do in any units what they do in ours.

A unit of the targets multiplies y, the radius and the coefficients; one of the features divides the radius and the
coefficients and multiplies the ridge by its square; a unit of the weights multiplies the ridge. A unit of the cost
multiplies the entropy and the weights of regularisers. By powers of two nothing is rounded, and every digit must be the
same (weights, of which roots and logarithms are taken, are rounded by those); by other factors the same number of
iterations, up to one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import r2_score

from condgrad.compat.pot import gcg
from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    path,
)
from condgrad.transport import (
    EntropicTransport,
    GroupLasso,
    GroupTransport,
    LaplaceTransport,
    Laplacian,
    solve,
)
from tests.linear_model import SINGLE, Array, drawn
from tests.transport import cloud

EXACT = [2.0**-40, 2.0**37]
INEXACT = [1e-12, 7e3]
SINGLE_PRECISION = [2.0**-20, 1e-6, 1e6]
factors = pytest.mark.parametrize("c", [*EXACT, *INEXACT])
every_kind = pytest.mark.parametrize("kind", SINGLE)
SEARCHES = {
    ConstrainedElasticNetCV: ConstrainedElasticNet,
    ConstrainedLinearSVCCV: ConstrainedLinearSVC,
    ConstrainedLogisticRegressionCV: ConstrainedLogisticRegression,
}
every_search = pytest.mark.parametrize("kind", SEARCHES)
LOSSES = {
    "least-squares": ConstrainedElasticNet,
    "squared-hinge": ConstrainedLinearSVC,
    "logistic": ConstrainedLogisticRegression,
}
every_loss = pytest.mark.parametrize("loss", LOSSES)
X, Y = drawn(0, samples=40, features=12)
TARGET = X[:, 0] - 0.5 * X[:, 3] + 0.2 * np.cos(np.arange(40.0))
RADIUS, RIDGE = 0.8, 0.25


def same(
    scaled: Array, plain: Array, c: float, *, rtol: float = 2e-3, rounding: float = 0.0
) -> None:
    """For powers of two digit by digit, up to some rounding where there is any; else as near as the proofs say."""
    scaled, plain = np.asarray(scaled, dtype=float), np.asarray(plain, dtype=float)
    allowed = rounding if c in EXACT else rtol
    np.testing.assert_allclose(scaled, plain, rtol=allowed, atol=allowed * np.abs(plain).max())


def same_iterations(scaled: Array, plain: Array, c: float) -> None:
    difference = np.abs(np.asarray(scaled) - np.asarray(plain))
    assert (difference <= (0 if c in EXACT else 1)).all(), f"{scaled} iterations for {plain}"


def same_fit(
    scaled: Any, plain: Any, c: float, *, of_coef: float, of_value: float, rounding: float = 0.0
) -> None:  # fmt: skip
    """The fit in other units, after the same iterations; an estimator that fell short would have warned."""
    same_iterations(scaled.n_iter_, plain.n_iter_, c)
    same(scaled.coef_ / of_coef, plain.coef_, c, rounding=rounding)
    same(scaled.objective_ / of_value, plain.objective_, c, rtol=1e-5, rounding=rounding)
    same(
        scaled.multiplier_ / (of_value / of_coef),
        plain.multiplier_,
        c,
        rtol=1e-2,
        rounding=rounding,
    )


# --- linear models ---


@factors
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("method", ["auto", "cgs", "spg"])
def test_a_unit_of_the_targets(c: float, intercept: bool, method: str) -> None:
    options: dict[str, Any] = {"fit_intercept": intercept, "method": method, "tol": 1e-5}
    plain = ConstrainedElasticNet(RADIUS, RIDGE, **options).fit(X, TARGET)
    scaled = ConstrainedElasticNet(c * RADIUS, RIDGE, **options).fit(X, c * TARGET)
    same_fit(scaled, plain, c, of_coef=c, of_value=c * c)
    assert r2_score(c * TARGET, scaled.predict(X)) == pytest.approx(
        r2_score(TARGET, plain.predict(X)), abs=1e-4
    )


@every_kind
@factors
def test_a_unit_of_the_features(kind: type, c: float) -> None:
    plain = kind(RADIUS, RIDGE).fit(X, Y)
    scaled = kind(RADIUS / c, RIDGE * c * c).fit(c * X, Y)
    same_fit(scaled, plain, c, of_coef=1.0 / c, of_value=1.0)


@every_kind
@factors
def test_a_unit_of_the_weights(kind: type, c: float) -> None:
    weights = 1.0 + np.arange(40) % 3
    plain = kind(RADIUS, RIDGE).fit(X, Y, sample_weight=weights)
    scaled = kind(RADIUS, c * RIDGE).fit(X, Y, sample_weight=c * weights)
    same_fit(scaled, plain, c, of_coef=1.0, of_value=c, rounding=1e-9)


@every_kind
@pytest.mark.parametrize("c", SINGLE_PRECISION)
def test_units_in_single_precision(kind: type, c: float) -> None:
    X32 = X.astype(np.float32)
    plain = kind(RADIUS, RIDGE).fit(X32, Y)
    weighted = kind(RADIUS, c * RIDGE).fit(X32, Y, sample_weight=np.full(40, c))
    featured = kind(RADIUS / c, RIDGE * c * c).fit((c * X32).astype(np.float32), Y)
    for scaled, of_coef in ((weighted, 1.0), (featured, c)):
        assert (np.abs(scaled.n_iter_ - plain.n_iter_) <= 1).all()
        np.testing.assert_allclose(of_coef * scaled.coef_, plain.coef_, atol=2e-2)
    if kind is ConstrainedElasticNet:
        scaled = kind(c * RADIUS, RIDGE).fit(X32, c * TARGET)
        plain = kind(RADIUS, RIDGE).fit(X32, TARGET)
        assert abs(scaled.n_iter_ - plain.n_iter_) <= 1
        np.testing.assert_allclose(scaled.coef_ / c, plain.coef_, atol=2e-2)


@pytest.mark.parametrize("unit", [1e-4, 5e-5, 1e-5, 1e-9])
def test_small_targets_are_no_zeros(unit: float) -> None:
    model = ConstrainedElasticNet(unit, 0.25).fit(X, unit * TARGET)
    assert model.n_iter_ > 0
    assert r2_score(unit * TARGET, model.predict(X)) > 0.5


def test_small_weights_are_no_zeros() -> None:
    model = ConstrainedLogisticRegression(2.0, 1e-10).fit(X, Y, sample_weight=np.full(40, 1e-9))
    assert np.abs(model.coef_).sum() == pytest.approx(2.0, rel=1e-3)
    assert model.score(X, Y) > 0.8


@every_kind
@factors
def test_units_where_next_to_nothing_is_lost(kind: type, c: float) -> None:
    """More features than samples and a wide ball: F* is small against what the null model loses."""
    rng = np.random.default_rng(5)
    wide, weights = rng.standard_normal((12, 30)), 1.0 + np.arange(12) % 2
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    plain = kind(50.0, 1e-4).fit(wide, y, sample_weight=weights)
    assert np.max(plain.objective_) < 1e-2 * np.max(
        kind(0.0, 1e-4).fit(wide, y, sample_weight=weights).objective_
    )
    weighted = kind(50.0, 1e-4 * c).fit(wide, y, sample_weight=c * weights)
    same_fit(weighted, plain, c, of_coef=1.0, of_value=c, rounding=1e-6)
    featured = kind(50.0 / c, 1e-4 * c * c).fit(c * wide, y, sample_weight=weights)
    same_iterations(featured.n_iter_, plain.n_iter_, c)
    same(featured.objective_, plain.objective_, c, rtol=1e-2)


# --- searches ---


def same_search(
    scaled: Any,
    plain: Any,
    c: float,
    *,
    of_radius: float,
    of_ridge: float,
    of_score: float,
    rounding: float = 0.0,
) -> None:
    # one iteration more or less finds another default grid, within the percent that it is good for
    same(scaled.radii_ / of_radius, plain.radii_, c, rtol=2e-2, rounding=rounding)
    same(scaled.scores_ / of_score, plain.scores_, c, rtol=2e-2, rounding=rounding)
    same(scaled.radius_ / of_radius, plain.radius_, c, rtol=2e-2, rounding=rounding)
    same(scaled.ridge_ / of_ridge, plain.ridge_, c)
    same_iterations(scaled.n_iter_, plain.n_iter_, c)


@pytest.mark.parametrize("c", [2.0**-40, 1e-12, 3e-6, 1e12])
@pytest.mark.parametrize("radii", [None, (0.1, 0.5, 1.5)])
@pytest.mark.filterwarnings("ignore:the best of the radii is the last")
def test_a_search_in_other_units_of_the_targets(c: float, radii: Any) -> None:
    options: dict[str, Any] = {"n_radii": 4, "ridges": (0.1, 1.0), "cv": 3}
    plain = ConstrainedElasticNetCV(radii=radii, **options).fit(X, TARGET)
    scaled_radii = None if radii is None else [c * radius for radius in radii]
    scaled = ConstrainedElasticNetCV(radii=scaled_radii, **options).fit(X, c * TARGET)
    same_search(scaled, plain, c, of_radius=c, of_ridge=1.0, of_score=c * c)
    same(scaled.coef_ / c, plain.coef_, c, rtol=2e-2)


@every_search
@pytest.mark.parametrize("c", [2.0**-40, 3e-6, 1e12])
def test_a_search_in_other_units_of_the_features(kind: type, c: float) -> None:
    ridges = np.array([0.1, 1.0])
    plain = kind(n_radii=4, ridges=ridges, cv=3).fit(X, Y)
    scaled = kind(n_radii=4, ridges=ridges * c * c, cv=3).fit(c * X, Y)
    same_search(scaled, plain, c, of_radius=1.0 / c, of_ridge=c * c, of_score=1.0)


@every_search
@pytest.mark.parametrize("c", [2.0**-40, 3e-6, 1e12])
def test_a_search_in_other_units_of_the_weights(kind: type, c: float) -> None:
    ridges, weights = np.array([0.1, 1.0]), 1.0 + np.arange(40) % 3
    plain = kind(n_radii=4, ridges=ridges, cv=3).fit(X, Y, sample_weight=weights)
    scaled = kind(n_radii=4, ridges=c * ridges, cv=3).fit(X, Y, sample_weight=c * weights)
    same_search(scaled, plain, c, of_radius=1.0, of_ridge=c, of_score=1.0, rounding=1e-9)


# --- paths ---


def same_path(
    scaled: Any, plain: Any, c: float, *, of_radius: float, of_value: float, rounding: float = 0.0
) -> None:
    same(scaled.radii / of_radius, plain.radii, c, rtol=2e-2, rounding=rounding)
    same(scaled.coefs / of_radius, plain.coefs, c, rtol=2e-2, rounding=rounding)
    same(scaled.values / of_value, plain.values, c, rtol=2e-2, rounding=rounding)
    same_iterations(scaled.n_iters, plain.n_iters, c)


@factors
@pytest.mark.parametrize("radii", [None, (0.1, 0.5, 1.5)])
def test_a_path_in_other_units_of_the_targets(c: float, radii: Any) -> None:
    plain = path(X, TARGET, loss="least-squares", radii=radii, n_radii=4, ridge=RIDGE)
    scaled_radii = None if radii is None else c * np.array(radii)
    scaled = path(X, c * TARGET, loss="least-squares", radii=scaled_radii, n_radii=4, ridge=RIDGE)
    same_path(scaled, plain, c, of_radius=c, of_value=c * c)


@every_loss
@factors
def test_a_path_in_other_units_of_the_features(loss: str, c: float) -> None:
    plain = path(X, Y, loss=loss, n_radii=4, ridge=RIDGE)
    scaled = path(c * X, Y, loss=loss, n_radii=4, ridge=RIDGE * c * c)
    same_path(scaled, plain, c, of_radius=1.0 / c, of_value=1.0)


@every_loss
@factors
def test_a_path_in_other_units_of_the_weights(loss: str, c: float) -> None:
    plain = path(X, Y, loss=loss, n_radii=4, ridge=RIDGE, sample_weight=np.ones(40))
    scaled = path(X, Y, loss=loss, n_radii=4, ridge=c * RIDGE, sample_weight=np.full(40, c))
    same_path(scaled, plain, c, of_radius=1.0, of_value=c, rounding=1e-9)


# --- transport ---

DATA = cloud(14, 11, seed=3)
LABELS = np.arange(14) % 3


def regularizers(c: float) -> dict[str, list[Any]]:
    return {
        "entropy alone": [],
        "laplacian": [Laplacian(DATA.Xs, DATA.Xt, 3.0 * c, neighbors=4)],
        "groups": [GroupLasso(LABELS, 0.2 * c)],
    }


def same_plan(scaled: Any, plain: Any, c: float, *, of_value: float) -> None:
    assert scaled.status is plain.status
    same_iterations(scaled.iterations, plain.iterations, c)
    same(scaled.plan, plain.plan, c, rtol=1e-2)
    same(scaled.value / of_value, plain.value, c, rtol=1e-4)


@factors
@pytest.mark.parametrize("name", regularizers(1.0))
@pytest.mark.parametrize("method", ["auto", "cgs"])
def test_a_unit_of_the_cost(c: float, name: str, method: str) -> None:
    options: dict[str, Any] = {"method": method, "tol": 1e-5}
    plain = solve(
        DATA.C, DATA.a, DATA.b, entropy=0.05, regularizers=regularizers(1.0)[name], **options
    )
    scaled = solve(
        c * DATA.C, DATA.a, DATA.b, entropy=0.05 * c, regularizers=regularizers(c)[name], **options
    )
    same_plan(scaled, plain, c, of_value=c)


@pytest.mark.parametrize("c", [2.0**-20, 2.0**-3, 2.0**20, 1e-6, 3e-3, 1e6])
@pytest.mark.parametrize("kind", [EntropicTransport, LaplaceTransport, GroupTransport])
def test_a_unit_of_length(c: float, kind: type) -> None:
    """Costs, entropy and class groups go with its square; the Laplacian, whose coordinates grow too, by itself."""
    plain, scaled = kind(0.05, tol=1e-5), kind(0.05 * c * c, tol=1e-5)
    if kind is GroupTransport:
        plain.set_params(weight=0.1)
        scaled.set_params(weight=0.1 * c * c)
    plain.fit(DATA.Xs, LABELS, DATA.Xt)
    scaled.fit(c * DATA.Xs, LABELS, c * DATA.Xt)
    exact = c if np.log2(c) != round(np.log2(c)) else EXACT[0]
    same_plan(scaled.result_, plain.result_, exact, of_value=c * c)
    same(scaled.transform(c * DATA.Xs) / c, plain.transform(DATA.Xs), exact, rtol=1e-2)


@pytest.mark.parametrize("c", [2.0**-20, 1e-6, 1e6])
def test_a_unit_of_the_cost_in_single_precision(c: float) -> None:
    C = DATA.C.astype(np.float32)
    plain = solve(C, entropy=0.05, tol=1e-4)
    scaled = solve((c * C).astype(np.float32), entropy=0.05 * c, tol=1e-4)
    assert scaled.status is plain.status
    assert abs(scaled.iterations - plain.iterations) <= 1
    np.testing.assert_allclose(scaled.plan, plain.plan, atol=2e-3)


@factors
@pytest.mark.parametrize("thresholds", [(1e-7, 0.0), (0.0, 1e-7), (1e-9, 1e-9)])
def test_gcg_in_other_units(c: float, thresholds: tuple[float, float]) -> None:
    """`stopThr2` is absolute, and so a quantity of the same unit."""

    def run(unit: float) -> Any:
        return gcg(
            DATA.a,
            DATA.b,
            unit * DATA.C,
            0.05 * unit,
            0.3 * unit,
            lambda G: 0.5 * float((G**2).sum()),
            lambda G: G,
            numItermax=200,
            stopThr=thresholds[0],
            stopThr2=unit * thresholds[1],
            log=True,
        )

    (plain, log), (scaled, scaled_log) = run(1.0), run(c)
    assert scaled_log["status"] == log["status"] == "CONVERGED"
    same_iterations(scaled_log["niter"], log["niter"], c)
    same(scaled, plain, c, rtol=1e-3)
