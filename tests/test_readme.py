"""The code of the README and of the site's pages runs as it stands, and the README prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from condgrad.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    """Guides are long, and what they show is tested elsewhere too."""
    marks = [pytest.mark.torch] if "import torch" in page.read_text() else []
    return [*marks, pytest.mark.slow] if page.parent.name == "guides" else marks


PAGES = [
    pytest.param(page, marks=marks_of(page), id=page.stem)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "```python\n" in page.read_text()
]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_first_block_prints_the_certificate_shown() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(blocks("python")[0], {})
    shown = blocks("text")[0]
    # the last line has a time in it, and the last digits of a gap depend on the BLAS
    numbers = re.compile(r"value +([-\d.]{8})|lower bound +([-\d.]{8})")
    assert numbers.findall(printed.getvalue()) == numbers.findall(shown)
    assert printed.getvalue().startswith("CONVERGED")
    assert sum(bool(line) for line in blocks("python")[0].splitlines()) <= 10


def test_all_blocks_run() -> None:
    space: dict[str, object] = {}
    for block in blocks("python"):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block, space)


@pytest.mark.parametrize("page", PAGES)
def test_all_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    text = page.read_text()
    space: dict[str, object] = {}
    for block in blocks("python", text):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block, space)
    if (
        page.parent.name == "guides"
    ):  # what they do in a terminal follows on files that they have written
        for line in "".join(blocks("sh", text)).splitlines():
            monkeypatch.setattr(sys, "argv", shlex.split(line))
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code in (None, 0), line


def test_the_readme_is_a_front_door() -> None:
    """It is short, and what it links to is there."""
    assert len(README.splitlines()) <= 120
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(links) > 10
