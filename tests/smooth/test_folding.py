"""Multiples of a loss and linear terms, and losses of one's own, under Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad.smooth.composite import AtBestIntercept, Composite
from tests.methods import SMOOTH, data

N = 12
BALL = cg.sets.L1Ball(0.9)
SETS = {
    "l1": BALL,
    "simplex": cg.sets.Simplex(N),
    "box": cg.sets.Box(-0.05, 0.2),
    "solid": cg.sets.SolidSimplex(0.9),
}


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("on", SETS)
@pytest.mark.parametrize("ridge", [0.5, 1e-6, 0.0])
def test_a_multiple_and_linear_terms_fold_in(loss: str, on: str, ridge: float) -> None:
    """Certified by f itself, and the answer of a method that knows nothing of folding."""
    A, target, labels = data(40)
    f = SMOOTH[loss][0](A, target if loss == "squares" else labels)
    rng = np.random.default_rng(0)
    tilted = (
        3.0 * f
        + cg.smooth.Linear(rng.standard_normal(N))
        + 0.5 * cg.smooth.Linear(rng.standard_normal(N))
    )
    g = cg.simple.Ridge(ridge, on=SETS[on]) if ridge else cg.simple.Zero(on=SETS[on])
    result = cg.minimize(tilted, g, method="newton", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    assert result.value == pytest.approx(tilted.at(result.x).value + g.value(result.x), rel=1e-13)
    judge = cg.minimize(tilted, g, method="spg", tol=1e-7, max_iter=2000)
    assert judge.lower_bound <= result.value <= judge.value + 1e-9
    assert result.lower_bound <= judge.value


def test_auto_takes_newton_for_them() -> None:
    A, y, _ = data(41)
    f, g = (
        2.0 * cg.smooth.LeastSquares(A, y) + cg.smooth.Linear(np.ones(N)),
        cg.simple.Ridge(1e-3, on=BALL),
    )
    auto, asked = (cg.minimize(f, g, method=method, tol=1e-9) for method in ("auto", "newton"))
    np.testing.assert_array_equal(auto.trace["value"], asked.trace["value"])


def test_a_tilt_of_torch(torch: Any) -> None:
    A, y, _ = data(42)
    c, g = np.linspace(-1.0, 1.0, N), cg.simple.Ridge(1e-3, on=BALL)
    numpy_result = cg.minimize(
        2.0 * cg.smooth.LeastSquares(A, y) + cg.smooth.Linear(c), g, method="newton"
    )
    f = 2.0 * cg.smooth.LeastSquares(torch.tensor(A), torch.tensor(y)) + cg.smooth.Linear(
        torch.tensor(c)
    )
    result = cg.minimize(f, g, method="newton")
    np.testing.assert_allclose(result.x.numpy(), numpy_result.x, atol=1e-6)


def test_what_does_not_fold_is_said_in_a_sentence() -> None:
    A, y, _ = data(43)
    f, g = cg.smooth.LeastSquares(A, y), cg.simple.Ridge(1.0, on=BALL)
    function = cg.smooth.Function(lambda x: (float(x @ x), 2.0 * x))
    for smooth in (
        f + f,
        f + function,
        cg.smooth.Linear(np.ones(N)) + cg.smooth.Linear(np.ones(N)),
    ):
        with pytest.raises(
            cg.MissingAbility,
            match=r"is not a multiple of one loss h\(Kx\) on data",
        ):
            cg.minimize(smooth, g, method="newton")


class Huber:
    """A loss of one's own: what `Separable` states, and nothing else."""

    quadratic = False
    curvature_bound = 1.0
    has_intercept = False

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def evaluate(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        r = z - self.y
        small = np.abs(r) <= 1.0
        return float(np.where(small, 0.5 * r * r, np.abs(r) - 0.5).sum()), np.where(
            small, r, np.sign(r)
        )

    def at_best_intercept(self, z: np.ndarray, *, near: float | None = None) -> AtBestIntercept:
        return AtBestIntercept(*self.evaluate(z), 0.0)

    def intercept_at(self, z: np.ndarray, *, near: float | None = None) -> float:
        return 0.0

    def curvature(self, z: np.ndarray, *, intercept: float | None = None) -> np.ndarray:
        return (np.abs(z - self.y) <= 1.0).astype(float)

    def hessian_gram(
        self, z: np.ndarray, directions: np.ndarray, *, intercept: float | None = None
    ) -> np.ndarray:
        return (directions * self.curvature(z)) @ directions.T


@pytest.mark.parametrize("ridge", [1e-1, 1e-5])
def test_a_loss_of_ones_own(ridge: float) -> None:
    A, y, _ = data(44)
    f, g = Composite(A, Huber(3.0 * y)), cg.simple.Ridge(ridge, on=cg.sets.L1Ball(2.0))
    result = cg.minimize(f, g, method="auto", tol=1e-9)
    assert result.status is cg.Status.CONVERGED
    judge = cg.minimize(f, g, method="cgs", memory=3, tol=1e-6, max_iter=3000)
    assert judge.lower_bound <= result.value <= judge.value + 1e-9
    assert result.lower_bound <= judge.value
