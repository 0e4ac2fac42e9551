"""The sets P."""

from condgrad.problem import Set
from condgrad.sets.balls import L1Ball, L2Ball, NuclearBall
from condgrad.sets.box import Box
from condgrad.sets.group_ball import GroupBall
from condgrad.sets.partial_transport import PartialTransport
from condgrad.sets.polytopes import Birkhoff, KSparse, LInfBall, Spectraplex
from condgrad.sets.shared_marginal import SharedMarginal
from condgrad.sets.simplex import Simplex
from condgrad.sets.solid_simplex import SolidSimplex
from condgrad.sets.transport import Transport

__all__ = [
    "Birkhoff",
    "Box",
    "GroupBall",
    "KSparse",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "NuclearBall",
    "PartialTransport",
    "Set",
    "SharedMarginal",
    "Simplex",
    "SolidSimplex",
    "Spectraplex",
    "Transport",
]
