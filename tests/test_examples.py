"""Each example runs from its command line and saves a picture; each program on extending the library runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.conftest import optional

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EXTENDING = sorted((ROOT / "docs" / "extending").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_saves_its_picture(example: Path, tmp_path: Path) -> None:
    if "\nimport torch\n" in example.read_text():
        optional("torch")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    picture = imread(tmp_path / f"{example.stem}.png")
    assert picture[..., :3].std() > 0.05  # not blank


@pytest.mark.parametrize("program", EXTENDING, ids=lambda path: path.stem)
def test_extending_runs(program: Path) -> None:
    """What the program asserts holds, and the guide for contributors names it."""
    done = subprocess.run([sys.executable, "-W", "error", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"docs/extending/{program.name}" in (ROOT / "CONTRIBUTING.md").read_text()
