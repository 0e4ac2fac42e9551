"""Newton's method for F(X) = softmax loss of K X + ridge |X|^2 on the l1 ball: `smooth.Multinomial` with one radius.

As in `faces`: a working set of entries of X, those that are not 0 and those with the steepest gradients; a quadratic
model of F in them, minimised over the ball by `face_qp`; the step to its least point, or the exact one towards
it where F is not lower there; and the certificate of the full problem. With the probabilities p_ik of the classes and
the columns M_(jk) = p_k K_j, the Hessian in the entries (j, k) is

    sum_i w_i p_ik K_ij K_il [k = k']  -  M_(jk)' diag(w) M_(lk'),

less what intercepts, minimised out, take of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, double, is_dense, is_torch, precision, steepest_indices, total
from condgrad.ball.compiled import L1_BALL, Polytope
from condgrad.certificate import Iterate
from condgrad.errors import MissingAbility
from condgrad.kernels import readiness
from condgrad.kernels.thresholds import ACCURACY, FIRST_SIZE, LEAST_SLOPE_CURVATURE, NEAR_MULTIPLIER, ROUNDS
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.newton.face_models import interruptible
from condgrad.newton.working_set import pulled_in
from condgrad.problem import Simple, Smooth
from condgrad.rounding import LEAST_CURVATURE
from condgrad.search.steps import Exact, SearchState
from condgrad.sets import L1Ball
from condgrad.simple import Ridge, Zero
from condgrad.smooth import Multinomial
from condgrad.smooth.multinomial import MultinomialEvaluation

MOST_COPIED = 1 << 24
"""Entries of the columns of a working set that are worth a copy."""
MOST_COORDINATES = 3000
"""Entries of X in a working set beyond which their Hessian costs more than projected gradients."""
EXACTLY = Exact(1e-2)
"""How far to go towards the least point of a model where F is not lower."""


@dataclass(frozen=True)
class SoftmaxNewton:
    """Newton's method for a softmax loss and a ridge, or none, on the l1 ball."""

    f: Multinomial
    g: Ridge | Zero
    name: ClassVar[str] = "newton"
    affordable: ClassVar[bool] = True
    needs_kernels: ClassVar[bool] = True

    @classmethod
    def of(cls, f: Smooth, g: Simple) -> SoftmaxNewton:
        """The method, or a sentence that names the missing piece."""
        if not (isinstance(f, Multinomial) and f.at_hand) or is_torch(f.K):
            raise MissingAbility(f"{f!r} is no Multinomial of NumPy or SciPy data")
        if not isinstance(g, Ridge | Zero) or not isinstance(g.on, L1Ball):
            raise MissingAbility(f"{g!r} is no Ridge or Zero on an L1Ball")
        return cls(f, g)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f, g, tally = self.f, self.g, Tally()
        certifier, point = Certifier(f, g, tally), ObjectivePoint(f, g, x, tally)
        size, multiplier, gap = FIRST_SIZE, None, math.inf
        while True:
            iterate = certifier.iterate(point, 1.0)
            yield iterate
            if not readiness.wait() or deadline.passed() or g.on.scale == 0.0:
                return
            before, gap = gap, iterate.value - iterate.lower_bound
            size = self._next_size(point, size, multiplier, slow=gap > 0.5 * before)
            chosen = np.sort(steepest_indices(np.abs(point.gradient).ravel(), point.x.ravel(), min(size, x.size)))
            if len(chosen) > MOST_COORDINATES or len(chosen) * f.K.shape[0] > MOST_COPIED:
                return
            found = self._least_of_model(point, chosen, multiplier)
            if found is None:
                return
            end, multiplier = found
            tally.inner_iterations += 1
            after = self._lower_on_the_way(point, end)
            if after is None:
                return
            point = after

    def _next_size(self, point: ObjectivePoint, size: int, multiplier: float | None, *, slow: bool) -> int:
        """As in `faces`: twice as many as are not 0, more where these brought little, if their slopes are steep."""
        support = int(np.count_nonzero(point.x))
        most = max(2 * size if slow else size, 2 * support)
        if multiplier is None:
            return most
        near = int(np.count_nonzero(np.abs(point.gradient) >= NEAR_MULTIPLIER * multiplier))
        return min(most, max(near, support + FIRST_SIZE // 2, FIRST_SIZE))

    def _least_of_model(
        self, point: ObjectivePoint, chosen: Array, multiplier: float | None
    ) -> tuple[ObjectivePoint, float] | None:
        """F at the least point of the model at a point, and its multiplier.

        None where there is no slope, no time, or no curvature beyond its rounding, so that the step is not finite.
        """
        from condgrad.ball.compiled import face_qp
        from condgrad.ball.compiled.free_block import of_matrix

        f, on = self.f, self.g.on
        slope, x = double(point.gradient.ravel()[chosen]), double(point.x.ravel()[chosen])
        steepest = float(np.abs(slope).max())
        if steepest == 0.0 or not math.isfinite(steepest):
            return None
        ridge = self.g.weight
        H = hessian(f, point.smooth, chosen)
        diagonal = np.einsum("jj->j", H)
        curvature = 2.0 * ridge + LEAST_SLOPE_CURVATURE * steepest / on.scale
        diagonal += curvature + LEAST_CURVATURE * np.abs(diagonal)
        guess, stop = -1.0 if multiplier is None else multiplier, np.zeros(1, np.bool_)
        ball = Polytope(L1_BALL, on.scale, np.empty(0), np.empty(0))
        rest = slope, x, ball, guess, ACCURACY, ROUNDS, stop
        y, mu, _, _ = interruptible(lambda: face_qp.minimise(of_matrix(H), *rest), stop)
        if deadline.passed() or not np.isfinite(y).all():
            return None
        whole = np.zeros(point.x.size, point.x.dtype)
        whole[chosen] = y
        end = whole.reshape(point.x.shape)
        if on.violation(end) > 0.0:
            end = pulled_in(on, end)
        return self._at(end, point), mu

    def _at(self, x: Array, near: ObjectivePoint) -> ObjectivePoint:
        """F at a point whose intercepts are about those at another."""
        near.tally.evaluations += 1
        smooth = MultinomialEvaluation(self.f, x, near=near.smooth.intercept)
        return ObjectivePoint(self.f, self.g, x, near.tally, smooth)

    def _lower_on_the_way(self, point: ObjectivePoint, end: ObjectivePoint) -> ObjectivePoint | None:
        """The end if F is lower there, or the lowest point on the way; None where none is lower."""
        if end.value < point.value:
            return end
        state = SearchState(
            self.f, self.g, 0, point.x, point.smooth, [end.smooth], (end.x - point.x)[None], point.value, 0.0
        )
        between = point.moved(end, float(EXACTLY(state)[0]))
        if between.value < point.value:
            return between
        return end if end.value - point.value <= precision(point.x) * point.terms.size else None


def hessian(f: Multinomial, here: MultinomialEvaluation, chosen: Array) -> Array:
    """The Hessian of f in some entries of X, which are numbered as in X.ravel()."""
    h, classes = f.h, len(f.classes)
    features, labels = chosen // classes, chosen % classes
    _, shares = h.value_and_shares(here.z, here.intercept)
    K: Any = f.K[:, features].T if is_dense(f.K) else f.K.tocsc()[:, features].T.toarray()
    # a row an entry of X: then every product runs along the samples
    rows, by_class = np.ascontiguousarray(K, np.float64), np.ascontiguousarray(shares.T)
    if h.has_intercept:  # a mean makes no difference then, and a large one would leave no digits of the rest
        rows = rows - (rows @ (h.weights / total(h.weights)))[:, None]
    pulls = by_class[labels] * rows
    weighted = pulls * h.weights
    H = -(weighted @ pulls.T)
    coupling = -(weighted @ shares)
    for label in range(classes):
        own = np.flatnonzero(labels == label)
        # p (1 - p) by the shares of the others: near 1 the difference would have no digits
        others = np.delete(by_class, label, axis=0).sum(axis=0)
        H[np.ix_(own, own)] = (weighted[own] * others) @ rows[own].T
        coupling[own, label] = weighted[own] @ others
    if h.has_intercept:
        H -= coupling @ h._inverse_curvature(shares) @ coupling.T
    return H
