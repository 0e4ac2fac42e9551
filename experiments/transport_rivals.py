"""Who else solves the transport problem: POT, and the conditional gradient over linear programs."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import condgrad as cg
from condgrad.errors import MissingExtra, require_extra
from experiments.clock import Clock, OutOfTime, one_thread, quiet
from experiments.problems import TransportProblem

COLUMNS = ("iteration", "seconds", "value", "best_value", "lower_bound")
"""What is noted of each iteration of our own methods."""


def pot_gcg(problem: TransportProblem, cap: float, **options: Any) -> tuple[Clock, bool]:
    """POT's gcg, judged where it asks for a gradient, for only there it shows its plan; and whether it ended itself."""
    ot = require_extra("ot", extra="pot", purpose="POT gcg")
    clock = Clock(problem.value, cap)

    def run(weights: Any, gradient: Callable[[Any], Any]) -> Any:
        omega = lambda plan: problem.omega.at(plan).value  # noqa: E731
        return ot.optim.gcg(weights, weights, problem.cost, problem.g.weight, 1.0, omega, gradient, **options)

    return clock, _watched(problem, clock, run, lambda plan: problem.omega.at(plan).gradient)


POT_LONG: Mapping[str, Any] = {"numItermax": 10**6, "numInnerItermax": 10**4, "stopThr": 1e-13, "stopThr2": 1e-13}
"""The settings of gcg that go furthest."""


def pot_cg(problem: TransportProblem, cap: float) -> tuple[Clock, bool]:
    """POT's conditional gradient, which linearises the entropy too."""
    ot = require_extra("ot", extra="pot", purpose="POT cg")
    clock = Clock(problem.value, cap)

    def run(weights: Any, gradient: Callable[[Any], Any]) -> Any:
        value = lambda plan: problem.omega.at(plan).value + problem.g.value(plan)  # noqa: E731
        options: dict[str, Any] = {"numItermax": 10**6, "stopThr": 1e-13, "stopThr2": 1e-13}
        start = np.outer(weights, weights)
        return ot.optim.cg(weights, weights, problem.cost, 1.0, value, gradient, G0=start, **options)

    slope = lambda plan: problem.omega.at(plan).gradient + problem.g.gradient(plan)  # noqa: E731
    return clock, _watched(problem, clock, run, slope)


def _watched(problem: TransportProblem, clock: Clock, run: Callable[..., Any], gradient: Callable[[Any], Any]) -> bool:
    def judged_gradient(plan: Any) -> Any:
        clock.judge(plan)
        return gradient(plan)

    ended = False
    with quiet(), contextlib.suppress(OutOfTime):
        plan = run(problem.polytope.a, judged_gradient)
        ended = True
        clock.judge(plan)
    return ended


def pot_groups(problem: TransportProblem, labels: Any, weight: float, iterations: int) -> tuple[float, Any, int]:
    """Seconds of POT's `sinkhorn_l1l2_gl`, its plan, and how many outer iterations it made."""
    ot = require_extra("ot", extra="pot", purpose="this benchmark")
    a, entropy = problem.polytope.a, problem.g.weight
    begin = time.perf_counter()
    with quiet():
        plan, log = ot.da.sinkhorn_l1l2_gl(
            a, labels, a, problem.cost, entropy, eta=weight, numItermax=iterations, log=True
        )
    return time.perf_counter() - begin, plan, len(log["loss"]) - 1


class ChildRun(NamedTuple):
    """What came out of a child process before it ended or was ended; `status` is one of Status, or "FAILED"."""

    rows: list[list[float]]
    status: str
    note: str = ""


def engine_refusal(engine: str) -> str:
    """Why an engine cannot run here, or nothing: a linear program of two points needs its library and its licence."""
    half = np.full(2, 0.5)
    try:
        cg.sets.Transport(half, half, engine=engine).linear_argmin(np.eye(2))
    except MissingExtra as missing:
        return str(missing)
    return ""


def conditional_gradient_in_child(n: int, seed: int, engine: str, cap: float, tol: float) -> ChildRun:
    """CG with an engine, in a process of its own: a linear program that takes too long can only be killed.

    The cap counts from where the child has loaded all it needs.
    """
    context = multiprocessing.get_context("spawn")
    messages, sender = context.Pipe(duplex=False)
    child = context.Process(target=child_main, args=(sender, n, seed, engine, cap, tol), daemon=True)
    child.start()
    sender.close()
    rows: list[list[float]] = []
    deadline = math.inf
    try:
        while messages.poll(None if deadline == math.inf else max(0.0, deadline - time.monotonic())):
            message = messages.recv()
            if message == "ready":
                deadline = time.monotonic() + cap
            elif isinstance(message, list):
                rows.append(message)
            else:
                return ChildRun(rows, *message)
        return ChildRun(rows, "TIME_LIMIT")
    except EOFError:
        child.join()
        return ChildRun(rows, "FAILED", f"its process ended early with exit code {child.exitcode}")
    finally:
        child.kill()


def child_main(sender: Any, n: int, seed: int, engine: str, cap: float, tol: float) -> None:
    """Sends "ready", a row for each iteration, and how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, who is interrupted too, ends this process
    for stream in (1, 2):  # the engines' own libraries write there
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        engine_refusal(engine)  # loads the library before the clock runs
        problem = TransportProblem.of(n, seed, engine=engine)
        sender.send("ready")

        def send_row(now: Any) -> None:
            sender.send([now.iteration, now.seconds, now.value, now.lower_bound + now.gap, now.lower_bound])

        with one_thread():
            limits: dict[str, Any] = {"tol": tol, "time_limit": cap, "max_iter": 10**6}
            result = cg.minimize(problem.f, problem.g, method="cg", callback=send_row, **limits)
    except Exception as error:  # whatever an engine's library raises
        sender.send(("FAILED", f"{type(error).__name__}: {error}"))
    else:
        sender.send((result.status.name, ""))
