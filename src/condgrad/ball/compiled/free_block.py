"""The Hessian H of a quadratic model, and its block H_AA of the coordinates A that are free to move.

H is a matrix, or B B' - pull pull' + diag(ridge) with a row of B a coordinate and a column a sample. There are three
ways to solve with H_AA:

- where H is a matrix, by its own factors, which follow A as it gains and loses coordinates;
- where the rows of B are dense and many more than the samples, by the factors of 1 + sum_A B_j B_j'/ridge_j, which has
  a row a sample and follows A too;
- where the rows of B are sparse, by conjugate gradients, which take two passes over the rows of A a step, and give up
  where they take too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.ldl import add_multiple, add_square, append, factor, inner, multiply, remove, solve
from condgrad.kernels.compiling import compiled, compiled_in_place

REMOVAL, ADDITION, UPDATE_BY_ROWS = 12, 2, 8
"""What a row removed, a row added, or by rows a coordinate changed, costs against a row of factors computed afresh."""
CONJUGATE_STEPS = 1000
"""Conjugate gradients at most: what they end at lowers the model too."""
MATRIX_SHARE = 1.0
"""Multiplications of conjugate gradients after which they give up, as a share of |A|^2 times the coordinates in all: a
model by factors was seen to take as long."""
REFINEMENTS = 2
"""Solutions by dense rows: a second one, of what the first left over, wins back the digits that a difference loses."""
NOTHING_LEFT = 1e-12
"""What a solution may leave over, as a share of the right-hand side, that is not worth a second one."""


class Hessian(NamedTuple):
    """H = matrix, or B B' - pull pull' + diag(ridge) where the matrix has size 0; see `of_matrix` and the others."""

    matrix: Array
    rows: Array
    """B, if it is dense."""
    ridge: Array
    starts: Array
    """Where the entries of each row of a sparse B begin, and where the last one ends."""
    places: Array
    """The samples of these entries."""
    entries: Array
    pull: Array
    """One for each coordinate, if B is sparse."""
    samples: int
    spent: Array
    """Multiplications of conjugate gradients so far; infinite once they gave up, of size 0 where they never do."""


NO_VECTOR, NO_MATRIX = np.empty(0), np.empty((0, 0))
NO_STARTS, NO_PLACES = np.empty(0, np.uint32), np.empty(0, np.uint32)
WITHOUT_END = np.empty(0)


def of_matrix(H: Array) -> Hessian:
    """A Hessian that is a matrix."""
    return Hessian(H, NO_MATRIX, NO_VECTOR, NO_STARTS, NO_PLACES, NO_VECTOR, NO_VECTOR, 0, WITHOUT_END)


def of_rows(B: Array, ridge: Array) -> Hessian:
    """B B' + diag(ridge) for a dense B."""
    return Hessian(NO_MATRIX, B, ridge, NO_STARTS, NO_PLACES, NO_VECTOR, NO_VECTOR, B.shape[1], WITHOUT_END)


def of_sparse_rows(
    starts: Array,
    places: Array,
    entries: Array,
    samples: int,
    *,
    pull: Array,
    ridge: Array,
    spent: Array = WITHOUT_END,
) -> Hessian:
    """B B' - pull pull' + diag(ridge) for a sparse B, from the arrays of its rows."""
    # unsigned, so that no loop asks whether an index counts from the end
    starts, places = starts.astype(np.uint32), places.astype(np.int32, copy=False).view(np.uint32)
    return Hessian(NO_MATRIX, NO_MATRIX, ridge, starts, places, entries, pull, samples, spent)


class FreeBlock(NamedTuple):
    """The coordinates A = free[:width], and the factors L D L' of their block.

    Where the rows of B are sparse there are no factors, and D is the diagonal of H.
    """

    width: int | np.int64
    free: Array
    L: Array
    D: Array


class Ending(NamedTuple):
    """When compiled loops end: once stop[0] is set, and conjugate gradients where the residual is small enough."""

    stop: Array
    share: float
    """What the residual may add to the gap of a point, as a share of what the model has fallen by."""
    size: float
    """Of the set: a residual r adds at most 2 size max |r_j|, and at most sum r_j^2/(2 c_j) with the ridge c."""
    fall: float
    """What the model has fallen by so far."""


@compiled_in_place
def no_free_block(hessian: Hessian, size: int) -> FreeBlock:
    """The block of no coordinate, with room for all."""
    none = np.empty(size, np.int64)
    if has_sparse_rows(hessian):
        return FreeBlock(np.int64(0), none, np.eye(0), diagonal(hessian, size))
    side = hessian.samples if by_rows(hessian) else size
    return FreeBlock(np.int64(0), none, np.eye(side), np.ones(side))


@compiled
def by_rows(hessian: Hessian) -> bool:
    return hessian.ridge.shape[0] > 0


@compiled
def has_sparse_rows(hessian: Hessian) -> bool:
    return hessian.starts.shape[0] > 0


@compiled
def no_image(hessian: Hessian) -> Array:
    """The image B' d of d = 0; with a sparse B one entry more, <pull, d>."""
    return np.zeros(hessian.samples + 1 if has_sparse_rows(hessian) else hessian.samples)


@compiled_in_place
def add_sparse(image: Array, a: float, places: Array, entries: Array) -> None:
    """image += a times a row of B, from the arrays of that row."""
    for t in range(entries.shape[0]):
        image[places[t]] += a * entries[t]


@compiled_in_place
def inner_sparse(places: Array, entries: Array, image: Array) -> float:
    """The inner product of a row of B with an image."""
    found = 0.0
    for t in range(entries.shape[0]):
        found += entries[t] * image[places[t]]
    return found


@compiled_in_place
def add_row(hessian: Hessian, image: Array, a: float, j: int) -> None:
    """The image of d, once a is added to d_j."""
    if has_sparse_rows(hessian):
        row = slice(hessian.starts[j], hessian.starts[j + 1])
        add_sparse(image, a, hessian.places[row], hessian.entries[row])
        image[hessian.samples] += a * hessian.pull[j]
    else:
        add_multiple(image, a, hessian.rows[j])


@compiled_in_place
def row_times(hessian: Hessian, j: int, image: Array) -> float:
    """Entry j of (B B' - pull pull') d, from the image of d."""
    if has_sparse_rows(hessian):
        row = slice(hessian.starts[j], hessian.starts[j + 1])
        found = inner_sparse(hessian.places[row], hessian.entries[row], image)
        return found - hessian.pull[j] * image[hessian.samples]
    return inner(hessian.rows[j], image)


@compiled
def diagonal(hessian: Hessian, size: int) -> Array:
    """The diagonal of H."""
    found = np.empty(size)
    for j in range(size):
        if has_sparse_rows(hessian):
            entries = hessian.entries[hessian.starts[j] : hessian.starts[j + 1]]
            # where means cancel, rounding may leave less than 0
            found[j] = max(0.0, inner(entries, entries) - hessian.pull[j] ** 2) + hessian.ridge[j]
        elif by_rows(hessian):
            found[j] = inner(hessian.rows[j], hessian.rows[j]) + hessian.ridge[j]
        else:
            found[j] = hessian.matrix[j, j]
    return found


@compiled_in_place
def add_product(hessian: Hessian, d: Array, q: Array) -> None:
    """q += H d, for a d with many zeros."""
    image = no_image(hessian)
    for j in range(d.shape[0]):
        if d[j] != 0.0:
            if by_rows(hessian):
                add_row(hessian, image, d[j], j)
                q[j] += d[j] * hessian.ridge[j]
            else:
                add_multiple(q, d[j], hessian.matrix[j])
    if by_rows(hessian):
        for j in range(d.shape[0]):
            q[j] += row_times(hessian, j, image)


@compiled
def multiply_block(hessian: Hessian, block: FreeBlock, d: Array) -> Array:
    """H_AA d."""
    if not by_rows(hessian):
        return multiply(block.L, block.D, block.width, d)
    found, image = np.empty(block.width), no_image(hessian)
    for p in range(block.width):
        add_row(hessian, image, d[p], block.free[p])
    for p in range(block.width):
        j = block.free[p]
        found[p] = row_times(hessian, j, image) + hessian.ridge[j] * d[p]
    return found


@compiled
def solve_block(hessian: Hessian, block: FreeBlock, b: Array) -> None:
    """H_AA^-1 b, in the place of b, by factors.

    By dense rows from (B B' + c)^-1 = 1/c - (B/c) (1 + B' (B/c))^-1 (B/c)'.
    """
    if not by_rows(hessian):
        solve(block.L, block.D, block.width, b)
        return
    B, c, samples = hessian.rows, hessian.ridge, hessian.rows.shape[1]
    left, least = np.empty(block.width), 0.0
    for p in range(block.width):
        left[p], b[p] = b[p], 0.0
        least = max(least, NOTHING_LEFT * abs(left[p]))
    for refinement in range(REFINEMENTS):
        shared, image, largest = np.zeros(samples), np.zeros(samples), 0.0
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
        if refinement + 1 == REFINEMENTS:
            break
        for p in range(block.width):
            left[p] -= inner(B[block.free[p]], image)
            largest = max(largest, abs(left[p]))
        if largest <= least:
            break


@compiled_in_place
def solve_face(
    hessian: Hessian,
    block: FreeBlock,
    normal: Array,
    minus_q: Array,
    on_sum: bool,
    room: float,
    guess: Array,
    ending: Ending,
) -> tuple[Array, float, float]:
    """d with H_AA d + mu e = -q_A and <e, d> = room, mu, and <d, r> for what is left, r = -q_A - mu e - H_AA d.

    By conjugate gradients on the plane of the equation, from a guess and preconditioned by the diagonal of H.
    """
    width = block.width
    inverse, steady = np.empty(width), np.zeros(width)
    flexibility, mu, before, fall = 0.0, 0.0, 0.0, 0.0
    for p in range(width):
        inverse[p] = 1.0 / block.D[block.free[p]]
        steady[p] = normal[p] * inverse[p]
        flexibility += inverse[p]
    d, left, towards, steps = guess.copy(), minus_q.copy(), np.zeros(width), 0
    if on_sum:
        add_multiple(d, (room - inner(normal, d)) / flexibility, steady)
    if np.any(d != 0.0):
        left -= multiply_block(hessian, block, d)
    for _ in range(CONJUGATE_STEPS):
        if on_sum:  # what is left along e moves nothing
            along = inner(steady, left) / flexibility
            add_multiple(left, -along, normal)
            mu += along
        largest, of_ridge, size = 0.0, 0.0, 0.0
        for p in range(width):
            square = left[p] * left[p]
            largest = max(largest, abs(left[p]))
            of_ridge += 0.5 * square / hessian.ridge[block.free[p]]
            size += inverse[p] * square
        if min(2.0 * ending.size * largest, of_ridge) <= ending.share * (ending.fall + fall) or ending.stop[0]:
            break
        ratio = size / before if before > 0.0 else 0.0
        for p in range(width):
            towards[p] = inverse[p] * left[p] + ratio * towards[p]
        image = multiply_block(hessian, block, towards)
        curvature = inner(towards, image)
        if not curvature > 0.0:
            break
        steps += 1
        step, before = size / curvature, size
        add_multiple(d, step, towards)
        add_multiple(left, -step, image)
        fall += 0.5 * step * size
    if gives_up(hessian, block, steps):
        ending.stop[0] = True
    if on_sum:  # rounding adds up to another sum than the room
        add_multiple(d, (room - inner(normal, d)) / flexibility, steady)
    return d, mu, inner(d, left)


@compiled_in_place
def gives_up(hessian: Hessian, block: FreeBlock, steps: int) -> bool:
    """Whether conjugate gradients, with these steps more, have taken as long as a matrix would have."""
    if hessian.spent.shape[0] == 0:
        return False
    for p in range(block.width):
        j = block.free[p]
        hessian.spent[0] += 2.0 * steps * (hessian.starts[j + 1] - hessian.starts[j])
    if hessian.spent[0] < MATRIX_SHARE * block.width**2 * hessian.ridge.shape[0]:
        return False
    hessian.spent[0] = np.inf
    return True


@compiled
def refactored(hessian: Hessian, block: FreeBlock, is_free: Array, stop: Array) -> FreeBlock:
    """The block of other free coordinates: by updates of its factors, or afresh where too many change.

    It is left half done, and of no use, once stop[0] is set.
    """
    count, free, L, D = block
    if has_sparse_rows(hessian):
        count = np.int64(0)
        for j in range(is_free.shape[0]):
            if is_free[j]:
                free[count] = j
                count += 1
        return FreeBlock(count, free, L, D)
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


@compiled_in_place
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
