"""What a problem is without the library: every f, g and set as a formula in extended precision, and for CVXPY.

Definition of a false certificate
---------------------------------
An answer claims a lower bound on F*. Let y be the best feasible point that anybody found, made feasible exactly (in
extended precision), and F(y) its value there. The claim is false if

    lower_bound > F(y) + rounding(y) + rounding(x),   rounding(z) = UNITS eps size(z) + (UNITS eps)^2 bend(z)

where eps is that of the precision of the answer x, and size(z) sums the absolute values of the terms of F at z before
they cancel: w sum z (1 + |log z|) for an entropy, <|theta|, t> for a loss h(Kz) with theta = grad h and the terms
t = |K| |z| + |y| + |b| of its argument (b is the intercept), <|C|, |z|> for a linear cost, and so on. Where theta
vanishes, as in interpolation, what is left of rounding in the argument is the bend, <h'', t^2>. A gap of 0 is a claim
like any other.

A bound above F(y) by less than that is counted apart, as "above by rounding": honest noise would have covered it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

Array = np.ndarray[Any, Any]
Wide = np.longdouble
EXTENDED_UNIT = float(np.finfo(Wide).eps)
UNITS = 16.0


def wide(values: Any) -> Array:
    """Numbers in extended precision."""
    return np.asarray(values, dtype=Wide)


class Sized(NamedTuple):
    """A value, and the sum of its terms before they cancel."""

    value: Any
    size: Any
    bend: Any = 0.0
    """The second derivative times the squares of the terms of its argument."""

    def rounding(self, unit: float) -> float:
        """What rounding may do to the value."""
        return float(UNITS * unit * self.size + (UNITS * unit) ** 2 * self.bend)


# Every formula has `at`, its value at a point in extended precision, and `expression`, the same for CVXPY.
# Losses h(Kx) ---------------------------------------------------------------------------------------------------------


def squares(margin: Array) -> tuple[Array, Array]:
    """r^2/2 and its slope."""
    return margin**2 / 2, margin


def logistic(margin: Array) -> tuple[Array, Array]:
    """log(1 + exp(-m)) and its slope."""
    fall = np.exp(-np.abs(margin))
    return np.maximum(0, -margin) + np.log1p(fall), -np.where(margin > 0, fall, 1) / (1 + fall)


def squared_hinge(margin: Array) -> tuple[Array, Array]:
    """max(0, 1 - m)^2 and its slope."""
    short = np.maximum(0, 1 - margin)
    return short**2, -2 * short


STEEPEST: dict[Callable[[Array], tuple[Array, Array]], float] = {squares: 1.0, logistic: 0.25, squared_hinge: 2.0}
"""The largest second derivatives."""


@dataclass(frozen=True)
class Loss:
    """sum_i w_i loss(m_i) with m = Kx + b - y for squares, and y (Kx + b) for labels; b is 0 or the best one."""

    loss: Callable[[Array], tuple[Array, Array]]
    K: Array
    y: Array
    weights: Array
    intercept: bool = False

    def at(self, x: Array) -> Sized:
        K, y, w = wide(self.K), wide(self.y), wide(self.weights)
        z = K @ x
        b = self._best_intercept(z) if self.intercept else Wide(0)
        losses, theta = self._rows(z + b, y)
        terms = np.abs(K) @ np.abs(x) + np.abs(b) + (np.abs(y) if self.loss is squares else 0)
        bend = STEEPEST[self.loss] * (w @ terms**2)
        return Sized(w @ losses, w @ losses + (w * np.abs(theta)) @ terms, bend)

    def _rows(self, z: Array, y: Array) -> tuple[Array, Array]:
        return self.loss(z - y) if self.loss is squares else self.loss(y * z)

    def _best_intercept(self, z: Array) -> Any:
        """The root of an increasing slope, by bisection: any b gives a value that is attained."""
        y, w = wide(self.y), wide(self.weights)
        sign = wide(1) if self.loss is squares else y

        def slope(b: Any) -> Any:
            return w @ (sign * self._rows(z + b, y)[1])

        low = high = Wide(0)
        reach = Wide(1)
        while slope(low) > 0 and reach < 1e18:
            low, reach = low - reach, 2 * reach
        reach = Wide(1)
        while slope(high) < 0 and reach < 1e18:
            high, reach = high + reach, 2 * reach
        for _ in range(90):
            middle = (low + high) / 2
            if slope(middle) > 0:
                high = middle
            else:
                low = middle
        return (low + high) / 2

    def expression(self, x: Any) -> Any:
        z = self.K @ x + (cp.Variable() if self.intercept else 0.0)
        if self.loss is squares:
            return 0.5 * cp.sum(cp.multiply(self.weights, cp.square(z - self.y)))
        margin = cp.multiply(self.y, z)
        losses = cp.logistic(-margin) if self.loss is logistic else cp.square(cp.pos(1 - margin))
        return cp.sum(cp.multiply(self.weights, losses))


# The other f, and g ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nothing:
    """0."""

    def at(self, x: Array) -> Sized:
        return Sized(Wide(0), Wide(0))

    def expression(self, x: Any) -> Any:
        return 0.0


@dataclass(frozen=True)
class LinearCost:
    """<C, x>."""

    C: Array

    def at(self, x: Array) -> Sized:
        terms = wide(self.C) * x
        return Sized(terms.sum(), np.abs(terms).sum())

    def expression(self, x: Any) -> Any:
        return cp.sum(cp.multiply(self.C, x))


@dataclass(frozen=True)
class Distance:
    """1/2 sum W (X - M)^2."""

    W: Array
    M: Array

    def at(self, x: Array) -> Sized:
        W, M = wide(self.W), wide(self.M)
        value = (W * (x - M) ** 2).sum() / 2
        terms = np.abs(x) + np.abs(M)
        return Sized(value, value + (W * np.abs(x - M) * terms).sum(), (W * terms**2).sum())

    def expression(self, x: Any) -> Any:
        return 0.5 * cp.sum(cp.multiply(self.W, cp.square(x - self.M)))


@dataclass(frozen=True)
class LaplacianForm:
    """source tr(Xt' G' Ls G Xt) + target tr(Xs' G Lt G' Xs)."""

    Xs: Array
    Xt: Array
    Ls: Array
    Lt: Array
    source: float
    target: float

    def at(self, x: Array) -> Sized:
        Xs, Xt, Ls, Lt = map(wide, (self.Xs, self.Xt, self.Ls, self.Lt))
        P, Q = x @ Xt, x.T @ Xs
        sizes_P, sizes_Q = np.abs(x) @ np.abs(Xt), np.abs(x.T) @ np.abs(Xs)
        value = self.source * (P * (Ls @ P)).sum() + self.target * (Q * (Lt @ Q)).sum()
        source_size = (sizes_P * (np.abs(Ls) @ sizes_P)).sum()
        return Sized(value, self.source * source_size + self.target * (sizes_Q * (np.abs(Lt) @ sizes_Q)).sum())

    def expression(self, x: Any) -> Any:
        def root(L: Array) -> Array:
            values, vectors = np.linalg.eigh(np.asarray(L, dtype=np.float64))
            return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)

        source, target = cp.sum_squares(root(self.Ls) @ x @ self.Xt), cp.sum_squares(root(self.Lt) @ x.T @ self.Xs)
        return self.source * source + self.target * target


@dataclass(frozen=True)
class Groups:
    """weight * sum over columns and classes of |G[labels == c, j]|_2."""

    labels: Array
    weight: float

    def at(self, x: Array) -> Sized:
        norms = [np.sqrt((x[self.labels == c] ** 2).sum(axis=0)).sum() for c in np.unique(self.labels)]
        value = self.weight * sum(norms, start=Wide(0))
        return Sized(value, value)

    def expression(self, x: Any) -> Any:
        rows = [np.flatnonzero(self.labels == c) for c in np.unique(self.labels)]
        return self.weight * sum(cp.norm(x[part, j]) for part in rows for j in range(x.shape[1]))


@dataclass(frozen=True)
class NegativeEntropy:
    """weight sum x log x; a negative x has the value of 0."""

    weight: float

    def at(self, x: Array) -> Sized:
        log = np.log(np.where(x > 0, x, 1))
        x = np.maximum(x, 0)
        return Sized(self.weight * (x * log).sum(), self.weight * (x * (1 + np.abs(log))).sum())

    def expression(self, x: Any) -> Any:
        return -self.weight * cp.sum(cp.entr(x))


def nuclear_norm(x: Array) -> Any:
    """max <Q, x> over orthogonal Q: the Q of float64, made orthogonal in extended precision, errs by its square."""
    size = float(np.abs(x).max())
    if size == 0.0 or not np.isfinite(size):
        return Wide(size)
    U, _, Vt = np.linalg.svd((x / Wide(size)).astype(np.float64), full_matrices=False)
    Q = wide(U) @ wide(Vt)
    Q = (3 * Q - Q @ (Q.T @ Q)) / 2
    return (Q * x).sum()


NORMS: dict[str, tuple[Callable[[Array], Any], Callable[[Any], Any]]] = {
    "squared": (lambda x: (x * x).sum(), lambda x: cp.sum_squares(x)),
    "l1": (lambda x: np.abs(x).sum(), lambda x: cp.sum(cp.abs(x))),
    "l2": (lambda x: np.sqrt((x * x).sum()), lambda x: cp.norm(cp.vec(x, order="C"))),
    "nuclear": (nuclear_norm, lambda x: cp.normNuc(x)),
}
"""In extended precision, and for CVXPY."""


@dataclass(frozen=True)
class Norm:
    """weight |x| for one of `NORMS`."""

    norm: str
    weight: float

    def at(self, x: Array) -> Sized:
        value = self.weight * NORMS[self.norm][0](x)
        return Sized(value, value)

    def expression(self, x: Any) -> Any:
        return self.weight * NORMS[self.norm][1](x)


@dataclass(frozen=True)
class Total:
    """sum_i weights[i] parts[i]."""

    weights: tuple[float, ...]
    parts: tuple[Any, ...]

    def at(self, x: Array) -> Sized:
        values = [part.at(x) for part in self.parts]
        columns = zip(*values, strict=True)
        return Sized(*(sum(Wide(w) * v for w, v in zip(self.weights, column, strict=True)) for column in columns))

    def expression(self, x: Any) -> Any:
        return sum(w * part.expression(x) for w, part in zip(self.weights, self.parts, strict=True))


# Sets -----------------------------------------------------------------------------------------------------------------
# Each has a `scale` against which its `violation` is judged, makes points `feasible` to extended precision, and has
# `constraints` for CVXPY.


@dataclass(frozen=True)
class NormBall:
    """|x - center| <= radius in the norm "l1", "l2" or "nuclear"."""

    norm: str
    radius: float
    center: float = 0.0

    @property
    def scale(self) -> float:
        return self.radius + abs(self.center)

    def _length(self, x: Array) -> Any:
        return NORMS[self.norm][0](x)

    def violation(self, x: Array) -> float:
        return max(0.0, float(self._length(x - Wide(self.center)) - self.radius))

    def feasible(self, x: Array) -> Array:
        x = x - Wide(self.center)
        length = self._length(x)
        inside = x if length <= self.radius else x * (self.radius / length)
        return inside + Wide(self.center)

    def constraints(self, x: Any) -> list[Any]:
        return [NORMS[self.norm][1](x - self.center) <= self.radius]


@dataclass(frozen=True)
class Interval:
    """lower <= x <= upper."""

    lower: Any
    upper: Any

    @property
    def scale(self) -> float:
        return float(max(np.abs(self.lower).max(), np.abs(self.upper).max()))

    def violation(self, x: Array) -> float:
        return max(0.0, float((wide(self.lower) - x).max()), float((x - wide(self.upper)).max()))

    def feasible(self, x: Array) -> Array:
        return np.clip(x, wide(self.lower), wide(self.upper))

    def constraints(self, x: Any) -> list[Any]:
        return [x >= self.lower, x <= self.upper]


@dataclass(frozen=True)
class ScaledSimplex:
    """x >= 0, sum x = mass."""

    mass: float

    @property
    def scale(self) -> float:
        return self.mass

    def violation(self, x: Array) -> float:
        return max(0.0, -float(x.min()), abs(float(x.sum() - self.mass)))

    def feasible(self, x: Array) -> Array:
        x = np.maximum(x, 0)
        total = x.sum()
        return x * (self.mass / total) if total > 0 else np.full_like(x, Wide(self.mass) / x.size)

    def constraints(self, x: Any) -> list[Any]:
        return [x >= 0, cp.sum(x) == self.mass]


@dataclass(frozen=True)
class ScaledSolidSimplex:
    """x >= 0, sum x <= mass."""

    mass: float

    @property
    def scale(self) -> float:
        return self.mass

    def violation(self, x: Array) -> float:
        return max(0.0, -float(x.min()), float(x.sum() - self.mass))

    def feasible(self, x: Array) -> Array:
        x = np.maximum(x, 0)
        total = x.sum()
        return x * (self.mass / total) if total > self.mass else x

    def constraints(self, x: Any) -> list[Any]:
        return [x >= 0, cp.sum(x) <= self.mass]


@dataclass(frozen=True)
class Plans:
    """G >= 0, G 1 = a, G' 1 = b; b is scaled to the mass of a."""

    a: Array
    b: Array

    @cached_property
    def marginals(self) -> tuple[Array, Array]:
        a, b = wide(self.a), wide(self.b)
        return a, b * (a.sum() / b.sum()) if b.sum() > 0 else b

    @property
    def scale(self) -> float:
        return float(self.marginals[0].sum())

    def violation(self, x: Array) -> float:
        a, b = self.marginals
        rows, columns = np.abs(x.sum(axis=1) - a).max(), np.abs(x.sum(axis=0) - b).max()
        return max(0.0, -float(x.min()), float(rows), float(columns))

    def feasible(self, x: Array) -> Array:
        """The rounding of Altschuler, Weed and Rigollet."""
        a, b = self.marginals
        x = np.maximum(x, 0)
        x = x * np.minimum(1, a / np.where(x.sum(axis=1) > 0, x.sum(axis=1), 1))[:, None]
        x = x * np.minimum(1, b / np.where(x.sum(axis=0) > 0, x.sum(axis=0), 1))[None, :]
        short_a, short_b = np.maximum(0, a - x.sum(axis=1)), np.maximum(0, b - x.sum(axis=0))
        missing = short_b.sum()
        return x + np.outer(short_a, short_b) / missing if missing > 0 else x

    def constraints(self, x: Any) -> list[Any]:
        a, b = (weights.astype(np.float64) for weights in self.marginals)
        return [x >= 0, cp.sum(x, axis=1) == a, cp.sum(x, axis=0) == b]


def by_cvxpy(objective: Any, region: Any, shape: tuple[int, ...]) -> Array | None:
    """Clarabel's point, made feasible; None where it gives up."""
    x = cp.Variable(shape)
    try:
        cp.Problem(cp.Minimize(objective.expression(x)), region.constraints(x)).solve(solver="CLARABEL")
    except (cp.error.SolverError, cp.error.DCPError, ValueError):
        return None
    if x.value is None or not np.isfinite(x.value).all():
        return None
    return np.asarray(region.feasible(wide(x.value)))
