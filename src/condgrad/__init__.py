"""Minimise f + g over a convex set, with a proof of optimality in every answer."""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from condgrad.certificate import Certificate
from condgrad.comparison import Comparison, compare
from condgrad.errors import (
    ContradictionError,
    InfeasibleError,
    MissingAbility,
    MissingExtra,
    NotFiniteError,
)
from condgrad.loop import Progress
from condgrad.minimize import minimize
from condgrad.problem import Answer
from condgrad.result import Result, Status, Trace, load

from condgrad import sets, simple, smooth, steps, stopping  # isort: skip

if TYPE_CHECKING:
    from condgrad import datasets, linear_model, transport

__version__ = version("condgrad")

__all__ = [
    "Answer",
    "Certificate",
    "Comparison",
    "ContradictionError",
    "InfeasibleError",
    "MissingAbility",
    "MissingExtra",
    "NotFiniteError",
    "Progress",
    "Result",
    "Status",
    "Trace",
    "compare",
    "datasets",
    "linear_model",
    "load",
    "minimize",
    "sets",
    "simple",
    "smooth",
    "steps",
    "stopping",
    "transport",
]

APPLICATIONS = ("datasets", "linear_model", "transport")
"""What stands on the core and on scikit-learn: loaded when first asked for."""


def __getattr__(name: str) -> Any:
    if name in APPLICATIONS:
        return importlib.import_module(f"condgrad.{name}")
    raise AttributeError(f"module 'condgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *APPLICATIONS])
