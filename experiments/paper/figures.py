"""Figures as data (lines in panels in rows), and their drawing for print: a PNG and a PDF of each, without pyplot."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from experiments.paper.tasks import Numbers, thinned, write_whole
from experiments.paper.wording import LOWERED, MATHEMATICS, POWER, plain, power

NOT_MEASURED = "not measured"


class Style(NamedTuple):
    """The look of a solver; `dark` is its colour on a dark page.

    Colours are Okabe and Ito's, an indigo and a brown, which colour-blind readers tell apart; where two solvers share
    one, dash and marker differ. They have plotly's names; `sign` is the marker as a letter, for legends.
    """

    label: str
    color: str
    dark: str
    dash: str
    marker: str = ""
    sign: str = ""


SOLVERS: Mapping[str, Style] = {
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
STYLES: Mapping[str, Style] = {
    **SOLVERS,
    "bound": Style(r"\(2 C_f/(k + 2)\)", "#7F7F7F", "#ABABAB", "dash"),
    "linear-bound": Style("linear rate", "#7F7F7F", "#ABABAB", "dot"),
    "least": Style("the least possible", "#7F7F7F", "#ABABAB", "dashdot"),
    "true-error": Style(r"\(F(x) - F^*\)", "#333333", "#E0E0E0", "solid"),
    "gap": Style("our gap", "#0072B2", "#4FA3EE", "solid"),
    "classical-gap": Style("classical gap", "#D55E00", "#FF8640", "dash"),
}
RANK = {solver: place for place, solver in enumerate(STYLES)}
DASHES = {
    "solid": "-",
    "dash": (0, (4.5, 1.8)),
    "dot": (0, (1.1, 1.4)),
    "dashdot": (0, (5.5, 1.5, 1.1, 1.5)),
}
MARKERS = {
    "": "",
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "diamond-tall": "d",
    "star": "*",
    "x": "X",
}
MARKERS |= {"cross": "P", "pentagon": "p", "hexagon": "h", "triangle-up": "^", "triangle-down": "v"}
MARKERS |= {"triangle-left": "<", "triangle-right": ">"}


class Line:
    """A line of a panel, thinned to what can be seen; what is not finite is a gap.

    `solver` is a key of STYLES; `label` stands instead of its own. `band` is the spread of several draws, an outline as
    `band_around` makes it.
    """

    def __init__(
        self,
        solver: str,
        x: Iterable[float],
        y: Iterable[float],
        *,
        band: tuple[Numbers, Numbers] | None = None,
        label: str = "",
    ) -> None:
        self.solver, self.style, self.band = solver, STYLES[solver], band
        self.label = label or self.style.label
        self.x, self.y = _with_gaps(x), _with_gaps(y)
        if len(self.x) != len(self.y):
            raise ValueError(
                f"the line of {solver!r} has {len(self.x)} x and {len(self.y)} y: give as many of each"
            )
        shown = thinned(len(self.x))
        self.x, self.y = self.x[shown], self.y[shown]

    @property
    def key(self) -> str:
        """What a legend tells apart."""
        return f"{self.solver}|{self.label}"


def band_around(
    base: Iterable[float], low: Iterable[float], high: Iterable[float]
) -> tuple[Numbers, Numbers]:
    """The outline of the area between `low` and `high` over `base`, without what is not finite."""
    columns = np.array([list(base), list(low), list(high)], dtype=float)
    along, below, above = columns[:, np.isfinite(columns).all(axis=0)]
    return np.concatenate([along, along[::-1]]), np.concatenate([above, below[::-1]])


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

    @property
    def shown_level(self) -> float | None:
        """The level, where these axes have a place for it."""
        return (
            self.level if self.level is not None and (self.level > 0.0 or not self.log_y) else None
        )

    def points(self, line: Line) -> tuple[Numbers, Numbers]:
        return on_axis(line.x, log=self.log_x), on_axis(line.y, log=self.log_y)

    def area(self, line: Line) -> tuple[Numbers, Numbers]:
        """The band of a line; on a logarithmic axis it ends at the least number of the line."""
        x, y = line.band or (np.zeros(0), np.zeros(0))
        least_x, least_y = (own[own > 0.0].min(initial=np.inf) for own in (line.x, line.y))
        return (np.maximum(x, least_x) if self.log_x else x), (
            np.maximum(y, least_y) if self.log_y else y
        )


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


def on_axis(values: Numbers, *, log: bool) -> Numbers:
    """The values that the axis can show; on a logarithmic one the others are gaps."""
    return np.where(values > 0.0, values, np.nan) if log else values


def _with_gaps(values: Iterable[float | None]) -> Numbers:
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


# For print ------------------------------------------------------------------------------------------------------------

STYLE_SHEET = Path(__file__).parent / "templates" / "print.mplstyle"
MUTED = "#57606a"
PAGE_WIDTH, ALONE, PANEL_HEIGHT, LETTER = 7.0, 5.0, 2.6, 0.078
"""Inches: panels share the width of a page, so that the letters need no magnifying glass in print."""
FEW_POINTS, AXIS_DIGITS = 8, 3
FEW_POWERS = 3
"""With fewer powers of ten than this on it, a logarithmic axis has ticks between them."""


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draws a figure as `<name>.png` and `<name>.pdf` in an existing folder; the same figure gives the same bytes."""
    made = []
    with matplotlib.style.context(["default", STYLE_SHEET]):
        canvas = canvas_of(figure)
        for kind, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
            picture = io.BytesIO()
            canvas.savefig(
                picture, format=kind, dpi=200, metadata={"Title": plain(figure.title), **metadata}
            )
            made.append(folder / f"{figure.name}.{kind}")
            write_whole(made[-1], picture.getvalue())
    return made


def canvas_of(figure: Figure) -> Canvas:
    """The figure as matplotlib holds it: panels in rows of equal length, one legend below them."""
    rows = [row for row in figure.rows if row] or [[Panel(figure.title, "", "", [])]]
    columns, entries = len(rows[0]), figure.legend
    width = ALONE if columns == 1 else PAGE_WIDTH
    longest = max((len(plain(line.label)) for line in entries), default=1)
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
        handles = [
            Line2D([], [], label=_wrapped(line.label, letters), **_look(line)) for line in entries
        ]
        canvas.legend(
            handles=handles,
            loc="outside lower center",
            ncols=across,
            frameon=False,
            handlelength=3.4,
        )
    return canvas


def _draw_panel(axes: Any, panel: Panel, *, letters: float) -> None:
    axes.set_title(_wrapped(panel.title, 0.78 * letters), loc="left")
    axes.set_xlabel(_wrapped(panel.x_label, 0.8 * letters))
    if not panel.drawn:
        axes.set(xticks=[], yticks=[])
        axes.text(
            0.5, 0.5, NOT_MEASURED, ha="center", va="center", transform=axes.transAxes, color=MUTED
        )
        return
    for line in panel.drawn:
        if line.band:
            axes.fill(*panel.area(line), color=line.style.color, alpha=0.16, linewidth=0)
        few = np.count_nonzero(np.isfinite(line.y)) <= FEW_POINTS
        # about eight markers along a line, staggered so that those of lines on top of each other stay visible
        axes.plot(
            *panel.points(line),
            markevery=1 if few else (0.012 * RANK[line.solver], 0.14),
            **_look(line),
        )
    axes.grid(True, which="major")
    axes.margins(x=0.02)
    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        if log:
            _set_log_scale(axes, axis)
    if panel.shown_level is not None:
        axes.axhline(
            panel.shown_level, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1.5
        )
        edge: dict[str, Any] = {
            "xycoords": axes.get_yaxis_transform(),
            "xytext": (3, 0),
            "textcoords": "offset points",
        }
        look: dict[str, Any] = {"ha": "left", "va": "center", "fontsize": 8.0, "color": MUTED}
        axes.annotate(_printed(panel.shown_level), (1.0, panel.shown_level), **edge, **look)


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
        axis.set_major_locator(
            LogLocator(subs=multiples, numticks=20) if high / low >= 5.0 else close
        )
        # all digits, or powers of ten everywhere: one axis does not mix 5000 and 10^4
        has_few_digits = low >= 1e-4 and high <= 1e5
        powers = FuncFormatter(lambda value, _: _printed(value))
        axis.set_major_formatter("{x:g}" if has_few_digits else powers)
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="minor", length=2.0)


def _printed(value: float) -> str:
    """A number on an axis; its power of ten looks like those of matplotlib's own ticks."""

    def raised(found: re.Match[str]) -> str:
        mantissa = found[0].partition("10")[0].replace("·", r"\cdot ")
        return rf"$\mathdefault{{{mantissa}10^{{{found[1].translate(LOWERED)}}}}}$"

    return POWER.sub(raised, power(value, AXIS_DIGITS))


def _look(line: Line) -> dict[str, Any]:
    style = line.style
    marker = {"marker": MARKERS[style.marker], "markersize": 7.0 if style.marker == "star" else 4.6}
    stroke = {"color": style.color, "linestyle": DASHES[style.dash], "linewidth": 1.5}
    return stroke | marker | {"markeredgecolor": "white", "markeredgewidth": 0.5}


def _wrapped(text: str, letters: float) -> str:
    """Text broken into lines that fit, formulas whole; a dollar sign by itself starts no formula."""
    letters += len(text) - len(plain(text))
    text = re.sub(
        MATHEMATICS,
        lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"),
        text.replace("$", r"\$"),
    )
    lines = textwrap.fill(text, max(12, int(letters)), break_long_words=False)
    shown = re.sub(MATHEMATICS, r"$\1$", lines)
    # an asterisk is as high as a star should be, and would be raised twice
    shown = shown.replace("^*", r"^\star")
    return shown.replace("\N{NO-BREAK SPACE}", " ")
