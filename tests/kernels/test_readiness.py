"""Who compiles the kernels, what runs meanwhile, and when compiled code is out of date."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import condgrad as cg
from condgrad import MissingAbility, compile_kernels
from condgrad.kernels import readiness
from condgrad.kernels.compiling import KernelCache
from condgrad.kernels.readiness import Background
from tests.kernels.test_use import kernels_that_python_calls

FOLDER = Path(readiness.__file__).parent


def problem(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 60))
    y = np.where(X[:, 0] + rng.standard_normal(30) > 0.0, 1.0, -1.0)
    return cg.smooth.Logistic(X, y, intercept=True), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(2.0))


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Background:
    """A machine without compiled code, on which nobody compiles."""
    monkeypatch.setenv(readiness.VARIABLE, "background")
    monkeypatch.setattr(readiness, "is_compiled", lambda: False)
    background = Background()
    background.is_tried = True
    for name in ("available", "wait"):
        monkeypatch.setattr(readiness, name, getattr(background, name))
    return background


def test_a_fit_that_nobody_has_compiled_for_is_certified_by_projected_gradients(
    beside: Background,
) -> None:
    f, g = problem()
    found = cg.minimize(f, g, method="auto", tol=1e-8)
    judge = cg.minimize(f, g, method="cgs", tol=1e-9)
    assert found.success
    assert found.method == "spg"
    assert judge.lower_bound <= found.value <= judge.value + found.gap
    assert not beside.is_done


@pytest.mark.parametrize("seen", [1, 3, 6])
def test_it_moves_over_at_its_next_iterate(beside: Background, seen: int) -> None:
    """The kernels are there after so many iterates; the bound so far is kept."""
    f, g = problem()
    values: list[float] = []

    def callback(now: Any) -> None:
        values.append(now.value)
        beside.is_done = len(values) >= seen

    found = cg.minimize(f, g, method="auto", tol=1e-10, callback=callback)
    judge = cg.minimize(f, g, method="spg", tol=1e-10)
    assert found.success
    assert found.method == "spg, then newton"
    assert found.value == pytest.approx(judge.value, rel=2e-10)
    assert np.all(np.diff(found.trace["lower_bound"]) >= 0.0)


def test_it_leaves_iterations_for_the_method_that_waits(
    beside: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condgrad.methods.in_turn.MOST_BEFORE_COMPILED", 3)
    found = cg.minimize(*problem(), method="auto", tol=1e-10)
    assert found.success
    assert found.method == "spg, then newton"
    assert not beside.is_done


@pytest.mark.slow  # processes of their own
def test_plans_and_fits_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what another process cannot compile is compiled in this one."""
    done: list[str] = []
    for name in ("fits", "transport"):
        monkeypatch.setattr(compile_kernels, f"compile_{name}", lambda name=name: done.append(name))
    monkeypatch.setattr(readiness, "is_compiled", lambda: False)
    compile_kernels.compile_all()
    assert done == ["fits"]
    monkeypatch.setattr(compile_kernels, "BESIDE", "raise SystemExit(1)")
    compile_kernels.compile_all()
    assert done == ["fits", "fits", "transport"]


def test_a_path_goes_by_warm_starts_and_then_by_its_follower(beside: Background) -> None:
    f, _ = problem()
    options: dict[str, Any] = {
        "loss": "logistic",
        "ridge": 0.5,
        "radii": [0.1, 0.3, 1.0, 2.0],
        "tol": 1e-8,
    }
    by_gradients = cg.linear_model.path(f.K, f.h.y, **options)
    beside.is_done = True
    by_models = cg.linear_model.path(f.K, f.h.y, **options)
    np.testing.assert_allclose(by_gradients.coefs, by_models.coefs, atol=1e-3)
    assert not np.array_equal(by_gradients.coefs, by_models.coefs)


def test_newton_waits_for_who_compiles_and_no_longer_than_its_time(
    beside: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, g = problem()
    monkeypatch.setattr(beside, "_is_at_work", lambda: True)
    found = cg.minimize(f, g, method="newton", time_limit=0.2)
    assert found.status is cg.Status.TIME_LIMIT
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        beside.is_done = len(looks) == 3

    monkeypatch.setattr(time, "sleep", sleep)
    assert cg.minimize(f, g, method="newton").success
    assert looks == [readiness.POLL] * 3


def test_off_takes_no_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(readiness.VARIABLE, "off")
    f, g = problem()
    assert cg.minimize(f, g, method="auto").method == "spg"
    with pytest.raises(MissingAbility, match="CONDGRAD_KERNELS=off switches off the compiled code"):
        cg.minimize(f, g, method="newton")
    cg.linear_model.ConstrainedLogisticRegressionCV(cv=2, n_radii=3).fit(f.K, f.h.y)


def test_other_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(readiness.VARIABLE, "never")
    with pytest.raises(
        ValueError, match="CONDGRAD_KERNELS must be one of background, wait, off, got 'never'"
    ):
        cg.minimize(*problem(), method="auto")


def started(monkeypatch: pytest.MonkeyPatch, place: Path | None) -> list[dict[str, Any]]:
    """What is asked of the system where compiled code is looked for in vain, twice."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setenv(readiness.VARIABLE, "background")
    monkeypatch.setattr(readiness, "mark", lambda: place)
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda command, **options: asked.append({"command": command, **options}),
    )
    background = Background()
    assert not background.available()
    assert not background.available()
    return asked


def test_a_process_is_started_once_in_a_group_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (asked,) = started(monkeypatch, tmp_path / "mark.compiled")
    assert asked["command"][0] == sys.executable
    assert asked["env"][readiness.VARIABLE] == "wait"
    assert asked["start_new_session"]
    assert {asked[stream] for stream in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}


def test_none_is_started_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert started(monkeypatch, None) == []


@pytest.mark.parametrize("executable", [None, ""])
def test_none_is_started_without_a_python(
    executable: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert started(monkeypatch, tmp_path / "mark.compiled") == []


def test_a_lock_ends_with_its_holder_and_others_do_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "mark.compiled"
    monkeypatch.setattr(readiness, "mark", lambda: place)
    monkeypatch.setattr(readiness, "POLL", 0.0)
    monkeypatch.setattr(
        compile_kernels, "compile_fits", lambda: pytest.fail("somebody else compiles")
    )
    monkeypatch.setattr(os, "nice", lambda _: None)
    holder = (
        "import sys, time; from pathlib import Path; from condgrad.kernels import readiness\n"
        f"readiness.mark = lambda: Path({str(place)!r})\n"
        "with readiness.lock() as mine: print(mine, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        with readiness.lock() as is_ours:
            assert not is_ours
        assert Background()._is_at_work()
        compile_kernels.main()
        process.kill()
    with readiness.lock() as is_ours:
        assert is_ours


def test_who_compiles_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is held meanwhile: a fit that waited for its holder would wait for itself."""
    seen: list[str] = []
    monkeypatch.setenv(readiness.VARIABLE, "background")
    monkeypatch.setattr(
        compile_kernels, "fits", lambda: iter([lambda: seen.append(readiness.mode())])
    )
    monkeypatch.setattr(readiness, "set_mark", lambda: None)
    compile_kernels.compile_fits()
    assert seen == ["wait"]
    assert readiness.mode() == "background"


def test_what_is_compiled_of_older_sources_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside the sources; in a folder that versions share each keeps its own."""
    place = tmp_path / f"kernels-{readiness.sources()}" / "here.compiled"
    of_another_machine = place.with_name("there.compiled")
    older = tmp_path / "kernels-0123456789abcdef" / "here.compiled"
    for each in (of_another_machine, older):
        each.parent.mkdir(exist_ok=True)
        each.touch()
    monkeypatch.setattr(readiness, "mark", lambda: place)
    readiness.set_mark()
    assert readiness.is_compiled()
    assert older.exists()
    monkeypatch.setattr(readiness, "BESIDE_SOURCES", tmp_path)
    readiness.set_mark()
    assert of_another_machine.exists()
    assert not older.exists()


def test_the_digest_sees_all_that_kernels_are_made_of() -> None:
    """Kernels take numbers from the modules that are named; arrays give them a type alone."""
    package = readiness.PACKAGE
    files = [file for pattern in readiness.SOURCES for file in package.glob(pattern)]
    named = {
        ".".join(("condgrad", *file.relative_to(package).with_suffix("").parts)) for file in files
    }
    allowed = {"condgrad.arrays", *(name.removesuffix(".__init__") for name in named)}
    for file in files:
        if "from condgrad.kernels.compiling import" not in file.read_text():
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("condgrad"):
                assert node.module in allowed, file


@pytest.mark.slow  # processes of their own
def test_entry_points_alone_are_kept() -> None:
    entry_points = {each for each in kernels_that_python_calls() if isinstance(each, Dispatcher)}
    assert len(entry_points) >= 4
    assert [each for each in entry_points if not isinstance(each._cache, KernelCache)] == []
    assert {each._cache._cache_file._source_stamp for each in entry_points} == {readiness.sources()}


FIRST_FIT = """
import numpy as np
from condgrad.linear_model import ConstrainedLogisticRegression
import condgrad as cg
rng = np.random.default_rng(0)
X = rng.standard_normal((100, 2000))
y = np.where(X[:, 0] + rng.standard_normal(100) > 0.0, 1.0, -1.0)
print(cg.minimize(cg.smooth.Logistic(X, y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(3.0)), method="auto").method)
"""

LATER_FITS = """
import itertools, warnings
import numpy as np, scipy.sparse as sp
from numba.core import event
import condgrad as cg

class Refuser(event.Listener):
    def on_start(self, event):
        name = event.data["dispatcher"].py_func.__module__
        assert not name.startswith("condgrad."), event.data
    def on_end(self, event):
        pass

event.register("numba:compile", Refuser())
warnings.simplefilter("ignore")
rng = np.random.default_rng(1)

def long_indices(form):
    def converted(X):
        A = form(X)
        return form((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)
    return converted

forms = [
    np.asarray, np.asfortranarray, lambda X: X[::-1, ::-1], lambda X: X.astype(np.float32),
    sp.csr_array, sp.csc_array, long_indices(sp.csr_array), long_indices(sp.csc_array),
    lambda X: sp.csr_array(X.astype(np.float32)), lambda X: sp.csc_array(X.astype(np.float32)),
]
losses = {"logistic": cg.smooth.Logistic, "least-squares": cg.smooth.LeastSquares}
losses["squared-hinge"] = cg.smooth.SquaredHinge
fits = 0
for (m, n, density), form in itertools.product(
    [(30, 60, 1.0), (60, 400, 1.0), (400, 30, 1.0), (80, 300, 0.1), (40, 3000, 1.0), (300, 3000, 0.02)], forms
):
    X = rng.standard_normal((m, n)) * (rng.random((m, n)) < density)
    y = np.where(X[:, 0] + rng.standard_normal(m) > 0.0, 1.0, -1.0)
    K = form(X)
    for (name, loss), intercept in itertools.product(losses.items(), (False, True)):
        f = loss(K, y, intercept=intercept)
        sets = [cg.sets.L1Ball(2.0), cg.sets.L1Ball(1e3), cg.sets.SolidSimplex(2.0)]
        sets += [cg.sets.Simplex(n), cg.sets.Box(-0.1, 0.1)] if n < 500 else []
        for on, ridge in itertools.product(sets, (1.0, 1e-3, 0.0)):
            g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
            fits += cg.minimize(f, g, method="auto", tol=1e-4, time_limit=0.1).method is not None
        cg.linear_model.path(K, y, loss=name, ridge=1.0, n_radii=6, time_limit=0.3)
    cg.linear_model.ConstrainedLogisticRegression(radius=2.0, tol=1e-3, time_limit=0.2).fit(K, np.arange(m) % 3)
print(fits)
"""


@pytest.mark.slow
def test_the_first_fit_waits_for_nobody_and_the_next_program_compiles_nothing(
    tmp_path: Path,
) -> None:
    """The process that compiles outlives the program that started it, and compiles all that fits call."""
    environment = {**os.environ, readiness.VARIABLE: "background", "NUMBA_CACHE_DIR": str(tmp_path)}

    def ran(program: str) -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert ran(FIRST_FIT) == "spg\n"
    for _ in range(6000):
        if list(tmp_path.rglob("*.compiled")):
            break
        time.sleep(0.1)
    assert ran(FIRST_FIT) == "newton\n"
    assert int(ran(LATER_FITS)) > 1000
