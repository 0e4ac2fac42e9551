"""Compile every kernel ahead of time and keep it on disk: `python -m condgrad.compile_kernels`.

Small problems call each entry point with each kind of argument. `kernels.readiness` starts `main`
beside a program whose machine has no compiled code yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from condgrad import ball, sets, simple, smooth, transport
from condgrad.kernels import readiness
from condgrad.minimize import minimize
from condgrad.sets.threshold import COMPILED_FROM

LOW_PRIORITY = 10
"""The compiling process runs this many steps of `os.nice` below the user's programs."""
LOOKS_AT_LOCK = 20
"""How often a lock is looked at to see whether somebody compiles. A program may hold it for a
moment.
"""


BESIDE = """
import sys
sys.path.insert(0, sys.argv[1])
from condgrad.compile_kernels import compile_projections, compile_transport
compile_transport()
compile_projections()
"""


def main() -> None:
    """What the process beside a program does: nothing where another one is at it or has done it."""
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
    for _ in range(LOOKS_AT_LOCK):
        with readiness.lock() as is_ours:
            if is_ours:
                if not readiness.is_compiled():
                    compile_fits()
                return
        time.sleep(readiness.POLL)


def compile_all() -> None:
    """Compile every kernel now: what streamed plans call, and fits, unless another process is at
    these.

    Someone waits for it: what does not need Newton's method is compiled at the same time.
    """
    beside = _process_beside()
    with readiness.lock() as is_ours:
        if is_ours and not readiness.is_compiled():
            compile_fits()
    if beside is None or beside.wait() != 0:
        compile_transport()


def _process_beside() -> subprocess.Popen[bytes] | None:
    """A process that compiles what streamed plans and projections call; None where it would be of
    no use.
    """
    if readiness.folder() is None or not sys.executable or getattr(sys, "frozen", False):
        return None
    command = [sys.executable, "-c", BESIDE, str(readiness.PACKAGE.parent)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def compile_fits() -> None:
    """Compile what fits, searches and paths call, and projections of long vectors."""
    import numba

    with warnings.catch_warnings(), _compiling_here():
        warnings.simplefilter("ignore")  # what these fits prove does not matter
        for fit in fits():
            fit()
        compile_projections()  # from disk, where the process beside has done it meanwhile
    if not numba.config.DISABLE_JIT:
        readiness.set_mark()


@contextmanager
def _compiling_here() -> Iterator[None]:
    """Whoever calls a kernel inside compiles it: nobody else will, and waiting for that would never
    end.
    """
    asked = os.environ.get(readiness.VARIABLE, "")
    os.environ[readiness.VARIABLE] = "wait"
    try:
        yield
    finally:
        os.environ[readiness.VARIABLE] = asked


def fits() -> Iterator[Callable[[], Any]]:
    """What calls all kernels of Newton's method, with every kind of argument."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0)
    thin = scipy.sparse.csr_array(np.where(rng.random(X.shape) < 0.1, X, 0.0))

    def newton(K: Any) -> Callable[[], Any]:
        g = simple.Ridge(1.0, on=sets.L1Ball(1.0))
        return lambda: minimize(smooth.Logistic(K, y), g, method="newton")

    def path() -> Any:
        f = smooth.Logistic(X, y)
        parts = [simple.Ridge(1.0, on=sets.L1Ball(radius)) for radius in (1.0, 2.0)]
        null = f.at(np.zeros(X.shape[1]))
        ahead = ball.follow(f, parts, null=null, tol=1e-6, max_iter=1)
        return None if ahead is None else ahead.point(0)

    yield newton(X)
    yield newton(thin)
    yield path


def compile_projections() -> None:
    """Compile what projections of long vectors call, in both precisions."""
    with _compiling_here():
        for kind in (np.float64, np.float32):
            x = np.linspace(0.0, 1.0, COMPILED_FROM, dtype=kind)
            sets.L1Ball(1.0).project(x)
            sets.Simplex(COMPILED_FROM).project(x)


def compile_transport() -> None:
    """Compile what streamed plans call."""
    points = np.random.default_rng(0).standard_normal((40, 2))
    cost = transport.SquaredEuclidean(points[:20], points[20:])
    laplacian = transport.Laplacian(points[:20], points[20:], weight=1.0, neighbors=3)
    for method in ("newton", "cgs"):
        transport.solve(
            cost, entropy=1.0, regularizers=[laplacian], plan="streamed", method=method, max_iter=5
        )


if __name__ == "__main__":
    compile_all()
