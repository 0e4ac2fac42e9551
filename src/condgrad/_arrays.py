"""The one file that knows of array backends: NumPy and torch (through array-api-compat), SciPy sparse data.

Everything else is written against `xp = namespace(x)`, the array API standard, and the few
operations below. Scalars that decide something (a value, a slope, a bound) leave the device
as Python floats and are accumulated in float64 whatever the precision of the data.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
import scipy  # loads its linalg when that is first asked for
import scipy.sparse

from condgrad.errors import NotFiniteError

Array: TypeAlias = Any
"""A NumPy array or a torch tensor."""
Matrix: TypeAlias = Any
"""A two-dimensional array, or a SciPy sparse matrix."""
Vector: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
"""A small float64 vector on the host: weights of a few points."""


def namespace(x: Array) -> Any:
    """The array API namespace of x."""
    if type(x) is np.ndarray:
        return numpy_namespace
    return array_api_compat.array_namespace(x)


def is_torch(x: object) -> bool:
    return type(x) is not np.ndarray and array_api_compat.is_torch_array(x)


def on_device(x: Array) -> bool:
    """Whether x lives on an accelerator."""
    return is_torch(x) and x.device.type != "cpu"


@dataclass(frozen=True, slots=True)
class Space:
    """What the variable looks like: its shape, precision, library and device."""

    shape: tuple[int, ...]
    xp: Any
    dtype: Any
    device: Any

    @classmethod
    def of(cls, x: Array, shape: tuple[int, ...] | None = None) -> Space:
        """The space of x, or of arrays of another shape made of the same stuff."""
        if scipy.sparse.issparse(x):
            return cls(shape or x.shape, numpy_namespace, x.dtype, "cpu")
        return cls(tuple(x.shape) if shape is None else shape, namespace(x), x.dtype, array_api_compat.device(x))

    def __reduce__(self) -> Any:  # a module cannot be pickled, its name can
        return _space_again, (self.shape, self.xp.__name__, self.dtype, self.device)

    @property
    def unit(self) -> float:
        """The rounding unit of its precision."""
        return float(self.xp.finfo(self.dtype).eps)

    @property
    def smallest(self) -> float:
        """The smallest positive normal number of its precision."""
        return float(self.xp.finfo(self.dtype).smallest_normal)

    @property
    def library(self) -> str:
        return "torch" if "torch" in self.xp.__name__ else "NumPy"

    def full(self, fill: float) -> Array:
        return self.xp.full(self.shape, fill, dtype=self.dtype, device=self.device)

    def hold(self, x: Array) -> Array:
        """x in this space's precision; an error if it is of another library, shape or device."""
        if namespace(x) is not self.xp:
            raise TypeError(f"a {Space.of(x).library} array where {self.library} is needed")
        if tuple(x.shape) != self.shape:
            raise ValueError(f"shape {tuple(x.shape)} where {self.shape} is needed")
        if array_api_compat.device(x) != self.device:
            raise ValueError(f"an array on {array_api_compat.device(x)} where {self.device} is needed")
        return x if x.dtype == self.dtype else self.xp.astype(x, self.dtype)


def _space_again(shape: tuple[int, ...], library: str, dtype: Any, device: Any) -> Space:
    return Space(shape, importlib.import_module(library), dtype, device)


def double(x: Array) -> Array:
    """x in float64."""
    if type(x) is np.ndarray:
        return x if x.dtype == np.float64 else x.astype(np.float64)
    xp = namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def dot(x: Array, y: Array) -> float:
    """<x, y> over all entries, accumulated in float64."""
    if type(x) is np.ndarray and x.dtype == y.dtype == np.float64:
        return float(np.vdot(x, y))
    return float(namespace(x).vecdot(double(x).reshape(-1), double(y).reshape(-1)))


def total(x: Array) -> float:
    """The sum of all entries, accumulated in float64."""
    if type(x) is np.ndarray:
        return float(x.sum(dtype=np.float64))
    xp = namespace(x)
    return float(xp.sum(x, dtype=xp.float64))


def at_least(low: float, x: Array) -> Array:
    """max(x, low), entry by entry."""
    if type(x) is np.ndarray:
        return np.maximum(x, low)
    return namespace(x).clip(x, min=low)


def signs(x: Array) -> Array:
    """-1, 0 or 1 for each entry."""
    return np.sign(x) if type(x) is np.ndarray else namespace(x).sign(x)


def sorted_threshold(v: Array, mass: float) -> float:
    """theta with sum max(v - theta, 0) = mass > 0, from the sorted entries of v."""
    xp = namespace(v)
    falling = np.sort(v)[::-1] if type(v) is np.ndarray else xp.sort(v, descending=True)
    excess = falling.cumsum(0) - mass
    ranks = xp.arange(1, v.shape[0] + 1, dtype=v.dtype, device=v.device)
    last = max(1, int(xp.count_nonzero(falling * ranks > excess)))
    return float(excess[last - 1]) / last


def log_or_least(x: Array) -> Array:
    """log x, with the log of the smallest positive number where x is 0."""
    return namespace(x).log(at_least(smallest(x), x))


def dots(rows: Array, x: Array) -> Vector:
    """<rows[i], x> for each i, on the host."""
    return host(double(rows).reshape(rows.shape[0], -1) @ double(x).reshape(-1))


def gram(rows: Array, weights: Array | None = None) -> Any:
    """The matrix <rows[i] * weights, rows[j]>, on the host."""
    flat = double(rows).reshape(rows.shape[0], -1)
    weighted = flat if weights is None else flat * weights.reshape(-1)
    return host(weighted @ flat.T)


def combine(a: Vector, rows: Array) -> Array:
    """sum_i a[i] rows[i]."""
    if len(a) == 1:
        return float(a[0]) * rows[0]
    xp = namespace(rows)
    weights = xp.asarray(a, dtype=rows.dtype, device=array_api_compat.device(rows))
    return xp.tensordot(weights, rows, axes=1)


def differences(points: list[Array], x: Array) -> Array:
    """points[i] - x, stacked."""
    if len(points) == 1:
        return (points[0] - x)[None]
    result = namespace(x).empty((len(points), *x.shape), dtype=x.dtype, device=array_api_compat.device(x))
    for i, point in enumerate(points):
        result[i] = point
        result[i] -= x
    return result


BLOCK, DEVICE_BLOCK = 1 << 15, 1 << 26
"""Entries a pass takes at a time: what lies between stays in the cache, or on a GPU takes little memory."""


def mixed(x: Array, points: Sequence[Array], fractions: Vector) -> Array:
    """(1 - sum a) x + sum_i a_i points[i]: a convex combination, so that signs survive rounding."""
    result = (1.0 - float(fractions.sum())) * x
    for fraction, point in zip(fractions.tolist(), points, strict=True):
        result += fraction * point
    return result


def row_blocks(x: Array) -> list[slice]:
    """Slices of rows for passes of several operations."""
    rows, size = x.shape[0], math.prod(x.shape)
    block = DEVICE_BLOCK if on_device(x) else BLOCK
    if size <= block:
        return [slice(0, rows)]
    step = max(1, block * rows // size)
    return [slice(begin, begin + step) for begin in range(0, rows, step)]


def stack(arrays: list[Array]) -> Array:
    return arrays[0][None] if len(arrays) == 1 else namespace(arrays[0]).stack(arrays)


def host(x: Array) -> Any:
    """x as a float64 NumPy array."""
    if type(x) is np.ndarray:
        return x if x.dtype == np.float64 else x.astype(np.float64)
    if is_torch(x):
        x = x.detach().cpu().numpy()
    return np.asarray(x, dtype=np.float64)


def double_like(values: Array, x: Array) -> Array:
    """Values in float64, in the library and on the device of x."""
    xp = namespace(x)
    return xp.asarray(values, dtype=xp.float64, device=array_api_compat.device(x))


def detached(x: Array) -> Array:
    """x without autograd's history."""
    return x.detach() if is_torch(x) else x


def copied(x: Array) -> Array:
    return namespace(x).asarray(x, copy=True)


def like(values: Array, x: Array) -> Array:
    """Host values as an array of the kind of x."""
    return namespace(x).asarray(values, dtype=x.dtype, device=array_api_compat.device(x))


def largest_row_sum(K: Matrix) -> float:
    """The largest absolute row sum, which for a symmetric matrix is no less than its norm."""
    sums = abs(K).sum(1)
    return float((sums.to_dense() if is_sparse_tensor(sums) else sums).max())


def is_dense(K: Matrix) -> bool:
    return not scipy.sparse.issparse(K)


def is_sparse_tensor(K: Matrix) -> bool:
    return bool(getattr(K, "is_sparse", False))


def principal_block(K: Matrix, index: Array) -> Matrix:
    """The rows and columns of a square matrix that an index names."""
    return K.to_dense()[index][:, index] if is_sparse_tensor(K) else K[index][:, index]


def matrix_like(K: Matrix, x: Array) -> Matrix:
    """A matrix, dense or SciPy sparse, as one that multiplies arrays of the kind of x."""
    if is_sparse_tensor(K):
        return K.to(dtype=x.dtype, device=x.device)
    if not scipy.sparse.issparse(K):
        return like(K, x)
    if not is_torch(x):
        return K.astype(x.dtype)
    import torch

    K = K.tocoo()
    places = torch.as_tensor(np.stack([K.row, K.col]), device=x.device)
    entries = torch.as_tensor(K.data, dtype=x.dtype, device=x.device)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # silently unchecked is a warning in some versions
        return torch.sparse_coo_tensor(places, entries, K.shape).coalesce()


def precision(x: Array) -> float:
    """The rounding unit of x's dtype."""
    return sys.float_info.epsilon if x.dtype == np.float64 else float(namespace(x).finfo(x.dtype).eps)


def smallest(x: Array) -> float:
    """The smallest positive normal number of x's dtype: what log may be taken of."""
    if x.dtype == np.float64:
        return sys.float_info.min
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def all_finite(x: Matrix) -> bool:
    if scipy.sparse.issparse(x):
        x = x.data
    xp = namespace(x)
    return bool(xp.all(xp.isfinite(x)))


def product(K: Matrix, x: Array) -> Array:
    """K @ x in the wider of the two precisions."""
    if type(K) is np.ndarray and x.ndim == 1 and x.shape[0] > 500:
        support = np.flatnonzero(x)
        if 8 * support.shape[0] < x.shape[0]:  # a sparse x needs a few columns only
            return K[:, support] @ x[support]
    if K.dtype != x.dtype and is_torch(x):
        return double(K) @ double(x)
    return K @ x


def spectral_norm(K: Matrix) -> float:
    """|K|_2, from the smaller of the two Gram matrices."""
    if 0 in K.shape:
        return 0.0
    G = row_gram(K if K.shape[0] <= K.shape[1] else K.T)
    return float(namespace(G).max(namespace(G).linalg.eigvalsh(G))) ** 0.5


def cholesky(build: Callable[[], Array], *, ridge: float) -> Any:
    """A factor of A + ridge I in the place of A = build(), symmetric and positive semidefinite up to rounding."""
    for _ in range(8):
        A = build()
        diagonal = namespace(A).arange(A.shape[0])
        A[diagonal, diagonal] += ridge
        # the transpose, which is the same matrix, has the order of entries that LAPACK needs to work in place
        if type(A) is np.ndarray:
            factor, info = scipy.linalg.lapack.dpotrf(A.T, lower=True, clean=False, overwrite_a=True)
        else:
            import torch

            factor, info = torch.linalg.cholesky_ex(A.mT, out=(A.mT, A.new_empty((), dtype=torch.int32)))
        if int(info) == 0:
            return factor
        ridge *= 100.0
    raise NotFiniteError("a matrix that should be positive definite is not, whatever is added to it")


def solve_cholesky(factor: Any, b: Array) -> Array:
    """The solution for a right-hand side b."""
    if type(b) is np.ndarray:
        return scipy.linalg.cho_solve((factor, True), b, check_finite=False)
    import torch

    half = torch.linalg.solve_triangular(factor, b.reshape(b.shape[0], -1), upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True).reshape(b.shape)


def solve_positive(A: Array, r: Array, *, ridge: float) -> Array:
    """(A + ridge I)^-1 r for a few columns r and a symmetric A, positive semidefinite up to rounding; A is spoiled."""
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
    largest = max(float(K.max()), -float(K.min())) or 1.0
    if scipy.sparse.issparse(K):
        scaled = K.astype(np.float64) / largest
        return largest * np.sqrt(np.asarray(scaled.power(2).sum(axis=0), dtype=np.float64).reshape(-1))
    if type(K) is np.ndarray:
        if 1e-100 < largest < 1e100:
            return np.sqrt(np.einsum("ij,ij->j", K, K, dtype=np.float64))
        return largest * np.linalg.norm(double(K) / largest, axis=0)
    xp = namespace(K)
    return largest * xp.linalg.vector_norm(double(K) / largest, axis=0)


def row_gram(K: Matrix) -> Array:
    """K K' in float64, as an array."""
    return double((K @ K.T).toarray()) if scipy.sparse.issparse(K) else double(K) @ double(K).T


def steepest_indices(g: Array, x: Array, size: int) -> Array:
    """Where x is not 0 and where |g| is largest, `size` of them in all."""
    xp = namespace(g)
    score = xp.where(x == 0, xp.abs(g), xp.inf)
    return np.argpartition(score, -size)[-size:] if type(g) is np.ndarray else score.topk(size).indices
