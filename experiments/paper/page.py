"""The report: one self-contained page with plotly inside, that opens from disk and asks no network for anything."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from experiments.paper.chapter import Chapter, Source, Verdict
from experiments.paper.figures import (
    AXIS_DIGITS,
    FEW_POWERS,
    NOT_MEASURED,
    STYLES,
    Figure,
    Line,
    Panel,
)
from experiments.paper.tasks import Numbers
from experiments.paper.wording import environment, in_html, plain, power

SIGNS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.HOLDS: ("holds", "✓"),
    Verdict.IN_PART: ("in-part", "◐"),
    Verdict.FAILS: ("fails", "✕"),
    Verdict.TOO_SHORT: ("untested", "…"),
    Verdict.UNTESTED: ("untested", "?"),
}
"""The class and the sign of a verdict, for a reader need not see its colour."""


def render(
    chapters: Sequence[Chapter], *, facts: Mapping[str, Any], machine: Mapping[str, Any]
) -> str:
    """The whole page as HTML, about 5 MB, nearly all of it plotly.

    The pictures `<name>.png` and `<name>.pdf` of the figures are expected beside it. `facts` are those of the run,
    "command" among them, which repeats it; `machine` says where it was measured.
    """
    figures = [figure for chapter in chapters for figure in chapter.figures]
    charts = {
        f"{figure.name}/{place}": chart(panel)
        for figure in figures
        for place, panel in enumerate(figure.panels)
    }
    drawn = {line.solver for figure in figures for line in figure.legend}
    values: dict[str, Any] = {
        "chapters": chapters,
        # to the minute, as a person would write it
        "facts": {**facts, "date": str(facts.get("date", ""))[:16].replace("T", " ")},
        "machine": machine,
        "Verdict": Verdict,
    }
    values |= {
        "styles": STYLES,
        "solvers": [solver for solver in STYLES if solver in drawn],
        "scale_of": scale_of,
    }
    values |= {
        "signs": SIGNS,
        "counted": counted(chapters),
        "PAPER": Source.PAPER,
        "NOT_MEASURED": NOT_MEASURED,
    }
    templates = Path(__file__).parent / "templates"
    values |= {
        kind: (templates / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
    }
    values["math_font"] = base64.b64encode((templates / "math.woff2").read_bytes()).decode()
    # no text in these can end their elements early
    values["charts"] = json.dumps(charts, separators=(",", ":"), allow_nan=False).replace(
        "<", r"\u003c"
    )
    values["plotly"] = get_plotlyjs().replace("</script", r"<\/script")
    return environment().get_template("page.html").render(values)


def counted(chapters: Sequence[Chapter]) -> dict[Verdict, list[tuple[str, str]]]:
    """The claims of the paper by verdict, each once, without ours: their sentences with the anchors of the evidence."""
    found: dict[Verdict, list[tuple[str, str]]] = {verdict: [] for verdict in Verdict}
    for chapter in chapters:
        for place, claim in enumerate(chapter.claims):
            if claim.source is Source.PAPER:
                found[claim.verdict].append((claim.claim, f"claim-{chapter.name}-{place}"))
    return found


def scale_of(figure: Figure, axis: str) -> str:
    """The scale that an axis has in all panels of a figure: "log", "linear", or nothing where they differ."""
    logs = {panel.log_x if axis == "x" else panel.log_y for panel in figure.panels if panel.drawn}
    return "" if len(logs) != 1 else "log" if logs.pop() else "linear"


def chart(panel: Panel) -> dict[str, Any]:
    """A panel as plotly takes it. Colours are those of a light page: the style sheet has the last word on them."""
    bands = [_band(panel, line, place) for place, line in enumerate(panel.drawn) if line.band]
    lines = [_trace(panel, line, place) for place, line in enumerate(panel.drawn)]
    level = panel.shown_level
    label = "" if level is None else power(level, AXIS_DIGITS)
    layout: dict[str, Any] = {
        "margin": {"l": 8, "r": 10 + 7 * len(label), "t": 8, "b": 8},
        "xaxis": _axis([line.x for line in panel.drawn], log=panel.log_x),
        "yaxis": _axis([line.y for line in panel.drawn], log=panel.log_y),
    }
    layout["xaxis"]["title"] = {"text": escape(plain(panel.x_label)), "standoff": 8}
    if level is not None:
        layout["shapes"] = [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
        ]
        layout["annotations"] = [
            {"y": math.log10(level) if panel.log_y else level, "text": in_html(label)}
        ]
    return {"data": [*bands, *lines], "layout": layout}


def _trace(panel: Panel, line: Line, place: int) -> dict[str, Any]:
    style = line.style
    trace: dict[str, Any] = {"uid": f"{line.solver}_{place}", "meta": line.key, "mode": "lines"}
    trace["line"] = {"color": style.color, "dash": style.dash, "width": 2}
    if style.marker:
        size = 11 if style.marker == "star" else 8
        trace["mode"] = "lines+markers"
        trace["marker"] = {
            "symbol": style.marker,
            "size": size,
            "line": {"width": 1},
            "maxdisplayed": 8,
        }
    name, x, y = (escape(plain(label)) for label in (line.label, panel.x_label, panel.y_label))
    trace["hovertemplate"] = f"<b>{name}</b><br>{x} %{{x:.4~g}}<br>{y} %{{y:.4~g}}<extra></extra>"
    return {**trace, "x": _rounded(line.x), "y": _rounded(line.y)}


def _band(panel: Panel, line: Line, place: int) -> dict[str, Any]:
    x, y = panel.area(line)
    trace: dict[str, Any] = {
        "uid": f"{line.solver}_{place}_band",
        "meta": line.key,
        "mode": "lines",
        "fill": "toself",
    }
    return {**trace, "line": {"width": 0}, "hoverinfo": "skip", "x": _rounded(x), "y": _rounded(y)}


def _axis(values: Sequence[Numbers], *, log: bool) -> dict[str, Any]:
    """An axis; a logarithmic one has about six whole powers of ten, or ticks between them where there are few."""
    axis: dict[str, Any] = {"type": "log" if log else "linear", "nticks": 6}
    every = np.concatenate([np.zeros(0), *values])
    if log and (every > 0.0).any():
        least, most = (math.log10(end(every[every > 0.0])) for end in (np.min, np.max))
        if math.floor(most) - math.ceil(least) + 1 >= FEW_POWERS:
            # plotly draws powers of ten a quarter larger than other numbers
            axis |= {"dtick": math.ceil((most - least) / 7.0), "tickfont": {"size": 9.6}}
        elif most - least >= 0.7:
            multiples = (1, 3) if most - least >= 1.5 else (1, 2, 5)
            ends = range(math.floor(least), math.ceil(most) + 1)
            ticks = [float(f"{m}e{exponent}") for exponent in ends for m in multiples]
            names = [in_html(power(tick, AXIS_DIGITS)) for tick in ticks]
            axis |= {"tickmode": "array", "tickvals": ticks, "ticktext": names}
    return axis


def _rounded(values: Numbers) -> list[float | None]:
    """Six digits: more than a screen shows, at half the size."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
