"""`condgrad doctor` through its entry point: whole, bare and broken installations."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import condgrad as cg
from condgrad.cli.doctor import EXTRAS, extra
from condgrad.errors import install_command
from tests.cli.conftest import Command

BROKEN = {
    "torch": "print('noise')\nraise OSError('libcudart.so.12: cannot open shared object file')",
    "ot": "raise SystemExit('bye')",
    "cvxopt": "import not_there_at_all",
    "matplotlib": "raise RuntimeError",
    "plotly": "x = 1 / 0",
}


@pytest.fixture(autouse=True)
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDGRAD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_report_fits_a_terminal_and_the_small_problems_are_certified(
    condgrad_here: Command,
) -> None:
    ended = condgrad_here("doctor")
    assert ended.code == 0
    assert max(map(len, ended.stdout.splitlines())) <= 80
    words = " ".join(ended.stdout.split())
    for name in (*EXTRAS, "processor", "threads", "memory", "kernels", "GPU", "colon", "lymphoma"):
        assert name in words
    assert cg.__version__ in words
    assert words.count("certified: value") == 2
    assert "set CONDGRAD_DATA to its folder" in words


@pytest.mark.slow  # processes of their own
def test_broken_packages_are_told_and_nothing_else_breaks(
    condgrad: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    ended = condgrad("doctor", "--json")
    assert ended.code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["certified"] is True
    extras = {finding["name"]: finding for finding in report["extras"]}
    assert extras["torch"]["text"].startswith(
        "torch is broken (OSError: libcudart.so.12: cannot open"
    )
    assert extras["pot"]["text"].startswith(
        f"POT is broken (SystemExit: bye): {install_command('pot')}"
    )
    assert extras["cvxopt"]["text"].startswith(
        "cvxopt (it misses not_there_at_all) is not installed"
    )
    assert extras["plot"]["text"].startswith("matplotlib is broken (RuntimeError)")
    assert extras["cli"]["text"].startswith("plotly is broken (ZeroDivisionError")
    assert extras["mosek"]["good"] is not False
    [gpu] = [finding for finding in report["machine"] if finding["name"] == "GPU"]
    assert (gpu["good"], gpu["text"]) == (
        None,
        "torch is not installed or broken; it is needed to use a GPU",
    )


def test_a_missing_extra_comes_with_the_command_that_gets_it() -> None:
    found = extra("pot", ("no_such_module",))
    assert (found.good, found.text) == (
        None,
        f"no_such_module is not installed: {install_command('pot')}",
    )


def test_mosek_is_no_use_without_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MOSEKLM_LICENSE_FILE", raising=False)
    without = extra("mosek", ("rich",))
    assert without.good is None
    assert "no licence: put it at" in without.text
    monkeypatch.setenv("MOSEKLM_LICENSE_FILE", "27007@server")
    assert extra("mosek", ("rich",)).text.endswith("licence found")
    monkeypatch.setenv("MOSEKLM_LICENSE_FILE", str(tmp_path / "gone.lic"))
    assert extra("mosek", ("rich",)).good is None
    (tmp_path / "mosek").mkdir()
    (tmp_path / "mosek" / "mosek.lic").touch()
    assert extra("mosek", ("rich",)).good is True


@pytest.mark.parametrize("raises", [True, False])
def test_what_is_not_certified_ends_with_3(
    raises: bool, condgrad_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short() -> cg.Result:
        if raises:
            raise FloatingPointError("NaN in BLAS")
        f, g = (
            cg.smooth.LeastSquares([[1.0, 2.0], [2.0, 1.0]], [3.0, 1.0]),
            cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)),
        )
        return cg.minimize(f, g, max_iter=1)

    monkeypatch.setattr("condgrad.cli.doctor.EXTRAS", {})
    monkeypatch.setattr("condgrad.cli.doctor._elastic_net", short)
    ended = condgrad_here("doctor", "--json")
    assert ended.code == 3
    report = json.loads(ended.stdout)
    assert report["certified"] is False
    elastic_net, transport = report["self-test"]
    assert elastic_net["text"].startswith(
        "failed: FloatingPointError: NaN in BLAS" if raises else "not certified ("
    )
    assert transport["good"] is True


def test_data_are_verified(
    condgrad_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colon.npz").write_bytes(b"not an archive")
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path))
    monkeypatch.setattr("condgrad.cli.doctor.EXTRAS", {})
    ended = condgrad_here("doctor", "--json")
    assert ended.code == 0
    colon, lymphoma = json.loads(ended.stdout)["data"]
    assert colon["good"] is False
    assert "DataMismatch" in colon["text"]
    assert lymphoma["good"] is None
    assert "condgrad.datasets.load_lymphoma()" in lymphoma["text"]


def test_kernels_are_compiled_ahead_of_time(
    condgrad_here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[bool] = []
    monkeypatch.setattr("condgrad.kernels.readiness.is_compiled", lambda: bool(compiled))
    before = json.loads(condgrad_here("doctor", "--json").stdout)
    monkeypatch.setattr("condgrad.compile_kernels.compile_all", lambda: compiled.append(True))
    after = json.loads(condgrad_here("doctor", "--compile", "--json").stdout)
    for report, good, words in (
        (before, None, "condgrad doctor --compile"),
        (after, True, "compiled, in "),
    ):
        [kernels] = [finding for finding in report["machine"] if finding["name"] == "kernels"]
        assert kernels["good"] is good
        assert words in kernels["text"]
