"""The simple parts g."""

from condgrad.problem import Simple
from condgrad.simple.elastic_net import ElasticNet
from condgrad.simple.entropy import Entropy
from condgrad.simple.norms import L1Norm, NuclearNorm
from condgrad.simple.oracle import Oracle
from condgrad.simple.ridge import Ridge
from condgrad.simple.zero import Zero

__all__ = ["ElasticNet", "Entropy", "L1Norm", "NuclearNorm", "Oracle", "Ridge", "Simple", "Zero"]
