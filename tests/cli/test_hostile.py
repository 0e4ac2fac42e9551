"""Names, files and numbers that nobody means to give: one sentence each, and nothing else is harmed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from condgrad.cli.report import json_text
from tests.cli.conftest import Command

rng = np.random.default_rng(5)
X = rng.normal(size=(40, 4))
Y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
GIVEN = ("--radius", 1, "--ridge", 0.1)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X[:12, :2])
    np.save(tmp_path / "b.npy", X[12:20, :2] + 1.0)
    np.save(tmp_path / "m.npy", np.c_[X, Y])


def labelled(path: Path, weight: float) -> None:
    rows = (
        f"{','.join(map(repr, row))},{weight!r},{'a' if y > 0 else 'b'}"
        for row, y in zip(X.tolist(), Y, strict=True)
    )
    path.write_text("x0,x1,x2,x3,w,y\n" + "\n".join(rows) + "\n")


# --- what is written where


def test_an_input_among_the_results_is_refused(condgrad_here: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name, ask in {
        "plan.npy": ("transport", "--cost", "out/plan.npy"),
        "mapped.csv": ("transport", "out/mapped.csv", "b.npy"),
        "coefficients.csv": ("fit", "out/coefficients.csv", "--target", "y"),
    }.items():
        if name.endswith(".npy"):
            np.save(out / name, np.ones((3, 3)))
        else:
            (out / name).write_text("x,y\n" + "".join(f"{i},{i * i % 7}.5\n" for i in range(12)))
        before = (out / name).read_bytes()
        done = condgrad_here(*ask, "--out", "out")
        assert done.code == 2
        assert "would overwrite" in done.stderr
        assert (out / name).read_bytes() == before


def test_files_of_others_stay(condgrad_here: Command, tmp_path: Path) -> None:
    """A product of this name is removed only where an earlier run has left its certificate."""
    (tmp_path / "picture.png").write_text("mine")
    assert condgrad_here("transport", "a.npy", "b.npy", "--no-picture", "--out", ".").code == 0
    assert (tmp_path / "picture.png").read_text() == "mine"
    assert condgrad_here("transport", "a.npy", "b.npy", "--no-picture", "--out", ".").code == 0
    assert not (tmp_path / "picture.png").exists()


@pytest.mark.parametrize(
    "ask", [("transport", "a.npy", "b.npy"), ("fit", "m.npy", "--target", 4, *GIVEN)]
)
def test_all_results_or_none(
    condgrad_here: Command, tmp_path: Path, ask: tuple[object, ...]
) -> None:
    """A folder stands where a file should go."""
    (tmp_path / "out" / "certificate.json").mkdir(parents=True)
    done = condgrad_here(*ask, "--out", "out")
    assert done.code == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["certificate.json"]


@pytest.mark.parametrize("name", ["x" * 300, "a.npy/below", "dangling"])
def test_impossible_folders(condgrad_here: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    done = condgrad_here("transport", "a.npy", "b.npy", "--no-picture", "--out", name)
    assert done.code == 2
    assert done.stderr.startswith("condgrad: --out ")
    assert done.stderr.count("\n") == 1


def test_pipes_are_not_replaced(condgrad_here: Command, tmp_path: Path) -> None:
    """What holds for a pipe holds for /dev/null, which root could replace by a file."""
    assert condgrad_here("fit", "m.npy", "--target", 4, *GIVEN, "--out", "fitted").code == 0
    os.mkfifo(tmp_path / "pipe.csv")
    done = condgrad_here("predict", "fitted/model.json", "m.npy", "--out", "pipe.csv")
    assert done.code == 2
    assert "a device or a pipe" in done.stderr
    assert (tmp_path / "pipe.csv").is_fifo()
    assert condgrad_here("predict", "fitted/model.json", "m.npy", "--out", "x" * 300).code == 2


# --- names


def test_names_with_formulas_and_foreign_letters(condgrad_here: Command, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("$\\frac$,漢😀\n1,2\n3,4\n", encoding="utf-8")
    done = condgrad_here("transport", "a.npy", "t.csv")
    assert (done.code, done.stderr) == (0, "")


def test_names_that_are_no_text() -> None:
    """Bytes that are no text, in the name of a file, reach JSON as an escape."""
    assert json.loads(json_text({"file": os.fsdecode(b"\xff")}).encode()) == {"file": "\udcff"}


@pytest.mark.parametrize("name", ["²", "--5", "-" + "9" * 5000, "9" * 5000])
def test_columns_that_look_like_numbers(condgrad_here: Command, name: str) -> None:
    done = condgrad_here("fit", "m.npy", f"--target={name}", *GIVEN)
    assert done.code == 2
    assert "has no column" in done.stderr


# --- contents


@pytest.mark.parametrize(
    "text", ['"' + "x" * 200_000 + '",y\n1,2\n2,3\n', "x" * 200_000 + ",y\n1,2\n2,3\n"]
)
def test_cells_beyond_all_measure(condgrad_here: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    fitted = condgrad_here("fit", "t.csv", "--target", "y", *GIVEN)
    assert fitted.code == 0, fitted.stderr
    moved = condgrad_here("transport", "t.csv", "b.npy", "--no-picture")
    assert moved.code in (0, 2)
    assert "Traceback" not in moved.stderr


def test_sparse_parts_that_do_not_fit(condgrad_here: Command, tmp_path: Path) -> None:
    parts = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4), "format": b"csr"}
    np.savez(tmp_path / "wide.npz", **parts, shape=np.array([3, 10**15]))
    assert "beyond the largest allowed" in condgrad_here("fit", "wide.npz", "--target", 0).stderr


def test_numbers_beyond_all_measure(condgrad_here: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "cost.npy", np.array([[1.7e308, -1.7e308], [0.0, 0.0]]))
    assert "holds costs beyond 1e+300" in condgrad_here("transport", "--cost", "cost.npy").stderr
    np.save(tmp_path / "far.npy", 1e307 * X[:5, :2])
    assert condgrad_here("transport", "far.npy", "b.npy", "--metric", "cityblock").code == 2
    assert condgrad_here("fit", "m.npy", "--target", 4, "--seed", 2**32).code == 2


def test_letters_that_no_file_can_hold(condgrad_here: Command, tmp_path: Path) -> None:
    labelled(tmp_path / "d.csv", 1.0)
    assert condgrad_here("fit", "d.csv", "--target", "y", *GIVEN, "--out", "fitted").code == 0
    model = json.loads((tmp_path / "fitted" / "model.json").read_text())
    (tmp_path / "t.json").write_text(json.dumps(model | {"classes": ["a", "\ud800"]}))
    done = condgrad_here("predict", "t.json", "d.csv")
    assert done.code == 2
    assert "Invalid JSON" in done.stderr


@pytest.mark.slow
def test_the_unit_of_the_weights_does_not_matter(condgrad_here: Command, tmp_path: Path) -> None:
    """Tiny weights make a tiny objective, of which no gap in absolute terms would say anything."""
    models = []
    for weight in (1.0, 1e-8):
        labelled(tmp_path / "d.csv", weight)
        assert (
            condgrad_here("fit", "d.csv", "--target", "y", "--weights", "w", "--out", "fitted").code
            == 0
        )
        models.append(json.loads((tmp_path / "fitted" / "model.json").read_text()))
        proof = json.loads((tmp_path / "fitted" / "certificate.json").read_text())["problems"][0]
        models[-1]["value"] = proof["value"]
    heavy, light = models
    np.testing.assert_allclose(light["coef"], heavy["coef"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        [light["parameters"]["ridge"], light["value"]],
        [1e-8 * heavy["parameters"]["ridge"], 1e-8 * heavy["value"]],
    )


# --- signals


@pytest.mark.slow  # processes of their own
@pytest.mark.parametrize(
    ("asked", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_ends_a_fit_without_a_trace(
    tmp_path: Path, asked: signal.Signals, code: int
) -> None:
    """A solver answers an interrupt with the best it has; a cross-validation of such answers would be worth nothing."""
    script = Path(sys.executable).with_name("condgrad")
    np.save(tmp_path / "large.npy", rng.normal(size=(20_000, 80)))
    before = {path.name for path in tmp_path.iterdir()}
    with subprocess.Popen(
        [script, "fit", "large.npy", "--target", "0", "--folds", "50"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a shell's job in the background ignores interrupts, and what it starts would too
        preexec_fn=lambda: signal.signal(asked, signal.SIG_DFL),
    ) as running:
        deadline = time.monotonic() + 60.0
        while not any(tmp_path.glob(".condgrad-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        while running.poll() is None and time.monotonic() < deadline + 60.0:
            # the first fit on a machine compiles, and the compiler forgets an interrupt that comes while it calls back
            running.send_signal(asked)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(timeout=10)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == code
    assert b"interrupted" in said
    assert {path.name for path in tmp_path.iterdir()} == before
