"""Finished tasks on disk, one JSON file each; files that appear whole or not at all; and the digest of the code."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import condgrad
from experiments.paper.curves import Curve, Task

SOURCES = (Path(condgrad.__file__).parent, Path(__file__).parents[1])
"""The package, and these experiments."""
UNRELATED = ("benchmarks", "cli")
"""Folders that no curve depends on."""
NEW, KEPT, CHANGED, DAMAGED = "new", "kept from an earlier run", "settings or code changed", "file damaged"


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
        return strict_json({"code": self.code, "settings": task.settings})

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.name}.json"


def strict_json(value: Any) -> Any:
    """A value as every reader of JSON takes it: arrays are lists, and what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(key): strict_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return strict_json(value.tolist()) if hasattr(value, "tolist") else value


def json_text(value: Any) -> str:
    return json.dumps(strict_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write under a temporary name in the same folder, then rename, which is atomic."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # names of files may hold bytes that are no text
        temporary.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
