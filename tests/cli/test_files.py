"""Reading files: every spelling of a table by one set of rules, and a sentence for every mistake."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from condgrad.cli import files
from condgrad.cli.files import Table, is_missing, read_column, read_table, shown_number
from condgrad.cli.report import BadInput
from condgrad.linear_model.model_file import Naming

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cc"]),
    min_size=1,
    max_size=12,
).filter(
    lambda word: (
        word == word.strip()
        and not is_missing(word)
        and shown_number(word) is None
        and word[0] != "#"
    )
)


def written(folder: Path, content: bytes | str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def values(table: Table) -> Any:
    return table.features(table.names)


def sentence(call: Callable[[], object]) -> str:
    """What a user reads; one sentence, on one line."""
    with pytest.raises(BadInput) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


# --- text


@given(
    cells=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 4)), elements=NUMBERS),
    separator=st.sampled_from([",", ";", "\t", " ", ", ", "|"]),
    ending=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
    mark=st.sampled_from(["", "\ufeff"]),
    last=st.booleans(),
)
def test_every_spelling_of_numbers_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    cells: Any,
    separator: str,
    ending: str,
    header: bool,
    mark: str,
    last: bool,
) -> None:
    lines = (
        ["# a comment", ""]
        + [separator.join(map(repr, row)) for row in cells.tolist()]
        + ["", "# the end"]
    )
    names = [f"name{k}" for k in range(cells.shape[1])]
    if header:
        lines.insert(2, separator.join(names))
    path = written(
        tmp_path_factory.mktemp("table"), mark + ending.join(lines) + (ending if last else "")
    )
    table = read_table(path)
    np.testing.assert_array_equal(values(table), cells)
    assert table.names == tuple(names if header else map(str, range(cells.shape[1])))
    assert table.naming is (Naming.HEADER if header else Naming.POSITIONS)


@st.composite
def mixed_tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    """Names, and columns of numbers (some cells missing) or of words, of one length; the first has no gaps."""
    names = draw(st.lists(WORDS, min_size=2, max_size=5, unique=True))
    rows = draw(st.integers(1, 6))
    cells = {"numbers": st.one_of(NUMBERS, st.none()), "words": WORDS}
    kinds = draw(
        st.lists(st.sampled_from(sorted(cells)), min_size=len(names) - 1, max_size=len(names) - 1)
    )
    columns = [draw(st.lists(cells[kind], min_size=rows, max_size=rows)) for kind in kinds]
    return names, [draw(st.lists(NUMBERS, min_size=rows, max_size=rows)), *columns]


@given(mixed_tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@settings(max_examples=10)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    mixed: tuple[list[str], list[list[Any]]],
    end: str,
    mark: bool,
    packed: bool,
) -> None:
    names, columns = mixed
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator=end)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    content = text.getvalue().encode("utf-8-sig" if mark else "utf-8")
    name = "table.tsv.gz" if packed else "table.tsv"
    table = read_table(
        written(
            tmp_path_factory.mktemp("table"), gzip.compress(content) if packed else content, name
        ),
        header=True,
    )
    assert table.names == tuple(names)
    for name, column in zip(names, columns, strict=True):
        if isinstance(next((cell for cell in column if cell is not None), 0.0), str):
            assert table.column(name) == column
        else:
            np.testing.assert_array_equal(
                table.column(name), [np.nan if cell is None else cell for cell in column]
            )


HEADERS = {
    "pandas' numbers": ("0,1\n0.5,1.5\n2.5,3.5\n", True),
    "pandas' numbers above whole ones": ("0,1\n7,9\n3,4\n", True),
    "pandas' index and numbers": (",0,1\n0,0.5,1.5\n1,2.5,3.5\n", True),
    "years": ("2020,2021\n0.5,1.5\n2.5,3.5\n", False),
    "years above counts": ("2019,2021\n12,7\n30,4\n", False),
    "names and years": ("country,2020,2021\nfr,0.5,1.5\n", False),
    "words": ("x,y\n1,2\n", True),
    "counted from 1": ("1,2,3\n0.5,1.5,2.5\n", False),
    "points": ("0.5,1.5\n2.5,3.5\n", False),
    "whole points": ("1,2\n3,4\n5,6\n", False),
    "whole points from 1": ("1,2,3\n4,5,6\n", False),
    "intervals of years": ("1914,1918\n1939,1945\n", False),
    "a stray word": ("1,two\n3,4\n", False),
    "a word among points": ("p0,1.5,2.5\np1,3.5,4.5\n", False),
    "one row": ("0,1\n", False),
    "a gap": (",2.5\n3,4\n", False),
}


@pytest.mark.parametrize(("content", "header"), HEADERS.values(), ids=HEADERS)
def test_the_header_is_known_by_its_cells(tmp_path: Path, content: str, header: bool) -> None:
    path = written(tmp_path, content)
    lines = content.count("\n")
    assert read_table(path).rows == lines - header
    said = (
        "first line taken as the header" if header else "no header, so columns are counted from 0"
    )
    assert said in read_table(path).read_as
    assert read_table(path, header=False).rows == lines
    if lines > 1:
        assert read_table(path, header=True).rows == lines - 1


@given(
    cells=arrays(
        np.float64, st.tuples(st.integers(2, 5), st.integers(1, 4)), elements=st.floats(-9.5, 9.5)
    ),
    index=st.booleans(),
)
def test_what_pandas_writes_is_read_as_pandas_means_it(
    tmp_path_factory: pytest.TempPathFactory, cells: Any, index: bool
) -> None:
    path = tmp_path_factory.mktemp("table") / "frame.csv"
    pandas.DataFrame(cells).to_csv(path, index=index)
    table = read_table(path)
    np.testing.assert_array_equal(values(table), cells)
    assert table.names == tuple(map(str, range(cells.shape[1])))


def test_the_unnamed_first_column_names_the_rows(tmp_path: Path) -> None:
    path = written(tmp_path, ",x,y\n007,1,2\nb,3,4\n")
    table = read_table(path)
    assert table.names == ("x", "y")
    assert list(table.frame.index) == ["007", "b"]
    assert "the first column, which has no name, taken as names of the rows" in table.read_as
    assert list(read_table(path, row_id="").frame.index) == ["007", "b"]
    for wanted in ("x", "0"):  # a column is named by its number where names are no numbers
        assert read_table(path, row_id=wanted).names == ("y",)
    assert table.resolve("", option="--drop").startswith("Unnamed")
    other = read_table(written(tmp_path, "x,,y\n1,2,3\n"))
    assert other.resolve("", option="--drop") == "Unnamed: 1"
    both = read_table(written(tmp_path, ",,y\n1,2,3\n"))  # the first one names the rows
    assert both.resolve("", option="--drop") == "Unnamed: 1"
    several = read_table(written(tmp_path, "x,,\n1,2,3\n"))
    assert "has no column ''" in sentence(lambda: several.resolve("", option="--drop"))
    odd = read_table(written(tmp_path, "who,3,7\njane,1,2\n"))
    assert "say --header" in sentence(lambda: odd.resolve("who", option="--target"))


def test_a_pandas_index_in_parquet_names_the_rows(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"x": [1.5, None], "n": [1, 2], "who": ["a", None], "ok": [True, False]}, index=["p", "q"]
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert list(table.frame.index) == ["p", "q"]
    np.testing.assert_array_equal(table.column("x"), [1.5, np.nan])
    np.testing.assert_array_equal(table.column("n"), [1.0, 2.0])
    assert (table.column("who"), table.column("ok")) == (["a", ""], ["True", "False"])
    frame.reset_index(drop=True).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").names == ("x", "n", "who", "ok")


def test_quotes_hold_commas_and_new_lines(tmp_path: Path) -> None:
    table = read_table(
        written(
            tmp_path, '\n# note\nwho,"size, cm"\n"Roe, Jane","1.5"\n"two\nlines",2\n\n"x",oops\n'
        )
    )
    assert table.column("who") == ["Roe, Jane", "two\nlines", "x"]
    assert "line 8, column 'size, cm': 'oops' is not a number" in sentence(
        lambda: table.features(["size, cm"])
    )


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("1,2\n3,4\n",))
    writer.start()
    np.testing.assert_array_equal(values(read_table(pipe)), [[1.0, 2.0], [3.0, 4.0]])
    writer.join()


WRONG: dict[str, tuple[bytes | str, str]] = {
    "empty": ("", "is empty"),
    "comments": ("\n \n# nothing\n", "nothing but blank lines and comments"),
    "header only": ("x,y\n", "has a header and no rows"),
    "short row": ("a,b\n1,2\n3\n", "line 3, column 'b': the cell is empty"),
    "long row": ("a,b\n1,2,3\n", "Expected 2 fields in line 2, saw 3"),
    "long row after blanks": ("\n\na,b\n1,2,3\n", "saw 3"),
    "text": ("1,2\n3,oops\n", "line 2, column '1': 'oops' is not a number"),
    "text in the first line": (
        "1,two\n3,4\n",
        "line 1, column '1': 'two' is not a number.*say --header",
    ),
    "decimal comma": (
        "1;2\n1,5;2\n",
        "line 2, column '0': '1,5' is not a number; write a decimal point",
    ),
    "empty cell": ("1,2\n3,\n", "line 2, column '1': the cell is empty"),
    "missing": ("a,b\n1,2\n3,NA\n", "line 3, column 'b': the cell is empty; .*--drop"),
    "infinite": ("a,b\n1,2\n3,1e400\n", "line 3, column 'b': inf is not a finite number"),
    "underscore": ("a,b\n1,2\n3,4\n5,1_000\n", "line 4, column 'b': '1_000' is not a number"),
    "columns of text": ("a,b\nx,y\nz,w\n", "--drop a --drop b"),
    "names to be quoted": ("a b,c\nx,1\n", "--drop 'a b'"),
    "binary": (bytes(range(256)), "holds binary data"),
    "latin-1": (b"a,b\n1,2\n\xe9,3\n", "line 3: byte 0xe9 is not UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "same name": ("a,b,a\n1,2,3\n", "two columns have the name 'a'"),
    "open quote": ('a,b\n"1,2\n', "is not a table: EOF inside string"),
    "web page": ("<html><body>\nnot found\n", "'not found' is not a number"),
}


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_wrong_tables(tmp_path: Path, content: bytes | str, said: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(BadInput, match=said) as caught:
        values(read_table(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "1,2\n")
    os.truncate(path, 1 << 42)
    assert "TB of memory" in sentence(lambda: read_table(path))
    monkeypatch.setattr(files, "free_memory", lambda: 1000)
    packed = written(tmp_path, gzip.compress(b"1,2\n" * 100, mtime=0), "bomb.csv.gz")
    assert "unpacks to more than fits in memory" in sentence(lambda: read_table(packed))


@pytest.mark.parametrize("wanted", ["Price", "pric", "PRICE"])
def test_a_near_name_is_suggested(tmp_path: Path, wanted: str) -> None:
    table = read_table(written(tmp_path, "price,size\n1,2\n"))
    assert "did you mean 'price'" in sentence(lambda: table.resolve(wanted, option="--target"))


# --- arrays


@pytest.mark.parametrize("kind", ["float64", "float32", "int16", "uint8", ">f8", "float16", "bool"])
def test_arrays_of_numbers(tmp_path: Path, kind: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind)
    np.testing.assert_array_equal(values(read_table(written(tmp_path, npy(array), "a.npy"))), array)
    np.testing.assert_array_equal(
        values(read_table(written(tmp_path, npy(np.asfortranarray(array)), "f.npy"))), array
    )
    np.savez_compressed(
        tmp_path / "two.npz", first=array, second=~array if kind == "bool" else array + 1
    )
    np.testing.assert_array_equal(values(read_table(tmp_path / "two.npz:first")), array)
    np.savez(tmp_path / "one.npz", array)
    np.testing.assert_array_equal(values(read_table(tmp_path / "one.npz")), array)


def test_columns_of_a_matrix_may_be_counted_from_the_end(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, npy(np.arange(6.0).reshape(2, 3)), "m.npy"))
    assert table.resolve("-1", option="--target") == "2"
    np.testing.assert_array_equal(table.column("2"), [2.0, 5.0])
    assert "no column '-4'" in sentence(lambda: table.resolve("-4", option="--target"))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_and_dense_files_agree(tmp_path: Path, form: str) -> None:
    matrix = sparse.random_array((7, 5), density=0.4, rng=np.random.default_rng(0), format=form)
    labels = np.arange(7.0)
    sparse.save_npz(tmp_path / "a.npz", matrix)
    np.savez(
        tmp_path / "b.npz",
        X=matrix.toarray(),
        y=labels,
        words=[f"w{k}" for k in range(7)],
        other=np.ones(3),
    )
    dump_svmlight_file(matrix.tocsr(), labels, str(tmp_path / "c.svm"), zero_based=False)
    first, second, third = (read_table(tmp_path / name) for name in ("a.npz", "b.npz", "c.svm"))
    np.testing.assert_allclose(values(first).toarray(), matrix.toarray())
    np.testing.assert_allclose(values(second), matrix.toarray())
    np.testing.assert_allclose(values(third).toarray(), matrix.toarray(), rtol=1e-12)
    assert third.names == ("1", "2", "3", "4", "5")
    assert set(second.apart) == {"y", "words"}
    assert second.column("words")[:2] == ["w0", "w1"]
    np.testing.assert_array_equal(third.column("label"), labels)


def zip_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def huge_header() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": (10**9, 10**6), "fortran_order": False, "descr": "<f8"}
    )
    return file.getvalue()


def damaged_zip() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, np.arange(1000.0).reshape(10, 100) ** 1.3)
    content = bytearray(file.getvalue())
    content[300:400] = bytes(100)
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", npy(np.array([{}, []], dtype=object)), "pickled Python objects"),
        ("a.npy", npy(np.ones((5, 2)))[:-9], "damaged"),
        ("a.npy", npy(np.ones((5, 2)))[:20], "damaged"),
        ("a.npy", b"", "is empty"),
        ("a.npy", b"1,2\n3,4\n", "no .npy file"),
        ("a.npy", npy(np.ones((5, 2, 2))), "of shape 5 x 2 x 2"),
        ("a.npy", npy(np.float64(1.0)), "of shape ()"),
        ("a.npy", npy(np.ones((0, 2))), "is empty, of shape 0 x 2"),
        ("a.npy", npy(np.ones((5, 0))), "is empty, of shape 5 x 0"),
        ("a.npy", npy(np.ones((2, 2), dtype=complex)), "complex numbers"),
        ("a.npy", npy(np.array([["a", "b"]])), "'a' is not a number"),
        (
            "a.npy",
            npy(np.array([[1.0, 2.0], [np.nan, 4.0]])),
            "row 1, column '0': the cell is empty",
        ),
        ("a.npy", npy(np.array([[1.0, np.inf]])), "row 0, column '1': inf is not"),
        ("a.npy", huge_header(), "damaged"),
        ("a.npz", b"PK nothing", "no .npz file"),
        ("a.npz", zip_of("a.npy", npy(np.ones((5, 2))))[:-30], "damaged"),
        ("a.npz", damaged_zip(), "damaged"),
        ("a.npz", zip_of("a.npy", huge_header()), "damaged"),
        ("a.npz", zip_of("a.npy", npy(np.array([[None]]))), "pickled Python objects"),
        ("a.npz", zip_of("readme.txt", b"hello"), "damaged or no .npz file"),
        ("a.npz", b"PK\x05\x06" + bytes(18), "holds no arrays"),
        ("a.parquet", b"PAR1 nothing", "damaged or no .parquet file"),
        ("a.csv.gz", b"nothing", "damaged or no .gz file"),
        ("a.csv.gz", gzip.compress(b"1,2\n" * 99, mtime=0)[:-9], "damaged or no .gz file"),
        ("a.svm", b"1 2:x\n", "damaged or no .svm file"),
        ("a.svm", b"1 99999999:1\n", "beyond the largest allowed"),
        ("a.svm", b"1\n-1\n", "labels and no features"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = written(tmp_path, content, name)
    text = sentence(lambda: values(read_table(path)))
    assert said in text
    assert str(path) in text


def test_sparse_matrices_whose_parts_do_not_fit(tmp_path: Path) -> None:
    good = sparse.csr_matrix(np.eye(2))
    parts = {"data": good.data, "indptr": good.indptr, "shape": [2, 2], "format": b"csr"}
    np.savez(tmp_path / "broken.npz", indices=[0, 9], **parts)
    np.savez(tmp_path / "odd.npz", indices=good.indices, **{**parts, "format": np.array([1, 2])})
    for name in ("broken.npz", "odd.npz"):
        assert "damaged" in sentence(lambda name=name: read_table(tmp_path / name))


def test_which_array_of_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", day1=np.ones((2, 2)), day2=np.ones((3, 2)))
    assert "2 arrays (day1, day2)" in sentence(lambda: read_table(tmp_path / "two.npz"))
    assert "no array 'day3': it holds day1, day2" in sentence(
        lambda: read_table(tmp_path / "two.npz:day3")
    )
    assert "does not exist" in sentence(lambda: read_table(tmp_path / "three.npz:day3"))


def test_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not exist" in sentence(lambda: read_table(tmp_path / "none.csv"))
    assert "does not exist" in sentence(lambda: read_table(tmp_path / "none.npy"))
    assert "is a folder" in sentence(lambda: read_table(tmp_path))
    assert "is not a file or a pipe" in sentence(lambda: read_table(Path("/dev/zero")))
    assert "cannot be read" in sentence(lambda: read_table(Path("x" * 300)))
    assert "cannot be read" in sentence(lambda: read_table(written(tmp_path, "1") / "below.csv"))

    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")  # which a superuser would never see

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert "cannot be read: Permission denied" in sentence(
        lambda: read_table(written(tmp_path, "1,2\n"))
    )


BEGINNINGS = {
    "a.csv": b"a,b\n1,2\n",
    "a.tsv": b"a\tb\n1\t2\n",
    "a.csv.gz": gzip.compress(b"a,b\n", mtime=0)[:-4],
    "a.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2",
    "a.npz": b"PK\x03\x04",
    "a.svm": b"1 2:3\n",
    "a.parquet": b"PAR1",
}


@given(
    content=st.binary(max_size=80),
    name=st.sampled_from(sorted(BEGINNINGS)),
    begins_well=st.booleans(),
)
def test_any_bytes_are_a_table_or_one_sentence(
    content: bytes, name: str, begins_well: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(BEGINNINGS[name] * begins_well + content)
    try:
        table, said = read_table(file), None
    except BadInput as error:
        table, said = None, str(error)
    assert said is None or (name in said and len(said.splitlines()) == 1)
    assert table is None or table.rows > 0


# --- one entry for each of many


@pytest.mark.parametrize(
    "content",
    ["1\n2\n3\n", "1,2,3\n", "weight\n1\n2\n3\n", "1 2 3", ",w\n0,1\n1,2\n2,3\n", "0\n1\n2\n3\n"],
)
def test_weights(tmp_path: Path, content: str) -> None:
    np.testing.assert_array_equal(
        read_column(written(tmp_path, content), 3, "sources"), [1.0, 2.0, 3.0]
    )


def test_weights_in_arrays(tmp_path: Path) -> None:
    for array in (np.arange(1, 4), np.arange(1, 4)[:, None], np.arange(1, 4)[None]):
        found = read_column(written(tmp_path, npy(array), "v.npy"), 3, "sources")
        np.testing.assert_array_equal(found, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "content", ["T cell\nB cell\nT cell\n", "class\nT cell\nB cell\nT cell", "T cell,B cell,T cell"]
)
def test_labels(tmp_path: Path, content: str) -> None:
    assert read_column(written(tmp_path, content), 3, "sources") == ["T cell", "B cell", "T cell"]
    labels = npy(np.array(["a", "b"]))
    assert read_column(written(tmp_path, labels, "l.npy"), 2, "sources") == ["a", "b"]


BAD_COLUMNS: Sequence[tuple[bytes | str, str, str]] = [
    (
        "a\nb\n",
        "t.csv",
        "has 2 rows and 1 column: give one column, with an entry for each of 3 sources",
    ),
    ("a,1\nb,2\nc,3\n", "t.csv", "3 rows and 2 columns"),
    ("a,,b\n", "t.csv", "line 1: an entry is missing"),
    (b"\x00\x01", "t.csv", "holds binary data"),
    (npy(np.array([1.0, np.nan, 2.0])), "l.npy", "row 1: an entry is missing"),
    (npy(np.ones((2, 2))), "l.npy", "2 rows and 2 columns"),
]


@pytest.mark.parametrize(("content", "name", "said"), BAD_COLUMNS)
def test_bad_columns(tmp_path: Path, content: bytes | str, name: str, said: str) -> None:
    assert said in sentence(lambda: read_column(written(tmp_path, content, name), 3, "sources"))


def test_what_is_true_or_false_is_a_number_among_features(tmp_path: Path) -> None:
    text = read_table(written(tmp_path, "a,b,c\nTrue,false,1\nFalse,true,2\nTRUE,true,3\n"))
    stored = tmp_path / "t.parquet"
    pandas.DataFrame(
        {"a": [True, False, True], "b": [False, True, True], "c": [1, 2, 3]}
    ).to_parquet(stored)
    for table in (text, read_table(stored)):
        np.testing.assert_array_equal(
            table.features(("a", "b", "c")), [[1, 0, 1], [0, 1, 2], [1, 1, 3]]
        )
    assert text.column("a") == [
        "True",
        "False",
        "TRUE",
    ]  # as a target it has the names that it came with
    mixed = read_table(written(tmp_path, "a\nTrue\nmaybe\n"))
    assert "'True' is not a number" in sentence(lambda: mixed.features(("a",)))
