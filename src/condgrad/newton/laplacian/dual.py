"""The dual model of transport with entropy and Laplacian, for Newton on the certificate.

All that f sees of a plan G are its moments P = G Xt and Q = G' Xs. With U = 2 ws Ls P and V = 2 wt Lt Q the linearised
cost is C + U Xt' + Xs V', and with entropy e the dual function of (v, P, Q), row potentials eliminated, is

    L_ij = (v_j - C_ij - U_i.Xt_j - Xs_i.V_j)/e,   S_ij = a_i softmax_j(L_ij),   u_i = e (log a_i - log sum_j exp L_ij)
    D = -<P, U>/2 - <Q, V>/2 + <a, u> + <b, v>.

Newton directions come from `hessian` and `preconditioner`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from condgrad._arrays import (
    Array,
    dot,
    double,
    log_or_least,
    namespace,
    row_blocks,
    total,
)
from condgrad.certificate import Terms
from condgrad.newton.ascent import Ascent, DualModel, Primal
from condgrad.newton.entropic_path import EntropicPath, entropic_parts, fitted_potential
from condgrad.newton.laplacian.hessian import FEW_DIMENSIONS, Hessian
from condgrad.newton.laplacian.moments import Moments
from condgrad.newton.laplacian.preconditioner import newton_direction
from condgrad.problem import Simple, Smooth
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.simple.entropy import negentropy
from condgrad.smooth import TransportLaplacian
from condgrad.smooth.transport_laplacian import MomentEvaluation

STARVED = 1e-3
"""The share of its mass below which a column has lost touch with the plan."""


class EntropicLaplacian(EntropicPath):
    """The dual of <C, G> + Laplacian + entropy, on weights that are all positive."""

    def __init__(self, C: Array, a: Array, b: Array, entropy: float, laplacian: TransportLaplacian | None) -> None:
        super().__init__(C, a, b, entropy)
        empty = C[:, :0], C.T[:, :0]
        self.laplacian = None if laplacian is None else in_principal_axes(laplacian)
        self.Xs, self.Xt = empty if self.laplacian is None else (self.laplacian.Xs, self.laplacian.Xt)
        self.log_a = namespace(C).log(a)
        self._basis: Array | None = None

    @property
    def affordable(self) -> bool:
        return True

    def gradient_in_P(self, P: Array) -> Array:
        return P if self.laplacian is None else self.laplacian.gradient_in_P(P)

    def gradient_in_Q(self, Q: Array) -> Array:
        return Q if self.laplacian is None else self.laplacian.gradient_in_Q(Q)

    def quadratic(self, P: Array, Q: Array) -> float:
        """The Laplacian at a plan with these moments."""
        return 0.5 * (dot(P, self.gradient_in_P(P)) + dot(Q, self.gradient_in_Q(Q)))

    def start(self, x: Array) -> Moments:
        """Moments of x, and the potential it would have as an optimal plan: x = exp((u + v - M)/entropy)."""
        x = double(x)
        P, Q = x @ self.Xt, x.T @ self.Xs
        cost = self.C + self.gradient_in_P(P) @ self.Xt.T + self.Xs @ self.gradient_in_Q(Q).T
        cost += self.entropy * log_or_least(x)
        return Moments(fitted_potential(x, cost), P, Q)

    def moved(self, z: Moments, direction: Moments, step: float) -> Moments:
        v, P, Q = z.moved(step, direction)
        # a constant in v means nothing to the plan and drowns the digits of the dual
        return Moments(v - dot(self.b, v) / self.polytope.mass, P, Q)

    def spread(self, z: Moments) -> float:
        """The widest row of the cost linearised at z, less its potential: a stiff Laplacian outgrows the cost."""
        xp, widest = namespace(self.C), 0.0
        for _, cost in self.reduced_costs(z):
            widest = max(widest, float(xp.max(xp.max(cost, axis=1) - xp.min(cost, axis=1))))
        return widest

    def reduced_costs(self, z: Moments) -> Iterator[tuple[slice, Array]]:
        """The cost linearised at z, less its potential: C + U Xt' + Xs V' - v, some rows at a time."""
        xp, U, V = namespace(self.C), self.gradient_in_P(z.P), self.gradient_in_Q(z.Q)
        left, right = xp.concat([U, self.Xs], axis=1), xp.concat([self.Xt, V], axis=1).T
        for rows in row_blocks(self.C):
            cost = left[rows] @ right
            cost += self.C[rows]
            cost -= z.v[None, :]
            yield rows, cost

    def evaluate(self, z: Moments, t: float) -> Plan:
        return Plan(self, z, t * self.entropy)

    def stage_gap(self, point: Plan) -> float:
        """f + t g - D_t at the plan S itself, whose columns are not exact, plus a price for that.

        <S, log S> follows from the potentials: log S_ij = (u_i + v_j - M_ij)/e.
        """
        z, cost = point.z, point.cost
        smooth = cost + self.quadratic(point.S_Xt, point.S_Xs)
        linearised = cost + dot(self.gradient_in_P(z.P), point.S_Xt) + dot(self.gradient_in_Q(z.Q), point.S_Xs)
        negentropy_times_e = dot(self.a, point.u) + dot(point.columns, z.v) - linearised
        missing = total(namespace(point.columns).abs(point.columns - self.b))
        return abs(smooth + negentropy_times_e - point.dual) + point.entropy * missing

    def primal(self, point: Plan) -> Primal:
        plan = self.polytope.rounded(point.S)
        smooth = dot(self.C, plan) + self.quadratic(plan @ self.Xt, plan.T @ self.Xs)
        return Primal(plan, Terms(smooth, self.entropy * negentropy(plan)))

    def ascent(self, point: Plan, gap: float) -> Ascent:
        columns = point.columns
        if bool(namespace(columns).any(columns < STARVED * self.b)):
            # a quadratic knows nothing of columns without mass; Sinkhorn's step, which is ascent too, brings it back
            dv = point.entropy * (namespace(columns).log(self.b) - log_or_least(columns))
            return Ascent(Moments(dv, 0.0 * point.z.P, 0.0 * point.z.Q), dot(self.b - columns, dv), 1)
        relative = max(gap, 0.0) / (point.entropy * self.polytope.mass)
        accuracy = min(0.1, math.sqrt(relative))
        ascent, self._basis = newton_direction(Hessian(self, point), accuracy, self._basis)
        return ascent


class Plan:
    """The dual function at (v, P, Q) and the plan S it is attained by, whose rows are exact."""

    def __init__(self, model: EntropicLaplacian, z: Moments, entropy: float) -> None:
        xp = namespace(model.C)
        self.model, self.z, self.entropy = model, z, entropy
        self.S, self.u = xp.empty_like(model.C), xp.empty_like(model.a)
        for rows, cost in model.reduced_costs(z):
            cost /= -entropy
            self.S[rows], log_sums = normalised_rows(cost, model.a[rows])
            self.u[rows] = entropy * (model.log_a[rows] - log_sums)
        self.dual = dot(model.a, self.u) + dot(model.b, z.v) - model.quadratic(z.P, z.Q)
        self.magnitude = model.rounding_size + dot(model.a, xp.abs(self.u)) + dot(model.b, xp.abs(z.v))
        if model.laplacian is not None:
            moments = MomentEvaluation(model.laplacian, z.P, z.Q)
            # once for the quadratic, once for the cost that it is linearised to
            self.magnitude += 2.0 * moments.magnitude(moments)

    def times(self, R: Array) -> Array:
        """S R."""
        return self.S @ R

    def transposed_times(self, R: Array) -> Array:
        """S'R."""
        return self.S.T @ R

    @cached_property
    def S_Xt(self) -> Array:
        """S Xt."""
        return self.times(self.model.Xt)

    @cached_property
    def _column_sums_and_moments(self) -> Array:
        xp, a = namespace(self.S), self.model.a
        return self.transposed_times(xp.concat([xp.ones_like(a)[:, None], self.model.Xs], axis=1))

    @property
    def columns(self) -> Array:
        """The column sums of S."""
        return self._column_sums_and_moments[:, 0]

    @property
    def S_Xs(self) -> Array:
        """S' Xs."""
        return self._column_sums_and_moments[:, 1:]

    @property
    def cost(self) -> float:
        """<C, S>."""
        return dot(self.model.C, self.S)


def in_principal_axes(laplacian: TransportLaplacian) -> TransportLaplacian:
    """The same regulariser in turned coordinates, which only its moments see: all of it is unchanged by a rotation."""
    Xs, Xt = laplacian.Xs, laplacian.Xt
    if Xs.shape[1] <= FEW_DIMENSIONS:
        return laplacian
    xp = namespace(Xs)
    centred = [X - xp.mean(X, axis=0)[None, :] for X in (Xs, Xt)]
    axes = xp.linalg.eigh(centred[0].T @ centred[0] + centred[1].T @ centred[1])[1]
    return laplacian.with_points(Xs @ axes, Xt @ axes)


class Embedded:
    """The dual model of the points that carry weight, turned so that it has no more columns than rows."""

    def __init__(self, model: EntropicLaplacian, shape: tuple[int, int], rows: Array, columns: Array) -> None:
        self.model, self.shape, self.rows, self.columns = model, shape, rows, columns
        self.turned = len(rows) < len(columns)
        self.affordable = model.affordable
        self.farthest_stage, self.stage_tolerance = model.farthest_stage, model.stage_tolerance
        self.stage_gap = model.stage_gap
        self.evaluate, self.moved, self.ascent = model.evaluate, model.moved, model.ascent

    def start(self, x: Array) -> Moments:
        part = x[self.rows, :][:, self.columns]
        return self.model.start(part.T if self.turned else part)

    def primal(self, point: Plan) -> Primal:
        part = self.model.primal(point)
        plan = namespace(part.x).zeros(self.shape, dtype=part.x.dtype, device=part.x.device)
        plan[self.rows[:, None], self.columns[None, :]] = part.x.T if self.turned else part.x
        return part._replace(x=plan)


def recognise(f: Smooth, g: Simple) -> DualModel | None:
    """A model for linear costs plus at most one TransportLaplacian, under entropy on a polytope."""
    parts = entropic_parts(f, g)
    if parts is None or len(parts.regularizers) > 1:
        return None
    C, a, b, entropy, regularizers = parts
    laplacian: TransportLaplacian | None = None
    for weight, term in regularizers:
        if not isinstance(term, TransportLaplacian):
            return None
        laplacian = term.scaled(weight, C)
    xp = namespace(C)
    rows, columns = xp.nonzero(a > 0)[0], xp.nonzero(b > 0)[0]
    if len(rows) == len(a) >= len(columns) == len(b):
        return EntropicLaplacian(C, a, b, entropy, laplacian)
    part = laplacian.restricted(rows, columns) if laplacian is not None else None
    C_part, a_part, b_part = C[rows, :][:, columns], a[rows], b[columns]
    if len(rows) < len(columns):
        C_part, a_part, b_part, part = C_part.T, b_part, a_part, None if part is None else part.turned()
    model = EntropicLaplacian(C_part, a_part, b_part, entropy, part)
    return Embedded(model, tuple(C.shape), rows, columns)
