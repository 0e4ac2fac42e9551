"""Going on: what a resumed run keeps, what it must not keep, and files that survive a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.resuming import digest

RNG = np.random.default_rng(5)
Z, Y = RNG.standard_normal((40, 60)), np.sign(RNG.standard_normal(40))
METHODS = ["cgs", "cg", "spg", "pqn", "newton", "auto"]


def logistic(Z: Any = Z, y: Any = Y, ridge: float = 0.1, radius: float = 4.0) -> tuple[Any, Any]:
    return cg.smooth.Logistic(Z, y), cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))


def transport(shift: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((12, 2)), rng.standard_normal((15, 2)) + shift
    L = np.diag(np.ones(11), 1) + np.diag(np.ones(11), -1)
    M = np.diag(np.ones(14), 1) + np.diag(np.ones(14), -1)
    f = cg.smooth.Linear(((X[:, None] - T) ** 2).sum(-1)) + 3.0 * cg.smooth.TransportLaplacian(
        X, T, np.diag(L.sum(1)) - L, np.diag(M.sum(1)) - M
    )
    return f, cg.simple.Entropy(0.1, on=cg.sets.Transport(np.full(12, 1 / 12), np.full(15, 1 / 15)))


@settings(max_examples=12, deadline=None)
@given(
    cut=st.integers(0, 20),
    memory=st.sampled_from([0, 3]),
    step=st.sampled_from(["exact", "open-loop"]),
)
def test_a_run_in_two_parts_is_the_run(cut: int, memory: int, step: str) -> None:
    """CGS has no other state than point, memory and iteration: both runs take the same steps."""
    options: dict[str, Any] = {
        "memory": memory if step == "exact" else 0,
        "step": step,
        "tol": 1e-12,
    }
    whole = cg.minimize(*logistic(), max_iter=25, **options)
    first = cg.minimize(*logistic(), max_iter=cut, **options)
    if first.certificate.value_from != f"iterate {first.iterations}":
        return  # the best point is not the last one, from which the steps would go on
    second = cg.minimize(*logistic(), start=first, max_iter=25 - cut, **options)
    assert second.iterations == whole.iterations
    assert second.trace["iteration"].tolist() == list(range(26))
    for column in ("value", "lower_bound"):
        np.testing.assert_allclose(second.trace[column], whole.trace[column], rtol=1e-6, atol=1e-6)
    # the point where the run was cut is asked for twice
    assert second.trace["oracle_calls"][-1] == whole.trace["oracle_calls"][-1] + 1


@pytest.mark.parametrize(
    ("problem", "method"),
    [(logistic, method) for method in METHODS]
    + [(transport, method) for method in ("cgs", "newton", "auto")],
)
def test_bounds_and_traces_go_on_for_every_method(problem: Any, method: str) -> None:
    first = cg.minimize(*problem(), method="cgs", max_iter=4)
    second = cg.minimize(*problem(), method=method, start=first, max_iter=100)
    assert second.trace["best_value"][4] <= first.value
    assert (second.trace["lower_bound"][4:] >= first.lower_bound).all()
    assert second.seconds > first.seconds
    exact = cg.minimize(*problem(), method="newton", tol=1e-10)
    assert second.lower_bound <= exact.value
    assert exact.lower_bound <= second.value


@pytest.mark.parametrize(
    "other",
    [
        logistic(Z=1.0001 * Z),
        logistic(y=-Y),
        logistic(ridge=0.2),
        logistic(radius=3.0),
        logistic(Z=Z.astype(np.float32)),
        (cg.smooth.SquaredHinge(Z, Y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))),
        (cg.smooth.Logistic(Z, Y, intercept=True), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))),
        (
            cg.smooth.Logistic(Z, Y) + cg.smooth.Linear(Z[0]),
            cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0)),
        ),
        (cg.smooth.Logistic(Z, Y), cg.simple.Zero(on=cg.sets.L1Ball(4.0))),
        (cg.smooth.Logistic(Z, Y), cg.simple.Ridge(0.1, on=cg.sets.L2Ball(4.0))),
    ],
    ids=str,
)
def test_a_bound_of_another_problem_is_never_kept(other: tuple[Any, Any]) -> None:
    """The first problem's bound is made absurdly good; were it kept, it would contradict the other's values."""
    solved = cg.minimize(*logistic())
    foreign = cg.Result(
        0.5 * solved.x,
        cg.Certificate(0.5 * solved.x, solved.certificate.terms, 1e9),
        solved.status,
        "",
        7,
        1.0,
        solved.trace,
        "cgs",
        (),
        solved.digest,
    )
    result = cg.minimize(*other, start=foreign, max_iter=1)
    assert result.lower_bound < 1e9
    assert result.trace["iteration"].tolist() == [0, 1]


def test_equal_data_are_the_same_problem_wherever_they_lie() -> None:
    assert digest(*logistic()) == digest(*logistic(Z=np.asfortranarray(Z.copy()), y=list(Y)))
    f, g = logistic()
    before = digest(f, g)
    cg.minimize(f, g)  # what f computes for itself on the way changes nothing
    assert digest(f, g) == before
    assert digest(*transport()) == digest(*transport()) != digest(*transport(1.0))


def test_data_that_changed_since_are_another_problem() -> None:
    data = Z.copy()
    first = cg.minimize(*logistic(Z=data), max_iter=3)
    data *= 2.0
    assert cg.minimize(*logistic(Z=data), start=first, max_iter=0).trace["iteration"].tolist() == [
        0
    ]


def test_functions_of_the_users_own_give_their_point_alone() -> None:
    def problem() -> tuple[Any, Any]:
        f = cg.smooth.Function(lambda x: (float((x - 1.0) @ (x - 1.0)), 2.0 * (x - 1.0)))
        return f, cg.simple.Zero(on=cg.sets.L1Ball(1.0))

    assert digest(*problem()) is None
    first = cg.minimize(*problem(), np.zeros(3), max_iter=3)
    second = cg.minimize(*problem(), start=first, max_iter=2)
    assert second.trace["value"][0] == pytest.approx(first.value)
    assert second.iterations <= 2


def test_saved_and_loaded_results_are_equal(tmp_path: Path) -> None:
    first = cg.minimize(*logistic(), memory=2, max_iter=6)
    first.save(tmp_path / "result.npz")
    again = cg.load(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.x, first.x)
    assert str(again) == str(first)
    assert (again.digest, again.status, again.gap) == (first.digest, first.status, first.gap)
    for column in first.trace.columns:
        np.testing.assert_array_equal(again.trace[column], first.trace[column])
    assert len(again.past) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["result.npz"]


def test_torch_results_go_on_from_a_file(torch: Any, tmp_path: Path) -> None:
    problem = logistic(Z=torch.tensor(Z), y=torch.tensor(Y))
    first = cg.minimize(*problem, memory=2, max_iter=6)
    first.save(tmp_path / "result.npz")
    second = cg.minimize(*problem, memory=2, start=cg.load(tmp_path / "result.npz"))
    assert isinstance(second.x, torch.Tensor)
    assert second.success
    assert second.iterations > 6


def test_a_torch_result_that_is_done_stays_torch(torch: Any, tmp_path: Path) -> None:
    """What a file holds are NumPy arrays, and a run with nothing left to do returns the point that it got."""
    problem = logistic(Z=torch.tensor(Z), y=torch.tensor(Y))
    path = tmp_path / "run.npz"
    done = cg.minimize(*problem, method="newton", tol=1e-9, checkpoint=path)
    for options in ({"start": cg.load(path)}, {"checkpoint": path}):
        for method in ("cgs", "spg", "newton"):
            again = cg.minimize(*problem, method=method, max_iter=1, **options)
            assert isinstance(again.x, torch.Tensor)
            assert again.lower_bound >= done.lower_bound


def test_streamed_plans_are_no_arrays_to_save(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cost = cg.transport.SquaredEuclidean(rng.random((6, 2)), rng.random((5, 2)))
    streamed, dense = (
        cg.transport.solve(cost, entropy=0.1, plan=plan) for plan in ("streamed", "dense")
    )
    calls = (
        lambda: streamed.result.save(tmp_path / "plan.npz"),
        lambda: cg.minimize(*streamed.problem, checkpoint=tmp_path / "plan.npz"),
        lambda: cg.minimize(*streamed.problem, start=dense),
        lambda: cg.minimize(*dense.problem, start=streamed),
    )
    for call in calls:
        with pytest.raises(TypeError, match="a streamed plan is not an array"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("about", ["[1]", "null", '{"format": "condgrad result 1"}'])
def test_archives_of_others_are_named(about: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros(2), trace=np.zeros((1, 11)), about=np.array(about))
    with pytest.raises(ValueError, match=r"other\.npz is not a result that condgrad saved"):
        cg.load(tmp_path / "other.npz")


def test_a_checkpoint_without_a_folder_is_named_before_the_run(tmp_path: Path) -> None:
    calls: list[Any] = []
    with pytest.raises(ValueError, match="needs a folder to write to"):
        cg.minimize(*logistic(), checkpoint=tmp_path / "no" / "run.npz", callback=calls.append)
    assert not calls


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b'{"x": 1}'])
def test_damaged_files_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npz is not a result that condgrad saved"):
        cg.load(tmp_path / "broken.npz")
    with pytest.raises(FileNotFoundError):
        cg.load(tmp_path / "missing.npz")


def test_a_checkpoint_of_another_problem_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    cg.minimize(*logistic(), checkpoint=path, max_iter=3)
    again = cg.minimize(*logistic(), checkpoint=path, max_iter=3)
    assert again.iterations == 6
    with pytest.raises(ValueError, match="belongs to another problem"):
        cg.minimize(*logistic(radius=2.0), checkpoint=path)


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="start must be a result"):
        cg.minimize(*logistic(), start=np.zeros(60))
    with pytest.raises(ValueError, match="x0 and start"):
        cg.minimize(*logistic(), np.zeros(60), start=cg.minimize(*logistic(), max_iter=1))
    with pytest.raises(ValueError, match="checkpoint_every"):
        cg.minimize(*logistic(), checkpoint=tmp_path / "run.npz", checkpoint_every=-1.0)


KILLED = """
import sys, time, numpy as np, condgrad as cg
sys.path.insert(0, sys.argv[2])
from test_resuming import logistic
cg.minimize(*logistic(), tol=0.0, checkpoint=sys.argv[1], checkpoint_every=0.05, callback=lambda now: time.sleep(0.02))
"""


def ball_problems(dtype: Any) -> dict[str, tuple[Any, Any]]:
    """A loss of each kind, some with more than one term."""
    data, classes = Z.astype(dtype), np.arange(40) % 3
    ball = cg.sets.L1Ball(4.0)
    squares = cg.smooth.LeastSquares(data, Y, intercept=True)
    return {
        "squares": (squares, cg.simple.Ridge(0.1, on=ball)),
        "scaled": (0.5 * squares + cg.smooth.Linear(np.ones(60, dtype)), cg.simple.Zero(on=ball)),
        "logistic": (cg.smooth.Logistic(data, Y, intercept=True), cg.simple.Ridge(0.1, on=ball)),
        "hinge": (cg.smooth.SquaredHinge(data, Y), cg.simple.Zero(on=cg.sets.Box(-1.0, 1.0))),
        "classes": (
            cg.smooth.Multinomial(data, classes, intercept=True),
            cg.simple.Ridge(0.1, on=ball),
        ),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(ball_problems(np.float64)))
@pytest.mark.parametrize("method", ["cgs", "auto"])
def test_the_digest_is_a_function_of_the_data(name: str, dtype: Any, method: str) -> None:
    """What a run computes and keeps changes nothing, so that a checkpoint fits the problem that it is of."""
    problem = ball_problems(dtype)[name]
    before = digest(*problem)
    assert before == digest(*ball_problems(dtype)[name])
    cg.minimize(*problem, method=method, max_iter=5)
    assert digest(*problem) == before is not None


def test_a_checkpoint_of_float32_data_goes_on_in_the_same_process(tmp_path: Path) -> None:
    problem, path = ball_problems(np.float32)["logistic"], tmp_path / "run.npz"
    first = cg.minimize(*problem, checkpoint=path, max_iter=3)
    second = cg.minimize(*problem, checkpoint=path, max_iter=3)
    assert (first.iterations, second.iterations) == (3, 6)
    exact = cg.minimize(*problem, start=second, method="newton", tol=1e-5)
    assert second.lower_bound <= exact.lower_bound
    assert (
        exact.trace["lower_bound"][second.iterations] >= second.lower_bound
    )  # not from -inf again


KILLED_WHILE_SAVING = """
import os, signal, sys, numpy as np, condgrad as cg
sys.path.insert(0, sys.argv[2])
from test_resuming import logistic
def killed(file, **arrays):
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
result = cg.minimize(*logistic(), max_iter=2)
np.savez = killed
result.save(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_what_a_killed_process_left_unfinished_is_swept(tmp_path: Path) -> None:
    """Files of processes that go on, which may be writing the same file, stay."""
    path = tmp_path / "run.npz"
    command = [sys.executable, "-c", KILLED_WHILE_SAVING, str(path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    of_others = left.with_name(left.name.replace(left.name.split(".")[-2], str(os.getppid())))
    of_others.touch()
    cg.minimize(*logistic(), max_iter=2, checkpoint=path)
    assert set(tmp_path.iterdir()) == {path, of_others}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    )
    try:
        limit = time.monotonic() + 60.0
        while not (path.exists() and cg.load(path).iterations >= 5):
            assert time.monotonic() < limit
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    left = cg.load(path)
    assert left.status is cg.Status.INTERRUPTED
    result = cg.minimize(*logistic(), checkpoint=path, tol=1e-8, memory=3)
    assert result.success
    assert len(result.trace) == result.iterations + 1 > left.iterations
    exact = cg.minimize(*logistic(), method="newton", tol=1e-12)
    assert result.lower_bound <= exact.value <= result.value + exact.gap
