"""Figures for print: a PNG and a PDF of each, drawn without a display and without pyplot."""

from __future__ import annotations

import io
import math
import textwrap
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from experiments.paper.chapter import NOT_MEASURED, RANK, Figure, Line, Panel, power_of_ten
from experiments.paper.store import write_whole

STYLE_SHEET = Path(__file__).with_name("print.mplstyle")
MUTED = "#57606a"
PAGE_WIDTH, ALONE, PANEL_HEIGHT, LETTER = 7.0, 5.0, 2.6, 0.078
"""Inches: panels share the width of a page, so that the letters need no magnifying glass in print."""
FEW_POINTS = 8
FEW_POWERS = 3
"""With fewer powers of ten than this on it, a logarithmic axis has ticks between them."""
DASHES = MappingProxyType(
    {"solid": "-", "dash": (0, (4.5, 1.8)), "dot": (0, (1.1, 1.4)), "dashdot": (0, (5.5, 1.5, 1.1, 1.5))}
)
MARKERS = MappingProxyType(
    {"": "", "circle": "o", "square": "s", "diamond": "D", "diamond-tall": "d", "star": "*", "x": "X", "cross": "P"}
    | {"pentagon": "p", "hexagon": "h", "triangle-up": "^", "triangle-down": "v"}
    | {"triangle-left": "<", "triangle-right": ">"}
)


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draws a figure as `<name>.png` and `<name>.pdf` in an existing folder; the same figure gives the same bytes."""
    made = []
    with matplotlib.style.context(["default", STYLE_SHEET]):
        canvas = canvas_of(figure)
        for kind, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
            picture = io.BytesIO()
            canvas.savefig(picture, format=kind, dpi=200, metadata={"Title": figure.title, **metadata})
            made.append(folder / f"{figure.name}.{kind}")
            write_whole(made[-1], picture.getvalue())
    return made


def canvas_of(figure: Figure) -> Canvas:
    """The figure as matplotlib holds it: panels in rows of equal length, one legend below them."""
    rows = [row for row in figure.rows if row] or [[Panel(figure.title, "", "", [])]]
    columns, entries = len(rows[0]), figure.legend
    width = ALONE if columns == 1 else PAGE_WIDTH
    longest = max((len(line.label) for line in entries), default=1)
    across = max(1, min(len(entries), int(width / (0.75 + LETTER * longest))))
    height = PANEL_HEIGHT * len(rows) + 0.22 * math.ceil(len(entries) / across)
    canvas = Canvas(figsize=(width, height), facecolor="white", layout="constrained")
    places = canvas.subplots(len(rows), columns, squeeze=False)
    for axes_row, row in zip(places, rows, strict=True):
        for column, (axes, panel) in enumerate(zip(axes_row, row, strict=True)):
            _draw_panel(axes, panel, letters=width / columns / LETTER)
            if column == 0 or panel.y_label != row[column - 1].y_label:
                axes.set_ylabel(_wrapped(panel.y_label, PANEL_HEIGHT / LETTER))
    if entries:
        letters = (width - 0.75) / LETTER
        handles = [Line2D([], [], label=_wrapped(line.label, letters), **_look(line)) for line in entries]
        canvas.legend(handles=handles, loc="outside lower center", ncols=across, frameon=False, handlelength=3.4)
    return canvas


def _draw_panel(axes: Any, panel: Panel, *, letters: float) -> None:
    axes.set_title(_wrapped(panel.title, 0.78 * letters), loc="left")
    axes.set_xlabel(_wrapped(panel.x_label, 0.8 * letters))
    if not panel.drawn:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, NOT_MEASURED, ha="center", va="center", transform=axes.transAxes, color=MUTED)
        return
    for line in panel.drawn:
        if line.low.size:
            axes.fill_between(line.x, *panel.band(line), color=line.style.color, alpha=0.16, linewidth=0)
        few = np.count_nonzero(np.isfinite(line.y)) <= FEW_POINTS
        # about eight markers along a line, staggered so that those of lines on top of each other stay visible
        axes.plot(*panel.points(line), markevery=1 if few else (0.012 * RANK[line.solver], 0.14), **_look(line))
    axes.grid(True, which="major")
    axes.margins(x=0.02)
    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        if log:
            _set_log_scale(axes, axis)
    if panel.level is not None and (panel.level > 0.0 or not panel.log_y):
        axes.axhline(panel.level, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1.5)
        edge: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "xytext": (3, 0), "textcoords": "offset points"}
        look: dict[str, Any] = {"ha": "left", "va": "center", "fontsize": 8.0, "color": MUTED}
        axes.annotate(power_of_ten(panel.level), (1.0, panel.level), **edge, **look)


def _set_log_scale(axes: Any, axis: Any) -> None:
    """Whole powers of ten, or, where there are few of them, three to eight round numbers."""
    getattr(axes, f"set_{axis.axis_name}scale")("log")
    low, high = axis.get_view_interval()
    if math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1 >= FEW_POWERS:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_minor_locator(LogLocator(subs="auto", numticks=7))
    else:
        multiples = (1.0, 3.0) if high / low >= 30.0 else (1.0, 2.0, 5.0)
        close = MaxNLocator(nbins=6, steps=[1, 2, 5, 10])
        axis.set_major_locator(LogLocator(subs=multiples, numticks=20) if high / low >= 5.0 else close)
        axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="minor", length=2.0)


def _look(line: Line) -> dict[str, Any]:
    style = line.style
    marker = {"marker": MARKERS[style.marker], "markersize": 7.0 if style.marker == "star" else 4.6}
    stroke = {"color": style.color, "linestyle": DASHES[style.dash], "linewidth": 1.5}
    return stroke | marker | {"markeredgecolor": "white", "markeredgewidth": 0.5}


def _wrapped(text: str, letters: float) -> str:
    """Text as it stands, broken into lines that fit: a dollar sign starts no formula."""
    return textwrap.fill(text, max(12, int(letters))).replace("$", r"\$")
