"""Small problems whose constants are known: the curvature C_f, and L and mu where the rate is linear.

C_f is the curvature of f alone, the least C with f((1 - a) x + a y) <= f(x) + a <grad f(x), y - x> + C a^2 / 2 for all
x, y in P and a in [0, 1]. The paper states its theorem with that of F; its proof goes through with that of f, and the
entropy has no finite one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import eye_array
from scipy.spatial.distance import pdist

from condgrad.paper.transport_problem import TransportProblem
from condgrad.problem import Simple, Smooth
from condgrad.sets import L1Ball, Simplex
from condgrad.simple import Ridge, Zero
from condgrad.smooth import LeastSquares, Logistic, TransportLaplacian

ROWS, COLUMNS, RADIUS, RIDGE = 40, 60, 3.0, 0.05
SPARSE = 6
"""Entries that matter: more than the radius has room for, so that the constraint binds."""
LAPLACIAN_WEIGHT = 1e2
"""A tenth of the paper's, so that a small problem ends within the run."""


@dataclass(frozen=True)
class TheoryProblem:
    """f, g, a bad start, and the constants that the rates are stated with."""

    f: Smooth
    g: Simple
    x0: Any
    curvature: float
    """C_f, or a bound on it."""
    smoothness: float = 0.0
    """L in the Euclidean norm, where the linear rate is looked at."""
    strong_convexity: float = 0.0
    """mu of g in the same norm."""
    optimum: float | None = None
    """F*, where there is a closed form."""

    @property
    def contraction(self) -> float:
        """L/(L + mu): h_{k+1} is at most so many times h_k."""
        total = self.smoothness + self.strong_convexity
        return self.smoothness / total if total else 1.0


def least_squares(size: int, seed: int) -> TheoryProblem:
    """1/2 |Ax - y|^2 + ridge |x|^2 on an l1 ball; C_f = max |A(u - v)|^2 over vertices, exactly."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((ROWS, size)) / np.sqrt(ROWS)
    y = A[:, :SPARSE] @ rng.choice([-1.0, 1.0], SPARSE) + 0.1 * rng.standard_normal(ROWS)
    return _on_l1_ball(LeastSquares(A, y), A, bend=1.0)


def logistic(size: int, seed: int) -> TheoryProblem:
    """sum log(1 + exp(-y z.x)) + ridge |x|^2 on an l1 ball; C_f <= max |Z(u - v)|^2 / 4, for h'' <= 1/4."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((ROWS, size)) / np.sqrt(0.25 * ROWS)
    y = np.where(Z[:, :SPARSE].sum(axis=1) + 0.1 * rng.standard_normal(ROWS) > 0.0, 1.0, -1.0)
    return _on_l1_ball(Logistic(Z, y), Z, bend=0.25)


def _on_l1_ball(f: Smooth, A: Any, *, bend: float) -> TheoryProblem:
    """f = h(Ax) with h'' <= bend: C_f and L from the matrix; the start is the worst vertex."""
    g = Ridge(RIDGE, on=L1Ball(RADIUS))
    vertices = RADIUS * np.vstack([np.eye(A.shape[1]), -np.eye(A.shape[1])])
    worst = max(vertices, key=lambda v: f.at(v).value + g.value(v))
    curvature = bend * float(pdist(vertices @ A.T, "sqeuclidean").max())
    return TheoryProblem(f, g, worst, curvature, bend * float(np.linalg.norm(A, 2)) ** 2, g.strong_convexity)


def transport(size: int, seed: int) -> TheoryProblem:
    """The problem of figure 1, small; f is quadratic, so that C_f = 2 max Omega(G - G') over plans, here from above.

    Row i of G Xt is a_i times a mean of target points, so two plans differ there by at most a_i diam(Xt):
    Omega(G - G') <= w (lmax(Ls) |a|^2 diam(Xt)^2 + lmax(Lt) |b|^2 diam(Xs)^2).
    """
    problem = TransportProblem.of(size, seed, weight=LAPLACIAN_WEIGHT)
    omega, polytope = problem.omega, problem.polytope
    assert isinstance(omega, TransportLaplacian)

    def side(weight: float, L: Any, weights: Any, other: Any) -> float:
        top = float(np.linalg.eigvalsh(L.toarray() if hasattr(L, "toarray") else L)[-1])
        return weight * top * float(weights @ weights) * float(pdist(other, "sqeuclidean").max())

    source = side(omega.source_weight, omega.Ls, polytope.a, omega.Xt)
    target = side(omega.target_weight, omega.Lt, polytope.b, omega.Xs)
    return TheoryProblem(problem.f, problem.g, None, 2.0 * (source + target))


def corner(size: int, seed: int) -> TheoryProblem:
    """|x|^2 / 2 on the simplex from a corner, g = 0: each step adds one entry, so F(x_k) - F* >= 1/(2k+2) - 1/(2n)."""
    f = LeastSquares(eye_array(size, format="csr"), np.zeros(size))
    start = np.zeros(size)
    start[seed % size] = 1.0
    return TheoryProblem(f, Zero(on=Simplex(size)), start, curvature=2.0, optimum=0.5 / size)


@dataclass(frozen=True)
class Kind:
    """A problem by name, and what is asked of it."""

    title: str
    make: Callable[[int, int], TheoryProblem]
    random: bool
    """Whether other seeds give other problems of interest."""
    steps: tuple[str, ...]
    """Step rules of CGS, and "newton" where it is needed for F*."""


STEPS = ("exact", "armijo", "open-loop")
KINDS: Mapping[str, Kind] = {
    "least squares": Kind("least squares + ridge, l1 ball", least_squares, True, ("newton", *STEPS, "short")),
    "logistic": Kind("logistic + ridge, l1 ball", logistic, True, ("newton", *STEPS, "short")),
    "transport": Kind("transport, entropy + Laplacian", transport, False, ("newton", *STEPS)),
    "corner": Kind("|x|^2/2 on the simplex, g = 0", corner, False, STEPS),
}
