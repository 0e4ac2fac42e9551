"""The proof in every answer: F* lies between `lower_bound` and `value`.

F = f + g is the objective and F* its minimum over the set. Three questions are settled here.

*When is a gap small?* The gap is compared with the scale of F. The scale is the larger of two
numbers: |f| + |g| at the answer, and a hundredth of |f| + |g| at the null point. The null point is
the point of the set nearest to the origin, or the set's own start point if it has no projection. If
f and g are both 0 there, the start of the run takes its place. This has three consequences:

- If f and g are multiplied by a constant, no decision changes.
- If f and g nearly cancel in F, as a cost and an entropy do, the scale does not vanish.
- If F* is 0, as in interpolation, the gap is compared with the loss of the null model. Lasso
  solvers do the same with |y|^2/2. Here only a hundredth counts. Otherwise a very bad null model
  (a stiff regulariser, data far from 0) would make every point look good.

*What is proved if f is not convex?* A tangent of such an f is no lower bound. So another number is
proved, which says how nearly stationary x is:

    stationarity = <c, x> + g(x) - min_s [<c, s> + g(s)],  c = grad f(x).

This number is never negative, and it is 0 only at stationary points. It is computed as F(x) minus
the `tangent_bound` at x. So an inexact oracle and rounding make it larger, never smaller. The
reported number belongs to the answer itself, and not to another iterate.

*How much may rounding have changed a bound?* By a few rounding units of the terms of the bound,
taken before they cancel. This amount is subtracted from the bound, so that the inequality holds in
floating-point arithmetic. Let m be the smallest normal number. Numbers below m are rounded to
multiples of the last digit of m. So a term below m counts as m. `rounding.py` has the thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from condgrad.arrays import (
    Array,
    dot,
    double,
    is_formed,
    largest_size,
    namespace,
    precision,
    smallest,
)
from condgrad.errors import ContradictionError, NotFiniteError
from condgrad.rounding import CONTRADICTION, ROUNDING_UNITS

NOT_AS_IT_SAYS = "the gradient of f is wrong, or f is not convex: then say convex=False"
"""What it means if f has a value below one of its tangents."""
NULL_SHARE = 0.01
"""The scale of F is never below this share of |f| + |g| at the null point."""


def tangent_bound(offset: float, oracle_bound: float, noise: float) -> float:
    """Lemma 2 of the paper: F* >= f(x) - <c, x> + min_s [<c, s> + g(s)], c = grad f(x).

    The inequality stays true if a lower bound replaces the minimum, so oracles may be inexact. What
    rounding may have added (`noise`) is subtracted.
    """
    return offset + oracle_bound - noise


def check_tangent(there: Any, height: float, noise: float, unit: float) -> None:
    """Raise an error if f is below one of its tangents by more than rounding explains.

    Such an f is not convex. `there` is the evaluation of f, and `noise` is the rounding error of
    the tangent. The rounding error of f is computed only if it decides.
    """
    value = there.value
    short = height - value
    if short > CONTRADICTION * noise:
        noise += rounding_noise(unit, value, there.magnitude(there))
    if short > CONTRADICTION * noise:
        raise ContradictionError(
            f"f has the value {value:.12g} where one of its tangents has {height:.12g}, {short:.3g} more: "
            f"{NOT_AS_IT_SAYS}"
        )


def rounding_noise(unit: float, *terms: float) -> float:
    """A few rounding units of the terms of a bound, taken before they cancel."""
    # one by one: the sum of terms near the largest float is none, while their rounding is
    return sum(ROUNDING_UNITS * unit * abs(term) for term in terms)


def subnormal_size(x: Any) -> float:
    """The size of terms for the rounding of numbers below the smallest normal number.

    Such a number is off by up to a rounding unit of the smallest normal number. So is each product
    with an entry of x. The other factor, a cost or a price, may also be off by as much before it is
    multiplied.
    """
    largest = x.largest_entry if hasattr(x, "largest_entry") else largest_size(x)
    return smallest(x) * math.prod(x.shape) * (1.0 + largest)


class TangentPlane(NamedTuple):
    """The oracle's answer if f is linearised at a point x, and the bound that it proves."""

    answer: Any
    there: Any
    """f at the oracle's point."""
    g_there: float
    bound: float
    """The `tangent_bound` at x."""
    noise: float
    """The rounding error of this bound and of F(x); it is subtracted from the bound already."""

    @property
    def point(self) -> Array:
        """s, the oracle's point."""
        return self.answer.point


def linearised(
    f: Any,
    g: Any,
    here: Any,
    c: Array,
    *,
    x: Any,
    g_size: float,
    value: float,
    warm: Any = None,
    accuracy: float = 0.0,
) -> TangentPlane:
    """Ask the oracle at x, where f is `here` with the gradient c, and compute the bound of Lemma 2.

    `value` is F(x), or a smaller value of F. `g_size` is `g.magnitude` at x. `x` is None for a
    mixture of plans that is never formed: then the sizes of the oracle's point are used.
    """
    answer = g.beside(f, here, value).argmin(c, warm=warm, accuracy=accuracy)
    s = answer.point
    there = f.at(s)
    spoiled = there if answer.witness is None else f.at(answer.witness)
    g_there = g.value(s) if answer.value is None else answer.value
    at = s if x is None else x
    noise = rounding_noise(
        max(f.unit_at(at), precision(s)),
        here.value,
        here.magnitude(here),
        here.magnitude(spoiled),
        g_size,
        g.magnitude(s, g_there),
        answer.bound,
        answer.magnitude,
        subnormal_size(at),
    )
    bound = tangent_bound(here.offset, answer.bound, noise)
    return TangentPlane(answer, there, g_there, bound, noise)


def gains_in_double(f: Any, g: Any, x: Array) -> bool:
    """Whether F and its bound have more digits if x is converted to float64.

    This is only possible if x is in float32, and f then computes in float64.
    """
    if not is_formed(x) or f.has_rounded_data or not (f.widens and g.widens):
        return False
    return bool(f.unit_at(double(x)) < f.unit_at(x))


def proved_in_double(proof: Certificate, f: Any, g: Any, x: Array) -> Certificate:
    """The proof with the value of F and the bound of Lemma 2 at x computed in float64.

    It needs `gains_in_double`. From a bound in float32, the possible rounding error of the gradient
    is subtracted. For f(x) = h(Kx) this is a float32 unit of |K_j| |grad h(Kx)|, for a column K_j,
    times the size of the set. It may be large even if x is small. In float64 it is far smaller. But
    x was rounded to float32. This may have moved it out of the set, where F may be below its
    minimum. F is lower there by at most the rounding error of x times the slopes of f and g. This
    is subtracted too.
    """
    point = double(x)
    here = f.at(point)
    terms = Terms.at(point, here, g)
    if proof.x is not x:
        best = double(proof.x)
        proof = replace(proof, terms=Terms.at(best, f.at(best), g))
    if proof.x is x or terms.value < proof.value:
        proof = replace(proof, x=x, terms=terms)
    c = here.gradient
    g_size = g.magnitude(point, terms.g)
    plane = linearised(f, g, here, c, x=point, g_size=g_size, value=proof.value)
    size = namespace(x).abs
    slopes = rounding_noise(precision(x), dot(size(c), size(point)), g_size)
    noise = plane.noise + slopes
    bound = plane.bound - slopes
    if proof.stationarity is not None:
        return proof.with_stationary_point(x, terms, bound, noise, "an iterate in float64")
    if bound > proof.lower_bound:
        # a value at another point has its own rounding
        proof = replace(
            proof, lower_bound=bound, bound_noise=noise, bound_from="an iterate in float64"
        )
        proof = replace(proof, noise=noise if proof.x is x else max(noise, proof.noise))
    return proof.consistent("in float64 ")


class Terms(NamedTuple):
    """f(x) and g(x), whose sum is F(x)."""

    f: float
    g: float
    repair: float = 0.0
    """How much larger F may be at an exact point of the set, if x is in it only up to rounding; see
    `StreamedPlan`.
    """
    afresh: bool = False
    """Whether both were computed at x itself, and not from their values at other points."""

    @classmethod
    def at(cls, x: Array, f_here: Any, g: Any, g_value: float | None = None) -> Terms:
        """f and g at x, from the evaluation of f there and the value of g, if it is known."""
        g_value = g.value(x) if g_value is None else g_value
        return cls(
            f_here.value, g_value, x.repair(f_here, g, g_value) if hasattr(x, "repair") else 0.0
        )

    @property
    def value(self) -> float:
        """F(x) plus `repair`."""
        return self.f + self.g + self.repair

    @property
    def size(self) -> float:
        """|f(x)| + |g(x)|: the size of F before its terms cancel."""
        return abs(self.f) + abs(self.g)


class Candidate(NamedTuple):
    """A feasible point with f and g there."""

    point: Array
    terms: Terms
    noise: float = 0.0
    """The rounding error of these terms. They may be far larger than those at the iterate."""


class Effort(NamedTuple):
    """What a run has spent so far, counted in the same way for all methods."""

    evaluations: int
    """At how many points f was computed afresh, not from its values at other points."""
    oracle_calls: int
    """How many partially linearised problems were solved. Newton's method counts each evaluation of
    its dual function.
    """
    inner_iterations: int
    """Steps inside oracles, and inside the equations or models of the method itself."""

    def after(self, before: Effort) -> Effort:
        """This effort and what was spent before it."""
        if before is NO_EFFORT:
            return self
        return Effort(*(old + new for old, new in zip(before, self, strict=True)))


NO_EFFORT = Effort(0, 0, 0)


class Iterate(NamedTuple):
    """What a method reports about an iteration."""

    x: Array
    terms: Terms
    """f and g at x."""
    lower_bound: float
    """The `tangent_bound` at x. If f is convex, it is a lower bound on F*.

    It is -inf if no time was left for the oracle.
    """
    gradient: Array
    """grad f(x), or None from a method that has none."""
    step: float
    """How far the last step went to reach x."""
    effort: Effort
    noise: float
    """The rounding error of the bound; it is subtracted there already."""
    candidate: Candidate | None = None
    """The oracle's point, if its value comes for free. The gap there is a Bregman divergence of f.
    """

    @property
    def value(self) -> float:
        """F(x)."""
        return self.terms.value


@dataclass(frozen=True, slots=True)
class Certificate:
    """The best point and the best lower bound seen so far, and where each was found.

    Attributes
    ----------
    x : array
        The best point.
    terms : pair of floats
        f(x) and g(x), as `terms.f` and `terms.g`.
    lower_bound : float
        The best lower bound on F*.
    null_size : float
        |f| + |g| at the null point, the point of the set nearest to the origin.
    noise : float
        The largest error that rounding may have caused in the value and the bound.
    value_from, bound_from : str
        In words: the iteration and the kind of point that the value and the bound come from.
    stationarity : float or None
        If f is not convex, the certified stationarity gap of x; see `Result.stationarity`. None if
        f is convex.
    bound_noise : float
        The largest error that rounding may have caused in the bound alone.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> proof = cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))).certificate
    >>> proof.gap == proof.value - proof.lower_bound, proof.relative_gap <= 1e-6
    (True, True)
    """

    x: Array = None
    terms: Terms = Terms(math.inf, 0.0)
    lower_bound: float = -math.inf
    null_size: float = 0.0
    noise: float = 0.0
    value_from: str = "nothing yet"
    bound_from: str = "nothing yet"
    stationarity: float | None = None
    bound_noise: float = 0.0

    @property
    def value(self) -> float:
        """F(x)."""
        return self.terms.value

    @property
    def upper_bound(self) -> float:
        """An upper bound on F*: the value plus its possible rounding error.

        The lower bound already allows for this rounding error, so `gap` does not add it again.
        """
        return self.value + self.noise

    @property
    def gap(self) -> float:
        """The value minus the lower bound. It is always at least F(x) - F*."""
        return self.value - self.lower_bound

    @property
    def scale(self) -> float:
        """The number that the gap is divided by: |f| + |g| at x, or a hundredth of |f| + |g| at the
        null point, whichever is larger.
        """
        return max(self.terms.size, NULL_SHARE * self.null_size)

    @property
    def relative_gap(self) -> float:
        """gap / scale.

        If the scale is 0, the result is 0 if rounding explains the gap, and infinity otherwise.
        """
        return self._over_scale(self.gap)

    @property
    def relative_stationarity(self) -> float:
        """stationarity / scale, computed like `relative_gap`.

        It is infinite if f is convex, because then the gap is the proof.
        """
        return math.inf if self.stationarity is None else self._over_scale(self.stationarity)

    @property
    def progress(self) -> float:
        """A number that rises when a run makes progress: the lower bound, or minus the stationarity
        gap if f is not convex.
        """
        return self.lower_bound if self.stationarity is None else -self.stationarity

    def _over_scale(self, gap: float) -> float:
        scale = self.scale
        if scale == 0.0:
            return 0.0 if gap <= self.bound_noise + self.terms.repair else math.inf
        return gap / scale

    def updated(self, iterate: Iterate, k: int) -> Certificate:
        """The certificate after iteration k."""
        candidate = iterate.candidate
        value = iterate.value
        if not math.isfinite(value):
            raise NotFiniteError(f"F became {value}")
        if math.isnan(iterate.lower_bound) or iterate.lower_bound == math.inf:
            raise NotFiniteError(f"the lower bound became {iterate.lower_bound}")
        if candidate is not None and not math.isfinite(candidate.terms.value):
            raise NotFiniteError(f"F became {candidate.terms.value} at the oracle's point")
        if self.stationarity is not None:
            return self.with_stationary_point(
                iterate.x, iterate.terms, iterate.lower_bound, iterate.noise, f"iterate {k}"
            )
        x = self.x
        terms = self.terms
        value_from = self.value_from
        if value < terms.value:
            x = iterate.x
            terms = iterate.terms
            value_from = f"iterate {k}"
        # the bound and the value may come from different iterations: each brings its own rounding
        noise = max(self.noise, iterate.noise)
        if candidate is not None and candidate.terms.value < terms.value:
            x = candidate.point
            terms = candidate.terms
            value_from = f"oracle point {k}"
            noise = max(noise, candidate.noise)
        lower = self.lower_bound
        bound_from = self.bound_from
        bound_noise = self.bound_noise
        if iterate.lower_bound > lower:
            lower = iterate.lower_bound
            bound_from = f"iterate {k}"
            bound_noise = iterate.noise
        best = Certificate(
            x, terms, lower, self.null_size, noise, value_from, bound_from, bound_noise=bound_noise
        )
        return best.consistent(f"at iteration {k} ")

    def with_stationary_point(
        self, x: Array, terms: Terms, bound: float, noise: float, name: str
    ) -> Certificate:
        """The certificate of x with its own stationarity gap, if x is better; otherwise this
        certificate.

        A point is better if its value is lower by more than rounding, or if its value is the same
        and its gap is smaller. If there was no time to compute the gap of x, x is only taken if
        there is no other point.
        """
        if bound == -math.inf and self.value < math.inf:
            return self
        stationarity = terms.value - bound
        lower = terms.value < self.value - noise
        if not lower and (terms.value > self.value + noise or stationarity > self.stationarity):  # type: ignore[operator]
            return self
        moved = replace(self, x=x, terms=terms, value_from=name)
        return replace(moved, stationarity=stationarity, noise=noise, bound_noise=noise)

    def against(self, null_size: float) -> Certificate:
        """The same proof with another `null_size`."""
        return replace(self, null_size=null_size)

    def without_rounding(self, iterate: Iterate) -> Certificate:
        """This certificate with the largest bound that the iterate could have in float64.

        The rounding error that was subtracted is added twice: once to undo this, and once more
        because the bound itself may be too small by as much. If the result meets the stopping rule,
        only rounding stopped the iterate from meeting it.
        """
        bound = min(self.value, iterate.lower_bound + 2.0 * iterate.noise)
        if self.stationarity is not None:
            return replace(self, stationarity=self.value - bound)
        return replace(self, lower_bound=bound)

    def revalued(self, terms: Terms) -> Certificate:
        """The same proof with f and g at x computed afresh."""
        return replace(self, terms=terms).consistent("at the answer ")

    def consistent(self, where: str) -> Certificate:
        """This certificate; its bound is lowered if it exceeds the value because of rounding.

        A bound above a value is wrong by at least the difference. So the bound is moved below the
        value by the same amount. A gap of 0 is never claimed if rounding errors are known to be
        larger. If rounding cannot explain the excess, there is an error.
        """
        excess = self.lower_bound - self.value
        if not excess > 0.0:
            return self
        if excess > CONTRADICTION * self.noise:
            times = (
                ""
                if self.noise == 0.0
                else f", {excess / self.noise:.0e} times what rounding explains"
            )
            error = ContradictionError(
                f"{where}the lower bound {self.lower_bound:.12g} exceeds a value of F, {self.value:.12g}, by "
                f"{excess:.3g}{times}: the oracle's bound is wrong, or {NOT_AS_IT_SAYS}"
            )
            error.x = self.x
            error.value = self.value
            raise error
        return replace(
            self, lower_bound=self.value - excess - self.noise, bound_noise=excess + self.noise
        )
