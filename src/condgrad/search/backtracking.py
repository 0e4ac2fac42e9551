"""Backtracking: the first of the steps 1, shrink, shrink^2, ... that a test accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from condgrad import deadline

SHORTEST_STEP = 1e-30
"""The shortest step that a search tries."""
ARMIJO_FRACTION = 1e-4
"""A step must keep at least this part of the fall that the slope promises."""

Trial = TypeVar("Trial")


def backtrack(
    attempt: Callable[[float], Trial | None],
    *,
    shrink: float = 0.5,
    shortest: float = SHORTEST_STEP,
) -> tuple[float, Trial] | None:
    """The first step whose attempt is accepted, and what came of it.

    `attempt(step)` returns what is at the step, or None where the step is refused. The answer is
    None once steps are shorter than `shortest` or the time is up.
    """
    step = 1.0
    while step >= shortest and not deadline.passed():
        accepted = attempt(step)
        if accepted is not None:
            return step, accepted
        step *= shrink
    return None
