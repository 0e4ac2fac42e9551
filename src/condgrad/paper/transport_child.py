"""The conditional gradient in a process of its own: a linear program that takes too long can only be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

import condgrad
from condgrad.errors import MissingExtra
from condgrad.loop import Progress
from condgrad.minimize import minimize
from condgrad.paper.transport_problem import TransportProblem
from condgrad.paper.words import told
from condgrad.sets import Transport

ROW = ("iteration", "seconds", "value", "best_value", "lower_bound")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PROGRAM = "from condgrad.paper.transport_child import main; main()"


@dataclass(frozen=True)
class Stream:
    """What came out of the child before it ended or was ended."""

    rows: list[list[float]]
    status: str
    """A member of Status by name, or "FAILED" where the engine broke."""
    note: str = ""


def refusal(engine: str) -> str:
    """Why an engine cannot run here, or nothing: a linear program of two points needs its library and its licence."""
    half = np.full(2, 0.5)
    try:
        Transport(half, half, engine=engine).linear_argmin(np.eye(2))
    except MissingExtra as missing:
        return str(missing)
    return ""


def streamed_cg(n: int, seed: int, engine: str, cap: float, tol: float) -> Stream:
    """CG with an engine for at most `cap` seconds, counted from where the child has loaded all it needs."""
    request = json.dumps({"n": n, "seed": seed, "engine": engine, "cap": cap, "tol": tol})
    # -P: no file in the current folder may take the place of a module
    command = [sys.executable, "-P", "-c", PROGRAM, request]
    with subprocess.Popen(
        command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        alarm = Timer(cap, child.kill)
        try:
            return _collected(child, alarm)
        finally:
            alarm.cancel()
            child.kill()


def _environment() -> dict[str, str]:
    """This process's, with this very condgrad in front, and one BLAS thread as for all solvers."""
    root = str(Path(condgrad.__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, "1")}


def _collected(child: subprocess.Popen[str], alarm: Timer) -> Stream:
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
            return Stream(rows, message["status"], message["note"])
    code = child.wait()
    if alarm.finished.is_set():
        return Stream(rows, "TIME_LIMIT")
    return Stream(rows, "FAILED", f"its process ended early with exit code {code}")


def main() -> None:
    """The child: runs the request of its command line and writes a line of JSON for each iteration."""
    request = json.loads(sys.argv[1])
    try:
        refusal(request["engine"])  # loads the library before the clock runs
        problem = TransportProblem.of(request["n"], request["seed"], engine=request["engine"])
        _tell({"ready": True})
        result = minimize(
            problem.f,
            problem.g,
            method="cg",
            tol=request["tol"],
            max_iter=10**6,
            time_limit=request["cap"],
            callback=_tell_progress,
        )
    except Exception as error:  # whatever an engine's library raises
        _tell({"status": "FAILED", "note": told(error)})
    else:
        _tell({"status": result.status.name, "note": ""})


def _tell_progress(now: Progress) -> None:
    _tell({"row": [now.iteration, now.seconds, now.value, now.lower_bound + now.gap, now.lower_bound]})


def _tell(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
