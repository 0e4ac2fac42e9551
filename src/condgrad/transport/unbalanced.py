"""Transport of a part of the mass: of a given mass, or with a penalty for wrong marginals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condgrad import _checks, deadline, sets, simple, smooth
from condgrad.arrays import (
    Array,
    Space,
    Vector,
    at_least,
    cholesky,
    differences,
    dot,
    double,
    log_or_least,
    log_sum_exp,
    mixed,
    namespace,
    smallest,
    solve_cholesky,
    total,
)
from condgrad.arrays.inputs import floating
from condgrad.certificate import Terms
from condgrad.loop import Callback, run
from condgrad.minimize import minimize
from condgrad.newton.ascent import Ascent, AscentProgress, Newton, Primal
from condgrad.newton.entropic_path import EntropyPath
from condgrad.problem import Answer, Simple, Smooth
from condgrad.result import AnswerOfRun, Result
from condgrad.rounding import LIFT
from condgrad.search.restriction import Quadratic, Restriction, combined
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.simple.entropy import EntropyRestriction
from condgrad.simple.oracle import Unknown
from condgrad.stopping import RelativeGap
from condgrad.transport.barycenter import smooth_part
from condgrad.transport.regularizers import Regularizer
from condgrad.transport.solve import weights_like

LARGEST_PRICE_EXPONENT = 500.0
"""exp of this does not overflow, nor do products of such numbers. If a potential leads to larger
exponents, the bound is -inf.
"""


@dataclass(frozen=True, repr=False, eq=False)
class RelaxedPlan(AnswerOfRun):
    """A plan whose marginals may differ from a and b, with its proof.

    `transport.partial` and `transport.unbalanced` return it.

    Attributes
    ----------
    plan : array, shape (n, m)
        The plan. Its row and column sums are `sources` and `targets`.
    result : Result
        The run, with its certificate.

    Examples
    --------
    >>> import condgrad as cg
    >>> t = cg.transport.partial([[0.0, 1.0], [1.0, 5.0]], mass=0.5, entropy=0.01)
    >>> round(t.mass, 6), t.sources.round(3).tolist()
    (0.5, [0.5, 0.0])
    """

    plan: Array
    result: Result

    @property
    def mass(self) -> float:
        """The mass that the plan moves."""
        return total(self.plan)

    @property
    def sources(self) -> Array:
        """The mass that leaves each source: the row sums."""
        return namespace(self.plan).sum(self.plan, axis=1)

    @property
    def targets(self) -> Array:
        """The mass that each target gets: the column sums."""
        return namespace(self.plan).sum(self.plan, axis=0)

    def apply(self, Y: Array) -> Array:
        """plan @ Y."""
        return self.plan @ Y

    def apply_transpose(self, Y: Array) -> Array:
        """plan' @ Y."""
        return self.plan.T @ Y

    def barycenters(self, Y: Array) -> Array:
        """Where each source goes: the mean of the rows of Y, weighted by the source's row of the
        plan. It is NaN for a source that sends nothing.
        """
        mass = self.sources[:, None]
        return self.apply(Y) / namespace(mass).where(mass > 0.0, mass, math.nan)

    def __repr__(self) -> str:
        n, m = self.plan.shape
        proof = f"value={self.value:.10g}, gap={self.gap:.3g}"
        return f"RelaxedPlan({n} x {m}, mass={self.mass:.6g}, {self.status}, {proof})"


def partial(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    mass: float,
    entropy: float,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    engine: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> RelaxedPlan:
    """The best plan that moves a given part of the mass.

    It minimises <C, G> + entropy sum G log G + regularisers over plans G >= 0 with row sums <= a,
    column sums <= b, and the total mass `mass`.

    Parameters
    ----------
    cost : array, shape (n, m)
        The cost C of each pair.
    a, b : arrays, optional
        Weights >= 0. Their sums may differ. Uniform with the sum 1 by default.
    mass : float
        The mass to move: above 0, and at most the sum of a and the sum of b.
    entropy : float
        Weight of the entropy sum G log G. Mass that does not move has no entropy. With 0 the solver
        uses linear programs.
    regularizers, method, engine, tol, max_iter, time_limit, callback, progress
        As in `transport.solve`.

    Returns
    -------
    RelaxedPlan

    Examples
    --------
    Half of the mass goes where it costs nothing:

    >>> import condgrad as cg
    >>> cg.transport.partial([[0.0, 1.0], [1.0, 5.0]], mass=0.5, entropy=0.01).plan.round(3).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    C, a, b = _cost_and_weights(cost, a, b)
    P = sets.PartialTransport(a, b, mass, engine=engine)
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    if not isinstance(regularizers, list | tuple):
        raise TypeError(f"regularizers must be a list, got {regularizers!r}")
    f: Smooth = smooth.Linear(C)
    for k, regularizer in enumerate(regularizers):
        f = f + smooth_part(f"regularizers[{k}]", regularizer, C)
    g: Simple = simple.Entropy(entropy, on=P) if entropy > 0.0 else simple.Zero(on=P)
    result = minimize(
        f,
        g,
        method=method,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        callback=callback,
        progress=progress,
    )
    return RelaxedPlan(result.x, result)


def unbalanced(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float,
    penalty: float | tuple[float, float],
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> RelaxedPlan:
    """Unbalanced transport: the marginals may differ from a and b, at a price.

    It minimises <C, G> + entropy KL(G | a b'/s) + penalty_a KL(G 1 | a) + penalty_b KL(G'1 | b)
    over G >= 0, by Newton's method. Here KL(x | y) = sum x log(x/y) - x + y, and s is the geometric
    mean of sum a and sum b. Some facts about this objective:

    - If you multiply both a and b by m, the plan and the value are multiplied by m.
    - If the product of the two sums is 1, it is the objective of POT's `sinkhorn_unbalanced`.
    - If both sums are 1 and the penalties grow, it becomes the objective of `transport.solve` minus
      the constant entropy * (sum a log a + sum b log b).

    Parameters
    ----------
    cost : array, shape (n, m)
        The cost C of each pair.
    a, b : arrays, optional
        Weights >= 0. Their sums may differ. Uniform with the sum 1 by default.
    entropy : float
        Weight of the entropy term, > 0.
    penalty : float or a pair
        penalty_a and penalty_b, or one number for both, > 0. One of the two may be `math.inf`: then
        this marginal is exact.
    tol, max_iter, time_limit, callback
        As in `condgrad.minimize`.

    Returns
    -------
    RelaxedPlan

    Examples
    --------
    The second source is far from everything. It is cheaper to leave its mass behind than to carry
    it:

    >>> import condgrad as cg
    >>> t = cg.transport.unbalanced([[0.0, 0.1], [9.0, 9.0]], entropy=0.05, penalty=1.0)
    >>> t.success, bool(t.sources[1] < 0.01 * t.sources[0])
    (True, True)
    """
    C, a, b = _cost_and_weights(cost, a, b)
    entropy = _checks.number("entropy", entropy, above=0.0)
    for_a, for_b = _penalties(penalty)
    xp = namespace(C)
    for name, weights in (("a", a), ("b", b)):
        if float(xp.min(weights)) < 0.0 or total(weights) <= 0.0:
            raise ValueError(f"{name} must hold weights >= 0, not all 0, got {weights!r}")
    _checks.number("tol", tol, at_least=0.0)
    _checks.whole("max_iter", max_iter, at_least=0)
    rows = xp.nonzero(a > 0.0)[0]
    columns = xp.nonzero(b > 0.0)[0]
    part = C[rows, :][:, columns]
    a = a[rows]
    b = b[columns]
    # the potentials of rows are eliminated: exact ones must be rows, and else the fewer points are
    # columns
    turned = for_b == math.inf or (for_a < math.inf and len(rows) < len(columns))
    if turned:
        part, a, b, for_a, for_b = part.T, b, a, for_b, for_a
    problem = RelaxedProblem(part, a, b, entropy, for_a, for_b)
    start = problem.product_plan()
    f = problem.smooth
    g = problem.simple
    with deadline.within(time_limit):
        result = run(
            Newton(f, g, problem),
            start,
            stop=RelativeGap(tol),
            max_iter=max_iter,
            # where the costs are 0 the start is the solution, and a gap is measured against the
            # entropy's own size
            null_size=Terms(f.at(start).value, g.value(start)).size + entropy * problem.mass,
            callback=callback,
        )
    plan = xp.zeros_like(C)
    plan[rows[:, None], columns[None, :]] = result.x.T if turned else result.x
    return RelaxedPlan(plan, result)


def _penalties(penalty: Any) -> tuple[float, float]:
    pair = tuple(penalty) if isinstance(penalty, tuple | list) else (penalty, penalty)
    if len(pair) != 2:
        raise ValueError(f"penalty must be a number or a pair, got {penalty!r}")
    checked = [math.inf if p == math.inf else _checks.number("penalty", p, above=0.0) for p in pair]
    if checked == [math.inf, math.inf]:
        raise ValueError("penalty is infinite on both sides: use transport.solve")
    return checked[0], checked[1]


def _cost_and_weights(cost: Any, a: Any, b: Any) -> tuple[Array, Array, Array]:
    """In float64, of one library."""
    C = double(floating("cost", cost, ndim=2))
    if 0 in C.shape:
        raise ValueError(f"cost must not be empty, got shape {tuple(C.shape)}")
    return C, weights_like("a", a, C, C.shape, 0), weights_like("b", b, C, C.shape, 1)


def divergence_from(x: Array, reference: Array, log_reference: Array) -> float:
    """KL(x | reference) = sum x log(x / reference) - x + reference."""
    return dot(x, log_or_least(x) - log_reference) - total(x) + total(reference)


def marginal_divergence(x: Array, weights: Array) -> float:
    """KL(x | weights) for positive weights, by (1 + d) log(1 + d) - d with d = x/weights - 1.

    Under a large penalty x is near the weights, where sum x log(x/weights) - x + weights would lose
    all digits.
    """
    xp = namespace(x)
    d = (x - weights) / weights
    near = d + 0.5 > 0.0
    logs = xp.where(near, xp.log1p(xp.where(near, d, 0.0)), log_or_least(x) - xp.log(weights))
    return dot(weights, (1.0 + d) * logs - d)


class MarginalPenalty(Smooth):
    """f(G) = penalty_a KL(G 1 | a) + penalty_b KL(G'1 | b) for positive a, b.

    If penalty_a is infinite, its term is left out: the row sums are then exact. f depends on a plan
    only through its marginals.
    """

    def __init__(self, a: Array, b: Array, for_a: float, for_b: float) -> None:
        xp = namespace(a)
        self.space = Space.of(a, shape=(a.shape[0], b.shape[0]))
        # where the marginal is exact there is nothing to pay
        self.sides = [(0 if for_a == math.inf else for_a, a, xp.log(a)), (for_b, b, xp.log(b))]

    def __repr__(self) -> str:
        return f"MarginalPenalty({self.sides[0][0]:g}, {self.sides[1][0]:g})"

    def at(self, x: Array) -> MarginalEvaluation:
        xp = namespace(x)
        return MarginalEvaluation(self, [xp.sum(x, axis=1), xp.sum(x, axis=0)])


class MarginalEvaluation:
    """The penalty at a plan, from its row and column sums."""

    def __init__(self, f: MarginalPenalty, sums: list[Array]) -> None:
        self.f = f
        self.sums = sums

    @cached_property
    def value(self) -> float:
        return sum(
            p * marginal_divergence(x, w)
            for (p, w, _), x in zip(self.f.sides, self.sums, strict=True)
        )

    @cached_property
    def slopes(self) -> list[Array]:
        """The gradients in the row sums and in the column sums."""
        return [
            p * (log_or_least(x) - logs)
            for (p, _, logs), x in zip(self.f.sides, self.sums, strict=True)
        ]

    @property
    def gradient(self) -> Array:
        return self.slopes[0][:, None] + self.slopes[1][None, :]

    @property
    def offset(self) -> float:
        return sum(p * total(w - x) for (p, w, _), x in zip(self.f.sides, self.sums, strict=True))

    def magnitude(self, other: MarginalEvaluation) -> float:
        size = 0.0
        for (p, w, _), slope, x, y in zip(
            self.f.sides, self.slopes, self.sums, other.sums, strict=True
        ):
            size += dot(namespace(y).abs(slope), y) + p * total(namespace(y).abs(x - w))
        return size

    def along(self, others: Sequence[MarginalEvaluation], directions: Array) -> Restriction:
        terms: list[Restriction] = []
        for side, (p, _, logs) in enumerate(self.f.sides):
            if p > 0:
                moves = differences([other.sums[side] for other in others], self.sums[side])
                terms.append(divergence_along(p, self.sums[side], logs, moves))
        return combined([1.0] * len(terms), terms)

    def moved(
        self, x: Array, others: Sequence[MarginalEvaluation], a: Vector
    ) -> MarginalEvaluation:
        sums = [
            mixed(self.sums[side], [other.sums[side] for other in others], a) for side in (0, 1)
        ]
        return MarginalEvaluation(self.f, sums)


def divergence_along(
    weight: float, x: Array, log_reference: Array, directions: Array
) -> Restriction:
    """weight * KL(. | reference), but for a constant, at x + sum_i a_i directions[i]."""
    slope = np.array([-dot(log_reference + 1.0, d) for d in directions])
    constant = -dot(log_reference + 1.0, x)
    linear = Quadratic(weight * constant, weight * slope, np.zeros((len(slope), len(slope))))
    return combined([1.0, 1.0], [EntropyRestriction(weight, x, directions), linear])


class RelativeEntropy(Simple):
    """g(G) = weight KL(G | R) over G >= 0, whose rows sum to `exact_rows` where these are given."""

    def __init__(self, weight: float, reference: Array, *, exact_rows: Array | None) -> None:
        self.weight = weight
        self.reference = reference
        self.exact_rows = exact_rows
        self.log_reference = namespace(reference).log(reference)
        self.on = Unknown()  # bounded by what f asks for growing plans

    def value(self, x: Array) -> float:
        return self.weight * divergence_from(x, self.reference, self.log_reference)

    def magnitude(self, x: Array, value: float) -> float:
        size = namespace(x).abs
        logs = dot(x, size(log_or_least(x))) + dot(x, size(self.log_reference))
        return self.weight * (logs + total(x) + total(self.reference))

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        """R exp(-c/weight), its rows scaled where they are exact; the value is known in closed
        form.
        """
        xp = namespace(c)
        exponent = self.log_reference - c / self.weight
        if self.exact_rows is not None:
            rows = self.exact_rows
            log_sums = log_sum_exp(exponent, axis=1)
            point = xp.exp(exponent - log_sums[:, None]) * rows[:, None]
            logs = xp.log(rows) - log_sums
            bound = self.weight * (dot(rows, logs) - total(rows) + total(self.reference))
            size = dot(rows, xp.abs(logs) + xp.abs(log_sums) + 1.0) + total(self.reference)
            return Answer(point, bound, magnitude=self.weight * size)
        point = xp.exp(-at_least(-LARGEST_PRICE_EXPONENT, -exponent))
        cut_off = float(xp.max(exponent)) > LARGEST_PRICE_EXPONENT
        bound = -math.inf if cut_off else self.weight * (total(self.reference) - total(point))
        return Answer(point, bound, magnitude=self.weight * (total(self.reference) + total(point)))

    def along(self, x: Array, directions: Array) -> Restriction:
        return divergence_along(self.weight, x, self.log_reference, directions)


class RelaxedPoint(NamedTuple):
    """The dual function at column potentials v and the plan it is attained by."""

    u: Array
    v: Array
    entropy: float
    G: Array
    rows: Array
    """Row sums of G."""
    columns: Array
    """Column sums of G."""
    wanted: Array
    """b exp(-v/penalty_b): what the columns of an optimal plan sum to."""
    dual: float
    magnitude: float

    @property
    def z(self) -> Array:
        return self.v


class RelaxedProblem(EntropyPath):
    """Relaxed transport for positive weights, and its dual model for Newton on the certificate.

    Let e be the entropy, and R = a b'/s. The dual function of potentials u and v is

        D = sum_i a_i phi_a(u_i) + sum_j b_j phi_b(v_j) - e (sum G - sum R),     G_ij = R_ij exp((u_i + v_j - C_ij)/e),
        phi(u) = -penalty (exp(-u/penalty) - 1),   or u for an infinite penalty.

    The best u for a given v is -l_i/(1/e + 1/penalty_a), l_i = log sum_j (b_j/s) exp((v_j -
    C_ij)/e). The curvature in v that is left is diag(b exp(-v/penalty_b)/penalty_b + G'1/e) - G'
    diag(1/(G 1 (1 + e/penalty_a))) G/e.
    """

    affordable = True

    def __init__(
        self, C: Array, a: Array, b: Array, entropy: float, for_a: float, for_b: float
    ) -> None:
        xp = namespace(C)
        self.C = C
        self.a = a
        self.b = b
        self.entropy = entropy
        self.for_a = for_a
        self.for_b = for_b
        self.mass = math.sqrt(total(a) * total(b))
        self.reference = a[:, None] * (b / self.mass)[None, :]
        self.log_share = xp.log(b / self.mass)
        # unlike between exact marginals, a constant in the costs matters
        self.height = float(xp.max(xp.abs(C)))
        self.smooth = smooth.Linear(C) + MarginalPenalty(a, b, for_a, for_b)
        self.simple = RelativeEntropy(
            entropy, self.reference, exact_rows=a if for_a == math.inf else None
        )

    def product_plan(self) -> Array:
        """R, scaled to the mass of a if this marginal is exact.

        It is the plan to start from, and the scale of the gaps is computed from it.
        """
        return (
            self.reference * (self.mass / total(self.b))
            if self.for_a == math.inf
            else self.reference
        )

    def start(self, x: Array) -> Array:
        """The potential of every column if all costs were the least one, m.

        With w = entropy + penalty_a + penalty_b, the constants u = m penalty_a/w and
        v = m penalty_b/w leave exponents of at most -m/w everywhere. So the first bound is at least
        -(penalty_a sum a + penalty_b sum b + entropy sum R) expm1(-m/w), and >= 0 for costs >= 0.
        From v = 0, costs below 0 lead to exponents of -m/(entropy + penalty_a), and to no bound.
        """
        least = float(namespace(self.C).min(self.C))
        share = self.for_b / (self.entropy + self.for_a + self.for_b)
        return namespace(self.b).zeros_like(self.b) + least * share

    def moved(self, z: Array, direction: Array, step: float) -> Array:
        return z + step * direction

    def evaluate(self, z: Array, t: float) -> RelaxedPoint:
        xp = namespace(z)
        e = t * self.entropy
        v = z
        exponent = (v[None, :] - self.C) / e + self.log_share[None, :]
        G, log_sums = normalised_rows(exponent, xp.ones_like(self.a))
        u = -log_sums / (1.0 / e + 1.0 / self.for_a)
        price_a, factor = self._price(u, self.for_a)
        rows = self.a * factor  # what G sums to at the best u
        G *= rows[:, None]
        columns = xp.sum(G, axis=0)
        price_b, factor = self._price(v, self.for_b)
        carried = total(G)
        reference = total(self.reference)
        dual = dot(self.a, price_a) + dot(self.b, price_b) - e * (carried - reference)
        if (
            max(float(xp.max(-u / self.for_a)), float(xp.max(-v / self.for_b)))
            > LARGEST_PRICE_EXPONENT
        ):
            dual = -math.inf  # the prices are cut off, and the true ones are lower
        size = xp.abs
        # the exponents of G are sums of costs, potentials and logarithms
        exponents = float(xp.max(size(self.C))) + e * (
            1.0 + math.log2(self.C.shape[0] * self.C.shape[1])
        )
        magnitude = (
            dot(self.a, size(price_a))
            + dot(self.b, size(price_b))
            + e * reference
            + carried * exponents
        )
        magnitude += dot(rows, size(u)) + dot(columns, size(v))
        return RelaxedPoint(u, v, e, G, rows, columns, self.b * factor, dual, magnitude)

    def _price(self, u: Array, penalty: float) -> tuple[Array, Array]:
        """phi(u) and its derivative, both cut off where they would overflow."""
        xp = namespace(u)
        if penalty == math.inf:
            return u, xp.ones_like(u)
        exponent = -at_least(-LARGEST_PRICE_EXPONENT, u / penalty)
        return -penalty * xp.expm1(exponent), xp.exp(exponent)

    def primal(self, point: RelaxedPoint) -> Primal:
        here = self.smooth.at(point.G)
        return Primal(point.G, Terms(here.value, self.simple.value(point.G)), here.magnitude(here))

    def ascent(self, point: RelaxedPoint, progress: AscentProgress) -> Ascent:
        xp = namespace(point.v)
        e = point.entropy
        residual = point.wanted - point.columns
        if bool(xp.any(point.columns < smallest(point.columns))):
            # a quadratic knows nothing of columns with less mass than floats can hold; Sinkhorn's
            # step, which is ascent too, brings it back
            dv = self._sinkhorn_step(point)
            return Ascent(dv, dot(residual, dv), 1)
        diagonal = point.wanted / self.for_b + point.columns / e
        # rows that carry less than a float can hold have none of the curvature
        shares = point.G / at_least(smallest(point.G), point.rows)[:, None]
        relaxed = e + e * e / self.for_a

        def curvature() -> Array:
            result = -(point.G.T @ shares) / relaxed
            places = xp.arange(result.shape[0])
            result[places, places] += diagonal
            return result

        dv = solve_cholesky(cholesky(curvature, ridge=LIFT * float(xp.max(diagonal))), residual)
        return Ascent(dv, dot(residual, dv), 1)

    def _sinkhorn_step(self, point: RelaxedPoint) -> Array:
        """To the best v for this u, in the log domain: columns may be too light for a float.

        Then to the best constant that u loses and v gains, which changes no plan. Sinkhorn's
        iteration alone would find it slowly where penalties are large against the entropy
        (Sejourne, Vialard, Peyre, AISTATS 2022).
        """
        xp = namespace(point.v)
        e = point.entropy
        exponent = (point.u[:, None] - self.C) / e + xp.log(self.a)[:, None]
        log_sums = log_sum_exp(exponent, axis=0) - math.log(self.mass)
        v = -log_sums / (1.0 / e + 1.0 / self.for_b)
        log_b = float(log_sum_exp(xp.log(self.b) - v / self.for_b, axis=0))
        log_a = float(log_sum_exp(xp.log(self.a) - point.u / self.for_a, axis=0))
        return v + (log_b - log_a) / (1.0 / self.for_a + 1.0 / self.for_b) - point.v
