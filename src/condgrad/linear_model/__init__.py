"""Sparse linear models, each fit with a proof of how good it is.

Classes whose names begin with `Constrained` minimise loss + ridge |coef|_2^2 subject to
|coef|_1 <= radius. The other classes have a penalty in place of the constraint, and scikit-learn's
names, parameters and units.
"""

from condgrad.linear_model.classification import ConstrainedLinearSVC, ConstrainedLogisticRegression
from condgrad.linear_model.cross_validation import (
    ConstrainedElasticNetCV,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegressionCV,
)
from condgrad.linear_model.generalized import (
    GammaRegressor,
    GammaRegressorCV,
    HuberRegressor,
    HuberRegressorCV,
    PoissonRegressor,
    PoissonRegressorCV,
)
from condgrad.linear_model.model_file import NAMED_ESTIMATORS, load
from condgrad.linear_model.path import Path, path
from condgrad.linear_model.penalised import ElasticNet, Lasso, LinearSVC, LogisticRegression
from condgrad.linear_model.penalty_search import (
    ElasticNetCV,
    LassoCV,
    LinearSVCCV,
    LogisticRegressionCV,
)
from condgrad.linear_model.regression import ConstrainedElasticNet

__all__ = [
    "ConstrainedElasticNet",
    "ConstrainedElasticNetCV",
    "ConstrainedLinearSVC",
    "ConstrainedLinearSVCCV",
    "ConstrainedLogisticRegression",
    "ConstrainedLogisticRegressionCV",
    "ElasticNet",
    "ElasticNetCV",
    "GammaRegressor",
    "GammaRegressorCV",
    "HuberRegressor",
    "HuberRegressorCV",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVCCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Path",
    "PoissonRegressor",
    "PoissonRegressorCV",
    "load",
    "path",
]

NAMED_ESTIMATORS.update(
    (each.__name__, each)
    for each in (
        ConstrainedElasticNet,
        ConstrainedLinearSVC,
        ConstrainedLogisticRegression,
        ElasticNet,
        GammaRegressor,
        HuberRegressor,
        Lasso,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
    )
)
