"""The report: one self-contained page that opens from disk and asks no network for anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from plotly.offline import get_plotlyjs

from condgrad.paper import blocks
from condgrad.paper.chapters import Chapter
from condgrad.paper.interactive import colors, drawing, styles


def render(chapters: Sequence[Chapter], *, title: str, facts: Mapping[str, str], machine: Mapping[str, str]) -> str:
    """The whole page as HTML, with plotly inside.

    Parameters
    ----------
    chapters : sequence of Chapter
        What to show, in this order; the pictures `<name>.png` and `<name>.pdf` of their figures are expected beside it.
    title : str
        The heading.
    facts : mapping
        The run: seeds, scale, date. "command" is what to type to repeat it.
    machine : mapping
        Where it was measured, with versions.

    Returns
    -------
    str
        A document of about 5 MB, nearly all of it plotly.
    """
    return Template(_text("page.html")).substitute(
        title=escape(title),
        style=f":root{{{colors()}}}{_text('page.css')}",
        contents=blocks.contents(chapters),
        solvers=blocks.solvers(chapters),
        summary=blocks.summary(chapters),
        claims=blocks.claims(chapters),
        chapters="".join(map(blocks.chapter, chapters)),
        colophon=blocks.colophon(facts=facts, machine=machine),
        drawings=_embedded(chapters),
        plotly=get_plotlyjs().replace("</script", r"<\/script"),
        script=_text("page.js"),
    )


def _embedded(chapters: Sequence[Chapter]) -> str:
    """The numbers as JSON that no text in it can end early."""
    figures = {figure.name: drawing(figure) for chapter in chapters for figure in chapter.figures}
    return json.dumps({"styles": styles(), "figures": figures}, separators=(",", ":"), allow_nan=False).replace(
        "<", r"\u003c"
    )


def _text(name: str) -> str:
    return files("condgrad.paper").joinpath(name).read_text(encoding="utf-8")
