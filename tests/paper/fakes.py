"""Experiments that take no time; run as a module, one that takes some, to be killed on the way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from condgrad.paper.chapters import Chapter, Claim, Figure, Line, Panel, Table, Verdict
from condgrad.paper.display import PlainDisplay
from condgrad.paper.pieces import Curve, Piece, Scale
from condgrad.paper.run import run_paper

Work = Callable[[], None]


def nothing() -> None:
    """The work of a piece that has none."""


def no_constants(name: str) -> None:
    """For `json.loads`: NaN and Infinity are no JSON, though Python reads them."""
    raise AssertionError(f"{name} is no JSON")


def curve(solver: str, *, status: str = "CONVERGED", seed: int = 0) -> Curve:
    columns = {
        "iteration": [0, 1, 2],
        "seconds": [0.0, 0.1, 0.2],
        "value": [3.0, 2.0, 1.5],
        "lower_bound": [-1, 1, 1.4],
    }
    return Curve("small", solver, seed, columns, status)


@dataclass
class Fake:
    """An experiment with a piece for each solver; `done` has the names of those whose work was called."""

    name: str = "figure-1"
    solvers: Sequence[str] = ("cgs-exact", "cg", "newton")
    works: Mapping[str, Work] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Sequence[Claim] = (Claim("CGS is fast", "0.2 s", Verdict.HOLDS, "it is"),)
    done: list[str] = field(default_factory=list)
    status: str = "CONVERGED"
    facts: Mapping[str, Any] = field(default_factory=lambda: {"ridge": 0.1})
    drawn: bool = False
    """Whether there is a figure, which takes a second."""

    def pieces(self, scale: Scale) -> list[Piece]:
        return [self._piece(solver, seed) for seed in range(scale.seeds) for solver in self.solvers]

    def _piece(self, solver: str, seed: int) -> Piece:
        def work() -> Curve:
            self.done.append(name)
            self.works.get(solver, nothing)()
            return replace(curve(solver, status=self.status, seed=seed), facts=self.facts)

        name = f"{self.name}-{solver}-{seed}"
        settings = {"problem": "small", "solver": solver, "seed": seed, "sizes": (1, 2), **self.settings}
        return Piece(name, f"{solver} on draw {seed}", settings, 1.0, work)

    def chapter(self, curves: Sequence[Curve]) -> Chapter:
        lines = [Line(each.solver, each.columns["iteration"], each.columns["value"]) for each in curves]
        panel = Panel("small", "iteration", "F", lines)
        figure = Figure(self.name, "Objective", "Lower is better.", f"{len(lines)} lines that fall", [[panel]])
        table = Table("Ends", ["solver", "F"], [[each.solver, f"{each.columns['value'][-1]}"] for each in curves])
        summary = f"{len(curves)} curves."
        figures = [figure] if self.drawn else []
        return Chapter(self.name, "Small", summary, figures, [table], self.claims, ["A note."], {"size": "small"})


def slow_run(out: Path, log: Path) -> None:
    """A run of five pieces of 0.3 seconds, each noted in `log` as it begins."""
    solvers = ["cgs-exact", "cgs-armijo", "cg", "newton", "spg"]

    def work(solver: str) -> Work:
        def noted() -> None:
            with log.open("a") as file:
                file.write(f"{solver}\n")
            time.sleep(0.3)

        return noted

    fake = Fake(solvers=solvers, works={solver: work(solver) for solver in solvers})
    run_paper([fake], Scale(seeds=1), out, progress=PlainDisplay(Console(stderr=True)))


if __name__ == "__main__":
    slow_run(Path(sys.argv[1]), Path(sys.argv[2]))
