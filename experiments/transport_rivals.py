"""Who else solves the transport problem: POT, and the conditional gradient over linear programs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

import condgrad as cg
from condgrad.errors import MissingExtra, require_extra
from experiments.clock import Clock, OutOfTime, quiet
from experiments.problems import TransportProblem

COLUMNS = ("iteration", "seconds", "value", "best_value", "lower_bound")
"""What is noted of each iteration of our own methods."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CHILD = "from experiments.transport_rivals import child_main; child_main()"


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


# The conditional gradient in a process of its own: a linear program that takes too long can only be killed -------------


@dataclass(frozen=True)
class ChildRun:
    """What came out of the child process before it ended or was ended."""

    rows: list[list[float]]
    status: str
    """A member of Status by name, or "FAILED" where the engine broke."""
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
    """CG with an engine for at most `cap` seconds, counted from where the child has loaded all it needs."""
    request = json.dumps({"n": n, "seed": seed, "engine": engine, "cap": cap, "tol": tol})
    # -P: no file in the current folder may take the place of a module
    command = [sys.executable, "-P", "-c", CHILD, request]
    with subprocess.Popen(
        command, env=_child_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        alarm = Timer(cap, child.kill)
        try:
            return _collected(child, alarm)
        finally:
            alarm.cancel()
            child.kill()


def _child_environment() -> dict[str, str]:
    """This process's, with this very code in front, and one BLAS thread as for all solvers."""
    roots = [str(Path(cg.__file__).parents[1]), str(Path(__file__).parents[1])]
    path = os.pathsep.join([*roots, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, "1")}


def _collected(child: subprocess.Popen[str], alarm: Timer) -> ChildRun:
    rows: list[list[float]] = []
    assert child.stdout is not None
    for line in child.stdout:
        # the engine's own library may write here too
        message = json.loads(line) if line.startswith("{") else {}
        if "ready" in message:
            alarm.start()
        if "row" in message:
            rows.append(message["row"])
        if "status" in message:
            return ChildRun(rows, message["status"], message["note"])
    code = child.wait()
    if alarm.finished.is_set():
        return ChildRun(rows, "TIME_LIMIT")
    return ChildRun(rows, "FAILED", f"its process ended early with exit code {code}")


def child_main() -> None:
    """Runs the request of the command line and writes a line of JSON for each iteration."""
    request = json.loads(sys.argv[1])
    try:
        engine_refusal(request["engine"])  # loads the library before the clock runs
        problem = TransportProblem.of(request["n"], request["seed"], engine=request["engine"])
        limits = {"tol": request["tol"], "time_limit": request["cap"], "max_iter": 10**6}
        _write({"ready": True})
        result = cg.minimize(problem.f, problem.g, method="cg", callback=_write_row, **limits)
    except Exception as error:  # whatever an engine's library raises
        _write({"status": "FAILED", "note": f"{type(error).__name__}: {error}"})
    else:
        _write({"status": result.status.name, "note": ""})


def _write_row(now: Any) -> None:
    _write({"row": [now.iteration, now.seconds, now.value, now.lower_bound + now.gap, now.lower_bound]})


def _write(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
