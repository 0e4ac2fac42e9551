"""Which runs take kernels where plain code would do: it depends on the run alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numba
import pytest
from numba.core.event import Event, EventStatus

import condgrad as cg
from condgrad import kernels
from condgrad.kernels.compiling import Announcement
from condgrad.kernels.ldl import inner
from tests.methods import microarray


def trace_of(method: str) -> tuple[list[float], list[float]]:
    Z, y = microarray(5)
    f = cg.smooth.Logistic(Z, y, intercept=True)
    result = cg.minimize(f, cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0)), method=method, max_iter=20)
    return result.trace["value"].tolist(), result.trace["lower_bound"].tolist()


@pytest.mark.parametrize("method", ["cgs", "cg", "spg", "pqn"])
def test_a_run_is_the_same_to_the_last_digit_whatever_is_in_use_around_it(method: str) -> None:
    with kernels.within_run(used=False):
        plain = trace_of(method)
    with kernels.within_run(used=True):
        assert trace_of(method) == plain


def test_kernels_are_in_use_in_the_run_that_asks_for_them_and_no_longer() -> None:
    Z, y = microarray(5)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    for method, expected in (("spg", False), ("newton", True), ("spg", False)):
        seen: list[bool] = []
        cg.minimize(f, g, method=method, callback=lambda _, seen=seen: seen.append(kernels.in_use()))
        assert set(seen) == {expected}
        assert not kernels.in_use()


def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to a terminal from here on."""
    lines: list[str] = []
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True, write=lines.append))
    return lines


def compilation_of(dispatcher: Any) -> Event:
    return Event("numba:compile", EventStatus.START, {"dispatcher": dispatcher})


def test_who_waits_for_a_compilation_is_told_once_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    announcement, lines = Announcement(), terminal(monkeypatch)
    announcement.on_start(compilation_of(numba.njit(lambda x: x)))  # the user's own
    assert lines == []
    for _ in range(2):
        announcement.on_start(compilation_of(inner))
    assert len(lines) == 1
    assert inner.stats.cache_path in lines[0]


def test_who_cannot_keep_kernels_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = terminal(monkeypatch)
    Announcement().on_start(compilation_of(numba.njit(inner.py_func)))
    assert "in each process" in lines[0]


def test_nothing_is_announced_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    Announcement().on_start(compilation_of(inner))
    assert capsys.readouterr().err == ""


def test_compilations_are_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(Announcement, "on_start", lambda _, event: heard.append(event.data["dispatcher"].py_func))

    def kernel(x: float) -> float:
        return x + 1.0

    assert numba.njit(kernel)(1.0) == 2.0
    assert heard == [kernel]
