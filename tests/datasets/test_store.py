"""Files are read only when their checksum is right, and written whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condgrad.datasets import DataMismatch, store

ARRAYS = {
    "X": np.arange(6.0).reshape(3, 2),
    "y": np.array([1, -1, 1], dtype=np.int8),
    "names": np.array(["a", "bc"]),
}


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def record(path: Path, content: bytes) -> None:
    """Write a file and its checksum as a user would, with sha256sum."""
    path.write_bytes(content)
    store.sum_file(path).write_text(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")


def archive(**arrays: Any) -> bytes:
    """The bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_what_is_written_is_read_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.npz"
    store.keep(path, ARRAYS)
    back = store.read(path)
    assert back.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(back[name], values)
        assert back[name].dtype == values.dtype
    assert contents(path.parent).keys() == {"a.npz", "a.npz.sha256"}


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    """So two processes that fetch at once cannot leave a file beside the other's sum."""
    for folder in ("one", "two"):
        store.keep(tmp_path / folder / "a.npz", ARRAYS)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    with zipfile.ZipFile(tmp_path / "one" / "a.npz") as written:
        assert {member.date_time[0] for member in written.infolist()} == {1980}, (
            "the time of writing is in the bytes"
        )


@given(position=st.integers(0, 10**6), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damage_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, position: int, flip: int, cut: bool
) -> None:
    path = tmp_path_factory.mktemp("damage") / "a.npz"
    store.keep(path, ARRAYS)
    content = bytearray(path.read_bytes())
    right = hashlib.sha256(content).hexdigest()
    position %= len(content)
    if cut:
        del content[position:]
    else:
        content[position] ^= flip
    path.write_bytes(content)
    with pytest.raises(DataMismatch) as caught:
        store.read(path)
    for part in (str(path), right, hashlib.sha256(content).hexdigest(), "delete it"):
        assert part in str(caught.value)


def test_the_known_sum_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = tmp_path / "colon.npz", archive(X=np.eye(2))
    path.write_bytes(content)
    known = store.SHA256["colon.npz"]
    with pytest.raises(DataMismatch, match=known):
        store.read(path)
    monkeypatch.setitem(store.SHA256, "colon.npz", hashlib.sha256(content).hexdigest())
    np.testing.assert_array_equal(store.read(path)["X"], np.eye(2))


def test_a_file_without_any_sum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(archive(X=np.eye(2)))
    with pytest.raises(DataMismatch, match=r"a\.npz\.sha256, which is missing"):
        store.read(path)
    store.sum_file(path).write_text("")
    with pytest.raises(DataMismatch, match="which is missing"):
        store.read(path)


def test_a_sum_in_capitals_is_the_same_sum(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    record(path, archive(X=np.eye(2)))
    store.sum_file(path).write_text(store.sum_file(path).read_text().upper())
    assert store.read(path).keys() == {"X"}


class Bomb:
    """An object that would run code if it were unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("exploded",)


def lone_array() -> bytes:
    """The bytes of an npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        pickle.dumps(Bomb()),
        archive(X=np.array([Bomb()], dtype=object)),
        lone_array(),
    ],
    ids=["empty", "text", "pickle", "archive with a pickle", "lone array"],
)
def test_only_archives_of_plain_arrays_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.npz"
    record(path, content)
    with pytest.raises(DataMismatch, match="not an archive of plain NumPy arrays"):
        store.read(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("failing", ["savez_compressed", "move"])
def test_a_failed_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """The disk is full as the file is written, or its renaming fails."""
    path = tmp_path / "a.npz"

    def full(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(np if failing == "savez_compressed" else shutil, failing, full)
        with pytest.raises(OSError, match="disk full"):
            store.keep(path, ARRAYS)
    assert contents(tmp_path).keys() <= {"a.npz.sha256"}
    store.keep(path, ARRAYS)
    assert store.read(path).keys() == ARRAYS.keys()


def test_a_reader_never_sees_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the file is renamed, it and its sum are complete, the file under another name in the same folder."""
    path, rename, seen = tmp_path / "a.npz", shutil.move, []

    def watching(source: str, target: str) -> None:
        assert not path.exists()
        assert Path(source).parent == Path(target).parent
        seen.extend([Path(source).read_bytes(), store.sum_file(path).read_bytes()])
        rename(source, target)

    monkeypatch.setattr(shutil, "move", watching)
    store.keep(path, ARRAYS)
    assert seen == [path.read_bytes(), store.sum_file(path).read_bytes()]


def test_the_cache_is_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert store.cache_folder() == Path(platformdirs.user_cache_dir("condgrad", appauthor=False))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert store.cache_folder() == tmp_path / "condgrad"


def test_the_named_folder_comes_first(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert list(store.candidates("a", "b")) == [cache / "a", cache / "b"]
    monkeypatch.setenv("CONDGRAD_DATA", "~/mine")
    mine = Path.home() / "mine"
    assert list(store.candidates("a", "b")) == [mine / "a", mine / "b", cache / "a", cache / "b"]
    monkeypatch.setenv("CONDGRAD_DATA", "")
    assert list(store.candidates("a")) == [cache / "a"]
