"""Compiled loops, each beside a plain reference that tests hold it against.

Importing this package loads nothing; a module of it loads numba, so that a module is imported at the first solve that
needs it. Compiled code is kept on disk, and is compiled beside the first program that could use it (`readiness`).

What Python calls returns plain tuples, never named ones: numba makes a named one by calling its class. Where Ctrl-C was
pressed meanwhile, Python raises KeyboardInterrupt in that call; numba does not look, and the process dies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from condgrad.kernels import readiness

SQUARES, LOGISTIC, SQUARED_HINGE = 0, 1, 2
"""Kinds of losses."""


class Compressed(NamedTuple):
    """A sparse matrix of which the entries of one line, a column or a row, lie behind those of the line before."""

    starts: Any
    """Where the entries of each line begin, and where those of the last one end."""
    places: Any
    """Where in its line an entry is; none twice."""
    entries: Any


_in_use: ContextVar[bool] = ContextVar("kernels in use", default=False)


@contextmanager
def within_run(*, used: bool = False) -> Iterator[None]:
    """Kernels that come into use inside are in use to its end, and no longer.

    Kernels and their plain references differ in the last digits. So which of them a run takes must not depend on what
    else the process has done; it depends on whether they were compiled when it was asked, and the name of its method
    says what ran. `used` says whether they are in use from the beginning. What the handler of a signal raises inside
    comes out as it is.
    """
    token = _in_use.set(used)
    try:
        yield
    except SystemError as error:
        cause = first_cause(error)
        if cause is error:
            raise
        raise cause from None
    finally:
        _in_use.reset(token)


def first_cause(error: BaseException) -> BaseException:
    """Of a SystemError what the handler of a signal has raised, where that was while numba made arrays of an answer."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def use() -> None:
    """Take kernels from here on to the end of the run, unless time is up before they are compiled."""
    _in_use.set(readiness.wait())


def in_use() -> bool:
    """Whether this run takes kernels for short arrays too, for which alone numba would not be loaded."""
    return _in_use.get()
