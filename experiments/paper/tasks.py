"""What an experiment measures: tasks, each of which gives the curve of one solver on one problem; and where they stay.

A finished task is a JSON file, so that an interrupted run of the paper continues with the tasks that are missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import condgrad
from condgrad.cli.report import json_text

Numbers = NDArray[np.float64]
SOURCES = (Path(condgrad.__file__).parent, Path(__file__).parents[1])
"""The package, and these experiments."""
UNRELATED = ("benchmarks", "cli")
"""Folders that no curve depends on."""
NEW, KEPT, CHANGED, DAMAGED = (
    "new",
    "kept from an earlier run",
    "settings or code changed",
    "file damaged",
)


@dataclass(frozen=True)
class Curve:
    """How one solver went on one problem.

    `solver` is a key of `figures.SOLVERS`. `columns` are lists of equal length by name: "iteration", "seconds" and what
    was measured then. `status` says why the run ended, `note` what else a reader should know; `facts` are single
    numbers and words that belong to it.
    """

    problem: str
    solver: str
    seed: int
    columns: Mapping[str, Sequence[float]]
    status: str
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Numbers:
        return np.asarray(self.columns.get(column, ()), dtype=float)


@dataclass(frozen=True)
class Task:
    """A run that is done once.

    `settings` hold all that the outcome depends on beside the code, as JSON. `seconds` is about how long `work` takes
    at most, for the estimate of the time left.
    """

    experiment: str
    problem: str
    solver: str
    seed: int
    settings: Mapping[str, Any]
    seconds: float
    work: Callable[[], Curve]

    @property
    def name(self) -> str:
        """Unique, and the name of a file."""
        words = f"{self.experiment} {self.problem} {self.seed} {self.solver}"
        return "-".join(re.findall(r"[\w.-]+", words))


@dataclass(frozen=True)
class Scale:
    """How much to do: `quick` for smaller problems and less time for each, `seeds` for the draws of random ones."""

    quick: bool = False
    seeds: int = 3


def thinned(count: int, most: int = 250) -> NDArray[np.int_]:
    """At most so many of the indices 0 .. count - 1, even on a logarithmic axis, both ends among them."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def first_at(values: ArrayLike, level: float, of: ArrayLike) -> float:
    """`of` at the place where the values first are at a level or below; infinite where they never are."""
    there = np.flatnonzero(np.asarray(values) <= level)
    return float(np.asarray(of)[there[0]]) if there.size else np.inf


def best_known(curves: Sequence[Curve]) -> tuple[float, float]:
    """The best value that anybody reached and the best bound that anybody proved: F* lies between them."""
    bound = max(curve["lower_bound"].max(initial=-np.inf) for curve in curves)
    return min(min(curve.columns["best_value"]) for curve in curves), bound


# On disk --------------------------------------------------------------------------------------------------------------


def code_digest(*folders: Path) -> str:
    """A digest of all Python files below the folders: an edit to a solver makes every kept curve old."""
    digest = hashlib.sha256()
    for folder in folders or SOURCES:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder)
            if name.parts[0] not in UNRELATED:
                digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Store:
    """A folder of finished tasks; they can be used where the settings and the code are the same.

    `machine` is where it runs now, which is kept with each curve.
    """

    folder: Path
    code: str
    machine: Mapping[str, Any]

    def find(self, task: Task) -> tuple[str, Curve | None, bool]:
        """What is known of a task, its curve where it can be used, and whether that was timed on this machine."""
        try:
            record = json.loads(self._path(task).read_text(encoding="utf-8"))
            curve = Curve(**record["curve"])
            lengths = {len(column) for column in curve.columns.values()}
            key, here = record["key"], record["machine"] == self.machine
        except FileNotFoundError:
            return NEW, None, True
        # a folder or garbage in the place of the file, or a file of another shape: the task is done again
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return DAMAGED, None, True
        if len(lengths) > 1:
            return DAMAGED, None, True
        return (KEPT, curve, here) if key == self._key(task) else (CHANGED, None, True)

    def keep(self, task: Task, curve: Curve) -> None:
        record = {"key": self._key(task), "machine": self.machine, "curve": asdict(curve)}
        self.folder.mkdir(parents=True, exist_ok=True)
        # Python's JSON, which knows of NaN: nobody else reads these
        write_whole(self._path(task), json.dumps(record, default=lambda array: array.tolist()))

    def _key(self, task: Task) -> Any:
        return json.loads(
            json_text({"code": self.code, "name": task.name, "settings": task.settings})
        )

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.name}.json"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write under a temporary name in the same folder, then rename, which is atomic."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # names of files may hold bytes that are no text
        temporary.write_bytes(
            content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
