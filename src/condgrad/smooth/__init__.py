"""The smooth parts f of an objective f + g."""

from condgrad.problem import Smooth
from condgrad.smooth.function import Function
from condgrad.smooth.gromov import GromovPoints, GromovWasserstein
from condgrad.smooth.group_lasso import TransportGroupLasso
from condgrad.smooth.linear import Linear
from condgrad.smooth.losses import Gamma, Huber, LeastSquares, Logistic, Poisson, SquaredHinge
from condgrad.smooth.multinomial import BlockwiseMultinomial, Multinomial
from condgrad.smooth.row_blocks import BlockwiseLoss
from condgrad.smooth.transport_cost import TransportCost
from condgrad.smooth.transport_laplacian import TransportLaplacian

GroupLasso = TransportGroupLasso
"""The earlier name of `TransportGroupLasso`. `transport.GroupLasso` is another class."""

__all__ = [
    "BlockwiseLoss",
    "BlockwiseMultinomial",
    "Function",
    "Gamma",
    "GromovPoints",
    "GromovWasserstein",
    "GroupLasso",
    "Huber",
    "LeastSquares",
    "Linear",
    "Logistic",
    "Multinomial",
    "Poisson",
    "Smooth",
    "SquaredHinge",
    "TransportCost",
    "TransportGroupLasso",
    "TransportLaplacian",
]
