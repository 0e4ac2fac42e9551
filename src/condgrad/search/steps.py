"""How far to go: the step rules of Algorithm 1, also with a memory of earlier oracle points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from condgrad import _checks, deadline
from condgrad.arrays import Array, Vector, gram, precision
from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth
from condgrad.rounding import ROUNDING_UNITS
from condgrad.search.backtracking import ARMIJO_FRACTION, backtrack
from condgrad.search.hull import minimize_over_hull
from condgrad.search.restriction import LocalModel, Quadratic, Restriction, calls_made, combined

SMOOTHNESS = "smoothness"
"""The key in `notes` under which `Adaptive` stores its last L."""


@dataclass
class SearchState:
    """What a step rule sees: the point x, the oracle's point s and the remembered points.

    The oracle's point s minimises <grad f(x), s> + g(s) over the set. The remembered points are
    those of earlier iterations; there are `memory` of them at most.

    Attributes
    ----------
    f, g : Smooth, Simple
        The two parts of F.
    k : int
        The number of steps before this one.
    x : array
        Where the step starts.
    here : evaluation of f
        f at x.
    others : list of evaluations of f
        f at s, then at the remembered points.
    directions : array
        The differences between these points and x, stacked.
    value : float
        F(x).
    model_gap : float
        <grad f(x), x - s> + g(x) - g(s).
    notes : dict
        Numbers that a rule stores for its next step in the same run; empty at the first step.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> cg.minimize(f, g, step=lambda state: 1.0 / (1.0 + state.k), tol=1e-2).success
    True
    """

    f: Smooth
    g: Simple
    k: int
    x: Array
    here: Any
    others: list[Any]
    directions: Array
    value: float
    model_gap: float
    notes: dict[str, float] = field(default_factory=dict)

    @cached_property
    def smooth_restriction(self) -> Restriction:
        """f along the directions."""
        return self.here.along(self.others, self.directions)

    @cached_property
    def restriction(self) -> Restriction:
        """F along the directions."""
        return combined(
            (1.0, 1.0), (self.smooth_restriction, self.g.along(self.x, self.directions))
        )

    @property
    def evaluations(self) -> int:
        """How many times f was computed afresh along the directions."""
        return calls_made(self.smooth_restriction) if "smooth_restriction" in self.__dict__ else 0

    @property
    def rounding(self) -> float:
        """The rounding error of F. It is computed from |f| + |g|, since f and g may cancel in F."""
        size = abs(self.here.value) + abs(self.value - self.here.value)
        return ROUNDING_UNITS * precision(self.x) * size

    @property
    def squared_length(self) -> float:
        """|s - x|^2."""
        return float(gram(self.directions[:1])[0, 0])


class StepRule(Protocol):
    """A callable that chooses the step: it takes a `SearchState` and returns a fraction for each
    direction.

    Fractions are nonnegative and add up to at most 1, so that the step stays in the set. Without a
    memory there is one direction, and the rule may return a number. Whatever it returns, the
    certificate of the next iterate holds.

    Examples
    --------
    >>> import condgrad as cg
    >>> def halfway(state):
    ...     return 0.5
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), step=halfway)
    >>> r.success, set(r.trace["step"][1:].tolist())
    (True, {0.5})
    """

    def __call__(self, state: SearchState) -> Vector: ...


@dataclass(frozen=True)
class OpenLoop:
    """Step k has the length order / (k + order), whatever f does.

    `step="open-loop"` has the order 2: its steps are 2 / (k + 2). The gap falls at best like
    (1/k)^order. So a larger order may be faster, but its steps stay long for more iterations.
    `step="log-open-loop"` has the order 2 + log(k + 1), so that you need not choose an order.
    (Wirth, Pena and Pokutta, Accelerated affine-invariant convergence rates of the Frank-Wolfe
    algorithm with open-loop step-sizes, 2023)

    Parameters
    ----------
    order : float or "log"
        At least 2; "log" stands for 2 + log(k + 1).

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Zero(on=cg.sets.Simplex(2))
    >>> cg.minimize(f, g, step=cg.steps.OpenLoop(4), tol=1e-2).success
    True
    """

    order: float | str = 2.0

    def __post_init__(self) -> None:
        if self.order != "log":
            object.__setattr__(self, "order", _checks.number("order", self.order, at_least=2.0))

    def length(self, k: int) -> float:
        """How far step k goes; k counts from 0."""
        order = 2.0 + math.log(k + 1.0) if isinstance(self.order, str) else self.order
        return order / (k + order)

    def __call__(self, state: SearchState) -> Vector:
        return np.array([self.length(state.k)])


@dataclass(frozen=True)
class Short:
    """The minimiser of a quadratic model of F on the segment from x to the oracle's point s.

    The step is min(1, (gap + mu D/2) / ((L + mu) D)) with D = |s - x|^2. Here L is the smoothness
    constant of f, mu is the strong convexity constant of g, and gap is the `model_gap` of
    `SearchState`. If mu > 0, each step multiplies F(x) - F* by L/(L + mu) or less.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), step="short").success
    True
    """

    def __call__(self, state: SearchState) -> Vector:
        L = state.f.smoothness
        if L is None:
            raise MissingAbility(
                f"step='short' needs the smoothness constant of f, and {state.f!r} has none; "
                "step='adaptive' finds one during the run"
            )
        return np.array([_least_of_model(state, L)])


def _least_of_model(state: SearchState, L: float) -> float:
    """The minimiser on [0, 1] of the model -a gap + a^2 L D/2 - a (1 - a) mu D/2."""
    mu = state.g.strong_convexity
    D = state.squared_length
    curvature = (L + mu) * D
    gain = max(0.0, state.model_gap) + 0.5 * mu * D
    return 1.0 if curvature <= gain else gain / curvature


@dataclass(frozen=True)
class Adaptive:
    """The short step with an L that is estimated during the run: `step="adaptive"`.

    Each step first tries an L a little below the last one. It multiplies L by `growth` until F is
    no higher than the quadratic model with this L,

        F(x + a (s - x)) <= F(x) - a gap + a^2 L D/2 - a (1 - a) mu D/2,   D = |s - x|^2.

    `Short` explains these letters; a is the step. You need not know a constant of f, and steps are
    longer where f is flat (Pedregosa, Negiar, Askari and Jaggi, Linearly convergent Frank-Wolfe
    with backtracking line-search, AISTATS 2020).

    Parameters
    ----------
    growth : float
        L is multiplied by this number as long as it is too small; above 1.
    decay : float
        Each step begins with the last L times this number; above 0 and at most 1.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), step="adaptive").success
    True
    """

    growth: float = 2.0
    decay: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "growth", _checks.number("growth", self.growth, above=1.0))
        object.__setattr__(self, "decay", _checks.number("decay", self.decay, above=0.0))
        if self.decay > 1.0:
            raise ValueError(f"decay must be <= 1, got {self.decay!r}")

    def __call__(self, state: SearchState) -> Vector:
        D = state.squared_length
        if state.model_gap <= 0.0 or D == 0.0:
            return np.zeros(1)
        L = state.notes.get(SMOOTHNESS, 0.0) * self.decay or self._first(state, D)
        mu = state.g.strong_convexity

        def is_below_model(step: float) -> bool:
            change = -step * state.model_gap + 0.5 * step * D * (step * L - (1.0 - step) * mu)
            value = state.restriction.value(np.array([step]))
            return value <= state.value + change + state.rounding

        step = _least_of_model(state, L)
        while not is_below_model(step) and math.isfinite(L) and not deadline.passed():
            L *= self.growth
            step = _least_of_model(state, L)
        state.notes[SMOOTHNESS] = L
        return np.array([step])

    @staticmethod
    def _first(state: SearchState, D: float) -> float:
        """The smallest L with a model no lower than F at s; any L above 0 if F is linear."""
        rise = state.restriction.value(np.ones(1)) - state.value + state.model_gap
        if not rise > 0.0:
            rise = state.rounding or state.model_gap
        return 2.0 * rise / D


@dataclass(frozen=True)
class Armijo:
    """Armijo's rule: the first of the steps 1, shrink, shrink^2, ... that lowers F enough.

    A step is good enough if it lowers F by at least `fraction` * step * gap, where gap is the
    `model_gap` of `SearchState`. The gap takes the place of the slope, since
    -gap >= <grad F, s - x>. So g need not be differentiable. f need not be convex.

    Parameters
    ----------
    fraction : float
        Above 0 and below 1.
    shrink : float
        The factor for a step that does not lower F enough; above 0 and below 1.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    >>> cg.minimize(f, g, step=cg.steps.Armijo(fraction=0.1)).success
    True
    """

    fraction: float = ARMIJO_FRACTION
    shrink: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("fraction", self.fraction), ("shrink", self.shrink)):
            if _checks.number(name, value, above=0.0) >= 1.0:
                raise ValueError(f"{name} must be < 1, got {value!r}")

    def __call__(self, state: SearchState) -> Vector:
        if state.model_gap <= 0.0:
            return np.zeros(1)
        # A difference below the rounding error of F does not reject a step. So the search ends.
        target = state.value + state.rounding

        def falls_enough(step: float) -> bool | None:
            value = state.restriction.value(np.array([step]))
            return value <= target - self.fraction * step * state.model_gap or None

        found = backtrack(falls_enough, shrink=self.shrink)
        return np.array([0.0 if found is None else found[0]])


@dataclass(frozen=True)
class Exact:
    """The step that minimises F: `step="exact"`.

    F is minimised on the segment from x to the oracle's point. With a memory, it is minimised over
    the hull of x, this point and all remembered points. If f is not convex and F is not quadratic
    on the segment, the step lowers F by at least as much as Armijo's step. So F does not rise.

    Parameters
    ----------
    slope_tolerance : float
        The search ends when the slope of F is at most this share of the slope at the start. It is
        not used if the minimiser has a closed form.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(2)), step=cg.steps.Exact(), x0=[1.0, 0.0])
    >>> r.x.tolist(), r.trace["step"].tolist()  # a quadratic on a segment: one step is enough
    ([0.0, 1.0], [0.0, 1.0])
    """

    slope_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        _checks.number("slope_tolerance", self.slope_tolerance, at_least=0.0)

    def __call__(self, state: SearchState) -> Vector:
        restriction = state.restriction
        size = len(state.others)
        if not state.f.convex:
            return np.array([_without_convexity(state, self.slope_tolerance)])
        if size == 1 and isinstance(restriction, Quadratic):
            return np.array([_closed_form(restriction)])
        start = restriction.local(np.zeros(size))
        if size > 1:
            best = minimize_over_hull(
                restriction, start, size, tolerance=self.slope_tolerance, rounding=state.rounding
            )
            if best is not None:
                return best
        fractions = np.zeros(size)
        line = restriction if size == 1 else FirstDirection(restriction, size)
        if start.slope is None:
            fractions[0] = _by_values(line)
        else:
            fractions[0] = _by_slopes(line, start, self.slope_tolerance, state.rounding)
        return fractions


@dataclass(frozen=True)
class FirstDirection:
    """A restriction along its first direction alone."""

    whole: Restriction
    size: int

    def _embedded(self, a: Vector) -> Vector:
        return np.concatenate([a, np.zeros(self.size - 1)])

    def value(self, a: Vector) -> float:
        return self.whole.value(self._embedded(a))

    def local(self, a: Vector) -> LocalModel:
        return self.whole.local(self._embedded(a))


def _closed_form(line: Quadratic) -> float:
    slope = float(line.slope[0])
    curvature = float(line.curvature[0, 0])
    if slope >= 0.0:
        return 0.0
    return 1.0 if curvature <= -slope else -slope / curvature


def _without_convexity(state: SearchState, tolerance: float) -> float:
    """A step from 0 to 1 that lowers F, for an f that need not be convex.

    - If F is quadratic on the segment: the minimiser in closed form.
    - If f is quadratic and concave there: the step 1. As f is below its tangent, F falls by the
      model gap or more, and it still falls at the end.
    - Otherwise the searches for convex functions propose a step. They find no more than a local
      minimiser, so Armijo's step is taken if F is lower there.
    """
    if isinstance(state.restriction, Quadratic):
        return _closed_form(state.restriction)
    along = state.smooth_restriction
    if (
        state.model_gap > 0.0
        and isinstance(along, Quadratic)
        and float(along.curvature[0, 0]) <= 0.0
    ):
        return 1.0
    accepted = float(Armijo()(state)[0])
    if accepted == 0.0:
        return 0.0
    start = state.restriction.local(np.zeros(1))
    if start.slope is None:
        found = _by_values(state.restriction)
    else:
        found = _by_slopes(state.restriction, start, tolerance, state.rounding)
    return min((accepted, found), key=lambda step: state.restriction.value(np.array([step])))


def _by_values(line: Restriction) -> float:
    """The minimiser on [0, 1] of a convex function, by its values alone; 0 if the time is up."""
    from scipy.optimize import minimize_scalar

    def value(t: float) -> float:
        deadline.check()
        return line.value(np.array([t]))

    try:
        best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
        return min((0.0, float(best.x), 1.0), key=value)
    except deadline.OutOfTime:
        return 0.0


def _by_slopes(line: Restriction, start: LocalModel, tolerance: float, rounding: float) -> float:
    """The root on [0, 1] of an increasing slope. Newton's method if the curvature is known,
    otherwise the secant method, both inside a bracket.
    """
    first = slope = float(start.slope[0])  # type: ignore[index]
    if first >= 0.0:
        return 0.0
    t = 0.0
    here = start
    low = 0.0
    slope_low = first
    high = 1.0
    slope_high = np.inf
    ceiling = start.value + rounding
    wide = 1.0  # the bracket two trials ago
    for trial in range(100):
        if deadline.passed():
            break
        if trial % 2 == 0:
            # Bisect if two trials have not halved the bracket: Newton's method and the secant
            # method may both approach the root from one side, in small steps.
            creeping = trial > 2 and high - low > 0.5 * wide
            wide = high - low
        else:
            creeping = False
        t = (
            0.5 * (low + high)
            if creeping
            else _next_trial(t, slope, here, low, slope_low, high, slope_high)
        )
        here = line.local(np.array([t]))
        slope = float(here.slope[0])  # type: ignore[index]
        # A point where F is higher than at the start is too far. Its slope may be wrong, as the
        # loss may be huge there.
        if not (here.value <= ceiling or 0.0 < slope < math.inf):
            slope = math.inf
        # A slope that is small compared with the first is not enough: if the curvature is large
        # near 0 alone, such a point may still be higher than the start.
        if (abs(slope) <= -tolerance * first and here.value <= ceiling) or (
            t == 1.0 and slope <= 0.0
        ):
            return t
        if slope > 0.0:
            high = t
            slope_high = slope
        else:
            low = t
            slope_low = slope
        # By convexity, F falls from `low` by no more than slope times width in the bracket.
        if -slope_low * (high - low) <= -tolerance * first * low or high - low <= 1e-15 * high:
            break
    return low


def _next_trial(
    t: float,
    slope: float,
    here: LocalModel,
    low: float,
    slope_low: float,
    high: float,
    slope_high: float,
) -> float:
    """The proposal of Newton's or the secant method; the midpoint if that leaves the bracket."""
    curvature = 0.0 if here.curvature is None else float(here.curvature[0, 0])
    if curvature > 0.0:
        trial = t - slope / curvature
        if t == 0.0 and trial < 0.05:
            # an entropy has an infinite curvature at the boundary, so a tiny step means nothing
            trial = 0.5
    elif slope_high < np.inf:
        trial = (low * slope_high - high * slope_low) / (slope_high - slope_low)
        # keep away from both ends, as the secant method may approach the root from one side
        margin = 1e-2 * (high - low)
        trial = min(max(trial, low + margin), high - margin)
    else:
        trial = high
    if trial >= high and slope_high == np.inf:
        return high
    return trial if low < trial < high else 0.5 * (low + high)


STEP_RULES: dict[str, StepRule] = {
    "exact": Exact(),
    "armijo": Armijo(),
    "open-loop": OpenLoop(),
    "log-open-loop": OpenLoop("log"),
    "short": Short(),
    "adaptive": Adaptive(),
}


def step_rule(step: str | StepRule) -> StepRule:
    """A rule by name, or the rule itself."""
    if isinstance(step, str):
        if step not in STEP_RULES:
            raise ValueError(
                f"step must be one of {', '.join(map(repr, STEP_RULES))} or a step rule, got {step!r}"
            )
        return STEP_RULES[step]
    if not callable(step) or isinstance(step, type):
        raise TypeError(f"step must be a name or a step rule such as steps.Armijo(), got {step!r}")
    return step


def checked_fractions(fractions: Any, size: int, x: Array) -> Vector:
    """The fractions that a step rule returned; an error if they leave the hull.

    They are rounded down to multiples of half a rounding unit of x. So x's precision holds them, and
    what is left for x itself, exactly. If the weights of a convex combination only nearly added up
    to 1, a thousand steps of 1/200 would take an x in float32 out of its set by 1e-5.
    """
    try:
        a = np.atleast_1d(np.asarray(fractions, dtype=np.float64))
    except (TypeError, ValueError):
        a = np.zeros(0)
    if a.shape != (size,) or not (a >= 0.0).all() or not a.sum() <= 1.0 + 1e-12:
        wanted = "a number from 0 to 1" if size == 1 else f"{size} numbers >= 0 of sum <= 1"
        raise ValueError(f"a step rule must return {wanted}, got {fractions!r}")
    unit = 0.5 * precision(x)
    return np.where(a > unit, unit * np.floor(a / unit), a)
