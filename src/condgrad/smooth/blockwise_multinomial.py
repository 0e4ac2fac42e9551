"""The softmax loss of several classes for data of Dask, as `Multinomial` is it for data of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array, Space, Vector, dot
from condgrad.problem import Smooth
from condgrad.search.backtracking import backtrack
from condgrad.search.restriction import LocalModel, Restriction
from condgrad.smooth.blockwise import ROUNDING, LossFacts, mixed_margins
from condgrad.smooth.multinomial import Softmax
from condgrad.smooth.row_blocks import (
    Largest,
    RowBlocks,
    as_array,
    dask,
    is_dask,
    kept,
    squared,
    summed,
    transposed_times,
)

UNIT = sys.float_info.epsilon
PASSES = 100
"""Newton steps for the best intercepts; from nearby they take two or three."""
SHORTEST = 1e-6
"""The shortest of these steps that is tried."""


class SoftmaxSums(NamedTuple):
    """Of the loss over all samples, at margins shifted by the intercepts."""

    value: float
    excess: Vector
    """What each class gets beyond its weight: the gradient in the intercepts."""
    curvature: Any
    """The second derivatives in the intercepts."""
    size: float
    """The sum of |theta|, theta the gradient in the margins."""


class BlockwiseMultinomial(Smooth):
    """f(X) = sum_i w_i (log sum_k exp(z_i.X_k) - z_i.X_(y_i)) for a Dask array Z of blocks of rows, dense or sparse.

    `Multinomial` of a Dask array or dataframe is such a loss, of labels of any kind.

    Parameters
    ----------
    Z : Dask array or dataframe, shape (samples, features)
    y : Dask array or array, shape (samples,)
        Whole numbers from 0 on, the columns of X.
    classes : int
        How many there are.
    sample_weight : Dask array or array of nonnegative numbers, optional
    intercept : bool
        As in `Multinomial`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, condgrad as cg
    >>> f = cg.smooth.BlockwiseMultinomial(da.ones((6, 2), chunks=(2, 2)), np.arange(6) % 3, classes=3)
    >>> round(f.value_and_gradient(np.zeros((2, 3)))[0], 6)  # 6 log 3
    6.591674
    """

    def __init__(self, Z: Any, y: Any, *, classes: int, sample_weight: Any = None, intercept: bool = False) -> None:
        self.data = Z if isinstance(Z, RowBlocks) else RowBlocks(Z)
        weights = self.data.ones() if sample_weight is None else self.data.beside("sample_weight", sample_weight)
        self.targets = kept(self.data.beside("y", y).map(_softmax, weights, classes=classes))
        self.classes = np.arange(classes)
        self.space: Space = Space.of(np.empty(0, self.data.dtype), shape=(self.data.shape[1], classes))
        self.masses, heaviest = summed(_masses, self.targets)
        self.mass = float(self.masses.sum())
        if not self.mass > 0.0:
            raise ValueError("sample_weight must have a positive entry, got only zeros")
        if intercept and self.masses.min() < sys.float_info.min:
            raise ValueError(
                "y must have a positive sample_weight in each class where there is an intercept; class number "
                f"{int(self.masses.argmin())} has none: leave it out"
            )
        self.h = LossFacts(0.5 * float(heaviest.values), intercept)

    @classmethod
    def of_labels(cls, Z: Any, y: Any, **options: Any) -> BlockwiseMultinomial:
        """The loss of labels of any kind; the columns of X are the classes in sorted order, `classes`."""
        y = as_array(y)
        classes = np.asarray(dask("array").unique(y).compute()) if is_dask(y) else np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one: {classes[0]!r}")
        f = cls(Z, codes(y, classes), classes=len(classes), **options)
        f.classes = classes
        return f

    @cached_property
    def moments(self) -> tuple[Array, Array, float]:
        """sum w K^2 and sum w K for each column, and sum w."""
        squares, sums = self.data.summed(_moments, self.targets)
        inner = self.data.inner
        return inner(inner(squares)), inner(sums), self.mass

    def at(self, x: Array) -> BlockwiseMultinomialEvaluation:
        return BlockwiseMultinomialEvaluation(self, x)

    def __repr__(self) -> str:
        (m, n), k = self.data.shape, self.space.shape[1]
        intercept = ", intercept" if self.h.has_intercept else ""
        return f"BlockwiseMultinomial({m} samples, {n} features, {k} classes{intercept})"


def codes(y: Any, classes: Any) -> Any:
    """The places of labels among the classes, as a Dask array."""
    y = dask("array").asarray(as_array(y))
    return y.map_blocks(lambda labels: np.searchsorted(classes, labels), dtype=np.intp)


# --- what runs on the workers


def _softmax(y: Array, weights: Array, classes: int) -> Softmax:
    """The loss of one block."""
    return Softmax(y, y.astype(np.intp), classes, weights, intercept=False)


def _masses(h: Softmax) -> tuple[Any, ...]:
    return h.mass, Largest(h.weights.max())


def _moments(K: Any, h: Softmax) -> tuple[Any, ...]:
    return transposed_times(squared(K), h.weights), transposed_times(K, h.weights)


def _sums(h: Softmax, z: Array, b: Vector) -> tuple[Any, ...]:
    value, shares = h.value_and_shares(z, b)
    weighted = h.weights[:, None] * shares
    sums = weighted.sum(axis=0)
    return value, sums - h.mass, np.diag(sums) - weighted.T @ shares, float(np.abs(h.theta(shares)).sum())


def _gradient(K: Any, h: Softmax, z: Array, b: Vector) -> tuple[Any, ...]:
    """K' theta, <theta, z> and |theta|^2."""
    theta = h.theta(h.value_and_shares(z, b)[1])
    return transposed_times(K, theta), dot(theta, z), dot(theta, theta)


def _slopes(h: Softmax, z: Array, *ends: Array, b: Vector) -> tuple[Any, ...]:
    theta = h.theta(h.value_and_shares(z, b)[1])
    return tuple(dot(theta, end) for end in ends)


# --- what the driver makes of it


class BlockwiseMultinomialEvaluation:
    """f at X, from margins that stay on the workers; the bound that it proves is that of `MultinomialEvaluation`."""

    def __init__(self, f: BlockwiseMultinomial, x: Array, margins: Any = None, near: Vector | None = None) -> None:
        self.f, self._x, self._near = f, x, near
        if margins is not None:
            self.margins = margins

    @cached_property
    def margins(self) -> Any:
        """K X, a bag with an array for each block."""
        return self.f.data.times(self._x)

    @cached_property
    def _best(self) -> tuple[SoftmaxSums, Vector]:
        if not self.f.h.has_intercept:
            b = np.zeros(self.f.space.shape[1])
            return self._at_intercepts(b), b
        near = np.log(self.f.masses / self.f.mass) if self._near is None else self._near
        return best_intercepts(self._at_intercepts, near, self.f.mass)

    def _at_intercepts(self, b: Vector) -> SoftmaxSums:
        return SoftmaxSums(*summed(_sums, self.f.targets, self.margins, b=b))

    @property
    def value(self) -> float:
        return self._best[0].value

    @property
    def intercept(self) -> Vector:
        return self._best[1]

    @cached_property
    def _first_order(self) -> tuple[Array, float, float]:
        gradient, level, squares = self.f.data.summed(_gradient, self.f.targets, self.margins, b=self.intercept)
        return self.f.data.inner(gradient), level, squares

    @property
    def gradient(self) -> Array:
        return self._first_order[0].astype(self.f.space.dtype, copy=False)

    @property
    def offset(self) -> float:
        return self.value - self._first_order[1]

    @cached_property
    def image_size(self) -> float:
        """The size of K X before columns cancel in it."""
        return dot(self.f.data.column_norms, np.abs(self._x).sum(axis=1).astype(np.float64))

    def magnitude(self, other: BlockwiseMultinomialEvaluation) -> float:
        unit, length = self.f.space.unit, self._first_order[2] ** 0.5
        rounding = unit * self.f.h.curvature_bound * self.image_size if length > 0.0 else 0.0
        size = (length + rounding) * other.image_size
        if not self.f.h.has_intercept:
            return size
        sums = self._best[0]
        shifts = float(np.abs(self.intercept).max()) + self.image_size + other.image_size
        return size + (float(np.abs(sums.excess).max()) / unit + UNIT / unit * sums.size) * shifts

    def along(self, others: Sequence[BlockwiseMultinomialEvaluation], directions: Array) -> Restriction:
        return BlockwiseMultinomialRestriction(self, others)

    def moved(
        self, x: Array, others: Sequence[BlockwiseMultinomialEvaluation], a: Vector
    ) -> BlockwiseMultinomialEvaluation:
        near = self.intercept + sum(a[i] * (other.intercept - self.intercept) for i, other in enumerate(others))
        return BlockwiseMultinomialEvaluation(self.f, x, mixed_margins(self, others, a), near)


class BlockwiseMultinomialRestriction:
    """a -> f(X + sum_i a_i (others[i] - X)); its curvature is not asked of the workers."""

    def __init__(self, here: BlockwiseMultinomialEvaluation, others: Sequence[BlockwiseMultinomialEvaluation]) -> None:
        self.here, self.others = here, others

    def value(self, a: Vector) -> float:
        return self.here.moved(self.here._x, self.others, a).value

    def local(self, a: Vector) -> LocalModel:
        there = self.here.moved(self.here._x, self.others, a)
        ends = [self.here.margins, *(other.margins for other in self.others)]
        levels = np.array(summed(_slopes, there.f.targets, there.margins, *ends, b=there.intercept))
        return LocalModel(there.value, levels[1:] - levels[0], None)


def best_intercepts(sums_at: Callable[[Vector], SoftmaxSums], b: Vector, mass: float) -> tuple[SoftmaxSums, Vector]:
    """The b of sum 0 at which each class gets its weight, and the sums there: Newton's method, damped.

    It ends where the excess is nothing but rounding, or no step lowers the loss or the excess any more. What is then
    left of the excess is a part of the noise of the bound.
    """
    sums = sums_at(b)
    for _ in range(PASSES):
        size = float(np.abs(sums.excess).max())
        if size <= ROUNDING * mass:
            break
        direction = np.linalg.pinv(sums.curvature, hermitian=True) @ sums.excess

        def attempt(step: float, b: Vector = b, sums: SoftmaxSums = sums, d: Vector = direction) -> Any:
            there = sums_at(b - step * d)
            falls = there.value < sums.value or np.abs(there.excess).max() < 0.5 * np.abs(sums.excess).max()
            return there if falls else None

        found = backtrack(attempt, shortest=SHORTEST)
        if found is None:
            break
        step, sums = found
        b = b - step * direction
    return sums, b - b.mean()
