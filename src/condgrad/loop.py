"""The one loop: iterate, certify, record, stop. Every method runs on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from condgrad._arrays import Array, double, precision
from condgrad.certificate import Certificate, Iterate
from condgrad.errors import NotFiniteError
from condgrad.problem import Simple, Smooth
from condgrad.result import Result, Status, Trace
from condgrad.stopping import StopRule

STALL_WINDOW = 50


class Method(Protocol):
    """Which way and how far: a stream of certified iterates for f + g, ending when no step helps."""

    @property
    def f(self) -> Smooth: ...

    @property
    def g(self) -> Simple: ...

    def iterates(self, x: Array) -> Iterator[Iterate]: ...


class Progress(NamedTuple):
    """What a callback sees after each iteration."""

    iteration: int
    seconds: float
    x: Array
    value: float
    """F(x)."""
    lower_bound: float
    """The best bound so far."""
    gap: float
    """The best value so far minus the best bound so far."""
    step: float


Callback = Callable[[Progress], Any]


def run(
    method: Method, x0: Array, *, stop: StopRule, max_iter: int, time_limit: float | None, callback: Callback | None
) -> Result:
    """Pull iterates from a method until a rule says stop; return the best certified point."""
    begin = time.perf_counter()
    proof, k, measure = Certificate(x0, value_from="the start"), -1, math.inf
    rows: list[tuple[float, ...]] = []
    stalled = StallWatch(precision(x0))
    deadline = math.inf if time_limit is None else time_limit
    iterates = method.iterates(x0)
    del x0  # as large as any iterate: the method and the proof hold it as long as it matters
    try:
        for iterate in iterates:
            proof = proof.updated(iterate, k + 1)
            seconds = time.perf_counter() - begin
            measure = stop.measure(iterate, proof, method.g)
            k += 1
            rows.append(_row(k, seconds, iterate, proof, measure))
            asked = callback is not None and callback(_progress(k, seconds, iterate, proof))
            if measure <= stop.tolerance:
                proof = _revalued(method, stop.answer(iterate, proof, k))
                measure = stop.measure(iterate, proof, method.g)
            if measure <= stop.tolerance:
                status = Status.CONVERGED
            elif asked:
                status = Status.STOPPED_BY_CALLBACK
            elif k >= max_iter:
                status = Status.ITERATION_LIMIT
            elif seconds >= deadline:
                status = Status.TIME_LIMIT
            elif stalled.by(iterate.value, proof.lower_bound):
                status = Status.STALLED
            else:
                del iterate  # as large as several x: not to be held while the oracle works
                continue
            break
        else:  # the method has no step left that helps
            status = Status.STALLED
        if status is not Status.CONVERGED:
            proof = _revalued(method, proof)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
        if proof.value == math.inf:
            proof = _revalued(method, proof)
    except NotFiniteError as error:
        raise NotFiniteError(f"at iteration {k + 1}: {error}; no answer can be certified") from error
    message = _message(status, stop, measure)
    if status is Status.STALLED and stalled.unit > 1e-10:
        message += "; float32 data prove little below 1e-5: take float64 for more"
    return Result(proof.x, proof, status, message, max(k, 0), time.perf_counter() - begin, Trace(rows))


def _message(status: Status, stop: StopRule, measure: float) -> str:
    if status is Status.CONVERGED:
        return f"{stop.name} {measure:.3g} is within the tolerance {stop.tolerance:.3g}"
    return f"{status.value}; {stop.name} {measure:.3g}"


def _revalued(method: Method, proof: Certificate) -> Certificate:
    """The proof with F at its point computed afresh, in float64 where the parts allow it."""
    x = double(proof.x) if method.f.widens and method.g.widens else proof.x
    return proof.revalued(method.f.at(x).value + method.g.value(x))


def _row(k: int, seconds: float, iterate: Iterate, proof: Certificate, measure: float) -> tuple[float, ...]:
    """A row of the trace, in the order of its columns."""
    value, lower = iterate.value, proof.lower_bound
    calls, inner = iterate.oracle_calls, iterate.inner_iterations
    return (k, seconds, value, proof.value, lower, value - lower, iterate.step, calls, inner, measure)


def _progress(k: int, seconds: float, iterate: Iterate, proof: Certificate) -> Progress:
    return Progress(k, seconds, iterate.x, iterate.value, proof.lower_bound, proof.gap, iterate.step)


class StallWatch:
    """Whether two windows in a row brought neither a new value nor a better bound, up to rounding."""

    def __init__(self, unit: float) -> None:
        self.unit, self.left, self.lowest = unit, STALL_WINDOW, math.inf
        self.before = (math.inf, -math.inf)

    def by(self, value: float, lower_bound: float) -> bool:
        if value < self.lowest:
            self.lowest = value
        self.left -= 1
        if self.left:
            return False
        noise = 0.1 * self.unit * max(abs(value), abs(lower_bound) if math.isfinite(lower_bound) else 0.0)
        still = abs(self.lowest - self.before[0]) <= noise and lower_bound - self.before[1] <= noise
        self.before, self.lowest, self.left = (self.lowest, lower_bound), math.inf, STALL_WINDOW
        return still
