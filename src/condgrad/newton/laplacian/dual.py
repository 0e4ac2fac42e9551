"""The dual model of transport with entropy and Laplacian, for Newton on the certificate.

All that f sees of a plan G are its moments P = G Xt and Q = G' Xs. With U = 2 ws Ls P and V = 2 wt Lt Q the linearised
cost is C + U Xt' + Xs V', and with entropy e the dual function of (v, P, Q), row potentials eliminated, is

    L_ij = (v_j - C_ij - U_i.Xt_j - Xs_i.V_j)/e,   S_ij = a_i softmax_j(L_ij),   u_i = e (log a_i - log sum_j exp L_ij)
    D = -<P, U>/2 - <Q, V>/2 + <a, u> + <b, v>.

Coordinates are centred first, see `centred`, which adds a linear term to the cost. Newton directions come from
`hessian` and `preconditioner`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from condgrad.arrays import (
    Array,
    at_least,
    dot,
    double,
    largest_row_sum,
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

MANY_DIMENSIONS = 100
SLOW_SINKHORN = 2000.0
"""The range of the cost, in entropies, from which on Newton is ahead of Sinkhorn's iteration."""
STIFF = 10.0
"""The stiffness from which on Newton is ahead of CGS."""
STARVED = 1e-3
"""The share of its mass below which a column has lost touch with the plan."""


class EntropicLaplacian(EntropicPath):
    """The dual of <C, G> + Laplacian + entropy, on weights that are all positive."""

    def __init__(self, C: Array, a: Array, b: Array, entropy: float, laplacian: TransportLaplacian | None) -> None:
        super().__init__(C, a, b, entropy)
        self.given, self.log_a = laplacian, namespace(C).log(a)
        self._basis: Array | None = None
        self._last, self._factor = (math.nan, math.inf), 1.0

    @cached_property
    def _centred(self) -> tuple[TransportLaplacian | None, tuple[Array, Array], float]:
        return (
            (None, (self.C[:, :0], self.C.T[:, :0]), 0.0) if self.given is None else centred(self.given, self.a, self.b)
        )

    @property
    def laplacian(self) -> TransportLaplacian | None:
        """The regulariser of centred coordinates."""
        return self._centred[0]

    @property
    def linear(self) -> tuple[Array, Array]:
        """The linear cost left right' that centring leaves."""
        return self._centred[1]

    @property
    def constant(self) -> float:
        """The constant that centring leaves."""
        return self._centred[2]

    @cached_property
    def linear_size(self) -> float:
        """The size of the linear cost over all plans, whatever it cancels with."""
        xp, (left, right) = namespace(self.C), self.linear
        if self.given is None:
            return 0.0
        largest = xp.max(xp.abs(left), axis=0) * xp.max(xp.abs(right), axis=0)
        return self.polytope.mass * total(largest)

    @property
    def Xs(self) -> Array:
        return self.C[:, :0] if self.laplacian is None else self.laplacian.Xs

    @property
    def Xt(self) -> Array:
        return self.C.T[:, :0] if self.laplacian is None else self.laplacian.Xt

    @property
    def affordable(self) -> bool:
        """Where CGS is not ahead: where Sinkhorn's iteration is slow, or f is stiff against the entropy.

        In very many dimensions CGS is ahead again, unless the Laplacian is raw: a normalised one does not vanish on
        constants and is less stiff.
        """
        if self.height > SLOW_SINKHORN * self.entropy:
            return True
        if self.given is None or self.stiffness < STIFF:
            return False
        if self.given.Xs.shape[1] <= MANY_DIMENSIONS:
            return True
        source, target = self.given.source_weight, self.given.target_weight
        raw_source = source == 0.0 or _is_raw(self.given.Ls, self.a)
        return raw_source and (target == 0.0 or _is_raw(self.given.Lt, self.b))

    @property
    def stiffness(self) -> float:
        """A bound on the curvature of f over that of the entropy; CGS shrinks the error by s/(1 + s) an iteration.

        A row of the plan that changes by D moves its moment by no more than |D|_1 times the radius of the targets, and
        its entropy bends by at least |D|_1^2 / a_i (Pinsker's inequality). Columns likewise.
        """
        laplacian: Any = self.given
        xp = namespace(self.a)

        def term(weight: float, L: Any, X: Array, mass: Array) -> float:
            squares = xp.sum((X - xp.mean(X, axis=0)[None, :]) ** 2, axis=1)
            return 2.0 * weight * largest_row_sum(L) * float(xp.max(squares)) * float(xp.max(mass))

        source = term(laplacian.source_weight, laplacian.Ls, laplacian.Xt, self.a)
        return (source + term(laplacian.target_weight, laplacian.Lt, laplacian.Xs, self.b)) / self.entropy

    def gradient_in_P(self, P: Array) -> Array:
        return P if self.laplacian is None else self.laplacian.gradient_in_P(P)

    def gradient_in_Q(self, Q: Array) -> Array:
        return Q if self.laplacian is None else self.laplacian.gradient_in_Q(Q)

    def quadratic(self, P: Array, Q: Array) -> float:
        """The Laplacian at a plan with these moments."""
        return 0.5 * (dot(P, self.gradient_in_P(P)) + dot(Q, self.gradient_in_Q(Q)))

    def start(self, x: Array) -> Moments:
        """Moments of x, and the potential it would have as an optimal plan: x = exp((u + v - M)/entropy)."""
        self._basis, self._last, self._factor = None, (math.nan, math.inf), 1.0  # of a run before
        x = double(x)
        P, Q = x @ self.Xt, x.T @ self.Xs
        left, right = self._factors(P, Q)
        cost = self.C + left @ right.T
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
        """The cost linearised at z, less its potential, some rows at a time."""
        left, right = self._factors(z.P, z.Q)
        for rows in row_blocks(self.C):
            cost = left[rows] @ right.T
            cost += self.C[rows]
            cost -= z.v[None, :]
            yield rows, cost

    def _factors(self, P: Array, Q: Array) -> tuple[Array, Array]:
        """What the linearised regulariser adds to C, U Xt' + Xs V' and the linear terms, as left right'."""
        xp = namespace(self.C)
        left = xp.concat([self.gradient_in_P(P), self.Xs, self.linear[0]], axis=1)
        return left, xp.concat([self.Xt, self.gradient_in_Q(Q), self.linear[1]], axis=1)

    def evaluate(self, z: Moments, t: float) -> Plan:
        return Plan(self, z, t * self.entropy)

    def stage_gap(self, point: Plan) -> float:
        """f + t g - D_t at the rounded plan, from thin products alone: no plan is formed.

        Rounding scales columns down to b and adds a rank-one term r s'/|s|, see `Transport.rounded`. All of f at the
        sum follows from its moments; the logarithms of S from the potentials, log S_ij = (u_i + v_j - M_ij)/e. Adding q
        to an entry p adds no more than q (1 + log(p + q)) to p log p, and no entry is above the smaller of its weights.
        """
        xp, z, columns = namespace(point.S), point.z, point.columns
        kept = self.b / xp.maximum(columns, self.b)
        left, right = self.linear
        thin = point.times(kept[:, None] * xp.concat([xp.ones_like(self.b)[:, None], self.Xt, right], axis=1))
        d = self.Xt.shape[1]
        P, Q = thin[:, 1 : 1 + d], kept[:, None] * point.S_Xs
        short_a, short_b = at_least(0.0, self.a - thin[:, 0]), self.b - kept * columns
        missing = total(short_b)
        spread = short_b / (missing or 1.0)
        cost = dot(point.cost_by_column, kept) + dot(left, thin[:, 1 + d :])
        linearised = cost + dot(self.gradient_in_P(z.P), P) + dot(self.gradient_in_Q(z.Q), Q)
        logarithms = dot(thin[:, 0], point.u) + dot(kept * columns, z.v) - linearised
        logarithms += point.entropy * dot(kept * columns, xp.log(kept))
        if missing > 0.0:
            logarithms += point.entropy * missing * (1.0 + math.log(self.polytope.largest_entry or 1.0))
        cost += dot(short_a, self.C @ spread) + dot(short_a @ left, spread @ right)
        P, Q = P + short_a[:, None] * (spread @ self.Xt)[None, :], Q + spread[:, None] * (short_a @ self.Xs)[None, :]
        return cost + self.quadratic(P, Q) + self.constant + logarithms - point.dual

    def primal(self, point: Plan) -> Primal:
        plan = self.polytope.rounded(point.S)
        cost, simple = dot(self.C, plan), self.entropy * negentropy(plan)
        if self.given is None:
            return Primal(plan, Terms(cost, simple), abs(cost))
        given = self.given.at(plan)
        return Primal(plan, Terms(cost + given.value, simple), abs(cost) + given.magnitude(given))

    def ascent(self, point: Plan, gap: float, last_step: float) -> Ascent:
        columns = point.columns
        if bool(namespace(columns).any(columns < STARVED * self.b)):
            # a quadratic knows nothing of columns without mass; Sinkhorn's step, which is ascent too, brings it back
            dv = point.entropy * (namespace(columns).log(self.b) - log_or_least(columns))
            return Ascent(Moments(dv, 0.0 * point.z.P, 0.0 * point.z.Q), dot(self.b - columns, dv), 1)
        relative = max(gap, 0.0) / (point.entropy * self.polytope.mass)
        accuracy = self._caution(point.entropy, gap, last_step) * min(0.1, math.sqrt(relative))
        ascent, self._basis = newton_direction(Hessian(self, point), accuracy, self._basis)
        return ascent

    def _caution(self, entropy: float, gap: float, last_step: float) -> float:
        """A factor of the accuracy of directions, which falls where one that was followed to its end brought little.

        The residual of the equations is measured by their preconditioner, and that overrates directions in which P and
        Q go together: where such directions are what is left, a residual must be smaller to mean as much.
        """
        same_stage = entropy == self._last[0]
        if not same_stage:
            self._factor = 1.0
        elif last_step == 1.0 and gap > 0.3 * self._last[1]:
            self._factor = max(0.1 * self._factor, 1e-8)
        self._last = (entropy, gap)
        return self._factor


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
        self.dual = dot(model.a, self.u) + dot(model.b, z.v) - model.quadratic(z.P, z.Q) + model.constant
        potentials = dot(model.a, xp.abs(self.u)) + dot(model.b, xp.abs(z.v))
        self.magnitude = model.rounding_size + potentials + abs(model.constant) + model.linear_size
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

    @cached_property
    def cost_by_column(self) -> Array:
        """sum_i C_ij S_ij for each column j."""
        xp, result = namespace(self.S), 0.0
        for rows in row_blocks(self.S):
            result = result + xp.sum(self.model.C[rows] * self.S[rows], axis=0)
        return result


def centred(laplacian: TransportLaplacian, a: Array, b: Array) -> tuple[TransportLaplacian, tuple[Array, Array], float]:
    """The same regulariser of coordinates around their means, a linear cost left right' and a constant.

    With Xt = Yt + 1 m' and plans of row sums a, P = G Yt + a m'. So tr(P' L P) is that of G Yt, plus the linear
    2 <G, (L a)(Yt m)'>, plus |m|^2 a'La; for Q likewise. The means would only lengthen the moments, cost digits, and
    couple them with the potentials. In many dimensions the coordinates are turned to their principal axes as well,
    which changes neither term and lets variances stand for covariances.
    """
    Xs, Xt, mass = laplacian.Xs, laplacian.Xt, total(a)
    xp = namespace(Xs)
    mean_s, mean_t = (a @ Xs) / mass, (b @ Xt) / mass
    Ys, Yt = Xs - mean_s[None, :], Xt - mean_t[None, :]
    from_a, from_b = laplacian.gradient_in_P(a[:, None]), laplacian.gradient_in_Q(b[:, None])
    left = xp.concat([from_a, (Ys @ mean_s)[:, None]], axis=1)
    right = xp.concat([(Yt @ mean_t)[:, None], from_b], axis=1)
    constant = 0.5 * (dot(mean_t, mean_t) * dot(a[:, None], from_a) + dot(mean_s, mean_s) * dot(b[:, None], from_b))
    if Xs.shape[1] > FEW_DIMENSIONS:
        axes = xp.linalg.eigh(Ys.T @ Ys + Yt.T @ Yt)[1]
        Ys, Yt = Ys @ axes, Yt @ axes
    return laplacian.with_points(Ys, Yt), (left, right), constant


def _is_raw(L: Any, x: Array) -> bool:
    """Whether a Laplacian vanishes on constants."""
    xp = namespace(x)
    return float(xp.max(xp.abs(L @ xp.ones_like(x)))) <= 1e-9 * largest_row_sum(L)


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
