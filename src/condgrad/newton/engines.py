"""Which Newton engine solves which problem: one table."""

from __future__ import annotations

from collections.abc import Callable

from condgrad.newton import groups, shared_marginal
from condgrad.newton.ascent import DualModel
from condgrad.newton.laplacian import dual as laplacian
from condgrad.problem import Simple, Smooth

ENGINES: dict[str, Callable[[Smooth, Simple], DualModel | None]] = {
    "Linear + at most one TransportLaplacian, Entropy on Transport": laplacian.recognise,
    "Linear + one GroupLasso, Entropy on Transport": groups.recognise,
    "Linear, Entropy on SharedMarginal": shared_marginal.recognise,
}
"""Problems on the left, on the right what makes their dual model, or None for a problem that is
another.
"""


def dual_model(f: Smooth, g: Simple) -> DualModel | None:
    """The first model that fits, if one does."""
    return next(
        (model for recognise in ENGINES.values() if (model := recognise(f, g)) is not None), None
    )
