"""Points, matrices, weights and labels from files: CSV, TSV, NPY and NPZ."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.cli.files import counted, decoded, npy_array, npz_array, npz_names, number, read_bytes, shortened
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import quoted

TEXT_IN_MEMORY = 12
"""How many times the size of a text its cells take in memory while they are strings."""


@dataclass(frozen=True)
class Points:
    """A row of numbers for each point, and the names of the columns where the file has a header."""

    values: Any
    names: tuple[str, ...] | None
    dropped: frozenset[str] = frozenset()
    """Which of the columns to leave out were there."""


@dataclass(frozen=True)
class Line:
    """The cells of a line of text, and the number an editor gives it."""

    number: int
    cells: list[str]


def read_points(path: Path, *, drop: Sequence[str] = ()) -> Points:
    """A point cloud: a row a point, a column a coordinate; `drop` has names of columns, or numbers from 1."""
    if not _is_binary(path):
        table = _parsed(path, drop=drop)
    else:
        values = _stored(path)
        places = _dropped(drop, None, values.shape[1] if values.ndim == 2 else 0)
        table = Points(_finite(path, _without(path, values, places)), None, frozenset(places.values()))
    _two_dimensions(path, table.values, "points are rows of coordinates")
    return table


def _dropped(drop: Sequence[str], names: Sequence[str] | None, width: int) -> dict[int, str]:
    """The places of the columns to leave out, and how the user called them."""
    found = {}
    for wanted in drop:
        if names is not None and wanted in names:
            found[names.index(wanted)] = wanted
        elif wanted.isascii() and wanted.isdecimal() and len(wanted) < 10 and 1 <= int(wanted) <= width:
            found[int(wanted) - 1] = wanted
    return found


def _without(path: Path, values: Any, places: Mapping[int, str]) -> Any:
    if not places:
        return values
    if len(places) == values.shape[1]:
        raise BadInput(f"{path} has no column left: --drop fewer of its {values.shape[1]}")
    return np.delete(values, list(places), axis=1)


def read_matrix(path: Path) -> Any:
    """A matrix of finite numbers."""
    values = _table(path).values
    _two_dimensions(path, values, "a matrix has rows and columns")
    return values


def read_vector(path: Path) -> Any:
    """One number for each of some things: a column, or a row."""
    values = _table(path).values
    if values.size != max(values.shape, default=0):
        raise BadInput(f"{path} has shape {_shape(values)}: give one column of numbers")
    if values.size == 0:
        raise BadInput(f"{path} is empty: give one column of numbers")
    return values.reshape(-1)


def read_labels(path: Path, count: int) -> Any:
    """One class for each of `count` points, any text; a header is known by the one line it adds."""
    if _is_binary(path):
        labels = _stored(path)
        if labels.dtype.kind not in "biufUS" or labels.size != max(labels.shape, default=0):
            raise BadInput(f"{path} holds {labels.dtype} of shape {_shape(labels)}: give one label for each source")
        labels = labels.reshape(-1)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise BadInput(f"{path} has NaN or infinite labels: give every source a class")
    else:
        labels = np.array(_label_cells(path))
        if len(labels) == count + 1:
            labels = labels[1:]
    if len(labels) != count:
        raise BadInput(f"{path} has {len(labels)} labels for {count} sources: give one label for each source")
    return labels


def file_of(path: Path) -> Path:
    """The file itself, of a name that may say which array of an NPZ file is meant."""
    name, found, _ = str(path).rpartition(".npz:")
    return Path(name + ".npz") if found else path


def _table(path: Path) -> Points:
    return Points(_finite(path, _stored(path)), None) if _is_binary(path) else _parsed(path)


def _finite(path: Path, values: Any) -> Any:
    """An array as finite float64."""
    if values.dtype.kind not in "iuf":
        kind = {"c": "complex numbers", "b": "true and false"}.get(values.dtype.kind, f"entries of type {values.dtype}")
        raise BadInput(f"{path} holds {kind}: save it as real numbers, array.astype(float)")
    values = values.astype(np.float64, order="C", copy=False)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        place = ", ".join(
            f"{axis} {index + 1}" for axis, index in zip(("row", "column", "layer"), wrong[0], strict=False)
        )
        raise BadInput(f"{path}, {place}, is {values[tuple(wrong[0])]}: fill or drop what is not finite")
    return values


def _two_dimensions(path: Path, values: Any, meaning: str) -> None:
    if values.ndim != 2:
        hint = "; for one column save array.reshape(-1, 1)" if values.ndim == 1 else ""
        raise BadInput(f"{path} has shape {_shape(values)}, and {meaning}: it needs 2 dimensions{hint}")
    if values.size == 0:
        raise BadInput(f"{path} is empty, of shape {_shape(values)}: give one or more rows of numbers")


# --- text ---


def _parsed(path: Path, *, drop: Sequence[str] | None = None) -> Points:
    """A table of numbers; `drop` is None where no column can be left out."""
    lines = _lines(path)
    names = _header(path, lines[0], drop)
    if names is not None:
        lines = lines[1:]
        if not lines:
            raise BadInput(f"{path} has a header and no rows: give one or more rows of numbers")
    width = len(lines[0].cells) if names is None else len(names)
    for line in lines:
        if len(line.cells) != width:
            raise BadInput(
                f"{path}, line {line.number}, has {counted(len(line.cells), 'value')} where the lines before have "
                f"{width}: give every row the same number of columns"
            )
    places = _dropped(drop or (), names, width)
    if len(places) == width:
        raise BadInput(f"{path} has no column left: --drop fewer of its {width}")
    kept = [place for place in range(width) if place not in places]
    rows = [[line.cells[place] for place in kept] for line in lines] if places else [line.cells for line in lines]
    try:
        values = np.array(rows, dtype=np.float64)
    except ValueError:
        raise _wrong(path, lines, kept, names, droppable=drop is not None) from None
    # NumPy reads 1_000 as a number, as Python does
    if not np.isfinite(values).all() or any("_" in cell for row in rows for cell in row):
        raise _wrong(path, lines, kept, names, droppable=drop is not None)
    names = names and tuple(names[place] for place in kept)
    return Points(values, names, frozenset(places.values()))


def _lines(path: Path) -> list[Line]:
    """What is neither blank nor a comment, cut at the separator of the first such line."""
    kept = _kept(path)
    separator = _separator(kept[0][1])
    return [Line(place, _cut(text, separator)) for place, text in kept]


def _kept(path: Path) -> list[tuple[int, str]]:
    kept = [
        (place, text)
        for place, line in enumerate(decoded(path, read_bytes(path, copies=TEXT_IN_MEMORY)).splitlines(), start=1)
        if (text := line.strip(" \r\f\v")).strip() and not text.startswith("#")
    ]
    if not kept:
        raise BadInput(f"{path} has nothing but blank lines and comments: give one or more rows of numbers")
    return kept


def _separator(text: str) -> str | None:
    """The mark between columns; None stands for blanks."""
    return next((mark for mark in "\t;," if mark in text), None)


def _cut(text: str, separator: str | None) -> list[str]:
    if '"' in text and len(text) <= csv.field_size_limit():
        cells = next(csv.reader([text], delimiter=separator or " ", skipinitialspace=True))
    else:
        cells = text.split(separator)
    return [cell.strip() for cell in cells]


def _header(path: Path, first: Line, drop: Sequence[str] | None) -> tuple[str, ...] | None:
    if any(number(cell) is not None for cell in first.cells):
        return None
    if len(first.cells) > 1 and not first.cells[0] and any(first.cells) and "1" not in (drop or ()):
        how = f"drop that column ({'' if drop is None else '--drop 1, or '}in pandas, to_csv(index=False))"
        raise BadInput(
            f"{path}, line {first.number}, has no name for its first column, as tables with row numbers do: "
            f"{how} or name it"
        )
    return tuple(first.cells)


def _wrong(
    path: Path, lines: Sequence[Line], kept: Sequence[int], names: Sequence[str] | None, *, droppable: bool
) -> BadInput:
    """A sentence on a column of text, where it can be left out, or on the first cell that is no finite number."""
    for place in kept if droppable else ():
        if 2 * sum(number(line.cells[place]) is None for line in lines) > len(lines):
            name = str(place + 1) if names is None else names[place]
            return BadInput(
                f"{path}, column {place + 1}{'' if names is None else f' ({shortened(name)!r})'}, holds text such as "
                f"{shortened(lines[0].cells[place])!r}, and coordinates are numbers: leave it out with "
                f"--drop {quoted(name or str(place + 1))}"
            )
    return _first_wrong_cell(path, lines, kept)


def _first_wrong_cell(path: Path, lines: Sequence[Line], kept: Sequence[int]) -> BadInput:
    for line in lines:
        for column in kept:
            cell = line.cells[column]
            place = f"{path}, line {line.number}, column {column + 1},"
            value = number(cell)
            if not cell:
                return BadInput(f"{place} is empty: fill it or drop the row")
            if value is None:
                hint = "write a decimal point" if number(cell.replace(",", ".")) is not None else "correct it"
                return BadInput(f"{place} is {shortened(cell)!r}, which is not a number: {hint} or drop the row")
            if not np.isfinite(value):
                return BadInput(f"{place} is {cell}: fill or drop what is not finite")
    return BadInput(f"{path} holds something that is not a number: give rows of numbers")


def _label_cells(path: Path) -> list[str]:
    """A label a line, which may hold blanks, or all of them in one line."""
    lines = [
        Line(place, [text.strip(' "')] if _separator(text) is None else _cut(text, _separator(text)))
        for place, text in _kept(path)
    ]
    for line in lines:
        if len(lines) > 1 and len(line.cells) > 1:
            raise BadInput(f"{path}, line {line.number}, has {len(line.cells)} columns: give one label a line")
        if "" in line.cells:
            raise BadInput(f"{path}, line {line.number}, has an empty label: give every source a class")
    return [cell for line in lines for cell in line.cells]


def _shape(values: Any) -> str:
    return " x ".join(map(str, values.shape)) or "()"


# --- NumPy's own formats ---


def _is_binary(path: Path) -> bool:
    return file_of(path).suffix.lower() in (".npy", ".npz")


def _stored(path: Path) -> Any:
    file = file_of(path)
    content = read_bytes(file)
    if file.suffix.lower() != ".npz":
        return npy_array(file, content)
    return npz_array(file, content, _member(path, npz_names(file, content)))


def _member(path: Path, names: Sequence[str]) -> str:
    """Which array of an NPZ file is meant: the only one, or the one named after a colon."""
    if not names:
        raise BadInput(f"{path} holds no arrays: save one with numpy.savez(file, points=array)")
    asked = str(path).removeprefix(str(file_of(path))).removeprefix(":")
    if not asked and len(names) > 1:
        raise BadInput(f"{path} holds {len(names)} arrays ({', '.join(names)}): say which, as in {path}:{names[0]}")
    if asked and asked not in names:
        raise BadInput(f"{file_of(path)} has no array {asked!r}: it holds {', '.join(names)}")
    return asked or names[0]
