"""The dual model of entropic barycentres, for Newton on the certificate.

Plans X_k of columns B_k share a marginal, X_k 1 = w_k p; see `sets.SharedMarginal` for the dual
function D of the row potentials u_k, which satisfy sum_k w_k u_k = 0. With R_k = X_k 1 its gradient
is -R_k, its curvature -(diag(R_k) - X_k diag(1/B_k) X_k')/e, a block for each measure. So a Newton
direction e d_k solves

    (diag(R_k) - X_k diag(1/B_k) X_k') d_k = w_k q - R_k,     sum_k w_k d_k = 0,

where q is the barycentre that the direction aims at. This takes a Schur complement of the size of
the support. A quadratic model is useless for rows that carry almost nothing, or very different mass
in the blocks. They take the step of iterated Bregman projections, which is ascent too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from condgrad.arrays import (
    Array,
    cholesky,
    dot,
    double,
    like,
    log_or_least,
    namespace,
    solve_cholesky,
    total,
)
from condgrad.certificate import Terms
from condgrad.newton.ascent import Ascent, AscentProgress, DualModel, Primal
from condgrad.newton.entropic_path import EntropyPath
from condgrad.rounding import LIFT
from condgrad.sets import SharedMarginal
from condgrad.sets.sinkhorn import height_of
from condgrad.simple.entropy import negentropy
from condgrad.structure import TransportStructure

LARGEST_SUPPORT = 1500
"""If the support has more points, "auto" does not take Newton's method: factors of this size would
take too long.
"""
SLOW_PROJECTIONS = 5e3
""""auto" takes Newton's method if the cost ranges over more entropies than this. Below, iterated
projections are faster.
"""
LIGHT = 1e-10
"""A point of the support with less than this share of the mean weight has no part in Newton's
equations. It moves as in the projections.
"""
CURVATURE_RIDGE = 1e-7
"""This is added to the scaled curvatures, whose largest entries are about 1. Parts of a plan that
hardly exchange mass have modes with almost no curvature. Their inverses, which are summed, would
drown all other modes in rounding. The marginals keep an error of about this size along these modes.
"""


class SharedPoint(NamedTuple):
    """The dual function at row potentials u, a column a block, and the plans it is attained by."""

    u: Array
    entropy: float
    X: Array
    """Plans whose columns are exact."""
    rows: Array
    """Row sums of the blocks, a column each."""
    dual: float
    magnitude: float

    @property
    def z(self) -> Array:
        return self.u


class EntropicBarycenter(EntropyPath):
    """The dual of <c, X> + entropy over plans that share a marginal, as a function of their row
    potentials.
    """

    def __init__(self, c: Array, on: SharedMarginal, entropy: float) -> None:
        xp = namespace(c)
        self.c = c
        self.on = on
        self.entropy = entropy
        self.B = like(on.columns, c)
        self.w = like(on.weights, c)
        self.share = self.w / xp.sum(self.w)
        self.height = height_of(c)
        self.mass = total(self.B)
        largest = max(float(xp.max(c)), -float(xp.min(c)))
        logarithms = entropy * (1.0 + math.log2(c.shape[0] * c.shape[1]))
        self.rounding_size = self.mass * (largest + logarithms)

    @property
    def affordable(self) -> bool:
        return self.on.n <= LARGEST_SUPPORT and self.height > SLOW_PROJECTIONS * self.entropy

    def start(self, x: Array) -> Array:
        return namespace(self.c).zeros(
            (self.on.n, len(self.on.blocks)), dtype=self.c.dtype, device=self.c.device
        )

    def moved(self, z: Array, direction: Array, step: float) -> Array:
        u = z + step * direction
        u = u - (u @ self.share)[:, None]  # sum_k w_k u_k = 0
        # constants in the blocks mean nothing to the plans and drown the digits of the dual
        middle = namespace(u).mean(u, axis=0)
        return u - (middle - middle @ self.share)[None, :]

    def evaluate(self, z: Array, t: float) -> SharedPoint:
        xp = namespace(z)
        e = t * self.entropy
        X, v = self.on.kernel(z, self.c, e)
        rows = self.on.block_sums(X)
        dual = dot(self.B, v) + self.on.mass * float(xp.min(z @ self.w))
        magnitude = self.rounding_size + dot(self.B, xp.abs(v)) + total(xp.abs(z) * rows)
        return SharedPoint(z, e, X, rows, dual, magnitude)

    def primal(self, point: SharedPoint) -> Primal:
        mean = namespace(point.rows).sum(point.rows, axis=1) / float(self.on.weights.sum())
        X = self.on.rounded(point.X, mean)
        cost = dot(self.c, X)
        return Primal(
            X, Terms(cost, self.entropy * negentropy(X)), dot(namespace(X).abs(self.c), X)
        )

    def ascent(self, point: SharedPoint, progress: AscentProgress) -> Ascent:
        xp = namespace(point.u)
        e = point.entropy
        per_weight = point.rows / self.w[None, :]
        mean = per_weight @ self.share
        logs = log_or_least(per_weight)
        direction = (logs @ self.share)[:, None] - logs  # of the projections
        heavy = (mean > LIGHT * self.on.mass / self.on.n) & (xp.min(per_weight, axis=1) > 0.0)
        heavy = xp.nonzero(heavy)[0]
        if len(heavy) > 1:
            direction[heavy, :] = self._newton(point, mean, heavy)
        direction = e * (direction - (direction @ self.share)[:, None])
        return Ascent(direction, -dot(point.rows, direction), 1)

    def _newton(self, point: SharedPoint, mean: Array, heavy: Array) -> Array:
        """The d_k on some rows, by factors of matrices scaled to have diagonals near 1."""
        xp = namespace(mean)
        root = xp.sqrt(mean[heavy])
        factors = []
        rests = []
        schur: Array = 0.0
        aim: Array = 0.0
        identity = xp.eye(len(heavy), dtype=root.dtype, device=root.device)
        for k, block in enumerate(self.on.blocks):
            loaded = xp.nonzero(self.B[block] > 0.0)[0]
            X = point.X[:, block][heavy, :][:, loaded] / root[:, None]
            R = point.rows[heavy, k] / root
            w = float(self.w[k])

            def curvature(X: Array = X, R: Array = R, B: Array = self.B[block][loaded]) -> Array:
                result = -(X @ (X / B[None, :]).T)
                # constants, which mean nothing, are lifted off zero
                result += R[:, None] * (R / dot(R, root))[None, :]
                places = xp.arange(len(R))
                result[places, places] += R / root
                return result

            factors.append(cholesky(curvature, ridge=CURVATURE_RIDGE))
            rests.append(R)
            inverse = solve_cholesky(factors[-1], identity)
            schur = schur + w * w * inverse
            aim = aim + w * (inverse @ R)
        symmetric = 0.5 * (schur + schur.T)
        largest = float(xp.max(xp.abs(symmetric)))
        factor = cholesky(lambda: xp.asarray(symmetric, copy=True), ridge=LIFT * largest)
        q = solve_cholesky(factor, aim)
        shift = solve_cholesky(factor, root)
        # what is free in sum_k w_k d_k is a constant: it settles the mass of q
        q = q - shift * ((dot(root, q) - dot(root, root)) / dot(root, shift))
        columns = [
            solve_cholesky(f, float(w) * q - R) / root
            for f, w, R in zip(factors, self.w, rests, strict=True)
        ]
        return xp.stack(columns, axis=1)


def model_of(problem: TransportStructure) -> DualModel | None:
    """A model for linear costs under entropy on plans that share a marginal."""
    on = problem.on
    if not isinstance(on, SharedMarginal) or problem.entropy == 0.0:
        return None
    if not problem.costs or not problem.is_plain:
        return None
    return EntropicBarycenter(double(problem.cost), on, problem.entropy)
