"""What who waits for a compiler is told, and what comes out of kernels when a signal comes."""

from __future__ import annotations

import ast
import importlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numba
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, EventStatus

import condgrad as cg
from condgrad import kernels
from condgrad.ball.compiled.ldl import inner
from condgrad.kernels import readiness
from condgrad.kernels.compiling import Announcement
from tests.methods import microarray


def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to a terminal from here on."""
    lines: list[str] = []
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True, write=lines.append))
    return lines


def compilation_of(dispatcher: Any) -> Event:
    return Event("numba:compile", EventStatus.START, {"dispatcher": dispatcher})


def test_who_waits_for_a_compilation_is_told_once_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    announcement, lines = Announcement(), terminal(monkeypatch)
    made, homeless = numba.njit(lambda x: x), numba.njit(eval("lambda x: x", {}))
    assert homeless.py_func.__module__ is None
    for own in (made, homeless):  # the user's, or those of other packages
        announcement.on_start(compilation_of(own))
    assert lines == []
    for _ in range(2):
        announcement.on_start(compilation_of(inner))
    assert len(lines) == 1
    assert str(readiness.folder()) in lines[0]


def test_who_cannot_keep_kernels_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = terminal(monkeypatch)
    monkeypatch.setattr(readiness, "folder", lambda: None)
    Announcement().on_start(compilation_of(inner))
    assert "in each process" in lines[0]


def test_nothing_is_announced_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    Announcement().on_start(compilation_of(inner))
    assert capsys.readouterr().err == ""


def test_compilations_are_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(
        Announcement, "on_start", lambda _, event: heard.append(event.data["dispatcher"].py_func)
    )

    def kernel(x: float) -> float:
        return x + 1.0

    assert numba.njit(kernel)(1.0) == 2.0
    assert heard == [kernel]


def kernels_that_python_calls() -> Iterator[Any]:
    """The compiled functions that are imported, or named as parts of an imported module, outside of the kernels."""
    package = Path(cg.__file__).parent
    for file in package.rglob("*.py"):
        if file.parent.name in ("kernels", "compiled"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        modules: dict[str, ModuleType] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("condgrad.kernels", "condgrad.ball.compiled")
            ):
                home = importlib.import_module(str(node.module))
                for alias in node.names:
                    found = getattr(home, alias.name, None)
                    if isinstance(found, ModuleType):
                        modules[alias.asname or alias.name] = found
                    yield found
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in modules
            ):
                yield getattr(modules[node.value.id], node.attr)


def has_names(kind: Any) -> bool:
    """Whether a type of numba is a named tuple, or a tuple that holds one."""
    if isinstance(kind, numba.types.NamedTuple | numba.types.NamedUniTuple):
        return True
    return isinstance(kind, numba.types.BaseTuple) and any(has_names(part) for part in kind)


@pytest.mark.slow
def test_no_kernel_returns_named_tuples_to_python() -> None:
    Z, y = microarray(5)
    for loss in ("least-squares", "logistic", "squared-hinge"):
        cg.linear_model.path(Z, y, loss=loss, ridge=0.1, n_radii=10)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    for options in ({"tol": 1e-6}, {"stop": cg.stopping.RelativeGap(1e-6)}):
        cg.minimize(f, g, method="newton", **options)
    called = {
        each.py_func.__name__: each
        for each in kernels_that_python_calls()
        if isinstance(each, Dispatcher)
    }
    seen = {
        name: [each.return_type for each in kernel.nopython_signatures]
        for name, kernel in called.items()
    }
    assert "minimise" in {name for name, kinds in seen.items() if kinds}
    assert [name for name, kinds in seen.items() if any(map(has_names, kinds))] == []


SIGNALS_ON_THE_WAY = """
import signal, sys
import numpy as np, condgrad as cg

class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 500))
y = X[:, :5].sum(axis=1) + rng.standard_normal(200)
cg.linear_model.path(X[:50, :60], y[:50], loss="least-squares", ridge=1.0)
rang = 0
for k in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003 * (1 + k))
        cg.linear_model.path(X, y, loss="least-squares", ridge=1.0, n_radii=200)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Alarm:
        rang += 1
print(rang)
"""


@pytest.mark.slow  # processes of their own
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="Windows has no alarms")
def test_what_the_handler_of_a_signal_raises_comes_out_of_kernels_as_it_is() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SIGNALS_ON_THE_WAY], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 3


def test_other_faults_inside_a_run_stay_what_they_are() -> None:
    with pytest.raises(SystemError, match="of another kind"), kernels.with_signals_as_raised():
        raise SystemError("of another kind")
    with pytest.raises(KeyError, match="of a kind"), kernels.with_signals_as_raised():
        raise KeyError("of a kind")
