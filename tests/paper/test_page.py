"""The page in a real browser: drawn, quiet, operable, legible in both themes and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from condgrad.paper.page import render
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.strokes import NOT_MEASURED, strokes
from tests.paper import FACTS, HOSTILE, MACHINE, sample_chapters
from tests.paper.browser import Watch, chromium, open_report, wait_until, watched

FIGURES = [figure for chapter in sample_chapters() for figure in chapter.figures]
DRAWN = [figure.name for figure in FIGURES if any(strokes(panel) for row in figure.rows for panel in row)]
PLOTS = "[...document.querySelectorAll('.plot:not(.empty)')]"
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parts = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => parts(color).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] === 255) return color;
    }
    return "white";
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  return [...document.querySelectorAll("body *:not(script, style, noscript)")]
    .filter((element) => own(element) && element.checkVisibility())
    .map((element) => {
      const style = getComputedStyle(element);
      const ink = element instanceof SVGElement ? style.fill : style.color;
      const [one, two] = [light(ink), light(ground(element))].sort((a, b) => b - a);
      return [(one + 0.05) / (two + 0.05), element.tagName, element.getAttribute("class"), element.textContent];
    });
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for figure in FIGURES:
        Image.new("RGB", (8, 4), "white").save(folder / f"{figure.name}.png")
        Image.new("RGB", (8, 4), "white").save(folder / f"{figure.name}.pdf")
    file = folder / "report.html"
    file.write_text(render(sample_chapters(), title="A <title> & more", facts=FACTS, machine=MACHINE), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Iterator[tuple[Page, Watch]]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watch = watched(page)
    open_report(page, report)
    yield page, watch
    page.close()


@pytest.fixture
def page(opened: tuple[Page, Watch]) -> Iterator[Page]:
    """The page as a reader finds it, and silent to the end of the test."""
    page, watch = opened
    yield page
    assert watch.complaints == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.evaluate("document.querySelectorAll('[data-theme-choice=auto], [data-reset]').forEach((one) => one.click())")


def _inked(page: Page, color: str, figure: str = "") -> int:
    """How many drawn paths have the colour as their stroke or fill."""
    rgb = f"rgb({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))})"
    inside = f'[data-figure="{figure}"] ' if figure else ""
    script = """([selector, rgb]) => [...document.querySelectorAll(selector)].filter((path) =>
        [getComputedStyle(path).stroke, getComputedStyle(path).fill].includes(rgb)).length"""
    return int(page.evaluate(script, [f"{inside}.plot .scatterlayer path", rgb]))


def _axis_types(page: Page, figure: str, axis: str) -> set[str]:
    plots = f"[...document.querySelectorAll('[data-figure=\"{figure}\"] .plot:not(.empty)')]"
    return set(page.evaluate(f"{plots}.map((plot) => plot._fullLayout.{axis}axis.type)"))


def test_is_quiet_and_alone(opened: tuple[Page, Watch], report: Path) -> None:
    page, watch = opened
    assert watch.complaints == []
    assert {url for url in watch.requests if not url.startswith("data:")} == {report.as_uri()}
    assert report.stat().st_size < 7e6
    assert page.title() == "A <title> & more"
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.locator(".notes").first.inner_text()


def test_every_panel_is_drawn(page: Page) -> None:
    for figure in FIGURES:
        plots = page.locator(f'[data-figure="{figure.name}"] .plot')
        panels = [panel for row in figure.rows for panel in row]
        assert plots.count() == len(panels)
        for place, panel in enumerate(panels):
            plot, lines = plots.nth(place), strokes(panel)
            assert plot.locator("svg .scatterlayer path.js-line").count() >= len(lines)
            assert plot.locator("svg .scatterlayer path.point").count() >= sum(bool(s.style.marker) for s in lines)
            if not lines:
                assert plot.inner_text() == NOT_MEASURED
            assert plot.locator(".js-fill").count() == sum(bool(stroke.low.size) for stroke in lines)


def test_a_check_box_hides_a_solver_everywhere(page: Page) -> None:
    color = SOLVERS["newton"].color
    box = page.locator('input[data-solver="newton"]')
    before = {name: _inked(page, color, name) for name in ("figure-1", "figure-2")}
    assert all(count >= 4 for count in before.values())
    box.uncheck()
    assert _inked(page, color) == 0
    assert _inked(page, SOLVERS["cgs-armijo"].color) > 0
    pressed = page.locator('button[data-solver="newton"]').evaluate_all("all => all.map(b => b.ariaPressed)")
    assert pressed == ["false", "false"]
    box.check()
    assert {name: _inked(page, color, name) for name in before} == before


def test_a_chip_hides_a_line_in_all_panels_of_its_figure(page: Page) -> None:
    color = SOLVERS["newton"].color
    chip = page.locator('[data-figure="figure-1"] button[data-solver="newton"]')
    chip.focus()
    page.keyboard.press("Space")
    assert chip.get_attribute("aria-pressed") == "false"
    assert chip.evaluate("chip => getComputedStyle(chip).outlineStyle") == "solid"
    assert _inked(page, color, "figure-1") == 0
    assert _inked(page, color, "figure-2") > 0
    assert page.locator('input[data-solver="newton"]').evaluate("box => box.indeterminate") is True
    page.get_by_role("button", name="Show all").click()
    assert _inked(page, color, "figure-1") > 0
    assert page.locator('input[data-solver="newton"]').evaluate("box => box.checked && !box.indeterminate") is True


def test_axes_switch_between_log_and_linear(page: Page) -> None:
    figure = page.locator('[data-figure="figure-1"]')
    assert _axis_types(page, "figure-1", "y") == {"log"}
    assert _axis_types(page, "figure-1", "x") == {"log", "linear"}
    for axis in ("x", "y"):
        for kind in ("linear", "log"):
            button = figure.locator(f'[data-axis="{axis}"][data-type="{kind}"]')
            button.click()
            assert _axis_types(page, "figure-1", axis) == {kind}
            assert button.get_attribute("aria-pressed") == "true"
    assert _axis_types(page, "figure-2", "x") == {"linear"}
    figure.locator("[data-reset]").click()
    assert _axis_types(page, "figure-1", "x") == {"log", "linear"}


def test_charts_follow_the_theme(page: Page) -> None:
    newton = SOLVERS["newton"]
    ground = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    light = page.evaluate(f"[{ground}, {text}]")
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"{text} !== '{light[1]}'")
    dark = page.evaluate(f"[{ground}, {text}]")
    assert dark[0] != light[0]
    assert _inked(page, newton.dark) > 0
    assert _inked(page, newton.color) == 0
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(f"[{ground}, {text}]") == light
    assert _inked(page, newton.color) > 0
    page.get_by_role("button", name="Dark").click()
    page.emulate_media(color_scheme="light")
    assert page.evaluate(f"[{ground}, {text}]") == dark


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_all_text_has_contrast(page: Page, theme: str) -> None:
    page.get_by_role("button", name=theme).click()
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    contrasts: list[list[Any]] = page.evaluate(CONTRASTS)
    classes = {str(name) for _, _, name, _ in contrasts}
    assert {"badge holds", "badge in-part", "badge fails", "badge untested"} <= classes
    assert {"A", "P", "TD", "TH", "text", "BUTTON"} <= {tag for _, tag, _, _ in contrasts}
    assert [entry for entry in contrasts if entry[0] < 4.5] == []


def test_fits_a_phone(browser: Browser, report: Path) -> None:
    phone = browser.new_page(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    watch = watched(phone)
    open_report(phone, report)
    phone.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert phone.evaluate("document.scrollingElement.scrollWidth <= innerWidth && innerWidth === 390")
    lefts = phone.evaluate(
        "[...document.querySelectorAll('.panel')].map((panel) => panel.getBoundingClientRect().left)"
    )
    assert len(set(lefts)) == 1
    widths = phone.evaluate(f"{PLOTS}.map((plot) => plot.querySelector('.main-svg').getBoundingClientRect().width)")
    assert all(280 <= width <= 390 for width in widths)
    scroll = phone.locator(".scroll").first
    assert scroll.evaluate("table => table.scrollWidth > table.clientWidth")
    assert watch.complaints == []
    phone.close()


def test_narrow_and_wide_windows_do_not_scroll_sideways(page: Page) -> None:
    for width in (320, 700, 1000, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(page, f"{PLOTS}.every((plot) => Math.abs(plot._fullLayout.width - plot.clientWidth) <= 1)")
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), width


def test_figures_have_words_and_files(page: Page, report: Path) -> None:
    labels = page.locator("figure [role=img]").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert labels == [figure.alt for figure in FIGURES]
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("meta[name=viewport]").count() == 1
    links = page.locator("a[href]").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    inside = {link[1:] for link in links if link.startswith("#")}
    assert inside <= set(ids)
    files = {unquote(link) for link in links if not link.startswith("#")}
    assert files == {f"{figure.name}.{kind}" for figure in FIGURES for kind in ("png", "pdf")}
    assert all((report.parent / file).is_file() for file in files)
    nameless = page.locator("button, input, [role=region], nav").evaluate_all(
        "all => all.filter((one) => !one.ariaLabel && !one.closest('label, button')?.textContent.trim()).length"
    )
    assert nameless == 0


def test_printing_is_white_and_narrow(page: Page) -> None:
    page.get_by_role("button", name="Dark").click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert _inked(page, SOLVERS["newton"].color) > 0
    assert max(page.evaluate(f"{PLOTS}.map((plot) => plot._fullLayout.width)")) < 690
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert _inked(page, SOLVERS["newton"].dark) > 0


def test_without_scripts_the_pictures_stand_in(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    watch = watched(plain)
    plain.goto(report.as_uri(), wait_until="load")
    images = plain.locator("figure img")
    assert images.count() == len(FIGURES)
    assert all(images.nth(place).is_visible() for place in range(len(FIGURES)))
    assert [images.nth(place).get_attribute("alt") for place in range(len(FIGURES))] == [f.alt for f in FIGURES]
    assert {url.rsplit("/", 1)[1] for url in watch.requests if url.endswith(".png")} == {
        f"{f.name}.png" for f in FIGURES
    }
    assert [complaint for complaint in watch.complaints if complaint.startswith("failed")] == []
    assert plain.locator("button:visible").count() == 0
    context.close()


def test_claims_come_with_a_sign_and_a_word(page: Page) -> None:
    badges = page.locator(".claims .badge").all_inner_texts()
    assert [re.sub(r"\s+", " ", badge) for badge in badges] == ["✓ holds", "✕ fails", "◐ holds in part", "? not tested"]
    assert "Claims tested: 3 of 4" in page.locator(".tally").inner_text()
