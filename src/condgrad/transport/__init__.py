"""Regularised optimal transport."""

from condgrad.transport.color import Recoloring, recolor, recoloring
from condgrad.transport.divergence import Divergence, divergence, divergence_loss
from condgrad.transport.estimators import EntropicTransport, GroupTransport, LaplaceTransport
from condgrad.transport.loss import CertifiedLoss, GradientError, barycentric_map, certified_loss, loss
from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, solve

__all__ = [
    "CertifiedLoss",
    "Divergence",
    "EntropicTransport",
    "GradientError",
    "GroupLasso",
    "GroupTransport",
    "LaplaceTransport",
    "Laplacian",
    "Recoloring",
    "TransportResult",
    "barycentric_map",
    "certified_loss",
    "divergence",
    "divergence_loss",
    "loss",
    "recolor",
    "recoloring",
    "solve",
]
