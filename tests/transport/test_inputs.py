"""What a transport problem takes beside its cost: arrays of either library, starts, points without weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from condgrad.transport import Laplacian, solve
from tests.transport import cloud

DATA = cloud(6, 5, seed=2)
LABELS = [0, 0, 1, 1, 2, 2]


def laplacian(Xs: Any = DATA.Xs, Xt: Any = DATA.Xt) -> Laplacian:
    return Laplacian(Xs, Xt, 0.5, neighbors=2)


# --- libraries ---


@pytest.mark.parametrize("method", ["auto", "cgs"])
def test_weights_and_coordinates_follow_the_cost(method: str, torch: Any) -> None:
    """NumPy beside torch and torch beside NumPy: the plan is of the cost's library, and the same."""
    options: dict[str, Any] = {"entropy": 0.1, "method": method, "tol": 1e-9}
    plain = solve(DATA.C, DATA.a, DATA.b, regularizers=[laplacian()], **options)
    tensor = torch.asarray
    mixed = solve(
        tensor(DATA.C), DATA.a, tensor(DATA.b), regularizers=[laplacian(tensor(DATA.Xs))], **options
    )
    assert isinstance(mixed.plan, torch.Tensor)
    np.testing.assert_allclose(mixed.plan.numpy(), plain.plan, atol=1e-5)
    points = laplacian(tensor(DATA.Xs), tensor(DATA.Xt))
    back = solve(DATA.C, tensor(DATA.a), tensor(DATA.b), regularizers=[points], **options)
    assert isinstance(back.plan, np.ndarray)
    np.testing.assert_allclose(back.plan, plain.plan, atol=1e-5)


def test_a_start_follows_the_cost(torch: Any) -> None:
    best = solve(DATA.C, entropy=0.1, tol=1e-9)
    again = solve(torch.asarray(DATA.C), entropy=0.1, start=best.plan, method="cgs", tol=1e-6)
    assert isinstance(again.plan, torch.Tensor)
    assert again.trace["value"][0] == pytest.approx(best.value, rel=1e-9)


# --- prices ---


@pytest.mark.parametrize("regularizers", [[], [laplacian()]])
def test_prices_of_points_without_weight(regularizers: list[Any]) -> None:
    """Without entropy they are finite and respect every cost; with it they are -inf."""
    a, b = DATA.a.copy(), DATA.b.copy()
    a[:2], b[0] = [0.0, a[0] + a[1]], 0.0
    b /= b.sum()
    plain = solve(DATA.C, a, b, entropy=0.0, regularizers=regularizers, tol=1e-6)
    M = plain.problem[0].at(plain.plan).gradient
    u, v = plain.potentials
    assert np.isfinite(u).all()
    assert np.isfinite(v).all()
    assert (u[:, None] + v[None, :] <= M + 1e-12).all()
    np.testing.assert_allclose(
        u[a == 0.0], (M - v[None, :])[a == 0.0].min(axis=1)
    )  # no higher price would do
    assert a @ u + b @ v == pytest.approx(
        float(np.sum(M * plain.plan)), abs=2.0 * plain.gap + 1e-12
    )
    smooth = solve(DATA.C, a, b, entropy=0.1, regularizers=regularizers)
    assert np.array_equal(np.isneginf(smooth.potentials.u), a == 0.0)
    assert np.array_equal(np.isneginf(smooth.potentials.v), b == 0.0)
