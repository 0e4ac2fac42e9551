"""Columns without a penalty, minimised out of a loss: H(z) = min over b and c of h(z + b + Uc).

As for the intercept alone (`intercept`), H is convex and smooth, and its gradient is theta =
h'(z + b + Uc) at the best b and c, where U'theta = 0. Because of rounding, U'theta is not exactly
0. A last Newton step of theta makes it smaller, and the bound is lowered by the effect of the rest.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad.arrays import Array, dot, double, is_torch, largest_size, total
from condgrad.arrays.inputs import data_matrix
from condgrad.errors import MissingAbility
from condgrad.rounding import UNIT
from condgrad.search.backtracking import ARMIJO_FRACTION
from condgrad.smooth.composite import AtBestIntercept
from condgrad.smooth.intercept import (
    LAST_STEP,
    PASSES,
    SETTLED_AT_KINKS,
    less_projection,
    weighted_basis,
)

COLLINEAR = 1e-10
"""A column is dropped if what earlier columns do not explain is at most this share of its length.
Its coefficient would have fewer digits than a float32 has.
"""
COLLINEAR_IN_SINGLE = 1e-5
"""The same for float32 data, whose rounding looks like a column of its own."""
FIRST_REACH = 10.0
"""The first Newton step moves the scores by at most this many widths of the loss. After each step
that was not too long, four times as far is allowed.
"""
REACH_GROWTH = 4.0
THETA_ALONE = 1e-5
"""If rounding hides whether the loss still falls, and a step moves the scores by at most this many
widths of the loss, the step is taken by theta alone. The error of that is of third order.
"""
ROUNDED_RESIDUALS = 32.0
"""Residuals of at most this many rounding units of the scores count as rounding."""
CURVED_ENOUGH = 1e-6
"""If the least curvature along the columns is more than this share of the mean over the samples, a
minimum needs no further proof. If the classes are separated, rounding hides that the loss still
falls, but not how flat it is.
"""


class NamedColumns(NamedTuple):
    """Columns by names that sentences have for them."""

    values: Any
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class FreeColumns:
    """Columns U that have no penalty, by an orthonormal basis of what they span."""

    basis: Array
    """Q, orthonormal where each sample counts by its weight, a share of the largest; beside an
    intercept, about its weighted means."""
    mixing: Array
    """U_independent less its means is Q times the inverse of this."""
    means: Array
    """What was taken off the independent columns."""
    independent: Array
    """Which columns those are."""
    names: Sequence[str]
    """Of all columns."""

    @classmethod
    def of(cls, columns: Any, weights: Array, *, intercept: bool) -> FreeColumns:
        """Those that say something beside the ones before them; a warning names the others."""
        names = None
        U = columns
        if isinstance(columns, NamedColumns):
            U, names = columns
        U = data_matrix("unpenalised", U)
        if is_torch(U) or is_torch(weights):
            raise MissingAbility("unpenalised columns need NumPy or SciPy data, not tensors")
        if U.shape[0] != weights.shape[0]:
            raise ValueError(
                f"unpenalised must have one row for each of the {weights.shape[0]} samples, got shape {U.shape}"
            )
        least = COLLINEAR if U.dtype == np.float64 else COLLINEAR_IN_SINGLE
        U = double(U.toarray() if scipy.sparse.issparse(U) else U)
        if names is None:
            names = [f"number {j}" for j in range(U.shape[1])]
        shares = weights / float(weights.max())
        means = (shares / total(shares)) @ U if intercept else np.zeros(U.shape[1])
        basis, mixing, independent = orthonormalised(U, U - means, shares, least)
        if len(independent) < len(names):
            dropped = [name for j, name in enumerate(names) if j not in independent]
            beside = " and the intercept" if intercept else ""
            warnings.warn(
                f"unpenalised columns that are combinations of earlier ones{beside} are dropped, "
                f"with coefficients of 0: {', '.join(dropped)}",
                UserWarning,
                stacklevel=4,
            )
        return cls(basis, mixing, means[independent], independent, names)

    def coefficients(self, amounts: Array) -> Array:
        """Those of all columns U, from those of the basis."""
        coefficients = np.zeros(len(self.names))
        coefficients[self.independent] = self.mixing @ amounts
        return coefficients

    def shift(self, amounts: Array) -> float:
        """What the means take off the intercept."""
        return -dot(self.means, self.mixing @ amounts)


def orthonormalised(
    U: Array, centred: Array, shares: Array, least: float
) -> tuple[Array, Array, Array]:
    """Q, M with Q = centred_independent M, and which columns are independent: those that the ones before leave
    more of than a share.

    By the method of Gram and Schmidt, each column twice, which is as good as rounding allows.
    """
    m, q = U.shape
    basis = np.empty((m, q))
    mixing = np.zeros((q, q))
    independent: list[int] = []
    for j in range(q):
        k = len(independent)
        size = largest_size(centred[:, j])
        if not size > least * largest_size(U[:, j]):
            continue
        rest = centred[:, j] / size
        length = np.sqrt(dot(shares, rest * rest))
        taken = np.zeros(k)
        for _ in range(2):
            along = basis[:, :k].T @ (shares * rest)
            rest = rest - basis[:, :k] @ along
            taken += along
        norm = np.sqrt(dot(shares, rest * rest))
        if not norm > least * length:
            continue
        basis[:, k] = rest / norm
        mixing[:k, k] = -(mixing[:k, :k] @ taken) / norm
        mixing[k, k] = 1.0 / (size * norm)
        independent.append(j)
    k = len(independent)
    return basis[:, :k], mixing[:k, :k], np.array(independent, dtype=np.intp)


class Here(NamedTuple):
    """The loss at some amounts of the columns."""

    amounts: Array
    scores: Array
    best: AtBestIntercept
    slope: Array
    """Q'theta."""

    @property
    def size(self) -> float:
        """Of the terms of the scores."""
        return max(largest_size(self.scores), abs(float(self.best.intercept)))


class WithFreeColumns:
    """H(z) = min over c of h(z + Qc), where h may have an intercept and an offset.

    The `intercept` of `AtBestIntercept` is an array: that of h, and the amounts c.
    """

    def __init__(self, h: Any, plain: Any, columns: FreeColumns) -> None:
        self.h = h
        self.plain = plain
        """The loss without intercept and offset."""
        self.columns = columns
        self.quadratic = h.quadratic
        self.curvature_bound = h.curvature_bound
        self.has_intercept = h.has_intercept
        self.y = h.y
        self.weights = h.weights
        if columns.basis.shape[1] > 0:
            self._require_a_minimum()

    @cached_property
    def free(self) -> Array:
        """The columns that are minimised out, and that of the intercept."""
        Q = self.columns.basis
        return np.hstack([np.ones((Q.shape[0], 1)), Q]) if self.has_intercept else Q

    def evaluate(self, z: Array) -> tuple[float, Array]:
        best = self.at_best_intercept(z)
        return best.value, best.theta

    def intercept_at(self, z: Array, *, near: Any = None) -> Any:
        return self.at_best_intercept(z, near=near).intercept

    def at_best_intercept(self, z: Array, *, near: Any = None) -> AtBestIntercept:
        return self._minimised(z, near)[0]

    def curvature(self, z: Array, *, intercept: Any = None) -> Array:
        best = self.intercept_at(z) if intercept is None else intercept
        return self.h.curvature(z + self.columns.basis @ best[1:], intercept=float(best[0]))

    def hessian_gram(self, z: Array, directions: Array, *, intercept: Any = None) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self.curvature(z, intercept=intercept)
        if not np.isfinite(weights).all():  # nor is the value: who asks takes a shorter step
            return np.full((len(directions), len(directions)), np.inf)
        shares = weights / (largest_size(weights) or 1.0)  # no root may know the unit of F
        less = less_projection(directions.T, weighted_basis(self.free, shares), shares)
        return less.T @ (weights[:, None] * less)

    def size_of(self, intercept: Array) -> float:
        """The size of what intercept and columns add to the scores."""
        return largest_size(intercept[0] + self.columns.basis @ intercept[1:])

    def leak(self, theta: Array) -> float:
        """The length of Q'theta, rounded up."""
        Q = self.columns.basis
        return float(np.linalg.norm(np.abs(Q.T @ theta) + UNIT * (np.abs(Q).T @ np.abs(theta))))

    def _minimised(self, z: Array, near: Any) -> tuple[AtBestIntercept, bool]:
        """H at z, and whether Newton's method has settled there."""
        here = self._start(z, near)
        reach = FIRST_REACH * self.plain.width
        for step in range(PASSES):
            if not math.isfinite(here.best.value):
                break
            curvatures = self.h.curvature(here.scores, intercept=here.best.intercept)
            d = self._newton_step(here, curvatures, reach)
            move = self.columns.basis @ d
            if (self.quadratic and step > 0) or self._is_settled(here, move):
                return self._corrected(here, d, move, curvatures), True
            there, is_whole = self._search(z, here, d)
            if there is None:
                is_near = largest_size(move) <= THETA_ALONE * self.plain.width
                if not is_near and not self._is_nothing(here.best.value, here, curvatures):
                    break
                return self._corrected(here, d, move, curvatures), True
            here = there
            reach *= REACH_GROWTH if is_whole else 1.0
        return self._as_best(here, here.best.theta, here.amounts), False

    def _start(self, z: Array, near: Any) -> Here:
        """At the amounts nearby or at none; where scores leave the floats there, at those that take
        the most off them.
        """
        Q = self.columns.basis
        start = self._at(z, np.zeros(Q.shape[1]), None) if near is None else self._beside(z, near)
        if math.isfinite(start.best.value):
            return start
        shares = self.weights / self.weights.max()
        return self._at(z, -(Q.T @ (shares * (z + getattr(self.h, "offset", 0.0)))), None)

    def _beside(self, z: Array, near: Array) -> Here:
        return self._at(z, near[1:], float(near[0]))

    def _at(self, z: Array, amounts: Array, near: float | None) -> Here:
        Q = self.columns.basis
        scores = z + Q @ amounts
        with np.errstate(over="ignore", invalid="ignore"):  # a step that is too long is shortened
            best = self.h.at_best_intercept(scores, near=near)
            slopes = Q.T @ best.theta
        return Here(amounts, scores, best, slopes)

    def _newton_step(self, here: Here, curvatures: Array, reach: float) -> Array:
        """The step along each principal axis, no longer than the reach where h is not quadratic."""
        Q = self.columns.basis
        mass = total(curvatures)
        less = Q
        if self.has_intercept and mass > 0.0:
            less = Q - (curvatures / mass) @ Q
        values, axes = np.linalg.eigh(less.T @ (curvatures[:, None] * less))
        slopes = axes.T @ here.slope
        noise = 4.0 * UNIT * (np.abs(Q).T @ np.abs(here.best.theta))
        slopes[np.abs(slopes) <= np.abs(axes).T @ noise] = 0.0
        longest = np.inf
        if not self.quadratic:
            longest = reach * float(np.sqrt(total(self.weights) / self.weights.max()))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = np.where(slopes == 0.0, 0.0, -slopes / np.maximum(values, 0.0))
        return axes @ np.clip(steps, -longest, longest)

    def _is_settled(self, here: Here, move: Array) -> bool:
        """Whether a step is so short that its square is rounding, or none but rounding is left."""
        rounding = SETTLED_AT_KINKS * UNIT * here.size
        settled = LAST_STEP * self.plain.width
        return largest_size(move) <= (
            min(settled, rounding) if self.plain.has_kinks else max(settled, rounding)
        )

    def _search(self, z: Array, here: Here, d: Array) -> tuple[Here | None, bool]:
        """Where the loss has fallen on the way, or its slope where that is all rounding leaves; and
        whether at the end of the way.
        """
        fall = -dot(here.slope, d)
        value = here.best.value
        noise = 4.0 * UNIT * (abs(value) + dot(np.abs(here.best.theta), np.abs(here.scores)))
        t = 1.0
        while t > UNIT:
            there = self._at(z, here.amounts + t * d, float(here.best.intercept))
            promised = ARMIJO_FRACTION * t * fall
            if there.best.value <= value - promised:
                return there, t == 1.0
            is_flatter = largest_size(there.slope) <= 0.5 * largest_size(here.slope)
            if t * fall <= noise or (is_flatter and there.best.value <= value + noise):
                return (there, t == 1.0) if is_flatter else (None, False)
            t *= 0.25
        return None, False

    def _is_nothing(self, value: float, here: Here, curvatures: Array) -> bool:
        """Whether a loss is no more than the rounding of the scores makes of 0."""
        slip = ROUNDED_RESIDUALS * UNIT * here.size
        return value <= 0.5 * total(curvatures) * slip * slip

    def _corrected(self, here: Here, d: Array, move: Array, curvatures: Array) -> AtBestIntercept:
        """After the last step, which theta takes to first order.

        Not where the second derivative jumps: a theta that is led past a jump would be none. And
        where nothing is left but the rounding of the scores, the loss is 0.
        """
        fall = -0.5 * dot(here.slope, d)
        value = here.best.value - fall
        if self._is_nothing(value - THETA_ALONE * fall, here, curvatures):
            best = here.best._replace(value=0.0)
            return self._as_best(here._replace(best=best), 0.0 * best.theta, here.amounts)
        if self.plain.has_kinks:
            return self._as_best(here, here.best.theta, here.amounts)
        mass = total(curvatures)
        mean = dot(curvatures, move) / mass if self.has_intercept and mass > 0.0 else 0.0
        theta = here.best.theta + curvatures * (move - mean)
        best = AtBestIntercept(value, theta, here.best.intercept - mean)
        return self._as_best(here._replace(best=best), theta, here.amounts + d)

    def _as_best(self, here: Here, theta: Array, amounts: Array) -> AtBestIntercept:
        return AtBestIntercept(
            here.best.value, theta, np.concatenate([[float(here.best.intercept)], amounts])
        )

    def _require_a_minimum(self) -> None:
        """A sentence where the loss falls forever along some combination of the columns."""
        may_rise, may_fall = self.plain.falls_forever
        if not (may_rise.any() or may_fall.any()):
            return
        none = np.zeros(self.columns.basis.shape[0])
        best, is_settled = self._minimised(none, None)
        directions = self.columns.basis.T
        curvatures = self.h.curvature(
            directions.T @ best.intercept[1:], intercept=best.intercept[0]
        )
        if self.has_intercept:
            directions = directions - (directions @ curvatures)[:, None] / total(curvatures)
        values = np.linalg.eigvalsh((directions * curvatures) @ directions.T)
        mean = total(curvatures) * float(self.weights.max()) / total(self.weights)
        if is_settled and values[0] > CURVED_ENOUGH * mean:
            return
        used = self.weights > 0.0
        found = endless_direction(self.free[used], may_rise[used], may_fall[used])
        if found is None:
            return
        amounts = found[1:] if self.has_intercept else found
        sizes = np.abs(self.columns.mixing @ amounts)
        sizes *= np.abs(np.diag(np.linalg.inv(self.columns.mixing)))
        culprits = self.columns.independent[sizes > 1e-6 * largest_size(sizes)]
        raise ValueError(
            f"a combination of the unpenalised columns {', '.join(self.columns.names[j] for j in culprits)} separates "
            f"{self.plain.classes}: its coefficients would grow without bound; give them a penalty, or leave one out"
        )


def endless_direction(C: Array, may_rise: Array, may_fall: Array) -> Array | None:
    """Amounts of columns whose sum rises and falls at no sample but where it may; None without.

    It is a linear program, whose least value is 0 or at most -1.
    """
    from scipy.optimize import linprog

    signs = may_rise.astype(float) - may_fall.astype(float)
    some = signs != 0.0
    largest = np.abs(C).max(axis=0)
    rows = C / largest
    moving = signs[some, None] * rows[some]
    fixed = rows[~some]
    found = linprog(
        -moving.sum(axis=0),
        A_ub=np.vstack([moving, -moving]),
        b_ub=np.concatenate([np.ones(len(moving)), np.zeros(len(moving))]),
        A_eq=fixed if len(fixed) else None,
        b_eq=np.zeros(len(fixed)) if len(fixed) else None,
        bounds=(None, None),
        method="highs",
    )
    if found.status != 0 or found.fun > -0.5:
        return None
    return np.asarray(found.x) / largest
