"""Numbers from files: CSV, TSV, NPY and NPZ; what is wrong with a file is said in one sentence."""

from __future__ import annotations

import csv
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from condgrad.cli.outcome import BadInput
from condgrad.cli.transport_memory import require_memory

TEXT_BYTES_TO_MEMORY = 12
"""Memory that a byte of text takes while its cells are strings."""


@dataclass(frozen=True)
class Table:
    """Rows of numbers, and the names of the columns where the file has a header."""

    values: Any
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class Line:
    """The cells of a line of text, and the number an editor gives it."""

    number: int
    cells: list[str]


def read_points(path: Path) -> Table:
    """A point cloud: a row a point, a column a coordinate."""
    table = _table(path)
    _two_dimensions(path, table.values, "points are rows of coordinates")
    return table


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


def check_file(path: Path) -> None:
    """A sentence where there is nothing that could be read."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise BadInput(f"{path} does not exist: check the name") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISDIR(found.st_mode):
        raise BadInput(f"{path} is a folder: give a file")
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
        raise BadInput(f"{path} is neither a file nor a pipe: give a file")
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise BadInput(f"{path} is empty: check how it was written")


def file_of(path: Path) -> Path:
    """The file itself, of a name that may say which array of an NPZ file is meant."""
    name, found, _ = str(path).rpartition(".npz:")
    return Path(name + ".npz") if found else path


def _table(path: Path) -> Table:
    if not _is_binary(path):
        return _parsed(path)
    values = _stored(path)
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
    return Table(values, None)


def _two_dimensions(path: Path, values: Any, meaning: str) -> None:
    if values.ndim != 2:
        hint = "; for one column save array.reshape(-1, 1)" if values.ndim == 1 else ""
        raise BadInput(f"{path} has shape {_shape(values)}, and {meaning}: it needs 2 dimensions{hint}")
    if values.size == 0:
        raise BadInput(f"{path} is empty, of shape {_shape(values)}: give one or more rows of numbers")


# --- text ---


def _parsed(path: Path) -> Table:
    lines = _lines(path)
    names = _header(path, lines[0])
    if names is not None:
        lines = lines[1:]
        if not lines:
            raise BadInput(f"{path} has a header and no rows: give one or more rows of numbers")
    width = len(lines[0].cells) if names is None else len(names)
    for line in lines:
        if len(line.cells) != width:
            raise BadInput(
                f"{path}, line {line.number}, has {_count(len(line.cells), 'value')} where the lines before have "
                f"{width}: give every row the same number of columns"
            )
    try:
        values = np.array([line.cells for line in lines], dtype=np.float64)
    except ValueError:
        raise _first_wrong_cell(path, lines) from None
    if not np.isfinite(values).all():
        raise _first_wrong_cell(path, lines)
    return Table(values, names)


def _lines(path: Path) -> list[Line]:
    """What is neither blank nor a comment, cut at the separator of the first such line."""
    kept = _kept(path)
    separator = _separator(kept[0][1])
    return [Line(number, _cut(text, separator)) for number, text in kept]


def _kept(path: Path) -> list[tuple[int, str]]:
    kept = [
        (number, text)
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if (text := line.strip(" \r\f\v")).strip() and not text.startswith("#")
    ]
    if not kept:
        raise BadInput(f"{path} has nothing but blank lines and comments: give one or more rows of numbers")
    return kept


def _separator(text: str) -> str | None:
    """The mark between columns; None stands for blanks."""
    return next((mark for mark in "\t;," if mark in text), None)


def _cut(text: str, separator: str | None) -> list[str]:
    if '"' in text:
        cells = next(csv.reader([text], delimiter=separator or " ", skipinitialspace=True))
    else:
        cells = text.split(separator)
    return [cell.strip() for cell in cells]


def _text(path: Path) -> str:
    with _reading(path):
        require_memory(
            TEXT_BYTES_TO_MEMORY * path.stat().st_size, f"reading {path}", "save it as .npy, or keep fewer rows"
        )
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
        wrong = text.find("\0")
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
    if wrong >= 0:
        raise BadInput(f"{path} is not text (byte {wrong + 1}): give CSV or TSV in UTF-8, .npy or .npz")
    return text


def _header(path: Path, first: Line) -> tuple[str, ...] | None:
    if any(_number(cell) is not None for cell in first.cells):
        return None
    if len(first.cells) > 1 and not first.cells[0] and any(first.cells):
        raise BadInput(
            f"{path}, line {first.number}, has no name for its first column, as tables with row numbers do: "
            "drop that column (in pandas, to_csv(index=False)) or name it"
        )
    return tuple(first.cells)


def _first_wrong_cell(path: Path, lines: list[Line]) -> BadInput:
    for line in lines:
        for column, cell in enumerate(line.cells, start=1):
            place = f"{path}, line {line.number}, column {column},"
            number = _number(cell)
            if not cell:
                return BadInput(f"{place} is empty: fill it or drop the row")
            if number is None:
                hint = "write a decimal point" if _number(cell.replace(",", ".")) is not None else "correct it"
                return BadInput(f"{place} is {_short(cell)}, which is not a number: {hint} or drop the row")
            if not np.isfinite(number):
                return BadInput(f"{place} is {cell}: fill or drop what is not finite")
    return BadInput(f"{path} holds something that is not a number: give rows of numbers")


def _label_cells(path: Path) -> list[str]:
    """A label a line, which may hold blanks, or all of them in one line."""
    lines = [
        Line(number, [text.strip(' "')] if _separator(text) is None else _cut(text, _separator(text)))
        for number, text in _kept(path)
    ]
    for line in lines:
        if len(lines) > 1 and len(line.cells) > 1:
            raise BadInput(f"{path}, line {line.number}, has {len(line.cells)} columns: give one label a line")
        if "" in line.cells:
            raise BadInput(f"{path}, line {line.number}, has an empty label: give every source a class")
    return [cell for line in lines for cell in line.cells]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _shape(values: Any) -> str:
    return " x ".join(map(str, values.shape)) or "()"


# --- NumPy's own formats ---


def _is_binary(path: Path) -> bool:
    return file_of(path).suffix.lower() in (".npy", ".npz")


def _stored(path: Path) -> Any:
    file = file_of(path)
    with _reading(file):
        if file.suffix.lower() == ".npz":
            with zipfile.ZipFile(file) as archive, archive.open(_member(path, archive)) as stream:
                return _array(path, stream)
        with file.open("rb") as stream:
            return _array(path, stream)


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Which array of an NPZ file is meant: the only one, or the one named after a colon."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    if not names:
        raise BadInput(f"{path} holds no arrays: save one with numpy.savez(file, points=array)")
    asked = str(path).removeprefix(str(file_of(path))).removeprefix(":")
    if not asked and len(names) > 1:
        raise BadInput(f"{path} holds {len(names)} arrays ({', '.join(names)}): say which, as in {path}:{names[0]}")
    if asked and asked not in names:
        raise BadInput(f"{file_of(path)} has no array {asked!r}: it holds {', '.join(names)}")
    return archive.namelist()[names.index(asked) if asked else 0]


def _array(path: Path, stream: IO[bytes]) -> Any:
    """An array in NumPy's format, whose header is read first: what it promises may not fit in memory."""
    start = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if start == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise BadInput(
            f"{path} holds pickled Python objects, which could run code and are never opened: "
            "save it as numbers, array.astype(float)"
        )
    entries = float(np.prod([float(size) for size in shape]))
    require_memory(2.0 * entries * max(8, dtype.itemsize), f"reading {path}, {shape},", "keep fewer rows")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What the system or NumPy say of a file that is none, as one sentence."""
    check_file(path)
    try:
        yield
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        kind = path.suffix.lower()
        raise BadInput(f"{path} is damaged or no {kind} file: save it again with numpy") from error
