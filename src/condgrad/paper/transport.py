"""Figure 1 of the paper: regularised optimal transport (section 3.1), CGS against CG, POT and ours beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from condgrad.paper.chapters import Chapter
from condgrad.paper.pieces import Curve, Piece, Scale
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.transport_chapter import transport_chapter
from condgrad.paper.transport_problem import ENTROPY, NEIGHBORS, WEIGHT
from condgrad.paper.transport_runs import ENGINES, OURS, RUNS, Run, on_one_thread, run_gaps

SEED = 0


@dataclass(frozen=True)
class Caps:
    """Seconds that a solver may take.

    CGS never has more than CG, so that whoever reaches a better value had no more time for it. Newton gives the
    reference F*, and ends long before its cap.
    """

    cgs: float
    cg: float
    pot: float
    newton: float

    def of(self, solver: str) -> float:
        named = {"newton": self.newton, "pot-gcg": self.pot}
        return named.get(solver, self.cgs if solver in OURS else self.cg)


@dataclass(frozen=True)
class Plan:
    """Sizes of the problem, each with its caps."""

    sizes: tuple[int, ...]
    caps: tuple[Caps, ...]


FULL = Plan((100, 500), (Caps(6.0, 7.0, 5.0, newton=6.0), Caps(10.0, 12.0, 6.0, newton=20.0)))
QUICK = Plan((100, 200), (Caps(0.8, 0.8, 0.8, newton=3.0), Caps(0.8, 0.8, 0.8, newton=3.0)))


@dataclass(frozen=True)
class TransportExperiment:
    """A piece for each size and solver, and one for the two gaps at the first size."""

    full: Plan = FULL
    quick: Plan = QUICK
    name = "figure-1"

    def pieces(self, scale: Scale) -> list[Piece]:
        plan = self.quick if scale.quick else self.full
        pairs = list(zip(plan.sizes, plan.caps, strict=True))
        work = [_piece(Run(solver, n, SEED, caps.of(solver))) for n, caps in pairs for solver in RUNS]
        n, caps = pairs[0]
        return [*work, _gaps_piece(Run("cgs-exact", n, SEED, caps.cgs))]

    def chapter(self, curves: Sequence[Curve]) -> Chapter:
        return transport_chapter(curves)


def _settings(run: Run) -> dict[str, object]:
    problem = {"entropy": ENTROPY, "weight": WEIGHT, "neighbors": NEIGHBORS}
    return {"problem": f"n = {run.n}", "solver": run.solver, "n": run.n, "seed": run.seed, "cap": run.cap, **problem}


def _piece(run: Run) -> Piece:
    start_up = 2.0 if run.solver in ENGINES else 0.0
    expected = 0.1 * run.cap if run.solver == "newton" else run.cap + start_up
    return Piece(
        name=f"figure-1-n{run.n}-{run.solver}",
        label=f"transport, n = {run.n}: {SOLVERS[run.solver].label}",
        settings=_settings(run),
        seconds=expected,
        work=partial(on_one_thread, run),
    )


def _gaps_piece(run: Run) -> Piece:
    return Piece(
        name=f"figure-1-n{run.n}-gaps",
        label=f"transport, n = {run.n}: the two gaps",
        settings={**_settings(run), "gaps": True},
        seconds=run.cap + 1.0,
        work=partial(run_gaps, run),
    )


TRANSPORT = TransportExperiment()
