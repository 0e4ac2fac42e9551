"""The Hessian H of a quadratic model, and its block H_AA of the coordinates A that may move.

H is a matrix, or B B' - means means' + diag(ridge) with a row of B a coordinate and a column a
sample. There are two ways to solve with H_AA:

- where H is a matrix, by its own factors, which follow A as it gains and loses coordinates;
- by the rows of B, which are sparse, by conjugate gradients, which take two passes over the rows of
  A a step, and give up where they take too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.ldl import (
    add_multiple,
    append,
    factor,
    inner,
    norm,
    remove,
)
from condgrad.kernels.compiling import compiled, compiled_in_place

REMOVAL, ADDITION = 12, 2
"""The cost of removing a coordinate, and of adding one, in rows of new factors. If all changes cost
more than all rows, the factors are computed afresh.
"""
CONJUGATE_STEPS = 1000
"""Conjugate gradients end after this many steps. The point where they end lowers the model too."""


NO_VECTOR = np.empty(0)
NO_MATRIX = np.empty((0, 0))
NO_INDICES = np.empty(0, np.uint32)


class ModelHessian(NamedTuple):
    """H = matrix, or B B' - means means' + diag(ridge) where the matrix has size 0."""

    matrix: Array
    ridge: Array = NO_VECTOR
    starts: Array = NO_INDICES
    """Where the entries of each row of B begin, and where the last one ends."""
    places: Array = NO_INDICES
    """The samples of these entries."""
    entries: Array = NO_VECTOR
    means: Array = NO_VECTOR
    """One for each coordinate."""
    samples: int = 0
    spent: Array = NO_VECTOR
    """Multiplications of conjugate gradients so far; infinite once they gave up, of size 0 where
    they never do."""


def of_rows(
    starts: Array,
    places: Array,
    entries: Array,
    samples: int,
    *,
    means: Array,
    ridge: Array,
    spent: Array = NO_VECTOR,
) -> ModelHessian:
    """B B' - means means' + diag(ridge), from the arrays of the rows of B."""
    # unsigned, so that no loop asks whether an index counts from the end
    starts = starts.astype(np.uint32)
    places = places.astype(np.int32, copy=False).view(np.uint32)
    return ModelHessian(NO_MATRIX, ridge, starts, places, entries, means, samples, spent)


class FreeBlock(NamedTuple):
    """The coordinates A = free[:width], and the factors L D L' of their block.

    By rows there are no factors, and D is the diagonal of H.
    """

    width: int | np.int64
    free: Array
    L: Array
    D: Array


class Ending(NamedTuple):
    """When compiled loops end: once stop[0] is set, and conjugate gradients at a small residual."""

    stop: Array
    share: float
    """What the residual may add to the gap of a point, as a share of what the model has fallen
    by."""
    size: float
    """Of the set: a residual r adds at most 2 size max |r_j| to the gap, and at most
    sum r_j^2/(2 c_j) with the ridge c."""
    fall: float
    """What the model has fallen by so far."""


@compiled_in_place
def no_free_block(hessian: ModelHessian, curvatures: Array) -> FreeBlock:
    """The block of no coordinate, with room for all."""
    none = np.empty(curvatures.shape[0], np.int64)
    D = curvatures.copy()
    side = 0 if by_rows(hessian) else D.shape[0]
    L = np.zeros((side, side))
    for i in range(side):
        L[i, i] = 1.0
    return FreeBlock(np.int64(0), none, L, D)


@compiled
def by_rows(hessian: ModelHessian) -> bool:
    return hessian.ridge.shape[0] > 0


@compiled
def no_image(hessian: ModelHessian) -> Array:
    """The image B' d of d = 0; one entry more is <means, d>."""
    return np.zeros(hessian.samples + 1)


@compiled
def add_row(hessian: ModelHessian, image: Array, a: float, j: int) -> None:
    """The image of d, once a is added to d_j."""
    row = slice(hessian.starts[j], hessian.starts[j + 1])
    places = hessian.places[row]
    entries = hessian.entries[row]
    for t in range(entries.shape[0]):
        image[places[t]] += a * entries[t]
    image[hessian.samples] += a * hessian.means[j]


@compiled
def row_times(hessian: ModelHessian, j: int, image: Array) -> float:
    """Entry j of (B B' - means means') d, from the image of d."""
    row = slice(hessian.starts[j], hessian.starts[j + 1])
    places = hessian.places[row]
    entries = hessian.entries[row]
    entry = -hessian.means[j] * image[hessian.samples]
    for t in range(entries.shape[0]):
        entry += entries[t] * image[places[t]]
    return entry


@compiled_in_place
def diagonal(hessian: ModelHessian, size: int) -> Array:
    """The diagonal of H."""
    d = np.empty(size)
    for j in range(size):
        if by_rows(hessian):
            entries = hessian.entries[hessian.starts[j] : hessian.starts[j + 1]]
            square = inner(entries, entries) - hessian.means[j] * hessian.means[j]
            # where means cancel, rounding may leave less than 0
            d[j] = max(0.0, square) + hessian.ridge[j]
        else:
            d[j] = hessian.matrix[j, j]
    return d


@compiled_in_place
def add_product(hessian: ModelHessian, d: Array, q: Array) -> None:
    """q += H d, for a d with many zeros."""
    image = no_image(hessian)
    for j in range(d.shape[0]):
        if d[j] == 0.0:
            continue
        if by_rows(hessian):
            add_row(hessian, image, d[j], j)
            q[j] += d[j] * hessian.ridge[j]
        else:
            add_multiple(q, d[j], hessian.matrix[j])
    if by_rows(hessian):
        for j in range(d.shape[0]):
            q[j] += row_times(hessian, j, image)


@compiled
def multiply_block(hessian: ModelHessian, block: FreeBlock, d: Array) -> Array:
    """H_AA d."""
    product = np.zeros(block.width)
    image = no_image(hessian)
    for p in range(block.width):
        if d[p] == 0.0:
            continue
        if by_rows(hessian):
            add_row(hessian, image, d[p], block.free[p])
        else:
            row = hessian.matrix[block.free[p]]
            for i in range(block.width):
                product[i] += d[p] * row[block.free[i]]
    if by_rows(hessian):
        for p in range(block.width):
            j = block.free[p]
            product[p] = row_times(hessian, j, image) + hessian.ridge[j] * d[p]
    return product


@compiled_in_place
def solve_face(
    hessian: ModelHessian,
    block: FreeBlock,
    normal: Array,
    minus_q: Array,
    on_sum: bool,
    room: float,
    guess: Array,
    ending: Ending,
) -> tuple[Array, float]:
    """d with H_AA d + mu e = -q_A and <e, d> = room, and mu; without the equation mu is 0.

    By conjugate gradients on the plane of the equation, from a guess and preconditioned by the
    diagonal of H.
    """
    inverse = np.empty(block.width)
    steady = np.zeros(block.width)
    flexibility = 0.0
    for p in range(block.width):
        inverse[p] = 1.0 / block.D[block.free[p]]
        steady[p] = normal[p] * inverse[p]
        flexibility += inverse[p]
    d = guess.copy()
    left = minus_q.copy()
    towards = np.zeros(block.width)
    mu = 0.0
    before = 0.0
    fall = 0.0
    steps = 0
    if on_sum:
        add_multiple(d, (room - inner(normal, d)) / flexibility, steady)
    if norm(d) > 0.0:
        add_multiple(left, -1.0, multiply_block(hessian, block, d))
    while steps < CONJUGATE_STEPS:
        if on_sum:  # what is left along e moves nothing
            along = inner(steady, left) / flexibility
            add_multiple(left, -along, normal)
            mu += along
        largest = 0.0
        of_ridge = 0.0
        size = 0.0
        for p in range(block.width):
            square = left[p] * left[p]
            largest = max(largest, abs(left[p]))
            of_ridge += 0.5 * square / hessian.ridge[block.free[p]]
            size += inverse[p] * square
        added = min(of_ridge, 2.0 * ending.size * largest)
        if added <= ending.share * (ending.fall + fall) or ending.stop[0]:
            break
        ratio = size / before if before > 0.0 else 0.0
        for p in range(block.width):
            towards[p] = inverse[p] * left[p] + ratio * towards[p]
        H_towards = multiply_block(hessian, block, towards)
        curvature = inner(towards, H_towards)
        if not curvature > 0.0:
            break
        steps += 1
        step = size / curvature
        before = size
        add_multiple(d, step, towards)
        add_multiple(left, -step, H_towards)
        fall += 0.5 * step * size
    if gives_up(hessian, block, steps):
        ending.stop[0] = True
    if on_sum:  # rounding adds up to another sum than the room
        add_multiple(d, (room - inner(normal, d)) / flexibility, steady)
    return d, mu


@compiled_in_place
def gives_up(hessian: ModelHessian, block: FreeBlock, steps: int) -> bool:
    """Whether conjugate gradients, with these steps more, have taken as long as a matrix would
    have.

    A model by factors was seen to take as long as |A|^2 times the coordinates multiplications.
    """
    if hessian.spent.shape[0] == 0:
        return False
    for p in range(block.width):
        j = block.free[p]
        hessian.spent[0] += 2.0 * steps * (hessian.starts[j + 1] - hessian.starts[j])
    if hessian.spent[0] < block.width**2 * hessian.ridge.shape[0]:
        return False
    hessian.spent[0] = np.inf
    return True


@compiled
def refactored(hessian: ModelHessian, block: FreeBlock, is_free: Array, stop: Array) -> FreeBlock:
    """The block of other free coordinates: by updates of its factors, or afresh where many change.

    It is left half done, and of no use, once stop[0] is set.
    """
    cost = 0
    was_free = np.zeros(is_free.shape[0], np.bool_)
    for p in range(block.width):
        was_free[block.free[p]] = True
    for j in range(is_free.shape[0]):
        if was_free[j] and not is_free[j]:
            cost += REMOVAL
        elif is_free[j] and not was_free[j]:
            cost += ADDITION
    if by_rows(hessian):
        return FreeBlock(list_free(is_free, block.free), block.free, block.L, block.D)
    if cost > block.width:
        width = list_free(is_free, block.free)
        factor(block.L, block.D, width, hessian.matrix, block.free, stop)
        return FreeBlock(width, block.free, block.L, block.D)
    width = block.width
    for p in range(block.width - 1, -1, -1):
        if not is_free[block.free[p]]:
            remove(block.L, block.D, width, block.free, p)
            width -= 1
    for j in range(is_free.shape[0]):
        if is_free[j] and not was_free[j]:
            block.free[width] = j
            append(block.L, block.D, width, hessian.matrix, block.free)
            width += 1
    return FreeBlock(width, block.free, block.L, block.D)


@compiled
def list_free(is_free: Array, free: Array) -> int | np.int64:
    """Write down which coordinates are free; their number."""
    width = np.int64(0)
    for j in range(is_free.shape[0]):
        if is_free[j]:
            free[width] = j
            width += 1
    return width
