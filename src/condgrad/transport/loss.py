"""Regularised transport between clouds of points as a differentiable torch function, with a bound
on the error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from condgrad import _checks
from condgrad.arrays import Tensor, all_finite, double_like, is_torch, largest_row_sum
from condgrad.arrays.inputs import floating
from condgrad.errors import require_extra
from condgrad.result import Status
from condgrad.rounding import SAME_MASS
from condgrad.sets.sinkhorn import Potentials
from condgrad.smooth import TransportLaplacian
from condgrad.transport.costs import PointCost, SquaredEuclidean
from condgrad.transport.entropic import SINKHORN_ROUNDS, solve_by_sinkhorn
from condgrad.transport.regularizers import Laplacian, Regularizer
from condgrad.transport.solve import TransportResult, solve


class GradientError(NamedTuple):
    """Bounds on the errors of the gradients with respect to the points, in the Frobenius norm.

    Attributes
    ----------
    Xs, Xt : float
        Bounds for the gradients with respect to sources and targets. They are infinite for entropy
        = 0, and NaN if you gave a cost and no points.

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> cg.transport.certified_loss(X, X, entropy=0.1).gradient_error.Xs < 1e-2
    True
    """

    Xs: float
    Xt: float


@dataclass(frozen=True, eq=False)
class CertifiedLoss:
    """A differentiable transport loss with its certificate, from `certified_loss`.

    Attributes
    ----------
    loss : tensor
        F at the plan: a scalar with a gradient.
    result : TransportResult
        The plan and its certificate, without gradients.
    gradient_error : GradientError
        Bounds on the errors of the two gradients with respect to the points. They follow from the
        gap, and are infinite for entropy = 0.
    plan_error : float
        A bound on the sum of |G - G*|, where G is the plan and G* the optimal plan. It also bounds
        the error of the gradient with respect to the cost, because this gradient is the plan. It is
        infinite for entropy = 0.

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    >>> found = cg.transport.certified_loss(X, X.detach() + 1.0, entropy=0.1)
    >>> found.loss.requires_grad, found.result.success
    (True, True)
    """

    loss: Tensor
    result: TransportResult
    gradient_error: GradientError
    plan_error: float


def loss(
    Xs: Tensor = None,
    Xt: Tensor = None,
    a: Tensor = None,
    b: Tensor = None,
    *,
    cost: Tensor = None,
    entropy: float,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    plan: str = "auto",
    start: Any = None,
) -> Tensor:
    """The minimum of the transport problem, as a torch scalar with first and second derivatives.

    The problem is to minimise <C, G> + entropy sum G log G + regularisers over plans G from a to b.
    The cost C_ij is |Xs_i - Xt_j|^2, or any cost that you give. No iterations are unrolled: the
    problem is solved, and the envelope theorem gives the gradient from two more products with the
    plan. A second derivative takes one solve with the Newton system at the solution. Second
    derivatives work for an entropy alone, and with Laplacians. Everything is computed in float64,
    and returned in the precision of Xs.

    Parameters
    ----------
    Xs, Xt : tensors, shapes (n, d) and (m, d)
        Source and target points, on one device.
    a, b : tensors, optional
        Weights with the same sum; uniform with the sum 1 by default. Weights that require a
        gradient must be positive. Their gradients are the potentials u and v with plan = exp((u_i +
        v_j - M_ij)/entropy - 1), where M is the cost plus the gradient of the regularisers. This
        determines u and v up to a constant, which is chosen such that <a, u> = <b, v>. The constant
        only matters if a step changes sum a and sum b by different factors. The gradients then
        belong to an extension of the loss: both weights are first scaled to the geometric mean of
        their sums.
    cost : tensor, shape (n, m), optional
        A cost in place of points, for example the output of a network. The gradient with respect to
        it is the plan. A pair with a cost of +inf may not be matched, and its gradient is 0.
    entropy : float
        Weight of sum G log G, >= 0. For 0 there may be several optimal plans; the gradient belongs
        to one of them.
    regularizers : sequence
        As in `transport.solve`. A Laplacian keeps its graphs, but its points are replaced by Xs and
        Xt; if you give a cost, its own points are used. To avoid building the graphs in each call,
        give a `smooth.TransportLaplacian`, or a Laplacian with `Ls` and `Lt`.
    method, tol, max_iter, time_limit, plan, start
        As in `transport.solve`. A run that does not reach `tol` warns. A streamed plan is not
        stored for a gradient, but it is stored for second derivatives.

    Returns
    -------
    tensor
        A scalar. `certified_loss` also returns its certificate and a bound on the error of the
        gradient.

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> Xs = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    >>> Xt = torch.tensor([[3.0], [4.0]], dtype=torch.float64)
    >>> cg.transport.loss(Xs, Xt, entropy=0.01).backward()
    >>> Xs.grad.round(decimals=3).tolist()  # each source is pulled to the target it is matched with
    [[-3.0], [-3.0]]

    For a given cost, the gradient is the plan:

    >>> M = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    >>> cg.transport.loss(cost=M, entropy=0.01).backward()
    >>> M.grad.round(decimals=3).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    asked = (method, tol, max_iter, time_limit, plan, start)
    options = LossOptions("transport.loss", entropy, regularizers, *asked)
    return differentiable(Xs, Xt, a, b, cost, options).loss


def certified_loss(
    Xs: Tensor = None,
    Xt: Tensor = None,
    a: Tensor = None,
    b: Tensor = None,
    *,
    cost: Tensor = None,
    entropy: float,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    plan: str = "auto",
    start: Any = None,
) -> CertifiedLoss:
    """`loss` with its certificate, and with bounds on the errors of the gradients.

    The bounds follow from the gap. By Pinsker's inequality, a plan G with this gap has |G - G*|_1
    <= sqrt(2 mass gap / entropy), where G* is the optimal plan. The gradients are linear in the
    plan, except for the quadratic part of Laplacians. So a bound on the error of the plan gives
    bounds on their errors; see `GradientError`.

    Parameters
    ----------
    Xs, Xt, a, b, cost, entropy, regularizers, method, tol, max_iter, time_limit, plan, start
        As in `loss`.

    Returns
    -------
    CertifiedLoss

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    >>> found = cg.transport.certified_loss(X, X.detach() + 1.0, entropy=0.1)
    >>> found.result.lower_bound <= found.loss.item(), found.gradient_error.Xs < 1e-2
    (True, True)
    """
    asked = (method, tol, max_iter, time_limit, plan, start)
    options = LossOptions("transport.certified_loss", entropy, regularizers, *asked)
    return differentiable(Xs, Xt, a, b, cost, options)


def barycentric_map(
    Xs: Tensor,
    Xt: Tensor,
    a: Tensor = None,
    b: Tensor = None,
    *,
    entropy: float,
    values: Tensor = None,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    plan: str = "auto",
    start: Any = None,
) -> Tensor:
    """Where each source goes: the torch tensor diag(1/a) G Y for the optimal plan G.

    Y are the targets, or other values. The map is differentiable with respect to the points, the
    weights and Y. The derivative of the plan comes from the implicit function theorem, by one solve
    with the Newton system at the solution. The error of the map and of its derivative is of the
    order of the square root of the gap.

    Parameters
    ----------
    Xs, Xt, a, b, method, tol, max_iter, time_limit, plan, start
        As in `loss`. All of a must be positive.
    entropy : float
        Weight of the entropy, > 0.
    values : tensor, shape (m, k), optional
        Y, with a row for each target. By default Y are the targets themselves.
    regularizers : sequence
        Laplacians, as in `loss`.

    Returns
    -------
    tensor, shape (n, k)

    Examples
    --------
    >>> import torch, condgrad as cg
    >>> Xs = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> Xt = torch.tensor([[3.0], [4.0]], dtype=torch.float64, requires_grad=True)
    >>> moved = cg.transport.barycentric_map(Xs, Xt, entropy=0.01)
    >>> moved.round(decimals=3).tolist(), moved.requires_grad
    ([[3.0], [4.0]], True)
    """
    asked = (method, tol, max_iter, time_limit, plan, start)
    options = LossOptions("transport.barycentric_map", entropy, regularizers, *asked)
    _checks.number("entropy", entropy, above=0.0)
    problem = _problem(Xs, Xt, a, b, options)
    from condgrad.transport.envelope import AppliedPlan

    Y = problem.Xt if values is None else _checked_points("values", values, problem.Xs).double()
    if Y.shape[0] != problem.Xt.shape[0]:
        raise ValueError(
            f"values must have a row for each of the {problem.Xt.shape[0]} targets, got {Y.shape[0]}"
        )
    if float(problem.a.detach().min()) <= 0.0:
        raise ValueError("a must have weights > 0: leave sources without weight out")
    problem.solution.require_smooth_plan()
    moved = AppliedPlan.apply(problem.Xs, problem.Xt, problem.a, problem.b, Y, problem.solution)
    return (moved / problem.a[:, None]).to(Xs.dtype)


MOST_PAIRS = 16_000_000
"""Up to this many pairs, a loss stores the cost without asking how much memory is free."""


class LossOptions(NamedTuple):
    """What is asked of a loss, on behalf of the function that `purpose` names."""

    purpose: str
    entropy: float
    regularizers: Sequence[Regularizer]
    method: str
    tol: float
    max_iter: int
    time_limit: float | None
    plan: str
    start: Any
    from_itself: bool = False
    """Whether sources and targets are known to be the same; see `solve_by_sinkhorn`."""


class _Problem(NamedTuple):
    """Points or a cost and weights in float64 with their graphs, and the solution, which has none."""

    Xs: Tensor
    Xt: Tensor
    cost: Tensor
    """None between points."""
    a: Tensor
    b: Tensor
    solution: Any


def differentiable(
    Xs: Tensor,
    Xt: Tensor,
    a: Tensor,
    b: Tensor,
    cost: Tensor,
    options: LossOptions,
) -> CertifiedLoss:
    """`certified_loss` with these options."""
    purpose = options.purpose
    by_cost = cost is not None
    if (Xs is None or Xt is None) is not by_cost or (by_cost and Xs is not Xt):
        raise TypeError(
            f"{purpose} takes points Xs and Xt, or a cost, as {purpose}(cost=M, entropy=...): give "
            "one of the two"
        )
    require_extra("torch", extra="torch", purpose=purpose)
    from condgrad.transport.envelope import OptimalValue, OptimalValueOfCost

    if by_cost:
        kind = cost
        problem = _problem_of_cost(cost, a, b, options)
    else:
        kind = Xs
        problem = _problem(Xs, Xt, a, b, options)
    for name, given, weights in (("a", a, problem.a), ("b", b, problem.b)):
        if getattr(given, "requires_grad", False) and float(weights.detach().min()) <= 0.0:
            raise ValueError(
                f"{name} must have weights > 0 if it requires a gradient: the slope of the entropy at 0 is "
                f"infinite. Leave points without weight out, or pass {name}.detach()"
            )
    if by_cost:
        value = OptimalValueOfCost.apply(problem.cost, problem.a, problem.b, problem.solution)
    else:
        value = OptimalValue.apply(problem.Xs, problem.Xt, problem.a, problem.b, problem.solution)
    result = problem.solution.result
    plan_error = math.inf
    if options.entropy > 0.0:
        mass = float(problem.a.detach().sum())
        plan_error = math.sqrt(2.0 * mass * max(result.gap, 0.0) / options.entropy)
    error = _gradient_error(problem, plan_error)
    return CertifiedLoss(value.to(kind.dtype), result, error, plan_error)


def _problem(Xs: Tensor, Xt: Tensor, a: Tensor, b: Tensor, options: LossOptions) -> _Problem:
    require_extra("torch", extra="torch", purpose=options.purpose)
    from condgrad.transport.envelope import SolvedTransport

    Xs, Xt = _checked_points("Xs", Xs, None).double(), _checked_points("Xt", Xt, Xs).double()
    if Xs.shape[1] != Xt.shape[1]:
        raise ValueError(
            f"Xs and Xt must have the same dimension, got {Xs.shape[1]} and {Xt.shape[1]}"
        )
    a, b = _equal_masses(_weights_of_points("a", a, Xs, 0), _weights_of_points("b", b, Xt, 0))
    laplacians, others = _divided(options.regularizers, Xs.detach(), Xt.detach())
    squared = SquaredEuclidean(Xs.detach(), Xt.detach())
    result = _solved_or_warned(squared, a, b, [*laplacians, *others], options)
    return _Problem(
        Xs, Xt, None, a, b, SolvedTransport(result, options.entropy, laplacians, others)
    )


def _problem_of_cost(cost: Tensor, a: Tensor, b: Tensor, options: LossOptions) -> _Problem:
    from condgrad.transport.envelope import SolvedTransport

    if not is_torch(cost):
        raise TypeError(
            f"cost must be a torch tensor, got {type(cost).__name__}; transport.solve takes NumPy arrays"
        )
    floating("cost", cost, ndim=2, with_infinity=True)
    cost = cost.double()
    a, b = _equal_masses(_weights_of_points("a", a, cost, 0), _weights_of_points("b", b, cost, 1))
    regularizers = options.regularizers
    if not isinstance(regularizers, list | tuple):
        raise TypeError(f"regularizers must be a list, got {regularizers!r}")
    parts = [_laplacian_beside(r, cost.detach()) for r in regularizers]
    result = _solved_or_warned(cost.detach(), a, b, parts, options)
    laplacians = tuple(part for part in parts if isinstance(part, TransportLaplacian))
    others = tuple(part for part in parts if not isinstance(part, TransportLaplacian))
    Xs = cost[:, :0].detach()
    Xt = cost.T[:, :0].detach()
    if len(laplacians) == 1:
        Xs = laplacians[0].Xs
        Xt = laplacians[0].Xt
    elif laplacians:  # they may be between different points
        others = (*laplacians, *others)
        laplacians = ()
    return _Problem(
        Xs, Xt, cost, a, b, SolvedTransport(result, options.entropy, laplacians, others)
    )


def _laplacian_beside(regularizer: Any, cost: Tensor) -> Any:
    """A Laplacian with its coordinates where the cost is; others as they are."""
    part = regularizer.smooth_part() if isinstance(regularizer, Laplacian) else regularizer
    if not isinstance(part, TransportLaplacian):
        return part
    return part.with_points(double_like(part.Xs, cost), double_like(part.Xt, cost))


def _solved_or_warned(
    cost: Any,
    a: Tensor,
    b: Tensor,
    regularizers: list[Any],
    options: LossOptions,
) -> TransportResult:
    """The solution, with a warning where it falls short of its tolerance."""
    entropy = _checks.number("entropy", options.entropy, at_least=0.0)
    result = None
    start = options.start
    if options.method == "auto" and not regularizers and _suits_sinkhorn(cost, entropy, options):
        result = solve_by_sinkhorn(
            cost,
            a.detach(),
            b.detach(),
            entropy,
            tol=options.tol,
            time_limit=options.time_limit,
            start=start,
            from_itself=options.from_itself,
        )
        start = result
    if result is None or result.status is Status.STALLED:
        result = solve(
            cost,
            a.detach(),
            b.detach(),
            entropy=entropy,
            regularizers=regularizers,
            method=options.method,
            tol=options.tol,
            max_iter=options.max_iter,
            time_limit=options.time_limit,
            plan=options.plan,
            start=start,
        )
    result.result.uninterrupted()
    if not result.success:
        warnings.warn(
            f"{options.purpose}: {result.message}; the value is certified to {result.gap:.3g}, and the "
            "gradient belongs to the last plan: use a larger tol, more iterations or more time",
            ConvergenceWarning,
            stacklevel=5,
        )
    return result


def _suits_sinkhorn(cost: Any, entropy: float, options: LossOptions) -> bool:
    """Whether Sinkhorn's algorithm can do it alone: an entropy, and a finite cost at hand."""
    if entropy == 0.0 or options.plan == "streamed" or options.max_iter < SINKHORN_ROUNDS:
        return False
    if not (options.start is None or isinstance(options.start, Potentials)):
        return False
    n, m = cost.shape
    return n * m <= MOST_PAIRS and (isinstance(cost, PointCost) or all_finite(cost))


def _checked_points(name: str, X: Any, beside: Tensor | None) -> Tensor:
    if not is_torch(X):
        raise TypeError(
            f"{name} must be a torch tensor, got {type(X).__name__}; transport.solve takes NumPy arrays"
        )
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must hold points in rows, got shape {tuple(X.shape)}")
    if not X.dtype.is_floating_point:
        raise TypeError(f"{name} must be of a floating-point dtype, got {X.dtype}")
    if beside is not None and X.device != beside.device:
        raise ValueError(f"{name} must be on {beside.device}, like the others, got {X.device}")
    if not all_finite(X.detach()):
        raise ValueError(f"{name} must be finite, got NaN or infinite entries")
    return X


def _weights_of_points(name: str, weights: Any, X: Tensor, axis: int) -> Tensor:
    """Weights in float64 beside the points, or an axis of the cost; uniform ones for None."""
    n = X.shape[axis]
    if weights is None:
        return X.new_full((n,), 1.0 / n)
    if not is_torch(weights):
        raise TypeError(f"{name} must be a torch tensor, got {type(weights).__name__}")
    if tuple(weights.shape) != (n,):
        raise ValueError(
            f"{name} must have {n} weights, one for each point, got shape {tuple(weights.shape)}"
        )
    if weights.device != X.device:
        raise ValueError(f"{name} must be on {X.device}, like the points, got {weights.device}")
    return weights.double()


def _equal_masses(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both scaled to the geometric mean of their masses, which differ by rounding.

    What autograd makes of it settles the derivative of F* in weights, see `loss`.
    """
    mass_a = a.sum()
    mass_b = b.sum()
    of_a = float(mass_a.detach())
    of_b = float(mass_b.detach())
    if of_a <= 0.0 or of_b <= 0.0 or not abs(of_a - of_b) <= SAME_MASS * max(of_a, of_b):
        raise ValueError(
            f"a and b must have the same mass > 0: a sums to {of_a:.12g}, b to {of_b:.12g}"
        )
    ratio = (mass_b / mass_a).sqrt()
    return a * ratio, b / ratio


def _divided(
    regularizers: Sequence[Regularizer], Xs: Tensor, Xt: Tensor
) -> tuple[tuple[TransportLaplacian, ...], tuple[Any, ...]]:
    """Laplacians, moved to these points, and the rest."""
    if not isinstance(regularizers, list | tuple):
        raise TypeError(f"regularizers must be a list, got {regularizers!r}")
    laplacians: list[TransportLaplacian] = []
    others: list[Any] = []
    for k, regularizer in enumerate(regularizers):
        part: Any = regularizer.smooth_part() if isinstance(regularizer, Laplacian) else regularizer
        if not isinstance(part, TransportLaplacian):
            others.append(part)
            continue
        of_source = len(part.Xs)
        of_target = len(part.Xt)
        if (of_source, of_target) != (len(Xs), len(Xt)):
            raise ValueError(
                f"regularizers[{k}] must have graphs of {len(Xs)} and {len(Xt)} points, like Xs and Xt, "
                f"got {of_source} and {of_target}"
            )
        laplacians.append(part.with_points(Xs, Xt))
    return tuple(laplacians), tuple(others)


def _gradient_error(problem: _Problem, r: float) -> GradientError:
    """From |G - G*|_1 <= sqrt(2 mass gap/entropy) = r.

    The marginals of G and G* agree, so 2 (G - G*) Xt is 2 (G - G*)(Xt - c) for any c: at most 2 r
    times the radius of the targets. With V = 2 w Lt Q, |G V - G* V*| <= |(G - G*) V| + |G*| |V -
    V*|, where |G*| <= sqrt(max a max b) and
    |V - V*| <= 2 w |Lt| r radius(Xs); V itself is taken at the plan. Likewise for Xt.
    """
    solution = problem.solution
    if problem.cost is not None:
        return GradientError(math.nan, math.nan)
    if solution.entropy == 0.0:
        return GradientError(math.inf, math.inf)
    Xs, Xt, a, b = (x.detach() for x in (problem.Xs, problem.Xt, problem.a, problem.b))
    result = solution.result

    def longest(rows: Tensor) -> float:
        return float(rows.norm(dim=1).max())

    radius_s = longest(Xs - (a @ Xs) / a.sum())
    radius_t = longest(Xt - (b @ Xt) / b.sum())
    of_Xs = 2.0 * r * radius_t
    of_Xt = 2.0 * r * radius_s
    if solution.laplacians:
        norm = math.sqrt(float(a.max()) * float(b.max()))
        V = solution.gradient_in_Q(result.apply_transpose(Xs))
        U = solution.gradient_in_P(result.apply(Xt))
        # the moments move by no more than r times the longest point
        off_in_V = (
            sum(2.0 * f.target_weight * largest_row_sum(f.Lt) for f in solution.laplacians)
            * r
            * longest(Xs)
        )
        off_in_U = (
            sum(2.0 * f.source_weight * largest_row_sum(f.Ls) for f in solution.laplacians)
            * r
            * longest(Xt)
        )
        of_Xs += r * longest(V) + norm * off_in_V
        of_Xt += r * longest(U) + norm * off_in_U
    return GradientError(of_Xs, of_Xt)
