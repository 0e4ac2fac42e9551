"""The equations of Newton's method on one face of a polyhedral set."""

from __future__ import annotations

from collections.abc import Callable

from condgrad._arrays import (
    Array,
    Matrix,
    cholesky,
    copied,
    dot,
    double,
    is_dense,
    namespace,
    row_gram,
    solve_positive,
    solve_triangular,
    total,
    weighted_gram,
)

SMALLEST = 1e-200
"""A curvature whose inverse has a square that is a float."""


def least_on_face(K: Matrix, w: Array, ridge: float, g: Array, e: Array | None, *, centred: bool) -> Array:
    """d with (K' W K + ridge) d + mu e = g and <e, d> = 0, in as many unknowns as K has rows or columns.

    W is diag(w), or diag(w) - w w'/sum(w) if `centred`: that takes the weighted mean off each column of K.
    """
    if K.shape[1] <= K.shape[0]:
        return least_by_gram(bent_gram(K, w, centred=centred), ridge, g, e)
    return _along_face(lambda r: _in_rows(K, w, ridge, r, centred=centred), g, e)


def least_by_gram(bent: Array, ridge: float, g: Array, e: Array | None) -> Array:
    """The same from K' W K, which is spoiled."""
    return _along_face(lambda r: solve_positive(bent, r, ridge=ridge), g, e)


def _along_face(solve: Callable[[Array], Array], g: Array, e: Array | None) -> Array:
    """The solution of a positive system for g, with what leaves the face taken off."""
    if g.shape[0] == 0:
        return g
    if e is not None:  # the part along e moves nothing, and may hide the rest
        g = g - (dot(e, g) / dot(e, e)) * e
    x = solve(g[:, None] if e is None else namespace(g).stack([g, e], axis=1))
    if e is None:
        return x[:, 0]
    d = x[:, 0] - (dot(e, x[:, 0]) / dot(e, x[:, 1])) * x[:, 1]
    return d - (dot(e, d) / dot(e, e)) * e  # once more: a small difference of large numbers is not orthogonal to e


def square_root_model(K: Matrix, w: Array, x: Array, c: Array, *, centred: bool) -> tuple[Array, Array]:
    """R and t, R square, with R'R = K' W K and R'(R x - t) = c: a least-squares problem that bends as the loss does."""
    H = bent_gram(K, w, centred=centred)
    xp = namespace(H)
    # what cancels in sparse columns may leave a trace below 0, and what underflows one of 0
    floor = max(1e-12 * float(xp.max(xp.abs(H))), SMALLEST)
    # sparse columns far from 0 are centred after their products, which may cost more digits than this floor gives
    factor = xp.tril(cholesky(lambda: copied(H), ridge=floor))
    return factor.T, factor.T @ x - solve_triangular(factor, c)


def bent_gram(K: Matrix, w: Array, *, centred: bool) -> Array:
    """K' W K."""
    mean = _column_means(K, w) if centred else None
    if mean is None:
        return weighted_gram(K, w)
    if is_dense(K):
        return weighted_gram(K - mean[None, :], w)
    return weighted_gram(K, w) - (total(w) * mean)[:, None] * mean[None, :]


def _column_means(K: Matrix, w: Array) -> Array | None:
    mass = total(w)
    return double(K.T @ w) / mass if mass > 0.0 else None


def _in_rows(K: Matrix, w: Array, ridge: float, r: Array, *, centred: bool) -> Array:
    """By the identity (B'B + ridge)^-1 = (1 - B' (B B' + ridge)^-1 B)/ridge."""
    root, mean = namespace(w).sqrt(w), _column_means(K, w) if centred else None
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
