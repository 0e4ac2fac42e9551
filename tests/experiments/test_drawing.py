"""The figures for print, and numbers in sentences."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from experiments.paper.figures import (
    NOT_MEASURED,
    SOLVERS,
    STYLE_SHEET,
    Figure,
    Line,
    Panel,
    canvas_of,
    draw,
)
from experiments.paper.wording import (
    count,
    duration,
    factor,
    formula,
    mathml,
    of_samples,
    plain,
    power,
    span,
    takes,
)
from tests.experiments import sample_chapters

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

FIGURES = [figure for chapter in sample_chapters() for figure in chapter.figures]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_nothing_overlaps_and_every_line_is_named_once(figure: Figure) -> None:
    with matplotlib.style.context(["default", STYLE_SHEET]):
        canvas = canvas_of(figure)
        FigureCanvasAgg(canvas).draw()
    shown = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text()]
    assert min(text.get_fontsize() for text in shown) >= 8.0 - 1e-9
    boxes = [axes.get_tightbbox() for axes in canvas.axes] + [
        entry.get_window_extent() for entry in canvas.legends
    ]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    named = [text.get_text() for entry in canvas.legends for text in entry.get_texts()]
    assert sorted(named) == sorted(line.label for line in figure.legend)
    assert bool(figure.legend) != (NOT_MEASURED in [text.get_text() for text in shown])


def test_files_are_white_fine_and_the_same_each_time(tmp_path: Path) -> None:
    before = matplotlib.rcParams.copy()
    made = []
    for folder in (tmp_path / "once", tmp_path / "again"):
        folder.mkdir()
        with matplotlib.rc_context({"savefig.facecolor": "black", "axes.facecolor": "black"}):
            png, pdf = draw(FIGURES[0], folder)
        made.append((png.read_bytes(), pdf.read_bytes()))
    assert made[0] == made[1]
    assert matplotlib.rcParams == before
    with Image.open(png) as picture:
        assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert np.mean(np.asarray(picture.convert("L")) == 255) > 0.5


def test_no_two_solvers_look_alike_without_colour() -> None:
    """Plain CG is what CG with the network simplex is where there is no transport: they never meet in a figure."""
    marks = [style.marker for key, style in SOLVERS.items() if key != "cg"]
    assert len(set(marks)) == len(marks)
    signs = [style.sign for key, style in SOLVERS.items() if key != "cg"]
    assert len(set(signs)) == len(signs)


def test_lines_of_unequal_length_are_refused_and_what_an_axis_cannot_show_is_a_gap() -> None:
    with pytest.raises(ValueError, match="give as many of each"):
        Line("cg", [1.0, 2.0], [1.0])
    below = Line("cg", [1.0, 2.0], [-1.0, 0.0])
    assert Panel("", "", "", [below]).drawn == []
    assert Panel("", "", "", [below], log_y=False).drawn == [below]


@given(st.floats(1e-6, 1e6))
def test_two_digits_remain(value: float) -> None:
    assert float(factor(value).replace(",", "")) == pytest.approx(value, rel=0.051)
    number, unit = duration(value).split()
    assert float(number.replace(",", "")) * {"ms": 1e-3, "s": 1.0}[unit] == pytest.approx(
        value, rel=0.051
    )


@given(st.floats(1e-300, 1e300), st.integers(0, 3))
def test_powers_of_ten_read_back(value: float, digits: int) -> None:
    mantissa, exponent = re.fullmatch(
        r"(.*?)(?:·?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", power(value, digits)
    ).groups()
    exponent = (exponent or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    assert float(f"{mantissa or 1}e{exponent}") == pytest.approx(
        value, rel=0.5 * 10.0**-digits * (1 + 1e-9)
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (power(1e-8), "10⁻⁸"),
        (power(0.3), "0.3"),
        (span([25.2, 1.34, 7.0]), "1.3 to 25"),
        (span([3.0]), "3.0"),
        (duration(0.0386), "39 ms"),
        (duration(math.inf, "-"), "-"),
        (count(1234.0), "1,234"),
        (takes(0.0), "is the only one to get there"),
        (takes(math.inf), "does not get there within its limits"),
        (takes(7.41), "takes 7.4 times as long"),
        (of_samples(0.02), "m/50"),
    ],
)
def test_as_a_person_would_write(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        (r"\(F(x_k) - F^* \le 2 C_f/(k + 2)\) holds", "F(x_k) - F* ≤ 2 C_f/(k + 2) holds"),
        (r"\(h_{k+1}/h_k\) at \(10^{-5}\)", "h_(k+1)/h_k at 10⁻⁵"),
        (r"\(\|P(x - \nabla F(x)) - x\|_\infty\)", "‖P(x - ∇F(x)) - x‖_∞"),
        ("no formula, though $5 (or $6)", "no formula, though $5 (or $6)"),
    ],
)
def test_a_formula_is_plain_text_where_it_must_be(prose: str, expected: str) -> None:
    assert plain(prose) == expected


def test_the_page_has_mathml_and_escapes_the_rest() -> None:
    shown = mathml(r"1 < 2 and \(x_k \le 1\)")
    assert shown.startswith("1 &lt; 2 and <math")
    assert "<msub><mi>x</mi><mi>k</mi></msub>" in shown
    assert "(<math" in mathml(r"it (\(x\)), too")
    assert "</math>),</span>" in mathml(r"it (\(x\)), too")
    assert mathml("2·10⁻¹³") == '<span class="unbroken">2·10<sup>\N{MINUS SIGN}13</sup></span>'


@pytest.mark.parametrize(
    ("latex", "display", "expected"),
    [
        (r"\min_{x} f", "block", "<munder><mo"),
        (r"\min_{x} f", "inline", "<msub><mo"),
        ("F^*", "inline", "<msup><mi>F</mi><mo>\N{ASTERISK OPERATOR}</mo></msup>"),
        ("h''(x)", "inline", '<mi>h</mi><mo lspace="0" rspace="0">\N{DOUBLE PRIME}</mo>'),
        ("K'_W", "inline", '<mo lspace="0" rspace="0">\N{PRIME}</mo></mrow><mi>W</mi></msub>'),
        (r"G \log G", "inline", '<mo lspace="0.167em" rspace="0.167em">log</mo>'),
        ("1/k", "inline", '<mo lspace="0" rspace="0">/</mo>'),
        (r"-\infty", "inline", "<mi>∞</mi>"),
        (
            "|x|_1",
            "inline",
            'depth="0"><mo stretchy="false" lspace="0" rspace="0">|</mo></mpadded>',
        ),
    ],
)
def test_a_formula_is_set_as_in_print(latex: str, display: str, expected: str) -> None:
    assert expected in formula(latex, display)
