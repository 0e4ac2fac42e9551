"""Minimise a restriction over {a >= 0, sum a <= 1}, for a handful of directions: the corrective
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import Vector
from condgrad.rounding import LIFT, SAME_POINTS
from condgrad.search.backtracking import ARMIJO_FRACTION, backtrack
from condgrad.search.restriction import LocalModel, Restriction

SHORTEST_FRACTION = 1e-12
"""The shortest fraction of a Newton step that is tried."""


def minimize_over_hull(
    F: Restriction, start: LocalModel, size: int, *, tolerance: float, rounding: float
) -> Vector | None:
    """The minimiser, or None if nothing below `start = F.local(0)` was found.

    Newton's method from the middle of the hull, for at its corners the curvature of an entropy is
    infinite; SLSQP where no curvature is known. Stops once the model promises less than `tolerance`
    of what it promised first. `rounding` is what rounding does to F.
    """
    if deadline.passed():
        return None
    a = np.full(size, 0.5 / size)
    here = F.local(a)
    if here.curvature is None or here.slope is None:
        return _by_slsqp(F, here, start, a)
    first = 0.0
    for _ in range(50):
        if deadline.passed():
            break
        if not np.isfinite(here.curvature).all():
            return None
        direction = quadratic_argmin(here.slope, here.curvature, a) - a
        promise = -float(here.slope @ direction)
        first = first or promise
        if promise <= tolerance * first:
            break
        found = backtrack(
            _lower_point(F, a, direction, here.value + rounding, promise),
            shortest=SHORTEST_FRACTION,
        )
        if found is None:
            # where F is curved so sharply that rounding hides its fall, the point so far is as good
            # as any
            break
        a = np.clip(found[1], 0.0, None)
        a /= max(1.0, a.sum())
        here = F.local(a)
    return a if here.value < start.value else None


def _lower_point(
    F: Restriction, a: Vector, direction: Vector, ceiling: float, promise: float
) -> Callable[[float], Vector | None]:
    """The test of a step along the direction: the point there, if F keeps a part of what the slope
    promises.
    """

    def attempt(step: float) -> Vector | None:
        there = a + step * direction
        return there if F.value(there) <= ceiling - ARMIJO_FRACTION * step * promise else None

    return attempt


def quadratic_argmin(slope: Vector, curvature: Any, a: Vector) -> Vector:
    """argmin <slope, t - a> + <t - a, curvature (t - a)>/2 over {t >= 0, sum t <= 1}, by an active
    set.

    Works on the weights (1 - sum t, t) of the simplex: solve on the free weights, walk there until
    one of them vanishes, free the one with the most negative multiplier.
    """
    k = len(a)
    # in units of the curvature, or of the slope where there is none: the equations below have ones
    # among them
    largest = float(np.abs(curvature).max()) or float(np.abs(slope).max()) or 1.0
    H = np.zeros((k + 1, k + 1))
    # remembered points may coincide; a trace of ridge keeps their system regular
    curvature = curvature / largest
    H[1:, 1:] = curvature + SAME_POINTS * (np.trace(curvature) or 1.0) * np.eye(k)
    c = np.concatenate([[0.0], slope / largest - H[1:, 1:] @ a])
    w = np.concatenate([[max(0.0, 1.0 - a.sum())], a])
    free = w > 0.0
    for _ in range(10 * (k + 2)):
        target, multiplier = _on_face(H, c, free)
        step = target - w
        falling = np.flatnonzero(free & (target < 0.0))
        if len(falling):
            fractions = w[falling] / -step[falling]
            first = int(np.argmin(fractions))
            w = np.clip(w + fractions[first] * step, 0.0, None)
            w[falling[first]] = 0.0
            free[falling[first]] = False
            continue
        w = target
        multipliers = np.where(free, 0.0, H @ w + c + multiplier)
        worst = int(np.argmin(multipliers))
        if multipliers[worst] >= -LIFT * (np.abs(c).max() + np.abs(H).max()):
            break
        free[worst] = True
    return w[1:]


def _on_face(H: Any, c: Vector, free: Any) -> tuple[Vector, float]:
    """The minimiser on the affine hull of a face and the multiplier of `sum w = 1`."""
    index = np.flatnonzero(free)
    size = len(index)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = H[np.ix_(index, index)]
    system[size, size] = 0.0
    solution = np.linalg.lstsq(system, np.append(-c[index], 1.0), rcond=None)[0]
    w = np.zeros(len(c))
    w[index] = solution[:size]
    return w, float(solution[size])


def _by_slsqp(F: Restriction, here: LocalModel, start: LocalModel, a: Vector) -> Vector | None:
    """By SLSQP, whose tolerances are absolute: it sees F in units of its variation. None if out of
    time.
    """
    slopes = 0.0 if here.slope is None else float(np.abs(here.slope).max())
    variation = max(abs(start.value - here.value), slopes) or 1.0

    def both(t: Vector) -> Any:
        deadline.check()
        there = F.local(t)
        value = (there.value - start.value) / variation
        return value if there.slope is None else (value, there.slope / variation)

    from scipy.optimize import minimize

    try:
        best = minimize(
            both,
            a,
            jac=here.slope is not None,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * len(a),
            constraints={
                "type": "ineq",
                "fun": lambda t: 1.0 - t.sum(),
                "jac": lambda t: -np.ones(len(t)),
            },
            options={"ftol": 1e-15, "maxiter": 30},
        )
        deadline.check()
    except deadline.OutOfTime:
        return None
    t = np.clip(best.x, 0.0, 1.0)
    t = t / max(1.0, t.sum())
    return t if F.value(t) < start.value else None
