"""The simple parts g of an objective f + g, each together with its set."""

from condgrad.problem import Simple
from condgrad.simple.elastic_net import ElasticNetPenalty
from condgrad.simple.entropy import Entropy
from condgrad.simple.norms import L1Norm, NuclearNorm
from condgrad.simple.oracle import Oracle
from condgrad.simple.ridge import Ridge
from condgrad.simple.zero import Zero

ElasticNet = ElasticNetPenalty
"""The earlier name of `ElasticNetPenalty`. `linear_model.ElasticNet` is another class."""

__all__ = [
    "ElasticNet",
    "ElasticNetPenalty",
    "Entropy",
    "L1Norm",
    "NuclearNorm",
    "Oracle",
    "Ridge",
    "Simple",
    "Zero",
]
