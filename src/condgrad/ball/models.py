"""Quadratic models of F(x) = h(Kx) + <tilt, x> + ridge |x|^2, and their least points over a set.

    <slope, y - x> + <y - x, H (y - x)>/2,   H = K'WK + 2 ridge,   W = diag(w) - diag(w) AA' diag(w)

with w the second derivatives of the loss, and A an orthonormal basis, where samples weigh w, of the
columns that are minimised out of it: that of an intercept, and those without a penalty.
`curvature_of` chooses what knows H, by shape and kind of K:

- `ByMatrix` computes H, where there are not many more coordinates than samples;
- `BySamples` solves the dual in as many variables as samples, where there are;
- `ByProducts` keeps a sparse B with H = BB' + c, where a matrix would take longer.

A ball of groups has a solver of its own (`groups`), from H itself.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, Matrix, dot, double, is_dense, like, solve_positive, total
from condgrad.ball.compiled import (
    BOX,
    L1_BALL,
    PENALISED,
    PENALISED_POSITIVE,
    SIMPLEX,
    SOLID_SIMPLEX,
    Region,
)
from condgrad.ball.groups import least_on_groups
from condgrad.ball.options import OPTIONS
from condgrad.errors import NotFiniteError
from condgrad.methods.certified_point import ObjectivePoint
from condgrad.problem import Face
from condgrad.rounding import LEAST_CURVATURE
from condgrad.sets import Box, GroupBall, L1Ball, Simplex, SolidSimplex
from condgrad.sets.penalised import Penalised
from condgrad.simple import ElasticNet
from condgrad.smooth.intercept import less_part, less_projection, weighted_basis

if TYPE_CHECKING:
    from condgrad.ball.compiled.free_block import ModelHessian

NormBall = L1Ball | SolidSimplex
"""Sets of all x with |x|_1 <= size; the norm may also be smaller."""
SparseSet = NormBall | Penalised | GroupBall
"""Sets on which most coordinates of a solution are 0: those whose pulls are below the multiplier.
"""
SetWithFaces = SparseSet | Simplex | Box
"""The sets on which models are minimised."""


class LeastPoint(NamedTuple):
    """The least point of a model over the set."""

    x: Array
    multiplier: float
    """Of the sum or the norm."""
    is_slack: bool
    """Whether its norm is below the size of a ball."""


class Model(NamedTuple):
    """What a model is beside its Hessian, on the host and in float64."""

    x: Array
    slope: Array
    w: Array
    """The second derivatives of the loss, one a sample."""
    ridge: float
    curvature: float
    """What is added to K'WK: 2 ridge, and for coordinates along which F is linear a little more."""
    on: Any
    """The set."""
    multiplier: float | None
    """Of the model before."""
    reach: float = math.inf
    """What the norm of solutions does not exceed."""


class Curvature(Protocol):
    """What knows H."""

    def least(self, model: Model) -> LeastPoint | None:
        """The least point of a model; None where there is none to be found, or time is up."""


def region_of(model: Model, divisor: float) -> Region:
    """The set of a model that is divided by a number, for compiled code."""
    on = model.on
    x = model.x
    none = np.empty(0)
    if isinstance(on, Penalised):
        kind = PENALISED_POSITIVE if on.positive else PENALISED
        return Region(kind, on.l1 / divisor, np.array([model.reach]), none)
    if isinstance(on, L1Ball):
        return Region(L1_BALL, on.radius, none, none)
    if isinstance(on, Simplex):
        return Region(SIMPLEX, on.mass, none, none)
    if isinstance(on, SolidSimplex):
        return Region(SOLID_SIMPLEX, on.mass, none, none)
    lower = np.array(np.broadcast_to(double(like(on.lower, x)), x.shape), order="C")
    upper = np.array(np.broadcast_to(double(like(on.upper, x)), x.shape), order="C")
    return Region(BOX, on.scale, lower, upper)


def in_entries(on: Any, chosen: Array | None, shape: tuple[int, ...]) -> Any:
    """The set that some entries of a variable are in, the others being 0."""
    return on.in_entries(chosen, shape) if isinstance(on, GroupBall) else on


def reach_at(point: ObjectivePoint) -> float:
    """What the norm of solutions does not exceed: the size of the set, or what a penalty leaves of
    it.
    """
    g: Any = point.g
    if not isinstance(g, ElasticNet):
        return float(g.on.scale)
    return g.beside(point.f, point.smooth, point.value).reach


def curvature_added(ridge: float, slope: Array, reach: float) -> float | None:
    """What is added to the Hessian of a loss; None where the slope leads nowhere."""
    steepest = float(np.abs(slope).max())
    if steepest == 0.0 or reach == 0.0 or not math.isfinite(steepest):
        return None
    return 2.0 * ridge + OPTIONS.slope_curvature * steepest / reach


def least_point(
    hessian: ModelHessian,
    model: Model,
    *,
    divisor: float = 1.0,
    accuracy: float = OPTIONS.accuracy,
) -> LeastPoint | None:
    """The least point by the compiled quadratic program; the Hessian is divided already."""
    from condgrad.ball.compiled import face_qp

    if deadline.passed():
        return None
    stop = np.zeros(1, np.bool_)
    guess = -1.0 if model.multiplier is None else model.multiplier / divisor
    begin = model.slope / divisor, model.x, region_of(model, divisor), guess

    def minimise() -> Any:
        return face_qp.minimise(hessian, *begin, accuracy, OPTIONS.rounds, stop)

    is_long = model.x.shape[0] > OPTIONS.long
    y, multiplier, is_slack, _ = interruptible(minimise, stop) if is_long else minimise()
    return LeastPoint(y, multiplier * divisor, is_slack)


def least_by_gram(gram: Array, model: Model) -> LeastPoint | None:
    """The least point from K'WK, whose diagonal is spoiled."""
    diagonal = np.einsum("jj->j", gram)
    # where means cancel, rounding may leave less than 0
    diagonal[:] = (1.0 + LEAST_CURVATURE) * np.maximum(diagonal, 0.0)
    diagonal += model.curvature
    if isinstance(model.on, GroupBall):
        return LeastPoint(*least_on_groups(gram, model.slope, model.x, model.on))
    from condgrad.ball.compiled.free_block import ModelHessian

    return least_point(ModelHessian(gram), model)


class ByMatrix:
    """From H itself."""

    def __init__(self, K: Matrix, *, free: Array | None, is_constant: bool) -> None:
        self.K = K
        self.free = free
        """The columns that are minimised out of the loss."""
        self.is_constant = is_constant
        """Whether the weights never change."""
        self._gram: Any = None

    def least(self, model: Model) -> LeastPoint | None:
        gram = self._gram
        if gram is None:
            gram = self._weighted_gram(model.w)
        if gram is None:
            return None
        if self.is_constant:
            self._gram = gram
            gram = gram.copy()
        return least_by_gram(gram, model)

    def _weighted_gram(self, w: Array) -> Array | None:
        shares, largest = by_largest(w)
        A = weighted_basis(self.free, shares)
        if is_dense(self.K):
            return gram_by_blocks(self.K, w, A, (shares[:, None] * A).T @ self.K)
        gram, sums = sparse_gram(self.K, w)
        if A.shape[1] > 0:
            is_one_for_all = len(A) == 1
            along = A.T * sums / largest if is_one_for_all else (shares[:, None] * A).T @ self.K
            gram -= largest * (along.T @ along)
        return gram


class BySamples:
    """From B with B'B = K'WK, a row of B a sample, for many more coordinates than samples.

    The model is <slope, d> + |Bd|^2/2 + c |d|^2/2, d = y - x. Its dual

        max D(theta) = min over y of <slope + B'theta, d> + c |d|^2/2,   less |theta|^2/2,

    is piecewise quadratic: y(theta) is a projection, on a face with free coordinates A and, where
    their sum or norm is the largest, a normal e. Its Hessian there is -(1 + B_A P B_A'/c), with
    P = 1 - ee'/|e|^2. Newton's method takes about five steps, whatever the number of coordinates.
    It may take many where c is small: then, and without a ridge, H itself is used.
    """

    def __init__(self, K: Matrix, *, free: Array | None, is_constant: bool) -> None:
        self.K = K
        self.free = free
        """The columns that are minimised out of the loss."""
        self.is_constant = is_constant
        self._last_rows: Array | None = None
        self.matrix = ByMatrix(K, free=free, is_constant=is_constant)
        self.is_hard = False

    def least(self, model: Model) -> LeastPoint | None:
        if not self.is_hard and model.ridge > 0.0:
            found = self._by_dual(model)
            if found is not None or deadline.passed():
                return found
            self.is_hard = True
        k = self.K.shape[1]
        return self.matrix.least(model) if k * k <= OPTIONS.most_copied else None

    def _by_dual(self, model: Model) -> LeastPoint | None:
        """The least point; None where it is not found in some steps."""
        w, largest = by_largest(model.w)
        rows = self._rows(w)
        l1 = model.on.l1 / largest if isinstance(model.on, Penalised) else 0.0
        c = model.curvature / largest
        dual = DualOfModel(rows, model.x, model.slope / largest, c, model.on, l1)
        here = dual.at(np.zeros(rows.shape[1]))
        for _ in range(OPTIONS.dual_steps):
            value = dual.model_at(here)
            if value - here.value <= OPTIONS.accuracy * -value:
                return dual.least_point(here, largest)
            after = None if deadline.passed() else dual.after_step(here)
            if after is None:
                return None
            here = after
        return None

    def _rows(self, w: Array) -> Array:
        """B', a coordinate a row, so that those of a face are copied fast."""
        if self._last_rows is not None:
            return self._last_rows
        K = (
            self.K
            if self.free is None
            else less_projection(self.K, weighted_basis(self.free, w), w)
        )
        rows = np.empty(K.shape[::-1])
        np.multiply(K.T, np.sqrt(w), out=rows)
        if self.is_constant:
            self._last_rows = rows
        return rows


class PointOfDual(NamedTuple):
    """A point of the dual of a model."""

    theta: Array
    v: Array
    """What is projected."""
    face: Face
    """Where that leads to: y(theta)."""
    image: Array
    """B d."""
    simple: float
    """c |d|^2/2 and, under a penalty, its change."""
    value: float


class DualOfModel:
    """The dual of <slope, d> + |Bd|^2/2 + c |d|^2/2 + l1 |x + d|_1 over x + d in a set."""

    def __init__(
        self, rows: Array, x: Array, slope: Array, c: float, on: Any, l1: float = 0.0
    ) -> None:
        self.rows = rows
        """B', a coordinate a row."""
        self.x = x
        self.slope = slope
        self.c = c
        self.on = on
        self.l1 = l1
        """The penalty in the unit of the model; 0 where a set bounds the norm."""

    def model_at(self, here: PointOfDual) -> float:
        """The model at y(theta), less that at x."""
        linear = dot(self.slope, here.face.point - self.x)
        return linear + 0.5 * dot(here.image, here.image) + here.simple

    def at(self, theta: Array) -> PointOfDual:
        a = self.slope + self.rows @ theta
        v = self.x - a / self.c
        is_penalised = isinstance(self.on, Penalised)
        face = self.on.near(v, self.l1 / self.c) if is_penalised else self.on.face(v)
        d = face.point - self.x
        simple = 0.5 * self.c * dot(d, d)
        if self.l1 > 0.0:
            simple += self.l1 * total(np.abs(face.point) - np.abs(self.x))
        value = dot(a, d) + simple - 0.5 * dot(theta, theta)
        return PointOfDual(theta, v, face, d @ self.rows, simple, value)

    def after_step(self, here: PointOfDual) -> PointOfDual | None:
        """Where a Newton step leads to; None where D rises no more."""
        active = here.face.active
        rows = self.rows if len(active) == len(self.rows) else np.take(self.rows, active, axis=0)
        gram = rows.T @ rows / self.c
        normal = here.face.normal
        if normal is not None:
            along = normal @ rows
            gram -= np.outer(along, along / (self.c * dot(normal, normal)))
        try:
            d = solve_positive(gram, (here.image - here.theta)[:, None], ridge=1.0)[:, 0]
        except NotFiniteError:  # c is too small for the digits of 1 + BB'/c
            return None
        step = 1.0
        while step > OPTIONS.narrow:
            there = self.at(here.theta + step * d)
            if there.value > here.value:
                return there
            step *= 0.5
        return None

    def least_point(self, here: PointOfDual, divisor: float) -> LeastPoint:
        """What is found, in the unit of F."""
        y = here.face.point
        if isinstance(self.on, Penalised):
            return LeastPoint(y, self.on.l1, False)
        if not isinstance(self.on, NormBall) or here.face.normal is None:
            return LeastPoint(y, 0.0, isinstance(self.on, NormBall))
        # what the projection takes off the largest entries
        sizes = here.v if self.on.nonnegative else np.abs(here.v)
        threshold = max(0.0, float(sizes.max()) - float(np.abs(y).max()))
        return LeastPoint(y, threshold * self.c * divisor, False)


class ByProducts:
    """The same for a sparse K: by conjugate gradients, or by H once these have taken too long.

    An intercept is the only column that may be minimised out.
    """

    def __init__(self, K: Matrix, *, free: Array | None, is_constant: bool) -> None:
        self.columns = K.tocsc()
        self.free = free
        self.matrix = ByMatrix(K, free=free, is_constant=is_constant)
        self.is_hard = False

    def least(self, model: Model) -> LeastPoint | None:
        if not self.is_hard:
            hessian, largest = self._rows(model)
            found = least_point(
                hessian, model, divisor=largest, accuracy=OPTIONS.accuracy_by_products
            )
            self.is_hard = bool(np.isinf(hessian.spent).any())
            if not self.is_hard:
                return found
        return self.matrix.least(model)

    def _rows(self, model: Model) -> tuple[ModelHessian, float]:
        from condgrad.ball.compiled.free_block import of_rows

        K = self.columns
        m, k = K.shape
        w, largest = by_largest(model.w)
        mass = float(w.sum())
        means = np.zeros(k)
        if self.free is not None and mass > 0.0:  # columns that are centred would not be sparse
            means = K.T @ (w / math.sqrt(mass))
        # a matrix of more coordinates than samples is singular, and a large one has no room
        may_give_up = k <= m and k * k <= OPTIONS.most_copied
        hessian = of_rows(
            K.indptr,
            K.indices,
            K.data * np.sqrt(w)[K.indices],
            m,
            means=means,
            ridge=np.full(k, model.curvature / largest),
            spent=np.zeros(1 if may_give_up else 0),
        )
        return hessian, largest


def curvature_of(
    K: Matrix, *, free: Array | None, is_constant: bool, has_groups: bool = False
) -> Curvature | None:
    """What knows H of these columns; None where it would take too much room."""
    m, k = K.shape
    is_wide = k > max(2 * m, OPTIONS.wide)
    is_sparse = not is_dense(K)
    if has_groups or (is_sparse and free is not None and free.shape[1] > 1):
        is_small = k * k <= OPTIONS.most_copied
        return ByMatrix(K, free=free, is_constant=is_constant) if is_small else None
    if is_sparse and (is_wide or k * k * k > OPTIONS.passes * K.nnz):
        return ByProducts(K, free=free, is_constant=is_constant)
    if min(m, k) * k > OPTIONS.most_copied:
        return None
    if is_wide:
        return BySamples(K, free=free, is_constant=is_constant)
    return ByMatrix(K, free=free, is_constant=is_constant)


def by_largest(w: Array) -> tuple[Array, float]:
    """Weights as shares of the largest, and that: then a square root does not know the unit of F."""
    largest = float(w.max()) or 1.0
    return w / largest, largest


def gram_by_blocks(K: Array, w: Array, A: Array, along: Array) -> Array | None:
    """K' diag(w) K from a block of rows after the other; None where the time is up in between.

    What orthonormal columns A have of K is taken off first, A times what K is along them: much of
    it, such as large means, would leave no digits of the rest.
    """
    m, k = K.shape
    rows = max(1, OPTIONS.block // (k * k))
    gram: Any = None
    for begin in range(0, m, rows):
        if deadline.passed():
            return None
        block = K[begin : begin + rows]
        if len(along) > 0:
            block = less_part(block, A if len(A) == 1 else A[begin : begin + rows], along)
        part = block.T @ (w[begin : begin + rows, None] * block)
        gram = part if gram is None else gram + part
    return gram


def sparse_gram(K: Matrix, w: Array) -> tuple[Array, Array]:
    """K' diag(w) K and K'w for a sparse K."""
    from condgrad.kernels.sparse_gram import weighted_gram

    by_row = K.tocsr()
    return weighted_gram(by_row.indptr, by_row.indices, by_row.data, w, K.shape[1])


def interruptible(work: Callable[[], Any], stop: Array) -> Any:
    """What compiled code returns that ends early once stop[0] is set: at the deadline, by Ctrl-C.

    It runs in a thread of its own, without Python's lock, while this one looks at the clock. An
    error of the work is raised here.
    """
    results: list[Any] = []
    failures: list[BaseException] = []

    def keep_what_comes() -> None:
        try:
            results.append(work())
        except BaseException as error:  # of whatever kind: it is the caller's, not the thread's
            failures.append(error)

    thread = threading.Thread(target=keep_what_comes, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(OPTIONS.look)
            if deadline.passed():
                stop[0] = True
    finally:
        stop[0] = True
        thread.join()
    if failures:
        raise failures[0]
    return results[0]
