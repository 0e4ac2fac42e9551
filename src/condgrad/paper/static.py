"""Figures for print: a PNG and a PDF of each, drawn without a display and without pyplot."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter

from condgrad.paper.chapters import Figure, Panel
from condgrad.paper.solvers import STYLES
from condgrad.paper.strokes import NOT_MEASURED, Stroke, floor, legend, positive, power_of_ten, strokes
from condgrad.paper.whole_files import write_whole

DOTS_PER_INCH = 200
PAGE_WIDTH, ALONE, NARROW, PANEL_HEIGHT, LETTER = 7.0, 5.0, 2.5, 2.6, 0.078
"""Inches: panels share the width of a page, so that the letters need no magnifying glass in print."""

FEW_POINTS = 8
FEW_POWERS = 3
"""With fewer powers of ten than this on it, a logarithmic axis has ticks between them."""
INK, FAINT = "#24292f", "#d8dde3"
DASHES = MappingProxyType(
    {"solid": "-", "dash": (0, (4.5, 1.8)), "dot": (0, (1.1, 1.4)), "dashdot": (0, (5.5, 1.5, 1.1, 1.5))}
)
MARKERS = MappingProxyType(
    {
        "": "",
        "circle": "o",
        "square": "s",
        "diamond": "D",
        "diamond-tall": "d",
        "star": "*",
        "x": "X",
        "cross": "P",
        "pentagon": "p",
        "hexagon": "h",
        "triangle-up": "^",
        "triangle-down": "v",
        "triangle-left": "<",
        "triangle-right": ">",
    }
)
SETTINGS = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "text.color": INK,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlepad": 7.0,
        "axes.labelsize": 9.0,
        "axes.labelcolor": INK,
        "axes.edgecolor": "#8c959f",
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.formatter.useoffset": False,
        "axes.formatter.limits": (-3, 4),
        "axes.unicode_minus": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "xtick.color": "#8c959f",
        "ytick.color": "#8c959f",
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "legend.fontsize": 8.5,
        "pdf.fonttype": 42,
    }
)


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draws a figure as `<name>.png` and `<name>.pdf`.

    Parameters
    ----------
    figure : Figure
        What to draw; panels without a point say "not measured".
    folder : Path
        An existing folder.

    Returns
    -------
    list of Path
        The PNG and the PDF; the same figure gives the same bytes.
    """
    defaults = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    with matplotlib.rc_context({**defaults, **SETTINGS}):
        canvas = sketch(figure)
        png, pdf = io.BytesIO(), io.BytesIO()
        canvas.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Title": figure.title})
        canvas.savefig(pdf, format="pdf", metadata={"Title": figure.title, "CreationDate": None})
    made = {folder / f"{figure.name}.png": png, folder / f"{figure.name}.pdf": pdf}
    for path, picture in made.items():
        write_whole(path, picture.getvalue())
    return list(made)


def sketch(figure: Figure) -> Canvas:
    """The figure as matplotlib holds it: panels in rows, one legend below them."""
    rows = [row for row in figure.rows if row] or [[Panel(figure.title, "", "", [])]]
    columns = math.lcm(*(len(row) for row in rows))
    widest, entries = max(len(row) for row in rows), legend(figure)
    width = ALONE if widest == 1 else max(PAGE_WIDTH, NARROW * widest)
    across = _legend_columns(entries, width)
    height = PANEL_HEIGHT * len(rows) + 0.22 * math.ceil(len(entries) / across)
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.05)
    canvas = Canvas(figsize=(width, height), facecolor="white", layout=layout)
    grid = canvas.add_gridspec(len(rows), columns)
    for place, row in enumerate(rows):
        span = columns // len(row)
        for column, panel in enumerate(row):
            axes = canvas.add_subplot(grid[place, column * span : (column + 1) * span])
            _panel(axes, panel, width=width / len(row))
            if column == 0 or panel.y_label != row[column - 1].y_label:
                axes.set_ylabel(_plain(panel.y_label, PANEL_HEIGHT / LETTER))
    if entries:
        handles = [
            Line2D([], [], label=_plain(stroke.label, (width - 0.75) / LETTER), **_look(stroke)) for stroke in entries
        ]
        canvas.legend(
            handles=handles,
            loc="outside lower center",
            ncols=across,
            frameon=False,
            handlelength=3.4,
            columnspacing=1.6,
        )
    return canvas


def _legend_columns(entries: Sequence[Stroke], width: float) -> int:
    """As many columns as fit, evened out over the lines of the legend."""
    if not entries:
        return 1
    entry = 0.75 + LETTER * max(len(stroke.label) for stroke in entries)
    fitting = min(len(entries), max(1, int(width / entry)))
    return math.ceil(len(entries) / math.ceil(len(entries) / fitting))


def _panel(axes: Any, panel: Panel, *, width: float) -> None:
    axes.set_title(_plain(panel.title, 0.78 * width / LETTER), loc="left")
    axes.set_xlabel(_plain(panel.x_label, 0.8 * width / LETTER))
    drawn = [stroke for stroke in strokes(panel) if _seen(stroke, panel)]
    if not drawn:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, NOT_MEASURED, ha="center", va="center", transform=axes.transAxes, color="#57606a")
        return
    lowest = floor(panel)
    for stroke in drawn:
        if stroke.low.size:
            low = np.maximum(stroke.low, lowest) if panel.log_y else stroke.low
            high = positive(stroke.high, log=panel.log_y)
            axes.fill_between(stroke.x, low, high, color=stroke.style.color, alpha=0.16, linewidth=0)
        axes.plot(*_seen_points(stroke, panel), markevery=_every(stroke), **_look(stroke))
    _scales(axes, panel)
    if panel.level is not None and (panel.level > 0.0 or not panel.log_y):
        _level(axes, panel.level)


def _scales(axes: Any, panel: Panel) -> None:
    axes.grid(True, which="major")
    axes.margins(x=0.02)
    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        if not log:
            continue
        getattr(axes, f"set_{axis.axis_name}scale")("log")
        low, high = axis.get_view_interval()
        if math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1 >= FEW_POWERS:
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_minor_locator(LogLocator(subs="auto", numticks=7))
        else:
            axis.set_major_locator(_close_ticks(high / low))
            axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", length=2.0)


def _close_ticks(ratio: float) -> Locator:
    """About three to eight ticks at round numbers on a logarithmic axis whose last value is `ratio` times its first."""
    if ratio < 5.0:
        return MaxNLocator(nbins=6, steps=[1, 2, 5, 10])
    multiples = (1.0, 3.0) if ratio >= 30.0 else (1.0, 2.0, 5.0) if ratio >= 10.0 else (1.0, 2.0, 3.0, 5.0, 7.0)
    return LogLocator(subs=multiples, numticks=20)


def _level(axes: Any, level: float) -> None:
    axes.axhline(level, color="#57606a", linewidth=0.8, linestyle=(0, (3, 2)), zorder=1.5)
    axes.annotate(
        power_of_ten(level),
        (1.0, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(3, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=8.0,
        color="#57606a",
    )


def _seen_points(stroke: Stroke, panel: Panel) -> tuple[Any, Any]:
    return positive(stroke.x, log=panel.log_x), positive(stroke.y, log=panel.log_y)


def _seen(stroke: Stroke, panel: Panel) -> bool:
    x, y = _seen_points(stroke, panel)
    return bool(np.any(np.isfinite(x) & np.isfinite(y)))


def _look(stroke: Stroke) -> dict[str, Any]:
    style = stroke.style
    return {
        "color": style.color,
        "linestyle": DASHES[style.dash],
        "linewidth": 1.5,
        "marker": MARKERS[style.marker],
        "markersize": 7.0 if style.marker == "star" else 4.6,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }


def _every(stroke: Stroke) -> int | tuple[float, float]:
    """About eight markers along a line, staggered so that those of lines on top of each other stay visible."""
    if np.count_nonzero(np.isfinite(stroke.y)) <= FEW_POINTS:
        return 1
    return (0.012 * list(STYLES).index(stroke.solver), 0.14)


def _plain(text: str, letters: float) -> str:
    """Text as it stands, broken into lines that fit: a dollar sign starts no formula."""
    return textwrap.fill(text, max(12, int(letters))).replace("$", r"\$")
