"""POT's `ot.optim.gcg`, with the paper's answer: exact steps on the true objective, and a certificate.

    from condgrad.compat.pot import gcg      # in place of: from ot.optim import gcg

Arguments and return values are those of POT 0.9, but for options of its inner solver. What differs: the plan has exact
marginals, `stopThr` and `stopThr2` bound the certified gap (over the scale of the objective, and absolute) instead of
the last change of the objective, and the log says more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _checks, sets, simple, smooth
from condgrad.arrays import Array, Space, detached, is_torch, like, namespace, on_device
from condgrad.arrays.inputs import floating
from condgrad.certificate import Certificate, Iterate
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.transport.solve import beside


@dataclass(frozen=True)
class EitherGap:
    """gap <= absolute, or gap <= relative * the scale of F; `condgrad.certificate` says what the scale is."""

    relative: float
    absolute: float
    tolerance = 1.0

    def __post_init__(self) -> None:
        _checks.number("stopThr", self.relative, at_least=0.0)
        _checks.number("stopThr2", self.absolute, at_least=0.0)

    name = "gap in units of stopThr or stopThr2"

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        return certificate.gap / max(self.absolute, self.relative * certificate.scale, 1e-300)

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        return certificate


def gcg(
    a: Any,
    b: Any,
    M: Any,
    reg1: float,
    reg2: float,
    f: Callable[[Array], float],
    df: Callable[[Array], Array],
    G0: Any = None,
    numItermax: int = 10,
    numInnerItermax: int = 200,
    stopThr: float = 1e-9,
    stopThr2: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    **line_search: Any,  # noqa: ARG001  (POT hands these to a line search that is not needed here)
) -> Any:
    """min <M, G> + reg1 sum G log G + reg2 f(G) over plans from a to b.

    Returns the plan, or `(plan, log)` with the losses (of the whole objective, entropy included), the number of
    iterations `niter`, the certified `gap` and `lower_bound`, and the `status`. For tensors f and df see tensors; those
    on a CPU have the very plan that NumPy arrays have.
    `numInnerItermax` and options of the line search are accepted and not needed: the inner accuracy follows the gap,
    and steps are exact. A plan that falls short of `stopThr` comes with a warning that states its gap.
    """
    M = floating("M", M, ndim=2)
    # Sinkhorn's extrapolation turns the last digit of a cost into the eighth of a plan: where both libraries could
    # compute, one of them does, so that they agree.
    cost = M if on_device(M) or not is_torch(M) else M.numpy()
    _checks.number("reg1", reg1, above=0.0)
    _checks.number("reg2", reg2, at_least=0.0)
    _checks.whole("numItermax", numItermax, at_least=0)
    _checks.whole("numInnerItermax", numInnerItermax, at_least=1)
    P = sets.Transport(_weights("a", a, cost, 0), _weights("b", b, cost, 1))
    objective: Smooth = smooth.Linear(cost)
    if reg2 > 0:
        objective = objective + smooth.Function(lambda G: _value_and_gradient(f, df, reg2, G, M))
    result = minimize(
        objective,
        simple.Entropy(reg1, on=P),
        None if G0 is None else P.rounded(Space.of(cost).hold(beside("G0", G0, cost, ndim=2))),
        max_iter=numItermax,
        stop=EitherGap(stopThr, stopThr2),
        progress=verbose,
    ).uninterrupted()
    plan = namespace(M).asarray(result.x)
    if not result.success:
        warnings.warn(
            f"gcg ended after {result.iterations} iterations within {result.gap:.3g} of the minimum; raise numItermax",
            stacklevel=2,
        )
    if not log:
        return plan
    return plan, {
        "loss": result.trace["value"].tolist(),
        "niter": result.iterations,
        "gap": result.gap,
        "lower_bound": result.lower_bound,
        "status": result.status.name,
    }


def _weights(name: str, weights: Any, cost: Array, axis: int) -> Array:
    """POT takes an empty list for uniform weights."""
    if weights is None or len(weights) == 0:
        return Space.of(cost, shape=(cost.shape[axis],)).full(1.0 / cost.shape[axis])
    weights = beside(name, weights, cost, ndim=1)
    return like(weights, cost) if cost.dtype == np.float64 else weights


def _value_and_gradient(f: Any, df: Any, weight: float, G: Array, M: Array) -> tuple[float, Array]:
    """weight * f and its gradient at G, which the user's functions see in the library of M."""
    seen = detached(namespace(M).asarray(G))
    gradient = weight * df(seen)
    return weight * float(f(seen)), gradient if is_torch(G) or not is_torch(gradient) else gradient.detach().numpy()
