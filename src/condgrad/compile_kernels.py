"""Compile every kernel ahead of time and keep it on disk: `python -m condgrad.compile_kernels`.

Small fits of each kind call each entry point with each kind of argument. `kernels.readiness` starts `main` beside a
program whose machine has no compiled code yet.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from condgrad import linear_model, sets, simple, smooth, transport
from condgrad.kernels import readiness
from condgrad.minimize import minimize

LOW_PRIORITY = 10
"""Steps of `os.nice` below the programs of the user."""
TRIES = 20
"""Looks at a lock that a program holds for a moment to see whether somebody compiles."""


def main() -> None:
    """What the process beside a program does: nothing where another one is at it or has done it."""
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
    for _ in range(TRIES):
        with readiness.lock() as is_ours:
            if is_ours:
                if not readiness.is_compiled():
                    compile_fits()
                return
        time.sleep(readiness.POLL)


def compile_all() -> None:
    """Compile every kernel now: what streamed plans call, and fits, unless another process is at these."""
    with readiness.lock() as is_ours:
        if is_ours and not readiness.is_compiled():
            compile_fits()
    compile_transport()


def compile_fits() -> None:
    """Compile what fits, searches and paths call."""
    import numba

    with warnings.catch_warnings(), _compiling_here():
        warnings.simplefilter("ignore")  # what these fits prove does not matter
        for fit in fits():
            fit()
    if not numba.config.DISABLE_JIT:
        readiness.set_mark()


@contextmanager
def _compiling_here() -> Iterator[None]:
    """Whoever calls a kernel inside compiles it: nobody else will, and waiting for that would never end."""
    asked = os.environ.get(readiness.VARIABLE, "")
    os.environ[readiness.VARIABLE] = "wait"
    try:
        yield
    finally:
        os.environ[readiness.VARIABLE] = asked


def fits() -> Iterator[Callable[[], Any]]:
    """Small fits that call all kernels between them, with every kind of argument."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0)
    tight, wide = sets.L1Ball(1.0), sets.L1Ball(1e3)

    def newton(f: Any, on: Any, ridge: float = 1.0) -> Callable[[], Any]:
        return lambda: minimize(f, simple.Ridge(ridge, on=on), method="newton")

    def path(Z: Any) -> Callable[[], Any]:
        return lambda: linear_model.path(Z, y, loss="squared-hinge", ridge=1.0, n_radii=10)

    # the one that most fits call first: a program may end before the rest is done
    yield newton(smooth.Logistic(X, y, intercept=True), tight)
    yield path(X)
    yield newton(smooth.Multinomial(X, np.arange(40) % 3), tight)
    yield newton(smooth.Logistic(X, y), sets.Box(-0.1, 0.1))
    for kind in (np.float64, np.float32):
        Z = X.astype(kind)
        yield newton(smooth.SquaredHinge(Z, y), wide, 1e-3)
        yield newton(smooth.Logistic(np.tile(Z, 10), y), tight)
        thin = np.where(rng.random(X.shape) < 0.1, Z, 0.0).astype(kind)
        # with more columns than the first working set takes, and too tall for one compiled call
        tall = np.where(rng.random((500, 250)) < 0.05, 1.0, 0.0).astype(kind)
        for index in (np.int32, np.int64):
            for form in (scipy.sparse.csr_array, scipy.sparse.csc_array):
                few, many = with_indices(form(thin), index), with_indices(form(tall), index)
                yield path(few)
                yield newton(smooth.SquaredHinge(few, y), wide, 1e-3)
                yield newton(smooth.Logistic(many, np.resize(y, 500)), tight)
                yield newton(smooth.SquaredHinge(many, np.resize(y, 500)), wide)


def with_indices(K: Any, kind: Any) -> Any:
    """The same sparse matrix, with indices of some kind."""
    return type(K)((K.data, K.indices.astype(kind), K.indptr.astype(kind)), shape=K.shape)


def compile_transport() -> None:
    """Compile what streamed plans call."""
    points = np.random.default_rng(0).standard_normal((40, 2))
    cost = transport.SquaredEuclidean(points[:20], points[20:])
    laplacian = transport.Laplacian(points[:20], points[20:], weight=1.0, neighbors=3)
    for method in ("newton", "cgs"):
        transport.solve(cost, entropy=1.0, regularizers=[laplacian], plan="streamed", method=method, max_iter=5)


if __name__ == "__main__":
    compile_all()
