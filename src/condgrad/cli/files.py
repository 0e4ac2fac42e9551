"""Reading and writing: every kind of table comes in as a `Table` by one set of rules, and results
go out whole.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import hashlib
import io
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas
import typer
from rich.filesize import decimal
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from condgrad.cli.report import BadInput, counted, errors, first_line, option, require, shortened
from condgrad.errors import listed, require_extra
from condgrad.linear_model.model_file import Naming
from condgrad.memory import free_memory

HEADER_RULE = "yes if it has no numbers, or has 0,1,2,... like pandas columns"
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="The first line has the names of the columns.",
        show_default=HEADER_RULE,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="The column with the names of the rows; '' if it has no name.",
        show_default="the first column if it has no name",
    ),
]
DropColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column to leave out: its name or number from 0; '' if it has no name. Can be repeated.",
    ),
]
ResultFolder = Annotated[Path, option("FOLDER", "The folder for the results.")]

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "<NA>", "?"}
)  # cells that stand for no value: pandas' and the question mark
FILL = "fill in what is missing, or leave out rows, or columns with --drop"
TRUTHS = {"true": 1.0, "false": 0.0}
DELIMITERS = ",;\t|"
UNNAMED = "Unnamed: "  # how pandas calls a column without a name, followed by its number
SPARSE_PARTS = (
    "format",
    "data",
    "shape",
    "indices",
    "indptr",
    "row",
    "col",
    "offsets",
    "_is_array",
)  # SciPy's
LABEL = "label"  # how the first number of a libsvm line is called
LARGEST_INDEX = 10_000_000  # a larger index in a sparse file is taken for a slip
TEXT_IN_MEMORY = (
    12  # how many times the size of a text its cells take in memory while they are strings
)
PANDAS_READS_ALL_DIGITS = tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1)
BLANKS = r"\s+"
PLANS_AT_ONCE = 6
"""Arrays as large as the plan that a solver holds at its peak: cost, plan, direction and what they
pass through.
"""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with names, from any file."""

    source: str
    # a pandas DataFrame, whose index names the rows; the cells of a text file are text still
    frame: Any
    names: tuple[str, ...]
    """The columns that can be features; others, such as a label that a file keeps apart, can be
    targets or weights.
    """
    naming: Naming = Naming.HEADER
    matrix: Any = (
        None  # the features of a sparse file, as CSR; its columns are numbered and not in the frame
    )
    how: str = ""  # how the file was read, in words
    lines: Any = None  # the line of each row, where the file has lines
    facts: Mapping[str, Any] = field(default_factory=dict)  # name, size and checksum of the file
    python: str = ""  # what reads the same table in Python, where pandas does

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def apart(self) -> list[str]:
        features = set(self.names)
        return [name for name in self.frame.columns if name not in features]

    @property
    def read_as(self) -> str:
        """What was taken for what, as the user is told."""
        named = [name for name in self._row_name if not name.startswith(UNNAMED)]
        names = [*named, *self.names]
        shown = ", ".join(shortened(name, 20) for name in names[:6])
        more = ", ..." if len(names) > 6 else ""
        return f"{counted(len(names), 'column')} ({shown}{more}), {counted(self.rows, 'row')}, {self.how}"

    def where(self, row: int) -> str:
        """How a user finds a row."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def find(self, wanted: str) -> str | None:
        """The column that a user means, if there is one: by its name, by its number, or '' for that
        without a name.
        """
        if wanted in (*self.apart, *self.names, *self._row_name):
            return wanted
        unnamed = [name for name in self.names if name.startswith(UNNAMED)] or self._row_name
        if wanted == "" and len(unnamed) == 1 and unnamed[0].startswith(UNNAMED):
            return unnamed[0]
        by_number = self.naming is Naming.POSITIONS or not any(
            name.isdecimal() for name in self.names
        )
        if (
            by_number
            and re.fullmatch("-?[0-9]{1,9}", wanted)
            and -len(self.names) <= int(wanted) < len(self.names)
        ):
            return self.names[int(wanted)]
        return None

    def resolve(self, wanted: str, *, option: str) -> str:
        """The column that a user means, or a sentence that there is none."""
        found = self.find(wanted)
        if found is not None:
            return found
        columns = [*self.apart, *self.names, *self._row_name]
        close = difflib.get_close_matches(wanted, columns, n=1) or [
            n for n in columns if n.lower() == wanted.lower()
        ]
        advice = f"did you mean {close[0]!r}?" if close else f"it has {listed(columns)}"
        if self.naming is Naming.POSITIONS and self.lines is not None:
            advice += "; if its first line is the header, say --header"
        raise BadInput(
            f"{option} {wanted or repr('')}: {self.source} has no column {wanted!r}; {advice}"
        )

    def without(self, left_out: Collection[str]) -> Table:
        """The table with fewer features."""
        names = tuple(name for name in self.names if name not in left_out)
        require(
            bool(names),
            f"{self.source} has no column left: drop fewer of its {len(self.names)} columns",
        )
        return replace(self, names=names)

    @property
    def _row_name(self) -> list[str]:
        return [] if self.frame.index.name is None else [self.frame.index.name]

    def with_ids(self, name: str) -> Table:
        """The table with the names of its rows in a column of it, which is no feature any more."""
        if name in self._row_name:
            return self
        dense = name in self.frame.columns
        require(
            dense,
            f"--id {name}: a sparse matrix has no names of rows among its columns; leave --id out",
        )
        names = tuple(column for column in self.names if column != name)
        python = f"{self.python}.set_index({self.key(name)!r})" if self.python else ""
        return replace(self, frame=self.frame.set_index(name), names=names, python=python)

    def key(self, name: str) -> str | int:
        """A column as pandas calls it."""
        return name if self.naming is Naming.HEADER else int(name)

    def column(self, name: str) -> Any:
        """The cells of a column: an array of float64 where all are numbers or missing, else a list
        of text.
        """
        if name in self._row_name:
            return _numbers_or_text(self.frame.index.to_series())
        if name not in self.frame.columns:
            return np.ravel(self.matrix[:, [int(name) - self.naming.first]].toarray())
        return _numbers_or_text(self.frame[name])

    def features(
        self,
        names: Sequence[str],
        *,
        holes: bool = False,
        advice: str = FILL,
        droppable: bool = True,
    ) -> Any:
        """Columns as one matrix of finite numbers, or a sentence on cells that are none.

        Empty cells are NaN where `holes` are allowed; else the sentence counts them all, and ends
        with an advice. Columns of text may be `droppable` by an option.
        """
        if self.matrix is not None:
            entries = self.matrix[:, [int(name) - self.naming.first for name in names]]
        elif all(dtype == np.float64 for dtype in self.frame.dtypes):
            entries = self.frame[list(names)].to_numpy()
        else:
            columns = {name: truths_as_numbers(self.column(name)) for name in names}
            texts = {name: cells for name, cells in columns.items() if isinstance(cells, list)}
            if texts:
                raise BadInput(self._text_sentence(texts, droppable=droppable))
            entries = np.column_stack(list(columns.values()))
        if np.isfinite(entries.data if sparse.issparse(entries) else entries).all():
            return entries
        stored = sparse.coo_array(entries)
        empty = np.isnan(stored.data)
        for bad in np.flatnonzero(np.isinf(stored.data))[:1]:
            place = self._place(int(stored.coords[0][bad]), names[stored.coords[1][bad]])
            raise BadInput(f"{place}: {stored.data[bad]} is not a finite number")
        if holes:
            return entries
        rows, columns = (each[empty] for each in stored.coords)
        first = np.lexsort((columns, rows))[0]
        where = f"{self.where(int(rows[first]))}, column {names[columns[first]]!r}"
        if len(rows) == 1:
            raise BadInput(f"{self.source}, {where}: the cell is empty; {advice}")
        cells = f"{len(rows)} empty cells in {len(set(columns))} of {counted(len(names), 'column')}"
        raise BadInput(f"{self.source} has {cells}, the first in {where}; {advice}")

    def holding(self, columns: Collection[str], features: Sequence[str]) -> Table:
        """The table with what a fit needs at hand, as it is."""
        return self

    def _place(self, row: int, name: str) -> str:
        return f"{self.source}, {self.where(row)}, column {name!r}"

    def _text_sentence(self, texts: Mapping[str, Sequence[str]], *, droppable: bool) -> str:
        """The first word in the first column that has one, and what to do about all such columns."""
        name, cells = next(iter(texts.items()))
        row = next(
            row
            for row, cell in enumerate(cells)
            if not is_missing(cell) and shown_number(cell) is None
        )
        drops = " ".join(f"--drop {shlex.quote(name)}" for name in list(texts)[:3]) + " ..." * (
            len(texts) > 3
        )
        advice = "mend it, or leave the row out"
        if droppable:
            advice = f"mend it, or leave out what holds text with {drops}"
        if droppable and len(set(cells)) == len(cells) > 2 and not any(map(shown_number, cells)):
            advice = f"if this column names the rows, say --id {shlex.quote(name)}; else {advice}"
        if shown_number(cells[row].replace(",", ".", 1)) is not None:
            advice = "write a decimal point"
        elif row == 0 and self.naming is Naming.POSITIONS:
            advice += "; if this line is the header, say --header"
        return f"{self._place(row, name)}: {shortened(cells[row])!r} is not a number; {advice}"


def is_missing(cell: str) -> bool:
    return cell in MISSING


def shown_number(cell: str) -> float | None:
    """The number a cell shows, if any; Python's 1_000 is none."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def truths_as_numbers(cells: Any) -> Any:
    """1 and 0 for text that says true and false in all cells that say something; all else as it is."""
    if not isinstance(cells, list):
        return cells
    values = [np.nan if is_missing(cell) else TRUTHS.get(cell.lower()) for cell in cells]
    return cells if None in values else np.array(values, dtype=np.float64)


def _numbers_or_text(series: Any) -> Any:
    """The cells of a pandas Series as float64, NaN where missing, or as a list of text where some
    are no numbers.
    """
    if series.dtype.kind in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = [
        "" if missing else str(cell).strip()
        for cell, missing in zip(series, series.isna(), strict=True)
    ]
    values = [np.nan if is_missing(cell) else shown_number(cell) for cell in cells]
    return cells if None in values else np.array(values, dtype=np.float64)


# --- reading


def read_table(path: Path, *, header: bool | None = None, row_id: str | None = None) -> Table:
    """The table in a file; its suffix says of which kind it is."""
    table = _parsed(path, read_bytes(file_of(path)), header)
    return table if row_id is None else table.with_ids(table.resolve(row_id, option="--id"))


def read_column(path: Path, count: int, what: str) -> Any:
    """One entry, number or text, for each of `count` things: a column or a row; a header is the one
    line too many.
    """
    content = read_bytes(file_of(path))
    table = _parsed(path, content, header=False)
    if table.rows == count + 1:
        table = _parsed(path, content, header=True)
    cells = table.column(table.names[0])
    if table.rows == 1:
        cells = _numbers_or_text(table.frame[list(table.names)].iloc[0])
    shape = f"{counted(table.rows, 'row')} and {counted(len(table.names), 'column')}"
    fits = len(cells) == count and 1 in (table.rows, len(table.names))
    require(fits, f"{path} has {shape}: give one column, with an entry for each of {count} {what}")
    for row, cell in enumerate(map(str, cells)):
        place = table.where(min(row, table.rows - 1))
        require(
            not is_missing(cell),
            f"{path}, {place}: an entry is missing; give one for each of {count} {what}",
        )
    return cells


def file_of(path: Path) -> Path:
    """The file itself, of a name that may say which array of an NPZ file is meant."""
    name, separator, _ = str(path).rpartition(".npz:")
    return Path(name + ".npz") if separator else path


def _parsed(path: Path, content: bytes, header: bool | None) -> Table:
    file = file_of(path)
    facts = {
        "file": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if file.suffix.lower() == ".gz":
        file = file.with_suffix("")
        content = _decompressed(path, content)
    kind = file.suffix.lower()
    if kind in READERS:
        with _damage(path):
            table = READERS[kind](path, content)
    else:
        table = _text_table(path, content, header, tabs=kind == ".tsv")
    if table.names[:1] == (f"{UNNAMED}0",) and len(table.names) > 1:
        how = f"{table.how}, the first column, which has no name, taken as names of the rows"
        table = replace(table.with_ids(table.names[0]), how=how)
    return replace(table, facts={**facts, "read_as": table.read_as})


def read_bytes(path: Path) -> bytes:
    """The content of a file that has some, or a sentence on why it has none."""
    try:
        status = path.stat()
        require(not stat.S_ISDIR(status.st_mode), f"{path} is a folder: give a file")
        readable = stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
        require(readable, f"{path} is not a file or a pipe: give a file")
        require_memory(2.0 * status.st_size, f"reading {path}", "keep fewer rows")
        content = path.read_bytes()
    except BadInput:
        raise
    except FileNotFoundError as error:
        raise BadInput(f"{path} does not exist: check the name") from error
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    require(bool(content) and not content.isspace(), f"{path} is empty: check how it was written")
    return content


def described(path: Path) -> dict[str, Any]:
    """An input, as a certificate names it."""
    return {"file": str(path), "bytes": file_of(path).stat().st_size}


def _decompressed(path: Path, content: bytes) -> bytes:
    """A text that was packed by gzip, as far as it fits in memory."""
    most = int(min(free_memory() / TEXT_IN_MEMORY, 1e15))
    with _damage(path), gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        text = stream.read(most + 1)
    require(len(text) <= most, f"{path} unpacks to more than fits in memory: keep fewer rows")
    return text


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What libraries say of a broken file has many names; here it has one."""
    try:
        yield
    except (BadInput, ImportError):
        raise
    except Exception as error:
        if "Object arrays" in str(error):
            raise BadInput(
                f"{path} holds pickled Python objects, which could run code: save it as numbers"
            ) from error
        raise BadInput(
            f"{path} is damaged or no {file_of(path).suffix.lower()} file: save it again"
        ) from error


# --- text


def _text_table(path: Path, content: bytes, header: bool | None, *, tabs: bool) -> Table:
    """Lines of cells; a line that begins with # is a comment, and blank ones do not count."""
    require_memory(TEXT_IN_MEMORY * len(content), f"reading {path}", "keep fewer rows")
    decoded = _decoded(path, content)
    text = re.sub("(?m)^#.*$", "", decoded)
    require(
        bool(text.strip()), f"{path} has nothing but blank lines and comments: give rows of cells"
    )
    mark = "\t" if tabs else _delimiter(text)
    frame, lines = _cells(path, text, mark)
    head, below = (
        [cell.strip() for cell in row]
        for row in (*frame[:2].to_numpy(), *[[]] * (2 - len(frame[:2])))
    )
    if header is None:
        header = _is_header(head, below)
    require(len(frame) > header, f"{path} has a header and no rows")
    names = _checked_names(path, head) if header else list(map(str, range(len(head))))
    needed = {
        f"sep={mark or BLANKS!r}": mark != ",",
        "header=None": not header,
        "comment='#'": text != decoded,
        "na_values='?'": "?" in text,
        "skipinitialspace=True": mark is not None and f"{mark} " in text,
        "float_precision='round_trip'": not PANDAS_READS_ALL_DIGITS,
    }
    arguments = [argument for argument, is_needed in needed.items() if is_needed]
    return Table(
        str(path),
        frame[int(header) :].set_axis(names, axis=1).reset_index(drop=True),
        tuple(names),
        Naming.HEADER if header else Naming.POSITIONS,
        how="first line taken as the header"
        if header
        else "no header, so columns are counted from 0",
        lines=lines[int(header) :],
        python=f"pd.read_csv({', '.join([repr(str(path)), *arguments])})",
    )


def _decoded(path: Path, content: bytes) -> str:
    advice = "save it as UTF-8 text, or name its kind by the suffix, as in .npy"
    require(b"\0" not in content, f"{path} holds binary data or UTF-16 text: {advice}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = content[error.start]
        raise BadInput(
            f"{path}, line {line}: byte {byte:#04x} is not UTF-8 text: save it as UTF-8"
        ) from None


def _delimiter(text: str) -> str | None:
    """The mark that splits the first line into most cells; None, for blanks, where only they part
    numbers.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    first = lines[0][: csv.field_size_limit()]
    best = max(DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark))))
    last = lines[-1].split()
    if best not in first and len(last) > 1 and all(shown_number(cell) is not None for cell in last):
        return None
    return best


def _cells(path: Path, text: str, delimiter: str | None) -> tuple[Any, Any]:
    """All cells as text, and the line where each row ends."""
    how = {"sep": BLANKS} if delimiter is None else {"sep": delimiter, "skip_blank_lines": False}
    first = len(text) - len(
        text.lstrip("\r\n")
    )  # the width is that of the first line, which may not be blank
    try:
        frame = pandas.read_csv(
            io.StringIO(text[first:]),
            header=None,
            dtype=object,
            na_filter=False,
            skipinitialspace=True,
            **how,
        )
    except ValueError as error:  # pandas' ParserError is one
        said = first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise BadInput(
            f"{path} is not a table: {said}; give every row the same number of cells"
        ) from None
    lines = text[:first].count("\n") + 1 + np.arange(len(frame))
    if '"' in text:  # a cell in quotes may hold new lines
        lines += np.cumsum(sum(frame[column].str.count("\n").to_numpy() for column in frame))
    blank = np.array(frame[0] == "")
    blank[blank] = (frame[blank].map(str.strip) == "").all(axis=1)
    return frame[~blank], lines[~blank]


def _is_header(head: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a first line names the columns: it has no numbers, or counts them from 0 as pandas
    does.
    """
    numbers = [cell for cell in head if shown_number(cell) is not None]
    if not numbers:
        return any(head)
    return bool(below) and numbers == list(map(str, range(len(numbers))))


def _checked_names(path: Path, cells: Sequence[str]) -> list[str]:
    names = [cell or f"{UNNAMED}{j}" for j, cell in enumerate(cells)]
    twice = pandas.Index(names).duplicated()
    require(
        not twice.any(),
        f"{path}: two columns have the name {names[twice.argmax()]!r}; each needs its own",
    )
    return names


# --- arrays


def _npz_table(path: Path, content: bytes) -> Table:
    """The array that is named, or the only matrix: vectors with an entry for each row can be target
    or weights.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        size = sum(member.file_size for member in archive.zip.infolist())
        require_memory(2.0 * size, f"reading {path}", "keep fewer rows")
        wanted = str(path).removeprefix(str(file_of(path))).removeprefix(":")
        there = not wanted or wanted in archive
        require(there, f"{file_of(path)} has no array {wanted!r}: it holds {', '.join(archive)}")
        arrays = {name: archive[name] for name in ([wanted] if wanted else archive)}
    if {"format", "data", "shape"} <= arrays.keys():  # SciPy's sparse matrices
        matrix = sparse.csr_matrix(sparse.load_npz(io.BytesIO(content)), dtype=np.float64)
        matrix.check_format(full_check=True)
        matrix.sum_duplicates()
        return _array_table(
            path, matrix, {name: arrays[name] for name in arrays if name not in SPARSE_PARTS}
        )
    matrices = [name for name, array in arrays.items() if array.ndim == 2] or list(arrays)
    require(
        bool(matrices), f"{path} holds no arrays: save one with numpy.savez(file, points=array)"
    )
    which = f"{len(matrices)} arrays ({', '.join(matrices)}): say which, as in {path}:{matrices[0]}"
    require(len(matrices) == 1, f"{path} holds {which}")
    return _array_table(path, arrays.pop(matrices[0]), arrays)


def _array_table(path: Path, array: Any, others: Mapping[str, Any]) -> Table:
    """A matrix, its columns counted from 0, or a vector as one column; beside it the vectors that
    go with its rows.
    """
    shape = " x ".join(map(str, array.shape)) or "()"
    kind = "complex numbers" if array.dtype.kind == "c" else f"{array.dtype} of shape {shape}"
    plain = array.ndim in (1, 2) and array.dtype.kind in "fiubUS"
    require(plain, f"{path} holds {kind}: save it as a matrix of real numbers")
    require(0 not in array.shape, f"{path} is empty, of shape {shape}: give one or more rows")
    last = 0 if array.ndim == 1 else array.shape[1] - 1
    require(
        last < LARGEST_INDEX,
        f"{path} has the feature index {last}, beyond the largest allowed, {LARGEST_INDEX}",
    )
    names = tuple(map(str, range(array.shape[1] if array.ndim == 2 else 1)))
    if sparse.issparse(array):
        matrix = array
        frame = pandas.DataFrame(index=pandas.RangeIndex(array.shape[0]))
    else:
        matrix = None
        frame = pandas.DataFrame(_plain_entries(array).reshape(len(array), -1), columns=list(names))
    for name, vector in others.items():
        if vector.shape == (len(frame),) and vector.dtype.kind in "fiubUS" and name not in names:
            frame[name] = _plain_entries(vector)
    return Table(
        str(path), frame, names, Naming.POSITIONS, matrix, how="columns are counted from 0"
    )


def _plain_entries(array: Any) -> Any:
    """Numbers as float64; labels as text."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "backslashreplace")
    return array.astype(object if array.dtype.kind == "U" else np.float64)


def _libsvm_table(path: Path, content: bytes) -> Table:
    """A line is a label and index:value pairs; a column is called by its index in the file."""
    matrix, labels = load_svmlight_file(io.BytesIO(content), zero_based=True, dtype=np.float64)
    from_0 = bool((matrix.indices == 0).any())  # most files count from 1
    naming = Naming.LIBSVM_FROM_0 if from_0 else Naming.LIBSVM
    require(matrix.shape[1] > naming.first, f"{path} holds labels and no features")
    table = _array_table(path, matrix[:, naming.first :], {LABEL: labels})
    names = tuple(str(naming.first + j) for j in range(len(table.names)))
    how = f"features are counted from {naming.first}, and a line begins with its {LABEL!r}"
    return replace(table, names=names, naming=naming, how=how)


def _parquet_table(path: Path, content: bytes) -> Table:
    """Names come from the file, and those of the rows from pandas' index where it was written."""
    parquet = require_extra("pyarrow.parquet", extra="cli", purpose=f"reading {path}")
    file = parquet.ParquetFile(io.BytesIO(content))
    entries = float(file.metadata.num_rows) * file.metadata.num_columns
    require_memory(16.0 * entries, f"reading {path}", "keep fewer rows")
    frame = file.read().to_pandas()
    if frame.index.nlevels > 1:
        frame = frame.reset_index()
    frame.columns = _checked_names(path, [str(name) for name in frame.columns])
    require(
        not frame.empty,
        f"{path} is empty, of shape {' x '.join(map(str, frame.shape))}: give one or more rows",
    )
    how = "names taken from the file"
    if not isinstance(frame.index, pandas.RangeIndex):
        how += ", pandas' index taken as names of the rows"
        frame.index.name = f"{UNNAMED}0" if frame.index.name is None else str(frame.index.name)
    return Table(
        str(path),
        frame,
        tuple(frame.columns),
        how=how,
        python=f"pd.read_parquet({str(path)!r})",
    )


READERS: Mapping[str, Callable[[Path, bytes], Table]] = {
    ".npy": lambda path, content: replace(
        _array_table(path, np.load(io.BytesIO(content), allow_pickle=False), {}),
        python=f"pd.DataFrame(np.load({str(path)!r}))",
    ),
    ".npz": _npz_table,
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), _libsvm_table),
    **dict.fromkeys((".parquet", ".pq"), _parquet_table),
}
"""By the ending of a file; any other is a text."""


# --- memory


def require_memory(needed: float, what: str, remedy: str) -> None:
    """A sentence with both numbers where `what` needs more bytes than there are."""
    free = free_memory()
    sizes = f"about {decimal(int(needed))} of memory, and {decimal(int(min(free, 1e18)))} are free"
    require(needed <= free, f"{what} would need {sizes}: {remedy}")


def require_memory_for_plan(n: int, m: int, remedy: str) -> None:
    require_memory(8.0 * PLANS_AT_ONCE * n * m, f"a plan of {n:,} x {m:,}", remedy)


# --- writing: a name with the ending of a result is that file, and any other name is a folder


def file_to_write(out: Path, name: str, endings: Collection[str]) -> Path:
    """Where a command's one file goes: to `out` itself, or under its usual name to the folder
    `out`.
    """
    ending = out.suffix.lower()
    if ending in endings:
        return out
    folder = not ending or os.path.isdir(out)
    require(
        folder,
        f"--out {out} ends in {ending!r}: choose one of {', '.join(endings)}, or give a folder",
    )
    return out / name


def anything(_file: Path) -> bool:
    """Every file may be replaced."""
    return True


@contextmanager
def written_whole(
    out: Path,
    names: Sequence[str],
    *,
    read: Sequence[Path],
    replaces: Callable[[Path], bool] = anything,
) -> Iterator[Path]:
    """A folder to write files of these names in: all move to the folder `out` when all went well,
    and none when not.

    It lies in `out`, or where that will be. A file that is there already is replaced if `replaces`
    says so, and none that was `read`.
    """
    taken = "a file" if os.path.exists(out) else "the name of a file"
    free = not os.path.exists(out) and out.suffix not in {
        Path(name).suffix for name in names if len(names) > 1
    }
    require(free or os.path.isdir(out), f"--out {out} is {taken}: give a folder")
    for name in names:
        _check_new_file(out / name, read, replaces)
    parent = next(folder for folder in (out, *out.absolute().parents) if os.path.isdir(folder))
    again = os.path.exists(out / "certificate.json")
    try:
        with tempfile.TemporaryDirectory(prefix=".condgrad-", dir=parent) as folder:
            yield Path(folder)
            out.mkdir(parents=True, exist_ok=True)
            for name in names:
                if Path(folder, name).exists():
                    Path(folder, name).replace(out / name)
                elif again:  # of an earlier run: it would pass for a part of this one
                    (out / name).unlink(missing_ok=True)
    except KeyboardInterrupt:
        errors.print("condgrad: interrupted, nothing was written")
        raise
    except OSError as error:  # a full disk or the like
        raise BadInput(f"--out {out} cannot be written: {error.strerror or error}") from error


def _check_new_file(out: Path, read: Sequence[Path], replaces: Callable[[Path], bool]) -> None:
    """A sentence where a file cannot be written without harm to another."""
    if not os.path.exists(
        out
    ):  # unlike Path, os.path has a plain answer for a name that is too long
        return
    require(not out.is_dir(), f"--out {out} is a folder: give a file")
    require(
        out.is_file(), f"--out {out} is a device or a pipe, which a file would replace: give a file"
    )
    for path in filter(os.path.exists, read):
        require(not out.samefile(path), f"--out {out} would overwrite {path}: choose another name")
    foreign = f"--out {out} exists already, and this command did not write it"
    require(replaces(out), f"{foreign}: choose another name, or add --overwrite")


def write_columns(file: Path, columns: Mapping[str, Any], table: Table) -> None:
    """A table as CSV, led by the names of the rows it belongs to, or by their numbers as pandas
    writes its index.
    """
    label = table.frame.index.name or ""
    frame = pandas.DataFrame(dict(columns), index=table.frame.index)
    frame.to_csv(file, index_label="" if label.startswith(UNNAMED) else label, encoding="utf-8")
