"""The dual model of transport with entropy and Laplacian, for Newton on the certificate.

All that f sees of a plan G are its moments P = G Xt and Q = G' Xs. With U = 2 ws Ls P and V = 2 wt Lt Q the linearised
cost is C + U Xt' + Xs V', and with entropy e the dual function of (v, P, Q), row potentials eliminated, is

    L_ij = (v_j - C_ij - U_i.Xt_j - Xs_i.V_j)/e,   S_ij = a_i softmax_j(L_ij),   u_i = e (log a_i - log sum_j exp L_ij)
    D = -<P, U>/2 - <Q, V>/2 + <a, u> + <b, v>.

A Newton direction eliminates v by a Cholesky factor of its block, diag(S'1) - S' diag(1/a) S, and runs conjugate
gradients on (P, Q) in the metric of the Laplacians. A product with the Hessian is a few thin matrix products with S:
whatever multiplies S_ij there is a sum of terms (something of i) times (something of j).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

from condgrad._arrays import (
    Array,
    at_least,
    cholesky,
    dot,
    double,
    like,
    log_or_least,
    namespace,
    row_blocks,
    smallest,
    solve_cholesky,
    total,
)
from condgrad.methods.newton import MODELS, Ascent, DualModel, Primal
from condgrad.problem import Simple, Smooth, Sum
from condgrad.sets import Transport
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.simple import Entropy
from condgrad.simple.entropy import negentropy
from condgrad.smooth import Linear, TransportLaplacian
from condgrad.smooth.transport_laplacian import MomentEvaluation


class Moments(NamedTuple):
    """A point (v, P, Q) of the dual, or a direction."""

    v: Array
    P: Array
    Q: Array


class EntropicLaplacian:
    """The dual of <C, G> + Laplacian + entropy, on weights that are all positive."""

    def __init__(self, C: Array, a: Array, b: Array, entropy: float, laplacian: TransportLaplacian | None) -> None:
        xp = namespace(C)
        self.C, self.a, self.b, self.entropy, self.laplacian = C, a, b, entropy, laplacian
        self.polytope = Transport(a, b)
        empty = C[:, :0], C.T[:, :0]
        self.Xs, self.Xt = empty if laplacian is None else (laplacian.Xs, laplacian.Xt)
        self.log_a, self.size = xp.log(a), C.shape[1]
        self.height = float(xp.max(C) - xp.min(C))
        # what S is multiplied with in every Hessian product
        self.Xt_pairs, self.Xs_pairs = _pairs(self.Xt, self.Xt), _pairs(self.Xs, self.Xs)

    def bent_P(self, P: Array) -> Array:
        return P if self.laplacian is None else self.laplacian.gradient_in_P(P)

    def bent_Q(self, Q: Array) -> Array:
        return Q if self.laplacian is None else self.laplacian.gradient_in_Q(Q)

    def start(self, x: Array) -> Moments:
        """Moments of x, and the potential it would have as an optimal plan: x = exp((u + v - M)/entropy)."""
        x = double(x)
        P, Q = x @ self.Xt, x.T @ self.Xs
        cost = self.C + self.bent_P(P) @ self.Xt.T + self.Xs @ self.bent_Q(Q).T
        cost += self.entropy * log_or_least(x)
        return Moments(fitted_potential(x, cost), P, Q)

    def first_stage(self, z: Moments, smooth: float, simple: float) -> float:
        """The smallest t at which the start is near the path; a far start enters where all starts are near."""
        farthest = max(1.0, 0.5 * self.height / self.entropy)
        t = 1.0
        while t < farthest and not smooth + t * simple - self.evaluate(z, t).dual <= 10.0 * self.stage_tolerance(t):
            t *= 4.0
        return min(t, farthest)

    def stage_tolerance(self, t: float) -> float:
        return 0.1 * t * self.entropy * self.polytope.mass

    def moved(self, z: Moments, direction: Moments, step: float) -> Moments:
        v, P, Q = (old + step * new for old, new in zip(z, direction, strict=True))
        # a constant in v means nothing to the plan and drowns the digits of the dual
        return Moments(v - dot(self.b, v) / self.polytope.mass, P, Q)

    def evaluate(self, z: Moments, t: float) -> Plan:
        return Plan(self, z, t * self.entropy)

    def primal(self, point: Plan) -> Primal:
        plan = self.polytope.rounded(point.S)
        P, Q = plan @ self.Xt, plan.T @ self.Xs
        quadratic = 0.5 * (dot(P, self.bent_P(P)) + dot(Q, self.bent_Q(Q)))
        return Primal(plan, dot(self.C, plan) + quadratic, self.entropy * negentropy(plan))

    def ascent(self, point: Plan, gap: float) -> Ascent:
        relative = max(gap, 0.0) / (point.entropy * self.polytope.mass)
        return NewtonSystem(self, point).solve(min(0.1, math.sqrt(relative)))


class Plan:
    """The dual function at (v, P, Q) and the plan S it is attained by, whose rows are exact."""

    def __init__(self, model: EntropicLaplacian, z: Moments, entropy: float) -> None:
        xp = namespace(model.C)
        self.z, self.entropy = z, entropy
        U, V = model.bent_P(z.P), model.bent_Q(z.Q)
        left, right = xp.concat([U, model.Xs], axis=1), xp.concat([model.Xt, V], axis=1).T
        self.S, u = xp.empty_like(model.C), xp.empty_like(model.a)
        for rows in row_blocks(model.C):
            exponent = left[rows] @ right
            exponent += model.C[rows]
            exponent -= z.v[None, :]
            exponent /= -entropy
            self.S[rows], log_sums = normalised_rows(exponent, model.a[rows])
            u[rows] = entropy * (model.log_a[rows] - log_sums)
        self.dual = dot(model.a, u) + dot(model.b, z.v) - 0.5 * (dot(z.P, U) + dot(z.Q, V))
        self.magnitude = dot(model.a, xp.abs(u)) + dot(model.b, xp.abs(z.v))
        if model.laplacian is not None:
            moments = MomentEvaluation(model.laplacian, z.P, z.Q)
            # once for the quadratic, once for the cost that it is linearised to
            self.magnitude += 2.0 * moments.magnitude(moments)


class NewtonSystem:
    """The Hessian at a plan, ready for products; conjugate gradients on the moments with v eliminated."""

    def __init__(self, model: EntropicLaplacian, point: Plan) -> None:
        self.model, self.S, self.entropy = model, point.S, point.entropy
        xp = namespace(point.S)
        self.columns = xp.sum(point.S, axis=0)
        self.S_Xt, self.S_Xs = point.S @ model.Xt, point.S.T @ model.Xs
        self.S_Xt_pairs, self.S_Xs_pairs = point.S @ model.Xt_pairs, point.S.T @ model.Xs_pairs
        self.residual = Moments(model.b - self.columns, self.S_Xt - point.z.P, self.S_Xs - point.z.Q)

    @cached_property
    def factor(self) -> Any:
        """The Cholesky factor of the v-block, its constant mode lifted off zero."""
        xp = namespace(self.S)
        # scaled in place and back: a copy would be as large as the plan
        root = xp.sqrt(self.model.a)[:, None]
        self.S /= root
        block = self.S.T @ self.S
        self.S *= root
        block *= -1.0
        diagonal = xp.arange(block.shape[0])
        block[diagonal, diagonal] += self.columns
        block += self.columns[:, None] * (self.columns / self.model.polytope.mass)[None, :]
        return cholesky(block, ridge=1e-14 * float(xp.max(self.columns)))

    def solve_v(self, r: Array) -> Array:
        return self.entropy * solve_cholesky(self.factor, r)

    def from_moments(self, dP: Array, dQ: Array) -> Moments:
        """The Hessian's product with (0, dP, dQ), the identity part left out."""
        model, S = self.model, self.S
        xp = namespace(S)
        d = dP.shape[1]
        dU, dV = model.bent_P(dP), model.bent_Q(dQ)
        forth = S @ xp.concat([dV, _pairs(dV, model.Xt)], axis=1)
        S_dV, S_dV_Xt = forth[:, :d], forth[:, d:]
        mean = -(xp.sum(dU * self.S_Xt, axis=1) + xp.sum(model.Xs * S_dV, axis=1)) / model.a
        P = -_contract(self.S_Xt_pairs, dU) - _contract(S_dV_Xt, model.Xs) - mean[:, None] * self.S_Xt
        back = S.T @ xp.concat([mean[:, None], mean[:, None] * model.Xs, dU, _pairs(dU, model.Xs)], axis=1)
        S_mean, S_mean_Xs = back[:, 0], back[:, 1 : 1 + d]
        S_dU, S_dU_Xs = back[:, 1 + d : 1 + 2 * d], back[:, 1 + 2 * d :]
        v = -xp.sum(model.Xt * S_dU, axis=1) - xp.sum(self.S_Xs * dV, axis=1) - S_mean
        Q = -_contract(S_dU_Xs, model.Xt) - _contract(self.S_Xs_pairs, dV) - S_mean_Xs
        return Moments(v / self.entropy, -P / self.entropy, -Q / self.entropy)

    def from_potential(self, dv: Array) -> tuple[Array, Array]:
        """The moment rows of the Hessian's product with (dv, 0, 0)."""
        model, S = self.model, self.S
        xp = namespace(S)
        forth = S @ xp.concat([dv[:, None], dv[:, None] * model.Xt], axis=1)
        mean = forth[:, 0] / model.a
        P = forth[:, 1:] - mean[:, None] * self.S_Xt
        Q = dv[:, None] * self.S_Xs - S.T @ (mean[:, None] * model.Xs)
        return -P / self.entropy, -Q / self.entropy

    def inner(self, first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
        """<first, second> in the metric of the Laplacians."""
        return dot(first[0], self.model.bent_P(second[0])) + dot(first[1], self.model.bent_Q(second[1]))

    def reduced(self, dP: Array, dQ: Array) -> tuple[tuple[Array, Array], Array]:
        """The product with the moments' Schur complement, and the v that goes with it."""
        straight = self.from_moments(dP, dQ)
        dv = -self.solve_v(straight.v)
        P, Q = self.from_potential(dv)
        return (dP + straight.P + P, dQ + straight.Q + Q), dv

    def solve(self, accuracy: float) -> Ascent:
        """Conjugate gradients until the residual has fallen by `accuracy`."""
        residual = self.residual
        v = self.solve_v(residual.v)
        x = (namespace(self.S).zeros_like(residual.P), namespace(self.S).zeros_like(residual.Q))
        iterations = 0
        if self.model.laplacian is not None:
            P, Q = self.from_potential(v)
            r = (residual.P - P, residual.Q - Q)
            p, size = r, self.inner(r, r)
            target = accuracy * accuracy * size
            while size > target and iterations < 500:
                iterations += 1
                (Ap, Aq), dv = self.reduced(*p)
                bend = self.inner(p, (Ap, Aq))
                if bend <= 0.0:
                    break
                alpha = size / bend
                x = (x[0] + alpha * p[0], x[1] + alpha * p[1])
                v = v + alpha * dv
                r = (r[0] - alpha * Ap, r[1] - alpha * Aq)
                before, size = size, self.inner(r, r)
                p = (r[0] + (size / before) * p[0], r[1] + (size / before) * p[1])
        direction = Moments(v, *x)
        slope = dot(residual.v, v) + self.inner((residual.P, residual.Q), x)
        return Ascent(direction, slope, 1 + iterations)


def fitted_potential(x: Array, R: Array) -> Array:
    """The v of the least-squares fit R_ij ~ u_i + v_j with weights x_ij, by conjugate gradients."""
    xp = namespace(x)
    columns = xp.sum(x, axis=0)
    inverse_rows, inverse_columns = (1.0 / at_least(smallest(x), sums) for sums in (xp.sum(x, axis=1), columns))
    weighted = x * R
    residual = xp.sum(weighted, axis=0) - x.T @ (inverse_rows * xp.sum(weighted, axis=1))
    v = xp.zeros_like(columns)
    p = inverse_columns * residual
    size = dot(p, residual)
    target = 1e-20 * size
    for _ in range(100):
        bent = columns * p - x.T @ (inverse_rows * (x @ p))
        bend = dot(p, bent)
        if not size > target or bend <= 0.0:
            break
        v = v + (size / bend) * p
        residual = residual - (size / bend) * bent
        before, size = size, dot(inverse_columns * residual, residual)
        p = inverse_columns * residual + (size / before) * p
    return v


def _pairs(left: Array, right: Array) -> Array:
    """All products left[:, k] * right[:, l], as columns."""
    return (left[:, :, None] * right[:, None, :]).reshape(left.shape[0], -1)


def _contract(pairs: Array, x: Array) -> Array:
    """sum_k pairs[:, (k, l)] x[:, k], for each l."""
    d = x.shape[1]
    return namespace(x).sum(pairs.reshape(x.shape[0], d, d) * x[:, :, None], axis=1)


class OnSupport:
    """The dual model of the points that carry weight, with plans given on all of them."""

    def __init__(self, model: EntropicLaplacian, shape: tuple[int, int], rows: Array, columns: Array) -> None:
        self.model, self.shape, self.rows, self.columns = model, shape, rows, columns
        self.size = model.size
        self.first_stage, self.stage_tolerance = model.first_stage, model.stage_tolerance
        self.evaluate, self.moved, self.ascent = model.evaluate, model.moved, model.ascent

    def start(self, x: Array) -> Moments:
        return self.model.start(x[self.rows, :][:, self.columns])

    def primal(self, point: Plan) -> Primal:
        part = self.model.primal(point)
        plan = namespace(part.x).zeros(self.shape, dtype=part.x.dtype, device=part.x.device)
        plan[self.rows[:, None], self.columns[None, :]] = part.x
        return part._replace(x=plan)


def recognise(f: Smooth, g: Simple) -> DualModel | None:
    """A model for linear costs plus at most one TransportLaplacian, under entropy on a polytope."""
    if not (isinstance(g, Entropy) and isinstance(g.on, Transport)) or g.on.mass == 0.0:
        return None
    weights, terms = (f.weights, f.terms) if isinstance(f, Sum) else ((1.0,), (f,))
    laplacians = [(w, t) for w, t in zip(weights, terms, strict=True) if isinstance(t, TransportLaplacian)]
    costs = [(w, t) for w, t in zip(weights, terms, strict=True) if isinstance(t, Linear)]
    if len(laplacians) > 1 or len(laplacians) + len(costs) < len(terms) or not costs:
        return None
    C = double(sum(w * t.C for w, t in costs))
    laplacian = laplacians[0][1].scaled(laplacians[0][0], C) if laplacians else None
    xp, a, b = namespace(C), like(g.on.a, C), like(g.on.b, C)
    b = b * (total(a) / total(b))  # exact masses, also where the weights came in float32
    rows, columns = xp.nonzero(a > 0)[0], xp.nonzero(b > 0)[0]
    if len(rows) == len(a) and len(columns) == len(b):
        return EntropicLaplacian(C, a, b, g.weight, laplacian)
    part = laplacian.restricted(rows, columns) if laplacian is not None else None
    model = EntropicLaplacian(C[rows, :][:, columns], a[rows], b[columns], g.weight, part)
    return OnSupport(model, tuple(C.shape), rows, columns)


MODELS.append(recognise)
