"""Where a transport problem starts: plans, potentials, results between other points, and coarse
levels of its own.

A dual point (v, P, Q) between some points is carried to other points by inverse-distance means of
the nearest neighbours: means of v, of the mean destinations P/a and of the mean origins Q/b. Such
fields are rough, and a stiff Laplacian makes roughness expensive. So the moments are smoothed by (I
+ 16 L)^-1. The path is entered as late as the carried point allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from condgrad import deadline
from condgrad.arrays import (
    Array,
    at_least,
    dot,
    double,
    double_like,
    host,
    namespace,
    product,
    smallest,
    total,
    zeros,
)
from condgrad.arrays.inputs import floating
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.newton.entropic_path import fitted_potential
from condgrad.problem import Simple, Smooth
from condgrad.rounding import membership_tolerance
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.smooth import TransportLaplacian
from condgrad.streamed_plan import Linearisation, StreamedPlan
from condgrad.structure import TransportStructure, transport_structure
from condgrad.transport.costs import PointCost, SquaredEuclidean
from condgrad.transport.regularizers import Laplacian

if TYPE_CHECKING:
    from condgrad.transport.solve import TransportResult

NEIGHBORS = 4
"""A carried value is the mean of the values at this many points."""
SMOOTHING = 16.0
COARSER = 10
"""A coarse level has one point for every so many points."""
LARGE = 30_000
"""If a side has fewer points, no coarse level is used, because it would not save time."""
COARSE_TOL = 1e-4
MOST_COARSE_DIMENSIONS = 3
"""In more dimensions no coarse level is used: many points would have no near neighbour among a
tenth of the points.
"""
SELF_ACCURACY, SELF_ITERATIONS = 1e-12, 100
"""A transport from a measure to itself ends at the first number as error of its marginals, or after
the second number of iterations. Each iteration halves the error.
"""


class TransportProblem(NamedTuple):
    """f and g, and the points between which they are, if they are known."""

    f: Any
    g: Any
    points: tuple[Array, Array] | None

    @property
    def streamed(self) -> bool:
        return not self.g.on.forms_points

    @property
    def structure(self) -> TransportStructure:
        return transport_structure(self.f, self.g)


def points_of(cost: Any, f: Smooth, g: Simple) -> tuple[Array, Array] | None:
    """The points that a cost or a Laplacian is made of."""
    if isinstance(cost, PointCost):
        return cost.arrays
    laplacian = TransportProblem(f, g, None).structure.laplacian
    return None if laplacian is None else (laplacian.Xs, laplacian.Xt)


def start_plan(start: Any, problem: TransportProblem) -> Any:
    """A point of the problem's set from what a user gave as `start`."""
    shape = tuple(problem.f.space.shape)
    if hasattr(start, "result") and hasattr(start, "points"):
        return _from_result(start, problem, shape)
    if isinstance(start, DualStart):
        return _from_dual(start, problem)
    if isinstance(start, tuple) and len(start) == 2:
        return _from_potentials(start, problem, shape)
    return _from_plan(start, problem, shape)


@dataclass(frozen=True, eq=False)
class DualStart:
    """A column potential and moments, in the user's coordinates."""

    v: Array
    P: Array
    Q: Array


def _from_result(start: TransportResult, problem: TransportProblem, shape: tuple[int, int]) -> Any:
    if start.shape == shape and _same_weights(start, problem):
        if problem.streamed and start.streamed:
            return start.result.x
        if not problem.streamed:
            return _checked_plan(start.dense(), problem, shape)
        return _from_dual(_at_same_points(start, problem), problem)
    return _from_dual(carried(start, problem), problem)


def _same_weights(start: TransportResult, problem: TransportProblem) -> bool:
    on = problem.g.on
    before = start.structure.on
    xp = namespace(on.a)
    return all(
        bool(xp.all(double_like(mine, on.a) == its))
        for mine, its in ((before.a, on.a), (before.b, on.b))
    )


def _at_same_points(start: TransportResult, problem: TransportProblem) -> DualStart:
    P, Q = _no_moments(problem)
    laplacian = problem.structure.laplacian
    if laplacian is not None:
        P = start.apply(double(laplacian.Xt))
        Q = start.apply_transpose(double(laplacian.Xs))
    return DualStart(double_like(start.potentials.v, problem.g.on.a), P, Q)


def _from_plan(start: Any, problem: TransportProblem, shape: tuple[int, int]) -> Any:
    plan = _checked_plan(floating("start", start, ndim=2), problem, shape)
    if not problem.streamed:
        return plan
    # whoever holds a plan has room for a cost
    laplacian = problem.structure.laplacian
    entropy = problem.g.weight
    P, Q = _no_moments(problem)
    cost = problem.structure.cost.dense()
    if laplacian is not None:
        P = plan @ double(laplacian.Xt)
        Q = plan.T @ double(laplacian.Xs)
        cost = cost + laplacian.at(plan).gradient
    xp = namespace(plan)
    cost = cost + entropy * xp.log(at_least(smallest(plan), plan))
    return _from_dual(DualStart(fitted_potential(plan, cost), P, Q), problem)


def _checked_plan(plan: Array, problem: TransportProblem, shape: tuple[int, int]) -> Array:
    on = problem.g.on
    space = problem.f.space
    if tuple(plan.shape) != shape:
        raise ValueError(f"start must have the shape of the cost, {shape}, got {tuple(plan.shape)}")
    plan = space.hold(space.xp.asarray(plan, device=space.device))
    off = on.violation(plan)
    if off > membership_tolerance(plan) * on.scale:
        raise ValueError(
            f"start must lie in {on!r}: entries >= 0, row sums a, column sums b; its largest violation is {off:.3g}"
        )
    return plan


def _from_potentials(start: Any, problem: TransportProblem, shape: tuple[int, int]) -> Any:
    on = problem.g.on
    for name, values, size in zip(("u", "v"), start, shape, strict=True):
        if tuple(np.shape(host(values))) != (size,):
            raise ValueError(
                f"start = (u, v) must hold potentials of shapes ({shape[0]},) and ({shape[1]},), not {name}"
            )
    v = double_like(start[1], on.a)
    P, Q = _no_moments(problem)
    laplacian = problem.structure.laplacian
    if (
        laplacian is not None
    ):  # nothing is known of the moments: those of the product of the weights
        mass = on.mass or 1.0
        P = on.a[:, None] * (on.b @ double(laplacian.Xt) / mass)[None, :]
        Q = on.b[:, None] * (on.a @ double(laplacian.Xs) / mass)[None, :]
    return _from_dual(DualStart(v, P, Q), problem)


def _from_dual(start: DualStart, problem: TransportProblem) -> Any:
    """The product of the weights with a dual point to start from, or for a dense problem the plan
    of that point.
    """
    on = problem.g.on
    g = problem.g
    xp = namespace(on.a)
    finite = xp.where(xp.isfinite(start.v), start.v, 0.0)
    a = double(on.a)
    b = double(on.b)
    if problem.streamed:
        return replace(
            StreamedPlan.product(a, b), origin=Linearisation(0.0 * a, finite, start.P, start.Q)
        )
    if problem.structure.entropy == 0.0:
        raise ValueError(
            "a start that is potentials, or a result between other points, needs an entropy > 0"
        )
    cost = double(problem.structure.cost)
    laplacian = problem.structure.laplacian
    if laplacian is not None:
        U = laplacian.gradient_in_P(double(start.P))
        V = laplacian.gradient_in_Q(double(start.Q))
        cost = cost + U @ double(laplacian.Xt).T + double(laplacian.Xs) @ V.T
    # columns without weight take no part
    score = xp.where(b > 0.0, finite, -math.inf)[None, :] - cost
    plan = normalised_rows(score / g.weight, a)[0]
    return problem.f.space.hold(on.rounded(plan))


def _no_moments(problem: TransportProblem) -> tuple[Array, Array]:
    on = problem.g.on
    return zeros(on.a, on.a.shape[0], 0), zeros(on.a, on.b.shape[0], 0)


def carried(start: TransportResult, problem: TransportProblem) -> DualStart:
    """A result between other points as a dual point of this problem."""
    if start.points is None or problem.points is None:
        raise ValueError(
            "start is a result of another shape or with other weights. To carry it over, both problems need points, and "
            f"those of {'start' if start.points is None else 'this problem'} are not known: give a cost between points, "
            "such as transport.SquaredEuclidean(Xs, Xt), or a Laplacian"
        )
    on = problem.g.on
    before = start.structure.on
    laplacian = problem.structure.laplacian
    (from_s, from_t), (to_s, to_t) = start.points, problem.points
    for which, from_points, wanted in (("sources", from_s, to_s), ("targets", from_t, to_t)):
        if from_points.shape[1] != wanted.shape[1]:
            raise ValueError(
                f"start is a result whose {which} have the shape {tuple(from_points.shape)}, but those of "
                f"this problem have {tuple(wanted.shape)}: a result is carried over between near points, "
                "so both problems need the same number of coordinates: leave start out"
            )
    by_row = Carrier.of(from_s, to_s)
    by_column = Carrier.of(from_t, to_t)
    v = by_column(double_like(_without_shift(start), on.a)[:, None])[:, 0]
    P, Q = _no_moments(problem)
    if laplacian is not None:
        destinations = (
            start.apply(_coordinates(start, "Xt")) / at_least(smallest(before.a), before.a)[:, None]
        )
        origins = (
            start.apply_transpose(_coordinates(start, "Xs"))
            / at_least(smallest(before.b), before.b)[:, None]
        )
        P = on.a[:, None] * by_row(double_like(destinations, on.a))
        Q = on.b[:, None] * by_column(double_like(origins, on.a))
        P = smoothed(laplacian.Ls, P)
        Q = smoothed(laplacian.Lt, Q)
        v = v + _shift(laplacian, Q, on.a)
    return DualStart(v, P, Q)


def _shift(laplacian: TransportLaplacian, Q: Array, a: Array) -> Array:
    """What the mean of the sources adds to the column potentials: gradients of a Laplacian are no
    smooth field.
    """
    return laplacian.gradient_in_Q(Q) @ (a @ double(laplacian.Xs)) / total(a)


def _without_shift(start: TransportResult) -> Array:
    before = start.structure
    v = start.potentials.v
    laplacian = before.laplacian
    if laplacian is None:
        return v
    Q = start.result.x.origin.Q if start.streamed else start.apply_transpose(laplacian.Xs)
    return v - _shift(laplacian, Q, before.on.a)


def _coordinates(start: Any, name: str) -> Array:
    """The coordinates that the Laplacian of an earlier problem had, or else its points."""
    earlier = start.structure.laplacian
    if earlier is not None:
        return getattr(earlier, name)
    return start.points[0 if name == "Xs" else 1]


class Carrier(NamedTuple):
    """Inverse-distance means over the nearest of some points, for other points."""

    neighbors: Array
    weights: Array

    @classmethod
    def of(cls, sources: Array, wanted: Array) -> Carrier:
        tree = cKDTree(host(sources))
        points = host(wanted)
        # near points one after the other walk the same branches of the tree, which are then still
        # in the cache
        order = cKDTree(points).indices
        found = tree.query(points[order], k=min(NEIGHBORS, tree.n), workers=-1)
        distances, neighbors = (np.empty_like(each) for each in found)
        distances[order], neighbors[order] = found
        distances = distances.reshape(len(distances), -1)
        neighbors = neighbors.reshape(len(neighbors), -1)
        nearest = np.maximum(distances[:, :1], 1e-12 * (distances.max() or 1.0))
        weights = 1.0 / np.maximum(distances / nearest, 1.0) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        xp = namespace(wanted)
        return cls(xp.asarray(neighbors, device=wanted.device), double_like(weights, wanted))

    def __call__(self, values: Array) -> Array:
        return namespace(values).sum(self.weights[:, :, None] * values[self.neighbors], axis=1)


def smoothed(L: Any, X: Array) -> Array:
    """(I + 16 L)^-1 X, nearly."""
    return conjugate_gradients(
        lambda Y: Y + SMOOTHING * product(L, Y), X, inner=dot, accuracy=1e-6, max_iterations=60
    ).x


def self_start(problem: TransportProblem, cost: Any) -> tuple[Array, Array] | None:
    """The potentials of transport from a measure to itself with entropy alone; None for every other
    problem.

    There both potentials are the same u, the fixed point of T(u)_i = e (log a_i - log sum_j
    exp((u_j - C_ij)/e)). The derivative of T is minus a Markov matrix. Its eigenvalues are between
    0 and 1 if exp(-C/e) is a positive kernel, as for squared distances. So u -> (u + T(u))/2 at
    least halves the error, whatever the entropy (Knight, Ruiz and Ucar, SIAM J. Matrix Anal. Appl.
    35, 2014; Feydy et al., AISTATS 2019).
    """
    on = problem.g.on
    g = problem.g
    if (
        not isinstance(cost, SquaredEuclidean)
        or problem.structure.entropy == 0.0
        or not problem.structure.is_plain
    ):
        return None
    a = double(on.a)
    b = double(on.b)
    xp = namespace(on.a)
    (Xs, Xt), alike = cost.arrays, xp.all
    if (
        Xs.shape != Xt.shape
        or on.mass == 0.0
        or not (bool(alike(Xs == Xt)) and bool(alike(a == b)))
    ):
        return None
    loaded = xp.nonzero(a > 0.0)[0]
    e = g.weight
    part = cost.unformed().at(loaded, loaded)
    log_a = xp.log(a[loaded])

    def change(x: Array) -> Array:
        # a score leaves out the numbers of rows
        return log_a - part.score(e * x, e).log_row_sums() + part.row / e - x

    x = averaged(change, 0.0 * log_a, SELF_ACCURACY)
    if x is None:
        return None
    whole = 0.0 * a
    whole[loaded] = e * x
    return whole, whole


def averaged(change: Callable[[Array], Array], x: Array, accuracy: float) -> Array | None:
    """The fixed point of x -> x + change(x), half of each change at a time; None where it leaves
    the floats.
    """
    xp = namespace(x)
    for _ in range(SELF_ITERATIONS):
        step = change(x)
        far = float(xp.max(xp.abs(step)))
        if not math.isfinite(far):
            return None
        x = x + 0.5 * step
        if far <= accuracy or deadline.passed():
            break
    return x


def coarse_start(
    problem: TransportProblem,
    cost: Any,
    regularizers: Sequence[Any],
    solve: Callable[..., TransportResult],
) -> DualStart | None:
    """The dual point of a tenth of the points, solved loosely and carried over. None if that would
    not help.

    The weight of the Laplacian is adapted: among fewer points neighbours are farther apart, and a
    smooth field costs more.
    """
    on = problem.g.on
    n = on.a.shape[0]
    m = on.b.shape[0]
    if (
        min(n, m) < LARGE
        or not isinstance(cost, SquaredEuclidean)
        or cost.Xs.shape[1] > MOST_COARSE_DIMENSIONS
    ):
        return None
    if (
        not all(isinstance(r, Laplacian) and r.builds_graphs for r in regularizers)
        or deadline.passed()
    ):
        return None
    rng = np.random.default_rng(0)
    chosen = []
    for weights, size in ((on.a, n), (on.b, m)):
        loaded = np.flatnonzero(host(weights) > 0.0)
        some = np.sort(rng.permutation(loaded)[: max(1, size // COARSER)])
        chosen.append(namespace(weights).asarray(some, device=weights.device))
    rows, columns = chosen
    a = on.a[rows]
    b = on.b[columns]
    rarer = (len(rows) / n) ** (1.0 + 2.0 / cost.Xs.shape[1])
    xp = namespace(on.a)
    coarse = [
        replace(
            r,
            Xs=double_like(r.Xs, on.a)[rows],
            Xt=double_like(r.Xt, on.a)[columns],
            weight=rarer * r.weight,
        )
        for r in regularizers
    ]
    answer = solve(
        SquaredEuclidean(cost.Xs[rows], cost.Xt[columns]),
        a * (on.mass / total(a)),
        b * (on.mass / total(b)),
        entropy=problem.g.weight,
        regularizers=coarse,
        method="newton",
        tol=COARSE_TOL,
    )
    if not math.isfinite(answer.gap) or not bool(xp.all(xp.isfinite(answer.potentials.v))):
        return None
    return carried(answer, problem)
