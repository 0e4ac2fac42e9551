"""Regularised optimal transport: min <C, G> + entropy sum G log G + regularisers over the plans G
with row sums a and column sums b.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

import numpy as np

from condgrad import _checks, deadline, passes, sets, simple, smooth
from condgrad.arrays import (
    Array,
    Space,
    double,
    double_like,
    host,
    is_formed,
    is_torch,
    namespace,
    on_device,
)
from condgrad.arrays.inputs import floating
from condgrad.errors import require_extra
from condgrad.kernels.streamed import computed_by
from condgrad.loop import Callback
from condgrad.memory import GIGABYTE, NUMBER, free_memory
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.result import AnswerOfRun, Result
from condgrad.search.steps import Exact, OpenLoop, StepRule, step_rule
from condgrad.sets.sinkhorn import Potentials
from condgrad.sets.streamed_transport import StreamedTransport
from condgrad.structure import TransportStructure, transport_structure
from condgrad.transport.costs import BlockCost, PointCost
from condgrad.transport.forbidden import Avoiding, allowed_by, barrier_above, usable_pairs
from condgrad.transport.regularizers import Laplacian, Regularizer
from condgrad.transport.starts import (
    TransportProblem,
    coarse_start,
    points_of,
    self_start,
    start_plan,
)

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

PLAN_FORMS = ("auto", "dense", "streamed")
COPIES = 6.0
"""The largest number of arrays of the size of the plan that a dense run holds at a time."""
SHARE = 0.5
"""plan="auto" makes a dense plan only if the run needs at most this part of the free memory."""
SMALL_ON_DEVICE = 4_000_000
"""Up to this many pairs of points, a dense plan is faster on a GPU than a streamed one."""


@dataclass(frozen=True, repr=False, eq=False)
class TransportResult(AnswerOfRun):
    """A plan with exact marginals, and the proof of how good it is.

    The plan is an array, or it is streamed. A streamed plan is not stored. Only factors of its
    logarithm are stored, and products with the plan are computed from them.

    Attributes
    ----------
    problem : tuple of Smooth and Simple
        The f and g that were minimised.
    result : Result
        The run, whose `x` is the plan.
    passes : int
        The work of Newton's method on a streamed plan. One pass goes over all pairs of points and
        multiplies the plan with at most 32 columns.
    points : tuple of arrays, optional
        Source and target points, if the cost or a regulariser has them.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> d = cg.datasets.make_clusters(50)
    >>> t = cg.transport.solve(cg.transport.SquaredEuclidean(d.Xs, d.Xt), entropy=0.1)
    >>> t.shape, t.success, t.lower_bound <= t.value
    ((50, 50), True, True)
    >>> bool(np.allclose(t.plan.sum(axis=1), 1 / 50, rtol=1e-12)), t.barycenters(d.Xt).shape
    (True, (50, 2))
    """

    problem: tuple[Smooth, Simple]
    result: Result
    passes: int = 0
    points: tuple[Array, Array] | None = None

    @property
    def streamed(self) -> bool:
        """Whether the plan is streamed, so not an array."""
        return not is_formed(self.result.x)

    @property
    def structure(self) -> TransportStructure:
        """The parts of the problem: its cost, its entropy and its regularisers."""
        return transport_structure(*self.problem)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of sources and targets."""
        n, m = self.result.x.shape
        return n, m

    @property
    def plan(self) -> Array:
        """The plan, an array of n x m."""
        if self.streamed:
            n, m = self.shape
            raise AttributeError(
                f"this plan of {n} x {m} is streamed and not stored: use t.rows(indices) for some rows, "
                f"t.apply(Y) for products, or t.dense() for all of it, {NUMBER * n * m / GIGABYTE:.3g} GB"
            )
        return self.result.x

    def rows(self, indices: Any) -> Array:
        """Some rows of the plan, as an array."""
        return self.result.x.rows(indices) if self.streamed else self.plan[indices, :]

    def dense(self) -> Array:
        """The whole plan as an array of n x m, even if it is very large."""
        return self.result.x.dense() if self.streamed else self.plan

    @cached_property
    def potentials(self) -> Potentials:
        """The row and column potentials u and v, computed at the first use.

        Let M be the cost plus the gradient of the regularisers at the plan. Then plan_ij is about
        exp((u_i + v_j - M_ij)/entropy). Points without weight have the potential -inf. If the
        entropy is 0, the potentials are optimal dual variables of the linear problem with the cost
        M: u_i + v_j <= M_ij, also for points without weight.
        """
        if self.streamed:
            origin = self.result.x.origin
            if origin is None:
                raise ValueError("the run ended before it had potentials: give it more time")
            return Potentials(origin.u, origin.v)
        f, g = self.problem
        M = f.at(self.plan).gradient
        u, v = g.argmin(M, accuracy=1e-3 * max(self.gap, 1e-12 * self.result.scale)).warm
        if self.structure.entropy == 0.0:
            # a solver of linear programs ignores rows without weight: their potentials are the
            # largest with u_i + v_j <= M_ij for all j
            xp = namespace(M)
            u = xp.where(self.plan.sum(1) > 0.0, u, xp.min(M - v[None, :], axis=1))
        return Potentials(u, v)

    @property
    def cost(self) -> float:
        """<cost, plan>, without entropy and regularisers."""
        return self.structure.cost_of(self.result.x)

    def barycenters(self, Y: Array) -> Array:
        """Where each source goes: the mean of the rows of Y, weighted by the source's row of the
        plan.

        Y has a row for each target; it may be the target points. The answer has a row for each
        source. The row of a source without weight is NaN.
        """
        mass = (self.result.x.a if self.streamed else self.plan.sum(1))[:, None]
        return self.apply(Y) / namespace(mass).where(mass > 0.0, mass, math.nan)

    def apply(self, Y: Array) -> Array:
        """plan @ Y."""
        return self.result.x @ Y

    def apply_transpose(self, Y: Array) -> Array:
        """plan' @ Y."""
        return self.result.x.T @ Y

    @property
    def marginal_error(self) -> float:
        """The sum of |row sums - a| and |column sums - b|. It consists of rounding errors."""
        on: Any = self.problem[1].on
        xp = namespace(on.a)
        rows = self.apply(xp.ones_like(double(on.b))) - on.a
        columns = self.apply_transpose(xp.ones_like(double(on.a))) - on.b
        return float(xp.sum(xp.abs(rows)) + xp.sum(xp.abs(columns)))

    def __str__(self) -> str:
        said = str(self.result)
        inner = int(self.trace["inner_iterations"][-1]) if len(self.trace) else 0
        is_entropic = self.structure.is_plain and self.structure.entropy > 0.0
        if is_entropic and self.method in ("cgs", "sinkhorn"):
            count = f"{self.iterations} iteration{'s' * (self.iterations != 1)} of {self.method}"
            sinkhorn = f"{inner} iterations of Sinkhorn's algorithm"
            said = said.replace(count, sinkhorn)
            if sinkhorn not in said:
                said = f"{said}; {sinkhorn}"
            said = f"{said}; marginals exact to {self.marginal_error:.1e}"
        return said

    def __repr__(self) -> str:
        n, m = self.shape
        kind = ", streamed" if self.streamed else ""
        return f"TransportResult({n} x {m}{kind}, {self.status}, value={self.value:.10g}, gap={self.gap:.3g})"


def beside(name: str, values: Any, like: Array, *, ndim: int) -> Array:
    """A user's array in the library and on the device of the problem. Its precision stays."""
    values = floating(name, values, ndim=ndim)
    if is_torch(like):
        return namespace(like).asarray(values, device=like.device)
    return values.cpu().numpy() if is_torch(values) else values


def weights_like(name: str, weights: Any, like: Array, shape: tuple[int, int], axis: int) -> Array:
    """Weights in the library and on the device of the cost; uniform ones for None."""
    size = shape[axis]
    if weights is None:
        return Space.of(like, shape=(size,)).full(1.0 / size)
    if np.ndim(weights) == 2:
        raise ValueError(
            f"{name} must have 1 dimension, for weights, got shape {tuple(np.shape(weights))}; for points, give a cost "
            "between them, such as transport.SquaredEuclidean(Xs, Xt)"
        )
    weights = beside(name, weights, like, ndim=1)
    if weights.shape[0] != size:
        raise ValueError(
            f"{name} must have {size} weights, for a cost of {' x '.join(map(str, shape))}, got {len(weights)}"
        )
    return double_like(weights, like) if is_torch(like) or like.dtype == np.float64 else weights


def _objective(linear: Smooth, like: Array, regularizers: Sequence[Regularizer]) -> Smooth:
    """<C, G> plus the regularisers. Their coordinates are converted to the cost's library and
    device.
    """
    f = linear
    shape = " x ".join(map(str, linear.space.shape))  # type: ignore[union-attr]
    for k, regularizer in enumerate(_checked_regularizers(regularizers)):
        try:
            if isinstance(regularizer, Laplacian):
                Xs, Xt = (
                    beside(name, getattr(regularizer, name), like, ndim=2) for name in ("Xs", "Xt")
                )
                Ls, Lt = regularizer.graphs
                regularizer = replace(regularizer, Xs=Xs, Xt=Xt, Ls=Ls, Lt=Lt, Ws=None, Wt=None)
            f = f + (regularizer if isinstance(regularizer, Smooth) else regularizer.smooth_part())
        except (TypeError, ValueError) as error:
            kind = f"a {Space.of(like).library} cost of {shape}"
            raise type(error)(
                f"regularizers[{k}], {regularizer!r}, does not fit {kind}: {error}"
            ) from None
    return f


def _checked_regularizers(regularizers: Any) -> Sequence[Regularizer]:
    if not isinstance(regularizers, list | tuple) or not all(
        isinstance(r, Smooth) or hasattr(r, "smooth_part") for r in regularizers
    ):
        raise TypeError(
            "regularizers must be a list of transport.Laplacian, transport.GroupLasso or smooth functions of the plan, "
            f"got {regularizers!r}"
        )
    return regularizers


def with_cost_first(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """The function, with a helpful error for calls in POT's form.

    POT takes the weights first, and the entropy without its name. The error shows the right call.
    """

    @functools.wraps(function)
    def called(*args: Given.args, **options: Given.kwargs) -> Returned:
        given: tuple[Any, ...] = args
        weights_first = len(given) > 2 and np.ndim(given[0]) == 1 and np.ndim(given[2]) == 2
        if len(given) > 3 or weights_first:
            shapes = ", ".join(
                f"an array of shape {tuple(np.shape(each))}" if np.ndim(each) else repr(each)
                for each in given
            )
            name = f"transport.{function.__name__}"
            raise TypeError(
                f"{name} takes the cost first, then the weights, and the weight of the entropy by "
                f"its name: write {name}(M, a, b, entropy=reg); got {shapes}"
            )
        return function(*args, **options)

    return called


@with_cost_first
def solve(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: float,
    regularizers: Sequence[Regularizer] = (),
    method: str = "auto",
    step: str | StepRule = "exact",
    memory: int | None = None,
    plan: str = "auto",
    start: Any = None,
    engine: str = "auto",
    workers: Any = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> TransportResult:
    """Find the best transport plan: minimise <C, G> + entropy sum G log G + regularisers.

    C is the cost, and the plan G has the row sums a and the column sums b. The plan comes with a
    certificate. For many small problems at once see `transport.solve_batch`.

    Parameters
    ----------
    cost : array of shape (n, m), or a cost between points
        Costs between points are `transport.SquaredEuclidean(Xs, Xt)`, `transport.LowRank(A, B)`,
        `transport.cosine(Xs, Xt)` and `transport.BlockCost(function, Xs, Xt)`. They are not stored
        as arrays. A pair with a cost of +inf may not be matched: the plan is exactly 0 there. Such
        costs may be in an array, or come from the function of a `BlockCost`. The plan has the
        library (NumPy or torch) and the device of the cost. Weights, coordinates and the start are
        converted to them.
    a, b : arrays, optional
        Weights >= 0 of sources and targets, with the same sum. By default they are uniform with the
        sum 1.
    entropy : float
        The weight of sum G log G. If it is 0, the method is the plain conditional gradient, and
        each iteration solves a linear program.
    regularizers : sequence
        `transport.Laplacian`, `transport.GroupLasso`, or any smooth function of the plan
        (`condgrad.smooth`).
    method, step, tol, max_iter, time_limit, callback, progress
        As in `condgrad.minimize`.
    memory : int, optional
        As in `condgrad.minimize`. The default is 3 for "cgs" and "cg" with exact steps, if the plan
        is an array; otherwise it is 0. If you give a memory, "auto" runs "cgs" with it.
    plan : {"auto", "dense", "streamed"}
        "dense" makes an array of n x m. "streamed" stores only factors of the plan, in memory
        O((n + m) d), and computes products with the plan from them. This needs a cost between
        points, an entropy > 0, no regulariser except one Laplacian, and the method "newton", "cgs"
        or "auto". "auto" chooses a streamed plan if that is possible, and an array is slower or
        does not fit into memory.
    start : optional
        Where to start: a plan, a pair of potentials (u, v), or an earlier `TransportResult`. The
        earlier result may belong to other points. Then the start potential of a new point is a mean
        of the potentials of the nearest old points.
    engine : str
        The solver of linear programs, if one is needed, as in `sets.Transport`.
    workers : distributed.Client, optional
        A Dask cluster that computes the products with a streamed plan. The rows of the plan are
        divided among its workers. If a worker is lost, its rows are divided among the others. This
        process holds O((n + m) d) numbers. The certificate is as strong as without workers.

    Returns
    -------
    TransportResult
        A plan with exact marginals. For every status, `lower_bound` is at most the minimum of the
        objective, and `value` is at least this minimum, up to the rounding error of `value`.

    Raises
    ------
    InfeasibleError
        If every plan needs a pair of infinite cost. The error names some sources whose allowed
        targets have a smaller total weight.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_clusters(60)
    >>> laplacian = cg.transport.Laplacian(d.Xs, d.Xt, weight=10.0)
    >>> t = cg.transport.solve(cg.transport.SquaredEuclidean(d.Xs, d.Xt), entropy=0.1, regularizers=[laplacian])
    >>> t.success, t.barycenters(d.Xt).shape
    (True, (60, 2))

    Two pairs may not be matched:

    >>> cost = [[0.0, float("inf"), 1.0], [1.0, 0.0, 2.0], [0.0, 1.0, float("inf")]]
    >>> cg.transport.solve(cost, entropy=0.0).plan.round(3).tolist()
    [[0.0, 0.0, 0.333], [0.0, 0.333, 0.0], [0.333, 0.0, 0.0]]
    """
    if workers is not None:
        if plan == "dense" or not isinstance(cost, PointCost):
            raise ValueError(
                "workers need a streamed plan: give a cost between points, such as "
                "transport.SquaredEuclidean(Xs, Xt), and leave plan='auto'"
            )
        plan = "streamed"
    _say_where_gradients_are(cost=cost, a=a, b=b)
    if plan not in PLAN_FORMS:
        raise ValueError(f"plan must be one of {', '.join(map(repr, PLAN_FORMS))}, got {plan!r}")
    entropy = _checks.number("entropy", entropy, at_least=0.0)
    regularizers = _checked_regularizers(regularizers)
    rule = step_rule(step)
    if time_limit is not None:
        _checks.number("time_limit", time_limit, at_least=0.0)
    streamed = _streams(cost, plan, _only_dense(entropy, regularizers, method, rule, memory))
    avoiding = _avoiding(cost, a, b, entropy, streamed)
    if avoiding is not None:

        def solve_relaxed(finite: Any, tol: float, start: Any) -> TransportResult:
            return solve(
                finite,
                avoiding.a,
                avoiding.b,
                entropy=entropy,
                regularizers=regularizers,
                method=method,
                step=step,
                memory=memory,
                plan="streamed" if streamed else "dense",
                start=start,
                engine=engine,
                workers=workers,
                tol=tol,
                max_iter=max_iter,
                time_limit=time_limit,
                callback=callback,
                progress=progress,
            )

        with deadline.within(time_limit):
            return avoiding.solved(solve_relaxed, tol, start)
    if memory is None:
        memory = 3 if method in ("cgs", "cg") and isinstance(rule, Exact) and not streamed else 0
    linear: Smooth
    polytope: type[sets.Transport]
    if streamed:
        unformed = cost.unformed()
        like = unformed.left
        linear = smooth.TransportCost(unformed)
        polytope = StreamedTransport
    else:
        C = cost.dense() if isinstance(cost, PointCost) else floating("cost", cost, ndim=2)
        like = C
        linear = smooth.Linear(C)
        polytope = sets.Transport
    shape: Any = linear.space.shape  # type: ignore[union-attr]
    P = polytope(
        weights_like("a", a, like, shape, 0), weights_like("b", b, like, shape, 1), engine=engine
    )
    f = _objective(linear, like, regularizers)
    g: Simple = simple.Entropy(entropy, on=P) if entropy > 0 else simple.Zero(on=P)
    problem = TransportProblem(f, g, points_of(cost, f, g))
    with deadline.within(time_limit), passes.counting() as count, _shared_by(workers):
        if start is None and streamed and method in ("auto", "newton"):
            start = coarse_start(problem, cost, regularizers, solve)
        if start is None and method in ("auto", "newton"):
            start = self_start(problem, cost)
            # these potentials are nearly optimal: Newton's method only has to prove it
            method = method if start is None else "newton"
        result = minimize(
            f,
            g,
            None if start is None else start_plan(start, problem),
            method=method,
            step=step,
            memory=memory,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            callback=callback,
            progress=progress,
        )
    return TransportResult((f, g), result, count.passes, problem.points)


def _say_where_gradients_are(**given: Any) -> None:
    for name, value in given.items():
        if getattr(value, "requires_grad", False):
            warnings.warn(
                f"{name} requires a gradient, which the answers of transport.solve do not have: "
                "transport.loss(cost=cost, a=a, b=b, entropy=...) is differentiable in the cost and "
                f"the weights; pass {name}.detach() if you need no gradient",
                UserWarning,
                stacklevel=4,
            )


def _avoiding(cost: Any, a: Any, b: Any, entropy: float, streamed: bool) -> Avoiding | None:
    """The problem without its forbidden pairs; None if it has no forbidden pairs."""
    if isinstance(cost, PointCost):
        if not isinstance(cost, BlockCost):
            return None
        pairs = allowed_by(cost)
        if pairs is None:
            return None
        allowed, highest, lowest = pairs
        given = cost if streamed else cost.dense()
        kind = double(cost.Xs)
    else:
        if getattr(cost, "ndim", 2) == 3:
            raise ValueError(
                f"cost has shape {tuple(cost.shape)}: for several problems use transport.solve_batch"
            )
        given = kind = floating("cost", cost, ndim=2, with_infinity=True)
        if 0 in given.shape:
            raise ValueError(f"cost must not be empty, got shape {tuple(given.shape)}")
        finite = namespace(given).isfinite(given)
        allowed = host(finite) > 0
        if allowed.all():
            return None
        highest = float(namespace(given).max(given[finite])) if allowed.any() else 0.0
        lowest = float(namespace(given).min(given[finite])) if allowed.any() else 0.0
    shape = tuple(allowed.shape)
    P = sets.Transport(weights_like("a", a, kind, shape, 0), weights_like("b", b, kind, shape, 1))
    usable = usable_pairs(allowed, P.a, P.b)
    return Avoiding(given, usable, barrier_above(highest, lowest, entropy))


def _shared_by(workers: Any) -> AbstractContextManager[None]:
    """Where products with streamed plans are computed: by the workers of a client, or here."""
    if workers is None:
        return nullcontext()
    distributed = require_extra("distributed", extra="workers", purpose="workers=")
    if not isinstance(workers, distributed.Client):
        raise TypeError(
            f"workers must be a distributed.Client, got {workers!r}: distributed.Client(address) makes one"
        )
    from condgrad.transport.workers import Workers

    return computed_by(Workers(workers))


def _only_dense(
    entropy: float, regularizers: Any, method: str, step: Any, memory: int | None
) -> str | None:
    """The part of the problem that needs a dense plan, in words; None if nothing does."""
    laplacians = [r for r in regularizers if isinstance(r, Laplacian | smooth.TransportLaplacian)]
    for k, regularizer in enumerate(regularizers):
        if not isinstance(regularizer, Laplacian | smooth.TransportLaplacian):
            return f"regularizers[{k}], {regularizer!r}, which looks at every entry of the plan"
    if len(laplacians) > 1:
        return "more than one Laplacian"
    if entropy == 0.0:
        return "entropy=0, which needs linear programs"
    if method not in ("auto", "newton", "cgs"):
        return f"method={method!r}"
    if memory or not isinstance(step, Exact | OpenLoop):
        return f"step={step!r} and memory={memory or 0}"
    return None


def _streams(cost: Any, plan: str, only_dense: str | None) -> bool:
    """Whether the plan is streamed; an error if the user asks for that and it is impossible."""
    if not isinstance(cost, PointCost):
        if plan == "streamed":
            raise ValueError(
                "plan='streamed' needs a cost between points, such as transport.SquaredEuclidean(Xs, Xt), "
                "got an array, which is as large as the plan itself"
            )
        return False
    return plan_is_streamed(cost.shape, cost.arrays[0], plan, only_dense)


def plan_is_streamed(
    shape: tuple[int, int], like: Array, plan: str, only_dense: str | None
) -> bool:
    """Whether a plan between points is streamed.

    `only_dense` is the part of the problem that needs a dense plan, or None. It is an error if the
    user asks for a streamed plan all the same.
    """
    n, m = shape
    bytes_of_plan = NUMBER * n * m
    size = f"an array of {n} x {m} is {bytes_of_plan / GIGABYTE:.3g} GB, and a run holds about {COPIES:.0f} of them"
    if plan == "dense":
        return False
    if plan == "streamed":
        if only_dense is not None:
            raise ValueError(
                f"plan='streamed' does not work with {only_dense}: use plan='dense' ({size})"
            )
        return True
    free = free_memory(like)
    fits = COPIES * bytes_of_plan <= SHARE * free
    if only_dense is not None:
        if not fits:
            raise MemoryError(
                f"a streamed plan does not work with {only_dense}, and a dense one does not fit: {size}, but only "
                f"{free / GIGABYTE:.3g} GB are free: use fewer points, or plan='dense' to try it"
            )
        return False
    return not fits or (on_device(like) and n * m > SMALL_ON_DEVICE)
