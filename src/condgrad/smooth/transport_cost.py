"""f(G) = <C, G> for a cost and plans that are never stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from condgrad.arrays import Array, Space, Vector
from condgrad.problem import Smooth
from condgrad.search.restriction import Quadratic, Restriction
from condgrad.streamed_plan import StreamedPlan, UnformedCost


class TransportCost(Smooth):
    """f(G) = <C, G> of streamed plans G, for a cost matrix C that is never stored.

    `transport.solve` makes one if `plan="streamed"`.

    Parameters
    ----------
    C : cost that is not formed
        What the method `unformed()` of a cost returns, for example of `transport.SquaredEuclidean`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> t = cg.transport.solve(cg.transport.SquaredEuclidean(X, X + 1.0), entropy=1.0, plan="streamed")
    >>> t.problem[0]
    TransportCost(50 x 50, never formed)
    """

    def __init__(self, C: UnformedCost) -> None:
        self.C = C
        self.space = Space.of(C.left, shape=C.shape)

    @property
    def smoothness(self) -> float | None:
        """0, because f is linear."""
        return 0.0

    def at(self, x: StreamedPlan) -> TransportCostEvaluation:
        return TransportCostEvaluation(self.C, x)

    def __repr__(self) -> str:
        return f"TransportCost({' x '.join(map(str, self.C.shape))}, never formed)"


class TransportCostEvaluation:
    """<C, x>: the tangent plane is the function."""

    offset = 0.0

    def __init__(
        self, C: UnformedCost, x: StreamedPlan | None, value: float | None = None, size: float = 0.0
    ) -> None:
        self.gradient = C
        self._x = x
        self._size = size
        if value is not None:
            self.value = value

    @cached_property
    def value(self) -> float:
        return self.gradient.sum_over(self._x)  # type: ignore[arg-type]

    @cached_property
    def size(self) -> float:
        """The size of its terms before they cancel."""
        return self._size if self._x is None else self.gradient.size_over(self._x)

    def magnitude(self, other: TransportCostEvaluation) -> float:
        return other.size

    def sensitivity(self, a: Array, b: Array, error: float) -> float:
        """The root of mass * sum_ij gradient_ij^2 G_ij over plans G from a to b, at most.

        It is what f changes by, at most, for each unit of a relative change of the entries of a
        plan, in the mean of squares; see `StreamedPlan`. Numbers of rows and columns are left out:
        they are multiplied by a and b themselves, whatever the entries. `error` is the largest
        relative change that is asked about.
        """
        return self.gradient.mean_norm(a, b)

    def along(self, others: Sequence[TransportCostEvaluation], directions: Array) -> Restriction:
        slope = np.array([other.value - self.value for other in others])
        return Quadratic(self.value, slope, np.zeros((len(others), len(others))))

    def moved(
        self, x: Array, others: Sequence[TransportCostEvaluation], a: Vector
    ) -> TransportCostEvaluation:
        """At a mixture of plans, which is no streamed plan itself: its value is the mean of theirs."""
        of_here = 1.0 - float(a.sum())
        value = of_here * self.value + sum(
            float(w) * other.value for w, other in zip(a, others, strict=True)
        )
        size = of_here * self.size + sum(
            float(w) * other.size for w, other in zip(a, others, strict=True)
        )
        return TransportCostEvaluation(self.gradient, None, value, size)
