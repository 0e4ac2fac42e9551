"""The figures for print: legible, the same bytes each time, and no trace left in matplotlib."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text
from PIL import Image

from condgrad.paper.chapters import Figure, Line, Panel
from condgrad.paper.solvers import BOUNDS, SOLVERS, STYLES
from condgrad.paper.static import DASHES, MARKERS, SETTINGS, draw, sketch
from condgrad.paper.strokes import NOT_MEASURED, legend, power_of_ten, strokes
from tests.paper import sample_chapters

FIGURES = [figure for chapter in sample_chapters() for figure in chapter.figures]
VALUES = st.one_of(st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0]), st.floats(1e-30, 1e30))


def _laid_out(figure: Figure) -> Canvas:
    with matplotlib.rc_context(dict(SETTINGS)):
        canvas = sketch(figure)
        FigureCanvasAgg(canvas).draw()
    return canvas


@cache
def _sample(place: int) -> Canvas:
    return _laid_out(FIGURES[place])


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_nothing_overlaps_and_letters_are_large(figure: Figure) -> None:
    canvas = _sample(FIGURES.index(figure))
    shown = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text()]
    assert min(text.get_fontsize() for text in shown) >= 8.0
    boxes = [axes.get_tightbbox() for axes in canvas.axes] + [entry.get_window_extent() for entry in canvas.legends]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert box.x0 >= 0.0
        assert box.y0 >= 0.0
        assert box.x1 <= canvas.bbox.x1
        assert box.y1 <= canvas.bbox.y1


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_one_legend_names_each_line_once(figure: Figure) -> None:
    canvas = _sample(FIGURES.index(figure))
    named = [text.get_text().replace("\n", " ") for entry in canvas.legends for text in entry.get_texts()]
    drawn = {stroke.label for row in figure.rows for panel in row for stroke in strokes(panel)}
    assert sorted(named) == sorted(drawn)
    assert all(axes.get_legend() is None for axes in canvas.axes)


def test_a_solver_looks_the_same_in_all_panels() -> None:
    looks: dict[str, set[tuple[str, str]]] = {}
    for place, figure in enumerate(FIGURES):
        panels = [panel for row in figure.rows for panel in row]
        for axes, panel in zip(_sample(place).axes, panels, strict=True):
            for stroke, line in zip(strokes(panel), axes.get_lines(), strict=False):
                looks.setdefault(stroke.solver, set()).add((to_hex(line.get_color()), str(line.get_marker())))
    for solver, seen in looks.items():
        assert seen == {(STYLES[solver].color.lower(), MARKERS[STYLES[solver].marker])}


@pytest.mark.parametrize("styles", [SOLVERS, BOUNDS], ids=["solvers", "bounds"])
def test_no_two_look_alike_without_colour(styles: dict[str, object]) -> None:
    """Plain CG is what CG with the network simplex is where there is no transport: they never meet in a figure."""
    looks = {key: (STYLES[key].color, STYLES[key].dash, STYLES[key].marker) for key in styles if key != "cg"}
    assert len(set(looks.values())) == len(looks)
    marked = [STYLES[key].marker for key in looks if STYLES[key].marker]
    assert len(set(marked)) == len(marked)
    assert {STYLES[key].dash for key in styles} <= set(DASHES)


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    settings_before, windows_before = matplotlib.rcParams.copy(), list(Gcf.figs)
    for folder in (once, again):
        folder.mkdir()
        made = draw(FIGURES[-1], folder)
        assert made == [folder / "theory.png", folder / "theory.pdf"]
    for kind in ("png", "pdf"):
        assert (once / f"theory.{kind}").read_bytes() == (again / f"theory.{kind}").read_bytes()
    assert b"CreationDate" not in (once / "theory.pdf").read_bytes()
    assert matplotlib.rcParams == settings_before
    assert list(Gcf.figs) == windows_before


def test_the_picture_is_white_and_fine(tmp_path: Path) -> None:
    with matplotlib.rc_context({"savefig.facecolor": "black", "axes.facecolor": "black", "savefig.bbox": "tight"}):
        png, pdf = draw(FIGURES[1], tmp_path)
    with Image.open(png) as picture:
        assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert 1400 <= picture.width <= 2000
        pixels = np.asarray(picture.convert("L"))
    assert pixels[0].min() == 255
    assert np.mean(pixels == 255) > 0.5
    assert pdf.read_bytes().startswith(b"%PDF")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    nothing = Figure("empty", "Nothing", "", "", [])
    hopeless = Figure("minus", "Below zero", "", "", [[Panel("log", "x", "y", [Line("cg", [1, 2], [-1, 0])])]])
    for figure in (nothing, hopeless):
        assert len(draw(figure, tmp_path)) == 2
        assert NOT_MEASURED in [text.get_text() for text in _laid_out(figure).findobj(Text)]


@settings(max_examples=25)
@given(st.data(), st.booleans(), st.booleans())
def test_any_numbers_can_be_drawn(data: st.DataObject, log_x: bool, log_y: bool) -> None:
    size = data.draw(st.integers(0, 6))
    columns = [data.draw(st.lists(VALUES, min_size=size, max_size=size)) for _ in range(4)]
    line = Line("spg", columns[0], columns[1], low=columns[2], high=columns[3], label="a $ sign, 100 % & _ ^ {")
    level = data.draw(st.sampled_from([None, 0.0, -1.0, 1e-5]))
    panel = Panel("$", "x_$", "y^", [line, Line("pqn", [], [])], log_x=log_x, log_y=log_y, level=level)
    figure = Figure("any", "any", "", "", [[panel]])
    canvas = _laid_out(figure)
    assert len(canvas.axes) == 1
    assert len(legend(figure)) <= 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (Line("gurobi", [1], [1]), "Line.solver is 'gurobi', which has no style: use one of cgs-exact"),
        (Line("cg", [1, 2], [1]), "the line of 'cg' has 2 x, 1 y, 0 low and 0 high values"),
        (Line("cg", [1, 2], [1, 2], low=[1], high=[1]), "2 x, 2 y, 1 low and 1 high"),
        (Line("cg", [1, 2], [1, 2], low=[1, 2]), "2 x, 2 y, 2 low and 0 high"),
    ],
)
def test_a_line_that_cannot_be_drawn_is_refused(line: Line, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        strokes(Panel("", "", "", [line]))
    assert sentence in str(refusal.value)


@given(st.floats(1e-300, 1e300))
def test_labels_of_levels_can_be_read_back(value: float) -> None:
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    digits, _, power = power_of_ten(value).rpartition("10") if "10" in power_of_ten(value) else ("", "", "")
    plain = power_of_ten(value)
    if any(sign in plain for sign in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"):
        read = float(f"{digits.rstrip('·') or '1'}e{power.translate(raised)}")
    else:
        read = float(plain)
    assert read == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("ratio", [1.5, 3.0, 5.3, 8.0, 12.0, 31.0, 58.0, 700.0, 1e5])
@pytest.mark.parametrize("least", [1.1, 12.0, 3e-7])
def test_every_logarithmic_axis_has_ticks_to_read(least: float, ratio: float) -> None:
    """However few powers of ten there are on it."""
    line = Line("cg", [1.0, 2.0, 3.0], [least, least * ratio**0.5, least * ratio])
    canvas = sketch(Figure("f", "f", "", "", [[Panel("p", "x", "y", [line])]]))
    FigureCanvasAgg(canvas).draw()
    (axes,) = canvas.axes
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high and tick.label1.get_text()]
    assert 3 <= len(shown) <= 10
