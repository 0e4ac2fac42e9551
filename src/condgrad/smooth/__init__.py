"""The smooth parts f."""

from condgrad.problem import Smooth
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.blockwise_multinomial import BlockwiseMultinomial
from condgrad.smooth.function import Function
from condgrad.smooth.gromov import GromovPoints, GromovWasserstein
from condgrad.smooth.group_lasso import GroupLasso
from condgrad.smooth.linear import Linear
from condgrad.smooth.losses import LeastSquares, Logistic, SquaredHinge
from condgrad.smooth.multinomial import Multinomial
from condgrad.smooth.transport_cost import TransportCost
from condgrad.smooth.transport_laplacian import TransportLaplacian

__all__ = [
    "BlockwiseLoss",
    "BlockwiseMultinomial",
    "Function",
    "GromovPoints",
    "GromovWasserstein",
    "GroupLasso",
    "LeastSquares",
    "Linear",
    "Logistic",
    "Multinomial",
    "Smooth",
    "SquaredHinge",
    "TransportCost",
    "TransportLaplacian",
]
