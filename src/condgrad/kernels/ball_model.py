"""A quadratic model minimised over the l1 ball or the solid simplex from a guess of its face, in one compiled call.

The model is that of F(x) = h(Kx) + c |x|^2/2 at a point where h has the weights w: with W = diag(w), or diag(w) -
w w'/sum(w) for a loss whose intercept is minimised out,

    min <y, K' W K y>/2 - <pull, K y> + c |y|^2/2   over   |y|_1 <= size, or y >= 0, sum y <= size.

On a face, with the coordinates A, their signs e and the equation <e, y> = size unless the face is the inside, the least
point and the multiplier mu of the equation solve

    (K_A' W K_A + c) y + mu e = K_A' pull,

from K_A' W K_A or, for more coordinates than samples, from K_A K_A', which gains and loses the columns that enter and
leave A. With t > 0 and the gradient q of the model, the face that has P(y - t q) in its inside is the next (the
primal-dual active-set method, a semismooth Newton method for y = P(y - t q)). Where it is the same face, y is least.
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import compiled
from condgrad.kernels.keep_mass import onto_l1_ball
from condgrad.kernels.ldl import add_multiple, factor, inner, solve

LEAST_CURVATURE = 1e-13
"""What is added to the curvature of each coordinate, as a share of it, so that no system is singular."""
LEAST_CURVATURE_BY_ROWS = 1e-10
"""The least c of a system of more coordinates than samples, as a share of their mean curvature: it has fewer digits."""


@compiled
def minimise(
    columns: Array,
    row_gram: Array,
    is_summed: Array,
    changes: Array,
    w: Array,
    centred: bool,
    pull: Array,
    guess: Array,
    on_boundary: bool,
    nonnegative: bool,
    size: float,
    c: float,
    t: float,
    rounds: int,
) -> tuple[Array, Array, bool]:
    """The least point y, K y, and whether it is one: else y is that of the last face, and may be outside the set.

    A row of `columns` is a column of K. `guess` is a point on the face to begin with; for the inside of the l1 ball all
    coordinates are on it. `row_gram` is the K_B K_B' of the coordinates B with `is_summed`, after changes[0] changes of
    B since it was computed afresh; all three are worked on in place, for the next call.
    """
    n, m = columns.shape
    root, shares = np.sqrt(w), w / w.sum() if centred else np.zeros(m)
    y, stepped = np.zeros(n), guess.copy()
    is_active, signs = np.empty(n, np.bool_), np.empty(n)
    set_face(stepped, on_boundary or nonnegative, is_active, signs)
    c_by_rows = c
    for _ in range(rounds):
        active = np.flatnonzero(is_active)
        k = active.shape[0]
        if k == 0:
            break
        y[:] = 0.0
        if k <= m:
            on_face, left, mu = by_matrix(columns, active, signs, root, shares, pull, on_boundary, size, c)
            for p in range(k):
                y[active[p]] = on_face[p]
        else:
            update_row_gram(columns, is_active, row_gram, is_summed, changes)
            left, mu, c_by_rows = by_rows(columns, active, signs, row_gram, root, shares, pull, on_boundary, size, c)
        # on the face K' left = c y + mu e; elsewhere it is minus the gradient of the model
        slopes = np.dot(columns, left)
        turned = False
        for j in range(n):
            if not is_active[j]:
                stepped[j] = t * slopes[j]
                continue
            if k > m:
                y[j] = (slopes[j] - mu * signs[j]) / c_by_rows
            stepped[j] = y[j] + t * mu * signs[j]
            if y[j] * signs[j] < 0.0:
                turned, is_active[j], signs[j] = True, False, 0.0
        if turned:
            continue
        if nonnegative:
            for j in range(n):
                stepped[j] = max(0.0, stepped[j])
        point, inside, finite = onto_l1_ball(stepped, size)
        if not finite:
            break
        if inside:
            point = stepped
        same_side, on_boundary = on_boundary != inside, not inside
        if not set_face(point, on_boundary or nonnegative, is_active, signs) and same_side:
            return y, combined(columns, y), True
    return y, combined(columns, y), False


@compiled
def face_ahead(
    x: Array, slope: Array, t: float, size: float, nonnegative: bool, is_chosen: Array, share: float
) -> tuple[Array, bool, bool]:
    """P(x - t slope), whether it is on the boundary, and whether the chosen coordinates will do for a model there.

    They do if they have all that are not 0 at the point, and all whose slopes are at least a share of the multiplier,
    that is of the mean slope of those. Inside the l1 ball all coordinates are needed.
    """
    n = x.shape[0]
    stepped = np.empty(n)
    for j in range(n):
        stepped[j] = x[j] - t * slope[j]
        if nonnegative:
            stepped[j] = max(0.0, stepped[j])
    point, inside, finite = onto_l1_ball(stepped, size)
    if inside or not finite:
        return stepped, False, finite and bool(is_chosen.all())
    total, count = 0.0, 0
    for j in range(n):
        if point[j] != 0.0:
            total += abs(slope[j])
            count += 1
    for j in range(n):
        if not is_chosen[j] and (point[j] != 0.0 or abs(slope[j]) * count >= share * total):
            return point, True, False
    return point, True, True


@compiled
def set_face(point: Array, has_zeros: bool, is_active: Array, signs: Array) -> bool:
    """Set the coordinates and the signs of the face that has a point inside; whether any of them changed."""
    changed = False
    for j in range(point.shape[0]):
        active = point[j] != 0.0 or not has_zeros
        sign = 0.0
        if has_zeros:
            sign = np.sign(point[j])
        changed = changed or active != is_active[j] or sign != signs[j]
        is_active[j], signs[j] = active, sign
    return changed


@compiled
def combined(columns: Array, y: Array) -> Array:
    """K y."""
    image = np.zeros(columns.shape[1])
    for j in range(y.shape[0]):
        if y[j] != 0.0:
            add_multiple(image, y[j], columns[j])
    return image


@compiled
def by_matrix(
    columns: Array,
    active: Array,
    signs: Array,
    root: Array,
    shares: Array,
    pull: Array,
    on_boundary: bool,
    size: float,
    c: float,
) -> tuple[Array, Array, float]:
    """y on a face, pull - W K_A y and mu, from K_A' W K_A + c."""
    k, m = active.shape[0], root.shape[0]
    scaled, y, response = np.empty((k, m)), np.empty(k), np.empty(k)
    for p in range(k):
        column = columns[active[p]]
        mean = inner(column, shares)
        for i in range(m):
            scaled[p, i] = root[i] * (column[i] - mean)
        y[p], response[p] = inner(column, pull), signs[active[p]]
    H = np.dot(scaled, scaled.T)
    for p in range(k):
        H[p, p] = (1.0 + LEAST_CURVATURE) * H[p, p] + c
    L, D = np.empty((k, k)), np.empty(k)
    factor(L, D, k, H, np.arange(k), np.zeros(1, np.bool_))
    solve(L, D, k, y)
    mu = 0.0
    if on_boundary:
        solve(L, D, k, response)
        excess, rate = -size, 0.0
        for p in range(k):
            excess += signs[active[p]] * y[p]
            rate += signs[active[p]] * response[p]
        mu = excess / rate
        add_multiple(y, -mu, response)
    return y, pull - root * np.dot(scaled.T, y), mu


@compiled
def by_rows(
    columns: Array,
    active: Array,
    signs: Array,
    row_gram: Array,
    root: Array,
    shares: Array,
    pull: Array,
    on_boundary: bool,
    size: float,
    c: float,
) -> tuple[Array, float, float]:
    """pull - W K_A y for the y on a face, mu, and the c of the system, from K_A K_A'.

    With R R' = W and b = K_A (K_A' pull - mu e), K_A y = b/c - K_A K_A' R (R' K_A K_A' R + c)^-1 R' b/c, so that
    pull - W K_A y = pull - R (R' K_A K_A' R + c)^-1 R' b.
    """
    m = root.shape[0]
    means = np.dot(row_gram, shares)
    mean = inner(shares, means)
    M, L, D = np.empty((m, m)), np.empty((m, m)), np.empty(m)
    for i in range(m):
        for j in range(m):
            M[i, j] = root[i] * (row_gram[i, j] - means[i] - means[j] + mean) * root[j]
    c = max(c, LEAST_CURVATURE_BY_ROWS * np.trace(M) / active.shape[0])
    for i in range(m):
        M[i, i] += c
    factor(L, D, m, M, np.arange(m), np.zeros(1, np.bool_))
    left = pull - in_samples(L, D, root, shares, np.dot(row_gram, pull))
    if not on_boundary:
        return left, 0.0, c
    normal = np.zeros(m)
    for j in active:
        add_multiple(normal, signs[j], columns[j])
    response = in_samples(L, D, root, shares, normal)
    mu = (inner(normal, left) - c * size) / (active.shape[0] - inner(normal, response))
    return left + mu * response, mu, c


@compiled
def in_samples(L: Array, D: Array, root: Array, shares: Array, b: Array) -> Array:
    """R (R' K_A K_A' R + c)^-1 R' b, from the factors of the matrix in the middle."""
    a = root * (b - inner(shares, b))
    solve(L, D, a.shape[0], a)
    a *= root
    return a - shares * a.sum()


@compiled
def update_row_gram(columns: Array, is_active: Array, row_gram: Array, is_summed: Array, changes: Array) -> None:
    """Let K_B K_B' become K_A K_A', afresh where that costs less or after many changes, whose rounding adds up."""
    n, m = columns.shape
    k, changed = 0, 0
    for j in range(n):
        k += is_active[j]
        changed += is_active[j] != is_summed[j]
    changes[0] += changed
    if changed >= k or changes[0] > n:
        changes[0] = 0
        row_gram[:] = 0.0
        is_summed[:] = False
    for sign, adds in ((1.0, True), (-1.0, False)):
        chosen = np.flatnonzero(is_active & ~is_summed if adds else is_summed & ~is_active)
        if chosen.shape[0] > 0:
            part = np.empty((chosen.shape[0], m))
            for p in range(chosen.shape[0]):
                part[p] = columns[chosen[p]]
            row_gram += sign * np.dot(part.T, part)
    is_summed[:] = is_active
