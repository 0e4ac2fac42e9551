"""Walk through the built site in a real browser: `python docs/walk.py` after `make docs`.

Every page is opened at the width of a phone. It must have no error in its console, no link to a page or place of the
site that is not there, no picture that does not load, and nothing wider than the screen. Then the search must find
something.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

SITE = Path(__file__).parent / "_build" / "html"
PHONE = {"width": 390, "height": 844}
WIDER = 2
"""Pixels beyond the screen that rounding explains."""


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None: ...


def _is_fault(message: Any) -> bool:
    """Whether a message of the console is an error; a first visit, which has no theme yet, is told so as one."""
    return message.type == "error" and "theme mode" not in message.text


def main() -> int:
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    faults: list[str] = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
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
            page.goto(home + name)
            places[name] = set(page.eval_on_selector_all("[id]", "found => found.map(e => e.id)"))
            links += [
                (name, href)
                for href in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
            ]
            broken = page.eval_on_selector_all(
                "img", "all => all.filter(i => i.complete && i.naturalWidth === 0).map(i => i.src)"
            )
            faults += [f"{name}: picture {source} does not load" for source in broken]
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > PHONE["width"] + WIDER:
                faults.append(f"{name}: {width} pixels wide on a phone of {PHONE['width']}")
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
        browser.close()
    server.shutdown()
    sys.stderr.write("".join(f"{fault}\n" for fault in sorted(set(faults))))
    sys.stdout.write(f"{len(names)} pages, {len(links)} links, {len(set(faults))} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
