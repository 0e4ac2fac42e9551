"""Tables as text: what is written is read, and what is wrong is named by line and column."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from condgrad.cli.files import number
from condgrad.cli.fit_matrices import read_table
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Table, is_missing, read_text_table

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cc"]), max_size=12).filter(
    lambda word: word == word.strip() and not is_missing(word) and number(word) is None
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    """Names, and columns of numbers (some cells missing) or of words, of one length."""
    names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(1, 6))
    cells = {"numbers": st.one_of(NUMBERS, st.none()) if len(names) > 1 else NUMBERS, "words": WORDS}
    kinds = draw(st.lists(st.sampled_from(sorted(cells)), min_size=len(names), max_size=len(names)))
    return names, [draw(st.lists(cells[kind], min_size=rows, max_size=rows)) for kind in kinds]


def written(names: Sequence[str], columns: Sequence[Sequence[Any]], *, delimiter: str, end: str, bom: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode("utf-8-sig" if bom else "utf-8")


def read(content: str | bytes, name: str = "data.csv") -> Table:
    return read_text_table(Path(name), content.encode() if isinstance(content, str) else content)


@given(tables(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_what_is_written_is_read(table: tuple[list[str], list[list[Any]]], end: str, bom: bool) -> None:
    names, columns = table
    found = read(written(names, columns, delimiter="\t", end=end, bom=bom), "data.tsv")
    assert found.names == tuple(names)
    for name, column in zip(names, columns, strict=True):
        if isinstance(next((cell for cell in column if cell is not None), 0.0), str):
            assert found.column(name) == column
        else:
            np.testing.assert_array_equal(found.column(name), [np.nan if cell is None else cell for cell in column])


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=5), st.sampled_from(",;\t|"))
def test_the_delimiter_is_found(rows: list[list[float]], delimiter: str) -> None:
    columns = list(zip(*rows, strict=True))
    found = read(written(["a, b", "c", "d"], columns, delimiter=delimiter, end="\n", bom=False))
    assert found.names == ("a, b", "c", "d")
    np.testing.assert_array_equal(found.features(found.names), rows)


def test_quotes_hold_commas_and_new_lines() -> None:
    found = read('who,"size, cm"\n"Roe, Jane","1.5"\n"two\nlines",2\n"x",oops\n')
    assert list(found.texts["who"]) == ["Roe, Jane", "two\nlines", "x"]
    with pytest.raises(BadInput, match=r"line 5, column 'size, cm': 'oops' is not a number"):
        found.features(["size, cm"])


def test_more_rows_than_are_read_at_a_time() -> None:
    column = np.arange(10_000.0)
    found = read("a,b\n" + "".join(f"{int(x)},{x / 7!r}\n" for x in column.tolist()) + "stray,1\n")
    np.testing.assert_array_equal(found.column("b")[:-1], column / 7)
    assert found.column("a")[-1] == "stray"
    with pytest.raises(BadInput, match="line 10002, column 'a': 'stray'"):
        found.features(["b", "a"])


WRONG = {
    "header only": ("a,b\n", "has a header and no rows"),
    "short row": ("a,b\n1,2\n3\n", "line 3 has 1 cell where the header has 2"),
    "long row": ("a,b\n1,2,3\n", "line 2 has 3 cells where the header has 2"),
    "binary": (b"a,b\n\x001,2\n", "holds binary data"),
    "latin-1": (b"a,b\n1,2\n\xe9,3\n", "line 3: byte 0xe9 is not UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "is UTF-16 text"),
    "same name": ("a,b,a\n1,2,3\n", "two columns have the name 'a'"),
    "no name": ("a,,b\n1,2,3\n", "column 2 has no name"),
    "no header": ("1.5,2\n3,4\n", "the first line holds numbers"),
    "open quote": ('a,b\n"1,2\n', "mend the quotes"),
    "giant cell": ("a,b\n1," + "9" * 200_000 + "\n", "field larger than field limit"),
}


@pytest.mark.parametrize(("content", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_tables(content: str | bytes, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as caught:
        read(content)
    assert "\n" not in str(caught.value)


BAD_CELLS = {
    "missing": ("a,b\n1,2\n3,NA\n", "line 3, column 'b': the cell holds no number; .*--drop b"),
    "infinite": ("a,b\n1,2\n3,1e400\n", "line 3, column 'b': inf is not a finite number"),
    "decimal comma": ('a;b\n1;2\n3;4\n5;"1,5"\n', "line 4, column 'b': '1,5' is not a number; write a decimal point"),
    "underscore": ("a,b\n1,2\n3,4\n5,1_000\n", "line 4, column 'b': '1_000' is not a number"),
    "text": ("a,b\nx,y\nz,w\n", "columns 'a', 'b' hold text.* --drop a --drop b"),
}


@pytest.mark.parametrize(("content", "sentence"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_features_are_finite_numbers(content: str, sentence: str) -> None:
    found = read(content)
    with pytest.raises(BadInput, match=sentence):
        found.features(["a", "b"])


def test_numbered_names_are_names() -> None:
    assert read("0,1,2\n5,6,7\n").names == ("0", "1", "2")


@pytest.mark.parametrize("wanted", ["Price", "pric", "PRICE"])
def test_a_near_name_is_suggested(wanted: str) -> None:
    with pytest.raises(BadInput, match="did you mean 'price'"):
        read("price,size\n1,2\n").resolve(wanted, option="--target")


def test_columns_of_a_matrix_may_be_counted_from_the_end(tmp_path: Path) -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "m.npy", matrix)
    table, _ = read_table(tmp_path / "m.npy")
    assert table.resolve("-1", option="--target") == "2"
    np.testing.assert_array_equal(table.column("2"), matrix[:, 2])
    with pytest.raises(BadInput, match="no column '-4'"):
        table.resolve("-4", option="--target")


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_and_dense_files_agree(tmp_path: Path, form: str) -> None:
    matrix = sparse.random_array((7, 5), density=0.4, rng=np.random.default_rng(0), format=form)
    labels = np.arange(7.0)
    sparse.save_npz(tmp_path / "a.npz", matrix)
    np.savez(tmp_path / "b.npz", X=matrix.toarray(), y=labels, words=[f"w{k}" for k in range(7)], other=np.ones(3))
    dump_svmlight_file(matrix.tocsr(), labels, str(tmp_path / "c.svm"), zero_based=False)
    (first, _), (second, _), (third, _) = (read_table(tmp_path / name) for name in ("a.npz", "b.npz", "c.svm"))
    np.testing.assert_allclose(first.features(first.names).toarray(), matrix.toarray())
    np.testing.assert_allclose(second.features(second.names), matrix.toarray())
    np.testing.assert_allclose(third.features(third.names).toarray(), matrix.toarray(), rtol=1e-12)
    assert third.names == ("1", "2", "3", "4", "5")
    assert set(second.beside) == {"y", "words"}
    np.testing.assert_array_equal(third.beside["label"], labels)


def test_files_of_arrays_that_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    np.save(tmp_path / "cube.npy", np.ones((2, 2, 2)))
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    (tmp_path / "garbage.npy").write_bytes(b"\x93NUMPY\x01\x00 nonsense")
    (tmp_path / "garbage.npz").write_bytes(b"PK\x03\x04 nonsense")
    (tmp_path / "garbage.svm").write_bytes(b"1 2:x\n")
    (tmp_path / "wide.svm").write_bytes(b"1 99999999:1\n")
    (tmp_path / "bare.svm").write_bytes(b"1\n-1\n")
    sparse.save_npz(tmp_path / "coo.npz", sparse.coo_array(np.eye(2)))
    broken = sparse.csr_matrix(np.eye(2))
    np.savez(tmp_path / "broken.npz", data=broken.data, indices=[0, 9], indptr=broken.indptr, shape=[2, 2])
    for file in sorted(tmp_path.iterdir()):
        with pytest.raises(BadInput, match=file.stem) as caught:
            read_table(file)
        assert "\n" not in str(caught.value)


BEGINNINGS = {
    "a.csv": b"a,b\n1,2\n",
    "a.tsv": b"a\tb\n1\t2\n",
    "a.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2",
    "a.npz": b"PK\x03\x04",
    "a.svm": b"1 2:3\n",
}


@given(content=st.binary(max_size=80), name=st.sampled_from(sorted(BEGINNINGS)), begins_well=st.booleans())
def test_any_bytes_are_a_table_or_one_sentence(
    content: bytes, name: str, begins_well: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(BEGINNINGS[name] * begins_well + content)
    try:
        table, sentence = read_table(file)[0], None
    except BadInput as error:
        table, sentence = None, str(error)
    assert (table is None) != (sentence is None)
    assert sentence is None or (name in sentence and len(sentence.splitlines()) == 1)
    assert table is None or table.rows > 0
