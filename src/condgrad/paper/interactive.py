"""Figures for the page: the numbers and styles that `page.js` hands to plotly, one chart for each panel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condgrad.paper.chapters import Figure, Panel
from condgrad.paper.solvers import STYLES, Style
from condgrad.paper.strokes import NOT_MEASURED, Stroke, floor, power_of_ten, strokes

DASHES: Mapping[str, str] = MappingProxyType({"solid": "", "dash": "7 3.5", "dot": "1.8 2.6", "dashdot": "8 3 1.8 3"})
"""Lengths in pixels, the same in the legend and in the charts."""

_TURNED = MappingProxyType({"up": 0.0, "right": 90.0, "down": 180.0, "left": 270.0})


def drawing(figure: Figure) -> list[dict[str, Any]]:
    """The panels of a figure as JSON, in reading order; a value that is not finite is null, a gap."""
    return [_panel(panel) for row in figure.rows for panel in row]


def styles() -> dict[str, dict[str, str]]:
    """Dash and marker of each solver; its colour is the page's, for it follows the theme."""
    return {key: {"dash": _plotly_dash(style), "marker": style.marker} for key, style in STYLES.items()}


def colors() -> str:
    """The colours as properties of a style sheet, for a light and a dark page."""
    return "".join(f"--line-{key}:light-dark({style.color},{style.dark});" for key, style in STYLES.items())


def sample(solver: str) -> str:
    """A piece of the solver's line with its marker, as SVG for a legend."""
    style = STYLES[solver]
    dashes = f' stroke-dasharray="{DASHES[style.dash]}"' if DASHES[style.dash] else ""
    line = f'<path d="M1 8H35" fill="none" stroke="currentColor" stroke-width="2.2"{dashes}/>'
    outline = _outline(style.marker)
    marker = f'<polygon points="{outline}" fill="currentColor" stroke="var(--card)"/>' if outline else ""
    return (
        f'<svg class="sample" style="color:var(--line-{solver})" width="36" height="16" viewBox="0 0 36 16" '
        f'aria-hidden="true" focusable="false">{line}{marker}</svg>'
    )


def _panel(panel: Panel) -> dict[str, Any]:
    drawn = strokes(panel)
    return {
        "x": panel.x_label,
        "y": panel.y_label,
        "logX": panel.log_x,
        "logY": panel.log_y,
        "level": panel.level,
        "levelLabel": "" if panel.level is None else power_of_ten(panel.level),
        "floor": floor(panel),
        "empty": "" if drawn else NOT_MEASURED,
        "lines": [_line(stroke) for stroke in drawn],
    }


def _line(stroke: Stroke) -> dict[str, Any]:
    line: dict[str, Any] = {"solver": stroke.solver, "key": stroke.key, "label": stroke.label}
    line |= {"x": _rounded(stroke.x), "y": _rounded(stroke.y)}
    if stroke.low.size:
        line |= {"low": _rounded(stroke.low), "high": _rounded(stroke.high)}
    return line


def _rounded(values: NDArray[np.float64]) -> list[float | None]:
    """Six digits: more than a screen shows, at half the size."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]


def _plotly_dash(style: Style) -> str:
    return ",".join(f"{length}px" for length in DASHES[style.dash].split()) or "solid"


def _outline(marker: str) -> str:
    """The corners of a marker around the middle of a sample; a circle has many."""
    if not marker:
        return ""
    shape, _, way = marker.partition("-")
    if shape == "triangle":
        return _corners([5.6] * 3, turned=_TURNED[way])
    if shape in ("x", "cross"):
        return _plus(turned=45.0 if shape == "x" else 0.0)
    radii: dict[str, Sequence[float]] = {
        "circle": [4.6] * 24,
        "square": [5.6] * 4,
        "diamond": [5.8] * 4,
        "diamond-tall": [6.6, 4.0] * 2,
        "pentagon": [5.4] * 5,
        "hexagon": [5.2] * 6,
        "star": [6.8, 2.9] * 5,
    }
    return _corners(radii[marker], turned=45.0 if marker == "square" else 0.0)


def _corners(radii: Sequence[float], *, turned: float) -> str:
    step = 360.0 / len(radii)
    return _points(_turn((0.0, -radius), turned + step * place) for place, radius in enumerate(radii))


def _plus(*, turned: float) -> str:
    arm = ((-1.7, -5.2), (1.7, -5.2), (1.7, -1.7))
    return _points(_turn(corner, turned + 90.0 * quarter) for quarter in range(4) for corner in arm)


def _turn(point: tuple[float, float], degrees: float) -> tuple[float, float]:
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    return point[0] * cosine - point[1] * sine, point[0] * sine + point[1] * cosine


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{18.0 + x:.1f},{8.0 + y:.1f}" for x, y in points)
