"""The Hessian H of a quadratic model, and its block H_AA of the coordinates A that are free to move.

H is a matrix, or, where there are many more coordinates than samples, B B' + diag(c) with a row of B a coordinate. The
factors of H_AA follow A as it gains and loses coordinates: those of H_AA itself, or those of the matrix
1 + sum_A B_j B_j'/c_j, which has one row a sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled
from condgrad.kernels.ldl import add_multiple, add_square, append, factor, inner, multiply, remove, solve

REMOVAL, ADDITION, UPDATE_BY_ROWS = 12, 2, 8
"""What a row removed, a row added, or by rows a coordinate changed, costs against a row of factors computed afresh."""
REFINEMENTS = 2
"""Solutions by rows: a second one, of what the first left over, wins back the digits that a difference loses."""


class Hessian(NamedTuple):
    """H = matrix, or rows rows' + diag(ridge) where the matrix has size 0."""

    matrix: Array
    rows: Array
    ridge: Array


class FreeBlock(NamedTuple):
    """The coordinates A = free[:width], and the factors L D L' of their block."""

    width: int | np.int64
    free: Array
    L: Array
    D: Array


@compiled
def no_free_block(hessian: Hessian, size: int) -> FreeBlock:
    """The block of no coordinate, with room for all."""
    side = hessian.rows.shape[1] if by_rows(hessian) else size
    return FreeBlock(np.int64(0), np.empty(size, np.int64), np.eye(side), np.ones(side))


@compiled
def by_rows(hessian: Hessian) -> bool:
    return hessian.rows.shape[0] > 0


@compiled
def diagonal(hessian: Hessian, size: int) -> Array:
    """The diagonal of H."""
    entries = np.empty(size)
    for j in range(size):
        if by_rows(hessian):
            entries[j] = inner(hessian.rows[j], hessian.rows[j]) + hessian.ridge[j]
        else:
            entries[j] = hessian.matrix[j, j]
    return entries


@compiled
def add_image(hessian: Hessian, d: Array, q: Array) -> None:
    """q += H d, for a d with many zeros."""
    shared = np.zeros(hessian.rows.shape[1])
    for j in range(d.shape[0]):
        if d[j] != 0.0:
            if by_rows(hessian):
                add_multiple(shared, d[j], hessian.rows[j])
                q[j] += d[j] * hessian.ridge[j]
            else:
                add_multiple(q, d[j], hessian.matrix[j])
    if by_rows(hessian):
        for j in range(d.shape[0]):
            q[j] += inner(hessian.rows[j], shared)


@compiled
def multiply_block(hessian: Hessian, block: FreeBlock, d: Array) -> Array:
    """H_AA d."""
    if not by_rows(hessian):
        return multiply(block.L, block.D, block.width, d)
    image, shared = np.empty(block.width), np.zeros(hessian.rows.shape[1])
    for p in range(block.width):
        add_multiple(shared, d[p], hessian.rows[block.free[p]])
    for p in range(block.width):
        j = block.free[p]
        image[p] = inner(hessian.rows[j], shared) + hessian.ridge[j] * d[p]
    return image


@compiled
def solve_block(hessian: Hessian, block: FreeBlock, b: Array) -> None:
    """H_AA^-1 b, in the place of b; by rows from (B B' + c)^-1 = 1/c - (B/c) (1 + B' (B/c))^-1 (B/c)'."""
    if not by_rows(hessian):
        solve(block.L, block.D, block.width, b)
        return
    B, c, samples = hessian.rows, hessian.ridge, hessian.rows.shape[1]
    left = np.empty(block.width)
    for p in range(block.width):
        left[p], b[p] = b[p], 0.0
    for _ in range(REFINEMENTS):
        shared, image = np.zeros(samples), np.zeros(samples)
        for p in range(block.width):
            j = block.free[p]
            add_multiple(shared, left[p] / c[j], B[j])
        solve(block.L, block.D, samples, shared)
        for p in range(block.width):
            j = block.free[p]
            more = (left[p] - inner(B[j], shared)) / c[j]
            b[p] += more
            left[p] -= c[j] * more
            add_multiple(image, more, B[j])
        for p in range(block.width):
            left[p] -= inner(B[block.free[p]], image)


@compiled
def refactored(hessian: Hessian, block: FreeBlock, is_free: Array, stop: Array) -> FreeBlock:
    """The block of other free coordinates: by updates of the factors, or afresh where too many change.

    It is left half done, and of no use, once stop[0] is set.
    """
    count, free, L, D = block
    was_free = np.zeros(is_free.shape[0], np.bool_)
    for p in range(count):
        was_free[free[p]] = True
    dropped, added = 0, 0
    for j in range(is_free.shape[0]):
        dropped += was_free[j] and not is_free[j]
        added += is_free[j] and not was_free[j]
    if by_rows(hessian):
        afresh = UPDATE_BY_ROWS * (dropped + added) > L.shape[0]
    else:
        afresh = REMOVAL * dropped + ADDITION * added > count
    for p in range(count - 1, -1, -1):
        j = free[p]
        if afresh or is_free[j] or stop[0]:
            continue
        if by_rows(hessian):
            afresh = not add_square(L, D, -1.0 / hessian.ridge[j], hessian.rows[j])
            for i in range(p + 1, count):
                free[i - 1] = free[i]
        else:
            remove(L, D, count, free, p)
        count -= 1
    if afresh:
        count = 0
    for j in range(is_free.shape[0]):
        if is_free[j] and (afresh or not was_free[j]) and not stop[0]:
            free[count] = j
            if by_rows(hessian) and not afresh:
                add_square(L, D, 1.0 / hessian.ridge[j], hessian.rows[j])
            elif not afresh:
                append(L, D, count, hessian.matrix, free)
            count += 1
    if afresh and by_rows(hessian):
        inside = one_plus_squares(hessian, free[:count])
        factor(L, D, L.shape[0], inside, np.arange(L.shape[0]), stop)
    elif afresh:
        factor(L, D, count, hessian.matrix, free, stop)
    return FreeBlock(count, free, L, D)


@compiled
def one_plus_squares(hessian: Hessian, free: Array) -> Array:
    """1 + sum_A B_j B_j'/c_j."""
    samples = hessian.rows.shape[1]
    rows, scaled = np.empty((free.shape[0], samples)), np.empty((free.shape[0], samples))
    for p in range(free.shape[0]):
        row = hessian.rows[free[p]]
        for i in range(samples):
            rows[p, i] = row[i]
            scaled[p, i] = row[i] / hessian.ridge[free[p]]
    found = np.dot(rows.T, scaled)
    for i in range(samples):
        found[i, i] += 1.0
    return found
