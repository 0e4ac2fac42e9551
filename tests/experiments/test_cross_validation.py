"""The benchmark of cross-validations: its points are solutions of both forms, and every package has a row."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from experiments.benchmarks import cross_validation
from experiments.benchmarks.cross_validation import CONTESTANTS, Ours, Sklearn, Study, rows_of
from experiments.clock import quiet

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes


@functools.cache
def study_of(loss: str) -> Study:
    return Study.of("breast_cancer", loss, points=6, folds=3)


@pytest.fixture(params=["logistic", "least-squares"])
def study(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(cross_validation, "FINE", 60)
    monkeypatch.setattr(cross_validation, "TALL_RATIO", 0.1)
    return study_of(request.param)


def test_the_points_are_those_of_the_penalties(study: Study) -> None:
    """The penalised solutions of scikit-learn are no better than the minima, and near them."""
    ratios = study.multipliers[1:] / study.multipliers[:-1]
    np.testing.assert_allclose(ratios, 0.1**0.2, rtol=0.1)
    with quiet():
        error = Sklearn(study).error()
        ours = Ours(study)
    assert -1e-6 < error < 1e-2
    proved = ours.proved()
    assert proved is not None
    assert -1e-9 < ours.error() <= proved + 1e-9


def test_a_table(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cross_validation, "find_spec", lambda package: package in ("condgrad", "sklearn")
    )
    rows = list(rows_of(study, cap=60.0))
    assert [row["package"] for row in rows] == [Ours.name, Sklearn.name]
    assert rows[0]["ratio"] == 1.0
    assert all(row["ms"] > 0.0 for row in rows)
    assert len(CONTESTANTS) == 4


@pytest.mark.parametrize("study", ["least-squares"], indirect=True)
def test_what_takes_too_long_has_no_time(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing has a ratio without ours."""
    monkeypatch.setattr(cross_validation, "find_spec", lambda package: package == "sklearn")
    (row,) = rows_of(study, cap=1e-3)
    assert row["ms"] is None
    (row,) = rows_of(study, cap=60.0)
    assert row["ms"] > 0.0
    assert row["ratio"] is None


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that are not there are left out by name."""
    monkeypatch.setattr(cross_validation, "CONTESTANTS", (Ours,))
    monkeypatch.setattr(cross_validation, "FINE", 60)
    monkeypatch.setenv("CONDGRAD_DATA", "nowhere")
    cross_validation.main(
        data=("prostate", "breast_cancer"), losses=("least-squares",), points=4, folds=2
    )
    printed = capsys.readouterr().out
    assert "prostate is left out" in printed
    assert "breast_cancer, least-squares: 569 samples, 30 features" in printed
    assert "condgrad" in printed
