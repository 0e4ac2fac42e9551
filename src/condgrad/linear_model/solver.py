"""One constrained problem, or a path of them: what every estimator here asks of `condgrad.minimize`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from condgrad import _checks
from condgrad._arrays import Array, double, namespace
from condgrad.minimize import minimize
from condgrad.result import Status
from condgrad.sets import L1Ball
from condgrad.simple import Ridge
from condgrad.smooth.composite import Composite

SMALLEST_SHARE = 1e-3
"""The first radius of a default grid, as a share of the last."""

INSIDE = 1e-3
"""How far inside the ball, as a share of its radius, a solution shows by itself that the constraint is idle."""

PROVABLE = 100.0
"""The smallest tolerance in rounding units of the data: a proof is no better than they are."""


@dataclass(frozen=True)
class Fit:
    """The solution of one problem, with its proof."""

    coef: Array
    intercept: float
    value: float
    gap: float
    multiplier: float
    iterations: int
    status: Status
    message: str
    tol: float
    """The gap / scale that was asked for."""
    relative_gap: float
    """The gap / scale that was reached."""


@dataclass(frozen=True)
class Solver:
    """How to minimise f(x) + ridge |x|_2^2 over |x|_1 <= radius."""

    method: str
    tol: float
    max_iter: int

    def solve(self, f: Composite, *, radius: float, ridge: float, start: Array = None) -> Fit:
        """The solution for one radius, from the projection of a start onto the ball."""
        ball = L1Ball(radius)
        g = Ridge(checked_ridge(ridge), on=ball)
        x0 = None if start is None else ball.project(start)
        tol = max(_checks.number("tol", self.tol, at_least=0.0), PROVABLE * f.unit)
        result = minimize(f, g, x0, method=self.method, tol=tol, max_iter=self.max_iter)
        here = f.at(result.x)
        return Fit(
            result.x,
            here.intercept,
            result.value,
            result.gap,
            multiplier(result.x, double(here.gradient), g.weight, ball),
            result.iterations,
            result.status,
            result.message,
            tol,
            result.relative_gap,
        )

    def path(self, f: Composite, *, radii: Sequence[float], ridge: float) -> list[Fit]:
        """The solutions for increasing radii, each from where the two before point to."""
        fits: list[Fit] = []
        for k, radius in enumerate(radii):
            start = fits[-1].coef if fits else None
            if k > 1:
                ahead = (radius - radii[k - 1]) / (radii[k - 1] - radii[k - 2])
                start = start + float(ahead) * (start - fits[-2].coef)
            fits.append(self.solve(f, radius=radius, ridge=ridge, start=start))
        return fits

    def idle_radius(self, f: Composite, ridge: float) -> float:
        """|x|_1 for the x without a constraint, to about a percent; 1 where that is 0."""
        here = f.at(f.space.full(0.0))  # type: ignore[union-attr]
        if here.value == 0.0:
            return 1.0
        # no better than the origin is no solution: ridge |x|_2^2 <= f(0), and |x|_1 <= sqrt(n) |x|_2
        bound = (f.K.shape[1] * here.value / checked_ridge(ridge)) ** 0.5
        ball = L1Ball(bound)
        return ball.norm(minimize(f, Ridge(ridge, on=ball), method=self.method, tol=1e-3, max_iter=1000).x) or 1.0


def checked_ridge(ridge: Any) -> float:
    """The ridge, which strong convexity and so the oracle needs."""
    try:
        return _checks.number("ridge", ridge, above=0.0)
    except ValueError as error:
        raise ValueError(f"{error}; for a lasso take a small one, such as 1e-8") from None


def multiplier(x: Array, gradient: Array, ridge: float, ball: L1Ball) -> float:
    """mu >= 0 for which x minimises f + ridge |x|_2^2 + mu |x|_1 too, from x and grad f(x).

    At the solution the oracle's point is x itself: v = -grad f(x) / (2 ridge), soft-thresholded at mu / (2 ridge). That
    threshold is what the projection takes off the largest entries, and exactly 0 where v lies in the ball. A small
    ridge magnifies what is left of the gradient in v; there a point inside the ball, for which
    mu <= gap / (radius - |x|_1), is the better witness.
    """
    if ball.norm(x) < (1.0 - INSIDE) * ball.radius:
        return 0.0
    xp = namespace(gradient)
    v = (-0.5 / ridge) * gradient
    return 2.0 * ridge * float(xp.max(xp.abs(v) - xp.abs(ball.project(v))))


def default_radii(tasks: Sequence[Composite], *, ridge: float, n_radii: int, solver: Solver) -> Any:
    """A geometric grid up to the radius from which on the constraint is idle."""
    _checks.whole("n_radii", n_radii, at_least=1)
    top = max(solver.idle_radius(f, ridge) for f in tasks)
    return top * np.geomspace(SMALLEST_SHARE, 1.0, n_radii) if n_radii > 1 else np.array([top])


def checked_radii(radii: Any) -> Any:
    """A user's radii, each once, in increasing order."""
    checked = np.unique([_checks.number("radii", radius, at_least=0.0) for radius in np.ravel(radii)])
    if len(checked) == 0:
        raise ValueError("radii must hold at least one radius, got none; leave it None for a default grid")
    return checked


def warn_unless_converged(fits: Sequence[Fit], *, stacklevel: int) -> None:
    """One warning for all fits that fell short, with the gap that the worst is certified to."""
    short = [fit for fit in fits if fit.status is not Status.CONVERGED]
    if not short:
        return
    worst = max(short, key=lambda fit: fit.relative_gap)
    which = "" if len(fits) == 1 else f"{len(short)} of {len(fits)} fits fell short; the worst: "
    advice = "Raise tol" if worst.status is Status.STALLED else "Raise max_iter or tol"
    warnings.warn(
        f"{which}{worst.message}, where {worst.tol:.3g} was asked; the objective is within {worst.gap:.3g} of its "
        f"minimum. {advice}, take a larger ridge or scale the features.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
