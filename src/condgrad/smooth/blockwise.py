"""A loss of Dask arrays: what is needed of the data are sums over blocks of rows, and the data stay on the workers.

    f(x) = min_b sum over blocks of h(K x + b)

Of a block the driver sees `h`, `K' theta`, `K_A' diag(w) K_A` and the like: numbers, vectors and small matrices, which
the workers add up in a tree. Margins K x stay with the block. Dask schedules, spills to disk, and computes anew what a
lost worker had.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad.arrays import Array, Space, Vector, dot
from condgrad.errors import require_extra
from condgrad.problem import Smooth
from condgrad.search.restriction import LocalModel, Restriction
from condgrad.smooth.composite import Composite
from condgrad.smooth.losses import SEPARABLE, Logistic

UNIT = sys.float_info.epsilon
PASSES = 100
"""Steps for the best intercept; from nearby they take two or three."""
ROUNDING = 64.0 * UNIT
"""What rounding leaves of a sum over many samples, as a share of the sum of sizes."""
SETTLED = 1e-8
"""A step of an intercept of the logistic loss after which the next would be 1e-16: its second derivative is no larger
than its first. `_theta` takes it out of theta without going there."""
TREE = 8
"""Partial sums that are added up at a time."""


class Block(NamedTuple):
    """Some rows of the data, with their part of the loss."""

    K: Any
    h: Any


@dataclass(frozen=True)
class LossFacts:
    """What is known of the loss without the data."""

    curvature_bound: float
    has_intercept: bool


class Sums(NamedTuple):
    """Of h over all samples, at margins shifted by an intercept."""

    value: float
    slope: float
    """The sum of theta = h'."""
    slope_size: float
    """The sum of |theta|."""
    mass: float
    """The sum of w = h''."""


class NewtonSystem(NamedTuple):
    """The Hessian of f in some coordinates, and K'(W K x - theta) there."""

    gram: Array
    right: Array


class BlockwiseLoss(Smooth):
    """f(x) = h(Kx) for a Dask array K of blocks of rows, dense or SciPy sparse.

    Parameters
    ----------
    loss : type
        `LeastSquares`, `Logistic` or `SquaredHinge`.
    K : Dask array, shape (samples, features)
    y : Dask array or array, shape (samples,)
        Numbers; for the two classification losses -1 and +1.
    sample_weight : Dask array or array of nonnegative numbers, optional
    intercept : bool
        As in `LeastSquares`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, condgrad as cg
    >>> K, y = da.ones((6, 2), chunks=(2, 2)), np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    >>> f = cg.smooth.BlockwiseLoss(cg.smooth.Logistic, K, y)
    >>> round(f.value_and_gradient(np.zeros(2))[0], 6)  # 6 log 2
    4.158883
    """

    def __init__(
        self, loss: type[Composite], K: Any, y: Any, *, sample_weight: Any = None, intercept: bool = False
    ) -> None:
        array = require_extra("dask.array", extra="dask", purpose="a loss of Dask arrays")
        bag = require_extra("dask.bag", extra="dask", purpose="a loss of Dask arrays")
        delayed = require_extra("dask.delayed", extra="dask", purpose="a loss of Dask arrays").delayed
        K = K.rechunk({1: -1})
        if any(math.isnan(rows) for rows in K.chunks[0]):
            K = K.compute_chunk_sizes()
        rows = K.chunks[0]
        columns = [_beside(array, "y", y, rows)]
        columns.append(
            _beside(array, "sample_weight", np.ones(K.shape[0]) if sample_weight is None else sample_weight, rows)
        )
        starts = np.concatenate([[0], np.cumsum(rows)[:-1]])
        parts = [
            delayed(_block)(SEPARABLE[loss], K_part, y_part, w_part, number, int(start))
            for number, (K_part, y_part, w_part, start) in enumerate(
                zip(K.to_delayed()[:, 0], *(column.to_delayed() for column in columns), starts, strict=True)
            )
        ]
        self.blocks = bag.from_delayed(parts).persist()
        dtype = np.float32 if K.dtype == np.float32 else np.float64
        self.space: Space = Space.of(np.empty(0, dtype), shape=(K.shape[1],))
        self.samples = K.shape[0]
        self.squares, self.sums, plain_squares, self.mass, heaviest = self._summed(_moments, self.blocks)
        self.column_norms = np.sqrt(plain_squares)
        """|K_j|_2 for each column."""
        self.h = LossFacts(SEPARABLE[loss].steepest_curvature * float(heaviest), intercept)
        if not self.mass > 0.0:
            raise ValueError("sample_weight must have a positive entry, got only zeros")
        self.settled = SETTLED if loss is Logistic else 0.0
        self.last_intercept = 0.0
        """Where the next search begins: it saves passes over the data and changes nothing else."""
        self._name = loss.__name__

    def at(self, x: Array) -> BlockwiseEvaluation:
        return BlockwiseEvaluation(self, x)

    def _summed(self, part: Callable[..., tuple[Any, ...]], *bags: Any, **options: Any) -> tuple[Any, ...]:
        """What `part` returns for each block, added up entry by entry."""
        first, *others = bags
        found = first.map(part, *others, **options)
        return tuple(found.reduction(_added, _added, split_every=TREE).compute())

    def __repr__(self) -> str:
        intercept = ", intercept" if self.h.has_intercept else ""
        return f"Blockwise{self._name}({self.samples} samples, {self.space.shape[0]} features{intercept})"


def _beside(array: Any, name: str, values: Any, rows: tuple[int, ...]) -> Any:
    """One number for each row, in blocks as the data."""
    values = array.asarray(values)
    if any(math.isnan(size) for size in values.chunks[0]):
        values = values.compute_chunk_sizes()
    if values.shape != (sum(rows),):
        raise ValueError(f"{name} must have one entry for each of the {sum(rows)} rows, got shape {values.shape}")
    return values.rechunk((rows,)).astype(np.float64)


# --- what runs on the workers


def _block(loss: Any, K: Any, y: Any, weights: Any, number: int, start: int) -> list[Block]:
    """A block, checked."""
    if scipy.sparse.issparse(K):
        K = scipy.sparse.csr_array(K)
        entries = K.data
    else:
        K = entries = np.asarray(K)
    if K.dtype not in (np.float32, np.float64):
        K = K.astype(np.float64)
        entries = K.data if scipy.sparse.issparse(K) else K
    for name, values in (("X", entries), ("y", y), ("sample_weight", weights)):
        if not np.isfinite(values).all():
            rows = f"rows {start} to {start + K.shape[0] - 1}"
            raise ValueError(f"{name} holds NaN or infinity in block {number} ({rows}); fill it or leave the rows out")
    if (weights < 0.0).any():
        raise ValueError(f"sample_weight must be >= 0, got {weights.min():g} in block {number}")
    return [Block(K, loss(np.asarray(y), np.asarray(weights)))]


def _added(parts: Any) -> tuple[Any, ...]:
    """Partial sums, added up in their order."""
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


def _margins(block: Block, x: Array) -> Array:
    return np.asarray(block.K @ x, dtype=np.float64)


def _mixed(*margins: Array, shares: Sequence[float]) -> Array:
    return sum(share * z for share, z in zip(shares, margins, strict=True))


def _moments(block: Block) -> tuple[Any, ...]:
    """sum w K^2, sum w K and sum K^2 for each column, sum w, and the largest w."""
    K, w = block.K, block.h.weights
    squared = K.multiply(K) if scipy.sparse.issparse(K) else K * K
    sums = (_times(squared, w), _times(K, w), _times(squared, np.ones(K.shape[0])))
    return *sums, float(w.sum()), Largest(float(w.max(initial=0.0)))


def _times(K: Any, theta: Array) -> Array:
    """K' theta in the precision of K, which is not copied to another; the sum over the blocks is in float64."""
    return np.asarray(K.T @ theta.astype(K.dtype, copy=False), dtype=np.float64)


class Largest(float):
    """A number whose sum with another is the larger of the two."""

    def __add__(self, other: float) -> Largest:
        return Largest(max(self, other))


def _sums(block: Block, z: Array, b: float) -> tuple[Any, ...]:
    value, theta = block.h.evaluate(z + b)
    return value, float(theta.sum()), float(np.abs(theta).sum()), float(block.h.curvature(z + b).sum())


def _theta(block: Block, z: Array, b: float, excess: float) -> Array:
    """h' at the margins, less the share of an excess of their sum that the curvature has."""
    theta = block.h.evaluate(z + b)[1]
    return theta if excess == 0.0 else theta - excess * block.h.curvature(z + b)


def _gradient(block: Block, z: Array, b: float, excess: float) -> tuple[Any, ...]:
    """K' theta, <theta, z> and |theta|^2."""
    theta = _theta(block, z, b, excess)
    return _times(block.K, theta), float(theta @ z), float(theta @ theta)


def _system(block: Block, z: Array, b: float, excess: float, active: Any) -> tuple[Any, ...]:
    """K_A' W K_A, K_A' (W z - theta), K_A' w and w' z."""
    w, theta = block.h.curvature(z + b), _theta(block, z, b, excess)
    K = block.K[:, active]
    K = K.toarray() if scipy.sparse.issparse(K) else K
    K = K.astype(np.float64, copy=False)
    return K.T @ (w[:, None] * K), K.T @ (w * z - theta), K.T @ w, float(w @ z), float(w.sum())


def _slopes(block: Block, z: Array, *ends: Array, b: float, excess: float) -> tuple[Any, ...]:
    theta = _theta(block, z, b, excess)
    return tuple(float(theta @ end) for end in ends)


# --- what the driver makes of it


class BlockwiseEvaluation:
    """f at x, from margins that stay on the workers; the bound that it proves is that of `CompositeEvaluation`."""

    def __init__(self, f: BlockwiseLoss, x: Array, margins: Any = None, near: float | None = None) -> None:
        self.f, self._x, self._near = f, x, near
        if margins is not None:
            self.margins = margins

    @cached_property
    def margins(self) -> Any:
        """K x, a bag with an array for each block."""
        return self.f.blocks.map(_margins, x=self._x).persist()

    @cached_property
    def _best(self) -> tuple[Sums, float]:
        if not self.f.h.has_intercept:
            return self._at_intercept(0.0), 0.0
        near = self.f.last_intercept if self._near is None else self._near
        sums, b = best_intercept(self._at_intercept, near, self.f.settled)
        self.f.last_intercept = b
        return sums, b

    def _at_intercept(self, b: float) -> Sums:
        return Sums(*self.f._summed(_sums, self.f.blocks, self.margins, b=b))

    @property
    def value(self) -> float:
        return self._best[0].value

    @property
    def intercept(self) -> float:
        return self._best[1]

    @property
    def _shift(self) -> dict[str, float]:
        """The intercept, and what is left of the sum of theta in shares of the curvature."""
        sums, b = self._best
        balanced = not self.f.h.has_intercept or not sums.mass > abs(sums.slope)
        return {"b": b, "excess": 0.0 if balanced else sums.slope / sums.mass}

    @cached_property
    def _first_order(self) -> tuple[Array, float, float]:
        gradient, level, squared = self.f._summed(_gradient, self.f.blocks, self.margins, **self._shift)
        return gradient, level, squared

    @property
    def gradient(self) -> Array:
        return self._first_order[0].astype(self.f.space.dtype, copy=False)

    @property
    def offset(self) -> float:
        return self.value - self._first_order[1]

    @cached_property
    def image_size(self) -> float:
        """The size of K x before columns cancel in it."""
        return dot(self.f.column_norms, np.abs(self._x).astype(np.float64))

    def magnitude(self, other: BlockwiseEvaluation) -> float:
        unit, length = self.f.space.unit, self._first_order[2] ** 0.5
        rounding = unit * self.f.h.curvature_bound * self.image_size if length > 0.0 else 0.0
        size = (length + rounding) * other.image_size
        if not self.f.h.has_intercept:
            return size
        shifts = abs(self.intercept) + self.image_size + other.image_size
        return size + UNIT / unit * shifts * self._best[0].slope_size

    def newton_system(self, active: Array) -> NewtonSystem:
        """Of f in some coordinates, the intercept at its best."""
        gram, right, pull, level, mass = self.f._summed(
            _system, self.f.blocks, self.margins, **self._shift, active=active
        )
        if self.f.h.has_intercept and mass > 0.0:
            gram, right = gram - np.outer(pull / mass, pull), right - pull * (level / mass)
        return NewtonSystem(gram, right)

    def along(self, others: Sequence[BlockwiseEvaluation], directions: Array) -> Restriction:
        return BlockwiseRestriction(self, others)

    def moved(self, x: Array, others: Sequence[BlockwiseEvaluation], a: Vector) -> BlockwiseEvaluation:
        near = self.intercept + sum(
            float(share) * (o.intercept - self.intercept) for share, o in zip(a, others, strict=True)
        )
        shares = [1.0 - float(a.sum()), *a.tolist()]
        mixed = self.margins.map(_mixed, *(other.margins for other in others), shares=shares).persist()
        return BlockwiseEvaluation(self.f, x, mixed, near)


class BlockwiseRestriction:
    """a -> f(x + sum_i a_i (others[i] - x)); its curvature is not asked of the workers."""

    def __init__(self, here: BlockwiseEvaluation, others: Sequence[BlockwiseEvaluation]) -> None:
        self.here, self.others = here, others

    def value(self, a: Vector) -> float:
        return self.here.moved(self.here._x, self.others, a).value

    def local(self, a: Vector) -> LocalModel:
        there = self.here.moved(self.here._x, self.others, a)
        ends = [self.here.margins, *(other.margins for other in self.others)]
        levels = np.array(there.f._summed(_slopes, there.f.blocks, there.margins, *ends, **there._shift))
        return LocalModel(there.value, levels[1:] - levels[0], None)


def best_intercept(sums_at: Callable[[float], Sums], b: float, settled: float) -> tuple[Sums, float]:
    """The b at which the slopes add up to 0, and the sums there: Newton's method within a bracket.

    It ends where the sum is nothing but rounding, or where the next step would be no longer than `settled`.
    """
    low, high, reach = -math.inf, math.inf, 1.0
    sums = sums_at(b)
    for _ in range(PASSES):
        if abs(sums.slope) <= max(ROUNDING * sums.slope_size, settled * sums.mass):
            break
        if sums.slope > 0.0:
            high = b
        else:
            low = b
        step = -sums.slope / sums.mass if sums.mass > 0.0 else math.copysign(math.inf, -sums.slope)
        trial = b + step
        if not low < trial < high or not math.isfinite(trial):
            reach *= 2.0  # without curvature, as where all margins are met, the bracket grows until it closes
            trial = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else b + math.copysign(reach, step)
        if abs(trial - b) <= UNIT * max(1.0, abs(b)):
            break
        b = trial
        sums = sums_at(b)
    return sums, b
