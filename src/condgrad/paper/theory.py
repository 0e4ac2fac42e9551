"""The rates of the paper's section 2 on problems with known constants: measured F(x_k) - F* under the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from condgrad.minimize import minimize
from condgrad.paper.chapters import Chapter
from condgrad.paper.machine import one_thread
from condgrad.paper.pieces import Curve, Piece, Scale
from condgrad.paper.theory_chapter import theory_chapter
from condgrad.paper.theory_problems import COLUMNS, KINDS
from condgrad.paper.transport_runs import traced

TOLERANCE, NEWTON_TOLERANCE = 1e-14, 1e-13
SOLVER = {"exact": "cgs-exact", "armijo": "cgs-armijo", "open-loop": "cgs-open-loop", "short": "cgs-short"}


@dataclass(frozen=True)
class Extent:
    """How large the problems are, and how many steps and seconds a run may take."""

    sizes: Mapping[str, int]
    iterations: int
    cap: float


FULL = Extent(
    MappingProxyType({"least squares": COLUMNS, "logistic": COLUMNS, "transport": 20, "corner": 5000}), 500, 2.0
)
QUICK = replace(FULL, iterations=200, cap=0.5)


@dataclass(frozen=True)
class Task:
    """A run: a step rule of CGS, or Newton for the reference."""

    problem: str
    size: int
    seed: int
    step: str
    iterations: int
    cap: float

    @property
    def tol(self) -> float:
        return NEWTON_TOLERANCE if self.step == "newton" else TOLERANCE

    @property
    def solver(self) -> str:
        return "newton" if self.step == "newton" else SOLVER[self.step]


@dataclass(frozen=True)
class TheoryExperiment:
    """A piece for each problem, draw and step rule."""

    full: Extent = FULL
    quick: Extent = QUICK
    name = "theory"

    def pieces(self, scale: Scale) -> list[Piece]:
        extent = self.quick if scale.quick else self.full
        return [
            _piece(Task(name, size, seed, step, extent.iterations, extent.cap))
            for name, size in extent.sizes.items()
            for seed in range(scale.seeds if KINDS[name].random else 1)
            for step in KINDS[name].steps
        ]

    def chapter(self, curves: Sequence[Curve]) -> Chapter:
        return theory_chapter(curves)


def _piece(task: Task) -> Piece:
    word = task.problem.replace(" ", "-")
    return Piece(
        name=f"theory-{word}-{task.step}-{task.seed}",
        label=f"theory, {task.problem}, seed {task.seed}: {task.step}",
        settings={**task.__dict__, "solver": task.solver, "tol": task.tol},
        seconds=0.1 if KINDS[task.problem].random else task.cap,
        work=partial(run, task),
    )


def run(task: Task) -> Curve:
    """CGS with a step rule from a bad start, or Newton, whose answer is the reference."""
    problem = KINDS[task.problem].make(task.size, task.seed)
    newton = task.step == "newton"
    with one_thread():
        result = minimize(
            problem.f,
            problem.g,
            problem.x0,
            method="newton" if newton else "cgs",
            step="exact" if newton else task.step,
            tol=task.tol,
            max_iter=task.iterations,
            time_limit=task.cap,
        )
    facts = {
        "n": task.size,
        "step": task.step,
        "curvature": problem.curvature,
        "contraction": problem.contraction,
        "smoothness": problem.smoothness,
        "strong_convexity": problem.strong_convexity,
        "optimum": problem.optimum,
    }
    return Curve(task.problem, task.solver, task.seed, traced(result.trace), result.status.name, facts=facts)


THEORY = TheoryExperiment()
