"""The page's building blocks: chapters in, HTML out; all text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from urllib.parse import quote

from condgrad.paper.chapters import LEGEND, Chapter, Claim, Figure, Panel, Table, Verdict
from condgrad.paper.interactive import sample
from condgrad.paper.solvers import STYLES
from condgrad.paper.strokes import NOT_MEASURED, Stroke, legend, strokes

BADGES: Mapping[Verdict, tuple[str, str]] = MappingProxyType(
    {
        Verdict.HOLDS: ("holds", "✓"),
        Verdict.IN_PART: ("in-part", "◐"),
        Verdict.FAILS: ("fails", "✕"),
        Verdict.UNTESTED: ("untested", "?"),
    }
)
"""The class and the sign of a verdict: a reader need not see its colour."""

SHORT = 24
"""Letters: a cell up to here stays on one line."""


def contents(chapters: Sequence[Chapter]) -> str:
    """The links of the table of contents."""
    links = [("summary", "Summary")]
    links += [(_anchor("chapter", chapter.name), chapter.title) for chapter in chapters]
    links += [("claims", "Claims")] if any(chapter.claims for chapter in chapters) else []
    links.append(("reproduce", "Reproduce"))
    return "".join(f'<li><a href="#{anchor}">{escape(title)}</a></li>' for anchor, title in links)


def summary(chapters: Sequence[Chapter]) -> str:
    """How the claims came out, and a card for each chapter."""
    cards = "".join(
        f'<li class="card"><h2><a href="#{_anchor("chapter", chapter.name)}">{escape(chapter.title)}</a></h2>'
        f"<p>{escape(chapter.summary)}</p></li>"
        for chapter in chapters
    )
    return f'{_tally(chapters)}<ul class="cards">{cards}</ul>'


def claims(chapters: Sequence[Chapter]) -> str:
    """All claims in one table, in groups by chapter; on a phone its rows become cards."""
    groups = [
        f'<tbody role="rowgroup"><tr role="row"><th role="rowheader" colspan="4" scope="rowgroup">'
        f'<a href="#{_anchor("chapter", chapter.name)}">{escape(chapter.title)}</a></th></tr>'
        f"{''.join(map(_claim, chapter.claims))}</tbody>"
        for chapter in chapters
        if chapter.claims
    ]
    if not groups:
        return ""
    head = "".join(
        f'<th role="columnheader" scope="col">{name}</th>' for name in ("Claim", "Measured", "Verdict", "Why")
    )
    return (
        '<section id="claims" aria-labelledby="claims-title"><h2 id="claims-title">The claims of the paper</h2>'
        f'<p class="prose">{escape(LEGEND)}</p>'
        f'<table class="claims" role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>{"".join(groups)}'
        "</table></section>"
    )


def chapter(part: Chapter) -> str:
    """A part of the page: summary, figures, tables, notes and settings."""
    anchor = _anchor("chapter", part.name)
    pieces = [
        f'<section class="chapter" id="{anchor}" aria-labelledby="{anchor}-title">',
        f'<h2 id="{anchor}-title">{escape(part.title)}</h2><p class="prose">{escape(part.summary)}</p>',
        *map(_figure, part.figures),
        *map(_table, part.tables),
        _notes(part.notes),
        _settings(part.settings),
        "</section>",
    ]
    return "".join(pieces)


def solvers(chapters: Sequence[Chapter]) -> str:
    """A check box for each solver that is drawn: hides it in all figures."""
    drawn = {stroke.solver for part in chapters for figure in part.figures for stroke in legend(figure)}
    boxes = "".join(
        f'<label class="chip"><input type="checkbox" checked data-solver="{solver}">{sample(solver)}'
        f"<span>{escape(style.label)}</span></label>"
        for solver, style in STYLES.items()
        if solver in drawn
    )
    if not boxes:
        return ""
    return (
        '<details class="solvers scripted-only" open><summary class="eyebrow">In all figures</summary>'
        f'<fieldset><legend class="hidden">Solvers shown in all figures</legend>{boxes}</fieldset>'
        '<button type="button" class="quiet" id="show-all">Show all</button></details>'
    )


def colophon(*, facts: Mapping[str, str], machine: Mapping[str, str]) -> str:
    """How the page came about: command, facts of the run, machine."""
    command = facts.get("command", "condgrad paper")
    rest = {name: value for name, value in facts.items() if name != "command"}
    return (
        '<section id="reproduce" aria-labelledby="reproduce-title"><h2 id="reproduce-title">Reproduce</h2>'
        '<p class="prose">Times depend on the machine; iterations, values and bounds hardly do. The same numbers are '
        "in <code>results.json</code> and <code>curves.csv</code> beside this page. To measure again:</p>"
        f'<pre tabindex="0"><code>pip install "condgrad[cli,bench]"\n{escape(command)}</code></pre>'
        f'<div class="columns">{_facts("Run", rest)}{_facts("Machine and versions", machine)}</div></section>'
    )


def _tally(chapters: Sequence[Chapter]) -> str:
    verdicts = [claim.verdict for part in chapters for claim in part.claims]
    counts = [(verdict, verdicts.count(verdict)) for verdict in Verdict]
    badges = "".join(f"<li>{_badge(verdict, count=count)}</li>" for verdict, count in counts if count)
    if not badges:
        return ""
    tested = f"Claims tested: {len(verdicts) - verdicts.count(Verdict.UNTESTED)} of {len(verdicts)}"
    return f'<div class="tally"><p><a href="#claims">{tested}</a></p><ul>{badges}</ul></div>'


def _badge(verdict: Verdict, *, count: int | None = None) -> str:
    name, sign = BADGES[verdict]
    words = verdict.value if count is None else f"<b>{count}</b> {verdict.said_of(count)}"
    return f'<span class="badge {name}"><span aria-hidden="true">{sign}</span> {words}</span>'


def _claim(claim: Claim) -> str:
    cells = {
        "Claim": escape(claim.claim),
        "Measured": escape(claim.measured) or NOT_MEASURED,
        "Verdict": _badge(claim.verdict),
        "Why": escape(claim.why),
    }
    row = "".join(f'<td role="cell" data-label="{name}">{text}</td>' for name, text in cells.items())
    return f'<tr role="row" class="claim">{row}</tr>'


def _figure(figure: Figure) -> str:
    anchor, file = _anchor("picture", figure.name), escape(quote(figure.name))
    entries = legend(figure)
    rows, place = [], 0
    for row in figure.rows:
        cells = "".join(_panel(panel, place + column) for column, panel in enumerate(row))
        rows.append(f'<div class="panels" style="--columns:{max(1, len(row))}">{cells}</div>')
        place += len(row)
    if not place:
        rows = [f'<p class="missing">{NOT_MEASURED}</p>']
    title, picture = escape(figure.title), f'<img src="{file}.png" alt="{escape(figure.alt)}">'
    return (
        f'<figure id="{anchor}" data-figure="{escape(figure.name)}"><div class="heading"><h3>{title}</h3>'
        f'<p class="files">For print: <a href="{file}.png" aria-label="{title} as PNG">PNG</a> '
        f'<a href="{file}.pdf" aria-label="{title} as PDF">PDF</a></p></div>'
        f'<div class="scripted-only">{_legend(entries)}{_axes(figure) if entries else ""}</div>'
        f'<div class="drawing scripted-only" role="img" aria-label="{escape(figure.alt)}">{"".join(rows)}</div>'
        f"<noscript>{picture}</noscript>"
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        f"<details><summary>In words</summary><p>{escape(figure.alt)}</p>{_described(figure)}</details></figure>"
    )


def _panel(panel: Panel, place: int) -> str:
    drawn = strokes(panel)
    body = "" if drawn else f'<p class="missing">{NOT_MEASURED}</p>'
    return (
        f'<div class="panel"><p class="panel-title">{escape(panel.title)}</p>'
        f'<p class="y-label">{escape(panel.y_label)}</p>'
        f'<div class="plot{"" if drawn else " empty"}" data-panel="{place}">{body}</div></div>'
    )


def _legend(entries: Sequence[Stroke]) -> str:
    chips = "".join(
        f'<li><button type="button" class="chip" aria-pressed="true" data-key="{escape(stroke.key)}" '
        f'data-solver="{stroke.solver}">{sample(stroke.solver)}<span>{escape(stroke.label)}</span></button></li>'
        for stroke in entries
    )
    return f'<ul class="legend" aria-label="Lines; press to hide or show">{chips}</ul>' if chips else ""


def _axes(figure: Figure) -> str:
    groups = "".join(
        f'<div class="switch" role="group" aria-label="{axis} axis of {escape(figure.title)}"><span>{axis} axis</span>'
        f'<button type="button" data-axis="{axis}" data-type="log" aria-pressed="false">log</button>'
        f'<button type="button" data-axis="{axis}" data-type="linear" aria-pressed="false">linear</button></div>'
        for axis in ("y", "x")
    )
    reset = f'<button type="button" class="quiet" data-reset aria-label="Reset {escape(figure.title)}">Reset</button>'
    return f'<div class="controls">{groups}{reset}</div>'


def _described(figure: Figure) -> str:
    """What is drawn where, for a reader who does not see the picture."""
    panels = [panel for row in figure.rows for panel in row]
    items = "".join(
        f"<li>{escape(panel.title)}: {escape(panel.y_label)} against {escape(panel.x_label)}; "
        f"{escape(', '.join(dict.fromkeys(stroke.label for stroke in strokes(panel))) or NOT_MEASURED)}.</li>"
        for panel in panels
    )
    return f"<ul>{items}</ul>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    title = escape(table.title)
    return (
        f'<div class="table"><h3>{title}</h3><div class="scroll" role="region" tabindex="0" aria-label="{title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</div>"
    )


def _cell(text: str) -> str:
    return f'<td class="short">{escape(text)}</td>' if len(text) <= SHORT else f"<td>{escape(text)}</td>"


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="notes"><h3>Notes</h3><ul>{items}</ul></div>' if items else ""


def _settings(settings: Mapping[str, str]) -> str:
    return f'<details class="settings"><summary>Settings</summary>{_list(settings)}</details>' if settings else ""


def _facts(title: str, facts: Mapping[str, str]) -> str:
    return f"<div><h3>{title}</h3>{_list(facts)}</div>" if facts else ""


def _list(facts: Mapping[str, str]) -> str:
    pairs = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f"<dl>{''.join(pairs)}</dl>"


def _anchor(kind: str, name: str) -> str:
    return f"{kind}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"
