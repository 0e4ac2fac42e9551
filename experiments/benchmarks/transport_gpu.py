"""Newton on the certificate on a GPU: seconds and memory to a certified relative gap of 1e-10, in float64.

Run: python -m experiments bench transport_gpu [-- --sizes 2000 10000 20000 40000 --device cuda --out out]
     python -m experiments bench transport_gpu -- --draw out/transport_gpu.json     (the picture alone)

Beside it, for pure entropy, POT's torch Sinkhorn (log domain, which is the one that survives small entropies, and
plain) to a marginal error of 1e-9 on the same device, if POT is there. Saves the table as JSON, and time and memory
against n as a log-log plot.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from experiments.benchmarks import show
from experiments.paper.chapter import Figure, Line, Panel
from experiments.paper.drawing import draw
from experiments.problems import ENTROPY, WEIGHT

STYLES = {"normalised Laplacian": "newton", "raw Laplacian": "cgs-exact", "entropy alone": "cgs-open-loop"}
STYLES |= {"POT sinkhorn_log": "pot-gcg", "POT sinkhorn": "cg"}


def timed(run: Callable[[], Any], device: str) -> tuple[Any, float, float]:
    """What run returns, seconds, and peak gigabytes on the device."""
    import torch

    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    result = run()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return result, seconds, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")


def measured(n: int, device: str, *, warm: bool) -> list[dict[str, Any]]:
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
    rows = []
    for kind, terms in problems.items():
        options: dict[str, Any] = {"entropy": ENTROPY, "regularizers": terms, "method": "newton", "tol": 1e-10}
        if not warm:
            cg.transport.solve(C, **options)  # the first run pays for loading kernels
        result, seconds, gigabytes = timed(partial(cg.transport.solve, C, **options), device)
        row = {"n": n, "kind": kind, "status": str(result.status), "accuracy": result.gap / abs(result.value)}
        row |= {"iterations": result.iterations, "products": int(result.trace["inner_iterations"][-1])}
        rows.append({**row, "seconds": seconds, "gigabytes": gigabytes})
        del result
    return rows + [each for name in ("sinkhorn_log", "sinkhorn") for each in pot(C, device, name)]


def pot(C: Any, device: str, method: str) -> list[dict[str, Any]]:
    try:
        import ot
    except ImportError:
        return []
    n = C.shape[0]
    a = C.new_full((n,), 1.0 / n)
    options: dict[str, Any] = {"method": method, "numItermax": 20_000, "stopThr": 1e-9, "log": True, "warn": False}
    (plan, log), seconds, gigabytes = timed(partial(ot.sinkhorn, a, a, C, ENTROPY, **options), device)
    error = float((plan.sum(1) - a).abs().sum() + (plan.sum(0) - a).abs().sum())
    row = {"n": n, "kind": f"POT {method}", "accuracy": error, "iterations": int(log["niter"])}
    return [{**row, "seconds": seconds, "gigabytes": gigabytes}]


def draw_table(rows: list[dict[str, Any]], title: str, folder: Path) -> None:
    """Time and memory against n, log-log."""
    panels = []
    for column, label in (("seconds", "seconds"), ("gigabytes", "peak memory, GB")):
        lines = []
        for kind, style in STYLES.items():
            mine = [each for each in rows if each["kind"] == kind]
            lines.append(Line(style, [each["n"] for each in mine], [each[column] for each in mine], label=kind))
        if column == "gigabytes":
            sizes = sorted({each["n"] for each in rows})
            lines.append(Line("bound", sizes, [8 * n * n / 2**30 for n in sizes], label="one plan in float64"))
        panels.append(Panel(title, "points on each side, n", label, lines, log_x=True))
    draw(Figure("transport_gpu", title, "", "", [panels]), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 10_000, 20_000])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--draw", type=Path, help="draw this table instead of measuring")
    options = parser.parse_args()
    if options.draw is not None:
        table = json.loads(options.draw.read_text())
        draw_table(table["rows"], table["title"], options.draw.parent)
        return
    import torch

    title = f"{torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, float64, tol 1e-10"
    print(title)
    rows: list[dict[str, Any]] = []
    options.out.mkdir(parents=True, exist_ok=True)
    for n in options.sizes:
        rows += measured(n, options.device, warm=bool(rows))
        show(rows)
        (options.out / "transport_gpu.json").write_text(json.dumps({"title": title, "rows": rows}, indent=1))
    draw_table(rows, title, options.out)


if __name__ == "__main__":
    main()
