"""The softmax loss of several classes for data of Dask; `Multinomial` is the one for data in
memory.
"""

from __future__ import annotations

import math
import sys
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from condgrad import _checks
from condgrad.arrays import Array, Vector
from condgrad.smooth.blockwise import (
    SETTLED,
    EvaluationOverBlocks,
    LossFacts,
    SumOverBlocks,
    best_intercept,
    sums_over_blocks,
)
from condgrad.smooth.row_blocks import as_array, dask, is_dask, kept, summed
from condgrad.smooth.separable import LogisticOfScores
from condgrad.smooth.softmax import (
    Softmax,
    SoftmaxAt,
    best_intercepts,
    first_intercepts,
    inverse_of_curvature,
    last_step,
    margin_over_the_rest,
)

UNIT = sys.float_info.epsilon


class SoftmaxSums(NamedTuple):
    """The `AtIntercepts` of all samples."""

    value: float
    excess: Vector
    curvature: Any
    size: float
    """The sum of |theta|, theta the gradient in the margins."""


class BlockwiseMultinomial(SumOverBlocks):
    """The loss `Multinomial` of the data in a Dask array Z, in dense or sparse blocks of rows.

    You get one if you give a Dask array or dataframe to `Multinomial`; its labels may be of any
    kind. The loss is f(X) = sum_i w_i (log sum_k exp(z_i.X_k) - z_i.X_(y_i)).

    Parameters
    ----------
    Z : Dask array or dataframe, shape (samples, features)
    y : Dask array or array, shape (samples,)
        The classes as whole numbers 0, 1, ...: the columns of X.
    classes : int
        The number of classes.
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

    def __init__(
        self, Z: Any, y: Any, *, classes: int, sample_weight: Any = None, intercept: bool = False
    ) -> None:
        intercept = _checks.flag("intercept", intercept)
        super().__init__(
            Z,
            y,
            sample_weight,
            columns=(classes,),
            target=_softmax,
            masses_of=_masses,
            classes=classes,
        )
        self.classes = np.arange(classes)
        if intercept and self.masses.min() < sys.float_info.min:
            raise ValueError(
                "with an intercept, each class of y must have a positive sample_weight; class number "
                f"{int(self.masses.argmin())} has none: leave it out"
            )
        self.h = LossFacts(0.5 * self.heaviest, intercept)

    @classmethod
    def of_labels(cls, Z: Any, y: Any, **options: Any) -> BlockwiseMultinomial:
        """The loss of labels of any kind. The columns of X are the classes in sorted order; this is
        the attribute `classes`.
        """
        y = as_array(y)
        classes = np.asarray(dask("array").unique(y).compute()) if is_dask(y) else np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one: {classes[0]!r}")
        f = cls(Z, codes(y, classes), classes=len(classes), **options)
        f.classes = classes
        return f

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
    return Softmax(y.astype(np.intp), classes, weights, intercept=False)


def _masses(h: Softmax) -> Vector:
    return h.mass


def _sums(h: Softmax, z: Array, b: Vector) -> tuple[Any, ...]:
    here = SoftmaxAt(h, z, b)
    return here.value, here.excess, here.curvature, here.size


def _one_class(h: Softmax, k: int) -> LogisticOfScores:
    """The logistic loss of class k against the rest."""
    return LogisticOfScores(2.0 * h.one_hot[:, k] - 1.0, h.weights)


def _sums_of_margins(h: Softmax, z: Array) -> tuple[Any, ...]:
    return (h.weights @ z,)


def _theta(h: Softmax, z: Array, b: Vector, step: Vector) -> Array:
    return h.theta(h.value_and_shares(z, b)[1], step)


# --- what the driver makes of it


class BlockwiseMultinomialEvaluation(EvaluationOverBlocks):
    """The softmax loss at X."""

    theta = staticmethod(_theta)

    @cached_property
    def _best(self) -> tuple[SoftmaxSums, Vector]:
        if not self.f.h.has_intercept:
            b = np.zeros(self.f.space.shape[1])
            return self._at_intercepts(b), b
        near = self._near
        if near is None:
            (sums_of_margins,) = summed(_sums_of_margins, self.f.targets, self.margins)
            near = first_intercepts(self.f.masses, sums_of_margins)
        return best_intercepts(self._at_intercepts, self._against_the_rest, near, self.f.mass)

    def _at_intercepts(self, b: Vector) -> SoftmaxSums:
        return SoftmaxSums(*summed(_sums, self.f.targets, self.margins, b=b))

    def _against_the_rest(self, b: Vector, k: int) -> float:
        """What entry k of b lacks to be at its best for the others."""
        targets = kept(self.f.targets.map(_one_class, k=k))
        margins = kept(self.margins.map(margin_over_the_rest, b=b, k=k))
        sums_at = partial(sums_over_blocks, targets, margins)
        return best_intercept(sums_at, 0.0, SETTLED)[1]

    @property
    def _shift(self) -> dict[str, Vector]:
        return {"b": self.intercept, "step": self._last_step}

    @cached_property
    def _last_step(self) -> Vector:
        """As in `Softmax.at_best_intercept`; none without intercepts."""
        sums = self._best[0]
        if not self.f.h.has_intercept:
            return np.zeros_like(sums.excess)
        return last_step(inverse_of_curvature(sums.curvature, self.f.mass), sums.excess)

    def _charge_for_intercept(self, shifts: float) -> float:
        sums = self._best[0]
        unit = self.f.unit_at(self._x)
        step = self._last_step
        left = float(np.abs(sums.excess).max())
        if step.any():  # behind the step, by as much as the curvature changes along it
            left *= math.expm1(float(np.ptp(step)))
        charge = (left / unit + UNIT / unit * sums.size) * (
            float(np.abs(self.intercept).max()) + shifts
        )
        return charge + float(step @ sums.excess) / unit
