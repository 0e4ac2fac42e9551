"""The paper's transport problem (section 3.1): squared distances, entropy and graph Laplacians on noisy clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad.datasets import make_clusters
from condgrad.problem import Smooth
from condgrad.sets import Transport
from condgrad.simple import Entropy
from condgrad.smooth import Linear
from condgrad.transport import Laplacian

ENTROPY, WEIGHT, NEIGHBORS = 1.7e-2, 1e3, 10
"""The paper's lambda_1 and lambda_2, and the size of its neighbour graphs."""


@dataclass(frozen=True)
class TransportProblem:
    """F(G) = <C, G> + Omega(G) + eps sum G log G over the plans between uniform weights."""

    cost: Any
    omega: Smooth
    f: Smooth
    g: Entropy
    polytope: Transport

    @classmethod
    def of(cls, n: int, seed: int, *, engine: str = "auto", weight: float = WEIGHT) -> TransportProblem:
        data = make_clusters(n, seed=seed)
        cost = ((data.Xs[:, None] - data.Xt[None]) ** 2).sum(-1)
        omega = Laplacian(data.Xs, data.Xt, weight=weight, neighbors=NEIGHBORS).smooth_part()
        weights = np.full(n, 1.0 / n)
        polytope = Transport(weights, weights, engine=engine)
        return cls(cost, omega, Linear(cost) + omega, Entropy(ENTROPY, on=polytope), polytope)

    def value(self, plan: Any) -> float:
        """F at the plan rounded to exact marginals, so that nobody gains by leaving the polytope."""
        plan = self.polytope.rounded(plan)
        return float(self.f.at(plan).value + self.g.value(plan))

    @property
    def start_value(self) -> float:
        """F at the product of the weights, where every solver starts."""
        return self.value(np.outer(self.polytope.a, self.polytope.b))
