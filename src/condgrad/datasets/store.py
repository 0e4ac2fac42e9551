"""Data files on disk: where they may lie, how they are verified, how a download is stored."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.errors import require_extra

FOLDER_VARIABLE = "CONDGRAD_DATA"

SHA256: dict[str, str] = {
    "colon.npz": "ecafb0b4d4feb9ad8baae9ecce6f0434ea05ec84c0e84f3a97855cb6264845f3",
    "lymphoma62.npz": "7bfa2b359eee48c55e9654e8267b00da245d128cccc3c605b159dcad66cbd764",
    "lymphoma96.npz": "5f4d41f34ebd04ed32f286e5557ec34705c5db9016d5229ac93079080f35a58a",
}
"""The sums of the files known beforehand; any other file carries its sum beside it, see `sum_file`.
"""


class DataUnavailable(OSError):
    """Raised if a data set is not on this machine and cannot be downloaded.

    The message says how to get it.

    Examples
    --------
    It is an `OSError`:

    >>> import condgrad as cg
    >>> issubclass(cg.datasets.DataUnavailable, OSError)
    True
    """


class DataMismatch(OSError):
    """Raised if a file or a download is not the expected data. No part of it is used.

    Examples
    --------
    >>> import condgrad as cg
    >>> issubclass(cg.datasets.DataMismatch, OSError), issubclass(cg.datasets.DataMismatch, cg.datasets.DataUnavailable)
    (True, False)
    """


def user_folder() -> Path | None:
    """The folder the user named in the environment, if any."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """The folder for downloads, where the platform keeps caches."""
    platformdirs = require_extra("platformdirs", extra="data", purpose="the cache of data sets")
    return Path(platformdirs.user_cache_dir("condgrad", appauthor=False))


def candidates(*names: str) -> Iterator[Path]:
    """The places of a data set, in the order they are tried: the user's folder, then the cache."""
    named = user_folder()
    if named is not None:
        yield from (named / name for name in names)
    cache = cache_folder()
    yield from (cache / name for name in names)


def read(path: Path) -> dict[str, Any]:
    """The arrays of a file, after its checksum was right."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    recorded = (
        sum_file(path).read_text(encoding="utf-8", errors="replace")
        if sum_file(path).is_file()
        else ""
    )
    allowed = [*filter(None, [SHA256.get(path.name)]), *recorded.lower().split()[:1]]
    if digest not in allowed:
        wanted = " or ".join(allowed) or f"the one in {sum_file(path)}, which is missing"
        raise DataMismatch(
            f"{path} has sha256 {digest}, but it must be {wanted}: the file is damaged, incomplete or another one; "
            "delete it, then load again, or put the right file in its place"
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


def keep(path: Path, arrays: Mapping[str, Any]) -> None:
    """Keep arrays in a file with its checksum beside it; pooch writes it under another name first,
    then renames.
    """
    pooch = require_extra("pooch", extra="data", purpose="keeping a download")
    pooch.get_logger().setLevel("WARNING")

    def write(_address: str, part: str, _pooch: Any) -> None:
        with open(part, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        # the sum goes first: without its file it is harmless, while a file without its sum would be
        # refused
        sum_file(path).write_text(f"{pooch.file_hash(part)}  {path.name}\n", encoding="utf-8")

    pooch.retrieve(path.name, known_hash=None, fname=path.name, path=path.parent, downloader=write)


def sum_file(path: Path) -> Path:
    """Where the checksum of a file is recorded, in the format of the command sha256sum."""
    return path.with_name(path.name + ".sha256")
