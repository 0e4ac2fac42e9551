"""Walk through the built site in a real browser: `python docs/walk.py` after `make docs`.

Every page is opened at the width of a phone. It must have no message in its console, no link to a page or place of the
site that is not there, no picture that does not load or has no words for it, no hidden caption, no formula as it is
typed in a terminal, no number that goes on in the next line, and nothing wider than the screen or than the box that it
is in, unless a shadow says that it scrolls. Then the search must find something.

The pages that readers see first are looked at again, wide and narrow, light and dark: text must stand out from what is
behind it, what is to be touched must be large enough for a thumb, no picture may be larger than it was drawn, and on a
wide screen no table and no program may go on beyond the page. `--shots FOLDER` keeps pictures of them, for eyes. The
report of `make run` is looked at too, where it is there.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

SITE = Path(__file__).parent / "_build" / "html"
REPORT = Path(__file__).parents[1] / "out" / "report.html"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
WIDER = 2
"""Pixels beyond the screen that rounding explains."""
LOOKED_AT = (
    "index.html",
    "start.html",
    "guides/index.html",
    "guides/transport.html",
    "guides/sparse.html",
    "guides/own.html",
    "guides/gromov.html",
    "gallery/index.html",
    "gallery/own_problem.html",
    "gallery/elastic_net.html",
    "how/certificate.html",
    "how/cgs.html",
    "how/l1_ball.html",
    "api.html",
    "api/condgrad.minimize.html",
    "api/condgrad.linear_model.ConstrainedLogisticRegression.html",
    "benchmarks.html",
    "choosing.html",
    "cli.html",
    "coming_from.html",
    "scale.html",
    "extending.html",
    "paper.html",
    "changes.html",
)
TALLEST = 6000
"""Pixels of a page that a picture of it shows."""

FAINT_TEXTS = """() => {
  // WCAG 2.2: a ratio of 4.5, and 3 for large letters
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (a, b) => [0, 1, 2].map((k) => a[k] * a[3] / 255 + b[k] * (1 - a[3] / 255));
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color[3]) layers.push(color);
      if (color[3] === 255) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = new Set();
  const judge = (element, words, style) => {
    if (element.closest("script, style, noscript, svg, math, [aria-hidden=true]")) return;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return;
    const back = behind(element), ink = over(rgba(style.color), back), size = parseFloat(style.fontSize);
    const [dim, bright] = [light(back), light(ink)].sort((a, b) => a - b);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const ratio = (bright + 0.05) / (dim + 0.05);
    if (ratio < needed - 0.05) found.add(`contrast ${ratio.toFixed(2)} of "${words.slice(0, 30)}"`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const words = node.textContent.trim();
    if (words) judge(node.parentElement, words, getComputedStyle(node.parentElement));
  }
  // words that the style sheet adds
  for (const element of document.querySelectorAll("body *")) {
    for (const side of ["::before", "::after"]) {
      const style = getComputedStyle(element, side);
      if (/^"[a-z]/i.test(style.content) && style.display !== "none") judge(element, style.content, style);
    }
  }
  return [...found];
}"""
SMALL_TARGETS = """() => {
  // WCAG 2.2: 24 pixels each way, except for links in sentences and those with room around them
  const all = [...document.querySelectorAll("a[href], button, input, summary, select")];
  const shown = all.filter((e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }));
  const boxes = shown.map((e) => e.getBoundingClientRect());
  const inSentence = (e) => e.tagName === "A" && getComputedStyle(e).display === "inline"
    && !!e.closest("p, li, dd, dt, td, th, figcaption, h1, h2, h3, h4, span.pre, .highlight");
  return shown.flatMap((e, place) => {
    const box = boxes[place];
    if (box.width < 2 || (box.width >= 24 && box.height >= 24) || inSentence(e)) return [];
    if (e.tagName === "INPUT" && e.closest("label")) return [];
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const crowded = boxes.some((other, k) => k !== place && !shown[k].contains(e) && !e.contains(shown[k])
      && Math.abs(other.x + other.width / 2 - x) < (24 + Math.min(other.width, 24)) / 2
      && Math.abs(other.y + other.height / 2 - y) < (24 + Math.min(other.height, 24)) / 2);
    const name = (e.innerText || e.ariaLabel || e.className).trim().slice(0, 30);
    return crowded ? [`${box.width.toFixed(0)} x ${box.height.toFixed(0)} pixels to touch "${name}"`] : [];
  });
}"""
AS_TYPED = """() => {
  // F*, x_k and 10^-6 belong into code; elsewhere a page has stars, indices and powers, and its numbers in one piece
  const faults = [];
  const pieces = (node, form, what) => {
    for (const piece of node.textContent.matchAll(form)) {
      const range = document.createRange();
      range.setStart(node, piece.index);
      range.setEnd(node, piece.index + piece[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.bottom)));
      if (lines.size > 1) faults.push(`the ${what} ${piece[0]} goes on in the next line`);
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest("td code")) pieces(node, /\\w+/g, "name");
    if (node.parentElement.closest(":is(p, li, dd) > code > .whole")) pieces(node, /\\S+/g, "code");
    if (node.parentElement.closest("script, style, code, pre, math, svg, .sig, header, nav")) continue;
    if (!node.parentElement.checkVisibility({ visibilityProperty: true })) continue;
    const raw = node.textContent.match(/\\bF\\*|\\b[A-Za-z]_(?:[a-z0-9K]\\b|\\()|\\w\\^[\\w{]|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/);
    if (raw) faults.push(`"${raw[0]}" as it is typed`);
    pieces(node, /\\d[\\d.]*e[-+]?\\d+/g, "number");
  }
  return [...new Set(faults)];
}"""
DRAWN_SMALLER = """all => all.filter((i) => i.checkVisibility() && /_images.*[.]png$/.test(i.src) && !/_thumb/.test(i.src))
  .filter((i) => i.clientWidth > i.naturalWidth / 2 + 2)
  .map((i) => `${i.src} is ${i.clientWidth} pixels wide, drawn for ${i.naturalWidth / 2}`)"""
BEYOND_THE_PAGE = """wider => [...document.querySelectorAll(".pst-scrollable-table-container, div.highlight pre")]
  .filter((e) => !e.closest(".sphx-glr-script-out") && e.scrollWidth > e.clientWidth + wider)
  .map((e) => `"${e.innerText.trim().slice(0, 30)}" goes on beyond the page, by ${e.scrollWidth - e.clientWidth} pixels`)"""
HIDDEN_CAPTIONS = """all => all.filter((e) => !e.checkVisibility() && e.parentElement.checkVisibility())
  .map((e) => e.textContent.trim().slice(0, 40))"""
CUT_OFF = """wider => [...document.querySelectorAll("body *")].flatMap((e) => {
  // what is wider than the box that cuts it off; a box that scrolls may do so where a shadow at its edge says it
  const style = getComputedStyle(e), over = e.scrollWidth - e.clientWidth;
  if (over <= wider || e.clientWidth < 2 || style.overflowX === "visible" || style.display === "inline") return [];
  if (!e.checkVisibility({ visibilityProperty: true })) return [];
  if (style.textOverflow === "ellipsis" || style.clipPath !== "none") return [];
  if (["auto", "scroll"].includes(style.overflowX) && style.backgroundImage !== "none") return [];
  const name = `${e.tagName.toLowerCase()} ${e.className.baseVal ?? e.className}`.trim();
  return [`${name} cuts off ${over} pixels of "${(e.innerText ?? "").replace(/\\s+/g, " ").trim().slice(0, 30)}"`];
})"""
WITHOUT_WORDS = """all => all.filter((i) => {
  // WCAG 2.2: alt="" says that the words beside a picture, or of its first panel, say it all; there must be some
  const isBesideWords = i.hasAttribute("alt") && (i.parentElement.closest(":not(span)").textContent.trim()
    || i.parentElement.querySelector("img[alt]:not([alt=''])"));
  return !i.alt.trim() && i.ariaHidden !== "true" && !isBesideWords;
}).map((i) => i.src)"""


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None: ...


def _is_fault(message: Any) -> bool:
    """Whether a message of the console is one; a first visit, which has no theme yet, is told so as an error."""
    return message.type in ("error", "warning") and "theme mode" not in message.text


def _too_wide(page: Any, width: int) -> list[str]:
    found = page.evaluate("document.documentElement.scrollWidth")
    faults = [f"{found} pixels wide on a screen of {width}"] if found > width + WIDER else []
    return faults + page.evaluate(CUT_OFF, WIDER)


def look(browser: Any, home: str, shots: Path | None) -> Iterator[str]:
    """The faults of the pages that readers see first, wide and narrow, light and dark."""
    addresses = {name: home + name for name in LOOKED_AT}
    if REPORT.exists():
        addresses["report.html"] = REPORT.as_uri()
    for screen in (DESK, PHONE):
        for theme in ("light", "dark"):
            context = browser.new_context(viewport=screen, color_scheme=theme)
            page = context.new_page()
            told: list[str] = []
            page.on("console", lambda m, told=told: _is_fault(m) and told.append(m.text))
            page.on("pageerror", lambda error, told=told: told.append(str(error)))
            for name, address in addresses.items():
                _open(page, address)
                faults = [*told, *page.evaluate(FAINT_TEXTS), *_too_wide(page, screen["width"])]
                faults += page.eval_on_selector_all("img", DRAWN_SMALLER)
                if screen is PHONE:
                    faults += page.evaluate(SMALL_TARGETS)
                else:
                    faults += page.evaluate(BEYOND_THE_PAGE, WIDER) + page.evaluate(AS_TYPED)
                told.clear()
                yield from (f"{name}, {screen['width']}, {theme}: {fault}" for fault in faults)
                if shots is not None:
                    _keep(
                        page,
                        screen,
                        shots / f"{name.replace('/', '-')[:-5]}-{screen['width']}-{theme}.png",
                    )
            context.close()


def _open(page: Any, address: str) -> None:
    """Opens a page and loads its pictures, also those that a browser loads when they are scrolled to."""
    page.goto(address)
    page.eval_on_selector_all("img", "all => all.forEach((i) => { i.loading = 'eager'; })")
    page.wait_for_load_state("networkidle")


def _keep(page: Any, screen: dict[str, int], file: Path) -> None:
    """A picture of the page from its top."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    page.set_viewport_size({"width": screen["width"], "height": height})
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(200)
    page.screenshot(path=file)
    page.set_viewport_size(screen)


def walk(browser: Any, home: str) -> tuple[list[str], int, int]:
    """The faults of all pages, and how many pages and links there are."""
    faults: list[str] = []
    page = browser.new_page(viewport=PHONE)
    page.on(
        "console",
        lambda message: _is_fault(message) and faults.append(f"{page.url}: {message.text}"),
    )
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    places: dict[str, set[str]] = {}
    links: list[tuple[str, str]] = []
    names = sorted(
        path.relative_to(SITE).as_posix()
        for path in SITE.rglob("*.html")
        if "_static" not in path.parts
    )
    for name in names:
        _open(page, home + name)
        places[name] = set(page.eval_on_selector_all("[id]", "found => found.map(e => e.id)"))
        links += [
            (name, href)
            for href in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
        ]
        broken = page.eval_on_selector_all(
            "img", "all => all.filter(i => i.complete && i.naturalWidth === 0).map(i => i.src)"
        )
        faults += [f"{name}: picture {source} does not load" for source in broken]
        silent = page.eval_on_selector_all("img", WITHOUT_WORDS)
        faults += [f"{name}: picture {source} has no words for it" for source in silent]
        hidden = page.eval_on_selector_all("figcaption", HIDDEN_CAPTIONS)
        faults += [f"{name}: the caption {words!r} is hidden" for words in hidden]
        faults += [f"{name}: {fault}" for fault in page.evaluate(AS_TYPED)]
        faults += [f"{name}: {fault}" for fault in _too_wide(page, PHONE["width"])]
    for name, href in links:
        address, place = urldefrag(urljoin(home + name, href))
        if not address.startswith(home):
            continue
        target = unquote(address.removeprefix(home).partition("?")[0]) or "index.html"
        if not (SITE / target).exists():
            faults.append(f"{name}: no page {target}")
        elif place and target in places and unquote(place) not in places[target]:
            faults.append(f"{name}: no place #{place} in {target}")
    page.goto(home + "search.html?q=certificate")
    page.wait_for_selector("#search-results li", timeout=20_000)
    page.close()
    return faults, len(names), len(links)


def main() -> int:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--shots", type=Path, help="keep pictures of the looked-at pages here")
    parser.add_argument("--look", action="store_true", help="look at the first pages alone")
    options = parser.parse_args()
    if options.shots is not None:
        options.shots.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    pages, links = len(LOOKED_AT), 0
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        faults = list(look(browser, home, options.shots))
        if not options.look:
            found, pages, links = walk(browser, home)
            faults += found
        browser.close()
    server.shutdown()
    sys.stderr.write("".join(f"{fault}\n" for fault in sorted(set(faults))))
    sys.stdout.write(f"{pages} pages, {links} links, {len(set(faults))} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
