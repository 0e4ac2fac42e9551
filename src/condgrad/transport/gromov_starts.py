"""Where Gromov-Wasserstein starts: at the oracle's plan for the gradient at a guess of what f sees
of a plan.

f sees of a plan G how the principal axes of the two spaces are matched, W_kl = <phi_k psi_l', G>.
The product of the weights has W = 0, which is a saddle point if the data are symmetric. A guess
matches axis k with axis k, with a sign each, or all axes at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import (
    Array,
    Space,
    double_like,
    eigh_small,
    host,
    is_formed,
    namespace,
    orthonormal,
    standard_normal,
)
from condgrad.problem import Simple, Smooth
from condgrad.smooth.gromov import GromovPoints, GromovWasserstein
from condgrad.streamed_plan import UnformedCost

MOST_AXES = 3
"""The largest number of principal axes that are matched. Their signs make eight starts."""
SUBSPACE_STEPS = 8
"""The number of steps of the subspace iteration for the axes of an array. A start need not be
exact.
"""
LOOSE = 0.05
"""The oracle's plan for a start may miss its minimum by this share of the size of f."""


class NamedStart(NamedTuple):
    """A plan to start from, None for the product of the weights, and what it is."""

    name: str
    plan: Any


class MatchedAxes(NamedTuple):
    """Principal axes as functions of the points, of weighted square sum 1, and how strongly f sees
    each pair.
    """

    left: Array
    right: Array
    strength: Array
    """f is about -strength_k W_kk^2 in the axes."""

    @property
    def number(self) -> int:
        return self.left.shape[1]

    def signs(self, a: Array, b: Array) -> list[tuple[float, ...]]:
        """All choices of signs, those first that match the skewness of the axes."""
        skew_left = host(a @ self.left**3)
        skew_right = host(b @ self.right**3)
        agreement = host(self.strength) * skew_left * skew_right
        choices = list(product((1.0, -1.0), repeat=self.number))
        return sorted(choices, key=lambda signs: -float(np.dot(signs, agreement)))


def matched_axes(f: GromovPoints | GromovWasserstein) -> MatchedAxes:
    """The axes of both spaces, by how much they vary, those that f wants to be matched."""
    if isinstance(f, GromovPoints):
        left, of_left = _axes_of_points(f.X, f.a)
        right, of_right = _axes_of_points(f.Y, f.b)
        strength = 8.0 * of_left[: len(of_right)] * of_right[: len(of_left)]
    else:
        left, of_left = _axes_of_matrix(f.A.core, f.a)
        right, of_right = _axes_of_matrix(f.B.core, f.b)
        strength = of_left[: len(of_right)] * of_right[: len(of_left)]
    wanted = np.flatnonzero(host(strength) > 0.0)[:MOST_AXES]
    return MatchedAxes(left[:, wanted], right[:, wanted], strength[wanted])


def _axes_of_points(X: Array, weights: Array) -> tuple[Array, Array]:
    values, vectors = eigh_small(X.T @ (weights[:, None] * X))
    values, vectors = _largest_first(values, vectors)
    return X @ vectors / namespace(X).sqrt(values)[None, :], values


def _axes_of_matrix(core: Array, weights: Array) -> tuple[Array, Array]:
    """Eigenvectors of sqrt(w_i) core_ik sqrt(w_k), symmetrised, by a subspace iteration."""
    xp = namespace(core)
    roots = xp.sqrt(weights)[:, None]

    def times(V: Array) -> Array:
        V = roots * V
        return 0.5 * roots * (core @ V + core.T @ V)

    size = min(2 * MOST_AXES, core.shape[0])
    V = orthonormal(standard_normal((core.shape[0], size), core, seed=0))
    for _ in range(SUBSPACE_STEPS):
        V = orthonormal(times(V))
    values, vectors = eigh_small(V.T @ times(V))
    values, vectors = _largest_first(values, vectors)
    safe = xp.where(roots > 0.0, roots, 1.0)
    return xp.where(roots > 0.0, (V @ vectors) / safe, 0.0), values


def _largest_first(values: Array, vectors: Array) -> tuple[Array, Array]:
    """The eigenpairs that matter, the largest first."""
    sizes = abs(host(values))
    order = np.argsort(-sizes)
    order = order[sizes[order] > 1e-12 * (sizes.max(initial=0.0) or 1.0)]
    return values[order], vectors[:, order]


def start_plans(
    f: Smooth, g: Simple, structure: GromovPoints | GromovWasserstein, count: int, seed: int
) -> Iterator[NamedStart]:
    """So many starts: signs of the axes first, then random matchings of them."""
    axes = matched_axes(structure)
    signs = axes.signs(structure.a, structure.b) if axes.number else []
    rng = np.random.default_rng(seed)
    for k in range(count):
        if k < len(signs):
            words = "".join("+" if sign > 0.0 else "-" for sign in signs[k])
            name = f"axes {words}"
            W = np.diag(signs[k])
        else:
            name = f"random {k - len(signs) + 1}"
            W = np.linalg.qr(rng.standard_normal((axes.number, axes.number)))[0]
        left = axes.left * (-2.0 * axes.strength)[None, :] @ double_like(W, axes.left)
        yield NamedStart(name, _oracle_plan(f, g, structure, left, axes.right))


def _oracle_plan(
    f: Smooth, g: Simple, structure: GromovPoints | GromovWasserstein, left: Array, right: Array
) -> Any:
    """The oracle's plan where f has the gradient at the product plan, which is that of its linear
    part, + left right'.

    The mass of all weights is part of `left`: entries of W are no larger than the root of the
    product of square sums.
    """
    gradient = f.at(g.on.start(Space.of(structure.a, shape=g.on.shape))).gradient
    cost = UnformedCost.of(left, right)
    total = gradient + (cost.dense() if is_formed(gradient) else cost)
    return g.argmin(total, accuracy=LOOSE * structure.size).point
