"""Laws of the page's text and numbers, without a browser: whatever is written or measured, it arrives as it was."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condgrad.paper import blocks
from condgrad.paper.chapters import Chapter, Claim, Figure, Line, Panel, Table, Verdict
from condgrad.paper.interactive import colors, drawing, sample, styles
from condgrad.paper.page import render
from condgrad.paper.solvers import STYLES
from tests.paper import FACTS, MACHINE, sample_chapters

WORDS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1, max_size=20),
    st.sampled_from(["<script>alert(1)</script>", '" onload="x', "&amp;", "</td>", "$title", "'>"]),
)


class Reader(HTMLParser):
    """Collects the text, the tags and the attributes of a document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.unbalanced: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@given(WORDS, st.sampled_from(Verdict))
def test_text_arrives_as_text(word: str, verdict: Verdict) -> None:
    line = Line("cg", [1.0, 2.0], [1.0, 2.0], label=word)
    figure = Figure(word, word, word, word, [[Panel(word, word, word, [line])]])
    chapter = Chapter(
        word,
        word,
        word,
        figures=[figure],
        tables=[Table(word, [word], [[word]], note=word)],
        claims=[Claim(word, word, verdict, word)],
        notes=[word],
        settings={word: word},
    )
    document = "".join(
        [
            blocks.contents([chapter]),
            blocks.summary([chapter]),
            blocks.claims([chapter]),
            blocks.chapter(chapter),
            blocks.colophon(facts={word: word}, machine={"command": word}),
        ]
    )
    read = Reader(document)
    assert read.unbalanced == []
    assert read.open == []
    assert "script" not in read.tags
    assert not any(name.startswith("on") for name in read.attributes)
    assert read.words.count(word) >= 15
    assert read.words.count(verdict.value) + sum(text.strip() == verdict.value for text in read.words) >= 2


@given(st.integers(0, 60), st.integers(1, 60))
def test_a_verdict_is_a_share(borne_out: int, cases: int) -> None:
    borne_out = min(borne_out, cases)
    verdict = Verdict.of(borne_out, cases)
    expected = (
        Verdict.HOLDS
        if borne_out == cases
        else Verdict.FAILS
        if Fraction(borne_out, cases) <= Fraction(1, 4)
        else Verdict.IN_PART
    )
    assert verdict is expected
    assert Verdict.of(borne_out, cases, in_part=cases) in (Verdict.HOLDS, Verdict.IN_PART)


def test_counts_of_verdicts_are_english() -> None:
    said = {
        Verdict.HOLDS: ("1 holds", "2 hold"),
        Verdict.IN_PART: ("1 holds in part", "2 hold in part"),
        Verdict.FAILS: ("1 fails", "2 fail"),
        Verdict.UNTESTED: ("1 not tested", "2 not tested"),
    }
    for verdict, expected in said.items():
        assert tuple(f"{count} {verdict.said_of(count)}" for count in (1, 2)) == expected
    chapter = Chapter("c", "c", "", claims=[Claim("c", "m", Verdict.HOLDS, "w")] * 3)
    assert "<b>3</b> hold<" in blocks.summary([chapter])
    assert "fails where at most a quarter" in blocks.claims([chapter])


def test_what_to_install_brings_the_peers() -> None:
    assert 'pip install "condgrad[cli,bench]"' in blocks.colophon(facts={}, machine={})


@given(st.lists(st.one_of(st.none(), st.floats(width=64)), max_size=8))
def test_numbers_arrive_and_the_rest_are_gaps(values: list[float | None]) -> None:
    steps = [float(step) for step in range(len(values))]
    figure = Figure("f", "f", "", "", [[Panel("p", "x", "y", [Line("cg", steps, values)])]])  # type: ignore[arg-type]
    (panel,) = json.loads(json.dumps(drawing(figure), allow_nan=False))
    finite = [value is not None and math.isfinite(value) for value in values]
    assert bool(panel["lines"]) == any(finite)
    assert bool(panel["empty"]) != any(finite)
    for line in panel["lines"]:
        for was, kept, shown in zip(values, finite, line["y"], strict=True):
            assert (shown is not None) == kept
            assert not kept or shown == pytest.approx(was, rel=1e-5, abs=5e-324)


@pytest.mark.parametrize("solver", STYLES)
def test_every_solver_has_a_sample_and_a_colour_for_both_themes(solver: str) -> None:
    read = Reader(sample(solver))
    assert read.unbalanced == []
    assert f"var(--line-{solver})" in sample(solver)
    assert f"--line-{solver}:light-dark({STYLES[solver].color},{STYLES[solver].dark});" in colors()
    assert ("<polygon" in sample(solver)) == bool(STYLES[solver].marker)
    assert styles()[solver]["dash"] == "solid" or styles()[solver]["dash"].endswith("px")


def test_the_page_is_the_same_each_time_and_asks_for_nothing() -> None:
    once, again = (render(sample_chapters(), title="$title", facts=FACTS, machine=MACHINE) for _ in range(2))
    assert once == again
    assert "<h1>$title</h1>" in once
    own = "".join(
        files("condgrad.paper").joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")
    )
    assert "http://" not in own
    assert "https://" not in own
    assert "url(" not in own
    assert "@import" not in own


def test_an_empty_report_is_a_page() -> None:
    page = render([], title="Nothing yet", facts={}, machine={})
    assert "Nothing yet" in page
    assert "condgrad paper" in page


def test_a_figure_without_panels_says_so() -> None:
    read = Reader(blocks.chapter(Chapter("c", "c", "", figures=[Figure("f", "f", "", "", [])])))
    assert "not measured" in read.words
