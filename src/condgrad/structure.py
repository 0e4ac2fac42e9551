"""What a problem of transport is, as a value: nobody else takes f and g apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from condgrad.problem import Simple, Smooth
from condgrad.sets import PartialTransport, SharedMarginal, Transport
from condgrad.simple import Entropy
from condgrad.smooth import Linear, TransportCost, TransportGroupLasso, TransportLaplacian

PLANS = (Transport, PartialTransport, SharedMarginal)
COSTS = (Linear, TransportCost)


@dataclass(frozen=True, eq=False)
class TransportStructure:
    """<cost, G> + regularisers + entropy over plans G; each term of f has its weight before it."""

    on: Any
    """The set of plans."""
    entropy: float
    """The weight of the entropy; 0 where g is something else."""
    costs: tuple[tuple[float, Any], ...]
    laplacians: tuple[tuple[float, TransportLaplacian], ...]
    groups: tuple[tuple[float, TransportGroupLasso], ...]
    others: tuple[tuple[float, Smooth], ...]

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing in f but a cost."""
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


def structure(f: Smooth, g: Simple) -> TransportStructure | None:
    """The structure of f + g, if it is a problem over plans."""
    if not isinstance(g.on, PLANS):
        return None
    terms = f.weighted_terms

    def some(*kinds: type) -> tuple[Any, ...]:
        return tuple((weight, term) for weight, term in terms if isinstance(term, kinds))

    known = (*COSTS, TransportLaplacian, TransportGroupLasso)
    return TransportStructure(
        on=g.on,
        entropy=g.weight if isinstance(g, Entropy) else 0.0,
        costs=some(*COSTS),
        laplacians=some(TransportLaplacian),
        groups=some(TransportGroupLasso),
        others=tuple((weight, term) for weight, term in terms if not isinstance(term, known)),
    )
