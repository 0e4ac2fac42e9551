"""Regularised optimal transport."""

from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, solve

__all__ = ["GroupLasso", "Laplacian", "TransportResult", "solve"]
