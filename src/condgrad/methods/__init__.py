"""Which way: the methods, a file each, all on the one loop."""

from condgrad.methods.cg import CG
from condgrad.methods.cgs import CGS
from condgrad.methods.newton import Newton

__all__ = ["CG", "CGS", "Newton"]
