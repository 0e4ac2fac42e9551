"""Formulas, docstrings and the order of examples, as the site needs them."""

from __future__ import annotations

import re
from pathlib import Path
from pydoc import locate
from typing import Any

from docutils.nodes import SkipNode
from sphinx.pycode import ModuleAnalyzer

from experiments.paper.wording import formula, in_html, parts_of

READING_ORDER = (
    "first_certificates",
    "own_problem",
    "frank_wolfe_family",
    "elastic_net",
    "microarray_study",
    "patients_with_holes",
    "stability_selection",
    "domain_adaptation",
    "adaptation_network",
    "shape_matching",
    "color_transfer",
    "palette_barycenters",
    "shape_barycenters",
    "particle_flow",
    "many_points",
    "matrix_completion",
    "resume_after_kill",
)
"""The gallery, from the idea by way of each kind of user to special things; others come last."""


class ReadingOrder:
    """Sorts the files of examples."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        name = Path(file).stem
        return (READING_ORDER.index(name) if name in READING_ORDER else len(READING_ORDER)), name


FITS = 30
"""Letters of code that fit on a line of a phone, also in a list: so many are not broken."""


def visit_math(writer: Any, node: Any) -> None:
    """Formulas as MathML, which browsers draw by themselves: no script, no network, no picture."""
    writer.body.append(formula(node.astext()))
    raise SkipNode


def visit_math_block(writer: Any, node: Any) -> None:
    number = f'<span class="number">({node["number"]})</span>' if node.get("number") else ""
    places = "".join(f' id="{place}"' for place in node["ids"][:1])
    parts = "".join(formula(part, "block") for part in parts_of(node.astext()))
    writer.body.append(
        f'<div class="formula"{places}><div class="parts">{parts}</div>{number}</div>'
    )
    raise SkipNode


def escape_norms(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What docstrings write as plain text and Sphinx would take for markup: norms |x|, and names such as coef_.

    Of a property in the place of an attribute Python says what a float is; the attribute has words of its own.
    """
    if str(float.__doc__).splitlines()[0] in (line.strip() for line in lines):
        lines[:] = _words_of_attribute(name)
    lines[:] = [
        line if line.lstrip().startswith((">>>", "...")) else _escaped(line) for line in lines
    ]


def _words_of_attribute(name: str) -> list[str]:
    """What stands below an attribute in the first of the classes that say it."""
    owner, _, attribute = name.rpartition(".")
    for kind in getattr(locate(owner), "__mro__", ()):
        if kind.__module__.startswith("condgrad"):
            known = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
            if (kind.__name__, attribute) in known:
                return known[kind.__name__, attribute]
    return []


def _escaped(line: str) -> str:
    """The line with its norms escaped, and outside of code its trailing underscores and its dots: a summary ends at one."""
    parts = line.replace("|", "\\|").split("`")
    parts[::2] = [
        re.sub(r"(?<=\w)_(?=\W|$)", r"\_", part).replace("...", "…") for part in parts[::2]
    ]
    return "`".join(parts)


TAG = re.compile(r"""(<(?:"[^"]*"|'[^']*'|[^"'>])*>)""")
AS_WRITTEN = re.compile(r"<(/?)(pre|code|math|script|style|svg)\b")
"""Elements whose text is left as it is."""
BASE = r"(?<![\w\\])(?:sum|min|max|coef|factor|weights|cost|mu|X[st]|[A-Za-z]\d?)|[|)]"
MARKED_UP = (
    (r"(?<![\w\\])([A-Z])_\((\w)_(\w)\)", r"\1<sub>\2<sub>\3</sub></sub>"),
    (rf"({BASE})_(\d|[a-zK]|[ijkl]{{2,4}}|inf|group)(?!\w)", r"\1<sub>\2</sub>"),
    (r"(?<=[\w)|>])\^(\d+|[a-z])(?!\w)", r"<sup>\1</sup>"),
    (r"(?<=[\w)|>])\^\{([^{}]+)\}", r"<sup>\1</sup>"),
    (r"(?<=[\w)>]) - (?=F(?:\*|\())", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"),
    (r"(?<![\w*])F\*(?![\w*])", "F<sup>\N{ASTERISK OPERATOR}</sup>"),
    (r"&lt;=", "≤"),
    (r"&gt;=", "≥"),
    (r"(?<![\w.])\d[\d.]*(?:e[-+]?\d+|-D)\b", r'<span class="unbroken">\g<0></span>'),
    (
        r"(?<=\d) (?=(?:[GM]i?B|m?s)\b)|(?<=\b[a-z]) (?== \d)|(?<=\b[a-z] =) (?=\d)",
        "\N{NO-BREAK SPACE}",
    ),
)
"""What is written as in a terminal, such as F*, x_k and 1e-6, and how a page shows it."""


def break_names(app: Any, page: str, template: str, context: Any, doctree: Any) -> None:
    """Lets calls break before their arguments, and names of the reference where words end: screens are narrow."""
    ends = r"(?<=\()(?=\w)"
    if page.startswith("api/"):
        ends = r"(?<=[._(])(?=\w)|(?<=[a-z])(?=[A-Z])"
    for way in ("prev", "next"):
        if context.get(way) and "." in context[way]["title"]:
            context[way]["title"] = re.sub(
                r"(?<=[._])(?=\w)|(?<=[a-z])(?=[A-Z])", "<wbr>", context[way]["title"]
            )
    if "body" in context:
        body = re.sub(
            r'(<math[^>]*display="inline"(?:(?!</math>).)*</math>[.,;:)]+)',
            r'<span class="unbroken">\1</span>',
            _marked_up(context["body"]),
        )
        body = re.sub(
            r'(?<=<h1>)[^<]*|(?<=<span class="pre">)[^<]*',
            lambda name: _breaking(name[0], ends),
            body,
        )
        short = rf'<span class="pre">(?=(?:[^<]|<wbr[^>]*>){{1,{FITS}}}</span>)'
        context["body"] = re.sub(short, '<span class="pre whole">', body)


def _breaking(name: str, ends: str) -> str:
    """The name with places to break: on every screen, and on narrow ones also behind the dots and signs in it."""
    name = re.sub(ends, "<wbr>", name)
    narrow = r"""(?<=[a-z_)]{3}[./])(?=\w)|(?<=\w=)(?=[&"'\w(])"""
    return re.sub(narrow, '<wbr class="narrow">', name)


def _marked_up(body: str) -> str:
    """The page with the indices, powers and numbers of its prose as they are printed."""
    pieces = TAG.split(body)
    depth = 0
    for place, piece in enumerate(pieces):
        if place % 2 == 0 and not depth:
            for written, shown in MARKED_UP:
                piece = re.sub(written, shown, piece)
            pieces[place] = in_html(piece)
        elif found := AS_WRITTEN.match(piece):
            depth += -1 if found[1] else 1
    return "".join(pieces)


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what others have written.

    Estimators have methods from scikit-learn, whose own site describes them, and the fields of tuples a word by Python,
    where the class describes them already.
    """
    foreign = str(getattr(obj, "__module__", "")).startswith("sklearn") or name.endswith("_request")
    return (
        True if foreign or str(getattr(obj, "__doc__", "")).startswith("Alias for field") else None
    )
