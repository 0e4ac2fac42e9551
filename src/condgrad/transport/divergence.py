"""The debiased Sinkhorn divergence between clouds of points, with certified bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from condgrad import _checks
from condgrad.arrays import Array, Tensor, double, is_torch
from condgrad.arrays.inputs import floating
from condgrad.transport.costs import SquaredEuclidean
from condgrad.transport.loss import LossOptions, differentiable
from condgrad.transport.solve import TransportResult, beside, solve


@dataclass(frozen=True, eq=False)
class Divergence:
    """The Sinkhorn divergence S with certified bounds, as `transport.divergence` returns it.

    Attributes
    ----------
    value : float
        S, computed from the values of the three plans. If rounding takes it out of the interval
        between the bounds, it is moved back.
    lower_bound, upper_bound : float
        Certified bounds on S. The lower bound is at least 0, because S >= 0 always.
    between, source, target : TransportResult
        The plans from sources to targets, from the sources to themselves, and from the targets to
        themselves.

    Examples
    --------
    >>> import condgrad as cg
    >>> found = cg.transport.divergence([[0.0], [1.0]], [[0.0], [2.0]], entropy=0.1)
    >>> found.lower_bound <= found.value <= found.upper_bound, found.success
    (True, True)
    """

    value: float
    lower_bound: float
    upper_bound: float
    between: TransportResult
    source: TransportResult
    target: TransportResult

    @property
    def gap(self) -> float:
        """`upper_bound - lower_bound`."""
        return self.upper_bound - self.lower_bound

    @property
    def success(self) -> bool:
        """Whether all three problems were solved to their tolerance."""
        return self.between.success and self.source.success and self.target.success

    def __repr__(self) -> str:
        return (
            f"Divergence({self.value:.10g}, in [{self.lower_bound:.10g}, {self.upper_bound:.10g}])"
        )


def divergence(
    Xs: Any,
    Xt: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float,
    method: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    plan: str = "auto",
) -> Divergence:
    """The Sinkhorn divergence S = F(a, b) - F(a, a)/2 - F(b, b)/2 for the squared Euclidean cost.

    F(a, b) is the minimum of <C, G> + entropy sum G log G over plans from a to b. S is symmetric
    and >= 0, and it is 0 only for equal measures. Feydy et al. (AISTATS 2019) take the entropy
    relative to the product of the marginals. This gives the same S, because the difference cancels.
    The three minima are certified by lower and upper bounds, so S is certified too: it lies between
    lower(a, b) - upper(a, a)/2 - upper(b, b)/2 and upper(a, b) - lower(a, a)/2 - lower(b, b)/2.

    Parameters
    ----------
    Xs, Xt : arrays, shapes (n, d) and (m, d)
        Source and target points: NumPy arrays or torch tensors.
    a, b : arrays, optional
        Weights with the same sum; uniform with the sum 1 by default.
    entropy : float
        Weight of sum G log G, > 0.
    method, tol, max_iter, plan
        As in `transport.solve`, for each of the three problems.
    time_limit : float, optional
        Seconds for each of the three problems.

    Returns
    -------
    Divergence
        With `lower_bound <= S <= upper_bound`. `divergence_loss` is the same as a differentiable
        torch scalar.

    Examples
    --------
    >>> import condgrad as cg
    >>> X, Y = [[0.0], [1.0]], [[3.0], [4.0]]
    >>> round(cg.transport.divergence(X, Y, entropy=0.1).value, 4)  # a shift by 3 costs 9
    9.0
    >>> round(cg.transport.divergence(X, X, entropy=0.1).value, 4)
    0.0
    """
    Xs = double(floating("Xs", Xs, ndim=2))
    Xt = double(beside("Xt", Xt, Xs, ndim=2))
    if 0 in Xs.shape or 0 in Xt.shape or Xs.shape[1] != Xt.shape[1]:
        raise ValueError(
            f"Xs and Xt must hold points of one dimension in rows, got shapes {tuple(Xs.shape)} and {tuple(Xt.shape)}"
        )
    _checks.number("entropy", entropy, above=0.0)

    def solved(X: Array, Y: Array, of_X: Any, of_Y: Any) -> TransportResult:
        result = solve(
            SquaredEuclidean(X, Y),
            of_X,
            of_Y,
            entropy=entropy,
            method=method,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            plan=plan,
        )
        result.result.uninterrupted()
        return result

    between = solved(Xs, Xt, a, b)
    source = solved(Xs, Xs, a, a)
    target = solved(Xt, Xt, b, b)
    highest = [
        run.result.certificate.upper_bound for run in (between, source, target)
    ]  # rounding of values included
    lower = max(0.0, between.lower_bound - 0.5 * highest[1] - 0.5 * highest[2])
    upper = max(0.0, highest[0] - 0.5 * source.lower_bound - 0.5 * target.lower_bound)
    value = between.value - 0.5 * source.value - 0.5 * target.value
    return Divergence(min(max(value, lower), upper), lower, upper, between, source, target)


def divergence_loss(
    Xs: Tensor,
    Xt: Tensor,
    a: Tensor = None,
    b: Tensor = None,
    *,
    entropy: float,
    method: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    plan: str = "auto",
) -> Tensor:
    """The Sinkhorn divergence of `transport.divergence`, as a differentiable torch scalar.

    If the two measures are equal, its gradient with respect to the points is 0. The gradient of
    `transport.loss` is not 0 then: it shrinks clouds towards their means.

    Parameters
    ----------
    Xs, Xt, a, b, method, tol, max_iter, time_limit, plan
        As in `transport.loss`, for each of the three problems.
    entropy : float
        Weight of sum G log G, > 0.

    Returns
    -------
    tensor
        A scalar.

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    >>> cg.transport.divergence_loss(X, X.detach(), entropy=0.1).backward()
    >>> bool(X.grad.abs().max() < 1e-3)  # no slope where the measures agree
    True
    """
    options = {"method": method, "tol": tol, "max_iter": max_iter, "time_limit": time_limit}
    return DivergenceLoss(entropy, plan=plan, **options)(Xs, Xt, a, b)  # type: ignore[arg-type]


@dataclass(eq=False)
class DivergenceLoss:
    """A faster `divergence_loss` for points that move a little between calls.

    Each call starts from the potentials of the last one. Values and gradients are the same as those
    of `divergence_loss`, up to the tolerance.

    Parameters
    ----------
    entropy, method, tol, max_iter, time_limit, plan
        As in `divergence_loss`.

    Examples
    --------
    A gradient flow:

    >>> import torch, condgrad as cg
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> Y = torch.tensor([[3.0], [4.0]], dtype=torch.float64)
    >>> divergence = cg.transport.DivergenceLoss(entropy=0.1)
    >>> for _ in range(20):
    ...     X = X.requires_grad_()
    ...     (gradient,) = torch.autograd.grad(divergence(X, Y), X)
    ...     X = (X - 0.5 * gradient).detach()
    >>> X.round(decimals=2).tolist()
    [[3.0], [4.0]]
    """

    entropy: float
    method: str = field(default="auto", kw_only=True)
    tol: float = field(default=1e-8, kw_only=True)
    max_iter: int = field(default=10_000, kw_only=True)
    time_limit: float | None = field(default=None, kw_only=True)
    plan: str = field(default="auto", kw_only=True)
    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """The results of the last call, one for each of the three problems, by name."""

    def __post_init__(self) -> None:
        _checks.number("entropy", self.entropy, above=0.0)

    def __call__(self, Xs: Tensor, Xt: Tensor, a: Tensor = None, b: Tensor = None) -> Tensor:
        """The divergence between two clouds, with its derivatives."""
        between = self._value("between", Xs, Xt, a, b)
        return (
            between
            - 0.5 * self._value("source", Xs, Xs, a, a)
            - 0.5 * self._value("target", Xt, Xt, b, b)
        )

    def _value(self, which: str, X: Tensor, Y: Tensor, of_X: Tensor, of_Y: Tensor) -> Tensor:
        start = None
        last: Any = self._last.get(which)
        if last is not None and not last.streamed and is_torch(X) and is_torch(Y):
            same = last.shape == (X.shape[0], Y.shape[0])
            same = same and last.problem[1].on.a.device == X.device
            start = last.potentials if same else None
        options = LossOptions(
            "transport.divergence_loss",
            self.entropy,
            (),
            self.method,
            self.tol,
            self.max_iter,
            self.time_limit,
            self.plan,
            start,
            from_itself=which != "between",
        )
        found = differentiable(X, Y, of_X, of_Y, None, options)
        self._last[which] = found.result
        return found.loss
