"""Plain references for compiled code: short, slow, and by other people's solvers."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import lsq_linear, nnls

from condgrad.ball.compiled import (
    BOX,
    L1_BALL,
    PENALISED,
    PENALISED_POSITIVE,
    SOLID_SIMPLEX,
    Region,
)

Array = np.ndarray


def minimise(H: Array, q0: Array, x0: Array, region: Region) -> Array:
    """The least point by SciPy: with H = R'R the model is |R x - b|^2/2 up to a constant.

    A point of a bounded set is V w, with its corners as the columns of V and weights w >= 0 of sum 1.
    Then R x - b = C w with C = R V - b 1', and nonnegative least squares of C w ~ 0, sum w ~ 1 finds
    a multiple of the w that is best among those of sum 1: |C w|^2 has the same minimiser on all sums,
    up to its length.
    """
    k = x0.shape[0]
    R = cholesky(H)
    b = solve_triangular(R, H @ x0 - q0, trans="T")
    if region.kind in (PENALISED, PENALISED_POSITIVE):
        return penalised(R, b, region)
    if region.kind == BOX:
        bounds = (region.lower, region.upper)
        return lsq_linear(R, b, bounds, method="bvls", tol=1e-15, max_iter=10_000).x
    corners = region.size * np.eye(k)
    if region.kind == L1_BALL:
        corners = np.hstack([corners, -corners])
    if region.kind == SOLID_SIMPLEX:
        corners = np.hstack([corners, np.zeros((k, 1))])
    C = R @ corners - b[:, None]
    scale = np.linalg.norm(C)
    stacked = np.vstack([C, np.full((1, C.shape[1]), scale)])
    w, _ = nnls(stacked, np.append(np.zeros(k), scale), maxiter=100_000)
    return corners @ (w / w.sum())


def penalised(R: Array, b: Array, region: Region) -> Array:
    """The least point of |R x - b|^2/2 + size |x|_1, over all x or x >= 0.

    On x >= 0 the penalty is linear, and <size 1, x> = <size R'^-1 1, R x> moves b. Over all x it is
    found by sweeps of coordinate descent until none moves a thing.
    """
    if region.kind == PENALISED_POSITIVE:
        moved = b - region.size * solve_triangular(R, np.ones(len(b)), trans="T")
        return nnls(R, moved, maxiter=100_000)[0]
    H, g, x = R.T @ R, R.T @ b, np.zeros(len(b))
    for _ in range(100_000):
        before = x.copy()
        for j in range(len(b)):
            end = x[j] + (g[j] - H[j] @ x) / H[j, j]
            x[j] = np.sign(end) * max(0.0, abs(end) - region.size / H[j, j])
        if np.all(np.abs(x - before) <= 1e-15 * np.abs(x)):
            break
    return x
