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


STEEPEST: dict[Callable[[Array], tuple[Array, Array]], float] = {
    squares: 1.0,
    logistic: 0.25,
    squared_hinge: 2.0,
}
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
        b = self._best_intercept(wide(self.K) @ x) if self.intercept else Wide(0)
        return self.beside(x, b)

    def beside(self, x: Array, b: Any) -> Sized:
        """The loss at x with this intercept."""
        K, y, w = wide(self.K), wide(self.y), wide(self.weights)
        losses, theta = self._rows(K @ x + b, y)
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


@dataclass(frozen=True)
class Softmax:
    """sum_i w_i (log sum_k exp(m_ik) - m_iy), m = KX + b; b is 0 or the best, one a class."""

    K: Array
    codes: Array
    classes: int
    weights: Array
    intercept: bool = False

    def at(self, x: Array) -> Sized:
        nothing = np.zeros(self.classes, Wide)
        return self.beside(x, self._best_intercept(wide(self.K) @ x) if self.intercept else nothing)

    def beside(self, x: Array, b: Any) -> Sized:
        """The loss at X with these intercepts, a number for each class."""
        K, w = wide(self.K), wide(self.weights)
        losses, shares = self._rows(K @ x + b)
        terms = np.abs(K) @ np.abs(x) + np.abs(b)
        slopes = np.abs(shares - self._one_hot)
        value = w @ losses
        bend = w @ (terms**2).sum(axis=1) / 2
        return Sized(value, value + w @ (slopes * terms).sum(axis=1), bend)

    @cached_property
    def _one_hot(self) -> Array:
        return wide(np.eye(self.classes)[self.codes])

    def _rows(self, z: Array) -> tuple[Array, Array]:
        """The losses, and the probabilities of the classes; a small loss is the sum of small powers."""
        z = z - (self._one_hot * z).sum(axis=1, keepdims=True)
        top = z.max(axis=1, keepdims=True)
        powers = np.exp(z - top)
        sums = powers.sum(axis=1, keepdims=True)
        rest = (powers * (1 - self._one_hot)).sum(axis=1)
        return np.where(
            top[:, 0] > 0, top[:, 0] + np.log(sums)[:, 0], np.log1p(rest)
        ), powers / sums

    def _best_intercept(self, z: Array) -> Array:
        """Newton's method, and each class against the rest: any b gives an attained value.

        Where all losses are near 0 so is the gradient: what is left of it is told by its own terms.
        """
        w = wide(self.weights)
        mass = w @ self._one_hot
        b = np.log(mass / mass.sum())

        def at(b: Array) -> tuple[Any, Array, Array]:
            losses, shares = self._rows(z + b)
            others = shares * (1 - self._one_hot)
            slopes = others - self._one_hot * others.sum(axis=1, keepdims=True)
            return w @ losses, shares, w[:, None] * slopes

        value, shares, slopes = at(b)
        for _ in range(60):
            excess, size = slopes.sum(axis=0), np.abs(slopes).sum()
            if np.abs(excess).max() <= 4 * EXTENDED_UNIT * size:
                break
            products = (w[:, None] * shares).T @ shares
            np.fill_diagonal(products, 0)
            step, found = (
                wide(_least_squares(np.diag(products.sum(axis=0)) - products, excess)),
                False,
            )
            # far from the best one Newton's steps are no longer than 1
            for _ in range(30 if np.abs(excess).max() < 0.1 * size else 0):
                there, new_shares, new_slopes = at(b - step)
                if there < value:
                    b, value, shares, slopes, found = b - step, there, new_shares, new_slopes, True
                    break
                step = step / 2
            if not found:
                b, moved = self._class_by_class(z, b, w)
                lower, shares, slopes = at(b)
                if not (moved and lower < value):
                    break
                value = lower
        return np.asarray(b - b.mean())

    def _class_by_class(self, z: Array, b: Array, w: Array) -> tuple[Array, bool]:
        """Each intercept at the root of its slope, by bisection, where Newton's method is blind."""
        b, before = b.copy(), b
        for k in range(self.classes):
            others = np.delete(z + b, k, axis=1)
            top = others.max(axis=1)
            rest = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
            signs = 1 - 2 * self._one_hot[:, k]
            margins = z[:, k] - rest

            def excess(shift: Any, margins: Array = margins, signs: Array = signs) -> Any:
                return (w * signs) @ (1 / (1 + np.exp(-signs * (margins + shift))))

            with np.errstate(over="ignore"):
                reach = 2 * np.abs(margins).max() + 100
                low, high = -reach, reach
                for _ in range(90):
                    middle = (low + high) / 2
                    low, high = (low, middle) if excess(middle) > 0 else (middle, high)
            b[k] = (low + high) / 2
        return b, bool((b != before).any())

    def expression(self, x: Any) -> Any:
        z = self.K @ x
        if self.intercept:
            z = z + np.ones((len(self.codes), 1)) @ cp.Variable((1, self.classes))
        chosen = cp.sum(cp.multiply(np.eye(self.classes)[self.codes], z), axis=1)
        return cp.sum(cp.multiply(self.weights, cp.log_sum_exp(z, axis=1) - chosen))


def _least_squares(A: Array, y: Array) -> Array:
    """A step of Newton's to the digits of float64; 0 where the curvature is beyond its range."""
    size = np.abs(A).max()
    if size < 1e-250 * np.abs(y).max():
        return np.zeros(len(y))
    inverse = np.linalg.pinv((A / size).astype(np.float64), hermitian=True)
    return np.asarray(inverse @ (y / size).astype(np.float64))


# Losses with offsets, and columns without a penalty --------------------------------------------------------------------


class Rows(NamedTuple):
    """A loss of scores, one a sample: its values, slopes and curvatures, and its words for CVXPY."""

    at: Callable[[Array, Array], tuple[Array, Array, Array]]
    expression: Callable[[Any, Array], Any]
    terms: Callable[[Array], Any] = np.zeros_like
    """The sizes of what is taken off the scores."""


def _squares_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    return (z - y) ** 2 / 2, z - y, np.ones_like(z)


def _logistic_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    losses, slopes = logistic(y * z)
    return losses, y * slopes, -slopes * (1 + slopes)


def _hinge_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    losses, slopes = squared_hinge(y * z)
    return losses, y * slopes, 2 * wide(slopes < 0)


def _poisson_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    base = np.where(y > 0, y, 1)
    d = z - np.log(base)
    losses = np.where(y > 0, base * (np.expm1(d) - d), np.exp(z))
    return losses, np.where(y > 0, base * np.expm1(d), np.exp(z)), np.exp(z)


def _gamma_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    d = np.log(y) - z
    return np.expm1(d) - d, -np.expm1(d), np.exp(d)


HUBER = 1.35


def _huber_rows(z: Array, y: Array) -> tuple[Array, Array, Array]:
    cut = np.clip(z - y, -HUBER, HUBER)
    return cut * (z - y - cut / 2), cut, wide(np.abs(z - y) < HUBER)


ROWS = {
    "LeastSquares": Rows(_squares_rows, lambda z, y: 0.5 * cp.square(z - y), np.abs),
    "Logistic": Rows(_logistic_rows, lambda z, y: cp.logistic(-cp.multiply(y, z))),
    "SquaredHinge": Rows(
        _hinge_rows, lambda z, y: cp.square(cp.pos(1 - cp.multiply(y, z))), np.ones_like
    ),
    "Poisson": Rows(
        _poisson_rows,
        lambda z, y: (
            cp.exp(z)
            - cp.multiply(y, z)
            + np.where(y > 0, y * np.log(np.where(y > 0, y, 1)) - y, 0)
        ),
        lambda y: np.abs(np.log(np.where(y > 0, y, 1))),
    ),
    "Gamma": Rows(
        _gamma_rows,
        lambda z, y: cp.multiply(y, cp.exp(-z)) + z - 1 - np.log(y),
        lambda y: np.abs(np.log(y)),
    ),
    "Huber": Rows(_huber_rows, lambda z, y: 0.5 * cp.huber(z - y, HUBER), np.abs),
}


@dataclass(frozen=True)
class Scored:
    """min over c of sum_i w_i loss(s_i), s = Kx + Cc + offset; C are the columns without a penalty, 1 among them."""

    rows: Rows
    K: Array
    y: Array
    weights: Array
    C: Array
    offset: Array

    def at(self, x: Array) -> Sized:
        return self.beside(x, self._best_amounts(wide(self.K) @ x + wide(self.offset)))

    def beside(self, x: Array, c: Array) -> Sized:
        """The loss at x with these amounts of the columns."""
        K, C, w, y = wide(self.K), wide(self.C), wide(self.weights), wide(self.y)
        losses, slopes, curvatures = self.rows.at(K @ x + C @ c + wide(self.offset), y)
        terms = np.abs(K) @ np.abs(x) + np.abs(C) @ np.abs(c) + np.abs(self.offset)
        terms = terms + self.rows.terms(y)
        value = w @ losses
        return Sized(value, value + (w * np.abs(slopes)) @ terms, (w * curvatures) @ terms**2)

    def _best_amounts(self, z: Array) -> Array:
        """Newton's method: its steps have the digits of float64, what they lead to has more."""
        C, w, y = wide(self.C), wide(self.weights), wide(self.y)
        sizes = np.abs(C).max(axis=0, initial=0.0)
        C = C / np.where(sizes > 0, sizes, 1)
        # exponentials want scores near 0 to begin with
        c = -wide(np.linalg.lstsq(C.astype(float), z.astype(float))[0])

        def at(c: Array) -> tuple[Any, Array, Array]:
            losses, slopes, curvatures = self.rows.at(z + C @ c, y)
            return w @ losses, w * slopes, w * curvatures

        with np.errstate(over="ignore", invalid="ignore"):
            value, slopes, curvatures = at(c)
            for _ in range(200 if C.shape[1] else 0):
                excess = C.T @ slopes
                if np.abs(excess).max() <= 4 * EXTENDED_UNIT * np.abs(slopes).sum():
                    break
                # Huber's loss has no curvature far off, and that of rates may have hardly any
                added = 1e-12 * (w @ np.ones_like(w)) * np.eye(len(c))
                step = wide(_least_squares((C.T * curvatures) @ C + added, excess))
                step = step / max(1, np.abs(C @ step).max() / (10 + np.abs(z + C @ c).max()))
                for _ in range(60):
                    there, new_slopes, new_curvatures = at(c - step)
                    if there < value:
                        break
                    step = step / 4
                if not there < value:
                    break
                c, value, slopes, curvatures = c - step, there, new_slopes, new_curvatures
        return np.asarray(c / np.where(sizes > 0, sizes, 1))

    def expression(self, x: Any) -> Any:
        z = self.K @ x + self.offset
        if self.C.shape[1]:
            z = z + self.C @ cp.Variable(self.C.shape[1])
        return cp.sum(cp.multiply(self.weights, self.rows.expression(z, self.y)))


@dataclass(frozen=True)
class Everywhere:
    """All x, or all x >= 0."""

    positive: bool
    scale: float = 0.0

    def violation(self, x: Array) -> float:
        return max(0.0, -float(x.min())) if self.positive else 0.0

    def feasible(self, x: Array) -> Array:
        return np.maximum(x, 0) if self.positive else x

    def constraints(self, x: Any) -> list[Any]:
        return [x >= 0] if self.positive else []


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
class PointsCost:
    """<C, x> for the squared distances between points, or the products of factors, not rounded.

    An error of a coordinate counts with the slope of C in it, and distances are those of
    |x|^2 + |y|^2 - 2 <x, y> around a centre.
    """

    Xs: Array
    Xt: Array
    squared: bool = True
    """Distances, or products."""

    @cached_property
    def C(self) -> Array:
        """The costs, in extended precision."""
        Xs, Xt = wide(self.Xs), wide(self.Xt)
        return ((Xs[:, None] - Xt[None]) ** 2).sum(axis=2) if self.squared else Xs @ Xt.T

    @cached_property
    def _terms(self) -> tuple[Array, Array]:
        """What rounding of coordinates does to an entry of C, in the first and the second order."""
        Xs, Xt = np.abs(wide(self.Xs)), np.abs(wide(self.Xt))
        if not self.squared:
            return Xs @ Xt.T, np.zeros((len(Xs), len(Xt)), Wide)
        apart = np.abs(wide(self.Xs)[:, None] - wide(self.Xt)[None])
        terms = Xs[:, None] + Xt[None]
        center = (wide(self.Xs).mean(axis=0) + wide(self.Xt).mean(axis=0)) / 2
        norms = [((wide(X) - center) ** 2).sum(axis=1) for X in (self.Xs, self.Xt)]
        first = norms[0][:, None] + norms[1][None] + 2 * (apart * terms).sum(axis=2)
        return first, (terms**2).sum(axis=2)

    def at(self, x: Array) -> Sized:
        first, second = self._terms
        return Sized((self.C * x).sum(), (first * np.abs(x)).sum(), (second * np.abs(x)).sum())

    def expression(self, x: Any) -> Any:
        return cp.sum(cp.multiply(self.C.astype(np.float64), x))


@dataclass(frozen=True)
class Relaxed:
    """<C, G> + entropy KL(G | a b'/s) + for_a KL(G 1 | a) + for_b KL(G'1 | b).

    s is the geometric mean of the masses of a and b, and KL(x | y) = sum x log(x/y) - x + y. An
    infinite price stands for a marginal that is exact.
    """

    C: Array
    a: Array
    b: Array
    entropy: float
    for_a: float
    for_b: float

    @cached_property
    def reference(self) -> Array:
        a, b = wide(self.a), wide(self.b)
        return np.outer(a, b) / np.sqrt(a.sum() * b.sum())

    def at(self, x: Array) -> Sized:
        R = self.reference
        costs = LinearCost(self.C).at(x)
        seen = (x > 0) & (R > 0)
        logs_x, logs_R = np.log(np.where(seen, x, 1)), np.log(np.where(seen, R, 1))
        divergence = (x * (logs_x - logs_R) - x + R).sum()
        size = (np.abs(x) * (np.abs(logs_x) + np.abs(logs_R) + 1) + R).sum()
        value = costs.value + self.entropy * divergence
        total_size = costs.size + self.entropy * size
        bend = Wide(0)
        sides = ((self.for_a, x.sum(axis=1), self.a), (self.for_b, x.sum(axis=0), self.b))
        for price, sums, weights in sides:
            if np.isinf(price):
                continue
            w = wide(weights)[wide(weights) > 0]
            r = np.maximum(sums[wide(weights) > 0], 0)
            near = 2 * r > w
            nearby = np.log1p(np.where(near, r - w, 0) / w)
            logs = np.where(near, nearby, np.log(np.where(r > 0, r, 1)) - np.log(w))
            divergence = (r * logs - (r - w)).sum()
            value = value + price * divergence
            total_size = total_size + price * (r * np.abs(logs) + np.abs(r - w)).sum()
            bend = bend + price * (r + w).sum()
        return Sized(value, total_size, bend)

    def expression(self, x: Any) -> Any:
        # as rows and columns without weight carry nothing, they are left out
        rows, columns = np.flatnonzero(self.a > 0), np.flatnonzero(self.b > 0)
        R = self.reference.astype(np.float64)[np.ix_(rows, columns)]
        part = x[rows][:, columns]
        total = cp.sum(cp.multiply(self.C, x)) + self.entropy * cp.sum(cp.kl_div(part, R))
        if np.isfinite(self.for_a):
            total = total + self.for_a * cp.sum(cp.kl_div(cp.sum(part, axis=1), self.a[rows]))
        if np.isfinite(self.for_b):
            total = total + self.for_b * cp.sum(cp.kl_div(cp.sum(part, axis=0), self.b[columns]))
        return total

    def by_scaling(self, passes: int = 200) -> Array:
        """A plan by the iterations of Chizat et al. (2018), with the shift of Sejourne et al."""
        rows, columns = np.flatnonzero(self.a > 0), np.flatnonzero(self.b > 0)
        a, b, C = wide(self.a)[rows], wide(self.b)[columns], wide(self.C)[np.ix_(rows, columns)]
        e, for_a, for_b = Wide(self.entropy), Wide(self.for_a), Wide(self.for_b)
        log_R = np.log(a)[:, None] + np.log(b)[None, :] - np.log(a.sum() * b.sum()) / 2
        u, v = np.zeros_like(a), np.zeros_like(b)
        for _ in range(passes):
            u = -(log_sum_exp(log_R + (v[None, :] - C) / e, 1) - np.log(a)) / (1 / e + 1 / for_a)
            v = -(log_sum_exp(log_R + (u[:, None] - C) / e, 0) - np.log(b)) / (1 / e + 1 / for_b)
            if np.isfinite(self.for_a) and np.isfinite(self.for_b):
                over = log_sum_exp(np.log(a) - u / for_a, 0) - log_sum_exp(np.log(b) - v / for_b, 0)
                shift = over / (1 / for_a + 1 / for_b)
                u, v = u + shift, v - shift
        plan = np.zeros(self.C.shape, Wide)
        plan[np.ix_(rows, columns)] = np.exp(log_R + (u[:, None] + v[None, :] - C) / e)
        return plan


def log_sum_exp(z: Array, axis: int) -> Array:
    """log sum exp along an axis."""
    top = z.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(z - top).sum(axis=axis))


@dataclass(frozen=True)
class Blocks:
    """sum_k weights[k] parts[k] of blocks of columns."""

    weights: tuple[float, ...]
    parts: tuple[Any, ...]
    widths: tuple[int, ...]

    def at(self, x: Array) -> Sized:
        blocks = np.split(x, np.cumsum(self.widths)[:-1], axis=1)
        values = [part.at(block) for part, block in zip(self.parts, blocks, strict=True)]
        columns = zip(*values, strict=True)
        weights = wide(self.weights)
        return Sized(*((weights * wide(column)).sum() for column in columns))

    def expression(self, x: Any) -> Any:
        ends = np.cumsum(self.widths)
        blocks = [x[:, end - width : end] for end, width in zip(ends, self.widths, strict=True)]
        terms = zip(self.weights, self.parts, blocks, strict=True)
        return sum(w * part.expression(block) for w, part, block in terms)


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
        return Sized(
            value,
            self.source * source_size + self.target * (sizes_Q * (np.abs(Lt) @ sizes_Q)).sum(),
        )

    def slope_size(self, x: Array) -> Array:
        """The size of the terms of the gradient, entry by entry."""
        Xs, Xt, Ls, Lt, x = (np.abs(wide(each)) for each in (self.Xs, self.Xt, self.Ls, self.Lt, x))
        by_source = (Ls @ (x @ Xt)) @ Xt.T
        by_target = Xs @ (Lt @ (x.T @ Xs)).T
        return np.asarray(2 * (self.source * by_source + self.target * by_target))

    def expression(self, x: Any) -> Any:
        def root(L: Array) -> Array:
            values, vectors = np.linalg.eigh(np.asarray(L, dtype=np.float64))
            return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)

        source, target = (
            cp.sum_squares(root(self.Ls) @ x @ self.Xt),
            cp.sum_squares(root(self.Lt) @ x.T @ self.Xs),
        )
        return self.source * source + self.target * target


@dataclass(frozen=True)
class Groups:
    """weight * sum over columns and classes of |G[labels == c, j]|_2."""

    labels: Array
    weight: float

    def at(self, x: Array) -> Sized:
        norms = [
            np.sqrt((x[self.labels == c] ** 2).sum(axis=0)).sum() for c in np.unique(self.labels)
        ]
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
        return Sized(
            *(
                sum(Wide(w) * v for w, v in zip(self.weights, column, strict=True))
                for column in columns
            )
        )

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
class Constrained:
    """A x <= b, E x = e, lower <= x <= upper, around a point that is well inside all inequalities."""

    A: Array
    b: Array
    E: Array
    e: Array
    bounds: Interval
    inside: Array

    @property
    def scale(self) -> float:
        return self.bounds.scale

    def violation(self, x: Array) -> float:
        """By the distance to half-spaces and hyperplanes."""
        outside = [wide(self.A) @ x - self.b, np.abs(wide(self.E) @ x - self.e)]
        lengths = [np.linalg.norm(rows, axis=1) for rows in (self.A, self.E)]
        far = [float((o / ls).max(initial=0.0)) for o, ls in zip(outside, lengths, strict=True)]
        return max(self.bounds.violation(x), *far)

    def _on_equations(self, x: Array) -> Array:
        inverse = np.linalg.pinv(self.E)
        for _ in range(3):
            x = x + inverse @ (self.e - wide(self.E) @ x)
        return x

    def feasible(self, x: Array) -> Array:
        """The nearest point on the equations, and from there as far to the inside as is needed."""
        x = self._on_equations(x)
        inside = self._on_equations(wide(self.inside))
        share = max(
            float(np.where(far > 0.0, far / np.where(far > 0.0, far + room, 1.0), 0.0).max())
            for far, room in zip(self._outside(x), -self._outside(inside), strict=True)
        )
        return x + share * (inside - x)

    def _outside(self, x: Array) -> Array:
        """How far above 0 each inequality is."""
        parts = [wide(self.A) @ x - self.b, self.bounds.lower - x, x - self.bounds.upper]
        return np.concatenate(parts)[None]

    def constraints(self, x: Any) -> list[Any]:
        rows = [self.A @ x <= self.b] if len(self.b) else []
        rows += [self.E @ x == self.e] if len(self.e) else []
        return [*rows, *self.bounds.constraints(x)]


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


@dataclass(frozen=True)
class GroupedBall:
    """sum over groups of |x_group|_2 <= radius; the labels are of the rows of x."""

    radius: float
    labels: Array

    @property
    def scale(self) -> float:
        return self.radius

    def _length(self, x: Array) -> Any:
        groups = [x[self.labels == c] for c in np.unique(self.labels)]
        return sum((np.sqrt((part**2).sum()) for part in groups), start=Wide(0))

    def violation(self, x: Array) -> float:
        return max(0.0, float(self._length(x) - self.radius))

    def feasible(self, x: Array) -> Array:
        length = self._length(x)
        return x if length <= self.radius else x * (self.radius / length)

    def constraints(self, x: Any) -> list[Any]:
        rows = [np.flatnonzero(self.labels == c) for c in np.unique(self.labels)]
        return [sum(cp.norm(cp.vec(x[part], order="C")) for part in rows) <= self.radius]


@dataclass(frozen=True)
class SparseHull:
    """|x_i| <= radius, sum |x_i| <= k radius."""

    radius: float
    k: int

    @property
    def scale(self) -> float:
        return self.radius * self.k

    def violation(self, x: Array) -> float:
        length = np.abs(x).sum() - Wide(self.k) * self.radius
        return max(0.0, float(np.abs(x).max() - self.radius), float(length))

    def feasible(self, x: Array) -> Array:
        x = np.clip(x, -Wide(self.radius), Wide(self.radius))
        length, most = np.abs(x).sum(), Wide(self.k) * self.radius
        return x if length <= most else x * (most / length)

    def constraints(self, x: Any) -> list[Any]:
        return [cp.max(cp.abs(x)) <= self.radius, cp.sum(cp.abs(x)) <= self.k * self.radius]


@dataclass(frozen=True)
class Spectrum:
    """Symmetric matrices without negative eigenvalues, of a given trace."""

    trace: float

    @property
    def scale(self) -> float:
        return self.trace

    def violation(self, x: Array) -> float:
        values = np.linalg.eigvalsh(((x + x.T) / 2).astype(np.float64))
        skew = float(np.abs(x - x.T).max())
        return max(0.0, skew, -float(values.min()), abs(float(np.trace(x) - Wide(self.trace))))

    def feasible(self, x: Array) -> Array:
        """sum_k d_k v_k v_k' has no negative eigenvalues, whatever rounding does to the v_k."""
        values, vectors = np.linalg.eigh(((x + x.T) / 2).astype(np.float64))
        kept, V = np.maximum(wide(values), 0), wide(vectors)
        if kept.sum() == 0:
            kept = np.ones_like(kept)
        result = (V * kept) @ V.T
        return np.asarray(result * (Wide(self.trace) / np.trace(result)))

    def constraints(self, x: Any) -> list[Any]:
        return [x == x.T, x >> 0, cp.trace(x) == self.trace]


@dataclass(frozen=True)
class PartialPlans:
    """G >= 0, G 1 <= a, G' 1 <= b, sum G = mass."""

    a: Array
    b: Array
    mass: float

    @property
    def scale(self) -> float:
        return self.mass

    def violation(self, x: Array) -> float:
        rows, columns = (x.sum(axis=1) - wide(self.a)).max(), (x.sum(axis=0) - wide(self.b)).max()
        missing = abs(float(x.sum() - Wide(self.mass)))
        return max(0.0, -float(x.min()), float(rows), float(columns), missing)

    def feasible(self, x: Array) -> Array:
        """Rows, columns and mass cut to what they may have; the rest goes where there is room."""
        a, b, mass = wide(self.a), wide(self.b), Wide(self.mass)
        x = np.maximum(x, 0)
        x = x * np.minimum(1, a / np.where(x.sum(axis=1) > 0, x.sum(axis=1), 1))[:, None]
        x = x * np.minimum(1, b / np.where(x.sum(axis=0) > 0, x.sum(axis=0), 1))[None, :]
        if x.sum() > mass:
            return x * (mass / x.sum())
        room_a, room_b = np.maximum(0, a - x.sum(axis=1)), np.maximum(0, b - x.sum(axis=0))
        missing = mass - x.sum()
        if missing <= 0 or room_a.sum() == 0 or room_b.sum() == 0:
            return x
        return x + np.outer(room_a, room_b) * (missing / room_a.sum() / room_b.sum())

    def constraints(self, x: Any) -> list[Any]:
        sums = [cp.sum(x, axis=1) <= self.a, cp.sum(x, axis=0) <= self.b]
        return [x >= 0, *sums, cp.sum(x) == self.mass]


@dataclass(frozen=True)
class SharedPlans:
    """Blocks X_k >= 0 side by side, X_k' 1 = w_k b_k, X_k 1 = w_k p for one p; b_k of one mass."""

    measures: tuple[Array, ...]
    weights: tuple[float, ...]

    @cached_property
    def columns(self) -> list[Array]:
        """w_k b_k."""
        mass = wide(self.measures[0]).sum()
        scaled = [wide(b) * (mass / wide(b).sum()) for b in self.measures]
        return [Wide(w) * b for w, b in zip(self.weights, scaled, strict=True)]

    @property
    def scale(self) -> float:
        return float(max(column.sum() for column in self.columns))

    def _blocks(self, x: Any) -> list[Any]:
        ends = np.cumsum([len(b) for b in self.measures])
        return [x[:, end - len(b) : end] for end, b in zip(ends, self.measures, strict=True)]

    def violation(self, x: Array) -> float:
        blocks = self._blocks(x)
        p = sum(block.sum(axis=1) for block in blocks) / Wide(sum(self.weights))
        off = [Wide(0), -x.min()]
        for w, block, column in zip(self.weights, blocks, self.columns, strict=True):
            off.append(np.abs(block.sum(axis=1) - w * p).max())
            off.append(np.abs(block.sum(axis=0) - column).max())
        return float(max(off))

    def feasible(self, x: Array) -> Array:
        x = np.maximum(x, 0)
        blocks = self._blocks(x)
        p = sum(block.sum(axis=1) for block in blocks)
        p = p if p.sum() > 0 else np.ones(len(x), Wide)
        shares = p / p.sum()
        pairs = zip(self.columns, blocks, strict=True)
        return np.hstack([Plans(shares * c.sum(), c).feasible(block) for c, block in pairs])

    def constraints(self, x: Any) -> list[Any]:
        p = cp.Variable(x.shape[0])
        found = [x >= 0]
        for w, block, column in zip(self.weights, self._blocks(x), self.columns, strict=True):
            found.append(cp.sum(block, axis=1) == w * p)
            found.append(cp.sum(block, axis=0) == column.astype(np.float64))
        return found


@dataclass(frozen=True)
class RelaxedPlans:
    """G >= 0, 0 in rows and columns without weight; exact marginals where a price is infinite."""

    of: Relaxed

    @property
    def scale(self) -> float:
        return float(wide(self.of.a).sum() + wide(self.of.b).sum())

    def violation(self, x: Array) -> float:
        off = np.abs(x[(self.of.reference == 0)]).max(initial=0)
        exact = [np.abs(x.sum(axis=1) - self.of.a).max()] if np.isinf(self.of.for_a) else []
        exact += [np.abs(x.sum(axis=0) - self.of.b).max()] if np.isinf(self.of.for_b) else []
        return max(0.0, -float(x.min()), float(off), *map(float, exact))

    def feasible(self, x: Array) -> Array:
        R = self.of.reference
        x = np.where(R > 0, np.maximum(x, 0), 0)
        sides = ((1, self.of.for_a, wide(self.of.a)), (0, self.of.for_b, wide(self.of.b)))
        for axis, price, weights in sides:
            if np.isinf(price):
                sums = x.sum(axis=axis, keepdims=True)
                x = np.where(sums > 0, x, R)
                sums = x.sum(axis=axis, keepdims=True)
                x = x * np.expand_dims(weights, axis) / np.where(sums > 0, sums, 1)
        return x

    def constraints(self, x: Any) -> list[Any]:
        found = [x >= 0]
        if np.isinf(self.of.for_a):
            found.append(cp.sum(x, axis=1) == self.of.a)
        if np.isinf(self.of.for_b):
            found.append(cp.sum(x, axis=0) == self.of.b)
        return found


# Numbers between bounds -----------------------------------------------------------------------------------------------


class Bracket(NamedTuple):
    """What the minimum of an entropic problem lies between, and the size of all terms."""

    low: Any
    high: Any
    size: Any


def entropic_bracket(
    cost: PointsCost,
    a: Array,
    b: Array,
    entropy: float,
    plan: Array,
    passes: int = 20,
) -> Bracket:
    """Of min <C, G> + entropy sum G log G: F of a feasible plan, and the dual from its logarithm.

    D(u, v) = <a, u> + <b, v> - e sum_ij exp((u_i + v_j - C_ij)/e - 1) is no more than the minimum,
    whatever u and v.
    """
    region = Plans(a, b)
    total = Total((1.0, 1.0), (cost, NegativeEntropy(entropy)))
    high = total.at(region.feasible(plan))
    rows, columns = np.flatnonzero(region.marginals[0] > 0), np.flatnonzero(region.marginals[1] > 0)
    a, b = region.marginals[0][rows], region.marginals[1][columns]
    C, e = cost.C[np.ix_(rows, columns)], Wide(entropy)
    part = plan[np.ix_(rows, columns)]
    u = np.zeros_like(a)
    # a plan that is nearly optimal is exp((u + v - C)/e - 1): u and v are left of its logarithm
    tiny = np.finfo(np.float64).tiny
    left = e * (np.log(np.maximum(part, tiny)) + 1) + C
    v = (left * part).sum(axis=0) / np.maximum(part.sum(axis=0), tiny)
    v = v - v.mean()
    for _ in range(passes):
        u = e * (np.log(a) - log_sum_exp((v[None, :] - C) / e - 1, 1))
        v = e * (np.log(b) - log_sum_exp((u[:, None] - C) / e - 1, 0))
    low = a @ u + b @ v - e * np.exp((u[:, None] + v[None, :] - C) / e - 1).sum()
    size = np.abs(u) @ a + np.abs(v) @ b + e * a.sum() + high.size
    return Bracket(low, high.value, size)


def by_cvxpy(objective: Any, region: Any, shape: tuple[int, ...]) -> Array | None:
    """Clarabel's point, made feasible; None where it gives up."""
    x = cp.Variable(shape)
    try:
        cp.Problem(cp.Minimize(objective.expression(x)), region.constraints(x)).solve(
            solver="CLARABEL"
        )
    except (cp.error.SolverError, cp.error.DCPError, ValueError):
        return None
    if x.value is None or not np.isfinite(x.value).all():
        return None
    return np.asarray(region.feasible(wide(x.value)))
