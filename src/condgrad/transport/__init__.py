"""Regularised optimal transport."""

from condgrad.transport.color import Recoloring, recolor, recoloring
from condgrad.transport.costs import BlockCost, LowRank, SquaredEuclidean, cosine
from condgrad.transport.estimators import EntropicTransport, GroupTransport, LaplaceTransport
from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, solve

__all__ = [
    "BlockCost",
    "EntropicTransport",
    "GroupLasso",
    "GroupTransport",
    "LaplaceTransport",
    "Laplacian",
    "LowRank",
    "Recoloring",
    "SquaredEuclidean",
    "TransportResult",
    "cosine",
    "recolor",
    "recoloring",
    "solve",
]
