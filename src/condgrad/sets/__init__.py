"""The sets P."""

from condgrad.problem import Set
from condgrad.sets.balls import L1Ball, L2Ball, NuclearBall
from condgrad.sets.box import Box
from condgrad.sets.simplex import Simplex
from condgrad.sets.solid_simplex import SolidSimplex
from condgrad.sets.transport import Transport

__all__ = ["Box", "L1Ball", "L2Ball", "NuclearBall", "Set", "Simplex", "SolidSimplex", "Transport"]
