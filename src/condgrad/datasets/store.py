"""Data files on disk: where they may lie, how they are verified, how they are written."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER_VARIABLE = "CONDGRAD_DATA"

SHA256: dict[str, str] = {
    "colon.npz": "ecafb0b4d4feb9ad8baae9ecce6f0434ea05ec84c0e84f3a97855cb6264845f3",
    "lymphoma62.npz": "7bfa2b359eee48c55e9654e8267b00da245d128cccc3c605b159dcad66cbd764",
    "lymphoma96.npz": "5f4d41f34ebd04ed32f286e5557ec34705c5db9016d5229ac93079080f35a58a",
}
"""The sums of the files known beforehand; any other file carries its sum beside it, see `recorded_sum`."""


class DataUnavailable(OSError):
    """A data set that is neither on this machine nor could be fetched; the message says how to get it."""


class DataMismatch(OSError):
    """A file or a download that is not the data it should be; nothing of it was used."""


def user_folder() -> Path | None:
    """The folder the user named in the environment, if any."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """The folder for downloads: in XDG_CACHE_HOME where that is set, else where the platform keeps caches."""
    xdg = os.environ.get("XDG_CACHE_HOME")
    # the XDG specification says that a relative path must be ignored
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "condgrad"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "condgrad"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "condgrad" / "Cache"
    return Path.home() / ".cache" / "condgrad"


def candidates(*names: str) -> list[Path]:
    """The places of a data set, in the order they are tried: the user's folder, then the cache."""
    named = user_folder()
    folders = [cache_folder()] if named is None else [named, cache_folder()]
    return [folder / name for folder in folders for name in names]


def read(path: Path) -> dict[str, Any]:
    """The arrays of a file, after its checksum was found right."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    allowed = [known for known in (SHA256.get(path.name), recorded_sum(path)) if known is not None]
    if found not in allowed:
        wanted = " or ".join(allowed) or f"the one in {sum_file(path)}, which is missing"
        raise DataMismatch(
            f"{path} has sha256 {found}, but it must be {wanted}: the file is damaged, incomplete or another one; "
            "delete it, then load again or put the right file there"
        )
    try:
        # pickled objects could run code: plain arrays only
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    # a lone .npy array is no context manager, hence the TypeError
    except (ValueError, EOFError, OSError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataMismatch(
            f"{path} is not an archive of plain NumPy arrays ({error}): write it with numpy.savez_compressed"
        ) from error


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Keep arrays in a file with its checksum beside it; a reader never sees a part of either."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    content = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    # the sum goes first: without its file it is harmless, while a file without its sum would be refused
    line = f"{hashlib.sha256(content).hexdigest()}  {path.name}\n"
    _replace(sum_file(path), line.encode())
    _replace(path, content)


def sum_file(path: Path) -> Path:
    """Where the checksum of a file is recorded, in the format of the command sha256sum."""
    return path.with_name(path.name + ".sha256")


def recorded_sum(path: Path) -> str | None:
    """The checksum recorded beside a file, if any."""
    try:
        words = sum_file(path).read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return None
    return words[0].lower() if words else None


def _replace(path: Path, content: bytes) -> None:
    """Write under a temporary name in the same folder, then rename, which is atomic."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
