"""The transport polytope for plans that are never formed, and Sinkhorn's iteration on them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from condgrad.arrays import Array, Space, dot, double, is_formed, namespace, precision, total, zeros
from condgrad.problem import Answer
from condgrad.sets.anderson import MAX_PASSES, AcceleratedScaling, Certified, scaled_start
from condgrad.sets.sinkhorn import finite_height
from condgrad.sets.transport import Transport
from condgrad.streamed_plan import (
    LARGEST_EXPONENT,
    Linearisation,
    StreamedPlan,
    UnformedCost,
)

MEANINGLESS = 10.0
"""If rounding may change a logarithm by more than this, the entries are noise, and the product of
the weights is a better plan.
"""


class StreamedTransport(Transport):
    """{G >= 0 : G 1 = a, G' 1 = b}, whose points are `StreamedPlan`s.

    Its oracle is Sinkhorn's iteration in the log domain. A step takes two passes of row sums, and
    nothing of the size of a plan is stored.
    """

    forms_points = False

    def start(self, space: Space) -> StreamedPlan:
        return StreamedPlan.product(self.a, self.b)

    def violation(self, x: Any) -> float:
        if is_formed(x):
            return super().violation(x)
        xp = namespace(self.a)
        ones_a = xp.ones_like(x.a)
        ones_b = xp.ones_like(x.b)
        rows = xp.abs(x @ ones_b - self.a)
        columns = xp.abs(x.T @ ones_a - self.b)
        return max(float(xp.max(rows)), float(xp.max(columns)))

    def linear_argmin(self, c: Any) -> Answer:
        raise self.lacks("linear_argmin")

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("entropic_argmin",)

    def __repr__(self) -> str:
        return f"StreamedTransport({self.a.shape[0]} x {self.b.shape[0]})"

    def entropic_argmin(
        self, c: UnformedCost, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """A plan of exact marginals and a lower bound, warm-started by the column potential of the
        last answer.
        """
        xp = namespace(self.a)
        a = double(self.a)
        b = double(self.b)
        rows = xp.nonzero(a > 0.0)[0]
        columns = xp.nonzero(b > 0.0)[0]
        if len(rows) == 0:
            return Answer(StreamedPlan.product(a, b), 0.0, 0.0)
        whole = len(rows) == a.shape[0] and len(columns) == b.shape[0]
        problem = CentredProblem.of(c if whole else c.at(rows, columns), a[rows], b[columns])
        if warm is None:
            v, steps = scaled_start(
                lambda t, v: StreamedSinkhorn(problem, t, v),
                zeros(a, len(columns)),
                height=finite_height(*problem.inner.bounds),
                mass=total(problem.a),
                weight=weight,
            )
        else:
            v = warm[columns] - problem.column_cost
            steps = 0
        run = StreamedSinkhorn(problem, weight, v)
        answer = run.solve(accuracy, MAX_PASSES).answer
        plan = answer.point
        if not whole:
            plan = plan.embedded(rows, columns, a.shape[0], b.shape[0])
        return answer._replace(point=plan, inner_iterations=steps + run.passes, warm=plan.origin.v)


class CentredProblem(NamedTuple):
    """A cost between points of positive weights, what rows and columns have in common beside it."""

    cost: UnformedCost
    inner: UnformedCost
    row_cost: Array
    column_cost: Array
    a: Array
    b: Array

    @classmethod
    def of(cls, cost: UnformedCost, a: Array, b: Array) -> CentredProblem:
        core = cost.centred(a, b)
        inner = replace(core, row=0.0 * a, column=0.0 * b)
        return cls(cost, inner, core.row, core.column, a, b)


class StreamedState(NamedTuple):
    """Column potentials in units of the entropy, and what two passes tell there."""

    x: Array
    u: Array
    mapped: Array
    """Sinkhorn's next x."""
    dual: float
    error: float
    """How far the column sums are from b, in all."""


class StreamedSinkhorn(AcceleratedScaling):
    """Sinkhorn's map for the column potential of a cost that is never formed.

    Sums are taken in the log domain, so that no scaling is too far.
    """

    def __init__(self, problem: CentredProblem, weight: float, v: Array) -> None:
        super().__init__()
        self.problem = problem
        self.weight = weight
        xp = namespace(v)
        self.log_a = xp.log(problem.a)
        self.log_b = xp.log(problem.b)
        self.mass = total(problem.a)
        self.constant = dot(problem.a, problem.row_cost) + dot(problem.b, problem.column_cost)
        self.restart(v)

    @property
    def farthest(self) -> float:
        return math.inf

    @property
    def absorbed(self) -> Array:
        return 0.0 * self.state.x

    def restart(self, potential: Array) -> None:
        self.state = self.evaluate(potential / self.weight)

    def evaluate(self, x: Array) -> StreamedState:
        xp = namespace(x)
        weight = self.weight
        inner = self.problem.inner
        a = self.problem.a
        b = self.problem.b
        x = x - dot(b, x) / self.mass  # a constant means nothing to the plan and drowns the digits
        u = weight * (self.log_a - inner.score(weight * x, weight).log_row_sums())
        mapped = self.log_b - inner.T.score(u, weight).log_row_sums()
        columns = b * xp.exp(xp.clip(x - mapped, max=LARGEST_EXPONENT))
        dual = dot(a, u) + dot(b, weight * x) + self.constant
        self.passes += 1
        return StreamedState(x, u, mapped, dual, total(xp.abs(columns - b)))

    def certified(self) -> Certified:
        plan = self.plan()
        value = self.weight * plan.negentropy
        bound = self.state.dual
        answer = Answer(plan, bound, value, magnitude=self.magnitude)
        return Certified(answer, self.problem.cost.sum_over(plan) + value - bound)

    def plan(self) -> StreamedPlan:
        inner, row_cost, column_cost, a, b = self.problem[1:]
        u = self.state.u
        matrix = inner.score(self.potential, self.weight).with_rows(u / self.weight)
        none = zeros(u, a.shape[0], 0), zeros(u, b.shape[0], 0)
        origin = Linearisation(u + row_cost, self.potential + column_cost, *none)
        if precision(a) * matrix.largest_score > MEANINGLESS:
            return replace(StreamedPlan.product(a, b), origin=origin)
        return replace(StreamedPlan.rounded(matrix, a, b), origin=origin)

    @property
    def magnitude(self) -> float:
        """The size of the dual's terms before they cancel."""
        inner, row_cost, column_cost, a, b = self.problem[1:]
        size = namespace(a).abs
        constants = dot(a, size(row_cost)) + dot(b, size(column_cost))
        potentials = dot(a, size(self.state.u)) + dot(b, size(self.potential))
        logarithms = self.weight * (1.0 + math.log2(a.shape[0] * b.shape[0]))
        return constants + potentials + self.mass * (max(map(abs, inner.bounds)) + logarithms)
