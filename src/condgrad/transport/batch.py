"""Many small entropic transport problems at once: min <C, G> + entropy sum G log G over plans from
a to b, for each C.

Newton's method solves the dual problem in the column potentials. The same array operations work on
all problems side by side:

    u_i = e (log a_i - log sum_j exp((v_j - C_ij)/e)),   D(v) = <a, u> + <b, v>  <=  the minimum,
    S_ij = a_i exp((v_j - C_ij)/e) / sum,                grad D = b - S'1,
    -hess D = (diag(S'1) - S' diag(1/a) S)/e.

Each problem has its own path, on which e falls to the entropy by factors of four, and its own step
along Newton's direction. It is done when its plan, rounded to exact marginals, has F - D within the
tolerance; the possible rounding error of D is subtracted first. Problems that are done leave the
arrays. On a CPU, the problems are split into groups that fit in its cache, and each thread solves
one group after another.
"""

from __future__ import annotations

import contextvars
import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import array_api_compat
import numpy as np
from threadpoolctl import threadpool_limits

from condgrad import _checks, deadline
from condgrad.arrays import (
    Array,
    at_least,
    double,
    host,
    is_torch,
    like,
    namespace,
    on_device,
    precision,
    smallest,
    zeros,
)
from condgrad.arrays.inputs import floating
from condgrad.certificate import NULL_SHARE, rounding_noise
from condgrad.errors import NotFiniteError
from condgrad.result import Status
from condgrad.rounding import SAME_MASS
from condgrad.search.backtracking import ARMIJO_FRACTION
from condgrad.sets.marginals import kept_share
from condgrad.transport.forbidden import (
    TIGHTER,
    Usable,
    barrier_above,
    moved_onto,
    usable_pairs,
    with_barrier,
)

TOGETHER, TOGETHER_ON_DEVICE = 1 << 18, 1 << 26
"""Problems are solved side by side up to this many entries of their costs, on a CPU and on a GPU.
They fit in a CPU's cache, or in a small part of a GPU's memory.
"""
SIZE_STEP = 2.0
"""Problems are padded to the same size if their sizes differ by less than this factor. 500 problems
of 5 to 50 points take 0.29 s. They take 0.42 s with 1.5, because there are more groups, and 0.36 s
with 2.5, because there is more padding.
"""
STAGE_FACTOR = 0.25
"""Each stage of the path multiplies the entropy by this."""
STAGE_ERROR = 0.05
"""A stage ends once at most this part of the mass is in wrong columns."""
LEAST_LIFT, LIFT_FALL = 1e-11, 0.1
"""A share of the weights b is added to the curvature, since plans that fall apart into blocks have
almost none between these. The share is at least the first number. It grows after a step that had to
be cut, and is multiplied by the second number after a full step.
"""
FARTHEST_IN_BATCH = 20.0
"""A step moves a potential by at most this many entropies. Farther away the curvature says nothing.
"""
STUCK_STEP = 1e-7
"""A shorter step counts as 0."""
NUMBER_FIELDS = ("value", "lower_bound", "scale")
MOST_TRIES = 8
"""A problem counts as stalled after this many rounded plans that were not good enough."""


@dataclass(frozen=True, repr=False, eq=False)
class BatchResult:
    """Plans with exact marginals, each with its proof. Each array has one entry for each problem.

    Attributes
    ----------
    plan : array, shape (k, n, m)
        The plans. If the sizes of the problems differ, plan, u and v are tuples of k arrays.
    value, lower_bound : array, shape (k,)
        The objective F at each plan, and a lower bound on the minimum F* of each problem.
    scale : array, shape (k,)
        The number that each gap is divided by, as in `condgrad.Result`.
    u, v : array, shapes (k, n) and (k, m)
        Potentials: the plan is about exp((u_i + v_j - C_ij)/entropy). They are -inf at points
        without weight.
    iterations : array of int, shape (k,)
        The number of Newton steps of each problem.
    status : NumPy array of `condgrad.Status`
        Why each problem ended.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> found = cg.transport.solve_batch(np.random.default_rng(0).random((3, 4, 5)), entropy=0.1)
    >>> len(found), found.success, bool((found.lower_bound <= found.value).all())
    (3, True, True)
    >>> bool((found.relative_gap <= 1e-6).all())
    True
    """

    plan: Array
    value: Array
    lower_bound: Array
    scale: Array
    u: Array
    v: Array
    iterations: Array
    status: Any

    @property
    def gap(self) -> Array:
        """`value - lower_bound`. It is at least F - F* of each problem."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> Array:
        """gap / scale.

        If the scale is 0, the result is 0 if rounding explains the gap, and infinity otherwise.
        """
        xp = namespace(self.scale)
        # where the scale is 0, `certify` has compared the gap with rounding, and set the status
        by_status = [0.0 if status is Status.CONVERGED else math.inf for status in self.status]
        unmeasured = xp.asarray(np.asarray(by_status), device=array_api_compat.device(self.scale))
        measured = self.scale > 0.0
        return xp.where(measured, self.gap / xp.where(measured, self.scale, 1.0), unmeasured)

    @property
    def success(self) -> bool:
        """Whether all problems converged."""
        return all(status is Status.CONVERGED for status in self.status)

    def _only(self, chosen: Array) -> BatchResult:
        """The problems for which `chosen`, an array of bool, holds."""
        on_host = host(chosen) > 0.0

        def of_each(values: Any) -> Any:
            if isinstance(values, tuple):
                return tuple(itertools.compress(values, on_host))
            return values[chosen]

        arrays = {name: of_each(getattr(self, name)) for name in ("plan", *NUMBER_FIELDS, "u", "v")}
        counts = self.iterations[on_host]
        return BatchResult(**arrays, iterations=counts, status=self.status[on_host])

    def __len__(self) -> int:
        return len(self.status)

    def __repr__(self) -> str:
        sizes = sorted({tuple(plan.shape) for plan in self.plan})
        of = " to ".join(f"{n} x {m}" for n, m in (sizes[:1] + sizes[1:][-1:]))
        done = sum(status is Status.CONVERGED for status in self.status)
        return f"BatchResult({len(self)} problems of {of}, {done} converged)"


def solve_batch(
    cost: Any,
    a: Any = None,
    b: Any = None,
    *,
    entropy: Any,
    tol: float = 1e-6,
    max_iter: int = 1000,
    time_limit: float | None = None,
) -> BatchResult:
    """Solve many small entropic transport problems at once, each with a certificate.

    Each problem is: minimise <C, G> + entropy sum G log G over plans G from a to b.

    Parameters
    ----------
    cost : array, shape (k, n, m), or k arrays in a list
        The arrays in a list may have different sizes; arrays of similar size are solved side by
        side. A pair with a cost of +inf may not be matched, and the plan is exactly 0 there. The
        answer has the library (NumPy or torch) and the device of the cost, and is in float64.
    a, b : arrays, optional
        Weights >= 0 of sources and targets, with the same sum; uniform with the sum 1 by default.
        Arrays of shapes (n,) and (m,) are used for all problems. Otherwise give shapes (k, n) and
        (k, m), or lists of k arrays if sizes differ.
    entropy : float, or k floats
        Weight of sum G log G, above 0.
    tol : float
        A problem is solved when its gap divided by its scale is at most this number.
    max_iter, time_limit
        As in `condgrad.minimize`. Problems that have not converged by then have a certificate too.

    Returns
    -------
    BatchResult
        Plans with exact marginals, and a certificate and a status for each.

    Raises
    ------
    NotFiniteError
        If a number of some problem is too large for a floating-point number: F, its bound, or a
        cost divided by the entropy. `error.problems` has the indices of all such problems.
        `error.others` is the `BatchResult` of all other problems, in their order.
    InfeasibleError
        If in some problem every plan needs a pair of infinite cost. The message names the problem.

    Examples
    --------
    The same cost with a small and with a large entropy:

    >>> import numpy as np, condgrad as cg
    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> found = cg.transport.solve_batch(np.stack([cost, cost]), entropy=[0.1, 10.0])
    >>> found.plan[:, 0, 0].round(3).tolist(), found.plan.sum(axis=2).tolist()
    ([0.5, 0.262], [[0.5, 0.5], [0.5, 0.5]])
    """
    tol = _checks.number("tol", tol, at_least=0.0)
    max_iter = _checks.whole("max_iter", max_iter, at_least=1)
    batch: Batch | MixedBatch | None = _different_sizes(cost, a, b, entropy)
    if batch is None:
        C = floating("cost", cost, ndim=3, with_infinity=True)
        k, n, m = C.shape
        if n == 0 or m == 0:
            raise ValueError(f"cost must not be empty, got shape {(k, n, m)}")
        a = _weights_of_problems("a", a, C, k, n)
        b = _weights_of_problems("b", b, C, k, m)
        batch = Batch(C, a, _same_mass(a, b), _entropies(entropy, C, k))
    # what leaves the floats is infinite, and its problem has no answer
    with np.errstate(over="ignore", invalid="ignore"), deadline.within(time_limit):
        result = batch.solved(tol, max_iter)
    return _finite_result(result, batch)


@dataclass(frozen=True, eq=False)
class Batch:
    """Problems of one size, side by side in arrays."""

    C: Array
    a: Array
    b: Array
    entropy: Array

    def described(self, j: int) -> tuple[float, float, float]:
        """The largest finite cost, the entropy and the mass of a problem."""
        xp = namespace(self.C)
        costs = xp.where(xp.isfinite(self.C[j]), xp.abs(self.C[j]), 0.0)
        return float(xp.max(costs)), float(self.entropy[j]), float(xp.sum(self.a[j]))

    def solved(self, tol: float, max_iter: int, names: Sequence[int] | None = None) -> BatchResult:
        """All answers; `names` are the numbers of the problems in messages."""
        xp = namespace(self.C)
        allowed = xp.isfinite(self.C)
        forbidding = ~xp.all(allowed, axis=(1, 2))
        if not bool(xp.any(forbidding)):
            return self._of_finite_costs(tol, max_iter)
        C = double(self.C)
        b = self.b * 1.0
        around: dict[int, Usable] = {}
        for j in map(int, np.flatnonzero(host(forbidding))):
            number = j if names is None else names[j]
            usable = usable_pairs(
                host(allowed[j]) > 0, self.a[j], self.b[j], which=f"problem {number}: "
            )
            cells = xp.asarray(usable.cells(), device=array_api_compat.device(C))
            finite = C[j][cells]
            barrier = barrier_above(
                float(xp.max(finite)), float(xp.min(finite)), float(self.entropy[j])
            )
            C[j] = with_barrier(C[j], cells, barrier)
            b[j] = like(usable.b, b)
            around[j] = usable
        relaxed = replace(self, C=C, b=b)
        # a barrier enlarges the scale that a tolerance is of
        result = relaxed._of_finite_costs(TIGHTER * tol, max_iter)
        for j, usable in around.items():
            relaxed._move_onto(usable, j, result)
        within = host(result.gap <= tol * result.scale) > 0
        moved = np.flatnonzero(within & (result.status != Status.CONVERGED))
        result.status[moved] = Status.CONVERGED
        short = np.flatnonzero(~within & (result.status == Status.CONVERGED))
        result.status[short] = Status.STALLED
        return result

    def _move_onto(self, usable: Usable, j: int, result: BatchResult) -> None:
        """Move the plan of a problem onto its usable pairs, and value it there."""
        C = np.asarray(host(self.C[j]))
        entropy = float(self.entropy[j])
        plan = moved_onto(usable.cells(), np.asarray(host(result.plan[j])), C, usable)

        def terms(plan: Array) -> tuple[float, float]:
            cost, entropy_term = _terms(C[None], plan[None], np.array([entropy]))
            return float(cost[0]), float(entropy_term[0])

        cost, entropy_term = terms(plan)
        null = sum(map(abs, terms(usable.plan())))
        result.plan[j] = like(plan, result.plan)
        result.value[j] = cost + entropy_term
        result.scale[j] = max(abs(cost) + abs(entropy_term), NULL_SHARE * null)

    def _of_finite_costs(self, tol: float, max_iter: int) -> BatchResult:
        if self.C.shape[2] <= self.C.shape[1]:
            return _solve(self.C, self.a, self.b, self.entropy, tol, max_iter)
        # Newton's equations are of the size of the columns
        turned = _solve(_turned(self.C), self.b, self.a, self.entropy, tol, max_iter)
        return replace(turned, plan=_turned(turned.plan), u=turned.v, v=turned.u)


@dataclass(frozen=True, eq=False)
class MixedBatch:
    """Problems of different sizes, in lists."""

    C: list[Array]
    a: list[Array]
    b: list[Array]
    entropy: Array

    def described(self, j: int) -> tuple[float, float, float]:
        return self._only([j]).described(0)

    def turned(self) -> tuple[MixedBatch, list[bool]]:
        """The problems with no more columns than rows, and which of them were transposed for it."""
        wide = [C.shape[1] > C.shape[0] for C in self.C]
        sides = list(zip(self.a, self.b, wide, strict=True))
        return MixedBatch(
            [C.T if turn else C for C, turn in zip(self.C, wide, strict=True)],
            [b if turn else a for a, b, turn in sides],
            [a if turn else b for a, b, turn in sides],
            self.entropy,
        ), wide

    def _only(self, chosen: Sequence[int]) -> Batch:
        """Some problems, padded by points without weight to the size of the largest."""
        n = max(self.C[j].shape[0] for j in chosen)
        m = max(self.C[j].shape[1] for j in chosen)
        C = zeros(self.entropy, len(chosen), n, m)
        a = zeros(self.entropy, len(chosen), n)
        b = zeros(self.entropy, len(chosen), m)
        for place, j in enumerate(chosen):
            rows, columns = self.C[j].shape
            C[place, :rows, :columns] = self.C[j]
            # what is added costs as much as something that is there
            C[place, rows:, :] = self.C[j][0, 0]
            C[place, :rows, columns:] = self.C[j][0, 0]
            a[place, :rows] = self.a[j]
            b[place, :columns] = self.b[j]
        return Batch(C, a, b, self.entropy[list(chosen)])

    def solved(self, tol: float, max_iter: int) -> BatchResult:
        """All answers, in the order of the problems."""
        tall, wide = self.turned()
        alike: dict[tuple[int, int], list[int]] = {}
        for j, C in enumerate(tall.C):
            steps = [math.ceil(math.log(size, SIZE_STEP)) for size in C.shape]
            alike.setdefault((steps[0], steps[1]), []).append(j)
        k = len(self.C)
        of_all: dict[str, list[Any]] = {field.name: [None] * k for field in fields(BatchResult)}
        for chosen in alike.values():
            found = tall._only(chosen).solved(tol, max_iter, chosen)
            for place, j in enumerate(chosen):
                for name, values in of_all.items():
                    values[j] = getattr(found, name)[place]
                if wide[j]:
                    of_all["plan"][j] = of_all["plan"][j].T
                    of_all["u"][j], of_all["v"][j] = of_all["v"][j], of_all["u"][j]
        xp = namespace(self.entropy)
        for j, C in enumerate(self.C):
            n, m = C.shape
            of_all["plan"][j] = of_all["plan"][j][:n, :m]
            of_all["u"][j] = of_all["u"][j][:n]
            of_all["v"][j] = of_all["v"][j][:m]
        numbers = {name: xp.stack(list(map(xp.asarray, of_all[name]))) for name in NUMBER_FIELDS}
        arrays = {name: tuple(of_all[name]) for name in ("plan", "u", "v")}
        iterations = np.array(of_all["iterations"])
        status = np.array(of_all["status"], dtype=object)
        return BatchResult(**numbers, **arrays, iterations=iterations, status=status)


def _different_sizes(cost: Any, a: Any, b: Any, entropy: Any) -> MixedBatch | None:
    """A list of costs, unless it is one array of problems of one size."""
    if not isinstance(cost, list | tuple) or len(cost) == 0:
        return None
    shapes = [np.shape(each) for each in cost]
    if len(set(shapes)) == 1 and not any(map(is_torch, cost)):
        return None
    costs = [
        floating(f"cost[{j}]", each, ndim=2, with_infinity=True) for j, each in enumerate(cost)
    ]
    k = len(costs)
    for j, C in enumerate(costs):
        if 0 in C.shape:
            raise ValueError(f"cost[{j}] must not be empty, got shape {tuple(C.shape)}")
        if is_torch(C) != is_torch(costs[0]) or array_api_compat.device(
            C
        ) != array_api_compat.device(costs[0]):
            raise TypeError(
                f"cost[{j}] must be of the library and on the device of cost[0], got "
                f"{type(C).__name__} on {array_api_compat.device(C)}"
            )
    weights: dict[str, list[Array]] = {}
    for axis, (name, given) in enumerate((("a", a), ("b", b))):
        if given is None:
            given = [None] * k
        if not isinstance(given, list | tuple) or len(given) != k:
            raise ValueError(
                f"{name} must be a list of {k} arrays of weights, one for each cost, got {given!r}"
            )
        weights[name] = [
            _weights_of_problems(f"{name}[{j}]", each, C[None], 1, C.shape[axis])[0]
            for j, (each, C) in enumerate(zip(given, costs, strict=True))
        ]
    entropies = _entropies(entropy, costs[0], k)
    padded = []
    for given in weights.values():
        together = zeros(entropies, k, max(map(len, given)))
        for j, each in enumerate(given):
            together[j, : len(each)] = each
        padded.append(together)
    scaled = _same_mass(*padded)
    same = [scaled[j, : len(each)] for j, each in enumerate(weights["b"])]
    return MixedBatch(costs, weights["a"], same, entropies)


def _finite_result(result: BatchResult, batch: Batch | MixedBatch) -> BatchResult:
    """The result, if all problems have a value and a bound; else an error that names the others."""
    xp = namespace(result.value)
    answered = xp.isfinite(result.gap)
    if bool(xp.all(answered)):
        return result
    lost = np.flatnonzero(host(answered) == 0.0)
    j = int(lost[0])
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    largest, entropy, mass = batch.described(j)
    error = NotFiniteError(
        f"problem {j} of {len(result)}{more} is out of the range of floats: costs of up to "
        f"{largest:.3g}, an entropy of {entropy:.3g} and a mass of {mass:.3g} make F, "
        "its bound or cost / entropy infinite; choose other units for it. In this error, `problems` are the "
        "numbers of all problems without an answer, and `others` are the answers of the other problems"
    )
    error.problems = tuple(map(int, lost))
    error.others = result._only(answered)
    raise error


def _turned(C: Array) -> Array:
    return namespace(C).permute_dims(C, (0, 2, 1))


def _weights_of_problems(name: str, weights: Any, C: Array, k: int, size: int) -> Array:
    """Weights for each problem, in float64, where the cost is; uniform ones for None."""
    xp = namespace(C)
    device = array_api_compat.device(C)
    if weights is None:
        return xp.full((k, size), 1.0 / size, dtype=xp.float64, device=device)
    weights = floating(name, weights)
    if is_torch(weights) and not is_torch(C):
        weights = host(weights)
    if tuple(weights.shape) not in ((size,), (k, size)):
        raise ValueError(
            f"{name} must have the shape {(size,)} or {(k, size)}, got {tuple(weights.shape)}"
        )
    weights = xp.asarray(weights, dtype=xp.float64, device=device)
    if bool(xp.any(weights < 0.0)):
        raise ValueError(f"{name} must be >= 0, got {float(xp.min(weights)):g} among its weights")
    return xp.broadcast_to(weights, (k, size))


def _same_mass(a: Array, b: Array) -> Array:
    """b with the mass of a to the last digit."""
    xp = namespace(a)
    mass_a = xp.sum(a, axis=1)
    mass_b = xp.sum(b, axis=1)
    off = (
        (xp.abs(mass_a - mass_b) > SAME_MASS * xp.maximum(mass_a, mass_b))
        | (mass_a <= 0.0)
        | (mass_b <= 0.0)
    )
    if bool(xp.any(off)):
        j = int(xp.argmax(xp.astype(off, xp.int64)))
        sums = f"a sums to {float(mass_a[j]):.12g}, b to {float(mass_b[j]):.12g}"
        raise ValueError(f"a and b must have the same mass > 0: of problem {j} {sums}")
    return b * (mass_a / mass_b)[:, None]


def _entropies(entropy: Any, C: Array, k: int) -> Array:
    """An entropy for each of k problems, where the cost is."""
    xp = namespace(C)
    if isinstance(entropy, list | tuple):
        entropy = np.asarray(entropy)
    if getattr(entropy, "ndim", 0) == 0:
        entropy = np.full(k, _checks.number("entropy", entropy, above=0.0))
    values = floating("entropy", entropy, ndim=1)
    if tuple(values.shape) != (k,) or float(values.min() if k else 1.0) <= 0.0:
        raise ValueError(
            f"entropy must be a number > 0, or {k} of them, one for each problem, got {entropy!r}"
        )
    return xp.asarray(host(values), device=array_api_compat.device(C))


def _solve(
    C: Array,
    a: Array,
    b: Array,
    entropy: Array,
    tol: float,
    max_iter: int,
) -> BatchResult:
    """In groups, on a CPU over threads."""
    k, n, m = C.shape
    group = max(1, (TOGETHER_ON_DEVICE if on_device(C) else TOGETHER) // (n * m))
    answers = _unanswered(C, a, b)

    def solve_group(first: int) -> None:
        chosen = slice(first, min(first + group, k))
        problems = Problems.start(
            double(C[chosen]), a[chosen], b[chosen], entropy[chosen], first, tol
        )
        ascend(problems, answers, tol, max_iter)

    _over_threads(solve_group, list(range(0, k, group)), on_device(C))
    return answers


def _over_threads(work: Callable[[int], None], groups: list[int], device: bool) -> None:
    count = 1
    if not device and len(groups) > 1:
        from condgrad.kernels.streamed_numba import threads

        count = min(threads(), len(groups))
    if count == 1:
        for group in groups:
            work(group)
        return
    # the deadline is a context variable, and BLAS must not start threads of its own in each of ours
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(contextvars.copy_context().run, work, group) for group in groups]:
            done.result()


def _unanswered(C: Array, a: Array, b: Array) -> BatchResult:
    """Where the answer of each problem will be written."""
    xp = namespace(C)
    k = C.shape[0]
    nothing = zeros(C, k)
    return BatchResult(
        zeros(C, *C.shape),
        nothing + math.inf,
        nothing - math.inf,
        nothing,
        xp.zeros_like(a),
        xp.zeros_like(b),
        np.zeros(k, dtype=np.int64),
        np.full(k, Status.STALLED, dtype=object),
    )


@dataclass
class Problems:
    """The problems of a group that are not done, and where each of them is on its way."""

    C: Array
    a: Array
    b: Array
    entropy: Array
    number: Array
    """Which problem of the whole batch."""
    null_size: Array
    """|f| + |g| at the product of the weights."""
    v: Array
    stage: Array
    """What the entropy is multiplied with."""
    dual: Array
    direction: Array
    slope: Array
    step: Array
    aim: Array
    """The mass in wrong columns at which to round and look; below 0 for problems that are done."""
    tries: Array
    lift: Array

    @classmethod
    def start(
        cls, C: Array, a: Array, b: Array, entropy: Array, first: int, tol: float
    ) -> Problems:
        xp = namespace(C)
        k = C.shape[0]
        mass = xp.sum(a, axis=1)
        one = xp.ones_like(entropy)
        product = a[:, :, None] * (b / mass[:, None])[:, None, :]
        cost, entropy_term = _terms(C, product, entropy)
        height = xp.max(C.reshape(k, -1), axis=1) - xp.min(C.reshape(k, -1), axis=1)
        null_size = xp.abs(cost) + xp.abs(entropy_term)
        null_size = xp.where(xp.isfinite(null_size), null_size, 0.0)  # as in `minimize`
        stage = xp.maximum(one, STAGE_FACTOR * height / entropy)
        aim = tol * null_size / (height + entropy)
        return cls(
            C=C,
            a=a,
            b=b,
            entropy=entropy,
            number=xp.arange(first, first + k, device=array_api_compat.device(C)),
            null_size=null_size,
            v=xp.zeros_like(b),
            stage=stage,
            dual=-xp.inf * one,
            direction=xp.zeros_like(b),
            slope=0.0 * one,
            step=one,
            # a path that starts at infinity has no end
            aim=xp.where(xp.isfinite(stage), aim, -1.0),
            tries=0.0 * one,
            lift=LEAST_LIFT * one,
        )

    def __len__(self) -> int:
        return int(self.C.shape[0])

    def only(self, chosen: Array) -> Problems:
        """Those where `chosen` holds."""
        return _only(self, chosen)

    @property
    def mass(self) -> Array:
        return namespace(self.a).sum(self.a, axis=1)


@dataclass
class Point:
    """The dual at column potentials v: S has the row sums a."""

    S: Array
    u: Array
    columns: Array
    """S'1."""
    dual: Array

    @classmethod
    def at(cls, problems: Problems, v: Array, entropy: Array) -> Point:
        xp = namespace(v)
        a = problems.a
        b = problems.b
        # columns without weight have the potential -inf
        S = xp.where(b > 0.0, v, -xp.inf)[:, None, :] - problems.C
        S /= entropy[:, None, None]
        top = xp.max(S, axis=2)
        S -= top[:, :, None]
        S = xp.exp(S)
        sums = xp.sum(S, axis=2)
        S *= (a / sums)[:, :, None]
        log_a = xp.log(xp.where(a > 0.0, a, 1.0))
        u = entropy[:, None] * (log_a - xp.log(sums) - top)
        dual = xp.sum(a * u, axis=1) + xp.sum(b * v, axis=1)
        return cls(S, u, xp.sum(S, axis=1), dual)


def newton_direction(problems: Problems, point: Point, entropy: Array) -> Array:
    """The solution dv of (diag(S'1) - S' diag(1/a) S) dv = e (b - S'1).

    This matrix maps constant vectors to 0. A term of rank one makes it invertible, and a small
    share of b on its diagonal (`LEAST_LIFT`) makes it better conditioned. Long steps are cut.
    """
    xp = namespace(point.S)
    a = problems.a
    b = problems.b
    # in units of sqrt(b), which makes all diagonal entries near 1
    by_row = 1.0 / xp.sqrt(xp.where(a > 0.0, a, 1.0))
    by_column = 1.0 / xp.sqrt(xp.where(b > 0.0, b, 1.0))
    scaled = point.S * by_row[:, :, None] * by_column[:, None, :]
    columns = point.columns * by_column
    matrix = _turned(scaled) @ scaled
    matrix *= -1.0
    matrix += columns[:, :, None] * (columns / problems.mass[:, None])[:, None, :]
    diagonal = xp.arange(b.shape[1], device=array_api_compat.device(b))
    matrix[:, diagonal, diagonal] += xp.where(
        b > 0.0, columns * by_column + problems.lift[:, None], 1.0
    )
    right = entropy[:, None] * (b - point.columns) * by_column
    direction = xp.linalg.solve(matrix, right[:, :, None])[:, :, 0] * by_column
    far = xp.max(xp.abs(direction), axis=1) / (FARTHEST_IN_BATCH * entropy)
    return direction / xp.where(far > 1.0, far, 1.0)[:, None]


def _terms(C: Array, plan: Array, entropy: Array) -> tuple[Array, Array]:
    """<C, plan> and entropy sum plan log plan."""
    xp = namespace(C)
    logarithms = xp.log(xp.where(plan > 0.0, plan, 1.0))
    logarithms *= plan
    return xp.sum(C * plan, axis=(1, 2)), entropy * xp.sum(logarithms, axis=(1, 2))


def ascend(problems: Problems, answers: BatchResult, tol: float, max_iter: int) -> None:
    """Newton's method for all problems of a group; writes the answers."""
    problems = problems.only(problems.aim >= 0.0)
    if len(problems) == 0:
        return
    for iteration in range(1, max_iter + 1):
        xp = namespace(problems.C)
        entropy = problems.stage * problems.entropy
        trial = problems.v + problems.step[:, None] * problems.direction
        point = Point.at(problems, trial, entropy)
        noise = _noise_of_dual(problems, point, trial, entropy)
        promised = problems.dual + ARMIJO_FRACTION * problems.step * problems.slope
        good = point.dual >= promised - noise
        problems.v = xp.where(good[:, None], trial, problems.v)
        error = xp.sum(xp.abs(problems.b - point.columns), axis=1)
        last = problems.stage == 1.0
        stuck = ~good & (problems.step < STUCK_STEP)
        cut = problems.step < 1.0
        lift = problems.lift * xp.where(cut, 1.0 / LIFT_FALL, LIFT_FALL)
        problems.lift = xp.where(good, xp.clip(lift, LEAST_LIFT, 1.0), problems.lift)
        problems.step = xp.where(good, 1.0, 0.5 * problems.step)
        out_of_time = deadline.passed()
        if iteration == max_iter or out_of_time:
            # the bound is that of the true entropy, wherever on its path a problem is
            problems = problems.only(problems.aim >= 0.0)
            point = Point.at(problems, problems.v, problems.entropy)
            status = Status.TIME_LIMIT if out_of_time else Status.ITERATION_LIMIT
            certify(problems, point, answers, tol, iteration, status)
            return
        active = (
            problems.aim >= 0.0
        )  # those that are done stay for a while, and are not looked at again
        # no step promises more than rounding errors: it cannot get any better than this
        exhausted = (problems.slope <= noise) & (problems.dual > -xp.inf)
        look = active & last & (stuck | (good & (exhausted | (error <= problems.aim))))
        done = xp.zeros_like(look)
        if bool(xp.any(look)):
            chosen = problems.only(look)
            certified = certify(chosen, _only(point, look), answers, tol, iteration, Status.STALLED)
            problems.aim[look] = 0.5 * error[look]
            problems.tries[look] += 1.0
            done[look] = certified
            done = done | (look & (stuck | (problems.tries >= MOST_TRIES)))
        ends = ~last & ((good & (error <= STAGE_ERROR * problems.mass)) | stuck)
        direction = newton_direction(problems, point, entropy)
        # the next stage starts where this one ends: its own direction is known once its dual is
        problems.direction = xp.where(
            ends[:, None], 0.0, xp.where(good[:, None], direction, problems.direction)
        )
        slope = xp.sum((problems.b - point.columns) * direction, axis=1)
        problems.slope = xp.where(good, slope, problems.slope)
        problems.dual = xp.where(ends, -xp.inf, xp.where(good, point.dual, problems.dual))
        problems.stage = xp.where(
            ends, xp.maximum(STAGE_FACTOR * problems.stage, xp.ones_like(error)), problems.stage
        )
        problems.step = xp.where(ends, 1.0, problems.step)
        problems.aim = xp.where(done, -1.0, problems.aim)
        left = int(xp.sum(xp.astype(active & ~done, xp.int64)))
        if left == 0:
            return
        if 2 * left <= len(problems):
            problems = problems.only(problems.aim >= 0.0)


def _noise_of_dual(problems: Problems, point: Point, v: Array, entropy: Array) -> Array:
    """What rounding errors may have done to the dual."""
    xp = namespace(v)
    k, n, m = problems.C.shape
    terms = xp.sum(problems.a * xp.abs(point.u), axis=1) + xp.sum(problems.b * xp.abs(v), axis=1)
    exponents = xp.max(xp.abs(problems.C).reshape(k, -1), axis=1) + entropy * (
        1.0 + math.log2(n * m)
    )
    # as in `certificate.subnormal_size`
    subnormal = smallest(v) * (n * m + problems.mass)
    return rounding_noise(precision(v), terms, problems.mass * exponents, subnormal)


def _only(record: Any, chosen: Array) -> Any:
    """The same record of some problems."""
    return type(record)(*(getattr(record, field.name)[chosen] for field in fields(record)))


def certify(
    problems: Problems,
    point: Point,
    answers: BatchResult,
    tol: float,
    iteration: int,
    otherwise: Status,
) -> Array:
    """Round the plans to exact marginals, and return which problems have converged.

    If the gap of a problem is its smallest so far, its plan, value and bound are written to
    `answers`.
    """
    xp = namespace(point.S)
    a = problems.a
    b = problems.b
    plan = point.S * kept_share(point.columns, b)[:, None, :]
    row_rest = at_least(0.0, a - xp.sum(plan, axis=2))
    column_rest = at_least(0.0, b - xp.sum(plan, axis=1))
    rest = xp.sum(row_rest, axis=1)
    plan += (
        row_rest[:, :, None] * (column_rest / xp.where(rest > 0.0, rest, 1.0)[:, None])[:, None, :]
    )
    cost, entropy_term = _terms(problems.C, plan, problems.entropy)
    value = cost + entropy_term
    size = xp.abs(cost) + xp.abs(entropy_term)
    scale = xp.maximum(size, NULL_SHARE * problems.null_size)
    noise = _noise_of_dual(problems, point, problems.v, problems.entropy)
    bound = xp.minimum(point.dual - noise, value)
    number = problems.number
    better = value - bound < answers.value[number] - answers.lower_bound[number]
    # a scale of 0 leaves nothing to compare with but rounding
    converged = better & (value - bound <= xp.where(scale > 0.0, tol * scale, noise))
    at = number[better]
    answers.plan[at] = plan[better]
    answers.value[at] = value[better]
    answers.lower_bound[at] = bound[better]
    answers.scale[at] = scale[better]
    answers.u[at] = xp.where(a > 0.0, point.u, -xp.inf)[better]
    answers.v[at] = xp.where(b > 0.0, problems.v, -xp.inf)[better]
    numbers = host(number).astype(np.int64)
    answers.iterations[numbers] = iteration
    answers.status[numbers] = otherwise
    answers.status[numbers[host(converged) > 0.0]] = Status.CONVERGED
    return converged
