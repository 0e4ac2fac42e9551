"""Tables with named columns, read from text: CSV, TSV, semicolons, bars; what is wrong is named by line and column."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from condgrad.cli.files import counted, decoded, number, shortened
from condgrad.cli.outcome import BadInput

MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})
"""Cells that stand for no value, in lower case."""

DELIMITERS = ",;\t|"
ROWS_AT_A_TIME = 4096


class Naming(StrEnum):
    """Where the names of columns come from."""

    HEADER = "header"
    POSITIONS = "positions from 0"
    LIBSVM = "libsvm indices from 1"
    LIBSVM_FROM_0 = "libsvm indices from 0"

    @property
    def is_libsvm(self) -> bool:
        return self in (Naming.LIBSVM, Naming.LIBSVM_FROM_0)

    @property
    def first(self) -> int:
        """The number of the first column, where columns are numbered."""
        return 1 if self is Naming.LIBSVM else 0


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with names; `numbers` is NaN where a cell is missing or is text."""

    source: str
    names: tuple[str, ...]
    numbers: Any
    """Shape (rows, columns), dense or a SciPy CSR matrix."""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """All cells of the columns that hold something else than numbers."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Columns that are no features: a target or weights that a file keeps apart from its matrix."""
    lines: Any = None
    """The line of each row in the file, where it has lines."""
    naming: Naming = Naming.HEADER

    @property
    def rows(self) -> int:
        return int(self.numbers.shape[0])

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.numbers))

    def where(self, row: int) -> str:
        """How a user finds a row."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def resolve(self, name: str, *, option: str) -> str:
        """The column that a user means; a column of a matrix may be counted from its end, as -1."""
        if name in self.names or name in self.beside:
            return name
        counted = self.names == tuple(map(str, range(len(self.names))))
        if counted and re.fullmatch("-[0-9]{1,9}", name) and -len(self.names) <= int(name) < 0:
            return self.names[int(name)]
        raise BadInput(f"{option} {name}: {self.source} has no column {name!r}; {self._nearest(name)}")

    def _nearest(self, name: str) -> str:
        names = [*self.beside, *self.names]
        close = difflib.get_close_matches(name, names, n=1) or [n for n in names if n.lower() == name.lower()]
        if close:
            return f"did you mean {close[0]!r}?"
        return f"it has {listed(names)}"

    def column(self, name: str) -> Any:
        """The cells of a column: an array of float64 where all are numbers, else a sequence of text."""
        if name in self.beside:
            return self.beside[name]
        if name in self.texts:
            return self.texts[name]
        column = self.numbers[:, [self.names.index(name)]]
        return np.ravel(column.toarray() if self.is_sparse else column)

    def features(self, names: Sequence[str]) -> Any:
        """The columns of these names as one matrix of finite numbers, or a sentence on the first cell that is none."""
        words = [name for name in names if name in self.texts]
        if words:
            raise BadInput(self._text_sentence(words))
        places = {name: j for j, name in enumerate(self.names)}
        matrix = self.numbers[:, [places[name] for name in names]]
        bad = _first_not_finite(matrix)
        if bad is not None:
            row, column, value = bad
            raise BadInput(self.cell_sentence(row, names[column], value))
        return matrix

    def cell_sentence(self, row: int, name: str, value: float) -> str:
        if math.isnan(value):
            return (
                f"{self.source}, {self.where(row)}, column {name!r}: the cell holds no number; "
                f"fill it, leave the row out, or leave the column out with --drop {quoted(name)}"
            )
        return f"{self.source}, {self.where(row)}, column {name!r}: {value} is not a finite number"

    def _text_sentence(self, names: Sequence[str]) -> str:
        """Either a stray word in a column of numbers, or columns of text."""
        for name in names:
            cells = self.texts[name]
            strays = [row for row, cell in enumerate(cells) if not is_missing(cell) and number(cell) is None]
            if 2 * len(strays) < len(cells):
                cell = cells[strays[0]]
                comma = number(cell.replace(",", ".", 1)) is not None
                advice = "write a decimal point" if comma else f"mend it, or --drop {quoted(name)}"
                place = f"{self.source}, {self.where(strays[0])}, column {name!r}"
                return f"{place}: {shortened(cell)!r} is not a number; {advice}"
        drops = " ".join(f"--drop {quoted(name)}" for name in names[:3]) + (" ..." if len(names) > 3 else "")
        what = f"column {names[0]!r} holds text" if len(names) == 1 else f"columns {listed(names)} hold text"
        return f"{self.source}: {what}, and features must be numbers; leave out what is no feature with {drops}"


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(repr(shortened(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def quoted(name: str) -> str:
    """A name as a shell takes it."""
    return name if name.replace("_", "").replace(".", "").isalnum() else f'"{name}"'


def read_text_table(path: Path, content: bytes) -> Table:
    """A table whose first line names its columns."""
    text = decoded(path, content)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    rows = _rows(path, text, delimiter)
    header = next(rows, None)
    if header is None:
        raise BadInput(f"{path} is empty")
    names = _checked_names(path, header[1])
    blocks, lines, wordy = _numbers(path, rows, names)
    if not lines:
        raise BadInput(f"{path} has a header and no rows")
    texts: dict[str, list[str]] = {names[j]: [] for j in sorted(wordy)}
    if texts:
        for _, cells in islice(_rows(path, text, delimiter), 1, None):
            for j in wordy:
                texts[names[j]].append(cells[j])
    return Table(path.name, names, np.concatenate(blocks), texts=texts, lines=np.array(lines))


def _delimiter(text: str) -> str:
    """The mark that splits the first line into most cells; a comma where none does."""
    first = next((line for line in text.splitlines() if line.strip()), "")[: csv.field_size_limit()]
    return max(DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark))))


def _rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, its cells stripped, with its line in the file."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: {error}; mend the quotes") from None


def _checked_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    seen: set[str] = set()
    for j, name in enumerate(names):
        if not name:
            raise BadInput(f"{path}: column {j + 1} has no name; name it in the first line, or leave the column out")
        if name in seen:
            raise BadInput(f"{path}: two columns have the name {name!r}; each needs its own")
        seen.add(name)
    values = [number(name) for name in names]
    numbered = [f"{j}" for j in range(len(names))], [f"{j + 1}" for j in range(len(names))]
    if None not in values and list(names) not in numbered:
        raise BadInput(f"{path}: the first line holds numbers where the names of the columns should be; add a header")
    return tuple(names)


def _numbers(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: Sequence[str]
) -> tuple[list[Any], list[int], set[int]]:
    """Blocks of numbers, the lines they come from, and which columns hold something else."""
    blocks: list[Any] = []
    lines: list[int] = []
    wordy: set[int] = set()
    while some := list(islice(rows, ROWS_AT_A_TIME)):
        for line, cells in some:
            if len(cells) != len(names):
                have = counted(len(cells), "cell")
                raise BadInput(f"{path}, line {line} has {have} where the header has {len(names)}")
        lines += [line for line, _ in some]
        block = np.empty((len(some), len(names)))
        for j, column in enumerate(zip(*(cells for _, cells in some), strict=True)):
            block[:, j], all_numbers = _column(column)
            if not all_numbers:
                wordy.add(j)
        blocks.append(block)
    return blocks, lines, wordy


def _column(cells: Sequence[str]) -> tuple[Any, bool]:
    """The numbers of a column, NaN where there is none, and whether nothing but numbers and missing cells is there."""
    if "_" not in "".join(cells):
        try:
            return np.array(cells, dtype=np.float64), True
        except ValueError:
            pass
    values = [math.nan if is_missing(cell) else number(cell) for cell in cells]
    return np.array([math.nan if value is None else value for value in values]), None not in values


def _first_not_finite(matrix: Any) -> tuple[int, int, float] | None:
    """Row, column and value of the first cell, in reading order, that is no finite number."""
    if sparse.issparse(matrix):
        entries = matrix.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        if len(bad) == 0:
            return None
        first = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
        return int(entries.row[first]), int(entries.col[first]), float(entries.data[first])
    bad = np.flatnonzero(~np.isfinite(matrix))
    if len(bad) == 0:
        return None
    row, column = divmod(int(bad[0]), matrix.shape[1])
    return row, column, float(matrix[row, column])
