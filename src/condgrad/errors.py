"""What can go wrong, each with a sentence that says what to do next."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingAbility(TypeError):
    """A pair of f, g, set or method that cannot work together, and what is missing."""


class NotFiniteError(FloatingPointError):
    """A value turned NaN or infinite during a run; the message names the iteration."""


class ContradictionError(ValueError):
    """A lower bound above a value of F: some part of the problem is not what it says it is."""


class MissingExtra(ImportError):
    """An optional dependency is needed and not installed."""


def require_extra(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {module}, which is not installed: pip install 'condgrad[{extra}]'"
        ) from error
