"""Time, measured alike for all solvers: on one thread, with the judging of answers taken out, and capped."""

from __future__ import annotations

import contextlib
import signal
import time
import timeit
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


class OutOfTime(Exception):
    """Ends a run of a rival that has no time limit of its own."""


@dataclass
class Clock:
    """Seconds of a run without those that judging took, and the value of F at each moment."""

    value: Callable[[Any], float]
    cap: float
    judging: float = 0.0
    begin: float = field(default_factory=time.perf_counter)
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def judge(self, x: Any) -> None:
        """Note the value at a point; past the cap, end the run."""
        now = time.perf_counter()
        self.seconds.append(now - self.begin - self.judging)
        self.values.append(self.value(np.asarray(x)))
        self.judging += time.perf_counter() - now
        if self.seconds[-1] > self.cap:
            raise OutOfTime


def one_thread(count: int = 1) -> contextlib.AbstractContextManager[Any]:
    """One BLAS thread, the same for all solvers: at these sizes several wait for each other most of the time."""
    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(count)
    return limits


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of solvers that were asked to stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def capped(seconds: float) -> Iterator[None]:
    """Stop what runs inside after so many seconds, as soon as it comes back to Python; without limit on Windows."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    rang = False

    def ring(*_: Any) -> None:
        nonlocal rang
        rang = True
        raise OutOfTime

    # wall time: a timer of CPU time would make the clock of CPU time coarse for the rest of the process
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except (
        SystemError
    ) as error:  # how compiled code reports an alarm that rang while it was entered
        if rang:
            raise OutOfTime from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the answer of one run."""
    begin = time.process_time()
    answer = work()
    return time.process_time() - begin, answer


def time_of_call(function: Callable[..., Any], *arguments: Any) -> float:
    """The least CPU seconds of a call over several rounds of many."""
    timer = timeit.Timer(lambda: function(*arguments), timer=time.process_time)
    calls, _ = timer.autorange()
    return min(timer.repeat(5, calls)) / calls


def best_time(
    prepare: Callable[[], Callable[[], Any]], *, budget: float = 0.6, most: int = 15
) -> float:
    """The least CPU seconds of several runs; each is prepared outside the clock."""
    best, spent, runs = np.inf, 0.0, 0
    while runs < 2 or (spent < budget and runs < most):
        seconds, _ = clocked(prepare())
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
        if seconds > budget:
            break
    return best
