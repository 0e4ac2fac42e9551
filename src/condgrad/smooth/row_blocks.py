"""A matrix in blocks of rows on the workers of Dask: what is asked of it are sums over the blocks.

Dask schedules, spills to disk, and computes anew what a lost worker had.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from condgrad.arrays import Array, double, product, row_blocks
from condgrad.arrays.inputs import each_entry_once
from condgrad.errors import require_extra
from condgrad.memory import free_memory

TREE = 8
"""The number of partial sums that are added up at a time."""
SHARE_OF_MEMORY = 0.5
"""Without a cluster, data are kept in memory only if they take at most this share of what is free.
"""
CONSTANT = 1e-12
"""A column counts as constant if its deviation is at most this share of its largest entry, because
rounding explains it.
"""


class RowBlocks:
    """The rows of a Dask array or dataframe, checked, in blocks that stay where they are.

    Blocks of no rows are left out. Without a cluster, blocks that would fill this machine's memory
    are not kept but made anew for each pass over them.
    """

    units: Array | None = None
    """What each column is divided by whenever it is used; None for 1."""

    def __init__(self, X: Any) -> None:
        bag = dask("bag")
        delayed = dask("delayed").delayed
        self.names = column_names(X)
        X = as_array(X)
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
            delayed(_checked)(part, self.names, number, int(start))
            for number, (part, start, rows) in enumerate(
                zip(X.to_delayed()[:, 0], starts[:-1], X.chunks[0], strict=True)
            )
            if rows
        ]
        self.dtype = np.float32 if X.dtype == np.float32 else np.float64
        self.matrices = bag.from_delayed(parts)
        if _are_to_be_kept(X):
            self.matrices = kept(self.matrices)
        self.passes = [0]
        """How often all rows were multiplied with something, counted for all views of them
        together.
        """

    def in_units(self, units: Array) -> RowBlocks:
        """A view of the same blocks whose columns are divided by units."""
        _ = self._plain_norms  # for all views
        view = copy(self)
        view.units = units if self.units is None else self.units * units
        return view

    def beside(self, name: str, values: Any) -> Any:
        """One number for each row, as a bag with an array for each block."""
        array = dask("array")
        bag = dask("bag")
        values = array.asarray(as_array(values))
        if any(math.isnan(size) for size in values.chunks[0]):
            values = values.compute_chunk_sizes()
        if values.shape != self.shape[:1]:
            raise ValueError(
                f"{name} must have one entry for each of the {self.shape[0]} rows, got {values.shape}"
            )
        values = values.rechunk((self.rows,)).astype(np.float64)
        delayed = dask("delayed").delayed
        starts = np.cumsum([0, *self.rows])
        parts = [
            delayed(_checked_column)(name, part, number, int(start))
            for number, (part, start) in enumerate(
                zip(values.to_delayed(), starts[:-1], strict=True)
            )
        ]
        return bag.from_delayed(parts)

    def ones(self) -> Any:
        """A bag with a 1 for each row."""
        return dask("bag").from_sequence(self.rows, npartitions=len(self.rows)).map(np.ones)

    def inner(self, x: Array) -> Array:
        """x as it meets the columns that the workers have, in its precision."""
        return x if self.units is None else (x.T / self.units).T.astype(x.dtype, copy=False)

    def summed(
        self, part: Callable[..., tuple[Any, ...]], *beside: Any, **options: Any
    ) -> tuple[Any, ...]:
        """What `part(K, *beside, **options)` returns for each block K, added up entry by entry."""
        self.passes[0] += 1
        return summed(part, self.matrices, *beside, **options)

    def times(self, x: Array) -> Any:
        """K x, a bag with an array for each block, which stays there."""
        self.passes[0] += bool(x.any())
        return kept(self.matrices.map(_times, x=self.inner(x)))

    @property
    def column_norms(self) -> Array:
        """|K_j|_2 for each column."""
        return self._plain_norms if self.units is None else self._plain_norms / self.units

    @cached_property
    def _plain_norms(self) -> Array:
        (squares,) = self.summed(_squares)
        return np.sqrt(squares)

    def means_deviations_and_sizes(self, weights: Any) -> tuple[Array, Array, Array]:
        """The weighted means and standard deviations of the columns, and their largest |entries|."""
        weights = self.ones() if weights is None else self.beside("sample_weight", weights)
        sums, mass, largest = self.summed(_weighted_sums, weights)
        (squares,) = self.summed(squares_about, weights, mean=sums / mass)
        return (
            self.inner(sums / mass),
            self.inner(np.sqrt(squares / mass)),
            self.inner(largest.values),
        )

    def deviations(self, weights: Any) -> Array:
        """The weighted standard deviations of the columns; 1 where a column does not vary."""
        _, deviations, sizes = self.means_deviations_and_sizes(weights)
        return np.where(deviations > CONSTANT * sizes, deviations, 1.0)


def dask(module: str) -> Any:
    """A module of Dask's, which has no types."""
    return require_extra(f"dask.{module}", extra="dask", purpose="data of Dask")


def is_dask(values: Any) -> bool:
    """Whether it is a Dask collection; asked without loading Dask, which whoever has one did."""
    loaded = sys.modules.get("dask")
    return loaded is not None and loaded.is_dask_collection(values)


def as_array(values: Any) -> Any:
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
    found = first.map(part, *others, **options)
    return tuple(computed(found.reduction(_added, _added, split_every=TREE)))


def kept(bag: Any) -> Any:
    """A bag whose blocks are computed now and stay where they are."""
    return bag.persist(scheduler=_scheduler())


def computed(bag: Any) -> Any:
    """What a bag, or a sum over one, holds."""
    return bag.compute(scheduler=_scheduler())


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


def _checked(K: Any, names: Any, number: int, start: int) -> list[Any]:
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


def _checked_column(name: str, values: Any, number: int, start: int) -> list[Any]:
    values = np.asarray(values)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = f"block {number} (rows {start} to {start + len(values) - 1}): row {start + bad[0]}"
        raise ValueError(f"{name} holds NaN or infinity in {place}; fill it or leave the row out")
    if name == "sample_weight" and (values < 0.0).any():
        raise ValueError(f"sample_weight must be >= 0, got {values.min():g} in block {number}")
    return [values]


def _times(K: Any, x: Array) -> Array:
    if not x.any():
        return np.zeros((K.shape[0], *x.shape[1:]))
    return double(product(K, x))


def transposed_times(K: Any, theta: Array, *, in_double: bool = False) -> Array:
    """K' theta in the precision of K or, if asked, in float64; the sum over the blocks is in
    float64.

    K is not copied to another precision as a whole.
    """
    return double(product(K.T, theta if in_double else theta.astype(K.dtype, copy=False)))


def squared(K: Any) -> Any:
    """The squares of the entries."""
    return K.multiply(K) if scipy.sparse.issparse(K) else K * K


def _squares(K: Any) -> tuple[Array]:
    return (transposed_times(squared(K), np.ones(K.shape[0])),)


def _weighted_sums(K: Any, w: Array) -> tuple[Any, ...]:
    """sum w K, sum w, and the largest |K|, for each column."""
    sizes = abs(K).max(axis=0)
    sizes = sizes.toarray() if scipy.sparse.issparse(sizes) else sizes
    return K.T @ w, float(w.sum()), Largest(np.ravel(sizes).astype(np.float64))


def squares_about(K: Any, w: Array, mean: Array) -> tuple[Array]:
    """sum w (K - mean)^2 for each column; entries that are not stored are 0."""
    if not scipy.sparse.issparse(K):
        return (sum(w[rows] @ (double(K[rows]) - mean) ** 2 for rows in row_blocks(K)),)
    about = K.copy()
    about.data = (K.data - mean[K.indices]) ** 2
    stored = K.copy()
    stored.data = np.ones_like(K.data, np.float64)
    # a column that is all stored has no weight left, where a difference of sums would leave its
    # rounding
    counted = w > 0.0
    has_zeros = stored.T @ counted.astype(np.float64) < np.count_nonzero(counted)
    weight_of_zeros = np.where(has_zeros, w.sum() - stored.T @ w, 0.0)
    return (about.T @ w + mean**2 * np.maximum(weight_of_zeros, 0.0),)
