"""Compare several runs on one problem: `compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad.errors import require_extra
from condgrad.result import AnswerOfRun, Result, draw_distance
from condgrad.rounding import CONTRADICTION

MEASURES = {"distance": "F - best lower bound of all", "gap": "certified gap"}
"""What a picture shows, and the words on its axis."""
AXES = {
    "iteration": "iterations",
    "seconds": "seconds",
    "oracle_calls": "oracle calls",
    "evaluations": "evaluations of f",
}
"""What it is shown against."""
RUN_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that most color-blind people can tell apart (Okabe and Ito)."""
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several runs on one problem, each with a name. `condgrad.compare` makes it.

    It prints as a table.

    Attributes
    ----------
    results : dict of results
        The results by name, in the given order.
    lower_bound : float
        The best lower bound of all runs; F* cannot be below it.
    best_value : float
        The smallest value of all runs.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> runs = {step: cg.minimize(f, g, step=step) for step in ("exact", "armijo")}
    >>> frame = cg.compare(runs).to_frame()
    >>> frame["status"].tolist()
    ['CONVERGED', 'CONVERGED']
    """

    results: dict[str, Result | AnswerOfRun]
    lower_bound: float
    best_value: float

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each run.

        The column `distance` is the value minus the best lower bound of all runs. So the value of a
        run is at most this far above F*.
        """
        pandas = require_extra("pandas", extra="pandas", purpose="Comparison.to_frame")
        return pandas.DataFrame(self._rows()).set_index("name")

    def _rows(self) -> list[dict[str, Any]]:
        return [self._row(name, result) for name, result in self.results.items()]

    def _row(self, name: str, result: Result | AnswerOfRun) -> dict[str, Any]:
        calls = result.trace["oracle_calls"]
        return {
            "name": name,
            "status": result.status.name,
            "value": result.value,
            "gap": result.gap,
            "distance": result.value - self.lower_bound,
            "iterations": result.iterations,
            "oracle_calls": int(calls[-1]) if len(calls) else 0,
            "seconds": result.seconds,
            "method": result.method,
        }

    def plot(self, *, measure: str = "distance", against: str = "iteration", ax: Any = None) -> Any:
        """All runs on one axis, on a log scale; returns the matplotlib axes.

        Parameters
        ----------
        measure : {"distance", "gap"}
            "distance" is the best value so far minus the best lower bound of all runs. It is only
            known at the end. "gap" is the certified gap, which was known during the run.
        against : {"iteration", "seconds", "oracle_calls", "evaluations"}
            The horizontal axis. "evaluations" counts the evaluations of f.
        ax : matplotlib axes, optional
            Where to draw; by default on a new figure.
        """
        pyplot = require_extra("matplotlib.pyplot", extra="plot", purpose="Comparison.plot")
        if measure not in MEASURES:
            allowed = ", ".join(map(repr, MEASURES))
            raise ValueError(f"measure must be one of {allowed}, got {measure!r}")
        if against not in AXES:
            raise ValueError(
                f"against must be one of {', '.join(map(repr, AXES))}, got {against!r}"
            )
        if measure == "distance" and self.lower_bound == -math.inf:
            raise ValueError("no run has proved a lower bound, so there is no distance to show")
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6, 4), layout="constrained")
        for i, (name, result) in enumerate(self.results.items()):
            trace = result.trace
            bound = self.lower_bound if measure == "distance" else trace["lower_bound"]
            style = {
                "color": RUN_COLORS[i % len(RUN_COLORS)],
                "linestyle": STYLES[i // len(RUN_COLORS) % len(STYLES)],
            }
            draw_distance(ax, trace[against], trace["best_value"], bound, label=name, **style)
        ax.set(xlabel=AXES[against], ylabel=MEASURES[measure], yscale="log")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        head = ("", "status", "value", "gap", "distance", "iterations", "oracle calls", "seconds")
        table = [head]
        for row in self._rows():
            numbers = (f"{row['value']:.10g}", f"{row['gap']:.3g}", f"{row['distance']:.3g}")
            counts = (str(row["iterations"]), str(row["oracle_calls"]), f"{row['seconds']:.3g}")
            table.append((row["name"], row["status"], *numbers, *counts))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for cells in table:
            words = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
            numbers_ = [
                cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)
            ]
            lines.append("  ".join([*words, *numbers_]).rstrip())
        between = f"F* lies between {self.lower_bound:.10g} and {self.best_value:.10g}"
        return "\n".join([*lines, f"{between}; distance is the value minus the first of the two"])


def compare(results: Mapping[str, Result | AnswerOfRun]) -> Comparison:
    """Compare runs on one problem, in a table and a picture.

    Parameters
    ----------
    results : mapping from names to results
        What `minimize`, `transport.solve` or a similar function returned. All results must be for
        the same f, g and set.

    Returns
    -------
    Comparison
        It prints as a table. `plot` draws all runs on one axis, and `to_frame` makes a pandas
        DataFrame.

    Raises
    ------
    ValueError
        If a lower bound of one run lies above the value of another. Then the runs solved different
        problems.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> both = cg.compare({m: cg.minimize(f, g, method=m) for m in ("cgs", "spg")})
    >>> both.lower_bound <= both.best_value
    True
    """
    if not isinstance(results, Mapping):
        raise TypeError(f"results must be a dict of results by name, got {type(results).__name__}")
    if not results:
        raise ValueError("results must hold at least one result, got none")
    for name, result in results.items():
        if not isinstance(result, Result | AnswerOfRun):
            raise TypeError(f"results[{name!r}] must be a result, got {type(result).__name__}")
    named = {str(name): result for name, result in results.items()}
    highest = max(named, key=lambda name: named[name].lower_bound)
    lowest = min(named, key=lambda name: named[name].value)
    lower_bound = named[highest].lower_bound
    best_value = named[lowest].value
    noise = max(_noise_of_run(result) for result in named.values())
    if lower_bound - best_value > CONTRADICTION * noise:
        raise ValueError(
            f"these are results of different problems: {highest!r} proves that F* >= "
            f"{lower_bound:.10g}, and {lowest!r} has a value of {best_value:.10g}"
        )
    return Comparison(named, min(lower_bound, best_value), best_value)


def _noise_of_run(result: Result | AnswerOfRun) -> float:
    """What rounding may have done to its value and its bound."""
    run = result.result if isinstance(result, AnswerOfRun) else result
    return run.certificate.noise + np.finfo(np.float64).eps * abs(run.value)
