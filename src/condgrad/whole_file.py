"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which gets its name once all is written."""
    _sweep_unfinished(path)
    # beside its place, so that the move is one step of the file system
    unfinished = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _sweep_unfinished(path: Path) -> None:
    """Delete what processes of this machine that were killed as they wrote left beside a file.

    The name of such a file ends with that of its machine and the number of its process: others may
    write to the same folder at the same time.
    """
    begin = f".{path.name}.{platform.node()}."
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(begin)]
    for name in names:
        process, _, rest = name.removeprefix(begin).partition(".")
        if rest == "unfinished" and process.isdecimal() and not _is_running(int(process)):
            path.with_name(name).unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Whether this machine has a process of that number; taken for granted where asking would end
    it.
    """
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
