"""Which method runs: the one that is named, or for "auto" those that fit f and g, one after the other."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from condgrad import ball
from condgrad.arrays import Array
from condgrad.errors import MissingAbility
from condgrad.loop import Method
from condgrad.methods import CG, CGS, PQN, SPG, ActiveSetCG
from condgrad.methods.cgs_on_moments import CGSOnMoments, WholeStepCGS
from condgrad.methods.in_turn import Engine, HeadStart, InTurn, UntilCompiled, UntilNear
from condgrad.methods.interior import InteriorNewton
from condgrad.newton.ascent import Newton
from condgrad.newton.engines import dual_model
from condgrad.problem import Simple, Smooth
from condgrad.search.steps import Armijo, Exact, StepRule
from condgrad.simple import Zero
from condgrad.stopping import StopRule
from condgrad.structure import (
    LossOnPolytope,
    LossOnSet,
    NoStructure,
    Structure,
    TransportStructure,
    structure,
)

NEAR = 1e-3
"""If f is not convex, "auto" changes from plain to pairwise conditional gradients once the gap is
at most this share of the size of F. Pairwise steps that begin earlier end in worse points. Plain
steps that go on longer are slow to leave the vertices that they started from.
"""
AUTO_MEMORY = 5
"""How many past oracle points CGS uses if the user gives no number."""
VERTEX_MEMORY = 50
"""The same if oracle points are vertices and a solution is a mixture of them. A portfolio of 500
assets took 53 oracle calls with 40 of them, and more than 1400 with 5.
"""
MOST_REMEMBERED = 1 << 22
"""The largest number of entries of all remembered vertices together. If vertices are larger, fewer
are remembered, but at least 5.
"""
EXACT_STEPS = Exact()
"""The step rule where nobody asks for another one."""


class WantedGap(NamedTuple):
    """The gap at which a run should end, if it is known."""

    share: float = 0.0
    """The run ends once its gap is at most this share of the scale of F."""
    null_size: float = 0.0
    """|F| at the null point. The scale of F is at least a hundredth of it. If it is 0, |F| at x0 is
    used.
    """
    absolutely: float = 0.0

    @classmethod
    def of(cls, stop: StopRule | None, tol: float, null_size: float) -> WantedGap:
        """The gap that a stop rule asks for, or `tol` without a stop rule."""
        if stop is None:
            return cls(tol, null_size)
        return cls(absolutely=stop.tolerance) if stop.name == "gap" else cls()


@dataclass(frozen=True)
class RunOptions:
    """What a method needs to know besides f and g."""

    step: StepRule = EXACT_STEPS
    memory: int = 0
    lazy: bool = False
    wanted_gap: WantedGap = WantedGap()
    problem: Structure | None = None
    """What f + g is, where that is known."""
    warm: ball.Warm | None = None
    """What the previous run on a path has left for this one."""
    first: int = 0
    """The number of the first iteration, if the run continues an earlier one."""
    past: tuple[Array, ...] = field(default=(), repr=False)
    """The oracle points that the earlier run remembered."""


class MethodFactory(Protocol):
    def __call__(self, f: Smooth, g: Simple, options: RunOptions) -> Method: ...


def _require_convex(f: Smooth, method: str) -> None:
    if not f.convex:
        raise MissingAbility(
            f"method={method!r} needs a convex f, and {f!r} says that it is not: take 'cgs', 'cg', 'away', 'pairwise', "
            "'spg' or 'auto'"
        )


def newton(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Newton chooses its own steps."""
    _require_convex(f, "newton")
    if options.memory or options.step != EXACT_STEPS:
        raise ValueError("method='newton' chooses its own steps: leave step='exact' and memory=0")
    try:
        return _engine(f, g, options)
    except MissingAbility as missing:
        raise MissingAbility(
            f"method='newton' does not solve f = {f!r} and g = {g!r}: {missing}. It solves losses with ElasticNetPenalty, "
            "with Ridge or Zero on L1Ball, GroupBall, Simplex, SolidSimplex or Box, and with Zero on Polytope; and linear "
            "costs with Entropy on Transport, alone or with TransportLaplacian or TransportGroupLasso, or on "
            "SharedMarginal. method='cgs' works for every pair"
        ) from None


def _engine(f: Smooth, g: Simple, options: RunOptions) -> Engine:
    """Newton's method for the structure of the problem; an error names what is missing.

    Which dual model a problem over plans has depends on its parts: `newton.engines` is that table.
    """
    wanted_gap = options.wanted_gap
    share = wanted_gap.share
    match options.problem or structure(f, g):
        case LossOnSet() as problem:
            null_size = wanted_gap.null_size
            return ball.FaceNewton.of(problem, warm=options.warm, wanted=share, null_size=null_size)
        case LossOnPolytope() as problem:
            return InteriorNewton.of(problem)
        case TransportStructure() as problem:
            model = dual_model(problem)
            if model is None:
                raise MissingAbility("no dual of this problem is implemented")
            return Newton(f, g, model, wanted=share, wanted_absolutely=wanted_gap.absolutely)
        case NoStructure(reason):
            raise MissingAbility(reason)


def auto(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Newton's method, if it fits and is likely fast. Else SPG, if g has a gradient and the set has
    a projection. Else CGS.

    If a method can make no further step, the next one continues from its best point.
    """
    if options.memory or options.step != EXACT_STEPS:
        return cgs(f, g, options)
    methods = _most_promising_first(f, g, options)
    return InTurn(next(methods), methods)


def _most_promising_first(f: Smooth, g: Simple, options: RunOptions) -> Iterator[Method]:
    """The methods of "auto", each made when it is asked for."""
    step = options.step
    if options.warm is not None and options.warm.is_predicted:
        yield ball.AtPrediction(f, g, options.warm)
    if not f.convex:
        with suppress(MissingAbility):
            yield SPG(f, g, window=1)
        if isinstance(g, Zero):
            yield UntilNear(cgs(f, g, options), NEAR)
            yield ActiveSetCG(f, g, step, pairwise=True)
        yield cgs(f, g, options)
        return
    engine: Engine | None = None
    with suppress(MissingAbility):
        engine = _engine(f, g, options)
    if engine is not None and engine.affordable:
        if not engine.is_ready:
            yield UntilCompiled(SPG(f, g))
        yield HeadStart(SPG(f, g), engine) if engine.head_start else engine
    with suppress(MissingAbility):
        yield SPG(f, g)
        if engine is not None and not engine.affordable:
            yield engine
    # a search over many vertices would ask f at every point
    if isinstance(g, Zero) and not f.mixes:
        yield ActiveSetCG(f, g, step, pairwise=True, lazy=True)
    yield cgs(f, g, replace(options, memory=_auto_memory(f, g)))


def _auto_memory(f: Smooth, g: Simple) -> int:
    """How many oracle points CGS remembers by itself; none on plans that are never formed."""
    if not g.on.forms_points:
        return 0
    space = f.space or g.on.space
    shape = space.shape if space is not None else g.on.shape
    if not isinstance(g, Zero) or shape is None:
        return AUTO_MEMORY
    return max(AUTO_MEMORY, min(VERTEX_MEMORY, MOST_REMEMBERED // max(1, math.prod(shape))))


def spg(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Non-monotone by default. Monotone with Armijo's rule, and if f is not convex."""
    step = options.step
    if options.memory or not (step == EXACT_STEPS or isinstance(step, Armijo)):
        raise ValueError(
            "method='spg' searches along projected gradients: step must be 'exact' (non-monotone), 'armijo' (monotone) "
            f"or a steps.Armijo, and memory 0, got {step!r} and memory={options.memory}"
        )
    if isinstance(step, Armijo):
        return SPG(f, g, window=1, armijo=step)
    return SPG(f, g) if f.convex else SPG(f, g, window=1)


def pqn(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Always monotone. If Armijo's rule is given, its parameters are used."""
    _require_convex(f, "pqn")
    step = options.step
    if options.memory or not (step == EXACT_STEPS or isinstance(step, Armijo)):
        raise ValueError(
            "method='pqn' tries the whole step and backtracks: step must be 'exact', 'armijo' or a steps.Armijo, "
            f"and memory 0, got {step!r} and memory={options.memory}"
        )
    return PQN(f, g, armijo=step) if isinstance(step, Armijo) else PQN(f, g)


def away(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Steps to the oracle's vertex or away from the worst known one."""
    return _active_set(f, g, options, pairwise=False)


def pairwise(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """Steps that move weight from the worst known vertex to the oracle's."""
    return _active_set(f, g, options, pairwise=True)


def _active_set(f: Smooth, g: Simple, options: RunOptions, *, pairwise: bool) -> Method:
    method = ActiveSetCG(f, g, options.step, pairwise, options.lazy)
    if options.memory:
        raise ValueError(
            f"method={method.name!r} remembers its vertices anyway: leave memory=0, got {options.memory}"
        )
    return method


def cg(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """The conditional gradient, which linearises g too."""
    return _going_on(CG(f, g, options.step, options.memory), options)


def cgs(f: Smooth, g: Simple, options: RunOptions) -> Method:
    """The paper's Algorithm 1; on plans that are never formed, on their moments."""
    step = options.step
    memory = options.memory
    if g.on.forms_points:
        return _going_on(CGS(f, g, step, memory), options)
    return CGSOnMoments(f, g, step, memory) if f.convex else WholeStepCGS(f, g, step, memory)


def _going_on(method: CGS, options: RunOptions) -> CGS:
    """Where an earlier run ended, with the points that it remembered."""
    return replace(method, first=options.first, past=deque(options.past))


METHODS: dict[str, MethodFactory] = {
    "cgs": cgs,
    "cg": cg,
    "away": away,
    "pairwise": pairwise,
    "spg": spg,
    "pqn": pqn,
    "newton": newton,
    "auto": auto,
}
LAZY = ("away", "pairwise")
"""The methods that have a lazy version, which calls the oracle less often."""
