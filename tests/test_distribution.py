"""Wheel and sdist: built as for a release, small, complete, and imported in an environment of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # they build, and make an environment
ROOT = Path(__file__).parents[1]
LARGEST_WHEEL = 1_000_000


def test_the_citation_has_the_version_and_the_date_of_the_release() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = dict(re.findall(r"^([a-z-]+): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    heading = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heading is not None
    assert citation["version"] == version
    assert version.partition("rc")[0] == heading[1]
    unreleased = heading[2] == "unreleased"
    assert unreleased == ("rc" in version)
    assert citation.get("date-released", "unreleased").strip("'\"") == heading[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, built by the backend that is installed: no network is needed."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_wheel_is_small_and_holds_the_library_alone(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size <= LARGEST_WHEEL
    names = zipfile.ZipFile(wheel).namelist()
    assert "condgrad/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"condgrad"}
    modules = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "condgrad").rglob("*.py")
    }
    assert modules <= set(names)


def test_the_sdist_can_be_tested_and_documented(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "docs/conf.py",
        "tests/test_distribution.py",
    } <= names


def test_the_wheel_works_in_a_new_environment(built: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment, so that nothing is downloaded."""
    (wheel,) = built.glob("*.whl")
    place = tmp_path / "new"
    venv.create(place, with_pip=False)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        site,
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    program = (
        "import condgrad as cg\n"
        "f = cg.smooth.LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 2.0])\n"
        "print(cg.__file__, cg.__version__, cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1.0))).status)\n"
    )
    # the new environment comes first: what is imported is the wheel, not the clone
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([site, sysconfig.get_path("purelib")]),
    }
    ran = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(site)
    assert ran.stdout.endswith("CONVERGED\n")
