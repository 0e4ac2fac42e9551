"""Examples run from their command line and save a picture; each program on extending the library runs.

Those that take longest run when the site is built (`make docs`, which `.ci/run` does): an error there ends the build.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.image import imread

ROOT = Path(__file__).parents[1]
LONG = {
    "adaptation_network",
    "many_points",
    "palette_barycenters",
    "particle_flow",
    "resume_after_kill",
}
LONG |= {"frank_wolfe_family", "shape_barycenters", "stability_selection"}
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in LONG)
EXTENDING = sorted((ROOT / "docs" / "extending").glob("*.py"))


@pytest.mark.slow  # they draw, for a minute in all
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_saves_its_picture(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [str(example), "--out", str(tmp_path)])
    with plt.rc_context():
        runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    picture = imread(tmp_path / f"{example.stem}.png")
    assert picture[..., :3].std() > 0.05  # not blank


@pytest.mark.parametrize("program", EXTENDING, ids=lambda path: path.stem)
def test_extending_runs(program: Path) -> None:
    """What the program asserts holds, and the guide for contributors names it."""
    runpy.run_path(str(program), run_name="__main__")
    assert f"docs/extending/{program.name}" in (ROOT / "CONTRIBUTING.md").read_text()
