"""SPG, the spectral projected gradient of Birgin, Martinez and Raydan (SIAM J. Optim. 10:1196, 2000).

    d = P(x - alpha grad F(x)) - x,   x <- x + a d,   alpha = <s, s>/<s, y>

with s and y the last changes of x and of grad F, and a step a found by backtracking from 1.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from condgrad import _checks
from condgrad._arrays import Array, dot, mixed, namespace, precision
from condgrad.certificate import ROUNDING_UNITS, Iterate, rounding_noise, tangent_bound
from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth
from condgrad.simple import Entropy
from condgrad.steps import Armijo

SHORTEST_STEP = 1e-30


@dataclass(frozen=True)
class SPG:
    """Spectral projected gradient for a g with a gradient on a set with a projection.

    Parameters
    ----------
    f, g : Smooth, Simple
        The two parts of F.
    window : int
        F must fall below the highest of its last `window` values; 1 is the monotone Armijo rule.
    armijo : Armijo
        Which fraction of the promised fall is enough, and how a step shrinks.
    """

    f: Smooth
    g: Simple
    _: KW_ONLY
    window: int = 10
    armijo: Armijo = field(default_factory=Armijo)

    def __post_init__(self) -> None:
        require_projected_gradients(self.g, by="method='spg'")
        _checks.whole("window", self.window, at_least=1)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        witness, start = Witness(self.f, self.g), Total(self.f, self.g, x)
        length = first_length(start, self.g.on.scale)
        for move in spectral_moves(start, self.g.on.project, length, window=self.window, armijo=self.armijo):
            yield witness.iterate(move.point, move.step)


def require_projected_gradients(g: Simple, *, by: str) -> None:
    """Refuse a g without a finite gradient, or on a set without a projection."""
    if type(g).gradient is Simple.gradient:
        raise MissingAbility(f"{by} needs a g with a gradient, and {g!r} has none: use method='cgs'")
    if isinstance(g, Entropy):
        raise MissingAbility(
            f"{by} needs a g with a finite gradient, and that of {g!r} is infinite where an entry is 0: "
            "use method='cgs'"
        )
    g.on.require("project", by=by)


class Point(Protocol):
    """A function at x, and at other points from there."""

    @property
    def x(self) -> Array: ...

    @property
    def value(self) -> float: ...

    @property
    def gradient(self) -> Array: ...

    @property
    def rounding(self) -> float:
        """What one rounding unit, in x or in its own terms, does to the value."""

    def at(self, x: Array) -> Self:
        """The same function elsewhere."""

    def moved(self, end: Self, a: float) -> Self:
        """The same function at x + a (end.x - x), for less than `at` costs where it can."""


AnyPoint = TypeVar("AnyPoint", bound=Point)


class Total:
    """F = f + g at x, each part computed when first asked for."""

    def __init__(self, f: Smooth, g: Simple, x: Array, smooth: Any = None) -> None:
        self.f, self.g, self.x = f, g, x
        self.smooth = f.at(x) if smooth is None else smooth

    @cached_property
    def value(self) -> float:
        return self.smooth.value + self.g.value(self.x)

    @cached_property
    def smooth_gradient(self) -> Array:
        """grad f(x)."""
        return self.smooth.gradient

    @cached_property
    def gradient(self) -> Array:
        return self.smooth_gradient + self.g.gradient(self.x)

    @cached_property
    def slope_rounding(self) -> float:
        """What one rounding unit in x does to the value."""
        size = namespace(self.x).abs
        return precision(self.x) * dot(size(self.gradient), size(self.x))

    @property
    def rounding(self) -> float:
        return precision(self.x) * abs(self.value) + self.slope_rounding

    def at(self, x: Array) -> Total:
        return Total(self.f, self.g, x)

    def moved(self, end: Total, a: float) -> Total:
        fractions = np.array([a])
        x = mixed(self.x, [end.x], fractions)
        return Total(self.f, self.g, x, self.smooth.moved(x, [end.smooth], fractions))


class Witness:
    """Lemma 2 at one point after the other."""

    def __init__(self, f: Smooth, g: Simple) -> None:
        self.f, self.g = f, g
        self.calls, self.inner, self.accuracy, self.warm = 0, 0, 0.0, None

    def iterate(self, point: Total, step: float, *, inner_iterations: int = 0) -> Iterate:
        """The point with its lower bound; `inner_iterations` are those of the method itself."""
        f, g, here, c = self.f, self.g, point.smooth, point.smooth_gradient
        answer = g.argmin(c, warm=self.warm, accuracy=self.accuracy)
        self.warm, self.calls, self.inner = answer.warm, self.calls + 1, self.inner + answer.inner_iterations
        # Where the bound is so tight that rounding matters, a strongly convex g has its argmin at x: f's terms there
        # are as large as here, and no product is spent on them.
        there = here if g.strong_convexity > 0.0 else f.at(answer.point)
        unit = max(precision(point.x), f.unit)
        sizes = (here.value, here.magnitude(here), here.magnitude(there), point.value - here.value, answer.bound)
        noise = rounding_noise(unit, *sizes)
        bound = tangent_bound(here.offset, answer.bound, noise)
        self.accuracy = 0.1 * (point.value - bound)
        return Iterate(point.x, point.value, bound, c, step, self.calls, self.inner + inner_iterations, noise)


class SpectralMove(NamedTuple, Generic[AnyPoint]):
    """A point of the path and how the path came there."""

    point: AnyPoint
    step: float
    promise: float
    """The fall that the direction promised, -<grad, d>, which goes to 0 with |d|^2 / alpha."""


def spectral_moves(
    here: AnyPoint, project: Callable[[Array], Array], length: float, *, window: int, armijo: Armijo
) -> Iterator[SpectralMove[AnyPoint]]:
    """The path of spectral projected gradients from a `Point`, `length` being the first alpha."""
    step, promise = 0.0, math.inf
    recent: deque[float] = deque(maxlen=window)
    while True:
        yield SpectralMove(here, step, promise)
        recent.append(here.value)
        end = here.at(project(here.x - length * here.gradient))
        d = end.x - here.x
        # a projection promises |d|^2 / alpha or more, which rounding may hide in the slope
        promise = max(-dot(here.gradient, d), dot(d, d) / length)
        step, there = backtrack(here, end, promise, max(recent), armijo=armijo)
        if step == 0.0:
            return
        length = spectral_length(here, there, length)
        here = there


def backtrack(
    here: AnyPoint, end: AnyPoint, promise: float, ceiling: float, *, armijo: Armijo
) -> tuple[float, AnyPoint]:
    """The first of 1, shrink, shrink^2, ... with F(x + a d) <= ceiling - fraction a promise; 0 where there is none."""
    if not promise > 0.0:
        return 0.0, here
    step, there = 1.0, end
    ceiling += ROUNDING_UNITS * here.rounding  # less than that is no evidence against a step
    while not there.value <= ceiling - armijo.fraction * step * promise:
        step *= armijo.shrink
        if step < SHORTEST_STEP:
            return 0.0, here
        there = here.moved(end, step)
    return step, there


def first_length(here: Point, scale: float) -> float:
    """An alpha that takes the steepest coordinate once across the set; the search cuts what is too far."""
    xp = namespace(here.x)
    steepest = float(xp.max(xp.abs(here.gradient)))
    return (scale or 1.0) / (steepest or 1.0)


def spectral_length(before: Point, after: Point, length: float) -> float:
    """alpha = <s, s>/<s, y> of Barzilai and Borwein.

    A curvature below the rounding of the gradients is none to be seen: then alpha is as long as that rounding
    allows, and never shorter than the one before.
    """
    s, y = after.x - before.x, after.gradient - before.gradient
    squared, bend = dot(s, s), dot(s, y)
    rounding = precision(s) * (squared * dot(before.gradient, before.gradient)) ** 0.5
    if bend > rounding:
        return squared / bend
    return max(length, squared / rounding) if rounding > 0.0 else length
