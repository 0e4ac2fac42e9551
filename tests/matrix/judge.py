"""The judge of the matrix, who shares no code with the library.

The judge starts from CVXPY's point (Clarabel) and polishes it by proximal gradient steps written here. Each step
brackets F*: with x+ = prox(x - grad/L) and G = L (x - x+), every y of the set has F(y) >= F(x+) - |G| |y - x|,
whenever L satisfies the descent inequality between x and x+. So F(x+) - |G| diameter <= F* <= F(x+).

Over plans, and with an entropy on a simplex, the bracket is that of the oracle: F(y) >= f(x) - <grad f(x), x> +
min_s <grad f(x), s> + g(s), whose minimum is a closed form or bounded by plain Sinkhorn or by the prices of HiGHS.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize
import scipy.special

from tests import transport

Array = np.ndarray
ValueGradient = Callable[[Array], tuple[float, Array]]


# Projections ----------------------------------------------------------------------------------------------------------


def project_simplex(v: Array, mass: float = 1.0) -> Array:
    """The projection onto {x >= 0, sum x = mass}, by sorting."""
    falling = np.sort(v)[::-1]
    thresholds = (np.cumsum(falling) - mass) / np.arange(1, len(v) + 1)
    last = np.flatnonzero(falling > thresholds)[-1]
    return np.maximum(v - thresholds[last], 0.0)


def project_l1(v: Array, radius: float) -> Array:
    """The projection onto the l1 ball."""
    return v if np.abs(v).sum() <= radius else np.sign(v) * project_simplex(np.abs(v), radius)


def project_solid_simplex(v: Array, radius: float) -> Array:
    """The projection onto {x >= 0, sum x <= radius}."""
    positive = np.maximum(v, 0.0)
    return positive if positive.sum() <= radius else project_simplex(v, radius)


def project_l2(v: Array, radius: float) -> Array:
    """The projection onto the l2 ball."""
    return v * min(1.0, radius / max(float(np.linalg.norm(v)), 1e-300))


def soft(v: Array, threshold: float) -> Array:
    """Soft thresholding."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def on_singular_values(move: Callable[[Array], Array], X: Array) -> Array:
    """A map of vectors applied to the singular values of X."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    return (U * move(sigma)) @ Vt


# Functions ------------------------------------------------------------------------------------------------------------


def squares(A: Array, y: Array) -> ValueGradient:
    """1/2 |Ax - y|^2."""
    return lambda x: (0.5 * float(np.sum((A @ x - y) ** 2)), A.T @ (A @ x - y))


def logistic(Z: Array, y: Array) -> ValueGradient:
    """sum log(1 + exp(-y z.x))."""
    return lambda x: (
        float(np.logaddexp(0.0, -y * (Z @ x)).sum()),
        -Z.T @ (y / (1.0 + np.exp(y * (Z @ x)))),
    )


def squared_hinge(Z: Array, y: Array) -> ValueGradient:
    """sum max(0, 1 - y z.x)^2."""

    def both(x: Array) -> tuple[float, Array]:
        short = np.maximum(0.0, 1.0 - y * (Z @ x))
        return float(short @ short), -2.0 * Z.T @ (y * short)

    return both


def with_intercept(
    loss: Callable[[Array, Array], ValueGradient], A: Array, y: Array
) -> ValueGradient:
    """The loss of Ax + b with the b that is best for x; where b is best, the slope in x is that at a fixed b."""
    beside = np.column_stack([A, np.ones(len(y))])
    both = loss(beside, y)
    last = [0.0]

    def slope(x: Array, b: float) -> float:
        return float(both(np.append(x, b))[1][-1])

    def least(x: Array) -> tuple[float, Array]:
        low, high = last[0] - 1e-3, last[0] + 1e-3
        while slope(x, low) > 0.0:
            low -= 4.0 * (high - low)
        while slope(x, high) < 0.0:
            high += 4.0 * (high - low)
        last[0] = scipy.optimize.brentq(lambda b: slope(x, b), low, high, xtol=1e-15)
        value, gradient = both(np.append(x, last[0]))
        return value, gradient[:-1]

    return least


def ridge(weight: float | Array) -> ValueGradient:
    """sum weight_i x_i^2."""
    return lambda x: (float(np.sum(weight * x * x)), 2.0 * weight * x)


def entropy(weight: float) -> ValueGradient:
    """weight sum x log x."""

    def both(x: Array) -> tuple[float, Array]:
        log = np.log(np.maximum(x, 1e-300))
        return weight * float(np.sum(x * log)), weight * (log + 1.0)

    return both


def linear(c: Array) -> ValueGradient:
    """<c, x>."""
    return lambda x: (float(np.sum(c * x)), c)


def matrix_fit(W: Array, M: Array) -> ValueGradient:
    """1/2 sum W (X - M)^2."""
    return lambda X: (0.5 * float((W * (X - M) ** 2).sum()), W * (X - M))


def laplacian(Xs: Array, Xt: Array, Ls: Array, Lt: Array, weight: float) -> ValueGradient:
    """weight (tr(Xt' G' Ls G Xt) + tr(Xs' G Lt G' Xs))."""

    def both(G: Array) -> tuple[float, Array]:
        slope = Ls @ G @ (Xt @ Xt.T) + (Xs @ Xs.T) @ G @ Lt
        return weight * float(np.sum(G * slope)), 2.0 * weight * slope

    return both


def class_norms(classes: Sequence[Array], weight: float) -> ValueGradient:
    """weight times the sum of |G[rows, j]| over classes of rows and columns j."""

    def both(G: Array) -> tuple[float, Array]:
        value, slope = 0.0, np.zeros_like(G)
        for rows in classes:
            norms = np.sqrt((G[rows] ** 2).sum(axis=0))
            value += weight * float(norms.sum())
            slope[rows] = weight * G[rows] / norms
        return value, slope

    return both


def total(*parts: ValueGradient) -> ValueGradient:
    """A sum of functions."""

    def both(x: Array) -> tuple[float, Array]:
        pairs = [part(x) for part in parts]
        return sum(value for value, _ in pairs), sum(
            (gradient for _, gradient in pairs), start=np.zeros_like(x)
        )

    return both


def nothing(_: Array) -> float:
    """No part of F is left to the proximal map but the set."""
    return 0.0


# Brackets -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """F* lies in [lower, value], and point attains value."""

    point: Array
    value: float
    lower: float

    @property
    def scale(self) -> float:
        return max(1.0, abs(self.value))

    @property
    def tolerance(self) -> float:
        """The width of the bracket and some rounding."""
        return self.value - self.lower + 1e-13 * self.scale


def polished(
    smooth: ValueGradient,
    prox: Callable[[Array, float], Array],
    x: Array,
    *,
    diameter: float,
    rest: Callable[[Array], float] = nothing,
    most: int = 20_000,
) -> Verdict:
    """Proximal gradient with backtracking on smooth + rest from x, until the bracket closes to rounding."""
    x, L, best, last = prox(x, 1e-12), 1.0, Verdict(x, np.inf, -np.inf), 0
    for k in range(most):
        value, gradient = smooth(x)
        while True:
            new = prox(x - gradient / L, 1.0 / L)
            d = new - x
            bend = smooth(new)[0] - value - float(np.sum(gradient * d))
            if bend <= 0.5 * L * float(np.sum(d * d)) + 1e-15 * max(1.0, abs(value)):
                break
            L *= 2.0
        # a step below the rounding of x is no step of 0
        length = float(np.linalg.norm(d)) + np.finfo(float).eps * float(np.linalg.norm(x))
        width = L * length * diameter
        top = smooth(new)[0] + rest(new)
        if width < best.value - best.lower:
            best, last = Verdict(new, top, top - width), k
        # rounding has the last word: no better bracket for a while means there is none
        if width <= 1e-13 * max(1.0, abs(top)) or k > last + most // 20:
            break
        # close by, the descent inequality is one of rounding and L must not fall with it
        x, L = new, 0.9 * L if width > 1e-5 * max(1.0, abs(top)) else L
    return best


def mirrored(smooth: ValueGradient, weight: float, mass: float, x: Array) -> Verdict:
    """Entropic mirror steps on a simplex from x, until the bracket of the oracle closes: its minimum is a closed form.

    An entry may be so small that the entropy bends too much for a step of `polished`.
    """
    best, rate = Verdict(x, np.inf, -np.inf), 1.0
    x = mass * np.maximum(x, 1e-30) / np.maximum(x, 1e-30).sum()
    for _ in range(5000):
        value, slope = smooth(x)
        top = value + weight * transport.negentropy(x)
        least = weight * mass * float(np.log(mass) - scipy.special.logsumexp(-slope / weight))
        found = Verdict(x, top, min(top, value - float(slope @ x) + least))
        if found.value > best.value + 1e-12 * best.scale:
            rate /= 2.0
        if found.value - found.lower < best.value - best.lower:
            best = found
        if best.value - best.lower <= 1e-14 * best.scale:
            break
        score = (np.log(x) - rate * slope) / (1.0 + rate * weight)
        x = mass * np.exp(score - scipy.special.logsumexp(score))
    return best


def cheapest_plan(C: Array, a: Array, b: Array) -> tuple[Array, float]:
    """HiGHS's plan, and what its prices prove, which hold for every plan."""
    n, m = C.shape
    rows = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = scipy.optimize.linprog(C.ravel(), A_eq=rows, b_eq=np.concatenate([a, b]))
    u, v = np.split(found.eqlin.marginals, [n])
    over = min(0.0, float((C - u[:, None] - v[None, :]).min()))
    return found.x.reshape(n, m), float(a @ u + b @ v + over * a.sum())


def bracketed_plan(smooth: ValueGradient, weight: float, X: Array, a: Array, b: Array) -> Verdict:
    """The bracket of the oracle near a plan, with an entropy of this weight or, where it is 0, none."""
    found = []
    for _ in range(3):
        X = transport.mended(X, a, b)
        value, slope = smooth(X)
        top = value + weight * transport.negentropy(X)
        if weight:
            oracle = transport.judge(slope, a, b, weight)
            best, least = oracle.plan, oracle.lower
        else:
            best, least = cheapest_plan(slope, a, b)
        found.append(Verdict(X, top, min(top, value - float(np.sum(slope * X)) + least)))
        X = best if weight else X
    return min(found, key=lambda each: each.value - each.lower)


def by_clarabel(objective: cp.Expression, constraints: list[Any], x: cp.Variable) -> Array:
    """Clarabel's point, which may be inaccurate: the bracket tells."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")
    return np.asarray(x.value)
