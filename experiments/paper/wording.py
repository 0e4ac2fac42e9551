r"""Numbers as a reader wants them, formulas, and the templates that use these as filters.

A formula stands in prose as LaTeX between \( and \): the page shows it as MathML, the figures by matplotlib's
mathtext, and everything else, such as a terminal, as plain text.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from html import escape
from typing import Any
from xml.etree import ElementTree

import jinja2
from latex2mathml.converter import convert
from markupsafe import Markup

MATHEMATICS = r"\\\((.+?)\\\)"
SIGNS = {
    "le": "≤ ",
    "ge": "≥ ",
    "nabla": "∇",
    "mu": "μ",
    "lambda": "λ",
    "infty": "∞",
    "ell": "l",
    "times": "x",
}
SIGNS |= {"langle": "⟨", "rangle": "⟩", "Omega": "Ω"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
POWER = re.compile(r"(?:[\d.]+·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
"""A power of ten as `power` writes it."""
WITH_LIMITS = ("min", "max", "argmin")
PRIMES = ("\N{PRIME}", "\N{DOUBLE PRIME}")
MATHML = "http://www.w3.org/1998/Math/MathML"
THIN = "0.167em"


def duration(seconds: float, never: str = "never") -> str:
    """Seconds with a fitting unit, two digits; `never` for what never came."""
    if not math.isfinite(seconds):
        return never
    if seconds < 0.0995:
        return f"{factor(1e3 * seconds)} ms"
    return f"{seconds:.2f} s" if seconds < 0.995 else f"{factor(seconds)} s"


def count(number: float) -> str:
    """A number of iterations; a dash for one that never came."""
    return f"{number:,.0f}" if math.isfinite(number) else "-"


def factor(ratio: float) -> str:
    """Two digits of a positive number, such as 0.45, 1.0, 7.4, 30 or 1,200."""
    if ratio >= 9.95:
        return f"{ratio:,.0f}"
    return f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2g}"


def power(value: float, digits: int = 0) -> str:
    """A number by its power of ten, such as 10⁻⁵ or 1.7·10⁻², with so many digits beyond the first; but 0.3."""
    if value == 0.0 or 1e-2 <= abs(value) < 10.0 ** (digits + 1):
        return f"{float(f'{value:.{digits}e}'):g}"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if digits else mantissa
    raised = f"10{str(int(exponent)).translate(RAISED)}"
    return raised if mantissa == "1" else f"{mantissa}·{raised}"


def takes(ratio: float) -> str:
    """How long something takes against another; 0 where the other never came, infinite where it did not itself."""
    if ratio == 0.0:
        return "is the only one to get there"
    return (
        f"takes {factor(ratio)} times as long"
        if math.isfinite(ratio)
        else "does not get there within its limits"
    )


def span(values: Iterable[float]) -> str:
    """From the least to the largest factor, such as "1.3 to 25"."""
    several = sorted(values)
    return " to ".join(dict.fromkeys([factor(several[0]), factor(several[-1])]))


def of_samples(ridge: float) -> str:
    """A ridge in units of the samples m, such as "m/50"."""
    return f"{ridge:g} m" if ridge >= 1.0 else f"m/{1.0 / ridge:.4g}"


def ending(status: str) -> str:
    """How a run ended, such as "time limit"."""
    return status.lower().replace("_", " ")


def error_sentence(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def plain(text: str) -> str:
    """Prose with its formulas as plain text, such as F(x_k) - F* ≤ 2 C_f/(k + 2)."""

    def formula(found: re.Match[str]) -> str:
        latex = re.sub(r"\^\{?(-?\d+)\}?", lambda raised: raised[1].translate(RAISED), found[1])
        latex = re.sub(r"\\([A-Za-z]+) ?", lambda name: SIGNS.get(name[1], f"{name[1]} "), latex)
        latex = re.sub(r"_\{(.+?)\}", r"_(\1)", latex)
        for sign, shown in ((r"\|", "‖"), (r"\,", ""), ("^*", "*"), ("{", ""), ("}", "")):
            latex = latex.replace(sign, shown)
        return latex

    return re.sub(MATHEMATICS, formula, text)


def in_html(text: str) -> str:
    """The text with the exponents of its powers of ten as HTML raises them: small signs of Unicode are hard to read."""

    def raised(found: re.Match[str]) -> str:
        exponent = found[1].translate(LOWERED).replace("-", "\N{MINUS SIGN}")
        return f'<span class="unbroken">{found[0][: -len(found[1])]}<sup>{exponent}</sup></span>'

    return POWER.sub(raised, text)


def mathml(text: str) -> Markup:
    """Prose for the page: its formulas as MathML, the rest escaped; what belongs together stays on one line."""
    text = re.sub(r"(?<=\d) (?=m?s\b)", "\N{NO-BREAK SPACE}", text)
    text = re.sub(r"(?<=\b\w) = (?=\d)", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}", text)
    # every other piece is what stands between \( and \), but for the sign before it and those behind it
    pieces = re.split(rf"(\(?){MATHEMATICS}([.,;:)]*)", text)
    shown = [in_html(escape(piece)) for piece in pieces]
    for place in range(2, len(pieces), 4):
        around = (shown[place - 1], formula(pieces[place]), shown[place + 1])
        shown[place - 1 : place + 2] = ["", "".join(around), ""]
        if any(around[::2]):
            shown[place] = f'<span class="unbroken">{shown[place]}</span>'
    return Markup("".join(shown))


def parts_of(latex: str) -> list[str]:
    """A formula cut where it has wide spaces: on a narrow screen each part has a line of its own."""
    return [part.strip() for part in re.split(r"\\qquad|\\quad", latex)]


def formula(latex: str, display: str = "inline") -> Markup:
    """LaTeX as MathML, with the limits, spaces, primes and stars of print."""
    tree = ElementTree.fromstring(convert(" ".join(latex.split()), display=display))
    _set(tree, has_limits=display == "block")
    ElementTree.register_namespace("", MATHML)
    return Markup(ElementTree.tostring(tree, encoding="unicode"))


def _set(parent: ElementTree.Element, *, has_limits: bool) -> None:
    """Sets the children of an element, and theirs: the converter knows what signs are, not how they are printed."""
    for child in list(parent):
        _set(child, has_limits=has_limits)
    kinds = [child.tag.removeprefix(f"{{{MATHML}}}") for child in parent]
    signs = [child.text or "" for child in parent]
    if parent.tag.endswith(("msup", "msubsup")) and signs[-1] in PRIMES:
        # the glyph of a prime is raised already
        base, prime = parent[0], _element("mo", signs[-1], lspace="0", rspace="0")
        parent.remove(parent[-1])
        parent[0] = _element("mrow")
        parent[0].extend([base, prime])
        parent.tag = f"{{{MATHML}}}{'msub' if len(parent) == 2 else 'mrow'}"
        return
    if kinds[:1] == ["mo"] and signs[0] in ("|", "‖") and parent.tag.endswith(("msub", "msubsup")):
        # an index of a norm stands as low as that of a letter, however long the bar
        bar = parent[0]
        bar.attrib |= {"lspace": "0", "rspace": "0"}
        parent[0] = _element("mpadded", depth="0")
        parent[0].append(bar)
        kinds[0] = "mpadded"
    if has_limits and parent.tag.endswith("msub") and signs[0] in WITH_LIMITS:
        parent.tag = f"{{{MATHML}}}munder"
    for child, kind, sign in zip(parent, kinds, signs, strict=True):
        if kind == "mtext":
            child.text = sign.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
        elif kind == "mo" and sign == "∞":
            child.tag = f"{{{MATHML}}}mi"
        elif kind == "mo" and sign in ("*", "⋆"):
            child.text = "\N{ASTERISK OPERATOR}"
        elif kind == "mo" and sign in ("/", ".", "|"):
            child.attrib |= {"lspace": "0", "rspace": "0"}
    if parent.tag.endswith(("math", "mrow")):
        _set_names(parent)


def _set_names(row: ElementTree.Element) -> None:
    """Thin spaces around names such as min and log, but not at the ends of a row, beside signs or before brackets."""
    for child in list(row):
        name = child if len(child) == 0 else child[0]
        if name.text not in (*WITH_LIMITS, "log"):
            continue
        place = list(row).index(child)
        before, after = row[:place][-1:], row[place + 1 :][:1]
        is_loose = bool(before) and not before[0].tag.endswith(("mo", "mspace"))
        is_bare = bool(after) and not after[0].tag.endswith("mspace")
        opens = bool(after) and next(after[0].itertext(), "") == "("
        name.tag = f"{{{MATHML}}}mo"
        name.attrib |= {
            "lspace": THIN if is_loose else "0",
            "rspace": THIN if is_bare and not opens else "0",
        }


def _element(kind: str, text: str = "", **attributes: str) -> ElementTree.Element:
    element = ElementTree.Element(f"{{{MATHML}}}{kind}", attributes)
    element.text = text
    return element


@functools.cache
def environment() -> jinja2.Environment:
    """The templates; the page escapes what it shows, so prose need not."""
    loader = jinja2.PackageLoader("experiments.paper", "templates")
    escaped = jinja2.select_autoescape(["html"], default_for_string=False)
    found = jinja2.Environment(loader=loader, autoescape=escaped, undefined=jinja2.StrictUndefined)
    numbers = (duration, count, factor, power, takes, span, of_samples, ending)
    texts = (plain, mathml, parts_of, formula)
    found.filters |= {function.__name__: function for function in (*numbers, *texts)}
    return found


def paragraphs(file: str, block: str, /, **values: Any) -> list[str]:
    """The paragraphs of one block of a file of prose, filled in, each as one line."""
    template = environment().get_template(file)
    filled = "".join(template.blocks[block](template.new_context(values)))
    return [" ".join(lines.split()) for lines in re.split(r"\n\s*\n", filled) if lines.strip()]


def prose(file: str, block: str, /, **values: Any) -> str:
    """One block of a file of prose, filled in, as one line."""
    return " ".join(paragraphs(file, block, **values))
