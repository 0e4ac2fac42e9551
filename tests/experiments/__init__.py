"""Made-up experiments and chapters, which take no time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from experiments.paper.chapter import Chapter, JudgedClaim, Source, TextTable, Verdict
from experiments.paper.figures import Figure, Line, Panel, band_around
from experiments.paper.progress import RunProgress
from experiments.paper.run import run_paper
from experiments.paper.tasks import Curve, Scale, Task

HOSTILE = "Skipped because 1 < 2 & 3 > 2 <script>window.hacked = true</script> </script>"


def nothing() -> None:
    """The work of a task that has none."""


@dataclass
class FakeExperiment:
    """A task for each solver; `done` has the names of those whose work was called."""

    name: str = "figure-1"
    solvers: Sequence[str] = ("cgs-exact", "cg", "newton")
    works: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    status: str = "CONVERGED"
    facts: Mapping[str, Any] = field(default_factory=lambda: {"ridge": 0.1})
    drawn: bool = False
    done: list[str] = field(default_factory=list)

    def tasks(self, scale: Scale) -> list[Task]:
        return [self._task(solver, seed) for seed in range(scale.seeds) for solver in self.solvers]

    def _task(self, solver: str, seed: int) -> Task:
        columns = {
            "iteration": [0, 1, 2],
            "seconds": [0.0, 0.1, 0.2],
            "value": [3.0, math.nan, 1.5],
        }

        def work() -> Curve:
            self.done.append(task.name)
            self.works.get(solver, nothing)()
            return Curve("small", solver, seed, columns, self.status, facts=self.facts)

        task = Task(self.name, "small", solver, seed, {"sizes": (1, 2), **self.settings}, 1.0, work)
        return task

    def chapter(self, curves: Sequence[Curve], *, quick: bool = False) -> Chapter:
        panel = Panel(
            "small",
            "iteration",
            "F",
            [Line(each.solver, each["iteration"], each["value"]) for each in curves],
        )
        figure = Figure(self.name, "Objective", "Lower is better.", "lines that fall", [[panel]])
        claims = [
            JudgedClaim(
                "CGS is fast", "0.2 s", Verdict.TOO_SHORT if quick else Verdict.HOLDS, "it is"
            )
        ]
        return Chapter(
            self.name,
            "Small",
            f"{len(curves)} curves.",
            [figure] if self.drawn else [],
            claims=claims,
        )


def sample_chapters() -> list[Chapter]:
    """All that a page may hold: bands, gaps, levels, an empty panel, every verdict, hostile text."""
    k = np.arange(1.0, 200.0)
    falling = np.where((k > 60) & (k < 70), np.nan, 4.0 * np.exp(-0.05 * k))
    lines = [
        Line("cgs-exact", k, falling, band=band_around(k, 0.5 * falling - 1e-4, 2.0 * falling)),
        Line("newton", [1.0, 2.0, 3.0], [1.0, 1e-6, 0.0]),
        Line("bound", k, 12.0 / (k + 2.0), label="a bound <b> & more"),
    ]
    panels = [
        Panel("against iterations", "iteration", "F - F*", lines, log_x=True, level=1e-5),
        Panel("against time", "seconds", "F - F*", lines[:2], log_y=False, level=0.5),
    ]
    table = TextTable(
        "Times",
        ["solver", "time"],
        [["CGS", "1 s"], ["CG, with a name that is long enough to wrap", "-"]],
    )
    claims = [
        JudgedClaim(
            rf"A claim that {verdict.value}, \(x_k \le 1\).", "measured", verdict, "why", "figure-1"
        )
        for verdict in Verdict
    ]
    claims += [
        JudgedClaim(f"A claim {source.value}.", "", Verdict.HOLDS, "why", "", source)
        for source in Source
    ][1:]
    first = Figure("figure-1", "Transport", "Lower is better.", "Two panels.", [panels])
    empty = Figure(
        "figure-2", "Nothing", "None.", "Nothing was measured.", [[Panel("none", "x", "y", [])]]
    )
    again = Figure(
        "figure-3", "Again", "Again.", "One panel.", [[Panel("again", "x", "y", lines[:2])]]
    )
    return [
        Chapter(
            "figure-1",
            "Figure 1",
            "A summary.",
            [first],
            [table],
            claims,
            [HOSTILE],
            {"entropy": "1.7e-2"},
        ),
        Chapter("figure-2", "Figure 2", "Another.", [empty, again]),
    ]


def slow_run(out: Path, log: Path) -> None:
    """A run of five tasks of 0.3 seconds, each noted in `log` as it begins."""
    solvers = ["cgs-exact", "cgs-armijo", "cg", "newton", "spg"]

    def noted(solver: str) -> Callable[[], None]:
        def work() -> None:
            with log.open("a") as file:
                file.write(f"{solver}\n")
            time.sleep(0.3)

        return work

    fake = FakeExperiment(solvers=solvers, works={solver: noted(solver) for solver in solvers})
    run_paper([fake], Scale(seeds=1), out, progress=RunProgress(Console(stderr=True)))
