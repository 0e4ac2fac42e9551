"""Forbidden pairs: +inf in a cost is a pair that may not be matched.

Every engine sees finite costs. A pair that no plan can use gets a large cost, a *barrier*. This is
a relaxation: every plan that avoids these pairs is a plan of the relaxed problem, with the same
value. So its lower bounds are lower bounds of the problem itself. Its answer is moved onto the
usable pairs, with exact marginals, and F is computed there. If the barrier was too low for that, a
higher one is taken.

*Which pairs are usable?* Not all allowed pairs are. If the weights leave no choice, some allowed
pairs have mass 0 in every plan. Then the dual is not attained, and Sinkhorn's iteration is very
slow. Take one plan that avoids the forbidden pairs. In its residual graph there is an arc from i to
j if the pair is allowed, and an arc back if the plan has mass there. An allowed pair has mass in
some plan exactly if both of its ends are in the same strongly connected component: a cycle through
the pair moves mass. Each component has the same mass on both sides.

*What if there is no such plan?* Then some sources weigh more than all targets that they may go to
(Gale 1957; Hall's theorem for weights). The dual prices of the smallest mass on forbidden pairs
show such sources. Their sum and that of their targets are compared once more, correctly rounded:
this is the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from condgrad.arrays import Array, double, host, like, namespace, precision, total
from condgrad.certificate import Terms
from condgrad.errors import InfeasibleError
from condgrad.result import Status
from condgrad.rounding import SAME_MASS
from condgrad.sets import Transport
from condgrad.stopping import RelativeGap
from condgrad.streamed_plan import StreamedMatrix, StreamedPlan, tiles_of
from condgrad.transport.costs import BlockCost

SAME_SUM = 1e-12
"""Sums of weights count as equal if they differ by less than this part of the mass."""
NO_FLOW = 16.0
"""A pair counts as unused if its mass is below this many rounding units of the total mass."""
STEPS_UP, ENTROPIES_UP = 10.0, 1000.0
"""A barrier is above the largest cost by the first number of ranges of the cost, plus the second
number of entropies. exp(-746) is 0; the rest leaves room for potentials. The next barrier is
`STEPS_UP` times as high.
"""
TIGHTER = 0.1
"""After each attempt, the tolerance is multiplied by this, because the barrier enlarges the scale.
"""
ATTEMPTS = 6
SCALINGS = 50
"""Rows and columns are scaled at most this many times. Then a linear program places the rest."""
STREAMED_SCALINGS = 5
"""The same for a streamed plan, where each scaling is two passes over all pairs."""
ROOM = 10.0
"""The part of a plan that is placed anew is this many times what is missing. If that is not enough,
the part is multiplied by this again.
"""
EXACT_MARGINALS = 1e-14
"""Marginals count as exact if at most this part of the mass is missing from them."""


@dataclass(frozen=True, eq=False)
class Usable:
    """The pairs that some plan uses, by classes of points whose allowed partners are the same."""

    row_class: np.ndarray
    column_class: np.ndarray
    pairs: np.ndarray
    """Whether the points of two classes may be matched, in some plan."""
    class_plan: np.ndarray
    """The masses between classes in one plan."""
    a: np.ndarray
    b: np.ndarray
    """The weights, those of the targets so that each component has one mass to the last digit."""

    def cells(self) -> np.ndarray:
        """Whether a pair is usable, an array of n x m."""
        return self.pairs[self.row_class][:, self.column_class]

    def plan(self) -> np.ndarray:
        """One plan on the usable pairs."""
        mass_a = np.bincount(self.row_class, self.a, len(self.pairs))
        mass_b = np.bincount(self.column_class, self.b, self.pairs.shape[1])
        densities = self.class_plan / _or_one(mass_a)[:, None] / _or_one(mass_b)[None, :]
        plan = densities[self.row_class][:, self.column_class]
        plan *= self.a[:, None]
        plan *= self.b[None, :]
        return plan


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0.0, values, 1.0)


def usable_pairs(allowed: np.ndarray, a: Array, b: Array, *, which: str = "") -> Usable:
    """The allowed pairs that plans from a to b can use; an `InfeasibleError` if there is no plan.

    `which` names the problem, if it is one of several.
    """
    same_mass = SAME_SUM if precision(a) < SAME_SUM else SAME_MASS
    a = np.asarray(host(a), dtype=np.float64)
    b = np.asarray(host(b), dtype=np.float64)
    # points of one class are alike to all others, and those without weight are alike to everybody
    seen = allowed & (a > 0.0)[:, None] & (b > 0.0)[None, :]
    row_class = _classes(np.packbits(seen, axis=1), a > 0.0)
    column_class = _classes(np.packbits(seen.T, axis=1), b > 0.0)
    first_row = np.unique(row_class, return_index=True)[1]
    first_column = np.unique(column_class, return_index=True)[1]
    pairs = seen[first_row][:, first_column]
    mass_a = np.bincount(row_class, a, len(first_row))
    mass_b = np.bincount(column_class, b, len(first_column))
    mass = math.fsum(a)
    tolerance = same_mass * mass
    loaded = np.ix_(mass_a > 0.0, mass_b > 0.0)
    flow = np.zeros(pairs.shape)
    if mass > 0.0:
        least = Transport(mass_a[mass_a > 0.0], mass_b[mass_b > 0.0]).linear_argmin(
            np.where(pairs[loaded], 0.0, 1.0)
        )
        flow[loaded] = least.point
        if flow[~pairs].sum() > tolerance:
            prices = np.full(len(mass_a), -np.inf)
            prices[mass_a > 0.0] = least.warm.u
            _prove_infeasible(prices[row_class], seen, a, b, tolerance, which)
    flow[~pairs] = 0.0
    component_a, component_b = _components(pairs, flow, NO_FLOW * np.finfo(float).eps * mass)
    pairs = pairs & (component_a[:, None] == component_b[None, :])
    flow[~pairs] = 0.0
    b = b.copy()
    for c in np.unique(component_a[mass_a > 0.0]):
        members = component_b[column_class] == c
        b[members] *= math.fsum(a[component_a[row_class] == c]) / (math.fsum(b[members]) or 1.0)
    return Usable(row_class, column_class, pairs, flow, a, b)


def _classes(patterns: np.ndarray, loaded: np.ndarray) -> np.ndarray:
    """The number of the class of each point: alike patterns, and alike in having weight."""
    keys = np.concatenate([loaded[:, None].astype(np.uint8), patterns], axis=1)
    rows = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1])))[:, 0]
    return np.unique(rows, return_inverse=True)[1]


def _components(
    pairs: np.ndarray, flow: np.ndarray, no_flow: float
) -> tuple[np.ndarray, np.ndarray]:
    """The strongly connected component of each class of sources and of targets."""
    n, m = pairs.shape
    carries = pairs & (flow > no_flow)
    # whoever has weight sends it somewhere, however small it is
    carries[np.arange(n), np.argmax(flow, axis=1)] |= flow.max(axis=1) > 0.0
    carries[np.argmax(flow, axis=0), np.arange(m)] |= flow.max(axis=0) > 0.0
    there = np.nonzero(pairs)
    back = np.nonzero(carries)
    heads = np.concatenate([there[0], n + back[1]])
    tails = np.concatenate([n + there[1], back[0]])
    arcs = coo_array((np.ones(len(heads)), (heads, tails)), shape=(n + m, n + m)).tocsr()
    labels = connected_components(arcs, connection="strong")[1]
    return labels[:n], labels[n:]


def _prove_infeasible(
    prices: np.ndarray,
    allowed: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    tolerance: float,
    which: str,
) -> None:
    """Raise the error that names sources and all targets they may go to, which weigh less."""
    best = -math.inf
    for price in np.unique(np.round(prices[np.isfinite(prices)], 6)):
        sources = prices >= price - 5e-7
        targets = allowed[sources].any(axis=0)
        excess = math.fsum(a[sources]) - math.fsum(b[targets])
        if excess > best:
            best = excess
            cut = np.flatnonzero(sources), np.flatnonzero(targets)
    if not best > tolerance:
        raise ArithmeticError(
            f"{which}no plan that avoids the forbidden pairs was found, nor a proof that there is "
            "none: this is an error in condgrad, please report it"
        )
    sources, targets = cut
    supply = math.fsum(a[sources])
    room = math.fsum(b[targets])
    goes = "may go to no target at all"
    if len(targets):
        goes = f"may only go to {_named('target', targets)}, which can take {room:.6g}"
    error = InfeasibleError(
        f"{which}no plan avoids the pairs of infinite cost: {_named('source', sources)} with a "
        f"weight of {supply:.6g} {goes}; allow more pairs, or take transport.unbalanced or "
        "transport.partial, which may leave weight behind"
    )
    error.sources = sources
    error.targets = targets
    error.supply = supply
    error.room = room
    raise error


def _named(kind: str, numbers: np.ndarray, most: int = 6) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    if len(numbers) > most:
        return f"{len(numbers)} {kind}s ({shown}, ...)"
    return f"{kind}{'s' if len(numbers) > 1 else ''} {shown}"


def barrier_above(highest: float, lowest: float, entropy: float) -> float:
    """A cost that no plan pays, most likely: see `STEPS_UP`."""
    return highest + STEPS_UP * ((highest - lowest) or abs(highest) or 1.0) + ENTROPIES_UP * entropy


def with_barrier(cost: Array, cells: Array, barrier: float) -> Array:
    """The cost, finite: the barrier where a pair is not usable."""
    xp = namespace(cost)
    return xp.where(cells, cost, xp.asarray(barrier, dtype=cost.dtype))


def moved_onto(cells: np.ndarray, plan: np.ndarray, cost: np.ndarray, usable: Usable) -> np.ndarray:
    """A plan of exact marginals on the usable cells near one that may have mass elsewhere.

    Mass elsewhere is dropped, and rows and columns are scaled in turns. A linear program places
    the mass that is still missing, together with a small part of the plan, which makes room. If
    that is not enough, the part grows; the whole plan is always enough.
    """
    polytope = Transport(usable.a, usable.b)
    a = polytope.a
    b = polytope.b
    plan = np.where(cells, plan, 0.0)
    for _ in range(SCALINGS):
        plan *= (a / _or_one(plan.sum(axis=1)))[:, None]
        columns = plan.sum(axis=0)
        missing = np.abs(columns - b).sum()
        if missing <= EXACT_MARGINALS * polytope.mass:
            return plan
        plan *= (b / _or_one(columns))[None, :]
    plan *= (a / np.maximum(_or_one(plan.sum(axis=1)), a))[:, None]
    share = missing / polytope.mass
    while share < 1.0:
        share = min(1.0, ROOM * share)
        kept = (1.0 - share) * plan
        rest_a = np.maximum(a - kept.sum(axis=1), 0.0)
        rest_b = np.maximum(b - kept.sum(axis=0), 0.0)
        rest = Transport(rest_a, rest_b * (rest_a.sum() / rest_b.sum())).linear_argmin(cost).point
        if rest[~cells].sum() <= EXACT_MARGINALS * polytope.mass:
            return kept + np.where(cells, rest, 0.0)
    return usable.plan()


@dataclass(frozen=True, eq=False)
class ClassedBlocks:
    """A cost by blocks of points whose last coordinate is their class; unusable pairs cost a
    barrier.
    """

    function: Callable[[Array, Array], Array]
    pairs: np.ndarray
    barrier: float

    def __call__(self, Xs: Array, Xt: Array) -> Array:
        xp = namespace(Xs)
        sources = np.asarray(host(Xs[:, -1]), dtype=np.int64)
        targets = np.asarray(host(Xt[:, -1]), dtype=np.int64)
        cells = self.pairs[sources][:, targets]
        costs = self.function(Xs[:, :-1], Xt[:, :-1])
        return xp.where(
            xp.asarray(cells, device=Xs.device), costs, xp.asarray(self.barrier, dtype=costs.dtype)
        )


def with_classes(cost: BlockCost, usable: Usable, barrier: float) -> BlockCost:
    """The cost by blocks with a barrier."""
    xp = namespace(cost.Xs)
    Xs, Xt = (
        xp.concat([double(X), like(classes.astype(np.float64), double(X))[:, None]], axis=1)
        for X, classes in ((cost.Xs, usable.row_class), (cost.Xt, usable.column_class))
    )
    return BlockCost(ClassedBlocks(cost.function, usable.pairs, barrier), Xs, Xt)


def allowed_by(cost: BlockCost) -> tuple[np.ndarray, float, float] | None:
    """Which pairs of a cost by blocks are allowed, and its largest and least finite number; None
    where all pairs are.
    """
    blocks: Any = cost.unformed().blocks
    allowed = np.ones(cost.shape, dtype=bool)
    highest = -math.inf
    lowest = math.inf
    for i, j in tiles_of(cost.shape, blocks.Xs):
        part = blocks.of(i, j)
        xp = namespace(part)
        if bool(xp.any(xp.isnan(part) | (part == -math.inf))):
            raise ValueError(
                "cost must be finite, or +inf for pairs that may not be matched, got NaN or -inf"
            )
        finite = xp.isfinite(part)
        allowed[i, j] = host(finite) > 0
        highest = max(highest, float(xp.max(xp.where(finite, part, -math.inf))))
        lowest = min(lowest, float(xp.min(xp.where(finite, part, math.inf))))
    return None if allowed.all() else (allowed, highest, lowest)


def streamed_onto(plan: StreamedPlan, barrier: float, usable: Usable) -> StreamedPlan:
    """A streamed plan of exact marginals that is 0 at a barrier, as `moved_onto` makes an array.

    What is missing is placed between classes of points, where it is in proportion to what their
    points miss.
    """
    blocks: Any = plan.matrix.blocks
    function = blocks.function
    xp = namespace(plan.a)

    def walled(Xs: Array, Xt: Array) -> Array:
        costs = function(Xs, Xt)
        return xp.where(costs == barrier, xp.asarray(math.inf, dtype=costs.dtype), costs)

    matrix = StreamedMatrix(plan.matrix.factors, blocks._replace(function=walled))
    a = plan.a
    b = plan.b
    mass = total(a)
    by_row = xp.ones_like(a)
    by_column = xp.where(b > 0.0, plan.kept, 0.0)
    for _ in range(STREAMED_SCALINGS):
        sums = matrix.times(by_column[:, None])[:, 0]
        by_row = a / xp.where(sums > 0.0, sums, 1.0)
        sums = matrix.T.times(by_row[:, None])[:, 0]
        missing = total(xp.abs(by_column * sums - b))
        by_column = b / xp.where(sums > 0.0, sums, 1.0)
        if missing <= EXACT_MARGINALS * mass:
            break
    rows = by_row * matrix.times(by_column[:, None])[:, 0]
    by_row = by_row * (a / xp.maximum(xp.where(rows > 0.0, rows, 1.0), a))
    rows = host(by_row * matrix.times(by_column[:, None])[:, 0])
    columns = host(by_column * matrix.T.times(by_row[:, None])[:, 0])
    share = max(missing / mass, EXACT_MARGINALS)
    while True:
        share = min(1.0, ROOM * share)
        rest_a = np.maximum(usable.a - (1.0 - share) * rows, 0.0)
        rest_b = np.maximum(usable.b - (1.0 - share) * columns, 0.0)
        rest_b *= rest_a.sum() / rest_b.sum()
        of_class_a = np.bincount(usable.row_class, rest_a, len(usable.pairs))
        of_class_b = np.bincount(usable.column_class, rest_b, usable.pairs.shape[1])
        between = usable.class_plan
        if share < 1.0:
            dear = np.where(usable.pairs, 0.0, 1.0)
            between = Transport(of_class_a, of_class_b).linear_argmin(dear).point
        if share == 1.0 or between[~usable.pairs].sum() <= EXACT_MARGINALS * mass:
            break
    between = np.where(usable.pairs, between, 0.0)
    between /= _or_one(of_class_a)[:, None]
    between /= _or_one(of_class_b)[None, :]
    row_rest = rest_a[:, None] * np.eye(len(between))[usable.row_class]
    column_rest = rest_b[:, None] * between.T[usable.column_class]
    return replace(
        plan,
        matrix=matrix,
        kept=(1.0 - share) * by_column,
        row_kept=by_row,
        row_rest=like(row_rest, a),
        column_rest=like(column_rest, a),
    )


@dataclass(frozen=True, eq=False)
class Avoiding:
    """A problem around its forbidden pairs: its cost, what is usable of it, and a first barrier."""

    cost: Any
    usable: Usable
    barrier: float

    @property
    def a(self) -> np.ndarray:
        """The weights of the sources."""
        return self.usable.a

    @property
    def b(self) -> np.ndarray:
        """The weights of the targets."""
        return self.usable.b

    def solved(
        self, solve_relaxed: Callable[[Any, float, Any], Any], tol: float, start: Any
    ) -> Any:
        """The answer on the usable pairs, from relaxations of finite cost.

        `solve_relaxed(cost, tol, start)` gives a `TransportResult`.
        """
        streamed = isinstance(self.cost, BlockCost)
        cells = None if streamed else self.usable.cells()
        barrier = self.barrier
        wanted = tol
        for attempt in range(ATTEMPTS):
            if streamed:
                finite = with_classes(self.cost, self.usable, barrier)
            else:
                xp = namespace(self.cost)
                seen = xp.asarray(cells, device=self.cost.device)
                finite = with_barrier(self.cost, seen, barrier)
            relaxed = solve_relaxed(finite, wanted, start)
            answer = self._on_usable(relaxed, cells, barrier, tol)
            if answer.success or relaxed.status not in (Status.CONVERGED, Status.STALLED):
                break
            if attempt % 2:
                barrier *= STEPS_UP
            wanted *= TIGHTER
            start = relaxed
        return answer

    def _on_usable(self, relaxed: Any, cells: np.ndarray | None, barrier: float, tol: float) -> Any:
        """The relaxed answer moved onto the usable pairs, and what its bound proves there."""
        f, g = relaxed.problem
        run = relaxed.result
        if cells is None:
            x = streamed_onto(run.x, barrier, self.usable)
            null_size = 0.0
        else:
            finite = with_barrier(np.asarray(host(double(self.cost))), cells, barrier)
            x = like(moved_onto(cells, host(double(run.x)), finite, self.usable), run.x)
            null = like(self.usable.plan(), run.x)
            null_size = Terms.at(null, f.at(null), g).size
        terms = Terms.at(x, f.at(x), g)
        proof = replace(
            run.certificate,
            x=x,
            terms=terms,
            # marginals that are exact but for rounding may let the value fall as far
            lower_bound=min(run.certificate.lower_bound, terms.value),
            null_size=null_size,
            value_from="the answer on the usable pairs",
        )
        gap = RelativeGap(tol).of(proof)
        status = run.status
        if gap <= tol:
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            status = Status.STALLED
        met = "within" if gap <= tol else "above"
        message = f"{status.value}; {RelativeGap.name} is {gap:.3g}, {met} the tolerance {tol:.3g}"
        result = replace(run, x=x, certificate=proof, status=status, message=message, digest=None)
        points = self.cost.arrays if cells is None else relaxed.points
        return replace(relaxed, result=result, points=points)
