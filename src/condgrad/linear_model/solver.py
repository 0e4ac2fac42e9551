"""One constrained problem, or a path of them: what every estimator here asks of `condgrad.minimize`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from condgrad import _checks
from condgrad.arrays import Array, double, namespace
from condgrad.linear_model.progress import FitsLine
from condgrad.minimize import minimize
from condgrad.result import Status
from condgrad.sets import L1Ball
from condgrad.simple import Ridge
from condgrad.smooth.composite import Composite

SMALLEST_SHARE = 1e-3
"""The first radius of a default grid, as a share of the last."""

ROUGH = 0.03
"""The gap of the solution without a constraint, as a share of what it gains over x = 0, at which its norm is known."""

INSIDE = 1e-3
"""How far inside the ball, as a share of its radius, a solution shows by itself that the constraint is idle."""

PROVABLE = 100.0
"""The smallest tolerance in rounding units of the data: a proof is no better than they are."""


@dataclass(frozen=True, eq=False)
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
    """How to minimise f(x) + ridge |x|_2^2 over |x|_1 <= radius, and when all such fits together must end."""

    method: str
    tol: float
    max_iter: int
    ends: float = math.inf
    """The moment of `time.perf_counter`, which is the same clock in all processes of a machine."""
    progress: bool = False
    """Whether each fit shows a line of its own."""

    @classmethod
    def starting_now(cls, method: str, tol: float, max_iter: int, time_limit: float | None) -> Solver:
        """A solver whose fits share a time limit that begins to run now."""
        if time_limit is None:
            return cls(method, tol, max_iter)
        seconds = _checks.number("time_limit", time_limit, at_least=0.0)
        return cls(method, tol, max_iter, ends=time.perf_counter() + seconds)

    @property
    def time_left(self) -> float | None:
        """What a fit that begins now may take."""
        return None if self.ends == math.inf else max(0.0, self.ends - time.perf_counter())

    def with_share_of_time(self, share: float) -> Solver:
        """A solver that ends when this share of the time left is spent."""
        left = self.time_left
        return self if left is None else replace(self, ends=self.ends - (1.0 - share) * left)

    def solve(self, f: Composite, *, radius: float, ridge: float, start: Array = None) -> Fit:
        """The solution for one radius, from the projection of a start onto the ball."""
        ball = L1Ball(radius)
        g = Ridge(checked_ridge(ridge), on=ball)
        x0 = None if start is None else ball.project(start)
        tol = max(_checks.number("tol", self.tol, at_least=0.0), PROVABLE * f.unit)
        result = minimize(
            f,
            g,
            x0,
            method=self.method,
            tol=tol,
            max_iter=self.max_iter,
            time_limit=self.time_left,
            progress=self.progress,
        ).uninterrupted()
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

    def path(self, f: Composite, *, radii: Sequence[float], ridge: float, line: FitsLine) -> list[Fit]:
        """The solutions for increasing radii, each from where the two before point to, counted on a line."""
        fits: list[Fit] = []
        for k, radius in enumerate(radii):
            start = fits[-1].coef if fits else None
            if k > 1:
                ahead = (radius - radii[k - 1]) / (radii[k - 1] - radii[k - 2])
                start = start + float(ahead) * (start - fits[-2].coef)
            fits.append(self.solve(f, radius=radius, ridge=ridge, start=start))
            line.fitted(radius=radius, ridge=ridge, relative_gap=fits[-1].relative_gap)
        return fits

    def idle_radius(self, f: Composite, ridge: float) -> float:
        """|x|_1 for the x without a constraint, roughly; 1 where that is 0.

        Features that are small in their unit, or a large ridge, leave little to gain over x = 0. So the gap is held
        against that gain, not against F; where no gain is to be seen at all, a gradient step from 0 is what the ridge
        leaves of the solution.
        """
        here = f.at(f.space.full(0.0))
        if here.value == 0.0:
            return 1.0
        # no better than the origin is no solution: ridge |x|_2^2 <= f(0), and |x|_1 <= sqrt(n) |x|_2
        bound = (f.K.shape[1] * here.value / checked_ridge(ridge)) ** 0.5
        ball = L1Ball(bound)
        g = Ridge(ridge, on=ball)
        for tol in (1e-3, 1e-6, 1e-9):
            result = minimize(
                f, g, method=self.method, tol=tol, max_iter=1000, time_limit=self.time_left
            ).uninterrupted()
            if result.gap <= ROUGH * (here.value - result.value):
                return ball.norm(result.x)
        return ball.norm(result.x) or ball.norm(g.argmin(here.gradient).point) or 1.0


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


ADVICE = {
    Status.STALLED: "Raise tol",
    Status.ITERATION_LIMIT: "Raise max_iter or tol",
    Status.TIME_LIMIT: "Raise time_limit or tol",
}


def warn_unless_converged(fits: Sequence[Fit], *, stacklevel: int) -> None:
    """One warning for all fits that fell short, with the gap that the worst is certified to."""
    short = [fit for fit in fits if fit.status is not Status.CONVERGED]
    if not short:
        return
    worst = max(short, key=lambda fit: fit.relative_gap)
    which = "" if len(fits) == 1 else f"{len(short)} of {len(fits)} fits fell short; the worst: "
    proof = f"the objective is within {worst.gap:.3g} of its minimum"
    if worst.gap == math.inf:
        proof = "nothing was proved about how far the objective is from its minimum"
    warnings.warn(
        f"{which}{worst.message}, where {worst.tol:.3g} was asked; {proof}. {ADVICE[worst.status]}, "
        "take a larger ridge or scale the features.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
