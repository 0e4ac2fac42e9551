"""Gromov-Wasserstein transport between two spaces. Each space is given by a number for each pair of
its points.

    F(G) = sum_ijkl L(C1_ik, C2_jl) G_ij G_kl + weight <M, G> + entropy sum G log G,   G a plan from a to b.

F is not convex. The answer is proved to be stationary, up to its own gap. If this is affordable,
there is also a lower bound on F over all plans. It is not proved that no other plan is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from condgrad import _checks, deadline, passes, sets, simple, smooth
from condgrad.arrays import Array, Space, double, double_like, is_torch, namespace
from condgrad.arrays.inputs import floating
from condgrad.certificate import NULL_SHARE, Terms, linearised
from condgrad.loop import Callback
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.result import Result, Status
from condgrad.rounding import membership_tolerance
from condgrad.sets.streamed_transport import StreamedTransport
from condgrad.smooth.gromov import GROMOV_LOSSES, GromovPoints, GromovWasserstein
from condgrad.transport.costs import PointCost, SquaredEuclidean
from condgrad.transport.gromov_bound import line_transports
from condgrad.transport.gromov_oracle import EntropyByNewton
from condgrad.transport.gromov_starts import NamedStart, start_plans
from condgrad.transport.solve import (
    PLAN_FORMS,
    TransportResult,
    beside,
    plan_is_streamed,
    solve,
    weights_like,
)

BOUND_AT_MOST = 1000
"""If a side has more points, the lower bound is only computed on request: it takes O(n m (n + m))
operations.
"""


class GromovParts(NamedTuple):
    """The terms of F. Their sum is the value."""

    structure: float
    """sum_ijkl L(C1_ik, C2_jl) G_ij G_kl. POT calls it `gw_dist`."""
    features: float
    """weight <M, G>."""
    entropy: float
    """entropy sum G log G."""


class StartRecord(NamedTuple):
    """The result of one start."""

    start: str
    """The start, in words."""
    value: float
    stationarity: float
    status: Status
    iterations: int
    seconds: float


@dataclass(frozen=True, repr=False, eq=False)
class GromovResult(TransportResult):
    """A stationary plan with exact marginals, and its proofs.

    Attributes
    ----------
    problem : tuple of Smooth and Simple
        The f and g that were minimised.
    result : Result
        The run from the best start. Its `x` is the plan.
    passes : int
        For a streamed plan, the number of passes of Newton's method over all pairs of points.
    points : tuple of arrays, optional
        The points of the two spaces, if they are known.
    starts : tuple of StartRecord
        The result of each start. The best one is the answer.

    Examples
    --------
    >>> import condgrad as cg
    >>> X = cg.datasets.make_clusters(30).Xs
    >>> cost = cg.transport.SquaredEuclidean(X, X)
    >>> q = cg.transport.gromov(cost, cost)
    >>> q.status.name, abs(q.value) <= 1e-9 * q.scale, q.lower_bound <= q.value
    ('STATIONARY', True, True)
    >>> [record.start for record in q.starts]
    ['product of the weights', 'plan of the lower bound', 'axes ++', 'axes +-']
    """

    starts: tuple[StartRecord, ...] = ()

    @property
    def stationarity(self) -> float:
        """The certified stationarity gap of the plan: to first order, no plan has an F that is
        lower by more than this.
        """
        return self.result.stationarity  # type: ignore[return-value]

    @property
    def parts(self) -> GromovParts:
        """The terms of F at the plan."""
        f, g = self.problem
        (_, between_spaces), *_ = f.weighted_terms
        distortion = between_spaces.at(self.result.x).value
        return GromovParts(distortion, self.cost, g.value(self.result.x))

    def __repr__(self) -> str:
        n, m = self.shape
        kind = ", streamed" if self.streamed else ""
        proved = f"stationarity={self.stationarity:.3g}, lower_bound={self.lower_bound:.6g}"
        return f"GromovResult({n} x {m}{kind}, {self.status}, value={self.value:.10g}, {proved})"


@dataclass(frozen=True, eq=False)
class GromovProblem:
    """f and g, and what the lower bound and the starts need to know about the two spaces."""

    spaces: tuple[Any, Any]
    """C1 and C2: arrays, or squared Euclidean costs between points."""
    f: Smooth
    g: Simple
    loss: str
    features: Any
    """weight M: an array, a cost between points with its weight, or None."""

    @property
    def structure(self) -> GromovPoints | GromovWasserstein:
        """The part of f that is not linear."""
        return self.f.weighted_terms[0][1]  # type: ignore[return-value]

    @property
    def points(self) -> tuple[Array, Array] | None:
        """The points of the two spaces, where they are known."""
        if isinstance(self.structure, GromovPoints):
            return self.spaces[0].Xs, self.spaces[1].Xs
        return None

    @property
    def on(self) -> sets.Transport:
        return self.g.on  # type: ignore[return-value]


def gromov(
    C1: Any,
    C2: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float = 0.0,
    fused: tuple[Any, float] | None = None,
    loss: str = "square",
    starts: int = 4,
    start: Any = None,
    lower_bound: bool | None = None,
    plan: str = "auto",
    seed: int = 0,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> GromovResult:
    """Match the points of two spaces by the distances within each space (Gromov-Wasserstein).

    The objective is F(G) = sum_ijkl L(C1_ik, C2_jl) G_ij G_kl + weight <M, G> + entropy sum G log G
    over plans G from a to b. F is not convex, so the run has several starts, and you get the best
    plan found. *Proved*: the plan is stationary up to `stationarity`, and no plan has an F below
    `lower_bound`. *Not proved*: that no other plan is better.

    Parameters
    ----------
    C1, C2 : arrays of shapes (n, n) and (m, m), or `transport.SquaredEuclidean(X, X)` and `SquaredEuclidean(Y, Y)`
        A number for each pair of points of the same space: a distance, a similarity or an edge. The
        matrices may be asymmetric. If you give points, by `SquaredEuclidean`, and an entropy, the
        plan can be streamed: nothing of the size of a plan is then stored.
    a, b : arrays, optional
        Weights >= 0 of the points, with the same sum; uniform with the sum 1 by default.
    entropy : float
        Weight of sum G log G; 0 for none. Marginals are exact for every entropy.
    fused : pair (M, weight), optional
        Costs between the points of the two spaces, and their weight. M is an array of shape (n, m)
        or a cost between points. POT multiplies the first sum by alpha and <M, G> by 1 - alpha. To
        get the same plan here, set weight = (1 - alpha)/alpha and entropy = epsilon/alpha.
    loss : {"square", "kl"}
        L(x, y) is (x - y)^2 for "square". It is x log(x/y) - x + y for "kl", which needs numbers >=
        0.
    starts : int
        The number of starts; the best result is returned. They come in this order: `start`, if you
        give one; the product of the weights; the plan of the lower bound, if it is computed; plans
        that match the principal axes of the two spaces, with all choices of signs; random plans.
    start : optional
        A plan for the first start: an array or an earlier result.
    lower_bound : bool, optional
        Whether to compute Memoli's third lower bound, in O(n m (n + m)). By default it is computed
        if neither side has more than 1000 points.
    plan : {"auto", "dense", "streamed"}
        As in `transport.solve`. A streamed plan needs points and an entropy.
    seed : int
        The seed of the random starts.
    tol : float
        The run from a start ends when its stationarity gap is at most `tol * scale`. For the scale
        see `Result.scale`.
    max_iter : int
        Iterations of each start.
    time_limit, callback, progress
        As in `condgrad.minimize`. The time limit is for all starts together.

    Returns
    -------
    GromovResult
        It has `plan`, `value` and the `parts` of the value, `stationarity`, `lower_bound`, a record
        for each of the `starts`, `trace`, `barycenters` and `apply`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    >>> rotated = X[[2, 0, 1]] @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> C1, C2 = (np.linalg.norm(Z[:, None] - Z[None], axis=2) for Z in (X, rotated))
    >>> q = cg.transport.gromov(C1, C2)
    >>> (3.0 * q.plan).round(6).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    problem = gromov_problem(C1, C2, a, b, entropy=entropy, fused=fused, loss=loss, plan=plan)
    starts = _checks.whole("starts", starts, at_least=1)
    seed = _checks.whole("seed", seed, at_least=0)
    if time_limit is not None:
        _checks.number("time_limit", time_limit, at_least=0.0)
    with deadline.within(time_limit), passes.counting() as count:
        wanted = max(problem.f.space.shape) <= BOUND_AT_MOST  # type: ignore[union-attr]
        if lower_bound is not None:
            wanted = _checks.flag("lower_bound", lower_bound)
        bound = third_bound(problem, tol) if wanted and not deadline.passed() else None
        best: Result | None = None
        records: list[StartRecord] = []
        for named in _starts(problem, start, bound, starts, seed):
            result = minimize(
                problem.f,
                problem.g,
                named.plan,
                method="auto",
                tol=tol,
                max_iter=max_iter,
                time_limit=time_limit,
                callback=callback,
                progress=progress,
            )
            gap = result.stationarity
            ended = (result.status, result.iterations, result.seconds)
            records.append(StartRecord(named.name, result.value, gap, *ended))  # type: ignore[arg-type]
            if best is None or _is_better(result, best):
                best = result
            if deadline.passed() or result.status in (
                Status.INTERRUPTED,
                Status.STOPPED_BY_CALLBACK,
            ):
                break
    assert best is not None  # there is one start at least
    if bound is not None and bound.value > -math.inf:
        proof = replace(
            best.certificate, lower_bound=bound.value, bound_from="Memoli's third bound"
        )
        best = replace(best, certificate=proof.consistent("at the answer "))
    return GromovResult(
        (problem.f, problem.g), best, count.passes, problem.points, starts=tuple(records)
    )


def _is_better(result: Result, best: Result) -> bool:
    """A lower value is better, and a stationary point is better than one that is none at a value
    that is no lower.
    """
    noise = best.certificate.noise + result.certificate.noise
    if abs(result.value - best.value) <= noise:
        return bool(result.stationarity < best.stationarity)  # type: ignore[operator]
    return result.value < best.value


def _starts(
    problem: GromovProblem, start: Any, bound: LowerBound | None, count: int, seed: int
) -> Iterator[NamedStart]:
    """The first `count` starts: the user's, the product, the bound's plan, axes, random ones."""
    left = count
    if start is not None:
        yield NamedStart("yours", _start_plan(start, problem))
        left -= 1
    if left > 0:
        yield NamedStart("product of the weights", None)
        left -= 1
    if left > 0 and bound is not None and bound.plan is not None:
        yield NamedStart("plan of the lower bound", bound.plan)
        left -= 1
    if left > 0:
        yield from start_plans(problem.f, problem.g, problem.structure, left, seed)


def _start_plan(start: Any, problem: GromovProblem) -> Any:
    """A plan of the user's, checked; the plan of an earlier result."""
    streamed = not problem.on.forms_points
    if isinstance(start, TransportResult):
        if start.shape != problem.on.shape:
            raise ValueError(f"start must be a plan of shape {problem.on.shape}, got {start.shape}")
        if streamed and start.streamed:
            return start.result.x
        start = start.dense()
    if streamed:
        raise ValueError(
            "start must be a streamed result of transport.gromov, because the plan is streamed; or leave it out"
        )
    return _plan_of(start, problem, "start")


def _plan_of(plan: Any, problem: GromovProblem, name: str) -> Array:
    plan = double(beside(name, plan, problem.on.a, ndim=2))
    if tuple(plan.shape) != problem.on.shape:
        raise ValueError(
            f"{name} must be a plan of shape {problem.on.shape}, got {tuple(plan.shape)}"
        )
    if not problem.on.contains(plan, membership_tolerance(plan)):
        outside = problem.on.violation(plan)
        raise ValueError(
            f"{name} must have the marginals a and b and no negative entry; its largest violation is {outside:.3g}"
        )
    return plan


def gromov_problem(
    C1: Any, C2: Any, a: Any, b: Any, *, entropy: float, fused: Any, loss: str, plan: str = "dense"
) -> GromovProblem:
    """The checked problem."""
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    if loss not in GROMOV_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, GROMOV_LOSSES))}, got {loss!r}")
    if plan not in PLAN_FORMS:
        raise ValueError(f"plan must be one of {', '.join(map(repr, PLAN_FORMS))}, got {plan!r}")
    first = _space("C1", C1)
    second = _space("C2", C2)
    of_points = (
        isinstance(first, SquaredEuclidean)
        and isinstance(second, SquaredEuclidean)
        and loss == "square"
    )
    if not of_points:
        first, second = (
            each.dense() if isinstance(each, PointCost) else each for each in (first, second)
        )
    like = first.Xs if of_points else first
    if is_torch(like) != is_torch(second.Xs if of_points else second):
        raise TypeError("C1 and C2 must be of one library, got NumPy and torch")
    shape = first.shape[0], second.shape[0]
    if loss == "kl":
        for name, C in (("C1", first), ("C2", second)):
            lowest = float(namespace(C).min(C))
            if lowest < 0.0:
                raise ValueError(
                    f"loss='kl' needs numbers >= 0, and {name} has {lowest:g} among them"
                )
    M, weight = _features(fused, like, shape)
    streamed = of_points and _streamed(like, shape, entropy, M, plan)
    if plan == "streamed" and not of_points:
        raise ValueError(
            "plan='streamed' needs points and the square loss: C1 = transport.SquaredEuclidean(X, X), and the same for C2"
        )
    polytope = StreamedTransport if streamed else sets.Transport
    wide = double(like)
    on = polytope(
        double(weights_like("a", a, wide, shape, 0)), double(weights_like("b", b, wide, shape, 1))
    )
    f: Smooth
    if of_points:
        f = GromovPoints(first.Xs, second.Xs, on.a, on.b)
    else:
        f = GromovWasserstein(first, second, on.a, on.b, loss=loss)
    features = None
    if M is not None and weight > 0.0:
        if streamed:
            features = weight * M.unformed()
            f = f + smooth.TransportCost(features)
        else:
            features = weight * double(M.dense() if isinstance(M, PointCost) else M)
            f = f + smooth.Linear(features)
    g: Simple
    if entropy > 0.0:
        g = EntropyByNewton(entropy, on=on) if streamed else simple.Entropy(entropy, on=on)
    else:
        g = simple.Zero(on=on)
    return GromovProblem((first, second), f, g, loss, features)


def _space(name: str, C: Any) -> Any:
    """The numbers within a space: a square array, or a cost between its points and themselves."""
    if isinstance(C, PointCost):
        n, m = C.shape
        if n != m or (
            isinstance(C, SquaredEuclidean)
            and not bool(namespace(C.Xs).all(C.Xs == double_like(C.Xt, C.Xs)))
        ):
            raise ValueError(
                f"{name} must be a cost between the points of one space, such as SquaredEuclidean(X, X)"
            )
        return C
    C = floating(name, C, ndim=2)
    if C.shape[0] != C.shape[1] or C.shape[0] == 0:
        raise ValueError(
            f"{name} must be a square array of numbers between the points of one space, got shape {tuple(C.shape)}"
        )
    return double(C)


def _features(fused: Any, like: Array, shape: tuple[int, int]) -> tuple[Any, float]:
    """M and its weight."""
    if fused is None:
        return None, 0.0
    if not isinstance(fused, tuple | list) or len(fused) != 2:
        raise TypeError(f"fused must be a pair (M, weight), got {type(fused).__name__}")
    weight = _checks.number("the weight of fused", fused[1], at_least=0.0)
    M = (
        fused[0]
        if isinstance(fused[0], PointCost)
        else beside("M of fused", fused[0], like, ndim=2)
    )
    if tuple(M.shape) != shape:
        raise ValueError(f"M of fused must have the shape {shape} of a plan, got {tuple(M.shape)}")
    return M, weight


def _streamed(like: Array, shape: tuple[int, int], entropy: float, M: Any, plan: str) -> bool:
    only_dense = None
    if entropy == 0.0:
        only_dense = "entropy=0, which needs linear programs"
    elif M is not None and not isinstance(M, PointCost):
        only_dense = "an array of costs in fused"
    return plan_is_streamed(shape, like, plan, only_dense)


class LowerBound(NamedTuple):
    """A lower bound on F over all plans, and the plan that it belongs to, if that is an array."""

    value: float
    plan: Any


def third_bound(problem: GromovProblem, tol: float) -> LowerBound:
    """The certified dual value of the linear problem with costs T + weight M and the same entropy.

    T_ij is the cost of the best transport between row i of C1 and row j of C2 with the loss L.
    """
    first, second = (
        each.dense() if isinstance(each, PointCost) else each for each in problem.spaces
    )
    on = problem.on
    lines = line_transports(first, second, on.a, on.b, problem.loss)
    streamed = not on.forms_points
    cost = double_like(lines.costs, on.a)
    if problem.features is not None:
        cost = cost + (problem.features.dense() if streamed else problem.features)
    weight = problem.g.weight  # type: ignore[attr-defined]
    t = solve(cost, on.a, on.b, entropy=weight, tol=min(tol, 1e-6))
    return LowerBound(t.lower_bound - lines.noise, None if streamed else t.plan)


class GromovGap(NamedTuple):
    """What `transport.gromov_gap` proves about a given plan.

    Attributes
    ----------
    value : float
        The objective F of `transport.gromov` at the plan, after its marginals were made exact.
    stationarity : float
        The certified stationarity gap of this plan: to first order, no plan has an F that is lower
        by more than this.
    scale : float
        The scale of the stationarity gap: |f| + |g| at the plan, or a hundredth of |f| + |g| at the
        product plan, whichever is larger.
    marginal_error : float
        The largest difference between the marginals of the given plan and a and b.
    plan : array
        The plan with exact marginals.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> gap = cg.transport.gromov_gap(np.eye(2) / 2.0, C, 3.0 * C)
    >>> gap.value, gap.marginal_error, gap.relative_stationarity <= 1e-12
    (2.0, 0.0, True)
    """

    value: float
    stationarity: float
    scale: float
    marginal_error: float
    plan: Array

    @property
    def relative_stationarity(self) -> float:
        """stationarity / scale."""
        return self.stationarity / self.scale if self.scale > 0.0 else math.inf


def gromov_gap(
    plan: Any,
    C1: Any,
    C2: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float = 0.0,
    fused: tuple[Any, float] | None = None,
    loss: str = "square",
) -> GromovGap:
    """Prove how far a Gromov-Wasserstein plan is from a stationary one.

    The plan may come from any package, such as POT or OTT.

    Parameters
    ----------
    plan : array of shape (n, m)
        Entries >= 0. If its marginals are not a and b, they are made exact first, by the rounding
        of Altschuler, Weed and Rigollet. The gap is only defined for exact marginals.
    C1, C2, a, b, entropy, fused, loss
        As in `transport.gromov`.

    Returns
    -------
    GromovGap

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> C = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    >>> cg.transport.gromov_gap(np.eye(3) / 3.0, C, C).stationarity <= 1e-12
    True
    >>> cg.transport.gromov_gap(np.full((3, 3), 1.0 / 9.0), C, C).stationarity > 0.1
    True
    """
    problem = gromov_problem(C1, C2, a, b, entropy=entropy, fused=fused, loss=loss)
    f = problem.f
    g = problem.g
    on = problem.on
    given = double(beside("plan", plan, on.a, ndim=2))
    if tuple(given.shape) != on.shape:
        raise ValueError(f"plan must have the shape {on.shape}, got {tuple(given.shape)}")
    lowest = float(namespace(given).min(given))
    if lowest < 0.0:
        raise ValueError(f"plan must have entries >= 0, got {lowest:g} among them")
    x = on.rounded(given)
    here = f.at(x)
    g_here = g.value(x)
    terms = Terms(here.value, g_here)
    null = on.start(Space.of(x))
    scale = max(terms.size, NULL_SHARE * Terms(f.at(null).value, g.value(null)).size)
    plane = linearised(
        f,
        g,
        here,
        here.gradient,
        x=x,
        g_size=g.magnitude(x, g_here),
        value=terms.value,
        accuracy=1e-9 * scale,
    )
    stationarity = terms.value - plane.bound
    return GromovGap(terms.value, stationarity, scale, on.violation(given), x)
