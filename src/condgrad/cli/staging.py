"""Files that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from condgrad.cli.outcome import BadInput


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A folder to write in; its files move to `out` when all went well, and vanish when not."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file: give a folder")
    parent = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
    try:
        folder = Path(tempfile.mkdtemp(prefix=".condgrad-", dir=parent))
    except OSError as error:
        raise BadInput(f"--out {out} cannot be written: {error.strerror}") from error
    try:
        yield folder
        out.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.iterdir()):
            file.replace(out / file.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
