"""The l1-constrained elastic net: minimise loss + ridge |coef|_2^2 subject to |coef|_1 <= radius, certified."""

from condgrad.linear_model.classification import ConstrainedLinearSVC, ConstrainedLogisticRegression
from condgrad.linear_model.cross_validation import (
    ConstrainedElasticNetCV,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegressionCV,
)
from condgrad.linear_model.path import Path, path
from condgrad.linear_model.regression import ConstrainedElasticNet

__all__ = [
    "ConstrainedElasticNet",
    "ConstrainedElasticNetCV",
    "ConstrainedLinearSVC",
    "ConstrainedLinearSVCCV",
    "ConstrainedLogisticRegression",
    "ConstrainedLogisticRegressionCV",
    "Path",
    "path",
]
