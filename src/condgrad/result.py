"""What a run returns: `Result`, its `Status` and its `Trace`."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.arrays import Array, is_formed, to_numpy
from condgrad.certificate import Certificate, Terms
from condgrad.errors import require_extra
from condgrad.whole_file import whole_file

RESULT_FORMAT = "condgrad result 1"
FEW_POINTS = 20
"""Up to this many points, a plot marks each of them: a single point makes no line."""

NO_STREAMED_PLANS = (
    "a streamed plan is not an array, so it cannot be saved, and minimize cannot continue from it: keep its potentials "
    "(t.potentials), and give them, or the result itself, to transport.solve(..., start=...)"
)


class Status(Enum):
    """Why a run ended; the value of each member is a sentence that explains it.

    In all cases the best certified answer is returned, with its gap. Only CONVERGED and STATIONARY
    mean that the gap is as small as requested.

    Attributes
    ----------
    CONVERGED
        A stopping rule was met: by default, the certified gap is within `tol`.
    STATIONARY
        The same if f is not convex: the stationarity gap of the answer is within `tol`. Other
        points may be better.
    ITERATION_LIMIT, TIME_LIMIT
        `max_iter` or `time_limit` came first.
    STALLED
        No step improves F or the bound any more. For example, `tol` may be so small that rounding
        makes a proof impossible.
    INTERRUPTED
        Ctrl-C ended the run.
    STOPPED_BY_CALLBACK
        The callback returned a true value.

    Examples
    --------
    >>> import condgrad as cg
    >>> print(cg.Status.TIME_LIMIT, "-", cg.Status.TIME_LIMIT.value)
    TIME_LIMIT - the time limit was reached before the stopping rule was met
    """

    CONVERGED = "the stopping rule was met"
    STATIONARY = "the stopping rule was met at a stationary point"
    ITERATION_LIMIT = "the iteration limit was reached before the stopping rule was met"
    TIME_LIMIT = "the time limit was reached before the stopping rule was met"
    STALLED = "no step improves F or the bound any more"
    INTERRUPTED = "the run was interrupted; this is the best certified answer so far"
    STOPPED_BY_CALLBACK = "the callback asked to stop"

    def __str__(self) -> str:
        return self.name


ADVICE = {
    Status.STALLED: "Raise tol",
    Status.ITERATION_LIMIT: "Raise max_iter or tol",
    Status.TIME_LIMIT: "Raise time_limit or tol",
}
"""What the user of an estimator may do about a run that did not converge."""


class Trace:
    """The run by column: `trace["gap"]` is a NumPy array with an entry for each iteration.

    The columns are:

    - `iteration` and `seconds`, both counted from the start of the run;
    - `value`, F at the iterate, and `best_value`, the best F so far;
    - `lower_bound`, the best lower bound so far, and `gap`, which is `value - lower_bound`;
    - `step`, how far the last step went;
    - `evaluations` (of f), `oracle_calls` and `inner_iterations`, all totals so far;
    - `measure`, the number that the stopping rule compares with its tolerance.

    Parameters
    ----------
    rows : list of tuples
        One tuple for each iteration, with one entry for each column of `Trace.columns`. Runs make
        this list; you need not.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> trace = cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))).trace
    >>> trace["iteration"].tolist() == list(range(len(trace))), bool((trace["gap"] >= 0).all())
    (True, True)
    """

    columns = (
        "iteration",
        "seconds",
        "value",
        "best_value",
        "lower_bound",
        "gap",
        "step",
        "evaluations",
        "oracle_calls",
        "inner_iterations",
        "measure",
    )

    def __init__(self, rows: list[tuple[float, ...]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> Any:
        if column not in self.columns:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.columns)}")
        index = self.columns.index(column)
        kind = (
            np.int64
            if column in ("iteration", "evaluations", "oracle_calls", "inner_iterations")
            else np.float64
        )
        return np.array([row[index] for row in self.rows], dtype=kind)

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows: {', '.join(self.columns)})"

    def to_frame(self) -> Any:
        """The trace as a pandas DataFrame."""
        pandas = require_extra("pandas", extra="pandas", purpose="Trace.to_frame")
        return pandas.DataFrame({column: self[column] for column in self.columns})

    def to_csv(self, path: str | Path) -> None:
        """Write the trace to a CSV file."""
        with Path(path).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)

    def plot(self, *, against: str = "iteration", label: str | None = None, ax: Any = None) -> Any:
        """How far the best value may be from F*, on a log scale, against `iteration` or `seconds`.

        There are two curves. The first is the certified gap: the best value minus the lower bound
        that was known at the time. The second is the best value minus the last lower bound, which
        was only known at the end. A distance of 0 is drawn at one rounding unit of the largest
        value. If a label is given, only the first curve is drawn, so that several runs can share an
        axis. `condgrad.compare` does that for runs on one problem. Returns the matplotlib axes.
        """
        pyplot = require_extra("matplotlib.pyplot", extra="plot", purpose="Trace.plot")
        if against not in ("iteration", "seconds"):
            raise ValueError(f"against must be 'iteration' or 'seconds', got {against!r}")
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6, 4), layout="constrained")
        spent = self[against]
        value = self["best_value"]
        lower = self["lower_bound"]
        is_bounded = bool(len(lower)) and bool(np.isfinite(lower[-1]))
        if len(lower) and not is_bounded and np.isfinite(self["measure"][-1]):  # f is not convex
            name = label or "what the stopping rule measures"
            draw_distance(ax, spent, self["measure"], 0.0, label=name)
        elif label is not None:
            draw_distance(ax, spent, value, lower, label=label)
        else:
            draw_distance(ax, spent, value, lower, label="certified gap", color="#0072B2")
            if is_bounded:
                style = {"color": "#D55E00", "linestyle": "--"}
                draw_distance(
                    ax, spent, value, lower[-1], label="value - last lower bound", **style
                )
        ax.set(xlabel=against, ylabel="distance to the optimum, at most", yscale="log")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        return ax


def draw_distance(ax: Any, spent: Any, value: Any, lower: Any, *, label: str, **style: Any) -> None:
    """value - lower, against iterations or seconds; at least a rounding unit, since a log scale
    has no 0.
    """
    rounding = np.finfo(np.float64).eps * (np.abs(value).max(initial=0.0) or 1.0)
    marker = "." if len(value) <= FEW_POINTS else None
    ax.plot(spent, np.maximum(value - lower, rounding), marker=marker, label=label, **style)


@dataclass(frozen=True, eq=False)
class Result:
    """The best point found, with the proof of how good it is.

    Attributes
    ----------
    x : array
        The point.
    certificate : Certificate
        The value and the lower bound, and the iterate at which each was found.
    status : Status
        Why the run ended.
    message : str
        Why the run ended, as a sentence. It has the number that the stopping rule compared with its
        tolerance.
    iterations, seconds : int, float
        Iterations and seconds of the run, including those of the earlier runs that it continued.
    trace : Trace
        One row for each iteration; see `Trace`.
    method : str
        The method that ran, such as "cgs". For "auto": the method or methods that it chose, in
        their order.
    past : tuple of arrays
        The oracle points that the next step of CGS would have used. A run that continues from
        this result uses them.
    digest : str, optional
        A checksum that identifies the problem, if there is one. A run that continues from this
        result keeps its bound only if the checksums agree.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)))
    >>> r.success, r.lower_bound <= r.value, r.gap <= 1e-6 * r.scale
    (True, True, True)
    """

    x: Array
    certificate: Certificate
    status: Status
    message: str
    iterations: int
    seconds: float
    trace: Trace
    method: str
    past: tuple[Array, ...] = field(default=(), repr=False)
    digest: str | None = None

    @property
    def value(self) -> float:
        """F(x)."""
        return self.certificate.value

    @property
    def lower_bound(self) -> float:
        """The proved lower bound: F* is at least this number."""
        return self.certificate.lower_bound

    @property
    def gap(self) -> float:
        """`value - lower_bound`. It is at least F(x) - F*."""
        return self.certificate.gap

    @property
    def scale(self) -> float:
        """The number that the gap is divided by: |f| + |g| at x, or a hundredth of |f| + |g| at the
        null point (the point of the set nearest to the origin), whichever is larger.
        """
        return self.certificate.scale

    @property
    def relative_gap(self) -> float:
        """gap / scale."""
        return self.certificate.relative_gap

    @property
    def stationarity(self) -> float | None:
        """The certified stationarity gap of x if f is not convex. It is None if f is convex, since
        then the gap proves more.

        It is an upper bound on <c, x> + g(x) - min_s [<c, s> + g(s)] with c = grad f(x). So, to
        first order, no point of the set has an F that is lower by more than this number.
        """
        return self.certificate.stationarity

    @property
    def success(self) -> bool:
        """Whether the stopping rule was met."""
        return self.status in (Status.CONVERGED, Status.STATIONARY)

    def save(self, path: str | Path) -> None:
        """Write this result to a file, for `condgrad.load` and `minimize(..., start=...)`."""
        if not is_formed(self.x):
            raise TypeError(NO_STREAMED_PLANS)
        proof = self.certificate
        about = {
            "format": RESULT_FORMAT,
            "status": self.status.name,
            "message": self.message,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "method": self.method,
            "terms": [proof.terms.f, proof.terms.g, proof.terms.repair],
            "lower_bound": proof.lower_bound,
            "null_size": proof.null_size,
            "noise": proof.noise,
            "value_from": proof.value_from,
            "bound_from": proof.bound_from,
            "stationarity": proof.stationarity,
            "bound_noise": proof.bound_noise,
            "digest": self.digest,
        }
        past = {f"past_{i}": to_numpy(point) for i, point in enumerate(self.past)}
        text = np.array(json.dumps(about))
        with whole_file(Path(path)) as file:
            np.savez(file, x=to_numpy(self.x), trace=self.trace.rows, about=text, **past)

    def uninterrupted(self) -> Result:
        """This result; raises KeyboardInterrupt if Ctrl-C ended the run.

        This is for code that calls `minimize` for its own user. When Ctrl-C ends the run, an
        estimator or a search over many fits must end too; it must not go on with an unfinished
        answer.
        """
        if self.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def __str__(self) -> str:
        proof = self.certificate
        plural = "" if self.iterations == 1 else "s"
        lines = [
            f"{self.status}: {self.message}",
            f"  value        {proof.value:.12g}   ({proof.value_from})",
        ]
        if proof.stationarity is not None:
            relative = proof.relative_stationarity
            lines += [
                f"  stationarity {proof.stationarity:.3g}, or {relative:.3g} times the scale of F ({proof.scale:.3g});",
                "               proved: x is stationary up to this; not proved: that no other point is better",
            ]
        if proof.stationarity is None or proof.lower_bound > -math.inf:
            relative = proof.relative_gap
            lines += [
                f"  lower bound  {proof.lower_bound:.12g}   ({proof.bound_from}); F* lies between the two",
                f"  gap          {proof.gap:.3g}, or {relative:.3g} times the scale of F ({proof.scale:.3g})",
            ]
        lines.append(
            f"  {self.iterations} iteration{plural} of {self.method} in {self.seconds:.3g} s"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        proved = f"gap={self.gap:.3g}"
        if self.stationarity is not None:
            proved = f"stationarity={self.stationarity:.3g}"
        return f"Result({self.status}, value={self.value:.10g}, {proved}, iterations={self.iterations})"


def load(path: str | Path) -> Result:
    """Read a result from a file that `Result.save` or a checkpoint wrote.

    Its arrays are NumPy arrays. For models of `condgrad.linear_model`, use
    `condgrad.linear_model.load`.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Result

    Examples
    --------
    >>> import condgrad as cg, tempfile, pathlib
    >>> f, g = cg.smooth.LeastSquares([[1.0, 2.0]], [3.0]), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "answer.npz"
    ...     cg.minimize(f, g, max_iter=2).save(file)
    ...     r = cg.minimize(f, g, start=cg.load(file))
    >>> r.status.name
    'CONVERGED'
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            about = json.loads(str(archive["about"]))
            x = archive["x"]
            rows = archive["trace"]
            past = tuple(
                archive[f"past_{i}"]
                for i in range(sum(name.startswith("past_") for name in archive))
            )
            written = about["format"]
            if written == RESULT_FORMAT:
                return _result(about, x, rows, past)
    except FileNotFoundError:
        raise
    except Exception as error:  # what NumPy, zip and JSON say of a broken file has many names
        if b"condgrad linear model" in Path(path).read_bytes()[:1000]:
            raise ValueError(
                f"{path} is a linear model: load it with condgrad.linear_model.load({str(path)!r})"
            ) from None
        raise ValueError(
            f"{path} is not a result that condgrad saved, or it is damaged ({error})"
        ) from error
    raise ValueError(
        f"{path} has the format {written!r}, but this version reads {RESULT_FORMAT!r}: save it again"
    )


def _result(about: dict[str, Any], x: Array, rows: Array, past: tuple[Array, ...]) -> Result:
    proof = Certificate(
        x,
        Terms(*about["terms"]),
        about["lower_bound"],
        about["null_size"],
        about["noise"],
        about["value_from"],
        about["bound_from"],
        about.get("stationarity"),
        about.get("bound_noise", about["noise"]),
    )
    return Result(
        x,
        proof,
        Status[about["status"]],
        about["message"],
        about["iterations"],
        about["seconds"],
        Trace([tuple(row) for row in rows.tolist()]),
        about["method"],
        past,
        about["digest"],
    )


class AnswerOfRun:
    """An answer made from the result of a run. It has the value, the bound and the status of this
    result.
    """

    result: Result

    @property
    def value(self) -> float:
        """F at the answer."""
        return self.result.value

    @property
    def lower_bound(self) -> float:
        """The proved lower bound: F* is at least this number."""
        return self.result.lower_bound

    @property
    def gap(self) -> float:
        """`value - lower_bound`."""
        return self.result.gap

    @property
    def scale(self) -> float:
        """The number that the gap is divided by; see `Result.scale`."""
        return self.result.scale

    @property
    def relative_gap(self) -> float:
        """gap / scale."""
        return self.result.relative_gap

    @property
    def stationarity(self) -> float | None:
        """The certified stationarity gap of the answer if f is not convex; see `Result`."""
        return self.result.stationarity

    @property
    def method(self) -> str:
        """The method that ran."""
        return self.result.method

    @property
    def status(self) -> Status:
        """Why the run ended."""
        return self.result.status

    @property
    def message(self) -> str:
        """Why the run ended, as a sentence."""
        return self.result.message

    @property
    def success(self) -> bool:
        """Whether the stopping rule was met."""
        return self.result.success

    @property
    def iterations(self) -> int:
        """How many iterations the run took."""
        return self.result.iterations

    @property
    def seconds(self) -> float:
        """How many seconds the run took."""
        return self.result.seconds

    @property
    def trace(self) -> Trace:
        """The run, with one row for each iteration; see `Trace`."""
        return self.result.trace
