"""A real Chromium for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window; a skip where there is none, and a failure where CI is set."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        message = f"no browser: none of {', '.join(NAMES)} is on the PATH"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield browser
        browser.close()


@dataclass(frozen=True)
class Watch:
    """What a page asked for and complained of while it was open."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def watched(page: Page) -> Watch:
    """Listens to a page from now on."""
    watch = Watch()
    page.on("console", lambda message: watch.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: watch.complaints.append(f"error: {error}"))
    page.on("requestfailed", lambda request: watch.complaints.append(f"failed: {request.url}"))
    page.on("request", lambda request: watch.requests.append(request.url))
    return watch


def open_report(page: Page, file: Path) -> None:
    """Opens a report from disk and waits until its figures are drawn."""
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]")


def wait_until(page: Page, condition: str) -> None:
    """Waits until an expression is true in the page, asking from outside: the page itself forbids `eval`."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"never true in the page: {condition}")
