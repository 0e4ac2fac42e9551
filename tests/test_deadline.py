"""A time limit reaches into the oracles and the inner loops of Newton's method, and the certificate holds."""

from __future__ import annotations

import numpy as np
import pytest

import condgrad as cg
from condgrad import deadline


def stiff_transport(n: int = 40) -> tuple[cg.smooth.Linear, cg.simple.Entropy]:
    """An entropy so small that Sinkhorn's iteration needs many passes."""
    rng = np.random.default_rng(0)
    cost = ((rng.uniform(size=(n, 1, 2)) - rng.uniform(size=(1, n, 2))) ** 2).sum(-1)
    weights = np.full(n, 1.0 / n)
    return cg.smooth.Linear(cost), cg.simple.Entropy(5e-3, on=cg.sets.Transport(weights, weights))


def test_outside_of_a_limit_there_is_time() -> None:
    assert not deadline.passed()
    with deadline.within(None):
        assert not deadline.passed()


def test_the_nearer_of_two_limits_counts_and_ends_with_its_block() -> None:
    with deadline.within(0.0):
        with deadline.within(100.0):
            assert deadline.passed()
        assert deadline.passed()
    assert not deadline.passed()
    with deadline.within(100.0):
        with pytest.raises(ValueError, match="out"), deadline.within(0.0):
            raise ValueError("out")
        assert not deadline.passed()


def test_sinkhorn_stops_inside_the_oracle() -> None:
    f, g = stiff_transport()
    whole = cg.minimize(f, g, tol=1e-7)
    none = cg.minimize(f, g, tol=1e-7, time_limit=0.0)
    assert (whole.status, none.status) == (cg.Status.CONVERGED, cg.Status.TIME_LIMIT)
    assert none.trace["inner_iterations"][-1] < 0.5 * whole.trace["inner_iterations"][-1]
    assert none.lower_bound <= whole.value
    assert whole.lower_bound <= none.value


@pytest.mark.parametrize("method", ["newton", "cgs", "spg"])
@pytest.mark.parametrize("limit", [0.0, 1e-3, 5e-3])
def test_a_limit_is_called_a_limit(method: str, limit: float) -> None:
    """However early it comes, the status is no other, and F* stays between the two."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((200, 100))
    y = np.where(Z[:, :5].sum(axis=1) + rng.standard_normal(200) > 0.0, 1.0, -1.0)
    f, g = cg.smooth.SquaredHinge(Z, y), cg.simple.Ridge(1e-6, on=cg.sets.L1Ball(50.0))
    result = cg.minimize(f, g, method=method, tol=0.0, max_iter=10**6, time_limit=limit)
    assert result.status is cg.Status.TIME_LIMIT
    best = cg.minimize(f, g, method="newton", tol=1e-6)
    assert result.lower_bound <= best.value
    assert best.lower_bound <= result.value


def test_newton_for_transport_stops_inside_its_equations() -> None:
    d = cg.datasets.make_clusters(80)
    cost = ((d.Xs[:, None] - d.Xt[None]) ** 2).sum(-1)
    laplacian = cg.transport.Laplacian(d.Xs, d.Xt, weight=1e3)
    solve = {"entropy": 1.7e-2, "regularizers": [laplacian], "method": "newton", "tol": 1e-10}
    whole, none = cg.transport.solve(cost, **solve), cg.transport.solve(cost, **solve, time_limit=0.0)
    assert (whole.status, none.status) == (cg.Status.CONVERGED, cg.Status.TIME_LIMIT)
    assert none.lower_bound <= whole.value
    assert whole.lower_bound <= none.value
