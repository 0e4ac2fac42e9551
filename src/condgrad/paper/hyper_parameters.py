"""Ridge and radius as the paper chooses them: "roughly set so as to maximize the performance on the test set"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condgrad.minimize import minimize
from condgrad.paper.elastic_net_data import Split
from condgrad.sets import L1Ball
from condgrad.simple import Ridge
from condgrad.smooth import Logistic

TIE_RULE = "among equals the largest ridge, which favours CGS, then the smallest radius"
GAP = 1e-6


@dataclass(frozen=True)
class Grid:
    """The pairs that are tried."""

    ridges: tuple[float, ...] = (0.1, 1.0, 10.0)
    radii: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Choice:
    """A pair of the grid, and the model that it gives."""

    ridge: float
    radius: float
    accuracy: float
    """The share of the test samples that it gets right."""
    nonzeros: int
    equals: int
    """How many pairs of the grid do as well, itself among them."""


def choose(data: Split, grid: Grid) -> Choice:
    """The pair with the most test samples right, by Newton's method from one radius to the next."""
    f = Logistic(data.X_train, data.y_train)
    tried: list[tuple[float, float, float, int]] = []
    for ridge in grid.ridges:
        x = np.zeros(data.X_train.shape[1])
        for radius in sorted(grid.radii):
            x = minimize(f, Ridge(ridge, on=L1Ball(radius)), x, method="newton", tol=GAP).x
            right = np.mean((data.X_test @ x > 0.0) == (data.y_test > 0.0))
            tried.append((float(right), ridge, -radius, int(np.count_nonzero(x))))
    accuracy, ridge, minus_radius, nonzeros = max(tried)
    return Choice(ridge, -minus_radius, accuracy, nonzeros, sum(entry[0] == accuracy for entry in tried))
