"""The problems that the paper's experiments and the benchmarks share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

import condgrad as cg

ENTROPY, WEIGHT, NEIGHBORS = 1.7e-2, 1e3, 10
"""The paper's lambda_1 and lambda_2 for transport, and the size of its neighbour graphs."""


@dataclass(frozen=True)
class TransportProblem:
    """Section 3.1: F(G) = <C, G> + Omega(G) + eps sum G log G over the plans between uniform weights."""

    cost: Any
    omega: Any
    g: Any

    @classmethod
    def of(
        cls,
        n: int,
        seed: int,
        *,
        engine: str = "auto",
        weight: float = WEIGHT,
        normalized: bool = True,
    ) -> TransportProblem:
        """Noisy clusters, squared distances, and a Laplacian on the graphs of neighbours."""
        data = cg.datasets.make_clusters(n, seed=seed)
        laplacian = cg.transport.Laplacian(
            data.Xs, data.Xt, weight=weight, neighbors=NEIGHBORS, normalized=normalized
        )
        return cls._of(
            cdist(data.Xs, data.Xt, "sqeuclidean"), laplacian.smooth_part(), ENTROPY, engine
        )

    @classmethod
    def with_groups(cls, n: int, classes: int, entropy: float, weight: float) -> TransportProblem:
        """The clusters as classes, and costs of at most 1."""
        data = cg.datasets.make_clusters(n, clusters=classes)
        cost = cdist(data.Xs, data.Xt, "sqeuclidean")
        return cls._of(
            cost / cost.max(), cg.smooth.GroupLasso(data.ys, weight=weight), entropy, "auto"
        )

    @classmethod
    def _of(cls, cost: Any, omega: Any, entropy: float, engine: str) -> TransportProblem:
        weights = np.full(len(cost), 1.0 / len(cost))
        return cls(
            cost,
            omega,
            cg.simple.Entropy(entropy, on=cg.sets.Transport(weights, weights, engine=engine)),
        )

    @cached_property
    def f(self) -> Any:
        return cg.smooth.Linear(self.cost) + self.omega

    @property
    def polytope(self) -> Any:
        return self.g.on

    def value(self, plan: Any) -> float:
        """F at the plan rounded to exact marginals, so that nobody gains by leaving the polytope."""
        plan = self.polytope.rounded(np.nan_to_num(plan))
        return float(self.f.at(plan).value + self.g.value(plan))

    @property
    def start_value(self) -> float:
        """F at the product of the weights, where every solver starts."""
        return self.value(np.outer(self.polytope.a, self.polytope.b))


@dataclass(frozen=True)
class Optimum:
    """A certified solution, and the multiplier of the constraint."""

    x: Any
    value: float
    gap: float
    multiplier: float


@dataclass(frozen=True, eq=False)
class ElasticNetProblem:
    """Section 3.2: F(x) = sum_i log(1 + exp(-y_i z_i.x)) + ridge |x|_2^2 subject to |x|_1 <= radius."""

    name: str
    X: Any
    """Dense or sparse."""
    y: Any
    ridge: float
    radius: float

    @property
    def sparse(self) -> bool:
        return bool(scipy.sparse.issparse(self.X))

    @cached_property
    def by_columns(self) -> Any:
        """The data for coordinate descent, and for us."""
        return scipy.sparse.csc_matrix(self.X) if self.sparse else np.asfortranarray(self.X)

    @cached_property
    def by_rows(self) -> Any:
        """The data for stochastic methods."""
        return scipy.sparse.csr_matrix(self.X) if self.sparse else np.ascontiguousarray(self.X)

    def new_f(self) -> Any:
        """A new f: nothing that an earlier run left in it helps the next."""
        return cg.smooth.Logistic(self.by_columns, self.y)

    @cached_property
    def judge(self) -> Any:
        return self.new_f()

    @cached_property
    def g(self) -> Any:
        return cg.simple.Ridge(self.ridge, on=cg.sets.L1Ball(self.radius))

    def value(self, x: Any) -> float:
        """F(x)."""
        return float(self.judge.at(x).value + self.ridge * (x @ x))

    @cached_property
    def optimum(self) -> Optimum:
        """The best of several certified runs, each from where the last one ended."""
        x: Any = None
        value, lower = np.inf, -np.inf
        for method in ("auto", "spg", "auto"):
            run = cg.minimize(
                self.new_f(), self.g, x, method=method, tol=1e-13, max_iter=100_000, time_limit=30.0
            )
            if run.value <= value:
                x, value = run.x, run.value
            lower = max(lower, run.lower_bound)
            if value - lower <= 1e-12 * abs(value):
                break
        # where the constraint binds, grad F(x) = -multiplier sign(x) on the support
        slope = self.judge.at(x).gradient + 2.0 * self.ridge * x
        return Optimum(x, value, value - lower, max(0.0, -float(slope @ x) / self.radius))

    def constrained_error(self, x: Any) -> float:
        """(F - F*)/|F*| at the projection of x onto the ball."""
        best = self.optimum
        return (self.value(self.g.on.project(x)) - best.value) / abs(best.value)

    def penalized_error(self, x: Any) -> float:
        """The same for F + multiplier |x|_1, at x itself."""
        best = self.optimum
        excess = float(np.abs(x).sum() - np.abs(best.x).sum())
        return (self.value(x) - best.value + best.multiplier * excess) / abs(best.value)

    def kinder_error(self, x: Any) -> float:
        """What a solver of the penalised form is judged by when it is given the multiplier."""
        return min(self.constrained_error(x), self.penalized_error(x))
