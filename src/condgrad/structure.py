"""The structure of a problem, as a value. No other module takes f and g apart.

| f + g                                                        | structure            |
|--------------------------------------------------------------|----------------------|
| costs, Laplacians, groups and an entropy of plans            | `TransportStructure` |
| a loss of data, with a ridge, a penalty or nothing, on a set | `LossOnSet`          |
| a loss of data on a polytope                                 | `LossOnPolytope`     |
| anything else                                                | `NoStructure`        |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from condgrad.errors import MissingAbility
from condgrad.problem import Simple, Smooth
from condgrad.sets import PartialTransport, SharedMarginal, Transport
from condgrad.sets.constraints import Polytope
from condgrad.simple import ElasticNet, Entropy, Ridge, Zero
from condgrad.smooth import (
    Linear,
    TransportCost,
    TransportGroupLasso,
    TransportLaplacian,
)
from condgrad.smooth.composite import LossOfMatrix, is_at_hand
from condgrad.smooth.folding import Folded, FoldedLoss

PLAN_SETS = (Transport, PartialTransport, SharedMarginal)
COSTS = (Linear, TransportCost)


@dataclass(frozen=True, eq=False)
class TransportStructure:
    """<cost, G> + regularisers + entropy over plans G. Each term of f comes with its weight."""

    on: Any
    """The set of plans."""
    entropy: float
    """The weight of the entropy; 0 if g is not an entropy."""
    costs: tuple[tuple[float, Any], ...]
    laplacians: tuple[tuple[float, TransportLaplacian], ...]
    groups: tuple[tuple[float, TransportGroupLasso], ...]
    others: tuple[tuple[float, Smooth], ...]

    @property
    def is_plain(self) -> bool:
        """Whether f is only a cost."""
        return not (self.laplacians or self.groups or self.others)

    @property
    def laplacian(self) -> TransportLaplacian | None:
        """The first Laplacian, without its weight."""
        return self.laplacians[0][1] if self.laplacians else None

    @cached_property
    def cost(self) -> Any:
        """The sum of the costs: an array, or a cost that is not formed."""
        # the cost itself where it can be had: a copy is as large as the plan
        matrices = [term.C if w == 1.0 else w * term.C for w, term in self.costs]
        total = matrices[0]
        for more in matrices[1:]:
            total = total + more
        return total

    def cost_of(self, plan: Any) -> float:
        """<cost, plan>."""
        return sum(w * term.at(plan).value for w, term in self.costs)


@dataclass(frozen=True, eq=False)
class LossOnSet:
    """A loss of data + l1 |x|_1 + ridge |x|^2 on a set."""

    f: Smooth
    g: Ridge | Zero | ElasticNet
    loss: Folded | None
    """f as h(Kx) plus linear terms: f itself, or what folds its terms. None for several classes and
    for data in blocks, where f computes its own Hessian.
    """


@dataclass(frozen=True, eq=False)
class LossOnPolytope:
    """h(Kx) and linear terms on a polytope."""

    f: Smooth
    g: Zero
    loss: Folded


@dataclass(frozen=True)
class NoStructure:
    """A problem without a known structure."""

    reason: str
    """Which part of the problem is of no known kind."""


Structure = TransportStructure | LossOnSet | LossOnPolytope | NoStructure


def structure(f: Smooth, g: Simple) -> Structure:
    """The structure of f + g."""
    if isinstance(g.on, PLAN_SETS):
        return transport_structure(f, g)
    if not isinstance(g, Ridge | Zero | ElasticNet):
        quadratics = "Ridge and Zero are, and ElasticNetPenalty is for fixed signs of x"
        return NoStructure(f"{g!r} is not quadratic: {quadratics}")
    if isinstance(f, LossOfMatrix) and not is_at_hand(f):
        return LossOnSet(f, g, None)
    try:
        loss = f if is_at_hand(f) else FoldedLoss.of(f)
    except MissingAbility as missing:
        return NoStructure(str(missing))
    if isinstance(g, Zero) and isinstance(g.on, Polytope):
        return LossOnPolytope(f, g, loss)
    return LossOnSet(f, g, loss)


def transport_structure(f: Smooth, g: Simple) -> TransportStructure:
    """The parts of a problem over plans."""
    terms = f.weighted_terms

    def some(*kinds: type) -> tuple[Any, ...]:
        return tuple((weight, term) for weight, term in terms if isinstance(term, kinds))

    placed = (*COSTS, TransportLaplacian, TransportGroupLasso)
    return TransportStructure(
        on=g.on,
        entropy=g.weight if isinstance(g, Entropy) else 0.0,
        costs=some(*COSTS),
        laplacians=some(TransportLaplacian),
        groups=some(TransportGroupLasso),
        others=tuple((weight, term) for weight, term in terms if not isinstance(term, placed)),
    )
