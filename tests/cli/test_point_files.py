"""Reading numbers from files: every spelling of a table, and a sentence for every mistake."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from condgrad.cli.outcome import BadInput
from condgrad.cli.point_files import read_labels, read_matrix, read_points, read_vector

finite = st.floats(allow_nan=False, allow_infinity=False)


def written(folder: Path, content: bytes | str, name: str = "points.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def sentence(call: Callable[[], object]) -> str:
    """What a user reads; one sentence, on one line."""
    with pytest.raises(BadInput) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


# --- what can be read ---


@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 4)), elements=finite),
    separator=st.sampled_from([",", ";", "\t", " ", ", "]),
    ending=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
    mark=st.sampled_from(["", "\ufeff"]),
    last=st.booleans(),
)
def test_every_spelling_of_a_table_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    values: Any,
    separator: str,
    ending: str,
    header: bool,
    mark: str,
    last: bool,
) -> None:
    lines = ["# a comment", ""] + [separator.join(map(repr, row)) for row in values.tolist()] + ["", "# the end"]
    names = [f"name{k}" for k in range(values.shape[1])]
    if header:
        lines.insert(2, separator.join(names))
    path = written(tmp_path_factory.mktemp("table"), mark + ending.join(lines) + (ending if last else ""))
    table = read_points(path)
    np.testing.assert_array_equal(table.values, values)
    assert table.names == (tuple(names) if header else None)


def test_quoted_cells(tmp_path: Path) -> None:
    table = read_points(written(tmp_path, '"x, in m","y"\n"1","2.5"\n3,4\n'))
    assert table.names == ("x, in m", "y")
    np.testing.assert_array_equal(table.values, [[1.0, 2.5], [3.0, 4.0]])


@pytest.mark.parametrize("kind", ["float64", "float32", "int16", "uint8", ">f8", "float16"])
def test_arrays_of_numbers(tmp_path: Path, kind: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(kind)
    np.testing.assert_array_equal(read_matrix(written(tmp_path, npy(values), "a.npy")), values)
    np.testing.assert_array_equal(read_matrix(written(tmp_path, npy(np.asfortranarray(values)), "f.npy")), values)
    np.savez_compressed(tmp_path / "two.npz", first=values, second=values + 1)
    np.testing.assert_array_equal(read_matrix(tmp_path / "two.npz:second"), values + 1)
    np.savez(tmp_path / "one.npz", values)
    np.testing.assert_array_equal(read_matrix(tmp_path / "one.npz"), values)


@pytest.mark.parametrize("content", ["1\n2\n3\n", "1,2,3\n", "weight\n1\n2\n3\n", "1 2 3"])
def test_vectors(tmp_path: Path, content: str) -> None:
    np.testing.assert_array_equal(read_vector(written(tmp_path, content)), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(read_vector(written(tmp_path, npy(np.arange(1, 4)), "v.npy")), [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "content", ["T cell\nB cell\nT cell\n", "class\nT cell\nB cell\nT cell", "T cell,B cell,T cell"]
)
def test_labels(tmp_path: Path, content: str) -> None:
    assert read_labels(written(tmp_path, content), 3).tolist() == ["T cell", "B cell", "T cell"]


def test_labels_in_arrays(tmp_path: Path) -> None:
    assert read_labels(written(tmp_path, npy(np.array(["a", "b"])), "l.npy"), 2).tolist() == ["a", "b"]
    assert read_labels(written(tmp_path, npy(np.array([[0], [1]])), "l.npy"), 2).tolist() == [0, 1]


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("1,2\n3,4\n",))
    writer.start()
    np.testing.assert_array_equal(read_points(pipe).values, [[1.0, 2.0], [3.0, 4.0]])
    writer.join()


# --- what cannot ---


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n \n# nothing\n", "nothing but blank lines and comments"),
        ("x,y\n", "a header and no rows"),
        ("1,2\n\n3\n", "line 3, has 1 value where the lines before have 2"),
        ("x,y\n1,2,3\n", "line 2, has 3 values where the lines before have 2"),
        ("1,2\n3,oops\n", "line 2, column 2, is 'oops', which is not a number"),
        ("1,two\n3,4\n", "line 1, column 2, is 'two'"),
        ("1;2\n1,5;2\n", "line 2, column 1, is '1,5', which is not a number: write a decimal point"),
        ("1,2\n3,\n", "line 2, column 2, is empty"),
        ("1,2\n3,nan\n", "line 2, column 2, is nan"),
        ("1,2\n-inf,3\n", "line 2, column 1, is -inf"),
        ("1,2\n1e999,3\n", "line 2, column 1, is 1e999"),
        (",x,y\n0,1,2\n", "to_csv(index=False)"),
        (bytes(range(256)), "holds binary data"),
        (b"1,2\n\xff\xfe\n", "line 2: byte 0xff is not UTF-8 text"),
        ("1,2\n".encode("utf-16"), "is UTF-16 text"),
        ("1,2\n3,1_000\n", "line 2, column 2, is '1_000', which is not a number"),
        ("1," + "x" * 10_000, "..."),
        ("<html><body>\nnot found\n", "line 2, has 2 values where the lines before have 1"),
    ],
)
def test_bad_text(tmp_path: Path, content: bytes | str, said: str) -> None:
    path = written(tmp_path, content)
    text = sentence(lambda: read_points(path))
    assert said in text
    assert str(path) in text


def damaged_zip() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, np.arange(1000.0).reshape(10, 100) ** 1.3)
    content = bytearray(file.getvalue())
    content[300:400] = bytes(100)
    return bytes(content)


def zip_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def huge_header() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": (10**9, 10**6), "fortran_order": False, "descr": "<f8"})
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", npy(np.array([{}, []], dtype=object)), "pickled Python objects"),
        ("a.npy", npy(np.ones((5, 2)))[:-9], "damaged"),
        ("a.npy", npy(np.ones((5, 2)))[:20], "damaged"),
        ("a.npy", b"", "is empty"),
        ("a.npy", b"1,2\n3,4\n", "no .npy file"),
        ("a.npy", npy(np.ones(5)), "has shape 5"),
        ("a.npy", npy(np.ones((5, 2, 2))), "has shape 5 x 2 x 2"),
        ("a.npy", npy(np.float64(1.0)), "has shape ()"),
        ("a.npy", npy(np.ones((0, 2))), "is empty, of shape 0 x 2"),
        ("a.npy", npy(np.ones((5, 0))), "is empty, of shape 5 x 0"),
        ("a.npy", npy(np.ones((2, 2), dtype=complex)), "complex numbers"),
        ("a.npy", npy(np.ones((2, 2), dtype=bool)), "true and false"),
        ("a.npy", npy(np.array([["a", "b"]])), "entries of type <U1"),
        ("a.npy", npy(np.array([[1.0, 2.0], [np.nan, 4.0]])), "row 2, column 1, is nan"),
        ("a.npy", npy(np.array([[1.0, np.inf]])), "row 1, column 2, is inf"),
        ("a.npy", huge_header(), "would need about"),
        ("a.npz", b"PK nothing", "no .npz file"),
        ("a.npz", zip_of("a.npy", npy(np.ones((5, 2))))[:-30], "damaged"),
        ("a.npz", damaged_zip(), "damaged"),
        ("a.npz", zip_of("a.npy", huge_header()), "would need about"),
        ("a.npz", zip_of("a.npy", npy(np.array([[None]]))), "pickled Python objects"),
        ("a.npz", zip_of("readme.txt", b"hello"), "damaged or no .npz file"),
        ("a.npz", b"PK\x05\x06" + bytes(18), "holds no arrays"),
    ],
)
def test_bad_arrays(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = written(tmp_path, content, name)
    text = sentence(lambda: read_points(path))
    assert said in text
    assert str(path) in text


def test_which_array_of_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", day1=np.ones((2, 2)), day2=np.ones((3, 2)))
    assert "2 arrays (day1, day2)" in sentence(lambda: read_points(tmp_path / "two.npz"))
    assert "no array 'day3': it holds day1, day2" in sentence(lambda: read_points(tmp_path / "two.npz:day3"))
    assert "does not exist" in sentence(lambda: read_points(tmp_path / "three.npz:day3"))


def test_no_such_file(tmp_path: Path) -> None:
    assert "does not exist" in sentence(lambda: read_points(tmp_path / "none.csv"))
    assert "does not exist" in sentence(lambda: read_points(tmp_path / "none.npy"))
    assert "is a folder" in sentence(lambda: read_points(tmp_path))
    assert "neither a file nor a pipe" in sentence(lambda: read_points(Path("/dev/zero")))
    assert "cannot be read" in sentence(lambda: read_points(Path("x" * 300)))
    assert "cannot be read" in sentence(lambda: read_points(written(tmp_path, "1") / "below.csv"))


def test_no_right_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal, which a superuser would never see."""

    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert "cannot be read: Permission denied" in sentence(lambda: read_points(written(tmp_path, "1,2\n")))


def test_a_text_larger_than_memory(tmp_path: Path) -> None:
    path = written(tmp_path, "1,2\n")
    os.truncate(path, 1 << 42)
    assert "TB of memory" in sentence(lambda: read_points(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\nb\n", "2 labels for 3 sources"),
        ("a,1\nb,2\nc,3\n", "line 1, has 2 columns"),
        ("a,,b\n", "line 1, has an empty label"),
        (b"\x00\x01", "holds binary data"),
    ],
)
def test_bad_labels(tmp_path: Path, content: bytes | str, said: str) -> None:
    assert said in sentence(lambda: read_labels(written(tmp_path, content), 3))


def test_bad_labels_in_arrays(tmp_path: Path) -> None:
    assert "NaN" in sentence(lambda: read_labels(written(tmp_path, npy(np.array([1.0, np.nan])), "l.npy"), 2))
    assert "one label for each" in sentence(lambda: read_labels(written(tmp_path, npy(np.ones((2, 2))), "l.npy"), 2))


def test_a_matrix_is_no_vector(tmp_path: Path) -> None:
    assert "has shape 2 x 2: give one column" in sentence(lambda: read_vector(written(tmp_path, "1,2\n3,4\n")))
