"""What the dual models of entropic transport share: their parts, their path, the potential of a
plan.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from condgrad.arrays import (
    Array,
    at_least,
    dot,
    double,
    like,
    namespace,
    row_blocks,
    smallest,
    total,
)
from condgrad.newton.ascent import DualModel
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.sets import Transport
from condgrad.sets.sinkhorn import finite_height
from condgrad.streamed_plan import UnformedCost
from condgrad.structure import TransportStructure

STAGE_TOLERANCE = 0.03
"""A stage is finished once its gap is at most this many entropies per unit of mass. With 0.1, the
next stage would begin too far from the path.
"""


class EntropicParts(NamedTuple):
    """<C, G> + entropy over plans from a to b, in float64."""

    C: Array | UnformedCost
    a: Array
    b: Array
    entropy: float


def entropic_parts(problem: TransportStructure) -> EntropicParts | None:
    """The parts, if there is a cost and an entropy on a polytope of some mass."""
    on = problem.on
    if not problem.costs or problem.entropy == 0.0 or not isinstance(on, Transport):
        return None
    if on.mass == 0.0:
        return None
    C = double(problem.cost)
    a = like(on.a, C)
    b = like(on.b, C)
    b = b * (total(a) / total(b))  # exact masses, also where the weights came in float32
    return EntropicParts(C, a, b, problem.entropy)


class EntropyPath(DualModel):
    """The path of t * entropy, where a plan takes no more time than its dual point."""

    entropy: float
    height: float
    """How far the costs differ."""
    mass: float

    def farthest_stage(self, z: Any) -> float:
        """Where the entropy outweighs all costs, so that all plans are alike."""
        return 0.5 * self.height / self.entropy

    def stage_tolerance(self, t: float) -> float:
        return STAGE_TOLERANCE * t * self.entropy * self.mass

    def stage_gap(self, point: Any) -> float:
        """f + t g - D_t at the rounded plan."""
        terms = self.primal(point).terms
        return terms.f + (point.entropy / self.entropy) * terms.g - point.dual


class EntropicPath(EntropyPath):
    """That for positive weights a, b of the same mass and costs between two bounds."""

    def __init__(
        self, a: Array, b: Array, entropy: float, *, lowest: float, highest: float
    ) -> None:
        self.a = a
        self.b = b
        self.entropy = entropy
        self.polytope = Transport(a, b)
        self.mass = self.polytope.mass
        self.height = finite_height(lowest, highest)
        # the exponents of a dual point are sums of costs and potentials, its potentials are
        # logarithms of sums
        logarithms = entropy * (1.0 + math.log2(a.shape[0] * b.shape[0]))
        self.rounding_size = self.polytope.mass * (max(highest, -lowest) + logarithms)

    def farthest_stage(self, z: Any) -> float:
        return 0.5 * self.spread(z) / self.entropy

    def spread(self, z: Any) -> float:
        """How far the costs linearised at z differ."""
        return self.height


def lifted_overlap(S: Array, weights: Array, columns: Array, mass: float) -> Array:
    """columns columns'/mass - S' diag(1/weights) S, for a plan S of row sums `weights` and column
    sums `columns`.

    With diag(columns) added it is the curvature of an entropic dual in v, its constant mode lifted
    off zero.
    """
    # scaled in place and back: a copy would be as large as the plan
    root = namespace(S).sqrt(weights)[:, None]
    S /= root
    result = S.T @ S
    S *= root
    share = columns / mass
    for rows in row_blocks(result):
        result[rows] *= -1.0
        result[rows] += columns[rows][:, None] * share[None, :]
    return result


def fitted_potential(x: Array, R: Array) -> Array:
    """The v of the least-squares fit R_ij ~ u_i + v_j with weights x_ij, by conjugate gradients."""
    xp = namespace(x)
    columns = xp.sum(x, axis=0)
    inverse_rows, inverse_columns = (
        1.0 / at_least(smallest(x), sums) for sums in (xp.sum(x, axis=1), columns)
    )
    weighted = x * R
    residual = xp.sum(weighted, axis=0) - x.T @ (inverse_rows * xp.sum(weighted, axis=1))
    # the squares of costs in a far unit leave the range of floats
    largest = float(xp.max(xp.abs(residual))) or 1.0
    found = conjugate_gradients(
        lambda v: columns * v - x.T @ (inverse_rows * (x @ v)),
        residual / largest,
        inner=dot,
        accuracy=1e-10,
        max_iterations=100,
        precondition=lambda r: inverse_columns * r,
    )
    return largest * found.x
