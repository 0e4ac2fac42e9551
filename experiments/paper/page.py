"""The report: one self-contained page with plotly inside, that opens from disk and asks no network for anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from experiments.paper.chapter import NOT_MEASURED, STYLES, Chapter, Figure, Line, Panel, power_of_ten
from experiments.paper.claims import RULE, Verdict
from experiments.paper.curves import Numbers
from experiments.paper.wording import environment

SIGNS: Mapping[Verdict, tuple[str, str, str]] = {
    Verdict.HOLDS: ("holds", "✓", "hold"),
    Verdict.IN_PART: ("in-part", "◐", "hold in part"),
    Verdict.FAILS: ("fails", "✕", "fail"),
    Verdict.TOO_SHORT: ("untested", "…", "too short to judge"),
    Verdict.UNTESTED: ("untested", "?", "not tested"),
}
"""The class and the sign of a verdict, for a reader need not see its colour, and what is said of several claims."""


def render(chapters: Sequence[Chapter], *, title: str, facts: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """The whole page as HTML, about 5 MB, nearly all of it plotly.

    The pictures `<name>.png` and `<name>.pdf` of the figures are expected beside it. `facts` are those of the run,
    "command" among them, which repeats it; `machine` says where it was measured.
    """
    figures = [figure for chapter in chapters for figure in chapter.figures]
    charts = {f"{figure.name}/{place}": chart(panel) for figure in figures for place, panel in enumerate(figure.panels)}
    drawn = {line.solver for figure in figures for line in figure.legend}
    verdicts = [claim.verdict for chapter in chapters for claim in chapter.claims]
    values: dict[str, Any] = {"chapters": chapters, "title": title, "facts": facts, "machine": machine}
    values |= {"styles": STYLES, "solvers": [solver for solver in STYLES if solver in drawn], "scale_of": scale_of}
    values |= {"signs": SIGNS, "rule": RULE, "verdicts": verdicts, "NOT_MEASURED": NOT_MEASURED}
    values |= {name: Path(__file__).with_name(f"page.{name}").read_text(encoding="utf-8") for name in ("css", "js")}
    # no text in these can end their elements early
    values["charts"] = json.dumps(charts, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")
    values["plotly"] = get_plotlyjs().replace("</script", r"<\/script")
    return environment().get_template("page.html").render(values)


def scale_of(figure: Figure, axis: str) -> str:
    """The scale that an axis has in all panels of a figure: "log", "linear", or nothing where they differ."""
    logs = {panel.log_x if axis == "x" else panel.log_y for panel in figure.panels if panel.drawn}
    return "" if len(logs) != 1 else "log" if logs.pop() else "linear"


def chart(panel: Panel) -> dict[str, Any]:
    """A panel as plotly takes it. Colours are those of a light page: the style sheet has the last word on them."""
    bands = [_band(panel, line, place) for place, line in enumerate(panel.drawn) if line.low.size]
    lines = [_trace(panel, line, place) for place, line in enumerate(panel.drawn)]
    level = "" if panel.level is None else power_of_ten(panel.level)
    layout: dict[str, Any] = {
        "autosize": True,
        "margin": {"l": 8, "r": 10 + 7 * len(level), "t": 8, "b": 8},
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "xaxis": _axis([line.x for line in panel.drawn], log=panel.log_x),
        "yaxis": _axis([line.y for line in panel.drawn], log=panel.log_y),
    }
    layout["xaxis"]["title"] = {"text": escape(panel.x_label), "standoff": 8}
    if panel.level is not None and (panel.level > 0.0 or not panel.log_y):
        height = math.log10(panel.level) if panel.log_y else panel.level
        line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": panel.level, "y1": panel.level}
        edge: dict[str, Any] = {
            "xref": "paper",
            "x": 1,
            "xanchor": "left",
            "xshift": 2,
            "yanchor": "middle",
            "showarrow": False,
        }
        layout["shapes"] = [{**line, "line": {"width": 1, "dash": "4px,3px"}}]
        layout["annotations"] = [{**edge, "y": height, "text": level}]
    return {"data": [*bands, *lines], "layout": layout}


def _trace(panel: Panel, line: Line, place: int) -> dict[str, Any]:
    style = line.style
    stroke = {"color": style.color, "dash": style.dash, "width": 2}
    size = 11 if style.marker == "star" else 8
    marker = {"symbol": style.marker, "size": size, "color": style.color, "line": {"width": 1}, "maxdisplayed": 8}
    axes = f"{escape(panel.x_label)} %{{x:.4~g}}<br>{escape(panel.y_label)} %{{y:.4~g}}"
    trace = {"type": "scatter", "uid": f"{line.solver}_{place}", "meta": line.key, "mode": "lines", "line": stroke}
    trace |= {"mode": "lines+markers", "marker": marker} if style.marker else {}
    trace["hovertemplate"] = f"<b>{escape(line.label)}</b><br>{axes}<extra></extra>"
    return {**trace, "x": _rounded(line.x), "y": _rounded(line.y)}


def _band(panel: Panel, line: Line, place: int) -> dict[str, Any]:
    """The spread of a line as closed outlines, one for each stretch without a gap."""
    low, high = panel.band(line)
    known = np.flatnonzero(np.isfinite(line.x + low + high))
    outline = []
    for stretch in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        x, heights = line.x[stretch], (high[stretch], low[stretch][::-1])
        outline.append(np.column_stack([[*x, *x[::-1], np.nan], [*np.concatenate(heights), np.nan]]))
    x, y = np.concatenate(outline).T
    trace: dict[str, Any] = {"type": "scatter", "uid": f"{line.solver}_{place}_band", "meta": line.key, "mode": "lines"}
    trace |= {"fill": "toself", "line": {"width": 0}, "hoverinfo": "skip"}
    return {**trace, "x": _rounded(x), "y": _rounded(y)}


def _axis(values: Sequence[Numbers], *, log: bool) -> dict[str, Any]:
    """An axis; a logarithmic one has about six whole powers of ten, or ticks between them where there are few."""
    axis: dict[str, Any] = {
        "type": "log" if log else "linear",
        "exponentformat": "power",
        "minexponent": 4,
        "nticks": 6,
    }
    every = np.concatenate([np.zeros(0), *values])
    if log and (every > 0.0).any():
        least, most = (math.log10(end(every[every > 0.0])) for end in (np.min, np.max))
        if math.floor(most) - math.ceil(least) + 1 >= 3:
            axis |= {"dtick": math.ceil((most - least) / 7.0), "tickfont": {"size": 9.6}}
        elif most - least >= 1.0:
            axis["nticks"] = round((most - least) / 0.45)
    return axis | {"automargin": True, "zeroline": False, "showline": True, "ticks": "outside", "ticklen": 4}


def _rounded(values: Numbers) -> list[float | None]:
    """Six digits: more than a screen shows, at half the size."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
