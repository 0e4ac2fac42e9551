"""The smooth parts f."""

from condgrad.smooth.function import Function
from condgrad.smooth.linear import Linear
from condgrad.smooth.losses import LeastSquares, Logistic, SquaredHinge

__all__ = ["Function", "LeastSquares", "Linear", "Logistic", "SquaredHinge"]
