"""Away and pairwise steps: conditional gradients that remember the vertices of the iterate.

The iterate x is stored as a mixture of vertices, its active set. The oracle gives a vertex s; the
worst vertex of the active set is v. A Frank-Wolfe step goes from x towards s. An away step goes
from x away from v. A pairwise step moves weight from v to s. On polytopes, away and pairwise steps
converge linearly if f is strongly convex; plain conditional gradients do not (Lacoste-Julien and
Jaggi, NIPS 2015).

A lazy method calls the oracle only if no pair of vertices of the active set promises enough (Braun,
Pokutta and Zink, ICML 2017; Tsuji, Tanaka and Pokutta, ICML 2022). Steps without the oracle prove
no bound; the next call of the oracle does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, Vector, dot, mixed, namespace
from condgrad.certificate import (
    Effort,
    Iterate,
    Terms,
    linearised,
)
from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth
from condgrad.search.steps import OpenLoop, SearchState, StepRule, checked_fractions
from condgrad.simple import Zero

GONE = 1e-15
"""A vertex leaves the mixture if its weight is at most this."""
PROMISING = 0.5
"""The oracle is not called if a pair of known vertices promises at least this part of the last gap.
"""


class Way(NamedTuple):
    """A direction to go. x + longest * direction is the last point inside the set."""

    direction: Array
    longest: float
    to: int | None
    """The vertex that gains weight; None if all others gain it (an away step)."""
    off: int | None
    """The vertex that loses weight; None if all lose it."""


class ActiveSet:
    """Vertices and their weights, which sum to 1."""

    def __init__(self, x: Array) -> None:
        self.vertices = [x]
        self.weights = np.ones(1)

    def slopes(self, c: Array) -> Vector:
        """<c, vertex> of each."""
        return np.array([dot(c, vertex) for vertex in self.vertices])

    def index(self, s: Array) -> int:
        """The index of a vertex. A new vertex is added, without weight."""
        xp = namespace(s)
        for i, vertex in enumerate(self.vertices):
            if bool(xp.all(vertex == s)):
                return i
        self.vertices.append(s)
        self.weights = np.append(self.weights, 0.0)
        return len(self.vertices) - 1

    def move(self, way: Way, step: float) -> None:
        """Follow a way, and forget the vertices that it leaves."""
        if way.off is None:
            self.weights *= 1.0 - step
        elif way.to is None:
            self.weights *= 1.0 + step
        if way.off is not None:
            self.weights[way.off] = 0.0 if step >= way.longest else self.weights[way.off] - step
        if way.to is not None:
            self.weights[way.to] += step
        remaining = self.weights > GONE
        self.vertices = [
            vertex for vertex, stays in zip(self.vertices, remaining, strict=True) if stays
        ]
        self.weights = self.weights[remaining] / self.weights[remaining].sum()


@dataclass(frozen=True)
class ActiveSetCG:
    """Conditional gradients with away or pairwise steps, for g = 0."""

    f: Smooth
    g: Simple
    step: StepRule
    pairwise: bool
    lazy: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.g, Zero):
            raise MissingAbility(
                f"method={self.name!r} moves between vertices of a polytope, so it needs g = Zero(on=...), "
                f"got {self.g!r}: put g into f if it is smooth, or use method='cgs'"
            )
        if isinstance(self.step, OpenLoop):
            raise ValueError(
                f"method={self.name!r} needs a step that depends on F: 'exact', 'armijo', 'short' or 'adaptive'"
            )

    @property
    def name(self) -> str:
        return "pairwise" if self.pairwise else "away"

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        active = ActiveSet(x)
        here = f.at(x)
        evaluations = 1
        calls = 0
        taken = 0.0
        promised = math.inf
        noise = 0.0
        k = 0
        notes: dict[str, float] = {}
        while True:
            if deadline.passed():
                if k == 0:
                    yield Iterate(
                        x, Terms(here.value, 0.0), -math.inf, None, taken, Effort(1, 0, 0), 0.0
                    )
                return
            c = here.gradient
            slopes = active.slopes(c)
            worst = int(np.argmax(slopes))
            best = int(np.argmin(slopes))
            bound = -math.inf
            if self.lazy and slopes[worst] - slopes[best] >= PROMISING * promised:
                to = best
            else:
                plane = linearised(f, g, here, c, x=x, g_size=0.0, value=here.value)
                answer = plane.answer
                calls += 1
                noise = plane.noise
                bound = plane.bound
                promised = here.value - bound
                to = active.index(answer.point)
                slopes = np.append(slopes, dot(c, answer.point)) if to == len(slopes) else slopes
            yield Iterate(
                x, Terms(here.value, 0.0), bound, c, taken, Effort(evaluations, calls, 0), noise
            )
            way = self._way(active, x, c, slopes, to, worst)
            promise = -way.longest * dot(c, way.direction)
            if promise > 0.0:
                end = x + way.longest * way.direction
                far = f.at(end)
                directions = (end - x)[None]
                state = SearchState(f, g, k, x, here, [far], directions, here.value, promise, notes)
                fractions = checked_fractions(self.step(state), 1, x)
                evaluations += 1 + state.evaluations
            else:
                fractions = np.zeros(1)
            if fractions[0] == 0.0:
                if bound > -math.inf:
                    return
                promised = math.inf  # what the known vertices promised was rounding: ask the oracle
                continue
            if deadline.passed():
                return
            taken = float(fractions[0]) * way.longest
            active.move(way, taken)
            x = mixed(x, [end], fractions)
            here = here.moved(x, [far], fractions)
            k += 1

    def _way(
        self, active: ActiveSet, x: Array, c: Array, slopes: Vector, to: int, worst: int
    ) -> Way:
        """From the worst vertex to the best one; or the steeper of towards the best and away from
        the worst.
        """
        if self.pairwise:
            direction = active.vertices[to] - active.vertices[worst]
            return Way(direction, float(active.weights[worst]), to, worst)
        level = dot(c, x)
        weight = float(active.weights[worst])
        if level - slopes[to] >= slopes[worst] - level or weight >= 1.0:
            return Way(active.vertices[to] - x, 1.0, to, None)
        return Way(x - active.vertices[worst], weight / (1.0 - weight), None, worst)
