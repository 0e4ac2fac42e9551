"""What any file may be: text, or arrays in NumPy's formats; what is wrong with it is said in one sentence."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from condgrad.cli.memory import require_memory
from condgrad.cli.outcome import BadInput


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
        raise BadInput(_empty(path))


def read_bytes(path: Path, *, copies: float = 2.0) -> bytes:
    """The content of a file that has some; `copies` is how often it will be in memory, in one shape or another."""
    check_file(path)
    try:
        require_memory(copies * path.stat().st_size, f"reading {path}", "keep fewer rows")
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from error
    if not content or content.isspace():
        raise BadInput(_empty(path))
    return content


def decoded(path: Path, content: bytes) -> str:
    """The text of a file."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{path} is UTF-16 text: save it as UTF-8")
    if b"\0" in content:
        raise BadInput(f"{path} holds binary data: give text (CSV, TSV), or name its kind by the suffix, as in .npy")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = content[error.start]
        raise BadInput(f"{path}, line {line}: byte {byte:#04x} is not UTF-8 text: save it as UTF-8") from None


def npy_array(path: Path, content: bytes) -> Any:
    with _damage(path):
        return _array(path, io.BytesIO(content))


def npz_names(path: Path, content: bytes) -> list[str]:
    with _damage(path), zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def npz_array(path: Path, content: bytes, name: str) -> Any:
    with _damage(path), zipfile.ZipFile(io.BytesIO(content)) as archive:
        stored = next(entry for entry in archive.namelist() if entry.removesuffix(".npy") == name)
        return _array(path, archive.open(stored))


def number(cell: str) -> float | None:
    """The number a cell shows, if any; Python's 1_000 is none."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(count: int, what: str) -> str:
    """A number of things, such as "1 cell" or "2 cells"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _empty(path: Path) -> str:
    return f"{path} is empty: check how it was written"


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
def _damage(path: Path) -> Iterator[None]:
    """What NumPy and ZIP say of a broken file has many names; here it has one."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        kind = path.suffix.lower()
        raise BadInput(f"{path} is damaged or no {kind} file: save it again with numpy") from error
