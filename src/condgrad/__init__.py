"""Minimise f + g over a convex set, with a proof of optimality in every answer."""

from importlib.metadata import version

from condgrad.certificate import Certificate
from condgrad.errors import ContradictionError, MissingAbility, MissingExtra, NotFiniteError
from condgrad.loop import Progress
from condgrad.minimize import minimize
from condgrad.problem import Answer
from condgrad.result import Result, Status, Trace

# the applications stand on the core
from condgrad import datasets, linear_model, sets, simple, smooth, steps, stopping, transport  # isort: skip

__version__ = version("condgrad")

__all__ = [
    "Answer",
    "Certificate",
    "ContradictionError",
    "MissingAbility",
    "MissingExtra",
    "NotFiniteError",
    "Progress",
    "Result",
    "Status",
    "Trace",
    "datasets",
    "linear_model",
    "minimize",
    "sets",
    "simple",
    "smooth",
    "steps",
    "stopping",
    "transport",
]
