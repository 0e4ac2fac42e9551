"""The simple parts g."""

from condgrad.problem import Simple
from condgrad.simple.elastic_net import ElasticNetPenalty
from condgrad.simple.entropy import Entropy
from condgrad.simple.norms import L1Norm, NuclearNorm
from condgrad.simple.oracle import Oracle
from condgrad.simple.ridge import Ridge
from condgrad.simple.zero import Zero

ElasticNet = ElasticNetPenalty
"""Its name before an estimator of `linear_model` had this one too."""

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
