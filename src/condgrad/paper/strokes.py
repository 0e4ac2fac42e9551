"""Lines as they can be drawn: numbers with gaps, checked once for the static and the interactive picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from condgrad.paper.chapters import Figure, Line, Panel
from condgrad.paper.solvers import STYLES, Style

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Stroke:
    """A line ready to be drawn: what is not finite is NaN, a gap; `low` and `high` are empty where there is no band."""

    solver: str
    label: str
    style: Style
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def key(self) -> str:
        """What a legend tells apart."""
        return f"{self.solver}|{self.label}"

    @property
    def drawable(self) -> bool:
        return bool(np.any(np.isfinite(self.x) & np.isfinite(self.y)))


def strokes(panel: Panel) -> list[Stroke]:
    """The lines of a panel that have a point to draw."""
    return [stroke for stroke in map(_stroke, panel.lines) if stroke.drawable]


def legend(figure: Figure) -> list[Stroke]:
    """One stroke for each entry of the figure's legend, in the order of `STYLES`."""
    entries = {stroke.key: stroke for row in figure.rows for panel in row for stroke in strokes(panel)}
    rank = {solver: place for place, solver in enumerate(STYLES)}
    return sorted(entries.values(), key=lambda stroke: rank[stroke.solver])


def positive(values: NDArray[np.float64], *, log: bool) -> NDArray[np.float64]:
    """The values that the axis can show; on a logarithmic one the others are gaps."""
    return np.where(values > 0.0, values, np.nan) if log else values


def floor(panel: Panel) -> float:
    """The smallest positive height of the panel: a band that reaches below zero ends there on a logarithmic axis."""
    heights = np.concatenate([np.zeros(0), *(part for s in strokes(panel) for part in (s.y, s.low, s.high))])
    heights = heights[heights > 0.0]
    return float(heights.min()) if heights.size else 1.0


def power_of_ten(value: float) -> str:
    """A number as a label of an axis, such as 10⁻⁵ or 1.7·10⁻²."""
    if value == 0.0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.4g}"
    digits, exponent = f"{value:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"


def _stroke(line: Line) -> Stroke:
    if line.solver not in STYLES:
        raise ValueError(f"Line.solver is {line.solver!r}, which has no style: use one of {', '.join(STYLES)}")
    style = STYLES[line.solver]
    x, y, low, high = (_numbers(values) for values in (line.x, line.y, line.low, line.high))
    if len(x) != len(y) or len(low) != len(high) or len(low) not in (0, len(x)):
        raise ValueError(
            f"the line of {line.solver!r} has {len(x)} x, {len(y)} y, {len(low)} low and {len(high)} high values: "
            "give as many of each, or no low and high at all"
        )
    return Stroke(line.solver, line.label or style.label, style, x, y, low, high)


def _numbers(values: Sequence[float] | Iterable[float | None]) -> NDArray[np.float64]:
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)
