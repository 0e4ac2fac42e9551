"""Entropic transport: min <c, G> + weight sum G log G over plans with marginals a and b.

For a given column potential v, the best row potential u has a closed form. So the dual of this
problem is a concave function of v alone:

    u_i(v) = weight (log a_i - log sum_j exp((v_j - c_ij)/weight)),   D(v) = <a, u(v)> + <b, v>  <=  the minimum.

Sinkhorn's iteration is a fixed-point map for v. It runs on scalings of the kernel K = exp((u + v -
c)/weight). The rows of the kernel are normalised in the log domain whenever it is formed, so that
nothing overflows. Scalings that grow too far are absorbed into the potentials, and the kernel is
formed again. Anderson's extrapolation of v is accepted only if D does not fall. The answer is a
plan of exact marginals and D, whatever the number of passes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from condgrad.arrays import (
    Array,
    cholesky,
    dot,
    log_or_least,
    log_sum_exp,
    namespace,
    precision,
    row_blocks,
    solve_cholesky,
    total,
)
from condgrad.errors import NotFiniteError
from condgrad.problem import Answer
from condgrad.rounding import LIFT
from condgrad.sets.anderson import (
    MAX_PASSES,
    AcceleratedScaling,
    Certified,
    largest_log_scaling,
    scaled_start,
)
from condgrad.sets.marginals import Rescaled

NEWTON_AFTER = 50
"""Newton steps are tried after this many passes, plus one for every `NEWTON_COLUMNS` columns."""
NEWTON_COLUMNS = 10
"""A Newton step takes about one pass longer for every so many columns."""
NEWTON_AGAIN = 5
"""After a refused Newton step, the next one is tried this many passes later."""
NEWTON_AT_MOST = 3000
"""With more columns no Newton steps are tried: one would take longer than hundreds of passes."""
COARSE = 1e-10
"""With a larger rounding unit, as in float32, no Newton steps are tried: their equations would have
too few digits.
"""
PATH_AFTER = 300
"""After this many passes, plus one for each column, Newton's method walks a path of entropies. From
a start that is not near, at an entropy of 1e-4 of the costs, 1000 passes were not enough, and the
path took 300.
"""
FARTHEST_SCALING = 3.0
"""A Newton step that changes the logarithm of a scaling by more than this is shortened to it."""


class Potentials(NamedTuple):
    """Row and column potentials of a plan exp((u_i + v_j - c_ij)/weight)."""

    u: Array
    v: Array


def scaled_answer(
    c: Array, a: Array, b: Array, weight: float, *, start: Array | None, accuracy: float
) -> Answer:
    """Solve for positive weights a, b, from a column potential, until the gap is within `accuracy`."""
    passes = 0

    def scaled(newton_from: float | None) -> Scaling:
        nonlocal passes
        v, more = scaled_start(
            lambda t, v: Scaling(c, a, b, t, v, newton_from),
            namespace(c).zeros_like(b),
            height=height_of(c),
            mass=total(a),
            weight=weight,
        )
        passes += more
        return Scaling(c, a, b, weight, v, newton_from)

    scaling = scaled(None) if start is None else Scaling(c, a, b, weight, start)
    if start is not None and not scaling.state.error < 0.5 * total(a):  # worse than none
        passes = scaling.passes
        scaling = scaled(None)
    path_is_left = scaling.newton_from < math.inf
    allowed = min(MAX_PASSES, PATH_AFTER + b.shape[0]) if path_is_left else MAX_PASSES
    found = scaling.solve(accuracy, allowed)
    if path_is_left and found.gap > accuracy and scaling.passes >= allowed:
        # the start was too far away for an entropy as small as this
        passes += scaling.passes
        scaling = scaled(0)
        found = scaling.solve(accuracy, MAX_PASSES)
    return found.answer._replace(inner_iterations=passes + scaling.passes)


def height_of(c: Array) -> float:
    """How far two costs are apart at most."""
    xp = namespace(c)
    return finite_height(float(xp.min(c)), float(xp.max(c)))


def finite_height(lowest: float, highest: float) -> float:
    """highest - lowest of costs. It is an error if this is infinite: no path would end."""
    height = highest - lowest
    if not math.isfinite(height):
        raise NotFiniteError(
            f"costs from {lowest:.3g} to {highest:.3g} are farther apart than the largest float: "
            "divide the cost, the entropy and the weights of regularisers by the same number, "
            "such as 1e10"
        )
    return height


def normalised_rows(exponent: Array, a: Array) -> tuple[Array, Array]:
    """exp(exponent) with its rows scaled to the sums a, and the logarithms of the sums before that.
    `exponent` is overwritten.
    """
    xp = namespace(exponent)
    top = xp.max(exponent, axis=1)
    exponent -= top[:, None]
    kernel = xp.exp(exponent)
    sums = xp.sum(kernel, axis=1)
    kernel *= (a / sums)[:, None]
    return kernel, xp.log(sums) + top


class ScalingState(NamedTuple):
    """A log-scaling x of the columns, with all that two products with the kernel tell."""

    x: Array
    rows: Array
    """Scaling of the rows, such that row sums are exact."""
    columns: Array
    """Column sums of the scaled kernel."""
    dual: float
    error: float
    """sum |columns - b|."""
    mapped: Array
    """Sinkhorn's next x."""


class Scaling(AcceleratedScaling):
    """Sinkhorn's iteration on a kernel K = exp((u + v - c)/weight) with row sums a."""

    def __init__(
        self,
        c: Array,
        a: Array,
        b: Array,
        weight: float,
        v: Array,
        newton_from: float | None = None,
    ) -> None:
        xp = namespace(c)
        self.c = c
        self.a = a
        self.b = b
        self.weight = weight
        self.log_a = xp.log(a)
        self.log_b = xp.log(b)
        super().__init__()
        columns = b.shape[0]
        self.newton_from = (
            NEWTON_AFTER + columns // NEWTON_COLUMNS if newton_from is None else newton_from
        )
        if columns > NEWTON_AT_MOST or precision(b) > COARSE:
            self.newton_from = math.inf
        self.restart(v)

    def restart(self, v: Array) -> None:
        """Put the potential v into the kernel; scalings start from 1."""
        self.form_kernel(v)
        xp = namespace(v)
        if float(xp.min(xp.sum(self.K, axis=0) / self.b)) < math.exp(-largest_log_scaling(v)):
            self.form_kernel(self.lifted_columns())
        self.anderson.forget()
        self.state = self.evaluate(xp.zeros_like(v))

    def form_kernel(self, v: Array) -> None:
        xp = namespace(v)
        # a constant means nothing to the plan and drowns the digits of the dual
        v = v - dot(self.b, v) / total(self.b)
        self.K, self.v, self.u = xp.empty_like(self.c), v, xp.empty_like(self.a)
        for rows in row_blocks(self.c):
            exponent = v[None, :] - self.c[rows]
            exponent /= self.weight
            self.K[rows], log_sums = normalised_rows(exponent, self.a[rows])
            self.u[rows] = self.weight * (self.log_a[rows] - log_sums)
        self.passes += 1

    def lifted_columns(self) -> Array:
        """A column update in the log domain, for columns whose entries the kernel has lost."""
        self.passes += 1
        log_sums = log_sum_exp((self.u[:, None] - self.c) / self.weight, axis=0)
        return self.weight * (self.log_b - log_sums)

    def evaluate(self, x: Array) -> ScalingState:
        xp = namespace(x)
        s = xp.exp(x)
        rows = self.a / (self.K @ s)
        columns = s * (self.K.T @ rows)
        dual = dot(self.a, self.u + self.weight * xp.log(rows)) + dot(
            self.b, self.v + self.weight * x
        )
        self.passes += 1
        return ScalingState(
            x,
            rows,
            columns,
            dual,
            total(xp.abs(columns - self.b)),
            x + self.log_b - log_or_least(columns),
        )

    def proposed(self) -> Array:
        """Anderson's point, or Newton's after many passes. If Newton's was refused, it is tried
        again a few passes later.
        """
        if self.passes < self.newton_from:
            return super().proposed()
        self.passes += self.b.shape[0] // NEWTON_COLUMNS
        return self.state.x + self.newton_step()

    def refused(self) -> None:
        super().refused()
        self.newton_from = max(self.newton_from, self.passes + NEWTON_AGAIN)

    def newton_step(self) -> Array:
        """A step of Newton's method on the dual in the log-scaling, cut to a length that exp can
        follow.
        """
        xp = namespace(self.v)
        state = self.state
        plan = self.K * xp.exp(state.x)[None, :]
        plan *= (state.rows / xp.sqrt(self.a))[:, None]
        mass = total(self.b)
        lift = self.b[:, None] * (self.b / mass)[None, :]  # a constant changes nothing

        def curvature() -> Array:
            result = lift - plan.T @ plan
            diagonal = xp.arange(result.shape[0])
            result[diagonal, diagonal] += state.columns
            return result

        factor = cholesky(curvature, ridge=LIFT * float(xp.max(state.columns)))
        step = solve_cholesky(factor, self.b - state.columns)
        longest = float(xp.max(xp.abs(step)))
        return step if longest <= FARTHEST_SCALING else step * (FARTHEST_SCALING / longest)

    @property
    def absorbed(self) -> Array:
        return self.v

    @property
    def potentials(self) -> Potentials:
        u = self.u + self.weight * namespace(self.u).log(self.state.rows)
        return Potentials(u, self.potential)

    @property
    def magnitude(self) -> float:
        """The size of the dual's terms: potentials, and the logarithms of the sums of exponentials
        behind them.
        """
        size, (u, v) = namespace(self.v).abs, self.potentials
        logarithms = (
            self.weight * total(self.a) * (1.0 + math.log2(self.c.shape[0] * self.c.shape[1]))
        )
        return dot(self.a, size(u)) + dot(self.b, size(v)) + logarithms

    def certified(self) -> Certified:
        """The scaled kernel as a plan of exact marginals, with its cost and entropy term in one
        pass.
        """
        xp = namespace(self.v)
        state = self.state
        rescaled = Rescaled.of(
            self.K,
            self.a,
            self.b,
            by_row=state.rows,
            by_column=xp.exp(state.x),
            columns=state.columns,
        )
        plan = xp.empty_like(self.K)
        cost = 0.0
        entropy = 0.0
        for rows, part in rescaled.blocks(self.K):
            plan[rows] = part
            cost += dot(self.c[rows], part)
            entropy += dot(part, log_or_least(part))
        value = self.weight * entropy
        answer = Answer(plan, state.dual, value, warm=self.potentials, magnitude=self.magnitude)
        return Certified(answer, cost + value - state.dual)
