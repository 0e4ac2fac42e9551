"""Interrupts, time limits and progress: what many fits in a row, or an estimator, owe to the person who waits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    path,
    solver,
)
from condgrad.linear_model.progress import FitsLine
from condgrad.smooth.composite import Composite
from tests.linear_model import SINGLE, drawn

SEARCHES = [ConstrainedElasticNetCV, ConstrainedLinearSVCCV, ConstrainedLogisticRegressionCV]
X, Y = drawn(0, samples=30, features=6)
RADII = [0.1, 0.5, 2.0]


class Fits:
    """Stands before each run: keeps its options, and may do something during one of them."""

    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []
        self.during: Callable[[int], None] = lambda _: None
        self.minimize, self.minimize_next = solver.minimize, solver.minimize_next

    def by_name(self, *args: Any, **options: Any) -> Any:
        self.options.append(options)
        number = len(self.options)
        return self.minimize(*args, **options, callback=lambda _: self.during(number))

    def by_auto(self, *args: Any, **options: Any) -> Any:
        self.options.append(options)
        self.during(len(self.options))
        return self.minimize_next(*args, **options)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    counted = Fits()
    monkeypatch.setattr(solver, "minimize", counted.by_name)
    monkeypatch.setattr(solver, "minimize_next", counted.by_auto)
    return counted


# --- Ctrl-C ---


def interrupt(at: int) -> Callable[[int], None]:
    """Ctrl-C during one of the fits."""

    def during(number: int) -> None:
        if number == at:
            raise KeyboardInterrupt

    return during


CALLS: dict[str, Any] = {
    "path": lambda: path(X, Y, radii=RADII, method="newton"),
    "path and its grid": lambda: path(X, Y, n_radii=3, method="newton"),
    "grid search": lambda: GridSearchCV(ConstrainedElasticNet(), {"radius": RADII}, cv=2).fit(X, Y),
    "three classes": lambda: ConstrainedLogisticRegression().fit(X, np.arange(30) % 3),
    **{
        kind.__name__: (lambda kind=kind: kind(radii=RADII, cv=2, method="newton").fit(X, Y))
        for kind in SEARCHES
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("at", [1, 2])
def test_an_interrupt_ends_the_search(call: Callable[[], Any], at: int, fits: Fits) -> None:
    fits.during = interrupt(at)
    with pytest.raises(KeyboardInterrupt):
        call()
    assert len(fits.options) == at


@pytest.mark.parametrize("kind", SINGLE)
def test_an_interrupt_ends_a_fit(kind: type, fits: Fits) -> None:
    fits.during = interrupt(1)
    model = kind()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")


# --- time ---


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def tick(self, _: int) -> None:
        self.now += 1.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(solver, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


def limits(fits: Fits) -> list[float]:
    return [options["time_limit"] for options in fits.options]


def test_the_fits_of_a_path_share_its_limit(fits: Fits, clock: Clock) -> None:
    """Each gets what is left, at last nothing."""
    fits.during = clock.tick
    path(X, Y, radii=RADII, time_limit=1e6, method="newton")
    spent = 1e6 - np.array(limits(fits))
    assert spent[0] == 0.0
    assert (np.diff(spent) >= 1.0).all()
    fits.options.clear()
    with pytest.warns(
        ConvergenceWarning, match=r"the time limit was reached.*Raise time_limit or tol"
    ):
        path(X, Y, n_radii=4, time_limit=1.0, tol=1e-15, method="newton")
    assert limits(fits)[-1] == 0.0


def test_radii_that_there_is_no_time_for_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the last point and no proof, rather than an evaluation each of data that may be large."""
    count, at = 0, Composite.at

    def counted(self: Composite, x: Any) -> Any:
        nonlocal count
        count += 1
        return at(self, x)

    monkeypatch.setattr(Composite, "at", counted)
    with pytest.warns(ConvergenceWarning, match="nothing was proved"):
        found = path(X, Y, radii=np.linspace(0.1, 1.0, 100), time_limit=0.0)
    assert count < 20
    assert np.isinf(found.gaps).all()
    assert (np.abs(found.coefs).sum(axis=1) <= found.radii).all()


@pytest.mark.parametrize("kind", SINGLE)
def test_the_classes_of_a_fit_share_its_limit(kind: type, fits: Fits, clock: Clock) -> None:
    fits.during = clock.tick
    y = Y if kind is ConstrainedElasticNet else np.arange(30) % 3
    kind(time_limit=1e6).fit(X, y)
    spent = 1e6 - np.array(limits(fits))
    assert spent[0] == 0.0
    assert (np.diff(spent) >= 1.0).all()
    fits.options.clear()
    kind().fit(X, y)
    assert set(limits(fits)) == {None}


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_leaves_a_tenth_of_its_limit_to_the_last_fit(
    kind: type, fits: Fits, clock: Clock
) -> None:
    def spend(number: int) -> None:
        if number == 3:
            clock.now = 195.0

    fits.during = spend
    with pytest.warns(ConvergenceWarning, match="cut 3 of the 6 fits short"):
        kind(radii=RADII, ridges=[0.5], cv=2, time_limit=100.0, tol=1e-12, method="newton").fit(
            X, Y
        )
    # the fold that there is no time for has one fit, of its first radius; the last fit has its tenth all the same
    assert limits(fits) == pytest.approx([90.0, 90.0, 90.0, 0.0, 10.0])


def proof(gap: float) -> str:
    """What a warning says of a gap."""
    if gap == np.inf:
        return "nothing was proved about how far the objective is from its minimum"
    return f"the objective is within {gap:.3g} of its minimum"


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_choice_among_cut_fits_warns(kind: type) -> None:
    with pytest.warns(ConvergenceWarning) as seen:
        model = kind(radii=RADII, ridges=[0.5], cv=2, time_limit=0.0, tol=1e-12).fit(X, Y)
    first, second = (str(warning.message) for warning in seen)
    assert first.startswith(
        "the time limit of 0 s cut 6 of the 6 fits short (6 of them without any proof). "
    )
    assert proof(np.max(model.dual_gap_)) in second
    assert all(warning.filename == __file__ for warning in seen)


@pytest.mark.parametrize("kind", SINGLE)
def test_a_cut_fit_warns_with_its_gap(kind: type) -> None:
    with pytest.warns(
        ConvergenceWarning, match=r"the time limit was reached.*Raise time_limit or tol"
    ) as seen:
        model = kind(0.7, time_limit=0.0, tol=1e-12).fit(X, Y)
    assert proof(np.ravel(model.dual_gap_)[0]) in str(seen[0].message)
    assert np.all(model.objective_ - model.dual_gap_ <= kind(0.7, tol=1e-9).fit(X, Y).objective_)


@pytest.mark.parametrize("kind", [*SINGLE, *SEARCHES])
def test_a_limit_below_zero_is_refused(kind: type) -> None:
    with pytest.raises(ValueError, match="time_limit must be finite and >= 0, got -1"):
        kind(time_limit=-1.0).fit(X, Y)


@pytest.mark.parametrize("kind", [*SINGLE, *SEARCHES])
def test_parameters_survive_clone(kind: type) -> None:
    model = kind(method="cgs", time_limit=3.0, verbose=True)
    assert clone(model).get_params() == model.get_params()


# --- progress ---


@pytest.mark.parametrize("kind", SINGLE)
def test_a_fit_shows_a_line(kind: type, capsys: pytest.CaptureFixture[str]) -> None:
    kind(verbose=True).fit(X, Y)
    printed = capsys.readouterr()
    assert "iteration" in printed.err
    assert printed.out == ""
    kind().fit(X, Y)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_shows_one_line(
    kind: type, n_jobs: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    kind(n_radii=3, ridges=[0.1, 1.0], cv=2, n_jobs=n_jobs, verbose=True).fit(X, Y)
    printed = capsys.readouterr()
    assert len(printed.err.strip().splitlines()) == 1
    assert "fit 13 of 13  radius" in printed.err
    assert "iteration" not in printed.err
    assert printed.out == ""


def test_a_path_shows_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    path(X, Y, n_radii=3, progress=True)
    assert "fit 3 of 3  radius" in capsys.readouterr().err
    path(X, Y, n_radii=3)
    assert capsys.readouterr().err == ""


def test_three_classes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    ConstrainedLinearSVCCV(radii=RADII, ridges=[0.5], cv=2, verbose=True).fit(X, np.arange(30) % 3)
    assert "fit 21 of 21" in capsys.readouterr().err


def test_a_line_counts_what_it_is_told() -> None:
    with FitsLine(shown=False) as line:
        line.fitted(radius=1.0, ridge=0.5, relative_gap=0.0)
        line.reached(5)
        line.reached(3)
        assert line.done == 5


def test_other_solvers_can_be_asked_for(fits: Fits) -> None:
    for kind in [*SINGLE, *SEARCHES]:
        searched = {} if kind in SINGLE else {"n_radii": 3, "ridges": [0.5], "cv": 2}
        kind(method="cgs", tol=1e-2, **searched).fit(X, Y)
    assert {options["method"] for options in fits.options} == {"cgs"}
    assert ConstrainedLinearSVC().method == "auto"
