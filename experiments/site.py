"""What the README and the site say in numbers and pictures: measured, kept in docs/numbers.json, drawn, written.

`python -m experiments site` measures all of it, `--only NAME` some of it, `--draw` nothing: it draws and writes again
from the numbers that are kept. In the pages a part between `<!-- measured: NAME -->` and `<!-- end -->` is written by
this command alone; a test compares these parts with the numbers.

What needs a GPU (`--only gpu`), or packages and data beside (`--only benchopt`), is left out unless it is named.

Each measurement is a small version of a benchmark (`python -m experiments bench`) on one thread, so that all of them
take some minutes; the benchmarks themselves have more sizes, more rivals and more columns.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from experiments.paper.chapter import Source, Verdict
from experiments.paper.figures import MUTED, STYLE_SHEET, Figure, Line, Panel, canvas_of
from experiments.paper.tasks import first_at, thinned, write_whole

ROOT = Path(__file__).parents[1]
NUMBERS, PICTURES = ROOT / "docs" / "numbers.json", ROOT / "docs" / "measured"
PAGES = (
    "README.md",
    *(f"docs/{page}.md" for page in ("start", "choosing", "scale", "benchmarks", "paper")),
)
PART = re.compile(
    r"(?<=<!-- measured: )(?P<name>[\w-]+) -->\n(?P<text>.*?)(?=<!-- end -->)", re.DOTALL
)
LEVEL = 1e-6
LOOSE, TIGHT = 1e-2, 1e-9
"""The gaps at the ends of the lines of benchopt's suites."""
SOLVERS = ("newton", "cgs-memory", "cgs-exact", "cg-emd", "pot-gcg")
BLUE, GREY, ORANGE, PINK = "#0072B2", "#87909a", "#D55E00", "#CC79A7"
FLOOR = 1e-13
"""Errors below this are rounding."""

Rows = list[dict[str, Any]]
Numbers = Mapping[str, Any]


# What is measured -----------------------------------------------------------------------------------------------------


def first() -> Rows:
    """What the first program of the README prints."""
    program = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )[0]
    for _ in range(2):  # the first run loads kernels
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, {})
    return [{"text": printed.getvalue()}]


def example() -> Rows:
    """What the picture of the first page shows: a transport, then the coefficients of a sparse model."""
    import condgrad as cg

    d = cg.datasets.make_clusters(60)
    t = cg.transport.solve(
        cg.transport.SquaredEuclidean(d.Xs, d.Xt),
        entropy=0.02,
        regularizers=[cg.transport.Laplacian(d.Xs, d.Xt, weight=30.0)],
    )
    toy = cg.datasets.make_sparse_classification(seed=0)
    model = cg.linear_model.ConstrainedLogisticRegression(radius=3.0, ridge=0.5, tol=1e-8)
    coefficients = model.fit(toy.X_train, toy.y_train).coef_.ravel()
    used = np.flatnonzero(coefficients)
    clouds = {"sources": d.Xs, "classes": d.ys, "targets": d.Xt, "moved": t.barycenters(d.Xt)}
    sparse = {
        "features": coefficients.size,
        "used": used,
        "coefficients": coefficients[used],
        "relevant": toy.relevant,
    }
    return [clouds | {"gap": t.relative_gap}, sparse | {"gap": model.relative_gap_}]


def transport() -> Rows:
    """Error against seconds on the paper's transport problem, a row for each size and solver."""
    from experiments.problems import TransportProblem
    from experiments.transport_solvers import run

    rows: Rows = []
    for n, cap in ((100, 10.0), (500, 20.0)):
        found = {
            solver: run(solver, partial(TransportProblem.of, n, 0), cap).columns
            for solver in SOLVERS
        }
        best = min(min(columns["best_value"]) for columns in found.values())
        for solver, columns in found.items():
            errors = np.maximum((np.asarray(columns["best_value"]) - best) / abs(best), FLOOR)
            seconds, kept = np.asarray(columns["seconds"]), thinned(len(errors), 60)
            curve = {"seconds": _rounded(seconds[kept]), "errors": _rounded(errors[kept])}
            rows.append(
                {
                    "n": n,
                    "solver": solver,
                    "cap": cap,
                    "to level": first_at(errors, LEVEL, of=seconds),
                    **curve,
                }
            )
    return rows


def auto() -> Rows:
    """The time of "auto" over that of the best method, for every problem of the benchmark."""
    from experiments.benchmarks.auto import COUNTS_FROM, measured, minimizations, transports
    from experiments.clock import quiet

    rows: Rows = []
    with quiet():
        for _, solve in (*minimizations(), *transports()):  # loads all kernels
            solve(method="auto", tol=0.1, time_limit=5.0)
        for name, solve in (*minimizations(), *transports()):
            row = measured(name, solve, 0.5, LEVEL)
            kept = {
                "ratio": row["ratio"],
                "best": row["best"],
                "method": row["method"],
                "took": row["took"],
            }
            counts = row["best"] >= COUNTS_FROM
            rows.append({"problem": name, **kept, "solved": row["solved"], "counts": counts})
    return rows


def steps() -> Rows:
    """Iterations of CGS with each step rule."""
    from experiments.benchmarks.steps import rows_of

    return list(rows_of(5, 2000))


def newton_grid() -> Rows:
    """Newton over entropies, Laplacians and clouds."""
    from experiments.benchmarks.newton_grid import rows_of

    return list(rows_of(100, 20.0))


def geometry() -> Rows:
    """Newton's passes on clouds of 1000 points and on real data."""
    from experiments.benchmarks.geometry import rows_of

    return list(rows_of(1000, (1,), ("dense", "streamed"), 60.0))


def elastic_net() -> Rows:
    """CPU seconds to the level against the number of features: ours, and skglm's fastest."""
    from experiments.benchmarks.elastic_net import load, ours, theirs
    from experiments.elastic_net_rivals import ProxNewton

    rows: Rows = []
    for shape in ("200x1000", "200x3000", "200x10000", "200x30000"):
        problem, features = load(shape), int(shape.partition("x")[2])
        own, other = ours(problem, "auto", LEVEL, 20.0), theirs(problem, ProxNewton, LEVEL, 20.0)
        rows.append({"features": features, "proved": own["proved"], "reached": other["reached"]})
        rows[-1]["searched"] = other["searched"]
    return rows


def benchopt() -> Rows:
    """CPU milliseconds and gaps of the problems of benchopt's suites, a row for each solver."""
    from experiments.benchmarks.benchopt import DATA, REGS, rows_of
    from experiments.clock import quiet

    with quiet():
        return list(rows_of(DATA, REGS))


def domain_adaptation() -> Rows:
    """Mean accuracy of each estimator with its defaults on four problems."""
    from experiments.benchmarks.domain_adaptation import PROBLEMS, table

    rows: Rows = []
    for problem in PROBLEMS:
        rows += [{"problem": problem, **row} for row in table(problem, 5, 200, scaled=False)]
    return rows


def memory() -> Rows:
    """Peak memory of solves beyond their data."""
    from experiments.benchmarks.memory import rows_of

    return list(
        rows_of((1000, 2000, 4000), (2500, 5000, 10_000), ("200x10000", "200x100000"), 2, 1e-4)
    )


def projection() -> Rows:
    """Microseconds of a projection onto the simplex that keeps tens of entries."""
    from experiments.benchmarks.projection import WAYS
    from experiments.clock import time_of_call

    rng, rows = np.random.default_rng(0), []
    for n in (1000, 10_000, 100_000, 1_000_000):
        v = abs(rng.standard_normal(n))
        rows.append(
            {
                "n": n,
                **{name: 1e6 * time_of_call(project, v, 10.0) for name, project in WAYS.items()},
            }
        )
    return rows


def paper() -> Rows:
    """The claims of the paper, each with its verdict, from a whole run of its experiments, or what is left of one."""
    command = [sys.executable, "-m", "experiments", "paper", "--json", "--out", str(ROOT / "out")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return claims_of(json.loads(done.stdout))


def claims_of(results: Mapping[str, Any]) -> Rows:
    """The claims that count: without ours and without repetitions."""
    claims = [claim for experiment in results["experiments"] for claim in experiment["claims"]]
    kept = ("verdict", "claim", "measured")
    return [
        {key: claim[key] for key in kept}
        for claim in claims
        if claim["source"] == Source.PAPER.value
    ]


def gpu() -> Rows:
    """Seconds and memory of streamed plans on a GPU, and of POT's Sinkhorn."""
    from experiments.benchmarks.transport_gpu import SIZES, all_rows

    return list(all_rows(SIZES, "cuda", 1e-8))


MEASURED: dict[str, Callable[[], Rows]] = {
    work.__name__: work
    for work in (
        first,
        example,
        transport,
        geometry,
        auto,
        steps,
        newton_grid,
        elastic_net,
        benchopt,
        domain_adaptation,
        memory,
        projection,
        paper,
        gpu,
    )
}
ONLY_NAMED = ("gpu", "benchopt")
"""Measured only where they are named: most machines have no GPU, and not all packages and data of the suites."""


def machine() -> dict[str, Any]:
    """Where the numbers come from."""
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "gpu": _name_of_gpu(),
    }


def _name_of_gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


def measure(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Measures what is named, one after the other, and keeps each as soon as it is there."""
    for name in names:
        begin = time.perf_counter()
        # a process of its own: what one measurement compiles, caches or keeps cannot speed up the next
        command = [sys.executable, "-m", "experiments.site", name]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        }
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        numbers = kept() | {
            name: {"machine": machine(), "rows": json.loads(done.stdout.splitlines()[-1])}
        }
        lines = (
            f"{json.dumps(key)}: {json.dumps(numbers[key])}" for key in MEASURED if key in numbers
        )
        write_whole(NUMBERS, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
        say(f"{name}: measured in {time.perf_counter() - begin:.0f} s")


def kept() -> dict[str, Any]:
    """The numbers that were measured before."""
    return json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}


def _rounded(value: Any) -> Any:
    """Three digits: more of a time is noise."""
    if isinstance(value, np.ndarray | list):
        return [_rounded(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.3g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


# How it looks ---------------------------------------------------------------------------------------------------------


def draw(numbers: Numbers) -> list[Path]:
    """A picture for each measurement that has one."""
    PICTURES.mkdir(exist_ok=True)
    made = []
    for name, canvas in drawings(numbers):
        held = io.BytesIO()
        canvas.savefig(held, format="svg", metadata={"Date": None})
        made.append(PICTURES / f"{name}.svg")
        write_whole(made[-1], held.getvalue())
    return made


def drawings(numbers: Numbers) -> Iterator[tuple[str, Canvas]]:
    """The pictures by name; each is to be saved before the next is drawn."""
    looks = {"svg.hashsalt": "condgrad", "svg.fonttype": "path"}
    with matplotlib.style.context(["default", STYLE_SHEET, looks]):
        for name, picture in DRAWN.items():
            if name in numbers:
                yield name, picture(numbers[name]["rows"])


def draw_example(rows: Rows) -> Canvas:
    """Where a transport takes each point, and which coefficients of a sparse model are not 0."""
    canvas = Canvas(figsize=(7.0, 2.9), facecolor="white", layout="constrained")
    left, right = canvas.subplots(1, 2)
    clouds, sparse = rows
    sources, targets, moved = (np.array(clouds[key]).T for key in ("sources", "targets", "moved"))
    colors = np.array([BLUE, ORANGE, "#009E73", PINK])[clouds["classes"]]
    for place, color in enumerate(colors):
        along = np.column_stack([sources[:, place], moved[:, place]])
        left.plot(*along, color=color, linewidth=0.7, alpha=0.5)
    for color in dict.fromkeys(colors):
        left.plot(*sources[:, colors == color], "o", color=color, markersize=3.5)
    left.plot(*targets, "x", color=MUTED, markersize=4.5)
    left.set(title="Transport: where each point goes", xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    used, values = np.array(sparse["used"]), np.array(sparse["coefficients"])
    matters = np.isin(used, sparse["relevant"])
    for chosen, color, label in (
        (matters, BLUE, "variable that matters"),
        (~matters, ORANGE, "another variable"),
    ):
        stems = [np.repeat(used[chosen][None], 2, axis=0), [0.0 * values[chosen], values[chosen]]]
        right.plot(*stems, color=color, linewidth=1.0)
        right.plot(used[chosen], values[chosen], "o", color=color, markersize=3.5, label=label)
    right.axhline(0.0, color=MUTED, linewidth=0.8)
    right.set(title=f"Sparse model: {used.size} of {sparse['features']} variables")
    right.set(xlabel="variable", ylabel="coefficient", xlim=(-20, sparse["features"] + 20))
    right.legend(frameon=False, loc="upper left")
    return canvas


def draw_transport(rows: Rows) -> Canvas:
    panels = []
    for n in sorted({row["n"] for row in rows}):
        own = [row for row in rows if row["n"] == n]
        lines = [
            Line(row["solver"], np.maximum(row["seconds"], 1e-3), row["errors"]) for row in own
        ]
        panels.append(
            Panel(
                f"{n} x {n} points",
                "seconds",
                r"\((F - F^*) / |F^*|\)",
                lines,
                log_x=True,
                level=LEVEL,
            )
        )
    return canvas_of(Figure("transport", "", "", "", [panels]))


def draw_elastic_net(rows: Rows) -> Canvas:
    features = [row["features"] for row in rows]
    lines = [
        Line("newton", features, [row["proved"] for row in rows], label="condgrad, proved"),
        Line(
            "pot-gcg",
            features,
            [row["reached"] for row in rows],
            label="skglm, penalty given",
        ),
        Line("cg", features, [row["searched"] for row in rows], label="skglm, penalty searched"),
    ]
    panel = Panel(
        "200 samples, to 1e-6 of the objective", "features", "CPU seconds", lines, log_x=True
    )
    return canvas_of(Figure("elastic_net", "", "", "", [[panel]]))


def draw_benchopt(rows: Rows) -> Canvas:
    """For each problem and solver a line from the time to a loose gap to that to a small one, and a dot between."""
    from experiments.benchmarks.benchopt import LEVEL, milliseconds_to

    canvas = Canvas(figsize=(7.0, 7.5), facecolor="white", layout="constrained")
    grid = canvas.add_gridspec(2, 2, height_ratios=[3, 5])
    places = {"lasso_path": grid[0, :], "lasso": grid[1, 0], "logreg_l1": grid[1, 1]}
    looks = {"condgrad": (BLUE, "o"), "scikit-learn": (ORANGE, "s"), "skglm": (PINK, "^")}
    looks["celer"] = ("#009E73", "D")
    looks["adelie"] = ("#E69F00", "v")
    looks["cyanure"] = ("#56B4E9", "P")
    for suite, cell in places.items():
        axes = canvas.add_subplot(cell)
        own = [row for row in rows if row["suite"] == suite]
        names = [f"{row['data']}, {row['reg']:g}" if row["reg"] else row["data"] for row in own]
        problems = list(dict.fromkeys(names))
        for row, name in zip(own, names, strict=True):
            color, marker = looks[row["solver"]]
            place = list(looks).index(row["solver"]) - 0.5 * (len(looks) - 1)
            height = problems.index(name) + 0.8 * place / len(looks)
            ends = [milliseconds_to(level, row) for level in (LOOSE, LEVEL, TIGHT)]
            axes.plot(ends, [height] * 3, color=color, linewidth=1.4)
            axes.plot(ends[1], height, marker, color=color, markersize=4.5)
        axes.set_yticks(range(len(problems)), problems)
        axes.set(title=suite, xscale="log", xlabel="CPU milliseconds")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(len(problems) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(True, axis="x")
        for between in range(1, len(problems)):
            axes.axhline(between - 0.5, color="#d8dde3", linewidth=0.8)
    handles = [
        Line2D([], [], color=color, marker=marker, markersize=4.5, label=solver)
        for solver, (color, marker) in looks.items()
    ]
    canvas.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return canvas


def draw_projection(rows: Rows) -> Canvas:
    sizes = [row["n"] for row in rows]
    styles = {"sorting": "pot-gcg", "NumPy": "cgs-exact", "compiled": "newton"}
    lines = [
        Line(style, sizes, [row[way] for row in rows], label=way) for way, style in styles.items()
    ]
    panel = Panel("Projection onto the simplex", "entries", "microseconds", lines, log_x=True)
    return canvas_of(Figure("projection", "", "", "", [[panel]]))


def draw_memory(rows: Rows) -> Canvas:
    styles = {"dense, entropy alone": "pot-gcg", "dense, Laplacian": "cg"}
    styles |= {"streamed, entropy alone": "cgs-exact", "streamed, Laplacian": "newton"}
    lines = []
    for kind, style in styles.items():
        own = [row for row in rows if row["kind"] == kind]
        lines.append(
            Line(style, [int(row["size"]) for row in own], [row["MiB"] for row in own], label=kind)
        )
    panel = Panel(
        "Memory of a solve, beyond the points", "points of each side", "MiB", lines, log_x=True
    )
    return canvas_of(Figure("memory", "", "", "", [[panel]]))


def draw_gpu(rows: Rows) -> Canvas:
    from experiments.benchmarks.transport_gpu import figure_of

    return canvas_of(figure_of(rows, ""))


def draw_auto(rows: Rows) -> Canvas:
    """Ratios in rising order; those of short problems pale."""
    canvas = Canvas(figsize=(7.0, 2.9), facecolor="white", layout="constrained")
    axes = canvas.subplots()
    ordered = sorted(rows, key=lambda row: row["ratio"])
    for counts, color, label in (
        (False, GREY, "best method: below 20 ms"),
        (True, BLUE, "best method: 20 ms or more"),
    ):
        places = [place for place, row in enumerate(ordered, 1) if row["counts"] is counts]
        axes.plot(
            places, [ordered[place - 1]["ratio"] for place in places], ".", color=color, label=label
        )
    axes.axhline(2.0, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set(
        yscale="log",
        xlabel="problems, sorted by this ratio",
        ylabel="time of auto / time of best method",
    )
    axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes.minorticks_off()
    axes.grid(True, axis="y")
    axes.legend(frameon=False, loc="upper left")
    return canvas


def draw_newton_grid(rows: Rows) -> Canvas:
    """Iterations against the entropy: a dash for each problem, a line for the medians."""
    canvas = Canvas(figsize=(7.0, 2.9), facecolor="white", layout="constrained")
    axes = canvas.subplots()
    kinds = list(dict.fromkeys(row["Laplacian"] for row in rows))
    entropies = sorted({row["entropy"] for row in rows})
    for kind, color in zip(kinds, (GREY, BLUE, ORANGE, PINK), strict=True):
        taken = [
            [r["iterations"] for r in rows if (r["Laplacian"], r["entropy"]) == (kind, e)]
            for e in entropies
        ]
        own = [row for row in rows if row["Laplacian"] == kind]
        axes.plot(
            [row["entropy"] for row in own],
            [row["iterations"] for row in own],
            "_",
            color=color,
            alpha=0.6,
            ms=9,
        )
        scaled, _, weight = kind.partition(" ")
        label = "no Laplacian"
        if kind != "none":
            label = f"{scaled} Laplacian, weight $10^{{{math.log10(float(weight)):.0f}}}$"
        axes.plot(
            entropies, [np.median(t) for t in taken], "o-", color=color, label=label, markersize=4
        )
    axes.set(
        xscale="log",
        xlabel="entropy, in units of the largest cost",
        ylabel="Newton iterations",
        ylim=(0, None),
    )
    axes.grid(True)
    canvas.legend(loc="outside lower center", ncols=2, frameon=False)
    return canvas


def draw_domain_adaptation(rows: Rows) -> Canvas:
    """A group of bars for each problem."""
    canvas = Canvas(figsize=(7.0, 3.2), facecolor="white", layout="constrained")
    axes = canvas.subplots()
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    colors = [GREY, "#56B4E9", BLUE, "#332288", "#f3c9a5", "#e8985e", ORANGE]
    for place, (name, color) in enumerate(zip(names, colors, strict=True)):
        own = [row for row in rows if row["estimator"] == name]
        at = np.arange(len(problems)) + (place - (len(names) - 1) / 2) * 0.12
        axes.bar(at, [row["mean"] or 0.0 for row in own], 0.11, color=color, label=name)
    axes.set_xticks(range(len(problems)), problems)
    axes.set(ylabel="accuracy on the targets", ylim=(0, 1))
    axes.grid(True, axis="y")
    canvas.legend(loc="outside lower center", ncols=3, frameon=False)
    return canvas


DRAWN: dict[str, Callable[[Rows], Canvas]] = {
    "example": draw_example,
    "transport": draw_transport,
    "auto": draw_auto,
    "newton_grid": draw_newton_grid,
    "elastic_net": draw_elastic_net,
    "benchopt": draw_benchopt,
    "domain_adaptation": draw_domain_adaptation,
    "memory": draw_memory,
    "projection": draw_projection,
    "gpu": draw_gpu,
}


# What is written ------------------------------------------------------------------------------------------------------


def parts(numbers: Numbers) -> dict[str, str]:
    """The parts of the pages that this command writes."""
    rows = {name: entry["rows"] for name, entry in numbers.items()}
    return {
        "first": f"```text\n{rows['first'][0]['text']}```\n",
        "speed": _speed(rows),
        "machine": _machine(numbers),
        "geometry": _geometry(rows["geometry"]),
        "auto": _auto(rows["auto"]),
        "benchopt": _benchopt(rows["benchopt"]),
        "steps": _steps(rows["steps"]),
        "grid": _grid(rows["newton_grid"]),
        "memory": _memory(rows["memory"]),
        "nets": _nets(rows["memory"]),
        "paper": _paper(rows["paper"]),
        "gpu": _gpu(rows.get("gpu", []), numbers.get("gpu", {}).get("machine", {})),
    }


def written(page: str, numbers: Numbers) -> str:
    """The page with its parts as the numbers have them."""
    known = parts(numbers)
    return PART.sub(
        lambda found: f"{found['name']} -->\n{known[found['name']]}",
        (ROOT / page).read_text("utf-8"),
    )


def _speed(rows: Mapping[str, Rows]) -> str:
    """The table of the README."""
    big = {row["solver"]: row for row in rows["transport"] if row["n"] == 500}
    net = next(row for row in rows["elastic_net"] if row["features"] == 10_000)
    by = {(row["kind"], row["size"]): row["MiB"] for row in rows["memory"]}
    lines = [
        "| | condgrad | for comparison |",
        "|---|---|---|",
        "| transport with an entropy and a Laplacian, 500 x 500, to a relative error of 1e-6 | "
        f"{_seconds(big['newton'])} (Newton), {_seconds(big['cgs-memory'])} (CGS) | "
        f"POT's `gcg`: {_seconds(big['pot-gcg'])} |",
        f"| elastic net with a radius, 200 x 10,000, to a gap of 1e-6 | {_milliseconds(net['proved'])}, "
        f"proved | skglm, without a proof: {_milliseconds(net['searched'])}, "
        f"or {_milliseconds(net['reached'])} if it is told the penalty |",
        "| memory of a plan with entropy alone | "
        f"{by['streamed, entropy alone', '10000']:.2g} MiB for 10,000 x 10,000, streamed | "
        f"{by['dense, entropy alone', '4000']:.0f} MiB for 4000 x 4000, dense |",
    ]
    return "\n".join(lines) + "\n"


def _seconds(row: Mapping[str, Any]) -> str:
    return (
        f"{row['to level']:.2g} s"
        if row["to level"] is not None
        else f"not within {row['cap']:.0f} s"
    )


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms"


def _machine(numbers: Numbers) -> str:
    found = numbers["transport"]["machine"]
    return (
        f"Measured on one thread of this machine: {found['processor']}, Python {found['python']}, "
        f"NumPy {found['numpy']}.\n"
    )


def _auto(rows: Rows) -> str:
    counted = [row for row in rows if row["counts"]]
    ratios = [row["ratio"] for row in counted]
    within = sum(ratio <= 2.0 for ratio in ratios)
    return (
        f"In {len(counted)} of {len(rows)} problems, the best method needs 20 ms or more. `auto` takes at most "
        f"twice the time of the best method in {within} of these. The median ratio of the two times is "
        f"{np.median(ratios):.2f}, and the largest is {max(ratios):.1f}.\n"
    )


def _steps(rows: Rows) -> str:
    rules = [key for key in rows[0] if key not in ("problem", "to")]
    lines = [f"| iterations to a gap of | {' | '.join(rules)} |", "|---" * (len(rules) + 1) + "|"]
    for row in rows:
        cells = ("more than 2000" if row[rule] is None else str(row[rule]) for rule in rules)
        lines.append(f"| {row['to']:.0e}, {row['problem']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _benchopt(rows: Rows) -> str:
    """Milliseconds to the level, a column for each solver."""
    from experiments.benchmarks.benchopt import LEVEL, times_of

    table = list(times_of(rows, LEVEL))
    lines = [f"| {' | '.join(table[0]).replace(' ms', '')} |", "|---" * len(table[0]) + "|"]
    for row in table:
        suite, name, reg, *times = row.values()
        cells = (f"{one:g}" if one < math.inf else "not reached" for one in times)
        lines.append(f"| {suite} | {name} | {reg or ''} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _geometry(rows: Rows) -> str:
    """Made clouds, each by an array and streamed, then real data beside the paper's problem."""
    head = "| {} | points | passes | seconds | Newton steps | CG steps | passes for points / steps / vectors, factors |{}"
    lines = [head.format("clouds, to a gap of 1e-8", " gap |"), "|---|---|---|---|---|---|---|---|"]
    lines += [_geometry_line(row, f"{row['gap']:.0e}") for row in rows if row["over paper"] is None]
    last = " time / time of the paper's problem |"
    lines += ["", head.format("real data, to a gap of 1e-6, by `auto`", last)]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [
        _geometry_line(row, f"{row['over paper']:.2g}")
        for row in rows
        if row["over paper"] is not None
    ]
    return "\n".join(lines) + "\n"


def _geometry_line(row: Mapping[str, Any], last: str) -> str:
    name = row["problem"] if row["plan"] == "dense" else f"{row['problem']}, streamed"
    name += "" if row["tol"] == 1e-8 or row["over paper"] is not None else f", to {row['tol']:g}"
    spent = f"{row['on points']} / {row['on steps']} / {row['on vectors'] + row['on factors']}"
    counts = f"{row['points']} | {row['passes']} | {row['seconds']:.2g} | {row['Newton']} | {row['CG']} | {spent}"
    return f"| {name} | {counts} | {last if row['solved'] else 'not solved'} |"


def _grid(rows: Rows) -> str:
    solved = sum(row["status"] == "CONVERGED" for row in rows)
    return (
        f"Newton's method certifies {solved} of {len(rows)} problems of 100 x 100 points to 1e-8. The median number "
        f"of iterations is {np.median([row['iterations'] for row in rows]):.0f}, and the largest is "
        f"{max(row['iterations'] for row in rows)}.\n"
    )


def _memory(rows: Rows) -> str:
    lines = [
        "| plan | points of each side | memory | the same in other units |",
        "|---|---|---|---|",
    ]
    plans = [row for row in rows if row["kind"] != "elastic net"]
    lines += [
        f"| {r['kind']} | {int(r['size']):,} | {r['MiB']:.3g} MiB | {r['in units']} |"
        for r in plans
    ]
    return "\n".join(lines) + "\n"


def _nets(rows: Rows) -> str:
    lines = ["| samples x features | data | additional memory |", "|---|---|---|"]
    for row in rows:
        if row["kind"] == "elastic net":
            samples, features = map(int, row["size"].split("x"))
            data = 8 * samples * features / 2**20
            lines.append(f"| {samples:,} x {features:,} | {data:.3g} MiB | {row['MiB']:.2g} MiB |")
    return "\n".join(lines) + "\n"


def _paper(rows: Rows) -> str:
    """The answer in a sentence, then every claim."""
    by = {verdict: [row for row in rows if row["verdict"] == verdict.value] for verdict in Verdict}
    judged = sum(len(by[verdict]) for verdict in (Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS))
    answer = f"**{len(by[Verdict.HOLDS])} of {len(rows)} claims hold** on this machine, "
    answer += f"{len(by[Verdict.IN_PART])} hold in part, and {len(by[Verdict.FAILS])} fail"
    answer += f". Not judged: {len(rows) - judged}" if judged < len(rows) else ""
    order = sorted(rows, key=lambda row: row["verdict"] != Verdict.FAILS.value)
    lines = ["| claim of the paper | measured |", "|---|---|"]
    lines += [
        f"| **{row['verdict']}**: {_plain(row['claim'])} | {_plain(row['measured'])} |"
        for row in order
    ]
    return f"{answer}.\n\n" + "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text as it is, where a page would take some signs for markup."""
    return re.sub(r"([*_|<>\\])", r"\\\1", text)


def _gpu(rows: Rows, found: Mapping[str, Any]) -> str:
    """Nothing where nobody has measured it."""
    if not rows:
        return ""
    from experiments.benchmarks.transport_gpu import LABELS

    lines = [
        f"On one {found['gpu']}, in float64. Seconds do not include the graphs of neighbours.\n"
    ]
    lines += [
        "| problem | points of each side | seconds | memory | passes | gap, relative to F |",
        "|---|---|---|---|---|---|",
    ]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    for kind in kinds:
        for place, row in enumerate(row for row in rows if row["kind"] == kind):
            name = LABELS.get(kind, kind) if place == 0 else ""
            if "gap" in row:
                proof = f"{row['passes']} | {row['gap']:.0e}, proved"
            else:
                proof = f"| {row['status']} of the marginals after {row['iterations']} iterations"
            lines.append(
                f"| {name} | {row['n']:,} | {row['seconds']:.3g} | {row['GB']:.2g} GiB | {proof} |"
            )
    return "\n".join(lines) + "\n"


def main(only: Sequence[str], *, measured: bool, say: Callable[[str], None]) -> None:
    """Measures what is asked for, then draws and writes all."""
    if measured:
        measure(only or [name for name in MEASURED if name not in ONLY_NAMED], say)
    numbers = kept()
    for picture in draw(numbers):
        say(f"picture  {picture.relative_to(ROOT)}")
    for page in PAGES:
        write_whole(ROOT / page, written(page, numbers).encode())


if __name__ == "__main__":
    from experiments.clock import one_thread

    with one_thread(), contextlib.redirect_stdout(sys.stderr):
        found = [
            {key: _rounded(value) for key, value in row.items()} for row in MEASURED[sys.argv[1]]()
        ]
    sys.stdout.write(json.dumps(found) + "\n")
