"""What an experiment measures: tasks, each of which gives the curve of one solver on one problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """How one solver went on one problem.

    `solver` is a key of `chapter.SOLVERS`. `columns` are lists of equal length by name: "iteration", "seconds" and what
    was measured then. `status` says why the run ended, `note` what else a reader should know; `facts` are single
    numbers and words that belong to it.
    """

    problem: str
    solver: str
    seed: int
    columns: Mapping[str, Sequence[float]]
    status: str
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Numbers:
        return np.asarray(self.columns.get(column, ()), dtype=float)


@dataclass(frozen=True)
class Task:
    """A run that is done once: an interrupted run of the paper continues with the tasks that are missing.

    `name` is unique and names a file, `label` is what a person sees. `settings` hold all that the outcome depends on
    beside the code, as JSON. `seconds` is about how long `work` takes at most, for the estimate of the time left.
    """

    name: str
    label: str
    settings: Mapping[str, Any]
    seconds: float
    work: Callable[[], Curve]


@dataclass(frozen=True)
class Scale:
    """How much to do: `quick` for smaller problems and less time for each, `seeds` for the draws of random ones."""

    quick: bool = False
    seeds: int = 3


def thinned(count: int, most: int = 250) -> NDArray[np.int_]:
    """At most so many of the indices 0 .. count - 1, even on a logarithmic axis, both ends among them."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def first_at(values: ArrayLike, level: float, of: ArrayLike) -> float:
    """`of` at the place where the values first are at a level or below; infinite where they never are."""
    there = np.flatnonzero(np.asarray(values) <= level)
    return float(np.asarray(of)[there[0]]) if there.size else np.inf


def best_known(curves: Sequence[Curve]) -> tuple[float, float]:
    """The best value that anybody reached and the best bound that anybody proved: F* lies between them."""
    bound = max(curve["lower_bound"].max(initial=-np.inf) for curve in curves)
    return min(min(curve.columns["best_value"]) for curve in curves), bound
