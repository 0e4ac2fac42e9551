"""Newton on the certificate on a GPU: seconds and memory to a certified relative gap of 1e-10, in float64.

Run: python -m experiments bench transport_gpu [-- --sizes 2000 10000 20000 40000 --device cuda --out out]
     python -m experiments bench transport_gpu -- --draw out/transport_gpu.json     (the picture alone)

Beside it, for pure entropy, POT's torch Sinkhorn (log domain, which is the one that survives small entropies, and
plain) to a marginal error of 1e-9 on the same device, if POT is there. Saves the table as JSON, and time and memory
against n as a log-log plot.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from experiments.benchmarks import run, show
from experiments.paper.figures import Figure, Line, Panel, draw
from experiments.problems import ENTROPY, WEIGHT

STYLES = {"normalised Laplacian": "newton", "raw Laplacian": "cgs-exact", "entropy alone": "cgs-open-loop"}
STYLES |= {"POT sinkhorn_log": "pot-gcg", "POT sinkhorn": "cg"}


def timed(work: Callable[[], Any], device: str) -> tuple[Any, dict[str, float]]:
    """What work returns; its seconds, and peak gigabytes on the device."""
    import torch

    cuda = device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    result = work()
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return result, {"seconds": seconds, "gigabytes": torch.cuda.max_memory_allocated() / 2**30 if cuda else math.nan}


def measured(n: int, device: str, *, warm: bool) -> Iterator[dict[str, Any]]:
    """A row for each problem and solver."""
    import torch

    import condgrad as cg

    data = cg.datasets.make_clusters(n)
    Xs, Xt = (torch.as_tensor(X, device=device) for X in (data.Xs, data.Xt))
    C = torch.cdist(Xs, Xt) ** 2
    problems: dict[str, list[Any]] = {
        "normalised Laplacian": [cg.transport.Laplacian(Xs, Xt, weight=WEIGHT)],
        "raw Laplacian": [cg.transport.Laplacian(Xs, Xt, weight=WEIGHT, normalized=False)],
        "entropy alone": [],
    }
    for kind, terms in problems.items():
        solve = partial(cg.transport.solve, C, entropy=ENTROPY, regularizers=terms, method="newton", tol=1e-10)
        if not warm:
            solve()  # the first run pays for loading kernels
        result, cost = timed(solve, device)
        row = {"n": n, "kind": kind, "status": str(result.status), "accuracy": result.gap / abs(result.value)}
        row |= {"iterations": result.iterations, "products": int(result.trace["inner_iterations"][-1])}
        del result
        yield {**row, **cost}
    for method in ("sinkhorn_log", "sinkhorn") if find_spec("ot") else ():
        yield {"n": n, "kind": f"POT {method}", **pot(C, device, method)}


def pot(C: Any, device: str, method: str) -> dict[str, Any]:
    import ot

    a = C.new_full((len(C),), 1.0 / len(C))
    options: dict[str, Any] = {"method": method, "numItermax": 20_000, "stopThr": 1e-9, "log": True, "warn": False}
    (plan, log), cost = timed(partial(ot.sinkhorn, a, a, C, ENTROPY, **options), device)
    error = float((plan.sum(1) - a).abs().sum() + (plan.sum(0) - a).abs().sum())
    return {"accuracy": error, "iterations": int(log["niter"]), **cost}


def draw_table(rows: list[dict[str, Any]], title: str, folder: Path) -> None:
    """Time and memory against n, log-log."""
    table = pd.DataFrame(rows)
    panels = []
    for column, label in (("seconds", "seconds"), ("gigabytes", "peak memory, GB")):
        kinds = {kind: table[table["kind"] == kind] for kind in STYLES}
        lines = [Line(STYLES[kind], own["n"], own[column], label=kind) for kind, own in kinds.items()]
        if column == "gigabytes":
            sizes = table["n"].unique()
            lines.append(Line("bound", sizes, 8.0 * sizes**2 / 2**30, label="one plan in float64"))
        panels.append(Panel(title, "points on each side, n", label, lines, log_x=True))
    draw(Figure("transport_gpu", title, "", "", [panels]), folder)


def main(
    *,
    sizes: tuple[int, ...] = (2000, 10_000, 20_000),
    device: str = "cuda",
    out: str = "out",
    draw: Annotated[Path | None, "draw this table instead of measuring"] = None,
) -> None:
    file = draw or Path(out) / "transport_gpu.json"
    if draw is None:
        import torch

        title = f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}, float64, tol 1e-10"
        print(title)
        file.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, Any]] = []
        for n in sizes:
            rows += measured(n, device, warm=bool(rows))
            show(rows)
            file.write_text(json.dumps({"title": title, "rows": rows}, indent=1))
    table = json.loads(file.read_text())
    draw_table(table["rows"], table["title"], file.parent)


if __name__ == "__main__":
    run(main)
