"""No unit of measure decides anything: estimators, searches, paths and plans do in any unit what they do in ours.

A unit of the targets multiplies y, the radius and the coefficients; one of the features divides the radius and the
coefficients and multiplies the ridge by its square; a unit of the weights multiplies the ridge. A unit of the cost
multiplies the entropy and the weights of regularisers. By powers of two nothing is rounded, and every digit must be the
same (weights, of which roots and logarithms are taken, are rounded by those); by other factors the same number of
iterations, up to one. An estimator that fell short would have warned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import r2_score

from condgrad import transport
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
from condgrad.transport import EntropicTransport, GroupTransport, LaplaceTransport
from tests import linear_model as linear_judge
from tests import transport as plan_judge
from tests.linear_model import SINGLE, Array, drawn
from tests.transport import cloud

SEARCHES = {
    ConstrainedElasticNetCV: ConstrainedElasticNet,
    ConstrainedLinearSVCCV: ConstrainedLinearSVC,
    ConstrainedLogisticRegressionCV: ConstrainedLogisticRegression,
}
LOSSES = {
    "least-squares": ConstrainedElasticNet,
    "squared-hinge": ConstrainedLinearSVC,
    "logistic": ConstrainedLogisticRegression,
}
X, Y = drawn(0, samples=40, features=12)
TARGET = X[:, 0] - 0.5 * X[:, 3] + 0.2 * np.cos(np.arange(40.0))
WEIGHTS = 1.0 + np.arange(40) % 3
RADIUS, RIDGE = 0.8, 0.25
DATA = cloud(14, 11, seed=3)
CLASSES = np.arange(14) % 3

Bounds = tuple[float, float]


class Found(NamedTuple):
    """What was found, in our units."""

    iterations: Any
    numbers: dict[str, tuple[Any, float]]
    """Each with the share of its largest entry by which it may differ in a unit that rounds."""
    status: Any = None
    bounds: tuple[Any, Any] | None = None
    """The lower bound, and the value."""


class Row(NamedTuple):
    """Something to do in a unit, and the units to do it in."""

    run: Callable[[float], Found]
    units: tuple[float, ...] = (2.0**-40, 2.0**37, 1e-12, 7e3)
    rounding: float = 0.0
    """What a power of two may change."""
    most_iterations: int = 0
    """By which a power of two may change their number."""
    best: Callable[[], Bounds] | None = None
    """The judge's bounds on F*, in our units."""


FLOAT32 = {"units": (2.0**-20, 1e-6, 1e6), "rounding": 2e-2, "most_iterations": 1}
ROWS: dict[str, Row] = {}


# --- linear models ---


def fitted(
    model: Any, *, of_coef: float, of_value: float, rough: float = 1.0, score: float | None = None
) -> Found:
    bounds = (model.objective_ - model.dual_gap_) / of_value, model.objective_ / of_value
    numbers = {
        "coef": (model.coef_ / of_coef, 2e-3 * rough),
        "objective": (bounds[1], 1e-5 * rough),
        "multiplier": (model.multiplier_ / (of_value / of_coef), 1e-2 * rough),
    }
    if score is not None:
        numbers["score"] = (score, 1e-4)
    return Found(model.n_iter_, numbers, bounds=bounds)


def in_targets(intercept: bool, method: str, c: float) -> Found:
    model = ConstrainedElasticNet(
        c * RADIUS, RIDGE, fit_intercept=intercept, method=method, tol=1e-5
    ).fit(X, c * TARGET)
    score = r2_score(c * TARGET, model.predict(X))
    return fitted(model, of_coef=c, of_value=c * c, score=score)


def in_features(kind: Any, c: float) -> Found:
    model = kind(RADIUS / c, RIDGE * c * c).fit(c * X, Y)
    return fitted(model, of_coef=1.0 / c, of_value=1.0)


def in_weights(kind: Any, c: float) -> Found:
    model = kind(RADIUS, c * RIDGE).fit(X, Y, sample_weight=c * WEIGHTS)
    return fitted(model, of_coef=1.0, of_value=c)


def in_float32(kind: Any, unit: str, c: float) -> Found:
    narrow = X.astype(np.float32)
    if unit == "weights":
        model, of_coef = kind(RADIUS, c * RIDGE).fit(narrow, Y, sample_weight=np.full(40, c)), 1.0
    elif unit == "features":
        scaled = (c * narrow).astype(np.float32)
        model, of_coef = kind(RADIUS / c, RIDGE * c * c).fit(scaled, Y), 1.0 / c
    else:
        model, of_coef = kind(c * RADIUS, RIDGE).fit(narrow, c * TARGET), c
    return Found(model.n_iter_, {"coef": (model.coef_ / of_coef, 2e-2)})


FEW = np.random.default_rng(5).standard_normal((12, 30))
FEW_Y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
FEW_WEIGHTS = 1.0 + np.arange(12) % 2


def nothing_lost(kind: Any, unit: str, c: float) -> Found:
    """More features than samples and a wide ball: F* is small against what the null model loses."""
    if unit == "weights":
        model = kind(50.0, 1e-4 * c).fit(FEW, FEW_Y, sample_weight=c * FEW_WEIGHTS)
        return fitted(model, of_coef=1.0, of_value=c)
    model = kind(50.0 / c, 1e-4 * c * c).fit(c * FEW, FEW_Y, sample_weight=FEW_WEIGHTS)
    return Found(model.n_iter_, {"objective": (model.objective_, 1e-2)})


def by_cvxpy(kind: Any, y: Array, weights: Array = None, intercept: bool = True) -> Bounds:
    value = linear_judge.judge(
        kind, X, y, radius=RADIUS, ridge=RIDGE, weights=weights, intercept=intercept
    ).value
    return value - 1e-7 * abs(value), value + 1e-7 * abs(value)


for intercept in (False, True):
    for method in ("auto", "cgs", "spg"):
        name = f"targets, {method}{', intercept' if intercept else ''}"
        ROWS[name] = Row(
            partial(in_targets, intercept, method),
            best=partial(by_cvxpy, ConstrainedElasticNet, TARGET, None, intercept),
        )
for kind in SINGLE:
    name = kind.__name__
    ROWS |= {
        f"features, {name}": Row(partial(in_features, kind), best=partial(by_cvxpy, kind, Y)),
        f"weights, {name}": Row(
            partial(in_weights, kind), rounding=1e-9, best=partial(by_cvxpy, kind, Y, WEIGHTS)
        ),
        f"features, nothing lost, {name}": Row(partial(nothing_lost, kind, "features")),
        f"weights, nothing lost, {name}": Row(
            partial(nothing_lost, kind, "weights"), rounding=1e-6
        ),
        f"features, float32, {name}": Row(partial(in_float32, kind, "features"), **FLOAT32),
        f"weights, float32, {name}": Row(partial(in_float32, kind, "weights"), **FLOAT32),
    }
ROWS["targets, float32"] = Row(partial(in_float32, ConstrainedElasticNet, "targets"), **FLOAT32)


# --- searches and paths ---


def searched(search: Any, *, of_radius: float, of_ridge: float, of_score: float) -> Found:
    # one iteration more or less finds another default grid, within the percent that it is good for
    return Found(
        search.n_iter_,
        {
            "radii": (search.radii_ / of_radius, 2e-2),
            "scores": (search.scores_ / of_score, 2e-2),
            "radius": (search.radius_ / of_radius, 2e-2),
            "ridge": (search.ridge_ / of_ridge, 2e-3),
        },
    )


def search_in_targets(radii: Any, c: float) -> Found:
    scaled = None if radii is None else [c * radius for radius in radii]
    search = ConstrainedElasticNetCV(radii=scaled, n_radii=4, ridges=(0.1, 1.0), cv=3)
    search.fit(X, c * TARGET)
    found = searched(search, of_radius=c, of_ridge=1.0, of_score=c * c)
    return found._replace(numbers=found.numbers | {"coef": (search.coef_ / c, 2e-2)})


def search_in_features(kind: Any, c: float) -> Found:
    search = kind(n_radii=4, ridges=np.array([0.1, 1.0]) * c * c, cv=3).fit(c * X, Y)
    return searched(search, of_radius=1.0 / c, of_ridge=c * c, of_score=1.0)


def search_in_weights(kind: Any, c: float) -> Found:
    search = kind(n_radii=4, ridges=c * np.array([0.1, 1.0]), cv=3)
    search.fit(X, Y, sample_weight=c * WEIGHTS)
    return searched(search, of_radius=1.0, of_ridge=c, of_score=1.0)


def followed(of_radius: float, of_value: float, *data: Any, **options: Any) -> Found:
    found = path(*data, n_radii=4, **options)
    return Found(
        found.n_iters,
        {
            "radii": (found.radii / of_radius, 2e-2),
            "coefs": (found.coefs / of_radius, 2e-2),
            "values": (found.values / of_value, 2e-2),
        },
    )


def path_in_targets(radii: Any, c: float) -> Found:
    scaled = None if radii is None else c * np.array(radii)
    return followed(c, c * c, X, c * TARGET, loss="least-squares", radii=scaled, ridge=RIDGE)


def path_in_features(loss: str, c: float) -> Found:
    return followed(1.0 / c, 1.0, c * X, Y, loss=loss, ridge=RIDGE * c * c)


def path_in_weights(loss: str, c: float) -> Found:
    return followed(1.0, c, X, Y, loss=loss, ridge=c * RIDGE, sample_weight=np.full(40, c))


for radii in (None, (0.1, 0.5, 1.5)):
    of = "default radii" if radii is None else "radii"
    ROWS[f"targets, search, {of}"] = Row(
        partial(search_in_targets, radii), (2.0**-40, 1e-12, 3e-6, 1e12)
    )
    ROWS[f"targets, path, {of}"] = Row(partial(path_in_targets, radii))
for kind in SEARCHES:
    units = (2.0**-40, 3e-6, 1e12)
    name = kind.__name__
    ROWS[f"features, search, {name}"] = Row(partial(search_in_features, kind), units)
    ROWS[f"weights, search, {name}"] = Row(partial(search_in_weights, kind), units, 1e-9)
for loss in LOSSES:
    ROWS[f"features, path, {loss}"] = Row(partial(path_in_features, loss))
    ROWS[f"weights, path, {loss}"] = Row(partial(path_in_weights, loss), rounding=1e-9)


# --- transport ---


def regularizers(name: str, c: float) -> list[Any]:
    if name == "laplacian":
        return [transport.Laplacian(DATA.Xs, DATA.Xt, 3.0 * c, neighbors=4)]
    return [transport.GroupLasso(CLASSES, 0.2 * c)] if name == "groups" else []


def planned(t: Any, of_value: float, of_plan: float = 1e-2, **numbers: Any) -> Found:
    return Found(
        t.iterations,
        {"plan": (t.plan, of_plan), "value": (t.value / of_value, 1e-4), **numbers},
        t.status,
        (t.lower_bound / of_value, t.value / of_value),
    )


def in_cost(name: str, method: str, c: float) -> Found:
    t = transport.solve(
        c * DATA.C,
        DATA.a,
        DATA.b,
        entropy=0.05 * c,
        regularizers=regularizers(name, c),
        method=method,
        tol=1e-5,
    )
    return planned(t, c)


def in_cost_float32(c: float) -> Found:
    t = transport.solve(
        (c * DATA.C.astype(np.float32)).astype(np.float32), entropy=0.05 * c, tol=1e-4
    )
    return planned(t, c)


def in_length(kind: Any, c: float) -> Found:
    """Costs, entropy and class groups go with its square; the Laplacian, whose coordinates grow too, by itself."""
    mover = kind(0.05 * c * c, tol=1e-5)
    if kind is GroupTransport:
        mover.set_params(weight=0.1 * c * c)
    mover.fit(c * DATA.Xs, CLASSES, c * DATA.Xt)
    moved = mover.transform(c * DATA.Xs) / c
    return planned(mover.result_, c * c, moved=(moved, 1e-2))


def in_pots_gcg(stop: float, stop_absolutely: float, c: float) -> Found:
    """`stopThr2` is absolute, and so a quantity of the same unit."""
    plan, log = gcg(
        DATA.a,
        DATA.b,
        c * DATA.C,
        0.05 * c,
        0.3 * c,
        lambda G: 0.5 * float((G**2).sum()),
        lambda G: G,
        numItermax=200,
        stopThr=stop,
        stopThr2=c * stop_absolutely,
        log=True,
    )
    assert log["status"] == "CONVERGED"
    return Found(log["niter"], {"plan": (plan, 1e-3)}, log["status"])


def by_sinkhorn(a: Array = DATA.a, b: Array = DATA.b) -> Bounds:
    found = plan_judge.judge(DATA.C, a, b, 0.05)
    return found.lower, found.upper


for name in ("entropy alone", "laplacian", "groups"):
    for method in ("auto", "cgs"):
        ROWS[f"cost, {name}, {method}"] = Row(
            partial(in_cost, name, method), best=by_sinkhorn if name == "entropy alone" else None
        )
for kind in (EntropicTransport, LaplaceTransport, GroupTransport):
    ROWS[f"length, {kind.__name__}"] = Row(
        partial(in_length, kind), (2.0**-20, 2.0**-3, 2.0**20, 1e-6, 3e-3, 1e6)
    )
for stop in ((1e-7, 0.0), (0.0, 1e-7), (1e-9, 1e-9)):
    ROWS[f"cost, gcg until {stop[0]:g} or {stop[1]:g}"] = Row(partial(in_pots_gcg, *stop))
ROWS["cost, float32"] = Row(in_cost_float32, **FLOAT32)


# --- the tests ---


@cache
def ours(row: str) -> Found:
    return ROWS[row].run(1.0)


@cache
def best(row: str) -> Bounds | None:
    judged = ROWS[row].best
    return None if judged is None else judged()


def assert_same(name: str, other: Any, one: Any, share: float) -> None:
    one = np.asarray(one, dtype=float)
    np.testing.assert_allclose(
        np.asarray(other, dtype=float), one, share, share * np.abs(one).max(), err_msg=name
    )


@pytest.mark.filterwarnings("ignore:the best of the radii is the last")
@pytest.mark.parametrize(
    ("row", "c"),
    [
        pytest.param(name, c, marks=pytest.mark.slow if k != i % len(row.units) else ())
        for i, (name, row) in enumerate(ROWS.items())
        for k, c in enumerate(row.units)
    ],
)
def test_no_unit_decides(row: str, c: float) -> None:
    one, other = ours(row), ROWS[row].run(c)
    is_exact = np.frexp(c)[0] == 0.5
    differ = np.abs(np.asarray(other.iterations) - np.asarray(one.iterations))
    assert (differ <= (ROWS[row].most_iterations if is_exact else 1)).all()
    assert other.status == one.status
    for name, (value, share) in one.numbers.items():
        allowed = ROWS[row].rounding if is_exact else share
        assert_same(name, other.numbers[name][0], value, allowed)
    judged = best(row)
    for found in (one, other) if judged is not None else ():
        assert found.bounds[0] <= judged[1]
        assert judged[0] <= found.bounds[1]
    if one.bounds is not None:
        assert np.all(other.bounds[0] <= one.bounds[1] * (1.0 + 1e-9 * np.sign(one.bounds[1])))
        assert np.all(one.bounds[0] <= other.bounds[1] * (1.0 + 1e-9 * np.sign(other.bounds[1])))


@pytest.mark.parametrize("kind", SINGLE)
def test_next_to_nothing_is_lost_where_the_rows_say_so(kind: Any) -> None:
    plain, null = (
        kind(radius, 1e-4).fit(FEW, FEW_Y, sample_weight=FEW_WEIGHTS) for radius in (50.0, 0.0)
    )
    assert np.max(plain.objective_) < 1e-2 * np.max(null.objective_)


@pytest.mark.parametrize("unit", [1e-4, 5e-5, 1e-5, 1e-9])
def test_small_targets_are_no_zeros(unit: float) -> None:
    model = ConstrainedElasticNet(unit, 0.25).fit(X, unit * TARGET)
    assert model.n_iter_ > 0
    assert r2_score(unit * TARGET, model.predict(X)) > 0.5


def test_small_weights_are_no_zeros() -> None:
    model = ConstrainedLogisticRegression(2.0, 1e-10).fit(X, Y, sample_weight=np.full(40, 1e-9))
    assert np.abs(model.coef_).sum() == pytest.approx(2.0, rel=1e-3)
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("power", [-460, -252, 300, 460])
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize(
    ("plan", "method"), [("dense", "newton"), ("streamed", "newton"), ("streamed", "cgs")]
)
def test_the_unit_of_length_changes_not_a_bit(
    plan: str, method: str, weight: float, power: int
) -> None:
    """Points in units of 1e-139 to 1e138, and costs in their squares: nothing but the unit changes.

    POT's Sinkhorn judges the plan of unit 1, where there is no Laplacian.
    """
    rng = np.random.default_rng(0)
    Xs, Xt = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))

    def solved_in(unit: float) -> transport.TransportResult:
        laplacian = transport.Laplacian(unit * Xs, unit * Xt, weight, neighbors=1)
        return transport.solve(
            transport.SquaredEuclidean(unit * Xs, unit * Xt),
            entropy=0.5 * unit**2,
            regularizers=[laplacian] if weight else [],
            plan=plan,
            method=method,
            max_iter=200,
            tol=1e-8,
        )

    one, other = solved_in(1.0), solved_in(2.0**power)
    assert one.success
    assert (other.status, other.iterations) == (one.status, one.iterations)
    assert other.value * 4.0**-power == one.value
    assert other.lower_bound * 4.0**-power == one.lower_bound
    np.testing.assert_array_equal(other.dense(), one.dense())
    if not weight:
        uniform = np.full(3, 1.0 / 3.0)
        judged = ot.sinkhorn(uniform, uniform, cdist(Xs, Xt, "sqeuclidean"), 0.5, stopThr=1e-9)
        np.testing.assert_allclose(one.dense(), judged, atol=1e-4)
