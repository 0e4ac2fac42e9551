"""What a reader is shown, before anything is drawn: chapters of figures, tables and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Verdict(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "fails"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what we measured, and why it came out so."""

    claim: str
    measured: str
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Line:
    """A line of a panel; `low` and `high` bound its spread where there are several draws.

    `solver` is a key of SOLVERS, or one of its BOUNDS for a theoretical curve.
    """

    solver: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    label: str = ""
    """Instead of the solver's own label."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes. Values that are not positive or not finite are left out of a logarithmic axis."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = True
    level: float | None = None
    """A horizontal line, such as the tolerance."""


@dataclass(frozen=True)
class Figure:
    """Panels in rows. `alt` says in words what the picture shows and what was measured, the caption how to read it."""

    name: str
    title: str
    caption: str
    alt: str
    rows: Sequence[Sequence[Panel]]


@dataclass(frozen=True)
class Table:
    """Rows of text; numbers arrive formatted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Chapter:
    """A part of the page."""

    name: str
    title: str
    summary: str
    """One or two sentences with the main numbers; the page begins with these."""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    """Sentences such as which solver was skipped and why, or that a data set is a stand-in."""
    settings: Mapping[str, str] = field(default_factory=dict)
