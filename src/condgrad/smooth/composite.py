"""f(x) = h(Kx) with a separable h. One product with K in each iteration is enough: the step, the
value and the next point all use it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
import scipy.sparse

from condgrad.arrays import (
    Array,
    Matrix,
    Space,
    Vector,
    combine,
    dot,
    dots,
    double,
    host,
    is_dense,
    is_torch,
    largest_size,
    length_of,
    like,
    mixed,
    namespace,
    norms_of_columns,
    precision,
    product,
    some_columns,
    spectral_norm,
    squares_about,
    stack,
    total,
    weighted_squares,
)
from condgrad.arrays.inputs import each_entry_once
from condgrad.problem import Smooth
from condgrad.search.restriction import LocalModel, Quadratic, Restriction

DOUBLE_OVER_SINGLE = 2.0**-29
"""The rounding unit of float64 divided by that of float32."""

SPARSE_ONE_IN = 64
"""If fewer than one in this many entries of x is not 0, only the norms of these columns are
computed.
"""


class AtBestIntercept(NamedTuple):
    """A loss at z with its intercept at its best."""

    value: float
    theta: Array
    """The gradient; with an intercept it sums to 0."""
    intercept: Any
    """A number; where columns are minimised out too, an array that begins with it."""


def with_shift(intercept: Any, shift: float) -> Any:
    """The intercept moved, with the amounts of columns as they are."""
    if np.ndim(intercept) == 0:
        return intercept + shift
    return np.concatenate([[intercept[0] + shift], intercept[1:]])


class Separable(Protocol):
    """h(z) = sum_i h_i(z_i), or min_b sum_i h_i(z_i + b) with an intercept; evaluated in float64.

    `near` is an intercept close to the best one, where one is known: it saves time and changes
    nothing else.
    """

    quadratic: bool
    curvature_bound: float
    has_intercept: bool

    def evaluate(self, z: Array) -> tuple[float, Array]:
        """h(z) and its gradient."""

    def at_best_intercept(self, z: Array, *, near: Any = None) -> AtBestIntercept:
        """h(z), its gradient and the best intercept."""

    def intercept_at(self, z: Array, *, near: Any = None) -> Any:
        """The best intercept for the targets of h, from which f may have subtracted their mean.

        It is 0 if h has no intercept.
        """

    def curvature(self, z: Array, *, intercept: Any = None) -> Array:
        """The second derivatives h_i'' at z_i, or at z_i + b; with no intercept, the diagonal of
        the Hessian.

        `intercept` is the best one if known.
        """

    def hessian_gram(self, z: Array, directions: Array, *, intercept: Any = None) -> Any:
        """The matrix <d_i, hess h(z) d_j> of a few directions, on the host; `intercept` is the best
        one if known.
        """


class LossOfMatrix(Smooth):
    """h(Kx), whether x has one column or one for each class: what is asked of K and the weights.

    Those of Dask's data ask it of their blocks (`row_blocks.InBlocks`); their K is not `at_hand`.
    """

    K: Matrix
    h: Any
    space: Space
    at_hand = True
    """Whether the data matrix K is an array or a sparse matrix in this process."""

    @cached_property
    def smoothness(self) -> float | None:
        """A Lipschitz constant of the gradient: the largest curvature of h times |K|^2. None if h
        has no largest curvature.
        """
        bound = self.h.curvature_bound
        return bound * spectral_norm(self.K) ** 2 if bound < math.inf else None

    @cached_property
    def column_norms(self) -> Array:
        """|K_j|_2 for each column, in float64."""
        return norms_of_columns(self.K)

    @cached_property
    def transposed(self) -> Matrix:
        """K'. For a sparse K this is a new object. It is stored, because making it may take as long
        as a product.
        """
        return self.K.T

    def image(self, x: Array) -> Array:
        """K x in float64."""
        return double(product(self.K, x))

    def transposed_times(self, theta: Array) -> Array:
        """K' theta in the wider of the two precisions."""
        if theta.dtype == self.K.dtype:  # most of theta is not 0: nobody needs to look
            return self.transposed @ theta
        return product(self.transposed, theta)

    @property
    def mass(self) -> float:
        """sum_i w_i."""
        return total(self.h.weights)

    @property
    def squares(self) -> Array:
        """sum_i w_i K_ij^2 for each column j, on the host."""
        return host(weighted_squares(self.K, self.h.weights))

    @property
    def squares_about_means(self) -> Array:
        """sum_i w_i (K_ij - mean_j)^2 for each column j, on the host."""
        w = self.h.weights
        means = host(product(self.K.T, w)) / self.mass
        return host(squares_about(self.K, w, like(means, w)))

    def unit_at(self, x: Array) -> float:
        return precision(x)


class Composite(LossOfMatrix):
    """f(x) = h(Kx)."""

    shift_size = 0.0
    """The size of the numbers that h first adds to K x, such as offsets or logarithms of targets.
    The rounding error of the sum depends on it.
    """
    target_center = 0.0
    """A number that was subtracted from the targets of h. It is added to the intercept that the
    user sees.
    """
    unpenalised: Any = None
    """The columns without a penalty (`FreeColumns`), or None. f uses their best coefficients."""
    tilt: Array | None = None
    """Always None here. A `FoldedLoss` may have linear terms besides h(Kx)."""
    weight = 1.0
    """Always 1 here. A `FoldedLoss` may multiply h(Kx) by another number."""

    def __init__(self, K: Matrix, h: Separable) -> None:
        self.K = each_entry_once(K)
        self.h = h
        kind = K if self.at_hand else np.empty(0, K.dtype)
        self.space = Space.of(kind, shape=(K.shape[1],))

    @cached_property
    def by_row(self) -> Matrix:
        """K. A sparse K is stored by rows (CSR)."""
        return self.K if is_dense(self.K) else scipy.sparse.csr_array(self.K)

    @cached_property
    def by_column(self) -> Matrix:
        """A sparse K stored by columns (CSC), so that copying some columns is fast."""
        return scipy.sparse.csc_array(self.K)

    def image_size(self, x: Array) -> float:
        """sum_j |K_j|_2 |x_j|: the size of the terms of K x before they cancel."""
        if type(self.K) is np.ndarray and "column_norms" not in self.__dict__:
            support = np.flatnonzero(x != 0.0)  # faster than of the numbers themselves
            if support.shape[0] == 0:
                return 0.0
            if (
                SPARSE_ONE_IN * support.shape[0] < x.shape[0]
            ):  # a sparse x needs the norms of a few columns only
                return dot(norms_of_columns(some_columns(self.K, support)), np.abs(x[support]))
        return dot(self.column_norms, namespace(x).abs(x))

    def magnitude(
        self,
        value: Any,
        intercept: Any,
        theta_length: Any,
        theta_sum: Any,
        image_size: Any,
        other_image_size: Any,
        *,
        unit: float | None = None,
        curvature: float | None = None,
    ) -> Any:
        """The size of the terms of <K'theta, y> before they cancel, from numbers at x and at y.

        The arguments may also be arrays of such numbers. `unit` is the rounding unit at x, by
        default the unit of the data. `curvature` is the curvature of h at x, by default its bound.

        The rounding error of an entry of K'theta is a unit of |K_j| |theta|. theta may be nothing
        but the rounding error of K x, as in interpolation. Then |theta| is at most the curvature
        times this error.
        """
        unit = self.space.unit if unit is None else unit
        curvature = self.h.curvature_bound if curvature is None else curvature
        rounding = (theta_length > 0.0) * (unit * curvature) * image_size
        size = (theta_length + rounding) * other_image_size
        if not self.is_shifted:
            return size
        # The intercept is added in float64. And theta sums to 0 up to the rounding of float64, a
        # sum that is multiplied by how far the best intercept at the other point is from the one
        # here: no farther than the entries of K x are.
        finer = 1.0 if unit <= sys.float_info.epsilon else DOUBLE_OVER_SINGLE
        size = size + finer * (abs(intercept) + image_size + other_image_size) * theta_sum
        # residuals that are nothing but the rounding of the intercept have squares all the same
        slip = (value > 0.0) * sys.float_info.epsilon * abs(intercept)
        return size + 0.5 * curvature * self.K.shape[0] * slip * slip / unit

    def at(self, x: Array) -> CompositeEvaluation:
        return CompositeEvaluation(self, x)

    def evaluation(self, x: Array, u: Array, best: AtBestIntercept) -> CompositeEvaluation:
        """The evaluation of f at x, from u = K x and from h at u."""
        here = CompositeEvaluation(self, x, u, near=best.intercept)
        here.at_best = best
        return here

    def loss_at(self, evaluation: CompositeEvaluation) -> CompositeEvaluation:
        """The evaluation of h(Kx) alone. Here it is the given evaluation, because f has no other
        terms.
        """
        return evaluation

    def at_best(self, evaluation: CompositeEvaluation) -> AtBestIntercept:
        """h with its best intercept, from an evaluation of f."""
        best: AtBestIntercept = evaluation.at_best
        return best

    @property
    def composite(self) -> Composite:
        """h(Kx) alone: here it is f itself."""
        return self

    @cached_property
    def on_host(self) -> Any:
        """h as a function of NumPy arrays, also if K is a tensor."""
        return self.h.on_host() if is_torch(self.K) else self.h

    @property
    def free(self) -> Array | None:
        """The columns without a penalty. An intercept alone is given as one row, not as a whole
        column.
        """
        if self.unpenalised is not None:
            return self.h.free
        return np.ones((1, 1)) if self.h.has_intercept else None

    def gradient_from(self, theta: Array) -> Array:
        """K' theta in the precision of K."""
        if theta.dtype != self.K.dtype:
            if not self._first_slopes:
                self._check_digits(theta)
            theta = namespace(theta).astype(theta, self.K.dtype)
        with np.errstate(invalid="ignore"):  # of infinite slopes, which end a run
            return self.transposed_times(theta)

    @cached_property
    def _first_slopes(self) -> list[float]:
        """The size of the first gradient of h that was not 0, once there was one.

        It belongs to what was computed, not to the problem: as a cached property it is in no
        digest.
        """
        return []

    def _check_digits(self, theta: Array) -> None:
        """Note the size of theta; an error where its entries have too few digits in the precision
        of K, or none.

        Then K'theta may be 0, and the lower bound that it gives F itself. Where most runs start,
        theta is of the size of the weights; it may be as small as it likes later on, where F is
        near 0. A run may start there, too: where a loss saturates, or interpolates, theta is
        nothing beside its size at K x = 0, and that has to have digits.
        """
        size = largest_size(theta)
        space = self.space
        low = space.smallest / space.unit
        high = space.unit * float(space.xp.finfo(space.dtype).max)
        if 0.0 < size < low:
            at_zero = self.h.at_best_intercept(namespace(theta).zeros_like(theta))
            size = max(size, largest_size(at_zero.theta))
        if size != 0.0 and not low <= size <= high:
            raise ValueError(
                f"the slopes of the loss are about {size:.2g}, but {self.K.dtype} data are only precise from {low:.0e} "
                f"to {high:.0e}: give float64 data, or multiply sample_weight and all other parts of F by the same number"
            )
        if size != 0.0:
            self._first_slopes.append(size)

    @property
    def is_shifted(self) -> bool:
        """Whether f has an intercept or columns without a penalty."""
        return self.h.has_intercept or self.unpenalised is not None

    def intercept_at(self, x: Array) -> float:
        """The best intercept at x; 0 without an intercept."""
        return self.at(x).intercept

    def unpenalised_at(self, x: Array) -> Array | None:
        """The best coefficients of the unpenalised columns at x; None without such columns."""
        return self.at(x).unpenalised

    def __repr__(self) -> str:
        m, n = self.K.shape
        return f"{type(self).__name__}({m} samples, {n} features{', intercept' if self.h.has_intercept else ''})"


def is_at_hand(f: Any) -> TypeGuard[Composite]:
    """Whether f is an h(Kx) whose K is an array or a sparse matrix of this process."""
    return isinstance(f, Composite) and f.at_hand


class EvaluationOfImage:
    """h(Kx) at x, from z = Kx, which is computed when first asked for or handed in; moves on by
    mixing z's. x may have a column for each of several classes.

    The bound `offset + min <K'theta, s> + g(s)` holds for *any* z with theta = grad h(z) (it is the
    dual function at theta), so rounding that builds up in z never spoils the certificate.
    """

    def __init__(self, f: Any, x: Array, z: Array | None = None, *, near: Any = None) -> None:
        self.f = f
        self.K = f.K
        self.h = f.h
        self._x = x
        self._near = near
        if z is not None:
            self.z = z

    @cached_property
    def z(self) -> Array:
        """K x, in float64."""
        return self.f.image(self._x)

    @cached_property
    def at_best(self) -> Any:
        """h at z, its gradient and the best intercept."""
        return self.h.at_best_intercept(self.z, near=self._near)

    @property
    def value(self) -> float:
        return self.at_best.value

    @property
    def theta(self) -> Array:
        """The gradient of h."""
        return self.at_best.theta

    @cached_property
    def theta_length(self) -> float:
        """|theta|_2."""
        return length_of(self.theta)

    @property
    def offset(self) -> float:
        return self.value - dot(self.theta, self.z)

    def along(self, others: Sequence[EvaluationOfImage], directions: Array) -> Restriction:
        moves = stack([other.z - self.z for other in others])
        here = self.at_best.intercept
        if not self.h.quadratic:
            shifts = np.array([other.at_best.intercept - here for other in others])
            return RestrictionOfImage(self.h, self.z, moves, here, shifts)
        hessian = self.h.hessian_gram(self.z, moves, intercept=here)
        return Quadratic(self.value, dots(moves, self.theta), hessian)

    def mixed_with(self, others: Sequence[EvaluationOfImage], a: Vector) -> tuple[Array, Any]:
        """z of a mixture of points, and about the best intercept there."""
        here = self.at_best.intercept
        near = here + sum(a[i] * (other.at_best.intercept - here) for i, other in enumerate(others))
        return mixed(self.z, [other.z for other in others], a), near


class CompositeEvaluation(EvaluationOfImage):
    """h(Kx) at x."""

    @cached_property
    def image_size(self) -> float:
        """The size of K x before columns cancel in it."""
        return self.f.image_size(self._x)

    @property
    def intercept(self) -> float:
        """The best intercept for the targets as they were given; that of h is `at_best.intercept`."""
        best = self.at_best.intercept
        if self.f.unpenalised is not None:
            best = float(best[0]) + self.f.unpenalised.shift(best[1:])
        return best + self.f.target_center

    @property
    def unpenalised(self) -> Array | None:
        """The best coefficients of the columns without a penalty, as they were given."""
        columns = self.f.unpenalised
        return None if columns is None else columns.coefficients(self.at_best.intercept[1:])

    @property
    def gradient(self) -> Array:
        return (
            self.f.transposed_times(self.theta)
            if self._is_finer
            else self.f.gradient_from(self.theta)
        )

    @property
    def _is_finer(self) -> bool:
        """Whether x is in float64 where the data are not, so that all is computed in float64."""
        return bool(self._x.dtype != self.K.dtype and self._x.dtype == self.theta.dtype)

    def magnitude(self, other: CompositeEvaluation) -> float:
        theta_sum = self._sum_of_sizes if self.f.is_shifted else 0.0
        shift = self.at_best.intercept
        if self.f.unpenalised is not None:
            shift = self.h.size_of(shift)
        here = self.value, shift, self.theta_length, theta_sum, self.image_size
        unit = self.f.unit_at(self._x)
        size: float = self.f.magnitude(
            *here, other.image_size, unit=unit, curvature=self._curvature
        )
        if self.f.shift_size > 0.0:  # which is added in float64
            finer = 1.0 if unit <= sys.float_info.epsilon else DOUBLE_OVER_SINGLE
            size += finer * self.f.shift_size * self._sum_of_sizes
        if self.f.unpenalised is not None:
            amounts = float(np.linalg.norm(self.at_best.intercept[1:]))
            size += self._leak / unit * (amounts + self.image_size + other.image_size)
        return size + self._underflow * other.image_size

    @cached_property
    def _leak(self) -> float:
        """What is left of U'theta, which must be 0: it is multiplied by how far the best amounts
        at the other point are from those here.
        """
        return self.h.leak(self.theta)

    @cached_property
    def _curvature(self) -> float:
        """A bound on the second derivatives of h; where there is none for all z, the largest here."""
        bound = self.h.curvature_bound
        if bound < math.inf:
            return bound
        return largest_size(self.h.curvature(self.z, intercept=self.at_best.intercept))

    @cached_property
    def _sum_of_sizes(self) -> float:
        """sum_i |theta_i|."""
        return total(namespace(self.theta).abs(self.theta))

    @property
    def _underflow(self) -> float:
        """What is lost of theta, in units of K's precision, where that has no numbers so small."""
        if self.K.dtype == self.theta.dtype or self._is_finer:
            return 0.0
        xp = namespace(self.theta)
        least = self.f.space.smallest
        lost = (self.theta != 0.0) & (xp.abs(self.theta) < least)
        return least / self.f.space.unit * float(xp.count_nonzero(lost)) ** 0.5

    def hessian_in(self, chosen: Array) -> Array:
        """The Hessian of f in some coordinates, of data that stay where they are."""
        w = self.h.curvature(self.z, intercept=self.at_best.intercept)
        gram, sums = self.f.K.weighted_gram(w, chosen)
        mass = total(w)
        if self.h.has_intercept and mass > 0.0:
            gram = gram - np.outer(sums / mass, sums)
        return gram

    def moved(
        self, x: Array, others: Sequence[CompositeEvaluation], a: Vector
    ) -> CompositeEvaluation:
        z, near = self.mixed_with(others, a)
        there = CompositeEvaluation(self.f, x, z, near=near)
        of_here = 1.0 - float(a.sum())
        size = of_here * self.image_size + sum(
            a[i] * other.image_size for i, other in enumerate(others)
        )
        there.image_size = float(size)
        return there


class RestrictionOfImage:
    """a -> h(z + sum_i a_i directions[i]), whose intercept is about that at z plus <a, shifts>."""

    def __init__(self, h: Any, z: Array, directions: Array, intercept: Any, shifts: Array) -> None:
        self.h = h
        self.z = z
        self.directions = directions
        self.intercept = intercept
        self.shifts = shifts

    def value(self, a: Vector) -> float:
        return self._at_best_intercept(a)[1].value

    def local(self, a: Vector) -> LocalModel:
        z, best = self._at_best_intercept(a)
        with np.errstate(over="ignore", invalid="ignore"):  # where the value is inf
            hessian = self.h.hessian_gram(z, self.directions, intercept=best.intercept)
            return LocalModel(best.value, dots(self.directions, best.theta), hessian)

    def _at_best_intercept(self, a: Vector) -> tuple[Array, Any]:
        z = self.z + combine(a, self.directions)
        return z, self.h.at_best_intercept(z, near=self.intercept + a @ self.shifts)
