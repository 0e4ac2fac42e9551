"""Newton on the certificate: maximise the lower bound itself, by Newton's method along a path.

For f = h(Kx) and any z, `D(z) = h(z) - <grad h(z), z> + min_s [<K' grad h(z), s> + g(s)]` is a lower bound on F*,
concave, with maximum F*. CGS is gradient ascent on it; where f is stiff against g that crawls, and Newton's method does
not. A far start needs a path: t*g in place of g, t falling to 1, each stage solved loosely and handed on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from condgrad._arrays import Array, Space, precision
from condgrad.certificate import Iterate, rounding_noise, tangent_bound
from condgrad.problem import Simple, Smooth

IDLE = 5
"""Iterations in a row whose gains drown in rounding, after which no other will bring more."""


class DualPoint(Protocol):
    """The dual function of f + t g at some z."""

    @property
    def dual(self) -> float:
        """D_t(z)."""

    @property
    def magnitude(self) -> float:
        """The size of its terms before they cancel."""


class Primal(NamedTuple):
    """A feasible point from a dual one."""

    x: Array
    smooth: float
    """f(x)."""
    simple: float
    """g(x)."""


class Ascent(NamedTuple):
    """A direction of the dual, the slope along it, and the products it took to find."""

    direction: Any
    slope: float
    inner_iterations: int


class DualModel(Protocol):
    """What an application supplies: the dual function, its Newton direction, a feasible point."""

    @property
    def affordable(self) -> bool:
        """Whether `auto` should prefer Newton to CGS here."""

    def start(self, x: Array) -> Any:
        """A z for the primal point x."""

    def first_stage(self, z: Any, smooth: float, simple: float) -> float:
        """The t at which to enter the path from z, whose primal point has f = smooth and g = simple."""

    def stage_tolerance(self, t: float) -> float:
        """The gap at which stage t has done its work."""

    def evaluate(self, z: Any, t: float) -> Any:
        """The `DualPoint` at z."""

    def moved(self, z: Any, direction: Any, step: float) -> Any:
        """z + step * direction."""

    def ascent(self, point: Any, gap: float) -> Ascent:
        """A Newton direction, as exact as the gap deserves."""

    def primal(self, point: Any) -> Primal:
        """A feasible point."""


MODELS: list[Callable[[Smooth, Simple], DualModel | None]] = []
"""Applications add a function here that recognises their f and g."""


def dual_model(f: Smooth, g: Simple) -> DualModel | None:
    """The first model that fits, if one does."""
    return next((model for recognise in MODELS if (model := recognise(f, g)) is not None), None)


@dataclass(frozen=True)
class Newton:
    """Path-following Newton ascent on the certificate."""

    f: Smooth
    g: Simple
    model: DualModel
    shrink: float = 0.25

    def iterates(self, x: Array) -> Iterator[Iterate]:
        model, unit, space = self.model, max(precision(x), self.f.unit), Space.of(x)
        primal = Primal(x, self.f.at(x).value, self.g.value(x))
        z = model.start(x)
        t = model.first_stage(z, primal.smooth, primal.simple)
        k, inner, step, point = 0, 0, 0.0, model.evaluate(z, t)
        highest, lowest, idle = -math.inf, math.inf, 0
        del x
        while True:
            gap = primal.smooth + t * primal.simple - point.dual
            # the dual function of F itself is that at t = 1 alone
            proof = point if t == 1.0 else model.evaluate(z, 1.0)
            noise = rounding_noise(unit, primal.smooth, primal.simple, proof.magnitude)
            lower = tangent_bound(proof.dual, 0.0, noise)
            del proof
            k += 1
            value = primal.smooth + primal.simple
            idle = 0 if t > 1.0 or lower > highest + 0.1 * noise or value < lowest - 0.1 * noise else idle + 1
            highest, lowest = max(highest, lower), min(lowest, value)
            yield Iterate(space.hold(primal.x), value, lower, None, step, k, inner, noise)
            if idle == IDLE:
                return
            del primal  # as large as the plan, like a point: not to be held where another is made
            if t > 1.0 and gap <= model.stage_tolerance(t):
                t, step = max(1.0, self.shrink * t), 0.0
            else:
                ascent = model.ascent(point, gap)
                inner += ascent.inner_iterations
                dual, point = point.dual, None
                step, z, point = self._climb(z, dual, t, ascent, noise)
                if step == 0.0 and t == 1.0:
                    return
                if step == 0.0:
                    t = 1.0
            if step == 0.0:
                point = None
                point = model.evaluate(z, t)
            primal = model.primal(point)

    def _climb(self, z: Any, dual: float, t: float, ascent: Ascent, noise: float) -> tuple[float, Any, Any]:
        """Halve the step until the dual rises as the slope promises."""
        model, step = self.model, 1.0
        while step > 1e-10:
            trial = model.moved(z, ascent.direction, step)
            there = model.evaluate(trial, t)
            if there.dual >= dual + 1e-4 * step * ascent.slope - noise:
                return step, trial, there
            del there
            step *= 0.5
        return 0.0, z, None
