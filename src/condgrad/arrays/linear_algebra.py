"""Matrices: dense, SciPy sparse and torch sparse; factors and norms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy  # loads its linalg when that is first asked for
import scipy.sparse

from condgrad.arrays.backend import (
    FLOAT64,
    Array,
    Matrix,
    copied,
    double,
    double_like,
    host,
    is_torch,
    like,
    namespace,
    on_device,
)
from condgrad.arrays.reductions import row_blocks
from condgrad.errors import NotFiniteError

DOUBLED_AT_ONCE = 1 << 18
"""The number of entries of float32 data that are copied to float64 at a time: 2 MB, which stay in
the cache of a core.
"""

SHORT = 500
"""In a vector with at most this many entries, zeros are not looked for."""


def largest_row_sum(K: Matrix) -> float:
    """The largest absolute row sum, which for a symmetric matrix is no less than its norm."""
    if is_sparse_tensor(K):
        return float((abs(K) @ K.values().new_ones(K.shape[1])).max())
    return float(abs(K).sum(1).max())


def is_dense(K: Matrix) -> bool:
    return not scipy.sparse.issparse(K)


def is_sparse_tensor(K: Matrix) -> bool:
    """Whether it is a torch tensor of coordinates or of compressed rows."""
    return bool(getattr(K, "is_sparse", False) or getattr(K, "is_sparse_csr", False))


def principal_block(K: Matrix, index: Array) -> Matrix:
    """The rows and columns of a square matrix that an index names."""
    if not is_sparse_tensor(K):
        return K[index][:, index]
    import torch

    places = torch.full((K.shape[0],), -1, device=K.device)
    places[index] = torch.arange(len(index), device=K.device)
    entries = K.to_sparse_coo().coalesce()
    ends = places[entries.indices()]
    inside = (ends >= 0).all(0)
    shape = (len(index), len(index))
    return _compressed(
        lambda: (
            torch.sparse_coo_tensor(ends[:, inside], entries.values()[inside], shape)
            .coalesce()
            .to_sparse_csr()
        )
    )


def block_diagonal(blocks: Sequence[Matrix]) -> Matrix | None:
    """Sparse matrices, all SciPy's or all torch's, as the blocks of one; None where one is not
    sparse.
    """
    if all(scipy.sparse.issparse(K) for K in blocks):
        return scipy.sparse.block_diag(blocks, format="csr")
    if not all(is_sparse_tensor(K) for K in blocks):
        return None
    import torch

    ends = [torch.zeros_like(blocks[0].crow_indices()[:1])]
    columns = []
    shape = (0, 0)
    for K in blocks:
        ends.append(ends[-1][-1] + K.crow_indices()[1:])
        columns.append(shape[1] + K.col_indices())
        shape = (shape[0] + K.shape[0], shape[1] + K.shape[1])
    entries = torch.cat([K.values() for K in blocks])
    return _compressed(
        lambda: torch.sparse_csr_tensor(torch.cat(ends), torch.cat(columns), entries, shape)
    )


def diagonal_of(K: Matrix, x: Array) -> Array:
    """The diagonal of a square matrix, as an array like x."""
    if not is_sparse_tensor(K):
        return like(np.asarray(K.diagonal()) if scipy.sparse.issparse(K) else K.diagonal(), x)
    entries = K.to_sparse_coo().coalesce()
    rows, columns = entries.indices()
    there = rows == columns
    return x.new_zeros(x.shape[0]).index_add(0, rows[there], entries.values()[there].to(x.dtype))


def matrix_like(K: Matrix, x: Array) -> Matrix:
    """A matrix, dense or SciPy sparse, as one that multiplies arrays of the kind of x."""
    if is_sparse_tensor(K):
        return _compressed(lambda: K.to_sparse_csr().to(dtype=x.dtype, device=x.device))
    if not scipy.sparse.issparse(K):
        return like(K, x)
    if not is_torch(x):
        return K.astype(x.dtype)
    import torch

    K = K.tocsr()
    parts = [
        torch.as_tensor(part.astype(np.int64), device=x.device) for part in (K.indptr, K.indices)
    ]
    entries = torch.as_tensor(K.data, dtype=x.dtype, device=x.device)
    return _compressed(lambda: torch.sparse_csr_tensor(*parts, entries, K.shape))


def _compressed(make: Callable[[], Any]) -> Any:
    """A tensor of compressed rows, whose products take a fraction of the time of one of
    coordinates.

    torch warns that their interface may change and, in some versions, that it checks none of the
    indices.
    """
    import torch

    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(enable=False):
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return make()


def some_columns(K: Array, chosen: Array) -> Array:
    """K[:, chosen] for a dense K; by columns where K is, which takes a fraction of the time."""
    by_column = type(K) is np.ndarray and K.flags.f_contiguous
    return np.take(K.T, chosen, axis=0).T if by_column else K[:, chosen]


def product(K: Matrix, x: Array) -> Array:
    """K @ x in the wider of the two precisions."""
    if type(x) is np.ndarray and x.ndim == 1 and not x.any():  # where most runs start
        return np.zeros(K.shape[0], np.result_type(K.dtype, x.dtype))
    if type(K) is np.ndarray and x.ndim == 1 and x.shape[0] > SHORT:
        support = np.flatnonzero(x != 0.0)  # faster than of the numbers themselves
        if 8 * support.shape[0] < x.shape[0]:  # a sparse x needs a few columns only
            return some_columns(K, support) @ x[support]
    if K.dtype != x.dtype and x.dtype == namespace(x).float64:
        return _product_in_double(K, x)
    return K @ (double(x) if K.dtype != x.dtype and is_torch(x) else x)


def _product_in_double(K: Matrix, x: Array) -> Array:
    """K @ x in float64 for a K in float32, of which a small part at a time is copied to float64."""
    if is_sparse_tensor(K):
        return double(K) @ x
    by_row = K.format != "csc" if scipy.sparse.issparse(K) else _lies_by_row(K)
    entries = K.nnz if scipy.sparse.issparse(K) else K.shape[0] * K.shape[1]
    lines = K.shape[0] if by_row else K.shape[1]
    step = max(1, DOUBLED_AT_ONCE * lines // max(1, entries))
    parts = [slice(begin, begin + step) for begin in range(0, lines, step)]
    if by_row:
        return namespace(x).concat([_doubled(K[part]) @ x for part in parts])
    result = _doubled(K[:, parts[0]]) @ x[parts[0]]
    for part in parts[1:]:
        result += _doubled(K[:, part]) @ x[part]
    return result


def _lies_by_row(K: Array) -> bool:
    """Whether a row of a dense K lies in one piece, or in fewer than a column does."""
    row, column = K.stride() if is_torch(K) else K.strides
    return bool(row >= column)


def _doubled(K: Matrix) -> Matrix:
    return K.astype(np.float64) if scipy.sparse.issparse(K) else double(K)


def spectral_norm(K: Matrix) -> float:
    """|K|_2, from the smaller of the two Gram matrices."""
    if 0 in K.shape:
        return 0.0
    G = row_gram(K if K.shape[0] <= K.shape[1] else K.T)
    return float(namespace(G).max(namespace(G).linalg.eigvalsh(G))) ** 0.5


def cholesky(build: Callable[[], Array], *, ridge: float) -> Any:
    """A factor of A + ridge I in the place of A = build(), symmetric and positive semidefinite up
    to rounding.
    """
    for _ in range(8):
        A = build()
        diagonal = namespace(A).arange(A.shape[0])
        A[diagonal, diagonal] += ridge
        # the transpose, which is the same matrix, has the order of entries that LAPACK needs to
        # work in place
        if type(A) is np.ndarray:
            factor, info = scipy.linalg.lapack.dpotrf(
                A.T, lower=True, clean=False, overwrite_a=True
            )
        else:
            import torch

            factor, info = torch.linalg.cholesky_ex(
                A.mT, out=(A.mT, A.new_empty((), dtype=torch.int32))
            )
        if int(info) == 0:
            return factor
        ridge *= 100.0
    raise NotFiniteError(
        "a matrix that should be positive definite is not, whatever is added to it"
    )


def solve_cholesky(factor: Any, b: Array) -> Array:
    """The solution for a right-hand side b."""
    if type(b) is np.ndarray:
        return scipy.linalg.cho_solve((factor, True), b, check_finite=False)
    import torch

    half = torch.linalg.solve_triangular(factor, b.reshape(b.shape[0], -1), upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True).reshape(b.shape)


def orthonormal(X: Array) -> Array:
    """An orthonormal basis of the columns of X, which are far fewer than its rows.

    On a device by two Cholesky factors of X'X, which take a tenth of the time of a QR factorisation
    there.
    """
    xp = namespace(X)
    if not on_device(X):
        return xp.linalg.qr(X)[0]
    import torch

    Q = X
    for _ in range(2):  # once more for the digits that the first time cancels
        factor, info = torch.linalg.cholesky_ex(Q.T @ Q)
        if int(info) != 0:
            return xp.linalg.qr(X)[0]
        # a product with the small inverse: solving for a million right-hand sides takes seconds
        # there
        Q = Q @ torch.linalg.inv(factor).T
    return Q


def eigh_small(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors of a small symmetric matrix; on the host, where that
    takes less time.
    """
    values, vectors = np.linalg.eigh(host(A))
    return double_like(values, A), double_like(vectors, A)


def solve_positive(A: Array, r: Array, *, ridge: float) -> Array:
    """(A + ridge I)^-1 r for a few columns r and a symmetric A, positive semidefinite up to
    rounding; A is spoiled.
    """
    diagonal = namespace(A).arange(A.shape[0])
    A[diagonal, diagonal] += ridge
    if type(A) is np.ndarray:
        _, x, info = scipy.linalg.lapack.dposv(A, r, lower=True)
        if info == 0:
            return x
    floor = 1e-14 * float(A[diagonal, diagonal].max())
    return solve_cholesky(cholesky(lambda: copied(A), ridge=floor), r)


def norms_of_columns(K: Matrix) -> Array:
    """The norms of the columns, in float64; sizes whose squares overflow are no obstacle."""
    with np.errstate(over="ignore"):
        if scipy.sparse.issparse(K):
            squares = _sums_of_columns(K, np.square(K.data, dtype=np.float64))
        elif type(K) is np.ndarray and K.flags.f_contiguous and K.dtype == FLOAT64:
            squares = np.vecdot(K.T, K.T)
        elif type(K) is np.ndarray:
            squares = np.einsum("ij,ij->j", K, K, dtype=np.float64)
        else:
            xp = namespace(K)
            squares = xp.sum(double(K) ** 2, axis=0)
    largest = float(squares.max())
    if 1e-200 < largest < 1e200 or (largest == 0.0 and abs(K).max() == 0.0):
        return namespace(squares).sqrt(squares)
    largest = float(abs(K).max())
    return largest * norms_of_columns(
        (K.astype(np.float64) if scipy.sparse.issparse(K) else double(K)) / largest
    )


def peaks_of_columns(K: Matrix) -> Array:
    """The largest size of an entry in each column, in float64."""
    if scipy.sparse.issparse(K):
        highest, lowest = (part.toarray().ravel() for part in (K.max(axis=0), K.min(axis=0)))
        return double(np.maximum(highest, -lowest))
    xp = namespace(K)
    highest = xp.max(K, axis=0)
    lowest = xp.min(K, axis=0)
    return double(xp.where(highest > -lowest, highest, -lowest))


def _sums_of_columns(K: Matrix, entries: Array) -> Array:
    """The sums of the columns of a sparse matrix that has other entries in the places of those of
    K.
    """
    if K.format == "csc":
        used = np.flatnonzero(np.diff(K.indptr))
        sums = np.zeros(K.shape[1])
        if used.shape[0] > 0:
            sums[used] = np.add.reduceat(entries, K.indptr[used])
        return sums
    if K.format == "csr":
        return np.bincount(K.indices, weights=entries, minlength=K.shape[1])
    return type(K)((entries, K.indices, K.indptr), shape=K.shape).T @ np.ones(K.shape[0])


def row_gram(K: Matrix) -> Array:
    """K K' in float64, as an array."""
    return double((K @ K.T).toarray()) if scipy.sparse.issparse(K) else double(K) @ double(K).T


def weighted_squares(K: Matrix, w: Array) -> Array:
    """sum_i w_i K_ij^2 for each column, in float64 but for its rounding, which is that of K."""
    if scipy.sparse.issparse(K):
        return K.multiply(K).T @ w
    xp = namespace(K)
    return double(xp.einsum("ij,ij,i->j", K, K, xp.astype(w, K.dtype)))


def squares_about(K: Matrix, w: Array, mean: Array) -> Array:
    """sum_i w_i (K_ij - mean_j)^2 for each column; entries that are not stored are 0.

    A pass of its own: sum w K^2 - (sum w K)^2 / sum w has no digits where a mean is large beside
    the spread.
    """
    if not scipy.sparse.issparse(K):
        return sum(w[rows] @ (double(K[rows]) - mean) ** 2 for rows in row_blocks(K))
    K = K.tocsr()
    about = K.copy()
    about.data = (K.data - mean[K.indices]) ** 2
    stored = K.copy()
    stored.data = np.ones_like(K.data, np.float64)
    # a column that is all stored has no weight left, where a difference of sums would leave its
    # rounding
    counted = w > 0.0
    has_zeros = stored.T @ counted.astype(np.float64) < np.count_nonzero(counted)
    weight_of_zeros = np.where(has_zeros, w.sum() - stored.T @ w, 0.0)
    return about.T @ w + mean**2 * np.maximum(weight_of_zeros, 0.0)
