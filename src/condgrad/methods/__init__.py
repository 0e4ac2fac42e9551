"""The methods, each in a file of its own. All run on the same loop."""

from condgrad.methods.active_set import ActiveSetCG
from condgrad.methods.cg import CG
from condgrad.methods.cgs import CGS
from condgrad.methods.pqn import PQN
from condgrad.methods.spg import SPG

__all__ = ["CG", "CGS", "PQN", "SPG", "ActiveSetCG"]
