"""The path of a quadratic F from event to event: from the solution for one size of the ball to that for a larger one.

The solution is a piecewise linear function of the multiplier mu (the homotopy behind LARS). On a face, with the
coordinates A and their signs e, its rate d as mu falls solves

    (K_A' W K_A + c) d = e,

up to an event: a coordinate comes to 0, or the slope of another comes to mu. The notation is that of `ball_model`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.ball_model import BallShape, add_to_face_gram, step_to
from condgrad.kernels.chosen_columns import Columns
from condgrad.kernels.compiling import compiled
from condgrad.kernels.ldl import add_multiple, combination, factor, inner, solve
from condgrad.kernels.losses import CompiledLoss, set_curvature

TIE = 1e-5
"""How much earlier, as a share, an event must come to come first."""


@compiled
def step_by_events(
    chosen: Columns,
    ball: BallShape,
    loss: CompiledLoss,
    ridge: float,
    x: Array,
    z: Array,
    intercept: float,
    theta: Array,
    events: int,
) -> tuple[Any, ...]:
    """The `Step` from the solution for one size to that for a larger one, where F is quadratic.

    Coordinates that are not chosen are kept at 0, which the certificate of the full problem judges. It is not found
    where more than `events` come in between, or a face has more coordinates than samples.
    """
    m, s = z.shape[0], chosen.features.shape[0]
    columns, none = chosen.columns, np.empty(0)
    w, slopes, y, signs = np.empty(m), np.empty(s), np.empty(s), np.zeros(s)
    set_curvature(loss, z, intercept, w)
    unit = w.max() if w.max() > 0.0 else 1.0  # in units of the largest weight roots do not depend on the unit of F
    w /= unit
    shares = w / w.sum() if loss.has_intercept else np.zeros(m)
    c, mu = 2.0 * ridge / unit, 0.0
    for j in range(s):
        y[j] = x[chosen.features[j]]
        signs[j] = np.sign(y[j])
        slopes[j] = -inner(columns[j], theta) / unit - c * y[j]
        mu = max(mu, slopes[j] if ball.nonnegative else abs(slopes[j]))
    room, left_last, enters = ball.size - np.abs(y).sum(), -1, -1
    if s > 0 and not signs.any():
        enters = int(np.argmax(slopes if ball.nonnegative else np.abs(slopes)))
    for _ in range(events):
        if enters >= 0:
            signs[enters] = np.sign(slopes[enters])
        active = np.flatnonzero(signs)
        if active.shape[0] == 0 or active.shape[0] > m or not mu > 0.0:
            break
        d, rates = rates_on_face(chosen, active, signs[active], w, shares, c)
        growth = inner(signs[active], d)
        far, leaves, enters = next_event(y, d, active, signs, slopes, rates, mu, left_last, ball.nonnegative)
        is_last = room <= far * growth
        if is_last:
            far = room / growth
        for p in range(active.shape[0]):
            y[active[p]] += far * d[p]
            slopes[active[p]] -= far * signs[active[p]]
        for j in range(s):
            if signs[j] == 0.0:
                slopes[j] -= far * rates[j]
        room, mu, left_last = room - far * growth, mu - far, leaves
        if is_last or (leaves < 0 and enters < 0):
            return step_to(chosen, ball, loss, x.shape[0], y, combination(columns, y), intercept, is_last)
        if leaves >= 0:
            y[leaves], signs[leaves] = 0.0, 0.0
    return False, True, True, none, none, none, 0.0, 0.0


@compiled
def rates_on_face(chosen: Columns, active: Array, e: Array, w: Array, shares: Array, c: float) -> tuple[Array, Array]:
    """The rates of the coordinates of a face as mu falls, and of the slopes of all chosen ones without the ridge."""
    k, root, gram = active.shape[0], np.sqrt(w), chosen.face_gram
    add_to_face_gram(chosen.columns, gram, active, w, root, shares, c)
    d, places, image = e.copy(), gram.place[active], np.zeros(w.shape[0])
    L, D = np.empty((k, k)), np.empty(k)
    factor(L, D, k, gram.matrix, places, np.zeros(1, np.bool_))
    solve(L, D, k, d)
    for p in range(k):
        add_multiple(image, d[p], gram.scaled[places[p]])
    image *= root
    image -= shares * image.sum()  # shares are 0 without an intercept
    return d, np.dot(chosen.columns, image)


@compiled
def next_event(
    y: Array,
    d: Array,
    active: Array,
    signs: Array,
    slopes: Array,
    rates: Array,
    mu: float,
    left_last: int,
    nonnegative: bool,
) -> tuple[float, int, int]:
    """How far mu falls up to the next event, and the coordinate that leaves or enters there; -1 for none.

    The one that has left last does not enter at once on the side where it was.
    """
    far, leaves, enters = mu, -1, -1
    for p in range(active.shape[0]):
        back = -signs[active[p]] * d[p]
        if back > 0.0 and abs(y[active[p]]) < far * back:
            far, leaves = abs(y[active[p]]) / back, active[p]
    for j in range(signs.shape[0]):
        if signs[j] != 0.0:
            continue
        for sign in (1.0, -1.0):
            has_just_left = j == left_last and sign * slopes[j] > 0.0
            if has_just_left or (sign < 0.0 and nonnegative):
                continue
            closing, distance = 1.0 - sign * rates[j], mu - sign * slopes[j]
            # where all slopes vanish together, at interpolation, rounding alone would tell which comes first
            if closing > 0.0 and distance < (1.0 - TIE) * far * closing:
                far, leaves, enters = max(0.0, distance / closing), -1, j
    return far, leaves, enters
