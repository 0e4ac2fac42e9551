"""Regularised optimal transport."""

from condgrad.transport.color import Recoloring, recolor, recoloring
from condgrad.transport.estimators import EntropicTransport, GroupTransport, LaplaceTransport
from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, solve

__all__ = [
    "EntropicTransport",
    "GroupLasso",
    "GroupTransport",
    "LaplaceTransport",
    "Laplacian",
    "Recoloring",
    "TransportResult",
    "recolor",
    "recoloring",
    "solve",
]
