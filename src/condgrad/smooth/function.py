"""Your own f, from a plain callable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, Vector, all_finite, dot, is_torch, namespace
from condgrad.arrays.inputs import call_with_autograd, returned, scalar
from condgrad.errors import NotFiniteError
from condgrad.problem import Smooth
from condgrad.search.restriction import Restriction, RestrictionByCalls


class Function(Smooth):
    """A smooth part f from a function of your own.

    Parameters
    ----------
    value_and_gradient : callable
        It takes x and returns the pair (f(x), grad f(x)). If x is a torch tensor, it may return
        only f(x) as a scalar tensor; autograd then computes the gradient. It must not modify x.
    smoothness : float, optional
        The Lipschitz constant of the gradient; `step="short"` needs it.
    convex : bool
        Whether f is convex. If you say False, the answer is a stationary point. Its stationarity
        gap is the proof, and there is no lower bound. If you say True but f is not convex, you
        often get an error, because a bound or a tangent contradicts a value. But this check does
        not find all such functions. If it does not find yours, the lower bound means nothing.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Function(lambda x: (0.5 * x @ x - x[0], x - np.array([1.0, 0.0])))
    >>> r = cg.minimize(f, cg.simple.Zero(on=cg.sets.L2Ball(2.0)), x0=np.zeros(2))
    >>> [round(abs(float(x)), 3) for x in r.x]
    [1.0, 0.0]
    >>> f = cg.smooth.Function(lambda x: (-x @ x, -2.0 * x), convex=False)
    >>> r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(3)), x0=[0.5, 0.3, 0.2])
    >>> r.status.name, r.x.tolist(), r.stationarity <= 1e-6 * r.scale, r.lower_bound
    ('STATIONARY', [1.0, 0.0, 0.0], True, -inf)
    """

    mixes = False
    widens = False

    def __init__(
        self,
        value_and_gradient: Callable[[Array], Any],
        *,
        smoothness: float | None = None,
        convex: bool = True,
    ) -> None:
        if not callable(value_and_gradient):
            raise TypeError(f"value_and_gradient must be callable, got {value_and_gradient!r}")
        self.call = value_and_gradient
        self.convex = _checks.flag("convex", convex)
        self._smoothness = (
            None if smoothness is None else _checks.number("smoothness", smoothness, at_least=0.0)
        )

    @property
    def smoothness(self) -> float | None:
        return self._smoothness

    def at(self, x: Array) -> FunctionEvaluation:
        return FunctionEvaluation(self, x)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """f(x) and grad f(x), as your function returns them."""
        result = call_with_autograd(self.call, x) if is_torch(x) else self.call(x)
        try:
            value, gradient = result
        except (TypeError, ValueError) as error:
            raise TypeError(
                "value_and_gradient must return (value, gradient), or for a torch x a differentiable scalar; "
                f"got {type(result).__name__}"
            ) from error
        value = scalar("the value of your function", value)
        gradient = returned("the gradient of your function", gradient, x)
        if not math.isfinite(value):
            raise NotFiniteError(f"your function returned the value {value}")
        if not all_finite(gradient):
            raise NotFiniteError("your function returned a gradient with NaN or infinite entries")
        return value, gradient

    def __repr__(self) -> str:
        return f"Function({getattr(self.call, '__name__', 'callable')})"


class FunctionEvaluation:
    """A callable at x, called when first asked."""

    def __init__(self, f: Function, x: Array) -> None:
        self.f = f
        self.x = x

    @cached_property
    def _both(self) -> tuple[float, Array]:
        return self.f.value_and_gradient(self.x)

    @property
    def value(self) -> float:
        return self._both[0]

    @property
    def gradient(self) -> Array:
        return self._both[1]

    @property
    def offset(self) -> float:
        return self.value - dot(self.gradient, self.x)

    def magnitude(self, other: FunctionEvaluation) -> float:
        size = namespace(self.x).abs
        return dot(size(self.gradient), size(other.x))

    def along(self, others: Sequence[FunctionEvaluation], directions: Array) -> Restriction:
        both = self.f.value_and_gradient
        return RestrictionByCalls(lambda y: both(y)[0], both, self.x, directions)

    def moved(
        self, x: Array, others: Sequence[FunctionEvaluation], a: Vector
    ) -> FunctionEvaluation:
        return FunctionEvaluation(self.f, x)
