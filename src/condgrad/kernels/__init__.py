"""Compiled loops, each beside a plain reference that tests hold it against.

Importing this package loads nothing; a module of it loads numba, so that a module is imported at the first solve that
needs it. Compiled code is kept on disk: only the first process that ever runs a kernel waits for its compilation.
"""

import sys

BOX, SIMPLEX, L1_BALL = 0, 1, 2
"""Kinds of sets."""
SQUARES, LOGISTIC, SQUARED_HINGE = 0, 1, 2
"""Kinds of losses."""


def loaded() -> bool:
    """Whether a kernel was used already: then others cost no import, and are worth their call for short arrays too."""
    return "condgrad.kernels.compiling" in sys.modules
