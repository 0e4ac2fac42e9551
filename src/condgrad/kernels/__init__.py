"""Compiled loops, each beside a plain reference that tests hold it against.

Importing this package loads nothing; a module of it loads numba, so that a module is imported at the first solve that
needs it. Compiled code is kept on disk: only the first process that ever runs a kernel waits for its compilation.
"""

import importlib
import sys

BOX, SIMPLEX, L1_BALL, SOLID_SIMPLEX = 0, 1, 2, 3
"""Kinds of sets."""
SQUARES, LOGISTIC, SQUARED_HINGE = 0, 1, 2
"""Kinds of losses."""


def load() -> None:
    """Load numba now, so that `loaded` holds from the first step of a run.

    Kernels and their plain references differ in the last digits, and a run must not change between them.
    """
    importlib.import_module("condgrad.kernels.compiling")


def loaded() -> bool:
    """Whether numba is loaded, by `load` or by a kernel that was used before.

    Then other kernels cost no import, and are worth their call for short arrays too.
    """
    return "condgrad.kernels.compiling" in sys.modules
