"""The least point of a quadratic model over a ball of groups.

    min <slope, y - x> + <y - x, H (y - x)>/2   over   sum over groups |y_g| <= radius,

and y >= 0 where the ball asks for it. Which groups are 0, and which entries of the others, is found
by projected gradients with the step lengths of Barzilai and Borwein. Where that is known, the sum
of the norms is smooth in the other entries: with u_g = y_g/|y_g| and the multiplier mu, Newton's
step d solves

    (H + mu diag((1 - u_g u_g')/|y_g|)) d + nu u = -gradient,   <u, d> = 0,

and nu is the next multiplier. The gap of the model ends the rounds of both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, dot, largest_size, solve_positive, total
from condgrad.ball.options import OPTIONS
from condgrad.errors import NotFiniteError
from condgrad.rounding import ON_BOUNDARY


def least_on_groups(H: Array, slope: Array, x: Array, on: Any) -> tuple[Array, float, bool]:
    """The least point of the model at x, its multiplier, and whether its norm is below the radius."""
    size = largest_size(slope)
    radius = on.radius
    if size == 0.0:
        return x, 0.0, True
    # in units of the radius and of the slope: squares of others leave the floats
    here = OnGroups(H / size * radius, slope / size, x / radius, replace(on, radius=1.0))
    for _ in range(OPTIONS.group_rounds):
        if here.gap <= OPTIONS.accuracy * here.fall or deadline.passed():
            break
        before = here.fall
        gap = here.gap
        here.project()
        while not deadline.passed() and here.newton():
            pass
        # where the model has no digits left, its gap may have some
        if not here.fall > before and not here.gap <= 0.5 * gap:
            break
    is_slack = not here.is_on_boundary
    multiplier = 0.0 if is_slack else size * float(on.pulls(here.gradient).max())
    return radius * here.y, multiplier, is_slack


class OnGroups:
    """The best point so far of a model over a ball of groups."""

    def __init__(self, H: Array, slope: Array, x: Array, on: Any) -> None:
        self.H = H
        self.on = on
        self.y = x
        self.gradient = slope
        self.fall = 0.0
        """What the model has fallen by since x."""
        bend = dot(slope, H @ slope)
        self.length = dot(slope, slope) / bend if bend > 0.0 else 1.0
        """Of the next projected gradient."""

    @property
    def gap(self) -> float:
        """What the model may be above its least value."""
        return self._gap_at(self.y, self.gradient)

    def _gap_at(self, y: Array, gradient: Array) -> float:
        return dot(gradient, y) - self.on.linear_argmin(gradient).bound

    @property
    def is_on_boundary(self) -> bool:
        return bool(self.on.norm(self.y) >= self.on.radius * (1.0 - ON_BOUNDARY))

    def project(self) -> None:
        """Some projected gradients; a whole step, which leaves groups at 0, wherever it falls."""
        for _ in range(OPTIONS.group_projections):
            d = self.on.project(self.y - self.length * self.gradient) - self.y
            H_d = self.H @ d
            rise = dot(self.gradient, d)
            bend = dot(d, H_d)
            if not rise < 0.0 or not bend > 0.0:
                return
            self._move(d, H_d, rise, bend, 1.0 if rise + 0.5 * bend < 0.0 else -rise / bend)
            self.length = dot(d, d) / bend

    def _move(self, d: Array, H_d: Array, rise: float, bend: float, step: float) -> None:
        self.y = self.y + step * d
        self.gradient = self.gradient + step * H_d
        self.fall -= step * (rise + 0.5 * step * bend)

    def newton(self) -> bool:
        """A Newton step in the entries that are not 0, or part of it; whether the model fell by much."""
        norms = self.on.group_norms(self.y)
        free = np.flatnonzero(self.y if self.on.positive else norms[self.on.codes])
        if len(free) == 0:
            return False
        codes = self.on.codes[free]
        try:
            d = self._direction(free, codes, norms[codes])
        except NotFiniteError:
            return False
        gap = self.gap
        step = 1.0
        while step >= OPTIONS.group_shortest:
            end = self._ended(free, codes, step * d)
            move = end - self.y
            H_d = self.H @ move
            rise = dot(self.gradient, move)
            bend = dot(move, H_d)
            if rise + 0.5 * bend < 0.0 or self._gap_at(end, self.gradient + H_d) <= 0.5 * gap:
                before = self.fall
                self._move(move, H_d, rise, bend, 1.0)
                self.y = end
                return self.fall - before > OPTIONS.accuracy * abs(self.fall)
            step *= 0.5
        return False

    def _direction(self, free: Array, codes: Array, norms: Array) -> Array:
        """Newton's step in the free entries, whose groups have these codes and norms."""
        gradient = self.gradient[free]
        u = self.y[free] / norms
        H = self.H[np.ix_(free, free)]
        multiplier = -dot(gradient, u) / len(np.unique(codes))
        if not self.is_on_boundary or multiplier <= 0.0:
            return solve_positive(H, -gradient[:, None], ridge=0.0)[:, 0]
        bend = multiplier / norms
        H -= (codes[:, None] == codes) * ((bend * u)[:, None] * u)
        H[np.diag_indices_from(H)] += bend
        solved = solve_positive(H, np.column_stack([-gradient, u]), ridge=0.0)
        return solved[:, 0] - dot(u, solved[:, 0]) / dot(u, solved[:, 1]) * solved[:, 1]

    def _ended(self, free: Array, codes: Array, d: Array) -> Array:
        """Where a step leads to; groups that would turn round, and entries below 0, are 0."""
        start = self.y[free]
        end = start + d
        if self.on.positive:
            end = np.maximum(end, 0.0)
        else:
            along = np.bincount(codes, weights=start * end)
            end = np.where(along[codes] > 0.0, end, 0.0)
        whole = np.zeros_like(self.y)
        whole[free] = end
        norm = total(self.on.group_norms(whole))
        if norm > 0.0 and (norm > self.on.radius or self.is_on_boundary):
            whole *= self.on.radius / norm
        return whole
