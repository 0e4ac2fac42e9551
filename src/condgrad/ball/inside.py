"""Models of all coordinates whose least points are inside the l1 ball, where its constraint is
slack.

Without a constraint the least point solves H d = -slope, H = K'WK + c: in as many unknowns as there
are samples, by (B'B + c)^-1 = (1 - B'(BB' + c)^-1 B)/c, or by conjugate gradients.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    dot,
    is_dense,
    like,
    norms_of_columns,
    row_gram,
    solve_positive,
)
from condgrad.ball.columns import Columns, for_compiled_code
from condgrad.ball.models import LeastPoint, Model, by_largest, sparse_gram
from condgrad.ball.options import OPTIONS
from condgrad.methods.certified_point import ObjectivePoint
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.simple import Ridge
from condgrad.smooth import SquaredHinge
from condgrad.smooth.folding import Folded
from condgrad.smooth.offset import WithOffset


class Inside:
    """What solves with H of all coordinates; a `Curvature` whose least points know no constraint."""

    def __init__(self, K: Matrix, *, centred: bool) -> None:
        self.K = K
        self.Kt = K.T
        self.centred = centred

    def least(self, model: Model) -> LeastPoint | None:
        """The least point; None where that is outside the ball."""
        mass = float(model.w.sum())
        if not mass > 0.0:
            return None
        shares = model.w / mass if self.centred else None
        samples = int(np.count_nonzero(model.w))
        entries = samples * self.K.shape[1] if is_dense(self.K) else self.K.nnz
        d = None
        if samples * samples * samples > OPTIONS.factor_passes * entries:
            d = self._by_products(model, shares, is_needed=samples > OPTIONS.most_samples)
        if d is None:
            d = self._by_samples(model, shares)
        y = model.x + d
        is_inside = not deadline.passed() and model.on.violation(y) == 0.0
        return LeastPoint(y, 0.0, True) if is_inside else None

    def _by_samples(self, model: Model, shares: Array | None) -> Array:
        """-H^-1 slope from equations in the samples; those of weight 0 have no part in H."""
        used = np.flatnonzero(model.w)
        w, largest = by_largest(model.w[used])
        root = np.sqrt(w)
        K = self.K[used]
        if is_dense(K):
            gram = self._row_gram[np.ix_(used, used)]
        else:
            gram, _ = sparse_gram(for_compiled_code(K.T), np.ones(K.shape[1]))
        image = K @ -model.slope
        if shares is not None:  # about the weighted means of the columns
            shares = shares[used]
            means = gram @ shares
            gram = gram - means[:, None] - means[None, :] + dot(shares, means)
            image = image - dot(shares, image)
        scaled = root[:, None] * gram * root[None, :]
        right = (root * image)[:, None]
        solved = root * solve_positive(scaled, right, ridge=model.curvature / largest)[:, 0]
        if shares is not None:
            solved = solved - shares * float(solved.sum())
        return (-model.slope - K.T @ solved) / model.curvature

    @cached_property
    def _row_gram(self) -> Array:
        """KK' of a dense K."""
        return row_gram(self.K)

    def _by_products(self, model: Model, shares: Array | None, *, is_needed: bool) -> Array | None:
        """-H^-1 slope, about; None where it takes too many products, unless it is needed anyway."""
        w = model.w
        # the diagonal of H, if all weights were their mean
        diagonal = float(w.mean()) * self._squares + model.curvature

        def times(d: Array) -> Array:
            image = self.K @ d
            if shares is not None:
                image = image - dot(shares, image)
            return self.Kt @ (w * image) + model.curvature * d

        found = conjugate_gradients(
            times,
            -model.slope,
            inner=dot,
            accuracy=OPTIONS.accuracy_by_products,
            max_iterations=OPTIONS.inside_steps,
            precondition=lambda r: r / diagonal,
        )
        is_done = found.iterations < OPTIONS.inside_steps or deadline.passed()
        return found.x if is_needed or is_done else None

    @cached_property
    def _squares(self) -> Array:
        """|K_j|^2 for each column, or 1 for a column of zeros."""
        squares = norms_of_columns(self.K) ** 2
        return np.where(squares > 0.0, squares, 1.0)


class InsideRoad:
    """Models of all coordinates inside the ball, for as long as they lead down and stay there."""

    def __init__(self, loss: Folded, start: ObjectivePoint) -> None:
        self.loss = loss
        self.start = start
        self.part: Columns | None = None

    def leads_to(self, point: ObjectivePoint, enough: float) -> ObjectivePoint | None:
        """Where the models lead to; None where that is not inside the ball.

        They begin at the start of the run: what fits the samples in a few coordinates hides their
        curvature from the others.
        """
        if self.part is None:
            self.part = Columns(self.loss, None)
            self.part.curvature = Inside(self.part.K, centred=self.part.h.has_intercept)
            point = near_least(self.loss, self.start)
        part = self.part
        part.begin(point)
        part.solve(enough)
        point.tally.inner_iterations += part.steps
        return part.point() if part.is_slack and part.has_moved else None


def near_least(loss: Folded, start: ObjectivePoint) -> ObjectivePoint:
    """The least point without a constraint, about, for a squared hinge of sparse data; else the
    start.

    Newton's method is slow to see which samples fall short of their margins, and liblinear, by
    coordinate ascent on the dual, is fast. It penalises the intercept: its point is a start alone.
    """
    composite: Any = loss.composite
    is_plain = loss is composite and isinstance(start.g, Ridge)
    if not (isinstance(composite, SquaredHinge) and is_plain) or is_dense(composite.K):
        return start
    h: Any = composite.h
    if isinstance(h, WithOffset):  # liblinear has none
        return start
    weight = float(h.weights.max())
    C = 0.5 * weight / start.g.weight  # type: ignore[attr-defined]
    has_two_classes = bool((h.y > 0.0).any() and (h.y < 0.0).any())
    if not (has_two_classes and 0.0 < C < math.inf):  # it would refuse them
        return start
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    svc = LinearSVC(
        C=C, fit_intercept=h.has_intercept, max_iter=OPTIONS.inside_steps, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(for_compiled_code(composite.by_row), h.y, sample_weight=h.weights / weight)
    x = like(svc.coef_[0], start.x)
    return start if start.g.on.violation(x) > 0.0 else start.at(x)
