"""A path is a sequence of runs that share what they know: each radius is proved as if it were alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import condgrad as cg
from condgrad import NotFiniteError
from condgrad.ball import engine
from condgrad.linear_model import path
from tests.linear_model import drawn

LOSSES = {
    "logistic": cg.smooth.Logistic,
    "least-squares": cg.smooth.LeastSquares,
    "squared-hinge": cg.smooth.SquaredHinge,
}

every_loss = pytest.mark.parametrize("loss", LOSSES)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("features", "is_sparse"), [(6, False), (400, False), (400, True)])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_each_radius_is_proved_as_if_it_were_alone(
    loss: str, intercept: bool, features: int, is_sparse: bool, positive: bool, ridge: float
) -> None:
    """Against a run of another method from its own start: no bound is above a value of the other."""
    X, y = drawn(3, samples=40, features=features)
    K = scipy.sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0)) if is_sparse else X
    radii = [0.05, 0.2, 0.4, 3.0]
    found = path(
        K, y, loss=loss, radii=radii, ridge=ridge, positive=positive, fit_intercept=intercept
    )
    f = LOSSES[loss](K, y, intercept=intercept)
    null = f.at(np.zeros(features)).value
    for k, radius in enumerate(radii):
        on = cg.sets.SolidSimplex(radius) if positive else cg.sets.L1Ball(radius)
        g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
        judged = cg.minimize(f, g, method="spg", tol=1e-3, max_iter=100)
        assert found.values[k] - found.gaps[k] <= judged.value * (1.0 + 1e-12)
        assert judged.lower_bound <= found.values[k] * (1.0 + 1e-12)
        assert found.gaps[k] <= 1e-6 * max(found.values[k], 0.01 * null) * (1.0 + 1e-9)
        x = found.coefs[k]
        assert on.contains(x)
        assert found.values[k] == pytest.approx(f.at(x).value + g.value(x), rel=1e-12)


@pytest.mark.parametrize(
    "error", [NotFiniteError("F became nan"), np.linalg.LinAlgError("singular")]
)
@pytest.mark.parametrize("loss", ["logistic", "least-squares"])
def test_a_radius_where_newton_fails_goes_on(
    loss: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next method, as single fits do; SLSQP on the parts of x above and below 0 judges."""
    X, y = drawn(11, samples=40, features=8)
    radii, ridge = np.array([0.1, 0.3, 0.6]), 0.3

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(engine.Columns, "solve", fail)
    found = path(X, y, loss=loss, radii=radii, ridge=ridge, fit_intercept=False, tol=1e-8)
    f = LOSSES[loss](X, y)
    for radius, value, gap in zip(radii, found.values, found.gaps, strict=True):
        judged = scipy.optimize.minimize(
            lambda parts: (
                f.at(parts[:8] - parts[8:]).value
                + ridge * float(((parts[:8] - parts[8:]) ** 2).sum())
            ),
            np.full(16, radius / 32),
            method="SLSQP",
            bounds=[(0.0, None)] * 16,
            constraints={"type": "ineq", "fun": lambda parts, radius=radius: radius - parts.sum()},
            options={"ftol": 1e-12, "maxiter": 1000},
        )
        assert judged.fun == pytest.approx(value, rel=1e-5)
        assert value - gap <= judged.fun * (1.0 + 1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_interpolation_without_a_ridge(intercept: bool) -> None:
    """Least squares reach a loss of 0, from where on the solution stays."""
    X, y = drawn(7, samples=30, features=400)
    options: dict[str, Any] = {"loss": "least-squares", "ridge": 0.0, "fit_intercept": intercept}
    found = path(X, y, radii=np.geomspace(0.02, 20.0, 60), **options)
    null = path(X, y, radii=[0.0], **options).values[0]
    assert (found.gaps <= 1e-6 * null).all()
    assert (np.diff(found.values) <= 1e-6 * null).all()
    assert found.values[-1] <= 1e-6 * null
    assert found.multipliers[-1] == 0.0
    some_solution = np.linalg.lstsq(X, y)[0]
    assert np.abs(found.coefs[-1]).sum() <= np.abs(some_solution).sum() * (1.0 + 1e-6)


@every_loss
@pytest.mark.parametrize("positive", [False, True])
def test_one_radius_from_the_last_is_that_from_nothing(loss: str, positive: bool) -> None:
    """To the last radius, which leaves the constraint idle."""
    X, y = drawn(5, samples=40, features=60)
    options: dict[str, Any] = {"loss": loss, "positive": positive, "tol": 1e-8}
    radii = [0.05, 0.3, 1.0, 100.0, 200.0]
    found = path(X, y, radii=radii, **options)
    for k, radius in enumerate(radii):
        alone = path(X, y, radii=[radius], **options)
        np.testing.assert_allclose(found.coefs[k], alone.coefs[0], atol=1e-3)
        np.testing.assert_allclose(found.multipliers[k], alone.multipliers[0], atol=1e-2)
    np.testing.assert_allclose(found.coefs[-1], found.coefs[-2], atol=1e-9)


def test_a_sparse_hinge_with_hardly_a_ridge() -> None:
    """Models of more coordinates than samples would take dozens of products of conjugate gradients each."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.csc_array(rng.standard_normal((60, 500)) * (rng.random((60, 500)) < 0.5))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    found = path(
        X,
        y,
        loss="squared-hinge",
        ridge=1e-8,
        fit_intercept=False,
        radii=[5.0, 10.0, 20.0, 40.0, 80.0],
    )
    assert (found.gaps <= 1e-6 * found.values[0] + 1e-6 * 60.0).all()
    assert found.n_iters.max() <= 30


@every_loss
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_few_iterations_limit_what_runs_and_change_nothing_else(loss: str, layout: Any) -> None:
    X, y = drawn(11, samples=40, features=60)
    options: dict[str, Any] = {"loss": loss, "ridge": 0.3, "n_radii": 12}
    whole = path(layout(X), y, **options)
    null = path(layout(X), y, loss=loss, radii=[0.0]).values[0]
    most = int(whole.n_iters.max())
    assert 1 <= most < 100
    np.testing.assert_array_equal(path(layout(X), y, max_iter=most, **options).coefs, whole.coefs)
    for limit in range(most):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            short = path(layout(X), y, max_iter=limit, **options)
        is_short = short.gaps > 1e-6 * np.maximum(short.values, 0.01 * null)
        assert is_short.any() == any("iteration limit" in str(each.message) for each in told)
        assert is_short.any() or limit > 0
        assert short.n_iters.max() <= limit
        assert (short.values - short.gaps <= whole.values).all()
        assert (short.values >= whole.values - whole.gaps).all()


@pytest.mark.parametrize("value", [-1, 1.5, "many"])
def test_limits_of_paths_are_checked(value: Any) -> None:
    X, y = drawn(11, samples=40, features=8)
    with pytest.raises((TypeError, ValueError), match="max_iter must be"):
        path(X, y, max_iter=value)


@every_loss
def test_single_precision_is_valued_in_double(loss: str) -> None:
    X, y = drawn(5, samples=40, features=60)
    found = path(X.astype(np.float32), y, loss=loss, n_radii=6, tol=1e-4)
    exact = LOSSES[loss](X.astype(np.float32).astype(np.float64), y, intercept=True)
    for k in range(6):
        x = found.coefs[k].astype(np.float64)
        assert found.values[k] == pytest.approx(exact.at(x).value + 0.5 * x @ x, rel=1e-9)


@pytest.mark.parametrize(
    "error", [NotFiniteError("F became nan"), np.linalg.LinAlgError("singular")]
)
def test_a_later_radius_where_newton_fails_goes_on(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first iterate, the solution before, has no bound yet: that is no reason to give up."""
    X, y = drawn(11, samples=40, features=8)
    X = scipy.sparse.csr_array(X)  # nobody predicts its solutions
    radii = [0.1, 0.3, 0.6]
    expected = path(X, y, radii=radii)
    solve, calls = engine.Columns.solve, []

    def fail(part: engine.Columns, enough: float) -> None:
        calls.append(enough)
        if len(calls) > 2:
            raise error
        solve(part, enough)

    monkeypatch.setattr(engine.Columns, "solve", fail)
    found = path(X, y, radii=radii)
    assert len(calls) > 2
    np.testing.assert_allclose(found.values, expected.values, rtol=2e-6)
