"""A matrix in blocks of rows on the workers of Dask, and losses of it.

The workers compute products with their blocks and sums over them. Vectors with one number for each
row, such as scores, are on the driver. Dask schedules, spills to disk, and computes anew what a
lost worker had.
"""

from __future__ import annotations

import math
import sys
from abc import ABC
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from condgrad.arrays import (
    Array,
    double,
    is_dask,
    peaks_of_columns,
    product,
    squares_about,
    weighted_squares,
)
from condgrad.arrays.inputs import each_entry_once
from condgrad.errors import require_extra
from condgrad.memory import free_memory

TREE = 8
"""The number of partial sums that are added up at a time."""
SHARE_OF_MEMORY = 0.5
"""Without a cluster, data stay in memory only if they take at most this share of what is free.
"""
ROWS_AT_ONCE = 1 << 13
"""A Gram matrix takes so many rows of a block at a time, so that no copy of the block is made."""
CONSTANT = 1e-12
"""A column counts as constant if its deviation is at most this share of its largest entry, because
rounding explains it.
"""


class RowBlocks:
    """The rows of a Dask array or dataframe, checked, in blocks that stay where they are.

    Blocks of no rows are left out. Without a cluster, blocks that would fill this machine's memory
    are not stored but made anew for each pass over them.
    """

    units: Array | None = None
    """What each column is divided by whenever it is used; None for 1."""

    def __init__(self, X: Any) -> None:
        bag = dask("bag")
        delayed = dask("delayed").delayed
        self.names = column_names(X)
        X = dask_array(X)
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns, got a Dask array of shape {X.shape}")
        X = X.rechunk({1: -1})
        if any(math.isnan(rows) for rows in X.chunks[0]):
            X = X.compute_chunk_sizes()
        self.shape: tuple[int, int] = X.shape
        if 0 in self.shape:
            raise ValueError(f"the data matrix must have rows and columns, got shape {self.shape}")
        self.rows: tuple[int, ...] = tuple(rows for rows in X.chunks[0] if rows)
        starts = np.cumsum([0, *X.chunks[0]])
        parts = [
            delayed(_checked_block)(part, self.names, number, int(start))
            for number, (part, start, rows) in enumerate(
                zip(X.to_delayed()[:, 0], starts[:-1], X.chunks[0], strict=True)
            )
            if rows
        ]
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        self.matrices = bag.from_delayed(parts)
        if _are_to_be_kept(X):
            self.matrices = self.matrices.persist(scheduler=_scheduler())
        self.passes = [0]
        """How often all rows were multiplied with something, counted for all views of them
        together.
        """

    @classmethod
    def of(cls, X: Any) -> RowBlocks:
        """Those of Dask's data; blocks as they are."""
        return X if isinstance(X, RowBlocks) else cls(X)

    def in_units(self, units: Array) -> RowBlocks:
        """A view of the same blocks whose columns are divided by units."""
        _ = self._plain_norms  # for all views
        view = copy(self)
        view.units = units if self.units is None else self.units * units
        return view

    def vector(self, name: str, values: Any) -> Array:
        """One finite number for each row, on the driver; an error names the block of another."""
        values = dask_array(values)
        values = np.asarray(computed(values) if is_dask(values) else values)
        if values.shape != self.shape[:1]:
            raise ValueError(
                f"{name} must have one entry for each of the {self.shape[0]} rows, got {values.shape}"
            )
        values = values.astype(np.float64)
        start = 0
        for number, part in enumerate(np.split(values, self._cuts)):
            _check_column(name, part, number, start)
            start += len(part)
        return values

    @property
    def _cuts(self) -> Array:
        return np.cumsum(self.rows)[:-1]

    def split(self, values: Array) -> Any:
        """One number for each row, or one for each class, as a bag with an array for each block."""
        parts = np.split(values, self._cuts)
        return dask("bag").from_sequence(parts, npartitions=len(parts))

    def inner(self, x: Array) -> Array:
        """x as it meets the columns that the workers have, in its precision."""
        return x if self.units is None else (x.T / self.units).T.astype(x.dtype, copy=False)

    def summed(
        self, part: Callable[..., tuple[Any, ...]], *beside: Any, **options: Any
    ) -> tuple[Any, ...]:
        """What `part(K, *beside, **options)` returns for each block K, added up entry by entry."""
        self.passes[0] += 1
        return summed(part, self.matrices, *beside, **options)

    # --- the questions that a loss asks of its data

    def times(self, x: Array) -> Array:
        """K x in float64."""
        if not x.any():
            return np.zeros((self.shape[0], *x.shape[1:]))
        self.passes[0] += 1
        return np.concatenate(computed(self.matrices.map(_product_with_block, x=self.inner(x))))

    def transposed_times(self, theta: Array) -> Array:
        """K' theta in the wider of the two precisions; the sum over the blocks is in float64."""
        (whole,) = self.summed(_transposed_times, self.split(theta))
        return self.inner(whole).astype(np.result_type(self.dtype, theta.dtype), copy=False)

    def weighted_gram(self, w: Array, chosen: Array) -> tuple[Array, Array]:
        """K_A' diag(w) K_A and K_A' w of some columns."""
        gram, sums = self.summed(_weighted_gram, self.split(w), chosen=chosen)
        if self.units is None:
            return gram, sums
        units = self.units[chosen]
        return gram / units / units[:, None], sums / units

    def weighted_squares(self, w: Array) -> Array:
        """sum w K^2 for each column."""
        (squares,) = self.summed(_weighted_squares, self.split(w))
        return self.inner(self.inner(squares))

    def squares_about_means(self, w: Array) -> Array:
        """sum w (K - mean)^2 for each column."""
        weights = self.split(w)
        (sums,) = self.summed(_transposed_times, weights)
        (squares,) = self.summed(_squares_about, weights, mean=sums / w.sum())
        return self.inner(self.inner(squares))

    @property
    def column_peaks(self) -> Array:
        """max_i |K_ij| for each column."""
        (largest,) = self.summed(_largest)
        return self.inner(largest.values)

    @property
    def column_norms(self) -> Array:
        """|K_j|_2 for each column."""
        return self._plain_norms if self.units is None else self._plain_norms / self.units

    @cached_property
    def _plain_norms(self) -> Array:
        (squares,) = self.summed(_weighted_squares, self.split(np.ones(self.shape[0])))
        return np.sqrt(squares)

    def means_deviations_and_sizes(self, weights: Any) -> tuple[Array, Array, Array]:
        """The weighted means and standard deviations of the columns, and their largest |entries|."""
        w = np.ones(self.shape[0]) if weights is None else self.vector("sample_weight", weights)
        mass = w.sum()
        weights = self.split(w)
        sums, largest = self.summed(_sums_and_largest, weights)
        (squares,) = self.summed(_squares_about, weights, mean=sums / mass)
        return (
            self.inner(sums / mass),
            self.inner(np.sqrt(squares / mass)),
            self.inner(largest.values),
        )

    def deviations(self, weights: Any) -> Array:
        """The weighted standard deviations of the columns; 1 where a column does not vary."""
        _, deviations, sizes = self.means_deviations_and_sizes(weights)
        return np.where(deviations > CONSTANT * sizes, deviations, 1.0)


class InBlocks:
    """What a loss asks of blocks of rows where others ask a matrix at hand."""

    K: RowBlocks
    h: Any
    at_hand = False
    smoothness = None

    @property
    def data(self) -> RowBlocks:
        """The blocks; `data.passes[0]` counts the passes over them."""
        return self.K

    @property
    def column_norms(self) -> Array:
        """|K_j|_2 for each column."""
        return self.K.column_norms

    @cached_property
    def column_peaks(self) -> Array:
        """max_i |K_ij| for each column."""
        return self.K.column_peaks

    @property
    def squares(self) -> Array:
        """sum w K^2 for each column."""
        return self.K.weighted_squares(self.h.weights)

    @property
    def squares_about_means(self) -> Array:
        """sum w (K - mean)^2 for each column."""
        return self.K.squares_about_means(self.h.weights)

    def image(self, x: Array) -> Array:
        """K x in float64."""
        return self.K.times(x)

    def transposed_times(self, theta: Array) -> Array:
        """K' theta in the wider of the two precisions."""
        return self.K.transposed_times(theta)


class BlockwiseLoss(ABC):  # noqa: B024 - losses are registered, for `isinstance`
    """f(x) = h(Kx) for a Dask array K of blocks of rows, dense or SciPy sparse.

    `LeastSquares`, `Logistic` and `SquaredHinge` make one from a Dask array or dataframe. The data
    stay on the workers. Newton's method, paths and everything else work as for data in memory.

    Parameters
    ----------
    loss : type
        `LeastSquares`, `Logistic` or `SquaredHinge`.
    K : Dask array or dataframe, shape (samples, features)
        The data. The attribute `data` of another such loss is possible too: then both share it.
    y : Dask array or array, shape (samples,)
        Numbers; for `Logistic` and `SquaredHinge` they are -1 and +1.
    sample_weight : Dask array or array of nonnegative numbers, optional
    intercept : bool
        As in `LeastSquares`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, condgrad as cg
    >>> K, y = da.ones((6, 2), chunks=(2, 2)), np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    >>> f = cg.smooth.Logistic(K, y)
    >>> f
    BlockwiseLogistic(6 samples, 2 features)
    >>> round(f.value_and_gradient(np.zeros(2))[0], 6)  # 6 log 2
    4.158883
    >>> isinstance(f, cg.smooth.Logistic)
    True
    """

    def __new__(
        cls, loss: Any, K: Any, y: Any, *, sample_weight: Any = None, intercept: bool = False
    ) -> Any:
        blocks = RowBlocks.of(K)
        y = blocks.vector("y", y)
        strange = y[~np.isin(y, (-1.0, 1.0))]
        if loss.of_scores.has_labels and len(strange):
            raise ValueError(
                f"y must hold the labels -1 and +1, got {strange[0]:g}: write {loss.__name__}(K, y) for others"
            )
        return loss(blocks, y, sample_weight=sample_weight, intercept=intercept)


def dask(module: str) -> Any:
    """A module of Dask's, which has no types."""
    return require_extra(f"dask.{module}", extra="dask", purpose="data of Dask")


def dask_array(values: Any) -> Any:
    """A Dask array from a Dask dataframe or series; anything else as it is."""
    return values.to_dask_array(lengths=True) if hasattr(values, "to_dask_array") else values


def column_names(X: Any) -> Any:
    """The names of a dataframe's columns where all are strings, as scikit-learn keeps them; else
    None.
    """
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def summed(
    part: Callable[..., tuple[Any, ...]], first: Any, *others: Any, **options: Any
) -> tuple[Any, ...]:
    """What `part` returns for each block of some bags, added up entry by entry, by the workers and
    in a tree.
    """
    parts = first.map(part, *others, **options)
    return tuple(computed(parts.reduction(_added, _added, split_every=TREE)))


def computed(values: Any) -> Any:
    """What a Dask collection holds.

    One number for each row may travel with what is asked of the blocks: Dask warns of that.
    """
    with dask("config").set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return values.compute(scheduler=_scheduler())


def _scheduler() -> Any:
    """The cluster or the scheduler that the user has set, else threads.

    Dask's own choice for bags is a pool of processes: each pass would send them all blocks, and a
    script without a guard of its main module could not start them.
    """
    return dask("base").get_scheduler() or "threads"


def _are_to_be_kept(X: Any) -> bool:
    """Whether a cluster keeps the blocks, or they fit in the memory of this machine."""
    distributed = sys.modules.get("distributed")
    scheduler = dask("base").get_scheduler(collections=[X])
    if distributed is not None and isinstance(
        getattr(scheduler, "__self__", None), distributed.Client
    ):
        return True
    return not isinstance(X._meta, np.ndarray) or X.nbytes <= SHARE_OF_MEMORY * free_memory()


# --- what runs on the workers


class Largest:
    """Numbers whose sum with others is the larger of the two."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.values, other.values))


def _added(parts: Any) -> tuple[Any, ...]:
    """Partial sums, added up in their order."""
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


def _checked_block(K: Any, names: Any, number: int, start: int) -> list[Any]:
    """A block of finite floating-point numbers, dense or stored by rows."""
    K = scipy.sparse.csr_array(K) if scipy.sparse.issparse(K) else np.asarray(K)
    place = f"block {number} (rows {start} to {start + K.shape[0] - 1})"
    if K.dtype not in (np.float32, np.float64):
        try:
            K = K.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must hold numbers, and {place} does not: {error}") from None
    K = each_entry_once(K)
    if np.isfinite(K.data if scipy.sparse.issparse(K) else K).all():
        return [K]
    stored = scipy.sparse.coo_array(K)
    bad = np.flatnonzero(~np.isfinite(stored.data))[0]
    row = start + int(stored.coords[0][bad])
    column = int(stored.coords[1][bad])
    which = f"row {row}, column {column if names is None else repr(names[column])}"
    raise ValueError(f"X holds NaN or infinity in {place}: {which}; fill it or leave the row out")


def _check_column(name: str, values: Array, number: int, start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = f"block {number} (rows {start} to {start + len(values) - 1}): row {start + bad[0]}"
        raise ValueError(f"{name} holds NaN or infinity in {place}; fill it or leave the row out")
    if name == "sample_weight" and (values < 0.0).any():
        raise ValueError(f"sample_weight must be >= 0, got {values.min():g} in block {number}")


def _product_with_block(K: Any, x: Array) -> Array:
    return double(product(K, x))


def _transposed_times(K: Any, theta: Array) -> tuple[Array]:
    """K is not copied to another precision as a whole."""
    return (double(product(K.T, theta)),)


def _weighted_gram(K: Any, w: Array, chosen: Any) -> tuple[Array, Array]:
    """K_A' diag(w) K_A, in the precision of K where that is dense, and K_A' w in float64."""
    if scipy.sparse.issparse(K):
        from condgrad.kernels import sparse_gram

        K = K[:, chosen].astype(np.float64)
        return sparse_gram.weighted_gram(K.indptr, K.indices, K.data, w, K.shape[1])
    whole = len(chosen) == K.shape[1]
    root = np.sqrt(w).astype(K.dtype)
    gram = np.zeros((len(chosen), len(chosen)))
    sums = np.zeros(len(chosen))
    for begin in range(0, K.shape[0], ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        rows = K[some] if whole else K[some][:, chosen]
        sums += rows.T.astype(np.float64) @ w[some]
        rows = root[some, None] * rows
        gram += rows.T @ rows
    return gram, sums


def _weighted_squares(K: Any, w: Array) -> tuple[Array]:
    return (weighted_squares(K, w),)


def _squares_about(K: Any, w: Array, mean: Array) -> tuple[Array]:
    return (squares_about(K, w, mean),)


def _largest(K: Any) -> tuple[Largest]:
    return (Largest(peaks_of_columns(K)),)


def _sums_and_largest(K: Any, w: Array) -> tuple[Any, ...]:
    return K.T @ w, Largest(peaks_of_columns(K))
