"""Examples run from their command line and save a picture; each program on extending the library runs.

Examples that take long run when the site is built (`make docs`, which `.ci/run` does): an error there ends the build.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

ROOT = Path(__file__).parents[1]
LONG = {"adaptation_network", "many_points", "palette_barycenters", "particle_flow", "resume_after_kill"}
LONG |= {"frank_wolfe_family", "shape_barycenters", "stability_selection"}
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in LONG)
EXTENDING = sorted((ROOT / "docs" / "extending").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_saves_its_picture(example: Path, tmp_path: Path) -> None:
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
