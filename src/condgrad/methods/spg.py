"""SPG, the spectral projected gradient of Birgin, Martinez and Raydan (SIAM J. Optim. 10:1196,
2000).

    d = P(x - alpha grad F(x)) - x,   x <- x + a d,   alpha = <s, s>/<s, y>

with s and y the last changes of x and of grad F, and a step a found by backtracking from 1.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from condgrad import _checks, deadline
from condgrad.arrays import Array, dot, largest_size, namespace, precision
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.problem import Simple, Smooth
from condgrad.rounding import ROUNDING_UNITS
from condgrad.search.backtracking import backtrack
from condgrad.search.steps import Armijo
from condgrad.simple import ElasticNetPenalty, Entropy


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
    name: ClassVar[str] = "spg"

    def __post_init__(self) -> None:
        if not isinstance(self.g, ElasticNetPenalty):
            require_projected_gradients(self.g, by="method='spg'")
        _checks.whole("window", self.window, at_least=1)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        tally = Tally()
        certifier = Certifier(self.f, self.g, tally)
        start = ObjectivePoint(self.f, self.g, x, tally)
        yield certifier.iterate(start, 0.0)
        scale = self.g.on.scale
        if scale == math.inf:  # the oracle knows how large solutions may be
            scale = 0.0 if start.answer is None else largest_size(start.answer.point)
        length = first_length(start, scale)
        moves = spectral_moves(
            start, self.g.prox, length, window=self.window, armijo=self.armijo, kinked=self.g.kinked
        )
        for move in islice(moves, 1, None):  # the first is the start itself
            yield certifier.iterate(move.point, move.step)


def require_projected_gradients(g: Simple, *, by: str) -> None:
    """Refuse a g without a finite gradient, or on a set without a projection."""
    if not g.has_gradient:
        where = " where an entry is 0" if isinstance(g, Entropy) else ""
        raise MissingAbility(
            f"{by} needs a g with a finite gradient, and {g!r} has none{where}: use method='cgs'"
        )
    g.on.require("project", by=by)


class DifferentiablePoint(Protocol):
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


AnyPoint = TypeVar("AnyPoint", bound=DifferentiablePoint)


class SpectralMove(NamedTuple, Generic[AnyPoint]):
    """A point of the path and how the path came there."""

    point: AnyPoint
    step: float
    promise: float
    """The fall that the direction promised, -<grad, d>, which goes to 0 with |d|^2 / alpha."""


def spectral_moves(
    here: AnyPoint,
    prox: Callable[[Array, float], Array],
    length: float,
    *,
    window: int,
    armijo: Armijo,
    kinked: Callable[[Array], float] = lambda _: 0.0,
) -> Iterator[SpectralMove[AnyPoint]]:
    """The path of spectral projected gradients from a `DifferentiablePoint`, `length` being the
    first alpha.

    Where the function has a part without a gradient, `kinked`, prox takes it into account (the
    spectral proximal gradient of Wright, Nowak and Figueiredo, IEEE Trans. Signal Process. 57:2479,
    2009); else it is a projection.
    """
    step = 0.0
    promise = math.inf
    recent: deque[float] = deque(maxlen=window)
    while True:
        yield SpectralMove(here, step, promise)
        if length == 0.0:  # the gradient leaves the floats, or what it is multiplied by does
            return
        recent.append(here.value)
        target = prox(here.x - length * here.gradient, length)
        if deadline.passed():
            return
        end = here.at(target)
        d = end.x - here.x
        # a projection promises |d|^2 / alpha or more, which rounding may hide in the slope
        rise = dot(here.gradient, d) + kinked(end.x) - kinked(here.x)
        promise = max(-rise, dot(d, d) / length)
        step, there = armijo_step(here, end, promise, max(recent), armijo=armijo)
        if step == 0.0:
            return
        if deadline.passed():
            yield SpectralMove(there, step, promise)
            return
        length = spectral_length(here, there, length)
        here = there


def armijo_step(
    here: AnyPoint, end: AnyPoint, promise: float, ceiling: float, *, armijo: Armijo
) -> tuple[float, AnyPoint]:
    """The first of 1, shrink, shrink^2, ... with F(x + a d) <= ceiling - fraction a promise; 0
    where there is none.
    """
    if not promise > 0.0:
        return 0.0, here
    ceiling += ROUNDING_UNITS * here.rounding  # less than that is no evidence against a step

    def attempt(step: float) -> AnyPoint | None:
        there = end if step == 1.0 else here.moved(end, step)
        return there if there.value <= ceiling - armijo.fraction * step * promise else None

    return backtrack(attempt, shrink=armijo.shrink) or (0.0, here)


def first_length(here: DifferentiablePoint, scale: float) -> float:
    """An alpha that takes the steepest coordinate once across the set; the search cuts what is too
    far.
    """
    xp = namespace(here.x)
    steepest = float(xp.max(xp.abs(here.gradient)))
    length = (scale or 1.0) / (steepest or 1.0)
    return length if math.isfinite(length) else 1.0


def spectral_length(
    before: DifferentiablePoint, after: DifferentiablePoint, length: float
) -> float:
    """alpha = <s, s>/<s, y> of Barzilai and Borwein.

    A curvature below the rounding of the gradients is none to be seen: then alpha is as long as
    that rounding allows, and never shorter than the one before.
    """
    s = after.x - before.x
    y = after.gradient - before.gradient
    squared = dot(s, s)
    curvature = dot(s, y)
    rounding = precision(s) * (squared * dot(before.gradient, before.gradient)) ** 0.5
    alpha = length
    if curvature > rounding:
        alpha = squared / curvature
    elif rounding > 0.0:
        alpha = max(length, squared / rounding)
    return alpha if math.isfinite(alpha) else length
