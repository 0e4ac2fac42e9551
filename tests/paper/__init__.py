"""A made-up report with all that a real one may hold: bands, gaps, levels, missing pieces, long and hostile text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from condgrad.paper.chapters import Chapter, Claim, Figure, Line, Panel, Table, Verdict

HOSTILE = "Skipped because 1 < 2 & 3 > 2 <script>window.hacked = true</script> </script>"
RATES = {
    "cgs-exact": 0.030,
    "cgs-armijo": 0.027,
    "cgs-open-loop": 0.012,
    "cgs-memory": 0.060,
    "newton": 0.600,
    "cg-emd": 0.009,
    "cg-highs": 0.009,
    "cg-cvxopt": 0.009,
    "pot-gcg": 0.020,
}
SECONDS = {"newton": 0.02, "cg-emd": 0.01, "cg-highs": 0.08, "cg-cvxopt": 0.6}
FACTS = {"condgrad": "0.1.0", "numpy": "2.3.1", "seeds": "0, 1, 2", "command": "condgrad paper --quick --seeds 3"}
MACHINE = {"processor": "a made-up processor <x>", "cores": "2", "system": "Linux"}


def _line(solver: str, *, size: int, against: str) -> Line:
    steps = np.arange(size)
    fall = 4.0 * np.exp(-RATES[solver] * steps) / (1.0 + 0.05 * steps)
    error = np.where(fall > 1e-13, fall, np.nan)
    return Line(
        solver,
        (steps + 1 if against == "iteration" else (steps + 1) * SECONDS.get(solver, 0.004)).tolist(),
        error.tolist(),
    )


def _transport() -> Figure:
    def panel(problem: str, against: str, solvers: Sequence[str]) -> Panel:
        lines = [_line(solver, size=400, against=against) for solver in solvers]
        label = "iteration" if against == "iteration" else "time (seconds)"
        return Panel(f"{problem}, against {against}", label, "F(x) - F*", lines, log_x=against == "time", level=1e-8)

    few = [solver for solver in RATES if solver != "cg-cvxopt"]
    rows = [
        [panel("n = 100", "iteration", list(RATES)), panel("n = 100", "time", list(RATES))],
        [panel("n = 500", "iteration", few), panel("n = 500", "time", few)],
    ]
    return Figure(
        "figure-1",
        "Transport with a Laplacian",
        "Distance to the certified optimum F*. Lower is better; a line that ends early reached it.",
        "Four panels of falling curves. Newton falls to 1e-13 within 50 iterations, CGS with memory within 400; "
        "the conditional gradient is still at 0.05 after 400 iterations, whichever engine solves its linear programs.",
        rows,
    )


def _toy() -> Figure:
    regimes = ("few features", "as many features as samples", "many more features than samples")
    random = np.random.default_rng(0)

    def line(solver: str, rate: float) -> Line:
        dip = 1e-4 if solver == "spg" else 0.0
        x = np.linspace(0.01, 3.0, 120)
        y = np.exp(-rate * x * 3.0) * (1.0 + 0.1 * random.standard_normal(len(x)))
        y[40:44] = math.nan
        return Line(solver, x.tolist(), y.tolist(), low=(0.6 * y - dip).tolist(), high=(1.5 * y).tolist())

    rates = {"cgs-armijo": 1.2, "cgs-open-loop": 0.5, "cg": 0.3, "spg": 1.3, "pqn": 1.0, "newton": 3.4}
    panels = [
        Panel(regime, "time (seconds)", "optimality condition", [line(s, r) for s, r in rates.items()], level=1e-5)
        for regime in regimes
    ]
    return Figure(
        "figure-2",
        "Toy problems",
        "Mean over three draws; the band is their spread.",
        "Three panels of curves.",
        [panels],
    )


def _theory() -> Figure:
    steps = np.arange(1, 300)
    error: Callable[[float], list[float]] = lambda power: (2.0 * steps**-power).tolist()  # noqa: E731
    lines = [
        Line("bound", steps.tolist(), (12.0 / (steps + 2)).tolist()),
        Line("true-error", steps.tolist(), error(1.6)),
        Line("gap", steps.tolist(), error(1.3)),
        Line("classical-gap", steps.tolist(), error(0.9)),
        Line("cgs-exact", [], [], label="nothing was measured here"),
        Line(
            "cgs-memory",
            [1.0, 10.0, 100.0],
            [1.0, None, math.inf],  # type: ignore[list-item]
            label="a very long label that says which solver it was, with which memory, and on what & where <b>",
        ),
    ]
    return Figure(
        "theory",
        "The gaps",
        "Both axes are logarithmic.",
        "Bounds above errors.",
        [[Panel("Two gaps and the truth", "iteration", "value", lines, log_x=True)]],
    )


def sample_chapters() -> list[Chapter]:
    missing = Figure(
        "figure-3",
        "Microarrays",
        "Colon and lymphoma.",
        "Nothing was measured.",
        [
            [
                Panel("colon", "iteration", "optimality condition", []),
                Panel("lymphoma", "iteration", "optimality condition", []),
            ]
        ],
    )
    return [
        Chapter(
            "transport",
            "Figure 1: transport",
            "With n = 100 Newton certifies a gap of 10⁻¹² in 0.4 s; CGS needs 217 iterations for 10⁻⁴ of the start, "
            "the conditional gradient more than 10,000.",
            figures=[_transport()],
            tables=[
                Table(
                    "Seconds to a relative gap of 1e-4",
                    ["solver", "n = 100", "n = 500", "iterations", "final gap", "status", "linear program (ms)"],
                    [
                        ["CGS, exact step", "0.41", "12.5", "217", "9.9e-05", "CONVERGED", ""],
                        ["CG, network simplex", "> 30", "> 30", "4,812", "3.1e-02", "TIME_LIMIT", "2.1"],
                        ["CG, CVXOPT", "> 30", "skipped", "31", "7.7e-01", "TIME_LIMIT", "934"],
                    ],
                    note="A time limit of 30 s each.",
                )
            ],
            claims=[
                Claim(
                    "CGS converges faster than CG.",
                    "217 against more than 4,812 iterations",
                    Verdict.HOLDS,
                    "The entropy is kept whole.",
                ),
                Claim(
                    "Convergence is linear.",
                    "error times (k+2) is constant",
                    Verdict.FAILS,
                    "2 C_f/(k+2) is O(1/k), & not linear.",
                ),
            ],
            notes=[HOSTILE, "MOSEK has no licence here.", f"See https://example.org/{'longaddress' * 6}."],
            settings={"entropy": "1.7e-2", "weight": "1e3", "neighbours": "10"},
        ),
        Chapter(
            "toy",
            "Figure 2: toy problems",
            "Newton leads in all three regimes; SPG and CGS are within 10 % of each other.",
            figures=[_toy()],
            claims=[
                Claim(
                    "CGS is on a par with SPG.",
                    "ratio of times 1.1, 0.9, 4.2",
                    Verdict.IN_PART,
                    "It depends on the ridge.",
                ),
                Claim("PQN is slowest.", "", Verdict.UNTESTED, "No run of PQN ended."),
            ],
        ),
        Chapter("microarrays", "Figure 3: microarrays", "Not measured yet.", figures=[missing]),
        Chapter(
            "theory", "Theory", "The measured error stays under its bound at all 299 iterations.", figures=[_theory()]
        ),
    ]
