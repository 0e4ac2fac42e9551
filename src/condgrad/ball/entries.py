"""The problem in some of the coordinates where f itself knows its Hessian in them: one model at a
time.

That is a softmax loss of several classes, and any loss of data in blocks on the workers of Dask. A
step takes three passes over the data: the gradient, which proves a bound and chooses the
coordinates; the Hessian in them; and F at the least point of the model.

Where nothing but a ridge keeps x small, no coordinate is 0, and the Hessian would be as large as x
squared. There products with it lead to about the least point of the model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, dot, host, like, precision
from condgrad.ball.columns import back_inside
from condgrad.ball.models import Model, curvature_added, in_entries, least_by_gram, reach_at
from condgrad.ball.options import OPTIONS
from condgrad.certificate import Iterate
from condgrad.methods.certified_point import ObjectivePoint
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.search.steps import Exact, SearchState
from condgrad.sets import Simplex

SHORT_SEARCH = Exact(OPTIONS.short_step)
"""If F is not lower at the least point of a model, a point between is searched for this exactly."""


class Entries:
    """Some of the coordinates of an f that has `hessian_in(chosen)` at each point."""

    def __init__(self, chosen: Array, *, by_products: bool = False) -> None:
        self.chosen = chosen
        self.by_products = by_products
        """Whether products with the Hessian of all coordinates are tried first."""
        self.multiplier: float | None = None
        self.is_slack = False

    @property
    def size(self) -> int:
        return len(self.chosen)

    def begin(self, point: ObjectivePoint) -> None:
        """Be at a point of the full problem."""
        self.start = point
        self.end = point
        self.steps = 0

    @property
    def has_moved(self) -> bool:
        return self.end is not self.start

    @property
    def has_fallen(self) -> bool:
        return self.end.value < self.start.value

    def solve(self, enough: float) -> None:
        """One step to the least point of the model, or towards it; none where F does not fall."""
        there = self._least_of_model()
        if there is not None:
            self.steps = 1
            self.end = lower_on_the_way(self.start, there) or self.start

    def _least_of_model(self) -> ObjectivePoint | None:
        point = self.start
        on: Any = point.g.on
        x = np.ravel(host(point.x))[self.chosen]
        slope = np.ravel(host(point.gradient))[self.chosen]
        if isinstance(on, Simplex):  # what all share moves nothing, and would hide the rest
            slope = slope - dot(slope, x) / on.mass
        ridge: float = point.g.weight  # type: ignore[attr-defined]
        reach = reach_at(point)
        added = curvature_added(ridge, slope, reach)
        if added is None:
            return None
        if self.by_products:
            there = point.at(like(point.x - by_products(point, added), point.x))
            if there.value < point.value:
                return there
        none = np.empty(0)
        part = in_entries(on, self.chosen, point.x.shape)
        model = Model(x, slope, none, ridge, added, part, self.multiplier, reach)
        gram = np.ascontiguousarray(point.smooth.hessian_in(self.chosen))
        least = least_by_gram(gram, model)
        if least is None or deadline.passed() or not np.isfinite(least.x).all():
            return None
        self.multiplier = least.multiplier
        self.is_slack = least.is_slack
        whole = np.zeros(math.prod(point.x.shape))
        whole[self.chosen] = least.x
        end = like(whole, point.x).reshape(point.x.shape)
        return point.at(end if on.violation(end) == 0.0 else back_inside(on, end))

    def point(self) -> ObjectivePoint:
        """The full problem at the point so far."""
        return self.end

    def uncertified(self, iterate: Iterate) -> Iterate:
        """The point so far, when there is no time for a bound of its own: the last one will do."""
        return iterate


def by_products(point: ObjectivePoint, added: float) -> Array:
    """H^-1 slope, about, where nothing but a ridge keeps x small: H has `added` on its diagonal."""
    smooth: Any = point.smooth
    return conjugate_gradients(
        lambda d: smooth.hessian_times(d) + added * d,
        point.gradient,
        inner=dot,
        accuracy=OPTIONS.accuracy_by_products,
        max_iterations=OPTIONS.inside_steps,
    ).x


def lower_on_the_way(point: ObjectivePoint, end: ObjectivePoint) -> ObjectivePoint | None:
    """The end if F is lower there, or the lowest point on the way; None where none is lower.

    Where rounding alone tells F at the end from F here, the end counts: its gap may be smaller.
    """
    if end.value < point.value:
        return end
    direction = (end.x - point.x)[None]
    here = point.f, point.g, 0, point.x, point.smooth
    state = SearchState(*here, [end.smooth], direction, point.value, 0.0)
    between = point.moved(end, float(SHORT_SEARCH(state)[0]))
    if between.value < point.value:
        return between
    rounding = precision(point.x) * point.terms.size
    return end if end.value - point.value <= rounding else None
