"""A loss of Dask arrays: what is needed of the data are sums over blocks of rows, and the data stay
on the workers.

    f(x) = min_b sum over blocks of h(K x + b)

Of a block the driver sees `h`, `K' theta`, `K_A' diag(w) K_A` and the like: numbers, vectors and
small matrices, which the workers add up in a tree. Margins K x stay with the block.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.arrays import Array, Space, Vector, dot, precision, smallest
from condgrad.problem import Floor, Smooth
from condgrad.search.restriction import LocalModel, Restriction
from condgrad.smooth.intercept import require_both_classes
from condgrad.smooth.row_blocks import (
    Largest,
    RowBlocks,
    as_array,
    dask,
    kept,
    squared,
    squares_about,
    summed,
    transposed_times,
)
from condgrad.smooth.separable import SeparableLoss, positive_label

UNIT = sys.float_info.epsilon
PASSES = 100
"""The largest number of steps for the best intercept. From nearby, two or three are enough."""
ROUNDING = 64.0 * UNIT
"""A sum over many samples counts as 0 if it is at most this share of the sum of sizes: rounding
leaves as much.
"""
LONGEST_STEP = 8.0
"""For the logistic loss, a first Newton step that is longer than this is not taken, and later no
step longer than half of the last. The bracket is halved or widened instead.
"""
SETTLED = 1e-8
"""For the logistic loss, the search ends once the next Newton step would be at most this. `_theta`
takes this step out of theta without going there. The step after it would be about 1e-16, because
the third derivative of the loss is no larger than the second.
"""
ROWS_AT_ONCE = 1 << 13
"""A Gram matrix takes this many rows of a block at a time, so that no copy of the block is made."""


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


class FirstOrder(NamedTuple):
    """What the gradient theta of h in the margins z = K x says of all samples."""

    gradient: Array
    """K' theta."""
    level: float
    """<theta, z>."""
    squares: float
    """|theta|^2."""
    lost: int
    """How many of theta are too small for the precision of K."""


class SumOverBlocks(Smooth):
    """A loss of data in blocks of rows: what those of numbers, of two classes and of several share."""

    h: LossFacts
    at_hand = False
    """As in `Composite`."""
    floor = Floor(0.0, 0.0)

    def __init__(
        self,
        K: Any,
        y: Any,
        sample_weight: Any,
        *,
        columns: tuple[int, ...],
        target: Callable[..., Any],
        masses_of: Callable[[Any], Vector],
        **options: Any,
    ) -> None:
        """x has the columns; `target(y, weights, **options)` is the h of a block, `masses_of(h)`
        weighs its classes.
        """
        self.data = K if isinstance(K, RowBlocks) else RowBlocks(K)
        weights = (
            self.data.ones()
            if sample_weight is None
            else self.data.beside("sample_weight", sample_weight)
        )
        self.targets = kept(self.data.beside("y", y).map(target, weights, **options))
        """The part of h of each block."""
        self.space: Space = Space.of(
            np.empty(0, self.data.dtype), shape=(self.data.shape[1], *columns)
        )
        self.masses, heaviest = summed(_masses_and_heaviest, self.targets, masses_of=masses_of)
        """The weight of each class."""
        self.mass = float(self.masses.sum())
        self.heaviest = float(heaviest.values)
        if not self.mass > 0.0:
            raise ValueError("sample_weight must have a positive entry, got only zeros")

    def unit_at(self, x: Array) -> float:
        return precision(x)

    @property
    def column_norms(self) -> Array:
        """|K_j|_2 for each column."""
        return self.data.column_norms

    @cached_property
    def moments(self) -> tuple[Array, Array, float]:
        """The sums of w K^2 and of w K for each column, and the sum of w."""
        squares, sums = self._plain_moments
        inner = self.data.inner
        return inner(inner(squares)), inner(sums), self.mass

    @cached_property
    def squares_about_means(self) -> Array:
        """sum w (K - mean)^2 for each column."""
        _, sums = self._plain_moments
        (squares,) = self.data.summed(_squares_about, self.targets, mean=sums / self.mass)
        inner = self.data.inner
        return inner(inner(squares))

    @cached_property
    def _plain_moments(self) -> tuple[Array, Array]:
        """sum w K^2 and sum w K for each column as the workers have it."""
        squares, sums = self.data.summed(_moments, self.targets)
        return squares, sums


class BlockwiseLoss(SumOverBlocks):
    """A loss of the data in a Dask array K, in blocks of rows that are dense or SciPy sparse.

    You get one if you give a Dask array or dataframe to `LeastSquares`, `Logistic` or
    `SquaredHinge`. The data stay on the workers. Newton's method, paths and everything else work as
    for data in memory.

    Parameters
    ----------
    loss : type
        `LeastSquares`, `Logistic` or `SquaredHinge`.
    K : Dask array or dataframe, shape (samples, features)
        Or its `RowBlocks`, if several losses share the data.
    y : Dask array or array, shape (samples,)
        Numbers. For `Logistic` and `SquaredHinge` they are -1 and +1.
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

    settled = 0.0
    """A step of the intercept that is the last one."""

    def __new__(cls, loss: Any = None, *_data: Any, **_options: Any) -> Any:
        return super().__new__(loss.in_blocks if cls is BlockwiseLoss else cls)

    def __init__(
        self,
        loss: Any,
        K: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
    ) -> None:
        intercept = _checks.flag("intercept", intercept)
        super().__init__(
            K,
            y,
            sample_weight,
            columns=(),
            target=_target,
            masses_of=_masses_of_signs,
            loss=loss,
        )
        self.samples = self.data.shape[0]
        if intercept and loss.of_scores.has_labels:
            require_both_classes(float(self.masses[0]), float(self.masses[1]))
        self.h = LossFacts(loss.of_scores.steepest_curvature * self.heaviest, intercept)
        self.last_intercept = 0.0
        """Where the next search begins: it saves passes over the data and changes nothing else."""
        self._name = loss.__name__

    @classmethod
    def of_labels(cls, loss: Any, K: Any, y: Any, **options: Any) -> BlockwiseLoss:
        """The loss of any two labels; the larger counts as +1. `LeastSquares` takes numbers."""
        if not loss.of_scores.has_labels:
            return cls(loss, K, y, **options)
        y = dask("array").asarray(as_array(y))
        high = positive_label(np.asarray(dask("array").unique(y).compute(), dtype=np.float64))
        return cls(loss, K, dask("array").where(y == high, 1.0, -1.0), **options)

    def at(self, x: Array) -> BlockwiseEvaluation:
        return BlockwiseEvaluation(self, x)

    def intercept_at(self, x: Array) -> float:
        """The best intercept at x; 0 without an intercept."""
        return self.at(x).intercept

    def __repr__(self) -> str:
        intercept = ", intercept" if self.h.has_intercept else ""
        return f"Blockwise{self._name}({self.samples} samples, {self.space.shape[0]} features{intercept})"


class BlockwiseLeastSquares(BlockwiseLoss):
    """`LeastSquares` of Dask's data."""


class BlockwiseLogistic(BlockwiseLoss):
    """`Logistic` of Dask's data."""

    settled = SETTLED


class BlockwiseSquaredHinge(BlockwiseLoss):
    """`SquaredHinge` of Dask's data."""


# --- what runs on the workers


def _target(y: Array, weights: Array, loss: Any) -> SeparableLoss:
    """h of one block."""
    if loss.of_scores.has_labels and not np.isin(y, (-1.0, 1.0)).all():
        strange = y[~np.isin(y, (-1.0, 1.0))][0]
        raise ValueError(
            f"y must hold the labels -1 and +1, got {strange:g}: for other labels write {loss.__name__}(K, y)"
        )
    h: SeparableLoss = loss.of_scores(y, weights)
    return h


def _masses_and_heaviest(h: Any, masses_of: Callable[[Any], Vector]) -> tuple[Any, ...]:
    return masses_of(h), Largest(h.weights.max())


def _masses_of_signs(h: Any) -> Vector:
    """The weights of samples with y > 0, with y < 0, and of the others."""
    return np.array([h.weights[of_sign].sum() for of_sign in (h.y > 0.0, h.y < 0.0, h.y == 0.0)])


def _moments(K: Any, h: Any) -> tuple[Any, ...]:
    """sum w K^2 and sum w K for each column."""
    return transposed_times(squared(K), h.weights), transposed_times(K, h.weights, in_double=True)


def _squares_about(K: Any, h: Any, mean: Array) -> tuple[Array]:
    return squares_about(K, h.weights, mean)


def _mixed(*margins: Array, shares: Sequence[float]) -> Array:
    return sum(share * z for share, z in zip(shares, margins, strict=True))


def _sums(h: Any, z: Array, b: float) -> tuple[Any, ...]:
    value, theta = h.evaluate(z + b)
    return value, float(theta.sum()), float(np.abs(theta).sum()), float(h.curvature(z + b).sum())


def _theta(h: Any, z: Array, b: float, excess: float) -> Array:
    """h' at the margins, less the share of an excess of their sum that the curvature has."""
    theta = h.evaluate(z + b)[1]
    return theta if excess == 0.0 else theta - excess * h.curvature(z + b)


def _first_order(
    K: Any, h: Any, z: Array, find: Callable[..., Array], in_double: bool, **shift: Any
) -> tuple[Any, ...]:
    """The `FirstOrder` of a block, theta = find(h, z)."""
    theta = find(h, z, **shift)
    least = np.finfo(np.float64 if in_double else K.dtype).tiny
    lost = int(np.count_nonzero((theta != 0.0) & (np.abs(theta) < least)))
    return transposed_times(K, theta, in_double=in_double), dot(theta, z), dot(theta, theta), lost


def _slopes(
    h: Any, z: Array, *ends: Array, find: Callable[..., Array], **shift: Any
) -> tuple[float, ...]:
    theta = find(h, z, **shift)
    return tuple(dot(theta, end) for end in ends)


def _hessian(K: Any, h: Any, z: Array, b: float, active: Any) -> tuple[Array, Array, float]:
    """K_A' W K_A, K_A' w and the sum of w."""
    w = h.curvature(z + b)
    gram, sums = weighted_products(K, active, w)
    return gram, sums, float(w.sum())


def weighted_products(K: Any, active: Any, w: Array) -> tuple[Array, Array]:
    """K_A' diag(w) K_A, in the precision of K where that is dense, and K_A' w in float64."""
    if scipy.sparse.issparse(K):
        from condgrad.kernels import sparse_gram

        K = K[:, active].astype(np.float64)
        return sparse_gram.weighted_gram(K.indptr, K.indices, K.data, w, K.shape[1])
    whole = len(active) == K.shape[1]
    root = np.sqrt(w).astype(K.dtype)
    gram = np.zeros((len(active), len(active)))
    sums = np.zeros(len(active))
    for begin in range(0, K.shape[0], ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        rows = K[some] if whole else K[some][:, active]
        sums += rows.T.astype(np.float64) @ w[some]
        rows = root[some, None] * rows
        gram += rows.T @ rows
    return gram, sums


# --- what the driver makes of it


class EvaluationOverBlocks:
    """f at x, from margins that stay on the workers; the bound that it proves is that of
    `CompositeEvaluation`.

    A subclass says how a worker finds theta, the gradient of h in the margins, and what is charged
    for the intercept.
    """

    theta: Callable[..., Array]
    """Of the part of h of a block, its margins and the shift."""

    def __init__(self, f: Any, x: Array, margins: Any = None, near: Any = None) -> None:
        self.f = f
        self._x = x
        self._near = near
        if margins is not None:
            self.margins = margins

    @cached_property
    def margins(self) -> Any:
        """K x, a bag with an array for each block."""
        return self.f.data.times(self._x)

    @cached_property
    def _best(self) -> tuple[Any, Any]:
        """The sums over all samples at the best intercept, and this."""
        raise NotImplementedError

    @property
    def _shift(self) -> dict[str, Any]:
        """What theta needs besides the margins: the intercept, and the like."""
        raise NotImplementedError

    def _charge_for_intercept(self, shifts: float) -> float:
        """The size of what rounding does to the bound by an intercept; shifts are the sizes of the
        margins.
        """
        raise NotImplementedError

    @property
    def value(self) -> float:
        return self._best[0].value

    @property
    def intercept(self) -> Any:
        return self._best[1]

    @cached_property
    def _first_order(self) -> FirstOrder:
        rules: dict[str, Any] = {
            "find": self.theta,
            "in_double": self._x.dtype == np.float64,
            **self._shift,
        }
        found = self.f.data.summed(_first_order, self.f.targets, self.margins, **rules)
        return FirstOrder(*found)._replace(gradient=self.f.data.inner(found[0]))

    @property
    def gradient(self) -> Array:
        return self._first_order.gradient.astype(self._x.dtype, copy=False)

    @property
    def offset(self) -> float:
        return self.value - self._first_order.level

    @cached_property
    def image_size(self) -> float:
        """The size of K x before columns cancel in it."""
        rows = np.abs(self._x).astype(np.float64).reshape(len(self._x), -1)
        return dot(self.f.column_norms, rows.sum(axis=1))

    def magnitude(self, other: EvaluationOverBlocks) -> float:
        # the terms are those of `CompositeEvaluation.magnitude`
        unit = self.f.unit_at(self._x)
        h = self.f.h
        first = self._first_order
        length = first.squares**0.5
        rounding = unit * h.curvature_bound * self.image_size if length > 0.0 else 0.0
        underflow = smallest(self._x) / unit * first.lost**0.5
        size = (length + rounding + underflow) * other.image_size
        return (
            size + self._charge_for_intercept(self.image_size + other.image_size)
            if h.has_intercept
            else size
        )

    def along(self, others: Sequence[EvaluationOverBlocks], directions: Array) -> Restriction:
        return BlockwiseRestriction(self, others)

    def moved(self, x: Array, others: Sequence[EvaluationOverBlocks], a: Vector) -> Self:
        here = self.intercept
        near = here + sum(
            float(share) * (o.intercept - here) for share, o in zip(a, others, strict=True)
        )
        shares = [1.0 - float(a.sum()), *a.tolist()]
        margins = kept(
            self.margins.map(_mixed, *(other.margins for other in others), shares=shares)
        )
        return type(self)(self.f, x, margins, near)

    def slopes(self, ends: Sequence[Any]) -> Vector:
        """<theta, z> for several margins z."""
        return np.array(
            summed(_slopes, self.f.targets, self.margins, *ends, find=self.theta, **self._shift),
            dtype=np.float64,
        )


class BlockwiseRestriction:
    """a -> f(x + sum_i a_i (others[i] - x)); its curvature is not asked of the workers."""

    def __init__(self, here: EvaluationOverBlocks, others: Sequence[EvaluationOverBlocks]) -> None:
        self.here = here
        self.others = others

    def value(self, a: Vector) -> float:
        return self.here.moved(self.here._x, self.others, a).value

    def local(self, a: Vector) -> LocalModel:
        there = self.here.moved(self.here._x, self.others, a)
        levels = there.slopes([self.here.margins, *(other.margins for other in self.others)])
        return LocalModel(there.value, levels[1:] - levels[0], None)


class BlockwiseEvaluation(EvaluationOverBlocks):
    """A loss of numbers or two classes at x."""

    theta = staticmethod(_theta)

    @cached_property
    def _best(self) -> tuple[Sums, float]:
        if not self.f.h.has_intercept:
            return self._at_intercept(0.0), 0.0
        near = self.f.last_intercept if self._near is None else self._near
        sums, b = best_intercept(self._at_intercept, near, self.f.settled)
        self.f.last_intercept = b
        return sums, b

    def _at_intercept(self, b: float) -> Sums:
        return sums_over_blocks(self.f.targets, self.margins, b)

    @property
    def _shift(self) -> dict[str, float]:
        """The intercept, and what is left of the sum of theta in shares of the curvature."""
        sums, b = self._best
        balanced = not self.f.h.has_intercept or not sums.mass > abs(sums.slope)
        return {"b": b, "excess": 0.0 if balanced else sums.slope / sums.mass}

    def _charge_for_intercept(self, shifts: float) -> float:
        unit = self.f.unit_at(self._x)
        size = abs(self.intercept)
        charge = UNIT / unit * (size + shifts) * self._best[0].slope_size
        if self.value > 0.0:
            slip = UNIT * size
            charge += 0.5 * self.f.h.curvature_bound * self.f.samples * slip * slip / unit
        return charge

    def hessian_in(self, active: Array) -> Array:
        """The Hessian of f in some coordinates, the intercept at its best."""
        data = self.f.data
        _, b = self._best
        gram, sums, mass = data.summed(_hessian, self.f.targets, self.margins, b=b, active=active)
        if self.f.h.has_intercept and mass > 0.0:
            gram = gram - np.outer(sums / mass, sums)
        if data.units is not None:
            units = data.units[active]
            gram = gram / units / units[:, None]
        return gram


def sums_over_blocks(targets: Any, margins: Any, b: float) -> Sums:
    """Those of blocks of a loss and of their margins."""
    return Sums(*summed(_sums, targets, margins, b=b))


def best_intercept(
    sums_at: Callable[[float], Sums], b: float, settled: float
) -> tuple[Sums, float]:
    """The b at which the slopes add up to 0, and the sums there: Newton's method within a bracket.

    It ends where the sum is nothing but rounding, or where the next step would be no longer than
    `settled`.
    """
    low = -math.inf
    high = math.inf
    reach = 1.0
    # far from its margins a logistic loss has hardly any curvature, and a step by that would lead
    # out of all digits
    longest = LONGEST_STEP if settled > 0.0 else math.inf
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
        if not low < trial < high or not abs(step) <= longest:
            # without curvature, as where all margins are met, the bracket grows until it closes
            reach *= 2.0
            trial = (
                0.5 * (low + high)
                if math.isfinite(low) and math.isfinite(high)
                else b + math.copysign(reach, step)
            )
        if abs(trial - b) <= UNIT * max(1.0, abs(b)):
            break
        longest = 0.5 * abs(trial - b)
        b = trial
        sums = sums_at(b)
    return sums, b
