"""Conjugate gradients, for every system of equations that is known by its products alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from condgrad import deadline

MOST_ACCURATE = 1e-15
"""No smaller relative residual is asked for, since it would be rounding."""


class LinearSolution(NamedTuple):
    """What was found and the products it took."""

    x: Any
    iterations: int


def plus(x: Any, step: float, y: Any) -> Any:
    """x + step * y, for arrays."""
    return x + step * y


def conjugate_gradients(
    product: Callable[[Any], Any],
    b: Any,
    *,
    inner: Callable[[Any, Any], float],
    accuracy: float,
    max_iterations: int,
    precondition: Callable[[Any], Any] = lambda r: r,
    moved: Callable[[Any, float, Any], Any] = plus,
    energy: float | None = None,
) -> LinearSolution:
    """x with A x ~ b, starting from 0, until the preconditioned residual has fallen by `accuracy`.

    With `energy`, a bound on <b, x>, the residual must fall to `accuracy` times the root of what x
    leaves of it, energy - <b, x>. This is for callers whose answer is a small difference between
    something and x.

    A, known by `product`, and the preconditioner are self-adjoint and positive in the metric
    `inner`; vectors are anything that `moved` adds up. Directions are made conjugate by the
    Polak-Ribiere formula, which allows for a preconditioner that changes from call to call, such as
    an inner iteration (Notay, SIAM J. Sci. Comput. 22, 2000).
    """
    x = moved(b, -1.0, b)
    r = b
    z = precondition(b)
    direction = z
    size = inner(z, b)
    iterations = 0
    target = max(accuracy, MOST_ACCURATE) ** 2
    left = size if energy is None else energy
    while size > target * left and iterations < max_iterations and not deadline.passed():
        A_direction = product(direction)
        curvature = inner(direction, A_direction)
        if not (curvature > 0.0 and math.isfinite(size / curvature)):
            break
        iterations += 1
        step = size / curvature
        x = moved(x, step, direction)
        if energy is not None:
            left = max(left - step * size, MOST_ACCURATE * energy)
        before = r
        r = moved(r, -step, A_direction)
        z = precondition(r)
        last = size
        size = inner(z, r)
        turn = (size - inner(z, before)) / last if math.isfinite(size) else math.inf
        if not math.isfinite(turn):  # what is left of the residual is below all digits
            break
        direction = moved(z, turn, direction)
    return LinearSolution(x, iterations)
