"""Files that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from condgrad.cli.outcome import BadInput


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A folder to write in; its files move to `out` when all went well, and vanish when not."""
    check_folder(out)
    parent = next(folder for folder in (out, *out.absolute().parents) if os.path.isdir(folder))
    with writing(out):
        folder = Path(tempfile.mkdtemp(prefix=".condgrad-", dir=parent))
        try:
            yield folder
            out.mkdir(parents=True, exist_ok=True)
            for file in sorted(folder.iterdir()):
                file.replace(out / file.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """A full disk or the like, as one sentence."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"--out {out} cannot be written: {error.strerror or error}") from error


def check_folder(out: Path) -> None:
    if os.path.exists(out) and not out.is_dir():
        raise BadInput(f"--out {out} is a file: give a folder")


def check_new_file(out: Path, *read: Path) -> None:
    """A sentence where a file cannot be written without harm to another."""
    if not os.path.exists(out):  # unlike Path, os.path has a plain answer for a name that is too long
        return
    if out.is_dir():
        raise BadInput(f"--out {out} is a folder: give a file")
    if not out.is_file():
        raise BadInput(f"--out {out} is a device or a pipe, which a file would replace: give a file")
    for path in read:
        if os.path.exists(path) and out.samefile(path):
            raise BadInput(f"--out {out} would overwrite {path}: choose another name")
