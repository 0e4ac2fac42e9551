"""Costs and plans that are never formed: all that is stored of them are factors, in memory O((n + m)
r).

A cost is a bilinear form of low rank, a number for each row and column, and possibly a function of
two blocks of points; see `UnformedCost`. exp(score), the score being of the same form, is what
transport needs to multiply with; see `StreamedMatrix`. A `StreamedPlan` is such a matrix rounded to
exact marginals. It has the shape, precision, library and device of the array that it stands for, so
that the loop carries it like one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat

from condgrad import passes
from condgrad.arrays import (
    Array,
    Space,
    at_least,
    dot,
    double,
    double_like,
    log_or_least,
    namespace,
    on_device,
    precision,
    total,
    zeros,
)
from condgrad.kernels import streamed
from condgrad.kernels.streamed import DEVICE_TILE, TILE, CentredColumns, Score
from condgrad.sets.marginals import kept_share

FLOAT32_ROUNDING = 6e-8
"""The rounding unit of float32."""
ENTRY_UNITS = 1.0
"""If many entries are summed, the logarithm of an entry is taken to be off by this many rounding
units of its terms.
"""
LARGEST_EXPONENT = 200.0
"""exp of this does not overflow, nor do products of such numbers."""
LARGEST_LOG_ERROR = 100.0
"""If the logarithm of an entry may be off by more than this, the entry means nothing, and its bound
does not grow further.
"""


class Blocks(NamedTuple):
    """weight * function(sources, targets), for blocks of points at a time."""

    weight: float
    function: Callable[[Array, Array], Array]
    Xs: Array
    Xt: Array

    def of(self, rows: Any, columns: Any) -> Array:
        """The entries of some rows and columns, in float64."""
        Xs = self.Xs[rows]
        Xt = self.Xt[columns]
        result = self.function(Xs, Xt)
        if tuple(result.shape) != (Xs.shape[0], Xt.shape[0]):
            raise ValueError(
                f"the function of BlockCost must return an array of shape {(Xs.shape[0], Xt.shape[0])} for "
                f"{Xs.shape[0]} sources and {Xt.shape[0]} targets, got {tuple(result.shape)}"
            )
        return self.weight * double_like(result, Xs)

    def turned(self) -> Blocks:
        function = self.function
        return Blocks(self.weight, lambda Xt, Xs: function(Xs, Xt).T, self.Xt, self.Xs)

    def at(self, rows: Array, columns: Array) -> Blocks:
        return self._replace(Xs=self.Xs[rows], Xt=self.Xt[columns])


class Unformed:
    """What has the shape, precision, library and device of the array that it stands for."""

    ndim = 2
    is_formed = False

    @property
    def factor(self) -> Array:
        """An array of its kind."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        return self.factor.dtype

    @property
    def device(self) -> Any:
        return array_api_compat.device(self.factor)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return namespace(self.factor)


@dataclass(frozen=True, repr=False, eq=False)
class UnformedCost(Unformed):
    """cost_ij = <left_i, right_j> + row_i + column_j, and a function of blocks of points if there
    is one; float64.
    """

    left: Array
    right: Array
    row: Array
    column: Array
    blocks: Blocks | None = None

    @classmethod
    def of(cls, left: Array, right: Array, blocks: Blocks | None = None) -> UnformedCost:
        """A cost without numbers for rows and columns."""
        left = double(left)
        right = double(right)
        return cls(left, right, zeros(left, left.shape[0]), zeros(left, right.shape[0]), blocks)

    @property
    def factor(self) -> Array:
        return self.left

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[0]

    def __add__(self, other: UnformedCost) -> UnformedCost:
        if self.blocks is not None and other.blocks is not None:
            raise ValueError("only one term of a cost may be a function of blocks of points")
        xp = namespace(self.left)
        return UnformedCost(
            xp.concat([self.left, other.left], axis=1),
            xp.concat([self.right, other.right], axis=1),
            self.row + other.row,
            self.column + other.column,
            self.blocks or other.blocks,
        )

    def __rmul__(self, weight: float) -> UnformedCost:
        blocks = (
            None
            if self.blocks is None
            else self.blocks._replace(weight=weight * self.blocks.weight)
        )
        return UnformedCost(
            weight * self.left, self.right, weight * self.row, weight * self.column, blocks
        )

    @property
    def T(self) -> UnformedCost:
        """The transposed cost."""
        blocks = None if self.blocks is None else self.blocks.turned()
        return UnformedCost(self.right, self.left, self.column, self.row, blocks)

    def at(self, rows: Array, columns: Array) -> UnformedCost:
        """The cost between some of the points."""
        blocks = None if self.blocks is None else self.blocks.at(rows, columns)
        return UnformedCost(
            self.left[rows], self.right[columns], self.row[rows], self.column[columns], blocks
        )

    def centred(self, a: Array, b: Array) -> UnformedCost:
        """The same cost with factors of weighted mean 0: what the means add goes to rows and
        columns.

        Row and column numbers change no plan, so that no digit is lost to coordinates far from the
        origin.
        """
        mass = total(a)
        mean_left = (a @ self.left) / mass
        mean_right = (b @ self.right) / mass
        left = self.left - mean_left[None, :]
        right = self.right - mean_right[None, :]
        row = self.row + left @ mean_right
        return UnformedCost(
            left,
            right,
            row,
            self.column + right @ mean_left + dot(mean_left, mean_right),
            self.blocks,
        )

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Numbers that no <left_i, right_j> (plus the function of blocks) is below or above."""
        bilinear = largest_product(self.left, self.right)
        low, high = self._block_bounds
        return low - bilinear, high + bilinear

    @cached_property
    def _block_bounds(self) -> tuple[float, float]:
        """The smallest and the largest number of the function of blocks; 0 where there is none."""
        if self.blocks is None:
            return 0.0, 0.0
        xp = namespace(self.left)
        extremes = [
            (float(xp.min(part)), float(xp.max(part))) for _, _, part in self._block_tiles()
        ]
        return min(low for low, _ in extremes), max(high for _, high in extremes)

    @property
    def height(self) -> float:
        """A bound on how far two costs of a row differ, beyond its column numbers."""
        return self.bounds[1] - self.bounds[0]

    def _block_tiles(self) -> Iterator[tuple[slice, slice, Array]]:
        if self.blocks is not None:
            for rows, columns in tiles_of(self.shape, self.left):
                yield rows, columns, self.blocks.of(rows, columns)

    def score(self, potential: Array, entropy: float) -> StreamedMatrix:
        """exp((potential_j - cost_ij)/entropy), the row numbers left out."""
        column = (potential - self.column) / entropy
        blocks = (
            None
            if self.blocks is None
            else self.blocks._replace(weight=-self.blocks.weight / entropy)
        )
        return StreamedMatrix(
            Score(self.left / -entropy, self.right, zeros(column, self.shape[0]), column), blocks
        )

    def between(self, rows: Array, columns: Array) -> float:
        """sum_ij rows_i cost_ij columns_j."""
        result = dot(rows @ self.left, columns @ self.right)
        result += dot(rows, self.row) * total(columns) + total(rows) * dot(columns, self.column)
        for i, j, part in self._block_tiles():
            result += dot(rows[i], part @ columns[j])
        return result

    def sum_over(self, plan: StreamedPlan) -> float:
        """<cost, plan>, with the marginals of the plan for all that a row or a column has in
        common.
        """
        core = self.centred(plan.a, plan.b)
        result = dot(core.row, plan.a) + dot(core.column, plan.b)
        if core.left.shape[1]:
            result += dot(core.left, plan @ core.right)
        if core.blocks is not None:
            result += plan.block_sum(core.blocks)
        return result

    def size_over(self, plan: StreamedPlan) -> float:
        """The size of its terms before they cancel."""
        core = self.centred(plan.a, plan.b)
        size = namespace(self.left).abs
        result = dot(size(core.row), plan.a) + dot(size(core.column), plan.b)
        return result + core.mean_size(plan.a, plan.b)

    def mean_size(self, a: Array, b: Array) -> float:
        """A bound on sum_ij |cost_ij| G_ij over plans G from a to b, but for numbers of rows and
        columns.
        """
        core = self.centred(a, b)
        return mean_product(core.left, core.right, a, b) + total(a) * max(
            map(abs, self._block_bounds)
        )

    def mean_norm(self, a: Array, b: Array) -> float:
        """The same for the root of mass * sum_ij cost_ij^2 G_ij."""
        core = self.centred(a, b)
        return mean_norm(core.left, core.right, a, b) + total(a) * max(map(abs, self._block_bounds))

    def dense(self) -> Array:
        """The array itself."""
        result = self.left @ self.right.T
        result += self.row[:, None]
        result += self.column[None, :]
        for rows, columns, part in self._block_tiles():
            result[rows, columns] += part
        return result


class StreamedMatrix:
    """exp(score): row sums and products, nothing of its own size."""

    def __init__(self, score: Score, blocks: Blocks | None = None) -> None:
        self.factors = score
        self.blocks = blocks

    @property
    def shape(self) -> tuple[int, int]:
        return self.factors.shape

    @property
    def T(self) -> StreamedMatrix:
        """The transposed matrix."""
        return StreamedMatrix(
            self.factors.turned(), None if self.blocks is None else self.blocks.turned()
        )

    def with_rows(self, row: Array) -> StreamedMatrix:
        """The same with other row numbers in the score."""
        return StreamedMatrix(replace(self.factors, row=row), self.blocks)

    def at(self, rows: Array, columns: Array) -> StreamedMatrix:
        """Some rows and columns."""
        s = self.factors
        blocks = None if self.blocks is None else self.blocks.at(rows, columns)
        return StreamedMatrix(
            Score(s.left[rows], s.right[columns], s.row[rows], s.column[columns]), blocks
        )

    @cached_property
    def largest_score(self) -> float:
        """A bound on the terms of the score before they cancel."""
        s = self.factors
        xp = namespace(s.left)
        numbers = [xp.where(xp.isfinite(each), each, 0.0) for each in (s.row, s.column)]
        largest = sum(float(xp.max(xp.abs(each))) for each in numbers)
        largest += largest_product(s.left, s.right)
        # entries that count have scores near 0, where a function of blocks is no larger than the
        # rest that it cancels
        return largest if self.blocks is None else 2.0 * largest

    def mean_score(self, a: Array, b: Array) -> float:
        """The same for the root of the mean square over plans from a to b."""
        s = self.factors
        xp = namespace(s.left)
        numbers = [xp.where(xp.isfinite(each), each, 0.0)[:, None] for each in (s.row, s.column)]
        mean = mean_norm(s.left, s.right, a, b) / total(a)
        mean += sum(float(root_mean_squares(X, w)[0]) for X, w in zip(numbers, (a, b), strict=True))
        return mean if self.blocks is None else 2.0 * mean

    @cached_property
    def float32_error(self) -> float:
        """How far a product in less than float64 is off at most, relatively, beyond the precision
        of its dot.
        """
        s = self.factors
        parts = CentredColumns.of(self.factors)
        xp = namespace(s.left)
        finite = xp.where(xp.isfinite(parts.column), parts.column, 0.0)
        return FLOAT32_ROUNDING * (
            largest_product(s.left, parts.right) + float(xp.max(xp.abs(finite)))
        )

    def log_row_sums(self) -> Array:
        """log sum_j exp(score_ij)."""
        return self.row_means(self.factors.right[:, :0])[0]

    def row_means(
        self, R: Array, *, near: Array | None = None, precision: str = "float64"
    ) -> tuple[Array, Array]:
        """log sum_j exp(score_ij), and the means of R under the rows scaled to sum 1; see
        `streamed.row_means`.
        """
        if self.blocks is None:
            passes.note(1 + R.shape[1])
            return streamed.row_means(self.factors, R, near=near, precision=precision)
        log_sums = self._log_row_sums()
        if R.shape[1] == 0:
            return log_sums, log_sums[:, None][:, :0]
        return log_sums, self.with_rows(self.factors.row - log_sums).times(R)

    def _log_row_sums(self) -> Array:
        passes.note()
        xp = namespace(self.factors.left)
        s = self.factors
        top = xp.full_like(s.row, -xp.inf)
        sums = xp.zeros_like(top)
        for i, j in tiles_of(self.shape, s.left):
            part = self._scores(i, j)
            raised = xp.maximum(top[i], xp.max(part, axis=1))
            shift = xp.where(raised == -xp.inf, 0.0, raised)
            sums[i] = sums[i] * xp.exp(top[i] - shift) + xp.sum(
                xp.exp(part - shift[:, None]), axis=1
            )
            top[i] = raised
        return top + xp.log(xp.where(top == -xp.inf, 1.0, sums))

    def times(self, R: Array, *, precision: str = "float64") -> Array:
        """exp(score) R."""
        passes.note(R.shape[1])
        if self.blocks is None:
            return streamed.times(self.factors, R, precision=precision)
        result = zeros(R, self.shape[0], R.shape[1])
        for i, j in tiles_of(self.shape, R):
            result[i] += self._exponentials(i, j) @ R[j]
        return result

    def weighted_times(
        self, left: Array, right: Array, R: Array, *, precision: str = "float64"
    ) -> Array:
        """(exp(score) * left right') R, the product of the two matrices being entry by entry."""
        passes.note(left.shape[1] + R.shape[1])
        if self.blocks is None:
            return streamed.weighted_times(self.factors, left, right, R, precision=precision)
        result = zeros(R, self.shape[0], R.shape[1])
        for i, j in tiles_of(self.shape, R):
            result[i] += (self._exponentials(i, j) * (left[i] @ right[j].T)) @ R[j]
        return result

    def entropy_row_sums(self, kept: Array, row_rest: Array, column_rest: Array) -> Array:
        """sum_j p log p of p_ij = exp(score_ij) kept_j + row_rest_i column_rest_j."""
        passes.note()
        if self.blocks is None:
            return streamed.entropy_row_sums(self.factors, kept, row_rest, column_rest)
        xp = namespace(kept)
        result = zeros(kept, self.shape[0])
        for i, j in tiles_of(self.shape, kept):
            p = self._exponentials(i, j) * kept[j][None, :] + outer(row_rest[i], column_rest[j])
            result[i] += xp.sum(p * xp.log(xp.where(p > 0.0, p, 1.0)), axis=1)
        return result

    def rows(self, indices: Array) -> Array:
        """Some rows, as an array."""
        if self.blocks is None:
            return streamed.rows(self.factors, indices)
        everything = slice(0, self.shape[1])
        return self._exponentials(indices, everything)

    def tiles(self) -> Iterator[tuple[slice, slice, Array]]:
        """All entries, a block of rows and columns at a time."""
        for i, j in tiles_of(self.shape, self.factors.left):
            yield i, j, self._exponentials(i, j)

    def _scores(self, i: Any, j: Any) -> Array:
        s = self.factors
        # row + column is the same number, to the last digit, as in the transposed matrix
        result = (s.row[i][:, None] + s.column[j][None, :]) + s.left[i] @ s.right[j].T
        return result if self.blocks is None else result + self.blocks.of(i, j)

    def _exponentials(self, i: Any, j: Any) -> Array:
        # no entry of a plan is so large, but rounding of scores beyond all digits may say so
        xp = namespace(self.factors.left)
        return xp.exp(xp.clip(self._scores(i, j), max=LARGEST_EXPONENT))


class Linearisation(NamedTuple):
    """The dual point that a plan was made from, in the user's coordinates."""

    u: Array
    v: Array
    """Potentials: the plan is about exp((u_i + v_j - M_ij)/entropy), M being the cost linearised at
    P and Q.
    """
    P: Array
    Q: Array


@dataclass(frozen=True, repr=False, eq=False)
class StreamedPlan(Unformed):
    """A plan of exact marginals a, b that is only multiplied with.

    It is row_kept_i matrix_ij kept_j + row_rest_i column_rest_j. What is kept multiplies the matrix
    and is no part of its score: beside large numbers the logarithm of what is nearly 1 is lost. With
    a cost by blocks the rest may be <row_rest_i, column_rest_j> for rows of two matrices.

    Its entries are exponentials of sums whose terms may be large and cancel. A rounding unit of
    these terms is a relative error of the entry, k_ij say, which may differ from one product to the
    next: on a CPU it does not, and all products with the plan are those of one array of marginals a
    and b; but its entropy, and the moments that Newton took before its rows were exact, are of
    others, as are all sums on other devices. So what is computed are sums over plans that agree up
    to k_ij, and each has the marginals a and b only up to the sums of k_ij G_ij. An F that is
    computed so may lie *below* the minimum over plans of exact marginals, by no more than `repair`:

    Scale down rows and columns of G that are too heavy, and put back what is missing by a product
    measure. The result has the marginals a and b. It differs from G by terms whose row sums are
    those of k_ij G_ij, and column sums too, up to a small factor. To first order F changes by the
    product with its gradient, <left_i, right_j> say, and

        sum_ij k_ij G_ij |left_i| |right_j|  <=  |k|_G |left|_a max |right|,    |k|_G^2 = sum_ij k_ij^2 G_ij,

    by Cauchy's inequality, |left|_a being the root of sum_i a_i |left_i|^2; for the product measure
    too, whose row sums r have sum_i r_i |left_i| <= |k|_G |left|_a. What a row or a column has in
    common is multiplied by a and b themselves, and does not count. Of the entropy, p (1 - k) for p
    changes p log p by no more than k p (|log p| + 1), and q added to p adds no more than q (1 +
    log(p + q)).
    """

    matrix: StreamedMatrix
    kept: Array
    row_rest: Array
    column_rest: Array
    a: Array
    b: Array
    origin: Linearisation | None = None
    """Where it comes from; nothing for a product of its weights that comes from nowhere."""
    is_product: bool = False
    """Whether nothing of the matrix is kept."""
    row_kept: Array | None = None
    """What rows keep; None for all of it."""

    @classmethod
    def product(cls, a: Array, b: Array) -> StreamedPlan:
        """a b' / mass."""
        a = double(a)
        b = double(b)
        nothing = Score(
            zeros(a, a.shape[0], 1),
            zeros(a, b.shape[0], 1),
            zeros(a, a.shape[0]),
            zeros(a, b.shape[0]),
        )
        share = b / (total(b) or 1.0)
        return cls(StreamedMatrix(nothing), zeros(a, b.shape[0]), a, share, a, b, is_product=True)

    @classmethod
    def rounded(cls, matrix: StreamedMatrix, a: Array, b: Array) -> StreamedPlan:
        """A plan of the polytope near a matrix of row sums a.

        Columns that are too heavy are scaled down, and what is missing then is spread by a rank-one
        term, as in `Transport.rounded`.
        """
        xp = namespace(a)
        columns = matrix.T.times(xp.ones_like(a)[:, None])[:, 0]
        kept = kept_share(columns, b)
        return cls.completed(matrix, kept, matrix.times(kept[:, None])[:, 0], a, b)

    @classmethod
    def completed(
        cls,
        matrix: StreamedMatrix,
        kept: Array,
        rows: Array,
        a: Array,
        b: Array,
    ) -> StreamedPlan:
        """The plan of what columns keep of a matrix, none of them too heavy; `rows` are its row
        sums.

        These are no larger than a but for rounding, which is much where the terms of the scores are
        large and cancel. So rows are scaled down as well, and the columns summed up once more: what
        is added is what products with this plan miss.
        """
        row_kept = kept_share(rows, a)
        columns = kept * matrix.T.times(row_kept[:, None])[:, 0]
        row_rest = at_least(0.0, a - row_kept * rows)
        short = at_least(0.0, b - columns)
        column_rest = short / (total(short) or 1.0)
        return cls(matrix, kept, row_rest, column_rest, a, b, row_kept=row_kept)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def factor(self) -> Array:
        return self.a

    @property
    def space(self) -> Space:
        """Shape and kind of the array it stands for."""
        return Space.of(self.a, shape=self.shape)

    @property
    def mass(self) -> float:
        return total(self.a)

    @property
    def largest_entry(self) -> float:
        """What no entry is above."""
        return float(namespace(self.a).max(self.a))

    @cached_property
    def entry_error(self) -> float:
        """How far off its entries may be, relative to them and in the mean of squares: |k|_G of the
        class.
        """
        if self.is_product or self.mass == 0.0:
            return 0.0
        of_an_entry = ENTRY_UNITS * precision(self.a)
        largest = of_an_entry * self.matrix.largest_score
        growth = math.expm1(min(largest, LARGEST_LOG_ERROR)) / largest if largest > 0.0 else 1.0
        return growth * of_an_entry * (1.0 + self.matrix.mean_score(self.a, self.b))

    def repair(self, f_here: Any, g: Any, g_value: float) -> float:
        """What making its marginals exact may add to f + g, at most, beyond what is computed."""
        error = self.entry_error
        if error == 0.0:
            return 0.0
        return error * (f_here.sensitivity(self.a, self.b, error) + g.magnitude(self, g_value))

    @cached_property
    def T(self) -> StreamedPlan:
        """The transposed plan, what its columns keep being numbers of rows now."""
        xp = namespace(self.a)
        origin = None
        if self.origin is not None:
            u, v, P, Q = self.origin
            origin = Linearisation(v, u, Q, P)
        kept = xp.ones_like(self.row_rest) if self.row_kept is None else self.row_kept
        return StreamedPlan(
            self.matrix.T,
            kept,
            self.column_rest,
            self.row_rest,
            self.b,
            self.a,
            origin,
            self.is_product,
            row_kept=self.kept,
        )

    def at(self, rows: Array, columns: Array) -> StreamedPlan:
        """The plan between some of the points, which carry all its mass."""
        origin = self.origin
        if origin is not None:
            origin = Linearisation(
                origin.u[rows], origin.v[columns], origin.P[rows], origin.Q[columns]
            )
        matrix = self.matrix.at(rows, columns)
        return StreamedPlan(
            matrix,
            self.kept[columns],
            self.row_rest[rows],
            self.column_rest[columns],
            self.a[rows],
            self.b[columns],
            origin,
            self.is_product,
            row_kept=None if self.row_kept is None else self.row_kept[rows],
        )

    def embedded(self, rows: Array, columns: Array, n: int, m: int) -> StreamedPlan:
        """The same plan between more points, those without weight added."""

        def spread(values: Array, places: Array, size: int, fill: float = 0.0) -> Array:
            result = zeros(self.a, size, *values.shape[1:]) + fill
            result[places] = values
            return result

        s = self.matrix.factors
        blocks = self.matrix.blocks
        origin = self.origin
        score = Score(
            spread(s.left, rows, n),
            spread(s.right, columns, m),
            spread(s.row, rows, n, -math.inf),
            spread(s.column, columns, m, -math.inf),
        )
        if blocks is not None:
            blocks = blocks._replace(
                Xs=spread(blocks.Xs, rows, n), Xt=spread(blocks.Xt, columns, m)
            )
        if origin is not None:
            u = spread(origin.u, rows, n, -math.inf)
            v = spread(origin.v, columns, m, -math.inf)
            origin = Linearisation(u, v, spread(origin.P, rows, n), spread(origin.Q, columns, m))
        return StreamedPlan(
            StreamedMatrix(score, blocks),
            spread(self.kept, columns, m),
            spread(self.row_rest, rows, n),
            spread(self.column_rest, columns, m),
            spread(self.a, rows, n),
            spread(self.b, columns, m),
            origin,
            self.is_product,
            None if self.row_kept is None else spread(self.row_kept, rows, n),
        )

    def __matmul__(self, R: Array) -> Array:
        """plan @ R, for a vector or a matrix R."""
        R = double(R)
        if R.ndim == 1:
            return (self @ R[:, None])[:, 0]
        if R.shape[1] == 0:
            return zeros(R, self.shape[0], 0)
        rest = outer(self.row_rest, R.T @ self.column_rest)
        if self.is_product:
            return rest
        of_matrix = self.matrix.times(self.kept[:, None] * R)
        return (of_matrix if self.row_kept is None else self.row_kept[:, None] * of_matrix) + rest

    @cached_property
    def negentropy(self) -> float:
        """sum p log p, exactly."""
        if self.is_product:
            rows = self.row_rest
            columns = self.column_rest
            return dot(rows, log_or_least(rows)) * total(columns) + total(rows) * dot(
                columns, log_or_least(columns)
            )
        matrix = self.matrix
        if self.row_kept is not None:
            xp = namespace(self.a)
            positive = self.row_kept > 0.0
            logarithms = xp.log(xp.where(positive, self.row_kept, 1.0))
            matrix = matrix.with_rows(xp.where(positive, matrix.factors.row + logarithms, -xp.inf))
        return total(matrix.entropy_row_sums(self.kept, self.row_rest, self.column_rest))

    def block_sum(self, blocks: Blocks) -> float:
        """The sum of plan times function over all pairs."""
        passes.note()
        result = 0.0
        for i, j, part in self.matrix.tiles():
            part *= self.kept[j][None, :]
            if self.row_kept is not None:
                part *= self.row_kept[i][:, None]
            part += outer(self.row_rest[i], self.column_rest[j])
            result += dot(blocks.of(i, j), part)
        return result

    def rows(self, indices: Any) -> Array:
        """Some rows, as an array."""
        rest = outer(self.row_rest[indices], self.column_rest)
        of_matrix = self.matrix.rows(indices) * self.kept[None, :]
        return (
            of_matrix if self.row_kept is None else self.row_kept[indices][:, None] * of_matrix
        ) + rest

    def dense(self) -> Array:
        """All of it, as an array of n x m."""
        result = zeros(self.a, *self.shape)
        for rows in blocks_of(self.shape[0], max(1, _tile_size(self.a) // self.shape[1])):
            result[rows] = self.rows(rows)
        return result


def outer(left: Array, right: Array) -> Array:
    """left_i right_j for vectors, and <left_i, right_j> for matrices."""
    return left[:, None] * right[None, :] if left.ndim == 1 else left @ right.T


def norm_of_rows(X: Array) -> float:
    """The largest norm of a row."""
    xp = namespace(X)
    return math.sqrt(float(xp.max(xp.sum(X * X, axis=1)))) if X.shape[0] and X.shape[1] else 0.0


def largest_product(left: Array, right: Array) -> float:
    """A number that no |<left_i, right_j>| is above: the product of the largest norms, once the
    columns are balanced.

    A cost and a Laplacian put their factors side by side, in units of their own. Where one has
    large numbers on the left and the other on the right, the norms of whole rows multiply numbers
    that never meet.
    """
    xp = namespace(left)
    if 0 in (*left.shape, *right.shape):
        return 0.0
    of_left = xp.max(xp.abs(left), axis=0)
    of_right = xp.max(xp.abs(right), axis=0)
    meet = (of_left > 0.0) & (of_right > 0.0)
    balance = xp.sqrt(xp.where(meet, of_right, 0.0)) / xp.sqrt(xp.where(meet, of_left, 1.0))
    back = xp.where(meet, 1.0 / xp.where(meet, balance, 1.0), 0.0)
    return norm_of_rows(left * balance[None, :]) * norm_of_rows(right * back[None, :])


def root_mean_squares(X: Array, weights: Array) -> Array:
    """The root of the weighted mean square of each column."""
    return namespace(X).sqrt(weights @ (X * X) / (total(weights) or 1.0))


def mean_product(left: Array, right: Array, a: Array, b: Array) -> float:
    """A bound on sum_ij G_ij |<left_i, right_j>| over plans G from a to b, by Cauchy's inequality
    and coordinates.
    """
    return total(a) * total(root_mean_squares(left, a) * root_mean_squares(right, b))


def mean_norm(left: Array, right: Array, a: Array, b: Array) -> float:
    """A bound on the root of mass * sum_ij G_ij <left_i, right_j>^2 over plans G from a to b, by
    coordinates.
    """
    if 0 in (*left.shape, *right.shape):
        return 0.0
    xp = namespace(left)
    # points without weight have no part in a plan
    largest_left, largest_right = (
        xp.max(xp.where(w[:, None] > 0.0, xp.abs(X), 0.0), axis=0)
        for X, w in ((left, a), (right, b))
    )
    by_left = root_mean_squares(left, a) * largest_right
    by_right = largest_left * root_mean_squares(right, b)
    return total(a) * total(xp.minimum(by_left, by_right))


def blocks_of(size: int, step: int) -> list[slice]:
    return [slice(begin, min(begin + step, size)) for begin in range(0, size, step)]


def tiles_of(shape: tuple[int, int], like: Array) -> Iterator[tuple[slice, slice]]:
    """Blocks of rows and columns that make up the whole."""
    columns = min(shape[1], 1 << 12)
    for i in blocks_of(shape[0], max(1, _tile_size(like) // columns)):
        for j in blocks_of(shape[1], columns):
            yield i, j


def _tile_size(like: Array) -> int:
    return DEVICE_TILE if on_device(like) else TILE
