"""What a reader is shown of an experiment, before it is drawn: figures, tables, claims and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from experiments.paper.claims import JudgedClaim
from experiments.paper.curves import Numbers, thinned

NOT_MEASURED = "not measured"


class Style(NamedTuple):
    """How a solver is named and drawn, in all figures alike; `dark` is its colour on a dark page.

    Colours are Okabe and Ito's, an indigo and a brown, which colour-blind readers tell apart; where two solvers share
    one, dash and marker differ. They have plotly's names; `sign` is the marker as a letter, for legends.
    """

    label: str
    color: str
    dark: str
    dash: str
    marker: str = ""
    sign: str = ""


SOLVERS: Mapping[str, Style] = MappingProxyType(
    {
        "cgs-exact": Style("CGS, exact step", "#0072B2", "#4FA3EE", "solid", "circle", "●"),
        "cgs-armijo": Style("CGS, Armijo", "#56B4E9", "#A9DCFA", "solid", "square", "■"),
        "cgs-open-loop": Style("CGS, 2/(k+2)", "#009E73", "#2CC79A", "dash", "triangle-up", "▲"),
        "cgs-short": Style("CGS, short step", "#8C5A2B", "#D2A679", "dot", "diamond-tall", "♦"),
        "cgs-memory": Style("CGS, memory", "#332288", "#A597FF", "dashdot", "diamond", "◆"),
        "newton": Style("Newton", "#CC79A7", "#F0A3CB", "solid", "star", "★"),
        "cg": Style("CG", "#D55E00", "#FF8640", "solid", "x", "✖"),
        "cg-emd": Style("CG, network simplex", "#D55E00", "#FF8640", "solid", "x", "✖"),
        "cg-highs": Style("CG, HiGHS", "#D55E00", "#FF8640", "dash", "cross", "✚"),
        "cg-cvxopt": Style("CG, CVXOPT", "#D55E00", "#FF8640", "dot", "triangle-down", "▼"),
        "cg-mosek": Style("CG, MOSEK", "#D55E00", "#FF8640", "dashdot", "triangle-left", "◀"),
        "pot-gcg": Style("POT gcg", "#7F7F7F", "#ABABAB", "dash", "pentagon", "⬟"),
        "spg": Style("SPG", "#E69F00", "#FFC14D", "solid", "hexagon", "⬢"),
        "pqn": Style("PQN", "#A89A00", "#E3D54F", "dashdot", "triangle-right", "▶"),
    }
)
STYLES: Mapping[str, Style] = MappingProxyType(
    {
        **SOLVERS,
        "bound": Style("2 C_f / (k + 2)", "#7F7F7F", "#ABABAB", "dash"),
        "linear-bound": Style("linear rate", "#7F7F7F", "#ABABAB", "dot"),
        "least": Style("the least possible", "#7F7F7F", "#ABABAB", "dashdot"),
        "true-error": Style("F(x) - F*", "#333333", "#E0E0E0", "solid"),
        "gap": Style("our gap", "#0072B2", "#4FA3EE", "solid"),
        "classical-gap": Style("classical gap", "#D55E00", "#FF8640", "dash"),
    }
)
RANK = {solver: place for place, solver in enumerate(STYLES)}


class Line:
    """A line of a panel, thinned to what can be seen; what is not finite is a gap.

    `solver` is a key of STYLES; `label` stands instead of its own. `low` and `high` bound the spread of several draws.
    """

    def __init__(
        self,
        solver: str,
        x: Iterable[float],
        y: Iterable[float],
        *,
        low: Iterable[float] = (),
        high: Iterable[float] = (),
        label: str = "",
    ) -> None:
        self.solver, self.style = solver, STYLES[solver]
        self.label = label or self.style.label
        columns = [_with_gaps(values) for values in (x, y, low, high)]
        self.x, self.y, self.low, self.high = (column[thinned(len(column))] for column in columns)
        lengths = [len(values) for values in (self.x, self.y, self.low, self.high)]
        if lengths[0] != lengths[1] or lengths[2] != lengths[3] or lengths[2] not in (0, lengths[0]):
            raise ValueError(
                f"the line of {solver!r} has x, y, low and high of lengths {lengths}: give as many of each"
            )

    @property
    def key(self) -> str:
        """What a legend tells apart."""
        return f"{self.solver}|{self.label}"


@dataclass(frozen=True)
class Panel:
    """One pair of axes, and a horizontal line at `level`, such as the tolerance.

    Values that are not positive or not finite are left out of a logarithmic axis.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = True
    level: float | None = None

    @property
    def drawn(self) -> list[Line]:
        """The lines that have a point on these axes."""
        return [line for line in self.lines if np.isfinite(np.add(*self.points(line))).any()]

    def points(self, line: Line) -> tuple[Numbers, Numbers]:
        return on_axis(line.x, log=self.log_x), on_axis(line.y, log=self.log_y)

    def band(self, line: Line) -> tuple[Numbers, Numbers]:
        """The ends of a line's spread: on a logarithmic axis one that reaches below zero ends at the lowest height."""
        heights = np.concatenate([part for each in self.lines for part in (each.y, each.low, each.high)])
        floor = heights[heights > 0.0].min(initial=np.inf) if self.log_y else -np.inf
        return np.maximum(line.low, floor), on_axis(line.high, log=self.log_y)


@dataclass(frozen=True)
class Figure:
    """Panels in rows. `alt` says in words what the picture shows and what was measured, the caption how to read it."""

    name: str
    title: str
    caption: str
    alt: str
    rows: Sequence[Sequence[Panel]]

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row]

    @property
    def legend(self) -> list[Line]:
        """One line for each entry of the legend, in the order of the styles."""
        entries = {line.key: line for panel in self.panels for line in panel.drawn}
        return sorted(entries.values(), key=lambda line: RANK[line.solver])


class Table(NamedTuple):
    """Rows of text; numbers arrive formatted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Chapter:
    """A part of the page; the summary has the main numbers, and the page begins with it."""

    name: str
    title: str
    summary: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    claims: Sequence[JudgedClaim] = ()
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def on_axis(values: Numbers, *, log: bool) -> Numbers:
    """The values that the axis can show; on a logarithmic one the others are gaps."""
    return np.where(values > 0.0, values, np.nan) if log else values


def power_of_ten(value: float) -> str:
    """A number as a label of an axis, such as 10⁻⁵ or 1.7·10⁻²."""
    if value == 0.0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.4g}"
    digits, exponent = f"{value:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"


def _with_gaps(values: Iterable[float | None]) -> Numbers:
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)
