"""What the README and the site say in numbers is what was measured: pages, pictures and numbers agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import site
from experiments.__main__ import benchmarks
from experiments.paper.chapter import Source

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

NUMBERS = site.kept()
MOST_BYTES = 1_500_000


@pytest.mark.parametrize("page", site.PAGES)
def test_page_says_what_was_measured(page: str) -> None:
    assert (site.ROOT / page).read_text() == site.written(page, NUMBERS), (
        "run `python -m experiments site --draw`"
    )


def test_every_number_has_a_place() -> None:
    """All measurements are kept, and every part that the command writes is on some page."""
    assert set(site.MEASURED) - set(site.ONLY_NAMED) <= set(NUMBERS)
    texts = "".join((site.ROOT / page).read_text() for page in site.PAGES)
    assert set(re.findall(r"<!-- measured: ([\w-]+) -->", texts)) == set(site.parts(NUMBERS))


def test_a_changed_number_changes_the_page() -> None:
    changed = {**NUMBERS, "first": {"rows": [{"text": "another answer\n"}]}}
    assert "another answer" in site.written("README.md", changed)


def test_pictures_are_drawn_from_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "PICTURES", tmp_path)
    made = {path.name for path in site.draw(NUMBERS)}
    folder = site.ROOT / "docs" / "measured"
    kept = {path.name for path in folder.iterdir()}
    assert kept == made
    pages = [(site.ROOT / "docs" / page).read_text() for page in ("index.md", "benchmarks.md")]
    assert all(f"measured/{name}" in "".join(pages) for name in kept)
    assert all((tmp_path / name).stat().st_size > 5000 for name in made)


def test_pictures_of_the_repository_are_light() -> None:
    pictures = [p for kind in ("png", "svg", "jpg") for p in (site.ROOT / "docs").glob(f"*.{kind}")]
    pictures += [
        *(site.ROOT / "docs" / "measured").iterdir(),
        *(site.ROOT / "docs" / "_static").iterdir(),
    ]
    assert sum(picture.stat().st_size for picture in pictures) < MOST_BYTES


def test_claims_are_counted_once_and_without_ours() -> None:
    claims = [
        {"source": source.value, "verdict": "holds", "claim": "a", "measured": "b"}
        for source in Source
    ]
    assert len(site.claims_of({"experiments": [{"claims": claims}]})) == 1


def test_commands_of_the_page_are_there() -> None:
    """Every benchmark is on the page, and every command of the page runs one that exists."""
    page = (site.ROOT / "docs" / "benchmarks.md").read_text()
    assert set(re.findall(r"python -m experiments bench (\w+)", page)) == set(benchmarks())
    named = set(re.findall(r"python -m experiments site --only (\w+)", page))
    assert set(site.DRAWN) <= named <= set(site.MEASURED)
