"""The Newton system of the dual of transport with entropy and Laplacian: products with its Hessian, and two solvers.

With the plan S of a dual point and delta_ij = dv_j - dU_i.Xt_j - Xs_i.dV_j, W = S * (delta - its row means), the
Hessian takes (dv, dP, dQ) to (W'1, e dP - W Xt, e dQ - W'Xs)/e. Whatever multiplies S_ij there is a sum of terms
(something of i) times (something of j), so that a product is two thin products with S.

The potential block is H_vv = D^1/2 (I - K) D^1/2 / e with D = diag(S'1) and K = D^-1/2 S' diag(1/a) S D^-1/2.
An entropic plan makes K nearly low rank, and `NystromSystem` lives on that; `FactoredSystem` needs no luck but a
factor of H_vv.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from condgrad import deadline
from condgrad._arrays import (
    Array,
    at_least,
    cholesky,
    dot,
    double_like,
    namespace,
    on_device,
    solve_cholesky,
)
from condgrad.memory import free_memory
from condgrad.methods.newton import Ascent
from condgrad.transport.entropic import lifted_overlap
from condgrad.transport.moments import Moments, pairs

if TYPE_CHECKING:
    from condgrad.transport.newton import EntropicLaplacian, Plan

LEAST_SIZE, LEAST_SIZE_ON_DEVICE = 1000, 5000
"""Columns from which a low-rank approximation may beat a factor; a GPU factors fast."""
SMALL_EIGENVALUE = 0.05
"""Eigenvalues of K below this may be left out: I - K is near I there."""
FIRST_RANK = 32


def newton_system(model: EntropicLaplacian, point: Plan) -> FactoredSystem | NystromSystem:
    """The cheapest system that can be had: low rank where K is, a factor where it fits."""
    size = model.size
    factor_fits = 3.0 * 8.0 * size * size <= free_memory(point.S)
    if factor_fits and size < (LEAST_SIZE_ON_DEVICE if on_device(point.S) else LEAST_SIZE):
        return FactoredSystem(model, point)
    system = NystromSystem(model, point, largest_rank=size // 8 if factor_fits else size // 2)
    if system.smallest > SMALL_EIGENVALUE and factor_fits:
        return FactoredSystem(model, point)
    return system


class NewtonSystem:
    """The Hessian and the gradient at a plan."""

    def __init__(self, model: EntropicLaplacian, point: Plan) -> None:
        self.model, self.S, self.entropy = model, point.S, point.entropy
        self.columns = point.columns
        self.S_Xt, self.S_Xs = point.S @ model.Xt, point.S.T @ model.Xs
        self.S_Xt_pairs, self.S_Xs_pairs = point.S @ model.Xt_pairs, point.S.T @ model.Xs_pairs
        self.residual = Moments(model.b - self.columns, self.S_Xt - point.z.P, self.S_Xs - point.z.Q)

    def product(self, dv: Array | None, moments: tuple[Array, Array] | None) -> Moments:
        """The Hessian times (dv, dP, dQ), the identity left out; None stands for zero."""
        model, S, d = self.model, self.S, self.S_Xt.shape[1]
        xp = namespace(S)
        forth, back, mean = [], [], 0.0
        if moments is not None:
            dU, dV = model.bent_P(moments[0]), model.bent_Q(moments[1])
            forth += [dV, pairs(dV, model.Xt)]
            back += [dU, pairs(dU, model.Xs)]
        if dv is not None:
            forth += [dv[:, None], dv[:, None] * model.Xt]
        there = S @ xp.concat(forth, axis=1)
        if moments is not None:
            mean = -xp.sum(dU * self.S_Xt, axis=1) - xp.sum(model.Xs * there[:, :d], axis=1)
        if dv is not None:
            mean = mean + there[:, -1 - d]
        mean = mean / model.a
        again = S.T @ xp.concat([*back, mean[:, None], mean[:, None] * model.Xs], axis=1)
        v, P, Q = -again[:, -1 - d], -mean[:, None] * self.S_Xt, -again[:, again.shape[1] - d :]
        if moments is not None:
            v = v - xp.sum(model.Xt * again[:, :d], axis=1) - xp.sum(self.S_Xs * dV, axis=1)
            P = P - _contract(self.S_Xt_pairs, dU) - _contract(there[:, d : d + d * d], model.Xs)
            Q = Q - _contract(again[:, d : d + d * d], model.Xt) - _contract(self.S_Xs_pairs, dV)
        if dv is not None:
            v, P, Q = v + self.columns * dv, P + there[:, there.shape[1] - d :], Q + dv[:, None] * self.S_Xs
        return Moments(v / self.entropy, -P / self.entropy, -Q / self.entropy)

    def inner(self, x: Moments, y: Moments) -> float:
        """<x, y> in the metric in which the Hessian is symmetric: that of the Laplacians for moments."""
        return dot(x.v, y.v) + dot(x.P, self.model.bent_P(y.P)) + dot(x.Q, self.model.bent_Q(y.Q))


class FactoredSystem(NewtonSystem):
    """v eliminated by a Cholesky factor of its block; conjugate gradients on the moments."""

    @cached_property
    def factor(self) -> Any:
        """The Cholesky factor of e H_vv, its constant mode lifted off zero."""
        xp = namespace(self.S)

        def block() -> Array:
            result = lifted_overlap(self.S, self.model.a, self.columns, self.model.polytope.mass)
            diagonal = xp.arange(result.shape[0])
            result[diagonal, diagonal] += self.columns
            return result

        return cholesky(block, ridge=1e-14 * float(xp.max(self.columns)))

    def solve_v(self, r: Array) -> Array:
        return self.entropy * solve_cholesky(self.factor, r)

    def reduced(self, dP: Array, dQ: Array) -> Moments:
        """The product with the moments' Schur complement, and the v that goes with (dP, dQ)."""
        straight = self.product(None, (dP, dQ))
        dv = -self.solve_v(straight.v)
        back = self.product(dv, None)
        return Moments(dv, dP + straight.P + back.P, dQ + straight.Q + back.Q)

    def solve(self, accuracy: float) -> Ascent:
        """Conjugate gradients until the residual of the moments has fallen by `accuracy`."""
        residual = self.residual
        v = self.solve_v(residual.v)
        nothing = namespace(v).zeros_like(v)
        x = Moments(v, 0.0 * residual.P, 0.0 * residual.Q)
        iterations = 0
        if self.model.laplacian is not None:
            back = self.product(v, None)
            r = Moments(nothing, residual.P - back.P, residual.Q - back.Q)
            p, size = r, self.inner(r, r)
            target = accuracy * accuracy * size
            while size > target and iterations < 500 and not deadline.passed():
                iterations += 1
                Ap = self.reduced(p.P, p.Q)
                bend = self.inner(p, Ap)
                if bend <= 0.0:
                    break
                x = x.moved(size / bend, Moments(Ap.v, p.P, p.Q))
                r = r.moved(-size / bend, Moments(nothing, Ap.P, Ap.Q))
                before, size = size, self.inner(r, r)
                p = r.moved(size / before, p)
        return Ascent(x, self.inner(residual, x), 1 + iterations)


class NystromSystem(NewtonSystem):
    """Conjugate gradients on (v, P, Q), preconditioned by a block LDL' factorisation of the Hessian.

    Its coupling blocks are exact; H_vv is that of a randomised Nystrom approximation of K (Frangella, Tropp and
    Udell, SIAM J. Matrix Anal. Appl. 44:718, 2023), whose rank doubles until what is left out is small; the Schur
    complement of the moments is replaced by the identity.
    """

    def __init__(self, model: EntropicLaplacian, point: Plan, *, largest_rank: int) -> None:
        super().__init__(model, point)
        # a column may have lost all its mass, far from the optimum
        self.root = namespace(self.S).sqrt(at_least(1e-14 * float(self.columns.max()), self.columns))
        rank = min(FIRST_RANK, largest_rank)
        self.vectors, self.spectrum = self._low_rank(rank)
        while self.smallest > SMALL_EIGENVALUE and rank < largest_rank:
            rank = min(largest_rank, 2 * rank)
            self.vectors, self.spectrum = self._low_rank(rank)
        weights = self.spectrum / namespace(self.S).clip(1.0 - self.spectrum, min=1e-9)
        weights[0] = 1.0  # the constant mode is free: any finite weight will do
        self.weights = weights

    @property
    def smallest(self) -> float:
        """The smallest eigenvalue of K that was found, which tells of those that were not."""
        return float(self.spectrum[-1])

    def _low_rank(self, rank: int) -> tuple[Array, Array]:
        """Leading eigenvectors and eigenvalues of K, from its product with random columns."""
        xp, S = namespace(self.S), self.S
        probe = double_like(np.random.default_rng(0).standard_normal((S.shape[1], rank)), S)
        probe[:, 0] = self.root  # the constant mode, whose eigenvalue is 1
        probe = xp.linalg.qr(probe)[0]
        forth = S @ (probe / self.root[:, None])
        forth /= self.model.a[:, None]
        image = (S.T @ forth) / self.root[:, None]
        lift = 1e-10 * float(xp.linalg.matrix_norm(image))  # off zero, for the square root
        image += lift * probe
        inner = probe.T @ image
        values, basis = xp.linalg.eigh(0.5 * (inner + inner.T))
        half = (image @ basis) / xp.sqrt(xp.clip(values, min=lift))[None, :]
        vectors, singular, _ = xp.linalg.svd(half, full_matrices=False)
        return vectors, xp.clip(singular**2 - lift, min=0.0, max=1.0)

    def solve_v(self, r: Array) -> Array:
        """The inverse of the potential block, as far as the low rank knows it."""
        q = r / self.root
        q = q + self.vectors @ (self.weights * (self.vectors.T @ q))
        return self.entropy * q / self.root

    def lifted(self, x: Moments) -> Moments:
        """The Hessian times x, its constant mode lifted off zero."""
        bent = self.product(x.v, (x.P, x.Q))
        lift = self.columns * (dot(self.columns, x.v) / (self.model.polytope.mass * self.entropy))
        return Moments(bent.v + lift, x.P + bent.P, x.Q + bent.Q)

    def preconditioned(self, r: Moments) -> Moments:
        back = self.product(self.solve_v(r.v), None)
        P, Q = r.P - back.P, r.Q - back.Q
        return Moments(self.solve_v(r.v - self.product(None, (P, Q)).v), P, Q)

    def solve(self, accuracy: float) -> Ascent:
        """Conjugate gradients until the preconditioned residual has fallen by `accuracy`."""
        r, x = self.residual, Moments(*(0.0 * part for part in self.residual))
        z = self.preconditioned(r)
        p, size, iterations = z, self.inner(z, r), 0
        target = accuracy * accuracy * size
        while size > target and iterations < 500 and not deadline.passed():
            iterations += 1
            Ap = self.lifted(p)
            bend = self.inner(p, Ap)
            if bend <= 0.0:
                break
            x, r = x.moved(size / bend, p), r.moved(-size / bend, Ap)
            z = self.preconditioned(r)
            before, size = size, self.inner(z, r)
            p = z.moved(size / before, p)
        return Ascent(x, self.inner(x, self.residual), 1 + iterations)


def _contract(products: Array, x: Array) -> Array:
    """sum_k products[:, (k, l)] x[:, k], for each l."""
    d = x.shape[1]
    return namespace(x).sum(products.reshape(x.shape[0], d, d) * x[:, :, None], axis=1)
