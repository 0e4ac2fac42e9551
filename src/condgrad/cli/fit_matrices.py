"""Tables from files of arrays: NPY, NPZ (dense, or sparse as SciPy saves it) and libsvm; or, by their suffix, text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from condgrad.cli.files import npy_array, npz_array, npz_names, read_bytes
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Naming, Table, listed, read_text_table

LABEL = "label"
"""How the first number of a libsvm line is called."""

MOST_COLUMNS = 10_000_000
"""A larger index in a libsvm file is taken for a slip."""

SPARSE_PARTS = {"data", "indices", "indptr", "shape"}


def read_table(path: Path) -> tuple[Table, bytes]:
    """The table in a file, and the content it came from."""
    content = read_bytes(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _matrix_table(path, npy_array(path, content), {}), content
    if suffix == ".npz":
        return _npz_table(path, content), content
    if suffix in (".svm", ".libsvm", ".svmlight"):
        return _libsvm_table(path, content), content
    return read_text_table(path, content), content


def _npz_table(path: Path, content: bytes) -> Table:
    """The only matrix of the file; its vectors with an entry for each row can be target or weights."""
    arrays = {name: npz_array(path, content, name) for name in npz_names(path, content)}
    if arrays.keys() >= SPARSE_PARTS:
        return _matrix_table(path, _csr(path, arrays), arrays)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise BadInput(f"{path} must hold one matrix, got {len(matrices)} (arrays: {listed(list(arrays)) or 'none'})")
    return _matrix_table(path, arrays.pop(matrices[0]), arrays)


def _csr(path: Path, arrays: dict[str, Any]) -> Any:
    """The matrix of `scipy.sparse.save_npz`, in rows; its parts leave `arrays`."""
    kind = arrays.pop("format", np.array(b"csr")).tolist()
    data, indices, indptr, shape = (arrays.pop(name) for name in ("data", "indices", "indptr", "shape"))
    if kind not in (b"csr", "csr", b"csc", "csc"):
        raise BadInput(f"{path}: sparse format {kind!r} is not read: save it as csr")
    of_kind = sparse.csr_matrix if kind in (b"csr", "csr") else sparse.csc_matrix
    try:
        found = of_kind(
            (data.astype(np.float64), indices.astype(np.int64), indptr.astype(np.int64)), shape=tuple(map(int, shape))
        )
        _check_columns(path, found)
        found.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path} holds no sparse matrix: {_first_line(error)}") from None
    found.sum_duplicates()
    return found.tocsr()


def _matrix_table(path: Path, matrix: Any, others: dict[str, Any]) -> Table:
    """A matrix, its columns counted from 0, and the vectors that go with its rows."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise BadInput(f"{path} must hold a matrix of numbers, got {matrix.dtype} of shape {matrix.shape}")
    if 0 in matrix.shape:
        raise BadInput(f"{path} is empty: its matrix has shape {matrix.shape}")
    numbers = matrix if sparse.issparse(matrix) else matrix.astype(np.float64)
    beside = {
        name: array.astype(np.float64) if array.dtype.kind in "fiub" else [str(entry) for entry in array]
        for name, array in others.items()
        if array.shape == (numbers.shape[0],) and array.dtype.kind in "fiubU"
    }
    names = tuple(map(str, range(numbers.shape[1])))
    return Table(path.name, names, numbers, beside=beside, naming=Naming.POSITIONS)


def _libsvm_table(path: Path, content: bytes) -> Table:
    """A line is a label and index:value pairs; a column is called by its index in the file."""
    try:
        matrix, labels = load_svmlight_file(io.BytesIO(content), zero_based=True, dtype=np.float64)
    except Exception as error:
        raise BadInput(f"{path} is not a libsvm file: {_first_line(error)}") from None
    _check_columns(path, matrix)
    first = 0 if matrix.shape[1] and matrix[:, [0]].nnz else 1  # most files count from 1
    names = tuple(map(str, range(first, matrix.shape[1])))
    if not names:
        raise BadInput(f"{path} holds labels and no features")
    naming = Naming.LIBSVM if first else Naming.LIBSVM_FROM_0
    return Table(path.name, names, matrix[:, first:], beside={LABEL: labels}, naming=naming)


def _check_columns(path: Path, matrix: Any) -> None:
    if matrix.shape[1] > MOST_COLUMNS:
        raise BadInput(
            f"{path} has the feature index {matrix.shape[1] - 1}, beyond the largest allowed, {MOST_COLUMNS}"
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
