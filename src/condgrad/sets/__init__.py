"""The sets P over which F = f + g is minimised."""

from condgrad.problem import Set
from condgrad.sets.balls import L1Ball, L2Ball, NuclearBall
from condgrad.sets.box import Box
from condgrad.sets.combined import Hull, Product
from condgrad.sets.constraints import Polytope
from condgrad.sets.group_ball import GroupBall
from condgrad.sets.partial_transport import PartialTransport
from condgrad.sets.polytopes import (
    Birkhoff,
    HyperSimplex,
    KSparse,
    LInfBall,
    Spectraplex,
    WeightedL1Ball,
)
from condgrad.sets.shared_marginal import SharedMarginal
from condgrad.sets.simplex import Simplex, SolidSimplex
from condgrad.sets.transport import Transport

__all__ = [
    "Birkhoff",
    "Box",
    "GroupBall",
    "Hull",
    "HyperSimplex",
    "KSparse",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "NuclearBall",
    "PartialTransport",
    "Polytope",
    "Product",
    "Set",
    "SharedMarginal",
    "Simplex",
    "SolidSimplex",
    "Spectraplex",
    "Transport",
    "WeightedL1Ball",
]
