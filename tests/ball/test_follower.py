"""A follower predicts solutions of a path. A run of one iterate proves or refutes each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.ball import Follower, follow
from condgrad.linear_model import path

TOL = 1e-7
LOSSES: dict[str, Any] = {
    "least-squares": cg.smooth.LeastSquares,
    "logistic": cg.smooth.Logistic,
    "squared-hinge": cg.smooth.SquaredHinge,
    "poisson": cg.smooth.Poisson,
    "gamma": cg.smooth.Gamma,
    "huber": cg.smooth.Huber,
}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def problem(loss: str, seed: int, *, samples: int = 60, features: int = 12) -> tuple[Any, Any]:
    """Data with a few true coefficients, and targets that the loss is made for."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, features)) + rng.standard_normal(features)
    scores = 0.4 * X[:, :3].sum(axis=1) + rng.standard_normal(samples)
    if loss in ("logistic", "squared-hinge"):
        return X, np.where(scores > np.median(scores), 1.0, -1.0)
    if loss in ("poisson", "gamma"):
        return X, rng.poisson(np.exp(0.5 * scores)) + (loss == "gamma") * 0.5
    return X, scores


def parts_of(kind: str, ridge: float, *, positive: bool, top: float = 1.0) -> list[Any]:
    """What keeps x small along a path: balls that grow, or penalties that fall."""
    if kind == "penalty":
        return [
            cg.simple.ElasticNet(l1, ridge, positive=positive)
            for l1 in top * np.geomspace(0.9, 0.05, 15)
        ]
    make = cg.sets.SolidSimplex if positive else cg.sets.L1Ball
    sets = [make(radius) for radius in np.geomspace(0.02, 0.6, 15)]
    return [cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on) for on in sets]


def followed(f: Any, parts: list[Any], *, max_iter: int = 100) -> Follower | None:
    null = f.at(np.zeros(f.space.shape))
    return follow(f, parts, null=null, tol=TOL, max_iter=max_iter)


def predictions(f: Any, parts: list[Any]) -> dict[int, Any]:
    """The points that it predicts without any help, by their places on the path."""
    ahead = followed(f, parts)
    assert ahead is not None
    points = {k: ahead.point(k) for k in range(len(parts))}
    return {k: point for k, point in points.items() if point is not None}


@every_loss
@pytest.mark.parametrize("kind", ["radius", "penalty"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_predictions_are_solutions(
    loss: str, kind: str, positive: bool, intercept: bool, ridge: float
) -> None:
    """A run that begins there ends there, with a proof that no compiled code has a part in."""
    X, y = problem(loss, 3)
    f = LOSSES[loss](X, y, intercept=intercept)
    slope = f.at(np.zeros(12)).gradient
    top = float(max(-slope) if positive else max(abs(slope)))
    parts = parts_of(kind, ridge, positive=positive, top=top)
    found = predictions(f, parts)
    assert len(found) >= 12
    for k, point in found.items():
        g = parts[k]
        assert g.on.violation(point.x) == 0.0
        judged = cg.minimize(f, g, point.x, method="spg", tol=TOL, max_iter=0)
        assert judged.status is cg.Status.CONVERGED
        assert point.smooth.intercept == pytest.approx(f.intercept_at(point.x), abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(list(LOSSES)),
    st.integers(0, 2**31),
    st.integers(5, 60),
    st.integers(2, 80),
    st.sampled_from([0.0, 1e-3, 10.0]),
    st.booleans(),
)
def test_a_path_has_the_proofs_of_single_runs(
    loss: str, seed: int, samples: int, features: int, ridge: float, intercept: bool
) -> None:
    X, y = problem(loss, seed, samples=samples, features=features)
    radii = np.geomspace(0.03, 3.0, 6)
    options: dict[str, Any] = {"loss": loss, "ridge": ridge, "fit_intercept": intercept}
    found = path(X, y, radii=radii, **options)
    for k, radius in enumerate(radii):
        alone = path(scipy.sparse.csr_array(X), y, radii=[radius], **options)  # nobody predicts it
        slack = 1e-12 * abs(alone.values[0])
        assert found.values[k] - found.gaps[k] <= alone.values[0] + slack
        assert alone.values[0] - alone.gaps[0] <= found.values[k] + slack


def test_the_ridge_may_change_with_the_penalty() -> None:
    X, y = problem("logistic", 5)
    f = cg.smooth.Logistic(X, y)
    scale = float(np.abs(f.at(np.zeros(12)).gradient).max())
    parts = [cg.simple.ElasticNet(l1, 0.5 * l1) for l1 in scale * np.geomspace(0.9, 0.05, 15)]
    found = predictions(f, parts)
    assert len(found) >= 12
    for k, point in found.items():
        judged = cg.minimize(f, parts[k], point.x, method="spg", tol=TOL, max_iter=0)
        assert judged.status is cg.Status.CONVERGED


def test_predictions_count_as_iterations() -> None:
    """With none allowed nobody predicts anything."""
    X, y = problem("logistic", 3)
    f = cg.smooth.Logistic(X, y)
    ahead = followed(f, parts_of("radius", 0.3, positive=False), max_iter=0)
    assert ahead is not None
    assert ahead.point(0) is None
    assert ahead.models(0) == 0
    found = path(X, y, radii=[0.1, 0.2, 0.3])
    assert (found.n_iters >= 1).all()


def test_inside_the_ball_the_engine_goes_on() -> None:
    """Beyond the norm of the solution without a constraint, all radii have that solution."""
    X, y = problem("logistic", 3)
    f = cg.smooth.Logistic(X, y)
    ahead = followed(f, parts_of("radius", 5.0, positive=False))
    assert ahead is not None
    found = path(X, y, ridge=5.0, fit_intercept=False, radii=[0.1, 1.0, 10.0, 100.0, 1000.0])
    free = cg.minimize(f, cg.simple.Ridge(5.0, on=cg.sets.L1Ball(1e4)), tol=1e-10)
    np.testing.assert_allclose(found.values[-2:], free.value, rtol=1e-6)
    assert (found.multipliers[-2:] == 0.0).all()


def test_who_is_not_followed() -> None:
    """Sparse data, float32, offsets, free columns and groups: the engine finds each solution."""
    X, y = problem("least-squares", 3)
    parts = parts_of("radius", 0.3, positive=False)
    by_groups = [cg.simple.Ridge(0.3, on=cg.sets.GroupBall(1.0, np.arange(12) // 3))]
    assert followed(cg.smooth.LeastSquares(X, y), parts) is not None
    assert followed(cg.smooth.LeastSquares(X, y), by_groups) is None
    assert followed(cg.smooth.LeastSquares(scipy.sparse.csr_array(X), y), parts) is None
    assert followed(cg.smooth.LeastSquares(X.astype(np.float32), y), parts) is None
    assert followed(cg.smooth.LeastSquares(X, y, unpenalised=X[:, :1] ** 2), parts) is None
    poisson, counts = problem("poisson", 3)
    with_offset = cg.smooth.Poisson(poisson, counts, offset=np.ones(60))
    assert followed(with_offset, parts) is None
