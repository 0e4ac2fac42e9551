"""The one loop: iterate, certify, record, stop. Every method runs on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from condgrad import deadline, kernels
from condgrad.arrays import Array, double, is_formed, precision
from condgrad.certificate import (
    NO_EFFORT,
    Certificate,
    Effort,
    Iterate,
    Terms,
    gains_in_double,
    proved_in_double,
)
from condgrad.errors import ContradictionError, NotFiniteError
from condgrad.problem import Simple, Smooth
from condgrad.result import Result, Status, Trace
from condgrad.rounding import NO_GAIN
from condgrad.stopping import RelativeGap, StopRule

STALL_WINDOW = 50
UNFINISHED = "written while the run went on"


class Method(Protocol):
    """A stream of certified iterates for f + g. It ends when no step helps or time is up.

    The first iterate is the start point.
    """

    @property
    def name(self) -> str: ...

    @property
    def f(self) -> Smooth: ...

    @property
    def g(self) -> Simple: ...

    def iterates(self, x: Array) -> Iterator[Iterate]: ...


class ResultKeeper(Protocol):
    """Something that keeps results while a run continues."""

    def offer(self, result: Callable[[], Result]) -> None: ...


class Progress(NamedTuple):
    """What a callback sees after each iteration.

    Attributes
    ----------
    iteration : int
        Counted from 0.
    seconds : float
        Since the start of the run.
    x : array
        The iterate.
    value : float
        F(x).
    lower_bound : float
        The best bound so far.
    gap : float
        The best value so far minus the best bound so far.
    step : float
        How far the last step went.
    stationarity : float or None
        The stationarity gap of the iterate if f is not convex; otherwise None.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> r = cg.minimize(f, g, tol=0.0, callback=lambda now: now.iteration == 3)
    >>> r.status.name, r.iterations
    ('STOPPED_BY_CALLBACK', 3)
    """

    iteration: int
    seconds: float
    x: Array
    value: float
    lower_bound: float
    gap: float
    step: float
    stationarity: float | None = None


Callback = Callable[[Progress], Any]


def run(
    method: Method,
    x0: Array,
    *,
    stop: StopRule,
    max_iter: int,
    null_size: float = 0.0,
    callback: Callback | None = None,
    problem: tuple[Smooth, Simple] | None = None,
    earlier: Result | None = None,
    checkpoint: ResultKeeper | None = None,
) -> Result:
    """Pull iterates from a method until a rule says stop; return the best certified point.

    `problem` is the user's f and g if the method has split their sum in another way. `earlier` is a
    result of the same problem that ended at x0; its proof, trace and counts continue. `checkpoint`
    is shown each iterate. `null_size` is |f| + |g| at the null point; if it is 0, |f| + |g| at x0
    is used. The time limit is that of `deadline`. Ctrl-C ends the run with its best certified
    answer. If it comes before the first iterate, the lower bound is -inf.
    """
    begin = time.perf_counter()
    problem = problem or (method.f, method.g)
    before = _Before.of(earlier)
    proof = before.proof or Certificate(x0, null_size=null_size, value_from="the start")
    prover = Prover(problem, method.g, stop, proof, finer=gains_in_double(*problem, x0))
    k = -1
    rows = list(before.rows)
    stalled = StallWatch(precision(x0), STALL_WINDOW)

    def answer(status: Status, message: str) -> Result:
        """The result so far."""
        iterations = before.iterations + max(k, 0)
        seconds = before.seconds + time.perf_counter() - begin
        past = tuple(getattr(method, "past", ()))
        proof = prover.proof
        return Result(
            proof.x, proof, status, message, iterations, seconds, Trace(rows), method.name, past
        )

    try:
        iterates = method.iterates(x0)
        del x0  # as large as any iterate: the method and the proof hold it as long as it matters
        for iterate in iterates:
            prover.take(iterate, k + 1, before.iterations)
            k += 1
            seconds = time.perf_counter() - begin
            rows.append(before.row(k, seconds, iterate, prover.proof, prover.measure))
            if checkpoint is not None:
                checkpoint.offer(lambda: answer(Status.INTERRUPTED, UNFINISHED))
            asked = callback is not None and _is_true(
                callback(_progress(before.iterations + k, seconds, iterate, prover.proof))
            )
            prover.look_closer(iterate, k)
            if prover.has_met:
                status = prover.met
            elif asked:
                status = Status.STOPPED_BY_CALLBACK
            elif k >= max_iter:
                status = Status.ITERATION_LIMIT
            elif deadline.passed():
                status = Status.TIME_LIMIT
            elif stalled.by(iterate, prover.proof.progress):
                status = Status.STALLED
            else:
                del iterate  # as large as several x: not to be held while the oracle works
                continue
            break
        else:  # the method has no step left that helps, or no time for one
            status = Status.TIME_LIMIT if deadline.passed() else Status.STALLED
        if status is not prover.met:
            status = prover.last_look(status)
    except (KeyboardInterrupt, SystemError) as stopped:
        if not isinstance(kernels.first_cause(stopped), KeyboardInterrupt):
            raise
        status = Status.INTERRUPTED
        prover.revalue()
    except ContradictionError as error:
        proof = prover.proof
        if error.x is None and proof.value < math.inf:
            error.x = proof.x
            error.value = proof.value
        raise
    except NotFiniteError as error:
        raise NotFiniteError(
            f"at iteration {k + 1}: {error}; no answer can be certified"
        ) from error
    message = _message(status, stop, prover.measure)
    if status is Status.STALLED and stalled.unit > 1e-10:
        message += (
            "; with float32 data a relative gap below about 1e-5 can hardly be proved, and the limit grows with the size "
            "of the set: take float64 data, or a smaller set"
        )
    return answer(status, message)


class Prover:
    """The proof of a run: every iterate updates it, and it is computed afresh when that decides."""

    def __init__(
        self,
        problem: tuple[Smooth, Simple],
        g: Simple,
        stop: StopRule,
        proof: Certificate,
        *,
        finer: bool,
    ) -> None:
        self.problem = problem
        self.g = g
        """The g of the method, for stop rules."""
        self.stop = stop
        self.finer = finer
        """Whether the proof gains in float64; see `gains_in_double`."""
        self.measure = math.inf
        self.unproved: Array = None
        """The last iterate of float32 data, if its bound has not yet been computed in float64."""
        convex = problem[0].convex
        self.met = Status.CONVERGED if convex else Status.STATIONARY
        if not convex and proof.stationarity is None:
            proof = replace(proof, stationarity=math.inf)
        self.proof = proof

    @property
    def has_met(self) -> bool:
        """Whether the measure of the stop rule is within its tolerance."""
        return self.measure <= self.stop.tolerance

    def take(self, iterate: Iterate, k: int, earlier: int) -> None:
        """Update the proof with iterate k of this run; an earlier run had `earlier` iterations."""
        if k == 0 and self.proof.null_size == 0.0:
            self.proof = self.proof.against(iterate.terms.size)
        self.proof = self.proof.updated(iterate, earlier + k)
        self.measure = self.stop.measure(iterate, self.proof, self.g)

    def look_closer(self, iterate: Iterate, k: int) -> None:
        """Compute the proof afresh if the stopping rule seems to be met, or would be in float64."""
        stop = self.stop
        if self.has_met:
            self.proof = _revalued(self.problem, stop.answer(iterate, self.proof, k))
            self.measure = stop.measure(iterate, self.proof, self.g)
        if not self.finer or self.has_met:
            return
        self.unproved = iterate.x
        if stop.measure(iterate, self.proof.without_rounding(iterate), self.g) <= stop.tolerance:
            self._prove_in_double()
            self.measure = stop.measure(iterate, self.proof, self.g)

    def last_look(self, status: Status) -> Status:
        """Compute the proof afresh at the end of a run: it may be enough after all."""
        if self.unproved is not None and not deadline.passed():
            self._prove_in_double()
        self.revalue()
        if isinstance(self.stop, RelativeGap):
            self.measure = self.stop.of(self.proof)
        return self.met if self.has_met else status

    def revalue(self) -> None:
        """Compute F at the answer afresh."""
        self.proof = _revalued(self.problem, self.proof)

    def _prove_in_double(self) -> None:
        self.proof = proved_in_double(self.proof, *self.problem, self.unproved)
        self.unproved = None


def _message(status: Status, stop: StopRule, measure: float) -> str:
    if status in (Status.CONVERGED, Status.STATIONARY):
        return f"{stop.name} is {measure:.3g}, within the tolerance {stop.tolerance:.3g}"
    return f"{status.value}; {stop.name} is {measure:.3g}"


def _revalued(problem: tuple[Smooth, Simple], proof: Certificate) -> Certificate:
    """The proof with f and g at its point computed afresh, in float64 where the parts allow it; as
    it is if they were.

    Those of a streamed plan were: no iterate is a mixture of such plans, whose f and g would follow
    from theirs.
    """
    f, g = problem
    if not is_formed(proof.x):
        return proof
    x = double(proof.x) if f.widens and g.widens else proof.x
    if proof.terms.afresh and x is proof.x:
        return proof
    return proof.revalued(Terms.at(x, f.at(x), g))


class _Before(NamedTuple):
    """What an earlier run brings along: nothing, for most runs."""

    proof: Certificate | None
    rows: list[tuple[float, ...]]
    iterations: int
    seconds: float
    effort: Effort

    @classmethod
    def of(cls, earlier: Result | None) -> _Before:
        if earlier is None:
            return cls(None, [], 0, 0.0, NO_EFFORT)
        trace = earlier.trace
        effort = Effort(*(int(trace[name][-1]) if len(trace) else 0 for name in Effort._fields))
        # the first iterate of a run is where the one before ended, and takes the place of its last
        # row
        return cls(
            earlier.certificate, trace.rows[:-1], earlier.iterations, earlier.seconds, effort
        )

    def row(
        self, k: int, seconds: float, iterate: Iterate, proof: Certificate, measure: float
    ) -> tuple[float, ...]:
        """A row of the trace, in the order of its columns."""
        value = iterate.value
        lower = proof.lower_bound
        effort = iterate.effort.after(self.effort)
        count = self.iterations + k
        total = self.seconds + seconds
        return (
            count,
            total,
            value,
            proof.value,
            lower,
            value - lower,
            iterate.step,
            *effort,
            measure,
        )


def _progress(k: int, seconds: float, iterate: Iterate, proof: Certificate) -> Progress:
    now = Progress(k, seconds, iterate.x, iterate.value, proof.lower_bound, proof.gap, iterate.step)
    return (
        now
        if proof.stationarity is None
        else now._replace(stationarity=iterate.value - iterate.lower_bound)
    )


def _is_true(asked: Any) -> bool:
    """Whether what a callback returned asks for the end."""
    try:
        return bool(asked)
    except (TypeError, ValueError, RuntimeError) as error:  # as NumPy, pandas and torch have it
        raise TypeError(
            "callback must return True to end the run, or None to continue, got "
            f"{type(asked).__name__} of shape {tuple(getattr(asked, 'shape', ()))}: return one True or False, such as "
            "bool((...).all())"
        ) from error


class StallWatch:
    """Whether the last window of iterates brought neither a lower value nor a better proof.

    Changes within rounding do not count.
    """

    def __init__(self, unit: float, window: int) -> None:
        self.unit = unit
        self.window = window
        self.left = window
        self.lowest = math.inf
        self.before = (math.inf, -math.inf)

    def by(self, iterate: Iterate, proved: float) -> bool:
        """Whether the run stands still after this iterate; iterates without a bound do not count.

        `proved` is the number that must rise; see `Certificate.progress`.
        """
        if iterate.lower_bound == -math.inf:
            return False
        value = iterate.value
        if value < self.lowest:
            self.lowest = value
        self.left -= 1
        if self.left:
            return False
        noise = NO_GAIN * self.unit * max(abs(value), abs(proved) if math.isfinite(proved) else 0.0)
        still = abs(self.lowest - self.before[0]) <= noise and proved - self.before[1] <= noise
        self.before = (self.lowest, proved)
        self.lowest = math.inf
        self.left = self.window
        return still
