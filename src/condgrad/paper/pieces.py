"""What an experiment is made of: pieces of work, and the curves that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from condgrad.paper.chapters import Chapter


@dataclass(frozen=True)
class Curve:
    """How one solver went on one problem.

    Attributes
    ----------
    problem, solver, seed
        Who solved what: `solver` is a key of `condgrad.paper.solvers.SOLVERS`, `problem` a name of the experiment's.
    columns : lists of equal length
        By name: "iteration", "seconds" and what was measured then ("value", "lower_bound", "residual", ...).
    status : str
        Why it ended, such as "CONVERGED", "TIME_LIMIT", "SKIPPED".
    note : str
        A sentence for the reader where there is something to say, such as why a solver was skipped.
    facts : dict
        Single numbers and words that belong to the run (the time of one linear program, the chosen ridge, ...).
    """

    problem: str
    solver: str
    seed: int
    columns: Mapping[str, Sequence[float]]
    status: str
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """A piece of work that is done once: an interrupted run continues with the pieces that are missing.

    Attributes
    ----------
    name : str
        Unique; words joined by "-", for it names a file.
    label : str
        What a person sees while it runs.
    settings : dict
        All that the outcome depends on, as JSON: where it changed since, the piece is done again.
    seconds : float
        About how long it takes at most, for the estimate of the time left.
    work : callable
        Does it.
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


class Experiment(Protocol):
    """Pieces of work, and the chapter that is written from their curves."""

    @property
    def name(self) -> str: ...

    def pieces(self, scale: Scale) -> list[Piece]: ...

    def chapter(self, curves: Sequence[Curve]) -> Chapter:
        """What to show; some pieces may be missing where a run was interrupted."""
        ...
