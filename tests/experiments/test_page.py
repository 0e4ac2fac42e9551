"""The page in a real browser: drawn, quiet, operable, legible in both themes and on a phone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from experiments.paper.figures import NOT_MEASURED, SOLVERS
from experiments.paper.page import render
from tests.experiments import HOSTILE, sample_chapters

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

FIGURES = [figure for chapter in sample_chapters() for figure in chapter.figures]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
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
  return [...document.querySelectorAll("body *:not(script, style, noscript, .sample)")]
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
        for kind in ("png", "pdf"):
            Image.new("RGB", (8, 4), "white").save(folder / f"{figure.name}.{kind}")
    file = folder / "report.html"
    facts = {"command": "python -m experiments paper --quick", "seeds": "0, 1"}
    page = render(sample_chapters(), facts=facts, machine={"cpu": "made up <x>"})
    file.write_text(page, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


def opened(page: Page, file: Path) -> tuple[list[str], list[str]]:
    """Opens a report from disk; what it complains of and asks for goes into the lists from now on."""
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]")
    return complaints, requests


@pytest.fixture(scope="module")
def watched(browser: Browser, report: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    complaints, requests = opened(page, report)
    unfold(page)
    yield page, complaints, requests
    page.close()


def unfold(page: Page) -> None:
    """Opens all that is folded, and waits for the charts in it."""
    page.evaluate(
        "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
    )
    page.wait_for_function(f"{PLOTS}.every((plot) => plot.data !== undefined)")


@pytest.fixture
def page(watched: tuple[Page, list[str], list[str]]) -> Iterator[Page]:
    """The page as a reader finds it, and silent to the end of the test."""
    page, complaints, _ = watched
    yield page
    assert complaints == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.evaluate(
        "document.querySelectorAll('[data-theme-choice=auto], [data-reset]').forEach((one) => one.click())"
    )


def inked(page: Page, color: str, figure: str = "") -> int:
    """How many visible paths have the colour as their stroke or fill."""
    rgb = f"rgb({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))})"
    inside = f'[data-figure="{figure}"] ' if figure else ""
    script = """([selector, rgb]) => [...document.querySelectorAll(selector)].filter((path) =>
        [getComputedStyle(path).stroke, getComputedStyle(path).fill].includes(rgb)).length"""
    return int(page.evaluate(script, [f"{inside}.plot .scatterlayer path", rgb]))


def axis_types(page: Page, figure: str, axis: str) -> list[str]:
    plots = f"[...document.querySelectorAll('[data-figure=\"{figure}\"] .plot:not(.empty)')]"
    return list(page.evaluate(f"{plots}.map((plot) => plot._fullLayout.{axis}axis.type)"))


def test_is_quiet_and_alone(watched: tuple[Page, list[str], list[str]], report: Path) -> None:
    page, complaints, requests = watched
    assert complaints == []
    assert {url for url in requests if not url.startswith("data:")} == {report.as_uri()}
    assert report.stat().st_size < 7e6
    assert "does the paper hold?" in page.title()
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.locator(".notes").first.inner_text()


def test_every_panel_is_drawn_from_its_lines(page: Page) -> None:
    for figure in FIGURES:
        plots = page.locator(f'[data-figure="{figure.name}"] .plot')
        assert plots.count() == len(figure.panels)
        for place, panel in enumerate(figure.panels):
            plot = plots.nth(place)
            assert plot.locator(".scatterlayer path.js-line").count() >= len(panel.drawn)
            assert plot.locator(".js-fill").count() == sum(
                line.band is not None for line in panel.drawn
            )
            assert bool(panel.drawn) != (plot.inner_text() == NOT_MEASURED)
    values = page.evaluate(
        f"{PLOTS}[0].data.filter((trace) => !trace.fill).map((trace) => [trace.meta, ...trace.y.slice(0, 2)])"
    )
    assert ["newton|Newton", 1, 1e-6] in values


def test_a_check_box_hides_a_solver_everywhere_and_a_chip_in_its_figure(page: Page) -> None:
    color = SOLVERS["newton"].color
    names = ("figure-1", "figure-3")
    before = {name: inked(page, color, name) for name in names}
    assert all(before.values())
    box = page.locator('input[data-solver="newton"]')
    box.uncheck()
    assert inked(page, color) == 0
    assert inked(page, SOLVERS["cgs-exact"].color) > 0
    box.check()
    assert {name: inked(page, color, name) for name in names} == before
    chip = page.locator('[data-figure="figure-1"] button[data-solver="newton"]')
    chip.focus()
    page.keyboard.press("Space")
    assert chip.get_attribute("aria-pressed") == "false"
    assert (inked(page, color, "figure-1"), inked(page, color, "figure-3") > 0) == (0, True)
    assert box.evaluate("box => box.indeterminate") is True
    page.get_by_role("button", name="Show all").click()
    assert {name: inked(page, color, name) for name in names} == before
    assert box.evaluate("box => box.checked && !box.indeterminate") is True


def test_axes_switch_between_log_and_linear(page: Page) -> None:
    figure = page.locator('[data-figure="figure-1"]')
    at_first = [axis_types(page, "figure-1", axis) for axis in "xy"]
    assert at_first == [["log", "linear"], ["log", "linear"]]
    for axis in ("x", "y"):
        for kind in ("linear", "log"):
            button = figure.locator(f'[data-axis="{axis}"][data-type="{kind}"]')
            button.click()
            assert set(axis_types(page, "figure-1", axis)) == {kind}
            assert button.get_attribute("aria-pressed") == "true"
    figure.locator("[data-reset]").click()
    assert [axis_types(page, "figure-1", axis) for axis in "xy"] == at_first


def test_charts_follow_the_theme(page: Page) -> None:
    newton = SOLVERS["newton"]
    colors = """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('.plot .xtick text')).fill]"""
    light = page.evaluate(colors)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colors)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert (inked(page, newton.dark) > 0, inked(page, newton.color)) == (True, 0)
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(colors) == light
    page.get_by_role("button", name="Dark").click()
    page.emulate_media(color_scheme="light")
    assert page.evaluate(colors) == dark


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_all_text_has_contrast(page: Page, theme: str) -> None:
    page.get_by_role("button", name=theme).click()
    contrasts: list[list[Any]] = page.evaluate(CONTRASTS)
    assert {"badge holds", "badge in-part", "badge fails", "badge untested"} <= {
        str(entry[2]) for entry in contrasts
    }
    assert {"A", "P", "TD", "TH", "text", "BUTTON"} <= {entry[1] for entry in contrasts}
    assert [entry for entry in contrasts if entry[0] < 4.5] == []


def test_fits_a_phone_and_any_window(browser: Browser, report: Path) -> None:
    phone = browser.new_page(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    complaints, _ = opened(phone, report)
    unfold(phone)
    assert phone.evaluate(
        "document.scrollingElement.scrollWidth <= innerWidth && innerWidth === 390"
    )
    lefts = "[...document.querySelectorAll('.panel')].map((panel) => panel.getBoundingClientRect().left)"
    assert len(set(phone.evaluate(lefts))) == 1
    widths = phone.evaluate(
        f"{PLOTS}.map((plot) => plot.querySelector('.main-svg').getBoundingClientRect().width)"
    )
    assert all(280 <= width <= 390 for width in widths)
    assert complaints == []
    phone.close()
    for width in (320, 1000, 1920):
        window = browser.new_page(viewport={"width": width, "height": 900})
        opened(window, report)
        assert window.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), width
        window.close()


def test_figures_have_words_and_files(page: Page, report: Path) -> None:
    labels = page.locator("figure [role=img]").evaluate_all(
        "all => all.map((one) => one.ariaLabel)"
    )
    assert labels == [figure.alt for figure in FIGURES]
    links = page.locator("a[href]").evaluate_all(
        "all => all.map((one) => one.getAttribute('href'))"
    )
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    files = {unquote(link) for link in links if not link.startswith("#")}
    assert files == {f"{figure.name}.{kind}" for figure in FIGURES for kind in ("png", "pdf")}
    assert all((report.parent / file).is_file() for file in files)


def test_printing_is_white_and_narrow(page: Page) -> None:
    page.get_by_role("button", name="Dark").click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert inked(page, SOLVERS["newton"].color) > 0
    assert max(page.evaluate(f"{PLOTS}.map((plot) => plot._fullLayout.width)")) < 690
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert inked(page, SOLVERS["newton"].dark) > 0


def test_without_scripts_the_pictures_stand_in(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(report.as_uri(), wait_until="load")
    images = plain.locator("figure img")
    assert [images.nth(place).get_attribute("alt") for place in range(images.count())] == [
        f.alt for f in FIGURES
    ]
    for folded in plain.locator(".more > .folded > summary").all():
        folded.click()
    assert all(images.nth(place).is_visible() for place in range(images.count()))
    assert plain.locator("button:visible").count() == 0
    context.close()


def test_claims_come_with_a_sign_and_a_word(page: Page) -> None:
    badges = [
        re.sub(r"\s+", " ", badge).strip()
        for badge in page.locator(".claims .badge").all_inner_texts()
    ]
    assert badges[:5] == [
        "✓ holds",
        "◐ holds in part",
        "✕ fails",
        "… too short to judge",
        "? not tested",
    ]
    assert page.locator(".claims em").all_inner_texts() == [
        "(said above, on other runs; not counted)",
        "(beyond the paper; not counted)",
    ]


def test_the_answer_comes_first_and_leads_to_the_evidence(browser: Browser, report: Path) -> None:
    """Repeated claims and ours are not counted; a link unfolds the claim, and that leads to its figure."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    opened(page, report)
    answer = page.locator(".answer")
    assert answer.bounding_box()["y"] < 450
    words = re.sub(r"\s+", " ", answer.inner_text())
    assert words == "1 of 5 claims hold on this machine, 1 in part, 1 fail, 2 not judged."
    evidence = page.locator("#claim-figure-1-2")
    assert not evidence.is_visible()
    answer.locator("a", has_text="1 fail").click()
    assert evidence.is_visible()
    assert evidence.locator("a").get_attribute("href") == "#picture-figure-1"
    page.close()


def test_what_is_folded_is_drawn_when_it_is_opened(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    opened(page, report)
    plot = page.locator('[data-figure="figure-3"] .plot')
    assert plot.locator("svg").count() == 0
    page.locator('input[data-solver="newton"]').uncheck()
    page.get_by_text("Figure: Again").click()
    plot.locator(".scatterlayer path.js-line").first.wait_for()
    assert inked(page, SOLVERS["newton"].color, "figure-3") == 0
    assert inked(page, SOLVERS["cgs-exact"].color, "figure-3") > 0
    page.close()
