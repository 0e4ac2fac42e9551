"""The two sides: the source tree of each, and the process that runs its jobs."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PATIENCE = 900.0
"""Seconds after which a silent process is lost: compiled code does not look at time limits."""
TAIL = 300
"""Characters of what a lost process wrote last."""


class UnknownCommit(ValueError):
    """There is no such commit."""


class WorkerLost(RuntimeError):
    """The process of a side died or hangs."""


def commit_of(name: str) -> str:
    """The whole hash of a commit."""
    found = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if found.returncode:
        raise UnknownCommit(f"--against {name} is no commit of {ROOT}")
    return found.stdout.strip()


def git(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=check, capture_output=True, text=True)


@contextmanager
def tree_of(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit, in a worktree that goes at the end, however that comes."""
    tree = folder / "tree"
    try:
        git("worktree", "add", "--detach", str(tree), commit)
        # numba takes machine code from a folder that is kept only for files of the same time
        written = int(git("show", "--no-patch", "--format=%ct", commit).stdout)
        for file in (tree / "src").rglob("*.py"):
            os.utime(file, (written, written))
        yield tree
    finally:
        git("worktree", "remove", "--force", str(tree), check=False)
        git("worktree", "prune", check=False)


def interpreter_for(tree: Path, folder: Path) -> str:
    """Ours where the tree asks for what we ask for, else that of an environment made for it."""
    if dependencies_of(tree) == dependencies_of(ROOT):
        return sys.executable
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"{tree}[dask]"], check=True)
    return str(python)


def dependencies_of(tree: Path) -> list[str]:
    project = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]
    return sorted(project["dependencies"])


@dataclass(frozen=True)
class Side:
    """One of the two."""

    name: str
    tree: Path
    python: str = sys.executable
    kernels: Path | None = None
    """Where its machine code is kept; None for where the environment says."""

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(self.tree / "src"), str(ROOT)])
        own = {} if self.kernels is None else {"NUMBA_CACHE_DIR": str(self.kernels)}
        return {**os.environ, **ONE_THREAD, **own, "PYTHONPATH": paths, "CONDGRAD_KERNELS": "wait"}


class Worker:
    """The process of a side, which is started at the first question and again after it was lost."""

    def __init__(self, side: Side, log: Path) -> None:
        self.side = side
        self.log = log
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; the next question starts a new one."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the process answers."""
        process = self.process or self._started()
        try:
            process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            raise self._lost("died") from None
        return self._answer(process)

    def _started(self) -> subprocess.Popen[str]:
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [self.side.python, "-P", "-m", "experiments.gates.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.side.environment,
                start_new_session=True,  # Ctrl-C is for us, and we end it
            )
        place = Path(self._answer(self.process)["condgrad"])
        if not place.is_relative_to(self.side.tree):
            raise RuntimeError(f"the {self.side.name} side ran {place}, not {self.side.tree}")
        return self.process

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            if not selector.select(PATIENCE):
                raise self._lost(f"did not answer for {PATIENCE:g} s")
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise self._lost("died")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _lost(self, how: str) -> WorkerLost:
        self.stop()
        said = self.log.read_text("utf-8", errors="replace").strip()[-TAIL:]
        return WorkerLost(f"the {self.side.name} process {how}{': ' if said else ''}{said}")
