"""Regularised optimal transport, with a certificate for every plan."""

from condgrad.transport.barycenter import Barycenter, FreeBarycenter, barycenter, free_barycenter
from condgrad.transport.batch import BatchResult, solve_batch
from condgrad.transport.color import Recoloring, recolor, recoloring
from condgrad.transport.costs import BlockCost, LowRank, SquaredEuclidean, cosine
from condgrad.transport.divergence import Divergence, DivergenceLoss, divergence, divergence_loss
from condgrad.transport.estimators import EntropicTransport, GroupTransport, LaplaceTransport
from condgrad.transport.gromov import GromovGap, GromovResult, gromov, gromov_gap
from condgrad.transport.gromov_estimator import GromovTransport
from condgrad.transport.gromov_loss import gromov_loss
from condgrad.transport.loss import (
    CertifiedLoss,
    GradientError,
    barycentric_map,
    certified_loss,
    loss,
)
from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, solve
from condgrad.transport.unbalanced import RelaxedPlan, partial, unbalanced

__all__ = [
    "Barycenter",
    "BatchResult",
    "BlockCost",
    "CertifiedLoss",
    "Divergence",
    "DivergenceLoss",
    "EntropicTransport",
    "FreeBarycenter",
    "GradientError",
    "GromovGap",
    "GromovResult",
    "GromovTransport",
    "GroupLasso",
    "GroupTransport",
    "LaplaceTransport",
    "Laplacian",
    "LowRank",
    "Recoloring",
    "RelaxedPlan",
    "SquaredEuclidean",
    "TransportResult",
    "barycenter",
    "barycentric_map",
    "certified_loss",
    "cosine",
    "divergence",
    "divergence_loss",
    "free_barycenter",
    "gromov",
    "gromov_gap",
    "gromov_loss",
    "loss",
    "partial",
    "recolor",
    "recoloring",
    "solve",
    "solve_batch",
    "unbalanced",
]
