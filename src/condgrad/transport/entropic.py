"""Entropy alone between points at hand, for losses that are asked for again and again: Sinkhorn's
algorithm, from the last potentials where there are some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from condgrad import deadline, sets, simple, smooth
from condgrad.arrays import Array, Space, double, is_torch, like, namespace, on_device
from condgrad.certificate import Iterate, Terms, linearised
from condgrad.loop import run
from condgrad.methods.certified_point import Tally
from condgrad.result import Result
from condgrad.sets.sinkhorn import Potentials, normalised_rows
from condgrad.stopping import RelativeGap
from condgrad.transport.costs import PointCost
from condgrad.transport.solve import TransportResult
from condgrad.transport.starts import SELF_ACCURACY, averaged

SINKHORN_ROUNDS = 6
"""Sinkhorn's algorithm is asked for more accuracy this many times. Then another method is tried."""
FIRST_SHARE, NEXT_SHARE = 0.5, 0.1
"""The first round aims at the first share of the requested gap. Each later round multiplies its aim
by the second number.
"""
SELF_SHARE = 1e-2
"""These iterations end at an error of this share of the tolerance, because the gap is of the order
of the error of the marginals.
"""


@dataclass(frozen=True)
class Sinkhorn:
    """The oracle of an entropy and a linear f is the whole problem: each iterate is its answer."""

    f: Any
    g: Any
    accuracy: float
    """The gap that the first answer aims at."""
    warm: Potentials | None = None
    name: str = "sinkhorn"
    last: list[Potentials] = field(default_factory=list, compare=False, repr=False)
    """The potentials of the last answer."""

    def iterates(self, x: Array) -> Iterator[Iterate]:
        f = self.f
        g = self.g
        here = f.at(x)
        g_here = g.value(x)
        tally = Tally()
        warm = self.warm
        accuracy = self.accuracy
        for _ in range(SINKHORN_ROUNDS):
            plane = linearised(
                f,
                g,
                here,
                f.C,
                x=x,
                g_size=g.magnitude(x, g_here),
                value=here.value + g_here,
                warm=warm,
                accuracy=accuracy,
            )
            x = plane.point
            here = plane.there
            g_here = plane.g_there
            warm = plane.answer.warm
            self.last[:] = [warm]
            tally.add(plane.answer, evaluations=1)
            terms = Terms(here.value, g_here, afresh=True)
            yield Iterate(x, terms, plane.bound, f.C, 1.0, tally.effort, plane.noise)
            if deadline.passed() or accuracy < plane.noise:
                return
            accuracy *= NEXT_SHARE


def solve_by_sinkhorn(
    cost: Any,
    a: Array,
    b: Array,
    entropy: float,
    *,
    tol: float,
    time_limit: float | None,
    start: Potentials | None,
    from_itself: bool = False,
) -> TransportResult:
    """min <C, G> + entropy sum G log G over plans from a to b, only by Sinkhorn's algorithm.

    `start` are potentials of a problem nearby. `from_itself` says that sources and targets are the
    same. Then one potential is enough for both, and averaged iterations find it.
    """
    C = cost.dense() if isinstance(cost, PointCost) else double(cost)
    P = sets.Transport(a, b)
    problem = smooth.Linear(C), simple.Entropy(entropy, on=P)
    if is_torch(C) and not on_device(C):
        # Sinkhorn's vectors are short, and an operation on a short tensor takes three times as long
        found, last = _run(
            C.numpy(),
            sets.Transport(P.a.numpy(), P.b.numpy()),
            entropy,
            tol,
            time_limit,
            None if start is None else Potentials(*(each.numpy() for each in start)),
            from_itself,
        )
        x = like(found.x, C)
        found = replace(found, x=x, certificate=replace(found.certificate, x=x))
        last = Potentials(*(like(each, C) for each in last))
    else:
        found, last = _run(C, P, entropy, tol, time_limit, start, from_itself)
    points = cost.arrays if isinstance(cost, PointCost) else None
    answer = TransportResult(problem, found, 0, points)
    # what Sinkhorn ended with is what the property would compute
    answer.__dict__["potentials"] = last
    return answer


def _run(
    C: Array,
    P: sets.Transport,
    entropy: float,
    tol: float,
    time_limit: float | None,
    start: Potentials | None,
    from_itself: bool,
) -> tuple[Result, Potentials]:
    """The result, and the potentials that it ended with."""
    f = smooth.Linear(C)
    g = simple.Entropy(entropy, on=P)
    null = P.start(Space.of(C))
    size = Terms(f.at(null).value, g.value(null)).size
    with deadline.within(time_limit):
        if from_itself:
            start = _self_potentials(C, P.a, entropy, start, max(SELF_SHARE * tol, SELF_ACCURACY))
        method = Sinkhorn(f, g, FIRST_SHARE * tol * size, start)
        result = run(method, null, stop=RelativeGap(tol), max_iter=SINKHORN_ROUNDS, null_size=size)
    return result, method.last[-1]


def _self_potentials(
    C: Array, a: Array, entropy: float, start: Potentials | None, accuracy: float
) -> Potentials | None:
    """The potential of a measure to itself, as `starts.self_start` finds it, by products with a
    kernel.

    x -> x + (log a - log(K e^x) - x)/2 for log-scalings x of a kernel K = exp((u_i + u_j - C)/e).
    """
    xp = namespace(C)
    if not bool(xp.all(a > 0.0)):
        return start
    log_a = xp.log(a)
    u = xp.zeros_like(a) if start is None else 0.5 * (start.u + start.v)
    for _ in range(2):  # these bring the largest entries of each row to 1 or so
        log_sums = normalised_rows((u[None, :] - C) / entropy, a)[1]
        u = 0.5 * (u + entropy * (log_a - log_sums))
    kernel = xp.exp((u[:, None] + u[None, :] - C) / entropy)
    x = averaged(lambda x: log_a - xp.log(kernel @ xp.exp(x)) - x, xp.zeros_like(a), accuracy)
    if x is None:
        return start
    u = u + entropy * x
    return Potentials(u, u)
