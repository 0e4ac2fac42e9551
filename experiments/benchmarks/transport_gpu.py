"""Transport on a GPU from thousands to a million points: seconds and memory to a certified gap, in float64.

Run: python -m experiments bench transport_gpu [-- --sizes 2000 20000 100000 1000000 --device cuda --tol 1e-8]
     python -m experiments bench transport_gpu -- --draw out/transport_gpu.json     (the picture alone)

The problems are those of `transport_streamed`; beyond 300 000 points the first of them alone, to a gap of 1e-6. Beside
them, for pure entropy and up to 40 000 points, POT's Sinkhorn in torch on the same device, if POT is there (in the log
domain, which survives small entropies, and plain): to a marginal error of 1e-9 or for 1000 iterations. It holds the
cost as an array. Saves the table as JSON, and seconds and memory against n as a log-log plot.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from experiments.benchmarks import run, show
from experiments.benchmarks.transport_streamed import measured, points
from experiments.paper.figures import Figure, Line, Panel
from experiments.paper.figures import draw as draw_figure
from experiments.problems import ENTROPY

LABELS = {
    "clusters": "normalised Laplacian",
    "square": "raw Laplacian",
    "small": "raw Laplacian, entropy 3e-3",
    "entropy": "entropy alone",
}
STYLES = {
    "clusters": "newton",
    "square": "cgs-exact",
    "small": "cgs-armijo",
    "entropy": "cgs-open-loop",
}
STYLES |= {"POT sinkhorn_log": "pot-gcg", "POT sinkhorn": "cg"}
SIZES = (2000, 5000, 20_000, 100_000, 1_000_000)
LARGEST_ARRAY = 40_000
"""Points a side up to which a method that holds n x m arrays is asked."""
VERY_MANY, VERY_MANY_TOL = 300_000, 1e-6
"""Points a side beyond which there is one problem, and the gap asked of it."""


def rows_of(n: int, device: str, tol: float) -> Iterator[dict[str, Any]]:
    """A row for each problem and solver."""
    for kind in LABELS if n <= VERY_MANY else ("clusters",):
        yield measured(
            kind, n, device, tol if n <= VERY_MANY else max(tol, VERY_MANY_TOL), "streamed"
        )
    for method in ("sinkhorn_log", "sinkhorn") if find_spec("ot") and n <= LARGEST_ARRAY else ():
        yield {"kind": f"POT {method}", "n": n, **pot(n, device, method)}


def pot(n: int, device: str, method: str) -> dict[str, Any]:
    import ot
    import torch

    Xs, Xt = (torch.as_tensor(X, device=device) for X in points("entropy", n))
    cuda = torch.cuda if device == "cuda" else None
    if cuda is not None:
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        cuda.synchronize()
    begin = time.perf_counter()
    C = torch.cdist(Xs, Xt) ** 2
    a = C.new_full((n,), 1.0 / n)
    options: dict[str, Any] = {
        "method": method,
        "numItermax": 1000,
        "stopThr": 1e-9,
        "log": True,
        "warn": False,
    }
    _, log = ot.sinkhorn(a, a, C, ENTROPY, **options)
    if cuda is not None:
        cuda.synchronize()
    seconds = time.perf_counter() - begin
    gigabytes = None if cuda is None else cuda.max_memory_allocated() / 2**30
    return {
        "seconds": seconds,
        "GB": gigabytes,
        "iterations": int(log["niter"]) + 1,
        "status": f"error {log['err'][-1]:.0e}",
    }


def figure_of(rows: list[dict[str, Any]], title: str) -> Figure:
    """Seconds and memory against n, log-log."""
    table = pd.DataFrame(rows)
    panels = []
    for column, label in (("seconds", "seconds"), ("GB", "peak memory, GiB")):
        kinds = {kind: table[table["kind"] == kind] for kind in STYLES}
        lines = [
            Line(STYLES[kind], own["n"], own[column], label=LABELS.get(kind, kind))
            for kind, own in kinds.items()
            if len(own)
        ]
        if column == "GB":
            sizes = table["n"].unique()
            lines.append(Line("bound", sizes, 8.0 * sizes**2 / 2**30, label="one plan as an array"))
        panels.append(Panel(title, "points of each side", label, lines, log_x=True))
    return Figure("transport_gpu", title, "", "", [panels])


def all_rows(sizes: Sequence[int], device: str, tol: float) -> Iterator[dict[str, Any]]:
    """Those of all sizes, kernels being loaded before."""
    for kind in LABELS:
        measured(kind, 300, device, 1e-3, "streamed")
    if find_spec("ot"):
        pot(300, device, "sinkhorn_log")
    for n in sizes:
        yield from rows_of(n, device, tol)


def main(
    *,
    sizes: tuple[int, ...] = SIZES,
    device: str = "cuda",
    tol: float = 1e-8,
    out: str = "out",
    draw: Annotated[Path | None, "draw this table instead of measuring"] = None,
) -> None:
    file = draw or Path(out) / "transport_gpu.json"
    if draw is None:
        import torch

        title = (
            f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}, float64, tol {tol:g}"
        )
        print(title)
        file.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, Any]] = []
        for row in all_rows(sizes, device, tol):
            rows.append(row)
            file.write_text(json.dumps({"title": title, "rows": rows}, indent=1))
        show(rows)
    table = json.loads(file.read_text())
    draw_figure(figure_of(table["rows"], table["title"]), file.parent)


if __name__ == "__main__":
    run(main)
