"""Parameters of estimators, declared once: fields of dataclasses, whose `__init__` only keeps them.

That is what scikit-learn asks of an estimator, and what `get_params` reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(cls: type[T]) -> type[T]:
    """A class whose fields, and those of its bases, are its parameters, by keyword unless said
    otherwise.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


@with_parameters
class FitParameters:
    """Of every estimator."""

    fit_intercept: bool = True
    standardize: bool = False
    penalty_factors: Any = None
    impute: str | None = None
    positive: bool = False
    tol: float = 1e-6
    max_iter: int = 10_000
    method: str = "auto"
    time_limit: float | None = None
    verbose: bool = False


@with_parameters
class ClassParameters:
    """Of classifiers."""

    class_weight: Any = None


@with_parameters
class SearchParameters:
    """Of those that choose by cross-validation."""

    selection: str = "best"
    cv: Any = None
    scoring: Any = None
    n_jobs: int | None = None


@with_parameters
class GridOfAlphas(SearchParameters):
    """Which strengths of a penalty of the mean loss are tried."""

    eps: float = 1e-3
    alphas: Any = 100
    n_alphas: int | None = None


@with_parameters
class GridOfCs(SearchParameters):
    """Which strengths of a sum of losses are tried, and which shares of |coef|_1."""

    Cs: Any = 10
    l1_ratios: Any = None


@with_parameters
class GridOfRadii(SearchParameters):
    """Which radii and ridges are tried."""

    radii: Any = None
    n_radii: int = 50
    ridges: Any = None
    groups: Any = None


@with_parameters
class OfCoordinateDescent:
    """What scikit-learn's coordinate descent takes, and what changes nothing here."""

    precompute: Any = False
    copy_X: bool = True
    random_state: Any = None


@with_parameters
class OfLiblinear:
    """What scikit-learn's liblinear takes, and what changes nothing here."""

    dual: Any = False
    intercept_scaling: float = 1.0
    random_state: Any = None
