"""Gromov-Wasserstein as a differentiable torch function, at a stationary plan."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from condgrad.arrays import Tensor, is_torch
from condgrad.errors import MissingAbility, require_extra
from condgrad.smooth.gromov import loss_parts
from condgrad.transport.gromov import gromov


def gromov_loss(
    C1: Tensor,
    C2: Tensor,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float = 0.0,
    fused: tuple[Tensor, float] | None = None,
    loss: str = "square",
    starts: int = 4,
    start: Any = None,
    tol: float = 1e-8,
    max_iter: int = 10_000,
    time_limit: float | None = None,
) -> Tensor:
    """The objective F of `transport.gromov` at the plan it finds, as a differentiable torch scalar.

    There are derivatives with respect to C1, C2 and the costs M of `fused`. They are computed with
    the plan fixed; no iterations are unrolled. If the plan is a strict local minimiser that moves
    smoothly with the data, these are the derivatives of F along this branch of stationary plans, by
    the envelope theorem. They are *not* the derivatives of the global minimum. If another start
    wins, the value jumps to another branch. So in an optimiser, start each step from the last plan
    (`start=`, `starts=1`).

    Parameters
    ----------
    C1, C2 : tensors, shapes (n, n) and (m, m)
        A number for each pair of points of the same space, such as `torch.cdist(X, X)`. Gradients
        flow back to X.
    a, b : optional
        Weights. They have no gradient.
    entropy, fused, loss, starts, start, max_iter, time_limit
        As in `transport.gromov`. M of `fused` may require a gradient.
    tol : float
        Tolerance for the stationarity gap divided by its scale. If the run does not reach it, there
        is a warning.

    Returns
    -------
    tensor
        A scalar, in the precision of C1.

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> C = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    >>> value = cg.transport.gromov_loss(C, scale * C)  # (1 - scale)^2 / 2
    >>> value.backward()
    >>> round(value.item(), 9), round(scale.grad.item(), 9)
    (2.0, 2.0)
    """
    torch = require_extra("torch", extra="torch", purpose="transport.gromov_loss")
    for name, C in (("C1", C1), ("C2", C2)):
        if not is_torch(C):
            raise TypeError(
                f"{name} must be a torch tensor, got {type(C).__name__}: transport.gromov takes arrays"
            )
    for name, weights in (("a", a), ("b", b)):
        if is_torch(weights) and weights.requires_grad:
            raise MissingAbility(
                f"{name} requires a gradient; gromov_loss has gradients in C1, C2 and M only: detach it"
            )
    q = gromov(
        C1.detach(),
        C2.detach(),
        a,
        b,
        entropy=entropy,
        fused=None
        if fused is None
        else (fused[0].detach() if is_torch(fused[0]) else fused[0], fused[1]),
        loss=loss,
        starts=starts,
        start=start,
        lower_bound=False,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
    )
    q.result.uninterrupted()
    if not q.success:
        warnings.warn(
            f"the plan is only stationary up to {q.stationarity:.3g}: {q.message}",
            ConvergenceWarning,
            stacklevel=2,
        )
    plan = q.plan
    rows = plan.sum(1)
    columns = plan.sum(0)
    parts = loss_parts(C1.to(torch.float64), C2.to(torch.float64), loss)
    value = rows @ parts.f1 @ rows + columns @ parts.f2 @ columns
    value = value - ((parts.h1 @ plan @ parts.h2.T) * plan).sum()
    if fused is not None:
        M = fused[0] if is_torch(fused[0]) else torch.as_tensor(fused[0], device=plan.device)
        value = value + fused[1] * (M.to(torch.float64) * plan).sum()
    return (value + q.parts.entropy).to(C1.dtype)
