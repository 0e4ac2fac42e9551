"""The dual model of transport with entropy and class group lasso, for Newton on the certificate.

The lasso w |G_cj| of class c in column j is the largest <w Y_cj, G_cj> over |Y_cj| <= 1. So for any
such Y and any row potentials u, the column potentials v being eliminated,

    L_ij = (u_i - C_ij - w Y_ij)/e,   S_ij = b_j softmax_i(L_ij),   v_j = e (log b_j - log sum_i exp L_ij)
    D = <a, u> + <b, v>

is a lower bound on F*. The best Y for a given u is S_cj/|S_cj|. It does not depend on v, and each
group finds its own; see `group_duals`. With it the plan moves, a group at a time, by dS = (diag(d)
+ p p') du + S dv/e, where

    d = S/(e + w Y),   p = sqrt(w r/q) Y^2/(e + w Y),   r = |S_cj|,   q = e sum Y^2/(e + w Y).

Eliminating dv as well, a Newton direction solves (diag(sum_j d) + P P' - S diag(1/b) S'/e) du = a -
S 1, where P P' has a block for each class.
"""

from __future__ import annotations

import math

import numpy as np

from condgrad.arrays import (
    Array,
    at_least,
    cholesky,
    dot,
    double,
    host,
    log_or_least,
    log_sum_exp,
    namespace,
    row_blocks,
    smallest,
    solve_cholesky,
    total,
)
from condgrad.certificate import Terms
from condgrad.newton.ascent import Ascent, AscentProgress, DualModel, Primal
from condgrad.newton.entropic_path import (
    EntropicPath,
    entropic_parts,
    fitted_potential,
    lifted_overlap,
)
from condgrad.rounding import LIFT
from condgrad.simple.entropy import negentropy
from condgrad.smooth import TransportGroupLasso
from condgrad.structure import TransportStructure

FLOOR = -200.0
"""Smaller exponents are raised to this. Their exponentials add nothing to a group, but most
processors take ten times as long for them, and their squares may underflow.
"""


class EntropicGroups(EntropicPath):
    """The dual of <C, G> + group lasso + entropy, as a function of u.

    It holds the points with weight. The rows are sorted by class, so that a class is a slice. Plans
    go in and out with all points, in the user's order.
    """

    def __init__(
        self,
        C: Array,
        a: Array,
        b: Array,
        entropy: float,
        labels: TransportGroupLasso,
        weight: float,
    ) -> None:
        xp = namespace(C)
        self.shape = tuple(C.shape)
        self.weight = weight
        loaded = host(a) > 0
        classes = [rows[loaded[rows]] for rows in labels.rows]
        ends = np.cumsum([len(rows) for rows in classes]).tolist()
        self.classes = [
            slice(end - len(rows), end)
            for rows, end in zip(classes, ends, strict=True)
            if len(rows)
        ]
        self.rows = xp.asarray(np.concatenate(classes), device=C.device)
        self.columns = xp.nonzero(b > 0)[0]
        self.C = self._loaded(C)
        lowest = float(xp.min(self.C))
        highest = float(xp.max(self.C))
        super().__init__(a[self.rows], b[self.columns], entropy, lowest=lowest, highest=highest)
        self.size, self.log_b = len(self.a), xp.log(self.b)

    def _loaded(self, x: Array) -> Array:
        return x[self.rows, :][:, self.columns]

    @property
    def affordable(self) -> bool:
        """Each direction takes a factorisation. If the entropy is large, CGS is faster."""
        return self.size <= (3000 if self.height > 150.0 * self.entropy else 300)

    def start(self, x: Array) -> Array:
        """The potential x would have as an optimal plan: x = exp((u + v - C - w Y)/entropy), Y =
        x/|x| by groups.
        """
        x = self._loaded(double(x))
        cost = self.C + self.entropy * log_or_least(x)
        for rows in self.classes:
            cost[rows] += self.weight * unit_columns(x[rows])[0]
        return fitted_potential(x.T, cost.T)

    def moved(self, z: Array, direction: Array, step: float) -> Array:
        u = z + step * direction
        # a constant in u means nothing to the plan and drowns the digits of the dual
        return u - dot(self.a, u) / self.polytope.mass

    def evaluate(self, z: Array, t: float) -> GroupedPlan:
        return GroupedPlan(self, z, t * self.entropy)

    def primal(self, point: GroupedPlan) -> Primal:
        plan = self.polytope.rounded(point.S)
        norms = sum(total(column_norms(plan[rows])) for rows in self.classes)
        smooth = dot(self.C, plan) + self.weight * norms
        simple = self.entropy * negentropy(plan)
        whole = namespace(plan).zeros(self.shape, dtype=plan.dtype, device=plan.device)
        whole[self.rows[:, None], self.columns[None, :]] = plan
        return Primal(whole, Terms(smooth, simple), smooth)

    def ascent(self, point: GroupedPlan, progress: AscentProgress) -> Ascent:
        """The Newton direction, by a Cholesky factor."""
        xp = namespace(point.S)
        sums = xp.sum(point.S, axis=1)
        residual = self.a - sums
        factor = cholesky(lambda: self._curvature(point, sums), ridge=LIFT * float(xp.max(sums)))
        direction = point.entropy * solve_cholesky(factor, residual)
        return Ascent(direction, dot(residual, direction), 1)

    def _curvature(self, point: GroupedPlan, sums: Array) -> Array:
        """Minus the Hessian times the entropy, its constant mode lifted off zero."""
        S = point.S
        ratio = self.weight / point.entropy
        xp = namespace(S)
        result = lifted_overlap(S.T, self.b, sums, self.polytope.mass)
        diagonal = xp.empty_like(self.a)
        for rows in self.classes:
            P, norms = unit_columns(S[rows])
            slack = 1.0 + ratio * P
            diagonal[rows] = xp.sum(S[rows] / slack, axis=1)
            P *= P
            P /= slack
            q = xp.sum(P, axis=0)
            P *= xp.sqrt(ratio * norms / at_least(smallest(q), q))[None, :]
            result[rows, rows] += P @ P.T
        places = xp.arange(self.size)
        result[places, places] += diagonal
        return result


class GroupedPlan:
    """The dual function at u and the plan S it is attained by, whose columns are exact."""

    def __init__(self, model: EntropicGroups, u: Array, entropy: float) -> None:
        xp = namespace(u)
        self.z = u
        self.entropy = entropy
        self.S = xp.empty_like(model.C)
        ratio = model.weight / entropy
        scales = xp.empty((len(model.classes), len(model.b)), dtype=u.dtype, device=u.device)
        sums = xp.empty_like(scales)
        for c, rows in enumerate(model.classes):
            for columns in row_blocks(model.C[rows].T):
                x = u[rows][:, None] - model.C[rows, columns]
                x /= entropy
                Y, scale = group_duals(x, ratio)
                # where the norm is above 1, if only by rounding, Y proves nothing
                Y *= (ratio / at_least(1.0, column_norms(Y)))[None, :]
                x -= Y
                x -= scale[None, :]
                # a logarithm of what is at most 1, unless rounding is larger than that
                excess = at_least(0.0, xp.max(x, axis=0))
                x -= excess[None, :]
                scale = scale + excess
                S = xp.exp(at_least(FLOOR, x), out=Y)
                self.S[rows, columns] = S
                scales[c, columns] = scale
                sums[c, columns] = xp.sum(S, axis=0)
        logs = scales + log_or_least(sums)
        log_sums = log_sum_exp(logs, axis=0)
        norms = xp.exp(scales - log_sums[None, :]) * model.b[None, :]
        for c, rows in enumerate(model.classes):
            self.S[rows] *= norms[c][None, :]
        v = entropy * (model.log_b - log_sums)
        self.dual = dot(model.a, u) + dot(model.b, v)
        potentials = dot(model.a, xp.abs(u)) + dot(model.b, xp.abs(v))
        self.magnitude = model.rounding_size + potentials + model.weight * total(norms)


def column_norms(x: Array) -> Array:
    xp = namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=0))


def unit_columns(x: Array) -> tuple[Array, Array]:
    """The columns of x scaled to norm 1, and their norms; columns that vanish in a square stay near
    0.
    """
    norms = column_norms(x)
    return x / at_least(math.sqrt(smallest(x)), norms)[None, :], norms


def group_duals(x: Array, ratio: float, passes: int = 40) -> tuple[Array, Array]:
    """For each column of x the y of norm 1 and the s with log y_i + ratio y_i + s = x_i, nearly.

    Newton's method on log p, p = ratio y, and s at once: log p_i + p_i = rest_i = x_i + log ratio -
    s and log |p| = log ratio. The largest y lies between 1/sqrt(n) and 1, which brackets s.
    """
    # squares of what is less would vanish
    xp = namespace(x)
    ratio = max(ratio, 1e-60)
    n = x.shape[0]
    top = xp.max(x, axis=0)
    low = top - ratio
    high = top + 0.5 * math.log(n) - ratio / math.sqrt(n)
    floor = xp.full_like(top, FLOOR)
    enough = 1e-5 + 1e-14 * (ratio + float(xp.max(xp.abs(top))))
    # all that has the shape of x is allocated once: the passes are bound by memory
    rest, log_p, p, slack, residual, work = xp.empty((6, *x.shape), dtype=x.dtype, device=x.device)
    s = high
    rest[...] = x
    rest += (math.log(ratio) - s)[None, :]
    _log_bound(rest, out=log_p)
    while True:
        passes -= 1
        xp.exp(xp.maximum(log_p, floor, out=p), out=p)
        xp.subtract(rest, log_p, out=residual)
        residual -= p
        slack[...] = p
        slack += 1.0
        xp.multiply(p, p, out=work)
        squares = xp.sum(work, axis=0)
        work /= slack
        slopes = xp.sum(work, axis=0)
        work *= residual
        step = (squares * (0.5 * xp.log(squares) - math.log(ratio)) + xp.sum(work, axis=0)) / slopes
        before = s
        s = xp.minimum(xp.maximum(s + step, low), high)
        step = s - before
        residual -= step[None, :]
        error = max(float(xp.max(residual)), -float(xp.min(residual)))
        residual /= slack
        if error <= enough or passes == 0:
            residual += 1.0
            p *= residual
            p /= ratio
            return p, s
        log_p += residual
        rest -= step[None, :]
        # where s falls much, a linear step runs too far
        if float(xp.min(step)) < -1.0:
            xp.minimum(log_p, _log_bound(rest, out=work), out=log_p)


def _log_bound(z: Array, *, out: Array) -> Array:
    """min(z, log max(z, 1)), which is no less than the log p of log p + p = z."""
    xp = namespace(z)
    xp.log(xp.maximum(z, xp.ones_like(z[0]), out=out), out=out)
    return xp.minimum(z, out, out=out)


def model_of(problem: TransportStructure) -> DualModel | None:
    """A model for linear costs plus one TransportGroupLasso, under entropy on a polytope."""
    parts = entropic_parts(problem)
    if parts is None or problem.laplacians or problem.others or len(problem.groups) != 1:
        return None
    weight, lasso = problem.groups[0]
    lasso.at(parts.C)  # refuses labels of another length
    return EntropicGroups(parts.C, parts.a, parts.b, parts.entropy, lasso, weight * lasso.weight)
