"""Newton on the certificate: maximise the lower bound itself, by Newton's method along a path.

For f = h(Kx) and any z, `D(z) = h(z) - <grad h(z), z> + min_s [<K' grad h(z), s> + g(s)]` is a lower bound on F*,
concave, with maximum F*. CGS is gradient ascent on it; where f is stiff against g that crawls, and Newton's method does
not. A far start needs a path: t*g in place of g, t falling to 1, each stage solved loosely and handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from condgrad._arrays import Array, like, precision
from condgrad.certificate import Iterate, rounding_noise, tangent_bound
from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth


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
    def size(self) -> int:
        """Rows of the matrix that a direction factors."""

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


def dual_model(f: Smooth, g: Simple) -> DualModel:
    """The first model that fits, or a sentence that says what would."""
    for recognise in MODELS:
        model = recognise(f, g)
        if model is not None:
            return model
    raise MissingAbility(
        f"method='newton' has no dual model for f = {f!r} and g = {g!r}; it knows linear costs with TransportLaplacian "
        "under Entropy on Transport; method='cgs' works for every pair"
    )


@dataclass(frozen=True)
class Newton:
    """Path-following Newton ascent on the certificate."""

    f: Smooth
    g: Simple
    model: DualModel
    shrink: float = 0.25

    def iterates(self, x: Array) -> Iterator[Iterate]:
        model, unit = self.model, max(precision(x), self.f.unit)
        smooth, simple = self.f.at(x).value, self.g.value(x)
        z = model.start(x)
        t = model.first_stage(z, smooth, simple)
        k, inner, step = 0, 0, 0.0
        point = model.evaluate(z, t)
        primal = Primal(x, smooth, simple)
        while True:
            value = primal.smooth + primal.simple
            gap = primal.smooth + t * primal.simple - point.dual
            dual, magnitude = self._proof(z, point, t)
            noise = rounding_noise(unit, primal.smooth, primal.simple, magnitude)
            lower = tangent_bound(dual, 0.0, noise)
            k += 1
            yield Iterate(like(primal.x, x), value, lower, None, step, k, inner, noise)
            if t > 1.0 and gap <= model.stage_tolerance(t):
                t = max(1.0, self.shrink * t)
                step, point = 0.0, model.evaluate(z, t)
                primal = model.primal(point)
                continue
            ascent = model.ascent(point, gap)
            inner += ascent.inner_iterations
            step, z, point = self._climb(model, z, point, t, ascent, noise)
            if step == 0.0:
                if t == 1.0:
                    return
                t, point = 1.0, model.evaluate(z, 1.0)
            primal = model.primal(point)

    def _proof(self, z: Any, point: Any, t: float) -> tuple[float, float]:
        """The dual function of F itself, which is that at t = 1 alone, and the size of its terms."""
        if t > 1.0:
            point = self.model.evaluate(z, 1.0)
        return point.dual, point.magnitude

    def _climb(
        self, model: DualModel, z: Any, point: Any, t: float, ascent: Ascent, noise: float
    ) -> tuple[float, Any, Any]:
        """Halve the step until the dual rises as the slope promises."""
        step = 1.0
        while step > 1e-10:
            trial = model.moved(z, ascent.direction, step)
            there = model.evaluate(trial, t)
            if there.dual >= point.dual + 1e-4 * step * ascent.slope - noise:
                return step, trial, there
            step *= 0.5
        return 0.0, z, point
