"""What a reader is shown, before anything is drawn: chapters of figures, tables and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from condgrad.paper.words import power

ROUNDING = 1e-12
"""A bound may be above F* by so much, for F itself is computed in floats."""

TOO_FEW = 0.25
"""A claim that at most this share of its cases bears out fails."""

LEGEND = (
    "A claim holds where all of its cases (draws, runs, pairs of solvers) bear it out, fails where at most a quarter "
    "of them do, and holds in part between."
)


class Verdict(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "fails"
    UNTESTED = "not tested"

    @classmethod
    def of(cls, borne_out: int, cases: int, *, in_part: int | None = None) -> Verdict:
        """Holds where all cases bear a claim out, fails where at most a quarter do, holds in part between.

        Where a claim has a weaker reading, `in_part` cases bear that out, and decide between the latter two.
        """
        if cases == 0:
            return cls.UNTESTED
        if borne_out == cases:
            return cls.HOLDS
        return cls.IN_PART if (borne_out if in_part is None else in_part) > TOO_FEW * cases else cls.FAILS

    def said_of(self, count: int) -> str:
        """The verdict on so many claims, such as "fails" for one and "fail" for two."""
        several = {Verdict.HOLDS: "hold", Verdict.IN_PART: "hold in part", Verdict.FAILS: "fail"}
        return self.value if count == 1 else several.get(self, self.value)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what we measured, and why it came out so."""

    claim: str
    measured: str
    verdict: Verdict
    why: str

    @classmethod
    def untested(cls, claim: str, why: str) -> Claim:
        return cls(claim, "Nothing: the runs that it needs are missing.", Verdict.UNTESTED, why)

    @classmethod
    def of_bounds(cls, claim: str, *, bounds: int, excess: float, why: str) -> Claim:
        """A claim about certificates; `excess` is by how much the highest bound is above F*."""
        side = "above" if excess > 0.0 else "below"
        measured = f"{bounds:,} bounds proved, the highest {power(abs(excess))} {side} the best value known."
        if excess <= ROUNDING:
            return cls(claim, measured, Verdict.HOLDS, why)
        return cls(claim, measured, Verdict.FAILS, "A bound above F* is an error of this library: please report it.")


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
