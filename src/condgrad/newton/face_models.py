"""Quadratic models of F(x) = h(Kx) + <tilt, x> + ridge |x|^2 in some coordinates, and their least points over a set.

    <slope, y - x> + <y - x, H (y - x)>/2,   H = K' W K + 2 ridge,   W = diag(w) or diag(w) - w w'/sum(w)

with w the second derivatives of the loss; the second W is that of a loss whose intercept is minimised out. Three ways
to the least point, by shape and kind of the data:

- `face_qp` on the matrix H, where there are not many more coordinates than samples;
- `face_qp` on B with H = B B' + diag(c), where there are, or where B is sparse and a matrix would take longer;
- `by_rows.RowModel`, by operations on whole arrays, where B is dense and too large, or lives on a GPU.

Where the constraint of the l1 ball is likely to be slack, `least_inside` solves H d = -slope in the samples, or by
conjugate gradients.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import (
    Array,
    Matrix,
    dot,
    double,
    host,
    is_dense,
    largest_size,
    like,
    namespace,
    norms_of_columns,
    on_device,
    row_gram,
    solve_positive,
    total,
)
from condgrad.ball.compiled import BOX, L1_BALL, SIMPLEX, SOLID_SIMPLEX, Polytope
from condgrad.kernels.thresholds import (
    ACCURACY,
    LEAST_SLOPE_CURVATURE,
    LONG_MODEL,
    PASSES,
    ROUNDS,
    WEIGHT_CHANGE,
    WIDE,
    WIDE_FROM,
)
from condgrad.newton.by_rows import RowModel
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.rounding import LEAST_CURVATURE, LEAST_CURVATURE_BY_ROWS
from condgrad.sets import Box, L1Ball, Simplex, SolidSimplex
from condgrad.smooth.composite import Separable
from condgrad.smooth.folding import ScaledLoss

if TYPE_CHECKING:
    from condgrad.ball.compiled.free_block import Hessian

ACCURACY_BY_PRODUCTS = 0.1
"""`ACCURACY` of models by products, where each digit has its price: a tenth costs no Newton step more."""
ROWS_AT_MOST = 1 << 23
"""Entries of a model by rows that are worth a copy."""
MATRIX_AT_MOST = 1 << 25
"""Entries of the matrix of a sparse model that may step in where conjugate gradients give up."""
INSIDE_ACCURACY, INSIDE_STEPS = 0.1, 300
"""The residual of a step inside the ball, as a share of the slope, and the conjugate gradients it may take."""
FACTOR_PASSES = 5000
"""Passes over the data that factors with a row a sample may cost in place of conjugate gradients."""
MOST_SAMPLES = 4000
"""Samples up to which factors step in where conjugate gradients take too many steps."""
GRAM_OPERATIONS = 1 << 29
"""Multiplications of a Gram matrix between two looks at the clock."""
LOOK = 0.02
"""Seconds between two looks at the clock while compiled code runs."""


NormBall = L1Ball | SolidSimplex
"""Sets of |x|_1 <= size, whose norms may be below that."""
SetWithFaces = NormBall | Simplex | Box
"""Where models are minimised."""


def polytope_of(on: SetWithFaces, x: Array) -> Polytope:
    """A set of points such as x, for compiled code."""
    none = np.empty(0)
    if isinstance(on, L1Ball):
        return Polytope(L1_BALL, on.radius, none, none)
    if isinstance(on, Simplex | SolidSimplex):
        return Polytope(SIMPLEX if isinstance(on, Simplex) else SOLID_SIMPLEX, on.mass, none, none)
    lower, upper = (
        np.array(np.broadcast_to(host(double(like(bound, x))), x.shape), order="C") for bound in (on.lower, on.upper)
    )
    return Polytope(BOX, on.scale, lower, upper)


class LeastPoint(NamedTuple):
    """The least point of a model over the set."""

    x: Array
    multiplier: float | None
    """Of the sum or the norm; None from `RowModel`, which has none."""
    constraint_is_slack: bool
    """Whether its norm is below the size of a `NormBall`."""


class FaceModels:
    """The models of one working set, at one point after the other."""

    def __init__(self, h: Separable | ScaledLoss, K: Matrix, on: Any, ridge: float) -> None:
        self.h, self.K, self.Kt, self.on, self.ridge = h, K, K.T, on, ridge
        self._polytope: Polytope | None = None
        self._gram: Any = None
        """K' W K with what is added to its diagonal; its own diagonal and the weights are kept beside it."""
        self._is_hard = False
        """Whether conjugate gradients gave up on a model."""
        self._gram_diagonal: Array = None
        self._gram_weights: Array = None

    def least(self, x: Array, u: Array, intercept: float, slope: Array, multiplier: float | None) -> LeastPoint | None:
        """The least point of the model at x, where u = K x; None where the slope leads nowhere or time is up."""
        steepest = largest_size(slope)
        if steepest == 0.0 or not math.isfinite(steepest):
            return None
        curvature = 2.0 * self.ridge + LEAST_SLOPE_CURVATURE * steepest / self.on.scale
        w = self.h.curvature(u, intercept=intercept)
        m, k = self.K.shape
        is_wide = k > max(WIDE * m, WIDE_FROM)
        if not is_dense(self.K) and (is_wide or k**3 > PASSES * self.K.nnz):
            return self._least_by_products(x, slope, multiplier, w, curvature)
        if not is_wide:
            return self._least_compiled(x, slope, multiplier, self._by_matrix(w, curvature), 1.0)
        if self.fits_by_rows(k):
            return self._least_compiled(x, slope, multiplier, *self._by_rows(w, curvature))
        y = RowModel(self.K, w, curvature, centred=self.h.has_intercept).least(self.on, x, slope, ACCURACY)
        norm = total(namespace(y).abs(y))
        slack = isinstance(self.on, NormBall) and norm < self.on.scale * (1.0 - LEAST_CURVATURE_BY_ROWS)
        return None if deadline.passed() else LeastPoint(y, None, slack)

    def least_inside(self, x: Array, u: Array, intercept: float, slope: Array) -> LeastPoint | None:
        """The least point of the model at x without a constraint; None where that is outside the ball."""
        w = self.h.curvature(u, intercept=intercept)
        steepest, mass = largest_size(slope), total(w)
        if steepest == 0.0 or not mass > 0.0:
            return None
        curvature = 2.0 * self.ridge + LEAST_SLOPE_CURVATURE * steepest / self.on.scale
        shares = w / mass if self.h.has_intercept else None
        m, k = int(namespace(w).count_nonzero(w)), self.K.shape[1]
        d = None
        if m**3 > FACTOR_PASSES * (m * k if is_dense(self.K) else self.K.nnz):
            d = self._solved_by_products(w, shares, curvature, -slope, needed=m > MOST_SAMPLES)
        if d is None:
            d = self._solved_by_samples(w, shares, curvature, -slope)
        y = x + d
        inside = not deadline.passed() and self.on.violation(y) == 0.0
        return LeastPoint(y, 0.0, True) if inside else None

    def _solved_by_samples(self, w: Array, shares: Array | None, curvature: float, b: Array) -> Array:
        """H^-1 b from equations in the samples: (B'B + c)^-1 = (1 - B' (B B' + c)^-1 B)/c.

        Samples of weight 0 have no part in H.
        """
        unit = float(namespace(w).max(w))
        kept = namespace(w).nonzero(w)[0]
        K, w, shares = self.K[kept], w[kept], None if shares is None else shares[kept]
        root = namespace(w).sqrt(w / unit)  # in units of the largest weight: then it does not depend on the unit of F
        G = self._row_gram[kept][:, kept] if is_dense(K) else sparse_row_gram(K)
        if shares is not None:  # about the weighted means of the columns
            pull = G @ shares
            G = G - pull[:, None] - pull[None, :] + dot(shares, pull)
        image = root * centred(K @ b, shares)
        scaled = root[:, None] * G * root[None, :]
        solved = root * solve_positive(scaled, image[:, None], ridge=curvature / unit)[:, 0]
        if shares is not None:
            solved = solved - shares * total(solved)
        return (b - K.T @ solved) / curvature

    @cached_property
    def _row_gram(self) -> Array:
        """K K'."""
        return row_gram(self.K)

    def _solved_by_products(
        self, w: Array, shares: Array | None, curvature: float, b: Array, *, needed: bool
    ) -> Array | None:
        """H^-1 b, about, by conjugate gradients; None where they take too many steps, unless it is needed anyway."""
        # the diagonal of H, if all weights were their mean
        diagonal = (total(w) / w.shape[0]) * self._squared_norms + curvature
        found = conjugate_gradients(
            lambda d: self.Kt @ (w * centred(self.K @ d, shares)) + curvature * d,
            b,
            inner=dot,
            accuracy=INSIDE_ACCURACY,
            max_iterations=INSIDE_STEPS,
            precondition=lambda r: r / diagonal,
        )
        return found.x if needed or found.iterations < INSIDE_STEPS or deadline.passed() else None

    @cached_property
    def _squared_norms(self) -> Array:
        """|K_j|^2 for each column, or 1 for a column of zeros."""
        squares = norms_of_columns(self.K) ** 2
        return namespace(squares).where(squares > 0.0, squares, 1.0)

    def fits_by_rows(self, coordinates: int) -> bool:
        """Whether a model of so many coordinates is one for compiled code by rows."""
        m = self.K.shape[0]
        wide = coordinates > max(WIDE * m, WIDE_FROM) and coordinates * m <= ROWS_AT_MOST
        return wide and is_dense(self.K) and not on_device(self.K)

    def _least_by_products(
        self, x: Array, slope: Array, multiplier: float | None, w: Array, curvature: float
    ) -> LeastPoint | None:
        """`least` for a sparse K: by conjugate gradients or, where these take longer, by factors of the matrix."""
        m, k = self.K.shape
        may_give_up = k <= m and k * k <= MATRIX_AT_MOST  # a matrix of more coordinates than samples is singular
        if not self._is_hard:
            hessian, unit = self._by_sparse_rows(w, curvature, may_give_up=may_give_up)
            found = self._least_compiled(x, slope, multiplier, hessian, unit, ACCURACY_BY_PRODUCTS)
            self._is_hard = bool(np.isinf(hessian.spent).any())
            if not self._is_hard:
                return found
        return self._least_compiled(x, slope, multiplier, self._by_matrix(w, curvature), 1.0, ACCURACY_BY_PRODUCTS)

    def _least_compiled(
        self,
        x: Array,
        slope: Array,
        multiplier: float | None,
        hessian: Hessian | None,
        unit: float,
        accuracy: float = ACCURACY,
    ) -> LeastPoint | None:
        from condgrad.ball.compiled import face_qp

        if hessian is None or deadline.passed():
            return None
        if self._polytope is None:
            self._polytope = polytope_of(self.on, x)
        guess, stop = -1.0 if multiplier is None else multiplier / unit, np.zeros(1, np.bool_)
        arguments = (hessian, host(slope) / unit, host(x), self._polytope, guess, accuracy, ROUNDS, stop)
        if x.shape[0] < LONG_MODEL:
            y, mu, inside, _ = face_qp.minimise(*arguments)
        else:
            y, mu, inside, _ = interruptible(lambda: face_qp.minimise(*arguments), stop)
        return LeastPoint(like(y, x), mu * unit, inside)

    def _by_matrix(self, w: Array, curvature: float) -> Hessian | None:
        """K' W K + 2 ridge and a little more, on the host."""
        from condgrad.ball.compiled.free_block import of_matrix

        if not self._has_gram_of(w):
            self._gram, self._gram_weights = self._new_gram(w), w
            if self._gram is None:
                return None
            # where means cancel, rounding may leave less than 0
            self._gram_diagonal = (1.0 + LEAST_CURVATURE) * np.maximum(self._gram.diagonal(), 0.0)
        self._gram.flat[:: self._gram.shape[0] + 1] = self._gram_diagonal + curvature
        return of_matrix(self._gram)

    def _by_rows(self, w: Array, curvature: float) -> tuple[Hessian, float]:
        """B B' + c, with B B' = K' W K and a row of B a coordinate, in units of the largest weight; this unit."""
        from condgrad.ball.compiled.free_block import of_rows

        w = host(w)
        unit = float(w.max()) or 1.0
        relative = w / unit  # so that their square roots do not depend on the unit of F
        mass = relative.sum() if self.h.has_intercept else 0.0
        rows, root = self._rows, np.sqrt(relative)
        B = (rows - (rows @ (relative / mass))[:, None]) * root if mass > 0.0 else rows * root
        c = curvature / unit + LEAST_CURVATURE_BY_ROWS * np.einsum("ji,ji->j", B, B)
        return of_rows(B, c), unit

    def _by_sparse_rows(self, w: Array, curvature: float, *, may_give_up: bool) -> tuple[Hessian, float]:
        """The same for a sparse K, whose columns are not centred: a pull does it."""
        from condgrad.ball.compiled.free_block import of_sparse_rows

        unit = float(w.max()) or 1.0
        relative = w / unit
        mass = relative.sum() if self.h.has_intercept else 0.0
        root, K, k = np.sqrt(relative), self._by_column, self.K.shape[1]
        entries = K.data * root[K.indices]
        pull = self.Kt @ (relative / math.sqrt(mass)) if mass > 0.0 else np.zeros(k)
        ridge = np.full(k, curvature / unit)
        spent = np.zeros(1 if may_give_up else 0)
        return of_sparse_rows(K.indptr, K.indices, entries, len(w), pull=pull, ridge=ridge, spent=spent), unit

    @cached_property
    def _by_column(self) -> Matrix:
        """A sparse K, stored by columns."""
        return self.K.tocsc()

    @cached_property
    def _rows(self) -> Array:
        """K', a row a coordinate, on the host."""
        return np.ascontiguousarray(host(self.Kt))

    def _has_gram_of(self, w: Array) -> bool:
        """Whether the last Gram matrix is good enough for these weights."""
        if self._gram is None or self.h.quadratic:
            return self._gram is not None
        change = namespace(w).abs(w - self._gram_weights)
        return bool((change <= WEIGHT_CHANGE * self._gram_weights).all())

    def _new_gram(self, w: Array) -> Array | None:
        """K' W K; None where the time is up."""
        if deadline.passed():
            return None
        mass = total(w) if self.h.has_intercept else 0.0
        if is_dense(self.K):
            return weighted_gram(self.K, w, means=self.Kt @ (w / mass) if mass > 0.0 else None)
        from condgrad.kernels import sparse_gram

        gram, pull = sparse_gram.weighted_gram(self.K.indptr, self.K.indices, self.K.data, w, self.K.shape[1])
        if mass > 0.0:
            gram -= np.outer(pull / mass, pull)
        return gram


def weighted_gram(K: Array, w: Array, *, means: Array | None = None) -> Array | None:
    """K' diag(w) K on the host, from a block of rows after the other; None where the time is up in between.

    Means are taken off the columns first: large ones would leave no digits of the rest.
    """
    m, k = K.shape
    rows = max(1, GRAM_OPERATIONS // (k * k))
    gram: Any = None
    for begin in range(0, m, rows):
        if deadline.passed():
            return None
        block = K[begin : begin + rows]
        if means is not None:
            block = block - means[None, :]
        part = host(block.T @ (w[begin : begin + rows, None] * block))
        gram = part if gram is None else gram + part
    return gram


def sparse_row_gram(K: Matrix) -> Array:
    """K K' for a sparse K."""
    from condgrad.kernels import sparse_gram

    by_column, ones = K.tocsc(), np.ones(K.shape[1])
    return sparse_gram.weighted_gram(by_column.indptr, by_column.indices, by_column.data, ones, K.shape[0])[0]


def centred(u: Array, shares: Array | None) -> Array:
    """u less its weighted mean, where there are weights for it."""
    return u if shares is None else u - dot(shares, u)


def interruptible(work: Callable[[], Any], stop: Array) -> Any:
    """What compiled code returns that ends early once stop[0] is set: at the deadline, and when Ctrl-C is pressed.

    It runs in a thread of its own, without Python's lock, while this one looks at the clock. An error of the work is
    raised here.
    """
    found: list[Any] = []
    failures: list[BaseException] = []

    def keep_what_comes() -> None:
        try:
            found.append(work())
        except BaseException as error:  # of whatever kind: it is the caller's, not the thread's
            failures.append(error)

    thread = threading.Thread(target=keep_what_comes, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(LOOK)
            if deadline.passed():
                stop[0] = True
    finally:
        stop[0] = True
        thread.join()
    if failures:
        raise failures[0]
    return found[0]
