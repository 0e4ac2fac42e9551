"""Without an extra the library imports and solves, and what needs the extra says so; the tests are collected."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # a process for each extra
ROOT = Path(__file__).parents[1]
EXTRAS = {
    "torch": ["torch", "triton"],
    "pot": ["ot"],
    "skada": ["skada"],
    "cvxopt": ["cvxopt"],
    "mosek": ["mosek"],
    "pandas": ["pandas"],
    "plot": ["matplotlib"],
    "neighbors": ["pynndescent"],
    "workers": ["distributed"],
    "dask": ["dask"],
    "cli": [
        "typer",
        "rich",
        "plotly",
        "jinja2",
        "PIL",
        "psutil",
        "pyarrow",
        "latex2mathml",
    ],
    "data": ["pooch", "platformdirs"],
}
"""What each extra brings to import, beside what other extras do."""
GROUPS = {"bench", "docs", "test", "dev", "all"}
"""Extras that are made of others, or are for those who work on the library."""
NOTHING_WITHOUT = {
    "torch": ["condgrad.kernels.streamed_triton", "condgrad.transport.envelope"],
    "cli": ["condgrad.cli.app"],
    "pot": ["condgrad.compat.skada"],
    "skada": ["condgrad.compat.skada"],
}
"""Modules that cannot be imported without an extra; those that import them in turn are not named."""

REFUSE = """
import sys

class Refuser:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuser())
"""

IMPORT_AND_SOLVE = """
import importlib, pkgutil
import numpy as np
import condgrad as cg

for module in pkgutil.walk_packages(cg.__path__, "condgrad.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        assert error.name.partition(".")[0] in REFUSED, error
        print(module.name)

X = np.random.default_rng(0).standard_normal((12, 3))
y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
f, g = cg.smooth.Logistic(X, y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
for method in ("cgs", "cg", "spg", "newton", "auto"):
    found = cg.minimize(f, g, method=method, tol=1e-2)
    assert found.success, method
cg.linear_model.ConstrainedLogisticRegressionCV(cv=2, n_radii=3).fit(X, y)
cost = cg.transport.SquaredEuclidean(X[:5], X[5:])
laplacian = cg.transport.Laplacian(X[:5], X[5:], weight=1.0, neighbors=2)
for plan in ("dense", "streamed"):
    for regularizers in ([], [laplacian]):
        assert cg.transport.solve(cost, entropy=1.0, regularizers=regularizers, plan=plan).success
"""

COLLECT = """
import pytest
sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "-m", "not rest"]))
"""


def without(extra: str, program: str) -> subprocess.CompletedProcess[str]:
    """What a program prints in a process that cannot import what an extra brings."""
    refused = f"REFUSED = {EXTRAS[extra]!r}\n"
    command = [sys.executable, "-c", refused + REFUSE + program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_table_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == set(EXTRAS) | GROUPS

    def wanted(extra: str) -> set[str]:
        names = re.findall(r"[a-z]+", extras[extra][0].removeprefix("condgrad"))
        return (
            {extra}.union(*map(wanted, names))
            if extras[extra][0].startswith("condgrad[")
            else {extra}
        )

    assert wanted("all") == {"all", *EXTRAS}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_library_imports_and_solves_without(extra: str) -> None:
    done = without(extra, IMPORT_AND_SOLVE)
    assert done.returncode == 0, done.stderr
    unimportable = done.stdout.split()
    expected = NOTHING_WITHOUT.get(extra, [])
    assert set(expected) <= set(unimportable)
    of_the_command_line = [name for name in unimportable if name.startswith("condgrad.cli")]
    assert set(unimportable) == {*expected, *of_the_command_line}


@pytest.mark.parametrize("extra", ["torch", "neighbors"])
def test_tests_are_collected_without(extra: str) -> None:
    """The extras that `make test` does not install."""
    done = without(extra, COLLECT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
