"""The equations of Newton's method on one face of a polyhedral set."""

from __future__ import annotations

from condgrad._arrays import (
    Array,
    Matrix,
    dot,
    double,
    namespace,
    row_gram,
    solve_positive,
    solve_triangular,
    total,
    weighted_gram,
)


def least_on_face(K: Matrix, w: Array, ridge: float, g: Array, e: Array | None, *, centred: bool) -> Array:
    """d with (K' W K + ridge) d + mu e = g and <e, d> = 0, in as many unknowns as K has rows or columns.

    W is diag(w), or diag(w) - w w'/sum(w) if `centred`: that takes the weighted mean off each column of K.
    """
    xp = namespace(g)
    if g.shape[0] == 0:
        return g
    if e is not None:  # the part along e moves nothing, and may hide the rest
        g = g - (dot(e, g) / dot(e, e)) * e
    r = g[:, None] if e is None else xp.stack([g, e], axis=1)
    mass = total(w) if centred else 0.0
    mean = double(K.T @ w) / mass if mass > 0.0 else None
    x = _in_columns(K, w, ridge, r, mass, mean) if K.shape[1] <= K.shape[0] else _in_rows(K, w, ridge, r, mean)
    if e is None:
        return x[:, 0]
    d = x[:, 0] - (dot(e, x[:, 0]) / dot(e, x[:, 1])) * x[:, 1]
    return d - (dot(e, d) / dot(e, e)) * e  # once more: a small difference of large numbers is not orthogonal to e


def square_root_model(K: Matrix, w: Array, x: Array, c: Array, *, centred: bool) -> tuple[Array, Array]:
    """R and t, R square, with R'R = K' W K and R'(R x - t) = c: a least-squares problem that bends as the loss does."""
    mass = total(w) if centred else 0.0
    H = _bent(K, w, mass, double(K.T @ w) / mass if mass > 0.0 else None)
    xp = namespace(H)
    floor = 1e-12 * (float(xp.linalg.trace(H)) / H.shape[0] or 1.0)
    factor = xp.linalg.cholesky(H + floor * xp.eye(H.shape[0], dtype=H.dtype, device=H.device))
    return factor.T, factor.T @ x - solve_triangular(factor, c)


def _in_columns(K: Matrix, w: Array, ridge: float, r: Array, mass: float, mean: Array | None) -> Array:
    return solve_positive(_bent(K, w, mass, mean), r, ridge=ridge)


def _bent(K: Matrix, w: Array, mass: float, mean: Array | None) -> Array:
    """K' W K."""
    H = weighted_gram(K, w)
    if mean is not None:
        H -= (mass * mean)[:, None] * mean[None, :]
    return H


def _in_rows(K: Matrix, w: Array, ridge: float, r: Array, mean: Array | None) -> Array:
    """By the identity (B'B + ridge)^-1 = (1 - B' (B B' + ridge)^-1 B)/ridge."""
    root = namespace(w).sqrt(w)
    G, Kr = row_gram(K), double(K @ r)
    if mean is not None:
        means = double(K @ mean)
        G = G - means[:, None] - means[None, :] + dot(mean, mean)
        Kr = Kr - (mean @ r)[None, :]
    G = root[:, None] * G * root[None, :]
    y = root[:, None] * solve_positive(G, root[:, None] * Kr, ridge=ridge)
    back = double(K.T @ y)
    if mean is not None:
        back = back - mean[:, None] * namespace(y).sum(y, axis=0)[None, :]
    return (r - back) / ridge
