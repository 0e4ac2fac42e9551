"""Regularised optimal transport: min <C, G> + entropy sum G log G + regularisers, G a plan from a to b."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import _checks, sets, simple, smooth
from condgrad.arrays import Array, Space, double_like, is_torch, namespace, precision
from condgrad.arrays.inputs import floating
from condgrad.loop import Callback
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth, Sum
from condgrad.result import Result, Status, Trace
from condgrad.search.steps import Exact, StepRule, step_rule
from condgrad.sets.sinkhorn import Potentials
from condgrad.transport.regularizers import Laplacian, Regularizer


@dataclass(frozen=True, repr=False, eq=False)
class TransportResult:
    """A plan with exact marginals and the proof of how good it is."""

    plan: Array
    problem: tuple[Smooth, Simple]
    result: Result

    @property
    def value(self) -> float:
        """F(plan)."""
        return self.result.value

    @property
    def lower_bound(self) -> float:
        """A number that F* cannot be below."""
        return self.result.lower_bound

    @property
    def gap(self) -> float:
        return self.result.gap

    @property
    def scale(self) -> float:
        """What the gap is measured against: |f| + |g| at the plan; see `condgrad.certificate`."""
        return self.result.scale

    @property
    def relative_gap(self) -> float:
        """gap / scale."""
        return self.result.relative_gap

    @property
    def method(self) -> str:
        """The method that ran."""
        return self.result.method

    @property
    def status(self) -> Status:
        return self.result.status

    @property
    def message(self) -> str:
        return self.result.message

    @property
    def success(self) -> bool:
        return self.result.success

    @property
    def iterations(self) -> int:
        return self.result.iterations

    @property
    def seconds(self) -> float:
        return self.result.seconds

    @property
    def trace(self) -> Trace:
        return self.result.trace

    @cached_property
    def potentials(self) -> Potentials:
        """Row and column potentials of the problem linearised at the plan, computed when first asked for.

        With M = cost + gradient of the regularisers, plan ~ exp((u_i + v_j - M_ij)/entropy), and points without weight
        have -inf. For entropy = 0 they are optimal prices, u_i + v_j <= M_ij, and points without weight have prices
        like all others.
        """
        f, g = self.problem
        M = f.at(self.plan).gradient
        u, v = g.argmin(M, accuracy=1e-3 * max(self.gap, 1e-12 * self.result.scale)).warm
        if isinstance(g, simple.Zero):
            # an engine does not look at rows without weight: theirs is the largest price that all columns allow
            xp = namespace(M)
            u = xp.where(self.plan.sum(1) > 0.0, u, xp.min(M - v[None, :], axis=1))
        return Potentials(u, v)

    @property
    def cost(self) -> float:
        """<cost, plan>, without entropy and regularisers."""
        f = self.problem[0]
        terms = zip(f.weights, f.terms, strict=True) if isinstance(f, Sum) else [(1.0, f)]
        return sum(w * term.at(self.plan).value for w, term in terms if isinstance(term, smooth.Linear))

    def barycenters(self, Y: Array) -> Array:
        """Where each source goes: the mean of Y, a row a target, under the source's share of the plan.

        A source without weight goes nowhere: its row is NaN.
        """
        mass = self.plan.sum(1)[:, None]
        return self.apply(Y) / namespace(mass).where(mass > 0.0, mass, math.nan)

    def apply(self, Y: Array) -> Array:
        """plan @ Y."""
        return self.plan @ Y

    def apply_transpose(self, Y: Array) -> Array:
        """plan' @ Y."""
        return self.plan.T @ Y

    def __str__(self) -> str:
        return str(self.result)

    def __repr__(self) -> str:
        n, m = self.plan.shape
        return f"TransportResult({n} x {m}, {self.status}, value={self.value:.10g}, gap={self.gap:.3g})"


def beside(name: str, values: Any, C: Array, *, ndim: int) -> Array:
    """A user's array in the library and on the device of the cost, in its own precision."""
    values = floating(name, values, ndim=ndim)
    if is_torch(C):
        return namespace(C).asarray(values, device=C.device)
    return values.cpu().numpy() if is_torch(values) else values


def _weights(name: str, weights: Any, C: Array, axis: int) -> Array:
    """Weights of the kind of the cost; uniform ones for None."""
    size = C.shape[axis]
    if weights is None:
        return Space.of(C, shape=(size,)).full(1.0 / size)
    weights = beside(name, weights, C, ndim=1)
    if weights.shape[0] != size:
        raise ValueError(
            f"{name} must have {size} weights, for a cost of {' x '.join(map(str, C.shape))}, got {len(weights)}"
        )
    return double_like(weights, C) if is_torch(C) or C.dtype == np.float64 else weights


def _objective(C: Array, regularizers: Sequence[Regularizer]) -> Smooth:
    """<C, G> and the regularisers, whose coordinates follow the cost to its library and device."""
    f: Smooth = smooth.Linear(C)
    for k, regularizer in enumerate(_checked(regularizers)):
        try:
            if isinstance(regularizer, Laplacian):
                Xs, Xt = (beside(name, getattr(regularizer, name), C, ndim=2) for name in ("Xs", "Xt"))
                regularizer = replace(regularizer, Xs=Xs, Xt=Xt)
            f = f + (regularizer if isinstance(regularizer, Smooth) else regularizer.smooth_part())
        except (TypeError, ValueError) as error:
            shape = " x ".join(map(str, C.shape))
            kind = f"a {Space.of(C).library} cost of {shape}"
            raise type(error)(f"regularizers[{k}], {regularizer!r}, does not go with {kind}: {error}") from None
    return f


def _start(start: Any, f: Smooth, P: sets.Transport, C: Array) -> Array:
    """A plan to start from, in the space of the problem."""
    plan = beside("start", start, C, ndim=2)
    if tuple(plan.shape) != tuple(C.shape):
        raise ValueError(f"start has the shape {tuple(plan.shape)} and must have that of the cost, {tuple(C.shape)}")
    plan = f.space.hold(plan)  # type: ignore[union-attr]
    if not P.contains(plan, max(1e-9, 100.0 * precision(plan))):
        raise ValueError(
            f"start must lie in {P!r}: entries >= 0, row sums a, column sums b; it is off by {P.violation(plan):.3g}"
        )
    return plan


def _checked(regularizers: Any) -> Sequence[Regularizer]:
    if not isinstance(regularizers, list | tuple) or not all(
        isinstance(r, Smooth) or hasattr(r, "smooth_part") for r in regularizers
    ):
        raise TypeError(
            "regularizers must be a list of transport.Laplacian, transport.GroupLasso or smooth functions of the plan, "
            f"got {regularizers!r}"
        )
    return regularizers


def solve(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    step: str | StepRule = "exact",
    memory: int | None = None,
    start: Any = None,
    engine: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> TransportResult:
    """Solve a regularised transport problem, with a certificate.

    Parameters
    ----------
    cost : array, shape (n, m)
        Its library (NumPy or torch) and device are those of the plan; weights, coordinates and the start follow it.
    a, b : arrays, optional
        Weights >= 0 of sources and targets, of the same mass; uniform of mass 1 by default.
    entropy : float
        Weight of sum G log G; 0 for none, which leaves the plain conditional gradient over linear programs.
    regularizers : sequence
        `transport.Laplacian`, `transport.GroupLasso`, or any smooth function of the plan (`condgrad.smooth`).
    method, step, tol, max_iter, time_limit, callback, progress
        As in `condgrad.minimize`.
    memory : int, optional
        As in `condgrad.minimize`; by default 3 for "cgs" and "cg" with exact steps, which alone can use it.
    start : array, optional
        A plan to start from.
    engine : str
        What solves linear programs, where one is needed; see `sets.Transport`.
    """
    C = floating("cost", cost, ndim=2)
    n, m = C.shape
    if n == 0 or m == 0:
        raise ValueError(f"cost must not be empty, got shape {(n, m)}")
    P = sets.Transport(_weights("a", a, C, 0), _weights("b", b, C, 1), engine=engine)
    f = _objective(C, regularizers)
    if memory is None:
        memory = 3 if method in ("cgs", "cg") and isinstance(step_rule(step), Exact) else 0
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    g: Simple = simple.Entropy(entropy, on=P) if entropy > 0 else simple.Zero(on=P)
    result = minimize(
        f,
        g,
        None if start is None else _start(start, f, P, C),
        method=method,
        step=step,
        memory=memory,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        callback=callback,
        progress=progress,
    )
    return TransportResult(result.x, (f, g), result)
