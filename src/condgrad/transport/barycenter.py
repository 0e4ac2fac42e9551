"""Barycentres of measures. On given points, the whole answer is certified. On free points, only the
plans are certified.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import _checks, deadline, sets, simple, smooth
from condgrad.arrays import Array, Space, Vector, double, host, namespace, total
from condgrad.arrays.inputs import floating
from condgrad.loop import Callback
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.result import AnswerOfRun, Result
from condgrad.search.restriction import Restriction, combined
from condgrad.transport.costs import SquaredEuclidean
from condgrad.transport.regularizers import Laplacian, Regularizer
from condgrad.transport.solve import TransportResult, beside, solve


@dataclass(frozen=True, repr=False, eq=False)
class Barycenter(AnswerOfRun):
    """The barycentre on given points, the plans to each measure, and their proof.

    Attributes
    ----------
    weights : array
        The barycentre: a weight for each point of the support.
    plans : tuple of arrays
        Plans from the barycentre to each measure, with exact marginals.
    result : Result
        The run over the scaled plans of `sets.SharedMarginal`. Its objective differs from `value`
        by a constant.
    constant : float
        This constant: `value` is the value of the run plus this number.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cost = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    >>> found = cg.transport.barycenter(cost, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], entropy=0.05)
    >>> found.success, found.lower_bound <= found.value, [plan.shape for plan in found.plans]
    (True, True, [(3, 3), (3, 3)])
    """

    weights: Array
    plans: tuple[Array, ...]
    result: Result
    constant: float

    @property
    def value(self) -> float:
        """sum_k w_k (<C_k, G_k> + entropy sum G_k log G_k + regularisers of G_k)."""
        return self.result.value + self.constant

    @property
    def lower_bound(self) -> float:
        """A certified lower bound on the minimum of `value`."""
        return self.result.lower_bound + self.constant

    def __repr__(self) -> str:
        kind = f"{len(self.weights)} points, {len(self.plans)} measures"
        return f"Barycenter({kind}, {self.status}, value={self.value:.10g}, gap={self.gap:.3g})"


def barycenter(
    costs: Any,
    marginals: Sequence[Any],
    weights: Any = None,
    *,
    entropy: float,
    regularizers: Sequence[Sequence[Regularizer]] | None = None,
    method: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> Barycenter:
    """The barycentre of several measures, on given points, with a certificate.

    The barycentre of measures b_k is the measure p from which it is cheapest to reach all of them.
    It minimises sum_k w_k (<C_k, G_k> + entropy sum G_k log G_k + regularisers of G_k) over p and
    over all plans G_k from p to b_k. An entropy > 0 blurs the barycentre.

    Parameters
    ----------
    costs : array, shape (n, m), or a sequence of arrays, shapes (n, m_k)
        The costs C_k from the n points of the barycentre to the points of each measure. If you give
        one array, it is used for all measures.
    marginals : sequence of arrays
        The measures b_k: weights >= 0. All must have the same sum.
    weights : array, optional
        The weights w_k > 0 of the measures. They are scaled to the sum 1. By default all are equal.
    entropy : float
        Weight of the entropies. With 0 the solver uses linear programs.
    regularizers : sequence of sequences, optional
        For each measure a list of regularisers of its plan, as in `transport.solve`. The sources of
        these plans are the points of the barycentre.
    method, tol, max_iter, time_limit, callback, progress
        As in `condgrad.minimize`.

    Returns
    -------
    Barycenter

    Examples
    --------
    One measure has all its mass on the left of three points, and the other on the right. The
    barycentre has it in the middle:

    >>> import numpy as np, condgrad as cg
    >>> cost = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    >>> cg.transport.barycenter(cost, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], entropy=0.05).weights.round(3).tolist()
    [0.0, 1.0, 0.0]
    """
    C, measures = _costs_and_measures(costs, marginals)
    shares = _shares(weights, len(measures))
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    P = sets.SharedMarginal(C[0].shape[0], measures, weights=shares)
    f: Smooth = smooth.Linear(namespace(C[0]).concat(C, axis=1))
    parts = _regularizing(regularizers, C)
    if any(part is not None for part in parts):
        f = f + BlockSum(P, parts)
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
    plans = tuple(
        result.x[:, block] / w for w, block in zip(shares.tolist(), P.blocks, strict=True)
    )
    constant = -entropy * P.mass * float(shares @ np.log(shares))
    return Barycenter(P.shared(result.x), plans, result, constant)


class BlockSum(Smooth):
    """f(X) = sum_k w_k f_k(X_k / w_k) over the blocks of `sets.SharedMarginal`; f_k may be None."""

    def __init__(self, on: sets.SharedMarginal, parts: Sequence[Smooth | None]) -> None:
        given = zip(on.weights.tolist(), on.blocks, parts, strict=True)
        self.terms = [(w, block, part) for w, block, part in given if part is not None]
        self.space = on.space

    def __repr__(self) -> str:
        return f"BlockSum({', '.join(repr(part) for _, _, part in self.terms)})"

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return all(part.mixes for _, _, part in self.terms)

    @property
    def widens(self) -> bool:  # type: ignore[override]
        return all(part.widens for _, _, part in self.terms)

    @property
    def smoothness(self) -> float | None:
        bounds = [
            None if part.smoothness is None else part.smoothness / w for w, _, part in self.terms
        ]
        return (
            None
            if any(bound is None for bound in bounds)
            else max(bound for bound in bounds if bound is not None)
        )

    def at(self, x: Array) -> BlockEvaluation:
        return BlockEvaluation(self, x, [part.at(x[:, block] / w) for w, block, part in self.terms])


class BlockEvaluation:
    """The sum at a point, from its terms there."""

    def __init__(self, f: BlockSum, x: Array, terms: list[Any]) -> None:
        self.f = f
        self.shape_of = x
        self.terms = terms
        self.weights = [w for w, _, _ in f.terms]

    @cached_property
    def value(self) -> float:
        return sum(w * term.value for w, term in zip(self.weights, self.terms, strict=True))

    @property
    def gradient(self) -> Array:
        result = namespace(self.shape_of).zeros_like(self.shape_of)
        for (_, block, _), term in zip(self.f.terms, self.terms, strict=True):
            result[:, block] = term.gradient
        return result

    @cached_property
    def offset(self) -> float:
        return sum(w * term.offset for w, term in zip(self.weights, self.terms, strict=True))

    def magnitude(self, other: BlockEvaluation) -> float:
        pairs = zip(self.weights, self.terms, other.terms, strict=True)
        return sum(w * mine.magnitude(its) for w, mine, its in pairs)

    def along(self, others: Sequence[BlockEvaluation], directions: Array) -> Restriction:
        restrictions = [
            term.along([other.terms[k] for other in others], directions[:, :, block] / w)
            for k, ((w, block, _), term) in enumerate(zip(self.f.terms, self.terms, strict=True))
        ]
        return combined(self.weights, restrictions)

    def moved(self, x: Array, others: Sequence[BlockEvaluation], a: Vector) -> BlockEvaluation:
        terms = [
            term.moved(x[:, block] / w, [other.terms[k] for other in others], a)
            for k, ((w, block, _), term) in enumerate(zip(self.f.terms, self.terms, strict=True))
        ]
        return BlockEvaluation(self.f, x, terms)


@dataclass(frozen=True, repr=False, eq=False)
class FreeBarycenter:
    """Points from a local search, with certified plans to each measure.

    *Proved*: each plan is the best one for these points, up to its gap. *Not proved*: that these
    points are the best. The problem is not convex in the points, and another start may give other
    points with a lower value.

    Attributes
    ----------
    points : array, shape (n, d)
        The points at the end of the search.
    weights : array, shape (n,)
        The weights of the points, as they were given.
    plans : tuple of TransportResult
        The certified plans from these points to each measure.
    value : float
        sum_k w_k (<C_k, G_k> + entropy sum G_k log G_k).
    gap : float
        The value is at most this far above the minimum for these points.
    rounds : int
        How many times the plans were solved and the points moved.
    message : str
        Why the search ended.

    Examples
    --------
    >>> import condgrad as cg
    >>> found = cg.transport.free_barycenter([[0.5]], [[[0.0]], [[4.0]]], entropy=0.1)
    >>> found.points.tolist(), found.gap < 1e-5
    ([[2.0]], True)
    """

    points: Array
    weights: Array
    plans: tuple[TransportResult, ...]
    value: float
    gap: float
    rounds: int
    message: str

    def __repr__(self) -> str:
        kind = f"{len(self.points)} points, {len(self.plans)} measures"
        return f"FreeBarycenter({kind}, value={self.value:.10g}, plans certified to {self.gap:.3g})"


def free_barycenter(
    start: Any,
    points: Sequence[Any],
    marginals: Sequence[Any] | None = None,
    weights: Any = None,
    *,
    entropy: float,
    support_weights: Any = None,
    tol: float = 1e-6,
    max_rounds: int = 100,
    time_limit: float | None = None,
) -> FreeBarycenter:
    """A barycentre of several clouds, on free points: a local search, with certified plans.

    The objective is sum_k w_k (<C_k, G_k> + entropy sum G_k log G_k) with squared distances C_k
    from the points Y of the barycentre to those of cloud k. A round has two steps. First the best
    plans G_k are computed for the points Y. Then each point moves to the mean of the targets of its
    mass, Y_i = sum_k w_k (G_k X_k)_i / p_i. This is the best Y for these plans (Cuturi and Doucet,
    ICML 2014). No round raises the objective by more than the gaps of its plans. The problem is not
    convex in Y: `FreeBarycenter` says what is proved.

    Parameters
    ----------
    start : array, shape (n, d)
        The first points of the barycentre.
    points : sequence of arrays, shapes (m_k, d)
        The points X_k of each cloud.
    marginals : sequence of arrays, optional
        The weights of the points of each cloud. All must have the same sum. By default they are
        uniform with the sum 1.
    weights : array, optional
        The weights w_k > 0 of the clouds. They are scaled to the sum 1. By default all are equal.
    entropy : float
        Weight of the entropies, >= 0.
    support_weights : array, optional
        The weights p > 0 of the points of the barycentre. They do not change. Uniform by default.
    tol : float
        The tolerance of the plans, as in `transport.solve`. The search ends if a round lowers the
        value by less than `tol * scale`.
    max_rounds, time_limit : int, float
        The largest number of rounds, and of seconds.

    Returns
    -------
    FreeBarycenter

    Examples
    --------
    >>> import condgrad as cg
    >>> left, right = [[0.0], [1.0]], [[4.0], [5.0]]
    >>> found = cg.transport.free_barycenter([[1.0], [2.0]], [left, right], entropy=0.01)
    >>> found.points.round(2).tolist()
    [[2.0], [3.0]]
    """
    Y = double(floating("start", start, ndim=2))
    if Y.shape[0] == 0:
        raise ValueError("start must hold one or more points, got none")
    if not isinstance(points, list | tuple) or len(points) == 0:
        raise TypeError(f"points must be a list of one or more arrays, got {type(points).__name__}")
    clouds = [double(beside(f"points[{k}]", X, Y, ndim=2)) for k, X in enumerate(points)]
    for k, X in enumerate(clouds):
        if 0 in X.shape or X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"points[{k}] must hold points of {Y.shape[1]} dimensions, got shape {tuple(X.shape)}"
            )
    shares = _shares(weights, len(clouds))
    measures = [None] * len(clouds) if marginals is None else list(marginals)
    if len(measures) != len(clouds):
        raise ValueError(
            f"marginals must be {len(clouds)} arrays, one for each cloud, got {len(measures)}"
        )
    _checks.whole("max_rounds", max_rounds, at_least=1)
    if support_weights is None:
        mass = 1.0 if marginals is None else total(floating("marginals[0]", measures[0], ndim=1))
        support_weights = Space.of(Y, shape=(Y.shape[0],)).full(mass / Y.shape[0])
    support_weights = double(beside("support_weights", support_weights, Y, ndim=1))
    if not bool(namespace(Y).all(support_weights > 0.0)):
        raise ValueError("support_weights must be > 0: leave points without weight out")
    plans: list[TransportResult] = []
    rounds = 0
    before = math.inf
    message = f"{max_rounds} rounds were not enough"
    with deadline.within(time_limit):
        while rounds < max_rounds:
            rounds += 1
            if plans:
                Y = sum(
                    w * t.barycenters(X)
                    for w, t, X in zip(shares.tolist(), plans, clouds, strict=True)
                )
            starts: list[Any] = [*plans] or [None] * len(clouds)
            plans = [
                solve(
                    SquaredEuclidean(Y, X),
                    support_weights,
                    b,
                    entropy=entropy,
                    tol=tol,
                    start=before_it,
                )
                for X, b, before_it in zip(clouds, measures, starts, strict=True)
            ]
            for t in plans:
                t.result.uninterrupted()
            value = sum(w * t.value for w, t in zip(shares.tolist(), plans, strict=True))
            scale = sum(w * t.scale for w, t in zip(shares.tolist(), plans, strict=True))
            if before - value <= tol * scale:
                message = "the points stand still; the plans are certified, the points are those of a local search"
                break
            before = value
            if deadline.passed():
                message = "the time limit was reached"
                break
    gap = sum(w * t.gap for w, t in zip(shares.tolist(), plans, strict=True))
    return FreeBarycenter(
        Y, support_weights, tuple(plans), float(value), float(gap), rounds, message
    )


def _costs_and_measures(costs: Any, marginals: Any) -> tuple[list[Array], list[Array]]:
    """A cost for each measure, all of one library, in float64."""
    if not isinstance(marginals, list | tuple) or len(marginals) == 0:
        raise TypeError(
            f"marginals must be a list of one or more arrays of weights, got {type(marginals).__name__}"
        )
    if isinstance(costs, list | tuple):
        if len(costs) != len(marginals):
            raise ValueError(
                f"costs must be one array, or {len(marginals)}, one for each marginal; got {len(costs)}"
            )
        first = double(floating("costs[0]", costs[0], ndim=2))
        C = [
            first,
            *(double(beside(f"costs[{k}]", costs[k], first, ndim=2)) for k in range(1, len(costs))),
        ]
    else:
        C = [double(floating("costs", costs, ndim=2))] * len(marginals)
    measures = [double(beside(f"marginals[{k}]", b, C[0], ndim=1)) for k, b in enumerate(marginals)]
    for k, (cost, b) in enumerate(zip(C, measures, strict=True)):
        if tuple(cost.shape) != (C[0].shape[0], b.shape[0]):
            raise ValueError(
                f"the cost to marginals[{k}] must have the shape {(C[0].shape[0], b.shape[0])}, got {tuple(cost.shape)}"
            )
    return C, measures


def _shares(weights: Any, count: int) -> Any:
    """Weights of the measures, of sum 1, on the host."""
    if weights is None:
        return np.full(count, 1.0 / count)
    shares = host(floating("weights", weights, ndim=1))
    if len(shares) != count or not (shares > 0.0).all():
        raise ValueError(
            f"weights must be {count} numbers > 0, one for each measure, got {weights!r}"
        )
    return shares / shares.sum()


def _regularizing(regularizers: Any, C: list[Array]) -> list[Smooth | None]:
    """The sum of the regularisers of each plan."""
    if regularizers is None:
        return [None] * len(C)
    if not isinstance(regularizers, list | tuple) or len(regularizers) != len(C):
        raise TypeError(
            f"regularizers must be {len(C)} lists, one for each measure, got {regularizers!r}"
        )
    parts: list[Smooth | None] = []
    for k, (given, cost) in enumerate(zip(regularizers, C, strict=True)):
        if not isinstance(given, list | tuple):
            raise TypeError(f"regularizers[{k}] must be a list, got {given!r}")
        terms = [smooth_part(f"regularizers[{k}][{i}]", r, cost) for i, r in enumerate(given)]
        parts.append(sum(terms[1:], start=terms[0]) if terms else None)
    return parts


def smooth_part(name: str, regularizer: Any, cost: Array) -> Smooth:
    """A regulariser as a function of the plan, its coordinates in the library and on the device of
    the cost.
    """
    if isinstance(regularizer, Laplacian):
        Xs, Xt = (
            beside(f"{name}.{X}", getattr(regularizer, X), cost, ndim=2) for X in ("Xs", "Xt")
        )
        regularizer = replace(regularizer, Xs=Xs, Xt=Xt)
    if not (isinstance(regularizer, Smooth) or hasattr(regularizer, "smooth_part")):
        raise TypeError(
            f"{name} must be a transport.Laplacian, a transport.GroupLasso or smooth, got {regularizer!r}"
        )
    part = regularizer if isinstance(regularizer, Smooth) else regularizer.smooth_part()
    if part.space is not None and part.space.shape != tuple(cost.shape):
        raise ValueError(f"{name}, {part!r}, does not fit a cost of shape {tuple(cost.shape)}")
    return part
