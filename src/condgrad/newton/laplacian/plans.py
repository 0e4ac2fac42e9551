"""The questions that Newton asks of a plan, and two answers: a plan that is an array, and one that
is streamed.

At a dual point the plan is S_ij = a_i softmax_j((v_j - C_ij - left_i.right_j)/e), whose rows are
exact. All of Newton is written against `Plan`; who answers is chosen by the cost, an array
(`DenseCost`) or factors (`StreamedCost`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Protocol

from condgrad import passes
from condgrad.arrays import (
    Array,
    at_least,
    dot,
    log_or_least,
    namespace,
    on_device,
    row_blocks,
    total,
    zeros,
)
from condgrad.memory import free_memory
from condgrad.newton.entropic_path import lifted_overlap
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.streamed_plan import (
    StreamedMatrix,
    StreamedPlan,
    UnformedCost,
    blocks_of,
    norm_of_rows,
)

LARGEST_STREAMED_FACTOR = 2000
"""With more columns, a streamed plan has no matrix of columns x columns beside it, so nothing is
factored.
"""
PRODUCT_SHARE = 1.0
"""Products have a lower precision if their error is at most this many times the accuracy of the
direction. The bound on the error is seldom attained.
"""
LOOSE_ERROR = 1e-3
"""On the way to t = 1, sums on a GPU have a lower precision if their relative error is at most
this. The bound on the error is seldom attained.
"""
ROWS_TO_LOOK_AT = 4096
"""The widest row is looked for among this many rows. It is about as wide as the widest of all."""
SHIFTED_COPY = 1e-14
"""If two sets of points differ from a shift of each other by at most this share of their size, they
count as copies of the same points, centred in different ways.
"""


class Rounding(NamedTuple):
    """How S becomes a plan of exact marginals: S_ij kept_j + row_rest_i column_rest_j, as in
    `Transport.rounded`.
    """

    kept: Array
    """b over the column sums, where these are too large."""
    rows: Array
    """The row sums of what is kept."""
    row_rest: Array
    column_rest: Array
    """What is missing then; of mass 1, or 0 where nothing is missing."""

    @classmethod
    def of(cls, kept: Array, rows: Array, a: Array, short_b: Array) -> Rounding:
        return cls(kept, rows, at_least(0.0, a - rows), short_b / (total(short_b) or 1.0))


class Rounded(NamedTuple):
    """A plan of exact marginals with its cost and entropy."""

    plan: Array | StreamedPlan
    cost: float | None
    """<C, plan>, if it came for free."""
    negentropy: float


class Plan(Protocol):
    """A plan S of exact row sums a, at a dual point of entropy e."""

    u: Array
    """The row potentials e (log a_i - log sum_j exp(...))."""
    precision: str
    """That of u, and all that its sums need; "float64" for what is certified."""

    @property
    def S_R(self) -> Array:
        """The product with the columns R that it was made for."""

    @property
    def factor_fits(self) -> bool:
        """Whether a matrix of columns x columns may be formed and factored."""

    def times(self, R: Array, *, precision: str = "float64") -> Array:
        """S R. A precision below float64 is for what is not certified; a dense plan has no other."""

    def transposed_times(self, R: Array, *, precision: str = "float64") -> Array:
        """S'R."""

    def centred_sums(
        self,
        left: Array,
        right: Array,
        Xs: Array,
        Xt: Array,
        S_Xt: Array,
        *,
        precision: str = "float64",
    ) -> tuple[Array, Array, Array]:
        """W'1, W Xt and W'Xs for W = S * (left right' - its row means), in O(n m d), whatever the
        dimension d.

        S_Xt is S Xt, which who asks has.
        """

    def lifted_overlap(self, columns: Array, mass: float) -> Array:
        """columns columns'/mass - S' diag(1/a) S, as an array."""

    def product_precision(self, accuracy: float) -> str:
        """What products suffice for a direction of a relative accuracy."""

    def rounded(self, rounding: Rounding, b: Array) -> Rounded:
        """The plan of exact marginals."""


class Cost(Protocol):
    """A cost between points that all carry weight, without numbers for rows and columns: those
    change no plan.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers that no entry is below or above."""

    def between(self, rows: Array, columns: Array) -> float:
        """sum_ij rows_i C_ij columns_j."""

    def widest_row(self, left: Array, right: Array, v: Array) -> float:
        """The largest difference, about, of two entries of a row of C + left right' - v."""

    def plan(
        self,
        left: Array,
        right: Array,
        v: Array,
        a: Array,
        entropy: float,
        R: Array,
        *,
        near: Array | None = None,
        certified: bool = True,
    ) -> Plan:
        """The plan at a dual point, whose product with R will be asked for.

        `near` are row potentials of a plan near, where one is known. Where nothing is to be
        certified, the plan is in a lower precision if that is faster.
        """

    def log_columns(self, left: Array, right: Array, v: Array, u: Array, entropy: float) -> Array:
        """The logarithms of the column sums of a plan with row potentials u, which may be too small
        for a float.
        """


class DenseCost:
    """A cost that is an array."""

    def __init__(self, C: Array) -> None:
        self.C = C
        xp = namespace(C)
        self.shape: tuple[int, int] = (C.shape[0], C.shape[1])
        self.bounds = (float(xp.min(C)), float(xp.max(C)))

    def between(self, rows: Array, columns: Array) -> float:
        passes.note()
        return dot(rows, self.C @ columns)

    def widest_row(self, left: Array, right: Array, v: Array) -> float:
        passes.note()
        xp = namespace(self.C)
        widest = 0.0
        for rows in row_blocks(self.C, width=left.shape[1]):
            cost = left[rows] @ right.T
            cost += self.C[rows]
            cost -= v[None, :]
            widest = max(widest, float(xp.max(xp.max(cost, axis=1) - xp.min(cost, axis=1))))
        return widest

    def plan(
        self,
        left: Array,
        right: Array,
        v: Array,
        a: Array,
        entropy: float,
        R: Array,
        *,
        near: Array | None = None,
        certified: bool = True,
    ) -> DensePlan:
        passes.note()
        xp = namespace(self.C)
        S = xp.empty_like(self.C)
        log_sums = xp.empty_like(a)
        few = R.shape[1] < passes.COLUMNS_A_PASS
        S_R = zeros(R, a.shape[0], R.shape[1] if few else 0)
        for rows in row_blocks(self.C, width=left.shape[1]):
            score = left[rows] @ right.T
            score += self.C[rows]
            score -= v[None, :]
            score /= -entropy
            S[rows], log_sums[rows] = normalised_rows(score, a[rows])
            if few:  # while these rows are at hand
                S_R[rows] = (R.T @ S[rows].T).T
        plan = DensePlan(self.C, S, a, entropy * (xp.log(a) - log_sums), R)
        if few:
            plan.S_R = S_R
        return plan

    def log_columns(self, left: Array, right: Array, v: Array, u: Array, entropy: float) -> Array:
        passes.note()
        score = right @ left.T
        score += self.C.T
        score -= u[None, :]
        score /= -entropy
        return v / entropy + normalised_rows(score, namespace(v).ones_like(v))[1]


class DensePlan:
    """A plan that is an array S."""

    precision = "float64"

    def __init__(self, C: Array, S: Array, a: Array, u: Array, R: Array) -> None:
        self.C = C
        self.S = S
        self.a = a
        self.u = u
        self.R = R

    @cached_property
    def S_R(self) -> Array:
        return self.times(self.R)

    @property
    def factor_fits(self) -> bool:
        return 3.0 * 8.0 * self.S.shape[1] ** 2 <= free_memory(self.S)

    def times(self, R: Array, *, precision: str = "float64") -> Array:
        passes.note(R.shape[1])
        # with the thin factor on the left BLAS takes little more than half the time
        return (R.T @ self.S.T).T

    def transposed_times(self, R: Array, *, precision: str = "float64") -> Array:
        passes.note(R.shape[1])
        return (R.T @ self.S).T

    def centred_sums(
        self,
        left: Array,
        right: Array,
        Xs: Array,
        Xt: Array,
        S_Xt: Array,
        *,
        precision: str = "float64",
    ) -> tuple[Array, Array, Array]:
        passes.note(left.shape[1] + Xt.shape[1])
        passes.note(Xs.shape[1])
        S = self.S
        xp = namespace(self.S)
        (n, m), d_s, d_t = S.shape, Xs.shape[1], Xt.shape[1]
        v = zeros(S, m)
        P = zeros(S, n, d_t)
        Q = zeros(S, m, d_s)
        for rows in row_blocks(S, width=left.shape[1]):
            part = S[rows]
            W = left[rows] @ right.T
            W *= part
            W -= part * (xp.sum(W, axis=1) / self.a[rows])[:, None]
            v += xp.sum(W, axis=0)
            P[rows] = W @ Xt
            Q += W.T @ Xs[rows]
        return v, P, Q

    def lifted_overlap(self, columns: Array, mass: float) -> Array:
        passes.note(columns.shape[0])
        return lifted_overlap(self.S, self.a, columns, mass)

    def product_precision(self, accuracy: float) -> str:
        return "float64"

    def rounded(self, rounding: Rounding, b: Array) -> Rounded:
        kept, _, row_rest, column_rest = rounding
        plan = namespace(self.S).empty_like(self.S)
        cost = 0.0
        negentropy = 0.0
        for rows in row_blocks(self.S):
            part = plan[rows]
            part[...] = self.S[rows]
            part *= kept[None, :]
            part += row_rest[rows][:, None] * column_rest[None, :]
            cost += dot(self.C[rows], part)
            negentropy += dot(part, log_or_least(part))
        return Rounded(plan, cost, negentropy)


class StreamedCost:
    """A cost that is known by factors, or by a function of blocks of points."""

    def __init__(self, core: UnformedCost) -> None:
        self.core = core
        self.shape = core.shape
        self.bounds = core.bounds
        self.between = core.between

    def widest_row(self, left: Array, right: Array, v: Array) -> float:
        xp, (n, m) = namespace(v), self.shape
        some = xp.arange(0, n, max(1, n // ROWS_TO_LOOK_AT), device=v.device)
        cost = (self.core + UnformedCost.of(left, right)).at(some, xp.arange(m, device=v.device))
        size = cost.height + float(xp.max(v) - xp.min(v))
        if size == 0.0:
            return 0.0
        # the logarithm of a sum of exponentials is the largest of them, up to the logarithm of how
        # many there are
        blur = 0.02 * size / (1.0 + math.log(v.shape[0]))
        highest = blur * cost.score(v, blur).log_row_sums()
        lowest = -blur * (-1.0 * cost).score(-v, blur).log_row_sums()
        return max(0.0, float(xp.max(highest - lowest)))

    def plan(
        self,
        left: Array,
        right: Array,
        v: Array,
        a: Array,
        entropy: float,
        R: Array,
        *,
        near: Array | None = None,
        certified: bool = True,
    ) -> StreamedDualPlan:
        matrix = (self.core + UnformedCost.of(left, right)).score(v, entropy)
        precision = "float64" if certified else loose_precision(matrix)
        log_a = namespace(a).log(a)
        near_sums = None if near is None else log_a - near / entropy
        # a few columns are multiplied with in the sweep that sums the rows up
        few = R.shape[1] < passes.COLUMNS_A_PASS
        log_sums, means = matrix.row_means(
            R if few else R[:, :0], near=near_sums, precision=precision
        )
        row = log_a - log_sums
        plan = StreamedDualPlan(matrix.with_rows(row), a, entropy * row, R, precision)
        if few:
            plan.S_R = a[:, None] * means
        return plan

    def log_columns(self, left: Array, right: Array, v: Array, u: Array, entropy: float) -> Array:
        turned = (
            (self.core + UnformedCost.of(left, right)).score(v, entropy).with_rows(u / entropy).T
        )
        return turned.row_means(v[:, None][:, :0], precision=loose_precision(turned))[0]


class StreamedDualPlan:
    """A plan that is only multiplied with."""

    def __init__(
        self, matrix: StreamedMatrix, a: Array, u: Array, R: Array, precision: str
    ) -> None:
        self.matrix = matrix
        self.turned = matrix.T
        self.a = a
        self.u = u
        self.R = R
        self.precision = precision

    @cached_property
    def S_R(self) -> Array:
        return self.times(self.R, precision=self.precision)

    @property
    def factor_fits(self) -> bool:
        return self.matrix.shape[1] <= LARGEST_STREAMED_FACTOR

    def times(self, R: Array, *, precision: str = "float64") -> Array:
        return (
            self.matrix.times(R, precision=precision)
            if R.shape[1]
            else zeros(R, self.a.shape[0], 0)
        )

    def transposed_times(self, R: Array, *, precision: str = "float64") -> Array:
        return (
            self.turned.times(R, precision=precision)
            if R.shape[1]
            else zeros(R, self.matrix.shape[1], 0)
        )

    def centred_sums(
        self,
        left: Array,
        right: Array,
        Xs: Array,
        Xt: Array,
        S_Xt: Array,
        *,
        precision: str = "float64",
    ) -> tuple[Array, Array, Array]:
        xp = namespace(left)
        ones_left = xp.ones_like(left[:, :1])
        ones_right = xp.ones_like(right[:, :1])
        there = self.matrix.weighted_times(
            left, right, xp.concat([ones_right, Xt], axis=1), precision=precision
        )
        mean = there[:, :1] / self.a[:, None]
        P = there[:, 1:] - mean * S_Xt
        # less its row means the matrix has one more factor
        left = xp.concat([left, -mean], axis=1)
        right = xp.concat([right, ones_right], axis=1)
        back = self.turned.weighted_times(
            right, left, xp.concat([ones_left, Xs], axis=1), precision=precision
        )
        return back[:, 0], P, back[:, 1:]

    def lifted_overlap(self, columns: Array, mass: float) -> Array:
        passes.note(columns.shape[0])
        result = columns[:, None] * (columns / mass)[None, :]
        roots = namespace(self.a).sqrt(self.a)
        for rows in blocks_of(self.a.shape[0], columns.shape[0]):
            part = self.matrix.rows(rows) / roots[rows][:, None]
            result -= part.T @ part
        return result

    def product_precision(self, accuracy: float) -> str:
        if not on_device(self.a):
            return "float64"
        error = max(self.matrix.float32_error, self.turned.float32_error)
        return "mixed" if error <= PRODUCT_SHARE * accuracy else "float64"

    def rounded(self, rounding: Rounding, b: Array) -> Rounded:
        plan = StreamedPlan.completed(self.matrix, rounding.kept, rounding.rows, self.a, b)
        return Rounded(plan, None, plan.negentropy)


def loose_precision(matrix: StreamedMatrix) -> str:
    """For sums that are not certified."""
    return (
        "mixed"
        if on_device(matrix.factors.left) and matrix.float32_error <= LOOSE_ERROR
        else "float64"
    )


def folded(cost: UnformedCost, X: Array) -> tuple[Array, Array] | None:
    """A and a number for each row, if the cost is A X' plus these numbers, X being its right factor
    up to a shift.
    """
    if cost.blocks is not None or cost.right.shape != X.shape:
        return None
    xp = namespace(X)
    shift = xp.mean(cost.right - X, axis=0)
    off = float(xp.max(xp.abs(cost.right - X - shift[None, :])))
    return (cost.left, cost.left @ shift) if off <= SHIFTED_COPY * norm_of_rows(X) else None


def emptied(cost: UnformedCost) -> UnformedCost:
    """A cost of nothing between as many points."""
    return replace(cost, left=cost.left[:, :0], right=cost.right[:, :0])
