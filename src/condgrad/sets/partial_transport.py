"""Plans that carry a part of the mass: a polytope, and its entropic problem by two Bregman
projections or by Newton.

The dual of min <c, G> + e sum G log G over G >= 0, G 1 <= a, G'1 <= b, sum G = s, is concave in u
<= 0, v <= 0 and a number mu,

    D(u, v, mu) = <a, u> + <b, v> + s mu - e (sum_ij exp((u_i + v_j + mu - c_ij)/e) - s).

For a given v, the best u and mu have a closed form. With R_i = sum_j exp((v_j - c_ij)/e), the row
sums become min(a_i, t R_i), with t such that they add up to s. For a given u, the same holds for
the columns. Rows and columns in turn are Dykstra's projections of Benamou et al. (SIAM J. Sci.
Comput. 37, 2015). The problem is a transport problem with one more point on each side. These points
take the mass that is not carried, at no cost and without entropy.

At small entropies projections are very slow. Then Newton's method takes over; see `PricedTransport`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condgrad import _checks, deadline
from condgrad.arrays import (
    Array,
    Space,
    at_least,
    cholesky,
    dot,
    host,
    like,
    log_or_least,
    log_sum_exp,
    namespace,
    solve_cholesky,
    total,
)
from condgrad.arrays.inputs import floating
from condgrad.certificate import Terms
from condgrad.newton.ascent import Ascent, AscentProgress, DualModel, Newton, Primal
from condgrad.problem import Answer, Set
from condgrad.rounding import LIFT, ON_BOUNDARY, SAME_MASS
from condgrad.sets.anderson import MAX_PASSES, AcceleratedScaling, Certified, scaled_start
from condgrad.sets.linprog import LINPROG_ENGINES
from condgrad.sets.marginals import kept_share
from condgrad.sets.sinkhorn import Potentials, height_of, normalised_rows
from condgrad.simple.entropy import Entropy, negentropy
from condgrad.smooth.linear import Linear

PASSES_BEFORE_NEWTON = 200
"""After this many passes of projections, Newton's method takes over."""
LARGEST_FACTOR = 4000
"""If both sides have more points, Newton's method is not used: it would factor a matrix of this
size.
"""
STARVED_COLUMN = 1e-3
"""If a column with a price below 0 has less than this share of its weight, a projection is made
instead of a Newton step.
"""
FARTHEST_PRICE = 10.0
"""A Newton step that moves a price by more entropies than this is first shortened to it: if the
plan falls into parts, the prices of a part are loose.
"""


class PartialTransport(Set):
    """The partial transport plans {G in R^{n x m} : G >= 0, G 1 <= a, G' 1 <= b, sum G = mass}.

    A plan moves only a part of the weights a of n sources to a part of the weights b of m targets.

    Parameters
    ----------
    a, b : arrays of weights >= 0
        Their sums may differ.
    mass : float
        The mass to move: above 0, and at most the smaller of the two sums.
    engine : {"auto", "emd", "highs", "cvxopt", "mosek"}
        The solver of linear programs, as in `sets.Transport`.

    Examples
    --------
    Only half of the mass is moved, and it takes the cheapest pair:

    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.PartialTransport([0.5, 0.5], [0.5, 0.5], mass=0.5)
    >>> cost = np.array([[0.0, 1.0], [1.0, 5.0]])
    >>> P.linear_argmin(cost).point.tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    nonnegative = True

    def __init__(self, a: Any, b: Any, mass: float, *, engine: str = "auto") -> None:
        if engine not in LINPROG_ENGINES:
            raise ValueError(
                f"engine must be one of {', '.join(map(repr, LINPROG_ENGINES))}, got {engine!r}"
            )
        self.engine = engine
        self.a = floating("a", a, ndim=1)
        self.b = floating("b", b, ndim=1)
        for name, weights in (("a", self.a), ("b", self.b)):
            if weights.shape[0] == 0 or float(namespace(weights).min(weights)) < 0.0:
                raise ValueError(f"{name} must hold one or more weights >= 0, got {weights!r}")
        self.mass = _checks.number("mass", mass, above=0.0)
        most = min(total(self.a), total(self.b))
        if self.mass > most * (1.0 + SAME_MASS):
            raise ValueError(
                f"mass must be no more than {most:.12g}, the smaller mass of a and b, got {mass!r}"
            )
        self.mass = min(self.mass, most)
        self.shape = (self.a.shape[0], self.b.shape[0])
        self.space = Space.of(self.a, shape=self.shape)
        largest = min(float(namespace(self.a).max(self.a)), float(namespace(self.b).max(self.b)))
        self.scale = self.largest_entry = min(largest, self.mass)

    def __repr__(self) -> str:
        return f"PartialTransport({self.shape[0]} x {self.shape[1]}, mass={self.mass:g})"  # type: ignore[index]

    def start(self, space: Space) -> Array:
        density = self.mass / (total(self.a) * total(self.b))
        return space.hold(self.a[:, None] * (density * self.b)[None, :])

    def violation(self, x: Array) -> float:
        xp = namespace(x)
        rows = float(xp.max(xp.sum(x, axis=1) - like(self.a, x)))
        columns = float(xp.max(xp.sum(x, axis=0) - like(self.b, x)))
        return max(0.0, -float(xp.min(x)), rows, columns, abs(total(x) - self.mass))

    def rounded(self, plan: Array) -> Array:
        """A plan of the set near a given nonnegative matrix. Rows and columns that are too heavy
        are scaled down, and the missing mass is spread.
        """
        xp = namespace(plan)
        a = like(self.a, plan)
        b = like(self.b, plan)
        plan = plan * kept_share(xp.sum(plan, axis=1), a)[:, None]
        plan = plan * kept_share(xp.sum(plan, axis=0), b)[None, :]
        carried = total(plan)
        if carried >= self.mass:
            return plan * (self.mass / carried)
        free_a = at_least(0.0, a - xp.sum(plan, axis=1))
        free_b = at_least(0.0, b - xp.sum(plan, axis=0))
        # no more than what is free: the mass that is missing is no more than the sum of either
        missing = self.mass - carried
        return (
            plan
            + free_a[:, None]
            * (free_b * (missing / ((total(free_a) * total(free_b)) or 1.0)))[None, :]
        )

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """Dykstra's projections. They start from the column potentials of the last answer."""
        xp = namespace(c)
        a = like(self.a, c)
        b = like(self.b, c)
        rows = xp.nonzero(a > 0.0)[0]
        columns = xp.nonzero(b > 0.0)[0]
        # points without weight take no part
        part = c[rows, :][:, columns]
        a = a[rows]
        b = b[columns]
        loaded = PartialTransport(a, b, self.mass)
        if warm is None:
            start, passes = scaled_start(
                lambda t, v: Projections(loaded, part, t, v),
                xp.zeros_like(b),
                height=height_of(part),
                mass=self.mass,
                weight=weight,
            )
        else:
            start, passes = warm.v[columns], 0
        run = Projections(loaded, part, weight, start)
        newton_fits = min(len(rows), len(columns)) <= LARGEST_FACTOR
        found = run.solve(accuracy, PASSES_BEFORE_NEWTON if newton_fits else MAX_PASSES)
        passes += run.passes
        if found.gap > accuracy and newton_fits and not deadline.passed():
            better, steps = loaded.by_newton(part, weight, found.answer.warm, accuracy)
            passes += steps
            found = better if better.gap < found.gap else found
        point = xp.zeros_like(c)
        point[rows[:, None], columns[None, :]] = found.answer.point
        whole = Potentials(xp.zeros_like(c[:, 0]), xp.zeros_like(c[0, :]))
        whole.u[rows], whole.v[columns] = found.answer.warm
        return found.answer._replace(point=point, inner_iterations=passes, warm=whole)

    def by_newton(
        self, c: Array, weight: float, start: Potentials, accuracy: float
    ) -> tuple[Certified, int]:
        """The answer of Newton's method along a path of entropies, and the number of its steps.

        All weights must be positive. The linear systems have one row and one column for each column
        of the plan. So the side with fewer points should be the columns.
        """
        if c.shape[0] < c.shape[1]:
            turned = PartialTransport(self.b, self.a, self.mass)
            found, steps = turned.by_newton(c.T, weight, Potentials(start.v, start.u), accuracy)
            v, u = found.answer.warm
            answer = found.answer._replace(point=found.answer.point.T, warm=Potentials(u, v))
            return Certified(answer, found.gap), steps
        model = PricedTransport(self, c, weight, start.v)
        newton = Newton(Linear(c), Entropy(weight, on=self), model, wanted_absolutely=accuracy)
        first = model.evaluate(allowed_prices(start.v), 1.0).made.x
        best: Any = None
        bound = -math.inf
        steps = 0
        for here in itertools.islice(newton.iterates(first), MAX_PASSES):
            steps = here.effort.oracle_calls
            bound = max(bound, here.lower_bound)
            if best is None or here.terms.value < best.terms.value:
                best = here
            if best.terms.value - bound <= accuracy:
                break
        # what rounding may have done is given away in the bound already
        answer = Answer(best.x, bound, best.terms.g, warm=model.latest)
        return Certified(answer, best.terms.value - bound), steps

    def linear_argmin(self, c: Array) -> Answer:
        """Linear programming: transport with one more point on each side. The bound is the value of
        a feasible dual.
        """
        xp = namespace(c)
        costs = host(c)
        a = host(self.a)
        b = host(self.b)
        lowest = float(costs.min())
        height = height_of(costs) or 1.0
        # what is not carried costs nothing, but for going from one added point to the other
        padded = np.zeros((len(a) + 1, len(b) + 1))
        padded[:-1, :-1] = (costs - lowest) / height
        padded[-1, -1] = 2.0
        whole = a.sum() + b.sum() - self.mass
        left_over = [
            rest if rest > ON_BOUNDARY * whole else 0.0
            for rest in (b.sum() - self.mass, a.sum() - self.mass)
        ]
        left = np.append(a, left_over[0]) / whole
        right = np.append(b, left_over[1]) / whole
        plan, u = LINPROG_ENGINES[self.engine](padded, left, right)
        # rows without weight say nothing about the other potentials; theirs are the largest that
        # all columns allow
        loaded = left > 0.0
        v = (padded[loaded] - u[loaded][:, None]).min(axis=0)
        u = np.where(loaded, u, (padded - v[None, :]).min(axis=1))
        # prices of a dual that is feasible whatever the engine's tolerances: u, v <= 0, u_i + v_j +
        # mu <= c_ij
        u_of = np.minimum(0.0, u[:-1] + v[-1])
        v_of = np.minimum(0.0, v[:-1] + u[-1])
        mu = float((padded[:-1, :-1] - u_of[:, None] - v_of[None, :]).min())
        bound = height * float(a @ u_of + b @ v_of + self.mass * mu) + self.mass * lowest
        magnitude = height * float(
            a @ np.abs(u_of) + b @ np.abs(v_of) + self.mass * abs(mu)
        ) + self.mass * abs(lowest)
        point = self.rounded(like(whole * plan[:-1, :-1], c))
        warm = Potentials(like(height * u_of, c), like(height * v_of, c))
        return Answer(xp.asarray(point), bound, value=0.0, warm=warm, magnitude=magnitude)


def capped_sums(log_R: Array, caps: Array, mass: float) -> tuple[Array, float]:
    """The logarithms of min(caps_i, t R_i), t such that they add up to `mass`, and log t.

    Where all are at their caps, t is the least that brings them there.
    """
    xp = namespace(log_R)
    logs = host(log_R)
    most = host(caps)
    log_caps = np.log(most)
    threshold = log_caps - logs  # row i is at its cap from this log t on
    order = np.argsort(threshold)
    # with the first k rows at their caps, the others share what is left in proportion to R
    capped = np.concatenate([[0.0], np.cumsum(most[order])[:-1]])
    others = np.logaddexp.accumulate(logs[order][::-1])[::-1]
    left = mass - capped
    log_t = np.full(len(most), math.inf)
    log_t[left > 0.0] = np.log(left[left > 0.0]) - others[left > 0.0]
    fits = np.flatnonzero(log_t <= threshold[order])
    t = float(log_t[fits[0]] if len(fits) else threshold[order[-1]])
    return xp.asarray(like(np.minimum(log_caps, t + logs), log_R)), t


class DykstraState(NamedTuple):
    """A log-scaling x of the columns, with all that two products with the kernel tell."""

    x: Array
    rows: Array
    """Scaling of the rows, such that their sums are within a and add up to the mass."""
    log_t: float
    """mu / weight."""
    u: Array
    """u / weight, <= 0."""
    columns: Array
    """Column sums of the scaled kernel."""
    dual: float
    error: float
    """How far the columns are from what they would be after their own projection."""
    mapped: Array
    """The next x."""


class Projections(AcceleratedScaling):
    """Alternating projections on a kernel exp((w_i + v_j - c_ij)/weight) of row sums a, for a set
    of positive weights.
    """

    def __init__(self, on: PartialTransport, c: Array, weight: float, v: Array) -> None:
        self.on = on
        self.c = c
        self.a = on.a
        self.b = on.b
        self.mass = on.mass
        self.weight = weight
        self.log_a = namespace(c).log(on.a)
        super().__init__()
        self.restart(v)

    def restart(self, v: Array) -> None:
        """Put the potential v <= 0 into the kernel; scalings start from 1."""
        xp = namespace(v)
        self.v = -at_least(0.0, -v)
        self.K, log_sums = normalised_rows((self.v[None, :] - self.c) / self.weight, self.a)
        self.log_rows = log_sums - self.log_a
        """What the logarithms of the rows of exp((v - c)/weight) are above those of the kernel."""
        self.passes += 1
        self.anderson.forget()
        self.state = self.evaluate(xp.zeros_like(v))

    def evaluate(self, x: Array) -> DykstraState:
        xp = namespace(x)
        s = xp.exp(x)
        sums = log_or_least(self.K @ s)
        log_r, log_t = capped_sums(sums + self.log_rows, self.a, self.mass)
        rows = xp.exp(log_r - sums)
        columns = s * (self.K.T @ rows)
        # u = 0 where the sum is below its cap
        u = -at_least(0.0, sums + self.log_rows + log_t - log_r)
        carried = total(columns)
        dual = (
            dot(self.a, u)
            + dot(self.b, self.v / self.weight + x)
            + self.mass * log_t
            - (carried - self.mass)
        )
        # the kernel's columns for v = 0, up to the constant mu, which `capped_sums` finds anew
        log_C = log_or_least(columns) - x - self.v / self.weight
        log_c, log_s = capped_sums(log_C, self.b, self.mass)
        mapped = -at_least(0.0, log_C + log_s - log_c) - self.v / self.weight
        self.passes += 1
        return DykstraState(
            x,
            rows,
            log_t,
            u,
            columns,
            self.weight * dual,
            total(xp.abs(xp.exp(log_c) - columns)),
            mapped,
        )

    @property
    def absorbed(self) -> Array:
        return self.v

    def allowed(self, x: Array) -> Array:
        return namespace(x).minimum(x, -self.v / self.weight)  # v <= 0

    def certified(self) -> Certified:
        """The scaled kernel, whose rows are within a and add up to the mass, rounded."""
        xp = namespace(self.K)
        plan = self.state.rows[:, None] * self.K * xp.exp(self.state.x)[None, :]
        plan = self.on.rounded(plan)
        value = self.weight * negentropy(plan)
        bound = self.state.dual
        size = self.magnitude + self.mass * float(xp.max(xp.abs(self.c)))
        answer = Answer(plan, bound, value, warm=self.potentials, magnitude=size)
        return Certified(answer, dot(self.c, plan) + value - bound)

    @property
    def potentials(self) -> Potentials:
        """u and v, both <= 0."""
        return Potentials(self.weight * self.state.u, self.potential)

    @property
    def magnitude(self) -> float:
        """The size of the dual's terms: potentials, and the logarithms of the sums of exponentials
        behind them.
        """
        size, (u, v) = namespace(self.v).abs, self.potentials
        logarithms = self.weight * (
            1.0 + math.log2(self.c.shape[0] * self.c.shape[1]) + abs(self.state.log_t)
        )
        return dot(self.a, size(u)) + dot(self.b, size(v)) + self.mass * logarithms


@dataclass(frozen=True, eq=False)
class PricedPlan:
    """The dual function at column prices v <= 0, the best u and mu being known, and the plan it is
    attained by.
    """

    model: PricedTransport
    z: Array
    """v."""
    u: Array
    entropy: float
    plan: Array
    columns: Array
    """Column sums of the plan."""
    dual: float
    magnitude: float

    @cached_property
    def made(self) -> Primal:
        """The plan of the set."""
        model = self.model
        plan = model.on.rounded(self.plan)
        cost = dot(model.c, plan)
        terms = Terms(cost, model.entropy * negentropy(plan))
        return Primal(plan, terms, dot(namespace(plan).abs(model.c), plan))


class PricedTransport(DualModel):
    """The dual function of the column prices v <= 0 alone, for Newton on the certificate.

    Its gradient is b less the column sums of the plan G. A row at its cap a_i keeps its sum when v
    changes, by its price; the rows below their caps keep the sum of them all, by mu. So with g the
    sum of the latter rows and r its mass, the curvature is

        (diag(G'1) - sum_{i at its cap} G_i G_i'/a_i - g g'/r) / weight.

    Prices that are 0 and would rise are held there (Bertsekas, SIAM J. Control Optim. 20, 1982),
    and steps are cut off at 0. A constant in all prices is one in mu: the dual does not fall when
    it is chosen such that the largest is 0.
    """

    affordable = True

    def __init__(self, on: PartialTransport, c: Array, entropy: float, v: Array) -> None:
        self.on = on
        self.c = c
        self.entropy = entropy
        self.first = v
        self.height = height_of(c)
        self.largest = float(namespace(c).max(namespace(c).abs(c)))
        self.latest = Potentials(namespace(c).zeros_like(on.a), v)
        """Of the plan that was made last: another run may start from there."""

    def start(self, x: Array) -> Array:
        return allowed_prices(self.first)

    def farthest_stage(self, z: Array) -> float:
        return 0.5 * self.height / self.entropy

    def stage_tolerance(self, t: float) -> float:
        return 0.1 * t * self.entropy * self.on.mass

    def stage_gap(self, point: PricedPlan) -> float:
        terms = point.made.terms
        return terms.f + (point.entropy / self.entropy) * terms.g - point.dual

    def moved(self, z: Array, direction: Array, step: float) -> Array:
        return allowed_prices(z + step * direction)

    def evaluate(self, z: Array, t: float) -> PricedPlan:
        xp = namespace(z)
        on = self.on
        e = t * self.entropy
        plan, log_sums = normalised_rows((z[None, :] - self.c) / e, xp.ones_like(on.a))
        log_rows, log_t = capped_sums(log_sums, on.a, on.mass)
        plan *= xp.exp(log_rows)[:, None]
        u = -at_least(0.0, log_sums + log_t - log_rows)
        columns = xp.sum(plan, axis=0)
        dual = dot(on.a, u) + on.mass * log_t - (total(columns) - on.mass)
        logarithms = 1.0 + math.log2(self.c.shape[0] * self.c.shape[1]) + abs(log_t)
        size = e * (dot(on.a, xp.abs(u)) + on.mass * logarithms) + on.mass * self.largest
        return PricedPlan(
            self,
            z,
            e * u,
            e,
            plan,
            columns,
            e * dual + dot(on.b, z),
            size + dot(on.b, xp.abs(z)),
        )

    def primal(self, point: PricedPlan) -> Primal:
        self.latest = Potentials(point.u, point.z)
        return point.made

    def ascent(self, point: PricedPlan, progress: AscentProgress) -> Ascent:
        xp = namespace(point.z)
        slope = self.on.b - point.columns
        direction = self._direction(point, slope)
        longest = float(xp.max(xp.abs(direction)))
        if longest > FARTHEST_PRICE * point.entropy:
            direction = direction * (FARTHEST_PRICE * point.entropy / longest)
        return Ascent(direction, dot(slope, direction), 1)

    def slope_along(self, point: PricedPlan, direction: Array) -> float:
        return dot(self.on.b - point.columns, direction)

    def _direction(self, point: PricedPlan, slope: Array) -> Array:
        xp = namespace(point.z)
        v = point.z
        a = self.on.a
        if bool(xp.any((v < 0.0) & (point.columns < STARVED_COLUMN * self.on.b))):
            return self._projected(point) - v
        held = (v == 0.0) & (slope > 0.0)
        free = xp.nonzero(~held)[0]
        direction = xp.where(held, -v, 0.0)
        if len(free) == 0:
            return direction
        is_full = xp.sum(point.plan, axis=1) >= (1.0 - ON_BOUNDARY) * a
        at_cap = xp.nonzero(is_full)[0]
        sums = point.columns[free]
        rows = point.plan[at_cap, :][:, free]
        shared = xp.sum(point.plan[xp.nonzero(~is_full)[0], :], axis=0)
        mass_below = total(shared)

        def curvature() -> Array:
            result = -(rows.T @ (rows / a[at_cap][:, None]))
            if mass_below > 0.0:
                result -= shared[free][:, None] * (shared[free] / mass_below)[None, :]
            places = xp.arange(len(free))
            result[places, places] += sums
            return result

        factor = cholesky(curvature, ridge=LIFT * float(xp.max(sums)))
        direction[free] = point.entropy * solve_cholesky(factor, slope[free])
        return direction

    def _projected(self, point: PricedPlan) -> Array:
        """The prices after a projection of the columns, in the log domain: columns may be too light
        for a float.
        """
        log_sums = log_sum_exp((point.u[:, None] - self.c) / point.entropy, axis=0)
        log_columns, log_t = capped_sums(log_sums, self.on.b, self.on.mass)
        return -point.entropy * at_least(0.0, log_sums + log_t - log_columns)


def allowed_prices(v: Array) -> Array:
    """Prices <= 0, the largest of them 0."""
    v = -at_least(0.0, -v)
    return v - namespace(v).max(v)
