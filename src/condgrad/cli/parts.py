"""Many files as one table: each is a block of rows that a worker of Dask reads, by the rules of
`files`, and keeps.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from condgrad.cli import report
from condgrad.cli.files import Table, read_table
from condgrad.cli.report import BadInput, counted, require
from condgrad.errors import listed, require_extra
from condgrad.progress import LiveLine
from condgrad.smooth.row_blocks import RowBlocks, dask


def is_pattern(path: Path) -> bool:
    """Whether a name stands for many files, as part-*.parquet does."""
    return glob.has_magic(str(path)) and not path.exists()


def matched(pattern: Path) -> list[Path]:
    """The files of a pattern, in the order of their names."""
    files = sorted(map(Path, glob.glob(str(pattern), recursive=True)))
    require(bool(files), f"{pattern} matches no file: check the pattern")
    return files


class Part(NamedTuple):
    """What a worker keeps of a file, and what it tells of it."""

    matrix: Any
    columns: dict[str, Any]
    """The target and the weights: an array of numbers or a list of text."""
    rows: int
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class PartsTable(Table):
    """The columns of the first file, and the rows of all."""

    files: tuple[Path, ...] = ()
    header: bool | None = None
    row_id: str | None = None
    sizes: tuple[int, ...] = ()
    """The rows of each file, once they are read."""
    blocks: Any = None
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def where(self, row: int) -> str:
        part = int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))
        return f"row {row - sum(self.sizes[:part])} of {self.files[part]}"

    def column(self, name: str) -> Any:
        return self.columns[name]

    def features(self, names: Sequence[str], **options: Any) -> RowBlocks:
        return self.blocks

    def holding(self, columns: Collection[str], features: Sequence[str]) -> PartsTable:
        """The table with some columns read here, and the features read on the workers, where they
        stay.
        """
        distributed = require_extra("distributed", extra="dask", purpose="fitting many files")
        client = distributed.get_client()
        first = (str(self.files[0]), self.names)
        parts = [
            client.submit(
                read_part,
                file,
                self.header,
                self.row_id,
                first,
                sorted(columns),
                features,
                pure=False,
            )
            for file in self.files
        ]
        with ExitStack() as stack:
            line = (
                stack.enter_context(LiveLine(report.errors)) if report.errors.is_terminal else None
            )
            for done, _ in enumerate(distributed.as_completed(parts), start=1):
                if line is not None:
                    line.show(f"read {done} of {counted(len(parts), 'file')}")
        told = client.gather([client.submit(_without_matrix, part) for part in parts])
        sizes = tuple(part.rows for part in told)
        delayed = dask("delayed").delayed
        array = dask("array")
        matrices = [
            array.from_delayed(
                delayed(_matrix_of_part)(part), shape=(size, len(features)), dtype=np.float64
            )
            for part, size in zip(parts, sizes, strict=True)
        ]
        whole = replace(
            self,
            how=f"{counted(len(parts), 'file')}, {self.how}",
            sizes=sizes,
            blocks=RowBlocks(array.concatenate(matrices)),
            columns={
                name: _joined_column([part.columns[name] for part in told]) for name in columns
            },
        )
        facts = {
            "file": self.source,
            "files": [part.facts for part in told],
            "read_as": whole.read_as,
        }
        return replace(whole, facts=facts)


@contextmanager
def opened(
    pattern: Path, *, header: bool | None, row_id: str | None, scheduler: str | None
) -> Iterator[PartsTable]:
    """The files of a pattern as a table, while a cluster is there to read them, a user's or of
    threads.
    """
    distributed = require_extra("distributed", extra="dask", purpose="fitting many files")
    files = matched(pattern)
    first = read_table(files[0], header=header, row_id=row_id)
    with ExitStack() as stack:
        if scheduler is None:
            stack.enter_context(
                threadpool_limits(1)
            )  # the workers are as many threads as there are cores
            cluster = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=os.cpu_count(),
                processes=False,
                dashboard_address=":0",
                # what is wrong with a file is said once, in a sentence
                silence_logs=logging.CRITICAL,
            )
            scheduler = stack.enter_context(cluster).scheduler_address
        try:
            stack.enter_context(distributed.Client(scheduler, timeout=10))
        except (OSError, ValueError) as error:
            raise BadInput(
                f"--scheduler {scheduler}: no Dask scheduler answers there: {error}"
            ) from error
        yield PartsTable(
            str(pattern), first.frame[:0], first.names, first.naming, how=first.how, facts=first.facts,
            files=tuple(files), header=header, row_id=row_id,
        )  # fmt: skip


# --- what runs on the workers


def read_part(
    file: Path,
    header: bool | None,
    row_id: str | None,
    first: tuple[str, Sequence[str]],
    columns: Sequence[str],
    features: Sequence[str],
) -> Part:
    """A file as a block, whose columns must be those of the first file."""
    table = read_table(file, header=header, row_id=row_id)
    source, names = first
    absent = [name for name in names if name not in table.names]
    more = [name for name in table.names if name not in names]
    require(
        not absent,
        f"{file} lacks {listed(absent)}, which {source} has: give files of the same columns",
    )
    require(
        not more,
        f"{file} has {listed(more)}, which {source} has not: give files of the same columns",
    )
    cells = {name: table.column(name) for name in columns}
    return Part(table.features(features), cells, table.rows, dict(table.facts))


def _without_matrix(part: Part) -> Part:
    """A part without its matrix."""
    return part._replace(matrix=None)


def _matrix_of_part(part: Part) -> Any:
    return part.matrix


def _joined_column(columns: Sequence[Any]) -> Any:
    """A column of all files: numbers where it is numbers in all, else text."""
    if not any(isinstance(cells, list) for cells in columns):
        return np.concatenate(columns)
    return [
        cell if isinstance(cell, str) else _as_text(cell) for cells in columns for cell in cells
    ]


def _as_text(number: float) -> str:
    """A number with all its digits and no others, as files have it that hold text beside it."""
    return np.format_float_positional(number, trim="-")
