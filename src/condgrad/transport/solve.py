"""Regularised optimal transport: min <C, G> + entropy sum G log G + regularisers, G a plan from a to b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from condgrad import _checks, sets, simple, smooth
from condgrad._arrays import Array, Space, floating
from condgrad.loop import Callback
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.result import Result, Status, Trace
from condgrad.sets.sinkhorn import Potentials
from condgrad.steps import StepRule
from condgrad.transport.regularizers import Regularizer


@dataclass(frozen=True)
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
    def trace(self) -> Trace:
        return self.result.trace

    @property
    def potentials(self) -> Potentials:
        """Row and column potentials (u, v) of the linearised problem at the plan."""
        f, g = self.problem
        answer = g.argmin(f.at(self.plan).gradient, accuracy=1e-3 * max(self.gap, 1e-12 * abs(self.value)))
        return answer.warm

    def apply(self, Y: Array) -> Array:
        """plan @ Y."""
        return self.plan @ Y

    def apply_transpose(self, Y: Array) -> Array:
        """plan' @ Y."""
        return self.plan.T @ Y

    def __str__(self) -> str:
        return str(self.result)


def _checked(regularizers: Any) -> Sequence[Regularizer]:
    if not isinstance(regularizers, list | tuple) or not all(hasattr(r, "smooth_part") for r in regularizers):
        raise TypeError(
            "regularizers must be a list of transport.Laplacian, transport.GroupLasso or objects with smooth_part(), "
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
    engine: str = "highs",
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
    a, b : arrays, optional
        Weights >= 0 of sources and targets, of the same mass; uniform of mass 1 by default.
    entropy : float
        Weight of sum G log G; 0 for none, which makes every method the plain conditional gradient.
    regularizers : sequence
        `transport.Laplacian`, `transport.GroupLasso`, or your own with a `smooth_part()`.
    method, step, tol, max_iter, time_limit, callback, progress
        As in `condgrad.minimize`.
    memory : int, optional
        As in `condgrad.minimize`; by default 3 with exact steps, which alone can use it.
    start : array, optional
        A plan to start from.
    engine : str
        What solves linear programs, where one is needed; see `sets.Transport`.
    """
    C = floating("cost", cost, ndim=2)
    n, m = C.shape
    if n == 0 or m == 0:
        raise ValueError(f"cost must not be empty, got shape {(n, m)}")
    a = Space.of(C, shape=(n,)).full(1.0 / n) if a is None else a
    b = Space.of(C, shape=(m,)).full(1.0 / m) if b is None else b
    P = sets.Transport(a, b, engine=engine)
    for name, weights, size in (("a", P.a, n), ("b", P.b, m)):
        if weights.shape[0] != size:
            raise ValueError(f"{name} must have {size} weights, for a cost of {n} x {m}, got {weights.shape[0]}")
    f: Smooth = smooth.Linear(C)
    for regularizer in _checked(regularizers):
        f = f + regularizer.smooth_part()
    if memory is None:
        memory = 3 if step == "exact" and method in ("cgs", "cg") else 0
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    g: Simple = simple.Entropy(entropy, on=P) if entropy > 0 else simple.Zero(on=P)
    result = minimize(
        f,
        g,
        start,
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
