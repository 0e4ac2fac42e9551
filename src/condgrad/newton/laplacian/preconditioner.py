"""The preconditioner of the Newton system: a block LDL' factorisation whose pieces are cheap.

The Hessian has a potential block H_vv, two moment blocks, and couplings between them.

*The potential block* is H_vv = D^1/2 (I - K) D^1/2 / e with D = diag(S'1) and K = D^-1/2 S' diag(1/a) S D^-1/2. An
entropic plan makes K nearly of low rank, and a randomised Nystrom approximation V diag(values) V' of it gives both an
inverse of H_vv and, inside the preconditioner, S ~ (S D^-1/2 V)(D^1/2 V)', so that couplings cost no product with the
plan. A plan that is nearly a permutation has no low rank; there H_vv is factored and the plan itself couples. So it
does in many dimensions, where a stiff Laplacian magnifies what the low rank leaves out (at d = 8 it took ten times as
many steps).

*The Schur complement of the moments* is close to I + C L: for row i the d x d block of C is the covariance of the
targets under S_i, divided by e, and L is the metric of the Laplacian; for columns likewise. It is self-adjoint in that
metric and solved by conjugate gradients on sparse matrices alone. In many dimensions C keeps the variances alone, which
say most in principal axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from condgrad import deadline
from condgrad.arrays import (
    Array,
    at_least,
    cholesky,
    dot,
    eigh_small,
    namespace,
    orthonormal,
    smallest,
    solve_cholesky,
    standard_normal,
)
from condgrad.newton.ascent import Ascent
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.newton.laplacian.hessian import FEW_DIMENSIONS, Hessian, contracted
from condgrad.newton.laplacian.moments import Moments, pairs
from condgrad.newton.laplacian.plans import Plan
from condgrad.rounding import LIFT

SMALL_PLAN, SMALL_PLAN_IN_MANY_DIMENSIONS = 128, 1000
"""Columns up to which a factor of H_vv costs less than a low rank; in many dimensions products cost more."""
SMALL_EIGENVALUE = 0.01
"""Eigenvalues of K below this are left out: I - K is near I there."""
FIRST_RANK = 32
RANKS, RANKS_IN_MANY_DIMENSIONS = 4, 8
"""The part of the columns that a rank may be where a factor fits: one over this. In many dimensions, where both couple
by the plan itself, a rank of an eighth takes as long as the factor."""
CHEAP_FACTOR = 512
"""Columns up to which a factor takes no more products than a rank that turns out too small; in many dimensions more."""
PROBES = "mixed"
"""The precision of products with probes, where the plan has a choice: they only make a preconditioner."""
SCHUR_ACCURACY, SCHUR_ACCURACY_IN_MANY_DIMENSIONS = 0.1, 0.3
"""The relative residual of the inner equations; where C is known by its variances alone, more would be wasted."""
SCHUR_ITERATIONS = 200
MOST_ITERATIONS = 500


def newton_direction(
    hessian: Hessian, accuracy: float, basis: Array | None, *, max_iterations: int = MOST_ITERATIONS
) -> tuple[Ascent, Array | None]:
    """A Newton direction of the dual, and the Nystrom vectors that the next one may start from.

    `accuracy` is the relative residual to reach; `basis` are the vectors of an earlier direction, if there are any. The
    block itself is made anew each time: that of a plan only slightly different takes several times the steps.
    """
    block, basis = potential_block(hessian, basis)
    if isinstance(block, FactoredBlock) and hessian.S_Xt.shape[1] <= FEW_DIMENSIONS:
        return eliminated_direction(hessian, block, accuracy, max_iterations), basis
    precondition = BlockFactorisation(hessian, block)
    x, iterations = conjugate_gradients(
        hessian.product,
        hessian.residual,
        inner=hessian.inner,
        accuracy=accuracy,
        max_iterations=max_iterations,
        precondition=precondition,
        moved=Moments.moved,
    )
    return Ascent(x, hessian.inner(x, hessian.residual), 1 + iterations), basis


def eliminated_direction(hessian: Hessian, block: FactoredBlock, accuracy: float, max_iterations: int) -> Ascent:
    """The direction by conjugate gradients on the moments alone, v being eliminated by its factor at each product.

    Without a preconditioner it takes more products, which are cheap here, and keeps more digits.
    """
    couplings, residual = Couplings(hessian, block), hessian.residual
    v = block.solve(residual.v)
    none = 0.0 * v
    P, Q = couplings.moments_from(v)

    def reduced(x: Moments) -> Moments:
        dv = -block.solve(couplings.potential_from(x.P, x.Q))
        image = hessian.product(Moments(dv, x.P, x.Q))
        return Moments(none, image.P, image.Q)

    found = conjugate_gradients(
        reduced,
        Moments(none, residual.P - P, residual.Q - Q),
        inner=hessian.inner,
        accuracy=accuracy,
        max_iterations=max_iterations,
        moved=Moments.moved,
    )
    _, P, Q = found.x
    direction = Moments(v - block.solve(couplings.potential_from(P, Q)), P, Q)
    return Ascent(direction, hessian.inner(direction, residual), 1 + found.iterations)


class PotentialBlock(Protocol):
    """An inverse of H_vv, and the plan as the couplings of the preconditioner see it."""

    def solve(self, r: Array) -> Array:
        """H_vv^-1 r, nearly."""

    def times(self, R: Array) -> Array:
        """S R, nearly."""

    def transposed_times(self, R: Array) -> Array:
        """S'R, nearly."""


def potential_block(hessian: Hessian, basis: Array | None) -> tuple[PotentialBlock, Array | None]:
    """Low rank where K is, a factor where it is not and fits into memory.

    A rank that was not enough for an earlier plan is not tried again where a factor is cheap: along the path plans
    become sharper.
    """
    size, few = hessian.columns.shape[0], hessian.S_Xt.shape[1] <= FEW_DIMENSIONS
    if size <= (SMALL_PLAN if few else SMALL_PLAN_IN_MANY_DIMENSIONS):
        return FactoredBlock(hessian), None
    factor_fits = hessian.plan.factor_fits
    largest_rank = min(
        hessian.plan.largest_rank, size // (RANKS if few else RANKS_IN_MANY_DIMENSIONS) if factor_fits else size // 2
    )
    cheap = factor_fits and (not few or size <= CHEAP_FACTOR)
    if cheap and basis is not None and basis.shape[1] >= largest_rank:
        return FactoredBlock(hessian), basis
    low_rank = LowRankBlock(hessian, basis, largest_rank=largest_rank)
    if low_rank.smallest > SMALL_EIGENVALUE and factor_fits and not deadline.passed():
        return FactoredBlock(hessian), low_rank.vectors
    return low_rank, low_rank.vectors


class FactoredBlock:
    """H_vv by its Cholesky factor, the constant mode lifted off zero."""

    def __init__(self, hessian: Hessian) -> None:
        self.entropy, plan, model = hessian.entropy, hessian.plan, hessian.model
        self.times, self.transposed_times = plan.times, plan.transposed_times
        xp, columns = namespace(hessian.columns), hessian.columns

        def block() -> Array:
            result = plan.lifted_overlap(columns, model.polytope.mass)
            diagonal = xp.arange(result.shape[0])
            result[diagonal, diagonal] += columns
            return result

        self.factor = cholesky(block, ridge=LIFT * float(xp.max(columns)))

    def solve(self, r: Array) -> Array:
        return self.entropy * solve_cholesky(self.factor, r)


class LowRankBlock:
    """H_vv and S by the leading eigenvectors of K; the constant mode, of eigenvalue 1, is known and set apart."""

    def __init__(self, hessian: Hessian, basis: Array | None, *, largest_rank: int) -> None:
        xp, columns = namespace(hessian.columns), hessian.columns
        self.entropy, self.a = hessian.entropy, hessian.model.a
        plan = hessian.plan
        self.root = xp.sqrt(at_least(LIFT * float(xp.max(columns)), columns))
        self.constant = (self.root / dot(self.root, self.root) ** 0.5)[:, None]
        self._probes: Array | None = None
        self._forth: Array | None = None
        self._images: Array | None = None
        rank = min(FIRST_RANK if basis is None else basis.shape[1], largest_rank)
        vectors, values, left = self._leading(plan, rank, basis)
        while float(values[-1]) > SMALL_EIGENVALUE and rank < largest_rank and not deadline.passed():
            rank = min(2 * rank, largest_rank)
            vectors, values, left = self._leading(plan, rank, None)
        self._probes = self._forth = self._images = None
        self.smallest = float(values[-1])
        self.vectors = vectors
        self.weights = values / at_least(1e-9, 1.0 - values)
        self.times: Callable[[Array], Array] = plan.times
        self.transposed_times: Callable[[Array], Array] = plan.transposed_times
        if hessian.S_Xt.shape[1] > FEW_DIMENSIONS:
            return
        # S 1 = a is known
        of_constant = self.a[:, None] / dot(self.root, self.root) ** 0.5
        left = xp.concat([of_constant, left], axis=1)
        right = xp.concat([self.constant, vectors], axis=1) * self.root[:, None]
        self.times = lambda R: left @ (right.T @ R)
        self.transposed_times = lambda R: right @ (left.T @ R)

    def _leading(self, plan: Plan, rank: int, basis: Array | None) -> tuple[Array, Array, Array]:
        """The leading eigenvectors V and eigenvalues of K without its constant mode, and S D^-1/2 V, nearly.

        All come from products with `rank` vectors alone: with B = diag(1/a)^1/2 S D^-1/2 and probes Q they are those of
        the projection of B to the range of B Q.

        These vectors are those of `basis`, or those of the last call filled up by random ones, whose products alone are
        new (Halko, Martinsson and Tropp, SIAM Review 53, 2011).
        """
        xp = namespace(self.root)
        known = 0 if self._probes is None else self._probes.shape[1]
        probe = standard_normal((self.root.shape[0], rank - known), self.root, seed=rank)
        if basis is not None:
            probe[:, : basis.shape[1]] = basis[:, :rank]
        before = self.constant if self._probes is None else xp.concat([self.constant, self._probes], axis=1)
        for _ in range(2):  # once more for the digits that the first time cancels
            probe = orthonormal(probe - before @ (before.T @ probe))
        forth = plan.times(probe / self.root[:, None], precision=PROBES)
        image = plan.transposed_times(forth / self.a[:, None], precision=PROBES) / self.root[:, None]
        image -= self.constant @ (self.constant.T @ image)
        if self._probes is not None:
            probe, image = xp.concat([self._probes, probe], axis=1), xp.concat([self._images, image], axis=1)
            forth = xp.concat([self._forth, forth], axis=1)
        self._probes, self._forth, self._images = probe, forth, image
        lift = 1e-10 * float(xp.linalg.matrix_norm(image))  # off zero, for the square root
        image = image + lift * probe
        inner = probe.T @ image
        values, vectors = eigh_small(0.5 * (inner + inner.T))
        scaled = vectors / xp.sqrt(at_least(lift, values))[None, :]
        half = image @ scaled
        squares, turn = eigh_small(half.T @ half)
        squares, turn = at_least(lift, xp.flip(squares, axis=0)), xp.flip(turn, axis=1)
        singular = xp.sqrt(squares)[None, :]
        vectors, left = (half @ turn) / singular, forth @ (scaled @ (turn * singular))
        return vectors, xp.clip(squares - lift, min=0.0, max=1.0), left

    def solve(self, r: Array) -> Array:
        q = r / self.root
        q = q + self.vectors @ (self.weights * (self.vectors.T @ q))
        return self.entropy * q / self.root


class Couplings:
    """The blocks of the Hessian between the potential and the moments, with the plan as a potential block sees it."""

    def __init__(self, hessian: Hessian, block: PotentialBlock) -> None:
        self.hessian, self.block = hessian, block

    def moments_from(self, dv: Array) -> tuple[Array, Array]:
        """The moments' part of the Hessian times (dv, 0, 0)."""
        hessian, model, xp = self.hessian, self.hessian.model, namespace(dv)
        dv = dv / hessian.entropy  # as in `Hessian.product`
        there = self.block.times(xp.concat([dv[:, None], dv[:, None] * model.Xt], axis=1))
        mean = there[:, 0] / model.a
        P = there[:, 1:] - mean[:, None] * hessian.S_Xt
        Q = dv[:, None] * hessian.S_Xs - self.block.transposed_times(mean[:, None] * model.Xs)
        return -P, -Q

    def potential_from(self, dP: Array, dQ: Array) -> Array:
        """The potential's part of the Hessian times (0, dP, dQ)."""
        hessian, model, xp = self.hessian, self.hessian.model, namespace(dP)
        dU = model.gradient_in_P(dP) / hessian.entropy
        dV = model.gradient_in_Q(dQ) / hessian.entropy
        mean = -xp.sum(dU * hessian.S_Xt, axis=1) - xp.sum(model.Xs * self.block.times(dV), axis=1)
        back = self.block.transposed_times(xp.concat([dU, (mean / model.a)[:, None]], axis=1))
        by_P = xp.sum(model.Xt * back[:, :-1], axis=1)
        by_Q = xp.sum(hessian.S_Xs * dV, axis=1)
        return -by_P - by_Q - back[:, -1]


SchurSolver = Callable[[Array, Array], tuple[Array, Array]]
"""Takes right-hand sides for P and Q."""


class BlockFactorisation:
    """The inverse of the block LDL' factorisation: potential, couplings, Schur complement."""

    def __init__(self, hessian: Hessian, block: PotentialBlock) -> None:
        self.hessian, self.block, self.couplings = hessian, block, Couplings(hessian, block)
        if hessian.model.laplacian is not None:
            few = hessian.S_Xt.shape[1] <= FEW_DIMENSIONS
            self.solve_schur = self._as_one() if few else self._apart()

    def _as_one(self) -> SchurSolver:
        """P and Q in one system: half the number of small operations."""
        model, point = self.hessian.model, self.hessian.point
        xp, columns, n = namespace(model.a), self._columns, model.a.shape[0]
        second = xp.concat([point.S_Xt_second, point.S_Xs_second], axis=0)
        first, mass = xp.concat([point.S_Xt, point.S_Xs], axis=0), xp.concat([model.a, columns], axis=0)
        blocks = covariances(second, first, mass, self.hessian.entropy)

        def solve(P: Array, Q: Array) -> tuple[Array, Array]:
            both = schur_solve(blocks, model.metric, xp.concat([P, Q], axis=0), SCHUR_ACCURACY)
            return both[:n], both[n:]

        return solve

    def _apart(self) -> SchurSolver:
        """Each to an accuracy of its own, which in many dimensions is a rough one: together one would suffer."""
        model, point, entropy = self.hessian.model, self.hessian.point, self.hessian.entropy
        in_P = variances(point.S_Xt_second, point.S_Xt, model.a, entropy)
        in_Q = variances(point.S_Xs_second, point.S_Xs, self._columns, entropy)

        def solve(P: Array, Q: Array) -> tuple[Array, Array]:
            accuracy = SCHUR_ACCURACY_IN_MANY_DIMENSIONS
            P = schur_solve(in_P, model.gradient_in_P, P, accuracy)
            return P, schur_solve(in_Q, model.gradient_in_Q, Q, accuracy)

        return solve

    @property
    def _columns(self) -> Array:
        """The column sums, off zero."""
        return at_least(smallest(self.hessian.columns), self.hessian.columns)

    def __call__(self, r: Moments) -> Moments:
        if self.hessian.model.laplacian is None:
            return Moments(self.block.solve(r.v), r.P, r.Q)
        P, Q = self.couplings.moments_from(self.block.solve(r.v))
        P, Q = self.solve_schur(r.P - P, r.Q - Q)
        return Moments(self.block.solve(r.v - self.couplings.potential_from(P, Q)), P, Q)


def covariances(second: Array, first: Array, mass: Array, entropy: float) -> Callable[[Array], Array]:
    """The product with blocks (second_i - first_i first_i'/mass_i)/entropy, one of d x d for each row."""
    blocks = (second - pairs(first / mass[:, None], first)) / entropy
    return lambda x: contracted(blocks, x)


def variances(second: Array, first: Array, mass: Array, entropy: float) -> Callable[[Array], Array]:
    """The product with the diagonals of these blocks."""
    diagonal = at_least(0.0, second - first * first / mass[:, None]) / entropy
    return lambda x: diagonal * x


class InMetric(NamedTuple):
    """A vector and the metric's product with it, carried along so that an iteration takes one such product."""

    x: Array
    image: Array

    def moved(self, step: float, direction: InMetric) -> InMetric:
        return InMetric(self.x + step * direction.x, self.image + step * direction.image)


def schur_solve(
    covariance: Callable[[Array], Array], metric: Callable[[Array], Array], r: Array, accuracy: float
) -> Array:
    """(I + C L)^-1 r, nearly, where `covariance` multiplies with C and `metric` with L."""

    def product(vector: InMetric) -> InMetric:
        x = vector.x + covariance(vector.image)
        return InMetric(x, metric(x))

    found = conjugate_gradients(
        product,
        InMetric(r, metric(r)),
        inner=lambda x, y: dot(x.x, y.image),
        accuracy=accuracy,
        max_iterations=SCHUR_ITERATIONS,
        moved=InMetric.moved,
    )
    return found.x.x if found.iterations else r
