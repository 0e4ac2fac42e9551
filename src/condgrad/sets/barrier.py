"""Newton's equations of an interior-point method for {v : A v <= b, E v = e, lower <= v <= upper}.

A *price* is a multiplier. Each inequality has a slack s > 0 and a price z > 0, and each equation
has a price y. On the central path all products s z are the same number t, and

    gradient + A'z_rows - z_lower + z_upper + E'y = 0.

Newton's step dv from any other point has, with D = (z/s)_lower + (z/s)_upper,

    (H + D + A' diag(z/s)_rows A) dv + E'dy = right,   E dv = e - E v.

H is the Hessian of the function. It is a sum of squares of rows, like A' diag(z/s) A. The rows with
few entries and D make a sparse matrix, which is factored first. The other rows make a small dense
matrix, its Schur complement. So a covariance of a few factors costs little for any number of
coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy  # loads its linalg when that is first asked for
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import Array, Matrix, is_dense
from condgrad.rounding import LEAST_CURVATURE

OUTSIDE = 1e-13
"""A point that violates the constraints by no more than this counts as inside, in the unit of the
set."""
TO_BOUNDARY = 0.99
"""A step goes at most this share of the way to the first slack or price of 0."""
CENTRING_STEPS = 60
"""The largest number of steps towards a centre. A dozen are usual, and a set without a point
strictly inside takes all of them."""
MOST_WORK = 1 << 31
"""If such a step takes more multiplications, no centre is computed: a step would last a tenth of a
second or more. A linear program finds a point of such a set instead."""
MOST_ENTRIES = 1 << 24
"""If the rows outside the sparse part have more entries in dense form, nothing is factored: they
would have to be stored and multiplied in this form."""
SHORTEST_INSIDE = 1e-8
"""A run ends if a step is shorter."""
FEW_ENTRIES = 3
"""Rows with at most so many entries go to the sparse part: the risk of a single asset, or the
difference of two neighbours."""
MOSTLY_ZERO = 0.1
"""Rows with a smaller share of nonzero entries are stored in a sparse format."""
SAME_ROWS = 1e-14
"""This share of the largest diagonal entry is added to the diagonal, since equations may depend
linearly on each other."""
ROWS_BETWEEN_CHECKS = 1000
"""How many rows are multiplied before the time limit is checked again."""
DIGITS = 1e-10
"""A solution is exact enough if its residual is at most this share of the right-hand side."""
REFINEMENTS = 4
"""How often the residual is computed. If it is too large, a step of refinement follows."""


@dataclass(frozen=True)
class InnerPoint:
    """A point v, the slacks s and prices z of all inequalities (rows, lower and upper bounds), and
    the prices y of the equations.
    """

    v: Array
    s: Array
    z: Array
    y: Array

    @property
    def complementarity(self) -> float:
        """The mean of s z."""
        return float(self.s @ self.z) / len(self.s)


class Step(NamedTuple):
    """Changes of an `InnerPoint`."""

    v: Array
    s: Array
    z: Array
    y: Array

    def longest(self, at: InnerPoint) -> float:
        """The longest step, at most 1, for which slacks and prices stay above 0."""
        shrinks = -min(float((self.s / at.s).min()), float((self.z / at.z).min()))
        return 1.0 if shrinks <= TO_BOUNDARY else TO_BOUNDARY / shrinks

    def taken(self, at: InnerPoint, length: float) -> InnerPoint:
        """The point after a step of this length."""
        return InnerPoint(
            at.v + length * self.v,
            at.s + length * self.s,
            at.z + length * self.z,
            at.y + length * self.y,
        )


class SquaredRows(NamedTuple):
    """The matrix few'few + many'many."""

    few: Matrix
    """Sparse rows of few entries."""
    many: Array
    """Dense rows."""

    def product(self, v: Array) -> Array:
        return self.few.T @ (self.few @ v) + self.many.T @ (self.many @ v)


def has_few(rows: Matrix) -> Array:
    """Which rows have at most `FEW_ENTRIES` nonzero entries."""
    if is_dense(rows):
        return np.count_nonzero(rows, axis=1) <= FEW_ENTRIES
    return np.diff(rows.indptr) <= FEW_ENTRIES


def in_fast_form(rows: Matrix) -> Matrix:
    """Sparse rows as they are, or as an array if they have many entries."""
    is_full = rows.nnz > MOSTLY_ZERO * rows.shape[0] * rows.shape[1]
    return rows.toarray() if is_full else rows


def dense_rows(rows: Matrix) -> Array:
    """Rows as a dense array."""
    array: Array = rows if is_dense(rows) else rows.toarray()
    return array


def gram_of_rows(rows: Matrix, weights: Array) -> Array:
    """rows' diag(weights) rows, as an array."""
    if is_dense(rows):
        return (rows.T * weights) @ rows
    squares: Array = (rows.T @ scipy.sparse.diags_array(weights) @ rows).toarray()
    return squares


@dataclass(frozen=True)
class Inequalities:
    """The set. All bounds are finite, and lower < upper for each coordinate."""

    A: Matrix
    """In the form that `in_fast_form` chooses; so is E."""
    b: Array
    E: Matrix
    e: Array
    lower: Array
    upper: Array

    @cached_property
    def has_few(self) -> Array:
        """Which rows of A have few entries."""
        return has_few(self.A)

    @cached_property
    def few(self) -> Matrix:
        """The rows of A with few entries."""
        return scipy.sparse.csr_array(self.A[self.has_few])

    @cached_property
    def many(self) -> Matrix:
        """The other rows of A."""
        return scipy.sparse.csr_array(self.A[~self.has_few])

    @property
    def count_of_long_rows(self) -> int:
        """The number of the other rows and the equations."""
        return int(self.many.shape[0] + len(self.e))

    def slacks(self, v: Array) -> Array:
        return np.concatenate([self.b - self.A @ v, v - self.lower, self.upper - v])

    def violation(self, v: Array) -> float:
        """By how much a point violates the constraints."""
        return max(self.missed(v), -float(self.slacks(v).min()))

    def missed(self, v: Array) -> float:
        """By how much a point misses the equations."""
        return float(np.abs(self.e - self.E @ v).max(initial=0.0))

    def along(self, d: Array) -> Array:
        """The derivative of the slacks along d."""
        return np.concatenate([-(self.A @ d), d, -d])

    def gradient_terms(self, z: Array) -> Array:
        """The terms of the inequalities in the gradient of the Lagrangian, for prices z."""
        rows, lower, upper = self.parts(z)
        return self.A.T @ rows - lower + upper

    def parts(self, z: Array) -> tuple[Array, Array, Array]:
        """The three parts of z: for the rows, the lower bounds and the upper bounds."""
        m = len(self.b)
        n = len(self.lower)
        return z[:m], z[m : m + n], z[m + n :]

    def centre(self) -> Array | None:
        """About the analytic centre, where the product of all slacks is largest; None if it is not
        found.
        """
        count = self.count_of_long_rows
        entries = self.many.nnz + scipy.sparse.csr_array(self.E).nnz
        if entries * count > MOST_WORK or count * len(self.lower) > MOST_ENTRIES:
            return None
        at = self._near_the_middle()
        flat = SquaredRows(self.few[:0], np.zeros((0, len(self.lower))))
        system = System(self, flat, whole=False)
        for _ in range(CENTRING_STEPS):
            residual = self.gradient_terms(at.z) + self.E.T @ at.y
            missed = self.slacks(at.v) - at.s
            try:
                step = Equations(system, at).step(residual, 1.0 - at.s * at.z, missed)
            except (np.linalg.LinAlgError, RuntimeError):
                return None
            length = step.longest(at)
            if not length > SHORTEST_INSIDE or deadline.passed():
                return None
            at = step.taken(at, length)
            is_central = length == 1.0 and float(np.abs(at.s * at.z - 1.0).max()) < 0.5
            if is_central and self.violation(at.v) <= OUTSIDE:
                return at.v
        return None

    def _near_the_middle(self) -> InnerPoint:
        """The middle between the bounds, with positive slacks and prices whose products are 1.

        The slacks need not be those of the point: the steps make up for the difference.
        """
        v = 0.5 * (self.lower + self.upper)
        s = self.slacks(v)
        least = 0.1 * float(np.median(self.upper - v))
        s = np.maximum(s, least)
        return InnerPoint(v, s, 1.0 / s, np.zeros(len(self.e)))


class System:
    """What the equations at all points have in common.

    One part is factored first: the sparse part, or with `whole` everything but the equations of the
    set. The rows that remain make a dense matrix, the Schur complement.
    """

    def __init__(self, on: Inequalities, H: SquaredRows, *, whole: bool) -> None:
        self.on = on
        self.H = H
        self.whole = whole
        rows = scipy.sparse.csr_array(on.E)
        if not whole:
            rows = scipy.sparse.vstack(
                [scipy.sparse.csr_array(H.many), on.many, rows], format="csr"
            )
        self.transposed = rows.T.toarray()
        self.rows = in_fast_form(rows)

    @cached_property
    def gram(self) -> Array:
        """H as a dense matrix."""
        gram = self._few_squares.toarray()
        many = self.H.many
        for first in range(0, len(many), ROWS_BETWEEN_CHECKS):
            deadline.check()
            gram += (
                many[first : first + ROWS_BETWEEN_CHECKS].T
                @ many[first : first + ROWS_BETWEEN_CHECKS]
            )
        return gram

    def invert_first(self, ratios: Array) -> Callable[[Array], Array]:
        """The inverse of the part that is factored first, for ratios = z / s."""
        on = self.on
        of_rows, of_lower, of_upper = on.parts(ratios)
        diagonal = of_lower + of_upper
        if self.whole:
            matrix = self.gram + gram_of_rows(on.A, of_rows)
            return inverse_of_matrix(matrix, diagonal)
        of_few = of_rows[on.has_few]
        if self._is_diagonal:
            diagonal = diagonal + self._few_squares.diagonal() + of_few @ on.few.power(2)
            return lambda right: (right.T / diagonal).T
        squares = self._few_squares + on.few.T @ scipy.sparse.diags_array(of_few) @ on.few
        return inverse_of_sparse(squares + scipy.sparse.diags_array(diagonal))

    @cached_property
    def _few_squares(self) -> Matrix:
        return self.H.few.T @ self.H.few

    @cached_property
    def _is_diagonal(self) -> bool:
        """Whether the sparse part is a diagonal matrix."""
        counts = [np.diff(few.indptr).max(initial=0) for few in (self.H.few, self.on.few)]
        return max(counts) <= 1

    def ends(self, ratios: Array) -> Array:
        """The numbers that the remaining rows add to the diagonal of the Schur complement."""
        equations = np.zeros(len(self.on.e))
        if self.whole:
            return equations
        of_rows = self.on.parts(ratios)[0][~self.on.has_few]
        return np.concatenate([np.ones(len(self.H.many)), 1.0 / of_rows, equations])


class Equations:
    """The equations of a step at a point, factored."""

    def __init__(self, system: System, at: InnerPoint) -> None:
        self.system = system
        self.at = at
        self.ratios = at.z / at.s
        self.has_digits = True
        """Whether the last step solves the equations to `DIGITS`."""
        self.invert = system.invert_first(self.ratios)
        self.inverted = self.invert(system.transposed)
        matrix = system.rows @ self.inverted
        ends = system.ends(self.ratios)
        first = len(ends) - len(system.on.e)
        ends[first:] = SAME_ROWS * float(matrix.diagonal()[first:].max(initial=0.0))
        self.invert_rows = inverse_of_matrix(matrix, ends)

    def step(self, residual: Array, short: Array, missed: Array | float = 0.0) -> Step:
        """The Newton step.

        `residual` is the gradient of the Lagrangian. `short` is the goals of the products s z minus
        these products. `missed` is the slacks at the point v minus the slacks s.
        """
        on = self.system.on
        at = self.at
        right = -residual - on.gradient_terms(short / at.s - self.ratios * missed)
        off = on.e - on.E @ at.v
        v, y = self._solved(right, off)
        enough = DIGITS * float(np.abs(right).max())
        for _ in range(REFINEMENTS):
            error = right - self._product(v) - on.E.T @ y
            missed_by = off - on.E @ v
            self.has_digits = bool(np.abs(error).max() <= enough)
            if self.has_digits and np.abs(missed_by).max(initial=0.0) <= OUTSIDE:
                break
            dv, dy = self._solved(error, missed_by)
            v = v + dv
            y = y + dy
        s = on.along(v) + missed
        return Step(v, s, short / at.s - self.ratios * s, y)

    def _product(self, v: Array) -> Array:
        """(H + D + A' diag(z/s) A) v."""
        on = self.system.on
        return self.system.H.product(v) - on.gradient_terms(self.ratios * on.along(v))

    def _solved(self, right: Array, off: Array) -> tuple[Array, Array]:
        rows = self.system.rows
        first = self.invert(right)
        goal = rows @ first
        equations = len(goal) - len(off)
        goal[equations:] -= off
        prices = self.invert_rows(goal)
        return first - self.inverted @ prices, prices[equations:]


def inverse_of_matrix(matrix: Array, diagonal: Array) -> Callable[[Array], Array]:
    """(matrix + diag(diagonal))^-1, by a Cholesky factorisation, which overwrites the matrix."""
    if not len(diagonal):
        return np.copy
    every = range(len(diagonal))
    matrix[every, every] = (1.0 + LEAST_CURVATURE) * (matrix[every, every] + diagonal)
    factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: scipy.linalg.cho_solve(factor, right, check_finite=False)


def inverse_of_sparse(matrix: Matrix) -> Callable[[Array], Array]:
    """The inverse of a sparse matrix that is symmetric and positive definite."""
    from scipy.sparse.linalg import splu

    lift = scipy.sparse.diags_array(LEAST_CURVATURE * matrix.diagonal())
    factor = splu(
        (matrix + lift).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    solve: Callable[[Array], Array] = factor.solve
    return solve
