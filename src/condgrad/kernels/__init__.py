"""Compiled loops, each beside a plain reference that tests hold it against.

Importing this package loads nothing; a module of it loads numba, so that a module is imported at
the first solve that needs it. Compiled code is stored on disk, and is compiled beside the first
program that could use it (`readiness`).

What Python calls returns plain tuples, never named ones: numba makes a named one by calling its
class. Where Ctrl-C was pressed meanwhile, Python raises KeyboardInterrupt in that call; numba does
not look, and the process dies.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def with_signals_as_raised() -> Iterator[None]:
    """What the handler of a signal raises inside, while numba makes arrays, comes out as it is."""
    try:
        yield
    except SystemError as error:
        cause = first_cause(error)
        if cause is error:
            raise
        raise cause from None


def first_cause(error: BaseException) -> BaseException:
    """Of a SystemError what the handler of a signal has raised, where that was while numba made
    arrays of an answer.
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error
