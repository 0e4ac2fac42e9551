"""The transport polytope for plans that are never formed, and Sinkhorn's iteration on them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from condgrad import deadline
from condgrad.arrays import Array, Space, dot, double, namespace, precision, total
from condgrad.problem import Answer
from condgrad.sets.anderson import Anderson
from condgrad.sets.sinkhorn import finite_height
from condgrad.sets.transport import Transport
from condgrad.streamed_plan import Linearisation, StreamedPlan, UnformedCost, zeros

MOST_STEPS = 1000
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

    def violation(self, x: StreamedPlan) -> float:
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
        part = c if whole else c.at(rows, columns)
        found = solve(
            part,
            a[rows],
            b[columns],
            weight,
            start=None if warm is None else warm[columns],
            accuracy=accuracy,
        )
        plan = found.plan if whole else found.plan.embedded(rows, columns, a.shape[0], b.shape[0])
        v: Any = plan.origin.v  # type: ignore[union-attr]
        return Answer(plan, found.bound, weight * plan.negentropy, found.steps, v, found.magnitude)


class Found(NamedTuple):
    """A rounded plan, a lower bound on the minimum, and what it took."""

    plan: StreamedPlan
    bound: float
    steps: int
    magnitude: float


def solve(
    cost: UnformedCost, a: Array, b: Array, weight: float, *, start: Array | None, accuracy: float
) -> Found:
    """min <cost, G> + weight sum G log G for positive weights, until the gap is within `accuracy`."""
    sinkhorn = StreamedSinkhorn(cost, a, b)
    v = zeros(a, b.shape[0]) if start is None else start - sinkhorn.core.column
    if start is None:
        t = sinkhorn.height / 20.0
        while t > 2.0 * weight and not deadline.passed():
            # a cold start at a small entropy crawls
            v = sinkhorn.improved(v, t, aim=0.01 * sinkhorn.mass, most=25).v
            t *= 0.25
    aim = accuracy / (float(namespace(v).max(v) - namespace(v).min(v)) + 10.0 * weight)
    while True:
        state = sinkhorn.improved(v, weight, aim=aim, most=MOST_STEPS - sinkhorn.steps)
        plan = sinkhorn.plan(state, weight)
        gap = cost.sum_over(plan) + weight * plan.negentropy - state.dual
        spent = sinkhorn.steps >= MOST_STEPS or deadline.passed()
        if gap <= accuracy or spent or state.stuck or not state.error > 0.0:
            return Found(plan, state.dual, sinkhorn.steps, sinkhorn.magnitude(state, weight))
        v = state.v
        aim = 0.5 * state.error * min(1.0, accuracy / gap)


class StreamedState(NamedTuple):
    """A column potential, and what two passes tell there."""

    v: Array
    u: Array
    image: Array
    """Sinkhorn's next v."""
    dual: float
    error: float
    """How far the column sums are from b, in all."""
    stuck: bool = False


class StreamedSinkhorn:
    """Sinkhorn's map for the column potential of a cost that is never formed."""

    def __init__(self, cost: UnformedCost, a: Array, b: Array) -> None:
        self.core = cost.centred(a, b)
        xp = namespace(a)
        self.row_cost = self.core.row
        self.column_cost = self.core.column
        self.inner = replace(self.core, row=0.0 * a, column=0.0 * b)
        self.constant = dot(a, self.row_cost) + dot(b, self.column_cost)
        self.a = a
        self.b = b
        self.log_a = xp.log(a)
        self.log_b = xp.log(b)
        self.mass = total(a)
        self.height = finite_height(*self.inner.bounds)
        self.steps = 0

    def state(self, v: Array, weight: float) -> StreamedState:
        xp = namespace(v)
        v = (
            v - dot(self.b, v) / self.mass
        )  # a constant means nothing to the plan and drowns the digits of the dual
        self.steps += 1
        u = weight * (self.log_a - self.inner.score(v, weight).log_row_sums())
        image = weight * (self.log_b - self.inner.T.score(u, weight).log_row_sums())
        columns = self.b * xp.exp(xp.clip((v - image) / weight, max=700.0))
        dual = dot(self.a, u) + dot(self.b, v) + self.constant
        return StreamedState(v, u, image, dual, total(xp.abs(columns - self.b)))

    def improved(self, v: Array, weight: float, *, aim: float, most: int) -> StreamedState:
        """Steps until the marginal error is within `aim`, extrapolated by Anderson's rule if the
        dual does not fall.
        """
        anderson = Anderson(depth=8)
        here = self.state(v, weight)
        for _ in range(most - 1):
            if not here.error > aim or here.stuck or deadline.passed():
                break
            # in units of the weight: the squares of potentials in a far unit are no floats
            proposed = weight * anderson.propose(here.v / weight, here.image / weight)
            there = self.state(proposed, weight)
            if not there.dual >= here.dual:
                anderson.forget()
                there = self.state(here.image, weight)
                there = there._replace(stuck=there.dual <= here.dual and there.error >= here.error)
            here = there
        return here

    def plan(self, state: StreamedState, weight: float) -> StreamedPlan:
        matrix = self.inner.score(state.v, weight).with_rows(state.u / weight)
        none = zeros(state.v, self.a.shape[0], 0), zeros(state.v, self.b.shape[0], 0)
        origin = Linearisation(state.u + self.row_cost, state.v + self.column_cost, *none)
        if precision(self.a) * matrix.largest_score > MEANINGLESS:
            return replace(StreamedPlan.product(self.a, self.b), origin=origin)
        return replace(StreamedPlan.rounded(matrix, self.a, self.b), origin=origin)

    def magnitude(self, state: StreamedState, weight: float) -> float:
        """The size of the dual's terms before they cancel."""
        size = namespace(self.a).abs
        constants = dot(self.a, size(self.row_cost)) + dot(self.b, size(self.column_cost))
        potentials = dot(self.a, size(state.u)) + dot(self.b, size(state.v))
        logarithms = weight * (1.0 + math.log2(self.a.shape[0] * self.b.shape[0]))
        return constants + potentials + self.mass * (max(map(abs, self.inner.bounds)) + logarithms)
