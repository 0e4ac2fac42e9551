"""Which way: the methods, a file each, all on the one loop."""

from condgrad.methods.active_set import ActiveSetCG
from condgrad.methods.cg import CG
from condgrad.methods.cgs import CGS
from condgrad.methods.pqn import PQN
from condgrad.methods.spg import SPG

__all__ = ["CG", "CGS", "PQN", "SPG", "ActiveSetCG"]
