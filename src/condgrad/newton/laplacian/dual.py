"""The dual model of transport with entropy and Laplacian, for Newton on the certificate.

All that f sees of a plan G are its cost and its moments P = G Xt and Q = G' Xs. With U = 2 ws Ls P
and V = 2 wt Lt Q the linearised cost is C + U Xt' + Xs V'. With entropy e the dual function of (v,
P, Q), row potentials eliminated, is

    L_ij = (v_j - C_ij - U_i.Xt_j - Xs_i.V_j)/e,   S_ij = a_i softmax_j(L_ij),   u_i = e (log a_i - log sum_j exp L_ij)
    D = -<P, U>/2 - <Q, V>/2 + <a, u> + <b, v>.

Coordinates are centred first, see `CentredLaplacian`, which adds terms linear in P and Q. The plan
is an array or is streamed, see `plans`. Newton directions come from `hessian` and `preconditioner`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from condgrad import passes
from condgrad.arrays import (
    Array,
    at_least,
    block_diagonal,
    diagonal_of,
    dot,
    double,
    is_formed,
    largest_row_sum,
    log_or_least,
    namespace,
    on_device,
    product,
    total,
    zeros,
)
from condgrad.certificate import Terms
from condgrad.kernels.streamed import compact_order
from condgrad.newton.ascent import Ascent, AscentProgress, DualModel, Primal
from condgrad.newton.entropic_path import EntropicPath, entropic_parts, fitted_potential
from condgrad.newton.laplacian.centred import CentredLaplacian, rotated
from condgrad.newton.laplacian.hessian import Hessian, second_moments
from condgrad.newton.laplacian.moments import DualVariables, DualVector
from condgrad.newton.laplacian.plans import (
    Cost,
    DenseCost,
    Plan,
    Rounding,
    StreamedCost,
    emptied,
    folded,
)
from condgrad.newton.laplacian.preconditioner import MOST_ITERATIONS, SMALL_PLAN, Inverses, solved
from condgrad.newton.laplacian.whole import MetricRoot, fits_whole, whole_direction
from condgrad.problem.smooth import SumEvaluation
from condgrad.rounding import LIFT
from condgrad.simple import Entropy
from condgrad.smooth import TransportLaplacian
from condgrad.smooth.transport_cost import TransportCostEvaluation
from condgrad.smooth.transport_laplacian import is_raw
from condgrad.streamed_plan import Linearisation, StreamedPlan, UnformedCost
from condgrad.structure import TransportStructure

SLOW_SINKHORN = 350.0
"""Without a Laplacian, "auto" takes Newton's method if the cost ranges over more entropies than
this. Below, Sinkhorn's iteration is faster.
"""
SLOW_SINKHORN_OF_FEW = 30.0
"""The same for at most `SMALL_PLAN` columns, where a factor solves Newton's equations."""
SLOW_CGS = 1000.0
"""If the cost ranges over more entropies than this, "auto" takes Newton's method for every
Laplacian. Below, with a weak Laplacian in 64 to 150 dimensions, Newton's method takes 3 to 17 times
as long as CGS.
"""
STIFF = 10.0
"""If the stiffness of the Laplacian is below this, "auto" takes CGS. For a normalised Laplacian,
this limit grows like dimension^1.5 in more than two dimensions.
"""
INEXACT = 0.1
"""A Newton direction is exact enough if its relative residual is at most this. With a third of it,
`python -m experiments bench geometry` takes a tenth more passes.
"""
FINEST_RESIDUAL = 0.3
"""No smaller residual is asked for if it would leave less than this share of the requested gap."""
MOST_STEPS_BESIDE_WHOLE = 40
"""After this many steps of conjugate gradients, the whole system is factored instead, if it is
small enough: a factor takes about as long as these steps.
"""
SHORT_STEP = 0.3
"""If the last step was shorter than this part of its Newton direction, the direction was useless.
Then the whole system is factored, if it is small enough.
"""
ENTRY_ERROR = 0.7
"""A start from elsewhere does not enter the path at a stage where its column sums are wrong by more
than this share of the mass.
"""
STARVED, OVERFULL = 1e-3, 3.0
"""If a column has less than the first share of its mass, a Sinkhorn step is taken instead of a
Newton step. With a Laplacian, the same is done if a column has more than the second share.
"""
ROUGH_GAP, ROUGH_COLUMNS = 1e-3, 1e-4
"""As long as the column sums are off by more than the first share of the mass, they may have a
relative error of the second number. So products may have a lower precision. The bound on this error
is seldom attained.
"""
FARTHEST_POTENTIAL = 1e7
"""A step that moves a potential by more entropies than this is shortened to it. Otherwise the
search would halve it too often.
"""
MOVING = 10.0
"""The estimate of a gap counts this many entropies for each unit of mass that rounding has to move.
"""
LEAST_SUM = 1e-290
"""If a column sum is smaller, some of its entries have underflowed, and its logarithm is computed
in another way.
"""


class Support(NamedTuple):
    """The points that carry weight, transposed so that there are no more columns than rows."""

    shape: tuple[int, int]
    rows: Array
    columns: Array

    @property
    def turned(self) -> bool:
        return len(self.rows) < len(self.columns)

    def part(self, x: Any) -> Any:
        """The part of a plan that carries weight."""
        part = (
            x.at(self.rows, self.columns) if not is_formed(x) else x[self.rows, :][:, self.columns]
        )
        return part.T if self.turned else part

    def whole(self, part: Any) -> Any:
        """The plan that such a part is of."""
        part = part.T if self.turned else part
        if not is_formed(part):
            return part.embedded(self.rows, self.columns, *self.shape)
        plan = namespace(part).zeros(self.shape, dtype=part.dtype, device=part.device)
        plan[self.rows[:, None], self.columns[None, :]] = part
        return plan


class Learnt(NamedTuple):
    """What the directions of a run leave to the next one."""

    inverses: Inverses = Inverses()
    entropy: float = math.nan
    """Of the last Newton direction."""
    residual: float = math.inf
    """The size of the residual there."""
    fitted: bool = False
    """Whether the last step fitted the columns alone."""
    hard: bool = False
    """Whether conjugate gradients have led nowhere, so that the whole system is factored."""


class EntropicLaplacian(EntropicPath):
    """The dual of <C, G> + Laplacian + entropy, on weights that are all positive."""

    def __init__(
        self,
        C: Array | UnformedCost,
        a: Array,
        b: Array,
        entropy: float,
        laplacian: TransportLaplacian | None,
        support: Support | None = None,
    ) -> None:
        self.given = laplacian
        self.given_cost = C
        self.support = support
        self.row_cost: Array | float = 0.0
        self.column_cost: Array | float = 0.0
        self.constant = 0.0
        self.cost_in_P: Array | None = None
        core: UnformedCost | None = None
        if isinstance(C, UnformedCost):
            core = C.centred(a, b)
            self.row_cost = core.row
            self.column_cost = core.column
            self.constant = dot(a, core.row) + dot(b, core.column)
            core = replace(core, row=0.0 * core.row, column=0.0 * core.column)
        cost: Cost = DenseCost(C) if core is None else StreamedCost(core)
        super().__init__(a, b, entropy, lowest=cost.bounds[0], highest=cost.bounds[1])
        self.centred = None if laplacian is None else CentredLaplacian.of(laplacian, a, b)
        self.Xs = zeros(a, a.shape[0], 0)
        self.Xt = zeros(a, b.shape[0], 0)
        self.U = self.Xs
        self.V = self.Xt
        if self.centred is not None:
            self.Xs = self.centred.quadratic.Xs
            self.Xt = self.centred.quadratic.Xt
            self.U = self.centred.U
            self.V = self.centred.V
            self.constant += self.centred.constant
            if core is not None and laplacian is not None:
                in_P = folded(core, laplacian.Xt - self.centred.mean_t[None, :])
                if in_P is not None:  # a cost that is linear in P needs no factors of its own
                    self.cost_in_P = rotated(in_P[0], self.centred.axes_t)
                    self.U = self.U + self.cost_in_P
                    self.row_cost = self.row_cost + in_P[1]
                    self.constant += dot(a, in_P[1])
                    cost = StreamedCost(emptied(core))
        self.cost = cost

    def _without_kernels(self, x: DualVector) -> DualVector:
        """x less what no Laplacian sees of its moments: conjugate gradients let that drift, and it
        costs digits.
        """
        (in_P, in_Q), (v, P, Q) = self._kernels, x
        return DualVector(v, P - in_P @ (in_P.T @ P), Q - in_Q @ (in_Q.T @ Q))

    @cached_property
    def _kernels(self) -> tuple[Array, Array]:
        """Orthonormal vectors on which the Laplacians of sources and targets vanish."""
        if self.laplacian is None:
            return zeros(self.a, self.a.shape[0], 0), zeros(self.b, self.b.shape[0], 0)
        return self.laplacian.kernels

    @cached_property
    def metric_roots(self) -> tuple[MetricRoot, MetricRoot]:
        """Factors of the metrics of P and Q, arrays of n x n and m x m."""
        return MetricRoot.of(self.gradient_in_P, self.a), MetricRoot.of(self.gradient_in_Q, self.b)

    @cached_property
    def whole_fits(self) -> bool:
        """Whether the whole Newton system may be formed and factored."""
        return fits_whole(*self.cost.shape, self.Xs.shape[1])

    @cached_property
    def target_columns(self) -> Array:
        """What plans are multiplied with at every point: a sweep over a plan costs more than its
        columns.
        """
        return namespace(self.Xt).concat([self.Xt, second_moments(self.Xt)], axis=1)

    @cached_property
    def source_columns(self) -> Array:
        """What transposed plans are multiplied with: 1 for the column sums, and as for targets."""
        xp = namespace(self.Xs)
        return xp.concat([xp.ones_like(self.a)[:, None], self.Xs, second_moments(self.Xs)], axis=1)

    @property
    def laplacian(self) -> TransportLaplacian | None:
        """The regulariser of centred coordinates, without its linear terms."""
        return None if self.centred is None else self.centred.quadratic

    @cached_property
    def constant_size(self) -> float:
        """The size of the terms of the constant before they cancel."""
        size = abs(self.constant)
        if isinstance(self.given_cost, UnformedCost):
            xp = namespace(self.a)
            size += dot(self.a, xp.abs(self.row_cost)) + dot(self.b, xp.abs(self.column_cost))
        return size

    @cached_property
    def largest_moments(self) -> tuple[Array, Array]:
        """P and Q that those of no plan exceed."""
        xp = namespace(self.a)
        largest_t, largest_s = (xp.max(xp.abs(X), axis=0)[None, :] for X in (self.Xt, self.Xs))
        return self.a[:, None] * largest_t, self.b[:, None] * largest_s

    @cached_property
    def linear_size(self) -> float:
        """The size of the terms linear in P and Q over all plans, whatever they cancel with."""
        xp = namespace(self.a)
        if self.given is None or 0 in self.Xs.shape:
            return 0.0
        in_P = xp.max(xp.abs(self.U), axis=0) * xp.max(xp.abs(self.Xt), axis=0)
        in_Q = xp.max(xp.abs(self.V), axis=0) * xp.max(xp.abs(self.Xs), axis=0)
        return self.polytope.mass * (total(in_P) + total(in_Q))

    @property
    def affordable(self) -> bool:
        """Whether CGS is likely slower: Sinkhorn's iteration is slow, or f is stiff against the
        entropy.

        With more axes, a product with the Hessian costs more, and more products are needed, because
        variances say less about covariances. CGS takes hardly longer. So with more axes a
        normalised Laplacian must be stiffer. A raw one, which is 0 on constants, need not be. If
        there are fewer axes than dimensions, only CGS pays for all dimensions.

        From a measure to itself, Sinkhorn's iteration is never slow. There a Laplacian must be
        stiff against the cost. In 27 such problems with 200 points, CGS takes a seventh to two
        thirds of Newton's time with softer ones, and with stiffer ones longer in all cases but one.
        """
        if self.given is None:
            few = self.b.shape[0] <= SMALL_PLAN
            slow = SLOW_SINKHORN_OF_FEW if few else SLOW_SINKHORN
            return self.height > slow * self.entropy
        if self._to_itself and self.stiffness * self.entropy < self.height:
            return False
        if self.height > SLOW_CGS * self.entropy:
            return True
        if self.stiffness < STIFF:
            return False
        source = self.given.source_weight
        target = self.given.target_weight
        raw_source = source == 0.0 or is_raw(self.given.Ls, self.a)
        if raw_source and (target == 0.0 or is_raw(self.given.Lt, self.b)):
            return True
        axes = self.Xs.shape[1]
        dimensions = max(self.given.Xs.shape[1], self.given.Xt.shape[1])
        needed = STIFF * max(1.0, 0.5 * axes) ** 1.5 * min(1.0, axes / dimensions) ** 2
        return self.stiffness >= needed

    @property
    def _to_itself(self) -> bool:
        """Whether sources and targets of the Laplacian are the same points with the same weights."""
        laplacian: Any = self.given
        alike = namespace(self.a).all
        return (
            laplacian.Xs.shape == laplacian.Xt.shape
            and bool(alike(laplacian.Xs == laplacian.Xt))
            and bool(alike(self.a == self.b))
        )

    @property
    def stiffness(self) -> float:
        """A bound on the curvature of f over that of the entropy; CGS shrinks the error by s/(1 +
        s) an iteration.

        A row of the plan that changes by D moves its moment by no more than |D|_1 times the radius
        of the targets, and its entropy bends by at least |D|_1^2 / a_i (Pinsker's inequality).
        Columns likewise.
        """
        laplacian: Any = self.given
        xp = namespace(self.a)

        def term(weight: float, L: Any, X: Array, mass: Array) -> float:
            squares = xp.sum((X - xp.mean(X, axis=0)[None, :]) ** 2, axis=1)
            return 2.0 * weight * largest_row_sum(L) * float(xp.max(squares)) * float(xp.max(mass))

        source = term(laplacian.source_weight, laplacian.Ls, laplacian.Xt, self.a)
        return (
            source + term(laplacian.target_weight, laplacian.Lt, laplacian.Xs, self.b)
        ) / self.entropy

    def gradient_in_P(self, P: Array) -> Array:
        return P if self.laplacian is None else self.laplacian.gradient_in_P(P)

    def gradient_in_Q(self, Q: Array) -> Array:
        return Q if self.laplacian is None else self.laplacian.gradient_in_Q(Q)

    @cached_property
    def metric(self) -> Callable[[Array], Array]:
        """gradient_in_P and gradient_in_Q at once, for P with Q below it."""
        laplacian = self.laplacian
        n = self.a.shape[0]
        if laplacian is None:
            return lambda both: both
        weighted = [
            (laplacian.source_weight, laplacian.Ls),
            (laplacian.target_weight, laplacian.Lt),
        ]
        whole = block_diagonal([(2.0 * weight) * L for weight, L in weighted])
        if whole is not None:
            return lambda both: product(whole, both)
        concat = namespace(self.a).concat
        return lambda both: concat(
            [self.gradient_in_P(both[:n]), self.gradient_in_Q(both[n:])], axis=0
        )

    @cached_property
    def metric_diagonal(self) -> Array:
        """The diagonal of `metric`."""
        laplacian: Any = self.laplacian
        return namespace(self.a).concat(
            [
                (2.0 * laplacian.source_weight) * diagonal_of(laplacian.Ls, self.a),
                (2.0 * laplacian.target_weight) * diagonal_of(laplacian.Lt, self.b),
            ]
        )

    def quadratic(self, P: Array, Q: Array) -> float:
        """The Laplacian at a plan with these moments."""
        return 0.5 * (dot(P, self.gradient_in_P(P)) + dot(Q, self.gradient_in_Q(Q)))

    def with_gradients(self, z: DualVector | DualVariables) -> DualVariables:
        """z with the gradients of the Laplacian there, if it does not have them already."""
        if isinstance(z, DualVariables):
            return z
        return DualVariables(*z, self.gradient_in_P(z.P), self.gradient_in_Q(z.Q))

    def start(self, x: Array | StreamedPlan) -> DualVariables:
        """Moments of x, and the potential it would have as an optimal plan: x = exp((u + v -
        M)/entropy).
        """
        x = x if self.support is None else self.support.part(x)
        if not is_formed(x):
            return self._start_streamed(x)
        x = double(x)
        P = x @ self.Xt
        Q = x.T @ self.Xs
        U = self.gradient_in_P(P)
        V = self.gradient_in_Q(Q)
        left, right = self._factors(U, V)
        cost = left @ right.T
        cost += self.given_cost
        cost += self.entropy * log_or_least(x)
        return DualVariables(fitted_potential(x, cost), P, Q, U, V)

    def is_carried(self, x: Any) -> bool:
        return not is_formed(x) and x.origin is not None

    def _start_streamed(self, x: StreamedPlan) -> DualVariables:
        """The dual point that a streamed plan comes from, or for a product of weights what it would
        come from.
        """
        if x.origin is not None:
            v = x.origin.v - self.column_cost
            P = x.origin.P
            Q = x.origin.Q
            if self.centred is not None and self.given is not None:
                P, Q = self.centred.inside(P, Q, self.a, self.b)
                v = v - self.centred.shifts(P, Q)[1]
            return self.with_gradients(DualVector(self._without_constant(v), P, Q))
        P = x @ self.Xt
        Q = x.T @ self.Xs
        U = self.gradient_in_P(P)
        V = self.gradient_in_Q(Q)
        left, right = self._factors(U, V)
        # the mean of a column of the linearised cost; a centred cost itself has none
        means = right @ (self.a @ left) / self.polytope.mass
        return DualVariables(self.entropy * namespace(self.b).log(self.b) + means, P, Q, U, V)

    def moved(
        self, z: DualVector | DualVariables, direction: DualVector | DualVariables, step: float
    ) -> DualVariables:
        there = self.with_gradients(z).moved(step, self.with_gradients(direction))
        return there._replace(v=self._without_constant(there.v))

    def _without_constant(self, v: Array) -> Array:
        """A constant in v means nothing to the plan and drowns the digits of the dual."""
        return v - dot(self.b, v) / self.polytope.mass

    def spread(self, z: DualVariables) -> float:
        """The widest row of the cost linearised at z, less its potential: a stiff Laplacian
        outgrows the cost.
        """
        return self.cost.widest_row(*self._factors(z.U, z.V), z.v)

    def _factors(self, U: Array, V: Array) -> tuple[Array, Array]:
        """What the regulariser linearised at moments of these gradients adds to C, as left right'."""
        xp = namespace(U)
        left = xp.concat([U + self.U, self.Xs], axis=1)
        return left, xp.concat([self.Xt, V + self.V], axis=1)

    def evaluate(self, z: DualVector | DualVariables, t: float) -> PlanPoint:
        return PlanPoint(self, self.with_gradients(z), t * self.entropy, certified=t == 1.0)

    def rough_point(self, z: DualVector | DualVariables, t: float) -> PlanPoint:
        return PlanPoint(self, self.with_gradients(z), t * self.entropy, certified=False)

    @property
    def rough_points_are_exact(self) -> bool:
        return not on_device(self.a)

    @property
    def proofs_are_dear(self) -> bool:
        """The entropy of a streamed plan takes three products."""
        return isinstance(self.cost, StreamedCost)

    def stage_gap(self, point: PlanPoint) -> float:
        """An estimate of f + t g - D_t at the rounded plan, without a product.

        Before rounding it is the Laplacian of S Xt - P and S'Xs - Q. Moving the missing mass costs
        some entropies more.
        """
        z = point.z
        missing = 0.5 * total(namespace(self.b).abs(point.columns - self.b))
        return self.quadratic(point.S_Xt - z.P, point.S_Xs - z.Q) + MOVING * point.entropy * missing

    def strain(self, point: PlanPoint) -> float:
        """The part of one row or column in `stage_gap`, in entropies of its mass; the largest.

        A quadratic model holds for about one entropy. The gap may be small although a few outlying
        points with little mass are off by hundreds. Steps from there would go too far.
        """
        if self.laplacian is None:
            return 0.0
        xp = namespace(self.a)
        off_P = point.S_Xt - point.z.P
        off_Q = point.S_Xs - point.z.Q
        in_rows = xp.sum(off_P * self.gradient_in_P(off_P), axis=1) / self.a
        in_columns = xp.sum(off_Q * self.gradient_in_Q(off_Q), axis=1) / self.b
        return 0.5 * max(float(xp.max(in_rows)), float(xp.max(in_columns))) / point.entropy

    def slope_along(self, point: PlanPoint, direction: DualVariables) -> float:
        z = point.z
        in_moments = dot(point.S_Xt - z.P, direction.U) + dot(point.S_Xs - z.Q, direction.V)
        return dot(self.b - point.columns, direction.v) + in_moments

    def rounded_gap(self, point: PlanPoint) -> float:
        """f + t g - D_t at the rounded plan, from thin products alone: no plan is formed.

        Rounding scales columns down to b and adds a rank-one term r s'/|s|, see
        `Transport.rounded`. All of f at the sum follows from its moments; the logarithms of S from
        the potentials, log S_ij = (u_i + v_j - M_ij)/e. Adding q to an entry p adds no more than q
        (1 + log(p + q)) to p log p, and no entry is above the smaller of its weights.
        """
        point = point.exact
        z, (kept, rows, row_rest, column_rest), (P, Q) = (
            point.z,
            point.rounding,
            point.rounded_moments,
        )
        xp = namespace(kept)
        kept_columns = kept * point.columns
        # what is kept of S, its cost being in f as in t g, where it cancels
        kept_P, kept_Q = point.kept_moments
        result = (
            dot(rows, point.plan.u)
            + dot(kept_columns, z.v)
            + point.entropy * dot(kept_columns, xp.log(kept))
        )
        result -= dot(z.U + self.U, kept_P) + dot(z.V + self.V, kept_Q)
        missing = total(row_rest)
        if missing > 0.0:
            result += self.cost.between(row_rest, column_rest)
            result += point.entropy * missing * (1.0 + math.log(self.polytope.largest_entry or 1.0))
        result += dot(self.U, P) + dot(self.V, Q) + self.quadratic(P, Q) + self.constant
        return result - point.dual

    def entry_gap(self, point: PlanPoint) -> float:
        """How far a start from elsewhere is from the path: the larger part of f + t g - D_t at S,
        before rounding.

        These are |S Xt - P|^2 + |S'Xs - Q|^2 in the metric of f, and <S'1 - b, v>. Neither says
        anything of a plan whose columns are far from b.
        """
        z = point.z
        excess = point.columns - self.b
        if total(namespace(excess).abs(excess)) > ENTRY_ERROR * self.polytope.mass:
            return math.inf
        return max(self.quadratic(point.S_Xt - z.P, point.S_Xs - z.Q), abs(dot(excess, z.v)))

    def primal(self, point: PlanPoint) -> Primal:
        point = point.exact
        plan, known_cost, negentropy = point.plan.rounded(point.rounding, self.b)
        P, Q = point.rounded_moments
        cost = known_cost or 0.0
        entropy_term = self.entropy * negentropy
        size = abs(cost)
        if not is_formed(plan):
            plan = replace(plan, origin=self._origin(point))
            if self.cost_in_P is None:
                cost = self.given_cost.sum_over(plan)
            else:
                cost = (
                    dot(self.a, self.row_cost)
                    + dot(self.b, self.column_cost)
                    + dot(self.cost_in_P, P)
                )
            size = self.given_cost.size_over(plan)
        terms: list[Any] = [TransportCostEvaluation(self.given_cost, plan, cost)]
        if self.centred is not None and self.given is not None:
            given = self.centred.evaluation(self.given, P, Q, self.a, self.b)
            terms.append(given)
            size += given.value_size(given)
        f_here = SumEvaluation((1.0,) * len(terms), terms)
        at_plan = Terms.at(plan, f_here, Entropy(self.entropy, on=self.polytope), entropy_term)
        return Primal(plan if self.support is None else self.support.whole(plan), at_plan, size)

    def _origin(self, point: PlanPoint) -> Linearisation:
        """A dual point in the coordinates of the user, with the potentials of the cost as it was
        given.
        """
        P = point.z.P
        Q = point.z.Q
        u = point.plan.u + self.row_cost
        v = point.z.v + self.column_cost
        if self.centred is not None and self.given is not None:
            by_row, by_column = self.centred.shifts(P, Q)
            u = u + by_row
            v = v + by_column
            P, Q = self.centred.outside(P, Q, self.a, self.b)
        return Linearisation(u, v, P, Q)

    def ascent(self, point: PlanPoint, progress: AscentProgress) -> Ascent:
        learnt: Learnt = progress.learnt or Learnt()
        columns = point.columns
        xp = namespace(point.columns)
        overfull = (
            self.given is not None
            and not learnt.fitted
            and bool(xp.any(columns > OVERFULL * self.b))
        )
        if overfull or bool(xp.any(columns < STARVED * self.b)):
            return self._fit(point, learnt._replace(fitted=overfull))
        learnt = learnt._replace(fitted=False)
        hessian = Hessian(self, point)
        accuracy = self._accuracy(hessian, progress, learnt)
        hessian.precision = point.plan.product_precision(accuracy)
        learnt = learnt._replace(entropy=point.entropy, residual=hessian.residual_size)
        ascent = self._direction(hessian, accuracy, progress.step, learnt)
        if ascent.slope <= 0.0 and hessian.precision != "float64":
            # products of few digits showed a curvature below 0, where conjugate gradients end
            hessian.precision = "float64"
            ascent = self._direction(hessian, accuracy, progress.step, learnt)
        # its gradients are computed once for all steps of the search along it
        direction = self.with_gradients(self._without_kernels(ascent.direction))
        farthest = float(xp.max(xp.abs(direction.v))) / (FARTHEST_POTENTIAL * point.entropy)
        if farthest <= 1.0:
            return ascent._replace(direction=direction)
        # where parts of a plan are connected by next to nothing, a quadratic knows no end of their
        # potentials: those alone are held back, if that leads up
        shorter = self.tempered(point, direction)
        slope = self.slope_along(point, shorter)
        if slope <= 0.0:
            v, P, Q = (part / farthest for part in (direction.v, direction.P, direction.Q))
            shorter = self.with_gradients(DualVector(v, P, Q))
            slope = ascent.slope / farthest
        return ascent._replace(direction=shorter, slope=slope, is_newton=False)

    def _fit(self, point: PlanPoint, learnt: Learnt) -> Ascent:
        """Sinkhorn's step, which is ascent too.

        A quadratic knows nothing of columns without mass, and of one that has e^k times its mass it
        takes off a factor of e at a time. This step puts both right at once.
        """
        dv = point.entropy * (namespace(self.b).log(self.b) - point.log_columns)
        slope = dot(
            self.b, dv
        )  # what the step brings with u as it is; the slope proper may be far more
        direction = DualVector(dv, 0.0 * point.z.P, 0.0 * point.z.Q)
        return Ascent(direction, slope, 1, is_newton=False, learnt=learnt)

    def _accuracy(self, hessian: Hessian, progress: AscentProgress, learnt: Learnt) -> float:
        """The residual of the next direction: as small as the last step says that Newton's model is
        exact, and no smaller than the gap wanted needs (Eisenstat and Walker, SIAM J. Sci. Comput.
        17, 1996, choice 2).

        Stages on the way ask for a rough direction alone. Near the end the residual falls with the
        gap in any case: parts of a plan with weak ties have residuals that are small beside the
        others, and a direction that leaves them as they are leads nowhere.
        """
        on_the_way = hessian.entropy != self.entropy
        is_first = progress.step == 0.0 or learnt.entropy != hessian.entropy
        if on_the_way or is_first or learnt.residual == 0.0:
            return INEXACT
        accuracy = min(INEXACT, hessian.residual_size / learnt.residual)
        if progress.gap > 0.0:
            gap_in_entropies = progress.gap / (self.entropy * self.polytope.mass)
            accuracy = min(accuracy, math.sqrt(gap_in_entropies))
            accuracy = max(accuracy, FINEST_RESIDUAL * progress.wanted / progress.gap)
        return min(INEXACT, accuracy)

    def tempered(self, point: PlanPoint, direction: DualVariables) -> DualVariables:
        """The direction with long changes of potentials shortened.

        Where a part of the plan exchanges next to nothing with the rest, what it exchanges grows
        like the hyperbolic sine of the difference of their potentials, and a quadratic knows the
        slope at 0.
        """
        changes = about_median(direction.v) / point.entropy
        return direction._replace(v=point.entropy * namespace(changes).asinh(changes))

    def stretched(self, point: PlanPoint, direction: DualVariables, factor: float) -> DualVariables:
        """The direction with changes of potentials lengthened that are not short.

        Where a part of the plan sends out x^2 times what it takes in, log x entropies put that
        right. A quadratic goes by their hyperbolic tangent, never more than one. A chain of such
        parts has differences of one in a row.
        """
        xp = namespace(direction.v)
        changes = about_median(direction.v)
        sizes = xp.clip(xp.abs(changes) / point.entropy, min=LIFT, max=1.0 - LIFT)
        return direction._replace(v=changes * xp.clip(xp.atanh(sizes) / sizes, max=factor))

    def _direction(
        self, hessian: Hessian, accuracy: float, last_step: float, learnt: Learnt
    ) -> Ascent:
        """By conjugate gradients, and where these hardly get on, or led nowhere, by a factor of the
        whole system.

        Later stages are no easier, so that it stays with the factor.
        """
        whole_fits = self.whole_fits
        led_nowhere = 0.0 < last_step < SHORT_STEP
        if not (learnt.hard or (whole_fits and led_nowhere)):
            limit = MOST_STEPS_BESIDE_WHOLE if whole_fits else MOST_ITERATIONS
            x, iterations, inverses = solved(
                hessian, accuracy, learnt.inverses, max_iterations=limit
            )
            slope = hessian.inner(x, hessian.residual)
            learnt = learnt._replace(inverses=inverses)
            if not whole_fits or (iterations < limit and slope > 0.0):
                return Ascent(x, slope, 1 + iterations, learnt=learnt)
        return whole_direction(hessian)._replace(learnt=learnt._replace(hard=True))


def about_median(v: Array) -> Array:
    """Potentials relative to that of most of the plan."""
    return v - namespace(v).sort(v)[v.shape[0] // 2]


class PlanPoint:
    """The dual function at (v, P, Q) and the plan S it is attained by, whose rows are exact."""

    def __init__(
        self,
        model: EntropicLaplacian,
        z: DualVariables,
        entropy: float,
        *,
        certified: bool = True,
        in_float64: bool = False,
        plan: Plan | None = None,
    ) -> None:
        xp = namespace(z.v)
        self.model = model
        self.entropy = entropy
        self.in_float64 = in_float64
        if plan is None:
            factors = model._factors(z.U, z.V)
            columns = model.target_columns
            with passes.spent_on("points"):
                plan = model.cost.plan(
                    *factors, z.v, model.a, entropy, columns, near=z.u, certified=certified
                )
        self.plan = plan
        self.z = z._replace(u=plan.u)
        u = self.plan.u
        self.dual = dot(model.a, u) + dot(model.b, z.v) - z.quadratic + model.constant
        potentials = dot(model.a, xp.abs(u)) + dot(model.b, xp.abs(z.v))
        self.magnitude = model.rounding_size + potentials + model.constant_size + model.linear_size
        if model.laplacian is not None:
            # once for the quadratic, once for the cost that it is linearised to, at whatever plan
            size = model.laplacian.quadratic_size
            self.magnitude += size(z.P, z.Q, z.P, z.Q) + size(z.P, z.Q, *model.largest_moments)

    @property
    def exact(self) -> PlanPoint:
        """The same with all sums in float64, as a plan of exact marginals needs them."""
        # not stored where it is the point itself: one that refers to itself would hold its plan for
        # long
        return self if self.plan.precision == self._sums[1] == "float64" else self._in_float64

    @cached_property
    def _in_float64(self) -> PlanPoint:
        plan = self.plan if self.plan.precision == "float64" else None
        return PlanPoint(self.model, self.z, self.entropy, in_float64=True, plan=plan)

    @cached_property
    def _sums(self) -> tuple[Array, str]:
        """The product with S' that all sums over columns come from, and its precision.

        A gap that is far from small needs no column sums to the last digit to be seen, nor does the
        way from there.
        """
        plan = self.plan
        model = self.model
        rough = plan.product_precision(ROUGH_COLUMNS)
        with passes.spent_on("points"):
            if rough != "float64" and not self.in_float64:
                sums = plan.transposed_times(model.source_columns, precision=rough)
                off = 0.5 * total(namespace(sums).abs(sums[:, 0] - model.b))
                if plan.precision != "float64" or off > ROUGH_GAP * model.polytope.mass:
                    return sums, rough
            return plan.transposed_times(model.source_columns, precision="float64"), "float64"

    @property
    def _transposed_times_Xs(self) -> Array:
        return self._sums[0]

    @property
    def S_Xt(self) -> Array:
        """S Xt."""
        return self.plan.S_R[:, : self.model.Xt.shape[1]]

    @property
    def S_Xt_second(self) -> Array:
        """S times the second moments of Xt."""
        return self.plan.S_R[:, self.model.Xt.shape[1] :]

    @property
    def columns(self) -> Array:
        """The column sums of S."""
        return self._transposed_times_Xs[:, 0]

    @property
    def log_columns(self) -> Array:
        """Their logarithms, also of sums that are too small for a float."""
        xp = namespace(self.columns)
        z = self.z
        if bool(xp.all(self.columns >= LEAST_SUM)):
            return xp.log(self.columns)
        return self.model.cost.log_columns(
            *self.model._factors(z.U, z.V), z.v, self.plan.u, self.entropy
        )

    @property
    def S_Xs(self) -> Array:
        """S' Xs."""
        return self._transposed_times_Xs[:, 1 : 1 + self.model.Xs.shape[1]]

    @property
    def S_Xs_second(self) -> Array:
        """S' times the second moments of Xs."""
        return self._transposed_times_Xs[:, 1 + self.model.Xs.shape[1] :]

    @cached_property
    def _rounding_and_moment(self) -> tuple[Rounding, Array]:
        """How S is rounded, and the moment P of what is kept of it."""
        model = self.model
        columns = self.columns
        xp = namespace(columns)
        kept = model.b / xp.maximum(columns, model.b)
        kept_Xt = kept[:, None] * xp.concat([xp.ones_like(kept)[:, None], model.Xt], axis=1)
        with passes.spent_on("proofs"):
            thin = self.plan.times(kept_Xt, precision=self.plan.precision)
        short_b = at_least(0.0, model.b - kept * columns)
        return Rounding.of(kept, thin[:, 0], model.a, short_b), thin[:, 1:]

    @property
    def rounding(self) -> Rounding:
        """How S becomes a plan of exact marginals."""
        return self._rounding_and_moment[0]

    @property
    def kept_moments(self) -> tuple[Array, Array]:
        """P and Q of what rounding keeps of S."""
        return self._rounding_and_moment[1], self.rounding.kept[:, None] * self.S_Xs

    @cached_property
    def rounded_moments(self) -> tuple[Array, Array]:
        """P and Q of the rounded plan."""
        model, (_, _, row_rest, column_rest), (P, Q) = self.model, self.rounding, self.kept_moments
        P = P + row_rest[:, None] * (column_rest @ model.Xt)[None, :]
        return P, Q + column_rest[:, None] * (row_rest @ model.Xs)[None, :]


def model_of(problem: TransportStructure) -> DualModel | None:
    """A model for linear costs plus at most one TransportLaplacian, under entropy on a polytope."""
    parts = entropic_parts(problem)
    if parts is None or problem.groups or problem.others or len(problem.laplacians) > 1:
        return None
    C, a, b, entropy = parts
    laplacian: TransportLaplacian | None = None
    for weight, term in problem.laplacians:
        laplacian = term.scaled(weight, a)
    xp = namespace(a)
    rows = xp.nonzero(a > 0)[0]
    columns = xp.nonzero(b > 0)[0]
    sorts = isinstance(C, UnformedCost) and on_device(a)
    if sorts:  # for the precisions below float64
        rows = rows[compact_order(C.left[rows])]
        columns = columns[compact_order(C.right[columns])]
    if not sorts and len(rows) == len(a) >= len(columns) == len(b):
        return EntropicLaplacian(C, a, b, entropy, laplacian)
    support = Support(tuple(C.shape), rows, columns)
    part = laplacian.restricted(rows, columns) if laplacian is not None else None
    C_part = C.at(rows, columns) if isinstance(C, UnformedCost) else C[rows, :][:, columns]
    a_part = a[rows]
    b_part = b[columns]
    if support.turned:
        C_part, a_part, b_part, part = (
            C_part.T,
            b_part,
            a_part,
            None if part is None else part.turned(),
        )
    return EntropicLaplacian(C_part, a_part, b_part, entropy, part, support)
