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
from condgrad.problem import Simple, Smooth, Sum
from condgrad.sets import Transport
from condgrad.sets.sinkhorn import finite_height
from condgrad.simple import Entropy
from condgrad.smooth import Linear, TransportCost
from condgrad.streamed_plan import UnformedCost

STAGE_TOLERANCE = 0.03
"""The gap at which a stage has done its work, in entropies; after one of 0.1 the next begins too
far off.
"""


class EntropicParts(NamedTuple):
    """A problem <C, G> + regularisers + entropy over plans from a to b."""

    C: Array | UnformedCost
    a: Array
    b: Array
    entropy: float
    regularizers: list[tuple[float, Smooth]]
    """Weights and terms of f beside the cost."""


def entropic_parts(f: Smooth, g: Simple) -> EntropicParts | None:
    """The parts in float64, if f has a linear cost and g is an entropy on a polytope of some mass."""
    if not (isinstance(g, Entropy) and isinstance(g.on, Transport)) or g.on.mass == 0.0:
        return None
    weighted = list(zip(f.weights, f.terms, strict=True)) if isinstance(f, Sum) else [(1.0, f)]
    costs = [(w, term.C) for w, term in weighted if isinstance(term, Linear | TransportCost)]
    if not costs:
        return None
    # the cost itself where it can be had: a copy is as large as the plan
    C = costs[0][1] if costs[0][0] == 1.0 else costs[0][0] * costs[0][1]
    for w, cost in costs[1:]:
        C = C + w * cost
    C = C if isinstance(C, UnformedCost) else double(C)
    of_its_kind = C.left if isinstance(C, UnformedCost) else C
    a = like(g.on.a, of_its_kind)
    b = like(g.on.b, of_its_kind)
    b = b * (total(a) / total(b))  # exact masses, also where the weights came in float32
    rest = [(w, term) for w, term in weighted if not isinstance(term, Linear | TransportCost)]
    return EntropicParts(C, a, b, g.weight, rest)


class EntropicPath(DualModel):
    """The path of t * entropy for positive weights a, b and costs between two bounds."""

    def __init__(
        self, a: Array, b: Array, entropy: float, *, lowest: float, highest: float
    ) -> None:
        self.a = a
        self.b = b
        self.entropy = entropy
        self.polytope = Transport(a, b)
        self.height = finite_height(lowest, highest)
        # the exponents of a dual point are sums of costs and potentials, its potentials are
        # logarithms of sums
        logarithms = entropy * (1.0 + math.log2(a.shape[0] * b.shape[0]))
        self.rounding_size = self.polytope.mass * (max(highest, -lowest) + logarithms)

    def farthest_stage(self, z: Any) -> float:
        """Where the entropy outweighs all costs, so that all plans are alike."""
        return 0.5 * self.spread(z) / self.entropy

    def spread(self, z: Any) -> float:
        """How far the costs linearised at z differ."""
        return self.height

    def stage_tolerance(self, t: float) -> float:
        return STAGE_TOLERANCE * t * self.entropy * self.polytope.mass


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
