"""A quadratic model minimised over a polyhedral set by an active-set method, in one compiled call.

    min <q0, x - x0> + <x - x0, H (x - x0)>/2   over   |x|_1 <= size, or x >= 0, sum x <= size, or x >= 0, sum x = size,
                                                or lower <= x <= upper

with a positive definite H (`free_block`). At a point x the set looks the same in all cases: each coordinate has
bounds, and there may be an equation <e, x> = size with signs e. On the boundary of the l1 ball e_j is the sign of x_j,
which is bounded by 0 on one side; in its inside nothing is bounded. The solid simplex, x >= 0 and sum x <= size, is a
simplex where the sum is the size, and a box without upper bounds where it is less. The coordinates off their bounds are
free: a set A. The least point of the face {x : <e, x> = size, the others stay at their bounds} is x + d with

    H_AA d + mu e_A = -q_A,   <e_A, d> = 0,   q the gradient at x.

A round has two parts.

1. Walk (`walk`): to the least point of the face, and where coordinates meet their bounds on the way, of the smaller
   face on which these are fixed.
2. Propose (`descend`, `settle`): sweeps of coordinate descent on the model plus mu |x|_1 find another face; its
   least point is the next x if the model is less there. If it is not, the next walk sets one coordinate more free: the
   one at a bound that violates the optimality conditions most.

Where H is nearly singular, coordinate descent leads nowhere. So after proposals that failed one after the other there
are 1, 3, 7, ... rounds without any. As long as these lower the model, each sets twice as many coordinates free as the
one before.

The l1 ball has two cases more. If mu < 0 on its boundary, the model falls towards the inside, first along the free
coordinates (`step_inside`), then along all. If a step would leave the ball, it ends on the boundary, and a face is
proposed there; a proposal may lead inside as well. The solid simplex has the same two cases. In its inside a round is
that of a box: a walk, which is cut where the sum reaches the size, and a proposal.

Why this ends: all points are feasible, and the model falls from round to round, so that no face is walked to its end
twice; there are finitely many faces. A round always finds a lower point: at the least point of a face, the step with
one violating coordinate more goes a positive length, as all other free coordinates are off their bounds and the new one
moves off its own. A walk that leaves the boundary, from sum x = size and mu < 0, ends at a lower point, whose sum is
less: the least value of the model for a given sum is a convex function of it, and rises with it there. A step through
the inside that the boundary cuts short ends at the least point of no face: one on the boundary is found before the next
such step. Where rounding leaves no lower point, the round is the last. Conjugate gradients end at points that are not
quite the least ones of their faces: the model falls all the same, and the gap, which is computed afresh after each
round, or the number of rounds ends it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled import BOX, L1_BALL, SIMPLEX, SOLID_SIMPLEX, Polytope
from condgrad.ball.compiled.free_block import (
    Ending,
    FreeBlock,
    Hessian,
    add_product,
    add_row,
    by_rows,
    diagonal,
    has_sparse_rows,
    multiply_block,
    no_free_block,
    no_image,
    refactored,
    row_times,
    solve_block,
    solve_face,
)
from condgrad.ball.compiled.ldl import add_multiple, inner
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place, entry_point
from condgrad.rounding import ON_BOUNDARY

SWEEPS, MOST_SWEEPS, FEW = 4, 12, 0.03
"""Sweeps of coordinate descent that propose a face, at least and at most, and the share of its coordinates that may
still meet or leave their bounds in the last."""
LONGEST_PAUSE = 63
"""Rounds without a proposal after many that failed."""
VISIBLE_FALL = 1e-13
"""A fall of the model, as a share of its fall so far, that is more than the rounding of its value."""
MULTIPLIER_STEPS = 50
"""Newton steps for a guess of the multiplier: far more than the few that they take."""


class Face(NamedTuple):
    """The bounds of each coordinate near a point, and the signs e of the equation <e, x> = size, which may not hold."""

    signs: Array
    lower: Array
    upper: Array


@entry_point
def minimise(
    hessian: Hessian,
    q0: Array,
    x0: Array,
    polytope: Polytope,
    mu: float,
    accuracy: float,
    rounds: int,
    stop: Array,
) -> tuple[Array, float, bool, bool]:
    """The least point, its multiplier mu, whether a norm is below the size, and whether it is as accurate as asked.

    It is so once its gap is at most `accuracy` times the fall from x0, or rounding allows no lower point. `mu` is a
    guess of the multiplier: 0 where the norm is likely below the size, below 0 for none. Some rounds, or a stop[0] that
    another thread or conjugate gradients that give up have set, end it early, at a point of the set that is no worse
    than x0.
    """
    kind, size, k = polytope.kind, polytope.size, x0.shape[0]
    block, curvatures = no_free_block(hessian, k), diagonal(hessian, k)
    face = Face(np.zeros(k), np.empty(k), np.empty(k))
    x, q, value = x0.copy(), q0.copy(), 0.0
    may_be_slack = bounds_norm(kind)
    on_sum = kind == SIMPLEX or (may_be_slack and on_boundary(x, size))
    if kind == BOX:
        mu = 0.0
    elif may_be_slack and not on_sum and mu < 0.0:
        mu = separable_multiplier(curvatures, q, x, kind, size)
    # a start says little of the active face, and nothing inside the ball: propose one, unless the constraint is slack
    proposal_due = kind == BOX or (may_be_slack and mu > 0.0)
    release_due = False
    pause, rounds_left_of_pause, released = 0, 0, 1
    for _ in range(rounds):
        ending = Ending(stop, 0.25 * accuracy, size, -value)
        reached_boundary = False
        if not proposal_due:
            y, inside = x.copy(), may_be_slack and not on_sum
            if inside:
                mu = 0.0
            if inside and kind == L1_BALL:
                block, is_least = step_inside(hessian, block, q, y, size, ending)
                if is_least and not stop[0]:
                    return y, mu, True, True
            else:
                set_face(x, polytope, face)
                is_free = off_bounds(x, face)
                if release_due and not release_most_violating(q, x, kind, mu, face, is_free, released):
                    return x, mu, may_be_slack and not on_sum, True
                block = refactored(hessian, block, is_free, stop)
                block, mu = walk(hessian, block, face, on_sum, size, y, q, ending)
                if inside:
                    cut_at_boundary(x, y, size)
            if stop[0]:
                break
            q_there, value_there = model_at(hessian, q0, x0, y, kind, size)
            falls, from_boundary = value_there < value + VISIBLE_FALL * value, inside and on_boundary(x, size)
            reached_boundary = inside and on_boundary(y, size) and (falls or not from_boundary)
            if falls or reached_boundary:
                x, q, value, release_due = y, q_there, value_there, False
                released = min(2 * released, k)
            elif from_boundary and not release_due:  # mu is 0 but for rounding: one coordinate more is set free
                on_sum, release_due, released = True, True, 1
                continue
            elif release_due and released > 1:
                released = 1
            elif release_due or (inside and kind == L1_BALL):
                return x, mu, may_be_slack and not on_sum, True
            if reached_boundary:  # where all coordinates may be free: propose a smaller face
                on_sum, proposal_due = True, True
                mu = separable_multiplier(curvatures, q, x, kind, size)
        if gap(hessian, q, x, mu, polytope) <= -accuracy * value:
            return x, mu, may_be_slack and not on_sum, True
        if may_be_slack and mu <= 0.0 and not proposal_due and (on_sum or kind == L1_BALL):
            on_sum = False
            continue
        if rounds_left_of_pause > 0 and not proposal_due:
            rounds_left_of_pause, release_due = rounds_left_of_pause - 1, True
            continue
        block, y, mu_there = propose(hessian, block, curvatures, q, x, mu, polytope, face, ending)
        if stop[0]:
            break
        q_there, value_there = model_at(hessian, q0, x0, y, kind, size)
        release_due = not value_there < value + VISIBLE_FALL * value
        pause = min(2 * pause + 1, LONGEST_PAUSE) if release_due else 0
        rounds_left_of_pause, released = pause, 1
        # back inside, the next step might be cut again: the least point of a face on the boundary comes first
        release_due = release_due or (reached_boundary and not on_boundary(y, size))
        if not release_due:
            x, q, value, mu = y, q_there, value_there, mu_there
            on_sum = kind == SIMPLEX or (may_be_slack and on_boundary(x, size))
            if gap(hessian, q, x, mu, polytope) <= -accuracy * value:
                return x, mu, may_be_slack and not on_sum, True
        elif proposal_due and kind != BOX:  # where x is not the least point of its face, nothing is known of mu
            release_due = False
        proposal_due = False
    return x, mu, may_be_slack and not on_sum, False


@compiled
def bounds_norm(kind: int) -> bool:
    """Whether the set is one of |x|_1 <= size, whose norms may be below that."""
    return kind in (L1_BALL, SOLID_SIMPLEX)


@compiled
def norm(x: Array) -> float:
    """|x|_1."""
    found = 0.0
    for j in range(x.shape[0]):
        found += abs(x[j])
    return found


@compiled
def on_boundary(x: Array, size: float) -> bool:
    """Whether |x|_1 = size up to rounding."""
    return bool(norm(x) >= size * (1.0 - ON_BOUNDARY))


@compiled
def set_face(x: Array, polytope: Polytope, face: Face) -> None:
    """The signs and the bounds of the face that x is on."""
    for j in range(x.shape[0]):
        if polytope.kind == BOX:
            face.signs[j], face.lower[j], face.upper[j] = 0.0, polytope.lower[j], polytope.upper[j]
        else:
            set_sign(face, j, -1.0 if polytope.kind == L1_BALL and x[j] < 0.0 else 1.0)


@compiled
def set_sign(face: Face, j: int, sign: float) -> None:
    """Bound x_j by 0 to the numbers of a sign."""
    face.signs[j] = sign
    face.lower[j] = 0.0 if sign > 0.0 else -np.inf
    face.upper[j] = np.inf if sign > 0.0 else 0.0


@compiled_in_place
def off_bounds(x: Array, face: Face) -> Array:
    """Which coordinates are strictly between their bounds."""
    found = np.empty(x.shape[0], np.bool_)
    for j in range(x.shape[0]):
        found[j] = face.lower[j] < x[j] < face.upper[j]
    return found


@compiled_in_place
def release_most_violating(q: Array, x: Array, kind: int, mu: float, face: Face, is_free: Array, count: int) -> bool:
    """Free the coordinates at bounds whose moves off them lower the model fastest, so many; False where none does."""
    falls = np.zeros(x.shape[0])
    for j in range(x.shape[0]):
        if is_free[j] or face.lower[j] == face.upper[j]:
            continue
        sign = 1.0 if x[j] == face.lower[j] else -1.0
        if kind == L1_BALL:  # from 0 it may move to either side
            sign = -1.0 if q[j] > 0.0 else 1.0
        falls[j] = max(0.0, -sign * q[j] - mu)
    level = falls.max() if count == 1 else np.sort(falls)[max(0, x.shape[0] - count)]
    found = 0
    for j in range(x.shape[0]):
        if falls[j] > 0.0 and falls[j] >= level and found < count:
            is_free[j] = True
            found += 1
            if kind == L1_BALL:
                set_sign(face, j, -1.0 if q[j] > 0.0 else 1.0)
    return found > 0


@compiled_in_place
def step_inside(
    hessian: Hessian, block: FreeBlock, q: Array, x: Array, size: float, ending: Ending
) -> tuple[FreeBlock, bool]:
    """Move x through the inside of the l1 ball to the least point of all, or up to the boundary; whether it is least.

    From the boundary the step is along the coordinates that are not 0. This leads inside, where mu < 0 on their face;
    along all of them it might not.
    """
    from_boundary = on_boundary(x, size)
    is_free = np.empty(x.shape[0], np.bool_)
    for j in range(x.shape[0]):
        is_free[j] = x[j] != 0.0 or not from_boundary
    block = refactored(hessian, block, is_free, ending.stop)
    d, _, _ = direction(hessian, block, q, q, np.bool_(False), 0.0, np.zeros(block.width), ending)
    step = length_inside(x, d, block, size)
    for p in range(block.width):
        x[block.free[p]] += step * d[p]
    return block, step == 1.0 and not from_boundary


@compiled_in_place
def length_inside(x: Array, d: Array, block: FreeBlock, size: float) -> float:
    """The largest step up to 1 with |x + step d|_1 <= size: Newton's method from the right, on a convex function."""
    step = 1.0
    for _ in range(2 * block.width + 2):
        excess, room, rate = -size, size, 0.0
        for p in range(block.width):
            here = x[block.free[p]]
            there = here + step * d[p]
            excess += abs(there)
            room -= here if there > 0.0 else -here
            rate += d[p] if there > 0.0 else -d[p]
        if excess <= 0.0 or not rate > 0.0:
            break
        shorter = room / rate  # the difference step - excess / rate would leave a short step few digits
        if not shorter < step:
            break
        step = max(0.0, shorter)
    return step


@compiled_exactly
def cut_at_boundary(x: Array, y: Array, size: float) -> None:
    """Move y back towards x, which is in the solid simplex, to where its sum is the size, if it is more.

    By a share of the way: products of two numbers in the unit of x may leave the floats.
    """
    sum_there = norm(y)
    if sum_there > size:
        sum_here = norm(x)
        share = max(0.0, size - sum_here) / (sum_there - sum_here)
        for j in range(x.shape[0]):
            y[j] = x[j] + share * (y[j] - x[j])


@compiled_in_place
def walk(
    hessian: Hessian,
    block: FreeBlock,
    face: Face,
    on_sum: bool,
    size: float,
    x: Array,
    q: Array,
    ending: Ending,
) -> tuple[FreeBlock, float]:
    """Move x to the least point of its face, or of a smaller one where bounds are met on the way; its multiplier.

    A step that meets bounds is cut at the first, or replaced by `settle` if that lowers the model more.
    """
    q, mu = q.copy(), 0.0  # followed on the free coordinates alone
    may_settle = True
    while block.width > 0 and not ending.stop[0]:
        room, zero = size - sum_of_free(x, block, face), np.zeros(block.width)
        d, mu, unsolved = direction(hessian, block, face.signs, q, on_sum, room, zero, ending)
        step, first, meeting = step_to_bounds(x, d, block, face)
        if first < 0:
            for p in range(block.width):
                x[block.free[p]] += d[p]
            break
        is_free = np.zeros(x.shape[0], np.bool_)
        slope = 0.0
        for p in range(block.width):
            is_free[block.free[p]] = True
            slope += q[block.free[p]] * d[p]
        if meeting > 1 and may_settle:
            may_settle = False
            y, q_there = x.copy(), q.copy()
            block, mu_there, change = settle(hessian, block, face, on_sum, size, y, q_there, d, mu, unsolved, ending)
            if change < slope * (step - 0.5 * step * step):
                x[:] = y
                return block, mu_there
            block = refactored(hessian, block, is_free, ending.stop)
            continue
        image = multiply_block(hessian, block, d)
        for p in range(block.width):
            j = block.free[p]
            x[j] = min(max(x[j] + step * d[p], face.lower[j]), face.upper[j])
            q[j] += step * image[p]
            if j == first:  # whatever rounding says
                x[j] = face.lower[j] if d[p] < 0.0 else face.upper[j]
            is_free[j] = face.lower[j] < x[j] < face.upper[j]
        block = refactored(hessian, block, is_free, ending.stop)
    return block, mu


@compiled
def sum_of_free(x: Array, block: FreeBlock, face: Face) -> float:
    """<e_A, x_A>."""
    found = 0.0
    for p in range(block.width):
        found += face.signs[block.free[p]] * x[block.free[p]]
    return found


@compiled_in_place
def step_to_bounds(x: Array, d: Array, block: FreeBlock, face: Face) -> tuple[float, int, int]:
    """The longest step up to 1 within the bounds, the coordinate that ends it or -1, and how many 1 takes to theirs."""
    step, first, meeting = 1.0, -1, 0
    for p in range(block.width):
        j = block.free[p]
        bound = face.upper[j] if d[p] > 0.0 else face.lower[j]
        if d[p] == 0.0 or face.lower[j] < x[j] + d[p] < face.upper[j]:
            continue
        meeting += 1
        ratio = max(0.0, (bound - x[j]) / d[p])
        if ratio < step or first < 0:
            step, first = min(ratio, step), j
    return step, first, meeting


@compiled
def settle(
    hessian: Hessian,
    block: FreeBlock,
    face: Face,
    on_sum: bool,
    size: float,
    x: Array,
    q: Array,
    d: Array,
    mu: float,
    unsolved: float,
    ending: Ending,
) -> tuple[FreeBlock, float, float]:
    """Fix all coordinates that the step d takes to their bounds there, step on from that point, and so on.

    x ends at the least point of a smaller face. What the model changes by is told too: it may rise, and is infinite
    where no coordinate is left to keep the equation.
    """
    change, room = 0.0, 0.0
    move, whole, is_free = np.zeros(x.shape[0]), np.zeros(x.shape[0]), np.zeros(x.shape[0], np.bool_)
    while block.width > 0 and not ending.stop[0]:
        meeting = False
        is_free[:] = False
        for p in range(block.width):
            j = block.free[p]
            end = x[j] + d[p]
            is_free[j] = face.lower[j] < end < face.upper[j]
            move[p] = 0.0 if is_free[j] else (face.lower[j] if end <= face.lower[j] else face.upper[j]) - x[j]
            meeting = meeting or not is_free[j]
        if not meeting:
            for p in range(block.width):
                change += 0.5 * q[block.free[p]] * d[p]
                x[block.free[p]] += d[p]
            return block, mu, change - 0.5 * (mu * room + unsolved)
        image = multiply_block(hessian, block, move)
        room = size
        for p in range(block.width):
            j = block.free[p]
            change += move[p] * (q[j] + 0.5 * image[p])
            q[j] += image[p]
            if is_free[j]:
                room -= face.signs[j] * x[j]
            else:
                x[j] = face.lower[j] if x[j] + d[p] <= face.lower[j] else face.upper[j]
        for p in range(block.width):
            whole[block.free[p]] = d[p]
        block = refactored(hessian, block, is_free, ending.stop)
        if block.width > 0:
            guess = np.empty(block.width)
            for p in range(block.width):
                guess[p] = whole[block.free[p]]
            d, mu, unsolved = direction(hessian, block, face.signs, q, on_sum, room, guess, ending)
        if not on_sum:
            room = 0.0
    return block, mu, np.inf if on_sum else change


@compiled
def direction(
    hessian: Hessian, block: FreeBlock, signs: Array, q: Array, on_sum: bool, room: float, guess: Array, ending: Ending
) -> tuple[Array, float, float]:
    """d with H_AA d + mu e = -q_A and <e, d> = room, and mu; d = -H_AA^-1 q_A and mu = 0 where there is no equation.

    Where d comes from a guess and an iteration, the equations have a residual: <d, residual> is told too.
    """
    d, normal = np.empty(block.width), np.empty(block.width)
    for p in range(block.width):
        d[p] = -q[block.free[p]]
        normal[p] = signs[block.free[p]]
    mean = 0.0
    if on_sum:  # the part of q along e moves nothing, and would hide the rest by its rounding
        mean = inner(normal, d) / block.width
        add_multiple(d, -mean, normal)
    if has_sparse_rows(hessian):
        d, mu, unsolved = solve_face(hessian, block, normal, d, on_sum, room, guess, ending)
        return d, mean + mu, unsolved
    if not on_sum:
        solve_block(hessian, block, d)
        return d, 0.0, 0.0
    solve_block(hessian, block, d)
    solved_normal = normal.copy()
    solve_block(hessian, block, solved_normal)
    flexibility = inner(normal, solved_normal)
    mu = (inner(normal, d) - room) / flexibility
    add_multiple(d, -mu, solved_normal)
    # once more: a small difference of large numbers does not add up to the room
    add_multiple(d, (room - inner(normal, d)) / flexibility, solved_normal)
    return d, mean + mu, 0.0


@compiled_in_place
def propose(
    hessian: Hessian,
    block: FreeBlock,
    curvatures: Array,
    q: Array,
    x: Array,
    mu: float,
    polytope: Polytope,
    face: Face,
    ending: Ending,
) -> tuple[FreeBlock, Array, float]:
    """A point that may be lower than x: the least one of a face that coordinate descent finds, with its multiplier.

    In a box, and where the norm is below the size, it is where coordinate descent ends. Where there is none, it is x.
    """
    kind, size = polytope.kind, polytope.size
    y, q_there = x.copy(), q.copy()
    mu = descend(hessian, curvatures, y, q_there, max(0.0, mu) if bounds_norm(kind) else mu, polytope)
    fall = -0.5 * (inner(q, y - x) + inner(q_there, y - x))
    ending = Ending(ending.stop, ending.share, size, ending.fall + max(0.0, fall))
    if kind == BOX or ending.stop[0] or (bounds_norm(kind) and mu == 0.0 and norm(y) < size):
        return block, y, mu
    set_face(y, polytope, face)
    block = refactored(hessian, block, y != 0.0, ending.stop)
    if block.width > 0 and not ending.stop[0]:
        on_sum = np.bool_(True)  # a constant is of a type of its own, for which all would be compiled once more
        room, zero = size - sum_of_free(y, block, face), np.zeros(block.width)
        d, mu, unsolved = direction(hessian, block, face.signs, q_there, on_sum, room, zero, ending)
        if kind == SIMPLEX or mu >= 0.0:
            block, mu, _ = settle(hessian, block, face, on_sum, size, y, q_there, d, mu, unsolved, ending)
            if block.width > 0:
                return block, y, mu
    return block, x.copy(), mu


@compiled_in_place
def descend(hessian: Hessian, curvatures: Array, x: Array, q: Array, mu: float, polytope: Polytope) -> float:
    """Sweeps of coordinate descent on the model plus mu times the sum or the norm; q stays its gradient.

    After each sweep mu moves to where the sum or the norm is closer to the size; where it ends is told. The sweeps end
    when few coordinates meet or leave their bounds.
    """
    k, start = x.shape[0], x.copy()
    ridge, image = hessian.ridge, no_image(hessian)
    for sweep in range(MOST_SWEEPS):
        free, changed = 0, 0
        for j in range(k):
            slope = q[j]
            if by_rows(hessian):
                slope += row_times(hessian, j, image) + ridge[j] * (x[j] - start[j])
            end, threshold = x[j] - slope / curvatures[j], mu / curvatures[j]
            end = one_coordinate(end, threshold, j, polytope)
            move, side = end - x[j], side_of(end, j, polytope)
            free += side == 0 if polytope.kind == BOX else side != 0
            if move != 0.0:
                changed += side != side_of(x[j], j, polytope)
                x[j] = end
                if by_rows(hessian):
                    add_row(hessian, image, move, j)
                else:
                    add_multiple(q, move, hessian.matrix[j])
        if polytope.kind != BOX:
            mu = closer_multiplier(curvatures, x, mu, polytope)
        if sweep + 1 >= SWEEPS and changed <= FEW * free:
            break
    if by_rows(hessian):
        for j in range(k):
            q[j] += row_times(hessian, j, image) + ridge[j] * (x[j] - start[j])
    return mu


@compiled
def side_of(x_j: float, j: int, polytope: Polytope) -> int:
    """Which face a coordinate is on: its sign, or in a box -1 and 1 at its bounds and 0 between them."""
    if polytope.kind == BOX:
        return int(x_j == polytope.upper[j]) - int(x_j == polytope.lower[j])
    return int(x_j > 0.0) - int(x_j < 0.0)


@compiled
def one_coordinate(end: float, threshold: float, j: int, polytope: Polytope) -> float:
    """The least point of (x_j - end)^2/2 plus the threshold times |x_j|, over what x_j may be on its own."""
    if polytope.kind == BOX:
        return min(max(end, polytope.lower[j]), polytope.upper[j])
    if polytope.kind == L1_BALL:
        return max(0.0, end - threshold) + min(0.0, end + threshold)
    return max(0.0, end - threshold)


@compiled_in_place
def closer_multiplier(curvatures: Array, x: Array, mu: float, polytope: Polytope) -> float:
    """The multiplier after a Newton step on |x|_1 = size, if H were its diagonal and no coordinate met or left 0."""
    excess, rate = -polytope.size, 0.0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            excess += abs(x[j])
            rate += 1.0 / curvatures[j]
    if rate > 0.0:
        mu += excess / rate
    return max(0.0, mu) if bounds_norm(polytope.kind) else mu


@entry_point
def separable_multiplier(curvatures: Array, q: Array, x: Array, kind: int, size: float) -> float:
    """The multiplier of |x|_1 <= size if H were its diagonal: Newton's method from the left, on a convex function."""
    mu = 0.0
    for _ in range(MULTIPLIER_STEPS):
        excess, rate = -size, 0.0
        for j in range(x.shape[0]):
            end = x[j] - q[j] / curvatures[j]
            left = (abs(end) if kind == L1_BALL else end) - mu / curvatures[j]
            if left > 0.0:
                excess += left
                rate += 1.0 / curvatures[j]
        if not excess > 0.0 or not mu + excess / rate > mu:
            break
        mu += excess / rate
    return mu


@compiled
def gap(hessian: Hessian, q: Array, x: Array, mu: float, polytope: Polytope) -> float:
    """A bound on how much lower than at x the model may be: the less of two.

    The first is max <q, x - s> over the points s of the set. By rows there is a second, which keeps the ridge c of the
    model, and adds mu times the norm or the sum less the size to it in place of the constraint:

        mu (size - |x|_1) + sum_j max_d -q_j d - mu (|x_j + d| - |x_j|) - c_j d^2/2

    It is the sharper one where the point is near the least: a residual r in q adds r_j^2/(2 c_j), not size max |r_j|.
    """
    kind = polytope.kind
    if kind == BOX:
        mu = 0.0
    elif bounds_norm(kind):
        mu = max(0.0, mu)
    linear, steepest = 0.0, 0.0 if bounds_norm(kind) else -np.inf
    curved = mu * polytope.size
    for j in range(x.shape[0]):
        linear += q[j] * x[j]
        if kind == BOX:
            linear -= q[j] * (polytope.lower[j] if q[j] > 0.0 else polytope.upper[j])
        else:
            steepest = max(steepest, -q[j], q[j] if kind == L1_BALL else -q[j])
        if by_rows(hessian):
            c = hessian.ridge[j]
            end = one_coordinate(x[j] - q[j] / c, mu / c, j, polytope)
            curved += (q[j] + 0.5 * c * (end - x[j])) * (x[j] - end) - mu * abs(end)
    if kind != BOX:
        linear += polytope.size * steepest
    return min(linear, curved) if by_rows(hessian) else linear


@compiled
def model_at(hessian: Hessian, q0: Array, x0: Array, x: Array, kind: int, size: float) -> tuple[Array, float]:
    """The gradient and the value of the model."""
    q = q0.copy()
    add_product(hessian, x - x0, q)
    # between two points of one norm the multiplier times what the norm changes is 0: it hides small falls if left in
    mu, value = 0.0, 0.0
    if bounds_norm(kind) and on_boundary(x, size) and on_boundary(x0, size):
        mu = max(0.0, -inner(q0, x0) / size)
    for j in range(x.shape[0]):
        move = x[j] - x0[j]
        growth = abs(x[j]) - abs(x0[j])
        if x0[j] * x[j] >= 0.0:
            growth = move if x0[j] + x[j] > 0.0 else -move
        value += 0.5 * (q0[j] + q[j]) * move + mu * growth
    return q, value


def minimise_by_arrays(H: Array, q0: Array, x0: Array, polytope: Polytope) -> Array:
    """The least point by SciPy: with H = R'R the model is |R x - b|^2/2 up to a constant.

    A point of the other sets is V w, with its corners as the columns of V and weights w >= 0 of sum 1. Then
    R x - b = C w with C = R V - b 1', and nonnegative least squares of C w ~ 0, sum w ~ 1 finds a multiple of the w
    that is best among those of sum 1: |C w|^2 has the same minimiser on all sums, up to its length.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import lsq_linear, nnls

    R = cholesky(H)
    b = solve_triangular(R, H @ x0 - q0, trans="T")
    if polytope.kind == BOX:
        return lsq_linear(R, b, (polytope.lower, polytope.upper), method="bvls", tol=1e-15, max_iter=10_000).x
    corners = polytope.size * np.eye(x0.shape[0])
    if polytope.kind == L1_BALL:
        corners = np.hstack([corners, -corners])
    if polytope.kind == SOLID_SIMPLEX:
        corners = np.hstack([corners, np.zeros((x0.shape[0], 1))])
    C = R @ corners - b[:, None]
    scale = np.linalg.norm(C)
    w, _ = nnls(np.vstack([C, np.full((1, C.shape[1]), scale)]), np.append(np.zeros(len(C)), scale), maxiter=100_000)
    return corners @ (w / w.sum())
