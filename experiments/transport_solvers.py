"""Who solves the transport problem: our methods, POT, and the conditional gradient over linear programs.

`run` takes any of them by name, and gives what was measured at each iteration.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import condgrad as cg
from condgrad.errors import MissingExtra, require_extra
from experiments.clock import Clock, OutOfTime, one_thread, quiet
from experiments.problems import TransportProblem

COLUMNS = ("iteration", "seconds", "value", "best_value", "lower_bound")
"""What is noted of each iteration; POT proves no bounds."""
TOLERANCE = 1e-10
OURS: Mapping[str, Mapping[str, Any]] = {
    # Newton also gives the reference F*, so it is asked for more
    "newton": {"method": "newton", "tol": 1e-12},
    "cgs-memory": {"memory": 5},
    "cgs-exact": {},
    "cgs-armijo": {"step": "armijo"},
    "cgs-open-loop": {"step": "open-loop"},
    "cgs-short": {"step": "short"},
}
"""Our methods, as `minimize` is asked for them."""
ENGINES = {"cg-emd": "emd", "cg-highs": "highs", "cg-cvxopt": "cvxopt", "cg-mosek": "mosek"}
"""The conditional gradient, by who solves its linear programs."""
LONG = {"numItermax": 10**6, "stopThr": 1e-13, "stopThr2": 1e-13}
POT: Mapping[str, Mapping[str, Any]] = {
    "pot-gcg": {**LONG, "numInnerItermax": 10**4},
    "pot-gcg-defaults": {},
    "pot-cg": LONG,
}
"""POT's solvers with their options; the first has the settings that go furthest."""
TOO_SLOW, MISSING = "too slow", "missing"
"""Why a solver was skipped."""


class SolverRun(NamedTuple):
    """What was measured, by column; `status` is one of Status, FINISHED, SKIPPED (with a reason) or FAILED."""

    columns: Mapping[str, Sequence[float]]
    status: str
    note: str = ""
    reason: str = ""


def run(solver: str, make: Callable[..., TransportProblem], cap: float) -> SolverRun:
    """A solver by its name on the problem that `make` makes, perhaps with an `engine`, for so many seconds."""
    try:
        if solver in OURS:
            return _minimized(make(), cap, **OURS[solver])
        return (
            _pot(solver, make(), cap)
            if solver in POT
            else _conditional_gradient(ENGINES[solver], make, cap)
        )
    except MissingExtra as missing:
        return _skipped(str(missing), MISSING)


def _minimized(problem: TransportProblem, cap: float, **options: Any) -> SolverRun:
    limits: dict[str, Any] = {"tol": TOLERANCE, "max_iter": 10**6, "time_limit": cap}
    result = cg.minimize(problem.f, problem.g, **{**limits, **options})
    return SolverRun({name: result.trace[name].tolist() for name in COLUMNS}, result.status.name)


def _skipped(note: str, reason: str) -> SolverRun:
    return SolverRun({name: [] for name in COLUMNS}, "SKIPPED", note, reason)


# POT ------------------------------------------------------------------------------------------------------------------


def _pot(solver: str, problem: TransportProblem, cap: float) -> SolverRun:
    """POT, judged where it asks for a gradient, for only there it shows its plan; its cg linearises the entropy too."""
    optim = require_extra("ot", extra="pot", purpose=solver).optim
    a, omega, g = problem.polytope.a, problem.omega, problem.g
    linearized = solver == "pot-cg"
    clock, ended = Clock(problem.value, cap), False

    def value(plan: Any) -> Any:
        return omega.at(plan).value + (g.value(plan) if linearized else 0.0)

    def gradient(plan: Any) -> Any:
        clock.judge(plan)
        return omega.at(plan).gradient + (g.gradient(plan) if linearized else 0.0)

    with quiet(), contextlib.suppress(OutOfTime):
        if linearized:
            plan = optim.cg(
                a, a, problem.cost, 1.0, value, gradient, G0=np.outer(a, a), **POT[solver]
            )
        else:
            plan = optim.gcg(a, a, problem.cost, g.weight, 1.0, value, gradient, **POT[solver])
        ended = True
        clock.judge(plan)
    columns = {
        "iteration": list(range(len(clock.values))),
        "seconds": clock.seconds,
        "value": clock.values,
        "best_value": np.minimum.accumulate(clock.values).tolist(),
    }
    if ended:
        return SolverRun(columns, "FINISHED", "POT ended by its own rule, which proves nothing.")
    return SolverRun(columns, "TIME_LIMIT")


# The conditional gradient over linear programs ------------------------------------------------------------------------


def _conditional_gradient(
    engine: str, make: Callable[..., TransportProblem], cap: float
) -> SolverRun:
    """CG over an engine; one whose linear programs may take minutes runs in a process of its own."""
    if engine == "emd":
        require_extra(
            "ot", extra="pot", purpose="CG with network simplex"
        )  # loaded before the clock runs
        return _minimized(make(engine=engine), cap, method="cg")
    _solve_two_points(engine)
    found = run_in_child(engine, make, cap)
    seconds = found.columns["seconds"]
    if found.status == "TIME_LIMIT" and len(seconds) == 0:
        return _skipped(f"The first linear program was not finished after {cap:g} s.", TOO_SLOW)
    if found.status == "TIME_LIMIT" and len(seconds) == 1:
        first = f"One linear program took {seconds[0]:.1f} s"
        return _skipped(f"{first}: no step was finished within {cap:g} s.", TOO_SLOW)
    return found


def _solve_two_points(engine: str) -> None:
    """Loads the library of an engine, and raises MissingExtra where it or its licence is not there."""
    half = np.full(2, 0.5)
    cg.sets.Transport(half, half, engine=engine).linear_argmin(np.eye(2))


def run_in_child(engine: str, make: Callable[..., TransportProblem], cap: float) -> SolverRun:
    """CG in a process of its own, for a linear program that takes too long can only be killed.

    The cap counts from where the child has loaded all it needs.
    """
    context = multiprocessing.get_context("spawn")
    messages, sender = context.Pipe(duplex=False)
    child = context.Process(target=child_main, args=(sender, engine, make, cap), daemon=True)
    child.start()
    sender.close()
    rows: list[list[float]] = []
    deadline, ended = math.inf, ("TIME_LIMIT", "")
    try:
        while messages.poll(
            None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        ):
            message = messages.recv()
            if message == "ready":
                deadline = time.monotonic() + cap
            elif isinstance(message, list):
                rows.append(message)
            else:
                ended = message
                break
    except EOFError:
        child.join()
        ended = "FAILED", f"its process ended early with exit code {child.exitcode}"
    finally:
        child.kill()
    return SolverRun(
        {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}, *ended
    )


def child_main(sender: Any, engine: str, make: Callable[..., TransportProblem], cap: float) -> None:
    """Sends "ready", a row for each iteration, and how it ended."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent, who is interrupted too, ends this process
    for stream in (1, 2):  # the engines' own libraries write there
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)

    def send_row(now: Any) -> None:
        sender.send(
            [now.iteration, now.seconds, now.value, now.lower_bound + now.gap, now.lower_bound]
        )

    try:
        _solve_two_points(engine)
        problem = make(engine=engine)
        sender.send("ready")
        with one_thread():
            limits: dict[str, Any] = {"tol": TOLERANCE, "time_limit": cap, "max_iter": 10**6}
            result = cg.minimize(problem.f, problem.g, method="cg", callback=send_row, **limits)
    except Exception as error:  # whatever an engine's library raises
        sender.send(("FAILED", f"{type(error).__name__}: {error}"))
    else:
        sender.send((result.status.name, ""))
