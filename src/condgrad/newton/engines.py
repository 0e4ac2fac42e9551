"""Which Newton engine solves which problem of transport: one table."""

from __future__ import annotations

from collections.abc import Callable

from condgrad.newton import groups, shared_marginal
from condgrad.newton.ascent import DualModel
from condgrad.newton.laplacian import dual as laplacian
from condgrad.structure import TransportStructure

ENGINES: dict[str, Callable[[TransportStructure], DualModel | None]] = {
    "Linear + at most one TransportLaplacian, Entropy on Transport": laplacian.model_of,
    "Linear + one GroupLasso, Entropy on Transport": groups.model_of,
    "Linear, Entropy on SharedMarginal": shared_marginal.model_of,
}
"""For each kind of problem, the function that makes its dual model. It returns None for a problem
of another kind.
"""


def dual_model(problem: TransportStructure) -> DualModel | None:
    """The first model that fits, if one does."""
    models = (model_of(problem) for model_of in ENGINES.values())
    return next((model for model in models if model is not None), None)
