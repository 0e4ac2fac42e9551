"""Formulas, docstrings and the arguments of examples, as the site needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

PICTURES = Path(__file__).parent / "_build" / "pictures"


def example_arguments(gallery: Any, variables: Any) -> list[str]:
    """The arguments that each example gets: where to save its picture."""
    return ["--out", str(PICTURES)]


def visit_math(writer: Any, node: Any) -> None:
    """Formulas as MathML, which browsers draw by themselves: no script, no network, no picture."""
    writer.body.append(convert(node.astext().replace("\n", " "), display="inline"))
    raise SkipNode


def visit_math_block(writer: Any, node: Any) -> None:
    number = f'<span class="number">({node["number"]})</span>' if node.get("number") else ""
    places = "".join(f' id="{place}"' for place in node["ids"][:1])
    formula = convert(node.astext().replace("\n", " "), display="block")
    writer.body.append(f'<div class="formula"{places}>{formula}{number}</div>')
    raise SkipNode


def escape_norms(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Norms are written |x| in docstrings, which Sphinx would take for the name of a substitution."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else line.replace("|", "\\|") for line in lines]
