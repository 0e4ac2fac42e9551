"""A quadratic model minimised over a polyhedral set by an active-set method, in one compiled call.

    min <q0, x - x0> + <x - x0, H (x - x0)>/2   over   |x|_1 <= size,
                                                or     x >= 0, sum x <= size,
                                                or     x >= 0, sum x = size,
                                                or     lower <= x <= upper

or of the model plus size |x|_1 over all x, or over x >= 0; with a positive definite H
(`free_block`). At a point x the set looks the same in all cases: each coordinate has bounds, and
there may be an equation <e, x> = size with signs e. On the boundary of the l1 ball e_j is the sign
of x_j, which is bounded by 0 on one side; in its inside nothing is bounded. The solid simplex,
x >= 0 and sum x <= size, is a simplex where the sum is the size, and a box without upper bounds
where it is less. A penalised model has the bounds of the boundary of the ball, no equation, and a
multiplier mu that is known. The coordinates off their bounds are free: a set A. The least point of
the face {x : <e, x> = size, the others stay at their bounds} is x + d with

    H_AA d + mu e_A = -q_A,   <e_A, d> = 0,   q the gradient at x.

A round has two parts.

1. Walk (`walk`): to the least point of the face, and where coordinates meet their bounds on the
   way, of the smaller face on which these are fixed. All that a step takes to their bounds are
   fixed at once; if the model is not less there, one is fixed after the other.
2. Propose (`propose`): sweeps of coordinate descent on the model plus mu |x|_1 find another face;
   its least point is the next x if the model is less there. If it is not, the next walk sets one
   coordinate more free: the one at a bound that violates the optimality conditions most.

Where H is nearly singular, coordinate descent leads nowhere. So after proposals that failed one
after the other there are 1, 3, 7, ... rounds without any. As long as these lower the model, each
sets twice as many coordinates free as the one before.

The l1 ball has two cases more. If mu < 0 on its boundary, the model falls towards the inside, first
along the free coordinates, then along all. If a step would leave the ball, it ends on the boundary,
and a face is proposed there; a proposal may lead inside as well. The solid simplex has the same two
cases. In its inside a round is that of a box: a walk, which is cut where the sum reaches the size,
and a proposal.

Why this ends: all points are feasible, and the model falls from round to round, so that no face is
walked to its end twice; there are finitely many faces. A round always finds a lower point: at the
least point of a face, the step with one violating coordinate more goes a positive length, as all
other free coordinates are off their bounds and the new one moves off its own. A walk that leaves
the boundary, from sum x = size and mu < 0, ends at a lower point, whose sum is less: the least
value of the model for a given sum is a convex function of it, and rises with it there. A step
through the inside that the boundary cuts short ends at the least point of no face: one on the
boundary is found before the next such step. Where rounding leaves no lower point, the round is the
last. Conjugate gradients end at points that are not quite the least ones of their faces: the model
falls all the same, and the gap, which is computed afresh after each round, or the number of rounds
ends it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled import (
    BOX,
    L1_BALL,
    PENALISED,
    PENALISED_POSITIVE,
    SIMPLEX,
    SOLID_SIMPLEX,
    Region,
    free_block,
)
from condgrad.ball.compiled.free_block import Ending, FreeBlock, ModelHessian
from condgrad.ball.compiled.ldl import add_multiple, inner, norm, solve_factored
from condgrad.kernels.compiling import compiled, compiled_exactly, compiled_in_place, entry_point
from condgrad.rounding import ON_BOUNDARY

SWEEPS, MOST_SWEEPS, FEW_CHANGES = 4, 12, 0.03
"""Sweeps of coordinate descent propose a face. There are at least the first number of them, and at
most the second. Between, they end once no more than the third share of the coordinates meets or
leaves its bounds in a sweep.
"""
VISIBLE_FALL = 1e-13
"""A fall of the model by less than this share of its fall so far counts as rounding."""

WALK, RELEASE, PROPOSE = range(3)
"""What to do next: a walk, a walk with coordinates at their bounds set free, or only a proposal."""
LOWER, REACHED_BOUNDARY, AT_LEAST, RELEASE_ONE, NONE_LOWER = range(5)
"""Where a walk ends: at a lower point; at a lower point where the boundary cut it short; at its
start, which is the least point of its face; there, and one coordinate must be set free; there, and
nothing is lower.
"""


class QuadraticProgram(NamedTuple):
    """What is minimised."""

    hessian: ModelHessian
    curvatures: Array
    """The diagonal of H."""
    q0: Array
    x0: Array
    region: Region


class Position(NamedTuple):
    """A point of the set, and the model there."""

    x: Array
    q: Array
    """The gradient of the model."""
    value: float
    mu: float
    on_sum: bool
    """Whether the equation <e, x> = size holds, and goes on to hold."""


class ModelFace(NamedTuple):
    """The bounds of each coordinate near a point, and the signs e of the equation."""

    signs: Array
    lower: Array
    upper: Array


@entry_point
def minimise(
    hessian: ModelHessian,
    q0: Array,
    x0: Array,
    region: Region,
    mu: float,
    accuracy: float,
    rounds: int,
    stop: Array,
) -> tuple[Array, float, bool, bool]:
    """The least point, its multiplier, whether a norm is below the size, and whether it is
    accurate.

    It is so once its gap is at most `accuracy` times the fall from x0, or rounding allows no lower
    point. `mu` is a guess of the multiplier: 0 where the norm is likely below the size, below 0 for
    none. Some rounds, or a stop[0] that another thread or conjugate gradients that give up have
    set, end it early, at a point of the set that is no worse than x0.
    """
    k = x0.shape[0]
    problem = QuadraticProgram(hessian, free_block.diagonal(hessian, k), q0, x0, region)
    block = free_block.no_free_block(hessian, problem.curvatures)
    face = ModelFace(np.zeros(k), np.empty(k), np.empty(k))
    here, due = start(problem, mu)
    released = 1
    pause = 0
    pause_left = 0
    is_accurate = False
    for _ in range(rounds):
        ending = Ending(stop, 0.5 * accuracy, region.size, -here.value)
        outcome = AT_LEAST
        if due != PROPOSE:
            block, there, outcome = walk(problem, block, face, here, due, released, ending)
            if stop[0]:  # in the middle of a walk, where the equation may not hold
                break
            here = there
            is_accurate = outcome == NONE_LOWER
            if outcome == RELEASE_ONE:
                due = RELEASE
                released = 1
                continue
            released = min(2 * released, k)
        if is_accurate or gap(hessian, here, region) <= -accuracy * here.value:
            is_accurate = True
            break
        if outcome == REACHED_BOUNDARY:  # all coordinates may be free there: propose a smaller face
            due = PROPOSE
        if due != PROPOSE and leads_inside(here, region.kind):
            here = Position(here.x, here.q, here.value, 0.0, np.bool_(False))  # type: ignore[arg-type]
            due = WALK
            continue
        if due != PROPOSE and pause_left > 0:
            pause_left -= 1
            due = RELEASE
            continue
        block, there = propose(problem, block, face, here, ending)
        if stop[0]:
            break
        succeeds = is_lower(there, here)
        pause = 0 if succeeds else 2 * pause + 1
        pause_left = pause
        released = 1
        # back inside, the next step might be cut again: a face on the boundary comes first
        if succeeds and (outcome != REACHED_BOUNDARY or there.on_sum):
            here = there
            due = WALK
            is_accurate = gap(hessian, here, region) <= -accuracy * here.value
        else:  # at a point that is not the least of its face, nothing is known of mu
            due = WALK if due == PROPOSE else RELEASE
        if is_accurate:
            break
    return here.x, here.mu, bounds_norm(region.kind) and not here.on_sum, is_accurate


@compiled_in_place
def bounds_norm(kind: int) -> bool:
    """Whether the set is one of |x|_1 <= size, whose norms may be below that."""
    return kind in (L1_BALL, SOLID_SIMPLEX)


@compiled_in_place
def is_penalised(kind: int) -> bool:
    return kind in (PENALISED, PENALISED_POSITIVE)


@compiled_in_place
def has_both_signs(kind: int) -> bool:
    """Whether a coordinate that is 0 may move to either side."""
    return kind in (L1_BALL, PENALISED)


@compiled_in_place
def leads_inside(here: Position, kind: int) -> bool:
    """Whether the model falls towards the inside of the ball, or x is there already."""
    return bounds_norm(kind) and here.mu <= 0.0 and (here.on_sum or kind == L1_BALL)


@compiled_in_place
def is_lower(there: Position, here: Position) -> bool:
    """Whether the model is lower there, by more than its rounding."""
    return there.value < here.value + VISIBLE_FALL * here.value


@compiled
def on_boundary(x: Array, size: float) -> bool:
    """Whether |x|_1 = size up to rounding."""
    return norm(x) >= size * (1.0 - ON_BOUNDARY)


@compiled_in_place
def start(problem: QuadraticProgram, mu: float) -> tuple[Position, int]:
    """The first position, and what is due there.

    A start says little of the active face, and nothing inside the ball: a proposal, unless the
    constraint seems slack.
    """
    x = problem.x0
    q = problem.q0
    kind = problem.region.kind
    size = problem.region.size
    on_sum = keeps_sum(x, kind, size)
    if kind == BOX:
        mu = 0.0
    elif is_penalised(kind):
        mu = size
    elif bounds_norm(kind) and not on_sum and mu < 0.0:
        mu = separable_multiplier(problem.curvatures, q, x, kind, size)
    due = WALK if kind == SIMPLEX or (bounds_norm(kind) and not mu > 0.0) else PROPOSE
    return Position(x.copy(), q.copy(), 0.0, mu, on_sum), due


@compiled
def keeps_sum(x: Array, kind: int, size: float) -> bool:
    """Whether the equation <e, x> = size holds at a point of the set."""
    return kind == SIMPLEX or (bounds_norm(kind) and on_boundary(x, size))


@compiled
def position_at(problem: QuadraticProgram, x: Array, mu: float) -> Position:
    """A point with the gradient and the value of the model there."""
    x0 = problem.x0
    q0 = problem.q0
    region = problem.region
    kind = region.kind
    move = np.empty(x.shape[0])
    q = q0.copy()
    for j in range(x.shape[0]):
        move[j] = x[j] - x0[j]
    free_block.add_product(problem.hessian, move, q)
    on_sum = keeps_sum(x, kind, region.size)
    weight = 0.0
    if is_penalised(kind):
        weight = region.size
    elif bounds_norm(kind) and on_sum and on_boundary(x0, region.size):
        # what a multiple of the norm changes by is 0 here: left in the model, it hides small falls
        weight = max(0.0, -inner(q0, x0) / region.size)
    value = 0.0
    for j in range(x.shape[0]):
        growth = abs(x[j]) - abs(x0[j])
        if x0[j] * x[j] >= 0.0:
            growth = move[j] if x0[j] + x[j] > 0.0 else -move[j]
        value += 0.5 * (q0[j] + q[j]) * move[j] + weight * growth
    return Position(x, q, value, mu, on_sum)


@compiled_in_place
def walk(
    problem: QuadraticProgram,
    block: FreeBlock,
    face: ModelFace,
    here: Position,
    due: int,
    released: int,
    ending: Ending,
) -> tuple[FreeBlock, Position, int]:
    """Walk to the least point of the face of a point, or of a smaller one.

    From the boundary of the ball to its inside, the walk is along the coordinates that are not 0.
    This leads inside, where mu < 0 on their face; along all of them it might not.
    """
    region = problem.region
    size = problem.region.size
    inside = bounds_norm(region.kind) and not here.on_sum
    from_boundary = inside and on_boundary(here.x, size)
    if inside:
        here = Position(here.x, here.q, here.value, 0.0, here.on_sum)
    set_face(here.x, region, inside, face)
    is_free = off_bounds(here.x, face, from_boundary)
    if due == RELEASE and not release(here, region.kind, face, is_free, released):
        return block, here, NONE_LOWER
    there = here
    lower = False
    for attempt in range(2):
        block, x, mu, meets_bounds = least_of_face(
            problem.hessian, block, face, is_free, here, size, attempt == 0, ending
        )
        if inside:
            cut_at_boundary(here.x, x, size)
        there = position_at(problem, x, mu)
        lower = bool(is_lower(there, here) and (block.width > 0 or not here.on_sum))
        if lower or not meets_bounds:
            break
    if inside and there.on_sum and (lower or not from_boundary):
        mu = separable_multiplier(problem.curvatures, there.q, there.x, region.kind, size)
        return block, Position(there.x, there.q, there.value, mu, there.on_sum), REACHED_BOUNDARY
    if lower:
        return block, there, LOWER
    if due != RELEASE:  # now the multiplier is known
        here = Position(here.x, here.q, here.value, there.mu, here.on_sum or from_boundary)
    return block, here, without_a_lower_point(region.kind, inside, from_boundary, due, released)


@compiled_in_place
def without_a_lower_point(
    kind: int, inside: bool, from_boundary: bool, due: int, released: int
) -> int:
    """What a walk that found no lower point says of the point where it began."""
    if due == RELEASE and released == 1:
        return NONE_LOWER
    if due == RELEASE or from_boundary:  # mu is 0 but for rounding, where no way leads inside
        return RELEASE_ONE
    if inside and kind == L1_BALL:
        return NONE_LOWER
    return AT_LEAST


@compiled
def set_face(x: Array, region: Region, inside: bool, face: ModelFace) -> None:
    """The signs and the bounds of the face that x is on."""
    for j in range(x.shape[0]):
        if region.kind == BOX:
            face.lower[j] = region.lower[j]
            face.upper[j] = region.upper[j]
        elif inside and region.kind == L1_BALL:
            face.lower[j] = -np.inf
            face.upper[j] = np.inf
        elif has_both_signs(region.kind) and x[j] < 0.0:
            set_sign(face, j, -1.0)
        else:
            set_sign(face, j, 1.0)


@compiled_in_place
def set_sign(face: ModelFace, j: int, sign: float) -> None:
    """Bound x_j by 0 to the numbers of a sign."""
    face.signs[j] = sign
    face.lower[j] = min(0.0, sign * np.inf)
    face.upper[j] = max(0.0, sign * np.inf)


@compiled_in_place
def off_bounds(x: Array, face: ModelFace, from_boundary: bool) -> Array:
    """Which coordinates are strictly between their bounds, and are not 0 on the boundary."""
    is_off = np.empty(x.shape[0], np.bool_)
    for j in range(x.shape[0]):
        is_off[j] = face.lower[j] < x[j] < face.upper[j] and (x[j] != 0.0 or not from_boundary)
    return is_off


@compiled_in_place
def release(here: Position, kind: int, face: ModelFace, is_free: Array, count: int) -> bool:
    """Free so many coordinates, whose moves off their bounds lower the model fastest; or False."""
    falls = np.zeros(is_free.shape[0])
    for j in range(is_free.shape[0]):
        if is_free[j] or face.lower[j] == face.upper[j]:
            continue
        if has_both_signs(kind):  # from 0 it may move to either side
            set_sign(face, j, -1.0 if here.q[j] > 0.0 else 1.0)
        slope = here.q[j] if here.x[j] == face.lower[j] else -here.q[j]
        falls[j] = max(0.0, -slope - here.mu)
    released = 0
    while released < count:
        fastest = 0
        for j in range(is_free.shape[0]):
            if falls[j] > falls[fastest]:
                fastest = j
        if not falls[fastest] > 0.0:
            break
        falls[fastest] = 0.0
        is_free[fastest] = True
        released += 1
    return released > 0


@compiled_exactly
def cut_at_boundary(x: Array, y: Array, size: float) -> None:
    """Move y back towards x, a point of the ball, to where its norm is the size, if it is more.

    Newton's method from the right, on the norm along the way, which is convex. By a share of the
    way: products of two numbers in the unit of x may leave the floats.
    """
    share = 1.0
    while share > 0.0:  # at 0 rounding alone is outside
        excess = -size
        room = size
        rate = 0.0
        for j in range(x.shape[0]):
            there = x[j] + share * (y[j] - x[j])
            sign = 1.0 if there > 0.0 else -1.0
            excess += sign * there
            room -= sign * x[j]
            rate += sign * (y[j] - x[j])
        # the difference share - excess / rate would leave a short step few digits
        if not (excess > 0.0 and rate > 0.0 and room / rate < share):
            break
        share = max(0.0, room / rate)
    if share < 1.0:
        for j in range(x.shape[0]):
            y[j] = x[j] + share * (y[j] - x[j])


@compiled
def least_of_face(
    hessian: ModelHessian,
    block: FreeBlock,
    face: ModelFace,
    is_free: Array,
    here: Position,
    size: float,
    at_once: bool,
    ending: Ending,
) -> tuple[FreeBlock, Array, float, bool]:
    """The least point of a face, or of a smaller one where bounds are met on the way there.

    A step that meets bounds is cut at the first; or `at_once` all coordinates that it takes to
    their bounds are fixed there, and the others stay. Then the model may rise, and where no
    coordinate is left, the equation may not hold. Its multiplier, and whether bounds were met, are
    told too.
    """
    # q is followed on the free coordinates alone
    x = here.x.copy()
    q = here.q.copy()
    mu = here.mu
    is_free = is_free.copy()
    rest = np.zeros(x.shape[0])  # of the last step, where conjugate gradients begin
    meets_bounds = False
    while True:
        block = free_block.refactored(hessian, block, is_free, ending.stop)
        if block.width == 0 or ending.stop[0]:
            break
        d, mu = direction(hessian, block, face, x, q, here.on_sum, mu, size, rest, ending)
        step, first = step_to_bounds(x, d, block, face)
        if first >= 0 and at_once:
            step = 0.0
        for p in range(block.width):
            j = block.free[p]
            lower = face.lower[j]
            upper = face.upper[j]
            end = min(max(x[j] + step * d[p], lower), upper)
            stays_off = lower < x[j] + d[p] < upper
            if j == first or (at_once and d[p] != 0.0 and not stays_off):  # whatever rounding says
                end = lower if d[p] < 0.0 else upper
            is_free[j] = lower < end < upper or (step == 0.0 and stays_off)
            rest[j] = x[j] + d[p] - end
            d[p] = end - x[j]
            x[j] = end
        if first < 0:
            break
        meets_bounds = True
        rise_of_q = free_block.multiply_block(hessian, block, d)
        for p in range(block.width):
            q[block.free[p]] += rise_of_q[p]
    return block, x, mu, meets_bounds


@compiled_in_place
def step_to_bounds(x: Array, d: Array, block: FreeBlock, face: ModelFace) -> tuple[float, int]:
    """The longest step up to 1 within the bounds, and the coordinate that ends it or -1."""
    step = 1.0
    first = -1
    for p in range(block.width):
        j = block.free[p]
        if d[p] == 0.0 or face.lower[j] < x[j] + d[p] < face.upper[j]:
            continue
        bound = face.upper[j] if d[p] > 0.0 else face.lower[j]
        ratio = max(0.0, (bound - x[j]) / d[p])
        if ratio < step or first < 0:
            step = min(ratio, step)
            first = j
    return step, first


@compiled_in_place
def direction(
    hessian: ModelHessian,
    block: FreeBlock,
    face: ModelFace,
    x: Array,
    q: Array,
    on_sum: bool,
    mu: float,
    size: float,
    rest: Array,
    ending: Ending,
) -> tuple[Array, float]:
    """d with H_AA d + mu e = -q_A and <e, x + d> = size, and mu.

    Without the equation mu stays what it is. Conjugate gradients begin at `rest`.
    """
    d = np.empty(block.width)
    normal = np.empty(block.width)
    guess = np.empty(block.width)
    room = size
    mean = 0.0
    for p in range(block.width):
        j = block.free[p]
        d[p] = -q[j]
        normal[p] = face.signs[j]
        guess[p] = rest[j]
        room -= normal[p] * x[j]
        mean += normal[p] * d[p] / block.width
    if on_sum:  # the part of q along e moves nothing, and would hide the rest by its rounding
        mu = mean
    add_multiple(d, -mu, normal)
    if free_block.by_rows(hessian):
        d, change = free_block.solve_face(hessian, block, normal, d, on_sum, room, guess, ending)
        return d, mu + change
    solve_factored(block.L, block.D, block.width, d)
    if on_sum:
        solved_normal = normal.copy()
        solve_factored(block.L, block.D, block.width, solved_normal)
        flexibility = inner(normal, solved_normal)
        for _ in range(2):  # a small difference of large numbers does not add up to the room
            change = (inner(normal, d) - room) / flexibility
            add_multiple(d, -change, solved_normal)
            mu += change
    return d, mu


@compiled_in_place
def propose(
    problem: QuadraticProgram, block: FreeBlock, face: ModelFace, here: Position, ending: Ending
) -> tuple[FreeBlock, Position]:
    """A point that may be lower: the least one of a face that coordinate descent finds.

    Where there is no equation, and where the norm is below the size, it is where coordinate descent
    ends. Where there is none, it is the point that was.
    """
    region = problem.region
    size = problem.region.size
    y = here.x.copy()
    q = here.q.copy()
    mu = descend(problem.hessian, problem.curvatures, y, q, here.mu, region)
    has_equation = region.kind == SIMPLEX or bounds_norm(region.kind)
    is_slack = bounds_norm(region.kind) and mu == 0.0 and norm(y) < size
    if is_slack or not has_equation:
        return block, position_at(problem, y, mu)
    fall = ending.fall
    is_free = np.empty(y.shape[0], np.bool_)
    for j in range(y.shape[0]):
        fall -= 0.5 * (here.q[j] + q[j]) * (y[j] - here.x[j])
        is_free[j] = y[j] != 0.0
    set_face(y, region, is_slack, face)
    on_face = Position(y, q, 0.0, mu, has_equation)
    ending = Ending(ending.stop, ending.share, size, max(ending.fall, fall))
    block, x, mu, _ = least_of_face(
        problem.hessian, block, face, is_free, on_face, size, has_equation, ending
    )
    if block.width == 0:
        return block, here
    return block, position_at(problem, x, mu)


@compiled_in_place
def descend(
    hessian: ModelHessian, curvatures: Array, x: Array, q: Array, mu: float, region: Region
) -> float:
    """Sweeps of coordinate descent on the model plus mu |x|_1; q stays its gradient.

    After each sweep mu moves to where the norm is closer to the size; where it ends is told. The
    sweeps end when few coordinates meet or leave their bounds.
    """
    if bounds_norm(region.kind):
        mu = max(0.0, mu)
    before = x.copy()
    image = free_block.no_image(hessian)
    for sweep in range(MOST_SWEEPS):
        free = 0
        changed = 0
        for j in range(x.shape[0]):
            slope = q[j]
            if free_block.by_rows(hessian):
                slope += free_block.row_times(hessian, j, image)
                slope += hessian.ridge[j] * (x[j] - before[j])
            end = x[j] - slope / curvatures[j]
            end = one_coordinate(end, mu / curvatures[j], j, region)
            move = end - x[j]
            side = side_of(end, j, region)
            free += side == 0 if region.kind == BOX else side != 0
            if move != 0.0:
                changed += side != side_of(x[j], j, region)
                x[j] = end
                if free_block.by_rows(hessian):
                    free_block.add_row(hessian, image, move, j)
                else:
                    add_multiple(q, move, hessian.matrix[j])
        if region.kind == SIMPLEX or bounds_norm(region.kind):
            mu = closer_multiplier(curvatures, x, mu, region)
        if sweep + 1 >= SWEEPS and changed <= FEW_CHANGES * free:
            break
    if free_block.by_rows(hessian):
        for j in range(x.shape[0]):
            q[j] += free_block.row_times(hessian, j, image) + hessian.ridge[j] * (x[j] - before[j])
    return mu


@compiled
def side_of(x_j: float, j: int, region: Region) -> int:
    """Which face a coordinate is on: its sign, or in a box -1 and 1 at its bounds, 0 between."""
    if region.kind == BOX:
        return int(x_j == region.upper[j]) - int(x_j == region.lower[j])
    return int(x_j > 0.0) - int(x_j < 0.0)


@compiled
def one_coordinate(end: float, threshold: float, j: int, region: Region) -> float:
    """The least point of (x_j - end)^2/2 + threshold |x_j|, over what x_j may be on its own."""
    if region.kind == BOX:
        return min(max(end, region.lower[j]), region.upper[j])
    if has_both_signs(region.kind):
        return max(0.0, end - threshold) + min(0.0, end + threshold)
    return max(0.0, end - threshold)


@compiled_in_place
def closer_multiplier(curvatures: Array, x: Array, mu: float, region: Region) -> float:
    """mu after a Newton step on |x|_1 = size, if H were its diagonal and no coordinate met 0."""
    excess = -region.size
    rate = 0.0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            excess += abs(x[j])
            rate += 1.0 / curvatures[j]
    if rate > 0.0:
        mu += excess / rate
    return max(0.0, mu) if bounds_norm(region.kind) else mu


@compiled
def separable_multiplier(curvatures: Array, q: Array, x: Array, kind: int, size: float) -> float:
    """The multiplier of |x|_1 <= size if H were its diagonal.

    Newton's method from the left, on a convex function: at each step but the last some coordinate
    meets 0.
    """
    mu = 0.0
    for _ in range(x.shape[0] + 1):
        excess = -size
        rate = 0.0
        for j in range(x.shape[0]):
            end = x[j] - q[j] / curvatures[j]
            left = (abs(end) if has_both_signs(kind) else end) - mu / curvatures[j]
            if left > 0.0:
                excess += left
                rate += 1.0 / curvatures[j]
        if not excess > 0.0 or not mu + excess / rate > mu:
            break
        mu += excess / rate
    return mu


@compiled_in_place
def reach(region: Region) -> float:
    """What the norm of the least point of a penalised model does not exceed."""
    return region.lower[0] if region.lower.shape[0] > 0 else np.inf


@compiled
def gap(hessian: ModelHessian, here: Position, region: Region) -> float:
    """A bound on how much lower than here the model may be: the less of two.

    The first is max <q, x - s> over the points s of the set. Of a penalised model it is
    max <q, x - s> + mu (|x|_1 - |s|_1) over the s whose norm is at most `reach`. By
    rows there is a second bound, which keeps the ridge c of the model, and adds mu times the norm
    less the size to it in place of the constraint:

        mu (size - |x|_1) + sum_j max_d -q_j d - mu (|x_j + d| - |x_j|) - c_j d^2/2

    It is the sharper one where the point is near the least: a residual r in q adds r_j^2/(2 c_j),
    not size max |r_j|. A penalised model has no constraint, and the sum is the bound.
    """
    kind = region.kind
    x = here.x
    q = here.q
    mu = here.mu
    if bounds_norm(kind):
        mu = max(0.0, mu)
    linear = 0.0
    steepest = -np.inf
    curved = mu * (norm(x) if is_penalised(kind) else region.size)
    for j in range(x.shape[0]):
        linear += q[j] * x[j]
        if kind == BOX:
            linear -= q[j] * (region.lower[j] if q[j] > 0.0 else region.upper[j])
        steepest = max(steepest, abs(q[j]) if has_both_signs(kind) else -q[j])
        if free_block.by_rows(hessian):
            c = hessian.ridge[j]
            end = one_coordinate(x[j] - q[j] / c, mu / c, j, region)
            curved += (q[j] + 0.5 * c * (end - x[j])) * (x[j] - end) - mu * abs(end)
    if kind == SOLID_SIMPLEX:
        steepest = max(0.0, steepest)
    if is_penalised(kind):
        linear += mu * norm(x)
        if steepest > mu:
            linear += (steepest - mu) * reach(region)
    elif kind != BOX:
        linear += region.size * steepest
    return min(linear, curved) if free_block.by_rows(hessian) else linear
