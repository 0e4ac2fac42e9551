"""How each solver of figure 1 is run on the transport problem, and the curve that it leaves."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from condgrad.errors import MissingExtra, require_extra
from condgrad.loop import Progress
from condgrad.minimize import minimize
from condgrad.paper.machine import one_thread
from condgrad.paper.pieces import Curve
from condgrad.paper.transport_child import ROW, refusal, streamed_cg
from condgrad.paper.transport_problem import TransportProblem
from condgrad.result import Trace

TOLERANCE = 1e-10
NEWTON_TOLERANCE = 1e-12
"""Newton also gives the reference F*, so it is asked for more."""
TOO_SLOW, MISSING = "too slow", "missing"
"""Why a solver was skipped, as `facts["reason"]`."""


@dataclass(frozen=True)
class Run:
    """A solver on a problem, with the seconds that it may take."""

    solver: str
    n: int
    seed: int
    cap: float

    def curve(self, columns: Mapping[str, Sequence[float]], status: str, note: str = "", **facts: Any) -> Curve:
        known = {"n": self.n, "cap": self.cap, "start_value": TransportProblem.of(self.n, self.seed).start_value}
        return Curve(f"n = {self.n}", self.solver, self.seed, columns, status, note, {**known, **facts})

    def skipped(self, note: str, reason: str, **facts: Any) -> Curve:
        return self.curve({name: [] for name in ROW}, "SKIPPED", note, reason=reason, **facts)


@dataclass(frozen=True)
class Options:
    """What `minimize` is asked for."""

    method: str = "cgs"
    step: str = "exact"
    memory: int = 0
    tol: float = TOLERANCE


OURS: Mapping[str, Options] = {
    "cgs-exact": Options(),
    "cgs-armijo": Options(step="armijo"),
    "cgs-open-loop": Options(step="open-loop"),
    "cgs-memory": Options(memory=5),
    "newton": Options(method="newton", tol=NEWTON_TOLERANCE),
}
ENGINES: Mapping[str, str] = {"cg-highs": "highs", "cg-cvxopt": "cvxopt", "cg-mosek": "mosek"}


def on_one_thread(run: Run) -> Curve:
    """The run of a solver as it is timed."""
    with one_thread():
        return RUNS[run.solver](run)


def run_ours(run: Run) -> Curve:
    """A method of the library, from its trace."""
    return _minimized(run, OURS[run.solver], TransportProblem.of(run.n, run.seed))


def run_network_simplex(run: Run) -> Curve:
    """CG over POT's network simplex, whose linear programs are short enough to run here."""
    try:
        # loaded before the clock runs
        require_extra("ot", extra="pot", purpose="CG with network simplex")
    except MissingExtra as missing:
        return run.skipped(str(missing), MISSING)
    curve = _minimized(run, Options(method="cg"), TransportProblem.of(run.n, run.seed, engine="emd"))
    return replace(curve, facts={**curve.facts, "lp_seconds": curve.columns["seconds"][0]})


def _minimized(run: Run, options: Options, problem: TransportProblem) -> Curve:
    result = minimize(
        problem.f,
        problem.g,
        method=options.method,
        step=options.step,
        memory=options.memory,
        tol=options.tol,
        max_iter=10**6,
        time_limit=run.cap,
    )
    return run.curve(traced(result.trace), result.status.name)


def traced(trace: Trace) -> dict[str, list[float]]:
    return {name: trace[name].tolist() for name in ROW}


def run_engine(run: Run) -> Curve:
    """CG over an engine whose linear programs may take minutes: in a process of its own, killed at the cap."""
    engine = ENGINES[run.solver]
    reason = refusal(engine)
    if reason:
        return run.skipped(reason, MISSING)
    stream = streamed_cg(run.n, run.seed, engine, run.cap, TOLERANCE)
    if stream.status == "TIME_LIMIT" and len(stream.rows) < 2:
        if not stream.rows:
            return run.skipped(f"The first linear program was not finished after {run.cap:g} s.", TOO_SLOW)
        seconds = stream.rows[0][1]
        note = f"One linear program took {seconds:.1f} s: no step was finished within {run.cap:g} s."
        return run.skipped(note, TOO_SLOW, lp_seconds=seconds)
    columns = {name: [row[i] for row in stream.rows] for i, name in enumerate(ROW)}
    facts = {"lp_seconds": stream.rows[0][1]} if stream.rows else {}
    return run.curve(columns, stream.status, stream.note, **facts)


class OutOfTime(Exception):
    """Ends a run of a peer that has no time limit of its own."""


@dataclass
class Clock:
    """Elapsed time with the judging taken out, and F at each moment."""

    problem: TransportProblem
    cap: float
    judging: float = 0.0
    begin: float = field(default_factory=time.perf_counter)
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def judge(self, plan: Any) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self.begin - self.judging)
        self.values.append(self.problem.value(np.asarray(plan)))
        self.judging += time.perf_counter() - now
        if self.seconds[-1] > self.cap:
            raise OutOfTime


def run_pot(run: Run) -> Curve:
    """POT's gcg with its longest settings; it shows its plan only where it asks for a gradient."""
    try:
        ot = require_extra("ot", extra="pot", purpose="POT gcg")
    except MissingExtra as missing:
        return run.skipped(str(missing), MISSING)
    problem = TransportProblem.of(run.n, run.seed)
    clock, status = Clock(problem, run.cap), "TIME_LIMIT"

    def gradient(plan: Any) -> Any:
        clock.judge(plan)
        return problem.omega.at(plan).gradient

    with warnings.catch_warnings(), contextlib.suppress(OutOfTime):
        warnings.simplefilter("ignore")
        a, b = problem.polytope.a, problem.polytope.b
        plan = ot.optim.gcg(
            a,
            b,
            problem.cost,
            problem.g.weight,
            1.0,
            lambda plan: problem.omega.at(plan).value,
            gradient,
            numItermax=10**6,
            numInnerItermax=10**4,
            stopThr=1e-13,
            stopThr2=1e-13,
        )
        status = "FINISHED"
        clock.judge(plan)
    columns = {
        "iteration": list(range(len(clock.values))),
        "seconds": clock.seconds,
        "value": clock.values,
        "best_value": np.minimum.accumulate(clock.values).tolist(),
    }
    note = "POT ended by its own rule, which proves nothing." if status == "FINISHED" else ""
    return run.curve(columns, status, note)


SHOWN = frozenset(np.unique(np.round(1.15 ** np.arange(70)).astype(int)).tolist()) | {0}
"""Iterations at which the two gaps are compared, evenly spaced on a logarithmic axis."""


def run_gaps(run: Run) -> Curve:
    """A run of CGS with, at some iterates, the bound that the classical gap gives there: one linear program each."""
    problem = TransportProblem.of(run.n, run.seed)
    shown: list[Progress] = []

    def keep(now: Progress) -> None:
        if now.iteration in SHOWN:
            shown.append(now._replace(x=np.array(now.x)))

    with one_thread():
        minimize(problem.f, problem.g, tol=TOLERANCE, max_iter=10**6, time_limit=run.cap, callback=keep)
    classical = [
        # CG at the iterate, without a step: its bound is F(x) minus the surrogate gap
        float(minimize(problem.f, problem.g, now.x, method="cg", max_iter=0).trace["lower_bound"][0])
        for now in shown
    ]
    columns: dict[str, Sequence[float]] = {
        "iteration": [now.iteration for now in shown],
        "seconds": [now.seconds for now in shown],
        "value": [now.value for now in shown],
        "lower_bound": [now.lower_bound for now in shown],
        "classical_lower_bound": classical,
    }
    return replace(run.curve(columns, "FINISHED"), problem=gaps_problem(run.n))


def gaps_problem(n: int) -> str:
    """The name of the problem of the curve with both gaps."""
    return f"gaps, n = {n}"


RUNS: Mapping[str, Callable[[Run], Curve]] = {
    **dict.fromkeys(("newton", "cgs-memory", "cgs-exact", "cgs-armijo", "cgs-open-loop"), run_ours),
    "cg-emd": run_network_simplex,
    **dict.fromkeys(ENGINES, run_engine),
    "pot-gcg": run_pot,
}
"""All of figure 1, in the order in which they run: the certified reference first."""
