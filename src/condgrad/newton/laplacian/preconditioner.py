"""The preconditioner of the Newton system: block-diagonal in shifted potentials.

The Hessian has a potential block H_vv, two moment blocks, and couplings between them. With m'_j the
mean of the sources of column j, what the plan sees of a direction is

    delta_ij = v_j - U_i.Xt_j - Xs_i.V_j = (v_j - m'_j.V_j) - U_i.Xt_j - (Xs_i - m'_j).V_j.

In the shifted potential v - m'.V all couplings have centred coordinates, since rows are centred by
the potential u that is eliminated. What they couple then is the blur of the plan, 10 to 100 times
smaller than the cloud, and they are left out: exact ones, by four more passes a step, save a sixth
of the steps. So no coupling costs a pass, in any dimension:

    P = (I + C_P L)^-1 r_P,     Q = (I + C_Q L)^-1 (r_Q + m' r_v),     v = H_vv^-1 r_v + m'.(L Q).

*The potential block* is H_vv = D^1/2 (I - K) D^1/2 / e with D = diag(S'1) and K = D^-1/2 S'
diag(1/a) S D^-1/2. Its inverse is known by the leading eigenvectors of K, or by a factor.

*The moment blocks* are I + C L: for row i the d x d block of C is the covariance of the targets
under S_i, divided by e, and L is the metric of the Laplacian; for columns likewise. They are solved
by conjugate gradients on sparse matrices alone, see `schur_solve`. In many dimensions C keeps the
variances alone, which say most in principal axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from condgrad import deadline, passes
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
from condgrad.newton.conjugate_gradients import LinearSolution, conjugate_gradients
from condgrad.newton.laplacian.hessian import Hessian
from condgrad.newton.laplacian.moments import DualVector, pairs
from condgrad.newton.laplacian.plans import Plan
from condgrad.rounding import LIFT

SMALL_PLAN = 128
"""Up to this many columns, H_vv is factored. This takes no more passes than the leading
eigenvectors of K and two steps.
"""
LARGE_EIGENVALUE = 0.8
"""More vectors are computed as long as all eigenvalues of K that were found are above this. A
vector costs 1/16 of a pass. If the eigenvalues above l are known, conjugate gradients take about
ln(2/accuracy)/sqrt(4 (1 - l)) steps.
"""
FIRST_RANK, LARGEST_RANK = 32, 128
"""The number of vectors to begin with, and the largest number. For the first, the plan and its
transpose take one pass each.
"""
PROBES = "mixed"
"""The precision of products with probes, if the plan has a choice. A low one is enough, since they
only make a preconditioner.
"""
SCHUR_ACCURACY = 0.01
"""The error of the moment blocks' equations, relative to their solution. With 0.1 the torus of
`python -m experiments bench geometry` takes nearly three times the steps outside, with 0.02 some
clouds take a tenth more.
"""
SCHUR_ITERATIONS = 200
MOST_ITERATIONS = 500


class Inverses(NamedTuple):
    """What one direction leaves to the next of what its preconditioner was made of."""

    modes: Array | None = None
    """Leading eigenvectors of K."""
    factor: FactoredBlock | None = None
    """A factor of H_vv at an earlier plan, once eigenvectors were not enough."""
    entropy: float = 0.0
    """Of the stage that the factor belongs to."""


class Solved(NamedTuple):
    """A direction, the products it took, and what the next one may start from."""

    x: DualVector
    iterations: int
    inverses: Inverses


def solved(
    hessian: Hessian, accuracy: float, known: Inverses, *, max_iterations: int = MOST_ITERATIONS
) -> Solved:
    """The Newton system to a relative residual, by preconditioned conjugate gradients.

    Where there is no Laplacian, a plan nearly a permutation has far more large eigenvalues than
    vectors: there the block is factored, once conjugate gradients take more passes than a factor
    does. The factor serves the other directions of its stage as well, scaled to their column sums,
    until it takes half as many passes as a new one. With a Laplacian it is the moments that take
    the steps, and a factor saves none.
    """
    size = hessian.columns.shape[0]
    plan = hessian.plan
    if size <= SMALL_PLAN:
        x, iterations = by_block(FactoredBlock(hessian), hessian, accuracy, max_iterations)
        return Solved(x, iterations, known)
    may_factor = hessian.model.laplacian is None and plan.factor_fits
    price = size // passes.COLUMNS_A_PASS
    spent = 0
    if may_factor and known.factor is not None:
        if known.entropy == hessian.entropy:
            limit = max(4, price // 4)
            x, spent = by_block(known.factor.scaled_to(hessian), hessian, accuracy, limit)
            if spent < limit or deadline.passed():
                return Solved(x, spent, known)
    else:
        block = LeadingModes(hessian, known.modes, largest_rank=min(LARGEST_RANK, size // 2))
        known = known._replace(modes=block.vectors)
        limit = price // 2 if may_factor else max_iterations
        x, spent = by_block(block, hessian, accuracy, limit)
        if spent < limit or not may_factor or deadline.passed():
            return Solved(x, spent, known)
    factor = FactoredBlock(hessian)
    x, iterations = by_block(factor, hessian, accuracy, max_iterations)
    return Solved(x, spent + iterations, known._replace(factor=factor, entropy=hessian.entropy))


def by_block(
    block: PotentialBlock, hessian: Hessian, accuracy: float, max_iterations: int
) -> LinearSolution:
    """The system preconditioned by a potential block."""
    return conjugate_gradients(
        hessian.product,
        hessian.residual,
        inner=hessian.inner,
        accuracy=accuracy,
        max_iterations=max_iterations,
        precondition=ShiftedBlocks(hessian, block),
        moved=DualVector.moved,
    )


class PotentialBlock(Protocol):
    """An inverse of H_vv."""

    def solve(self, r: Array) -> Array:
        """H_vv^-1 r, nearly."""


class FactoredBlock:
    """H_vv by its Cholesky factor, the constant mode lifted off zero."""

    def __init__(self, hessian: Hessian) -> None:
        self.entropy = hessian.entropy
        plan = hessian.plan
        model = hessian.model
        xp = namespace(hessian.columns)
        columns = hessian.columns

        def block() -> Array:
            with passes.spent_on("factors"):
                result = plan.lifted_overlap(columns, model.polytope.mass)
            diagonal = xp.arange(result.shape[0])
            result[diagonal, diagonal] += columns
            return result

        self.factor = cholesky(block, ridge=LIFT * float(xp.max(columns)))
        self.root = root_of(columns)

    def solve(self, r: Array) -> Array:
        return self.entropy * solve_cholesky(self.factor, r)

    def scaled_to(self, hessian: Hessian) -> ScaledFactor:
        """The factor for a plan whose entries differ by factors near 1, and with them the quadratic
        form.
        """
        return ScaledFactor(self, self.root / root_of(hessian.columns))


class ScaledFactor(NamedTuple):
    """A factor of H_vv at an earlier plan, scaled to the column sums of this one."""

    block: FactoredBlock
    scale: Array

    def solve(self, r: Array) -> Array:
        return self.scale * self.block.solve(self.scale * r)


def root_of(columns: Array) -> Array:
    """The roots of column sums, off zero."""
    xp = namespace(columns)
    return xp.sqrt(at_least(LIFT * float(xp.max(columns)), columns))


class LeadingModes:
    """H_vv by the leading eigenvectors of K; the constant mode, of eigenvalue 1, is known and set
    apart.

    They start from those of the last direction, so that each direction is a step of subspace
    iteration: the values of a first random sketch are too small.
    """

    def __init__(self, hessian: Hessian, basis: Array | None, *, largest_rank: int) -> None:
        self.entropy = hessian.entropy
        self.a = hessian.model.a
        self.root = root_of(hessian.columns)
        self.constant = (self.root / dot(self.root, self.root) ** 0.5)[:, None]
        self._probes: Array | None = None
        self._K_probes: Array | None = None
        rank = min(FIRST_RANK if basis is None else basis.shape[1], largest_rank)
        vectors, values = self._leading(hessian.plan, rank, basis)
        while (
            float(values[-1]) > LARGE_EIGENVALUE and rank < largest_rank and not deadline.passed()
        ):
            rank = min(2 * rank, largest_rank)
            vectors, values = self._leading(hessian.plan, rank, None)
        self._probes = self._K_probes = None
        self.vectors = vectors
        self.weights = values / at_least(1e-9, 1.0 - values)

    def _leading(self, plan: Plan, rank: int, basis: Array | None) -> tuple[Array, Array]:
        """The leading eigenvectors and eigenvalues of K without its constant mode, nearly.

        Both come from products with `rank` vectors alone: with B = diag(1/a)^1/2 S D^-1/2 and
        probes Q they are those of the projection of B to the range of B Q.

        These vectors are those of `basis`, or those of the last call filled up by random ones,
        whose products alone are new (Halko, Martinsson and Tropp, SIAM Review 53, 2011).
        """
        xp = namespace(self.root)
        count = 0 if self._probes is None else self._probes.shape[1]
        probe = standard_normal((self.root.shape[0], rank - count), self.root, seed=rank)
        if basis is not None:
            probe[:, : basis.shape[1]] = basis[:, :rank]
        before = (
            self.constant
            if self._probes is None
            else xp.concat([self.constant, self._probes], axis=1)
        )
        for _ in range(2):  # once more for the digits that the first time cancels
            probe = orthonormal(probe - before @ (before.T @ probe))
        with passes.spent_on("vectors"):
            forth = plan.times(probe / self.root[:, None], precision=PROBES)
            K_probe = (
                plan.transposed_times(forth / self.a[:, None], precision=PROBES)
                / self.root[:, None]
            )
        K_probe -= self.constant @ (self.constant.T @ K_probe)
        if self._probes is not None:
            probe = xp.concat([self._probes, probe], axis=1)
            K_probe = xp.concat([self._K_probes, K_probe], axis=1)
        self._probes = probe
        self._K_probes = K_probe
        lift = 1e-10 * float(xp.linalg.matrix_norm(K_probe))  # off zero, for the square root
        K_probe = K_probe + lift * probe
        inner = probe.T @ K_probe
        values, vectors = eigh_small(0.5 * (inner + inner.T))
        scaled = vectors / xp.sqrt(at_least(lift, values))[None, :]
        half = K_probe @ scaled
        squares, turn = eigh_small(half.T @ half)
        squares = at_least(lift, xp.flip(squares, axis=0))
        turn = xp.flip(turn, axis=1)
        return (half @ turn) / xp.sqrt(squares)[None, :], xp.clip(squares - lift, min=0.0, max=1.0)

    def solve(self, r: Array) -> Array:
        q = r / self.root
        q = q + self.vectors @ (self.weights * (self.vectors.T @ q))
        return self.entropy * q / self.root


class ShiftedBlocks:
    """The inverse of the blocks of the Hessian in shifted potentials, those between them left out."""

    def __init__(self, hessian: Hessian, block: PotentialBlock) -> None:
        self.hessian = hessian
        self.block = block
        if hessian.model.laplacian is None:
            return
        # column sums off zero
        self.columns = at_least(smallest(hessian.columns), hessian.columns)
        self.means = hessian.S_Xs / self.columns[:, None]
        self.moments = self._moment_blocks()

    def _moment_blocks(self) -> MomentBlocks:
        """Those of P, and below them those of Q: one system has half the small operations of two."""
        hessian = self.hessian
        model = hessian.model
        point = hessian.point
        xp = namespace(model.a)
        mass = xp.concat([model.a, self.columns], axis=0)[:, None]
        first = xp.concat([point.S_Xt, point.S_Xs], axis=0)
        second = xp.concat([point.S_Xt_second, point.S_Xs_second], axis=0)
        weights = model.metric_diagonal
        if hessian.few_dimensions:
            covariances = (second - pairs(first / mass, first)) / hessian.entropy
            return whole_blocks(covariances.reshape(*first.shape, -1), weights)
        variances = at_least(0.0, second - first * first / mass) / hessian.entropy
        return diagonal_blocks(variances, weights)

    def __call__(self, r: DualVector) -> DualVector:
        v = self.block.solve(r.v)
        model = self.hessian.model
        if model.laplacian is None:
            return DualVector(v, r.P, r.Q)
        xp = namespace(v)
        n = r.P.shape[0]
        r_Q = r.Q + self.means * r.v[:, None]
        both = schur_solve(self.moments, model.metric, xp.concat([r.P, r_Q], axis=0))
        P = both[:n]
        Q = both[n:]
        return DualVector(v + xp.sum(self.means * model.gradient_in_Q(Q), axis=1), P, Q)


class MomentBlocks(NamedTuple):
    """C: symmetric positive matrices of d x d, one for each row of moments."""

    times: Callable[[Array], Array]
    """C_i x_i, for all rows."""
    damped: Callable[[Array], Array]
    """(I + l_i C_i)^-1 x_i, where l is the diagonal of the metric."""


def whole_blocks(C: Array, weights: Array) -> MomentBlocks:
    """Those of whole covariances, with the diagonal `weights` of the metric."""
    xp = namespace(C)
    identity = xp.eye(C.shape[1], dtype=C.dtype, device=C.device)
    inverse = xp.linalg.inv(identity + weights[:, None, None] * C)
    return MomentBlocks(lambda x: times_each(x, C), lambda x: times_each(x, inverse))


def diagonal_blocks(variances: Array, weights: Array) -> MomentBlocks:
    """Those of variances alone."""
    inverse = 1.0 / (1.0 + weights[:, None] * variances)
    return MomentBlocks(lambda x: variances * x, lambda x: inverse * x)


def times_each(x: Array, matrices: Array) -> Array:
    """The product of each row of x with its matrix."""
    return namespace(x).matmul(x[:, None, :], matrices)[:, 0, :]


class WithProduct(NamedTuple):
    """A vector and its product with C, where it is needed: conjugate gradients in the metric of C
    then take one such product an iteration.
    """

    x: Array
    product: Array | None = None

    def moved(self, step: float, direction: WithProduct) -> WithProduct:
        x = self.x + step * direction.x
        if self.product is None or direction.product is None:
            return WithProduct(x)
        return WithProduct(x, self.product + step * direction.product)


def schur_solve(C: MomentBlocks, metric: Callable[[Array], Array], r: Array) -> Array:
    """x = (I + C L)^-1 r, nearly, where `metric` multiplies with L.

    It is x = r - C y with (I + L C) y = L r. This equation is self-adjoint in the metric of C, where
    the part of I + L C that couples no two points, I + l C with the diagonal l of L, is a
    preconditioner: on surfaces it saves two thirds of the iterations.

    An error of x in the metric of L is at most that of y in the metric of C (I + L C). It must be
    small beside <x, L r>, which is <r, L r> less <y, C L r>: what y has not yet taken of it.
    """
    right = WithProduct(metric(r))

    def preconditioned(residual: WithProduct) -> WithProduct:
        x = C.damped(residual.x)
        return WithProduct(x, C.times(x))

    found = conjugate_gradients(
        lambda y: WithProduct(y.x + metric(y.product)),
        right,
        inner=lambda x, y: dot(x.product, y.x),
        accuracy=SCHUR_ACCURACY,
        max_iterations=SCHUR_ITERATIONS,
        precondition=preconditioned,
        moved=WithProduct.moved,
        energy=dot(r, right.x),
    )
    return r - C.times(found.x.x)
