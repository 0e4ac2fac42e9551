"""g(x) = l1 |x|_1 + ridge |x|^2 with no bound on x: the penalised form.

The certificate needs min <c, s> + g(s). With a ridge this is a number, computed by soft
thresholding. Without a ridge it is -inf if |c|_inf > l1. But f has a lower bound of its own, its
`floor`: f(x) >= height - slope |x|_1 (for a loss both numbers are 0). This gives two bounds on F*,
and the larger one is used.

- Every solution x* lies in a ball. By the floor, (l1 - slope) |x*|_1 <= F* - height. F* is not
  known, but it is at most F at any known point. So the minimum can be taken over this ball. If
  there is a ridge, the minimum includes it.
- The tangent plane and the floor are lower bounds on f, so their mixtures are lower bounds too:

      f(s) >= t (offset + <c, s>) + (1 - t) (height - slope |s|_1).

  Choose t such that t |c|_inf + (1 - t) slope = l1. Then the right side plus l1 |s|_1 is at least
  t offset + (1 - t) height. This is the dual point, scaled by t.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, dot, namespace, signs, total
from condgrad.errors import MissingAbility
from condgrad.problem import Answer, Simple, Smooth
from condgrad.search.restriction import Restriction, RestrictionByCalls
from condgrad.sets.penalised import Penalised
from condgrad.simple.ridge import Ridge

ROUNDED_UP = 1.001
"""The radius of the ball of all solutions is multiplied by this. It allows for the rounding of F,
also in float32, and hardly changes the bound.
"""


@dataclass(frozen=True)
class ElasticNetPenalty(Simple):
    """g(x) = l1 |x|_1 + ridge |x|_2^2, over all x.

    Parameters
    ----------
    l1 : float
        At least 0.
    ridge : float
        At least 0. l1 and ridge must not both be 0. If ridge is 0, f must be bounded below, as
        losses are. A `Linear` term may be added to such an f, if its entries are smaller than l1
        in size.
    positive : bool
        Minimise over x >= 0.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [3.0, 0.5])
    >>> r = cg.minimize(f, cg.simple.ElasticNetPenalty(1.0), method="auto")
    >>> [round(float(x), 3) for x in r.x], r.relative_gap <= 1e-6
    ([2.0, 0.0], True)
    """

    l1: float
    ridge: float = 0.0
    _: KW_ONLY
    positive: bool = False
    on: Penalised = field(init=False, repr=False, compare=False)
    reach: float = field(default=math.inf, init=False, repr=False, compare=False)
    """All solutions have |x|_1 <= reach. It is infinite as long as f is not known."""
    _scaled: tuple[float, float] | None = field(default=None, init=False, repr=False, compare=False)
    """The height of a tangent plane above the floor of f, and the slope of that floor."""

    def __post_init__(self) -> None:
        _checks.hold_number(self, "l1", "ridge", at_least=0.0)
        _checks.flag("positive", self.positive)
        if self.l1 == 0.0 and self.ridge == 0.0:
            raise ValueError("l1 or ridge must be > 0, got 0 for both: that is no penalty")
        object.__setattr__(self, "on", Penalised(self.l1, self.positive))

    @property
    def weight(self) -> float:
        """The weight of |x|_2^2: the same as `ridge`, under the name that `Ridge` uses."""
        return self.ridge

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return 2.0 * self.ridge

    def value(self, x: Array) -> float:
        return self.kinked(x) + self.ridge * dot(x, x)

    def magnitude(self, x: Array, value: float) -> float:
        return 2.0 * value  # a rounding unit in x is two in |x|^2

    def slope(self, x: Array) -> Array:
        """The gradient of the ridge, 2 ridge x."""
        return (2.0 * self.ridge) * x

    def kinked(self, x: Array) -> float:
        """l1 |x|_1."""
        return self.l1 * total(namespace(x).abs(x))

    def prox(self, v: Array, length: float) -> Array:
        """v with each entry moved towards 0 by length * l1, but not beyond 0."""
        return self.on.soft(v, length * self.l1)

    def beside(self, f: Smooth, here: Any, value: float) -> ElasticNetPenalty:
        """The same g. It also knows a bound on |x|_1 of all solutions, and a lower bound on f."""
        floor = f.floor
        if floor is None or not floor.slope < self.l1:
            if self.ridge > 0.0:
                return self
            flat = (
                "has a Linear term that is as steep as l1"
                if floor
                else "is not known to be bounded below"
            )
            raise MissingAbility(
                f"{self!r} needs a ridge > 0: {f!r} {flat}, so F may fall without bound"
            )
        bounded = copy(self)
        reach = ROUNDED_UP * max(0.0, value - floor.height) / (self.l1 - floor.slope)
        object.__setattr__(bounded, "reach", reach)
        object.__setattr__(bounded, "_scaled", (here.offset - floor.height, floor.slope))
        return bounded

    def argmin(self, c: Array, *, warm: Any = None, accuracy: float = 0.0) -> Answer:
        answer = self._with_ridge(c) if self.ridge > 0.0 else self._at_vertex(c)
        if self._scaled is None:
            return answer
        height, slope = self._scaled
        steepest = self.on.steepest(c)
        if steepest <= self.l1:
            return answer
        share = (self.l1 - slope) / (steepest - slope)
        return answer._replace(bound=max(answer.bound, -(1.0 - share) * height))

    def _with_ridge(self, c: Array) -> Answer:
        """Over the ball of all solutions, or over all x where nothing is known of them."""
        soft = -self.on.soft(-c, self.l1)  # <c, s> + l1 |s|_1 is <soft, s> where it is least
        if self.reach < math.inf:
            answer = Ridge(self.ridge, on=self.on.ball(self.reach)).argmin(soft)
        else:
            s = (-0.5 / self.ridge) * soft
            answer = Answer(s, dot(soft, s) + self.ridge * dot(s, s))
        return answer._replace(value=self.value(answer.point))

    def _at_vertex(self, c: Array) -> Answer:
        """Over the ball of all solutions, where a vertex or 0 is least.

        Where 0 is, but for rounding in c, the vertex is the witness.
        """
        if self.reach == math.inf:
            raise MissingAbility(
                f"{self!r} has no argmin without f, because <c, s> + g(s) may fall without bound: add a ridge"
            )
        vertex = self.on.ball(self.reach).linear_argmin(c)
        bound = vertex.bound + self.l1 * self.reach
        if bound < 0.0:
            return Answer(vertex.point, bound, self.l1 * self.reach)
        return Answer(namespace(c).zeros_like(c), 0.0, 0.0, witness=vertex.point)

    def along(self, x: Array, directions: Array) -> Restriction:
        return RestrictionByCalls(
            self.value, lambda y: (self.value(y), self.l1 * signs(y) + self.slope(y)), x, directions
        )
