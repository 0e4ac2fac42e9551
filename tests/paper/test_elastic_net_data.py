"""The data of figures 2 and 3: hyper-parameters, splits, and what happens where the microarrays cannot be had."""

from __future__ import annotations

import bz2
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from condgrad.datasets import public
from condgrad.paper.chapters import Verdict
from condgrad.paper.elastic_net import METHODS, Cap, Microarrays
from condgrad.paper.elastic_net_data import Samples, microarrays, stratified, toy
from condgrad.paper.hyper_parameters import Grid, choose
from condgrad.paper.pieces import Scale

SIZES = {"n_samples": 50, "n_features": 60, "n_relevant": 4}


# Hyper-parameters -----------------------------------------------------------------------------------------------------


def test_choice_is_the_best_on_the_test_set_by_another_solver() -> None:
    data, grid = toy(SIZES, 1), Grid((0.3, 3.0), (1e3,))
    right = {}
    for ridge in grid.ridges:  # so large a radius leaves a plain ridge, with C = 1/(2 ridge) in scikit-learn's terms
        model = LogisticRegression(C=0.5 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000)
        right[ridge] = model.fit(data.X_train, data.y_train).score(data.X_test, data.y_test)
    chosen = choose(data, grid)
    assert chosen.accuracy == pytest.approx(max(right.values()))
    assert chosen.ridge == max(ridge for ridge, share in right.items() if share == chosen.accuracy)
    assert chosen.equals == sum(share == chosen.accuracy for share in right.values())


def test_ties_go_to_the_largest_ridge_then_the_smallest_radius() -> None:
    data = toy(SIZES, 0)
    blind = replace(data, X_test=np.zeros_like(data.X_test))
    chosen = choose(blind, Grid((1.0, 4.0, 2.0), (3.0, 1.0)))
    assert (chosen.ridge, chosen.radius, chosen.equals) == (4.0, 1.0, 6)


def test_split_is_stratified_and_scaled_by_the_training_part() -> None:
    rng = np.random.default_rng(0)
    samples = Samples("drawn", rng.normal(5.0, 3.0, (60, 7)), np.where(np.arange(60) < 40, 1.0, -1.0), "")
    split, other = stratified(samples, 0), stratified(samples, 1)
    assert (split.y_test == 1.0).sum() == 8
    assert (split.y_test == -1.0).sum() == 4
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), 1.0)
    assert np.abs(split.X_test.mean(axis=0)).max() > 1e-3
    assert not np.array_equal(split.X_train, other.X_train)


# Data that are not there ----------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder has the data."""
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _refused(*_: object) -> Any:
    raise OSError("no network here")


@pytest.mark.usefixtures("nowhere")
def test_stand_in_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "download", _refused)
    monkeypatch.setattr(public, "openml", _refused)
    tiny = Microarrays(grid=Grid((10.0,), (2.0,)), cap=Cap(full=0.1, quick=0.05))
    pieces = tiny.pieces(Scale(quick=True, seeds=1))
    assert len(pieces) == len(METHODS)
    chapter = tiny.chapter([piece.work() for piece in pieces])
    assert chapter.summary.startswith("Not the paper's data: breast cancer (stand-in for colon and lymphoma)")
    assert all("stand-in" in panel.title for row in chapter.figures[0].rows for panel in row)
    assert "stand-in" in chapter.figures[0].caption
    assert "load_colon()" in chapter.notes[0]
    assert "lymphoma96.npz" in chapter.notes[0]
    assert {claim.verdict for claim in chapter.claims} == {Verdict.UNTESTED}


@pytest.mark.usefixtures("nowhere")
def test_a_network_that_answers_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release, ended = threading.Event(), threading.Event()

    def hang(*_: object) -> Any:
        release.wait(60.0)
        ended.set()
        raise OSError("too late")

    monkeypatch.setattr(public, "download", hang)
    monkeypatch.setattr(public, "openml", hang)
    found = microarrays(0.1)
    waited_for = ended.is_set()
    release.set()
    assert not waited_for
    assert [samples.stand_in for samples in found] == [True]


@pytest.mark.usefixtures("nowhere")
def test_what_arrives_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{1 if i < 40 else -1} {i + 1}:{i}.5 2000:1" for i in range(62)]
    monkeypatch.setattr(public, "download", lambda _: bz2.compress("\n".join(lines).encode()))
    monkeypatch.setattr(public, "openml", _refused)
    found = microarrays(30.0)
    assert [samples.name for samples in found] == ["colon", "breast cancer (stand-in for lymphoma)"]
    assert found[0].X.shape == (62, 2000)
    assert "colon data" not in found[1].note
    assert [samples.name for samples in microarrays(30.0)] == [samples.name for samples in found]


@pytest.mark.usefixtures("nowhere")
def test_a_damaged_file_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(public, "openml", _refused)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "colon.npz").write_bytes(b"garbage")
    (found,) = microarrays(5.0)
    assert "sha256" in found.note
