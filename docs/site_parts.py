"""Formulas, docstrings and the order of examples, as the site needs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

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
    writer.body.append(_formula(node, "inline"))
    raise SkipNode


def _formula(node: Any, display: str) -> str:
    """What the converter makes, with the spaces and primes of print."""
    formula = convert(node.astext().replace("\n", " "), display=display)
    # the glyph of a prime is raised already
    prime, mark = "<mi>&#x02032;</mi>", '<mo lspace="0" rspace="0">&#x02032;</mo>'
    formula = re.sub(rf"<msup>(<mi>\w+</mi>){prime}</msup>", rf"\1{mark}", formula)
    formula = re.sub(
        rf"<msubsup>(<mi>\w+</mi>)(<mi>\w+</mi>){prime}</msubsup>",
        rf"<msub><mrow>\1{mark}</mrow>\2</msub>",
        formula,
    )
    formula = formula.replace(
        '<mo stretchy="false">&#x0007C;</mo>',
        '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>',
    )
    space = '<mspace width="0.17em"></mspace>'
    formula = re.sub(r"(?<=</mi>)(?=<mi>log</mi>)", space, formula)
    return re.sub(r"(?<=<mi>log</mi>)(?!<mo stretchy)", space, formula)


def visit_math_block(writer: Any, node: Any) -> None:
    number = f'<span class="number">({node["number"]})</span>' if node.get("number") else ""
    places = "".join(f' id="{place}"' for place in node["ids"][:1])
    formula = _formula(node, "block")
    writer.body.append(f'<div class="formula"{places}>{formula}{number}</div>')
    raise SkipNode


def escape_norms(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What docstrings write as plain text and Sphinx would take for markup: norms |x|, and names such as coef_."""
    lines[:] = [
        line if line.lstrip().startswith((">>>", "...")) else _escaped(line) for line in lines
    ]


def _escaped(line: str) -> str:
    """The line with its norms escaped, and outside of code its trailing underscores and its dots: a summary ends at one."""
    parts = line.replace("|", "\\|").split("`")
    parts[::2] = [
        re.sub(r"(?<=\w)_(?=\W|$)", r"\_", part).replace("...", "…") for part in parts[::2]
    ]
    return "`".join(parts)


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
            context["body"],
        )
        body = re.sub(
            r'(?<=<h1>)[^<]*|(?<=<span class="pre">)[^<]*',
            lambda name: re.sub(ends, "<wbr>", name[0]),
            body,
        )
        short = rf'<span class="pre">(?=(?:[^<]|<wbr>){{1,{FITS}}}</span>)'
        context["body"] = re.sub(short, '<span class="pre whole">', body)


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what others have written.

    Estimators have methods from scikit-learn, whose own site describes them, and the fields of tuples a word by Python,
    where the class describes them already.
    """
    foreign = str(getattr(obj, "__module__", "")).startswith("sklearn") or name.endswith("_request")
    return (
        True if foreign or str(getattr(obj, "__doc__", "")).startswith("Alias for field") else None
    )
