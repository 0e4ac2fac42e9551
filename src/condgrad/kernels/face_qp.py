"""A quadratic model minimised over a polyhedral set by an active-set method, in one compiled call.

    min <q0, x - x0> + <x - x0, H (x - x0)>/2   over   |x|_1 <= size, or x >= 0, sum x = size, or lower <= x <= upper

H is positive definite: given as it is, or, where there are many more coordinates than samples, as B B' + diag(c) with a
row of B a coordinate. A face of the set has free coordinates A, the others resting at a bound (0, lower or upper), and
where the sum is bound too a normal e of signs: on it H_AA d + mu e = -q_A, <e, d> = 0 leads to its least point, by the
factors of H_AA, which gain and lose rows as A does.

A round walks to the least point of a face. Where coordinates meet their bounds on the way, the first stays at its
bound; or all do, if the model is less there (`drop_all`: at the least point of the smaller face that is left by and by)
or at the end of the step, projected onto the face. Then a few sweeps of coordinate descent at the multiplier mu propose
another face; if the model is less at its least point, found by `drop_all` too, the next round starts there. If it is
not, the coordinate that violates the optimality conditions most is set free, and walks.

Why this ends: all points are feasible and each round lowers the model, so no face is walked to its end twice, and
there are finitely many. A round always can: the walk on a face with one violating coordinate more goes a positive
length, as all others in A are off their bounds and that one moves off it. Rounding may defeat this; a round that does
not lower the model is the last, and the best point is returned.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels import BOX, L1_BALL, SIMPLEX
from condgrad.kernels.compiling import compiled
from condgrad.kernels.ldl import add_multiple, add_square, append, factor, inner, remove, solve

SWEEPS = 3
"""Sweeps of coordinate descent that propose a face."""
PATIENCE = 8
"""Bounds met one at a time, in a walk, before a proposal is tried again; twice as many each time it had no end."""
VISIBLE = 1e-13
"""A fall of the model, as a share of its fall so far, that is more than rounding."""


@compiled
def minimise(
    H: Array,
    B: Array,
    c: Array,
    q0: Array,
    x0: Array,
    kind: int,
    size: float,
    lower: Array,
    upper: Array,
    mu: float,
    share: float,
    rounds: int,
) -> tuple[Array, float, bool, bool]:
    """The least point to a gap of `share` times the fall from x0; its multiplier; whether it is in the inside; if done.

    `mu` is a guess of the multiplier, 0 for an l1 ball that does not bind, below 0 where there is none. Not being done
    after some rounds is no failure: the next call goes on from the point, on the same model. H is of size 0 where the
    model is B B' + diag(c), and B and c are where it is H.
    """
    k, by_rows = x0.shape[0], B.shape[0] > 0
    side = B.shape[1] if by_rows else k
    L, D, A = np.zeros((side, side)), np.ones(side), np.empty(k, np.int64)
    for i in range(side):
        L[i, i] = 1.0
    # numba would compile all that takes a constant once more for it
    a, patience = np.int64(0), np.int64(PATIENCE)
    diagonal = np.empty(k)
    for j in range(k):
        diagonal[j] = inner(B[j], B[j]) + c[j] if by_rows else H[j, j]
    x, q, value = x0.copy(), q0.copy(), 0.0
    e, wanted = np.zeros(k), np.zeros(k, np.bool_)
    bound = kind == SIMPLEX or (kind == L1_BALL and norm(x) >= size * (1.0 - 1e-12))
    on_hold = kind == L1_BALL and not bound and mu != 0.0  # inside by its start alone: first a proposal
    last, leaving, ended = False, False, True
    for _ in range(rounds):
        if not on_hold:
            inside = kind == L1_BALL and not bound and not leaving
            free_coordinates(x, kind, bound or leaving, lower, upper, e, wanted)
            leaving = False
            if last and (bound or kind == BOX):
                enters = most_violating(q, x, kind, bound, mu, lower, upper, e)
                if enters < 0:
                    return x, mu, not bound, True
                wanted[enters] = True
            a = retarget(H, B, c, L, D, A, a, wanted)
            y, q_face = x.copy(), q.copy()
            a, bound_there, mu, ended = walk(
                H, B, c, L, D, A, a, e, y, q_face, kind, bound, size, lower, upper, patience
            )
            patience = np.int64(PATIENCE) if ended else 2 * patience
            q_there, fallen = model_at(H, B, c, q0, x0, y, kind, size)
            if fallen < value + VISIBLE * value:
                x, q, value, bound, last = y, q_there, fallen, bound_there, False
                if inside and not bound:  # the least point of all
                    return x, 0.0, True, True
            elif last:
                return x, mu, not bound, True
        if gap(q, x, kind, size, lower, upper) <= -share * value:
            return x, mu, not bound, True
        if kind == BOX:
            on_hold, last = False, True
            y, q_there = x.copy(), q.copy()
            descend(H, B, c, diagonal, y, q_there, kind, mu, lower, upper)
        else:
            if on_hold and mu < 0.0:
                mu = separable_multiplier(diagonal, q, x, size)
            if kind == L1_BALL and not on_hold and mu <= 0.0:
                if not ended:
                    continue
                if not bound:
                    if last:
                        return x, mu, True, True
                    last = True
                    continue
                # to leave the boundary for the inside: along the support, which leads there
                bound, leaving, last = False, True, False
                continue
            on_hold, last = False, True
            y, q_there = x.copy(), q.copy()
            descend(H, B, c, diagonal, y, q_there, kind, mu, lower, upper)
            for j in range(k):
                wanted[j] = y[j] != 0.0
                e[j] = 1.0 if y[j] > 0.0 else -1.0
            a = retarget(H, B, c, L, D, A, a, wanted)
            if a == 0:
                continue
            d = np.empty(k)
            room = size
            for p in range(a):
                room -= e[A[p]] * y[A[p]]
            mu_there = direction(B, c, L, D, a, A, e, q_there, kind != BOX, room, d)
            if kind == L1_BALL and mu_there < 0.0:
                if not bound:  # the constraint is idle
                    mu, last = 0.0, False
                continue
            a, mu_there, _ = drop_all(
                H, B, c, L, D, A, a, e, y, q_there, d, mu_there, kind, kind != BOX, size, lower, upper
            )
            if a == 0:
                continue
        q_there, fallen = model_at(H, B, c, q0, x0, y, kind, size)
        if fallen < value + VISIBLE * value:
            x, q, value, last = y, q_there, fallen, False
            if kind != BOX:
                mu, bound = mu_there, True
    return x, mu, not bound, False


@compiled
def norm(x: Array) -> float:
    """|x|_1."""
    found = 0.0
    for j in range(x.shape[0]):
        found += abs(x[j])
    return found


@compiled
def free_coordinates(x: Array, kind: int, bound: bool, lower: Array, upper: Array, e: Array, wanted: Array) -> None:
    """Which coordinates are off their bounds, and the normal of the face."""
    for j in range(x.shape[0]):
        if kind == BOX:
            wanted[j] = lower[j] < x[j] < upper[j]
            e[j] = 0.0
        else:
            wanted[j] = x[j] != 0.0 or not bound
            e[j] = -1.0 if x[j] < 0.0 else 1.0


@compiled
def most_violating(q: Array, x: Array, kind: int, bound: bool, mu: float, lower: Array, upper: Array, e: Array) -> int:
    """The coordinate at a bound whose move off it lowers the model fastest, e being its way; -1 where none does."""
    best, most = -1, 0.0
    for j in range(x.shape[0]):
        way, gain = 1.0, 0.0
        if kind == BOX:
            if lower[j] == upper[j]:
                continue
            if x[j] == lower[j]:
                gain = -q[j]
            elif x[j] == upper[j]:
                way, gain = -1.0, q[j]
        elif x[j] == 0.0 and bound:
            if kind == L1_BALL and q[j] > 0.0:
                way, gain = -1.0, q[j] - mu
            else:
                gain = -q[j] - mu
        if gain > most:
            best, most = j, gain
            e[j] = way
    return best


@compiled
def walk(
    H: Array,
    B: Array,
    c: Array,
    L: Array,
    D: Array,
    A: Array,
    a: int,
    e: Array,
    x: Array,
    q: Array,
    kind: int,
    bound: bool,
    size: float,
    lower: Array,
    upper: Array,
    patience: int,
) -> tuple[int, bool, float, bool]:
    """Move x to the least point of a face, or of one inside it where bounds are met on the way; q is kept on A alone.

    Whether it came there: the walk ends early where more bounds are met, one at a time, than patience allows.
    """
    k, mu = x.shape[0], 0.0
    d, end, kept = np.empty(k), np.empty(k), np.zeros(k, np.bool_)
    tried = False
    while a > 0:
        room = size
        for p in range(a):
            room -= e[A[p]] * x[A[p]]
        mu = direction(B, c, L, D, a, A, e, q, bound, room, d)
        step, meets, turned_back = 1.0, -1, 0
        kept.fill(False)
        for p in range(a):
            j, there = A[p], x[A[p]] + d[p]
            kept[j] = True
            if kind == BOX:
                if (x[j] == lower[j] or x[j] == upper[j]) and d[p] * e[j] <= 0.0:
                    kept[j] = False
                    turned_back += 1
                elif there >= upper[j] and (upper[j] - x[j]) / d[p] < step:
                    step, meets = (upper[j] - x[j]) / d[p], j
                elif there <= lower[j] and (lower[j] - x[j]) / d[p] < step:
                    step, meets = (lower[j] - x[j]) / d[p], j
            elif bound:
                if x[j] == 0.0:
                    if d[p] * e[j] <= 0.0:
                        kept[j] = False
                        turned_back += 1
                elif there * e[j] <= 0.0 and -x[j] / d[p] < step:
                    step, meets = -x[j] / d[p], j
        if turned_back > 0:
            a = retarget(H, B, c, L, D, A, a, kept)
            continue
        if kind == L1_BALL and not bound:
            step = length_inside(x, d, A, a, size)
            for p in range(a):
                x[A[p]] += step * d[p]
                q[A[p]] -= step * q[A[p]]
            if step == 1.0:
                return a, False, 0.0, True
            bound = True
            for p in range(a):
                j = A[p]
                e[j], kept[j] = 1.0 if x[j] > 0.0 else -1.0, x[j] != 0.0
            a = retarget(H, B, c, L, D, A, a, kept)
            continue
        if step == 1.0:
            for p in range(a):
                x[A[p]] += d[p]
            return a, bound, mu, True
        slope, meeting = 0.0, 0
        for p in range(a):
            j = A[p]
            slope += q[j] * d[p]
            end[p] = x[j] + d[p]
            meeting += end[p] * e[j] <= 0.0 if kind != BOX else not lower[j] < end[p] < upper[j]
        cut = slope * (step - 0.5 * step * step)
        if meeting > 1 and not tried:
            tried = True
            y, q_there, held = x.copy(), q.copy(), kept.copy()
            a, mu_there, change = drop_all(H, B, c, L, D, A, a, e, y, q_there, d, mu, kind, bound, size, lower, upper)
            if change < cut:
                for j in range(k):
                    x[j], q[j] = y[j], q_there[j]
                return a, bound, mu_there, True
            a = retarget(H, B, c, L, D, A, a, held)
            continue
        clip(end, a, A, e, kind, size, lower, upper)
        for p in range(a):
            end[p] -= x[A[p]]
        image = product(B, c, L, D, a, A, end)
        change = 0.0
        for p in range(a):
            change += end[p] * (q[A[p]] + 0.5 * image[p])
        if change < cut:
            for p in range(a):
                j = A[p]
                x[j] += end[p]
                q[j] += image[p]
        else:
            for p in range(a):
                j = A[p]
                x[j] += step * d[p]
                q[j] -= step * (q[j] + (mu * e[j] if bound else 0.0))
        for p in range(a):
            j = A[p]
            if kind == BOX:
                x[j] = min(max(x[j], lower[j]), upper[j])
                kept[j] = lower[j] < x[j] < upper[j]
            else:
                x[j] = e[j] * max(0.0, e[j] * x[j])
                kept[j] = x[j] != 0.0
            # what met its bound first is there, whatever rounding says
            if j == meets and kept[j]:
                kept[j] = False
                x[j] = 0.0 if kind != BOX else (upper[j] if upper[j] - x[j] < x[j] - lower[j] else lower[j])
        a = retarget(H, B, c, L, D, A, a, kept)
        patience -= 1
        if patience < 0:
            return a, bound, mu, False
    return a, bound, mu, True


@compiled
def drop_all(
    H: Array,
    B: Array,
    c: Array,
    L: Array,
    D: Array,
    A: Array,
    a: int,
    e: Array,
    x: Array,
    q: Array,
    d: Array,
    mu: float,
    kind: int,
    bound: bool,
    size: float,
    lower: Array,
    upper: Array,
) -> tuple[int, float, float]:
    """Put all coordinates that the step d takes to their bounds there, step on from that point, and so on.

    Ends at the least point of a smaller face, and tells what the model changes by: maybe for the worse.
    """
    change, room = 0.0, 0.0
    kept, there = np.zeros(x.shape[0], np.bool_), np.zeros(x.shape[0])
    while a > 0:
        meeting = False
        kept.fill(False)
        for p in range(a):
            j, end = A[p], x[A[p]] + d[p]
            there[p] = 0.0
            kept[j] = True
            if kind == BOX:
                if not lower[j] < end < upper[j]:
                    there[p] = (lower[j] if end <= lower[j] else upper[j]) - x[j]
                    kept[j], meeting = False, True
            elif end * e[j] <= 0.0:
                there[p] = -x[j]
                kept[j], meeting = False, True
        if not meeting:
            for p in range(a):
                change += 0.5 * q[A[p]] * d[p]
                x[A[p]] += d[p]
            return a, mu, change - 0.5 * mu * room
        image = product(B, c, L, D, a, A, there)
        room = size
        for p in range(a):
            j = A[p]
            change += there[p] * (q[j] + 0.5 * image[p])
            q[j] += image[p]
            if kept[j]:
                room -= e[j] * x[j]
            elif kind == BOX:
                x[j] = lower[j] if x[j] + d[p] <= lower[j] else upper[j]
            else:
                x[j] = 0.0
        a = retarget(H, B, c, L, D, A, a, kept)
        if a > 0:
            mu = direction(B, c, L, D, a, A, e, q, bound, room, d)
        if not bound:
            room = 0.0
    return a, mu, np.inf if bound else change


@compiled
def direction(
    B: Array,
    c: Array,
    L: Array,
    D: Array,
    a: int,
    A: Array,
    e: Array,
    q: Array,
    bound: bool,
    room: float,
    d: Array,
) -> float:
    """d with H_AA d + mu e = -q_A and <e, d> = room, and its mu; d = -H_AA^-1 q_A and 0 where nothing binds the sum."""
    mean = 0.0
    if bound:  # the part of q along e moves nothing, and may hide the rest
        for p in range(a):
            mean -= e[A[p]] * q[A[p]]
        mean /= a
    for p in range(a):
        d[p] = -q[A[p]] - mean * e[A[p]] if bound else -q[A[p]]
    solve_face(B, c, L, D, a, A, d)
    if not bound:
        return 0.0
    normal = np.empty(a)
    for p in range(a):
        normal[p] = e[A[p]]
    solve_face(B, c, L, D, a, A, normal)
    excess, bend = -room, 0.0
    for p in range(a):
        excess += e[A[p]] * d[p]
        bend += e[A[p]] * normal[p]
    left = room
    for p in range(a):
        d[p] -= (excess / bend) * normal[p]
        left -= e[A[p]] * d[p]
    for p in range(a):  # once more: a small difference of large numbers does not add up to the room
        d[p] += (left / bend) * normal[p]
    return mean + excess / bend


@compiled
def solve_face(B: Array, c: Array, L: Array, D: Array, a: int, A: Array, b: Array) -> None:
    """H_AA^-1 b, in the place of b.

    By rows L D L' = 1 + sum_A B_j B_j'/c_j, and (B B' + c)^-1 = 1/c - (B/c) (1 + B' (B/c))^-1 (B/c)'; a second pass, on
    what the first left over, wins back the digits that this difference loses.
    """
    if B.shape[0] == 0:
        solve(L, D, a, b)
        return
    left = np.empty(a)
    for p in range(a):
        left[p], b[p] = b[p], 0.0
    for _ in range(2):
        shared = np.zeros(B.shape[1])
        for p in range(a):
            add_multiple(shared, left[p] / c[A[p]], B[A[p]])
        solve(L, D, B.shape[1], shared)
        image = np.zeros(B.shape[1])
        for p in range(a):
            more = (left[p] - inner(B[A[p]], shared)) / c[A[p]]
            b[p] += more
            add_multiple(image, more, B[A[p]])
            left[p] -= c[A[p]] * more
        for p in range(a):
            left[p] -= inner(B[A[p]], image)


@compiled
def product(B: Array, c: Array, L: Array, D: Array, a: int, A: Array, d: Array) -> Array:
    """H_AA d."""
    image = np.zeros(a)
    if B.shape[0] > 0:
        shared = np.zeros(B.shape[1])
        for p in range(a):
            add_multiple(shared, d[p], B[A[p]])
        for p in range(a):
            image[p] = inner(B[A[p]], shared) + c[A[p]] * d[p]
        return image
    for i in range(a):
        add_multiple(image[: i + 1], d[i], L[i, : i + 1])
    for i in range(a):
        image[i] *= D[i]
    for i in range(a - 1, -1, -1):
        image[i] = inner(L[i, : i + 1], image[: i + 1])
    return image


@compiled
def clip(y: Array, a: int, A: Array, e: Array, kind: int, size: float, lower: Array, upper: Array) -> None:
    """The point of the closed face that is nearest to y, entries in the order of A."""
    if kind == BOX:
        for p in range(a):
            y[p] = min(max(y[p], lower[A[p]]), upper[A[p]])
        return
    top, inside = -np.inf, True
    for p in range(a):
        y[p] *= e[A[p]]
        top = max(top, y[p])
        inside = inside and y[p] >= 0.0
    if not inside:
        # Michelot's passes, relative to the largest entry, which is exact for those that are kept
        theta, count = -size, 0
        while True:
            above, kept = 0.0, 0
            for p in range(a):
                if y[p] - top > theta:
                    above += y[p] - top
                    kept += 1
            if kept == count or kept == 0:
                break
            theta, count = max(theta, (above - size) / kept), kept
        for p in range(a):
            y[p] = max(0.0, y[p] - top - theta)
    for p in range(a):
        y[p] *= e[A[p]]


@compiled
def length_inside(x: Array, d: Array, A: Array, a: int, size: float) -> float:
    """The largest step up to 1 with |x + step d|_1 <= size: Newton's method from the right, on a convex function."""
    step = 1.0
    for _ in range(2 * a + 2):
        norm, rate = 0.0, 0.0
        for p in range(a):
            there = x[A[p]] + step * d[p]
            norm += abs(there)
            rate += d[p] if there > 0.0 else -d[p]
        if norm <= size or not rate > 0.0:
            break
        shorter = step - (norm - size) / rate
        if not shorter < step:
            break
        step = max(0.0, shorter)
    return step


@compiled
def retarget(H: Array, B: Array, c: Array, L: Array, D: Array, A: Array, a: int, wanted: Array) -> int:
    """The factors of the wanted coordinates, from those of A: by updates, or afresh where too many change."""
    dropped, added = 0, 0
    held = np.zeros(wanted.shape[0], np.bool_)
    for p in range(a):
        held[A[p]] = True
    for j in range(wanted.shape[0]):
        dropped += held[j] and not wanted[j]
        added += wanted[j] and not held[j]
    by_rows = B.shape[0] > 0
    afresh = 8 * (dropped + added) > B.shape[1] if by_rows else 5 * dropped > a
    if not afresh:
        for p in range(a - 1, -1, -1):
            if not wanted[A[p]]:
                if by_rows:
                    afresh = afresh or not add_square(L, D, -1.0 / c[A[p]], B[A[p]])
                    for i in range(p + 1, a):
                        A[i - 1] = A[i]
                else:
                    remove(L, D, a, A, p)
                a -= 1
    if afresh:
        a = 0
        held.fill(False)
    afresh = afresh or a == 0
    for j in range(wanted.shape[0]):
        if wanted[j] and not held[j]:
            A[a] = j
            if not afresh:
                if by_rows:
                    add_square(L, D, 1.0 / c[j], B[j])
                else:
                    append(L, D, a, H, A)
            a += 1
    if afresh and not by_rows:
        factor(L, D, a, H, A)
    if by_rows and afresh:
        plain, scaled = np.empty((a, B.shape[1])), np.empty((a, B.shape[1]))
        for p in range(a):
            for i in range(B.shape[1]):
                plain[p, i] = B[A[p], i]
                scaled[p, i] = B[A[p], i] / c[A[p]]
        C = np.dot(plain.T, scaled)
        for i in range(B.shape[1]):
            C[i, i] += 1.0
        factor(L, D, B.shape[1], C, np.arange(B.shape[1]))
    return a


@compiled
def descend(
    H: Array, B: Array, c: Array, diagonal: Array, x: Array, q: Array, kind: int, mu: float, lower: Array, upper: Array
) -> None:
    """A few sweeps of coordinate descent on the model plus mu times the sum or the norm; they keep q."""
    k, by_rows, start = x.shape[0], B.shape[0] > 0, x.copy()
    image = np.zeros(B.shape[1])
    for _ in range(SWEEPS):
        for j in range(k):
            slope = q[j] + inner(B[j], image) + c[j] * (x[j] - start[j]) if by_rows else q[j]
            to = x[j] - slope / diagonal[j]
            if kind == BOX:
                to = min(max(to, lower[j]), upper[j])
            elif kind == SIMPLEX:
                to = max(0.0, to - mu / diagonal[j])
            else:
                threshold = mu / diagonal[j]
                to = to - threshold if to > threshold else (to + threshold if to < -threshold else 0.0)
            move = to - x[j]
            if move != 0.0:
                x[j] = to
                if by_rows:
                    add_multiple(image, move, B[j])
                else:
                    add_multiple(q, move, H[j])
    if by_rows:
        for j in range(k):
            q[j] += inner(B[j], image) + c[j] * (x[j] - start[j])


@compiled
def separable_multiplier(diagonal: Array, q: Array, x: Array, size: float) -> float:
    """The multiplier of the l1 ball if H were its diagonal: Newton's method from the left, on a convex function."""
    mu = 0.0
    for _ in range(50):
        excess, rate = -size, 0.0
        for j in range(x.shape[0]):
            left = abs(x[j] - q[j] / diagonal[j]) - mu / diagonal[j]
            if left > 0.0:
                excess += left
                rate += 1.0 / diagonal[j]
        if not excess > 0.0 or not mu + excess / rate > mu:
            break
        mu += excess / rate
    return mu


@compiled
def gap(q: Array, x: Array, kind: int, size: float, lower: Array, upper: Array) -> float:
    """max <q, x - s> over the set."""
    along, most = 0.0, 0.0
    if kind == BOX:
        for j in range(x.shape[0]):
            along += q[j] * (x[j] - (lower[j] if q[j] > 0.0 else upper[j]))
        return along
    if kind == SIMPLEX:
        most = -np.inf
    for j in range(x.shape[0]):
        along += q[j] * x[j]
        most = max(most, -q[j], q[j] if kind == L1_BALL else -q[j])
    return along + size * most


@compiled
def model_at(
    H: Array, B: Array, c: Array, q0: Array, x0: Array, x: Array, kind: int, size: float
) -> tuple[Array, float]:
    """The gradient and the value of the model."""
    q, value, by_rows = q0.copy(), 0.0, B.shape[0] > 0
    image = np.zeros(B.shape[1])
    for j in range(x.shape[0]):
        move = x[j] - x0[j]
        if move != 0.0:
            if by_rows:
                add_multiple(image, move, B[j])
                q[j] += move * c[j]
            else:
                add_multiple(q, move, H[j])
    # between two points of one norm the multiplier times what the norm changes is 0: it hides small falls if left in
    mu = 0.0
    if kind == L1_BALL and min(norm(x), norm(x0)) >= size * (1.0 - 1e-12):
        mu = max(0.0, -inner(q0, x0) / size)
    for j in range(x.shape[0]):
        if by_rows:
            q[j] += inner(B[j], image)
        way = 1.0 if x0[j] + x[j] > 0.0 else -1.0
        if x0[j] * x[j] >= 0.0:
            value += (0.5 * (q0[j] + q[j]) + mu * way) * (x[j] - x0[j])
        else:
            value += 0.5 * (q0[j] + q[j]) * (x[j] - x0[j]) + mu * (abs(x[j]) - abs(x0[j]))
    return q, value
