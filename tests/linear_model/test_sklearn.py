"""scikit-learn's own suite, for every estimator, with no expected failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    GammaRegressorCV,
    HuberRegressor,
    HuberRegressorCV,
    Lasso,
    LassoCV,
    LinearSVC,
    LinearSVCCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    PoissonRegressorCV,
)

ESTIMATORS = [
    ConstrainedElasticNet(),
    ConstrainedLinearSVC(),
    ConstrainedLogisticRegression(),
    ConstrainedLogisticRegression(multi_class="multinomial", standardize=True, ridge=0.1),
    ConstrainedElasticNetCV(n_radii=2, cv=2, tol=1e-3),
    ConstrainedLinearSVCCV(n_radii=2, cv=2, tol=1e-3),
    ConstrainedLogisticRegressionCV(n_radii=2, cv=2, tol=1e-3),
    Lasso(alpha=0.01),
    ElasticNet(alpha=0.01),
    LogisticRegression(l1_ratio=0.5),
    LinearSVC(penalty="l1"),
    LassoCV(alphas=2, cv=2, tol=1e-3),
    ElasticNetCV(alphas=2, cv=2, tol=1e-3),
    LogisticRegressionCV(Cs=2, cv=2, tol=1e-3),
    LinearSVCCV(Cs=2, cv=2, tol=1e-3),
    PoissonRegressor(),
    GammaRegressor(l1_ratio=0.5),
    HuberRegressor(),
    PoissonRegressorCV(alphas=2, cv=2, tol=1e-3),
    GammaRegressorCV(alphas=2, cv=2, tol=1e-3),
    HuberRegressorCV(alphas=2, cv=2, tol=1e-3),
]
IN_MAKE_TEST = (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    LinearSVC,
    PoissonRegressor,
)
"""One estimator of a radius, two of a penalty, one search; regressors and a classifier; counts."""
ONLY_WITH_A_SWITCH = "check_array_api_input"
"""Skips itself unless SciPy was imported with SCIPY_ARRAY_API=1."""


def _checks() -> Iterator[Any]:
    """All checks of all estimators; they share their code, and some stand for all in `make test`."""
    for estimator in ESTIMATORS:
        marks = [] if type(estimator) in IN_MAKE_TEST else [pytest.mark.slow]
        for each, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            details = "-".join(str(value) for value in getattr(check, "keywords", {}).values())
            if name != ONLY_WITH_A_SWITCH:
                yield pytest.param(
                    each,
                    check,
                    id=f"{' '.join(repr(estimator).split())}-{name}{details and '-'}{details}",
                    marks=marks,
                )


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
