"""Finished pieces on disk: one JSON file each, so that an interrupted run continues where it ended."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from condgrad.paper.pieces import Curve, Piece
from condgrad.paper.whole_files import json_text, plain, write_whole


class Found(Enum):
    """What the store has of a piece; the value says it to a person."""

    KEPT = "done before"
    MISSING = "new"
    CHANGED = "settings or version changed"
    DAMAGED = "file damaged"


@dataclass(frozen=True)
class Lookup:
    """What was found of a piece, and its curve and the machine it was measured on where it can be used."""

    found: Found
    curve: Curve | None = None
    machine: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Store:
    """A folder of finished pieces."""

    folder: Path

    def look(self, piece: Piece) -> Lookup:
        """The curve of a piece; it can be used only where the settings and our version are the same."""
        try:
            record = json.loads(self._path(piece).read_text(encoding="utf-8"))
            curve = curve_of(record["curve"])
            settings, made_by, machine = record["settings"], record["condgrad"], record["machine"]
        except FileNotFoundError:
            return Lookup(Found.MISSING)
        # a folder or garbage in the place of the file, or a file of another shape: the piece is done again
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return Lookup(Found.DAMAGED)
        if settings != plain(piece.settings) or made_by != version("condgrad"):
            return Lookup(Found.CHANGED)
        return Lookup(Found.KEPT, curve, machine)

    def keep(self, piece: Piece, curve: Curve, machine: Mapping[str, Any]) -> None:
        """Write a finished piece; a reader never sees a part of it."""
        record = {
            "piece": piece.name,
            "label": piece.label,
            "condgrad": version("condgrad"),
            "settings": piece.settings,
            "machine": machine,
            "curve": record_of(curve),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(piece), json_text(record, indent=None))

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}.json"


def record_of(curve: Curve) -> dict[str, Any]:
    """A curve as JSON has it: what is not finite is null."""
    columns = {name: [float(entry) for entry in column] for name, column in curve.columns.items()}
    _check_lengths(columns)
    return {
        "problem": curve.problem,
        "solver": curve.solver,
        "seed": int(curve.seed),
        "status": str(curve.status),
        "note": curve.note,
        "facts": plain(curve.facts),
        "columns": plain(columns),
    }


def curve_of(record: Mapping[str, Any]) -> Curve:
    """The curve of a record: null is NaN again, infinite values included."""
    columns = {
        name: [math.nan if entry is None else float(entry) for entry in column]
        for name, column in record["columns"].items()
    }
    _check_lengths(columns)
    return Curve(
        problem=str(record["problem"]),
        solver=str(record["solver"]),
        seed=int(record["seed"]),
        columns=columns,
        status=str(record["status"]),
        note=str(record["note"]),
        facts=dict(record["facts"]),
    )


def _check_lengths(columns: Mapping[str, Sequence[float]]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a curve must have equal lengths, got {lengths}")
