"""Derivatives of optimal transport in points and weights, as functions of torch's autograd; `loss`
is their surface.

*The value.* By the envelope theorem the derivative of F* is that of F with the plan held fixed. For
the squared Euclidean cost, P = G Xt, Q = G' Xs and Laplacians of gradients U (in P) and V (in Q),

    dF*/dXs = 2 (diag(a) Xs - P) + G V,    dF*/dXt = 2 (diag(b) Xt - Q) + G' U,    dF*/da = u,    dF*/db = v.

In a cost that is given itself, dF*/dM = G.

*The plan.* An optimal plan satisfies M(G) + entropy (log G + 1) = u_i + v_j, G 1 = a and G'1 = b,
where M is the cost plus the gradient of the regularisers. Let T be a change of M at G, and da, db
changes of the weights. Then the changes dG, du, dv of plan and potentials solve

    entropy dG / G + H dG = du_i + dv_j - T,    dG 1 = da,    dG'1 = db,

Here H is the Hessian of the regularisers. This is the Newton system of the dual at its solution. It
is self-adjoint, so the same equations solve the backward problem.

This module needs torch. It is only imported if torch is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from condgrad.arrays import Tensor, cholesky, solve_cholesky
from condgrad.errors import MissingAbility
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.smooth import TransportLaplacian
from condgrad.transport.solve import TransportResult


@dataclass(frozen=True)
class SolvedTransport:
    """A solved problem: its plan, and what of F depends on the points."""

    result: TransportResult
    entropy: float
    laplacians: tuple[TransportLaplacian, ...]
    """The Laplacians, whose points are those of the problem."""
    others: tuple[Any, ...]
    """Regularisers that do not depend on the points."""

    def gradient_in_P(self, P: Tensor) -> Tensor:
        return sum((f.gradient_in_P(P) for f in self.laplacians), start=torch.zeros_like(P))

    def gradient_in_Q(self, Q: Tensor) -> Tensor:
        return sum((f.gradient_in_Q(Q) for f in self.laplacians), start=torch.zeros_like(Q))

    def multipliers(self) -> tuple[Tensor, Tensor]:
        """u and v with plan = exp((u_i + v_j - M_ij)/entropy - 1): what a unit of weight adds to
        F*.
        """
        u, v = self.result.potentials
        return u + self.entropy, v

    def coordinates(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The points of the Laplacian; points of no coordinates where there is none."""
        for laplacian in self.laplacians:
            return laplacian.Xs, laplacian.Xt
        return like[:, :0], like.T[:, :0]

    def require_smooth_plan(self) -> None:
        """Refuse problems whose plan has no derivative, or none that is known here."""
        if self.entropy == 0.0:
            raise MissingAbility(
                "a plan with entropy = 0 jumps from vertex to vertex and has no derivative: use entropy > 0"
            )
        if self.others:
            raise MissingAbility(
                "derivatives of the plan, and second derivatives of the value, work for entropy alone or with "
                f"Laplacians, not with {self.others[0]!r}"
            )

    def response(self, Xs: Tensor, Xt: Tensor, a: Tensor, b: Tensor) -> PlanResponse:
        """How the plan answers small changes."""
        self.require_smooth_plan()
        return PlanResponse(self, Xs, Xt, a, b)


class PlanResponse:
    """The linear map from changes (T, da, db) of cost and weights to the changes of plan and
    potentials.
    """

    def __init__(
        self, solution: SolvedTransport, Xs: Tensor, Xt: Tensor, a: Tensor, b: Tensor
    ) -> None:
        self.solution = solution
        self.Xs = Xs
        self.Xt = Xt
        self.G = solution.result.dense()
        self.entropy = solution.entropy
        self.inverse_a = torch.where(a > 0.0, 1.0 / torch.where(a > 0.0, a, 1.0), 0.0)
        # diag(b) - G' diag(1/a) G, whose constant mode, which changes nothing, is lifted off zero
        curvature = torch.diag(torch.where(b > 0.0, b, b.max())) - self.G.T @ (
            self.inverse_a[:, None] * self.G
        )
        curvature += b[:, None] * (b / b.sum())[None, :]
        ridge = 1e-15 * float(b.max())
        self.factor = cholesky(lambda: curvature.clone(), ridge=ridge)

    def __call__(self, T: Tensor, da: Tensor, db: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self.solution.laplacians:
            return self.without_laplacians(T, da, db)
        Xs = self.Xs
        Xt = self.Xt
        solution = self.solution

        def moments(dG: Tensor) -> Tensor:
            return torch.cat([dG @ Xt, dG.T @ Xs])

        def gradients(x: Tensor) -> Tensor:
            return torch.cat(
                [solution.gradient_in_P(x[: len(Xs)]), solution.gradient_in_Q(x[len(Xs) :])]
            )

        def hessian_product(x: Tensor) -> Tensor:
            """H dG, from the moments x of dG."""
            slopes = gradients(x)
            return slopes[: len(Xs)] @ Xt.T + Xs @ slopes[len(Xs) :].T

        # the moments x of dG satisfy x = moments(dG(T + H dG)), an equation that is self-adjoint in
        # the metric of the Laplacians
        zero_a = torch.zeros_like(da)
        zero_b = torch.zeros_like(db)
        x = conjugate_gradients(
            lambda x: x - moments(self.without_laplacians(hessian_product(x), zero_a, zero_b)[0]),
            moments(self.without_laplacians(T, da, db)[0]),
            inner=lambda x, y: float((x * gradients(y)).sum()),
            accuracy=1e-12,
            max_iterations=10 * (Xs.numel() + Xt.numel()),
        ).x
        return self.without_laplacians(T + hessian_product(x), da, db)

    def without_laplacians(
        self, T: Tensor, da: Tensor, db: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The answer of entropy alone: dG = G (du_i + dv_j - T)/entropy, du eliminated."""
        G = self.G
        e = self.entropy
        weighted = G * T
        by_row = self.inverse_a * (e * da + weighted.sum(1))
        dv = solve_cholesky(self.factor, e * db + weighted.sum(0) - G.T @ by_row)
        du = by_row - self.inverse_a * (G @ dv)
        return (G * (du[:, None] + dv[None, :]) - weighted) / e, du, dv


class OptimalValue(torch.autograd.Function):  # type: ignore[misc]
    """F* as a function of points and weights."""

    @staticmethod
    def forward(
        ctx: Any, Xs: Tensor, Xt: Tensor, a: Tensor, b: Tensor, solution: SolvedTransport
    ) -> Tensor:
        ctx.save_for_backward(Xs, Xt, a, b)
        ctx.solution = solution
        return torch.as_tensor(solution.result.value, dtype=Xs.dtype, device=Xs.device)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[:4]
        gradients = ValueGradient.apply(*ctx.saved_tensors, ctx.solution, any(wanted[2:]))
        return *(
            outer * g if needed else None for g, needed in zip(gradients, wanted, strict=True)
        ), None


class ValueGradient(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of F*, whose own derivative is the Hessian of F*: its transpose is itself."""

    @staticmethod
    def forward(
        ctx: Any,
        Xs: Tensor,
        Xt: Tensor,
        a: Tensor,
        b: Tensor,
        solution: SolvedTransport,
        with_weights: bool,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(Xs, Xt, a, b)
        ctx.solution = solution
        result = solution.result
        P = result.apply(Xt)
        Q = result.apply_transpose(Xs)
        in_Xs = 2.0 * (a[:, None] * Xs - P)
        in_Xt = 2.0 * (b[:, None] * Xt - Q)
        if solution.laplacians:
            in_Xs = in_Xs + result.apply(solution.gradient_in_Q(Q))
            in_Xt = in_Xt + result.apply_transpose(solution.gradient_in_P(P))
        u, v = (
            solution.multipliers() if with_weights else (torch.zeros_like(a), torch.zeros_like(b))
        )
        return in_Xs, in_Xt, u, v

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(
        ctx: Any, dXs: Tensor, dXt: Tensor, da: Tensor, db: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The Hessian times (dXs, dXt, da, db), by moving the problem in this direction."""
        (Xs, Xt, a, b), solution = ctx.saved_tensors, ctx.solution
        G = solution.result.dense()
        slope_P = solution.gradient_in_P
        slope_Q = solution.gradient_in_Q
        U = slope_P(G @ Xt)
        V = slope_Q(G.T @ Xs)
        with_dXs = (Xs * dXs).sum(1)
        with_dXt = (Xt * dXt).sum(1)
        T = 2.0 * (with_dXs[:, None] + with_dXt[None, :] - Xs @ dXt.T - dXs @ Xt.T)
        T = T + U @ dXt.T + slope_P(G @ dXt) @ Xt.T + dXs @ V.T + Xs @ slope_Q(G.T @ dXs).T
        dG, du, dv = solution.response(Xs, Xt, a, b)(T, da, db)
        dP = dG @ Xt + G @ dXt
        dQ = dG.T @ Xs + G.T @ dXs
        in_Xs = 2.0 * (da[:, None] * Xs + a[:, None] * dXs - dP) + dG @ V + G @ slope_Q(dQ)
        in_Xt = 2.0 * (db[:, None] * Xt + b[:, None] * dXt - dQ) + dG.T @ U + G.T @ slope_P(dP)
        return in_Xs, in_Xt, du, dv, None, None


class OptimalValueOfCost(torch.autograd.Function):  # type: ignore[misc]
    """F* as a function of the cost and the weights."""

    @staticmethod
    def forward(ctx: Any, M: Tensor, a: Tensor, b: Tensor, solution: SolvedTransport) -> Tensor:
        ctx.save_for_backward(M, a, b)
        ctx.solution = solution
        return torch.as_tensor(solution.result.value, dtype=M.dtype, device=M.device)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[:3]
        gradients = GradientInCost.apply(*ctx.saved_tensors, ctx.solution, any(wanted[1:]))
        return *(
            outer * g if needed else None for g, needed in zip(gradients, wanted, strict=True)
        ), None


class GradientInCost(torch.autograd.Function):  # type: ignore[misc]
    """The plan and the potentials, whose own derivatives are how the plan answers small changes."""

    @staticmethod
    def forward(
        ctx: Any,
        M: Tensor,  # noqa: ARG004  (what the derivative is of)
        a: Tensor,
        b: Tensor,
        solution: SolvedTransport,
        with_weights: bool,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(a, b)
        ctx.solution = solution
        u, v = (
            solution.multipliers() if with_weights else (torch.zeros_like(a), torch.zeros_like(b))
        )
        return solution.result.dense(), u, v

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dM: Tensor, da: Tensor, db: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), solution = ctx.saved_tensors, ctx.solution
        Xs, Xt = solution.coordinates(dM)
        return *solution.response(Xs, Xt, a, b)(dM, da, db), None, None


class AppliedPlan(torch.autograd.Function):  # type: ignore[misc]
    """G Y for the optimal plan G, as a function of points, weights and Y."""

    @staticmethod
    def forward(
        ctx: Any, Xs: Tensor, Xt: Tensor, a: Tensor, b: Tensor, Y: Tensor, solution: SolvedTransport
    ) -> Tensor:
        ctx.save_for_backward(Xs, Xt, a, b, Y)
        ctx.solution = solution
        return solution.result.apply(Y)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, R: Tensor) -> tuple[Tensor | None, ...]:
        (Xs, Xt, a, b, Y), solution = ctx.saved_tensors, ctx.solution
        G = solution.result.dense()
        zero_a = torch.zeros_like(a)
        zero_b = torch.zeros_like(b)
        # <R, dG Y> is <A, change of cost> for a plan-shaped A that answers the cost -R Y'
        answer, du, dv = solution.response(Xs, Xt, a, b)(-(R @ Y.T), zero_a, zero_b)
        slope_P = solution.gradient_in_P
        slope_Q = solution.gradient_in_Q
        U = slope_P(G @ Xt)
        V = slope_Q(G.T @ Xs)
        in_Xs = 2.0 * (answer @ Xt) - answer @ V - G @ slope_Q(answer.T @ Xs)
        in_Xt = 2.0 * (answer.T @ Xs) - answer.T @ U - G.T @ slope_P(answer @ Xt)
        return in_Xs, in_Xt, -du, -dv, G.T @ R, None
