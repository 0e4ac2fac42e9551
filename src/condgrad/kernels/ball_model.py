"""Steps along a path of radii of the l1 ball or the solid simplex, each in one compiled call.

A quadratic model is minimised from a guess of its face. The model is that of F(x) = h(Kx) + c |x|^2/2 at a point where
h has the weights w: with W = diag(w), or diag(w) - w w'/sum(w) for a loss whose intercept is minimised out,

    min <y, K' W K y>/2 - <pull, K y> + c |y|^2/2   over   |y|_1 <= size, or y >= 0, sum y <= size.

On a face, with the coordinates A, their signs e and the equation <e, y> = size unless the face is the inside, the least
point and the multiplier mu of the equation solve

    (K_A' W K_A + c) y + mu e = K_A' pull,

from K_A' W K_A or, for more coordinates than samples, from K_A K_A', which gains and loses the columns that enter and
leave A. With t > 0 and the gradient q of the model, the face that has P(y - t q) in its inside is the next (the
primal-dual active-set method, a semismooth Newton method for y = P(y - t q)). Where it is the same face, y is least.

A squared hinge is quadratic between kinks: the samples that fall short of their margins have weights, the others none.
They are guessed along with the face, and named anew by each y: where they are the same too, y is least for F itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.ball.compiled.ldl import add_multiple, combination, factor, inner, solve
from condgrad.kernels import SQUARED_HINGE, SQUARES
from condgrad.kernels.chosen_columns import Columns, FaceGram, RowGram
from condgrad.kernels.compiling import compiled, compiled_in_place, entry_point
from condgrad.kernels.keep_mass import onto_l1_ball
from condgrad.kernels.losses import UNIT, CompiledLoss, set_curvature, set_loss
from condgrad.rounding import LEAST_CURVATURE, LEAST_CURVATURE_BY_ROWS, TOUCHING

MOST_OUTSIDE = 1e-6
"""How far outside the ball, as a share of its size, rounding may leave the least point of an ill-conditioned model."""
MOST_RISES = 2
"""Rounds that may change more coordinates of a face than the one before, until steps are short and samples stay."""


class BallShape(NamedTuple):
    """The l1 ball, or the solid simplex."""

    size: float
    nonnegative: bool


class Step(NamedTuple):
    """Where a step from a point leads to."""

    found: bool
    """Whether there is a least point, and F there."""
    suffice: bool
    """Whether the columns do for a model; else `x` is the point that names its face, to choose others by."""
    on_boundary: bool
    x: Array
    image: Array
    """K x."""
    theta: Array
    loss: float
    intercept: float


class Kinks(NamedTuple):
    """The samples of a squared hinge, in the unit of a model; of size 0 for losses without kinks."""

    y: Array
    weights: Array
    """Those that a sample has in the model while it falls short of its margin."""


@entry_point
def step(
    chosen: Columns,
    ball: BallShape,
    loss: CompiledLoss,
    ridge: float,
    x: Array,
    z: Array,
    intercept: float,
    theta: Array,
    slope: Array,
    first_t: float,
    t: float,
    share: float,
    rounds: int,
) -> tuple[Any, ...]:
    """The least point of the model of h(Kx) + ridge |x|^2 at x over the ball, and the loss there: a `Step`.

    z = K x, theta is the gradient of h there, and `slope` that of the objective at x. The first face is named by a step
    of length first_t, the others by steps of length t; `share` is that of `face_ahead`.
    """
    m = z.shape[0]
    none = np.empty(0)
    ahead, on_boundary, suffice = face_ahead(x, slope, first_t, ball.size, ball.nonnegative, chosen.is_chosen, share)
    if not suffice:
        return False, False, on_boundary, ahead, none, none, 0.0, 0.0
    w, pull = np.empty(m), np.empty(m)
    set_curvature(loss, z, intercept, w)
    unit = w.max() if w.max() > 0.0 else 1.0  # in units of the largest weight roots do not depend on the unit of F
    mass, mean, kinks = 0.0, 0.0, Kinks(none, none)
    for i in range(m):
        w[i] /= unit
    for i in range(m):  # sums have a loop of their own, as in `losses.loss_at`
        mass += w[i]
        mean += w[i] * z[i]
    mean = mean / mass if loss.has_intercept and mass > 0.0 else 0.0
    for i in range(m):
        pull[i] = w[i] * (z[i] - mean) - theta[i] / unit
    if loss.kind == SQUARED_HINGE:
        kinks = Kinks(loss.y, 2.0 / unit * loss.weights)
    guess = np.empty(chosen.features.shape[0])
    for p in range(guess.shape[0]):
        guess[p] = ahead[chosen.features[p]]
    y, image, is_least = minimise(
        chosen, ball, kinks, w, loss.has_intercept, pull, guess, on_boundary, 2.0 * ridge / unit, t * unit, rounds
    )
    norm = np.abs(y).sum()
    # without a ridge, a face of more coordinates than samples holds no solution by itself
    is_least = is_least and (ridge > 0.0 or loss.kind != SQUARES or np.count_nonzero(y) <= m)
    if not is_least or not norm <= ball.size * (1.0 + MOST_OUTSIDE):
        return False, True, on_boundary, ahead, none, none, 0.0, 0.0
    return step_to(chosen, ball, loss, x.shape[0], y, image, intercept, on_boundary)


@compiled_in_place
def step_to(
    chosen: Columns,
    ball: BallShape,
    loss: CompiledLoss,
    features: int,
    y: Array,
    image: Array,
    intercept: float,
    on_boundary: bool,
) -> tuple[Any, ...]:
    """The `Step` that ends at y in the chosen coordinates, where K y is the image; by a factor inside the ball.

    The best intercept there is near the one that is given.
    """
    norm = np.abs(y).sum()
    if norm > ball.size:
        inside = ball.size / norm * (1.0 - 2.0 * UNIT)
        y *= inside
        image *= inside
    there, theta = np.zeros(features), np.empty(image.shape[0])
    for p in range(y.shape[0]):
        there[chosen.features[p]] = y[p]
    value, b = set_loss(loss, image, intercept, theta)
    return True, True, on_boundary, there, image, theta, value, b


@compiled_in_place
def minimise(
    chosen: Columns,
    ball: BallShape,
    kinks: Kinks,
    w: Array,
    centred: bool,
    pull: Array,
    guess: Array,
    on_boundary: bool,
    c: float,
    t: float,
    rounds: int,
) -> tuple[Array, Array, bool]:
    """The least point y, K y, and whether it is one: else y is that of the last face, and may be outside the set.

    `guess` is a point on the face to begin with; for the inside of the l1 ball all coordinates are on it. What the
    columns share is worked on in place, for the next call, and so are w and the pull of a squared hinge.

    On a face of more coordinates than samples all directions but a few have the curvature c alone, and t = 1/c names
    the next face: that is Newton's method on the dual, in as many variables as samples. It takes few rounds or may
    never end, and so may those of a hinge, whose samples change. Where the changes of the face grow, what is left of
    the rounds has the shorter t that is given, and one model.
    """
    columns, size, nonnegative = chosen.columns, ball.size, ball.nonnegative
    n, m = columns.shape
    root, shares = roots_and_shares(w, centred)
    y, stepped = np.zeros(n), guess.copy()
    is_active, signs = np.empty(n, np.bool_), np.empty(n)
    set_face(stepped, on_boundary or nonnegative, is_active, signs)
    last_changed, rises = n, 0
    for _ in range(rounds):
        is_early = rises < MOST_RISES
        active = np.flatnonzero(is_active)
        k = active.shape[0]
        if k == 0:
            break
        y[:] = 0.0
        c_by_rows, image = c, np.empty(0)
        if k <= m:
            on_face, left, mu = by_matrix(
                columns, chosen.face_gram, active, signs, w, root, shares, pull, on_boundary, size, c
            )
            for p in range(k):
                y[active[p]] = on_face[p]
            if kinks.y.shape[0] > 0:
                image = combination(columns, y)
        else:
            row_gram = chosen.row_gram
            update_row_gram(columns, is_active, signs, row_gram)
            left, mu, c_by_rows, image = by_rows(row_gram, k, root, shares, pull, on_boundary, size, c)
        is_same_model = True
        if is_early and kinks.y.shape[0] > 0 and cross_kinks(kinks, image, centred, w, pull):
            is_same_model = False
            root, shares = roots_and_shares(w, centred)
        is_dual = is_early and k > m and c_by_rows == c
        length, turned = 1.0 / c if is_dual else t, False
        # on the face K' left = c y + mu e; elsewhere it is minus the gradient of the model
        for p in range(k):
            j = active[p]
            if k > m:
                y[j] = (inner(columns[j], left) - mu * signs[j]) / c_by_rows
            stepped[j] = y[j] + length * mu * signs[j]
            if y[j] * signs[j] < 0.0 and not is_dual:
                turned, is_active[j], signs[j] = True, False, 0.0
        if turned:
            continue
        for j in range(n):
            if not is_active[j]:
                stepped[j] = length * inner(columns[j], left)
        if nonnegative:
            for j in range(n):
                stepped[j] = max(0.0, stepped[j])
        point, inside, finite = onto_l1_ball(stepped, size)
        if not finite:
            break
        if inside:
            point = stepped
            # where the multiplier is 0 up to rounding, the inside has the same least point, and names the boundary
            inside = not (on_boundary and np.abs(stepped).sum() >= size * (1.0 - TOUCHING))
        same_side, on_boundary = on_boundary != inside, not inside
        changed = set_face(point, on_boundary or nonnegative, is_active, signs)
        if changed == 0 and same_side and is_same_model:
            return y, combination(columns, y), True
        rises += changed > last_changed
        last_changed = changed
    return y, combination(columns, y), False


@compiled
def roots_and_shares(w: Array, centred: bool) -> tuple[Array, Array]:
    """The roots of the weights of a model, and their shares in the sum, or zeros where there are no means."""
    mass = w.sum()
    return np.sqrt(w), w / mass if centred and mass > 0.0 else np.zeros(w.shape[0])


@compiled_in_place
def cross_kinks(kinks: Kinks, image: Array, centred: bool, w: Array, pull: Array) -> bool:
    """Let w and the pull be those of the samples that fall short of their margins at K y; whether others did before.

    Between kinks a squared hinge is a sum of squares, whose targets are the labels.
    """
    y, b, is_changed = kinks.y, 0.0, False
    if centred:
        b = mean_of(w, y) - mean_of(w, image)
    for i in range(y.shape[0]):
        falls_short = y[i] * (image[i] + b) < 1.0 and kinks.weights[i] > 0.0
        if falls_short != (w[i] > 0.0):  # weights themselves may differ by their rounding
            is_changed = True
            w[i] = kinks.weights[i] if falls_short else 0.0
    if is_changed:
        mean = mean_of(w, y) if centred else 0.0
        for i in range(y.shape[0]):
            pull[i] = w[i] * (y[i] - mean)
    return is_changed


@compiled
def mean_of(w: Array, values: Array) -> float:
    """The mean by weights, or 0 where all are 0."""
    mass = w.sum()
    return inner(w, values) / mass if mass > 0.0 else 0.0


@compiled_in_place
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
def set_face(point: Array, has_zeros: bool, is_active: Array, signs: Array) -> int:
    """Set the coordinates and the signs of the face that has a point inside; how many of them changed."""
    changed = 0
    for j in range(point.shape[0]):
        active = point[j] != 0.0 or not has_zeros
        sign = 0.0
        if has_zeros:
            sign = np.sign(point[j])
        if active != is_active[j] or sign != signs[j]:
            changed += 1
        is_active[j], signs[j] = active, sign
    return changed


@compiled_in_place
def by_matrix(
    columns: Array,
    face_gram: FaceGram,
    active: Array,
    signs: Array,
    w: Array,
    root: Array,
    shares: Array,
    pull: Array,
    on_boundary: bool,
    size: float,
    c: float,
) -> tuple[Array, Array, float]:
    """y on a face, pull - W K_A y and mu, from K_A' W K_A + c."""
    k, m = active.shape[0], root.shape[0]
    add_to_face_gram(columns, face_gram, active, w, root, shares, c)
    y, response, places = np.empty(k), np.empty(k), np.empty(k, np.intp)
    for p in range(k):
        y[p], response[p], places[p] = inner(columns[active[p]], pull), signs[active[p]], face_gram.place[active[p]]
    L, D = np.empty((k, k)), np.empty(k)
    factor(L, D, k, face_gram.matrix, places, np.zeros(1, np.bool_))
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
    image = np.zeros(m)
    for p in range(k):
        add_multiple(image, y[p], face_gram.scaled[places[p]])
    return y, pull - root * image, mu


@compiled_in_place
def add_to_face_gram(
    columns: Array, face_gram: FaceGram, active: Array, w: Array, root: Array, shares: Array, c: float
) -> None:
    """Let the columns of a face be among those of the Gram matrix, which starts afresh for other weights or if full."""
    scaled, matrix, place, count, weights = face_gram
    m, missing = root.shape[0], 0
    same = weights[m] == c
    for i in range(m):
        same = same and weights[i] == w[i]
    for j in active:
        missing += place[j] < 0
    if not same or count[0] + missing > scaled.shape[0]:
        place[:] = -1
        weights[:m], weights[m], count[0], missing = w, c, 0, active.shape[0]
    if missing == 0:
        return
    begin, end = count[0], count[0] + missing
    last = begin
    for j in active:
        if place[j] < 0:
            column = columns[j]
            mean = inner(column, shares)
            for i in range(m):
                scaled[last, i] = root[i] * (column[i] - mean)
            place[j] = last
            last += 1
    matrix[begin:end, :end] = np.dot(scaled[begin:end], scaled[:end].T)
    for p in range(begin, end):
        for q in range(begin):
            matrix[q, p] = matrix[p, q]
        matrix[p, p] = (1.0 + LEAST_CURVATURE) * matrix[p, p] + c
    count[0] = end


@compiled_in_place
def by_rows(
    face: RowGram, width: int, root: Array, shares: Array, pull: Array, on_boundary: bool, size: float, c: float
) -> tuple[Array, float, float, Array]:
    """pull - W K_A y for the y on a face of some width, mu, the c of the system, and K_A y, from K_A K_A' and K_A e.

    With R R' = W and b = K_A (K_A' pull - mu e), K_A y = b/c - K_A K_A' R (R' K_A K_A' R + c)^-1 R' b/c, so that
    pull - W K_A y = pull - R (R' K_A K_A' R + c)^-1 R' b.
    """
    m, row_gram, normal = root.shape[0], face.matrix, face.normal
    means = np.dot(row_gram, shares)
    mean = inner(shares, means)
    M, L, D = np.empty((m, m)), np.empty((m, m)), np.empty(m)
    for i in range(m):
        for j in range(m):
            M[i, j] = root[i] * (row_gram[i, j] - means[i] - means[j] + mean) * root[j]
    c = max(c, LEAST_CURVATURE_BY_ROWS * np.trace(M) / width)
    for i in range(m):
        M[i, i] += c
    factor(L, D, m, M, np.arange(m), np.zeros(1, np.bool_))
    left = pull - in_samples(L, D, root, shares, np.dot(row_gram, pull))
    if not on_boundary:
        return left, 0.0, c, np.dot(row_gram, left) / c
    response = in_samples(L, D, root, shares, normal)
    mu = (inner(normal, left) - c * size) / (width - inner(normal, response))
    left += mu * response
    return left, mu, c, (np.dot(row_gram, left) - mu * normal) / c


@compiled
def in_samples(L: Array, D: Array, root: Array, shares: Array, b: Array) -> Array:
    """R (R' K_A K_A' R + c)^-1 R' b, from the factors of the matrix in the middle."""
    a = root * (b - inner(shares, b))
    solve(L, D, a.shape[0], a)
    a *= root
    return a - shares * a.sum()


@compiled_in_place
def update_row_gram(columns: Array, is_active: Array, signs: Array, row_gram: RowGram) -> None:
    """Let K_B K_B' and K_B e become those of a face, afresh where that costs less or after many changes, whose rounding
    adds up.
    """
    n, m = columns.shape
    k, changed = 0, 0
    for j in range(n):
        if is_active[j]:
            k += 1
        if is_active[j] != row_gram.is_summed[j]:
            changed += 1
        if signs[j] != row_gram.signs[j]:
            row_gram.changes[0] += 1
    row_gram.changes[0] += changed
    if changed >= k or row_gram.changes[0] > n:
        row_gram.changes[0], changed = 0, k
        row_gram.matrix[:], row_gram.normal[:] = 0.0, 0.0
        row_gram.is_summed[:], row_gram.signs[:] = False, 0.0
    for j in range(n):
        if signs[j] != row_gram.signs[j]:
            add_multiple(row_gram.normal, signs[j] - row_gram.signs[j], columns[j])
            row_gram.signs[j] = signs[j]
    for sign, adds in ((1.0, True), (-1.0, False)):
        part, width = np.empty((changed, m)), 0
        for j in range(n):
            if is_active[j] != row_gram.is_summed[j] and is_active[j] == adds:
                part[width] = columns[j]
                width += 1
        if width > 0:
            row_gram.matrix[:] += sign * np.dot(part[:width].T, part[:width])
    row_gram.is_summed[:] = is_active
